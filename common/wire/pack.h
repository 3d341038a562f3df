#ifndef PS_COMMON_WIRE_PACK_H
#define PS_COMMON_WIRE_PACK_H
/*
 * wire/pack.h — the cold messages (proto/ps/v1/coordinator.proto) to and from bytes.
 *
 * protobuf-c does the work; its memory comes from a budget (class CALLS), and what a peer may
 * send is bounded. The hot messages have wire/data_msg.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/mem.h"
#include "base/slice.h"

/** Pack into `to` [n_room]. @return bytes written; false in `*ret_fits` and 0 when too long */
size_t ps_wire_pack(const ProtobufCMessage *message, uint8_t *to, size_t n_room, bool *ret_fits);

/**
 * Read a message of at most PS_MESSAGE_BYTES_MAX; free it with ps_wire_unpacked_free.
 * @return NULL: too long, damaged, or no memory
 */
ProtobufCMessage *ps_wire_unpack(const ProtobufCMessageDescriptor *type,
                                 const struct ps_slice *slices, size_t n_slices,
                                 struct ps_mem *mem);

/** NULL does nothing. */
void ps_wire_unpacked_free(ProtobufCMessage *message);

#endif
