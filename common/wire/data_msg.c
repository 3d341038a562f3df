/*
 * data_msg.c — see data_msg.h. Field numbers are those of proto/ps/v1/parameter_server.proto.
 */
#include "wire/data_msg.h"

#include <string.h>

#include "wire/pb.h"

enum field {
    FIELD_SESSION = 1,
    FIELD_SESSION_NUMBER = 2,
    FIELD_STREAM = 3,
    FIELD_SEQUENCE = 4,
    FIELD_ACKED_BELOW = 5,
    FIELD_STEP = 6,
    FIELD_ROWS = 7,
    FIELD_RATE = 8,
    FIELD_GENERATION = 9,
    FIELD_READ_CLOCK = 10,
    FIELD_PUSH_SLOTS = 11,
    FIELD_PULL_STEP = 12,
    FIELD_NO_CLOCK = 13,
    FIELD_PULL_SLOTS = 14,
    FIELD_PAYLOAD = 15
};

enum reply_field {
    REPLY_SLOTS = 1,
    REPLY_TERM = 2,
    REPLY_MIN_CLOCK = 3,
    REPLY_RETRY_MS = 4,
    REPLY_PULL_SLOTS = 5
};

/* ---- Writing -------------------------------------------------------------------------------- */

static size_t part_bytes(const struct ps_part *part)
{
    return ps_pb_uint_bytes(1, part->table) + ps_pb_uint_bytes(2, part->block) +
           ps_pb_uint_bytes(3, part->dtype) + ps_pb_uint_bytes(4, part->codec) +
           ps_pb_uint_bytes(5, part->n_bytes) + ps_pb_uint_bytes(6, part->n_keys) +
           ps_pb_uint_bytes(7, part->n_key_bytes);
}

static void put_part(struct ps_pb_writer *w, uint32_t field, const struct ps_part *part)
{
    ps_pb_put_header(w, field, part_bytes(part));
    ps_pb_put_uint(w, 1, part->table);
    ps_pb_put_uint(w, 2, part->block);
    ps_pb_put_uint(w, 3, part->dtype);
    ps_pb_put_uint(w, 4, part->codec);
    ps_pb_put_uint(w, 5, part->n_bytes);
    ps_pb_put_uint(w, 6, part->n_keys);
    ps_pb_put_uint(w, 7, part->n_key_bytes);
}

/* SlotPush and SlotPull differ only in the numbers of their later fields. */
struct slot_fields {
    uint32_t fragment; /* 0: the message has none. */
    uint32_t n_fragments;
    uint32_t seen_epoch;
    uint32_t seen_position;
    uint32_t parts;
};

static const struct slot_fields push_fields = {3, 4, 5, 6, 7};
static const struct slot_fields pull_fields = {0, 0, 3, 4, 5};

static void put_slots(struct ps_pb_writer *w, uint32_t field, const struct ps_share *share,
                      const struct slot_fields *f)
{
    for (uint32_t i = 0; i < share->n_slots; i++) {
        const struct ps_slot_part *slot = &share->slots[i];
        bool fragments = f->fragment != 0;
        size_t n_bytes = ps_pb_uint_bytes(1, slot->slot) + ps_pb_uint_bytes(2, slot->epoch) +
                         ps_pb_uint_bytes(f->seen_epoch, slot->seen_epoch) +
                         ps_pb_uint_bytes(f->seen_position, slot->seen_position);
        if (fragments) {
            n_bytes += ps_pb_uint_bytes(f->fragment, slot->fragment) +
                       ps_pb_uint_bytes(f->n_fragments, slot->n_fragments);
        }
        for (uint32_t p = 0; p < slot->n_parts; p++) {
            size_t n_part = part_bytes(&share->parts[slot->first_part + p]);
            n_bytes += 1 + ps_pb_varint_bytes(n_part) + n_part;
        }
        ps_pb_put_header(w, field, n_bytes);
        ps_pb_put_uint(w, 1, slot->slot);
        ps_pb_put_uint(w, 2, slot->epoch);
        if (fragments) {
            ps_pb_put_uint(w, f->fragment, slot->fragment);
            ps_pb_put_uint(w, f->n_fragments, slot->n_fragments);
        }
        ps_pb_put_uint(w, f->seen_epoch, slot->seen_epoch);
        ps_pb_put_uint(w, f->seen_position, slot->seen_position);
        for (uint32_t p = 0; p < slot->n_parts; p++) {
            put_part(w, f->parts, &share->parts[slot->first_part + p]);
        }
    }
}

size_t ps_data_request_write(const struct ps_data_request *request, uint8_t *to, size_t n_room)
{
    struct ps_pb_writer w = {.to = to, .n_room = n_room};
    ps_pb_put_bytes(&w, FIELD_SESSION, request->session.bytes, sizeof(request->session.bytes));
    ps_pb_put_uint(&w, FIELD_SESSION_NUMBER, request->session_number);
    ps_pb_put_uint(&w, FIELD_STREAM, request->stream);
    ps_pb_put_uint(&w, FIELD_SEQUENCE, request->sequence);
    ps_pb_put_uint(&w, FIELD_ACKED_BELOW, request->acked_below);
    ps_pb_put_uint(&w, FIELD_STEP, request->step);
    ps_pb_put_uint(&w, FIELD_ROWS, request->rows);
    ps_pb_put_float(&w, FIELD_RATE, request->rate);
    ps_pb_put_uint(&w, FIELD_GENERATION, request->generation);
    ps_pb_put_uint(&w, FIELD_READ_CLOCK, request->read_clock);
    put_slots(&w, FIELD_PUSH_SLOTS, &request->push, &push_fields);
    ps_pb_put_uint(&w, FIELD_PULL_STEP, request->pull_step);
    ps_pb_put_uint(&w, FIELD_NO_CLOCK, request->no_clock ? 1 : 0);
    put_slots(&w, FIELD_PULL_SLOTS, &request->pull, &pull_fields);
    if (request->n_payload_bytes != 0) {
        ps_pb_put_header(&w, FIELD_PAYLOAD, request->n_payload_bytes);
    }
    return w.full ? 0 : w.n_used;
}

static void put_slot_replies(struct ps_pb_writer *w, uint32_t field,
                             const struct ps_slot_reply *replies, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct ps_slot_reply *r = &replies[i];
        ps_pb_put_header(w, field,
                         ps_pb_uint_bytes(1, r->slot) + ps_pb_uint_bytes(2, r->status) +
                             ps_pb_uint_bytes(3, r->epoch) + ps_pb_uint_bytes(4, r->position) +
                             ps_pb_uint_bytes(5, r->n_bytes));
        ps_pb_put_uint(w, 1, r->slot);
        ps_pb_put_uint(w, 2, r->status);
        ps_pb_put_uint(w, 3, r->epoch);
        ps_pb_put_uint(w, 4, r->position);
        ps_pb_put_uint(w, 5, r->n_bytes);
    }
}

size_t ps_data_reply_write(const struct ps_data_reply *reply, enum ps_data_kind kind, uint8_t *to,
                           size_t n_room)
{
    struct ps_pb_writer w = {.to = to, .n_room = n_room};
    put_slot_replies(&w, REPLY_SLOTS, reply->push, reply->n_push);
    ps_pb_put_uint(&w, REPLY_TERM, reply->term);
    ps_pb_put_uint(&w, REPLY_MIN_CLOCK, reply->min_clock);
    ps_pb_put_uint(&w, REPLY_RETRY_MS, reply->retry_ms);
    if (kind != PS_DATA_PUSH) {
        put_slot_replies(&w, REPLY_PULL_SLOTS, reply->pull, reply->n_pull);
        if (reply->n_payload_bytes != 0) {
            ps_pb_put_header(&w, FIELD_PAYLOAD, reply->n_payload_bytes);
        }
    }
    return w.full ? 0 : w.n_used;
}

/* ---- Reading -------------------------------------------------------------------------------- */

static enum ps_status damaged(struct ps_error *err, const char *what)
{
    return ps_fail(err, PS_ERR_INVALID, "malformed message: %s", what);
}

static bool fits_u32(const struct ps_pb_field *f)
{
    return f->wire == PS_PB_VARINT && f->value <= UINT32_MAX;
}

static bool read_part(struct ps_cursor c, struct ps_part *ret)
{
    struct ps_pb_field f;
    *ret = (struct ps_part){0};
    uint32_t *const fields[] = {NULL,        &ret->table,   &ret->block,  &ret->dtype,
                                &ret->codec, &ret->n_bytes, &ret->n_keys, &ret->n_key_bytes};
    while (ps_pb_next(&c, &f)) {
        if (f.number < PS_ARRAY_LEN(fields)) {
            if (!fits_u32(&f)) {
                return false;
            }
            *fields[f.number] = (uint32_t)f.value;
        }
    }
    return !c.failed;
}

/* One field of a slot that is no part; false: of the wrong type. Unknown ones are skipped. */
static bool read_slot_field(const struct ps_pb_field *f, const struct slot_fields *numbers,
                            struct ps_slot_part *slot)
{
    if (f->number == 1) {
        slot->slot = (uint32_t)f->value;
        return fits_u32(f);
    }
    if (f->number == 2) {
        slot->epoch = f->value;
        return f->wire == PS_PB_VARINT;
    }
    if (f->number == numbers->fragment) {
        slot->fragment = (uint32_t)f->value;
        return fits_u32(f);
    }
    if (f->number == numbers->n_fragments) {
        slot->n_fragments = (uint32_t)f->value;
        return fits_u32(f);
    }
    if (f->number == numbers->seen_epoch) {
        slot->seen_epoch = f->value;
        return f->wire == PS_PB_VARINT;
    }
    if (f->number == numbers->seen_position) {
        slot->seen_position = f->value;
        return f->wire == PS_PB_VARINT;
    }
    return true;
}

static enum ps_status read_slot(struct ps_cursor c, const struct slot_fields *numbers,
                                struct ps_share *share, struct ps_error *err)
{
    if (share->n_slots == PS_CALL_SLOTS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "more than %u slots in one call", PS_CALL_SLOTS_MAX);
    }
    struct ps_slot_part slot = {.first_part = share->n_parts, .n_fragments = 1};
    struct ps_pb_field f;
    while (ps_pb_next(&c, &f)) {
        if (f.number != numbers->parts) {
            if (!read_slot_field(&f, numbers, &slot)) {
                return damaged(err, "a field of a slot");
            }
            continue;
        }
        if (share->n_parts == PS_CALL_PARTS_MAX) {
            return ps_fail(err, PS_ERR_INVALID, "more than %u blocks in one call",
                           PS_CALL_PARTS_MAX);
        }
        if (f.wire != PS_PB_BYTES || !read_part(f.bytes, &share->parts[share->n_parts])) {
            return damaged(err, "a part of a slot");
        }
        share->n_parts++;
        slot.n_parts++;
    }
    if (c.failed) {
        return damaged(err, "a slot");
    }
    share->slots[share->n_slots++] = slot;
    return PS_OK;
}

/* The numbers of a request that are plain integers, by field. NULL: not one of them. */
static uint64_t *wide_field(struct ps_data_request *request, uint32_t number)
{
    switch (number) {
    case FIELD_SESSION_NUMBER: return &request->session_number;
    case FIELD_STREAM: return &request->stream;
    case FIELD_SEQUENCE: return &request->sequence;
    case FIELD_ACKED_BELOW: return &request->acked_below;
    case FIELD_STEP: return &request->step;
    case FIELD_GENERATION: return &request->generation;
    case FIELD_READ_CLOCK: return &request->read_clock;
    case FIELD_PULL_STEP: return &request->pull_step;
    default: return NULL;
    }
}

static enum ps_status read_request_field(const struct ps_pb_field *f, struct ps_data_request *ret,
                                         struct ps_error *err)
{
    uint64_t *wide = wide_field(ret, f->number);
    if (wide != NULL) {
        *wide = f->value;
        return f->wire == PS_PB_VARINT ? PS_OK : damaged(err, "a number has the wrong type");
    }
    switch (f->number) {
    case FIELD_SESSION: {
        struct ps_cursor bytes = f->bytes;
        if (f->wire != PS_PB_BYTES || bytes.n_left != sizeof(ret->session.bytes)) {
            return damaged(err, "a session id has 16 bytes");
        }
        ps_cursor_copy(&bytes, ret->session.bytes, sizeof(ret->session.bytes));
        return PS_OK;
    }
    case FIELD_ROWS:
        ret->rows = (uint32_t)f->value;
        return fits_u32(f) ? PS_OK : damaged(err, "rows");
    case FIELD_NO_CLOCK:
        ret->no_clock = f->value != 0;
        return f->wire == PS_PB_VARINT ? PS_OK : damaged(err, "no_clock");
    case FIELD_RATE: {
        uint32_t bits = (uint32_t)f->value;
        memcpy(&ret->rate, &bits, sizeof(bits));
        return f->wire == PS_PB_FIXED32 ? PS_OK : damaged(err, "rate");
    }
    case FIELD_PUSH_SLOTS:
        return f->wire == PS_PB_BYTES ? read_slot(f->bytes, &push_fields, &ret->push, err)
                                      : damaged(err, "slots");
    case FIELD_PULL_SLOTS:
        return f->wire == PS_PB_BYTES ? read_slot(f->bytes, &pull_fields, &ret->pull, err)
                                      : damaged(err, "pull_slots");
    case FIELD_PAYLOAD: /* proto3: the last one counts. */
        ret->payload = f->bytes;
        ret->n_payload_bytes = f->bytes.n_left;
        return f->wire == PS_PB_BYTES ? PS_OK : damaged(err, "payload");
    default: return PS_OK; /* Of a newer peer. */
    }
}

/* A clean slate without touching the big arrays. */
static void clear_request(struct ps_data_request *request)
{
    request->session = (struct ps_id){{0}};
    for (uint32_t number = 0; number <= FIELD_PAYLOAD; number++) {
        uint64_t *wide = wide_field(request, number);
        if (wide != NULL) {
            *wide = 0;
        }
    }
    request->rows = 0;
    request->rate = 0.0f;
    request->no_clock = false;
    request->push.n_slots = 0;
    request->push.n_parts = 0;
    request->pull.n_slots = 0;
    request->pull.n_parts = 0;
    request->n_payload_bytes = 0;
    request->payload = (struct ps_cursor){0};
}

enum ps_status ps_data_request_read(struct ps_cursor message, struct ps_data_request *ret,
                                    struct ps_error *err)
{
    struct ps_pb_field f;
    clear_request(ret);
    while (ps_pb_next(&message, &f)) {
        enum ps_status status = read_request_field(&f, ret, err);
        if (status != PS_OK) {
            return status;
        }
    }
    if (message.failed) {
        return damaged(err, "a field runs past the end");
    }
    uint64_t n_parts_bytes = 0; /* 1024 times 32 bits: no wrap. */
    for (uint32_t i = 0; i < ret->push.n_parts; i++) {
        n_parts_bytes += ps_part_payload(&ret->push.parts[i], true);
    }
    for (uint32_t i = 0; i < ret->pull.n_parts; i++) {
        n_parts_bytes += ps_part_payload(&ret->pull.parts[i], false);
    }
    if (n_parts_bytes != ret->n_payload_bytes) {
        return ps_fail(err, PS_ERR_INVALID,
                       "malformed message: parts of %llu bytes, payload of %llu",
                       (unsigned long long)n_parts_bytes, (unsigned long long)ret->n_payload_bytes);
    }
    return PS_OK;
}

static bool read_slot_reply(struct ps_cursor c, struct ps_slot_reply *ret)
{
    struct ps_pb_field f;
    *ret = (struct ps_slot_reply){0};
    while (ps_pb_next(&c, &f)) {
        if (f.number > 5) {
            continue;
        }
        if (f.wire != PS_PB_VARINT) {
            return false;
        }
        switch (f.number) {
        case 1: ret->slot = (uint32_t)f.value; break;
        case 2:
            ret->status =
                ps_status_from_wire(f.value > UINT32_MAX ? UINT32_MAX : (unsigned)f.value);
            break;
        case 3: ret->epoch = f.value; break;
        case 4: ret->position = f.value; break;
        default: ret->n_bytes = (uint32_t)f.value; break;
        }
    }
    return !c.failed && ret->slot < PS_SLOTS;
}

static enum ps_status read_reply_field(const struct ps_pb_field *f, struct ps_data_reply *ret,
                                       struct ps_error *err)
{
    bool push = f->number == REPLY_SLOTS;
    switch (f->number) {
    case REPLY_SLOTS:
    case REPLY_PULL_SLOTS: {
        uint32_t *n = push ? &ret->n_push : &ret->n_pull;
        struct ps_slot_reply *to = push ? ret->push : ret->pull;
        if (f->wire != PS_PB_BYTES || *n == PS_CALL_SLOTS_MAX ||
            !read_slot_reply(f->bytes, &to[*n])) {
            return damaged(err, "a slot of a reply");
        }
        (*n)++;
        return PS_OK;
    }
    case REPLY_TERM: ret->term = f->value; return PS_OK;
    case REPLY_MIN_CLOCK: ret->min_clock = f->value; return PS_OK;
    case REPLY_RETRY_MS: ret->retry_ms = (uint32_t)f->value; return PS_OK;
    case FIELD_PAYLOAD:
        ret->payload = f->bytes;
        ret->n_payload_bytes = f->bytes.n_left;
        return f->wire == PS_PB_BYTES ? PS_OK : damaged(err, "payload of a reply");
    default: return PS_OK;
    }
}

enum ps_status ps_data_reply_read(struct ps_cursor message, struct ps_data_reply *ret,
                                  struct ps_error *err)
{
    struct ps_pb_field f;
    ret->term = 0;
    ret->min_clock = 0;
    ret->retry_ms = 0;
    ret->n_push = 0;
    ret->n_pull = 0;
    ret->n_payload_bytes = 0;
    ret->payload = (struct ps_cursor){0};
    while (ps_pb_next(&message, &f)) {
        enum ps_status status = read_reply_field(&f, ret, err);
        if (status != PS_OK) {
            return status;
        }
    }
    if (message.failed) {
        return damaged(err, "a field runs past the end");
    }
    uint64_t n_slots_bytes = 0;
    for (uint32_t i = 0; i < ret->n_pull; i++) {
        n_slots_bytes += ret->pull[i].n_bytes;
    }
    return n_slots_bytes == ret->n_payload_bytes ? PS_OK
                                                 : damaged(err, "slots and payload disagree");
}
