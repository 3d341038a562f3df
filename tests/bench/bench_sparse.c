/*
 * bench_sparse.c — rows per second of one core on a sparse table that does not fit any cache.
 *
 *     bench_sparse [rows] [width] [batch] [optimizer]
 *
 * Fills a table with `rows` rows (sequential keys), then looks batches of random keys up and
 * updates them. Batches are sorted and unique, as they come from the wire. Also prints bytes per
 * row and the longest single call while the table grew. Times are CPU time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "optim/rows.h"
#include "table/sparse.h"

struct rule {
    struct ps_sparse_rule rule;
    struct ps_optim_row_step step;
};

static void apply(struct ps_sparse_rule *rule, uint32_t t, float *weights, float *state,
                  const uint8_t *grad)
{
    const struct rule *r = PS_CONTAINER_OF(rule, struct rule, rule);
    ps_optim_row_apply(&r->step, t, weights, state, grad);
}

/* As a lane does it. */
static void derive(const void *of, float rate, const float *state, uint32_t width, float *out)
{
    const struct ps_optim_rows *rows = of;
    rows->optim->derive(&rows->params, rate, out, state, width, width);
}

struct bench {
    uint64_t n_rows;
    uint32_t width;
    uint32_t n_batch;
    struct ps_sparse *sparse;
    struct rule rule;
    uint64_t *keys;
    float *values;
    uint8_t *grads;
    double longest_s;
};

/* CPU time of this thread: the machine may be busy with other things. */
static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void push(struct bench *b, uint32_t n)
{
    struct ps_slice slice = {.data = b->grads, .n_bytes = (size_t)n * b->width * sizeof(float)};
    struct ps_sparse_push p = {.keys = b->keys,
                               .n = n,
                               .grads = ps_cursor_over(&slice, 1),
                               .clock = 1,
                               .rate = b->rule.step.rate,
                               .rule = &b->rule.rule};
    struct ps_sparse_claim claim = {0};
    double start = now_s();
    if (ps_sparse_reserve(b->sparse, b->keys, n, PS_PAGE_WITHIN, &claim) != PS_OK) {
        (void)fputs("bench_sparse: no memory\n", stderr);
        exit(1);
    }
    ps_sparse_update(b->sparse, &p);
    ps_sparse_release(b->sparse, &claim);
    double took = now_s() - start;
    b->longest_s = took > b->longest_s ? took : b->longest_s;
}

static void fill(struct bench *b)
{
    double start = now_s();
    for (uint64_t key = 0; key < b->n_rows;) {
        uint32_t n = 0;
        while (n < b->n_batch && key < b->n_rows) {
            b->keys[n++] = key++;
        }
        push(b, n);
    }
    double took = now_s() - start;
    struct ps_sparse_stats stats = ps_sparse_stats(b->sparse);
    (void)printf("fill            %8.2f M rows/s, longest call %.2f ms, %.1f bytes a row\n",
                 (double)b->n_rows / took * 1e-6, b->longest_s * 1e3,
                 (double)stats.n_bytes / (double)stats.n_rows);
}

/* Random keys of the table, sorted and unique. */
static uint32_t draw(struct bench *b, struct ps_rng *rng)
{
    for (uint32_t i = 0; i < b->n_batch; i++) {
        b->keys[i] = ps_rng_below(rng, b->n_rows);
    }
    qsort(b->keys, b->n_batch, sizeof(b->keys[0]), compare);
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_batch; i++) {
        if (i == 0 || b->keys[i] != b->keys[n - 1]) {
            b->keys[n++] = b->keys[i];
        }
    }
    return n;
}

static void measure(struct bench *b, const char *what, bool read, bool write)
{
    struct ps_rng rng = ps_rng_from(7);
    double took = 0.0;
    uint64_t n_done = 0;
    while (took < 2.0) {
        uint32_t n = draw(b, &rng);
        double start = now_s();
        if (read) {
            ps_sparse_gather(b->sparse, b->keys, n, b->values);
        }
        if (write) {
            push(b, n);
        }
        took += now_s() - start;
        n_done += n;
    }
    (void)printf("%-15s %8.2f M rows/s\n", what, (double)n_done / took * 1e-6);
}

int main(int argc, char **argv)
{
    struct bench b = {.n_rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000,
                      .width = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 16,
                      .n_batch = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1024};
    const struct ps_optim *optim = ps_optim_find(argc > 4 ? argv[4] : "adagrad");
    static struct ps_optim_rows rows;
    int status = 1;
    if (b.n_rows == 0 || b.width == 0 || b.n_batch == 0 || optim == NULL) {
        (void)fputs("bench_sparse [rows] [width] [batch] [optimizer]\n", stderr);
        return 2;
    }
    ps_optim_rows_init(&rows, optim, &optim->defaults);
    b.rule = (struct rule){.rule = {.apply = apply},
                           .step = {.rows = &rows, .rate = 0.01f, .scale = 1.0f, .width = b.width}};
    struct ps_sparse_spec spec = {.name = "bench",
                                  .width = b.width,
                                  .state_per_elem = optim->state_per_elem,
                                  .init = {.kind = PS_INIT_UNIFORM, .scale = 0.01f, .seed = 1},
                                  .index_seed = 99};
    if (optim->derive != NULL) {
        spec.formula = (struct ps_sparse_formula){.weights = derive, .of = &rows};
    }
    if (ps_sparse_create(&spec, NULL, &b.sparse, NULL) != PS_OK) {
        return 1;
    }
    b.keys = calloc(b.n_batch, sizeof(b.keys[0]));
    b.values = calloc((size_t)b.n_batch * b.width, sizeof(float));
    b.grads = calloc((size_t)b.n_batch * b.width * sizeof(float), sizeof(uint8_t));
    if (b.keys == NULL || b.values == NULL || b.grads == NULL) {
        goto out;
    }
    for (size_t i = 0; i < (size_t)b.n_batch * b.width; i++) {
        float g = ps_rng_normal(i);
        memcpy(b.grads + i * sizeof(g), &g, sizeof(g));
    }
    (void)printf("%" PRIu64 " rows of %u floats, batches of %u, %s\n", b.n_rows, b.width, b.n_batch,
                 optim->name);
    fill(&b);
    measure(&b, "look-up", true, false);
    measure(&b, "update", false, true);
    measure(&b, "look-up, update", true, true);
    status = 0;

out:
    ps_sparse_destroy(b.sparse);
    free(b.keys);
    free(b.values);
    free(b.grads);
    return status;
}
