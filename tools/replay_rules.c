/*
 * replay_rules.c — every update rule, one float after the other, from its formula.
 *
 * A float operation has one right result, so a loop that does the same operations in the same order
 * as a vectorised one has its bits. `g` is scale * gradient, l2 * w added where the rule has it.
 */
#include <math.h>

#include "base/bytes.h"
#include "replay.h"

void replay_rule_init(struct replay_rule *rule)
{
    const float betas[2] = {rule->beta1, rule->beta2};
    for (uint32_t which = 0; which < 2; which++) {
        double power = 1.0;
        for (uint32_t i = 0; i < REPLAY_POWERS; i++) {
            rule->low[which][i] = power;
            power = power * (double)betas[which];
        }
        const double step = power;
        power = 1.0;
        for (uint32_t i = 0; i < REPLAY_POWERS; i++) {
            rule->high[which][i] = power;
            power = power * step;
        }
        rule->top[which] = power;
    }
}

double replay_power(const struct replay_rule *rule, uint32_t which, uint64_t t)
{
    double power =
        rule->low[which][t % REPLAY_POWERS] * rule->high[which][t / REPLAY_POWERS % REPLAY_POWERS];
    double square = rule->top[which];
    for (uint64_t rest = t / REPLAY_POWERS / REPLAY_POWERS; rest > 0 && power != 0.0; rest /= 2) {
        if (rest % 2 == 1) {
            power = power * square;
        }
        square = square * square;
    }
    return power;
}

static float grad_at(const uint8_t *grad, size_t i)
{
    uint32_t bits = ps_load_u32(grad + i * sizeof(float));
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* w <- w - rate * g */
static void sgd(const struct replay_step *s, float *w, float g)
{
    g = g + s->rule->l2 * *w;
    *w = *w - s->rate * g;
}

/* v <- momentum * v + g, w <- w - rate * v */
static void momentum(const struct replay_step *s, float *w, float *v, float g)
{
    g = g + s->rule->l2 * *w;
    *v = s->rule->momentum * *v + g;
    *w = *w - s->rate * *v;
}

/* G <- G + g^2, w <- w - rate * g / (sqrt(G) + epsilon) */
static void adagrad(const struct replay_step *s, float *w, float *sum, float g)
{
    g = g + s->rule->l2 * *w;
    *sum = *sum + g * g;
    *w = *w - s->rate * g / (sqrtf(*sum) + s->rule->epsilon);
}

/* m and v are decaying means of g and g^2; both lean to 0 at first. */
static void adam(const struct replay_step *s, float *w, float *m, float *v, float g)
{
    const struct replay_rule *r = s->rule;
    const float straight1 = (float)(1.0 / (1.0 - s->power1));
    const float straight2 = (float)(1.0 / (1.0 - s->power2));
    g = g + r->l2 * *w;
    *m = r->beta1 * *m + (1.0f - r->beta1) * g;
    *v = r->beta2 * *v + (1.0f - r->beta2) * (g * g);
    const float towards = *m * straight1 / (sqrtf(*v * straight2) + r->epsilon);
    *w = *w - s->rate * (towards + r->decay * *w);
}

/* w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(q)) / rate + l2) */
static float ftrl_weight(const struct replay_rule *r, float rate, float z, float root)
{
    float over = fabsf(z) - r->l1;
    if (!(over > 0.0f)) {
        over = 0.0f;
    }
    const float size = over / ((r->beta + root) / rate + r->l2);
    return z > 0.0f ? 0.0f - size : size;
}

static void ftrl(const struct replay_step *s, float *w, float *z, float *q, float g)
{
    const struct replay_rule *r = s->rule;
    if (s->t == 1) { /* The z from which the first weight follows. */
        const float pull = r->beta / s->rate + r->l2;
        *z = *w == 0.0f ? 0.0f : -(*w * pull + copysignf(r->l1, *w));
    }
    const float square = g * g;
    const float q_new = *q + square;
    const float root = sqrtf(q_new);
    const float sum = root + sqrtf(*q);
    const float sigma = square / (sum > 0.0f ? sum : 1.0f) / s->rate;
    *z = *z + g - sigma * *w;
    *q = q_new;
    *w = ftrl_weight(r, s->rate, *z, root);
}

void replay_step(const struct replay_step *step, float *weights, float *state, size_t stride,
                 const uint8_t *grad, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float g = step->scale * grad_at(grad, i);
        float *w = &weights[i];
        switch (step->rule->kind) {
        case REPLAY_SGD: sgd(step, w, g); break;
        case REPLAY_MOMENTUM: momentum(step, w, &state[i], g); break;
        case REPLAY_ADAGRAD: adagrad(step, w, &state[i], g); break;
        case REPLAY_ADAM: adam(step, w, &state[i], &state[stride + i], g); break;
        case REPLAY_FTRL: ftrl(step, w, &state[i], &state[stride + i], g); break;
        }
    }
}

void replay_derive(const struct replay_rule *rule, float rate, float *weights, const float *state,
                   size_t n)
{
    for (size_t i = 0; i < n; i++) {
        weights[i] = ftrl_weight(rule, rate, state[i], sqrtf(state[n + i]));
    }
}
