/*
 * mem.c — see mem.h. A header of 64 bytes in front of each block.
 *
 * Aligned by hand, since aligned_alloc before glibc 2.38 takes nothing from the thread's cache and
 * cuts its blocks out of larger ones: the offcuts made a server grow by 250 bytes per step for
 * ever, although all it asked for was given back.
 */
#include "base/mem.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

#define ALIGN_BYTES ((size_t)64)
#define SLACK_BYTES (ALIGN_BYTES - alignof(max_align_t)) /* The most that aligning may cost. */

struct header {
    void *block; /* As malloc gave it. */
    struct ps_mem *mem;
    uint64_t n_bytes; /* Of the user. */
    enum ps_mem_class mem_class;
};

PS_STATIC_ASSERT(sizeof(struct header) <= ALIGN_BYTES, "the header must not break the alignment");

static const char *const names[] = {
#define X(name, text) [PS_MEM_##name] = #name,
    PS_MEM_CLASS_LIST(X)
#undef X
};

const char *ps_mem_class_name(enum ps_mem_class mem_class)
{
    PS_ASSERT((size_t)mem_class < PS_ARRAY_LEN(names));
    return names[mem_class];
}

void ps_mem_init(struct ps_mem *mem)
{
    *mem = (struct ps_mem){.fail_after = -1};
}

/* Take `n_bytes` of the class's budget, or say no. */
static bool charge(struct ps_mem *mem, enum ps_mem_class mem_class, uint64_t n_bytes)
{
    if (mem == NULL) {
        return true;
    }
    if (atomic_load_explicit(&mem->fail_after, memory_order_relaxed) >= 0 &&
        atomic_fetch_sub(&mem->fail_after, 1) == 0) {
        return false;
    }
    uint64_t used = atomic_fetch_add(&mem->used[mem_class], n_bytes);
    if (mem->limit[mem_class] != 0 && used + n_bytes > mem->limit[mem_class]) {
        atomic_fetch_sub(&mem->used[mem_class], n_bytes);
        return false;
    }
    atomic_fetch_add_explicit(&mem->n_calls, 1, memory_order_relaxed);
    return true;
}

/*
 * What a block of `n_bytes` is charged, with header and rounding (the slack counts as malloc's own
 * cost); 0 when that does not fit a size.
 */
static size_t total_bytes(size_t n_bytes)
{
    size_t n_total = 0;
    bool fits = ps_add_size(n_bytes, 2 * ALIGN_BYTES - 1 + SLACK_BYTES, &n_total);
    return fits ? (n_total - SLACK_BYTES) & ~(ALIGN_BYTES - 1) : 0;
}

/* A block whose `n_total` bytes are charged already. */
static void *take(struct ps_mem *mem, enum ps_mem_class mem_class, size_t n_bytes, size_t n_total)
{
    uint8_t *block = malloc(n_total + SLACK_BYTES);
    if (block == NULL) {
        if (mem != NULL) {
            atomic_fetch_sub(&mem->used[mem_class], n_total);
        }
        return NULL;
    }
    uint8_t *head = block + (-(uintptr_t)block & (ALIGN_BYTES - 1));
    uint8_t *ptr = head + ALIGN_BYTES;
    memset(ptr, 0, n_bytes);
    *(struct header *)(void *)head =
        (struct header){.block = block, .mem = mem, .n_bytes = n_bytes, .mem_class = mem_class};
    return ptr;
}

void *ps_mem_alloc(struct ps_mem *mem, enum ps_mem_class mem_class, size_t n_bytes)
{
    PS_ASSERT(mem_class < PS_MEM_CLASS_COUNT);
    size_t n_total = total_bytes(n_bytes);
    if (n_total == 0 || !charge(mem, mem_class, n_total)) {
        return NULL;
    }
    return take(mem, mem_class, n_bytes, n_total);
}

void *ps_mem_alloc_beyond(struct ps_mem *mem, enum ps_mem_class mem_class, size_t n_bytes)
{
    PS_ASSERT(mem_class < PS_MEM_CLASS_COUNT);
    size_t n_total = total_bytes(n_bytes);
    if (n_total == 0) {
        return NULL;
    }
    if (mem != NULL) {
        atomic_fetch_add(&mem->used[mem_class], n_total);
        atomic_fetch_add_explicit(&mem->n_calls, 1, memory_order_relaxed);
    }
    return take(mem, mem_class, n_bytes, n_total);
}

static struct header *header_of(void *ptr)
{
    return (struct header *)(void *)((uint8_t *)ptr - ALIGN_BYTES);
}

void *ps_mem_array(struct ps_mem *mem, enum ps_mem_class mem_class, size_t n, size_t size)
{
    size_t n_bytes = 0;
    return ps_mul_size(n, size, &n_bytes) ? ps_mem_alloc(mem, mem_class, n_bytes) : NULL;
}

void ps_mem_free(void *ptr)
{
    if (ptr == NULL) {
        return;
    }
    struct header *header = header_of(ptr);
    if (header->mem != NULL) {
        uint64_t n_total = (header->n_bytes + 2 * ALIGN_BYTES - 1) & ~(uint64_t)(ALIGN_BYTES - 1);
        uint64_t used = atomic_fetch_sub(&header->mem->used[header->mem_class], n_total);
        PS_ASSERT(used >= n_total);
    }
    free(header->block);
}

void *ps_mem_grow(struct ps_mem *mem, enum ps_mem_class mem_class, void *ptr, size_t n_bytes)
{
    void *grown = ps_mem_alloc(mem, mem_class, n_bytes);
    if (grown == NULL || ptr == NULL) {
        return grown;
    }
    uint64_t n_old = header_of(ptr)->n_bytes;
    memcpy(grown, ptr, n_old < n_bytes ? n_old : n_bytes);
    ps_mem_free(ptr);
    return grown;
}

char *ps_mem_strdup(struct ps_mem *mem, enum ps_mem_class mem_class, const char *text)
{
    size_t n_bytes = strlen(text) + 1;
    char *copy = ps_mem_alloc(mem, mem_class, n_bytes);
    if (copy != NULL) {
        memcpy(copy, text, n_bytes);
    }
    return copy;
}
