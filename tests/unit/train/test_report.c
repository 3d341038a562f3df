/*
 * test_report.c — the report as golden text: what applies stands there, what does not is left out.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "lib/test_main.h"
#include "train/report.h"
#include "unit/train/memory_disk.h"
#include "unit/train/suites.h"

START_TEST(an_empty_report_is_an_empty_object)
{
    struct ps_report report;
    ps_report_init(&report);
    char *line = ps_report_json(&report);
    ck_assert_str_eq(line, "{}");
    ps_mem_free(line);
}
END_TEST

START_TEST(what_applies_is_written_in_a_fixed_order)
{
    struct ps_report report;
    ps_report_init(&report);
    report.model_path = "out/\"model\"\t.safetensors";
    report.model = "softmax";
    report.rows_train = 60000;
    report.rows_test = 0;
    report.examples_per_s = 123456.789;
    report.train_loss = 0.1;
    report.test_loss = (double)INFINITY;
    report.test_accuracy = (double)0.8435f;
    report.bytes_pushed = (1ull << 53) + 1;
    report.staleness_mean = 0.0;
    char *line = ps_report_json(&report);
    ck_assert_str_eq(line, "{\"model\":\"softmax\",\"rows_train\":60000,\"rows_test\":0,"
                           "\"examples_per_s\":123456.789,\"train_loss\":0.1,\"test_loss\":null,"
                           "\"test_accuracy\":0.843500018,\"staleness_mean\":0,"
                           "\"bytes_pushed\":9007199254740993,"
                           "\"model_path\":\"out/\\\"model\\\"\\t.safetensors\"}");
    ps_mem_free(line);
}
END_TEST

/* Scripts of users read these: a name that is missing here was renamed. */
START_TEST(every_promised_key_exists)
{
    static const char keys[] =
        "model data rows_train rows_bad rows_test servers workers consistency epochs steps "
        "examples_per_s wall_s train_loss test_loss test_accuracy test_auc test_rmse "
        "staleness_bound staleness_mean staleness_max blocked_fraction bytes_pushed bytes_pulled "
        "rows_trained_min rows_trained_max retries sessions_lost own_lag seed "
        "bytes_served_per_server memory_bytes_per_server bytes_copied model_path ";
    char have[sizeof(keys)] = "";
    size_t n_used = 0;
#define X(kind, key, text)                                  \
    ck_assert_uint_lt(n_used + sizeof(#key), sizeof(have)); \
    memcpy(have + n_used, #key " ", sizeof(#key " "));      \
    n_used += sizeof(#key);
    PS_REPORT_MAP(X)
#undef X
    ck_assert_str_eq(have, keys);
}
END_TEST

START_TEST(a_list_is_an_array_of_whole_numbers)
{
    static const uint64_t served[] = {7, (1ull << 53) + 1};
    struct ps_report report;
    ps_report_init(&report);
    report.bytes_served_per_server = (struct ps_report_list){served, 2};
    char *line = ps_report_json(&report);
    ck_assert_str_eq(line, "{\"bytes_served_per_server\":[7,9007199254740993]}");
    ps_mem_free(line);
}
END_TEST

START_TEST(the_file_is_one_line)
{
    static struct memory_disk memory;
    struct ps_report report;
    ps_report_init(&report);
    report.epochs = 2;
    memory_disk_init(&memory);
    ck_assert_int_eq(ps_report_write(&memory.disk, "report.json", &report, NULL), PS_OK);
    ck_assert_str_eq(memory.path, "report.json");
    ck_assert_uint_eq(memory.n_bytes, strlen("{\"epochs\":2}\n"));
    ck_assert_mem_eq(memory.data, "{\"epochs\":2}\n", memory.n_bytes);
    memory.full = true;
    ck_assert_int_eq(ps_report_write(&memory.disk, "report.json", &report, NULL), PS_ERR_IO);
}
END_TEST

Suite *suite_report(void)
{
    Suite *suite = suite_create("report");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, an_empty_report_is_an_empty_object);
    tcase_add_test(tcase, what_applies_is_written_in_a_fixed_order);
    tcase_add_test(tcase, every_promised_key_exists);
    tcase_add_test(tcase, a_list_is_an_array_of_whole_numbers);
    tcase_add_test(tcase, the_file_is_one_line);
    suite_add_tcase(suite, tcase);
    return suite;
}
