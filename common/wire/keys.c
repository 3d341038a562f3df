/*
 * keys.c — see keys.h.
 *
 * Reading has three gears: eight one-byte numbers at once, one number of up to eight bytes out of a
 * word, and byte by byte where a slice ends or a number is longer.
 */
#include "wire/keys.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "wire/pb.h"

#define CONTINUES UINT64_C(0x8080808080808080) /* The highest bit of each byte of a word. */

/* What is written for a key. */
static uint64_t difference(const uint64_t *keys, size_t i)
{
    if (i == 0) {
        return keys[0];
    }
    PS_ASSERT(keys[i] > keys[i - 1]);
    return keys[i] - keys[i - 1] - 1;
}

size_t ps_keys_bytes(const uint64_t *keys, size_t n)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        n_bytes += ps_pb_varint_bytes(difference(keys, i));
    }
    return n_bytes;
}

size_t ps_keys_write(const uint64_t *keys, size_t n, uint8_t *to, size_t n_room)
{
    uint8_t *at = to;
    const uint8_t *end = to + n_room;
    for (size_t i = 0; i < n; i++) {
        uint64_t value = difference(keys, i);
        if ((size_t)(end - at) < PS_KEY_BYTES_MAX &&
            (size_t)(end - at) < ps_pb_varint_bytes(value)) {
            return 0;
        }
        for (; value > 127; value >>= 7) {
            *at++ = (uint8_t)(value | 0x80u);
        }
        *at++ = (uint8_t)value;
    }
    return (size_t)(at - to);
}

struct ps_keys_reader ps_keys_reader(struct ps_cursor bytes, uint64_t n)
{
    return (struct ps_keys_reader){.bytes = bytes,
                                   .n_left = n,
                                   .before = UINT64_MAX,
                                   .first = true,
                                   .failed = bytes.failed || bytes.n_left < n ||
                                             (n == 0 && bytes.n_left > 0)};
}

/* The key that follows by `value`. False when there is none. */
static bool follow(struct ps_keys_reader *reader, uint64_t value, uint64_t *ret)
{
    if (!reader->first && value >= UINT64_MAX - reader->before) {
        return false;
    }
    reader->first = false;
    reader->before += value + 1; /* From all ones: the first key is its value. */
    *ret = reader->before;
    return true;
}

/* A number byte by byte, over the ends of slices. False for one cut off, too long or too large. */
static bool slow_varint(struct ps_cursor *bytes, uint64_t *ret)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < PS_KEY_BYTES_MAX; i++) {
        uint8_t byte = 0;
        ps_cursor_copy(bytes, &byte, 1);
        if (bytes->failed || (i == PS_KEY_BYTES_MAX - 1 && byte > 1)) {
            return false;
        }
        value |= (uint64_t)(byte & 0x7fu) << (7 * i);
        if ((byte & 0x80u) == 0) {
            *ret = value;
            return byte != 0 || i == 0;
        }
    }
    return false;
}

/* Squeeze eight groups of seven bits together. */
static uint64_t squeeze(uint64_t word)
{
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (word & UINT64_C(0x000000000fffffff)) | (word & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* Eight keys from eight bytes. `before` is so small that they cannot pass the last key. */
static void eight_keys(struct ps_keys_reader *reader, uint64_t word, uint64_t *keys)
{
    uint64_t key = reader->before;
    for (uint32_t i = 0; i < 8; i++) {
        key += (word >> (8 * i) & 0x7fu) + 1;
        keys[i] = key;
    }
    reader->before = key;
    reader->first = false;
}

/*
 * Keys from a run of bytes that lie together, as long as whole words can be read.
 *
 * @return bytes used; on damage `failed` is set
 */
static size_t from_run(struct ps_keys_reader *reader, const uint8_t *run, size_t n_bytes,
                       uint64_t *keys, size_t n_max, size_t *ret_n)
{
    size_t n = 0;
    size_t at = 0;
    while (n < n_max && n_bytes - at >= sizeof(uint64_t)) {
        uint64_t word = ps_load_u64(run + at);
        uint64_t ends = ~word & CONTINUES;
        bool roomy = reader->before < UINT64_MAX - UINT64_C(8) * 128 || reader->first;
        if (ends == CONTINUES && n_max - n >= 8 && roomy) {
            eight_keys(reader, word, keys + n);
            n += 8;
            at += 8;
            continue;
        }
        if (ends == 0) {
            break; /* Nine or ten bytes. */
        }
        uint32_t n_bits = (uint32_t)__builtin_ctzll(ends) + 1; /* Of the number's bytes. */
        uint64_t value = squeeze(word & (UINT64_MAX >> (64 - n_bits)) & ~CONTINUES);
        bool padded = n_bits > 8 && (word >> (n_bits - 8) & 0x7fu) == 0;
        if (padded || !follow(reader, value, &keys[n])) {
            reader->failed = true;
            break;
        }
        n++;
        at += n_bits / 8;
    }
    *ret_n = n;
    return at;
}

size_t ps_keys_next(struct ps_keys_reader *reader, uint64_t *keys, size_t n_max)
{
    size_t n = 0;
    n_max = n_max < reader->n_left ? n_max : (size_t)reader->n_left;
    while (n < n_max && !reader->failed) {
        struct ps_cursor after = reader->bytes;
        const uint8_t *run = NULL;
        size_t n_here = 0;
        size_t n_bytes = ps_cursor_run(&after, SIZE_MAX, &run);
        size_t n_used =
            n_bytes == 0 ? 0 : from_run(reader, run, n_bytes, keys + n, n_max - n, &n_here);
        ps_cursor_skip(&reader->bytes, n_used);
        n += n_here;
        uint64_t value = 0;
        if (n < n_max && !reader->failed) {
            reader->failed =
                !slow_varint(&reader->bytes, &value) || !follow(reader, value, &keys[n]);
            n++;
        }
    }
    reader->n_left -= reader->failed ? 0 : n;
    if (reader->n_left == 0 && reader->bytes.n_left > 0) {
        reader->failed = true;
    }
    return reader->failed ? 0 : n;
}

enum ps_status ps_keys_read(struct ps_cursor bytes, uint64_t *keys, size_t n, struct ps_error *err)
{
    size_t n_bytes = bytes.n_left;
    struct ps_keys_reader reader = ps_keys_reader(bytes, n);
    (void)ps_keys_next(&reader, keys, n); /* `failed` says it all. */
    if (reader.failed) {
        return ps_fail(err, PS_ERR_INVALID, "%zu bytes are no list of %zu ascending keys", n_bytes,
                       n);
    }
    return PS_OK;
}
