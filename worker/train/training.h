#ifndef PS_WORKER_TRAIN_TRAINING_H
#define PS_WORKER_TRAIN_TRAINING_H
/*
 * train/training.h — a run, whatever its data are: images in memory (plan.h, loop.h, finish.h) or
 * rows of lines in files (sparse_plan.h and its siblings). What programs see of train/.
 *
 *   open -> run -> finish -> close
 */
#include <stdatomic.h>
#include <stdbool.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/finish.h"
#include "train/loop.h"
#include "train/plan.h"

struct ps_sparse_plan;

struct ps_training {
    struct ps_sparse_plan *lines; /* NULL: images. */
    struct ps_train_plan images;
};

/**
 * Decide by --format and --data which it is, and make its plan. `*training` is to be closed,
 * success or not.
 * @return as ps_train_plan_open and ps_sparse_plan_open
 */
PS_MUST_CHECK enum ps_status ps_training_open(const struct ps_train_options *options,
                                              struct ps_mem *mem, struct ps_training *training,
                                              struct ps_error *err);

/** A zeroed one does nothing. */
void ps_training_close(struct ps_training *training);

/** One line for the user about what was made of the data; NULL: there is nothing to say. */
const char *ps_training_said(const struct ps_training *training);

/** One line of what the user should change, though training works without; NULL: nothing. */
const char *ps_training_warning(const struct ps_training *training);

/** Use this seed instead. @return as ps_train_plan_seed and ps_sparse_plan_seed */
PS_MUST_CHECK enum ps_status ps_training_seed(struct ps_training *training, uint64_t seed,
                                              struct ps_error *err);

/** As ps_train_run. */
PS_MUST_CHECK enum ps_status ps_training_run(struct ps_training *training, struct ps_client *client,
                                             const _Atomic bool *stop, struct ps_train_result *ret,
                                             struct ps_error *err);

/**
 * Judge the model by the test set, enter the outcome, and what the plan says, into `report`, and
 * write it into `folder`, unless that is NULL; `path` gets its name. Any kind of client will do.
 */
PS_MUST_CHECK enum ps_status ps_training_finish(struct ps_training *training,
                                                struct ps_client *client, struct ps_report *report,
                                                const char *folder, char path[PS_FINISH_PATH_BYTES],
                                                struct ps_error *err);

#endif
