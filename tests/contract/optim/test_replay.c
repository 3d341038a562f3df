/*
 * test_replay.c — the plain tables of psctl replay against the server's, rule by rule: random
 * pushes of blocks and rows, with admission, expiry and rates that change, give the same bits in
 * both.
 */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/rng.h"
#include "contract/optim/row_rule.h"
#include "coordinator.pb-c.h"
#include "lib/test_main.h"
#include "optim/optim.h"
#include "optim/rows.h"
#include "replay.h"
#include "table/dense.h"
#include "table/sparse.h"
#include "table/sparse_view.h"
#include "wire/keys.h"

enum {
    N = 300,
    N_STEPS = 400,
    WIDTH = 7,
    N_KEYS = 200,
    PUSH_MAX = 40,
    SLOT = 9,
};

static struct replay replay;
static struct ps_mem mem;

static const struct ps_optim *optim_at(int i)
{
    size_t n = 0;
    const struct ps_optim *const *all = ps_optim_all(&n);
    ck_assert_uint_lt((size_t)i, n);
    return all[i];
}

static struct ps_optim_params params_of(const struct ps_optim *optim)
{
    struct ps_optim_params params = optim->defaults;
    params.l2 = 0.01f;
    params.l1 = optim->proximal ? 0.02f : 0.0f;
    return params;
}

/* The table as the catalogue has it. */
static void define(const struct ps_optim *optim, const struct ps_optim_params *params, bool sparse)
{
    char name[] = "table";
    char rule[16];
    (void)snprintf(rule, sizeof(rule), "%s", optim->name);
    Ps__V1__Optimizer packed_rule = PS__V1__OPTIMIZER__INIT;
    packed_rule.name = rule;
    packed_rule.momentum = params->momentum;
    packed_rule.beta1 = params->beta1;
    packed_rule.beta2 = params->beta2;
    packed_rule.epsilon = params->epsilon;
    packed_rule.weight_decay = params->weight_decay;
    packed_rule.l1 = params->l1;
    packed_rule.l2 = params->l2;
    Ps__V1__TableDefinition def = PS__V1__TABLE_DEFINITION__INIT;
    def.name = name;
    def.optimizer = &packed_rule;
    def.init = PS__V1__INIT_KIND__NORMAL;
    def.init_scale = 0.1f;
    def.seed = 11;
    def.kind = sparse ? PS__V1__TABLE_KIND__SPARSE : PS__V1__TABLE_KIND__DENSE;
    def.width = sparse ? WIDTH : 0;
    def.admit_after = sparse ? 2 : 0;
    def.expire_after = sparse ? 20 : 0;
    Ps__V1__Table table = PS__V1__TABLE__INIT;
    table.number = 5;
    table.definition = &def;
    table.elements = sparse ? 0 : N;
    table.block_floats = sparse ? 0 : N;
    table.blocks = sparse ? 0 : 1;
    static uint8_t bytes[1024];
    ck_assert_uint_le(ps__v1__table__get_packed_size(&table), sizeof(bytes));
    size_t n_bytes = ps__v1__table__pack(&table, bytes);
    struct ps_error err = {0};
    ck_assert_msg(replay_define(&replay, bytes, n_bytes, &err) == PS_OK, "%s", err.text);
}

static void write_grads(uint64_t step, size_t n, uint8_t *to)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = ps_rng_at(step, 77, i);
        float g = bits % 11 == 0 ? 0.0f : ps_rng_normal(bits);
        memcpy(to + i * sizeof(g), &g, sizeof(g));
    }
}

static float rate_of(uint64_t step)
{
    return 0.05f / (float)(1 + step / 50);
}

static float scale_of(uint64_t step)
{
    return 1.0f / (float)(1 + step % 5);
}

/* ---- Dense ---------------------------------------------------------------------------------- */

static void push_block(struct ps_dense *dense, const struct ps_optim *optim,
                       const struct ps_optim_params *params, uint64_t step, const uint8_t *grads)
{
    struct ps_page *out = NULL;
    const struct ps_page *in = NULL;
    ck_assert_int_eq(ps_dense_begin_write(dense, 0, PS_PAGE_WITHIN, &out, &in), PS_OK);
    struct ps_optim_page counters = {
        .t = out->t, .beta1_power = out->power[0], .beta2_power = out->power[1]};
    ps_optim_page_next(&counters, params);
    out->t = counters.t;
    out->power[0] = counters.beta1_power;
    out->power[1] = counters.beta2_power;
    struct ps_optim_step of_page =
        ps_optim_step_of(params, &counters, rate_of(step), scale_of(step));
    of_page.stride = out->n;
    optim->apply(&of_page, out->weights, in->weights, out->state, grads, out->n);
    ps_dense_end_write(dense, 0, out);
}

START_TEST(blocks_come_out_the_same)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    static uint8_t grads[N * sizeof(float)];
    struct ps_dense_spec spec = {.id = 5,
                                 .name = "table",
                                 .dtype = PS_DTYPE_F32,
                                 .n_dims = 1,
                                 .dims = {N},
                                 .n_elements = N,
                                 .block_floats = N,
                                 .state_per_elem = optim->state_per_elem,
                                 .init = {.kind = PS_INIT_NORMAL, .scale = 0.1f, .seed = 11}};
    struct ps_dense *dense = NULL;
    ps_mem_init(&mem);
    define(optim, &params, false);
    ck_assert_int_eq(ps_dense_create(&spec, &mem, &dense, NULL), PS_OK);
    ck_assert_int_eq(ps_dense_add_block(dense, 0, NULL), PS_OK);
    const struct ps_part part = {.table = 5, .block = 0, .n_bytes = sizeof(grads)};
    for (uint64_t step = 0; step < N_STEPS; step++) {
        write_grads(step, N, grads);
        push_block(dense, optim, &params, step, grads);
        ck_assert_int_eq(
            replay_push_block(&replay, &part, rate_of(step), scale_of(step), grads, NULL), PS_OK);
    }
    const struct ps_page *page = ps_dense_page(dense, 0);
    const struct replay_block *block = replay_block(&replay, 5, 0);
    ck_assert_mem_eq(block->weights, page->weights, N * sizeof(float));
    if (optim->state_per_elem > 0) {
        ck_assert_mem_eq(block->state, page->state, optim->state_per_elem * N * sizeof(float));
    }
    ck_assert_uint_eq(block->t, page->t);
    ck_assert_uint_eq(block->version, page->version);
    ck_assert_mem_eq(block->power, page->power, sizeof(block->power));
    ps_dense_destroy(dense);
    replay_forget(&replay);
}
END_TEST

/* ---- Rows ----------------------------------------------------------------------------------- */

static void push_rows(struct ps_sparse *sparse, const struct ps_optim_rows *rows, uint64_t step)
{
    static uint8_t payload[PUSH_MAX * (PS_KEY_BYTES_MAX + WIDTH * sizeof(float))];
    uint64_t keys[PUSH_MAX];
    uint32_t n = row_keys(step, N_KEYS, PUSH_MAX, keys);
    size_t n_keys = ps_keys_write(keys, n, payload, sizeof(payload));
    size_t n_grads = (size_t)n * WIDTH * sizeof(float);
    write_grads(step, (size_t)n * WIDTH, payload + n_keys);
    struct ps_slice grads = {payload + n_keys, n_grads};
    struct row_rule rule = {
        .rule = {.apply = row_rule_apply},
        .step = {.rows = rows, .rate = rate_of(step), .scale = scale_of(step), .width = WIDTH}};
    struct ps_sparse_push push = {.keys = keys,
                                  .n = n,
                                  .grads = ps_cursor_over(&grads, 1),
                                  .clock = step / 4,
                                  .rate = rate_of(step),
                                  .rule = &rule.rule};
    struct ps_sparse_claim claim = {0};
    ck_assert_int_eq(ps_sparse_reserve(sparse, keys, n, PS_PAGE_WITHIN, &claim), PS_OK);
    ps_sparse_update(sparse, &push);
    ps_sparse_release(sparse, &claim);
    struct ps_slice all = {payload, n_keys + n_grads};
    const struct ps_part part = {.table = 5,
                                 .n_keys = n,
                                 .n_key_bytes = (uint32_t)n_keys,
                                 .n_bytes = (uint32_t)(n_keys + n_grads)};
    struct ps_record record = {.kind = PS_RECORD_PUSH, .slot = SLOT, .position = step + 1};
    record.push = (struct ps_record_push){.clock = step / 4,
                                          .rate = rate_of(step),
                                          .scale = scale_of(step),
                                          .parts = &part,
                                          .n_parts = 1,
                                          .payload = ps_cursor_over(&all, 1)};
    struct ps_error err = {0};
    ck_assert_msg(replay_record(&replay, &record, &err) == PS_OK, "%s", err.text);
}

static void compare_rows(struct ps_sparse *sparse)
{
    const struct replay_table *table = &replay.tables[5];
    struct replay_rows *rows = replay_rows(&replay, 5, SLOT);
    struct ps_sparse_view *view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT);
    ck_assert(view != NULL && ps_sparse_view_order(view, false));
    ck_assert_uint_gt(view->n_rows, 10);
    for (uint64_t i = 0; i < view->n_rows; i++) {
        struct ps_sparse_row want = ps_sparse_view_row(view, i);
        struct replay_row *row = replay_row(table, rows, want.key);
        ck_assert(replay_lives(table, rows, row));
        ck_assert_uint_eq(row->t, want.t);
        ck_assert_uint_eq(row->touched, want.touched);
        if (table->rule.kind == REPLAY_FTRL) { /* They follow, with the rate of the last push. */
            replay_derive(&table->rule, rows->rate, row->floats, row->floats + WIDTH, WIDTH);
        }
        ck_assert_mem_eq(row->floats, want.weights, WIDTH * sizeof(float));
        if (table->rule.n_state > 0) {
            ck_assert_mem_eq(row->floats + WIDTH, want.state,
                             (size_t)table->rule.n_state * WIDTH * sizeof(float));
        }
    }
    uint64_t n = 0;
    for (uint64_t i = 0; i < rows->n_room; i++) {
        n += replay_lives(table, rows, &rows->rows[i]) ? 1 : 0;
    }
    ck_assert_uint_eq(n, view->n_rows);
    ck_assert_uint_eq(rows->aged, sparse->admit.aged);
    ck_assert_mem_eq(rows->counts, sparse->admit.counts, PS_ADMIT_BYTES);
    ps_sparse_view_drop(view);
}

START_TEST(rows_come_out_the_same)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    static struct ps_optim_rows rows;
    ps_optim_rows_init(&rows, optim, &params);
    struct ps_sparse_spec spec = {.id = 5,
                                  .name = "table",
                                  .width = WIDTH,
                                  .state_per_elem = optim->state_per_elem,
                                  .init = {.kind = PS_INIT_NORMAL, .scale = 0.1f, .seed = 11},
                                  .admit_after = 2,
                                  .admit_bytes = PS_ADMIT_BYTES,
                                  .expire_after = 20,
                                  .index_seed = test_seed()};
    if (optim->derive != NULL) {
        spec.formula = (struct ps_sparse_formula){.weights = row_rule_derive, .of = &rows};
    }
    struct ps_sparse *sparse = NULL;
    ps_mem_init(&mem);
    define(optim, &params, true);
    replay.slots[SLOT] = (struct replay_slot){.wanted = true, .target = N_STEPS};
    ck_assert_int_eq(ps_sparse_create(&spec, &mem, &sparse, NULL), PS_OK);
    for (uint64_t step = 0; step < N_STEPS; step++) {
        push_rows(sparse, &rows, step);
    }
    compare_rows(sparse);
    ps_sparse_destroy(sparse);
    replay_forget(&replay);
}
END_TEST

START_TEST(a_row_of_any_age_has_the_same_power)
{
    static struct ps_optim_rows rows;
    const struct ps_optim *adam = ps_optim_find("adam");
    struct replay_rule rule = {.beta1 = adam->defaults.beta1, .beta2 = adam->defaults.beta2};
    ps_optim_rows_init(&rows, adam, &adam->defaults);
    replay_rule_init(&rule);
    for (uint64_t t = 1; t < UINT64_C(1) << 33; t += 1 + t / 3) {
        for (uint32_t which = 0; which < 2; which++) {
            double got = replay_power(&rule, which, t);
            double want = ps_optim_power(&rows.powers[which], t);
            ck_assert_mem_eq(&got, &want, sizeof(got));
        }
    }
}
END_TEST

START_TEST(a_record_that_is_missing_is_told)
{
    struct ps_error err = {0};
    struct ps_record record = {.kind = PS_RECORD_EPOCH, .slot = SLOT, .position = 1};
    replay.slots[SLOT] = (struct replay_slot){.wanted = true, .target = 10};
    ck_assert_int_eq(replay_record(&replay, &record, &err), PS_OK);
    ck_assert_int_eq(replay_record(&replay, &record, &err), PS_OK); /* It has it. */
    record.position = 3;
    ck_assert_int_eq(replay_record(&replay, &record, &err), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "behind position 1 has position 3"));
}
END_TEST

static Suite *suite(void)
{
    size_t n = 0;
    (void)ps_optim_all(&n);
    Suite *s = suite_create("replay");
    TCase *tc = tcase_create("rules");
    tcase_add_loop_test(tc, blocks_come_out_the_same, 0, (int)n);
    tcase_add_loop_test(tc, rows_come_out_the_same, 0, (int)n);
    tcase_add_test(tc, a_row_of_any_age_has_the_same_power);
    tcase_add_test(tc, a_record_that_is_missing_is_told);
    suite_add_tcase(s, tc);
    return s;
}

PS_TEST_MAIN(suite)
