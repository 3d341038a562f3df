/* health.c — see health.h. The messages are two fields: no generated code, nothing is unpacked. */
#include "svc/health.h"

#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/list.h"
#include "wire/pb.h"

#define REQUEST_BYTES_MAX 1024u /* A name, and whatever a later version of the proto may add. */
#define SERVICE_NONE      UINT32_MAX
#define SERVICE_BAD       (UINT32_MAX - 1)

enum serving_status { /* Of health.proto. */
    UNTOLD = 0,
    SERVING = 1,
    NOT_SERVING = 2,
    SERVICE_UNKNOWN = 3
};

struct ps_health {
    struct ps_health_options options;
    struct ps_list watchers;
    uint32_t n_watchers;
    bool serving[PS_HEALTH_SERVICES_MAX];
    bool drained;
    _Atomic uint32_t n_under_way; /* Calls and streams in our hands. */
};

struct check {
    struct ps_mail mail;
    struct ps_health *health;
    struct ps_call *call;
};

/* A stream of Watch. Made when it is opened, gone when it has closed. */
struct watcher {
    struct ps_list node;
    struct ps_health *health;
    struct ps_stream *stream;
    struct ps_mail arrived; /* These bring news from a thread of the transport. */
    struct ps_mail asked;
    struct ps_mail drained;
    struct ps_mail left;
    uint32_t service; /* Of the question; written before `asked` is posted. */
    bool heard;       /* A thread of the transport's own: the question has come ... */
    bool curious;     /* ... and the executor knows it. */
    bool sending;     /* One message is in flight. */
    bool ended;       /* We have closed it; `closed` is to come. */
    enum serving_status told;
};

/* ---- Messages ------------------------------------------------------------------------------ */

static uint32_t find_service(const struct ps_health *health, struct ps_cursor name)
{
    char text[PS_NAME_BYTES_MAX + 1] = "";
    size_t n_bytes = name.n_left;
    if (n_bytes >= sizeof(text)) {
        return SERVICE_NONE;
    }
    ps_cursor_copy(&name, text, n_bytes);
    for (uint32_t i = 0; i < health->options.n_services; i++) {
        const char *service = health->options.services[i];
        if (strlen(service) == n_bytes && memcmp(service, text, n_bytes) == 0) {
            return i;
        }
    }
    return SERVICE_NONE;
}

/* HealthCheckRequest { string service = 1; } */
static uint32_t read_request(const struct ps_health *health, const struct ps_msg *msg)
{
    if (msg->n_bytes > REQUEST_BYTES_MAX) {
        return SERVICE_BAD;
    }
    struct ps_cursor c = ps_cursor_over(msg->slices, msg->n_slices);
    struct ps_cursor name = ps_cursor_over(NULL, 0); /* Not given: "". */
    struct ps_pb_field field;
    while (ps_pb_next(&c, &field)) {
        if (field.number == 1 && field.wire == PS_PB_BYTES) {
            name = field.bytes;
        }
    }
    return c.failed ? SERVICE_BAD : find_service(health, name);
}

static enum serving_status status_of(const struct ps_health *health, uint32_t service)
{
    if (service == SERVICE_NONE) {
        return SERVICE_UNKNOWN;
    }
    return health->serving[service] && !health->drained ? SERVING : NOT_SERVING;
}

/* HealthCheckResponse { ServingStatus status = 1; } */
static struct ps_out write_response(enum serving_status status, uint8_t *bytes, size_t n_room)
{
    struct ps_pb_writer w = {.to = bytes, .n_room = n_room};
    ps_pb_put_uint(&w, 1, (uint64_t)status);
    PS_ASSERT(!w.full);
    return (struct ps_out){.head = bytes, .n_head_bytes = w.n_used};
}

static void under_way(struct ps_health *health)
{
    atomic_fetch_add_explicit(&health->n_under_way, 1, memory_order_relaxed);
}

static void over(struct ps_health *health)
{
    atomic_fetch_sub_explicit(&health->n_under_way, 1, memory_order_acq_rel);
}

/* ---- Check --------------------------------------------------------------------------------- */

static void run_check(struct ps_mail *mail)
{
    struct check *check = PS_CONTAINER_OF(mail, struct check, mail);
    struct ps_health *health = check->health;
    uint32_t service = read_request(health, ps_call_request(check->call));
    uint8_t bytes[4];
    if (service == SERVICE_BAD) {
        ps_call_finish(check->call, PS_ERR_INVALID, NULL, "the request is malformed or too long");
    } else if (service == SERVICE_NONE) {
        ps_call_finish(check->call, PS_ERR_NOT_FOUND, NULL, "no such service here");
    } else {
        struct ps_out out = write_response(status_of(health, service), bytes, sizeof(bytes));
        ps_call_finish(check->call, PS_OK, &out, NULL);
    }
    ps_mem_free(check);
    over(health);
}

/* On a thread of the transport. */
static void on_check(void *arg, struct ps_call *call)
{
    struct ps_health *health = arg;
    struct check *check = ps_mem_alloc(health->options.mem, PS_MEM_CALLS, sizeof(*check));
    if (check == NULL) {
        ps_call_finish(call, PS_ERR_BUSY, NULL, "no memory for one more call: slow down");
        return;
    }
    *check = (struct check){.mail.run = run_check, .health = health, .call = call};
    under_way(health);
    ps_exec_post(health->options.exec, &check->mail);
}

/* ---- Watch --------------------------------------------------------------------------------- */

static void end_watcher(struct watcher *watcher, enum ps_status status)
{
    if (!watcher->ended) {
        watcher->ended = true;
        ps_stream_close(watcher->stream, status);
    }
}

/* Tell what is true now, unless that is known or the last message has not left yet. */
static void tell(struct watcher *watcher)
{
    if (!watcher->curious || watcher->ended || watcher->sending) {
        return;
    }
    enum serving_status now = status_of(watcher->health, watcher->service);
    if (now == watcher->told) {
        return;
    }
    uint8_t bytes[4];
    struct ps_out out = write_response(now, bytes, sizeof(bytes));
    if (ps_stream_send(watcher->stream, &out) == PS_OK) { /* Else it is over: `closed` comes. */
        watcher->sending = true;
        watcher->told = now;
    }
}

static void run_asked(struct ps_mail *mail)
{
    struct watcher *watcher = PS_CONTAINER_OF(mail, struct watcher, asked);
    if (watcher->service == SERVICE_BAD) {
        end_watcher(watcher, PS_ERR_INVALID);
        return;
    }
    watcher->curious = true;
    tell(watcher);
}

static void run_drained(struct ps_mail *mail)
{
    struct watcher *watcher = PS_CONTAINER_OF(mail, struct watcher, drained);
    watcher->sending = false;
    tell(watcher);
}

static void run_left(struct ps_mail *mail)
{
    struct watcher *watcher = PS_CONTAINER_OF(mail, struct watcher, left);
    struct ps_health *health = watcher->health;
    ps_list_remove(&watcher->node);
    health->n_watchers--;
    ps_stream_release(watcher->stream);
    ps_mem_free(watcher);
    over(health);
}

/* On a thread of the transport, as the next two; for one stream one at a time. */
static void on_message(void *arg, struct ps_msg *msg)
{
    struct watcher *watcher = arg;
    if (!watcher->heard) { /* There is one question; what comes after it is nothing to us. */
        watcher->heard = true;
        watcher->service = read_request(watcher->health, msg);
        ps_exec_post(watcher->health->options.exec, &watcher->asked);
    }
    ps_msg_unref(msg);
}

static void on_drained(void *arg)
{
    struct watcher *watcher = arg;
    ps_exec_post(watcher->health->options.exec, &watcher->drained);
}

static void on_closed(void *arg, enum ps_status status PS_UNUSED)
{
    struct watcher *watcher = arg;
    ps_exec_post(watcher->health->options.exec, &watcher->left);
}

static void run_arrived(struct ps_mail *mail)
{
    struct watcher *watcher = PS_CONTAINER_OF(mail, struct watcher, arrived);
    static const struct ps_stream_events events = {
        .message = on_message, .closed = on_closed, .drained = on_drained};
    struct ps_health *health = watcher->health;
    ps_list_append(&health->watchers, &watcher->node);
    health->n_watchers++;
    bool room = health->n_watchers <= PS_WATCHERS_MAX;
    ps_stream_start(watcher->stream, &events, watcher);
    if (health->drained || !room) {
        end_watcher(watcher, health->drained ? PS_ERR_UNAVAIL : PS_ERR_BUSY);
    }
}

/* On a thread of the transport. */
static void on_watch(void *arg, struct ps_stream *stream)
{
    struct ps_health *health = arg;
    struct watcher *watcher = ps_mem_alloc(health->options.mem, PS_MEM_CALLS, sizeof(*watcher));
    if (watcher == NULL) { /* Never started, so it can be released at once. */
        ps_stream_close(stream, PS_ERR_BUSY);
        ps_stream_release(stream);
        return;
    }
    watcher->health = health;
    watcher->stream = stream;
    watcher->arrived.run = run_arrived;
    watcher->asked.run = run_asked;
    watcher->drained.run = run_drained;
    watcher->left.run = run_left;
    ps_list_init(&watcher->node);
    under_way(health);
    ps_exec_post(health->options.exec, &watcher->arrived);
}

/* ---- Life ---------------------------------------------------------------------------------- */

enum ps_status ps_health_create(const struct ps_health_options *options, struct ps_health **ret,
                                struct ps_error *err)
{
    PS_ASSERT(options->n_services <= PS_HEALTH_SERVICES_MAX);
    struct ps_health *health = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*health));
    if (health == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the health service");
    }
    health->options = *options;
    ps_list_init(&health->watchers);
    *ret = health;
    return PS_OK;
}

void ps_health_methods(struct ps_health *health, struct ps_method *methods)
{
    methods[0] = (struct ps_method){
        .path = "/grpc.health.v1.Health/Check",
        .traffic = PS_TRAFFIC_CONTROL,
        .roles = PS_ROLE_ANY,
        .kind = PS_METHOD_UNARY,
        .call = on_check,
        .arg = health,
    };
    methods[1] = (struct ps_method){
        .path = "/grpc.health.v1.Health/Watch",
        .traffic = PS_TRAFFIC_CONTROL,
        .roles = PS_ROLE_ANY,
        .kind = PS_METHOD_SERVER_STREAM,
        .accept = on_watch,
        .arg = health,
    };
}

static void tell_all(struct ps_health *health)
{
    ps_list_for_each (at, &health->watchers) {
        tell(PS_CONTAINER_OF(at, struct watcher, node));
    }
}

void ps_health_set(struct ps_health *health, uint32_t service, bool serving)
{
    PS_ASSERT(service < health->options.n_services);
    if (health->serving[service] != serving) {
        health->serving[service] = serving;
        tell_all(health);
    }
}

void ps_health_drain(struct ps_health *health)
{
    if (health->drained) {
        return;
    }
    health->drained = true;
    tell_all(health);
    ps_list_for_each (at, &health->watchers) {
        end_watcher(PS_CONTAINER_OF(at, struct watcher, node), PS_ERR_UNAVAIL);
    }
}

bool ps_health_idle(const struct ps_health *health)
{
    return atomic_load_explicit(&health->n_under_way, memory_order_acquire) == 0;
}

void ps_health_destroy(struct ps_health *health)
{
    if (health == NULL) {
        return;
    }
    PS_ASSERT(ps_health_idle(health));
    ps_mem_free(health);
}
