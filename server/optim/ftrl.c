/*
 * ftrl.c — follow the regularised leader, proximal: sparse models with step sizes per weight.
 *
 *   g <- scale * g
 *   sigma = (sqrt(q + g^2) - sqrt(q)) / rate
 *   z <- z + g - sigma * w        q <- q + g^2
 *   w <- 0                                                          where |z| <= l1
 *        -(z - sign(z) * l1) / ((beta + sqrt(q)) / rate + l2)       elsewhere
 *
 * The weight follows from z and q: sparse tables derive it on read, dense ones keep it beside them,
 * so that reading needs no rule. It follows with one rate: a schedule also changes what was learnt
 * before. l1 and l2 act in this closed form only. The first update begins with the z that gives the
 * weights as they stand (0 for 0), so that random first weights survive.
 * Source: McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD (2013).
 */
#include <math.h>

#include "num/vector.h"
#include "optim/check.h"
#include "optim/optim_list.h"

static enum ps_status ftrl_check(const struct ps_optim_params *params, struct ps_error *err)
{
    enum ps_status status = ps_optim_check_rate("ftrl", params, err);
    if (status != PS_OK) {
        return status;
    }
    if (!(params->l1 >= 0.0f) || !isfinite(params->l1)) {
        return ps_fail(err, PS_ERR_INVALID, "ftrl: l1 must be >= 0, got %g", (double)params->l1);
    }
    if (!(params->beta > 0.0f) || !isfinite(params->beta)) {
        return ps_fail(err, PS_ERR_INVALID, "ftrl: beta must be > 0, got %g", (double)params->beta);
    }
    return ps_optim_check_undecayed("ftrl", params->weight_decay, err);
}

/* The z from which the weights that stand there follow. */
static void begin(const struct ps_optim_step *step, const float *in, float *z, size_t n)
{
    const float l1 = step->params->l1;
    const float pull = step->params->beta / step->rate + step->params->l2;
    for (size_t i = 0; i < n; i++) {
        float w = in[i];
        z[i] = w == 0.0f ? 0.0f : -(w * pull + copysignf(l1, w));
    }
}

/* In line, to be vectorised; in the same words for both who need it, to be the same bits. */
static inline float weight(float z, float root, float rate, const struct ps_optim_params *params)
{
    float beyond = fabsf(z) - params->l1;
    float size = (beyond > 0.0f ? beyond : 0.0f) / ((params->beta + root) / rate + params->l2);
    return z > 0.0f ? 0.0f - size : size;
}

static void ftrl_derive(const struct ps_optim_params *params, float rate, float *out,
                        const float *state, size_t stride, size_t n)
{
    const struct ps_optim_params fixed = *params;
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        out[i] = weight(state[i], sqrtf(state[stride + i]), rate, &fixed);
    }
}

static void ftrl_apply(const struct ps_optim_step *step, float *out, const float *in, float *state,
                       const uint8_t *grad, size_t n)
{
    const float rate = step->rate;
    const float scale = step->scale;
    const struct ps_optim_params params = *step->params;
    float *zs = state;
    float *qs = state + step->stride;
    if (step->t == 1) {
        begin(step, in, zs, n);
    }
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = scale * ps_f32_at(grad, i);
        float square = g * g;
        float q = qs[i] + square;
        float root = sqrtf(q);
        float sum = root + sqrtf(qs[i]);
        /* The difference of the roots, without the digits that subtracting them would lose. */
        float sigma = square / (sum > 0.0f ? sum : 1.0f) / rate;
        float z = zs[i] + g - sigma * in[i];
        zs[i] = z;
        qs[i] = q;
        out[i] = weight(z, root, rate, &params);
    }
}

const struct ps_optim ps_optim_ftrl = {
    .name = "ftrl",
    .help = "step size per weight, l1 gives weights that are exactly 0; for sparse linear models",
    .version = 1,
    .state_per_elem = 2,
    .proximal = true,
    .defaults = {.lr = 0.1f, .beta = 1.0f},
    .check = ftrl_check,
    .apply = ftrl_apply,
    .derive = ftrl_derive,
};
