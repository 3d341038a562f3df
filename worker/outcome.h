#ifndef PS_WORKER_OUTCOME_H
#define PS_WORKER_OUTCOME_H
/*
 * outcome.h — what the coordinator counted, as entries of a report and as progress.
 *
 * Everything that a report says of the whole cluster comes from one look at it: no program computes
 * from its flags what was trained. Pure.
 */
#include <ps/client.h>

#include "base/limits.h"
#include "train/progress.h"
#include "train/report.h"

/** Lists that a report borrows. */
struct ps_outcome_lists {
    uint64_t served[PS_SERVERS_MAX];
    uint64_t memory[PS_SERVERS_MAX];
};

/** Enter what is known from `cluster` into the report, which borrows `lists` from then on. */
void ps_outcome_report(const struct ps_cluster *cluster, struct ps_outcome_lists *lists,
                       struct ps_report *report);

/** How far the job is. `examples_per_s` is left for the caller, who has a clock. */
void ps_outcome_progress(const struct ps_cluster *cluster, struct ps_progress *progress);

/** Sums over all workers that there ever were. */
struct ps_outcome_workers {
    uint64_t n; /* Sessions. */
    uint64_t n_live;
    struct ps_worker_stats sum; /* staleness_max: the largest. */
    uint64_t bytes_pushed;
    uint64_t bytes_pulled;
    uint64_t retries;
};

void ps_outcome_workers(const struct ps_cluster *cluster, struct ps_outcome_workers *ret);

#endif
