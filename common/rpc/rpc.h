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

#define PS_RPC_DATA_QUEUES_MAX 8u
#define PS_RPC_CALLS_MAX       4096u /* Default: every session may park one pull per lane. */
#define PS_RPC_READS_MAX       64u   /* Default: at most 256 MiB of messages half arrived. */

/** Zero means the default everywhere. */
struct ps_rpc_options {
    struct ps_mem *mem;         /* Outlives the ps_rpc; NULL: not counted. */
    uint32_t n_data_queues;     /* Threads for data; 1 to PS_RPC_DATA_QUEUES_MAX; default 1. */
    size_t n_message_bytes_max; /* Both directions; default PS_MESSAGE_BYTES_MAX. */
    uint32_t n_calls_max; /* Per listener and class of traffic: under way; more wait outside. */
    uint32_t n_reads_max; /* Of these, requests that are just arriving. */
};

PS_MUST_CHECK enum ps_status ps_rpc_create(const struct ps_rpc_options *options,
                                           struct ps_rpc **ret, struct ps_error *err);

/** All channels and listeners have been closed. Blocks until gRPC is gone. NULL does nothing. */
void ps_rpc_destroy(struct ps_rpc *rpc);

struct ps_transport *ps_rpc_transport(struct ps_rpc *rpc);

#endif
