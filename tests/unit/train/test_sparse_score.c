/*
 * test_sparse_score.c — predictions line up with lines, do not depend on the cut, and are judged.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "lib/test_main.h"
#include "train/sparse_score.h"
#include "unit/data/temp_folder.h"
#include "unit/train/memory_rows.h"
#include "unit/train/setup_rig.h"
#include "unit/train/suites.h"

#define OUT_MAX 64

static struct temp_folder folder;
static struct memory_rows memory;
static struct ps_setup *setup;
static struct ps_source *source;

/* What came out. */
struct seen {
    size_t n;
    uint64_t lines[OUT_MAX];
    uint32_t files[OUT_MAX];
    float outputs[OUT_MAX];
    bool labelled[OUT_MAX];
    size_t n_calls;
    size_t n_end; /* Say no at this call. */
};

static struct seen seen;

static enum ps_status note(void *arg, const struct ps_sparse_scored *scored, struct ps_error *err)
{
    struct seen *to = arg;
    if (++to->n_calls == to->n_end) {
        return ps_fail(err, PS_ERR_IO, "enough");
    }
    for (size_t row = 0; row < scored->n_rows; row++, to->n++) {
        to->lines[to->n] = scored->lines[row];
        to->files[to->n] = scored->file;
        to->outputs[to->n] = scored->outputs[row * scored->n_outputs];
        to->labelled[to->n] = !isnan(scored->labels[row]);
    }
    return PS_OK;
}

static void make(void)
{
    temp_folder_make(&folder);
    seen = (struct seen){0};
}

static void remove_all(void)
{
    ps_source_close(source);
    source = NULL;
    ps_setup_destroy(setup);
    setup = NULL;
    memory_rows_deinit(&memory);
    temp_folder_remove(&folder);
}

static void put(const char *name, const char *text)
{
    temp_folder_put(&folder, name, (const uint8_t *)text, strlen(text));
}

/* A model in which key k (index k + 1) weighs k + 1, and nothing else does anything. */
static void open_all(const char *text)
{
    setup = setup_of(text);
    memory_rows_init(&memory, setup->model);
    for (uint64_t key = 0; key < 9; key++) {
        for (uint32_t t = 0; t < setup->model->n_sparse; t++) {
            memory_rows_add(&memory, t, key)[0] = (float)(key + 1);
        }
    }
    memory.dense[0][0] = 0.0f;
    ck_assert_int_eq(ps_source_open(NULL, folder.path, &source, NULL), PS_OK);
}

static enum ps_status score(struct ps_sparse_score_options options,
                            struct ps_sparse_score_result *ret, struct ps_error *err)
{
    options.rows = note;
    options.arg = &seen;
    return ps_sparse_score(setup, &memory.source, source, &options, ret, err);
}

START_TEST(predictions_line_up_with_lines_for_every_batch)
{
    static const uint32_t batches[] = {0, 1, 2, 5, 1000};
    struct ps_sparse_score_result result;
    struct ps_error err = {0};
    put("a.libsvm", "1 1:0.5\n\n-1 2:0.25\n# none\n1\n");
    put("b.libsvm", "-1 1:-1 7:0.125\n1 9:1");
    open_all(setup_cases[0].text);
    static const float scores[] = {0.5f, 0.5f, 0.0f, -0.125f, 9.0f};
    for (size_t b = 0; b < PS_ARRAY_LEN(batches); b++) {
        seen = (struct seen){0};
        struct ps_sparse_score_options options = {.batch_rows = batches[b]};
        ck_assert_msg(score(options, &result, &err) == PS_OK, "%s", err.text);
        ck_assert_uint_eq(seen.n, 5);
        ck_assert_mem_eq(seen.lines, ((uint64_t[]){1, 3, 5, 1, 2}), 5 * sizeof(uint64_t));
        ck_assert_mem_eq(seen.files, ((uint32_t[]){0, 0, 0, 1, 1}), 5 * sizeof(uint32_t));
        for (size_t i = 0; i < 5; i++) {
            double p = 1.0 / (1.0 + exp(-(double)scores[i]));
            ck_assert_double_eq_tol((double)seen.outputs[i], p, 1e-7);
        }
        ck_assert_uint_eq(result.metrics.n_rows, 5);
        ck_assert_double_eq_tol(result.metrics.accuracy, 0.6, 1e-12);
        ck_assert_double_eq_tol(result.loss, result.metrics.log_loss, 1e-12);
        ck_assert_uint_eq(result.counts.n_rows, 5);
        ck_assert_uint_eq(result.n_between, 2);
    }
}
END_TEST

START_TEST(equal_rows_get_equal_bits_in_every_cut)
{
    struct ps_sparse_score_result result;
    char text[OUT_MAX * 40] = "";
    for (int i = 0; i < OUT_MAX; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used, "1 %d:%g 8:0.3\n", 1 + i % 7,
                       0.1 * (double)(i + 1));
    }
    put("a.libsvm", text);
    open_all(SETUP_TEXT("fm", "3", "", "0", SETUP_LIBSVM));
    float whole[OUT_MAX];
    for (uint32_t batch = OUT_MAX; batch > 0; batch--) {
        seen = (struct seen){0};
        struct ps_sparse_score_options options = {.batch_rows = batch};
        ck_assert_int_eq(score(options, &result, NULL), PS_OK);
        ck_assert_uint_eq(seen.n, OUT_MAX);
        if (batch == OUT_MAX) {
            memcpy(whole, seen.outputs, sizeof(whole));
        }
        ck_assert_mem_eq(seen.outputs, whole, sizeof(whole));
    }
}
END_TEST

START_TEST(rows_without_a_label_are_predicted_and_not_judged)
{
    struct ps_sparse_score_result result;
    struct ps_error err = {0};
    put("a.libsvm", "1 1:1\n1:1\n7 1:1\n-1 1:1\n");
    open_all(setup_cases[0].text);
    struct ps_sparse_score_options options = {.label_optional = true};
    ck_assert_msg(score(options, &result, &err) == PS_OK, "%s", err.text);
    ck_assert_uint_eq(seen.n, 4);
    ck_assert(seen.labelled[0] && !seen.labelled[1] && !seen.labelled[2] && seen.labelled[3]);
    ck_assert_uint_eq(result.n_unlabelled, 2);
    ck_assert_uint_eq(result.metrics.n_rows, 2);
    ck_assert_double_eq_tol(result.metrics.accuracy, 0.5, 1e-12);
    seen = (struct seen){0};
    ck_assert_int_eq(score((struct ps_sparse_score_options){0}, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "a.libsvm:2: "));
}
END_TEST

START_TEST(bad_lines_are_skipped_up_to_a_number_and_named)
{
    struct ps_sparse_score_result result;
    struct ps_error err = {0};
    put("a.libsvm", "1 1:1\n1 x\n-1 2:1\n1 1:2:3\n1 3:1\n");
    open_all(setup_cases[0].text);
    struct ps_sparse_score_options options = {.max_bad_rows = 2};
    ck_assert_int_eq(score(options, &result, NULL), PS_OK);
    ck_assert_uint_eq(seen.n, 3);
    ck_assert_mem_eq(seen.lines, ((uint64_t[]){1, 3, 5}), 3 * sizeof(uint64_t));
    ck_assert_uint_eq(result.counts.n_bad, 2);
    ck_assert_ptr_nonnull(strstr(result.bad[0], "a.libsvm:2: "));
    ck_assert_ptr_nonnull(strstr(result.bad[1], "a.libsvm:4: "));
    ck_assert_str_eq(result.bad[2], "");
    options.max_bad_rows = 1;
    ck_assert_int_eq(score(options, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "a.libsvm:4: "));
}
END_TEST

START_TEST(a_row_that_the_model_cannot_read_is_named_by_its_line)
{
    struct ps_sparse_score_result result;
    struct ps_error err = {0};
    put("a.libsvm", "3.5 1:1 4:1\n\n4 1:1 2:1 3:1\n");
    open_all(setup_cases[5].text);
    ck_assert_int_eq(score((struct ps_sparse_score_options){0}, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "a.libsvm:3: mf needs a user and an item"));
}
END_TEST

START_TEST(values_are_judged_by_their_squares)
{
    struct ps_sparse_score_result result;
    put("a.libsvm", "3.53 1:0\n5.53 2:1\n0.53 3:1\n");
    open_all(setup_cases[4].text);
    ck_assert_int_eq(score((struct ps_sparse_score_options){0}, &result, NULL), PS_OK);
    /* Predicted 3.53, 5.53, 6.53. */
    ck_assert_double_eq_tol(result.metrics.rmse, sqrt(36.0 / 3.0), 1e-6);
    ck_assert_double_eq_tol(result.loss, 6.0, 1e-5);
    ck_assert(isnan(result.metrics.accuracy) && isnan(result.metrics.auc));
}
END_TEST

START_TEST(the_caller_may_end_it_and_no_rows_are_no_error)
{
    struct ps_sparse_score_result result;
    struct ps_error err = {0};
    put("a.libsvm", "\n# nothing\n");
    open_all(setup_cases[0].text);
    ck_assert_int_eq(score((struct ps_sparse_score_options){0}, &result, &err), PS_OK);
    ck_assert_uint_eq(result.metrics.n_rows, 0);
    ck_assert_uint_eq(seen.n_calls, 0);
    put("a.libsvm", "1 1:1\n1 1:1\n1 1:1\n");
    ps_source_close(source);
    ck_assert_int_eq(ps_source_open(NULL, folder.path, &source, NULL), PS_OK);
    seen.n_end = 2;
    struct ps_sparse_score_options options = {.batch_rows = 1};
    ck_assert_int_eq(score(options, &result, &err), PS_ERR_IO);
    ck_assert_str_eq(err.text, "enough");
    ck_assert_uint_eq(seen.n, 1);
}
END_TEST

START_TEST(no_refused_allocation_leaves_memory)
{
    struct ps_mem mem;
    struct ps_sparse_score_result result;
    put("a.libsvm", "1 1:1 4:1\n-1 2:1\n");
    open_all(SETUP_TEXT("fm", "3", "", "0", SETUP_LIBSVM));
    ps_mem_init(&mem);
    enum ps_status status = PS_ERR_NOMEM;
    for (int64_t n = 0; status == PS_ERR_NOMEM; n++) {
        mem.fail_after = n;
        struct ps_sparse_score_options options = {.mem = &mem};
        status = score(options, &result, NULL);
        ck_assert_uint_eq(mem.used[PS_MEM_OTHER] + mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

START_TEST(data_of_the_other_base_are_refused)
{
    struct ps_sparse_score_result result;
    struct ps_error err = {0};
    put("a.libsvm", "1 0:1\n-1 2:1\n");
    open_all(setup_cases[0].text);
    ck_assert_int_eq(score((struct ps_sparse_score_options){0}, &result, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "a.libsvm"));
}
END_TEST

Suite *suite_sparse_score(void)
{
    Suite *suite = suite_create("sparse_score");
    TCase *tc = tcase_create("sparse_score");
    tcase_add_checked_fixture(tc, make, remove_all);
    tcase_add_test(tc, predictions_line_up_with_lines_for_every_batch);
    tcase_add_test(tc, equal_rows_get_equal_bits_in_every_cut);
    tcase_add_test(tc, rows_without_a_label_are_predicted_and_not_judged);
    tcase_add_test(tc, bad_lines_are_skipped_up_to_a_number_and_named);
    tcase_add_test(tc, a_row_that_the_model_cannot_read_is_named_by_its_line);
    tcase_add_test(tc, values_are_judged_by_their_squares);
    tcase_add_test(tc, the_caller_may_end_it_and_no_rows_are_no_error);
    tcase_add_test(tc, no_refused_allocation_leaves_memory);
    tcase_add_test(tc, data_of_the_other_base_are_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
