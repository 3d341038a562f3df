/*
 * test_loop.c — the training loop against a client that this file plays: since the loop sees
 * nothing but <ps/client.h>, a few functions are the whole cluster. What is played is the protocol
 * of units, so leases and clocks are told by the tests of the library.
 */
#include <stdio.h>
#include <string.h>

#include <ps/client.h>

#include "base/error.h"
#include "base/mem.h"
#include "lib/test_main.h"
#include "train/loop.h"
#include "unit/data/temp_folder.h"

#define N_ROWS    20u
#define N_PIXELS  4u
#define BATCH     5u
#define N_UNITS   (N_ROWS / BATCH)
#define LEASE     7u
#define CALLS_MAX 64u

/* ---- The client ---------------------------------------------------------------------------- */

struct ps_client {
    struct ps_view view;
    uint32_t n_tables;
    bool job_defined;
    uint32_t n_pulls;
    uint32_t n_pushes;
    struct ps_push pushes[CALLS_MAX];
    struct ps_unit units[CALLS_MAX]; /* Of the pushes. */
    uint32_t n_done;
    double loss_sum;
    uint32_t stop_after;  /* So many pushes: the job is stopped; 0: it is not. */
    uint32_t fence_after; /* The same, the session is closed. */
    enum ps_status push_status;
    bool pull_fails_with_push;
    uint32_t late_at; /* This push, from 1, comes too late; 0: none does. */
};

static struct ps_client cluster;
static _Atomic bool stop_flag;

static void renew(void)
{
    cluster.view.n_changes++;
    if (cluster.stop_after != 0 && cluster.n_pushes >= cluster.stop_after) {
        cluster.view.job = PS_JOB_STOPPED;
    }
}

void ps_client_view(struct ps_client *client, struct ps_view *ret)
{
    *ret = client->view;
}

enum ps_status ps_client_next_unit(struct ps_client *client, struct ps_unit *ret,
                                   uint32_t timeout_ms, struct ps_error *err)
{
    (void)timeout_ms;
    ck_assert(client->job_defined);
    *ret = (struct ps_unit){0};
    if (client->fence_after != 0 && client->n_pushes >= client->fence_after) {
        return ps_fail(err, PS_ERR_FENCED, "the session expired");
    }
    if (client->n_done == N_UNITS) {
        client->view.job = PS_JOB_DONE;
    }
    if (client->view.job != PS_JOB_RUNNING) {
        return PS_OK;
    }
    *ret = (struct ps_unit){.lease = LEASE,
                            .index = client->n_done,
                            .step = client->n_done,
                            .first = (uint64_t)client->n_done * BATCH,
                            .n_rows = BATCH,
                            .last = client->n_done + 1 == N_UNITS};
    return PS_OK;
}

enum ps_status ps_client_unit_done(struct ps_client *client, const struct ps_unit *unit,
                                   double loss_sum, struct ps_error *err)
{
    (void)err;
    ck_assert_uint_eq(unit->index, client->n_done);
    ck_assert_uint_gt(client->n_pushes, client->n_done); /* First it was acknowledged. */
    client->loss_sum += loss_sum;
    client->n_done++;
    return PS_OK;
}

enum ps_status ps_client_define_table(struct ps_client *client, const struct ps_table_def *def,
                                      struct ps_table *ret, struct ps_error *err)
{
    (void)err;
    ck_assert_ptr_nonnull(def->name);
    ret->number = 10 + client->n_tables++;
    return PS_OK;
}

enum ps_status ps_client_define_job(struct ps_client *client, const struct ps_job_def *def,
                                    struct ps_error *err)
{
    (void)err;
    ck_assert_uint_eq(def->rows, N_ROWS);
    client->job_defined = true;
    client->view.job = PS_JOB_RUNNING;
    return PS_OK;
}

static void note_pull(struct ps_client *client, struct ps_pull *pull)
{
    ck_assert(client->job_defined);
    ck_assert_uint_eq(pull->n_tensors, client->n_tables);
    ck_assert_ptr_null(pull->under_way);
    pull->under_way = client;
    client->n_pulls++;
}

static void note_push(struct ps_client *client, struct ps_push *push)
{
    ck_assert_ptr_null(push->under_way);
    ck_assert_uint_eq(push->tensors[0].table, 10);
    push->under_way = client;
    ck_assert_uint_lt(client->n_pushes, CALLS_MAX);
    ck_assert_ptr_nonnull(push->unit);
    client->units[client->n_pushes] = *push->unit;
    client->pushes[client->n_pushes++] = *push;
    renew();
}

enum ps_status ps_client_pull_start(struct ps_client *client, struct ps_pull *pull,
                                    struct ps_error *err)
{
    (void)err;
    note_pull(client, pull);
    return PS_OK;
}

enum ps_status ps_client_push_start(struct ps_client *client, struct ps_push *push,
                                    struct ps_error *err)
{
    (void)err;
    note_push(client, push);
    return PS_OK;
}

enum ps_status ps_client_push_pull_start(struct ps_client *client, struct ps_push *push,
                                         struct ps_pull *pull, struct ps_error *err)
{
    (void)err;
    note_push(client, push);
    note_pull(client, pull);
    return PS_OK;
}

enum ps_status ps_client_pull_wait(struct ps_client *client, struct ps_pull *pull,
                                   struct ps_error *err)
{
    ck_assert_ptr_eq(pull->under_way, client);
    pull->under_way = NULL;
    pull->min_clock = client->n_done;
    bool fails = client->pull_fails_with_push && client->n_pushes > 0;
    return fails ? ps_fail(err, PS_ERR_CANCELED, "the pull's words") : PS_OK;
}

enum ps_status ps_client_push_wait(struct ps_client *client, struct ps_push *push,
                                   struct ps_error *err)
{
    ck_assert_ptr_eq(push->under_way, client);
    push->under_way = NULL;
    if (client->n_pushes == client->late_at) {
        return ps_fail(err, PS_ERR_LATE, "the step is closed");
    }
    return client->push_status == PS_OK ? PS_OK
                                        : ps_fail(err, client->push_status, "the push's words");
}

/* ---- The run ------------------------------------------------------------------------------- */

static struct temp_folder folder;
static struct ps_mem mem;
static struct ps_train_plan plan;

static void put_data(void)
{
    uint8_t images[16 + N_ROWS * N_PIXELS] = {0, 0, 8, 3, 0, 0, 0, N_ROWS, 0, 0, 0, 2, 0, 0, 0, 2};
    uint8_t labels[8 + N_ROWS] = {0, 0, 8, 1, 0, 0, 0, N_ROWS};
    for (uint32_t i = 0; i < N_ROWS; i++) {
        images[16 + i * N_PIXELS] = (uint8_t)(i * 10);
        labels[8 + i] = (uint8_t)(i % 3);
    }
    temp_folder_put(&folder, "train-images-idx3-ubyte", images, sizeof(images));
    temp_folder_put(&folder, "train-labels-idx1-ubyte", labels, sizeof(labels));
}

static void set_up(void)
{
    cluster = (struct ps_client){0};
    atomic_store(&stop_flag, false);
    ps_mem_init(&mem);
    temp_folder_make(&folder);
    put_data();
}

static void tear_down(void)
{
    ps_train_plan_close(&plan);
    temp_folder_remove(&folder);
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        ck_assert_uint_eq(atomic_load(&mem.used[i]), 0);
    }
}

/* _i: which way of doing a step. */
static const struct {
    const char *consistency;
    uint32_t prefetch;
    bool aggregate;
} ways[] = {{"bsp", 0, false},
            {"ssp:2", 0, false},
            {"asp", 0, false},
            {"ssp:2", 1, false},
            {"bsp", 0, true}};
#define N_WAYS    ((int)(sizeof(ways) / sizeof(ways[0])))
#define AGGREGATE 4

static enum ps_status train(int way, struct ps_train_result *result, struct ps_error *err)
{
    struct ps_train_options options = {.data = folder.path,
                                       .model = "softmax",
                                       .schedule = "constant",
                                       .consistency = ways[way].consistency,
                                       .prefetch = ways[way].prefetch,
                                       .aggregate = ways[way].aggregate,
                                       .batch = BATCH,
                                       .epochs = 1,
                                       .workers = 1,
                                       .lr = 0.1f,
                                       .seed_given = true,
                                       .seed = 3,
                                       .center = true};
    ck_assert_msg(ps_train_plan_open(&options, &mem, &plan, err) == PS_OK, "%s", err->text);
    return ps_train_run(&plan, &cluster, &stop_flag, result, err);
}

START_TEST(every_unit_of_a_lease_is_pushed_once_and_in_order)
{
    struct ps_train_result result;
    struct ps_error err = {0};
    ck_assert_msg(train(_i, &result, &err) == PS_OK, "%s", err.text);
    ck_assert(result.done);
    ck_assert_uint_eq(cluster.n_pushes, N_UNITS);
    for (uint32_t i = 0; i < N_UNITS; i++) {
        ck_assert_uint_eq(cluster.units[i].index, i);
        ck_assert(cluster.pushes[i].rate > 0.09f && cluster.pushes[i].rate < 0.11f);
    }
    ck_assert_uint_eq(cluster.n_done, N_UNITS);
    ck_assert_double_gt(cluster.loss_sum, 0.0);
}
END_TEST

START_TEST(a_job_that_is_stopped_ends_after_the_step_though_units_are_at_hand)
{
    cluster.stop_after = 2;
    struct ps_train_result result;
    struct ps_error err = {0};
    ck_assert_msg(train(_i, &result, &err) == PS_OK, "%s", err.text);
    ck_assert(!result.done);
    ck_assert_uint_eq(cluster.n_pushes, 2);
    ck_assert_uint_eq(cluster.n_done, 2); /* The step itself counts. */
}
END_TEST

START_TEST(a_session_that_was_closed_is_noticed_before_the_next_step)
{
    cluster.fence_after = 1;
    struct ps_train_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(train(_i, &result, &err), PS_ERR_FENCED);
    ck_assert_uint_eq(cluster.n_pushes, 1);
}
END_TEST

START_TEST(of_two_failures_of_a_step_the_first_is_named)
{
    cluster.push_status = PS_ERR_LOST;
    cluster.pull_fails_with_push = true;
    struct ps_train_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(train(_i, &result, &err), PS_ERR_LOST);
    ck_assert_str_eq(err.text, "pushing step 0: the push's words");
}
END_TEST

START_TEST(a_pull_that_ends_because_the_job_does_is_no_failure)
{
    cluster.stop_after = 1;
    cluster.pull_fails_with_push = true;
    struct ps_train_result result;
    struct ps_error err = {0};
    ck_assert_msg(train(_i, &result, &err) == PS_OK, "%s", err.text);
    ck_assert(!result.done);
    ck_assert_uint_eq(cluster.n_done, 1);
}
END_TEST

START_TEST(a_push_that_comes_too_late_is_done_again)
{
    cluster.late_at = 2;
    struct ps_train_result result;
    struct ps_error err = {0};
    ck_assert_msg(train(AGGREGATE, &result, &err) == PS_OK, "%s", err.text);
    ck_assert(result.done);
    ck_assert_uint_eq(cluster.n_pushes, N_UNITS + 1);
    ck_assert_uint_eq(cluster.units[1].index, 1);
    ck_assert_uint_eq(cluster.units[2].index, 1);
}
END_TEST

START_TEST(asked_to_stop_it_finishes_nothing_more_than_the_step)
{
    atomic_store(&stop_flag, true);
    struct ps_train_result result;
    struct ps_error err = {0};
    ck_assert_int_eq(train(_i, &result, &err), PS_OK);
    ck_assert(!result.done);
    ck_assert_uint_eq(cluster.n_pushes, 0);
}
END_TEST

static Suite *suite_loop(void)
{
    Suite *suite = suite_create("loop");
    TCase *tcase = tcase_create("loop");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, every_unit_of_a_lease_is_pushed_once_and_in_order, 0, N_WAYS);
    tcase_add_loop_test(tcase, a_job_that_is_stopped_ends_after_the_step_though_units_are_at_hand,
                        0, N_WAYS);
    tcase_add_loop_test(tcase, a_session_that_was_closed_is_noticed_before_the_next_step, 0,
                        N_WAYS);
    tcase_add_loop_test(tcase, of_two_failures_of_a_step_the_first_is_named, 0, N_WAYS);
    tcase_add_loop_test(tcase, a_pull_that_ends_because_the_job_does_is_no_failure, 0, N_WAYS);
    tcase_add_test(tcase, a_push_that_comes_too_late_is_done_again);
    tcase_add_loop_test(tcase, asked_to_stop_it_finishes_nothing_more_than_the_step, 0, N_WAYS);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_loop)
