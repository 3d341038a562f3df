/* sparse_page.c — pages of a sparse table and their free rows; see sparse_impl.h. */
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "table/sparse_impl.h"

#define PAGE_BYTES       (256u << 10) /* Copied as a whole when it is written while borrowed. */
#define PAGE_BITS_MIN    6u           /* 64 rows, however wide. */
#define PAGE_BITS_MAX    12u          /* 4,096 rows: beyond it larger pages save nothing. */
#define PAGE_FIRST_ROWS  8u           /* A slot with one key has so many. */
#define PAGE_PARTS       4u           /* Later pages begin with one in so many of their rows. */
#define PAGES_FIRST_ROOM 1u

struct ps_sparse_shape ps_sparse_shape_of(const struct ps_sparse_spec *spec)
{
    uint32_t n_kept = spec->formula.weights == NULL ? spec->width : 0;
    struct ps_sparse_shape shape = {.width = spec->width,
                                    .state_per_elem = spec->state_per_elem,
                                    .row_floats =
                                        PS_ROW_HEAD + n_kept + spec->width * spec->state_per_elem,
                                    .n_kept = n_kept,
                                    .formula = spec->formula,
                                    .page_bits = PAGE_BITS_MIN,
                                    .expire_after = spec->expire_after};
    while (shape.page_bits < PAGE_BITS_MAX &&
           ((size_t)shape.row_floats * sizeof(float) << (shape.page_bits + 1)) <= PAGE_BYTES) {
        shape.page_bits++;
    }
    return shape;
}

static uint32_t rows_per_page(const struct ps_sparse *sparse)
{
    return UINT32_C(1) << sparse->shape.page_bits;
}

/* ---- The list of pages with free rows ------------------------------------------------------- */

static void open_page(struct ps_sparse *sparse, uint32_t number)
{
    struct ps_sparse_page *page = &sparse->pages[number];
    page->before = 0;
    page->after = sparse->first_open;
    if (page->after != 0) {
        sparse->pages[page->after - 1].before = number + 1;
    }
    sparse->first_open = number + 1;
}

static void close_page(struct ps_sparse *sparse, uint32_t number)
{
    struct ps_sparse_page *page = &sparse->pages[number];
    if (page->after != 0) {
        sparse->pages[page->after - 1].before = page->before;
    }
    if (page->before != 0) {
        sparse->pages[page->before - 1].after = page->after;
    } else {
        sparse->first_open = page->after;
    }
}

/* ---- Pages ---------------------------------------------------------------------------------- */

/* A number for a page, without one yet; the caller takes it out of the list of vacant ones. */
static bool have_number(struct ps_sparse *sparse, enum ps_page_budget budget)
{
    if (sparse->first_vacant != 0 || sparse->n_pages < sparse->n_pages_room) {
        return true;
    }
    uint32_t n_room = sparse->n_pages_room == 0 ? PAGES_FIRST_ROOM : 2 * sparse->n_pages_room;
    size_t n_bytes = n_room * sizeof(sparse->pages[0]);
    struct ps_sparse_page *pages = budget == PS_PAGE_BEYOND
                                       ? ps_mem_alloc_beyond(sparse->mem, PS_MEM_PAGES, n_bytes)
                                       : ps_mem_alloc(sparse->mem, PS_MEM_PAGES, n_bytes);
    if (pages == NULL) {
        return false;
    }
    if (sparse->n_pages > 0) {
        memcpy(pages, sparse->pages, sparse->n_pages * sizeof(pages[0]));
    }
    ps_mem_free(sparse->pages);
    sparse->pages = pages;
    sparse->n_pages_room = n_room;
    return true;
}

/* Rows `from` to the page's last are free, and come before those that are free already. */
static void free_rows(const struct ps_sparse *sparse, struct ps_sparse_page *page, uint32_t from)
{
    for (uint32_t nth = from; nth < page->n_rows; nth++) {
        uint32_t *head = ps_row_head(page->rows + (size_t)nth * sparse->shape.row_floats);
        head[PS_ROW_KEY] = nth + 1 < page->n_rows ? nth + 2 : page->first_free;
        head[PS_ROW_KEY_HIGH] = 0;
        head[PS_ROW_T] = 0;
        head[PS_ROW_TOUCHED] = 0;
    }
    page->first_free = from + 1;
}

/* Rows that a page is to have which needs `n`: `least` doubled, a whole page's at most. */
static uint32_t rows_for(const struct ps_sparse *sparse, uint32_t least, uint64_t n)
{
    uint32_t n_max = rows_per_page(sparse);
    uint32_t n_rows = least < n_max ? least : n_max;
    while (n_rows < n_max && n_rows < n) {
        n_rows *= 2;
    }
    return n_rows;
}

/* Add a page that is to bring `n` free rows, or as many of them as a page has. */
static bool add_page(struct ps_sparse *sparse, uint64_t n, enum ps_page_budget budget)
{
    uint32_t n_max = rows_per_page(sparse);
    uint32_t least = sparse->n_pages == 0 ? PAGE_FIRST_ROWS : n_max / PAGE_PARTS;
    uint32_t n_rows = rows_for(sparse, least, n);
    bool heap = false;
    if (sparse->first_vacant == 0 && sparse->n_pages >= PS_SPARSE_ROWS_MAX / n_max) {
        return false;
    }
    if (!have_number(sparse, budget)) {
        return false;
    }
    struct ps_page *page =
        ps_page_make(sparse->pool, n_rows * sparse->shape.row_floats, budget, &heap);
    if (page == NULL) {
        return false;
    }
    uint32_t number = sparse->n_pages;
    if (sparse->first_vacant != 0) {
        number = sparse->first_vacant - 1;
        sparse->first_vacant = sparse->pages[number].after;
    } else {
        sparse->n_pages++;
    }
    sparse->pages[number] =
        (struct ps_sparse_page){.rows = page->weights, .page = page, .n_rows = n_rows};
    free_rows(sparse, &sparse->pages[number], 0);
    sparse->n_free += n_rows;
    sparse->short_page = n_rows < n_max ? number + 1 : 0;
    open_page(sparse, number);
    return true;
}

/* Let the last page have `n` more free rows, or as many of them as it can. Its rows stay where they
 * are: copied, under the same numbers. */
static bool lengthen(struct ps_sparse *sparse, uint64_t n, enum ps_page_budget budget)
{
    uint32_t number = sparse->short_page - 1;
    struct ps_sparse_page *page = &sparse->pages[number];
    struct ps_page *old = page->page;
    uint32_t n_before = page->n_rows;
    uint32_t n_rows = rows_for(sparse, 2 * n_before, n_before + n);
    bool heap = false;
    struct ps_page *longer =
        ps_page_make(sparse->pool, n_rows * sparse->shape.row_floats, budget, &heap);
    if (longer == NULL) {
        return false;
    }
    memcpy(longer->weights, old->weights, old->n * sizeof(float));
    ps_page_disown(old);
    if (page->first_free == 0) {
        open_page(sparse, number);
    }
    page->page = longer;
    page->rows = longer->weights;
    page->n_rows = n_rows;
    page->lent = false;
    free_rows(sparse, page, n_before);
    sparse->n_free += n_rows - n_before;
    sparse->short_page = n_rows < rows_per_page(sparse) ? number + 1 : 0;
    return true;
}

void ps_sparse_drop_pages(struct ps_sparse *sparse)
{
    for (uint32_t i = 0; i < sparse->n_pages; i++) {
        if (sparse->pages[i].page != NULL) {
            ps_page_disown(sparse->pages[i].page);
        }
    }
    ps_mem_free(sparse->pages);
}

void ps_sparse_drop_empty(struct ps_sparse *sparse, uint32_t number)
{
    struct ps_sparse_page *page = &sparse->pages[number];
    uint32_t n_rows = page->n_rows;
    if (page->n_live > 0 || sparse->n_free < sparse->n_promised + n_rows) {
        return;
    }
    if (sparse->short_page == number + 1) {
        sparse->short_page = 0;
    }
    close_page(sparse, number);
    ps_page_disown(page->page);
    ps_page_pool_trim(sparse->pool); /* Pages of a slot that shrinks are for others. */
    *page = (struct ps_sparse_page){.after = sparse->first_vacant};
    sparse->first_vacant = number + 1;
    sparse->n_free -= n_rows;
}

bool ps_sparse_make_own(struct ps_sparse *sparse, uint32_t number, enum ps_page_budget budget)
{
    struct ps_sparse_page *page = &sparse->pages[number];
    struct ps_page *old = page->page;
    bool heap = false;
    if (ps_page_shared(old)) {
        struct ps_page *twin = ps_page_make(sparse->pool, old->n, budget, &heap);
        if (twin == NULL) {
            return false;
        }
        memcpy(twin->weights, old->weights, old->n * sizeof(float));
        page->page = twin;
        page->rows = twin->weights;
        ps_page_disown(old);
        sparse->stats.n_fresh++;
        sparse->stats.n_bytes_copied += twin->n * sizeof(float);
    }
    page->lent = false;
    return true;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

bool ps_sparse_have_free(struct ps_sparse *sparse, uint64_t n, enum ps_page_budget budget)
{
    uint64_t n_wanted = sparse->n_promised + n;
    while (sparse->n_free < n_wanted) {
        uint64_t n_missing = n_wanted - sparse->n_free;
        if (!(sparse->short_page != 0 ? lengthen(sparse, n_missing, budget)
                                      : add_page(sparse, n_missing, budget))) {
            return false;
        }
    }
    uint64_t n_found = 0;
    for (uint32_t at = sparse->first_open; at != 0 && n_found < n_wanted;) {
        if (!ps_sparse_make_writable(sparse, at - 1, budget)) {
            return false;
        }
        n_found += sparse->pages[at - 1].n_rows - sparse->pages[at - 1].n_live;
        at = sparse->pages[at - 1].after;
    }
    return true;
}

uint32_t ps_sparse_take_row(struct ps_sparse *sparse)
{
    PS_ASSERT(sparse->first_open != 0 && sparse->n_free > 0);
    uint32_t number = sparse->first_open - 1;
    struct ps_sparse_page *page = &sparse->pages[number];
    bool writable = ps_sparse_make_writable(sparse, number, PS_PAGE_BEYOND);
    PS_ASSERT(writable); /* Only for a page that was borrowed since it was reserved. */
    uint32_t row = (number << sparse->shape.page_bits) + page->first_free - 1;
    page->first_free = ps_row_head(ps_row_in(sparse, row))[PS_ROW_KEY];
    page->n_live++;
    sparse->n_free--;
    if (page->first_free == 0) {
        close_page(sparse, number);
    }
    return row;
}

void ps_sparse_give_row(struct ps_sparse *sparse, uint32_t row)
{
    uint32_t number = row >> sparse->shape.page_bits;
    struct ps_sparse_page *page = &sparse->pages[number];
    uint32_t nth = row & (rows_per_page(sparse) - 1);
    uint32_t *head = ps_row_head(ps_row_in(sparse, row));
    head[PS_ROW_KEY] = page->first_free;
    head[PS_ROW_KEY_HIGH] = 0;
    head[PS_ROW_T] = 0;
    head[PS_ROW_TOUCHED] = 0;
    if (page->first_free == 0) {
        open_page(sparse, number);
    }
    page->first_free = nth + 1;
    page->n_live--;
    sparse->n_free++;
}
