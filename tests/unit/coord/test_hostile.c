/*
 * test_hostile.c — members that lie, flood, or say nothing: the job goes on, and nobody else waits.
 */
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "coord/coord_impl.h"
#include "coord_rig.h"

static struct rig rig;
static struct rig_call call;
static char words[] = "words";
static char sgd[] = "sgd";

/* `n_workers` in a job of leases of 2 units; they are members 2 and up. */
static void start_job_of(uint32_t n_workers, bool aggregate)
{
    Ps__V1__Consistency consistency = PS__V1__CONSISTENCY__INIT;
    Ps__V1__JobDefinition job = PS__V1__JOB_DEFINITION__INIT;
    consistency.mode = aggregate ? PS__V1__CONSISTENCY_MODE__BSP : PS__V1__CONSISTENCY_MODE__SSP;
    consistency.bound = aggregate ? 0 : 1;
    consistency.aggregate = aggregate;
    job.model = words;
    job.data = words;
    job.rows = 40;
    job.batch = 5;
    job.epochs = 1;
    job.workers = n_workers;
    job.units_per_lease = 2;
    job.consistency = &consistency;
    rig_start(&rig, ps_store_memory_create(NULL), 2);
    rig_cluster(&rig, n_workers);
    ck_assert_int_eq(rig_define_job(&rig, &rig.members[2], &job, &call), PS_OK);
    rig_call_free(&call);
    ps_inline_exec_pump(&rig.exec);
    ck_assert_uint_eq(rig.members[3].lease, 2);
}

/* Two workers in an ssp job of 4 leases. */
static void start_job(void)
{
    start_job_of(2, false);
}

static ProtobufCBinaryData session_of(const struct rig_member *member)
{
    static struct ps_id id; /* What is packed is not written to, but its type says so. */
    id = member->session;
    return (ProtobufCBinaryData){.len = sizeof(id.bytes), .data = id.bytes};
}

static enum ps_status tick(const struct rig_member *member, Ps__V1__AttendReport *report)
{
    Ps__V1__TickRequest request = PS__V1__TICK_REQUEST__INIT;
    report->session = session_of(member);
    request.report = report;
    enum ps_status status = rig_call(&rig, &call, "/ps.v1.Coordinator/Tick", &request.base,
                                     &ps__v1__tick_reply__descriptor);
    rig_call_free(&call);
    return status;
}

/* ---- Reports -------------------------------------------------------------------------------- */

static void huge_clock(Ps__V1__AttendReport *r)
{
    r->worker->clock = UINT64_MAX;
}

static void huge_clock_without_a_lease(Ps__V1__AttendReport *r)
{
    r->worker->clock = UINT64_MAX;
    r->worker->lease = 0;
}

static void units_that_the_lease_has_not(Ps__V1__AttendReport *r)
{
    r->worker->clock = r->worker->units_done = 3;
}

static void all_units_there_are(Ps__V1__AttendReport *r)
{
    r->worker->units_done = UINT32_MAX;
}

static void anothers_lease(Ps__V1__AttendReport *r)
{
    r->worker->lease = 2;
    r->worker->units_done = 2;
    r->worker->clock = 2;
}

static void a_lease_that_is_none(Ps__V1__AttendReport *r)
{
    r->worker->lease = UINT64_MAX;
    r->worker->units_done = 1;
}

static void loss_that_is_no_number(Ps__V1__AttendReport *r)
{
    r->worker->loss_sum = (double)NAN;
    r->worker->loss_rows = 5;
}

static void infinite_loss(Ps__V1__AttendReport *r)
{
    r->worker->loss_sum = -(double)INFINITY;
    r->worker->loss_rows = 5;
}

static void loss_over_more_rows_than_there_are(Ps__V1__AttendReport *r)
{
    r->worker->loss_rows = 81;
}

static void loss_of_an_epoch_that_is_none(Ps__V1__AttendReport *r)
{
    r->worker->loss_epoch = UINT32_MAX;
    r->worker->loss_rows = 5;
}

static void staged_in_a_job_that_does_not(Ps__V1__AttendReport *r)
{
    r->worker->staged_step = 1;
    r->worker->staged_rows = UINT32_MAX;
}

static void higher_term(Ps__V1__AttendReport *r)
{
    r->term = UINT64_MAX;
}

static void other_generation(Ps__V1__AttendReport *r)
{
    r->generation = UINT64_MAX;
    r->worker->clock = r->worker->units_done = 2;
}

static void other_number(Ps__V1__AttendReport *r)
{
    r->session_number = 1; /* The session is what counts. */
}

static void as_a_server(Ps__V1__AttendReport *r)
{
    static Ps__V1__ServerReport server;
    ps__v1__server_report__init(&server);
    server.placement_version = server.sessions_version = server.catalogue_version = UINT64_MAX;
    server.closed_steps = server.finished_version = UINT64_MAX;
    r->worker = NULL;
    r->server = &server;
}

static void (*const lies[])(Ps__V1__AttendReport *r) = {
    huge_clock,
    huge_clock_without_a_lease,
    units_that_the_lease_has_not,
    all_units_there_are,
    anothers_lease,
    a_lease_that_is_none,
    loss_that_is_no_number,
    infinite_loss,
    loss_over_more_rows_than_there_are,
    loss_of_an_epoch_that_is_none,
    staged_in_a_job_that_does_not,
    higher_term,
    other_generation,
    other_number,
    as_a_server,
};

static void say(uint64_t clock, uint32_t units_done, void (*lie)(Ps__V1__AttendReport *r))
{
    Ps__V1__WorkerReport worker = PS__V1__WORKER_REPORT__INIT;
    Ps__V1__AttendReport report = PS__V1__ATTEND_REPORT__INIT;
    worker.lease = rig.members[2].lease;
    worker.clock = clock;
    worker.units_done = units_done;
    report.worker = &worker;
    if (lie != NULL) {
        lie(&report);
    }
    ck_assert_int_eq(tick(&rig.members[2], &report), PS_OK);
}

/* After each lie the job stands where it stood, and the truth is still taken. */
START_TEST(a_report_of_nonsense_changes_nothing)
{
    start_job();
    rig_pass(&rig, 1100);
    for (int copy = 0; copy < 2; copy++) {
        say(0, 0, lies[_i]);
        const struct ps_coord_core *core = &rig.coord->core;
        ck_assert_int_eq(core->state, PS_COORD_RUNNING);
        ck_assert_uint_eq(core->min_clock, 0);
        ck_assert_uint_eq(core->pool.units_done_total, 0);
        for (uint32_t i = 2; i < 4; i++) {
            ck_assert_uint_eq(core->members[i].clock, 0);
            ck_assert_uint_eq(core->members[i].lease, i - 1);
        }
        ck_assert(rig.coord->definition.losses[0].sum == 0.0);
        ck_assert_uint_eq(rig.coord->definition.losses[0].rows, 0);
    }
    say(1, 1, NULL);
    ck_assert_uint_eq(rig.coord->core.members[2].clock, 1);
    say(0, 0, NULL); /* Nor does anything go back. */
    ck_assert_uint_eq(rig.coord->core.members[2].clock, 1);
    ck_assert_uint_eq(rig.coord->core.pool.units_done_total, 1);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_sum_of_losses_stays_finite)
{
    start_job();
    for (uint32_t i = 0; i < 2; i++) {
        Ps__V1__WorkerReport worker = PS__V1__WORKER_REPORT__INIT;
        Ps__V1__AttendReport report = PS__V1__ATTEND_REPORT__INIT;
        worker.lease = rig.members[2 + i].lease;
        worker.loss_sum = 1.7e308;
        worker.loss_rows = 5;
        report.worker = &worker;
        ck_assert_int_eq(tick(&rig.members[2 + i], &report), PS_OK);
    }
    ck_assert(isfinite(rig.coord->definition.losses[0].sum));
    rig_stop(&rig);
}
END_TEST

/* Anybody can name a higher term; a coordinator that has one is in the store. */
START_TEST(a_higher_term_stops_the_job_only_when_the_store_has_it)
{
    start_job();
    rig_pass(&rig, 1100);
    say(0, 0, higher_term);
    ck_assert_int_eq(rig.coord->core.state, PS_COORD_RUNNING);
    rig_pass(&rig, 1100);
    struct ps_store_stamp stamp = {0};
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_store_load(rig.store, &data, &n_bytes, &stamp, NULL), PS_OK);
    ck_assert_int_eq(ps_store_write(rig.store, &stamp, stamp.term + 1, data, n_bytes, NULL), PS_OK);
    ps_mem_free(data);
    ck_assert_int_eq(rig.coord->core.state, PS_COORD_RUNNING); /* It has not looked. */
    say(0, 0, higher_term);
    ck_assert_int_eq(rig.coord->core.state, PS_COORD_STOPPED);
    rig_stop(&rig);
}
END_TEST

/* ---- Floods --------------------------------------------------------------------------------- */

START_TEST(a_session_that_waits_too_often_keeps_nobody_else_from_waiting)
{
    static struct rig_call calls[PS_COORD_PARKED_EACH + 1];
    static struct rig_call other;
    start_job();
    Ps__V1__WaitClockRequest request = PS__V1__WAIT_CLOCK_REQUEST__INIT;
    request.clock = 100;
    request.session = session_of(&rig.members[2]);
    for (uint32_t i = 0; i <= PS_COORD_PARKED_EACH; i++) {
        enum ps_status want = i < PS_COORD_PARKED_EACH ? PS_ERR_NOT_YET : PS_ERR_BUSY;
        ck_assert_int_eq(rig_call(&rig, &calls[i], "/ps.v1.Coordinator/WaitClock", &request.base,
                                  &ps__v1__wait_clock_reply__descriptor),
                         want);
    }
    request.session = session_of(&rig.members[3]);
    ck_assert_int_eq(rig_call(&rig, &other, "/ps.v1.Coordinator/WaitClock", &request.base,
                              &ps__v1__wait_clock_reply__descriptor),
                     PS_ERR_NOT_YET);
    rig_stop(&rig);
    ck_assert(other.done);
}
END_TEST

static void stream_message(void *arg, struct ps_msg *msg)
{
    (void)arg;
    ps_msg_unref(msg);
}

struct mute {
    struct ps_stream *stream;
    bool closed;
    enum ps_status status;
};

static void mute_closed(void *arg, enum ps_status status)
{
    struct mute *mute = arg;
    mute->closed = true;
    mute->status = status;
    ps_stream_release(mute->stream);
}

static void open_mute(struct mute *mute)
{
    static const struct ps_stream_events events = {.message = stream_message,
                                                   .closed = mute_closed};
    mute->closed = false;
    mute->stream = ps_stream_open(rig.channel, "/ps.v1.Coordinator/Attend", &events, mute);
    ps_inline_exec_pump(&rig.exec);
}

START_TEST(a_stream_that_never_says_whose_it_is_is_ended)
{
    static struct mute mute;
    start_job();
    open_mute(&mute);
    rig_pass(&rig, PS_SILENCE_MS - 500);
    ck_assert(!mute.closed);
    for (uint32_t ms = 0; ms < 1500; ms += 250) {
        rig_report(&rig.members[2], NULL); /* Those who speak stay. */
        rig_report(&rig.members[3], NULL);
        rig_report(&rig.members[0], NULL);
        rig_report(&rig.members[1], NULL);
        rig_pass(&rig, 250);
    }
    ck_assert(mute.closed);
    ck_assert_int_eq(mute.status, PS_ERR_FENCED);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_stream_that_there_is_no_memory_for_is_refused_and_counted_until_it_is_gone)
{
    static struct mute mute;
    start_job();
    uint32_t before = atomic_load(&rig.coord->n_under_way);
    atomic_store(&rig.mem.fail_after, 0);
    static const struct ps_stream_events events = {.message = stream_message,
                                                   .closed = mute_closed};
    mute.closed = false;
    mute.stream = ps_stream_open(rig.channel, "/ps.v1.Coordinator/Attend", &events, &mute);
    ck_assert_uint_le(before, atomic_load(&rig.coord->n_under_way));
    ps_inline_exec_pump(&rig.exec);
    atomic_store(&rig.mem.fail_after, -1);
    ck_assert(mute.closed);
    ck_assert_int_eq(mute.status, PS_ERR_BUSY);
    ck_assert_uint_eq(atomic_load(&rig.coord->n_under_way), before);
    rig_stop(&rig);
}
END_TEST

START_TEST(there_is_an_end_to_calls_in_hand)
{
    start_job();
    uint32_t before = atomic_fetch_add(&rig.coord->n_under_way, PS_COORD_UNDER_WAY_MAX);
    Ps__V1__DescribeRequest request = PS__V1__DESCRIBE_REQUEST__INIT;
    ck_assert_int_eq(rig_call(&rig, &call, "/ps.v1.Coordinator/Describe", &request.base,
                              &ps__v1__describe_reply__descriptor),
                     PS_ERR_BUSY);
    rig_call_free(&call);
    static struct mute mute;
    open_mute(&mute);
    ck_assert(mute.closed);
    ck_assert_int_eq(mute.status, PS_ERR_BUSY);
    atomic_store(&rig.coord->n_under_way, before);
    (void)rig_describe(&rig, &call);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

/* ---- Tables --------------------------------------------------------------------------------- */

/* Each could be pushed alone; together a slot would need more calls than one unit may have. */
START_TEST(tables_that_overfill_a_slot_together_are_refused)
{
    static char names[3][8] = {"a", "b", "c"};
    uint64_t shape[1] = {(uint64_t)PS_BLOCK_FLOATS_MAX * PS_SLOTS * 40};
    Ps__V1__Optimizer optimizer = PS__V1__OPTIMIZER__INIT;
    Ps__V1__TableDefinition table = PS__V1__TABLE_DEFINITION__INIT;
    optimizer.name = sgd;
    table.shape = shape;
    table.n_shape = 1;
    table.optimizer = &optimizer;
    start_job();
    for (uint32_t i = 0; i < 3; i++) {
        table.name = names[i];
        shape[0] = i == 2 ? 1 : shape[0]; /* A small one still fits. */
        enum ps_status want = i == 1 ? PS_ERR_INVALID : PS_OK;
        ck_assert_int_eq(rig_define_table(&rig, &rig.members[2], &table, &call), want);
        if (want != PS_OK) {
            ck_assert_ptr_nonnull(strstr(call.request.err.text, "more than 64 calls"));
        }
        rig_call_free(&call);
    }
    ck_assert_uint_eq(rig.coord->core.catalogue_version, 2);
    rig_stop(&rig);
}
END_TEST

/* What the first may have staged in silence is nothing to the servers any more. */
START_TEST(servers_hear_which_of_the_ended_will_be_on_the_list_of_the_step)
{
    start_job_of(3, true);
    Ps__V1__WorkerReport progress = PS__V1__WORKER_REPORT__INIT;
    progress.lease = rig.members[3].lease;
    progress.staged_step = 1;
    progress.staged_rows = 2;
    rig_report(&rig.members[3], &progress);
    ck_assert_int_eq(rig_leave(&rig, &rig.members[2]), PS_OK);
    ps_inline_exec_pump(&rig.exec);
    ck_assert_uint_eq(rig.members[0].n_sessions, 2);
    ck_assert_uint_eq(rig.members[0].n_staged, 0); /* It is open still. */
    ck_assert_int_eq(rig_leave(&rig, &rig.members[3]), PS_OK);
    ps_inline_exec_pump(&rig.exec);
    for (uint32_t server = 0; server < 2; server++) {
        ck_assert_uint_eq(rig.members[server].n_sessions, 1);
        ck_assert_uint_eq(rig.members[server].n_staged, 1);
        ck_assert_uint_eq(rig.members[server].staged, 4); /* After servers 1 and 2. */
    }
    rig_stop(&rig);
}
END_TEST

Suite *suite_hostile(void)
{
    Suite *suite = suite_create("hostile");
    TCase *tcase = tcase_create("hostile");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, a_report_of_nonsense_changes_nothing, 0, (int)PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, a_sum_of_losses_stays_finite);
    tcase_add_test(tcase, a_higher_term_stops_the_job_only_when_the_store_has_it);
    tcase_add_test(tcase, a_session_that_waits_too_often_keeps_nobody_else_from_waiting);
    tcase_add_test(tcase, a_stream_that_never_says_whose_it_is_is_ended);
    tcase_add_test(tcase,
                   a_stream_that_there_is_no_memory_for_is_refused_and_counted_until_it_is_gone);
    tcase_add_test(tcase, there_is_an_end_to_calls_in_hand);
    tcase_add_test(tcase, servers_hear_which_of_the_ended_will_be_on_the_list_of_the_step);
    tcase_add_test(tcase, tables_that_overfill_a_slot_together_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
