/*
 * table.c — see table.h. The first lines say whether there is a header and how many columns there
 * are; the flags and the sample say what each of them is.
 */
#include "data/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <strings.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "data/cells.h"
#include "data/decimal.h"
#include "data/format.h"

/* What was seen of a column; mean and m2 by Welford, "Note on a Method", Technometrics 1962. */
struct survey {
    uint64_t n_numbers;
    uint64_t n_texts;
    uint64_t n_missing;
    double mean;
    double m2;
    bool decided; /* A flag says what the column is. */
};

char ps_table_delimiter(const struct ps_description *description)
{
    return description->format == &ps_format_tsv ? '\t' : ',';
}

static bool is_number(const struct ps_cell *cell)
{
    float value = 0.0f;
    return ps_decimal_whole(cell->text, cell->n_bytes, &value);
}

/* "inf" in a column of numbers is an error to be told, and makes no texts of them. */
static bool is_infinite(const struct ps_cell *cell)
{
    size_t sign = cell->n_bytes > 0 && (cell->text[0] == '-' || cell->text[0] == '+');
    const char *text = cell->text + sign;
    size_t n = cell->n_bytes - sign;
    return (n == 3 && strncasecmp(text, "inf", 3) == 0) ||
           (n == 8 && strncasecmp(text, "infinity", 8) == 0);
}

/* Is there a cell that says something in line 0, and a number below it in line `i`? */
static bool number_below(const struct ps_head *head, char delimiter, uint32_t i)
{
    const struct ps_line *first = &head->lines[0];
    const struct ps_line *line = &head->lines[i];
    struct ps_cells names = ps_cells_of(first->text, first->n_bytes, delimiter);
    struct ps_cells cells = ps_cells_of(line->text, line->n_bytes, delimiter);
    struct ps_cell name;
    struct ps_cell cell;
    while (ps_cells_next(&names, &name) && ps_cells_next(&cells, &cell)) {
        if (is_number(&cell) && !ps_is_missing(name.text, name.n_bytes)) {
            return true;
        }
    }
    return false;
}

/* A first line without numbers above a column of numbers is a header; one with numbers is none. */
static enum ps_status decide_header(struct ps_learning *learning, char delimiter,
                                    struct ps_error *err)
{
    bool *header = &learning->description->header;
    const struct ps_line *first = &learning->head.lines[0];
    struct ps_cells cells = ps_cells_of(first->text, first->n_bytes, delimiter);
    struct ps_cell cell;
    *header = learning->options->header == PS_CHOICE_YES;
    if (learning->options->header != PS_CHOICE_AUTO) {
        return PS_OK;
    }
    while (ps_cells_next(&cells, &cell)) {
        if (is_number(&cell)) {
            return PS_OK;
        }
    }
    for (uint32_t i = 1; i < learning->head.n_lines && !*header; i++) {
        *header = number_below(&learning->head, delimiter, i);
    }
    return *header ? PS_OK
                   : ps_fail(err, PS_ERR_INVALID,
                             "'%s': whether the first line is a header cannot be told: say so by "
                             "--header yes or --header no",
                             learning->source->files[0].path);
}

static enum ps_status name_column(struct ps_learning *learning, const struct ps_cell *cell,
                                  struct ps_error *err)
{
    struct ps_description *description = learning->description;
    uint32_t place = description->n_columns;
    char number[16];
    const char *text = cell->text;
    size_t n = description->header ? cell->n_bytes : 0;
    if (n == 0) {
        (void)snprintf(number, sizeof(number), "%" PRIu32, place + 1);
        text = number;
        n = strlen(number);
    }
    for (uint32_t i = 0; i < place; i++) {
        const char *other = description->columns[i].name;
        if (strlen(other) == n && memcmp(other, text, n) == 0) {
            return ps_fail(err, PS_ERR_INVALID,
                           "'%s': columns %" PRIu32 " and %" PRIu32 " are both called '%.40s'",
                           learning->source->files[0].path, i + 1, place + 1, other);
        }
    }
    if (!ps_utf8_valid(text, n)) {
        char shown[PS_FOUND_BYTES];
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s': the name of column %" PRIu32 ", '%s', is not UTF-8: convert the "
                       "data, for instance by iconv",
                       learning->source->files[0].path, place + 1, ps_found(shown, text, n));
    }
    char *name = ps_mem_alloc(description->mem, PS_MEM_DATA, n + 1);
    if (name == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the name of a column");
    }
    memcpy(name, text, n);
    description->columns[place] = (struct ps_column){.name = name, .scale = 1.0};
    description->n_columns++;
    return PS_OK;
}

static enum ps_status make_columns(struct ps_learning *learning, char delimiter,
                                   struct ps_error *err)
{
    struct ps_description *description = learning->description;
    const struct ps_line *first = &learning->head.lines[0];
    if (description->header && first->number != 1) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s': a header has to be the first line, here it is line %" PRIu64
                       " behind blank ones: remove them",
                       learning->source->files[0].path, first->number);
    }
    uint32_t n = ps_cells_count(first->text, first->n_bytes, delimiter);
    if (n < 2 || n > PS_COLUMNS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "'%s': expected 2 to %u columns, found %" PRIu32,
                       learning->source->files[0].path, PS_COLUMNS_MAX, n);
    }
    description->columns =
        ps_mem_array(description->mem, PS_MEM_DATA, n, sizeof(*description->columns));
    if (description->columns == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %" PRIu32 " columns", n);
    }
    struct ps_cells cells = ps_cells_of(first->text, first->n_bytes, delimiter);
    struct ps_cell cell;
    while (ps_cells_next(&cells, &cell)) {
        enum ps_status status = name_column(learning, &cell, err);
        if (status != PS_OK) {
            return status;
        }
    }
    description->n_features = n;
    return PS_OK;
}

/* The column that a flag means: its name, or its number from 1. */
static enum ps_status find_column(const struct ps_description *description, const char *flag,
                                  const char *word, size_t n, uint32_t *ret, struct ps_error *err)
{
    for (uint32_t i = 0; i < description->n_columns; i++) {
        const char *name = description->columns[i].name;
        if (strlen(name) == n && memcmp(name, word, n) == 0) {
            *ret = i;
            return PS_OK;
        }
    }
    uint64_t number = 0;
    bool fits = false;
    const char *behind = ps_decimal_u64(word, &number, &fits);
    if (behind == word + n && n > 0 && fits && number >= 1 && number <= description->n_columns) {
        *ret = (uint32_t)number - 1;
        return PS_OK;
    }
    char shown[PS_FOUND_BYTES];
    return ps_fail(err, PS_ERR_INVALID,
                   "%s: no column is called '%s'; there are %" PRIu32 ", the first is '%.40s'",
                   flag, ps_found(shown, word, n), description->n_columns,
                   description->columns[0].name);
}

/* Columns named in `list` are of this kind. */
static enum ps_status take_flag(struct ps_description *description, struct survey *surveys,
                                const char *flag, const char *list, struct ps_error *err)
{
    static const struct {
        const char *flag;
        enum ps_column_kind kind;
    } kinds[] = {{"--label", PS_COLUMN_LABEL},
                 {"--categorical", PS_COLUMN_CATEGORICAL},
                 {"--numeric", PS_COLUMN_NUMERIC},
                 {"--ignore", PS_COLUMN_IGNORED}};
    enum ps_column_kind kind = PS_COLUMN_LABEL;
    for (size_t i = 0; i < PS_ARRAY_LEN(kinds); i++) {
        kind = strcmp(kinds[i].flag, flag) == 0 ? kinds[i].kind : kind;
    }
    for (const char *at = list; at != NULL; at++) {
        size_t n = kind == PS_COLUMN_LABEL ? strlen(at) : strcspn(at, ",");
        uint32_t place = 0;
        enum ps_status status = find_column(description, flag, at, n, &place, err);
        if (status != PS_OK) {
            return status;
        }
        if (surveys[place].decided) {
            return ps_fail(err, PS_ERR_INVALID, "%s: column '%.40s' is named by two flags", flag,
                           description->columns[place].name);
        }
        surveys[place].decided = true;
        description->columns[place].kind = kind;
        at += n;
        if (*at == '\0') {
            return PS_OK;
        }
    }
    return PS_OK;
}

/* Without --label: the column that has a name for it, else the first, as other tools have it. */
static enum ps_status pick_label(struct ps_learning *learning, struct survey *surveys,
                                 struct ps_error *err)
{
    static const char *const words[] = {"label", "target", "class", "y", "click", "clicked"};
    struct ps_description *description = learning->description;
    uint32_t found = description->n_columns;
    for (uint32_t i = 0; i < description->n_columns; i++) {
        for (size_t w = 0; w < PS_ARRAY_LEN(words); w++) {
            if (strcasecmp(description->columns[i].name, words[w]) == 0) {
                found = found == description->n_columns ? i : UINT32_MAX;
            }
        }
    }
    if (found == UINT32_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s': several columns are named like a label: say which by --label",
                       learning->source->files[0].path);
    }
    found = found < description->n_columns ? found : 0;
    if (surveys[found].decided) {
        return ps_fail(err, PS_ERR_INVALID,
                       "which column is the label cannot be told: say so by --label");
    }
    surveys[found].decided = true;
    description->columns[found].kind = PS_COLUMN_LABEL;
    return PS_OK;
}

static enum ps_status take_flags(struct ps_learning *learning, struct survey *surveys,
                                 struct ps_error *err)
{
    const struct ps_learn_options *options = learning->options;
    struct ps_description *description = learning->description;
    enum ps_status status = take_flag(description, surveys, "--label", options->label, err);
    if (status == PS_OK) {
        status = take_flag(description, surveys, "--categorical", options->categorical, err);
    }
    if (status == PS_OK) {
        status = take_flag(description, surveys, "--numeric", options->numeric, err);
    }
    if (status == PS_OK) {
        status = take_flag(description, surveys, "--ignore", options->ignore, err);
    }
    if (status == PS_OK && options->label == NULL) {
        status = pick_label(learning, surveys, err);
    }
    return status;
}

static void survey_cell(struct survey *survey, const struct ps_cell *cell)
{
    float value = 0.0f;
    if (ps_is_missing(cell->text, cell->n_bytes)) {
        survey->n_missing++;
        return;
    }
    if (is_infinite(cell)) {
        return;
    }
    if (!ps_decimal_whole(cell->text, cell->n_bytes, &value)) {
        survey->n_texts++;
        return;
    }
    if (isfinite(value)) {
        survey->n_numbers++;
        double delta = (double)value - survey->mean;
        survey->mean += delta / (double)survey->n_numbers;
        survey->m2 += delta * ((double)value - survey->mean);
    }
}

/* A flag has promised that the cells of some columns are numbers. */
static enum ps_status check_number(const struct ps_column *column, const struct survey *survey,
                                   const struct ps_cell *cell, struct ps_error *err)
{
    float number = 0.0f;
    char shown[PS_FOUND_BYTES];
    if (column->kind != PS_COLUMN_NUMERIC || !survey->decided ||
        ps_is_missing(cell->text, cell->n_bytes) ||
        ps_decimal_whole(cell->text, cell->n_bytes, &number)) {
        return PS_OK;
    }
    return ps_fail(err, PS_ERR_INVALID, "column '%.60s': expected a number, found '%s'",
                   column->name, ps_found(shown, cell->text, cell->n_bytes));
}

/* Has it the cells that a row needs? What is wrong with it otherwise, as reading will tell. */
static enum ps_status check_line(const struct ps_description *description,
                                 const struct survey *surveys, const struct ps_line *line,
                                 struct ps_cell *ret_label, struct ps_error *err)
{
    enum ps_status status = ps_line_check(line, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_cells cells = ps_cells_of(line->text, line->n_bytes, ps_table_delimiter(description));
    struct ps_cell cell;
    uint32_t n = 0;
    for (; ps_cells_next(&cells, &cell); n++) {
        if (n < description->n_columns && description->columns[n].kind == PS_COLUMN_LABEL) {
            *ret_label = cell;
        }
        if (status == PS_OK && n < description->n_columns) {
            status = check_number(&description->columns[n], &surveys[n], &cell, err);
        }
    }
    if (status != PS_OK) {
        return status;
    }
    if (cells.fault != NULL) {
        return ps_fail(err, PS_ERR_INVALID, "%s", cells.fault);
    }
    if (n != description->n_columns) {
        return ps_fail(err, PS_ERR_INVALID, "expected %" PRIu32 " columns, found %" PRIu32,
                       description->n_columns, n);
    }
    return ps_is_missing(ret_label->text, ret_label->n_bytes)
               ? ps_fail(err, PS_ERR_INVALID, "the label is missing")
               : PS_OK;
}

static enum ps_status survey_line(struct ps_learning *learning, struct survey *surveys,
                                  const struct ps_line *line, struct ps_error *err)
{
    struct ps_description *description = learning->description;
    char delimiter = ps_table_delimiter(description);
    struct ps_cell label = {0};
    enum ps_status status = check_line(description, surveys, line, &label, err);
    if (status == PS_OK) {
        status = ps_learning_label(learning, label.text, label.n_bytes, err);
    }
    if (status != PS_OK) {
        return status;
    }
    struct ps_cells cells = ps_cells_of(line->text, line->n_bytes, delimiter);
    struct ps_cell cell;
    for (uint32_t i = 0; ps_cells_next(&cells, &cell); i++) {
        if (description->columns[i].kind != PS_COLUMN_LABEL) {
            survey_cell(&surveys[i], &cell);
        }
    }
    description->n_rows++;
    return PS_OK;
}

/* Each file has the header of the first; a file in another order would be learnt wrongly. */
static enum ps_status check_header(struct ps_learning *learning, const struct ps_line *line,
                                   struct ps_error *err)
{
    const struct ps_description *description = learning->description;
    struct ps_cells cells = ps_cells_of(line->text, line->n_bytes, ps_table_delimiter(description));
    struct ps_cell cell;
    uint32_t n = 0;
    bool same = true;
    for (; same && ps_cells_next(&cells, &cell); n++) {
        const char *name = n < description->n_columns ? description->columns[n].name : "";
        same = n < description->n_columns &&
               (cell.n_bytes == 0 ||
                (strlen(name) == cell.n_bytes && memcmp(name, cell.text, cell.n_bytes) == 0));
    }
    if (same && cells.fault == NULL && n == description->n_columns) {
        return PS_OK;
    }
    enum ps_status status =
        ps_fail(err, PS_ERR_INVALID, "expected a header with the columns of '%.80s' in their order",
                learning->source->files[0].name);
    return ps_lines_wrap(learning->lines, line->number, status, err);
}

static enum ps_status survey_all(struct ps_learning *learning, struct survey *surveys,
                                 struct ps_error *err)
{
    struct ps_error ignored;
    struct ps_error *words = err != NULL ? err : &ignored;
    for (;;) {
        struct ps_line line;
        enum ps_status status = ps_learning_next(learning, &line, words);
        if (status != PS_OK || line.kind == PS_LINE_END) {
            return status;
        }
        if (learning->description->header && ps_learning_at_start(learning, &line)) {
            status = check_header(learning, &line, words);
        } else {
            status = survey_line(learning, surveys, &line, words);
            if (status != PS_OK) {
                status = ps_learning_bad(learning, &line, status, words);
            }
        }
        if (status != PS_OK) {
            return status;
        }
    }
}

/* What no flag has decided; and mean and scale of numbers. */
static void conclude_column(struct ps_column *column, const struct survey *survey,
                            const struct ps_learn_options *options)
{
    if (!survey->decided) {
        uint64_t n_texts = survey->n_texts + (options->ids ? survey->n_numbers : 0);
        column->kind = n_texts > 0             ? PS_COLUMN_CATEGORICAL
                       : survey->n_numbers > 0 ? PS_COLUMN_NUMERIC
                                               : PS_COLUMN_IGNORED; /* Nothing in it. */
    }
    if (column->kind == PS_COLUMN_NUMERIC && options->standardize != PS_CHOICE_NO &&
        survey->n_numbers > 0) {
        double deviation = sqrt(survey->m2 / (double)survey->n_numbers);
        column->mean = survey->mean;
        /* A column that never changes says nothing: all its values become 0. */
        column->scale = deviation > 0.0 && isfinite(1.0 / deviation) ? 1.0 / deviation : 0.0;
    }
}

static void conclude(struct ps_learning *learning, const struct survey *surveys)
{
    struct ps_description *description = learning->description;
    uint32_t n_kinds[PS_COLUMN_IGNORED + 1] = {0};
    uint32_t label = 0;
    uint64_t n_missing = 0;
    bool standardize = learning->options->standardize != PS_CHOICE_NO;
    for (uint32_t i = 0; i < description->n_columns; i++) {
        struct ps_column *column = &description->columns[i];
        conclude_column(column, &surveys[i], learning->options);
        n_kinds[column->kind]++;
        n_missing += column->kind != PS_COLUMN_IGNORED ? surveys[i].n_missing : 0;
        label = column->kind == PS_COLUMN_LABEL ? i : label;
    }
    (void)snprintf(
        learning->note, sizeof(learning->note),
        "%s, label in column %" PRIu32 "%s%.32s%s, %" PRIu32 " numeric%s, %" PRIu32
        " categorical, %" PRIu32 " ignored",
        description->header ? "a header" : "no header", label + 1, description->header ? " '" : "",
        description->header ? description->columns[label].name : "", description->header ? "'" : "",
        n_kinds[PS_COLUMN_NUMERIC], standardize ? " (standardised)" : "",
        n_kinds[PS_COLUMN_CATEGORICAL], n_kinds[PS_COLUMN_IGNORED]);
    description->scaled = standardize;
    size_t used = strlen(learning->note);
    if (n_missing > 0) {
        (void)snprintf(learning->note + used, sizeof(learning->note) - used,
                       ", %" PRIu64 " cells missing", n_missing);
    }
}

enum ps_status ps_table_learn(struct ps_learning *learning, struct ps_error *err)
{
    char delimiter = ps_table_delimiter(learning->description);
    enum ps_status status = decide_header(learning, delimiter, err);
    if (status == PS_OK) {
        status = make_columns(learning, delimiter, err);
    }
    if (status != PS_OK) {
        return status;
    }
    struct survey *surveys = ps_mem_array(learning->options->mem, PS_MEM_DATA,
                                          learning->description->n_columns, sizeof(*surveys));
    if (surveys == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to look at columns");
    }
    status = take_flags(learning, surveys, err);
    if (status == PS_OK) {
        status = survey_all(learning, surveys, err);
    }
    if (status == PS_OK) {
        conclude(learning, surveys);
    }
    ps_mem_free(surveys);
    return status;
}
