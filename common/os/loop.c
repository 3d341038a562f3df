/* loop.c — see loop.h. */
#include "os/loop.h"

#include <signal.h>

#include <uv.h>

#include "base/assert.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/loop_impl.h"
#include "os/mailbox.h"

#define SIGNAL_COUNT 2

struct ps_loop {
    struct ps_exec base;
    uv_loop_t uv;
    struct ps_mailbox mailbox;
    uv_async_t wake; /* Mail has come. */
    uv_async_t stop;
    struct ps_timers timers;
    uv_timer_t alarm; /* For the first of `timers`. */
    uv_signal_t signals[SIGNAL_COUNT];
    void (*signal_run)(void *arg, int signal);
    void *signal_arg;
};

static struct ps_loop *loop_of(struct ps_exec *base)
{
    return PS_CONTAINER_OF(base, struct ps_loop, base);
}

static void post(struct ps_exec *base, struct ps_mail *mail)
{
    struct ps_loop *loop = loop_of(base);
    if (ps_mailbox_post(&loop->mailbox, mail)) {
        (void)uv_async_send(&loop->wake);
    }
}

static uint64_t now_ms(struct ps_exec *base PS_UNUSED)
{
    return ps_clock_ms();
}

static uint64_t now_ns(struct ps_exec *base PS_UNUSED)
{
    return ps_clock_ns();
}

static void on_alarm(uv_timer_t *alarm);

/* Set the one uv timer for the soonest of ours. */
static void set_alarm(struct ps_loop *loop)
{
    uint64_t next_ms = ps_timers_next_ms(&loop->timers);
    if (next_ms == UINT64_MAX) {
        (void)uv_timer_stop(&loop->alarm);
        return;
    }
    uint64_t now = ps_clock_ms();
    uv_update_time(&loop->uv);
    (void)uv_timer_start(&loop->alarm, on_alarm, next_ms > now ? next_ms - now : 0, 0);
}

static void on_alarm(uv_timer_t *alarm)
{
    struct ps_loop *loop = alarm->data;
    uint64_t now = ps_clock_ms();
    for (;;) {
        struct ps_timer *timer = ps_timers_take(&loop->timers, now);
        if (timer == NULL) {
            break;
        }
        timer->run(timer);
    }
    set_alarm(loop);
}

static void timer_start(struct ps_exec *base, struct ps_timer *timer, uint64_t after_ms)
{
    struct ps_loop *loop = loop_of(base);
    uint64_t before_ms = ps_timers_next_ms(&loop->timers);
    ps_timers_start(&loop->timers, timer, ps_clock_ms() + after_ms);
    if (ps_timers_next_ms(&loop->timers) != before_ms) {
        set_alarm(loop);
    }
}

/* An alarm without a timer that is due does no harm. */
static void timer_stop(struct ps_exec *base PS_UNUSED, struct ps_timer *timer)
{
    ps_list_remove(&timer->node);
}

static const struct ps_exec_ops ops = {
    .post = post,
    .now_ms = now_ms,
    .now_ns = now_ns,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
};

static void on_wake(uv_async_t *wake)
{
    struct ps_loop *loop = wake->data;
    ps_mailbox_run(ps_mailbox_take(&loop->mailbox));
}

static void on_stop(uv_async_t *stop)
{
    uv_stop(stop->loop);
}

enum ps_status ps_loop_create(struct ps_loop **ret, struct ps_error *err)
{
    struct ps_loop *loop = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*loop));
    if (loop == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the event loop");
    }
    int failed = uv_loop_init(&loop->uv);
    if (failed != 0) {
        ps_mem_free(loop);
        return ps_fail(err, PS_ERR_NOMEM, "cannot make an event loop: %s", uv_strerror(failed));
    }
    failed = uv_async_init(&loop->uv, &loop->wake, on_wake);
    PS_ASSERT(failed == 0); /* The loop has its descriptor by now. */
    failed = uv_async_init(&loop->uv, &loop->stop, on_stop);
    PS_ASSERT(failed == 0);
    (void)uv_timer_init(&loop->uv, &loop->alarm);
    loop->base.ops = &ops;
    loop->wake.data = loop;
    loop->alarm.data = loop;
    ps_mailbox_init(&loop->mailbox);
    ps_timers_init(&loop->timers);
    *ret = loop;
    return PS_OK;
}

/* Children have been killed by ps_child_destroy; they close their handle when they have ended. */
static void close_handle(uv_handle_t *handle, void *arg PS_UNUSED)
{
    if (!uv_is_closing(handle) && uv_handle_get_type(handle) != UV_PROCESS) {
        uv_close(handle, NULL);
    }
}

void ps_loop_destroy(struct ps_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    uv_walk(&loop->uv, close_handle, NULL);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0) {
    }
    int failed = uv_loop_close(&loop->uv);
    PS_ASSERT(failed == 0);
    ps_mailbox_deinit(&loop->mailbox);
    ps_mem_free(loop);
}

struct ps_exec *ps_loop_port(struct ps_loop *loop)
{
    return &loop->base;
}

uv_loop_t *ps_loop_uv(struct ps_loop *loop)
{
    return &loop->uv;
}

void ps_loop_run(struct ps_loop *loop)
{
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void ps_loop_stop(struct ps_loop *loop)
{
    (void)uv_async_send(&loop->stop);
}

static void on_signal(uv_signal_t *handle, int signal)
{
    struct ps_loop *loop = handle->data;
    loop->signal_run(loop->signal_arg, signal);
}

enum ps_status ps_loop_on_signal(struct ps_loop *loop, void (*run)(void *arg, int signal),
                                 void *arg, struct ps_error *err)
{
    static const int numbers[SIGNAL_COUNT] = {SIGINT, SIGTERM};
    PS_ASSERT(loop->signal_run == NULL);
    loop->signal_run = run;
    loop->signal_arg = arg;
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        int failed = uv_signal_init(&loop->uv, &loop->signals[i]);
        if (failed == 0) {
            loop->signals[i].data = loop;
            failed = uv_signal_start(&loop->signals[i], on_signal, numbers[i]);
        }
        if (failed != 0) {
            return ps_fail(err, PS_ERR_INTERNAL, "cannot watch for signal %d: %s", numbers[i],
                           uv_strerror(failed));
        }
    }
    return PS_OK;
}
