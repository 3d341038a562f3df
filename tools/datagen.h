#ifndef PS_TOOLS_DATAGEN_H
#define PS_TOOLS_DATAGEN_H
/*
 * datagen.h — rows of training data with a known answer, for ps-datagen.
 *
 *   (seed, row number) ──kind──> struct datagen_row ──format──> a line
 *                         └──> what the true model expects of it ──> the answer, at the end
 *
 * The hidden model is a function of the seed, a row one of (seed, its number): any range of rows is
 * made by itself, and ranges put together are the whole. Values and labels are whole numbers of
 * 1 / 10,000 and come from integers and single roundings, so that bytes are equal everywhere; only
 * the draw of a click compares with exp(), whose last bit may differ between C libraries.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/rng.h"
#include "conf/conf.h"
#include "datagen_options.h"

#define DATAGEN_ONE 10000 /* 1.0 as a value. */

struct datagen_feature {
    uint32_t column; /* From 0, ascending within a row. */
    uint32_t id;     /* Of an id column, from 1. */
    int64_t value;   /* Of a number column, in 1 / DATAGEN_ONE. */
};

struct datagen_row {
    int64_t label; /* In 1 / DATAGEN_ONE. */
    size_t n;
    struct datagen_feature *features; /* Room for all columns. */
};

/** What the true model says of the rows made so far. */
struct datagen_truth {
    uint64_t n_rows;
    double entropy_sum; /* Log loss that it expects of itself. */
    double loss_sum;    /* Its log loss under the labels drawn. */
    double square_sum;  /* Of label - true value. */
    uint64_t n_hits;    /* Rows whose likeliest class is the label. */
    uint64_t n_ones;
    double *ranks; /* [DATAGEN_RANKS][4] by true score: expected 0s, 1s; drawn 0s, 1s. */
};

struct datagen;

struct datagen_kind {
    const char *name;         /* A command of datagen_options.c. */
    const char *const *shape; /* Flags of the shape that mean something to it, then NULL. */
    bool formats[DATAGEN_FORMAT_COUNT]; /* That can say it. */
    enum datagen_format preset;
    bool ids;    /* Its columns are ids, its csv names them; else numbers. */
    bool labels; /* Labels are 0 and 1 by chance: the answer has log loss and AUC. */

    /** Fill in presets, check options, make the hidden model. */
    PS_MUST_CHECK enum ps_status (*open)(struct datagen *gen, struct ps_error *err);

    /** Make row number `number`, and count it in gen->truth. */
    void (*make)(struct datagen *gen, uint64_t number, struct datagen_row *row);

    /** Members of the answer's object that describe the hidden model, each with a comma behind. */
    void (*describe)(const struct datagen *gen, FILE *to);
};

struct datagen {
    const struct datagen_kind *kind;
    const struct ps_conf *conf; /* For messages. */
    struct datagen_options options;
    uint32_t n_columns;
    struct datagen_truth truth;
    double bias;
    float *weights; /* [n_columns], or [classes][n_columns] of blobs; NULL: the kind has none. */
    float *factors; /* [n_columns][rank] */
    uint32_t offsets[64]; /* clicks: libsvm index of the id 0 of each column. */
    uint32_t sizes[64];   /* clicks: ids of each column; 0: a column of whole numbers. */
};

/** The kind of a command. */
const struct datagen_kind *datagen_find(const char *name);

extern const struct datagen_kind datagen_clicks;
extern const struct datagen_kind datagen_linear;
extern const struct datagen_kind datagen_fm;
extern const struct datagen_kind datagen_blobs;
extern const struct datagen_kind datagen_ratings;

/* Streams of random numbers of one seed. */
enum datagen_stream {
    DATAGEN_ROWS,
    DATAGEN_WEIGHTS,
    DATAGEN_FACTORS,
    DATAGEN_USERS,
    DATAGEN_ITEMS,
    DATAGEN_IDS = 100 /* And the column. */
};

/** The generator of row `number`. */
struct ps_rng datagen_rng(const struct datagen *gen, uint64_t number);

/** Uniform in [0, n), from the high bits. */
uint32_t datagen_below(struct ps_rng *rng, uint32_t n);

/** 1 to n with probability ~ 1 / id: Zipf's law, in whole numbers. */
uint32_t datagen_zipf(struct ps_rng *rng, uint32_t n);

/** Uniform in [0, 1), 53 bits. */
double datagen_unit(struct ps_rng *rng);

/** The nearest multiple of 1 / DATAGEN_ONE. */
int64_t datagen_fixed(double value);

double datagen_value(int64_t fixed);

/** Draw a label of score z, and count what the true model says of it. */
int64_t datagen_draw(struct datagen *gen, struct ps_rng *rng, double z);

/* datagen_write.c: lines. */
struct datagen_out {
    FILE *file;
    char *buffer; /* One block of lines. */
    size_t n;
    uint64_t n_bytes; /* Written, or in the buffer. */
    bool failed;      /* errno is that of the first failure. */
    int error;
};

/** Where --out says; "-" is standard output. */
PS_MUST_CHECK enum ps_status datagen_out_open(struct datagen_out *out, const struct datagen *gen,
                                              struct ps_error *err);

/** Write what is left and close. @return PS_ERR_IO */
PS_MUST_CHECK enum ps_status datagen_out_close(struct datagen_out *out, const struct datagen *gen,
                                               struct ps_error *err);

void datagen_put_header(struct datagen_out *out, const struct datagen *gen);

void datagen_put_row(struct datagen_out *out, const struct datagen *gen,
                     const struct datagen_row *row);

/* datagen_answer.c */
PS_MUST_CHECK enum ps_status datagen_truth_open(struct datagen_truth *truth, struct ps_error *err);

void datagen_truth_close(struct datagen_truth *truth);

/** Count a row whose score under the true model is z, and whose label came out as `one`. */
void datagen_truth_add(struct datagen_truth *truth, double z, bool one);

/** One line for standard error. */
void datagen_answer_tell(const struct datagen *gen, FILE *to);

/** Before rows are made, which may take hours: that it can be written is known at once. */
PS_MUST_CHECK enum ps_status datagen_answer_open(const struct datagen *gen, const char *path,
                                                 FILE **ret, struct ps_error *err);

/** Write the answer as a JSON object, and close. @return PS_ERR_IO */
PS_MUST_CHECK enum ps_status datagen_answer_close(const struct datagen *gen, const char *path,
                                                  FILE *to, struct ps_error *err);

#endif
