/*
 * csv.c — tables in text: cells joined by commas (csv) or tabs (tsv), with or without a header.
 *
 * A cell of a numeric column is one feature, (x - mean) * scale, of the column's key. A cell of a
 * categorical column is a feature of value 1 whose key is made of column and text. A missing cell
 * (empty, ?, NA, N/A, NaN, NULL, None) is a feature of value 1 of its own in either, in training
 * and in prediction. The field of a feature is its column. Blank lines are no rows.
 *
 * With a header, columns are found by their names, whatever their order; columns that are unknown
 * are passed over. Without one, every line has as many cells as the training data.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "data/cells.h"
#include "data/decimal.h"
#include "data/format.h"
#include "data/table.h"

#define NO_PLACE UINT16_MAX /* A column of the file that the description does not know. */

PS_STATIC_ASSERT(PS_COLUMNS_MAX < NO_PLACE, "every column has a place");

static bool is_called(const struct ps_column *column, const struct ps_cell *name)
{
    return strlen(column->name) == name->n_bytes &&
           memcmp(column->name, name->text, name->n_bytes) == 0;
}

/* The column of the description that has this name, or NO_PLACE. Most likely `guess`. */
static uint16_t place_of(const struct ps_description *description, const struct ps_cell *name,
                         uint32_t guess)
{
    if (guess < description->n_columns && is_called(&description->columns[guess], name)) {
        return (uint16_t)guess;
    }
    for (uint32_t i = 0; i < description->n_columns; i++) {
        if (is_called(&description->columns[i], name)) {
            return (uint16_t)i;
        }
    }
    return NO_PLACE;
}

/* Every column that is needed must be there, and once. */
static enum ps_status check_places(const struct ps_parse *parse, uint32_t n, struct ps_error *err)
{
    const struct ps_description *description = parse->description;
    for (uint32_t i = 0; i < description->n_columns; i++) {
        const struct ps_column *column = &description->columns[i];
        bool wanted = column->kind != PS_COLUMN_IGNORED &&
                      (column->kind != PS_COLUMN_LABEL || !parse->label_optional);
        uint32_t times = 0;
        for (uint32_t c = 0; c < n; c++) {
            times += parse->places[c] == i;
        }
        if (times > 1 || (times == 0 && wanted)) {
            return ps_fail(err, PS_ERR_INVALID,
                           "expected a header with the columns of the training data, %s '%.60s'",
                           times > 1 ? "found twice" : "but there is no", column->name);
        }
    }
    return PS_OK;
}

static enum ps_status header(struct ps_parse *parse, struct ps_error *err)
{
    char delimiter = ps_table_delimiter(parse->description);
    struct ps_cells cells = ps_cells_of(parse->line.text, parse->line.n_bytes, delimiter);
    struct ps_cell cell;
    uint32_t n = 0;
    for (; n < PS_COLUMNS_MAX && ps_cells_next(&cells, &cell); n++) {
        char number[16];
        if (cell.n_bytes == 0) { /* A column without a name is called by its number. */
            int n_digits = snprintf(number, sizeof(number), "%" PRIu32, n + 1);
            cell = (struct ps_cell){.text = number, .n_bytes = n_digits < 0 ? 0 : (size_t)n_digits};
        }
        parse->places[n] = place_of(parse->description, &cell, n);
    }
    if (cells.fault != NULL || cells.more) {
        return ps_fail(err, PS_ERR_INVALID, "expected a header line, but %s",
                       cells.fault != NULL ? cells.fault : "it has too many columns");
    }
    enum ps_status status = check_places(parse, n, err);
    if (status == PS_OK) {
        parse->n_file_columns = n;
    }
    return status;
}

/* A row on its way. */
struct row {
    struct ps_parse *parse;
    size_t n; /* Features end here. */
    float label;
    bool labelled;
};

static void put(struct row *row, uint16_t field, uint64_t key, float value)
{
    struct ps_rows *rows = row->parse->rows;
    rows->keys[row->n] = key;
    rows->values[row->n] = value;
    rows->fields[row->n] = field;
    row->n += value != 0.0f;
}

static enum ps_status take_number(struct row *row, uint16_t place, const struct ps_cell *cell,
                                  struct ps_error *err)
{
    const struct ps_column *column = &row->parse->description->columns[place];
    float number = 0.0f;
    char shown[PS_FOUND_BYTES];
    if (!ps_decimal_whole(cell->text, cell->n_bytes, &number)) {
        return ps_fail(err, PS_ERR_INVALID, "column '%.60s': expected a number, found '%s'",
                       column->name, ps_found(shown, cell->text, cell->n_bytes));
    }
    float value = (float)(((double)number - column->mean) * column->scale);
    if (!isfinite(value)) {
        return ps_fail(err, PS_ERR_INVALID, "column '%.60s': '%s' is too large for a 32-bit float",
                       column->name, ps_found(shown, cell->text, cell->n_bytes));
    }
    put(row, place, ps_cell_key(place, PS_CELL_NUMBER, NULL, 0), value);
    return PS_OK;
}

static enum ps_status take_label(struct row *row, const struct ps_cell *cell, struct ps_error *err)
{
    row->labelled = !ps_is_missing(cell->text, cell->n_bytes);
    return row->labelled ? ps_parse_label(row->parse, cell->text, cell->n_bytes, &row->label, err)
                         : PS_OK;
}

static enum ps_status take_cell(struct row *row, uint16_t place, const struct ps_cell *cell,
                                struct ps_error *err)
{
    enum ps_column_kind kind = row->parse->description->columns[place].kind;
    if (kind == PS_COLUMN_IGNORED) {
        return PS_OK;
    }
    if (kind == PS_COLUMN_LABEL) {
        return take_label(row, cell, err);
    }
    if (ps_is_missing(cell->text, cell->n_bytes)) {
        row->parse->n_missing++;
        put(row, place, ps_cell_key(place, PS_CELL_MISSING, NULL, 0), 1.0f);
        return PS_OK;
    }
    if (kind == PS_COLUMN_NUMERIC) {
        return take_number(row, place, cell, err);
    }
    put(row, place, ps_cell_key(place, PS_CELL_TEXT, cell->text, cell->n_bytes), 1.0f);
    return PS_OK;
}

/* The place of the label when this line, of a file without header, seems to lack it. */
static uint32_t label_left_out(const struct ps_parse *parse, uint32_t n_cells)
{
    const struct ps_description *description = parse->description;
    if (!parse->label_optional || description->header || n_cells + 1 != description->n_columns) {
        return UINT32_MAX;
    }
    uint32_t place = 0;
    while (place < description->n_columns && description->columns[place].kind != PS_COLUMN_LABEL) {
        place++;
    }
    return place;
}

static enum ps_status take_cells(struct row *row, struct ps_error *err)
{
    struct ps_parse *parse = row->parse;
    const struct ps_description *description = parse->description;
    const struct ps_line *line = &parse->line;
    char delimiter = ps_table_delimiter(description);
    uint32_t n_wanted = description->header ? parse->n_file_columns : description->n_columns;
    uint32_t left_out = UINT32_MAX;
    if (parse->label_optional && !description->header) {
        left_out = label_left_out(parse, ps_cells_count(line->text, line->n_bytes, delimiter));
        n_wanted -= left_out != UINT32_MAX;
    }
    struct ps_cells cells = ps_cells_of(line->text, line->n_bytes, delimiter);
    struct ps_cell cell;
    uint32_t n = 0;
    while (ps_cells_next(&cells, &cell)) {
        uint32_t place =
            description->header && n < n_wanted ? parse->places[n] : n + (n >= left_out);
        n++;
        if (n > n_wanted || place == NO_PLACE) {
            continue;
        }
        enum ps_status status = take_cell(row, (uint16_t)place, &cell, err);
        if (status != PS_OK) {
            return status;
        }
    }
    if (cells.fault != NULL) {
        return ps_fail(err, PS_ERR_INVALID, "%s", cells.fault);
    }
    return n == n_wanted ? PS_OK
                         : ps_fail(err, PS_ERR_INVALID,
                                   "expected %" PRIu32 " columns, found %" PRIu32, n_wanted, n);
}

static bool is_blank(const struct ps_line *line)
{
    for (size_t i = 0; i < line->n_bytes; i++) {
        if (line->text[i] != ' ' && line->text[i] != '\t') {
            return false;
        }
    }
    return true;
}

static enum ps_status parse(struct ps_parse *parse, struct ps_error *err)
{
    struct row row = {.parse = parse, .label = NAN};
    if (is_blank(&parse->line)) {
        return PS_OK;
    }
    if (!ps_rows_reserve(parse->rows, parse->description->n_columns + 1)) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a row");
    }
    row.n = ps_rows_features(parse->rows);
    uint64_t n_missing = parse->n_missing;
    enum ps_status status = take_cells(&row, err);
    if (status == PS_OK && !row.labelled && !parse->label_optional) {
        status = ps_fail(err, PS_ERR_INVALID, "the label is missing");
    }
    if (status != PS_OK) {
        parse->n_missing = n_missing;
        return status;
    }
    ps_rows_close(parse->rows, row.label, parse->line.number, row.n);
    return PS_OK;
}

/* Do all lines have the same number of cells, two at least? */
static bool looks_table(const struct ps_head *head, char delimiter, char *why, size_t n_room)
{
    uint32_t n_cells = 0;
    for (uint32_t i = 0; i < head->n_lines; i++) {
        const struct ps_line *line = &head->lines[i];
        uint32_t n = ps_cells_count(line->text, line->n_bytes, delimiter);
        if (n < 2 || (i > 0 && n != n_cells)) {
            return false;
        }
        n_cells = n;
    }
    (void)snprintf(why, n_room, "lines have %" PRIu32 " cells joined by %s", n_cells,
                   delimiter == ',' ? "commas" : "tabs");
    return true;
}

static bool looks_csv(const struct ps_head *head, char *why, size_t n_room)
{
    return looks_table(head, ',', why, n_room);
}

/* Tabs also join the words of formats that say more about themselves. */
static bool looks_tsv(const struct ps_head *head, char *why, size_t n_room)
{
    char other[160];
    return !ps_format_libsvm.looks(head, other, sizeof(other)) &&
           !ps_format_criteo.looks(head, other, sizeof(other)) &&
           looks_table(head, '\t', why, n_room);
}

const struct ps_format ps_format_csv = {
    .name = "csv",
    .help = "cells joined by commas, quoted as in RFC 4180, with or without a header",
    .looks = looks_csv,
    .learn = ps_table_learn,
    .header = header,
    .parse = parse,
};

const struct ps_format ps_format_tsv = {
    .name = "tsv",
    .help = "the same with tabs",
    .looks = looks_tsv,
    .learn = ps_table_learn,
    .header = header,
    .parse = parse,
};
