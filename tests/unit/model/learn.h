#ifndef PS_TESTS_UNIT_MODEL_LEARN_H
#define PS_TESTS_UNIT_MODEL_LEARN_H
/*
 * learn.h — a training loop in memory, for what a sparse model reaches by itself: no cluster, no
 * files, tables as arrays under small keys, rules written as in their papers.
 */
#include "model/metrics.h"
#include "model/sparse_batch.h"

/** Rows with keys below n_keys. Grows as rows are added. */
struct learn_data {
    size_t n_rows;
    size_t n_features;
    float *labels;
    uint64_t *begin; /* [n_rows + 1] */
    uint64_t *keys;
    float *values;
    uint16_t *fields;
    uint64_t n_keys;
};

void learn_data_deinit(struct learn_data *data);

/** Add a feature to the row that is not closed yet. */
void learn_add(struct learn_data *data, uint64_t key, float value, uint16_t field);

void learn_close(struct learn_data *data, float label);

/** Row number `row` of `from`, added as a row of its own. */
void learn_copy(struct learn_data *data, const struct learn_data *from, size_t row);

/** Rows of libsvm text, field 0 for all. The first label is `label_base` less than in the text. */
void learn_parse(struct learn_data *data, const char *text);

double learn_mean(const struct learn_data *data);

struct learn_options {
    const char *model;
    struct ps_sparse_model_params params;
    struct ps_optim_preset preset; /* Of all tables; optimizer NULL: those of the model. */
    size_t batch;
    uint32_t epochs;
    float rate_end; /* The rate falls linearly to this share of itself; 0: it stays. */
    bool sum;       /* Gradients of the sum of the losses, not of the mean. */
    uint64_t seed;
    uint64_t *ret_n_zeros; /* Weights of the first sparse table that end as 0; NULL: not counted. */
};

/** Train on one set, judge on another. */
struct ps_metrics_result learn(const struct learn_options *options, const struct learn_data *train,
                               const struct learn_data *test);

#endif
