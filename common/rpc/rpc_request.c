/*
 * rpc_request.c — one unary call, client side: a single batch with everything in it.
 *
 * A request may be cancelled while its `done` runs on another thread. So our half is never given
 * back to the heap before the transport ends: it is used again, and its lock and its `request`
 * tell a late cancel that it means somebody else.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "rpc/rpc_impl.h"
#include "rpc/rpc_meta.h"
#include "rpc/rpc_msg.h"

struct ps_rpc_request {
    struct ps_rpc_tag done;
    struct ps_rpc_request *next; /* While idle. */
    struct ps_rpc_channel *channel;
    pthread_mutex_t lock;       /* For the next three, against cancel. */
    struct ps_request *request; /* NULL: idle. */
    grpc_call *call;
    bool canceled;
    bool too_large;
    grpc_metadata context[PS_RPC_META_CONTEXT_MAX];
    size_t n_context;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_byte_buffer *sent;
    grpc_byte_buffer *received;
    grpc_status_code code;
    grpc_slice details;
};

static void lock(pthread_mutex_t *mutex)
{
    int failed = pthread_mutex_lock(mutex);
    PS_ASSERT(failed == 0);
}

static void unlock(pthread_mutex_t *mutex)
{
    int failed = pthread_mutex_unlock(mutex);
    PS_ASSERT(failed == 0);
}

static void on_done(struct ps_rpc_tag *tag, bool ok);

static struct ps_rpc_request *take_idle(struct ps_rpc *rpc)
{
    lock(&rpc->lock);
    struct ps_rpc_request *impl = rpc->idle;
    if (impl != NULL) {
        rpc->idle = impl->next;
    }
    unlock(&rpc->lock);
    if (impl == NULL) {
        impl = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*impl));
        PS_ASSERT(impl != NULL); /* A call cannot fail before it has begun. */
        int failed = pthread_mutex_init(&impl->lock, NULL);
        PS_ASSERT(failed == 0);
        impl->done.done = on_done;
    }
    return impl;
}

static void give_idle(struct ps_rpc *rpc, struct ps_rpc_request *impl)
{
    lock(&rpc->lock);
    impl->next = rpc->idle;
    rpc->idle = impl;
    unlock(&rpc->lock);
}

void ps_rpc_requests_free(struct ps_rpc *rpc)
{
    while (rpc->idle != NULL) {
        struct ps_rpc_request *impl = rpc->idle;
        rpc->idle = impl->next;
        (void)pthread_mutex_destroy(&impl->lock);
        ps_mem_free(impl);
    }
}

/* What became of it, into the request; takes `received`. */
static void judge(struct ps_rpc_request *impl, struct ps_request *request)
{
    struct ps_rpc_end end = {
        .trailing = &impl->trailing,
        .code = impl->code,
        .words = &impl->details,
        .canceled = impl->canceled,
    };
    enum ps_status status = ps_rpc_meta_to_status(&end);
    request->reply = NULL;
    request->retry_ms = status != PS_OK ? ps_rpc_meta_to_retry_ms(&impl->trailing) : 0;
    if (impl->too_large) {
        (void)ps_fail(&request->err, PS_ERR_INVALID, "%s: message over the limit of %zu bytes",
                      request->method, impl->channel->rpc->options.n_message_bytes_max);
        return;
    }
    if (status != PS_OK) {
        size_t n_bytes = GRPC_SLICE_LENGTH(impl->details);
        const char *words = (const char *)GRPC_SLICE_START_PTR(impl->details);
        words = n_bytes > 0 ? words : ps_status_text(status);
        n_bytes = n_bytes > 0 ? n_bytes : strlen(words);
        (void)ps_fail(&request->err, status, "%.*s", (int)n_bytes, words);
        if (!ps_rpc_meta_has_status(&impl->trailing)) { /* Not the words of a peer of ours. */
            ps_rpc_reach_explain(impl->code, request->timeout_ms, &request->err);
        }
        return;
    }
    if (impl->received == NULL) {
        (void)ps_fail(&request->err, PS_ERR_INTERNAL, "%s: answer without a message",
                      request->method);
        return;
    }
    if (!ps_rpc_msg_plain(impl->received)) {
        (void)ps_fail(&request->err, PS_ERR_UNSUPPORTED, "%s: the answer is compressed",
                      request->method);
        return;
    }
    request->reply = ps_rpc_msg_create(impl->channel->rpc->options.mem, impl->received);
    impl->received = NULL;
    if (request->reply == NULL) {
        (void)ps_fail(&request->err, PS_ERR_NOMEM, "%s: no memory for the answer", request->method);
        return;
    }
    request->err = (struct ps_error){.status = PS_OK};
}

static void on_done(struct ps_rpc_tag *tag, bool ok PS_UNUSED)
{
    struct ps_rpc_request *impl = PS_CONTAINER_OF(tag, struct ps_rpc_request, done);
    struct ps_rpc_channel *channel = impl->channel;

    lock(&impl->lock);
    struct ps_request *request = impl->request;
    grpc_call *call = impl->call;
    impl->request = NULL;
    impl->call = NULL;
    unlock(&impl->lock);

    judge(impl, request);
    if (impl->received != NULL) {
        grpc_byte_buffer_destroy(impl->received);
    }
    if (impl->sent != NULL) {
        grpc_byte_buffer_destroy(impl->sent);
    }
    ps_rpc_meta_drop(impl->context, impl->n_context);
    grpc_slice_unref(impl->details);
    grpc_metadata_array_destroy(&impl->initial);
    grpc_metadata_array_destroy(&impl->trailing);
    grpc_call_unref(call);
    give_idle(channel->rpc, impl);
    (void)atomic_fetch_sub(&channel->n_users, 1);
    request->done(request);
}

static void start_batch(struct ps_rpc_request *impl)
{
    grpc_op ops[6];
    memset(ops, 0, sizeof(ops));
    size_t n_ops = 0;
    ops[n_ops].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[n_ops].flags = impl->request->at_once ? 0 : GRPC_INITIAL_METADATA_WAIT_FOR_READY;
    ops[n_ops].data.send_initial_metadata.count = impl->n_context;
    ops[n_ops++].data.send_initial_metadata.metadata = impl->context;
    if (impl->sent != NULL) {
        ops[n_ops].op = GRPC_OP_SEND_MESSAGE;
        ops[n_ops++].data.send_message.send_message = impl->sent;
    }
    ops[n_ops++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[n_ops].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[n_ops++].data.recv_initial_metadata.recv_initial_metadata = &impl->initial;
    ops[n_ops].op = GRPC_OP_RECV_MESSAGE;
    ops[n_ops++].data.recv_message.recv_message = &impl->received;
    ops[n_ops].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[n_ops].data.recv_status_on_client.trailing_metadata = &impl->trailing;
    ops[n_ops].data.recv_status_on_client.status = &impl->code;
    ops[n_ops++].data.recv_status_on_client.status_details = &impl->details;
    ps_rpc_batch(impl->call, ops, n_ops, &impl->done);
}

void ps_rpc_request_start(struct ps_channel *base, struct ps_request *request)
{
    struct ps_rpc_channel *channel = PS_CONTAINER_OF(base, struct ps_rpc_channel, base);
    PS_ASSERT(request->timeout_ms > 0); /* Every call has an end. */
    struct ps_rpc_request *impl = take_idle(channel->rpc);
    gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                         gpr_time_from_millis(request->timeout_ms, GPR_TIMESPAN));
    grpc_slice method = grpc_slice_from_static_string(request->method);
    grpc_call *call = grpc_channel_create_call(channel->grpc, NULL, GRPC_PROPAGATE_DEFAULTS,
                                               channel->cq, method, NULL, deadline, NULL);

    impl->channel = channel;
    impl->canceled = false;
    impl->too_large = ps_rpc_out_bytes(&request->out) > channel->rpc->options.n_message_bytes_max;
    impl->n_context = ps_rpc_meta_from_context(&request->context, impl->context);
    grpc_metadata_array_init(&impl->initial);
    grpc_metadata_array_init(&impl->trailing);
    impl->received = NULL;
    impl->sent = NULL;
    impl->code = GRPC_STATUS_UNKNOWN;
    impl->details = grpc_empty_slice();
    if (impl->too_large) {
        ps_rpc_out_drop(&request->out);
        (void)grpc_call_cancel(call, NULL); /* The batch then only brings the bad news. */
    } else {
        impl->sent = ps_rpc_out_pack(&channel->rpc->lender, &request->out);
    }
    request->impl = impl; /* `done` leaves it there: a late cancel must find our lock. */
    (void)atomic_fetch_add(&channel->n_users, 1);

    lock(&impl->lock);
    impl->request = request;
    impl->call = call;
    unlock(&impl->lock);
    start_batch(impl);
}

void ps_rpc_request_cancel(struct ps_request *request)
{
    struct ps_rpc_request *impl = request->impl;
    if (impl == NULL) {
        return;
    }
    lock(&impl->lock);
    if (impl->request == request) {
        impl->canceled = true;
        (void)grpc_call_cancel(impl->call, NULL);
    }
    unlock(&impl->lock);
}
