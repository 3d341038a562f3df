/* lines.c — see lines.h. */
#include "data/lines.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/stream.h"

#define MARK_BYTES  3u /* The byte order mark of UTF-8. */
#define SPARE_BYTES 1u /* A line end is put behind the last line of a file. */

struct ps_lines {
    struct ps_mem *mem;
    const struct ps_source *source;
    struct ps_stream *stream;
    struct ps_part part;
    char *buffer; /* [n_room + SPARE_BYTES] */
    size_t n_room;
    size_t first;    /* The next line begins here, */
    size_t n;        /* the bytes end here. */
    uint64_t offset; /* Of buffer[first] in the file, unpacked. */
    uint64_t n_mark; /* Bytes of a mark that belong to the first line. */
    uint64_t number; /* Lines given of this part. */
    uint64_t n_before;
    bool counted; /* n_before is known. */
    bool at_end;  /* Of the file. */
    bool over;
};

struct ps_lines *ps_lines_create(struct ps_mem *mem, const struct ps_source *source)
{
    struct ps_lines *lines = ps_mem_alloc(mem, PS_MEM_DATA, sizeof(*lines));
    if (lines == NULL) {
        return NULL;
    }
    *lines = (struct ps_lines){.mem = mem, .source = source, .n_room = PS_STREAM_BYTES};
    lines->over = true;
    lines->stream = ps_stream_create(mem);
    lines->buffer = ps_mem_alloc(mem, PS_MEM_DATA, PS_STREAM_BYTES + SPARE_BYTES);
    if (lines->stream == NULL || lines->buffer == NULL) {
        ps_lines_destroy(lines);
        return NULL;
    }
    return lines;
}

void ps_lines_destroy(struct ps_lines *lines)
{
    if (lines == NULL) {
        return;
    }
    ps_stream_destroy(lines->stream);
    ps_mem_free(lines->buffer);
    ps_mem_free(lines);
}

static const struct ps_source_file *file_of(const struct ps_lines *lines)
{
    return &lines->source->files[lines->part.file];
}

static bool is_plain(const struct ps_lines *lines)
{
    return file_of(lines)->packing == PS_PACKING_NONE;
}

/* Make room behind the bytes that are there: move them to the front, or take a larger buffer. */
static enum ps_status make_room(struct ps_lines *lines, struct ps_error *err)
{
    if (lines->first > 0) {
        memmove(lines->buffer, lines->buffer + lines->first, lines->n - lines->first);
        lines->n -= lines->first;
        lines->first = 0;
    }
    if (lines->n < lines->n_room) {
        return PS_OK;
    }
    size_t n_room = 2 * lines->n_room;
    char *grown = ps_mem_grow(lines->mem, PS_MEM_DATA, lines->buffer, n_room + SPARE_BYTES);
    if (grown == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "'%s': no memory for a line of more than %zu bytes",
                       file_of(lines)->path, lines->n_room);
    }
    lines->buffer = grown;
    lines->n_room = n_room;
    return PS_OK;
}

/* More bytes behind those that are there, or at_end. */
static enum ps_status fill(struct ps_lines *lines, struct ps_error *err)
{
    enum ps_status status = make_room(lines, err);
    size_t n = 0;
    if (status == PS_OK) {
        status = ps_stream_read(lines->stream, lines->buffer + lines->n, lines->n_room - lines->n,
                                &n, err);
    }
    if (status != PS_OK) {
        return status;
    }
    lines->n += n;
    lines->at_end = n == 0;
    uint64_t n_seen = lines->offset + (lines->n - lines->first);
    if (lines->at_end && is_plain(lines) && n_seen < lines->part.end) {
        return ps_fail(err, PS_ERR_IO, "'%s' became shorter: %" PRIu64 " bytes, %" PRIu64 " before",
                       file_of(lines)->path, n_seen, file_of(lines)->n_bytes);
    }
    return PS_OK;
}

static void consume(struct ps_lines *lines, size_t n)
{
    lines->first += n;
    lines->offset += n;
}

/*
 * The length of the line at `first` without its end, with all of it in the buffer; `*ret_whole` is
 * false when it is longer than allowed: then the buffer holds its beginning.
 */
static enum ps_status find_end(struct ps_lines *lines, size_t *ret_n, bool *ret_whole,
                               struct ps_error *err)
{
    size_t n_seen = 0;
    for (;;) {
        const char *from = lines->buffer + lines->first + n_seen;
        size_t n_new = lines->n - lines->first - n_seen;
        const char *end = n_new > 0 ? memchr(from, '\n', n_new) : NULL;
        if (end != NULL || lines->at_end) {
            *ret_n = end != NULL ? (size_t)(end - from) + n_seen : n_seen + n_new;
            *ret_whole = *ret_n <= PS_LINE_BYTES_MAX;
            return PS_OK;
        }
        n_seen += n_new;
        if (n_seen > PS_LINE_BYTES_MAX) {
            *ret_n = n_seen;
            *ret_whole = false;
            return PS_OK;
        }
        enum ps_status status = fill(lines, err);
        if (status != PS_OK) {
            return status;
        }
    }
}

/* Pass over everything up to the next line. */
static enum ps_status drop_line(struct ps_lines *lines, struct ps_error *err)
{
    for (;;) {
        const char *from = lines->buffer + lines->first;
        size_t n = lines->n - lines->first;
        const char *end = n > 0 ? memchr(from, '\n', n) : NULL;
        if (end != NULL) {
            consume(lines, (size_t)(end - from) + 1);
            return PS_OK;
        }
        consume(lines, n);
        if (lines->at_end) {
            return PS_OK;
        }
        enum ps_status status = fill(lines, err);
        if (status != PS_OK) {
            return status;
        }
    }
}

/* The beginning of a file: its first bytes, without a byte order mark. */
static enum ps_status pass_mark(struct ps_lines *lines, struct ps_error *err)
{
    while (lines->n < MARK_BYTES && !lines->at_end) {
        enum ps_status status = fill(lines, err);
        if (status != PS_OK) {
            return status;
        }
    }
    if (lines->n >= MARK_BYTES && memcmp(lines->buffer, "\xef\xbb\xbf", MARK_BYTES) == 0) {
        consume(lines, MARK_BYTES);
        lines->n_mark = MARK_BYTES;
    }
    return PS_OK;
}

enum ps_status ps_lines_start(struct ps_lines *lines, struct ps_part part, struct ps_error *err)
{
    PS_ASSERT(part.file < lines->source->n_files);
    PS_ASSERT(part.begin <= part.end);
    lines->part = part;
    lines->first = 0;
    lines->n = 0;
    lines->n_mark = 0;
    lines->number = 0;
    lines->n_before = 0;
    lines->counted = part.begin == 0;
    lines->at_end = false;
    lines->over = true;
    /* The byte before the part tells whether a line begins with it. */
    lines->offset = part.begin > 0 ? part.begin - 1 : 0;
    enum ps_status status = ps_stream_start(lines->stream, file_of(lines), lines->offset, err);
    if (status == PS_OK) {
        status = part.begin > 0 ? drop_line(lines, err) : pass_mark(lines, err);
    }
    lines->over = status != PS_OK;
    return status;
}

/* The line of `n` bytes at `first`, which is in the buffer as a whole. */
static void give(struct ps_lines *lines, size_t n, struct ps_line *ret)
{
    char *text = lines->buffer + lines->first;
    bool ended = lines->first + n < lines->n;
    if (!ended) {
        text[n] = '\n'; /* The last line of a file may lack it; there is a spare byte. */
    }
    ret->kind = memchr(text, 0, n) != NULL ? PS_LINE_BINARY : PS_LINE_TEXT;
    ret->text = text;
    ret->n_bytes = n > 0 && text[n - 1] == '\r' ? n - 1 : n;
    consume(lines, ended ? n + 1 : n);
}

static enum ps_status next(struct ps_lines *lines, struct ps_line *ret, struct ps_error *err)
{
    *ret = (struct ps_line){.text = "", .kind = PS_LINE_END};
    uint64_t begin = lines->offset - (lines->number == 0 ? lines->n_mark : 0);
    if (lines->over || (is_plain(lines) && begin >= lines->part.end)) {
        return PS_OK;
    }
    size_t n = 0;
    bool whole = false;
    enum ps_status status = find_end(lines, &n, &whole, err);
    if (status != PS_OK) {
        return status;
    }
    if (n == 0 && lines->first == lines->n) {
        return PS_OK; /* The end of the file; nothing stands behind the last line end. */
    }
    ret->number = ++lines->number;
    if (whole) {
        give(lines, n, ret);
        return PS_OK;
    }
    ret->kind = PS_LINE_TOO_LONG;
    return drop_line(lines, err);
}

enum ps_status ps_lines_next(struct ps_lines *lines, struct ps_line *ret, struct ps_error *err)
{
    enum ps_status status = next(lines, ret, err);
    if (status != PS_OK || ret->kind == PS_LINE_END) {
        lines->over = true;
        ps_stream_stop(lines->stream);
    }
    return status;
}

/* Count the line ends before the part. The buffer is in use, so a small one serves. */
static enum ps_status count_before(struct ps_lines *lines)
{
    char chunk[4096];
    uint64_t n_left = lines->part.begin;
    struct ps_stream *stream = ps_stream_create(lines->mem);
    if (stream == NULL) {
        return PS_ERR_NOMEM;
    }
    enum ps_status status = ps_stream_start(stream, file_of(lines), 0, NULL);
    bool ended = true; /* The last byte read is a line end. */
    size_t n = 1;
    while (status == PS_OK && n_left > 0 && n > 0) {
        size_t n_wanted = n_left < sizeof(chunk) ? (size_t)n_left : sizeof(chunk);
        n = 0;
        status = ps_stream_read(stream, chunk, n_wanted, &n, NULL);
        for (size_t i = 0; i < n; i++) {
            ended = chunk[i] == '\n';
            lines->n_before += ended;
        }
        n_left -= n;
    }
    ps_stream_destroy(stream);
    /* A line that began before the part is not its own, and comes before it. */
    lines->n_before += !ended;
    lines->counted = status == PS_OK && n_left == 0;
    return lines->counted ? PS_OK : PS_ERR_IO;
}

enum ps_status ps_lines_wrap(struct ps_lines *lines, uint64_t number, enum ps_status status,
                             struct ps_error *err)
{
    if (err == NULL) {
        return status;
    }
    const char *path = file_of(lines)->path;
    if (!lines->counted && count_before(lines) != PS_OK) {
        return ps_wrap(err, status, "%s: line %" PRIu64 " from byte %" PRIu64, path, number,
                       lines->part.begin);
    }
    return ps_wrap(err, status, "%s:%" PRIu64, path, lines->n_before + number);
}

enum ps_status ps_line_check(const struct ps_line *line, struct ps_error *err)
{
    switch (line->kind) {
    case PS_LINE_TEXT: return PS_OK;
    case PS_LINE_TOO_LONG:
        return ps_fail(err, PS_ERR_INVALID, "the line is longer than %u bytes", PS_LINE_BYTES_MAX);
    case PS_LINE_BINARY:
        return ps_fail(err, PS_ERR_INVALID,
                       "expected text, found a byte 0: a damaged file, or UTF-16?");
    case PS_LINE_END: break;
    }
    PS_UNREACHABLE("the end of a part is no line");
}
