/*
 * fuzz_client.c — what a coordinator may say to a client, through its real readers.
 *
 * Chunks: u8 kind, u16 length, bytes. Kind 0 answers Join, 1 Describe, 2 is a state on the stream.
 * A call for which the input has no answer gets a good one, so that the client goes on.
 */
#include <string.h>

#include "client/session.h"
#include "coordinator.pb-c.h"
#include "fuzz.h"
#include "obs/log.h"
#include "port/direct.h"
#include "wire/pack.h"

#define CHUNKS_MAX 32u

enum kind {
    CHUNK_JOIN,
    CHUNK_DESCRIBE,
    CHUNK_STATE,
    CHUNK_KINDS
};

struct chunk {
    uint8_t kind;
    struct ps_slice bytes;
};

static struct {
    struct ps_mem mem;
    struct ps_inline_exec exec;
    uint64_t now_ns;
    struct chunk chunks[CHUNKS_MAX];
    uint32_t n_chunks;
    uint32_t next[CHUNK_KINDS]; /* Chunks of each kind are taken in their order. */
    struct ps_stream *stream;
    struct ps_session *session;
    uint32_t n_done;
} rig;

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    return rig.now_ns;
}

static void pass_ms(uint64_t ms)
{
    ps_inline_exec_pump(&rig.exec);
    for (uint64_t passed = 0; passed < ms; passed += 50) {
        rig.now_ns += 50000000;
        ps_inline_exec_pump(&rig.exec);
    }
}

static const struct chunk *next(enum kind kind)
{
    while (rig.next[kind] < rig.n_chunks) {
        const struct chunk *chunk = &rig.chunks[rig.next[kind]++];
        if (chunk->kind % CHUNK_KINDS == kind) {
            return chunk;
        }
    }
    return NULL;
}

/* ---- The coordinator ------------------------------------------------------------------------ */

static void answer(struct ps_call *call, enum kind kind, const ProtobufCMessage *good)
{
    uint8_t bytes[256];
    bool fits = false;
    const struct chunk *chunk = next(kind);
    struct ps_out out = {.head = bytes};
    if (chunk != NULL) {
        out = (struct ps_out){.head = chunk->bytes.data, .n_head_bytes = chunk->bytes.n_bytes};
    } else {
        out.n_head_bytes = ps_wire_pack(good, bytes, sizeof(bytes), &fits);
        PS_ASSERT(fits);
    }
    ps_call_finish(call, PS_OK, &out, NULL);
}

static void on_join(void *arg, struct ps_call *call)
{
    (void)arg;
    Ps__V1__JoinReply reply = PS__V1__JOIN_REPLY__INIT;
    reply.protocol = PS_PROTOCOL_MAX;
    reply.session_number = 3;
    reply.term = 1;
    reply.generation = 1;
    answer(call, CHUNK_JOIN, &reply.base);
}

static void on_describe(void *arg, struct ps_call *call)
{
    (void)arg;
    Ps__V1__DescribeReply reply = PS__V1__DESCRIBE_REPLY__INIT;
    reply.term = 1;
    reply.generation = 1;
    answer(call, CHUNK_DESCRIBE, &reply.base);
}

static void on_leave(void *arg, struct ps_call *call)
{
    (void)arg;
    ps_call_finish(call, PS_OK, &(struct ps_out){0}, NULL);
}

static void on_report(void *arg, struct ps_msg *msg)
{
    (void)arg;
    ps_msg_unref(msg);
    const struct chunk *chunk = next(CHUNK_STATE);
    if (chunk != NULL && rig.stream != NULL) {
        struct ps_out out = {.head = chunk->bytes.data, .n_head_bytes = chunk->bytes.n_bytes};
        (void)ps_stream_send(rig.stream, &out);
    }
}

static void on_closed(void *arg, enum ps_status status)
{
    (void)status;
    ps_stream_release(arg);
    rig.stream = rig.stream == arg ? NULL : rig.stream;
}

static void on_attend(void *arg, struct ps_stream *stream)
{
    static const struct ps_stream_events events = {.message = on_report, .closed = on_closed};
    (void)arg;
    rig.stream = stream;
    ps_stream_start(stream, &events, stream);
}

static const struct ps_method methods[] = {
    {.path = "/ps.v1.Coordinator/Join", .roles = PS_ROLE_ANY, .call = on_join},
    {.path = "/ps.v1.Coordinator/Describe", .roles = PS_ROLE_ANY, .call = on_describe},
    {.path = "/ps.v1.Coordinator/Leave", .roles = PS_ROLE_ANY, .call = on_leave},
    {.path = "/ps.v1.Coordinator/Attend",
     .roles = PS_ROLE_ANY,
     .kind = PS_METHOD_STREAM,
     .accept = on_attend},
};

/* ---- The client ----------------------------------------------------------------------------- */

static void op_done(struct ps_op *op)
{
    (void)op;
    rig.n_done++;
}

static void live(struct ps_transport *transport)
{
    static const struct ps_creds creds = {.kind = PS_CREDS_INSECURE};
    struct ps_session_options options = {.transport = transport,
                                         .creds = &creds,
                                         .exec = &rig.exec.base,
                                         .mem = &rig.mem,
                                         .coordinator = "c:1",
                                         .kind = PS_CLIENT_WORKER,
                                         .name = "n",
                                         .session = {.bytes = {7}},
                                         .seed = 1};
    struct ps_op join = {.done = op_done};
    struct ps_op describe = {.done = op_done};
    struct ps_op close = {.done = op_done};
    struct ps_error err;
    PS_ASSERT(ps_session_create(&options, &rig.session, &err) == PS_OK);
    ps_session_join(rig.session, &join);
    pass_ms(1000);
    ps_session_describe(rig.session, &describe);
    pass_ms(CHUNKS_MAX * 250ull);
    ps_session_close(rig.session, &close);
    pass_ms(15000);
    PS_ASSERT(rig.n_done == 3);
    ps_session_destroy(rig.session);
}

static void read_chunks(const uint8_t *data, size_t n_bytes)
{
    while (n_bytes >= 3 && rig.n_chunks < CHUNKS_MAX) {
        size_t n = data[1] | (size_t)data[2] << 8;
        n = n < n_bytes - 3 ? n : n_bytes - 3;
        rig.chunks[rig.n_chunks++] =
            (struct chunk){.kind = data[0], .bytes = {.data = data + 3, .n_bytes = n}};
        data += 3 + n;
        n_bytes -= 3 + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    ps_log_level_set(PS_LOG_NONE);
    memset(&rig, 0, sizeof(rig));
    rig.now_ns = 1000000000;
    ps_mem_init(&rig.mem);
    ps_inline_exec_init(&rig.exec, clock_ns, NULL);
    read_chunks(data, n_bytes);
    struct ps_direct *direct = ps_direct_create(&rig.exec.base);
    struct ps_transport *transport = ps_direct_transport(direct);
    struct ps_listener *listener = NULL;
    struct ps_service service = {
        .address = "c:1", .methods = methods, .n_methods = PS_ARRAY_LEN(methods)};
    PS_ASSERT(ps_listener_open(transport, &service, &listener, NULL) == PS_OK);
    live(transport);
    ps_listener_stop(listener, 0);
    ps_inline_exec_pump(&rig.exec);
    ps_listener_close(listener);
    ps_direct_destroy(direct);
    for (uint32_t c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        PS_ASSERT(atomic_load(&rig.mem.used[c]) == 0);
    }
    return 0;
}
