/*
 * pack.c — see pack.h.
 *
 * An unpacked message lives in an arena of its own:
 *
 *     first chunk:  struct arena | the message | its parts ...     more chunks: parts ...
 *     apart:        what is large, one block each: protobuf-c gives most of it back on the way
 *
 * protobuf-c allocates part by part, and a block of the heap costs 128 bytes even for two bytes of
 * wire: 4 MiB of empty sub-messages would become 300 MB. In an arena they cost what they are, and
 * its budget ends it.
 */
#include "wire/pack.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/list.h"

#define ALIGN_BYTES 8u
#define LARGE_BYTES \
    1024u /* From here on a block of its own: the reader's lists are of this kind. */
#define CHUNK_LEAST 1024u /* Most messages fit; later chunks are as large as all before. */

struct chunk {
    struct ps_list node;
    size_t n_room;
    size_t n_used;
    max_align_t data[];
};

struct arena {
    struct ps_mem *mem;
    size_t n_left; /* Of the budget. */
    size_t n_used; /* In chunks. */
    bool starved;  /* It was the heap that had no more, not the budget of the message. */
    struct ps_list chunks;
    struct ps_list large;
};

struct large {
    struct ps_list node;
    size_t n_bytes;
    max_align_t data[];
};

size_t ps_wire_pack(const ProtobufCMessage *message, uint8_t *to, size_t n_room, bool *ret_fits)
{
    *ret_fits = protobuf_c_message_get_packed_size(message) <= n_room;
    return *ret_fits ? protobuf_c_message_pack(message, to) : 0;
}

/* ---- The arena ------------------------------------------------------------------------------ */

static struct chunk *add_chunk(struct ps_mem *mem, struct ps_list *chunks, size_t n_room)
{
    struct chunk *chunk = ps_mem_alloc(mem, PS_MEM_CALLS, sizeof(*chunk) + n_room);
    if (chunk != NULL) {
        chunk->n_room = n_room;
        ps_list_init(&chunk->node);
        ps_list_append(chunks, &chunk->node);
    }
    return chunk;
}

static void *take_from(struct chunk *chunk, size_t n_bytes)
{
    void *at = (uint8_t *)chunk->data + chunk->n_used;
    chunk->n_used += n_bytes;
    return at;
}

static void *take_large(struct arena *arena, size_t n_bytes)
{
    struct large *large = ps_mem_alloc(arena->mem, PS_MEM_CALLS, sizeof(*large) + n_bytes);
    if (large == NULL) {
        arena->starved = true;
        return NULL;
    }
    large->n_bytes = n_bytes;
    ps_list_init(&large->node);
    ps_list_append(&arena->large, &large->node);
    arena->n_left -= n_bytes;
    return large->data;
}

static void *take_small(struct arena *arena, size_t n_bytes)
{
    struct chunk *last = PS_CONTAINER_OF(arena->chunks.prev, struct chunk, node);
    if (last->n_room - last->n_used < n_bytes) {
        size_t n_room = arena->n_used > CHUNK_LEAST ? arena->n_used : CHUNK_LEAST;
        n_room = n_room < arena->n_left ? n_room : arena->n_left;
        last = add_chunk(arena->mem, &arena->chunks, n_room);
        if (last == NULL) {
            arena->starved = true;
            return NULL;
        }
    }
    arena->n_left -= n_bytes;
    arena->n_used += n_bytes;
    return take_from(last, n_bytes);
}

static void *take(void *arg, size_t n_bytes)
{
    struct arena *arena = arg;
    if (n_bytes > arena->n_left) {
        return NULL;
    }
    size_t n_aligned = (n_bytes + ALIGN_BYTES) & ~(size_t)(ALIGN_BYTES - 1); /* Never nothing. */
    if (n_aligned > arena->n_left) {
        return NULL;
    }
    return n_aligned >= LARGE_BYTES ? take_large(arena, n_aligned) : take_small(arena, n_aligned);
}

/* Only large blocks are worth giving back before the whole. */
static void give_back(void *arg, void *ptr)
{
    struct arena *arena = arg;
    ps_list_for_each (node, &arena->large) {
        struct large *large = PS_CONTAINER_OF(node, struct large, node);
        if ((void *)large->data == ptr) {
            arena->n_left += large->n_bytes;
            ps_list_remove(&large->node);
            ps_mem_free(large);
            return;
        }
    }
}

static struct arena *open_arena(struct ps_mem *mem, size_t n_budget)
{
    struct ps_list chunks;
    ps_list_init(&chunks);
    struct chunk *first = add_chunk(mem, &chunks, sizeof(struct arena) + CHUNK_LEAST);
    if (first == NULL) {
        return NULL;
    }
    ps_list_remove(&first->node);
    struct arena *arena = take_from(first, sizeof(*arena));
    *arena = (struct arena){.mem = mem, .n_left = n_budget};
    ps_list_init(&arena->chunks);
    ps_list_init(&arena->large);
    ps_list_append(&arena->chunks, &first->node);
    return arena;
}

static void close_arena(struct arena *arena)
{
    ps_list_for_each_safe (node, after, &arena->large) {
        ps_mem_free(PS_CONTAINER_OF(node, struct large, node));
    }
    struct chunk *first = PS_CONTAINER_OF(arena->chunks.next, struct chunk, node);
    ps_list_for_each_safe (node, after, &arena->chunks) {
        struct chunk *chunk = PS_CONTAINER_OF(node, struct chunk, node);
        if (chunk != first) {
            ps_mem_free(chunk);
        }
    }
    ps_mem_free(first); /* The arena lies in it. */
}

/* ---- Reading -------------------------------------------------------------------------------- */

/*
 * Nobody reads the fields of a newer peer, and packed again they would go to everybody. As deep as
 * our messages are; none of them contains itself.
 */
/* NOLINTNEXTLINE(misc-no-recursion) */
static void forget_unknown(ProtobufCMessage *message)
{
    message->n_unknown_fields = 0;
    message->unknown_fields = NULL;
    const ProtobufCMessageDescriptor *type = message->descriptor;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
            continue;
        }
        void *at = (uint8_t *)message + field->offset;
        const uint8_t *quantifier = (const uint8_t *)message + field->quantifier_offset;
        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
            *(const uint32_t *)(const void *)quantifier != field->id) {
            continue;
        }
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(const size_t *)(const void *)quantifier;
            for (size_t k = 0; k < n; k++) {
                forget_unknown((*(ProtobufCMessage ***)at)[k]);
            }
        } else if (*(ProtobufCMessage **)at != NULL) {
            forget_unknown(*(ProtobufCMessage **)at);
        }
    }
}

static ProtobufCMessage *unpack_flat(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                     size_t n_bytes, struct ps_mem *mem, enum ps_status *ret_why)
{
    struct arena *arena = open_arena(mem, PS_WIRE_BUDGET(n_bytes));
    *ret_why = PS_ERR_NOMEM;
    if (arena == NULL) {
        return NULL;
    }
    ProtobufCAllocator allocator = {.alloc = take, .free = give_back, .allocator_data = arena};
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, n_bytes, bytes);
    if (message == NULL) {
        *ret_why = arena->starved ? PS_ERR_NOMEM : PS_ERR_CORRUPT;
        close_arena(arena);
        return NULL;
    }
    *ret_why = PS_OK;
    forget_unknown(message);
    /* protobuf-c asks for the message itself first: so it leads back to its arena. */
    PS_ASSERT((void *)message == (void *)(arena + 1));
    return message;
}

ProtobufCMessage *ps_wire_unpack_why(const ProtobufCMessageDescriptor *type,
                                     const struct ps_slice *slices, size_t n_slices,
                                     struct ps_mem *mem, enum ps_status *ret_why)
{
    struct ps_cursor c = ps_cursor_over(slices, n_slices);
    size_t n_bytes = c.n_left;
    *ret_why = PS_ERR_CORRUPT;
    if (n_bytes > PS_MESSAGE_BYTES_MAX) {
        return NULL;
    }
    const uint8_t *run = NULL;
    struct ps_cursor first = c;
    if (ps_cursor_run(&first, n_bytes, &run) == n_bytes) { /* One piece, or nothing at all. */
        return unpack_flat(type, run, n_bytes, mem, ret_why);
    }
    uint8_t *flat = ps_mem_alloc(mem, PS_MEM_CALLS, n_bytes);
    if (flat == NULL) {
        *ret_why = PS_ERR_NOMEM;
        return NULL;
    }
    ps_cursor_copy(&c, flat, n_bytes);
    ProtobufCMessage *message = unpack_flat(type, flat, n_bytes, mem, ret_why);
    ps_mem_free(flat);
    return message;
}

ProtobufCMessage *ps_wire_unpack(const ProtobufCMessageDescriptor *type,
                                 const struct ps_slice *slices, size_t n_slices, struct ps_mem *mem)
{
    enum ps_status why;
    return ps_wire_unpack_why(type, slices, n_slices, mem, &why);
}

ProtobufCMessage *ps_wire_copy(const ProtobufCMessage *message, struct ps_mem *mem)
{
    size_t n_bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *flat = ps_mem_alloc(mem, PS_MEM_CALLS, n_bytes);
    if (flat == NULL) {
        return NULL;
    }
    (void)protobuf_c_message_pack(message, flat);
    enum ps_status why;
    ProtobufCMessage *copy = unpack_flat(message->descriptor, flat, n_bytes, mem, &why);
    ps_mem_free(flat);
    return copy;
}

void ps_wire_unpacked_free(ProtobufCMessage *message)
{
    if (message != NULL) {
        close_arena((struct arena *)(void *)message - 1);
    }
}
