/*
 * client_wait.c — operations between the threads that wait for them and the executor that does
 * them.
 *
 * Mail is posted under the lock, and close posts its own there too: whatever was started before
 * meets a session that still is, and what comes later is refused.
 */
#include <time.h>

#include "base/assert.h"
#include "client/lib/client_impl.h"
#include "os/clock.h"

#define NAP_NS 1000000u /* Inline: between two looks at the timers when nothing can be run. */

/* ---- Lock and conditions ------------------------------------------------------------------- */

static void init_cond(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    int failed = pthread_cond_init(cond, attr);
    PS_ASSERT(failed == 0); /* glibc: cannot fail with these arguments. */
}

void ps_client_wait_init(struct ps_client *client)
{
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);
    failed |= pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    failed |= pthread_mutex_init(&client->lock, NULL);
    PS_ASSERT(failed == 0);
    init_cond(&client->news, &attr);
    for (uint32_t i = 0; i < PS_CLIENT_OPERATIONS_MAX; i++) {
        client->calls[i].client = client;
        init_cond(&client->calls[i].end, &attr);
    }
    (void)pthread_condattr_destroy(&attr);
}

void ps_client_wait_deinit(struct ps_client *client)
{
    for (uint32_t i = 0; i < PS_CLIENT_OPERATIONS_MAX; i++) {
        (void)pthread_cond_destroy(&client->calls[i].end);
    }
    (void)pthread_cond_destroy(&client->news);
    (void)pthread_mutex_destroy(&client->lock);
}

void ps_client_lock(struct ps_client *client)
{
    int failed = pthread_mutex_lock(&client->lock);
    PS_ASSERT(failed == 0);
}

void ps_client_unlock(struct ps_client *client)
{
    int failed = pthread_mutex_unlock(&client->lock);
    PS_ASSERT(failed == 0);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static void sleep_until(struct ps_client *client, pthread_cond_t *cond, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX) {
        (void)pthread_cond_wait(cond, &client->lock);
        return;
    }
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                             .tv_nsec = (long)(until_ns % 1000000000u)};
    (void)pthread_cond_timedwait(cond, &client->lock, &until);
}

void ps_client_await(struct ps_client *client, pthread_cond_t *cond, uint64_t until_ns)
{
    struct ps_inline_exec *inline_exec = client->inline_exec;
    if (inline_exec == NULL) {
        sleep_until(client, cond, until_ns);
        return;
    }
    if (inline_exec->first == NULL) { /* Only a timer can do something now. */
        uint64_t nap_ns = ps_clock_ns() + NAP_NS;
        sleep_until(client, cond, nap_ns < until_ns ? nap_ns : until_ns);
    }
    ps_client_unlock(client);
    ps_inline_exec_pump(inline_exec);
    ps_client_lock(client);
}

void ps_client_enter(struct ps_client *client)
{
    client->n_inside++;
}

void ps_client_leave(struct ps_client *client)
{
    client->n_inside--;
    if (client->closing) {
        (void)pthread_cond_broadcast(&client->news);
    }
}

void ps_client_renew_view(struct ps_client *client, bool changed)
{
    ps_client_lock(client);
    uint64_t n_changes = client->view.n_changes + (changed ? 1 : 0);
    ps_session_view(client->session, &client->view);
    ps_session_why_fenced(client->session, &client->fenced);
    client->view.n_changes = n_changes;
    ps_client_stats_view(client);
    ps_client_unit_view(client);
    if (changed) {
        (void)pthread_cond_broadcast(&client->news);
    }
    ps_client_unlock(client);
}

/* ---- Operations ---------------------------------------------------------------------------- */

struct ps_client_call *ps_client_call_take(struct ps_client *client, struct ps_error *err)
{
    if (client->closing) {
        (void)ps_fail(err, PS_ERR_CANCELED, "the client is being closed");
        return NULL;
    }
    for (uint32_t i = 0; i < PS_CLIENT_OPERATIONS_MAX; i++) {
        struct ps_client_call *call = &client->calls[i];
        if (call->state == PS_CLIENT_CALL_FREE) {
            call->state = PS_CLIENT_CALL_UNDER_WAY;
            call->pull = NULL;
            call->under_way = NULL;
            call->ended = NULL;
            return call;
        }
    }
    (void)ps_fail(err, PS_ERR_BUSY, "%u operations are under way: wait for one",
                  PS_CLIENT_OPERATIONS_MAX);
    return NULL;
}

void ps_client_call_drop(struct ps_client_call *call)
{
    if (call->under_way != NULL) {
        *call->under_way = NULL;
    }
    call->state = PS_CLIENT_CALL_FREE;
}

/* On the executor; the last that it does with the call. */
static void on_done(struct ps_op *op)
{
    struct ps_client_call *call = op->arg;
    struct ps_client *client = call->client;
    if (call->ended != NULL) {
        call->ended(call);
    }
    ps_client_renew_view(client, false);
    ps_client_lock(client);
    call->state = PS_CLIENT_CALL_ENDED;
    (void)pthread_cond_signal(&call->end);
    ps_client_unlock(client);
}

static void run_mail(struct ps_mail *mail)
{
    struct ps_client_call *call = PS_CONTAINER_OF(mail, struct ps_client_call, mail);
    call->run(call);
}

static void adopt(struct ps_client_call *call)
{
    call->as.op.done = on_done;
    call->as.op.arg = call;
}

void ps_client_call_post(struct ps_client_call *call, void (*run)(struct ps_client_call *call))
{
    adopt(call);
    if (call->pull != NULL) {
        adopt(call->pull);
    }
    call->run = run;
    call->mail = (struct ps_mail){.run = run_mail};
    ps_exec_post(call->client->exec, &call->mail);
}

enum ps_status ps_client_call_wait(struct ps_client_call *call, struct ps_error *err)
{
    struct ps_client *client = call->client;
    ps_client_enter(client);
    while (call->state != PS_CLIENT_CALL_ENDED) {
        ps_client_await(client, &call->end, UINT64_MAX);
    }
    ps_client_leave(client);
    enum ps_status status = call->as.op.err.status;
    if (status != PS_OK && err != NULL) {
        *err = call->as.op.err;
    }
    return status;
}
