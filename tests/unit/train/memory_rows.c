/* memory_rows.c — see memory_rows.h. */
#include "unit/train/memory_rows.h"

#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/attr.h"

static const float *find(const struct memory_table *table, uint64_t key)
{
    for (uint32_t i = 0; i < table->n; i++) {
        if (table->keys[i] == key) {
            return table->rows + i * table->width;
        }
    }
    return NULL;
}

static enum ps_status fetch(struct ps_row_source *source, uint32_t t, const uint64_t *keys,
                            size_t n, float *out, struct ps_error *err PS_UNUSED)
{
    struct memory_rows *memory = PS_CONTAINER_OF(source, struct memory_rows, source);
    const struct memory_table *table = &memory->tables[t];
    for (size_t i = 0; i < n; i++, out += table->width) {
        const float *row = find(table, keys[i]);
        ck_assert(i == 0 || keys[i] > keys[i - 1]);
        if (row != NULL) {
            memcpy(out, row, table->width * sizeof(*out));
        } else {
            ps_init_row(&table->init, table->number, keys[i], out, table->width);
        }
    }
    return PS_OK;
}

static enum ps_status dense(struct ps_row_source *source, uint32_t t, float *out,
                            struct ps_error *err PS_UNUSED)
{
    struct memory_rows *memory = PS_CONTAINER_OF(source, struct memory_rows, source);
    memcpy(out, memory->dense[t], memory->n_values[t] * sizeof(*out));
    return PS_OK;
}

static bool is_zero(const float *row, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        if (row[i] > 0.0f || row[i] < 0.0f) {
            return false;
        }
    }
    return true;
}

static enum ps_status walk_rows(struct ps_row_source *source, struct ps_row_walk *walk,
                                struct ps_error *err)
{
    struct memory_rows *memory = PS_CONTAINER_OF(source, struct memory_rows, source);
    const struct memory_table *table = &memory->tables[walk->table];
    uint64_t n_all = memory->walks_twice ? 2 * (uint64_t)table->n : table->n;
    uint32_t n_max = walk->n_room;
    n_max = memory->n_at_once > 0 && memory->n_at_once < n_max ? memory->n_at_once : n_max;
    walk->n = 0;
    for (; walk->at < n_all && walk->n < n_max; walk->at++) {
        if (memory->n_late > 0 && walk->at == n_all / 2) {
            memory->n_late--;
            return ps_fail(err, PS_ERR_LATE, "rows have moved");
        }
        uint64_t i = walk->at % table->n;
        const float *row = table->rows + i * table->width;
        float *to = walk->values + walk->n * table->width;
        if (walk->skip_zeros && is_zero(row, table->width)) {
            continue;
        }
        memcpy(to, row, table->width * sizeof(*row));
        to[0] += memory->walks_twice && walk->at < table->n ? 1.0f : 0.0f;
        walk->keys[walk->n++] = table->keys[i];
    }
    walk->done = walk->at == n_all;
    return PS_OK;
}

static void close_rows(struct ps_row_source *source PS_UNUSED) {}

static const struct ps_row_source_ops ops = {
    .fetch = fetch, .dense = dense, .walk = walk_rows, .close = close_rows};

void memory_rows_init(struct memory_rows *memory, const struct ps_sparse_model *model)
{
    *memory = (struct memory_rows){.source.ops = &ops};
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        struct memory_table *table = &memory->tables[t];
        table->width = model->sparse[t].width;
        table->number = 3 + t;
        table->init = model->sparse[t].init;
        table->rows = calloc(MEMORY_ROWS_MAX * table->width, sizeof(*table->rows));
        ck_assert_ptr_nonnull(table->rows);
        memory->source.numbers[t] = table->number;
    }
    for (uint32_t t = 0; t < model->n_dense; t++) {
        memory->n_values[t] = (size_t)model->dense[t].n_values;
        memory->dense[t] = calloc(memory->n_values[t], sizeof(float));
        ck_assert_ptr_nonnull(memory->dense[t]);
        for (size_t i = 0; i < memory->n_values[t]; i++) {
            memory->dense[t][i] = 0.5f + (float)i;
        }
    }
}

void memory_rows_deinit(struct memory_rows *memory)
{
    for (size_t t = 0; t < PS_ARRAY_LEN(memory->tables); t++) {
        free(memory->tables[t].rows);
    }
    for (size_t t = 0; t < PS_ARRAY_LEN(memory->dense); t++) {
        free(memory->dense[t]);
    }
}

float *memory_rows_add(struct memory_rows *memory, uint32_t t, uint64_t key)
{
    struct memory_table *table = &memory->tables[t];
    ck_assert_uint_lt(table->n, MEMORY_ROWS_MAX);
    table->keys[table->n] = key;
    return table->rows + table->n++ * table->width;
}
