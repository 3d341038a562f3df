#ifndef PS_COMMON_RPC_RPC_REFUSAL_H
#define PS_COMMON_RPC_RPC_REFUSAL_H
/*
 * rpc/rpc_refusal.h — an answer that is not OK, for people and for programs that know nothing of
 * this project.
 *
 *   grpc-message              words
 *   ps-status                 number of enum ps_status
 *   grpc-status-details-bin   google.rpc.Status with ErrorInfo {reason "BUSY", domain "ps",
 *                             metadata {"status": "4"}}, and RetryInfo when there is a hint
 *   grpc-retry-pushback-ms    the same hint, for gRPC's own retries
 */
#include <grpc/grpc.h>

#include "port/transport.h"

#define PS_RPC_REFUSAL_PAIRS_MAX 3
#define PS_RPC_DETAILS_BYTES_MAX 1536u /* Words twice would be too much for 8 KiB of metadata. */

struct ps_rpc_refusal {
    grpc_metadata pairs[PS_RPC_REFUSAL_PAIRS_MAX];
    size_t n_pairs;
    grpc_slice words;
};

/** `reason` NULL: the status's own text. `retry_ms` 0: no hint. Give it back with drop. */
void ps_rpc_refusal_make(struct ps_rpc_refusal *ret, enum ps_status status, const char *reason,
                         uint32_t retry_ms);
void ps_rpc_refusal_drop(struct ps_rpc_refusal *refusal);

/** Let `op` end a call with it; borrowed until the batch has come back. */
void ps_rpc_refusal_fill(struct ps_rpc_refusal *refusal, enum ps_status status, grpc_op *op);

/** The name of a status without prefix, "BUSY"; "INTERNAL" for one that nobody knows. */
const char *ps_rpc_refusal_name(enum ps_status status);

/**
 * google.rpc.Status as bytes, written to `to` of PS_RPC_DETAILS_BYTES_MAX bytes; @return how many.
 */
size_t ps_rpc_refusal_details(uint8_t *to, enum ps_status status, const char *words,
                              uint32_t retry_ms);

#endif
