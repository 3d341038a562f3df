/* rng.c — see rng.h. */
#include "base/rng.h"

#include "base/assert.h"

uint64_t ps_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

uint64_t ps_rng_at(uint64_t seed, uint64_t stream, uint64_t index)
{
    return ps_mix64(ps_mix64(ps_mix64(seed) ^ stream) + index * 0x9e3779b97f4a7c15ull);
}

float ps_rng_unit(uint64_t bits)
{
    return (float)(bits >> 40) * 0x1p-24f;
}

/*
 * Twelve 21-bit uniforms would do (Irwin-Hall); four 16-bit lanes of three mixes give them. The
 * tails end at 6 sigma, which no initialiser needs.
 */
float ps_rng_normal(uint64_t bits)
{
    uint64_t sum = 0;
    for (uint32_t round = 0; round < 3; round++) {
        uint64_t lanes = ps_mix64(bits + round);
        for (uint32_t lane = 0; lane < 4; lane++) {
            sum += (lanes >> (16 * lane)) & 0xffffu;
        }
    }
    return ((float)sum + 6.0f) * 0x1p-16f - 6.0f; /* +6 halves: the mean of each lane is .5. */
}

struct ps_rng ps_rng_from(uint64_t seed)
{
    return (struct ps_rng){.state = ps_mix64(seed)};
}

uint64_t ps_rng_next(struct ps_rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15ull;
    return ps_mix64(rng->state);
}

uint64_t ps_rng_below(struct ps_rng *rng, uint64_t n)
{
    PS_ASSERT(n > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t bits = ps_rng_next(rng);
    while (bits >= limit) {
        bits = ps_rng_next(rng);
    }
    return bits % n;
}
