/*
 * linear.c — least squares over sparse rows.
 *
 *   z = offset + b + sum w_i x_i     loss = (z - y)^2 / 2
 *
 * The loss is convex, so weights start at zero and every seed gives the same run.
 */
#include "base/mem.h"
#include "model/scalar.h"
#include "model/sparse_list.h"

static void forward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                    const struct ps_sparse_view *view, double *scores)
{
    (void)scalar;
    ps_linear_forward(view, weights->rows[0], weights->dense[0][0], scores);
}

static void backward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                     const struct ps_sparse_view *view, const double *slopes,
                     const struct ps_sparse_grads *grads)
{
    (void)scalar;
    (void)weights;
    ps_linear_backward(view, slopes, grads->rows[0], grads->dense[0]);
}

static const struct ps_scalar_ops ops = {.forward = forward, .backward = backward};

static enum ps_status linear_create(const struct ps_sparse_model_params *params,
                                    struct ps_sparse_model **ret, struct ps_error *err)
{
    struct ps_scalar *linear = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*linear));
    if (linear == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    ps_scalar_init(linear, &ps_sparse_model_linear, &ops, params, PS_TASK_VALUE);
    struct ps_sparse_model *model = &linear->base;
    model->n_sparse = 1;
    model->sparse[0] = ps_row_table("linear.weight", 1, 0.0f, params->seed);
    model->n_dense = 1;
    model->dense[0] = ps_bias_table("linear.bias", 1, params->seed);
    model->sparse[0].preset = (struct ps_optim_preset){.optimizer = "adam", .rate = 0.5f};
    model->dense_preset = model->sparse[0].preset;
    *ret = model;
    return PS_OK;
}

const struct ps_sparse_model_kind ps_sparse_model_linear = {
    .name = "linear",
    .help = "linear regression: least squares",
    .create = linear_create,
    .destroy = ps_scalar_destroy,
    .gradients = ps_scalar_gradients,
    .evaluate = ps_scalar_evaluate,
    .predict = ps_scalar_predict,
};
