/* xent.c — see xent.h. */
#include "model/xent.h"

#include <math.h>

#include "base/assert.h"

static uint32_t argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t j = 1; j < n; j++) {
        best = logits[j] > logits[best] ? j : best;
    }
    return best;
}

/* Replace a row by its softmax. Returns log(sum of exp(z_j)). */
static double soften(float *logits, uint32_t n)
{
    float top = logits[argmax(logits, n)];
    double sum = 0.0;
    for (uint32_t j = 0; j < n; j++) {
        logits[j] = expf(logits[j] - top);
        sum += (double)logits[j];
    }
    float scale = (float)(1.0 / sum);
    for (uint32_t j = 0; j < n; j++) {
        logits[j] *= scale;
    }
    return (double)top + log(sum);
}

struct ps_score ps_xent_score(const float *logits, const uint32_t *labels, size_t n_rows,
                              uint32_t n_classes)
{
    struct ps_score score = {0};
    for (size_t row = 0; row < n_rows; row++) {
        const float *z = logits + row * n_classes;
        uint32_t best = argmax(z, n_classes);
        double sum = 0.0;
        for (uint32_t j = 0; j < n_classes; j++) {
            sum += (double)expf(z[j] - z[best]);
        }
        PS_DEBUG_ASSERT(labels[row] < n_classes);
        double loss = (double)z[best] + log(sum) - (double)z[labels[row]];
        score.loss_sum += loss;
        score.n_correct += best == labels[row] && isfinite(loss);
    }
    return score;
}

double ps_xent_gradient(float *logits, const uint32_t *labels, size_t n_rows, uint32_t n_classes)
{
    double loss_sum = 0.0;
    float share = 1.0f / (float)n_rows;
    for (size_t row = 0; row < n_rows; row++) {
        float *z = logits + row * n_classes;
        PS_DEBUG_ASSERT(labels[row] < n_classes);
        double z_label = (double)z[labels[row]];
        loss_sum += soften(z, n_classes) - z_label;
        z[labels[row]] -= 1.0f;
        for (uint32_t j = 0; j < n_classes; j++) {
            z[j] *= share;
        }
    }
    return loss_sum;
}

void ps_softmax(float *logits, size_t n_rows, uint32_t n_classes)
{
    for (size_t row = 0; row < n_rows; row++) {
        (void)soften(logits + row * n_classes, n_classes);
    }
}
