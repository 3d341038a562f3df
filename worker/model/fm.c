/*
 * fm.c — factorisation machine of degree 2: a weight per feature, and factors v (k numbers) per
 * feature whose products are the weights of pairs.
 *
 *   z = b + sum_i w_i x_i + sum_{i<j} (v_i . v_j) x_i x_j
 *
 * in O(features * k), since with S_f = sum_i v_if x_i
 *
 *   sum_{i<j} (v_i . v_j) x_i x_j = 1/2 sum_f (S_f^2 - sum_i v_if^2 x_i^2)
 *   d z / d v_if = x_i (S_f - v_if x_i)
 *
 * Source: Rendle, "Factorization Machines", ICDM 2010. A key twice in a row is two features.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "model/scalar.h"
#include "model/sparse_list.h"

#define RANK_PRESET 8u
#define INIT_SCALE  0.03f /* Not zero: at zero no factor has a gradient. */

enum {
    LINEAR,
    FACTOR
};

struct fm {
    struct ps_scalar scalar; /* First: ps_scalar_destroy frees the whole. */
    uint32_t rank;
    float *sums; /* S of each row, [n_rows_max][rank]; NULL before use. */
    size_t n_rows_max;
    float *halves; /* [rank], sums of squares of one row. */
};

static struct fm *fm_of(struct ps_scalar *scalar)
{
    return PS_CONTAINER_OF(scalar, struct fm, scalar);
}

static enum ps_status reserve(struct ps_scalar *scalar, const struct ps_sparse_view *view)
{
    struct fm *fm = fm_of(scalar);
    size_t n = 0;
    if (view->rows.n_rows <= fm->n_rows_max) {
        return PS_OK;
    }
    if (!ps_mul_size(view->rows.n_rows, fm->rank, &n)) {
        return PS_ERR_NOMEM;
    }
    float *sums = ps_mem_array(scalar->base.mem, PS_MEM_OTHER, n, sizeof(*sums));
    if (sums == NULL) {
        return PS_ERR_NOMEM;
    }
    ps_mem_free(fm->sums);
    fm->sums = sums;
    fm->n_rows_max = view->rows.n_rows;
    return PS_OK;
}

/* S of a row into `sums`, the sums of squares into `halves`. Returns the part of pairs. */
static double pairs(const struct ps_sparse_view *view, const float *factors, size_t row,
                    uint32_t rank, float *sums, float *halves)
{
    const uint64_t *begin = view->rows.begin;
    memset(sums, 0, rank * sizeof(*sums));
    memset(halves, 0, rank * sizeof(*halves));
    for (size_t i = begin[row] - begin[0]; i < begin[row + 1] - begin[0]; i++) {
        const float *v = factors + (size_t)view->index[i] * rank;
        float x = view->rows.values[i];
        for (uint32_t f = 0; f < rank; f++) {
            float term = v[f] * x;
            sums[f] += term;
            halves[f] += term * term;
        }
    }
    double sum = 0.0;
    for (uint32_t f = 0; f < rank; f++) {
        sum += (double)sums[f] * (double)sums[f] - (double)halves[f];
    }
    return 0.5 * sum;
}

static void forward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                    const struct ps_sparse_view *view, double *scores)
{
    struct fm *fm = fm_of(scalar);
    ps_linear_forward(view, weights->rows[LINEAR], weights->dense[0][0], scores);
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        scores[row] += pairs(view, weights->rows[FACTOR], row, fm->rank, fm->sums + row * fm->rank,
                             fm->halves);
    }
}

static void backward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                     const struct ps_sparse_view *view, const double *slopes,
                     const struct ps_sparse_grads *grads)
{
    const struct fm *fm = fm_of(scalar);
    const uint64_t *begin = view->rows.begin;
    size_t rank = fm->rank;
    ps_linear_backward(view, slopes, grads->rows[LINEAR], grads->dense[0]);
    ps_clear_rows(view, &scalar->base.sparse[FACTOR], grads->rows[FACTOR]);
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        const float *sums = fm->sums + row * rank;
        float slope = (float)slopes[row];
        for (size_t i = begin[row] - begin[0]; i < begin[row + 1] - begin[0]; i++) {
            const float *v = weights->rows[FACTOR] + view->index[i] * rank;
            float *d_v = grads->rows[FACTOR] + view->index[i] * rank;
            float x = view->rows.values[i];
            for (size_t f = 0; f < rank; f++) {
                d_v[f] += slope * x * (sums[f] - v[f] * x);
            }
        }
    }
}

static const struct ps_scalar_ops ops = {
    .reserve = reserve,
    .forward = forward,
    .backward = backward,
};

static enum ps_status fm_create(const struct ps_sparse_model_params *params,
                                struct ps_sparse_model **ret, struct ps_error *err)
{
    uint32_t rank = params->rank != 0 ? params->rank : RANK_PRESET;
    struct fm *fm = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*fm));
    float *halves = ps_mem_array(params->mem, PS_MEM_OTHER, rank, sizeof(*halves));
    if (fm == NULL || halves == NULL) {
        ps_mem_free(fm);
        ps_mem_free(halves);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    ps_scalar_init(&fm->scalar, &ps_sparse_model_fm, &ops, params,
                   params->regress ? PS_TASK_VALUE : PS_TASK_BINARY);
    fm->rank = rank;
    fm->halves = halves;
    struct ps_sparse_model *model = &fm->scalar.base;
    model->n_sparse = 2;
    model->sparse[LINEAR] = ps_row_table("fm.weight", 1, 0.0f, params->seed);
    model->sparse[FACTOR] = ps_row_table("fm.factor", rank, INIT_SCALE, params->seed);
    model->n_dense = 1;
    model->dense[0] = ps_bias_table("fm.bias", 1, params->seed);
    model->dense_preset =
        (struct ps_optim_preset){.optimizer = "adagrad", .rate = 0.05f, .l2 = 1e-3f};
    model->sparse[LINEAR].preset = model->dense_preset;
    model->sparse[FACTOR].preset = model->dense_preset;
    *ret = model;
    return PS_OK;
}

static void fm_destroy(struct ps_sparse_model *model)
{
    struct fm *fm = fm_of(PS_CONTAINER_OF(model, struct ps_scalar, base));
    ps_mem_free(fm->sums);
    ps_mem_free(fm->halves);
    ps_scalar_destroy(model);
}

const struct ps_sparse_model_kind ps_sparse_model_fm = {
    .name = "fm",
    .help = "factorisation machine; --rank K factors per feature (8 unless given)",
    .takes = PS_SPARSE_TAKES_RANK | PS_SPARSE_TAKES_REGRESS,
    .create = fm_create,
    .destroy = fm_destroy,
    .gradients = ps_scalar_gradients,
    .evaluate = ps_scalar_evaluate,
    .predict = ps_scalar_predict,
};
