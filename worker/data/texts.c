/* texts.c — see texts.h. */
#include "data/texts.h"

#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

#define BLOCKS_MAX (PS_UNPACK_BYTES / PS_STREAM_BYTES)

PS_STATIC_ASSERT(PS_UNPACK_BYTES % PS_STREAM_BYTES == 0, "the last block ends at the bound");

struct ps_texts {
    struct ps_mem *mem;
    uint64_t n_bytes;
    uint8_t *blocks[BLOCKS_MAX]; /* Each [PS_STREAM_BYTES]; NULL from the first unused one on. */
};

struct ps_texts *ps_texts_create(struct ps_mem *mem)
{
    struct ps_texts *texts = ps_mem_alloc(mem, PS_MEM_DATA, sizeof(*texts));
    if (texts != NULL) {
        texts->mem = mem;
    }
    return texts;
}

void ps_texts_destroy(struct ps_texts *texts)
{
    if (texts != NULL) {
        ps_texts_cut(texts, 0);
        ps_mem_free(texts);
    }
}

uint64_t ps_texts_size(const struct ps_texts *texts)
{
    return texts->n_bytes;
}

void *ps_texts_room(struct ps_texts *texts, size_t *ret_n)
{
    PS_ASSERT(texts->n_bytes < PS_UNPACK_BYTES);
    uint8_t **block = &texts->blocks[texts->n_bytes / PS_STREAM_BYTES];
    size_t n_used = (size_t)(texts->n_bytes % PS_STREAM_BYTES);
    if (*block == NULL) {
        *block = ps_mem_alloc(texts->mem, PS_MEM_DATA, PS_STREAM_BYTES);
    }
    *ret_n = PS_STREAM_BYTES - n_used;
    return *block != NULL ? *block + n_used : NULL;
}

void ps_texts_add(struct ps_texts *texts, size_t n_bytes)
{
    PS_ASSERT(n_bytes <= PS_STREAM_BYTES - texts->n_bytes % PS_STREAM_BYTES);
    texts->n_bytes += n_bytes;
}

void ps_texts_cut(struct ps_texts *texts, uint64_t n_bytes)
{
    PS_ASSERT(n_bytes <= texts->n_bytes);
    texts->n_bytes = n_bytes;
    size_t n_kept = (size_t)((n_bytes + PS_STREAM_BYTES - 1) / PS_STREAM_BYTES);
    for (size_t i = n_kept; i < BLOCKS_MAX && texts->blocks[i] != NULL; i++) {
        ps_mem_free(texts->blocks[i]);
        texts->blocks[i] = NULL;
    }
}

void ps_texts_copy(const struct ps_texts *texts, uint64_t at, void *to, size_t n_bytes)
{
    PS_ASSERT(at <= texts->n_bytes && n_bytes <= texts->n_bytes - at);
    uint8_t *out = to;
    while (n_bytes > 0) {
        size_t first = (size_t)(at % PS_STREAM_BYTES);
        size_t n = PS_STREAM_BYTES - first < n_bytes ? PS_STREAM_BYTES - first : n_bytes;
        memcpy(out, texts->blocks[at / PS_STREAM_BYTES] + first, n);
        out += n;
        at += n;
        n_bytes -= n;
    }
}
