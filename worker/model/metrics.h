#ifndef PS_WORKER_MODEL_METRICS_H
#define PS_WORKER_MODEL_METRICS_H
/*
 * model/metrics.h — how good predictions are, from what predict of a sparse model writes.
 *
 * Streaming: rows come in any cut, parts that were counted elsewhere are merged. What does not
 * apply to the task, or to no rows at all, is NaN. Log loss is that of a probability kept within
 * [FLT_MIN, 1 - 2^-24], the floats nearest to 0 and 1: a row that is wrong for certain costs at
 * most 87.3 or 16.6, not infinity.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "model/auc.h"
#include "model/sparse_model.h"

struct ps_metrics {
    enum ps_task task;
    uint64_t n_rows;
    uint64_t n_correct;
    double loss_sum;   /* Log losses. */
    double square_sum; /* Squared errors. */
    struct ps_auc auc;
};

struct ps_metrics_result {
    uint64_t n_rows;
    double accuracy; /* BINARY (at 1/2) and CLASSES. */
    double log_loss; /* BINARY and CLASSES; natural logarithm. */
    double auc;      /* BINARY; NaN when all labels are equal. */
    double auc_error_max;
    double rmse; /* VALUE */
};

void ps_metrics_init(struct ps_metrics *metrics, enum ps_task task, struct ps_mem *mem);

/** A zeroed struct does nothing. */
void ps_metrics_deinit(struct ps_metrics *metrics);

/**
 * Count rows: `out` [n_rows][n_outputs] as predict wrote it, labels as the batch took them.
 * @return PS_ERR_NOMEM; the metrics are then of no more use
 */
PS_MUST_CHECK enum ps_status ps_metrics_add(struct ps_metrics *metrics, const float *out,
                                            const float *labels, size_t n_rows, uint32_t n_outputs);

/** Count what `part`, of the same task, has counted. @return as add */
PS_MUST_CHECK enum ps_status ps_metrics_merge(struct ps_metrics *metrics,
                                              const struct ps_metrics *part);

struct ps_metrics_result ps_metrics_result(struct ps_metrics *metrics);

#endif
