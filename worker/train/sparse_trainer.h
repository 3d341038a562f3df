#ifndef PS_WORKER_TRAIN_SPARSE_TRAINER_H
#define PS_WORKER_TRAIN_SPARSE_TRAINER_H
/*
 * train/sparse_trainer.h — the state of one run on rows of lines, shared by the files that make it.
 *
 *   sparse_loop.c     begin, unit after unit, end
 *   sparse_step.c     one unit: rows, pull, gradients, push
 *   sparse_compute.c  gradients; local steps
 *   sparse_arrays.c   memory of weights and gradients
 *
 * All of it belongs to the training thread. Memory grows to the largest unit and stays.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/feed.h"
#include "model/sparse_batch.h"
#include "train/sparse_plan.h"
#include "train/units.h"

/* Numbers of each table for the keys of one batch: weights or gradients. */
struct ps_sparse_arrays {
    float *rows[PS_SPARSE_TABLES_MAX]; /* [n_keys][width], with room for `capacity` floats. */
    size_t capacity[PS_SPARSE_TABLES_MAX];
    float *dense[PS_MODEL_TABLES_MAX];
    uint64_t n_rows[PS_SPARSE_TABLES_MAX]; /* Floats in use, as the next. */
    uint64_t n_dense[PS_MODEL_TABLES_MAX];
    struct ps_keyed keyed[PS_SPARSE_TABLES_MAX]; /* The same, as the client wants it. */
    struct ps_tensor tensors[PS_MODEL_TABLES_MAX];
};

/* A unit's rows and the weights for them. */
struct ps_sparse_side {
    struct ps_feed_unit rows; /* The feed's: good until it is asked for the next unit. */
    struct ps_sparse_batch batch;
    struct ps_sparse_arrays weights;
    struct ps_pull pull;
    uint64_t lease; /* The unit; 0: none. */
    uint32_t index;
    uint64_t step; /* That the weights were pulled for, */
    bool ready;    /*   if they were. */
};

struct ps_sparse_trainer {
    struct ps_sparse_plan *plan;
    struct ps_sparse_model *model; /* The setup's. */
    struct ps_client *client;
    struct ps_units units;
    struct ps_error *err;
    struct ps_feed *feed;
    uint32_t sparse[PS_SPARSE_TABLES_MAX]; /* Numbers of tables. */
    uint32_t dense[PS_MODEL_TABLES_MAX];
    struct ps_unit unit; /* At hand; no rows: the job is over. */
    float rate;          /* Of its step. */
    double loss;         /* Over its rows, once it is computed. */
    struct ps_sparse_side sides[2];
    uint32_t side; /* The one to compute with. */
    struct ps_sparse_arrays grads;
    /* Local steps: one batch of the unit. */
    struct ps_sparse_batch part;
    struct ps_sparse_arrays part_weights;
    struct ps_sparse_arrays part_grads;
    uint64_t *places; /* [n_places_max] Of each feature of the unit: its place among the keys. */
    size_t n_places_max;
};

/** Do the unit at hand. */
PS_MUST_CHECK enum ps_status ps_sparse_step(struct ps_sparse_trainer *t);

/**
 * Gradients of the unit on the current side into t->grads; its loss is added to t->loss.
 * @return PS_ERR_DIVERGED, PS_ERR_NOMEM, PS_ERR_INVALID (a row, by file:line)
 */
PS_MUST_CHECK enum ps_status ps_sparse_compute(struct ps_sparse_trainer *t);

/** Key lists of `rows`, which are from the feed's unit of t->unit.part. @return as compute */
PS_MUST_CHECK enum ps_status ps_sparse_make_batch(struct ps_sparse_trainer *t,
                                                  struct ps_sparse_batch *batch,
                                                  const struct ps_sparse_rows *rows,
                                                  const uint64_t *lines);

/** Room for the dense tables; numbers as in t->dense. @return PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_sparse_arrays_init(struct ps_sparse_trainer *t,
                                                   struct ps_sparse_arrays *arrays);

/** Room for the keys of `batch`, whose lists are named by `arrays->keyed`. @return PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_sparse_arrays_fit(struct ps_sparse_trainer *t,
                                                  struct ps_sparse_arrays *arrays,
                                                  const struct ps_sparse_batch *batch);

/** Are all numbers finite? */
bool ps_sparse_arrays_finite(const struct ps_sparse_trainer *t,
                             const struct ps_sparse_arrays *arrays);

/** A zeroed one does nothing. */
void ps_sparse_arrays_deinit(struct ps_sparse_arrays *arrays);

#endif
