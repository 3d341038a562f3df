#ifndef PS_COMMON_OS_CPU_H
#define PS_COMMON_OS_CPU_H
/*
 * os/cpu.h — how many CPUs this process may really use.
 *
 * A container sees all CPUs of its host; what it may use is said by the affinity mask and by the
 * quota of its control group (version 1 or 2). Threads beyond that only take turns.
 */
#include <stdint.h>

/** The smaller of affinity and quota, rounded up; at least 1. */
uint32_t ps_cpu_usable(void);

/**
 * CPUs of a cgroup v2 `cpu.max` line ("200000 100000", "max 100000"), rounded up; 0: no limit or
 * not understood.
 */
uint32_t ps_cpu_from_cpu_max(const char *text);

/** CPUs of a cgroup v1 pair cpu.cfs_quota_us, cpu.cfs_period_us; 0: no limit. */
uint32_t ps_cpu_from_quota(int64_t quota_us, int64_t period_us);

#endif
