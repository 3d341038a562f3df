/* sparse_view.c — see sparse_view.h. */
#include "table/sparse_view.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "table/sparse_impl.h"

#define RADIX 256u

struct item {
    uint64_t key;
    uint32_t row;
};

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

static const float *row_at(const struct ps_sparse_view *view, uint32_t row)
{
    uint32_t nth = row & ((UINT32_C(1) << view->shape.page_bits) - 1);
    const struct ps_page *page = view->pages[row >> view->shape.page_bits];
    return page->weights + (size_t)nth * view->shape.row_floats;
}

/* In the row, or made. */
static const float *weights_of(const struct ps_sparse_view *view, const float *row)
{
    if (view->shape.n_kept > 0) {
        return row + PS_ROW_HEAD;
    }
    ps_row_weights(&view->shape, view->rate, row, view->weights);
    return view->weights;
}

static bool wanted(const struct ps_sparse_view *view, const float *row, bool skip_zeros)
{
    const uint32_t *head = ps_row_head_of(row);
    if (head[PS_ROW_T] == 0 || ps_row_expired(&view->shape, view->clock, head[PS_ROW_TOUCHED])) {
        return false;
    }
    if (!skip_zeros) {
        return true;
    }
    const float *weights = weights_of(view, row);
    for (uint32_t i = 0; i < view->shape.width; i++) {
        if (weights[i] != 0.0f) {
            return true;
        }
    }
    return false;
}

/* The wanted rows, to `items` if that is not NULL. @return how many */
static uint64_t collect(const struct ps_sparse_view *view, bool skip_zeros, struct item *items)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < view->n_pages; i++) {
        uint32_t first = i << view->shape.page_bits;
        uint32_t n_rows = view->pages[i]->n / view->shape.row_floats;
        for (uint32_t at = first; at < first + n_rows; at++) {
            const float *row = row_at(view, at);
            if (wanted(view, row, skip_zeros)) {
                if (items != NULL) {
                    items[n] = (struct item){.key = ps_row_key(row), .row = at};
                }
                n++;
            }
        }
    }
    return n;
}

/* One pass of a radix sort, by byte `nth` of the keys. False when all have the same. */
static bool sort_pass(const struct item *from, struct item *to, uint64_t n, uint32_t nth)
{
    uint64_t places[RADIX] = {0};
    uint32_t shift = 8 * nth;
    for (uint64_t i = 0; i < n; i++) {
        places[from[i].key >> shift & (RADIX - 1)]++;
    }
    if (n == 0 || places[from[0].key >> shift & (RADIX - 1)] == n) {
        return false;
    }
    uint64_t n_before = 0;
    for (uint32_t digit = 0; digit < RADIX; digit++) {
        uint64_t n_here = places[digit];
        places[digit] = n_before;
        n_before += n_here;
    }
    for (uint64_t i = 0; i < n; i++) {
        to[places[from[i].key >> shift & (RADIX - 1)]++] = from[i];
    }
    return true;
}

bool ps_sparse_view_order(struct ps_sparse_view *view, bool skip_zeros)
{
    PS_ASSERT(view->order == NULL);
    uint64_t n = collect(view, skip_zeros, NULL);
    uint32_t *order = ps_mem_array(view->mem, PS_MEM_PAGES, n, sizeof(order[0]));
    struct item *items = ps_mem_array(view->mem, PS_MEM_PAGES, n, sizeof(items[0]));
    struct item *spare = ps_mem_array(view->mem, PS_MEM_PAGES, n, sizeof(spare[0]));
    bool made = order != NULL && items != NULL && spare != NULL;
    if (made) {
        (void)collect(view, skip_zeros, items); /* Counted above. */
        for (uint32_t nth = 0; nth < sizeof(uint64_t); nth++) {
            if (sort_pass(items, spare, n, nth)) {
                struct item *sorted = spare;
                spare = items;
                items = sorted;
            }
        }
        for (uint64_t i = 0; i < n; i++) {
            order[i] = items[i].row;
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

struct ps_sparse_row ps_sparse_view_row(const struct ps_sparse_view *view, uint64_t nth)
{
    PS_ASSERT(nth < view->n_rows);
    const float *row = row_at(view, view->order[nth]);
    const uint32_t *head = ps_row_head_of(row);
    return (struct ps_sparse_row){.key = ps_row_key(row),
                                  .t = head[PS_ROW_T],
                                  .touched = head[PS_ROW_TOUCHED],
                                  .weights = weights_of(view, row),
                                  .state = ps_row_state(&view->shape, row)};
}
