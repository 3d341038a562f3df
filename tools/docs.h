#ifndef PS_TOOLS_DOCS_H
#define PS_TOOLS_DOCS_H
/*
 * docs.h — manual pages and completions, written from the rows of the programs.
 *
 * Each function prints one file to standard output. Nothing here is installed: the build runs it.
 */
#include "conf/conf.h"

/* One row after the other: those of the program's tables, then those that every program has. */
struct docs_rows {
    const struct ps_program *program;
    size_t use;
    size_t row;
    const char *group; /* Of the row returned last. */
};

/** The next row, or NULL. `rows` begins as {.program = program}. */
const struct ps_option *docs_next_row(struct docs_rows *rows);

/** "--no-shuffle": the form of a flag that changes something. */
void docs_flag(const struct ps_option *row, char *text, size_t n_bytes);

#define DOCS_FLAG_BYTES (PS_CONF_NAME_BYTES_MAX + 8u)

/** What a value names, so that a shell can offer some. */
enum docs_value {
    DOCS_VALUE_NONE, /* The flag takes none. */
    DOCS_VALUE_ANY,
    DOCS_VALUE_WORDS, /* Those of the row. */
    DOCS_VALUE_FILE,
    DOCS_VALUE_FOLDER,
};

enum docs_value docs_value(const struct ps_option *row);

/* ---- Manual pages in mdoc(7); docs_mdoc.c has the words, the others the pages --------------- */

/** Text as lines of mdoc: a sentence begins a line, flags keep their dashes. */
void docs_text(const char *text);

/** `.It`, its words and their dressing, as "Fl -listen Ar ADDR" or "Cm listen : Ar ADDR". */
void docs_item(const char *macro, const char *name, const char *kind);

void docs_head(const char *title, int section, const char *name, const char *brief);

void docs_man(const struct ps_program *program);
void docs_man_config(const struct ps_program *const *job);

/* ---- Completions ---------------------------------------------------------------------------- */

void docs_bash(const struct ps_program *program);
void docs_zsh(const struct ps_program *program);
void docs_fish(const struct ps_program *program);

#endif
