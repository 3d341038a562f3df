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
#include "base/mem.h"
#include "gate/gate_core.h"
#include "obs/metric.h"
#include "port/exec.h"
#include "slot/catalogue.h"
#include "slot/commit.h"
#include "slot/data_call.h"
#include "slot/record.h"
#include "slot/scan_call.h"

struct ps_lane_options {
    struct ps_exec *exec;
    struct ps_mem *mem;
    struct ps_metrics *metrics;
    struct ps_committer *committer;
    const struct ps_catalogue *catalogue; /* Shared, append-only. */
    uint64_t index_seed; /* By chance, this process's own: of the indexes of rows. */
    uint32_t index;
    uint32_t n_lanes;
    bool plant_gate; /* Planted bugs, test builds only. */
    bool plant_dedupe;
};

struct ps_lane_update;

/** One lane's copy of an update. */
struct ps_update_mail {
    struct ps_mail mail;
    struct ps_lane_update *update;
    struct ps_lane *lane;
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
};

/** Which lane of n a slot lives in. */
uint32_t ps_lane_of(uint32_t slot, uint32_t n_lanes);

PS_MUST_CHECK enum ps_status ps_lane_create(const struct ps_lane_options *options,
                                            struct ps_lane **ret, struct ps_error *err);

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

/** Answer everything parked with `NOT_YET` and park nothing more; by mail. Main executor. */
void ps_lane_post_stop(struct ps_lane *lane, struct ps_mail *done_mail, struct ps_exec *home);

/** When nothing is under way any more (or the executor no longer runs). NULL does nothing. */
void ps_lane_destroy(struct ps_lane *lane);

#endif
