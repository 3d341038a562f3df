/* labels.c — see labels.h. */
#include "data/labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "data/decimal.h"
#include "data/format.h"

#define LABELS_MIN     8u
#define SHOWN_MAX      8u  /* More in one line help nobody. */
#define NUMBER_BYTES   32u /* "%.9g" takes 16. */
#define TEXT_SHOWN_MAX 24

/* A label that is looked for: a number, or a text without its full stop. */
struct wanted {
    const char *text;
    size_t n_bytes;
    float number;
};

/* What comes out is its own result: a label that was stored means the same when it is read back. */
static struct wanted wanted_from(const char *text, size_t n_bytes)
{
    struct wanted wanted = {.text = text, .n_bytes = n_bytes};
    while (!ps_decimal_whole(text, wanted.n_bytes, &wanted.number)) {
        wanted.number = NAN;
        if (wanted.n_bytes <= 1 || text[wanted.n_bytes - 1] != '.') {
            break;
        }
        wanted.n_bytes--;
    }
    return wanted;
}

/* The order of labels: numbers by value, then texts by bytes. */
static int compare(const struct wanted *wanted, const struct ps_label *label)
{
    bool text = isnan(wanted->number);
    bool other_text = isnan(label->number);
    if (text != other_text) {
        return text ? 1 : -1;
    }
    if (!text) {
        return (wanted->number > label->number) - (wanted->number < label->number);
    }
    size_t n = strlen(label->text);
    int order = memcmp(wanted->text, label->text, n < wanted->n_bytes ? n : wanted->n_bytes);
    return order != 0 ? order : (wanted->n_bytes > n) - (wanted->n_bytes < n);
}

/* True when the label is there; `*ret` is its place, or the place where it belongs. */
static bool search(const struct ps_labels *labels, const struct wanted *wanted, uint32_t *ret)
{
    uint32_t low = 0;
    uint32_t high = labels->n;
    if (labels->given) {
        while (low < high && compare(wanted, &labels->at[low]) != 0) {
            low++;
        }
        *ret = low;
        return low < high;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare(wanted, &labels->at[middle]);
        if (order == 0) {
            *ret = middle;
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    *ret = low;
    return false;
}

void ps_labels_init(struct ps_labels *labels, struct ps_mem *mem)
{
    *labels = (struct ps_labels){.mem = mem};
}

void ps_labels_deinit(struct ps_labels *labels)
{
    for (uint32_t i = 0; i < labels->n; i++) {
        ps_mem_free(labels->at[i].text);
    }
    ps_mem_free(labels->at);
    *labels = (struct ps_labels){.mem = labels->mem};
}

static bool make_room(struct ps_labels *labels)
{
    if (labels->n < labels->capacity) {
        return true;
    }
    uint32_t n = labels->capacity == 0 ? LABELS_MIN : 2 * labels->capacity;
    struct ps_label *at =
        ps_mem_grow(labels->mem, PS_MEM_DATA, labels->at, n * sizeof(*labels->at));
    if (at == NULL) {
        return false;
    }
    labels->at = at;
    labels->capacity = n;
    return true;
}

static char *text_of(struct ps_labels *labels, const struct wanted *wanted)
{
    char number[NUMBER_BYTES];
    const char *from = wanted->text;
    size_t n = wanted->n_bytes;
    if (!isnan(wanted->number)) {
        /* Digits and a point: a label is written the same wherever the program runs. */
        int n_digits = snprintf(number, sizeof(number), "%.9g", (double)wanted->number);
        n = n_digits < 0 ? 0 : (size_t)n_digits;
        char *comma = strchr(number, ',');
        if (comma != NULL) {
            *comma = '.';
        }
        from = number;
    }
    char *text = ps_mem_alloc(labels->mem, PS_MEM_DATA, n + 1);
    if (text != NULL) {
        memcpy(text, from, n);
    }
    return text;
}

static enum ps_status add(struct ps_labels *labels, const struct wanted *wanted,
                          struct ps_error *err)
{
    uint32_t place = 0;
    if (search(labels, wanted, &place)) {
        return PS_OK;
    }
    if (wanted->n_bytes == 0 && isnan(wanted->number)) {
        return ps_fail(err, PS_ERR_INVALID, "expected a label, found nothing");
    }
    if (isnan(wanted->number) && !ps_utf8_valid(wanted->text, wanted->n_bytes)) {
        char shown[PS_FOUND_BYTES];
        return ps_fail(err, PS_ERR_INVALID,
                       "the label '%s' is not UTF-8: convert the data, for instance by iconv",
                       ps_found(shown, wanted->text, wanted->n_bytes));
    }
    if (isinf(wanted->number)) {
        return ps_fail(err, PS_ERR_INVALID, "the label is too large for a 32-bit float");
    }
    if (labels->n == PS_LABELS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "more than %u distinct labels", PS_LABELS_MAX);
    }
    char *text = make_room(labels) ? text_of(labels, wanted) : NULL;
    if (text == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %" PRIu32 " labels", labels->n + 1);
    }
    memmove(labels->at + place + 1, labels->at + place, (labels->n - place) * sizeof(*labels->at));
    labels->at[place] = (struct ps_label){.text = text, .number = wanted->number};
    labels->n++;
    return PS_OK;
}

enum ps_status ps_labels_add(struct ps_labels *labels, const char *text, size_t n_bytes,
                             struct ps_error *err)
{
    struct wanted wanted = wanted_from(text, n_bytes);
    return add(labels, &wanted, err);
}

enum ps_status ps_labels_add_number(struct ps_labels *labels, float number, struct ps_error *err)
{
    struct wanted wanted = {.text = "", .number = number};
    return add(labels, &wanted, err);
}

enum ps_status ps_labels_give(struct ps_labels *labels, const char *list, struct ps_error *err)
{
    labels->given = true;
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        uint32_t n_before = labels->n;
        enum ps_status status = ps_labels_add(labels, at, n, err);
        if (status == PS_OK && labels->n == n_before) {
            status = ps_fail(err, PS_ERR_INVALID, "a label is named twice in '%s'", list);
        }
        at += n;
        if (status != PS_OK || *at == '\0') {
            return status;
        }
    }
}

bool ps_labels_find(const struct ps_labels *labels, const char *text, size_t n_bytes, uint32_t *ret)
{
    struct wanted wanted = wanted_from(text, n_bytes);
    return search(labels, &wanted, ret);
}

bool ps_labels_find_number(const struct ps_labels *labels, float number, uint32_t *ret)
{
    struct wanted wanted = {.text = "", .number = number};
    return search(labels, &wanted, ret);
}

void ps_labels_text(const struct ps_labels *labels, char *text, size_t n_room)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < labels->n && used < n_room; i++) {
        int n = i == SHOWN_MAX
                    ? snprintf(text + used, n_room - used, ", ...")
                    : snprintf(text + used, n_room - used, "%s%.*s is %" PRIu32, i == 0 ? "" : ", ",
                               TEXT_SHOWN_MAX, labels->at[i].text, i);
        used += n < 0 ? 0 : (size_t)n;
        if (i == SHOWN_MAX) {
            return;
        }
    }
}
