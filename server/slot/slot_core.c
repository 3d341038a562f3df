/* slot_core.c — see slot_core.h. */
#include "slot/slot_core.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/attr.h"

void ps_slot_init(struct ps_slot *slot, uint32_t number, struct ps_seen_stream *streams)
{
    PS_ASSERT(number < PS_SLOTS);
    memset(slot, 0, sizeof(*slot));
    slot->number = number;
    ps_seen_init(&slot->seen, streams, PS_SEEN_STREAMS_MAX);
}

/* Is this the planted bug? Never, but in builds for tests. */
static bool planted(const struct ps_slot *slot PS_UNUSED, enum ps_slot_plant plant PS_UNUSED)
{
#ifdef PS_PLANT
    return slot->plant == plant;
#else
    return false;
#endif
}

uint64_t ps_slot_line_epoch(const struct ps_slot *slot)
{
    return slot->n_epochs > 0 ? slot->epochs[slot->n_epochs - 1].epoch : 0;
}

/*
 * The list keeps the newest epochs. What it drops counts as of the oldest it has, so that nobody
 * who was told of a record there is said to have lost it.
 */
static void begin_epoch(struct ps_slot *slot, uint64_t epoch)
{
    if (slot->n_epochs == PS_SLOT_EPOCHS_MAX) {
        memmove(&slot->epochs[1], &slot->epochs[2],
                (PS_SLOT_EPOCHS_MAX - 2) * sizeof(slot->epochs[0]));
        slot->n_epochs--;
    }
    slot->epoch = epoch;
    slot->epochs[slot->n_epochs++] =
        (struct ps_slot_epoch){.epoch = epoch, .first = ++slot->appended};
}

bool ps_slot_propose_epoch(struct ps_slot *slot, bool primary, uint64_t epoch,
                           uint64_t *ret_position)
{
    if (epoch < slot->epoch) {
        return false;
    }
    slot->epoch = epoch;
    slot->primary = primary;
    if (!primary || epoch <= ps_slot_line_epoch(slot)) {
        return false;
    }
    begin_epoch(slot, epoch);
    *ret_position = slot->appended;
    return true;
}

bool ps_slot_below(const struct ps_slot *slot, uint64_t epoch, uint64_t position)
{
    uint64_t n = slot->appended; /* Records of epochs <= epoch. */
    for (uint32_t i = slot->n_epochs; i > 0 && slot->epochs[i - 1].epoch > epoch; i--) {
        n = slot->epochs[i - 1].first - 1;
    }
    return n < position;
}

/* Has the line come to the epoch that it is in? */
static bool in_epoch(const struct ps_slot *slot)
{
    return slot->n_epochs == 0 || slot->applied >= slot->epochs[slot->n_epochs - 1].first;
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
    /* Where a higher epoch is claimed our placement lags; the sender comes back. */
    if (!slot->primary || claim->epoch != slot->epoch || !in_epoch(slot)) {
        return PS_ERR_NOT_PRIMARY;
    }
    const struct ps_open_session *session = open_session(slot, claim->session_number);
    if (session == NULL || !ps_id_equal(&session->id, &claim->session)) {
        return PS_ERR_FENCED;
    }
    bool below = ps_slot_below(slot, claim->seen_epoch, claim->seen_position);
    return below ? PS_ERR_LOST : PS_OK; /* LOST: it was told of a record that is not here. */
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
    enum ps_seen_verdict verdict = ps_seen_look(&slot->seen, item);
    if (planted(slot, PS_SLOT_PLANT_DEDUPE_OFF) && verdict == PS_SEEN_TAKEN) {
        slot->appended++;
        return (struct ps_slot_decision){.verdict = PS_VERDICT_PROPOSE, .position = slot->appended};
    }
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
    if (push->room != PS_OK) {
        return refuse(push->room);
    }
    if (!push->staged) {
        ps_seen_take(&slot->seen, item);
    }
    slot->appended++;
    return (struct ps_slot_decision){.verdict = PS_VERDICT_PROPOSE, .position = slot->appended};
}

/* The list counts from now on; streams of sessions that are gone take no room any more. */
static void open_sessions(struct ps_slot *slot, const struct ps_record_sessions *list)
{
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
}

bool ps_slot_propose_sessions(struct ps_slot *slot, const struct ps_record_sessions *list,
                              uint64_t *ret_position)
{
    PS_ASSERT(list->n_sessions <= PS_SESSIONS_MAX);
    if (list->version <= slot->sessions_version) {
        return false;
    }
    if (!planted(slot, PS_SLOT_PLANT_FENCE_AT_APPLIED)) {
        open_sessions(slot, list);
    }
    slot->sessions_version = list->version;
    *ret_position = ++slot->appended;
    return true;
}

void ps_slot_sessions_applied(struct ps_slot *slot, const struct ps_record_sessions *list)
{
    if (planted(slot, PS_SLOT_PLANT_FENCE_AT_APPLIED)) {
        open_sessions(slot, list);
    }
}

bool ps_slot_propose_finish(struct ps_slot *slot, const struct ps_record_finish *finish,
                            uint64_t *ret_position)
{
    if (finish->version <= slot->finished_version ||
        !ps_seen_finish(&slot->seen, finish->ranges, finish->n_ranges)) {
        return false;
    }
    if (planted(slot, PS_SLOT_PLANT_STREAM_FORGOTTEN)) {
        slot->seen.n_finished = 0;
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

/* ---- From a log ----------------------------------------------------------------------------- */

static bool replay_push(struct ps_slot *slot, const struct ps_record_push *push)
{
    if (planted(slot, PS_SLOT_PLANT_SESSIONS_NOT_REPLAYED)) {
        return true;
    }
    if (ps_seen_look(&slot->seen, &push->item) != PS_SEEN_NEW) {
        return planted(slot, PS_SLOT_PLANT_DEDUPE_OFF);
    }
    ps_seen_take(&slot->seen, &push->item);
    return true;
}

static bool replay_kind(struct ps_slot *slot, const struct ps_record *record)
{
    uint64_t position;
    switch (record->kind) {
    case PS_RECORD_PUSH: slot->appended++; return replay_push(slot, &record->push);
    case PS_RECORD_STAGE: slot->appended++; return record->push.step >= slot->closed_steps;
    case PS_RECORD_CLOSE: return ps_slot_propose_close(slot, &record->close, &position);
    case PS_RECORD_SESSIONS:
        if (planted(slot, PS_SLOT_PLANT_SESSIONS_NOT_REPLAYED)) {
            slot->appended++;
            return true;
        }
        return record->sessions.n_sessions <= PS_SESSIONS_MAX &&
               ps_slot_propose_sessions(slot, &record->sessions, &position);
    case PS_RECORD_FINISH: return ps_slot_propose_finish(slot, &record->finish, &position);
    case PS_RECORD_EPOCH: begin_epoch(slot, record->epoch); return true;
    }
    PS_UNREACHABLE("no such kind of record");
}

enum ps_status ps_slot_replay(struct ps_slot *slot, const struct ps_record *record,
                              struct ps_error *err)
{
    PS_ASSERT(record->slot == slot->number);
    if (record->position != slot->appended + 1) {
        return ps_fail(err, PS_ERR_CORRUPT, "slot %u: record %" PRIu64 " follows record %" PRIu64,
                       slot->number, record->position, slot->appended);
    }
    uint64_t epoch = ps_slot_line_epoch(slot);
    bool begins = record->kind == PS_RECORD_EPOCH;
    if (begins ? record->epoch <= epoch : record->epoch != epoch) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "slot %u: record %" PRIu64 " is of epoch %" PRIu64 ", the slot in %" PRIu64,
                       slot->number, record->position, record->epoch, epoch);
    }
    if (!replay_kind(slot, record)) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "slot %u: record %" PRIu64 " cannot be: the slot has seen what it brings",
                       slot->number, record->position);
    }
    ps_slot_commit(slot, record->position);
    return PS_OK;
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
