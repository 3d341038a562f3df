/*
 * lane_news.c — what the coordinator says: placement, tables, lists, steps, clocks.
 *
 *   at once        placement and lists are proposed; parked pulls that they refuse are answered
 *   when applied   consistency, min clock, and the acknowledgement
 *
 * So a min clock never runs ahead of the records that came with it or before it.
 */
#include "base/assert.h"
#include "obs/log.h"
#include "slot/lane_impl.h"

/* The record in hand, as one of news. */
static struct ps_record *begin(struct ps_lane *lane, enum ps_record_kind kind, uint32_t slot)
{
    struct ps_record *record = &lane->hand->entry.record;
    *record = (struct ps_record){.kind = kind, .slot = slot};
    return record;
}

static void place_slot(struct ps_lane *lane, struct ps_slot *slot,
                       const struct ps_lane_update *update)
{
    uint64_t position = 0;
    if (ps_slot_propose_epoch(slot, update->primary[slot->number], update->epoch[slot->number],
                              &position)) {
        struct ps_record *record = begin(lane, PS_RECORD_EPOCH, slot->number);
        record->position = position;
        record->begun.term = update->term;
        ps_failpoint("epoch.before_log");
        ps_lane_commit(lane);
    }
}

static void update_slot(struct ps_lane *lane, struct ps_slot *slot,
                        const struct ps_lane_update *update)
{
    uint64_t position = 0;
    if (update->has_sessions && ps_slot_propose_sessions(slot, &update->sessions, &position)) {
        struct ps_record *record = begin(lane, PS_RECORD_SESSIONS, slot->number);
        record->position = position;
        record->sessions = update->sessions;
        ps_failpoint("session.close");
        ps_lane_commit(lane);
    }
    if (update->has_finish && ps_slot_propose_finish(slot, &update->finish, &position)) {
        struct ps_record *record = begin(lane, PS_RECORD_FINISH, slot->number);
        record->position = position;
        record->finish = update->finish;
        ps_lane_commit(lane);
    }
    if (update->has_close && ps_slot_propose_close(slot, &update->close, &position)) {
        struct ps_record *record = begin(lane, PS_RECORD_CLOSE, slot->number);
        record->position = position;
        record->close = update->close;
        ps_lane_commit(lane);
    }
}

/* Placement first, then tables, then the records of the slots that are ours. */
static enum ps_status update_slots(struct ps_lane *lane, const struct ps_lane_update *update,
                                   struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (lane->slots[s] != NULL && update->has_placement) {
            place_slot(lane, lane->slots[s], update);
        }
    }
    for (uint32_t table = 0; table < update->n_tables && status == PS_OK; table++) {
        status = ps_lane_make_table(lane, table, err);
    }
    if (status == PS_OK && update->n_tables > lane->n_tables) {
        lane->n_tables = update->n_tables;
    }
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (lane->slots[s] != NULL && lane->slots[s]->primary) {
            update_slot(lane, lane->slots[s], update);
        }
    }
    return status;
}

static void count_down(struct ps_lane_update *update)
{
    if (atomic_fetch_sub_explicit(&update->n_pending, 1, memory_order_acq_rel) == 1) {
        update->done(update);
    }
}

void ps_lane_update_applied(struct ps_lane *lane, struct ps_update_mail *share)
{
    struct ps_lane_update *update = share->update;
    if (!atomic_load(&update->stale)) {
        if (update->has_consistency) {
            ps_gate_set_consistency(&lane->gate, update->gate_mode, update->gate_bound);
            lane->aggregate = update->aggregate;
        }
        ps_gate_set_min_clock(&lane->gate, update->min_clock);
        atomic_store_explicit(&lane->clock, lane->gate.min_clock, memory_order_release);
        ps_lane_unpark_open(lane);
        ps_lane_rows_tend(lane);
    }
    count_down(update);
}

static void run_update(struct ps_mail *mail)
{
    struct ps_update_mail *share = PS_CONTAINER_OF(mail, struct ps_update_mail, mail);
    struct ps_lane *lane = share->lane;
    struct ps_lane_update *update = share->update;
    struct ps_error err;

    if (update->term < lane->term || lane->stopping) { /* Of a deposed coordinator. */
        atomic_store(&update->stale, true);
        count_down(update);
        return;
    }
    uint64_t before = lane->ticket;
    lane->term = update->term;
    lane->generation = update->generation;
    if (update_slots(lane, update, &err) != PS_OK) {
        int none = PS_OK;
        (void)atomic_compare_exchange_strong(&update->status, &none, (int)err.status);
        ps_log(PS_LOG_ERROR, "table.refused", "lane=%u why=\"%s\"", lane->options.index, err.text);
    }
    if (update->has_placement || update->has_sessions) {
        ps_lane_unpark_refused(lane);
    }
    share->ticket = lane->ticket > before ? lane->ticket : 0;
    ps_lane_update_waits(lane, share);
}

void ps_lane_post_update(struct ps_lane *lane, struct ps_lane_update *update)
{
    struct ps_update_mail *share = &update->mails[lane->options.index];
    share->update = update;
    share->lane = lane;
    share->mail.run = run_update;
    ps_exec_post(lane->options.exec, &share->mail);
}
