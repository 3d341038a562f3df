#ifndef PS_COMMON_BASE_SHAPE_H
#define PS_COMMON_BASE_SHAPE_H
/*
 * base/shape.h — sizes that come from outside: products, bytes and ranges that cannot wrap.
 *
 * Every reader of a shape (a table's definition, IDX, model files) multiplies with these. Each has
 * a bound, false means "not believed", and what was to be filled is then unchanged.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/** `*n` *= dim, up to `n_max`. Dimensions of 0 are allowed; a 0 stays 0. */
PS_MUST_CHECK static inline bool ps_shape_times(uint64_t *n, uint64_t dim, uint64_t n_max)
{
    uint64_t product;
    if (__builtin_mul_overflow(*n, dim, &product) || product > n_max) {
        return false;
    }
    *n = product;
    return true;
}

/** Elements of a shape, at most `n_max`; of no dimensions 1. */
PS_MUST_CHECK static inline bool ps_shape_elements(const uint64_t *dims, size_t n_dims,
                                                   uint64_t n_max, uint64_t *ret)
{
    uint64_t n = 1;
    for (size_t i = 0; i < n_dims; i++) {
        if (!ps_shape_times(&n, dims[i], n_max)) {
            return false;
        }
    }
    *ret = n;
    return true;
}

/** Bytes of `n` elements of `element_bytes` each, at most `n_bytes_max`. */
PS_MUST_CHECK static inline bool ps_shape_bytes(uint64_t n, uint64_t element_bytes,
                                                uint64_t n_bytes_max, uint64_t *ret)
{
    uint64_t n_bytes = element_bytes;
    if (!ps_shape_times(&n_bytes, n, n_bytes_max)) {
        return false;
    }
    *ret = n_bytes;
    return true;
}

/** Do `n` from `first` on lie within `n_all`? */
static inline bool ps_shape_within(uint64_t first, uint64_t n, uint64_t n_all)
{
    return first <= n_all && n <= n_all - first;
}

#endif
