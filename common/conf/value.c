/* value.c — see value.h. */
#include "conf/value.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/id.h"
#include "conf/number.h"

#define RANGE_BYTES 96
#define WORDS_BYTES 160

/* What a value may be, once read. */
union value {
    const char *text;
    bool truth;
    uint64_t whole;
    double real;
    uint32_t index;
    struct ps_u32_list list;
    struct ps_id id;
};

static bool has_max(const struct ps_option *row)
{
    bool all = row->max == UINT64_MAX || (row->type == PS_OPTION_U32 && row->max == UINT32_MAX);
    return row->max != 0 && !all;
}

void ps_conf_range(const struct ps_option *row, char *text, size_t n_bytes)
{
    text[0] = '\0';
    if (row->type == PS_OPTION_STRING) {
        return; /* Its bounds are those of a path or an address: nobody needs to be told. */
    }
    if (row->type == PS_OPTION_F32 || row->type == PS_OPTION_F64) {
        if (row->f_min != 0 || row->f_max != 0) {
            (void)snprintf(text, n_bytes, "%g to %g", row->f_min, row->f_max);
        }
        return;
    }
    if (has_max(row)) {
        (void)snprintf(text, n_bytes, "%" PRIu64 " to %" PRIu64, row->min, row->max);
    } else if (row->min != 0) {
        (void)snprintf(text, n_bytes, "%" PRIu64 " and more", row->min);
    }
}

/* Append to a text of `n_bytes`; what does not fit is cut. */
static void append(char *text, size_t n_bytes, const char *more)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, n_bytes - used, "%s", more);
}

static void join_words(const struct ps_option *row, char *text, size_t n_bytes)
{
    text[0] = '\0';
    for (const char *const *word = row->words; *word != NULL; word++) {
        if (word != row->words) {
            append(text, n_bytes, "|");
        }
        append(text, n_bytes, *word);
    }
}

void ps_conf_kind(const struct ps_option *row, char *text, size_t n_bytes)
{
    const char *kind = "";
    switch (row->type) {
    case PS_OPTION_STRING: kind = row->unit != NULL ? row->unit : "TEXT"; break;
    case PS_OPTION_BOOL: break;
    case PS_OPTION_U32:
    case PS_OPTION_U64: kind = "N"; break;
    case PS_OPTION_F32:
    case PS_OPTION_F64: kind = "X"; break;
    case PS_OPTION_BYTES: kind = "BYTES"; break;
    case PS_OPTION_DURATION_MS: kind = "TIME"; break;
    case PS_OPTION_ENUM: join_words(row, text, n_bytes); return;
    case PS_OPTION_ID: kind = "HEX"; break;
    case PS_OPTION_LIST_U32: kind = "N,N,..."; break;
    }
    (void)snprintf(text, n_bytes, "%s", kind);
}

static enum ps_status refuse_range(const struct ps_option *row, const char *label, const char *text,
                                   struct ps_error *err)
{
    char range[RANGE_BYTES];
    ps_conf_range(row, range, sizeof(range));
    bool ms = row->type == PS_OPTION_DURATION_MS;
    const char *unit = ms ? "ms" : row->unit;
    bool named = unit != NULL && unit[0] != '\0';
    return ps_fail(err, PS_ERR_INVALID, "%s: '%.60s' is out of range: %s%s%s", label, text, range,
                   named ? " " : "", named ? unit : "");
}

static bool within(const struct ps_option *row, uint64_t value)
{
    return value >= row->min && (row->max == 0 || value <= row->max);
}

/* What a text says is for others to judge; how long it is, and whether a word, for us. */
static enum ps_status check_text(const struct ps_option *row, const char *label, const char *text,
                                 struct ps_error *err)
{
    size_t n_bytes = strlen(text);
    if (row->word && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.-")] != '\0') {
        return ps_fail(err, PS_ERR_INVALID, "%s: '%.60s' has more in it than a-z, 0-9, _, . and -",
                       label, text);
    }
    if (within(row, n_bytes)) {
        return PS_OK;
    }
    return ps_fail(err, PS_ERR_INVALID, "%s: expected %" PRIu64 " to %" PRIu64 " bytes, got %zu",
                   label, row->min, row->max, n_bytes);
}

static enum ps_status read_whole(const struct ps_option *row, const char *label, const char *text,
                                 uint64_t *ret, struct ps_error *err)
{
    const char *form = "a whole number, such as 8";
    bool read = false;
    if (row->type == PS_OPTION_BYTES) {
        form = "a size, such as 64KiB or 1.5GiB";
        read = ps_number_bytes(text, ret);
    } else if (row->type == PS_OPTION_DURATION_MS) {
        form = "a time with a unit, such as 250ms, 1.5s, 2m or 1h";
        read = ps_number_duration_ms(text, ret);
    } else {
        read = ps_number_u64(text, ret);
    }
    if (!read) {
        return ps_fail(err, PS_ERR_INVALID, "%s: '%.60s' is not %s", label, text, form);
    }
    if (row->type == PS_OPTION_U32 && row->max == 0 && *ret > UINT32_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%s: '%.60s' is too large", label, text);
    }
    return within(row, *ret) ? PS_OK : refuse_range(row, label, text, err);
}

static enum ps_status read_real(const struct ps_option *row, const char *label, const char *text,
                                double *ret, struct ps_error *err)
{
    if (!ps_number_f64(text, ret)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%s: '%.60s' is not a finite number, such as 0.1 or 1e-3", label, text);
    }
    if (row->type == PS_OPTION_F32 && fabs(*ret) > (double)FLT_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%s: '%.60s' is too large", label, text);
    }
    bool bound = row->f_min != 0 || row->f_max != 0;
    return !bound || (*ret >= row->f_min && *ret <= row->f_max)
               ? PS_OK
               : refuse_range(row, label, text, err);
}

static enum ps_status read_bool(const char *label, const char *text, bool *ret,
                                struct ps_error *err)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < PS_ARRAY_LEN(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *ret = strcmp(text, yes[i]) == 0;
            return PS_OK;
        }
    }
    return ps_fail(err, PS_ERR_INVALID, "%s: '%.60s' is neither true nor false", label, text);
}

static enum ps_status read_enum(const struct ps_option *row, const char *label, const char *text,
                                uint32_t *ret, struct ps_error *err)
{
    for (uint32_t i = 0; row->words[i] != NULL; i++) {
        if (strcmp(row->words[i], text) == 0) {
            *ret = i;
            return PS_OK;
        }
    }
    char words[WORDS_BYTES];
    join_words(row, words, sizeof(words));
    return ps_fail(err, PS_ERR_INVALID, "%s: '%.40s' is none of %s", label, text, words);
}

static enum ps_status read_list(const struct ps_option *row, const char *label, const char *text,
                                struct ps_u32_list *ret, struct ps_error *err)
{
    *ret = (struct ps_u32_list){0};
    if (!ps_number_list_u32(text, ret->values, PS_CONF_LIST_MAX, &ret->n)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%s: '%.60s' is not a list of at most %u whole numbers, such as 128,64",
                       label, text, PS_CONF_LIST_MAX);
    }
    for (uint32_t i = 0; i < ret->n; i++) {
        if (!within(row, ret->values[i])) {
            return refuse_range(row, label, text, err);
        }
    }
    return PS_OK;
}

static enum ps_status read_id(const char *label, const char *text, struct ps_id *ret,
                              struct ps_error *err)
{
    return ps_id_parse(text, ret)
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "%s: '%.60s' is not 32 hexadecimal digits", label,
                         text);
}

static enum ps_status read_value(const struct ps_option *row, const char *label, const char *text,
                                 union value *ret, struct ps_error *err)
{
    size_t n_bytes = strlen(text); /* 0...01 is a number of any length. */
    if (n_bytes >= PS_CONF_TEXT_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%s: a value has at most %u bytes, this one %zu", label,
                       PS_CONF_TEXT_BYTES_MAX - 1, n_bytes);
    }
    switch (row->type) {
    case PS_OPTION_STRING: ret->text = text; return check_text(row, label, text, err);
    case PS_OPTION_BOOL: return read_bool(label, text, &ret->truth, err);
    case PS_OPTION_U32:
    case PS_OPTION_U64:
    case PS_OPTION_BYTES:
    case PS_OPTION_DURATION_MS: return read_whole(row, label, text, &ret->whole, err);
    case PS_OPTION_F32:
    case PS_OPTION_F64: return read_real(row, label, text, &ret->real, err);
    case PS_OPTION_ENUM: return read_enum(row, label, text, &ret->index, err);
    case PS_OPTION_ID: return read_id(label, text, &ret->id, err);
    case PS_OPTION_LIST_U32: return read_list(row, label, text, &ret->list, err);
    }
    PS_UNREACHABLE("a row of a type that is none");
}

/* The struct's field is named by an offset, so the store is a copy of as many bytes as its type. */
static void write_value(const struct ps_option *row, void *base, const union value *value)
{
    char *to = (char *)base + row->offset;
    uint32_t narrow = (uint32_t)value->whole;
    float real = row->type == PS_OPTION_F32 ? (float)value->real : 0.0f;
    switch (row->type) {
    case PS_OPTION_STRING: memcpy(to, &value->text, sizeof(value->text)); return;
    case PS_OPTION_BOOL: memcpy(to, &value->truth, sizeof(value->truth)); return;
    case PS_OPTION_U32: memcpy(to, &narrow, sizeof(narrow)); return;
    case PS_OPTION_U64:
    case PS_OPTION_BYTES:
    case PS_OPTION_DURATION_MS: memcpy(to, &value->whole, sizeof(value->whole)); return;
    case PS_OPTION_F32: memcpy(to, &real, sizeof(real)); return;
    case PS_OPTION_F64: memcpy(to, &value->real, sizeof(value->real)); return;
    case PS_OPTION_ENUM: memcpy(to, &value->index, sizeof(value->index)); return;
    case PS_OPTION_ID: memcpy(to, &value->id, sizeof(value->id)); return;
    case PS_OPTION_LIST_U32: memcpy(to, &value->list, sizeof(value->list)); return;
    }
    PS_UNREACHABLE("a row of a type that is none");
}

enum ps_status ps_conf_store(const struct ps_option *row, void *base, const char *label,
                             const char *text, struct ps_error *err)
{
    union value value = {0};
    enum ps_status status = read_value(row, label, text, &value, err);
    if (status != PS_OK) {
        return status;
    }
    write_value(row, base, &value);
    return PS_OK;
}

enum ps_status ps_conf_check(const struct ps_option *row, const char *label, const char *text,
                             struct ps_error *err)
{
    union value value = {0};
    return read_value(row, label, text, &value, err);
}
