#ifndef PS_WORKER_TRAIN_REPORT_H
#define PS_WORKER_TRAIN_REPORT_H
/*
 * train/report.h — what a finished run says about itself, as one line of JSON.
 *
 * The keys are those of --report and of `ps-run --json`; people's scripts read them, so one is
 * never renamed. A text that is NULL and a number that is NaN do not apply to the run and are left
 * out; a count that does not apply is PS_REPORT_NO_COUNT. An infinite number is null.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_disk;

/* clang-format off */
/*    kind    key                  what it says                                                  */
#define PS_REPORT_MAP(X)                                                                          \
    X(TEXT,   model,               "name of the model")                                           \
    X(TEXT,   data,                "what was trained on")                                         \
    X(COUNT,  rows_train,          "rows of the training set")                                    \
    X(COUNT,  rows_bad,            "lines that were skipped, of those looked at before training")    \
    X(COUNT,  rows_test,           "rows of the test set, 0 without one")                         \
    X(COUNT,  servers,             "servers at the start")                                        \
    X(COUNT,  workers,             "workers that joined")                                         \
    X(TEXT,   consistency,         "bsp, ssp:S, dssp:LO..HI or asp")                              \
    X(COUNT,  epochs,              "epochs finished")                                             \
    X(COUNT,  steps,               "units finished")                                              \
    X(NUMBER, examples_per_s,      "rows trained per second of wall time, all workers")           \
    X(NUMBER, wall_s,              "seconds of training")                                         \
    X(NUMBER, train_loss,          "mean loss over the last epoch")                               \
    X(NUMBER, test_loss,           "mean loss on the test set")                                   \
    X(NUMBER, test_accuracy,       "share of test rows classified right")                         \
    X(NUMBER, test_auc,            "area under the ROC curve")                                    \
    X(NUMBER, test_rmse,           "root of the mean squared error")                              \
    X(COUNT,  staleness_bound,     "S; left out for asp")                                         \
    X(NUMBER, staleness_mean,      "mean staleness of a push")                                    \
    X(COUNT,  staleness_max,       "largest staleness of a push")                                 \
    X(NUMBER, blocked_fraction,    "share of the workers' time spent waiting for others")         \
    X(COUNT,  bytes_pushed,        "bytes of gradients sent")                                     \
    X(COUNT,  bytes_pulled,        "bytes of weights received")                                   \
    X(COUNT,  rows_trained_min,    "fewest times that a row's unit was finished")                 \
    X(COUNT,  rows_trained_max,    "most times that a row's unit was finished")                   \
    X(COUNT,  retries,             "calls sent again")                                            \
    X(COUNT,  sessions_lost,       "sessions that ended without leaving")                         \
    X(COUNT,  own_lag,             "own steps that pulled weights may lack; sgd adds them: 0")    \
    X(COUNT,  seed,                "first weights and order of rows follow from it")              \
    X(LIST,   bytes_served_per_server, "bytes of weights that each server sent")                  \
    X(LIST,   memory_bytes_per_server, "bytes of weights and optimizer state that each holds")    \
    X(COUNT,  bytes_copied,        "bytes of weights and gradients that servers had to copy")     \
    X(TEXT,   model_path,          "the file the model was written to")
/* clang-format on */

#define PS_REPORT_TEXT   const char *
#define PS_REPORT_COUNT  uint64_t
#define PS_REPORT_NUMBER double
#define PS_REPORT_LIST   struct ps_report_list

#define PS_REPORT_NO_COUNT UINT64_MAX /* A count that does not apply. */

/** Borrowed. `values` NULL: does not apply. */
struct ps_report_list {
    const uint64_t *values;
    size_t n;
};

struct ps_report {
#define X(kind, key, text) PS_REPORT_##kind key;
    PS_REPORT_MAP(X)
#undef X
};

/** Everything "does not apply", so that a forgotten field is missing and not a lie. */
void ps_report_init(struct ps_report *report);

/** One line of JSON without a newline, to be given to ps_mem_free; NULL without memory. */
PS_MUST_CHECK char *ps_report_json(const struct ps_report *report);

/** Write the line and a newline to `path`, replacing the file as a whole. */
PS_MUST_CHECK enum ps_status ps_report_write(struct ps_disk *disk, const char *path,
                                             const struct ps_report *report, struct ps_error *err);

#endif
