/*
 * lane_pull.c — pulls of a lane: pages and rows on loan, and waiting for the gate.
 */
#include "base/assert.h"
#include "slot/lane_impl.h"

#define LOOK_AFTER_MS   50u  /* How often parked pulls are looked at. */
#define ANSWER_EARLY_MS 250u /* A parked pull is answered NOT_YET so long before its deadline. */

/* The page of a block that is wanted; NULL when it is not here. */
static const struct ps_page *page_of(const struct ps_lane *lane, const struct ps_part *want)
{
    return want->table < lane->n_tables ? ps_dense_page(lane->tables[want->table], want->block)
                                        : NULL;
}

/* What one part of a pull brings, and what it costs; false when it is not here. */
static bool weigh(const struct ps_lane *lane, uint32_t slot, const struct ps_part *want,
                  uint32_t *n_bytes, uint64_t *n_booked)
{
    if (want->n_keys > 0) {
        uint64_t n = ps_lane_rows_bytes(lane, want);
        *n_bytes += (uint32_t)n; /* svc has seen that it fits a reply. */
        *n_booked += ps_loan_rows_bytes(n);
        return want->table < lane->n_tables && ps_lane_rows_here(lane, want->table, slot);
    }
    const struct ps_page *page = page_of(lane, want);
    if (page == NULL) {
        return false;
    }
    *n_bytes += page->n * (uint32_t)sizeof(float);
    *n_booked += ps_loan_bytes(page);
    return true;
}

/* Lend one part; false without memory for its rows. */
static bool lend_part(struct ps_lane *lane, struct ps_data_call *call, uint32_t slot, uint32_t at,
                      struct ps_cursor *keys)
{
    const struct ps_part *want = &call->request.pull.parts[at];
    if (want->n_keys == 0) {
        ps_loan_lend(call->loan, at, lane->tables[want->table], want->block);
        return true;
    }
    float *rows = ps_lane_rows_gather(lane, slot, want, keys);
    if (rows != NULL) {
        ps_loan_lend_rows(call->loan, at, rows, ps_lane_rows_bytes(lane, want));
    }
    return rows != NULL;
}

/* Parts of a slot from `at` on that were booked and not lent: there was no memory. */
static void take_back(struct ps_lane *lane, struct ps_data_call *call,
                      const struct ps_slot_part *part, uint32_t n_lent)
{
    for (uint32_t i = 0; i < part->n_parts; i++) {
        uint32_t n_bytes = 0;
        uint64_t n_booked = 0;
        uint32_t at = part->first_part + i;
        if (i < n_lent) {
            ps_loan_return(&call->loan->lent[at]);
        } else if (weigh(lane, part->slot, &call->request.pull.parts[at], &n_bytes, &n_booked)) {
            ps_ledger_return(call->ledger, call->account, 1, n_booked);
        }
    }
}

/* Lend the pages and rows of one slot; all or none. BUSY when the session has enough already. */
static enum ps_status lend(struct ps_lane *lane, struct ps_data_call *call, uint32_t nth,
                           uint32_t *ret_n_bytes)
{
    const struct ps_slot_part *part = &call->request.pull.slots[nth];
    uint32_t n_bytes = 0;
    uint64_t n_booked = 0;
    for (uint32_t i = 0; i < part->n_parts; i++) {
        const struct ps_part *want = &call->request.pull.parts[part->first_part + i];
        if (!weigh(lane, part->slot, want, &n_bytes, &n_booked)) {
            return PS_ERR_NOT_FOUND;
        }
    }
    if (!ps_ledger_lend(call->ledger, call->account, part->n_parts, n_booked)) {
        return PS_ERR_BUSY;
    }
    struct ps_cursor keys = call->keys[nth];
    for (uint32_t i = 0; i < part->n_parts; i++) {
        if (!lend_part(lane, call, part->slot, part->first_part + i, &keys)) {
            take_back(lane, call, part, i);
            return PS_ERR_BUSY;
        }
    }
    *ret_n_bytes = n_bytes;
    return PS_OK;
}

/* Answer this lane's slots of a pull; `gate` says NOT_YET for all that could be answered. */
static void answer_pull(struct ps_lane *lane, struct ps_share_mail *share, enum ps_status gate)
{
    struct ps_data_call *call = share->call;
    bool busy = false;
    for (uint32_t i = 0; i < call->request.pull.n_slots; i++) {
        const struct ps_slot_part *part = &call->request.pull.slots[i];
        if (!ps_lane_mine(lane, part->slot)) {
            continue;
        }
        struct ps_slot *slot = lane->slots[part->slot];
        struct ps_claim claim = ps_lane_claim(&call->request, part);
        struct ps_slot_reply *reply = &call->reply.pull[i];
        *reply = (struct ps_slot_reply){
            .slot = part->slot, .epoch = slot->epoch, .position = slot->applied};
        reply->status = ps_lane_admit(lane, part->slot, &claim);
        if (reply->status == PS_OK) {
            reply->status = gate;
        }
        if (reply->status == PS_OK) {
            reply->status = lend(lane, call, i, &reply->n_bytes);
        }
        busy = busy || reply->status == PS_ERR_BUSY;
    }
    if (busy) {
        ps_metric_add(lane->options.metrics, PS_METRIC_pulls_refused_total, 1);
        share->retry_ms = ps_ledger_retry_ms(call->ledger);
    }
}

/* A view under which nothing was read must not make what other lanes read look older. */
static void share_done(struct ps_lane *lane, struct ps_share_mail *share, enum ps_status gate)
{
    share->min_clock = gate == PS_OK ? lane->gate.min_clock : UINT64_MAX;
    share->term = lane->term;
    if (share->call->request.push.n_slots > 0) {
        ps_failpoint("ack.before_send");
    }
    ps_data_call_share_done(share->call);
}

/* A parked pull leaves the lot, one way or the other. */
static void unpark(struct ps_lane *lane, struct ps_share_mail *share, enum ps_status gate)
{
    ps_failpoint("gate.wake");
    uint64_t blocked_ns = ps_exec_now_ns(lane->options.exec) - share->parked_ns;
    ps_metric_sub(lane->options.metrics, PS_METRIC_pulls_parked, 1);
    ps_metric_add(lane->options.metrics, PS_METRIC_blocked_us_total, blocked_ns / 1000);
    answer_pull(lane, share, gate);
    share_done(lane, share, gate);
}

/* True when every slot of the pull that is ours may be touched by its sender. */
static bool all_admitted(const struct ps_lane *lane, const struct ps_data_call *call)
{
    for (uint32_t i = 0; i < call->request.pull.n_slots; i++) {
        const struct ps_slot_part *part = &call->request.pull.slots[i];
        if (ps_lane_mine(lane, part->slot)) {
            struct ps_claim claim = ps_lane_claim(&call->request, part);
            if (ps_slot_admit(lane->slots[part->slot], &claim) != PS_OK) {
                return false;
            }
        }
    }
    return true;
}

/*
 * Of a session's pulls only the newest waits: whoever asks again has given the older one up. Lanes
 * meet the calls in any order, so the account remembers which is the newest.
 */
static bool outdated(const struct ps_data_call *call)
{
    return call->account != &call->ledger->strangers &&
           atomic_load_explicit(&call->account->parked, memory_order_relaxed) > call->serial;
}

static void note_newest(struct ps_data_call *call)
{
    uint64_t newest = atomic_load_explicit(&call->account->parked, memory_order_relaxed);
    while (newest < call->serial &&
           !atomic_compare_exchange_weak_explicit(&call->account->parked, &newest, call->serial,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void park(struct ps_lane *lane, struct ps_share_mail *share)
{
    ps_failpoint("gate.before_wait");
    note_newest(share->call);
    const struct ps_data_request *request = &share->call->request;
    void *replaced = NULL;
    struct ps_gate_parked pull = {
        .token = share, .session = request->session_number, .step = request->pull_step};
    bool parked = ps_gate_park(&lane->gate, &pull, &replaced);
    if (replaced != NULL) {
        unpark(lane, replaced, PS_ERR_NOT_YET);
    }
    if (!parked) {
        answer_pull(lane, share, PS_ERR_BUSY);
        share_done(lane, share, PS_ERR_BUSY);
        return;
    }
    share->parked_ns = ps_exec_now_ns(lane->options.exec);
    ps_metric_add(lane->options.metrics, PS_METRIC_pulls_parked, 1);
    ps_metric_add(lane->options.metrics, PS_METRIC_pulls_parked_total, 1);
    if (lane->gate.n_parked == 1) {
        ps_timer_start(lane->options.exec, &lane->timer, LOOK_AFTER_MS);
    }
}

void ps_lane_share_pushed(struct ps_lane *lane, struct ps_share_mail *share)
{
    struct ps_data_call *call = share->call;
    if (call->request.pull.n_slots == 0) {
        share_done(lane, share, PS_OK);
        return;
    }
    if (call->request.no_clock || ps_gate_open(&lane->gate, call->request.pull_step)) {
        answer_pull(lane, share, PS_OK);
        share_done(lane, share, PS_OK);
        return;
    }
    if (call->kind == PS_DATA_PUSH_PULL || lane->stopping || !all_admitted(lane, call) ||
        outdated(call)) {
        answer_pull(lane, share, PS_ERR_NOT_YET);
        share_done(lane, share, PS_ERR_NOT_YET);
        return;
    }
    park(lane, share);
}

/* Callers that are gone or will be soon must not hold a place; runs while something is parked. */
void ps_lane_look_after(struct ps_timer *timer)
{
    struct ps_lane *lane = PS_CONTAINER_OF(timer, struct ps_lane, timer);
    for (uint32_t i = 0; i < lane->gate.n_parked;) {
        struct ps_share_mail *share = lane->gate.parked[i].token;
        struct ps_call *call = share->call->call;
        if (outdated(share->call) || ps_call_gone(call) ||
            ps_call_time_left_ms(call) < ANSWER_EARLY_MS) {
            (void)ps_gate_forget(&lane->gate, share);
            unpark(lane, share, PS_ERR_NOT_YET);
        } else {
            i++;
        }
    }
    if (lane->gate.n_parked > 0) {
        ps_timer_start(lane->options.exec, &lane->timer, LOOK_AFTER_MS);
    }
}

/* Pulls that are parked for a slot which has moved, or by a session that was closed. */
void ps_lane_unpark_refused(struct ps_lane *lane)
{
    for (uint32_t i = 0; i < lane->gate.n_parked;) {
        struct ps_share_mail *share = lane->gate.parked[i].token;
        if (all_admitted(lane, share->call)) {
            i++;
        } else {
            (void)ps_gate_forget(&lane->gate, share);
            unpark(lane, share, PS_ERR_NOT_YET);
        }
    }
}

void ps_lane_unpark_open(struct ps_lane *lane)
{
    for (struct ps_share_mail *open = ps_gate_release(&lane->gate); open != NULL;
         open = ps_gate_release(&lane->gate)) {
        unpark(lane, open, PS_OK);
    }
}

void ps_lane_unpark_all(struct ps_lane *lane)
{
    while (lane->gate.n_parked > 0) {
        struct ps_share_mail *share = lane->gate.parked[0].token;
        (void)ps_gate_forget(&lane->gate, share);
        unpark(lane, share, PS_ERR_NOT_YET);
    }
}
