/* svc_scan.c — see svc_scan.h. */
#include "svc/svc_scan.h"

#include <inttypes.h>

#include "slot/lane.h"
#include "slot/scan_call.h"
#include "svc/data_check.h"
#include "svc/svc_data.h"

/* ---- Reply ---------------------------------------------------------------------------------- */

static void free_call(struct ps_scan_call *call)
{
    struct ps_svc_data *svc = call->arg;
    ps_loan_release(call->loan);
    if (call->n_booked > 0) {
        ps_ledger_end_call(call->ledger, call->account, call->n_booked);
    }
    ps_mem_free(call);
    atomic_fetch_sub_explicit(&svc->n_open, 1, memory_order_release);
}

static void send_reply(struct ps_scan_call *call)
{
    struct ps_svc_data *svc = call->arg;
    uint8_t head[PS_SCAN_HEAD_BYTES_MAX];
    struct ps_piece piece;
    size_t n_pieces = 0;
    if (call->reply.n_payload_bytes > 0) {
        struct ps_lent *lent = &call->loan->lent[0];
        piece = (struct ps_piece){.data = (const uint8_t *)lent->rows,
                                  .n_bytes = (size_t)lent->n_rows_bytes,
                                  .done = ps_loan_return,
                                  .arg = lent};
        n_pieces = 1;
        ps_metric_add(svc->metrics, PS_METRIC_scan_rows_total, call->reply.n_keys);
        ps_metric_add(svc->metrics, PS_METRIC_bytes_scanned_total, call->reply.n_payload_bytes);
    }
    size_t n_head = ps_scan_reply_write(&call->reply, head, sizeof(head));
    struct ps_out out = {
        .head = head, .n_head_bytes = n_head, .pieces = &piece, .n_pieces = n_pieces};
    ps_call_finish(call->call, PS_OK, &out, NULL);
    free_call(call);
}

/* The lane has answered. */
static void finish(struct ps_scan_call *call)
{
    struct ps_svc_data *svc = call->arg;
    call->reply.min_clock = ps_svc_clock(svc, call->reply.min_clock);
    ps_ledger_note_passage(svc->ledger, ps_exec_now_ns(svc->exec) - call->arrived_ns);
    send_reply(call);
}

/* ---- Arrival -------------------------------------------------------------------------------- */

static void refuse(struct ps_scan_call *call, enum ps_status status, const char *why)
{
    struct ps_svc_data *svc = call->arg;
    ps_metric_add(svc->metrics, PS_METRIC_calls_refused_total, 1);
    ps_call_finish(call->call, status, NULL, why);
    free_call(call);
}

/* Too much of its session is under way. */
static void turn_away(struct ps_scan_call *call)
{
    struct ps_svc_data *svc = call->arg;
    ps_metric_add(svc->metrics, PS_METRIC_calls_busy_total, 1);
    call->reply.status = PS_ERR_BUSY;
    call->reply.retry_ms = ps_ledger_retry_ms(svc->ledger);
    send_reply(call);
}

/* Can a lane take it as it stands? Sets how many rows its bytes are enough for. */
static enum ps_status check(struct ps_scan_call *call, struct ps_error *err)
{
    const struct ps_svc_data *svc = call->arg;
    const struct ps_scan_request *request = &call->request;
    const struct ps_catalogue *catalogue = svc->catalogue;
    enum ps_status status = ps_svc_data_placed(svc, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_data_check_generation(atomic_load_explicit(&svc->generation, memory_order_relaxed),
                                      request->generation, err);
    if (status != PS_OK) {
        return status;
    }
    if (request->slot >= PS_SLOTS) {
        return ps_fail(err, PS_ERR_INVALID, "there is no slot %" PRIu32, request->slot);
    }
    if (request->table >= ps_catalogue_view(catalogue).n_tables) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "no table number %" PRIu32 ": define it first",
                       request->table);
    }
    const struct ps_table_info *info = &catalogue->tables[request->table];
    if (!info->sparse) {
        return ps_fail(err, PS_ERR_INVALID,
                       "table %" PRIu32 " ('%s') is dense: it has no rows to scan, pull it",
                       request->table, info->spec.name);
    }
    uint32_t n_bytes = request->max_bytes != 0 && request->max_bytes < PS_CALL_PAYLOAD_BYTES
                           ? request->max_bytes
                           : PS_CALL_PAYLOAD_BYTES;
    call->n_rows_max = n_bytes / ps_scan_row_bytes(info->rows.width);
    if (call->n_rows_max == 0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "max_bytes %" PRIu32 " is less than a row of table '%s': at least %" PRIu32,
                       request->max_bytes, info->spec.name, ps_scan_row_bytes(info->rows.width));
    }
    return PS_OK;
}

/* Book the call on its session's account and find what its reply will need. */
static bool admit(struct ps_scan_call *call, uint64_t n_message_bytes)
{
    struct ps_svc_data *svc = call->arg;
    uint64_t n_bytes = sizeof(*call) + n_message_bytes;
    call->ledger = svc->ledger;
    call->account =
        ps_ledger_find(svc->ledger, call->request.session_number, &call->request.session);
    if (!ps_ledger_begin_call(svc->ledger, call->account, n_bytes)) {
        return false;
    }
    call->n_booked = n_bytes;
    call->loan = ps_loan_create(svc->mem, svc->ledger, call->account, 1);
    return call->loan != NULL;
}

void ps_svc_scan(void *arg, struct ps_call *in)
{
    struct ps_svc_data *svc = arg;
    struct ps_error err;
    ps_metric_add(svc->metrics, PS_METRIC_calls_total, 1);
    struct ps_scan_call *call = ps_mem_alloc(svc->mem, PS_MEM_CALLS, sizeof(*call));
    if (call == NULL) {
        ps_metric_add(svc->metrics, PS_METRIC_calls_refused_total, 1);
        ps_call_finish(in, PS_ERR_BUSY, NULL, "no memory for one more call: slow down");
        return;
    }
    atomic_fetch_add_explicit(&svc->n_open, 1, memory_order_relaxed);
    call->call = in;
    call->arg = svc;
    call->finish = finish;
    call->arrived_ns = ps_exec_now_ns(svc->exec);
    const struct ps_msg *msg = ps_call_request(in);
    enum ps_status status =
        ps_scan_request_read(ps_cursor_over(msg->slices, msg->n_slices), &call->request, &err);
    if (status == PS_OK) {
        status = check(call, &err);
    }
    if (status != PS_OK) {
        refuse(call, status, err.text);
        return;
    }
    if (!admit(call, msg->n_bytes)) {
        turn_away(call);
        return;
    }
    ps_lane_post_scan(svc->lanes[ps_lane_of(call->request.slot, svc->n_lanes)], call);
}
