/* cells.c — see cells.h. */
#include "data/cells.h"

#include <string.h>

#include "base/rng.h"
#include "data/hash.h"

struct ps_cells ps_cells_of(const char *text, size_t n_bytes, char delimiter)
{
    return (struct ps_cells){
        .at = text, .end = text + n_bytes, .delimiter = delimiter, .more = true};
}

static inline bool is_blank(const struct ps_cells *cells, char c)
{
    return (c == ' ' || c == '\t') && c != cells->delimiter;
}

static const char *skip_blanks(const struct ps_cells *cells, const char *at)
{
    while (at < cells->end && is_blank(cells, *at)) {
        at++;
    }
    return at;
}

/* The cell ends before `at`: a delimiter or the end of the line. */
static void step(struct ps_cells *cells, const char *at)
{
    cells->more = at < cells->end;
    cells->at = cells->more ? at + 1 : at;
}

/* A cell that begins with the quote at `at`. */
static bool next_quoted(struct ps_cells *cells, const char *at, struct ps_cell *ret)
{
    const char *first = at + 1;
    const char *quote = first;
    for (;; quote += 2) {
        quote = quote < cells->end ? memchr(quote, '"', (size_t)(cells->end - quote)) : NULL;
        if (quote == NULL) {
            cells->fault = "a quote is not closed on its line (line breaks within quotes are not "
                           "supported)";
            return false;
        }
        if (quote + 1 >= cells->end || quote[1] != '"') {
            break;
        }
    }
    at = skip_blanks(cells, quote + 1);
    if (at < cells->end && *at != cells->delimiter) {
        cells->fault = "something follows the closing quote of a cell";
        return false;
    }
    *ret = (struct ps_cell){.text = first, .n_bytes = (size_t)(quote - first)};
    step(cells, at);
    return true;
}

bool ps_cells_next(struct ps_cells *cells, struct ps_cell *ret)
{
    if (!cells->more || cells->fault != NULL) {
        return false;
    }
    const char *first = skip_blanks(cells, cells->at);
    if (first < cells->end && *first == '"') {
        return next_quoted(cells, first, ret);
    }
    const char *at =
        first < cells->end ? memchr(first, cells->delimiter, (size_t)(cells->end - first)) : NULL;
    at = at != NULL ? at : cells->end;
    const char *last = at;
    while (last > first && is_blank(cells, last[-1])) {
        last--;
    }
    *ret = (struct ps_cell){.text = first, .n_bytes = (size_t)(last - first)};
    step(cells, at);
    return true;
}

uint32_t ps_cells_count(const char *text, size_t n_bytes, char delimiter)
{
    struct ps_cells cells = ps_cells_of(text, n_bytes, delimiter);
    struct ps_cell cell;
    uint32_t n = 0;
    while (ps_cells_next(&cells, &cell)) {
        n++;
    }
    return cells.fault == NULL ? n : 0;
}

uint64_t ps_cell_key(uint32_t column, enum ps_cell_kind kind, const char *text, size_t n_bytes)
{
    uint64_t seed = ps_mix64(((uint64_t)column << 2) | (uint64_t)kind);
    return ps_hash_bytes(seed, text, kind == PS_CELL_TEXT ? n_bytes : 0);
}
