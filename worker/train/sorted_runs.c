/* sorted_runs.c — see sorted_runs.h. */
#include "train/sorted_runs.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define RUNS_FIRST  16u
#define SPILL_ALIGN 8u /* Keys are read where they lie. */

void ps_runs_init(struct ps_runs *runs, struct ps_mem *mem, struct ps_spill *spill, size_t width)
{
    *runs = (struct ps_runs){.mem = mem, .spill = spill, .width = width};
    ps_unique_init(&runs->unique, mem);
}

void ps_runs_deinit(struct ps_runs *runs)
{
    ps_mem_free(runs->runs);
    ps_mem_free(runs->keys);
    ps_mem_free(runs->places);
    ps_mem_free(runs->rows);
    ps_unique_deinit(&runs->unique);
    *runs = (struct ps_runs){0};
}

void ps_runs_clear(struct ps_runs *runs)
{
    runs->n_runs = 0;
}

static enum ps_status no_memory(struct ps_error *err, size_t n)
{
    return ps_fail(err, PS_ERR_NOMEM, "no memory to sort %zu rows", n);
}

static enum ps_status reserve(struct ps_runs *runs, size_t n, struct ps_error *err)
{
    if (runs->n_runs == runs->capacity) {
        uint32_t capacity = runs->capacity == 0 ? RUNS_FIRST : 2 * runs->capacity;
        struct ps_run *grown =
            ps_mem_grow(runs->mem, PS_MEM_OTHER, runs->runs, capacity * sizeof(*runs->runs));
        if (grown == NULL) {
            return no_memory(err, n);
        }
        runs->runs = grown;
        runs->capacity = capacity;
    }
    if (n <= runs->n_scratch) {
        return PS_OK;
    }
    ps_mem_free(runs->keys);
    ps_mem_free(runs->places);
    ps_mem_free(runs->rows);
    runs->n_scratch = 0;
    runs->keys = ps_mem_array(runs->mem, PS_MEM_OTHER, n, sizeof(*runs->keys));
    runs->places = ps_mem_array(runs->mem, PS_MEM_OTHER, n, sizeof(*runs->places));
    runs->rows = ps_mem_array(runs->mem, PS_MEM_OTHER, n, runs->width * sizeof(*runs->rows));
    if (runs->keys == NULL || runs->places == NULL || runs->rows == NULL ||
        ps_unique_reserve(&runs->unique, n) != PS_OK) {
        return no_memory(err, n);
    }
    runs->n_scratch = n;
    return PS_OK;
}

static enum ps_status align(struct ps_spill *spill, struct ps_error *err)
{
    static const uint8_t zeros[SPILL_ALIGN];
    size_t n_over = (size_t)(spill->n_bytes % SPILL_ALIGN);
    return n_over == 0 ? PS_OK : ps_spill_add(spill, zeros, SPILL_ALIGN - n_over, err);
}

enum ps_status ps_runs_add(struct ps_runs *runs, const uint64_t *keys, const float *rows,
                           uint32_t n, struct ps_error *err)
{
    size_t row_bytes = runs->width * sizeof(*rows);
    if (n == 0) {
        return PS_OK;
    }
    enum ps_status status = reserve(runs, n, err);
    status = status == PS_OK ? align(runs->spill, err) : status;
    if (status != PS_OK) {
        return status;
    }
    struct ps_unique_keys all = {.keys = keys, .n = n};
    uint32_t n_kept = ps_unique_find(&runs->unique, &all, runs->keys, runs->places);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(runs->rows + runs->places[i] * runs->width, rows + i * runs->width, row_bytes);
    }
    struct ps_run run = {.at = runs->spill->n_bytes, .n = n_kept};
    status = ps_spill_add(runs->spill, runs->keys, n_kept * sizeof(*keys), err);
    if (status == PS_OK) {
        status = ps_spill_add(runs->spill, runs->rows, n_kept * row_bytes, err);
    }
    if (status == PS_OK) {
        runs->runs[runs->n_runs++] = run;
    }
    return status;
}

/* ---- Merge --------------------------------------------------------------------------------- */

static bool before(const struct ps_run_head *a, const struct ps_run_head *b)
{
    return *a->keys != *b->keys ? *a->keys < *b->keys : a->run > b->run;
}

/* Let the head at `at` down to where it belongs. */
static void sink(struct ps_merge *merge, uint32_t at)
{
    struct ps_run_head *heads = merge->heads;
    for (;;) {
        uint32_t first = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < merge->n_heads; child++) {
            first = before(&heads[child], &heads[first]) ? child : first;
        }
        if (first == at) {
            return;
        }
        struct ps_run_head head = heads[at];
        heads[at] = heads[first];
        heads[first] = head;
        at = first;
    }
}

/* Data of runs are ours: aligned, as they were written. */
static const void *place(const uint8_t *data, uint64_t at)
{
    return data + at;
}

enum ps_status ps_merge_begin(struct ps_merge *merge, const struct ps_runs *runs,
                              const uint8_t *data, struct ps_error *err)
{
    *merge = (struct ps_merge){.width = runs->width, .n_heads = runs->n_runs};
    merge->heads = ps_mem_array(runs->mem, PS_MEM_OTHER, runs->n_runs, sizeof(*merge->heads));
    if (merge->heads == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to merge %u runs", runs->n_runs);
    }
    for (uint32_t i = 0; i < runs->n_runs; i++) {
        const struct ps_run *run = &runs->runs[i];
        merge->heads[i] = (struct ps_run_head){
            .keys = place(data, run->at),
            .rows = place(data, run->at + run->n * sizeof(uint64_t)),
            .n_left = run->n,
            .run = i,
        };
    }
    for (uint32_t i = runs->n_runs / 2; i > 0; i--) {
        sink(merge, i - 1);
    }
    return PS_OK;
}

static void advance(struct ps_merge *merge)
{
    struct ps_run_head *head = &merge->heads[0];
    head->keys++;
    head->rows += merge->width;
    head->n_left--;
    if (head->n_left == 0) {
        *head = merge->heads[--merge->n_heads];
    }
    sink(merge, 0);
}

bool ps_merge_next(struct ps_merge *merge, uint64_t *ret_key, const float **ret_row)
{
    if (merge->n_heads == 0) {
        return false;
    }
    uint64_t key = *merge->heads[0].keys;
    *ret_key = key;
    *ret_row = merge->heads[0].rows;
    do {
        advance(merge);
    } while (merge->n_heads > 0 && *merge->heads[0].keys == key);
    return true;
}

void ps_merge_end(struct ps_merge *merge)
{
    ps_mem_free(merge->heads);
    *merge = (struct ps_merge){0};
}
