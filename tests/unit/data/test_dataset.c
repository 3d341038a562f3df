/*
 * test_dataset.c — rows in, rows out: scaling, gathering, labels, and a hash that notices changes.
 */
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"

enum {
    N_ROWS = 3,
    N_FEATURES = 5
};

static const uint8_t pixels[N_ROWS * N_FEATURES] = {0,   1,   2,   3,   4,   5,   6,  7,
                                                    250, 251, 252, 253, 254, 255, 128};

static struct ps_dataset *make(const uint8_t labels[N_ROWS], uint32_t n_classes)
{
    uint8_t *owned = ps_mem_alloc(NULL, PS_MEM_DATA, sizeof(pixels));
    ck_assert_ptr_nonnull(owned);
    memcpy(owned, pixels, sizeof(pixels));
    struct ps_dataset shape = {
        .n_rows = N_ROWS,
        .n_features = N_FEATURES,
        .n_classes = n_classes,
        .pixels = owned,
        .owned = owned,
    };
    struct ps_dataset *dataset = NULL;
    ck_assert_int_eq(ps_dataset_from_pixels(NULL, shape, labels, &dataset, NULL), PS_OK);
    return dataset;
}

START_TEST(pixels_are_scaled_to_0_to_1)
{
    struct ps_dataset *dataset = make((uint8_t[]){2, 0, 1}, 0);
    float x[2 * N_FEATURES];
    uint32_t y[2];
    ps_dataset_rows(dataset, (uint32_t[]){2, 0}, 2, x, y);
    for (size_t i = 0; i < N_FEATURES; i++) {
        double want = (double)pixels[2 * N_FEATURES + i] / 255.0;
        ck_assert_double_eq_tol((double)x[i], want, 1e-7);
        ck_assert_double_eq_tol((double)x[N_FEATURES + i], (double)pixels[i] / 255.0, 1e-7);
    }
    ck_assert(x[3] <= 1.0f);
    ck_assert_uint_eq(y[0], 1);
    ck_assert_uint_eq(y[1], 2);
    ck_assert_uint_eq(dataset->n_classes, 3);
    ps_dataset_destroy(dataset);
}
END_TEST

START_TEST(a_run_equals_its_rows)
{
    struct ps_dataset *dataset = make((uint8_t[]){2, 0, 1}, 0);
    float a[2 * N_FEATURES];
    float b[2 * N_FEATURES];
    uint32_t labels[2];
    ps_dataset_rows(dataset, (uint32_t[]){1, 2}, 2, a, NULL);
    ps_dataset_run(dataset, 1, 2, b, labels);
    ck_assert_mem_eq(a, b, sizeof(a));
    ck_assert_uint_eq(labels[0], 0);
    ck_assert_uint_eq(labels[1], 1);
    ps_dataset_run(dataset, 3, 0, b, NULL);
    ps_dataset_destroy(dataset);
}
END_TEST

START_TEST(floats_are_given_back_as_they_are)
{
    struct ps_dataset *dataset = NULL;
    float *values = NULL;
    struct ps_dataset shape = {.n_rows = 2, .n_features = 2, .n_classes = 2};
    ck_assert_int_eq(ps_dataset_from_values(NULL, shape, &dataset, &values, NULL), PS_OK);
    memcpy(values, (float[]){1.5f, -2.0f, 3.0f, 1e30f}, 4 * sizeof(float));
    float x[2];
    uint32_t y[1] = {9};
    ps_dataset_rows(dataset, (uint32_t[]){1}, 1, x, y);
    ck_assert(x[0] == 3.0f && x[1] == 1e30f);
    ck_assert_uint_eq(y[0], 0);
    ps_dataset_destroy(dataset);
}
END_TEST

START_TEST(one_class_still_counts_as_two)
{
    struct ps_dataset *dataset = make((uint8_t[]){0, 0, 0}, 0);
    ck_assert_uint_eq(dataset->n_classes, 2);
    ps_dataset_destroy(dataset);
}
END_TEST

START_TEST(a_label_out_of_range_is_named_and_leaves_nothing)
{
    struct ps_mem mem;
    ps_mem_init(&mem);
    uint8_t *owned = ps_mem_alloc(&mem, PS_MEM_DATA, sizeof(pixels));
    struct ps_dataset shape = {
        .n_rows = N_ROWS,
        .n_features = N_FEATURES,
        .n_classes = 10,
        .pixels = owned,
        .owned = owned,
    };
    struct ps_dataset *dataset = NULL;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_dataset_from_pixels(&mem, shape, (uint8_t[]){9, 10, 0}, &dataset, &err),
                     PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "row 1 has label 10, expected 0 to 9"));
    ck_assert_ptr_null(dataset);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

START_TEST(every_change_of_the_data_changes_the_hash)
{
    struct ps_dataset *dataset = make((uint8_t[]){2, 0, 1}, 0);
    struct ps_dataset *equal = make((uint8_t[]){2, 0, 1}, 0);
    uint64_t hash = ps_dataset_hash(dataset);
    ck_assert_uint_eq(ps_dataset_hash(equal), hash);
    uint8_t *bytes = equal->owned;
    for (size_t i = 0; i < sizeof(pixels); i++) {
        bytes[i] ^= 1;
        ck_assert_uint_ne(ps_dataset_hash(equal), hash);
        bytes[i] ^= 1;
    }
    equal->labels[2] = 0;
    ck_assert_uint_ne(ps_dataset_hash(equal), hash);
    equal->labels[2] = 1;
    equal->n_classes++;
    ck_assert_uint_ne(ps_dataset_hash(equal), hash);
    equal->n_classes--;
    equal->n_rows = 1; /* The same pixels in another shape. */
    equal->n_features = N_ROWS * N_FEATURES;
    ck_assert_uint_ne(ps_dataset_hash(equal), hash);
    ps_dataset_destroy(equal);
    ps_dataset_destroy(dataset);
}
END_TEST

Suite *suite_dataset(void)
{
    Suite *suite = suite_create("dataset");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, pixels_are_scaled_to_0_to_1);
    tcase_add_test(tcase, a_run_equals_its_rows);
    tcase_add_test(tcase, floats_are_given_back_as_they_are);
    tcase_add_test(tcase, one_class_still_counts_as_two);
    tcase_add_test(tcase, a_label_out_of_range_is_named_and_leaves_nothing);
    tcase_add_test(tcase, every_change_of_the_data_changes_the_hash);
    suite_add_tcase(suite, tcase);
    return suite;
}
