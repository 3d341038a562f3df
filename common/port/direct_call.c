/*
 * direct_call.c — one request and one reply as two pieces of mail.
 *
 *   start --mail--> deliver --handler--> finish --mail--> done
 *     |                                              ^
 *     +-- cancel, timeout or stop of the listener ---+   (the handler still owes its finish)
 *
 * The struct belongs to two sides, caller and handler, and is freed when both have let go.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "port/direct_impl.h"

struct direct_call {
    struct ps_call base;
    struct ps_list node; /* In the listener's calls while a handler holds it. */
    struct ps_direct_channel *channel;
    struct ps_direct *direct;
    struct ps_request *request; /* The caller's; valid until `answer` has run. */
    struct ps_mail deliver;
    struct ps_mail answer;
    struct ps_timer deadline;
    uint64_t until_ms;
    struct ps_context context;
    struct ps_msg *msg;
    struct ps_msg *reply;
    struct ps_error err;
    uint32_t retry_ms; /* 0: as usual for the status. */
    uint32_t n_sides;  /* Caller, handler. */
    bool answered;     /* `answer` is posted. */
};

static void leave(struct direct_call *call)
{
    call->n_sides--;
    if (call->n_sides == 0) {
        ps_mem_free(call);
    }
}

static void run_answer(struct ps_mail *mail)
{
    struct direct_call *call = PS_CONTAINER_OF(mail, struct direct_call, answer);
    struct ps_request *request = call->request;
    request->err = call->err;
    request->reply = call->reply;
    request->retry_ms = call->err.status != PS_OK ? call->retry_ms : 0;
    request->impl = NULL;
    call->channel->n_users--;
    leave(call);
    request->done(request);
}

/* The first answer counts; `reply` is consumed either way. */
static void answer(struct direct_call *call, enum ps_status status, struct ps_msg *reply,
                   const char *reason)
{
    if (call->answered) {
        ps_msg_unref(reply);
        return;
    }
    call->answered = true;
    ps_timer_stop(call->direct->exec, &call->deadline);
    call->err = (struct ps_error){.status = PS_OK};
    if (status != PS_OK) {
        (void)ps_fail(&call->err, status, "%s", reason != NULL ? reason : ps_status_text(status));
        call->retry_ms = call->retry_ms != 0 ? call->retry_ms : ps_status_retry_ms(status);
    }
    call->reply = reply;
    ps_exec_post(call->direct->exec, &call->answer);
}

static void run_deadline(struct ps_timer *timer)
{
    struct direct_call *call = PS_CONTAINER_OF(timer, struct direct_call, deadline);
    answer(call, PS_ERR_TIMEOUT, NULL, NULL);
}

static void run_deliver(struct ps_mail *mail)
{
    struct direct_call *call = PS_CONTAINER_OF(mail, struct direct_call, deliver);
    if (call->answered) { /* Given up before it arrived: the handler's side never begins. */
        ps_msg_unref(call->msg);
        leave(call);
        return;
    }
    struct ps_direct_listener *listener = NULL;
    struct ps_error err;
    const struct ps_method *method = ps_direct_find(call->direct, call->channel->address,
                                                    call->request->method, true, &listener, &err);
    if (method == NULL) {
        answer(call, err.status, NULL, err.text);
        ps_msg_unref(call->msg);
        leave(call);
        return;
    }
    ps_list_append(&listener->calls, &call->node);
    method->call(method->arg, &call->base);
}

void ps_direct_request_start(struct ps_channel *base, struct ps_request *request)
{
    struct ps_direct_channel *channel = PS_CONTAINER_OF(base, struct ps_direct_channel, base);
    PS_ASSERT(request->timeout_ms > 0); /* Every call has an end. */
    struct direct_call *call = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*call));
    PS_ASSERT(call != NULL);
    call->base.transport = base->transport;
    call->channel = channel;
    call->direct = channel->direct;
    call->request = request;
    call->context = request->context;
    call->msg = ps_direct_msg_create(&request->out);
    call->n_sides = 2;
    call->deliver.run = run_deliver;
    call->answer.run = run_answer;
    ps_list_init(&call->node);
    ps_timer_init(&call->deadline, run_deadline);
    struct ps_exec *exec = channel->direct->exec;
    call->until_ms = ps_exec_now_ms(exec) + request->timeout_ms;
    ps_timer_start(exec, &call->deadline, request->timeout_ms);
    request->impl = call;
    request->reply = NULL;
    channel->n_users++;
    ps_exec_post(exec, &call->deliver);
}

void ps_direct_request_cancel(struct ps_request *request)
{
    struct direct_call *call = request->impl;
    if (call != NULL) {
        answer(call, PS_ERR_CANCELED, NULL, NULL);
    }
}

static struct direct_call *call_of(struct ps_call *base)
{
    return PS_CONTAINER_OF(base, struct direct_call, base);
}

const struct ps_msg *ps_direct_call_request(struct ps_call *base)
{
    return call_of(base)->msg;
}

struct ps_msg *ps_direct_call_take_request(struct ps_call *base)
{
    struct ps_msg *msg = call_of(base)->msg;
    ps_msg_ref(msg);
    return msg;
}

const struct ps_context *ps_direct_call_context(struct ps_call *base)
{
    return &call_of(base)->context;
}

bool ps_direct_call_gone(struct ps_call *base)
{
    return call_of(base)->answered;
}

uint32_t ps_direct_call_time_left_ms(struct ps_call *base)
{
    struct direct_call *call = call_of(base);
    uint64_t now_ms = ps_exec_now_ms(call->direct->exec);
    return call->answered || call->until_ms <= now_ms ? 0 : (uint32_t)(call->until_ms - now_ms);
}

void ps_direct_call_retry_after(struct ps_call *base, uint32_t retry_ms)
{
    call_of(base)->retry_ms = retry_ms;
}

void ps_direct_call_finish(struct ps_call *base, enum ps_status status, const struct ps_out *out,
                           const char *reason)
{
    struct direct_call *call = call_of(base);
    PS_ASSERT(PS_IMPLIES(status != PS_OK, out == NULL));
    PS_ASSERT(!ps_list_empty(&call->node)); /* Finished twice? */
    ps_list_remove(&call->node);
    answer(call, status, status == PS_OK ? ps_direct_msg_create(out) : NULL, reason);
    ps_msg_unref(call->msg);
    leave(call);
}

void ps_direct_calls_abandon(struct ps_direct_listener *listener)
{
    ps_list_for_each (at, &listener->calls) {
        struct direct_call *call = PS_CONTAINER_OF(at, struct direct_call, node);
        answer(call, PS_ERR_UNAVAIL, NULL, "the server stopped");
    }
}
