/*
 * logreg.c — logistic regression over sparse rows.
 *
 *   z = b + sum w_i x_i     loss = log(1 + exp(z)) - y z
 *
 * The loss is convex, so weights start at zero and every seed gives the same run.
 */
#include "model/scalar.h"
#include "model/sparse_list.h"

static enum ps_status logreg_create(const struct ps_sparse_model_params *params,
                                    struct ps_sparse_model **ret, struct ps_error *err)
{
    struct ps_optim_preset preset = {.optimizer = "adagrad", .rate = 0.1f};
    return ps_linear_create(params, &ps_sparse_model_logreg, PS_TASK_BINARY, preset, ret, err);
}

const struct ps_sparse_model_kind ps_sparse_model_logreg = {
    .name = "logreg",
    .help = "logistic regression: labels 0 and 1",
    .create = logreg_create,
    .destroy = ps_scalar_destroy,
    .gradients = ps_scalar_gradients,
    .evaluate = ps_scalar_evaluate,
    .predict = ps_scalar_predict,
};
