/* reading.c — see reading.h. */
#include "data/reading.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "data/format.h"
#include "data/lines.h"

#define NO_FILE UINT32_MAX

struct ps_reading {
    const struct ps_source *source;
    struct ps_reading_options options;
    struct ps_lines *lines;
    struct ps_parse parse;
    uint32_t header_file; /* Whose header parse.places is of; NO_FILE: none. */
    bool skip_first;      /* The first line of the part is a header. */
    uint64_t n_known;     /* Lines of the part that were counted before. */
    uint64_t n_lines;     /* Read of the part. */
    uint64_t n_rows;
    uint64_t n_bad;
    struct ps_error bad[PS_BAD_ROWS_TOLD];
};

enum ps_status ps_reading_open(const struct ps_source *source,
                               const struct ps_description *description,
                               const struct ps_reading_options *options, struct ps_reading **ret,
                               struct ps_error *err)
{
    struct ps_reading *reading = ps_mem_alloc(options->mem, PS_MEM_DATA, sizeof(*reading));
    if (reading == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read data");
    }
    reading->source = source;
    reading->options = *options;
    reading->header_file = NO_FILE;
    reading->parse.description = description;
    reading->parse.label_optional = options->label_optional;
    reading->lines = ps_lines_create(options->mem, source);
    if (description->n_columns > 0) {
        reading->parse.places =
            ps_mem_array(options->mem, PS_MEM_DATA, PS_COLUMNS_MAX, sizeof(*reading->parse.places));
    }
    if (reading->lines == NULL || (description->n_columns > 0 && reading->parse.places == NULL)) {
        ps_reading_close(reading);
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read data");
    }
    *ret = reading;
    return PS_OK;
}

void ps_reading_close(struct ps_reading *reading)
{
    if (reading == NULL) {
        return;
    }
    ps_lines_destroy(reading->lines);
    ps_mem_free(reading->parse.places);
    ps_mem_free(reading);
}

/* The first line of the file says where its columns are. */
static enum ps_status read_header(struct ps_reading *reading, uint32_t file, struct ps_error *err)
{
    struct ps_parse *parse = &reading->parse;
    struct ps_part first = ps_source_whole(reading->source, file);
    reading->header_file = NO_FILE;
    enum ps_status status = ps_lines_start(reading->lines, first, err);
    if (status == PS_OK) {
        status = ps_lines_next(reading->lines, &parse->line, err);
    }
    if (status != PS_OK) {
        return status;
    }
    if (parse->line.kind != PS_LINE_TEXT) {
        status = ps_fail(err, PS_ERR_INVALID, "expected a header line with the names of columns");
    } else {
        status = parse->description->format->header(parse, err);
    }
    if (status != PS_OK) {
        return ps_lines_wrap(reading->lines, 1, status, err);
    }
    reading->header_file = file;
    return PS_OK;
}

enum ps_status ps_reading_start(struct ps_reading *reading, struct ps_part part,
                                struct ps_error *err)
{
    const struct ps_description *description = reading->parse.description;
    reading->skip_first = false;
    reading->n_known = 0;
    reading->n_lines = 0;
    if (description->header && part.begin < part.end) {
        PS_ASSERT(description->format->header != NULL);
        enum ps_status status =
            reading->header_file == part.file ? PS_OK : read_header(reading, part.file, err);
        if (status != PS_OK) {
            return status;
        }
        reading->skip_first = part.begin == 0;
    }
    return ps_lines_start(reading->lines, part, err);
}

void ps_reading_known(struct ps_reading *reading, uint64_t n_lines)
{
    PS_ASSERT(reading->n_lines == 0);
    reading->n_known = n_lines;
}

uint64_t ps_reading_lines(const struct ps_reading *reading)
{
    return reading->n_lines;
}

static enum ps_status parse_line(struct ps_parse *parse, struct ps_error *err)
{
    enum ps_status status = ps_line_check(&parse->line, err);
    return status == PS_OK ? parse->description->format->parse(parse, err) : status;
}

/* The present line is bad: skip it, or give up with words of where it is. */
static PS_COLD enum ps_status bad_line(struct ps_reading *reading, struct ps_error *why,
                                       struct ps_error *err)
{
    enum ps_status status = why->status;
    if (status == PS_ERR_INVALID && reading->parse.line.number <= reading->n_known) {
        return PS_OK; /* Skipped, counted and told already. */
    }
    bool skip = status == PS_ERR_INVALID && reading->n_bad < reading->options.max_bad_rows;
    if (!skip || reading->n_bad < PS_BAD_ROWS_TOLD) {
        status = ps_lines_wrap(reading->lines, reading->parse.line.number, status, why);
    }
    if (!skip) {
        if (err != NULL) {
            *err = *why;
        }
        return status;
    }
    if (reading->n_bad < PS_BAD_ROWS_TOLD) {
        reading->bad[reading->n_bad] = *why;
    }
    reading->n_bad++;
    return PS_OK;
}

/* Make the present line a row, or skip it. */
static enum ps_status take_line(struct ps_reading *reading, struct ps_error *err)
{
    struct ps_parse *parse = &reading->parse;
    bool known = parse->line.number <= reading->n_known;
    uint64_t n_missing = parse->n_missing;
    uint64_t n_qids = parse->n_qids;
    size_t n_rows = parse->rows->n_rows;
    struct ps_error why;
    enum ps_status status = PS_OK;
    if (parse_line(parse, &why) != PS_OK) {
        status = bad_line(reading, &why, err);
    }
    if (known) {
        parse->n_missing = n_missing;
        parse->n_qids = n_qids;
    } else {
        reading->n_rows += parse->rows->n_rows - n_rows;
    }
    return status;
}

enum ps_status ps_reading_next(struct ps_reading *reading, size_t n_max, struct ps_rows *rows,
                               size_t *ret_n, struct ps_error *err)
{
    PS_ASSERT(n_max > 0);
    PS_ASSERT(n_max <= SIZE_MAX - rows->n_rows);
    struct ps_parse *parse = &reading->parse;
    size_t n_before = rows->n_rows;
    enum ps_status status = PS_OK;
    parse->rows = rows;
    while (rows->n_rows - n_before < n_max) {
        status = ps_lines_next(reading->lines, &parse->line, err);
        if (status != PS_OK || parse->line.kind == PS_LINE_END) {
            break;
        }
        bool header = reading->skip_first && parse->line.number == 1;
        status = header ? PS_OK : take_line(reading, err);
        if (status != PS_OK) {
            break;
        }
        reading->n_lines = parse->line.number;
    }
    parse->rows = NULL;
    *ret_n = rows->n_rows - n_before;
    return status;
}

struct ps_reading_counts ps_reading_counts(const struct ps_reading *reading)
{
    return (struct ps_reading_counts){
        .n_rows = reading->n_rows,
        .n_bad = reading->n_bad,
        .n_missing = reading->parse.n_missing,
        .n_qids = reading->parse.n_qids,
    };
}

const char *ps_reading_bad(const struct ps_reading *reading, uint32_t i)
{
    return i < reading->n_bad ? ps_reading_bad_known(reading, i) : NULL;
}

const char *ps_reading_bad_known(const struct ps_reading *reading, uint32_t i)
{
    return i < PS_BAD_ROWS_TOLD ? reading->bad[i].text : NULL;
}
