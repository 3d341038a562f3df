/* test_setup.c — setups of every model go to JSON and back; what lies is refused. */
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "lib/test_main.h"
#include "unit/train/setup_rig.h"
#include "unit/train/suites.h"

START_TEST(a_setup_is_read_and_written_to_the_same_bytes)
{
    struct ps_setup *setup = setup_of(setup_cases[_i].text);
    char *text = NULL;
    ck_assert_str_eq(setup->kind->name, setup_cases[_i].name);
    ck_assert_int_eq(ps_setup_write(setup, &text, NULL), PS_OK);
    ck_assert_str_eq(text, setup_cases[_i].text);
    ps_mem_free(text);
    ps_setup_destroy(setup);
}
END_TEST

START_TEST(the_seed_is_no_part_of_the_text_but_of_the_model)
{
    struct ps_setup *setup = setup_of(setup_cases[1].text);
    char *text = NULL;
    ck_assert_uint_eq(setup->model->sparse[1].init.seed, 0);
    ck_assert_int_eq(ps_setup_seed(setup, 77, NULL), PS_OK);
    ck_assert_uint_eq(setup->model->sparse[1].init.seed, 77);
    ck_assert_int_eq(ps_setup_write(setup, &text, NULL), PS_OK);
    ck_assert_str_eq(text, setup_cases[1].text);
    ps_mem_free(text);
    ps_setup_destroy(setup);
}
END_TEST

START_TEST(the_columns_of_the_data_become_fields_of_the_model)
{
    struct ps_setup *setup = setup_of(setup_cases[2].text);
    ck_assert_uint_eq(setup->model->n_fields, 3);
    ck_assert_uint_eq(setup->model->dense[0].dims[0], 6); /* Fields times rank. */
    ck_assert_uint_eq(setup->model->dense[0].dims[1], 4);
    ps_setup_destroy(setup);
}
END_TEST

START_TEST(the_task_of_a_model_is_known_before_its_data)
{
    static const struct {
        const char *kind;
        bool regress;
        enum ps_task task;
    } rows[] = {
        {"logreg", false, PS_TASK_BINARY},    {"linear", false, PS_TASK_VALUE},
        {"softmax", false, PS_TASK_CLASSES},  {"fm", false, PS_TASK_BINARY},
        {"fm", true, PS_TASK_VALUE},          {"mf", false, PS_TASK_VALUE},
        {"wide-deep", false, PS_TASK_BINARY}, {"wide-deep", true, PS_TASK_VALUE},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        struct ps_sparse_model_params params = {.regress = rows[i].regress};
        enum ps_task task = PS_TASK_BINARY;
        ck_assert_int_eq(ps_setup_task(ps_sparse_model_find(rows[i].kind), &params, &task, NULL),
                         PS_OK);
        ck_assert_msg(task == rows[i].task, "%s", rows[i].kind);
    }
}
END_TEST

/* ---- Lies ---------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    enum ps_status status;
    const char *says;
} lies[] = {
    {"", PS_ERR_CORRUPT, "no JSON object"},
    {"[]", PS_ERR_CORRUPT, "no JSON object"},
    {"{}", PS_ERR_CORRUPT, "version and model"},
    {"{\"version\":2,\"model\":\"fm\"}", PS_ERR_UNSUPPORTED, "later version"},
    {SETUP_TEXT("gbdt", "0", "", "0", SETUP_LIBSVM), PS_ERR_UNSUPPORTED, "kind 'gbdt'"},
    {SETUP_TEXT("fm", "1025", "", "0", SETUP_LIBSVM), PS_ERR_CORRUPT, "rank"},
    {SETUP_TEXT("fm", "2.5", "", "0", SETUP_LIBSVM), PS_ERR_CORRUPT, "rank"},
    {SETUP_TEXT("fm", "-1", "", "0", SETUP_LIBSVM), PS_ERR_CORRUPT, "rank"},
    {SETUP_TEXT("fm", "1", "", "1e999", SETUP_LIBSVM), PS_ERR_CORRUPT, "offset"},
    {SETUP_TEXT("fm", "1", "", "\"0\"", SETUP_LIBSVM), PS_ERR_CORRUPT, "offset"},
    {SETUP_TEXT("wide-deep", "1", "0", "0", SETUP_CSV), PS_ERR_CORRUPT, "--hidden"},
    {SETUP_TEXT("wide-deep", "1", "1,2,3,4,5,6,7,8,9,1,1,1,1,1,1,1,1", "0", SETUP_CSV),
     PS_ERR_CORRUPT, "hidden"},
    {SETUP_TEXT("fm", "1", "", "0", "7"), PS_ERR_CORRUPT, "no data"},
    {SETUP_TEXT("fm", "1", "", "0", "{}"), PS_ERR_CORRUPT, "format and task"},
    {SETUP_TEXT("logreg", "0", "", "0", SETUP_VALUE), PS_ERR_CORRUPT, "not for labels"},
    {SETUP_TEXT("logreg", "0", "", "0", SETUP_CLASSES), PS_ERR_CORRUPT, "not for labels"},
    {SETUP_TEXT("linear", "0", "", "0", SETUP_LIBSVM), PS_ERR_CORRUPT, "not for labels"},
};

START_TEST(what_lies_is_refused)
{
    struct ps_setup *setup = NULL;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_setup_read(NULL, lies[_i].text, strlen(lies[_i].text), &setup, &err),
                     lies[_i].status);
    ck_assert_int_eq(err.status, lies[_i].status);
    ck_assert_msg(strstr(err.text, lies[_i].says) != NULL, "%s", err.text);
    ck_assert_ptr_null(setup);
}
END_TEST

START_TEST(every_prefix_is_refused)
{
    const char *text = setup_cases[2].text;
    for (size_t n = 0; n < strlen(text); n++) {
        struct ps_setup *setup = NULL;
        ck_assert_int_eq(ps_setup_read(NULL, text, n, &setup, NULL), PS_ERR_CORRUPT);
    }
}
END_TEST

Suite *suite_setup(void)
{
    Suite *suite = suite_create("setup");
    TCase *tc = tcase_create("setup");
    tcase_add_loop_test(tc, a_setup_is_read_and_written_to_the_same_bytes, 0, SETUP_CASES);
    tcase_add_test(tc, the_seed_is_no_part_of_the_text_but_of_the_model);
    tcase_add_test(tc, the_columns_of_the_data_become_fields_of_the_model);
    tcase_add_test(tc, the_task_of_a_model_is_known_before_its_data);
    tcase_add_loop_test(tc, what_lies_is_refused, 0, (int)PS_ARRAY_LEN(lies));
    tcase_add_test(tc, every_prefix_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
