#ifndef PS_WORKER_DATA_STREAM_H
#define PS_WORKER_DATA_STREAM_H
/*
 * data/stream.h — the bytes of one file in order, unpacked on the way, in bounded memory; from the
 * disk, or from memory if the source has its text there.
 *
 * One thread at a time. Buffers are kept from file to file. zstd's own window (at most
 * 2^PS_ZSTD_WINDOW_LOG_MAX bytes) is allocated by that library and not counted.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "data/source.h"

struct ps_mem;
struct ps_stream;

/** A stream without a file. @return NULL: no memory */
PS_MUST_CHECK struct ps_stream *ps_stream_create(struct ps_mem *mem);

void ps_stream_destroy(struct ps_stream *stream);

/**
 * Go to byte `offset` of a file (0 if it is packed), leaving the last one. `file` is borrowed until
 * the next start or the end.
 * @return PS_ERR_NOT_FOUND, PS_ERR_IO, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_stream_start(struct ps_stream *stream,
                                             const struct ps_source_file *file, uint64_t offset,
                                             struct ps_error *err);

/**
 * The next 1 to `n_room` bytes; 0 at the end of the file. Messages name the file.
 * @return PS_ERR_INVALID  the packed data are damaged or cut off
 *         PS_ERR_IO, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_stream_read(struct ps_stream *stream, void *to, size_t n_room,
                                            size_t *ret_n, struct ps_error *err);

/** Close the file; the buffers stay. */
void ps_stream_stop(struct ps_stream *stream);

#endif
