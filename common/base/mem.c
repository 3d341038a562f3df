/* mem.c — see mem.h. A header of 64 bytes in front of each block keeps the alignment. */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

#define ALIGN_BYTES ((size_t)64)

struct header {
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

/* What a block of `n_bytes` costs with header and rounding; 0 when that does not fit a size. */
static size_t total_bytes(size_t n_bytes)
{
    size_t n_total = 0;
    return ps_add_size(n_bytes, 2 * ALIGN_BYTES - 1, &n_total) ? n_total & ~(ALIGN_BYTES - 1) : 0;
}

/* A block whose `n_total` bytes are charged already. */
static void *take(struct ps_mem *mem, enum ps_mem_class mem_class, size_t n_bytes, size_t n_total)
{
    uint8_t *block = aligned_alloc(ALIGN_BYTES, n_total);
    if (block == NULL) {
        if (mem != NULL) {
            atomic_fetch_sub(&mem->used[mem_class], n_total);
        }
        return NULL;
    }
    memset(block, 0, n_total);
    *(struct header *)(void *)block =
        (struct header){.mem = mem, .n_bytes = n_bytes, .mem_class = mem_class};
    return block + ALIGN_BYTES;
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
    free(header);
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
