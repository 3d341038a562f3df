/*
 * rows.c — ps-rows: a worker whose every unit adds known integers to known rows of a sparse table
 * and to one number of a dense one, and a reader that knows what must be there in the end.
 *
 * The rows of unit u are those keys of a fixed universe, ends of the 64 bits among them, that a
 * hash of (u, key) picks; element j of such a row gets 1 + j % 7 a unit. So after the job row k
 * holds n_k * (1 + j % 7), n_k being the number of units that have it, and any unit that was
 * applied twice or not at all shows, in a pull and in a scan. `bench` pushes and pulls rows as fast
 * as one session may.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ps/client.h>

#include "base/assert.h"
#include "base/rng.h"
#include "conf/conf.h"
#include "os/process.h"

enum mode {
    MODE_WORK,
    MODE_CHECK,
    MODE_SCAN,
    MODE_BENCH
};

struct options {
    const char *coordinator;
    uint32_t mode;
    uint32_t keys;
    uint32_t one_in;
    uint32_t width;
    uint32_t units;
    uint32_t epochs;
    uint32_t workers;
    uint32_t admit_after;
    uint64_t time_ms;
};

static const char *const modes[] = {"work", "check", "scan", "bench", NULL};

#define AT(field) .offset = offsetof(struct options, field)
#define NUMBER(word, text, first, field)                                                    \
    {                                                                                       \
        .name = (word), .help = (text), .type = PS_OPTION_U32, .min = 1, .preset = (first), \
        AT(field)                                                                           \
    }

static const struct ps_option rows[] = {
    {.name = "coordinator",
     .group = "Rows",
     .help = "Of the cluster.",
     .type = PS_OPTION_STRING,
     .required = true,
     AT(coordinator)},
    {.name = "mode",
     .help =
         "work: units until the job is done. check: compare what is there. scan: all rows, over "
         "and over, while others work. bench.",
     .type = PS_OPTION_ENUM,
     .words = modes,
     .preset = "work",
     AT(mode)},
    NUMBER("keys", "Of the universe.", "20000", keys),
    NUMBER("one-in", "A unit has one in so many of them.", "4", one_in),
    NUMBER("width", "Of a row.", "5", width),
    NUMBER("units", "An epoch.", "40", units),
    NUMBER("epochs", "How many.", "2", epochs),
    NUMBER("workers", "That the job waits for.", "1", workers),
    NUMBER("admit-after", "A key gets its row with this push; above 1 nothing can be checked.", "1",
           admit_after),
    {.name = "time",
     .help = "Of scan and bench.",
     .type = PS_OPTION_DURATION_MS,
     .preset = "2s",
     AT(time_ms)},
};

static const struct ps_option_table table_of_rows = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {{&table_of_rows, 0}};
static const struct ps_program program = {
    .name = "ps-rows",
    .summary = "Known integers into rows of a sparse table, and what must come of it. For tests.",
    .env_prefix = "PS_ROWS",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
};

struct worker {
    const struct options *options;
    struct ps_client *client;
    struct ps_table dense;
    struct ps_table sparse;
    uint64_t *keys;     /* [options->keys] Ascending. */
    uint64_t *picked;   /* [options->keys] Of a unit. */
    float *weights;     /* [options->keys][width] */
    float *gradients;   /* [options->keys][width] */
    float one_weight;   /* The dense table. */
    float one_gradient; /* Likewise. */
    uint64_t scan_ns;   /* Spent in scans, */
    uint64_t n_scanned; /*   for so many rows. */
};

/* ---- What is where -------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    uint64_t one;
    uint64_t other;
    memcpy(&one, a, sizeof(one));
    memcpy(&other, b, sizeof(other));
    return one < other ? -1 : one > other;
}

static void make_keys(struct worker *worker)
{
    static const uint64_t ends[] = {0, UINT64_MAX, UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, 1};
    uint32_t n = worker->options->keys;
    for (uint32_t i = 0; i < n; i++) {
        worker->keys[i] = i < PS_ARRAY_LEN(ends) ? ends[i] : ps_mix64(i);
    }
    qsort(worker->keys, n, sizeof(worker->keys[0]), compare_keys);
    for (uint32_t i = 1; i < n; i++) {
        PS_ASSERT(worker->keys[i - 1] < worker->keys[i]);
    }
}

static bool has(const struct options *options, uint64_t unit, uint64_t key)
{
    return ps_mix64(key ^ ps_mix64(unit)) % options->one_in == 0;
}

static float addend(uint32_t element)
{
    return (float)(1 + element % 7);
}

/* The rows of a unit, and their gradients. @return how many */
static uint32_t pick(struct worker *worker, uint64_t unit)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < worker->options->keys; i++) {
        if (has(worker->options, unit, worker->keys[i])) {
            worker->picked[n++] = worker->keys[i];
        }
    }
    return n;
}

static bool make_memory(struct worker *worker)
{
    size_t n = worker->options->keys;
    size_t n_floats = n * worker->options->width;
    worker->keys = calloc(n, sizeof(uint64_t));
    worker->picked = calloc(n, sizeof(uint64_t));
    worker->weights = calloc(n_floats, sizeof(float));
    worker->gradients = calloc(n_floats, sizeof(float));
    if (worker->keys == NULL || worker->picked == NULL || worker->weights == NULL ||
        worker->gradients == NULL) {
        return false;
    }
    for (size_t i = 0; i < n_floats; i++) { /* Plain sgd with rate 1 takes them away. */
        worker->gradients[i] = -addend((uint32_t)(i % worker->options->width));
    }
    return true;
}

/* ---- Work ----------------------------------------------------------------------------------- */

static enum ps_status define_tables(struct worker *worker, struct ps_error *err)
{
    struct ps_table_def dense = {.name = "one", .n_dims = 1, .shape = {1}, .optimizer = "sgd"};
    struct ps_table_def sparse = {.name = "rows",
                                  .width = worker->options->width,
                                  .admit_after = worker->options->admit_after,
                                  .optimizer = "sgd"};
    enum ps_status status = ps_client_define_table(worker->client, &dense, &worker->dense, err);
    if (status == PS_OK) {
        status = ps_client_define_table(worker->client, &sparse, &worker->sparse, err);
    }
    return status;
}

static enum ps_status define_job(struct worker *worker, struct ps_error *err)
{
    struct ps_job_def job = {.model = "rows",
                             .data = "units",
                             .rows = worker->options->units,
                             .batch = 1,
                             .epochs = worker->options->epochs,
                             .workers = worker->options->workers,
                             .consistency = {.mode = PS_CONSISTENCY_SSP, .bound = 2},
                             .units_per_lease = 5};
    return ps_client_define_job(worker->client, &job, err);
}

static enum ps_status do_unit(struct worker *worker, const struct ps_unit *unit,
                              struct ps_error *err)
{
    uint32_t n = pick(worker, unit->first);
    struct ps_keyed weights = {
        .table = worker->sparse.number, .n = n, .keys = worker->picked, .values = worker->weights};
    struct ps_keyed gradients = weights;
    gradients.values = worker->gradients;
    worker->one_gradient = -1.0f;
    struct ps_tensor one = {.table = worker->dense.number, .values = &worker->one_weight};
    struct ps_tensor one_gradient = {.table = worker->dense.number,
                                     .values = &worker->one_gradient};
    struct ps_pull pull = {
        .tensors = &one, .n_tensors = 1, .keyed = &weights, .n_keyed = 1, .step = unit->step};
    struct ps_push push = {.tensors = &one_gradient,
                           .n_tensors = 1,
                           .keyed = &gradients,
                           .n_keyed = 1,
                           .rate = 1.0f,
                           .unit = unit};
    enum ps_status status = ps_client_pull(worker->client, &pull, err);
    if (status == PS_OK) {
        push.read_clock = pull.min_clock;
        status = ps_client_push(worker->client, &push, err);
    }
    return status == PS_OK ? ps_client_unit_done(worker->client, unit, 0.0, err) : status;
}

/* One unit after the other until the job is done. */
static enum ps_status work(struct worker *worker, struct ps_error *err)
{
    struct ps_unit unit = PS_ZERO;
    enum ps_status status = define_job(worker, err);
    (void)printf("ready\n");
    (void)fflush(stdout);
    while (status == PS_OK) {
        status = ps_client_next_unit(worker->client, &unit, PS_FOREVER_MS, err);
        if (status != PS_OK || unit.n_rows == 0) {
            break;
        }
        status = do_unit(worker, &unit, err);
        (void)printf("unit %u of lease %" PRIu64 "\n", unit.index, unit.lease);
        (void)fflush(stdout);
    }
    return status;
}

/* ---- Check ---------------------------------------------------------------------------------- */

/* How often a row was pushed. */
static uint32_t times(const struct options *options, uint64_t key)
{
    uint32_t n = 0;
    for (uint64_t unit = 0; unit < options->units; unit++) {
        n += has(options, unit, key) ? options->epochs : 0;
    }
    return n;
}

/* Rows that were pushed in part: their elements disagree about how often. */
static uint32_t count_torn(const struct worker *worker)
{
    uint32_t width = worker->options->width;
    uint32_t n_torn = 0;
    for (uint32_t i = 0; i < worker->options->keys; i++) {
        const float *row = worker->weights + (size_t)i * width;
        bool torn = false;
        for (uint32_t j = 0; j < width; j++) {
            float whole = row[0] * addend(j); /* The first one is 1. */
            torn = torn || row[j] < whole || row[j] > whole;
        }
        n_torn += torn ? 1 : 0;
    }
    return n_torn;
}

static uint32_t count_wrong(const struct worker *worker)
{
    uint32_t width = worker->options->width;
    uint32_t n_wrong = 0;
    for (uint32_t i = 0; i < worker->options->keys; i++) {
        float n = (float)times(worker->options, worker->keys[i]);
        for (uint32_t j = 0; j < width; j++) {
            float want = n * addend(j);
            float got = worker->weights[(size_t)i * width + j];
            if (got < want || got > want) {
                if (n_wrong++ < 5) {
                    (void)printf("key %" PRIu64 " element %u: %g, not %g\n", worker->keys[i], j,
                                 (double)got, (double)want);
                }
            }
        }
    }
    return n_wrong;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- Scan ----------------------------------------------------------------------------------- */

/* The place of a key in the universe; as many as there are: it is no key of it. */
static uint32_t place_of(const struct worker *worker, uint64_t key)
{
    const uint64_t *found =
        bsearch(&key, worker->keys, worker->options->keys, sizeof(key), compare_keys);
    return found != NULL ? (uint32_t)(found - worker->keys) : worker->options->keys;
}

/* A row as it stands after whole units: the same number of them in all of its elements. */
static bool whole_units(const struct options *options, const float *row)
{
    bool whole = row[0] >= 1.0f && row[0] <= (float)(options->units * options->epochs);
    for (uint32_t j = 0; j < options->width; j++) {
        float want = row[0] * addend(j);
        whole = whole && !(row[j] < want) && !(row[j] > want);
    }
    return whole;
}

/* All rows once, into `weights` by place; `met` [keys]. Some room more than one call fills. */
static enum ps_status scan_once(struct worker *worker, bool *met, uint32_t *ret_rows,
                                uint32_t *ret_wrong, struct ps_error *err)
{
    enum {
        ROOM = 5000
    };
    const struct options *options = worker->options;
    static uint64_t keys[ROOM];
    float *values = calloc((size_t)ROOM * options->width, sizeof(float));
    struct ps_scan scan = {
        .table = worker->sparse.number, .keys = keys, .values = values, .n_room = ROOM};
    enum ps_status status = values != NULL ? PS_OK : PS_ERR_NOMEM;
    memset(met, 0, options->keys * sizeof(met[0]));
    while (status == PS_OK && !scan.done) {
        uint64_t start_ns = now_ns();
        status = ps_client_scan(worker->client, &scan, err);
        worker->scan_ns += now_ns() - start_ns;
        worker->n_scanned += status == PS_OK ? scan.n : 0;
        for (uint32_t i = 0; i < scan.n && status == PS_OK; i++) {
            const float *row = values + (size_t)i * options->width;
            uint32_t at = place_of(worker, keys[i]);
            if (at == options->keys || met[at] || !whole_units(options, row)) {
                (*ret_wrong)++;
                (void)printf("key %" PRIu64 ": %s\n", keys[i],
                             at == options->keys ? "never pushed"
                             : met[at]           ? "twice"
                                                 : "not whole");
                continue;
            }
            met[at] = true;
            memcpy(worker->weights + (size_t)at * options->width, row,
                   options->width * sizeof(float));
            (*ret_rows)++;
        }
    }
    free(values);
    return status;
}

/* What a scan brings in the end: the rows that were pushed, and no others. */
static enum ps_status check_scan(struct worker *worker, struct ps_error *err)
{
    const struct options *options = worker->options;
    bool *met = calloc(options->keys, sizeof(*met));
    uint32_t n_rows = 0;
    uint32_t n_wrong = 0;
    memset(worker->weights, 0, (size_t)options->keys * options->width * sizeof(float));
    enum ps_status status =
        met != NULL ? scan_once(worker, met, &n_rows, &n_wrong, err) : PS_ERR_NOMEM;
    for (uint32_t i = 0; i < options->keys && status == PS_OK; i++) {
        n_wrong += met[i] != (times(options, worker->keys[i]) > 0) ? 1 : 0;
    }
    free(met);
    if (status == PS_OK) {
        n_wrong += count_wrong(worker);
        (void)printf("%u wrong of %u scanned\n", n_wrong, n_rows);
    }
    return status == PS_OK && n_wrong > 0 ? PS_ERR_CORRUPT : status;
}

static enum ps_status check(struct worker *worker, struct ps_error *err)
{
    const struct options *options = worker->options;
    struct ps_keyed keyed = {.n = options->keys, .keys = worker->keys, .values = worker->weights};
    struct ps_tensor one = {.values = &worker->one_weight};
    enum ps_status status = ps_client_table(worker->client, "one", &worker->dense, err);
    if (status == PS_OK) {
        status = ps_client_table(worker->client, "rows", &worker->sparse, err);
    }
    if (status != PS_OK) {
        return status;
    }
    keyed.table = worker->sparse.number;
    one.table = worker->dense.number;
    struct ps_pull pull = {
        .tensors = &one, .n_tensors = 1, .keyed = &keyed, .n_keyed = 1, .no_clock = true};
    status = ps_client_pull(worker->client, &pull, err);
    if (status != PS_OK) {
        return status;
    }
    uint32_t n_wrong = count_wrong(worker);
    float n_units = (float)(options->units * options->epochs);
    n_wrong += worker->one_weight < n_units || worker->one_weight > n_units;
    (void)printf("%u wrong of %u rows, %g units, %u torn\n", n_wrong, options->keys,
                 (double)worker->one_weight, count_torn(worker));
    return n_wrong == 0 ? check_scan(worker, err) : PS_ERR_CORRUPT;
}

/* All rows again and again, while others push. */
static enum ps_status scan(struct worker *worker, struct ps_error *err)
{
    bool *met = calloc(worker->options->keys, sizeof(*met));
    uint32_t n_rows = 0;
    uint32_t n_wrong = 0;
    uint32_t n_scans = 0;
    uint64_t end_ns = now_ns() + worker->options->time_ms * 1000000u;
    enum ps_status status = met != NULL ? PS_OK : PS_ERR_NOMEM;
    if (status == PS_OK) {
        status = ps_client_table(worker->client, "rows", &worker->sparse, err);
    }
    while (status == PS_OK && now_ns() < end_ns) {
        n_rows = 0;
        status = scan_once(worker, met, &n_rows, &n_wrong, err);
        n_scans++;
    }
    free(met);
    double seconds = (double)worker->scan_ns / 1e9;
    (void)printf("%u wrong, %u scans, %u rows in the last, %.0f rows/s, width %u\n", n_wrong,
                 n_scans, n_rows, (double)worker->n_scanned / seconds, worker->options->width);
    return status == PS_OK && n_wrong > 0 ? PS_ERR_CORRUPT : status;
}

/* ---- Bench ---------------------------------------------------------------------------------- */

#define BENCH_UNITS 16u /* Made beforehand, and pushed in turn. */

struct bench_unit {
    uint64_t *keys;
    uint32_t n;
};

static bool make_units(struct worker *worker, struct bench_unit *units)
{
    bool made = true;
    for (uint32_t i = 0; i < BENCH_UNITS && made; i++) {
        units[i].n = pick(worker, i);
        units[i].keys = calloc(units[i].n + 1, sizeof(uint64_t));
        made = units[i].keys != NULL;
        if (made) {
            memcpy(units[i].keys, worker->picked, units[i].n * sizeof(uint64_t));
        }
    }
    return made;
}

/* Push and pull in the same calls, one step after the other. */
static enum ps_status bench(struct worker *worker, struct ps_error *err)
{
    static struct bench_unit units[BENCH_UNITS];
    if (!make_units(worker, units)) {
        return PS_ERR_NOMEM;
    }
    uint64_t n_rows = 0;
    uint64_t step = 0;
    uint64_t start_ns = now_ns();
    uint64_t end_ns = start_ns + worker->options->time_ms * 1000000u;
    enum ps_status status = PS_OK;
    for (; status == PS_OK && now_ns() < end_ns; step++) {
        const struct bench_unit *unit = &units[step % BENCH_UNITS];
        struct ps_keyed weights = {.table = worker->sparse.number,
                                   .n = unit->n,
                                   .keys = unit->keys,
                                   .values = worker->weights};
        struct ps_keyed gradients = weights;
        gradients.values = worker->gradients;
        struct ps_pull pull = {.keyed = &weights, .n_keyed = 1, .no_clock = true};
        struct ps_push push = {.keyed = &gradients,
                               .n_keyed = 1,
                               .sequence = step,
                               .acked_below = step,
                               .rows = 1,
                               .rate = 1.0f};
        status = ps_client_push_pull_start(worker->client, &push, &pull, err);
        if (status == PS_OK) {
            status = ps_client_push_wait(worker->client, &push, err);
            enum ps_status pulled = ps_client_pull_wait(worker->client, &pull, err);
            status = status == PS_OK ? pulled : status;
        }
        n_rows += unit->n;
    }
    for (uint32_t i = 0; i < BENCH_UNITS; i++) {
        free(units[i].keys);
    }
    double seconds = (double)(now_ns() - start_ns) / 1e9;
    (void)printf("%.0f rows/s pushed and pulled, width %u, %.0f rows a step, %.2f ms a step\n",
                 (double)n_rows / seconds, worker->options->width, (double)n_rows / (double)step,
                 1000.0 * seconds / (double)step);
    return status;
}

static int run(const struct options *options)
{
    bool reads = options->mode == MODE_CHECK || options->mode == MODE_SCAN;
    struct worker worker = {.options = options};
    struct ps_error err = {0};
    struct ps_client_options client = {.coordinator = options->coordinator,
                                       .kind = reads ? PS_CLIENT_READER : PS_CLIENT_WORKER,
                                       .name = "rows"};
    if (!make_memory(&worker)) {
        (void)fprintf(stderr, "ps-rows: no memory\n");
        return 1;
    }
    make_keys(&worker);
    enum ps_status status = ps_client_open(&client, &worker.client, &err);
    if (status == PS_OK && !reads) {
        status = define_tables(&worker, &err);
    }
    if (status == PS_OK) {
        switch ((enum mode)options->mode) {
        case MODE_WORK: status = work(&worker, &err); break;
        case MODE_CHECK: status = check(&worker, &err); break;
        case MODE_SCAN: status = scan(&worker, &err); break;
        case MODE_BENCH: status = bench(&worker, &err); break;
        }
    }
    ps_client_close(worker.client);
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-rows: %s: %s\n", ps_status_text(status), err.text);
    }
    free(worker.keys);
    free(worker.picked);
    free(worker.weights);
    free(worker.gradients);
    return status == PS_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    ps_os_die_with_parent();
    struct ps_conf conf;
    static struct options options;
    struct ps_error err;
    switch (ps_conf_parse(&conf, &program, argc, argv, &options, &err)) {
    case PS_CONF_DONE: return 0;
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-rows: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    return run(&options);
}
