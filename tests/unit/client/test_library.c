/*
 * test_library.c — <ps/client.h> over a fake cluster, with both kinds of executors: a thread of
 * its own, and an inline one that the waiting thread pumps. Real time, but nothing waits for it.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include "lib/test_main.h"
#include "library_rig.h"
#include "suites.h"

#define N_THREADS 6
#define N_PUSHES  10     /* Of each. */
#define PATIENCE  10000u /* For what comes at once, on a busy machine. */

/* ---- One thread ---------------------------------------------------------------------------- */

START_TEST(a_thread_defines_pushes_pulls_and_leaves)
{
    library_start(_i);
    struct ps_table table = library_define();
    struct ps_table found = {0};
    ck_assert_int_eq(ps_client_table(client, "w", &found, NULL), PS_OK);
    ck_assert_uint_eq(found.number, table.number);
    ck_assert_uint_eq(found.n_elements, N_ELEMENTS);
    ck_assert_str_eq(found.name, "w");
    struct ps_tensor from = {.table = table.number, .values = gradient};
    struct ps_tensor to = {.table = table.number, .values = weights};
    for (uint64_t step = 0; step < 20; step++) {
        struct ps_push push = {.sequence = step, .step = step, .tensors = &from, .n_tensors = 1};
        struct ps_pull pull = {.step = step + 1, .tensors = &to, .n_tensors = 1};
        ck_assert_int_eq(ps_client_push_pull_start(client, &push, &pull, NULL), PS_OK);
        ck_assert_ptr_nonnull(push.under_way);
        ck_assert_int_eq(ps_client_push_wait(client, &push, NULL), PS_OK);
        ck_assert_int_eq(ps_client_pull_wait(client, &pull, NULL), PS_OK);
        ck_assert_ptr_null(pull.under_way);
        ck_assert(weights[199] == -99.0f * (float)(step + 1));
        struct ps_worker_report report = {.clock = step + 1};
        ps_client_report(client, &report);
    }
    struct ps_view view;
    ps_client_view(client, &view);
    ck_assert_uint_eq(view.n_bytes_pushed, 20ull * N_ELEMENTS * sizeof(float));
    ps_client_close(client);
    ck_assert_uint_eq(cluster->last_clock, 20); /* Reports that were made are sent. */
    client = NULL;
    library_stop();
}
END_TEST

START_TEST(a_step_allocates_nothing_once_it_was_done_before)
{
    library_start(_i);
    struct ps_table table = library_define();
    struct ps_tensor from = {.table = table.number, .values = gradient};
    struct ps_tensor to = {.table = table.number, .values = weights};
    uint64_t n_before = 0;
    for (uint64_t step = 0; step < 40; step++) {
        struct ps_push push = {.sequence = step, .step = step, .tensors = &from, .n_tensors = 1};
        struct ps_pull pull = {.step = step + 1, .tensors = &to, .n_tensors = 1};
        ck_assert_int_eq(ps_client_push(client, &push, NULL), PS_OK);
        ck_assert_int_eq(ps_client_pull(client, &pull, NULL), PS_OK);
        if (step == 10) {
            n_before = atomic_load(&client->mem.n_calls);
        }
    }
    ck_assert_uint_eq(atomic_load(&client->mem.n_calls), n_before);
    library_stop();
}
END_TEST

START_TEST(a_failure_comes_with_its_words)
{
    library_start(_i);
    struct ps_tensor unknown = {.table = 7, .values = gradient};
    struct ps_push push = {.tensors = &unknown, .n_tensors = 1};
    struct ps_error err = {0};
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(err.status, PS_ERR_NOT_FOUND);
    ck_assert_str_eq(err.text, "table 7 is not known");
    ck_assert_int_eq(ps_client_push(client, &push, NULL), PS_ERR_NOT_FOUND);
    struct ps_pull pull = {.n_tensors = 1};
    ck_assert_int_eq(ps_client_pull(client, &pull, &err), PS_ERR_INVALID);
    struct ps_table table = {0};
    ck_assert_int_eq(ps_client_table(client, "none", &table, &err), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(err.text, "the cluster has no table 'none'");
    static const struct ps_table_def bad[] = {
        {.name = "odd", .n_dims = 0, .optimizer = "sgd"},
        {.name = "odd", .n_dims = PS_DIMS_MAX + 1, .optimizer = "sgd"},
        {.name = "odd", .n_dims = 2, .shape = {UINT64_MAX, 2}, .optimizer = "sgd"},
        {.n_dims = 1, .shape = {1}, .optimizer = "sgd"},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(ps_client_define_table(client, &bad[i], &table, &err), PS_ERR_INVALID);
        ck_assert_int_eq(ps_client_define_table(client, &bad[i], NULL, NULL), PS_ERR_INVALID);
    }
    library_stop();
}
END_TEST

START_TEST(what_is_waited_for_must_have_been_started_and_only_once)
{
    library_start(_i);
    struct ps_tensor to = {.table = library_define().number, .values = weights};
    struct ps_pull pull = {.tensors = &to, .n_tensors = 1};
    struct ps_push push = {0};
    ck_assert_int_eq(ps_client_pull_wait(client, &pull, NULL), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_push_wait(client, &push, NULL), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_pull_start(client, &pull, NULL), PS_OK);
    ck_assert_int_eq(ps_client_pull_start(client, &pull, NULL), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_push_pull_start(client, &push, &pull, NULL), PS_ERR_INVALID);
    ck_assert_ptr_null(push.under_way);
    ck_assert_int_eq(ps_client_pull_wait(client, &pull, NULL), PS_OK);
    ck_assert_int_eq(ps_client_pull_wait(client, &pull, NULL), PS_ERR_INVALID);
    pull.under_way = &pull; /* Never filled in by us. */
    ck_assert_int_eq(ps_client_pull_wait(client, &pull, NULL), PS_ERR_INVALID);
    library_stop();
}
END_TEST

static void send_state(void)
{
    cluster->min_clock = 8;
    fake_state(cluster, true);
}

START_TEST(a_change_wakes_the_waiter_and_none_is_missed)
{
    library_start(_i);
    struct ps_view view = {0};
    ck_assert(ps_client_wait_change(client, &view, PATIENCE)); /* Against nothing: at once. */
    while (ps_client_wait_change(client, &view, 20)) { /* Until all news of joining are seen. */
    }
    struct ps_view other = view;
    library_do(_i, send_state);
    ck_assert(ps_client_wait_change(client, &view, PATIENCE));
    ck_assert_uint_eq(view.min_clock, 8);
    ck_assert(!ps_client_wait_change(client, &view, 1));
    ck_assert(ps_client_wait_change(client, &other, PATIENCE)); /* For somebody else still news. */
    ck_assert_uint_eq(other.min_clock, 8);
    library_stop();
}
END_TEST

static void make_table(void)
{
    (void)fake_table(cluster, "w", N_ELEMENTS);
    cluster->gated = true;
}

START_TEST(a_reader_looks_up_and_pulls_without_waiting_for_anybody)
{
    library_start_as(_i, PS_CLIENT_READER);
    library_do(_i, make_table);
    struct ps_table table;
    ck_assert_int_eq(ps_client_table(client, "w", &table, NULL), PS_OK);
    struct ps_tensor to = {.table = table.number, .values = weights};
    struct ps_pull pull = {.tensors = &to, .n_tensors = 1, .step = 1000};
    ck_assert_int_eq(ps_client_pull(client, &pull, NULL), PS_OK);
    library_stop();
}
END_TEST

static void make_rows(void)
{
    for (uint32_t i = 0; i < 100; i++) {
        fake_row(cluster, 0, i)->values[1] = (float)i;
    }
}

START_TEST(a_scan_hands_out_all_rows_room_by_room)
{
    uint64_t keys[7];
    float values[7][2];
    bool met[100] = {false};
    library_start(_i);
    struct ps_table table;
    struct ps_table_def def = {.name = "rows", .width = 2};
    ck_assert_int_eq(ps_client_define_table(client, &def, &table, NULL), PS_OK);
    library_do(_i, make_rows);
    struct ps_scan scan = {
        .table = table.number, .keys = keys, .values = values[0], .n_room = 7, .skip_zeros = true};
    uint32_t n = 0;
    while (!scan.done) {
        ck_assert_int_eq(ps_client_scan(client, &scan, NULL), PS_OK);
        ck_assert(scan.n == 7 || scan.done);
        for (uint32_t i = 0; i < scan.n; i++) {
            ck_assert(keys[i] > 0 && keys[i] < 100 && !met[keys[i]]);
            ck_assert(values[i][0] == 0.0f && values[i][1] == (float)keys[i]);
            met[keys[i]] = true;
        }
        n += scan.n;
    }
    ck_assert_uint_eq(n, 99);
    scan = (struct ps_scan){.table = table.number, .keys = keys, .n_room = 7};
    ck_assert_int_eq(ps_client_scan(client, &scan, NULL), PS_ERR_INVALID);
    scan =
        (struct ps_scan){.table = table.number + 1, .keys = keys, .values = values[0], .n_room = 7};
    struct ps_error err;
    ck_assert_int_eq(ps_client_scan(client, &scan, &err), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_client_scan(client, NULL, &err), PS_ERR_INVALID);
    ck_assert_str_eq(err.text, "scan is NULL");
    library_stop();
}
END_TEST

START_TEST(a_look_at_the_cluster_outlives_the_client)
{
    library_start(_i);
    (void)library_define();
    struct ps_cluster *look = NULL;
    ck_assert_int_eq(ps_client_describe(client, &look, NULL), PS_OK);
    library_stop();
    ck_assert_int_eq(look->job, PS_JOB_RUNNING);
    ck_assert(look->has_definition);
    ck_assert_str_eq(look->definition.model, "mlp");
    ck_assert_uint_eq(look->rows, 60000);
    ck_assert_uint_eq(look->n_servers, 2);
    ck_assert_uint_eq(look->n_tables, 1);
    ck_assert_str_eq(look->tables[0].name, "w");
    ck_assert_str_eq(look->tables[0].optimizer, "sgd");
    ck_assert_uint_eq(look->n_members, 1);
    ck_assert_str_eq(look->members[0].kind, "server");
    ck_assert_str_eq(look->members[0].name, "server-1");
    ck_assert_str_eq(look->members[0].state, "live");
    ck_assert_str_eq(look->members[0].address, "");
    ck_assert_uint_eq(look->members[0].bytes_copied, 7);
    ck_assert_str_eq(look->members[0].durability, "fsync");
    ck_assert_str_eq(look->durability, "log");
    ck_assert_str_eq(look->snapshot_failed, "");
    ck_assert_uint_eq(look->n_snapshots, 1);
    ck_assert_str_eq(look->snapshots[0].name, "000000-0000000002");
    ck_assert_str_eq(look->snapshots[0].dir, "/snapshots");
    ck_assert(look->snapshots[0].exact);
    ck_assert_uint_eq(look->n_away, 1);
    ck_assert_uint_eq(look->away[0].server, 1);
    ck_assert_uint_eq(look->away[0].left_ms, 5000);
    ck_assert_str_eq(look->away[0].address, "server-1:1");
    ck_assert_str_eq(look->away[0].why, "");
    ps_cluster_free(look);
    ps_cluster_free(NULL);
}
END_TEST

/* ---- Ends ---------------------------------------------------------------------------------- */

static enum fake_fate hold(struct fake_cluster *fake PS_UNUSED, uint32_t server PS_UNUSED)
{
    return FATE_HOLD;
}

static void hold_all(void)
{
    cluster->fate = hold;
}

START_TEST(so_many_are_under_way_and_no_more_and_closing_ends_them)
{
    library_start(_i);
    struct ps_tensor to = {.table = library_define().number, .values = weights};
    library_do(_i, hold_all);
    struct ps_pull pulls[PS_CLIENT_OPERATIONS_MAX + 1] = {{0}};
    for (uint32_t i = 0; i <= PS_CLIENT_OPERATIONS_MAX; i++) {
        pulls[i].tensors = &to;
        pulls[i].n_tensors = 1;
    }
    for (uint32_t i = 0; i < PS_CLIENT_OPERATIONS_MAX; i++) {
        ck_assert_int_eq(ps_client_pull_start(client, &pulls[i], NULL), PS_OK);
    }
    struct ps_error err;
    struct ps_pull *last = &pulls[PS_CLIENT_OPERATIONS_MAX];
    ck_assert_int_eq(ps_client_pull_start(client, last, &err), PS_ERR_BUSY);
    ck_assert_ptr_null(last->under_way);
    library_stop();
    for (uint32_t i = 0; i < PS_CLIENT_OPERATIONS_MAX; i++) {
        ck_assert_ptr_null(pulls[i].under_way);
    }
}
END_TEST

START_TEST(a_push_and_a_pull_that_do_not_both_fit_are_not_started)
{
    library_start(_i);
    struct ps_tensor to = {.table = library_define().number, .values = weights};
    library_do(_i, hold_all);
    struct ps_pull pulls[PS_CLIENT_OPERATIONS_MAX] = {{0}};
    for (uint32_t i = 0; i < PS_CLIENT_OPERATIONS_MAX - 1; i++) {
        pulls[i].tensors = &to;
        pulls[i].n_tensors = 1;
        ck_assert_int_eq(ps_client_pull_start(client, &pulls[i], NULL), PS_OK);
    }
    struct ps_push push = {.tensors = &to, .n_tensors = 1};
    struct ps_pull *pull = &pulls[PS_CLIENT_OPERATIONS_MAX - 1];
    ck_assert_int_eq(ps_client_push_pull_start(client, &push, pull, NULL), PS_ERR_BUSY);
    ck_assert_ptr_null(push.under_way);
    ck_assert_ptr_null(pull->under_way);
    pull->tensors = &to;
    pull->n_tensors = 1;
    ck_assert_int_eq(ps_client_pull_start(client, pull, NULL), PS_OK); /* Its place is free. */
    library_stop();
}
END_TEST

static void be_silent(void)
{
    cluster->silent = true;
}

START_TEST(an_open_that_fails_leaves_nothing)
{
    struct ps_client_ports ports = library_ports(_i);
    struct ps_error err = {0};
    struct ps_client_options options = {0};
    ck_assert_int_eq(ps_client_open_over(&ports, &options, &client, &err), PS_ERR_INVALID);
    options.coordinator = "coordinator:1";
    options.name = "not a name";
    ck_assert_int_eq(ps_client_open_over(&ports, &options, &client, &err), PS_ERR_INVALID);
    options.name = NULL;
    options.memory_bytes = 1000;
    ck_assert_int_eq(ps_client_open_over(&ports, &options, &client, &err), PS_ERR_NOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "its bound is 1000"));
    library_do(_i, be_silent);
    options.memory_bytes = 0;
    options.call_timeout_ms = 10;
    options.open_timeout_ms = 50;
    ck_assert_int_eq(ps_client_open_over(&ports, &options, &client, &err), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(err.text, "coordinator:1"));
    ps_client_close(NULL);
    library_drop_ports();
}
END_TEST

START_TEST(what_the_budget_has_no_room_for_is_refused_and_nothing_is_lost)
{
    struct ps_client_ports ports = library_ports(_i);
    struct ps_client_options options = {.coordinator = "coordinator:1", .memory_bytes = 4u << 20};
    ck_assert_int_eq(ps_client_open_over(&ports, &options, &client, NULL), PS_OK);
    gradient = calloc(N_ELEMENTS, sizeof(float));
    weights = calloc(N_ELEMENTS, sizeof(float));
    struct ps_tensor to = {.table = library_define().number, .values = weights};
    struct ps_pull pull = {.tensors = &to, .n_tensors = 1};
    ck_assert_int_eq(ps_client_pull(client, &pull, NULL), PS_OK);
    atomic_store(&client->mem.fail_after, 0);
    ck_assert_int_eq(ps_client_define_job(client, &(struct ps_job_def){.model = "m"}, NULL),
                     PS_ERR_NOMEM);
    ck_assert_int_eq(ps_client_pull(client, &pull, NULL), PS_OK); /* Needs none. */
    atomic_store(&client->mem.fail_after, -1);
    library_stop();
}
END_TEST

/* Whatever the bound is, nothing waits for memory that will not come. */
START_TEST(a_budget_of_any_size_ends_every_call)
{
    gradient = calloc(N_ELEMENTS, sizeof(float));
    weights = calloc(N_ELEMENTS, sizeof(float));
    bool whole = false;
    uint32_t n_opened = 0;
    for (uint64_t bytes = 100000; !whole; bytes += 150) {
        ck_assert_uint_lt(bytes, 8u << 20);
        struct ps_client_ports ports = library_ports(THREAD);
        struct ps_client_options options = {.coordinator = "coordinator:1",
                                            .memory_bytes = bytes,
                                            .call_timeout_ms = 20,
                                            .give_up_ms = 100,
                                            .open_timeout_ms = 50};
        struct ps_error err = {0};
        enum ps_status status = ps_client_open_over(&ports, &options, &client, &err);
        if (status == PS_OK) {
            n_opened++;
            struct ps_table_def def = {
                .name = "w", .n_dims = 1, .shape = {N_ELEMENTS}, .optimizer = "sgd"};
            struct ps_table table = {0};
            status = ps_client_define_table(client, &def, &table, &err);
            struct ps_tensor tensor = {.table = table.number, .values = gradient};
            struct ps_tensor to = {.table = table.number, .values = weights};
            struct ps_push push = {.tensors = &tensor, .n_tensors = 1, .rows = 1, .rate = 1.0f};
            struct ps_pull pull = {.tensors = &to, .n_tensors = 1, .no_clock = true};
            if (status == PS_OK) {
                status = ps_client_push_pull_start(client, &push, &pull, &err);
            }
            if (status == PS_OK) {
                status = ps_client_push_wait(client, &push, &err);
                enum ps_status pulled = ps_client_pull_wait(client, &pull, &err);
                status = status == PS_OK ? pulled : status;
            }
            ps_client_close(client);
        }
        ck_assert_msg(status == PS_OK || status == PS_ERR_NOMEM, "%llu: %d %s",
                      (unsigned long long)bytes, (int)status, err.text);
        whole = status == PS_OK;
        library_drop_ports();
    }
    ck_assert_uint_gt(n_opened, 3);
    free(gradient);
    free(weights);
}
END_TEST

/* ---- Many threads -------------------------------------------------------------------------- */

struct worker {
    pthread_t id;
    uint32_t number;
    uint32_t table;
    float *values;
    enum ps_status status;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct ps_tensor from = {.table = worker->table, .values = gradient};
    struct ps_tensor to = {.table = worker->table, .values = worker->values};
    for (uint64_t i = 0; i < N_PUSHES && worker->status == PS_OK; i++) {
        struct ps_push push = {.sequence = i * N_THREADS + worker->number,
                               .step = i,
                               .tensors = &from,
                               .n_tensors = 1};
        struct ps_pull pull = {.tensors = &to, .n_tensors = 1};
        worker->status = ps_client_push(client, &push, NULL);
        if (worker->status == PS_OK) {
            worker->status = ps_client_pull(client, &pull, NULL);
        }
        struct ps_view view;
        ps_client_view(client, &view);
        ps_client_report(client, &(struct ps_worker_report){.clock = i});
        struct ps_table table;
        if (worker->status == PS_OK && i % 5 == 0) {
            worker->status = ps_client_table(client, "w", &table, NULL);
        }
    }
    return NULL;
}

START_TEST(several_threads_use_one_client_at_once)
{
    library_start(THREAD);
    uint32_t table = library_define().number;
    struct worker workers[N_THREADS] = {{0}};
    for (uint32_t i = 0; i < N_THREADS; i++) {
        workers[i].number = i;
        workers[i].table = table;
        workers[i].values = calloc(N_ELEMENTS, sizeof(float));
        ck_assert_int_eq(pthread_create(&workers[i].id, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].id, NULL), 0);
        ck_assert_int_eq(workers[i].status, PS_OK);
        free(workers[i].values);
    }
    struct ps_tensor to = {.table = table, .values = weights};
    struct ps_pull pull = {.tensors = &to, .n_tensors = 1};
    ck_assert_int_eq(ps_client_pull(client, &pull, NULL), PS_OK);
    for (uint32_t i = 0; i < N_ELEMENTS; i++) {
        ck_assert(weights[i] == -1.0f * N_PUSHES * N_THREADS * gradient[i]); /* Each once. */
    }
    library_stop();
}
END_TEST

static void *pull_until_canceled(void *arg)
{
    struct worker *worker = arg;
    struct ps_tensor to = {.table = worker->table, .values = worker->values};
    struct ps_pull pull = {.tensors = &to, .n_tensors = 1};
    worker->status = ps_client_pull(client, &pull, NULL);
    return NULL;
}

/* News wakes it, too: from then on that the client is to be closed it does not come back. */
static _Atomic bool closes;
static _Atomic bool has_left;

static void *wait_until_canceled(void *arg)
{
    struct worker *worker = arg;
    struct ps_view view = {0};
    do {
        ps_client_view(client, &view);
    } while (!atomic_load(&closes) && ps_client_wait_change(client, &view, 600000) &&
             !atomic_load(&closes));
    worker->status = PS_ERR_CANCELED;
    atomic_store(&has_left, true);
    return NULL;
}

static uint32_t n_inside(void)
{
    ps_client_lock(client);
    uint32_t n = client->n_inside;
    ps_client_unlock(client);
    return n;
}

START_TEST(close_lets_everybody_out_first)
{
    library_start(THREAD);
    uint32_t table = library_define().number;
    library_do(THREAD, hold_all);
    struct worker workers[4] = {{0}};
    for (uint32_t i = 0; i < 4; i++) {
        workers[i].table = table;
        workers[i].values = calloc(N_ELEMENTS, sizeof(float));
        ck_assert_int_eq(pthread_create(&workers[i].id, NULL,
                                        i < 3 ? pull_until_canceled : wait_until_canceled,
                                        &workers[i]),
                         0);
    }
    while (n_inside() < 4 + 3) { /* A whole call counts its halves, too. */
        sched_yield();
    }
    atomic_store(&closes, true);
    while (n_inside() < 4 + 3 && !atomic_load(&has_left)) { /* It may be on its way in. */
        sched_yield();
    }
    ps_client_close(client);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(workers[i].id, NULL), 0);
        ck_assert_int_eq(workers[i].status, PS_ERR_CANCELED);
        free(workers[i].values);
    }
    library_drop_ports();
    free(gradient);
    free(weights);
}
END_TEST

static void *ask_for_a_unit(void *arg)
{
    struct worker *worker = arg;
    struct ps_unit unit;
    worker->status = ps_client_next_unit(client, &unit, PS_FOREVER_MS, NULL);
    return NULL;
}

START_TEST(who_waits_while_the_program_is_asked_to_end_is_let_go)
{
    library_start(THREAD);
    uint32_t table = library_define().number;
    struct ps_job_def job = {.rows = 10, .batch = 5, .epochs = 1};
    ck_assert_int_eq(ps_client_define_job(client, &job, NULL), PS_OK);
    library_do(THREAD, hold_all);
    struct worker workers[2] = {{0}};
    for (uint32_t i = 0; i < 2; i++) {
        workers[i].table = table;
        workers[i].values = calloc(N_ELEMENTS, sizeof(float));
        ck_assert_int_eq(pthread_create(&workers[i].id, NULL,
                                        i == 0 ? pull_until_canceled : ask_for_a_unit, &workers[i]),
                         0);
    }
    while (n_inside() < 2 + 1) {
        sched_yield();
    }
    ps_client_cancel(client);
    ps_client_cancel(client);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(workers[i].id, NULL), 0);
        ck_assert_int_eq(workers[i].status, PS_ERR_CANCELED);
        free(workers[i].values);
    }
    ck_assert_int_eq(ps_client_table(client, "w", &(struct ps_table){0}, NULL), PS_ERR_CANCELED);
    ps_client_cancel(NULL);
    library_stop(); /* It has left in order. */
}
END_TEST

Suite *suite_library(void)
{
    Suite *suite = suite_create("library");
    TCase *one = tcase_create("thread and inline");
    tcase_set_timeout(one, 60);
    tcase_add_loop_test(one, a_thread_defines_pushes_pulls_and_leaves, THREAD, INLINE + 1);
    tcase_add_loop_test(one, a_step_allocates_nothing_once_it_was_done_before, THREAD, INLINE + 1);
    tcase_add_loop_test(one, a_failure_comes_with_its_words, THREAD, INLINE + 1);
    tcase_add_loop_test(one, what_is_waited_for_must_have_been_started_and_only_once, THREAD,
                        INLINE + 1);
    tcase_add_loop_test(one, a_change_wakes_the_waiter_and_none_is_missed, THREAD, INLINE + 1);
    tcase_add_loop_test(one, a_reader_looks_up_and_pulls_without_waiting_for_anybody, THREAD,
                        INLINE + 1);
    tcase_add_loop_test(one, a_scan_hands_out_all_rows_room_by_room, THREAD, INLINE + 1);
    tcase_add_loop_test(one, a_look_at_the_cluster_outlives_the_client, THREAD, INLINE + 1);
    tcase_add_loop_test(one, so_many_are_under_way_and_no_more_and_closing_ends_them, THREAD,
                        INLINE + 1);
    tcase_add_loop_test(one, a_push_and_a_pull_that_do_not_both_fit_are_not_started, THREAD,
                        INLINE + 1);
    tcase_add_loop_test(one, an_open_that_fails_leaves_nothing, THREAD, INLINE + 1);
    tcase_add_test(one, a_budget_of_any_size_ends_every_call);
    tcase_add_loop_test(one, what_the_budget_has_no_room_for_is_refused_and_nothing_is_lost, THREAD,
                        INLINE + 1);
    suite_add_tcase(suite, one);
    TCase *many = tcase_create("many threads");
    tcase_set_timeout(many, 120);
    tcase_add_test(many, several_threads_use_one_client_at_once);
    tcase_add_test(many, close_lets_everybody_out_first);
    tcase_add_test(many, who_waits_while_the_program_is_asked_to_end_is_let_go);
    suite_add_tcase(suite, many);
    return suite;
}

PS_TEST_MAIN(suite_library, suite_units, suite_unit_parts)
