/*
 * test_backoff.c — waits stay under a ceiling that doubles to its cap, and use all of it.
 */
#include "base/attr.h"
#include "cluster/backoff.h"
#include "lib/test_main.h"
#include "suites.h"

START_TEST(the_ceiling_doubles_until_the_cap_and_stays)
{
    static const uint32_t ceilings_ms[] = {10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000, 2000};
    uint32_t longest_ms[PS_ARRAY_LEN(ceilings_ms)] = {0};
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int round = 0; round < 4000; round++) {
        struct ps_backoff backoff = {0};
        for (size_t i = 0; i < PS_ARRAY_LEN(ceilings_ms); i++) {
            uint32_t wait_ms = ps_backoff_next_ms(&backoff, &rng);
            ck_assert_uint_le(wait_ms, ceilings_ms[i]);
            longest_ms[i] = wait_ms > longest_ms[i] ? wait_ms : longest_ms[i];
        }
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(ceilings_ms); i++) {
        ck_assert_uint_ge(longest_ms[i], ceilings_ms[i] * 9 / 10); /* Full jitter: all of it. */
    }
}
END_TEST

START_TEST(a_success_starts_again_from_the_base)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int round = 0; round < 100; round++) {
        struct ps_backoff backoff = {.n_attempts = 8};
        ps_backoff_reset(&backoff);
        ck_assert_uint_le(ps_backoff_next_ms(&backoff, &rng), PS_BACKOFF_BASE_MS);
    }
}
END_TEST

START_TEST(attempts_without_end_neither_wrap_nor_pass_the_cap)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    struct ps_backoff backoff = {.n_attempts = UINT32_MAX - 1};
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_le(ps_backoff_next_ms(&backoff, &rng), PS_BACKOFF_CAP_MS);
    }
    ck_assert_uint_eq(backoff.n_attempts, UINT32_MAX);
}
END_TEST

Suite *suite_backoff(void)
{
    Suite *suite = suite_create("backoff");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, the_ceiling_doubles_until_the_cap_and_stays);
    tcase_add_test(tcase, a_success_starts_again_from_the_base);
    tcase_add_test(tcase, attempts_without_end_neither_wrap_nor_pass_the_cap);
    suite_add_tcase(suite, tcase);
    return suite;
}
