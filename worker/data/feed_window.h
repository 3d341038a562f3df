#ifndef PS_WORKER_DATA_FEED_WINDOW_H
#define PS_WORKER_DATA_FEED_WINDOW_H
/*
 * data/feed_window.h — cuts a part into windows of rows: see feed.h. One thread at a time, which
 * may change between calls.
 *
 * One row is always read ahead, so that a window knows whether it is the last.
 */
#include "data/reading.h"
#include "data/rows.h"

struct ps_feed_window {
    struct ps_rows rows;
    uint64_t number;                 /* From 0, within the part. */
    uint64_t first;                  /* Place of its first row in the part. */
    bool last;                       /* Nothing is behind it; only such a window may be empty. */
    struct ps_reading_counts counts; /* Of the reading, behind it. */
};

struct ps_feed_windows {
    const struct ps_source *source;
    uint64_t part_bytes;
    uint32_t unit_rows;
    uint32_t window_rows; /* A multiple of unit_rows. */
    struct ps_reading *reading;
    uint64_t *n_seen; /* [n_parts] Lines of each part that were counted. */
    uint32_t n_parts;
    struct ps_rows next; /* The row read ahead, or none. */
    uint32_t part;
    uint64_t number; /* Of the next window, */
    uint64_t first;  /* and its place. */
};

/** Go to the first window of a part. @return as ps_reading_start */
PS_MUST_CHECK enum ps_status ps_feed_windows_start(struct ps_feed_windows *windows, uint32_t part,
                                                   struct ps_error *err);

/** The next one, unless the one before was the last. @return as ps_reading_next */
PS_MUST_CHECK enum ps_status ps_feed_windows_next(struct ps_feed_windows *windows,
                                                  struct ps_feed_window *ret, struct ps_error *err);

#endif
