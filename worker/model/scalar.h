#ifndef PS_WORKER_MODEL_SCALAR_H
#define PS_WORKER_MODEL_SCALAR_H
/*
 * model/scalar.h — what models with one score per row share: loss, hits and predictions.
 *
 * Such a model writes forward (weights to scores) and backward (slopes of the loss to gradients)
 * for whole batches, names them in a struct ps_scalar_ops, and takes ps_scalar_gradients and its
 * siblings into its kind. Scores are doubles: sums over a row are longer than their terms.
 */
#include "model/sparse_model.h"

struct ps_scalar;

struct ps_scalar_ops {
    /** Make scratch large enough for the batch. NULL: there is none. @return PS_ERR_NOMEM */
    PS_MUST_CHECK enum ps_status (*reserve)(struct ps_scalar *scalar,
                                            const struct ps_sparse_view *view);

    /** Add to `scores` [n_rows], which hold the offset. */
    void (*forward)(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                    const struct ps_sparse_view *view, double *scores);

    /** Overwrite all gradients, from `slopes` [n_rows]: d objective / d score. After forward. */
    void (*backward)(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                     const struct ps_sparse_view *view, const double *slopes,
                     const struct ps_sparse_grads *grads);
};

/** Start of the struct of such a model. */
struct ps_scalar {
    struct ps_sparse_model base;
    const struct ps_scalar_ops *ops;
    double offset;  /* Of every score. */
    double *scores; /* [n_rows_max], scratch; NULL before use. */
    size_t n_rows_max;
};

/** Fill in what does not depend on tables; `scalar` is zeroed otherwise. */
void ps_scalar_init(struct ps_scalar *scalar, const struct ps_sparse_model_kind *kind,
                    const struct ps_scalar_ops *ops, const struct ps_sparse_model_params *params,
                    enum ps_task task);

/** Free the scores and the model itself, whose struct begins with the scalar. */
void ps_scalar_destroy(struct ps_sparse_model *model);

/* For struct ps_sparse_model_kind; see there. */
PS_MUST_CHECK enum ps_status ps_scalar_gradients(struct ps_sparse_model *model,
                                                 const struct ps_sparse_weights *weights,
                                                 const struct ps_sparse_view *view,
                                                 const struct ps_sparse_grads *grads,
                                                 double *ret_loss_sum);

PS_MUST_CHECK enum ps_status ps_scalar_evaluate(struct ps_sparse_model *model,
                                                const struct ps_sparse_weights *weights,
                                                const struct ps_sparse_view *view,
                                                struct ps_score *ret);

PS_MUST_CHECK enum ps_status ps_scalar_predict(struct ps_sparse_model *model,
                                               const struct ps_sparse_weights *weights,
                                               const struct ps_sparse_view *view, float *out);

/** scores[row] += bias + sum of w * value, `w` being rows of width 1. */
void ps_linear_forward(const struct ps_sparse_view *view, const float *rows, float bias,
                       double *scores);

/** Gradients of the same; both are overwritten. */
void ps_linear_backward(const struct ps_sparse_view *view, const double *slopes, float *d_rows,
                        float *d_bias);

/**
 * A model whose score is offset + b + sum w x and nothing else: tables "<kind>.weight" and
 * "<kind>.bias", both zero at first, so that every seed gives the same run. @return PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_linear_create(const struct ps_sparse_model_params *params,
                                              const struct ps_sparse_model_kind *kind,
                                              enum ps_task task, struct ps_optim_preset preset,
                                              struct ps_sparse_model **ret, struct ps_error *err);

/** Set the gradients of a table to zero: [n_keys][width]. */
void ps_clear_rows(const struct ps_sparse_view *view, const struct ps_sparse_model_table *table,
                   float *rows);

#endif
