/* layer.c — see layer.h. */
#include "model/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "num/blas.h"

void ps_layer_forward(const struct ps_layer *layer, const float *in, float *out)
{
    for (size_t row = 0; row < layer->n_rows; row++) {
        memcpy(out + row * layer->n_out, layer->bias, layer->n_out * sizeof(*out));
    }
    struct ps_gemm op = {
        .kind = PS_GEMM_NN,
        .m = layer->n_rows,
        .n = layer->n_out,
        .k = layer->n_in,
        .alpha = 1.0f,
        .beta = 1.0f, /* On top of the bias. */
    };
    ps_gemm(&op, in, layer->weight, out);
}

void ps_layer_backward(const struct ps_layer *layer, const float *in, const float *d_out,
                       float *d_weight, float *d_bias)
{
    struct ps_gemm op = {
        .kind = PS_GEMM_TN,
        .m = layer->n_in,
        .n = layer->n_out,
        .k = layer->n_rows,
        .alpha = 1.0f,
        .beta = 0.0f,
    };
    ps_gemm(&op, in, d_out, d_weight);

    memcpy(d_bias, d_out, layer->n_out * sizeof(*d_bias));
    for (size_t row = 1; row < layer->n_rows; row++) {
        const float *d_row = d_out + row * layer->n_out;
        for (uint32_t j = 0; j < layer->n_out; j++) {
            d_bias[j] += d_row[j];
        }
    }
}

void ps_layer_backward_input(const struct ps_layer *layer, const float *d_out, float *d_in)
{
    struct ps_gemm op = {
        .kind = PS_GEMM_NT,
        .m = layer->n_rows,
        .n = layer->n_in,
        .k = layer->n_out,
        .alpha = 1.0f,
        .beta = 0.0f,
    };
    ps_gemm(&op, d_out, layer->weight, d_in);
}

void ps_layer_tables(const char *prefix, uint32_t n_in, uint32_t n_out, uint64_t seed,
                     struct ps_model_table tables[2])
{
    tables[0] = (struct ps_model_table){
        .n_dims = 2,
        .dims = {n_in, n_out},
        .n_values = (uint64_t)n_in * n_out,
        .init = {.kind = PS_INIT_NORMAL, .scale = sqrtf(2.0f / (float)n_in), .seed = seed},
    };
    tables[1] = (struct ps_model_table){
        .n_dims = 1,
        .dims = {n_out},
        .n_values = n_out,
        .init = {.kind = PS_INIT_ZEROS, .seed = seed},
    };
    int n_weight = snprintf(tables[0].name, sizeof(tables[0].name), "%s.weight", prefix);
    int n_bias = snprintf(tables[1].name, sizeof(tables[1].name), "%s.bias", prefix);
    PS_ASSERT(n_weight > 0 && (size_t)n_weight < sizeof(tables[0].name));
    PS_ASSERT(n_bias > 0 && (size_t)n_bias < sizeof(tables[1].name));
}
