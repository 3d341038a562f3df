/*
 * page.c — see page.h.
 *
 * All counts of a page are in one 64-bit number, so "nobody borrows it" and "that was the last
 * one" are single reads and no order between several counters has to be argued about:
 *
 *      bit 60         40-59      20-39       0-19
 *      table          replica    snapshot    pull
 *
 * Spare pages are a stack: any thread pushes, only the lane pops. With one popper a head that was
 * read cannot leave and come back, so the plain compare-and-swap is safe.
 */
#include "table/page.h"

#include "base/assert.h"

#define COUNT_BITS 20u
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)
#define OWNED      (UINT64_C(1) << 60)

PS_STATIC_ASSERT(PS_PAGE_REASON_COUNT *COUNT_BITS <= 60, "the counts end below the table's bit");

struct ps_page_pool {
    struct ps_mem *mem;
    uint32_t capacity; /* Floats per page. */
    uint32_t state_per_elem;
    _Atomic uint32_t holders; /* The table, every page, and threads inside `recycle`. */
    _Atomic uint32_t n_spare; /* At least the pages in the stack. */
    _Atomic bool closed;      /* The table is gone: keep nothing. */
    struct ps_page *_Atomic spare;
};

static uint64_t one(enum ps_page_reason reason)
{
    return UINT64_C(1) << (COUNT_BITS * (uint32_t)reason);
}

static uint64_t count(uint64_t refs, enum ps_page_reason reason)
{
    return refs >> (COUNT_BITS * (uint32_t)reason) & COUNT_MASK;
}

static void drop_holder(struct ps_page_pool *pool)
{
    uint32_t before = atomic_fetch_sub(&pool->holders, 1);
    PS_ASSERT(before > 0);
    if (before == 1) {
        ps_mem_free(pool);
    }
}

static void free_page(struct ps_page *page)
{
    struct ps_page_pool *pool = page->pool;
    ps_mem_free(page->weights);
    ps_mem_free(page->state);
    ps_mem_free(page);
    drop_holder(pool);
}

/* Free the whole stack. Whoever swaps the head out has its pages to himself. */
static void drain(struct ps_page_pool *pool)
{
    struct ps_page *page = atomic_exchange(&pool->spare, NULL);
    while (page != NULL) {
        struct ps_page *next = page->next;
        atomic_fetch_sub(&page->pool->n_spare, 1);
        free_page(page);
        page = next;
    }
}

/*
 * Nobody wants the page any more: keep it for the next fresh twin, or free it. It is a table's
 * page no longer, so this may be any thread, and the table may be destroyed meanwhile: either the
 * push is seen by its drain, or `closed` is seen after the push. All of these accesses are
 * sequentially consistent for that reason.
 */
static void recycle(struct ps_page *page)
{
    struct ps_page_pool *pool = page->pool;
    ps_mem_free(page->state); /* A page that needs state later most likely inherits one. */
    page->state = NULL;
    if (page->room < pool->capacity) {
        free_page(page);
        return;
    }
    if (atomic_fetch_add(&pool->n_spare, 1) >= PS_PAGES_SPARE_MAX) {
        atomic_fetch_sub(&pool->n_spare, 1);
        free_page(page);
        return;
    }
    atomic_fetch_add(&pool->holders, 1);
    struct ps_page *head = atomic_load(&pool->spare);
    do {
        page->next = head;
    } while (!atomic_compare_exchange_weak(&pool->spare, &head, page));
    if (atomic_load(&pool->closed)) {
        drain(pool);
    }
    drop_holder(pool);
}

struct ps_page_pool *ps_page_pool_create(struct ps_mem *mem, uint32_t capacity,
                                         uint32_t state_per_elem)
{
    PS_ASSERT(capacity > 0);
    struct ps_page_pool *pool = ps_mem_alloc(mem, PS_MEM_PAGES, sizeof(*pool));
    if (pool != NULL) {
        pool->mem = mem;
        pool->capacity = capacity;
        pool->state_per_elem = state_per_elem;
        atomic_init(&pool->holders, 1);
    }
    return pool;
}

void ps_page_pool_release(struct ps_page_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    PS_ASSERT(!atomic_load(&pool->closed));
    atomic_store(&pool->closed, true);
    drain(pool);
    drop_holder(pool);
}

void ps_page_pool_trim(struct ps_page_pool *pool)
{
    drain(pool);
}

static struct ps_page *pop_spare(struct ps_page_pool *pool)
{
    struct ps_page *head = atomic_load(&pool->spare);
    while (head != NULL && !atomic_compare_exchange_weak(&pool->spare, &head, head->next)) {
    }
    if (head != NULL) {
        atomic_fetch_sub(&pool->n_spare, 1);
    }
    return head;
}

static void *from_heap(struct ps_mem *mem, size_t n_bytes, enum ps_page_budget budget)
{
    return budget == PS_PAGE_BEYOND ? ps_mem_alloc_beyond(mem, PS_MEM_PAGES, n_bytes)
                                    : ps_mem_alloc(mem, PS_MEM_PAGES, n_bytes);
}

static struct ps_page *page_from_heap(struct ps_page_pool *pool, uint32_t room,
                                      enum ps_page_budget budget)
{
    struct ps_page *page = from_heap(pool->mem, sizeof(*page), budget);
    if (page == NULL) {
        return NULL;
    }
    page->weights = from_heap(pool->mem, room * sizeof(float), budget);
    if (page->weights == NULL) {
        ps_mem_free(page);
        return NULL;
    }
    page->room = room;
    page->pool = pool;
    atomic_fetch_add(&pool->holders, 1);
    return page;
}

struct ps_page *ps_page_make(struct ps_page_pool *pool, uint32_t n, enum ps_page_budget budget,
                             bool *ret_heap)
{
    PS_ASSERT(n > 0 && n <= pool->capacity);
    /* A short one, of the last block, is not worth a whole one's memory: and who borrows it pays
     * for what it keeps. */
    struct ps_page *page = n == pool->capacity ? pop_spare(pool) : NULL;
    *ret_heap = page == NULL;
    if (page == NULL) {
        page = page_from_heap(pool, n, budget);
    }
    if (page != NULL) {
        PS_ASSERT(page->state == NULL);
        page->n = n;
        page->version = 0;
        page->t = 0;
        page->power[0] = 0.0;
        page->power[1] = 0.0;
        page->next = NULL;
        atomic_store_explicit(&page->refs, OWNED, memory_order_relaxed);
    }
    return page;
}

bool ps_page_add_state(struct ps_page *page, enum ps_page_budget budget)
{
    PS_ASSERT(page->state == NULL);
    uint32_t per_elem = page->pool->state_per_elem;
    if (per_elem == 0) {
        return true;
    }
    page->state = from_heap(page->pool->mem, (size_t)per_elem * page->n * sizeof(float), budget);
    return page->state != NULL;
}

void ps_page_ref(struct ps_page *page, enum ps_page_reason reason)
{
    uint64_t before = atomic_fetch_add_explicit(&page->refs, one(reason), memory_order_relaxed);
    PS_ASSERT((before & OWNED) != 0); /* Only the page that a table shows can be lent. */
    PS_ASSERT(count(before, reason) < COUNT_MASK);
}

void ps_page_unref(struct ps_page *page, enum ps_page_reason reason)
{
    uint64_t before = atomic_fetch_sub_explicit(&page->refs, one(reason), memory_order_acq_rel);
    PS_ASSERT(count(before, reason) > 0);
    if (before == one(reason)) {
        recycle(page);
    }
}

void ps_page_disown(struct ps_page *page)
{
    uint64_t before = atomic_fetch_sub_explicit(&page->refs, OWNED, memory_order_acq_rel);
    PS_ASSERT((before & OWNED) != 0);
    if (before == OWNED) {
        recycle(page);
    }
}

uint32_t ps_page_refs(const struct ps_page *page, enum ps_page_reason reason)
{
    return (uint32_t)count(atomic_load_explicit(&page->refs, memory_order_acquire), reason);
}

uint64_t ps_page_bytes(const struct ps_page *page)
{
    return sizeof(*page) + (uint64_t)page->room * sizeof(float);
}

bool ps_page_shared(const struct ps_page *page)
{
    /* Acquire: what a borrower read happens before what the lane will write. */
    return atomic_load_explicit(&page->refs, memory_order_acquire) != OWNED;
}
