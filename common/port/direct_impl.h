#ifndef PS_COMMON_PORT_DIRECT_IMPL_H
#define PS_COMMON_PORT_DIRECT_IMPL_H
/*
 * port/direct_impl.h — the structs that direct.c, direct_call.c and direct_stream.c share.
 *
 * One thread, so neither locks nor atomics. What a listener serves is in its two lists; what a
 * channel has begun is counted: both must be empty or 0 before they are closed.
 */
#include "base/limits.h"
#include "base/list.h"
#include "port/direct.h"

struct ps_direct {
    struct ps_transport base;
    struct ps_exec *exec;
    struct ps_list listeners; /* Those that are open and not stopped. */
    uint32_t n_open;          /* Channels and listeners. */
    uint32_t next_port;       /* For addresses that end in ":0". */
};

struct ps_direct_channel {
    struct ps_channel base;
    struct ps_direct *direct;
    uint32_t n_users; /* Requests not done, streams not released. */
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

struct ps_direct_listener {
    struct ps_listener base;
    struct ps_list node; /* In the direct's, until stopped. */
    struct ps_direct *direct;
    const struct ps_method *methods;
    size_t n_methods;
    struct ps_list calls;   /* That a handler owes an answer. */
    struct ps_list streams; /* Not yet released. */
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

/** A message with its own copy of the head, borrowing the pieces; one reference. */
struct ps_msg *ps_direct_msg_create(const struct ps_out *out);

/** Who serves `method` at `address`; NULL and a reason in `err` when nobody does. */
const struct ps_method *ps_direct_find(struct ps_direct *direct, const char *address,
                                       const char *method, bool unary,
                                       struct ps_direct_listener **ret, struct ps_error *err);

/* direct_call.c */
void ps_direct_request_start(struct ps_channel *base, struct ps_request *request);
void ps_direct_request_cancel(struct ps_request *request);
const struct ps_msg *ps_direct_call_request(struct ps_call *base);
struct ps_msg *ps_direct_call_take_request(struct ps_call *base);
const struct ps_context *ps_direct_call_context(struct ps_call *base);
bool ps_direct_call_gone(struct ps_call *call);
uint32_t ps_direct_call_time_left_ms(struct ps_call *base);
void ps_direct_call_retry_after(struct ps_call *base, uint32_t retry_ms);
void ps_direct_call_finish(struct ps_call *base, enum ps_status status, const struct ps_out *out,
                           const char *reason);
/** Tell all callers of a listener that nobody answers any more. */
void ps_direct_calls_abandon(struct ps_direct_listener *listener);

/* direct_stream.c */
struct ps_stream *ps_direct_stream_open(struct ps_channel *base, const char *method,
                                        const struct ps_stream_events *events, void *arg);
void ps_direct_stream_start(struct ps_stream *base, const struct ps_stream_events *events,
                            void *arg);
enum ps_status ps_direct_stream_send(struct ps_stream *base, const struct ps_out *out);
void ps_direct_stream_close(struct ps_stream *base, enum ps_status status);
void ps_direct_stream_release(struct ps_stream *base);
/** Break all streams of a listener. */
void ps_direct_streams_abandon(struct ps_direct_listener *listener);

#endif
