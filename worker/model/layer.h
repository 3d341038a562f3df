#ifndef PS_WORKER_MODEL_LAYER_H
#define PS_WORKER_MODEL_LAYER_H
/*
 * model/layer.h — a fully connected layer: the tables it needs, forward and backward.
 *
 *   forward    out = in W + b                in [n_rows][n_in], W [n_in][n_out], b [n_out]
 *   backward   dW = in^T d_out    db = sum over rows of d_out    d_in = d_out W^T
 *
 * All matrices are row-major. Nothing here allocates or keeps state.
 */
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/** Who touches what in one call. Borrowed. */
struct ps_layer {
    const float *weight; /* [n_in][n_out] */
    const float *bias;   /* [n_out] */
    size_t n_rows;
    uint32_t n_in;
    uint32_t n_out;
};

/** `out` [n_rows][n_out] is overwritten. */
void ps_layer_forward(const struct ps_layer *layer, const float *in, float *out);

/** Gradients of weight and bias; both are overwritten. */
void ps_layer_backward(const struct ps_layer *layer, const float *in, const float *d_out,
                       float *d_weight, float *d_bias);

/** `d_in` [n_rows][n_in] is overwritten. */
void ps_layer_backward_input(const struct ps_layer *layer, const float *d_out, float *d_in);

/**
 * Describe the two tables "<prefix>.weight" and "<prefix>.bias" of a layer. Weights are normal with
 * variance 2 / n_in, which keeps the size of activations through ReLU layers; biases are 0.
 * Source: He et al., "Delving Deep into Rectifiers", ICCV 2015.
 */
void ps_layer_tables(const char *prefix, uint32_t n_in, uint32_t n_out, uint64_t seed,
                     struct ps_model_table tables[2]);

#endif
