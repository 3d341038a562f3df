/* inline_exec.c — see inline_exec.h. */
#include "port/inline_exec.h"

#include "base/attr.h"

static struct ps_inline_exec *inline_of(struct ps_exec *exec)
{
    return PS_CONTAINER_OF(exec, struct ps_inline_exec, base);
}

static void post(struct ps_exec *base, struct ps_mail *mail)
{
    struct ps_inline_exec *exec = inline_of(base);
    mail->next = NULL;
    *exec->last = mail;
    exec->last = &mail->next;
}

static uint64_t now_ns(struct ps_exec *base)
{
    struct ps_inline_exec *exec = inline_of(base);
    return exec->clock_ns(exec->clock_arg);
}

static uint64_t now_ms(struct ps_exec *base)
{
    return now_ns(base) / 1000000;
}

static void timer_start(struct ps_exec *base, struct ps_timer *timer, uint64_t after_ms)
{
    ps_timers_start(&inline_of(base)->timers, timer, now_ms(base) + after_ms);
}

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

void ps_inline_exec_init(struct ps_inline_exec *exec, uint64_t (*clock_ns)(void *arg), void *arg)
{
    exec->base.ops = &ops;
    ps_timers_init(&exec->timers);
    exec->first = NULL;
    exec->last = &exec->first;
    exec->clock_ns = clock_ns;
    exec->clock_arg = arg;
}

static bool run_mail(struct ps_inline_exec *exec)
{
    struct ps_mail *mail = exec->first;
    if (mail == NULL) {
        return false;
    }
    exec->first = mail->next;
    if (exec->first == NULL) {
        exec->last = &exec->first;
    }
    mail->run(mail);
    return true;
}

static bool run_timer(struct ps_inline_exec *exec)
{
    if (ps_list_empty(&exec->timers.head)) {
        return false; /* Spares reading the clock. */
    }
    struct ps_timer *timer = ps_timers_take(&exec->timers, now_ms(&exec->base));
    if (timer == NULL) {
        return false;
    }
    timer->run(timer);
    return true;
}

void ps_inline_exec_pump(struct ps_inline_exec *exec)
{
    do {
        while (run_mail(exec)) {
        }
    } while (run_timer(exec));
}
