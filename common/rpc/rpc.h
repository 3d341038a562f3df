#ifndef PS_COMMON_RPC_RPC_H
#define PS_COMMON_RPC_RPC_H
/*
 * rpc/rpc.h — the transport that is real gRPC (C core, HTTP/2), behind port/transport.h.
 *
 * One struct ps_rpc per process is enough for any number of channels and listeners. It has one
 * thread for control traffic and some for data; `done`, handlers and stream callbacks run on the
 * thread of their traffic. Create it after daemonizing and before threads that count on signals:
 * gRPC's own threads have all signals blocked.
 */
#include "base/attr.h"
#include "base/error.h"
#include "base/mem.h"
#include "port/transport.h"

struct ps_rpc;

#define PS_RPC_DATA_QUEUES_MAX  8u
#define PS_RPC_IO_THREADS       2u
#define PS_RPC_CALLS_MAX        4096u /* Default: every session may park one pull per lane. */
#define PS_RPC_READS_MAX        64u   /* Default: 256 MiB of messages half arrived ... */
#define PS_RPC_READS_PER_PEER   16u   /* ... by four connections or more ... */
#define PS_RPC_READS_OWN        2u    /* ... and so many that each connection has in any case. */
#define PS_RPC_WAITING_MAX      4096u /* Calls that wait for such a place; then BUSY. */
#define PS_RPC_OPENING_PER_PEER 64u   /* Streams that say nothing yet. */
#define PS_RPC_UNTAKEN_MAX      (64u << 20) /* Default: copied for peers that have not taken it; */
#define PS_RPC_UNTAKEN_SMALL    (4u << 10)  /* then only messages up to this: 16 MiB more. */

#define PS_RPC_CALLS_PER_PEER 256u /* On one connection: each session parks a pull, one pushes. */
#define PS_RPC_WINDOW_BYTES   (1u << 20) /* Of a message that nobody reads yet. */
#define PS_RPC_FRAME_BYTES    (1u << 20) /* Of HTTP/2: fewer cuts in a payload. */
#define PS_RPC_METADATA_BYTES (8u << 10) /* Beside a message: gRPC's default; ours take 5 KiB. */
#define PS_RPC_HANDSHAKE_MS   5000u      /* A connection that says nothing sensible is closed. */
#define PS_RPC_IDLE_MS        600000u    /* One without calls, too; clients come again unasked. */
#define PS_RPC_KEEPALIVE_MS   10000u     /* After so long without news of the peer: a ping. */
#define PS_RPC_PING_ANSWER_MS 5000u      /* No answer, or no byte taken: the connection is cut. */
#define PS_RPC_PING_MIN_MS    1000u      /* A peer that pings oftener without data is cut. */
#define PS_RPC_LOG_LINES_MAX  10u        /* Of gRPC's complaints, in a second. */
#define PS_RPC_SWEEP_MS       250u       /* How often it is looked who has had his time. */
#define PS_RPC_QUOTA_BYTES_MIN \
    (512ull << 20) /* For gRPC's buffers; less would refuse good calls. */

/** Zero means the default everywhere. */
struct ps_rpc_options {
    struct ps_mem *mem;         /* Outlives the ps_rpc; NULL: not counted. */
    uint32_t n_data_queues;     /* Threads for data; 1 to PS_RPC_DATA_QUEUES_MAX; default 1. */
    size_t n_message_bytes_max; /* Both directions; default PS_MESSAGE_BYTES_MAX. */
    uint32_t n_calls_max; /* Per listener and class of traffic: under way; more wait outside. */
    uint32_t n_reads_max; /* Of these, requests that are just arriving; see PS_RPC_READS_OWN. */
    uint32_t n_reads_per_peer; /* Of these, of one connection; more wait their turn. */
    uint32_t n_untaken_max;    /* Bytes of answers and messages, what is lent not counted. */
    uint32_t passage_ms;       /* Default PS_PASSAGE_MS. */
    uint32_t crowded_ms;       /* Default PS_PASSAGE_CROWDED_MS. */
    uint32_t keepalive_ms;     /* Default PS_RPC_KEEPALIVE_MS. */
    uint32_t ping_answer_ms;   /* Default PS_RPC_PING_ANSWER_MS. */
    /**
     * What gRPC may hold for the peers of all listeners, received bytes that are still in use
     * included; beyond it connections and calls are dropped. Default: half of the machine's memory,
     * at least PS_RPC_QUOTA_BYTES_MIN.
     */
    uint64_t n_quota_bytes;
};

PS_MUST_CHECK enum ps_status ps_rpc_create(const struct ps_rpc_options *options,
                                           struct ps_rpc **ret, struct ps_error *err);

/** All channels and listeners have been closed. Blocks until gRPC is gone. NULL does nothing. */
void ps_rpc_destroy(struct ps_rpc *rpc);

struct ps_transport *ps_rpc_transport(struct ps_rpc *rpc);

enum ps_rpc_address_use {
    PS_RPC_TO_LISTEN,    /* Port 0 picks one; 0.0.0.0 and [::] are every address. */
    PS_RPC_TO_ADVERTISE, /* What others shall dial; port 0 is the one that is served. */
    PS_RPC_TO_DIAL
};

/**
 * Is it host:port, [ipv6]:port or unix:/path, and fit for its use? Asks nobody. The message says
 * what to write instead; the address itself is for the caller to add.
 */
PS_MUST_CHECK enum ps_status ps_rpc_address_check(const char *address, enum ps_rpc_address_use use,
                                                  struct ps_error *err);

/** 0.0.0.0:port or [::]:port, which nobody else could dial. */
bool ps_rpc_address_is_any(const char *address);

#endif
