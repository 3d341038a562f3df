/* cpu.c — see cpu.h. Sources: sched(7), cgroups(7), the kernel's cgroup-v2 document. */
#include "os/cpu.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sched.h>
#include <unistd.h>

#include "base/attr.h"

#define CGROUP_PATH_BYTES 4096
#define CPUS_NONE         0u /* No limit known. */

uint32_t ps_cpu_from_quota(int64_t quota_us, int64_t period_us)
{
    if (quota_us <= 0 || period_us <= 0) {
        return CPUS_NONE;
    }
    int64_t cpus = quota_us / period_us + (quota_us % period_us != 0 ? 1 : 0);
    return cpus > UINT32_MAX ? CPUS_NONE : (uint32_t)cpus;
}

uint32_t ps_cpu_from_cpu_max(const char *text)
{
    char *after_quota = NULL;
    char *after_period = NULL;
    int64_t quota_us = strtoll(text, &after_quota, 10);
    int64_t period_us = strtoll(after_quota, &after_period, 10);
    if (after_quota == text || after_period == after_quota) {
        return CPUS_NONE; /* "max 100000". */
    }
    return ps_cpu_from_quota(quota_us, period_us);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    if (a == CPUS_NONE || b == CPUS_NONE) {
        return a > b ? a : b;
    }
    return a < b ? a : b;
}

static bool read_line(const char *folder, const char *file, char *ret, int n_bytes)
{
    char path[CGROUP_PATH_BYTES + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        return false;
    }
    bool found = fgets(ret, n_bytes, in) != NULL;
    (void)fclose(in);
    return found;
}

static uint32_t limit_of(const char *folder)
{
    char line[128];
    char period_line[128];
    if (read_line(folder, "cpu.max", line, sizeof(line))) {
        return ps_cpu_from_cpu_max(line);
    }
    /* Version 1: a quota of -1, or a line that is no number (read as 0), is no limit. */
    if (read_line(folder, "cpu.cfs_quota_us", line, sizeof(line)) &&
        read_line(folder, "cpu.cfs_period_us", period_line, sizeof(period_line))) {
        return ps_cpu_from_quota(strtoll(line, NULL, 10), strtoll(period_line, NULL, 10));
    }
    return CPUS_NONE;
}

/* The limits of a group and of all groups above it: each of them binds. */
static uint32_t limit_along(const char *mount, const char *group)
{
    char folder[CGROUP_PATH_BYTES];
    (void)snprintf(folder, sizeof(folder), "%s%s", mount, group);
    uint32_t limit = CPUS_NONE;
    for (;;) {
        limit = smaller(limit, limit_of(folder));
        char *cut = strrchr(folder, '/');
        if (cut == NULL || strlen(folder) <= strlen(mount)) {
            return limit;
        }
        *cut = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/group" (version 2), "4:cpu,cpuacct:/group" (version 1). */
static uint32_t limit_of_line(char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL) {
        return CPUS_NONE;
    }
    *group++ = '\0';
    controllers++;
    if (controllers[0] == '\0') {
        return limit_along("/sys/fs/cgroup", group);
    }
    char list[256];
    (void)snprintf(list, sizeof(list), ",%s,", controllers);
    return strstr(list, ",cpu,") == NULL ? CPUS_NONE : limit_along("/sys/fs/cgroup/cpu", group);
}

static uint32_t limit_of_groups(void)
{
    FILE *in = fopen("/proc/self/cgroup", "re");
    if (in == NULL) {
        return CPUS_NONE;
    }
    uint32_t limit = CPUS_NONE;
    char line[CGROUP_PATH_BYTES];
    while (fgets(line, sizeof(line), in) != NULL) {
        limit = smaller(limit, limit_of_line(line));
    }
    (void)fclose(in);
    return limit;
}

static uint32_t allowed_by_affinity(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        return (uint32_t)CPU_COUNT(&set);
    }
    long n_online = sysconf(_SC_NPROCESSORS_ONLN); /* More than CPU_SETSIZE CPUs. */
    return n_online > 0 ? (uint32_t)n_online : CPUS_NONE;
}

uint32_t ps_cpu_usable(void)
{
    uint32_t usable = smaller(allowed_by_affinity(), limit_of_groups());
    return usable == CPUS_NONE ? 1 : usable;
}
