/*
 * rpc_guard.c — what a peer may hold here, and for how long. gRPC itself lets it hold everything
 * until a deadline that the peer chooses.
 *
 *   unary    arrives --+--> READING --whole--> HANDLED --finish--> LEAVING --> gone
 *                      +--> WAITING: its connection holds enough reading places
 *   stream   OPENING: nothing said yet --first message--> HANDLED --close--> LEAVING --> gone
 *
 * Each stage but HANDLED has an end in time, after which the call is cancelled. While all places
 * of its class of traffic are taken, whoever has not said all has to make way sooner.
 */
#include <grpc/support/alloc.h>

#include "base/assert.h"
#include "os/clock.h"
#include "rpc/rpc_impl.h"

#define SWEEP_AT_ONCE 64u /* Calls cancelled per look with the lock; the next look comes at once. */

#define FNV_OFFSET 0xcbf29ce484222325u
#define FNV_PRIME  0x00000100000001b3u

static void lock(pthread_mutex_t *mutex)
{
    int failed = pthread_mutex_lock(mutex);
    PS_ASSERT(failed == 0);
}

static void unlock(pthread_mutex_t *mutex)
{
    int failed = pthread_mutex_unlock(mutex);
    PS_ASSERT(failed == 0);
}

/* The connection as a number: gRPC names it by address and port. Unix sockets are all one. */
static uint64_t peer_of(grpc_call *call)
{
    char *name = grpc_call_get_peer(call);
    uint64_t hash = FNV_OFFSET;
    for (const char *at = name; at != NULL && *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * FNV_PRIME;
    }
    gpr_free(name);
    return hash;
}

static struct ps_rpc_gate *gate_of(struct ps_rpc_listener *listener,
                                   const struct ps_rpc_guest *guest)
{
    return &listener->gates[guest->traffic];
}

static uint64_t passage_ms(const struct ps_rpc_listener *listener, size_t n_bytes)
{
    return listener->rpc->options.passage_ms + n_bytes / PS_PASSAGE_BYTES_PER_MS;
}

/* With the lock held. */
static void move_to(struct ps_rpc_guest *guest, struct ps_list *list, enum ps_rpc_stage stage)
{
    if (guest->stage != PS_RPC_HANDLED) {
        ps_list_remove(&guest->node);
    }
    guest->stage = stage;
    if (list != NULL) {
        ps_list_append(list, &guest->node);
    }
}

static void set_time(struct ps_rpc_guest *guest, uint64_t allowed_ms)
{
    guest->since_ms = ps_clock_ms();
    guest->until_ms = guest->since_ms + allowed_ms;
    guest->told_to_go = false;
}

void ps_rpc_guest_init(struct ps_rpc_guest *guest, enum ps_traffic traffic, grpc_call *call)
{
    ps_list_init(&guest->node);
    guest->traffic = traffic;
    guest->stage = PS_RPC_HANDLED;
    guest->call = call;
}

/* ---- Requests ------------------------------------------------------------------------------ */

static bool place_free(const struct ps_rpc_listener *listener, const struct ps_rpc_gate *gate,
                       uint64_t peer)
{
    uint32_t n = 0;
    ps_list_for_each (at, &gate->reading) {
        n += PS_CONTAINER_OF(at, struct ps_rpc_guest, node)->peer == peer ? 1 : 0;
    }
    return n < listener->rpc->options.n_reads_per_peer;
}

bool ps_rpc_guest_enter(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    struct ps_rpc_gate *gate = gate_of(listener, guest);
    guest->peer = peer_of(guest->call);
    lock(&listener->lock);
    set_time(guest, passage_ms(listener, ps_rpc_bytes_max(listener->rpc, guest->traffic)));
    bool may_read = place_free(listener, gate, guest->peer);
    if (may_read) {
        move_to(guest, &gate->reading, PS_RPC_READING);
        gate->n_reading++;
    } else {
        move_to(guest, &gate->others, PS_RPC_WAITING);
        gate->n_waiting++;
    }
    unlock(&listener->lock);
    return may_read;
}

bool ps_rpc_guest_give_up(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    struct ps_rpc_gate *gate = gate_of(listener, guest);
    lock(&listener->lock);
    bool waiting = guest->stage == PS_RPC_WAITING;
    if (waiting) {
        move_to(guest, &gate->reading, PS_RPC_READING);
        gate->n_waiting--;
        gate->n_reading++;
    }
    unlock(&listener->lock);
    return waiting;
}

void ps_rpc_guest_arrived(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    lock(&listener->lock);
    move_to(guest, NULL, PS_RPC_HANDLED);
    unlock(&listener->lock);
}

/* The first that waits for a place of this connection. With the lock held. */
static struct ps_rpc_guest *next_waiting(struct ps_rpc_listener *listener, struct ps_rpc_gate *gate,
                                         uint64_t peer)
{
    if (gate->n_waiting == 0 || !place_free(listener, gate, peer)) {
        return NULL;
    }
    ps_list_for_each (at, &gate->others) {
        struct ps_rpc_guest *guest = PS_CONTAINER_OF(at, struct ps_rpc_guest, node);
        if (guest->stage == PS_RPC_WAITING && guest->peer == peer) {
            move_to(guest, &gate->reading, PS_RPC_READING);
            gate->n_waiting--;
            gate->n_reading++;
            return guest;
        }
    }
    return NULL;
}

struct ps_rpc_guest *ps_rpc_guest_next(struct ps_rpc_listener *listener, enum ps_traffic traffic,
                                       uint64_t peer)
{
    lock(&listener->lock);
    struct ps_rpc_guest *next = next_waiting(listener, &listener->gates[traffic], peer);
    unlock(&listener->lock);
    return next;
}

/* ---- Streams, and the way out -------------------------------------------------------------- */

void ps_rpc_guest_open(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    lock(&listener->lock);
    set_time(guest, passage_ms(listener, PS_CONTROL_BYTES_MAX));
    move_to(guest, &gate_of(listener, guest)->others, PS_RPC_OPENING);
    unlock(&listener->lock);
}

void ps_rpc_guest_spoke(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    lock(&listener->lock);
    if (guest->stage == PS_RPC_OPENING) {
        move_to(guest, NULL, PS_RPC_HANDLED);
    }
    unlock(&listener->lock);
}

void ps_rpc_guest_leave(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest,
                        size_t n_bytes)
{
    lock(&listener->lock);
    set_time(guest, passage_ms(listener, n_bytes));
    move_to(guest, &gate_of(listener, guest)->others, PS_RPC_LEAVING);
    unlock(&listener->lock);
}

void ps_rpc_guest_left(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    lock(&listener->lock);
    move_to(guest, NULL, PS_RPC_HANDLED);
    unlock(&listener->lock);
}

/* ---- Looking around ------------------------------------------------------------------------ */

struct late {
    uint32_t n;
    grpc_call *calls[SWEEP_AT_ONCE]; /* A reference on each. */
};

static void find_late(const struct ps_rpc_listener *listener, const struct ps_list *guests,
                      bool crowded, struct late *ret)
{
    uint64_t now_ms = ps_clock_ms();
    ps_list_for_each (at, guests) {
        struct ps_rpc_guest *guest = PS_CONTAINER_OF(at, struct ps_rpc_guest, node);
        uint64_t until_ms = guest->until_ms;
        uint64_t crowded_ms = guest->since_ms + listener->rpc->options.crowded_ms;
        if (crowded && guest->stage != PS_RPC_LEAVING && crowded_ms < until_ms) {
            until_ms = crowded_ms;
        }
        if (now_ms >= until_ms && !guest->told_to_go && ret->n < SWEEP_AT_ONCE) {
            guest->told_to_go = true;
            grpc_call_ref(guest->call);
            ret->calls[ret->n++] = guest->call;
        }
    }
}

static void look_at(struct ps_rpc_listener *listener, struct late *ret)
{
    const struct ps_rpc_options *options = &listener->rpc->options;
    lock(&listener->lock);
    for (int i = 0; i < PS_RPC_TRAFFIC_COUNT; i++) {
        struct ps_rpc_gate *gate = &listener->gates[i];
        bool crowded =
            gate->n_reading >= options->n_reads_max || gate->n_live >= options->n_calls_max;
        find_late(listener, &gate->reading, crowded, ret);
        find_late(listener, &gate->others, crowded, ret);
    }
    unlock(&listener->lock);
}

/* Cancelling may run the `done` of a piece, which may ask for our locks: so without them. */
void ps_rpc_guard_sweep(struct ps_rpc *rpc)
{
    struct late late;
    do {
        late.n = 0;
        lock(&rpc->lock);
        ps_list_for_each (at, &rpc->listeners) {
            look_at(PS_CONTAINER_OF(at, struct ps_rpc_listener, node), &late);
        }
        unlock(&rpc->lock);
        for (uint32_t i = 0; i < late.n; i++) {
            (void)grpc_call_cancel_with_status(late.calls[i], GRPC_STATUS_DEADLINE_EXCEEDED,
                                               "the peer was too slow within this call", NULL);
            grpc_call_unref(late.calls[i]);
        }
    } while (late.n == SWEEP_AT_ONCE);
}
