#ifndef PS_WORKER_MODEL_STACK_H
#define PS_WORKER_MODEL_STACK_H
/*
 * model/stack.h — fully connected layers one after another, ReLU between them: the body of a mlp.
 *
 *   a_0 = x     a_l = max(0, a_{l-1} W_l + b_l)     out = a_{L-1} W_L + b_L
 *
 * Backward, delta_L being the gradient with respect to out:
 *
 *   dW_l = a_{l-1}^T delta_l     db_l = sum over rows of delta_l
 *   delta_{l-1} = (delta_l W_l^T) where a_{l-1} > 0, else 0
 *
 * A stack owns scratch for its largest batch so far. Weights and gradients are arrays in the order
 * of its tables: weight and bias of layer 0, of layer 1, ...
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "model/model.h"

#define PS_STACK_LAYERS_MAX (PS_MODEL_HIDDEN_MAX + 1u)

struct ps_stack {
    struct ps_mem *mem;
    uint32_t n_layers;
    uint32_t widths[PS_STACK_LAYERS_MAX + 1]; /* Layer l is widths[l] -> widths[l + 1]. */
    float *scratch;                           /* One block for all below; NULL before use. */
    size_t n_rows_max;                        /* Rows that the scratch is made for. */
    float *outs[PS_STACK_LAYERS_MAX];         /* Of each layer, [n_rows_max][widths[l + 1]]. */
    float *deltas[2];                         /* Gradients of a hidden output, taking turns. */
};

/** Rows that enter the first layer: `x` [n_rows][widths[0]]. Borrowed. */
struct ps_stack_rows {
    const float *x;
    size_t n_rows;
};

/** Hidden layers of `params`, or one of a preset width when it names none. Allocates nothing. */
void ps_stack_init(struct ps_stack *stack, const struct ps_model_params *params);

void ps_stack_deinit(struct ps_stack *stack);

/** Describe the 2 * n_layers tables "<prefix>.0.weight", "<prefix>.0.bias", ... */
void ps_stack_tables(const struct ps_stack *stack, const char *prefix, uint64_t seed,
                     struct ps_model_table *tables);

/** Make room for `n_rows`. @return PS_ERR_NOMEM; the stack is then as before */
PS_MUST_CHECK enum ps_status ps_stack_reserve(struct ps_stack *stack, size_t n_rows);

/** Rows were reserved. @return the output of the last layer, in the stack's scratch */
float *ps_stack_forward(struct ps_stack *stack, const float *const *weights,
                        const struct ps_stack_rows *rows);

/**
 * Gradients of all tables, overwritten. The caller has run forward on the same rows and turned
 * its output, where it stands, into the gradient with respect to it.
 *
 * @param d_x  gradient with respect to the rows, overwritten; NULL: not wanted
 */
void ps_stack_backward(struct ps_stack *stack, const float *const *weights,
                       const struct ps_stack_rows *rows, float *const *grads, float *d_x);

#endif
