#ifndef PS_COMMON_CLUSTER_BACKOFF_H
#define PS_COMMON_CLUSTER_BACKOFF_H
/*
 * cluster/backoff.h — how long to wait before the next attempt.
 *
 * Full jitter: uniform between 0 and min(cap, base * 2^attempts). Workers that failed together do
 * not come back together. Pure: chance comes from the caller's generator, time from nowhere.
 * Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
 */
#include <stdint.h>

#include "base/rng.h"

#define PS_BACKOFF_BASE_MS 10u   /* About one round trip on a bad day. */
#define PS_BACKOFF_CAP_MS  2000u /* Below the silence after which a peer counts as dead. */

/* All zero is the start. */
struct ps_backoff {
    uint32_t n_attempts; /* Since the last success. */
};

/** The wait before the next attempt, in [0, PS_BACKOFF_CAP_MS] milliseconds; counts the attempt. */
uint32_t ps_backoff_next_ms(struct ps_backoff *backoff, struct ps_rng *rng);

/** An attempt has succeeded: start again from the base. */
void ps_backoff_reset(struct ps_backoff *backoff);

#endif
