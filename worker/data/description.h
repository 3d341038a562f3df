#ifndef PS_WORKER_DATA_DESCRIPTION_H
#define PS_WORKER_DATA_DESCRIPTION_H
/*
 * data/description.h — what was learnt or decided from the training data: all that is needed to
 * read other data of the same kind the same way, by another program on another day.
 *
 * It is stored with a model as one JSON object and read back by whoever predicts. The text is a
 * function of the contents alone: equal descriptions are equal bytes. Read-only once made; any
 * number of threads may read one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/task.h"
#include "data/labels.h"

struct ps_format;
struct ps_mem;

enum ps_column_kind {
    PS_COLUMN_NUMERIC,     /* One key; the value is (x - mean) * scale. */
    PS_COLUMN_CATEGORICAL, /* A key for each text, value 1. */
    PS_COLUMN_LABEL,
    PS_COLUMN_IGNORED
};

struct ps_column {
    char *name; /* From the header, or "1", "2", ... */
    enum ps_column_kind kind;
    double mean;
    double scale;
};

struct ps_description {
    struct ps_mem *mem;
    const struct ps_format *format;
    enum ps_task task;
    struct ps_labels labels; /* Empty for numbers. */
    uint64_t n_features;     /* libsvm: 1 + the largest key seen; with columns: their number. */
    uint64_t n_rows;         /* Rows that were looked at, */
    bool all_seen;           /* and whether that was all of them. */
    uint32_t index_base;     /* libsvm: key = index - index_base. */
    bool header;             /* Each file begins with a line of names. */
    struct ps_column *columns;
    uint32_t n_columns;
    float *scales; /* libsvm, standardised: value = x * scales[key]; else NULL. */
    uint32_t n_scales;
    /* Of the look at the data alone, not stored: */
    char said[640];    /* One line: what was decided, and why. */
    double label_mean; /* PS_TASK_VALUE: of the rows that were looked at. */
    double label_deviation;
    bool scaled;    /* Features are of one scale: standardised, or none has large values. */
    uint64_t n_bad; /* Lines that were skipped. */
};

/** An empty description. @return NULL: no memory */
PS_MUST_CHECK struct ps_description *ps_description_create(struct ps_mem *mem);

void ps_description_destroy(struct ps_description *description);

/** As JSON, to be freed with ps_mem_free. @return PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_description_write(const struct ps_description *description,
                                                  char **ret, struct ps_error *err);

/**
 * Read what ps_description_write wrote. The text may come from anybody.
 * @return PS_ERR_INVALID, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_description_read(struct ps_mem *mem, const char *text,
                                                 size_t n_bytes, struct ps_description **ret,
                                                 struct ps_error *err);

/**
 * Refuse a set of labels that the task cannot use.
 * @return PS_ERR_INVALID  fewer than two labels, or more than two for PS_TASK_BINARY
 */
PS_MUST_CHECK enum ps_status ps_description_check_labels(const struct ps_description *description,
                                                         struct ps_error *err);

const char *ps_task_name(enum ps_task task);

#endif
