#ifndef PS_WORKER_TRAIN_PROGRESS_H
#define PS_WORKER_TRAIN_PROGRESS_H
/*
 * train/progress.h — how training goes, as one line for standard error.
 *
 *   epoch 2/5  43%  52.1k examples/s  loss 0.4821  staleness 1.2  0:38 left
 *
 * Pure: struct in, text out. The caller decides when to print and measures the time.
 */
#include <stddef.h>
#include <stdint.h>

#define PS_PROGRESS_LINE_BYTES 128u

struct ps_progress {
    uint64_t epoch;        /* Running, from 0. */
    uint64_t n_epochs;     /* Planned. */
    uint64_t rows_done;    /* Over all epochs. */
    uint64_t rows_total;   /* Over all epochs; 0: unknown. */
    double examples_per_s; /* Lately. NaN or 0: not known yet. */
    double loss;           /* Mean per row, lately. NaN: not known yet. */
    double staleness;      /* Mean per push, lately. NaN: not shown. */
};

/** Write the line, without newline, into `line`. Returns its length. */
size_t ps_progress_line(const struct ps_progress *progress, char line[PS_PROGRESS_LINE_BYTES]);

#endif
