/*
 * test_outcome.c — what a look at the cluster says of progress and in reports, with rows that are
 * numbered and over parts.
 */
#include <math.h>

#include "lib/test_main.h"
#include "outcome.h"

static struct ps_epoch_progress epochs[2];

static struct ps_cluster numbered(void)
{
    epochs[0] = (struct ps_epoch_progress){
        .epoch = 3, .units = 10, .units_done = 10, .leases = 5, .leases_done = 5};
    epochs[1] = (struct ps_epoch_progress){
        .epoch = 4, .units = 10, .units_done = 4, .leases = 5, .leases_done = 1};
    return (struct ps_cluster){.has_definition = true,
                               .definition = {.rows = 100, .batch = 10, .epochs = 10},
                               .rows = 100,
                               .epochs = epochs,
                               .n_epochs = 2,
                               .running_us = 2000000};
}

/* Epoch 3 is done, of epoch 4 two of five parts and a unit more. */
static struct ps_cluster over_parts(void)
{
    epochs[0] = (struct ps_epoch_progress){
        .epoch = 3, .units_done = 11, .leases = 5, .leases_done = 5, .loss_sum = 7, .loss_rows = 7};
    epochs[1] =
        (struct ps_epoch_progress){.epoch = 4, .units_done = 5, .leases = 5, .leases_done = 2};
    return (struct ps_cluster){.has_definition = true,
                               .definition = {.parts = 5, .batch = 10, .epochs = 10},
                               .rows = 104,
                               .epochs = epochs,
                               .n_epochs = 2,
                               .running_us = 2000000};
}

static double share(const struct ps_progress *progress)
{
    return (double)progress->rows_done / (double)progress->rows_total;
}

START_TEST(progress_goes_by_units_when_rows_are_numbered)
{
    struct ps_cluster cluster = numbered();
    struct ps_progress progress;
    ps_outcome_progress(&cluster, &progress);
    ck_assert_uint_eq(progress.epoch, 4);
    ck_assert_uint_eq(progress.rows_done, 440);
    ck_assert_uint_eq(progress.rows_total, 1000);
    epochs[1].units_done = 10;
    ps_outcome_progress(&cluster, &progress);
    ck_assert_uint_eq(progress.rows_done, 500);
}
END_TEST

START_TEST(progress_goes_by_leases_over_parts)
{
    struct ps_cluster cluster = over_parts();
    struct ps_progress progress;
    ps_outcome_progress(&cluster, &progress);
    ck_assert_uint_eq(progress.epoch, 4);
    ck_assert_uint_eq(progress.rows_done, 4 * 104 + 50);
    ck_assert(fabs(share(&progress) - 0.44) < 0.001);
    epochs[1].leases_done = 5;
    ps_outcome_progress(&cluster, &progress);
    ck_assert_uint_eq(progress.rows_done, 5 * 104);
    ck_assert_uint_eq(progress.rows_total, 10 * 104);
    cluster.n_epochs = 0;
    cluster.rows = 0;
    ps_outcome_progress(&cluster, &progress);
    ck_assert_uint_eq(progress.rows_total, 0); /* Nobody knows yet. */
}
END_TEST

START_TEST(a_report_counts_whole_epochs_and_the_rows_that_were_found)
{
    struct ps_outcome_lists lists;
    struct ps_report report;
    struct ps_cluster cluster = over_parts();
    ps_report_init(&report);
    ps_outcome_report(&cluster, &lists, &report);
    ck_assert_uint_eq(report.epochs, 4);
    ck_assert_uint_eq(report.rows_train, 104);
    ck_assert(fabs(report.examples_per_s - (4 * 104 + 50) / 2.0) < 1e-9);
    ck_assert(fabs(report.train_loss - 1.0) < 1e-9);
    cluster = numbered();
    ps_report_init(&report);
    report.rows_train = 77; /* The program's word. */
    ps_outcome_report(&cluster, &lists, &report);
    ck_assert_uint_eq(report.epochs, 4);
    ck_assert_uint_eq(report.rows_train, 77);
}
END_TEST

static Suite *suite_outcome(void)
{
    Suite *suite = suite_create("outcome");
    TCase *tcase = tcase_create("outcome");
    tcase_add_test(tcase, progress_goes_by_units_when_rows_are_numbered);
    tcase_add_test(tcase, progress_goes_by_leases_over_parts);
    tcase_add_test(tcase, a_report_counts_whole_epochs_and_the_rows_that_were_found);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_outcome)
