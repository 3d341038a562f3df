/* clock.c — see clock.h. */
#include "os/clock.h"

#include <time.h>

#include "base/assert.h"
#include "base/attr.h"

static uint64_t read_ns(clockid_t clock)
{
    struct timespec now;
    int failed = clock_gettime(clock, &now);
    PS_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ps_clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t ps_clock_ms(void)
{
    return ps_clock_ns() / 1000000;
}

uint64_t ps_clock_wall_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000;
}

uint64_t ps_clock_source(void *unused PS_UNUSED)
{
    return ps_clock_ns();
}
