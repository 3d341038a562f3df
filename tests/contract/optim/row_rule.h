#ifndef PS_TESTS_CONTRACT_OPTIM_ROW_RULE_H
#define PS_TESTS_CONTRACT_OPTIM_ROW_RULE_H
/*
 * contract/optim/row_rule.h — a rule on the rows of a sparse table, as a server's lane has it, and
 * keys for its pushes.
 */
#include <stdint.h>

#include "base/attr.h"
#include "base/rng.h"
#include "optim/rows.h"
#include "table/sparse.h"

struct row_rule {
    struct ps_sparse_rule rule;
    struct ps_optim_row_step step;
};

static inline void row_rule_apply(struct ps_sparse_rule *rule, uint32_t t, float *weights,
                                  float *state, const uint8_t *grad)
{
    const struct row_rule *r = PS_CONTAINER_OF(rule, struct row_rule, rule);
    ps_optim_row_apply(&r->step, t, weights, state, grad);
}

static inline void row_rule_derive(const void *of, float rate, const float *state, uint32_t width,
                                   float *out)
{
    const struct ps_optim_rows *rows = of;
    rows->optim->derive(&rows->params, rate, out, state, width, width);
}

/** Of `n_keys` a few often, many seldom, at most `n_max` into `keys`. @return how many */
static inline uint32_t row_keys(uint64_t step, uint32_t n_keys, uint32_t n_max, uint64_t *keys)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_keys && n < n_max; i++) {
        if (ps_rng_at(step, 9, i) % (2 + i / 4) == 0) {
            keys[n++] = (uint64_t)i << 50 | i % 16;
        }
    }
    return n;
}

#endif
