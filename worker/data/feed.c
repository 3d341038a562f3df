/* feed.c — see feed.h. */
#include "data/feed.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/feed_ahead.h"
#include "data/feed_window.h"

#define FEED_STREAM 0x66656564ull /* Keeps these numbers apart from other uses of the seed. */

struct ps_feed {
    struct ps_feed_options options;
    struct ps_feed_windows windows;
    struct ps_feed_ahead *ahead;     /* NULL: nobody reads ahead. */
    struct ps_feed_window pair[2];   /* The second is used only with `ahead`. */
    struct ps_feed_window *window;   /* Of which units are given. */
    bool valid;                      /* `window` is of part windows.part. */
    bool pending;                    /* `ahead` is at work on the other one. */
    struct ps_reading_counts counts; /* Behind the furthest window used. */
    struct ps_rows unit;             /* The rows of a shuffled unit. */
    uint32_t *order;                 /* [order_capacity] Of the window, */
    uint32_t order_capacity;
    uint32_t order_epoch; /* in this epoch, */
    bool ordered;         /* if it was made. */
};

static struct ps_feed_window *other(struct ps_feed *feed)
{
    return feed->window == &feed->pair[0] ? &feed->pair[1] : &feed->pair[0];
}

static enum ps_status open_parts(struct ps_feed *feed, const struct ps_source *source,
                                 const struct ps_description *description, struct ps_error *err)
{
    const struct ps_feed_options *options = &feed->options;
    uint64_t n_parts = ps_source_parts(source, options->part_bytes);
    if (n_parts > PS_LEASES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%" PRIu64 " parts of data, at most %u are possible",
                       n_parts, PS_LEASES_MAX);
    }
    struct ps_reading_options reading = {.mem = options->mem,
                                         .max_bad_rows = options->max_bad_rows};
    struct ps_feed_windows *windows = &feed->windows;
    windows->n_parts = (uint32_t)n_parts;
    windows->n_seen =
        ps_mem_array(options->mem, PS_MEM_DATA, (size_t)n_parts, sizeof(*windows->n_seen));
    if (windows->n_seen == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a list of %" PRIu64 " parts", n_parts);
    }
    enum ps_status status = ps_reading_open(source, description, &reading, &windows->reading, err);
    if (status == PS_OK && options->read_ahead) {
        status = ps_feed_ahead_create(options->mem, windows, &feed->ahead, err);
    }
    return status;
}

/* A multiple of unit_rows that fits 32 bits. */
static uint32_t window_rows(const struct ps_feed_options *options)
{
    uint32_t n_max = UINT32_MAX / options->unit_rows;
    uint32_t n_units = options->window_rows != 0
                           ? (options->window_rows - 1) / options->unit_rows + 1
                           : PS_FEED_ROWS / options->unit_rows;
    n_units = n_units > 0 ? n_units : 1;
    return (n_units < n_max ? n_units : n_max) * options->unit_rows;
}

enum ps_status ps_feed_open(const struct ps_source *source,
                            const struct ps_description *description,
                            const struct ps_feed_options *options, struct ps_feed **ret,
                            struct ps_error *err)
{
    PS_ASSERT(options->unit_rows > 0);
    struct ps_feed *feed = ps_mem_alloc(options->mem, PS_MEM_DATA, sizeof(*feed));
    if (feed == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read data");
    }
    feed->options = *options;
    feed->window = &feed->pair[0];
    feed->windows.source = source;
    feed->windows.part_bytes = options->part_bytes;
    feed->windows.unit_rows = options->unit_rows;
    feed->windows.window_rows = window_rows(options);
    ps_rows_init(&feed->windows.next, options->mem);
    ps_rows_init(&feed->pair[0].rows, options->mem);
    ps_rows_init(&feed->pair[1].rows, options->mem);
    ps_rows_init(&feed->unit, options->mem);
    enum ps_status status = open_parts(feed, source, description, err);
    if (status != PS_OK) {
        ps_feed_close(feed);
        return status;
    }
    *ret = feed;
    return PS_OK;
}

void ps_feed_close(struct ps_feed *feed)
{
    if (feed == NULL) {
        return;
    }
    ps_feed_ahead_destroy(feed->ahead);
    ps_reading_close(feed->windows.reading);
    ps_mem_free(feed->windows.n_seen);
    ps_rows_deinit(&feed->windows.next);
    ps_rows_deinit(&feed->pair[0].rows);
    ps_rows_deinit(&feed->pair[1].rows);
    ps_rows_deinit(&feed->unit);
    ps_mem_free(feed->order);
    ps_mem_free(feed);
}

uint32_t ps_feed_parts(const struct ps_feed *feed)
{
    return feed->windows.n_parts;
}

/* To the window before the first of `part`. */
static enum ps_status start(struct ps_feed *feed, uint32_t part, struct ps_error *err)
{
    if (feed->pending) {
        feed->pending = false;
        (void)!ps_feed_ahead_end(feed->ahead, NULL); /* Whatever it was, nobody wants it. */
    }
    feed->valid = false;
    return ps_feed_windows_start(&feed->windows, part, err);
}

/* To the next window of the part. */
static enum ps_status advance(struct ps_feed *feed, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    if (feed->pending) {
        feed->pending = false;
        status = ps_feed_ahead_end(feed->ahead, err);
        feed->window = other(feed);
    } else {
        status = ps_feed_windows_next(&feed->windows, feed->window, err);
    }
    feed->valid = status == PS_OK;
    feed->ordered = false;
    if (status != PS_OK) {
        return status;
    }
    feed->counts = feed->window->counts;
    if (feed->ahead != NULL && !feed->window->last) {
        ps_feed_ahead_begin(feed->ahead, other(feed));
        feed->pending = true;
    }
    return PS_OK;
}

/* To the window that has the place `row` of the part, or to the last. */
static enum ps_status seek(struct ps_feed *feed, uint32_t part, uint64_t row, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    if (!feed->valid || feed->windows.part != part || row < feed->window->first) {
        status = start(feed, part, err);
        status = status == PS_OK ? advance(feed, err) : status;
    }
    while (status == PS_OK && !feed->window->last &&
           row - feed->window->first >= feed->window->rows.n_rows) {
        status = advance(feed, err);
    }
    return status;
}

/* Fisher, Yates: a shuffle that is a function of (seed, epoch, part, window). */
static enum ps_status make_order(struct ps_feed *feed, uint32_t epoch, struct ps_error *err)
{
    const struct ps_feed_window *window = feed->window;
    uint32_t n = (uint32_t)window->rows.n_rows;
    if (feed->ordered && feed->order_epoch == epoch) {
        return PS_OK;
    }
    if (n > feed->order_capacity) {
        ps_mem_free(feed->order);
        feed->order_capacity = 0;
        feed->order = ps_mem_array(feed->options.mem, PS_MEM_DATA, n, sizeof(*feed->order));
        if (feed->order == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for the order of %" PRIu32 " rows", n);
        }
        feed->order_capacity = n;
    }
    uint64_t seed = ps_rng_at(feed->options.seed, FEED_STREAM, epoch);
    struct ps_rng rng = ps_rng_from(ps_rng_at(seed, feed->windows.part, window->number));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)ps_rng_below(&rng, i + 1);
        feed->order[i] = feed->order[at]; /* Its own, still unset, when at == i. */
        feed->order[at] = i;
    }
    feed->order_epoch = epoch;
    feed->ordered = true;
    return PS_OK;
}

static enum ps_status give(struct ps_feed *feed, uint32_t epoch, uint32_t first,
                           struct ps_feed_unit *ret, struct ps_error *err)
{
    const struct ps_rows *rows = &feed->window->rows;
    if (feed->options.shuffle) {
        enum ps_status status = make_order(feed, epoch, err);
        if (status != PS_OK) {
            return status;
        }
        ps_rows_clear(&feed->unit);
        if (!ps_rows_gather(&feed->unit, rows, feed->order + first, ret->n_rows)) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for %zu rows", ret->n_rows);
        }
        rows = &feed->unit;
        first = 0;
    }
    ret->labels = rows->labels + first;
    ret->lines = rows->lines + first;
    ret->begin = rows->begin + first;
    size_t at = rows->begin[first];
    if (at < rows->begin[first + ret->n_rows]) { /* Rows without features may have no arrays. */
        ret->keys = rows->keys + at;
        ret->values = rows->values + at;
        ret->fields = rows->fields + at;
    }
    return PS_OK;
}

enum ps_status ps_feed_unit(struct ps_feed *feed, uint32_t part, uint32_t epoch, uint32_t index,
                            struct ps_feed_unit *ret, struct ps_error *err)
{
    PS_ASSERT(part < feed->windows.n_parts);
    uint64_t row = (uint64_t)index * feed->options.unit_rows;
    *ret = (struct ps_feed_unit){.last = true, .end = true};
    enum ps_status status = seek(feed, part, row, err);
    if (status != PS_OK) {
        return status;
    }
    const struct ps_feed_window *window = feed->window;
    uint64_t first = row - window->first;
    if (first >= window->rows.n_rows) {
        return PS_OK;
    }
    uint64_t n_left = window->rows.n_rows - first;
    uint32_t unit_rows = feed->options.unit_rows;
    ret->n_rows = n_left < unit_rows ? (size_t)n_left : unit_rows;
    ret->last = window->last && ret->n_rows == n_left;
    ret->end = false;
    return give(feed, epoch, (uint32_t)first, ret, err);
}

struct ps_reading_counts ps_feed_counts(const struct ps_feed *feed)
{
    return feed->counts;
}

const char *ps_feed_bad(const struct ps_feed *feed, uint32_t i)
{
    /* A text that is counted here is written no more; its reading may be at work on others. */
    return i < feed->counts.n_bad ? ps_reading_bad_known(feed->windows.reading, i) : NULL;
}
