#ifndef PS_COMMON_CLUSTER_KEYS_H
#define PS_COMMON_CLUSTER_KEYS_H
/*
 * cluster/keys.h — where the keys of sparse tables live: key -> slot.
 *
 * Keys are chosen by users: sequential, strided, or with all their difference in the high bits. So
 * all 64 bits are mixed by a bijection (two rounds of the finaliser of SplitMix64, seeded; Steele,
 * Lea, Flood, OOPSLA 2014) before the lowest bits of the result name the slot. The seed belongs to
 * the cluster and is drawn when it is first started: data that were made to fill one slot of some
 * cluster do not do so here. It is no secret from the cluster's own clients, who compute slots with
 * it; the index inside a slot has a seed that nobody outside knows. Pure.
 */
#include <stdint.h>

#include "base/limits.h"

PS_STATIC_ASSERT((PS_SLOTS & (PS_SLOTS - 1)) == 0, "the lowest bits are the slot without a bias");

static inline uint64_t ps_keys_finalise(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** 64 well mixed bits of a key: a bijection for every seed. Changing it is a new protocol. */
static inline uint64_t ps_keys_mix(uint64_t key, uint64_t seed)
{
    return ps_keys_finalise(ps_keys_finalise(key ^ seed) + UINT64_C(0x9e3779b97f4a7c15) + seed);
}

/** The slot of a key, the same for every sparse table. */
static inline uint32_t ps_keys_slot(uint64_t key, uint64_t seed)
{
    return (uint32_t)ps_keys_mix(key, seed) & (PS_SLOTS - 1);
}

#endif
