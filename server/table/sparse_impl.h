#ifndef PS_SERVER_TABLE_SPARSE_IMPL_H
#define PS_SERVER_TABLE_SPARSE_IMPL_H
/*
 * table/sparse_impl.h — rows in pages. Private to this folder.
 *
 * A row is four 32-bit words (key low, key high, t, touched) and its floats: weights, unless they
 * follow from the state, and state. t is 0 in a row that is free; its key is then the next free row
 * of the page + 1.
 */
#include <stdint.h>
#include <string.h>

#include "table/sparse.h"

enum {
    PS_ROW_KEY,
    PS_ROW_KEY_HIGH,
    PS_ROW_T,
    PS_ROW_TOUCHED,
    PS_ROW_HEAD /* Words before the floats. */
};

static inline uint32_t *ps_row_head(float *row)
{
    return (uint32_t *)(void *)row;
}

static inline const uint32_t *ps_row_head_of(const float *row)
{
    return (const uint32_t *)(const void *)row;
}

static inline uint64_t ps_row_key(const float *row)
{
    const uint32_t *head = ps_row_head_of(row);
    return (uint64_t)head[PS_ROW_KEY_HIGH] << 32 | head[PS_ROW_KEY];
}

static inline const float *ps_row_state(const struct ps_sparse_shape *shape, const float *row)
{
    return row + PS_ROW_HEAD + shape->n_kept;
}

/** The weights of a row, as they are with `rate`, to `out` [width]. */
static inline void ps_row_weights(const struct ps_sparse_shape *shape, float rate, const float *row,
                                  float *out)
{
    if (shape->n_kept > 0) {
        memcpy(out, row + PS_ROW_HEAD, shape->width * sizeof(float));
    } else {
        shape->formula.weights(shape->formula.of, rate, row + PS_ROW_HEAD, shape->width, out);
    }
}

/** A row by its number. */
static inline float *ps_row_in(const struct ps_sparse *sparse, uint32_t row)
{
    uint32_t nth = row & ((UINT32_C(1) << sparse->shape.page_bits) - 1);
    return sparse->pages[row >> sparse->shape.page_bits].rows +
           (size_t)nth * sparse->shape.row_floats;
}

/** Has a row of this age expired at `clock`? */
static inline bool ps_row_expired(const struct ps_sparse_shape *shape, uint32_t clock,
                                  uint32_t touched)
{
    return shape->expire_after != 0 && clock > touched && clock - touched > shape->expire_after;
}

/** Does a row stand for a key? Not a free one, none that has expired at `clock`. */
static inline bool ps_row_live(const struct ps_sparse_shape *shape, uint32_t clock,
                               const float *row)
{
    const uint32_t *head = ps_row_head_of(row);
    return head[PS_ROW_T] != 0 && !ps_row_expired(shape, clock, head[PS_ROW_TOUCHED]);
}

/** The weights of a row: in it, or made in `room` [width]. */
static inline const float *ps_row_weights_at(const struct ps_sparse_shape *shape, float rate,
                                             const float *row, float *room)
{
    if (shape->n_kept > 0) {
        return row + PS_ROW_HEAD;
    }
    ps_row_weights(shape, rate, row, room);
    return room;
}

static inline bool ps_row_zero(const float *weights, uint32_t width)
{
    uint32_t i = 0;
    while (i < width && !(weights[i] < 0.0f) && !(weights[i] > 0.0f)) {
        i++;
    }
    return i == width;
}

/** How many rows a page has room for: while it is the only one, fewer than others. */
static inline uint32_t ps_page_rows(const struct ps_sparse_shape *shape, const struct ps_page *page)
{
    return page->n / shape->row_floats;
}

/**
 * Put `items` [n] in the order of their keys, by a radix sort that needs `spare` [n].
 * @return where they are then: one of the two
 */
struct ps_sparse_item *ps_sparse_sort(struct ps_sparse_item *items, struct ps_sparse_item *spare,
                                      uint64_t n);

/** Rows per page, and floats per row. */
struct ps_sparse_shape ps_sparse_shape_of(const struct ps_sparse_spec *spec);

/** Give up all pages. */
void ps_sparse_drop_pages(struct ps_sparse *sparse);

/** Replace a page that is lent by a twin, if somebody still borrows it. False without memory. */
PS_MUST_CHECK bool ps_sparse_make_own(struct ps_sparse *sparse, uint32_t number,
                                      enum ps_page_budget budget);

/** As above, for any page. */
PS_MUST_CHECK static inline bool ps_sparse_make_writable(struct ps_sparse *sparse, uint32_t number,
                                                         enum ps_page_budget budget)
{
    return !sparse->pages[number].lent || ps_sparse_make_own(sparse, number, budget);
}

/**
 * Have `n` free rows beyond those promised, in pages that nobody borrows. Promises nothing.
 * False without memory.
 */
PS_MUST_CHECK bool ps_sparse_have_free(struct ps_sparse *sparse, uint64_t n,
                                       enum ps_page_budget budget);

/** Take a free row; there is one. Its page is not borrowed, its floats are undefined. */
uint32_t ps_sparse_take_row(struct ps_sparse *sparse);

/** Make a row free whose page nobody borrows. */
void ps_sparse_give_row(struct ps_sparse *sparse, uint32_t row);

/** Give an empty page back to the budget, if its rows are not promised. */
void ps_sparse_drop_empty(struct ps_sparse *sparse, uint32_t number);

#endif
