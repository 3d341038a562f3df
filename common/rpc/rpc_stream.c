/*
 * rpc_stream.c — bidirectional streams, both sides.
 *
 * Sending: a ring of messages not yet taken by gRPC, one write in flight. After the last one comes
 * the end: the client's half-close, or the server's status. Receiving: one read at a time, on the
 * queue's thread, so that `message` and `closed` never run at the same time.
 *
 *   client   is over when the status has come, the reads have ended and no write is in flight
 *   server   is over when the reads have ended and either the peer half-closed (it may then still
 *            send until it closes or releases) or the whole call has ended; of a server stream only
 *            in the last case
 *
 * Every batch holds a reference, the owner holds one until release. Received messages are counted
 * until they are let go, which may be long after the stream: the count has a life of its own.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "rpc/rpc_impl.h"
#include "rpc/rpc_meta.h"
#include "rpc/rpc_msg.h"
#include "rpc/rpc_refusal.h"

/** How many received messages are with the receiver. */
struct unread {
    pthread_mutex_t lock;
    uint32_t n_refs; /* The stream's and one per message. */
    uint32_t n;
    struct rpc_stream *paused; /* A reference: it reads on when a message is let go. */
};

struct rpc_stream {
    struct ps_stream base;
    struct ps_rpc_tag read;
    struct ps_rpc_tag probed;
    struct ps_rpc_tag wrote;
    struct ps_rpc_tag ended; /* Client: the status has come. Server: the call is over. */
    struct ps_rpc *rpc;
    struct ps_rpc_channel *channel;   /* Client, else NULL. */
    struct ps_rpc_listener *listener; /* Server, else NULL. */
    const struct ps_method *method;   /* Server. */
    grpc_call *call;
    _Atomic uint32_t n_refs;
    const struct ps_stream_events *events; /* Set before the first read. */
    void *arg;

    /* gRPC writes to these until the batch comes back. */
    grpc_byte_buffer *received;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code code;
    grpc_slice details;
    int canceled_by_peer;
    struct ps_rpc_refusal refusal; /* What the server sends, if it is not OK. */
    struct ps_rpc_guest guest;     /* Server. */
    struct unread *unread;

    pthread_mutex_t lock; /* For what follows. */
    grpc_byte_buffer *unsent[PS_STREAM_UNSENT_MAX];
    uint32_t first_unsent;
    uint32_t n_unsent;
    size_t n_unsent_bytes;
    grpc_byte_buffer *sending;  /* Of the batch in flight. */
    enum ps_status own_status;  /* When `close_asked`. */
    enum ps_status last_status; /* Client: when `has_ended`. */
    bool writing;               /* A send batch is in flight. */
    bool mute;                  /* Sending is refused. */
    bool close_asked;           /* By the owner. */
    bool close_sent;
    bool aborted; /* Client: closed with an error; what still comes is dropped. */
    bool started;
    bool reads_over;
    bool half_closed; /* Server: the client ended its side in peace. */
    bool has_ended;   /* `ended` has come. */
    bool broken;      /* Server: with `ended`, the client was lost or gave up. */
    bool told;        /* `closed` has been called. */
};

static struct rpc_stream *stream_of(struct ps_stream *base)
{
    return PS_CONTAINER_OF(base, struct rpc_stream, base);
}

static void lock(struct rpc_stream *stream)
{
    int failed = pthread_mutex_lock(&stream->lock);
    PS_ASSERT(failed == 0);
}

static void unlock(struct rpc_stream *stream)
{
    int failed = pthread_mutex_unlock(&stream->lock);
    PS_ASSERT(failed == 0);
}

static void ref(struct rpc_stream *stream)
{
    (void)atomic_fetch_add_explicit(&stream->n_refs, 1, memory_order_relaxed);
}

static void unread_unlock(struct unread *unread)
{
    int failed = pthread_mutex_unlock(&unread->lock);
    PS_ASSERT(failed == 0);
}

static void unread_lock(struct unread *unread)
{
    int failed = pthread_mutex_lock(&unread->lock);
    PS_ASSERT(failed == 0);
}

static void unread_unref(struct unread *unread)
{
    unread_lock(unread);
    uint32_t n_refs = --unread->n_refs;
    unread_unlock(unread);
    if (n_refs == 0) {
        (void)pthread_mutex_destroy(&unread->lock);
        ps_mem_free(unread);
    }
}

static void unref(struct rpc_stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->n_refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    struct ps_rpc_listener *listener = stream->listener;
    const struct ps_method *method = stream->method;
    PS_ASSERT(stream->n_unsent == 0 && stream->sending == NULL);
    grpc_metadata_array_destroy(&stream->initial);
    grpc_metadata_array_destroy(&stream->trailing);
    grpc_slice_unref(stream->details);
    ps_rpc_refusal_drop(&stream->refusal);
    unread_unref(stream->unread);
    if (listener != NULL) {
        ps_rpc_guest_left(listener, &stream->guest);
    }
    grpc_call_unref(stream->call);
    (void)pthread_mutex_destroy(&stream->lock);
    ps_mem_free(stream);
    if (listener != NULL) {
        ps_rpc_listener_left(listener, method);
    }
}

/* ---- Sending ------------------------------------------------------------------------------- */

static void fill_status_op(struct rpc_stream *stream, grpc_op *op)
{
    op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    op->data.send_status_from_server.status = GRPC_STATUS_OK;
    if (stream->own_status != PS_OK) {
        ps_rpc_refusal_make(&stream->refusal, stream->own_status, NULL,
                            ps_status_retry_ms(stream->own_status));
        ps_rpc_refusal_fill(&stream->refusal, stream->own_status, op);
    }
}

/* Messages that nobody sends any more; destroyed without the lock. */
struct unsent {
    uint32_t n;
    grpc_byte_buffer *at[PS_STREAM_UNSENT_MAX];
};

static grpc_byte_buffer *pop_unsent(struct rpc_stream *stream)
{
    grpc_byte_buffer *buffer = stream->unsent[stream->first_unsent];
    stream->first_unsent = (stream->first_unsent + 1) % PS_STREAM_UNSENT_MAX;
    stream->n_unsent--;
    stream->n_unsent_bytes -= grpc_byte_buffer_length(buffer);
    return buffer;
}

/* No message leaves any more. With the lock held. */
static void silence(struct rpc_stream *stream, struct unsent *ret)
{
    stream->mute = true;
    ret->n = 0;
    while (stream->n_unsent > 0) {
        ret->at[ret->n++] = pop_unsent(stream);
    }
}

static void destroy_unsent(const struct unsent *unsent)
{
    for (uint32_t i = 0; i < unsent->n; i++) {
        grpc_byte_buffer_destroy(unsent->at[i]);
    }
}

/* Choose the next thing to send, if there is one and none is in flight. With the lock held. */
static bool next_op(struct rpc_stream *stream, grpc_op *op)
{
    memset(op, 0, sizeof(*op));
    if (stream->writing) {
        return false;
    }
    if (stream->n_unsent > 0) {
        stream->sending = pop_unsent(stream);
        op->op = GRPC_OP_SEND_MESSAGE;
        op->data.send_message.send_message = stream->sending;
    } else if (stream->close_asked && !stream->close_sent && !stream->has_ended) {
        stream->close_sent = true;
        if (stream->channel != NULL) {
            op->op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
        } else {
            fill_status_op(stream, op);
        }
    } else {
        return false;
    }
    stream->writing = true;
    ref(stream);
    return true;
}

/* The batch is started without the lock: gRPC may run the `done` of a piece inside it. */
static void pump(struct rpc_stream *stream)
{
    grpc_op op;
    lock(stream);
    bool something = next_op(stream, &op);
    unlock(stream);
    if (something) {
        ps_rpc_batch(stream->call, &op, 1, &stream->wrote);
    }
}

/* ---- The end ------------------------------------------------------------------------------- */

static bool client_over(const struct rpc_stream *stream)
{
    return stream->has_ended && stream->reads_over && !stream->writing;
}

static bool half_close_ends(const struct rpc_stream *stream)
{
    return stream->half_closed && stream->method->kind == PS_METHOD_STREAM;
}

static bool server_over(const struct rpc_stream *stream)
{
    return stream->reads_over &&
           (stream->has_ended || (half_close_ends(stream) && !stream->close_asked));
}

static enum ps_status over_status(const struct rpc_stream *stream)
{
    if (stream->channel != NULL) {
        return stream->last_status;
    }
    if (stream->close_asked) {
        return stream->own_status;
    }
    return half_close_ends(stream) ? PS_OK : PS_ERR_CANCELED;
}

/* Say `closed` if it is time. On the queue's thread only. */
static void tell_if_over(struct rpc_stream *stream)
{
    lock(stream);
    bool over = stream->channel != NULL ? client_over(stream) : server_over(stream);
    bool tell = over && !stream->told;
    stream->told = stream->told || tell;
    enum ps_status status = over_status(stream);
    unlock(stream);
    if (tell) {
        stream->events->closed(stream->arg, status);
    }
}

static void on_wrote(struct ps_rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = PS_CONTAINER_OF(tag, struct rpc_stream, wrote);
    struct unsent unsent = {.n = 0};
    lock(stream);
    grpc_byte_buffer *sent = stream->sending;
    stream->sending = NULL;
    stream->writing = false;
    if (!ok) {
        silence(stream, &unsent); /* The call is broken; its status says why. */
    }
    size_t n_sent = sent != NULL ? grpc_byte_buffer_length(sent) : 0;
    bool drained = sent != NULL && ok && stream->n_unsent == 0 && stream->started && !stream->told;
    unlock(stream);
    if (sent != NULL) {
        grpc_byte_buffer_destroy(sent);
    }
    if (stream->listener != NULL) {
        ps_rpc_guest_took(stream->listener, &stream->guest, n_sent);
    }
    destroy_unsent(&unsent);
    pump(stream);
    if (drained && stream->events->drained != NULL) {
        stream->events->drained(stream->arg);
    }
    tell_if_over(stream);
    unref(stream);
}

static void on_ended(struct ps_rpc_tag *tag, bool ok PS_UNUSED)
{
    struct rpc_stream *stream = PS_CONTAINER_OF(tag, struct rpc_stream, ended);
    struct unsent unsent = {.n = 0};
    lock(stream);
    stream->has_ended = true;
    if (stream->channel != NULL) {
        struct ps_rpc_end end = {
            .trailing = &stream->trailing, .code = stream->code, .words = &stream->details};
        stream->last_status = stream->aborted ? stream->own_status : ps_rpc_meta_to_status(&end);
    } else {
        stream->broken = stream->canceled_by_peer != 0;
    }
    silence(stream, &unsent);
    unlock(stream);
    destroy_unsent(&unsent);
    tell_if_over(stream);
    unref(stream);
}

/* ---- Receiving ----------------------------------------------------------------------------- */

static void read_next(struct rpc_stream *stream)
{
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &stream->received;
    ref(stream);
    ps_rpc_batch(stream->call, &op, 1, &stream->read);
}

/*
 * To a server a read without a message looks much the same whether the client has ended its side
 * or was lost. In the second case the end of the call is in the queue as well, but perhaps behind
 * us: an empty batch goes to the end of the queue and comes back after it.
 */
static void on_probed(struct ps_rpc_tag *tag, bool ok PS_UNUSED)
{
    struct rpc_stream *stream = PS_CONTAINER_OF(tag, struct rpc_stream, probed);
    bool lost = grpc_call_failed_before_recv_message(stream->call) != 0 ||
                ps_rpc_listener_canceling(stream->listener);
    lock(stream);
    stream->reads_over = true;
    stream->half_closed = !stream->broken && !lost;
    unlock(stream);
    tell_if_over(stream);
    unref(stream);
}

static void end_reads(struct rpc_stream *stream)
{
    if (stream->listener != NULL) {
        ref(stream);
        ps_rpc_batch(stream->call, NULL, 0, &stream->probed);
        return;
    }
    lock(stream);
    stream->reads_over = true;
    unlock(stream);
    tell_if_over(stream);
}

static bool wanted(struct rpc_stream *stream)
{
    lock(stream);
    bool server_closed = stream->listener != NULL && stream->close_asked;
    bool drop = stream->aborted || server_closed;
    unlock(stream);
    return !drop;
}

/* The receiver has let go of a message. Any thread, perhaps long after the stream. */
static void on_let_go(void *arg)
{
    struct unread *unread = arg;
    unread_lock(unread);
    unread->n--;
    struct rpc_stream *stream = unread->paused;
    unread->paused = NULL;
    unread_unlock(unread);
    if (stream != NULL) {
        read_next(stream);
        unref(stream);
    }
    unread_unref(unread);
}

static void deliver(struct rpc_stream *stream, struct ps_msg *msg)
{
    struct unread *unread = stream->unread;
    unread_lock(unread);
    unread->n++;
    unread->n_refs++;
    unread_unlock(unread);
    msg->let_go = on_let_go;
    msg->let_go_arg = unread;
    stream->events->message(stream->arg, msg);
}

/* Or wait until the receiver has let go of something. */
static void read_on(struct rpc_stream *stream)
{
    struct unread *unread = stream->unread;
    unread_lock(unread);
    bool pause = unread->n >= PS_STREAM_UNREAD_MAX;
    if (pause) {
        ref(stream);
        unread->paused = stream;
    }
    unread_unlock(unread);
    if (!pause) {
        read_next(stream);
    }
}

/* @return NULL when the stream cannot go on: it loses nothing, or all */
static struct ps_msg *take_received(struct rpc_stream *stream)
{
    grpc_byte_buffer *received = stream->received;
    size_t n_bytes = grpc_byte_buffer_length(received);
    bool plain = ps_rpc_msg_plain(received);
    stream->received = NULL;
    if (!plain ||
        (stream->listener != NULL && n_bytes > ps_rpc_bytes_max(stream->rpc, stream->method))) {
        grpc_byte_buffer_destroy(received);
        (void)grpc_call_cancel_with_status(
            stream->call, plain ? GRPC_STATUS_INVALID_ARGUMENT : GRPC_STATUS_UNIMPLEMENTED,
            plain ? "the message is longer than this method takes"
                  : "compressed messages are not read",
            NULL);
        return NULL;
    }
    struct ps_msg *msg = ps_rpc_msg_create(stream->rpc->options.mem, received);
    if (msg == NULL) {
        (void)grpc_call_cancel(stream->call, NULL);
    }
    return msg;
}

static void on_read(struct ps_rpc_tag *tag, bool ok PS_UNUSED)
{
    struct rpc_stream *stream = PS_CONTAINER_OF(tag, struct rpc_stream, read);
    if (stream->received == NULL) {
        end_reads(stream);
        unref(stream);
        return;
    }
    if (stream->listener != NULL) {
        ps_rpc_guest_spoke(stream->listener, &stream->guest);
    }
    struct ps_msg *msg = take_received(stream);
    if (msg != NULL && wanted(stream)) {
        deliver(stream, msg);
    } else {
        ps_msg_unref(msg);
    }
    read_on(stream);
    unref(stream);
}

/* ---- Beginning ----------------------------------------------------------------------------- */

static struct rpc_stream *create(struct ps_rpc *rpc, struct ps_mem *mem, grpc_call *call)
{
    struct rpc_stream *stream = ps_mem_alloc(mem, PS_MEM_CALLS, sizeof(*stream));
    struct unread *unread = ps_mem_alloc(mem, PS_MEM_CALLS, sizeof(*unread));
    if (stream == NULL || unread == NULL) {
        ps_mem_free(stream);
        ps_mem_free(unread);
        return NULL;
    }
    unread->n_refs = 1;
    stream->unread = unread;
    stream->base.transport = &rpc->base;
    stream->rpc = rpc;
    stream->call = call;
    stream->read.done = on_read;
    stream->probed.done = on_probed;
    stream->wrote.done = on_wrote;
    stream->ended.done = on_ended;
    stream->code = GRPC_STATUS_UNKNOWN;
    stream->details = grpc_empty_slice();
    stream->writing = true; /* The initial metadata, of which both sides take care at once. */
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata_array_init(&stream->trailing);
    int failed = pthread_mutex_init(&stream->lock, NULL);
    failed |= pthread_mutex_init(&unread->lock, NULL);
    PS_ASSERT(failed == 0);
    atomic_store(&stream->n_refs, 1); /* The owner's. */
    return stream;
}

static void send_initial_metadata(struct rpc_stream *stream)
{
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_SEND_INITIAL_METADATA;
    ref(stream);
    ps_rpc_batch(stream->call, &op, 1, &stream->wrote);
}

static enum ps_status refusal_of(enum ps_rpc_entry entry, const struct ps_method *method)
{
    if ((method->roles & PS_ROLE_ANY) == 0) { /* Insecure: every role. */
        return PS_ERR_DENIED;
    }
    switch (entry) {
    case PS_RPC_ENTRY_READ:
    case PS_RPC_ENTRY_WAIT: return PS_OK;
    case PS_RPC_ENTRY_BUSY: return PS_ERR_BUSY;
    case PS_RPC_ENTRY_NOMEM: return PS_ERR_NOMEM;
    case PS_RPC_ENTRY_FAT: break;
    }
    return PS_ERR_INVALID;
}

bool ps_rpc_stream_begin(struct ps_rpc_slot *slot)
{
    struct rpc_stream *stream =
        create(slot->listener->rpc, slot->listener->rpc->options.mem, slot->call);
    if (stream == NULL) {
        return false;
    }
    ps_rpc_guest_init(&stream->guest, slot);
    grpc_metadata_array_destroy(&slot->metadata);
    stream->listener = slot->listener;
    stream->method = slot->method;
    enum ps_rpc_entry entry = ps_rpc_guest_open(stream->listener, &stream->guest);

    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &stream->canceled_by_peer;
    ref(stream);
    ps_rpc_batch(stream->call, &op, 1, &stream->ended);
    send_initial_metadata(stream);
    enum ps_status refused = refusal_of(entry, slot->method);
    if (refused != PS_OK) {
        ps_rpc_stream_close(&stream->base, refused);
        unref(stream); /* Nobody's. */
        return true;
    }
    ps_rpc_listener_debt_owed(stream->listener);
    slot->method->accept(slot->method->arg, &stream->base);
    return true;
}

struct ps_stream *ps_rpc_stream_open(struct ps_channel *base, const char *method,
                                     const struct ps_stream_events *events, void *arg)
{
    struct ps_rpc_channel *channel = PS_CONTAINER_OF(base, struct ps_rpc_channel, base);
    grpc_call *call = grpc_channel_create_call(channel->grpc, NULL, GRPC_PROPAGATE_DEFAULTS,
                                               channel->cq, grpc_slice_from_static_string(method),
                                               NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    /* Not counted: peers must not be able to use up what our own streams need. */
    struct rpc_stream *stream = create(channel->rpc, NULL, call);
    PS_ASSERT(stream != NULL); /* The machine itself is out of memory. */
    stream->channel = channel;
    stream->events = events;
    stream->arg = arg;
    stream->started = true;
    (void)atomic_fetch_add(&channel->n_users, 1);

    /* One more reference while the batches are started: the first may end it all. */
    ref(stream);
    send_initial_metadata(stream);
    grpc_op ops[2];
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[0].data.recv_status_on_client.trailing_metadata = &stream->trailing;
    ops[0].data.recv_status_on_client.status = &stream->code;
    ops[0].data.recv_status_on_client.status_details = &stream->details;
    ref(stream);
    ps_rpc_batch(call, ops, 1, &stream->ended);
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_RECV_INITIAL_METADATA; /* Without it the status never comes. */
    ops[0].data.recv_initial_metadata.recv_initial_metadata = &stream->initial;
    ops[1].op = GRPC_OP_RECV_MESSAGE;
    ops[1].data.recv_message.recv_message = &stream->received;
    ref(stream);
    ps_rpc_batch(call, ops, 2, &stream->read);
    unref(stream);
    return &stream->base;
}

/* ---- What the owner asks ------------------------------------------------------------------- */

void ps_rpc_stream_start(struct ps_stream *base, const struct ps_stream_events *events, void *arg)
{
    struct rpc_stream *stream = stream_of(base);
    lock(stream); /* A write that was begun before may end now. */
    PS_ASSERT(!stream->started);
    stream->events = events;
    stream->arg = arg;
    stream->started = true;
    unlock(stream);
    read_next(stream); /* Brings all news, also that it is over already. */
}

static enum ps_status push_unsent(struct rpc_stream *stream, grpc_byte_buffer *buffer,
                                  size_t n_bytes)
{
    if (stream->mute) {
        return PS_ERR_UNAVAIL;
    }
    if (stream->n_unsent == PS_STREAM_UNSENT_MAX ||
        (stream->n_unsent > 0 && stream->n_unsent_bytes + n_bytes > PS_STREAM_UNSENT_BYTES_MAX)) {
        return PS_ERR_BUSY;
    }
    uint32_t last = (stream->first_unsent + stream->n_unsent) % PS_STREAM_UNSENT_MAX;
    stream->unsent[last] = buffer;
    stream->n_unsent++;
    stream->n_unsent_bytes += n_bytes;
    return PS_OK;
}

enum ps_status ps_rpc_stream_send(struct ps_stream *base, const struct ps_out *out)
{
    struct rpc_stream *stream = stream_of(base);
    size_t n_bytes = ps_rpc_out_bytes(out);
    if (n_bytes > stream->rpc->options.n_message_bytes_max) {
        ps_rpc_out_drop(out);
        return PS_ERR_INVALID;
    }
    if (stream->listener != NULL && !ps_rpc_guest_give(stream->listener, &stream->guest, n_bytes)) {
        ps_rpc_out_drop(out);
        return PS_ERR_BUSY;
    }
    grpc_byte_buffer *buffer = ps_rpc_out_pack(&stream->rpc->lender, out);
    lock(stream);
    enum ps_status status = push_unsent(stream, buffer, n_bytes);
    unlock(stream);
    if (status != PS_OK) {
        if (stream->listener != NULL) {
            ps_rpc_guest_took(stream->listener, &stream->guest, n_bytes);
        }
        grpc_byte_buffer_destroy(buffer);
        return status;
    }
    pump(stream);
    return PS_OK;
}

void ps_rpc_stream_close(struct ps_stream *base, enum ps_status status)
{
    struct rpc_stream *stream = stream_of(base);
    struct unsent unsent = {.n = 0};
    bool cancel = false;
    bool leaving = false;
    size_t n_unsent_bytes = 0;
    lock(stream);
    bool again = stream->close_asked && (status == PS_OK || stream->listener != NULL);
    if (!stream->has_ended && !again) {
        stream->mute = true;
        stream->close_asked = true;
        stream->own_status = status;
        leaving = stream->listener != NULL;
        n_unsent_bytes = stream->n_unsent_bytes;
        if (stream->channel != NULL && status != PS_OK) {
            stream->aborted = true;
            cancel = true;
            silence(stream, &unsent);
        }
    }
    unlock(stream);
    destroy_unsent(&unsent);
    if (leaving) {
        ps_rpc_guest_leave(stream->listener, &stream->guest, n_unsent_bytes);
    }
    if (cancel) {
        (void)grpc_call_cancel(stream->call, NULL);
    } else {
        pump(stream);
    }
}

void ps_rpc_stream_release(struct ps_stream *base)
{
    struct rpc_stream *stream = stream_of(base);
    lock(stream);
    bool told = stream->told;
    unlock(stream);
    PS_ASSERT(told || !stream->started);
    if (stream->channel != NULL) {
        (void)atomic_fetch_sub(&stream->channel->n_users, 1);
    } else {
        ps_rpc_stream_close(base, told ? PS_OK : PS_ERR_CANCELED);
        ps_rpc_listener_debt_paid(stream->listener);
    }
    unref(stream);
}
