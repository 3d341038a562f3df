#ifndef PS_SERVER_SLOT_LANE_H
#define PS_SERVER_SLOT_LANE_H
/*
 * slot/lane.h — the owner of some slots: everything that happens to them happens here, one thing
 * at a time, in mailbox order.
 *
 * A lane is an actor on one executor. It owns pages, sessions, sequences, staged gradients and a
 * gate for its slots; calls and the coordinator's news reach it by mail. Slot s lives in lane
 * ps_lane_of(s, n): fixed, spread by a hash so that small models use all lanes.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "base/mem.h"
#include "gate/gate_core.h"
#include "obs/metric.h"
#include "port/exec.h"
#include "slot/catalogue.h"
#include "slot/commit.h"
#include "slot/cut.h"
#include "slot/data_call.h"
#include "slot/record.h"
#include "slot/scan_call.h"
#include "slot/slot_core.h"

struct ps_lane_options {
    struct ps_exec *exec;
    struct ps_mem *mem;
    struct ps_metrics *metrics;
    struct ps_committer *committer;
    const struct ps_catalogue *catalogue; /* Shared, append-only. */
    uint64_t index_seed; /* By chance, this process's own: of the indexes of rows. */
    uint32_t index;
    uint32_t n_lanes;
    enum ps_slot_plant plant;
};

struct ps_lane_update;

/** One lane's copy of an update. */
struct ps_update_mail {
    struct ps_mail mail;
    struct ps_lane_update *update;
    struct ps_lane *lane;
    /* The lane's, while records of it or of one before it are not applied: */
    struct ps_list node;
    uint64_t ticket; /* The last one. */
};

/** The coordinator's news for all lanes of a server; groups are applied in this order. */
struct ps_lane_update {
    struct ps_update_mail mails[PS_LANES_MAX];
    _Atomic uint32_t n_pending;
    void (*done)(struct ps_lane_update *update); /* Runs on the last lane. */
    void *arg;
    struct ps_mail done_mail; /* For `done` to post itself home. */
    uint64_t term;
    uint64_t generation;
    bool has_placement;
    bool primary[PS_SLOTS]; /* Is this server primary of the slot? */
    uint64_t epoch[PS_SLOTS];
    uint64_t placement_version;
    uint32_t n_tables; /* Make blocks of tables below this number. */
    bool has_sessions;
    struct ps_record_sessions sessions; /* Borrowed from `memory`. */
    bool has_finish;
    struct ps_record_finish finish;
    bool has_consistency;
    enum ps_gate_mode gate_mode;
    uint32_t gate_bound;
    bool aggregate;
    bool has_close;
    struct ps_record_close close;
    uint64_t min_clock;
    _Atomic int status; /* First enum ps_status that a lane met, PS_OK normally. */
    void *memory;       /* Freed with the update. */
    _Atomic bool stale; /* A lane knew a higher term: nothing of it may be acknowledged. */
    /* Of the lanes, each its own: */
    struct ps_list nodes[PS_LANES_MAX]; /* While records of it are not applied, */
    uint64_t tickets[PS_LANES_MAX];     /*   up to this one. */
};

/** Where a slot's line stands. */
struct ps_lane_position {
    uint32_t slot;
    uint64_t epoch; /* The line has at least `position` records of epochs up to this one. */
    uint64_t position;
};

/** Which lane of n a slot lives in. */
uint32_t ps_lane_of(uint32_t slot, uint32_t n_lanes);

PS_MUST_CHECK enum ps_status ps_lane_create(const struct ps_lane_options *options,
                                            struct ps_lane **ret, struct ps_error *err);

/** Another committer than the options say: a log is opened when it has been read. Before the lane's
 * executor runs. */
void ps_lane_commit_by(struct ps_lane *lane, struct ps_committer *committer);

/** Hand a call's share over. Any thread. */
void ps_lane_post_share(struct ps_lane *lane, struct ps_share_mail *share);

/** Hand a scan over to the lane of its slot, which finishes it. Any thread. */
void ps_lane_post_scan(struct ps_lane *lane, struct ps_scan_call *call);

/** Hand news over to one lane; it counts `n_pending` down. Main executor. */
void ps_lane_post_update(struct ps_lane *lane, struct ps_lane_update *update);

/**
 * Add the lane's figures of a sparse table to `sum` and `n_refused`; false: it has none. Any
 * thread, for tables that have been published in the catalogue.
 */
bool ps_lane_figures(const struct ps_lane *lane, uint32_t table, struct ps_sparse_stats *sum,
                     uint64_t *n_refused);

/**
 * Take this lane's part of a cut; one at a time, and it waits for records that are not committed.
 * Main executor.
 */
void ps_lane_post_cut(struct ps_lane *lane, struct ps_cut *cut);

/**
 * Where the lane's slots stand, those that have a line: committed and applied. Any thread.
 * @return how many were written to `out`
 */
uint32_t ps_lane_positions(const struct ps_lane *lane, struct ps_lane_position out[PS_SLOTS]);

/** The lane's view of min clock; it never goes back within a generation. Any thread. */
uint64_t ps_lane_clock(const struct ps_lane *lane);

/** 1 + a slot that a caller found below what it was told; 0: none, ever. Any thread. */
uint32_t ps_lane_lost_slot(const struct ps_lane *lane);

/**
 * Answer everything parked with `NOT_YET`, park nothing more, make no record more: pushes are
 * answered UNAVAIL; by mail. Main executor.
 */
void ps_lane_post_stop(struct ps_lane *lane, struct ps_mail *done_mail, struct ps_exec *home);

/**
 * After stop, and after the committer has stopped, so that it touches no record any more: whoever
 * waits for a record that is not committed is answered UNAVAIL, news that wait so are stale, a cut
 * is canceled. With nobody waiting (durability `memory`) there is no need for it. Main executor.
 */
void ps_lane_post_end(struct ps_lane *lane, struct ps_mail *done_mail, struct ps_exec *home);

/**
 * When nothing is under way any more (or the executor no longer runs), and the committer touches no
 * record of it any more. NULL does nothing.
 */
void ps_lane_destroy(struct ps_lane *lane);

/* ---- Recovery and restore: before the lane's executor runs, or on it ------------------------ */

/*
 *   recover   [restore_state, _block, _row, _rest, _staged of each slot] -> replay of the log's end
 *   restore   clear -> restore_... (new generation)                -> the next placement
 *
 * Slots are nobody's meanwhile: calls are answered NOT_PRIMARY until the next placement. The
 * catalogue's tables below `n_tables` of hold_tables are complete by then. Statuses: CORRUPT for
 * what contradicts itself or the tables, NOMEM; the lane is then to be cleared.
 */

/**
 * Forget slots, tables and staged gradients, as at the start. Records that are not committed yet
 * will not be applied; who waits for them is answered UNAVAIL when the committer has let go.
 */
void ps_lane_clear(struct ps_lane *lane);

/** Tables below `n_tables` are here: their blocks and rows in slots that have a line. */
PS_MUST_CHECK enum ps_status ps_lane_hold_tables(struct ps_lane *lane, uint32_t n_tables,
                                                 struct ps_error *err);

/**
 * The state of one of the lane's slots, as slot_state.h writes it. `new_generation`: sessions,
 * their own streams and what was staged stay behind; leases and what is finished come along.
 */
PS_MUST_CHECK enum ps_status ps_lane_restore_state(struct ps_lane *lane, uint32_t slot,
                                                   struct ps_slice state, bool new_generation,
                                                   struct ps_error *err);

/** A block, complete, of a slot whose state is there. */
PS_MUST_CHECK enum ps_status ps_lane_restore_block(struct ps_lane *lane, uint32_t table,
                                                   uint32_t block,
                                                   const struct ps_dense_saved *saved,
                                                   struct ps_error *err);

/** A row of a sparse table; in any order. */
PS_MUST_CHECK enum ps_status ps_lane_restore_row(struct ps_lane *lane, uint32_t table,
                                                 uint32_t slot, const struct ps_sparse_row *row,
                                                 struct ps_error *err);

/** What a slot has of a sparse table beside its rows; before them. `counts`: [n_counts]. */
PS_MUST_CHECK enum ps_status ps_lane_restore_rest(struct ps_lane *lane, uint32_t table,
                                                  uint32_t slot, const struct ps_sparse_rest *rest,
                                                  uint32_t n_counts, struct ps_error *err);

/** A STAGE record that the cut kept; takes a reference to its message. */
PS_MUST_CHECK enum ps_status
ps_lane_restore_staged(struct ps_lane *lane, const struct ps_record *record, struct ps_error *err);

/**
 * Apply a record from the log. One at or below its slot's position is passed over; of another lane
 * is fine, too. A STAGE record's message is kept by reference, of others nothing is.
 */
PS_MUST_CHECK enum ps_status ps_lane_replay(struct ps_lane *lane, const struct ps_record *record,
                                            struct ps_error *err);

#endif
