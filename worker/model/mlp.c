/*
 * mlp.c — a perceptron with hidden layers: ReLU between layers, softmax and cross-entropy at the
 * end.
 *
 *   a_0 = x     a_l = max(0, a_{l-1} W_l + b_l)
 *   z = a_{L-1} W_L + b_L     loss = -log softmax(z)_y
 *
 * Backward, delta_L being the gradient with respect to z:
 *
 *   dW_l = a_{l-1}^T delta_l     db_l = sum over rows of delta_l
 *   delta_{l-1} = (delta_l W_l^T) where a_{l-1} > 0, else 0
 */
#include <stdio.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "model/layer.h"
#include "model/model_list.h"
#include "model/xent.h"

#define LAYERS_MAX    (PS_MODEL_HIDDEN_MAX + 1u)
#define HIDDEN_PRESET 128u /* One hidden layer of this width when --hidden is not given. */

struct mlp {
    struct ps_model base;
    uint32_t n_layers;
    uint32_t
        widths[LAYERS_MAX + 1]; /* From features to classes: layer l is widths[l] -> [l + 1]. */
    float *scratch;             /* One block for everything below; NULL before use. */
    size_t n_rows_max;          /* Rows that the scratch is made for. */
    float *outs[LAYERS_MAX];    /* Output of each layer, [n_rows_max][widths[l + 1]]. */
    float *deltas[2];           /* Gradients of a hidden layer's output, taking turns. */
};

static struct mlp *mlp_of(struct ps_model *model)
{
    return PS_CONTAINER_OF(model, struct mlp, base);
}

static void set_widths(struct mlp *mlp, const struct ps_model_params *params)
{
    uint32_t n_hidden = params->n_hidden;
    mlp->widths[0] = params->n_features;
    for (uint32_t i = 0; i < n_hidden; i++) {
        mlp->widths[i + 1] = params->hidden[i];
    }
    if (n_hidden == 0) {
        n_hidden = 1;
        mlp->widths[1] = HIDDEN_PRESET;
    }
    mlp->n_layers = n_hidden + 1;
    mlp->widths[mlp->n_layers] = params->n_classes;
}

static enum ps_status mlp_create(const struct ps_model_params *params, struct ps_model **ret,
                                 struct ps_error *err)
{
    struct mlp *mlp = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*mlp));
    if (mlp == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    set_widths(mlp, params);
    mlp->base = (struct ps_model){
        .kind = &ps_model_mlp,
        .mem = params->mem,
        .n_features = params->n_features,
        .n_classes = params->n_classes,
        .n_tables = 2 * mlp->n_layers,
    };
    for (uint32_t l = 0; l < mlp->n_layers; l++) {
        char prefix[16];
        (void)snprintf(prefix, sizeof(prefix), "mlp.%u", l);
        ps_layer_tables(prefix, mlp->widths[l], mlp->widths[l + 1], params->seed,
                        &mlp->base.tables[2 * (size_t)l]);
    }
    *ret = &mlp->base;
    return PS_OK;
}

static void mlp_destroy(struct ps_model *model)
{
    struct mlp *mlp = mlp_of(model);
    ps_mem_free(mlp->scratch);
    ps_mem_free(mlp);
}

/* Make the scratch large enough for `n_rows`: outputs of all layers and two deltas. */
static enum ps_status reserve(struct mlp *mlp, size_t n_rows)
{
    if (n_rows <= mlp->n_rows_max) {
        return PS_OK;
    }
    size_t widest = 0;
    size_t n_columns = 0;
    for (uint32_t l = 0; l < mlp->n_layers; l++) {
        size_t width = mlp->widths[l + 1];
        widest = width > widest ? width : widest;
        n_columns += width;
    }
    size_t n_values = 0;
    if (!ps_mul_size(n_rows, n_columns + 2 * widest, &n_values)) {
        return PS_ERR_NOMEM;
    }
    float *scratch = ps_mem_array(mlp->base.mem, PS_MEM_OTHER, n_values, sizeof(*scratch));
    if (scratch == NULL) {
        return PS_ERR_NOMEM;
    }
    ps_mem_free(mlp->scratch);
    mlp->scratch = scratch;
    mlp->n_rows_max = n_rows;
    mlp->deltas[0] = scratch;
    mlp->deltas[1] = scratch + n_rows * widest;
    scratch += 2 * n_rows * widest;
    for (uint32_t l = 0; l < mlp->n_layers; l++) {
        mlp->outs[l] = scratch;
        scratch += n_rows * mlp->widths[l + 1];
    }
    return PS_OK;
}

static struct ps_layer layer_of(const struct mlp *mlp, uint32_t l, const float *const *weights,
                                size_t n_rows)
{
    return (struct ps_layer){
        .weight = weights[2 * (size_t)l],
        .bias = weights[2 * (size_t)l + 1],
        .n_rows = n_rows,
        .n_in = mlp->widths[l],
        .n_out = mlp->widths[l + 1],
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

/* Fill outs[] for the batch. Returns the logits, the last of them. */
static float *forward(struct mlp *mlp, const float *const *weights,
                      const struct ps_batch_view *batch)
{
    const float *in = batch->x;
    for (uint32_t l = 0; l < mlp->n_layers; l++) {
        struct ps_layer layer = layer_of(mlp, l, weights, batch->n_rows);
        ps_layer_forward(&layer, in, mlp->outs[l]);
        if (l + 1 < mlp->n_layers) {
            relu(mlp->outs[l], batch->n_rows * layer.n_out);
        }
        in = mlp->outs[l];
    }
    return mlp->outs[mlp->n_layers - 1];
}

static enum ps_status mlp_gradients(struct ps_model *model, const float *const *weights,
                                    const struct ps_batch_view *batch, float *const *grads,
                                    double *ret_loss_sum)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct mlp *mlp = mlp_of(model);
    enum ps_status status = reserve(mlp, batch->n_rows);
    if (status != PS_OK) {
        return status;
    }
    float *delta = forward(mlp, weights, batch);
    *ret_loss_sum = ps_xent_gradient(delta, batch->y, batch->n_rows, model->n_classes);
    for (uint32_t l = mlp->n_layers; l-- > 0;) {
        struct ps_layer layer = layer_of(mlp, l, weights, batch->n_rows);
        const float *in = l > 0 ? mlp->outs[l - 1] : batch->x;
        ps_layer_backward(&layer, in, delta, grads[2 * (size_t)l], grads[2 * (size_t)l + 1]);
        if (l > 0) {
            float *below = mlp->deltas[l % 2];
            ps_layer_backward_input(&layer, delta, below);
            relu_backward(in, below, batch->n_rows * layer.n_in);
            delta = below;
        }
    }
    return PS_OK;
}

static enum ps_status mlp_evaluate(struct ps_model *model, const float *const *weights,
                                   const struct ps_batch_view *batch, struct ps_score *ret)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct mlp *mlp = mlp_of(model);
    enum ps_status status = reserve(mlp, batch->n_rows);
    if (status != PS_OK) {
        return status;
    }
    const float *logits = forward(mlp, weights, batch);
    *ret = ps_xent_score(logits, batch->y, batch->n_rows, model->n_classes);
    return PS_OK;
}

static enum ps_status mlp_predict(struct ps_model *model, const float *const *weights,
                                  const struct ps_batch_view *batch, float *probs)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct mlp *mlp = mlp_of(model);
    enum ps_status status = reserve(mlp, batch->n_rows);
    if (status != PS_OK) {
        return status;
    }
    const float *logits = forward(mlp, weights, batch);
    size_t n_probs = batch->n_rows * model->n_classes;
    for (size_t i = 0; i < n_probs; i++) {
        probs[i] = logits[i];
    }
    ps_softmax(probs, batch->n_rows, model->n_classes);
    return PS_OK;
}

const struct ps_model_kind ps_model_mlp = {
    .name = "mlp",
    .help = "perceptron with ReLU; --hidden 128,64 names its hidden layers (128 unless given)",
    .create = mlp_create,
    .destroy = mlp_destroy,
    .gradients = mlp_gradients,
    .evaluate = mlp_evaluate,
    .predict = mlp_predict,
};
