/* feed_window.c — see feed_window.h. */
#include "data/feed_window.h"

#include "base/assert.h"
#include "base/limits.h"

enum ps_status ps_feed_windows_start(struct ps_feed_windows *windows, uint32_t part,
                                     struct ps_error *err)
{
    PS_ASSERT(part < windows->n_parts);
    ps_rows_clear(&windows->next);
    windows->part = part;
    windows->number = 0;
    windows->first = 0;
    enum ps_status status = ps_reading_start(
        windows->reading, ps_source_part(windows->source, windows->part_bytes, part), err);
    if (status == PS_OK) {
        ps_reading_known(windows->reading, windows->n_seen[part]);
    }
    return status;
}

/* Whole units until the window is full, or the part is over. */
static enum ps_status fill(struct ps_feed_windows *windows, struct ps_rows *rows, bool *ret_over,
                           struct ps_error *err)
{
    *ret_over = false;
    while (rows->n_rows < windows->window_rows && ps_rows_features(rows) <= PS_FEED_FEATURES) {
        /* The first unit may have a row already. */
        size_t n_wanted = windows->unit_rows - rows->n_rows % windows->unit_rows;
        size_t n = 0;
        enum ps_status status = ps_reading_next(windows->reading, n_wanted, rows, &n, err);
        if (status != PS_OK) {
            return status;
        }
        if (n < n_wanted) {
            *ret_over = true;
            return PS_OK;
        }
    }
    return PS_OK;
}

/* The row that was read ahead is the first of this window. */
static enum ps_status begin(struct ps_feed_windows *windows, struct ps_rows *rows,
                            struct ps_error *err)
{
    ps_rows_clear(rows);
    static const uint32_t first = 0;
    if (!ps_rows_gather(rows, &windows->next, &first, windows->next.n_rows)) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a row");
    }
    ps_rows_clear(&windows->next);
    return PS_OK;
}

enum ps_status ps_feed_windows_next(struct ps_feed_windows *windows, struct ps_feed_window *ret,
                                    struct ps_error *err)
{
    PS_ASSERT(windows->window_rows % windows->unit_rows == 0);
    bool over = false;
    size_t n_ahead = 0;
    enum ps_status status = begin(windows, &ret->rows, err);
    if (status == PS_OK) {
        status = fill(windows, &ret->rows, &over, err);
    }
    if (status == PS_OK && !over) {
        status = ps_reading_next(windows->reading, 1, &windows->next, &n_ahead, err);
    }
    uint64_t n_lines = ps_reading_lines(windows->reading);
    uint64_t *n_seen = &windows->n_seen[windows->part];
    *n_seen = n_lines > *n_seen ? n_lines : *n_seen;
    if (status != PS_OK) {
        return status;
    }
    ret->number = windows->number++;
    ret->first = windows->first;
    windows->first += ret->rows.n_rows;
    ret->last = n_ahead == 0;
    ret->counts = ps_reading_counts(windows->reading);
    return PS_OK;
}
