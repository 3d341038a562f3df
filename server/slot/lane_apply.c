/*
 * lane_apply.c — committed records into tables. Deterministic: the same records in the same order
 * give the same bits.
 *
 * Gradients are read where they arrived: in runs of a received message, at any alignment, with a
 * float that may straddle two runs. Nothing of them is copied but those straddlers.
 */
#include <string.h>

#include "base/assert.h"
#include "num/kernel.h"
#include "slot/lane_impl.h"

/* Calls `use(arg, first, bytes, n)` for consecutive runs of whole floats of `c`. */
struct run_user {
    void (*use)(struct run_user *user, size_t first, const uint8_t *bytes, size_t n);
};

/* @return bytes that had to be copied on the way: those of straddlers */
static size_t each_run(struct ps_cursor c, size_t n_floats, struct run_user *user)
{
    size_t n_copied = 0;
    for (size_t i = 0; i < n_floats;) {
        const uint8_t *bytes = NULL;
        size_t n_bytes = ps_cursor_run(&c, (n_floats - i) * sizeof(float), &bytes);
        PS_ASSERT(n_bytes > 0);
        size_t n = n_bytes / sizeof(float);
        if (n > 0) {
            user->use(user, i, bytes, n);
            i += n;
        }
        size_t n_over = n_bytes % sizeof(float);
        if (n_over != 0) {
            uint8_t straddler[sizeof(float)];
            memcpy(straddler, bytes + n * sizeof(float), n_over);
            ps_cursor_copy(&c, straddler + n_over, sizeof(float) - n_over);
            user->use(user, i, straddler, 1);
            n_copied += sizeof(straddler);
            i++;
        }
    }
    return n_copied;
}

struct page_update {
    struct run_user user;
    const struct ps_optim *optim;
    struct ps_optim_step step;
    struct ps_page *out;
    const struct ps_page *in;
};

static void update_run(struct run_user *user, size_t first, const uint8_t *bytes, size_t n)
{
    struct page_update *u = PS_CONTAINER_OF(user, struct page_update, user);
    float *state = u->out->state == NULL ? NULL : u->out->state + first;
    u->optim->apply(&u->step, u->out->weights + first, u->in->weights + first, state, bytes, n);
}

/* One gradient of one block into its page. */
static void apply_block(struct ps_lane *lane, const struct ps_part *part, float rate, float scale,
                        struct ps_cursor values)
{
    struct ps_dense *dense = lane->tables[part->table];
    const struct ps_table_info *info = &lane->options.catalogue->tables[part->table];
    struct page_update u = {.user = {.use = update_run}, .optim = info->optim};

    const struct ps_table_stats before = dense->stats;
    /* Reserved before the record was made; a page lent since then goes beyond the budget. */
    enum ps_status status = ps_dense_begin_write(dense, part->block, PS_PAGE_BEYOND, &u.out, &u.in);
    PS_ASSERT(status == PS_OK); /* The machine itself is out of memory. */
    struct ps_optim_page counters = {
        .t = u.out->t, .beta1_power = u.out->power[0], .beta2_power = u.out->power[1]};
    ps_optim_page_next(&counters, &info->params);
    u.out->t = counters.t;
    u.out->power[0] = counters.beta1_power;
    u.out->power[1] = counters.beta2_power;
    u.step = ps_optim_step_of(&info->params, &counters, rate, scale);
    u.step.stride = u.out->n;
    size_t n_copied = each_run(values, u.out->n, &u.user);
    ps_dense_end_write(dense, part->block, u.out);

    struct ps_metrics *metrics = lane->options.metrics;
    uint64_t n_state_copied = dense->stats.n_bytes_copied - before.n_bytes_copied;
    ps_metric_add(metrics, PS_METRIC_pages_fresh_total, dense->stats.n_fresh - before.n_fresh);
    ps_metric_add(metrics, PS_METRIC_pages_copied_total, n_state_copied > 0 ? 1 : 0);
    ps_metric_add(metrics, PS_METRIC_bytes_copied_push_total, n_copied + n_state_copied);
}

/* A block is missing when this server could not make it; it will leave the job. */
static bool reserve_page(struct ps_lane *lane, const struct ps_part *part,
                         enum ps_page_budget budget, bool *ret_claimed)
{
    struct ps_dense *dense = lane->tables[part->table];
    return ps_dense_page(dense, part->block) != NULL &&
           ps_dense_reserve(dense, part->block, budget, ret_claimed) == PS_OK;
}

static bool reserve_part(struct ps_lane *lane, uint32_t slot, const struct ps_part *part,
                         struct ps_cursor values, enum ps_page_budget budget,
                         union ps_part_claim *claim)
{
    if (part->table >= lane->n_tables) {
        return false;
    }
    return part->n_keys > 0 ? ps_lane_rows_reserve(lane, slot, part, values, budget, &claim->rows)
                            : reserve_page(lane, part, budget, &claim->twin);
}

/* As many claims as the record has parts. */
static bool have_claims(struct ps_lane *lane, struct ps_pending *pending, uint32_t n)
{
    if (n <= pending->n_claims_room) {
        return true;
    }
    union ps_part_claim *claims =
        ps_mem_array(lane->options.mem, PS_MEM_CALLS, n, sizeof(claims[0]));
    if (claims != NULL) {
        ps_mem_free(pending->more_claims);
        pending->more_claims = claims;
        pending->claims = claims;
        pending->n_claims_room = n;
    }
    return claims != NULL;
}

static bool half_is_enough(const struct ps_lane *lane PS_UNUSED)
{
#ifdef PS_PLANT
    return lane->options.plant == PS_SLOT_PLANT_HALF_APPLIED;
#else
    return false;
#endif
}

/* Memory for a push: the twins of all borrowed pages, and new rows. All of it, or false. */
static bool reserve(struct ps_lane *lane, struct ps_pending *pending, enum ps_page_budget budget)
{
    const struct ps_record *record = &pending->entry.record;
    const struct ps_record_push *push = &record->push;
    struct ps_cursor payload = push->payload;
    if (!have_claims(lane, pending, push->n_parts)) {
        return false;
    }
    while (pending->n_claims < push->n_parts) {
        const struct ps_part *part = &push->parts[pending->n_claims];
        struct ps_cursor values = ps_cursor_split(&payload, part->n_bytes);
        union ps_part_claim *claim = &pending->claims[pending->n_claims++];
        *claim = (union ps_part_claim){.rows = {0}};
        if (!reserve_part(lane, record->slot, part, values, budget, claim)) {
            return half_is_enough(lane) && pending->n_claims > 1;
        }
    }
    return true;
}

struct ps_staged *ps_staged_make(struct ps_lane *lane, const struct ps_record *record)
{
    const struct ps_record_push *push = &record->push;
    struct ps_staged *staged =
        ps_mem_alloc(lane->options.mem, PS_MEM_STAGED,
                     sizeof(struct ps_staged) + push->n_parts * sizeof(push->parts[0]));
    if (staged == NULL) {
        return NULL;
    }
    staged->slot = record->slot;
    staged->session = push->session;
    staged->step = push->step;
    staged->clock = push->clock;
    staged->item = push->item;
    staged->rows = push->rows;
    staged->rate = push->rate;
    staged->scale = push->scale;
    staged->n_parts = push->n_parts;
    staged->payload = push->payload;
    staged->msg = push->msg;
    memcpy(staged->parts, push->parts, push->n_parts * sizeof(push->parts[0]));
    return staged;
}

bool ps_lane_make_room(struct ps_lane *lane, struct ps_pending *pending, enum ps_page_budget budget)
{
    const struct ps_record *record = &pending->entry.record;
    PS_ASSERT(pending->n_claims == 0 && pending->staged == NULL);
    if (record->kind == PS_RECORD_PUSH) {
        return reserve(lane, pending, budget);
    }
    PS_ASSERT(record->kind == PS_RECORD_STAGE);
    pending->staged = ps_staged_make(lane, record);
    return pending->staged != NULL;
}

void ps_lane_leave_room(struct ps_lane *lane, struct ps_pending *pending)
{
    const struct ps_record *record = &pending->entry.record;
    for (uint32_t i = 0; i < pending->n_claims; i++) {
        const struct ps_part *part = &record->push.parts[i];
        union ps_part_claim *claim = &pending->claims[i];
        if (part->table < lane->n_tables && part->n_keys > 0) {
            ps_lane_rows_release(lane, record->slot, part, &claim->rows);
        } else if (part->table < lane->n_tables && claim->twin) {
            ps_dense_release(lane->tables[part->table]);
        }
    }
    pending->n_claims = 0;
    ps_mem_free(pending->staged);
    pending->staged = NULL;
}

static void apply_push(struct ps_lane *lane, struct ps_pending *pending)
{
    uint32_t slot = pending->entry.record.slot;
    const struct ps_record_push *push = &pending->entry.record.push;
    struct ps_cursor payload = push->payload;
    uint32_t n_parts = half_is_enough(lane) ? pending->n_claims : push->n_parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct ps_part *part = &push->parts[i];
        struct ps_cursor values = ps_cursor_split(&payload, part->n_bytes);
        if (part->n_keys > 0) {
            if (pending->late) {
                ps_lane_rows_renew(lane, slot, part, values, &pending->claims[i].rows);
            }
            ps_lane_rows_apply(lane, slot, push, part, values);
        } else {
            apply_block(lane, part, push->rate, push->scale, values);
        }
        if (i == 0 && n_parts > 1) {
            ps_failpoint("apply.mid");
        }
    }
}

/* ---- Aggregated bsp ------------------------------------------------------------------------- */

struct ps_staged_view ps_lane_staged(const struct ps_lane *lane, const struct ps_record *record)
{
    const struct ps_record_push *push = &record->push;
    struct ps_staged_view view = {0};
    ps_list_for_each (node, &lane->staged) {
        const struct ps_staged *s = PS_CONTAINER_OF(node, struct ps_staged, node);
        if (s->slot != record->slot || s->session != push->session || s->step != push->step) {
            continue;
        }
        bool unit = s->item.stream == push->item.stream && s->item.sequence == push->item.sequence;
        view.other = view.other || !unit;
        view.same = view.same || (unit && s->item.fragment == push->item.fragment);
    }
    return view;
}

void ps_lane_stage(struct ps_lane *lane, struct ps_pending *pending)
{
    struct ps_staged *staged = pending->staged;
    PS_ASSERT(staged != NULL); /* ps_lane_make_room has made it. */
    pending->staged = NULL;
    staged->epoch = pending->entry.record.epoch;
    staged->position = pending->entry.record.position;
    ps_msg_ref(staged->msg);
    ps_list_append(&lane->staged, &staged->node);
}

void ps_staged_free(struct ps_staged *staged)
{
    ps_list_remove(&staged->node);
    ps_msg_unref(staged->msg);
    ps_mem_free(staged);
}

/* What one block gets at the close of a step. */
struct block_sum {
    struct run_user user;
    float *sum; /* [n] */
    float weight;
};

static void sum_run(struct run_user *user, size_t first, const uint8_t *bytes, size_t n)
{
    struct block_sum *s = PS_CONTAINER_OF(user, struct block_sum, user);
    ps_kernel_axpy(s->sum + first, s->weight, bytes, n);
}

/* Add the entry's gradient of the block, if it is staged here. */
static bool add_entry(struct ps_lane *lane, const struct ps_record *record,
                      const struct ps_close_entry *entry, const struct ps_part *want,
                      struct block_sum *sum, float *ret_rate)
{
    ps_list_for_each (node, &lane->staged) {
        const struct ps_staged *s = PS_CONTAINER_OF(node, struct ps_staged, node);
        if (s->slot != record->slot || s->step != record->close.step ||
            s->session != entry->session || s->item.stream != entry->lease ||
            s->item.sequence != entry->unit) {
            continue;
        }
        struct ps_cursor payload = s->payload;
        for (uint32_t i = 0; i < s->n_parts; i++) {
            struct ps_cursor values = ps_cursor_split(&payload, s->parts[i].n_bytes);
            if (s->parts[i].table == want->table && s->parts[i].block == want->block) {
                sum->weight = (float)entry->rows;
                *ret_rate = s->rate;
                size_t n_copied = each_run(values, want->n_bytes / sizeof(float), &sum->user);
                ps_metric_add(lane->options.metrics, PS_METRIC_bytes_copied_push_total, n_copied);
                return true;
            }
        }
    }
    return false;
}

/*
 * One block: sum(n_i * g_i) / sum(n_i) over the list. The list is ordered by (lease, unit), not by
 * session, so the result does not depend on which worker computed which unit.
 */
static void close_block(struct ps_lane *lane, const struct ps_record *record,
                        const struct ps_part *part)
{
    const struct ps_record_close *close = &record->close;
    struct block_sum sum = {.user = {.use = sum_run}, .sum = lane->scratch};
    uint64_t n_rows = 0;
    float rate = 0.0f;
    memset(lane->scratch, 0, part->n_bytes);
    for (uint32_t i = 0; i < close->n_entries; i++) {
        if (close->entries[i].rows > 0 &&
            add_entry(lane, record, &close->entries[i], part, &sum, &rate)) {
            n_rows += close->entries[i].rows;
        }
    }
    if (n_rows > 0) {
        struct ps_slice slice = {.data = (const uint8_t *)lane->scratch, .n_bytes = part->n_bytes};
        apply_block(lane, part, rate, 1.0f / (float)n_rows, ps_cursor_over(&slice, 1));
    }
}

static void apply_close(struct ps_lane *lane, const struct ps_record *record)
{
    if (lane->scratch == NULL) {
        lane->scratch = ps_mem_alloc_beyond(lane->options.mem, PS_MEM_STAGED,
                                            PS_BLOCK_FLOATS_MAX * sizeof(float));
        PS_ASSERT(lane->scratch != NULL); /* The machine itself is out of memory. */
    }
    struct ps_layout_walk walk =
        ps_layout_walk_slot(ps_catalogue_view(lane->options.catalogue), record->slot);
    struct ps_layout_part at;
    while (ps_layout_walk_next(&walk, &at)) {
        /* As above: a server without the block is about to leave. */
        if (at.table < lane->n_tables && ps_dense_page(lane->tables[at.table], at.block) != NULL) {
            struct ps_part part = {.table = at.table,
                                   .block = at.block,
                                   .n_bytes = at.n_floats * (uint32_t)sizeof(float)};
            close_block(lane, record, &part);
        }
    }
    ps_list_for_each_safe (node, after, &lane->staged) {
        struct ps_staged *s = PS_CONTAINER_OF(node, struct ps_staged, node);
        if (s->slot == record->slot && s->step <= record->close.step) {
            ps_staged_free(s);
        }
    }
}

static bool may_be_closed(const struct ps_record_sessions *list, uint64_t session)
{
    for (uint32_t i = 0; i < list->n_sessions; i++) {
        if (list->sessions[i].number == session) {
            return true;
        }
    }
    for (uint32_t i = 0; i < list->n_staged; i++) {
        if (list->staged[i] == session) {
            return true;
        }
    }
    return false;
}

/* Sessions come and go, and a step may stay open for long: what no list will name goes at once. */
static void apply_sessions(struct ps_lane *lane, const struct ps_record *record)
{
    ps_list_for_each_safe (node, after, &lane->staged) {
        struct ps_staged *s = PS_CONTAINER_OF(node, struct ps_staged, node);
        /* What was staged behind the list knows of a later one. */
        if (record->sessions.knows_staged && s->slot == record->slot &&
            s->position < record->position && !may_be_closed(&record->sessions, s->session)) {
            ps_staged_free(s);
        }
    }
}

void ps_lane_apply(struct ps_lane *lane, struct ps_pending *pending)
{
    const struct ps_record *record = &pending->entry.record;
    struct ps_slot *slot = lane->slots[record->slot];
    ps_failpoint("apply.before");
    switch (record->kind) {
    case PS_RECORD_PUSH: apply_push(lane, pending); break;
    case PS_RECORD_STAGE: break; /* On the list since it was proposed. */
    case PS_RECORD_CLOSE: apply_close(lane, record); break;
    case PS_RECORD_SESSIONS:
        apply_sessions(lane, record);
        ps_slot_sessions_applied(slot, &record->sessions);
        break;
    case PS_RECORD_FINISH: break; /* What slots know took it when it was proposed. */
    case PS_RECORD_EPOCH: ps_failpoint("epoch.after_log"); break;
    }
    ps_slot_applied(slot, record->position);
    ps_failpoint("apply.after");
}
