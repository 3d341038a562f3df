/*
 * test_data.c — folders of IDX files as users have them: all spellings and packings, and a table of
 * wrong ones, each refused with one line that names the file. The files are made here.
 */
#include "lib/test_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/attr.h"
#include "base/mem.h"
#include "data/data.h"
#include "data/dataset.h"
#include "data/reader.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

#define TRAIN_X "train-images-idx3-ubyte"
#define TRAIN_Y "train-labels-idx1-ubyte"
#define TEST_X  "t10k-images-idx3-ubyte"
#define TEST_Y  "t10k-labels-idx1-ubyte"

static const uint8_t images3[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0,   0,
                                  2, 0, 0, 0, 1, 0, 1, 2, 3, 254, 255};
static const uint8_t images2[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 9, 8, 7, 6};
static const uint8_t wide2[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 9, 8};
static const uint8_t labels3[] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1};
static const uint8_t labels2[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
static const uint8_t high2[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 3};
static const uint8_t text[] = "not an IDX file";

#define BYTES(array) (array), sizeof(array)

static struct temp_folder folder;

static void setup(void)
{
    temp_folder_make(&folder);
}

static void teardown(void)
{
    temp_folder_remove(&folder);
}

/* The pairings of plain and packed files that a folder may hold, and the other spelling. */
START_TEST(all_packings_and_spellings_give_the_same_rows)
{
    static const char *const names[][2] = {
        {TRAIN_X, TRAIN_Y},
        {TRAIN_X ".gz", TRAIN_Y ".gz"},
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte"},
        {"train-images.idx3-ubyte.gz", TRAIN_Y},
    };
    bool packed_images = (_i & 1) != 0;
    bool packed_labels = (_i & 2) != 0;
    const char *const *name = names[_i / 4];
    (packed_images ? temp_folder_put_gzip : temp_folder_put)(&folder, name[0], BYTES(images3));
    (packed_labels ? temp_folder_put_gzip : temp_folder_put)(&folder, name[1], BYTES(labels3));

    struct ps_dataset *train = NULL;
    struct ps_dataset *test = NULL;
    struct ps_error err = {0};
    ck_assert_msg(ps_data_open(folder.path, NULL, &train, &test, &err) == PS_OK, "%s", err.text);
    ck_assert_ptr_null(test);
    ck_assert_uint_eq(train->n_rows, 3);
    ck_assert_uint_eq(train->n_features, 2);
    ck_assert_uint_eq(train->n_classes, 3);
    ck_assert_mem_eq(train->pixels, images3 + 16, 6);
    ck_assert_uint_eq(train->labels[0], 2);
    ps_dataset_destroy(train);
}
END_TEST

START_TEST(test_files_are_read_from_the_same_folder_or_another)
{
    struct temp_folder other;
    temp_folder_make(&other);
    temp_folder_put(&folder, TRAIN_X, BYTES(images3));
    temp_folder_put(&folder, TRAIN_Y, BYTES(labels3));
    for (int in_other = 0; in_other < 2; in_other++) {
        const struct temp_folder *place = in_other != 0 ? &other : &folder;
        temp_folder_put(place, TEST_X, BYTES(images2));
        temp_folder_put_gzip(place, TEST_Y ".gz", BYTES(labels2));
        struct ps_data_options options = {.test = in_other != 0 ? other.path : NULL};
        struct ps_dataset *train = NULL;
        struct ps_dataset *test = NULL;
        struct ps_error err = {0};
        ck_assert_msg(ps_data_open(folder.path, &options, &train, &test, &err) == PS_OK, "%s",
                      err.text);
        ck_assert_ptr_nonnull(test);
        ck_assert_uint_eq(test->n_rows, 2);
        ck_assert_uint_eq(test->n_classes, 3);
        ck_assert_mem_eq(test->pixels, images2 + 16, 4);
        ps_dataset_destroy(train);
        ps_dataset_destroy(test);
    }
    temp_folder_remove(&other);
}
END_TEST

struct put {
    const char *name;
    const uint8_t *data;
    size_t n_bytes;
};

/* clang-format off */
static const struct {
    const char *name;
    struct put puts[4];
    enum ps_status status;
    const char *file;  /* Must be named, */
    const char *words; /* and told about. */
} wrongs[] = {
    {"no files", {{0}}, PS_ERR_NOT_FOUND, "/tmp/", TRAIN_X},
    {"no labels", {{TRAIN_X, BYTES(images3)}},
     PS_ERR_NOT_FOUND, "/tmp/", "expected a file " TRAIN_Y},
    {"no images", {{TRAIN_Y, BYTES(labels3)}},
     PS_ERR_NOT_FOUND, "/tmp/", "expected a file " TRAIN_X},
    {"swapped", {{TRAIN_X, BYTES(labels3)}, {TRAIN_Y, BYTES(images3)}},
     PS_ERR_INVALID, TRAIN_X, "swapped"},
    {"images twice", {{TRAIN_X, BYTES(images3)}, {TRAIN_Y, BYTES(images3)}},
     PS_ERR_INVALID, TRAIN_Y, "swapped"},
    {"counts disagree", {{TRAIN_X, BYTES(images3)}, {TRAIN_Y, BYTES(labels2)}},
     PS_ERR_INVALID, TRAIN_Y, "expected 3 labels, one for each image, found 2"},
    {"cut images", {{TRAIN_X, images3, sizeof(images3) - 1}, {TRAIN_Y, BYTES(labels3)}},
     PS_ERR_INVALID, TRAIN_X, "cut off: expected 6 bytes"},
    {"cut labels", {{TRAIN_X, BYTES(images3)}, {TRAIN_Y, labels3, sizeof(labels3) - 2}},
     PS_ERR_INVALID, TRAIN_Y, "cut off: expected 3 bytes"},
    {"text", {{TRAIN_X, BYTES(text)}, {TRAIN_Y, BYTES(labels3)}},
     PS_ERR_INVALID, TRAIN_X, "expected an IDX file"},
    {"empty file", {{TRAIN_X, text, 0}, {TRAIN_Y, BYTES(labels3)}},
     PS_ERR_INVALID, TRAIN_X, "only 0 bytes"},
    {"test labels missing",
     {{TRAIN_X, BYTES(images3)}, {TRAIN_Y, BYTES(labels3)}, {TEST_X, BYTES(images2)}},
     PS_ERR_NOT_FOUND, "/tmp/", "expected a file " TEST_Y},
    {"test of another width",
     {{TRAIN_X, BYTES(images3)}, {TRAIN_Y, BYTES(labels3)}, {TEST_X, BYTES(wide2)},
      {TEST_Y, BYTES(labels2)}},
     PS_ERR_INVALID, "/tmp/", "expected test rows of 2 numbers like the training rows, found 1"},
    {"test label unknown to training",
     {{TRAIN_X, BYTES(images3)}, {TRAIN_Y, BYTES(labels3)}, {TEST_X, BYTES(images2)},
      {TEST_Y, BYTES(high2)}},
     PS_ERR_INVALID, TEST_Y, "row 1 has label 3, expected 0 to 2"},
};
/* clang-format on */

START_TEST(a_wrong_folder_is_refused_and_leaves_nothing)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(wrongs[_i].puts); i++) {
        const struct put *put = &wrongs[_i].puts[i];
        if (put->name != NULL) {
            temp_folder_put(&folder, put->name, put->data, put->n_bytes);
        }
    }
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_data_options options = {.mem = &mem};
    struct ps_dataset *train = NULL;
    struct ps_dataset *test = NULL;
    struct ps_error err = {0};
    enum ps_status status = ps_data_open(folder.path, &options, &train, &test, &err);
    ck_assert_msg(status == wrongs[_i].status, "%s: status %d, '%s'", wrongs[_i].name, (int)status,
                  err.text);
    ck_assert_msg(strstr(err.text, wrongs[_i].file) != NULL &&
                      strstr(err.text, wrongs[_i].words) != NULL,
                  "%s: '%s'", wrongs[_i].name, err.text);
    ck_assert_ptr_null(strchr(err.text, '\n'));
    ck_assert_ptr_null(train);
    ck_assert_ptr_null(test);
    for (int c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        ck_assert_uint_eq(mem.used[c], 0);
    }
}
END_TEST

/* Fail the k-th allocation, for all k until a run passes. */
START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    temp_folder_put(&folder, TRAIN_X, BYTES(images3));
    temp_folder_put_gzip(&folder, TRAIN_Y, BYTES(labels3));
    temp_folder_put_gzip(&folder, TEST_X, BYTES(images2));
    temp_folder_put(&folder, TEST_Y, BYTES(labels2));
    enum ps_status status = PS_ERR_NOMEM;
    int64_t k = 0;
    for (; status != PS_OK && k < 200; k++) {
        struct ps_mem mem;
        struct ps_dataset *train = NULL;
        struct ps_dataset *test = NULL;
        ps_mem_init(&mem);
        mem.fail_after = k;
        struct ps_data_options options = {.mem = &mem};
        status = ps_data_open(folder.path, &options, &train, &test, NULL);
        ck_assert_msg(status == PS_OK || status == PS_ERR_NOMEM, "k %d: %d", (int)k, (int)status);
        ps_dataset_destroy(train);
        ps_dataset_destroy(test);
        for (int c = 0; c < PS_MEM_CLASS_COUNT; c++) {
            ck_assert_uint_eq(mem.used[c], 0);
        }
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(k, 8);
}
END_TEST

static enum ps_status open_words(const char *where, const struct ps_data_options *options,
                                 struct ps_error *err)
{
    struct ps_dataset *train = NULL;
    enum ps_status status = ps_data_open(where, options, &train, NULL, err);
    ps_dataset_destroy(train);
    return status;
}

START_TEST(a_name_that_is_not_installed_says_what_to_install)
{
    struct ps_error err = {0};
    struct ps_data_options options = {.root = folder.path};
    ck_assert_int_eq(open_words("fashion-mnist", &options, &err), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "apt-get install dataset-fashion-mnist"));
}
END_TEST

START_TEST(what_is_neither_name_nor_folder_is_refused)
{
    struct ps_error err = {0};
    ck_assert_int_eq(open_words("fashion-minst", NULL, &err), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "'fashion-minst' is neither"));

    char path[128];
    (void)snprintf(path, sizeof(path), "%s/" TRAIN_X, folder.path);
    temp_folder_put(&folder, TRAIN_X, BYTES(images3));
    ck_assert_int_eq(open_words(path, NULL, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is a file"));
}
END_TEST

START_TEST(an_unknown_format_is_refused)
{
    struct ps_error err = {0};
    struct ps_data_options options = {.format = "parquet"};
    ck_assert_int_eq(open_words(folder.path, &options, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "unknown data format 'parquet'"));
}
END_TEST

START_TEST(every_reader_is_found_by_its_name)
{
    size_t n = 0;
    const struct ps_reader *const *readers = ps_reader_all(&n);
    ck_assert_uint_ge(n, 1);
    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_eq(ps_reader_find(readers[i]->name), readers[i]);
        ck_assert_uint_gt(strlen(readers[i]->help), 0);
    }
    ck_assert_ptr_null(ps_reader_find("auto"));
}
END_TEST

START_TEST(fashion_mnist_has_its_known_shape)
{
    if (access(PS_DATA_ROOT "/fashion-mnist", R_OK) != 0) {
        (void)printf("skipped: dataset-fashion-mnist is not installed\n");
        return;
    }
    struct ps_dataset *train = NULL;
    struct ps_dataset *test = NULL;
    struct ps_error err = {0};
    ck_assert_msg(ps_data_open("fashion-mnist", NULL, &train, &test, &err) == PS_OK, "%s",
                  err.text);
    ck_assert_uint_eq(train->n_rows, 60000);
    ck_assert_uint_eq(test->n_rows, 10000);
    ck_assert_uint_eq(train->n_features, 784);
    ck_assert_uint_eq(train->n_classes, 10);
    uint64_t sum = 0;
    for (size_t i = 0; i < train->n_rows * train->n_features; i++) {
        sum += train->pixels[i];
    }
    ck_assert_double_eq_tol((double)sum / 255.0 / 60000.0 / 784.0, 0.286, 0.001);
    ck_assert_uint_ne(ps_dataset_hash(train), ps_dataset_hash(test));
    ps_dataset_destroy(train);
    ps_dataset_destroy(test);
}
END_TEST

/* The case bank's pair of twelve examples, where there is one. */
START_TEST(the_case_bank_is_read_in_all_pairings)
{
    const char *images = (_i & 1) != 0 ? "tiny-images.idx3-ubyte.gz" : "tiny-images.idx3-ubyte";
    const char *labels = (_i & 2) != 0 ? "tiny-labels.idx1-ubyte.gz" : "tiny-labels.idx1-ubyte";
    char from[2][TEST_PATH_BYTES];
    char to[128];
    if (!test_case_path(images, from[0]) || !test_case_path(labels, from[1])) {
        return;
    }
    (void)snprintf(to, sizeof(to), "%s/" TRAIN_X, folder.path);
    ck_assert_int_eq(symlink(from[0], to), 0);
    (void)snprintf(to, sizeof(to), "%s/" TRAIN_Y, folder.path);
    ck_assert_int_eq(symlink(from[1], to), 0);
    struct ps_dataset *train = NULL;
    struct ps_error err = {0};
    ck_assert_msg(ps_data_open(folder.path, NULL, &train, NULL, &err) == PS_OK, "%s", err.text);
    ck_assert_uint_eq(train->n_rows, 12);
    ps_dataset_destroy(train);
}
END_TEST

Suite *suite_data(void)
{
    Suite *suite = suite_create("data");
    TCase *tcase = tcase_create("folders");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, all_packings_and_spellings_give_the_same_rows, 0, 16);
    tcase_add_test(tcase, test_files_are_read_from_the_same_folder_or_another);
    tcase_add_loop_test(tcase, a_wrong_folder_is_refused_and_leaves_nothing, 0,
                        (int)PS_ARRAY_LEN(wrongs));
    tcase_add_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing);
    tcase_add_test(tcase, a_name_that_is_not_installed_says_what_to_install);
    tcase_add_test(tcase, what_is_neither_name_nor_folder_is_refused);
    tcase_add_test(tcase, an_unknown_format_is_refused);
    tcase_add_test(tcase, every_reader_is_found_by_its_name);
    tcase_add_test(tcase, fashion_mnist_has_its_known_shape);
    tcase_add_loop_test(tcase, the_case_bank_is_read_in_all_pairings, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}
