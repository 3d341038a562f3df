#ifndef PS_WORKER_DATA_IDX_H
#define PS_WORKER_DATA_IDX_H
/*
 * data/idx.h — the IDX format of MNIST and its relatives, read from memory.
 *
 *   0 0 type n_dims | n_dims sizes, u32 big-endian | values, row-major
 *
 * Only type 0x08 (unsigned byte) occurs in such sets and is accepted. The bytes may come from
 * anybody: every length is checked before it is believed, and the file must end where its header
 * says. Source: http://yann.lecun.com/exdb/mnist/, "The IDX file format".
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

#define PS_IDX_DIMS_MAX   4u /* Images with colour planes have 4. */
#define PS_IDX_TYPE_UBYTE 0x08u

struct ps_idx_view {
    const uint8_t *values; /* [dims[0]] ... [dims[n_dims - 1]], borrowed from the file. */
    size_t n_values;
    uint32_t dims[PS_IDX_DIMS_MAX]; /* Each >= 1. */
    uint32_t n_dims;
};

/** Check a whole file and describe it. `*ret` borrows from `data`. @return PS_ERR_INVALID */
PS_MUST_CHECK enum ps_status ps_idx_parse(const uint8_t *data, size_t n_bytes,
                                          struct ps_idx_view *ret, struct ps_error *err);

#endif
