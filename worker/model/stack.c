/* stack.c — see stack.h. */
#include "model/stack.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "model/layer.h"

#define HIDDEN_PRESET 128u /* One hidden layer of this width when --hidden is not given. */

void ps_stack_init(struct ps_stack *stack, const struct ps_model_params *params)
{
    uint32_t n_hidden = params->n_hidden;
    *stack = (struct ps_stack){.mem = params->mem};
    stack->widths[0] = params->n_features;
    for (uint32_t i = 0; i < n_hidden; i++) {
        stack->widths[i + 1] = params->hidden[i];
    }
    if (n_hidden == 0) {
        n_hidden = 1;
        stack->widths[1] = HIDDEN_PRESET;
    }
    stack->n_layers = n_hidden + 1;
    stack->widths[stack->n_layers] = params->n_classes;
}

void ps_stack_deinit(struct ps_stack *stack)
{
    ps_mem_free(stack->scratch);
}

void ps_stack_tables(const struct ps_stack *stack, const char *prefix, uint64_t seed,
                     struct ps_model_table *tables)
{
    for (uint32_t l = 0; l < stack->n_layers; l++) {
        char name[PS_NAME_BYTES_MAX + 1];
        int n = snprintf(name, sizeof(name), "%s.%u", prefix, l);
        PS_ASSERT(n > 0 && (size_t)n < sizeof(name));
        ps_layer_tables(name, stack->widths[l], stack->widths[l + 1], seed, &tables[2 * (size_t)l]);
    }
}

enum ps_status ps_stack_reserve(struct ps_stack *stack, size_t n_rows)
{
    if (n_rows <= stack->n_rows_max) {
        return PS_OK;
    }
    size_t widest = 0;
    size_t n_columns = 0;
    for (uint32_t l = 0; l < stack->n_layers; l++) {
        size_t width = stack->widths[l + 1];
        widest = width > widest ? width : widest;
        n_columns += width;
    }
    size_t n_values = 0;
    if (!ps_mul_size(n_rows, n_columns + 2 * widest, &n_values)) {
        return PS_ERR_NOMEM;
    }
    float *scratch = ps_mem_array(stack->mem, PS_MEM_OTHER, n_values, sizeof(*scratch));
    if (scratch == NULL) {
        return PS_ERR_NOMEM;
    }
    ps_mem_free(stack->scratch);
    stack->scratch = scratch;
    stack->n_rows_max = n_rows;
    stack->deltas[0] = scratch;
    stack->deltas[1] = scratch + n_rows * widest;
    scratch += 2 * n_rows * widest;
    for (uint32_t l = 0; l < stack->n_layers; l++) {
        stack->outs[l] = scratch;
        scratch += n_rows * stack->widths[l + 1];
    }
    return PS_OK;
}

static struct ps_layer layer_of(const struct ps_stack *stack, uint32_t l,
                                const float *const *weights, size_t n_rows)
{
    return (struct ps_layer){
        .weight = weights[2 * (size_t)l],
        .bias = weights[2 * (size_t)l + 1],
        .n_rows = n_rows,
        .n_in = stack->widths[l],
        .n_out = stack->widths[l + 1],
    };
}

/* Written so that NaN passes on: a ReLU that turned it into 0 would hide a run that diverged. */
static void relu(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = values[i] < 0.0f ? 0.0f : values[i];
    }
}

/* No gradient passes where the ReLU was shut. */
static void relu_backward(const float *outs, float *deltas, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        deltas[i] = outs[i] > 0.0f ? deltas[i] : 0.0f;
    }
}

float *ps_stack_forward(struct ps_stack *stack, const float *const *weights,
                        const struct ps_stack_rows *rows)
{
    PS_ASSERT(rows->n_rows <= stack->n_rows_max);
    const float *in = rows->x;
    for (uint32_t l = 0; l < stack->n_layers; l++) {
        struct ps_layer layer = layer_of(stack, l, weights, rows->n_rows);
        ps_layer_forward(&layer, in, stack->outs[l]);
        if (l + 1 < stack->n_layers) {
            relu(stack->outs[l], rows->n_rows * layer.n_out);
        }
        in = stack->outs[l];
    }
    return stack->outs[stack->n_layers - 1];
}

void ps_stack_backward(struct ps_stack *stack, const float *const *weights,
                       const struct ps_stack_rows *rows, float *const *grads, float *d_x)
{
    float *delta = stack->outs[stack->n_layers - 1];
    for (uint32_t l = stack->n_layers; l-- > 0;) {
        struct ps_layer layer = layer_of(stack, l, weights, rows->n_rows);
        const float *in = l > 0 ? stack->outs[l - 1] : rows->x;
        ps_layer_backward(&layer, in, delta, grads[2 * (size_t)l], grads[2 * (size_t)l + 1]);
        if (l > 0) {
            float *below = stack->deltas[l % 2];
            ps_layer_backward_input(&layer, delta, below);
            relu_backward(in, below, rows->n_rows * layer.n_in);
            delta = below;
        } else if (d_x != NULL) {
            ps_layer_backward_input(&layer, delta, d_x);
        }
    }
}
