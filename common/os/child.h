#ifndef PS_COMMON_OS_CHILD_H
#define PS_COMMON_OS_CHILD_H
/*
 * os/child.h — a process started by this one: its output line by line, its end, a signal to it.
 *
 * Belongs to a loop and is used only there. The child inherits the environment, has no standard
 * input, and a session of its own: Ctrl-C of a terminal reaches the parent alone, which decides in
 * which order its children end. A child that should not outlive its parent calls
 * ps_os_die_with_parent (os/process.h).
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "os/loop.h"

struct ps_child;

#define PS_CHILD_LINE_BYTES_MAX 65536u /* Longer lines are delivered in parts. */

struct ps_child_events {
    /** One line of output, without its newline; `text` is borrowed for the call. */
    void (*line)(void *arg, struct ps_child *child, bool is_stderr, const char *text);
    /**
     * The process has ended and all of its output was delivered; once. `exit_status` counts when
     * `signal` is 0. The child may be destroyed in the call.
     */
    void (*exited)(void *arg, struct ps_child *child, int exit_status, int signal);
};

/** Start `argv[0]` (found in PATH) with `argv`, which ends with NULL and is not kept. */
PS_MUST_CHECK enum ps_status ps_child_create(struct ps_loop *loop, const char *const *argv,
                                             const struct ps_child_events *events, void *arg,
                                             struct ps_child **ret, struct ps_error *err);

uint64_t ps_child_pid(const struct ps_child *child);

/** Send a signal; one that has ended is left in peace. */
void ps_child_kill(struct ps_child *child, int signal);

/**
 * Let go. One that still runs is killed (SIGKILL) first and no callback comes any more. The rest
 * happens on the loop, at the latest in ps_loop_destroy. NULL does nothing.
 */
void ps_child_destroy(struct ps_child *child);

#endif
