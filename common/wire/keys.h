#ifndef PS_COMMON_WIRE_KEYS_H
#define PS_COMMON_WIRE_KEYS_H
/*
 * wire/keys.h — sorted unique keys as bytes: differences as base-128 varints.
 *
 *     key[i] = key[i - 1] + 1 + varint[i]        the first: key[0] = varint[0]
 *
 * Every list of ascending keys has exactly one encoding, and nothing else can be written: a
 * repeated or descending key has none. What remains to be refused is a number that is cut off, one
 * longer than it needs to be, a key above 2^64 - 1, and too many or too few bytes. Varints are
 * those of protobuf. Pure; nothing allocates.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/slice.h"

#define PS_KEY_BYTES_MAX 10u /* Of one varint. */

/** Bytes that `keys` [n] take; they ascend, and none is there twice. */
size_t ps_keys_bytes(const uint64_t *keys, size_t n);

/** Write `keys` [n], as above. @return bytes written; 0 when `n_room` is too small or n is 0 */
size_t ps_keys_write(const uint64_t *keys, size_t n, uint8_t *to, size_t n_room);

/* A walk over encoded keys. Plain data: copying it remembers a place. */
struct ps_keys_reader {
    struct ps_cursor bytes;
    uint64_t n_left; /* Keys that are still to come. */
    uint64_t before; /* The key before the next one; all ones at the start. */
    bool first;
    bool failed; /* The bytes are no list of so many keys. */
};

/** Read `n` keys that are exactly the bytes of the cursor. */
struct ps_keys_reader ps_keys_reader(struct ps_cursor bytes, uint64_t n);

/**
 * The next keys, ascending, at most `n_max`. Foreign bytes: any are fine.
 *
 * @return how many; 0 at the end and on damage, of which `failed` tells. Damage may show only with
 *         a later call, left-over bytes with the last one: keep nothing until the end is reached
 */
size_t ps_keys_next(struct ps_keys_reader *reader, uint64_t *keys, size_t n_max);

/** Read all `n` keys at once. @return PS_ERR_INVALID with words */
PS_MUST_CHECK enum ps_status ps_keys_read(struct ps_cursor bytes, uint64_t *keys, size_t n,
                                          struct ps_error *err);

#endif
