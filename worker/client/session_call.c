/*
 * session_call.c — one data call: from the units of a work to bytes, from the answer back to them.
 *
 * Gradients are borrowed by the transport piece by piece; weights are copied once, from the message
 * into the caller's tensor: that copy is the delivery. A call is over when its answer is there and
 * every borrowed piece was let go, so an operation never ends while somebody may still read its
 * tensors.
 */
#include "client/failpoint.h"
#include "client/session_impl.h"
#include "obs/log.h"

#define RETRY_MS_MIN 1u /* At once would spin. */

/* ---- Answers ------------------------------------------------------------------------------- */

void ps_session_remember(struct ps_session *session, uint32_t slot, uint64_t epoch,
                         uint64_t position)
{
    struct ps_route *route = &session->route;
    if (epoch > route->seen_epoch[slot] ||
        (epoch == route->seen_epoch[slot] && position > route->seen_position[slot])) {
        route->seen_epoch[slot] = epoch;
        route->seen_position[slot] = position;
    }
}

/* The own back-off, but not before the server wants to be asked again; 0: it has not said. */
static uint32_t wait_ms(struct ps_session *session, struct ps_session_call *call, uint32_t retry_ms)
{
    uint32_t wait = ps_backoff_next_ms(&call->work->backoff[call->server], &session->rng);
    uint32_t least = ps_session_hint_ms(retry_ms);
    least = least > RETRY_MS_MIN ? least : RETRY_MS_MIN;
    return wait > least ? wait : least;
}

/* Copy a slot's values to their places in the tensors. */
static void deliver(struct ps_session *session, struct ps_session_work *work,
                    const struct ps_flow_unit *unit, struct ps_cursor *payload)
{
    struct ps_flow_part *parts = session->scratch->parts;
    uint32_t n_parts = ps_flow_parts(&work->pull_flow, unit, parts);
    for (uint32_t i = 0; i < n_parts; i++) {
        if (parts[i].run != NULL) {
            ps_session_rows_deliver(work->pull_rows, parts[i].run, payload);
            continue;
        }
        const struct ps_layout *layout = &session->layouts[parts[i].table];
        float *to =
            work->pull_values[parts[i].table] + ps_layout_first_element(layout, parts[i].block);
        ps_cursor_copy(payload, to, parts[i].n_floats * sizeof(float));
    }
    session->view.n_bytes_pulled += unit->n_bytes;
    ps_metric_add(session->options.metrics, PS_METRIC_bytes_pulled_total, unit->n_bytes);
}

/* Each slot that was asked exactly once, lengths that fit: before anything is done. */
static bool reply_makes_sense(const struct ps_session_call *call, const struct ps_data_reply *reply)
{
    if (reply->n_push != call->push.n_units || reply->n_pull != call->pull.n_units) {
        return false; /* What is not mentioned would be asked for again at once, for ever. */
    }
    uint64_t slots = 0;
    for (uint32_t i = 0; i < reply->n_push; i++) {
        uint32_t slot = reply->push[i].slot;
        if (slot >= PS_SLOTS || (slots & 1ull << slot) != 0 ||
            ps_flow_find(&call->work->push_flow, &call->push, slot) == NULL) {
            return false;
        }
        slots |= 1ull << slot;
    }
    slots = 0;
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < reply->n_pull; i++) {
        uint32_t slot = reply->pull[i].slot;
        if (slot >= PS_SLOTS || (slots & 1ull << slot) != 0) {
            return false;
        }
        slots |= 1ull << slot;
        const struct ps_flow_unit *unit = ps_flow_find(&call->work->pull_flow, &call->pull, slot);
        uint32_t expected = reply->pull[i].status == PS_OK && unit != NULL ? unit->n_bytes : 0;
        if (unit == NULL || reply->pull[i].n_bytes != expected) {
            return false;
        }
        n_bytes += expected;
    }
    return n_bytes == reply->n_payload_bytes;
}

/* The words for a slot that refused for good; those of the first stay. */
static void note_refusal(struct ps_session *session, struct ps_session_call *call,
                         const struct ps_slot_reply *reply, struct ps_error *err)
{
    if (reply->status == PS_OK || ps_flow_waits(reply->status) || err->status != PS_OK) {
        return;
    }
    (void)ps_fail(err, reply->status, "slot %u at server %u (%s): %s", reply->slot, call->server,
                  session->servers[call->server].address, ps_status_text(reply->status));
}

static void take_push_slots(struct ps_session *session, struct ps_session_call *call,
                            const struct ps_data_reply *reply, uint64_t ready_ms)
{
    struct ps_session_work *work = call->work;
    for (uint32_t i = 0; i < reply->n_push; i++) {
        const struct ps_slot_reply *slot = &reply->push[i];
        struct ps_flow_unit *unit = ps_flow_find(&work->push_flow, &call->push, slot->slot);
        if (slot->status == PS_OK) {
            ps_session_remember(session, slot->slot, slot->epoch, slot->position);
            work->n_push_bytes += unit->n_bytes;
        }
        note_refusal(session, call, slot, &work->push_err);
        ps_flow_answer(&work->push_flow, unit, slot->status, ready_ms);
    }
}

static void pull_first_answer(struct ps_session *session, struct ps_session_call *call)
{
    struct ps_session_work *work = call->work;
    if (work->pull_answered) {
        return;
    }
    work->pull_answered = true;
    if (work->pull_held) {
        return; /* It came with the push: nothing waited. */
    }
    uint64_t now_ns = ps_exec_now_ns(session->options.exec);
    uint64_t took_ns = now_ns - call->start_ns;
    if (!work->pull_parked && (session->quickest_ns == 0 || took_ns < session->quickest_ns)) {
        session->quickest_ns = took_ns;
    }
    /* What the network takes anyway is not the gate's. */
    uint64_t waited_ns = now_ns - work->pull_start_ns;
    if (work->pull_parked && waited_ns > session->quickest_ns) {
        work->pull_blocked_ns = waited_ns - session->quickest_ns;
    }
}

/* Weights that came without the push that travelled with them lack the worker's own update. */
static bool push_unfinished(const struct ps_session_call *call, uint32_t slot)
{
    const struct ps_flow_unit *unit = ps_flow_find(&call->work->push_flow, &call->push, slot);
    return unit != NULL && unit->state != PS_FLOW_FINISHED;
}

static void take_pull_slots(struct ps_session *session, struct ps_session_call *call,
                            const struct ps_data_reply *reply, uint64_t ready_ms)
{
    struct ps_session_work *work = call->work;
    struct ps_cursor payload = reply->payload;
    for (uint32_t i = 0; i < reply->n_pull; i++) {
        const struct ps_slot_reply *slot = &reply->pull[i];
        struct ps_flow_unit *unit = ps_flow_find(&work->pull_flow, &call->pull, slot->slot);
        if (slot->status == PS_OK && push_unfinished(call, slot->slot)) {
            ps_cursor_skip(&payload, slot->n_bytes);
            ps_flow_answer(&work->pull_flow, unit, PS_ERR_BUSY, ready_ms);
            continue;
        }
        if (slot->status == PS_OK) {
            ps_session_remember(session, slot->slot, slot->epoch, slot->position);
            deliver(session, work, unit, &payload);
            pull_first_answer(session, call);
            if (reply->min_clock < work->min_clock) {
                work->min_clock = reply->min_clock;
            }
        } else if (slot->status == PS_ERR_NOT_YET) {
            work->pull_parked = true;
        }
        note_refusal(session, call, slot, &work->pull_err);
        ps_flow_answer(&work->pull_flow, unit, slot->status, ready_ms);
    }
}

/* Of what makes a slot wait, BUSY comes with the server's own figure, and NOT_YET is no failure. */
static enum ps_status worse(enum ps_status a, enum ps_status b)
{
    if (!ps_flow_waits(b) || a == PS_ERR_BUSY) {
        return a;
    }
    return b == PS_ERR_NOT_YET && a != PS_OK ? a : b;
}

/* One wait for all slots of a call, so that what shared it shares the next one too. */
static uint64_t repeat_at_ms(struct ps_session *session, struct ps_session_call *call,
                             const struct ps_data_reply *reply)
{
    enum ps_status worst = PS_OK;
    for (uint32_t i = 0; i < reply->n_push; i++) {
        worst = worse(worst, reply->push[i].status);
    }
    for (uint32_t i = 0; i < reply->n_pull; i++) {
        worst = worse(worst, reply->pull[i].status);
    }
    if (worst == PS_OK) {
        ps_backoff_reset(&call->work->backoff[call->server]);
        return 0;
    }
    if (worst != PS_ERR_NOT_YET) {
        session->view.n_retries++;
        ps_metric_add(session->options.metrics, PS_METRIC_retries_total, 1);
    }
    return ps_exec_now_ms(session->options.exec) + wait_ms(session, call, reply->retry_ms);
}

/* The first slot with this answer; PS_SLOTS: none. */
static uint32_t slot_with(const struct ps_data_reply *reply, enum ps_status status)
{
    for (uint32_t i = 0; i < reply->n_push; i++) {
        if (reply->push[i].status == status) {
            return reply->push[i].slot;
        }
    }
    for (uint32_t i = 0; i < reply->n_pull; i++) {
        if (reply->pull[i].status == status) {
            return reply->pull[i].slot;
        }
    }
    return PS_SLOTS;
}

static bool any_busy(const struct ps_data_reply *reply)
{
    bool busy = false;
    for (uint32_t i = 0; i < reply->n_push + reply->n_pull; i++) {
        const struct ps_slot_reply *slot =
            i < reply->n_push ? &reply->push[i] : &reply->pull[i - reply->n_push];
        busy = busy || slot->status == PS_ERR_BUSY || slot->status == PS_ERR_NOMEM;
    }
    return busy;
}

/* A table that only grows will hardly have room for new rows again: the push ends, with words. */
static void note_full(struct ps_session *session, struct ps_session_call *call,
                      const struct ps_data_reply *reply)
{
    struct ps_session_work *work = call->work;
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    bool full = false;
    bool taken = false;
    for (uint32_t i = 0; i < reply->n_push; i++) {
        full = full || reply->push[i].status == PS_ERR_NOMEM;
        taken = taken || reply->push[i].status == PS_OK;
    }
    if (taken || (full && work->full_ms == 0)) {
        work->full_ms = full ? now_ms : 0;
    } else if (full && now_ms - work->full_ms >= PS_SESSION_FULL_MS) {
        struct ps_error err = {0};
        (void)ps_fail(&err, PS_ERR_BUSY,
                      "server %u (%s) has had no memory for new rows for %u s: give it a larger "
                      "--memory-max or the cluster more servers, or let the tables admit later or "
                      "their rows expire",
                      call->server, session->servers[call->server].address,
                      PS_SESSION_FULL_MS / 1000);
        ps_session_work_refuse(work, err.status, err.text);
    }
}

static uint64_t take_reply(struct ps_session *session, struct ps_session_call *call)
{
    struct ps_data_reply *reply = &session->scratch->reply;
    const struct ps_msg *msg = call->request.reply;
    struct ps_error err = {0};
    enum ps_status status =
        ps_data_reply_read(ps_cursor_over(msg->slices, msg->n_slices), reply, &err);
    if (status == PS_OK && !reply_makes_sense(call, reply)) {
        status = ps_fail(&err, PS_ERR_CORRUPT, "not an answer to this call");
    }
    if (status != PS_OK) {
        (void)ps_wrap(&err, status, "server %u (%s) sent nonsense", call->server,
                      session->servers[call->server].address);
        ps_session_work_refuse(call->work, PS_ERR_CORRUPT, err.text);
        return 0;
    }
    if (reply->term > session->view.term) { /* From now on, states of the old term are stale. */
        session->view.term = reply->term;
    }
    ps_session_server_busy(session, call->server, any_busy(reply));
    uint64_t ready_ms = repeat_at_ms(session, call, reply);
    take_push_slots(session, call, reply, ready_ms);
    take_pull_slots(session, call, reply, ready_ms);
    note_full(session, call, reply);
    uint32_t lost_slot = slot_with(reply, PS_ERR_LOST);
    if (lost_slot != PS_SLOTS) {
        ps_session_slot_lost(session, call->server, lost_slot);
    }
    if (slot_with(reply, PS_ERR_FENCED) != PS_SLOTS) {
        ps_session_fence(session, NULL);
    }
    return ready_ms;
}

/* The call as a whole got no answer, or a refusal. */
static uint64_t take_failure(struct ps_session *session, struct ps_session_call *call)
{
    struct ps_session_server *server = &session->servers[call->server];
    const struct ps_error *err = &call->request.err;
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    bool canceled = err->status == PS_ERR_CANCELED; /* By us, or by a server that stops. */
    call->work->repeats = true;
    ps_session_server_failed(session, call->server, &call->request, call->start_ms);
    if (err->status == PS_ERR_FENCED) {
        ps_session_fence(session, err->text);
    } else if (!canceled && !ps_status_retryable(err->status)) {
        struct ps_error why;
        (void)ps_fail(&why, err->status, "server %u (%s): %s", call->server, server->address,
                      err->text);
        ps_session_work_refuse(call->work, why.status, why.text);
    }
    if (err->status == PS_ERR_NOT_YET) {
        call->work->pull_parked = true;
    } else {
        session->view.n_retries++;
        ps_metric_add(session->options.metrics, PS_METRIC_retries_total, 1);
    }
    return now_ms + wait_ms(session, call, call->request.retry_ms);
}

static void run_call(struct ps_mail *mail)
{
    struct ps_session_call *call = PS_CONTAINER_OF(mail, struct ps_session_call, mail);
    struct ps_session *session = call->session;
    struct ps_session_server *server = &session->servers[call->server];
    uint64_t ready_ms;
    ps_list_remove(&call->node); /* It can't be canceled any more. */
    if (call->request.err.status == PS_OK) {
        ps_session_server_heard(session, call->server);
        ready_ms = take_reply(session, call);
    } else {
        ready_ms = take_failure(session, call);
    }
    ps_msg_unref(call->request.reply);
    call->request.reply = NULL;
    ps_flow_end_call(&call->work->push_flow, &call->push, ready_ms);
    ps_failpoint_answered(&call->work->push_flow, &session->route);
    ps_flow_end_call(&call->work->pull_flow, &call->pull, ready_ms);
    server->n_calls--;
    server->n_asking -= call->asks ? 1 : 0;
    ps_list_append(&session->idle_calls, &call->node);
    ps_session_server_connect(session, call->server);
    ps_session_settle(session);
}

/* ---- Sending ------------------------------------------------------------------------------- */

/* Any thread: the answer is there, or a piece was let go. */
static void let_go(void *arg)
{
    struct ps_session_call *call = arg;
    if (atomic_fetch_sub(&call->n_holders, 1) == 1) {
        ps_exec_post(call->session->options.exec, &call->mail);
    }
}

static void on_done(struct ps_request *request)
{
    let_go(PS_CONTAINER_OF(request, struct ps_session_call, request));
}

static struct ps_session_call *take_call(struct ps_session *session)
{
    if (!ps_list_empty(&session->idle_calls)) {
        struct ps_session_call *call =
            PS_CONTAINER_OF(session->idle_calls.next, struct ps_session_call, node);
        ps_list_remove(&call->node);
        return call;
    }
    struct ps_session_call *call = ps_mem_alloc(session->options.mem, PS_MEM_CALLS, sizeof(*call));
    if (call != NULL) {
        call->session = session;
        call->mail.run = run_call;
        ps_list_init(&call->node);
    }
    return call;
}

/* Lend some bytes; those that lie behind the last ones lent make one piece with them. */
static uint32_t lend(struct ps_session *session, struct ps_session_call *call, uint32_t n_pieces,
                     const uint8_t *data, size_t n_bytes)
{
    struct ps_piece *pieces = session->scratch->pieces;
    if (n_pieces > 0 && pieces[n_pieces - 1].data + pieces[n_pieces - 1].n_bytes == data) {
        pieces[n_pieces - 1].n_bytes += n_bytes;
        return n_pieces;
    }
    pieces[n_pieces] =
        (struct ps_piece){.data = data, .n_bytes = n_bytes, .done = let_go, .arg = call};
    return n_pieces + 1;
}

/* What a call has of one flow: blocks of the tensors, and rows as they were written. */
static uint32_t lend_flow(struct ps_session *session, struct ps_session_call *call,
                          const struct ps_flow *flow, const struct ps_flow_call *units,
                          uint32_t n_pieces)
{
    const struct ps_session_work *work = call->work;
    bool push = flow->kind == PS_FLOW_PUSH;
    const struct ps_session_rows *rows = push ? work->push_rows : work->pull_rows;
    struct ps_flow_part *parts = session->scratch->parts;
    for (uint32_t i = 0; i < units->n_units; i++) {
        const struct ps_flow_unit *unit = &flow->units[units->units[i]];
        uint32_t n_parts = push || unit->n_runs > 0 ? ps_flow_parts(flow, unit, parts) : 0;
        for (uint32_t p = 0; p < n_parts; p++) {
            const struct ps_flow_run *run = parts[p].run;
            if (run != NULL) {
                size_t n_values = push ? ps_flow_run_bytes(&rows->flow, run) : 0;
                n_pieces = lend(session, call, n_pieces, rows->bytes + run->at,
                                run->n_key_bytes + n_values);
            } else if (push) {
                const struct ps_layout *layout = &session->layouts[parts[p].table];
                const float *from = work->push_values[parts[p].table] +
                                    ps_layout_first_element(layout, parts[p].block);
                n_pieces = lend(session, call, n_pieces, (const uint8_t *)from,
                                parts[p].n_floats * sizeof(float));
            }
        }
    }
    return n_pieces;
}

/* How far a repeat's sequence is off, in test builds that are told to have this bug. */
static uint64_t planted(const struct ps_session *session, const struct ps_session_work *work)
{
#ifdef PS_PLANT
    return session->options.plant_new_sequence && work->repeats ? 1 : 0;
#else
    (void)session;
    (void)work;
    return 0;
#endif
}

/* The header, in the scratch: the transport copies it before its start returns. */
static size_t write_head(struct ps_session *session, const struct ps_session_call *call)
{
    struct ps_data_request *to = &session->scratch->request;
    const struct ps_session_work *work = call->work;
    to->session = session->options.session;
    to->session_number = session->view.session_number;
    to->generation = session->view.generation;
    bool pushes = call->push.n_units > 0;
    bool pulls = call->pull.n_units > 0;
    to->stream = pushes ? work->push->stream : 0;
    to->sequence = pushes ? work->push->sequence + planted(session, work) : 0;
    to->acked_below = pushes ? work->push->acked_below : 0;
    to->step = pushes ? work->push->step : 0;
    to->rows = pushes ? work->push->rows : 0;
    to->rate = pushes ? work->push->rate : 0.0f;
    to->read_clock = pushes ? work->push->read_clock : 0;
    to->pull_step = pulls ? work->pull->step : 0;
    to->no_clock = pulls && work->pull->no_clock;
    ps_flow_fill(&work->push_flow, &session->route, &call->push, &to->push);
    ps_flow_fill(&work->pull_flow, &session->route, &call->pull, &to->pull);
    to->n_payload_bytes = call->push.n_bytes;
    for (uint32_t i = 0; i < to->pull.n_parts; i++) {
        to->n_payload_bytes += to->pull.parts[i].n_key_bytes;
    }
    return ps_data_request_write(to, session->scratch->head, PS_HEAD_BYTES_MAX);
}

static uint32_t timeout_ms(const struct ps_session *session, const struct ps_session_call *call)
{
    const struct ps_session_options *options = &session->options;
    uint64_t n_bytes = call->push.n_bytes + call->pull.n_bytes;
    uint64_t ms = options->call_timeout_ms + n_bytes / PS_SESSION_BYTES_PER_MS;
    /* A parked pull is answered NOT_YET shortly before its end. Half of the time to give up, and
     * not for long, so that a server that hangs is found and told in time; and no parking with one
     * that is silent. */
    if (call->asks && !session->servers[call->server].peer.silent) {
        uint32_t half_ms = options->give_up_ms / 2;
        ms += half_ms < PS_SESSION_PARK_MS_MAX ? half_ms : PS_SESSION_PARK_MS_MAX;
    }
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void send_call(struct ps_session *session, struct ps_session_call *call)
{
    struct ps_session_server *server = &session->servers[call->server];
    size_t n_head_bytes = write_head(session, call);
    PS_ASSERT(n_head_bytes > 0); /* The bounds on slots and parts keep it below the maximum. */
    bool pushes = call->push.n_units > 0;
    bool pulls = call->pull.n_units > 0;
    uint32_t n_pieces = 0;
    if (pushes) {
        n_pieces = lend_flow(session, call, &call->work->push_flow, &call->push, n_pieces);
    }
    if (pulls) {
        n_pieces = lend_flow(session, call, &call->work->pull_flow, &call->pull, n_pieces);
    }
    const char *both = pulls ? PS_METHOD_PUSH_PULL : PS_METHOD_PUSH;
    uint64_t step = pushes ? call->work->push->step : call->work->pull->step;
    call->asks = !pushes && call->pull.asks;
    call->start_ms = ps_exec_now_ms(session->options.exec);
    call->start_ns = ps_exec_now_ns(session->options.exec);
    call->request =
        (struct ps_request){.method = pushes ? both : PS_METHOD_PULL,
                            .timeout_ms = timeout_ms(session, call),
                            .context = {.session = session->view.session_number, .step = step},
                            .out = {.head = session->scratch->head,
                                    .n_head_bytes = n_head_bytes,
                                    .pieces = session->scratch->pieces,
                                    .n_pieces = n_pieces},
                            .done = on_done};
    atomic_store(&call->n_holders, n_pieces + 1);
    server->n_calls++;
    server->n_asking += call->asks ? 1 : 0;
    ps_list_append(&session->calls, &call->node);
    ps_request_start(server->channel, &call->request);
}

/* In asp nothing else stops a worker that lost its coordinator, while its lease goes to another. */
static bool cut_off(const struct ps_session *session, uint64_t now_ms)
{
    return session->view.consistency.mode == PS_CONSISTENCY_ASP && session->attend.wanted &&
           now_ms - session->attend.heard_ms >= PS_SILENCE_MS;
}

/* Fill `call` with what `work` has for the server. */
static bool fill_call(struct ps_session *session, struct ps_session_work *work,
                      struct ps_session_call *call, uint64_t now_ms)
{
    const struct ps_session_server *server = &session->servers[call->server];
    call->work = work;
    call->push.n_units = 0;
    call->push.n_bytes = 0;
    call->pull = (struct ps_flow_call){.server = call->server};
    if (work->push != NULL && !cut_off(session, now_ms) &&
        !ps_failpoint_holds(&work->push_flow, call->server) &&
        ps_flow_take(&work->push_flow, &session->route, call->server, now_ms, &call->push) > 0) {
        if (work->pull != NULL) {
            (void)ps_flow_take_same(&work->pull_flow, &work->push_flow, &call->push, &call->pull);
        }
        return true;
    }
    if (work->pull == NULL || work->pull_held) {
        return false;
    }
    bool taken = ps_flow_asks(&work->pull_flow, call->server) && server->n_asking > 0;
    return !taken &&
           ps_flow_take(&work->pull_flow, &session->route, call->server, now_ms, &call->pull) > 0;
}

/* A call under way comes back to the pool; if there is none, nothing will change by waiting. */
static void wait_for_memory(struct ps_session *session, struct ps_session_work *work)
{
    if (ps_list_empty(&session->calls)) {
        ps_session_work_refuse(work, PS_ERR_NOMEM, "no memory for a call to a server");
    }
}

void ps_session_call_send(struct ps_session *session, struct ps_session_work *work, uint64_t now_ms)
{
    for (uint32_t i = 0; i < session->n_servers; i++) {
        struct ps_session_server *server = &session->servers[i];
        while (ps_session_server_connected(server) &&
               server->n_calls < PS_SESSION_CALLS_PER_SERVER) {
            struct ps_session_call *call = take_call(session);
            if (call == NULL) {
                wait_for_memory(session, work);
                return;
            }
            call->server = i;
            if (!fill_call(session, work, call, now_ms)) {
                ps_list_append(&session->idle_calls, &call->node);
                break;
            }
            send_call(session, call);
        }
    }
}
