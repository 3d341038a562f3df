/*
 * sparse_softmax.c — multinomial logistic regression over sparse rows: a weight per key and class.
 *
 *   z = b + sum_i w_i x_i     loss = -log softmax(z)_y
 *
 * The loss is convex, so weights start at zero and every seed gives the same run.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "model/scalar.h"
#include "model/sparse_list.h"
#include "model/xent.h"

#define CLASSES_MAX 4096u /* A row of the table has one float per class. */

struct softmax {
    struct ps_sparse_model base;
    float *logits;    /* [n_rows_max][n_classes], scratch; NULL before use. */
    uint32_t *labels; /* [n_rows_max] */
    size_t n_rows_max;
};

static struct softmax *softmax_of(struct ps_sparse_model *model)
{
    return PS_CONTAINER_OF(model, struct softmax, base);
}

static enum ps_status softmax_check(const struct ps_sparse_model_params *params,
                                    struct ps_error *err)
{
    if (params->n_classes < 2 || params->n_classes > CLASSES_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "softmax over sparse rows needs 2 to %u classes, got %" PRIu32, CLASSES_MAX,
                       params->n_classes);
    }
    return PS_OK;
}

static enum ps_status softmax_create(const struct ps_sparse_model_params *params,
                                     struct ps_sparse_model **ret, struct ps_error *err)
{
    struct softmax *softmax = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*softmax));
    if (softmax == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    softmax->base = (struct ps_sparse_model){
        .kind = &ps_sparse_model_softmax,
        .mem = params->mem,
        .task = PS_TASK_CLASSES,
        .n_outputs = params->n_classes,
        .n_lists = 1,
        .n_sparse = 1,
        .sparse = {ps_row_table("softmax.weight", params->n_classes, 0.0f, params->seed)},
        .dense_preset = {.optimizer = "adagrad", .rate = 0.1f, .l2 = 3e-4f},
        .n_dense = 1,
        .dense = {ps_bias_table("softmax.bias", params->n_classes, params->seed)},
    };
    softmax->base.sparse[0].preset = softmax->base.dense_preset;
    *ret = &softmax->base;
    return PS_OK;
}

static void softmax_destroy(struct ps_sparse_model *model)
{
    struct softmax *softmax = softmax_of(model);
    ps_mem_free(softmax->logits);
    ps_mem_free(softmax->labels);
    ps_mem_free(softmax);
}

static enum ps_status reserve(struct softmax *softmax, size_t n_rows)
{
    PS_ASSERT(n_rows >= 1);
    size_t n = 0;
    if (n_rows <= softmax->n_rows_max) {
        return PS_OK;
    }
    if (!ps_mul_size(n_rows, softmax->base.n_outputs, &n)) {
        return PS_ERR_NOMEM;
    }
    struct ps_mem *mem = softmax->base.mem;
    float *logits = ps_mem_array(mem, PS_MEM_OTHER, n, sizeof(*logits));
    uint32_t *labels = ps_mem_array(mem, PS_MEM_OTHER, n_rows, sizeof(*labels));
    if (logits == NULL || labels == NULL) {
        ps_mem_free(logits);
        ps_mem_free(labels);
        return PS_ERR_NOMEM;
    }
    ps_mem_free(softmax->logits);
    ps_mem_free(softmax->labels);
    softmax->logits = logits;
    softmax->labels = labels;
    softmax->n_rows_max = n_rows;
    return PS_OK;
}

static void forward(uint32_t n_classes, const struct ps_sparse_weights *weights,
                    const struct ps_sparse_view *view, float *logits)
{
    const uint64_t *begin = view->rows.begin;
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        float *z = logits + row * n_classes;
        memcpy(z, weights->dense[0], n_classes * sizeof(*z));
        for (size_t i = begin[row] - begin[0]; i < begin[row + 1] - begin[0]; i++) {
            const float *w = weights->rows[0] + (size_t)view->index[i] * n_classes;
            float x = view->rows.values[i];
            for (uint32_t j = 0; j < n_classes; j++) {
                z[j] += w[j] * x;
            }
        }
    }
}

/* Gradients from `d_logits`, the gradient of the mean loss; `share` makes it that of the view. */
static void backward(const struct ps_sparse_model *model, const struct ps_sparse_view *view,
                     const float *d_logits, const struct ps_sparse_grads *grads)
{
    uint32_t n_classes = model->n_outputs;
    const uint64_t *begin = view->rows.begin;
    float share = view->scale * (float)view->rows.n_rows;
    float *d_bias = grads->dense[0];
    memset(d_bias, 0, n_classes * sizeof(*d_bias));
    ps_clear_rows(view, &model->sparse[0], grads->rows[0]);
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        const float *d_z = d_logits + row * n_classes;
        for (uint32_t j = 0; j < n_classes; j++) {
            d_bias[j] += share * d_z[j];
        }
        for (size_t i = begin[row] - begin[0]; i < begin[row + 1] - begin[0]; i++) {
            float *d_w = grads->rows[0] + (size_t)view->index[i] * n_classes;
            float x = share * view->rows.values[i];
            for (uint32_t j = 0; j < n_classes; j++) {
                d_w[j] += x * d_z[j];
            }
        }
    }
}

static void read_labels(struct softmax *softmax, const struct ps_sparse_view *view)
{
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        softmax->labels[row] = (uint32_t)view->rows.labels[row];
    }
}

static enum ps_status softmax_gradients(struct ps_sparse_model *model,
                                        const struct ps_sparse_weights *weights,
                                        const struct ps_sparse_view *view,
                                        const struct ps_sparse_grads *grads, double *ret_loss_sum)
{
    struct softmax *softmax = softmax_of(model);
    size_t n_rows = view->rows.n_rows;
    enum ps_status status = reserve(softmax, n_rows);
    if (status != PS_OK) {
        return status;
    }
    read_labels(softmax, view);
    forward(model->n_outputs, weights, view, softmax->logits);
    *ret_loss_sum = ps_xent_gradient(softmax->logits, softmax->labels, n_rows, model->n_outputs);
    backward(model, view, softmax->logits, grads);
    return PS_OK;
}

static enum ps_status softmax_evaluate(struct ps_sparse_model *model,
                                       const struct ps_sparse_weights *weights,
                                       const struct ps_sparse_view *view, struct ps_score *ret)
{
    struct softmax *softmax = softmax_of(model);
    size_t n_rows = view->rows.n_rows;
    enum ps_status status = reserve(softmax, n_rows);
    if (status != PS_OK) {
        return status;
    }
    read_labels(softmax, view);
    forward(model->n_outputs, weights, view, softmax->logits);
    *ret = ps_xent_score(softmax->logits, softmax->labels, n_rows, model->n_outputs);
    return PS_OK;
}

static enum ps_status softmax_predict(struct ps_sparse_model *model,
                                      const struct ps_sparse_weights *weights,
                                      const struct ps_sparse_view *view, float *out)
{
    PS_ASSERT(view->rows.n_rows >= 1);
    forward(model->n_outputs, weights, view, out);
    ps_softmax(out, view->rows.n_rows, model->n_outputs);
    return PS_OK;
}

const struct ps_sparse_model_kind ps_sparse_model_softmax = {
    .name = "softmax",
    .help = "multinomial logistic regression",
    .check = softmax_check,
    .create = softmax_create,
    .destroy = softmax_destroy,
    .gradients = softmax_gradients,
    .evaluate = softmax_evaluate,
    .predict = softmax_predict,
};
