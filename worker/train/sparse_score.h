#ifndef PS_WORKER_TRAIN_SPARSE_SCORE_H
#define PS_WORKER_TRAIN_SPARSE_SCORE_H
/*
 * train/sparse_score.h — what a sparse model says to rows of text, and how good that is.
 *
 *   files --reading--> rows --key lists--> fetch --predict--> metrics, and the caller's function
 *
 * Streams: memory follows from the options, not from the size of the data. Rows come in the order
 * of the files; what is said of a row does not depend on which rows are taken with it. Blocks.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/reading.h"
#include "data/source.h"
#include "model/metrics.h"
#include "train/row_source.h"
#include "train/setup.h"

/** Rows that were predicted. Borrowed for the length of the call. */
struct ps_sparse_scored {
    uint32_t file;         /* Place in the source's files. */
    size_t n_rows;         /* >= 1 */
    const uint64_t *lines; /* [n_rows] Of that file, from 1. */
    const float *labels;   /* [n_rows] NaN: none. */
    const float *outputs;  /* [n_rows][n_outputs] As predict of the model writes them. */
    uint32_t n_outputs;
};

struct ps_sparse_score_options {
    struct ps_mem *mem;
    uint32_t batch_rows;   /* Taken together; 0: a preset. */
    uint64_t max_bad_rows; /* As in data/reading.h. */
    bool label_optional;   /* Rows without a label, or with an unknown one, do not count. */
    /** Called with row after row, in order; not PS_OK ends the scoring. NULL: nobody asks. */
    enum ps_status (*rows)(void *arg, const struct ps_sparse_scored *scored, struct ps_error *err);
    void *arg;
};

struct ps_sparse_score_result {
    struct ps_metrics_result metrics; /* Over the rows that have a label. */
    double loss;                      /* Mean, as trained: log loss, or half the squared error. */
    struct ps_reading_counts counts;
    uint64_t n_unlabelled;
    uint64_t n_between; /* Lines before a row that are none: headers, blank ones, comments. */
    char bad[PS_BAD_ROWS_TOLD][PS_ERROR_TEXT_BYTES]; /* Lines skipped; "": no more. */
};

/**
 * Predict all rows of `data`, read as the setup says, with the weights of `source`.
 * @return PS_ERR_INVALID  a line, by file:line; or ps_learn_check refuses the files
 *         as ps_reading_next, as the source, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status
ps_sparse_score(const struct ps_setup *setup, struct ps_row_source *source,
                const struct ps_source *data, const struct ps_sparse_score_options *options,
                struct ps_sparse_score_result *ret, struct ps_error *err);

#endif
