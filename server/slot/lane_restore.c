/*
 * lane_restore.c — slots as they were saved, and records from a log: see lane.h.
 *
 * What comes from a disk has passed its checksums, and is looked at all the same: no bytes reach an
 * assertion.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "slot/lane_impl.h"
#include "slot/slot_state.h"
#include "wire/keys.h"

static void forget_slot(struct ps_lane *lane, struct ps_slot *slot)
{
    struct ps_seen_stream *streams = slot->seen.streams;
    memset(streams, 0, PS_SEEN_STREAMS_MAX * sizeof(streams[0]));
    ps_slot_init(slot, slot->number, streams);
    slot->plant = lane->options.plant;
}

void ps_lane_clear(struct ps_lane *lane)
{
    ps_lane_cut_cancel(lane);
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (lane->slots[s] != NULL) {
            forget_slot(lane, lane->slots[s]);
        }
    }
    ps_lane_pipe_clear(lane);
    ps_lane_drop_tables(lane);
    lane->gate.min_clock = 0; /* The generation that begins has clocks of its own. */
    atomic_store_explicit(&lane->clock, 0, memory_order_release);
    atomic_store_explicit(&lane->lost_slot, 0, memory_order_relaxed);
    ps_lane_unpark_refused(lane);
}

enum ps_status ps_lane_hold_tables(struct ps_lane *lane, uint32_t n_tables, struct ps_error *err)
{
    for (uint32_t table = 0; table < n_tables; table++) {
        enum ps_status status = ps_lane_make_table(lane, table, err);
        if (status != PS_OK) {
            return status;
        }
    }
    if (n_tables > lane->n_tables) {
        lane->n_tables = n_tables;
    }
    return PS_OK;
}

/* ---- Saved slots ---------------------------------------------------------------------------- */

enum ps_status ps_lane_restore_state(struct ps_lane *lane, uint32_t slot, struct ps_slice state,
                                     bool new_generation, struct ps_error *err)
{
    PS_ASSERT(slot < PS_SLOTS && lane->slots[slot] != NULL);
    struct ps_slot *to = lane->slots[slot];
    ps_failpoint("restore.mid");
    forget_slot(lane, to);
    enum ps_status status = ps_slot_state_read(to, ps_cursor_over(&state, 1), err);
    if (status != PS_OK) {
        forget_slot(lane, to);
        return status;
    }
    if (new_generation) {
        ps_slot_state_forget(to);
    }
    ps_lane_note_stand(lane, slot);
    return PS_OK;
}

/* Where a table's block, or rows of a slot, are; NULL with words when they are not here. */
static struct ps_dense *dense_of(struct ps_lane *lane, uint32_t table, uint32_t block,
                                 struct ps_error *err)
{
    struct ps_dense *dense = table < lane->n_tables ? lane->tables[table] : NULL;
    if (dense == NULL || block >= dense->n_blocks || ps_dense_page(dense, block) == NULL) {
        (void)ps_fail(err, PS_ERR_CORRUPT, "block %u of table %u is of no slot of the snapshot",
                      block, table);
        return NULL;
    }
    return dense;
}

static struct ps_sparse *sparse_of(struct ps_lane *lane, uint32_t table, uint32_t slot,
                                   struct ps_error *err)
{
    if (table >= lane->n_tables || slot >= PS_SLOTS || !ps_lane_rows_here(lane, table, slot)) {
        (void)ps_fail(err, PS_ERR_CORRUPT, "slot %u has no rows of table %u", slot, table);
        return NULL;
    }
    return lane->rows[table]->slots[slot];
}

static enum ps_status no_memory(const struct ps_lane *lane, uint32_t table, struct ps_error *err)
{
    return ps_fail(err, PS_ERR_NOMEM,
                   "table '%s': no memory for what was saved: raise --memory-max",
                   lane->options.catalogue->tables[table].spec.name);
}

enum ps_status ps_lane_restore_block(struct ps_lane *lane, uint32_t table, uint32_t block,
                                     const struct ps_dense_saved *saved, struct ps_error *err)
{
    struct ps_dense *dense = dense_of(lane, table, block, err);
    if (dense == NULL) {
        return PS_ERR_CORRUPT;
    }
    bool state = dense->spec.state_per_elem > 0;
    if (saved->n != ps_dense_floats(dense, block) || (saved->state != NULL) != state) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "block %u of table '%s' has %u elements, saved are %u%s", block,
                       dense->spec.name, ps_dense_floats(dense, block), saved->n,
                       state ? " (and no optimizer state)" : "");
    }
    return ps_dense_put(dense, block, saved) == PS_OK ? PS_OK : no_memory(lane, table, err);
}

enum ps_status ps_lane_restore_row(struct ps_lane *lane, uint32_t table, uint32_t slot,
                                   const struct ps_sparse_row *row, struct ps_error *err)
{
    struct ps_sparse *sparse = sparse_of(lane, table, slot, err);
    if (sparse == NULL) {
        return PS_ERR_CORRUPT;
    }
    if (row->t == 0) {
        return ps_fail(err, PS_ERR_CORRUPT, "key %" PRIu64 " of table '%s' was never updated",
                       row->key, sparse->spec.name);
    }
    return ps_sparse_put(sparse, row) == PS_OK ? PS_OK : no_memory(lane, table, err);
}

enum ps_status ps_lane_restore_rest(struct ps_lane *lane, uint32_t table, uint32_t slot,
                                    const struct ps_sparse_rest *rest, uint32_t n_counts,
                                    struct ps_error *err)
{
    struct ps_sparse *sparse = sparse_of(lane, table, slot, err);
    if (sparse == NULL) {
        return PS_ERR_CORRUPT;
    }
    if (n_counts != sparse->admit.n_bytes ||
        (n_counts > 0 && rest->aged >= n_counts / sizeof(uint64_t))) {
        return ps_fail(err, PS_ERR_CORRUPT, "table '%s' counts keys in %u bytes, saved are %u",
                       sparse->spec.name, sparse->admit.n_bytes, n_counts);
    }
    ps_sparse_put_rest(sparse, rest);
    return PS_OK;
}

/* ---- Records -------------------------------------------------------------------------------- */

/* All its keys can be read, and are as many bytes as it says. */
static bool keys_valid(struct ps_lane *lane, const struct ps_part *part, struct ps_cursor values)
{
    struct ps_keys_reader keys =
        ps_keys_reader(ps_cursor_split(&values, part->n_key_bytes), part->n_keys);
    while (ps_keys_next(&keys, lane->keys, PS_KEYS_AT_ONCE) > 0) {
    }
    return !keys.failed;
}

/* Is the part one of a table here, of the right size? `values` are its bytes. */
static bool part_valid(struct ps_lane *lane, uint32_t slot, const struct ps_part *part,
                       struct ps_cursor values)
{
    if (part->table >= lane->n_tables || values.failed || values.n_left != part->n_bytes) {
        return false;
    }
    const struct ps_table_info *info = &lane->options.catalogue->tables[part->table];
    if (info->sparse) {
        uint64_t n_values = (uint64_t)part->n_keys * info->rows.width * sizeof(float);
        return part->n_keys > 0 && part->n_bytes == part->n_key_bytes + n_values &&
               ps_lane_rows_here(lane, part->table, slot) && keys_valid(lane, part, values);
    }
    const struct ps_layout *layout = &lane->options.catalogue->layouts[part->table];
    return part->n_keys == 0 && part->block < layout->n_blocks &&
           ps_layout_slot(layout, part->block) == slot &&
           part->n_bytes == ps_layout_floats(layout, part->block) * sizeof(float);
}

static enum ps_status check_push(struct ps_lane *lane, const struct ps_record *record,
                                 struct ps_error *err)
{
    const struct ps_record_push *push = &record->push;
    struct ps_cursor payload = push->payload;
    for (uint32_t i = 0; i < push->n_parts; i++) {
        const struct ps_part *part = &push->parts[i];
        bool staged_rows = record->kind == PS_RECORD_STAGE && part->n_keys > 0;
        struct ps_cursor values = payload;
        values.n_left = part->n_bytes < payload.n_left ? part->n_bytes : payload.n_left;
        if (staged_rows || !part_valid(lane, record->slot, part, values)) {
            return ps_fail(err, PS_ERR_CORRUPT,
                           "slot %u: part %u of record %" PRIu64 " is of no table that is here",
                           record->slot, i, record->position);
        }
        ps_cursor_skip(&payload, part->n_bytes);
    }
    return PS_OK;
}

/* Through the record in hand, as if it had just been committed. */
static enum ps_status apply(struct ps_lane *lane, const struct ps_record *record,
                            struct ps_error *err)
{
    struct ps_pending *pending = lane->hand;
    bool push = record->kind == PS_RECORD_PUSH;
    bool staged = record->kind == PS_RECORD_STAGE;
    pending->entry.record = *record;
    if ((push || staged) && !ps_lane_make_room(lane, pending, PS_PAGE_BEYOND)) {
        ps_lane_leave_room(lane, pending);
        return ps_fail(err, PS_ERR_NOMEM, "slot %u: no memory for record %" PRIu64, record->slot,
                       record->position);
    }
    if (staged) {
        ps_lane_stage(lane, pending);
    }
    ps_lane_apply(lane, pending);
    ps_lane_leave_room(lane, pending);
    ps_lane_note_stand(lane, record->slot);
    return PS_OK;
}

enum ps_status ps_lane_restore_staged(struct ps_lane *lane, const struct ps_record *record,
                                      struct ps_error *err)
{
    PS_ASSERT(record->slot < PS_SLOTS && lane->slots[record->slot] != NULL);
    if (record->kind != PS_RECORD_STAGE || record->position > lane->slots[record->slot]->applied ||
        record->push.step < lane->slots[record->slot]->closed_steps) {
        return ps_fail(err, PS_ERR_CORRUPT, "slot %u: record %" PRIu64 " is none that is staged",
                       record->slot, record->position);
    }
    enum ps_status status = check_push(lane, record, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_pending *pending = lane->hand;
    pending->entry.record = *record;
    if (!ps_lane_make_room(lane, pending, PS_PAGE_BEYOND)) {
        return ps_fail(err, PS_ERR_NOMEM, "slot %u: no memory for what is staged", record->slot);
    }
    ps_lane_stage(lane, pending);
    return PS_OK;
}

enum ps_status ps_lane_replay(struct ps_lane *lane, const struct ps_record *record,
                              struct ps_error *err)
{
    if (record->slot >= PS_SLOTS) {
        return ps_fail(err, PS_ERR_CORRUPT, "a record of slot %u", record->slot);
    }
    struct ps_slot *slot = lane->slots[record->slot];
    if (slot == NULL || record->position <= slot->appended) {
        return PS_OK; /* Of another lane; or it is in what was restored. */
    }
    bool push = record->kind == PS_RECORD_PUSH || record->kind == PS_RECORD_STAGE;
    enum ps_status status = push ? check_push(lane, record, err) : PS_OK;
    if (status != PS_OK) {
        return status;
    }
    bool first = slot->n_epochs == 0;
    status = ps_slot_replay(slot, record, err);
    if (status == PS_OK && first) { /* The slot has a line now, so it has tables. */
        status = ps_lane_hold_tables(lane, lane->n_tables, err);
    }
    return status == PS_OK ? apply(lane, record, err) : status;
}
