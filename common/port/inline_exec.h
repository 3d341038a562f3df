#ifndef PS_COMMON_PORT_INLINE_EXEC_H
#define PS_COMMON_PORT_INLINE_EXEC_H
/*
 * port/inline_exec.h — an executor without a thread: its mail runs when somebody pumps it.
 *
 * For --in-process, where one thread plays server, coordinator and worker in turn. Not thread-safe
 * on purpose: post, pump and timers all happen on that one thread.
 */
#include "port/exec.h"

struct ps_inline_exec {
    struct ps_exec base;
    struct ps_timers timers;
    struct ps_mail *first; /* FIFO. */
    struct ps_mail **last;
    uint64_t (*clock_ns)(void *arg); /* Monotonic; given at init (common/os has the real one). */
    void *clock_arg;
};

void ps_inline_exec_init(struct ps_inline_exec *exec, uint64_t (*clock_ns)(void *arg), void *arg);

/** Run what is there, mail that is posted meanwhile included, and timers that are due. */
void ps_inline_exec_pump(struct ps_inline_exec *exec);

#endif
