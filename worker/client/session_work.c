/*
 * session_work.c — pushes and pulls from their start to their end.
 *
 * A "work" is one operation of the caller, or a push and a pull that share calls, with its flows;
 * flow_core decides what is sent, session_call.c sends it and reads the answers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/failpoint.h"
#include "client/session_impl.h"
#include "num/kernel.h"

bool ps_session_allowed(const struct ps_session *session, uint64_t step)
{
    const struct ps_consistency *consistency = &session->view.consistency;
    uint64_t min_clock = session->view.min_clock;
    switch (consistency->mode) {
    case PS_CONSISTENCY_BSP: return step <= min_clock;
    case PS_CONSISTENCY_SSP: return step <= min_clock || step - min_clock <= consistency->bound;
    case PS_CONSISTENCY_NONE:
    case PS_CONSISTENCY_ASP: break;
    }
    return true;
}
/* ---- Failing ------------------------------------------------------------------------------- */

static void fail_flow(struct ps_flow *flow, struct ps_error *err, enum ps_status status,
                      const char *words)
{
    if (flow->failed == PS_OK) {
        (void)ps_fail(err, status, "%s", words);
    }
    ps_flow_fail(flow, status);
}

void ps_session_work_refuse(struct ps_session_work *work, enum ps_status status, const char *words)
{
    if (work->push != NULL) {
        fail_flow(&work->push_flow, &work->push_err, status, words);
    }
    if (work->pull != NULL) {
        fail_flow(&work->pull_flow, &work->pull_err, status, words);
    }
}

static bool job_over(const struct ps_session *session)
{
    return session->view.job == PS_JOB_DONE || session->view.job == PS_JOB_STOPPED;
}

/* The gate would not open for it any more. */
static bool in_vain(const struct ps_session *session, const struct ps_pull_op *pull)
{
    bool stated = session->view.consistency.mode != PS_CONSISTENCY_NONE;
    return !pull->no_clock && !(stated && ps_session_allowed(session, pull->step));
}

static void fail_in_vain(struct ps_session *session, struct ps_session_work *work)
{
    if (work->pull == NULL || !in_vain(session, work->pull)) {
        return;
    }
    char words[PS_ERROR_TEXT_BYTES];
    (void)snprintf(words, sizeof(words),
                   "the job is over: the bound will not come to allow step %" PRIu64
                   "; a pull with no_clock has what is there",
                   work->pull->step);
    fail_flow(&work->pull_flow, &work->pull_err, PS_ERR_CANCELED, words);
    ps_list_for_each (at, &session->calls) {
        struct ps_session_call *call = PS_CONTAINER_OF(at, struct ps_session_call, node);
        if (call->work == work && call->push.n_units == 0) {
            ps_request_cancel(session->servers[call->server].channel, &call->request);
        }
    }
}

void ps_session_work_job_over(struct ps_session *session)
{
    ps_list_for_each (at, &session->works) {
        fail_in_vain(session, PS_CONTAINER_OF(at, struct ps_session_work, node));
    }
}

void ps_session_work_fail(struct ps_session *session, enum ps_status status, const char *words)
{
    ps_list_for_each (at, &session->works) {
        ps_session_work_refuse(PS_CONTAINER_OF(at, struct ps_session_work, node), status, words);
    }
    ps_list_for_each (at, &session->calls) {
        struct ps_session_call *call = PS_CONTAINER_OF(at, struct ps_session_call, node);
        ps_request_cancel(session->servers[call->server].channel, &call->request);
    }
}

/* ---- Starting ------------------------------------------------------------------------------ */

static enum ps_status check_tensors(const struct ps_session *session,
                                    const struct ps_tensor *tensors, uint32_t n_tensors,
                                    struct ps_error *err)
{
    bool met[PS_TABLES_MAX] = {false};
    for (uint32_t i = 0; i < n_tensors; i++) {
        uint32_t table = tensors[i].table;
        if (table >= session->n_tables) {
            return ps_fail(err, PS_ERR_NOT_FOUND, "table %u is not known", table);
        }
        if (session->tables[table].width != 0) {
            return ps_fail(err, PS_ERR_INVALID, "table '%s' is sparse: name its rows by keys",
                           session->tables[table].name);
        }
        if (met[table] || tensors[i].values == NULL) {
            return ps_fail(err, PS_ERR_INVALID, "table '%s': %s", session->tables[table].name,
                           met[table] ? "named twice" : "no values");
        }
        met[table] = true;
    }
    return PS_OK;
}

/* The whole step is checked before its first byte leaves: a refused one leaves no trace. */
static enum ps_status check_push(const struct ps_session *session, const struct ps_push_op *push,
                                 struct ps_error *err)
{
    enum ps_status status = check_tensors(session, push->tensors, push->n_tensors, err);
    if (status != PS_OK) {
        return status;
    }
    if (!ps_kernel_finite((const uint8_t *)&push->rate, 1)) {
        return ps_fail(err, PS_ERR_INVALID, "the learning rate is not finite");
    }
    if (push->acked_below > push->sequence) {
        return ps_fail(err, PS_ERR_INVALID, "sequence %" PRIu64 " is below %" PRIu64 ", acked",
                       push->sequence, push->acked_below);
    }
    for (uint32_t i = 0; i < push->n_keyed; i++) {
        const struct ps_keyed *keyed = &push->keyed[i];
        size_t n = (size_t)keyed->n * session->tables[keyed->table].width;
        if (!ps_kernel_finite((const uint8_t *)keyed->values, n)) {
            return ps_fail(err, PS_ERR_INVALID, "table '%s': the gradient has a NaN or infinity",
                           session->tables[keyed->table].name);
        }
    }
    for (uint32_t i = 0; i < push->n_tensors; i++) {
        const struct ps_tensor *tensor = &push->tensors[i];
        size_t n = (size_t)session->layouts[tensor->table].n_elements;
        if (!ps_kernel_finite((const uint8_t *)tensor->values, n)) {
            return ps_fail(err, PS_ERR_INVALID, "table '%s': the gradient has a NaN or infinity",
                           session->tables[tensor->table].name);
        }
    }
    return PS_OK;
}

static enum ps_status take_work(struct ps_session *session, struct ps_session_work **ret,
                                struct ps_error *err)
{
    if (session->n_works == PS_SESSION_WORKS_MAX) {
        return ps_fail(err, PS_ERR_BUSY, "too many pushes and pulls at once");
    }
    struct ps_session_work *work;
    if (!ps_list_empty(&session->idle_works)) {
        work = PS_CONTAINER_OF(session->idle_works.next, struct ps_session_work, node);
        ps_list_remove(&work->node);
        memset(work->backoff, 0, sizeof(work->backoff));
        memset(work->push_values, 0, sizeof(work->push_values));
        memset(work->pull_values, 0, sizeof(work->pull_values));
    } else {
        work = ps_mem_alloc(session->options.mem, PS_MEM_CALLS, sizeof(*work));
        if (work == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for a push or a pull");
        }
        ps_list_init(&work->node);
    }
    work->push = NULL;
    work->pull = NULL;
    work->pull_held = false;
    work->push_err = (struct ps_error){0};
    work->pull_err = (struct ps_error){0};
    work->pull_blocked_ns = 0;
    work->min_clock = UINT64_MAX;
    work->n_push_bytes = 0;
    work->pull_answered = false;
    work->pull_parked = false;
    work->repeats = false;
    work->full_ms = 0;
    *ret = work;
    return PS_OK;
}

static enum ps_status begin_push(struct ps_session *session, struct ps_session_work *work,
                                 struct ps_push_op *push, struct ps_error *err)
{
    enum ps_status status =
        ps_session_rows_place(session, &work->push_rows, push->keyed, push->n_keyed, err);
    if (status == PS_OK) {
        status = check_push(session, push, err);
    }
    if (status != PS_OK) {
        return status;
    }
    bool chosen[PS_TABLES_MAX] = {false};
    for (uint32_t i = 0; i < push->n_tensors; i++) {
        chosen[push->tensors[i].table] = true;
        work->push_values[push->tensors[i].table] = push->tensors[i].values;
    }
    struct ps_session_cut cut = {.flow = &work->push_flow,
                                 .rows = push->n_keyed > 0 ? work->push_rows : NULL,
                                 .units = &work->push_units,
                                 .n_units_max = &work->n_push_units_max};
    status = ps_session_cut_begin(session, &cut, PS_FLOW_PUSH, chosen, err);
    if (status != PS_OK) {
        return status;
    }
    work->push = push;
    ps_failpoint_push(&work->push_flow, &session->route);
    return PS_OK;
}

/* From now on the pull makes calls of its own. */
static void release_pull(struct ps_session *session, struct ps_session_work *work)
{
    work->pull_held = false;
    ps_flow_allowed(&work->pull_flow); /* What came back NOT_YET may wait at the gate now. */
    work->pull_start_ns = ps_exec_now_ns(session->options.exec);
    work->pull_parked = work->pull_parked ||
                        (!work->pull->no_clock && !ps_session_allowed(session, work->pull->step));
}

static enum ps_status begin_pull(struct ps_session *session, struct ps_session_work *work,
                                 struct ps_pull_op *pull, struct ps_error *err)
{
    enum ps_status status =
        ps_session_rows_place(session, &work->pull_rows, pull->keyed, pull->n_keyed, err);
    if (status == PS_OK) {
        status = check_tensors(session, pull->tensors, pull->n_tensors, err);
    }
    if (status != PS_OK) {
        return status;
    }
    bool chosen[PS_TABLES_MAX] = {false};
    for (uint32_t i = 0; i < pull->n_tensors; i++) {
        chosen[pull->tensors[i].table] = true;
        work->pull_values[pull->tensors[i].table] = pull->tensors[i].values;
    }
    struct ps_session_cut cut = {.flow = &work->pull_flow,
                                 .rows = pull->n_keyed > 0 ? work->pull_rows : NULL,
                                 .units = &work->pull_units,
                                 .n_units_max = &work->n_pull_units_max};
    status = ps_session_cut_begin(session, &cut, PS_FLOW_PULL, chosen, err);
    if (status != PS_OK) {
        return status;
    }
    if (pull->no_clock || session->view.consistency.mode == PS_CONSISTENCY_ASP) {
        ps_flow_open(&work->pull_flow);
    }
    work->pull = pull;
    work->pull_held = work->push != NULL;
    if (!work->pull_held) {
        release_pull(session, work);
    }
    if (job_over(session)) {
        fail_in_vain(session, work);
    }
    return PS_OK;
}

void ps_session_work_start(struct ps_session *session, struct ps_push_op *push,
                           struct ps_pull_op *pull)
{
    struct ps_error err = {0};
    enum ps_status status = ps_session_usable(session, &err);
    if (status == PS_OK && session->view.session_number == 0) {
        status = ps_fail(&err, PS_ERR_INVALID, "not joined");
    }
    struct ps_session_work *work = NULL;
    if (status == PS_OK) {
        status = take_work(session, &work, &err);
        PS_ASSERT(status != PS_OK || work != NULL);
    }
    if (push != NULL && status == PS_OK) {
        status = begin_push(session, work, push, &err);
    }
    if (pull != NULL && status == PS_OK) {
        status = begin_pull(session, work, pull, &err);
    }
    if (status == PS_OK) {
        ps_list_append(&session->works, &work->node);
        session->n_works++;
        return;
    }
    if (work != NULL) {
        ps_list_append(&session->idle_works, &work->node);
    }
    if (push != NULL) {
        ps_session_end_op(session, &push->op, status, err.text);
    }
    if (pull != NULL) {
        ps_session_end_op(session, &pull->op, status, err.text);
    }
}
/* ---- Ending -------------------------------------------------------------------------------- */

static const char *words_of(const struct ps_error *err, enum ps_status status)
{
    return err->status == status && err->text[0] != '\0' ? err->text : ps_status_text(status);
}

static void end_push(struct ps_session *session, struct ps_session_work *work)
{
    struct ps_push_op *push = work->push;
    struct ps_metrics *metrics = session->options.metrics;
    enum ps_status status = ps_flow_outcome(&work->push_flow);
    session->view.n_bytes_pushed += work->n_push_bytes;
    ps_metric_add(metrics, PS_METRIC_bytes_pushed_total, work->n_push_bytes);
    if (status == PS_OK) {
        ps_failpoint_acked();
        uint64_t read_clock = push->read_clock < push->step ? push->read_clock : push->step;
        ps_metric_add(metrics, PS_METRIC_push_total, 1);
        ps_metric_add(metrics, PS_METRIC_push_rows_total, push->rows);
        ps_metric_observe(metrics, PS_METRIC_staleness_clocks, push->step - read_clock);
    }
    work->push = NULL;
    const char *words = words_of(&work->push_err, status);
    ps_session_end_op(session, &push->op, status, words);
    if (!work->pull_held) {
        return;
    }
    if (status != PS_OK) { /* Its caller will not tick, and the gate might wait for that. */
        fail_flow(&work->pull_flow, &work->pull_err, status, words);
    }
    release_pull(session, work);
}

static void end_pull(struct ps_session *session, struct ps_session_work *work)
{
    struct ps_pull_op *pull = work->pull;
    enum ps_status status = ps_flow_outcome(&work->pull_flow);
    pull->ret_min_clock = work->min_clock == UINT64_MAX ? 0 : work->min_clock;
    pull->ret_blocked_ns = work->pull_blocked_ns;
    session->view.n_pulls_parked += work->pull_parked ? 1 : 0;
    if (status == PS_OK) {
        ps_metric_add(session->options.metrics, PS_METRIC_pull_total, 1);
        ps_metric_add(session->options.metrics, PS_METRIC_pulls_parked_total,
                      work->pull_parked ? 1 : 0);
        ps_metric_add(session->options.metrics, PS_METRIC_blocked_us_total,
                      work->pull_blocked_ns / 1000);
    }
    work->pull = NULL;
    ps_session_end_op(session, &pull->op, status, words_of(&work->pull_err, status));
}

static void end_work(struct ps_session *session, struct ps_session_work *work)
{
    ps_list_remove(&work->node);
    ps_list_append(&session->idle_works, &work->node);
    session->n_works--;
    ps_session_servers_rest(session);
}

static void end_ended(struct ps_session *session, struct ps_session_work *work)
{
    if (work->push != NULL && ps_flow_ended(&work->push_flow)) {
        end_push(session, work);
    }
    if (work->pull != NULL && !work->pull_held && ps_flow_ended(&work->pull_flow)) {
        end_pull(session, work);
    }
}

void ps_session_work_pump(struct ps_session *session)
{
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    ps_list_for_each_safe (at, after, &session->works) {
        struct ps_session_work *work = PS_CONTAINER_OF(at, struct ps_session_work, node);
        end_ended(session, work);
        if (work->push != NULL || work->pull != NULL) {
            ps_session_call_send(session, work, now_ms);
            end_ended(session, work); /* For want of memory. */
        }
        if (work->push == NULL && work->pull == NULL) {
            end_work(session, work);
        }
    }
}

uint64_t ps_session_work_next_ms(const struct ps_session *session)
{
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    uint64_t next_ms = UINT64_MAX;
    ps_list_for_each (at, &session->works) {
        const struct ps_session_work *work = PS_CONTAINER_OF(at, struct ps_session_work, node);
        uint64_t push_ms =
            work->push != NULL ? ps_flow_next_ms(&work->push_flow, now_ms) : UINT64_MAX;
        uint64_t pull_ms = work->pull != NULL && !work->pull_held
                               ? ps_flow_next_ms(&work->pull_flow, now_ms)
                               : UINT64_MAX;
        next_ms = push_ms < next_ms ? push_ms : next_ms;
        next_ms = pull_ms < next_ms ? pull_ms : next_ms;
    }
    return next_ms;
}

void ps_session_work_free(struct ps_session *session)
{
    PS_ASSERT(session->n_works == 0 && ps_list_empty(&session->calls));
    ps_list_for_each_safe (at, after, &session->idle_works) {
        struct ps_session_work *work = PS_CONTAINER_OF(at, struct ps_session_work, node);
        ps_mem_free(work->push_units);
        ps_mem_free(work->pull_units);
        ps_session_rows_free(work->push_rows);
        ps_session_rows_free(work->pull_rows);
        ps_mem_free(work);
    }
    ps_list_for_each_safe (at, after, &session->idle_calls) {
        ps_mem_free(PS_CONTAINER_OF(at, struct ps_session_call, node));
    }
}
