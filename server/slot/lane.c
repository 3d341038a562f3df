/* lane.c — see lane.h. Mail in, decisions by slot_core and gate_core, records to the committer. */
#include "slot/lane.h"

#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "obs/log.h"
#include "slot/lane_impl.h"

#define LOOK_AFTER_MS   50u  /* How often parked pulls are looked at. */
#define ANSWER_EARLY_MS 250u /* A parked pull is answered NOT_YET so long before its deadline. */

uint32_t ps_lane_of(uint32_t slot, uint32_t n_lanes)
{
    return (uint32_t)(ps_mix64(slot) % n_lanes);
}

void ps_data_call_share_done(struct ps_data_call *call)
{
    if (atomic_fetch_sub_explicit(&call->n_pending, 1, memory_order_acq_rel) == 1) {
        call->finish(call);
    }
}

/* ---- Records -------------------------------------------------------------------------------- */

/* Hand the record to the committer and apply what is committed. */
static void commit(struct ps_lane *lane, struct ps_record *record)
{
    struct ps_slot *slot = lane->slots[record->slot];
    record->epoch = slot->epoch;
    ps_slot_commit(slot, lane->options.committer->ops->append(lane->options.committer, record));
    /* The committers there are commit at once; one that does not will keep the record. */
    PS_ASSERT(slot->committed >= record->position);
    ps_lane_apply(lane, record);
}

/* ---- Pushes --------------------------------------------------------------------------------- */

static struct ps_claim claim_of(const struct ps_data_request *request,
                                const struct ps_slot_part *part)
{
    return (struct ps_claim){
        .session = request->session,
        .session_number = request->session_number,
        .epoch = part->epoch,
        .seen_epoch = part->seen_epoch,
        .seen_position = part->seen_position,
    };
}

static struct ps_record push_record(const struct ps_lane *lane, struct ps_data_call *call,
                                    uint32_t at)
{
    const struct ps_data_request *request = &call->request;
    const struct ps_slot_part *part = &request->push.slots[at];
    bool leased = request->stream != 0;
    return (struct ps_record){
        .kind = lane->aggregate && leased ? PS_RECORD_STAGE : PS_RECORD_PUSH,
        .slot = part->slot,
        .push =
            {
                .session = request->session_number,
                .step = request->step,
                .clock = lane->gate.min_clock,
                .item =
                    {
                        .stream = leased ? request->stream
                                         : PS_SEEN_SESSION_STREAM(request->session_number),
                        .sequence = request->sequence,
                        .fragment = part->fragment,
                        .n_fragments = part->n_fragments,
                        .owner = request->session_number,
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
    return slot->dedupe_off || (ps_slot_admit(slot, claim) == PS_OK &&
                                ps_seen_look(&slot->seen, item) != PS_SEEN_TAKEN);
}

static enum ps_status push_slot(struct ps_lane *lane, struct ps_data_call *call, uint32_t at,
                                uint64_t *ret_position)
{
    const struct ps_data_request *request = &call->request;
    const struct ps_slot_part *part = &request->push.slots[at];
    struct ps_slot *slot = lane->slots[part->slot];
    struct ps_record record = push_record(lane, call, at);
    bool staged = record.kind == PS_RECORD_STAGE;
    if (staged && has_rows(&record.push)) { /* The coordinator has let nobody define this. */
        *ret_position = slot->applied;
        return PS_ERR_UNSUPPORTED;
    }
    struct ps_staged_view kept = {0};
    if (staged) {
        kept = ps_lane_staged(lane, &record);
    }
    struct ps_claim claim = claim_of(request, part);
    lane->full = false;
    struct ps_proposal proposal = {
        .claim = claim,
        .item = record.push.item,
        .acked_below = request->acked_below,
        .step = request->step,
        .staged = staged,
        .staged_already = kept.same,
        .staged_other = kept.other,
        .no_room = needs_room(slot, &claim, &record.push.item) && !ps_lane_make_room(lane, &record),
    };
    struct ps_slot_decision decision = ps_slot_propose_push(slot, &proposal);
    enum ps_status status = PS_OK;
    switch (decision.verdict) {
    case PS_VERDICT_REFUSE:
        /* Rows go with the clock, which may wait for this very push: nobody waits for ever. */
        status = lane->full && decision.status == PS_ERR_BUSY ? PS_ERR_NOMEM : decision.status;
        *ret_position = slot->applied;
        break;
    case PS_VERDICT_WAIT:
        ps_metric_add(lane->options.metrics, PS_METRIC_pushes_repeated_total, 1);
        PS_ASSERT(slot->committed >= decision.position);
        *ret_position = decision.position;
        break;
    case PS_VERDICT_PROPOSE:
        record.position = decision.position;
        commit(lane, &record);
        *ret_position = decision.position;
        break;
    }
    ps_lane_leave_room(lane, &record);
    return status;
}

static bool mine(const struct ps_lane *lane, uint32_t slot)
{
    return ps_lane_of(slot, lane->options.n_lanes) == lane->options.index;
}

static void push_all(struct ps_lane *lane, struct ps_share_mail *share)
{
    struct ps_data_call *call = share->call;
    uint64_t start_ns = ps_exec_now_ns(lane->options.exec);
    bool busy = false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < call->request.push.n_slots; i++) {
        const struct ps_slot_part *part = &call->request.push.slots[i];
        if (!mine(lane, part->slot)) {
            continue;
        }
        struct ps_slot_reply *reply = &call->reply.push[i];
        reply->slot = part->slot;
        reply->status = push_slot(lane, call, i, &reply->position);
        reply->epoch = lane->slots[part->slot]->epoch;
        busy = busy || reply->status == PS_ERR_BUSY || reply->status == PS_ERR_NOMEM;
        n++;
    }
    if (busy) {
        ps_metric_add(lane->options.metrics, PS_METRIC_pushes_refused_total, 1);
        share->retry_ms = ps_ledger_retry_ms(call->ledger);
    }
    if (n > 0) {
        ps_metric_observe(lane->options.metrics, PS_METRIC_apply_seconds,
                          ps_exec_now_ns(lane->options.exec) - start_ns);
    }
}

/* ---- Pulls ---------------------------------------------------------------------------------- */

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
        if (!mine(lane, part->slot)) {
            continue;
        }
        struct ps_slot *slot = lane->slots[part->slot];
        struct ps_claim claim = claim_of(&call->request, part);
        struct ps_slot_reply *reply = &call->reply.pull[i];
        *reply = (struct ps_slot_reply){
            .slot = part->slot, .epoch = slot->epoch, .position = slot->applied};
        reply->status = ps_slot_admit(slot, &claim);
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
    ps_data_call_share_done(share->call);
}

/* A parked pull leaves the lot, one way or the other. */
static void unpark(struct ps_lane *lane, struct ps_share_mail *share, enum ps_status gate)
{
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
        if (mine(lane, part->slot)) {
            struct ps_claim claim = claim_of(&call->request, part);
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

static void run_share(struct ps_mail *mail)
{
    struct ps_share_mail *share = PS_CONTAINER_OF(mail, struct ps_share_mail, mail);
    struct ps_lane *lane = share->lane;
    struct ps_data_call *call = share->call;

    push_all(lane, share);
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

void ps_lane_post_share(struct ps_lane *lane, struct ps_share_mail *share)
{
    share->lane = lane;
    share->mail.run = run_share;
    ps_exec_post(lane->options.exec, &share->mail);
}

/* Callers that are gone or will be soon must not hold a place; runs while something is parked. */
static void look_after(struct ps_timer *timer)
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

/* ---- News from the coordinator -------------------------------------------------------------- */

/* Pulls that are parked for a slot which has moved, or by a session that was closed. */
static void unpark_refused(struct ps_lane *lane)
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

static enum ps_status make_blocks(struct ps_lane *lane, uint32_t table, struct ps_error *err)
{
    const struct ps_catalogue *catalogue = lane->options.catalogue;
    const struct ps_layout *layout = &catalogue->layouts[table];
    if (catalogue->tables[table].sparse) {
        return ps_lane_rows_make(lane, table, err);
    }
    if (lane->tables[table] == NULL) {
        enum ps_status status = ps_dense_create(&catalogue->tables[table].spec, lane->options.mem,
                                                &lane->tables[table], err);
        if (status != PS_OK) {
            return status;
        }
    }
    for (uint32_t block = 0; block < layout->n_blocks; block++) {
        uint32_t slot = ps_layout_slot(layout, block);
        if (mine(lane, slot) && lane->slots[slot]->primary &&
            ps_dense_page(lane->tables[table], block) == NULL) {
            enum ps_status status = ps_dense_add_block(lane->tables[table], block, err);
            if (status != PS_OK) {
                return status;
            }
        }
    }
    return PS_OK;
}

static void update_slot(struct ps_lane *lane, struct ps_slot *slot,
                        const struct ps_lane_update *update)
{
    struct ps_record record = {.slot = slot->number};
    if (update->has_sessions &&
        ps_slot_propose_sessions(slot, &update->sessions, &record.position)) {
        record.kind = PS_RECORD_SESSIONS;
        record.sessions = update->sessions;
        commit(lane, &record);
    }
    if (update->has_finish && ps_slot_propose_finish(slot, &update->finish, &record.position)) {
        record.kind = PS_RECORD_FINISH;
        record.finish = update->finish;
        commit(lane, &record);
    }
    if (update->has_close && ps_slot_propose_close(slot, &update->close, &record.position)) {
        record.kind = PS_RECORD_CLOSE;
        record.close = update->close;
        commit(lane, &record);
    }
}

/* Placement first, then tables, then the records of the slots that are ours. */
static enum ps_status update_slots(struct ps_lane *lane, const struct ps_lane_update *update,
                                   struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (lane->slots[s] != NULL && update->has_placement) {
            ps_slot_place(lane->slots[s], update->primary[s], update->epoch[s]);
        }
    }
    for (uint32_t table = 0; table < update->n_tables && status == PS_OK; table++) {
        status = make_blocks(lane, table, err);
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

static void run_update(struct ps_mail *mail)
{
    struct ps_update_mail *share = PS_CONTAINER_OF(mail, struct ps_update_mail, mail);
    struct ps_lane *lane = share->lane;
    struct ps_lane_update *update = share->update;
    struct ps_error err;

    lane->term = update->term;
    lane->generation = update->generation;
    if (update_slots(lane, update, &err) != PS_OK) {
        int none = PS_OK;
        (void)atomic_compare_exchange_strong(&update->status, &none, (int)err.status);
        ps_log(PS_LOG_ERROR, "table.refused", "lane=%u why=\"%s\"", lane->options.index, err.text);
    }
    if (update->has_consistency) {
        ps_gate_set_consistency(&lane->gate, update->gate_mode, update->gate_bound);
        lane->aggregate = update->aggregate;
    }
    ps_gate_set_min_clock(&lane->gate, update->min_clock);
    if (update->has_placement || update->has_sessions) {
        unpark_refused(lane);
    }
    for (struct ps_share_mail *open = ps_gate_release(&lane->gate); open != NULL;
         open = ps_gate_release(&lane->gate)) {
        unpark(lane, open, PS_OK);
    }
    ps_lane_rows_tend(lane);
    if (atomic_fetch_sub_explicit(&update->n_pending, 1, memory_order_acq_rel) == 1) {
        update->done(update);
    }
}

void ps_lane_post_update(struct ps_lane *lane, struct ps_lane_update *update)
{
    struct ps_update_mail *share = &update->mails[lane->options.index];
    share->update = update;
    share->lane = lane;
    share->mail.run = run_update;
    ps_exec_post(lane->options.exec, &share->mail);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void run_stop(struct ps_mail *mail)
{
    struct ps_lane *lane = PS_CONTAINER_OF(mail, struct ps_lane, stop_mail);
    lane->stopping = true;
    while (lane->gate.n_parked > 0) {
        struct ps_share_mail *share = lane->gate.parked[0].token;
        (void)ps_gate_forget(&lane->gate, share);
        unpark(lane, share, PS_ERR_NOT_YET);
    }
    ps_timer_stop(lane->options.exec, &lane->timer);
    ps_exec_post(lane->stop_home, lane->stop_done);
}

void ps_lane_post_stop(struct ps_lane *lane, struct ps_mail *done_mail, struct ps_exec *home)
{
    lane->stop_done = done_mail;
    lane->stop_home = home;
    lane->stop_mail.run = run_stop;
    ps_exec_post(lane->options.exec, &lane->stop_mail);
}

enum ps_status ps_lane_create(const struct ps_lane_options *options, struct ps_lane **ret,
                              struct ps_error *err)
{
    PS_ASSERT(options->n_lanes > 0 && options->n_lanes <= PS_LANES_MAX);
    PS_ASSERT(options->index < options->n_lanes);
    struct ps_lane *lane = ps_mem_alloc(options->mem, PS_MEM_SESSIONS, sizeof(*lane));
    if (lane == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for lane %u", options->index);
    }
    lane->options = *options;
    ps_gate_init(&lane->gate);
    lane->gate.off_by_one = options->plant_gate;
    ps_list_init(&lane->staged);
    ps_timer_init(&lane->timer, look_after);
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (!mine(lane, s)) {
            continue;
        }
        struct slot_memory {
            struct ps_slot slot;
            struct ps_seen_stream streams[PS_SEEN_STREAMS_MAX];
        };
        struct slot_memory *memory = ps_mem_alloc(options->mem, PS_MEM_SESSIONS, sizeof(*memory));
        if (memory == NULL) {
            ps_lane_destroy(lane);
            return ps_fail(err, PS_ERR_NOMEM, "no memory for slot %u", s);
        }
        ps_slot_init(&memory->slot, s, memory->streams);
        memory->slot.dedupe_off = options->plant_dedupe;
        lane->slots[s] = &memory->slot;
    }
    *ret = lane;
    return PS_OK;
}

void ps_lane_destroy(struct ps_lane *lane)
{
    if (lane == NULL) {
        return;
    }
    PS_ASSERT(lane->gate.n_parked == 0);
    ps_list_for_each_safe (node, after, &lane->staged) {
        ps_staged_free(PS_CONTAINER_OF(node, struct ps_staged, node));
    }
    for (uint32_t t = 0; t < PS_TABLES_MAX; t++) {
        ps_dense_destroy(lane->tables[t]);
    }
    ps_lane_rows_destroy(lane);
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        ps_mem_free(lane->slots[s]);
    }
    ps_mem_free(lane->staged_ahead);
    ps_mem_free(lane->scratch);
    ps_mem_free(lane);
}
