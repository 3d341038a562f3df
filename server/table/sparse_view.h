#ifndef PS_SERVER_TABLE_SPARSE_VIEW_H
#define PS_SERVER_TABLE_SPARSE_VIEW_H
/*
 * table/sparse_view.h — the rows of a sparse table as they were at one instant.
 *
 * Taken on the lane in a time that grows with the number of pages, not of rows: pages are borrowed,
 * nothing is copied. Reading, ordering and giving back are for any one thread, also after the table
 * is gone; meanwhile an update of a page of the view costs the table a copy of it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/mem.h"
#include "table/page.h"
#include "table/sparse.h"

struct ps_sparse_view {
    struct ps_sparse_shape shape;
    uint32_t clock;
    float rate;
    float *weights; /* [width] Of the row shown last, where they follow from the state. */
    struct ps_mem *mem;
    enum ps_page_reason reason;
    uint32_t n_pages;
    uint32_t *order; /* [n_rows] Row numbers, after ps_sparse_view_order. */
    uint64_t n_rows;
    struct ps_page *pages[]; /* [n_pages] */
};

/** Borrow all pages. Lane thread. NULL without memory. */
PS_MUST_CHECK struct ps_sparse_view *ps_sparse_view_take(struct ps_sparse *sparse,
                                                         enum ps_page_reason reason);

/** Give the pages back. NULL does nothing. */
void ps_sparse_view_drop(struct ps_sparse_view *view);

/**
 * Find the view's rows and put them into the order of their keys, ascending. Expired rows are left
 * out; with `skip_zeros`, so are those whose weights are all exactly 0 (they are what a key without
 * a row answers if the table starts from zeros).
 *
 * @return false without memory: 36 bytes for each row, 4 of them until the view is dropped
 */
PS_MUST_CHECK bool ps_sparse_view_order(struct ps_sparse_view *view, bool skip_zeros);

/** How many rows that order would have with zeros, without the memory for it. */
uint64_t ps_sparse_view_count(const struct ps_sparse_view *view);

/**
 * Row `nth` of that order as it is kept: `weights` is NULL where they follow from the state. Good
 * until the view is dropped.
 */
struct ps_sparse_row ps_sparse_view_kept(const struct ps_sparse_view *view, uint64_t nth);

/** Row `nth` of that order; nth < n_rows. What it shows is good until the next call. */
struct ps_sparse_row ps_sparse_view_row(const struct ps_sparse_view *view, uint64_t nth);

#endif
