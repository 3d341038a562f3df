#ifndef PS_COMMON_OBS_METRIC_H
#define PS_COMMON_OBS_METRIC_H
/*
 * obs/metric.h — counters, gauges and histograms of one server or one worker.
 *
 * A struct ps_metrics belongs to its daemon and is handed down: two servers in one process count
 * apart. Zero-initialised is ready. Any thread; each change is one relaxed atomic operation, so
 * values of different metrics are not a snapshot of one instant. `metrics` may be NULL wherever
 * something is counted: then nothing is.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "obs/metric_list.h"

enum ps_metric {
#define X(name, kind, help) PS_METRIC_##name,
    PS_METRIC_LIST(X)
#undef X
    PS_METRIC_COUNT
};

/* Names the histograms 0, 1, ...: only they have buckets. */
enum ps_histogram_index {
#define PS_PICK_COUNTER(name)
#define PS_PICK_GAUGE(name)
#define PS_PICK_CLOCKS(name)  PS_HISTOGRAM_##name,
#define PS_PICK_SECONDS(name) PS_HISTOGRAM_##name,
#define X(name, kind, help)   PS_PICK_##kind(name)
    PS_METRIC_LIST(X)
#undef X
#undef PS_PICK_COUNTER
#undef PS_PICK_GAUGE
#undef PS_PICK_CLOCKS
#undef PS_PICK_SECONDS
    PS_HISTOGRAM_COUNT
};

#define PS_METRIC_BUCKETS_MAX 16u /* Per histogram, the last one for "more than all bounds". */

/** Values that fell into each bucket; plain numbers in ps_metric_histogram's copy. */
struct ps_histogram {
    _Atomic uint64_t buckets[PS_METRIC_BUCKETS_MAX]; /* Bucket i: more than bound i-1, at most i. */
    _Atomic uint64_t n;
    _Atomic uint64_t sum; /* Clocks, or nanoseconds. */
    _Atomic uint64_t max;
};

struct ps_metrics {
    _Atomic uint64_t values[PS_METRIC_COUNT]; /* Counters and gauges. */
    struct ps_histogram histograms[PS_HISTOGRAM_COUNT];
};

/** What a histogram has seen. */
struct ps_histogram_view {
    uint64_t n;
    uint64_t sum; /* Clocks, or nanoseconds. */
    uint64_t max;
    uint64_t buckets[PS_METRIC_BUCKETS_MAX];
    size_t n_buckets;       /* The last one has no bound. */
    const uint64_t *bounds; /* [n_buckets - 1], clocks or nanoseconds; static. */
};

/** Add `n` to a counter or gauge. */
void ps_metric_add(struct ps_metrics *metrics, enum ps_metric metric, uint64_t n);

/** Take `n` from a gauge. */
void ps_metric_sub(struct ps_metrics *metrics, enum ps_metric metric, uint64_t n);

/** Make a gauge `value`. */
void ps_metric_set(struct ps_metrics *metrics, enum ps_metric metric, uint64_t value);

/** Put one value into a histogram: clocks, or nanoseconds for SECONDS. */
void ps_metric_observe(struct ps_metrics *metrics, enum ps_metric metric, uint64_t value);

/** A counter's or gauge's value; a histogram's number of observations. */
uint64_t ps_metric_get(const struct ps_metrics *metrics, enum ps_metric metric);

/** Copy what a histogram has seen. */
void ps_metric_histogram(const struct ps_metrics *metrics, enum ps_metric metric,
                         struct ps_histogram_view *ret);

/** "push_total", as in the list. */
const char *ps_metric_name(enum ps_metric metric);

/**
 * Write all metrics as lines "name value" (histograms: name_bucket{le="bound"}, name_sum,
 * name_count) in Prometheus' text form. As snprintf: at most `n_bytes` with the final 0.
 * @return the bytes that the whole text needs without the final 0.
 */
size_t ps_metrics_text(const struct ps_metrics *metrics, char *text, size_t n_bytes);

#endif
