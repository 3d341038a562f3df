/* replay_compare.c — see replay.h: snapshots into tables, and against them, bit by bit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "replay.h"

/* ---- Loading -------------------------------------------------------------------------------- */

static enum ps_status load_slot(void *arg, const struct ps_snap_slot *slot, const uint8_t *state,
                                size_t n_bytes, struct ps_error *err)
{
    struct replay *replay = arg;
    (void)state;
    (void)n_bytes;
    (void)err;
    replay->slots[slot->slot].position = slot->position;
    return PS_OK;
}

static enum ps_status load_block(void *arg, const struct ps_snap_block *from, struct ps_error *err)
{
    struct replay *replay = arg;
    const struct ps_dense_saved *saved = &from->saved;
    struct replay_block *block = replay_block(replay, from->table, from->block);
    if (block == NULL || block->n != saved->n ||
        replay->tables[from->table].rule.n_state != from->state_per_elem) {
        return ps_fail(err, PS_ERR_CORRUPT, "table %u has no block %u of %u floats", from->table,
                       from->block, saved->n);
    }
    memcpy(block->weights, saved->weights, block->n * sizeof(float));
    if (from->state_per_elem > 0) {
        memcpy(block->state, saved->state, (size_t)from->state_per_elem * block->n * sizeof(float));
    }
    block->t = saved->t;
    block->version = saved->version;
    /* A page that was never written has powers of 0 and begins with 1. */
    block->power[0] = saved->t > 0 ? saved->power[0] : 1.0;
    block->power[1] = saved->t > 0 ? saved->power[1] : 1.0;
    return PS_OK;
}

static enum ps_status load_rest(void *arg, uint32_t slot, uint32_t table,
                                const struct ps_sparse_rest *rest, uint32_t n_counts,
                                struct ps_error *err)
{
    struct replay *replay = arg;
    struct replay_rows *rows = replay_rows(replay, table, slot);
    if (rows == NULL || n_counts != (rows->counts != NULL ? PS_ADMIT_BYTES : 0)) {
        return ps_fail(err, PS_ERR_CORRUPT, "table %u slot %u: %u counters", table, slot, n_counts);
    }
    rows->clock = rest->clock;
    rows->rate = rest->rate;
    rows->aged = rest->aged;
    if (n_counts > 0) {
        memcpy(rows->counts, rest->counts, n_counts);
    }
    return PS_OK;
}

static enum ps_status load_row(void *arg, const struct ps_snap_row *from, struct ps_error *err)
{
    struct replay *replay = arg;
    const struct ps_sparse_row *saved = &from->saved;
    const struct replay_table *of = &replay->tables[from->table];
    struct replay_rows *rows = replay_rows(replay, from->table, from->slot);
    struct replay_row *row = rows != NULL ? replay_row(of, rows, saved->key) : NULL;
    if (row == NULL || from->width != of->width || from->state_per_elem != of->rule.n_state) {
        return ps_fail(err, PS_ERR_CORRUPT, "table %u slot %u: no such row", from->table,
                       from->slot);
    }
    row->t = saved->t;
    row->touched = saved->touched;
    if (saved->weights != NULL) {
        memcpy(row->floats, saved->weights, from->width * sizeof(float));
    }
    if (from->state_per_elem > 0) {
        memcpy(row->floats + from->width, saved->state,
               (size_t)from->state_per_elem * from->width * sizeof(float));
    }
    return PS_OK;
}

static enum ps_status load_staged(void *arg, const struct ps_record *record, struct ps_error *err)
{
    return replay_stage(arg, record, err);
}

static enum ps_status load_tables(struct replay *replay, const struct ps_snap *snap,
                                  struct ps_error *err)
{
    for (uint32_t table = 0; table < PS_TABLES_MAX; table++) {
        uint8_t *bytes = NULL;
        size_t n_bytes = 0;
        enum ps_status status = ps_snap_table(snap, table, &bytes, &n_bytes, err);
        if (status == PS_ERR_NOT_FOUND) {
            return PS_OK;
        }
        if (status == PS_OK) {
            status = replay_define(replay, bytes, n_bytes, err);
            ps_mem_free(bytes);
        }
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

/* The wanted slots that the snapshot has. */
static uint64_t slots_of(const struct replay *replay, const struct ps_snap *snap)
{
    uint64_t slots = 0;
    for (uint32_t i = 0; i < ps_snap_n_parts(snap); i++) {
        const struct ps_snap_part *part = ps_snap_part(snap, i);
        for (uint32_t s = 0; s < part->n_slots; s++) {
            if (replay->slots[part->slots[s].slot].wanted) {
                slots |= UINT64_C(1) << part->slots[s].slot;
            }
        }
    }
    return slots;
}

enum ps_status replay_load(struct replay *replay, const struct ps_snap *snap, struct ps_error *err)
{
    const struct ps_snap_visitor visitor = {.arg = replay,
                                            .slot = load_slot,
                                            .block = load_block,
                                            .rest = load_rest,
                                            .row = load_row,
                                            .staged = load_staged};
    enum ps_status status = load_tables(replay, snap, err);
    uint64_t slots = slots_of(replay, snap);
    return status == PS_OK && slots != 0 ? ps_snap_load(snap, slots, &visitor, err) : status;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

struct comparison {
    struct replay *replay;
    /* Rows of the (slot, table) that is being shown, */
    uint32_t slot;
    uint32_t table;
    uint64_t n_shown; /*   so many so far. */
    bool open;
};

static uint32_t bits_of(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof(bits));
    return bits;
}

static bool same_bits(float a, float b)
{
    return bits_of(a) == bits_of(b);
}

static bool same_powers(const double a[2], const double b[2])
{
    uint64_t bits[2][2];
    memcpy(bits[0], a, sizeof(bits[0]));
    memcpy(bits[1], b, sizeof(bits[1]));
    return bits[0][0] == bits[1][0] && bits[0][1] == bits[1][1];
}

/* The first of `n` floats that differ. */
static bool differ(const float *got, const float *want, size_t n, size_t *ret_at)
{
    for (size_t i = 0; i < n; i++) {
        if (!same_bits(got[i], want[i])) {
            *ret_at = i;
            return true;
        }
    }
    return false;
}

static enum ps_status say(const struct comparison *c, uint32_t slot, uint32_t table,
                          const char *what, uint64_t where, struct ps_error *err)
{
    const struct replay *replay = c->replay;
    return ps_fail(err, PS_ERR_CORRUPT,
                   "table '%s' slot %u position %" PRIu64 " differs: %s %" PRIu64,
                   replay->tables[table].name, slot, replay->slots[slot].target, what, where);
}

/* A float of a slot of a table that is not the same. */
struct difference {
    uint32_t slot;
    uint32_t table;
    const char *what;
    uint64_t where;
    float got;
    float want;
};

static enum ps_status say_floats(const struct comparison *c, const struct difference *d,
                                 struct ps_error *err)
{
    (void)say(c, d->slot, d->table, d->what, d->where, err);
    size_t n = strlen(err->text);
    (void)snprintf(err->text + n, sizeof(err->text) - n,
                   ": the snapshot has %.9g (0x%08" PRIx32 "), the log gives %.9g (0x%08" PRIx32
                   ")",
                   (double)d->want, bits_of(d->want), (double)d->got, bits_of(d->got));
    return PS_ERR_CORRUPT;
}

static enum ps_status compare_slot(void *arg, const struct ps_snap_slot *slot, const uint8_t *state,
                                   size_t n_bytes, struct ps_error *err)
{
    const struct comparison *c = arg;
    const struct replay_slot *mine = &c->replay->slots[slot->slot];
    (void)state;
    (void)n_bytes;
    if (mine->position != slot->position) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "slot %u: the log ends at position %" PRIu64 ", the snapshot has %" PRIu64,
                       slot->slot, mine->position, slot->position);
    }
    return PS_OK;
}

static enum ps_status compare_block(void *arg, const struct ps_snap_block *from,
                                    struct ps_error *err)
{
    struct comparison *c = arg;
    const struct ps_dense_saved *saved = &from->saved;
    const struct replay_block *block = replay_block(c->replay, from->table, from->block);
    struct difference d = {.slot = from->slot, .table = from->table};
    size_t at = 0;
    if (block == NULL || block->n != saved->n) {
        return say(c, from->slot, from->table, "there is no block", from->block, err);
    }
    uint64_t first = (uint64_t)from->block * c->replay->tables[from->table].block_floats;
    if (differ(block->weights, saved->weights, block->n, &at)) {
        d.what = "element";
        d.where = first + at;
        d.got = block->weights[at];
        d.want = saved->weights[at];
        return say_floats(c, &d, err);
    }
    for (uint32_t k = 0; k < from->state_per_elem; k++) {
        const float *got = block->state + (size_t)k * block->n;
        const float *want = saved->state + (size_t)k * block->n;
        if (differ(got, want, block->n, &at)) {
            d.what = "state of element";
            d.where = first + at;
            d.got = got[at];
            d.want = want[at];
            return say_floats(c, &d, err);
        }
    }
    bool powers = saved->t == 0 || same_powers(block->power, saved->power);
    if (block->t != saved->t || block->version != saved->version || !powers) {
        return say(c, from->slot, from->table, "counters of block", from->block, err);
    }
    c->replay->n_blocks++;
    return PS_OK;
}

/* All rows of a slot were shown: the log has no more. */
static enum ps_status finish_rows(struct comparison *c, struct ps_error *err)
{
    if (!c->open) {
        return PS_OK;
    }
    c->open = false;
    const struct replay_table *table = &c->replay->tables[c->table];
    const struct replay_rows *rows = replay_rows(c->replay, c->table, c->slot);
    uint64_t n = 0;
    for (uint64_t i = 0; rows != NULL && i < rows->n_room; i++) {
        n += replay_lives(table, rows, &rows->rows[i]) ? 1 : 0;
    }
    return n == c->n_shown
               ? PS_OK
               : say(c, c->slot, c->table, "rows that only the log has:", n - c->n_shown, err);
}

static enum ps_status compare_rest(void *arg, uint32_t slot, uint32_t table,
                                   const struct ps_sparse_rest *rest, uint32_t n_counts,
                                   struct ps_error *err)
{
    struct comparison *c = arg;
    enum ps_status status = finish_rows(c, err);
    const struct replay_rows *rows = replay_rows(c->replay, table, slot);
    if (status != PS_OK || rows == NULL) {
        return status != PS_OK ? status : ps_fail(err, PS_ERR_NOMEM, "no memory");
    }
    c->open = true;
    c->slot = slot;
    c->table = table;
    c->n_shown = 0;
    if (rows->clock != rest->clock || !same_bits(rows->rate, rest->rate)) {
        return say(c, slot, table, "clock or rate; the log's clock is", rows->clock, err);
    }
    for (uint32_t i = 0; i < n_counts; i++) {
        if (rows->aged != rest->aged || rows->counts[i] != rest->counts[i]) {
            return say(c, slot, table, "counter of keys", i, err);
        }
    }
    return PS_OK;
}

static enum ps_status compare_row(void *arg, const struct ps_snap_row *from, struct ps_error *err)
{
    struct comparison *c = arg;
    const struct ps_sparse_row *want = &from->saved;
    const struct replay_table *of = &c->replay->tables[from->table];
    struct replay_rows *rows = replay_rows(c->replay, from->table, from->slot);
    const struct replay_row *row = rows != NULL ? replay_row(of, rows, want->key) : NULL;
    struct difference d = {.slot = from->slot, .table = from->table, .where = want->key};
    size_t at = 0;
    if (row == NULL || !replay_lives(of, rows, row)) {
        return say(c, from->slot, from->table, "only the snapshot has key", want->key, err);
    }
    if (want->weights != NULL && differ(row->floats, want->weights, from->width, &at)) {
        d.what = "weights of key";
        d.got = row->floats[at];
        d.want = want->weights[at];
        return say_floats(c, &d, err);
    }
    if (from->state_per_elem > 0 && differ(row->floats + from->width, want->state,
                                           (size_t)from->state_per_elem * from->width, &at)) {
        d.what = "state of key";
        d.got = row->floats[from->width + at];
        d.want = want->state[at];
        return say_floats(c, &d, err);
    }
    if (row->t != want->t || row->touched != want->touched) {
        return say(c, from->slot, from->table, "counters of key", want->key, err);
    }
    c->n_shown++;
    c->replay->n_rows++;
    return PS_OK;
}

enum ps_status replay_compare(struct replay *replay, const struct ps_snap *snap,
                              struct ps_error *err)
{
    struct comparison c = {.replay = replay};
    const struct ps_snap_visitor visitor = {.arg = &c,
                                            .slot = compare_slot,
                                            .block = compare_block,
                                            .rest = compare_rest,
                                            .row = compare_row};
    enum ps_status status = ps_snap_load(snap, slots_of(replay, snap), &visitor, err);
    return status == PS_OK ? finish_rows(&c, err) : status;
}
