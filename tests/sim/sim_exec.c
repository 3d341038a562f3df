/* sim_exec.c — see sim_exec.h. */
#include "sim/sim_exec.h"

#include "base/assert.h"

static struct sim_exec *sim_of(struct ps_exec *exec)
{
    return PS_CONTAINER_OF(exec, struct sim_exec, base);
}

static uint64_t local_ns(const struct sim_exec *exec)
{
    return exec->world->now_ns + exec->node->clock_offset_ns;
}

/* How long a thread that has work waits for its processor. */
static uint64_t wait_ns(const struct sim_exec *exec)
{
    struct sim_world *world = exec->world;
    if (exec->lag_ns > 0) {
        return sim_heavy_tail(world, exec->lag_ns);
    }
    return sim_chance(world, 2) ? sim_below(world, 10 * SIM_MS) : sim_below(world, 20 * SIM_US);
}

static void schedule(struct sim_exec *exec)
{
    struct sim_world *world = exec->world;
    uint64_t now_ns = world->now_ns;
    uint64_t at_ns = UINT64_MAX;
    bool waits = exec->lag_ns > 0 && exec->first != NULL && exec->first->next != NULL;
    if (waits && sim_event_pending(&exec->step)) {
        return; /* For the disk; more mail makes it no faster. */
    }
    if (exec->first != NULL) {
        at_ns = now_ns + wait_ns(exec);
    } else if (ps_timers_next_ms(&exec->timers) != UINT64_MAX) {
        uint64_t due_ns = ps_timers_next_ms(&exec->timers) * SIM_MS;
        uint64_t offset_ns = exec->node->clock_offset_ns;
        at_ns = due_ns > now_ns + offset_ns ? due_ns - offset_ns : now_ns;
        at_ns += wait_ns(exec);
    }
    if (at_ns == UINT64_MAX) {
        sim_event_stop(world, &exec->step);
    } else if (!sim_event_pending(&exec->step) || at_ns < exec->step.at_ns) {
        sim_event_start(world, &exec->step, at_ns - now_ns);
    }
}

static bool run_timer(struct sim_exec *exec)
{
    struct ps_timer *timer = ps_timers_take(&exec->timers, local_ns(exec) / SIM_MS);
    if (timer == NULL) {
        return false;
    }
    timer->run(timer);
    return true;
}

static bool run_mail(struct sim_exec *exec)
{
    struct ps_mail *mail = exec->first;
    if (mail == NULL) {
        return false;
    }
    exec->first = mail->next;
    if (exec->first == NULL) {
        exec->last = &exec->first;
    }
    exec->n_run++;
    mail->run(mail);
    return true;
}

static void run_step(struct sim_event *event)
{
    struct sim_exec *exec = PS_CONTAINER_OF(event, struct sim_exec, step);
    PS_ASSERT(exec->world->running == NULL);
    exec->world->running = &exec->base;
    if (sim_below(exec->world, 2) == 0) {
        (void)(run_timer(exec) || run_mail(exec));
    } else {
        (void)(run_mail(exec) || run_timer(exec));
    }
    exec->world->running = NULL;
    if (!exec->stopped) {
        schedule(exec);
    }
}

static void post(struct ps_exec *base, struct ps_mail *mail)
{
    struct sim_exec *exec = sim_of(base);
    PS_ASSERT(!exec->stopped);
    mail->next = NULL;
    *exec->last = mail;
    exec->last = &mail->next;
    exec->n_posted++;
    if (exec->world->running != base) { /* Else run_step looks again. */
        schedule(exec);
    }
}

static uint64_t now_ns(struct ps_exec *base)
{
    return local_ns(sim_of(base));
}

static uint64_t now_ms(struct ps_exec *base)
{
    return local_ns(sim_of(base)) / SIM_MS;
}

/* Setting a cluster up happens outside of every executor and is fine; callbacks are not. */
static void check_owner(struct sim_exec *exec)
{
    struct sim_world *world = exec->world;
    if (world->in_transport || (world->running != NULL && world->running != &exec->base)) {
        sim_break(world, "%s: a timer was touched from outside of its executor", exec->node->name);
    }
}

static void timer_start(struct ps_exec *base, struct ps_timer *timer, uint64_t after_ms)
{
    struct sim_exec *exec = sim_of(base);
    check_owner(exec);
    ps_timers_start(&exec->timers, timer, now_ms(base) + after_ms);
    if (exec->world->running != base && !exec->stopped) {
        schedule(exec);
    }
}

static void timer_stop(struct ps_exec *base, struct ps_timer *timer)
{
    check_owner(sim_of(base));
    ps_list_remove(&timer->node);
}

static const struct ps_exec_ops ops = {
    .post = post,
    .now_ms = now_ms,
    .now_ns = now_ns,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
};

void sim_exec_init(struct sim_exec *exec, struct sim_node *node)
{
    *exec = (struct sim_exec){.base.ops = &ops, .world = node->world, .node = node};
    ps_timers_init(&exec->timers);
    exec->last = &exec->first;
    sim_event_init(&exec->step, node, run_step);
}

bool sim_exec_stop(struct sim_exec *exec)
{
    sim_event_stop(exec->world, &exec->step);
    exec->stopped = true;
    return exec->first == NULL;
}
