/* cpu.c — see cpu.h. Source: sched(7). */
#include "os/cpu.h"

#include <stdint.h>
#include <stdlib.h>

#include <sched.h>
#include <unistd.h>

#include "os/cgroup.h"

#define CPUS_NONE 0u /* No limit known. */

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

static uint64_t or_none(uint32_t cpus)
{
    return cpus == CPUS_NONE ? PS_CGROUP_NONE : cpus;
}

static uint64_t limit_of(const char *folder)
{
    char line[128];
    char period_line[128];
    if (ps_cgroup_line(folder, "cpu.max", line, sizeof(line))) {
        return or_none(ps_cpu_from_cpu_max(line));
    }
    /* Version 1: a quota of -1, or a line that is no number (read as 0), is no limit. */
    if (ps_cgroup_line(folder, "cpu.cfs_quota_us", line, sizeof(line)) &&
        ps_cgroup_line(folder, "cpu.cfs_period_us", period_line, sizeof(period_line))) {
        return or_none(ps_cpu_from_quota(strtoll(line, NULL, 10), strtoll(period_line, NULL, 10)));
    }
    return PS_CGROUP_NONE;
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
    uint64_t allowed = or_none(allowed_by_affinity());
    uint64_t quota = ps_cgroup_smallest("cpu", limit_of);
    uint64_t usable = allowed < quota ? allowed : quota;
    return usable == PS_CGROUP_NONE ? 1 : (uint32_t)usable;
}
