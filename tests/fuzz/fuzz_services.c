/*
 * fuzz_services.c — questions to health and reflection: each is answered once, or its stream is
 * closed; an answer of reflection is a well-formed message that has the question in it.
 *
 * byte 0: method (mod 3: reflection, Check, Watch) | byte 1: length of slices | the message.
 */
#include <string.h>

#include "base/attr.h"
#include "base/limits.h"
#include "fuzz.h"
#include "port/inline_exec.h"
#include "svc/health.h"
#include "svc/reflection.h"
#include "wire/pb.h"

#define TELL_REQUEST 2u /* Of ServerReflectionResponse: original_request. */

enum method {
    REFLECTION,
    CHECK,
    WATCH,
    METHOD_COUNT
};

/* The transport's side of one call or stream. */
static struct {
    struct ps_transport transport;
    struct ps_stream stream;
    struct ps_call call;
    struct ps_msg msg;
    struct fuzz_cut cut;
    const struct ps_stream_events *events;
    void *arg;
    uint32_t n_answers;
    uint32_t n_closed;
    bool is_reflection;
} peer;

static void stream_start(struct ps_stream *stream PS_UNUSED, const struct ps_stream_events *events,
                         void *arg)
{
    peer.events = events;
    peer.arg = arg;
}

static size_t copy_out(const struct ps_out *out, uint8_t *to, size_t n_room)
{
    size_t n = out->n_head_bytes;
    PS_ASSERT(n <= n_room);
    memcpy(to, out->head, n);
    for (size_t i = 0; i < out->n_pieces; i++) {
        PS_ASSERT(out->pieces[i].n_bytes <= n_room - n);
        memcpy(to + n, out->pieces[i].data, out->pieces[i].n_bytes);
        n += out->pieces[i].n_bytes;
    }
    return n;
}

static void check_answer(const struct ps_out *out)
{
    static uint8_t bytes[1u << 16];
    struct ps_slice slice = {.data = bytes, .n_bytes = copy_out(out, bytes, sizeof(bytes))};
    struct ps_cursor c = ps_cursor_over(&slice, 1);
    struct ps_pb_field field;
    size_t n_request = 0;
    while (ps_pb_next(&c, &field)) {
        if (field.number == TELL_REQUEST) {
            n_request = field.bytes.n_left;
        }
    }
    PS_ASSERT(!c.failed);
    PS_ASSERT(!peer.is_reflection || n_request == peer.msg.n_bytes);
}

static enum ps_status stream_send(struct ps_stream *stream PS_UNUSED, const struct ps_out *out)
{
    check_answer(out);
    peer.n_answers++;
    return PS_OK;
}

static void stream_close(struct ps_stream *stream PS_UNUSED, enum ps_status status)
{
    PS_ASSERT(status == PS_ERR_INVALID);
    peer.n_closed++;
}

static void stream_release(struct ps_stream *stream PS_UNUSED) {}

static const struct ps_msg *call_request(struct ps_call *call PS_UNUSED)
{
    return &peer.msg;
}

static void call_finish(struct ps_call *call PS_UNUSED, enum ps_status status,
                        const struct ps_out *out, const char *reason PS_UNUSED)
{
    PS_ASSERT(status == PS_OK || status == PS_ERR_INVALID || status == PS_ERR_NOT_FOUND);
    if (status == PS_OK) {
        check_answer(out);
    }
    peer.n_answers++;
}

static const struct ps_transport_ops ops = {
    .stream_start = stream_start,
    .stream_send = stream_send,
    .stream_close = stream_close,
    .stream_release = stream_release,
    .call_request = call_request,
    .call_finish = call_finish,
};

static void keep(struct ps_msg *msg PS_UNUSED) {}

static uint64_t no_time(void *arg PS_UNUSED)
{
    return 1;
}

static void serve_stream(const struct ps_method *method, struct ps_inline_exec *exec)
{
    method->accept(method->arg, &peer.stream);
    ps_inline_exec_pump(exec);
    atomic_store(&peer.msg.n_refs, 1);
    peer.events->message(peer.arg, &peer.msg);
    PS_ASSERT(atomic_load(&peer.msg.n_refs) == 0);
    ps_inline_exec_pump(exec);
    peer.events->closed(peer.arg, PS_ERR_CANCELED);
    ps_inline_exec_pump(exec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const char *const services[] = {"", "ps.v1.ParameterServer"};
    static struct ps_inline_exec exec;
    static struct ps_reflection reflection;
    static struct ps_method methods[PS_HEALTH_METHODS + PS_REFLECTION_METHODS];
    static struct ps_health *health;
    if (health == NULL) {
        struct ps_error err;
        ps_inline_exec_init(&exec, no_time, NULL);
        struct ps_health_options options = {
            .exec = &exec.base, .services = services, .n_services = 2};
        enum ps_status status = ps_health_create(&options, &health, &err);
        PS_ASSERT(status == PS_OK);
        ps_health_methods(health, methods);
        ps_reflection_methods(&reflection, methods + PS_HEALTH_METHODS);
        reflection.methods = methods;
        reflection.n_methods = PS_ARRAY_LEN(methods);
        peer.transport.ops = &ops;
        peer.stream.transport = &peer.transport;
        peer.call.transport = &peer.transport;
        peer.msg.destroy = keep;
    }
    if (n_bytes < 2) {
        return 0;
    }
    enum method method = (enum method)(data[0] % METHOD_COUNT);
    fuzz_cut(&peer.cut, data + 2, n_bytes - 2, data[1]);
    peer.msg.slices = peer.cut.slices;
    peer.msg.n_slices = peer.cut.n_slices;
    peer.msg.n_bytes = n_bytes - 2;
    peer.n_answers = 0;
    peer.n_closed = 0;
    peer.is_reflection = method == REFLECTION;
    switch (method) {
    case REFLECTION: serve_stream(&methods[PS_HEALTH_METHODS], &exec); break;
    case WATCH: serve_stream(&methods[1], &exec); break;
    case CHECK:
    case METHOD_COUNT:
        methods[0].call(methods[0].arg, &peer.call);
        ps_inline_exec_pump(&exec);
        break;
    }
    PS_ASSERT(peer.n_answers + peer.n_closed == 1);
    PS_ASSERT(ps_health_idle(health));
    PS_ASSERT(ps_reflection_idle(&reflection));
    return 0;
}
