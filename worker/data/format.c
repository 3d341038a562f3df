/* format.c — see format.h. */
#include "data/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <strings.h>

#include "data/decimal.h"

#define WHY_BYTES 160u

static const struct ps_format *const formats[] = {
    &ps_format_libsvm,
    &ps_format_criteo,
    &ps_format_csv,
    &ps_format_tsv,
};

const struct ps_format *const *ps_format_all(size_t *ret_n)
{
    *ret_n = PS_ARRAY_LEN(formats);
    return formats;
}

const struct ps_format *ps_format_find(const char *name)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(formats); i++) {
        if (strcmp(formats[i]->name, name) == 0) {
            return formats[i];
        }
    }
    return NULL;
}

enum ps_status ps_format_guess(const struct ps_head *head, const struct ps_format **ret, char *why,
                               size_t n_room, struct ps_error *err)
{
    const struct ps_format *found = NULL;
    char reason[WHY_BYTES] = "";
    char hint[WHY_BYTES] = "";
    for (size_t i = 0; i < PS_ARRAY_LEN(formats); i++) {
        char text[WHY_BYTES] = "";
        bool looks = formats[i]->looks(head, text, sizeof(text));
        if (looks && found != NULL) {
            return ps_fail(err, PS_ERR_INVALID,
                           "the first lines look like %s and like %s: say which by --format",
                           found->name, formats[i]->name);
        }
        if (looks) {
            found = formats[i];
            memcpy(reason, text, sizeof(reason));
        } else if (text[0] != '\0') {
            memcpy(hint, text, sizeof(hint));
        }
    }
    if (found == NULL) {
        return ps_fail(err, PS_ERR_INVALID,
                       "the first lines look like no known format%s%s: say which by --format",
                       hint[0] != '\0' ? "; " : "", hint);
    }
    *ret = found;
    (void)snprintf(why, n_room, "%s", reason);
    return PS_OK;
}

const char *ps_found(char shown[PS_FOUND_BYTES], const char *text, size_t n_bytes)
{
    size_t n = n_bytes < PS_FOUND_BYTES - 4 ? n_bytes : PS_FOUND_BYTES - 4;
    for (size_t i = 0; i < n; i++) {
        bool printable = text[i] >= 0x20 && text[i] < 0x7f;
        shown[i] = '?';
        if (printable) {
            shown[i] = text[i];
        }
    }
    memcpy(shown + n, n < n_bytes ? "..." : "", n < n_bytes ? 4 : 1);
    return shown;
}

bool ps_is_missing(const char *text, size_t n_bytes)
{
    static const char *const marks[] = {"?", "NA", "N/A", "NaN", "NULL", "None"};
    if (n_bytes == 0) {
        return true;
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(marks); i++) {
        if (strlen(marks[i]) == n_bytes && strncasecmp(text, marks[i], n_bytes) == 0) {
            return true;
        }
    }
    return false;
}

static enum ps_status unknown_label(const struct ps_parse *parse, const char *text, size_t n_bytes,
                                    float *ret, struct ps_error *err)
{
    if (parse->label_optional) {
        *ret = NAN;
        return PS_OK;
    }
    char shown[PS_FOUND_BYTES];
    char known[96];
    ps_labels_text(&parse->description->labels, known, sizeof(known));
    return ps_fail(err, PS_ERR_INVALID, "label '%s' is unknown; the training data have %s%s",
                   ps_found(shown, text, n_bytes), known,
                   parse->description->all_seen ? "" : " as far as they were looked at");
}

enum ps_status ps_parse_label_number(const struct ps_parse *parse, float number, float *ret,
                                     struct ps_error *err)
{
    if (parse->description->task == PS_TASK_VALUE) {
        if (isinf(number)) {
            return ps_fail(err, PS_ERR_INVALID, "the label is too large for a 32-bit float");
        }
        *ret = number;
        return PS_OK;
    }
    uint32_t found = 0;
    if (ps_labels_find_number(&parse->description->labels, number, &found)) {
        *ret = (float)found;
        return PS_OK;
    }
    char text[32];
    int n = snprintf(text, sizeof(text), "%.9g", (double)number);
    return unknown_label(parse, text, n < 0 ? 0 : (size_t)n, ret, err);
}

enum ps_status ps_parse_label(const struct ps_parse *parse, const char *text, size_t n_bytes,
                              float *ret, struct ps_error *err)
{
    float number = 0.0f;
    if (ps_decimal_whole(text, n_bytes, &number)) {
        return ps_parse_label_number(parse, number, ret, err);
    }
    uint32_t found = 0;
    if (parse->description->task != PS_TASK_VALUE &&
        ps_labels_find(&parse->description->labels, text, n_bytes, &found)) {
        *ret = (float)found;
        return PS_OK;
    }
    if (parse->label_optional || parse->description->task != PS_TASK_VALUE) {
        return unknown_label(parse, text, n_bytes, ret, err);
    }
    char shown[PS_FOUND_BYTES];
    return ps_fail(err, PS_ERR_INVALID, "expected a number as label, found '%s'",
                   ps_found(shown, text, n_bytes));
}
