#ifndef PS_SERVER_TABLE_SPARSE_SCAN_H
#define PS_SERVER_TABLE_SPARSE_SCAN_H
/*
 * table/sparse_scan.h — all rows of a sparse table in small steps, between which it may change.
 *
 *     cursor 0 ──step──> some rows, cursor ──step──> ... ──step──> the last ones, done
 *
 * The cursor is the number of the row that is looked at next. A row keeps its number for as long as
 * it is there, so one that is there from the first step to the last is met exactly once; one that
 * comes or goes meanwhile is met or not, and a key whose row goes and comes again may be met twice.
 * A number says nothing about any other member of the slot. Lane thread; changes nothing.
 */
#include "table/sparse.h"

struct ps_sparse_scan {
    uint64_t cursor; /* Where to begin: 0, or as the step before left it. Any number is fine. */
    bool skip_zeros; /* Leave out rows whose weights are all 0. */
    uint32_t n_max;  /* Rows that are wanted at most; at least 1. */
    struct ps_sparse_item *room; /* [2 * n_max] */
    uint64_t *keys;              /* [n_max] */
    /* Set. */
    const struct ps_sparse_item *rows; /* [n] In `room`, in the order of their keys, */
    uint32_t n;                        /*   which are in `keys`, too. */
    bool done;                         /* There are no rows behind `cursor`. */
};

/** Rows that one step looks at, so more than so many it never finds. */
uint32_t ps_sparse_scan_rows_max(const struct ps_sparse *sparse);

/** One step. It may find nothing and not be done. */
void ps_sparse_scan_step(const struct ps_sparse *sparse, struct ps_sparse_scan *scan);

/** Copy the weights of the rows that a step has just found to `to` [n][width], at any address. */
void ps_sparse_scan_read(const struct ps_sparse *sparse, const struct ps_sparse_scan *scan,
                         uint8_t *to);

#endif
