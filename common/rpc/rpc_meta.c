/* rpc_meta.c — see rpc_meta.h. */
#include "rpc/rpc_meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <grpc/slice.h>

#include "base/assert.h"

#define TRACEPARENT_BYTES 55 /* "00-" 32 digits "-" 16 digits "-01". */
#define TRACE_OFFSET      3

static grpc_slice number_slice(uint64_t number)
{
    char text[24];
    int n_bytes = snprintf(text, sizeof(text), "%" PRIu64, number);
    return grpc_slice_from_copied_buffer(text, (size_t)n_bytes);
}

static grpc_metadata pair(const char *key, grpc_slice value)
{
    grpc_metadata metadata;
    memset(&metadata, 0, sizeof(metadata));
    metadata.key = grpc_slice_from_static_string(key);
    metadata.value = value;
    return metadata;
}

static grpc_slice traceparent(const struct ps_context *context)
{
    char trace[PS_ID_TEXT_BYTES];
    char text[TRACEPARENT_BYTES + 1];
    ps_id_text(&context->trace, trace);
    /* The span of the caller: it need only be neither zero nor the same for every step. */
    (void)snprintf(text, sizeof(text), "00-%s-%016" PRIx64 "-01", trace,
                   context->step == UINT64_MAX ? 1 : context->step + 1);
    return grpc_slice_from_copied_buffer(text, TRACEPARENT_BYTES);
}

size_t ps_rpc_meta_from_context(const struct ps_context *context,
                                grpc_metadata pairs[PS_RPC_META_CONTEXT_MAX])
{
    size_t n_pairs = 0;
    if (!ps_id_none(&context->trace)) {
        pairs[n_pairs++] = pair("traceparent", traceparent(context));
    }
    if (context->session != 0) {
        pairs[n_pairs++] = pair("ps-session", number_slice(context->session));
    }
    if (context->step != 0) {
        pairs[n_pairs++] = pair("ps-step", number_slice(context->step));
    }
    return n_pairs;
}

void ps_rpc_meta_drop(grpc_metadata *pairs, size_t n_pairs)
{
    for (size_t i = 0; i < n_pairs; i++) {
        grpc_slice_unref(pairs[i].value); /* Keys are static. */
    }
}

/* A decimal number; 0 for anything else. */
static uint64_t parse_number(const grpc_slice *text)
{
    uint64_t number = 0;
    for (size_t i = 0; i < GRPC_SLICE_LENGTH(*text); i++) {
        uint8_t c = GRPC_SLICE_START_PTR(*text)[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(c - '0'), &number)) {
            return 0;
        }
    }
    return number;
}

static int digit(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct ps_id parse_trace(const grpc_slice *text)
{
    static const struct ps_id none;
    struct ps_id trace = none;
    if (GRPC_SLICE_LENGTH(*text) < TRACEPARENT_BYTES) {
        return none;
    }
    const uint8_t *at = GRPC_SLICE_START_PTR(*text) + TRACE_OFFSET;
    for (size_t i = 0; i < sizeof(trace.bytes); i++) {
        int high = digit(at[2 * i]);
        int low = digit(at[2 * i + 1]);
        if (high < 0 || low < 0) {
            return none;
        }
        trace.bytes[i] = (uint8_t)(high * 16 + low);
    }
    return trace;
}

static bool key_is(const grpc_metadata *pair, const char *key)
{
    return grpc_slice_str_cmp(pair->key, key) == 0;
}

struct ps_context ps_rpc_meta_to_context(const grpc_metadata_array *pairs)
{
    struct ps_context context = {0};
    for (size_t i = 0; i < pairs->count; i++) {
        const grpc_metadata *at = &pairs->metadata[i];
        if (key_is(at, "traceparent")) {
            context.trace = parse_trace(&at->value);
        } else if (key_is(at, "ps-session")) {
            context.session = parse_number(&at->value);
        } else if (key_is(at, "ps-step")) {
            context.step = parse_number(&at->value);
        }
    }
    return context;
}

grpc_metadata ps_rpc_meta_number(const char *key, uint64_t number)
{
    return pair(key, number_slice(number));
}

/*
 * gRPC of any language says RESOURCE_EXHAUSTED for a message over a limit ("... larger than max
 * ..."), which no waiting mends, and for a lack of memory or of calls, which it does.
 */
static bool says_too_large(const grpc_slice *words)
{
    static const char sign[] = "larger than max";
    size_t n_bytes = GRPC_SLICE_LENGTH(*words);
    return memmem(GRPC_SLICE_START_PTR(*words), n_bytes, sign, sizeof(sign) - 1) != NULL;
}

static enum ps_status status_of_code(const struct ps_rpc_end *end)
{
    switch (end->code) {
    case GRPC_STATUS_OK: return PS_OK;
    case GRPC_STATUS_CANCELLED: return end->canceled ? PS_ERR_CANCELED : PS_ERR_UNAVAIL;
    case GRPC_STATUS_INVALID_ARGUMENT:
    case GRPC_STATUS_FAILED_PRECONDITION:
    case GRPC_STATUS_OUT_OF_RANGE: return PS_ERR_INVALID;
    case GRPC_STATUS_DEADLINE_EXCEEDED: return PS_ERR_TIMEOUT;
    case GRPC_STATUS_NOT_FOUND: return PS_ERR_NOT_FOUND;
    case GRPC_STATUS_ALREADY_EXISTS: return PS_ERR_EXISTS;
    case GRPC_STATUS_UNAUTHENTICATED:
    case GRPC_STATUS_PERMISSION_DENIED: return PS_ERR_DENIED;
    case GRPC_STATUS_RESOURCE_EXHAUSTED:
        return says_too_large(end->words) ? PS_ERR_INVALID : PS_ERR_BUSY;
    case GRPC_STATUS_UNIMPLEMENTED: return PS_ERR_UNSUPPORTED;
    case GRPC_STATUS_DATA_LOSS: return PS_ERR_CORRUPT;
    case GRPC_STATUS_ABORTED:
    case GRPC_STATUS_UNAVAILABLE:
    case GRPC_STATUS_UNKNOWN:  /* Without a trailer of ours these two are the library's words for */
    case GRPC_STATUS_INTERNAL: /* a stream that was cut: the peer may have died in the middle. */
        return PS_ERR_UNAVAIL;
    case GRPC_STATUS__DO_NOT_USE: break;
    }
    return PS_ERR_INTERNAL; /* Codes come from the peer: one that nobody knows as well. */
}

static uint32_t find_number(const grpc_metadata_array *pairs, const char *key)
{
    for (size_t i = 0; i < pairs->count; i++) {
        if (key_is(&pairs->metadata[i], key)) {
            uint64_t number = parse_number(&pairs->metadata[i].value);
            return number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
        }
    }
    return 0;
}

enum ps_status ps_rpc_meta_to_status(const struct ps_rpc_end *end)
{
    uint32_t wire = end->code != GRPC_STATUS_OK ? find_number(end->trailing, "ps-status") : 0;
    return wire != 0 ? ps_status_from_wire(wire) : status_of_code(end);
}

uint32_t ps_rpc_meta_to_retry_ms(const grpc_metadata_array *trailing)
{
    return find_number(trailing, "grpc-retry-pushback-ms");
}

bool ps_rpc_meta_has_status(const grpc_metadata_array *trailing)
{
    for (size_t i = 0; i < trailing->count; i++) {
        if (key_is(&trailing->metadata[i], "ps-status")) {
            return true;
        }
    }
    return false;
}

grpc_slice ps_rpc_meta_reason(enum ps_status status, const char *reason)
{
    if (reason == NULL) {
        return grpc_slice_from_static_string(ps_status_text(status));
    }
    return grpc_slice_from_copied_buffer(reason, strnlen(reason, PS_RPC_REASON_BYTES_MAX));
}
