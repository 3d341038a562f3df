/* init.c — see init.h. */
#include "num/init.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

bool ps_init_valid(const struct ps_init *init)
{
    switch (init->kind) {
    case PS_INIT_ZEROS: return true;
    case PS_INIT_UNIFORM:
    case PS_INIT_NORMAL: return isfinite(init->scale) && init->scale >= 0.0f;
    }
    return false; /* A number from outside that names no kind. */
}

static void fill_uniform(const struct ps_init *init, uint64_t table, uint64_t first_index,
                         float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float unit = ps_rng_unit(ps_rng_at(init->seed, table, first_index + i));
        out[i] = (2.0f * unit - 1.0f) * init->scale; /* The left factor is exact: 24 bits. */
    }
}

static void fill_normal(const struct ps_init *init, uint64_t table, uint64_t first_index,
                        float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = ps_rng_normal(ps_rng_at(init->seed, table, first_index + i)) * init->scale;
    }
}

void ps_init_fill(const struct ps_init *init, uint64_t table, uint64_t first_index, float *out,
                  size_t n)
{
    PS_ASSERT(ps_init_valid(init));
    switch (init->kind) {
    case PS_INIT_ZEROS: memset(out, 0, n * sizeof(*out)); break;
    case PS_INIT_UNIFORM: fill_uniform(init, table, first_index, out, n); break;
    case PS_INIT_NORMAL: fill_normal(init, table, first_index, out, n); break;
    }
}

void ps_init_row(const struct ps_init *init, uint64_t table, uint64_t key, float *out, size_t width)
{
    struct ps_init row = *init;
    row.seed = ps_rng_at(init->seed, table, key);
    ps_init_fill(&row, 0, 0, out, width);
}
