#ifndef PS_SERVER_TABLE_DENSE_H
#define PS_SERVER_TABLE_DENSE_H
/*
 * table/dense.h — a lane's part of a dense table: the pages of the blocks that live there.
 *
 * Which blocks those are is decided above (cluster/layout.h); here they are added and removed one
 * by one. An update goes through begin_write and end_write, which give a borrowed page a fresh
 * twin; nothing else may write a page. One lane owns the struct and makes all calls; pages that it
 * lends may be given back from any thread, also after the table is gone.
 */
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "num/dtype.h"
#include "num/init.h"
#include "table/page.h"

/* What a table is. `dims`, `n_elements` and `block_floats` are those of its layout. */
struct ps_dense_spec {
    uint32_t id; /* Catalogue number; also the stream of the initialiser. */
    char name[PS_NAME_BYTES_MAX + 1];
    enum ps_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[PS_DIMS_MAX];
    uint64_t n_elements;
    uint32_t block_floats;
    uint32_t state_per_elem; /* Of the optimizer. */
    struct ps_init init;
};

/* A block as it was saved. */
struct ps_dense_saved {
    const float *weights; /* [n] */
    const float *state;   /* [state_per_elem][n]; NULL when the table has none. */
    uint32_t n;
    uint64_t version;
    uint64_t t;
    double power[2];
};

struct ps_table_stats {
    uint64_t n_writes;       /* Pages updated. */
    uint64_t n_fresh;        /* Of these, into a fresh page because the old one was borrowed. */
    uint64_t n_heap;         /* Of these, pages that no spare one could serve. */
    uint64_t n_bytes_copied; /* Optimizer state copied because a snapshot or replica reads it. */
};

struct ps_dense {
    struct ps_dense_spec spec;
    uint32_t n_blocks;        /* Of the whole table. */
    uint32_t n_held;          /* Of these, pages here. */
    struct ps_page **pages;   /* [n_blocks]; NULL: the block lives elsewhere. */
    struct ps_page *reserved; /* Twins made ahead by ps_dense_reserve, linked by `next`. */
    uint32_t n_reserved;      /* Of these. */
    uint32_t n_promised;      /* Claims on them: records that are not applied yet. */
    struct ps_page_pool *pool;
    struct ps_mem *mem;
    struct ps_table_stats stats;
};

/**
 * Make a table without blocks. `mem` outlives it and every page lent.
 *
 * @return PS_ERR_INVALID for a spec that contradicts itself, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_dense_create(const struct ps_dense_spec *spec, struct ps_mem *mem,
                                             struct ps_dense **ret, struct ps_error *err);

/** Free the table and the pages that nobody borrows; the others follow. NULL does nothing. */
void ps_dense_destroy(struct ps_dense *dense);

/** Elements of a block. */
uint32_t ps_dense_floats(const struct ps_dense *dense, uint32_t block);

/**
 * Hold a block: its page is made, with initial weights and zeroed optimizer state.
 *
 * @return PS_ERR_NOMEM when the budget of pages is used up; the table is then unchanged
 */
PS_MUST_CHECK enum ps_status ps_dense_add_block(struct ps_dense *dense, uint32_t block,
                                                struct ps_error *err);

/** Hold a block no longer. One that is not held is fine. */
void ps_dense_drop_block(struct ps_dense *dense, uint32_t block);

/** The page of a block, to look at until the next call; NULL when the block is not here. */
const struct ps_page *ps_dense_page(const struct ps_dense *dense, uint32_t block);

/** Borrow the page of a block; ps_page_unref gives it back. NULL when the block is not here. */
struct ps_page *ps_dense_borrow(struct ps_dense *dense, uint32_t block, enum ps_page_reason reason);

/**
 * Make sure that an update of a held block finds memory: if somebody borrows its page, have a twin.
 * Any number of records may be between reserve and update; one reservation serves one block once.
 *
 * @param ret_claimed  true: there is a twin to be given back by ps_dense_release after the update
 *                     or instead of it
 * @return PS_ERR_NOMEM when `budget` refuses the twin; earlier reservations stay
 */
PS_MUST_CHECK enum ps_status ps_dense_reserve(struct ps_dense *dense, uint32_t block,
                                              enum ps_page_budget budget, bool *ret_claimed);

/** A claim ends. Twins that nobody claims any more go. */
void ps_dense_release(struct ps_dense *dense);

/**
 * Start an update of a held block.
 *
 * @param ret_out  the page to write: all its weights, its state, t and power
 * @param ret_in   the page to read old weights from. The same page when nobody borrows it
 *
 * `out` carries the block's state, t, power and version already. State moves to a fresh page when
 * only pulls borrow the old one; a snapshot or replica costs a copy of it.
 *
 * @param budget  what a twin may cost that was not reserved, or that no longer fits, since somebody
 *                borrowed the page between reservation and update
 * @return PS_ERR_NOMEM without memory for the twin; nothing has changed, and it will succeed once
 *         borrowers have given pages back
 */
PS_MUST_CHECK enum ps_status ps_dense_begin_write(struct ps_dense *dense, uint32_t block,
                                                  enum ps_page_budget budget,
                                                  struct ps_page **ret_out,
                                                  const struct ps_page **ret_in);

/** End the update: `out` becomes the block's page, one version higher; `in` must not be used. */
void ps_dense_end_write(struct ps_dense *dense, uint32_t block, struct ps_page *out);

/**
 * Set a held block as it was saved. `saved` has the block's size.
 *
 * @return PS_ERR_NOMEM when somebody borrows the page and there is no memory for a twin
 */
PS_MUST_CHECK enum ps_status ps_dense_put(struct ps_dense *dense, uint32_t block,
                                          const struct ps_dense_saved *saved);

#endif
