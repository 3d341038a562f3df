/* svc_data.c — see svc_data.h. */
#include "svc/svc_data.h"

#include "base/assert.h"
#include "num/dtype.h"
#include "num/kernel.h"
#include "slot/data_call.h"

/* ---- Checks: the whole call, before any lane sees it ---------------------------------------- */

static enum ps_status check_part(struct ps_layout_view view, const struct ps_slot_part *slot,
                                 const struct ps_part *part, bool push, struct ps_error *err)
{
    if (part->table >= view.n_tables) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "no table number %u: define it first", part->table);
    }
    const struct ps_layout *layout = &view.tables[part->table];
    if (part->block >= layout->n_blocks || ps_layout_slot(layout, part->block) != slot->slot) {
        return ps_fail(err, PS_ERR_INVALID, "table %u has no block %u in slot %u", part->table,
                       part->block, slot->slot);
    }
    if (!push) {
        return PS_OK;
    }
    uint32_t n_bytes = ps_layout_floats(layout, part->block) * (uint32_t)sizeof(float);
    if (part->dtype != PS_DTYPE_F32 || part->codec != PS_CODEC_RAW) {
        return ps_fail(err, PS_ERR_UNSUPPORTED, "dtype %u with codec %u is not known here",
                       part->dtype, part->codec);
    }
    if (part->n_bytes != n_bytes) {
        return ps_fail(err, PS_ERR_INVALID, "block %u of table %u has %u bytes, got %u",
                       part->block, part->table, n_bytes, part->n_bytes);
    }
    return PS_OK;
}

/* Each slot once, each block once and in order. */
static enum ps_status check_share(struct ps_layout_view view, const struct ps_share *share,
                                  bool push, struct ps_error *err)
{
    uint64_t met = 0;
    PS_STATIC_ASSERT(PS_SLOTS <= 64, "one bit per slot");
    for (uint32_t i = 0; i < share->n_slots; i++) {
        const struct ps_slot_part *slot = &share->slots[i];
        if (slot->slot >= PS_SLOTS || (met >> slot->slot & 1) != 0 || slot->n_parts == 0) {
            return ps_fail(err, PS_ERR_INVALID, "slot %u is out of range, repeated or empty",
                           slot->slot);
        }
        met |= 1ull << slot->slot;
        for (uint32_t k = 0; k < slot->n_parts; k++) {
            const struct ps_part *part = &share->parts[slot->first_part + k];
            const struct ps_part *before = k > 0 ? part - 1 : NULL;
            if (before != NULL && (part->table < before->table || (part->table == before->table &&
                                                                   part->block <= before->block))) {
                return ps_fail(err, PS_ERR_INVALID, "blocks of slot %u are not in order",
                               slot->slot);
            }
            enum ps_status status = check_part(view, slot, part, push, err);
            if (status != PS_OK) {
                return status;
            }
        }
    }
    return PS_OK;
}

static enum ps_status check_values(const struct ps_data_call *call, struct ps_error *err)
{
    const struct ps_data_request *request = &call->request;
    for (uint32_t i = 0; i < request->push.n_slots; i++) {
        const struct ps_slot_part *slot = &request->push.slots[i];
        size_t n_floats = call->payloads[i].n_left / sizeof(float);
        if (!ps_cursor_finite(call->payloads[i], n_floats)) {
            return ps_fail(err, PS_ERR_INVALID, "a gradient in slot %u is not finite", slot->slot);
        }
    }
    if (!(request->rate >= 0.0f && request->rate <= 1e30f)) { /* NaN fails too. */
        return ps_fail(err, PS_ERR_INVALID, "rate %g is not a learning rate",
                       (double)request->rate);
    }
    return PS_OK;
}

/* Cut the payload by slots, in the order of the header. */
static void cut_payload(struct ps_data_call *call)
{
    struct ps_cursor payload = call->request.payload;
    for (uint32_t i = 0; i < call->request.push.n_slots; i++) {
        const struct ps_slot_part *slot = &call->request.push.slots[i];
        size_t n_bytes = 0;
        for (uint32_t k = 0; k < slot->n_parts; k++) {
            n_bytes += call->request.push.parts[slot->first_part + k].n_bytes;
        }
        call->payloads[i] = ps_cursor_split(&payload, n_bytes);
        PS_ASSERT(!payload.failed); /* The reader has compared the sums. */
    }
}

static enum ps_status check_pull_size(struct ps_layout_view view, const struct ps_share *pull,
                                      struct ps_error *err)
{
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < pull->n_parts; i++) {
        const struct ps_part *part = &pull->parts[i];
        n_bytes += ps_layout_floats(&view.tables[part->table], part->block) * sizeof(float);
    }
    if (n_bytes > PS_MESSAGE_BYTES_MAX - PS_HEAD_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "a pull of %llu bytes does not fit one reply: ask for fewer blocks",
                       (unsigned long long)n_bytes);
    }
    return PS_OK;
}

static enum ps_status check(struct ps_svc_data *svc, struct ps_data_call *call,
                            struct ps_error *err)
{
    struct ps_data_request *request = &call->request;
    struct ps_layout_view view = ps_catalogue_view(svc->catalogue);
    uint64_t generation = atomic_load_explicit(&svc->generation, memory_order_relaxed);
    if (generation != 0 && request->generation != 0 && request->generation != generation) {
        return ps_fail(err, PS_ERR_FENCED, "generation %llu is over, this is %llu: join anew",
                       (unsigned long long)request->generation, (unsigned long long)generation);
    }
    if (call->kind == PS_DATA_PULL ? request->pull.n_slots == 0 : request->push.n_slots == 0) {
        return ps_fail(err, PS_ERR_INVALID, "the call names no slot");
    }
    if (request->stream >= PS_SEEN_LEASES_END) {
        return ps_fail(err, PS_ERR_INVALID, "stream %llu is no lease",
                       (unsigned long long)request->stream); /* It may be a session's own. */
    }
    /* Fields of the other methods are unknown fields of this one. */
    if (call->kind == PS_DATA_PULL) {
        request->push.n_slots = 0;
        request->push.n_parts = 0;
    } else if (call->kind == PS_DATA_PUSH) {
        request->pull.n_slots = 0;
        request->pull.n_parts = 0;
    }
    enum ps_status status = check_share(view, &request->push, true, err);
    if (status == PS_OK) {
        status = check_share(view, &request->pull, false, err);
    }
    if (status == PS_OK) {
        status = check_pull_size(view, &request->pull, err);
    }
    if (status == PS_OK) {
        cut_payload(call);
        status = check_values(call, err);
    }
    return status;
}

/* ---- Reply ---------------------------------------------------------------------------------- */

static void give_page_back(void *arg)
{
    ps_page_unref(arg, PS_PAGE_PULL);
}

static void free_call(struct ps_data_call *call)
{
    struct ps_svc_data *svc = call->arg;
    ps_msg_unref(call->msg);
    ps_mem_free(call);
    atomic_fetch_sub_explicit(&svc->n_open, 1, memory_order_release);
}

/* The weights, as pieces that lend the pages; in the order of slots and parts. */
static size_t lend_pages(struct ps_data_call *call, struct ps_piece *pieces)
{
    size_t n = 0;
    for (uint32_t i = 0; i < call->request.pull.n_slots; i++) {
        const struct ps_slot_part *slot = &call->request.pull.slots[i];
        for (uint32_t k = 0; k < slot->n_parts && call->reply.pull[i].status == PS_OK; k++) {
            struct ps_page *page = call->pages[slot->first_part + k];
            pieces[n++] = (struct ps_piece){
                .data = (const uint8_t *)page->weights,
                .n_bytes = page->n * sizeof(float),
                .done = give_page_back,
                .arg = page,
            };
            call->reply.n_payload_bytes += page->n * sizeof(float);
        }
    }
    return n;
}

static void count(struct ps_svc_data *svc, const struct ps_data_call *call)
{
    const struct ps_data_request *request = &call->request;
    if (request->push.n_slots > 0) {
        ps_metric_add(svc->metrics, PS_METRIC_push_total, 1);
        ps_metric_add(svc->metrics, PS_METRIC_push_rows_total, request->rows);
        ps_metric_add(svc->metrics, PS_METRIC_bytes_pushed_total, request->n_payload_bytes);
        uint64_t lag =
            request->step > request->read_clock ? request->step - request->read_clock : 0;
        ps_metric_observe(svc->metrics, PS_METRIC_staleness_clocks, lag);
    }
    if (call->reply.n_payload_bytes > 0) {
        ps_metric_add(svc->metrics, PS_METRIC_pull_total, 1);
        ps_metric_add(svc->metrics, PS_METRIC_bytes_pulled_total, call->reply.n_payload_bytes);
    }
}

/* Every lane has answered: the one reply. Runs on the last lane. */
static void finish(struct ps_data_call *call)
{
    struct ps_svc_data *svc = call->arg;
    struct ps_piece pieces[PS_CALL_PARTS_MAX];
    uint8_t head[PS_CALL_SLOTS_MAX * 2 * 48 + 64]; /* Two per slot, each 48 bytes at most. */
    struct ps_data_reply *reply = &call->reply;

    reply->n_push = call->request.push.n_slots;
    reply->n_pull = call->request.pull.n_slots;
    reply->min_clock = UINT64_MAX;
    for (uint32_t i = 0; i < svc->n_lanes; i++) {
        const struct ps_share_mail *share = &call->shares[i];
        if (share->lane != NULL) {
            reply->min_clock =
                share->min_clock < reply->min_clock ? share->min_clock : reply->min_clock;
            reply->term = share->term > reply->term ? share->term : reply->term;
            reply->retry_ms = share->retry_ms > reply->retry_ms ? share->retry_ms : reply->retry_ms;
        }
    }
    if (reply->min_clock == UINT64_MAX) {
        reply->min_clock = 0; /* Nothing was read. */
    }
    size_t n_pieces = lend_pages(call, pieces);
    size_t n_head = ps_data_reply_write(reply, call->kind, head, sizeof(head));
    PS_ASSERT(n_head > 0);
    count(svc, call);
    struct ps_out out = {
        .head = head, .n_head_bytes = n_head, .pieces = pieces, .n_pieces = n_pieces};
    ps_call_finish(call->call, PS_OK, &out, NULL);
    free_call(call);
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

static void arrive(struct ps_svc_data *svc, struct ps_call *in, enum ps_data_kind kind)
{
    struct ps_error err;
    struct ps_data_call *call = ps_mem_alloc(svc->mem, PS_MEM_CALLS, sizeof(*call));
    ps_metric_add(svc->metrics, PS_METRIC_calls_total, 1);
    if (call == NULL) {
        ps_metric_add(svc->metrics, PS_METRIC_calls_refused_total, 1);
        ps_call_finish(in, PS_ERR_BUSY, NULL, "no memory for one more call: slow down");
        return;
    }
    atomic_fetch_add_explicit(&svc->n_open, 1, memory_order_relaxed);
    call->call = in;
    call->kind = kind;
    call->finish = finish;
    call->arg = svc;
    call->n_lanes = svc->n_lanes;
    call->arrived_ns = ps_exec_now_ns(svc->exec);
    call->msg = ps_call_take_request(in);
    enum ps_status status = ps_data_request_read(
        ps_cursor_over(call->msg->slices, call->msg->n_slices), &call->request, &err);
    if (status == PS_OK) {
        status = check(svc, call, &err);
    }
    if (status != PS_OK) {
        ps_metric_add(svc->metrics, PS_METRIC_calls_refused_total, 1);
        ps_call_finish(in, status, NULL, err.text);
        free_call(call);
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
    };
    for (uint32_t i = 0; i < PS_SVC_DATA_METHODS; i++) {
        ret[i] = rows[i];
        ret[i].arg = svc;
    }
}
