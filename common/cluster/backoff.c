/* backoff.c — see backoff.h. */
#include "cluster/backoff.h"

uint32_t ps_backoff_next_ms(struct ps_backoff *backoff, struct ps_rng *rng)
{
    uint32_t longest_ms = PS_BACKOFF_BASE_MS;
    for (uint32_t i = 0; i < backoff->n_attempts && longest_ms < PS_BACKOFF_CAP_MS; i++) {
        longest_ms *= 2;
    }
    longest_ms = longest_ms < PS_BACKOFF_CAP_MS ? longest_ms : PS_BACKOFF_CAP_MS;
    backoff->n_attempts += backoff->n_attempts < UINT32_MAX ? 1u : 0u;
    return (uint32_t)ps_rng_below(rng, (uint64_t)longest_ms + 1);
}

void ps_backoff_reset(struct ps_backoff *backoff)
{
    backoff->n_attempts = 0;
}
