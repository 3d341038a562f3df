#ifndef PS_SERVER_SLOT_CATALOGUE_H
#define PS_SERVER_SLOT_CATALOGUE_H
/*
 * slot/catalogue.h — the tables of the job, as one server knows them.
 *
 * Append-only: an entry is written once, then `n_tables` rises. So lanes and transport threads
 * read without locks; only the main executor appends.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"
#include "cluster/layout.h"
#include "optim/optim.h"
#include "table/dense.h"
#include "table/sparse.h"

struct ps_table_info {
    bool sparse;
    struct ps_dense_spec spec;  /* Of a sparse table only id, name and init. */
    struct ps_sparse_spec rows; /* Of a sparse table. */
    const struct ps_optim *optim;
    struct ps_optim_params params;
};

struct ps_catalogue {
    _Atomic uint32_t n_tables;
    struct ps_layout layouts[PS_TABLES_MAX]; /* By table number. */
    struct ps_table_info tables[PS_TABLES_MAX];
};

/** The tables that are there now, as the layout functions want them. Any thread. */
static inline struct ps_layout_view ps_catalogue_view(const struct ps_catalogue *catalogue)
{
    return (struct ps_layout_view){
        .tables = catalogue->layouts,
        .n_tables = atomic_load_explicit(&catalogue->n_tables, memory_order_acquire),
    };
}

#endif
