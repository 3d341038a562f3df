#ifndef PS_SERVER_TABLE_PAGE_H
#define PS_SERVER_TABLE_PAGE_H
/*
 * table/page.h — reference-counted storage of one block: weights, optimizer state, counters.
 *
 *     lane:       make ──> installed in a table ──> replaced ─┐
 *     readers:         ref ───────────────── unref            ├─ last one gone ──> spare or freed
 *                            ref ──────────────────── unref ──┘
 *
 * A page that is shared is never written. Its lane alone writes it, takes references and asks
 * whether it is shared; any thread gives a reference back. Readers see `weights`, `n` and
 * `version`; only SNAPSHOT and REPLICA readers may look at the optimizer state.
 * Pages of a table come from a pool, which keeps a few whole ones and outlives its last page.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/mem.h"

#define PS_PAGES_SPARE_MAX 8u /* Kept per pool: more is memory that no table accounts for. */

enum ps_page_reason {
    PS_PAGE_PULL,     /* A reply under way. Reads weights only. */
    PS_PAGE_SNAPSHOT, /* A file being written. Reads everything. */
    PS_PAGE_REPLICA,  /* A slot being copied to another server. Reads everything. */
    PS_PAGE_REASON_COUNT
};

struct ps_page_pool;

struct ps_page {
    float *weights;   /* [n], at a 64-byte boundary. */
    float *state;     /* [state_per_elem][n]; NULL when there is none or a newer page has it. */
    uint32_t n;       /* Elements. */
    uint32_t room;    /* Elements that there is memory for. */
    uint64_t version; /* Updates applied to this block, ever. */
    uint64_t t;       /* Optimizer: updates of this page (struct ps_optim_page). */
    double power[2];  /* Optimizer: beta1^t, beta2^t. */
    _Atomic uint64_t refs;     /* A count per reason and one bit of the table: see page.c. */
    struct ps_page_pool *pool; /* Where it goes when nobody wants it. */
    struct ps_page *next;      /* Of the pool, while spare. */
};

/** A pool of pages of at most `capacity` floats and their state. NULL without memory. */
PS_MUST_CHECK struct ps_page_pool *ps_page_pool_create(struct ps_mem *mem, uint32_t capacity,
                                                       uint32_t state_per_elem);

/** Let go of the pool; it is freed with its last page. NULL does nothing. Lane thread. */
void ps_page_pool_release(struct ps_page_pool *pool);

/** Give the spare pages back to the budget. Lane thread. */
void ps_page_pool_trim(struct ps_page_pool *pool);

/** What a page may cost. */
enum ps_page_budget {
    PS_PAGE_WITHIN, /* What the budget of pages has left. */
    PS_PAGE_BEYOND  /* What the machine has: see ps_mem_alloc_beyond. */
};

/**
 * A page of `n` elements that the caller owns, without state and with undefined weights; a spare
 * one if there is any, else from the heap. `ret_heap` says which. NULL without memory. Lane thread.
 */
PS_MUST_CHECK struct ps_page *ps_page_make(struct ps_page_pool *pool, uint32_t n,
                                           enum ps_page_budget budget, bool *ret_heap);

/** Give the page zeroed optimizer state; true at once when its pool has none. */
PS_MUST_CHECK bool ps_page_add_state(struct ps_page *page, enum ps_page_budget budget);

/** Borrow: the page stays as it is until ps_page_unref. Lane thread. */
void ps_page_ref(struct ps_page *page, enum ps_page_reason reason);

/** Give a borrowed page back. Any thread. */
void ps_page_unref(struct ps_page *page, enum ps_page_reason reason);

/** The owner gives the page up; borrowers may still hold it. Lane thread. */
void ps_page_disown(struct ps_page *page);

/** References for one reason. Only the lane may rely on it, and only on it being no higher. */
uint32_t ps_page_refs(const struct ps_page *page, enum ps_page_reason reason);

/** What the page keeps from the heap while it is held: never less than its weights. */
uint64_t ps_page_bytes(const struct ps_page *page);

/** True when somebody borrows the page: it must not be written. Lane thread. */
bool ps_page_shared(const struct ps_page *page);

#endif
