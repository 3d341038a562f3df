#ifndef PS_WORKER_DATA_UNPACK_H
#define PS_WORKER_DATA_UNPACK_H
/*
 * data/unpack.h — the packed files of a source that are small, as text in memory.
 */
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_source;

/**
 * Unpack the packed files of `source` in order, from its first to before the first with which
 * their text would be longer than `n_bytes_max` (<= PS_UNPACK_BYTES): those are plain files from
 * then on, whose bytes are in source->texts. What a file says of its own size is not asked; but
 * one that is longer on the disk than what is left is not tried. The memory used meanwhile is
 * n_bytes_max, a block, and what a stream takes.
 *
 * @return PS_ERR_INVALID  a file is damaged or cut off; the message names it
 *         PS_ERR_NOT_FOUND, PS_ERR_IO, PS_ERR_NOMEM; source->texts is the source's all the same
 */
PS_MUST_CHECK enum ps_status ps_unpack_files(struct ps_source *source, uint64_t n_bytes_max,
                                             struct ps_error *err);

#endif
