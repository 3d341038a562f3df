/* unpack.c — see unpack.h. */
#include "data/unpack.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/assert.h"
#include "base/limits.h"
#include "data/source.h"
#include "data/stream.h"
#include "data/texts.h"

/* The next bytes of the stream, to the end of the texts; of what has no room one byte. */
static enum ps_status unpack_some(struct ps_texts *texts, struct ps_stream *stream,
                                  uint64_t n_bytes_max, size_t *ret_n, struct ps_error *err)
{
    char beyond = 0;
    if (ps_texts_size(texts) == n_bytes_max) {
        return ps_stream_read(stream, &beyond, 1, ret_n, err);
    }
    size_t n_room = 0;
    void *room = ps_texts_room(texts, &n_room);
    if (room == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for more than %" PRIu64 " bytes of text",
                       ps_texts_size(texts));
    }
    enum ps_status status = ps_stream_read(stream, room, n_room, ret_n, err);
    if (status == PS_OK) {
        ps_texts_add(texts, *ret_n);
    }
    return status;
}

/* Add the text of `file`; false, and nothing is added, if it does not fit. */
static enum ps_status unpack_file(struct ps_texts *texts, struct ps_stream *stream,
                                  struct ps_source_file *file, uint64_t n_bytes_max, bool *ret_fits,
                                  struct ps_error *err)
{
    uint64_t begin = ps_texts_size(texts);
    uint64_t n_seen = begin;
    enum ps_status status = ps_stream_start(stream, file, 0, err);
    size_t n = 1;
    while (status == PS_OK && n > 0 && n_seen <= n_bytes_max) {
        status = unpack_some(texts, stream, n_bytes_max, &n, err);
        n_seen += n;
    }
    ps_stream_stop(stream);
    if (status != PS_OK) {
        return status == PS_ERR_NOMEM ? ps_wrap(err, status, "cannot unpack '%s'", file->path)
                                      : status;
    }
    *ret_fits = n_seen <= n_bytes_max;
    if (!*ret_fits) {
        ps_texts_cut(texts, begin);
        file->n_text_min = n_seen - begin;
        return PS_OK;
    }
    file->texts = texts;
    file->at = begin;
    file->n_bytes = n_seen - begin;
    file->packing = PS_PACKING_NONE;
    return PS_OK;
}

static enum ps_status unpack_files(struct ps_source *source, struct ps_stream *stream,
                                   uint64_t n_bytes_max, struct ps_error *err)
{
    bool fits = true;
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < source->n_files && status == PS_OK && fits; i++) {
        struct ps_source_file *file = &source->files[i];
        if (file->packing == PS_PACKING_NONE) {
            continue;
        }
        fits = file->n_disk <= n_bytes_max - ps_texts_size(source->texts);
        if (fits) {
            status = unpack_file(source->texts, stream, file, n_bytes_max, &fits, err);
        }
    }
    return status;
}

static bool any_packed(const struct ps_source *source)
{
    for (uint32_t i = 0; i < source->n_files; i++) {
        if (source->files[i].packing != PS_PACKING_NONE) {
            return true;
        }
    }
    return false;
}

enum ps_status ps_unpack_files(struct ps_source *source, uint64_t n_bytes_max, struct ps_error *err)
{
    PS_ASSERT(n_bytes_max <= PS_UNPACK_BYTES);
    PS_ASSERT(source->texts == NULL);
    if (n_bytes_max == 0 || !any_packed(source)) {
        return PS_OK;
    }
    struct ps_stream *stream = ps_stream_create(source->mem);
    source->texts = ps_texts_create(source->mem);
    enum ps_status status = PS_OK;
    if (stream == NULL || source->texts == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory to unpack data");
    } else {
        status = unpack_files(source, stream, n_bytes_max, err);
    }
    ps_stream_destroy(stream);
    return status;
}
