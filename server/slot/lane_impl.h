#ifndef PS_SERVER_SLOT_LANE_IMPL_H
#define PS_SERVER_SLOT_LANE_IMPL_H
/*
 * slot/lane_impl.h — the inside of a lane, shared by its files. Nobody else includes it.
 *
 *   lane_push, lane_news   propose ──record──> lane_pipe: committer, order, who waits for it
 *                                                 │ committed
 *   lane_pull, lane_scan   read                   └──> lane_apply, lane_rows: tables
 *   lane_cut, lane_restore   slots as a whole, out and in
 */
#include <stdatomic.h>

#include "base/failpoint.h"
#include "base/list.h"
#include "optim/rows.h"
#include "slot/lane.h"
#include "slot/slot_core.h"

/** Aggregated bsp: one fragment of one unit, kept until its step is closed. */
struct ps_staged {
    struct ps_list node; /* lane->staged: since it was proposed. */
    uint32_t slot;
    uint64_t epoch;
    uint64_t position;
    uint64_t session;
    uint64_t step;
    uint64_t clock;
    struct ps_seen_item item;
    uint32_t rows;
    float rate;
    float scale;
    uint32_t n_parts;
    struct ps_cursor payload;
    struct ps_msg *msg;     /* A reference. */
    struct ps_part parts[]; /* [n_parts] */
};

/** Memory that a record has claimed for one of its parts. */
union ps_part_claim {
    struct ps_sparse_claim rows; /* Of a part with keys. */
    bool twin;                   /* Of a block. */
};

#define PS_PENDING_CLAIMS 16u /* Parts of a slot in one call: mostly one a table. */

/**
 * A record on its way to the tables, and what was found for it. It borrows from the call or the
 * update that it is of, which therefore wait until it is applied.
 */
struct ps_pending {
    struct ps_commit_entry entry;
    struct ps_list node;         /* lane->pending or lane->spare. */
    union ps_part_claim *claims; /* [n_claims] in use, of n_claims_room. */
    uint32_t n_claims;
    uint32_t n_claims_room;
    union ps_part_claim few_claims[PS_PENDING_CLAIMS];
    union ps_part_claim *more_claims; /* Of the heap, once a record had more parts; kept. */
    struct ps_staged *staged;         /* Memory of a STAGE record, until it is proposed. */
    bool late;                        /* Other records may have been applied since it was made. */
    bool dropped;                     /* The lane was cleared: it is not applied. */
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

/** Where a slot stands. Any thread reads: the position first. */
struct ps_lane_stand {
    _Atomic uint64_t epoch;
    _Atomic uint64_t position;
};

struct ps_lane {
    struct ps_lane_options options;
    struct ps_gate gate;
    struct ps_slot *slots[PS_SLOTS];          /* NULL: of another lane. */
    struct ps_dense *tables[PS_TABLES_MAX];   /* NULL: not made, or sparse. */
    struct ps_lane_rows *rows[PS_TABLES_MAX]; /* NULL: not made, or dense. */
    uint32_t n_tables;
    uint64_t keys[PS_KEYS_AT_ONCE]; /* Being read. */
    uint32_t sweep_slot;            /* Swept last by ps_lane_rows_tend. */
    uint64_t tended_ms;
    uint64_t full_ms; /* When it was last said that memory is used up. */
    bool full;        /* The record in hand found none for rows. */
    bool aggregate;
    bool stopping; /* No record is made any more. */
    bool ended;    /* Nobody waits for one any more. */
    uint64_t term;
    uint64_t generation;
    struct ps_list staged;
    float *scratch; /* [PS_BLOCK_FLOATS_MAX] sum of a step's gradients; made when first needed. */
    struct ps_timer timer; /* Looks after parked pulls. */
    struct ps_mail stop_mail;
    struct ps_mail *stop_done;
    struct ps_exec *stop_home;
    /* lane_pipe */
    struct ps_commit_sink sink;
    struct ps_list pending;  /* Records with the committer, by ticket. */
    struct ps_pending *hand; /* The record being made. */
    struct ps_list spare;    /* To follow it; at least one after each success. */
    uint32_t n_spare;
    uint64_t ticket;                 /* Of the record appended last. */
    uint64_t done_ticket;            /* Of the record applied (or dropped) last. */
    uint64_t slot_tickets[PS_SLOTS]; /* Of the last record of each slot. */
    struct ps_list shares;           /* Of calls that wait, by ticket. */
    struct ps_list updates;          /* That wait, in their order. */
    uint32_t n_clears;               /* Waiting for what was before one means waiting in vain. */
    struct ps_lane_stand stands[PS_SLOTS];
    _Atomic uint64_t clock;     /* gate.min_clock, for others to see. */
    _Atomic uint32_t lost_slot; /* 1 + a slot that was found below a claim. */
    /* lane_cut */
    struct ps_cut *cut;     /* Being taken; NULL: none. */
    uint32_t n_cut_left;    /* Slots whose tables it waits for. */
    uint8_t *state_scratch; /* [PS_SLOT_STATE_BYTES_MAX], made when first needed. */
};

/* ---- lane.c --------------------------------------------------------------------------------- */

bool ps_lane_mine(const struct ps_lane *lane, uint32_t slot);

/** Make what is missing of a table in slots that are this server's or have a line. */
PS_MUST_CHECK enum ps_status ps_lane_make_table(struct ps_lane *lane, uint32_t table,
                                                struct ps_error *err);

/** Free all tables and staged gradients. */
void ps_lane_drop_tables(struct ps_lane *lane);

/** Is the slot of this lane, and has it tables: is it this server's, or has it a line? */
bool ps_lane_holds(const struct ps_lane *lane, uint32_t slot);

/** Note the slot if `status` says that it is below a claim. @return `status` */
enum ps_status ps_lane_note_lost(struct ps_lane *lane, uint32_t slot, enum ps_status status);

/** May the claim touch the slot? As ps_slot_admit; notes what is lost. */
enum ps_status ps_lane_admit(struct ps_lane *lane, uint32_t slot, const struct ps_claim *claim);

struct ps_claim ps_lane_claim(const struct ps_data_request *request,
                              const struct ps_slot_part *part);

/* ---- lane_pipe.c ---------------------------------------------------------------------------- */

PS_MUST_CHECK bool ps_lane_pipe_init(struct ps_lane *lane);
void ps_lane_pipe_destroy(struct ps_lane *lane);

/** Is there memory for the record that will follow the one in hand? */
PS_MUST_CHECK bool ps_lane_can_follow(struct ps_lane *lane);

/**
 * Hand the record in hand to the committer; when it is committed at once it is applied, too. A push
 * has asked ps_lane_can_follow before; news have no way back and go beyond the budget.
 */
void ps_lane_commit(struct ps_lane *lane);

/** A share whose pushes are done waits for `share->ticket`, or goes on at once. */
void ps_lane_share_waits(struct ps_lane *lane, struct ps_share_mail *share);

/** Likewise an update whose records are made. */
void ps_lane_update_waits(struct ps_lane *lane, struct ps_update_mail *share);

/** What ps_lane_positions says of a slot from now on. */
void ps_lane_note_stand(struct ps_lane *lane, uint32_t number);

/** The committer is gone: whoever waits is told that it was in vain. */
void ps_lane_pipe_end(struct ps_lane *lane);

/** Records with the committer are not to be applied. */
void ps_lane_pipe_clear(struct ps_lane *lane);

/* ---- lane_push.c, lane_pull.c, lane_news.c --------------------------------------------------- */

/** Make the records of a call's pushes; their answers are true once share->ticket is applied. */
void ps_lane_push(struct ps_lane *lane, struct ps_share_mail *share);

/** What the share has pushed is applied: answer it, or see to its pull. */
void ps_lane_share_pushed(struct ps_lane *lane, struct ps_share_mail *share);

/** A share has waited: pushes not applied are UNAVAIL, those in slots that moved NOT_PRIMARY. */
void ps_lane_settle(struct ps_lane *lane, struct ps_share_mail *share);

/** Answer all parked pulls with NOT_YET. */
void ps_lane_unpark_all(struct ps_lane *lane);

/** Answer parked pulls of slots that have moved or by sessions that were closed. */
void ps_lane_unpark_refused(struct ps_lane *lane);

/** Answer parked pulls that the gate lets pass. */
void ps_lane_unpark_open(struct ps_lane *lane);

/** Looks after parked pulls; of lane->timer. */
void ps_lane_look_after(struct ps_timer *timer);

/** The update's records are applied, or it is stale: the rest of it, and count down. */
void ps_lane_update_applied(struct ps_lane *lane, struct ps_update_mail *share);

/* ---- lane_apply.c --------------------------------------------------------------------------- */

/**
 * Make sure that the PUSH or STAGE record in hand can be applied, before its sequence is taken: a
 * record that is in the log has no way back. False without memory; a later call may succeed.
 */
PS_MUST_CHECK bool ps_lane_make_room(struct ps_lane *lane, struct ps_pending *pending,
                                     enum ps_page_budget budget);

/** Let go of what ps_lane_make_room prepared and the record has not used. */
void ps_lane_leave_room(struct ps_lane *lane, struct ps_pending *pending);

/** Put a STAGE record that is proposed on the list, with the memory found for it. */
void ps_lane_stage(struct ps_lane *lane, struct ps_pending *pending);

/** Put a committed record into the tables of its slot. */
void ps_lane_apply(struct ps_lane *lane, struct ps_pending *pending);

/** What of a STAGE record's slot, session and step is staged already. */
struct ps_staged_view {
    bool same;  /* This very fragment. */
    bool other; /* Something of another unit. */
};
struct ps_staged_view ps_lane_staged(const struct ps_lane *lane, const struct ps_record *record);

/** Memory for a STAGE record, filled from it. NULL without. */
PS_MUST_CHECK struct ps_staged *ps_staged_make(struct ps_lane *lane,
                                               const struct ps_record *record);

void ps_staged_free(struct ps_staged *staged);

/* ---- lane_cut.c ----------------------------------------------------------------------------- */

/** A record of the slot has been applied: is it where the cut is to be taken? */
void ps_lane_cut_look(struct ps_lane *lane, uint32_t slot);

/** The cut being taken is given up. */
void ps_lane_cut_cancel(struct ps_lane *lane);

/* ---- lane_rows.c ---------------------------------------------------------------------------- */

/** Make what is missing of a sparse table in slots that are this server's or have a line. */
PS_MUST_CHECK enum ps_status ps_lane_rows_make(struct ps_lane *lane, uint32_t table,
                                               struct ps_error *err);
/** Free all rows; what others read of the tables stays until destroy. */
void ps_lane_rows_drop(struct ps_lane *lane);
void ps_lane_rows_destroy(struct ps_lane *lane);

/** Does the slot hold its share of a table, a sparse one? */
bool ps_lane_rows_here(const struct ps_lane *lane, uint32_t table, uint32_t slot);

/** Memory for a pushed part, into `claim`; false without. `values` begin with the keys. */
PS_MUST_CHECK bool ps_lane_rows_reserve(struct ps_lane *lane, uint32_t slot,
                                        const struct ps_part *part, struct ps_cursor values,
                                        enum ps_page_budget budget, struct ps_sparse_claim *claim);
/** Give back what is left of it. */
void ps_lane_rows_release(struct ps_lane *lane, uint32_t slot, const struct ps_part *part,
                          struct ps_sparse_claim *claim);

/**
 * Other records, sweeps too, may have been between reserve and update: a row that was known then
 * may have gone of age. Claim anew what is needed now, beyond the budget.
 */
void ps_lane_rows_renew(struct ps_lane *lane, uint32_t slot, const struct ps_part *part,
                        struct ps_cursor values, struct ps_sparse_claim *claim);

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
