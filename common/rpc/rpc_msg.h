#ifndef PS_COMMON_RPC_RPC_MSG_H
#define PS_COMMON_RPC_RPC_MSG_H
/*
 * rpc/rpc_msg.h — messages as gRPC wants them and as the port shows them, without copying bytes.
 */
#include <pthread.h>

#include <grpc/byte_buffer.h>

#include "base/mem.h"
#include "port/transport.h"

/** Bytes on the wire. */
size_t ps_rpc_out_bytes(const struct ps_out *out);

/**
 * What gRPC has been lent, over all messages of one ps_rpc. gRPC may let go of a piece long after
 * the call, even after its own shutdown, on any thread.
 */
struct ps_rpc_lender {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t n_loans; /* Messages with pieces that have not all come back. */
};

void ps_rpc_lender_init(struct ps_rpc_lender *lender);

/** Wait until everything has come back; asserts that it does within some seconds. */
void ps_rpc_lender_deinit(struct ps_rpc_lender *lender);

/** Copy the head, lend the pieces: their `done` runs when gRPC lets go. NULL: an empty message. */
grpc_byte_buffer *ps_rpc_out_pack(struct ps_rpc_lender *lender, const struct ps_out *out);

/** Not sent at all: run `done` of every piece. NULL does nothing. */
void ps_rpc_out_drop(const struct ps_out *out);

/**
 * Received as it is? A peer may compress although we never say that we can read it, and what it
 * compressed arrives as it was sent.
 */
bool ps_rpc_msg_plain(const grpc_byte_buffer *buffer);

/**
 * A message that owns `buffer` and shows its slices; one reference. NULL without memory, and then
 * the buffer is destroyed.
 */
struct ps_msg *ps_rpc_msg_create(struct ps_mem *mem, grpc_byte_buffer *buffer);

#endif
