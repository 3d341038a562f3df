/*
 * lane_cut.c — a lane's part of a cut: each slot at the end that its line had when the lane heard.
 *
 *     heard: state noted ──┬── all of the line is applied: tables borrowed at once
 *                          └── else: when its last record has been applied
 *
 * Records proposed meanwhile do not wait: they are behind that position.
 */
#include <string.h>

#include "base/assert.h"
#include "slot/lane_impl.h"
#include "slot/slot_state.h"

/* The first thing that went wrong with the cut. */
static void fail(struct ps_cut *cut, enum ps_status status)
{
    int none = PS_OK;
    (void)atomic_compare_exchange_strong(&cut->status, &none, (int)status);
}

static void end(struct ps_lane *lane, struct ps_cut *cut)
{
    lane->cut = NULL;
    if (atomic_fetch_sub_explicit(&cut->n_pending, 1, memory_order_acq_rel) == 1) {
        ps_failpoint("cut.taken");
        ps_exec_post(cut->home, cut->done);
    }
}

/* ---- State ---------------------------------------------------------------------------------- */

static bool without_state(const struct ps_lane *lane PS_UNUSED)
{
#ifdef PS_PLANT
    return lane->options.plant == PS_SLOT_PLANT_SESSIONS_NOT_IN_CUT;
#else
    return false;
#endif
}

static enum ps_status note_state(struct ps_lane *lane, const struct ps_slot *slot,
                                 struct ps_slot_cut *to)
{
    struct ps_mem *mem = lane->options.mem;
    to->taken = true;
    to->epoch = ps_slot_line_epoch(slot);
    to->position = slot->appended;
    if (lane->state_scratch == NULL) {
        lane->state_scratch = ps_mem_alloc(mem, PS_MEM_OTHER, PS_SLOT_STATE_BYTES_MAX);
    }
    if (lane->state_scratch == NULL) {
        return PS_ERR_NOMEM;
    }
    to->n_state_bytes = without_state(lane) ? ps_slot_state_write_bare(slot, lane->state_scratch)
                                            : ps_slot_state_write(slot, lane->state_scratch);
    to->state = ps_mem_alloc(mem, PS_MEM_OTHER, to->n_state_bytes);
    if (to->state == NULL) {
        return PS_ERR_NOMEM;
    }
    memcpy(to->state, lane->state_scratch, to->n_state_bytes);
    return PS_OK;
}

/* ---- Tables --------------------------------------------------------------------------------- */

/* What the slot has of tables that the lane has made. */
static struct ps_layout_walk walk_blocks(const struct ps_lane *lane, uint32_t slot)
{
    struct ps_layout_view view = {.tables = lane->options.catalogue->layouts,
                                  .n_tables = lane->n_tables};
    return ps_layout_walk_slot(view, slot);
}

static enum ps_status take_blocks(struct ps_lane *lane, uint32_t slot, struct ps_slot_cut *to)
{
    struct ps_layout_part at;
    struct ps_layout_walk walk = walk_blocks(lane, slot);
    uint32_t n = 0;
    while (ps_layout_walk_next(&walk, &at)) {
        n++;
    }
    to->blocks = ps_mem_array(lane->options.mem, PS_MEM_OTHER, n, sizeof(to->blocks[0]));
    if (to->blocks == NULL) {
        return PS_ERR_NOMEM;
    }
    walk = walk_blocks(lane, slot);
    while (ps_layout_walk_next(&walk, &at)) {
        struct ps_page *page = ps_dense_borrow(lane->tables[at.table], at.block, PS_PAGE_SNAPSHOT);
        if (page == NULL) { /* This server could not make it, and will leave the job. */
            return PS_ERR_NOT_FOUND;
        }
        to->blocks[to->n_blocks++] =
            (struct ps_cut_block){.table = at.table, .block = at.block, .page = page};
    }
    return PS_OK;
}

static enum ps_status take_table(struct ps_lane *lane, struct ps_sparse *sparse,
                                 struct ps_cut_rows *to)
{
    to->n_counts = (uint32_t)sparse->admit.n_bytes;
    if (to->n_counts > 0) {
        to->counts = ps_mem_alloc(lane->options.mem, PS_MEM_OTHER, to->n_counts);
        if (to->counts == NULL) {
            return PS_ERR_NOMEM;
        }
        memcpy(to->counts, sparse->admit.counts, to->n_counts);
    }
    to->rest = (struct ps_sparse_rest){.clock = sparse->clock,
                                       .rate = sparse->rate,
                                       .aged = sparse->admit.aged,
                                       .counts = to->counts};
    to->view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT);
    return to->view != NULL ? PS_OK : PS_ERR_NOMEM;
}

static enum ps_status take_rows(struct ps_lane *lane, uint32_t slot, struct ps_slot_cut *to)
{
    uint32_t n = 0;
    for (uint32_t table = 0; table < lane->n_tables; table++) {
        n += ps_lane_rows_here(lane, table, slot);
    }
    to->rows = ps_mem_array(lane->options.mem, PS_MEM_OTHER, n, sizeof(to->rows[0]));
    if (to->rows == NULL) {
        return PS_ERR_NOMEM;
    }
    for (uint32_t table = 0; table < lane->n_tables; table++) {
        if (!ps_lane_rows_here(lane, table, slot)) {
            continue;
        }
        struct ps_cut_rows *rows = &to->rows[to->n_rows++];
        rows->table = table;
        enum ps_status status = take_table(lane, lane->rows[table]->slots[slot], rows);
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

/* ---- Staged gradients ----------------------------------------------------------------------- */

static bool in_cut(const struct ps_staged *staged, uint32_t slot, uint64_t position)
{
    return staged->slot == slot && staged->position <= position;
}

static struct ps_record record_of(const struct ps_staged *staged, const struct ps_part *parts)
{
    return (struct ps_record){
        .kind = PS_RECORD_STAGE,
        .slot = staged->slot,
        .epoch = staged->epoch,
        .position = staged->position,
        .push = {.session = staged->session,
                 .step = staged->step,
                 .clock = staged->clock,
                 .item = staged->item,
                 .rows = staged->rows,
                 .rate = staged->rate,
                 .scale = staged->scale,
                 .parts = parts,
                 .n_parts = staged->n_parts,
                 .payload = staged->payload,
                 .msg = staged->msg},
    };
}

/* Records and their parts in one block of memory: the lane may free what is staged. */
static enum ps_status take_staged(struct ps_lane *lane, uint32_t slot, struct ps_slot_cut *to)
{
    uint32_t n = 0;
    uint32_t n_parts = 0;
    ps_list_for_each (node, &lane->staged) {
        const struct ps_staged *staged = PS_CONTAINER_OF(node, struct ps_staged, node);
        if (in_cut(staged, slot, to->position)) {
            n++;
            n_parts += staged->n_parts;
        }
    }
    if (n == 0) {
        return PS_OK;
    }
    to->staged = ps_mem_alloc(lane->options.mem, PS_MEM_OTHER,
                              n * sizeof(to->staged[0]) + n_parts * sizeof(struct ps_part));
    if (to->staged == NULL) {
        return PS_ERR_NOMEM;
    }
    struct ps_part *parts = (struct ps_part *)(void *)(to->staged + n);
    ps_list_for_each (node, &lane->staged) {
        const struct ps_staged *staged = PS_CONTAINER_OF(node, struct ps_staged, node);
        if (in_cut(staged, slot, to->position)) {
            memcpy(parts, staged->parts, staged->n_parts * sizeof(parts[0]));
            to->staged[to->n_staged++] = record_of(staged, parts);
            ps_msg_ref(staged->msg);
            parts += staged->n_parts;
        }
    }
    return PS_OK;
}

/* ---- The cut -------------------------------------------------------------------------------- */

/* The slot stands where its part is to be taken. */
static void take(struct ps_lane *lane, struct ps_cut *cut, uint32_t slot)
{
    struct ps_slot_cut *to = &cut->slots[slot];
    enum ps_status status = take_blocks(lane, slot, to);
    if (status == PS_OK) {
        status = take_rows(lane, slot, to);
    }
    if (status == PS_OK) {
        status = take_staged(lane, slot, to);
    }
    if (status != PS_OK) {
        fail(cut, status);
    }
}

void ps_lane_cut_look(struct ps_lane *lane, uint32_t slot)
{
    struct ps_cut *cut = lane->cut;
    PS_ASSERT(cut != NULL);
    const struct ps_slot_cut *part = &cut->slots[slot];
    if (!part->taken || part->position != lane->slots[slot]->applied) {
        return;
    }
    take(lane, cut, slot);
    lane->n_cut_left--;
    if (lane->n_cut_left == 0) {
        end(lane, cut);
    }
}

void ps_lane_cut_cancel(struct ps_lane *lane)
{
    if (lane->cut != NULL) {
        fail(lane->cut, PS_ERR_CANCELED);
        end(lane, lane->cut);
    }
}

static void run_cut(struct ps_mail *mail)
{
    struct ps_cut_mail *share = PS_CONTAINER_OF(mail, struct ps_cut_mail, mail);
    struct ps_lane *lane = share->lane;
    struct ps_cut *cut = share->cut;
    PS_ASSERT(lane->cut == NULL);
    lane->cut = cut;
    lane->n_cut_left = 1; /* While the slots are looked at. */
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        const struct ps_slot *slot = lane->slots[s];
        if (slot == NULL || !slot->primary) {
            continue;
        }
        enum ps_status status = note_state(lane, slot, &cut->slots[s]);
        if (status != PS_OK) {
            fail(cut, status);
        }
        lane->n_cut_left++;
        if (slot->applied == slot->appended) {
            ps_lane_cut_look(lane, s);
        }
    }
    lane->n_cut_left--;
    if (lane->n_cut_left == 0) {
        end(lane, cut);
    } else if (lane->ended) {
        ps_lane_cut_cancel(lane);
    }
}

void ps_lane_post_cut(struct ps_lane *lane, struct ps_cut *cut)
{
    struct ps_cut_mail *share = &cut->mails[lane->options.index];
    share->cut = cut;
    share->lane = lane;
    share->mail.run = run_cut;
    ps_exec_post(lane->options.exec, &share->mail);
}
