#ifndef PS_COMMON_NUM_DTYPE_H
#define PS_COMMON_NUM_DTYPE_H
/*
 * num/dtype.h — the types of numbers that tables and payloads may hold.
 *
 * Numbers are on the wire: never reuse or renumber one. 2 to 4 are kept for f16, bf16 and i8.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_dtype {
    PS_DTYPE_F32 = 1, /* IEEE 754 binary32, little-endian. */
};

/** True for a wire number that this build can compute with. */
static inline bool ps_dtype_known(uint32_t wire)
{
    return wire == (uint32_t)PS_DTYPE_F32;
}

/** Bytes of one element; 0 for a type that is not known. */
static inline size_t ps_dtype_bytes(enum ps_dtype dtype)
{
    return ps_dtype_known((uint32_t)dtype) ? sizeof(float) : 0;
}

#endif
