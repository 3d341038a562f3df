/*
 * bench_models.c — how fast a batch is made and how fast models compute on it, one thread.
 *
 *     build/tests/bench/bench_models
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "model/sparse_batch.h"
#include "num/blas.h"

enum {
    ROWS = 1000,
    FIELDS = 39,
    FEATURES = ROWS * FIELDS,
    BATCHES = 20
};

struct bench {
    float labels[ROWS];
    uint64_t begin[ROWS + 1];
    uint64_t keys[FEATURES];
    float values[FEATURES];
    uint16_t fields[FEATURES];
};

static double now_s(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Keys of about 1 / id, up to 2^20 per field. */
static uint64_t draw(struct ps_rng *rng)
{
    uint64_t bits = ps_rng_next(rng);
    return (bits >> 32) & ((2ull << (bits % 20)) - 1);
}

static void fill(struct bench *bench, uint64_t seed, int shape)
{
    struct ps_rng rng = ps_rng_from(seed);
    bench->begin[0] = 0;
    for (size_t row = 0; row < ROWS; row++) {
        bench->labels[row] = (float)ps_rng_below(&rng, 2);
        bench->begin[row + 1] = (row + 1) * FIELDS;
        for (size_t f = 0; f < FIELDS; f++) {
            size_t i = row * FIELDS + f;
            uint64_t id = draw(&rng);
            bench->keys[i] = shape == 0   ? ps_mix64(id + (f << 32))
                             : shape == 1 ? id + (f << 20)
                                          : id + (f << 56);
            bench->values[i] = 1.0f;
            bench->fields[i] = (uint16_t)f;
        }
    }
}

static struct ps_sparse_rows rows_of(const struct bench *bench)
{
    return (struct ps_sparse_rows){
        .n_rows = ROWS,
        .labels = bench->labels,
        .begin = bench->begin,
        .keys = bench->keys,
        .values = bench->values,
        .fields = bench->fields,
    };
}

static void must(enum ps_status status)
{
    if (status != PS_OK) {
        (void)fprintf(stderr, "bench_models: no memory\n");
        exit(1);
    }
}

static void bench_keys(struct bench *bench, const struct ps_sparse_model *model)
{
    static const char *const shapes[] = {"hashed", "numbered", "field in the high byte"};
    struct ps_sparse_batch batch;
    ps_sparse_batch_init(&batch, NULL);
    for (int shape = 0; shape < 3; shape++) {
        double took = 0.0;
        double n_keys = 0.0;
        for (uint64_t b = 0; b < BATCHES; b++) {
            fill(bench, b, shape);
            struct ps_sparse_rows rows = rows_of(bench);
            size_t row = 0;
            double start = now_s();
            must(ps_sparse_batch_make(&batch, model, &rows, &row, NULL));
            took += b == 0 ? 0.0 : now_s() - start; /* The first one makes room. */
            n_keys += batch.lists[0].n;
        }
        (void)printf("| keys of a batch, %s (%d features, %.0f distinct) | %.1f million/s |\n",
                     shapes[shape], FEATURES, n_keys / BATCHES,
                     1e-6 * FEATURES * (BATCHES - 1) / took);
    }
    ps_sparse_batch_deinit(&batch);
}

static void bench_model(struct bench *bench, const char *name)
{
    struct ps_sparse_model *model = NULL;
    struct ps_sparse_model_params params = {
        .n_fields = FIELDS, .rank = 8, .n_classes = 2, .n_hidden = 2, .hidden = {64, 32}};
    must(ps_sparse_model_create(ps_sparse_model_find(name), &params, &model, NULL));
    struct ps_sparse_batch batch;
    ps_sparse_batch_init(&batch, NULL);
    fill(bench, 1, 0);
    struct ps_sparse_rows rows = rows_of(bench);
    size_t row = 0;
    must(ps_sparse_batch_make(&batch, model, &rows, &row, NULL));
    float *dense[2][PS_MODEL_TABLES_MAX] = {{NULL}};
    float *sparse[2][PS_SPARSE_TABLES_MAX] = {{NULL}};
    for (int side = 0; side < 2; side++) {
        for (uint32_t t = 0; t < model->n_dense; t++) {
            dense[side][t] = calloc(model->dense[t].n_values, sizeof(float));
            ps_init_fill(&model->dense[t].init, t, 0, dense[side][t], model->dense[t].n_values);
        }
        for (uint32_t t = 0; t < model->n_sparse; t++) {
            size_t n = (size_t)batch.lists[0].n * model->sparse[t].width;
            sparse[side][t] = calloc(n, sizeof(float));
            ps_init_fill(&model->sparse[t].init, t, 0, sparse[side][t], n);
        }
    }
    struct ps_sparse_weights weights = {.dense = (const float *const *)dense[0],
                                        .rows = (const float *const *)sparse[0]};
    struct ps_sparse_grads grads = {.dense = dense[1], .rows = sparse[1]};
    double loss_sum = 0.0;
    must(model->kind->gradients(model, &weights, &batch.view, &grads, &loss_sum));
    double start = now_s();
    for (int b = 0; b < BATCHES; b++) {
        must(model->kind->gradients(model, &weights, &batch.view, &grads, &loss_sum));
    }
    double took = now_s() - start;
    (void)printf("| %s, gradients | %.0f thousand rows/s, %.0f million features/s |\n", name,
                 1e-3 * ROWS * BATCHES / took, 1e-6 * FEATURES * BATCHES / took);
    for (int side = 0; side < 2; side++) {
        for (uint32_t t = 0; t < PS_MODEL_TABLES_MAX; t++) {
            free(dense[side][t]);
        }
        for (uint32_t t = 0; t < PS_SPARSE_TABLES_MAX; t++) {
            free(sparse[side][t]);
        }
    }
    ps_sparse_batch_deinit(&batch);
    ps_sparse_model_destroy(model);
}

int main(void)
{
    struct ps_sparse_model *model = NULL;
    struct ps_sparse_model_params params = {0};
    struct bench *bench = calloc(1, sizeof(*bench));
    ps_blas_threads(1);
    if (bench == NULL) {
        return 1;
    }
    must(ps_sparse_model_create(ps_sparse_model_find("logreg"), &params, &model, NULL));
    bench_keys(bench, model);
    ps_sparse_model_destroy(model);
    bench_model(bench, "logreg");
    bench_model(bench, "fm");
    bench_model(bench, "softmax");
    bench_model(bench, "wide-deep");
    free(bench);
    return 0;
}
