/*
 * test_feed_plan.c — how many parts are made of which data for how many workers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <unistd.h>

#include "base/attr.h"
#include "base/limits.h"
#include "data/feed.h"
#include "data/learning.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

#define LINE_BYTES 12u

static struct temp_folder folder;
static char text[LINE_BYTES * 200000u];

static void setup(void)
{
    temp_folder_make(&folder);
}

static void teardown(void)
{
    temp_folder_remove(&folder);
}

static size_t make_lines(uint32_t n)
{
    for (uint32_t row = 0; row < n; row++) {
        char line[32];
        (void)snprintf(line, sizeof(line), "%07" PRIu32 " 1:1\n", row);
        memcpy(text + (size_t)row * LINE_BYTES, line, LINE_BYTES);
    }
    return (size_t)n * LINE_BYTES;
}

static void put_lines(const char *name, uint32_t n)
{
    temp_folder_put(&folder, name, (const uint8_t *)text, make_lines(n));
}

/* `learnt`: the description is of all rows, else of none of them. */
static enum ps_status plan_it(struct ps_feed_plan *plan, bool learnt, struct ps_error *err)
{
    struct ps_learn_options options = {.task = PS_TASK_VALUE, .format = "libsvm"};
    struct ps_source *source = NULL;
    struct ps_description *description = NULL;
    ck_assert_int_eq(ps_source_open_within(NULL, folder.path, 0, &source, NULL), PS_OK);
    if (learnt) {
        ck_assert_int_eq(ps_learn(source, &options, &description, NULL), PS_OK);
    } else {
        description = ps_description_create(NULL);
        ck_assert_ptr_nonnull(description);
    }
    enum ps_status status = ps_feed_plan(source, description, plan, err);
    if (status == PS_OK) {
        ck_assert_uint_eq(plan->n_parts, ps_source_parts(source, plan->part_bytes));
        ck_assert_uint_le((uint64_t)plan->n_parts * plan->epochs, PS_LEASES_MAX);
    }
    ps_description_destroy(description);
    ps_source_close(source);
    return status;
}

static const struct {
    const char *what;
    uint32_t n_rows;
    struct ps_feed_plan plan;
    uint32_t n_least;
    uint32_t n_most;
} plans[] = {
    {"8 a worker", 100000, {.unit_rows = 100, .workers = 4, .epochs = 1}, 32, 32},
    {"one worker has 8 as well", 1000, {.unit_rows = 1, .workers = 1, .epochs = 1}, 8, 8},
    {"8 units a part", 100000, {.unit_rows = 1000, .workers = 4, .epochs = 1}, 12, 12},
    {"tiny, but shared", 1000, {.unit_rows = 1, .workers = 17, .epochs = 1}, 120, 136},
    {"less than 8 units, but one each", 30, {.unit_rows = 1, .workers = 17, .epochs = 1}, 17, 18},
    {"as many as units", 1000, {.unit_rows = 100, .workers = 17, .epochs = 1}, 10, 12},
    {"one row", 1, {.unit_rows = 1, .workers = 17, .epochs = 1}, 1, 2},
    {"one unit", 100, {.unit_rows = UINT32_MAX, .workers = 17, .epochs = 1}, 1, 1},
    {"no more leases", 2000, {.unit_rows = 1, .workers = 256, .epochs = 10000}, 60, 104},
    {"one part, many epochs", 2000, {.unit_rows = 1, .workers = 256, .epochs = 1u << 20}, 1, 1},
};

START_TEST(parts_are_as_many_as_workers_and_units_ask_for)
{
    put_lines("a", plans[_i].n_rows);
    for (int learnt = 0; learnt < 2; learnt++) {
        struct ps_feed_plan plan = plans[_i].plan;
        struct ps_error err = {0};
        ck_assert_msg(plan_it(&plan, learnt != 0, &err) == PS_OK, "%s: %s", plans[_i].what,
                      err.text);
        ck_assert_msg(plan.n_parts >= plans[_i].n_least && plan.n_parts <= plans[_i].n_most,
                      "%s: %" PRIu32 " parts", plans[_i].what, plan.n_parts);
        ck_assert_uint_eq(plan.rows_about, plans[_i].n_rows);
    }
}
END_TEST

START_TEST(parts_of_large_files_have_64_mib)
{
    char path[128];
    put_lines("a", 200000);
    put_lines("b", 1);
    (void)snprintf(path, sizeof(path), "%s/a", folder.path);
    ck_assert_int_eq(truncate(path, 10ll << 30), 0); /* The rest of it is not read. */
    struct ps_feed_plan plan = {.unit_rows = 1000, .workers = 2, .epochs = 5};
    ck_assert_int_eq(plan_it(&plan, false, NULL), PS_OK);
    ck_assert_uint_eq(plan.part_bytes, PS_PART_BYTES_MAX);
    ck_assert_uint_eq(plan.n_parts, 160 + 1);
    ck_assert_uint_eq(plan.rows_about, ((10ull << 30) + LINE_BYTES) / LINE_BYTES);
    plan.epochs = 10000; /* The bound on leases is the stronger one. */
    ck_assert_int_eq(plan_it(&plan, false, NULL), PS_OK);
    ck_assert_uint_gt(plan.part_bytes, PS_PART_BYTES_MAX);
    ck_assert_uint_ge(plan.n_parts, PS_LEASES_MAX / plan.epochs / 2);
}
END_TEST

START_TEST(a_packed_file_is_one_part)
{
    static uint8_t packed[1 << 20];
    size_t n = pack_gzip((const uint8_t *)text, make_lines(20000), packed, sizeof(packed));
    temp_folder_put(&folder, "a", packed, n);
    temp_folder_put(&folder, "b", packed, n);
    struct ps_feed_plan plan = {.unit_rows = 10, .workers = 4, .epochs = 1};
    ck_assert_int_eq(plan_it(&plan, true, NULL), PS_OK);
    ck_assert_uint_eq(plan.n_parts, 2);
    ck_assert_uint_eq(plan.rows_about, 40000);
    ck_assert_int_eq(plan_it(&plan, false, NULL), PS_OK);
    ck_assert_uint_eq(plan.n_parts, 2);
    put_lines("c", 20000);
    ck_assert_int_eq(plan_it(&plan, true, NULL), PS_OK);
    ck_assert_uint_ge(plan.n_parts, 32 + 2);
    ck_assert_uint_le(plan.n_parts, 33 + 2);
}
END_TEST

START_TEST(more_files_than_leases_are_refused)
{
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < PS_ARRAY_LEN(names); i++) {
        put_lines(names[i], 1);
    }
    struct ps_feed_plan plan = {.unit_rows = 1, .workers = 1, .epochs = PS_LEASES_MAX / 2};
    struct ps_error err = {0};
    ck_assert_int_eq(plan_it(&plan, true, &err), PS_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "3 files of data in 524288 epochs are more than 1048576 "
                                   "leases") != NULL,
                  "'%s'", err.text);
}
END_TEST

START_TEST(a_source_that_went_away_is_told)
{
    put_lines("a", 1);
    struct ps_source *source = NULL;
    ck_assert_int_eq(ps_source_open_within(NULL, folder.path, 0, &source, NULL), PS_OK);
    ck_assert_int_eq(unlink(source->files[0].path), 0);
    struct ps_description *description = ps_description_create(NULL);
    ck_assert_ptr_nonnull(description);
    struct ps_feed_plan plan = {.unit_rows = 1, .workers = 1, .epochs = 1};
    struct ps_error err = {0};
    ck_assert_int_eq(ps_feed_plan(source, description, &plan, &err), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/a'"));
    ps_description_destroy(description);
    ps_source_close(source);
}
END_TEST

Suite *suite_feed_plan(void)
{
    Suite *suite = suite_create("feed_plan");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, parts_are_as_many_as_workers_and_units_ask_for, 0,
                        (int)PS_ARRAY_LEN(plans));
    tcase_add_test(tcase, parts_of_large_files_have_64_mib);
    tcase_add_test(tcase, a_packed_file_is_one_part);
    tcase_add_test(tcase, more_files_than_leases_are_refused);
    tcase_add_test(tcase, a_source_that_went_away_is_told);
    suite_add_tcase(suite, tcase);
    return suite;
}
