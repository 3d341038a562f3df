#ifndef PS_WORKER_TRAIN_PLAN_H
#define PS_WORKER_TRAIN_PLAN_H
/*
 * train/plan.h — a training run, checked and ready: data in memory, model made, every setting read.
 *
 *   options (what the user typed) --check--> plan (what will be done) --> loop, finish
 *
 * Everything that can be wrong with a run is found here, before any process or session starts, so
 * that bad input costs one line and nothing else. All workers of a cluster make equal plans from
 * equal flags; the coordinator compares what must be equal.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ps/types.h>

#include "base/attr.h"
#include "base/error.h"
#include "model/model.h"
#include "train/options.h"
#include "train/schedule.h"

struct ps_dataset;
struct ps_mem;

/** The loss that a model's predictions are judged by is the model's; see model/model.h. */
struct ps_train_plan {
    struct ps_train_options options;
    const struct ps_train_optimizer *optimizer;
    struct ps_mem *mem;
    struct ps_dataset *train;
    struct ps_dataset *test; /* NULL: there is none. */
    float *mean;             /* [n_features] of the training set, or NULL: not centred. */
    const struct ps_model_kind *kind;
    struct ps_model_params params;
    struct ps_model *model; /* Made from the seed; see ps_train_plan_seed. */
    struct ps_schedule schedule;
    struct ps_consistency consistency;
    uint64_t n_values; /* Numbers of the model, over all tables. */
    bool prefetch;     /* Pull for the next step while this one computes. */
    bool own_update;   /* Add the own update to prefetched weights. */
    char data_text[PS_TRAIN_TEXT_BYTES];
    char model_text[PS_TRAIN_TEXT_BYTES];
    char consistency_text[PS_TRAIN_CONSISTENCY_BYTES];
};

/**
 * Check, read the data, make the model. `*plan` is to be closed, success or not.
 * @return PS_ERR_INVALID with one line that names the flag; as ps_data_open; PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_train_plan_open(const struct ps_train_options *options,
                                                struct ps_mem *mem, struct ps_train_plan *plan,
                                                struct ps_error *err);

/** A zeroed plan does nothing. */
void ps_train_plan_close(struct ps_train_plan *plan);

/** Use this seed instead: first weights and order of rows. Makes the model anew. */
PS_MUST_CHECK enum ps_status ps_train_plan_seed(struct ps_train_plan *plan, uint64_t seed,
                                                struct ps_error *err);

/** Batches of one epoch, the last partial one included. */
uint64_t ps_train_plan_batches(const struct ps_train_plan *plan);

/** Steps pulled at once need buffers: one array per table, together `n_values` floats. */
struct ps_weights {
    float *values;                      /* One block; to be given to ps_weights_deinit. */
    float *arrays[PS_MODEL_TABLES_MAX]; /* Per table of the model, within `values`. */
    struct ps_tensor tensors[PS_MODEL_TABLES_MAX]; /* The same, as the client wants it. */
    uint32_t n_tables;
    uint64_t n_values;
};

/** Room for all tables of `model`; tensors name table i as `tables[i]` (NULL: number i). */
PS_MUST_CHECK enum ps_status ps_weights_init(struct ps_weights *weights, struct ps_mem *mem,
                                             const struct ps_model *model, const uint32_t *tables,
                                             struct ps_error *err);

/** A zeroed one does nothing. */
void ps_weights_deinit(struct ps_weights *weights);

#endif
