/* test_unique.c — sorted keys without repeats, against a slow way. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "model/places.h"
#include "model/unique.h"
#include "suites.h"

enum {
    N_MAX = 3000
};

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t sort_slowly(const uint64_t *keys, size_t n, uint64_t *to)
{
    uint32_t n_distinct = 0;
    memcpy(to, keys, n * sizeof(*to));
    qsort(to, n, sizeof(*to), by_key);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || to[i] != to[n_distinct - 1]) {
            to[n_distinct++] = to[i];
        }
    }
    return n_distinct;
}

/* Shapes of keys: what matters is where the bits that differ are. */
static uint64_t key_of(int shape, uint64_t bits)
{
    switch (shape) {
    case 0: return bits;                                       /* Hashed. */
    case 1: return bits % 200;                                 /* Small, often equal. */
    case 2: return ((bits % 40) << 48) | ((bits >> 8) % 5000); /* Column above, number below. */
    case 3: return (bits % 3) * 0x8000000000000001ull;         /* Ends only. */
    case 4: return UINT64_MAX - bits % 100000;
    case 5: return bits & 0x8000040000200001ull;
    default: return 77;
    }
}

START_TEST(keys_come_out_sorted_once_and_every_place_is_right)
{
    static uint64_t keys[N_MAX];
    static uint64_t want[N_MAX];
    static uint64_t got[N_MAX];
    static uint32_t index[N_MAX];
    struct ps_rng rng = ps_rng_from(test_seed());
    struct ps_unique unique;
    ps_unique_init(&unique, NULL);
    ck_assert_int_eq(ps_unique_reserve(&unique, N_MAX), PS_OK);
    for (int round = 0; round < 200; round++) {
        size_t n = ps_rng_below(&rng, round < 100 ? 20 : N_MAX);
        for (size_t i = 0; i < n; i++) {
            keys[i] = key_of(_i, ps_rng_next(&rng));
        }
        uint32_t n_want = sort_slowly(keys, n, want);
        struct ps_unique_keys some = {.keys = keys, .n = n};
        ck_assert_uint_eq(ps_unique_find(&unique, &some, got, index), n_want);
        ck_assert_mem_eq(got, want, n_want * sizeof(*got));
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_lt(index[i], n_want);
            ck_assert_uint_eq(got[index[i]], keys[i]);
        }
    }
    ps_unique_deinit(&unique);
}
END_TEST

START_TEST(keys_of_other_lists_are_left_alone)
{
    const uint64_t keys[] = {9, 4, 9, 7, 4, 1};
    const uint8_t lists[] = {0, 1, 1, 0, 1, 0};
    uint64_t got[6] = {0};
    uint32_t index[6] = {90, 91, 92, 93, 94, 95};
    struct ps_unique unique;
    ps_unique_init(&unique, NULL);
    ck_assert_int_eq(ps_unique_reserve(&unique, 6), PS_OK);
    struct ps_unique_keys some = {.keys = keys, .lists = lists, .n = 6, .list = 1};
    ck_assert_uint_eq(ps_unique_find(&unique, &some, got, index), 2);
    ck_assert_uint_eq(got[0], 4);
    ck_assert_uint_eq(got[1], 9);
    const uint32_t want[] = {90, 0, 1, 93, 0, 95};
    ck_assert_mem_eq(index, want, sizeof(want));
    some.list = 3;
    ck_assert_uint_eq(ps_unique_find(&unique, &some, got, index), 0);
    ps_unique_deinit(&unique);
}
END_TEST

START_TEST(places_come_out_once_in_the_order_in_which_they_are_met)
{
    static uint64_t keys[N_MAX];
    static uint64_t got[N_MAX];
    static uint32_t index[N_MAX];
    static uint8_t lists[N_MAX];
    struct ps_rng rng = ps_rng_from(test_seed());
    struct ps_places places;
    ps_places_init(&places, NULL);
    places.call = UINT32_MAX - 100; /* Numbers begin anew on the way. */
    for (int round = 0; round < 200; round++) {
        size_t n = ps_rng_below(&rng, N_MAX);
        uint64_t n_places = 1 + ps_rng_below(&rng, 1u + (uint32_t)round * 20u);
        ck_assert_int_eq(ps_places_reserve(&places, n_places), PS_OK);
        for (size_t i = 0; i < n; i++) {
            keys[i] = ps_rng_below(&rng, (uint32_t)n_places);
            lists[i] = (uint8_t)ps_rng_below(&rng, 2);
            index[i] = UINT32_MAX;
        }
        bool all = round % 2 == 0;
        struct ps_unique_keys from = {.keys = keys, .lists = all ? NULL : lists, .n = n, .list = 1};
        uint32_t n_distinct = ps_places_find(&places, &from, got, index);
        uint32_t n_met = 0;
        for (size_t i = 0; i < n; i++) {
            if (!all && lists[i] != 1) {
                ck_assert_uint_eq(index[i], UINT32_MAX);
                continue;
            }
            ck_assert_uint_le(index[i], n_met); /* Met before, or the next. */
            n_met += index[i] == n_met;
            ck_assert_uint_eq(got[index[i]], keys[i]);
        }
        ck_assert_uint_eq(n_met, n_distinct);
        for (uint32_t i = 1; i < n_distinct && n_distinct < 200; i++) {
            for (uint32_t k = 0; k < i; k++) {
                ck_assert_uint_ne(got[i], got[k]);
            }
        }
    }
    ps_places_deinit(&places);
}
END_TEST

START_TEST(a_refused_reserve_keeps_the_room_there_was)
{
    const uint64_t keys[] = {5, 5};
    uint64_t got[2];
    uint32_t index[2];
    struct ps_mem mem;
    struct ps_unique unique;
    ps_mem_init(&mem);
    ps_unique_init(&unique, &mem);
    ck_assert_int_eq(ps_unique_reserve(&unique, 2), PS_OK);
    for (int64_t k = 0; k < 2; k++) {
        mem.fail_after = k;
        ck_assert_int_eq(ps_unique_reserve(&unique, 200), PS_ERR_NOMEM);
    }
    ck_assert_int_eq(ps_unique_reserve(&unique, (size_t)PS_UNIQUE_KEYS_MAX + 1), PS_ERR_NOMEM);
    mem.fail_after = -1;
    struct ps_unique_keys some = {.keys = keys, .n = 2};
    ck_assert_uint_eq(ps_unique_find(&unique, &some, got, index), 1);
    ps_unique_deinit(&unique);
    ck_assert_uint_eq(mem.used[PS_MEM_OTHER], 0);
}
END_TEST

Suite *suite_unique(void)
{
    Suite *suite = suite_create("unique");
    TCase *tcase = tcase_create("unique");
    tcase_add_loop_test(tcase, keys_come_out_sorted_once_and_every_place_is_right, 0, 7);
    tcase_add_test(tcase, keys_of_other_lists_are_left_alone);
    tcase_add_test(tcase, places_come_out_once_in_the_order_in_which_they_are_met);
    tcase_add_test(tcase, a_refused_reserve_keeps_the_room_there_was);
    suite_add_tcase(suite, tcase);
    return suite;
}
