#ifndef PS_COMMON_NUM_VECTOR_H
#define PS_COMMON_NUM_VECTOR_H
/*
 * num/vector.h — what an element-wise loop needs so that both compilers vectorise it.
 *
 * PS_VECTOR_LOOP stands directly before a `for` and says that no pass reads what another pass
 * wrote. So `out` may equal `in`, or not overlap it at all; a partial overlap is forbidden.
 * Payload floats lie at any address: read them with ps_f32_at, which compiles to an unaligned load.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#    define PS_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#    define PS_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

/** Float `i` of little-endian floats that start at any address. */
static inline float ps_f32_at(const uint8_t *bytes, size_t i)
{
    float value;
    memcpy(&value, bytes + i * sizeof(value), sizeof(value));
    return value;
}

#endif
