#ifndef PS_COMMON_RPC_RPC_IMPL_H
#define PS_COMMON_RPC_RPC_IMPL_H
/*
 * rpc/rpc_impl.h — the structs that the files of this folder share.
 *
 *   ps_rpc            queues with their threads, idle requests
 *     ps_rpc_channel    a gRPC channel bound to one queue
 *     ps_rpc_listener   a gRPC server; slots wait in gRPC for one call each
 *       ps_rpc_gate     per class of traffic: how many calls may be under way
 *
 * Every batch that is given to gRPC holds a reference on what it belongs to.
 */
#include <signal.h>
#include <stdatomic.h>

#include <pthread.h>

#include <grpc/grpc.h>

#include "base/limits.h"
#include "base/list.h"
#include "os/thread_exec.h"
#include "port/transport.h"
#include "rpc/rpc.h"
#include "rpc/rpc_cq.h"
#include "rpc/rpc_msg.h"

#define PS_RPC_TRAFFIC_COUNT 2

struct ps_rpc_request;

/** One completion queue; its thread runs one mail that ends when the queue is shut down. */
struct ps_rpc_queue {
    struct ps_rpc *rpc;
    grpc_completion_queue *cq;
    struct ps_thread_exec *thread;
    struct ps_mail run;
};

struct ps_rpc {
    struct ps_transport base;
    struct ps_rpc_options options; /* Defaults filled in. */
    /*
     * The control queue brings the calls of peers and touches no socket: a thread that does may be
     * kept by thousands of connections that all want to be accepted at once, and for so long no
     * heartbeat would be heard. Our own control calls come back on `io`, since gRPC wants a queue
     * with I/O for them; it has two threads that take turns, so one of them may be kept.
     */
    struct ps_rpc_queue queues[1 + PS_RPC_DATA_QUEUES_MAX]; /* [0]: control. */
    struct ps_rpc_queue io[PS_RPC_IO_THREADS];              /* All with the same `cq`. */
    pthread_mutex_t io_turn;                                /* While one of them runs a tag. */
    uint32_t n_queues;
    uint32_t n_io;
    _Atomic uint32_t next_data; /* Channels for data take the queues in turn. */
    _Atomic uint32_t n_open;    /* Channels and listeners. */
    struct ps_rpc_lender lender;
    pthread_mutex_t lock; /* For the next two; taken before a listener's. */
    struct ps_rpc_request *idle;
    struct ps_list listeners; /* Until they are closed. */
    grpc_resource_quota *quota;
};

struct ps_rpc_channel {
    struct ps_channel base;
    struct ps_rpc *rpc;
    grpc_channel *grpc;
    grpc_completion_queue *cq;
    _Atomic uint32_t n_users; /* Requests not done, streams not released. */
};

struct ps_rpc_listener;
struct ps_rpc_call;

/** A place in gRPC where one call of one method can arrive. */
struct ps_rpc_slot {
    struct ps_rpc_tag arrived;
    struct ps_list node; /* In the gate's `idle` while it is not armed. */
    struct ps_rpc_listener *listener;
    const struct ps_method *method;
    void *registered; /* gRPC's name of the method. */
    grpc_completion_queue *cq;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
};

/** Where a call of a peer stands; see rpc_guard.c. */
enum ps_rpc_stage {
    PS_RPC_HANDLED, /* Ours to get on with: in no list. */
    PS_RPC_WAITING,
    PS_RPC_READING,
    PS_RPC_OPENING,
    PS_RPC_LEAVING
};

/** One connection, while it has requests on their way or streams that say nothing yet. */
struct ps_rpc_peer {
    struct ps_list node;    /* In a bucket of the gate. */
    struct ps_list turn;    /* In the gate's `turns` while guests of it wait. */
    struct ps_list waiting; /* These guests. */
    uint64_t id;
    uint32_t n_guests; /* That refer to it. */
    uint32_t n_reading;
    uint32_t n_opening;
};

/** One call or stream of a peer as the guard sees it. Everything under the listener's lock. */
struct ps_rpc_guest {
    struct ps_list node; /* In the gate's or the peer's list, by stage. */
    const struct ps_method *method;
    enum ps_rpc_stage stage;
    grpc_call *call;
    struct ps_rpc_peer *peer; /* While it waits, reads or opens. */
    bool fat;                 /* Its metadata are over the limit. */
    uint64_t since_ms;        /* In this stage. */
    uint64_t until_ms;
    bool told_to_go;
    uint64_t n_untaken; /* Bytes of its own that it has in gRPC. */
};

#define PS_RPC_PEER_BUCKETS 256u

struct ps_rpc_gate {
    struct ps_list idle;                       /* Slots to be armed as soon as there is room. */
    struct ps_list reading;                    /* Guests whose request is arriving. */
    struct ps_list others;                     /* Guests that open or leave. */
    struct ps_list turns;                      /* Peers of which guests wait. */
    struct ps_list peers[PS_RPC_PEER_BUCKETS]; /* By the low bits of their id. */
    uint32_t n_live;    /* Calls and streams under way, without those that wait. */
    uint32_t n_reading; /* Of these, requests that are arriving or just handed on. */
    uint32_t n_waiting; /* Requests that wait for a place. */
    uint64_t n_untaken; /* Bytes that peers have yet to take. */
};

struct ps_rpc_listener {
    struct ps_listener base;
    struct ps_list node; /* In the ps_rpc's. */
    struct ps_rpc *rpc;
    grpc_server *server;
    const struct ps_method *methods;
    size_t n_methods;
    struct ps_rpc_slot *slots;
    size_t n_slots;
    struct ps_rpc_tag down; /* The server's shutdown is complete. */
    pthread_mutex_t lock;   /* For what follows. */
    pthread_cond_t changed; /* `is_down` or one of the counts that are waited for. */
    struct ps_rpc_gate gates[PS_RPC_TRAFFIC_COUNT];
    struct ps_rpc_call *idle; /* Finished calls, to be used again. */
    uint32_t n_idle;
    uint32_t n_armed;   /* Slots and strays inside gRPC. */
    uint32_t n_debts;   /* Calls not finished and streams not released by their handlers. */
    uint32_t n_objects; /* Calls, streams and strays that gRPC still knows. */
    bool stopping;
    bool canceling;
    bool is_down;
    int lock_fd; /* Beside a unix socket; -1: none. */
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

/* ---- rpc.c ---- */

/** Block all signals around what may start threads of gRPC. */
void ps_rpc_signals_block(sigset_t *before);
void ps_rpc_signals_restore(const sigset_t *before);

/** The longest message that a peer may send to this method. */
static inline size_t ps_rpc_bytes_max(const struct ps_rpc *rpc, const struct ps_method *method)
{
    size_t n_bytes = rpc->options.n_message_bytes_max;
    size_t own = method->traffic == PS_TRAFFIC_CONTROL ? PS_CONTROL_BYTES_MAX : n_bytes;
    own = method->bytes_max != 0 ? method->bytes_max : own;
    return own < n_bytes ? own : n_bytes;
}

/* ---- rpc_address.c ---- */

struct ps_rpc_host_port {
    char host[PS_ADDRESS_BYTES_MAX + 1]; /* Without its brackets. */
    char port[6];
    bool brackets;
};

bool ps_rpc_address_is_unix(const char *address);
/** Of an address that is one of unix. */
const char *ps_rpc_address_path(const char *address);
/** host:port or [host]:port into its parts; false when there is no port of digits. */
bool ps_rpc_address_split(const char *address, struct ps_rpc_host_port *ret);
/** The target for gRPC: numeric addresses in the form that needs no resolver. */
void ps_rpc_address_target(const char *address, char *ret, size_t n_bytes);
/** What reaches a listener on `address` from this machine, its port being `port`. False: long. */
bool ps_rpc_address_served(const char *address, int port, char *ret, size_t n_bytes);

/* ---- rpc_claim.c ---- */

/** Fail with one clear line if `address` cannot be bound; for unix sockets take the lock. */
enum ps_status ps_rpc_address_claim(const char *address, int *ret_lock_fd, struct ps_error *err);
void ps_rpc_address_release(int lock_fd);

/* ---- rpc_reach.c ---- */

/** Make words for people of what gRPC itself (no peer of ours) said in `err->text`. */
void ps_rpc_reach_explain(grpc_status_code code, uint32_t timeout_ms, struct ps_error *err);

/* ---- rpc_channel.c, rpc_request.c ---- */

enum ps_status ps_rpc_channel_open(struct ps_transport *transport, const char *address,
                                   enum ps_traffic traffic, const struct ps_creds *creds,
                                   struct ps_channel **ret, struct ps_error *err);
void ps_rpc_channel_close(struct ps_channel *base);
void ps_rpc_request_start(struct ps_channel *base, struct ps_request *request);
void ps_rpc_request_cancel(struct ps_request *request);
/** Free what is idle. */
void ps_rpc_requests_free(struct ps_rpc *rpc);

/* ---- rpc_listener.c ---- */

enum ps_status ps_rpc_listener_open(struct ps_transport *transport,
                                    const struct ps_service *service, struct ps_listener **ret,
                                    struct ps_error *err);
const char *ps_rpc_listener_address(const struct ps_listener *base);
void ps_rpc_listener_stop(struct ps_listener *base, uint32_t grace_ms);
void ps_rpc_listener_close(struct ps_listener *base);

/** A request has arrived, and its handler has returned: another may begin to. */
void ps_rpc_listener_read_done(struct ps_rpc_listener *listener, enum ps_traffic traffic);
/** A handler gets a call or stream ... */
void ps_rpc_listener_debt_owed(struct ps_rpc_listener *listener);
/** ... and has finished or released it. */
void ps_rpc_listener_debt_paid(struct ps_rpc_listener *listener);
/** gRPC has let go of a call or stream of `method`. */
void ps_rpc_listener_left(struct ps_rpc_listener *listener, const struct ps_method *method);
/** May something be armed? Counts it if so. */
bool ps_rpc_listener_arm_one(struct ps_rpc_listener *listener);
/** What was armed has come back, as a call (`arrived`) or because the server shuts down. */
void ps_rpc_listener_disarmed(struct ps_rpc_listener *listener, bool arrived);
/** Has stop begun to cancel what is under way? */
bool ps_rpc_listener_canceling(struct ps_rpc_listener *listener);
/** gRPC has let go of a call of no method. */
void ps_rpc_listener_stray_left(struct ps_rpc_listener *listener);

/* ---- rpc_guard.c ---- */

enum ps_rpc_entry {
    PS_RPC_ENTRY_READ, /* It may begin. */
    PS_RPC_ENTRY_WAIT, /* Somebody says when: ps_rpc_guest_next, or ps_rpc_guest_give_up. */
    PS_RPC_ENTRY_BUSY,
    PS_RPC_ENTRY_NOMEM,
    PS_RPC_ENTRY_FAT /* Too much metadata. */
};

void ps_rpc_gate_init(struct ps_rpc_gate *gate);
/** The call that has arrived in `slot`. */
void ps_rpc_guest_init(struct ps_rpc_guest *guest, const struct ps_rpc_slot *slot);
/** A unary call has arrived; its request is to be read. */
enum ps_rpc_entry ps_rpc_guest_enter(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest);
/** The caller has gone: true if it waited, and then it has a place and is to be read at last. */
bool ps_rpc_guest_give_up(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest);
/** The request is whole, or will never be. Before its handler. */
void ps_rpc_guest_arrived(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest);
/** After it: who has waited and is to be read now, or NULL. */
struct ps_rpc_guest *ps_rpc_guest_next(struct ps_rpc_listener *listener, enum ps_traffic traffic);
/** A stream has arrived: READ, BUSY or NOMEM. */
enum ps_rpc_entry ps_rpc_guest_open(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest);
/** Its first message. */
void ps_rpc_guest_spoke(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest);
/** All is said but for `n_bytes` that the peer has yet to take. */
void ps_rpc_guest_leave(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest,
                        size_t n_bytes);
void ps_rpc_guest_left(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest);
/** `n_bytes` that are copied for the peer go to gRPC; false: peers leave too much untaken. */
PS_MUST_CHECK bool ps_rpc_guest_give(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest,
                                     size_t n_bytes);
/** They have left. Whatever is not said to have left does so with the guest. */
void ps_rpc_guest_took(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest,
                       size_t n_bytes);
/** Cancel whatever has had its time. On the control queue's thread, now and then. */
void ps_rpc_guard_sweep(struct ps_rpc *rpc);

/* ---- rpc_stray.c ---- */

/** Wait for one more call of a method that nobody registered, to answer it UNIMPLEMENTED. */
void ps_rpc_stray_arm(struct ps_rpc_listener *listener);

/* ---- rpc_call.c ---- */

/** Take the call that has arrived in `slot` and read its request. False without memory. */
bool ps_rpc_call_begin(struct ps_rpc_slot *slot);
/** Free the finished calls that were kept. */
void ps_rpc_calls_free(struct ps_rpc_listener *listener);
const struct ps_msg *ps_rpc_call_request(struct ps_call *base);
struct ps_msg *ps_rpc_call_take_request(struct ps_call *base);
const struct ps_context *ps_rpc_call_context(struct ps_call *base);
bool ps_rpc_call_gone(struct ps_call *call);
uint32_t ps_rpc_call_time_left_ms(struct ps_call *base);
void ps_rpc_call_retry_after(struct ps_call *base, uint32_t retry_ms);
void ps_rpc_call_finish(struct ps_call *base, enum ps_status status, const struct ps_out *out,
                        const char *reason);

/* ---- rpc_stream.c ---- */

/** Take the call that has arrived in `slot` as a stream. False without memory. */
bool ps_rpc_stream_begin(struct ps_rpc_slot *slot);
struct ps_stream *ps_rpc_stream_open(struct ps_channel *base, const char *method,
                                     const struct ps_stream_events *events, void *arg);
void ps_rpc_stream_start(struct ps_stream *base, const struct ps_stream_events *events, void *arg);
enum ps_status ps_rpc_stream_send(struct ps_stream *base, const struct ps_out *out);
void ps_rpc_stream_close(struct ps_stream *base, enum ps_status status);
void ps_rpc_stream_release(struct ps_stream *base);

#endif
