/*
 * test_sparse_memory.c — what rows cost: the formula of server/table/README.md, small tables, rows
 * whose weights follow from their state, and keys that need no row at all.
 */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "table/sparse.h"
#include "table/sparse_view.h"

enum {
    WIDTH = 3,
    N_KEYS = 500,
    N_SLOTS = 64,
};

static struct ps_mem mem;

/* ---- A rule whose weights follow from its state --------------------------------------------- */

static float record_rate = 0.5f; /* What a real rule has in its step. */

static void weights_of(const void *of, float rate, const float *state, uint32_t width, float *out)
{
    ck_assert_ptr_eq(of, &mem);
    for (uint32_t i = 0; i < width; i++) {
        out[i] = 0.0f - rate * state[i]; /* Never -0. */
    }
}

/* The first update takes the weights as they stand, as ftrl does. */
static void rule_apply(struct ps_sparse_rule *rule, uint32_t t, float *weights, float *state,
                       const uint8_t *grad)
{
    (void)rule;
    for (uint32_t i = 0; i < WIDTH; i++) {
        float g = 0.0f;
        memcpy(&g, grad + i * sizeof(g), sizeof(g));
        state[i] = (t == 1 && weights[i] != 0.0f ? -weights[i] / record_rate : state[i]) + g;
        state[WIDTH + i] += weights[i] * g; /* The weights that are read matter. */
        weights[i] = 0.0f - record_rate * state[i];
    }
}

static struct ps_sparse_rule rule = {.apply = rule_apply};

static struct ps_sparse_spec spec_of(bool derived, enum ps_init_kind init)
{
    struct ps_sparse_spec spec = {.id = 5,
                                  .name = "rows",
                                  .width = WIDTH,
                                  .state_per_elem = 2,
                                  .init = {.kind = init, .scale = 1.0f, .seed = 11},
                                  .index_seed = 17};
    if (derived) {
        spec.formula = (struct ps_sparse_formula){.weights = weights_of, .of = &mem};
    }
    return spec;
}

static struct ps_sparse *make(const struct ps_sparse_spec *spec)
{
    struct ps_sparse *sparse = NULL;
    ck_assert_int_eq(ps_sparse_create(spec, &mem, &sparse, NULL), PS_OK);
    return sparse;
}

/* Push `n` keys with [n][width] gradients. */
static void push(struct ps_sparse *to, struct ps_sparse_rule *by, const uint64_t *keys, uint32_t n,
                 const float *grads, uint64_t clock)
{
    struct ps_slice slice = {.data = (const uint8_t *)grads,
                             .n_bytes = (size_t)n * to->spec.width * sizeof(float)};
    struct ps_sparse_push p = {.keys = keys,
                               .n = n,
                               .grads = ps_cursor_over(&slice, 1),
                               .clock = clock,
                               .rate = record_rate,
                               .rule = by};
    struct ps_sparse_claim claim = {0};
    ck_assert_int_eq(ps_sparse_reserve(to, keys, n, PS_PAGE_WITHIN, &claim), PS_OK);
    ps_sparse_update(to, &p);
    ps_sparse_release(to, &claim);
    ck_assert_uint_eq(to->n_promised, 0);
}

static uint32_t draw(struct ps_rng *rng, uint64_t *keys, float *grads)
{
    uint32_t n = 0;
    for (uint64_t key = 0; key < N_KEYS; key++) {
        if (ps_rng_below(rng, 9) == 0) {
            for (uint32_t i = 0; i < WIDTH; i++) {
                /* Some are zero, some rows altogether. */
                bool zero = ps_rng_below(rng, 4) == 0 || key % 16 == 0;
                grads[n * WIDTH + i] = zero ? 0.0f : ps_rng_normal(ps_rng_next(rng));
            }
            keys[n++] = key << 40;
        }
    }
    return n;
}

static void assert_same(struct ps_sparse *a, struct ps_sparse *b, bool skip_zeros)
{
    struct ps_sparse_view *one = ps_sparse_view_take(a, PS_PAGE_SNAPSHOT);
    struct ps_sparse_view *other = ps_sparse_view_take(b, PS_PAGE_SNAPSHOT);
    ck_assert(ps_sparse_view_order(one, skip_zeros) && ps_sparse_view_order(other, skip_zeros));
    ck_assert_uint_eq(one->n_rows, other->n_rows);
    for (uint64_t i = 0; i < one->n_rows; i++) {
        struct ps_sparse_row x = ps_sparse_view_row(one, i);
        struct ps_sparse_row y = ps_sparse_view_row(other, i);
        float read[WIDTH];
        ck_assert(x.key == y.key && x.t == y.t && x.touched == y.touched);
        ck_assert_mem_eq(x.weights, y.weights, WIDTH * sizeof(float));
        ck_assert_mem_eq(x.state, y.state, 2 * WIDTH * sizeof(float));
        ps_sparse_gather(b, &x.key, 1, read);
        ck_assert_mem_eq(x.weights, read, sizeof(read));
    }
    ps_sparse_view_drop(one);
    ps_sparse_view_drop(other);
}

START_TEST(weights_that_follow_from_state_are_those_that_rows_would_keep)
{
    ps_mem_init(&mem);
    struct ps_sparse_spec kept = spec_of(false, _i == 0 ? PS_INIT_ZEROS : PS_INIT_UNIFORM);
    struct ps_sparse_spec derived = spec_of(true, kept.init.kind);
    struct ps_rng rng = ps_rng_from(test_seed());
    struct ps_sparse *a = make(&kept);
    struct ps_sparse *b = make(&derived);
    static uint64_t keys[N_KEYS];
    static float grads[N_KEYS * WIDTH];
    for (uint64_t i = 0; i < 40; i++) {
        uint32_t n = draw(&rng, keys, grads);
        push(a, &rule, keys, n, grads, i);
        push(b, &rule, keys, n, grads, i);
    }
    ck_assert_uint_gt(ps_sparse_stats(b).n_rows, N_KEYS / 2);
    assert_same(a, b, false);
    assert_same(a, b, true);
    /* A saved row put into another table. */
    struct ps_sparse *copy = make(&derived);
    struct ps_sparse_view *view = ps_sparse_view_take(a, PS_PAGE_REPLICA);
    ck_assert(ps_sparse_view_order(view, false));
    for (uint64_t i = 0; i < view->n_rows; i++) {
        struct ps_sparse_row row = ps_sparse_view_row(view, i);
        ck_assert_int_eq(ps_sparse_put(copy, &row), PS_OK);
    }
    ps_sparse_view_drop(view);
    ps_sparse_put_rest(copy, &(struct ps_sparse_rest){.clock = 39, .rate = b->rate});
    assert_same(b, copy, false);
    ps_sparse_destroy(a);
    ps_sparse_destroy(b);
    ps_sparse_destroy(copy);
    ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_PAGES]), 0);
}
END_TEST

START_TEST(a_new_rate_moves_weights_that_follow_from_state_with_the_push_that_brings_it)
{
    ps_mem_init(&mem);
    struct ps_sparse_spec spec = spec_of(true, PS_INIT_ZEROS);
    struct ps_sparse *sparse = make(&spec);
    uint64_t keys[] = {1, 2};
    float grads[2 * WIDTH] = {4.0f, 4.0f, 4.0f, 4.0f, 4.0f, 4.0f};
    float read[WIDTH];
    push(sparse, &rule, keys, 2, grads, 1);
    ps_sparse_gather(sparse, keys, 1, read);
    ck_assert(read[0] == -2.0f);
    struct ps_sparse_view *view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT);
    record_rate = 0.25f;
    push(sparse, &rule, keys + 1, 1, grads, 2);
    record_rate = 0.5f;
    ps_sparse_gather(sparse, keys, 1, read);
    ck_assert(read[0] == -1.0f);
    ck_assert(ps_sparse_view_order(view, false)); /* As it was. */
    ck_assert(ps_sparse_view_row(view, 0).weights[0] == -2.0f);
    ps_sparse_view_drop(view);
    ps_sparse_destroy(sparse);
}
END_TEST

START_TEST(a_row_that_would_stand_like_none_is_not_made)
{
    ps_mem_init(&mem);
    struct ps_sparse_spec spec = spec_of(_i == 1, PS_INIT_ZEROS);
    spec.expire_after = 5;
    struct ps_sparse *sparse = make(&spec);
    uint64_t keys[] = {1, 2, 3};
    float grads[3 * WIDTH] = {0.0f};
    grads[WIDTH] = 1.0f;
    push(sparse, &rule, keys, 3, grads, 1);
    struct ps_sparse_stats stats = ps_sparse_stats(sparse);
    ck_assert_uint_eq(stats.n_rows, 1);
    ck_assert_uint_eq(stats.n_created, 1);
    ck_assert_uint_eq(stats.n_updated, 1);
    /* Nor one that has expired again; it goes with the next sweep. */
    grads[WIDTH] = 0.0f;
    push(sparse, &rule, keys, 3, grads, 20);
    struct ps_sparse_view *view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT);
    ck_assert(ps_sparse_view_order(view, false));
    ck_assert_uint_eq(view->n_rows, 0);
    ps_sparse_view_drop(view);
    ps_sparse_sweep(sparse, 1000);
    stats = ps_sparse_stats(sparse);
    ck_assert(stats.n_rows == 0 && stats.n_created == 1 && stats.n_expired == 1);
    grads[0] = 1.0f;
    push(sparse, &rule, keys, 1, grads, 21);
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 1);
    ps_sparse_destroy(sparse);
}
END_TEST

static void add(struct ps_sparse_rule *r, uint32_t t, float *weights, float *state,
                const uint8_t *grad)
{
    float g = 0.0f;
    (void)r;
    (void)t;
    (void)state;
    memcpy(&g, grad, sizeof(g));
    weights[0] += g;
}

static struct ps_sparse_rule adder = {.apply = add};

START_TEST(random_first_weights_take_memory_once_they_have_changed)
{
    ps_mem_init(&mem);
    struct ps_sparse_spec spec = spec_of(false, PS_INIT_UNIFORM);
    spec.state_per_elem = 0;
    struct ps_sparse *sparse = make(&spec);
    uint64_t keys[] = {7, 8};
    float grads[2 * WIDTH] = {[WIDTH] = 1.0f};
    float before[2 * WIDTH];
    float after[2 * WIDTH];
    ps_sparse_gather(sparse, keys, 2, before);
    push(sparse, &adder, keys, 2, grads, 1);
    ps_sparse_gather(sparse, keys, 2, after);
    before[WIDTH] += 1.0f;
    ck_assert_mem_eq(before, after, sizeof(before));
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 1);
    ps_sparse_destroy(sparse);
}
END_TEST

/* ---- The formula ---------------------------------------------------------------------------- */

static uint64_t power_of_two(double n, uint64_t least)
{
    uint64_t power = least;
    while ((double)power < n) {
        power *= 2;
    }
    return power;
}

/* As server/table/README.md has it: what `n` rows of a slot take. */
static double formula(uint64_t n, uint32_t numbers)
{
    uint64_t row = 16 + UINT64_C(4) * numbers;
    uint64_t whole = 64;
    while (whole < 4096 && 2 * whole * row <= (256u << 10)) {
        whole *= 2;
    }
    uint64_t rest = n % whole;
    uint64_t room = n / whole * whole;
    room += rest == 0 ? 0 : power_of_two((double)rest, n < whole ? 8 : whole / 4);
    return 1536.0 + (double)(room * row) + 8.0 * (double)power_of_two((double)n / 0.75, 64);
}

static const struct {
    uint32_t width;
    uint32_t state;
    uint64_t n_max;
} cases[] = {{1, 2, 60000}, {1, 0, 60000}, {16, 1, 20000}, {100, 2, 3000}, {4096, 0, 300}};

START_TEST(memory_is_that_of_the_formula_within_three_tenths)
{
    ps_mem_init(&mem);
    struct ps_sparse_spec spec = {.name = "rows",
                                  .width = cases[_i].width,
                                  .state_per_elem = cases[_i].state,
                                  .index_seed = 3};
    struct ps_sparse *sparse = make(&spec);
    static float one[4096] = {1.0f};
    uint32_t numbers = spec.width * (1 + spec.state_per_elem);
    for (uint64_t n = 1; n <= cases[_i].n_max; n++) {
        uint64_t key = ps_mix64(n);
        push(sparse, &adder, &key, 1, one, 1);
        double used = (double)atomic_load(&mem.used[PS_MEM_PAGES]);
        ck_assert_msg(used < 1.3 * formula(n, numbers) + 16.0 * spec.width &&
                          used > 0.7 * formula(n, numbers),
                      "%llu rows take %g, not %g", (unsigned long long)n, used,
                      formula(n, numbers));
    }
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, cases[_i].n_max);
    ps_sparse_destroy(sparse);
}
END_TEST

START_TEST(a_thousand_keys_over_all_slots_take_kilobytes)
{
    ps_mem_init(&mem);
    struct ps_sparse_spec spec = spec_of(true, PS_INIT_ZEROS);
    struct ps_sparse *slots[N_SLOTS];
    float grad[WIDTH] = {1.0f};
    for (uint32_t i = 0; i < N_SLOTS; i++) {
        slots[i] = make(&spec);
    }
    ck_assert_uint_lt(atomic_load(&mem.used[PS_MEM_PAGES]), 100u << 10);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t key = ps_mix64(i);
        push(slots[key % N_SLOTS], &rule, &key, 1, grad, 1);
    }
    ck_assert_uint_lt(atomic_load(&mem.used[PS_MEM_PAGES]), 220u << 10);
    for (uint32_t i = 0; i < N_SLOTS; i++) {
        ps_sparse_destroy(slots[i]);
    }
}
END_TEST

/* Else the slots that shrink would keep from those that grow what nobody uses. */
START_TEST(memory_of_rows_that_are_gone_is_there_for_others)
{
    static float grads[64 * WIDTH] = {1.0f};
    uint64_t keys[64];
    ps_mem_init(&mem);
    mem.limit[PS_MEM_PAGES] = 8u << 20;
    struct ps_sparse_spec spec = spec_of(false, PS_INIT_UNIFORM);
    spec.expire_after = 1;
    struct ps_sparse *slots[2] = {make(&spec), make(&spec)};
    uint64_t n_rows[2] = {0};
    for (uint32_t s = 0; s < 2; s++) {
        bool room = true;
        while (room) {
            struct ps_sparse_claim claim = {0};
            for (uint32_t i = 0; i < 64; i++) {
                keys[i] = n_rows[s] + i;
            }
            room = ps_sparse_reserve(slots[s], keys, 64, PS_PAGE_WITHIN, &claim) == PS_OK;
            ps_sparse_release(slots[s], &claim);
            if (room) {
                push(slots[s], &rule, keys, 64, grads, 0);
                n_rows[s] += 64;
            }
        }
        keys[0] = 0;
        push(slots[s], &rule, keys, 1, grads, 9);
        ps_sparse_sweep(slots[s], 1u << 20);
        ck_assert_uint_eq(ps_sparse_stats(slots[s]).n_rows, 1);
    }
    ck_assert_uint_gt(n_rows[0], 20000);
    ck_assert_uint_gt(n_rows[1], n_rows[0] * 3 / 4); /* The first one's index stays. */
    ps_sparse_destroy(slots[0]);
    ps_sparse_destroy(slots[1]);
    ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_PAGES]), 0);
    ps_mem_init(&mem);
}
END_TEST

static Suite *suite_sparse_memory(void)
{
    Suite *suite = suite_create("sparse_memory");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, weights_that_follow_from_state_are_those_that_rows_would_keep, 0, 2);
    tcase_add_test(tcase,
                   a_new_rate_moves_weights_that_follow_from_state_with_the_push_that_brings_it);
    tcase_add_loop_test(tcase, a_row_that_would_stand_like_none_is_not_made, 0, 2);
    tcase_add_test(tcase, random_first_weights_take_memory_once_they_have_changed);
    tcase_add_loop_test(tcase, memory_is_that_of_the_formula_within_three_tenths, 0,
                        (int)PS_ARRAY_LEN(cases));
    tcase_add_test(tcase, a_thousand_keys_over_all_slots_take_kilobytes);
    tcase_add_test(tcase, memory_of_rows_that_are_gone_is_there_for_others);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sparse_memory)
