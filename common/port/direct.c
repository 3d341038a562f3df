/* direct.c — addresses and messages of the transport without a wire, see direct.h. */
#include "port/direct.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "port/direct_impl.h"

/* ---- Messages ------------------------------------------------------------------------------ */

struct direct_msg {
    struct ps_msg base;
    struct ps_piece *pieces;
    size_t n_pieces;
    struct ps_slice slices[]; /* [1 + n_pieces], then the pieces, then the head's bytes. */
};

static void destroy_msg(struct ps_msg *base)
{
    struct direct_msg *msg = PS_CONTAINER_OF(base, struct direct_msg, base);
    for (size_t i = 0; i < msg->n_pieces; i++) {
        if (msg->pieces[i].done != NULL) {
            msg->pieces[i].done(msg->pieces[i].arg);
        }
    }
    ps_mem_free(msg);
}

struct ps_msg *ps_direct_msg_create(const struct ps_out *out)
{
    static const struct ps_out empty;
    out = out != NULL ? out : &empty;
    size_t n_slices = 1 + out->n_pieces;
    struct direct_msg *msg =
        ps_mem_alloc(NULL, PS_MEM_CALLS,
                     sizeof(*msg) + n_slices * sizeof(msg->slices[0]) +
                         out->n_pieces * sizeof(msg->pieces[0]) + out->n_head_bytes);
    PS_ASSERT(msg != NULL); /* A call cannot fail before it has begun. */
    msg->pieces = (struct ps_piece *)(void *)&msg->slices[n_slices];
    msg->n_pieces = out->n_pieces;
    uint8_t *head = (uint8_t *)&msg->pieces[out->n_pieces];
    if (out->n_head_bytes > 0) {
        memcpy(head, out->head, out->n_head_bytes);
    }
    msg->slices[0] = (struct ps_slice){.data = head, .n_bytes = out->n_head_bytes};
    msg->base.n_bytes = out->n_head_bytes;
    for (size_t i = 0; i < out->n_pieces; i++) {
        const struct ps_piece *piece = &out->pieces[i];
        msg->pieces[i] = *piece;
        msg->slices[1 + i] = (struct ps_slice){.data = piece->data, .n_bytes = piece->n_bytes};
        msg->base.n_bytes += piece->n_bytes;
    }
    msg->base.slices = msg->slices;
    msg->base.n_slices = n_slices;
    msg->base.destroy = destroy_msg;
    atomic_init(&msg->base.n_refs, 1);
    return &msg->base;
}

/* ---- Addresses ----------------------------------------------------------------------------- */

static struct ps_direct_listener *listener_at(struct ps_direct *direct, const char *address)
{
    ps_list_for_each (at, &direct->listeners) {
        struct ps_direct_listener *listener = PS_CONTAINER_OF(at, struct ps_direct_listener, node);
        if (strcmp(listener->address, address) == 0) {
            return listener;
        }
    }
    return NULL;
}

const struct ps_method *ps_direct_find(struct ps_direct *direct, const char *address,
                                       const char *method, bool unary,
                                       struct ps_direct_listener **ret, struct ps_error *err)
{
    struct ps_direct_listener *listener = listener_at(direct, address);
    if (listener == NULL) {
        (void)ps_fail(err, PS_ERR_UNAVAIL, "nobody listens on %s", address);
        return NULL;
    }
    for (size_t i = 0; i < listener->n_methods; i++) {
        const struct ps_method *at = &listener->methods[i];
        if ((at->kind == PS_METHOD_UNARY) != unary || strcmp(at->path, method) != 0) {
            continue;
        }
        if ((at->roles & PS_ROLE_ANY) == 0) { /* One process: every role, but none is none. */
            (void)ps_fail(err, PS_ERR_DENIED, "%s", ps_status_text(PS_ERR_DENIED));
            return NULL;
        }
        *ret = listener;
        return at;
    }
    (void)ps_fail(err, PS_ERR_UNSUPPORTED, "%s has no method %s", address, method);
    return NULL;
}

static struct ps_direct *direct_of(struct ps_transport *transport)
{
    return PS_CONTAINER_OF(transport, struct ps_direct, base);
}

static enum ps_status channel_open(struct ps_transport *transport, const char *address,
                                   enum ps_traffic traffic PS_UNUSED,
                                   const struct ps_creds *creds PS_UNUSED, struct ps_channel **ret,
                                   struct ps_error *err)
{
    struct ps_direct *direct = direct_of(transport);
    if (strlen(address) > PS_ADDRESS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "address is longer than %u bytes",
                       PS_ADDRESS_BYTES_MAX);
    }
    struct ps_direct_channel *channel = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*channel));
    if (channel == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a channel");
    }
    channel->base.transport = transport;
    channel->direct = direct;
    memcpy(channel->address, address, strlen(address) + 1);
    direct->n_open++;
    *ret = &channel->base;
    return PS_OK;
}

static void channel_close(struct ps_channel *base)
{
    struct ps_direct_channel *channel = PS_CONTAINER_OF(base, struct ps_direct_channel, base);
    PS_ASSERT(channel->n_users == 0);
    channel->direct->n_open--;
    ps_mem_free(channel);
}

/* Write the address that a listener gets: as asked, but a port 0 becomes one of our own. */
static void name_listener(struct ps_direct *direct, const char *address,
                          struct ps_direct_listener *listener)
{
    size_t n_bytes = strlen(address);
    if (n_bytes < 2 || strcmp(address + n_bytes - 2, ":0") != 0) {
        memcpy(listener->address, address, n_bytes + 1);
        return;
    }
    do {
        direct->next_port++;
        (void)snprintf(listener->address, sizeof(listener->address), "%.*s:%u", (int)(n_bytes - 2),
                       address, direct->next_port);
    } while (listener_at(direct, listener->address) != NULL);
}

static enum ps_status listener_open(struct ps_transport *transport,
                                    const struct ps_service *service, struct ps_listener **ret,
                                    struct ps_error *err)
{
    struct ps_direct *direct = direct_of(transport);
    if (strlen(service->address) + 10 > PS_ADDRESS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "address is too long");
    }
    if (listener_at(direct, service->address) != NULL) {
        return ps_fail(err, PS_ERR_EXISTS, "cannot listen on %s: address in use", service->address);
    }
    struct ps_direct_listener *listener = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*listener));
    if (listener == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a listener");
    }
    listener->base.transport = transport;
    listener->direct = direct;
    listener->methods = service->methods;
    listener->n_methods = service->n_methods;
    ps_list_init(&listener->calls);
    ps_list_init(&listener->streams);
    name_listener(direct, service->address, listener);
    ps_list_init(&listener->node);
    ps_list_append(&direct->listeners, &listener->node);
    direct->n_open++;
    *ret = &listener->base;
    return PS_OK;
}

static struct ps_direct_listener *listener_of(struct ps_listener *base)
{
    return PS_CONTAINER_OF(base, struct ps_direct_listener, base);
}

static const char *listener_address(const struct ps_listener *base)
{
    const struct ps_direct_listener *listener = (const struct ps_direct_listener *)base;
    return listener->address;
}

/* There is nobody else who could finish something while we wait, so the grace is not waited for. */
static void listener_stop(struct ps_listener *base, uint32_t grace_ms PS_UNUSED)
{
    struct ps_direct_listener *listener = listener_of(base);
    ps_list_remove(&listener->node);
    ps_direct_calls_abandon(listener);
    ps_direct_streams_abandon(listener);
}

static void listener_close(struct ps_listener *base)
{
    struct ps_direct_listener *listener = listener_of(base);
    PS_ASSERT(ps_list_empty(&listener->node)); /* Stopped. */
    PS_ASSERT(ps_list_empty(&listener->calls));
    PS_ASSERT(ps_list_empty(&listener->streams));
    listener->direct->n_open--;
    ps_mem_free(listener);
}

static const struct ps_transport_ops ops = {
    .channel_open = channel_open,
    .channel_close = channel_close,
    .request_start = ps_direct_request_start,
    .request_cancel = ps_direct_request_cancel,
    .stream_open = ps_direct_stream_open,
    .stream_start = ps_direct_stream_start,
    .stream_send = ps_direct_stream_send,
    .stream_close = ps_direct_stream_close,
    .stream_release = ps_direct_stream_release,
    .listener_open = listener_open,
    .listener_address = listener_address,
    .listener_stop = listener_stop,
    .listener_close = listener_close,
    .call_request = ps_direct_call_request,
    .call_take_request = ps_direct_call_take_request,
    .call_context = ps_direct_call_context,
    .call_gone = ps_direct_call_gone,
    .call_time_left_ms = ps_direct_call_time_left_ms,
    .call_retry_after = ps_direct_call_retry_after,
    .call_finish = ps_direct_call_finish,
};

struct ps_direct *ps_direct_create(struct ps_exec *exec)
{
    struct ps_direct *direct = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*direct));
    if (direct == NULL) {
        return NULL;
    }
    direct->base.ops = &ops;
    direct->exec = exec;
    ps_list_init(&direct->listeners);
    return direct;
}

void ps_direct_destroy(struct ps_direct *direct)
{
    if (direct == NULL) {
        return;
    }
    PS_ASSERT(direct->n_open == 0);
    ps_mem_free(direct);
}

struct ps_transport *ps_direct_transport(struct ps_direct *direct)
{
    return &direct->base;
}
