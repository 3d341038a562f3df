#ifndef PS_WORKER_TRAIN_LOOP_H
#define PS_WORKER_TRAIN_LOOP_H
/*
 * train/loop.h — what a worker does from its first word to the end of the job.
 *
 *   define tables and job -> [ unit: pull -> gradients -> push -> done ]* -> the job is over
 *
 * Rows of a step follow from the lease, the rate from the place of its batch in the job, so neither
 * depends on which worker does it. One worker trained twice gives the same bits, because each pull
 * ahead ends before the push that comes after it begins.
 *
 * Blocks the calling thread, which computes; the cluster is reached through <ps/client.h> alone.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/plan.h"

/** What came out. */
struct ps_train_result {
    bool done; /* Every row of every epoch is trained; else we were asked to stop. */
};

/**
 * Train until the job is done or `*stop` is set: then the step at hand is finished first. The
 * client must be new, of kind worker, and is left to the caller to close.
 *
 * Without --seed the plan's seed is drawn from the cluster's id: the same for all workers of one
 * cluster, another one for the next.
 *
 * @return PS_OK            see ret->done
 *         PS_ERR_DIVERGED  the loss or a gradient is not finite
 *         PS_ERR_EXISTS    other workers defined a model or a job that differs from this plan
 *         PS_ERR_FENCED    the session was closed (this process was silent too long): join anew
 *         PS_ERR_LOST      the cluster or data in it are gone; the message names who
 *         others           as the client gives them
 */
PS_MUST_CHECK enum ps_status ps_train_run(struct ps_train_plan *plan, struct ps_client *client,
                                          const _Atomic bool *stop, struct ps_train_result *ret,
                                          struct ps_error *err);

/** The exit status of a program that ended with `status`; as in README "Exit status". */
int ps_train_exit_status(enum ps_status status);

#endif
