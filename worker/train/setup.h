#ifndef PS_WORKER_TRAIN_SETUP_H
#define PS_WORKER_TRAIN_SETUP_H
/*
 * train/setup.h — a sparse model and how its data are read: all that a foreign program needs to
 * predict, beside the weights.
 *
 *   flags + data --make--> setup --write--> JSON: in the job's definition, and in the model file
 *                          setup <--read--- JSON, from anybody
 *
 * The text is a function of the contents alone, so equal setups are equal bytes; the seed is no
 * part of it. One thread: the model in it has scratch memory.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/task.h"
#include "data/description.h"
#include "model/sparse_model.h"

struct ps_mem;

struct ps_setup {
    struct ps_mem *mem;
    const struct ps_sparse_model_kind *kind;
    struct ps_sparse_model_params params; /* As the model was made of; see make. */
    struct ps_description *description;   /* The setup's. */
    struct ps_sparse_model *model;        /* The setup's. */
};

/**
 * What a model of these params makes of labels: to be known before the data are looked at.
 * @return as ps_sparse_model_create
 */
PS_MUST_CHECK enum ps_status ps_setup_task(const struct ps_sparse_model_kind *kind,
                                           const struct ps_sparse_model_params *params,
                                           enum ps_task *ret, struct ps_error *err);

/**
 * Put together what was chosen and what was learnt. `params` has rank, hidden, pool, regress,
 * offset and seed; mem, n_classes and n_fields are taken from `mem` and `description`. The
 * description becomes the setup's, success or not.
 *
 * @param ret  to be given to ps_setup_destroy
 * @return as ps_sparse_model_create and ps_description_check_labels; PS_ERR_INVALID when the
 *         description is of another task than the model
 */
PS_MUST_CHECK enum ps_status ps_setup_make(struct ps_mem *mem,
                                           const struct ps_sparse_model_kind *kind,
                                           const struct ps_sparse_model_params *params,
                                           struct ps_description *description,
                                           struct ps_setup **ret, struct ps_error *err);

/** NULL does nothing. */
void ps_setup_destroy(struct ps_setup *setup);

/** Use this seed instead; makes the model anew. On failure the setup is as before. */
PS_MUST_CHECK enum ps_status ps_setup_seed(struct ps_setup *setup, uint64_t seed,
                                           struct ps_error *err);

/**
 * As JSON without a seed, to be freed with ps_mem_free.
 * @return PS_ERR_INVALID: more than PS_SETUP_BYTES_MAX (many labels or columns); PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_setup_write(const struct ps_setup *setup, char **ret,
                                            struct ps_error *err);

/**
 * Read what ps_setup_write wrote; the model is made with seed 0. The text may come from anybody.
 * @return PS_ERR_CORRUPT, PS_ERR_UNSUPPORTED (a model, a format that this program does not know),
 *         PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_setup_read(struct ps_mem *mem, const char *text, size_t n_bytes,
                                           struct ps_setup **ret, struct ps_error *err);

#endif
