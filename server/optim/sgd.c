/*
 * sgd.c — one step down the gradient.
 *
 *   g <- scale * g + l2 * w        w <- w - rate * g
 *
 * Source: Robbins, Monro, "A Stochastic Approximation Method", Ann. Math. Stat. 22 (1951).
 */
#include "num/vector.h"
#include "optim/check.h"
#include "optim/optim_list.h"

static enum ps_status sgd_check(const struct ps_optim_params *params, struct ps_error *err)
{
    enum ps_status status = ps_optim_check_common("sgd", params, err);
    if (status != PS_OK) {
        return status;
    }
    return ps_optim_check_undecayed("sgd", params->weight_decay, err);
}

static void sgd_apply(const struct ps_optim_step *step, float *out, const float *in, float *state,
                      const uint8_t *grad, size_t n)
{
    const float rate = step->rate;
    const float scale = step->scale;
    const float l2 = step->params->l2;
    (void)state; /* This rule remembers nothing. */
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float w = in[i];
        float g = scale * ps_f32_at(grad, i) + l2 * w;
        out[i] = w - rate * g;
    }
}

const struct ps_optim ps_optim_sgd = {
    .name = "sgd",
    .help = "plain gradient descent; keeps no state",
    .version = 1,
    .state_per_elem = 0,
    .defaults = {.lr = 0.1f},
    .check = sgd_check,
    .apply = sgd_apply,
};
