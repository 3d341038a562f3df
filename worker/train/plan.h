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
#include "conf/conf.h"
#include "model/model.h"
#include "train/schedule.h"

struct ps_dataset;
struct ps_mem;

#define PS_TRAIN_TEXT_BYTES 128u /* Identity of data or model, as the coordinator compares it. */

/** As users type them; the rows are in worker_options.c. Texts are borrowed. */
struct ps_train_options {
    const char *data;
    const char *test;   /* NULL: where `data` is. */
    const char *format; /* NULL: auto */
    const char *model;
    const char *hidden;      /* "128,64" */
    const char *schedule;    /* As train/schedule.h. */
    const char *consistency; /* "bsp", "ssp:S", "asp"; NULL: by staleness_given. */
    uint32_t optimizer;      /* Index into ps_train_optimizers. */
    uint32_t batch;
    uint32_t epochs;
    uint32_t units_per_lease; /* 0: the coordinator chooses. */
    uint32_t staleness;
    uint32_t backup_workers;
    uint32_t prefetch;         /* Steps pulled ahead, 0 or 1. */
    uint32_t workers;          /* Training starts when so many have joined. */
    uint64_t start_timeout_ms; /* Or after so long; 0: never. */
    uint64_t seed;
    float lr; /* 0: the optimizer's. */
    float momentum;
    float beta1;
    float beta2;
    float epsilon;
    float weight_decay;
    float l2;
    bool staleness_given;
    bool weight_decay_given;
    bool seed_given;
    bool aggregate;
    bool shuffle;
    bool center;                /* Train on features with mean 0; see train/center.h. */
    const struct ps_conf *conf; /* Where they came from, for messages; NULL: nobody knows. */
};

/** What this side has to know of an update rule; the arithmetic is the servers'. */
struct ps_train_optimizer {
    const char *name;
    float rate;         /* --lr when it is not given. */
    float weight_decay; /* --weight-decay when it is not given; < 0: not a parameter of it. */
    bool local;         /* w -= rate * g, so a worker can add its own update itself. */
};

/** The rules of train/optimizer_list.h, ended by one without a name. */
extern const struct ps_train_optimizer ps_train_optimizers[];

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
    char consistency_text[24];
};

/**
 * Check flags alone, against each other too; touches no file.
 * @return PS_ERR_INVALID with one line that names the flag
 */
PS_MUST_CHECK enum ps_status ps_train_options_check(const struct ps_train_options *options,
                                                    struct ps_error *err);

/**
 * Check, read the data, make the model. `*plan` is to be closed, success or not.
 * @return as ps_train_options_check and ps_data_open; PS_ERR_NOMEM
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
