/*
 * test_init.c — initial values do not depend on how a table is cut, and have the promised moments.
 */
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "num/init.h"
#include "suites.h"

#define N 5000

static const struct ps_init inits[] = {
    {.kind = PS_INIT_ZEROS, .scale = NAN, .seed = 3}, /* Its scale is not read. */
    {.kind = PS_INIT_UNIFORM, .scale = 0.25f, .seed = 3},
    {.kind = PS_INIT_NORMAL, .scale = 0.02f, .seed = 3},
};

START_TEST(values_do_not_depend_on_how_a_table_is_cut)
{
    float whole[N];
    float pieces[N];
    struct ps_rng rng = ps_rng_from(test_seed());
    ps_init_fill(&inits[_i], 7, 1000, whole, N);
    for (size_t i = 0; i < N;) {
        size_t n = (size_t)ps_rng_below(&rng, 700);
        n = n < N - i ? n : N - i;
        ps_init_fill(&inits[_i], 7, 1000 + i, pieces + i, n);
        i += n;
    }
    ck_assert_mem_eq(whole, pieces, sizeof(whole));
}
END_TEST

START_TEST(tables_and_seeds_get_different_values)
{
    float first[64];
    float other_table[64];
    float other_seed[64];
    struct ps_init init = {.kind = PS_INIT_UNIFORM, .scale = 1.0f, .seed = 1};
    ps_init_fill(&init, 0, 0, first, 64);
    ps_init_fill(&init, 1, 0, other_table, 64);
    init.seed = 2;
    ps_init_fill(&init, 0, 0, other_seed, 64);
    ck_assert_mem_ne(first, other_table, sizeof(first));
    ck_assert_mem_ne(first, other_seed, sizeof(first));
}
END_TEST

START_TEST(a_row_is_a_function_of_seed_table_and_key)
{
    struct ps_init init = {.kind = PS_INIT_NORMAL, .scale = 1.0f, .seed = 1};
    float row[8];
    float other[8];
    float longer[9];
    ps_init_row(&init, 3, UINT64_MAX, row, 8);
    ps_init_row(&init, 3, UINT64_MAX, longer, 9);
    ck_assert_mem_eq(row, longer, sizeof(row));
    ps_init_row(&init, 4, UINT64_MAX, other, 8);
    ck_assert_mem_ne(row, other, sizeof(row));
    ps_init_row(&init, 3, 0, other, 8);
    ck_assert_mem_ne(row, other, sizeof(row));
    init.seed = 2;
    ps_init_row(&init, 3, UINT64_MAX, other, 8);
    ck_assert_mem_ne(row, other, sizeof(row));
}
END_TEST

/* Means of N values: 5 standard errors on either side; the seed is fixed, so this cannot flake. */
START_TEST(values_have_the_promised_mean_spread_and_range)
{
    const struct ps_init *init = &inits[_i];
    float values[N];
    double sum = 0.0;
    double squares = 0.0;
    double largest = 0.0;
    ps_init_fill(init, 7, 0, values, N);
    for (size_t i = 0; i < N; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
        largest = fmax(largest, fabs((double)values[i]));
    }
    double spread = 0.0;
    double range = 0.0;
    switch (init->kind) {
    case PS_INIT_ZEROS: break;
    case PS_INIT_UNIFORM:
        spread = (double)init->scale / sqrt(3.0);
        range = (double)init->scale;
        break;
    case PS_INIT_NORMAL:
        spread = (double)init->scale;
        range = 6.0 * (double)init->scale;
        break;
    }
    ck_assert_double_le(fabs(sum / N), 5.0 * spread / sqrt(N));
    ck_assert_double_le(fabs(sqrt(squares / N) - spread), 5.0 * spread / sqrt(N));
    ck_assert_double_le(largest, range);
    ck_assert_double_ge(largest, spread);
}
END_TEST

START_TEST(an_initialiser_without_a_usable_scale_is_not_valid)
{
    const float bad[] = {NAN, INFINITY, -1.0f};
    for (size_t i = 0; i < PS_ARRAY_LEN(bad); i++) {
        ck_assert(!ps_init_valid(&(struct ps_init){.kind = PS_INIT_UNIFORM, .scale = bad[i]}));
        ck_assert(!ps_init_valid(&(struct ps_init){.kind = PS_INIT_NORMAL, .scale = bad[i]}));
        ck_assert(ps_init_valid(&(struct ps_init){.kind = PS_INIT_ZEROS, .scale = bad[i]}));
    }
    ck_assert(ps_init_valid(&(struct ps_init){.kind = PS_INIT_NORMAL, .scale = 0.0f}));
    struct ps_init unknown = {.kind = (enum ps_init_kind)17, .scale = 1.0f};
    ck_assert(!ps_init_valid(&unknown));
}
END_TEST

/* Golden values: they are part of every manifest that says "seed 1", so they may never change. */
START_TEST(values_are_those_of_the_first_release)
{
    float uniform[3];
    float normal[3];
    ps_init_fill(&(struct ps_init){.kind = PS_INIT_UNIFORM, .scale = 1.0f, .seed = 1}, 2, 3,
                 uniform, 3);
    ps_init_fill(&(struct ps_init){.kind = PS_INIT_NORMAL, .scale = 1.0f, .seed = 1}, 2, 3, normal,
                 3);
    const float want_uniform[3] = {-0x1.571d14p-1f, 0x1.d7a9e8p-1f, -0x1.94f14p-2f};
    const float want_normal[3] = {-0x1.988p-5f, 0x1.6279p+0f, -0x1.402p-1f};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_msg(uniform[i] == want_uniform[i], "uniform %zu: %a", i, (double)uniform[i]);
        ck_assert_msg(normal[i] == want_normal[i], "normal %zu: %a", i, (double)normal[i]);
    }
}
END_TEST

Suite *suite_init(void)
{
    Suite *suite = suite_create("init");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, values_do_not_depend_on_how_a_table_is_cut, 0,
                        (int)PS_ARRAY_LEN(inits));
    tcase_add_test(tcase, tables_and_seeds_get_different_values);
    tcase_add_test(tcase, a_row_is_a_function_of_seed_table_and_key);
    tcase_add_loop_test(tcase, values_have_the_promised_mean_spread_and_range, 0,
                        (int)PS_ARRAY_LEN(inits));
    tcase_add_test(tcase, an_initialiser_without_a_usable_scale_is_not_valid);
    tcase_add_test(tcase, values_are_those_of_the_first_release);
    suite_add_tcase(suite, tcase);
    return suite;
}
