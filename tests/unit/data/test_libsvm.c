/*
 * test_libsvm.c — libsvm text: a table of files and the rows they mean, a table of lies and the
 * words for them, cuts at every byte, bases, label sets, standardising, refused allocations.
 */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "lib/test_main.h"
#include "unit/data/rig.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

static struct temp_folder folder;
static char path[128];

static void setup(void)
{
    temp_folder_make(&folder);
    (void)snprintf(path, sizeof(path), "%s/file", folder.path);
}

static void teardown(void)
{
    temp_folder_remove(&folder);
}

static void put(const char *name, const char *text)
{
    temp_folder_put(&folder, name, (const uint8_t *)text, strlen(text));
}

/* Keys are indices minus the base. */
static const struct {
    const char *name;
    const char *text;
    enum ps_task task;
    const char *rows;
} goods[] = {
    {"plain", "1 1:0.5 3:2\n-1 2:1\n", PS_TASK_BINARY, "1 0:0.5 2:2\n0 1:1\n"},
    {"counted from 0", "1 0:0.5 3:2\n-1 2:1\n", PS_TASK_BINARY, "1 0:0.5 3:2\n0 2:1\n"},
    {"0 comes late", "1 1:1\n-1 2:1\n1 0:3\n", PS_TASK_BINARY, "1 1:1\n0 2:1\n1 0:3\n"},
    {"blanks and tabs", "  +1\t 1:1   2:2 \t\n0 1:3", PS_TASK_BINARY, "1 0:1 1:2\n0 0:3\n"},
    {"comments and blank lines", "# x 1:1\n\n1 1:1 # 2:2\n   \n0 2:1#3:1\n", PS_TASK_BINARY,
     "1 0:1\n0 1:1\n"},
    {"qid", "2 qid:1 1:1\n1 qid:22\n", PS_TASK_VALUE, "2 0:1\n1\n"},
    {"rows without features", "0\n1 1:1\n0 \n", PS_TASK_BINARY, "0\n1 0:1\n0\n"},
    {"unsorted", "1 3:3 1:1 2:2\n0 1:1\n", PS_TASK_BINARY, "1 0:1 1:2 2:3\n0 0:1\n"},
    {"twice", "1 3:3 1:1 3:0.5 1:1\n0 1:1 1:2\n", PS_TASK_BINARY, "1 0:2 2:3.5\n0 0:3\n"},
    {"0 twice", "1 0:1 0:2\n0 1:1\n", PS_TASK_BINARY, "1 0:3\n0 1:1\n"},
    {"zeros", "1 1:0 2:1 3:-0.0 4:0e5\n0 1:1\n", PS_TASK_BINARY, "1 1:1\n0 0:1\n"},
    {"exponents", "1 1:1e-3 2:-2.5E2 3:.5\n0 1:1\n", PS_TASK_BINARY,
     "1 0:0.001 1:-250 2:0.5\n0 0:1\n"},
    {"CRLF and a mark",
     "\xef\xbb\xbf"
     "1 1:1\r\n0 2:1\r\n",
     PS_TASK_BINARY, "1 0:1\n0 1:1\n"},
    {"labels 1 and 2", "2 1:1\n1 1:1\n", PS_TASK_BINARY, "1 0:1\n0 0:1\n"},
    {"labels as floats", "4.000000 1:1\n2.0 1:1\n4 1:2\n", PS_TASK_BINARY, "1 0:1\n0 0:1\n1 0:2\n"},
    {"three classes", "10 1:1\n-1 1:1\n2 1:1\n", PS_TASK_CLASSES, "2 0:1\n0 0:1\n1 0:1\n"},
    {"numbers", "1.5 1:1\n-2e3 1:1\n", PS_TASK_VALUE, "1.5 0:1\n-2000 0:1\n"},
    {"high indices", "1 4294967296:1\n0 18446744073709551615:1\n", PS_TASK_BINARY,
     "1 4294967295:1\n0 18446744073709551614:1\n"},
};

START_TEST(rows_are_what_the_text_says_wherever_it_is_cut)
{
    put("file", goods[_i].text);
    struct rig rig = {.learn = {.task = goods[_i].task, .format = "libsvm"}};
    size_t n = strlen(goods[_i].text);
    for (size_t cut = 0; cut <= n; cut++) {
        char text[RIG_TEXT_BYTES];
        struct rig_result result;
        struct ps_error err = {0};
        rig.part_bytes = cut;
        rig.n_max = 1 + cut % 3;
        ck_assert_msg(rig_read(&rig, path, &result, &err) == PS_OK, "%s: %s", goods[_i].name,
                      err.text);
        rig_text(&result.rows, false, text);
        ck_assert_msg(strcmp(text, goods[_i].rows) == 0, "%s, parts of %zu: '%s'", goods[_i].name,
                      cut, text);
        rig_forget(&result);
    }
}
END_TEST

static const struct {
    const char *name;
    const char *text; /* Bad in line 2. */
    const char *words;
} lies[] = {
    {"no label", "1 1:1\n1:1 2:1\n0 1:1\n", "expected a label before"},
    {"a text as label", "1 1:1\nyes 2:1\n0 1:1\n",
     "expected a label, one decimal number, found 'yes'"},
    {"two labels", "1 1:1\n1,2 2:1\n0 1:1\n", "found '1,2'"},
    {"no colon", "1 1:1\n0 2\n0 1:1\n", "expected index:value, two decimal numbers, found '2'"},
    {"no value", "1 1:1\n0 2:\n0 1:1\n", "found '2:'"},
    {"no index", "1 1:1\n0 :2\n0 1:1\n", "found ':2'"},
    {"a negative index", "1 1:1\n0 -2:1\n0 1:1\n", "found '-2:1'"},
    {"a text as value", "1 1:1\n0 2:x\n0 1:1\n", "found '2:x'"},
    {"hexadecimal", "1 1:1\n0 2:0x1f\n0 1:1\n", "found '2:0x1f'"},
    {"a decimal comma", "1 1:1\n0 2:0,5\n0 1:1\n", "found '2:0,5'"},
    {"infinite", "1 1:1\n0 2:inf\n0 1:1\n", "found '2:inf'"},
    {"no number", "1 1:1\n0 2:nan\n0 1:1\n", "found '2:nan'"},
    {"too large", "1 1:1\n0 2:1e39\n0 1:1\n", "'2:1e39' is too large for a 32-bit float"},
    {"an index beyond 64 bits", "1 1:1\n0 18446744073709551616:1\n0 1:1\n", "does not fit 64 bits"},
    {"a sum too large", "1 1:1\n0 3:3e38 3:3e38\n0 1:1\n", "values of index 3 add up"},
    {"libffm", "1 1:1\n0 1:2:3\n0 1:1\n", "libffm"},
    {"a bad byte", "1 1:1\n0 2:1\x01\xff\n0 1:1\n", "found '2:1\?\?'"},
    {"a third label", "1 1:1\n0 2:1\n2 1:1\n", "'2' is a third label beside '0' and '1'"},
};

START_TEST(a_lie_is_refused_with_its_line_or_skipped)
{
    put("file", lies[_i].text);
    struct rig rig = {.learn = {.format = "libsvm"}, .part_bytes = 7};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    char where[160];
    (void)snprintf(where, sizeof(where), "%s:%d: ", path, strstr(lies[_i].name, "third") ? 3 : 2);
    ck_assert_msg(strncmp(err.text, where, strlen(where)) == 0, "%s: '%s'", lies[_i].name,
                  err.text);
    ck_assert_msg(strstr(err.text, lies[_i].words) != NULL, "%s: '%s'", lies[_i].name, err.text);

    rig.learn.max_bad_rows = 1;
    ck_assert_int_eq(rig_read(&rig, path, &result, &err),
                     PS_ERR_INVALID); /* Reading allows none. */
    rig.reading.max_bad_rows = 1;
    ck_assert_msg(rig_read(&rig, path, &result, &err) == PS_OK, "%s: '%s'", lies[_i].name,
                  err.text);
    ck_assert_uint_eq(result.rows.n_rows, 2);
    ck_assert_uint_eq(result.counts.n_rows, 2);
    ck_assert_uint_eq(result.counts.n_bad, 1);
    ck_assert_msg(strncmp(result.bad, where, strlen(where)) == 0, "'%s'", result.bad);
    rig_forget(&result);
}
END_TEST

START_TEST(the_base_is_part_of_the_description)
{
    put("from0", "1 0:1 9:1\n0 1:1\n");
    put("from1", "1 1:1 10:1\n0 2:1\n");
    put("few", "1 3:1\n0 4:1\n");
    char from0[160];
    char from1[160];
    char few[160];
    (void)snprintf(from0, sizeof(from0), "%s/from0", folder.path);
    (void)snprintf(from1, sizeof(from1), "%s/from1", folder.path);
    (void)snprintf(few, sizeof(few), "%s/few", folder.path);
    struct rig_result one;
    struct rig_result other;
    struct ps_error err = {0};
    struct rig rig = {0};
    ck_assert_int_eq(rig_read(&rig, from0, &one, &err), PS_OK);
    ck_assert_ptr_nonnull(strstr(one.said, "counted from 0 (0 occurs), 10 of them"));
    ck_assert_int_eq(rig_read(&rig, from1, &other, &err), PS_OK);
    ck_assert_ptr_nonnull(strstr(other.said, "counted from 1 (0 does not occur), 10 of them"));
    ck_assert(rig_same(&one.rows, &other.rows));
    rig_forget(&one);
    rig_forget(&other);

    rig.learn_from = from1;
    ck_assert_int_eq(rig_read(&rig, from0, &one, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "counts features from 0, the training data from 1"));
    rig.learn_from = from0;
    ck_assert_int_eq(rig_read(&rig, from1, &one, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "seems to count features from 1"));
    ck_assert_int_eq(rig_read(&rig, few, &one, &err), PS_OK); /* Nothing speaks against it. */
    rig_forget(&one);

    rig.learn_from = NULL;
    rig.learn.zero_based = PS_CHOICE_YES;
    char text[RIG_TEXT_BYTES];
    ck_assert_int_eq(rig_read(&rig, few, &one, &err), PS_OK);
    ck_assert_str_eq(rig_text(&one.rows, false, text), "1 3:1\n0 4:1\n");
    rig_forget(&one);
    rig.learn.zero_based = PS_CHOICE_NO;
    ck_assert_int_eq(rig_read(&rig, from0, &one, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "--index-base"));
}
END_TEST

START_TEST(labels_may_be_given_and_may_be_left_out_for_prediction)
{
    put("file", "5 1:1\n5 2:1\n");
    put("other", "7 1:1\n3:1\n5\n");
    char other[160];
    (void)snprintf(other, sizeof(other), "%s/other", folder.path);
    struct rig rig = {0};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "all labels are '5'"));
    rig.learn.labels = "9,5";
    char text[RIG_TEXT_BYTES];
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_OK);
    ck_assert_str_eq(rig_text(&result.rows, false, text), "1 0:1\n1 1:1\n");
    rig_forget(&result);
    rig.learn_from = path;
    ck_assert_int_eq(rig_read(&rig, other, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(
        strstr(err.text, "other:1: label '7' is unknown; the training data have"));
    rig.reading.label_optional = true;
    ck_assert_int_eq(rig_read(&rig, other, &result, &err), PS_OK);
    ck_assert_str_eq(rig_text(&result.rows, false, text), "nan 0:1\nnan 2:1\n1\n");
    ck_assert_uint_eq(result.rows.lines[2], 3);
    rig_forget(&result);
}
END_TEST

START_TEST(standardised_values_are_within_one)
{
    put("file", "1 1:1000000 2:-4\n0 1:-500000 2:2 9:0\n");
    struct rig rig = {.learn = {.standardize = PS_CHOICE_YES}};
    struct rig_result result;
    char text[RIG_TEXT_BYTES];
    ck_assert_int_eq(rig_read(&rig, path, &result, NULL), PS_OK);
    ck_assert_str_eq(rig_text(&result.rows, false, text), "1 0:1 1:-1\n0 0:-0.5 1:0.5\n");
    rig_forget(&result);
    put("file", "1 1:1 999999:1\n0 1:1\n");
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "standardised up to index 65535"));
}
END_TEST

START_TEST(large_values_and_qids_are_told)
{
    static const struct {
        const char *text;
        const char *says;
        bool standardize;
    } rows[] = {
        {"1 1:100\n0 2:1\n", "2 of them; 2 rows", false},
        {"1 1:-101\n0 2:1\n", "2 of them, values up to 101 (--standardize yes", false},
        {"1 1:-101\n0 2:1\n", "2 of them; 2 rows", true},
        {"1 qid:7 1:1\n0 qid:8 2:1\n", "2 of them, 2 qid words passed over; 2 rows", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig rig = {.learn = {.standardize = rows[i].standardize ? PS_CHOICE_YES : 0}};
        struct rig_result result;
        put("file", rows[i].text);
        ck_assert_int_eq(rig_read(&rig, path, &result, NULL), PS_OK);
        ck_assert_msg(strstr(result.said, rows[i].says) != NULL, "%s", result.said);
        rig_forget(&result);
    }
}
END_TEST

START_TEST(the_format_is_told_by_the_first_lines)
{
    struct rig rig = {0};
    struct rig_result result;
    struct ps_error err = {0};
    put("file", "# made\n+1 1:1\n-1 2:1\n");
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_OK);
    ck_assert_ptr_nonnull(strstr(result.said, "libsvm (lines are a label and index:value words)"));
    rig_forget(&result);
    put("file", "0 0:1:1 1:5:1\n1 1:2:1\n");
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "they look like libffm"));
    put("file", "call me ishmael\nsome years ago\n");
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "no known format: say which by --format"));
    put("file", "\n\n");
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "holds no lines of text"));
    temp_folder_put(&folder, "file", (const uint8_t *)"\0\0\10\3\0", 5);
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "images are read by --format idx"));
    put("file", "1 1:1\n0 2:1\n");
    rig.learn.label = "y";
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "--label has no meaning for libsvm data"));
    rig.learn.label = NULL;
    rig.learn.format = "parquet";
    put("file", "1 1:1\n0 1:1\n");
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "no format of lines is called 'parquet'"));
}
END_TEST

/* Of large data only pieces are looked at; the same ones every time, spread over the file. */
START_TEST(large_data_are_learnt_from_evenly_spread_pieces)
{
    enum {
        N_ROWS = 1200000
    };
    char big[160];
    (void)snprintf(big, sizeof(big), "%s/big", folder.path);
    FILE *file = fopen(big, "wb");
    for (int i = 0; i < N_ROWS; i++) {
        (void)fprintf(file, "%d %d:1\n", i < N_ROWS - 20000 ? i / (N_ROWS / 3) : 9, 1 + i);
    }
    ck_assert_int_eq(fclose(file), 0);
    struct rig rig = {.learn = {.task = PS_TASK_CLASSES, .learn_bytes = 4u << 20}};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, big, &result, &err), PS_ERR_INVALID);
    ck_assert_msg(strstr(err.text,
                         ":1180001: label '9' is unknown; the training data have 0 is 0, 1 is "
                         "1, 2 is 2 as far as") != NULL,
                  "%s", err.text);
    rig.learn.labels = "0,1,2,9";
    ck_assert_int_eq(rig_read(&rig, big, &result, &err), PS_OK);
    ck_assert_uint_eq(result.rows.n_rows, N_ROWS);
    ck_assert_ptr_nonnull(strstr(result.said, "rows looked at"));
    rig_forget(&result);
}
END_TEST

/* Fail the k-th allocation, for all k until a run passes. */
START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    static char text[60000];
    size_t used = 0;
    for (int i = 0; i < 200; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%d", i % 3);
        for (int f = 20; f > 0; f--) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, " %d:1", f + i);
        }
        text[used++] = '\n';
    }
    temp_folder_put(&folder, "file", (const uint8_t *)text, used);
    enum ps_status status = PS_ERR_NOMEM;
    int64_t k = 0;
    for (; status != PS_OK && k < 300; k++) {
        struct ps_mem mem;
        struct rig_result result;
        ps_mem_init(&mem);
        mem.fail_after = k;
        struct rig rig = {.mem = &mem,
                          .learn = {.task = PS_TASK_CLASSES, .standardize = PS_CHOICE_YES}};
        status = rig_read(&rig, path, &result, NULL);
        ck_assert_msg(status == PS_OK || status == PS_ERR_NOMEM, "k %d: %d", (int)k, (int)status);
        if (status == PS_OK) {
            ck_assert_uint_eq(ps_rows_features(&result.rows), 4000);
            rig_forget(&result);
        }
        ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(k, 20);
}
END_TEST

Suite *suite_libsvm(void)
{
    Suite *suite = suite_create("libsvm");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, rows_are_what_the_text_says_wherever_it_is_cut, 0,
                        (int)PS_ARRAY_LEN(goods));
    tcase_add_loop_test(tcase, a_lie_is_refused_with_its_line_or_skipped, 0,
                        (int)PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, the_base_is_part_of_the_description);
    tcase_add_test(tcase, labels_may_be_given_and_may_be_left_out_for_prediction);
    tcase_add_test(tcase, standardised_values_are_within_one);
    tcase_add_test(tcase, large_values_and_qids_are_told);
    tcase_add_test(tcase, the_format_is_told_by_the_first_lines);
    tcase_add_test(tcase, large_data_are_learnt_from_evenly_spread_pieces);
    tcase_add_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing);
    suite_add_tcase(suite, tcase);
    return suite;
}
