/*
 * test_sparse_scan.c — walks over all rows while the table changes: what is there from the first
 * step to the last comes exactly once and as it is at that moment, whatever comes and goes
 * meanwhile; the work of a step is bounded.
 */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "table/sparse.h"
#include "table/sparse_scan.h"

enum {
    WIDTH = 150, /* 1,216 bytes a row: pages of 128 rows. */
    N_KEYS = 3000,
    PUSH_MAX = 400,
};

static struct ps_mem mem;
static struct ps_sparse *sparse;
static uint64_t met[N_KEYS];   /* How often in this walk. */
static bool all_along[N_KEYS]; /* Had a row at every step of this walk. */
static struct ps_sparse_item room[2 * PS_SCAN_ROWS];
static uint64_t keys_found[PS_SCAN_ROWS];
static float weights[PS_SCAN_ROWS][WIDTH];

/* Sets all weights to the gradient's first value. */
static void rule_apply(struct ps_sparse_rule *rule PS_UNUSED, uint32_t t PS_UNUSED, float *to,
                       float *state PS_UNUSED, const uint8_t *grad)
{
    for (uint32_t i = 0; i < WIDTH; i++) {
        memcpy(to + i, grad, sizeof(*to));
    }
}

static struct ps_sparse_rule rule = {.apply = rule_apply};

static void start(uint32_t expire_after)
{
    struct ps_sparse_spec spec = {.id = 5,
                                  .name = "rows",
                                  .width = WIDTH,
                                  .state_per_elem = 1,
                                  .init = {.kind = PS_INIT_UNIFORM, .scale = 1.0f, .seed = 11},
                                  .expire_after = expire_after,
                                  .index_seed = 17};
    ps_mem_init(&mem);
    ck_assert_int_eq(ps_sparse_create(&spec, &mem, &sparse, NULL), PS_OK);
}

static void finish(void)
{
    ps_sparse_destroy(sparse);
    ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_PAGES]), 0);
}

static void push(const uint64_t *keys, uint32_t n, uint64_t clock, float value)
{
    static float grads[PUSH_MAX][WIDTH];
    ck_assert_uint_le(n, PUSH_MAX);
    for (uint32_t i = 0; i < n; i++) {
        grads[i][0] = value;
    }
    struct ps_slice slice = {.data = (const uint8_t *)grads, .n_bytes = n * sizeof(grads[0])};
    struct ps_sparse_push to_push = {
        .keys = keys, .n = n, .grads = ps_cursor_over(&slice, 1), .clock = clock, .rule = &rule};
    struct ps_sparse_claim claim = {0};
    ck_assert_int_eq(ps_sparse_reserve(sparse, keys, n, PS_PAGE_WITHIN, &claim), PS_OK);
    ps_sparse_update(sparse, &to_push);
    ps_sparse_release(sparse, &claim);
}

/* Keys [first, first + n), PUSH_MAX at a time. */
static void push_range(uint64_t first, uint32_t n, uint64_t clock, float value)
{
    uint64_t keys[PUSH_MAX];
    while (n > 0) {
        uint32_t n_here = n < PUSH_MAX ? n : PUSH_MAX;
        for (uint32_t i = 0; i < n_here; i++) {
            keys[i] = first + i;
        }
        push(keys, n_here, clock, value);
        first += n_here;
        n -= n_here;
    }
}

static struct ps_sparse_scan step_of(uint64_t cursor, uint32_t n_max, bool skip_zeros)
{
    struct ps_sparse_scan scan = {.cursor = cursor,
                                  .skip_zeros = skip_zeros,
                                  .n_max = n_max,
                                  .room = room,
                                  .keys = keys_found};
    ps_sparse_scan_step(sparse, &scan);
    ck_assert_uint_le(scan.n, n_max);
    ck_assert(scan.done || scan.cursor > cursor);
    for (uint32_t i = 1; i < scan.n; i++) {
        ck_assert_uint_lt(scan.keys[i - 1], scan.keys[i]);
    }
    ps_sparse_scan_read(sparse, &scan, (uint8_t *)weights);
    return scan;
}

/* Rows found by a whole walk. */
static uint64_t count_rows(uint32_t n_max, bool skip_zeros)
{
    uint64_t n = 0;
    struct ps_sparse_scan scan = {0};
    while (!scan.done) {
        scan = step_of(scan.cursor, n_max, skip_zeros);
        n += scan.n;
    }
    return n;
}

static bool has_row(uint32_t key)
{
    float got[WIDTH];
    float first[WIDTH];
    struct ps_init init = sparse->spec.init;
    init.seed = ps_rng_at(init.seed, sparse->spec.id, key);
    ps_init_fill(&init, 0, 0, first, WIDTH);
    ps_sparse_gather(sparse, &(uint64_t){key}, 1, got);
    return memcmp(got, first, sizeof(got)) != 0;
}

/* What the step found is there now and is as it is now; who is not there now was not all along. */
static void note_step(const struct ps_sparse_scan *scan)
{
    static float want[PS_SCAN_ROWS][WIDTH];
    ps_sparse_gather(sparse, scan->keys, scan->n, want[0]);
    ck_assert_mem_eq(want, weights, scan->n * sizeof(want[0]));
    for (uint32_t i = 0; i < scan->n; i++) {
        ck_assert_uint_lt(scan->keys[i], N_KEYS);
        ck_assert(has_row((uint32_t)scan->keys[i]));
        met[scan->keys[i]]++;
    }
}

static void note_absent(void)
{
    for (uint32_t key = 0; key < N_KEYS; key++) {
        all_along[key] = all_along[key] && has_row(key);
    }
}

/* Pushes of a stretch of keys, sweeps. The clock moves on, so some rows go and some come again. */
static void change(struct ps_rng *rng, uint64_t *clock)
{
    uint32_t n = 1 + (uint32_t)ps_rng_below(rng, PUSH_MAX);
    uint64_t first = ps_rng_below(rng, N_KEYS - n);
    *clock += ps_rng_below(rng, 3) == 0 ? 1 : 0;
    push_range(first, n, *clock, 2.0f + (float)ps_rng_below(rng, 100));
    ps_sparse_sweep(sparse, (uint32_t)ps_rng_below(rng, 1000));
    note_absent();
}

/* _i: 0: rows stay; else they expire. */
START_TEST(what_is_there_all_along_comes_exactly_once)
{
    struct ps_rng rng = ps_rng_from(test_seed() + (uint64_t)_i);
    uint64_t clock = 1;
    uint64_t n_stayed = 0;
    start(_i == 0 ? 0 : 12);
    push_range(0, N_KEYS / 2, clock, 1.5f);
    for (int walk = 0; walk < 20; walk++) {
        memset(met, 0, sizeof(met));
        memset(all_along, 1, sizeof(all_along));
        note_absent();
        struct ps_sparse_scan scan = {0};
        while (!scan.done) {
            scan = step_of(scan.cursor, 1 + (uint32_t)ps_rng_below(&rng, 300), false);
            note_step(&scan);
            if (!scan.done && ps_rng_below(&rng, 2) == 0) {
                change(&rng, &clock);
            }
        }
        for (uint32_t key = 0; key < N_KEYS; key++) {
            ck_assert_msg(!all_along[key] || met[key] == 1, "key %u: %u times", key,
                          (unsigned)met[key]);
            ck_assert(_i != 0 || met[key] <= 1);
            n_stayed += all_along[key] ? 1 : 0;
        }
    }
    ck_assert_uint_gt(n_stayed, 20 * 100);
    ck_assert(_i == 0 || sparse->stats.n_expired > 100);
    finish();
}
END_TEST

START_TEST(zeros_are_left_out_on_request)
{
    start(0);
    push_range(0, 1000, 1, 1.0f);
    push_range(200, 300, 1, 0.0f);
    push_range(700, 10, 1, -0.0f);
    ck_assert_uint_eq(count_rows(100, false), 1000);
    ck_assert_uint_eq(count_rows(100, true), 690);
    finish();
}
END_TEST

/* However the answer looks, no step looks at more than a bounded number of rows. */
START_TEST(a_step_is_bounded_work)
{
    start(0);
    uint32_t n_looked = ps_sparse_scan_rows_max(sparse);
    ck_assert_uint_le(n_looked * sparse->shape.row_floats * sizeof(float), PS_CALL_PAYLOAD_BYTES);
    push_range(0, N_KEYS, 1, 0.0f);
    struct ps_sparse_scan scan = step_of(0, PS_SCAN_ROWS, true);
    ck_assert_uint_eq(scan.n, 0);
    ck_assert_uint_eq(scan.cursor, n_looked);
    ck_assert(!scan.done);
    scan = step_of(0, PS_SCAN_ROWS, false);
    ck_assert_uint_eq(scan.cursor, n_looked);
    ck_assert_uint_gt(scan.n, n_looked / 2); /* Some rows of a page are free. */
    scan = step_of(0, 1, false);
    ck_assert_uint_eq(scan.n, 1);
    finish();
}
END_TEST

START_TEST(pages_that_were_given_up_are_passed_over)
{
    start(5);
    push_range(0, 2000, 1, 1.0f);
    push_range(5000, 10, 20, 1.0f);
    ck_assert_uint_eq(count_rows(100, false), 10); /* Expired, not yet swept. */
    ps_sparse_sweep(sparse, 100000);
    ck_assert_uint_eq(count_rows(100, false), 10);
    finish();
}
END_TEST

START_TEST(any_cursor_is_fine_and_an_empty_table_is_done_at_once)
{
    start(0);
    ck_assert(step_of(0, 10, false).done);
    push_range(0, 300, 1, 1.0f);
    static const uint64_t cursors[] = {1u << 20, 1u << 30, 1ull << 32, UINT64_MAX};
    for (size_t i = 0; i < PS_ARRAY_LEN(cursors); i++) {
        struct ps_sparse_scan scan = step_of(cursors[i], 10, false);
        ck_assert(scan.done);
        ck_assert_uint_eq(scan.n, 0);
    }
    finish();
}
END_TEST

static Suite *suite_sparse_scan(void)
{
    Suite *suite = suite_create("sparse_scan");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, what_is_there_all_along_comes_exactly_once, 0, 2);
    tcase_add_test(tcase, zeros_are_left_out_on_request);
    tcase_add_test(tcase, a_step_is_bounded_work);
    tcase_add_test(tcase, pages_that_were_given_up_are_passed_over);
    tcase_add_test(tcase, any_cursor_is_fine_and_an_empty_table_is_done_at_once);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sparse_scan)
