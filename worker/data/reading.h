#ifndef PS_WORKER_DATA_READING_H
#define PS_WORKER_DATA_READING_H
/*
 * data/reading.h — rows out of the parts of a source, by a description.
 *
 * One thread at a time; several readings may share a source and a description. Memory: one buffer
 * of lines (a few hundred KiB, more only for longer lines) and whatever the caller's rows take.
 * After the longest line nothing is allocated any more.
 *
 * Lines that cannot be read are errors that name file:line; with max_bad_rows so many are skipped
 * and counted, the first few of them kept as texts for the caller to tell.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "data/description.h"
#include "data/rows.h"
#include "data/source.h"

struct ps_mem;
struct ps_reading;

struct ps_reading_options {
    struct ps_mem *mem;
    uint64_t max_bad_rows; /* Over all parts of this reading. */
    bool label_optional;   /* Prediction: a label that is missing or unknown becomes NaN. */
};

/** Sums over all parts read so far. */
struct ps_reading_counts {
    uint64_t n_rows;
    uint64_t n_bad;     /* Lines skipped. */
    uint64_t n_missing; /* Cells without a value. */
    uint64_t n_qids;    /* "qid:" words of libsvm, which are not used. */
};

/** `source` and `description` are borrowed and must outlive the reading. @return PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_reading_open(const struct ps_source *source,
                                             const struct ps_description *description,
                                             const struct ps_reading_options *options,
                                             struct ps_reading **ret, struct ps_error *err);

void ps_reading_close(struct ps_reading *reading);

/**
 * The first `n_lines` lines of the part just started were read before: they are counted nowhere
 * and, if they are bad, skipped.
 */
void ps_reading_known(struct ps_reading *reading, uint64_t n_lines);

/** Lines of the part that were read so far. */
uint64_t ps_reading_lines(const struct ps_reading *reading);

/** Go to the first row of a part. @return as ps_reading_next */
PS_MUST_CHECK enum ps_status ps_reading_start(struct ps_reading *reading, struct ps_part part,
                                              struct ps_error *err);

/**
 * Add the next rows of the part to `rows`, at most `n_max` (> 0); `*ret_n` is their number, less
 * than n_max only at the end of the part. After an error the part is over; rows added stay.
 *
 * @return PS_ERR_INVALID  a bad line, more than max_bad_rows; or damaged packed data
 *         PS_ERR_IO, PS_ERR_NOT_FOUND, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_reading_next(struct ps_reading *reading, size_t n_max,
                                             struct ps_rows *rows, size_t *ret_n,
                                             struct ps_error *err);

struct ps_reading_counts ps_reading_counts(const struct ps_reading *reading);

/** Message number `i` (< PS_BAD_ROWS_TOLD) about a line that was skipped, or NULL. */
const char *ps_reading_bad(const struct ps_reading *reading, uint32_t i);

/**
 * The same for an `i` below the n_bad of counts that were asked for before: may be called while
 * another thread reads on.
 */
const char *ps_reading_bad_known(const struct ps_reading *reading, uint32_t i);

#endif
