/* feed_ahead.c — see feed_ahead.h. */
#include "data/feed_ahead.h"

#include <signal.h>

#include <pthread.h>

#include "base/assert.h"
#include "base/mem.h"

enum stage {
    IDLE,
    WANTED,
    DONE,
    QUIT
};

struct ps_feed_ahead {
    struct ps_feed_windows *windows;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* `stage` */
    enum stage stage;
    struct ps_feed_window *target;
    enum ps_status status; /* Of what is DONE, */
    struct ps_error err;   /* and its words. */
};

static void lock(struct ps_feed_ahead *ahead)
{
    int failed = pthread_mutex_lock(&ahead->lock);
    PS_ASSERT(failed == 0);
}

static void unlock(struct ps_feed_ahead *ahead)
{
    int failed = pthread_mutex_unlock(&ahead->lock);
    PS_ASSERT(failed == 0);
}

static void wait(struct ps_feed_ahead *ahead)
{
    int failed = pthread_cond_wait(&ahead->changed, &ahead->lock);
    PS_ASSERT(failed == 0);
}

static void enter(struct ps_feed_ahead *ahead, enum stage stage)
{
    ahead->stage = stage;
    int failed = pthread_cond_broadcast(&ahead->changed);
    PS_ASSERT(failed == 0);
}

static void *run(void *argument)
{
    struct ps_feed_ahead *ahead = argument;
    lock(ahead);
    for (;;) {
        while (ahead->stage == IDLE || ahead->stage == DONE) {
            wait(ahead);
        }
        if (ahead->stage == QUIT) {
            break;
        }
        unlock(ahead);
        ahead->status = ps_feed_windows_next(ahead->windows, ahead->target, &ahead->err);
        lock(ahead);
        enter(ahead, DONE);
    }
    unlock(ahead);
    return NULL;
}

/* All signals are main's. */
static int start_thread(struct ps_feed_ahead *ahead)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    PS_ASSERT(failed == 0);
    int refused = pthread_create(&ahead->thread, NULL, run, ahead);
    failed = pthread_sigmask(SIG_SETMASK, &before, NULL);
    PS_ASSERT(failed == 0);
    if (refused == 0) {
        (void)pthread_setname_np(ahead->thread, "feed");
    }
    return refused;
}

enum ps_status ps_feed_ahead_create(struct ps_mem *mem, struct ps_feed_windows *windows,
                                    struct ps_feed_ahead **ret, struct ps_error *err)
{
    struct ps_feed_ahead *ahead = ps_mem_alloc(mem, PS_MEM_DATA, sizeof(*ahead));
    if (ahead == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read ahead");
    }
    ahead->windows = windows;
    int failed = pthread_mutex_init(&ahead->lock, NULL);
    failed = failed != 0 ? failed : pthread_cond_init(&ahead->changed, NULL);
    PS_ASSERT(failed == 0); /* glibc allocates nothing for them. */
    if (start_thread(ahead) != 0) {
        (void)pthread_cond_destroy(&ahead->changed);
        (void)pthread_mutex_destroy(&ahead->lock);
        ps_mem_free(ahead);
        return ps_fail(err, PS_ERR_NOMEM, "the system has no thread to read data ahead");
    }
    *ret = ahead;
    return PS_OK;
}

void ps_feed_ahead_destroy(struct ps_feed_ahead *ahead)
{
    if (ahead == NULL) {
        return;
    }
    lock(ahead);
    while (ahead->stage == WANTED) {
        wait(ahead);
    }
    enter(ahead, QUIT);
    unlock(ahead);
    int failed = pthread_join(ahead->thread, NULL);
    PS_ASSERT(failed == 0);
    (void)pthread_cond_destroy(&ahead->changed);
    (void)pthread_mutex_destroy(&ahead->lock);
    ps_mem_free(ahead);
}

void ps_feed_ahead_begin(struct ps_feed_ahead *ahead, struct ps_feed_window *target)
{
    lock(ahead);
    PS_ASSERT(ahead->stage == IDLE);
    ahead->target = target;
    enter(ahead, WANTED);
    unlock(ahead);
}

enum ps_status ps_feed_ahead_end(struct ps_feed_ahead *ahead, struct ps_error *err)
{
    lock(ahead);
    PS_ASSERT(ahead->stage == WANTED || ahead->stage == DONE);
    while (ahead->stage != DONE) {
        wait(ahead);
    }
    enter(ahead, IDLE);
    unlock(ahead);
    if (ahead->status != PS_OK && err != NULL) {
        *err = ahead->err;
    }
    return ahead->status;
}
