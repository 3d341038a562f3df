#ifndef PS_TOOLS_RUN_H
#define PS_TOOLS_RUN_H
/*
 * run.h — the parts of ps-run and what they hand to each other.
 *
 *   run.c             flags -> plan -> one of the two below -> result
 *   run_cluster.c     a cluster of processes: start, watch, end
 *   run_in_process.c  everything in this thread
 *   run_finish.c      the whole model, judged and written
 *   run_result.c      report and summary
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "outcome.h"
#include "run_options.h"
#include "train/report.h"
#include "train/training.h"

struct run {
    const char *argv0;
    struct ps_conf conf;
    struct ps_run_options options;
    struct ps_mem mem;
    struct ps_training training;
    struct ps_report report;
    struct ps_outcome_lists lists;         /* Of the report. */
    char model_path[PS_FINISH_PATH_BYTES]; /* Empty: none was written. */
    bool abandoned; /* A thread still uses the plan: the process ends around it. */
};

/** Train on a cluster. @return the exit status; what went wrong has been said. */
int run_cluster(struct run *run);

/** Train in this thread. @return as run_cluster */
int run_in_process(struct run *run);

/** Report file, summary or JSON. @return the exit status */
int run_result(struct run *run);

#endif
