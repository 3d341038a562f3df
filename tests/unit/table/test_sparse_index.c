/*
 * test_sparse_index.c — the index against a plain list, with hashes chosen so that searches are
 * long and go over the end of the table, in every state of a growth; and the counters of keys
 * without a row.
 */
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "table/admit.h"
#include "table/sparse_index.h"

enum {
    N_ROWS = 30000,
};

static uint32_t hashes[N_ROWS];
static bool there[N_ROWS];

/* Mode 0: spread. 1: few homes, also the last ones. 2: all hashes equal in their upper half. */
static uint32_t hash_of(int mode, uint64_t bits)
{
    switch (mode) {
    case 0: return (uint32_t)bits;
    case 1: return (uint32_t)bits | ((bits >> 40) % 4 == 0 ? UINT32_C(0xfff00000) : 0);
    default: return UINT32_C(0xfffe0000) | ((uint32_t)bits & 0xffffu);
    }
}

static bool has(const struct ps_index *index, uint32_t row)
{
    struct ps_index_probe probe = ps_index_begin(index, hashes[row]);
    uint32_t n_found = 0;
    for (;;) {
        uint32_t candidate = ps_index_candidate(&probe);
        if (candidate == PS_INDEX_NONE) {
            ck_assert_uint_le(n_found, 1);
            return n_found == 1;
        }
        ck_assert_uint_lt(candidate, N_ROWS);
        ck_assert_uint_eq(hashes[candidate], hashes[row]);
        ck_assert(there[candidate]);
        n_found += candidate == row ? 1 : 0;
    }
}

START_TEST(an_index_holds_what_was_put_in_and_not_taken_out)
{
    struct ps_index index;
    struct ps_rng rng = ps_rng_from(test_seed());
    uint32_t n_rows = _i == 0 ? N_ROWS : _i == 1 ? 6000 : 1500;
    uint32_t n_moving = 0;
    memset(there, 0, sizeof(there));
    ck_assert(ps_index_init(&index, 3, NULL));
    for (uint32_t row = 0; row < n_rows; row++) {
        hashes[row] = hash_of(_i, ps_rng_next(&rng));
    }
    for (uint32_t step = 0; step < 4 * n_rows; step++) {
        /* Rows come to be used in the order of their numbers, so that the index grows slowly. */
        uint32_t row = (uint32_t)ps_rng_below(&rng, 1 + step / 4);
        if (there[row] && ps_rng_below(&rng, 3) == 0) {
            ps_index_remove(&index, hashes[row], row);
            there[row] = false;
        } else if (!there[row]) {
            ck_assert(ps_index_reserve(&index, 1, PS_PAGE_WITHIN));
            ps_index_insert(&index, hashes[row], row);
            ps_index_release(&index, 1);
            there[row] = true;
        }
        n_moving += index.moving ? 1 : 0;
        uint32_t other = (uint32_t)ps_rng_below(&rng, n_rows);
        ck_assert_int_eq(has(&index, row), there[row]);
        ck_assert_int_eq(has(&index, other), there[other]);
    }
    uint64_t n = 0;
    for (uint32_t row = 0; row < n_rows; row++) {
        ck_assert_int_eq(has(&index, row), there[row]);
        n += there[row] ? 1 : 0;
    }
    ck_assert_uint_eq(n, index.n);
    ck_assert_uint_gt(n_moving, 10); /* Growth was met under way. */
    ps_index_deinit(&index);
}
END_TEST

/*
 * A walk begins behind the first empty place, and stands there for as long as nobody asks for more.
 * Entries promised before fill that place meanwhile and are put beyond it, among those that are
 * still to be moved.
 */
START_TEST(entries_put_past_the_beginning_of_a_walk_are_found)
{
    enum {
        N_AT_ONCE = 40
    };
    struct ps_rng rng = ps_rng_from(test_seed() + (uint64_t)_i);
    uint32_t n_moving = 0;
    for (uint32_t round = 0; round < 10; round++) {
        struct ps_index index;
        uint32_t n = 0;
        memset(there, 0, sizeof(there));
        ck_assert(ps_index_init(&index, 3, NULL));
        while (n < 4000) {
            uint32_t n_more = 1 + (uint32_t)ps_rng_below(&rng, N_AT_ONCE);
            ck_assert(ps_index_reserve(&index, n_more, PS_PAGE_WITHIN));
            n_moving += index.moving ? 1 : 0;
            for (uint32_t i = 0; i < n_more; i++, n++) {
                uint32_t bits = (uint32_t)ps_rng_next(&rng);
                /* Some are at home about where walks begin: at the first places. */
                hashes[n] = ps_rng_below(&rng, 8) == 0 ? bits >> 9 : bits;
                ps_index_insert(&index, hashes[n], n);
                there[n] = true;
            }
            ps_index_release(&index, n_more);
            for (uint32_t row = 0; row < n && index.moving; row++) {
                ck_assert(hashes[row] > UINT32_MAX >> 2 || has(&index, row));
            }
        }
        for (uint32_t row = 0; row < n; row++) {
            ck_assert(has(&index, row));
        }
        for (uint32_t row = 0; row < n; row += 2) {
            ps_index_remove(&index, hashes[row], row);
            there[row] = false;
        }
        for (uint32_t row = 0; row < n; row++) {
            ck_assert_int_eq(has(&index, row), there[row]);
        }
        ps_index_deinit(&index);
    }
    ck_assert_uint_gt(n_moving, 10);
}
END_TEST

START_TEST(what_is_promised_finds_a_place_without_memory)
{
    struct ps_mem mem;
    struct ps_index index;
    const uint32_t n_each[] = {1, 100, 5000};
    ps_mem_init(&mem);
    ck_assert(ps_index_init(&index, 3, &mem));
    memset(there, 0, sizeof(there));
    uint32_t n = 0;
    for (size_t i = 0; i < PS_ARRAY_LEN(n_each); i++) {
        while (!ps_index_reserve(&index, n_each[i], PS_PAGE_WITHIN)) {
        }
        uint64_t n_calls = atomic_load(&mem.n_calls);
        for (uint32_t k = 0; k < n_each[i]; k++, n++) {
            hashes[n] = (uint32_t)(ps_rng_at(1, 2, n) >> 32);
            ps_index_insert(&index, hashes[n], n);
            there[n] = true;
        }
        ck_assert_uint_eq(atomic_load(&mem.n_calls), n_calls);
        ps_index_release(&index, n_each[i]);
    }
    for (uint32_t row = 0; row < n; row++) {
        ck_assert(has(&index, row));
    }
    ps_index_deinit(&index);
    ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_PAGES]), 0);
}
END_TEST

/* Bounded work: one more key costs one chunk of memory at most, at any size. */
START_TEST(growth_is_spread_over_the_calls)
{
    struct ps_mem mem;
    struct ps_index index;
    uint64_t n_most = 0;
    ps_mem_init(&mem);
    ck_assert(ps_index_init(&index, 3, &mem));
    for (uint32_t row = 0; row < 400000; row++) {
        uint64_t n_before = atomic_load(&mem.used[PS_MEM_PAGES]);
        ck_assert(ps_index_reserve(&index, 1, PS_PAGE_WITHIN));
        uint64_t n_after = atomic_load(&mem.used[PS_MEM_PAGES]);
        uint64_t n_made = n_after > n_before ? n_after - n_before : 0;
        n_most = n_made > n_most ? n_made : n_most;
        ps_index_insert(&index, (uint32_t)(ps_rng_at(1, 2, row) >> 32), row);
        ps_index_release(&index, 1);
    }
    ck_assert_uint_gt(ps_index_bytes(&index), 400000 * 8);
    ck_assert_uint_le(n_most, 80 << 10); /* A chunk of 64 KiB, a list of chunks, headers. */
    ps_index_deinit(&index);
}
END_TEST

START_TEST(counts_are_never_too_low_and_seldom_too_high)
{
    struct ps_admit admit;
    enum {
        N_BYTES = 1 << 16,
        N_KEYS = N_BYTES / 16, /* Twice within a window, seen in turn. */
    };
    uint32_t n_high = 0;
    ck_assert(ps_admit_init(&admit, N_BYTES, NULL));
    for (uint64_t key = 0; key < N_KEYS; key++) {
        n_high += ps_admit_count(&admit, ps_rng_at(1, 1, key)) > 1 ? 1 : 0;
    }
    ck_assert_uint_lt(n_high, N_KEYS / 50);
    /* Half of the counters have been halved since: those counts are 1 again, the others 2. */
    uint32_t n_two = 0;
    for (uint64_t key = 0; key < N_KEYS; key++) {
        n_two += ps_admit_count(&admit, ps_rng_at(1, 1, key)) >= 2 ? 1 : 0;
    }
    ck_assert_uint_gt(n_two, N_KEYS / 4);
    ps_admit_deinit(&admit);
}
END_TEST

START_TEST(a_key_that_is_seen_often_is_counted_to_the_end)
{
    struct ps_admit admit;
    ck_assert(ps_admit_init(&admit, 1 << 16, NULL));
    for (uint32_t i = 1; i <= 300; i++) {
        uint32_t count = ps_admit_count(&admit, UINT64_C(1000) << 32 | 0x1234); /* Aged last. */
        ck_assert_uint_eq(count, (i < 255 ? i : 255));
    }
    ps_admit_deinit(&admit);
}
END_TEST

static Suite *suite_sparse_index(void)
{
    Suite *suite = suite_create("sparse_index");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, an_index_holds_what_was_put_in_and_not_taken_out, 0, 3);
    tcase_add_loop_test(tcase, entries_put_past_the_beginning_of_a_walk_are_found, 0, 3);
    tcase_add_test(tcase, what_is_promised_finds_a_place_without_memory);
    tcase_add_test(tcase, growth_is_spread_over_the_calls);
    tcase_add_test(tcase, counts_are_never_too_low_and_seldom_too_high);
    tcase_add_test(tcase, a_key_that_is_seen_often_is_counted_to_the_end);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sparse_index)
