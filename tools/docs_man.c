/* docs_man.c — the manual page of a program. */
#include <stdio.h>
#include <string.h>

#include "conf/job.h"
#include "conf/value.h"
#include "docs.h"

#define TEXT_BYTES 512u

static void print_synopsis(const struct ps_program *program)
{
    (void)printf(".Sh SYNOPSIS\n.Nm\n");
    if (program->n_commands > 0) {
        (void)printf(".Ar command\n");
    }
    struct docs_rows rows = {.program = program};
    for (const struct ps_option *row; (row = docs_next_row(&rows)) != NULL;) {
        if (row->required) {
            char kind[TEXT_BYTES];
            ps_conf_kind(row, kind, sizeof(kind));
            (void)printf(".Fl -%s Ar \\&%s\n", row->name, kind);
        }
    }
    (void)printf(".Op Ar flags\n");
}

static void print_commands(const struct ps_program *program)
{
    if (program->n_commands == 0) {
        return;
    }
    (void)printf(".Pp\nThe commands are:\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i < program->n_commands; i++) {
        docs_item("Cm", program->commands[i].name, "");
        docs_text(program->commands[i].help);
    }
    (void)printf(".El\n");
}

static void print_flag(const struct ps_option *row)
{
    char kind[TEXT_BYTES];
    char values[TEXT_BYTES];
    char flag[DOCS_FLAG_BYTES];
    ps_conf_kind(row, kind, sizeof(kind));
    ps_conf_describe(row, values, sizeof(values));
    docs_flag(row, flag, sizeof(flag));
    docs_item("Fl", flag + 1, kind); /* Fl writes the first dash. */
    docs_text(row->help);
    if (values[0] != '\0') {
        char text[TEXT_BYTES + 2];
        (void)snprintf(text, sizeof(text), "[%s]", values);
        docs_text(text);
    }
}

static void print_flags(const struct ps_program *program)
{
    struct docs_rows rows = {.program = program};
    const char *group = NULL;
    (void)printf(".Sh OPTIONS\n");
    for (const struct ps_option *row; (row = docs_next_row(&rows)) != NULL;) {
        if (rows.group != NULL && (group == NULL || strcmp(group, rows.group) != 0)) {
            (void)printf("%s.Ss %s\n.Bl -tag -width Ds\n", group != NULL ? ".El\n" : "",
                         rows.group);
            group = rows.group;
        }
        print_flag(row);
    }
    (void)printf(".El\n.Pp\n"
                 "A flag that is on or off may be written\n.Fl -name\nor\n.Fl -no-name .\n"
                 "A value may be a word of its own or follow\n.Ql = .\n"
                 "Sizes have units\n.Pq 64KiB , 1.5GiB , 10MB ,\n"
                 "times need one\n.Pq 250ms , 1.5s , 2m , 1h .\n");
}

static void print_environment(const struct ps_program *program)
{
    (void)printf(".Sh ENVIRONMENT\n"
                 "Every flag is also an environment variable:\n.Fl -some-flag\nis\n"
                 ".Ev %s_SOME_FLAG .\n"
                 "It wins over the file of\n.Fl -config ,\nand a flag wins over it.\n"
                 "An empty variable counts as unset, and one of that form which is no\n"
                 "setting is refused.\n",
                 program->env_prefix);
}

static void print_exits(const struct ps_program *program)
{
    (void)printf(".Sh EXIT STATUS\n.Bl -tag -width Ds\n");
    for (const struct ps_exit *at = program->exits; at->meaning != NULL; at++) {
        (void)printf(".It %d\n", at->status);
        docs_text(at->meaning);
    }
    (void)printf(".El\n");
}

static void print_see_also(const struct ps_program *program)
{
    (void)printf(".Sh SEE ALSO\n");
    for (size_t i = 0; ps_job_programs[i] != NULL; i++) {
        if (ps_job_programs[i] != program) {
            (void)printf(".Xr %s 1 ,\n", ps_job_programs[i]->name);
        }
    }
    (void)printf(".Xr ps-config 5\n");
}

void docs_man(const struct ps_program *program)
{
    docs_head(program->name, 1, program->name, program->brief);
    print_synopsis(program);
    (void)printf(".Sh DESCRIPTION\n");
    docs_text(program->summary);
    if (program->notes != NULL) {
        (void)printf(".Pp\n");
        docs_text(program->notes);
    }
    print_commands(program);
    print_flags(program);
    print_environment(program);
    print_exits(program);
    print_see_also(program);
}
