#ifndef PS_COMMON_BASE_BYTES_H
#define PS_COMMON_BASE_BYTES_H
/*
 * base/bytes.h — fixed-width little-endian numbers in byte arrays, and sizes that cannot wrap.
 *
 * Structs never go to disk or wire by memcpy; these do the work.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "only little-endian machines are supported"
#endif

static inline uint32_t ps_load_u32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return value;
}

static inline uint64_t ps_load_u64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return value;
}

static inline void ps_store_u32(uint8_t *to, uint32_t value)
{
    memcpy(to, &value, sizeof(value));
}

static inline void ps_store_u64(uint8_t *to, uint64_t value)
{
    memcpy(to, &value, sizeof(value));
}

/** `*ret` = a * b. False, and `*ret` unchanged, when it does not fit. */
PS_MUST_CHECK static inline bool ps_mul_size(size_t a, size_t b, size_t *ret)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *ret = product;
    return true;
}

/** `*ret` = a + b. False, and `*ret` unchanged, when it does not fit. */
PS_MUST_CHECK static inline bool ps_add_size(size_t a, size_t b, size_t *ret)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *ret = sum;
    return true;
}

#endif
