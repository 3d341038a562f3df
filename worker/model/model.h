#ifndef PS_WORKER_MODEL_MODEL_H
#define PS_WORKER_MODEL_MODEL_H
/*
 * model/model.h — the extension point for models: forward, backward, and what they keep where.
 *
 * A model names the dense tables it needs and turns (weights, rows) into gradients. It does not
 * hold weights: whoever calls it pulled them and owns them. One const struct per kind, one file
 * per kind, one line in registry.c.
 *
 * Threads: a model owns scratch memory, so each computing thread has a model of its own; the
 * tables of two models made from equal params are equal. After the largest batch has been seen no
 * call allocates.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "num/init.h"

struct ps_mem;

#define PS_MODEL_HIDDEN_MAX 16u /* Hidden layers; each costs two tables. */
#define PS_MODEL_TABLES_MAX (2u * (PS_MODEL_HIDDEN_MAX + 1u))
#define PS_MODEL_WIDTH_MAX  (1u << 20) /* Units of a layer, features, classes. */

struct ps_model_params {
    struct ps_mem *mem;
    uint32_t n_features; /* >= 1 */
    uint32_t n_classes;  /* >= 2 */
    uint32_t n_hidden;
    uint32_t hidden[PS_MODEL_HIDDEN_MAX]; /* Units per hidden layer, from the input on. */
    uint64_t seed; /* Equal seeds give equal first weights, whoever makes them. */
};

/** What a table needs to be defined on the servers. */
struct ps_model_table {
    char name[PS_NAME_BYTES_MAX + 1]; /* Distinct within a model. */
    uint32_t n_dims;                  /* 1 or 2. */
    uint64_t dims[2];                 /* Row-major. */
    uint64_t n_values;                /* Product of the dims. */
    struct ps_init init;              /* First values, as a function of the index. */
};

/** Labelled rows. Borrowed for the length of a call. */
struct ps_batch_view {
    const float *x;    /* [n_rows][n_features] */
    const uint32_t *y; /* [n_rows], each < n_classes. predict does not read it. */
    size_t n_rows;     /* >= 1 */
};

struct ps_score {
    double loss_sum;    /* Over the rows; a sum, so that parts add up. */
    uint64_t n_correct; /* Rows whose likeliest class is the label; NaN weights: none. */
};

struct ps_model;

struct ps_model_kind {
    const char *name; /* For --model: [a-z0-9]+, never renamed. */
    const char *help; /* One line for --help. */

    /** Refuse params that do not fit this kind; widths are within bounds. NULL: all do. */
    PS_MUST_CHECK enum ps_status (*check)(const struct ps_model_params *params,
                                          struct ps_error *err);

    PS_MUST_CHECK enum ps_status (*create)(const struct ps_model_params *params,
                                           struct ps_model **ret, struct ps_error *err);

    void (*destroy)(struct ps_model *model);

    /**
     * Gradient of the mean loss over the rows of the batch, one array per table, overwritten.
     *
     * @param weights  [n_tables] arrays of n_values
     * @param grads    [n_tables] arrays of n_values; must not overlap the weights
     * @return PS_ERR_NOMEM when scratch cannot grow; nothing else fails. Not finite in, not
     *         finite out: the caller checks the loss.
     */
    PS_MUST_CHECK enum ps_status (*gradients)(struct ps_model *model, const float *const *weights,
                                              const struct ps_batch_view *batch,
                                              float *const *grads, double *ret_loss_sum);

    /** Loss and hits without gradients. @return as gradients */
    PS_MUST_CHECK enum ps_status (*evaluate)(struct ps_model *model, const float *const *weights,
                                             const struct ps_batch_view *batch,
                                             struct ps_score *ret);

    /** Probabilities of the classes. `probs` is [n_rows][n_classes]. @return as gradients */
    PS_MUST_CHECK enum ps_status (*predict)(struct ps_model *model, const float *const *weights,
                                            const struct ps_batch_view *batch, float *probs);
};

/** The part of every model that callers read. Made by create, constant afterwards. */
struct ps_model {
    const struct ps_model_kind *kind;
    struct ps_mem *mem;
    uint32_t n_features;
    uint32_t n_classes;
    uint32_t n_tables;
    struct ps_model_table tables[PS_MODEL_TABLES_MAX];
};

/** The kind called `name`, or NULL. */
const struct ps_model_kind *ps_model_find(const char *name);

/** All kinds, in a stable order, for --help and the contract tests. */
const struct ps_model_kind *const *ps_model_all(size_t *ret_n);

/**
 * Check params and make a model; to be given to ps_model_destroy.
 * @return PS_ERR_INVALID with a message that names the flag, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_model_create(const struct ps_model_kind *kind,
                                             const struct ps_model_params *params,
                                             struct ps_model **ret, struct ps_error *err);

void ps_model_destroy(struct ps_model *model);

/**
 * Read "128,64" (--hidden) into params->hidden and n_hidden; "" is no hidden layer.
 * @return PS_ERR_INVALID; `params` is then unchanged
 */
PS_MUST_CHECK enum ps_status ps_model_hidden_parse(const char *text, struct ps_model_params *params,
                                                   struct ps_error *err);

#endif
