#ifndef PS_WORKER_TRAIN_EVALUATE_H
#define PS_WORKER_TRAIN_EVALUATE_H
/*
 * train/evaluate.h — how good given weights are on a whole dataset.
 *
 * Goes through the rows in batches, in file order, so the result does not depend on who asks.
 * Scratch memory is taken for the length of the call.
 */
#include "base/attr.h"
#include "base/error.h"
#include "model/model.h"

struct ps_dataset;
struct ps_mem;

#define PS_EVALUATE_ROWS 1000u /* Per batch: large for BLAS, 3 MB of pixels. */

struct ps_evaluation {
    double loss;     /* Mean per row; NaN or infinite when the weights are. */
    double accuracy; /* Share of rows whose likeliest class is the label, 0..1. */
    uint64_t n_rows;
};

/**
 * @param weights  one array per table of the model [model->n_tables]
 * @return PS_ERR_INVALID  the dataset has another width or more classes than the model
 *         PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_evaluate(struct ps_model *model, const float *const *weights,
                                         const struct ps_dataset *dataset,
                                         struct ps_evaluation *ret, struct ps_error *err);

#endif
