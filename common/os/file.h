#ifndef PS_COMMON_OS_FILE_H
#define PS_COMMON_OS_FILE_H
/*
 * os/file.h — whole files, read only. For replacing files see port/disk.h and os/posix_disk.h.
 *
 * Blocking. A message names the path and the reason. PS_ERR_NOT_FOUND: no such file.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/mem.h"

/** A file mapped read-only. An empty file has `data` NULL and `n_bytes` 0. */
struct ps_file_view {
    const uint8_t *data;
    size_t n_bytes;
};

/** Map a regular file. It must not be truncated by others while it is mapped. */
PS_MUST_CHECK enum ps_status ps_file_map(const char *path, struct ps_file_view *ret,
                                         struct ps_error *err);

/** A zeroed view does nothing. */
void ps_file_unmap(struct ps_file_view *view);

/**
 * Read a whole file (a pipe, too) into memory of `mem`; `*ret` is freed with ps_mem_free and has
 * one 0 behind its last byte that `*ret_n_bytes` does not count.
 * @return PS_ERR_INVALID above `n_bytes_max`
 */
PS_MUST_CHECK enum ps_status ps_file_read(struct ps_mem *mem, const char *path, size_t n_bytes_max,
                                          uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err);

#endif
