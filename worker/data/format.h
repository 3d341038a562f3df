#ifndef PS_WORKER_DATA_FORMAT_H
#define PS_WORKER_DATA_FORMAT_H
/*
 * data/format.h — the extension point for formats of lines: one const struct per format in a file
 * of its own, one line in format.c.
 *
 * A format learns a description from the training data (learning.h), and makes rows of lines by it
 * (reading.h does the rest: files, parts, packing, bad lines). It keeps no state of its own. Lines
 * are bytes from anybody: no line reaches an assertion.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/description.h"
#include "data/lines.h"
#include "data/rows.h"

struct ps_learning;

/** The first lines of the first file, without blank ones. */
struct ps_head {
    const struct ps_line *lines;
    uint32_t n_lines;
    bool whole; /* There are no more. */
};

/** One line to be made a row, and what its reader knows. */
struct ps_parse {
    const struct ps_description *description;
    struct ps_rows *rows;    /* A row is added, or none (a blank line, a comment). */
    struct ps_line line;     /* Kind TEXT. */
    bool label_optional;     /* Prediction: a label that is missing or unknown becomes NaN. */
    uint16_t *places;        /* Columns: [n_file_columns] -> column of the description. */
    uint32_t n_file_columns; /* Columns of this file; 0: as the description says. */
    uint64_t n_missing;      /* Counted: cells without a value, */
    uint64_t n_qids;         /* qid: words that were passed over. */
};

struct ps_format {
    const char *name; /* For --format: [a-z0-9]+, stored with models, never renamed. */
    const char *help; /* One line: what a line looks like. */

    /** Do these lines look like the format? If so, say by what in `why` (or if not, what else). */
    bool (*looks)(const struct ps_head *head, char *why, size_t n_room);

    /** Fill learning->description from the sample. */
    enum ps_status (*learn)(struct ps_learning *learning, struct ps_error *err);

    /** Does the sample fit learning->description, which was learnt from other data? Or NULL. */
    enum ps_status (*check)(struct ps_learning *learning, struct ps_error *err);

    /** The first line of a file whose description says `header`: find the columns. Or NULL. */
    enum ps_status (*header)(struct ps_parse *parse, struct ps_error *err);

    /**
     * Make a row of the line; on failure none is added.
     * @return PS_ERR_INVALID  a bad line; the message says what was expected, without the place
     *         PS_ERR_NOMEM
     */
    enum ps_status (*parse)(struct ps_parse *parse, struct ps_error *err);
};

extern const struct ps_format ps_format_libsvm;
extern const struct ps_format ps_format_criteo;
extern const struct ps_format ps_format_csv;
extern const struct ps_format ps_format_tsv;

/** The format called `name`, or NULL. */
const struct ps_format *ps_format_find(const char *name);

/** All of them. */
const struct ps_format *const *ps_format_all(size_t *ret_n);

/**
 * "--format auto": the one that the head looks like, and why.
 * @return PS_ERR_INVALID  none or several; the message says what to do
 */
PS_MUST_CHECK enum ps_status ps_format_guess(const struct ps_head *head,
                                             const struct ps_format **ret, char *why, size_t n_room,
                                             struct ps_error *err);

#define PS_FOUND_BYTES 44u

/** Some bytes of a line, fit to be shown: cut after 40, with '?' for what cannot be printed. */
const char *ps_found(char shown[PS_FOUND_BYTES], const char *text, size_t n_bytes);

/** Is this cell or word one of the marks for "no value"? Empty, ?, NA, N/A, NaN, NULL, None. */
bool ps_is_missing(const char *text, size_t n_bytes);

/** The label of a row that was read as a number: the class, or the number, as the task says. */
PS_MUST_CHECK enum ps_status ps_parse_label_number(const struct ps_parse *parse, float number,
                                                   float *ret, struct ps_error *err);

/** As above for a label that is a text. */
PS_MUST_CHECK enum ps_status ps_parse_label(const struct ps_parse *parse, const char *text,
                                            size_t n_bytes, float *ret, struct ps_error *err);

#endif
