/* conf.c — see conf.h. Presets first, then the environment, then argv: later ones overwrite. */
#include "conf/conf.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "conf/suggest.h"
#include "conf/value.h"

#define ENV_NAME_BYTES 80

/* One run of the parser; what ps_conf_parse would otherwise hand to every function. */
struct parse {
    struct ps_conf *conf;
    const struct ps_program *program;
    void *options;
    struct ps_error *err;
};

/* A row and where it stands: `index` counts over all tables of the program. */
struct place {
    const struct ps_option *row; /* NULL: there is none. */
    size_t index;
    size_t base; /* Offset of the struct that the row's table fills. */
};

static size_t row_count(const struct ps_program *program)
{
    size_t n = 0;
    for (size_t i = 0; i < program->n_uses; i++) {
        n += program->uses[i].table->n_rows;
    }
    return n;
}

static struct place place_at(const struct ps_program *program, size_t index)
{
    size_t left = index;
    for (size_t i = 0; i < program->n_uses; i++) {
        const struct ps_option_table *table = program->uses[i].table;
        if (left < table->n_rows) {
            return (struct place){&table->rows[left], index, program->uses[i].offset};
        }
        left -= table->n_rows;
    }
    PS_UNREACHABLE("a row beyond the last one");
}

static struct place place_find(const struct ps_program *program, const char *name, size_t n_bytes)
{
    size_t n = row_count(program);
    for (size_t i = 0; i < n; i++) {
        struct place place = place_at(program, i);
        if (strlen(place.row->name) == n_bytes && memcmp(place.row->name, name, n_bytes) == 0) {
            return place;
        }
    }
    return (struct place){0};
}

/* Tables are written by us: what is wrong in one is found at the first start of the program. */
static void check_row(const struct ps_program *program, struct place place)
{
    const struct ps_option *row = place.row;
    PS_ASSERT(row->name != NULL && row->help != NULL);
    PS_ASSERT(strlen(row->name) < PS_CONF_NAME_BYTES_MAX);
    PS_ASSERT(strncmp(row->name, "no-", 3) != 0);
    PS_ASSERT(place_find(program, row->name, strlen(row->name)).index == place.index);
    PS_ASSERT((row->words != NULL) == (row->type == PS_OPTION_ENUM));
    PS_ASSERT(PS_IMPLIES(row->type == PS_OPTION_U32, row->max <= UINT32_MAX));
}

static enum ps_status store(const struct parse *p, struct place place, const char *label,
                            const char *text)
{
    return ps_conf_store(place.row, (char *)p->options + place.base, label, text, p->err);
}

static void store_presets(const struct parse *p)
{
    size_t n = row_count(p->program);
    PS_ASSERT(n <= PS_CONF_ROWS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct place place = place_at(p->program, i);
        check_row(p->program, place);
        if (place.row->preset != NULL) {
            enum ps_status status = store(p, place, place.row->name, place.row->preset);
            PS_ASSERT(status == PS_OK);
        }
    }
}

/* PS_SERVER and data-dir make PS_SERVER_DATA_DIR. */
static void env_name(const struct ps_program *program, const char *name, char *text, size_t n_bytes)
{
    (void)snprintf(text, n_bytes, "%s_%s", program->env_prefix, name);
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '-') {
            *at = '_';
        } else if (*at >= 'a' && *at <= 'z') {
            *at = (char)(*at - 'a' + 'A');
        }
    }
}

/* An empty variable counts as unset: that is how container files write "nothing". */
static enum ps_status store_env(const struct parse *p)
{
    size_t n = p->program->env_prefix != NULL ? row_count(p->program) : 0;
    for (size_t i = 0; i < n; i++) {
        struct place place = place_at(p->program, i);
        char name[ENV_NAME_BYTES];
        env_name(p->program, place.row->name, name, sizeof(name));
        const char *text = getenv(name); // NOLINT(concurrency-mt-unsafe): before threads start
        if (text == NULL || text[0] == '\0') {
            continue;
        }
        char label[PS_CONF_LABEL_BYTES];
        (void)snprintf(label, sizeof(label), "environment variable %s", name);
        enum ps_status status = store(p, place, label, text);
        if (status != PS_OK) {
            return status;
        }
        p->conf->text[i] = text;
        p->conf->source[i] = PS_CONF_ENV;
    }
    return PS_OK;
}

static enum ps_status refuse_unknown(const struct parse *p, const char *flag, size_t n_bytes)
{
    struct ps_suggest best;
    ps_suggest_init(&best, flag, n_bytes);
    ps_suggest_offer(&best, "help");
    ps_suggest_offer(&best, "version");
    size_t n = row_count(p->program);
    for (size_t i = 0; i < n; i++) {
        ps_suggest_offer(&best, place_at(p->program, i).row->name);
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
static struct place place_negated(const struct parse *p, const char *flag, size_t n_bytes)
{
    if (n_bytes <= 3 || memcmp(flag, "no-", 3) != 0) {
        return (struct place){0};
    }
    struct place place = place_find(p->program, flag + 3, n_bytes - 3);
    if (place.row != NULL && place.row->type != PS_OPTION_BOOL) {
        return (struct place){0};
    }
    return place;
}

/* What follows a flag in argv as its value; NULL when nothing can. */
static const char *value_after(int argc, char *const *argv, int at)
{
    if (at + 1 >= argc || strncmp(argv[at + 1], "--", 2) == 0) {
        return NULL;
    }
    return argv[at + 1];
}

static enum ps_status take(const struct parse *p, struct place place, const char *text)
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
    struct place place = place_find(p->program, flag, n_bytes);
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

static enum ps_status check_required(const struct parse *p)
{
    size_t n = row_count(p->program);
    for (size_t i = 0; i < n; i++) {
        const struct ps_option *row = place_at(p->program, i).row;
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

enum ps_conf_result ps_conf_parse(struct ps_conf *conf, const struct ps_program *program, int argc,
                                  char *const *argv, void *options, struct ps_error *err)
{
    PS_ASSERT(program->n_positional_max <= PS_CONF_POSITIONAL_MAX);
    PS_ASSERT(program->env_prefix == NULL ||
              strlen(program->env_prefix) + 1 + PS_CONF_NAME_BYTES_MAX <= ENV_NAME_BYTES);
    *conf = (struct ps_conf){.program = program};
    struct parse p = {.conf = conf, .program = program, .options = options, .err = err};
    store_presets(&p);
    if (asks_for(argc, argv, "--help") || asks_for(argc, argv, "-h")) {
        ps_conf_help(program, stdout);
        return PS_CONF_DONE;
    }
    if (asks_for(argc, argv, "--version")) {
        (void)printf("%s %s\n", program->name, PS_VERSION);
        return PS_CONF_DONE;
    }
    bool good = store_env(&p) == PS_OK && store_flags(&p, argc, argv) == PS_OK &&
                check_required(&p) == PS_OK;
    return good ? PS_CONF_RUN : PS_CONF_BAD;
}

static size_t index_of(const struct ps_conf *conf, const char *name)
{
    struct place place = place_find(conf->program, name, strlen(name));
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
