/*
 * test_blas.c — the three products against a triple loop in double.
 *
 * Tolerance: k products of numbers below 1, each rounded once in float: k * 2^-23 bounds the
 * error of any order of summation.
 */
#include <math.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "num/blas.h"
#include "suites.h"

enum {
    SIDE_MAX = 40
};

static const size_t shapes[][3] = {{1, 1, 1},  {1, 7, 3},    {5, 1, 9},   {8, 8, 8},
                                   {3, 17, 5}, {40, 10, 33}, {13, 40, 1}, {4, 6, 0}};

/* Element (row, column) of op(A) when A is stored with `n_columns` columns, or turned. */
static double at(const float *matrix, size_t row, size_t column, size_t n_columns)
{
    return (double)matrix[row * n_columns + column];
}

static double want_at(const struct ps_gemm *op, const float *a, const float *b, size_t i, size_t j)
{
    double sum = 0.0;
    for (size_t t = 0; t < op->k; t++) {
        double left = op->kind == PS_GEMM_TN ? at(a, t, i, op->m) : at(a, i, t, op->k);
        double right = op->kind == PS_GEMM_NT ? at(b, j, t, op->k) : at(b, t, j, op->n);
        sum += left * right;
    }
    return sum;
}

START_TEST(every_product_equals_the_triple_loop)
{
    const size_t *shape = shapes[_i];
    float a[SIDE_MAX * SIDE_MAX];
    float b[SIDE_MAX * SIDE_MAX];
    float c[SIDE_MAX * SIDE_MAX];
    float before[SIDE_MAX * SIDE_MAX];
    struct ps_rng rng = ps_rng_from(test_seed());
    const enum ps_gemm_kind kinds[] = {PS_GEMM_NN, PS_GEMM_TN, PS_GEMM_NT};
    ps_blas_threads(1);
    for (size_t kind = 0; kind < PS_ARRAY_LEN(kinds); kind++) {
        struct ps_gemm op = {.kind = kinds[kind],
                             .m = shape[0],
                             .n = shape[1],
                             .k = shape[2],
                             .alpha = 0.5f,
                             .beta = 2.0f};
        for (size_t i = 0; i < PS_ARRAY_LEN(a); i++) {
            a[i] = ps_rng_unit(ps_rng_next(&rng)) - 0.5f;
            b[i] = ps_rng_unit(ps_rng_next(&rng)) - 0.5f;
            c[i] = ps_rng_unit(ps_rng_next(&rng)) - 0.5f;
            before[i] = c[i];
        }
        ps_gemm(&op, a, b, c);
        double tolerance = (double)(op.k + 2) * 0x1p-23;
        for (size_t i = 0; i < op.m * op.n; i++) {
            double want = 0.5 * want_at(&op, a, b, i / op.n, i % op.n) + 2.0 * (double)before[i];
            ck_assert_msg(fabs((double)c[i] - want) <= tolerance, "kind %zu, element %zu", kind, i);
        }
        for (size_t i = op.m * op.n; i < PS_ARRAY_LEN(c); i++) {
            ck_assert(c[i] == before[i]); /* Nothing is written behind C. */
        }
    }
}
END_TEST

START_TEST(beta_zero_does_not_read_what_was_there)
{
    float a[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    float b[4] = {1.0f, 0.0f, 0.0f, 1.0f};
    float c[4] = {NAN, NAN, NAN, NAN};
    ps_gemm(&(struct ps_gemm){.kind = PS_GEMM_NN, .m = 2, .n = 2, .k = 2, .alpha = 1.0f}, a, b, c);
    for (size_t i = 0; i < 4; i++) {
        ck_assert(c[i] == a[i]);
    }
}
END_TEST

START_TEST(a_product_without_rows_or_columns_writes_nothing)
{
    float c = 5.0f;
    ps_gemm(&(struct ps_gemm){.m = 0, .n = 3, .k = 2, .alpha = 1.0f}, NULL, NULL, &c);
    ps_gemm(&(struct ps_gemm){.m = 3, .n = 0, .k = 2, .alpha = 1.0f}, NULL, NULL, &c);
    ck_assert(c == 5.0f);
}
END_TEST

Suite *suite_blas(void)
{
    Suite *suite = suite_create("blas");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, every_product_equals_the_triple_loop, 0, (int)PS_ARRAY_LEN(shapes));
    tcase_add_test(tcase, beta_zero_does_not_read_what_was_there);
    tcase_add_test(tcase, a_product_without_rows_or_columns_writes_nothing);
    suite_add_tcase(suite, tcase);
    return suite;
}
