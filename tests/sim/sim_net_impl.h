#ifndef PS_TESTS_SIM_SIM_NET_IMPL_H
#define PS_TESTS_SIM_SIM_NET_IMPL_H
/*
 * sim/sim_net_impl.h — the structs that sim_net.c, sim_call.c, sim_stream.c and sim_msg.c share.
 */
#include "base/attr.h"
#include "base/limits.h"
#include "base/list.h"
#include "sim/sim_net.h"

struct sim_port {
    struct ps_transport base;
    struct sim_net *net;
    struct sim_node *node;
};

struct sim_net {
    struct sim_world *world;
    struct sim_faults faults;
    struct sim_net_counts counts;
    struct sim_port ports[SIM_NODES_MAX];
    bool cut[SIM_NODES_MAX][SIM_NODES_MAX]; /* [from][to] */
    bool rst[SIM_NODES_MAX];                /* Crashed, and its kernel says so. */
    struct ps_list listeners;               /* Open and not stopped. */
    struct ps_list requests;                /* Every struct sim_request. */
    struct ps_list copies;                  /* Every struct sim_copy. */
    struct ps_list pairs;                   /* Every struct sim_pair. */
    uint32_t n_open;                        /* Channels and listeners. */
    uint32_t next_port;
    uint64_t steady_break_ns;
    void (*tap)(void *arg, const struct sim_reply *reply);
    void *tap_arg;
};

struct sim_channel {
    struct ps_channel base;
    struct sim_net *net;
    struct sim_node *node; /* Who dials. */
    uint32_t n_users;      /* Requests not done, streams not released. */
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

struct sim_listener {
    struct ps_listener base;
    struct ps_list entry; /* In the net's, until stopped. */
    struct sim_net *net;
    struct sim_node *node;
    const struct ps_method *methods;
    size_t n_methods;
    struct ps_list calls;   /* That a handler owes an answer. */
    struct ps_list streams; /* Accepted and not yet released. */
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

/* sim_msg.c: bytes that were given to the network and have not left yet. */
struct sim_load;
struct sim_load *sim_load_take(const struct ps_out *out);
/** The bytes leave: copied as they are now, into slices of odd lengths; the pieces are done. */
struct ps_msg *sim_load_depart(struct sim_world *world, struct sim_load *load);

/* sim_net.c */
struct sim_port *sim_port_of(struct ps_transport *transport);
bool sim_net_is_cut(const struct sim_net *net, const struct sim_node *from,
                    const struct sim_node *to);
/** A one-way delay. */
uint64_t sim_net_delay(struct sim_net *net, const struct sim_node *from, const struct sim_node *to);
struct sim_listener *sim_net_listener(struct sim_net *net, const char *address);
const struct ps_method *sim_net_method(const struct sim_listener *listener, const char *path,
                                       bool unary);
/** Mark the beginning and end of a callback into the code under test. */
void sim_net_enter(struct sim_net *net);
void sim_net_leave(struct sim_net *net);

/* sim_call.c */
void sim_request_start(struct ps_channel *base, struct ps_request *request);
void sim_request_cancel(struct ps_request *request);
const struct ps_msg *sim_call_request(struct ps_call *base);
struct ps_msg *sim_call_take_request(struct ps_call *base);
const struct ps_context *sim_call_context(struct ps_call *base);
bool sim_call_gone(struct ps_call *base);
uint32_t sim_call_time_left_ms(struct ps_call *base);
void sim_call_retry_after(struct ps_call *base, uint32_t retry_ms);
void sim_call_finish(struct ps_call *base, enum ps_status status, const struct ps_out *out,
                     const char *reason);
void sim_calls_abandon(struct sim_listener *listener);
void sim_calls_reset(struct sim_net *net, const struct sim_node *a, const struct sim_node *b);
/** The server died: what was on its way to it finds whoever comes after it, or nobody. */
void sim_calls_orphan(struct sim_net *net, struct sim_node *server, bool soon);
void sim_calls_drop(struct sim_net *net);

/* sim_stream.c */
struct ps_stream *sim_stream_open(struct ps_channel *base, const char *method,
                                  const struct ps_stream_events *events, void *arg);
void sim_stream_start(struct ps_stream *base, const struct ps_stream_events *events, void *arg);
enum ps_status sim_stream_send(struct ps_stream *base, const struct ps_out *out);
void sim_stream_close(struct ps_stream *base, enum ps_status status);
void sim_stream_release(struct ps_stream *base);
void sim_streams_abandon(struct sim_listener *listener);
/** NULL for `b`: with anybody. `late`: the peers hear only when their keepalive fails. */
void sim_streams_reset(struct sim_net *net, const struct sim_node *a, const struct sim_node *b,
                       bool late);
/** Forget streams that never arrived and whose client has let go. */
void sim_streams_drop(struct sim_net *net);

#endif
