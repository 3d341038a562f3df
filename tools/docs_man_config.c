/* docs_man_config.c — the manual page of the job file: its form, and every key of it. */
#include <stdio.h>
#include <string.h>

#include "conf/value.h"
#include "docs.h"

#define TEXT_BYTES 512u

static const char form[] =
    ".Sh DESCRIPTION\n"
    "A job file holds the settings of a whole job.\n"
    "Each program of the job reads it when it is started with\n"
    ".Fl -config Ar file ,\n"
    "or with the path in its environment variable, such as\n"
    ".Ev PS_SERVER_CONFIG .\n"
    "Its keys are the names of flags, without dashes before them.\n"
    ".Pp\n"
    "A key at the top level is for every program that has the setting.\n"
    "The name of a program begins a section, which is for that program and\n"
    "wins over the top level.\n"
    "The environment wins over the file, and a flag over the environment.\n"
    ".Pp\n"
    "The file is YAML in UTF-8, of at most 64 KiB: one mapping of names to\n"
    "values.\n"
    "A value is written as the flag's would be; on or off is\n"
    ".Ql true\n"
    "or\n"
    ".Ql false ,\n"
    "and a list may be written as\n"
    ".Ql [128, 64] .\n"
    "A key without a value, a key given twice, anchors, aliases, tags, merge\n"
    "keys and second documents are refused.\n"
    ".Pp\n"
    "A file is good for all programs or for none: each checks every section.\n"
    "What is wrong is told with file, line and column, and the exit status\n"
    "is 2.\n"
    ".Pp\n"
    "With\n"
    ".Fl -print-config\n"
    "a program prints every setting with its value and where that is from,\n"
    "as its section of a job file; presets are comments in it.\n"
    ".Sh EXAMPLES\n"
    ".Bd -literal -offset indent\n"
    "log-level: info             # every program that has it\n"
    "data: /data/fashion-mnist\n"
    "workers: 4\n"
    "\n"
    "ps-server:\n"
    "  data-dir: /var/lib/ps\n"
    "\n"
    "ps-worker:\n"
    "  coordinator: ps-0.ps:7070\n"
    "  model: mlp\n"
    "  hidden: [128, 64]\n"
    ".Ed\n";

static const struct ps_option *row_of(const struct ps_program *program, const char *name)
{
    struct docs_rows rows = {.program = program};
    const struct ps_option *row = docs_next_row(&rows);
    while (row != NULL && strcmp(row->name, name) != 0) {
        row = docs_next_row(&rows);
    }
    return row;
}

/* Settings differ between programs in help and preset; the key is one. */
static bool same(const struct ps_option *a, const struct ps_option *b)
{
    char texts[2][TEXT_BYTES];
    ps_conf_describe(a, texts[0], TEXT_BYTES);
    ps_conf_describe(b, texts[1], TEXT_BYTES);
    return strcmp(a->help, b->help) == 0 && strcmp(texts[0], texts[1]) == 0;
}

static void print_users(const struct ps_program *const *job, size_t first,
                        const struct ps_option *row)
{
    char text[TEXT_BYTES] = "";
    for (size_t i = first; job[i] != NULL; i++) {
        const struct ps_option *other = row_of(job[i], row->name);
        if (other != NULL && same(row, other)) {
            size_t used = strlen(text);
            (void)snprintf(text + used, sizeof(text) - used, "%s%s", used > 0 ? ", " : "",
                           job[i]->name);
        }
    }
    size_t used = strlen(text);
    (void)snprintf(text + used, sizeof(text) - used, ":");
    docs_text(text);
}

static void print_meaning(const struct ps_option *row)
{
    char values[TEXT_BYTES];
    char text[TEXT_BYTES + 2];
    ps_conf_describe(row, values, sizeof(values));
    if (ps_conf_is_on(row)) {
        docs_text("When it is false:"); /* As --help says it of --no-name. */
    }
    docs_text(row->help);
    if (values[0] != '\0') {
        (void)snprintf(text, sizeof(text), "[%s]", values);
        docs_text(text);
    }
}

/* Whether program number `n` is the first with a row like this one of the same name. */
static bool is_first(const struct ps_program *const *job, size_t n, const struct ps_option *row,
                     bool by_name)
{
    for (size_t i = 0; i < n; i++) {
        const struct ps_option *other = row_of(job[i], row->name);
        if (other != NULL && (by_name || same(row, other))) {
            return false;
        }
    }
    return true;
}

static void print_key(const struct ps_program *const *job, size_t first,
                      const struct ps_option *row)
{
    char kind[TEXT_BYTES];
    ps_conf_kind(row, kind, sizeof(kind));
    docs_item("Cm", row->name, row->type == PS_OPTION_BOOL ? "true|false" : kind);
    for (size_t i = first; job[i] != NULL; i++) {
        const struct ps_option *other = row_of(job[i], row->name);
        if (other != NULL && is_first(job, i, other, false)) {
            if (i > first) {
                (void)printf(".Pp\n");
            }
            print_users(job, i, other);
            print_meaning(other);
        }
    }
}

void docs_man_config(const struct ps_program *const *job)
{
    docs_head("ps-config", 5, "ps-config", "settings of a parameter server job");
    (void)fputs(form, stdout);
    (void)printf(".Sh KEYS\n.Bl -tag -width Ds\n");
    for (size_t i = 0; job[i] != NULL; i++) {
        struct docs_rows rows = {.program = job[i]};
        for (const struct ps_option *row; (row = docs_next_row(&rows)) != NULL;) {
            bool own = rows.use == job[i]->n_uses;
            if (!own && is_first(job, i, row, true)) {
                print_key(job, i, row);
            }
        }
    }
    (void)printf(".El\n.Sh SEE ALSO\n");
    for (size_t i = 0; job[i] != NULL; i++) {
        (void)printf(".Xr %s 1%s\n", job[i]->name, job[i + 1] != NULL ? " ," : "");
    }
}
