/* slot_core.c — see slot_core.h. */
#include "slot/slot_core.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"

void ps_slot_init(struct ps_slot *slot, uint32_t number, struct ps_seen_stream *streams)
{
    PS_ASSERT(number < PS_SLOTS);
    memset(slot, 0, sizeof(*slot));
    slot->number = number;
    ps_seen_init(&slot->seen, streams, PS_SEEN_STREAMS_MAX);
}

void ps_slot_place(struct ps_slot *slot, bool primary, uint64_t epoch)
{
    if (epoch >= slot->epoch) {
        slot->epoch = epoch;
        slot->primary = primary;
    }
}

/* The open session with this number, or NULL. */
static const struct ps_open_session *open_session(const struct ps_slot *slot, uint64_t number)
{
    uint32_t low = 0;
    uint32_t high = slot->n_sessions;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (slot->sessions[mid].number < number) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < slot->n_sessions && slot->sessions[low].number == number ? &slot->sessions[low]
                                                                          : NULL;
}

enum ps_status ps_slot_admit(const struct ps_slot *slot, const struct ps_claim *claim)
{
    if (!slot->primary || claim->epoch < slot->epoch) {
        return PS_ERR_NOT_PRIMARY;
    }
    if (claim->epoch > slot->epoch) {
        return PS_ERR_NOT_PRIMARY; /* Our placement lags; the sender comes back. */
    }
    const struct ps_open_session *session = open_session(slot, claim->session_number);
    if (session == NULL || !ps_id_equal(&session->id, &claim->session)) {
        return PS_ERR_FENCED;
    }
    if (claim->seen_epoch == slot->epoch && claim->seen_position > slot->appended) {
        return PS_ERR_LOST; /* It was told of a record that we do not have. */
    }
    return PS_OK;
}

static struct ps_slot_decision refuse(enum ps_status status)
{
    return (struct ps_slot_decision){.verdict = PS_VERDICT_REFUSE, .status = status};
}

/* A repeat is acknowledged no earlier than its first copy: wait for all that is in the log. */
static struct ps_slot_decision repeat(const struct ps_slot *slot)
{
    return (struct ps_slot_decision){
        .verdict = PS_VERDICT_WAIT, .position = slot->appended, .repeat = true};
}

struct ps_slot_decision ps_slot_propose_push(struct ps_slot *slot, const struct ps_proposal *push)
{
    const struct ps_seen_item *item = &push->item;
    enum ps_status status = ps_slot_admit(slot, &push->claim);
    if (status != PS_OK) {
        return refuse(status);
    }
    if (push->acked_below > item->sequence) {
        return refuse(PS_ERR_INVALID); /* What it sends is not acknowledged yet. */
    }
    /* An acknowledged stage is not taken: its unit may come again. Closed steps take theirs. */
    if (!push->staged && item->sequence < PS_SEEN_SEQUENCES_MAX) {
        ps_seen_acked(&slot->seen, item, push->acked_below);
    }
    enum ps_seen_verdict verdict = ps_seen_look(&slot->seen, item);
#ifdef PS_PLANT
    if (slot->dedupe_off && verdict == PS_SEEN_TAKEN) {
        slot->appended++;
        return (struct ps_slot_decision){.verdict = PS_VERDICT_PROPOSE, .position = slot->appended};
    }
#endif
    switch (verdict) {
    case PS_SEEN_TAKEN: return repeat(slot);
    case PS_SEEN_BUSY: return refuse(PS_ERR_BUSY);
    case PS_SEEN_BAD: return refuse(PS_ERR_INVALID);
    case PS_SEEN_NEW: break;
    }
    if (push->staged && push->step < slot->closed_steps) {
        return refuse(PS_ERR_LATE);
    }
    if (push->staged && push->staged_already) {
        return repeat(slot);
    }
    if (push->staged && push->staged_other) {
        return refuse(PS_ERR_INVALID); /* A step of a session is one unit. */
    }
    if (push->staged && push->step - slot->closed_steps >= PS_STAGED_STEPS_MAX) {
        return refuse(PS_ERR_BUSY); /* Its weights were of a step that is not closed here yet. */
    }
    if (push->no_room) {
        return refuse(PS_ERR_BUSY);
    }
    if (!push->staged) {
        ps_seen_take(&slot->seen, item);
    }
    slot->appended++;
    return (struct ps_slot_decision){.verdict = PS_VERDICT_PROPOSE, .position = slot->appended};
}

bool ps_slot_propose_sessions(struct ps_slot *slot, const struct ps_record_sessions *list,
                              uint64_t *ret_position)
{
    PS_ASSERT(list->n_sessions <= PS_SESSIONS_MAX);
    if (list->version <= slot->sessions_version) {
        return false;
    }
    /* Streams of sessions that are gone take no room any more. */
    for (uint32_t i = 0; i < slot->n_sessions; i++) {
        uint64_t number = slot->sessions[i].number;
        bool stays = false;
        for (uint32_t k = 0; k < list->n_sessions && !stays; k++) {
            stays = list->sessions[k].number == number;
        }
        if (!stays) {
            ps_seen_drop(&slot->seen, PS_SEEN_SESSION_STREAM(number));
        }
    }
    memcpy(slot->sessions, list->sessions, list->n_sessions * sizeof(list->sessions[0]));
    slot->n_sessions = list->n_sessions;
    slot->sessions_version = list->version;
    *ret_position = ++slot->appended;
    return true;
}

bool ps_slot_propose_finish(struct ps_slot *slot, const struct ps_record_finish *finish,
                            uint64_t *ret_position)
{
    if (finish->version <= slot->finished_version ||
        !ps_seen_finish(&slot->seen, finish->ranges, finish->n_ranges)) {
        return false;
    }
    slot->finished_version = finish->version;
    *ret_position = ++slot->appended;
    return true;
}

bool ps_slot_propose_close(struct ps_slot *slot, const struct ps_record_close *close,
                           uint64_t *ret_position)
{
    if (close->step < slot->closed_steps) {
        return false;
    }
    for (uint32_t i = 0; i < close->n_entries; i++) {
        const struct ps_close_entry *entry = &close->entries[i];
        struct ps_seen_item item = {
            .stream = entry->lease, .sequence = entry->unit, .n_fragments = 1};
        if (ps_seen_look(&slot->seen, &item) == PS_SEEN_NEW) {
            ps_seen_take(&slot->seen, &item);
        }
    }
    slot->closed_steps = close->step + 1;
    *ret_position = ++slot->appended;
    return true;
}

void ps_slot_commit(struct ps_slot *slot, uint64_t position)
{
    PS_ASSERT(position <= slot->appended);
    if (position > slot->committed) {
        slot->committed = position;
    }
}

void ps_slot_applied(struct ps_slot *slot, uint64_t position)
{
    PS_ASSERT(position == slot->applied + 1);
    PS_ASSERT(position <= slot->committed);
    slot->applied = position;
}
