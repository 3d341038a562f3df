/* sparse_rig.c — see sparse_rig.h. */
#include "sparse_rig.h"

#include <stdlib.h>
#include <string.h>

#include "num/blas.h"

const struct ps_sparse_model_kind *rig_kind(int kind)
{
    size_t n = 0;
    const struct ps_sparse_model_kind *const *kinds = ps_sparse_model_all(&n);
    ck_assert_uint_lt((size_t)kind, n);
    return kinds[kind];
}

struct ps_sparse_model_params rig_params(struct ps_mem *mem, int variant)
{
    return (struct ps_sparse_model_params){
        .mem = mem,
        .n_classes = RIG_CLASSES,
        .rank = 3,
        .n_fields = RIG_FIELDS,
        .n_hidden = 2,
        .hidden = {5, 4},
        .pool = (variant & 1) != 0,
        .regress = (variant & 2) != 0,
        .offset = 0.5,
        .seed = test_seed(),
    };
}

static float *floats(size_t n)
{
    float *array = calloc(n + 1, sizeof(*array));
    ck_assert_ptr_nonnull(array);
    return array;
}

static float quantum(struct ps_rng *rng)
{
    return (float)((int)ps_rng_below(rng, 257) - 128) * 0x1p-8f;
}

static uint16_t draw_field(struct ps_rng *rng)
{
    return (uint16_t)ps_rng_below(rng, RIG_FIELDS);
}

static void add(struct rig *rig, size_t *n, uint64_t key, uint16_t field)
{
    rig->keys[*n] = key * 0x123456789abcdefull;
    rig->fields[*n] = field;
    (*n)++;
}

static void make_pairs(struct rig *rig, struct ps_rng *rng)
{
    size_t n = 0;
    for (size_t row = 0; row < RIG_ROWS; row++) {
        for (int i = 0; i < 2; i++) {
            uint16_t field = draw_field(rng);
            add(rig, &n, ps_rng_below(rng, RIG_KEYS), field);
        }
        rig->begin[row + 1] = n;
    }
}

static void make_odd(struct rig *rig, struct ps_rng *rng)
{
    size_t n = 0;
    for (size_t row = 0; row < RIG_ROWS; row++) {
        switch (row) {
        case 0: break;
        case 1: add(rig, &n, 3, 1); break;
        case 2:
            add(rig, &n, 5, 2);
            add(rig, &n, 1, 0);
            add(rig, &n, 5, 2);
            break;
        case 3:
            add(rig, &n, 4, 0);
            add(rig, &n, 4, 3);
            break;
        default:
            for (uint64_t i = ps_rng_below(rng, RIG_ROW_FEATURES); i < RIG_ROW_FEATURES; i++) {
                uint16_t field = draw_field(rng);
                add(rig, &n, ps_rng_below(rng, RIG_KEYS), field);
            }
        }
        rig->begin[row + 1] = n;
    }
}

static void make_rows(struct rig *rig, struct ps_rng *rng)
{
    if (rig->model->n_lists == 2) {
        make_pairs(rig, rng);
    } else {
        make_odd(rig, rng);
    }
    for (size_t i = 0; i < RIG_FEATURES; i++) {
        rig->values[i] = i % 7 == 6 ? 0.0f : 4.0f * quantum(rng);
    }
    for (size_t row = 0; row < RIG_ROWS; row++) {
        switch (rig->model->task) {
        case PS_TASK_BINARY: rig->labels[row] = (float)ps_rng_below(rng, 2); break;
        case PS_TASK_CLASSES: rig->labels[row] = (float)ps_rng_below(rng, RIG_CLASSES); break;
        case PS_TASK_VALUE: rig->labels[row] = 6.0f * quantum(rng); break;
        }
    }
}

void rig_init(struct rig *rig, const struct ps_sparse_model_kind *kind, int variant)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    memset(rig, 0, sizeof(*rig));
    ps_mem_init(&rig->mem);
    ps_blas_threads(1);
    struct ps_sparse_model_params params = rig_params(&rig->mem, variant);
    struct ps_error err = {0};
    ck_assert_msg(ps_sparse_model_create(kind, &params, &rig->model, &err) == PS_OK, "%s",
                  err.text);
    ps_sparse_batch_init(&rig->batch, &rig->mem);
    make_rows(rig, &rng);
    rig_make(rig, 0, RIG_ROWS);
    for (uint32_t t = 0; t < rig->model->n_dense; t++) {
        size_t n = (size_t)rig->model->dense[t].n_values;
        rig->dense[t] = floats(n);
        rig->d_dense[t] = floats(n);
        for (size_t i = 0; i < n; i++) {
            rig->dense[t][i] = quantum(&rng);
        }
    }
    for (uint32_t t = 0; t < rig->model->n_sparse; t++) {
        size_t n = rig_n_values(rig, t);
        rig->rows[t] = floats(n);
        rig->d_rows[t] = floats(n);
        for (size_t i = 0; i < n; i++) {
            rig->rows[t][i] = quantum(&rng);
        }
    }
}

void rig_deinit(struct rig *rig)
{
    for (uint32_t t = 0; t < PS_MODEL_TABLES_MAX; t++) {
        free(rig->dense[t]);
        free(rig->d_dense[t]);
    }
    for (uint32_t t = 0; t < PS_SPARSE_TABLES_MAX; t++) {
        free(rig->rows[t]);
        free(rig->d_rows[t]);
    }
    ps_sparse_batch_deinit(&rig->batch);
    ps_sparse_model_destroy(rig->model);
    for (int c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        ck_assert_uint_eq(rig->mem.used[c], 0);
    }
}

struct ps_sparse_rows rig_rows(const struct rig *rig, size_t first, size_t n)
{
    size_t at = rig->begin[first];
    return (struct ps_sparse_rows){
        .n_rows = n,
        .labels = rig->labels + first,
        .begin = rig->begin + first,
        .keys = rig->keys + at,
        .values = rig->values + at,
        .fields = rig->fields + at,
    };
}

void rig_make(struct rig *rig, size_t first, size_t n)
{
    struct ps_sparse_rows rows = rig_rows(rig, first, n);
    size_t row = 0;
    struct ps_error err = {0};
    ck_assert_msg(ps_sparse_batch_make(&rig->batch, rig->model, &rows, &row, &err) == PS_OK, "%s",
                  err.text);
}

size_t rig_n_values(const struct rig *rig, uint32_t sparse)
{
    const struct ps_sparse_model_table *table = &rig->model->sparse[sparse];
    return (size_t)rig->batch.view.n_keys[table->list] * table->width;
}

struct ps_sparse_weights rig_weights(const struct rig *rig)
{
    return (struct ps_sparse_weights){
        .dense = (const float *const *)rig->dense,
        .rows = (const float *const *)rig->rows,
    };
}

struct ps_sparse_grads rig_grads(const struct rig *rig)
{
    return (struct ps_sparse_grads){.dense = rig->d_dense, .rows = rig->d_rows};
}

double rig_gradients(struct rig *rig)
{
    double loss_sum = 0.0;
    struct ps_sparse_weights weights = rig_weights(rig);
    struct ps_sparse_grads grads = rig_grads(rig);
    ck_assert_int_eq(
        rig->model->kind->gradients(rig->model, &weights, &rig->batch.view, &grads, &loss_sum),
        PS_OK);
    return loss_sum;
}

struct ps_score rig_evaluate(struct rig *rig)
{
    struct ps_score score = {0};
    struct ps_sparse_weights weights = rig_weights(rig);
    ck_assert_int_eq(rig->model->kind->evaluate(rig->model, &weights, &rig->batch.view, &score),
                     PS_OK);
    return score;
}
