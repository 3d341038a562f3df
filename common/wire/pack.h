#ifndef PS_COMMON_WIRE_PACK_H
#define PS_COMMON_WIRE_PACK_H
/*
 * wire/pack.h — the cold messages (proto/ps/v1/coordinator.proto) to and from bytes.
 *
 * protobuf-c does the work; its memory comes from a budget (class CALLS), and what a peer may
 * send is bounded: by length, and by what it becomes in memory. Fields that this build does not
 * know are dropped. The hot messages have wire/data_msg.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include <ps/status.h>

#include "base/mem.h"
#include "base/slice.h"

/**
 * What a message of `n_bytes` may take in memory; the heap's own costs are an eighth on top. Fields
 * of ours take up to four times their bytes, lists of small parts more: the least is for the
 * longest of these (a cluster described with all its members and tables).
 */
#define PS_WIRE_BUDGET(n_bytes) (4 * (size_t)(n_bytes) + PS_WIRE_BUDGET_LEAST)
#define PS_WIRE_BUDGET_LEAST    ((size_t)256 << 10)

/** Pack into `to` [n_room]. @return bytes written; false in `*ret_fits` and 0 when too long */
size_t ps_wire_pack(const ProtobufCMessage *message, uint8_t *to, size_t n_room, bool *ret_fits);

/**
 * Read a message of at most PS_MESSAGE_BYTES_MAX; free it with ps_wire_unpacked_free.
 * @return NULL: too long, damaged, too large in memory, or no memory
 */
ProtobufCMessage *ps_wire_unpack(const ProtobufCMessageDescriptor *type,
                                 const struct ps_slice *slices, size_t n_slices,
                                 struct ps_mem *mem);

/**
 * As above, for whoever answers the sender: with NULL `*ret_why` is PS_ERR_NOMEM when it is worth
 * asking again, else PS_ERR_CORRUPT.
 */
ProtobufCMessage *ps_wire_unpack_why(const ProtobufCMessageDescriptor *type,
                                     const struct ps_slice *slices, size_t n_slices,
                                     struct ps_mem *mem, enum ps_status *ret_why);

/** A copy of its own, for a part of a message that is to outlive it. NULL without memory. */
ProtobufCMessage *ps_wire_copy(const ProtobufCMessage *message, struct ps_mem *mem);

/** The whole message, never a part of one. NULL does nothing. */
void ps_wire_unpacked_free(ProtobufCMessage *message);

#endif
