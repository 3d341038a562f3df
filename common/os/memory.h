#ifndef PS_COMMON_OS_MEMORY_H
#define PS_COMMON_OS_MEMORY_H
/*
 * os/memory.h — how much memory this process may really use.
 *
 * A container sees all memory of its host; what it may use is said by its control group (version 1
 * or 2), and a process that takes more is killed without a word.
 */
#include <stdint.h>

/** Bytes: the smaller of what the machine has and what its control groups allow; never 0. */
uint64_t ps_memory_usable(void);

/** Bytes of a cgroup line "1073741824" or "max"; UINT64_MAX: no limit or not understood. */
uint64_t ps_memory_from_limit(const char *text);

#endif
