/*
 * test_units.c — unit after unit as <ps/client.h> hands them out: which rows, which clock, what is
 * reported, when the next one comes; what is refused before anything is sent; what zero means.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client_impl.h"
#include "lib/test_main.h"
#include "library_rig.h"
#include "suites.h"

#define PATIENCE 10000u /* For what comes at once, on a busy machine. */
#define ROWS     18u
#define BATCH    5u

static struct fake_lease lease;
static struct ps_error err;

static void send_lease(void)
{
    fake_state_lease(cluster, &lease);
}

/* The coordinator says so, and the client has heard it. */
static void say(int kind, struct fake_lease news)
{
    lease = news;
    library_do(kind, send_lease);
    struct ps_view view = {0};
    do {
        (void)ps_client_wait_change(client, &view, 10);
    } while (!view.fenced && (view.lease.id != news.id || (int)view.job != news.job ||
                              view.min_clock != cluster->min_clock));
}

static const struct fake_lease first_lease = {.id = 3,
                                              .epoch = 1,
                                              .first_row = 10,
                                              .unit_rows = BATCH,
                                              .stride = BATCH,
                                              .n_units = 2,
                                              .clock = 7,
                                              .job = PS_JOB_RUNNING};

static const struct ps_job_def job = {.rows = ROWS,
                                      .batch = BATCH,
                                      .epochs = 2,
                                      .consistency = {.mode = PS_CONSISTENCY_SSP, .bound = 2}};

static const struct ps_job_def averaged_job = {
    .rows = ROWS, .batch = BATCH, .epochs = 2, .consistency = {.aggregate = true}};

static void define_job(const struct ps_job_def *def)
{
    ck_assert_msg(ps_client_define_job(client, def, &err) == PS_OK, "%s", err.text);
}

static struct ps_unit next(void)
{
    struct ps_unit unit;
    ck_assert_msg(ps_client_next_unit(client, &unit, PATIENCE, &err) == PS_OK, "%s", err.text);
    return unit;
}

static void no_unit(uint32_t timeout_ms)
{
    struct ps_unit unit = {.n_rows = 77};
    ck_assert_int_eq(ps_client_next_unit(client, &unit, timeout_ms, &err), PS_ERR_TIMEOUT);
    ck_assert_uint_eq(unit.n_rows, 0);
}

static void done(const struct ps_unit *unit, double loss)
{
    ck_assert_msg(ps_client_unit_done(client, unit, loss, &err) == PS_OK, "%s", err.text);
}

/* ---- Units --------------------------------------------------------------------------------- */

static void expect_report(void)
{
    ck_assert_uint_eq(cluster->last_lease, 3);
    ck_assert_uint_eq(cluster->last_units_done, 2);
    ck_assert_uint_eq(cluster->last_clock, 9);
    ck_assert_uint_eq(cluster->last_loss_epoch, 1);
    ck_assert_uint_eq(cluster->last_loss_rows, 8);
    ck_assert(cluster->last_loss_sum > 2.9 && cluster->last_loss_sum < 3.1);
}

START_TEST(units_come_one_by_one_with_rows_and_clock_and_are_reported)
{
    library_start(_i);
    define_job(&job);
    no_unit(1); /* The job is not running yet. */
    say(_i, first_lease);
    struct ps_unit unit = next();
    ck_assert_uint_eq(unit.lease, 3);
    ck_assert_uint_eq(unit.index, 0);
    ck_assert_uint_eq(unit.step, 7);
    ck_assert_uint_eq(unit.epoch, 1);
    ck_assert_uint_eq(unit.first, 10);
    ck_assert_uint_eq(unit.n_rows, 5);
    ck_assert(!unit.last);
    struct ps_unit again = next();
    ck_assert(again.lease == unit.lease && again.index == unit.index && again.step == unit.step);
    ck_assert(again.first == unit.first && again.n_rows == unit.n_rows);
    done(&unit, 1.0);
    ck_assert_int_eq(ps_client_unit_done(client, &unit, 1.0, &err), PS_ERR_INVALID);
    unit = next();
    ck_assert_uint_eq(unit.index, 1);
    ck_assert_uint_eq(unit.step, 8);
    ck_assert_uint_eq(unit.first, 15);
    ck_assert_uint_eq(unit.n_rows, 3); /* The data ends. */
    ck_assert(unit.last);
    done(&unit, 2.0);
    no_unit(20); /* Its lease is still in view, finished. */
    library_do(_i, expect_report);
    say(_i, (struct fake_lease){
                .id = 5, .unit_rows = 5, .stride = 5, .n_units = 1, .clock = 12, .job = 2});
    unit = next();
    ck_assert_uint_eq(unit.step, 12); /* It was idle, and others went on. */
    done(&unit, (double)NAN);         /* Spoils nothing. */
    say(_i, (struct fake_lease){.job = PS_JOB_DONE});
    ck_assert_uint_eq(next().n_rows, 0);
    library_stop();
}
END_TEST

START_TEST(a_lease_that_was_begun_by_another_goes_on_where_it_stands)
{
    library_start(_i);
    define_job(&job);
    struct fake_lease begun = first_lease;
    begun.units_done = 1;
    say(_i, begun);
    struct ps_unit unit = next();
    ck_assert_uint_eq(unit.index, 1);
    ck_assert_uint_eq(unit.step, 7);
    library_stop();
}
END_TEST

static void expect_staged(void)
{
    ck_assert_uint_eq(cluster->last_staged_step, 8);
    ck_assert_uint_eq(cluster->last_staged_rows, 5);
    ck_assert_uint_eq(cluster->last_units_done, 0); /* The coordinator alone counts. */
}

START_TEST(an_averaged_step_is_waited_for_and_the_lease_says_what_it_held)
{
    library_start(_i);
    cluster->mode = PS_CONSISTENCY_BSP;
    define_job(&averaged_job);
    say(_i, first_lease);
    struct ps_unit unit = next();
    done(&unit, 1.0);
    no_unit(20);
    library_do(_i, expect_staged);
    cluster->min_clock = 8; /* Closed, without us. */
    say(_i, first_lease);
    unit = next();
    ck_assert_uint_eq(unit.index, 0);
    ck_assert_uint_eq(unit.step, 8);
    done(&unit, 1.0);
    cluster->min_clock = 9;
    struct fake_lease counted = first_lease;
    counted.units_done = 1;
    say(_i, counted);
    unit = next();
    ck_assert_uint_eq(unit.index, 1);
    ck_assert_uint_eq(unit.step, 9);
    library_stop();
}
END_TEST

static void expect_empty(void)
{
    ck_assert_uint_eq(cluster->last_staged_step, 8);
    ck_assert_uint_eq(cluster->last_staged_rows, 0);
}

START_TEST(a_unit_without_rows_is_staged_without_asking)
{
    library_start(_i);
    define_job(&averaged_job);
    struct fake_lease beyond = first_lease;
    beyond.first_row = ROWS;
    say(_i, beyond);
    no_unit(20);
    library_do(_i, expect_empty);
    library_stop();
}
END_TEST

static enum ps_status late(struct fake_cluster *fake PS_UNUSED, uint32_t server PS_UNUSED,
                           uint32_t slot PS_UNUSED, bool push)
{
    return push ? PS_ERR_LATE : PS_OK;
}

static void be_late(void)
{
    cluster->judge = late;
}

START_TEST(a_push_that_came_too_late_is_asked_for_again_when_the_step_is_closed)
{
    library_start(_i);
    define_job(&averaged_job);
    struct ps_tensor from = {.table = library_define().number, .values = gradient};
    say(_i, first_lease);
    library_do(_i, be_late);
    struct ps_unit unit = next();
    struct ps_push push = {.unit = &unit, .tensors = &from, .n_tensors = 1};
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_LATE);
    no_unit(20);
    cluster->min_clock = 8;
    say(_i, first_lease);
    unit = next();
    ck_assert_uint_eq(unit.index, 0);
    ck_assert_uint_eq(unit.step, 8);
    library_stop();
}
END_TEST

START_TEST(who_is_lent_nothing_is_told_so)
{
    library_start(_i);
    struct ps_unit unit;
    ck_assert_int_eq(ps_client_next_unit(client, &unit, 0, &err), PS_ERR_INVALID); /* No job. */
    define_job(&job);
    struct fake_lease odd = first_lease;
    odd.epoch = 2;
    say(_i, odd);
    ck_assert_int_eq(ps_client_next_unit(client, &unit, PATIENCE, &err), PS_ERR_INTERNAL);
    say(_i, (struct fake_lease){.job = PS_JOB_STOPPED});
    ck_assert_uint_eq(next().n_rows, 0);
    say(_i, (struct fake_lease){.fenced = true, .reason = "too silent", .cluster = 7});
    ck_assert_int_eq(ps_client_next_unit(client, &unit, PATIENCE, &err), PS_ERR_FENCED);
    ps_client_close(client); /* It does not take its leave of those who have closed it. */
    library_drop_ports();
    free(gradient);
    free(weights);
    library_start_as(_i, PS_CLIENT_READER);
    ck_assert_int_eq(ps_client_next_unit(client, &unit, 0, &err), PS_ERR_DENIED);
    library_stop();
}
END_TEST

START_TEST(an_unleased_worker_says_so_when_it_joins)
{
    struct ps_client_ports ports = library_ports(_i);
    struct ps_client_options options = {
        .coordinator = "coordinator:1", .unleased = true, .kind = PS_CLIENT_READER};
    ck_assert_int_eq(ps_client_open_over(&ports, &options, &client, &err), PS_ERR_INVALID);
    options.kind = PS_CLIENT_WORKER;
    ck_assert_int_eq(ps_client_open_over(&ports, &options, &client, &err), PS_OK);
    struct ps_unit unit;
    ck_assert_int_eq(ps_client_next_unit(client, &unit, 0, &err), PS_ERR_DENIED);
    gradient = NULL;
    weights = NULL;
    ps_client_close(client);
    client = NULL;
    ck_assert(cluster->unleased);
    library_drop_ports();
}
END_TEST

/* ---- Figures ------------------------------------------------------------------------------- */

static void expect_figures(void)
{
    ck_assert_uint_eq(cluster->last_stats.units, 1);
    ck_assert_uint_eq(cluster->last_stats.rows, 5);
    ck_assert_uint_eq(cluster->last_stats.staleness_sum, 3);
    ck_assert_uint_eq(cluster->last_stats.staleness_max, 3);
    ck_assert_uint_gt(cluster->last_stats.busy_us, 0);
    ck_assert_uint_gt(cluster->last_stats.blocked_network_us, 0);
}

START_TEST(what_a_worker_does_with_its_time_is_counted_by_the_library)
{
    library_start(_i);
    define_job(&job);
    struct ps_tensor from = {.table = library_define().number, .values = gradient};
    struct ps_push apart = {.tensors = &from, .n_tensors = 1, .step = 50, .rows = 1};
    ck_assert_int_eq(ps_client_push(client, &apart, &err), PS_OK); /* Of no lease: not counted. */
    struct ps_view view;
    ps_client_view(client, &view);
    ck_assert_uint_eq(view.stats.busy_us, 0);
    ck_assert_uint_eq(view.stats.blocked_network_us, 0);
    say(_i, first_lease);
    struct ps_unit unit = next();
    struct ps_push push = {.unit = &unit, .tensors = &from, .n_tensors = 1, .read_clock = 4};
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_OK);
    done(&unit, 0.0);
    say(_i, (struct fake_lease){.job = PS_JOB_RUNNING}); /* Idle. */
    no_unit(20);
    ps_client_view(client, &view);
    ck_assert_uint_eq(view.stats.units, 1);
    ck_assert_uint_ge(view.stats.blocked_lease_us, 10000);
    ck_assert_uint_ge(view.stats.busy_us, view.stats.blocked_lease_us);
    library_do(_i, expect_figures);
    library_stop();
}
END_TEST

/* ---- Ends and refusals --------------------------------------------------------------------- */

static void shut_gate(void)
{
    cluster->gated = true;
    cluster->mode = PS_CONSISTENCY_BSP;
    fake_state(cluster, true);
}

START_TEST(a_pull_that_nobody_will_ever_answer_ends_with_the_job)
{
    library_start(_i);
    struct ps_tensor to = {.table = library_define().number, .values = weights};
    library_do(_i, shut_gate);
    struct ps_push push = {.tensors = &to, .n_tensors = 1};
    struct ps_pull alone = {.tensors = &to, .n_tensors = 1, .step = 100};
    struct ps_pull beside = alone;
    ck_assert_int_eq(ps_client_pull_start(client, &alone, &err), PS_OK);
    ck_assert_int_eq(ps_client_push_pull_start(client, &push, &beside, &err), PS_OK);
    ck_assert_int_eq(ps_client_push_wait(client, &push, &err), PS_OK);
    say(_i, (struct fake_lease){.job = _i == THREAD ? PS_JOB_DONE : PS_JOB_STOPPED});
    ck_assert_int_eq(ps_client_pull_wait(client, &alone, &err), PS_ERR_CANCELED);
    ck_assert_ptr_nonnull(strstr(err.text, "the job is over"));
    ck_assert_int_eq(ps_client_pull_wait(client, &beside, &err), PS_ERR_CANCELED);
    ck_assert_int_eq(ps_client_pull(client, &alone, &err), PS_ERR_CANCELED);
    alone.no_clock = true;
    ck_assert_int_eq(ps_client_pull(client, &alone, &err), PS_OK);
    struct ps_pull due = {.tensors = &to, .n_tensors = 1, .step = 0};
    ck_assert_int_eq(ps_client_pull(client, &due, &err), PS_OK);
    library_stop();
}
END_TEST

static uint32_t n_push_calls;

static void count_pushes(void)
{
    n_push_calls = cluster->n_push_calls + cluster->n_both_calls;
}

START_TEST(a_push_of_what_is_not_held_is_refused_before_it_is_sent)
{
    library_start(_i);
    struct ps_tensor from = {.table = library_define().number, .values = gradient};
    struct ps_push push = {.tensors = &from, .n_tensors = 1, .stream = 3};
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_INVALID);
    ck_assert_str_eq(err.text, "stream 3 is not the lease that is held (0; 0: none)");
    define_job(&job);
    say(_i, first_lease);
    struct ps_unit unit = next();
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_OK);
    push.sequence = 2;
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_INVALID);
    ck_assert_str_eq(err.text, "lease 3 has 2 units; there is no unit 2");
    unit.lease = 4;
    push.unit = &unit;
    ck_assert_int_eq(ps_client_push_start(client, &push, &err), PS_ERR_INVALID);
    ck_assert_ptr_null(push.under_way);
    say(_i, (struct fake_lease){.id = 9, .n_units = 1, .job = PS_JOB_RUNNING});
    push = (struct ps_push){.tensors = &from, .n_tensors = 1, .stream = 8};
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_INVALID);
    say(_i, (struct fake_lease){.job = PS_JOB_STOPPED});
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_CANCELED);
    library_do(_i, count_pushes);
    ck_assert_uint_eq(n_push_calls, 2); /* Those of the one that was taken, to each server. */
    library_stop();
}
END_TEST

START_TEST(a_unit_at_hand_is_finished_though_the_job_is_stopped)
{
    library_start(_i);
    struct ps_tensor from = {.table = library_define().number, .values = gradient};
    define_job(&job);
    say(_i, first_lease);
    struct ps_unit unit = next();
    say(_i, (struct fake_lease){.job = PS_JOB_STOPPED});
    struct ps_push push = {.unit = &unit, .tensors = &from, .n_tensors = 1};
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_OK);
    done(&unit, 0.0);
    ck_assert_uint_eq(next().n_rows, 0);
    library_stop();
}
END_TEST

START_TEST(a_reader_does_not_push)
{
    library_start_as(_i, PS_CLIENT_READER);
    struct ps_tensor tensor = {.table = library_define().number, .values = gradient};
    struct ps_push push = {.tensors = &tensor, .n_tensors = 1};
    struct ps_pull pull = {.tensors = &tensor, .n_tensors = 1};
    ck_assert_int_eq(ps_client_push(client, &push, &err), PS_ERR_DENIED);
    ck_assert_int_eq(ps_client_push_start(client, &push, &err), PS_ERR_DENIED);
    ck_assert_int_eq(ps_client_push_pull_start(client, &push, &pull, &err), PS_ERR_DENIED);
    ck_assert_ptr_null(pull.under_way);
    library_do(_i, count_pushes);
    ck_assert_uint_eq(n_push_calls, 0);
    library_stop();
}
END_TEST

START_TEST(everybody_is_told_to_stop_and_why)
{
    library_start(_i);
    ck_assert_int_eq(ps_client_shutdown(client, "enough", &err), PS_OK);
    ck_assert_int_eq(ps_client_shutdown(client, NULL, &err), PS_OK);
    ps_client_close(client);
    client = NULL;
    library_do(_i, count_pushes); /* What it did is seen from now on. */
    ck_assert_uint_eq(cluster->n_shutdowns, 2);
    ck_assert_str_eq(cluster->shutdown_reason, "");
    library_stop();
}
END_TEST

/* ---- Arguments ----------------------------------------------------------------------------- */

static void null_calls(void)
{
    struct ps_push push = {0};
    struct ps_pull pull = {0};
    struct ps_table_def table_def = {.name = "w", .n_dims = 1, .shape = {1}};
    struct ps_table table;
    struct ps_unit unit = {0};
    struct ps_cluster *look;
    struct ps_client *other;
    struct ps_client_options options = {0};
    const enum ps_status statuses[] = {
        ps_runtime_create(NULL, &err),
        ps_client_check_address(NULL, &err),
        ps_client_open(NULL, &other, &err),
        ps_client_open(&options, NULL, &err),
        ps_client_open(&options, &other, &err),
        ps_client_define_table(NULL, &table_def, &table, &err),
        ps_client_define_table(client, NULL, &table, &err),
        ps_client_table(NULL, "w", &table, &err),
        ps_client_table(client, NULL, &table, &err),
        ps_client_table(client, "w", NULL, &err),
        ps_client_define_job(NULL, &job, &err),
        ps_client_define_job(client, NULL, &err),
        ps_client_pull(NULL, &pull, &err),
        ps_client_pull(client, NULL, &err),
        ps_client_push(NULL, &push, &err),
        ps_client_push(client, NULL, &err),
        ps_client_pull_start(NULL, &pull, &err),
        ps_client_pull_start(client, NULL, &err),
        ps_client_push_start(NULL, &push, &err),
        ps_client_push_start(client, NULL, &err),
        ps_client_push_pull_start(NULL, &push, &pull, &err),
        ps_client_push_pull_start(client, NULL, &pull, &err),
        ps_client_push_pull_start(client, &push, NULL, &err),
        ps_client_pull_wait(NULL, &pull, &err),
        ps_client_pull_wait(client, NULL, &err),
        ps_client_push_wait(NULL, &push, &err),
        ps_client_push_wait(client, NULL, &err),
        ps_client_next_unit(NULL, &unit, 0, &err),
        ps_client_next_unit(client, NULL, 0, &err),
        ps_client_unit_done(NULL, &unit, 0.0, &err),
        ps_client_unit_done(client, NULL, 0.0, &err),
        ps_client_shutdown(NULL, "why", &err),
        ps_client_describe(NULL, &look, &err),
        ps_client_describe(client, NULL, &err),
        ps_client_describe(client, NULL, NULL),
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(statuses); i++) {
        ck_assert_msg(statuses[i] == PS_ERR_INVALID, "call %zu: %s", i,
                      ps_status_text(statuses[i]));
    }
    ck_assert_int_eq(ps_client_describe(client, NULL, &err), PS_ERR_INVALID);
    ck_assert_str_eq(err.text, "ret is NULL");
}

START_TEST(a_pointer_that_must_be_there_is_asked_for_by_its_name)
{
    library_start(_i);
    null_calls();
    struct ps_view view = {0};
    struct ps_worker_report report = {0};
    ps_client_view(NULL, &view);
    ps_client_view(client, NULL);
    ck_assert(!ps_client_wait_change(NULL, &view, 0));
    ck_assert(!ps_client_wait_change(client, NULL, 0));
    ps_client_report(NULL, &report);
    ps_client_report(client, NULL);
    ps_runtime_destroy(NULL);
    ps_client_close(NULL);
    ps_cluster_free(NULL);
    uint64_t first = 0;
    struct ps_lease lent = {.n_units = 1, .unit_rows = 1};
    struct ps_id id = {{0}};
    ck_assert_uint_eq(ps_unit_rows(NULL, &lent, 0, &first), 0);
    ck_assert_uint_eq(ps_unit_rows(&job, NULL, 0, &first), 0);
    ck_assert_uint_eq(ps_unit_rows(&job, &lent, 0, NULL), 0);
    ck_assert_uint_eq(ps_row_at(NULL, 0, 0), UINT64_MAX);
    ck_assert(!ps_id_parse(NULL, &id));
    ck_assert(!ps_id_parse("00000000000000000000000000000000", NULL));
    ps_id_text(NULL, (char[PS_ID_TEXT_BYTES]){0});
    ps_id_text(&id, NULL);
    library_stop();
}
END_TEST

static void expect_adam(void)
{
    ck_assert_str_eq(cluster->optimizer, "adam");
    ck_assert(cluster->beta1 > 0.89f && cluster->beta1 < 0.91f);
    ck_assert(cluster->beta2 > 0.998f && cluster->beta2 < 1.0f);
    ck_assert(cluster->epsilon > 0.9e-8f && cluster->epsilon < 1.1e-8f);
    ck_assert_uint_eq(cluster->job_mode, PS_CONSISTENCY_BSP);
}

static void expect_given(void)
{
    ck_assert(!(cluster->beta1 > 0.0f)); /* Whoever gives epsilon gives the others, too. */
    ck_assert(cluster->epsilon > 0.4f);
}

static void expect_sgd(void)
{
    ck_assert_str_eq(cluster->optimizer, "sgd");
    ck_assert(!(cluster->epsilon > 0.0f));
}

START_TEST(zero_means_the_usual)
{
    library_start(_i);
    struct ps_table_def def = {.name = "a", .n_dims = 1, .shape = {1}, .optimizer = "adam"};
    ck_assert_int_eq(ps_client_define_table(client, &def, NULL, &err), PS_OK);
    define_job(&averaged_job);
    library_do(_i, expect_adam);
    def.name = "b";
    def.epsilon = 0.5f;
    ck_assert_int_eq(ps_client_define_table(client, &def, NULL, &err), PS_OK);
    library_do(_i, expect_given);
    def = (struct ps_table_def){.name = "c", .n_dims = 1, .shape = {1}};
    ck_assert_int_eq(ps_client_define_table(client, &def, NULL, &err), PS_OK);
    library_do(_i, expect_sgd);
    struct ps_job_def huge = {.rows = 1ull << 32, .batch = 1, .epochs = 1, .shuffle = true};
    ck_assert_int_eq(ps_client_define_job(client, &huge, &err), PS_ERR_INVALID);
    library_stop();
}
END_TEST

/* ---- Rows ---------------------------------------------------------------------------------- */

START_TEST(the_units_of_a_lease_cover_its_rows_and_no_others)
{
    struct ps_lease lent = {.first_row = 10, .unit_rows = 5, .stride = 5, .n_units = 3};
    uint64_t first = 99;
    ck_assert_uint_eq(ps_unit_rows(&job, &lent, 0, &first), 5);
    ck_assert_uint_eq(first, 10);
    ck_assert_uint_eq(ps_unit_rows(&job, &lent, 1, &first), 3);
    ck_assert_uint_eq(first, 15);
    ck_assert_uint_eq(ps_unit_rows(&job, &lent, 2, &first), 0); /* Behind the data. */
    ck_assert_uint_eq(ps_unit_rows(&job, &lent, 3, &first), 0); /* No such unit. */
    lent = (struct ps_lease){.first_row = 3, .unit_rows = 4, .stride = 5, .n_units = 1};
    ck_assert_uint_eq(ps_unit_rows(&job, &lent, 0, &first), 2); /* The batch ends. */
}
END_TEST

START_TEST(each_row_has_one_position_and_only_positions_have_rows)
{
    struct ps_job_def shuffled = {.rows = ROWS, .batch = BATCH, .shuffle = true, .seed = 4};
    bool met[ROWS] = {false};
    uint32_t n_moved = 0;
    for (uint64_t position = 0; position < ROWS; position++) {
        uint64_t row = ps_row_at(&shuffled, 1, position);
        ck_assert_uint_lt(row, ROWS);
        ck_assert(!met[row]);
        met[row] = true;
        n_moved += row != position;
        ck_assert_uint_eq(ps_row_at(&job, 1, position), position);
    }
    ck_assert_uint_gt(n_moved, 0);
    ck_assert_uint_eq(ps_row_at(&shuffled, 1, ROWS), UINT64_MAX);
    shuffled.rows = 1ull << 40;
    ck_assert_uint_eq(ps_row_at(&shuffled, 1, 0), UINT64_MAX);
}
END_TEST

START_TEST(states_have_words)
{
    ck_assert_str_eq(ps_job_state_text(PS_JOB_NONE), "none");
    ck_assert_str_eq(ps_job_state_text(PS_JOB_WAITING), "waiting");
    ck_assert_str_eq(ps_job_state_text(PS_JOB_RUNNING), "running");
    ck_assert_str_eq(ps_job_state_text(PS_JOB_DONE), "done");
    ck_assert_str_eq(ps_job_state_text(PS_JOB_CLUSTER_LOST), "cluster lost");
    ck_assert_str_eq(ps_job_state_text(PS_JOB_STOPPED), "stopped");
    ck_assert_str_eq(ps_job_state_text((enum ps_job_state)77), "unknown");
}
END_TEST

/* ---- Snapshots ----------------------------------------------------------------------------- */

static uint64_t held; /* As the coordinator has heard last. */

static void look_at_held(void)
{
    held = cluster->last_held;
}

/* Reports are posted: whoever waits for one lets the executor work. */
static void expect_held(int kind, uint64_t cut)
{
    struct ps_view view = {0};
    for (uint32_t i = 0; i < PATIENCE; i++) {
        library_do(kind, look_at_held);
        if (held == cut) {
            return;
        }
        (void)ps_client_wait_change(client, &view, 1);
    }
    ck_abort_msg("held is %llu, not %llu", (unsigned long long)held, (unsigned long long)cut);
}

static void expect_one_done(void)
{
    ck_assert_uint_eq(cluster->last_units_done, 1);
    ck_assert_uint_eq(cluster->last_clock, 8);
}

static uint64_t ordered;

static void order(void)
{
    cluster->hold = ordered;
    send_lease();
}

static void order_hold(int kind, uint64_t cut)
{
    struct ps_view view = {0};
    ordered = cut;
    library_do(kind, order);
    do {
        (void)ps_client_wait_change(client, &view, 10);
    } while (view.hold != cut);
}

START_TEST(no_unit_is_begun_while_a_snapshot_is_taken)
{
    library_start(_i);
    define_job(&job);
    say(_i, first_lease);
    struct ps_unit unit = next();
    order_hold(_i, 6);
    library_do(_i, look_at_held);
    ck_assert_uint_eq(held, 0); /* A unit is under way. */
    done(&unit, 1.0);
    expect_held(_i, 6);
    library_do(_i, expect_one_done); /* What was done came with it, not later. */
    no_unit(20);
    order_hold(_i, 0);
    unit = next();
    ck_assert_uint_eq(unit.index, 1);
    done(&unit, 1.0);
    expect_held(_i, 0);
    library_stop();
}
END_TEST

START_TEST(who_waits_for_a_unit_holds_at_once)
{
    library_start(_i);
    define_job(&job);
    no_unit(1);
    say(_i, (struct fake_lease){.job = PS_JOB_RUNNING});
    order_hold(_i, 3);
    expect_held(_i, 3);
    library_stop();
}
END_TEST

START_TEST(a_program_that_goes_by_hand_says_itself_when_it_holds)
{
    library_start(_i);
    define_job(&job);
    say(_i, first_lease);
    order_hold(_i, 3);
    struct ps_worker_report report = {.clock = 7, .lease = 3, .held = 2};
    ps_client_report(client, &report);
    expect_held(_i, 2);
    order_hold(_i, 4);
    library_do(_i, look_at_held);
    ck_assert_uint_eq(held, 2); /* It has not said so. */
    library_stop();
}
END_TEST

Suite *suite_units(void)
{
    Suite *suite = suite_create("units");
    TCase *both = tcase_create("thread and inline");
    tcase_set_timeout(both, 60);
    const TTest *const tests[] = {
        units_come_one_by_one_with_rows_and_clock_and_are_reported,
        a_lease_that_was_begun_by_another_goes_on_where_it_stands,
        an_averaged_step_is_waited_for_and_the_lease_says_what_it_held,
        a_unit_without_rows_is_staged_without_asking,
        a_push_that_came_too_late_is_asked_for_again_when_the_step_is_closed,
        who_is_lent_nothing_is_told_so,
        an_unleased_worker_says_so_when_it_joins,
        what_a_worker_does_with_its_time_is_counted_by_the_library,
        a_pull_that_nobody_will_ever_answer_ends_with_the_job,
        a_push_of_what_is_not_held_is_refused_before_it_is_sent,
        a_unit_at_hand_is_finished_though_the_job_is_stopped,
        a_reader_does_not_push,
        everybody_is_told_to_stop_and_why,
        a_pointer_that_must_be_there_is_asked_for_by_its_name,
        zero_means_the_usual,
        no_unit_is_begun_while_a_snapshot_is_taken,
        who_waits_for_a_unit_holds_at_once,
        a_program_that_goes_by_hand_says_itself_when_it_holds,
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(tests); i++) {
        tcase_add_loop_test(both, tests[i], THREAD, INLINE + 1);
    }
    suite_add_tcase(suite, both);
    TCase *pure = tcase_create("pure");
    tcase_add_test(pure, the_units_of_a_lease_cover_its_rows_and_no_others);
    tcase_add_test(pure, each_row_has_one_position_and_only_positions_have_rows);
    tcase_add_test(pure, states_have_words);
    suite_add_tcase(suite, pure);
    return suite;
}
