/* docs_complete.c — completions: what bash, zsh and fish offer behind the name of a program. */
#include <stdio.h>
#include <string.h>

#include "conf/value.h"
#include "docs.h"

#define TEXT_BYTES 512u

/* ps-server as a name of a shell function: ps_server */
static void print_name(const char *name)
{
    for (; *name != '\0'; name++) {
        (void)fputc(*name == '-' ? '_' : *name, stdout);
    }
}

static void print_words(const struct ps_option *row)
{
    for (const char *const *word = row->words; *word != NULL; word++) {
        (void)printf("%s%s", word == row->words ? "" : " ", *word);
    }
}

/* The first sentence of a help text, without its full stop; what a shell gives meaning is left out.
 */
static void print_help(const char *help, const char *left_out)
{
    const char *end = strstr(help, ". ");
    size_t n = end != NULL ? (size_t)(end - help) : strlen(help);
    n -= n > 0 && help[n - 1] == '.' ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        if (strchr(left_out, help[i]) == NULL) {
            (void)fputc(help[i], stdout);
        }
    }
}

/* ---- bash ----------------------------------------------------------------------------------- */

/* The flags whose value is of a kind, as a pattern of `case`; true when there is one. */
static bool print_pattern(const struct ps_program *program, enum docs_value value)
{
    struct docs_rows rows = {.program = program};
    bool any = false;
    for (const struct ps_option *row; (row = docs_next_row(&rows)) != NULL;) {
        if (docs_value(row) == value) {
            (void)printf("%s--%s", any ? " | " : "        ", row->name);
            any = true;
        }
    }
    return any;
}

static void print_bash_values(const struct ps_program *program)
{
    struct docs_rows rows = {.program = program};
    for (const struct ps_option *row; (row = docs_next_row(&rows)) != NULL;) {
        if (docs_value(row) == DOCS_VALUE_WORDS) {
            (void)printf("        --%s)\n            mapfile -t COMPREPLY < <(compgen -W '",
                         row->name);
            print_words(row);
            (void)printf("' -- \"$word\")\n            return\n            ;;\n");
        }
    }
    static const struct {
        enum docs_value value;
        const char *compgen;
    } paths[] = {{DOCS_VALUE_FILE, "-f"}, {DOCS_VALUE_FOLDER, "-d"}};
    for (size_t i = 0; i < PS_ARRAY_LEN(paths); i++) {
        if (print_pattern(program, paths[i].value)) {
            (void)printf(")\n            mapfile -t COMPREPLY < <(compgen %s -- \"$word\")\n"
                         "            compopt -o filenames 2>/dev/null\n"
                         "            return\n            ;;\n",
                         paths[i].compgen);
        }
    }
    if (print_pattern(program, DOCS_VALUE_ANY)) {
        (void)printf(")\n            return\n            ;;\n");
    }
}

void docs_bash(const struct ps_program *program)
{
    (void)printf("# bash completion of %s\n_", program->name);
    print_name(program->name);
    (void)printf("()\n{\n"
                 "    local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]}\n"
                 "    COMPREPLY=()\n"
                 "    if [[ $word == '=' ]]; then\n"
                 "        word=\n"
                 "    elif [[ $flag == '=' ]]; then\n"
                 "        flag=${COMP_WORDS[COMP_CWORD - 2]}\n"
                 "    fi\n"
                 "    case $flag in\n");
    print_bash_values(program);
    (void)printf("    esac\n    local words='");
    struct docs_rows rows = {.program = program};
    for (const struct ps_option *row; (row = docs_next_row(&rows)) != NULL;) {
        char flag[DOCS_FLAG_BYTES];
        docs_flag(row, flag, sizeof(flag));
        (void)printf("%s%s", rows.use + rows.row > 1 ? " " : "", flag);
    }
    (void)printf("'\n");
    if (program->n_commands > 0) {
        (void)printf("    if [[ $word != -* ]]; then\n        words='");
        for (size_t i = 0; i < program->n_commands; i++) {
            (void)printf("%s%s", i > 0 ? " " : "", program->commands[i].name);
        }
        (void)printf("'\n    fi\n");
    }
    (void)printf("    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\n"
                 "complete -F _");
    print_name(program->name);
    (void)printf(" %s\n", program->name);
}

/* ---- zsh ------------------------------------------------------------------------------------ */

static void print_zsh_value(const struct ps_option *row)
{
    enum docs_value value = docs_value(row);
    if (value == DOCS_VALUE_NONE) {
        return;
    }
    if (value == DOCS_VALUE_WORDS) {
        (void)printf(":word:(");
        print_words(row);
        (void)printf(")");
        return;
    }
    char kind[TEXT_BYTES];
    ps_conf_kind(row, kind, sizeof(kind));
    (void)printf(":");
    for (const char *at = kind; *at != '\0'; at++) {
        (void)printf("%s%c", *at == ':' ? "\\" : "", *at); /* A colon would end the word. */
    }
    (void)printf(":%s", value == DOCS_VALUE_FILE     ? "_files"
                        : value == DOCS_VALUE_FOLDER ? "_files -/"
                                                     : " ");
}

void docs_zsh(const struct ps_program *program)
{
    (void)printf("#compdef %s\n_arguments", program->name);
    struct docs_rows rows = {.program = program};
    for (const struct ps_option *row; (row = docs_next_row(&rows)) != NULL;) {
        char flag[DOCS_FLAG_BYTES];
        docs_flag(row, flag, sizeof(flag));
        (void)printf(" \\\n  '%s%s[", flag, docs_value(row) != DOCS_VALUE_NONE ? "=" : "");
        print_help(row->help, "[]'\\");
        (void)printf("]");
        print_zsh_value(row);
        (void)printf("'");
    }
    if (program->n_commands > 0) {
        (void)printf(" \\\n  '1:command:((");
        for (size_t i = 0; i < program->n_commands; i++) {
            (void)printf("%s%s\\:\"", i > 0 ? " " : "", program->commands[i].name);
            print_help(program->commands[i].help, "\"':\\$`");
            (void)printf("\"");
        }
        (void)printf("))'");
    }
    (void)printf("\n");
}

/* ---- fish ----------------------------------------------------------------------------------- */

static void print_fish_value(const struct ps_option *row)
{
    switch (docs_value(row)) {
    case DOCS_VALUE_NONE: return;
    case DOCS_VALUE_ANY: (void)printf(" -x"); return;
    case DOCS_VALUE_FILE: (void)printf(" -r -F"); return;
    case DOCS_VALUE_FOLDER: (void)printf(" -x -a '(__fish_complete_directories)'"); return;
    case DOCS_VALUE_WORDS:
        (void)printf(" -x -a '");
        print_words(row);
        (void)printf("'");
        return;
    }
}

void docs_fish(const struct ps_program *program)
{
    (void)printf("complete -c %s -f\n", program->name);
    for (size_t i = 0; i < program->n_commands; i++) {
        (void)printf("complete -c %s -n __fish_use_subcommand -a %s -d '", program->name,
                     program->commands[i].name);
        print_help(program->commands[i].help, "'\\");
        (void)printf("'\n");
    }
    struct docs_rows rows = {.program = program};
    for (const struct ps_option *row; (row = docs_next_row(&rows)) != NULL;) {
        char flag[DOCS_FLAG_BYTES];
        docs_flag(row, flag, sizeof(flag));
        (void)printf("complete -c %s -l %s", program->name, flag + 2);
        print_fish_value(row);
        (void)printf(" -d '");
        print_help(row->help, "'\\");
        (void)printf("'\n");
    }
}
