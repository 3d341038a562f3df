/*
 * test_schedule.c — schedules as tables: what may be written, and the rate of chosen steps.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "train/schedule.h"
#include "unit/train/suites.h"

/* clang-format off */
static const struct {
    const char *text;
    uint64_t step;
    uint64_t total;
    double want; /* With a rate of 0.5. */
} rates[] = {
    {"constant",                    0,   100, 0.5},
    {"constant",                    1000000, 0, 0.5},
    {"step:10:0.5",                 0,   100, 0.5},
    {"step:10:0.5",                 9,   100, 0.5},
    {"step:10:0.5",                 10,  100, 0.25},
    {"step:10:0.5",                 39,  0,   0.0625},
    {"step:10:.1",                  1000000000, 0, 0.0},
    {"step:1:1",                    77,  100, 0.5},
    {"cosine",                      0,   100, 0.5},
    {"cosine",                      50,  100, 0.25},
    {"cosine",                      25,  100, 0.4267767},
    {"cosine",                      100, 100, 0.0},
    {"cosine",                      101, 100, 0.0},
    {"cosine",                      77,  0,   0.5},
    {"constant,warmup:10",          0,   100, 0.05},
    {"constant,warmup:10",          4,   100, 0.25},
    {"constant,warmup:10",          9,   100, 0.5},
    {"constant,warmup:10",          10,  100, 0.5},
    {"constant,warmup:1",           0,   100, 0.5},
    {"step:10:0.5,warmup:10",       19,  100, 0.5},
    {"step:10:0.5,warmup:10",       20,  100, 0.25},
    {"cosine,warmup:20",            20,  120, 0.5},
    {"cosine,warmup:20",            70,  120, 0.25},
    {"cosine,warmup:200",           200, 100, 0.0},
};

static const char *const wrongs[] = {
    "", "Constant", "constant ", " constant", "constant:1", "step", "step:", "step:10", "step:10:",
    "step:0:0.5", "step:-1:0.5", "step:10:0", "step:10:-1", "step:10:1.5", "step:10:nan",
    "step:10:inf", "step:10: 0.5", "step:10:0,5", "step:10:0.5x", "step:99999999999999999999:0.5",
    "cosine:", "cosine,", "cosine,warmup", "cosine,warmup:", "cosine,warmup:0", "cosine,warmup:-1",
    "cosine,warmup:1,warmup:2", "warmup:10", "linear",
};
/* clang-format on */

START_TEST(the_rate_of_a_step_follows_the_schedule)
{
    struct ps_schedule schedule;
    struct ps_error err = {0};
    ck_assert_msg(ps_schedule_parse(rates[_i].text, 0.5f, &schedule, &err) == PS_OK, "%s",
                  err.text);
    double got = (double)ps_schedule_rate(&schedule, rates[_i].step, rates[_i].total);
    ck_assert_msg(fabs(got - rates[_i].want) < 1e-6, "%s step %d of %d: %g, not %g", rates[_i].text,
                  (int)rates[_i].step, (int)rates[_i].total, got, rates[_i].want);
}
END_TEST

START_TEST(what_is_no_schedule_is_refused_and_quoted)
{
    struct ps_schedule schedule = {.rate = 7.0f};
    struct ps_error err = {0};
    ck_assert_msg(ps_schedule_parse(wrongs[_i], 0.5f, &schedule, &err) == PS_ERR_INVALID, "'%s'",
                  wrongs[_i]);
    ck_assert_ptr_nonnull(strstr(err.text, wrongs[_i]));
    ck_assert_ptr_nonnull(strstr(err.text, "step:EVERY:FACTOR"));
    ck_assert(schedule.rate == 7.0f);
}
END_TEST

START_TEST(a_rate_must_be_above_zero_and_finite)
{
    static const float bad[] = {0.0f, -0.1f, NAN, INFINITY};
    for (size_t i = 0; i < PS_ARRAY_LEN(bad); i++) {
        struct ps_schedule schedule;
        ck_assert_int_eq(ps_schedule_parse("constant", bad[i], &schedule, NULL), PS_ERR_INVALID);
    }
}
END_TEST

START_TEST(no_step_gets_a_rate_outside_of_its_bounds)
{
    static const char *const texts[] = {"constant", "step:3:0.9,warmup:5", "cosine,warmup:7"};
    for (size_t i = 0; i < PS_ARRAY_LEN(texts); i++) {
        struct ps_schedule schedule;
        ck_assert_int_eq(ps_schedule_parse(texts[i], 0.1f, &schedule, NULL), PS_OK);
        for (uint64_t step = 0; step < 300; step++) {
            float rate = ps_schedule_rate(&schedule, step, 200);
            ck_assert_msg(rate >= 0.0f && rate <= 0.1f, "%s step %d: %g", texts[i], (int)step,
                          (double)rate);
        }
    }
}
END_TEST

Suite *suite_schedule(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, the_rate_of_a_step_follows_the_schedule, 0,
                        (int)PS_ARRAY_LEN(rates));
    tcase_add_loop_test(tcase, what_is_no_schedule_is_refused_and_quoted, 0,
                        (int)PS_ARRAY_LEN(wrongs));
    tcase_add_test(tcase, a_rate_must_be_above_zero_and_finite);
    tcase_add_test(tcase, no_step_gets_a_rate_outside_of_its_bounds);
    suite_add_tcase(suite, tcase);
    return suite;
}
