/*
 * criteo.c — click logs as Criteo published them: label, 13 whole numbers, 26 categories in
 * hexadecimal digits, joined by tabs; any of the 39 may be missing (nothing between the tabs).
 *
 * A number x becomes ln(1 + x), and 0 if it is negative, as DLRM does it (Naumov et al., 2019); a
 * category a feature of value 1 whose key is made of column and text; a missing cell a feature of
 * value 1 of its own. The field of a feature is its column, 0 to 38. Labels are 0 and 1. Nothing is
 * learnt from the data.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/cells.h"
#include "data/decimal.h"
#include "data/format.h"
#include "data/learning.h"

#define N_NUMBERS      13u
#define N_CELLS        39u
#define HEX_DIGITS_MAX 16u

static bool is_hex(const struct ps_cell *cell)
{
    for (size_t i = 0; i < cell->n_bytes; i++) {
        char c = cell->text[i];
        bool hex = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
        if (!hex) {
            return false;
        }
    }
    return cell->n_bytes >= 1 && cell->n_bytes <= HEX_DIGITS_MAX;
}

/* The next cell: everything up to a tab. No quotes, no blanks. */
static bool next_cell(const char **at, const char *end, struct ps_cell *ret)
{
    if (*at == NULL) {
        return false;
    }
    const char *tab = *at < end ? memchr(*at, '\t', (size_t)(end - *at)) : NULL;
    const char *behind = tab != NULL ? tab : end;
    *ret = (struct ps_cell){.text = *at, .n_bytes = (size_t)(behind - *at)};
    *at = tab != NULL ? tab + 1 : NULL;
    return true;
}

static uint32_t count_cells(const struct ps_line *line)
{
    const char *at = line->text;
    struct ps_cell cell;
    uint32_t n = 0;
    while (next_cell(&at, line->text + line->n_bytes, &cell)) {
        n++;
    }
    return n;
}

/* One of the 39 cells; false: it is not what it should be. */
static bool take_cell(struct ps_parse *parse, uint32_t column, const struct ps_cell *cell,
                      size_t *n)
{
    struct ps_rows *rows = parse->rows;
    enum ps_cell_kind kind = cell->n_bytes == 0   ? PS_CELL_MISSING
                             : column < N_NUMBERS ? PS_CELL_NUMBER
                                                  : PS_CELL_TEXT;
    float value = 1.0f;
    if (kind == PS_CELL_NUMBER) {
        if (!ps_decimal_whole(cell->text, cell->n_bytes, &value) || !isfinite(value)) {
            return false;
        }
        value = value > 0.0f ? (float)log1p((double)value) : 0.0f;
    } else if (kind == PS_CELL_TEXT && !is_hex(cell)) {
        return false;
    }
    parse->n_missing += kind == PS_CELL_MISSING;
    rows->keys[*n] = ps_cell_key(column, kind, cell->text, cell->n_bytes);
    rows->values[*n] = value;
    rows->fields[*n] = (uint16_t)column;
    *n += value != 0.0f;
    return true;
}

static enum ps_status take_label(const struct ps_parse *parse, const struct ps_cell *cell,
                                 float *ret, struct ps_error *err)
{
    float number = 0.0f;
    if (ps_decimal_whole(cell->text, cell->n_bytes, &number)) {
        return ps_parse_label_number(parse, number, ret, err);
    }
    char shown[PS_FOUND_BYTES];
    return parse->label_optional
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "expected a label, 0 or 1, found '%s'",
                         ps_found(shown, cell->text, cell->n_bytes));
}

static enum ps_status take_line(struct ps_parse *parse, size_t *n, float *label,
                                struct ps_error *err)
{
    const char *at = parse->line.text;
    const char *end = at + parse->line.n_bytes;
    uint32_t n_cells = count_cells(&parse->line);
    bool labelled = !(parse->label_optional && n_cells == N_CELLS);
    struct ps_cell cell;
    if (n_cells != N_CELLS + labelled) {
        return ps_fail(
            err, PS_ERR_INVALID,
            "expected a label, 13 numbers and 26 categories joined by tabs, found %" PRIu32
            " cells",
            n_cells);
    }
    if (labelled && next_cell(&at, end, &cell)) {
        enum ps_status status = take_label(parse, &cell, label, err);
        if (status != PS_OK) {
            return status;
        }
    }
    for (uint32_t column = 0; column < N_CELLS && next_cell(&at, end, &cell); column++) {
        if (!take_cell(parse, column, &cell, n)) {
            char shown[PS_FOUND_BYTES];
            return ps_fail(err, PS_ERR_INVALID, "%s %" PRIu32 ": expected %s, found '%s'",
                           column < N_NUMBERS ? "number" : "category",
                           column < N_NUMBERS ? column + 1 : column + 1 - N_NUMBERS,
                           column < N_NUMBERS ? "a whole number" : "hexadecimal digits",
                           ps_found(shown, cell.text, cell.n_bytes));
        }
    }
    return PS_OK;
}

static enum ps_status parse(struct ps_parse *parse, struct ps_error *err)
{
    if (parse->line.n_bytes == 0) {
        return PS_OK;
    }
    if (!ps_rows_reserve(parse->rows, N_CELLS + 1)) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a row");
    }
    size_t n = ps_rows_features(parse->rows);
    uint64_t n_missing = parse->n_missing;
    float label = NAN;
    enum ps_status status = take_line(parse, &n, &label, err);
    if (status != PS_OK) {
        parse->n_missing = n_missing;
        return status;
    }
    ps_rows_close(parse->rows, label, parse->line.number, n);
    return PS_OK;
}

static enum ps_status learn(struct ps_learning *learning, struct ps_error *err)
{
    struct ps_description *description = learning->description;
    enum ps_status status = PS_OK;
    description->n_features = N_CELLS;
    description->n_rows = learning->head.n_lines;
    description->all_seen = learning->head.whole;
    description->scaled = true;
    (void)snprintf(learning->note, sizeof(learning->note),
                   "13 numbers as ln(1 + x), 26 categories");
    if (!description->labels.given && description->task != PS_TASK_VALUE) {
        status = ps_labels_add_number(&description->labels, 0.0f, err);
        status = status == PS_OK ? ps_labels_add_number(&description->labels, 1.0f, err) : status;
    }
    return status;
}

static bool looks(const struct ps_head *head, char *why, size_t n_room)
{
    for (uint32_t i = 0; i < head->n_lines; i++) {
        const struct ps_line *line = &head->lines[i];
        const char *at = line->text;
        const char *end = at + line->n_bytes;
        struct ps_cell cell;
        float value = 0.0f;
        bool good = count_cells(line) == N_CELLS + 1 && next_cell(&at, end, &cell);
        for (uint32_t c = 0; good && c < N_CELLS && next_cell(&at, end, &cell); c++) {
            good =
                cell.n_bytes == 0 ||
                (c < N_NUMBERS ? ps_decimal_whole(cell.text, cell.n_bytes, &value) : is_hex(&cell));
        }
        if (!good) {
            return false;
        }
    }
    (void)snprintf(why, n_room, "lines are a label, 13 numbers and 26 hexadecimal categories");
    return true;
}

const struct ps_format ps_format_criteo = {
    .name = "criteo",
    .help = "label, 13 numbers, 26 hexadecimal categories, joined by tabs",
    .looks = looks,
    .learn = learn,
    .parse = parse,
};
