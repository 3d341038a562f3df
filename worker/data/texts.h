#ifndef PS_WORKER_DATA_TEXTS_H
#define PS_WORKER_DATA_TEXTS_H
/*
 * data/texts.h — up to PS_UNPACK_BYTES of text in memory, added to at its end.
 *
 * Kept in blocks of PS_STREAM_BYTES, so that growing neither copies nor needs room for two. One
 * thread adds; once nobody does, any number may copy. Memory is counted as DATA.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct ps_mem;
struct ps_texts;

/** No text. @return NULL: no memory */
PS_MUST_CHECK struct ps_texts *ps_texts_create(struct ps_mem *mem);

void ps_texts_destroy(struct ps_texts *texts);

uint64_t ps_texts_size(const struct ps_texts *texts);

/**
 * Where the next bytes go, and how many fit there (> 0). The size is below PS_UNPACK_BYTES.
 * @return NULL: no memory
 */
PS_MUST_CHECK void *ps_texts_room(struct ps_texts *texts, size_t *ret_n);

/** The first `n_bytes` of the room just given belong to the text. */
void ps_texts_add(struct ps_texts *texts, size_t n_bytes);

/** Forget everything behind the first `n_bytes`, and give back its memory. */
void ps_texts_cut(struct ps_texts *texts, uint64_t n_bytes);

/** Copy `n_bytes` from byte `at` on; they are there. */
void ps_texts_copy(const struct ps_texts *texts, uint64_t at, void *to, size_t n_bytes);

#endif
