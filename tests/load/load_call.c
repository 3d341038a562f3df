/* load_call.c — calls that wait, and everything that is said to the coordinator. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <poll.h>

#include "base/assert.h"
#include "load.h"
#include "os/random.h"
#include "wire/pack.h"

#define TICK_MS       1000u
#define COLD_MS       10000u
#define COLD_BYTES    512u
#define BUSY_RETRY_MS 100u

uint64_t load_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void load_wait_ms(uint64_t ms)
{
    (void)poll(NULL, 0, (int)ms);
}

static void on_done(struct ps_request *request)
{
    struct load_caller *caller = PS_CONTAINER_OF(request, struct load_caller, request);
    (void)pthread_mutex_lock(&caller->lock);
    caller->is_done = true;
    (void)pthread_cond_signal(&caller->done);
    (void)pthread_mutex_unlock(&caller->lock);
}

void load_caller_init(struct load_caller *caller)
{
    (void)pthread_mutex_init(&caller->lock, NULL);
    (void)pthread_cond_init(&caller->done, NULL);
}

enum ps_status load_call(struct load_caller *caller, struct ps_channel *channel, const char *method,
                         const struct ps_out *out, uint32_t timeout_ms)
{
    caller->is_done = false;
    caller->request = (struct ps_request){
        .method = method, .timeout_ms = timeout_ms, .out = *out, .done = on_done};
    ps_request_start(channel, &caller->request);
    (void)pthread_mutex_lock(&caller->lock);
    while (!caller->is_done) {
        (void)pthread_cond_wait(&caller->done, &caller->lock);
    }
    (void)pthread_mutex_unlock(&caller->lock);
    return caller->request.err.status;
}

/* ---- The coordinator ------------------------------------------------------------------------ */

/* One cold call, repeated while that may help; NULL and session->err when it was refused. */
static ProtobufCMessage *ask(struct load_session *session, const char *method,
                             const ProtobufCMessage *request,
                             const ProtobufCMessageDescriptor *reply)
{
    uint8_t bytes[COLD_BYTES];
    bool fits = false;
    struct ps_out out = {.head = bytes,
                         .n_head_bytes = ps_wire_pack(request, bytes, sizeof(bytes), &fits)};
    PS_ASSERT(fits);
    struct load_caller *caller = &session->caller;
    enum ps_status status = load_call(caller, session->control, method, &out, COLD_MS);
    while (status == PS_ERR_BUSY) {
        load_wait_ms(BUSY_RETRY_MS);
        status = load_call(caller, session->control, method, &out, COLD_MS);
    }
    if (status != PS_OK) {
        session->err = caller->request.err;
        return NULL;
    }
    struct ps_msg *msg = caller->request.reply;
    ProtobufCMessage *message = ps_wire_unpack(reply, msg->slices, msg->n_slices, NULL);
    ps_msg_unref(msg);
    PS_ASSERT(message != NULL);
    return message;
}

static ProtobufCBinaryData id_of(struct load_session *session)
{
    return (ProtobufCBinaryData){.len = sizeof(session->id.bytes), .data = session->id.bytes};
}

static bool join(struct load_session *session)
{
    static char name[] = "load";
    Ps__V1__JoinRequest request = PS__V1__JOIN_REQUEST__INIT;
    request.protocol_min = PS_PROTOCOL_MIN;
    request.protocol_max = PS_PROTOCOL_MAX;
    request.kind = PS__V1__SESSION_KIND__WORKER;
    request.name = name;
    request.session = id_of(session);
    Ps__V1__JoinReply *reply = (Ps__V1__JoinReply *)ask(
        session, "/ps.v1.Coordinator/Join", &request.base, &ps__v1__join_reply__descriptor);
    if (reply == NULL) {
        return false;
    }
    session->number = reply->session_number;
    session->generation = reply->generation;
    ps_wire_unpacked_free(&reply->base);
    return true;
}

static bool define(struct load_session *session)
{
    static char name[] = "load";
    static char sgd[] = "sgd";
    uint64_t shape[1] = {session->options->elements};
    Ps__V1__Optimizer optimizer = PS__V1__OPTIMIZER__INIT;
    Ps__V1__TableDefinition table = PS__V1__TABLE_DEFINITION__INIT;
    Ps__V1__DefineTableRequest request = PS__V1__DEFINE_TABLE_REQUEST__INIT;
    optimizer.name = sgd;
    table.name = name;
    table.n_shape = 1;
    table.shape = shape;
    table.dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    table.optimizer = &optimizer;
    request.session = id_of(session);
    request.definition = &table;
    Ps__V1__DefineTableReply *reply =
        (Ps__V1__DefineTableReply *)ask(session, "/ps.v1.Coordinator/DefineTable", &request.base,
                                        &ps__v1__define_table_reply__descriptor);
    if (reply == NULL) {
        return false;
    }
    session->table.number = reply->table->number;
    enum ps_status status =
        ps_layout_table(shape, 1, reply->table->first_slot, &session->table.layout, &session->err);
    ps_wire_unpacked_free(&reply->base);
    return status == PS_OK;
}

static bool learn_epochs(struct load_session *session)
{
    Ps__V1__DescribeRequest request = PS__V1__DESCRIBE_REQUEST__INIT;
    Ps__V1__DescribeReply *reply = (Ps__V1__DescribeReply *)ask(
        session, "/ps.v1.Coordinator/Describe", &request.base, &ps__v1__describe_reply__descriptor);
    if (reply == NULL) {
        return false;
    }
    PS_ASSERT(reply->placement != NULL && reply->placement->n_epoch == PS_SLOTS);
    memcpy(session->table.epoch, reply->placement->epoch, sizeof(session->table.epoch));
    ps_wire_unpacked_free(&reply->base);
    return true;
}

enum ps_status load_tick(struct load_session *session)
{
    uint64_t now_ms = load_now_ms();
    if (now_ms - session->ticked_ms < TICK_MS) {
        return PS_OK;
    }
    Ps__V1__AttendReport report = PS__V1__ATTEND_REPORT__INIT;
    Ps__V1__TickRequest request = PS__V1__TICK_REQUEST__INIT;
    report.session = id_of(session);
    report.session_number = session->number;
    request.report = &report;
    Ps__V1__TickReply *reply = (Ps__V1__TickReply *)ask(
        session, "/ps.v1.Coordinator/Tick", &request.base, &ps__v1__tick_reply__descriptor);
    if (reply == NULL) {
        session->err.status = PS_OK;
        return PS_OK; /* The next one. */
    }
    bool fenced = reply->state == NULL || reply->state->fenced;
    ps_wire_unpacked_free(&reply->base);
    session->ticked_ms = now_ms;
    return fenced ? PS_ERR_FENCED : PS_OK;
}

enum ps_status load_open(struct load_session *session)
{
    struct ps_transport *transport = session->transport;
    const char *address = session->options->coordinator;
    static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};
    struct ps_error *err = &session->err;
    load_caller_init(&session->caller);
    ps_random_id(&session->id);
    if (ps_channel_open(transport, address, PS_TRAFFIC_CONTROL, &insecure, &session->control,
                        err) != PS_OK ||
        ps_channel_open(transport, address, PS_TRAFFIC_DATA, &insecure, &session->data, err) !=
            PS_OK) {
        return err->status;
    }
    session->ticked_ms = load_now_ms();
    return join(session) && define(session) && learn_epochs(session) ? PS_OK : err->status;
}

void load_share(struct load_session *session, const struct load_session *leader)
{
    load_caller_init(&session->caller);
    session->control = leader->control;
    session->data = leader->data;
    session->id = leader->id;
    session->number = leader->number;
    session->generation = leader->generation;
    session->table = leader->table;
    session->ticked_ms = leader->ticked_ms;
}

void load_close(struct load_session *session)
{
    Ps__V1__LeaveRequest request = PS__V1__LEAVE_REQUEST__INIT;
    struct ps_error err = session->err;
    request.session = id_of(session);
    ps_wire_unpacked_free(
        ask(session, "/ps.v1.Coordinator/Leave", &request.base, &ps__v1__leave_reply__descriptor));
    session->err = err;
    ps_channel_close(session->control);
    ps_channel_close(session->data);
}
