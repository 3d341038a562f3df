#ifndef PS_COMMON_WIRE_DATA_MSG_H
#define PS_COMMON_WIRE_DATA_MSG_H
/*
 * wire/data_msg.h — the hot messages (Pull, Push, PushPull and their replies) as plain structs.
 *
 * Written as a header that ends with tag and length of the payload, behind which the caller lays
 * borrowed bytes; read by a scan that borrows the payload wherever it stands in the message. On
 * the wire they are the ordinary proto3 messages of proto/ps/v1/parameter_server.proto: unknown
 * fields are skipped, any order of fields is accepted. Pure; nothing allocates.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/slice.h"

#define PS_METHOD_PULL      "/ps.v1.ParameterServer/Pull"
#define PS_METHOD_PUSH      "/ps.v1.ParameterServer/Push"
#define PS_METHOD_PUSH_PULL "/ps.v1.ParameterServer/PushPull"

#define PS_CODEC_RAW 0u

/** One block of a dense table, or rows of a sparse one. */
struct ps_part {
    uint32_t table;
    uint32_t block;
    uint32_t dtype; /* enum ps_dtype as on the wire. */
    uint32_t codec;
    uint32_t n_bytes; /* In the payload, keys included; pulls: 0. */
    uint32_t n_keys;  /* 0: a block. */
    uint32_t n_key_bytes;
};

/** What a part of a request takes in the payload. */
static inline uint32_t ps_part_payload(const struct ps_part *part, bool push)
{
    return push ? part->n_bytes : part->n_key_bytes;
}

/** One slot's share of a call; its parts are a run in the call's array of parts. */
struct ps_slot_part {
    uint32_t slot;
    uint32_t fragment;
    uint32_t n_fragments;
    uint32_t first_part;
    uint32_t n_parts;
    uint64_t epoch;
    uint64_t seen_epoch;
    uint64_t seen_position;
};

/** Slots and parts of one direction. */
struct ps_share {
    uint32_t n_slots;
    uint32_t n_parts;
    struct ps_slot_part slots[PS_CALL_SLOTS_MAX];
    struct ps_part parts[PS_CALL_PARTS_MAX];
};

/** A request of any of the three methods; unused fields are 0. About 30 KiB: keep off the stack. */
struct ps_data_request {
    struct ps_id session;
    uint64_t session_number;
    uint64_t stream;
    uint64_t sequence;
    uint64_t acked_below;
    uint64_t step;
    uint32_t rows;
    float rate;
    uint64_t generation;
    uint64_t read_clock;
    uint64_t pull_step;
    bool no_clock;
    struct ps_share push;
    struct ps_share pull;
    uint64_t n_payload_bytes; /* To write: announced length. Read: what `payload` holds. */
    struct ps_cursor payload; /* Read only: borrowed from the message. */
};

struct ps_slot_reply {
    uint32_t slot;
    enum ps_status status;
    uint64_t epoch;
    uint64_t position;
    uint32_t n_bytes;
};

/** A reply of any of the three methods. */
struct ps_data_reply {
    uint64_t term;
    uint64_t min_clock;
    uint32_t retry_ms;
    uint32_t n_push; /* Slots of `push`. */
    uint32_t n_pull;
    struct ps_slot_reply push[PS_CALL_SLOTS_MAX];
    struct ps_slot_reply pull[PS_CALL_SLOTS_MAX];
    uint64_t n_payload_bytes;
    struct ps_cursor payload;
};

enum ps_data_kind {
    PS_DATA_PULL,
    PS_DATA_PUSH,
    PS_DATA_PUSH_PULL
};

/**
 * Write everything but the payload bytes; the last bytes written are tag and length of the
 * payload (omitted when n_payload_bytes is 0).
 *
 * @return bytes written, at most PS_HEAD_BYTES_MAX; 0 when `n_room` is too small
 */
size_t ps_data_request_write(const struct ps_data_request *request, uint8_t *to, size_t n_room);

/**
 * Read a request. Foreign bytes: bounds of slots, parts and lengths are checked, sums of part
 * lengths against the payload too (pushes, then keys of pulls); whether tables and slots exist, and
 * what the keys are, is the caller's to check.
 *
 * @return PS_ERR_INVALID with words, and `*ret` in an unspecified state
 */
PS_MUST_CHECK enum ps_status
ps_data_request_read(struct ps_cursor message, struct ps_data_request *ret, struct ps_error *err);

/** As for requests. `kind` PUSH writes a PushReply, the others a PullReply. */
size_t ps_data_reply_write(const struct ps_data_reply *reply, enum ps_data_kind kind, uint8_t *to,
                           size_t n_room);

/** Read a PushReply or PullReply; slots of pulls are those of field 5. */
PS_MUST_CHECK enum ps_status ps_data_reply_read(struct ps_cursor message, struct ps_data_reply *ret,
                                                struct ps_error *err);

#endif
