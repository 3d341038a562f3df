#ifndef PS_COMMON_PORT_TRANSPORT_H
#define PS_COMMON_PORT_TRANSPORT_H
/*
 * port/transport.h — calls and streams between processes, as svc, coord, attend and client see
 * them. Kinds: gRPC (common/rpc), a function call inside one process (port/direct), and the
 * simulator's network that delays, drops, doubles and reorders.
 *
 * A call is one request and one reply; it may be lost, doubled (a retry that met the first try at
 * the server) or answered late. A stream keeps order and loses nothing until it breaks as a whole.
 *
 * Threads: `done`, handlers and stream callbacks run on threads of the transport. They must not
 * block; they post mail to whoever owns the matter.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ps/status.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/slice.h"

/* ---- Messages ------------------------------------------------------------------------------ */

/**
 * A message that has arrived. Its bytes stay valid and unchanged while somebody holds a reference;
 * slices may be unaligned and of any length, empty ones included.
 */
struct ps_msg {
    const struct ps_slice *slices;
    size_t n_slices;
    size_t n_bytes; /* Over all slices. */
    _Atomic uint32_t n_refs;
    void (*destroy)(struct ps_msg *msg); /* By the kind; runs when n_refs falls to 0. */
    void (*let_go)(void *arg);           /* By the kind, may be NULL; runs after `destroy`. */
    void *let_go_arg;
};

void ps_msg_ref(struct ps_msg *msg);
/** Any thread. NULL does nothing. */
void ps_msg_unref(struct ps_msg *msg);

/** Bytes lent to the transport. `done(arg)`, if set, runs once, on any thread, when it lets go. */
struct ps_piece {
    const uint8_t *data;
    size_t n_bytes;
    void (*done)(void *arg);
    void *arg;
};

/**
 * A message to be sent: `head` is copied before the call returns; the pieces follow it on the wire
 * and are borrowed until their `done`. The array of pieces itself is read only during the call.
 * `done` of every piece runs exactly once whether or not the message could be sent.
 */
struct ps_out {
    const uint8_t *head;
    size_t n_head_bytes;
    const struct ps_piece *pieces;
    size_t n_pieces;
};

/** What travels beside every call: who asks in which trace. Shown in logs and traces. */
struct ps_context {
    struct ps_id trace; /* W3C trace id; none: not traced. */
    uint64_t session;   /* Session number; 0: none yet. */
    uint64_t step;
};

/* ---- Security ------------------------------------------------------------------------------ */

/** What a peer may do. A method names the roles that it admits. */
enum ps_role {
    PS_ROLE_READER = 1u << 0,
    PS_ROLE_WORKER = 1u << 1,
    PS_ROLE_SERVER = 1u << 2,
    PS_ROLE_ADMIN = 1u << 3
};
#define PS_ROLE_ANY 15u

enum ps_creds_kind {
    PS_CREDS_INSECURE /* No encryption, every peer has every role. For loopback and tests. */
};

/** How a listener or a channel proves who it is. */
struct ps_creds {
    enum ps_creds_kind kind;
};

/* ---- Client side --------------------------------------------------------------------------- */

/** Which queue, thread and connection: megabytes of pushes never delay a heartbeat. */
enum ps_traffic {
    PS_TRAFFIC_CONTROL,
    PS_TRAFFIC_DATA
};

struct ps_channel; /* To one address; reconnects by itself. The transport's. */

/** One call under way; embedded in the caller's struct, which stays until `done` has run. */
struct ps_request {
    /* Set by the caller before start. */
    const char *method; /* "/ps.v1.ParameterServer/Pull"; static. */
    uint32_t timeout_ms;
    bool at_once; /* Who cannot be connected to is UNAVAIL, with the reason; else wait for him. */
    struct ps_context context;
    struct ps_out out;
    void (*done)(struct ps_request *request); /* Runs exactly once per start, never inside it. */
    /* Set by the transport before `done`. */
    struct ps_error err;  /* err.status: PS_OK, what the server answered, or UNAVAIL/TIMEOUT. */
    uint32_t retry_ms;    /* The server asks not to be asked again within; 0: it says nothing. */
    struct ps_msg *reply; /* On PS_OK; the caller's reference, to be unref'd. Else NULL. */
    void *impl;           /* The transport's. */
};

/* ---- Streams, both sides ------------------------------------------------------------------- */

struct ps_stream;

#define PS_STREAM_UNSENT_MAX       64u /* Messages that one side may have unsent; then BUSY. */
#define PS_STREAM_UNSENT_BYTES_MAX (8u << 20) /* Two messages of the greatest size. */
/*
 * Received messages of one stream that are with the receiver, not yet unref'd; the next is read
 * when one is let go. So a peer fills no mailbox: what it sends beyond waits on its own side.
 */
#define PS_STREAM_UNREAD_MAX 16u

struct ps_stream_events {
    /** A message has arrived; `msg` is the callee's reference. See PS_STREAM_UNREAD_MAX. */
    void (*message)(void *arg, struct ps_msg *msg);
    /**
     * The stream is over, once, after the last message; while PS_STREAM_UNREAD_MAX messages are
     * held it does not come. `status` PS_OK: the other side ended it.
     * Afterwards the owner still has to release it.
     */
    void (*closed)(void *arg, enum ps_status status);
    /**
     * All that was sent has left this side: whoever has more to say than a slow peer takes may say
     * the next thing. Never after `closed`. May be NULL.
     */
    void (*drained)(void *arg);
};

/* ---- Server side --------------------------------------------------------------------------- */

struct ps_call;     /* One request being answered: a debt with one holder. */
struct ps_listener; /* One served address. */

enum ps_method_kind {
    PS_METHOD_UNARY,        /* One request, one reply. */
    PS_METHOD_STREAM,       /* Both sides talk; `closed` also comes when the client has said all. */
    PS_METHOD_SERVER_STREAM /* The client says one thing and listens: that it has said all is no
                               news, `closed` comes when it is gone or the server has closed. */
};

struct ps_method {
    const char *path; /* "/ps.v1.Coordinator/Join"; static. */
    enum ps_traffic traffic;
    uint32_t roles; /* Mask of enum ps_role that may call it. */
    enum ps_method_kind kind;
    /** Unary: a request has arrived whole; whoever gets `call` owes one ps_call_finish. */
    void (*call)(void *arg, struct ps_call *call);
    /** Streams: somebody opened one. Call ps_stream_start (now or later) to receive. */
    void (*accept)(void *arg, struct ps_stream *stream);
    void *arg;
    uint32_t bytes_max; /* Of a unary request; 0: what its traffic class takes. */
};

/** What a listener serves, and where. */
struct ps_service {
    const char *address;             /* Port 0 picks one. */
    const struct ps_creds *creds;    /* NULL: insecure. */
    const struct ps_method *methods; /* [n_methods]; they outlive the listener. */
    size_t n_methods;
};

/* ---- The port ------------------------------------------------------------------------------ */

struct ps_transport;

/** When a refused caller should come again if the server says nothing better; 0: no hint. */
static inline uint32_t ps_status_retry_ms(enum ps_status status)
{
    if (status == PS_ERR_NOT_YET) {
        return PS_RETRY_NOT_YET_MS;
    }
    if (status == PS_ERR_NO_SPACE) {
        return PS_RETRY_NO_SPACE_MS;
    }
    return status == PS_ERR_BUSY || status == PS_ERR_NOMEM ? PS_RETRY_BUSY_MS : 0;
}

struct ps_transport_ops {
    /* Client side. Any thread. */
    enum ps_status (*channel_open)(struct ps_transport *transport, const char *address,
                                   enum ps_traffic traffic, const struct ps_creds *creds,
                                   struct ps_channel **ret, struct ps_error *err);
    /** All requests must be done and all streams released before. */
    void (*channel_close)(struct ps_channel *channel);
    void (*request_start)(struct ps_channel *channel, struct ps_request *request);
    /** Ask for an early end; `done` still runs once (PS_ERR_CANCELED, or what was faster). */
    void (*request_cancel)(struct ps_request *request);
    /** Open a stream. Never NULL: one that can't be opened reports `closed` later. */
    struct ps_stream *(*stream_open)(struct ps_channel *channel, const char *method,
                                     const struct ps_stream_events *events, void *arg);

    /* Streams, both sides. Any thread, one at a time for one stream. */
    /** Server side: from now on `events` are delivered, messages that came before included. */
    void (*stream_start)(struct ps_stream *stream, const struct ps_stream_events *events,
                         void *arg);
    /** PS_ERR_BUSY: too much unsent, nothing taken. After the end: PS_ERR_UNAVAIL. */
    enum ps_status (*stream_send)(struct ps_stream *stream, const struct ps_out *out);
    /** End it from this side, with a status for the peer. `closed` still comes. */
    void (*stream_close)(struct ps_stream *stream, enum ps_status status);
    /** After `closed`: let go. */
    void (*stream_release)(struct ps_stream *stream);

    /* Server side. */
    /** Bind and serve. `*service` is read only during the call. */
    enum ps_status (*listener_open)(struct ps_transport *transport,
                                    const struct ps_service *service, struct ps_listener **ret,
                                    struct ps_error *err);
    /** The address that others can dial, port filled in. Valid until close. */
    const char *(*listener_address)(const struct ps_listener *listener);
    /** Take no new calls, wait `grace_ms` for those under way, cancel the rest. Blocks. */
    void (*listener_stop)(struct ps_listener *listener, uint32_t grace_ms);
    /** After stop, when every call has been finished and every stream released. */
    void (*listener_close)(struct ps_listener *listener);

    /* Calls, server side. Any thread. */
    const struct ps_msg *(*call_request)(struct ps_call *call); /* Borrowed until finish. */
    /** The request, as a reference that may outlive the call (a push's records borrow from it). */
    struct ps_msg *(*call_take_request)(struct ps_call *call);
    const struct ps_context *(*call_context)(struct ps_call *call);
    /** True once the caller has given up: an answer would reach nobody. Still finish it. */
    bool (*call_gone)(struct ps_call *call);
    /** Milliseconds until the caller gives up; a kind may round up by a hundredth. */
    uint32_t (*call_time_left_ms)(struct ps_call *call);
    /** Before a refusal: the caller should wait so long; else it is told ps_status_retry_ms. */
    void (*call_retry_after)(struct ps_call *call, uint32_t retry_ms);
    /**
     * Answer and let go; `call` is invalid afterwards. With status other than PS_OK `out` is NULL
     * and `reason` (may be NULL) tells people why.
     */
    void (*call_finish)(struct ps_call *call, enum ps_status status, const struct ps_out *out,
                        const char *reason);
};

/* Every object of a transport begins with a pointer to its transport: the calls below need it. */
struct ps_transport {
    const struct ps_transport_ops *ops;
};
struct ps_channel {
    struct ps_transport *transport;
};
struct ps_stream {
    struct ps_transport *transport;
};
struct ps_listener {
    struct ps_transport *transport;
};
struct ps_call {
    struct ps_transport *transport;
};

PS_MUST_CHECK static inline enum ps_status
ps_channel_open(struct ps_transport *transport, const char *address, enum ps_traffic traffic,
                const struct ps_creds *creds, struct ps_channel **ret, struct ps_error *err)
{
    return transport->ops->channel_open(transport, address, traffic, creds, ret, err);
}

static inline void ps_channel_close(struct ps_channel *channel)
{
    channel->transport->ops->channel_close(channel);
}

static inline void ps_request_start(struct ps_channel *channel, struct ps_request *request)
{
    channel->transport->ops->request_start(channel, request);
}

static inline void ps_request_cancel(struct ps_channel *channel, struct ps_request *request)
{
    channel->transport->ops->request_cancel(request);
}

static inline struct ps_stream *ps_stream_open(struct ps_channel *channel, const char *method,
                                               const struct ps_stream_events *events, void *arg)
{
    return channel->transport->ops->stream_open(channel, method, events, arg);
}

static inline void ps_stream_start(struct ps_stream *stream, const struct ps_stream_events *events,
                                   void *arg)
{
    stream->transport->ops->stream_start(stream, events, arg);
}

static inline enum ps_status ps_stream_send(struct ps_stream *stream, const struct ps_out *out)
{
    return stream->transport->ops->stream_send(stream, out);
}

static inline void ps_stream_close(struct ps_stream *stream, enum ps_status status)
{
    stream->transport->ops->stream_close(stream, status);
}

static inline void ps_stream_release(struct ps_stream *stream)
{
    stream->transport->ops->stream_release(stream);
}

PS_MUST_CHECK static inline enum ps_status ps_listener_open(struct ps_transport *transport,
                                                            const struct ps_service *service,
                                                            struct ps_listener **ret,
                                                            struct ps_error *err)
{
    return transport->ops->listener_open(transport, service, ret, err);
}

static inline const char *ps_listener_address(const struct ps_listener *listener)
{
    return listener->transport->ops->listener_address(listener);
}

static inline void ps_listener_stop(struct ps_listener *listener, uint32_t grace_ms)
{
    listener->transport->ops->listener_stop(listener, grace_ms);
}

static inline void ps_listener_close(struct ps_listener *listener)
{
    listener->transport->ops->listener_close(listener);
}

static inline const struct ps_msg *ps_call_request(struct ps_call *call)
{
    return call->transport->ops->call_request(call);
}

static inline struct ps_msg *ps_call_take_request(struct ps_call *call)
{
    return call->transport->ops->call_take_request(call);
}

static inline const struct ps_context *ps_call_context(struct ps_call *call)
{
    return call->transport->ops->call_context(call);
}

static inline bool ps_call_gone(struct ps_call *call)
{
    return call->transport->ops->call_gone(call);
}

static inline uint32_t ps_call_time_left_ms(struct ps_call *call)
{
    return call->transport->ops->call_time_left_ms(call);
}

static inline void ps_call_retry_after(struct ps_call *call, uint32_t retry_ms)
{
    call->transport->ops->call_retry_after(call, retry_ms);
}

static inline void ps_call_finish(struct ps_call *call, enum ps_status status,
                                  const struct ps_out *out, const char *reason)
{
    call->transport->ops->call_finish(call, status, out, reason);
}

#endif
