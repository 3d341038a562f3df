/*
 * session_attend.c — the Attend stream: reports up, states down, opened again when it breaks.
 *
 *   opened --> hello (session only) --> first state heard: report --> report per heartbeat, news
 *
 * The hello carries no report: after a change of coordinators a report must go only to one whose
 * term we have heard, and a stream's term is heard with its first state.
 */
#include "client/failpoint.h"
#include "client/session_impl.h"
#include "client/session_state.h"
#include "obs/log.h"
#include "wire/pack.h"

#define METHOD_ATTEND "/ps.v1.Coordinator/Attend"

/* A message on its way from the transport's thread to the executor. */
struct arrival {
    struct ps_mail mail;
    struct ps_session *session;
    struct ps_msg *msg;
};

static void take_state(struct ps_session *session, const struct ps_msg *msg)
{
    struct ps_session_attend *attend = &session->attend;
    ProtobufCMessage *message = ps_wire_unpack(&ps__v1__attend_state__descriptor, msg->slices,
                                               msg->n_slices, session->options.mem);
    if (message == NULL) { /* Groups are sent once per stream: start over. */
        ps_stream_close(attend->stream, PS_ERR_CORRUPT);
        attend->closing = true;
        return;
    }
    if (ps_session_state_take(session, (const Ps__V1__AttendState *)message)) {
        attend->heard_ms = ps_exec_now_ms(session->options.exec);
        attend->term = session->view.term;
        ps_backoff_reset(&attend->backoff);
        if (attend->peer.silent && attend->peer.next_log_ms > PS_SESSION_LOG_FIRST_MS) {
            ps_log(PS_LOG_INFO, "coordinator.back", "address=\"%s\"", session->coordinator);
        }
        ps_session_peer_heard(&attend->peer, attend->heard_ms);
        if (!attend->heard) {
            attend->heard = true;
            ps_session_attend_report(session);
        }
    }
    ps_wire_unpacked_free(message);
}

static void run_arrival(struct ps_mail *mail)
{
    struct arrival *arrival = PS_CONTAINER_OF(mail, struct arrival, mail);
    struct ps_session *session = arrival->session;
    if (!session->attend.closing) {
        take_state(session, arrival->msg);
    }
    ps_msg_unref(arrival->msg);
    ps_mem_free(arrival);
    ps_session_settle(session);
}

/* On a thread of the transport. */
static void on_message(void *arg, struct ps_msg *msg)
{
    struct ps_session *session = arg;
    struct arrival *arrival = ps_mem_alloc(session->options.mem, PS_MEM_CALLS, sizeof(*arrival));
    if (arrival == NULL) { /* The next state comes within a heartbeat, but groups come once. */
        ps_msg_unref(msg);
        atomic_store(&session->attend.dropped, true);
        return;
    }
    *arrival = (struct arrival){.mail.run = run_arrival, .session = session, .msg = msg};
    ps_exec_post(session->options.exec, &arrival->mail);
}

/* On a thread of the transport; nothing follows it. */
static void on_closed(void *arg, enum ps_status status PS_UNUSED)
{
    struct ps_session *session = arg;
    ps_exec_post(session->options.exec, &session->attend.closed);
}

static const struct ps_stream_events events = {.message = on_message, .closed = on_closed};

/* Not sent (PS_ERR_BUSY, or a stream that is over): the next heartbeat or stream repeats it. */
static enum ps_status send_report(struct ps_session *session, bool hello)
{
    const struct ps_view *view = &session->view;
    const struct ps_worker_report *from = &session->report;
    Ps__V1__WorkerStats stats;
    ps__v1__worker_stats__init(&stats);
    stats.units = session->stats.units;
    stats.rows = session->stats.rows;
    stats.busy_us = session->stats.busy_us;
    stats.blocked_bound_us = session->stats.blocked_bound_us;
    stats.blocked_network_us = session->stats.blocked_network_us;
    stats.blocked_lease_us = session->stats.blocked_lease_us;
    stats.staleness_sum = session->stats.staleness_sum;
    stats.staleness_max = session->stats.staleness_max;
    stats.bytes_pushed = view->n_bytes_pushed;
    stats.bytes_pulled = view->n_bytes_pulled;
    stats.retries = view->n_retries;
    Ps__V1__WorkerReport worker;
    ps__v1__worker_report__init(&worker);
    worker.clock = from->clock;
    worker.lease = from->lease;
    worker.units_done = from->units_done;
    worker.lease_over = from->lease_over;
    worker.lease_rows = from->lease_rows;
    worker.held = from->held;
    worker.staged_step = from->staged_step;
    worker.staged_unit = from->staged_unit;
    worker.staged_rows = from->staged_rows;
    worker.consistency_version = view->consistency.version;
    worker.loss_epoch = from->loss_epoch;
    worker.loss_sum = from->loss_sum;
    worker.loss_rows = from->loss_rows;
    worker.stats = &stats;
    Ps__V1__AttendReport report;
    ps__v1__attend_report__init(&report);
    report.session = (ProtobufCBinaryData){.len = sizeof(session->options.session.bytes),
                                           .data = session->options.session.bytes};
    report.session_number = view->session_number;
    report.term = view->term;
    report.generation = view->generation;
    report.worker = hello || session->options.kind != PS_CLIENT_WORKER ? NULL : &worker;
    uint8_t *head = session->scratch->head;
    bool fits;
    size_t n_bytes = ps_wire_pack(&report.base, head, PS_HEAD_BYTES_MAX, &fits);
    PS_ASSERT(fits); /* Numbers only. */
    struct ps_out out = {.head = head, .n_head_bytes = n_bytes};
    return ps_stream_send(session->attend.stream, &out);
}

void ps_session_attend_report(struct ps_session *session)
{
    struct ps_session_attend *attend = &session->attend;
    /* A server may have told of a higher term: who still speaks with a lower one is deposed. */
    bool deposed = attend->term < session->view.term;
    if (attend->stream != NULL && attend->heard && !deposed && !attend->closing &&
        ps_failpoint_report(&session->report)) {
        (void)send_report(session, false);
        ps_failpoint_reported();
    }
}

static void open_stream(struct ps_session *session)
{
    struct ps_session_attend *attend = &session->attend;
    attend->heard = false;
    attend->term = 0;
    attend->closing = false;
    attend->opened_ms = ps_exec_now_ms(session->options.exec);
    attend->stream = ps_stream_open(session->control, METHOD_ATTEND, &events, session);
    (void)send_report(session, true); /* A stream that failed says so by `closed`. */
}

static void run_timer(struct ps_timer *timer)
{
    struct ps_session_attend *attend = PS_CONTAINER_OF(timer, struct ps_session_attend, timer);
    struct ps_session *session = PS_CONTAINER_OF(attend, struct ps_session, attend);
    open_stream(session);
}

static void run_closed(struct ps_mail *mail)
{
    struct ps_session_attend *attend = PS_CONTAINER_OF(mail, struct ps_session_attend, closed);
    struct ps_session *session = PS_CONTAINER_OF(attend, struct ps_session, attend);
    struct ps_exec *exec = session->options.exec;
    ps_stream_release(attend->stream);
    attend->stream = NULL;
    attend->heard = false;
    ps_session_state_hold(session, 0); /* Nobody would end it. */
    if (attend->wanted) {
        ps_session_peer_failed(&attend->peer, attend->heard_ms, ps_exec_now_ms(exec));
        ps_timer_start(exec, &attend->timer, ps_backoff_next_ms(&attend->backoff, &session->rng));
    }
    ps_session_settle(session);
}

void ps_session_attend_start(struct ps_session *session)
{
    struct ps_session_attend *attend = &session->attend;
    if (attend->wanted) {
        return;
    }
    attend->wanted = true;
    attend->heard_ms = ps_exec_now_ms(session->options.exec);
    attend->closed.run = run_closed;
    ps_timer_init(&attend->timer, run_timer);
    open_stream(session);
}

void ps_session_attend_stop(struct ps_session *session)
{
    struct ps_session_attend *attend = &session->attend;
    if (!attend->wanted) {
        return;
    }
    attend->wanted = false;
    ps_timer_stop(session->options.exec, &attend->timer);
    if (attend->stream != NULL && !attend->closing) {
        attend->closing = true;
        ps_stream_close(attend->stream, PS_ERR_CANCELED);
    }
}

bool ps_session_attend_idle(const struct ps_session *session)
{
    return session->attend.stream == NULL;
}

void ps_session_attend_check(struct ps_session *session, uint64_t now_ms)
{
    struct ps_session_attend *attend = &session->attend;
    if (!attend->wanted) {
        return;
    }
    if (session->view.hold != 0 && now_ms - session->hold_ms >= PS_SESSION_HOLD_MS_MAX) {
        session->hold_over = session->view.hold;
        ps_session_state_hold(session, 0);
    }
    uint64_t silent_ms = now_ms - attend->heard_ms;
    if (silent_ms >= session->options.give_up_ms) {
        ps_session_lose(session, "coordinator (%s) is unreachable since %llu s",
                        session->coordinator, (unsigned long long)(silent_ms / 1000));
        return;
    }
    if (silent_ms >= PS_SESSION_LOG_FIRST_MS) {
        ps_session_peer_failed(&attend->peer, attend->heard_ms, now_ms);
    }
    if (ps_session_peer_log_due(&attend->peer, now_ms)) {
        ps_log(PS_LOG_WARN, "coordinator.unreachable",
               "msg=\"coordinator (%s) is unreachable since %llu s: retrying\"",
               session->coordinator, (unsigned long long)(silent_ms / 1000));
    }
    /* A new stream has its own time to be heard on, however long the silence before it was. */
    uint64_t since_ms = attend->heard_ms > attend->opened_ms ? attend->heard_ms : attend->opened_ms;
    bool useless = now_ms - since_ms >= PS_SILENCE_MS || atomic_exchange(&attend->dropped, false);
    if (useless && attend->stream != NULL && !attend->closing) { /* Open, but dead. */
        attend->closing = true;
        ps_stream_close(attend->stream, PS_ERR_TIMEOUT);
        return;
    }
    ps_session_attend_report(session); /* The heartbeat; repeats what may have been lost. */
}
