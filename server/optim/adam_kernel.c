/* adam_kernel.c — see adam_kernel.h. */
#include "optim/adam_kernel.h"

#include <math.h>

#include "num/vector.h"
#include "optim/check.h"

enum ps_status ps_optim_adam_check(const char *rule, const struct ps_optim_params *params,
                                   struct ps_error *err)
{
    enum ps_status status = ps_optim_check_common(rule, params, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_optim_check_decay(rule, "beta1", params->beta1, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_optim_check_decay(rule, "beta2", params->beta2, err);
    if (status != PS_OK) {
        return status;
    }
    return ps_optim_check_epsilon(rule, params->epsilon, err);
}

void ps_optim_adam_apply(const struct ps_optim_step *step, float *out, const float *in,
                         float *state, const uint8_t *grad, size_t n)
{
    const float rate = step->rate;
    const float scale = step->scale;
    const float l2 = step->params->l2;
    const float decay = step->params->weight_decay;
    const float epsilon = step->params->epsilon;
    const float beta1 = step->params->beta1;
    const float beta2 = step->params->beta2;
    /* The two means start at 0 and lean towards it; these factors straighten them. */
    const float unbias1 = (float)(1.0 / (1.0 - step->beta1_power));
    const float unbias2 = (float)(1.0 / (1.0 - step->beta2_power));
    float *first = state;
    float *second = state + step->stride;
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float w = in[i];
        float g = scale * ps_f32_at(grad, i) + l2 * w;
        float m = beta1 * first[i] + (1.0f - beta1) * g;
        float v = beta2 * second[i] + (1.0f - beta2) * (g * g);
        first[i] = m;
        second[i] = v;
        out[i] = w - rate * (m * unbias1 / (sqrtf(v * unbias2) + epsilon) + decay * w);
    }
}
