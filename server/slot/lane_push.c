/*
 * lane_push.c — pushes of a lane: a call's share becomes a record for each of its slots.
 */
#include "base/assert.h"
#include "slot/lane_impl.h"

#define RECORD_HEAD_BYTES 256u /* Of a record in a log beside its payload and parts, about. */

static uint64_t stream_of(const struct ps_lane *lane PS_UNUSED,
                          const struct ps_data_request *request)
{
#ifdef PS_PLANT
    if (lane->options.plant == PS_SLOT_PLANT_DEDUPE_WITHOUT_STREAM) {
        return 1;
    }
#endif
    return request->stream != 0 ? request->stream : PS_SEEN_SESSION_STREAM(request->session_number);
}

static struct ps_record push_record(const struct ps_lane *lane, struct ps_data_call *call,
                                    uint32_t at)
{
    const struct ps_data_request *request = &call->request;
    const struct ps_slot_part *part = &request->push.slots[at];
    bool leased = request->stream != 0;
    /* An acknowledged stage is not taken: its unit may come again. Closed steps take theirs. */
    bool staged = lane->aggregate && leased;
    return (struct ps_record){
        .kind = staged ? PS_RECORD_STAGE : PS_RECORD_PUSH,
        .slot = part->slot,
        .push =
            {
                .session = request->session_number,
                .step = request->step,
                .clock = lane->gate.min_clock,
                .item =
                    {
                        .stream = stream_of(lane, request),
                        .sequence = request->sequence,
                        .fragment = part->fragment,
                        .n_fragments = part->n_fragments,
                        .owner = request->session_number,
                        .acked_below = staged ? 0 : request->acked_below,
                    },
                .rows = request->rows,
                .rate = request->rate,
                .scale = 1.0f,
                .parts = &request->push.parts[part->first_part],
                .n_parts = part->n_parts,
                .payload = call->payloads[at],
                .msg = call->msg,
            },
    };
}

static bool has_rows(const struct ps_record_push *push)
{
    bool has = false;
    for (uint32_t i = 0; i < push->n_parts; i++) {
        has = has || push->parts[i].n_keys > 0;
    }
    return has;
}

/* Strangers and repeats must not make the tables grow. */
static bool needs_room(const struct ps_slot *slot, const struct ps_claim *claim,
                       const struct ps_seen_item *item)
{
    return slot->plant == PS_SLOT_PLANT_DEDUPE_OFF ||
           (ps_slot_admit(slot, claim) == PS_OK &&
            ps_seen_look(&slot->seen, item) != PS_SEEN_TAKEN);
}

/* Is there all that a new record needs? PS_OK, or what it is refused with. */
static enum ps_status find_room(struct ps_lane *lane, struct ps_pending *pending)
{
    const struct ps_record_push *push = &pending->entry.record.push;
    uint64_t n_bytes = RECORD_HEAD_BYTES + push->n_parts * sizeof(push->parts[0]);
    if (lane->stopping) {
        return PS_ERR_UNAVAIL;
    }
    if (!ps_commit_room(lane->options.committer, n_bytes + push->payload.n_left)) {
        return PS_ERR_NO_SPACE;
    }
    if (!ps_lane_can_follow(lane)) {
        return PS_ERR_BUSY;
    }
    if (!ps_lane_make_room(lane, pending, PS_PAGE_WITHIN)) {
        /* Rows go with the clock, which may wait for this very push: nobody waits for ever. */
        return lane->full ? PS_ERR_NOMEM : PS_ERR_BUSY;
    }
    return PS_OK;
}

/* The share is not answered before `ticket` is applied. */
static void wait_for(struct ps_share_mail *share, uint64_t ticket)
{
    share->ticket = ticket > share->ticket ? ticket : share->ticket;
}

static bool waits_for_repeats(const struct ps_lane *lane PS_UNUSED)
{
#ifdef PS_PLANT
    return lane->options.plant != PS_SLOT_PLANT_REPEAT_BEFORE_DURABLE;
#else
    return true;
#endif
}

static enum ps_status push_slot(struct ps_lane *lane, struct ps_share_mail *share, uint32_t at,
                                uint64_t *ret_position)
{
    const struct ps_data_request *request = &share->call->request;
    const struct ps_slot_part *part = &request->push.slots[at];
    struct ps_slot *slot = lane->slots[part->slot];
    struct ps_pending *pending = lane->hand;
    struct ps_record *record = &pending->entry.record;
    *record = push_record(lane, share->call, at);
    *ret_position = slot->applied;
    bool staged = record->kind == PS_RECORD_STAGE;
    if (staged && has_rows(&record->push)) { /* The coordinator has let nobody define this. */
        return PS_ERR_UNSUPPORTED;
    }
    struct ps_staged_view kept = {0};
    if (staged) {
        kept = ps_lane_staged(lane, record);
    }
    struct ps_proposal proposal = {
        .claim = ps_lane_claim(request, part),
        .item = record->push.item,
        .step = request->step,
        .staged = staged,
        .staged_already = kept.same,
        .staged_other = kept.other,
    };
    lane->full = false;
    if (needs_room(slot, &proposal.claim, &proposal.item)) {
        proposal.room = find_room(lane, pending);
    }
    struct ps_slot_decision decision = ps_slot_propose_push(slot, &proposal);
    if (decision.verdict == PS_VERDICT_PROPOSE) {
        record->position = decision.position;
        *ret_position = decision.position;
        ps_lane_commit(lane);
        wait_for(share, lane->ticket);
        return PS_OK;
    }
    ps_lane_leave_room(lane, pending);
    if (decision.verdict == PS_VERDICT_REFUSE) {
        return ps_lane_note_lost(lane, part->slot, decision.status);
    }
    ps_metric_add(lane->options.metrics, PS_METRIC_pushes_repeated_total, 1);
    if (waits_for_repeats(lane)) {
        wait_for(share, lane->slot_tickets[part->slot]);
    }
    *ret_position = decision.position;
    return PS_OK;
}

/* How long a refused sender should stay away; 0: it was not refused. */
static uint32_t retry_ms(const struct ps_data_call *call, enum ps_status status)
{
    if (status == PS_ERR_BUSY || status == PS_ERR_NOMEM) {
        return ps_ledger_retry_ms(call->ledger);
    }
    return status == PS_ERR_NO_SPACE ? PS_RETRY_NO_SPACE_MS : 0;
}

void ps_lane_push(struct ps_lane *lane, struct ps_share_mail *share)
{
    struct ps_data_call *call = share->call;
    uint64_t start_ns = ps_exec_now_ns(lane->options.exec);
    uint32_t n = 0;
    for (uint32_t i = 0; i < call->request.push.n_slots; i++) {
        const struct ps_slot_part *part = &call->request.push.slots[i];
        if (!ps_lane_mine(lane, part->slot)) {
            continue;
        }
        struct ps_slot_reply *reply = &call->reply.push[i];
        reply->slot = part->slot;
        reply->status = push_slot(lane, share, i, &reply->position);
        reply->epoch = lane->slots[part->slot]->epoch;
        uint32_t ms = retry_ms(call, reply->status);
        share->retry_ms = ms > share->retry_ms ? ms : share->retry_ms;
        n++;
    }
    if (share->retry_ms > 0) {
        ps_metric_add(lane->options.metrics, PS_METRIC_pushes_refused_total, 1);
    }
    if (n > 0 && share->ticket <= lane->done_ticket) {
        ps_metric_observe(lane->options.metrics, PS_METRIC_apply_seconds,
                          ps_exec_now_ns(lane->options.exec) - start_ns);
    }
}

void ps_lane_settle(struct ps_lane *lane, struct ps_share_mail *share)
{
    struct ps_data_call *call = share->call;
    for (uint32_t i = 0; i < call->request.push.n_slots; i++) {
        struct ps_slot_reply *reply = &call->reply.push[i];
        if (!ps_lane_mine(lane, call->request.push.slots[i].slot) || reply->status != PS_OK) {
            continue;
        }
        const struct ps_slot *slot = lane->slots[reply->slot];
        if (share->n_clears != lane->n_clears || reply->position > slot->applied) {
            reply->status = PS_ERR_UNAVAIL;
        } else if (!slot->primary) { /* What it has now may not come from here. */
            reply->status = PS_ERR_NOT_PRIMARY;
        }
    }
}
