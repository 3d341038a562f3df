/*
 * coord_call.c — the unary calls.
 *
 * A call arrives on a thread of the transport and becomes mail. Its handler changes the state and
 * parks it; flush answers it, after what it changed has been written to the store. So no call is
 * answered twice, and none before its effect is durable.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coord/coord_impl.h"
#include "obs/log.h"
#include "wire/pack.h"

bool coord_take_hold(struct ps_coord *coord)
{
    uint32_t before = atomic_fetch_add_explicit(&coord->n_under_way, 1, memory_order_relaxed);
    if (before < PS_COORD_UNDER_WAY_MAX) {
        return true;
    }
    atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
    return false;
}

/* ---- Answering ----------------------------------------------------------------------------- */

static void let_go(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    ps_timer_stop(coord->options.exec, &call->deadline);
    if (!ps_list_empty(&call->node)) {
        ps_list_remove(&call->node);
        coord->n_parked--;
    }
    ps_mem_free(call);
    atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
}

void coord_call_reply(struct coord_call *call, const ProtobufCMessage *message)
{
    struct ps_out out;
    if (!coord_pack(call->coord, message, &out)) {
        coord_call_fail(call, PS_ERR_NOMEM, "no memory for the answer");
        return;
    }
    ps_call_finish(call->call, PS_OK, &out, NULL);
    let_go(call);
}

void coord_call_fail(struct coord_call *call, enum ps_status status, const char *reason)
{
    ps_metric_add(call->coord->options.metrics, PS_METRIC_calls_refused_total, 1);
    ps_call_finish(call->call, status, NULL, reason);
    let_go(call);
}

void coord_call_fail_as(struct coord_call *call, const struct ps_error *err)
{
    coord_call_fail(call, err->status, err->text);
}

static void run_deadline(struct ps_timer *timer)
{
    struct coord_call *call = PS_CONTAINER_OF(timer, struct coord_call, deadline);
    call->late = true;
    coord_changed(call->coord);
}

/* Calls of its session that wait; of nobody's they are answered by the next flush. */
static uint32_t count_parked(const struct coord_call *call)
{
    uint32_t n = 0;
    ps_list_for_each (at, &call->coord->parked) {
        const struct coord_call *other = PS_CONTAINER_OF(at, struct coord_call, node);
        n += !ps_id_none(&call->session) && ps_id_equal(&other->session, &call->session);
    }
    return n;
}

/* Have it answered by flush: at once if it can be, else when it can, at the latest when the caller
 * is about to give up. */
void coord_call_park(struct coord_call *call, void (*answer)(struct coord_call *call))
{
    struct ps_coord *coord = call->coord;
    if (coord->n_parked >= PS_COORD_PARKED_MAX || count_parked(call) >= PS_COORD_PARKED_EACH) {
        coord_call_fail(call, PS_ERR_BUSY, "too many calls wait already");
        return;
    }
    call->answer = answer;
    ps_list_append(&coord->parked, &call->node);
    coord->n_parked++;
    uint64_t left_ms = ps_call_time_left_ms(call->call);
    uint64_t margin_ms = left_ms / 8 < PS_HEARTBEAT_MS ? left_ms / 8 : PS_HEARTBEAT_MS;
    ps_timer_start(coord->options.exec, &call->deadline, left_ms - margin_ms);
    coord_changed(coord);
}

static bool session_ended(const struct coord_call *call)
{
    if (ps_id_none(&call->session)) {
        return false;
    }
    const struct ps_coord_member *member = &call->coord->core.members[call->member];
    return !ps_id_equal(&member->session, &call->session) || ps_member_ended(&member->life);
}

void coord_calls_answer(struct ps_coord *coord)
{
    ps_list_for_each_safe (at, after, &coord->parked) {
        struct coord_call *call = PS_CONTAINER_OF(at, struct coord_call, node);
        bool over = !call->outlives && ps_coord_core_over(&coord->core);
        if (over) {
            coord_call_fail(call,
                            coord->core.state == PS_COORD_LOST ? PS_ERR_LOST : PS_ERR_CANCELED,
                            coord->core.reason);
        } else if (!call->outlives && session_ended(call)) {
            coord_call_fail(call, PS_ERR_FENCED, "the session has ended");
        } else {
            call->answer(call);
        }
    }
}

/* ---- Who asks ------------------------------------------------------------------------------ */

static bool find_member(struct coord_call *call, const ProtobufCBinaryData *session)
{
    struct ps_id id;
    if (!ps_id_from(session->data, session->len, &id) || ps_id_none(&id)) {
        return false;
    }
    call->member = ps_coord_core_find(&call->coord->core, &id);
    return call->member != PS_COORD_NOBODY;
}

/* The caller must be somebody; false: it has been told so. */
bool coord_call_identify(struct coord_call *call, const ProtobufCBinaryData *session)
{
    struct ps_coord *coord = call->coord;
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    if (!find_member(call, session) || !ps_coord_core_heard(&coord->core, now_ms, call->member)) {
        coord_call_fail(call, PS_ERR_FENCED, "the session has ended or was never opened");
        return false;
    }
    call->session = coord->core.members[call->member].session;
    return true;
}

/* ---- Whoever waits is alive ---------------------------------------------------------------- */

void coord_calls_keep_alive(struct ps_coord *coord, uint64_t now_ms)
{
    ps_list_for_each (at, &coord->parked) {
        struct coord_call *call = PS_CONTAINER_OF(at, struct coord_call, node);
        if (!ps_id_none(&call->session) && !session_ended(call) && !ps_call_gone(call->call)) {
            (void)ps_coord_core_heard(&coord->core, now_ms, call->member);
        }
    }
}

/* ---- Clocks -------------------------------------------------------------------------------- */

static void answer_tick(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    Ps__V1__TickReply reply = PS__V1__TICK_REPLY__INIT;
    /* Nobody, or a place that somebody else has got: its session is over. */
    if (call->member == PS_COORD_NOBODY ||
        !ps_id_equal(&coord->core.members[call->member].session, &call->session)) {
        reply.state = coord_state_unknown(coord);
    } else {
        struct coord_told nothing = {0};
        struct coord_told now = coord_told_now(coord, call->member);
        reply.state = coord_state(coord, call->member, &nothing, &now);
    }
    coord_call_reply(call, &reply.base);
}

static void tick(struct coord_call *call, ProtobufCMessage *message)
{
    const Ps__V1__AttendReport *report = ((const Ps__V1__TickRequest *)message)->report;
    if (report == NULL) {
        coord_call_fail(call, PS_ERR_INVALID, "no report is given");
        return;
    }
    if (find_member(call, &report->session)) {
        call->session = call->coord->core.members[call->member].session;
        (void)coord_report(call->coord, call->member, report);
    }
    call->outlives = true;
    coord_call_park(call, answer_tick);
}

static void answer_clock(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    if (coord->core.min_clock >= call->clock || call->late) {
        Ps__V1__WaitClockReply reply = PS__V1__WAIT_CLOCK_REPLY__INIT;
        reply.min_clock = coord->core.min_clock;
        coord_call_reply(call, &reply.base);
    }
}

static void wait_clock(struct coord_call *call, ProtobufCMessage *message)
{
    const Ps__V1__WaitClockRequest *request = (const Ps__V1__WaitClockRequest *)message;
    if (coord_call_identify(call, &request->session)) {
        call->clock = request->clock;
        coord_call_park(call, answer_clock);
    }
}

/* ---- The end ------------------------------------------------------------------------------- */

static void answer_leave(struct coord_call *call)
{
    Ps__V1__LeaveReply reply = PS__V1__LEAVE_REPLY__INIT;
    coord_call_reply(call, &reply.base);
}

/* Who is not known has left already: a repeat is harmless. */
static void leave(struct coord_call *call, ProtobufCMessage *message)
{
    struct ps_coord *coord = call->coord;
    if (find_member(call, &((const Ps__V1__LeaveRequest *)message)->session)) {
        ps_coord_core_leave(&coord->core, ps_exec_now_ms(coord->options.exec), call->member);
    }
    call->outlives = true;
    coord_call_park(call, answer_leave);
}

static void answer_shutdown(struct coord_call *call)
{
    Ps__V1__ShutdownReply reply = PS__V1__SHUTDOWN_REPLY__INIT;
    coord_call_reply(call, &reply.base);
}

static void shut_down(struct coord_call *call, ProtobufCMessage *message)
{
    struct ps_coord *coord = call->coord;
    const char *reason = ((const Ps__V1__ShutdownRequest *)message)->reason;
    ps_coord_core_stop(&coord->core, ps_exec_now_ms(coord->options.exec),
                       reason[0] != '\0' ? reason : "shutdown was asked for");
    call->outlives = true;
    coord_call_park(call, answer_shutdown);
}

static void describe(struct coord_call *call, ProtobufCMessage *message PS_UNUSED)
{
    call->outlives = true;
    coord_call_park(call, coord_describe);
}

/* ---- Arrival ------------------------------------------------------------------------------- */

#define WRITERS (PS_ROLE_WORKER | PS_ROLE_ADMIN)

struct coord_kind {
    const char *path;
    const ProtobufCMessageDescriptor *request;
    uint32_t roles;
    /** Answer the call, or park it. */
    void (*handle)(struct coord_call *call, ProtobufCMessage *message);
};

/* clang-format off */
static const struct coord_kind kinds[PS_COORD_METHODS - 1] = {
    {"/ps.v1.Coordinator/Join", &ps__v1__join_request__descriptor, PS_ROLE_ANY,
     coord_join},
    {"/ps.v1.Coordinator/Tick", &ps__v1__tick_request__descriptor, PS_ROLE_ANY, tick},
    {"/ps.v1.Coordinator/WaitClock", &ps__v1__wait_clock_request__descriptor, PS_ROLE_ANY,
     wait_clock},
    {"/ps.v1.Coordinator/DefineTable", &ps__v1__define_table_request__descriptor, WRITERS,
     coord_define_table},
    {"/ps.v1.Coordinator/DefineJob", &ps__v1__define_job_request__descriptor, WRITERS,
     coord_define_job},
    {"/ps.v1.Coordinator/Describe", &ps__v1__describe_request__descriptor, PS_ROLE_ANY, describe},
    {"/ps.v1.Coordinator/Leave", &ps__v1__leave_request__descriptor, PS_ROLE_ANY, leave},
    {"/ps.v1.Coordinator/Shutdown", &ps__v1__shutdown_request__descriptor, WRITERS, shut_down},
    {"/ps.v1.Coordinator/Snapshot", &ps__v1__snapshot_request__descriptor, WRITERS,
     coord_snapshot},
    {"/ps.v1.Coordinator/Restore", &ps__v1__restore_request__descriptor, WRITERS,
     coord_restore},
};
/* clang-format on */

static void run_call(struct ps_mail *mail)
{
    struct coord_call *call = PS_CONTAINER_OF(mail, struct coord_call, mail);
    struct ps_coord *coord = call->coord;
    ps_metric_add(coord->options.metrics, PS_METRIC_calls_total, 1);
    if (coord->stopped) {
        coord_call_fail(call, PS_ERR_UNAVAIL, "the coordinator has stopped");
        return;
    }
    enum ps_status why;
    ProtobufCMessage *message =
        coord_unpack(coord, call->kind->request, ps_call_request(call->call), &why);
    if (message == NULL && why == PS_ERR_NOMEM) {
        coord_call_fail(call, PS_ERR_NOMEM, "no memory to read the request");
        return;
    }
    if (message == NULL) {
        ps_metric_add(coord->options.metrics, PS_METRIC_messages_malformed_total, 1);
        coord_call_fail(call, PS_ERR_INVALID, "the request is malformed or too long");
        return;
    }
    call->kind->handle(call, message);
    ps_wire_unpacked_free(message);
    coord_changed(coord);
}

/* On a thread of the transport. */
static void on_call(void *arg, struct ps_call *ps_call)
{
    const struct coord_row *row = arg;
    struct ps_coord *coord = row->coord;
    if (!coord_take_hold(coord)) {
        ps_metric_add(coord->options.metrics, PS_METRIC_calls_busy_total, 1);
        ps_call_finish(ps_call, PS_ERR_BUSY, NULL, "the coordinator has too many calls: slow down");
        return;
    }
    struct coord_call *call = ps_mem_alloc(coord->options.mem, PS_MEM_CALLS, sizeof(*call));
    if (call == NULL) {
        ps_call_finish(ps_call, PS_ERR_BUSY, NULL, "no memory for one more call: slow down");
        atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
        return;
    }
    call->coord = coord;
    call->call = ps_call;
    call->kind = row->kind;
    call->member = PS_COORD_NOBODY;
    call->mail.run = run_call;
    ps_list_init(&call->node);
    ps_timer_init(&call->deadline, run_deadline);
    ps_exec_post(coord->options.exec, &call->mail);
}

void coord_call_rows(struct ps_coord *coord, struct ps_method *methods)
{
    PS_STATIC_ASSERT(PS_ARRAY_LEN(kinds) == PS_ARRAY_LEN(coord->rows), "a row for each kind");
    for (uint32_t i = 0; i < PS_ARRAY_LEN(kinds); i++) {
        coord->rows[i] = (struct coord_row){.coord = coord, .kind = &kinds[i]};
        methods[i] = (struct ps_method){
            .path = kinds[i].path,
            .traffic = PS_TRAFFIC_CONTROL,
            .roles = kinds[i].roles,
            .bytes_max = kinds[i].handle == coord_define_job ? PS_COORD_REQUEST_BYTES_MAX : 0,
            .call = on_call,
            .arg = &coord->rows[i],
        };
    }
}

void coord_calls_stop(struct ps_coord *coord)
{
    ps_list_for_each_safe (at, after, &coord->parked) {
        coord_call_fail(PS_CONTAINER_OF(at, struct coord_call, node), PS_ERR_UNAVAIL,
                        "the coordinator has stopped");
    }
}
