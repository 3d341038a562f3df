#ifndef PS_TESTS_SIM_SIM_EXEC_H
#define PS_TESTS_SIM_SIM_EXEC_H
/*
 * sim/sim_exec.h — an executor whose thread is a sequence of events of the world.
 *
 * Each mail and each due timer is one event, after a seeded delay: now and then the scheduler
 * forgets a thread for some milliseconds. Mail runs in the order of posting; which of mail and due
 * timer comes first is chance. It also keeps an eye on its users: a timer that is started or
 * stopped by anybody but the executor itself is a broken promise.
 */
#include "port/exec.h"
#include "sim/sim_world.h"

struct sim_exec {
    struct ps_exec base;
    struct sim_world *world;
    struct sim_node *node;
    struct ps_timers timers;
    struct ps_mail *first; /* FIFO. */
    struct ps_mail **last;
    struct sim_event step;
    uint64_t lag_ns; /* Usual wait before each step, with a heavy tail: it waits for a disk. */
    uint64_t n_posted;
    uint64_t n_run; /* Mail. */
    bool stopped;   /* Posting is a mistake from now on. */
};

void sim_exec_init(struct sim_exec *exec, struct sim_node *node);
/** Nothing runs any more. False when mail was left. */
bool sim_exec_stop(struct sim_exec *exec);

#endif
