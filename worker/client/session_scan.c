/*
 * session_scan.c — all rows of a sparse table, slot after slot, in steps that a server answers with
 * bounded work.
 *
 *     next ──> request ──> answer: rows to the caller's arrays ──> next ... until the room is full
 *      ^                     |
 *      '──── after a while ──' no answer, or a slot that cannot for now
 *
 * One call is under way at a time; a repeat asks the same again, and what a lost answer brought was
 * never taken. The place in a slot is a number of its server's: it says nothing in another epoch.
 */
#include <inttypes.h>

#include "base/assert.h"
#include "client/session_impl.h"
#include "cluster/keys.h"
#include "wire/keys.h"

/* ---- Ends ---------------------------------------------------------------------------------- */

static void end_scan(struct ps_session_scan *scan, enum ps_status status, const char *words)
{
    struct ps_session *session = scan->session;
    struct ps_scan_op *op = scan->op;
    ps_timer_stop(session->options.exec, &scan->timer);
    ps_list_remove(&scan->node);
    session->n_scans--;
    if (status == PS_OK) {
        op->at = scan->at;
        op->ret_done = scan->at.slot == PS_SLOTS;
        op->ret_min_clock = op->ret_n > 0 ? op->ret_min_clock : 0;
    }
    ps_session_end_op(session, &op->op, status, words);
    ps_mem_free(scan);
    ps_session_servers_rest(session);
}

/* ---- Sending ------------------------------------------------------------------------------- */

static uint32_t width_of(const struct ps_session_scan *scan)
{
    return scan->session->tables[scan->op->table].width;
}

/* On a thread of the transport. */
static void on_done(struct ps_request *request)
{
    struct ps_session_scan *scan = PS_CONTAINER_OF(request, struct ps_session_scan, request);
    ps_exec_post(scan->session->options.exec, &scan->mail);
}

/* As much as one call brings, or less when there is less room. */
static uint32_t bytes_wanted(const struct ps_session_scan *scan)
{
    uint64_t n_bytes =
        (uint64_t)(scan->op->n_room - scan->op->ret_n) * ps_scan_row_bytes(width_of(scan));
    return n_bytes < PS_CALL_PAYLOAD_BYTES ? (uint32_t)n_bytes : PS_CALL_PAYLOAD_BYTES;
}

static void send_step(struct ps_session_scan *scan, uint32_t index)
{
    struct ps_session *session = scan->session;
    struct ps_session_server *server = &session->servers[index];
    uint8_t head[PS_SCAN_HEAD_BYTES_MAX];
    uint32_t slot = scan->at.slot;
    scan->asked = (struct ps_scan_request){.session = session->options.session,
                                           .session_number = session->view.session_number,
                                           .table = scan->op->table,
                                           .slot = slot,
                                           .epoch = scan->at.epoch,
                                           .cursor = scan->at.cursor,
                                           .max_bytes = bytes_wanted(scan),
                                           .skip_zeros = scan->op->skip_zeros,
                                           .generation = scan->at.generation,
                                           .seen_epoch = session->route.seen_epoch[slot],
                                           .seen_position = session->route.seen_position[slot]};
    size_t n_head_bytes = ps_scan_request_write(&scan->asked, head, sizeof(head));
    PS_ASSERT(n_head_bytes > 0);
    scan->request =
        (struct ps_request){.method = PS_METHOD_SCAN,
                            .timeout_ms = session->options.call_timeout_ms +
                                          scan->asked.max_bytes / PS_SESSION_BYTES_PER_MS,
                            .context = {.session = session->view.session_number},
                            .out = {.head = head, .n_head_bytes = n_head_bytes},
                            .done = on_done};
    scan->server = index;
    scan->under_way = true;
    scan->start_ms = ps_exec_now_ms(session->options.exec);
    server->n_calls++;
    ps_request_start(server->channel, &scan->request);
}

static void try_later(struct ps_session_scan *scan, uint32_t retry_ms)
{
    struct ps_session *session = scan->session;
    uint32_t wait_ms = ps_backoff_next_ms(&scan->backoff, &session->rng);
    uint32_t least_ms = ps_session_hint_ms(retry_ms);
    least_ms = least_ms > 0 ? least_ms : 1; /* At once would spin. */
    ps_timer_start(session->options.exec, &scan->timer, wait_ms > least_ms ? wait_ms : least_ms);
}

/* A place within a slot is a number of the server that said it, for as long as it has the slot. */
static bool moved(const struct ps_session_scan *scan)
{
    const struct ps_session *session = scan->session;
    return scan->at.cursor > 0 && (scan->at.generation != session->view.generation ||
                                   scan->at.epoch != session->route.epoch[scan->at.slot]);
}

/* Ask for what comes next, or end. */
static void next_step(struct ps_session_scan *scan)
{
    struct ps_session *session = scan->session;
    struct ps_scan_at *at = &scan->at;
    if (scan->op->ret_n == scan->op->n_room || at->slot == PS_SLOTS) {
        end_scan(scan, PS_OK, NULL);
        return;
    }
    if (moved(scan)) {
        end_scan(scan, PS_ERR_LATE, "the rows lie elsewhere since the scan was at them: scan anew");
        return;
    }
    if (at->cursor == 0) {
        at->generation = session->view.generation;
        at->epoch = session->route.epoch[at->slot];
    }
    uint32_t index = session->route.server[at->slot];
    if (index == PS_SERVER_NONE || !ps_session_server_connected(&session->servers[index])) {
        try_later(scan, 0); /* Beats connect, and say who cannot be reached. */
        return;
    }
    send_step(scan, index);
}

static void run_timer(struct ps_timer *timer)
{
    struct ps_session_scan *scan = PS_CONTAINER_OF(timer, struct ps_session_scan, timer);
    struct ps_session *session = scan->session;
    next_step(scan);
    ps_session_settle(session);
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* Keys of the slot and their values, to where they belong; false: not what was asked for. */
static bool take_rows(struct ps_session_scan *scan, const struct ps_scan_reply *reply)
{
    const struct ps_session *session = scan->session;
    struct ps_scan_op *op = scan->op;
    uint32_t width = width_of(scan);
    uint64_t n_value_bytes = (uint64_t)reply->n_keys * width * sizeof(float);
    if (reply->n_keys > op->n_room - op->ret_n ||
        reply->n_payload_bytes != reply->n_key_bytes + n_value_bytes) {
        return false;
    }
    struct ps_cursor values = reply->payload;
    struct ps_cursor bytes = ps_cursor_split(&values, reply->n_key_bytes);
    uint64_t *keys = op->keys + op->ret_n;
    if (ps_keys_read(bytes, keys, reply->n_keys, NULL) != PS_OK) {
        return false;
    }
    for (uint32_t i = 0; i < reply->n_keys; i++) {
        if (ps_keys_slot(keys[i], session->key_seed) != scan->at.slot) {
            return false;
        }
    }
    ps_cursor_copy(&values, op->values + (size_t)op->ret_n * width, (size_t)n_value_bytes);
    op->ret_n += reply->n_keys;
    return true;
}

static void nonsense(struct ps_session_scan *scan, const char *what)
{
    struct ps_error err;
    (void)ps_fail(&err, PS_ERR_CORRUPT, "server %" PRIu32 " (%s) sent nonsense: %s", scan->server,
                  scan->session->servers[scan->server].address, what);
    end_scan(scan, err.status, err.text);
}

static void take_step(struct ps_session_scan *scan, const struct ps_scan_reply *reply)
{
    struct ps_session *session = scan->session;
    struct ps_scan_op *op = scan->op;
    bool onwards = reply->done || reply->cursor > scan->asked.cursor;
    if (!onwards || !take_rows(scan, reply)) {
        nonsense(scan, onwards ? "not the rows that were asked for" : "a scan that does not go on");
        return;
    }
    if (reply->n_keys > 0 && reply->min_clock < op->ret_min_clock) {
        op->ret_min_clock = reply->min_clock;
    }
    session->view.n_bytes_pulled += reply->n_payload_bytes;
    ps_metric_add(session->options.metrics, PS_METRIC_scan_rows_total, reply->n_keys);
    ps_metric_add(session->options.metrics, PS_METRIC_bytes_scanned_total, reply->n_payload_bytes);
    ps_session_remember(session, scan->at.slot, reply->epoch, reply->position);
    ps_backoff_reset(&scan->backoff);
    scan->at.cursor = reply->cursor;
    if (reply->done) {
        scan->at.slot++;
        scan->at.cursor = 0;
    }
    next_step(scan);
}

static void refuse(struct ps_session_scan *scan, enum ps_status status, const char *words)
{
    struct ps_error err;
    (void)ps_fail(&err, status, "slot %" PRIu32 " at server %" PRIu32 " (%s): %s", scan->at.slot,
                  scan->server, scan->session->servers[scan->server].address, words);
    end_scan(scan, err.status, err.text);
}

/* It will be asked again. */
static void note_retry(struct ps_session_scan *scan)
{
    scan->session->view.n_retries++;
    ps_metric_add(scan->session->options.metrics, PS_METRIC_retries_total, 1);
}

static void take_reply(struct ps_session_scan *scan, const struct ps_msg *msg)
{
    struct ps_session *session = scan->session;
    struct ps_scan_reply reply;
    struct ps_error err = {0};
    if (ps_scan_reply_read(ps_cursor_over(msg->slices, msg->n_slices), &reply, &err) != PS_OK) {
        nonsense(scan, err.text);
        return;
    }
    if (reply.term > session->view.term) {
        session->view.term = reply.term;
    }
    ps_session_server_busy(session, scan->server, reply.status == PS_ERR_BUSY);
    if (reply.status == PS_OK) {
        take_step(scan, &reply);
    } else if (ps_flow_waits(reply.status)) {
        note_retry(scan);
        try_later(scan, reply.retry_ms);
    } else {
        refuse(scan, reply.status, ps_status_text(reply.status));
    }
    if (reply.status == PS_ERR_FENCED) {
        ps_session_fence(session, NULL);
    } else if (reply.status == PS_ERR_LOST) { /* The scan lives, and this may end it. */
        ps_session_slot_lost(session, scan->server, scan->at.slot);
    }
}

static void take_failure(struct ps_session_scan *scan)
{
    struct ps_session *session = scan->session;
    const struct ps_error why = scan->request.err;
    ps_session_server_failed(session, scan->server, &scan->request, scan->start_ms);
    if (ps_status_retryable(why.status) || why.status == PS_ERR_CANCELED) {
        note_retry(scan);
        try_later(scan, scan->request.retry_ms);
        return;
    }
    refuse(scan, why.status, why.text);
    if (why.status == PS_ERR_FENCED) {
        ps_session_fence(session, why.text);
    }
}

static void run_done(struct ps_mail *mail)
{
    struct ps_session_scan *scan = PS_CONTAINER_OF(mail, struct ps_session_scan, mail);
    struct ps_session *session = scan->session;
    uint32_t index = scan->server;
    struct ps_msg *reply = scan->request.reply;
    struct ps_error usable;
    scan->under_way = false;
    session->servers[index].n_calls--;
    ps_session_server_connect(session, index);
    if (ps_session_usable(session, &usable) != PS_OK) {
        end_scan(scan, usable.status, usable.text);
    } else if (scan->request.err.status == PS_OK) {
        ps_session_server_heard(session, index);
        take_reply(scan, reply);
    } else {
        take_failure(scan);
    }
    ps_msg_unref(reply);
    ps_session_settle(session);
}

/* ---- Start --------------------------------------------------------------------------------- */

static enum ps_status check(const struct ps_session *session, const struct ps_scan_op *op,
                            struct ps_error *err)
{
    enum ps_status status = ps_session_usable(session, err);
    if (status != PS_OK) {
        return status;
    }
    if (op->table >= session->n_tables) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "table %" PRIu32 " is not known", op->table);
    }
    if (session->tables[op->table].width == 0) {
        return ps_fail(err, PS_ERR_INVALID, "table '%s' is dense: it has no rows to scan, pull it",
                       session->tables[op->table].name);
    }
    if (op->at.slot > PS_SLOTS) {
        return ps_fail(err, PS_ERR_INVALID, "the place of a scan is not to be written");
    }
    if (session->n_scans == PS_SESSION_SCANS_MAX) {
        return ps_fail(err, PS_ERR_BUSY, "%u scans are under way: wait for one",
                       PS_SESSION_SCANS_MAX);
    }
    return PS_OK;
}

void ps_session_scan_start(struct ps_session *session, struct ps_scan_op *op)
{
    struct ps_error err;
    struct ps_session_scan *scan = NULL;
    enum ps_status status = check(session, op, &err);
    if (status == PS_OK) {
        scan = ps_mem_alloc(session->options.mem, PS_MEM_CALLS, sizeof(*scan));
        status = scan != NULL ? PS_OK : ps_fail(&err, PS_ERR_NOMEM, "no memory for a scan");
    }
    if (scan == NULL) {
        ps_session_end_op(session, &op->op, status, err.text);
        return;
    }
    op->ret_n = 0;
    op->ret_done = false;
    op->ret_min_clock = UINT64_MAX;
    scan->session = session;
    scan->op = op;
    scan->at = op->at;
    scan->mail.run = run_done;
    ps_timer_init(&scan->timer, run_timer);
    ps_list_append(&session->scans, &scan->node);
    session->n_scans++;
    next_step(scan);
}

void ps_session_scan_call_back(struct ps_session *session, uint32_t index)
{
    ps_list_for_each (at, &session->scans) {
        struct ps_session_scan *scan = PS_CONTAINER_OF(at, struct ps_session_scan, node);
        if (scan->under_way && scan->server == index) {
            ps_request_cancel(session->servers[index].channel, &scan->request);
        }
    }
}

void ps_session_scan_fail(struct ps_session *session, enum ps_status status, const char *words)
{
    ps_list_for_each_safe (at, after, &session->scans) {
        struct ps_session_scan *scan = PS_CONTAINER_OF(at, struct ps_session_scan, node);
        if (scan->under_way) {
            ps_request_cancel(session->servers[scan->server].channel, &scan->request);
        } else {
            end_scan(scan, status, words);
        }
    }
}
