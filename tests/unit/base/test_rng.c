/*
 * test_rng.c — random numbers are functions of their place, uniform enough, and never change:
 * seeds in manifests must mean the same for ever.
 */
#include <math.h>
#include <signal.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "suites.h"

START_TEST(numbers_are_those_of_the_first_release)
{
    /* The mixer's first two are SplitMix64's published outputs for seeds 0 and its increment. */
    ck_assert_uint_eq(ps_mix64(0), UINT64_C(0xe220a8397b1dcdaf));
    ck_assert_uint_eq(ps_mix64(UINT64_C(0x9e3779b97f4a7c15)), UINT64_C(0x6e789e6aa1b965f4));
    ck_assert_uint_eq(ps_rng_at(1, 2, 3), UINT64_C(0x2a38bbe987fdf051));
    struct ps_rng rng = ps_rng_from(1);
    ck_assert_uint_eq(ps_rng_next(&rng), UINT64_C(0xf18d6ce93d6cf1ee));
}
END_TEST

START_TEST(seed_stream_and_index_all_matter)
{
    uint64_t here = ps_rng_at(1, 2, 3);
    ck_assert_uint_eq(ps_rng_at(1, 2, 3), here);
    ck_assert_uint_ne(ps_rng_at(2, 2, 3), here);
    ck_assert_uint_ne(ps_rng_at(1, 3, 3), here);
    ck_assert_uint_ne(ps_rng_at(1, 2, 4), here);
    ck_assert_uint_ne(ps_rng_at(2, 1, 3), here); /* Nor may two of them be swapped. */
}
END_TEST

START_TEST(below_stays_below_and_reaches_every_number_alike)
{
    static const uint64_t bounds[] = {1, 2, 3, 7, 10, 64};
    struct ps_rng rng = ps_rng_from(test_seed());
    for (size_t b = 0; b < PS_ARRAY_LEN(bounds); b++) {
        uint64_t n = bounds[b];
        double counts[64] = {0};
        const double n_draws = 20000;
        for (int i = 0; i < (int)n_draws; i++) {
            uint64_t at = ps_rng_below(&rng, n);
            ck_assert_uint_lt(at, n);
            counts[at]++;
        }
        for (uint64_t i = 0; i < n; i++) { /* Five standard errors of a binomial count. */
            double p = 1.0 / (double)n;
            double slack = 5.0 * sqrt(n_draws * p * (1.0 - p));
            ck_assert_double_le(fabs(counts[i] - n_draws * p), slack);
        }
    }
    uint64_t huge = UINT64_MAX - 1;
    ck_assert_uint_lt(ps_rng_below(&rng, huge), huge);
}
END_TEST

START_TEST(unit_and_normal_have_their_ranges_and_moments)
{
    enum {
        N = 40000
    };
    double unit_sum = 0.0;
    double sum = 0.0;
    double squares = 0.0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t bits = ps_rng_at(test_seed(), 9, i);
        float unit = ps_rng_unit(bits);
        float normal = ps_rng_normal(bits);
        ck_assert(unit >= 0.0f && unit < 1.0f);
        ck_assert(fabsf(normal) <= 6.0f);
        unit_sum += (double)unit;
        sum += (double)normal;
        squares += (double)normal * (double)normal;
    }
    ck_assert_double_le(fabs(unit_sum / N - 0.5), 5.0 * sqrt(1.0 / 12.0 / N));
    ck_assert_double_le(fabs(sum / N), 5.0 / sqrt(N));
    ck_assert_double_le(fabs(squares / N - 1.0), 5.0 * sqrt(2.0 / N));
    ck_assert(ps_rng_unit(0) == 0.0f);
    ck_assert(ps_rng_unit(UINT64_MAX) < 1.0f);
}
END_TEST

START_TEST(below_zero_aborts)
{
    struct ps_rng rng = ps_rng_from(1);
    (void)ps_rng_below(&rng, 0);
}
END_TEST

Suite *suite_rng(void)
{
    Suite *suite = suite_create("rng");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, numbers_are_those_of_the_first_release);
    tcase_add_test(tcase, seed_stream_and_index_all_matter);
    tcase_add_test(tcase, below_stays_below_and_reaches_every_number_alike);
    tcase_add_test(tcase, unit_and_normal_have_their_ranges_and_moments);
    tcase_add_test_raise_signal(tcase, below_zero_aborts, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}
