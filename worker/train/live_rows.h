#ifndef PS_WORKER_TRAIN_LIVE_ROWS_H
#define PS_WORKER_TRAIN_LIVE_ROWS_H
/*
 * train/live_rows.h — the rows of a sparse model as a live cluster has them now.
 *
 * Pulls without a clock, in calls of bounded size: never waits for a worker.
 */
#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/row_source.h"

struct ps_mem;

/**
 * Look up all tables of `model`. `client` (of any kind) and `model` are borrowed and must outlive
 * the source.
 *
 * @param ret  to be given to ps_row_source_close
 * @return PS_ERR_NOT_FOUND  the cluster has no such table, or one of another shape
 *         and as ps_client_table
 */
PS_MUST_CHECK enum ps_status ps_live_rows_open(struct ps_mem *mem, struct ps_client *client,
                                               const struct ps_sparse_model *model,
                                               struct ps_row_source **ret, struct ps_error *err);

#endif
