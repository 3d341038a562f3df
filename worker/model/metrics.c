/* metrics.c — see metrics.h. */
#include "model/metrics.h"

#include <float.h>
#include <math.h>

#include "base/assert.h"

#define NEAREST_ONE (1.0 - 0x1p-24)

void ps_metrics_init(struct ps_metrics *metrics, enum ps_task task, struct ps_mem *mem)
{
    *metrics = (struct ps_metrics){.task = task};
    ps_auc_init(&metrics->auc, mem);
}

void ps_metrics_deinit(struct ps_metrics *metrics)
{
    ps_auc_deinit(&metrics->auc);
}

/* Written so that NaN stays. */
static double within(double p)
{
    p = p < (double)FLT_MIN ? (double)FLT_MIN : p;
    return p > NEAREST_ONE ? NEAREST_ONE : p;
}

static enum ps_status add_binary(struct ps_metrics *metrics, float p, bool positive)
{
    double kept = within((double)p);
    metrics->loss_sum -= positive ? log(kept) : log1p(-kept);
    metrics->n_correct += isfinite(p) && (p > 0.5f) == positive;
    return ps_auc_add(&metrics->auc, p, positive);
}

static void add_classes(struct ps_metrics *metrics, const float *probs, uint32_t label, uint32_t n)
{
    PS_ASSERT(label < n);
    uint32_t best = 0;
    for (uint32_t j = 1; j < n; j++) {
        best = probs[j] > probs[best] ? j : best;
    }
    metrics->loss_sum -= log(within((double)probs[label]));
    metrics->n_correct += best == label && isfinite(probs[label]);
}

enum ps_status ps_metrics_add(struct ps_metrics *metrics, const float *out, const float *labels,
                              size_t n_rows, uint32_t n_outputs)
{
    enum ps_status status = PS_OK;
    for (size_t row = 0; status == PS_OK && row < n_rows; row++) {
        const float *p = out + row * n_outputs;
        double error = (double)p[0] - (double)labels[row];
        switch (metrics->task) {
        case PS_TASK_BINARY: status = add_binary(metrics, p[0], labels[row] > 0.5f); break;
        case PS_TASK_CLASSES: add_classes(metrics, p, (uint32_t)labels[row], n_outputs); break;
        case PS_TASK_VALUE: metrics->square_sum += error * error; break;
        }
        metrics->n_rows++;
    }
    return status;
}

enum ps_status ps_metrics_merge(struct ps_metrics *metrics, const struct ps_metrics *part)
{
    PS_ASSERT(metrics->task == part->task);
    metrics->n_rows += part->n_rows;
    metrics->n_correct += part->n_correct;
    metrics->loss_sum += part->loss_sum;
    metrics->square_sum += part->square_sum;
    return ps_auc_merge(&metrics->auc, &part->auc);
}

struct ps_metrics_result ps_metrics_result(struct ps_metrics *metrics)
{
    struct ps_metrics_result result = {
        .n_rows = metrics->n_rows,
        .accuracy = (double)NAN,
        .log_loss = (double)NAN,
        .auc = (double)NAN,
        .rmse = (double)NAN,
    };
    double n = (double)metrics->n_rows;
    if (metrics->task == PS_TASK_VALUE) {
        result.rmse = sqrt(metrics->square_sum / n); /* 0 / 0 is NaN, as promised. */
        return result;
    }
    result.accuracy = (double)metrics->n_correct / n;
    result.log_loss = metrics->loss_sum / n;
    if (metrics->task == PS_TASK_BINARY) {
        struct ps_auc_area area = ps_auc_area(&metrics->auc);
        result.auc = area.area;
        result.auc_error_max = area.error_max;
    }
    return result;
}
