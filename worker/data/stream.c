/* stream.c — see stream.h. */
#include "data/stream.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <fcntl.h>
#include <unistd.h>

#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/texts.h"

#define GZIP_ONLY (MAX_WBITS + 16) /* inflateInit2: a gzip wrapper, check its CRC. */

struct ps_stream {
    struct ps_mem *mem;
    const struct ps_source_file *file; /* Borrowed; NULL: stopped. */
    int fd;
    uint64_t offset; /* Of the next byte to be read from the disk or from memory. */
    uint8_t *packed; /* [PS_STREAM_BYTES], from the first packed file on. */
    size_t n_packed; /* Bytes in it, */
    size_t n_used;   /* of which so many are unpacked. */
    bool between;    /* At the end of a gzip member or zstd frame. */
    bool any;        /* One of them was begun. */
    bool gzip_ready;
    z_stream gzip;
    ZSTD_DCtx *zstd;
};

struct ps_stream *ps_stream_create(struct ps_mem *mem)
{
    struct ps_stream *stream = ps_mem_alloc(mem, PS_MEM_DATA, sizeof(*stream));
    if (stream != NULL) {
        stream->mem = mem;
        stream->fd = -1;
    }
    return stream;
}

void ps_stream_stop(struct ps_stream *stream)
{
    if (stream->fd >= 0) {
        (void)close(stream->fd); /* Read only. */
    }
    stream->fd = -1;
    stream->file = NULL;
}

void ps_stream_destroy(struct ps_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    ps_stream_stop(stream);
    if (stream->gzip_ready) {
        (void)inflateEnd(&stream->gzip); /* Frees; an unfinished stream is no news here. */
    }
    (void)ZSTD_freeDCtx(stream->zstd);
    ps_mem_free(stream->packed);
    ps_mem_free(stream);
}

/* zlib's state comes out of the same budget. */
static void *zlib_alloc(void *mem, unsigned n, unsigned size)
{
    return ps_mem_array(mem, PS_MEM_DATA, n, size);
}

static void zlib_free(void *mem, void *ptr)
{
    (void)mem;
    ps_mem_free(ptr);
}

static bool ready_gzip(struct ps_stream *stream)
{
    if (stream->gzip_ready) {
        return inflateReset(&stream->gzip) == Z_OK;
    }
    stream->gzip = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = stream->mem};
    stream->gzip_ready = inflateInit2(&stream->gzip, GZIP_ONLY) == Z_OK;
    return stream->gzip_ready;
}

static bool ready_zstd(struct ps_stream *stream)
{
    if (stream->zstd == NULL) {
        stream->zstd = ZSTD_createDCtx();
    }
    return stream->zstd != NULL &&
           !ZSTD_isError(ZSTD_DCtx_reset(stream->zstd, ZSTD_reset_session_only)) &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax,
                                                (int)PS_ZSTD_WINDOW_LOG_MAX));
}

static enum ps_status ready(struct ps_stream *stream, struct ps_error *err)
{
    if (stream->packed == NULL) {
        stream->packed = ps_mem_alloc(stream->mem, PS_MEM_DATA, PS_STREAM_BYTES);
    }
    stream->n_packed = 0;
    stream->n_used = 0;
    stream->between = true;
    stream->any = false;
    bool good =
        stream->packed != NULL &&
        (stream->file->packing == PS_PACKING_GZIP ? ready_gzip(stream) : ready_zstd(stream));
    return good ? PS_OK
                : ps_fail(err, PS_ERR_NOMEM, "no memory to unpack '%s'", stream->file->path);
}

enum ps_status ps_stream_start(struct ps_stream *stream, const struct ps_source_file *file,
                               uint64_t offset, struct ps_error *err)
{
    PS_ASSERT(offset == 0 || file->packing == PS_PACKING_NONE);
    ps_stream_stop(stream);
    if (file->texts != NULL) {
        stream->file = file;
        stream->offset = offset;
        return PS_OK;
    }
    stream->fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (stream->fd < 0) {
        return ps_fail(err, errno == ENOENT ? PS_ERR_NOT_FOUND : PS_ERR_IO, "cannot open '%s': %s",
                       file->path, strerrordesc_np(errno));
    }
    stream->file = file;
    stream->offset = offset;
    enum ps_status status = file->packing == PS_PACKING_NONE ? PS_OK : ready(stream, err);
    if (status != PS_OK) {
        ps_stream_stop(stream);
    }
    return status;
}

/* Bytes as they lie on the disk; 0 at the end. */
static enum ps_status read_disk(struct ps_stream *stream, void *to, size_t n_room, size_t *ret_n,
                                struct ps_error *err)
{
    ssize_t n = -1;
    do {
        n = pread(stream->fd, to, n_room, (off_t)stream->offset);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return ps_fail(err, PS_ERR_IO, "cannot read '%s': %s", stream->file->path,
                       strerrordesc_np(errno));
    }
    stream->offset += (uint64_t)n;
    *ret_n = (size_t)n;
    return PS_OK;
}

static enum ps_status damaged(const struct ps_stream *stream, const char *why, struct ps_error *err)
{
    return ps_fail(err, PS_ERR_INVALID, "'%s': the packed data are damaged (%s)",
                   stream->file->path, why);
}

/* Unpack what is there into `to`; at the end of a member `between` is true. */
static enum ps_status unpack_gzip(struct ps_stream *stream, void *to, size_t n_room, size_t *ret_n,
                                  struct ps_error *err)
{
    z_stream *gzip = &stream->gzip;
    if (stream->between && stream->any && inflateReset(gzip) != Z_OK) {
        return ps_fail(err, PS_ERR_INTERNAL, "zlib refuses to start anew");
    }
    gzip->next_in = stream->packed + stream->n_used;
    gzip->avail_in = (unsigned)(stream->n_packed - stream->n_used);
    gzip->next_out = to;
    gzip->avail_out = (unsigned)(n_room < UINT_MAX ? n_room : UINT_MAX);
    unsigned n_out = gzip->avail_out;
    int word = inflate(gzip, Z_NO_FLUSH);
    stream->n_used = stream->n_packed - gzip->avail_in;
    *ret_n = n_out - gzip->avail_out;
    stream->any = true;
    stream->between = word == Z_STREAM_END;
    if (word == Z_MEM_ERROR) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to unpack '%s'", stream->file->path);
    }
    if (word != Z_OK && word != Z_STREAM_END && word != Z_BUF_ERROR) {
        return damaged(stream, gzip->msg != NULL ? gzip->msg : "gzip", err);
    }
    return PS_OK;
}

static enum ps_status unpack_zstd(struct ps_stream *stream, void *to, size_t n_room, size_t *ret_n,
                                  struct ps_error *err)
{
    ZSTD_inBuffer in = {.src = stream->packed, .size = stream->n_packed, .pos = stream->n_used};
    ZSTD_outBuffer out = {.dst = to, .size = n_room};
    size_t word = ZSTD_decompressStream(stream->zstd, &out, &in);
    if (ZSTD_isError(word)) {
        return damaged(stream, ZSTD_getErrorName(word), err);
    }
    stream->n_used = in.pos;
    stream->any = true;
    stream->between = word == 0;
    *ret_n = out.pos;
    return PS_OK;
}

/* More packed bytes; false: there are none. */
static enum ps_status refill(struct ps_stream *stream, bool *ret_any, struct ps_error *err)
{
    size_t n = 0;
    enum ps_status status = read_disk(stream, stream->packed, PS_STREAM_BYTES, &n, err);
    if (status == PS_OK) {
        stream->n_packed = n;
        stream->n_used = 0;
        *ret_any = n > 0;
    }
    return status;
}

static enum ps_status read_packed(struct ps_stream *stream, void *to, size_t n_room, size_t *ret_n,
                                  struct ps_error *err)
{
    for (;;) {
        size_t n = 0;
        enum ps_status status = PS_OK;
        /* Also without input left: the unpacker may hold back what found no room. */
        if (stream->n_used < stream->n_packed || (stream->any && !stream->between)) {
            status = stream->file->packing == PS_PACKING_GZIP
                         ? unpack_gzip(stream, to, n_room, &n, err)
                         : unpack_zstd(stream, to, n_room, &n, err);
        }
        if (status != PS_OK || n > 0) {
            *ret_n = n;
            return status;
        }
        if (stream->n_used < stream->n_packed) {
            continue; /* The end of a member that made nothing more; the next one follows. */
        }
        bool any = false;
        status = refill(stream, &any, err);
        if (status != PS_OK) {
            return status;
        }
        if (!any) {
            *ret_n = 0;
            return stream->between ? PS_OK : damaged(stream, "cut off", err);
        }
    }
}

/* Bytes of a text in memory; 0 at the end. */
static size_t read_text(struct ps_stream *stream, void *to, size_t n_room)
{
    const struct ps_source_file *file = stream->file;
    uint64_t n_left = stream->offset < file->n_bytes ? file->n_bytes - stream->offset : 0;
    size_t n = n_left < n_room ? (size_t)n_left : n_room;
    ps_texts_copy(file->texts, file->at + stream->offset, to, n);
    stream->offset += n;
    return n;
}

enum ps_status ps_stream_read(struct ps_stream *stream, void *to, size_t n_room, size_t *ret_n,
                              struct ps_error *err)
{
    PS_ASSERT(stream->file != NULL);
    PS_ASSERT(n_room > 0);
    if (stream->file->texts != NULL) {
        *ret_n = read_text(stream, to, n_room);
        return PS_OK;
    }
    return stream->file->packing == PS_PACKING_NONE ? read_disk(stream, to, n_room, ret_n, err)
                                                    : read_packed(stream, to, n_room, ret_n, err);
}
