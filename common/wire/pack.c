/* pack.c — see pack.h. */
#include "wire/pack.h"

#include "base/limits.h"

size_t ps_wire_pack(const ProtobufCMessage *message, uint8_t *to, size_t n_room, bool *ret_fits)
{
    *ret_fits = protobuf_c_message_get_packed_size(message) <= n_room;
    return *ret_fits ? protobuf_c_message_pack(message, to) : 0;
}

static void *take(void *mem, size_t n_bytes)
{
    return ps_mem_alloc(mem, PS_MEM_CALLS, n_bytes);
}

/* A block remembers its budget, so freeing needs none. */
static void give_back(void *mem PS_UNUSED, void *ptr)
{
    ps_mem_free(ptr);
}

ProtobufCMessage *ps_wire_unpack(const ProtobufCMessageDescriptor *type,
                                 const struct ps_slice *slices, size_t n_slices, struct ps_mem *mem)
{
    ProtobufCAllocator allocator = {.alloc = take, .free = give_back, .allocator_data = mem};
    struct ps_cursor c = ps_cursor_over(slices, n_slices);
    size_t n_bytes = c.n_left;
    if (n_bytes > PS_MESSAGE_BYTES_MAX) {
        return NULL;
    }
    const uint8_t *run = NULL;
    struct ps_cursor first = c;
    if (ps_cursor_run(&first, n_bytes, &run) == n_bytes) { /* One piece, or nothing at all. */
        return protobuf_c_message_unpack(type, &allocator, n_bytes, run);
    }
    uint8_t *flat = ps_mem_alloc(mem, PS_MEM_CALLS, n_bytes);
    if (flat == NULL) {
        return NULL;
    }
    ps_cursor_copy(&c, flat, n_bytes);
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, n_bytes, flat);
    ps_mem_free(flat);
    return message;
}

void ps_wire_unpacked_free(ProtobufCMessage *message)
{
    if (message != NULL) {
        ProtobufCAllocator allocator = {.alloc = take, .free = give_back};
        protobuf_c_message_free_unpacked(message, &allocator);
    }
}
