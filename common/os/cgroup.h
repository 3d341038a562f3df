#ifndef PS_COMMON_OS_CGROUP_H
#define PS_COMMON_OS_CGROUP_H
/*
 * os/cgroup.h — what the control groups of this process allow it, version 1 and 2.
 *
 * Each group on the way from the process to the root binds. Sources: cgroups(7), the kernel's
 * cgroup-v2 document.
 */
#include <stdbool.h>
#include <stdint.h>

#define PS_CGROUP_NONE UINT64_MAX /* No limit known. */

/**
 * The smallest limit along the groups of this process; `limit_of(folder)` reads the one of a single
 * group. `controller`: its name in version 1.
 */
uint64_t ps_cgroup_smallest(const char *controller, uint64_t (*limit_of)(const char *folder));

/** The first line of a file of a group, without its newline; false: there is none. */
bool ps_cgroup_line(const char *folder, const char *file, char *ret, int n_bytes);

#endif
