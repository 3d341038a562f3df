#ifndef PS_SERVER_SLOT_LANE_IMPL_H
#define PS_SERVER_SLOT_LANE_IMPL_H
/*
 * slot/lane_impl.h — the inside of a lane, shared by lane.c (mail, decisions) and lane_apply.c
 * (records into tables). Nobody else includes it.
 */
#include "base/list.h"
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

struct ps_lane {
    struct ps_lane_options options;
    struct ps_gate gate;
    struct ps_slot *slots[PS_SLOTS]; /* NULL: of another lane. */
    struct ps_dense *tables[PS_TABLES_MAX];
    uint32_t n_tables;
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

#endif
