#ifndef PS_COMMON_BASE_RNG_H
#define PS_COMMON_BASE_RNG_H
/*
 * base/rng.h — random numbers that are a function of their place.
 *
 * Counter-based: number i of a stream is mix(seed, stream, i). So any part of a table or of a
 * permutation can be made anywhere, in any order, with the same bits. Not for secrets.
 * Mixer: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
 */
#include <stdint.h>

/** 64 well mixed bits of `x`. A bijection. */
uint64_t ps_mix64(uint64_t x);

/** Number `index` of the stream (seed, stream). */
uint64_t ps_rng_at(uint64_t seed, uint64_t stream, uint64_t index);

/** Uniform in [0, 1), 24 bits, from 64 random bits. */
float ps_rng_unit(uint64_t bits);

/** Standard normal from 64 random bits: a sum of uniforms, no libm, equal on every machine. */
float ps_rng_normal(uint64_t bits);

/** A generator with a state, for loops. Seed it with anything; 0 is fine. */
struct ps_rng {
    uint64_t state;
};

struct ps_rng ps_rng_from(uint64_t seed);

uint64_t ps_rng_next(struct ps_rng *rng);

/** Uniform in [0, n), without bias. `n` > 0. */
uint64_t ps_rng_below(struct ps_rng *rng, uint64_t n);

#endif
