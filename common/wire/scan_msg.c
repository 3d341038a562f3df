/* scan_msg.c — see scan_msg.h. Field numbers are those of proto/ps/v1/parameter_server.proto. */
#include "wire/scan_msg.h"

#include "wire/pb.h"

enum request_field {
    REQUEST_SESSION = 1,
    REQUEST_SESSION_NUMBER = 2,
    REQUEST_TABLE = 3,
    REQUEST_SLOT = 4,
    REQUEST_EPOCH = 5,
    REQUEST_CURSOR = 6,
    REQUEST_MAX_BYTES = 7,
    REQUEST_SKIP_ZEROS = 8,
    REQUEST_GENERATION = 9,
    REQUEST_SEEN_EPOCH = 10,
    REQUEST_SEEN_POSITION = 11
};

enum reply_field {
    REPLY_STATUS = 1,
    REPLY_TERM = 2,
    REPLY_MIN_CLOCK = 3,
    REPLY_RETRY_MS = 4,
    REPLY_EPOCH = 5,
    REPLY_POSITION = 6,
    REPLY_CURSOR = 7,
    REPLY_DONE = 8,
    REPLY_KEYS = 9,
    REPLY_KEY_BYTES = 10,
    REPLY_PAYLOAD = 15
};

static enum ps_status damaged(struct ps_error *err, const char *what)
{
    return ps_fail(err, PS_ERR_INVALID, "malformed message: %s", what);
}

static bool take_u32(const struct ps_pb_field *f, uint32_t *ret)
{
    *ret = (uint32_t)f->value;
    return f->wire == PS_PB_VARINT && f->value <= UINT32_MAX;
}

static bool take_u64(const struct ps_pb_field *f, uint64_t *ret)
{
    *ret = f->value;
    return f->wire == PS_PB_VARINT;
}

static bool take_bool(const struct ps_pb_field *f, bool *ret)
{
    *ret = f->value != 0;
    return f->wire == PS_PB_VARINT;
}

/* ---- Requests ------------------------------------------------------------------------------- */

size_t ps_scan_request_write(const struct ps_scan_request *request, uint8_t *to, size_t n_room)
{
    struct ps_pb_writer w = {.to = to, .n_room = n_room};
    ps_pb_put_bytes(&w, REQUEST_SESSION, request->session.bytes, sizeof(request->session.bytes));
    ps_pb_put_uint(&w, REQUEST_SESSION_NUMBER, request->session_number);
    ps_pb_put_uint(&w, REQUEST_TABLE, request->table);
    ps_pb_put_uint(&w, REQUEST_SLOT, request->slot);
    ps_pb_put_uint(&w, REQUEST_EPOCH, request->epoch);
    ps_pb_put_uint(&w, REQUEST_CURSOR, request->cursor);
    ps_pb_put_uint(&w, REQUEST_MAX_BYTES, request->max_bytes);
    ps_pb_put_uint(&w, REQUEST_SKIP_ZEROS, request->skip_zeros ? 1 : 0);
    ps_pb_put_uint(&w, REQUEST_GENERATION, request->generation);
    ps_pb_put_uint(&w, REQUEST_SEEN_EPOCH, request->seen_epoch);
    ps_pb_put_uint(&w, REQUEST_SEEN_POSITION, request->seen_position);
    return w.full ? 0 : w.n_used;
}

static bool take_session(const struct ps_pb_field *f, struct ps_id *ret)
{
    struct ps_cursor bytes = f->bytes;
    if (f->wire != PS_PB_BYTES || bytes.n_left != sizeof(ret->bytes)) {
        return false;
    }
    ps_cursor_copy(&bytes, ret->bytes, sizeof(ret->bytes));
    return true;
}

/* False: of the wrong type. Unknown fields are of a newer peer. */
static bool read_request_field(const struct ps_pb_field *f, struct ps_scan_request *ret)
{
    switch (f->number) {
    case REQUEST_SESSION: return take_session(f, &ret->session);
    case REQUEST_SESSION_NUMBER: return take_u64(f, &ret->session_number);
    case REQUEST_TABLE: return take_u32(f, &ret->table);
    case REQUEST_SLOT: return take_u32(f, &ret->slot);
    case REQUEST_EPOCH: return take_u64(f, &ret->epoch);
    case REQUEST_CURSOR: return take_u64(f, &ret->cursor);
    case REQUEST_MAX_BYTES: return take_u32(f, &ret->max_bytes);
    case REQUEST_SKIP_ZEROS: return take_bool(f, &ret->skip_zeros);
    case REQUEST_GENERATION: return take_u64(f, &ret->generation);
    case REQUEST_SEEN_EPOCH: return take_u64(f, &ret->seen_epoch);
    case REQUEST_SEEN_POSITION: return take_u64(f, &ret->seen_position);
    default: return true;
    }
}

enum ps_status ps_scan_request_read(struct ps_cursor message, struct ps_scan_request *ret,
                                    struct ps_error *err)
{
    struct ps_pb_field f;
    *ret = (struct ps_scan_request){0};
    while (ps_pb_next(&message, &f)) {
        if (!read_request_field(&f, ret)) {
            return damaged(err, f.number == REQUEST_SESSION ? "a session id has 16 bytes"
                                                            : "a field of a scan");
        }
    }
    return message.failed ? damaged(err, "a field runs past the end") : PS_OK;
}

/* ---- Replies -------------------------------------------------------------------------------- */

size_t ps_scan_reply_write(const struct ps_scan_reply *reply, uint8_t *to, size_t n_room)
{
    struct ps_pb_writer w = {.to = to, .n_room = n_room};
    ps_pb_put_uint(&w, REPLY_STATUS, reply->status);
    ps_pb_put_uint(&w, REPLY_TERM, reply->term);
    ps_pb_put_uint(&w, REPLY_MIN_CLOCK, reply->min_clock);
    ps_pb_put_uint(&w, REPLY_RETRY_MS, reply->retry_ms);
    ps_pb_put_uint(&w, REPLY_EPOCH, reply->epoch);
    ps_pb_put_uint(&w, REPLY_POSITION, reply->position);
    ps_pb_put_uint(&w, REPLY_CURSOR, reply->cursor);
    ps_pb_put_uint(&w, REPLY_DONE, reply->done ? 1 : 0);
    ps_pb_put_uint(&w, REPLY_KEYS, reply->n_keys);
    ps_pb_put_uint(&w, REPLY_KEY_BYTES, reply->n_key_bytes);
    if (reply->n_payload_bytes != 0) {
        ps_pb_put_header(&w, REPLY_PAYLOAD, reply->n_payload_bytes);
    }
    return w.full ? 0 : w.n_used;
}

static bool take_status(const struct ps_pb_field *f, enum ps_status *ret)
{
    *ret = ps_status_from_wire(f->value > UINT32_MAX ? UINT32_MAX : (unsigned)f->value);
    return f->wire == PS_PB_VARINT;
}

static bool read_reply_field(const struct ps_pb_field *f, struct ps_scan_reply *ret)
{
    switch (f->number) {
    case REPLY_STATUS: return take_status(f, &ret->status);
    case REPLY_TERM: return take_u64(f, &ret->term);
    case REPLY_MIN_CLOCK: return take_u64(f, &ret->min_clock);
    case REPLY_RETRY_MS: return take_u32(f, &ret->retry_ms);
    case REPLY_EPOCH: return take_u64(f, &ret->epoch);
    case REPLY_POSITION: return take_u64(f, &ret->position);
    case REPLY_CURSOR: return take_u64(f, &ret->cursor);
    case REPLY_DONE: return take_bool(f, &ret->done);
    case REPLY_KEYS: return take_u32(f, &ret->n_keys);
    case REPLY_KEY_BYTES: return take_u32(f, &ret->n_key_bytes);
    case REPLY_PAYLOAD: /* proto3: the last one counts. */
        ret->payload = f->bytes;
        ret->n_payload_bytes = f->bytes.n_left;
        return f->wire == PS_PB_BYTES;
    default: return true;
    }
}

enum ps_status ps_scan_reply_read(struct ps_cursor message, struct ps_scan_reply *ret,
                                  struct ps_error *err)
{
    struct ps_pb_field f;
    *ret = (struct ps_scan_reply){0};
    while (ps_pb_next(&message, &f)) {
        if (!read_reply_field(&f, ret)) {
            return damaged(err, "a field of a scan's reply");
        }
    }
    if (message.failed) {
        return damaged(err, "a field runs past the end");
    }
    return ret->n_key_bytes <= ret->n_payload_bytes
               ? PS_OK
               : damaged(err, "keys run past the end of the payload");
}
