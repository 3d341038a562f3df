#ifndef PS_SERVER_COORD_CUT_CORE_H
#define PS_SERVER_COORD_CUT_CORE_H
/*
 * coord/cut_core.h — one cut at a time: from the wish to the manifest. Pure.
 *
 *   IDLE --begin--> HOLD --all hold, or 50 ms--> NOTE --noted--> TAKE --all took--> WRITE
 *     ^                                                                               | all wrote
 *     +------- complete, or given up (from any state) ------------------- FINISH <----+
 *
 *   HOLD    workers that have a lease hold their next unit
 *   NOTE    the shell records leases and clocks: before any slot is cut, so that the cut of a slot
 *           has at least what the record says (rule 1)
 *   TAKE    servers are told to take the shares of their slots; then workers go on. They do so 50
 *           ms after they were told to hold in any case: what they repeat is exact all the same
 *   WRITE   parts are written in the background
 *   FINISH  the shell writes the manifest and says how that went
 *
 * A server that goes away in between has the cut given up. Numbers are never used twice.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

#define PS_COORD_CUT_WHY_BYTES 200u

enum ps_coord_cut_state {
    PS_COORD_CUT_IDLE,
    PS_COORD_CUT_HOLD,
    PS_COORD_CUT_NOTE,
    PS_COORD_CUT_TAKE,
    PS_COORD_CUT_WRITE,
    PS_COORD_CUT_FINISH,
    PS_COORD_CUT_STATE_COUNT
};

/* What a server says of its part. */
struct ps_coord_cut_report {
    uint64_t taken;   /* The latest cut that all its slots took. */
    uint64_t written; /* The latest whose part is on its disk, or failed; 0: none. */
    bool failed;
    const char *why; /* With `failed`. */
    uint64_t n_bytes;
    uint8_t checksum[16];
    bool wanted; /* Its log is long. */
};

struct ps_coord_cut_share {
    bool taken;
    bool written;
    uint64_t n_bytes;
    uint8_t checksum[16];
};

struct ps_coord_cut {
    enum ps_coord_cut_state state;
    uint64_t number; /* Under way; else the last one. */
    uint64_t next;   /* The next one's. */
    bool wanted;
    bool told;          /* Workers have been told to hold. */
    bool let_go;        /* They no longer do. */
    bool all_held;      /* Nobody had begun a unit when the record was made. */
    uint64_t begun_ms;  /* When workers were told to hold, and */
    uint64_t let_go_ms; /*   to go on. */
    uint64_t taken_ms;
    uint64_t ended_ms; /* When the last one ended. */
    uint64_t complete; /* The last one that became complete, */
    uint64_t given_up; /*   or was given up. */
    uint64_t n_given_up;
    char why[PS_COORD_CUT_WHY_BYTES]; /* It was. */
    uint32_t n_servers;
    struct ps_coord_cut_share shares[PS_SERVERS_MAX];
};

/** `first` > 0: no cut has this number or a higher one. */
void ps_coord_cut_init(struct ps_coord_cut *cut, uint64_t first, uint64_t now_ms);

/** Begin the next one; only from IDLE. */
void ps_coord_cut_begin(struct ps_coord_cut *cut, uint64_t now_ms, uint32_t n_servers);

/** Only now, when its number is in the store, do workers hear of it: their time begins. */
void ps_coord_cut_told(struct ps_coord_cut *cut, uint64_t now_ms);

/** Enough have held, or have had their time. */
void ps_coord_cut_held(struct ps_coord_cut *cut, bool all);

/** The record of leases and clocks is made. */
void ps_coord_cut_noted(struct ps_coord_cut *cut);

/** A server's report; those of other cuts change nothing. */
void ps_coord_cut_reported(struct ps_coord_cut *cut, uint64_t now_ms, uint32_t server,
                           const struct ps_coord_cut_report *report);

/** The time to hold is over. */
void ps_coord_cut_release(struct ps_coord_cut *cut, uint64_t now_ms);

/** The manifest is written. */
void ps_coord_cut_completed(struct ps_coord_cut *cut, uint64_t now_ms);

/** Whatever state it is in, it will not be; nothing when none is under way. */
void ps_coord_cut_give_up(struct ps_coord_cut *cut, uint64_t now_ms, const char *why);

bool ps_coord_cut_under_way(const struct ps_coord_cut *cut);

/** The cut for which workers are to hold; 0: none. */
uint64_t ps_coord_cut_hold(const struct ps_coord_cut *cut);

/** The cut that servers are to take; 0: none. */
uint64_t ps_coord_cut_order(const struct ps_coord_cut *cut);

/** Bytes of all parts. */
uint64_t ps_coord_cut_bytes(const struct ps_coord_cut *cut);

#endif
