#ifndef PS_WORKER_DATA_DATASET_H
#define PS_WORKER_DATA_DATASET_H
/*
 * data/dataset.h — labelled rows of equal width, whole in memory, read-only once made.
 *
 * A row is n_features numbers and a class. Pixels stay bytes (47 MB for Fashion-MNIST instead of
 * 188 MB as floats) and become floats in 0..1 batch by batch; readers of other formats keep floats.
 * Any number of threads may read one dataset. Memory is counted as DATA.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_mem;

struct ps_dataset {
    size_t n_rows;         /* >= 1 */
    uint32_t n_features;   /* >= 1 */
    uint32_t n_classes;    /* >= 2; every label is below it. */
    const uint8_t *pixels; /* [n_rows][n_features], divided by 255 when read; or NULL. */
    const float *values;   /* [n_rows][n_features], as they are; or NULL. */
    uint32_t *labels;      /* [n_rows]; owned. */
    void *owned;           /* The memory that `pixels` or `values` lies in. */
};

/**
 * A dataset that owns `owned` from now on, success or not; `pixels` lies inside it.
 *
 * `labels` [n_rows] is copied. n_classes 0 means: the largest label + 1, but at least 2.
 *
 * @return PS_ERR_INVALID  a label is not below n_classes; the message names its row
 *         PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_dataset_from_pixels(struct ps_mem *mem, struct ps_dataset shape,
                                                    const uint8_t *labels, struct ps_dataset **ret,
                                                    struct ps_error *err);

/**
 * An empty dataset of floats to be filled by the caller: n_rows, n_features and n_classes of
 * `shape` count. `*ret_values` is [n_rows][n_features]; labels start as 0.
 */
PS_MUST_CHECK enum ps_status ps_dataset_from_values(struct ps_mem *mem, struct ps_dataset shape,
                                                    struct ps_dataset **ret, float **ret_values,
                                                    struct ps_error *err);

void ps_dataset_destroy(struct ps_dataset *dataset);

/**
 * Gather rows by number, as floats.
 *
 * @param row_ids  each below n_rows, any order, repeats allowed    [n]
 * @param x        output                                           [n][n_features]
 * @param y        output, or NULL when labels are not wanted       [n]
 */
void ps_dataset_rows(const struct ps_dataset *dataset, const uint32_t *row_ids, size_t n, float *x,
                     uint32_t *y);

/** As above for the consecutive rows [first, first + n). */
void ps_dataset_run(const struct ps_dataset *dataset, size_t first, size_t n, float *x,
                    uint32_t *y);

/**
 * 64 bits that depend on the shape and on every number and label, so that workers that were given
 * different files of one shape notice. Takes some 20 ms for Fashion-MNIST; keep the result.
 */
uint64_t ps_dataset_hash(const struct ps_dataset *dataset);

#endif
