/* file.c — see file.h. One pass over libyaml's events, which carry the place of every value. */
#include "conf/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "conf/place.h"
#include "conf/suggest.h"
#include "conf/value.h"
#include "os/file.h"

#define KEY_SHOWN 60 /* Of a name that is none, in a message. */

/* One run over a file; `event` is the one under consideration. */
struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    struct ps_conf_file *file;
    const struct ps_program *const *job; /* Ended by NULL. */
    const uint8_t *bytes;
    struct ps_error *err;
    uint32_t sections_seen; /* Bit i: program i of the job. */
    char path[PS_CONF_PATH_WORDS_BYTES];
    char text[PS_CONF_TEXT_BYTES_MAX]; /* Of the value being read. */
};

/* A name in the file: of a setting or a section. Not 0-terminated; lives as long as its event. */
struct key {
    char name[PS_CONF_NAME_BYTES_MAX + KEY_SHOWN];
    size_t n_bytes;
    yaml_mark_t mark;
};

/* ---- Words ---------------------------------------------------------------------------------- */

/* "job.yaml:7:3" */
static void place_words(const struct reader *r, yaml_mark_t mark, char *text, size_t n_bytes)
{
    (void)snprintf(text, n_bytes, "%s:%zu:%zu", r->path, mark.line + 1, mark.column + 1);
}

static enum ps_status refuse(const struct reader *r, yaml_mark_t mark, const char *why)
{
    char place[PS_CONF_LABEL_BYTES];
    place_words(r, mark, place, sizeof(place));
    return ps_fail(r->err, PS_ERR_INVALID, "%s: %s", place, why);
}

/* Bytes that are no text have an offset, but no line yet. */
static yaml_mark_t mark_of(const struct reader *r, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset; i++) {
        mark.line += r->bytes[i] == '\n' ? 1 : 0;
        mark.column = r->bytes[i] == '\n' ? 0 : mark.column + 1;
    }
    return mark;
}

static enum ps_status refuse_yaml(const struct reader *r)
{
    const yaml_parser_t *parser = &r->parser;
    const char *problem = parser->problem != NULL ? parser->problem : "not YAML";
    char place[PS_CONF_LABEL_BYTES];
    if (parser->error == YAML_MEMORY_ERROR) {
        return ps_fail(r->err, PS_ERR_NOMEM, "%s: no memory", r->path);
    }
    if (parser->error == YAML_READER_ERROR) {
        place_words(r, mark_of(r, parser->problem_offset), place, sizeof(place));
        return ps_fail(r->err, PS_ERR_INVALID, "%s: not UTF-8 text: %s", place, problem);
    }
    place_words(r, parser->problem_mark, place, sizeof(place));
    return ps_fail(r->err, PS_ERR_INVALID, "%s: not YAML: %s%s%s", place,
                   parser->context != NULL ? parser->context : "",
                   parser->context != NULL ? ", " : "", problem);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* The YAML that a job file has no use for, wherever it stands. */
static enum ps_status check_event(const struct reader *r)
{
    const yaml_event_t *event = &r->event;
    const yaml_char_t *anchor = NULL;
    const yaml_char_t *tag = NULL;
    if (event->type == YAML_ALIAS_EVENT) {
        return refuse(r, event->start_mark, "aliases (*name) are not read; write the value out");
    }
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor != NULL) {
        return refuse(r, event->start_mark, "anchors (&name) are not read; leave it out");
    }
    if (tag != NULL) {
        return refuse(r, event->start_mark, "tags (!name) are not read; leave it out");
    }
    return PS_OK;
}

static enum ps_status next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event) == 0) {
        return refuse_yaml(r);
    }
    return check_event(r);
}

/* YAML's null: nothing at all, ~ or the word, without quotes. */
static bool is_null(const yaml_event_t *event)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (event->type != YAML_SCALAR_EVENT || event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        return false;
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(words); i++) {
        if (event->data.scalar.length == strlen(words[i]) &&
            memcmp(event->data.scalar.value, words[i], strlen(words[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- Names ---------------------------------------------------------------------------------- */

/* The first program with the setting: `section`, or any when that is NULL. */
static const struct ps_program *knower(const struct reader *r, const struct ps_program *section,
                                       const struct key *key)
{
    for (size_t i = 0; r->job[i] != NULL; i++) {
        if ((section == NULL || section == r->job[i]) &&
            ps_conf_row_find(r->job[i], key->name, key->n_bytes) != NULL) {
            return r->job[i];
        }
    }
    return NULL;
}

static void offer_settings(const struct reader *r, const struct ps_program *section,
                           struct ps_suggest *best)
{
    for (size_t i = 0; r->job[i] != NULL; i++) {
        size_t n = section == NULL || section == r->job[i] ? ps_conf_row_count(r->job[i]) : 0;
        for (size_t k = 0; k < n; k++) {
            struct ps_conf_place place = ps_conf_place_at(r->job[i], k);
            if (!place.own) {
                ps_suggest_offer(best, place.row->name);
            }
        }
    }
}

/* A mapping under a name that is no setting was meant as a section. */
static enum ps_status refuse_section(const struct reader *r, const char *place, int shown,
                                     const struct key *key)
{
    char names[PS_CONF_LABEL_BYTES] = "";
    for (size_t i = 0; r->job[i] != NULL; i++) {
        size_t used = strlen(names);
        (void)snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
                       r->job[i]->name);
    }
    return ps_fail(r->err, PS_ERR_INVALID, "%s: unknown section '%.*s'; there are %s", place, shown,
                   key->name, names);
}

/* No program has the setting, or that of `section` has not. */
static enum ps_status refuse_key(const struct reader *r, const struct ps_program *section,
                                 const struct key *key)
{
    int shown = key->n_bytes < KEY_SHOWN ? (int)key->n_bytes : KEY_SHOWN;
    char place[PS_CONF_LABEL_BYTES];
    place_words(r, key->mark, place, sizeof(place));
    if (section == NULL && r->event.type == YAML_MAPPING_START_EVENT) {
        return refuse_section(r, place, shown, key);
    }
    const struct ps_program *other = section != NULL ? knower(r, NULL, key) : NULL;
    if (other != NULL) {
        return ps_fail(r->err, PS_ERR_INVALID, "%s: %s has no setting '%.*s', but %s has", place,
                       section->name, shown, key->name, other->name);
    }
    struct ps_suggest best;
    ps_suggest_init(&best, key->name, key->n_bytes);
    offer_settings(r, section, &best);
    const char *name = ps_suggest_best(&best);
    return ps_fail(r->err, PS_ERR_INVALID, "%s: unknown setting '%.*s'%s%s%s", place, shown,
                   key->name, name != NULL ? "; did you mean '" : "", name != NULL ? name : "",
                   name != NULL ? "'?" : "");
}

static enum ps_status read_key(const struct reader *r, struct key *key)
{
    const yaml_event_t *event = &r->event;
    key->mark = event->start_mark;
    if (event->type != YAML_SCALAR_EVENT) {
        return refuse(r, key->mark, "a name is expected: name: value");
    }
    size_t n_bytes = event->data.scalar.length;
    key->n_bytes = n_bytes < sizeof(key->name) ? n_bytes : sizeof(key->name);
    memcpy(key->name, event->data.scalar.value, key->n_bytes);
    if (memchr(key->name, '\0', key->n_bytes) != NULL) {
        return refuse(r, key->mark, "a name with a NUL in it");
    }
    if (key->n_bytes == 2 && memcmp(key->name, "<<", 2) == 0) {
        return refuse(r, key->mark, "merge keys (<<) are not read; write the settings out");
    }
    return PS_OK;
}

/* ---- Values --------------------------------------------------------------------------------- */

/* Append the scalar under consideration to the `*used` bytes of r->text. */
static enum ps_status append_scalar(struct reader *r, const char *name, size_t *used)
{
    yaml_mark_t mark = r->event.start_mark;
    char why[PS_CONF_LABEL_BYTES];
    if (r->event.type != YAML_SCALAR_EVENT) {
        (void)snprintf(why, sizeof(why), "%s: single values are expected, not %s", name,
                       r->event.type == YAML_MAPPING_START_EVENT ? "a mapping" : "a list");
        return refuse(r, mark, why);
    }
    size_t n_bytes = r->event.data.scalar.length;
    const char *value = (const char *)r->event.data.scalar.value;
    const char *wrong = NULL;
    if (is_null(&r->event)) {
        wrong = "has no value; leave the line out, or write \"\" for an empty text";
    } else if (memchr(value, '\0', n_bytes) != NULL) {
        wrong = "the value has a NUL in it";
    } else if (*used + n_bytes >= sizeof(r->text)) {
        wrong = "the value is too long";
    }
    if (wrong != NULL) {
        (void)snprintf(why, sizeof(why), "%s: %s", name, wrong);
        return refuse(r, mark, why);
    }
    memcpy(r->text + *used, value, n_bytes);
    *used += n_bytes;
    r->text[*used] = '\0';
    return PS_OK;
}

/* [128, 64] becomes 128,64 as a flag would say it. */
static enum ps_status read_list(struct reader *r, const struct ps_option *row)
{
    size_t used = 0;
    enum ps_status status = PS_OK;
    for (bool first = true;; first = false) {
        status = next(r);
        if (status != PS_OK || r->event.type == YAML_SEQUENCE_END_EVENT) {
            return status;
        }
        if (!first && used + 1 < sizeof(r->text)) {
            r->text[used++] = ',';
        }
        size_t before = used;
        status = append_scalar(r, row->name, &used);
        if (status != PS_OK) {
            return status;
        }
        if (used == before || memchr(r->text + before, ',', used - before) != NULL) {
            return refuse(r, r->event.start_mark, "an element is empty or has a comma in it");
        }
    }
}

static enum ps_status read_value(struct reader *r, const struct ps_option *row)
{
    size_t used = 0;
    r->text[0] = '\0';
    if (r->event.type == YAML_SEQUENCE_START_EVENT &&
        (row->type == PS_OPTION_LIST_U32 || row->list)) {
        return read_list(r, row);
    }
    return append_scalar(r, row->name, &used);
}

/* Against the row of each program that will take it. */
static enum ps_status check_value(const struct reader *r, const struct ps_program *section,
                                  const struct key *key, yaml_mark_t mark)
{
    for (size_t i = 0; r->job[i] != NULL; i++) {
        const struct ps_option *row = section == NULL || section == r->job[i]
                                          ? ps_conf_row_find(r->job[i], key->name, key->n_bytes)
                                          : NULL;
        if (row == NULL) {
            continue;
        }
        char place[PS_CONF_PATH_WORDS_BYTES + 48];
        place_words(r, mark, place, sizeof(place));
        char label[PS_CONF_LABEL_BYTES + PS_CONF_NAME_BYTES_MAX];
        (void)snprintf(label, sizeof(label), "%s: %s", place, row->name);
        enum ps_status status = ps_conf_check(row, label, r->text, r->err);
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

static enum ps_status keep(struct reader *r, const struct ps_program *section, const char *name,
                           const struct key *key)
{
    for (const struct ps_conf_entry *at = r->file->first; at != NULL; at = at->next) {
        if (at->section == section && strcmp(at->name, name) == 0) {
            char why[PS_CONF_LABEL_BYTES];
            (void)snprintf(why, sizeof(why), "%s is given twice, first in line %" PRIu32, name,
                           at->line);
            return refuse(r, key->mark, why);
        }
    }
    size_t n_text = strlen(r->text) + 1;
    struct ps_conf_entry *entry = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*entry) + n_text);
    if (entry == NULL) {
        return ps_fail(r->err, PS_ERR_NOMEM, "%s: no memory", r->path);
    }
    entry->section = section;
    entry->name = name;
    entry->line = (uint32_t)key->mark.line + 1;
    memcpy(entry->text, r->text, n_text);
    if (r->file->last != NULL) {
        r->file->last->next = entry;
    } else {
        r->file->first = entry;
    }
    r->file->last = entry;
    return PS_OK;
}

static enum ps_status read_setting(struct reader *r, const struct ps_program *section,
                                   const struct key *key)
{
    const struct ps_program *program = knower(r, section, key);
    if (program == NULL) {
        return refuse_key(r, section, key);
    }
    const struct ps_option *row = ps_conf_row_find(program, key->name, key->n_bytes);
    yaml_mark_t mark = r->event.start_mark;
    enum ps_status status = read_value(r, row);
    if (status == PS_OK) {
        status = check_value(r, section, key, mark);
    }
    return status == PS_OK ? keep(r, section, row->name, key) : status;
}

/* ---- Structure ------------------------------------------------------------------------------ */

/* The mapping that has begun is a program's own. */
static enum ps_status read_section(struct reader *r, const struct ps_program *section)
{
    for (;;) {
        struct key key = {0};
        enum ps_status status = next(r);
        if (status != PS_OK || r->event.type == YAML_MAPPING_END_EVENT) {
            return status;
        }
        status = read_key(r, &key);
        if (status == PS_OK) {
            status = next(r);
        }
        if (status == PS_OK) {
            status = read_setting(r, section, &key);
        }
        if (status != PS_OK) {
            return status;
        }
    }
}

static enum ps_status begin_section(struct reader *r, size_t index, const struct key *key)
{
    char why[PS_CONF_LABEL_BYTES];
    const char *name = r->job[index]->name;
    if ((r->sections_seen & 1u << index) != 0) {
        (void)snprintf(why, sizeof(why), "section %s is there twice", name);
        return refuse(r, key->mark, why);
    }
    r->sections_seen |= 1u << index;
    if (is_null(&r->event)) {
        return PS_OK; /* All of its lines are comments. */
    }
    if (r->event.type != YAML_MAPPING_START_EVENT) {
        (void)snprintf(why, sizeof(why), "%s is a section: settings are expected below it", name);
        return refuse(r, key->mark, why);
    }
    return read_section(r, r->job[index]);
}

/* A line of the outermost level: a section, or a setting for all. */
static enum ps_status read_line(struct reader *r, const struct key *key)
{
    for (size_t i = 0; r->job[i] != NULL; i++) {
        if (strlen(r->job[i]->name) == key->n_bytes &&
            memcmp(r->job[i]->name, key->name, key->n_bytes) == 0) {
            return begin_section(r, i, key);
        }
    }
    return read_setting(r, NULL, key);
}

static enum ps_status read_document(struct reader *r)
{
    enum ps_status status = next(r);
    if (status != PS_OK || is_null(&r->event)) {
        return status;
    }
    if (r->event.type != YAML_MAPPING_START_EVENT) {
        return refuse(r, r->event.start_mark, "lines are expected such as staleness: 4");
    }
    for (;;) {
        struct key key = {0};
        status = next(r);
        if (status != PS_OK || r->event.type == YAML_MAPPING_END_EVENT) {
            return status;
        }
        status = read_key(r, &key);
        if (status == PS_OK) {
            status = next(r);
        }
        if (status == PS_OK) {
            status = read_line(r, &key);
        }
        if (status != PS_OK) {
            return status;
        }
    }
}

/* One document at most; a file without one sets nothing. */
static enum ps_status read_stream(struct reader *r)
{
    enum ps_status status = next(r); /* The stream begins. */
    if (status == PS_OK) {
        status = next(r);
    }
    if (status != PS_OK || r->event.type == YAML_STREAM_END_EVENT) {
        return status;
    }
    status = read_document(r);
    if (status == PS_OK) {
        status = next(r); /* The document ends. */
    }
    if (status == PS_OK) {
        status = next(r);
    }
    if (status == PS_OK && r->event.type != YAML_STREAM_END_EVENT) {
        return refuse(r, r->event.start_mark, "a second document; a job file has one");
    }
    return status;
}

enum ps_status ps_conf_file_parse(struct ps_conf_file *file, const struct ps_program *program,
                                  const char *path, const uint8_t *bytes, size_t n_bytes,
                                  struct ps_error *err)
{
    const struct ps_program *const alone[] = {program, NULL};
    *file = (struct ps_conf_file){0};
    struct reader r = {
        .file = file,
        .job = program->job != NULL ? program->job : alone,
        .bytes = bytes,
        .err = err,
    };
    ps_conf_path_words(path, r.path, sizeof(r.path));
    if (n_bytes > PS_JOB_FILE_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%s: longer than %u bytes", r.path,
                       PS_JOB_FILE_BYTES_MAX);
    }
    if (yaml_parser_initialize(&r.parser) == 0) {
        return ps_fail(err, PS_ERR_NOMEM, "%s: no memory", r.path);
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING); /* Others are not guessed. */
    yaml_parser_set_input_string(&r.parser, bytes, n_bytes);
    enum ps_status status = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}

enum ps_status ps_conf_file_read(struct ps_conf_file *file, const struct ps_program *program,
                                 const char *path, const char *label, struct ps_error *err)
{
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    *file = (struct ps_conf_file){0};
    enum ps_status status = ps_file_read(NULL, path, PS_JOB_FILE_BYTES_MAX, &bytes, &n_bytes, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "%s", label);
    }
    status = ps_conf_file_parse(file, program, path, bytes, n_bytes, err);
    ps_mem_free(bytes);
    return status;
}

void ps_conf_file_deinit(struct ps_conf_file *file)
{
    for (struct ps_conf_entry *at = file->first; at != NULL;) {
        struct ps_conf_entry *following = at->next;
        ps_mem_free(at);
        at = following;
    }
    *file = (struct ps_conf_file){0};
}
