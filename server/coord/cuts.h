#ifndef PS_SERVER_COORD_CUTS_H
#define PS_SERVER_COORD_CUTS_H
/*
 * coord/cuts.h — where cuts are kept, as the coordinator sees it. Servers write their parts; this
 * makes a cut complete, finds one again, and makes room. Implemented by snap/ over a disk.
 *
 * Blocking; called on the coordinator's executor. No keeper: there are no cuts.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"

#define PS_CUT_NAME_BYTES  52u /* "000001-0000000042", or as many digits as it takes. */
#define PS_CUT_DIR_BYTES   4096u
#define PS_CUT_TAKEN_BYTES 32u

/** Of one server, that it has written its part. */
struct ps_cut_part {
    uint32_t server;     /* Index. */
    const char *address; /* Of the server now. */
    uint64_t n_bytes;
    uint8_t checksum[16]; /* Of PART. */
};

/** A cut of which every part is written. */
struct ps_cut_whole {
    uint64_t generation;
    uint64_t cut;
    struct ps_id cluster;
    const uint8_t *job; /* [n_job_bytes] job.pb. */
    size_t n_job_bytes;
    const struct ps_cut_part *parts; /* [n_parts] By server. */
    uint32_t n_parts;
};

/** A complete cut. */
struct ps_cut_found {
    uint64_t generation;
    uint64_t cut;
    char name[PS_CUT_NAME_BYTES];
    char dir[PS_CUT_DIR_BYTES];     /* That its folder is in. */
    char taken[PS_CUT_TAKEN_BYTES]; /* RFC 3339, UTC. */
    uint64_t n_bytes;
    uint8_t *job; /* [n_job_bytes] Verified; freed with ps_mem_free. NULL where not asked for. */
    size_t n_job_bytes;
};

/** Which complete cuts stay. */
struct ps_cut_kept {
    uint32_t n;          /* The newest ones; 0: as many as the keeper was made for. */
    uint64_t generation; /* And the one that the job stands on, whatever its age; 0, 0: none. */
    uint64_t cut;
    /* Set: the oldest complete one that is left; 0, 0: there is none. */
    uint64_t oldest_generation;
    uint64_t oldest_cut;
};

struct ps_cut_keeper;

struct ps_cut_keeper_ops {
    /**
     * Write job.pb, then MANIFEST: it is complete on return, and only then.
     * @param ret  without the job
     * @return PS_ERR_IO, PS_ERR_NO_SPACE, PS_ERR_NOMEM: the cut is given up
     */
    enum ps_status (*finish)(struct ps_cut_keeper *keeper, const struct ps_cut_whole *whole,
                             struct ps_cut_found *ret, struct ps_error *err);
    /** The complete cut of this generation and number. @return PS_ERR_NOT_FOUND, PS_ERR_CORRUPT */
    enum ps_status (*find)(struct ps_cut_keeper *keeper, uint64_t generation, uint64_t cut,
                           struct ps_cut_found *ret, struct ps_error *err);
    /** The newest complete one of this directory; NULL: of all that the keeper knows. */
    enum ps_status (*newest)(struct ps_cut_keeper *keeper, const char *dir,
                             struct ps_cut_found *ret, struct ps_error *err);
    /** Remove all complete ones but these, and what is older and incomplete. */
    enum ps_status (*keep)(struct ps_cut_keeper *keeper, struct ps_cut_kept *kept,
                           struct ps_error *err);
};

struct ps_cut_keeper {
    const struct ps_cut_keeper_ops *ops;
};

PS_MUST_CHECK static inline enum ps_status ps_cut_finish(struct ps_cut_keeper *keeper,
                                                         const struct ps_cut_whole *whole,
                                                         struct ps_cut_found *ret,
                                                         struct ps_error *err)
{
    return keeper->ops->finish(keeper, whole, ret, err);
}

PS_MUST_CHECK static inline enum ps_status ps_cut_find(struct ps_cut_keeper *keeper,
                                                       uint64_t generation, uint64_t cut,
                                                       struct ps_cut_found *ret,
                                                       struct ps_error *err)
{
    return keeper->ops->find(keeper, generation, cut, ret, err);
}

PS_MUST_CHECK static inline enum ps_status ps_cut_newest(struct ps_cut_keeper *keeper,
                                                         const char *dir, struct ps_cut_found *ret,
                                                         struct ps_error *err)
{
    return keeper->ops->newest(keeper, dir, ret, err);
}

PS_MUST_CHECK static inline enum ps_status
ps_cut_keep(struct ps_cut_keeper *keeper, struct ps_cut_kept *kept, struct ps_error *err)
{
    return keeper->ops->keep(keeper, kept, err);
}

#endif
