#ifndef PS_WORKER_TRAIN_SPARSE_FINISH_H
#define PS_WORKER_TRAIN_SPARSE_FINISH_H
/*
 * train/sparse_finish.h — as finish.h, for rows of lines: rows are judged by the live cluster, and
 * the model is written from it, so that it need not fit this process.
 */
#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/report.h"
#include "train/sparse_plan.h"
#include "train/sparse_save.h"

/**
 * Judge by the test set, if there is one; enter outcome and plan into `report`; write the model
 * into `folder`, unless it is NULL. `path` gets its name. Any kind of client will do.
 * @return PS_ERR_DIVERGED when a number of the model or of the judgement is not finite; as
 *         ps_sparse_score and ps_sparse_save
 */
PS_MUST_CHECK enum ps_status ps_sparse_finish(const struct ps_sparse_plan *plan,
                                              struct ps_client *client, struct ps_report *report,
                                              const char *folder, char path[PS_SAVE_PATH_BYTES],
                                              struct ps_error *err);

#endif
