#ifndef PS_WORKER_DATA_LEARNING_H
#define PS_WORKER_DATA_LEARNING_H
/*
 * data/learning.h — looks at the training data before training, to describe them.
 *
 * Data of at most `learn_bytes` are read whole. Of more, pieces spread evenly over the files that
 * can be cut and the beginnings of those that stay packed are read: the same ones whoever looks, so
 * that all workers learn the same. One thread; blocks on the file system.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/description.h"
#include "data/format.h"
#include "data/lines.h"
#include "data/source.h"

struct ps_mem;

enum ps_choice {
    PS_CHOICE_AUTO,
    PS_CHOICE_NO,
    PS_CHOICE_YES
};

struct ps_learn_options {
    struct ps_mem *mem;
    enum ps_task task;          /* What the model makes of labels. */
    const char *format;         /* --format; NULL or "auto": by the first lines. */
    const char *labels;         /* --labels: joined by commas, class 0 first; NULL: as found. */
    enum ps_choice zero_based;  /* --index-base auto|0|1; NO is 1. */
    enum ps_choice header;      /* --header */
    enum ps_choice standardize; /* --standardize; AUTO: columns yes, libsvm no. */
    const char *label;          /* --label: a column, by name or number from 1; NULL: a rule. */
    const char *categorical;    /* --categorical, --numeric, --ignore: columns joined by commas. */
    const char *numeric;
    const char *ignore;
    bool ids;              /* Columns that no flag names are categorical, numbers or not. */
    uint64_t learn_bytes;  /* 0: PS_LEARN_BYTES. */
    uint64_t max_bad_rows; /* As in reading.h, for what is looked at. */
};

/**
 * Describe the data. The result is the caller's, to be given to ps_description_destroy; its `said`
 * is one line for the user.
 *
 * @return PS_ERR_INVALID  a line is not what it should be (the message begins with file:line), or
 *                         the format cannot be told
 *         and as ps_lines_next
 */
PS_MUST_CHECK enum ps_status ps_learn(const struct ps_source *source,
                                      const struct ps_learn_options *options,
                                      struct ps_description **ret, struct ps_error *err);

/**
 * Does `source` look like what `description` was learnt from? For libsvm: a file that seems to
 * count its features from the other base is refused, with the flag to use.
 * @return PS_ERR_INVALID, and as ps_lines_next
 */
PS_MUST_CHECK enum ps_status ps_learn_check(struct ps_mem *mem, const struct ps_source *source,
                                            const struct ps_description *description,
                                            struct ps_error *err);

/* What follows is for formats: the data as their `learn` and `check` see them. */

struct ps_learning {
    const struct ps_source *source;
    const struct ps_learn_options *options;
    struct ps_description *description; /* To be filled; task, format and given labels are there. */
    struct ps_head head;
    char note[256]; /* What the user should know of the decisions; or "". */

    struct ps_lines *lines;
    char *head_text;
    uint64_t n_budget; /* Bytes of text that may still be read. */
    bool whole;        /* Everything is read. */
    bool binary;       /* There are bytes 0 among the first lines. */
    uint64_t n_bad;
    double label_mean; /* PS_TASK_VALUE: of so many labels, and the squares around it. */
    double label_m2;
    uint64_t n_labels;
    struct ps_part part; /* What is being read: */
    uint64_t piece;      /* this piece of the file, */
    uint64_t n_pieces;   /* of so many, */
    uint64_t n_left;     /* with so many bytes of text still wanted. */
    bool begun;
};

/** The next line of the sample, of whatever kind but blank; PS_LINE_END after the last. */
PS_MUST_CHECK enum ps_status ps_learning_next(struct ps_learning *learning, struct ps_line *ret,
                                              struct ps_error *err);

/**
 * The line just given is bad, `err` says why: PS_OK when it may be skipped, else the status with
 * file:line put before the message.
 */
PS_MUST_CHECK enum ps_status ps_learning_bad(struct ps_learning *learning,
                                             const struct ps_line *line, enum ps_status status,
                                             struct ps_error *err);

/** True for the first line of a file. */
bool ps_learning_at_start(const struct ps_learning *learning, const struct ps_line *line);

/**
 * Take note of a label, unless the labels were given.
 * @return PS_ERR_INVALID  a third one for PS_TASK_BINARY, or no number for PS_TASK_VALUE
 *         PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_learning_label(struct ps_learning *learning, const char *text,
                                               size_t n_bytes, struct ps_error *err);

PS_MUST_CHECK enum ps_status ps_learning_label_number(struct ps_learning *learning, float number,
                                                      struct ps_error *err);

#endif
