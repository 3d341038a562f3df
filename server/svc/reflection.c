/* reflection.c — see reflection.h. Requests are read by a scan, never unpacked. */
#include "svc/reflection.h"

#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "ps_descriptors.h"
#include "wire/pb.h"

#define REQUEST_BYTES_MAX  1024u /* Names of files and symbols; it is sent back in the answer. */
#define SERVICES_BYTES_MAX 1024u /* All that a listener serves, as a list of names. */
#define HEAD_BYTES         (2 * REQUEST_BYTES_MAX + SERVICES_BYTES_MAX + 128)

/* Of ServerReflectionRequest: host, and one of the others. */
enum request_field {
    ASK_HOST = 1,
    ASK_FILE = 3,
    ASK_SYMBOL = 4,
    ASK_EXTENSION = 5,
    ASK_EXTENSION_NUMBERS = 6,
    ASK_SERVICES = 7
};

/* Of ServerReflectionResponse. */
enum response_field {
    TELL_HOST = 1,
    TELL_REQUEST = 2,
    TELL_FILES = 4,
    TELL_SERVICES = 6,
    TELL_ERROR = 7
};

enum error_code { /* As gRPC's. */
    ERROR_INVALID = 3,
    ERROR_NOT_FOUND = 5
};

struct talk {
    struct ps_reflection *reflection;
    struct ps_stream *stream;
};

struct question {
    uint32_t what; /* enum request_field; 0: nothing is asked. */
    size_t n_host;
    size_t n_raw;
    char text[REQUEST_BYTES_MAX + 1]; /* What `what` says. */
    uint8_t host[REQUEST_BYTES_MAX];
    uint8_t raw[REQUEST_BYTES_MAX]; /* The request as it came. */
};

/* ---- The question -------------------------------------------------------------------------- */

static bool read_question(const struct ps_msg *msg, struct question *ret)
{
    if (msg->n_bytes > REQUEST_BYTES_MAX) {
        return false;
    }
    struct ps_cursor c = ps_cursor_over(msg->slices, msg->n_slices);
    struct ps_cursor all = c;
    struct ps_pb_field field;
    ret->what = 0;
    ret->n_host = 0;
    ret->n_raw = msg->n_bytes;
    ps_cursor_copy(&all, ret->raw, ret->n_raw);
    while (ps_pb_next(&c, &field)) {
        size_t n_bytes = field.bytes.n_left;
        if (field.wire != PS_PB_BYTES) {
            continue;
        }
        if (field.number == ASK_HOST) {
            ret->n_host = n_bytes;
            ps_cursor_copy(&field.bytes, ret->host, n_bytes);
        } else if (field.number >= ASK_FILE && field.number <= ASK_SERVICES) {
            ret->what = field.number; /* Of several the last one counts. */
            ps_cursor_copy(&field.bytes, ret->text, n_bytes);
            ret->text[n_bytes] = '\0';
        }
    }
    return !c.failed;
}

/* ---- Tables -------------------------------------------------------------------------------- */

static const struct ps_proto_file *find_file(const char *name)
{
    for (uint32_t i = 0; i < PS_PROTO_FILES; i++) {
        if (strcmp(ps_proto_files[i].name, name) == 0) {
            return &ps_proto_files[i];
        }
    }
    return NULL;
}

static const struct ps_proto_file *find_symbol(const char *name)
{
    uint32_t first = 0;
    uint32_t end = PS_PROTO_SYMBOLS;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        int order = strcmp(ps_proto_symbols[middle].name, name);
        if (order == 0) {
            return &ps_proto_files[ps_proto_symbols[middle].file];
        }
        if (order < 0) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return NULL;
}

/* ---- The answer ---------------------------------------------------------------------------- */

/* Send `w` with `pieces` behind it. A client that asks and never reads is let go. */
static void answer(struct talk *talk, const struct ps_pb_writer *w, const struct ps_piece *pieces,
                   size_t n_pieces)
{
    PS_ASSERT(!w->full);
    struct ps_out out = {
        .head = w->to, .n_head_bytes = w->n_used, .pieces = pieces, .n_pieces = n_pieces};
    if (ps_stream_send(talk->stream, &out) == PS_ERR_BUSY) {
        ps_stream_close(talk->stream, PS_ERR_BUSY);
    }
}

static void answer_error(struct talk *talk, struct ps_pb_writer *w, enum error_code code,
                         const char *words)
{
    uint8_t bytes[128];
    struct ps_pb_writer inner = {.to = bytes, .n_room = sizeof(bytes)};
    ps_pb_put_uint(&inner, 1, (uint64_t)code);
    ps_pb_put_bytes(&inner, 2, words, strlen(words));
    PS_ASSERT(!inner.full);
    ps_pb_put_bytes(w, TELL_ERROR, bytes, inner.n_used);
    answer(talk, w, NULL, 0);
}

static void answer_file(struct talk *talk, struct ps_pb_writer *w, const struct ps_proto_file *file)
{
    struct ps_piece pieces[PS_PROTO_FILES];
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < file->n_needs; i++) {
        const struct ps_proto_file *one = &ps_proto_files[file->needs[i]];
        pieces[i] = (struct ps_piece){.data = one->data, .n_bytes = one->n_bytes};
        n_bytes += one->n_bytes;
    }
    ps_pb_put_header(w, TELL_FILES, n_bytes);
    answer(talk, w, pieces, file->n_needs);
}

/* "/ps.v1.Coordinator/Join": the bytes of the service's name. */
static size_t service_bytes(const char *path)
{
    const char *slash = strchr(path + 1, '/');
    PS_ASSERT(path[0] == '/' && slash != NULL);
    return (size_t)(slash - path) - 1;
}

/* The rows of one service stand together. */
static bool same_service(const char *path, const char *before)
{
    size_t n_bytes = service_bytes(path);
    return n_bytes == service_bytes(before) && memcmp(path, before, n_bytes + 1) == 0;
}

static void answer_services(struct talk *talk, struct ps_pb_writer *w)
{
    const struct ps_reflection *reflection = talk->reflection;
    uint8_t bytes[SERVICES_BYTES_MAX];
    struct ps_pb_writer inner = {.to = bytes, .n_room = sizeof(bytes)};
    for (uint32_t i = 0; i < reflection->n_methods; i++) {
        const char *path = reflection->methods[i].path;
        if (i > 0 && same_service(path, reflection->methods[i - 1].path)) {
            continue;
        }
        size_t n_name = service_bytes(path);
        ps_pb_put_header(&inner, 1, 1 + ps_pb_varint_bytes(n_name) + n_name);
        ps_pb_put_bytes(&inner, 1, path + 1, n_name);
    }
    PS_ASSERT(!inner.full);
    ps_pb_put_bytes(w, TELL_SERVICES, bytes, inner.n_used);
    answer(talk, w, NULL, 0);
}

static void take_question(struct talk *talk, const struct question *question)
{
    uint8_t bytes[HEAD_BYTES];
    struct ps_pb_writer w = {.to = bytes, .n_room = sizeof(bytes)};
    const struct ps_proto_file *file = NULL;
    ps_pb_put_bytes(&w, TELL_HOST, question->host, question->n_host);
    ps_pb_put_bytes(&w, TELL_REQUEST, question->raw, question->n_raw);
    switch (question->what) {
    case ASK_SERVICES: answer_services(talk, &w); return;
    case ASK_FILE: file = find_file(question->text); break;
    case ASK_SYMBOL: file = find_symbol(question->text); break;
    case ASK_EXTENSION:
    case ASK_EXTENSION_NUMBERS:
        answer_error(talk, &w, ERROR_NOT_FOUND, "there are no extensions here");
        return;
    default: answer_error(talk, &w, ERROR_INVALID, "nothing is asked"); return;
    }
    if (file != NULL) {
        answer_file(talk, &w, file);
    } else {
        answer_error(talk, &w, ERROR_NOT_FOUND,
                     question->what == ASK_FILE ? "no such file here" : "no such symbol here");
    }
}

/* ---- Streams: all on threads of the transport, for one stream one at a time ---------------- */

static void on_message(void *arg, struct ps_msg *msg)
{
    struct talk *talk = arg;
    struct question question;
    bool good = read_question(msg, &question);
    ps_msg_unref(msg);
    if (good) {
        take_question(talk, &question);
    } else {
        ps_stream_close(talk->stream, PS_ERR_INVALID);
    }
}

/* Also when the client has asked all it wants: what was answered still leaves. */
static void on_closed(void *arg, enum ps_status status PS_UNUSED)
{
    struct talk *talk = arg;
    struct ps_reflection *reflection = talk->reflection;
    ps_stream_release(talk->stream);
    ps_mem_free(talk);
    atomic_fetch_sub_explicit(&reflection->n_open, 1, memory_order_acq_rel);
}

static void accept_talk(void *arg, struct ps_stream *stream)
{
    static const struct ps_stream_events events = {.message = on_message, .closed = on_closed};
    struct ps_reflection *reflection = arg;
    uint32_t n_before = atomic_fetch_add_explicit(&reflection->n_open, 1, memory_order_relaxed);
    struct talk *talk = n_before >= PS_REFLECTIONS_MAX
                            ? NULL
                            : ps_mem_alloc(reflection->mem, PS_MEM_CALLS, sizeof(*talk));
    if (talk == NULL) { /* Never started, so it can be released at once. */
        ps_stream_close(stream, PS_ERR_BUSY);
        ps_stream_release(stream);
        atomic_fetch_sub_explicit(&reflection->n_open, 1, memory_order_acq_rel);
        return;
    }
    *talk = (struct talk){.reflection = reflection, .stream = stream};
    ps_stream_start(stream, &events, talk);
}

void ps_reflection_methods(struct ps_reflection *reflection, struct ps_method *methods)
{
    static const char *const paths[PS_REFLECTION_METHODS] = {
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    };
    for (uint32_t i = 0; i < PS_REFLECTION_METHODS; i++) {
        methods[i] = (struct ps_method){
            .path = paths[i],
            .traffic = PS_TRAFFIC_CONTROL,
            .roles = PS_ROLE_ANY,
            .kind = PS_METHOD_STREAM,
            .accept = accept_talk,
            .arg = reflection,
        };
    }
}

bool ps_reflection_idle(const struct ps_reflection *reflection)
{
    return atomic_load_explicit(&reflection->n_open, memory_order_acquire) == 0;
}
