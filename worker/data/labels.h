#ifndef PS_WORKER_DATA_LABELS_H
#define PS_WORKER_DATA_LABELS_H
/*
 * data/labels.h — which labels there are, and the class that each of them means.
 *
 * Labels are numbers (compared by value: 1, +1 and 1.000 are one label) or texts (compared by
 * bytes, without full stops at the end, for some sets write "<=50K" here and "<=50K." there).
 * Class i is the i-th label in order: numbers by value, then texts by bytes; so of two the lower is
 * class 0, the negative one. A set that was given by its user keeps the order given.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_mem;

struct ps_label {
    char *text;   /* For people and for the description; numbers in their shortest form. */
    float number; /* NaN: a text. */
};

struct ps_labels {
    struct ps_mem *mem;
    struct ps_label *at; /* [n], ordered unless `given`. */
    uint32_t n;
    uint32_t capacity;
    bool given;
};

void ps_labels_init(struct ps_labels *labels, struct ps_mem *mem);

void ps_labels_deinit(struct ps_labels *labels);

/**
 * Add a label if it is not there yet: to its place, or to the end when the set is `given`.
 * @return PS_ERR_INVALID  empty, or more than PS_LABELS_MAX of them
 *         PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_labels_add(struct ps_labels *labels, const char *text,
                                           size_t n_bytes, struct ps_error *err);

PS_MUST_CHECK enum ps_status ps_labels_add_number(struct ps_labels *labels, float number,
                                                  struct ps_error *err);

/** The set that a user wrote: labels joined by commas, class 0 first. @return as ps_labels_add */
PS_MUST_CHECK enum ps_status ps_labels_give(struct ps_labels *labels, const char *list,
                                            struct ps_error *err);

/** The class of a label; false when it is not in the set. */
PS_MUST_CHECK bool ps_labels_find(const struct ps_labels *labels, const char *text, size_t n_bytes,
                                  uint32_t *ret);

PS_MUST_CHECK bool ps_labels_find_number(const struct ps_labels *labels, float number,
                                         uint32_t *ret);

/** "-1 is 0, 1 is 1", with dots when there are many or `n_room` ends. */
void ps_labels_text(const struct ps_labels *labels, char *text, size_t n_room);

#endif
