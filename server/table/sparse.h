#ifndef PS_SERVER_TABLE_SPARSE_H
#define PS_SERVER_TABLE_SPARSE_H
/*
 * table/sparse.h — the part of one sparse table that lives in one slot: rows under u64 keys.
 *
 *     key ──index──> row number ──┬──> page     row: | key | t | touched | weights | state |
 *                                 └──> row of it     'u64   u32   u32      width     width * k '
 *
 * A record is applied in three moves: ps_sparse_reserve finds all memory that it may need and may
 * refuse; ps_sparse_update applies and cannot fail; ps_sparse_release ends the claim (also of a
 * record that was dropped). Several records may be between reserve and update at once.
 *
 * CONTENT is a function of the records applied, in their order: which keys have rows, their
 * values, t and touched, the counts of keys without one, the clock, the rate. How keys are cut into
 * calls, where rows lie, how far an index or a sweep has come are no part of it. So a row that has
 * expired counts as gone from that clock on, although its memory is freed later. A key has no row
 * as long as it would stand like one without: first weights, no state.
 *
 * One lane owns the struct and makes all calls, but for views (sparse_view.h).
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/slice.h"
#include "num/init.h"
#include "table/admit.h"
#include "table/page.h"
#include "table/sparse_index.h"

/*
 * Weights that follow from a row's state, and so take no memory. The function is pure; `of` is what
 * it knows its rule by, and outlives the table and its views.
 */
struct ps_sparse_formula {
    void (*weights)(const void *of, float rate, const float *state, uint32_t width, float *out);
    const void *of;
};

/* What a sparse table is. The same on every member of the slot, but for `index_seed`. */
struct ps_sparse_spec {
    uint32_t id; /* Catalogue number; also the stream of the initialiser. */
    char name[PS_NAME_BYTES_MAX + 1];
    uint32_t width;                   /* Floats per row: 1 to PS_ROW_FLOATS_MAX. */
    uint32_t state_per_elem;          /* Of the optimizer: 0 to PS_ROW_STATE_MAX. */
    struct ps_sparse_formula formula; /* No function: rows keep their weights. */
    struct ps_init init;
    uint32_t admit_after;  /* A key gets its row with this push; 0 and 1: with the first. */
    uint32_t admit_bytes;  /* Of counters, a power of two; not read when the first admits. */
    uint32_t expire_after; /* A row untouched for more clocks is gone; 0: never. */
    uint64_t index_seed;   /* Private to the process, by chance: see sparse_index.h. */
};

/* Where the numbers of a row stand in a page: `weights` of struct ps_page is its memory. */
struct ps_sparse_shape {
    uint32_t width;
    uint32_t state_per_elem;
    uint32_t row_floats; /* From one row to the next. */
    uint32_t n_kept;     /* Weights in a row: all, or none where they follow from the state. */
    struct ps_sparse_formula formula;
    uint32_t page_bits; /* A page has at most 1 << page_bits rows. */
    uint32_t expire_after;
};

struct ps_sparse_stats {
    uint64_t n_rows;         /* With memory now; those expired and not yet swept included. */
    uint64_t n_bytes;        /* Pages in the table, index and counters. */
    uint64_t n_created;      /* Keys that got a row (again). */
    uint64_t n_updated;      /* Gradients applied to a row. */
    uint64_t n_dropped;      /* Gradients of keys that were not admitted. */
    uint64_t n_expired;      /* Rows freed or begun anew because of their age. */
    uint64_t n_fresh;        /* Pages copied because somebody borrowed the old one. */
    uint64_t n_bytes_copied; /* By that. */
};

/* A row, by its number. */
struct ps_sparse_item {
    uint64_t key;
    uint32_t row;
};

/* A page and its free rows. */
struct ps_sparse_page {
    float *rows;          /* Its memory, here to spare a cache miss. */
    struct ps_page *page; /* NULL: given up; the number waits to be used again. */
    bool lent;            /* Somebody may borrow it: only then the page is asked. */
    uint32_t n_rows;      /* That there is memory for. */
    uint32_t n_live;
    uint32_t first_free; /* Row in the page + 1; 0: none. Goes on in the key of the free row. */
    uint32_t before;     /* Neighbours in the list of pages with free rows, number + 1. */
    uint32_t after;
};

/* What a record has reserved and not yet given back. All zero is none. */
struct ps_sparse_claim {
    uint64_t n_rows;
};

/* The update of one row, as a rule of optim/ does it. Struct of the caller, around this one. */
struct ps_sparse_rule {
    /**
     * @param t        updates of this row, this one included; stays at UINT32_MAX
     * @param weights  [width], updated in place; they are read no more where they follow from state
     * @param state    [state_per_elem][width], zero before the first update
     * @param grad     [width] little-endian f32 at any address
     */
    void (*apply)(struct ps_sparse_rule *rule, uint32_t t, float *weights, float *state,
                  const uint8_t *grad);
};

/* Gradients of some keys. */
struct ps_sparse_push {
    const uint64_t *keys; /* [n], no key twice; ascending is fastest. */
    uint32_t n;
    struct ps_cursor grads; /* [n][width] f32; a row may straddle slices. Finite: svc has looked. */
    uint64_t clock;         /* Of the record: ages are measured by the highest one seen. */
    float rate;             /* Of the record; for weights that follow from state. */
    struct ps_sparse_rule *rule;
};

/* A row, on loan from whoever shows it. */
struct ps_sparse_row {
    uint64_t key;
    uint32_t t; /* Updates, from 1. */
    uint32_t touched;
    const float *weights; /* [width] */
    const float *state;   /* [state_per_elem][width]; not for PULL readers. */
};

/* What belongs to a slot's content beside its rows. */
struct ps_sparse_rest {
    uint32_t clock;
    float rate;
    uint32_t aged;         /* Of the counters: struct ps_admit. */
    const uint8_t *counts; /* [admit_bytes], if keys are counted. */
};

struct ps_sparse {
    struct ps_sparse_spec spec;
    struct ps_sparse_shape shape;
    struct ps_mem *mem;
    struct ps_page_pool *pool;
    struct ps_index index;
    struct ps_admit admit;
    struct ps_sparse_page *pages; /* [n_pages] */
    uint32_t n_pages;
    uint32_t n_pages_room;
    uint32_t first_open;   /* Page with free rows, number + 1; 0: none. */
    uint32_t first_vacant; /* Number without a page + 1; the next one is in `after`. */
    uint32_t short_page;   /* The page that has less than all of its rows, number + 1; 0: none. */
    uint64_t n_free;       /* Free rows in all pages. */
    uint64_t n_promised;   /* Of these, claimed. */
    uint32_t clock;        /* The highest of any push. */
    float rate;            /* Of the last push: with it weights follow from state. */
    uint64_t sweep_at;     /* Row that the next sweep looks at. */
    float *scratch;        /* [2][width] Weights; a gradient that straddles slices. */
    struct ps_sparse_stats stats;
};

/** @return PS_ERR_INVALID for a spec that contradicts itself, with words */
PS_MUST_CHECK enum ps_status ps_sparse_check(const struct ps_sparse_spec *spec,
                                             struct ps_error *err);

/**
 * Make a table without rows. `mem` outlives it and every page lent.
 *
 * @return PS_ERR_INVALID for a spec that contradicts itself, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_sparse_create(const struct ps_sparse_spec *spec, struct ps_mem *mem,
                                              struct ps_sparse **ret, struct ps_error *err);

/** Free the table and the pages that nobody borrows; the others follow. NULL does nothing. */
void ps_sparse_destroy(struct ps_sparse *sparse);

/**
 * Write the weights of `n` keys to `out` [n][width]. A key without a row answers its initial values
 * and gets none: reading changes nothing, and does not keep a row from expiring.
 */
void ps_sparse_gather(const struct ps_sparse *sparse, const uint64_t *keys, uint32_t n, float *out);

/**
 * Make sure that updates of these keys find memory: rows and index entries for those that have
 * none (at most n rows, in whole pages), fresh twins of those pages that somebody borrows (at most
 * one for each key). Adds to `claim`; a record may be reserved in pieces.
 *
 * @param budget  PS_PAGE_WITHIN for a record to be proposed, PS_PAGE_BEYOND for one that has been
 *                committed elsewhere
 * @return PS_ERR_NOMEM when the memory is not to be had. The whole push is then to be refused: new
 *         keys left out in silence would make content depend on the memory of the moment. Content
 *         and claim are as before; rows that have expired are given back by later sweeps
 */
PS_MUST_CHECK enum ps_status ps_sparse_reserve(struct ps_sparse *sparse, const uint64_t *keys,
                                               uint32_t n, enum ps_page_budget budget,
                                               struct ps_sparse_claim *claim);

/**
 * Apply a push whose keys were reserved. Allocates only for pages that were borrowed between
 * reserve and update: one twin each, beyond the budget.
 */
void ps_sparse_update(struct ps_sparse *sparse, const struct ps_sparse_push *push);

/** Give back what is left of a claim, after the updates or instead of them. */
void ps_sparse_release(struct ps_sparse *sparse, struct ps_sparse_claim *claim);

/**
 * Look at the next `n_rows` rows and free those that have expired; pages that come to be empty go
 * back to the budget. For a lane between records. Costs no memory: borrowed pages are passed over.
 */
void ps_sparse_sweep(struct ps_sparse *sparse, uint32_t n_rows);

/**
 * Set a row as it was saved, for restoring and copying slots. `t` >= 1; weights are not read where
 * they follow from the state.
 *
 * @return PS_ERR_NOMEM, and nothing has changed
 */
PS_MUST_CHECK enum ps_status ps_sparse_put(struct ps_sparse *sparse,
                                           const struct ps_sparse_row *row);

/** The rest of a slot's content, as it was saved: clock, rate, counters of keys without a row. */
void ps_sparse_put_rest(struct ps_sparse *sparse, const struct ps_sparse_rest *rest);

/** Figures as of now. */
struct ps_sparse_stats ps_sparse_stats(const struct ps_sparse *sparse);

#endif
