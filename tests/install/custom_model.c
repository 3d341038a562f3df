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
    WORKERS_MAX = 64,
    PATIENCE_MS = 1000
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

static uint64_t smallest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The rows of one unit of a lease, as <ps/types.h> has it at struct ps_lease; how many. */
static uint32_t make_rows(const struct ps_lease *lease, uint32_t unit, struct row rows[BATCH])
{
    uint64_t first = lease->first_row + unit * lease->stride;
    uint64_t end = smallest(first + lease->unit_rows, (first / BATCH + 1) * BATCH);
    end = smallest(end, TRAIN_ROWS);
    uint32_t n = 0;
    while (first + n < end) {
        make_row(first + n, &rows[n]); /* The job does not shuffle: position p is row p. */
        n++;
    }
    return n;
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

/* Mean gradient over the rows; the sum of their losses. */
static double gradient(const struct model *model, const struct row *rows, uint32_t n,
                       struct model *ret)
{
    double loss = 0.0;
    memset(ret->weight, 0, sizeof(ret->weight));
    ret->bias[0] = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        double p = predict(model, &rows[i]);
        loss -= log(rows[i].label > 0.5f ? p : 1.0 - p);
        float slope = ((float)p - rows[i].label) / (float)n;
        for (int k = 0; k < FEATURES; k++) {
            ret->weight[k] += slope * rows[i].x[k];
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

/* All workers say the same; the first one defines, the others find that it agrees. */
static enum ps_status define(struct ps_client *client, uint32_t n_workers,
                             struct ps_table tables[TABLES], struct ps_error *err)
{
    for (int i = 0; i < TABLES; i++) {
        struct ps_table_def def;
        memset(&def, 0, sizeof(def));
        def.name = table_names[i];
        def.n_dims = 1;
        def.shape[0] = table_sizes[i];
        def.optimizer = "sgd";
        enum ps_status status = ps_client_define_table(client, &def, &tables[i], err);
        if (status != PS_OK) {
            return status;
        }
    }
    struct ps_job_def job;
    memset(&job, 0, sizeof(job));
    job.model = "custom logistic regression";
    job.data = "made by custom_model.c";
    job.rows = TRAIN_ROWS;
    job.batch = BATCH;
    job.epochs = EPOCHS;
    job.workers = n_workers;
    job.consistency.mode = PS_CONSISTENCY_SSP;
    job.consistency.bound = BOUND;
    return ps_client_define_job(client, &job, err);
}

/* ---- A worker ------------------------------------------------------------------------------ */

struct worker {
    struct ps_client *client;
    struct model model;
    struct model gradient;
    struct ps_pull pull;    /* Of the weights for the step at hand, */
    struct row rows[BATCH]; /*   and its rows. */
    uint32_t n_rows;
    struct ps_worker_report report; /* Its clock is the step to be done next. */
    double loss_sums[EPOCHS];
    uint64_t loss_rows[EPOCHS];
};

static void prepare_pull(struct worker *w, uint64_t step)
{
    memset(&w->pull, 0, sizeof(w->pull));
    w->pull.tensors = w->model.tensors;
    w->pull.n_tensors = TABLES;
    w->pull.step = step;
}

static void prepare_push(struct worker *w, const struct ps_lease *lease, uint32_t unit,
                         struct ps_push *push)
{
    memset(push, 0, sizeof(*push));
    push->tensors = w->gradient.tensors;
    push->n_tensors = TABLES;
    push->stream = lease->id; /* Should somebody do this unit again, the push is the same: once. */
    push->sequence = unit;
    push->acked_below = unit;
    push->step = w->report.clock;
    push->rows = w->n_rows;
    push->rate = RATE;
    push->read_clock = w->pull.min_clock;
}

/* A unit is in the servers: what others may wait for. */
static void report(struct worker *w, const struct ps_lease *lease, const struct ps_push *push,
                   double loss)
{
    uint64_t staleness = push->step > push->read_clock ? push->step - push->read_clock : 0;
    struct ps_worker_report *r = &w->report;
    w->loss_sums[lease->epoch] += loss;
    w->loss_rows[lease->epoch] += push->rows;
    r->clock = push->step + 1;
    r->lease = lease->id;
    r->units_done = (uint32_t)push->sequence + 1;
    r->loss_epoch = lease->epoch;
    r->loss_sum = w->loss_sums[lease->epoch];
    r->loss_rows = w->loss_rows[lease->epoch];
    r->stats.units++;
    r->stats.rows += push->rows;
    r->stats.staleness_sum += staleness;
    r->stats.staleness_max =
        staleness > r->stats.staleness_max ? staleness : r->stats.staleness_max;
    ps_client_report(w->client, r);
}

/*
 * One step. The next weights come back with the push, and the next rows are made while both are
 * under way. Not so behind the last unit of a lease: a worker without a lease is not counted, so
 * nothing says when the others' clocks allow its next step.
 */
static enum ps_status train_unit(struct worker *w, const struct ps_lease *lease, uint32_t unit,
                                 struct ps_error *err)
{
    bool last = unit + 1 == lease->n_units;
    struct ps_push push;
    double loss = gradient(&w->model, w->rows, w->n_rows, &w->gradient);
    prepare_push(w, lease, unit, &push);
    w->report.stats.blocked_bound_us += w->pull.blocked_ns / 1000;
    prepare_pull(w, w->report.clock + 1);
    enum ps_status status = last ? ps_client_push_start(w->client, &push, err)
                                 : ps_client_push_pull_start(w->client, &push, &w->pull, err);
    if (status != PS_OK) {
        return status;
    }
    if (!last) {
        w->n_rows = make_rows(lease, unit + 1, w->rows);
    }
    status = ps_client_push_wait(w->client, &push, err);
    if (status == PS_OK) {
        report(w, lease, &push, loss); /* Before the next wait: the pull may need it. */
    }
    if (last) {
        return status;
    }
    /* What was started is waited for, also now; the words of the first failure are kept. */
    enum ps_status pulled = ps_client_pull_wait(w->client, &w->pull, status == PS_OK ? err : NULL);
    return status == PS_OK ? pulled : status;
}

static enum ps_status train_lease(struct worker *w, const struct ps_lease *lease,
                                  struct ps_error *err)
{
    if (w->report.clock < lease->clock) {
        w->report.clock = lease->clock; /* It was idle, and the others went on. */
    }
    prepare_pull(w, w->report.clock);
    enum ps_status status = ps_client_pull(w->client, &w->pull, err);
    w->n_rows = make_rows(lease, lease->units_done, w->rows);
    for (uint32_t unit = lease->units_done; status == PS_OK && unit < lease->n_units; unit++) {
        status = train_unit(w, lease, unit, err);
    }
    return status;
}

/* Lease after lease, until the job is over. */
static enum ps_status train(struct worker *w, struct ps_error *err)
{
    uint64_t finished = 0; /* The lease that was done last; the view may show it a little longer. */
    struct ps_client_view view;
    ps_client_view(w->client, &view);
    for (;;) {
        if (view.lost.status != PS_OK) {
            *err = view.lost;
            return err->status;
        }
        if (view.fenced) {
            return PS_ERR_FENCED;
        }
        if (view.job == PS_JOB_DONE || view.job == PS_JOB_STOPPED) {
            return PS_OK;
        }
        if (view.lease.id == 0 || view.lease.id == finished) {
            (void)ps_client_wait_change(w->client, &view, PATIENCE_MS);
            continue;
        }
        enum ps_status status = train_lease(w, &view.lease, err);
        if (status != PS_OK) {
            return status;
        }
        finished = view.lease.id;
        ps_client_view(w->client, &view);
    }
}

/* One session, from joining to leaving. */
static enum ps_status work(const char *coordinator, uint32_t n_workers, struct ps_error *err)
{
    struct ps_client_options options;
    memset(&options, 0, sizeof(options));
    options.coordinator = coordinator;
    options.name = "custom";
    struct worker w;
    memset(&w, 0, sizeof(w));
    enum ps_status status = ps_client_open(&options, &w.client, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_table tables[TABLES];
    status = define(w.client, n_workers, tables, err);
    if (status == PS_OK) {
        place(&w.model, tables);
        place(&w.gradient, tables);
        status = train(&w, err);
    }
    ps_client_close(w.client);
    if (status == PS_OK) {
        printf("this worker:   %lu of %lu rows\n", (unsigned long)w.report.stats.rows,
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
    place(model, tables);
    struct ps_pull pull;
    memset(&pull, 0, sizeof(pull));
    pull.tensors = model->tensors;
    pull.n_tensors = TABLES;
    return ps_client_pull(client, &pull, err);
}

/* Judge the finished job; `ret_good` when it kept its promises. */
static enum ps_status judge(const char *coordinator, bool *ret_good, struct ps_error *err)
{
    struct ps_client_options options;
    memset(&options, 0, sizeof(options));
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
    struct ps_error err;
    memset(&err, 0, sizeof(err));
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
