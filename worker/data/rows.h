#ifndef PS_WORKER_DATA_ROWS_H
#define PS_WORKER_DATA_ROWS_H
/*
 * data/rows.h — some rows of sparse features, as readers make them and models take them.
 *
 *   labels   y0        y1        y2             [n_rows]
 *   lines    7         8         11             [n_rows]      of the part; 1 is its first line
 *   begin    0         3         4     7        [n_rows + 1]
 *   keys     k k k     k         k k k          [begin[n_rows]]
 *   values   v v v     v         v v v
 *   fields   f f f     f         f f f          the column that a feature comes from, or 0
 *
 * Values are finite and not 0: a feature that is 0 is not stored. Within a row no key comes twice.
 * Grows as rows are added and keeps its memory when cleared: the steady state allocates nothing.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct ps_mem;

struct ps_rows {
    struct ps_mem *mem;
    size_t n_rows;
    float *labels; /* NaN: the row has none (only where a reader may leave them out). */
    uint64_t *lines;
    uint64_t *begin; /* NULL until rows were reserved. */
    uint64_t *keys;
    float *values;
    uint16_t *fields;
    size_t rows_capacity;
    size_t features_capacity;
};

/** No rows yet; `mem` is the budget (class DATA) or NULL. Allocates nothing. */
void ps_rows_init(struct ps_rows *rows, struct ps_mem *mem);

void ps_rows_deinit(struct ps_rows *rows);

/** Forget the rows, keep the memory. */
void ps_rows_clear(struct ps_rows *rows);

/** Features of all rows. */
static inline size_t ps_rows_features(const struct ps_rows *rows)
{
    return rows->n_rows == 0 ? 0 : (size_t)rows->begin[rows->n_rows];
}

/**
 * Room for one more row of up to `n_features`: afterwards the caller may write features from
 * ps_rows_features() on and close the row with ps_rows_close. The rows are unchanged either way.
 * @return false: no memory
 */
PS_MUST_CHECK bool ps_rows_reserve(struct ps_rows *rows, size_t n_features);

/** The row that ends before feature `end` is whole. Reserved before. */
void ps_rows_close(struct ps_rows *rows, float label, uint64_t line, size_t end);

/**
 * Add copies of the rows `ids` [n] of `from`, which are other rows than these.
 * @return false: no memory; the rows are unchanged
 */
PS_MUST_CHECK bool ps_rows_gather(struct ps_rows *rows, const struct ps_rows *from,
                                  const uint32_t *ids, size_t n);

/**
 * Order the features [first, end) by key and add up those of one key. Not one allocation, n log n.
 * @return the new end
 */
size_t ps_rows_tidy(struct ps_rows *rows, size_t first, size_t end);

#endif
