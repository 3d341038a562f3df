/*
 * lane_pipe.c — records between propose and apply, and who waits for them.
 *
 *     hand ──append──> pending ──committed, in order──> applied ──> spare
 *                                                          │
 *     shares, by ticket ───────── their last record ───────┤
 *     updates, in order ───────── their last record ───────┘──> answered
 *
 * A committer that commits at once never lets a record come as far as `pending`: the one in hand is
 * filled, applied and filled again, and nobody waits.
 */
#include <string.h>

#include "base/assert.h"
#include "slot/lane_impl.h"

#define SPARE_MAX 256u /* Kept for the next ones: 100 KB. */

/* ---- Memory --------------------------------------------------------------------------------- */

static struct ps_pending *make(struct ps_lane *lane, enum ps_page_budget budget)
{
    struct ps_mem *mem = lane->options.mem;
    struct ps_pending *pending = budget == PS_PAGE_WITHIN
                                     ? ps_mem_alloc(mem, PS_MEM_CALLS, sizeof(*pending))
                                     : ps_mem_alloc_beyond(mem, PS_MEM_CALLS, sizeof(*pending));
    if (pending != NULL) {
        ps_list_init(&pending->node);
        pending->claims = pending->few_claims;
        pending->n_claims_room = PS_PENDING_CLAIMS;
    }
    return pending;
}

static void unmake(struct ps_pending *pending)
{
    ps_mem_free(pending->staged);
    ps_mem_free(pending->more_claims);
    ps_mem_free(pending);
}

static void keep_spare(struct ps_lane *lane, struct ps_pending *pending)
{
    pending->late = false;
    pending->dropped = false;
    if (lane->n_spare < SPARE_MAX) {
        ps_list_append(&lane->spare, &pending->node);
        lane->n_spare++;
    } else {
        unmake(pending);
    }
}

bool ps_lane_can_follow(struct ps_lane *lane)
{
    if (!ps_list_empty(&lane->spare)) {
        return true;
    }
    struct ps_pending *pending = make(lane, PS_PAGE_WITHIN);
    if (pending != NULL) {
        keep_spare(lane, pending);
    }
    return pending != NULL;
}

/* The record in hand is under way: another one takes its place. */
static void follow(struct ps_lane *lane)
{
    if (ps_list_empty(&lane->spare)) { /* Of news, which are few and cannot be refused. */
        lane->hand = make(lane, PS_PAGE_BEYOND);
        PS_ASSERT(lane->hand != NULL); /* The machine itself is out of memory. */
        return;
    }
    lane->hand = PS_CONTAINER_OF(lane->spare.next, struct ps_pending, node);
    ps_list_remove(&lane->hand->node);
    lane->n_spare--;
}

/* ---- Apply ---------------------------------------------------------------------------------- */

/* The epoch first: whoever reads a position finds an epoch that is no older. */
void ps_lane_note_stand(struct ps_lane *lane, uint32_t number)
{
    const struct ps_slot *slot = lane->slots[number];
    struct ps_lane_stand *stand = &lane->stands[number];
    atomic_store_explicit(&stand->epoch, ps_slot_line_epoch(slot), memory_order_relaxed);
    atomic_store_explicit(&stand->position, slot->applied, memory_order_release);
}

/* The record is committed, and all before it are applied. */
static void finish(struct ps_lane *lane, struct ps_pending *pending)
{
    const struct ps_record *record = &pending->entry.record;
    struct ps_slot *slot = lane->slots[record->slot];
    if (!pending->dropped) {
        ps_slot_commit(slot, record->position);
        ps_lane_apply(lane, pending);
        ps_lane_note_stand(lane, record->slot);
    }
    ps_lane_leave_room(lane, pending);
    lane->done_ticket = pending->entry.ticket;
    if (lane->cut != NULL && !pending->dropped) {
        ps_lane_cut_look(lane, record->slot);
    }
}

void ps_lane_commit(struct ps_lane *lane)
{
    struct ps_pending *pending = lane->hand;
    struct ps_record *record = &pending->entry.record;
    record->epoch = ps_slot_line_epoch(lane->slots[record->slot]);
    pending->entry.ticket = ++lane->ticket;
    pending->entry.sink = &lane->sink;
    lane->slot_tickets[record->slot] = lane->ticket;
    if (record->kind == PS_RECORD_STAGE) {
        ps_lane_stage(lane, pending);
    }
    if (ps_commit_append(lane->options.committer, &pending->entry)) {
        PS_ASSERT(ps_list_empty(&lane->pending)); /* Committed in the order of tickets. */
        finish(lane, pending);
        return;
    }
    pending->late = true;
    ps_list_append(&lane->pending, &pending->node);
    follow(lane);
}

/* ---- Who waits ------------------------------------------------------------------------------ */

static void answer(struct ps_lane *lane, struct ps_share_mail *share)
{
    ps_list_remove(&share->node);
    ps_lane_settle(lane, share);
    ps_lane_share_pushed(lane, share);
}

static void answer_all(struct ps_lane *lane)
{
    while (!ps_list_empty(&lane->shares)) {
        struct ps_share_mail *share =
            PS_CONTAINER_OF(lane->shares.next, struct ps_share_mail, node);
        if (share->ticket > lane->done_ticket && !lane->ended) {
            break;
        }
        answer(lane, share);
    }
    while (!ps_list_empty(&lane->updates)) {
        struct ps_update_mail *share =
            PS_CONTAINER_OF(lane->updates.next, struct ps_update_mail, node);
        if (share->ticket > lane->done_ticket && !lane->ended) {
            break;
        }
        if (share->ticket > lane->done_ticket) {
            atomic_store(&share->update->stale, true);
        }
        ps_list_remove(&share->node);
        ps_lane_update_applied(lane, share);
    }
}

void ps_lane_share_waits(struct ps_lane *lane, struct ps_share_mail *share)
{
    if (share->ticket <= lane->done_ticket) {
        ps_lane_share_pushed(lane, share);
        return;
    }
    share->n_clears = lane->n_clears;
    /* Most wait for the newest record; a repeat may wait for one before it. */
    struct ps_list *behind = lane->shares.prev;
    while (behind != &lane->shares &&
           PS_CONTAINER_OF(behind, struct ps_share_mail, node)->ticket > share->ticket) {
        behind = behind->prev;
    }
    ps_list_append(behind->next, &share->node); /* Before the one that follows. */
    if (lane->ended) {
        answer_all(lane);
    }
}

void ps_lane_update_waits(struct ps_lane *lane, struct ps_update_mail *share)
{
    ps_list_init(&share->node);
    ps_list_append(&lane->updates, &share->node);
    answer_all(lane);
}

/* ---- The committer's word ------------------------------------------------------------------- */

static void apply_committed(struct ps_lane *lane, uint64_t committed)
{
    uint64_t start_ns = ps_exec_now_ns(lane->options.exec);
    while (!ps_list_empty(&lane->pending)) {
        struct ps_pending *pending = PS_CONTAINER_OF(lane->pending.next, struct ps_pending, node);
        if (pending->entry.ticket > committed) {
            break;
        }
        ps_list_remove(&pending->node);
        bool push = pending->entry.record.kind == PS_RECORD_PUSH;
        finish(lane, pending);
        keep_spare(lane, pending);
        answer_all(lane);
        if (push) {
            uint64_t now_ns = ps_exec_now_ns(lane->options.exec);
            ps_metric_observe(lane->options.metrics, PS_METRIC_apply_seconds, now_ns - start_ns);
            start_ns = now_ns;
        }
    }
}

static void run_committed(struct ps_mail *mail)
{
    struct ps_lane *lane = PS_CONTAINER_OF(mail, struct ps_lane, sink.mail);
    apply_committed(lane, ps_commit_listen(&lane->sink));
}

/* ---- Life ----------------------------------------------------------------------------------- */

bool ps_lane_pipe_init(struct ps_lane *lane)
{
    ps_list_init(&lane->pending);
    ps_list_init(&lane->spare);
    ps_list_init(&lane->shares);
    ps_list_init(&lane->updates);
    lane->sink.exec = lane->options.exec;
    lane->sink.mail.run = run_committed;
    lane->hand = make(lane, PS_PAGE_WITHIN);
    return lane->hand != NULL && ps_lane_can_follow(lane);
}

void ps_lane_pipe_end(struct ps_lane *lane)
{
    apply_committed(lane, atomic_load_explicit(&lane->sink.committed, memory_order_acquire));
    lane->ended = true;
    answer_all(lane);
}

void ps_lane_pipe_clear(struct ps_lane *lane)
{
    lane->n_clears++;
    ps_list_for_each (node, &lane->pending) {
        struct ps_pending *pending = PS_CONTAINER_OF(node, struct ps_pending, node);
        pending->dropped = true;
        pending->n_claims = 0; /* The tables went with them. */
    }
    ps_list_for_each (node, &lane->updates) {
        atomic_store(&PS_CONTAINER_OF(node, struct ps_update_mail, node)->update->stale, true);
    }
    memset(lane->slot_tickets, 0, sizeof(lane->slot_tickets));
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (lane->slots[s] != NULL) {
            ps_lane_note_stand(lane, s);
        }
    }
}

static void unmake_all(struct ps_list *list)
{
    ps_list_for_each_safe (node, after, list) {
        struct ps_pending *pending = PS_CONTAINER_OF(node, struct ps_pending, node);
        ps_list_remove(node);
        unmake(pending);
    }
}

void ps_lane_pipe_destroy(struct ps_lane *lane)
{
    if (lane->hand == NULL) {
        return;
    }
    PS_ASSERT(ps_list_empty(&lane->shares) && ps_list_empty(&lane->updates));
    unmake_all(&lane->pending);
    unmake_all(&lane->spare);
    unmake(lane->hand);
}

uint32_t ps_lane_positions(const struct ps_lane *lane, struct ps_lane_position out[PS_SLOTS])
{
    uint32_t n = 0;
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        const struct ps_lane_stand *stand = &lane->stands[slot];
        uint64_t position = atomic_load_explicit(&stand->position, memory_order_acquire);
        uint64_t epoch = atomic_load_explicit(&stand->epoch, memory_order_relaxed);
        if (position > 0) {
            out[n++] = (struct ps_lane_position){slot, epoch, position};
        }
    }
    return n;
}

uint32_t ps_lane_lost_slot(const struct ps_lane *lane)
{
    return atomic_load_explicit(&lane->lost_slot, memory_order_relaxed);
}

uint64_t ps_lane_clock(const struct ps_lane *lane)
{
    return atomic_load_explicit(&lane->clock, memory_order_acquire);
}
