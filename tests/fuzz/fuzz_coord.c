/*
 * fuzz_coord.c — what members may say to a coordinator, through its real handlers.
 *
 * First byte: how far the cluster is, and its job. Then events: u8 kind, u16 length, bytes. Kinds
 * 0 to 7 are the unary methods in the order of `methods`, 8 is a report on a worker's stream, 9 one
 * on a stream of nobody's, 10 lets time pass, 11 opens that stream anew. Sessions have ids 1, 2, 3
 * and then zeros.
 */
#include <string.h>

#include "coord/coord.h"
#include "coord/coord_impl.h"
#include "coordinator.pb-c.h"
#include "fuzz.h"
#include "obs/log.h"
#include "port/direct.h"

#define EVENTS_MAX 64u
#define SESSIONS   3u /* Server, worker, worker. */
#define PARTS      4u

enum kind {
    EVENT_REPORT = 8,
    EVENT_STRAY_REPORT,
    EVENT_TIME,
    EVENT_STRAY_STREAM,
    EVENT_KINDS
};

static const char *const methods[] = {
    "/ps.v1.Coordinator/Join",      "/ps.v1.Coordinator/Tick",
    "/ps.v1.Coordinator/WaitClock", "/ps.v1.Coordinator/DefineTable",
    "/ps.v1.Coordinator/DefineJob", "/ps.v1.Coordinator/Describe",
    "/ps.v1.Coordinator/Leave",     "/ps.v1.Coordinator/Shutdown",
};

struct call {
    struct ps_request request;
    uint32_t n_done;
};

struct stream {
    struct ps_stream *stream; /* NULL: closed. */
};

static struct {
    struct ps_mem mem;
    struct ps_inline_exec exec;
    uint64_t now_ns;
    struct ps_direct *direct;
    struct ps_store *store;
    struct ps_coord *coord;
    struct ps_method methods[PS_COORD_METHODS];
    struct ps_listener *listener;
    struct ps_channel *channel;
    struct stream streams[SESSIONS + 1]; /* The last: nobody's. */
    struct call calls[EVENTS_MAX + 16];
    uint32_t n_calls;
    uint64_t min_clock;
} rig;

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    return rig.now_ns;
}

static void pass_ms(uint64_t ms)
{
    ps_inline_exec_pump(&rig.exec);
    for (uint64_t passed = 0; passed < ms; passed += 25) {
        rig.now_ns += 25000000;
        ps_inline_exec_pump(&rig.exec);
    }
}

/* ---- Calls and streams ---------------------------------------------------------------------- */

static void done(struct ps_request *request)
{
    PS_CONTAINER_OF(request, struct call, request)->n_done++;
    ps_msg_unref(request->reply);
}

static void start(const char *method, const uint8_t *data, size_t n_bytes)
{
    PS_ASSERT(rig.n_calls < PS_ARRAY_LEN(rig.calls));
    struct call *call = &rig.calls[rig.n_calls++];
    call->request = (struct ps_request){.method = method,
                                        .timeout_ms = 2000,
                                        .out = {.head = data, .n_head_bytes = n_bytes},
                                        .done = done};
    ps_request_start(rig.channel, &call->request);
    ps_inline_exec_pump(&rig.exec);
}

static void start_with(const char *method, const ProtobufCMessage *message)
{
    uint8_t bytes[512];
    PS_ASSERT(protobuf_c_message_get_packed_size(message) <= sizeof(bytes));
    start(method, bytes, protobuf_c_message_pack(message, bytes));
}

static void on_message(void *arg, struct ps_msg *msg)
{
    (void)arg;
    ps_msg_unref(msg);
}

static void on_closed(void *arg, enum ps_status status)
{
    (void)status;
    struct stream *stream = arg;
    ps_stream_release(stream->stream);
    stream->stream = NULL;
}

static void open_stream(struct stream *stream)
{
    static const struct ps_stream_events events = {.message = on_message, .closed = on_closed};
    if (stream->stream == NULL) {
        stream->stream = ps_stream_open(rig.channel, "/ps.v1.Coordinator/Attend", &events, stream);
        ps_inline_exec_pump(&rig.exec);
    }
}

static void report(const struct stream *stream, const uint8_t *data, size_t n_bytes)
{
    if (stream->stream != NULL) {
        (void)ps_stream_send(stream->stream,
                             &(struct ps_out){.head = data, .n_head_bytes = n_bytes});
        ps_inline_exec_pump(&rig.exec);
    }
}

/* ---- A cluster that is so far ---------------------------------------------------------------- */

static void join(uint8_t *id, Ps__V1__SessionKind kind)
{
    static char name[] = "n";
    Ps__V1__JoinRequest request = PS__V1__JOIN_REQUEST__INIT;
    request.protocol_min = PS_PROTOCOL_MIN;
    request.protocol_max = PS_PROTOCOL_MAX;
    request.kind = kind;
    request.name = name;
    request.address = name;
    request.session = (ProtobufCBinaryData){.len = 16, .data = id};
    start_with(methods[0], &request.base);
}

/* The server has done all that it was told. */
static void acknowledge(uint8_t *id)
{
    uint8_t bytes[256];
    Ps__V1__AttendReport message = PS__V1__ATTEND_REPORT__INIT;
    Ps__V1__ServerReport server = PS__V1__SERVER_REPORT__INIT;
    server.placement_version = server.sessions_version = server.catalogue_version = UINT64_MAX;
    server.finished_version = server.closed_steps = UINT64_MAX;
    message.session = (ProtobufCBinaryData){.len = 16, .data = id};
    message.server = &server;
    report(&rig.streams[0], bytes, ps__v1__attend_report__pack(&message, bytes));
}

static void define_job(uint8_t *id, bool aggregate, bool parts)
{
    static char name[] = "n";
    Ps__V1__Consistency consistency = PS__V1__CONSISTENCY__INIT;
    Ps__V1__JobDefinition job = PS__V1__JOB_DEFINITION__INIT;
    Ps__V1__DefineJobRequest request = PS__V1__DEFINE_JOB_REQUEST__INIT;
    consistency.mode = aggregate ? PS__V1__CONSISTENCY_MODE__BSP : PS__V1__CONSISTENCY_MODE__SSP;
    consistency.bound = aggregate ? 0 : 1;
    consistency.aggregate = aggregate;
    job.model = name;
    job.data = name;
    job.rows = parts ? 0 : 40;
    job.parts = parts ? PARTS : 0;
    job.shuffle = parts;
    job.batch = 5;
    job.epochs = 2;
    job.workers = 2;
    job.units_per_lease = parts ? 0 : 2;
    job.consistency = &consistency;
    request.session = (ProtobufCBinaryData){.len = 16, .data = id};
    request.definition = &job;
    start_with(methods[4], &request.base);
}

static void build(uint8_t how_far)
{
    static uint8_t ids[SESSIONS][16];
    for (uint32_t i = 0; i < SESSIONS; i++) {
        ids[i][0] = (uint8_t)(i + 1);
    }
    if (how_far % 4 >= 1) {
        join(ids[0], PS__V1__SESSION_KIND__SERVER);
        open_stream(&rig.streams[0]);
        acknowledge(ids[0]);
    }
    if (how_far % 4 >= 2) {
        for (uint32_t i = 1; i < SESSIONS; i++) {
            join(ids[i], PS__V1__SESSION_KIND__WORKER);
            open_stream(&rig.streams[i]);
            acknowledge(ids[0]);
        }
    }
    if (how_far % 4 == 3) {
        define_job(ids[1], how_far >= 128, how_far >= 64 && how_far < 128);
    }
}

static void open_all(void)
{
    static const struct ps_creds creds = {.kind = PS_CREDS_INSECURE};
    ps_log_level_set(PS_LOG_NONE);
    memset(&rig, 0, sizeof(rig));
    rig.now_ns = 1000000000;
    ps_mem_init(&rig.mem);
    ps_inline_exec_init(&rig.exec, clock_ns, NULL);
    rig.direct = ps_direct_create(&rig.exec.base);
    rig.store = ps_store_memory_create(&rig.mem);
    struct ps_transport *transport = ps_direct_transport(rig.direct);
    struct ps_coord_options options = {.exec = &rig.exec.base,
                                       .mem = &rig.mem,
                                       .store = rig.store,
                                       .new_cluster_id = {.bytes = {1}},
                                       .n_servers = 1};
    PS_ASSERT(ps_coord_create(&options, &rig.coord, NULL) == PS_OK);
    ps_coord_methods(rig.coord, rig.methods);
    struct ps_service service = {
        .address = "c:0", .creds = &creds, .methods = rig.methods, .n_methods = PS_COORD_METHODS};
    PS_ASSERT(ps_listener_open(transport, &service, &rig.listener, NULL) == PS_OK);
    PS_ASSERT(ps_channel_open(transport, ps_listener_address(rig.listener), PS_TRAFFIC_CONTROL,
                              &creds, &rig.channel, NULL) == PS_OK);
}

static void close_all(void)
{
    ps_coord_stop(rig.coord);
    ps_inline_exec_pump(&rig.exec);
    for (uint32_t i = 0; i <= SESSIONS; i++) {
        if (rig.streams[i].stream != NULL) {
            ps_stream_close(rig.streams[i].stream, PS_ERR_CANCELED);
        }
    }
    ps_inline_exec_pump(&rig.exec);
    ps_listener_stop(rig.listener, 0);
    ps_inline_exec_pump(&rig.exec);
    PS_ASSERT(ps_coord_idle(rig.coord));
    ps_listener_close(rig.listener);
    ps_coord_destroy(rig.coord);
    ps_channel_close(rig.channel);
    ps_store_destroy(rig.store);
    ps_direct_destroy(rig.direct);
    for (uint32_t i = 0; i < rig.n_calls; i++) {
        PS_ASSERT(rig.calls[i].n_done == 1);
    }
    for (uint32_t c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        PS_ASSERT(atomic_load(&rig.mem.used[c]) == 0);
    }
}

/* What holds after whatever was said. */
static void check(void)
{
    const struct ps_coord_core *core = &rig.coord->core;
    PS_ASSERT(core->min_clock >= rig.min_clock);
    bool parts = core->has_job && core->pool.plan.uncounted; /* Else there are 16 units, */
    uint64_t most = parts ? (uint64_t)PS_PART_UNITS_MAX * core->pool.plan.n_leases : 64;
    PS_ASSERT(core->min_clock <= most); /*   and nobody can have done more. */
    rig.min_clock = core->min_clock;
    PS_ASSERT(core->catalogue_version <= PS_TABLES_MAX);
}

static void happen(uint8_t kind, const uint8_t *data, size_t n_bytes)
{
    switch (kind % EVENT_KINDS) {
    case EVENT_REPORT: report(&rig.streams[1 + kind / EVENT_KINDS % 2], data, n_bytes); break;
    case EVENT_STRAY_REPORT: report(&rig.streams[SESSIONS], data, n_bytes); break;
    case EVENT_TIME: pass_ms(n_bytes > 0 ? 25u * data[0] : 25u); break;
    case EVENT_STRAY_STREAM: open_stream(&rig.streams[SESSIONS]); break;
    default: start(methods[kind % EVENT_KINDS], data, n_bytes); break;
    }
    check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0) {
        return 0;
    }
    open_all();
    build(data[0]);
    data++;
    n_bytes--;
    for (uint32_t i = 0; i < EVENTS_MAX && n_bytes >= 3; i++) {
        size_t n = data[1] | (size_t)data[2] << 8;
        n = n < n_bytes - 3 ? n : n_bytes - 3;
        happen(data[0], data + 3, n);
        data += 3 + n;
        n_bytes -= 3 + n;
    }
    pass_ms(2500); /* Every call has been answered by then. */
    close_all();
    return 0;
}
