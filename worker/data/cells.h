#ifndef PS_WORKER_DATA_CELLS_H
#define PS_WORKER_DATA_CELLS_H
/*
 * data/cells.h — one line of a table in text, cell by cell; and the keys that cells become. Pure.
 *
 * Cells may be quoted as in RFC 4180: "a, b", with "" for a quote inside, which stays doubled here
 * (equal texts stay equal, and nothing is copied). Blanks around a cell do not count. A quoted line
 * break is not supported: a row is a line, for files are cut at lines; the open quote is a fault.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct ps_cell {
    const char *text; /* Within the line; followed by a byte that is no part of a number. */
    size_t n_bytes;
};

struct ps_cells {
    const char *at;
    const char *end;
    char delimiter;    /* ',' or '\t' */
    bool more;         /* Another cell follows. */
    const char *fault; /* NULL, or why there are no more. */
};

/** Before the first cell of a line, which has one cell at least. */
struct ps_cells ps_cells_of(const char *text, size_t n_bytes, char delimiter);

/** The next cell; false after the last one, or with a fault. */
PS_MUST_CHECK bool ps_cells_next(struct ps_cells *cells, struct ps_cell *ret);

/** How many cells a line has; 0 when there is a fault in it. */
uint32_t ps_cells_count(const char *text, size_t n_bytes, char delimiter);

/** What a cell says; part of its key. Part of saved models: never renumber. */
enum ps_cell_kind {
    PS_CELL_NUMBER = 0, /* One key for the column; the number is the value. */
    PS_CELL_TEXT = 1,   /* A key for each text. */
    PS_CELL_MISSING = 2 /* One key for the column: having no value is a fact like another. */
};

/** The key of a cell of column `column`; `text` counts for PS_CELL_TEXT only. */
uint64_t ps_cell_key(uint32_t column, enum ps_cell_kind kind, const char *text, size_t n_bytes);

#endif
