/*
 * rpc_listener.c — the server side: binding, slots that wait for calls, ordered stop.
 *
 *   idle --room in the gate--> armed --a call arrives--> idle again, the call goes its own way
 *
 * A slot is armed only while its class of traffic has room, so calls beyond the bounds wait in
 * gRPC with their messages unread. Which of those that came in are read, and when they have to go
 * again, is decided in rpc_guard.c.
 */
#include <stdio.h>
#include <string.h>

#include <grpc/grpc_security.h>

#include "base/assert.h"
#include "os/clock.h"
#include "rpc/rpc_impl.h"

#define SLOTS_PER_METHOD 4 /* And queue: so many arrive without a turn of the queue's thread. */
#define STRAYS_ARMED     2

PS_STATIC_ASSERT(PS_RPC_CALLS_PER_PEER >= PS_SESSIONS_MAX,
                 "sessions that share a connection must not lock one another out of a barrier");

#define INTEGER_ARG(name, number)                                                      \
    {                                                                                  \
        .type = GRPC_ARG_INTEGER, .key = key_of(name), .value = {.integer = (number) } \
    }

/* gRPC's keys are literals that it only reads. */
static char *key_of(const char *name)
{
    union {
        const char *given;
        char *wanted;
    } key = {.given = name};
    return key.wanted;
}

static struct ps_rpc_listener *listener_of(struct ps_listener *base)
{
    return PS_CONTAINER_OF(base, struct ps_rpc_listener, base);
}

static void lock(struct ps_rpc_listener *listener)
{
    int failed = pthread_mutex_lock(&listener->lock);
    PS_ASSERT(failed == 0);
}

static void unlock(struct ps_rpc_listener *listener)
{
    int failed = pthread_mutex_unlock(&listener->lock);
    PS_ASSERT(failed == 0);
}

static void lock_rpc(struct ps_rpc *rpc)
{
    int failed = pthread_mutex_lock(&rpc->lock);
    PS_ASSERT(failed == 0);
}

static void unlock_rpc(struct ps_rpc *rpc)
{
    int failed = pthread_mutex_unlock(&rpc->lock);
    PS_ASSERT(failed == 0);
}

/* ---- Arming -------------------------------------------------------------------------------- */

static struct ps_rpc_slot *take_slot(struct ps_rpc_listener *listener, struct ps_rpc_gate *gate)
{
    const struct ps_rpc_options *options = &listener->rpc->options;
    struct ps_rpc_slot *slot = NULL;
    lock(listener);
    if (!listener->stopping && !ps_list_empty(&gate->idle) && gate->n_live < options->n_calls_max) {
        slot = PS_CONTAINER_OF(gate->idle.next, struct ps_rpc_slot, node);
        ps_list_remove(&slot->node);
        listener->n_armed++;
    }
    unlock(listener);
    return slot;
}

static void arm(struct ps_rpc_listener *listener, struct ps_rpc_gate *gate)
{
    for (;;) {
        struct ps_rpc_slot *slot = take_slot(listener, gate);
        if (slot == NULL) {
            return;
        }
        grpc_metadata_array_init(&slot->metadata);
        slot->call = NULL;
        PS_RPC_HANDOFF(&slot->arrived);
        grpc_call_error failed = grpc_server_request_registered_call(
            listener->server, slot->registered, &slot->call, &slot->deadline, &slot->metadata, NULL,
            slot->cq, slot->cq, &slot->arrived);
        PS_ASSERT(failed == GRPC_CALL_OK);
    }
}

bool ps_rpc_listener_arm_one(struct ps_rpc_listener *listener)
{
    lock(listener);
    bool may = !listener->stopping;
    listener->n_armed += may ? 1 : 0;
    unlock(listener);
    return may;
}

void ps_rpc_listener_disarmed(struct ps_rpc_listener *listener, bool arrived)
{
    lock(listener);
    listener->n_armed--;
    listener->n_objects += arrived ? 1 : 0;
    (void)pthread_cond_broadcast(&listener->changed);
    unlock(listener);
}

void ps_rpc_listener_stray_left(struct ps_rpc_listener *listener)
{
    lock(listener);
    listener->n_objects--;
    (void)pthread_cond_broadcast(&listener->changed);
    unlock(listener);
}

/* Without memory the caller is dropped: it sees a cancelled call and tries again later. */
static void begin(struct ps_rpc_slot *slot)
{
    bool unary = slot->method->kind == PS_METHOD_UNARY;
    bool begun = unary ? ps_rpc_call_begin(slot) : ps_rpc_stream_begin(slot);
    if (!begun) {
        grpc_metadata_array_destroy(&slot->metadata);
        grpc_call_unref(slot->call);
        lock(slot->listener);
        slot->listener->gates[slot->method->traffic].n_live++;
        unlock(slot->listener);
        ps_rpc_listener_left(slot->listener, slot->method);
    }
}

static void on_arrived(struct ps_rpc_tag *tag, bool ok)
{
    struct ps_rpc_slot *slot = PS_CONTAINER_OF(tag, struct ps_rpc_slot, arrived);
    struct ps_rpc_listener *listener = slot->listener;
    struct ps_rpc_gate *gate = &listener->gates[slot->method->traffic];
    if (!ok) { /* The server shuts down. */
        grpc_metadata_array_destroy(&slot->metadata);
        ps_rpc_listener_disarmed(listener, false);
        return;
    }
    lock(listener);
    listener->n_objects++;
    unlock(listener);
    begin(slot);
    lock(listener);
    ps_list_append(&gate->idle, &slot->node);
    unlock(listener);
    arm(listener, gate);
    ps_rpc_listener_disarmed(listener, false); /* Last: until then it cannot be freed. */
}

void ps_rpc_listener_read_done(struct ps_rpc_listener *listener, enum ps_traffic traffic)
{
    struct ps_rpc_gate *gate = &listener->gates[traffic];
    lock(listener);
    gate->n_reading--;
    (void)pthread_cond_broadcast(&listener->changed);
    unlock(listener);
}

void ps_rpc_listener_debt_owed(struct ps_rpc_listener *listener)
{
    lock(listener);
    listener->n_debts++;
    unlock(listener);
}

void ps_rpc_listener_debt_paid(struct ps_rpc_listener *listener)
{
    lock(listener);
    PS_ASSERT(listener->n_debts > 0);
    listener->n_debts--;
    unlock(listener);
}

void ps_rpc_listener_left(struct ps_rpc_listener *listener, const struct ps_method *method)
{
    struct ps_rpc_gate *gate = &listener->gates[method->traffic];
    lock(listener);
    bool was_full = gate->n_live >= listener->rpc->options.n_calls_max;
    gate->n_live--;
    unlock(listener);
    if (was_full) {
        arm(listener, gate); /* Before the last word: afterwards the listener may be freed. */
    }
    ps_rpc_listener_stray_left(listener);
}

/* ---- Opening ------------------------------------------------------------------------------- */

static grpc_server *make_server(struct ps_rpc *rpc)
{
    const struct ps_rpc_options *options = &rpc->options;
    grpc_arg args[] = {
        {.type = GRPC_ARG_POINTER,
         .key = key_of(GRPC_ARG_RESOURCE_QUOTA),
         .value = {.pointer = {.p = rpc->quota, .vtable = grpc_resource_quota_arg_vtable()}}},
        INTEGER_ARG(GRPC_ARG_ALLOW_REUSEPORT, 0), /* Else two servers share a port in silence. */
        INTEGER_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)options->n_message_bytes_max),
        INTEGER_ARG(GRPC_ARG_MAX_METADATA_SIZE, PS_RPC_METADATA_BYTES),
        INTEGER_ARG(GRPC_ARG_MAX_CONCURRENT_STREAMS, PS_RPC_CALLS_PER_PEER),
        INTEGER_ARG(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, PS_RPC_HANDSHAKE_MS),
        INTEGER_ARG(GRPC_ARG_MAX_CONNECTION_IDLE_MS, PS_RPC_IDLE_MS),
        INTEGER_ARG(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, PS_RPC_FRAME_BYTES),
        INTEGER_ARG(GRPC_ARG_HTTP2_BDP_PROBE, 0), /* It would let the window grow. */
        INTEGER_ARG(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, PS_RPC_WINDOW_BYTES),
        INTEGER_ARG(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PS_RPC_PING_MIN_MS),
        INTEGER_ARG(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        INTEGER_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, (int)options->keepalive_ms),
        INTEGER_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, (int)options->ping_answer_ms),
        INTEGER_ARG(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1), /* No gzip bombs: */
        INTEGER_ARG(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0), /* nothing is inflated. */
        INTEGER_ARG(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    grpc_channel_args all = {.num_args = PS_ARRAY_LEN(args), .args = args};
    grpc_server *server = grpc_server_create(&all, NULL);
    for (uint32_t i = 0; i < rpc->n_queues; i++) {
        grpc_server_register_completion_queue(server, rpc->queues[i].cq, NULL);
    }
    grpc_server_register_completion_queue(server, rpc->io[0].cq, NULL);
    return server;
}

static size_t n_queues_of(const struct ps_rpc *rpc, const struct ps_method *method)
{
    return method->traffic == PS_TRAFFIC_CONTROL ? 1 : rpc->n_queues - 1;
}

static void add_method(struct ps_rpc_listener *listener, const struct ps_method *method)
{
    struct ps_rpc *rpc = listener->rpc;
    void *registered =
        grpc_server_register_method(listener->server, method->path, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
    PS_ASSERT(registered != NULL); /* Two rows with one path. */
    size_t first_queue = method->traffic == PS_TRAFFIC_CONTROL ? 0 : 1;
    size_t n_queues = n_queues_of(rpc, method);
    for (size_t i = 0; i < n_queues * SLOTS_PER_METHOD; i++) {
        struct ps_rpc_slot *slot = &listener->slots[listener->n_slots++];
        slot->arrived.done = on_arrived;
        slot->listener = listener;
        slot->method = method;
        slot->registered = registered;
        slot->cq = rpc->queues[first_queue + i % n_queues].cq;
        ps_list_init(&slot->node);
        ps_list_append(&listener->gates[method->traffic].idle, &slot->node);
    }
}

static enum ps_status bind_port(struct ps_rpc_listener *listener, const char *address,
                                struct ps_error *err)
{
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(listener->server, address, creds);
    grpc_server_credentials_release(creds);
    if (port == 0) {
        return ps_fail(err, PS_ERR_IO, "cannot listen on %s", address);
    }
    return ps_rpc_address_served(address, port, listener->address, sizeof(listener->address))
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "address is too long");
}

static struct ps_rpc_listener *create(struct ps_rpc *rpc, const struct ps_method *methods,
                                      size_t n_methods)
{
    struct ps_rpc_listener *listener =
        ps_mem_alloc(rpc->options.mem, PS_MEM_OTHER, sizeof(*listener));
    if (listener == NULL) {
        return NULL;
    }
    size_t n_slots = 0;
    for (size_t i = 0; i < n_methods; i++) {
        n_slots += n_queues_of(rpc, &methods[i]) * SLOTS_PER_METHOD;
    }
    listener->slots =
        ps_mem_array(rpc->options.mem, PS_MEM_OTHER, n_slots, sizeof(listener->slots[0]));
    if (listener->slots == NULL) {
        ps_mem_free(listener);
        return NULL;
    }
    listener->base.transport = &rpc->base;
    listener->rpc = rpc;
    listener->methods = methods;
    listener->n_methods = n_methods;
    listener->lock_fd = -1;
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);
    failed |= pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    failed |= pthread_cond_init(&listener->changed, &attr);
    failed |= pthread_condattr_destroy(&attr);
    failed |= pthread_mutex_init(&listener->lock, NULL);
    PS_ASSERT(failed == 0);
    for (int i = 0; i < PS_RPC_TRAFFIC_COUNT; i++) {
        ps_rpc_gate_init(&listener->gates[i]);
    }
    ps_list_init(&listener->node);
    lock_rpc(rpc);
    ps_list_append(&rpc->listeners, &listener->node);
    unlock_rpc(rpc);
    return listener;
}

static void destroy(struct ps_rpc_listener *listener)
{
    lock_rpc(listener->rpc);
    ps_list_remove(&listener->node);
    unlock_rpc(listener->rpc);
    grpc_server_destroy(listener->server);
    ps_rpc_address_release(listener->lock_fd);
    ps_rpc_calls_free(listener);
    (void)pthread_cond_destroy(&listener->changed);
    (void)pthread_mutex_destroy(&listener->lock);
    (void)atomic_fetch_sub(&listener->rpc->n_open, 1);
    ps_mem_free(listener->slots);
    ps_mem_free(listener);
}

static void start(struct ps_rpc_listener *listener)
{
    grpc_server_start(listener->server);
    for (int i = 0; i < PS_RPC_TRAFFIC_COUNT; i++) {
        arm(listener, &listener->gates[i]);
    }
    for (int i = 0; i < STRAYS_ARMED; i++) {
        ps_rpc_stray_arm(listener);
    }
}

enum ps_status ps_rpc_listener_open(struct ps_transport *transport,
                                    const struct ps_service *service, struct ps_listener **ret,
                                    struct ps_error *err)
{
    struct ps_rpc *rpc = PS_CONTAINER_OF(transport, struct ps_rpc, base);
    PS_ASSERT(service->creds == NULL || service->creds->kind == PS_CREDS_INSECURE);
    int lock_fd = -1;
    enum ps_status status = ps_rpc_address_claim(service->address, &lock_fd, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_rpc_listener *listener = create(rpc, service->methods, service->n_methods);
    if (listener == NULL) {
        ps_rpc_address_release(lock_fd);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a listener");
    }
    listener->lock_fd = lock_fd;
    (void)atomic_fetch_add(&rpc->n_open, 1);

    sigset_t before;
    ps_rpc_signals_block(&before);
    listener->server = make_server(rpc);
    for (size_t i = 0; i < service->n_methods; i++) {
        add_method(listener, &service->methods[i]);
    }
    status = bind_port(listener, service->address, err);
    start(listener); /* Also when binding failed: one way to end. */
    ps_rpc_signals_restore(&before);
    if (status != PS_OK) {
        ps_rpc_listener_stop(&listener->base, 0);
        ps_rpc_listener_close(&listener->base);
        return status;
    }
    *ret = &listener->base;
    return PS_OK;
}

const char *ps_rpc_listener_address(const struct ps_listener *base)
{
    const struct ps_rpc_listener *listener = (const struct ps_rpc_listener *)base;
    return listener->address;
}

/* ---- Stopping ------------------------------------------------------------------------------ */

static void on_down(struct ps_rpc_tag *tag, bool ok PS_UNUSED)
{
    struct ps_rpc_listener *listener = PS_CONTAINER_OF(tag, struct ps_rpc_listener, down);
    lock(listener);
    listener->is_down = true;
    (void)pthread_cond_broadcast(&listener->changed);
    unlock(listener);
}

/* Requests that a handler may yet get to see. */
static uint32_t n_reading(const struct ps_rpc_listener *listener)
{
    uint32_t n = 0;
    for (int i = 0; i < PS_RPC_TRAFFIC_COUNT; i++) {
        n += listener->gates[i].n_reading;
    }
    return n;
}

/* Until gRPC is done, or nothing is under way any more, or the grace has passed. */
static void wait_for_calls(struct ps_rpc_listener *listener, uint32_t grace_ms)
{
    uint64_t until_ms = ps_clock_ms() + grace_ms;
    struct timespec until = {
        .tv_sec = (time_t)(until_ms / 1000),
        .tv_nsec = (long)(until_ms % 1000) * 1000000,
    };
    lock(listener);
    int late = 0;
    while (!listener->is_down && listener->n_objects > 0 && late == 0) {
        late = pthread_cond_timedwait(&listener->changed, &listener->lock, &until);
    }
    unlock(listener);
}

bool ps_rpc_listener_canceling(struct ps_rpc_listener *listener)
{
    lock(listener);
    bool canceling = listener->canceling;
    unlock(listener);
    return canceling;
}

void ps_rpc_listener_stop(struct ps_listener *base, uint32_t grace_ms)
{
    struct ps_rpc_listener *listener = listener_of(base);
    lock(listener);
    bool again = listener->stopping;
    listener->stopping = true;
    unlock(listener);
    if (again) {
        return;
    }
    listener->down.done = on_down;
    PS_RPC_HANDOFF(&listener->down);
    grpc_server_shutdown_and_notify(listener->server, listener->rpc->queues[0].cq, &listener->down);
    wait_for_calls(listener, grace_ms);
    lock(listener);
    listener->canceling = true;
    unlock(listener);
    /* Also drops idle connections, which else hold the notice for as long as they like. */
    grpc_server_cancel_all_calls(listener->server);
    lock(listener);
    while (!listener->is_down || listener->n_armed > 0 || n_reading(listener) > 0) {
        (void)pthread_cond_wait(&listener->changed, &listener->lock);
    }
    unlock(listener);
}

void ps_rpc_listener_close(struct ps_listener *base)
{
    struct ps_rpc_listener *listener = listener_of(base);
    lock(listener);
    PS_ASSERT(listener->is_down);      /* Stopped. */
    PS_ASSERT(listener->n_debts == 0); /* A call never finished, a stream never released. */
    while (listener->n_objects > 0) {  /* What was finished just now is on its way out. */
        (void)pthread_cond_wait(&listener->changed, &listener->lock);
    }
    unlock(listener);
    destroy(listener);
}
