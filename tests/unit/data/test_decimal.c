/*
 * test_decimal.c — decimal numbers: equal to strtof's for tables, for ties and for random digits;
 * the same under a locale with a decimal comma; what is no number is refused.
 */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "data/decimal.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"

static void check_like_strtof(const char *text)
{
    float value = -77.0f;
    const char *behind = ps_decimal_f32(text, &value);
    char *expected_behind = NULL;
    float expected = strtof(text, &expected_behind);
    ck_assert_msg(behind == expected_behind, "'%s': ended %td bytes too far", text,
                  behind - expected_behind);
    ck_assert_msg(value == expected && signbit(value) == signbit(expected),
                  "'%s': %.9g, expected %.9g", text, (double)value, (double)expected);
}

static const char *const numbers[] = {
    "0",
    "-0",
    "+1",
    "1",
    "1.",
    ".5",
    "-.5e1",
    "0.1",
    "16777216",
    "16777217",
    "16777219",
    "4294967297",
    "123456789012345678901234567890",
    "1.000000000000000000e+00",
    "3.4028235e38",
    "3.40282357e38",
    "1e39",
    "-1e39",
    "1e400",
    "1e-400",
    "1e99999999999999999999",
    "1e-37",
    "1e-45",
    "1.4e-45",
    "7e-46",
    "1.17549435e-38",
    "1.1754942e-38",
    "0.000000000000000000000000001",
    "1.00000005960464477539062500",
    "1.00000005960464477539062499",
    "1.00000005960464477539062501",
    "1.000000178813934326171875",
    "8388608.5",
    "8388609.5",
    "8388609.4999999999999999999",
    "0.00000000000000000000000000000000000000000000000000000000000000000001e68",
    "9007199254740993",
    "18446744073709551616",
    "1e",
    "1e+",
    "1ex",
    "2E5",
    "0e5",
    "00012.50",
    "123456789012345678901234567890e-20",
    "3.14159265358979323846264338327950288",
};

START_TEST(a_number_is_the_nearest_float)
{
    check_like_strtof(numbers[_i]);
}
END_TEST

START_TEST(what_is_no_number_is_refused)
{
    static const char *const words[] = {"",    "+",  "-",  ".",  "-.",  "e5", "inf",     "-inf",
                                        "nan", "x1", ",5", " 1", "+-1", "\n", "INFINITY"};
    for (size_t i = 0; i < PS_ARRAY_LEN(words); i++) {
        float value = 7.0f;
        ck_assert_msg(ps_decimal_f32(words[i], &value) == NULL, "'%s'", words[i]);
        ck_assert(!ps_decimal_whole(words[i], strlen(words[i]), &value));
        ck_assert_double_eq((double)value, 7.0);
    }
    static const char *const partial[] = {"0x10", "1,5", "1.2.3", "1e5e5", "5f", "1_000"};
    for (size_t i = 0; i < PS_ARRAY_LEN(partial); i++) {
        float value = 7.0f;
        ck_assert_msg(!ps_decimal_whole(partial[i], strlen(partial[i]), &value), "%s", partial[i]);
    }
}
END_TEST

START_TEST(random_digits_are_read_like_strtof_reads_them)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int i = 0; i < 200000; i++) {
        char text[80];
        size_t n = 0;
        uint64_t n_digits = 1 + ps_rng_below(&rng, i % 3 == 0 ? 30 : 9);
        uint64_t point = ps_rng_below(&rng, n_digits + 1);
        for (uint64_t d = 0; d < n_digits; d++) {
            if (d == point) {
                text[n++] = '.';
            }
            text[n++] = (char)('0' + ps_rng_below(&rng, 10));
        }
        text[n] = '\0';
        if (i % 2 == 0) {
            (void)snprintf(text + n, sizeof(text) - n, "e%d", (int)ps_rng_below(&rng, 100) - 50);
        }
        check_like_strtof(text);
    }
}
END_TEST

/* The middle between two floats, exactly and a little off: where rounding is hard. */
START_TEST(next_to_a_tie_the_right_side_is_taken)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int i = 0; i < 50000; i++) {
        uint32_t bits = (uint32_t)(0x30000000u + ps_rng_below(&rng, 0x20000000u));
        float low;
        memcpy(&low, &bits, sizeof(low));
        double middle = ((double)low + (double)nextafterf(low, INFINITY)) / 2;
        char text[80];
        (void)snprintf(text, sizeof(text), "%.*e", 14 + (int)ps_rng_below(&rng, 30), middle);
        check_like_strtof(text);
    }
}
END_TEST

START_TEST(a_decimal_comma_in_the_locale_changes_nothing)
{
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL) {
        (void)printf("skipped: no locale with a decimal comma is installed\n");
        return;
    }
    float value = 0.0f;
    ck_assert(ps_decimal_whole("0.5", 3, &value));
    ck_assert_double_eq((double)value, 0.5);
    static const char tie[] = "1.00000005960464477539062501"; /* Read the slow way. */
    ck_assert(ps_decimal_whole(tie, strlen(tie), &value));
    ck_assert(value > 1.0f);
    ck_assert(!ps_decimal_whole("0,5", 3, &value));
    (void)setlocale(LC_ALL, "C");
}
END_TEST

static const struct {
    const char *text;
    size_t n_read; /* 0: refused. */
    uint64_t value;
    bool fits;
} wholes[] = {
    {"0:1", 1, 0, true},
    {"4294967297:", 10, 4294967297ull, true},
    {"18446744073709551615 ", 20, UINT64_MAX, true},
    {"18446744073709551616 ", 20, 0, false},
    {"99999999999999999999 ", 20, 0, false},
    {"0000000000000000000000007", 25, 7, true},
    {"-1", 0, 0, true},
    {"", 0, 0, true},
};

START_TEST(whole_numbers_do_not_wrap)
{
    uint64_t value = 0;
    bool fits = false;
    const char *behind = ps_decimal_u64(wholes[_i].text, &value, &fits);
    if (wholes[_i].n_read == 0) {
        ck_assert_ptr_null(behind);
        return;
    }
    ck_assert_ptr_eq(behind, wholes[_i].text + wholes[_i].n_read);
    ck_assert_int_eq(fits, wholes[_i].fits);
    ck_assert(!fits || value == wholes[_i].value);
}
END_TEST

Suite *suite_decimal(void)
{
    Suite *suite = suite_create("decimal");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_number_is_the_nearest_float, 0, (int)PS_ARRAY_LEN(numbers));
    tcase_add_test(tcase, what_is_no_number_is_refused);
    tcase_add_test(tcase, random_digits_are_read_like_strtof_reads_them);
    tcase_add_test(tcase, next_to_a_tie_the_right_side_is_taken);
    tcase_add_test(tcase, a_decimal_comma_in_the_locale_changes_nothing);
    tcase_add_loop_test(tcase, whole_numbers_do_not_wrap, 0, (int)PS_ARRAY_LEN(wholes));
    suite_add_tcase(suite, tcase);
    return suite;
}
