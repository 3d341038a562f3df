/*
 * sim_stream.c — streams of the simulated network: two ends, each with an inbox in which every
 * message has a time of arrival that never lies before that of the one in front of it.
 *
 *   client closes OK        server hears closed(OK) after the last message; it may still send until
 *                           it closes or releases, then the client hears closed; of a server
 *                           stream the server hears nothing
 *   client closes otherwise both inboxes are dropped, server hears closed(CANCELED)
 *   server closes           client hears closed(status) after the last message; the server's inbox
 *                           is dropped
 *   it breaks               each end hears closed(UNAVAIL) at a time of its own; what would have
 *                           arrived later is lost, what is sent meanwhile vanishes
 */
#include "base/assert.h"
#include "base/mem.h"
#include "sim/sim_net_impl.h"

struct item {
    struct item *next;
    uint64_t at_ns;
    struct ps_msg *msg;
};

struct sim_end {
    struct ps_stream base;
    struct sim_pair *pair;
    struct sim_end *peer;
    struct sim_node *node; /* Where it lives; the server's is known when somebody accepts. */
    const struct ps_stream_events *events;
    void *arg;
    struct sim_event deliver;
    struct sim_event drain; /* Says that the peer has everything. */
    struct item *first;     /* Inbox, FIFO. */
    struct item **last;
    uint32_t n_items;
    uint32_t n_unread; /* Delivered and not yet let go; keeps the pair. */
    size_t n_bytes;
    uint64_t last_ns;  /* Arrival of the last item. */
    uint64_t end_ns;   /* When `ended`: the owner hears not before. */
    uint64_t stuck_ns; /* Since when a cut link has held something back; 0: it has not. */
    enum ps_status end_status;
    bool started; /* `events` are set. */
    bool ended;   /* Nothing more is put into the inbox. */
    bool closed;  /* `closed` has been called. */
    bool mute;    /* Sending is refused. */
    bool released;
};

struct sim_pair {
    struct ps_list entry;  /* In the net's. */
    struct ps_list served; /* In the listener's, until the server has released. */
    struct sim_net *net;
    struct sim_channel *channel;
    struct sim_end client;
    struct sim_end server;
    struct sim_event open;
    struct sim_event fate; /* It breaks. */
    const char *method;
    char address[PS_ADDRESS_BYTES_MAX + 1];
    enum ps_method_kind kind; /* Once accepted. */
    bool accepted;
    bool half_closed; /* The client has said all. */
};

static struct sim_end *end_of(struct ps_stream *base)
{
    return PS_CONTAINER_OF(base, struct sim_end, base);
}

static bool is_client(const struct sim_end *end)
{
    return end == &end->pair->client;
}

static void drop_first(struct sim_end *end)
{
    struct item *item = end->first;
    end->first = item->next;
    if (end->first == NULL) {
        end->last = &end->first;
    }
    end->n_items--;
    end->n_bytes -= item->msg->n_bytes;
    ps_mem_free(item);
}

static void drop_inbox(struct sim_end *end)
{
    while (end->first != NULL) {
        struct ps_msg *msg = end->first->msg;
        drop_first(end);
        ps_msg_unref(msg);
    }
}

/* Wake the end when its next message, or else its end, is due. */
static void schedule(struct sim_end *end)
{
    struct sim_world *world = end->pair->net->world;
    if (!end->started || end->closed || (end->first == NULL && !end->ended) ||
        end->n_unread >= PS_STREAM_UNREAD_MAX) {
        return;
    }
    uint64_t at_ns = end->first != NULL ? end->first->at_ns : end->end_ns;
    uint64_t after_ns = at_ns > world->now_ns ? at_ns - world->now_ns : 0;
    if (!sim_event_pending(&end->deliver) || world->now_ns + after_ns < end->deliver.at_ns) {
        sim_event_start(world, &end->deliver, after_ns);
    }
}

static void end_with(struct sim_end *end, enum ps_status status, uint64_t after_ns)
{
    if (end->ended) {
        return;
    }
    end->ended = true;
    end->end_status = status;
    end->end_ns = end->pair->net->world->now_ns + after_ns;
    end->end_ns = end->end_ns < end->last_ns ? end->last_ns : end->end_ns;
    schedule(end);
}

/* The line is dead: what has not arrived when this end hears of it never will. */
static void break_end(struct sim_end *end, uint64_t after_ns)
{
    uint64_t at_ns = end->pair->net->world->now_ns + after_ns;
    struct item **at = &end->first;
    while (*at != NULL && (*at)->at_ns <= at_ns) {
        at = &(*at)->next;
    }
    struct item *lost = *at;
    *at = NULL;
    end->last = at;
    end->last_ns = 0;
    while (lost != NULL) {
        struct item *next = lost->next;
        end->n_items--;
        end->n_bytes -= lost->msg->n_bytes;
        ps_msg_unref(lost->msg);
        ps_mem_free(lost);
        lost = next;
    }
    end_with(end, PS_ERR_UNAVAIL, after_ns);
}

static bool steady(const struct sim_pair *pair)
{
    return pair->client.node->steady && pair->server.node->steady;
}

static void break_pair(struct sim_pair *pair, uint64_t client_ns, uint64_t server_ns)
{
    if (pair->client.ended && (pair->server.ended || !pair->accepted)) {
        return;
    }
    pair->net->counts.n_streams_broken++;
    if (steady(pair)) {
        pair->net->steady_break_ns = pair->net->world->now_ns;
    }
    sim_trace(pair->net->world, pair->client.node, "stream breaks", pair->method, client_ns,
              server_ns);
    sim_event_stop(pair->net->world, &pair->fate);
    break_end(&pair->client, client_ns);
    break_end(&pair->server, server_ns);
}

/* Mostly both ends hear at once; now and then one of them only when its keepalive fails. */
static uint64_t news_ns(const struct sim_pair *pair)
{
    struct sim_world *world = pair->net->world;
    return sim_chance(world, 250) && !steady(pair) ? sim_below(world, 3 * SIM_S)
                                                   : sim_below(world, 5 * SIM_MS);
}

static void run_fate(struct sim_event *event)
{
    struct sim_pair *pair = PS_CONTAINER_OF(event, struct sim_pair, fate);
    if (steady(pair) && (pair->client.node->paused || pair->server.node->paused)) {
        sim_event_start(pair->net->world, event, SIM_S); /* Two faults at once are not survived. */
        return;
    }
    uint64_t client_ns = news_ns(pair);
    break_pair(pair, client_ns, news_ns(pair));
}

/* A cut link keeps messages; when that takes too long the keepalive of both ends breaks it. */
static bool held_back(struct sim_end *end)
{
    struct sim_net *net = end->pair->net;
    struct sim_world *world = net->world;
    if (end->first == NULL || !sim_net_is_cut(net, end->peer->node, end->node)) {
        end->stuck_ns = 0;
        return false;
    }
    end->stuck_ns = end->stuck_ns == 0 ? world->now_ns : end->stuck_ns;
    if (world->now_ns - end->stuck_ns > 2 * SIM_S) {
        uint64_t client_ns = news_ns(end->pair);
        drop_inbox(end);
        break_pair(end->pair, client_ns, news_ns(end->pair));
        schedule(end); /* It may have ended before. */
        return true;
    }
    sim_event_start(world, &end->deliver, 20 * SIM_MS + sim_below(world, 20 * SIM_MS));
    return true;
}

static void run_drain(struct sim_event *event)
{
    struct sim_end *end = PS_CONTAINER_OF(event, struct sim_end, drain);
    struct sim_net *net = end->pair->net;
    if (end->started && !end->closed && end->peer->first == NULL) {
        sim_net_enter(net);
        end->events->drained(end->arg);
        sim_net_leave(net);
    }
}

/* The inbox of `end` is empty: its peer hears of it a little later. */
static void drained(struct sim_end *end)
{
    struct sim_end *peer = end->peer;
    struct sim_net *net = end->pair->net;
    if (peer->started && peer->events->drained != NULL && !sim_event_pending(&peer->drain)) {
        sim_event_start(net->world, &peer->drain, sim_net_delay(net, end->node, peer->node));
    }
}

static void on_let_go(void *arg);

static void run_deliver(struct sim_event *event)
{
    struct sim_end *end = PS_CONTAINER_OF(event, struct sim_end, deliver);
    struct sim_net *net = end->pair->net;
    uint64_t now_ns = net->world->now_ns;
    if (end->n_unread >= PS_STREAM_UNREAD_MAX || held_back(end)) {
        return;
    }
    if (end->first == NULL) {
        if (!end->ended || end->closed) {
            return;
        }
        if (end->end_ns > now_ns) {
            schedule(end);
            return;
        }
        end->closed = true;
        /* A client that has said all it had to say still listens. */
        end->mute = is_client(end) || end->end_status != PS_OK || end->peer->ended;
        sim_trace(net->world, end->node, "closed", end->pair->method, (uint64_t)end->end_status, 0);
        sim_net_enter(net);
        end->events->closed(end->arg, end->end_status);
        sim_net_leave(net);
        return;
    }
    if (end->first->at_ns > now_ns) {
        schedule(end);
        return;
    }
    struct ps_msg *msg = end->first->msg;
    drop_first(end);
    end->n_unread++;
    msg->let_go = on_let_go;
    msg->let_go_arg = end;
    schedule(end);
    if (end->first == NULL) {
        drained(end);
    }
    sim_trace(net->world, end->node, "message", end->pair->method, end->peer->node->number,
              msg->n_bytes);
    if (net->tap != NULL && is_client(end)) {
        struct sim_reply heard = {end->node, end->peer->node, end->pair->method, now_ns, msg};
        net->tap(net->tap_arg, &heard);
    }
    sim_net_enter(net);
    end->events->message(end->arg, msg);
    sim_net_leave(net);
}

static void init_end(struct sim_end *end, struct sim_pair *pair, struct sim_end *peer)
{
    end->base.transport = pair->channel->base.transport;
    end->pair = pair;
    end->peer = peer;
    end->node = pair->channel->node;
    end->last = &end->first;
    sim_event_init(&end->deliver, end->node, run_deliver);
    sim_event_init(&end->drain, end->node, run_drain);
}

static void free_pair(struct sim_pair *pair)
{
    struct sim_world *world = pair->net->world;
    drop_inbox(&pair->client);
    drop_inbox(&pair->server);
    sim_event_stop(world, &pair->open);
    sim_event_stop(world, &pair->fate);
    sim_event_stop(world, &pair->client.deliver);
    sim_event_stop(world, &pair->server.deliver);
    sim_event_stop(world, &pair->client.drain);
    sim_event_stop(world, &pair->server.drain);
    ps_list_remove(&pair->entry);
    ps_list_remove(&pair->served);
    ps_mem_free(pair);
}

static void free_if_left(struct sim_pair *pair)
{
    if (pair->client.released && pair->server.released && pair->client.n_unread == 0 &&
        pair->server.n_unread == 0) {
        free_pair(pair);
    }
}

static void on_let_go(void *arg)
{
    struct sim_end *end = arg;
    end->n_unread--;
    schedule(end);
    free_if_left(end->pair);
}

static void refuse(struct sim_pair *pair, enum ps_status status)
{
    drop_inbox(&pair->server);
    pair->server.ended = true;
    pair->server.released = true;
    if (pair->client.released) {
        free_pair(pair);
        return;
    }
    end_with(&pair->client, status, sim_net_delay(pair->net, pair->client.node, pair->client.node));
}

/* The client has said all: the end of its messages, and of the stream unless it only listens. */
static void half_close(struct sim_pair *pair, uint64_t after_ns)
{
    if (pair->half_closed && pair->kind == PS_METHOD_STREAM) {
        end_with(&pair->server, PS_OK, after_ns);
    }
}

static void run_open(struct sim_event *event)
{
    struct sim_pair *pair = PS_CONTAINER_OF(event, struct sim_pair, open);
    struct sim_net *net = pair->net;
    struct sim_listener *listener = sim_net_listener(net, pair->address);
    if (listener == NULL || pair->client.closed || pair->client.node->crashed) {
        refuse(pair, PS_ERR_UNAVAIL);
        return;
    }
    const struct sim_node *from = pair->client.node;
    if (sim_net_is_cut(net, from, listener->node) || sim_net_is_cut(net, listener->node, from)) {
        if (pair->client.ended) { /* It has given up meanwhile. */
            refuse(pair, PS_ERR_UNAVAIL);
        } else {
            sim_event_start(net->world, &pair->open, 50 * SIM_MS);
        }
        return;
    }
    if (pair->open.node != listener->node) { /* Who listens now began after it was opened. */
        pair->open.node = listener->node;
        sim_event_start(net->world, &pair->open, 0);
        return;
    }
    const struct ps_method *method = sim_net_method(listener, pair->method, false);
    if (method == NULL) {
        refuse(pair, PS_ERR_UNSUPPORTED);
        return;
    }
    sim_trace(net->world, listener->node, "accept", pair->method, from->number, 0);
    pair->accepted = true;
    pair->kind = method->kind;
    pair->server.node = listener->node;
    pair->server.deliver.node = listener->node;
    pair->server.drain.node = listener->node;
    half_close(pair, 0);
    ps_list_append(&listener->streams, &pair->served);
    if (net->faults.stream_life_ns > 0 && listener->node != from) {
        sim_event_start(net->world, &pair->fate,
                        sim_heavy_tail(net->world, net->faults.stream_life_ns));
    }
    sim_net_enter(net);
    method->accept(method->arg, &pair->server.base);
    sim_net_leave(net);
}

struct ps_stream *sim_stream_open(struct ps_channel *base, const char *method,
                                  const struct ps_stream_events *events, void *arg)
{
    struct sim_channel *channel = PS_CONTAINER_OF(base, struct sim_channel, base);
    struct sim_net *net = channel->net;
    struct sim_pair *pair = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*pair));
    PS_ASSERT(pair != NULL);
    struct sim_listener *listener = sim_net_listener(net, channel->address);
    pair->net = net;
    pair->channel = channel;
    pair->method = method;
    __builtin_memcpy(pair->address, channel->address, sizeof(pair->address));
    ps_list_init(&pair->entry);
    ps_list_init(&pair->served);
    ps_list_append(&net->pairs, &pair->entry);
    init_end(&pair->client, pair, &pair->server);
    init_end(&pair->server, pair, &pair->client);
    if (listener != NULL) {
        pair->server.node = listener->node;
    }
    pair->client.events = events;
    pair->client.arg = arg;
    pair->client.started = true;
    sim_event_init(&pair->open, pair->server.node, run_open);
    sim_event_init(&pair->fate, NULL, run_fate);
    channel->n_users++;
    net->counts.n_streams++;
    sim_event_start(net->world, &pair->open, sim_net_delay(net, channel->node, pair->server.node));
    return &pair->client.base;
}

void sim_stream_start(struct ps_stream *base, const struct ps_stream_events *events, void *arg)
{
    struct sim_end *end = end_of(base);
    PS_ASSERT(!end->started);
    end->events = events;
    end->arg = arg;
    end->started = true;
    schedule(end);
}

enum ps_status sim_stream_send(struct ps_stream *base, const struct ps_out *out)
{
    struct sim_end *end = end_of(base);
    struct sim_end *peer = end->peer;
    struct sim_net *net = end->pair->net;
    struct ps_msg *msg = sim_load_depart(net->world, sim_load_take(out));
    enum ps_status status = PS_OK;
    if (end->mute) {
        status = PS_ERR_UNAVAIL;
    } else if (peer->n_items >= PS_STREAM_UNSENT_MAX ||
               (peer->n_items > 0 && peer->n_bytes + msg->n_bytes > PS_STREAM_UNSENT_BYTES_MAX)) {
        status = PS_ERR_BUSY;
    }
    if (status != PS_OK || peer->ended || end->node->crashed) {
        ps_msg_unref(msg); /* Refused, or sent into a line that is dead without our knowing. */
        return status;
    }
    struct item *item = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*item));
    PS_ASSERT(item != NULL);
    uint64_t at_ns = net->world->now_ns + sim_net_delay(net, end->node, peer->node);
    item->at_ns = at_ns > peer->last_ns ? at_ns : peer->last_ns;
    item->msg = msg;
    peer->last_ns = item->at_ns;
    *peer->last = item;
    peer->last = &item->next;
    peer->n_items++;
    peer->n_bytes += msg->n_bytes;
    schedule(peer);
    return PS_OK;
}

void sim_stream_close(struct ps_stream *base, enum ps_status status)
{
    struct sim_end *end = end_of(base);
    struct sim_net *net = end->pair->net;
    bool gives_up =
        is_client(end) && status != PS_OK && !end->ended; /* Perhaps after all it said. */
    if (end->mute && !gives_up) {
        return; /* Closed before, or the other side was faster. */
    }
    uint64_t there_ns = sim_net_delay(net, end->node, end->peer->node);
    end->mute = true;
    if (is_client(end) && status == PS_OK) {
        end->pair->half_closed = true;
        half_close(end->pair, there_ns);
        return;
    }
    drop_inbox(end);
    end->last_ns = 0;
    end_with(end, status, sim_below(net->world, 20 * SIM_US));
    if (is_client(end)) {
        drop_inbox(end->peer);
        end_with(end->peer, PS_ERR_CANCELED, there_ns);
    } else {
        end_with(end->peer, status, there_ns);
    }
}

void sim_stream_release(struct ps_stream *base)
{
    struct sim_end *end = end_of(base);
    struct sim_pair *pair = end->pair;
    PS_ASSERT(end->closed || !end->started);
    PS_ASSERT(!end->released);
    if (!is_client(end)) {
        sim_stream_close(base, end->started ? PS_OK : PS_ERR_CANCELED);
        if (!end->peer->ended) { /* The client had closed its half; now the whole is over. */
            end_with(end->peer, PS_OK, sim_net_delay(pair->net, end->node, end->peer->node));
        }
        ps_list_remove(&pair->served);
    } else {
        pair->channel->n_users--;
    }
    end->released = true;
    drop_inbox(end);
    free_if_left(pair);
}

void sim_streams_abandon(struct sim_listener *listener)
{
    ps_list_for_each (at, &listener->streams) {
        struct sim_pair *pair = PS_CONTAINER_OF(at, struct sim_pair, served);
        pair->server.mute = true;
        end_with(&pair->client, PS_ERR_UNAVAIL, 0);
        end_with(&pair->server, PS_ERR_CANCELED, 0);
    }
}

void sim_streams_reset(struct sim_net *net, const struct sim_node *a, const struct sim_node *b,
                       bool late)
{
    ps_list_for_each (at, &net->pairs) {
        struct sim_pair *pair = PS_CONTAINER_OF(at, struct sim_pair, entry);
        const struct sim_node *client = pair->client.node;
        const struct sim_node *server = pair->server.node;
        bool forth = client == a && (b == NULL || server == b);
        bool back = server == a && (b == NULL || client == b);
        if (!forth && !back) {
            continue;
        }
        uint64_t after_ns =
            late ? SIM_S + sim_below(net->world, 2 * SIM_S) : sim_below(net->world, 5 * SIM_MS);
        if (pair->accepted) {
            break_pair(pair, after_ns, after_ns);
        } else if (server != NULL && server->crashed &&
                   sim_event_pending(&pair->open)) { /* Whoever listens when it arrives. */
            pair->server.node = NULL;
            pair->open.node = NULL;
            sim_event_start(net->world, &pair->open, after_ns);
        }
    }
}

void sim_streams_drop(struct sim_net *net)
{
    ps_list_for_each_safe (at, after, &net->pairs) {
        struct sim_pair *pair = PS_CONTAINER_OF(at, struct sim_pair, entry);
        if (pair->client.released && !pair->accepted) {
            free_pair(pair); /* Its opening never arrived. */
        }
    }
}
