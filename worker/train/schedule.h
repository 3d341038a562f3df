#ifndef PS_WORKER_TRAIN_SCHEDULE_H
#define PS_WORKER_TRAIN_SCHEDULE_H
/*
 * train/schedule.h — the learning rate of a step.
 *
 *   constant             rate
 *   step:EVERY:FACTOR    rate * FACTOR^(step / EVERY), whole divisions
 *   cosine               rate * (1 + cos(pi * step / total)) / 2
 *
 * each optionally followed by ",warmup:STEPS": the first STEPS steps rise evenly from rate/STEPS
 * to rate, and the schedule proper counts from there. Pure. The rate travels with each push, so
 * it is computed in one place only and libm's last bit does not matter.
 */
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

enum ps_schedule_kind {
    PS_SCHEDULE_CONSTANT,
    PS_SCHEDULE_STEP,
    PS_SCHEDULE_COSINE
};

struct ps_schedule {
    enum ps_schedule_kind kind;
    float rate;            /* > 0, finite; the highest rate. */
    uint64_t every;        /* STEP: >= 1. */
    double factor;         /* STEP: in (0, 1]. */
    uint64_t warmup_steps; /* 0: none. */
};

/**
 * Read a schedule as users write it. `rate` is the value of --lr.
 * @return PS_ERR_INVALID with a message that quotes the text and says what is allowed
 */
PS_MUST_CHECK enum ps_status ps_schedule_parse(const char *text, float rate,
                                               struct ps_schedule *ret, struct ps_error *err);

/**
 * The rate of step number `step` (from 0) out of `total_steps`. Never negative, never above
 * schedule->rate. `total_steps` 0 means unknown: cosine then stays at its start. A step behind the
 * total gets the last step's end value (0 for cosine).
 */
float ps_schedule_rate(const struct ps_schedule *schedule, uint64_t step, uint64_t total_steps);

#endif
