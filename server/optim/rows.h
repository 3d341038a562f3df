#ifndef PS_SERVER_OPTIM_ROWS_H
#define PS_SERVER_OPTIM_ROWS_H
/*
 * optim/rows.h — a rule on rows of a sparse table, each of which counts its own updates.
 *
 * A global step would make adam's bias correction wrong for rare rows. A row keeps t alone; beta^t
 * comes from a table of products in double, in a fixed order, so that a row's bits do not depend on
 * what else was updated. For t < 256 they are those of struct ps_optim_page.
 */
#include <stdint.h>

#include "optim/optim.h"

#define PS_OPTIM_POWERS 256u

struct ps_optim_powers {
    double low[PS_OPTIM_POWERS];  /* beta^i */
    double high[PS_OPTIM_POWERS]; /* beta^(256 i) */
    double top;                   /* beta^65536 */
};

/* A table's rule. About 8 KiB: a part of what the table's owner keeps. Read by one lane or more. */
struct ps_optim_rows {
    const struct ps_optim *optim;
    struct ps_optim_params params;
    struct ps_optim_powers powers[2]; /* Of beta1, beta2. */
};

/** `params` have passed optim->check. */
void ps_optim_rows_init(struct ps_optim_rows *rows, const struct ps_optim *optim,
                        const struct ps_optim_params *params);

/** beta^t */
double ps_optim_power(const struct ps_optim_powers *powers, uint64_t t);

/* What is the same for all rows of one record. */
struct ps_optim_row_step {
    const struct ps_optim_rows *rows;
    float rate;     /* Effective learning rate. */
    float scale;    /* Multiplies the gradient. */
    uint32_t width; /* Floats of a row. */
};

/**
 * Apply one gradient to a row in place.
 *
 * @param t        updates of the row, this one included; >= 1
 * @param weights  [width]
 * @param state    [state_per_elem][width], zero before the first update
 * @param grad     [width] little-endian f32 at any address; never NaN or infinite
 */
void ps_optim_row_apply(const struct ps_optim_row_step *step, uint64_t t, float *weights,
                        float *state, const uint8_t *grad);

#endif
