/*
 * direct_stream.c — a stream as two ends, each with an inbox that its own mail empties.
 *
 *   client closes OK        server hears closed(OK) after the last message; it may still send until
 *                           it closes or releases, then the client hears closed; of a server
 *                           stream the server hears nothing
 *   client closes otherwise both inboxes are dropped, server hears closed(CANCELED)
 *   server closes           client hears closed(status) after the last message; the server's inbox
 *                           is dropped
 */
#include "base/assert.h"
#include "base/mem.h"
#include "port/direct_impl.h"

struct item {
    struct item *next;
    struct ps_msg *msg;
};

struct direct_end {
    struct ps_stream base;
    struct direct_pair *pair;
    struct direct_end *peer;
    const struct ps_stream_events *events;
    void *arg;
    struct ps_mail mail; /* Delivers one thing. */
    struct item *first;  /* Inbox, FIFO. */
    struct item **last;
    uint32_t n_items;
    uint32_t n_unread; /* Delivered and not yet let go; keeps the pair. */
    size_t n_bytes;
    enum ps_status end_status; /* When `ended`. */
    bool started;              /* `events` are set. */
    bool posted;               /* `mail` is under way. */
    bool ended;                /* Nothing more is put into the inbox. */
    bool closed;               /* `closed` has been called. */
    bool mute;                 /* Sending is refused. */
    bool released;
};

struct direct_pair {
    struct direct_end client;
    struct direct_end server;
    struct ps_mail open;
    struct ps_list node; /* In the listener's streams until the server has released. */
    const char *method;
    struct ps_direct_channel *channel;
    struct ps_direct *direct;
    enum ps_method_kind kind; /* Once somebody has accepted. */
    bool half_closed;         /* The client has said all. */
};

static void drop_inbox(struct direct_end *end)
{
    while (end->first != NULL) {
        struct item *item = end->first;
        end->first = item->next;
        ps_msg_unref(item->msg);
        ps_mem_free(item);
    }
    end->last = &end->first;
    end->n_items = 0;
    end->n_bytes = 0;
}

static void schedule(struct direct_end *end)
{
    bool something = end->first != NULL || end->ended;
    if (something && end->started && !end->closed && !end->posted &&
        end->n_unread < PS_STREAM_UNREAD_MAX) {
        end->posted = true;
        ps_exec_post(end->pair->direct->exec, &end->mail);
    }
}

static void end_with(struct direct_end *end, enum ps_status status)
{
    if (!end->ended) {
        end->ended = true;
        end->end_status = status;
        schedule(end);
    }
}

static void free_if_left(struct direct_pair *pair)
{
    if (pair->client.released && pair->server.released && pair->client.n_unread == 0 &&
        pair->server.n_unread == 0) {
        ps_mem_free(pair);
    }
}

static void on_let_go(void *arg)
{
    struct direct_end *end = arg;
    end->n_unread--;
    if (!end->released) {
        schedule(end);
    }
    free_if_left(end->pair);
}

static void run_end(struct ps_mail *mail)
{
    struct direct_end *end = PS_CONTAINER_OF(mail, struct direct_end, mail);
    end->posted = false;
    struct item *item = end->first;
    if (item == NULL) {
        if (end->ended) {
            end->closed = true;
            end->events->closed(end->arg, end->end_status);
        }
        return;
    }
    struct ps_msg *msg = item->msg;
    end->first = item->next;
    if (end->first == NULL) {
        end->last = &end->first;
    }
    end->n_items--;
    end->n_bytes -= msg->n_bytes;
    ps_mem_free(item);
    end->n_unread++;
    msg->let_go = on_let_go;
    msg->let_go_arg = end;
    schedule(end);
    end->events->message(end->arg, msg);
    struct direct_end *peer = end->peer;
    if (end->first == NULL && peer->started && !peer->closed && peer->events->drained != NULL) {
        peer->events->drained(peer->arg);
    }
}

/* The client has said all: the end of its messages, and of the stream unless it only listens. */
static void half_close(struct direct_pair *pair)
{
    if (pair->half_closed && pair->kind == PS_METHOD_STREAM) {
        end_with(&pair->server, PS_OK);
    }
}

static void run_open(struct ps_mail *mail)
{
    struct direct_pair *pair = PS_CONTAINER_OF(mail, struct direct_pair, open);
    struct ps_direct_listener *listener = NULL;
    struct ps_error err;
    const struct ps_method *method =
        ps_direct_find(pair->direct, pair->channel->address, pair->method, false, &listener, &err);
    if (method == NULL) {
        drop_inbox(&pair->server);
        pair->server.released = true;
        pair->client.mute = true;
        end_with(&pair->client, err.status);
        return;
    }
    ps_list_append(&listener->streams, &pair->node);
    pair->kind = method->kind;
    half_close(pair);
    method->accept(method->arg, &pair->server.base);
}

static void init_end(struct direct_end *end, struct direct_pair *pair, struct direct_end *peer)
{
    end->base.transport = &pair->direct->base;
    end->pair = pair;
    end->peer = peer;
    end->mail.run = run_end;
    end->last = &end->first;
}

struct ps_stream *ps_direct_stream_open(struct ps_channel *base, const char *method,
                                        const struct ps_stream_events *events, void *arg)
{
    struct ps_direct_channel *channel = PS_CONTAINER_OF(base, struct ps_direct_channel, base);
    struct direct_pair *pair = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*pair));
    PS_ASSERT(pair != NULL);
    pair->direct = channel->direct;
    pair->channel = channel;
    pair->method = method;
    pair->open.run = run_open;
    ps_list_init(&pair->node);
    init_end(&pair->client, pair, &pair->server);
    init_end(&pair->server, pair, &pair->client);
    pair->client.events = events;
    pair->client.arg = arg;
    pair->client.started = true;
    channel->n_users++;
    ps_exec_post(pair->direct->exec, &pair->open);
    return &pair->client.base;
}

static struct direct_end *end_of(struct ps_stream *base)
{
    return PS_CONTAINER_OF(base, struct direct_end, base);
}

static bool is_client(const struct direct_end *end)
{
    return end == &end->pair->client;
}

void ps_direct_stream_start(struct ps_stream *base, const struct ps_stream_events *events,
                            void *arg)
{
    struct direct_end *end = end_of(base);
    PS_ASSERT(!end->started);
    end->events = events;
    end->arg = arg;
    end->started = true;
    schedule(end);
}

enum ps_status ps_direct_stream_send(struct ps_stream *base, const struct ps_out *out)
{
    struct direct_end *end = end_of(base);
    struct direct_end *peer = end->peer;
    struct ps_msg *msg = ps_direct_msg_create(out);
    enum ps_status status = PS_OK;
    if (end->mute) {
        status = PS_ERR_UNAVAIL;
    } else if (peer->n_items >= PS_STREAM_UNSENT_MAX ||
               (peer->n_items > 0 && peer->n_bytes + msg->n_bytes > PS_STREAM_UNSENT_BYTES_MAX)) {
        status = PS_ERR_BUSY;
    }
    if (status != PS_OK) {
        ps_msg_unref(msg); /* Its pieces are done. */
        return status;
    }
    struct item *item = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*item));
    PS_ASSERT(item != NULL);
    item->msg = msg;
    *peer->last = item;
    peer->last = &item->next;
    peer->n_items++;
    peer->n_bytes += msg->n_bytes;
    schedule(peer);
    return PS_OK;
}

void ps_direct_stream_close(struct ps_stream *base, enum ps_status status)
{
    struct direct_end *end = end_of(base);
    if (end->mute && (end->ended || status == PS_OK)) {
        return; /* Closed before, or the other side was faster. */
    }
    end->mute = true;
    if (is_client(end) && status == PS_OK) {
        end->pair->half_closed = true;
        half_close(end->pair);
        return;
    }
    drop_inbox(end);
    end_with(end, status);
    end->peer->mute = true;
    if (is_client(end)) {
        drop_inbox(end->peer);
        end_with(end->peer, PS_ERR_CANCELED);
    } else {
        end_with(end->peer, status);
    }
}

void ps_direct_stream_release(struct ps_stream *base)
{
    struct direct_end *end = end_of(base);
    struct direct_pair *pair = end->pair;
    PS_ASSERT(end->closed || !end->started);
    PS_ASSERT(!end->released);
    if (!is_client(end)) {
        ps_direct_stream_close(base, end->started ? PS_OK : PS_ERR_CANCELED);
        ps_list_remove(&pair->node);
    }
    end->released = true;
    drop_inbox(end);
    if (is_client(end)) {
        pair->channel->n_users--;
    }
    free_if_left(pair);
}

void ps_direct_streams_abandon(struct ps_direct_listener *listener)
{
    ps_list_for_each (at, &listener->streams) {
        struct direct_pair *pair = PS_CONTAINER_OF(at, struct direct_pair, node);
        pair->client.mute = true;
        pair->server.mute = true;
        end_with(&pair->client, PS_ERR_UNAVAIL);
        end_with(&pair->server, PS_ERR_CANCELED);
    }
}
