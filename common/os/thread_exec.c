/* thread_exec.c — see thread_exec.h. */
#include "os/thread_exec.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>

#include "base/assert.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/mailbox.h"

#define THREAD_NAME_BYTES 16 /* Linux keeps no more. */

struct ps_thread_exec {
    struct ps_exec base;
    struct ps_mailbox mailbox;
    struct ps_timers timers; /* The thread's. */
    struct ps_mail stop;
    pthread_t thread;
    bool stopping; /* The thread's: `stop` has been run. */
    bool joined;   /* The owner's. */
    char name[THREAD_NAME_BYTES];
};

static struct ps_thread_exec *exec_of(struct ps_exec *base)
{
    return PS_CONTAINER_OF(base, struct ps_thread_exec, base);
}

static void post(struct ps_exec *base, struct ps_mail *mail)
{
    (void)ps_mailbox_post(&exec_of(base)->mailbox, mail);
}

static uint64_t now_ms(struct ps_exec *base PS_UNUSED)
{
    return ps_clock_ms();
}

static uint64_t now_ns(struct ps_exec *base PS_UNUSED)
{
    return ps_clock_ns();
}

static void timer_start(struct ps_exec *base, struct ps_timer *timer, uint64_t after_ms)
{
    struct ps_thread_exec *exec = exec_of(base);
    PS_DEBUG_ASSERT(pthread_equal(pthread_self(), exec->thread));
    ps_timers_start(&exec->timers, timer, ps_clock_ms() + after_ms);
}

static void timer_stop(struct ps_exec *base PS_UNUSED, struct ps_timer *timer)
{
    PS_DEBUG_ASSERT(pthread_equal(pthread_self(), exec_of(base)->thread));
    ps_list_remove(&timer->node);
}

static const struct ps_exec_ops ops = {
    .post = post,
    .now_ms = now_ms,
    .now_ns = now_ns,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
};

static void run_stop(struct ps_mail *mail)
{
    PS_CONTAINER_OF(mail, struct ps_thread_exec, stop)->stopping = true;
}

/* Timers that are due at one reading of the clock; those they start wait for the next round. */
static void run_timers(struct ps_thread_exec *exec)
{
    if (ps_timers_next_ms(&exec->timers) == UINT64_MAX) {
        return;
    }
    uint64_t now = ps_clock_ms();
    for (;;) {
        struct ps_timer *timer = ps_timers_take(&exec->timers, now);
        if (timer == NULL) {
            return;
        }
        timer->run(timer);
    }
}

static void *run(void *arg)
{
    struct ps_thread_exec *exec = arg;
    (void)pthread_setname_np(pthread_self(), exec->name);
    while (!exec->stopping) {
        ps_mailbox_run(ps_mailbox_wait(&exec->mailbox, ps_timers_next_ms(&exec->timers)));
        if (!exec->stopping) {
            run_timers(exec);
        }
    }
    /* Mail that the last batch has posted. */
    struct ps_mail *first = ps_mailbox_take(&exec->mailbox);
    while (first != NULL) {
        ps_mailbox_run(first);
        first = ps_mailbox_take(&exec->mailbox);
    }
    return NULL;
}

enum ps_status ps_thread_exec_create(const char *name, struct ps_thread_exec **ret,
                                     struct ps_error *err)
{
    struct ps_thread_exec *exec = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*exec));
    if (exec == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for thread %s", name);
    }
    exec->base.ops = &ops;
    exec->stop.run = run_stop;
    (void)snprintf(exec->name, sizeof(exec->name), "%s", name);
    ps_mailbox_init(&exec->mailbox);
    ps_timers_init(&exec->timers);

    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int failed = pthread_create(&exec->thread, NULL, run, exec);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        ps_mailbox_deinit(&exec->mailbox);
        ps_mem_free(exec);
        return ps_fail(err, PS_ERR_NOMEM, "cannot start thread %s: %s", name,
                       strerrordesc_np(failed));
    }
    *ret = exec;
    return PS_OK;
}

struct ps_exec *ps_thread_exec_port(struct ps_thread_exec *exec)
{
    return &exec->base;
}

void ps_thread_exec_stop(struct ps_thread_exec *exec)
{
    if (exec->joined) {
        return;
    }
    (void)ps_mailbox_post(&exec->mailbox, &exec->stop);
    int failed = pthread_join(exec->thread, NULL);
    PS_ASSERT(failed == 0); /* EDEADLK: called from the thread itself. */
    exec->joined = true;
}

void ps_thread_exec_destroy(struct ps_thread_exec *exec)
{
    if (exec == NULL) {
        return;
    }
    ps_thread_exec_stop(exec);
    ps_mailbox_deinit(&exec->mailbox);
    ps_mem_free(exec);
}
