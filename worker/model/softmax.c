/*
 * softmax.c — multinomial logistic regression: one layer, softmax, cross-entropy.
 *
 *   z = x W + b       loss = -log softmax(z)_y
 *
 * The loss is convex, so weights start at zero and every seed gives the same run.
 */
#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "model/layer.h"
#include "model/model_list.h"
#include "model/xent.h"

enum {
    WEIGHT,
    BIAS,
    N_TABLES
};

struct softmax {
    struct ps_model base;
    float *logits; /* [n_logits], scratch. */
    size_t n_logits;
};

static struct softmax *softmax_of(struct ps_model *model)
{
    return PS_CONTAINER_OF(model, struct softmax, base);
}

static enum ps_status softmax_check(const struct ps_model_params *params, struct ps_error *err)
{
    if (params->n_hidden != 0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "--model softmax has no hidden layers: leave out --hidden, or use "
                       "--model mlp");
    }
    return PS_OK;
}

static enum ps_status softmax_create(const struct ps_model_params *params, struct ps_model **ret,
                                     struct ps_error *err)
{
    struct softmax *softmax = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*softmax));
    if (softmax == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    softmax->base = (struct ps_model){
        .kind = &ps_model_softmax,
        .mem = params->mem,
        .n_features = params->n_features,
        .n_classes = params->n_classes,
        .n_tables = N_TABLES,
    };
    struct ps_model_table *tables = softmax->base.tables;
    ps_layer_tables("softmax", params->n_features, params->n_classes, params->seed, tables);
    tables[WEIGHT].init.kind = PS_INIT_ZEROS;
    *ret = &softmax->base;
    return PS_OK;
}

static void softmax_destroy(struct ps_model *model)
{
    struct softmax *softmax = softmax_of(model);
    ps_mem_free(softmax->logits);
    ps_mem_free(softmax);
}

static enum ps_status reserve(struct softmax *softmax, size_t n_rows)
{
    size_t n_logits = 0;
    if (!ps_mul_size(n_rows, softmax->base.n_classes, &n_logits)) {
        return PS_ERR_NOMEM;
    }
    if (n_logits <= softmax->n_logits) {
        return PS_OK;
    }
    float *logits = ps_mem_array(softmax->base.mem, PS_MEM_OTHER, n_logits, sizeof(*logits));
    if (logits == NULL) {
        return PS_ERR_NOMEM;
    }
    ps_mem_free(softmax->logits);
    softmax->logits = logits;
    softmax->n_logits = n_logits;
    return PS_OK;
}

static struct ps_layer layer_of(const struct ps_model *model, const float *const *weights,
                                size_t n_rows)
{
    return (struct ps_layer){
        .weight = weights[WEIGHT],
        .bias = weights[BIAS],
        .n_rows = n_rows,
        .n_in = model->n_features,
        .n_out = model->n_classes,
    };
}

static enum ps_status softmax_gradients(struct ps_model *model, const float *const *weights,
                                        const struct ps_batch_view *batch, float *const *grads,
                                        double *ret_loss_sum)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct softmax *softmax = softmax_of(model);
    enum ps_status status = reserve(softmax, batch->n_rows);
    if (status != PS_OK) {
        return status;
    }
    struct ps_layer layer = layer_of(model, weights, batch->n_rows);
    ps_layer_forward(&layer, batch->x, softmax->logits);
    *ret_loss_sum = ps_xent_gradient(softmax->logits, batch->y, batch->n_rows, model->n_classes);
    ps_layer_backward(&layer, batch->x, softmax->logits, grads[WEIGHT], grads[BIAS]);
    return PS_OK;
}

static enum ps_status softmax_evaluate(struct ps_model *model, const float *const *weights,
                                       const struct ps_batch_view *batch, struct ps_score *ret)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct softmax *softmax = softmax_of(model);
    enum ps_status status = reserve(softmax, batch->n_rows);
    if (status != PS_OK) {
        return status;
    }
    struct ps_layer layer = layer_of(model, weights, batch->n_rows);
    ps_layer_forward(&layer, batch->x, softmax->logits);
    *ret = ps_xent_score(softmax->logits, batch->y, batch->n_rows, model->n_classes);
    return PS_OK;
}

static enum ps_status softmax_predict(struct ps_model *model, const float *const *weights,
                                      const struct ps_batch_view *batch, float *probs)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct ps_layer layer = layer_of(model, weights, batch->n_rows);
    ps_layer_forward(&layer, batch->x, probs);
    ps_softmax(probs, batch->n_rows, model->n_classes);
    return PS_OK;
}

const struct ps_model_kind ps_model_softmax = {
    .name = "softmax",
    .help = "multinomial logistic regression",
    .check = softmax_check,
    .create = softmax_create,
    .destroy = softmax_destroy,
    .gradients = softmax_gradients,
    .evaluate = softmax_evaluate,
    .predict = softmax_predict,
};
