#ifndef PS_COMMON_OS_THREAD_EXEC_H
#define PS_COMMON_OS_THREAD_EXEC_H
/*
 * os/thread_exec.h — an executor that is a thread: a mailbox, timers, and the real clock.
 *
 * Mail is run in whole batches, timers between batches. All signals are blocked on the thread, so
 * that main gets them.
 */
#include "base/attr.h"
#include "base/error.h"
#include "port/exec.h"

struct ps_thread_exec;

/** Start the thread. `name` (at most 15 bytes are shown) is copied; seen in ps and debuggers. */
PS_MUST_CHECK enum ps_status ps_thread_exec_create(const char *name, struct ps_thread_exec **ret,
                                                   struct ps_error *err);

/** The executor to post to; valid until destroy. */
struct ps_exec *ps_thread_exec_port(struct ps_thread_exec *exec);

/**
 * Run all mail that was posted, mail that this posts included, then end the thread and join it.
 * Pending timers never run. Not from the thread itself. A second stop does nothing.
 */
void ps_thread_exec_stop(struct ps_thread_exec *exec);

/** Stops first if need be. NULL does nothing. */
void ps_thread_exec_destroy(struct ps_thread_exec *exec);

#endif
