/* conf.c — see conf.h. Presets, then the job file, the environment, argv: later ones overwrite. */
#include "conf/conf.h"

#include <string.h>

#include "base/assert.h"
#include "conf/env.h"
#include "conf/file.h"
#include "conf/place.h"
#include "conf/suggest.h"
#include "conf/value.h"

/* One run of the parser; what ps_conf_parse would otherwise hand to every function. */
struct parse {
    struct ps_conf *conf;
    const struct ps_program *program;
    void *options;
    struct ps_error *err;
};

/* Tables are written by us: what is wrong in one is found at the first start of the program. */
static void check_row(const struct ps_program *program, struct ps_conf_place place)
{
    const struct ps_option *row = place.row;
    PS_ASSERT(row->name != NULL && row->help != NULL);
    PS_ASSERT(strlen(row->name) < PS_CONF_NAME_BYTES_MAX);
    PS_ASSERT(strncmp(row->name, "no-", 3) != 0);
    PS_ASSERT(ps_conf_place_find(program, row->name, strlen(row->name)).index == place.index);
    PS_ASSERT((row->words != NULL) == (row->type == PS_OPTION_ENUM));
    PS_ASSERT(PS_IMPLIES(row->type == PS_OPTION_STRING, row->min <= row->max));
    PS_ASSERT(PS_IMPLIES(row->secret || row->list || row->word, row->type == PS_OPTION_STRING));
    PS_ASSERT(PS_IMPLIES(row->type == PS_OPTION_U32, row->max <= UINT32_MAX));
}

static enum ps_status store(const struct parse *p, struct ps_conf_place place, const char *label,
                            const char *text)
{
    char *base = place.own ? (char *)&p->conf->own : (char *)p->options + place.base;
    return ps_conf_store(place.row, base, label, text, p->err);
}

static void store_presets(const struct parse *p)
{
    size_t n = ps_conf_row_count(p->program);
    PS_ASSERT(n <= PS_CONF_ROWS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct ps_conf_place place = ps_conf_place_at(p->program, i);
        check_row(p->program, place);
        if (place.row->preset != NULL) {
            enum ps_status status = store(p, place, place.row->name, place.row->preset);
            PS_ASSERT(status == PS_OK);
        }
    }
}

static enum ps_status store_env(const struct parse *p)
{
    size_t n = p->program->env_prefix != NULL ? ps_conf_row_count(p->program) : 0;
    for (size_t i = 0; i < n; i++) {
        struct ps_conf_place place = ps_conf_place_at(p->program, i);
        char label[PS_CONF_LABEL_BYTES];
        const char *text =
            ps_conf_has_env(place) ? ps_conf_env_text(p->program, place.row->name, label) : NULL;
        if (text == NULL) {
            continue;
        }
        enum ps_status status = store(p, place, label, text);
        if (status != PS_OK) {
            return status;
        }
        p->conf->text[i] = text;
        p->conf->source[i] = PS_CONF_ENV;
    }
    return n > 0 ? ps_conf_env_check(p->program, p->err) : PS_OK;
}

/* Settings of `section` that are ours; the file has been checked as a whole. */
static void store_section(const struct parse *p, const struct ps_program *section)
{
    for (struct ps_conf_entry *at = p->conf->file.first; at != NULL; at = at->next) {
        struct ps_conf_place place = ps_conf_place_find(p->program, at->name, strlen(at->name));
        if (at->section != section || place.row == NULL) {
            continue;
        }
        enum ps_status status = store(p, place, at->name, at->text);
        PS_ASSERT(status == PS_OK);
        p->conf->text[place.index] = at->text;
        p->conf->source[place.index] = PS_CONF_FILE;
        p->conf->line[place.index] = at->line;
    }
}

/* What follows a flag in argv as its value; NULL when nothing can. */
static const char *value_after(int argc, char *const *argv, int at)
{
    if (at + 1 >= argc || strncmp(argv[at + 1], "--", 2) == 0) {
        return NULL;
    }
    return argv[at + 1];
}

/* The job file's name, which is needed before the other flags: they win over what is in it. */
static const char *find_file(const struct parse *p, int argc, char *const *argv, char *label)
{
    static const char flag[] = "--config";
    const size_t n_flag = sizeof(flag) - 1;
    (void)snprintf(label, PS_CONF_LABEL_BYTES, "%s", flag);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], flag, n_flag) != 0) {
            continue;
        }
        if (argv[i][n_flag] == '=') {
            return argv[i] + n_flag + 1;
        }
        if (argv[i][n_flag] == '\0') {
            return value_after(argc, argv, i); /* Without one, store_flags says so. */
        }
    }
    if (p->program->env_prefix == NULL) {
        return NULL;
    }
    return ps_conf_env_text(p->program, "config", label);
}

static enum ps_status store_file(const struct parse *p, int argc, char *const *argv)
{
    char label[PS_CONF_LABEL_BYTES];
    const char *path = find_file(p, argc, argv, label);
    if (path == NULL) {
        return PS_OK;
    }
    p->conf->own.config = path;
    enum ps_status status = ps_conf_file_read(&p->conf->file, p->program, path, label, p->err);
    if (status == PS_OK) {
        store_section(p, NULL);
        store_section(p, p->program);
    }
    return status;
}

static enum ps_status refuse_unknown(const struct parse *p, const char *flag, size_t n_bytes)
{
    struct ps_suggest best;
    ps_suggest_init(&best, flag, n_bytes);
    size_t n = ps_conf_row_count(p->program);
    for (size_t i = 0; i < n; i++) {
        ps_suggest_offer(&best, ps_conf_place_at(p->program, i).row->name);
    }
    const char *name = ps_suggest_best(&best);
    int shown = n_bytes < 60 ? (int)n_bytes : 60;
    if (name == NULL) {
        return ps_fail(p->err, PS_ERR_INVALID, "unknown flag --%.*s; see %s --help", shown, flag,
                       p->program->name);
    }
    return ps_fail(p->err, PS_ERR_INVALID, "unknown flag --%.*s; did you mean --%s?", shown, flag,
                   name);
}

/* The row that --no-<name> turns off; none unless it is a bool. */
static struct ps_conf_place place_negated(const struct parse *p, const char *flag, size_t n_bytes)
{
    if (n_bytes <= 3 || memcmp(flag, "no-", 3) != 0) {
        return (struct ps_conf_place){0};
    }
    struct ps_conf_place place = ps_conf_place_find(p->program, flag + 3, n_bytes - 3);
    if (place.row != NULL && (place.row->type != PS_OPTION_BOOL || place.own)) {
        return (struct ps_conf_place){0};
    }
    return place;
}

static enum ps_status take(const struct parse *p, struct ps_conf_place place, const char *text)
{
    char label[PS_CONF_LABEL_BYTES];
    (void)snprintf(label, sizeof(label), "--%s", place.row->name);
    if (p->conf->source[place.index] == PS_CONF_FLAG) {
        return ps_fail(p->err, PS_ERR_INVALID, "%s is given twice; give it once", label);
    }
    enum ps_status status = store(p, place, label, text);
    if (status == PS_OK) {
        p->conf->text[place.index] = text;
        p->conf->source[place.index] = PS_CONF_FLAG;
    }
    return status;
}

/* Read the flag argv[*at]; `*at` is then its last word. */
static enum ps_status take_flag(const struct parse *p, int argc, char *const *argv, int *at)
{
    const char *flag = argv[*at] + 2;
    const char *equals = strchr(flag, '=');
    size_t n_bytes = equals != NULL ? (size_t)(equals - flag) : strlen(flag);
    struct ps_conf_place place = ps_conf_place_find(p->program, flag, n_bytes);
    if (place.row == NULL) {
        place = place_negated(p, flag, n_bytes);
        if (place.row == NULL) {
            return refuse_unknown(p, flag, n_bytes);
        }
        if (equals != NULL) {
            return ps_fail(p->err, PS_ERR_INVALID, "--no-%s takes no value", place.row->name);
        }
        return take(p, place, "false");
    }
    if (equals != NULL) {
        return take(p, place, equals + 1);
    }
    if (place.row->type == PS_OPTION_BOOL) {
        return take(p, place, "true");
    }
    const char *text = value_after(argc, argv, *at);
    if (text == NULL) {
        return ps_fail(p->err, PS_ERR_INVALID, "--%s needs a value: --%s VALUE, or --%s=VALUE",
                       place.row->name, place.row->name, place.row->name);
    }
    (*at)++;
    return take(p, place, text);
}

static enum ps_status take_word(const struct parse *p, const char *word)
{
    if (p->conf->n_positional == p->program->n_positional_max) {
        return ps_fail(p->err, PS_ERR_INVALID, "unexpected argument '%.60s'; see %s --help", word,
                       p->program->name);
    }
    p->conf->positional[p->conf->n_positional++] = word;
    return PS_OK;
}

static enum ps_status store_flags(const struct parse *p, int argc, char *const *argv)
{
    bool flags = true; /* Until "--". */
    for (int i = 1; i < argc; i++) {
        enum ps_status status = PS_OK;
        if (flags && strcmp(argv[i], "--") == 0) {
            flags = false;
        } else if (flags && strncmp(argv[i], "--", 2) == 0) {
            status = take_flag(p, argc, argv, &i);
        } else if (flags && argv[i][0] == '-' && argv[i][1] != '\0') {
            status =
                ps_fail(p->err, PS_ERR_INVALID, "unknown flag %.60s; flags start with --", argv[i]);
        } else {
            status = take_word(p, argv[i]);
        }
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

static void list_commands(const struct ps_program *program, char *text, size_t n_bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < program->n_commands; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, n_bytes - used, "%s%s", i > 0 ? ", " : "",
                       program->commands[i].name);
    }
}

static enum ps_status check_command(const struct parse *p)
{
    const struct ps_program *program = p->program;
    if (program->n_commands == 0) {
        return PS_OK;
    }
    char commands[PS_CONF_LABEL_BYTES];
    list_commands(program, commands, sizeof(commands));
    if (p->conf->n_positional == 0) {
        return ps_fail(p->err, PS_ERR_INVALID, "no command; there are %s", commands);
    }
    const char *word = p->conf->positional[0];
    struct ps_suggest best;
    ps_suggest_init(&best, word, strlen(word));
    for (size_t i = 0; i < program->n_commands; i++) {
        if (strcmp(program->commands[i].name, word) == 0) {
            return PS_OK;
        }
        ps_suggest_offer(&best, program->commands[i].name);
    }
    const char *name = ps_suggest_best(&best);
    if (name == NULL) {
        return ps_fail(p->err, PS_ERR_INVALID, "unknown command '%.60s'; there are %s", word,
                       commands);
    }
    return ps_fail(p->err, PS_ERR_INVALID, "unknown command '%.60s'; did you mean '%s'?", word,
                   name);
}

static enum ps_status check_required(const struct parse *p)
{
    size_t n = ps_conf_row_count(p->program);
    for (size_t i = 0; i < n; i++) {
        const struct ps_option *row = ps_conf_place_at(p->program, i).row;
        if (row->required && p->conf->source[i] == PS_CONF_PRESET) {
            char kind[PS_CONF_LABEL_BYTES];
            ps_conf_kind(row, kind, sizeof(kind));
            return ps_fail(p->err, PS_ERR_INVALID, "--%s %s is required", row->name, kind);
        }
    }
    return PS_OK;
}

/* Whether argv asks for `flag` in place of a start, wherever it stands before "--". */
static bool asks_for(int argc, char *const *argv, const char *flag)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], flag) == 0) {
            return true;
        }
    }
    return false;
}

static enum ps_conf_result parse(const struct parse *p, int argc, char *const *argv)
{
    store_presets(p);
    if (asks_for(argc, argv, "--help") || asks_for(argc, argv, "-h")) {
        ps_conf_help(p->program, stdout);
        return PS_CONF_DONE;
    }
    if (asks_for(argc, argv, "--version")) {
        ps_conf_version(p->program, stdout);
        return PS_CONF_DONE;
    }
    if (store_file(p, argc, argv) != PS_OK || store_env(p) != PS_OK ||
        store_flags(p, argc, argv) != PS_OK) {
        return PS_CONF_BAD;
    }
    if (p->conf->own.print_config) {
        ps_conf_print(p->conf, stdout);
        return PS_CONF_DONE;
    }
    return check_command(p) == PS_OK && check_required(p) == PS_OK ? PS_CONF_RUN : PS_CONF_BAD;
}

enum ps_conf_result ps_conf_parse(struct ps_conf *conf, const struct ps_program *program, int argc,
                                  char *const *argv, void *options, struct ps_error *err)
{
    PS_ASSERT(program->n_positional_max <= PS_CONF_POSITIONAL_MAX);
    PS_ASSERT(program->env_prefix == NULL ||
              strlen(program->env_prefix) + 1 + PS_CONF_NAME_BYTES_MAX <= PS_CONF_ENV_NAME_BYTES);
    *conf = (struct ps_conf){.program = program};
    struct parse p = {.conf = conf, .program = program, .options = options, .err = err};
    enum ps_conf_result result = parse(&p, argc, argv);
    if (result != PS_CONF_RUN) {
        ps_conf_deinit(conf);
    }
    return result;
}

void ps_conf_deinit(struct ps_conf *conf)
{
    ps_conf_file_deinit(&conf->file);
}

static size_t index_of(const struct ps_conf *conf, const char *name)
{
    struct ps_conf_place place = ps_conf_place_find(conf->program, name, strlen(name));
    PS_ASSERT(place.row != NULL);
    return place.index;
}

bool ps_conf_given(const struct ps_conf *conf, const char *name)
{
    return ps_conf_source(conf, name) != PS_CONF_PRESET;
}

enum ps_conf_source ps_conf_source(const struct ps_conf *conf, const char *name)
{
    return conf->source[index_of(conf, name)];
}

bool ps_conf_next_given(const struct ps_conf *conf, const struct ps_option_table *table, size_t *at,
                        const char **ret_name, const char **ret_text)
{
    while (*at < table->n_rows) {
        const struct ps_option *row = &table->rows[(*at)++];
        size_t index = index_of(conf, row->name);
        if (conf->text[index] != NULL) {
            *ret_name = row->name;
            *ret_text = conf->text[index];
            return true;
        }
    }
    return false;
}
