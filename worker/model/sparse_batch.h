#ifndef PS_WORKER_MODEL_SPARSE_BATCH_H
#define PS_WORKER_MODEL_SPARSE_BATCH_H
/*
 * model/sparse_batch.h — from rows as a reader made them to what a sparse model takes: which keys
 * to pull, and where each feature finds its own.
 *
 * Keeps its memory: after the largest batch nothing is allocated. One thread.
 */
#include "model/places.h"
#include "model/sparse_model.h"
#include "model/unique.h"

struct ps_key_list {
    uint64_t *keys; /* [n], no key twice; ascending, but see n_places. */
    uint32_t n;
};

struct ps_sparse_batch {
    struct ps_sparse_view view; /* For the model; valid as long as the rows it was made of. */
    struct ps_key_list lists[PS_KEY_LISTS_MAX]; /* Table t has the keys of lists[t.list]. */
    size_t n_places; /* May be set before rows are made: their keys are below it, and lists are in
                        the order in which keys are met. 0: any keys, lists ascend. */
    struct ps_mem *mem;
    struct ps_unique unique;
    struct ps_places places;
    uint64_t *keys;  /* [capacity]; the lists lie in it one behind the other. */
    uint32_t *index; /* [capacity] */
    uint8_t *assigned;
    size_t capacity;
};

void ps_sparse_batch_init(struct ps_sparse_batch *batch, struct ps_mem *mem);

/** A zeroed batch does nothing. */
void ps_sparse_batch_deinit(struct ps_sparse_batch *batch);

/**
 * Make view and key lists for `rows`, which are borrowed until the next call; view.scale is
 * 1 / n_rows and may be changed. Labels, when there are any, are checked against the task.
 *
 * @param ret_row  set with PS_ERR_INVALID: the row that the message is about
 * @return PS_ERR_INVALID for rows or labels that the model cannot take, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_sparse_batch_make(struct ps_sparse_batch *batch,
                                                  const struct ps_sparse_model *model,
                                                  const struct ps_sparse_rows *rows,
                                                  size_t *ret_row, struct ps_error *err);

#endif
