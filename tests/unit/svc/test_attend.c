/*
 * test_attend.c — a server's membership, against a coordinator that the test plays: what is said is
 * applied by every lane and then acknowledged; broken streams, silence, fences and lies.
 */
#include <string.h>

#include "coordinator.pb-c.h"
#include "lib/test_main.h"
#include "obs/log.h"
#include "port/direct.h"
#include "suites.h"
#include "svc/attend_impl.h"
#include "wire/pack.h"

#define LANES   2u
#define NUMBER  7u /* Session number that the coordinator gives. */
#define GIVE_UP 4000u
#define CLUSTER 7u /* First byte of its id. */

static struct ps_mem mem;
static struct ps_inline_exec exec;
static struct ps_inline_exec lane_exec; /* Turned by hand. */
static bool lanes_apart;                /* Of the next start: lanes run there. */
static uint64_t now_ns;
static struct ps_direct *direct;
static struct ps_listener *listener;
static struct ps_catalogue catalogue;
static struct ps_lane *lanes[LANES];
static struct ps_svc_data svc;
static struct ps_attend *attend;
static uint32_t n_changed;
static uint32_t n_stopped;

static const struct ps_id session = {{1, 2, 3}};

/* The coordinator. */
static struct ps_stream *stream;
static enum ps_status join_answer;
static uint32_t join_protocol;
static uint8_t wanted_cluster; /* First byte, as of the next; 0: none. */
static uint8_t asked_cluster;
static bool hangs; /* It does not end a stream that the server has ended. */
static uint32_t n_joins;
static uint32_t n_streams;
static uint32_t n_reports;
static struct reported {
    uint64_t number, term, placement, sessions, catalogue, finished, closed_steps;
} seen;

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    return now_ns;
}

/* ---- The coordinator ------------------------------------------------------------------------ */

static void on_join(void *arg, struct ps_call *call)
{
    (void)arg;
    const struct ps_msg *msg = ps_call_request(call);
    Ps__V1__JoinRequest *join = (Ps__V1__JoinRequest *)ps_wire_unpack(
        &ps__v1__join_request__descriptor, msg->slices, msg->n_slices, NULL);
    ck_assert_ptr_nonnull(join);
    ck_assert_int_eq(join->kind, PS__V1__SESSION_KIND__SERVER);
    ck_assert_uint_eq(join->session.len, sizeof(session.bytes));
    ck_assert_mem_eq(join->session.data, session.bytes, sizeof(session.bytes));
    ck_assert_str_eq(join->address, "here:1");
    asked_cluster = join->cluster_id.len == 16 ? join->cluster_id.data[0] : 0;
    ps_wire_unpacked_free(&join->base);
    n_joins++;
    if (join_answer != PS_OK) {
        ps_call_finish(call, join_answer, NULL, "not today");
        return;
    }
    uint8_t bytes[128];
    bool fits = false;
    Ps__V1__JoinReply reply = PS__V1__JOIN_REPLY__INIT;
    uint8_t cluster[16] = {CLUSTER};
    reply.protocol = join_protocol;
    reply.cluster_id = (ProtobufCBinaryData){sizeof(cluster), cluster};
    reply.session_number = NUMBER;
    reply.term = 1;
    reply.generation = 1;
    reply.server_index = 1;
    struct ps_out out = {.head = bytes,
                         .n_head_bytes = ps_wire_pack(&reply.base, bytes, sizeof(bytes), &fits)};
    ps_call_finish(call, PS_OK, &out, NULL);
}

static void on_report(void *arg, struct ps_msg *msg)
{
    (void)arg;
    Ps__V1__AttendReport *report = (Ps__V1__AttendReport *)ps_wire_unpack(
        &ps__v1__attend_report__descriptor, msg->slices, msg->n_slices, NULL);
    ck_assert_ptr_nonnull(report);
    ck_assert_mem_eq(report->session.data, session.bytes, sizeof(session.bytes));
    ck_assert_ptr_nonnull(report->server);
    seen = (struct reported){
        .number = report->session_number,
        .term = report->term,
        .placement = report->server->placement_version,
        .sessions = report->server->sessions_version,
        .catalogue = report->server->catalogue_version,
        .finished = report->server->finished_version,
        .closed_steps = report->server->closed_steps,
    };
    n_reports++;
    ps_wire_unpacked_free(&report->base);
    ps_msg_unref(msg);
}

static void on_closed(void *arg, enum ps_status status)
{
    (void)arg;
    (void)status;
    if (!hangs) {
        ps_stream_release(stream);
        stream = NULL;
    }
}

static void on_attend(void *arg, struct ps_stream *accepted)
{
    (void)arg;
    static const struct ps_stream_events events = {.message = on_report, .closed = on_closed};
    ck_assert_ptr_null(stream);
    stream = accepted;
    n_streams++;
    ps_stream_start(stream, &events, NULL);
}

static const struct ps_method methods[] = {
    {.path = "/ps.v1.Coordinator/Join", .roles = PS_ROLE_ANY, .call = on_join},
    {.path = "/ps.v1.Coordinator/Attend",
     .roles = PS_ROLE_ANY,
     .kind = PS_METHOD_STREAM,
     .accept = on_attend},
};

/* ---- Life ----------------------------------------------------------------------------------- */

static void changed(void *arg)
{
    (void)arg;
    n_changed++;
}

static void stopped(void *arg)
{
    (void)arg;
    n_stopped++;
}

static void pass_ms(uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 10) {
        now_ns += 10000000;
        ps_inline_exec_pump(&exec);
    }
}

static void start(void)
{
    ps_log_level_set(PS_LOG_NONE);
    ps_mem_init(&mem);
    memset(&catalogue, 0, sizeof(catalogue));
    memset(&svc, 0, sizeof(svc));
    memset(&seen, 0, sizeof(seen));
    n_joins = n_streams = n_reports = n_changed = n_stopped = 0;
    now_ns = 5000000000;
    ps_inline_exec_init(&exec, clock_ns, NULL);
    ps_inline_exec_init(&lane_exec, clock_ns, NULL);
    direct = ps_direct_create(&exec.base);
    struct ps_transport *transport = ps_direct_transport(direct);
    ck_assert_int_eq(ps_listener_open(transport,
                                      &(struct ps_service){
                                          .address = "there:1", .methods = methods, .n_methods = 2},
                                      &listener, NULL),
                     PS_OK);
    for (uint32_t i = 0; i < LANES; i++) {
        struct ps_lane_options options = {.exec = lanes_apart ? &lane_exec.base : &exec.base,
                                          .mem = &mem,
                                          .committer = &ps_commit_at_once,
                                          .catalogue = &catalogue,
                                          .index = i,
                                          .n_lanes = LANES};
        ck_assert_int_eq(ps_lane_create(&options, &lanes[i], NULL), PS_OK);
    }
    svc.ledger = ps_ledger_create(&mem, &(struct ps_ledger_limits){0});
    ck_assert_ptr_nonnull(svc.ledger);
    struct ps_attend_options options = {.transport = transport,
                                        .exec = &exec.base,
                                        .mem = &mem,
                                        .coordinator = "there:1",
                                        .address = "here:1",
                                        .name = "server-1",
                                        .session = session,
                                        .cluster_id = {{wanted_cluster}},
                                        .give_up_ms = GIVE_UP,
                                        .seed = 1,
                                        .catalogue = &catalogue,
                                        .lanes = lanes,
                                        .n_lanes = LANES,
                                        .svc = &svc,
                                        .changed = changed};
    ck_assert_int_eq(ps_attend_create(&options, &attend, NULL), PS_OK);
}

static void open_all(void)
{
    join_answer = PS_OK;
    join_protocol = PS_PROTOCOL_MAX;
    start();
    pass_ms(50);
    ck_assert_ptr_nonnull(stream);
}

static void close_rest(void)
{
    ps_listener_stop(listener, 0);
    ps_inline_exec_pump(&exec);
    ps_listener_close(listener);
    ps_direct_destroy(direct);
    for (uint32_t i = 0; i < LANES; i++) {
        ps_lane_destroy(lanes[i]);
    }
    ps_ledger_unref(svc.ledger);
    for (uint32_t c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        ck_assert_uint_eq(atomic_load(&mem.used[c]), 0);
    }
}

static void close_all(void)
{
    ps_attend_stop(attend, stopped, NULL);
    pass_ms(50);
    ck_assert_uint_eq(n_stopped, 1);
    ck_assert_ptr_null(stream);
    ps_attend_destroy(attend);
    close_rest();
}

static struct ps_attend_view view(void)
{
    struct ps_attend_view ret;
    ps_attend_view(attend, &ret);
    return ret;
}

static void say(const Ps__V1__AttendState *state)
{
    static uint8_t bytes[8192];
    bool fits = false;
    struct ps_out out = {.head = bytes,
                         .n_head_bytes = ps_wire_pack(&state->base, bytes, sizeof(bytes), &fits)};
    ck_assert(fits);
    ck_assert_int_eq(ps_stream_send(stream, &out), PS_OK);
    ps_inline_exec_pump(&exec);
}

/* ---- States --------------------------------------------------------------------------------- */

static Ps__V1__AttendState plain(uint64_t term)
{
    Ps__V1__AttendState state = PS__V1__ATTEND_STATE__INIT;
    state.term = term;
    state.generation = 1;
    return state;
}

/* Version `version` of everything: all slots ours, a table, session 3, lease 1 finished. */
static void say_all(uint64_t version)
{
    static uint8_t id[16] = {3};
    static uint8_t incarnation[16];
    static uint32_t primary[PS_SLOTS];
    static uint64_t epoch[PS_SLOTS];
    static char name[] = "w";
    static uint64_t shape = 5000;
    memcpy(incarnation, session.bytes, sizeof(incarnation));
    Ps__V1__Server other = PS__V1__SERVER__INIT;
    Ps__V1__Server me = PS__V1__SERVER__INIT;
    Ps__V1__Server *servers[] = {&other, &me};
    me.index = 1;
    me.incarnation = (ProtobufCBinaryData){.len = 16, .data = incarnation};
    Ps__V1__Placement placement = PS__V1__PLACEMENT__INIT;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        primary[s] = 1;
        epoch[s] = version;
    }
    placement.version = version;
    placement.n_servers = 2;
    placement.servers = servers;
    placement.n_primary = PS_SLOTS;
    placement.primary = primary;
    placement.n_epoch = PS_SLOTS;
    placement.epoch = epoch;
    Ps__V1__TableDefinition definition = PS__V1__TABLE_DEFINITION__INIT;
    definition.name = name;
    definition.n_shape = 1;
    definition.shape = &shape;
    definition.dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    Ps__V1__Table table = PS__V1__TABLE__INIT;
    Ps__V1__Table *tables[] = {&table};
    table.definition = &definition;
    Ps__V1__Catalogue list = PS__V1__CATALOGUE__INIT;
    list.version = 1;
    list.n_tables = 1;
    list.tables = tables;
    Ps__V1__OpenSession open = PS__V1__OPEN_SESSION__INIT;
    Ps__V1__OpenSession *opens[] = {&open};
    open.number = 3;
    open.session = (ProtobufCBinaryData){.len = 16, .data = id};
    Ps__V1__OpenSessions sessions = PS__V1__OPEN_SESSIONS__INIT;
    sessions.version = version;
    sessions.n_sessions = 1;
    sessions.sessions = opens;
    Ps__V1__LeaseRange range = PS__V1__LEASE_RANGE__INIT;
    Ps__V1__LeaseRange *ranges[] = {&range};
    range.first = range.last = 1;
    Ps__V1__FinishedLeases finished = PS__V1__FINISHED_LEASES__INIT;
    finished.version = version;
    finished.n_ranges = 1;
    finished.ranges = ranges;
    Ps__V1__CloseStep close = PS__V1__CLOSE_STEP__INIT;
    close.step = version;
    Ps__V1__AttendState state = plain(1);
    state.placement = &placement;
    state.catalogue = &list;
    state.sessions = &sessions;
    state.finished = &finished;
    state.close = &close;
    say(&state);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

START_TEST(a_server_joins_then_attends_and_says_who_it_is)
{
    open_all();
    ck_assert_uint_eq(n_joins, 1);
    ck_assert_uint_eq(n_streams, 1);
    ck_assert_uint_ge(n_reports, 1);
    ck_assert_uint_eq(seen.number, NUMBER);
    ck_assert_uint_eq(seen.placement, 0);
    ck_assert(view().joined);
    ck_assert_uint_eq(view().index, 1);
    uint32_t n_before = n_reports;
    pass_ms(2 * PS_HEARTBEAT_MS + 20);
    ck_assert_uint_eq(n_reports, n_before + 2); /* Heartbeats. */
    close_all();
}
END_TEST

START_TEST(versions_are_acknowledged_when_every_lane_has_them)
{
    open_all();
    say_all(4);
    ck_assert_uint_eq(seen.placement, 4);
    ck_assert_uint_eq(seen.sessions, 4);
    ck_assert_uint_eq(seen.finished, 4);
    ck_assert_uint_eq(seen.closed_steps, 5);
    ck_assert_uint_eq(seen.catalogue, 1);
    ck_assert_uint_eq(atomic_load(&catalogue.n_tables), 1);
    ck_assert_str_eq(catalogue.tables[0].spec.name, "w");
    ck_assert_uint_eq(atomic_load(&svc.generation), 1);
    ck_assert_uint_gt(atomic_load(&mem.used[PS_MEM_PAGES]), 5000 * sizeof(float));
    close_all();
}
END_TEST

START_TEST(a_deposed_coordinator_is_not_listened_to)
{
    open_all();
    Ps__V1__AttendState state = plain(9);
    say(&state);
    say_all(4); /* Of term 1. */
    pass_ms(PS_HEARTBEAT_MS + 20);
    ck_assert_uint_eq(seen.term, 9);
    ck_assert_uint_eq(seen.placement, 0);
    ck_assert_uint_eq(atomic_load(&catalogue.n_tables), 0);
    close_all();
}
END_TEST

START_TEST(a_broken_stream_is_opened_again_without_joining)
{
    open_all();
    say_all(4);
    ps_stream_close(stream, PS_ERR_UNAVAIL);
    pass_ms(1000);
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(n_streams, 2);
    ck_assert_uint_eq(n_joins, 1);
    ck_assert_uint_eq(seen.placement, 4); /* What is applied stays acknowledged. */
    ck_assert_int_eq(view().lost.status, PS_OK);
    close_all();
}
END_TEST

START_TEST(a_state_that_cannot_be_read_starts_the_stream_over)
{
    open_all();
    static const uint8_t junk[] = {0x1a, 0x7f};
    struct ps_out out = {.head = junk, .n_head_bytes = sizeof(junk)};
    ck_assert_int_eq(ps_stream_send(stream, &out), PS_OK);
    pass_ms(1000);
    ck_assert_uint_eq(n_streams, 2);
    ck_assert_int_eq(view().lost.status, PS_OK);
    close_all();
}
END_TEST

START_TEST(a_fenced_server_says_so_once)
{
    open_all();
    uint32_t n_before = n_changed;
    static char reason[] = "two of you";
    Ps__V1__AttendState state = plain(1);
    state.fenced = true;
    state.reason = reason;
    say(&state);
    say(&state);
    ck_assert_int_eq(view().lost.status, PS_ERR_FENCED);
    ck_assert_ptr_nonnull(strstr(view().lost.text, reason));
    ck_assert_uint_eq(n_changed, n_before + 1);
    close_all();
}
END_TEST

START_TEST(another_cluster_at_the_coordinators_address_is_told)
{
    open_all();
    uint8_t cluster[16] = {CLUSTER + 1};
    Ps__V1__AttendState state =
        plain(_i == 0 ? 9 : 0); /* Its terms have nothing to do with ours. */
    state.fenced = true;
    state.cluster_id = (ProtobufCBinaryData){sizeof(cluster), cluster};
    say(&state);
    ck_assert_int_eq(view().lost.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(strstr(view().lost.text, "there:1"));
    ck_assert_ptr_nonnull(strstr(view().lost.text, "cluster 08000000000000000000000000000000"));
    ck_assert_ptr_nonnull(strstr(view().lost.text, "cluster 07000000000000000000000000000000"));
    close_all();
}
END_TEST

START_TEST(a_coordinator_of_another_age_is_refused_with_both_protocols)
{
    join_answer = PS_OK;
    join_protocol = _i == 0 ? PS_PROTOCOL_MAX + 1 : PS_PROTOCOL_MIN - 1;
    start();
    pass_ms(50);
    ck_assert(!view().joined);
    ck_assert_int_eq(view().lost.status, PS_ERR_UNSUPPORTED);
    const char *says = _i == 0 ? "protocol 2, 1 to 1 are" : "protocol 0, 1 to 1 are";
    ck_assert_ptr_nonnull(strstr(view().lost.text, says));
    close_all();
}
END_TEST

START_TEST(a_coordinator_that_never_starts_is_named_with_the_last_reason)
{
    join_answer = PS_ERR_UNAVAIL;
    start();
    pass_ms(3 * GIVE_UP - 200);
    ck_assert_int_eq(view().lost.status, PS_OK);
    pass_ms(400);
    ck_assert_int_eq(view().lost.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(
        strstr(view().lost.text, "(there:1) has been silent for 12 s: not today"));
    close_all();
}
END_TEST

START_TEST(the_cluster_to_join_is_named)
{
    wanted_cluster = _i == 0 ? 0 : CLUSTER;
    open_all();
    ck_assert_uint_eq(asked_cluster, wanted_cluster);
    wanted_cluster = 0;
    close_all();
}
END_TEST

START_TEST(a_silent_coordinator_is_given_up)
{
    open_all();
    Ps__V1__AttendState state = plain(1);
    pass_ms(GIVE_UP - 200);
    say(&state); /* Just in time. */
    pass_ms(GIVE_UP - 200);
    ck_assert_int_eq(view().lost.status, PS_OK);
    pass_ms(1000);
    ck_assert_int_eq(view().lost.status, PS_ERR_LOST);
    close_all();
}
END_TEST

START_TEST(joining_is_tried_again_while_that_may_help)
{
    join_answer = PS_ERR_UNAVAIL;
    join_protocol = PS_PROTOCOL_MAX;
    start();
    pass_ms(2000);
    ck_assert_uint_gt(n_joins, 1);
    ck_assert(!view().joined);
    join_answer = PS_OK;
    pass_ms(3000);
    ck_assert(view().joined);
    close_all();
}
END_TEST

START_TEST(a_refusal_to_join_is_final_and_has_words)
{
    join_answer = PS_ERR_DENIED;
    start();
    pass_ms(500);
    ck_assert_uint_eq(n_joins, 1);
    ck_assert_int_eq(view().lost.status, PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(view().lost.text, "there:1"));
    ck_assert_ptr_nonnull(strstr(view().lost.text, "not today"));
    close_all();
}
END_TEST

static void sessions_out_of_order(void)
{
    static uint8_t id[16] = {3};
    Ps__V1__OpenSession open = PS__V1__OPEN_SESSION__INIT;
    Ps__V1__OpenSession *opens[] = {&open, &open};
    open.number = 3;
    open.session = (ProtobufCBinaryData){.len = 16, .data = id};
    Ps__V1__OpenSessions sessions = PS__V1__OPEN_SESSIONS__INIT;
    sessions.version = 2;
    sessions.n_sessions = 2;
    sessions.sessions = opens;
    Ps__V1__AttendState state = plain(1);
    state.sessions = &sessions;
    say(&state);
}

static void a_placement_of_one_slot(void)
{
    uint32_t primary = 1;
    Ps__V1__Placement placement = PS__V1__PLACEMENT__INIT;
    placement.n_primary = 1;
    placement.primary = &primary;
    Ps__V1__AttendState state = plain(1);
    state.placement = &placement;
    say(&state);
}

static void a_unit_twice_in_a_step(void)
{
    Ps__V1__CloseEntry entry = PS__V1__CLOSE_ENTRY__INIT;
    Ps__V1__CloseEntry *entries[] = {&entry, &entry};
    entry.lease = 4;
    Ps__V1__CloseStep close = PS__V1__CLOSE_STEP__INIT;
    close.n_entries = 2;
    close.entries = entries;
    Ps__V1__AttendState state = plain(1);
    state.close = &close;
    say(&state);
}

static void leases_that_overlap(void)
{
    Ps__V1__LeaseRange range = PS__V1__LEASE_RANGE__INIT;
    Ps__V1__LeaseRange *ranges[] = {&range, &range};
    range.first = range.last = 1;
    Ps__V1__FinishedLeases finished = PS__V1__FINISHED_LEASES__INIT;
    finished.version = 1;
    finished.n_ranges = 2;
    finished.ranges = ranges;
    Ps__V1__AttendState state = plain(1);
    state.finished = &finished;
    say(&state);
}

static void (*const lies[])(void) = {sessions_out_of_order, a_placement_of_one_slot,
                                     a_unit_twice_in_a_step, leases_that_overlap};

START_TEST(a_state_that_contradicts_itself_ends_the_membership)
{
    open_all();
    lies[_i]();
    ck_assert_int_eq(view().lost.status, PS_ERR_INVALID);
    close_all();
}
END_TEST

START_TEST(a_server_without_memory_for_its_tables_is_lost_and_does_not_acknowledge)
{
    open_all();
    mem.limit[PS_MEM_PAGES] = 4096;
    say_all(4);
    pass_ms(PS_HEARTBEAT_MS + 20);
    ck_assert_int_eq(view().lost.status, PS_ERR_NOMEM);
    ck_assert_uint_eq(seen.placement, 0);
    ck_assert_uint_eq(atomic_load(&catalogue.n_tables), 0);
    close_all();
}
END_TEST

START_TEST(stopping_while_joining_ends_too)
{
    join_answer = PS_ERR_UNAVAIL;
    start();
    ck_assert_uint_eq(n_joins, 0);
    close_all();
}
END_TEST

START_TEST(stopping_does_not_wait_for_a_coordinator_that_hangs)
{
    open_all();
    hangs = true;
    ps_attend_stop(attend, stopped, NULL);
    pass_ms(200);
    ck_assert_uint_eq(n_stopped, 0); /* It is given time to end in peace. */
    pass_ms(200);
    ck_assert_uint_eq(n_stopped, 1);
    hangs = false;
    on_closed(NULL, PS_OK);
    ps_attend_destroy(attend);
    close_rest();
}
END_TEST

/* A coordinator that talks faster than the lanes listen fills its own stream, not the lanes. */
START_TEST(news_waits_while_the_lanes_are_behind_and_keeps_its_order)
{
    lanes_apart = true;
    open_all();
    for (uint64_t clock = 1; clock <= 40; clock++) {
        Ps__V1__AttendState state = plain(1);
        state.min_clock = clock;
        say(&state);
        ck_assert_uint_le(attend->n_updates, 16);
    }
    say_all(1);
    ck_assert_uint_eq(attend->n_updates, 16);
    for (uint32_t i = 0; i < 10; i++) {
        ps_inline_exec_pump(&lane_exec);
        ps_inline_exec_pump(&exec);
    }
    ck_assert_uint_eq(attend->n_updates, 0);
    ck_assert_uint_eq(seen.placement, 1);
    for (uint64_t clock = 41; clock <= 80; clock++) { /* And what waits is let go at a stop. */
        Ps__V1__AttendState state = plain(1);
        state.min_clock = clock;
        say(&state);
    }
    ps_attend_stop(attend, stopped, NULL);
    pass_ms(50);
    ck_assert_uint_eq(n_stopped, 0);
    ps_inline_exec_pump(&lane_exec);
    pass_ms(50);
    ck_assert_uint_eq(n_stopped, 1);
    ps_attend_destroy(attend);
    lanes_apart = false;
    close_rest();
}
END_TEST

Suite *suite_attend(void)
{
    Suite *suite = suite_create("attend");
    TCase *tcase = tcase_create("attend");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_server_joins_then_attends_and_says_who_it_is);
    tcase_add_test(tcase, versions_are_acknowledged_when_every_lane_has_them);
    tcase_add_test(tcase, a_deposed_coordinator_is_not_listened_to);
    tcase_add_test(tcase, a_broken_stream_is_opened_again_without_joining);
    tcase_add_test(tcase, a_state_that_cannot_be_read_starts_the_stream_over);
    tcase_add_test(tcase, a_fenced_server_says_so_once);
    tcase_add_loop_test(tcase, another_cluster_at_the_coordinators_address_is_told, 0, 2);
    tcase_add_loop_test(tcase, a_coordinator_of_another_age_is_refused_with_both_protocols, 0, 2);
    tcase_add_test(tcase, a_coordinator_that_never_starts_is_named_with_the_last_reason);
    tcase_add_loop_test(tcase, the_cluster_to_join_is_named, 0, 2);
    tcase_add_test(tcase, a_silent_coordinator_is_given_up);
    tcase_add_test(tcase, joining_is_tried_again_while_that_may_help);
    tcase_add_test(tcase, a_refusal_to_join_is_final_and_has_words);
    tcase_add_loop_test(tcase, a_state_that_contradicts_itself_ends_the_membership, 0,
                        PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, a_server_without_memory_for_its_tables_is_lost_and_does_not_acknowledge);
    tcase_add_test(tcase, stopping_while_joining_ends_too);
    tcase_add_test(tcase, stopping_does_not_wait_for_a_coordinator_that_hangs);
    tcase_add_test(tcase, news_waits_while_the_lanes_are_behind_and_keeps_its_order);
    suite_add_tcase(suite, tcase);
    return suite;
}
