/*
 * test_sets.c — real data and the case bank, where lib/test_data.h finds them: counts of rows,
 * features and classes are those that are known of each set.
 */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "lib/test_data.h"
#include "lib/test_main.h"
#include "unit/data/rig.h"
#include "unit/data/suites.h"

/* clang-format off */
static const struct {
    const char *path;       /* Below PS_TEST_DATA. */
    const char *learn_from; /* Or NULL: itself. */
    struct ps_learn_options learn;
    size_t n_rows;
    size_t n_upper;         /* Rows of the highest class; 0: not looked at. */
    float upper;
    size_t n_features;      /* Features of all rows; 0: not looked at. */
    const char *said;       /* Part of what is told. */
} sets[] = {
    {"a9a/a9a.gz", NULL, {0}, 32561, 7841, 1, 451592, "123 of them; 32561 rows; label -1 is 0, 1 is 1"},
    {"a9a/a9a.t.gz", "a9a/a9a.gz", {0}, 16281, 3846, 1, 0, "123 of them"},
    {"a9a/a9a.t.gz", NULL, {0}, 16281, 3846, 1, 0, "123 of them"}, /* An explicit zero is the width. */
    {"a9a/a9a.t.01labels.gz", NULL, {0}, 16281, 3846, 1, 0, "label 0 is 0, 1 is 1"},
    {"agaricus/agaricus.txt.train.gz", NULL, {0}, 6513, 3140, 1, 6513ul * 22, "126 of them"},
    {"agaricus/agaricus.txt.test.gz", "agaricus/agaricus.txt.train.gz", {0}, 1611, 0, 1, 1611ul * 22, "126"},
    {"mushrooms/mushrooms.gz", NULL, {0}, 8124, 4208, 1, 0, "112 of them; 8124 rows; label 1 is 0, 2 is 1"},
    {"w6a/w6a_300d_train.libsvm.gz", NULL, {0}, 12292, 0, 1, 0, "300 of them"},
    {"w6a/w6a_300d_test.libsvm.gz", "w6a/w6a_300d_train.libsvm.gz", {0}, 8595, 0, 1, 0, "300 of them"},
    {"dna/dna.scale.gz", NULL, {.task = PS_TASK_CLASSES}, 2000, 1051, 2, 0, "180 of them; 2000 rows; label 1 is 0, 2 is 1, 3 is 2"},
    {"dna/dna.scale.t.gz", "dna/dna.scale.gz", {.task = PS_TASK_CLASSES}, 1186, 603, 2, 0, "180"},
    {"breast-cancer/breast-cancer.libsvm.gz", NULL, {0}, 683, 239, 1, 0, "10 of them, values up to 1.35e+07 ("},
    {"abalone/abalone_8d.libsvm.gz", NULL, {.task = PS_TASK_VALUE}, 4177, 1, 29, 0, "8 of them"},
    {"housing/housing_scale.gz", NULL, {.task = PS_TASK_VALUE}, 506, 16, 50, 0, "13 of them"},
    {"adult/adult.data.gz", NULL, {.label = "15"}, 32561, 7841, 1, 32561ul * 14, "label <=50K is 0, >50K is 1"},
    {"adult/adult.test.gz", "adult/adult.data.gz", {.label = "15"}, 16281, 3846, 1, 16281ul * 14, "6 numeric"},
    {"titanic/train.csv.gz", NULL, {.label = "Survived"}, 891, 342, 1, 0, "a header, label in column 2 'Survived'"},
    {"higgs-2k/higgs-2k.csv.gz", NULL, {0}, 2000, 0, 1, 2000ul * 28, "28 numeric"},
};
/* clang-format on */

START_TEST(a_set_has_its_known_counts)
{
    char path[TEST_PATH_BYTES];
    char learn_from[TEST_PATH_BYTES];
    bool other = sets[_i].learn_from != NULL;
    if (!test_data_path(sets[_i].path, path) ||
        (other && !test_data_path(sets[_i].learn_from, learn_from))) {
        return;
    }
    struct rig rig = {.learn = sets[_i].learn, .learn_from = other ? learn_from : NULL};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_msg(rig_read(&rig, path, &result, &err) == PS_OK, "%s", err.text);
    ck_assert_msg(strstr(result.said, sets[_i].said) != NULL, "%s: '%s'", sets[_i].path,
                  result.said);
    ck_assert_uint_eq(result.rows.n_rows, sets[_i].n_rows);
    size_t n_upper = 0;
    for (size_t i = 0; i < result.rows.n_rows; i++) {
        ck_assert(result.rows.labels[i] <= sets[_i].upper);
        n_upper += result.rows.labels[i] == sets[_i].upper;
    }
    ck_assert_msg(sets[_i].n_upper == 0 || n_upper == sets[_i].n_upper, "%s: %zu", sets[_i].path,
                  n_upper);
    ck_assert_msg(sets[_i].n_features == 0 || ps_rows_features(&result.rows) == sets[_i].n_features,
                  "%s: %zu features", sets[_i].path, ps_rows_features(&result.rows));
    rig_forget(&result);
}
END_TEST

START_TEST(two_conventions_of_labels_are_the_same_rows)
{
    char paths[2][TEST_PATH_BYTES];
    if (!test_data_path("a9a/a9a.t.gz", paths[0]) ||
        !test_data_path("a9a/a9a.t.01labels.gz", paths[1])) {
        return;
    }
    struct rig rig = {0};
    struct rig_result one;
    struct rig_result two;
    ck_assert_int_eq(rig_read(&rig, paths[0], &one, NULL), PS_OK);
    ck_assert_int_eq(rig_read(&rig, paths[1], &two, NULL), PS_OK);
    ck_assert(rig_same(&one.rows, &two.rows));
    rig_forget(&one);
    rig_forget(&two);
}
END_TEST

START_TEST(titanic_has_its_missing_cells_and_a_test_file_without_labels)
{
    char train[TEST_PATH_BYTES];
    char test[TEST_PATH_BYTES];
    if (!test_data_path("titanic/train.csv.gz", train) ||
        !test_data_path("titanic/test.csv.gz", test)) {
        return;
    }
    struct rig rig = {.learn = {.label = "Survived"}};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, train, &result, &err), PS_OK);
    ck_assert_uint_eq(result.counts.n_missing, 177 + 687 + 2);
    rig_forget(&result);
    rig.learn_from = train;
    ck_assert_int_eq(rig_read(&rig, test, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "there is no 'Survived'"));
    rig.reading.label_optional = true;
    ck_assert_int_eq(rig_read(&rig, test, &result, &err), PS_OK);
    ck_assert_uint_eq(result.rows.n_rows, 418);
    rig_forget(&result);
}
END_TEST

START_TEST(what_is_no_libsvm_is_refused_by_its_name)
{
    static const char *const formats[] = {"auto", "libsvm"};
    char path[TEST_PATH_BYTES];
    char prose[TEST_PATH_BYTES];
    if (!test_data_path("ffm-small/criteo_small_train.ffm.gz", path) ||
        !test_data_path("text8-head/text8.head.gz", prose)) {
        return;
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(formats); i++) {
        struct rig rig = {.learn = {.format = formats[i]}};
        struct rig_result result;
        struct ps_error err = {0};
        ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
        ck_assert_msg(strstr(err.text, "libffm") != NULL, "%s", err.text);
    }
    struct rig rig = {0};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, prose, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "no known format"));
}
END_TEST

/* clang-format off */
static const struct {
    const char *name; /* Below PS_TEST_CASES. */
    struct ps_learn_options learn;
    size_t n_rows;
    size_t n_features;
    const char *said;
} cases[] = {
    {"zero-based.libsvm", {0}, 40, 156, "counted from 0 (0 occurs), 10 of them"},
    {"one-based-same-data.libsvm", {0}, 40, 156, "counted from 1 (0 does not occur), 10 of them"},
    {"labels-1-2.libsvm", {0}, 60, 0, "label 1 is 0, 2 is 1"},
    {"labels-2-4-float.libsvm", {.task = PS_TASK_CLASSES}, 60, 0, "label 2 is 0, 4 is 1"},
    {"comments-qid-blanks.libsvm", {.task = PS_TASK_CLASSES}, 6, 9, "label 0 is 0, 1 is 1, 2 is 2"},
    {"header-and-missing.csv", {0}, 7, 28, "a header, label in column 5 'label'"},
    {"unscaled.csv", {.task = PS_TASK_VALUE}, 200, 400, "2 numeric (standardised)"},
    {"three-rows.libsvm", {0}, 3, 4, "3 rows"},
    {"long-line.libsvm", {0}, 3, 15002, "15000 of them"},
    {"decimals.libsvm", {0}, 20, 0, "2 of them"},
    {"decimals.csv", {0}, 20, 40, "2 numeric"},
    {"big-index.libsvm", {0}, 5, 10, "4294967297 of them"},
    {"own-feature-1000.libsvm", {.task = PS_TASK_VALUE}, 1000, 1000, "1000 of them"},
    {"predict-rows.libsvm", {.labels = "0,1"}, 5, 5, "3 of them"},
};
/* clang-format on */

START_TEST(a_case_is_read_as_stated)
{
    char path[TEST_PATH_BYTES];
    if (!test_case_path(cases[_i].name, path)) {
        return;
    }
    struct rig rig = {.learn = cases[_i].learn, .part_bytes = 1 + (uint64_t)_i * 97};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_msg(rig_read(&rig, path, &result, &err) == PS_OK, "%s", err.text);
    ck_assert_msg(strstr(result.said, cases[_i].said) != NULL, "%s: '%s'", cases[_i].name,
                  result.said);
    ck_assert_uint_eq(result.rows.n_rows, cases[_i].n_rows);
    ck_assert_msg(cases[_i].n_features == 0 ||
                      ps_rows_features(&result.rows) == cases[_i].n_features,
                  "%s: %zu features", cases[_i].name, ps_rows_features(&result.rows));
    rig_forget(&result);
}
END_TEST

START_TEST(the_same_data_from_0_and_from_1_are_the_same_rows)
{
    char zero[TEST_PATH_BYTES];
    char one[TEST_PATH_BYTES];
    if (!test_case_path("zero-based.libsvm", zero) ||
        !test_case_path("one-based-same-data.libsvm", one)) {
        return;
    }
    struct rig rig = {0};
    struct rig_result results[2];
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, zero, &results[0], NULL), PS_OK);
    ck_assert_int_eq(rig_read(&rig, one, &results[1], NULL), PS_OK);
    ck_assert(rig_same(&results[0].rows, &results[1].rows));
    rig_forget(&results[0]);
    rig_forget(&results[1]);
    rig.learn_from = one;
    ck_assert_int_eq(rig_read(&rig, zero, &results[0], &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "--index-base 0"));
    rig.learn_from = zero;
    ck_assert_int_eq(rig_read(&rig, one, &results[0], &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "--index-base 1"));
}
END_TEST

START_TEST(five_high_keys_stay_five)
{
    char path[TEST_PATH_BYTES];
    if (!test_case_path("big-index.libsvm", path)) {
        return;
    }
    struct rig rig = {0};
    struct rig_result result;
    ck_assert_int_eq(rig_read(&rig, path, &result, NULL), PS_OK);
    static const uint64_t keys[] = {2147483646, 2147483647, 4294967294, 4294967295, 4294967296};
    for (size_t i = 0; i < PS_ARRAY_LEN(keys); i++) {
        ck_assert_uint_eq(result.rows.keys[2 * i + 1], keys[i]);
    }
    rig_forget(&result);
}
END_TEST

Suite *suite_sets(void)
{
    Suite *suite = suite_create("sets");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_set_has_its_known_counts, 0, (int)PS_ARRAY_LEN(sets));
    tcase_add_test(tcase, two_conventions_of_labels_are_the_same_rows);
    tcase_add_test(tcase, titanic_has_its_missing_cells_and_a_test_file_without_labels);
    tcase_add_test(tcase, what_is_no_libsvm_is_refused_by_its_name);
    tcase_add_loop_test(tcase, a_case_is_read_as_stated, 0, (int)PS_ARRAY_LEN(cases));
    tcase_add_test(tcase, the_same_data_from_0_and_from_1_are_the_same_rows);
    tcase_add_test(tcase, five_high_keys_stay_five);
    suite_add_tcase(suite, tcase);
    return suite;
}
