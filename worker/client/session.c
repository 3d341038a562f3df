/*
 * session.c — see session.h. Creation, the start and the end of operations, and close.
 *
 * Every event ends with ps_session_settle: send what can be sent, call `done` of what has ended.
 * `done` may start the next operation, so it is called only there, when the state is whole.
 */
#include "client/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/session_impl.h"
#include "client/session_state.h"
#include "obs/log.h"

#define CALL_TIMEOUT_MS 2000u
#define GIVE_UP_MS      10000u
#define JOIN_PATIENCE   3u /* Times give_up_ms: servers may start after workers. */

/* ---- Ends ---------------------------------------------------------------------------------- */

void ps_session_end_op(struct ps_session *session, struct ps_op *op, enum ps_status status,
                       const char *words)
{
    struct ps_error err = {.status = status};
    if (status != PS_OK) { /* By way of a copy: `words` may be the op's own. */
        (void)ps_fail(&err, status, "%s", words != NULL ? words : ps_status_text(status));
    }
    op->err = err;
    ps_list_append(&session->ended, &op->node);
}

enum ps_status ps_session_usable(const struct ps_session *session, struct ps_error *err)
{
    if (session->phase != PS_SESSION_ACTIVE) {
        return ps_fail(err, PS_ERR_CANCELED, "the session is being closed");
    }
    if (session->canceled) {
        return ps_fail(err, PS_ERR_CANCELED, "the client was asked to end");
    }
    if (session->view.fenced) {
        return ps_fail(err, PS_ERR_FENCED, "%s", session->fenced.text);
    }
    if (session->view.lost.status != PS_OK) {
        return ps_fail(err, session->view.lost.status, "%s", session->view.lost.text);
    }
    return PS_OK;
}

static void fail_all(struct ps_session *session, enum ps_status status, const char *words)
{
    ps_session_work_fail(session, status, words);
    ps_session_scan_fail(session, status, words);
    ps_session_cold_fail(session, status, words);
    session->changed = true;
}

void ps_session_lose(struct ps_session *session, const char *fmt, ...)
{
    if (session->view.lost.status != PS_OK || session->phase != PS_SESSION_ACTIVE) {
        return;
    }
    char words[PS_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    (void)ps_fail(&session->view.lost, PS_ERR_LOST, "%s", words);
    ps_log(PS_LOG_ERROR, "cluster.lost", "reason=\"%s\"", words);
    fail_all(session, PS_ERR_LOST, words);
}

void ps_session_fence(struct ps_session *session, const char *reason)
{
    if (session->view.fenced || session->phase != PS_SESSION_ACTIVE) {
        return;
    }
    session->view.fenced = true;
    const char *words =
        reason != NULL && reason[0] != '\0' ? reason : ps_status_text(PS_ERR_FENCED);
    ps_log(PS_LOG_WARN, "session.fenced", "session=%llu reason=\"%s\"",
           (unsigned long long)session->view.session_number, words);
    (void)ps_fail(&session->fenced, PS_ERR_FENCED, "%s", words);
    ps_session_attend_stop(session);
    fail_all(session, PS_ERR_FENCED, session->fenced.text);
}

/* ---- Events -------------------------------------------------------------------------------- */

static uint64_t forgive(uint64_t at_ms, uint64_t gap_ms, uint64_t now_ms)
{
    return at_ms + gap_ms < now_ms ? at_ms + gap_ms : now_ms;
}

/* A gap in the own loop is nobody else's silence. */
static void forgive_gap(struct ps_session *session, uint64_t now_ms)
{
    uint64_t gap_ms = now_ms - session->beat_ms;
    session->beat_ms = now_ms;
    if (gap_ms <= 2ull * PS_HEARTBEAT_MS) {
        return;
    }
    struct ps_session_attend *attend = &session->attend;
    session->awake_ms = now_ms;
    attend->heard_ms = forgive(attend->heard_ms, gap_ms, now_ms);
    attend->peer.since_ms = forgive(attend->peer.since_ms, gap_ms, now_ms);
    for (uint32_t i = 0; i < session->n_servers; i++) {
        struct ps_session_peer *peer = &session->servers[i].peer;
        peer->since_ms = forgive(peer->since_ms, gap_ms, now_ms);
    }
}

static void run_beat(struct ps_timer *timer)
{
    struct ps_session *session = PS_CONTAINER_OF(timer, struct ps_session, beat);
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    ps_timer_start(session->options.exec, &session->beat, PS_HEARTBEAT_MS);
    forgive_gap(session, now_ms);
    ps_session_attend_check(session, now_ms);
    ps_session_servers_check(session, now_ms);
    ps_session_settle(session);
}

static void run_pump(struct ps_timer *timer)
{
    ps_session_settle(PS_CONTAINER_OF(timer, struct ps_session, pump));
}

static void run_wake(struct ps_mail *mail)
{
    struct ps_session *session = PS_CONTAINER_OF(mail, struct ps_session, wake);
    session->wake_posted = false;
    ps_session_settle(session);
}

static bool run_ended(struct ps_session *session)
{
    if (ps_list_empty(&session->ended)) {
        return false;
    }
    struct ps_op *op = PS_CONTAINER_OF(session->ended.next, struct ps_op, node);
    ps_list_remove(&op->node);
    op->done(op);
    return true;
}

static void left(struct ps_op *op)
{
    struct ps_session *session = op->arg;
    session->phase = PS_SESSION_DETACHING;
    ps_session_attend_stop(session);
}

/* The next step of closing. True when nothing is left to wait for. */
static bool close_on(struct ps_session *session)
{
    uint32_t n_open = session->n_works + session->n_scans + session->n_colds;
    if (session->phase == PS_SESSION_DRAINING && n_open == 0) {
        session->phase = PS_SESSION_LEAVING;
        session->leave_op = (struct ps_op){.done = left, .arg = session};
        bool member = session->view.session_number != 0 && !session->view.fenced;
        if (member) {
            ps_session_cold_start(session, PS_SESSION_LEAVE, &session->leave_op);
        } else {
            left(&session->leave_op);
        }
    }
    return session->phase == PS_SESSION_DETACHING && ps_session_attend_idle(session) &&
           !session->wake_posted;
}

static void arm_pump(struct ps_session *session)
{
    uint64_t next_ms = ps_session_work_next_ms(session);
    if (next_ms == UINT64_MAX) {
        ps_timer_stop(session->options.exec, &session->pump);
        return;
    }
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    ps_timer_start(session->options.exec, &session->pump, next_ms > now_ms ? next_ms - now_ms : 0);
}

/* Operations may be started from inside `done`, or from outside: then `done` must not run yet. */
static void started(struct ps_session *session)
{
    if (session->settling) {
        return; /* The loop that called goes on. */
    }
    ps_session_work_pump(session);
    bool due =
        !ps_list_empty(&session->ended) || session->changed || session->phase != PS_SESSION_ACTIVE;
    if (!due) {
        arm_pump(session);
    } else if (!session->wake_posted) {
        session->wake_posted = true;
        ps_exec_post(session->options.exec, &session->wake);
    }
}

static void end_close(struct ps_session *session)
{
    ps_timer_stop(session->options.exec, &session->beat);
    ps_timer_stop(session->options.exec, &session->pump);
    for (uint32_t i = 0; i < session->n_servers; i++) {
        if (session->servers[i].channel != NULL) {
            ps_channel_close(session->servers[i].channel);
            session->servers[i].channel = NULL;
        }
    }
    ps_channel_close(session->control);
    session->control = NULL;
    struct ps_op *op = session->close_op;
    op->err = (struct ps_error){0};
    op->done(op); /* May destroy the session. */
}

void ps_session_settle(struct ps_session *session)
{
    if (session->settling) {
        return;
    }
    session->settling = true;
    bool closed;
    do {
        ps_session_work_pump(session);
        closed = close_on(session);
        if (session->changed) {
            session->changed = false;
            if (session->options.changed != NULL) {
                session->options.changed(session->options.arg);
            }
        }
    } while (run_ended(session) || session->changed);
    session->settling = false;
    if (closed) {
        end_close(session);
    } else {
        arm_pump(session);
    }
}

/* ---- The interface ------------------------------------------------------------------------- */

static enum ps_status check_options(const struct ps_session_options *options, struct ps_error *err)
{
    size_t n_bytes = strlen(options->coordinator);
    if (n_bytes == 0 || n_bytes > PS_ADDRESS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "'%.100s' is not an address", options->coordinator);
    }
    size_t n_good = strspn(options->name, "abcdefghijklmnopqrstuvwxyz0123456789_.-");
    if (n_good == 0 || n_good > PS_NAME_BYTES_MAX || options->name[n_good] != '\0') {
        return ps_fail(err, PS_ERR_INVALID, "'%.100s' is not a name: 1 to %u of [a-z0-9_.-]",
                       options->name, PS_NAME_BYTES_MAX);
    }
    return PS_OK;
}

static void init(struct ps_session *session, const struct ps_session_options *options)
{
    session->options = *options;
    (void)snprintf(session->coordinator, sizeof(session->coordinator), "%s", options->coordinator);
    (void)snprintf(session->name, sizeof(session->name), "%s", options->name);
    session->options.coordinator = session->coordinator;
    session->options.name = session->name;
    if (session->options.call_timeout_ms == 0) {
        session->options.call_timeout_ms = CALL_TIMEOUT_MS;
    }
    session->patient = session->options.give_up_ms != 0;
    if (!session->patient) {
        session->options.give_up_ms = GIVE_UP_MS;
    }
    session->view.patience_ms = session->options.give_up_ms;
    if (session->options.join_timeout_ms == 0) {
        uint64_t ms = (uint64_t)session->options.give_up_ms * JOIN_PATIENCE;
        session->options.join_timeout_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    }
    session->rng = ps_rng_from(options->seed);
    session->wake.run = run_wake;
    ps_timer_init(&session->beat, run_beat);
    ps_timer_init(&session->pump, run_pump);
    ps_timer_init(&session->attend.timer, NULL);
    ps_list_init(&session->works);
    ps_list_init(&session->idle_works);
    ps_list_init(&session->calls);
    ps_list_init(&session->idle_calls);
    ps_list_init(&session->scans);
    ps_list_init(&session->colds);
    ps_list_init(&session->ended);
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        session->route.server[slot] = PS_SERVER_NONE;
    }
}

enum ps_status ps_session_create(const struct ps_session_options *options, struct ps_session **ret,
                                 struct ps_error *err)
{
    PS_ASSERT(options->transport != NULL && options->exec != NULL && options->creds != NULL);
    PS_ASSERT(!ps_id_none(&options->session));
    enum ps_status status = check_options(options, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_session *session = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*session));
    struct ps_session_scratch *scratch = ps_mem_alloc(options->mem, PS_MEM_CALLS, sizeof(*scratch));
    if (session == NULL || scratch == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory for a session");
        goto out;
    }
    init(session, options);
    session->scratch = scratch;
    status = ps_channel_open(options->transport, session->coordinator, PS_TRAFFIC_CONTROL,
                             options->creds, &session->control, err);
out:
    if (status != PS_OK) {
        ps_mem_free(scratch);
        ps_mem_free(session);
        return status;
    }
    *ret = session;
    return PS_OK;
}

static void start_cold(struct ps_session *session, enum ps_session_cold_kind kind, struct ps_op *op)
{
    struct ps_error err;
    enum ps_status status = ps_session_usable(session, &err);
    if (status == PS_OK && kind != PS_SESSION_JOIN && session->view.session_number == 0) {
        status = ps_fail(&err, PS_ERR_INVALID, "not joined");
    }
    if (status != PS_OK) {
        ps_session_end_op(session, op, status, err.text);
    } else {
        ps_session_cold_start(session, kind, op);
    }
    started(session);
}

void ps_session_join(struct ps_session *session, struct ps_op *op)
{
    session->beat_ms = ps_exec_now_ms(session->options.exec);
    ps_timer_start(session->options.exec, &session->beat, PS_HEARTBEAT_MS);
    start_cold(session, PS_SESSION_JOIN, op);
}

void ps_session_define_table(struct ps_session *session, struct ps_define_table_op *op)
{
    uint64_t n_elements;
    struct ps_error err;
    bool sparse = op->def->width != 0 && op->def->n_dims == 0;
    enum ps_status status =
        sparse ? PS_OK : ps_layout_elements(op->def->shape, op->def->n_dims, &n_elements, &err);
    if (status != PS_OK) {
        (void)ps_wrap(&err, status, "table '%s'", op->def->name);
        ps_session_end_op(session, &op->op, status, err.text);
        started(session);
        return;
    }
    start_cold(session, PS_SESSION_DEFINE_TABLE, &op->op);
}

void ps_session_define_job(struct ps_session *session, struct ps_define_job_op *op)
{
    start_cold(session, PS_SESSION_DEFINE_JOB, &op->op);
}

void ps_session_describe(struct ps_session *session, struct ps_op *op)
{
    start_cold(session, PS_SESSION_DESCRIBE, op);
}

void ps_session_look(struct ps_session *session, struct ps_look_op *op)
{
    start_cold(session, PS_SESSION_LOOK, &op->op);
}

void ps_session_shutdown(struct ps_session *session, struct ps_shutdown_op *op)
{
    start_cold(session, PS_SESSION_SHUTDOWN, &op->op);
}

const struct ps_table *ps_session_table(const struct ps_session *session, const char *name)
{
    for (uint32_t i = 0; i < session->n_tables; i++) {
        if (strcmp(session->tables[i].name, name) == 0) {
            return &session->tables[i];
        }
    }
    return NULL;
}

void ps_session_pull(struct ps_session *session, struct ps_pull_op *pull)
{
    ps_session_work_start(session, NULL, pull);
    started(session);
}

void ps_session_push(struct ps_session *session, struct ps_push_op *push)
{
    ps_session_work_start(session, push, NULL);
    started(session);
}

void ps_session_push_pull(struct ps_session *session, struct ps_push_op *push,
                          struct ps_pull_op *pull)
{
    ps_session_work_start(session, push, pull);
    started(session);
}

void ps_session_scan(struct ps_session *session, struct ps_scan_op *scan)
{
    ps_session_scan_start(session, scan);
    started(session);
}

void ps_session_figures(struct ps_session *session, const struct ps_worker_stats *stats)
{
    session->stats = *stats;
}

void ps_session_report(struct ps_session *session, const struct ps_worker_report *report)
{
    session->report = *report;
    ps_session_state_lease(session);
    ps_session_attend_report(session);
    if (session->changed) {
        started(session);
    }
}

void ps_session_view(const struct ps_session *session, struct ps_view *ret)
{
    *ret = session->view;
}

void ps_session_why_fenced(const struct ps_session *session, struct ps_error *ret)
{
    *ret = session->fenced;
}

void ps_session_cancel(struct ps_session *session)
{
    if (session->phase == PS_SESSION_ACTIVE && !session->canceled) {
        session->canceled = true;
        fail_all(session, PS_ERR_CANCELED, "the client was asked to end");
        started(session);
    }
}

void ps_session_close(struct ps_session *session, struct ps_op *op)
{
    PS_ASSERT(session->phase == PS_SESSION_ACTIVE);
    session->phase = PS_SESSION_DRAINING;
    session->close_op = op;
    fail_all(session, PS_ERR_CANCELED, "the session is being closed");
    started(session);
}

void ps_session_destroy(struct ps_session *session)
{
    if (session == NULL) {
        return;
    }
    PS_ASSERT(ps_session_attend_idle(session) && session->n_colds == 0 && !session->wake_posted);
    ps_session_work_free(session);
    ps_timer_stop(session->options.exec, &session->beat);
    ps_timer_stop(session->options.exec, &session->pump);
    if (session->control != NULL) {
        ps_channel_close(session->control);
    }
    ps_mem_free(session->scratch);
    ps_mem_free(session);
}
