#ifndef PS_WORKER_DATA_FEED_H
#define PS_WORKER_DATA_FEED_H
/*
 * data/feed.h — the units of a part: which rows a worker takes for which step.
 *
 *   part     rows in the order of the file
 *   window   so many of them in a row, in memory; permuted by (seed, epoch, part, window)
 *   unit     consecutive rows of the permuted window: unit u has the places u * unit_rows ...
 *
 * What a unit holds is a function of the files, the options, part, epoch and index alone: not of
 * who asks, of what was asked before, or of read_ahead. So another worker can go on in the middle.
 * A window is window_rows long; it ends earlier, behind a whole unit, when its rows have more than
 * PS_FEED_FEATURES features. Memory: one window (two with read_ahead), one unit and what a reading
 * takes, however long the part is. All units but the last have exactly unit_rows rows.
 *
 * One thread at a time. Blocks on the file system.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/description.h"
#include "data/reading.h"
#include "data/source.h"

struct ps_mem;
struct ps_feed;

struct ps_feed_options {
    struct ps_mem *mem;
    uint64_t part_bytes; /* > 0, as in source.h; all workers have the same. */
    uint32_t unit_rows;  /* > 0 */
    bool shuffle;        /* False: in the order of the file; seed and epoch do not matter. */
    uint64_t seed;
    uint64_t max_bad_rows; /* Of all that this feed reads; a line read again is not another one. */
    uint32_t window_rows;  /* Rounded up to whole units; 0: about PS_FEED_ROWS. */
    bool read_ahead;       /* A thread reads the next window while this one is used. */
};

/**
 * Rows as in rows.h, but begin[0] need not be 0: it is element 0 of keys, values and fields.
 * Borrowed until the next call.
 */
struct ps_feed_unit {
    size_t n_rows; /* 1 to unit_rows; 0: see `end`. */
    const float *labels;
    const uint64_t *lines;
    const uint64_t *begin; /* [n_rows + 1] */
    const uint64_t *keys;
    const float *values;
    const uint16_t *fields;
    bool last; /* No rows of the part are behind it. */
    bool end;  /* There is no such unit: the part ends before it, or has no rows at all. */
};

/**
 * `source` and `description` are borrowed and must outlive the feed.
 * @return PS_ERR_INVALID  more than PS_LEASES_MAX parts
 *         PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_feed_open(const struct ps_source *source,
                                          const struct ps_description *description,
                                          const struct ps_feed_options *options,
                                          struct ps_feed **ret, struct ps_error *err);

/** NULL does nothing. */
void ps_feed_close(struct ps_feed *feed);

/** How many parts there are. */
uint32_t ps_feed_parts(const struct ps_feed *feed);

/**
 * Unit `index` of part `part` (below ps_feed_parts) in `epoch`. To go on in the part, or to stay in
 * the window, is fast; to go back or to another part starts that part and passes over what is
 * before the unit. After an error the next call starts anew.
 *
 * @return PS_ERR_INVALID  a bad line beyond max_bad_rows, or damaged packed data
 *         PS_ERR_IO, PS_ERR_NOT_FOUND, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_feed_unit(struct ps_feed *feed, uint32_t part, uint32_t epoch,
                                          uint32_t index, struct ps_feed_unit *ret,
                                          struct ps_error *err);

/**
 * Sums over the lines of all windows used so far; a line that was read again, in another epoch or
 * to find a place, counts once.
 */
struct ps_reading_counts ps_feed_counts(const struct ps_feed *feed);

/** Message number `i` (< PS_BAD_ROWS_TOLD) about a line that was skipped, or NULL. */
const char *ps_feed_bad(const struct ps_feed *feed, uint32_t i);

/** How to cut the data of a job. Set what is above the line, ps_feed_plan sets the rest. */
struct ps_feed_plan {
    uint32_t unit_rows; /* All > 0. */
    uint32_t workers;   /* About so many. */
    uint32_t epochs;
    /* ---- */
    uint64_t part_bytes;
    uint32_t n_parts;
    uint64_t rows_about; /* Of an epoch: exact when learning saw all, else by the first lines. */
};

/**
 * Choose the size of parts, a function of the files and the arguments alone: some
 * PS_PARTS_PER_WORKER parts for each worker; larger ones when they had less than PS_PART_UNITS
 * units, as long as there is one for each worker; at most PS_PART_BYTES_MAX; and never more parts
 * than PS_LEASES_MAX allows. `description` was learnt from `source`. A packed file is one part, of
 * whatever size.
 *
 * @return PS_ERR_INVALID  more files than PS_LEASES_MAX allows for so many epochs
 *         and as ps_lines_next: the first lines are read
 */
PS_MUST_CHECK enum ps_status ps_feed_plan(const struct ps_source *source,
                                          const struct ps_description *description,
                                          struct ps_feed_plan *plan, struct ps_error *err);

#endif
