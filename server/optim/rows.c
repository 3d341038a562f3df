/* rows.c — see rows.h. */
#include "optim/rows.h"

#include "base/assert.h"

#define LOW_BITS  8u
#define HIGH_BITS 16u

PS_STATIC_ASSERT(PS_OPTIM_POWERS == 1u << LOW_BITS, "two digits of t in base 256 are looked up");

static void init_powers(struct ps_optim_powers *powers, float beta)
{
    double low = 1.0;
    for (uint32_t i = 0; i < PS_OPTIM_POWERS; i++) {
        powers->low[i] = low;
        low *= (double)beta;
    }
    double high = 1.0;
    for (uint32_t i = 0; i < PS_OPTIM_POWERS; i++) {
        powers->high[i] = high;
        high *= low; /* beta^256 */
    }
    powers->top = high;
}

void ps_optim_rows_init(struct ps_optim_rows *rows, const struct ps_optim *optim,
                        const struct ps_optim_params *params)
{
    rows->optim = optim;
    rows->params = *params;
    init_powers(&rows->powers[0], params->beta1);
    init_powers(&rows->powers[1], params->beta2);
}

double ps_optim_power(const struct ps_optim_powers *powers, uint64_t t)
{
    double power = powers->low[t & (PS_OPTIM_POWERS - 1)] *
                   powers->high[(t >> LOW_BITS) & (PS_OPTIM_POWERS - 1)];
    double square = powers->top;
    for (uint64_t rest = t >> HIGH_BITS; rest != 0 && power != 0.0; rest >>= 1) {
        power *= (rest & 1u) != 0 ? square : 1.0;
        square *= square;
    }
    return power;
}

void ps_optim_row_apply(const struct ps_optim_row_step *step, uint64_t t, float *weights,
                        float *state, const uint8_t *grad)
{
    const struct ps_optim_rows *rows = step->rows;
    PS_DEBUG_ASSERT(t >= 1);
    struct ps_optim_step of_row = {.params = &rows->params,
                                   .rate = step->rate,
                                   .scale = step->scale,
                                   .t = t,
                                   .beta1_power = ps_optim_power(&rows->powers[0], t),
                                   .beta2_power = ps_optim_power(&rows->powers[1], t),
                                   .stride = step->width};
    rows->optim->apply(&of_row, weights, weights, state, grad, step->width);
}
