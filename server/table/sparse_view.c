/* sparse_view.c — see sparse_view.h. */
#include "table/sparse_view.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "table/sparse_impl.h"

#define ROWS_AHEAD 16u /* Fetched before they are needed: rows in order of key lie anywhere. */

struct ps_sparse_view *ps_sparse_view_take(struct ps_sparse *sparse, enum ps_page_reason reason)
{
    struct ps_sparse_view *view = ps_mem_alloc(
        sparse->mem, PS_MEM_PAGES, sizeof(*view) + sparse->n_pages * sizeof(struct ps_page *));
    if (view == NULL) {
        return NULL;
    }
    view->weights = ps_mem_array(sparse->mem, PS_MEM_PAGES, sparse->spec.width, sizeof(float));
    if (view->weights == NULL) {
        ps_mem_free(view);
        return NULL;
    }
    view->shape = sparse->shape;
    view->clock = sparse->clock;
    view->rate = sparse->rate;
    view->mem = sparse->mem;
    view->reason = reason;
    for (uint32_t i = 0; i < sparse->n_pages; i++) {
        if (sparse->pages[i].page != NULL && sparse->pages[i].n_live > 0) {
            sparse->pages[i].lent = true;
            view->pages[view->n_pages] = sparse->pages[i].page;
            ps_page_ref(view->pages[view->n_pages], reason);
            view->n_pages++;
        }
    }
    return view;
}

void ps_sparse_view_drop(struct ps_sparse_view *view)
{
    if (view == NULL) {
        return;
    }
    for (uint32_t i = 0; i < view->n_pages; i++) {
        ps_page_unref(view->pages[i], view->reason);
    }
    ps_mem_free(view->order);
    ps_mem_free(view->weights);
    ps_mem_free(view);
}

/* NULL: the page is shorter. */
static const float *row_at(const struct ps_sparse_view *view, uint32_t row)
{
    uint32_t nth = row & ((UINT32_C(1) << view->shape.page_bits) - 1);
    const struct ps_page *page = view->pages[row >> view->shape.page_bits];
    size_t first = (size_t)nth * view->shape.row_floats;
    return first < page->n ? page->weights + first : NULL;
}

static const float *weights_of(const struct ps_sparse_view *view, const float *row)
{
    return ps_row_weights_at(&view->shape, view->rate, row, view->weights);
}

static bool wanted(const struct ps_sparse_view *view, const float *row, bool skip_zeros)
{
    return ps_row_live(&view->shape, view->clock, row) &&
           !(skip_zeros && ps_row_zero(weights_of(view, row), view->shape.width));
}

/* The wanted rows, to `items` if that is not NULL. @return how many */
static uint64_t collect(const struct ps_sparse_view *view, bool skip_zeros,
                        struct ps_sparse_item *items)
{
    uint64_t n = 0;
    uint32_t n_all = view->n_pages << view->shape.page_bits;
    for (uint32_t at = 0; at < n_all; at++) {
        const float *row = row_at(view, at);
        if (row == NULL || !wanted(view, row, skip_zeros)) {
            continue;
        }
        if (items != NULL) {
            items[n] = (struct ps_sparse_item){.key = ps_row_key(row), .row = at};
        }
        n++;
    }
    return n;
}

bool ps_sparse_view_order(struct ps_sparse_view *view, bool skip_zeros)
{
    PS_ASSERT(view->order == NULL);
    uint64_t n = collect(view, skip_zeros, NULL);
    uint32_t *order = ps_mem_array(view->mem, PS_MEM_PAGES, n, sizeof(order[0]));
    struct ps_sparse_item *items = ps_mem_array(view->mem, PS_MEM_PAGES, n, sizeof(items[0]));
    struct ps_sparse_item *spare = ps_mem_array(view->mem, PS_MEM_PAGES, n, sizeof(spare[0]));
    bool made = order != NULL && items != NULL && spare != NULL;
    if (made) {
        (void)collect(view, skip_zeros, items); /* Counted above. */
        const struct ps_sparse_item *sorted = ps_sparse_sort(items, spare, n);
        for (uint64_t i = 0; i < n; i++) {
            order[i] = sorted[i].row;
        }
        view->order = order;
        view->n_rows = n;
    } else {
        ps_mem_free(order);
    }
    ps_mem_free(items);
    ps_mem_free(spare);
    return made;
}

uint64_t ps_sparse_view_count(const struct ps_sparse_view *view)
{
    return collect(view, false, NULL);
}

static const float *nth_row(const struct ps_sparse_view *view, uint64_t nth)
{
    PS_ASSERT(nth < view->n_rows);
    const float *row = row_at(view, view->order[nth]);
    PS_ASSERT(row != NULL);
    return row;
}

static struct ps_sparse_row show(const struct ps_sparse_view *view, const float *row,
                                 const float *weights)
{
    const uint32_t *head = ps_row_head_of(row);
    return (struct ps_sparse_row){.key = ps_row_key(row),
                                  .t = head[PS_ROW_T],
                                  .touched = head[PS_ROW_TOUCHED],
                                  .weights = weights,
                                  .state = ps_row_state(&view->shape, row)};
}

struct ps_sparse_row ps_sparse_view_kept(const struct ps_sparse_view *view, uint64_t nth)
{
    const float *row = nth_row(view, nth);
    if (nth + ROWS_AHEAD < view->n_rows) {
        __builtin_prefetch(row_at(view, view->order[nth + ROWS_AHEAD]));
    }
    return show(view, row, view->shape.n_kept > 0 ? row + PS_ROW_HEAD : NULL);
}

struct ps_sparse_row ps_sparse_view_row(const struct ps_sparse_view *view, uint64_t nth)
{
    const float *row = nth_row(view, nth);
    return show(view, row, weights_of(view, row));
}
