/* svc_data.c — see svc_data.h. */
#include "svc/svc_data.h"

#include "base/assert.h"
#include "slot/data_call.h"
#include "svc/data_check.h"
#include "svc/svc_scan.h"
#include "wire/scan_msg.h"

/* ---- Reply ---------------------------------------------------------------------------------- */

static void free_call(struct ps_data_call *call)
{
    struct ps_svc_data *svc = call->arg;
    ps_msg_unref(call->msg);
    ps_loan_release(call->loan);
    if (call->n_booked > 0) {
        ps_ledger_end_call(call->ledger, call->account, call->n_booked);
    }
    ps_mem_free(call);
    atomic_fetch_sub_explicit(&svc->n_open, 1, memory_order_release);
}

/* The weights, as pieces that lend pages and gathered rows; in the order of slots and parts. */
static size_t lend_pages(struct ps_data_call *call, struct ps_piece *pieces)
{
    size_t n = 0;
    for (uint32_t i = 0; i < call->request.pull.n_slots; i++) {
        const struct ps_slot_part *slot = &call->request.pull.slots[i];
        for (uint32_t k = 0; k < slot->n_parts && call->reply.pull[i].status == PS_OK; k++) {
            struct ps_lent *lent = &call->loan->lent[slot->first_part + k];
            const struct ps_page *page = lent->page;
            const float *values = page != NULL ? page->weights : lent->rows;
            size_t n_bytes = page != NULL ? page->n * sizeof(float) : (size_t)lent->n_rows_bytes;
            pieces[n++] = (struct ps_piece){
                .data = (const uint8_t *)values,
                .n_bytes = n_bytes,
                .done = ps_loan_return,
                .arg = lent,
            };
            call->reply.n_payload_bytes += n_bytes;
        }
    }
    return n;
}

static void count_push(const struct ps_data_call *call)
{
    struct ps_metrics *metrics = ((struct ps_svc_data *)call->arg)->metrics;
    const struct ps_data_request *request = &call->request;
    if (request->push.n_slots > 0) {
        ps_metric_add(metrics, PS_METRIC_push_total, 1);
        ps_metric_add(metrics, PS_METRIC_push_rows_total, request->rows);
        ps_metric_add(metrics, PS_METRIC_bytes_pushed_total, request->n_payload_bytes);
        uint64_t lag =
            request->step > request->read_clock ? request->step - request->read_clock : 0;
        ps_metric_observe(metrics, PS_METRIC_staleness_clocks, lag);
    }
}

static void count_pull(const struct ps_data_call *call)
{
    struct ps_metrics *metrics = ((struct ps_svc_data *)call->arg)->metrics;
    if (call->reply.n_payload_bytes > 0) {
        ps_metric_add(metrics, PS_METRIC_pull_total, 1);
        ps_metric_add(metrics, PS_METRIC_bytes_pulled_total, call->reply.n_payload_bytes);
    }
}

/* The one reply, as the slots' statuses say. */
static void send_reply(struct ps_data_call *call)
{
    struct ps_piece pieces[PS_CALL_PARTS_MAX];
    uint8_t head[PS_CALL_SLOTS_MAX * 2 * 48 + 64]; /* Two per slot, each 48 bytes at most. */
    struct ps_data_reply *reply = &call->reply;

    reply->n_push = call->request.push.n_slots;
    reply->n_pull = call->request.pull.n_slots;
    size_t n_pieces = lend_pages(call, pieces);
    size_t n_head = ps_data_reply_write(reply, call->kind, head, sizeof(head));
    PS_ASSERT(n_head > 0);
    count_pull(call);
    struct ps_out out = {
        .head = head, .n_head_bytes = n_head, .pieces = pieces, .n_pieces = n_pieces};
    ps_call_finish(call->call, PS_OK, &out, NULL);
    free_call(call);
}

/*
 * A lane's clock may be ahead of another's, which waits for a record: a reader that goes from lane
 * to lane must not see the server's go back. Whoever trains is told what holds for what it got.
 */
uint64_t ps_svc_clock(const struct ps_svc_data *svc, uint64_t clock)
{
    for (uint32_t i = 0; i < svc->n_lanes; i++) {
        uint64_t other = ps_lane_clock(svc->lanes[i]);
        clock = other < clock ? other : clock;
    }
    return clock;
}

/* Every lane has answered. Runs on the last lane. */
static void finish(struct ps_data_call *call)
{
    struct ps_svc_data *svc = call->arg;
    struct ps_data_reply *reply = &call->reply;
    bool parked = false;

    reply->min_clock = UINT64_MAX;
    for (uint32_t i = 0; i < svc->n_lanes; i++) {
        const struct ps_share_mail *share = &call->shares[i];
        if (share->lane != NULL) {
            reply->min_clock =
                share->min_clock < reply->min_clock ? share->min_clock : reply->min_clock;
            reply->term = share->term > reply->term ? share->term : reply->term;
            reply->retry_ms = share->retry_ms > reply->retry_ms ? share->retry_ms : reply->retry_ms;
            parked = parked || share->parked_ns != 0;
        }
    }
    if (reply->min_clock == UINT64_MAX) {
        reply->min_clock = 0; /* Nothing was read. */
    }
    if (call->request.no_clock) {
        reply->min_clock = ps_svc_clock(svc, reply->min_clock);
    }
    if (!parked) {
        ps_ledger_note_passage(svc->ledger, ps_exec_now_ns(svc->exec) - call->arrived_ns);
    }
    count_push(call);
    send_reply(call);
}

/* ---- Arrival -------------------------------------------------------------------------------- */

static uint64_t lanes_of(const struct ps_share *share, uint32_t n_lanes)
{
    uint64_t lanes = 0;
    for (uint32_t i = 0; i < share->n_slots; i++) {
        lanes |= 1ull << ps_lane_of(share->slots[i].slot, n_lanes);
    }
    return lanes;
}

static void hand_over(struct ps_svc_data *svc, struct ps_data_call *call)
{
    uint64_t lanes =
        lanes_of(&call->request.push, svc->n_lanes) | lanes_of(&call->request.pull, svc->n_lanes);
    uint32_t n = (uint32_t)__builtin_popcountll(lanes);
    atomic_store_explicit(&call->n_pending, n, memory_order_relaxed);
    for (uint32_t i = 0; i < svc->n_lanes; i++) {
        if ((lanes >> i & 1) != 0) {
            call->shares[i].call = call;
            call->shares[i].lane = svc->lanes[i];
        }
    }
    for (uint32_t i = 0; n > 0; i++) { /* `call` may be gone after the last post. */
        if ((lanes >> i & 1) != 0) {
            n--;
            ps_lane_post_share(svc->lanes[i], &call->shares[i]);
        }
    }
}

/* The call as a whole is refused; nothing of it was handed over. */
static void refuse(struct ps_data_call *call, enum ps_status status, const char *why)
{
    struct ps_svc_data *svc = call->arg;
    ps_metric_add(svc->metrics, PS_METRIC_calls_refused_total, 1);
    ps_call_finish(call->call, status, NULL, why);
    free_call(call);
}

static void answer_busy(struct ps_slot_reply *replies, const struct ps_share *share)
{
    for (uint32_t i = 0; i < share->n_slots; i++) {
        replies[i] = (struct ps_slot_reply){.slot = share->slots[i].slot, .status = PS_ERR_BUSY};
    }
}

/* Too much of its session is under way: every slot is BUSY, and the reply says how long to wait. */
static void turn_away(struct ps_data_call *call)
{
    struct ps_svc_data *svc = call->arg;
    ps_metric_add(svc->metrics, PS_METRIC_calls_busy_total, 1);
    answer_busy(call->reply.push, &call->request.push);
    answer_busy(call->reply.pull, &call->request.pull);
    call->reply.retry_ms = ps_ledger_retry_ms(svc->ledger);
    send_reply(call);
}

/* Book the call on its session's account and find what its reply will need. */
static bool admit(struct ps_data_call *call)
{
    struct ps_svc_data *svc = call->arg;
    uint64_t n_bytes = sizeof(*call) + call->msg->n_bytes;
    call->ledger = svc->ledger;
    call->account =
        ps_ledger_find(svc->ledger, call->request.session_number, &call->request.session);
    call->serial = ps_ledger_serial(svc->ledger);
    if (!ps_ledger_begin_call(svc->ledger, call->account, n_bytes)) {
        return false;
    }
    call->n_booked = n_bytes;
    if (call->request.pull.n_parts > 0) {
        call->loan =
            ps_loan_create(svc->mem, svc->ledger, call->account, call->request.pull.n_parts);
    }
    return call->request.pull.n_parts == 0 || call->loan != NULL;
}

static struct ps_data_call *make_call(struct ps_svc_data *svc, struct ps_call *in,
                                      enum ps_data_kind kind)
{
    struct ps_data_call *call = ps_mem_alloc(svc->mem, PS_MEM_CALLS, sizeof(*call));
    if (call != NULL) {
        atomic_fetch_add_explicit(&svc->n_open, 1, memory_order_relaxed);
        call->call = in;
        call->kind = kind;
        call->finish = finish;
        call->arg = svc;
        call->n_lanes = svc->n_lanes;
        call->arrived_ns = ps_exec_now_ns(svc->exec);
        call->msg = ps_call_take_request(in);
    }
    return call;
}

enum ps_status ps_svc_data_placed(const struct ps_svc_data *svc, struct ps_error *err)
{
    return !atomic_load_explicit(&svc->unplaced, memory_order_relaxed)
               ? PS_OK
               : ps_fail(err, PS_ERR_NOT_PRIMARY,
                         "this server has just started: it waits to hear what it owns");
}

static void arrive(struct ps_svc_data *svc, struct ps_call *in, enum ps_data_kind kind)
{
    struct ps_error err;
    struct ps_data_call *call = make_call(svc, in, kind);
    ps_metric_add(svc->metrics, PS_METRIC_calls_total, 1);
    if (call == NULL) {
        ps_metric_add(svc->metrics, PS_METRIC_calls_refused_total, 1);
        ps_call_finish(in, PS_ERR_BUSY, NULL, "no memory for one more call: slow down");
        return;
    }
    struct ps_data_check check = {
        .catalogue = svc->catalogue,
        .generation = atomic_load_explicit(&svc->generation, memory_order_relaxed),
        .key_seed = atomic_load_explicit(&svc->key_seed, memory_order_relaxed),
    };
    enum ps_status status = ps_data_request_read(
        ps_cursor_over(call->msg->slices, call->msg->n_slices), &call->request, &err);
    if (status == PS_OK) {
        status = ps_svc_data_placed(svc, &err);
    }
    if (status == PS_OK) {
        status = ps_data_check_head(&check, call, &err);
    }
    if (status == PS_OK && !admit(call)) { /* Before the values are looked at: that is work. */
        turn_away(call);
        return;
    }
    if (status == PS_OK) {
        status = ps_data_check(&check, call, &err);
    }
    if (status != PS_OK) {
        ps_metric_add(svc->metrics, PS_METRIC_not_finite_total, check.not_finite ? 1 : 0);
        refuse(call, status, err.text);
        return;
    }
    hand_over(svc, call);
}

static void pull(void *arg, struct ps_call *call)
{
    arrive(arg, call, PS_DATA_PULL);
}

static void push(void *arg, struct ps_call *call)
{
    arrive(arg, call, PS_DATA_PUSH);
}

static void push_pull(void *arg, struct ps_call *call)
{
    arrive(arg, call, PS_DATA_PUSH_PULL);
}

void ps_svc_data_methods(struct ps_svc_data *svc, struct ps_method *ret)
{
    static const struct ps_method rows[PS_SVC_DATA_METHODS] = {
        {.path = PS_METHOD_PULL,
         .traffic = PS_TRAFFIC_DATA,
         .roles = PS_ROLE_READER | PS_ROLE_WORKER | PS_ROLE_ADMIN,
         .call = pull},
        {.path = PS_METHOD_PUSH, .traffic = PS_TRAFFIC_DATA, .roles = PS_ROLE_WORKER, .call = push},
        {.path = PS_METHOD_PUSH_PULL,
         .traffic = PS_TRAFFIC_DATA,
         .roles = PS_ROLE_WORKER,
         .call = push_pull},
        {.path = PS_METHOD_SCAN,
         .traffic = PS_TRAFFIC_DATA,
         .roles = PS_ROLE_READER | PS_ROLE_WORKER | PS_ROLE_ADMIN,
         .call = ps_svc_scan},
    };
    for (uint32_t i = 0; i < PS_SVC_DATA_METHODS; i++) {
        ret[i] = rows[i];
        ret[i].arg = svc;
    }
}
