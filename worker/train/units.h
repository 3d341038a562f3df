#ifndef PS_WORKER_TRAIN_UNITS_H
#define PS_WORKER_TRAIN_UNITS_H
/*
 * train/units.h — unit after unit of a job, until it is over or somebody asks to stop: the frame
 * around the steps of every kind of model. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "train/loop.h"

struct ps_units {
    struct ps_client *client;
    const _Atomic bool *stop;
    struct ps_error *err;
    struct ps_unit *unit; /* Written: the one at hand; no rows: the job is over. */
    const char *idle;     /* For people: why there may be nothing to do for now. */
    bool ever_lent;       /* Set by whoever had rows to train. */
    bool idle_said;
    bool late; /* The job was over before this worker came. */
};

/** One seed for all workers of a cluster, and another one for the next cluster. */
uint64_t ps_units_seed(struct ps_client *client);

/** Is the job over, as far as the client has heard? */
bool ps_units_over(struct ps_client *client);

/** Call `step(arg)` for each unit. @return as the client and `step` */
PS_MUST_CHECK enum ps_status ps_units_run(struct ps_units *units, enum ps_status (*step)(void *arg),
                                          void *arg);

/** What came of it, with a word to the log when there never was a row. */
struct ps_train_result ps_units_end(const struct ps_units *units, enum ps_status status);

#endif
