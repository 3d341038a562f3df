#ifndef PS_COMMON_PORT_EXEC_H
#define PS_COMMON_PORT_EXEC_H
/*
 * port/exec.h — where work runs: an owner thread with a mailbox, timers and a clock.
 *
 * Coordinator, lanes, attending and clients are actors: each belongs to one executor, is touched
 * only from it, and is reached only by mail. Kinds: a thread (os/thread_exec), the libuv loop of
 * main (os/loop), the inline one that a single thread pumps (port/inline_exec), and the
 * simulator's, where one seeded thread plays all of them in virtual time.
 *
 * Promises: mail runs once, in the order of posting by one poster; mail and timers of one executor
 * never run at the same time; nothing runs inside post().
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/** One message to an executor; embedded in what it is about. The poster gives up the struct. */
struct ps_mail {
    struct ps_mail *next; /* The mailbox's. */
    void (*run)(struct ps_mail *mail);
};

/** One pending wake-up; embedded in its owner. Zero-initialise; then ps_timer_init. */
struct ps_timer {
    struct ps_list node; /* The executor's, by time. */
    uint64_t at_ms;
    void (*run)(struct ps_timer *timer);
};

struct ps_exec;

struct ps_exec_ops {
    /** Hand `mail` over. Any thread. Must not be called after the executor was stopped. */
    void (*post)(struct ps_exec *exec, struct ps_mail *mail);
    /** Monotonic milliseconds. Any thread. */
    uint64_t (*now_ms)(struct ps_exec *exec);
    /** Monotonic nanoseconds, for measuring; in the simulator virtual. Any thread. */
    uint64_t (*now_ns)(struct ps_exec *exec);
    /** Run `timer` once, after `after_ms`; a pending one is moved. Only on the executor. */
    void (*timer_start)(struct ps_exec *exec, struct ps_timer *timer, uint64_t after_ms);
    /** Not any more; harmless when not pending. Only on the executor. */
    void (*timer_stop)(struct ps_exec *exec, struct ps_timer *timer);
};

struct ps_exec {
    const struct ps_exec_ops *ops;
};

static inline void ps_exec_post(struct ps_exec *exec, struct ps_mail *mail)
{
    exec->ops->post(exec, mail);
}

static inline uint64_t ps_exec_now_ms(struct ps_exec *exec)
{
    return exec->ops->now_ms(exec);
}

static inline uint64_t ps_exec_now_ns(struct ps_exec *exec)
{
    return exec->ops->now_ns(exec);
}

static inline void ps_timer_init(struct ps_timer *timer, void (*run)(struct ps_timer *timer))
{
    ps_list_init(&timer->node);
    timer->run = run;
}

static inline void ps_timer_start(struct ps_exec *exec, struct ps_timer *timer, uint64_t after_ms)
{
    exec->ops->timer_start(exec, timer, after_ms);
}

static inline void ps_timer_stop(struct ps_exec *exec, struct ps_timer *timer)
{
    exec->ops->timer_stop(exec, timer);
}

/**
 * The timers of one executor, soonest first: what the kinds of executors share. Not thread-safe;
 * equal times run in the order of starting.
 */
struct ps_timers {
    struct ps_list head;
};

void ps_timers_init(struct ps_timers *timers);
void ps_timers_start(struct ps_timers *timers, struct ps_timer *timer, uint64_t at_ms);

/** When the first one is due; UINT64_MAX when there is none. */
uint64_t ps_timers_next_ms(const struct ps_timers *timers);

/** Take the first one that is due at `now_ms` out of the list; NULL when none is. */
struct ps_timer *ps_timers_take(struct ps_timers *timers, uint64_t now_ms);

#endif
