/*
 * linear.c — least squares over sparse rows.
 *
 *   z = offset + b + sum w_i x_i     loss = (z - y)^2 / 2
 *
 * The loss is convex, so weights start at zero and every seed gives the same run.
 */
#include "model/scalar.h"
#include "model/sparse_list.h"

static enum ps_status linear_create(const struct ps_sparse_model_params *params,
                                    struct ps_sparse_model **ret, struct ps_error *err)
{
    struct ps_optim_preset preset = {.optimizer = "adam", .rate = 0.5f};
    return ps_linear_create(params, &ps_sparse_model_linear, PS_TASK_VALUE, preset, ret, err);
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
