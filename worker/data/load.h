#ifndef PS_WORKER_DATA_LOAD_H
#define PS_WORKER_DATA_LOAD_H
/*
 * data/load.h — a whole file in memory, unpacked if it is gzip.
 *
 * gzip is recognised by its first two bytes, never by the name of the file. Unpacking stops at a
 * bound, so that a small file cannot fill the machine. Memory is counted as DATA.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_mem;

#define PS_LOAD_BYTES_MAX (8ull << 30) /* Unpacked; more does not fit the machines we run on. */

struct ps_load {
    uint8_t *data; /* Give to ps_mem_free. */
    size_t n_bytes;
};

/** True when the bytes begin like a gzip file. */
bool ps_gzip_like(const uint8_t *data, size_t n_bytes);

/**
 * Unpack gzip bytes, all members, at most `n_max` bytes of output.
 *
 * @return PS_ERR_INVALID  damaged, cut off, followed by something else, or larger than n_max
 *         PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_gunzip(struct ps_mem *mem, const uint8_t *data, size_t n_bytes,
                                       size_t n_max, struct ps_load *ret, struct ps_error *err);

/**
 * Read a file and unpack it if need be. Messages begin with the path.
 *
 * @return PS_ERR_NOT_FOUND, PS_ERR_IO, or as ps_gunzip
 */
PS_MUST_CHECK enum ps_status ps_load_file(struct ps_mem *mem, const char *path, struct ps_load *ret,
                                          struct ps_error *err);

#endif
