/*
 * momentum.c — gradient descent along a decaying sum of gradients.
 *
 *   g <- scale * g + l2 * w        v <- momentum * v + g        w <- w - rate * v
 *
 * The rate is outside of v: a schedule changes the next step, not the memory of the former ones.
 * Source: Polyak, "Some methods of speeding up the convergence of iteration methods" (1964);
 * in the form of Sutskever, Martens, Dahl, Hinton, ICML (2013).
 */
#include "num/vector.h"
#include "optim/check.h"
#include "optim/optim_list.h"

static enum ps_status momentum_check(const struct ps_optim_params *params, struct ps_error *err)
{
    enum ps_status status = ps_optim_check_common("momentum", params, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_optim_check_decay("momentum", "momentum", params->momentum, err);
    if (status != PS_OK) {
        return status;
    }
    return ps_optim_check_undecayed("momentum", params->weight_decay, err);
}

static void momentum_apply(const struct ps_optim_step *step, float *out, const float *in,
                           float *state, const uint8_t *grad, size_t n)
{
    const float rate = step->rate;
    const float scale = step->scale;
    const float l2 = step->params->l2;
    const float momentum = step->params->momentum;
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float w = in[i];
        float g = scale * ps_f32_at(grad, i) + l2 * w;
        float v = momentum * state[i] + g;
        state[i] = v;
        out[i] = w - rate * v;
    }
}

const struct ps_optim ps_optim_momentum = {
    .name = "momentum",
    .help = "gradient descent with a decaying memory of former steps",
    .version = 1,
    .state_per_elem = 1,
    .defaults = {.lr = 0.01f, .momentum = 0.9f},
    .check = momentum_check,
    .apply = momentum_apply,
};
