/* checksum.c — see checksum.h. */
#include "num/checksum.h"

#include <stdio.h>

/* Of the library its header is enough, and the state has the size that this code gives it. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"

PS_STATIC_ASSERT(sizeof(XXH3_state_t) == PS_CHECKSUM_STATE_BYTES, "callers have memory for it");

static XXH3_state_t *state_of(struct ps_checksum_stream *stream)
{
    return (XXH3_state_t *)(void *)stream->state;
}

static const XXH3_state_t *const_state_of(const struct ps_checksum_stream *stream)
{
    return (const XXH3_state_t *)(const void *)stream->state;
}

uint64_t ps_checksum64(const void *data, size_t n_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, n_bytes, seed);
}

struct ps_checksum128 ps_checksum128(const void *data, size_t n_bytes)
{
    XXH128_hash_t sum = XXH3_128bits(data, n_bytes);
    return (struct ps_checksum128){.low = sum.low64, .high = sum.high64};
}

void ps_checksum_init(struct ps_checksum_stream *stream, uint64_t seed)
{
    XXH3_INITSTATE(state_of(stream));
    XXH_errorcode failed = XXH3_64bits_reset_withSeed(state_of(stream), seed);
    PS_ASSERT(failed == XXH_OK);
}

void ps_checksum_add(struct ps_checksum_stream *stream, const void *data, size_t n_bytes)
{
    /* The state of both widths is the same; only the end differs. */
    XXH_errorcode failed = XXH3_64bits_update(state_of(stream), data, n_bytes);
    PS_ASSERT(n_bytes == 0 || failed == XXH_OK);
}

void ps_checksum_add_cursor(struct ps_checksum_stream *stream, struct ps_cursor bytes)
{
    const uint8_t *run = NULL;
    size_t n_bytes = 0;
    while ((n_bytes = ps_cursor_run(&bytes, SIZE_MAX, &run)) > 0) {
        ps_checksum_add(stream, run, n_bytes);
    }
}

uint64_t ps_checksum_of64(const struct ps_checksum_stream *stream)
{
    return XXH3_64bits_digest(const_state_of(stream));
}

struct ps_checksum128 ps_checksum_of128(const struct ps_checksum_stream *stream)
{
    XXH128_hash_t sum = XXH3_128bits_digest(const_state_of(stream));
    return (struct ps_checksum128){.low = sum.low64, .high = sum.high64};
}

void ps_checksum128_text(struct ps_checksum128 sum, char text[PS_CHECKSUM128_TEXT_BYTES])
{
    (void)snprintf(text, PS_CHECKSUM128_TEXT_BYTES, "%016llx%016llx", (unsigned long long)sum.high,
                   (unsigned long long)sum.low);
}

static bool half_of(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 16; i++) {
        char c = text[i];
        uint64_t digit = 0;
        if (c >= '0' && c <= '9') {
            digit = (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint64_t)(c - 'a') + 10;
        } else {
            return false; /* The end of the text, too. */
        }
        value = value << 4 | digit;
    }
    *ret = value;
    return true;
}

bool ps_checksum128_parse(const char *text, struct ps_checksum128 *ret)
{
    return half_of(text, &ret->high) && half_of(text + 16, &ret->low);
}
