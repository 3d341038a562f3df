/*
 * test_coord.c — the coordinator's shell as its members see it, over the direct transport and in
 * virtual time: who is told what, when, and what is written before.
 */
#include <string.h>

#include "base/bytes.h"
#include "coord_rig.h"

static struct rig rig;
static struct rig_call call;
static struct rig_call second;
static char sgd[] = "sgd";
static char words[] = "words";

static void start(uint32_t n_servers)
{
    rig_start(&rig, ps_store_memory_create(NULL), n_servers);
}

/* ---- Definitions for all ------------------------------------------------------------------- */
static uint64_t shape[2] = {100, 1000}; /* 25 blocks of 4096. */
static Ps__V1__Optimizer optimizer;
static Ps__V1__TableDefinition table;
static Ps__V1__Consistency consistency;
static Ps__V1__JobDefinition job;

static void make_definitions(void)
{
    ps__v1__optimizer__init(&optimizer);
    optimizer.name = sgd;
    ps__v1__table_definition__init(&table);
    table.name = words;
    table.n_shape = 2;
    table.shape = shape;
    table.dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    table.optimizer = &optimizer;
    ps__v1__consistency__init(&consistency);
    consistency.mode = PS__V1__CONSISTENCY_MODE__SSP;
    consistency.bound = 1;
    ps__v1__job_definition__init(&job);
    job.model = words;
    job.data = words;
    job.rows = 40;
    job.batch = 5;
    job.epochs = 1;
    job.workers = 2;
    job.units_per_lease = 2;
    job.consistency = &consistency;
}

static void define_job(const struct rig_member *member)
{
    ck_assert_int_eq(rig_define_job(&rig, member, &job, &call), PS_OK);
    rig_call_free(&call);
    ps_inline_exec_pump(&rig.exec);
}

static void report(struct rig_member *member, uint64_t clock, uint64_t lease, uint32_t units_done)
{
    Ps__V1__WorkerReport progress = PS__V1__WORKER_REPORT__INIT;
    progress.clock = clock;
    progress.lease = lease;
    progress.units_done = units_done;
    rig_report(member, &progress);
    ps_inline_exec_pump(&rig.exec);
}

/* ---- Joining ------------------------------------------------------------------------------- */

START_TEST(a_worker_is_answered_when_every_server_knows_it)
{
    struct rig_member *server[2];
    struct rig_member *worker = NULL;
    start(2);
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__SERVER, &server[0]), PS_OK);
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__SERVER, &server[1]), PS_OK);
    server[1]->held = true;
    rig_attend(server[0]);
    rig_attend(server[1]);
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__WORKER, &worker), PS_ERR_NOT_YET);
    ck_assert_uint_eq(server[0]->n_sessions, 1);
    server[1]->held = false;
    rig_report(server[1], NULL);
    rig_pass(&rig, 5);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_str_eq(all->members[2]->state, "live");
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_join_that_must_wait_too_long_is_told_for_whom)
{
    struct rig_member *member = NULL;
    start(2);
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__SERVER, &member), PS_OK);
    rig_attend(member);
    Ps__V1__JoinRequest request;
    ps__v1__join_request__init(&request);
    uint8_t session[16] = {77};
    request.protocol_min = 1;
    request.protocol_max = 1;
    request.kind = PS__V1__SESSION_KIND__WORKER;
    request.session.data = session;
    request.session.len = sizeof(session);
    rig_call_start(&rig, &call, "/ps.v1.Coordinator/Join", &request.base,
                   &ps__v1__join_reply__descriptor);
    rig_pass(&rig, 1990);
    ck_assert(call.done);
    ck_assert_int_eq(call.request.err.status, PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(call.request.err.text, "1 of 2"));
    rig_stop(&rig);
}
END_TEST

START_TEST(who_waits_to_be_let_in_is_alive)
{
    struct rig_member *server = NULL;
    start(2);
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__SERVER, &server), PS_OK);
    rig_attend(server);
    Ps__V1__JoinRequest request;
    ps__v1__join_request__init(&request);
    uint8_t session[16] = {77};
    request.protocol_min = 1;
    request.protocol_max = 1;
    request.kind = PS__V1__SESSION_KIND__WORKER;
    request.session.data = session;
    request.session.len = sizeof(session);
    rig.timeout_ms = 20000;
    rig_call_start(&rig, &call, "/ps.v1.Coordinator/Join", &request.base,
                   &ps__v1__join_reply__descriptor);
    for (uint32_t i = 0; i < 8; i++) {
        rig_report(server, NULL);
        rig_pass(&rig, 1000);
    }
    ck_assert(!call.done);
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__SERVER, &server), PS_OK);
    rig_attend(server);
    ck_assert(call.done);
    ck_assert_msg(call.request.err.status == PS_OK, "%s", call.request.err.text);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    uint32_t protocol_min, protocol_max;
    size_t n_cluster_bytes, n_session_bytes;
    uint32_t kind;
    size_t n_name_bytes;
    enum ps_status status;
} joins[] = {
    {"as it should be",             1, 1,  0, 16, 3,  5, PS_OK},
    {"a newer one that can do old", 0, 9,  0, 16, 3,  5, PS_OK},
    {"a protocol of the future",    2, 9,  0, 16, 3,  5, PS_ERR_UNSUPPORTED},
    {"a protocol of the past",      0, 0,  0, 16, 3,  5, PS_ERR_UNSUPPORTED},
    {"another cluster",             1, 1, 16, 16, 3,  5, PS_ERR_NOT_FOUND},
    {"half a cluster id",           1, 1,  8, 16, 3,  5, PS_ERR_INVALID},
    {"half a session",              1, 1,  0,  8, 3,  5, PS_ERR_INVALID},
    {"no session",                  1, 1,  0,  0, 3,  5, PS_ERR_INVALID},
    {"no kind",                     1, 1,  0, 16, 0,  5, PS_ERR_INVALID},
    {"an unknown kind",             1, 1,  0, 16, 9,  5, PS_ERR_INVALID},
    {"a long name",                 1, 1,  0, 16, 3, 64, PS_ERR_INVALID},
    {"a server without address",    1, 1,  0, 16, 3,  0, PS_ERR_INVALID},
};
/* clang-format on */

START_TEST(a_join_is_checked)
{
    static char name[65];
    uint8_t bytes[16] = {99};
    start(2);
    memset(name, 'n', joins[_i].n_name_bytes);
    name[joins[_i].n_name_bytes] = '\0';
    Ps__V1__JoinRequest request;
    ps__v1__join_request__init(&request);
    request.protocol_min = joins[_i].protocol_min;
    request.protocol_max = joins[_i].protocol_max;
    request.cluster_id = (ProtobufCBinaryData){joins[_i].n_cluster_bytes, bytes};
    request.session = (ProtobufCBinaryData){joins[_i].n_session_bytes, bytes};
    request.kind = (Ps__V1__SessionKind)joins[_i].kind;
    request.name = name;
    request.address = name;
    enum ps_status status = rig_call(&rig, &call, "/ps.v1.Coordinator/Join", &request.base,
                                     &ps__v1__join_reply__descriptor);
    ck_assert_msg(status == joins[_i].status, "%s: %s", joins[_i].name, call.request.err.text);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

/* ---- Streams ------------------------------------------------------------------------------- */

START_TEST(a_stream_is_told_each_group_once_and_something_every_heartbeat)
{
    start(2);
    rig_cluster(&rig, 1);
    struct rig_member *worker = &rig.members[2];
    rig_pass(&rig, 50);
    ck_assert_uint_eq(worker->placement, 1);
    ck_assert_uint_eq(worker->n_placements, 1);
    ck_assert_uint_eq(worker->sessions, 0); /* For servers only. */
    uint32_t n_before = worker->n_states;
    for (uint32_t i = 0; i < 4; i++) {
        rig_report(worker, NULL); /* Alive. */
        rig_pass(&rig, 255);
        ck_assert_uint_gt(worker->n_states, n_before);
        ck_assert_uint_le(worker->n_states, n_before + 3);
        n_before = worker->n_states;
    }
    ck_assert_uint_eq(worker->n_placements, 1);
    /* A new stream is told everything again. */
    rig_break(worker);
    rig_attend(worker);
    ck_assert_uint_eq(worker->n_placements, 2);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_second_stream_of_a_session_takes_the_place_of_the_first)
{
    start(2);
    rig_cluster(&rig, 1);
    struct rig_member twin = rig.members[2];
    twin.stream = NULL;
    rig_attend(&twin);
    rig_pass(&rig, 5);
    ck_assert(rig.members[2].closed);
    ck_assert_int_eq(rig.members[2].closed_status, PS_ERR_CANCELED);
    ck_assert(!twin.closed);
    for (uint32_t i = 0; i < 30; i++) {
        rig_report(&twin, NULL);
        for (uint32_t k = 0; k < 2; k++) {
            rig_report(&rig.members[k], NULL);
        }
        rig_pass(&rig, 100);
    }
    ck_assert(!twin.fenced); /* The end of the first was no sign of death. */
    rig_break(&twin);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_session_that_died_is_told_that_it_is_fenced)
{
    start(2);
    rig_cluster(&rig, 2);
    struct rig_member *worker = &rig.members[2];
    rig_break(worker);
    for (uint32_t i = 0; i < 12; i++) {
        rig_pass(&rig, 100);
        for (uint32_t k = 0; k < rig.n_members; k++) {
            rig_report(&rig.members[k], NULL);
        }
    }
    ck_assert_uint_eq(rig.members[0].n_sessions, 1);
    rig_attend(worker);
    rig_pass(&rig, 5);
    ck_assert(worker->fenced);
    ck_assert_ptr_nonnull(strstr(worker->reason, "its stream broke"));
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_sessions_expired_total), 1);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_session_that_never_was_is_told_that_it_is_fenced)
{
    start(2);
    struct rig_member nobody = {.rig = &rig, .session.bytes = {200}};
    rig_attend(&nobody);
    rig_pass(&rig, 5);
    ck_assert(nobody.fenced);
    rig_break(&nobody);
    rig_stop(&rig);
}
END_TEST

/* The rig checks the order of every list; here the places of the ended come to be used again. */
START_TEST(sessions_are_listed_by_number_for_ever)
{
    start(2);
    rig_cluster(&rig, 1);
    struct rig_member *reader = NULL;
    for (uint32_t i = 3; i < PS_COORD_MEMBERS_MAX - 1; i++) {
        rig.n_members = 3;
        ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__READER, &reader), PS_OK);
        ck_assert_int_eq(rig_leave(&rig, reader), PS_OK);
    }
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__READER, &reader), PS_OK);
    }
    ck_assert_uint_eq(rig.members[0].n_sessions, 4);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_stream_of_nonsense_is_closed)
{
    start(2);
    struct rig_member fool = {.rig = &rig};
    fool.session.bytes[0] = 0; /* No session. */
    rig_attend(&fool);
    rig_pass(&rig, 5);
    ck_assert(fool.closed);
    ck_assert_int_eq(fool.closed_status, PS_ERR_INVALID);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_lost_server_is_told_to_everybody)
{
    start(2);
    rig_cluster(&rig, 1);
    rig_break(&rig.members[1]);
    rig_pass(&rig, 900);
    ck_assert_int_eq(rig.members[2].job, PS__V1__JOB_STATE__WAITING);
    rig_report(&rig.members[0], NULL);
    rig_report(&rig.members[2], NULL);
    rig_pass(&rig, 400);
    ck_assert_int_eq(rig.members[0].job, PS__V1__JOB_STATE__CLUSTER_LOST);
    ck_assert_int_eq(rig.members[2].job, PS__V1__JOB_STATE__CLUSTER_LOST);
    ck_assert_ptr_nonnull(strstr(rig.members[2].reason, "server 1 (host:1) is lost"));
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_LOST);
    struct rig_member *late = NULL;
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__WORKER, &late), PS_ERR_LOST);
    rig_stop(&rig);
}
END_TEST

/* ---- Definitions --------------------------------------------------------------------------- */

START_TEST(a_table_is_answered_when_every_server_has_made_it)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 1);
    struct rig_member *worker = &rig.members[2];
    rig.members[0].held = true;
    ck_assert_int_eq(rig_define_table(&rig, worker, &table, &call), PS_ERR_NOT_YET);
    rig.members[0].held = false;
    rig_report(&rig.members[0], NULL);
    ps_inline_exec_pump(&rig.exec);
    ck_assert(call.done);
    const Ps__V1__Table *made = ((const Ps__V1__DefineTableReply *)call.reply)->table;
    ck_assert_uint_eq(made->number, 0);
    ck_assert_uint_eq(made->first_slot, 0);
    rig_call_free(&call);
    ck_assert_uint_eq(worker->catalogue, 1);
    rig_stop(&rig);
}
END_TEST

START_TEST(the_first_definition_of_a_table_wins)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 1);
    struct rig_member *worker = &rig.members[2];
    static char other[] = "other";
    for (uint32_t i = 0; i < 2; i++) { /* An equal one changes nothing. */
        ck_assert_int_eq(rig_define_table(&rig, worker, &table, &call), PS_OK);
        ck_assert_uint_eq(((const Ps__V1__DefineTableReply *)call.reply)->table->number, 0);
        rig_call_free(&call);
    }
    table.seed = 1;
    ck_assert_int_eq(rig_define_table(&rig, worker, &table, &call), PS_ERR_EXISTS);
    ck_assert_str_eq(call.request.err.text, "table words is defined with another seed");
    table.name = other;
    ck_assert_int_eq(rig_define_table(&rig, worker, &table, &call), PS_OK);
    ck_assert_uint_eq(((const Ps__V1__DefineTableReply *)call.reply)->table->number, 1);
    ck_assert_uint_gt(((const Ps__V1__DefineTableReply *)call.reply)->table->first_slot, 0);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_table_that_cannot_be_laid_out_is_refused)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 1);
    uint64_t huge[2] = {(uint64_t)1 << 40, (uint64_t)1 << 40};
    static uint64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    table.shape = huge;
    ck_assert_int_eq(rig_define_table(&rig, &rig.members[2], &table, &call), PS_ERR_INVALID);
    huge[0] = 0;
    ck_assert_int_eq(rig_define_table(&rig, &rig.members[2], &table, &call), PS_ERR_INVALID);
    table.n_shape = 0;
    ck_assert_int_eq(rig_define_table(&rig, &rig.members[2], &table, &call), PS_ERR_INVALID);
    table.n_shape = 9;
    table.shape = many;
    ck_assert_int_eq(rig_define_table(&rig, &rig.members[2], &table, &call), PS_ERR_INVALID);
    struct rig_member stranger = {.session.bytes = {250}};
    table.n_shape = 1;
    ck_assert_int_eq(rig_define_table(&rig, &stranger, &table, &call), PS_ERR_FENCED);
    rig_stop(&rig);
}
END_TEST

START_TEST(the_first_definition_of_the_job_wins)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 1);
    struct rig_member *worker = &rig.members[2];
    job.units_per_lease = 0;
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(rig_define_job(&rig, worker, &job, &call), PS_OK);
        const Ps__V1__JobDefinition *made =
            ((const Ps__V1__DefineJobReply *)call.reply)->definition;
        ck_assert_uint_eq(made->units_per_lease, 1); /* Chosen. */
        ck_assert_uint_eq(made->consistency->version, 1);
        rig_call_free(&call);
    }
    job.seed = 3;
    ck_assert_int_eq(rig_define_job(&rig, worker, &job, &call), PS_ERR_EXISTS);
    ck_assert_str_eq(call.request.err.text, "the job is defined with seed 0, not with 3");
    job.seed = 0;
    job.units_per_lease = 7;
    ck_assert_int_eq(rig_define_job(&rig, worker, &job, &call), PS_ERR_EXISTS);
    job.rows = 0;
    ck_assert_int_eq(rig_define_job(&rig, worker, &job, &call), PS_ERR_INVALID);
    rig_pass(&rig, 5);
    ck_assert_uint_eq(worker->consistency, 1);
    rig_stop(&rig);
}
END_TEST

/* ---- Training ------------------------------------------------------------------------------ */

START_TEST(a_whole_plain_job_runs)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 2);
    struct rig_member *a = &rig.members[2];
    struct rig_member *b = &rig.members[3];
    define_job(a);
    ck_assert_int_eq(a->job, PS__V1__JOB_STATE__RUNNING);
    ck_assert_uint_eq(a->lease, 1); /* 4 leases of 2 units. */
    ck_assert_uint_eq(b->lease, 2);
    report(a, 1, 1, 1);
    report(b, 1, 2, 1);
    ck_assert_uint_eq(rig.members[0].min_clock, 1); /* At once: it opens gates. */
    ck_assert_uint_eq(rig.members[1].min_clock, 1);
    report(a, 2, 1, 2);
    ck_assert_uint_eq(a->lease, 3);
    ck_assert_uint_eq(rig.members[0].finished, 1);
    report(b, 2, 2, 2);
    report(a, 4, 3, 2);
    report(b, 4, 4, 2);
    ck_assert_int_eq(a->job, PS__V1__JOB_STATE__DONE);
    ck_assert_uint_eq(a->lease, 0);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_int_eq(all->job, PS__V1__JOB_STATE__DONE);
    ck_assert_uint_eq(all->steps, 8);
    ck_assert_uint_eq(all->rows_trained_min, 1);
    ck_assert_uint_eq(all->rows_trained_max, 1);
    ck_assert_uint_eq(all->n_members, 4);
    ck_assert_uint_eq(all->n_epochs, 1);
    ck_assert_uint_eq(all->epochs[0]->units_done, 8);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

START_TEST(an_aggregated_step_goes_to_servers_and_back_to_workers)
{
    start(2);
    make_definitions();
    consistency.mode = PS__V1__CONSISTENCY_MODE__BSP;
    consistency.bound = 0;
    consistency.aggregate = true;
    rig_cluster(&rig, 2);
    define_job(&rig.members[2]);
    for (uint32_t i = 2; i < 4; i++) {
        Ps__V1__WorkerReport progress = PS__V1__WORKER_REPORT__INIT;
        progress.lease = rig.members[i].lease;
        progress.staged_step = 1;
        progress.staged_rows = 2;
        rig_report(&rig.members[i], &progress);
        ps_inline_exec_pump(&rig.exec);
    }
    ck_assert_uint_eq(rig.members[0].closed_steps, 1);
    ck_assert_uint_eq(rig.members[0].n_entries, 2);
    ck_assert_uint_eq(rig.members[2].min_clock, 1); /* At once: they wait for it. */
    ck_assert_uint_eq(rig.members[3].units_done, 1);
    ck_assert_uint_eq(rig.members[2].closed_steps, 0); /* For servers only. */
    rig_stop(&rig);
}
END_TEST

START_TEST(losses_of_sessions_add_up_by_epoch)
{
    /* Epoch and rows: a repeat, and a lease of the epoch before that came back. */
    static const uint32_t said[][2] = {{0, 10}, {0, 10}, {1, 5}, {0, 20}, {1, 8}};
    start(2);
    make_definitions();
    job.epochs = 2;
    job.rows = 10; /* A lease per epoch. */
    rig_cluster(&rig, 2);
    define_job(&rig.members[2]);
    for (size_t k = 0; k < 2 * PS_ARRAY_LEN(said); k++) {
        Ps__V1__WorkerReport progress = PS__V1__WORKER_REPORT__INIT;
        struct rig_member *member = &rig.members[2 + k % 2];
        progress.lease = member->lease;
        progress.loss_epoch = said[k / 2][0];
        progress.loss_rows = said[k / 2][1];
        progress.loss_sum = 0.5 * said[k / 2][1];
        rig_report(member, &progress);
        ps_inline_exec_pump(&rig.exec);
    }
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(all->epochs[0]->loss_rows, 40);
    ck_assert_double_eq(all->epochs[0]->loss_sum, 20.0);
    ck_assert_uint_eq(all->epochs[1]->loss_rows, 16);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

/* ---- Simple clients, and the end ----------------------------------------------------------- */

static enum ps_status tick(const struct rig_member *member, struct rig_call *to)
{
    Ps__V1__TickRequest request = PS__V1__TICK_REQUEST__INIT;
    Ps__V1__AttendReport attend = PS__V1__ATTEND_REPORT__INIT;
    uint8_t session[16];
    memcpy(session, member->session.bytes, sizeof(session));
    attend.session = (ProtobufCBinaryData){sizeof(session), session};
    request.report = &attend;
    return rig_call(&rig, to, "/ps.v1.Coordinator/Tick", &request.base,
                    &ps__v1__tick_reply__descriptor);
}

START_TEST(a_tick_is_answered_with_everything_and_keeps_its_session_alive)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 0);
    struct rig_member *worker = NULL;
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__WORKER, &worker), PS_OK);
    for (uint32_t i = 0; i < 8; i++) {
        ck_assert_int_eq(tick(worker, &call), PS_OK);
        const Ps__V1__AttendState *state = ((const Ps__V1__TickReply *)call.reply)->state;
        ck_assert_uint_eq(state->placement->version, 1);
        ck_assert(!state->fenced);
        rig_call_free(&call);
        rig_pass(&rig, 1000);
        rig_report(&rig.members[0], NULL);
        rig_report(&rig.members[1], NULL);
    }
    struct rig_member stranger = {.session.bytes = {250}};
    ck_assert_int_eq(tick(&stranger, &call), PS_OK);
    ck_assert(((const Ps__V1__TickReply *)call.reply)->state->fenced);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

static void wait_clock(const struct rig_member *member, uint64_t clock, struct rig_call *to)
{
    Ps__V1__WaitClockRequest request = PS__V1__WAIT_CLOCK_REQUEST__INIT;
    uint8_t session[16];
    memcpy(session, member->session.bytes, sizeof(session));
    request.session = (ProtobufCBinaryData){sizeof(session), session};
    request.clock = clock;
    rig_call_start(&rig, to, "/ps.v1.Coordinator/WaitClock", &request.base,
                   &ps__v1__wait_clock_reply__descriptor);
    ps_inline_exec_pump(&rig.exec);
}

START_TEST(wait_clock_is_answered_when_the_clock_is_there_or_the_time_is_up)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 2);
    define_job(&rig.members[2]);
    wait_clock(&rig.members[2], 1, &call);
    wait_clock(&rig.members[2], 2, &second);
    ck_assert(!call.done);
    report(&rig.members[2], 1, 1, 1);
    ck_assert(!call.done);
    report(&rig.members[3], 1, 2, 1);
    ck_assert(call.done);
    ck_assert_uint_eq(((const Ps__V1__WaitClockReply *)call.reply)->min_clock, 1);
    rig_call_free(&call);
    ck_assert(!second.done);
    rig_pass(&rig, 1990);
    ck_assert(second.done);
    ck_assert_int_eq(second.request.err.status, PS_OK);
    ck_assert_uint_eq(((const Ps__V1__WaitClockReply *)second.reply)->min_clock, 1);
    rig_call_free(&second);
    rig_stop(&rig);
}
END_TEST

START_TEST(who_leaves_gives_its_lease_back)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 2);
    define_job(&rig.members[2]);
    for (uint32_t repeat = 0; repeat < 2; repeat++) {
        ck_assert_int_eq(rig_leave(&rig, &rig.members[2]), PS_OK);
    }
    ck_assert(rig.members[2].fenced);
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_leases_returned_total), 1);
    report(&rig.members[3], 2, 2, 2);
    ck_assert_uint_eq(rig.members[3].lease, 1);
    rig_stop(&rig);
}
END_TEST

START_TEST(shutdown_is_told_to_everybody_and_ends_what_waits)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 2);
    define_job(&rig.members[2]);
    wait_clock(&rig.members[2], 100, &second);
    Ps__V1__ShutdownRequest request;
    ps__v1__shutdown_request__init(&request);
    request.reason = words;
    ck_assert_int_eq(rig_call(&rig, &call, "/ps.v1.Coordinator/Shutdown", &request.base,
                              &ps__v1__shutdown_reply__descriptor),
                     PS_OK);
    rig_call_free(&call);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(rig.members[i].job, PS__V1__JOB_STATE__STOPPED);
        ck_assert_str_eq(rig.members[i].reason, "words");
        ck_assert_uint_eq(rig.members[i].lease, 0);
    }
    ck_assert(second.done);
    ck_assert_int_eq(second.request.err.status, PS_ERR_CANCELED);
    rig_stop(&rig);
}
END_TEST

START_TEST(stop_answers_every_parked_call)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 2);
    define_job(&rig.members[2]);
    wait_clock(&rig.members[2], 100, &call);
    ck_assert(!call.done);
    ps_coord_stop(rig.coord);
    ps_inline_exec_pump(&rig.exec);
    ck_assert(call.done);
    ck_assert_int_eq(call.request.err.status, PS_ERR_UNAVAIL);
    ck_assert(rig.members[2].closed);
    struct rig_member *late = NULL;
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__WORKER, &late), PS_ERR_UNAVAIL);
    rig_stop(&rig);
}
END_TEST

/* ---- The store ----------------------------------------------------------------------------- */

START_TEST(a_coordinator_that_was_followed_stops_and_tells_nothing_unwritten)
{
    start(2);
    make_definitions();
    rig_cluster(&rig, 1);
    struct ps_store_stamp stamp;
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    struct ps_error err;
    ck_assert_int_eq(ps_store_load(rig.store, &data, &n_bytes, &stamp, &err), PS_OK);
    ck_assert_int_eq(ps_store_write(rig.store, &stamp, 9, data, n_bytes, &err), PS_OK);
    ps_mem_free(data);
    ck_assert_int_eq(rig_define_table(&rig, &rig.members[2], &table, &call), PS_ERR_CANCELED);
    ck_assert_uint_eq(rig.members[0].catalogue, 0);
    ck_assert_int_eq(rig.members[2].job, PS__V1__JOB_STATE__STOPPED);
    ck_assert_ptr_nonnull(strstr(rig.members[2].reason, "another coordinator"));
    rig_stop(&rig);
}
END_TEST

START_TEST(a_new_coordinator_keeps_the_cluster_and_takes_the_next_term)
{
    static struct rig_disk disk;
    rig_disk_init(&disk);
    rig_start(&rig, ps_store_file_create(NULL, &disk.base, "coord.state"), 2);
    rig_cluster(&rig, 1);
    uint64_t number = rig.members[2].number;
    uint64_t sessions = rig.members[0].sessions;
    rig_restart(&rig, 2);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(all->term, 2);
    ck_assert_uint_eq(all->generation, 2);
    ck_assert_uint_eq(all->n_members, 0);
    ck_assert_uint_eq(all->cluster_id.data[1], 2);
    rig_call_free(&call);
    rig_cluster(&rig, 1);
    ck_assert_uint_gt(rig.members[2].number, number);
    ck_assert_uint_gt(rig.members[0].sessions, sessions);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_state_of_another_layout_is_not_taken_for_ours)
{
    struct ps_store *store = ps_store_memory_create(NULL);
    struct ps_store_stamp stamp = {0};
    struct ps_error err;
    static const uint8_t other[64] = {3};
    ck_assert_int_eq(ps_store_write(store, &stamp, 1, other, _i == 0 ? sizeof(other) : 3, &err),
                     PS_OK);
    struct ps_inline_exec exec;
    ps_inline_exec_init(&exec, NULL, NULL);
    struct ps_coord_options options = {
        .exec = &exec.base, .store = store, .new_cluster_id = {.bytes = {1}}, .n_servers = 1};
    struct ps_coord *coord = NULL;
    ck_assert_int_eq(ps_coord_create(&options, &coord, &err), PS_ERR_CORRUPT);
    ps_store_destroy(store);
}
END_TEST

/* Every allocation of the coordinator may fail: it answers NOMEM or goes on, and leaks nothing. */
START_TEST(memory_may_run_out_at_any_moment)
{
    for (int64_t k = 0; k < 60; k++) {
        start(2);
        make_definitions();
        rig_cluster(&rig, 1);
        atomic_store(&rig.mem.fail_after, k);
        enum ps_status status = rig_define_table(&rig, &rig.members[2], &table, &call);
        if (call.done) {
            rig_call_free(&call);
        }
        atomic_store(&rig.mem.fail_after, -1);
        rig_pass(&rig, 2100);
        ck_assert(call.done);
        if (status != PS_OK && call.reply != NULL) {
            rig_call_free(&call);
        }
        rig_stop(&rig);
    }
}
END_TEST

static TCase *case_of_members(void)
{
    TCase *tcase = tcase_create("members");
    tcase_add_test(tcase, a_worker_is_answered_when_every_server_knows_it);
    tcase_add_test(tcase, a_join_that_must_wait_too_long_is_told_for_whom);
    tcase_add_test(tcase, who_waits_to_be_let_in_is_alive);
    tcase_add_loop_test(tcase, a_join_is_checked, 0, (int)PS_ARRAY_LEN(joins));
    tcase_add_test(tcase, a_stream_is_told_each_group_once_and_something_every_heartbeat);
    tcase_add_test(tcase, a_second_stream_of_a_session_takes_the_place_of_the_first);
    tcase_add_test(tcase, a_session_that_died_is_told_that_it_is_fenced);
    tcase_add_test(tcase, a_session_that_never_was_is_told_that_it_is_fenced);
    tcase_add_test(tcase, sessions_are_listed_by_number_for_ever);
    tcase_add_test(tcase, a_stream_of_nonsense_is_closed);
    tcase_add_test(tcase, a_lost_server_is_told_to_everybody);
    return tcase;
}

static TCase *case_of_training(void)
{
    TCase *tcase = tcase_create("training");
    tcase_add_test(tcase, a_table_is_answered_when_every_server_has_made_it);
    tcase_add_test(tcase, the_first_definition_of_a_table_wins);
    tcase_add_test(tcase, a_table_that_cannot_be_laid_out_is_refused);
    tcase_add_test(tcase, the_first_definition_of_the_job_wins);
    tcase_add_test(tcase, a_whole_plain_job_runs);
    tcase_add_test(tcase, an_aggregated_step_goes_to_servers_and_back_to_workers);
    tcase_add_test(tcase, losses_of_sessions_add_up_by_epoch);
    tcase_add_test(tcase, a_tick_is_answered_with_everything_and_keeps_its_session_alive);
    tcase_add_test(tcase, wait_clock_is_answered_when_the_clock_is_there_or_the_time_is_up);
    tcase_add_test(tcase, who_leaves_gives_its_lease_back);
    return tcase;
}

static TCase *case_of_ends(void)
{
    TCase *tcase = tcase_create("ends");
    tcase_add_test(tcase, shutdown_is_told_to_everybody_and_ends_what_waits);
    tcase_add_test(tcase, stop_answers_every_parked_call);
    tcase_add_test(tcase, a_coordinator_that_was_followed_stops_and_tells_nothing_unwritten);
    tcase_add_test(tcase, a_new_coordinator_keeps_the_cluster_and_takes_the_next_term);
    tcase_add_loop_test(tcase, a_state_of_another_layout_is_not_taken_for_ours, 0, 2);
    tcase_add_test(tcase, memory_may_run_out_at_any_moment);
    return tcase;
}

Suite *suite_coord(void)
{
    Suite *suite = suite_create("coord");
    suite_add_tcase(suite, case_of_members());
    suite_add_tcase(suite, case_of_training());
    suite_add_tcase(suite, case_of_ends());
    return suite;
}
