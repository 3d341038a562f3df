#ifndef PS_COMMON_OS_CLOCK_H
#define PS_COMMON_OS_CLOCK_H
/*
 * os/clock.h — the clocks of this machine. Code that decides takes its time from an executor
 * (port/exec.h) instead, so that the simulator can move it.
 */
#include <stdint.h>

/** Monotonic nanoseconds; counts while the process runs, never steps. */
uint64_t ps_clock_ns(void);

/** The same clock in milliseconds. */
uint64_t ps_clock_ms(void);

/** Milliseconds since 1970 in UTC; may step. For people and file names only. */
uint64_t ps_clock_wall_ms(void);

/** ps_clock_ns in the shape that ps_inline_exec_init wants. `unused` may be NULL. */
uint64_t ps_clock_source(void *unused);

#endif
