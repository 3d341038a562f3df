#ifndef PS_WORKER_MODEL_SPARSE_LIST_H
#define PS_WORKER_MODEL_SPARSE_LIST_H
/*
 * model/sparse_list.h — every kind of sparse model there is, and the tables that several have.
 */
#include "model/sparse_model.h"

extern const struct ps_sparse_model_kind ps_sparse_model_logreg;
extern const struct ps_sparse_model_kind ps_sparse_model_linear;
extern const struct ps_sparse_model_kind ps_sparse_model_softmax;
extern const struct ps_sparse_model_kind ps_sparse_model_fm;
extern const struct ps_sparse_model_kind ps_sparse_model_mf;
extern const struct ps_sparse_model_kind ps_sparse_model_wide_deep;

/** A dense table of `n` elements that starts at zero. */
struct ps_model_table ps_bias_table(const char *name, uint32_t n, uint64_t seed);

/** A sparse table of list 0; `scale` > 0: starts normal with that deviation, else at zero. */
struct ps_sparse_model_table ps_row_table(const char *name, uint32_t width, float scale,
                                          uint64_t seed);

#endif
