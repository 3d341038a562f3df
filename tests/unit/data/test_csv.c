/*
 * test_csv.c — tables in text: cells and their quotes, headers, kinds of columns, missing values,
 * labels in two spellings, means learnt; a table of lies; cuts at every byte; refused allocations.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "data/cells.h"
#include "lib/test_main.h"
#include "unit/data/rig.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

#define GOLDEN_TEXT   12605950534733164801ull
#define GOLDEN_NUMBER 16022610859476175469ull

static struct temp_folder folder;
static char path[128];
static char other[128];

static void setup(void)
{
    temp_folder_make(&folder);
    (void)snprintf(path, sizeof(path), "%s/file", folder.path);
    (void)snprintf(other, sizeof(other), "%s/other", folder.path);
}

static void teardown(void)
{
    temp_folder_remove(&folder);
}

static void put(const char *name, const char *text)
{
    temp_folder_put(&folder, name, (const uint8_t *)text, strlen(text));
}

static const struct {
    const char *line;
    const char *cells; /* Each with a '|' behind it; "!" for a fault. */
} lines[] = {
    {"", "|"},
    {"a,b", "a|b|"},
    {" a , b\t,", "a|b||"},
    {",,", "|||"},
    {"\"a, b\",c", "a, b|c|"},
    {" \"a\" , \"\"", "a||"},
    {"\"say \"\"no\"\"\",1", "say \"\"no\"\"|1|"},
    {"\"\"\"\"", "\"\"|"},
    {"5\" pipe,2", "5\" pipe|2|"},
    {"\"open,2", "!"},
    {"1,\"", "1|!"},
    {"\"a\"b,2", "!"},
    {"\"a\"\"", "!"},
};

START_TEST(a_line_has_its_cells)
{
    struct ps_cells cells = ps_cells_of(lines[_i].line, strlen(lines[_i].line), ',');
    struct ps_cell cell;
    char text[128] = "";
    uint32_t n = 0;
    while (ps_cells_next(&cells, &cell)) {
        strncat(text, cell.text, cell.n_bytes);
        strncat(text, "|", 2);
        n++;
    }
    strncat(text, cells.fault != NULL ? "!" : "", 2);
    ck_assert_msg(strcmp(text, lines[_i].cells) == 0, "'%s': '%s'", lines[_i].line, text);
    ck_assert_uint_eq(ps_cells_count(lines[_i].line, strlen(lines[_i].line), ','),
                      cells.fault != NULL ? 0 : n);
}
END_TEST

/* Field 0 is the first column. Not standardised, so that numbers are seen as they are. */
static const struct {
    const char *name;
    const char *text;
    struct ps_learn_options learn;
    const char *rows; /* label field:value ... */
} goods[] = {
    {"no header, label first", "1,0.5,2\n0,1.5,3\n", {0}, "1 1:0.5 2:2\n0 1:1.5 2:3\n"},
    {"a header", "x,label\n0.5,1\n1.5,0\n", {0}, "1 0:0.5\n0 0:1.5\n"},
    {"label by name", "x,z\n1,5\n2,6\n", {.label = "z"}, "0 0:1\n1 0:2\n"},
    {"label by number", "1,5\n2,6\n", {.label = "2"}, "0 0:1\n1 0:2\n"},
    {"texts", "1,red\n0,blue\n1,red\n", {0}, "1 1:1\n0 1:1\n1 1:1\n"},
    {"text labels", "1,no\n2,yes\n", {.label = "2"}, "0 0:1\n1 0:2\n"},
    {"quotes and CRLF", "1,\"a, b\"\r\n0,\"5\"\r\n", {0}, "1 1:1\n0 1:1\n"},
    {"a quoted number", "1,\"2.5\"\n0,\" 3\"\n", {.numeric = NULL}, "1 1:1\n0 1:1\n"},
    {"missing marks",
     "1,1,2\n0,,?\n1,NA,null\n0,nan,N/A\n",
     {0},
     "1 1:1 2:2\n0 1:1 2:1\n1 1:1 2:1\n0 1:1 2:1\n"},
    {"blank lines", "1,2\n\n  \n0,3\n", {0}, "1 1:2\n0 1:3\n"},
    {"no final newline", "1,2\n0,3", {0}, "1 1:2\n0 1:3\n"},
    {"zeros are not stored", "1,0,2\n0,1,0.0\n", {0}, "1 2:2\n0 1:1\n"},
    {"numbers as categories", "1,7\n0,8\n", {.categorical = "2"}, "1 1:1\n0 1:1\n"},
    {"numbers as ids", "1,7,8\n0,8,9\n", {.ids = true}, "1 1:1 2:1\n0 1:1 2:1\n"},
    {"numbers by flag", "1,7,8\n0,8,9\n", {.ids = true, .numeric = "2"}, "1 1:7 2:1\n0 1:8 2:1\n"},
    {"ignored", "1,7,8,9\n0,8,9,1\n", {.ignore = "2,4"}, "1 2:8\n0 2:9\n"},
    {"an empty column is ignored", "1,,8\n0,?,9\n", {0}, "1 2:8\n0 2:9\n"},
    {"tabs", "1\ta b\t2\n0\t\t3\n", {0}, "1 1:1 2:2\n0 1:1 2:3\n"},
    {"a header by flag", "a,b\nc,d\ne,f\n", {.header = PS_CHOICE_YES}, "0 1:1\n1 1:1\n"},
    {"no header by flag", "a,b\nc,d\n", {.header = PS_CHOICE_NO}, "0 1:1\n1 1:1\n"},
    {"an unnamed index column", ",x,label\n0,5,1\n1,6,0\n", {0}, "1 1:5\n0 0:1 1:6\n"},
    {"regression", "x,y\n1,10.5\n2,-3\n", {.task = PS_TASK_VALUE}, "10.5 0:1\n-3 0:2\n"},
};

START_TEST(rows_are_what_the_text_says_wherever_it_is_cut)
{
    put("file", goods[_i].text);
    struct rig rig = {.learn = goods[_i].learn};
    rig.learn.standardize = PS_CHOICE_NO;
    struct rig_result whole;
    struct ps_error err = {0};
    ck_assert_msg(rig_read(&rig, path, &whole, &err) == PS_OK, "%s: %s", goods[_i].name, err.text);
    char text[RIG_TEXT_BYTES];
    rig_text(&whole.rows, true, text);
    ck_assert_msg(strcmp(text, goods[_i].rows) == 0, "%s: '%s'", goods[_i].name, text);
    for (rig.part_bytes = 1; rig.part_bytes < strlen(goods[_i].text); rig.part_bytes++) {
        struct rig_result cut;
        rig.n_max = 1 + rig.part_bytes % 3;
        ck_assert_int_eq(rig_read(&rig, path, &cut, &err), PS_OK);
        ck_assert_msg(rig_same(&whole.rows, &cut.rows), "%s: cut", goods[_i].name);
        rig_forget(&cut);
    }
    rig_forget(&whole);
}
END_TEST

static const struct {
    const char *name;
    const char *text;
    struct ps_learn_options learn;
    const char *words;
} lies[] = {
    {"too few cells", "1,2,3\n0,2\n0,1,1\n", {.format = "csv"}, ":2: expected 3 columns, found 2"},
    {"too many cells", "1,2\n0,2,3\n0,1\n", {.format = "csv"}, ":2: expected 2 columns, found 3"},
    {"an open quote", "1,2\n0,\"2\n0,1\n", {.format = "csv"}, ":2: a quote is not closed"},
    {"infinite", "1,2\n0,inf\n0,1\n", {0}, ":2: column '2': expected a number, found 'inf'"},
    {"too large", "1,2\n0,1e39\n0,1\n", {0}, "too large"},
    {"a text by --numeric",
     "1,2\n0,two\n0,1\n",
     {.numeric = "2"},
     "expected a number, found 'two'"},
    {"hexadecimal", "1,2\n0,0x10\n0,1\n", {.numeric = "2"}, "found '0x10'"},
    {"no label", "1,2\n,3\n0,1\n", {0}, ":2: the label is missing"},
    {"a label in Latin-1",
     "y,a\ncaf\xe9,2\nth,3\n",
     {0},
     ":2: the label 'caf?' is not UTF-8: convert"},
    {"a name in Latin-1", "y,\xe9t\xe9\n1,2\n0,3\n", {0}, "column 2, '?t?', is not UTF-8"},
    {"a third label", "1,2\n0,3\n2,1\n", {0}, ":3: '2' is a third label"},
    {"a text label for numbers",
     "1,2\nx,3\n",
     {.task = PS_TASK_VALUE, .header = PS_CHOICE_NO},
     ":2: expected a number as label, found 'x'"},
    {"an unknown column", "1,2\n0,3\n", {.label = "age"}, "--label: no column is called 'age'"},
    {"a column that is too far",
     "1,2\n0,3\n",
     {.ignore = "3"},
     "--ignore: no column is called '3'"},
    {"a column by two flags", "1,2,3\n0,3,4\n", {.numeric = "2", .ignore = "2"}, "by two flags"},
    {"twice the same name", "x,x,y\n1,2,0\n", {0}, "both called 'x'"},
    {"a header or not", "a,b\nc,d\n", {0}, "say so by --header yes or --header no"},
    {"a header behind a blank line",
     "\nlabel,x\n1,2\n0,3\n",
     {.format = "csv"},
     "a header has to be the first line, here it is line 2"},
    {"a header by flag behind a blank line",
     "\nlabel,x\n1,2\n0,3\n",
     {.header = PS_CHOICE_YES},
     "a header has to be the first line, here it is line 2"},
    {"two labels", "label,class,x\n1,2,3\n", {0}, "several columns are named like a label"},
    {"a constant label", "1,2\n1,3\n", {0}, "all labels are '1'"},
    {"a base for a table",
     "1,2\n0,3\n",
     {.zero_based = PS_CHOICE_NO},
     "--index-base has no meaning"},
    {"one column", "1\n2\n", {.format = "csv"}, "expected 2 to 16384 columns, found 1"},
    {"commas and tabs", "1,2\t3\n0,2\t3\n", {0}, "look like csv and like tsv: say which"},
};

START_TEST(a_lie_is_refused_with_its_reason)
{
    put("file", lies[_i].text);
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct rig rig = {.mem = &mem, .learn = lies[_i].learn, .part_bytes = 5};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_msg(strstr(err.text, lies[_i].words) != NULL, "%s: '%s'", lies[_i].name, err.text);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

START_TEST(a_promised_number_is_looked_for_before_training)
{
    put("file", "0,1,7\n1,x,x\n0,,inf\n1,2,7\n");
    struct rig rig = {.learn = {.format = "csv", .numeric = "2"}, .reading = {.max_bad_rows = 9}};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "file:2: column '2': expected a number, found 'x'"));
    rig.learn.max_bad_rows = 1;
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_OK);
    ck_assert_uint_eq(result.rows.n_rows, 2); /* Infinity is neither a number nor missing. */
    ck_assert_msg(strstr(result.said, ", 1 cells missing; 3 rows") != NULL, "%s", result.said);
    rig_forget(&result);
}
END_TEST

START_TEST(bad_lines_can_be_skipped_and_are_counted)
{
    put("file", "1,2\n0,2,3\n0,\"4\n1,7\n0,8\n");
    struct rig rig = {.learn = {.format = "csv", .standardize = PS_CHOICE_NO}};
    struct rig_result result;
    struct ps_error err = {0};
    char text[RIG_TEXT_BYTES];
    rig.learn.max_bad_rows = 1; /* Learning counts those that reading will skip. */
    rig.reading.max_bad_rows = 2;
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "file:3: a quote"));
    rig.learn.max_bad_rows = 2;
    rig.reading.max_bad_rows = 1;
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "file:3: a quote"));
    rig.reading.max_bad_rows = 2;
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_OK);
    ck_assert_str_eq(rig_text(&result.rows, true, text), "1 1:2\n1 1:7\n0 1:8\n");
    ck_assert_uint_eq(result.counts.n_bad, 2);
    ck_assert_ptr_nonnull(strstr(result.bad, "file:2: expected 2 columns, found 3"));
    ck_assert_uint_eq(result.rows.lines[1], 4);
    rig_forget(&result);
}
END_TEST

/* Mean 20, deviation 10: learnt from one file, used for another. */
START_TEST(numbers_are_standardised_by_the_training_data)
{
    put("file", "1,10,5\n0,30,5\n1,,5\n");
    put("other", "0,40,6\n");
    struct rig rig = {.learn_from = path};
    struct rig_result result;
    char text[RIG_TEXT_BYTES];
    ck_assert_int_eq(rig_read(&rig, other, &result, NULL), PS_OK);
    ck_assert_str_eq(rig_text(&result.rows, true, text), "0 1:2\n"); /* Column 2 never changed. */
    rig_forget(&result);
}
END_TEST

START_TEST(a_missing_number_is_a_key_of_its_own)
{
    put("file", "1,5,a\n0,?,\n1,6,a\n");
    struct rig rig = {0};
    struct rig_result result;
    ck_assert_int_eq(rig_read(&rig, path, &result, NULL), PS_OK);
    const uint64_t *keys = result.rows.keys;
    ck_assert_uint_eq(ps_rows_features(&result.rows), 6);
    ck_assert_uint_eq(keys[0], keys[4]);
    ck_assert_uint_ne(keys[0], keys[2]);
    ck_assert_uint_ne(keys[1], keys[3]);
    ck_assert_uint_ne(keys[2], keys[3]);
    rig_forget(&result);
}
END_TEST

START_TEST(a_label_in_two_spellings_is_one)
{
    put("file", "39, State-gov, <=50K\n50, ?, >50K\n38, Private, <=50K");
    put("other", "40, State-gov, >50K.\n50, ?, <=50K.\n");
    struct rig rig = {.learn = {.label = "3", .standardize = PS_CHOICE_NO}, .learn_from = path};
    struct rig_result train;
    struct rig_result test;
    struct ps_error err = {0};
    char text[RIG_TEXT_BYTES];
    ck_assert_int_eq(rig_read(&rig, path, &train, &err), PS_OK);
    ck_assert_ptr_nonnull(strstr(train.said, "label <=50K is 0, >50K is 1"));
    ck_assert_uint_eq(train.counts.n_missing, 1);
    ck_assert_msg(strstr(train.said, "0 ignored, 1 cells missing; ") != NULL, "%s", train.said);
    ck_assert_msg(rig_read(&rig, other, &test, &err) == PS_OK, "%s", err.text);
    ck_assert_str_eq(rig_text(&test.rows, true, text), "1 0:40 1:1\n0 0:50 1:1\n");
    /* The same text and the same missing mark have the same key in both. */
    ck_assert_uint_eq(train.rows.keys[1], test.rows.keys[1]);
    ck_assert_uint_eq(train.rows.keys[3], test.rows.keys[3]);
    ck_assert_uint_ne(train.rows.keys[1], train.rows.keys[3]);
    rig_forget(&train);
    rig_forget(&test);
}
END_TEST

START_TEST(columns_are_found_by_name_and_the_label_may_be_absent)
{
    put("file", "id,age,city,label\n1,10,Ulm,1\n2,20,Gent,0\n");
    struct rig rig = {.learn = {.ignore = "id", .standardize = PS_CHOICE_NO}, .learn_from = path};
    struct rig_result train;
    struct rig_result test;
    struct ps_error err = {0};
    char text[RIG_TEXT_BYTES];
    ck_assert_int_eq(rig_read(&rig, path, &train, &err), PS_OK);
    put("other", "label,new,city,age\n1,x,Ulm,10\n0,y,Gent,20\n");
    for (rig.part_bytes = 0; rig.part_bytes < 40; rig.part_bytes++) {
        ck_assert_msg(rig_read(&rig, other, &test, &err) == PS_OK, "%s", err.text);
        ck_assert_str_eq(rig_text(&test.rows, true, text), "1 2:1 1:10\n0 2:1 1:20\n");
        ck_assert_uint_eq(test.rows.keys[0], train.rows.keys[1]);
        rig_forget(&test);
    }
    put("other", "city,age\nUlm,10\n");
    ck_assert_int_eq(rig_read(&rig, other, &test, &err), PS_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "other:1: expected a header with the columns of the training "
                                   "data, but there is no 'label'") != NULL,
                  "%s", err.text);
    rig.reading.label_optional = true;
    ck_assert_int_eq(rig_read(&rig, other, &test, &err), PS_OK);
    ck_assert_str_eq(rig_text(&test.rows, true, text), "nan 2:1 1:10\n");
    rig_forget(&test);
    put("other", "age,age,city\n1,2,Ulm\n");
    ck_assert_int_eq(rig_read(&rig, other, &test, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "found twice 'age'"));
    rig_forget(&train);
}
END_TEST

START_TEST(every_file_of_a_folder_has_the_header)
{
    put("file", "x,city,label\n1,Ulm,1\n");
    put("other", "x,city,label\n2,Gent,0\n3,Ulm,1");
    temp_folder_put_gzip(&folder, "packed", (const uint8_t *)"x,city,label\n4,Ulm,0\n", 21);
    struct rig rig = {.learn = {.standardize = PS_CHOICE_NO}};
    struct rig_result result;
    struct ps_error err = {0};
    char text[RIG_TEXT_BYTES];
    for (rig.part_bytes = 1; rig.part_bytes < 40; rig.part_bytes++) {
        ck_assert_msg(rig_read(&rig, folder.path, &result, &err) == PS_OK, "%s", err.text);
        ck_assert_str_eq(rig_text(&result.rows, true, text),
                         "1 0:1 1:1\n0 0:2 1:1\n1 0:3 1:1\n0 0:4 1:1\n");
        rig_forget(&result);
    }
    put("other", "city,x,label\nGent,2,0\n");
    ck_assert_int_eq(rig_read(&rig, folder.path, &result, &err), PS_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "other:1: expected a header with the columns of 'file'") != NULL,
                  "%s", err.text);
}
END_TEST

static const char *const steady[] = {"1 1:0.5 3:2\n0 2:1 9:1\n", "x,label\n0.5,1\nred,0\n",
                                     "x\tlabel\n0.5\t1\n0.7\t0\n"};

START_TEST(from_the_second_part_on_nothing_is_allocated)
{
    put("file", steady[_i]);
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_learn_options learn = {.mem = &mem};
    struct ps_reading_options options = {.mem = &mem};
    struct ps_source *source = NULL;
    struct ps_description *description = NULL;
    struct ps_reading *reading = NULL;
    struct ps_rows rows;
    uint64_t n_calls = 0;
    ps_rows_init(&rows, &mem);
    ck_assert_int_eq(ps_source_open(&mem, path, &source, NULL), PS_OK);
    ck_assert_int_eq(ps_learn(source, &learn, &description, NULL), PS_OK);
    ck_assert_int_eq(ps_reading_open(source, description, &options, &reading, NULL), PS_OK);
    for (int i = 0; i < 5; i++) {
        size_t n = 0;
        ps_rows_clear(&rows);
        ck_assert_int_eq(ps_reading_start(reading, ps_source_whole(source, 0), NULL), PS_OK);
        ck_assert_int_eq(ps_reading_next(reading, 10, &rows, &n, NULL), PS_OK);
        ck_assert_uint_eq(n, 2);
        ck_assert(i == 0 || mem.n_calls == n_calls);
        n_calls = mem.n_calls;
    }
    ps_rows_deinit(&rows);
    ps_reading_close(reading);
    ps_description_destroy(description);
    ps_source_close(source);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

START_TEST(without_a_header_a_missing_label_column_shifts_the_others)
{
    put("file", "10,1,Ulm\n20,0,Gent\n");
    put("other", "10,Ulm\n20,Gent\n");
    struct rig rig = {.learn = {.label = "2", .standardize = PS_CHOICE_NO},
                      .reading = {.label_optional = true},
                      .learn_from = path};
    struct rig_result train;
    struct rig_result test;
    ck_assert_int_eq(rig_read(&rig, path, &train, NULL), PS_OK);
    ck_assert_int_eq(rig_read(&rig, other, &test, NULL), PS_OK);
    ck_assert_uint_eq(test.rows.n_rows, 2);
    ck_assert(isnan(test.rows.labels[0]));
    ck_assert_mem_eq(train.rows.keys, test.rows.keys, 4 * sizeof(*train.rows.keys));
    ck_assert_mem_eq(train.rows.values, test.rows.values, 4 * sizeof(*train.rows.values));
    rig_forget(&train);
    rig_forget(&test);
}
END_TEST

START_TEST(keys_of_columns_and_texts_are_distinct)
{
    uint64_t keys[3 * 40];
    size_t n = 0;
    for (uint32_t column = 0; column < 40; column++) {
        keys[n++] = ps_cell_key(column, PS_CELL_NUMBER, NULL, 0);
        keys[n++] = ps_cell_key(column, PS_CELL_MISSING, NULL, 0);
        keys[n++] = ps_cell_key(column, PS_CELL_TEXT, "a", 1);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            ck_assert_uint_ne(keys[i], keys[j]);
        }
    }
    /* They are in saved models. */
    ck_assert_uint_eq(ps_cell_key(3, PS_CELL_TEXT, "Private", 7), GOLDEN_TEXT);
    ck_assert_uint_eq(ps_cell_key(3, PS_CELL_NUMBER, NULL, 0), GOLDEN_NUMBER);
}
END_TEST

/* 13 numbers, 26 categories. */
#define CATEGORIES                                            \
    "68fd1e64\t80e26c9b\t\t"                                  \
    "05db9164\ta\tb\tc\td\te\tf\t1\t2\t3\t4\t5\t6\t7\t8\t9\t" \
    "10\t11\t12\t13\t14\t15\t16"
#define NUMBERS "1\t-2\t\t0\t5\t6\t7\t8\t9\t10\t11\t12\t1382"

START_TEST(a_criteo_line_is_39_features)
{
    put("file", "1\t" NUMBERS "\t" CATEGORIES "\n0\t" NUMBERS "\t" CATEGORIES "\n");
    struct rig rig = {0};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_msg(rig_read(&rig, path, &result, &err) == PS_OK, "%s", err.text);
    ck_assert_ptr_nonnull(strstr(result.said, "criteo (lines are a label, 13 numbers"));
    ck_assert_uint_eq(result.rows.n_rows, 2);
    ck_assert_uint_eq(result.rows.begin[1], 37); /* -2 and 0 are 0. */
    ck_assert_uint_eq(result.counts.n_missing, 4);
    ck_assert_double_eq_tol((double)result.rows.values[0], 0.693147, 1e-6);
    ck_assert_uint_eq(result.rows.fields[1], 2);
    ck_assert_uint_eq(result.rows.fields[36], 38);
    ck_assert_double_eq((double)result.rows.labels[0], 1.0);
    rig_forget(&result);

    rig.reading.label_optional = true;
    rig.learn_from = path;
    put("other", NUMBERS "\t" CATEGORIES "\n");
    ck_assert_int_eq(rig_read(&rig, other, &result, &err), PS_OK);
    ck_assert(isnan(result.rows.labels[0]));
    rig_forget(&result);
}
END_TEST

static const struct {
    const char *line;
    const char *words;
} criteo_lies[] = {
    {"2\t" NUMBERS "\t" CATEGORIES, "label '2' is unknown"},
    {"x\t" NUMBERS "\t" CATEGORIES, "expected a label, 0 or 1, found 'x'"},
    {"1\t" NUMBERS "\t" CATEGORIES "\t", "found 41 cells"},
    {"1\t" NUMBERS, "found 14 cells"},
    {"1\tx" NUMBERS "\t" CATEGORIES, "number 1: expected a whole number, found 'x1'"},
    {"1\t" NUMBERS "\tg" CATEGORIES, "category 1: expected hexadecimal digits, found 'g68fd1e64'"},
};

START_TEST(a_bad_criteo_line_is_told)
{
    char text[1024];
    (void)snprintf(text, sizeof(text), "1\t" NUMBERS "\t" CATEGORIES "\n%s\n",
                   criteo_lies[_i].line);
    put("file", text);
    struct rig rig = {.learn = {.format = "criteo"}};
    struct rig_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(rig_read(&rig, path, &result, &err), PS_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "file:2: ") != NULL &&
                      strstr(err.text, criteo_lies[_i].words) != NULL,
                  "'%s'", err.text);
}
END_TEST

static const struct {
    const char *what; /* NULL: clicks, more than the first rows and features have room for. */
    size_t n_features;
} sweeps[] = {
    {"a,b,label\n1,x,yes\n2,y,no\n?,x,no\n", 6},
    {NULL, 100ull * 37},
};

START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    static const char click[] = "1\t" NUMBERS "\t" CATEGORIES "\n";
    static char clicks[100 * sizeof(click)];
    for (size_t i = 0; i < 100; i++) {
        memcpy(clicks + i * (sizeof(click) - 1), click, sizeof(click));
    }
    put("file", sweeps[_i].what != NULL ? sweeps[_i].what : clicks);
    enum ps_status status = PS_ERR_NOMEM;
    int64_t k = 0;
    for (; status != PS_OK && k < 300; k++) {
        struct ps_mem mem;
        struct rig_result result;
        ps_mem_init(&mem);
        mem.fail_after = k;
        struct rig rig = {.mem = &mem};
        status = rig_read(&rig, path, &result, NULL);
        ck_assert_msg(status == PS_OK || status == PS_ERR_NOMEM, "k %d: %d", (int)k, (int)status);
        if (status == PS_OK) {
            ck_assert_uint_eq(ps_rows_features(&result.rows), sweeps[_i].n_features);
            rig_forget(&result);
        }
        ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(k, 20);
}
END_TEST

Suite *suite_csv(void)
{
    Suite *suite = suite_create("csv");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_line_has_its_cells, 0, (int)PS_ARRAY_LEN(lines));
    tcase_add_loop_test(tcase, rows_are_what_the_text_says_wherever_it_is_cut, 0,
                        (int)PS_ARRAY_LEN(goods));
    tcase_add_loop_test(tcase, a_lie_is_refused_with_its_reason, 0, (int)PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, a_promised_number_is_looked_for_before_training);
    tcase_add_test(tcase, bad_lines_can_be_skipped_and_are_counted);
    tcase_add_test(tcase, numbers_are_standardised_by_the_training_data);
    tcase_add_test(tcase, a_missing_number_is_a_key_of_its_own);
    tcase_add_test(tcase, a_label_in_two_spellings_is_one);
    tcase_add_test(tcase, columns_are_found_by_name_and_the_label_may_be_absent);
    tcase_add_test(tcase, every_file_of_a_folder_has_the_header);
    tcase_add_loop_test(tcase, from_the_second_part_on_nothing_is_allocated, 0,
                        (int)PS_ARRAY_LEN(steady));
    tcase_add_test(tcase, without_a_header_a_missing_label_column_shifts_the_others);
    tcase_add_test(tcase, keys_of_columns_and_texts_are_distinct);
    tcase_add_test(tcase, a_criteo_line_is_39_features);
    tcase_add_loop_test(tcase, a_bad_criteo_line_is_told, 0, (int)PS_ARRAY_LEN(criteo_lies));
    tcase_add_loop_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing, 0,
                        (int)PS_ARRAY_LEN(sweeps));
    suite_add_tcase(suite, tcase);
    return suite;
}
