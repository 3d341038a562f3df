#ifndef PS_WORKER_TRAIN_FINISH_H
#define PS_WORKER_TRAIN_FINISH_H
/*
 * train/finish.h — what happens when the last row is trained: whole model, test set, file, report.
 *
 *   reader session: pull everything -> evaluate -> model.safetensors -> report
 *
 * Blocks. A model with numbers that are not finite is never written over a good one.
 */
#include <stddef.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/plan.h"
#include "train/report.h"

#define PS_FINISH_PATH_BYTES 4096u

/**
 * Pull all tables of the plan's model, as weights for raw features. Any kind of client will do.
 *
 * @param weights  on success the caller's, for ps_weights_deinit
 */
PS_MUST_CHECK enum ps_status ps_finish_pull(const struct ps_train_plan *plan,
                                            struct ps_client *client, struct ps_weights *weights,
                                            struct ps_error *err);

/**
 * Evaluate on the test set (if there is one) and enter the outcome, and what the plan says, into
 * `report`.
 * @return PS_ERR_DIVERGED when a weight or the test loss is not finite
 */
PS_MUST_CHECK enum ps_status ps_finish_judge(const struct ps_train_plan *plan,
                                             const struct ps_weights *weights,
                                             struct ps_report *report, struct ps_error *err);

/** Write `<folder>/model.safetensors`, making the folder if need be. `path` gets its name. */
PS_MUST_CHECK enum ps_status ps_finish_write(const struct ps_train_plan *plan,
                                             const struct ps_weights *weights, const char *folder,
                                             char path[PS_FINISH_PATH_BYTES], struct ps_error *err);

/**
 * Before anything is trained: is there a place for the model and the report? Makes the folder.
 * `out` and `report` may be NULL; `conf` has the rows of that name, for the words.
 */
PS_MUST_CHECK enum ps_status ps_finish_check(const struct ps_conf *conf, const char *out,
                                             const char *report, struct ps_error *err);

#endif
