/*
 * rpc_guard.c — what a peer may hold here, and for how long. gRPC itself lets it hold everything
 * until a deadline that the peer chooses.
 *
 *   unary    arrives --+--> READING --whole--> HANDLED --finish--> LEAVING --> gone
 *                      +--> WAITING: all places are taken, or enough by its connection
 *   stream   OPENING: nothing said yet --first message--> HANDLED --close--> LEAVING --> gone
 *
 * Whatever the others do, a connection has some places of its own: who holds many of them open
 * harms itself. Each stage but HANDLED has an end in time, after which the call is cancelled; while
 * no call can be let in any more, whoever has not said all has to make way sooner.
 */
#include <grpc/support/alloc.h>

#include "base/assert.h"
#include "base/mem.h"
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
    return &listener->gates[guest->method->traffic];
}

static uint64_t passage_ms(const struct ps_rpc_listener *listener, size_t n_bytes)
{
    return listener->rpc->options.passage_ms + n_bytes / PS_PASSAGE_BYTES_PER_MS;
}

void ps_rpc_gate_init(struct ps_rpc_gate *gate)
{
    ps_list_init(&gate->idle);
    ps_list_init(&gate->reading);
    ps_list_init(&gate->others);
    ps_list_init(&gate->turns);
    for (uint32_t i = 0; i < PS_RPC_PEER_BUCKETS; i++) {
        ps_list_init(&gate->peers[i]);
    }
}

/* gRPC keeps to its limit only with a peer that has acknowledged our settings. */
static bool over_limit(const grpc_metadata_array *metadata)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < metadata->count; i++) {
        n_bytes += GRPC_SLICE_LENGTH(metadata->metadata[i].key) +
                   GRPC_SLICE_LENGTH(metadata->metadata[i].value);
    }
    return n_bytes > PS_RPC_METADATA_BYTES;
}

void ps_rpc_guest_init(struct ps_rpc_guest *guest, const struct ps_rpc_slot *slot)
{
    ps_list_init(&guest->node);
    guest->method = slot->method;
    guest->stage = PS_RPC_HANDLED;
    guest->call = slot->call;
    guest->peer = NULL;
    guest->n_untaken = 0;
    guest->fat = over_limit(&slot->metadata);
}

/* What follows needs the lock, up to the functions for others. */

static struct ps_rpc_peer *peer_join(struct ps_rpc_listener *listener, struct ps_rpc_gate *gate,
                                     uint64_t id)
{
    struct ps_list *bucket = &gate->peers[id % PS_RPC_PEER_BUCKETS];
    ps_list_for_each (at, bucket) {
        struct ps_rpc_peer *peer = PS_CONTAINER_OF(at, struct ps_rpc_peer, node);
        if (peer->id == id) {
            peer->n_guests++;
            return peer;
        }
    }
    struct ps_rpc_peer *peer =
        ps_mem_alloc(listener->rpc->options.mem, PS_MEM_CALLS, sizeof(*peer));
    if (peer != NULL) {
        peer->id = id;
        peer->n_guests = 1;
        ps_list_init(&peer->turn);
        ps_list_init(&peer->waiting);
        ps_list_append(bucket, &peer->node);
    }
    return peer;
}

static void peer_part(struct ps_rpc_guest *guest)
{
    struct ps_rpc_peer *peer = guest->peer;
    guest->peer = NULL;
    peer->n_guests--;
    if (peer->n_guests == 0) {
        ps_list_remove(&peer->node);
        ps_mem_free(peer);
    }
}

/* Out of whatever stage it is in. */
static void take_out(struct ps_rpc_gate *gate, struct ps_rpc_guest *guest)
{
    struct ps_rpc_peer *peer = guest->peer;
    ps_list_remove(&guest->node);
    switch (guest->stage) {
    case PS_RPC_WAITING:
        gate->n_waiting--;
        if (ps_list_empty(&peer->waiting)) {
            ps_list_remove(&peer->turn);
        }
        break;
    case PS_RPC_READING: peer->n_reading--; break;
    case PS_RPC_OPENING: peer->n_opening--; break;
    case PS_RPC_HANDLED:
    case PS_RPC_LEAVING: break;
    }
    guest->stage = PS_RPC_HANDLED;
}

static void put_in(struct ps_rpc_guest *guest, struct ps_list *list, enum ps_rpc_stage stage,
                   uint64_t allowed_ms)
{
    guest->stage = stage;
    guest->since_ms = ps_clock_ms();
    guest->until_ms = guest->since_ms + allowed_ms;
    guest->told_to_go = false;
    ps_list_append(list, &guest->node);
}

/* ---- Requests ------------------------------------------------------------------------------ */

static bool place_free(const struct ps_rpc_listener *listener, const struct ps_rpc_gate *gate,
                       const struct ps_rpc_peer *peer)
{
    const struct ps_rpc_options *options = &listener->rpc->options;
    return peer->n_reading < PS_RPC_READS_OWN ||
           (peer->n_reading < options->n_reads_per_peer && gate->n_reading < options->n_reads_max);
}

static void begin_reading(struct ps_rpc_gate *gate, struct ps_rpc_guest *guest, uint64_t allowed_ms)
{
    put_in(guest, &gate->reading, PS_RPC_READING, allowed_ms);
    guest->peer->n_reading++;
    gate->n_reading++;
    gate->n_live++;
}

static void begin_waiting(struct ps_rpc_gate *gate, struct ps_rpc_guest *guest, uint64_t allowed_ms)
{
    struct ps_rpc_peer *peer = guest->peer;
    if (ps_list_empty(&peer->waiting)) {
        ps_list_append(&gate->turns, &peer->turn);
    }
    put_in(guest, &peer->waiting, PS_RPC_WAITING, allowed_ms);
    gate->n_waiting++;
}

static uint64_t reading_ms(const struct ps_rpc_listener *listener, const struct ps_method *method)
{
    return passage_ms(listener, ps_rpc_bytes_max(listener->rpc, method));
}

static enum ps_rpc_entry enter(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest,
                               uint64_t id)
{
    struct ps_rpc_gate *gate = gate_of(listener, guest);
    uint64_t allowed_ms = reading_ms(listener, guest->method);
    if (guest->fat) {
        gate->n_live++;
        return PS_RPC_ENTRY_FAT;
    }
    guest->peer = peer_join(listener, gate, id);
    if (guest->peer == NULL) {
        gate->n_live++;
        return PS_RPC_ENTRY_NOMEM;
    }
    if (place_free(listener, gate, guest->peer)) {
        begin_reading(gate, guest, allowed_ms);
        return PS_RPC_ENTRY_READ;
    }
    if (gate->n_waiting < PS_RPC_WAITING_MAX && guest->peer->n_guests <= PS_RPC_CALLS_PER_PEER) {
        begin_waiting(gate, guest, allowed_ms);
        return PS_RPC_ENTRY_WAIT;
    }
    peer_part(guest);
    gate->n_live++; /* Until it has been told. */
    return PS_RPC_ENTRY_BUSY;
}

enum ps_rpc_entry ps_rpc_guest_enter(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    uint64_t id = peer_of(guest->call);
    lock(&listener->lock);
    enum ps_rpc_entry entry = enter(listener, guest, id);
    unlock(&listener->lock);
    return entry;
}

bool ps_rpc_guest_give_up(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    struct ps_rpc_gate *gate = gate_of(listener, guest);
    lock(&listener->lock);
    bool waiting = guest->stage == PS_RPC_WAITING;
    if (waiting) {
        take_out(gate, guest);
        begin_reading(gate, guest, reading_ms(listener, guest->method));
    }
    unlock(&listener->lock);
    return waiting;
}

void ps_rpc_guest_arrived(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    lock(&listener->lock);
    take_out(gate_of(listener, guest), guest);
    peer_part(guest);
    unlock(&listener->lock);
}

struct ps_rpc_guest *ps_rpc_guest_next(struct ps_rpc_listener *listener, enum ps_traffic traffic)
{
    struct ps_rpc_gate *gate = &listener->gates[traffic];
    struct ps_rpc_guest *next = NULL;
    lock(&listener->lock);
    ps_list_for_each (at, &gate->turns) {
        struct ps_rpc_peer *peer = PS_CONTAINER_OF(at, struct ps_rpc_peer, turn);
        if (place_free(listener, gate, peer)) {
            next = PS_CONTAINER_OF(peer->waiting.next, struct ps_rpc_guest, node);
            take_out(gate, next);
            begin_reading(gate, next, reading_ms(listener, next->method));
            if (!ps_list_empty(&peer->turn)) { /* To the end of the row. */
                ps_list_remove(&peer->turn);
                ps_list_append(&gate->turns, &peer->turn);
            }
            break;
        }
    }
    unlock(&listener->lock);
    return next;
}

/* ---- Streams, and the way out -------------------------------------------------------------- */

static enum ps_rpc_entry open_stream(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest,
                                     uint64_t id)
{
    struct ps_rpc_gate *gate = gate_of(listener, guest);
    gate->n_live++;
    if (guest->fat) {
        return PS_RPC_ENTRY_FAT;
    }
    guest->peer = peer_join(listener, gate, id);
    if (guest->peer == NULL) {
        return PS_RPC_ENTRY_NOMEM;
    }
    if (guest->peer->n_opening >= PS_RPC_OPENING_PER_PEER) {
        peer_part(guest);
        return PS_RPC_ENTRY_BUSY;
    }
    guest->peer->n_opening++;
    put_in(guest, &gate->others, PS_RPC_OPENING, passage_ms(listener, PS_CONTROL_BYTES_MAX));
    return PS_RPC_ENTRY_READ;
}

enum ps_rpc_entry ps_rpc_guest_open(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    uint64_t id = peer_of(guest->call);
    lock(&listener->lock);
    enum ps_rpc_entry entry = open_stream(listener, guest, id);
    unlock(&listener->lock);
    return entry;
}

static void stop_opening(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    take_out(gate_of(listener, guest), guest);
    if (guest->peer != NULL) {
        peer_part(guest);
    }
}

void ps_rpc_guest_spoke(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    lock(&listener->lock);
    if (guest->stage == PS_RPC_OPENING) {
        stop_opening(listener, guest);
    }
    unlock(&listener->lock);
}

void ps_rpc_guest_leave(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest,
                        size_t n_bytes)
{
    lock(&listener->lock);
    stop_opening(listener, guest);
    put_in(guest, &gate_of(listener, guest)->others, PS_RPC_LEAVING, passage_ms(listener, n_bytes));
    unlock(&listener->lock);
}

void ps_rpc_guest_left(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest)
{
    lock(&listener->lock);
    stop_opening(listener, guest);
    gate_of(listener, guest)->n_untaken -= guest->n_untaken;
    guest->n_untaken = 0;
    unlock(&listener->lock);
}

/* Each call may have an answer, and its peer takes its time: so places alone are no bound. */
bool ps_rpc_guest_give(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest, size_t n_bytes)
{
    struct ps_rpc_gate *gate = gate_of(listener, guest);
    lock(&listener->lock);
    bool may = n_bytes <= PS_RPC_UNTAKEN_SMALL ||
               gate->n_untaken + n_bytes <= listener->rpc->options.n_untaken_max;
    if (may) {
        gate->n_untaken += n_bytes;
        guest->n_untaken += n_bytes;
    }
    unlock(&listener->lock);
    return may;
}

void ps_rpc_guest_took(struct ps_rpc_listener *listener, struct ps_rpc_guest *guest, size_t n_bytes)
{
    lock(&listener->lock);
    PS_ASSERT(guest->n_untaken >= n_bytes);
    gate_of(listener, guest)->n_untaken -= n_bytes;
    guest->n_untaken -= n_bytes;
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
            gate->n_live >= options->n_calls_max || gate->n_waiting >= PS_RPC_WAITING_MAX;
        find_late(listener, &gate->reading, crowded, ret);
        find_late(listener, &gate->others, crowded, ret);
        ps_list_for_each (at, &gate->turns) {
            struct ps_rpc_peer *peer = PS_CONTAINER_OF(at, struct ps_rpc_peer, turn);
            find_late(listener, &peer->waiting, crowded, ret);
        }
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
