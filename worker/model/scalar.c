/* scalar.c — see scalar.h. */
#include "model/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "model/loss.h"
#include "model/sparse_list.h"

void ps_scalar_init(struct ps_scalar *scalar, const struct ps_sparse_model_kind *kind,
                    const struct ps_scalar_ops *ops, const struct ps_sparse_model_params *params,
                    enum ps_task task)
{
    scalar->base.kind = kind;
    scalar->base.mem = params->mem;
    scalar->base.task = task;
    scalar->base.n_outputs = 1;
    scalar->base.n_lists = 1;
    scalar->ops = ops;
    scalar->offset = task == PS_TASK_VALUE ? params->offset : 0.0;
}

static struct ps_scalar *scalar_of(struct ps_sparse_model *model)
{
    return PS_CONTAINER_OF(model, struct ps_scalar, base);
}

void ps_scalar_destroy(struct ps_sparse_model *model)
{
    struct ps_scalar *scalar = scalar_of(model);
    ps_mem_free(scalar->scores);
    ps_mem_free(scalar);
}

static enum ps_status reserve(struct ps_scalar *scalar, const struct ps_sparse_view *view)
{
    PS_ASSERT(view->rows.n_rows >= 1);
    if (view->rows.n_rows > scalar->n_rows_max) {
        double *scores =
            ps_mem_array(scalar->base.mem, PS_MEM_OTHER, view->rows.n_rows, sizeof(*scores));
        if (scores == NULL) {
            return PS_ERR_NOMEM;
        }
        ps_mem_free(scalar->scores);
        scalar->scores = scores;
        scalar->n_rows_max = view->rows.n_rows;
    }
    return scalar->ops->reserve != NULL ? scalar->ops->reserve(scalar, view) : PS_OK;
}

static void forward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                    const struct ps_sparse_view *view)
{
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        scalar->scores[row] = scalar->offset;
    }
    scalar->ops->forward(scalar, weights, view, scalar->scores);
}

enum ps_status ps_scalar_gradients(struct ps_sparse_model *model,
                                   const struct ps_sparse_weights *weights,
                                   const struct ps_sparse_view *view,
                                   const struct ps_sparse_grads *grads, double *ret_loss_sum)
{
    struct ps_scalar *scalar = scalar_of(model);
    enum ps_status status = reserve(scalar, view);
    if (status != PS_OK) {
        return status;
    }
    forward(scalar, weights, view);
    double loss_sum = 0.0;
    double *slopes = scalar->scores; /* Each score is replaced by its slope. */
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        double z = scalar->scores[row];
        double y = (double)view->rows.labels[row];
        loss_sum += ps_loss(model->task, z, y);
        slopes[row] = (double)view->scale * ps_loss_slope(model->task, z, y);
    }
    scalar->ops->backward(scalar, weights, view, slopes, grads);
    *ret_loss_sum = loss_sum;
    return PS_OK;
}

enum ps_status ps_scalar_evaluate(struct ps_sparse_model *model,
                                  const struct ps_sparse_weights *weights,
                                  const struct ps_sparse_view *view, struct ps_score *ret)
{
    struct ps_scalar *scalar = scalar_of(model);
    enum ps_status status = reserve(scalar, view);
    if (status != PS_OK) {
        return status;
    }
    forward(scalar, weights, view);
    struct ps_score score = {0};
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        double z = scalar->scores[row];
        double y = (double)view->rows.labels[row];
        score.loss_sum += ps_loss(model->task, z, y);
        score.n_correct += model->task == PS_TASK_BINARY && isfinite(z) && (z > 0.0) == (y > 0.5);
    }
    *ret = score;
    return PS_OK;
}

enum ps_status ps_scalar_predict(struct ps_sparse_model *model,
                                 const struct ps_sparse_weights *weights,
                                 const struct ps_sparse_view *view, float *out)
{
    struct ps_scalar *scalar = scalar_of(model);
    enum ps_status status = reserve(scalar, view);
    if (status != PS_OK) {
        return status;
    }
    forward(scalar, weights, view);
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        double z = scalar->scores[row];
        out[row] = (float)(model->task == PS_TASK_BINARY ? ps_sigmoid(z) : z);
    }
    return PS_OK;
}

void ps_linear_forward(const struct ps_sparse_view *view, const float *rows, float bias,
                       double *scores)
{
    const uint64_t *begin = view->rows.begin;
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        double sum = (double)bias;
        for (size_t i = begin[row] - begin[0]; i < begin[row + 1] - begin[0]; i++) {
            sum += (double)rows[view->index[i]] * (double)view->rows.values[i];
        }
        scores[row] += sum;
    }
}

void ps_linear_backward(const struct ps_sparse_view *view, const double *slopes, float *d_rows,
                        float *d_bias)
{
    const uint64_t *begin = view->rows.begin;
    double bias = 0.0;
    if (view->n_keys[0] > 0) {
        memset(d_rows, 0, view->n_keys[0] * sizeof(*d_rows));
    }
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        bias += slopes[row];
        float slope = (float)slopes[row];
        for (size_t i = begin[row] - begin[0]; i < begin[row + 1] - begin[0]; i++) {
            d_rows[view->index[i]] += slope * view->rows.values[i];
        }
    }
    *d_bias = (float)bias;
}

void ps_clear_rows(const struct ps_sparse_view *view, const struct ps_sparse_model_table *table,
                   float *rows)
{
    size_t n = (size_t)view->n_keys[table->list] * table->width;
    if (n > 0) {
        memset(rows, 0, n * sizeof(*rows));
    }
}

/* ---- The score alone ------------------------------------------------------------------------ */

static void score_forward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                          const struct ps_sparse_view *view, double *scores)
{
    (void)scalar;
    ps_linear_forward(view, weights->rows[0], weights->dense[0][0], scores);
}

static void score_backward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                           const struct ps_sparse_view *view, const double *slopes,
                           const struct ps_sparse_grads *grads)
{
    (void)scalar;
    (void)weights;
    ps_linear_backward(view, slopes, grads->rows[0], grads->dense[0]);
}

enum ps_status ps_linear_create(const struct ps_sparse_model_params *params,
                                const struct ps_sparse_model_kind *kind, enum ps_task task,
                                struct ps_optim_preset preset, struct ps_sparse_model **ret,
                                struct ps_error *err)
{
    static const struct ps_scalar_ops ops = {.forward = score_forward, .backward = score_backward};
    struct ps_scalar *scalar = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*scalar));
    if (scalar == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    ps_scalar_init(scalar, kind, &ops, params, task);
    char name[PS_NAME_BYTES_MAX + 1];
    struct ps_sparse_model *model = &scalar->base;
    model->n_sparse = 1;
    (void)snprintf(name, sizeof(name), "%s.weight", kind->name);
    model->sparse[0] = ps_row_table(name, 1, 0.0f, params->seed);
    model->n_dense = 1;
    (void)snprintf(name, sizeof(name), "%s.bias", kind->name);
    model->dense[0] = ps_bias_table(name, 1, params->seed);
    model->sparse[0].preset = preset;
    model->dense_preset = preset;
    *ret = model;
    return PS_OK;
}
