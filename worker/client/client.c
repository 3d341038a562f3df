/*
 * client.c — see client.h. Creation, the start and the end of operations, and close.
 *
 * Every event ends with ps_client_settle: send what can be sent, call `done` of what has ended.
 * `done` may start the next operation, so it is called only there, when the state is whole.
 */
#include "client/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/client_impl.h"
#include "client/client_state.h"
#include "obs/log.h"

#define CALL_TIMEOUT_MS 2000u
#define GIVE_UP_MS      10000u

/* ---- Ends ---------------------------------------------------------------------------------- */

void ps_client_end_op(struct ps_client *client, struct ps_op *op, enum ps_status status,
                      const char *words)
{
    struct ps_error err = {.status = status};
    if (status != PS_OK) { /* By way of a copy: `words` may be the op's own. */
        (void)ps_fail(&err, status, "%s", words != NULL ? words : ps_status_text(status));
    }
    op->err = err;
    ps_list_append(&client->ended, &op->node);
}

enum ps_status ps_client_usable(const struct ps_client *client, struct ps_error *err)
{
    if (client->phase != PS_CLIENT_ACTIVE) {
        return ps_fail(err, PS_ERR_CANCELED, "the client is being closed");
    }
    if (client->view.fenced) {
        return ps_fail(err, PS_ERR_FENCED, "the session is closed");
    }
    if (client->view.lost.status != PS_OK) {
        return ps_fail(err, client->view.lost.status, "%s", client->view.lost.text);
    }
    return PS_OK;
}

static void fail_all(struct ps_client *client, enum ps_status status, const char *words)
{
    ps_client_work_fail(client, status, words);
    ps_client_cold_fail(client, status, words);
    client->changed = true;
}

void ps_client_lose(struct ps_client *client, const char *fmt, ...)
{
    if (client->view.lost.status != PS_OK || client->phase != PS_CLIENT_ACTIVE) {
        return;
    }
    char words[PS_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    (void)ps_fail(&client->view.lost, PS_ERR_LOST, "%s", words);
    ps_log(PS_LOG_ERROR, "cluster.lost", "reason=\"%s\"", words);
    fail_all(client, PS_ERR_LOST, words);
}

void ps_client_fence(struct ps_client *client, const char *reason)
{
    if (client->view.fenced || client->phase != PS_CLIENT_ACTIVE) {
        return;
    }
    client->view.fenced = true;
    const char *words =
        reason != NULL && reason[0] != '\0' ? reason : ps_status_text(PS_ERR_FENCED);
    ps_log(PS_LOG_WARN, "session.fenced", "session=%llu reason=\"%s\"",
           (unsigned long long)client->view.session_number, words);
    ps_client_attend_stop(client);
    fail_all(client, PS_ERR_FENCED, words);
}

/* ---- Events -------------------------------------------------------------------------------- */

static uint64_t forgive(uint64_t at_ms, uint64_t gap_ms, uint64_t now_ms)
{
    return at_ms + gap_ms < now_ms ? at_ms + gap_ms : now_ms;
}

/* A gap in the own loop is nobody else's silence. */
static void forgive_gap(struct ps_client *client, uint64_t now_ms)
{
    uint64_t gap_ms = now_ms - client->beat_ms;
    client->beat_ms = now_ms;
    if (gap_ms <= 2ull * PS_HEARTBEAT_MS) {
        return;
    }
    struct ps_client_attend *attend = &client->attend;
    client->awake_ms = now_ms;
    attend->heard_ms = forgive(attend->heard_ms, gap_ms, now_ms);
    attend->peer.since_ms = forgive(attend->peer.since_ms, gap_ms, now_ms);
    for (uint32_t i = 0; i < client->n_servers; i++) {
        struct ps_client_peer *peer = &client->servers[i].peer;
        peer->since_ms = forgive(peer->since_ms, gap_ms, now_ms);
    }
}

static void run_beat(struct ps_timer *timer)
{
    struct ps_client *client = PS_CONTAINER_OF(timer, struct ps_client, beat);
    uint64_t now_ms = ps_exec_now_ms(client->options.exec);
    ps_timer_start(client->options.exec, &client->beat, PS_HEARTBEAT_MS);
    forgive_gap(client, now_ms);
    ps_client_attend_check(client, now_ms);
    ps_client_servers_check(client, now_ms);
    ps_client_settle(client);
}

static void run_pump(struct ps_timer *timer)
{
    ps_client_settle(PS_CONTAINER_OF(timer, struct ps_client, pump));
}

static void run_wake(struct ps_mail *mail)
{
    struct ps_client *client = PS_CONTAINER_OF(mail, struct ps_client, wake);
    client->wake_posted = false;
    ps_client_settle(client);
}

static bool run_ended(struct ps_client *client)
{
    if (ps_list_empty(&client->ended)) {
        return false;
    }
    struct ps_op *op = PS_CONTAINER_OF(client->ended.next, struct ps_op, node);
    ps_list_remove(&op->node);
    op->done(op);
    return true;
}

static void left(struct ps_op *op)
{
    struct ps_client *client = op->arg;
    client->phase = PS_CLIENT_DETACHING;
    ps_client_attend_stop(client);
}

/* The next step of closing. True when nothing is left to wait for. */
static bool close_on(struct ps_client *client)
{
    if (client->phase == PS_CLIENT_DRAINING && client->n_works == 0 && client->n_colds == 0) {
        client->phase = PS_CLIENT_LEAVING;
        client->leave_op = (struct ps_op){.done = left, .arg = client};
        bool member = client->view.session_number != 0 && !client->view.fenced;
        if (member) {
            ps_client_cold_start(client, PS_CLIENT_LEAVE, &client->leave_op);
        } else {
            left(&client->leave_op);
        }
    }
    return client->phase == PS_CLIENT_DETACHING && ps_client_attend_idle(client) &&
           !client->wake_posted;
}

static void arm_pump(struct ps_client *client)
{
    uint64_t next_ms = ps_client_work_next_ms(client);
    if (next_ms == UINT64_MAX) {
        ps_timer_stop(client->options.exec, &client->pump);
        return;
    }
    uint64_t now_ms = ps_exec_now_ms(client->options.exec);
    ps_timer_start(client->options.exec, &client->pump, next_ms > now_ms ? next_ms - now_ms : 0);
}

/* Operations may be started from inside `done`, or from outside: then `done` must not run yet. */
static void started(struct ps_client *client)
{
    if (client->settling) {
        return; /* The loop that called goes on. */
    }
    ps_client_work_pump(client);
    bool due =
        !ps_list_empty(&client->ended) || client->changed || client->phase != PS_CLIENT_ACTIVE;
    if (!due) {
        arm_pump(client);
    } else if (!client->wake_posted) {
        client->wake_posted = true;
        ps_exec_post(client->options.exec, &client->wake);
    }
}

static void end_close(struct ps_client *client)
{
    ps_timer_stop(client->options.exec, &client->beat);
    ps_timer_stop(client->options.exec, &client->pump);
    for (uint32_t i = 0; i < client->n_servers; i++) {
        if (client->servers[i].channel != NULL) {
            ps_channel_close(client->servers[i].channel);
            client->servers[i].channel = NULL;
        }
    }
    ps_channel_close(client->control);
    client->control = NULL;
    struct ps_op *op = client->close_op;
    op->err = (struct ps_error){0};
    op->done(op); /* May destroy the client. */
}

void ps_client_settle(struct ps_client *client)
{
    if (client->settling) {
        return;
    }
    client->settling = true;
    bool closed;
    do {
        ps_client_work_pump(client);
        closed = close_on(client);
        if (client->changed) {
            client->changed = false;
            if (client->options.changed != NULL) {
                client->options.changed(client->options.arg);
            }
        }
    } while (run_ended(client) || client->changed);
    client->settling = false;
    if (closed) {
        end_close(client);
    } else {
        arm_pump(client);
    }
}

/* ---- The interface ------------------------------------------------------------------------- */

static enum ps_status check_options(const struct ps_client_options *options, struct ps_error *err)
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

static void init(struct ps_client *client, const struct ps_client_options *options)
{
    client->options = *options;
    (void)snprintf(client->coordinator, sizeof(client->coordinator), "%s", options->coordinator);
    (void)snprintf(client->name, sizeof(client->name), "%s", options->name);
    client->options.coordinator = client->coordinator;
    client->options.name = client->name;
    if (client->options.call_timeout_ms == 0) {
        client->options.call_timeout_ms = CALL_TIMEOUT_MS;
    }
    if (client->options.give_up_ms == 0) {
        client->options.give_up_ms = GIVE_UP_MS;
    }
    client->rng = ps_rng_from(options->seed);
    client->wake.run = run_wake;
    ps_timer_init(&client->beat, run_beat);
    ps_timer_init(&client->pump, run_pump);
    ps_timer_init(&client->attend.timer, NULL);
    ps_list_init(&client->works);
    ps_list_init(&client->idle_works);
    ps_list_init(&client->calls);
    ps_list_init(&client->idle_calls);
    ps_list_init(&client->colds);
    ps_list_init(&client->ended);
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        client->route.server[slot] = PS_SERVER_NONE;
    }
}

enum ps_status ps_client_create(const struct ps_client_options *options, struct ps_client **ret,
                                struct ps_error *err)
{
    PS_ASSERT(options->transport != NULL && options->exec != NULL && options->creds != NULL);
    PS_ASSERT(!ps_id_none(&options->session));
    enum ps_status status = check_options(options, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_client *client = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*client));
    struct ps_client_scratch *scratch = ps_mem_alloc(options->mem, PS_MEM_CALLS, sizeof(*scratch));
    if (client == NULL || scratch == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory for a client");
        goto out;
    }
    init(client, options);
    client->scratch = scratch;
    status = ps_channel_open(options->transport, client->coordinator, PS_TRAFFIC_CONTROL,
                             options->creds, &client->control, err);
out:
    if (status != PS_OK) {
        ps_mem_free(scratch);
        ps_mem_free(client);
        return status;
    }
    *ret = client;
    return PS_OK;
}

static void start_cold(struct ps_client *client, enum ps_client_cold_kind kind, struct ps_op *op)
{
    struct ps_error err;
    enum ps_status status = ps_client_usable(client, &err);
    if (status == PS_OK && kind != PS_CLIENT_JOIN && client->view.session_number == 0) {
        status = ps_fail(&err, PS_ERR_INVALID, "not joined");
    }
    if (status != PS_OK) {
        ps_client_end_op(client, op, status, err.text);
    } else {
        ps_client_cold_start(client, kind, op);
    }
    started(client);
}

void ps_client_join(struct ps_client *client, struct ps_op *op)
{
    client->beat_ms = ps_exec_now_ms(client->options.exec);
    ps_timer_start(client->options.exec, &client->beat, PS_HEARTBEAT_MS);
    start_cold(client, PS_CLIENT_JOIN, op);
}

void ps_client_define_table(struct ps_client *client, struct ps_define_table *op)
{
    uint64_t n_elements;
    struct ps_error err;
    enum ps_status status = ps_layout_elements(op->def->shape, op->def->n_dims, &n_elements, &err);
    if (status != PS_OK) {
        (void)ps_wrap(&err, status, "table '%s'", op->def->name);
        ps_client_end_op(client, &op->op, status, err.text);
        started(client);
        return;
    }
    start_cold(client, PS_CLIENT_DEFINE_TABLE, &op->op);
}

void ps_client_define_job(struct ps_client *client, struct ps_define_job *op)
{
    start_cold(client, PS_CLIENT_DEFINE_JOB, &op->op);
}

void ps_client_describe(struct ps_client *client, struct ps_op *op)
{
    start_cold(client, PS_CLIENT_DESCRIBE, op);
}

bool ps_client_table(const struct ps_client *client, const char *name, uint32_t *ret_table,
                     uint64_t *ret_n)
{
    for (uint32_t i = 0; i < client->n_tables; i++) {
        if (strcmp(client->table_names[i], name) == 0) {
            *ret_table = i;
            *ret_n = client->layouts[i].n_elements;
            return true;
        }
    }
    return false;
}

void ps_client_pull(struct ps_client *client, struct ps_pull *pull)
{
    ps_client_work_start(client, NULL, pull);
    started(client);
}

void ps_client_push(struct ps_client *client, struct ps_push *push)
{
    ps_client_work_start(client, push, NULL);
    started(client);
}

void ps_client_push_pull(struct ps_client *client, struct ps_push *push, struct ps_pull *pull)
{
    ps_client_work_start(client, push, pull);
    started(client);
}

void ps_client_report(struct ps_client *client, const struct ps_worker_report *report)
{
    client->report = *report;
    ps_client_state_lease(client);
    ps_client_attend_report(client);
    if (client->changed) {
        started(client);
    }
}

void ps_client_view(const struct ps_client *client, struct ps_client_view *ret)
{
    *ret = client->view;
}

void ps_client_close(struct ps_client *client, struct ps_op *op)
{
    PS_ASSERT(client->phase == PS_CLIENT_ACTIVE);
    client->phase = PS_CLIENT_DRAINING;
    client->close_op = op;
    ps_client_work_fail(client, PS_ERR_CANCELED, "the client is being closed");
    ps_client_cold_fail(client, PS_ERR_CANCELED, "the client is being closed");
    started(client);
}

void ps_client_destroy(struct ps_client *client)
{
    if (client == NULL) {
        return;
    }
    PS_ASSERT(ps_client_attend_idle(client) && client->n_colds == 0 && !client->wake_posted);
    ps_client_work_free(client);
    ps_timer_stop(client->options.exec, &client->beat);
    ps_timer_stop(client->options.exec, &client->pump);
    if (client->control != NULL) {
        ps_channel_close(client->control);
    }
    ps_mem_free(client->scratch);
    ps_mem_free(client);
}
