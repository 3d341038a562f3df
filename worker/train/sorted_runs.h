#ifndef PS_WORKER_TRAIN_SORTED_RUNS_H
#define PS_WORKER_TRAIN_SORTED_RUNS_H
/*
 * train/sorted_runs.h — rows in no order to rows in the order of their keys, by way of a file.
 *
 *   some MiB of rows --sort--> a run in the spill      all runs --merge--> row after row
 *
 * Memory is that of the largest run and 32 bytes for each of them. A key that comes twice is there
 * once, as it came last. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "model/unique.h"
#include "os/spill.h"

struct ps_mem;

/* Keys at `at` of the spill, rows behind them. */
struct ps_run {
    uint64_t at;
    uint64_t n;
};

struct ps_runs {
    struct ps_mem *mem;
    struct ps_spill *spill; /* May be shared with other tables; cut never. */
    size_t width;
    struct ps_run *runs;
    uint32_t n_runs;
    uint32_t capacity;
    struct ps_unique unique; /* Scratch of sorting, as what follows: [n_scratch]. */
    uint64_t *keys;
    uint32_t *places;
    float *rows;
    size_t n_scratch;
};

/** Where a run is in a merge. */
struct ps_run_head {
    const uint64_t *keys;
    const float *rows;
    uint64_t n_left;
    uint32_t run;
};

struct ps_merge {
    size_t width;
    struct ps_run_head *heads; /* A heap by key; of equal ones the later run is first. */
    uint32_t n_heads;
};

void ps_runs_init(struct ps_runs *runs, struct ps_mem *mem, struct ps_spill *spill, size_t width);

/** A zeroed one does nothing. */
void ps_runs_deinit(struct ps_runs *runs);

/** Add a run of `n` rows. @return PS_ERR_IO, PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_runs_add(struct ps_runs *runs, const uint64_t *keys,
                                         const float *rows, uint32_t n, struct ps_error *err);

/** Forget all runs: the rows are to come anew. The scratch stays. */
void ps_runs_clear(struct ps_runs *runs);

/**
 * Begin to go through all rows; `data` is the mapped spill and stays until ps_merge_end.
 * @return PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_merge_begin(struct ps_merge *merge, const struct ps_runs *runs,
                                            const uint8_t *data, struct ps_error *err);

/** The next row; false: there are no more. */
bool ps_merge_next(struct ps_merge *merge, uint64_t *ret_key, const float **ret_row);

/** A zeroed one does nothing. */
void ps_merge_end(struct ps_merge *merge);

#endif
