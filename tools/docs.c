/*
 * docs.c — docs KIND [PROGRAM]: print a manual page or a completion; run by the build. KIND is man,
 * bash, zsh or fish with a program, or man-config.
 */
#include "docs.h"

#include <stdio.h>
#include <string.h>

#include "conf/job.h"
#include "datagen_options.h"

const struct ps_option *docs_next_row(struct docs_rows *rows)
{
    for (;; rows->use++, rows->row = 0) {
        if (rows->use > rows->program->n_uses) {
            return NULL;
        }
        bool own = rows->use == rows->program->n_uses;
        const struct ps_option_table *table =
            own ? &ps_conf_own_table : rows->program->uses[rows->use].table;
        if (rows->row < table->n_rows) {
            const struct ps_option *row = &table->rows[rows->row++];
            rows->group = row->group != NULL ? row->group : rows->group;
            return row;
        }
    }
}

void docs_flag(const struct ps_option *row, char *text, size_t n_bytes)
{
    (void)snprintf(text, n_bytes, "--%s%s", ps_conf_is_on(row) ? "no-" : "", row->name);
}

enum docs_value docs_value(const struct ps_option *row)
{
    if (row->type == PS_OPTION_BOOL) {
        return DOCS_VALUE_NONE;
    }
    if (row->type == PS_OPTION_ENUM) {
        return DOCS_VALUE_WORDS;
    }
    const char *unit = row->type == PS_OPTION_STRING && row->unit != NULL ? row->unit : "";
    if (strcmp(unit, "DIR") == 0) {
        return DOCS_VALUE_FOLDER;
    }
    bool file = strcmp(unit, "FILE") == 0 || strncmp(unit, "PATH", 4) == 0;
    return file ? DOCS_VALUE_FILE : DOCS_VALUE_ANY;
}

static const struct ps_program *find(const char *name)
{
    for (size_t i = 0; ps_job_programs[i] != NULL; i++) {
        if (strcmp(ps_job_programs[i]->name, name) == 0) {
            return ps_job_programs[i];
        }
    }
    return strcmp(datagen_program.name, name) == 0 ? &datagen_program : NULL; /* Not of a job. */
}

int main(int argc, char **argv)
{
    static const struct {
        const char *kind;
        void (*print)(const struct ps_program *program);
    } kinds[] = {
        {"man", docs_man},
        {"bash", docs_bash},
        {"zsh", docs_zsh},
        {"fish", docs_fish},
    };
    if (argc == 2 && strcmp(argv[1], "man-config") == 0) {
        docs_man_config(ps_job_programs);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    const struct ps_program *program = argc == 3 ? find(argv[2]) : NULL;
    for (size_t i = 0; i < PS_ARRAY_LEN(kinds) && program != NULL; i++) {
        if (strcmp(kinds[i].kind, argv[1]) == 0) {
            kinds[i].print(program);
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    (void)fprintf(stderr, "usage: docs man|bash|zsh|fish PROGRAM, or docs man-config\n");
    return 2;
}
