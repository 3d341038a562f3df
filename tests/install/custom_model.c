/*
 * custom_model.c HOST:PORT [WORKERS] — a model of one's own, trained by several workers.
 *
 * Logistic regression on data that each worker makes itself: a row is a function of its number.
 * Start as many copies as WORKERS says (preset 1); the coordinator deals the rows out to them.
 * Each copy ends by itself when every row was trained in every epoch, then has a look as a reader:
 * how good the model is, and that each row was trained exactly once an epoch.
 *
 * Exit status: 0 as promised, 1 not so, 2 bad usage.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ps/client.h>

#define RATE 0.5f

enum {
    FEATURES = 8,
    TRAIN_ROWS = 10000,
    TEST_ROWS = 2000, /* The rows behind those for training. */
    BATCH = 20,       /* Rows of one step. */
    EPOCHS = 4,
    BOUND = 4, /* How many steps the fastest worker may be ahead of the slowest. */
    WORKERS_MAX = 64
};

/* The model: a weight per feature in one table, the bias in another. Gradients have its shape. */
enum {
    WEIGHT,
    BIAS,
    TABLES
};

struct model {
    float weight[FEATURES];
    float bias[1];
    struct ps_tensor tensors[TABLES]; /* The same memory, as the library wants to be told. */
};

struct row {
    float x[FEATURES];
    float label; /* 0 or 1. */
};

/* ---- The data ------------------------------------------------------------------------------ */

/* Number k of row i, in [-1, 1): SplitMix64. Every worker sees the same. */
static float noise(uint64_t i, uint64_t k)
{
    uint64_t z = (i * 64 + k + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((z ^ (z >> 31)) >> 40) / (float)(1 << 23) - 1.0f;
}

/* What is to be learnt: on which side of a plane a row lies. */
static void make_row(uint64_t i, struct row *row)
{
    float sum = 0.3f;
    for (int k = 0; k < FEATURES; k++) {
        row->x[k] = noise(i, (uint64_t)k);
        sum += row->x[k] * (float)(k % 2 == 0 ? k + 1 : -k);
    }
    row->label = sum > 0.0f ? 1.0f : 0.0f;
}

/* ---- The model ----------------------------------------------------------------------------- */

/* Probability of label 1. */
static double predict(const struct model *model, const struct row *row)
{
    double sum = (double)model->bias[0];
    for (int k = 0; k < FEATURES; k++) {
        sum += (double)model->weight[k] * (double)row->x[k];
    }
    return 1.0 / (1.0 + exp(-sum));
}

/* Mean gradient over the rows of a unit; the sum of their losses. */
static double gradient(const struct model *model, const struct ps_job_def *job,
                       const struct ps_unit *unit, struct model *ret)
{
    double loss = 0.0;
    memset(ret->weight, 0, sizeof(ret->weight));
    ret->bias[0] = 0.0f;
    for (uint32_t i = 0; i < unit->n_rows; i++) {
        struct row row;
        make_row(ps_row_at(job, unit->epoch, unit->first + i), &row);
        double p = predict(model, &row);
        loss -= log(row.label > 0.5f ? p : 1.0 - p);
        float slope = ((float)p - row.label) / (float)unit->n_rows;
        for (int k = 0; k < FEATURES; k++) {
            ret->weight[k] += slope * row.x[k];
        }
        ret->bias[0] += slope;
    }
    return loss;
}

/* Say where the model's tables are in memory. */
static void place(struct model *model, const struct ps_table tables[TABLES])
{
    model->tensors[WEIGHT].table = tables[WEIGHT].number;
    model->tensors[WEIGHT].values = model->weight;
    model->tensors[BIAS].table = tables[BIAS].number;
    model->tensors[BIAS].values = model->bias;
}

/* ---- Definitions --------------------------------------------------------------------------- */

static const char *const table_names[TABLES] = {"custom.weight", "custom.bias"};
static const uint64_t table_sizes[TABLES] = {FEATURES, 1};

static struct ps_job_def make_job(uint32_t n_workers)
{
    struct ps_job_def job = PS_ZERO;
    job.model = "custom logistic regression";
    job.data = "made by custom_model.c";
    job.rows = TRAIN_ROWS;
    job.batch = BATCH;
    job.epochs = EPOCHS;
    job.shuffle = true;
    job.workers = n_workers;
    job.consistency.mode = PS_CONSISTENCY_SSP;
    job.consistency.bound = BOUND;
    return job;
}

/* All workers say the same; the first one defines, the others find that it agrees. */
static enum ps_status define(struct ps_client *client, const struct ps_job_def *job,
                             struct ps_table tables[TABLES], struct ps_error *err)
{
    for (int i = 0; i < TABLES; i++) {
        struct ps_table_def def = PS_ZERO;
        def.name = table_names[i];
        def.n_dims = 1;
        def.shape[0] = table_sizes[i];
        enum ps_status status = ps_client_define_table(client, &def, &tables[i], err);
        if (status != PS_OK) {
            return status;
        }
    }
    return ps_client_define_job(client, job, err);
}

/* ---- A worker ------------------------------------------------------------------------------ */

static enum ps_status pull_model(struct ps_client *client, struct model *model, uint64_t step,
                                 uint64_t *ret_min_clock, struct ps_error *err)
{
    struct ps_pull pull = PS_ZERO;
    pull.tensors = model->tensors;
    pull.n_tensors = TABLES;
    pull.step = step;
    enum ps_status status = ps_client_pull(client, &pull, err);
    *ret_min_clock = pull.min_clock;
    return status;
}

/* One step: weights that are fresh enough, their gradient, and back. */
static enum ps_status train_unit(struct ps_client *client, const struct ps_job_def *job,
                                 const struct ps_unit *unit, const struct ps_table tables[TABLES],
                                 struct ps_error *err)
{
    struct model model;
    struct model slope;
    place(&model, tables);
    place(&slope, tables);
    struct ps_push push = PS_ZERO;
    enum ps_status status = pull_model(client, &model, unit->step, &push.read_clock, err);
    if (status != PS_OK) {
        return status;
    }
    double loss = gradient(&model, job, unit, &slope);
    push.tensors = slope.tensors;
    push.n_tensors = TABLES;
    push.unit = unit; /* Should somebody do it again, the push is the same one: applied once. */
    push.rate = RATE;
    status = ps_client_push(client, &push, err);
    return status == PS_OK ? ps_client_unit_done(client, unit, loss, err) : status;
}

/* Unit after unit, until the job is over. */
static enum ps_status train(struct ps_client *client, const struct ps_job_def *job,
                            const struct ps_table tables[TABLES], struct ps_error *err)
{
    struct ps_unit unit;
    enum ps_status status = ps_client_next_unit(client, &unit, PS_FOREVER_MS, err);
    while (status == PS_OK && unit.n_rows > 0) {
        status = train_unit(client, job, &unit, tables, err);
        if (status == PS_OK) {
            status = ps_client_next_unit(client, &unit, PS_FOREVER_MS, err);
        }
    }
    return status;
}

/* One session, from joining to leaving. */
static enum ps_status work(const char *coordinator, uint32_t n_workers, struct ps_error *err)
{
    struct ps_client_options options = PS_ZERO;
    options.coordinator = coordinator;
    options.name = "custom";
    struct ps_client *client = NULL;
    enum ps_status status = ps_client_open(&options, &client, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_job_def job = make_job(n_workers);
    struct ps_table tables[TABLES];
    status = define(client, &job, tables, err);
    if (status == PS_OK) {
        status = train(client, &job, tables, err);
    }
    struct ps_view view;
    ps_client_view(client, &view);
    ps_client_close(client);
    if (status == PS_OK) {
        printf("this worker:   %lu of %lu rows\n", (unsigned long)view.stats.rows,
               (unsigned long)TRAIN_ROWS * EPOCHS);
    }
    return status;
}

/* ---- A reader ------------------------------------------------------------------------------ */

static double accuracy(const struct model *model)
{
    int right = 0;
    for (uint64_t i = TRAIN_ROWS; i < TRAIN_ROWS + TEST_ROWS; i++) {
        struct row row;
        make_row(i, &row);
        right += (predict(model, &row) > 0.5) == (row.label > 0.5f) ? 1 : 0;
    }
    return (double)right / (double)TEST_ROWS;
}

static enum ps_status fetch(struct ps_client *client, struct model *model, struct ps_error *err)
{
    struct ps_table tables[TABLES];
    for (int i = 0; i < TABLES; i++) {
        enum ps_status status = ps_client_table(client, table_names[i], &tables[i], err);
        if (status != PS_OK) {
            return status;
        }
    }
    uint64_t min_clock;
    place(model, tables);
    return pull_model(client, model, 0, &min_clock, err); /* A reader waits for no step. */
}

/* Judge the finished job; `ret_good` when it kept its promises. */
static enum ps_status judge(const char *coordinator, bool *ret_good, struct ps_error *err)
{
    struct ps_client_options options = PS_ZERO;
    options.coordinator = coordinator;
    options.kind = PS_CLIENT_READER; /* Neither counted nor waited for. */
    struct ps_client *reader = NULL;
    enum ps_status status = ps_client_open(&options, &reader, err);
    if (status != PS_OK) {
        return status;
    }
    struct model model;
    struct ps_cluster *cluster = NULL;
    status = fetch(reader, &model, err);
    if (status == PS_OK) {
        status = ps_client_describe(reader, &cluster, err);
    }
    if (status == PS_OK) {
        double right = accuracy(&model);
        printf("test accuracy: %.4f\neach row:      trained %u to %u times\n", right,
               cluster->rows_trained_min, cluster->rows_trained_max);
        *ret_good = right > 0.95 && cluster->rows_trained_min == EPOCHS &&
                    cluster->rows_trained_max == EPOCHS;
    }
    ps_cluster_free(cluster);
    ps_client_close(reader);
    return status;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    errno = 0;
    unsigned long n_workers = argc > 2 ? strtoul(argv[2], &end, 10) : 1;
    if (argc < 2 || argc > 3 || errno != 0 || (end != NULL && *end != '\0') || n_workers < 1 ||
        n_workers > WORKERS_MAX) {
        fprintf(stderr, "usage: custom_model HOST:PORT [WORKERS]   (1 to %d)\n", WORKERS_MAX);
        return 2;
    }
    struct ps_error err = PS_ZERO;
    bool good = false;
    enum ps_status status = work(argv[1], (uint32_t)n_workers, &err);
    while (status == PS_ERR_FENCED) {
        /* It was silent for too long, stopped perhaps: its lease is somebody else's by now. */
        fprintf(stderr, "custom_model: the session was closed; joining with a new one\n");
        status = work(argv[1], (uint32_t)n_workers, &err);
    }
    if (status == PS_OK) {
        status = judge(argv[1], &good, &err);
    }
    if (status != PS_OK) {
        fprintf(stderr, "custom_model: %s\n", err.text);
        return 1;
    }
    return good ? 0 : 1;
}
