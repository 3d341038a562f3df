#ifndef PS_COMMON_WIRE_PB_H
#define PS_COMMON_WIRE_PB_H
/*
 * wire/pb.h — the few pieces of the protobuf encoding that the hot messages need.
 *
 * A writer over a fixed buffer that stays full once it ran out, and the walk over the fields of a
 * message. Source: the Protocol Buffers encoding guide; proto3, so zero values are not written.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum ps_pb_wire {
    PS_PB_VARINT = 0,
    PS_PB_FIXED64 = 1,
    PS_PB_BYTES = 2,
    PS_PB_FIXED32 = 5
};

struct ps_pb_writer {
    uint8_t *to;
    size_t n_room;
    size_t n_used;
    bool full; /* Something did not fit: the content is worthless. */
};

size_t ps_pb_varint_bytes(uint64_t value);

/** Bytes that ps_pb_put_uint would take: 0 for value 0. */
size_t ps_pb_uint_bytes(uint32_t field, uint64_t value);

void ps_pb_put_uint(struct ps_pb_writer *w, uint32_t field, uint64_t value);
void ps_pb_put_float(struct ps_pb_writer *w, uint32_t field, float value);
void ps_pb_put_bytes(struct ps_pb_writer *w, uint32_t field, const void *data, size_t n_bytes);

/** Tag and length of a bytes field whose content follows. */
void ps_pb_put_header(struct ps_pb_writer *w, uint32_t field, uint64_t n_bytes);

/** One field as met by the walk. */
struct ps_pb_field {
    uint32_t number;
    enum ps_pb_wire wire;
    uint64_t value;         /* VARINT, FIXED32, FIXED64. */
    struct ps_cursor bytes; /* BYTES: the content, borrowed. */
};

/**
 * Step to the next field of `c`. False at the end and on damage; then c->failed tells which.
 * Groups and reserved wire types count as damage.
 */
bool ps_pb_next(struct ps_cursor *c, struct ps_pb_field *ret);

#endif
