/*
 * test_apply_hash.c — fixed gradients through dense and sparse tables, by every rule: the content
 * that comes of them has a known hash. The same number whatever compiler made the program and
 * whatever the CPU can do, so a log that was written on one machine is replayed on another.
 *
 * A number here changes only when a rule's results are meant to change; then raise its `version`.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/rng.h"
#include "contract/optim/row_rule.h"
#include "lib/test_main.h"
#include "optim/optim.h"
#include "optim/rows.h"
#include "table/dense.h"
#include "table/sparse.h"
#include "table/sparse_view.h"

enum {
    BLOCK_FLOATS = 1000,
    N_BLOCKS = 3,
    N_ELEMENTS = 2 * BLOCK_FLOATS + 37,
    N_STEPS = 300, /* More than the 256 powers that stand in a table. */
    WIDTH = 19,
    N_KEYS = 400,
    PUSH_MAX = 64,
};

/* What must come out. */
struct golden {
    const char *rule;
    uint64_t dense;
    uint64_t sparse;
};

static const struct golden goldens[] = {
    {"sgd", 0x6543fee31bebbfeb, 0xee3f1c2cd38f37eb},
    {"momentum", 0x678df594d4cb9c9c, 0xe30da7260d84377d},
    {"adagrad", 0x9d30db1881d26144, 0xd13a593b80062986},
    {"adam", 0xb439b8ed2aac3517, 0x3a4743dd665b2ed7},
    {"adamw", 0x7ede450f443efc91, 0xa4ba1f7fb5879d05},
    {"ftrl", 0xa673413d780bfd27, 0xe198bbb211d4107b},
};

static struct ps_mem mem;

/* ---- Hash ----------------------------------------------------------------------------------- */

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    return ps_mix64(hash ^ word) + word;
}

static uint64_t hash_floats(uint64_t hash, const float *floats, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        ck_assert(isfinite(floats[i])); /* The bits of a NaN say nothing. */
        memcpy(&bits, &floats[i], sizeof(bits));
        hash = hash_word(hash, bits);
    }
    return hash;
}

static uint64_t hash_double(uint64_t hash, double number)
{
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof(bits));
    return hash_word(hash, bits);
}

/* ---- What is pushed ------------------------------------------------------------------------- */

static const struct ps_optim *optim_at(int i)
{
    size_t n = 0;
    const struct ps_optim *const *all = ps_optim_all(&n);
    ck_assert_uint_lt((size_t)i, n);
    return all[i];
}

static const struct golden *golden_of(const struct ps_optim *optim)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(goldens); i++) {
        if (strcmp(goldens[i].rule, optim->name) == 0) {
            return &goldens[i];
        }
    }
    ck_abort_msg("%s has no hash here", optim->name);
}

/* Every term at work. */
static struct ps_optim_params params_of(const struct ps_optim *optim)
{
    struct ps_optim_params params = optim->defaults;
    params.l2 = 0.01f;
    params.l1 = optim->proximal ? 0.02f : 0.0f;
    return params;
}

/* Small and large ones, some 0: no two steps alike. */
static float gradient(uint64_t step, uint64_t index)
{
    uint64_t bits = ps_rng_at(step, 77, index);
    float g = ps_rng_normal(bits);
    return bits % 11 == 0 ? 0.0f : bits % 7 == 0 ? 1e3f * g : g;
}

static float rate_of(uint64_t step)
{
    return 0.05f / (float)(1 + step / 50);
}

static float scale_of(uint64_t step)
{
    return step % 3 == 0 ? 1.0f : 1.0f / (float)(1 + step % 5);
}

/* ---- Dense ---------------------------------------------------------------------------------- */

static void push_block(struct ps_dense *dense, uint32_t block, const struct ps_optim *optim,
                       const struct ps_optim_params *params, uint64_t step)
{
    static uint8_t bytes[BLOCK_FLOATS * sizeof(float) + 3];
    uint8_t *grads = bytes + step % 4; /* Payload lies at any address. */
    struct ps_page *out = NULL;
    const struct ps_page *in = NULL;
    ck_assert_int_eq(ps_dense_begin_write(dense, block, PS_PAGE_WITHIN, &out, &in), PS_OK);
    for (uint32_t i = 0; i < out->n; i++) {
        float g = gradient(step, (uint64_t)block * BLOCK_FLOATS + i);
        memcpy(grads + i * sizeof(g), &g, sizeof(g));
    }
    struct ps_optim_page counters = {
        .t = out->t, .beta1_power = out->power[0], .beta2_power = out->power[1]};
    ps_optim_page_next(&counters, params);
    out->t = counters.t;
    out->power[0] = counters.beta1_power;
    out->power[1] = counters.beta2_power;
    struct ps_optim_step of_page =
        ps_optim_step_of(params, &counters, rate_of(step), scale_of(step));
    of_page.stride = out->n;
    for (uint32_t i = 0; i < out->n;) { /* As slices cut it. */
        uint32_t n = 1 + (uint32_t)(ps_rng_at(step, 5, i) % 400);
        n = n < out->n - i ? n : out->n - i;
        float *state = out->state != NULL ? out->state + i : NULL;
        optim->apply(&of_page, out->weights + i, in->weights + i, state, grads + i * sizeof(float),
                     n);
        i += n;
    }
    ps_dense_end_write(dense, block, out);
}

static uint64_t hash_dense(const struct ps_dense *dense)
{
    uint64_t hash = 0;
    for (uint32_t block = 0; block < N_BLOCKS; block++) {
        const struct ps_page *page = ps_dense_page(dense, block);
        size_t n_state = page->state != NULL ? dense->spec.state_per_elem * (size_t)page->n : 0;
        hash = hash_floats(hash, page->weights, page->n);
        hash = hash_floats(hash, page->state, n_state);
        hash = hash_word(hash, page->t);
        hash = hash_double(hash, page->power[0]);
        hash = hash_double(hash, page->power[1]);
    }
    return hash;
}

START_TEST(a_dense_table_has_the_same_bits_on_every_machine)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    struct ps_dense_spec spec = {.id = 3,
                                 .name = "weights",
                                 .dtype = PS_DTYPE_F32,
                                 .n_dims = 1,
                                 .dims = {N_ELEMENTS},
                                 .n_elements = N_ELEMENTS,
                                 .block_floats = BLOCK_FLOATS,
                                 .state_per_elem = optim->state_per_elem,
                                 .init = {.kind = PS_INIT_NORMAL, .scale = 0.5f, .seed = 5}};
    struct ps_dense *dense = NULL;
    ps_mem_init(&mem);
    ck_assert_int_eq(ps_dense_create(&spec, &mem, &dense, NULL), PS_OK);
    for (uint32_t block = 0; block < N_BLOCKS; block++) {
        ck_assert_int_eq(ps_dense_add_block(dense, block, NULL), PS_OK);
    }
    for (uint64_t step = 0; step < N_STEPS; step++) {
        for (uint32_t block = 0; block < N_BLOCKS; block++) {
            if ((step + block) % 3 != 0) { /* Blocks differ in how often they are pushed. */
                push_block(dense, block, optim, &params, step);
            }
        }
    }
    uint64_t hash = hash_dense(dense);
    ps_dense_destroy(dense);
    ck_assert_msg(hash == golden_of(optim)->dense, "%s: dense 0x%016llx", optim->name,
                  (unsigned long long)hash);
}
END_TEST

/* ---- Sparse --------------------------------------------------------------------------------- */

static void push_rows(struct ps_sparse *sparse, const struct ps_optim_rows *rows, uint64_t step)
{
    static uint8_t grads[PUSH_MAX * WIDTH * sizeof(float)];
    uint64_t keys[PUSH_MAX];
    uint32_t n = row_keys(step, N_KEYS, PUSH_MAX, keys);
    for (uint32_t i = 0; i < n * WIDTH; i++) {
        float g = gradient(step, i);
        memcpy(grads + i * sizeof(g), &g, sizeof(g));
    }
    size_t n_bytes = n * WIDTH * sizeof(float);
    size_t n_first = n_bytes / 2 - n_bytes / 2 % 5; /* A float may straddle two slices. */
    struct ps_slice slices[] = {{grads, n_first}, {grads + n_first, n_bytes - n_first}};
    struct row_rule rule = {
        .rule = {.apply = row_rule_apply},
        .step = {.rows = rows, .rate = rate_of(step), .scale = scale_of(step), .width = WIDTH}};
    struct ps_sparse_push push = {.keys = keys,
                                  .n = n,
                                  .grads = ps_cursor_over(slices, 2),
                                  .clock = step / 4,
                                  .rate = rate_of(step),
                                  .rule = &rule.rule};
    struct ps_sparse_claim claim = {0};
    ck_assert_int_eq(ps_sparse_reserve(sparse, keys, n, PS_PAGE_WITHIN, &claim), PS_OK);
    ps_sparse_update(sparse, &push);
    ps_sparse_release(sparse, &claim);
}

static uint64_t hash_sparse(struct ps_sparse *sparse)
{
    uint64_t hash = hash_floats(hash_word(0, sparse->clock), &sparse->rate, 1);
    struct ps_sparse_view *view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT);
    ck_assert_ptr_nonnull(view);
    ck_assert(ps_sparse_view_order(view, false));
    ck_assert_uint_gt(view->n_rows, N_KEYS / 20);
    for (uint64_t i = 0; i < view->n_rows; i++) {
        struct ps_sparse_row row = ps_sparse_view_row(view, i);
        hash = hash_word(hash_word(hash_word(hash, row.key), row.t), row.touched);
        hash = hash_floats(hash, row.weights, WIDTH);
        hash = hash_floats(hash, row.state, (size_t)sparse->spec.state_per_elem * WIDTH);
    }
    ps_sparse_view_drop(view);
    hash = hash_word(hash, sparse->admit.aged);
    for (uint32_t i = 0; i < sparse->admit.n_bytes; i++) {
        hash = hash_word(hash, sparse->admit.counts[i]);
    }
    return hash;
}

START_TEST(a_sparse_table_has_the_same_bits_on_every_machine)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    static struct ps_optim_rows rows;
    ps_optim_rows_init(&rows, optim, &params);
    struct ps_sparse_spec spec = {.id = 5,
                                  .name = "rows",
                                  .width = WIDTH,
                                  .state_per_elem = optim->state_per_elem,
                                  .init = {.kind = PS_INIT_NORMAL, .scale = 0.1f, .seed = 11},
                                  .admit_after = 2,
                                  .admit_bytes = 4096,
                                  .expire_after = 40,
                                  .index_seed = test_seed()}; /* No part of what is in it. */
    if (optim->derive != NULL) {
        spec.formula = (struct ps_sparse_formula){.weights = row_rule_derive, .of = &rows};
    }
    struct ps_sparse *sparse = NULL;
    ps_mem_init(&mem);
    ck_assert_int_eq(ps_sparse_create(&spec, &mem, &sparse, NULL), PS_OK);
    for (uint64_t step = 0; step < N_STEPS; step++) {
        push_rows(sparse, &rows, step);
    }
    uint64_t hash = hash_sparse(sparse);
    ps_sparse_destroy(sparse);
    ck_assert_msg(hash == golden_of(optim)->sparse, "%s: sparse 0x%016llx", optim->name,
                  (unsigned long long)hash);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("apply_hash");
    TCase *tc = tcase_create("rules");
    tcase_add_loop_test(tc, a_dense_table_has_the_same_bits_on_every_machine, 0,
                        PS_ARRAY_LEN(goldens));
    tcase_add_loop_test(tc, a_sparse_table_has_the_same_bits_on_every_machine, 0,
                        PS_ARRAY_LEN(goldens));
    suite_add_tcase(s, tc);
    return s;
}

#ifdef TEST_WIDE
int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        (void)printf("skipped: this CPU has no AVX2 and FMA\n");
        return 77;
    }
    Suite *(*const suites[])(void) = {suite};
    return test_run(suites, 1);
}
#else
PS_TEST_MAIN(suite)
#endif
