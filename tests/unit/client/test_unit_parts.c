/*
 * test_unit_parts.c — units of a job over parts: the program finds where a part ends, the clock
 * counts steps and nothing else, and what cannot be is refused before a byte leaves.
 */
#include <stdlib.h>
#include <string.h>

#include "client/lib/client_impl.h"
#include "lib/test_main.h"
#include "library_rig.h"
#include "suites.h"

#define PATIENCE 10000u /* For what comes at once, on a busy machine. */
#define BATCH    5u

static struct fake_lease lease;
static struct ps_error err;

static void send_lease(void)
{
    fake_state_lease(cluster, &lease);
}

static void say(int kind, struct fake_lease news)
{
    lease = news;
    library_do(kind, send_lease);
    struct ps_view view = {0};
    do {
        (void)ps_client_wait_change(client, &view, 10);
    } while (view.lease.id != news.id || (int)view.job != news.job);
}

static const struct fake_lease part_lease = {.id = 11,
                                             .epoch = 1,
                                             .part = 3,
                                             .unit_rows = BATCH,
                                             .stride = BATCH,
                                             .clock = 7,
                                             .job = PS_JOB_RUNNING};

static void start(int kind)
{
    const struct ps_job_def job = {.parts = 6,
                                   .batch = BATCH,
                                   .epochs = 2,
                                   .setup = "{}",
                                   .consistency = {.mode = PS_CONSISTENCY_ASP}};
    library_start(kind);
    ck_assert_msg(ps_client_define_job(client, &job, &err) == PS_OK, "%s", err.text);
    ck_assert_uint_eq(cluster->job_parts, 6);
    ck_assert_uint_eq(cluster->setup_bytes, 2);
}

static struct ps_unit next(void)
{
    struct ps_unit unit;
    ck_assert_msg(ps_client_next_unit(client, &unit, PATIENCE, &err) == PS_OK, "%s", err.text);
    return unit;
}

static void no_unit(void)
{
    struct ps_unit unit;
    ck_assert_int_eq(ps_client_next_unit(client, &unit, 20, &err), PS_ERR_TIMEOUT);
}

static void done(struct ps_unit *unit, uint32_t n_rows, bool last)
{
    unit->n_rows = n_rows;
    unit->last = last;
    ck_assert_msg(ps_client_unit_done(client, unit, 1.0, &err) == PS_OK, "%s", err.text);
}

static void expect_over(void)
{
    ck_assert_uint_eq(cluster->last_lease, 11);
    ck_assert_uint_eq(cluster->last_units_done, 2);
    ck_assert_uint_eq(cluster->last_clock, 9);
    ck_assert(cluster->last_lease_over);
    ck_assert_uint_eq(cluster->last_lease_rows, 8);
    ck_assert_uint_eq(cluster->last_loss_rows, 8);
}

static void expect_under_way(void)
{
    ck_assert_uint_eq(cluster->last_units_done, 1);
    ck_assert(!cluster->last_lease_over);
    ck_assert_uint_eq(cluster->last_lease_rows, 5);
}

START_TEST(units_of_a_part_come_until_the_program_says_that_it_is_over)
{
    start(_i);
    say(_i, part_lease);
    struct ps_unit unit = next();
    ck_assert_uint_eq(unit.part, 3);
    ck_assert_uint_eq(unit.first, 0);
    ck_assert_uint_eq(unit.n_rows, BATCH);
    ck_assert(!unit.last);
    done(&unit, BATCH, false);
    library_do(_i, expect_under_way);
    unit = next();
    ck_assert_uint_eq(unit.index, 1);
    ck_assert_uint_eq(unit.first, BATCH);
    ck_assert_uint_eq(unit.step, 8);
    done(&unit, 3, true);
    ck_assert_int_eq(ps_client_unit_done(client, &unit, 1.0, &err), PS_ERR_INVALID);
    no_unit(); /* Its lease is still in view, over. */
    struct ps_view view;
    ps_client_view(client, &view);
    ck_assert(view.lease.over);
    ck_assert_uint_eq(view.lease.units_done, 2);
    library_do(_i, expect_over);
    struct fake_lease another = part_lease;
    another.id = 12;
    another.part = 5;
    say(_i, another);
    unit = next();
    ck_assert_uint_eq(unit.part, 5);
    ck_assert_uint_eq(unit.index, 0);
    ck_assert_uint_eq(unit.step, 9);
    library_stop();
}
END_TEST

static void expect_empty(void)
{
    ck_assert_uint_eq(cluster->last_units_done, 0);
    ck_assert_uint_eq(cluster->last_clock, 7);
    ck_assert(cluster->last_lease_over);
    ck_assert_uint_eq(cluster->last_lease_rows, 0);
}

START_TEST(an_empty_part_is_over_without_a_step)
{
    start(_i);
    say(_i, part_lease);
    struct ps_unit unit = next();
    done(&unit, 0, true);
    no_unit();
    library_do(_i, expect_empty);
    struct ps_view view;
    ps_client_view(client, &view);
    ck_assert(view.lease.over);
    library_stop();
}
END_TEST

static void expect_taken_over(void)
{
    ck_assert_uint_eq(cluster->last_units_done, 4);
    ck_assert_uint_eq(cluster->last_clock, 7);
    ck_assert(cluster->last_lease_over);
    ck_assert_uint_eq(cluster->last_lease_rows, 4 * BATCH);
}

START_TEST(a_part_whose_holder_died_at_its_end_is_over_for_the_next)
{
    start(_i);
    struct fake_lease begun = part_lease;
    begun.units_done = 4;
    say(_i, begun);
    struct ps_unit unit = next();
    ck_assert_uint_eq(unit.index, 4);
    ck_assert_uint_eq(unit.first, 4 * BATCH);
    ck_assert_uint_eq(unit.step, 7);
    done(&unit, 0, true);
    library_do(_i, expect_taken_over);
    library_stop();
}
END_TEST

START_TEST(rows_that_cannot_be_are_refused_by_push_and_done)
{
    static const struct {
        uint32_t n_rows;
        bool last;
        const char *words;
    } cases[] = {
        {BATCH + 1, true, "has 6 rows; a batch has 5"},
        {BATCH - 1, false, "has 4 rows of a batch of 5"},
        {0, false, "has"},
    };
    start(_i);
    struct ps_tensor from = {.table = library_define().number, .values = gradient};
    say(_i, part_lease);
    struct ps_unit unit = next();
    struct ps_push push = {.unit = &unit, .tensors = &from, .n_tensors = 1};
    for (size_t i = 0; i < PS_ARRAY_LEN(cases); i++) {
        unit.n_rows = cases[i].n_rows;
        unit.last = cases[i].last;
        ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_INVALID);
        ck_assert_msg(strstr(err.text, cases[i].words) != NULL, "%s", err.text);
        ck_assert_int_eq(ps_client_unit_done(client, &unit, 0.0, &err), PS_ERR_INVALID);
        ck_assert_msg(strstr(err.text, cases[i].words) != NULL, "%s", err.text);
    }
    unit.n_rows = 0;
    unit.last = true;
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is not pushed"));
    unit.n_rows = 2;
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_OK);
    done(&unit, 2, true);
    struct ps_push absurd = {.tensors = &from, .n_tensors = 1, .stream = 11};
    absurd.sequence = PS_PART_UNITS_MAX;
    ck_assert_int_eq(ps_client_push(client, &absurd, &err), PS_ERR_INVALID);
    library_stop();
}
END_TEST

START_TEST(a_lease_of_no_such_part_is_an_error)
{
    start(_i);
    struct ps_unit unit;
    struct fake_lease odd = part_lease;
    odd.part = 6;
    say(_i, odd);
    ck_assert_int_eq(ps_client_next_unit(client, &unit, PATIENCE, &err), PS_ERR_INTERNAL);
    odd.id++;
    odd.part = 0;
    odd.n_units = 3;
    say(_i, odd);
    ck_assert_int_eq(ps_client_next_unit(client, &unit, PATIENCE, &err), PS_ERR_INTERNAL);
    library_stop();
}
END_TEST

static void expect_by_hand(void)
{
    ck_assert_uint_eq(cluster->last_units_done, 6);
    ck_assert(cluster->last_lease_over);
    ck_assert_uint_eq(cluster->last_lease_rows, 28);
}

START_TEST(a_program_that_reports_by_hand_says_it_itself)
{
    start(_i);
    say(_i, part_lease);
    struct ps_worker_report report = {
        .clock = 13, .lease = 11, .units_done = 6, .lease_over = true, .lease_rows = 28};
    ps_client_report(client, &report);
    struct ps_view view = {0};
    while (!view.lease.over) {
        (void)ps_client_wait_change(client, &view, 10);
    }
    ck_assert_uint_eq(view.lease.units_done, 6);
    library_do(_i, expect_by_hand);
    library_stop();
}
END_TEST

START_TEST(a_long_setup_travels_and_a_longer_one_is_refused)
{
    library_start(_i);
    char *setup = malloc(PS_SETUP_BYTES_MAX + 2);
    ck_assert_ptr_nonnull(setup);
    memset(setup, 'x', PS_SETUP_BYTES_MAX + 1);
    setup[PS_SETUP_BYTES_MAX + 1] = '\0';
    struct ps_job_def job = {.parts = 1, .batch = 1, .epochs = 1, .setup = setup};
    ck_assert_int_eq(ps_client_define_job(client, &job, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "at most 1048576 bytes, not 1048577"));
    setup[PS_SETUP_BYTES_MAX] = '\0';
    ck_assert_msg(ps_client_define_job(client, &job, &err) == PS_OK, "%s", err.text);
    ck_assert_uint_eq(cluster->setup_bytes, PS_SETUP_BYTES_MAX);
    free(setup);
    library_stop();
}
END_TEST

START_TEST(a_description_has_the_parts_and_what_is_done_of_them)
{
    library_start(_i);
    struct ps_cluster *look = NULL;
    ck_assert_int_eq(ps_client_describe(client, &look, &err), PS_OK);
    ck_assert_uint_eq(look->definition.parts, 7);
    ck_assert_str_eq(look->definition.setup, "{\"model\":1}");
    ck_assert_uint_eq(look->rows, 60000);
    ck_assert_uint_eq(look->n_epochs, 1);
    ck_assert_uint_eq(look->epochs[0].units, 0);
    ck_assert_uint_eq(look->epochs[0].leases, 7);
    ck_assert_uint_eq(look->epochs[0].leases_done, 5);
    ps_cluster_free(look);
    library_stop();
}
END_TEST

Suite *suite_unit_parts(void)
{
    Suite *suite = suite_create("unit_parts");
    TCase *both = tcase_create("thread and inline");
    tcase_set_timeout(both, 60);
    const TTest *const tests[] = {
        units_of_a_part_come_until_the_program_says_that_it_is_over,
        an_empty_part_is_over_without_a_step,
        a_part_whose_holder_died_at_its_end_is_over_for_the_next,
        rows_that_cannot_be_are_refused_by_push_and_done,
        a_lease_of_no_such_part_is_an_error,
        a_program_that_reports_by_hand_says_it_itself,
        a_long_setup_travels_and_a_longer_one_is_refused,
        a_description_has_the_parts_and_what_is_done_of_them,
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(tests); i++) {
        tcase_add_loop_test(both, tests[i], THREAD, INLINE + 1);
    }
    suite_add_tcase(suite, both);
    return suite;
}
