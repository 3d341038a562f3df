/* pb.c — see pb.h. */
#include "wire/pb.h"

#include <string.h>

#define FIELD_MAX 0x1fffffffu

size_t ps_pb_varint_bytes(uint64_t value)
{
    size_t n = 1;
    for (; value > 127; value >>= 7) {
        n++;
    }
    return n;
}

size_t ps_pb_uint_bytes(uint32_t field, uint64_t value)
{
    return value == 0 ? 0 : ps_pb_varint_bytes((uint64_t)field << 3) + ps_pb_varint_bytes(value);
}

static void put(struct ps_pb_writer *w, const void *data, size_t n_bytes)
{
    if (w->full || n_bytes > w->n_room - w->n_used) {
        w->full = true;
        return;
    }
    memcpy(w->to + w->n_used, data, n_bytes);
    w->n_used += n_bytes;
}

static void put_varint(struct ps_pb_writer *w, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value > 127; value >>= 7) {
        bytes[n++] = (uint8_t)(value | 0x80u);
    }
    bytes[n++] = (uint8_t)value;
    put(w, bytes, n);
}

static void put_tag(struct ps_pb_writer *w, uint32_t field, enum ps_pb_wire wire)
{
    put_varint(w, (uint64_t)field << 3 | (uint64_t)wire);
}

void ps_pb_put_uint(struct ps_pb_writer *w, uint32_t field, uint64_t value)
{
    if (value != 0) {
        put_tag(w, field, PS_PB_VARINT);
        put_varint(w, value);
    }
}

void ps_pb_put_float(struct ps_pb_writer *w, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (bits != 0) {
        put_tag(w, field, PS_PB_FIXED32);
        put(w, &bits, sizeof(bits));
    }
}

void ps_pb_put_header(struct ps_pb_writer *w, uint32_t field, uint64_t n_bytes)
{
    put_tag(w, field, PS_PB_BYTES);
    put_varint(w, n_bytes);
}

void ps_pb_put_bytes(struct ps_pb_writer *w, uint32_t field, const void *data, size_t n_bytes)
{
    if (n_bytes != 0) {
        ps_pb_put_header(w, field, n_bytes);
        put(w, data, n_bytes);
    }
}

bool ps_pb_next(struct ps_cursor *c, struct ps_pb_field *ret)
{
    if (c->n_left == 0) {
        return false;
    }
    uint64_t tag = ps_cursor_varint(c);
    uint64_t number = tag >> 3;
    *ret = (struct ps_pb_field){.number = (uint32_t)number};
    if (c->failed || number == 0 || number > FIELD_MAX) {
        c->failed = true;
        return false;
    }
    uint8_t fixed[8] = {0};
    switch (tag & 7u) {
    case PS_PB_VARINT:
        ret->wire = PS_PB_VARINT;
        ret->value = ps_cursor_varint(c);
        break;
    case PS_PB_FIXED32:
        ret->wire = PS_PB_FIXED32;
        ps_cursor_copy(c, fixed, 4);
        memcpy(&ret->value, fixed, sizeof(ret->value));
        break;
    case PS_PB_FIXED64:
        ret->wire = PS_PB_FIXED64;
        ps_cursor_copy(c, fixed, 8);
        memcpy(&ret->value, fixed, sizeof(ret->value));
        break;
    case PS_PB_BYTES: {
        ret->wire = PS_PB_BYTES;
        uint64_t n_bytes = ps_cursor_varint(c);
        ret->bytes = ps_cursor_split(c, (size_t)n_bytes);
        break;
    }
    default: c->failed = true; break;
    }
    return !c->failed;
}
