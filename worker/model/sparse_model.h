#ifndef PS_WORKER_MODEL_SPARSE_MODEL_H
#define PS_WORKER_MODEL_SPARSE_MODEL_H
/*
 * model/sparse_model.h — the extension point for models over sparse rows: rows name u64 keys, and
 * of a table with one row per key only those of the batch are at hand.
 *
 *   rows of features ──sparse_batch.h──> key lists, sorted, no key twice
 *                                        index of each feature in its list
 *   lists ──somebody pulls──> gathered rows [n_keys][width] of each table
 *   view + gathered rows ──gradients──> gradients [n_keys][width] of each table, pushed likewise
 *
 * A model does not hold weights. One const struct per kind, one file per kind, one line in
 * sparse_registry.c. The bias is a dense table of one element, not a reserved key: no key of the
 * data can then mean it, no l1 or expiry touches it, and it goes where other dense tables go.
 *
 * Threads: a model owns scratch memory, so each computing thread has a model of its own; tables of
 * two models made from equal params are equal. No call allocates after the largest batch.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/task.h"
#include "model/model.h"
#include "num/init.h"

struct ps_mem;

#define PS_KEY_LISTS_MAX     2u    /* Users and items. */
#define PS_SPARSE_TABLES_MAX 2u    /* Per model: a linear part and factors. */
#define PS_MODEL_RANK_MAX    1024u /* Factors of a key; a row must stay far below a call. */
#define PS_MODEL_FIELDS_MAX  1024u /* Columns that wide-deep puts side by side. */

struct ps_sparse_model_params {
    struct ps_mem *mem;
    uint32_t n_classes; /* softmax; >= 2 */
    uint32_t rank;      /* fm, mf: factors; wide-deep: width of an embedding. 0: the preset. */
    uint32_t n_fields;  /* wide-deep: fields of the features are below it; >= 1 */
    uint32_t n_hidden;  /* wide-deep; 0: one layer of a preset width */
    uint32_t hidden[PS_MODEL_HIDDEN_MAX];
    bool pool;     /* wide-deep: add up the embeddings of all fields; else side by side. */
    bool regress;  /* fm, wide-deep: PS_TASK_VALUE instead of PS_TASK_BINARY. */
    double offset; /* PS_TASK_VALUE: added to every prediction; the mean label of the training
                      data is best. The same for every worker, and kept with a model. */
    uint64_t seed; /* Equal seeds give equal first weights, whoever makes them. */
};

/** An optimizer that suits a table. What worked on the sets in README.md: a preset, not a must. */
struct ps_optim_preset {
    const char *optimizer;
    float rate;
    float l1;
    float l2;
    float beta; /* ftrl */
};

/** What a sparse table needs to be defined on the servers. */
struct ps_sparse_model_table {
    char name[PS_NAME_BYTES_MAX + 1]; /* Distinct within a model, dense tables included. */
    uint32_t width;                   /* Floats of a row. */
    uint32_t list;                    /* Which key list of a batch has its keys. */
    struct ps_init init;              /* First values of a row. */
    struct ps_optim_preset preset;
};

/** Rows as readers make them. Borrowed. Arrays of features start with the first of the batch. */
struct ps_sparse_rows {
    size_t n_rows;         /* >= 1 */
    const float *labels;   /* [n_rows]; NULL: none, for predict. A class is its number as float. */
    const uint64_t *begin; /* [n_rows + 1]: row r has features begin[r] .. begin[r + 1] - 1, of
                              which begin[0] is element 0 of the arrays below. */
    const uint64_t *keys;
    const float *values;
    const uint16_t *fields;
};

/** The same rows after their keys were looked up: see sparse_batch.h. Borrowed. */
struct ps_sparse_view {
    struct ps_sparse_rows rows;
    const uint32_t *index;             /* Of each feature: its place in its key list. */
    uint32_t n_keys[PS_KEY_LISTS_MAX]; /* Of each list; 0 is possible. */
    float scale; /* What the loss of a row weighs in gradients: 1 / n_rows for the mean. */
};

/** Arrays per table. `rows[t]` is [n_keys[list of t]][width of t]; NULL where n_keys is 0. */
struct ps_sparse_weights {
    const float *const *dense;
    const float *const *rows;
};

struct ps_sparse_grads {
    float *const *dense;
    float *const *rows;
};

struct ps_sparse_model;

/** Params that mean something to a kind; others are not to be set. */
enum ps_sparse_takes {
    PS_SPARSE_TAKES_RANK = 1,
    PS_SPARSE_TAKES_HIDDEN = 2,
    PS_SPARSE_TAKES_POOL = 4,
    PS_SPARSE_TAKES_REGRESS = 8
};

struct ps_sparse_model_kind {
    const char *name; /* For --model: [a-z0-9-]+, never renamed. */
    const char *help; /* One line for --help. */
    uint32_t takes;   /* enum ps_sparse_takes, added up. */
    bool ids;         /* Values are not read: a number in a table is an id, as a text is. */

    /** Refuse params that do not fit this kind. NULL: all do. */
    PS_MUST_CHECK enum ps_status (*check)(const struct ps_sparse_model_params *params,
                                          struct ps_error *err);

    PS_MUST_CHECK enum ps_status (*create)(const struct ps_sparse_model_params *params,
                                           struct ps_sparse_model **ret, struct ps_error *err);

    void (*destroy)(struct ps_sparse_model *model);

    /**
     * Say in `lists` [n features] which key list has the key of each feature, and refuse rows that
     * the model cannot read. NULL: all rows are fine and every feature is in list 0.
     * @return PS_ERR_INVALID; `ret_row` is then the row that is wrong
     */
    PS_MUST_CHECK enum ps_status (*assign)(const struct ps_sparse_model *model,
                                           const struct ps_sparse_rows *rows, uint8_t *lists,
                                           size_t *ret_row, struct ps_error *err);

    /**
     * Gradient of scale * (sum of the losses), one array per table, overwritten.
     *
     * @param grads  must not overlap the weights
     * @return PS_ERR_NOMEM when scratch cannot grow; nothing else fails. Not finite in, not
     *         finite out: the caller checks the loss.
     */
    PS_MUST_CHECK enum ps_status (*gradients)(struct ps_sparse_model *model,
                                              const struct ps_sparse_weights *weights,
                                              const struct ps_sparse_view *view,
                                              const struct ps_sparse_grads *grads,
                                              double *ret_loss_sum);

    /** Loss and hits (0 hits for PS_TASK_VALUE) without gradients. @return as gradients */
    PS_MUST_CHECK enum ps_status (*evaluate)(struct ps_sparse_model *model,
                                             const struct ps_sparse_weights *weights,
                                             const struct ps_sparse_view *view,
                                             struct ps_score *ret);

    /** `out` [n_rows][n_outputs]: see enum ps_task. Reads no labels. @return as gradients */
    PS_MUST_CHECK enum ps_status (*predict)(struct ps_sparse_model *model,
                                            const struct ps_sparse_weights *weights,
                                            const struct ps_sparse_view *view, float *out);
};

/** The part of every model that callers read. Made by create, constant afterwards. */
struct ps_sparse_model {
    const struct ps_sparse_model_kind *kind;
    struct ps_mem *mem;
    enum ps_task task;
    uint32_t n_outputs; /* Of a row in predict. */
    uint32_t n_lists;   /* 1 to PS_KEY_LISTS_MAX */
    uint32_t n_fields;  /* Fields of features must be below it; 0: any. */
    uint32_t n_sparse;
    struct ps_sparse_model_table sparse[PS_SPARSE_TABLES_MAX];
    uint32_t n_dense;
    struct ps_model_table dense[PS_MODEL_TABLES_MAX];
    struct ps_optim_preset dense_preset; /* For all dense tables. */
};

/** The kind called `name`, or NULL. */
const struct ps_sparse_model_kind *ps_sparse_model_find(const char *name);

/** All kinds, in a stable order, for --help and the contract tests. */
const struct ps_sparse_model_kind *const *ps_sparse_model_all(size_t *ret_n);

/**
 * Check params and make a model; to be given to ps_sparse_model_destroy.
 * @return PS_ERR_INVALID with a message that names the flag, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_sparse_model_create(const struct ps_sparse_model_kind *kind,
                                                    const struct ps_sparse_model_params *params,
                                                    struct ps_sparse_model **ret,
                                                    struct ps_error *err);

void ps_sparse_model_destroy(struct ps_sparse_model *model);

#endif
