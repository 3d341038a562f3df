/* rows.c — see rows.h. */
#include "data/rows.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"

#define ROWS_MIN     64u
#define FEATURES_MIN 1024u
#define NEAR         ((size_t)4) /* Rows ahead: longer than memory takes. */
#define LINE_KEYS    8u          /* Of one line of the caches. */

void ps_rows_init(struct ps_rows *rows, struct ps_mem *mem)
{
    *rows = (struct ps_rows){.mem = mem};
}

void ps_rows_deinit(struct ps_rows *rows)
{
    ps_mem_free(rows->labels);
    ps_mem_free(rows->lines);
    ps_mem_free(rows->begin);
    ps_mem_free(rows->keys);
    ps_mem_free(rows->values);
    ps_mem_free(rows->fields);
    *rows = (struct ps_rows){.mem = rows->mem};
}

void ps_rows_clear(struct ps_rows *rows)
{
    rows->n_rows = 0;
}

/* `array` with room for `n` elements, or NULL: then it is as it was. */
static void *grown(struct ps_rows *rows, void *array, size_t n, size_t size)
{
    size_t n_bytes = 0;
    return ps_mul_size(n, size, &n_bytes) ? ps_mem_grow(rows->mem, PS_MEM_DATA, array, n_bytes)
                                          : NULL;
}

static size_t next_capacity(size_t capacity, size_t n_min, size_t n_wanted)
{
    capacity = capacity < n_min ? n_min : capacity;
    while (capacity < n_wanted) {
        capacity *= 2;
    }
    return capacity;
}

/* What grew before a refusal stays: it is larger than rows_capacity says, and does no harm. */
static bool grow_rows(struct ps_rows *rows, size_t n_wanted)
{
    size_t n = next_capacity(rows->rows_capacity, ROWS_MIN, n_wanted);
    float *labels = grown(rows, rows->labels, n, sizeof(*labels));
    rows->labels = labels != NULL ? labels : rows->labels;
    uint64_t *lines = labels != NULL ? grown(rows, rows->lines, n, sizeof(*lines)) : NULL;
    rows->lines = lines != NULL ? lines : rows->lines;
    uint64_t *begin = lines != NULL ? grown(rows, rows->begin, n + 1, sizeof(*begin)) : NULL;
    if (begin == NULL) {
        return false;
    }
    rows->begin = begin;
    rows->rows_capacity = n;
    return true;
}

static bool grow_features(struct ps_rows *rows, size_t n_wanted)
{
    size_t n = next_capacity(rows->features_capacity, FEATURES_MIN, n_wanted);
    uint64_t *keys = grown(rows, rows->keys, n, sizeof(*keys));
    rows->keys = keys != NULL ? keys : rows->keys;
    float *values = keys != NULL ? grown(rows, rows->values, n, sizeof(*values)) : NULL;
    rows->values = values != NULL ? values : rows->values;
    uint16_t *fields = values != NULL ? grown(rows, rows->fields, n, sizeof(*fields)) : NULL;
    if (fields == NULL) {
        return false;
    }
    rows->fields = fields;
    rows->features_capacity = n;
    return true;
}

bool ps_rows_reserve(struct ps_rows *rows, size_t n_features)
{
    PS_ASSERT(n_features <= SIZE_MAX / 4);
    if (rows->n_rows == rows->rows_capacity && !grow_rows(rows, rows->n_rows + 1)) {
        return false;
    }
    size_t n_wanted = ps_rows_features(rows) + n_features;
    return n_wanted <= rows->features_capacity || grow_features(rows, n_wanted);
}

void ps_rows_close(struct ps_rows *rows, float label, uint64_t line, size_t end)
{
    PS_ASSERT(rows->n_rows < rows->rows_capacity);
    PS_ASSERT(end <= rows->features_capacity);
    rows->labels[rows->n_rows] = label;
    rows->lines[rows->n_rows] = line;
    rows->begin[0] = 0;
    rows->n_rows++;
    rows->begin[rows->n_rows] = end;
}

/* Rows come from all over memory: have the next ones on the way while one is copied. */
static void announce(const struct ps_rows *from, const uint32_t *ids, size_t i, size_t n)
{
    if (i + 2 * NEAR < n) {
        size_t row = ids[i + 2 * NEAR];
        __builtin_prefetch(&from->begin[row]);
        __builtin_prefetch(&from->labels[row]);
        __builtin_prefetch(&from->lines[row]);
    }
    if (i + NEAR < n) {
        size_t first = (size_t)from->begin[ids[i + NEAR]];
        __builtin_prefetch(from->keys + first);
        __builtin_prefetch(from->keys + first + LINE_KEYS);
        __builtin_prefetch(from->values + first);
        __builtin_prefetch(from->fields + first);
    }
}

bool ps_rows_gather(struct ps_rows *rows, const struct ps_rows *from, const uint32_t *ids, size_t n)
{
    PS_ASSERT(rows != from);
    size_t n_features = ps_rows_features(rows);
    for (size_t i = 0; i < n; i++) {
        PS_ASSERT(ids[i] < from->n_rows);
        n_features += (size_t)(from->begin[ids[i] + 1] - from->begin[ids[i]]);
    }
    if ((rows->n_rows + n > rows->rows_capacity && !grow_rows(rows, rows->n_rows + n)) ||
        (n_features > rows->features_capacity && !grow_features(rows, n_features))) {
        return false;
    }
    size_t end = ps_rows_features(rows);
    for (size_t i = 0; i < n; i++) {
        announce(from, ids, i, n);
        size_t row = ids[i];
        size_t first = (size_t)from->begin[row];
        size_t n_own = (size_t)from->begin[row + 1] - first;
        if (n_own > 0) {
            memcpy(rows->keys + end, from->keys + first, n_own * sizeof(*rows->keys));
            memcpy(rows->values + end, from->values + first, n_own * sizeof(*rows->values));
            memcpy(rows->fields + end, from->fields + first, n_own * sizeof(*rows->fields));
        }
        end += n_own;
        ps_rows_close(rows, from->labels[row], from->lines[row], end);
    }
    return true;
}

static void swap(struct ps_rows *rows, size_t a, size_t b)
{
    uint64_t key = rows->keys[a];
    float value = rows->values[a];
    uint16_t field = rows->fields[a];
    rows->keys[a] = rows->keys[b];
    rows->values[a] = rows->values[b];
    rows->fields[a] = rows->fields[b];
    rows->keys[b] = key;
    rows->values[b] = value;
    rows->fields[b] = field;
}

/* Let element `at` of the heap [first, first + n) sink to its place. */
static void sink(struct ps_rows *rows, size_t first, size_t n, size_t at)
{
    const uint64_t *keys = rows->keys + first;
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && keys[child + 1] > keys[child]) {
            child++;
        }
        if (keys[at] >= keys[child]) {
            return;
        }
        swap(rows, first + at, first + child);
        at = child;
    }
}

size_t ps_rows_tidy(struct ps_rows *rows, size_t first, size_t end)
{
    PS_ASSERT(first <= end);
    PS_ASSERT(end <= rows->features_capacity);
    size_t n = end - first;
    for (size_t i = n / 2; i > 0; i--) {
        sink(rows, first, n, i - 1);
    }
    for (size_t i = n; i > 1; i--) {
        swap(rows, first, first + i - 1);
        sink(rows, first, i - 1, 0);
    }
    size_t kept = first;
    for (size_t i = first; i < end; i++) {
        if (kept > first && rows->keys[i] == rows->keys[kept - 1]) {
            rows->values[kept - 1] += rows->values[i];
            continue;
        }
        rows->keys[kept] = rows->keys[i];
        rows->values[kept] = rows->values[i];
        rows->fields[kept] = rows->fields[i];
        kept++;
    }
    return kept;
}
