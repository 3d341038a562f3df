#ifndef PS_COMMON_WIRE_SCAN_MSG_H
#define PS_COMMON_WIRE_SCAN_MSG_H
/*
 * wire/scan_msg.h — Scan and its reply, as data_msg does Pull and Push: a head is written, behind
 * which the caller lays borrowed bytes; reading borrows the payload. Pure; nothing allocates.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/slice.h"
#include "wire/keys.h"

#define PS_METHOD_SCAN "/ps.v1.ParameterServer/Scan"

#define PS_SCAN_HEAD_BYTES_MAX 128u /* Of either: a session of 18 bytes, ten numbers of 11. */

struct ps_scan_request {
    struct ps_id session;
    uint64_t session_number;
    uint32_t table;
    uint32_t slot;
    uint64_t epoch;
    uint64_t cursor;
    uint32_t max_bytes; /* 0: the server's preset. */
    bool skip_zeros;
    uint64_t generation;
    uint64_t seen_epoch;
    uint64_t seen_position;
};

struct ps_scan_reply {
    enum ps_status status;
    uint64_t term;
    uint64_t min_clock;
    uint32_t retry_ms;
    uint64_t epoch;
    uint64_t position;
    uint64_t cursor;
    bool done;
    uint32_t n_keys;
    uint32_t n_key_bytes;
    uint64_t n_payload_bytes; /* To write: announced length. Read: what `payload` holds. */
    struct ps_cursor payload; /* Read only: borrowed from the message. */
};

/** What a row of a table takes in a payload at most. */
static inline uint32_t ps_scan_row_bytes(uint32_t width)
{
    return PS_KEY_BYTES_MAX + width * (uint32_t)sizeof(float);
}

/** Write the whole request. @return bytes, at most PS_SCAN_HEAD_BYTES_MAX; 0: `n_room` too small */
size_t ps_scan_request_write(const struct ps_scan_request *request, uint8_t *to, size_t n_room);

/**
 * Read a request. Foreign bytes: any are fine; whether table and slot exist is the caller's to
 * check.
 * @return PS_ERR_INVALID with words, and `*ret` in an unspecified state
 */
PS_MUST_CHECK enum ps_status
ps_scan_request_read(struct ps_cursor message, struct ps_scan_request *ret, struct ps_error *err);

/** Write all but the payload's bytes; tag and length of it come last, if it has any. */
size_t ps_scan_reply_write(const struct ps_scan_reply *reply, uint8_t *to, size_t n_room);

/** As for requests; what the keys are is the caller's to check, and how long values must be. */
PS_MUST_CHECK enum ps_status ps_scan_reply_read(struct ps_cursor message, struct ps_scan_reply *ret,
                                                struct ps_error *err);

#endif
