/* rpc_channel.c — connections of the client side, see rpc_impl.h. */
#include <string.h>

#include <grpc/grpc_security.h>

#include "base/assert.h"
#include "rpc/rpc_impl.h"

#define INTEGER_ARG(name, number)                                                      \
    {                                                                                  \
        .type = GRPC_ARG_INTEGER, .key = key_of(name), .value = {.integer = (number) } \
    }

/* gRPC's keys are literals that it only reads. */
static char *key_of(const char *name)
{
    union {
        const char *given;
        char *wanted;
    } key = {.given = name};
    return key.wanted;
}

static grpc_channel *dial(const char *target, const struct ps_rpc_options *options)
{
    int n_bytes_max = (int)options->n_message_bytes_max;
    grpc_arg args[] = {
        INTEGER_ARG(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), /* A connection of its own. */
        INTEGER_ARG(GRPC_ARG_ENABLE_HTTP_PROXY, 0),         /* Else obeyed even for loopback. */
        INTEGER_ARG(GRPC_ARG_ENABLE_RETRIES, 0),            /* Ours know what may be repeated. */
        INTEGER_ARG(GRPC_ARG_ENABLE_CHANNELZ, 0),
        INTEGER_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, n_bytes_max),
        INTEGER_ARG(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, PS_RPC_FRAME_BYTES),
        INTEGER_ARG(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1), /* None. */
        INTEGER_ARG(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        INTEGER_ARG(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
        INTEGER_ARG(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000), /* Means: of one attempt. */
        INTEGER_ARG(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500),
        INTEGER_ARG(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000), /* Pods move. */
        INTEGER_ARG(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, 2500), /* Else 2 min without a word. */
        INTEGER_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, (int)options->keepalive_ms),
        INTEGER_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, (int)options->ping_answer_ms),
        INTEGER_ARG(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        INTEGER_ARG(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0), /* No bound. */
    };
    grpc_channel_args all = {.num_args = PS_ARRAY_LEN(args), .args = args};
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    sigset_t before;
    ps_rpc_signals_block(&before);
    grpc_channel *channel = grpc_channel_create(target, creds, &all);
    ps_rpc_signals_restore(&before);
    grpc_channel_credentials_release(creds);
    return channel;
}

static grpc_completion_queue *queue_for(struct ps_rpc *rpc, enum ps_traffic traffic)
{
    if (traffic == PS_TRAFFIC_CONTROL) {
        return rpc->io[0].cq;
    }
    uint32_t turn = atomic_fetch_add_explicit(&rpc->next_data, 1, memory_order_relaxed);
    return rpc->queues[1 + turn % (rpc->n_queues - 1)].cq;
}

enum ps_status ps_rpc_channel_open(struct ps_transport *transport, const char *address,
                                   enum ps_traffic traffic, const struct ps_creds *creds,
                                   struct ps_channel **ret, struct ps_error *err)
{
    struct ps_rpc *rpc = PS_CONTAINER_OF(transport, struct ps_rpc, base);
    PS_ASSERT(creds == NULL || creds->kind == PS_CREDS_INSECURE);
    enum ps_status status = ps_rpc_address_check(address, PS_RPC_TO_DIAL, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "cannot dial '%.100s'", address);
    }
    struct ps_rpc_channel *channel = ps_mem_alloc(rpc->options.mem, PS_MEM_OTHER, sizeof(*channel));
    if (channel == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a channel");
    }
    char target[PS_ADDRESS_BYTES_MAX + 8];
    ps_rpc_address_target(address, target, sizeof(target));
    channel->base.transport = transport;
    channel->rpc = rpc;
    channel->cq = queue_for(rpc, traffic);
    channel->grpc = dial(target, &rpc->options);
    (void)atomic_fetch_add(&rpc->n_open, 1);
    *ret = &channel->base;
    return PS_OK;
}

void ps_rpc_channel_close(struct ps_channel *base)
{
    struct ps_rpc_channel *channel = PS_CONTAINER_OF(base, struct ps_rpc_channel, base);
    PS_ASSERT(atomic_load(&channel->n_users) == 0);
    grpc_channel_destroy(channel->grpc);
    (void)atomic_fetch_sub(&channel->rpc->n_open, 1);
    ps_mem_free(channel);
}
