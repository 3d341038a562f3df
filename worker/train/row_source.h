#ifndef PS_WORKER_TRAIN_ROW_SOURCE_H
#define PS_WORKER_TRAIN_ROW_SOURCE_H
/*
 * train/row_source.h — where the weights of a sparse model come from: a live cluster (live_rows.h)
 * or a file (model_file.h). Tables are named by their place in the model.
 *
 * A key without a row has its first weights, the same from either. Blocks; one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "model/sparse_model.h"

struct ps_row_source;

/** A walk over all rows of a table. Zero it, set the inputs, call until `done`. */
struct ps_row_walk {
    uint32_t table;  /* Place in model->sparse. */
    bool skip_zeros; /* Leave out rows that are 0 throughout. */
    uint64_t *keys;  /* [n_room] Written. */
    float *values;   /* [n_room][width] Written. */
    uint32_t n_room; /* Rows, at least 1. */
    uint32_t n;      /* Set: rows that came, in no order. */
    bool done;       /* Set: there are no more. */
    uint64_t at;     /* The source's: how far it is. */
};

struct ps_row_source_ops {
    /** Weights of `keys` [n], ascending and none twice, into `out` [n][width]. */
    enum ps_status (*fetch)(struct ps_row_source *source, uint32_t table, const uint64_t *keys,
                            size_t n, float *out, struct ps_error *err);
    /** The whole of dense table `table` of the model into `out`. */
    enum ps_status (*dense)(struct ps_row_source *source, uint32_t table, float *out,
                            struct ps_error *err);
    /** The next rows. @return PS_ERR_LATE: begin anew, zeroed */
    enum ps_status (*walk)(struct ps_row_source *source, struct ps_row_walk *walk,
                           struct ps_error *err);
    void (*close)(struct ps_row_source *source);
};

struct ps_row_source {
    const struct ps_row_source_ops *ops;
    /* How the cluster calls each sparse table: first weights follow from it. */
    uint32_t numbers[PS_SPARSE_TABLES_MAX];
};

PS_MUST_CHECK static inline enum ps_status ps_row_source_fetch(struct ps_row_source *source,
                                                               uint32_t table, const uint64_t *keys,
                                                               size_t n, float *out,
                                                               struct ps_error *err)
{
    return n == 0 ? PS_OK : source->ops->fetch(source, table, keys, n, out, err);
}

PS_MUST_CHECK static inline enum ps_status
ps_row_source_dense(struct ps_row_source *source, uint32_t table, float *out, struct ps_error *err)
{
    return source->ops->dense(source, table, out, err);
}

PS_MUST_CHECK static inline enum ps_status
ps_row_source_walk(struct ps_row_source *source, struct ps_row_walk *walk, struct ps_error *err)
{
    return source->ops->walk(source, walk, err);
}

/** NULL does nothing. */
static inline void ps_row_source_close(struct ps_row_source *source)
{
    if (source != NULL) {
        source->ops->close(source);
    }
}

#endif
