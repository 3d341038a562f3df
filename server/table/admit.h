#ifndef PS_SERVER_TABLE_ADMIT_H
#define PS_SERVER_TABLE_ADMIT_H
/*
 * table/admit.h — how often was a key seen that has no row yet? In memory that does not grow.
 *
 * A blocked count-min sketch with conservative update: each key has four one-byte counters in one
 * cache line; its count is the least of them, and only those that equal the least are raised. So
 * other keys may make a count too high, never too low. Counters age: with each call one word of
 * eight is halved, so that in n_bytes / 8 calls each was halved once, and old keys make room. A
 * key is thus counted within a window of about so many calls.
 *
 * Counts are part of a slot's content: the same calls in the same order give the same bytes.
 * Sources: Cormode, Muthukrishnan, J. Algorithms 55 (2005); Einziger, Friedman, Manes, "TinyLFU",
 * ACM ToS 13 (2017), for the ageing.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/mem.h"

struct ps_admit {
    uint8_t *counts;  /* [n_bytes] */
    uint32_t n_bytes; /* A power of two; 0: counts nothing. */
    uint32_t aged;    /* The word that is halved next. */
};

/** Counters that are all 0; `n_bytes` a power of two from 64 on. False without memory. */
PS_MUST_CHECK bool ps_admit_init(struct ps_admit *admit, uint32_t n_bytes, struct ps_mem *mem);

void ps_admit_deinit(struct ps_admit *admit);

/** Count the key with this hash, whose 64 bits are well mixed. @return its count, 1 to 255 */
uint32_t ps_admit_count(struct ps_admit *admit, uint64_t hash);

#endif
