/*
 * test_description.c — a description survives the way through JSON, byte for byte; damaged and
 * foreign ones are refused without a trace; labels have their order.
 */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "data/description.h"
#include "data/format.h"
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

static struct ps_description *learn(const char *text, struct ps_learn_options options)
{
    struct ps_source *source = NULL;
    struct ps_description *description = NULL;
    struct ps_error err = {0};
    temp_folder_put(&folder, "file", (const uint8_t *)text, strlen(text));
    ck_assert_int_eq(ps_source_open(NULL, path, &source, &err), PS_OK);
    ck_assert_msg(ps_learn(source, &options, &description, &err) == PS_OK, "%s", err.text);
    ps_source_close(source);
    return description;
}

static const struct {
    const char *text;
    struct ps_learn_options options;
} sets[] = {
    {"1 1:0.3\n-1 7:-20\n", {.standardize = PS_CHOICE_YES}},
    {"1 0:1\n-1 18446744073709551615:1\n", {0}},
    {"10 1:1\n1e20 1:1\n-0.1 1:1\n", {.task = PS_TASK_CLASSES}},
    {"1.5 1:1\n", {.task = PS_TASK_VALUE}},
    {"1 1:1\n2 1:1\n", {.labels = "2,1"}},
    {"na\xc3\xafve \"\"x,b,y\n1,u,a\n0.1,v,b\n0.7,,a\n", {0}},
    {"1,a..\n2,5..\n3,b. .\n4,...\n", {.label = "2", .task = PS_TASK_CLASSES}},
    {"1,0.1,1e-30\n0,0.2,1e30\n0,3,7\n", {.ignore = "2"}},
};

START_TEST(a_description_survives_its_text)
{
    struct ps_description *one = learn(sets[_i].text, sets[_i].options);
    struct ps_description *two = NULL;
    char *text = NULL;
    char *again = NULL;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_description_write(one, &text, &err), PS_OK);
    ck_assert_msg(ps_description_read(NULL, text, strlen(text), &two, &err) == PS_OK, "%s: %s",
                  text, err.text);
    ck_assert_int_eq(ps_description_write(two, &again, &err), PS_OK);
    ck_assert_str_eq(text, again);
    ck_assert_ptr_eq(one->format, two->format);
    ck_assert_int_eq(one->task, two->task);
    ck_assert_uint_eq(one->n_features, two->n_features);
    ck_assert_uint_eq(one->index_base, two->index_base);
    ck_assert_uint_eq(one->labels.n, two->labels.n);
    for (uint32_t i = 0; i < one->labels.n; i++) {
        ck_assert_str_eq(one->labels.at[i].text, two->labels.at[i].text);
        ck_assert_int_eq(isnan(one->labels.at[i].number), isnan(two->labels.at[i].number));
    }
    ck_assert_uint_eq(one->n_columns, two->n_columns);
    for (uint32_t i = 0; i < one->n_columns; i++) {
        ck_assert_double_eq(one->columns[i].mean, two->columns[i].mean);
        ck_assert(one->columns[i].scale == two->columns[i].scale ||
                  one->columns[i].kind != PS_COLUMN_NUMERIC);
    }
    ck_assert_uint_eq(one->n_scales, two->n_scales);
    for (uint32_t i = 0; i < one->n_scales; i++) {
        ck_assert(one->scales[i] == two->scales[i]);
    }
    ps_mem_free(text);
    ps_mem_free(again);
    ps_description_destroy(one);
    ps_description_destroy(two);
}
END_TEST

#define GOOD                                                                                     \
    "{\"format\":\"csv\",\"task\":\"binary\",\"labels\":[\"0\",\"1\"],\"labels_given\":false,"   \
    "\"n_features\":\"2\",\"n_rows\":\"2\",\"all_seen\":true,\"index_base\":0,"                  \
    "\"header\":true,\"columns\":[{\"name\":\"x\",\"kind\":\"numeric\",\"mean\":1,\"scale\":2}," \
    "{\"name\":\"y\",\"kind\":\"label\"}]}"

static const struct {
    const char *from; /* Replaced in GOOD */
    const char *to;   /* by this. */
} lies[] = {
    {"{", ""},
    {"\"csv\"", "\"parquet\""},
    {"\"csv\"", "7"},
    {"\"csv\"", "\"libsvm\""}, /* Has no header. */
    {"\"binary\"", "\"ranking\""},
    {"[\"0\",\"1\"]", "[\"0\"]"},
    {"[\"0\",\"1\"]", "[\"0\",\"0\"]"},
    {"[\"0\",\"1\"]", "[\"0\",\"1\",\"2\"]"},
    {"[\"0\",\"1\"]", "[\"0\",1]"},
    {"[\"0\",\"1\"]", "[\"\",\"1\"]"},
    {"[\"0\",\"1\"]", "\"0\""},
    {"\"n_features\":\"2\"", "\"n_features\":\"-2\""},
    {"\"n_features\":\"2\"", "\"n_features\":\"18446744073709551616\""},
    {"\"n_features\":\"2\"", "\"n_features\":2"},
    {"true,\"index_base\"", "1,\"index_base\""},
    {"\"index_base\":0", "\"index_base\":2"},
    {"\"index_base\":0", "\"index_base\":0.5"},
    {"\"index_base\":0", "\"index_base\":-1"},
    {"\"numeric\"", "\"text\""},
    {"\"mean\":1", "\"mean\":1e999"},
    {"\"scale\":2", "\"scale\":\"2\""},
    {"\"name\":\"y\"", "\"title\":\"y\""},
    {"\"columns\":[", "\"rows\":["},
    {"\"kind\":\"label\"}]", "\"kind\":\"label\"}],\"scales\":[1,null]"},
    {"\"kind\":\"label\"}]", "\"kind\":\"label\"}],\"scales\":7"},
};

START_TEST(a_damaged_description_is_refused_and_leaves_nothing)
{
    char text[1024];
    const char *at = strstr(GOOD, lies[_i].from);
    ck_assert_ptr_nonnull(at);
    (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - GOOD), GOOD, lies[_i].to,
                   at + strlen(lies[_i].from));
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_description *description = NULL;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_description_read(&mem, GOOD, strlen(GOOD), &description, &err), PS_OK);
    ps_description_destroy(description);
    description = NULL;
    ck_assert_msg(ps_description_read(&mem, text, strlen(text), &description, &err) != PS_OK, "%s",
                  text);
    ck_assert_ptr_null(description);
    ck_assert_uint_gt(strlen(err.text), 10);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    enum ps_status status = PS_ERR_NOMEM;
    int64_t k = 0;
    for (; status != PS_OK && k < 50; k++) {
        struct ps_mem mem;
        struct ps_description *description = NULL;
        char *text = NULL;
        ps_mem_init(&mem);
        mem.fail_after = k;
        status = ps_description_read(&mem, GOOD, strlen(GOOD), &description, NULL);
        if (status == PS_OK) {
            status = ps_description_write(description, &text, NULL);
        }
        ck_assert_msg(status == PS_OK || status == PS_ERR_NOMEM, "k %d: %d", (int)k, (int)status);
        ps_mem_free(text);
        ps_description_destroy(description);
        ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(k, 5);
}
END_TEST

START_TEST(every_prefix_of_a_description_is_refused)
{
    for (size_t n = 0; n < strlen(GOOD); n++) {
        struct ps_description *description = NULL;
        ck_assert_int_ne(ps_description_read(NULL, GOOD, n, &description, NULL), PS_OK);
    }
}
END_TEST

/* What is stored is all that reading needs. */
START_TEST(a_stored_description_reads_the_same_rows)
{
    static const char text[] = "age,city,label\n31,Ulm,1\n,Gent,0\n45,,1\n";
    struct ps_description *one = learn(text, (struct ps_learn_options){0});
    struct ps_description *two = NULL;
    char *json = NULL;
    ck_assert_int_eq(ps_description_write(one, &json, NULL), PS_OK);
    ck_assert_int_eq(ps_description_read(NULL, json, strlen(json), &two, NULL), PS_OK);
    struct ps_rows rows[2];
    struct ps_source *source = NULL;
    ck_assert_int_eq(ps_source_open(NULL, path, &source, NULL), PS_OK);
    for (int i = 0; i < 2; i++) {
        struct ps_reading_options options = {0};
        struct ps_reading *reading = NULL;
        size_t n = 0;
        ps_rows_init(&rows[i], NULL);
        ck_assert_int_eq(ps_reading_open(source, i == 0 ? one : two, &options, &reading, NULL),
                         PS_OK);
        ck_assert_int_eq(ps_reading_start(reading, ps_source_whole(source, 0), NULL), PS_OK);
        ck_assert_int_eq(ps_reading_next(reading, 10, &rows[i], &n, NULL), PS_OK);
        ck_assert_uint_eq(n, 3);
        ps_reading_close(reading);
    }
    ck_assert(rig_same(&rows[0], &rows[1]));
    ps_rows_deinit(&rows[0]);
    ps_rows_deinit(&rows[1]);
    ps_source_close(source);
    ps_mem_free(json);
    ps_description_destroy(one);
    ps_description_destroy(two);
}
END_TEST

START_TEST(a_decimal_comma_in_the_locale_changes_nothing)
{
    char *texts[2] = {0};
    struct ps_description *again = NULL;
    for (int i = 0; i < 2; i++) {
        if (i == 1 && setlocale(LC_ALL, "de_DE.UTF-8") == NULL) {
            (void)printf("skipped: no locale with a decimal comma is installed\n");
            ps_mem_free(texts[0]);
            return;
        }
        struct ps_description *one = learn(sets[_i].text, sets[_i].options);
        ck_assert_int_eq(ps_description_write(one, &texts[i], NULL), PS_OK);
        ps_description_destroy(one);
    }
    ck_assert_str_eq(texts[0], texts[1]);
    ck_assert_int_eq(ps_description_read(NULL, texts[0], strlen(texts[0]), &again, NULL), PS_OK);
    ps_mem_free(texts[1]);
    ck_assert_int_eq(ps_description_write(again, &texts[1], NULL), PS_OK);
    (void)setlocale(LC_ALL, "C");
    ck_assert_str_eq(texts[0], texts[1]);
    ps_mem_free(texts[0]);
    ps_mem_free(texts[1]);
    ps_description_destroy(again);
}
END_TEST

START_TEST(labels_have_their_order)
{
    static const char *const words[] = {"b", "10", "a", "9.50", "-1", "+9.5", "B.", "10.0", "b."};
    struct ps_labels labels;
    char text[256];
    uint32_t found = 77;
    ps_labels_init(&labels, NULL);
    for (size_t i = 0; i < PS_ARRAY_LEN(words); i++) {
        ck_assert_int_eq(ps_labels_add(&labels, words[i], strlen(words[i]), NULL), PS_OK);
    }
    ps_labels_text(&labels, text, sizeof(text));
    ck_assert_str_eq(text, "-1 is 0, 9.5 is 1, 10 is 2, B is 3, a is 4, b is 5");
    ck_assert(ps_labels_find(&labels, "a.", 2, &found) && found == 4);
    ck_assert(ps_labels_find_number(&labels, 9.5f, &found) && found == 1);
    ck_assert(!ps_labels_find(&labels, "c", 1, &found));
    ck_assert(!ps_labels_find_number(&labels, 9.0f, &found));
    ps_labels_text(&labels, text, 12);
    ck_assert_str_eq(text, "-1 is 0, 9.");
    ps_labels_deinit(&labels);

    ck_assert_int_eq(ps_labels_give(&labels, "yes,no", NULL), PS_OK);
    ck_assert(ps_labels_find(&labels, "no", 2, &found) && found == 1);
    ps_labels_deinit(&labels);
    ck_assert_int_eq(ps_labels_give(&labels, "1,1.0", NULL), PS_ERR_INVALID);
    ps_labels_deinit(&labels);
    ck_assert_int_eq(ps_labels_give(&labels, "1,,2", NULL), PS_ERR_INVALID);
    ps_labels_deinit(&labels);
}
END_TEST

Suite *suite_description(void)
{
    Suite *suite = suite_create("description");
    TCase *tcase = tcase_create("core");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_description_survives_its_text, 0, (int)PS_ARRAY_LEN(sets));
    tcase_add_loop_test(tcase, a_damaged_description_is_refused_and_leaves_nothing, 0,
                        (int)PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing);
    tcase_add_test(tcase, every_prefix_of_a_description_is_refused);
    tcase_add_test(tcase, a_stored_description_reads_the_same_rows);
    tcase_add_loop_test(tcase, a_decimal_comma_in_the_locale_changes_nothing, 0,
                        (int)PS_ARRAY_LEN(sets));
    tcase_add_test(tcase, labels_have_their_order);
    suite_add_tcase(suite, tcase);
    return suite;
}
