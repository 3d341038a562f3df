/* hash.c — see hash.h. */
#include "data/hash.h"

#include <string.h>

#include "base/bytes.h"
#include "base/rng.h"

/* Eight bytes at a time; the length goes in first, so that joints count. */
uint64_t ps_hash_bytes(uint64_t hash, const void *data, size_t n_bytes)
{
    const uint8_t *bytes = data;
    hash = ps_mix64(hash ^ n_bytes);
    size_t i = 0;
    for (; i + 8 <= n_bytes; i += 8) {
        hash = ps_mix64(hash ^ ps_load_u64(bytes + i));
    }
    uint8_t rest[8] = {0};
    if (i < n_bytes) {
        memcpy(rest, bytes + i, n_bytes - i);
    }
    return ps_mix64(hash ^ ps_load_u64(rest));
}
