#ifndef PS_COMMON_RPC_RPC_META_H
#define PS_COMMON_RPC_RPC_META_H
/*
 * rpc/rpc_meta.h — what travels beside the messages: context of a call, status of its answer.
 *
 *   request   traceparent: 00-<trace>-<span>-01   (W3C), ps-session: N, ps-step: N; only when set
 *   answer    ps-status: N                        (trailing, only when not OK)
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

/** The ps-status pair. */
grpc_metadata ps_rpc_meta_from_status(enum ps_status status);

/**
 * The status of an answer with gRPC code `code`. `canceled`: we asked for it; a code CANCELLED
 * that nobody here asked for means that the server dropped the call.
 */
enum ps_status ps_rpc_meta_to_status(const grpc_metadata_array *trailing, grpc_status_code code,
                                     bool canceled);

/** At most PS_RPC_REASON_BYTES_MAX bytes of `reason`, or the text of the status. */
grpc_slice ps_rpc_meta_reason(enum ps_status status, const char *reason);

#endif
