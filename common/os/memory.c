/* memory.c — see memory.h. */
#include "os/memory.h"

#include <errno.h>
#include <stdlib.h>

#include <unistd.h>

#include "os/cgroup.h"

uint64_t ps_memory_from_limit(const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    return end == text || *end != '\0' || errno != 0 || bytes == 0 ? PS_CGROUP_NONE : bytes;
}

static uint64_t limit_of(const char *folder)
{
    char line[64];
    return ps_cgroup_line(folder, "memory.max", line, sizeof(line)) ||
                   ps_cgroup_line(folder, "memory.limit_in_bytes", line, sizeof(line))
               ? ps_memory_from_limit(line)
               : PS_CGROUP_NONE;
}

uint64_t ps_memory_usable(void)
{
    long n_pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t machine =
        n_pages > 0 && page_bytes > 0 ? (uint64_t)n_pages * (uint64_t)page_bytes : PS_CGROUP_NONE;
    uint64_t allowed = ps_cgroup_smallest("memory", limit_of);
    return machine < allowed ? machine : allowed;
}
