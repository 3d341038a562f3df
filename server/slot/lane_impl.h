#ifndef PS_SERVER_SLOT_LANE_IMPL_H
#define PS_SERVER_SLOT_LANE_IMPL_H
/*
 * slot/lane_impl.h — the inside of a lane, shared by lane.c (mail, decisions), lane_apply.c
 * (records into tables), lane_rows.c (sparse tables) and lane_scan.c. Nobody else includes it.
 */
#include <stdatomic.h>

#include "base/list.h"
#include "optim/rows.h"
#include "slot/lane.h"
#include "slot/slot_core.h"

/** Aggregated bsp: one fragment of one unit, kept until its step is closed. */
struct ps_staged {
    struct ps_list node; /* lane->staged. */
    uint32_t slot;
    uint64_t session;
    uint64_t step;
    struct ps_seen_item item;
    uint32_t rows;
    float rate;
    uint32_t n_parts;
    struct ps_cursor payload;
    struct ps_msg *msg;     /* A reference. */
    struct ps_part parts[]; /* [n_parts] */
};

/** Of a sparse table in this lane, as last counted. Any thread reads. */
struct ps_lane_figures {
    _Atomic uint64_t rows;
    _Atomic uint64_t bytes;
    _Atomic uint64_t created;
    _Atomic uint64_t updated;
    _Atomic uint64_t dropped;
    _Atomic uint64_t expired;
    _Atomic uint64_t refused; /* Pushes without memory. */
};

/** A sparse table: what it has in each slot. */
struct ps_lane_rows {
    struct ps_optim_rows rule;
    struct ps_lane_figures figures;
    struct ps_sparse *slots[PS_SLOTS]; /* NULL: not of this lane, or not of this server. */
};

struct ps_lane {
    struct ps_lane_options options;
    struct ps_gate gate;
    struct ps_slot *slots[PS_SLOTS];          /* NULL: of another lane. */
    struct ps_dense *tables[PS_TABLES_MAX];   /* NULL: not made, or sparse. */
    struct ps_lane_rows *rows[PS_TABLES_MAX]; /* NULL: not made, or dense. */
    uint32_t n_tables;
    struct ps_sparse_claim claims[PS_TABLES_MAX]; /* Of the record in hand; by table. */
    uint64_t keys[PS_KEYS_AT_ONCE];               /* Being read. */
    uint32_t sweep_slot;                          /* Swept last by ps_lane_rows_tend. */
    uint64_t tended_ms;
    uint64_t full_ms; /* When it was last said that memory is used up. */
    bool full;        /* The record in hand found none for rows. */
    bool aggregate;
    bool stopping;
    uint64_t term;
    uint64_t generation;
    struct ps_list staged;
    struct ps_staged *staged_ahead; /* Memory for the next one, made by ps_lane_make_room. */
    float *scratch; /* [PS_BLOCK_FLOATS_MAX] sum of a step's gradients; made when first needed. */
    struct ps_timer timer; /* Looks after parked pulls. */
    struct ps_mail stop_mail;
    struct ps_mail *stop_done;
    struct ps_exec *stop_home;
};

/**
 * Make sure that a PUSH or STAGE record can be applied, before its sequence is taken: a record that
 * is in the log has no way back. False without memory; a later call may succeed.
 */
PS_MUST_CHECK bool ps_lane_make_room(struct ps_lane *lane, const struct ps_record *record);

/** Let go of what ps_lane_make_room prepared and no record has used. */
void ps_lane_leave_room(struct ps_lane *lane, const struct ps_record *record);

/** Put a committed record into the tables of its slot. */
void ps_lane_apply(struct ps_lane *lane, const struct ps_record *record);

/** What of a STAGE record's slot, session and step is staged already. */
struct ps_staged_view {
    bool same;  /* This very fragment. */
    bool other; /* Something of another unit. */
};
struct ps_staged_view ps_lane_staged(const struct ps_lane *lane, const struct ps_record *record);

void ps_staged_free(struct ps_staged *staged);

/* ---- lane_rows.c ----------------------------------------------------------------------------- */

/** Make what is missing of a sparse table in the lane's slots. */
PS_MUST_CHECK enum ps_status ps_lane_rows_make(struct ps_lane *lane, uint32_t table,
                                               struct ps_error *err);
void ps_lane_rows_destroy(struct ps_lane *lane);

/** Does the slot hold its share of a table, a sparse one? */
bool ps_lane_rows_here(const struct ps_lane *lane, uint32_t table, uint32_t slot);

/** Memory for a pushed part, into lane->claims; false without. `values` begin with the keys. */
PS_MUST_CHECK bool ps_lane_rows_reserve(struct ps_lane *lane, uint32_t slot,
                                        const struct ps_part *part, struct ps_cursor values);
/** Give back what is left of it. */
void ps_lane_rows_release(struct ps_lane *lane, uint32_t slot, const struct ps_part *part);

/** Apply a part whose memory is reserved. */
void ps_lane_rows_apply(struct ps_lane *lane, uint32_t slot, const struct ps_record_push *push,
                        const struct ps_part *part, struct ps_cursor values);

/** Bytes of the values that a pulled part asks for. */
uint64_t ps_lane_rows_bytes(const struct ps_lane *lane, const struct ps_part *want);

/** These values, of the heap; NULL without memory. `*keys` moves behind the part's keys. */
PS_MUST_CHECK float *ps_lane_rows_gather(struct ps_lane *lane, uint32_t slot,
                                         const struct ps_part *want, struct ps_cursor *keys);

/** Now and then: free some rows that have expired, count. */
void ps_lane_rows_tend(struct ps_lane *lane);

#endif
