#ifndef PS_WORKER_MODEL_XENT_H
#define PS_WORKER_MODEL_XENT_H
/*
 * model/xent.h — softmax and cross-entropy of rows of logits.
 *
 *   p_j = exp(z_j - max z) / sum_k exp(z_k - max z)        loss = -log p_y
 *   d loss / d z_j = p_j - [j = y]
 *
 * Subtracting the maximum keeps every exponent at or below 0, so large logits neither overflow nor
 * lose their loss. Losses are summed in double. Pure.
 */
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/** Loss and hits of `logits` [n_rows][n_classes]. NaN in a row: NaN loss, no hit. */
struct ps_score ps_xent_score(const float *logits, const uint32_t *labels, size_t n_rows,
                              uint32_t n_classes);

/**
 * Replace `logits` [n_rows][n_classes] by the gradient of the mean loss over the rows.
 * @return the sum of the losses
 */
double ps_xent_gradient(float *logits, const uint32_t *labels, size_t n_rows, uint32_t n_classes);

/** Replace `logits` [n_rows][n_classes] by probabilities. */
void ps_softmax(float *logits, size_t n_rows, uint32_t n_classes);

#endif
