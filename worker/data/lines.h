#ifndef PS_WORKER_DATA_LINES_H
#define PS_WORKER_DATA_LINES_H
/*
 * data/lines.h — the lines of one part of a source, one after the other, in bounded memory.
 *
 * A line ends with "\n" or "\r\n", which are not given, or with the file. A byte order mark at the
 * beginning of a file is passed over. A line that is too long or holds a 0 byte is given as a fault
 * without text, so that the caller may skip it like any other bad line. One thread at a time.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/source.h"

struct ps_lines;

enum ps_line_kind {
    PS_LINE_END, /* No more lines. */
    PS_LINE_TEXT,
    PS_LINE_TOO_LONG, /* Longer than PS_LINE_BYTES_MAX. */
    PS_LINE_BINARY    /* Holds a byte 0. */
};

struct ps_line {
    const char *text; /* Borrowed until the next call; text[n_bytes] is '\r', '\n' or 0. */
    size_t n_bytes;
    uint64_t number; /* Within the part, from 1. */
    enum ps_line_kind kind;
};

/** A reader without a part. `source` is borrowed and must outlive it. @return NULL: no memory */
PS_MUST_CHECK struct ps_lines *ps_lines_create(struct ps_mem *mem, const struct ps_source *source);

void ps_lines_destroy(struct ps_lines *lines);

/** Go to the first line that begins in `part`, leaving the last one. @return as ps_stream_start */
PS_MUST_CHECK enum ps_status ps_lines_start(struct ps_lines *lines, struct ps_part part,
                                            struct ps_error *err);

/**
 * The next line. After an error the part is over.
 * @return PS_ERR_INVALID  the packed data are damaged
 *         PS_ERR_IO       the file cannot be read, or became shorter
 *         PS_ERR_NOMEM    no memory for a long line
 */
PS_MUST_CHECK enum ps_status ps_lines_next(struct ps_lines *lines, struct ps_line *ret,
                                           struct ps_error *err);

/** Refuse a line without text, by what is wrong with it. Not for PS_LINE_END. */
PS_MUST_CHECK enum ps_status ps_line_check(const struct ps_line *line, struct ps_error *err);

/**
 * Put "file:line: " before the message in `err` and return `status`: the line is `number` of the
 * part. For a part in the middle of a file the lines before it are counted now, by reading them.
 */
enum ps_status ps_lines_wrap(struct ps_lines *lines, uint64_t number, enum ps_status status,
                             struct ps_error *err);

#endif
