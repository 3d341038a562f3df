/* snap_file.c — see snap_file.h. */
#include "snap/snap_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/slice.h"
#include "num/checksum.h"

#define CHUNKS_FIRST 16u

enum ps_status ps_snap_path(const char *a, const char *b, char ret[PS_SNAP_PATH_BYTES],
                            struct ps_error *err)
{
    int n = snprintf(ret, PS_SNAP_PATH_BYTES, "%s/%s", a, b);
    if (n < 0 || (size_t)n >= PS_SNAP_PATH_BYTES) {
        return ps_fail(err, PS_ERR_INVALID, "a path below '%.64s' is longer than %u bytes", a,
                       PS_SNAP_PATH_BYTES - 1);
    }
    return PS_OK;
}

/* ---- Writing -------------------------------------------------------------------------------- */

enum ps_status ps_snap_out_open(struct ps_snap_out *out, struct ps_disk *disk, struct ps_mem *mem,
                                const char *dir, const char *name, struct ps_error *err)
{
    char path[PS_SNAP_PATH_BYTES];
    *out = (struct ps_snap_out){.mem = mem, .memory = out->memory};
    int n = snprintf(out->about.name, sizeof(out->about.name), "%s", name);
    PS_ASSERT(n > 0 && (size_t)n < sizeof(out->about.name));
    enum ps_status status = ps_snap_path(dir, name, path, err);
    if (status != PS_OK) {
        return status;
    }
    if (out->memory == NULL) {
        out->memory = ps_mem_alloc(mem, PS_MEM_OTHER, PS_SNAP_WRITE_BYTES + PS_DISK_ALIGN);
    }
    if (out->memory == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write '%s'", path);
    }
    size_t n_over = (uintptr_t)out->memory % PS_DISK_ALIGN;
    out->room = (uint8_t *)out->memory + (PS_DISK_ALIGN - n_over);
    status = ps_disk_open(disk, path, PS_DISK_CREATE, &out->file, err);
    if (status != PS_OK) {
        return status;
    }
    ps_disk_file_pass_by(out->file);
    return PS_OK;
}

static enum ps_status note_sum(struct ps_snap_out *out, struct ps_checksum128 sum,
                               struct ps_error *err)
{
    struct ps_snap_file *about = &out->about;
    if (about->n_chunks == out->n_chunks_room) {
        uint32_t room = out->n_chunks_room == 0 ? CHUNKS_FIRST : 2 * out->n_chunks_room;
        struct ps_checksum128 *chunks = ps_mem_grow(out->mem, PS_MEM_OTHER, about->chunks,
                                                    (size_t)room * sizeof(about->chunks[0]));
        if (chunks == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for the checksums of '%s'", about->name);
        }
        about->chunks = chunks;
        out->n_chunks_room = room;
    }
    about->chunks[about->n_chunks++] = sum;
    return PS_OK;
}

/* What is in the room, which begins where a chunk of the file does. */
static enum ps_status write_room(struct ps_snap_out *out, struct ps_error *err)
{
    struct ps_slice slice = {.data = out->room, .n_bytes = out->n_used};
    enum ps_status status = ps_disk_file_write(out->file, out->about.n_bytes, &slice, 1, err);
    out->about.n_bytes += out->n_used;
    out->n_used = 0;
    return status;
}

/* The last chunk in the room, while it is near: it ends there or with the file. */
static enum ps_status sum_chunk(struct ps_snap_out *out, struct ps_error *err)
{
    size_t first = (out->n_used - 1) / PS_SNAP_CHUNK_BYTES * PS_SNAP_CHUNK_BYTES;
    return note_sum(out, ps_checksum128(out->room + first, out->n_used - first), err);
}

enum ps_status ps_snap_out_put(struct ps_snap_out *out, const void *data, size_t n_bytes,
                               struct ps_error *err)
{
    const uint8_t *from = data;
    enum ps_status status = PS_OK;
    while (status == PS_OK && n_bytes > 0) {
        size_t n_room = PS_SNAP_CHUNK_BYTES - out->n_used % PS_SNAP_CHUNK_BYTES;
        size_t n = n_bytes < n_room ? n_bytes : n_room;
        memcpy(out->room + out->n_used, from, n);
        out->n_used += n;
        from += n;
        n_bytes -= n;
        if (n == n_room) {
            status = sum_chunk(out, err);
        }
        if (status == PS_OK && out->n_used == PS_SNAP_WRITE_BYTES) {
            status = write_room(out, err);
        }
    }
    return status;
}

/* Its file is over; the memory stays. */
static void close_file(struct ps_snap_out *out)
{
    ps_disk_file_close(out->file);
    ps_mem_free(out->about.chunks);
    out->file = NULL;
    out->about.chunks = NULL;
}

enum ps_status ps_snap_out_finish(struct ps_snap_out *out, bool sync, struct ps_snap_file *ret,
                                  struct ps_error *err)
{
    enum ps_status status = PS_OK;
    if (out->n_used % PS_SNAP_CHUNK_BYTES > 0) {
        status = sum_chunk(out, err);
    }
    if (status == PS_OK && out->n_used > 0) {
        status = write_room(out, err);
    }
    if (status == PS_OK && sync) {
        status = ps_disk_file_sync(out->file, err);
    }
    if (status == PS_OK) {
        *ret = out->about;
        out->about.chunks = NULL;
    }
    close_file(out);
    return status;
}

void ps_snap_out_cancel(struct ps_snap_out *out)
{
    close_file(out);
    ps_mem_free(out->memory);
    out->memory = NULL;
    out->room = NULL;
}

/* ---- Reading -------------------------------------------------------------------------------- */

enum ps_status ps_snap_in_open(struct ps_snap_in *in, struct ps_disk *disk, struct ps_mem *mem,
                               const char *dir, const struct ps_snap_file *about,
                               struct ps_error *err)
{
    uint64_t n_bytes = 0;
    *in = (struct ps_snap_in){.about = about};
    enum ps_status status = ps_snap_path(dir, about->name, in->path, err);
    if (status == PS_OK) {
        status = ps_disk_open(disk, in->path, PS_DISK_READ, &in->file, err);
    }
    if (status == PS_OK) {
        status = ps_disk_file_size(in->file, &n_bytes, err);
    }
    if (status == PS_OK && n_bytes != about->n_bytes) {
        status = ps_fail(err, PS_ERR_CORRUPT, "%s: it has %" PRIu64 " bytes, written were %" PRIu64,
                         in->path, n_bytes, about->n_bytes);
    }
    if (status == PS_OK) {
        in->chunk =
            ps_mem_alloc(mem, PS_MEM_OTHER,
                         n_bytes < PS_SNAP_CHUNK_BYTES ? (size_t)n_bytes : PS_SNAP_CHUNK_BYTES);
        if (in->chunk == NULL) {
            status = ps_fail(err, PS_ERR_NOMEM, "no memory to read '%s'", in->path);
        }
    }
    if (status != PS_OK) {
        ps_snap_in_close(in);
    }
    return status;
}

void ps_snap_in_close(struct ps_snap_in *in)
{
    ps_disk_file_close(in->file);
    ps_mem_free(in->chunk);
    in->file = NULL;
    in->chunk = NULL;
}

void ps_snap_in_seek(struct ps_snap_in *in, uint64_t at)
{
    in->at = at;
}

/* Read chunk `number` and compare its sum. */
static enum ps_status load_chunk(struct ps_snap_in *in, uint32_t number, struct ps_error *err)
{
    uint64_t first = (uint64_t)number * PS_SNAP_CHUNK_BYTES;
    uint64_t n_left = in->about->n_bytes - first;
    size_t n_bytes = n_left < PS_SNAP_CHUNK_BYTES ? (size_t)n_left : PS_SNAP_CHUNK_BYTES;
    size_t n_read = 0;
    in->number = 0;
    enum ps_status status = ps_disk_file_read(in->file, first, in->chunk, n_bytes, &n_read, err);
    if (status != PS_OK) {
        return status;
    }
    if (n_read != n_bytes) {
        return ps_fail(err, PS_ERR_CORRUPT, "%s:%" PRIu64 ": the file ends here, it must not",
                       in->path, first + n_read);
    }
    if (!ps_checksum128_equal(ps_checksum128(in->chunk, n_bytes), in->about->chunks[number])) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "%s:%" PRIu64 ": %zu bytes from here on are not what was written: use "
                       "another snapshot",
                       in->path, first, n_bytes);
    }
    in->number = number + 1;
    return PS_OK;
}

enum ps_status ps_snap_in_next(struct ps_snap_in *in, void *to, size_t n_bytes,
                               struct ps_error *err)
{
    uint8_t *out = to;
    if (in->at > in->about->n_bytes || n_bytes > in->about->n_bytes - in->at) {
        return ps_fail(err, PS_ERR_CORRUPT, "%s:%" PRIu64 ": %zu bytes are not there", in->path,
                       in->at, n_bytes);
    }
    while (n_bytes > 0) {
        uint32_t number = (uint32_t)(in->at / PS_SNAP_CHUNK_BYTES);
        size_t from = (size_t)(in->at % PS_SNAP_CHUNK_BYTES);
        size_t n_here = PS_SNAP_CHUNK_BYTES - from;
        size_t n = n_bytes < n_here ? n_bytes : n_here;
        if (in->number != number + 1) {
            enum ps_status status = load_chunk(in, number, err);
            if (status != PS_OK) {
                return status;
            }
        }
        memcpy(out, in->chunk + from, n);
        out += n;
        in->at += n;
        n_bytes -= n;
    }
    return PS_OK;
}

enum ps_status ps_snap_in_verify(struct ps_snap_in *in, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; status == PS_OK && i < in->about->n_chunks; i++) {
        status = load_chunk(in, i, err);
    }
    return status;
}
