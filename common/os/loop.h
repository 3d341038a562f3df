#ifndef PS_COMMON_OS_LOOP_H
#define PS_COMMON_OS_LOOP_H
/*
 * os/loop.h — the executor of main: a libuv loop with mail, timers, signals and children.
 *
 * Everything but ps_loop_stop and posting happens on the thread that runs the loop.
 */
#include "base/attr.h"
#include "base/error.h"
#include "port/exec.h"

struct ps_loop;

PS_MUST_CHECK enum ps_status ps_loop_create(struct ps_loop **ret, struct ps_error *err);

/** Nobody posts any more; children have been destroyed. NULL does nothing. */
void ps_loop_destroy(struct ps_loop *loop);

/** The executor to post to; valid until destroy. */
struct ps_exec *ps_loop_port(struct ps_loop *loop);

/** Run mail, timers, signals and children until ps_loop_stop. May be run again afterwards. */
void ps_loop_run(struct ps_loop *loop);

/** Make ps_loop_run return soon; before the run: at once. Any thread. */
void ps_loop_stop(struct ps_loop *loop);

/** Call `run(arg, signal)` on the loop for SIGINT and SIGTERM, until destroy. Set at most once. */
PS_MUST_CHECK enum ps_status ps_loop_on_signal(struct ps_loop *loop,
                                               void (*run)(void *arg, int signal), void *arg,
                                               struct ps_error *err);

#endif
