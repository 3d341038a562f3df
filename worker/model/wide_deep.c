/*
 * wide_deep.c — a linear model beside a perceptron over embeddings, summed into one score.
 *
 *   e_c = sum over the features i of field c of x_i E_i         E_i: [rank], a row per key
 *   a_0 = e_0 | e_1 | ... side by side, or their sum (params.pool)
 *   z   = sum_i w_i x_i + stack(a_0)                            see stack.h; its bias is the bias
 *
 * A field that is missing in a row leaves zeros; a number is its value times the embedding of its
 * column. Source: Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016.
 */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "model/scalar.h"
#include "model/sparse_list.h"
#include "model/stack.h"

#define RANK_PRESET 8u
#define INIT_SCALE  0.1f

enum {
    WIDE,
    EMBEDDING
};

struct wide_deep {
    struct ps_scalar scalar; /* First: ps_scalar_destroy frees the whole. */
    struct ps_stack stack;
    uint32_t rank;
    bool pool;
    float *x;   /* What enters the stack, [n_rows_max][widths[0]]; NULL before use. */
    float *d_x; /* Gradient of it; half of the same block. */
    size_t n_rows_max;
};

static struct wide_deep *wide_deep_of(struct ps_scalar *scalar)
{
    return PS_CONTAINER_OF(scalar, struct wide_deep, scalar);
}

static enum ps_status wide_deep_check(const struct ps_sparse_model_params *params,
                                      struct ps_error *err)
{
    uint32_t rank = params->rank != 0 ? params->rank : RANK_PRESET;
    if (params->n_fields < 1 || params->n_fields > PS_MODEL_FIELDS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "wide-deep needs 1 to %u columns, got %" PRIu32,
                       PS_MODEL_FIELDS_MAX, params->n_fields);
    }
    if (!params->pool && params->n_fields * rank > PS_MODEL_WIDTH_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "--rank %" PRIu32 " times %" PRIu32 " columns must be at most %u", rank,
                       params->n_fields, PS_MODEL_WIDTH_MAX);
    }
    return PS_OK;
}

/* Features of fields that the model does not have would be written beside its input. */
static enum ps_status wide_deep_assign(const struct ps_sparse_model *model,
                                       const struct ps_sparse_rows *rows, uint8_t *lists,
                                       size_t *ret_row, struct ps_error *err)
{
    uint32_t n_fields = model->n_fields;
    for (size_t row = 0; row < rows->n_rows; row++) {
        for (size_t i = rows->begin[row] - rows->begin[0];
             i < rows->begin[row + 1] - rows->begin[0]; i++) {
            if (rows->fields[i] >= n_fields) {
                *ret_row = row;
                return ps_fail(err, PS_ERR_INVALID,
                               "a feature of column %u, but the model was made for %" PRIu32
                               " columns",
                               rows->fields[i], n_fields);
            }
            lists[i] = 0;
        }
    }
    return PS_OK;
}

static enum ps_status reserve(struct ps_scalar *scalar, const struct ps_sparse_view *view)
{
    struct wide_deep *wd = wide_deep_of(scalar);
    size_t n_rows = view->rows.n_rows;
    size_t n = 0;
    if (n_rows > wd->n_rows_max) {
        if (!ps_mul_size(n_rows, 2 * (size_t)wd->stack.widths[0], &n)) {
            return PS_ERR_NOMEM;
        }
        float *x = ps_mem_array(scalar->base.mem, PS_MEM_OTHER, n, sizeof(*x));
        if (x == NULL) {
            return PS_ERR_NOMEM;
        }
        ps_mem_free(wd->x);
        wd->x = x;
        wd->d_x = x + n / 2;
        wd->n_rows_max = n_rows;
    }
    return ps_stack_reserve(&wd->stack, n_rows);
}

/* Where the embedding of a feature stands in a row of the stack's input. */
static size_t place_of(const struct wide_deep *wd, uint16_t field)
{
    return wd->pool ? 0 : (size_t)field * wd->rank;
}

static void embed(const struct wide_deep *wd, const struct ps_sparse_view *view,
                  const float *embeddings)
{
    const uint64_t *begin = view->rows.begin;
    size_t width = wd->stack.widths[0];
    memset(wd->x, 0, view->rows.n_rows * width * sizeof(*wd->x));
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        for (size_t i = begin[row] - begin[0]; i < begin[row + 1] - begin[0]; i++) {
            const float *e = embeddings + (size_t)view->index[i] * wd->rank;
            float *to = wd->x + row * width + place_of(wd, view->rows.fields[i]);
            float value = view->rows.values[i];
            for (uint32_t f = 0; f < wd->rank; f++) {
                to[f] += value * e[f];
            }
        }
    }
}

static void embed_backward(const struct wide_deep *wd, const struct ps_sparse_view *view,
                           float *d_embeddings)
{
    const uint64_t *begin = view->rows.begin;
    size_t width = wd->stack.widths[0];
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        for (size_t i = begin[row] - begin[0]; i < begin[row + 1] - begin[0]; i++) {
            float *d_e = d_embeddings + (size_t)view->index[i] * wd->rank;
            const float *from = wd->d_x + row * width + place_of(wd, view->rows.fields[i]);
            float value = view->rows.values[i];
            for (uint32_t f = 0; f < wd->rank; f++) {
                d_e[f] += value * from[f];
            }
        }
    }
}

static void forward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                    const struct ps_sparse_view *view, double *scores)
{
    struct wide_deep *wd = wide_deep_of(scalar);
    embed(wd, view, weights->rows[EMBEDDING]);
    struct ps_stack_rows rows = {.x = wd->x, .n_rows = view->rows.n_rows};
    const float *deep = ps_stack_forward(&wd->stack, weights->dense, &rows);
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        scores[row] += (double)deep[row];
    }
    ps_linear_forward(view, weights->rows[WIDE], 0.0f, scores);
}

static void backward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                     const struct ps_sparse_view *view, const double *slopes,
                     const struct ps_sparse_grads *grads)
{
    struct wide_deep *wd = wide_deep_of(scalar);
    struct ps_stack_rows rows = {.x = wd->x, .n_rows = view->rows.n_rows};
    float *delta = wd->stack.outs[wd->stack.n_layers - 1];
    for (size_t row = 0; row < rows.n_rows; row++) {
        delta[row] = (float)slopes[row];
    }
    ps_stack_backward(&wd->stack, weights->dense, &rows, grads->dense, wd->d_x);
    ps_clear_rows(view, &scalar->base.sparse[EMBEDDING], grads->rows[EMBEDDING]);
    embed_backward(wd, view, grads->rows[EMBEDDING]);
    float unused = 0.0f; /* The wide part has no bias of its own. */
    ps_linear_backward(view, slopes, grads->rows[WIDE], &unused);
}

static const struct ps_scalar_ops ops = {
    .reserve = reserve,
    .forward = forward,
    .backward = backward,
};

static enum ps_status wide_deep_create(const struct ps_sparse_model_params *params,
                                       struct ps_sparse_model **ret, struct ps_error *err)
{
    struct wide_deep *wd = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*wd));
    if (wd == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    ps_scalar_init(&wd->scalar, &ps_sparse_model_wide_deep, &ops, params,
                   params->regress ? PS_TASK_VALUE : PS_TASK_BINARY);
    wd->rank = params->rank != 0 ? params->rank : RANK_PRESET;
    wd->scalar.base.n_fields = params->n_fields;
    wd->pool = params->pool;
    struct ps_model_params deep = {
        .mem = params->mem,
        .n_features = params->pool ? wd->rank : wd->rank * params->n_fields,
        .n_classes = 1, /* One score. */
        .n_hidden = params->n_hidden,
    };
    memcpy(deep.hidden, params->hidden, sizeof(deep.hidden));
    ps_stack_init(&wd->stack, &deep);
    struct ps_sparse_model *model = &wd->scalar.base;
    model->n_sparse = 2;
    model->sparse[WIDE] = ps_row_table("wide_deep.wide", 1, 0.0f, params->seed);
    model->sparse[EMBEDDING] =
        ps_row_table("wide_deep.embedding", wd->rank, INIT_SCALE, params->seed);
    model->n_dense = 2 * wd->stack.n_layers;
    ps_stack_tables(&wd->stack, "wide_deep", params->seed, model->dense);
    model->dense_preset =
        (struct ps_optim_preset){.optimizer = "adagrad", .rate = 0.02f, .l2 = 1e-3f};
    model->sparse[WIDE].preset = model->dense_preset;
    model->sparse[EMBEDDING].preset = model->dense_preset;
    *ret = model;
    return PS_OK;
}

static void wide_deep_destroy(struct ps_sparse_model *model)
{
    struct wide_deep *wd = wide_deep_of(PS_CONTAINER_OF(model, struct ps_scalar, base));
    ps_stack_deinit(&wd->stack);
    ps_mem_free(wd->x);
    ps_scalar_destroy(model);
}

const struct ps_sparse_model_kind ps_sparse_model_wide_deep = {
    .name = "wide-deep",
    .help = "embeddings (--rank K, 8 unless given) under a perceptron (--hidden), beside a linear "
            "model",
    .takes = PS_SPARSE_TAKES_RANK | PS_SPARSE_TAKES_HIDDEN | PS_SPARSE_TAKES_POOL |
             PS_SPARSE_TAKES_REGRESS,
    .check = wide_deep_check,
    .create = wide_deep_create,
    .destroy = wide_deep_destroy,
    .assign = wide_deep_assign,
    .gradients = ps_scalar_gradients,
    .evaluate = ps_scalar_evaluate,
    .predict = ps_scalar_predict,
};
