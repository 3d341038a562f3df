/*
 * mlp.c — a perceptron with hidden layers: a stack of them (stack.h), softmax and cross-entropy at
 * the end.
 *
 *   z = stack(x)     loss = -log softmax(z)_y
 */
#include "base/assert.h"
#include "base/mem.h"
#include "model/model_list.h"
#include "model/stack.h"
#include "model/xent.h"

struct mlp {
    struct ps_model base;
    struct ps_stack stack;
};

static struct mlp *mlp_of(struct ps_model *model)
{
    return PS_CONTAINER_OF(model, struct mlp, base);
}

static enum ps_status mlp_create(const struct ps_model_params *params, struct ps_model **ret,
                                 struct ps_error *err)
{
    struct mlp *mlp = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*mlp));
    if (mlp == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    ps_stack_init(&mlp->stack, params);
    mlp->base = (struct ps_model){
        .kind = &ps_model_mlp,
        .mem = params->mem,
        .n_features = params->n_features,
        .n_classes = params->n_classes,
        .n_tables = 2 * mlp->stack.n_layers,
    };
    ps_stack_tables(&mlp->stack, "mlp", params->seed, mlp->base.tables);
    *ret = &mlp->base;
    return PS_OK;
}

static void mlp_destroy(struct ps_model *model)
{
    struct mlp *mlp = mlp_of(model);
    ps_stack_deinit(&mlp->stack);
    ps_mem_free(mlp);
}

static struct ps_stack_rows rows_of(const struct ps_batch_view *batch)
{
    return (struct ps_stack_rows){.x = batch->x, .n_rows = batch->n_rows};
}

static enum ps_status mlp_gradients(struct ps_model *model, const float *const *weights,
                                    const struct ps_batch_view *batch, float *const *grads,
                                    double *ret_loss_sum)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct ps_stack *stack = &mlp_of(model)->stack;
    enum ps_status status = ps_stack_reserve(stack, batch->n_rows);
    if (status != PS_OK) {
        return status;
    }
    struct ps_stack_rows rows = rows_of(batch);
    float *logits = ps_stack_forward(stack, weights, &rows);
    *ret_loss_sum = ps_xent_gradient(logits, batch->y, batch->n_rows, model->n_classes);
    ps_stack_backward(stack, weights, &rows, grads, NULL);
    return PS_OK;
}

static enum ps_status mlp_evaluate(struct ps_model *model, const float *const *weights,
                                   const struct ps_batch_view *batch, struct ps_score *ret)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct ps_stack *stack = &mlp_of(model)->stack;
    enum ps_status status = ps_stack_reserve(stack, batch->n_rows);
    if (status != PS_OK) {
        return status;
    }
    struct ps_stack_rows rows = rows_of(batch);
    const float *logits = ps_stack_forward(stack, weights, &rows);
    *ret = ps_xent_score(logits, batch->y, batch->n_rows, model->n_classes);
    return PS_OK;
}

static enum ps_status mlp_predict(struct ps_model *model, const float *const *weights,
                                  const struct ps_batch_view *batch, float *probs)
{
    PS_ASSERT(batch->n_rows >= 1);
    struct ps_stack *stack = &mlp_of(model)->stack;
    enum ps_status status = ps_stack_reserve(stack, batch->n_rows);
    if (status != PS_OK) {
        return status;
    }
    struct ps_stack_rows rows = rows_of(batch);
    const float *logits = ps_stack_forward(stack, weights, &rows);
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
