#ifndef PS_TESTS_UNIT_MODEL_SPARSE_RIG_H
#define PS_TESTS_UNIT_MODEL_SPARSE_RIG_H
/*
 * sparse_rig.h — a sparse model with odd rows, weights and gradients of its own.
 *
 * Rows: an empty one, one of one feature, a key twice in a row, a key under two fields, a value of
 * 0, and some by chance; for mf pairs, the item sometimes first. Weights are multiples of 2^-8, so
 * that adding a power of 2 to one is exact.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "model/sparse_batch.h"

enum {
    RIG_ROWS = 12,
    RIG_ROW_FEATURES = 5,
    RIG_FEATURES = RIG_ROWS * RIG_ROW_FEATURES,
    RIG_KEYS = 9,
    RIG_FIELDS = 4,
    RIG_CLASSES = 4,
    RIG_VARIANTS = 4 /* Of params: pool or not, regress or not. */
};

struct rig {
    struct ps_mem mem;
    struct ps_sparse_model *model;
    struct ps_sparse_batch batch;
    float labels[RIG_ROWS];
    uint64_t begin[RIG_ROWS + 1];
    uint64_t keys[RIG_FEATURES];
    float values[RIG_FEATURES];
    uint16_t fields[RIG_FEATURES];
    float *dense[PS_MODEL_TABLES_MAX];
    float *d_dense[PS_MODEL_TABLES_MAX];
    float *rows[PS_SPARSE_TABLES_MAX]; /* [n_keys][width] of the whole batch. */
    float *d_rows[PS_SPARSE_TABLES_MAX];
};

const struct ps_sparse_model_kind *rig_kind(int kind);

struct ps_sparse_model_params rig_params(struct ps_mem *mem, int variant);

void rig_init(struct rig *rig, const struct ps_sparse_model_kind *kind, int variant);

void rig_deinit(struct rig *rig);

struct ps_sparse_rows rig_rows(const struct rig *rig, size_t first, size_t n);

/** Make the batch of some rows; weights stay those of the whole. */
void rig_make(struct rig *rig, size_t first, size_t n);

size_t rig_n_values(const struct rig *rig, uint32_t sparse);

struct ps_sparse_weights rig_weights(const struct rig *rig);

struct ps_sparse_grads rig_grads(const struct rig *rig);

double rig_gradients(struct rig *rig);

struct ps_score rig_evaluate(struct rig *rig);

#endif
