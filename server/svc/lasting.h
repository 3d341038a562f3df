#ifndef PS_SERVER_SVC_LASTING_H
#define PS_SERVER_SVC_LASTING_H
/*
 * svc/lasting.h — what attending asks of whatever outlives the process: identity, log, snapshots.
 * The server implements it; attending knows neither a disk nor a file.
 *
 * All on the main executor. What takes time is answered later, by the functions at the end of
 * attend.h, and never from within the call.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"

struct ps_lasting;

#define PS_LASTING_NAME_BYTES \
    64u /* Of a cut: "000001-0000000042", or as many digits as it takes. */

/** The job goes back: forget everything, load this. */
struct ps_lasting_restore {
    uint64_t generation;     /* To be loaded as. */
    uint64_t cut_generation; /* What the cut is called, */
    uint64_t cut;
    char name[PS_LASTING_NAME_BYTES]; /*   as text, too. */
    char dir[PS_DIR_BYTES_MAX + 1];   /* Where the coordinator has found it. */
    uint64_t slots;                   /* Bit s: slot s is ours. */
};

enum ps_lasting_when {
    PS_LASTING_DONE,
    PS_LASTING_LATER, /* It is answered. */
    PS_LASTING_NEVER  /* `err` says why. */
};

struct ps_lasting_ops {
    /** It is this one's place in that cluster, which is at that generation. Before anything else,
     * in every life. */
    enum ps_status (*joined)(struct ps_lasting *lasting, const struct ps_id *cluster,
                             uint32_t index, uint64_t generation, struct ps_error *err);
    /** A table's definition, packed; durable before any record names it. An equal one again is
     * fine, another one of the same number never. LATER: ps_attend_logged. */
    enum ps_lasting_when (*table)(struct ps_lasting *lasting, uint32_t number, const uint8_t *bytes,
                                  size_t n_bytes, struct ps_error *err);
    /** The catalogue has all tables of the cut. LATER: ps_attend_restored. */
    enum ps_lasting_when (*restore)(struct ps_lasting *lasting,
                                    const struct ps_lasting_restore *order, struct ps_error *err);
    /** Take a cut of all slots and write it: ps_attend_cut_taken, then _written. A newer order
     * calls an older one off. */
    enum ps_lasting_when (*cut)(struct ps_lasting *lasting, uint64_t cut, struct ps_error *err);
    /** This cut will never be complete: what there is of our part is of no use. */
    void (*gave_up)(struct ps_lasting *lasting, uint64_t cut);
    /** The oldest of this generation that is kept; log that it covers is needed no more. */
    void (*kept)(struct ps_lasting *lasting, uint64_t cut);
    /** The oldest of all that are kept: of older ones our parts may go. */
    void (*oldest)(struct ps_lasting *lasting, uint64_t generation, uint64_t cut);
    /** The log is long: a cut would let it be cut short. */
    bool (*wants_cut)(struct ps_lasting *lasting);
};

struct ps_lasting {
    const struct ps_lasting_ops *ops;
};

#endif
