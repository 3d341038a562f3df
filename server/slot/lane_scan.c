/*
 * lane_scan.c — some rows of a sparse table for whoever walks over all of them. One call is one
 * step of bounded work, so that pushes and pulls wait no longer for it than for one another.
 */
#include "base/assert.h"
#include "slot/lane_impl.h"
#include "table/sparse_scan.h"
#include "wire/keys.h"

/* Memory for one step. */
static bool begin_step(struct ps_lane *lane, const struct ps_scan_call *call,
                       const struct ps_sparse *sparse, struct ps_sparse_scan *ret)
{
    uint32_t n = ps_sparse_scan_rows_max(sparse);
    n = n < call->n_rows_max ? n : call->n_rows_max;
    size_t n_each = 2 * sizeof(ret->room[0]) + sizeof(ret->keys[0]);
    *ret =
        (struct ps_sparse_scan){.cursor = call->request.cursor,
                                .skip_zeros = call->request.skip_zeros,
                                .n_max = n,
                                .room = ps_mem_array(lane->options.mem, PS_MEM_CALLS, n, n_each)};
    ret->keys = ret->room != NULL ? (uint64_t *)(void *)(ret->room + (size_t)2 * n) : NULL;
    return ret->room != NULL;
}

/* The rows found, as the reply's payload; its loan has them then. */
static bool lend(struct ps_lane *lane, struct ps_scan_call *call, const struct ps_sparse *sparse,
                 const struct ps_sparse_scan *step)
{
    size_t n_key_bytes = ps_keys_bytes(step->keys, step->n);
    size_t n_bytes = n_key_bytes + (size_t)step->n * sparse->spec.width * sizeof(float);
    if (step->n == 0) {
        return true;
    }
    if (!ps_ledger_lend(call->ledger, call->account, 1, ps_loan_rows_bytes(n_bytes))) {
        return false;
    }
    float *rows = ps_mem_alloc(lane->options.mem, PS_MEM_CALLS, n_bytes);
    if (rows == NULL) {
        ps_ledger_return(call->ledger, call->account, 1, ps_loan_rows_bytes(n_bytes));
        return false;
    }
    uint8_t *bytes = (uint8_t *)rows;
    size_t n_written = ps_keys_write(step->keys, step->n, bytes, n_key_bytes);
    PS_ASSERT(n_written == n_key_bytes);
    ps_sparse_scan_read(sparse, step, bytes + n_key_bytes);
    ps_loan_lend_rows(call->loan, 0, rows, n_bytes);
    call->reply.n_keys = step->n;
    call->reply.n_key_bytes = (uint32_t)n_key_bytes;
    call->reply.n_payload_bytes = n_bytes;
    return true;
}

static enum ps_status scan(struct ps_lane *lane, struct ps_scan_call *call)
{
    const struct ps_scan_request *request = &call->request;
    if (request->table >= lane->n_tables ||
        !ps_lane_rows_here(lane, request->table, request->slot)) {
        return PS_ERR_NOT_FOUND;
    }
    const struct ps_sparse *sparse = lane->rows[request->table]->slots[request->slot];
    struct ps_sparse_scan step;
    if (!begin_step(lane, call, sparse, &step)) {
        return PS_ERR_BUSY;
    }
    ps_sparse_scan_step(sparse, &step);
    bool lent = lend(lane, call, sparse, &step);
    ps_mem_free(step.room);
    if (lent) {
        call->reply.cursor = step.cursor;
        call->reply.done = step.done;
    }
    return lent ? PS_OK : PS_ERR_BUSY;
}

static void run_scan(struct ps_mail *mail)
{
    struct ps_scan_call *call = PS_CONTAINER_OF(mail, struct ps_scan_call, mail);
    struct ps_lane *lane = call->lane;
    const struct ps_scan_request *request = &call->request;
    const struct ps_slot *slot = lane->slots[request->slot];
    const struct ps_claim claim = {.session = request->session,
                                   .session_number = request->session_number,
                                   .epoch = request->epoch,
                                   .seen_epoch = request->seen_epoch,
                                   .seen_position = request->seen_position};
    struct ps_scan_reply *reply = &call->reply;
    reply->epoch = slot->epoch;
    reply->position = slot->applied;
    reply->term = lane->term;
    reply->status = ps_lane_admit(lane, request->slot, &claim);
    if (reply->status == PS_OK) {
        reply->status = scan(lane, call);
    }
    if (reply->status == PS_OK) {
        reply->min_clock = lane->gate.min_clock;
    } else if (reply->status == PS_ERR_BUSY) {
        ps_metric_add(lane->options.metrics, PS_METRIC_pulls_refused_total, 1);
        reply->retry_ms = ps_ledger_retry_ms(call->ledger);
    }
    call->finish(call);
}

void ps_lane_post_scan(struct ps_lane *lane, struct ps_scan_call *call)
{
    call->lane = lane;
    call->mail.run = run_scan;
    ps_exec_post(lane->options.exec, &call->mail);
}
