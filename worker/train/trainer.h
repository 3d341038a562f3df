#ifndef PS_WORKER_TRAIN_TRAINER_H
#define PS_WORKER_TRAIN_TRAINER_H
/*
 * train/trainer.h — the state of one run, shared by the files that make it.
 *
 *   loop.c     begin, leases, end
 *   step.c     one step: pull, gradients, push, tick
 *   trainer.c  what both need: time, what the cluster says, reports
 *
 * All of it belongs to the training thread.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/order.h"
#include "train/plan.h"

/* Weights and the step that they were pulled for. */
struct ps_trainer_side {
    struct ps_weights weights;
    struct ps_pull pull;
    uint64_t step;
    bool ready;
};

struct ps_trainer_loss {
    double sum;
    uint64_t rows;
};

struct ps_trainer {
    struct ps_train_plan *plan;
    struct ps_client *client;
    const _Atomic bool *stop;
    struct ps_error *err;
    struct ps_client_view view;
    struct ps_lease lease; /* Held; id 0: none. */
    uint32_t unit;         /* Of the lease: the next one. */
    uint64_t clock;        /* The step that comes next. */
    struct ps_trainer_side sides[2];
    uint32_t side; /* The one to compute with. */
    struct ps_weights grads;
    struct ps_order order;
    uint64_t order_epoch;           /* 1 + epoch that `order` is of; 0: none. */
    float *x;                       /* [batch][n_features] */
    uint32_t *y;                    /* [batch] */
    uint32_t *row_ids;              /* [batch] */
    struct ps_trainer_loss *losses; /* [epochs], of the session. */
    struct ps_worker_report report;
    uint64_t first_lease_ns; /* 0: none yet. */
    bool idle_said;
};

/** Share out the time since `start_ns`: what the gate held, and what the network took. */
void ps_trainer_count_wait(struct ps_trainer *t, uint64_t start_ns, uint64_t blocked_ns);

/** The process was asked to stop. */
bool ps_trainer_stopping(const struct ps_trainer *t);

/** As of the last look. */
bool ps_trainer_job_over(const struct ps_trainer *t);

/** Take a new look; an end of the session or of the cluster is an error. */
PS_MUST_CHECK enum ps_status ps_trainer_look(struct ps_trainer *t);

/** Wait a moment for news, then look. */
PS_MUST_CHECK enum ps_status ps_trainer_wait_change(struct ps_trainer *t);

/** Tell the coordinator where we are. */
void ps_trainer_report(struct ps_trainer *t);

/** Do the unit at hand. */
PS_MUST_CHECK enum ps_status ps_trainer_step(struct ps_trainer *t);

#endif
