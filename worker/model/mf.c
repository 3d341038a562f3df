/*
 * mf.c — biased matrix factorisation: ratings from a user and an item.
 *
 *   z = offset + mu + b_u + b_i + p_u . q_i     loss = (z - y)^2 / 2
 *
 * A row has two features, user and item: the one of the lower field is the user, between equal
 * fields (a format without columns) the first. Their values are not read. A row of a table is the
 * bias and behind it the factors, so that a key is looked up once.
 * Source: Koren, Bell, Volinsky, "Matrix Factorization Techniques", IEEE Computer 2009.
 */
#include <inttypes.h>

#include "base/mem.h"
#include "model/scalar.h"
#include "model/sparse_list.h"

#define RANK_PRESET 16u
#define INIT_SCALE  0.1f

enum {
    USER,
    ITEM
};

/* Which of the two features from `first` on is the item: 0 or 1. */
static size_t item_of(const uint16_t *fields, size_t first)
{
    return fields[first] <= fields[first + 1] ? 1 : 0;
}

static enum ps_status mf_assign(const struct ps_sparse_model *model,
                                const struct ps_sparse_rows *rows, uint8_t *lists, size_t *ret_row,
                                struct ps_error *err)
{
    (void)model;
    for (size_t row = 0; row < rows->n_rows; row++) {
        uint64_t n = rows->begin[row + 1] - rows->begin[row];
        if (n != 2) {
            *ret_row = row;
            return ps_fail(err, PS_ERR_INVALID,
                           "mf needs a user and an item in every row, got %" PRIu64 " features", n);
        }
        size_t first = rows->begin[row] - rows->begin[0];
        size_t item = item_of(rows->fields, first);
        lists[first + item] = ITEM;
        lists[first + 1 - item] = USER;
    }
    return PS_OK;
}

/* Places of user and item of a row in their lists. */
struct pair {
    size_t user;
    size_t item;
};

static struct pair pair_of(const struct ps_sparse_view *view, size_t row)
{
    size_t first = view->rows.begin[row] - view->rows.begin[0];
    size_t item = item_of(view->rows.fields, first);
    return (struct pair){.user = view->index[first + 1 - item], .item = view->index[first + item]};
}

static void forward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                    const struct ps_sparse_view *view, double *scores)
{
    size_t width = scalar->base.sparse[USER].width;
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        struct pair pair = pair_of(view, row);
        const float *user = weights->rows[USER] + pair.user * width;
        const float *item = weights->rows[ITEM] + pair.item * width;
        double sum = (double)user[0] + (double)item[0];
        for (size_t f = 1; f < width; f++) {
            sum += (double)user[f] * (double)item[f];
        }
        scores[row] += (double)weights->dense[0][0] + sum;
    }
}

static void backward(struct ps_scalar *scalar, const struct ps_sparse_weights *weights,
                     const struct ps_sparse_view *view, const double *slopes,
                     const struct ps_sparse_grads *grads)
{
    size_t width = scalar->base.sparse[USER].width;
    double mean = 0.0;
    ps_clear_rows(view, &scalar->base.sparse[USER], grads->rows[USER]);
    ps_clear_rows(view, &scalar->base.sparse[ITEM], grads->rows[ITEM]);
    for (size_t row = 0; row < view->rows.n_rows; row++) {
        struct pair pair = pair_of(view, row);
        const float *user = weights->rows[USER] + pair.user * width;
        const float *item = weights->rows[ITEM] + pair.item * width;
        float *d_user = grads->rows[USER] + pair.user * width;
        float *d_item = grads->rows[ITEM] + pair.item * width;
        float slope = (float)slopes[row];
        mean += slopes[row];
        d_user[0] += slope;
        d_item[0] += slope;
        for (size_t f = 1; f < width; f++) {
            d_user[f] += slope * item[f];
            d_item[f] += slope * user[f];
        }
    }
    grads->dense[0][0] = (float)mean;
}

static const struct ps_scalar_ops ops = {.forward = forward, .backward = backward};

static enum ps_status mf_create(const struct ps_sparse_model_params *params,
                                struct ps_sparse_model **ret, struct ps_error *err)
{
    uint32_t width = 1 + (params->rank != 0 ? params->rank : RANK_PRESET);
    struct ps_scalar *mf = ps_mem_alloc(params->mem, PS_MEM_OTHER, sizeof(*mf));
    if (mf == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    ps_scalar_init(mf, &ps_sparse_model_mf, &ops, params, PS_TASK_VALUE);
    struct ps_sparse_model *model = &mf->base;
    model->n_lists = 2;
    model->n_sparse = 2;
    model->sparse[USER] = ps_row_table("mf.user", width, INIT_SCALE, params->seed);
    model->sparse[USER].list = USER;
    model->sparse[ITEM] = ps_row_table("mf.item", width, INIT_SCALE, params->seed);
    model->sparse[ITEM].list = ITEM;
    model->n_dense = 1;
    model->dense[0] = ps_bias_table("mf.mean", 1, params->seed);
    model->dense_preset =
        (struct ps_optim_preset){.optimizer = "adagrad", .rate = 0.05f, .l2 = 1e-3f};
    model->sparse[USER].preset = model->dense_preset;
    model->sparse[ITEM].preset = model->dense_preset;
    *ret = model;
    return PS_OK;
}

const struct ps_sparse_model_kind ps_sparse_model_mf = {
    .name = "mf",
    .help = "matrix factorisation of ratings; --rank K factors per user and item (16 unless given)",
    .takes = PS_SPARSE_TAKES_RANK,
    .ids = true,
    .create = mf_create,
    .destroy = ps_scalar_destroy,
    .assign = mf_assign,
    .gradients = ps_scalar_gradients,
    .evaluate = ps_scalar_evaluate,
    .predict = ps_scalar_predict,
};
