/*
 * rpc_refusal.c — see rpc_refusal.h. Source of the messages: google/rpc/status.proto,
 * google/rpc/error_details.proto, google/protobuf/{any,duration}.proto; written by hand because
 * they are five small messages that never change.
 */
#include "rpc/rpc_refusal.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "rpc/rpc_meta.h"
#include "wire/pb.h"

#define TYPE_ERROR_INFO "type.googleapis.com/google.rpc.ErrorInfo"
#define TYPE_RETRY_INFO "type.googleapis.com/google.rpc.RetryInfo"
#define DOMAIN          "ps"
#define PART_BYTES      256 /* Of one detail: names and numbers only. */

const char *ps_rpc_refusal_name(enum ps_status status)
{
    static const char *const names[] = {
#define X(name, wire, grpc, retry, text) [PS_##name] = #name,
        PS_STATUS_MAP(X)
#undef X
    };
    const char *name = "ERR_INTERNAL";
    if ((size_t)status < PS_ARRAY_LEN(names) && names[status] != NULL) {
        name = names[status];
    }
    return strncmp(name, "ERR_", 4) == 0 ? name + 4 : name;
}

static void put_text(struct ps_pb_writer *w, uint32_t field, const char *text)
{
    ps_pb_put_bytes(w, field, text, strlen(text));
}

/* message Any { string type_url = 1; bytes value = 2; } as field 3 of Status */
static void put_detail(struct ps_pb_writer *w, const char *type, const struct ps_pb_writer *value)
{
    uint8_t bytes[PART_BYTES];
    struct ps_pb_writer any = {.to = bytes, .n_room = sizeof(bytes)};
    put_text(&any, 1, type);
    ps_pb_put_bytes(&any, 2, value->to, value->n_used);
    PS_ASSERT(!any.full && !value->full);
    ps_pb_put_bytes(w, 3, bytes, any.n_used);
}

/* message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; } */
static void put_error_info(struct ps_pb_writer *w, enum ps_status status)
{
    char number[16];
    uint8_t pair_bytes[PART_BYTES];
    uint8_t info_bytes[PART_BYTES];
    struct ps_pb_writer pair = {.to = pair_bytes, .n_room = sizeof(pair_bytes)};
    struct ps_pb_writer info = {.to = info_bytes, .n_room = sizeof(info_bytes)};
    (void)snprintf(number, sizeof(number), "%d", (int)status);
    put_text(&pair, 1, "status");
    put_text(&pair, 2, number);
    put_text(&info, 1, ps_rpc_refusal_name(status));
    put_text(&info, 2, DOMAIN);
    ps_pb_put_bytes(&info, 3, pair_bytes, pair.n_used);
    put_detail(w, TYPE_ERROR_INFO, &info);
}

/* message RetryInfo { Duration retry_delay = 1; }, message Duration { int64 seconds = 1; int32
 * nanos = 2; } */
static void put_retry_info(struct ps_pb_writer *w, uint32_t retry_ms)
{
    uint8_t duration_bytes[32];
    uint8_t info_bytes[PART_BYTES];
    struct ps_pb_writer duration = {.to = duration_bytes, .n_room = sizeof(duration_bytes)};
    struct ps_pb_writer info = {.to = info_bytes, .n_room = sizeof(info_bytes)};
    ps_pb_put_uint(&duration, 1, retry_ms / 1000);
    ps_pb_put_uint(&duration, 2, (uint64_t)(retry_ms % 1000) * 1000000);
    ps_pb_put_bytes(&info, 1, duration_bytes, duration.n_used);
    put_detail(w, TYPE_RETRY_INFO, &info);
}

/* How many bytes a character that begins so has; 0: none begins so. */
static size_t character_bytes(uint8_t first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first < 0xf5) {
        return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    }
    return 0;
}

/*
 * Words may quote what a peer sent, and a `string` that is not UTF-8 makes receivers refuse the
 * whole message: what is no character becomes '?'.
 */
static size_t copy_utf8(char *to, size_t n_room, const char *text)
{
    size_t n_used = 0;
    size_t n_left = strnlen(text, n_room);
    while (n_left > 0) {
        size_t n = character_bytes((uint8_t)*text);
        bool whole = n > 0 && n <= n_left;
        for (size_t i = 1; whole && i < n; i++) {
            whole = ((uint8_t)text[i] & 0xc0u) == 0x80u;
        }
        n = whole ? n : 1;
        memcpy(to + n_used, whole ? text : "?", n);
        n_used += n;
        text += n;
        n_left -= n;
    }
    return n_used;
}

size_t ps_rpc_refusal_details(uint8_t *to, enum ps_status status, const char *words,
                              uint32_t retry_ms)
{
    char text[PS_RPC_REASON_BYTES_MAX];
    struct ps_pb_writer w = {.to = to, .n_room = PS_RPC_DETAILS_BYTES_MAX};
    size_t n_text = copy_utf8(text, sizeof(text), words);
    ps_pb_put_uint(&w, 1, (uint64_t)ps_status_grpc(status));
    ps_pb_put_bytes(&w, 2, text, n_text);
    put_error_info(&w, status);
    if (retry_ms != 0) {
        put_retry_info(&w, retry_ms);
    }
    PS_ASSERT(!w.full);
    return w.n_used;
}

void ps_rpc_refusal_make(struct ps_rpc_refusal *ret, enum ps_status status, const char *reason,
                         uint32_t retry_ms)
{
    uint8_t details[PS_RPC_DETAILS_BYTES_MAX];
    size_t n_details = ps_rpc_refusal_details(
        details, status, reason != NULL ? reason : ps_status_text(status), retry_ms);
    memset(ret, 0, sizeof(*ret));
    ret->words = ps_rpc_meta_reason(status, reason);
    ret->pairs[ret->n_pairs++] = ps_rpc_meta_number("ps-status", (uint64_t)status);
    grpc_metadata *pair = &ret->pairs[ret->n_pairs++];
    pair->key = grpc_slice_from_static_string("grpc-status-details-bin");
    pair->value = grpc_slice_from_copied_buffer((const char *)details, n_details);
    if (retry_ms != 0) {
        ret->pairs[ret->n_pairs++] = ps_rpc_meta_number("grpc-retry-pushback-ms", retry_ms);
    }
}

void ps_rpc_refusal_drop(struct ps_rpc_refusal *refusal)
{
    if (refusal->n_pairs > 0) {
        ps_rpc_meta_drop(refusal->pairs, refusal->n_pairs);
        grpc_slice_unref(refusal->words);
        refusal->n_pairs = 0;
    }
}

void ps_rpc_refusal_fill(struct ps_rpc_refusal *refusal, enum ps_status status, grpc_op *op)
{
    op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    op->data.send_status_from_server.status = (grpc_status_code)ps_status_grpc(status);
    op->data.send_status_from_server.trailing_metadata_count = refusal->n_pairs;
    op->data.send_status_from_server.trailing_metadata = refusal->pairs;
    op->data.send_status_from_server.status_details = &refusal->words;
}
