/* learn.c — see learn.h. */
#include "learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test_main.h"
#include "num/blas.h"

#define STATES 3u /* Of the rule that needs most: adam. */

static void *grown(void *array, size_t n, size_t size)
{
    if ((n & (n - 1)) != 0) {
        return array; /* Room is doubled at powers of two. */
    }
    array = realloc(array, (2 * n + 2) * size);
    ck_assert_ptr_nonnull(array);
    return array;
}

void learn_data_deinit(struct learn_data *data)
{
    free(data->labels);
    free(data->begin);
    free(data->keys);
    free(data->values);
    free(data->fields);
    *data = (struct learn_data){0};
}

void learn_add(struct learn_data *data, uint64_t key, float value, uint16_t field)
{
    size_t n = data->n_features;
    data->keys = grown(data->keys, n, sizeof(*data->keys));
    data->values = grown(data->values, n, sizeof(*data->values));
    data->fields = grown(data->fields, n, sizeof(*data->fields));
    data->keys[n] = key;
    data->values[n] = value;
    data->fields[n] = field;
    data->n_features++;
    data->n_keys = key + 1 > data->n_keys ? key + 1 : data->n_keys;
}

void learn_close(struct learn_data *data, float label)
{
    data->labels = grown(data->labels, data->n_rows, sizeof(*data->labels));
    data->begin = grown(data->begin, data->n_rows, sizeof(*data->begin));
    data->labels[data->n_rows] = label;
    if (data->n_rows == 0) {
        data->begin[0] = 0;
    }
    data->n_rows++;
    data->begin[data->n_rows] = data->n_features;
}

void learn_copy(struct learn_data *data, const struct learn_data *from, size_t row)
{
    for (size_t i = from->begin[row]; i < from->begin[row + 1]; i++) {
        learn_add(data, from->keys[i], from->values[i], from->fields[i]);
    }
    learn_close(data, from->labels[row]);
}

void learn_parse(struct learn_data *data, const char *text)
{
    while (*text != '\0') {
        char *at = NULL;
        float label = strtof(text, &at);
        ck_assert_ptr_ne(at, text);
        while (*at == ' ' && at[1] >= '0' && at[1] <= '9') {
            uint64_t key = strtoull(at, &at, 10);
            ck_assert_int_eq(*at, ':');
            learn_add(data, key, strtof(at + 1, &at), 0);
        }
        learn_close(data, label);
        text = at + strspn(at, " \r\n");
    }
}

double learn_mean(const struct learn_data *data)
{
    double sum = 0.0;
    for (size_t row = 0; row < data->n_rows; row++) {
        sum += (double)data->labels[row];
    }
    return sum / (double)data->n_rows;
}

/* A table, sparse or dense, with the state of its rule. */
struct table {
    float *weights; /* [n] */
    float *state;   /* [n][STATES] */
    float *batch;   /* What a batch takes of it, and below the gradients of that. */
    float *grads;
    struct ps_optim_preset preset;
};

struct learner {
    struct ps_sparse_model *model;
    struct ps_sparse_batch batch;
    struct table sparse[PS_SPARSE_TABLES_MAX];
    struct table dense[PS_MODEL_TABLES_MAX];
};

static struct table table_of(const struct ps_init *init, uint64_t id, size_t n,
                             const struct ps_optim_preset *preset)
{
    struct table table = {.preset = *preset};
    float **arrays[] = {&table.weights, &table.batch, &table.grads, &table.state};
    for (size_t i = 0; i < PS_ARRAY_LEN(arrays); i++) {
        *arrays[i] = calloc(n * (i == 3 ? STATES : 1), sizeof(float));
        ck_assert_ptr_nonnull(*arrays[i]);
    }
    ps_init_fill(init, id, 0, table.weights, n);
    return table;
}

static void table_deinit(struct table *table)
{
    free(table->weights);
    free(table->state);
    free(table->batch);
    free(table->grads);
}

static float ftrl(const struct ps_optim_preset *preset, float rate, float w, float *state, float g)
{
    float root = sqrtf(state[1]);
    state[1] += g * g;
    state[0] += g - (sqrtf(state[1]) - root) / rate * w;
    float shrunk = fabsf(state[0]) - preset->l1;
    float divisor = (preset->beta + sqrtf(state[1])) / rate + preset->l2;
    return shrunk <= 0.0f ? 0.0f : -copysignf(shrunk, state[0]) / divisor;
}

static float adam(float rate, float w, float *state, float g)
{
    state[0] = 0.9f * state[0] + 0.1f * g;
    state[1] = 0.999f * state[1] + 0.001f * g * g;
    state[2] += 1.0f; /* Steps of this weight alone. */
    float mean = state[0] / (1.0f - powf(0.9f, state[2]));
    float square = state[1] / (1.0f - powf(0.999f, state[2]));
    return w - rate * mean / (sqrtf(square) + 1e-8f);
}

/*
 * One weight by its rule. Sources: Duchi et al. 2011 (adagrad), McMahan et al. 2013 (ftrl), Kingma
 * and Ba 2015 (adam).
 */
static void update(const struct ps_optim_preset *preset, float rate, float *w, float *state,
                   float g)
{
    if (strcmp(preset->optimizer, "ftrl") == 0) {
        *w = ftrl(preset, rate, *w, state, g);
        return;
    }
    g += preset->l2 * *w;
    if (strcmp(preset->optimizer, "adam") == 0) {
        *w = adam(rate, *w, state, g);
    } else if (strcmp(preset->optimizer, "adagrad") == 0) {
        state[0] += g * g;
        *w -= rate * g / (sqrtf(state[0]) + 1e-10f);
    } else {
        ck_assert_str_eq(preset->optimizer, "sgd");
        *w -= rate * g;
    }
}

static void learner_init(struct learner *learner, const struct learn_options *options,
                         uint64_t n_keys)
{
    struct ps_error err = {0};
    memset(learner, 0, sizeof(*learner));
    ps_blas_threads(1);
    ck_assert_msg(ps_sparse_model_create(ps_sparse_model_find(options->model), &options->params,
                                         &learner->model, &err) == PS_OK,
                  "%s", err.text);
    ps_sparse_batch_init(&learner->batch, NULL);
    const struct ps_sparse_model *model = learner->model;
    bool own = options->preset.optimizer != NULL;
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        learner->sparse[t] = table_of(&model->sparse[t].init, t, n_keys * model->sparse[t].width,
                                      own ? &options->preset : &model->sparse[t].preset);
    }
    for (uint32_t t = 0; t < model->n_dense; t++) {
        struct ps_optim_preset preset = own ? options->preset : model->dense_preset;
        preset.l1 = 0.0f;
        preset.l2 = 0.0f;
        learner->dense[t] =
            table_of(&model->dense[t].init, 100 + t, (size_t)model->dense[t].n_values, &preset);
    }
}

static void learner_deinit(struct learner *learner)
{
    for (uint32_t t = 0; t < learner->model->n_sparse; t++) {
        table_deinit(&learner->sparse[t]);
    }
    for (uint32_t t = 0; t < learner->model->n_dense; t++) {
        table_deinit(&learner->dense[t]);
    }
    ps_sparse_batch_deinit(&learner->batch);
    ps_sparse_model_destroy(learner->model);
}

/* Arrays of a batch, as the model wants them. */
struct arrays {
    const float *dense[PS_MODEL_TABLES_MAX];
    const float *rows[PS_SPARSE_TABLES_MAX];
    float *d_dense[PS_MODEL_TABLES_MAX];
    float *d_rows[PS_SPARSE_TABLES_MAX];
};

/* Make the batch of some rows and gather its weights: the pull. */
static void gather(struct learner *learner, const struct learn_data *data, size_t first, size_t n,
                   struct arrays *arrays)
{
    size_t at = data->begin[first];
    struct ps_sparse_rows rows = {
        .n_rows = n,
        .labels = data->labels + first,
        .begin = data->begin + first,
        .keys = data->keys + at,
        .values = data->values + at,
        .fields = data->fields + at,
    };
    size_t row = 0;
    struct ps_error err = {0};
    const struct ps_sparse_model *model = learner->model;
    ck_assert_msg(ps_sparse_batch_make(&learner->batch, model, &rows, &row, &err) == PS_OK,
                  "row %zu: %s", first + row, err.text);
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        struct table *table = &learner->sparse[t];
        const struct ps_key_list *list = &learner->batch.lists[model->sparse[t].list];
        size_t width = model->sparse[t].width;
        for (uint32_t k = 0; k < list->n; k++) {
            memcpy(table->batch + k * width, table->weights + list->keys[k] * width,
                   width * sizeof(float));
        }
        arrays->rows[t] = table->batch;
        arrays->d_rows[t] = table->grads;
    }
    for (uint32_t t = 0; t < model->n_dense; t++) {
        arrays->dense[t] = learner->dense[t].weights;
        arrays->d_dense[t] = learner->dense[t].grads;
    }
}

/* Apply the gradients of a batch: the push. */
static void scatter(struct learner *learner, float share)
{
    const struct ps_sparse_model *model = learner->model;
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        struct table *table = &learner->sparse[t];
        const struct ps_key_list *list = &learner->batch.lists[model->sparse[t].list];
        size_t width = model->sparse[t].width;
        float rate = share * table->preset.rate;
        for (size_t i = 0; i < list->n * width; i++) {
            size_t at = list->keys[i / width] * width + i % width;
            update(&table->preset, rate, &table->weights[at], &table->state[at * STATES],
                   table->grads[i]);
        }
    }
    for (uint32_t t = 0; t < model->n_dense; t++) {
        struct table *table = &learner->dense[t];
        float rate = share * table->preset.rate;
        for (size_t i = 0; i < model->dense[t].n_values; i++) {
            update(&table->preset, rate, &table->weights[i], &table->state[i * STATES],
                   table->grads[i]);
        }
    }
}

static void shuffle(struct learn_data *to, const struct learn_data *from, struct ps_rng *rng)
{
    size_t *order = calloc(from->n_rows, sizeof(*order));
    ck_assert_ptr_nonnull(order);
    for (size_t i = 0; i < from->n_rows; i++) {
        size_t j = ps_rng_below(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (size_t i = 0; i < from->n_rows; i++) {
        learn_copy(to, from, order[i]);
    }
    free(order);
}

static void train_epoch(struct learner *learner, const struct learn_options *options,
                        const struct learn_data *data, uint32_t epoch)
{
    struct arrays arrays;
    for (size_t first = 0; first < data->n_rows; first += options->batch) {
        size_t n_left = data->n_rows - first;
        size_t n = n_left < options->batch ? n_left : options->batch;
        gather(learner, data, first, n, &arrays);
        learner->batch.view.scale = options->sum ? 1.0f : learner->batch.view.scale;
        double loss_sum = 0.0;
        ck_assert_int_eq(
            learner->model->kind->gradients(
                learner->model,
                &(struct ps_sparse_weights){.dense = arrays.dense, .rows = arrays.rows},
                &learner->batch.view,
                &(struct ps_sparse_grads){.dense = arrays.d_dense, .rows = arrays.d_rows},
                &loss_sum),
            PS_OK);
        ck_assert_msg(isfinite(loss_sum), "%s diverged", options->model);
        double done = ((double)epoch + (double)first / (double)data->n_rows) / options->epochs;
        double end = options->rate_end > 0.0f ? (double)options->rate_end : 1.0;
        scatter(learner, (float)(1.0 - done * (1.0 - end)));
    }
}

static struct ps_metrics_result judge(struct learner *learner, const struct learn_data *data)
{
    const size_t n_at_once = 1000;
    struct arrays arrays;
    struct ps_metrics metrics;
    float *out = calloc(n_at_once * learner->model->n_outputs, sizeof(*out));
    ck_assert_ptr_nonnull(out);
    ps_metrics_init(&metrics, learner->model->task, NULL);
    for (size_t first = 0; first < data->n_rows; first += n_at_once) {
        size_t n = data->n_rows - first < n_at_once ? data->n_rows - first : n_at_once;
        gather(learner, data, first, n, &arrays);
        ck_assert_int_eq(
            learner->model->kind->predict(
                learner->model,
                &(struct ps_sparse_weights){.dense = arrays.dense, .rows = arrays.rows},
                &learner->batch.view, out),
            PS_OK);
        ck_assert_int_eq(
            ps_metrics_add(&metrics, out, data->labels + first, n, learner->model->n_outputs),
            PS_OK);
    }
    struct ps_metrics_result result = ps_metrics_result(&metrics);
    ps_metrics_deinit(&metrics);
    free(out);
    return result;
}

struct ps_metrics_result learn(const struct learn_options *options, const struct learn_data *train,
                               const struct learn_data *test)
{
    struct learner learner;
    struct ps_rng rng = ps_rng_from(options->seed);
    uint64_t n_keys = train->n_keys > test->n_keys ? train->n_keys : test->n_keys;
    learner_init(&learner, options, n_keys);
    for (uint32_t epoch = 0; epoch < options->epochs; epoch++) {
        struct learn_data order = {0};
        shuffle(&order, train, &rng);
        train_epoch(&learner, options, &order, epoch);
        learn_data_deinit(&order);
    }
    struct ps_metrics_result result = judge(&learner, test);
    for (size_t i = 0; options->ret_n_zeros != NULL && i < n_keys; i++) {
        *options->ret_n_zeros += learner.sparse[0].weights[i] == 0.0f;
    }
    learner_deinit(&learner);
    return result;
}
