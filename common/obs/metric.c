/* metric.c — see metric.h. All orders are relaxed: a metric publishes nothing but itself. */
#include "obs/metric.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/assert.h"

enum kind {
    COUNTER,
    GAUGE,
    CLOCKS,
    SECONDS
};

struct description {
    const char *name;
    const char *help;
    enum kind kind;
    size_t histogram; /* Its place among the histograms; meaningless for others. */
};

/* Counters and gauges have no bucket; naming them 0 keeps the table below one line a metric. */
#define PLACE_COUNTER(name) 0
#define PLACE_GAUGE(name)   0
#define PLACE_CLOCKS(name)  PS_HISTOGRAM_##name
#define PLACE_SECONDS(name) PS_HISTOGRAM_##name

static const struct description descriptions[] = {
#define X(name, kind, help) [PS_METRIC_##name] = {#name, help, kind, PLACE_##kind(name)},
    PS_METRIC_LIST(X)
#undef X
};

/* How far a worker ran ahead: exact where bounds are usually set, then doubling. */
static const uint64_t clock_bounds[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64};

/* 10 us to 10 s. */
static const uint64_t second_bounds[] = {
    10000,    30000,     100000,    300000,     1000000,    3000000,     10000000,
    30000000, 100000000, 300000000, 1000000000, 3000000000, 10000000000,
};

PS_STATIC_ASSERT(PS_ARRAY_LEN(clock_bounds) < PS_METRIC_BUCKETS_MAX, "one more for the rest");
PS_STATIC_ASSERT(PS_ARRAY_LEN(second_bounds) < PS_METRIC_BUCKETS_MAX, "one more for the rest");

static bool is_histogram(enum ps_metric metric)
{
    PS_ASSERT(metric < PS_METRIC_COUNT);
    return descriptions[metric].kind == CLOCKS || descriptions[metric].kind == SECONDS;
}

static size_t bounds_of(enum ps_metric metric, const uint64_t **ret)
{
    if (descriptions[metric].kind == CLOCKS) {
        *ret = clock_bounds;
        return PS_ARRAY_LEN(clock_bounds);
    }
    *ret = second_bounds;
    return PS_ARRAY_LEN(second_bounds);
}

static void add(_Atomic uint64_t *to, uint64_t n)
{
    (void)atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t load(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

const char *ps_metric_name(enum ps_metric metric)
{
    PS_ASSERT(metric < PS_METRIC_COUNT);
    return descriptions[metric].name;
}

void ps_metric_add(struct ps_metrics *metrics, enum ps_metric metric, uint64_t n)
{
    PS_ASSERT(!is_histogram(metric));
    if (metrics != NULL) {
        add(&metrics->values[metric], n);
    }
}

void ps_metric_sub(struct ps_metrics *metrics, enum ps_metric metric, uint64_t n)
{
    PS_ASSERT(metric < PS_METRIC_COUNT);
    PS_ASSERT(descriptions[metric].kind == GAUGE);
    if (metrics != NULL) {
        (void)atomic_fetch_sub_explicit(&metrics->values[metric], n, memory_order_relaxed);
    }
}

void ps_metric_set(struct ps_metrics *metrics, enum ps_metric metric, uint64_t value)
{
    PS_ASSERT(metric < PS_METRIC_COUNT);
    PS_ASSERT(descriptions[metric].kind == GAUGE);
    if (metrics != NULL) {
        atomic_store_explicit(&metrics->values[metric], value, memory_order_relaxed);
    }
}

static void raise_max(_Atomic uint64_t *max, uint64_t value)
{
    uint64_t seen = load(max);
    while (value > seen && !atomic_compare_exchange_weak_explicit(
                               max, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

void ps_metric_observe(struct ps_metrics *metrics, enum ps_metric metric, uint64_t value)
{
    PS_ASSERT(is_histogram(metric));
    if (metrics == NULL) {
        return;
    }
    const uint64_t *bounds = NULL;
    size_t n_bounds = bounds_of(metric, &bounds);
    size_t bucket = 0;
    while (bucket < n_bounds && value > bounds[bucket]) {
        bucket++;
    }
    struct ps_histogram *histogram = &metrics->histograms[descriptions[metric].histogram];
    add(&histogram->buckets[bucket], 1);
    add(&histogram->n, 1);
    add(&histogram->sum, value);
    raise_max(&histogram->max, value);
}

uint64_t ps_metric_get(const struct ps_metrics *metrics, enum ps_metric metric)
{
    bool counts = is_histogram(metric);
    if (metrics == NULL) {
        return 0;
    }
    return counts ? load(&metrics->histograms[descriptions[metric].histogram].n)
                  : load(&metrics->values[metric]);
}

void ps_metric_histogram(const struct ps_metrics *metrics, enum ps_metric metric,
                         struct ps_histogram_view *ret)
{
    PS_ASSERT(is_histogram(metric));
    *ret = (struct ps_histogram_view){0};
    ret->n_buckets = bounds_of(metric, &ret->bounds) + 1;
    if (metrics == NULL) {
        return;
    }
    const struct ps_histogram *from = &metrics->histograms[descriptions[metric].histogram];
    ret->n = load(&from->n);
    ret->sum = load(&from->sum);
    ret->max = load(&from->max);
    for (size_t i = 0; i < ret->n_buckets; i++) {
        ret->buckets[i] = load(&from->buckets[i]);
    }
}

/* A text that grows in the caller's buffer and counts on when that is full. */
struct text {
    char *at;
    size_t n_bytes;
    size_t used;
};

PS_PRINTF(2, 3) static void put(struct text *text, const char *fmt, ...)
{
    size_t n_room = text->used < text->n_bytes ? text->n_bytes - text->used : 0;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(n_room > 0 ? text->at + text->used : NULL, n_room, fmt, args);
    va_end(args);
    PS_ASSERT(n >= 0);
    text->used += (size_t)n;
}

static void put_histogram(struct text *text, const struct ps_metrics *metrics,
                          enum ps_metric metric)
{
    struct ps_histogram_view view;
    ps_metric_histogram(metrics, metric, &view);
    const char *name = descriptions[metric].name;
    double unit = descriptions[metric].kind == SECONDS ? 1e9 : 1.0;
    uint64_t n_below = 0; /* Prometheus' buckets count all that is at most their bound. */
    for (size_t i = 0; i + 1 < view.n_buckets; i++) {
        n_below += view.buckets[i];
        put(text, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)view.bounds[i] / unit,
            n_below);
    }
    put(text, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, view.n);
    put(text, "%s_sum %.9g\n", name, (double)view.sum / unit);
    put(text, "%s_count %" PRIu64 "\n", name, view.n);
}

size_t ps_metrics_text(const struct ps_metrics *metrics, char *text, size_t n_bytes)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram", "histogram"};
    struct text out = {.at = text, .n_bytes = n_bytes};
    for (unsigned i = 0; i < PS_METRIC_COUNT; i++) {
        const struct description *is = &descriptions[i];
        put(&out, "# HELP %s %s\n# TYPE %s %s\n", is->name, is->help, is->name, kinds[is->kind]);
        if (is_histogram((enum ps_metric)i)) {
            put_histogram(&out, metrics, (enum ps_metric)i);
        } else {
            put(&out, "%s %" PRIu64 "\n", is->name, ps_metric_get(metrics, (enum ps_metric)i));
        }
    }
    return out.used;
}
