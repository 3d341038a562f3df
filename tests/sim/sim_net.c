/* sim_net.c — who listens where, and which links work; see sim_net.h. */
#include "sim/sim_net.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "sim/sim_net_impl.h"

#define LOOPBACK_NS (20 * SIM_US)

struct sim_port *sim_port_of(struct ps_transport *transport)
{
    return PS_CONTAINER_OF(transport, struct sim_port, base);
}

bool sim_net_is_cut(const struct sim_net *net, const struct sim_node *from,
                    const struct sim_node *to)
{
    return net->cut[from->number][to->number];
}

uint64_t sim_net_delay(struct sim_net *net, const struct sim_node *from, const struct sim_node *to)
{
    uint64_t usual_ns = from == to ? LOOPBACK_NS : net->faults.delay_ns;
    return usual_ns / 4 + sim_heavy_tail(net->world, usual_ns);
}

void sim_net_enter(struct sim_net *net)
{
    PS_ASSERT(net->world->running == NULL && !net->world->in_transport);
    net->world->in_transport = true;
}

void sim_net_leave(struct sim_net *net)
{
    net->world->in_transport = false;
}

/* ---- Addresses ----------------------------------------------------------------------------- */

struct sim_listener *sim_net_listener(struct sim_net *net, const char *address)
{
    ps_list_for_each (at, &net->listeners) {
        struct sim_listener *listener = PS_CONTAINER_OF(at, struct sim_listener, entry);
        if (strcmp(listener->address, address) == 0) {
            return listener;
        }
    }
    return NULL;
}

const struct ps_method *sim_net_method(const struct sim_listener *listener, const char *path,
                                       bool unary)
{
    for (size_t i = 0; i < listener->n_methods; i++) {
        const struct ps_method *method = &listener->methods[i];
        if ((method->kind == PS_METHOD_UNARY) == unary && strcmp(method->path, path) == 0) {
            return method;
        }
    }
    return NULL;
}

static enum ps_status channel_open(struct ps_transport *transport, const char *address,
                                   enum ps_traffic traffic PS_UNUSED,
                                   const struct ps_creds *creds PS_UNUSED, struct ps_channel **ret,
                                   struct ps_error *err)
{
    struct sim_port *port = sim_port_of(transport);
    if (strlen(address) > PS_ADDRESS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "address is too long");
    }
    struct sim_channel *channel = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*channel));
    PS_ASSERT(channel != NULL);
    channel->base.transport = transport;
    channel->net = port->net;
    channel->node = port->node;
    memcpy(channel->address, address, strlen(address) + 1);
    port->net->n_open++;
    *ret = &channel->base;
    return PS_OK;
}

static void channel_close(struct ps_channel *base)
{
    struct sim_channel *channel = PS_CONTAINER_OF(base, struct sim_channel, base);
    if (channel->n_users > 0) {
        sim_break(channel->net->world, "%s closed a channel with %u requests or streams in it",
                  channel->node->name, channel->n_users);
        return;
    }
    channel->net->n_open--;
    ps_mem_free(channel);
}

static enum ps_status listener_open(struct ps_transport *transport,
                                    const struct ps_service *service, struct ps_listener **ret,
                                    struct ps_error *err)
{
    struct sim_port *port = sim_port_of(transport);
    struct sim_net *net = port->net;
    if (sim_net_listener(net, service->address) != NULL && !port->node->crashed) {
        return ps_fail(err, PS_ERR_EXISTS, "cannot listen on %s: address in use", service->address);
    }
    struct sim_listener *listener = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*listener));
    PS_ASSERT(listener != NULL);
    listener->base.transport = transport;
    listener->net = net;
    listener->node = port->node;
    listener->methods = service->methods;
    listener->n_methods = service->n_methods;
    ps_list_init(&listener->calls);
    ps_list_init(&listener->streams);
    ps_list_init(&listener->entry);
    size_t n_bytes = strlen(service->address);
    if (n_bytes >= 2 && strcmp(service->address + n_bytes - 2, ":0") == 0) {
        net->next_port++;
        (void)snprintf(listener->address, sizeof(listener->address), "%.*s:%u", (int)(n_bytes - 2),
                       service->address, net->next_port);
    } else {
        (void)snprintf(listener->address, sizeof(listener->address), "%s", service->address);
    }
    if (!port->node->crashed) { /* It died a moment ago: nobody finds it. */
        ps_list_append(&net->listeners, &listener->entry);
    }
    net->n_open++;
    *ret = &listener->base;
    return PS_OK;
}

static const char *listener_address(const struct ps_listener *base)
{
    const struct sim_listener *listener = (const struct sim_listener *)base;
    return listener->address;
}

/* Nothing can be waited for in one thread; whoever stops has waited for what it wants to keep. */
static void listener_stop(struct ps_listener *base, uint32_t grace_ms PS_UNUSED)
{
    struct sim_listener *listener = PS_CONTAINER_OF(base, struct sim_listener, base);
    ps_list_remove(&listener->entry);
    sim_calls_abandon(listener);
    sim_streams_abandon(listener);
}

static void listener_close(struct ps_listener *base)
{
    struct sim_listener *listener = PS_CONTAINER_OF(base, struct sim_listener, base);
    if (!ps_list_empty(&listener->entry) || !ps_list_empty(&listener->calls) ||
        !ps_list_empty(&listener->streams)) {
        sim_break(listener->net->world, "%s closed its listener: %s", listener->node->name,
                  !ps_list_empty(&listener->calls) ? "a call was never answered"
                                                   : "not stopped, or a stream is not released");
        return;
    }
    listener->net->n_open--;
    ps_mem_free(listener);
}

/* ---- The net ------------------------------------------------------------------------------- */

static const struct ps_transport_ops ops = {
    .channel_open = channel_open,
    .channel_close = channel_close,
    .request_start = sim_request_start,
    .request_cancel = sim_request_cancel,
    .stream_open = sim_stream_open,
    .stream_start = sim_stream_start,
    .stream_send = sim_stream_send,
    .stream_close = sim_stream_close,
    .stream_release = sim_stream_release,
    .listener_open = listener_open,
    .listener_address = listener_address,
    .listener_stop = listener_stop,
    .listener_close = listener_close,
    .call_request = sim_call_request,
    .call_take_request = sim_call_take_request,
    .call_context = sim_call_context,
    .call_gone = sim_call_gone,
    .call_time_left_ms = sim_call_time_left_ms,
    .call_retry_after = sim_call_retry_after,
    .call_finish = sim_call_finish,
};

struct sim_net *sim_net_create(struct sim_world *world)
{
    struct sim_net *net = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*net));
    PS_ASSERT(net != NULL);
    net->world = world;
    net->faults.delay_ns = 100 * SIM_US;
    ps_list_init(&net->listeners);
    ps_list_init(&net->requests);
    ps_list_init(&net->copies);
    ps_list_init(&net->pairs);
    return net;
}

bool sim_net_destroy(struct sim_net *net)
{
    sim_calls_drop(net);
    sim_streams_drop(net);
    const char *left = NULL;
    left = net->n_open > 0 ? "channels or listeners are open" : left;
    left = !ps_list_empty(&net->pairs) ? "streams are not released" : left;
    left = !ps_list_empty(&net->copies) ? "calls are not answered" : left;
    left = !ps_list_empty(&net->requests) ? "requests have not ended" : left;
    if (left != NULL) {
        sim_break(net->world, "at the end %s", left);
        return false; /* They point at the net, so it stays. */
    }
    ps_mem_free(net);
    return true;
}

struct ps_transport *sim_net_transport(struct sim_net *net, struct sim_node *node)
{
    struct sim_port *port = &net->ports[node->number];
    *port = (struct sim_port){.base.ops = &ops, .net = net, .node = node};
    return &port->base;
}

void sim_net_set_faults(struct sim_net *net, const struct sim_faults *faults)
{
    net->faults = *faults;
}

void sim_net_cut(struct sim_net *net, const struct sim_node *from, const struct sim_node *to,
                 bool cut)
{
    sim_trace(net->world, from, cut ? "cut to" : "joined to", to->name, 0, 0);
    net->cut[from->number][to->number] = cut;
}

void sim_net_reset(struct sim_net *net, const struct sim_node *a, const struct sim_node *b)
{
    sim_trace(net->world, a, "reset", b->name, 0, 0);
    sim_streams_reset(net, a, b, false);
    sim_calls_reset(net, a, b);
}

void sim_net_crash(struct sim_net *net, struct sim_node *node, bool soon)
{
    sim_trace(net->world, node, "crash", NULL, soon, 0);
    node->paused = true;
    node->crashed = true;
    net->rst[node->number] = soon;
    sim_streams_reset(net, node, NULL, !soon);
    sim_calls_orphan(net, node, soon);
    ps_list_for_each_safe (at, next, &net->listeners) {
        struct sim_listener *listener = PS_CONTAINER_OF(at, struct sim_listener, entry);
        if (listener->node == node) {
            ps_list_remove(at);
        }
    }
}

void sim_net_bury(struct sim_net *net, struct sim_node *node)
{
    PS_ASSERT(node->crashed);
    sim_node_resume(node);
    sim_calls_reset(net, node, NULL);
}

uint64_t sim_net_steady_break_ns(const struct sim_net *net)
{
    return net->steady_break_ns;
}

const struct sim_net_counts *sim_net_counts(const struct sim_net *net)
{
    return &net->counts;
}

void sim_net_tap(struct sim_net *net, void (*tap)(void *arg, const struct sim_reply *reply),
                 void *arg)
{
    net->tap = tap;
    net->tap_arg = arg;
}
