/*
 * libsvm.c — "label index:value index:value ..." as LIBSVM, svmlight and XGBoost write it.
 *
 * Blanks and tabs anywhere between words; '#' begins a comment; "qid:N" words are passed over and
 * counted; a line without anything is no row, a line with only a label is one. Indices may come in
 * any order; the values of an index that comes twice are added up. A value of 0 is not stored. The
 * key of a feature is its index minus the base, so that data that count from 0 and from 1 make the
 * same model. Labels are numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "data/decimal.h"
#include "data/format.h"
#include "data/learning.h"

#define SIZE_TOLD 100.0f /* Values beyond it make usual rates diverge; the user is told. */

/* A feature takes at least 4 bytes: "1:1 ". */
#define FEATURE_BYTES_MIN 4u

/* A line on its way to become a row. */
struct scan {
    struct ps_rows *rows;
    const char *end; /* Of the line; *end is no part of a word. */
    uint64_t base;
    size_t n;           /* Features end here in rows. */
    uint64_t index_min; /* UINT64_MAX without features. */
    uint64_t index_max;
    uint64_t n_qids;
    float label;
    bool labelled;
    bool ordered;
};

static inline bool ends_word(const char *at, const char *end)
{
    return at >= end || *at == ' ' || *at == '\t' || *at == '#';
}

static inline const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    return at;
}

static const char *word_end(const char *at, const char *end)
{
    while (!ends_word(at, end)) {
        at++;
    }
    return at;
}

static bool begins(const char *at, const char *end, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(end - at) >= n && memcmp(at, with, n) == 0;
}

/* Number of colons in a word. */
static size_t colons(const char *at, const char *behind)
{
    size_t n = 0;
    for (; at < behind; at++) {
        n += *at == ':';
    }
    return n;
}

/* Say what is wrong with the word at `at`, which is no feature. */
static PS_COLD enum ps_status refuse_word(const struct scan *scan, const char *at,
                                          struct ps_error *err)
{
    const char *behind = word_end(at, scan->end);
    size_t n = (size_t)(behind - at);
    char shown[PS_FOUND_BYTES];
    uint64_t index = 0;
    bool fits = true;
    const char *colon = ps_decimal_u64(at, &index, &fits);
    ps_found(shown, at, n);
    if (colons(at, behind) == 2) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s' has two colons: this is libffm (field:index:value), which cannot be "
                       "read as libsvm",
                       shown);
    }
    if (colon != NULL && *colon == ':' && !fits) {
        return ps_fail(err, PS_ERR_INVALID, "the index of '%s' does not fit 64 bits", shown);
    }
    float value = 0.0f;
    if (colon != NULL && *colon == ':' && colon + 1 < behind &&
        ps_decimal_whole(colon + 1, (size_t)(behind - colon - 1), &value)) {
        return ps_fail(err, PS_ERR_INVALID, "the value of '%s' is too large for a 32-bit float",
                       shown);
    }
    return ps_fail(err, PS_ERR_INVALID, "expected index:value, two decimal numbers, found '%s'",
                   shown);
}

/* Most values of most data are one digit. */
static inline const char *scan_value(const char *at, float *ret)
{
    unsigned digit = (unsigned char)(*at - '0');
    if (digit <= 9 && at[1] == ' ') {
        *ret = (float)digit;
        return at + 1;
    }
    return ps_decimal_f32(at, ret);
}

/* All features from `at` on. */
static enum ps_status scan_features(struct scan *scan, const char *at, struct ps_error *err)
{
    uint64_t *keys = scan->rows->keys;
    float *values = scan->rows->values;
    const char *end = scan->end;
    size_t n = scan->n;
    uint64_t last = 0;
    bool any = false;
    bool ordered = true;
    for (at = skip_blanks(at, end); at < end && *at != '#'; at = skip_blanks(at, end)) {
        uint64_t index = 0;
        float value = 0.0f;
        bool fits = true;
        const char *behind = ps_decimal_u64(at, &index, &fits);
        if (behind != NULL && *behind == ':' && fits) {
            behind = scan_value(behind + 1, &value);
        } else if (begins(at, end, "qid:")) {
            scan->n_qids++;
            at = word_end(at, end);
            continue;
        } else {
            behind = NULL;
        }
        if (behind == NULL || !ends_word(behind, end) || isinf(value)) {
            return refuse_word(scan, at, err);
        }
        at = behind;
        ordered &= index > last || !any;
        any = true;
        last = index;
        scan->index_min = index < scan->index_min ? index : scan->index_min;
        scan->index_max = index > scan->index_max ? index : scan->index_max;
        keys[n] = index - scan->base;
        values[n] = value;
        n += value != 0.0f;
    }
    scan->n = n;
    scan->ordered = ordered;
    return PS_OK;
}

/* The label, unless the line begins with a feature. */
static enum ps_status scan_label(struct scan *scan, const char **at, struct ps_error *err)
{
    const char *behind = ps_decimal_f32(*at, &scan->label);
    if (behind != NULL && ends_word(behind, scan->end)) {
        scan->labelled = true;
        *at = behind;
        return PS_OK;
    }
    const char *word = word_end(*at, scan->end);
    if (colons(*at, word) > 0) {
        return PS_OK;
    }
    char shown[PS_FOUND_BYTES];
    return ps_fail(err, PS_ERR_INVALID, "expected a label, one decimal number, found '%s'",
                   ps_found(shown, *at, (size_t)(word - *at)));
}

/* Scan the whole line into `rows` without closing the row. `*ret_row`: there is something in it. */
static enum ps_status scan_line(struct scan *scan, const struct ps_line *line, bool *ret_row,
                                struct ps_error *err)
{
    scan->end = line->text + line->n_bytes;
    const char *at = skip_blanks(line->text, scan->end);
    *ret_row = at < scan->end && *at != '#';
    if (!*ret_row) {
        return PS_OK;
    }
    if (!ps_rows_reserve(scan->rows, line->n_bytes / FEATURE_BYTES_MIN + 1)) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a line of %zu bytes", line->n_bytes);
    }
    size_t first = ps_rows_features(scan->rows);
    scan->n = first;
    scan->index_min = UINT64_MAX;
    enum ps_status status = scan_label(scan, &at, err);
    if (status == PS_OK) {
        status = scan_features(scan, at, err);
    }
    if (status == PS_OK && !scan->ordered) {
        scan->n = ps_rows_tidy(scan->rows, first, scan->n);
    }
    return status;
}

/* The sum of values of one index may be infinite though each of them is not. */
static enum ps_status check_sums(const struct scan *scan, size_t first, struct ps_error *err)
{
    for (size_t i = first; i < scan->n; i++) {
        if (!isfinite(scan->rows->values[i])) {
            return ps_fail(err, PS_ERR_INVALID,
                           "the values of index %" PRIu64 " add up to no 32-bit float",
                           scan->rows->keys[i] + scan->base);
        }
    }
    return PS_OK;
}

static enum ps_status label_of(const struct ps_parse *parse, const struct scan *scan, float *ret,
                               struct ps_error *err)
{
    if (scan->labelled) {
        return ps_parse_label_number(parse, scan->label, ret, err);
    }
    *ret = NAN;
    return parse->label_optional
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "expected a label before the first index:value");
}

static void standardize(const struct ps_description *description, struct ps_rows *rows,
                        size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (rows->keys[i] < description->n_scales) {
            rows->values[i] *= description->scales[rows->keys[i]];
        }
    }
}

static enum ps_status parse(struct ps_parse *parse, struct ps_error *err)
{
    const struct ps_description *description = parse->description;
    struct ps_rows *rows = parse->rows;
    struct scan scan = {.rows = rows, .base = description->index_base};
    bool row = false;
    float label = 0.0f;
    size_t first = ps_rows_features(rows);
    enum ps_status status = scan_line(&scan, &parse->line, &row, err);
    if (status != PS_OK || !row) {
        return status;
    }
    if (scan.index_min < scan.base) {
        return ps_fail(
            err, PS_ERR_INVALID,
            "feature 0 where features are counted from 1: --index-base 0 says otherwise");
    }
    status = label_of(parse, &scan, &label, err);
    if (status == PS_OK && !scan.ordered) {
        status = check_sums(&scan, first, err);
    }
    if (status != PS_OK) {
        return status;
    }
    if (scan.n > first) {
        memset(rows->fields + first, 0, (scan.n - first) * sizeof(*rows->fields));
    }
    if (description->scales != NULL) {
        standardize(description, rows, first, scan.n);
    }
    parse->n_qids += scan.n_qids;
    ps_rows_close(rows, label, parse->line.number, scan.n);
    return PS_OK;
}

/* What is gathered over the sample. */
struct survey {
    struct ps_rows rows; /* Never more than one, never closed. */
    uint64_t index_min;
    uint64_t index_max;
    bool any_feature;
    uint64_t n_qids;
    float largest; /* Size of any value. */
    float *most;   /* [n_most] the largest size of a value per index; NULL: not wanted. */
    size_t n_most;
};

static enum ps_status note_sizes(struct survey *survey, struct ps_learning *learning, size_t n,
                                 struct ps_error *err)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t index = survey->rows.keys[i];
        if (index >= PS_SCALES_MAX) {
            return ps_fail(err, PS_ERR_UNSUPPORTED,
                           "index %" PRIu64 ": libsvm data are standardised up to index %u", index,
                           PS_SCALES_MAX - 1);
        }
        if (index >= survey->n_most) {
            size_t n_most = 2 * (size_t)index + 1;
            float *most = ps_mem_grow(learning->options->mem, PS_MEM_DATA, survey->most,
                                      n_most * sizeof(*most));
            if (most == NULL) {
                return ps_fail(err, PS_ERR_NOMEM, "no memory for %zu scales", n_most);
            }
            survey->most = most;
            survey->n_most = n_most;
        }
        survey->most[index] = fmaxf(survey->most[index], fabsf(survey->rows.values[i]));
    }
    return PS_OK;
}

/* Look at one line; errors are about the line. */
static enum ps_status survey_line(struct survey *survey, struct ps_learning *learning,
                                  const struct ps_line *line, struct ps_error *err)
{
    struct scan scan = {.rows = &survey->rows};
    bool row = false;
    enum ps_status status = ps_line_check(line, err);
    status = status == PS_OK ? scan_line(&scan, line, &row, err) : status;
    if (status != PS_OK || !row) {
        return status;
    }
    if (scan.index_min != UINT64_MAX || scan.index_max != 0) {
        survey->index_min = scan.index_min < survey->index_min ? scan.index_min : survey->index_min;
        survey->index_max = scan.index_max > survey->index_max ? scan.index_max : survey->index_max;
        survey->any_feature = true;
    }
    learning->description->n_rows++;
    survey->n_qids += scan.n_qids;
    for (size_t i = 0; i < scan.n; i++) {
        survey->largest = fmaxf(survey->largest, fabsf(survey->rows.values[i]));
    }
    if (learning->options->standardize == PS_CHOICE_YES) {
        status = note_sizes(survey, learning, scan.n, err);
    }
    if (status == PS_OK && scan.labelled) {
        status = ps_learning_label_number(learning, scan.label, err);
    }
    return status;
}

static enum ps_status survey_all(struct survey *survey, struct ps_learning *learning,
                                 struct ps_error *err)
{
    struct ps_error ignored;
    struct ps_error *words = err != NULL ? err : &ignored;
    for (;;) {
        struct ps_line line;
        enum ps_status status = ps_learning_next(learning, &line, words);
        if (status != PS_OK || line.kind == PS_LINE_END) {
            return status;
        }
        status = survey_line(survey, learning, &line, words);
        if (status != PS_OK) {
            status = ps_learning_bad(learning, &line, status, words);
        }
        if (status != PS_OK) {
            return status;
        }
    }
}

static enum ps_status conclude(struct survey *survey, struct ps_learning *learning,
                               struct ps_error *err)
{
    struct ps_description *description = learning->description;
    enum ps_choice zero_based = learning->options->zero_based;
    bool seen_0 = survey->any_feature && survey->index_min == 0;
    if (zero_based == PS_CHOICE_NO && seen_0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "the data hold a feature 0, but --index-base is 1: use 0 or auto");
    }
    bool from_0 = zero_based == PS_CHOICE_YES || seen_0;
    description->index_base = from_0 ? 0 : 1;
    uint64_t n_last = survey->any_feature ? survey->index_max - description->index_base : 0;
    description->n_features = survey->any_feature && n_last < UINT64_MAX ? n_last + 1 : n_last;
    (void)snprintf(learning->note, sizeof(learning->note),
                   "features are counted from %" PRIu32 " (%s), %" PRIu64 " of them",
                   description->index_base,
                   zero_based != PS_CHOICE_AUTO ? "--index-base"
                   : from_0                     ? "0 occurs"
                                                : "0 does not occur",
                   description->n_features);
    description->scaled = survey->most != NULL || survey->largest <= SIZE_TOLD;
    size_t used = strlen(learning->note);
    if (survey->largest > SIZE_TOLD && survey->most == NULL) {
        (void)snprintf(learning->note + used, sizeof(learning->note) - used,
                       ", values up to %.3g (--standardize yes brings them to one scale)",
                       (double)survey->largest);
    }
    used = strlen(learning->note);
    if (survey->n_qids > 0) {
        (void)snprintf(learning->note + used, sizeof(learning->note) - used,
                       ", %" PRIu64 " qid words passed over", survey->n_qids);
    }
    if (survey->most == NULL) {
        return PS_OK;
    }
    /*
     * Key k is index k + base: move down, and turn sizes into factors. The last indices may have
     * had no value but 0, and so no size. (The first of n_most is that of index 0.)
     */
    size_t n_scales = survey->n_most - description->index_base;
    n_scales = description->n_features < n_scales ? (size_t)description->n_features : n_scales;
    for (size_t k = 0; k < n_scales; k++) {
        float most = survey->most[k + description->index_base];
        survey->most[k] = most > 0.0f && isfinite(1.0f / most) ? 1.0f / most : 1.0f;
    }
    description->scales = survey->most;
    description->n_scales = (uint32_t)n_scales;
    survey->most = NULL;
    return PS_OK;
}

static enum ps_status learn(struct ps_learning *learning, struct ps_error *err)
{
    struct survey survey = {.index_min = UINT64_MAX};
    ps_rows_init(&survey.rows, learning->options->mem);
    enum ps_status status = survey_all(&survey, learning, err);
    if (status == PS_OK) {
        status = conclude(&survey, learning, err);
    }
    ps_rows_deinit(&survey.rows);
    ps_mem_free(survey.most);
    return status;
}

/* Labels are not looked at: they may be left out, or be others. */
static enum ps_status check(struct ps_learning *learning, struct ps_error *err)
{
    const struct ps_description *description = learning->description;
    struct survey survey = {.index_min = UINT64_MAX};
    ps_rows_init(&survey.rows, learning->options->mem);
    struct ps_labels none = {.given = true};
    struct ps_labels kept = description->labels;
    learning->description->labels = none;
    enum ps_status status = survey_all(&survey, learning, err);
    learning->description->labels = kept;
    ps_rows_deinit(&survey.rows);
    if (status != PS_OK || !survey.any_feature) {
        return status;
    }
    const char *path = learning->source->files[0].path;
    if (description->index_base == 1 && survey.index_min == 0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s' counts features from 0, the training data from 1: --index-base 0",
                       path);
    }
    /* From 0 there is no last index n_features: whoever writes it, and never 0, counts from 1. */
    if (description->index_base == 0 && survey.index_min > 0 &&
        survey.index_max == description->n_features) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s' seems to count features from 1, the training data from 0: "
                       "--index-base 1",
                       path);
    }
    return PS_OK;
}

/* Does the line consist of a number and of features? Counts the features. */
static bool looks_line(const struct ps_line *line, size_t *n_features, bool *ret_ffm)
{
    const char *end = line->text + line->n_bytes;
    const char *at = skip_blanks(line->text, end);
    float value = 0.0f;
    if (at == end || *at == '#') {
        return true;
    }
    at = ps_decimal_f32(at, &value);
    if (at == NULL || !ends_word(at, end)) {
        return false;
    }
    for (at = skip_blanks(at, end); at < end && *at != '#'; at = skip_blanks(at, end)) {
        const char *behind = word_end(at, end);
        size_t n_colons = colons(at, behind);
        if (n_colons != 1) {
            *ret_ffm = n_colons == 2;
            return false;
        }
        *n_features += 1;
        at = behind;
    }
    return true;
}

static bool looks(const struct ps_head *head, char *why, size_t n_room)
{
    size_t n_features = 0;
    bool ffm = false;
    for (uint32_t i = 0; i < head->n_lines; i++) {
        if (!looks_line(&head->lines[i], &n_features, &ffm)) {
            (void)snprintf(why, n_room, "%s",
                           ffm ? "they look like libffm (field:index:value), which is not read"
                               : "");
            return false;
        }
    }
    (void)snprintf(why, n_room, "%s",
                   n_features > 0 ? "lines are a label and index:value words" : "");
    return n_features > 0;
}

const struct ps_format ps_format_libsvm = {
    .name = "libsvm",
    .help = "label index:value index:value ...",
    .looks = looks,
    .learn = learn,
    .check = check,
    .parse = parse,
};
