#ifndef PS_TESTS_UNIT_TRAIN_MEMORY_ROWS_H
#define PS_TESTS_UNIT_TRAIN_MEMORY_ROWS_H
/*
 * unit/train/memory_rows.h — a source of rows in memory, which walks them out of order.
 */
#include "train/row_source.h"

#define MEMORY_ROWS_MAX 5000u

struct memory_table {
    size_t width;
    uint32_t n;
    uint64_t keys[MEMORY_ROWS_MAX]; /* In any order. */
    float *rows;                    /* [MEMORY_ROWS_MAX][width] */
    uint32_t number;
    struct ps_init init;
};

struct memory_rows {
    struct ps_row_source source;
    uint32_t n_sparse;
    struct memory_table tables[PS_SPARSE_TABLES_MAX];
    uint32_t n_dense;
    size_t n_values[PS_MODEL_TABLES_MAX];
    float *dense[PS_MODEL_TABLES_MAX];
    uint32_t n_late;    /* So many walks are told to begin anew, in their middle. */
    uint32_t n_at_once; /* Rows that a walk hands out at most; 0: as many as it has room for. */
    bool walks_twice;   /* Each row comes again behind all others: first with other values. */
};

/** Tables of `model`, empty, numbered from 3; dense ones hold 0.5, 1.5, ... */
void memory_rows_init(struct memory_rows *memory, const struct ps_sparse_model *model);

void memory_rows_deinit(struct memory_rows *memory);

/** Add a row of a table, to be filled in. */
float *memory_rows_add(struct memory_rows *memory, uint32_t table, uint64_t key);

#endif
