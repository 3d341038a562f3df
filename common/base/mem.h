#ifndef PS_COMMON_BASE_MEM_H
#define PS_COMMON_BASE_MEM_H
/*
 * base/mem.h — the only door to the heap: counted by class, refused beyond a budget.
 *
 * Every allocation names a budget (struct ps_mem, owned by the daemon) and a class. An allocation
 * remembers both, so freeing needs only the pointer. `mem` NULL means: counted nowhere, no bound
 * (tests, tools). Any thread. Memory is zeroed. Alignment is 64 bytes.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/*    name      what is counted here                                     */
#define PS_MEM_CLASS_LIST(X)                                       \
    X(PAGES, "weights and optimizer state of tables")              \
    X(STAGED, "gradients kept until an aggregated step is closed") \
    X(CALLS, "requests and replies under way")                     \
    X(SESSIONS, "sessions, sequences seen, leases")                \
    X(DATA, "training data held by a worker")                      \
    X(OTHER, "everything else")

enum ps_mem_class {
#define X(name, text) PS_MEM_##name,
    PS_MEM_CLASS_LIST(X)
#undef X
    PS_MEM_CLASS_COUNT
};

struct ps_mem {
    _Atomic uint64_t used[PS_MEM_CLASS_COUNT]; /* Bytes, headers included. */
    uint64_t limit[PS_MEM_CLASS_COUNT];        /* Bytes; 0: no limit. Set before first use. */
    _Atomic uint64_t n_calls;                  /* Allocations ever: the hot path makes none. */
    _Atomic int64_t fail_after; /* Tests: refuse the allocation after this many; < 0: never. */
};

void ps_mem_init(struct ps_mem *mem);

/** `n_bytes` of zeroed memory, or NULL when budget or machine has no more. `n_bytes` may be 0. */
PS_MUST_CHECK void *ps_mem_alloc(struct ps_mem *mem, enum ps_mem_class mem_class, size_t n_bytes);

/**
 * As above, counted, but not refused by the budget: for work that others wait for and that has no
 * way back. NULL only when the machine has no more.
 */
PS_MUST_CHECK void *ps_mem_alloc_beyond(struct ps_mem *mem, enum ps_mem_class mem_class,
                                        size_t n_bytes);

/** `n` elements of `size` bytes; NULL also when the product wraps. */
PS_MUST_CHECK void *ps_mem_array(struct ps_mem *mem, enum ps_mem_class mem_class, size_t n,
                                 size_t size);

/** As realloc; on failure the old block stays valid. `ptr` NULL allocates. New bytes are zero. */
PS_MUST_CHECK void *ps_mem_grow(struct ps_mem *mem, enum ps_mem_class mem_class, void *ptr,
                                size_t n_bytes);

/** Give back. NULL does nothing. Any thread. */
void ps_mem_free(void *ptr);

/** A copy of `text` that is freed with ps_mem_free; NULL without memory. */
PS_MUST_CHECK char *ps_mem_strdup(struct ps_mem *mem, enum ps_mem_class mem_class,
                                  const char *text);

const char *ps_mem_class_name(enum ps_mem_class mem_class);

#endif
