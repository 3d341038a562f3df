/*
 * adagrad.c — per-weight step sizes that shrink with the accumulated squared gradient.
 *
 *   g <- scale * g + l2 * w        G <- G + g^2        w <- w - rate * g / (sqrt(G) + epsilon)
 *
 * Source: Duchi, Hazan, Singer, "Adaptive Subgradient Methods", JMLR 12 (2011).
 */
#include <math.h>

#include "num/vector.h"
#include "optim/check.h"
#include "optim/optim_list.h"

static enum ps_status adagrad_check(const struct ps_optim_params *params, struct ps_error *err)
{
    enum ps_status status = ps_optim_check_common("adagrad", params, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_optim_check_epsilon("adagrad", params->epsilon, err);
    if (status != PS_OK) {
        return status;
    }
    return ps_optim_check_undecayed("adagrad", params->weight_decay, err);
}

static void adagrad_apply(const struct ps_optim_step *step, float *out, const float *in,
                          float *state, const uint8_t *grad, size_t n)
{
    const float rate = step->rate;
    const float scale = step->scale;
    const float l2 = step->params->l2;
    const float epsilon = step->params->epsilon;
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float w = in[i];
        float g = scale * ps_f32_at(grad, i) + l2 * w;
        float sum = state[i] + g * g;
        state[i] = sum;
        out[i] = w - rate * g / (sqrtf(sum) + epsilon);
    }
}

const struct ps_optim ps_optim_adagrad = {
    .name = "adagrad",
    .help = "step size per weight that shrinks with use; good for sparse features",
    .version = 1,
    .state_per_elem = 1,
    .defaults = {.lr = 0.05f, .epsilon = 1e-8f},
    .check = adagrad_check,
    .apply = adagrad_apply,
};
