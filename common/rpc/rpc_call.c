/*
 * rpc_call.c — one unary call, server side.
 *
 * A struct ps_call is a token: whoever holds it owes exactly one ps_call_finish. Three batches are
 * given to gRPC in its life, each with a reference:
 *
 *   arrived --+-- closed: the caller gave up, or all is over
 *             +-- read: the request is whole ------> handler ... finish --- wrote
 *
 * `read` waits for a place among those that arrive at the same time; rpc_guard.c has the places.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "rpc/rpc_impl.h"
#include "rpc/rpc_meta.h"
#include "rpc/rpc_msg.h"
#include "rpc/rpc_refusal.h"

#define CALLS_IDLE_MAX 256u /* Kept for reuse; more go back to the heap. */

struct ps_rpc_call {
    struct ps_call base;
    struct ps_rpc_tag read;
    struct ps_rpc_tag wrote;
    struct ps_rpc_tag closed;
    struct ps_rpc_call *next; /* While idle. */
    struct ps_rpc_listener *listener;
    const struct ps_method *method;
    grpc_call *call;
    gpr_timespec deadline;
    struct ps_context context;
    grpc_byte_buffer *received;
    struct ps_msg *request;
    grpc_byte_buffer *sent;
    struct ps_rpc_guest guest;
    struct ps_rpc_refusal refusal; /* When not OK. */
    uint32_t retry_ms;             /* 0: as usual for the status. */
    int canceled;                  /* gRPC's; read in on_closed. */
    _Atomic uint32_t n_refs;
    _Atomic bool gone;
    _Atomic bool finished;
};

static void lock(struct ps_rpc_listener *listener)
{
    int failed = pthread_mutex_lock(&listener->lock);
    PS_ASSERT(failed == 0);
}

static void unlock(struct ps_rpc_listener *listener)
{
    int failed = pthread_mutex_unlock(&listener->lock);
    PS_ASSERT(failed == 0);
}

static struct ps_rpc_call *take_idle(struct ps_rpc_listener *listener)
{
    lock(listener);
    struct ps_rpc_call *call = listener->idle;
    if (call != NULL) {
        listener->idle = call->next;
        listener->n_idle--;
    }
    unlock(listener);
    if (call == NULL) {
        return ps_mem_alloc(listener->rpc->options.mem, PS_MEM_CALLS, sizeof(*call));
    }
    memset(call, 0, sizeof(*call));
    return call;
}

static void give_idle(struct ps_rpc_listener *listener, struct ps_rpc_call *call)
{
    lock(listener);
    bool keep = listener->n_idle < CALLS_IDLE_MAX;
    if (keep) {
        call->next = listener->idle;
        listener->idle = call;
        listener->n_idle++;
    }
    unlock(listener);
    if (!keep) {
        ps_mem_free(call);
    }
}

void ps_rpc_calls_free(struct ps_rpc_listener *listener)
{
    while (listener->idle != NULL) {
        struct ps_rpc_call *call = listener->idle;
        listener->idle = call->next;
        ps_mem_free(call);
    }
}

static void unref(struct ps_rpc_call *call)
{
    if (atomic_fetch_sub_explicit(&call->n_refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    struct ps_rpc_listener *listener = call->listener;
    const struct ps_method *method = call->method;
    if (call->sent != NULL) {
        grpc_byte_buffer_destroy(call->sent);
    }
    ps_rpc_refusal_drop(&call->refusal);
    ps_rpc_guest_left(listener, &call->guest);
    grpc_call_unref(call->call);
    give_idle(listener, call);
    ps_rpc_listener_left(listener, method);
}

static void read_request(struct ps_rpc_call *call)
{
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_MESSAGE; /* Opens the window: only now may the message come. */
    op.data.recv_message.recv_message = &call->received;
    ps_rpc_batch(call->call, &op, 1, &call->read);
}

static void on_closed(struct ps_rpc_tag *tag, bool ok PS_UNUSED)
{
    struct ps_rpc_call *call = PS_CONTAINER_OF(tag, struct ps_rpc_call, closed);
    if (call->canceled != 0) {
        atomic_store_explicit(&call->gone, true, memory_order_release);
    }
    if (ps_rpc_guest_give_up(call->listener, &call->guest)) {
        read_request(call); /* Comes back at once with nothing, and all goes the usual way. */
    }
    unref(call);
}

static void on_wrote(struct ps_rpc_tag *tag, bool ok PS_UNUSED)
{
    unref(PS_CONTAINER_OF(tag, struct ps_rpc_call, wrote));
}

/* A reply that the peer would refuse is our mistake; the caller hears of it instead of waiting. */
static bool fits(const struct ps_rpc_call *call, const struct ps_out *out)
{
    return out == NULL || ps_rpc_out_bytes(out) <= call->listener->rpc->options.n_message_bytes_max;
}

static void answer(struct ps_rpc_call *call, enum ps_status status, const struct ps_out *out,
                   const char *reason)
{
    if (!fits(call, out)) {
        ps_rpc_out_drop(out);
        out = NULL;
        status = PS_ERR_INTERNAL;
        reason = "reply over the message limit";
    }
    if (out != NULL && !ps_rpc_guest_give(call->listener, &call->guest, out->n_head_bytes)) {
        ps_rpc_out_drop(out);
        out = NULL;
        status = PS_ERR_BUSY;
        reason = "too many answers wait to be taken: slow down";
    }
    ps_msg_unref(call->request);
    call->request = NULL;
    ps_rpc_guest_leave(call->listener, &call->guest, out != NULL ? ps_rpc_out_bytes(out) : 0);

    grpc_op ops[3];
    memset(ops, 0, sizeof(ops));
    size_t n_ops = 0;
    ops[n_ops++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (status == PS_OK) {
        call->sent = ps_rpc_out_pack(&call->listener->rpc->lender, out);
        ops[n_ops].op = GRPC_OP_SEND_MESSAGE;
        ops[n_ops++].data.send_message.send_message = call->sent;
    }
    grpc_op *last = &ops[n_ops++];
    last->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    last->data.send_status_from_server.status = GRPC_STATUS_OK;
    if (status != PS_OK) {
        uint32_t retry_ms = call->retry_ms != 0 ? call->retry_ms : ps_status_retry_ms(status);
        ps_rpc_refusal_make(&call->refusal, status, reason, retry_ms);
        ps_rpc_refusal_fill(&call->refusal, status, last);
    }
    ps_rpc_batch(call->call, ops, n_ops, &call->wrote);
}

/* The request is whole, or will never be. @return PS_OK: a handler takes over */
static enum ps_status examine(struct ps_rpc_call *call, bool ok, const char **ret_reason)
{
    if (call->received == NULL) {
        /* Above the limit (then not ok, and gRPC has answered itself), or no message at all. */
        *ret_reason = ok ? "no message" : "message cannot be received";
        return PS_ERR_INVALID;
    }
    if (!ps_rpc_msg_plain(call->received)) {
        *ret_reason = "compressed messages are not read";
        return PS_ERR_UNSUPPORTED;
    }
    size_t n_bytes_max = ps_rpc_bytes_max(call->listener->rpc, call->method);
    if (grpc_byte_buffer_length(call->received) > n_bytes_max) {
        *ret_reason = "the message is longer than this method takes";
        return PS_ERR_INVALID;
    }
    call->request = ps_rpc_msg_create(call->listener->rpc->options.mem, call->received);
    call->received = NULL;
    if (call->request == NULL) {
        return PS_ERR_NOMEM;
    }
    if ((call->method->roles & PS_ROLE_ANY) == 0) { /* Insecure: every role. */
        return PS_ERR_DENIED;
    }
    return ps_rpc_listener_canceling(call->listener) ? PS_ERR_UNAVAIL : PS_OK;
}

/*
 * A place has become free, and somebody may wait for it: perhaps two, since it was one of all and
 * one of its connection's own.
 */
static void read_next(struct ps_rpc_listener *listener, enum ps_traffic traffic)
{
    struct ps_rpc_guest *next = ps_rpc_guest_next(listener, traffic);
    while (next != NULL) { /* Each takes a place: it ends with these or with those who wait. */
        read_request(PS_CONTAINER_OF(next, struct ps_rpc_call, guest));
        next = ps_rpc_guest_next(listener, traffic);
    }
}

static void on_read(struct ps_rpc_tag *tag, bool ok)
{
    struct ps_rpc_call *call = PS_CONTAINER_OF(tag, struct ps_rpc_call, read);
    struct ps_rpc_listener *listener = call->listener;
    const char *reason = NULL;
    ps_rpc_guest_arrived(listener, &call->guest);
    enum ps_status status = examine(call, ok, &reason);
    if (status == PS_OK) {
        ps_rpc_listener_debt_owed(listener);
        call->method->call(call->method->arg, &call->base);
    } else {
        answer(call, status, NULL, reason);
    }
    if (call->received != NULL) {
        grpc_byte_buffer_destroy(call->received);
        call->received = NULL;
    }
    ps_rpc_listener_read_done(listener, call->method->traffic);
    read_next(listener, call->method->traffic);
    unref(call);
}

/* Without reading it. */
static void refuse(struct ps_rpc_call *call, enum ps_status status)
{
    answer(call, status, NULL, NULL);
    unref(call); /* The read's. */
}

bool ps_rpc_call_begin(struct ps_rpc_slot *slot)
{
    struct ps_rpc_call *call = take_idle(slot->listener);
    if (call == NULL) {
        return false;
    }
    call->base.transport = &slot->listener->rpc->base;
    call->read.done = on_read;
    call->wrote.done = on_wrote;
    call->closed.done = on_closed;
    call->listener = slot->listener;
    call->method = slot->method;
    call->call = slot->call;
    call->deadline = slot->deadline;
    call->context = ps_rpc_meta_to_context(&slot->metadata);
    ps_rpc_guest_init(&call->guest, slot);
    grpc_metadata_array_destroy(&slot->metadata);
    atomic_store(&call->n_refs, 3); /* closed, read, and finish, which hands it to wrote. */

    enum ps_rpc_entry entry = ps_rpc_guest_enter(slot->listener, &call->guest);
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &call->canceled;
    ps_rpc_batch(call->call, &op, 1, &call->closed);
    switch (entry) {
    case PS_RPC_ENTRY_READ: read_request(call); break;
    case PS_RPC_ENTRY_WAIT: break;
    case PS_RPC_ENTRY_BUSY: refuse(call, PS_ERR_BUSY); break;
    case PS_RPC_ENTRY_NOMEM: refuse(call, PS_ERR_NOMEM); break;
    case PS_RPC_ENTRY_FAT: refuse(call, PS_ERR_INVALID); break;
    }
    return true;
}

static struct ps_rpc_call *call_of(struct ps_call *base)
{
    return PS_CONTAINER_OF(base, struct ps_rpc_call, base);
}

const struct ps_msg *ps_rpc_call_request(struct ps_call *base)
{
    return call_of(base)->request;
}

struct ps_msg *ps_rpc_call_take_request(struct ps_call *base)
{
    struct ps_msg *request = call_of(base)->request;
    ps_msg_ref(request);
    return request;
}

const struct ps_context *ps_rpc_call_context(struct ps_call *base)
{
    return &call_of(base)->context;
}

bool ps_rpc_call_gone(struct ps_call *base)
{
    return atomic_load_explicit(&call_of(base)->gone, memory_order_acquire);
}

uint32_t ps_rpc_call_time_left_ms(struct ps_call *base)
{
    struct ps_rpc_call *call = call_of(base);
    if (ps_rpc_call_gone(base)) {
        return 0;
    }
    gpr_timespec deadline = gpr_convert_clock_type(call->deadline, GPR_CLOCK_MONOTONIC);
    gpr_timespec left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
    int32_t left_ms = gpr_time_to_millis(left); /* Saturates. */
    return left_ms > 0 ? (uint32_t)left_ms : 0;
}

void ps_rpc_call_retry_after(struct ps_call *base, uint32_t retry_ms)
{
    call_of(base)->retry_ms = retry_ms;
}

void ps_rpc_call_finish(struct ps_call *base, enum ps_status status, const struct ps_out *out,
                        const char *reason)
{
    struct ps_rpc_call *call = call_of(base);
    PS_ASSERT(PS_IMPLIES(status != PS_OK, out == NULL));
    bool finished = atomic_exchange(&call->finished, true);
    PS_ASSERT(!finished); /* Answered twice. */
    /* Paid first: once the answer is out, the listener may be closed at any moment. */
    ps_rpc_listener_debt_paid(call->listener);
    answer(call, status, out, reason);
}
