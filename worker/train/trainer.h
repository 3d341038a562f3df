#ifndef PS_WORKER_TRAIN_TRAINER_H
#define PS_WORKER_TRAIN_TRAINER_H
/*
 * train/trainer.h — the state of one run, shared by the files that make it.
 *
 *   loop.c     begin, unit after unit, end
 *   step.c     one step: pull, gradients, push
 *
 * All of it belongs to the training thread.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/plan.h"
#include "train/units.h"

/* Weights and the step that they were pulled for. */
struct ps_trainer_side {
    struct ps_weights weights;
    struct ps_pull pull;
    uint64_t step;
    bool ready;
};

struct ps_trainer {
    struct ps_train_plan *plan;
    struct ps_client *client;
    struct ps_units units;
    struct ps_error *err;
    struct ps_job_def job; /* Without its texts. */
    struct ps_unit unit;   /* At hand; no rows: the job is over. */
    float rate;            /* Of its step. */
    double loss;           /* Over its rows, once it is computed. */
    struct ps_trainer_side sides[2];
    uint32_t side; /* The one to compute with. */
    struct ps_weights grads;
    float *x;          /* [batch][n_features] */
    uint32_t *y;       /* [batch] */
    uint32_t *row_ids; /* [batch] */
};

/** Do the unit at hand. */
PS_MUST_CHECK enum ps_status ps_trainer_step(struct ps_trainer *t);

#endif
