#ifndef PS_WORKER_TRAIN_CENTER_H
#define PS_WORKER_TRAIN_CENTER_H
/*
 * train/center.h — features with mean 0 while training, a model for raw features afterwards.
 *
 * Pixels are never negative, so their common mean dominates every gradient: all updates pull along
 * one direction, and late updates of several workers overshoot there first. Training on x - mean
 * takes that direction away; more workers and older weights then do little harm. Since
 *
 *     (x - mean) W + b  =  x W + (b - mean W)
 *
 * the finished model is written with its first bias changed, and takes x as it is in the file.
 * Source: LeCun, Bottou, Orr, Mueller, "Efficient BackProp", 1998, section 4.3.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/error.h"
#include "model/model.h"

struct ps_dataset;
struct ps_mem;
struct ps_weights;

/** Whether the model begins with a weight [features][units] and a bias [units]. */
bool ps_center_possible(const struct ps_model *model);

/** The mean of each feature over all rows; `*ret` [n_features] is for ps_mem_free. */
PS_MUST_CHECK enum ps_status ps_center_measure(struct ps_mem *mem, const struct ps_dataset *dataset,
                                               float **ret, struct ps_error *err);

/** x[i][k] -= mean[k] for `n_rows` rows of `n_features`. */
void ps_center_apply(const float *mean, float *x, size_t n_rows, size_t n_features);

/** Change weights that were trained on centred features into weights for raw ones. */
void ps_center_fold(const float *mean, const struct ps_model *model, struct ps_weights *weights);

#endif
