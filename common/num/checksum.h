#ifndef PS_COMMON_NUM_CHECKSUM_H
#define PS_COMMON_NUM_CHECKSUM_H
/*
 * num/checksum.h — XXH3, 64 and 128 bits: what every file of ours is checked with.
 *
 * Finds damage, not malice. The same bytes give the same sum on every machine, however they are
 * cut into pieces. Pure; nothing allocates.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/slice.h"

struct ps_checksum128 {
    uint64_t low;
    uint64_t high;
};

#define PS_CHECKSUM_STATE_BYTES   576u
#define PS_CHECKSUM128_TEXT_BYTES 33u /* 32 hex digits, the high half first, and the end. */

uint64_t ps_checksum64(const void *data, size_t n_bytes, uint64_t seed);
struct ps_checksum128 ps_checksum128(const void *data, size_t n_bytes);

/** Over pieces: init, add, then `_of` of all that was added, as often as wanted. */
struct ps_checksum_stream {
    _Alignas(64) uint8_t state[PS_CHECKSUM_STATE_BYTES]; /* The library's. */
};

void ps_checksum_init(struct ps_checksum_stream *stream, uint64_t seed);
void ps_checksum_add(struct ps_checksum_stream *stream, const void *data, size_t n_bytes);
void ps_checksum_add_cursor(struct ps_checksum_stream *stream, struct ps_cursor bytes);
uint64_t ps_checksum_of64(const struct ps_checksum_stream *stream);
struct ps_checksum128 ps_checksum_of128(const struct ps_checksum_stream *stream);

static inline bool ps_checksum128_equal(struct ps_checksum128 a, struct ps_checksum128 b)
{
    return a.low == b.low && a.high == b.high;
}

/** As 32 hex digits, as xxhsum -H2 prints it. */
void ps_checksum128_text(struct ps_checksum128 sum, char text[PS_CHECKSUM128_TEXT_BYTES]);
/** False unless `text` begins with 32 lower-case hex digits. */
PS_MUST_CHECK bool ps_checksum128_parse(const char *text, struct ps_checksum128 *ret);

#endif
