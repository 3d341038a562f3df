/* load.c — see load.h. */
#include "data/load.h"

#include <limits.h>

#define ZLIB_CONST /* Input that zlib promises not to change. */
#include <zlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "os/file.h"

#define GZIP_BYTES_MIN    18u   /* Header 10, trailer 8. */
#define DEFLATE_RATIO_MAX 1032u /* No deflate stream unpacks to more (zlib.net/zlib_tech.html). */
#define GZIP_ONLY         (MAX_WBITS + 16) /* inflateInit2: a gzip wrapper, check its CRC. */
#define CHUNK_BYTES       (1u << 20)
#define GROWTH_BYTES_MIN  64u

bool ps_gzip_like(const uint8_t *data, size_t n_bytes)
{
    return n_bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b;
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

struct unpack {
    struct ps_mem *mem;
    const uint8_t *data;
    size_t n_bytes;
    size_t n_read;
    struct ps_load out;
    size_t n_out_room;
    size_t n_out_max;
    z_stream stream;
};

/* The trailer names the size of the last member: a good first guess, believed within reason. */
static size_t first_room(const uint8_t *data, size_t n_bytes, size_t n_max)
{
    size_t n_named = n_bytes >= GZIP_BYTES_MIN ? ps_load_u32(data + n_bytes - 4) : 0;
    size_t n_possible = 0;
    if (!ps_mul_size(n_bytes, DEFLATE_RATIO_MAX, &n_possible)) {
        n_possible = n_max;
    }
    size_t room = n_named < n_possible ? n_named : n_possible;
    room = room < GROWTH_BYTES_MIN ? GROWTH_BYTES_MIN : room;
    return room < n_max ? room : n_max;
}

static enum ps_status grow(struct unpack *unpack, struct ps_error *err)
{
    if (unpack->n_out_room >= unpack->n_out_max) {
        return ps_fail(err, PS_ERR_INVALID, "unpacks to more than %zu bytes", unpack->n_out_max);
    }
    size_t room =
        unpack->n_out_room <= unpack->n_out_max / 2 ? unpack->n_out_room * 2 : unpack->n_out_max;
    uint8_t *grown = ps_mem_grow(unpack->mem, PS_MEM_DATA, unpack->out.data, room);
    if (grown == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to unpack %zu bytes", room);
    }
    unpack->out.data = grown;
    unpack->n_out_room = room;
    return PS_OK;
}

/* Run zlib once over what is left of input and room. Returns zlib's word. */
static int inflate_some(struct unpack *unpack)
{
    z_stream *stream = &unpack->stream;
    size_t n_in = unpack->n_bytes - unpack->n_read;
    size_t n_room = unpack->n_out_room - unpack->out.n_bytes;
    n_in = n_in < CHUNK_BYTES ? n_in : CHUNK_BYTES;
    n_room = n_room < UINT_MAX ? n_room : UINT_MAX;
    stream->next_in = unpack->data + unpack->n_read;
    stream->avail_in = (unsigned)n_in;
    stream->next_out = unpack->out.data + unpack->out.n_bytes;
    stream->avail_out = (unsigned)n_room;
    int word = inflate(stream, Z_NO_FLUSH);
    unpack->n_read += n_in - stream->avail_in;
    unpack->out.n_bytes += n_room - stream->avail_out;
    return word;
}

/* After the end of a member: another one, the end of the file, or something that has no place. */
static enum ps_status next_member(struct unpack *unpack, bool *ret_done, struct ps_error *err)
{
    size_t n_left = unpack->n_bytes - unpack->n_read;
    *ret_done = n_left == 0;
    if (n_left == 0) {
        return PS_OK;
    }
    if (!ps_gzip_like(unpack->data + unpack->n_read, n_left)) {
        return ps_fail(err, PS_ERR_INVALID, "%zu bytes follow the end of the gzip data", n_left);
    }
    if (inflateReset(&unpack->stream) != Z_OK) {
        return ps_fail(err, PS_ERR_INTERNAL, "zlib refuses to start anew");
    }
    return PS_OK;
}

static enum ps_status unpack_all(struct unpack *unpack, struct ps_error *err)
{
    bool done = false;
    while (!done) {
        enum ps_status status = PS_OK;
        int word = inflate_some(unpack);
        if (word == Z_STREAM_END) {
            status = next_member(unpack, &done, err);
        } else if (word == Z_MEM_ERROR) {
            status = ps_fail(err, PS_ERR_NOMEM, "no memory for zlib");
        } else if (word != Z_OK && word != Z_BUF_ERROR) {
            status = ps_fail(err, PS_ERR_INVALID, "the gzip data are damaged (%s)",
                             unpack->stream.msg != NULL ? unpack->stream.msg : "no reason given");
        } else if (unpack->out.n_bytes == unpack->n_out_room) {
            status = grow(unpack, err);
        } else if (unpack->n_read == unpack->n_bytes) {
            status = ps_fail(err, PS_ERR_INVALID, "the gzip data are cut off after %zu bytes",
                             unpack->n_bytes);
        }
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

enum ps_status ps_gunzip(struct ps_mem *mem, const uint8_t *data, size_t n_bytes, size_t n_max,
                         struct ps_load *ret, struct ps_error *err)
{
    PS_ASSERT(n_max > 0);
    struct unpack unpack = {
        .mem = mem,
        .data = data,
        .n_bytes = n_bytes,
        .n_out_room = first_room(data, n_bytes, n_max),
        .n_out_max = n_max,
        .stream = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = mem},
    };
    if (inflateInit2(&unpack.stream, GZIP_ONLY) != Z_OK) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for zlib");
    }
    enum ps_status status = PS_OK;
    unpack.out.data = ps_mem_alloc(mem, PS_MEM_DATA, unpack.n_out_room);
    if (unpack.out.data == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory to unpack %zu bytes", unpack.n_out_room);
    } else {
        status = unpack_all(&unpack, err);
    }
    (void)inflateEnd(&unpack.stream); /* Frees; an unfinished stream is no news here. */
    if (status != PS_OK) {
        ps_mem_free(unpack.out.data);
        return status;
    }
    *ret = unpack.out;
    return PS_OK;
}

enum ps_status ps_load_file(struct ps_mem *mem, const char *path, struct ps_load *ret,
                            struct ps_error *err)
{
    struct ps_load raw = {0};
    enum ps_status status =
        ps_file_read(mem, path, (size_t)PS_LOAD_BYTES_MAX, &raw.data, &raw.n_bytes, err);
    if (status != PS_OK) {
        return status;
    }
    if (!ps_gzip_like(raw.data, raw.n_bytes)) {
        *ret = raw;
        return PS_OK;
    }
    status = ps_gunzip(mem, raw.data, raw.n_bytes, (size_t)PS_LOAD_BYTES_MAX, ret, err);
    ps_mem_free(raw.data);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "'%s'", path);
}
