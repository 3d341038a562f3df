/*
 * test_keys.c — keys spread evenly over the slots, whatever their pattern and seed; values that
 * other clients can check themselves against.
 */
#include <math.h>

#include "base/attr.h"
#include "base/rng.h"
#include "cluster/keys.h"
#include "lib/test_main.h"
#include "suites.h"

#define N_KEYS 65536u

/* Key number i of a pattern that users have. */
static uint64_t pattern(int which, uint64_t i)
{
    switch (which) {
    case 0: return i;                   /* Sequential. */
    case 1: return i * 64;              /* A stride of the number of slots. */
    case 2: return i * 4096 + 17;       /* A stride of a page. */
    case 3: return i << 48;             /* Only the highest bits differ. */
    case 4: return (i % 256) << 56 | i; /* Field in the highest byte, value below. */
    case 5: return UINT64_MAX - i;
    default: return i * i;
    }
}

START_TEST(keys_of_every_pattern_spread_evenly)
{
    const uint64_t seeds[] = {0, 1, UINT64_MAX, UINT64_C(0x0123456789abcdef)};
    for (size_t s = 0; s < PS_ARRAY_LEN(seeds); s++) {
        uint32_t n_in[PS_SLOTS] = {0};
        double expected = (double)N_KEYS / PS_SLOTS;
        double chi = 0.0;
        for (uint64_t i = 0; i < N_KEYS; i++) {
            uint32_t slot = ps_keys_slot(pattern(_i, i), seeds[s]);
            ck_assert_uint_lt(slot, PS_SLOTS);
            n_in[slot]++;
        }
        for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
            double off = (double)n_in[slot] - expected;
            chi += off * off / expected;
        }
        /* Chi-squared of 63 degrees: mean 63, 5 standard deviations of 11.2. */
        ck_assert_msg(chi < 63.0 + 5.0 * 11.2, "pattern %d, seed %zu: chi-squared %.0f", _i, s,
                      chi);
    }
}
END_TEST

START_TEST(every_bit_of_a_key_and_of_the_seed_changes_half_of_the_result)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (uint32_t bit = 0; bit < 64; bit++) {
        uint32_t n_key = 0;
        uint32_t n_seed = 0;
        for (int i = 0; i < 200; i++) {
            uint64_t key = ps_rng_next(&rng);
            uint64_t seed = ps_rng_next(&rng);
            uint64_t mixed = ps_keys_mix(key, seed);
            uint64_t flip = UINT64_C(1) << bit;
            n_key += (uint32_t)__builtin_popcountll(mixed ^ ps_keys_mix(key ^ flip, seed));
            n_seed += (uint32_t)__builtin_popcountll(mixed ^ ps_keys_mix(key, seed ^ flip));
        }
        /* 12,800 coins: 6,400 heads, 6 standard deviations of 57. */
        ck_assert_uint_lt(n_key, 6400 + 340);
        ck_assert_uint_gt(n_key, 6400 - 340);
        ck_assert_uint_lt(n_seed, 6400 + 340);
        ck_assert_uint_gt(n_seed, 6400 - 340);
    }
}
END_TEST

/* x ^ x >> s is undone by repeating it, an odd factor by its inverse: nothing is lost. */
static uint64_t undo_shift(uint64_t y, uint32_t shift)
{
    uint64_t x = y;
    for (uint32_t known = shift; known < 64; known += shift) {
        x = y ^ (x >> shift);
    }
    return x;
}

static uint64_t inverse_of(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++) {
        x *= 2 - odd * x;
    }
    return x;
}

static uint64_t undo_finalise(uint64_t y)
{
    y = undo_shift(y, 31) * inverse_of(UINT64_C(0x94d049bb133111eb));
    y = undo_shift(y, 27) * inverse_of(UINT64_C(0xbf58476d1ce4e5b9));
    return undo_shift(y, 30);
}

START_TEST(mixing_can_be_undone)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int i = 0; i < 1000; i++) {
        uint64_t key = ps_rng_next(&rng);
        uint64_t seed = ps_rng_next(&rng);
        uint64_t back = undo_finalise(ps_keys_mix(key, seed));
        back = undo_finalise(back - UINT64_C(0x9e3779b97f4a7c15) - seed) ^ seed;
        ck_assert_uint_eq(back, key);
    }
}
END_TEST

/* Data are stored by slot: these never change. */
START_TEST(slots_are_those_of_yesterday)
{
    static const struct {
        uint64_t key;
        uint64_t seed;
        uint64_t mixed;
    } rows[] = {
        {0, 0, UINT64_C(0xe220a8397b1dcdaf)},
        {1, 0, UINT64_C(0xbfef8030ddc2d772)},
        {UINT64_MAX, 7, UINT64_C(0x4a0ddf417500c3ca)},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        uint64_t mixed = ps_keys_mix(rows[i].key, rows[i].seed);
        ck_assert_msg(mixed == rows[i].mixed, "row %zu: 0x%016llx", i, (unsigned long long)mixed);
        ck_assert_uint_eq(ps_keys_slot(rows[i].key, rows[i].seed), mixed % PS_SLOTS);
    }
}
END_TEST

Suite *suite_keys(void)
{
    Suite *suite = suite_create("keys");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, keys_of_every_pattern_spread_evenly, 0, 7);
    tcase_add_test(tcase, every_bit_of_a_key_and_of_the_seed_changes_half_of_the_result);
    tcase_add_test(tcase, mixing_can_be_undone);
    tcase_add_test(tcase, slots_are_those_of_yesterday);
    suite_add_tcase(suite, tcase);
    return suite;
}
