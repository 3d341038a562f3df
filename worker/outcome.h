#ifndef PS_WORKER_OUTCOME_H
#define PS_WORKER_OUTCOME_H
/*
 * outcome.h — what the coordinator counted, as entries of a report and as progress.
 *
 * Everything that a report says of the whole cluster comes from one Describe reply: no program
 * computes from its flags what was trained. Pure.
 */
#include "base/limits.h"
#include "coordinator.pb-c.h"
#include "train/progress.h"
#include "train/report.h"

/** Lists that a report borrows. */
struct ps_outcome_lists {
    uint64_t served[PS_SERVERS_MAX];
    uint64_t memory[PS_SERVERS_MAX];
};

/** Enter what is known from `describe` into the report, which borrows `lists` from then on. */
void ps_outcome_report(const Ps__V1__DescribeReply *describe, struct ps_outcome_lists *lists,
                       struct ps_report *report);

/** How far the job is. `examples_per_s` is left for the caller, who has a clock. */
void ps_outcome_progress(const Ps__V1__DescribeReply *describe, struct ps_progress *progress);

/** Sums over all workers that there ever were. */
struct ps_outcome_workers {
    uint64_t n; /* Sessions. */
    uint64_t n_live;
    Ps__V1__WorkerStats sum; /* staleness_max: the largest. */
};

void ps_outcome_workers(const Ps__V1__DescribeReply *describe, struct ps_outcome_workers *ret);

#endif
