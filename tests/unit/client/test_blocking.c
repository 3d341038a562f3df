/*
 * test_blocking.c — train/blocking over a fake cluster, with both kinds of executors: a thread of
 * its own, and an inline one that the waiting thread pumps. Real time, but nothing waits for it.
 */
#include <stdlib.h>

#include "fake_cluster.h"
#include "lib/test_main.h"
#include "os/clock.h"
#include "os/thread_exec.h"
#include "train/blocking.h"

#define N_ELEMENTS 100000u

static struct fake_cluster *cluster;
static struct ps_thread_exec *thread;
static struct ps_inline_exec inline_exec;
static struct ps_blocking blocking;
static float *gradient;
static float *weights;

/* _i 0: thread, 1: inline. */
static void start(int kind)
{
    static const struct ps_creds creds = {.kind = PS_CREDS_INSECURE};
    cluster = fake_cluster_create(2);
    struct ps_error err;
    if (kind == 0) {
        ck_assert_int_eq(ps_thread_exec_create("client", &thread, &err), PS_OK);
        cluster->net.port = ps_thread_exec_port(thread);
        ps_blocking_init(&blocking, cluster->net.port, NULL);
    } else {
        ps_inline_exec_init(&inline_exec, ps_clock_source, NULL);
        cluster->net.port = &inline_exec.base;
        ps_blocking_init(&blocking, cluster->net.port, &inline_exec);
    }
    struct ps_session_options options = {.transport = &cluster->net.base,
                                         .creds = &creds,
                                         .coordinator = "coordinator:1",
                                         .kind = PS_CLIENT_WORKER,
                                         .name = "worker-0",
                                         .session = {.bytes = {9}}};
    ck_assert_int_eq(ps_blocking_open(&blocking, &options, &err), PS_OK);
    ck_assert_int_eq(ps_blocking_join(&blocking, &err), PS_OK);
    gradient = calloc(N_ELEMENTS, sizeof(float));
    weights = calloc(N_ELEMENTS, sizeof(float));
    ck_assert(gradient != NULL && weights != NULL);
    for (uint32_t i = 0; i < N_ELEMENTS; i++) {
        gradient[i] = (float)(i % 100);
    }
}

static void stop(void)
{
    ps_blocking_close(&blocking);
    ck_assert_uint_eq(cluster->n_leaves, 1);
    ps_thread_exec_destroy(thread);
    thread = NULL;
    ps_blocking_deinit(&blocking);
    fake_cluster_destroy(cluster);
    free(gradient);
    free(weights);
}

static uint32_t define(void)
{
    struct ps_table_def def = {.name = "w", .n_dims = 1, .shape = {N_ELEMENTS}, .optimizer = "sgd"};
    uint32_t table = 99;
    struct ps_error err;
    ck_assert_int_eq(ps_blocking_define_table(&blocking, &def, &table, &err), PS_OK);
    return table;
}

START_TEST(a_thread_defines_pushes_pulls_and_leaves)
{
    start(_i);
    uint32_t table = define();
    uint32_t found = 99;
    uint64_t n = 0;
    ck_assert(ps_blocking_table(&blocking, "w", &found, &n));
    ck_assert_uint_eq(found, table);
    ck_assert_uint_eq(n, N_ELEMENTS);
    struct ps_tensor from = {.table = table, .values = gradient};
    struct ps_tensor to = {.table = table, .values = weights};
    for (uint64_t step = 0; step < 20; step++) {
        struct ps_push_op push = {.sequence = step, .step = step, .tensors = &from, .n_tensors = 1};
        struct ps_pull_op pull = {.step = step + 1, .tensors = &to, .n_tensors = 1};
        ps_blocking_push_pull_start(&blocking, &push, &pull);
        ck_assert_int_eq(ps_blocking_wait(&blocking, &push.op), PS_OK);
        ck_assert_int_eq(ps_blocking_wait(&blocking, &pull.op), PS_OK);
        ck_assert(weights[199] == -99.0f * (float)(step + 1));
        struct ps_worker_report report = {.clock = step + 1};
        ps_blocking_report(&blocking, &report);
    }
    struct ps_client_view view;
    ps_blocking_view(&blocking, &view);
    ck_assert_uint_eq(view.n_bytes_pushed, 20ull * N_ELEMENTS * sizeof(float));
    stop();
}
END_TEST

START_TEST(a_failure_comes_with_its_words)
{
    start(_i);
    struct ps_tensor unknown = {.table = 7, .values = gradient};
    struct ps_push_op push = {.tensors = &unknown, .n_tensors = 1};
    ck_assert_int_eq(ps_blocking_push(&blocking, &push), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(push.op.err.text, "table 7 is not known");
    struct ps_table_def def = {.name = "odd", .n_dims = 0, .optimizer = "sgd"};
    struct ps_error err;
    uint32_t table = 99;
    ck_assert_int_eq(ps_blocking_define_table(&blocking, &def, &table, &err), PS_ERR_INVALID);
    ck_assert_uint_eq(table, 99);
    stop();
}
END_TEST

static void send_state(struct ps_mail *mail PS_UNUSED)
{
    cluster->min_clock = 8;
    fake_state(cluster, true);
}

START_TEST(a_change_wakes_the_waiter_and_none_is_missed)
{
    start(_i);
    struct ps_client_view view;
    do { /* Until all news of joining are seen. */
        ps_blocking_view(&blocking, &view);
    } while (ps_blocking_wait_change(&blocking, 20));
    struct ps_mail mail = {.run = send_state};
    ps_exec_post(cluster->net.port, &mail);
    ck_assert(ps_blocking_wait_change(&blocking, 10000));
    ck_assert(ps_blocking_wait_change(&blocking, 10000)); /* Not looked at: still news. */
    ps_blocking_view(&blocking, &view);
    ck_assert_uint_eq(view.min_clock, 8);
    ck_assert(!ps_blocking_wait_change(&blocking, 1));
    stop();
}
END_TEST

static enum fake_fate hold(struct fake_cluster *fake PS_UNUSED, uint32_t server PS_UNUSED)
{
    return FATE_HOLD;
}

START_TEST(closing_ends_what_was_started)
{
    start(_i);
    struct ps_tensor to = {.table = define(), .values = weights};
    cluster->fate = hold;
    struct ps_pull_op pull = {.tensors = &to, .n_tensors = 1};
    ps_blocking_pull_start(&blocking, &pull);
    stop();
    ck_assert_ptr_null(pull.op.arg);
    ck_assert_int_eq(pull.op.err.status, PS_ERR_CANCELED);
}
END_TEST

static Suite *suite_blocking(void)
{
    Suite *suite = suite_create("blocking");
    TCase *tcase = tcase_create("thread and inline");
    tcase_add_loop_test(tcase, a_thread_defines_pushes_pulls_and_leaves, 0, 2);
    tcase_add_loop_test(tcase, a_failure_comes_with_its_words, 0, 2);
    tcase_add_loop_test(tcase, a_change_wakes_the_waiter_and_none_is_missed, 0, 2);
    tcase_add_loop_test(tcase, closing_ends_what_was_started, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_blocking)
