#ifndef PS_COMMON_RPC_RPC_META_H
#define PS_COMMON_RPC_RPC_META_H
/*
 * rpc/rpc_meta.h — what travels beside the messages: context of a call, status of its answer.
 *
 *   request   traceparent: 00-<trace>-<span>-01   (W3C), ps-session: N, ps-step: N; only when set
 *   answer    ps-status: N and more               (trailing, only when not OK; rpc_refusal.h)
 *
 * Peers without ps-status (plain gRPC errors, other implementations) are understood by their code.
 */
#include <grpc/grpc.h>
#include <grpc/status.h>

#include "port/transport.h"

#define PS_RPC_META_CONTEXT_MAX 3     /* Pairs that a context may need. */
#define PS_RPC_REASON_BYTES_MAX 1024u /* Well below gRPC's limit of 8 KiB for all metadata. */

/** Write the pairs of `context`; @return how many. Give them back with ps_rpc_meta_drop. */
size_t ps_rpc_meta_from_context(const struct ps_context *context,
                                grpc_metadata pairs[PS_RPC_META_CONTEXT_MAX]);

void ps_rpc_meta_drop(grpc_metadata *pairs, size_t n_pairs);

/** What a peer sent; nonsense is ignored. */
struct ps_context ps_rpc_meta_to_context(const grpc_metadata_array *pairs);

/** A pair with a decimal number; `key` is static. */
grpc_metadata ps_rpc_meta_number(const char *key, uint64_t number);

/** How a call ended, as gRPC tells it. */
struct ps_rpc_end {
    const grpc_metadata_array *trailing;
    grpc_status_code code;
    const grpc_slice *words;
    bool canceled; /* We asked for it; else CANCELLED means that the server dropped the call. */
};

/** What that means. */
enum ps_status ps_rpc_meta_to_status(const struct ps_rpc_end *end);

/** The server's wish not to be asked again within; 0: none. */
uint32_t ps_rpc_meta_to_retry_ms(const grpc_metadata_array *trailing);

/** Is there a ps-status at all? Without one the words are not those of a peer of ours. */
bool ps_rpc_meta_has_status(const grpc_metadata_array *trailing);

/** At most PS_RPC_REASON_BYTES_MAX bytes of `reason`, or the text of the status. */
grpc_slice ps_rpc_meta_reason(enum ps_status status, const char *reason);

#endif
