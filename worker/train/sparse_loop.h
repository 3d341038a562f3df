#ifndef PS_WORKER_TRAIN_SPARSE_LOOP_H
#define PS_WORKER_TRAIN_SPARSE_LOOP_H
/*
 * train/sparse_loop.h — as loop.h, for rows of lines: each lease is a part of the files.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/loop.h"
#include "train/sparse_plan.h"

/**
 * Train until the job is done or `*stop` is set; as ps_train_run.
 * @return also PS_ERR_INVALID: a line that cannot be read, by file:line
 */
PS_MUST_CHECK enum ps_status ps_sparse_run(struct ps_sparse_plan *plan, struct ps_client *client,
                                           const _Atomic bool *stop, struct ps_train_result *ret,
                                           struct ps_error *err);

#endif
