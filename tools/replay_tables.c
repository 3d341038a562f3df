/* replay_tables.c — see replay.h: blocks, and rows of sparse tables with admission and expiry. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/rng.h"
#include "coordinator.pb-c.h"
#include "replay.h"
#include "wire/keys.h"

#define KEYS_AT_ONCE 256u
#define LINE_BYTES   64u /* Of the counters of keys: four for each key in one line. */
#define ADMIT_STREAM UINT64_C(0x61646d6974)

/* ---- Definitions ---------------------------------------------------------------------------- */

static bool read_rule(const Ps__V1__Optimizer *from, struct replay_rule *rule)
{
    static const struct {
        const char *name;
        enum replay_kind kind;
        uint32_t n_state;
    } kinds[] = {{"", REPLAY_SGD, 0},
                 {"sgd", REPLAY_SGD, 0},
                 {"momentum", REPLAY_MOMENTUM, 1},
                 {"adagrad", REPLAY_ADAGRAD, 1},
                 {"adam", REPLAY_ADAM, 2},
                 {"adamw", REPLAY_ADAM, 2},
                 {"ftrl", REPLAY_FTRL, 2}};
    const char *name = from != NULL ? from->name : "";
    *rule = (struct replay_rule){.beta = 1.0f};
    if (from != NULL) {
        rule->momentum = from->momentum;
        rule->beta1 = from->beta1;
        rule->beta2 = from->beta2;
        rule->epsilon = from->epsilon;
        rule->decay = from->weight_decay;
        rule->l1 = from->l1;
        rule->l2 = from->l2;
        rule->beta = from->beta > 0.0f ? from->beta : 1.0f;
    }
    replay_rule_init(rule);
    for (size_t i = 0; i < PS_ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            rule->kind = kinds[i].kind;
            rule->n_state = kinds[i].n_state;
            return true;
        }
    }
    return false;
}

static bool read_table(const Ps__V1__Table *from, struct replay_table *table)
{
    const Ps__V1__TableDefinition *def = from->definition;
    if (def == NULL || strlen(def->name) > PS_NAME_BYTES_MAX ||
        !read_rule(def->optimizer, &table->rule)) {
        return false;
    }
    table->known = true;
    table->sparse = def->kind == PS__V1__TABLE_KIND__SPARSE;
    memcpy(table->name, def->name, strlen(def->name) + 1);
    table->init = (struct ps_init){
        .kind = (enum ps_init_kind)def->init, .scale = def->init_scale, .seed = def->seed};
    table->n_elements = from->elements;
    table->block_floats = from->block_floats;
    table->n_blocks = from->blocks;
    table->width = def->width;
    table->admit_after = def->admit_after;
    table->expire_after = def->expire_after;
    return ps_init_valid(&table->init) &&
           (table->sparse ? table->width > 0
                          : table->block_floats > 0 && table->n_blocks > 0 &&
                                table->block_floats <= PS_BLOCK_FLOATS_MAX);
}

enum ps_status replay_define(struct replay *replay, const uint8_t *bytes, size_t n_bytes,
                             struct ps_error *err)
{
    Ps__V1__Table *packed = ps__v1__table__unpack(NULL, n_bytes, bytes);
    enum ps_status status = PS_OK;
    if (packed == NULL || packed->number >= PS_TABLES_MAX) {
        status = ps_fail(err, PS_ERR_CORRUPT, "a table's definition cannot be read");
    } else if (!replay->tables[packed->number].known) {
        struct replay_table *table = &replay->tables[packed->number];
        if (!read_table(packed, table)) {
            status = ps_fail(err, PS_ERR_UNSUPPORTED,
                             "table %u: its definition or its rule is not "
                             "known to this program",
                             packed->number);
        } else if (!table->sparse) {
            table->blocks =
                ps_mem_array(NULL, PS_MEM_OTHER, table->n_blocks, sizeof(struct replay_block *));
            status = table->blocks != NULL ? PS_OK : ps_fail(err, PS_ERR_NOMEM, "no memory");
        }
    }
    ps__v1__table__free_unpacked(packed, NULL);
    return status;
}

/* ---- Dense ---------------------------------------------------------------------------------- */

struct replay_block *replay_block(struct replay *replay, uint32_t number, uint32_t block)
{
    struct replay_table *table = number < PS_TABLES_MAX ? &replay->tables[number] : NULL;
    if (table == NULL || !table->known || table->sparse || block >= table->n_blocks) {
        return NULL;
    }
    if (table->blocks[block] != NULL) {
        return table->blocks[block];
    }
    uint64_t first = (uint64_t)block * table->block_floats;
    if (first >= table->n_elements) {
        return NULL;
    }
    uint64_t left = table->n_elements - first;
    uint32_t n = left < table->block_floats ? (uint32_t)left : table->block_floats;
    size_t n_floats = (size_t)n * (1 + table->rule.n_state);
    struct replay_block *made =
        ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*made) + n_floats * sizeof(float));
    if (made != NULL) { /* Zeroed. */
        *made = (struct replay_block){.n = n, .power = {1.0, 1.0}, .weights = (float *)(made + 1)};
        made->state = made->weights + n;
        ps_init_fill(&table->init, number, first, made->weights, n);
        table->blocks[block] = made;
    }
    return made;
}

enum ps_status replay_push_block(struct replay *replay, const struct ps_part *part, float rate,
                                 float scale, const uint8_t *grad, struct ps_error *err)
{
    struct replay_block *block = replay_block(replay, part->table, part->block);
    if (block == NULL || part->n_bytes != block->n * sizeof(float)) {
        return ps_fail(err, PS_ERR_CORRUPT, "table %u has no block %u of %u bytes", part->table,
                       part->block, part->n_bytes);
    }
    const struct replay_rule *rule = &replay->tables[part->table].rule;
    block->t++;
    block->version++;
    block->power[0] = block->power[0] * (double)rule->beta1;
    block->power[1] = block->power[1] * (double)rule->beta2;
    struct replay_step step = {.rule = rule,
                               .rate = rate,
                               .scale = scale,
                               .t = block->t,
                               .power1 = block->power[0],
                               .power2 = block->power[1]};
    replay_step(&step, block->weights, block->state, block->n, grad, block->n);
    return PS_OK;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

struct replay_rows *replay_rows(struct replay *replay, uint32_t number, uint32_t slot)
{
    struct replay_table *table = &replay->tables[number];
    PS_ASSERT(number < PS_TABLES_MAX && slot < PS_SLOTS && table->sparse);
    if (table->rows[slot] == NULL) {
        table->rows[slot] = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(struct replay_rows));
        if (table->rows[slot] != NULL && table->admit_after > 1) {
            table->rows[slot]->counts = ps_mem_alloc(NULL, PS_MEM_OTHER, PS_ADMIT_BYTES);
            if (table->rows[slot]->counts == NULL) {
                ps_mem_free(table->rows[slot]);
                table->rows[slot] = NULL;
            }
        }
    }
    return table->rows[slot];
}

static struct replay_row *place_of(struct replay_row *rows, uint64_t n_room, uint64_t key)
{
    uint64_t at = ps_mix64(key) & (n_room - 1);
    while (rows[at].floats != NULL && rows[at].key != key) {
        at = (at + 1) & (n_room - 1);
    }
    return &rows[at];
}

static bool grow(struct replay_rows *rows)
{
    uint64_t n_room = rows->n_room > 0 ? 2 * rows->n_room : 64;
    struct replay_row *more = ps_mem_array(NULL, PS_MEM_OTHER, n_room, sizeof(more[0]));
    for (uint64_t i = 0; i < rows->n_room && more != NULL; i++) {
        if (rows->rows[i].floats != NULL) {
            *place_of(more, n_room, rows->rows[i].key) = rows->rows[i];
        }
    }
    if (more != NULL) {
        ps_mem_free(rows->rows);
        rows->rows = more;
        rows->n_room = n_room;
    }
    return more != NULL;
}

struct replay_row *replay_row(const struct replay_table *table, struct replay_rows *rows,
                              uint64_t key)
{
    if (2 * rows->n >= rows->n_room && !grow(rows)) {
        return NULL;
    }
    struct replay_row *row = place_of(rows->rows, rows->n_room, key);
    if (row->floats == NULL) {
        row->floats = ps_mem_array(NULL, PS_MEM_OTHER,
                                   (size_t)table->width * (1 + table->rule.n_state), sizeof(float));
        if (row->floats == NULL) {
            return NULL;
        }
        row->key = key;
        rows->n++;
    }
    return row;
}

bool replay_lives(const struct replay_table *table, const struct replay_rows *rows,
                  const struct replay_row *row)
{
    return row->floats != NULL && row->t > 0 &&
           (table->expire_after == 0 || rows->clock <= row->touched ||
            rows->clock - row->touched <= table->expire_after);
}

/* Count a key without a row: a sketch of four counters a key, all of which age. */
static bool admitted(const struct replay_table *table, uint32_t number, struct replay_rows *rows,
                     uint64_t key)
{
    if (table->admit_after <= 1) {
        return true;
    }
    uint8_t *word = rows->counts + (size_t)rows->aged * sizeof(uint64_t);
    for (uint32_t i = 0; i < sizeof(uint64_t); i++) {
        word[i] = word[i] / 2;
    }
    rows->aged = (rows->aged + 1) % (PS_ADMIT_BYTES / (uint32_t)sizeof(uint64_t));
    uint64_t hash = ps_rng_at(table->init.seed ^ ADMIT_STREAM, number, key);
    uint8_t *line =
        rows->counts + (size_t)((hash >> 32) % (PS_ADMIT_BYTES / LINE_BYTES)) * LINE_BYTES;
    uint8_t *counter[4];
    uint8_t least = UINT8_MAX;
    for (uint32_t i = 0; i < 4; i++) {
        counter[i] = line + (size_t)i * (LINE_BYTES / 4) + ((hash >> (4 * i)) & 15u);
        least = *counter[i] < least ? *counter[i] : least;
    }
    uint32_t count = least;
    if (least < UINT8_MAX) {
        count = least + 1u;
        for (uint32_t i = 0; i < 4; i++) {
            *counter[i] = *counter[i] == least ? (uint8_t)count : *counter[i];
        }
    }
    return count >= table->admit_after;
}

/* As it stands when nothing has come of its first update. */
static bool unchanged(const struct replay_table *table, uint32_t number,
                      const struct replay_row *row, float *first)
{
    const float *state = row->floats + table->width;
    for (size_t i = 0; i < (size_t)table->width * table->rule.n_state; i++) {
        if (state[i] != 0.0f) {
            return false;
        }
    }
    ps_init_row(&table->init, number, row->key, first, table->width);
    return table->rule.kind == REPLAY_FTRL ||
           memcmp(row->floats, first, table->width * sizeof(float)) == 0;
}

static enum ps_status push_row(const struct replay_table *table, uint32_t number,
                               struct replay_rows *rows, const struct ps_record_push *push,
                               uint64_t key, const uint8_t *grad)
{
    static float first[PS_ROW_FLOATS_MAX];
    struct replay_row *row = replay_row(table, rows, key);
    if (row == NULL) {
        return PS_ERR_NOMEM;
    }
    bool lives = replay_lives(table, rows, row);
    if (!lives && !admitted(table, number, rows, key)) {
        row->t = 0;
        return PS_OK;
    }
    float *state = row->floats + table->width;
    if (!lives) {
        row->t = 0;
        ps_init_row(&table->init, number, key, row->floats, table->width);
        memset(state, 0, (size_t)table->width * table->rule.n_state * sizeof(float));
    } else if (table->rule.kind == REPLAY_FTRL) { /* They follow, with the rate of this push. */
        replay_derive(&table->rule, push->rate, row->floats, state, table->width);
    }
    row->t += row->t < UINT32_MAX ? 1 : 0;
    struct replay_step step = {.rule = &table->rule,
                               .rate = push->rate,
                               .scale = push->scale,
                               .t = row->t,
                               .power1 = replay_power(&table->rule, 0, row->t),
                               .power2 = replay_power(&table->rule, 1, row->t)};
    replay_step(&step, row->floats, state, table->width, grad, table->width);
    row->touched = rows->clock;
    if (!lives && unchanged(table, number, row, first)) {
        row->t = 0; /* None has come of it. */
    }
    return PS_OK;
}

enum ps_status replay_push_rows(struct replay *replay, uint32_t slot,
                                const struct ps_record_push *push, const struct ps_part *part,
                                const uint8_t *payload, struct ps_error *err)
{
    const struct replay_table *table =
        part->table < PS_TABLES_MAX ? &replay->tables[part->table] : NULL;
    if (table == NULL || !table->known || !table->sparse || part->n_key_bytes > part->n_bytes ||
        part->n_bytes - part->n_key_bytes !=
            (uint64_t)part->n_keys * table->width * sizeof(float)) {
        return ps_fail(err, PS_ERR_CORRUPT, "table %u has no such rows", part->table);
    }
    struct replay_rows *rows = replay_rows(replay, part->table, slot);
    if (rows == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for rows");
    }
    uint32_t clock = push->clock < UINT32_MAX ? (uint32_t)push->clock : UINT32_MAX;
    rows->clock = clock > rows->clock ? clock : rows->clock;
    rows->rate = push->rate;
    const struct ps_slice slice = {.data = payload, .n_bytes = part->n_key_bytes};
    struct ps_keys_reader reader = ps_keys_reader(ps_cursor_over(&slice, 1), part->n_keys);
    const uint8_t *grad = payload + part->n_key_bytes;
    uint64_t keys[KEYS_AT_ONCE];
    for (size_t n = 0; (n = ps_keys_next(&reader, keys, KEYS_AT_ONCE)) > 0;) {
        for (size_t i = 0; i < n; i++, grad += table->width * sizeof(float)) {
            if (push_row(table, part->table, rows, push, keys[i], grad) != PS_OK) {
                return ps_fail(err, PS_ERR_NOMEM, "no memory for rows");
            }
        }
    }
    return reader.failed
               ? ps_fail(err, PS_ERR_CORRUPT, "table '%s': keys cannot be read", table->name)
               : PS_OK;
}

/* ---- The end -------------------------------------------------------------------------------- */

static void forget_rows(struct replay_rows *rows)
{
    for (uint64_t i = 0; rows != NULL && i < rows->n_room; i++) {
        ps_mem_free(rows->rows[i].floats);
    }
    if (rows != NULL) {
        ps_mem_free(rows->rows);
        ps_mem_free(rows->counts);
    }
    ps_mem_free(rows);
}

void replay_forget(struct replay *replay)
{
    for (uint32_t i = 0; i < PS_TABLES_MAX; i++) {
        struct replay_table *table = &replay->tables[i];
        for (uint32_t b = 0; table->blocks != NULL && b < table->n_blocks; b++) {
            ps_mem_free(table->blocks[b]);
        }
        ps_mem_free(table->blocks);
        for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
            forget_rows(table->rows[slot]);
        }
        *table = (struct replay_table){0};
    }
    while (replay->staged != NULL) {
        struct replay_staged *staged = replay->staged;
        replay->staged = staged->next;
        ps_mem_free(staged);
    }
}
