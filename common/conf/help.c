/* help.c — what --help prints: rows by group, names in one column, words wrapped in another. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "conf/value.h"

#define COLUMNS     96u
#define HELP_COLUMN 34u
#define TEXT_BYTES  1024

/* Append to a text of `n_bytes`; what does not fit is cut. */
static void append(char *text, size_t n_bytes, const char *more)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, n_bytes - used, "%s", more);
}

/* Print `text` from the present column on, wrapped at blanks, next lines indented. */
static void print_wrapped(FILE *out, const char *text, size_t column)
{
    size_t at = column;
    for (const char *word = text; *word != '\0';) {
        size_t n = strcspn(word, " ");
        if (at > column && at + 1 + n > COLUMNS) {
            (void)fprintf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            (void)fputc(' ', out);
            at++;
        }
        (void)fprintf(out, "%.*s", (int)n, word);
        at += n;
        word += n;
        word += strspn(word, " ");
    }
    (void)fputc('\n', out);
}

bool ps_conf_is_on(const struct ps_option *row)
{
    return row->type == PS_OPTION_BOOL && row->preset != NULL && strcmp(row->preset, "true") == 0;
}

void ps_conf_describe(const struct ps_option *row, char *text, size_t n_bytes)
{
    char range[128];
    ps_conf_range(row, range, sizeof(range));
    bool off = row->type == PS_OPTION_BOOL && row->preset != NULL;
    bool preset = row->preset != NULL && row->preset[0] != '\0' && !off;
    bool string = row->type == PS_OPTION_STRING;
    text[0] = '\0';
    if (!preset && range[0] == '\0' && !row->required) {
        return;
    }
    if (row->required) {
        append(text, n_bytes, "required");
    } else if (preset) {
        append(text, n_bytes, "preset ");
        append(text, n_bytes, row->preset);
    }
    if (range[0] != '\0') {
        append(text, n_bytes, row->required || preset ? "; " : "");
        append(text, n_bytes, range);
        append(text, n_bytes, row->type == PS_OPTION_DURATION_MS ? " ms" : "");
    }
    if (row->unit != NULL && row->unit[0] != '\0' && !string &&
        row->type != PS_OPTION_DURATION_MS) {
        append(text, n_bytes, " ");
        append(text, n_bytes, row->unit);
    }
}

static void print_row(FILE *out, const struct ps_option *row)
{
    char kind[TEXT_BYTES];
    ps_conf_kind(row, kind, sizeof(kind));
    char values[TEXT_BYTES];
    ps_conf_describe(row, values, sizeof(values));
    char text[2 * TEXT_BYTES];
    bool any = values[0] != '\0';
    (void)snprintf(text, sizeof(text), "%s%s%s%s", row->help, any ? " [" : "", values,
                   any ? "]" : "");
    int used = fprintf(out, "  --%s%s%s%s", ps_conf_is_on(row) ? "no-" : "", row->name,
                       kind[0] != '\0' ? " " : "", kind);
    if (used < 0) {
        return;
    }
    if ((size_t)used + 2 > HELP_COLUMN) {
        (void)fprintf(out, "\n%*s", (int)HELP_COLUMN, "");
    } else {
        (void)fprintf(out, "%*s", (int)HELP_COLUMN - used, "");
    }
    print_wrapped(out, text, HELP_COLUMN);
}

/* A heading wherever the group changes; rows without one stay under the last. */
static const char *print_table(FILE *out, const struct ps_option_table *table, const char *group)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct ps_option *row = &table->rows[i];
        const char *next = row->group != NULL ? row->group : group != NULL ? group : "Flags";
        if (group == NULL || strcmp(next, group) != 0) {
            (void)fprintf(out, "\n%s\n", next);
            group = next;
        }
        print_row(out, row);
    }
    return group;
}

static void print_commands(FILE *out, const struct ps_program *program)
{
    if (program->n_commands > 0) {
        (void)fprintf(out, "\nCommands\n");
    }
    for (size_t i = 0; i < program->n_commands; i++) {
        (void)fprintf(out, "  %-*s", (int)HELP_COLUMN - 2, program->commands[i].name);
        print_wrapped(out, program->commands[i].help, HELP_COLUMN);
    }
}

static void print_exits(FILE *out, const struct ps_exit *exits)
{
    char text[TEXT_BYTES] = "Exit status: ";
    for (size_t i = 0; exits != NULL && exits[i].meaning != NULL; i++) {
        char one[TEXT_BYTES];
        (void)snprintf(one, sizeof(one), "%s%d %s", i == 0 ? "" : ", ", exits[i].status,
                       exits[i].meaning);
        append(text, sizeof(text), one);
    }
    if (exits != NULL) {
        append(text, sizeof(text), ".");
        (void)fputc('\n', out);
        print_wrapped(out, text, 0);
    }
}

const char *ps_conf_usage(const struct ps_program *program)
{
    if (program->usage != NULL) {
        return program->usage;
    }
    return program->n_commands > 0 ? "COMMAND [flags]" : "[flags]";
}

void ps_conf_help(const struct ps_program *program, FILE *out)
{
    (void)fprintf(out, "usage: %s %s\n\n", program->name, ps_conf_usage(program));
    print_wrapped(out, program->summary, 0);
    print_commands(out, program);
    const char *group = NULL;
    for (size_t i = 0; i < program->n_uses; i++) {
        group = print_table(out, program->uses[i].table, group);
    }
    (void)print_table(out, &ps_conf_own_table, group);
    if (program->env_prefix != NULL) {
        char text[TEXT_BYTES];
        (void)snprintf(text, sizeof(text),
                       "Every flag can also be set by an environment variable: --some-flag is "
                       "%s_SOME_FLAG, or a line of the file that --config names. A flag wins over "
                       "the environment, the environment over the file.",
                       program->env_prefix);
        (void)fputc('\n', out);
        print_wrapped(out, text, 0);
    }
    if (program->notes != NULL) {
        (void)fputc('\n', out);
        print_wrapped(out, program->notes, 0);
    }
    print_exits(out, program->exits);
}
