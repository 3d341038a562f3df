/* print.c — settings as people read them: --print-config, and in messages. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "conf/conf.h"
#include "conf/env.h"
#include "conf/place.h"

#define SOURCE_COLUMN 40
#define VALUE_SHOWN   40 /* Bytes of a value in a message; the rest is cut. */

/* ---- Where from ----------------------------------------------------------------------------- */

static void where(const struct ps_conf *conf, struct ps_conf_place place, char *text,
                  size_t n_bytes)
{
    char name[PS_CONF_ENV_NAME_BYTES > PS_CONF_PATH_WORDS_BYTES ? PS_CONF_ENV_NAME_BYTES
                                                                : PS_CONF_PATH_WORDS_BYTES];
    switch (conf->source[place.index]) {
    case PS_CONF_PRESET: (void)snprintf(text, n_bytes, "preset"); return;
    case PS_CONF_FLAG: (void)snprintf(text, n_bytes, "flag"); return;
    case PS_CONF_ENV:
        ps_conf_env_name(conf->program, place.row->name, name, sizeof(name));
        (void)snprintf(text, n_bytes, "environment %s", name);
        return;
    case PS_CONF_FILE:
        ps_conf_path_words(conf->own.config, name, PS_CONF_PATH_WORDS_BYTES);
        (void)snprintf(text, n_bytes, "%s:%" PRIu32, name, conf->line[place.index]);
        return;
    }
    PS_UNREACHABLE("a source that is none");
}

static struct ps_conf_place place_of(const struct ps_conf *conf, const char *name)
{
    struct ps_conf_place place = ps_conf_place_find(conf->program, name, strlen(name));
    PS_ASSERT(place.row != NULL);
    return place;
}

/* As given, or the preset; NULL: neither, or it is nobody's business. */
static const char *text_of(const struct ps_conf *conf, struct ps_conf_place place)
{
    const char *text = conf->text[place.index];
    return text != NULL ? text : place.row->preset;
}

const char *ps_conf_where(const struct ps_conf *conf, const char *name, struct ps_conf_words *words)
{
    where(conf, place_of(conf, name), words->text, sizeof(words->text));
    return words->text;
}

/* A flag that is on has no value to be said. */
static bool says_value(const struct ps_option *row, const char *text)
{
    return text != NULL && !row->secret &&
           !(row->type == PS_OPTION_BOOL && strcmp(text, "true") == 0);
}

const char *ps_conf_say(const struct ps_conf *conf, const char *name, struct ps_conf_words *words)
{
    if (conf == NULL) {
        (void)snprintf(words->text, sizeof(words->text), "--%s", name);
        return words->text;
    }
    struct ps_conf_place place = place_of(conf, name);
    const char *text = text_of(conf, place);
    char value[VALUE_SHOWN + 1] = "";
    if (says_value(place.row, text)) {
        ps_conf_path_words(text, value, sizeof(value));
    }
    char source[PS_CONF_SAY_BYTES - 2 * VALUE_SHOWN];
    where(conf, place, source, sizeof(source));
    (void)snprintf(words->text, sizeof(words->text), "--%s%s%s (%s)", name,
                   value[0] != '\0' ? " " : "", value, source);
    return words->text;
}

/* ---- Values as YAML ------------------------------------------------------------------------- */

/* Of ASCII, in every locale. */
static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_null(const char *text)
{
    return strcmp(text, "null") == 0 || strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0;
}

/* Whether `text` means itself to YAML without quotes, whatever stands around it. */
static bool is_plain(const char *text)
{
    static const char others[] = "_./,+=-:";
    size_t n = strlen(text);
    bool first = is_letter_or_digit(text[0]) || text[0] == '/' || text[0] == '.';
    if (!first || is_null(text) || text[n - 1] == ':') {
        return false;
    }
    for (const char *at = text; *at != '\0'; at++) {
        if (!is_letter_or_digit(*at) && strchr(others, *at) == NULL) {
            return false;
        }
    }
    return true;
}

/* Characters that YAML takes only escaped, or that nobody would see. */
static bool is_hidden(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
           code == 0xfeff || code == 0xfffe || code == 0xffff;
}

static int print_quoted(FILE *out, const char *text)
{
    int n_columns = fprintf(out, "\"");
    for (const char *at = text; *at != '\0';) {
        uint32_t code = 0;
        size_t n = ps_utf8_character(at, strlen(at), &code);
        if (is_hidden(code)) {
            n_columns += fprintf(out, "\\u%04" PRIx32, code);
        } else if (code == '"' || code == '\\') {
            n_columns += fprintf(out, "\\%c", (int)code);
        } else {
            (void)fprintf(out, "%.*s", (int)n, at);
            n_columns++;
        }
        at += n;
    }
    return n_columns + fprintf(out, "\"");
}

static int print_list(FILE *out, const char *text)
{
    int n_columns = fprintf(out, "[");
    for (const char *at = text; *at != '\0'; at++) {
        n_columns += *at == ',' ? fprintf(out, ", ") : fprintf(out, "%c", *at);
    }
    return n_columns + fprintf(out, "]");
}

/* Columns printed. */
static int print_value(FILE *out, const struct ps_option *row, const char *text)
{
    bool list = row->list || row->type == PS_OPTION_LIST_U32;
    if (row->type == PS_OPTION_BOOL) {
        bool truth = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 ||
                     strcmp(text, "on") == 0 || strcmp(text, "1") == 0;
        return fprintf(out, "%s", truth ? "true" : "false");
    }
    if (list && text[strspn(text, "0123456789,")] == '\0') {
        return print_list(out, text);
    }
    return is_plain(text) ? fprintf(out, "%s", text) : print_quoted(out, text);
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* In place of a value that must not be said, or cannot; NULL: it can. */
static const char *untold(const struct ps_option *row, const char *text)
{
    if (text == NULL) {
        return "";
    }
    if (row->secret) {
        return "<set>";
    }
    return ps_utf8_valid(text, strlen(text)) ? NULL : "<not UTF-8>";
}

/*
 * What nobody gave is a comment: as a line of a file it would be given, and could contradict
 * another that is.
 */
static void print_row(FILE *out, const struct ps_conf *conf, struct ps_conf_place place)
{
    const struct ps_option *row = place.row;
    const char *text = text_of(conf, place);
    if (text == NULL && row->type == PS_OPTION_BOOL) {
        text = "false";
    }
    const char *instead = untold(row, text);
    bool comment = instead != NULL || conf->text[place.index] == NULL;
    int n_columns = fprintf(out, "  %s%s: ", comment ? "#" : "", row->name);
    n_columns += instead != NULL ? fprintf(out, "%s", instead) : print_value(out, row, text);
    char source[PS_CONF_SAY_BYTES];
    where(conf, place, source, sizeof(source));
    int n_blanks = n_columns < SOURCE_COLUMN ? SOURCE_COLUMN - n_columns : 1;
    (void)fprintf(out, "%*s# %s\n", n_blanks, "", text == NULL ? "not set" : source);
}

void ps_conf_print(const struct ps_conf *conf, FILE *out)
{
    size_t n = ps_conf_row_count(conf->program);
    (void)fprintf(out, "%s:\n", conf->program->name);
    for (size_t i = 0; i < n; i++) {
        struct ps_conf_place place = ps_conf_place_at(conf->program, i);
        if (!place.own) {
            print_row(out, conf, place);
        }
    }
}

void ps_conf_version(const struct ps_program *program, FILE *out)
{
    (void)fprintf(out, "%s (ps) %s\nbuilt with %s\n", program->name, PS_VERSION, PS_LIBRARIES);
}
