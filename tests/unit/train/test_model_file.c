/*
 * test_model_file.c — models are saved from rows in any order and read back: every row, every first
 * weight; and files that lie.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "train/model_file.h"
#include "train/sparse_save.h"
#include "unit/data/temp_folder.h"
#include "unit/train/memory_rows.h"
#include "unit/train/setup_rig.h"
#include "unit/train/suites.h"

#define N_ROWS 3000u

static struct temp_folder folder;
static struct memory_rows memory;
static struct ps_setup *setup;

static void make(void)
{
    temp_folder_make(&folder);
}

static void remove_all(void)
{
    ps_setup_destroy(setup);
    setup = NULL;
    memory_rows_deinit(&memory);
    temp_folder_remove(&folder);
}

static uint64_t key_of(uint32_t i)
{
    return i == 0 ? 0 : i == 1 ? UINT64_MAX : ps_mix64(i);
}

static void fill(const char *text, uint32_t n)
{
    setup = setup_of(text);
    ck_assert_int_eq(ps_setup_seed(setup, 7, NULL), PS_OK);
    memory_rows_init(&memory, setup->model);
    for (uint32_t t = 0; t < setup->model->n_sparse; t++) {
        for (uint32_t i = 0; i < n; i++) {
            float *row = memory_rows_add(&memory, t, key_of(i));
            for (uint32_t j = 0; j < setup->model->sparse[t].width; j++) {
                row[j] = (float)(i + 1) + 0.125f * (float)j;
            }
        }
    }
}

static struct ps_model_file *save_and_open(void)
{
    char path[PS_SAVE_PATH_BYTES];
    struct ps_error err = {0};
    struct ps_model_file *file = NULL;
    ck_assert_msg(ps_sparse_save(setup, &memory.source, folder.path, path, &err) == PS_OK, "%s",
                  err.text);
    ck_assert_msg(ps_model_file_open(NULL, folder.path, &file, &err) == PS_OK, "%s", err.text);
    return file;
}

#define N_ASKED ((size_t)200)

static void check_keys(struct ps_model_file *file, uint32_t t, const uint64_t *keys)
{
    static float here[N_ASKED * 8];
    static float there[N_ASKED * 8];
    struct ps_row_source *rows = ps_model_file_rows(file);
    size_t n_bytes = N_ASKED * setup->model->sparse[t].width * sizeof(float);
    ck_assert_uint_le(n_bytes, sizeof(here));
    ck_assert_int_eq(ps_row_source_fetch(rows, t, keys, N_ASKED, here, NULL), PS_OK);
    ck_assert_int_eq(ps_row_source_fetch(&memory.source, t, keys, N_ASKED, there, NULL), PS_OK);
    ck_assert_mem_eq(here, there, n_bytes);
}

static void check_table(struct ps_model_file *file, uint32_t t)
{
    const struct ps_model_rows *table = ps_model_file_table(file, t);
    uint64_t keys[N_ASKED];
    for (size_t i = 0; i < N_ASKED; i++) {
        keys[i] = i * (UINT64_MAX / 250);
    }
    keys[N_ASKED - 1] = UINT64_MAX;
    check_keys(file, t, keys);
    if (table->n >= N_ASKED) {
        for (size_t i = 0; i < N_ASKED; i++) {
            keys[i] = ps_load_u64(table->keys + i * table->n / N_ASKED * sizeof(uint64_t));
        }
        check_keys(file, t, keys);
    }
}

/* Both sources say the same about keys that have a row, keys that have none, dense tables. */
static void check_equal(struct ps_model_file *file)
{
    const struct ps_sparse_model *model = setup->model;
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        check_table(file, t);
    }
    for (uint32_t t = 0; t < model->n_dense; t++) {
        float *values = malloc(model->dense[t].n_values * sizeof(float));
        ck_assert_ptr_nonnull(values);
        ck_assert_int_eq(ps_row_source_dense(ps_model_file_rows(file), t, values, NULL), PS_OK);
        ck_assert_mem_eq(values, memory.dense[t], model->dense[t].n_values * sizeof(float));
        free(values);
    }
}

START_TEST(what_is_saved_is_read_back)
{
    fill(setup_cases[_i].text, N_ROWS);
    struct ps_model_file *file = save_and_open();
    char *text = NULL;
    ck_assert_int_eq(ps_setup_write(ps_model_file_setup(file), &text, NULL), PS_OK);
    ck_assert_str_eq(text, setup_cases[_i].text);
    for (uint32_t t = 0; t < setup->model->n_sparse; t++) {
        ck_assert_uint_eq(ps_model_file_table(file, t)->n, N_ROWS);
        ck_assert_uint_eq(ps_model_file_table(file, t)->number, 3 + t);
    }
    check_equal(file);
    ps_mem_free(text);
    ps_model_file_close(file);
}
END_TEST

START_TEST(rows_of_many_runs_are_merged)
{
    static const uint32_t at_once[] = {1, 7, 700, N_ROWS - 1};
    fill(setup_cases[1].text, N_ROWS);
    for (size_t i = 0; i < PS_ARRAY_LEN(at_once); i++) {
        memory.n_at_once = at_once[i];
        struct ps_model_file *file = save_and_open();
        ck_assert_uint_eq(ps_model_file_table(file, 1)->n, N_ROWS);
        check_equal(file);
        ps_model_file_close(file);
    }
}
END_TEST

START_TEST(a_model_without_rows_is_a_model)
{
    fill(setup_cases[1].text, 0);
    struct ps_model_file *file = save_and_open();
    ck_assert_uint_eq(ps_model_file_table(file, 0)->n, 0);
    check_equal(file);
    ps_model_file_close(file);
}
END_TEST

START_TEST(rows_that_moved_or_came_twice_are_there_once_as_they_came_last)
{
    fill(setup_cases[1].text, N_ROWS);
    memory.n_late = 2;
    memory.walks_twice = true;
    memory.n_at_once = _i == 0 ? 0 : 900;
    struct ps_model_file *file = save_and_open();
    ck_assert_uint_eq(memory.n_late, 0);
    ck_assert_uint_eq(ps_model_file_table(file, 0)->n, N_ROWS);
    check_equal(file);
    ps_model_file_close(file);
}
END_TEST

START_TEST(rows_that_move_for_ever_are_an_error_and_leave_no_file)
{
    char path[PS_SAVE_PATH_BYTES];
    struct ps_error err = {0};
    fill(setup_cases[1].text, 10);
    memory.n_late = 100;
    ck_assert_int_eq(ps_sparse_save(setup, &memory.source, folder.path, path, &err), PS_ERR_LATE);
    ck_assert_str_eq(err.text, "rows have moved");
}
END_TEST

START_TEST(zeros_are_left_out_where_rows_begin_at_zero_and_nowhere_else)
{
    fill(setup_cases[1].text, 0);
    for (uint64_t key = 0; key < 10; key++) {
        (void)memory_rows_add(&memory, 0, key); /* fm.weight begins at 0, */
        (void)memory_rows_add(&memory, 1, key); /* fm.factor does not. */
    }
    memory_rows_add(&memory, 0, 10)[0] = 1.0f;
    struct ps_model_file *file = save_and_open();
    ck_assert_uint_eq(ps_model_file_table(file, 0)->n, 1);
    ck_assert_uint_eq(ps_model_file_table(file, 1)->n, 10);
    check_equal(file);
    ps_model_file_close(file);
}
END_TEST

START_TEST(a_model_that_diverged_does_not_replace_a_good_one)
{
    char path[PS_SAVE_PATH_BYTES];
    struct ps_error err = {0};
    fill(setup_cases[1].text, 10);
    ps_model_file_close(save_and_open());
    if (_i == 0) {
        memory_rows_add(&memory, 1, 77)[2] = NAN;
    } else {
        memory.dense[0][0] = INFINITY;
    }
    ck_assert_int_eq(ps_sparse_save(setup, &memory.source, folder.path, path, &err),
                     PS_ERR_DIVERGED);
    ck_assert_msg(strstr(err.text, _i == 0 ? "fm.factor" : "fm.bias") != NULL, "%s", err.text);
    struct ps_model_file *file = NULL;
    ck_assert_int_eq(ps_model_file_open(NULL, folder.path, &file, NULL), PS_OK);
    ck_assert_uint_eq(ps_model_file_table(file, 1)->n, 10);
    ps_model_file_close(file);
}
END_TEST

START_TEST(no_refused_allocation_leaves_a_file_or_memory)
{
    struct ps_mem mem;
    char path[PS_SAVE_PATH_BYTES];
    struct ps_model_file *file = NULL;
    fill(setup_cases[1].text, 50);
    enum ps_status status = PS_ERR_NOMEM;
    ps_mem_init(&mem);
    setup->mem = &mem;
    for (int64_t n = 0; status == PS_ERR_NOMEM; n++) {
        mem.fail_after = n;
        status = ps_sparse_save(setup, &memory.source, folder.path, path, NULL);
        ck_assert(status == PS_OK || ps_model_file_open(NULL, folder.path, &file, NULL) != PS_OK);
        ck_assert_uint_eq(mem.used[PS_MEM_OTHER], 0);
    }
    ck_assert_int_eq(status, PS_OK);
    for (status = PS_ERR_NOMEM; status == PS_ERR_NOMEM;) {
        static int64_t n;
        mem.fail_after = n++;
        status = ps_model_file_open(&mem, folder.path, &file, NULL);
        ck_assert(status == PS_OK || mem.used[PS_MEM_OTHER] == 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ps_model_file_close(file);
    setup->mem = NULL;
}
END_TEST

/* ---- Lies ---------------------------------------------------------------------------------- */

static uint8_t *read_whole(size_t *ret_n)
{
    char path[PS_SAVE_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/model.safetensors", folder.path);
    FILE *from = fopen(path, "rb");
    ck_assert_ptr_nonnull(from);
    uint8_t *bytes = malloc(1 << 20);
    ck_assert_ptr_nonnull(bytes);
    *ret_n = fread(bytes, 1, 1 << 20, from);
    (void)fclose(from);
    return bytes;
}

static enum ps_status read_bytes(const uint8_t *bytes, size_t n, struct ps_error *err)
{
    struct ps_model_file *file = NULL;
    enum ps_status status = ps_model_file_read(NULL, bytes, n, &file, err);
    ps_model_file_close(file);
    return status;
}

/* Change one text of the header into another of its length. */
static const struct {
    const char *from;
    const char *to;
    const char *says;
} lies[] = {
    {"\"setup\"", "\"sETup\"", "no model of text"},
    {"\"rows\"", "\"rOWs\"", "how its rows begin"},
    {"fm.weight.keys", "fm.weight.kEys", "no tensor 'fm.weight.keys'"},
    {"fm.factor.rows", "fm.factor.rOws", "no tensor 'fm.factor.rows'"},
    {"fm.bias\"", "fm.bIas\"", "no tensor 'fm.bias'"},
    {"\\\"rank\\\":3", "\\\"rank\\\":4", "no tensor 'fm.factor.rows'"},
    {"\\\"normal\\\"", "\\\"normol\\\"", "fm.factor begin is damaged"},
    {"\\\"table\\\":4", "\\\"table\\\":x", "begin is damaged"},
    {"\\\"seed\\\":\\\"7", "\\\"seed\\\":\\\"x", "begin is damaged"},
};

START_TEST(a_header_that_lies_is_refused)
{
    fill(setup_cases[1].text, 10);
    ps_model_file_close(save_and_open());
    size_t n = 0;
    uint8_t *bytes = read_whole(&n);
    struct ps_error err = {0};
    uint8_t *at = memmem(bytes, n, lies[_i].from, strlen(lies[_i].from));
    ck_assert_int_eq(read_bytes(bytes, n, NULL), PS_OK);
    ck_assert_ptr_nonnull(at);
    memcpy(at, lies[_i].to, strlen(lies[_i].to));
    ck_assert_int_ne(read_bytes(bytes, n, &err), PS_OK);
    ck_assert_msg(strstr(err.text, lies[_i].says) != NULL, "%s", err.text);
    free(bytes);
}
END_TEST

START_TEST(keys_that_do_not_ascend_are_refused)
{
    fill(setup_cases[0].text, 10);
    ps_model_file_close(save_and_open());
    size_t n = 0;
    uint8_t *bytes = read_whole(&n);
    struct ps_error err = {0};
    size_t keys = 8 + (size_t)ps_load_u64(bytes);
    ps_store_u64(bytes + keys + 40, ps_load_u64(bytes + keys + 32));
    ck_assert_int_eq(read_bytes(bytes, n, &err), PS_ERR_CORRUPT);
    ck_assert_str_eq(err.text, "keys of table logreg.weight do not ascend at place 5");
    free(bytes);
}
END_TEST

START_TEST(a_file_cut_anywhere_is_refused)
{
    fill(setup_cases[0].text, 10);
    ps_model_file_close(save_and_open());
    size_t n = 0;
    uint8_t *bytes = read_whole(&n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_ne(read_bytes(bytes, i, NULL), PS_OK);
    }
    free(bytes);
}
END_TEST

START_TEST(a_folder_without_a_model_is_named)
{
    struct ps_model_file *file = NULL;
    struct ps_error err = {0};
    fill(setup_cases[0].text, 1);
    ck_assert_int_eq(ps_model_file_open(NULL, folder.path, &file, &err), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/model.safetensors': No such file"));
}
END_TEST

Suite *suite_model_file(void)
{
    Suite *suite = suite_create("model_file");
    TCase *tc = tcase_create("model_file");
    tcase_add_checked_fixture(tc, make, remove_all);
    tcase_add_loop_test(tc, what_is_saved_is_read_back, 0, SETUP_CASES);
    tcase_add_test(tc, a_model_without_rows_is_a_model);
    tcase_add_loop_test(tc, rows_that_moved_or_came_twice_are_there_once_as_they_came_last, 0, 2);
    tcase_add_test(tc, rows_of_many_runs_are_merged);
    tcase_add_test(tc, rows_that_move_for_ever_are_an_error_and_leave_no_file);
    tcase_add_test(tc, zeros_are_left_out_where_rows_begin_at_zero_and_nowhere_else);
    tcase_add_loop_test(tc, a_model_that_diverged_does_not_replace_a_good_one, 0, 2);
    tcase_add_test(tc, no_refused_allocation_leaves_a_file_or_memory);
    tcase_add_loop_test(tc, a_header_that_lies_is_refused, 0, (int)PS_ARRAY_LEN(lies));
    tcase_add_test(tc, keys_that_do_not_ascend_are_refused);
    tcase_add_test(tc, a_file_cut_anywhere_is_refused);
    tcase_add_test(tc, a_folder_without_a_model_is_named);
    suite_add_tcase(suite, tc);
    return suite;
}
