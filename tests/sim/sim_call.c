/*
 * sim_call.c — unary calls of the simulated network.
 *
 *   request_start -> depart -> copy arrives -> handler ... finish -> reply departs -> reply arrives
 *        |             |  \                                                            |
 *        |             |   \--> a second copy, its answer goes nowhere                 v
 *        +-- deadline, reset or cancel -------------------------------------------> done, once
 *
 * A sim_request lives until the caller has heard, the bytes have departed and all copies are gone.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "sim/sim_net_impl.h"

struct sim_request {
    struct ps_list entry; /* In the net's. */
    struct sim_net *net;
    struct sim_channel *channel; /* Valid until `request` is NULL. */
    struct sim_node *node;
    struct ps_request *request; /* NULL: done has run. */
    const char *method;
    uint64_t number; /* From 1. */
    char address[PS_ADDRESS_BYTES_MAX + 1];
    struct ps_context context;
    uint32_t timeout_ms;
    uint64_t began_ns;
    uint64_t until_ns;
    const struct sim_node *server; /* Who answered. */
    struct sim_load *load;         /* Until departed. */
    struct ps_msg *msg;            /* Once departed. */
    struct sim_event depart;
    struct sim_event end; /* Deadline, or a reset before it. */
    enum ps_status end_status;
    struct sim_event answer;
    bool answered;
    struct ps_error err;
    uint32_t retry_ms;
    struct ps_msg *reply;
    uint32_t n_refs; /* Caller, departure, copies. */
};

enum copy_stage {
    COPY_ARRIVES,
    COPY_OWED, /* A handler has it. */
    COPY_REPLY_DEPARTS,
    COPY_REPLY_ARRIVES
};

struct sim_copy {
    struct ps_call base;
    struct ps_list entry; /* In the net's. */
    struct ps_list owed;  /* In the listener's calls, while a handler has it. */
    struct sim_request *rpc;
    struct sim_node *server; /* NULL: nobody is there. */
    enum copy_stage stage;
    struct sim_event travel;
    uint64_t until_ns;
    bool original; /* The caller waits for its answer. */
    enum ps_status status;
    uint32_t retry_ms; /* 0: as usual for the status. */
    struct ps_error reason;
    struct sim_load *load;
    struct ps_msg *reply;
};

/* ps_fail is for failures only. */
static void set_error(struct ps_error *err, enum ps_status status, const char *why)
{
    *err = (struct ps_error){0};
    if (status != PS_OK) {
        (void)ps_fail(err, status, "%s", why != NULL ? why : ps_status_text(status));
    }
}

static void request_unref(struct sim_request *rpc)
{
    rpc->n_refs--;
    if (rpc->n_refs == 0) {
        ps_list_remove(&rpc->entry);
        ps_msg_unref(rpc->msg);
        ps_mem_free(rpc);
    }
}

static void copy_free(struct sim_copy *copy)
{
    struct sim_request *rpc = copy->rpc;
    sim_event_stop(rpc->net->world, &copy->travel);
    ps_list_remove(&copy->entry);
    ps_list_remove(&copy->owed);
    ps_msg_unref(copy->reply);
    ps_mem_free(copy);
    request_unref(rpc);
}

/* ---- The caller's side --------------------------------------------------------------------- */

static void run_answer(struct sim_event *event)
{
    struct sim_request *rpc = PS_CONTAINER_OF(event, struct sim_request, answer);
    struct sim_net *net = rpc->net;
    struct ps_request *request = rpc->request;
    sim_trace(net->world, rpc->node, "done", rpc->method, (uint64_t)rpc->err.status,
              rpc->reply != NULL ? rpc->reply->n_bytes : 0);
    request->err = rpc->err;
    request->reply = rpc->reply;
    request->retry_ms = rpc->err.status != PS_OK ? rpc->retry_ms : 0;
    request->impl = NULL;
    rpc->request = NULL;
    rpc->channel->n_users--;
    if (net->tap != NULL && rpc->reply != NULL) {
        struct sim_reply heard = {rpc->node, rpc->server, rpc->method, rpc->began_ns, rpc->reply};
        net->tap(net->tap_arg, &heard);
    }
    request_unref(rpc);
    sim_net_enter(net);
    request->done(request);
    sim_net_leave(net);
}

/* The first answer counts; `reply` is consumed either way. */
static void answer(struct sim_request *rpc, enum ps_status status, struct ps_msg *reply,
                   const char *reason)
{
    if (rpc->answered) {
        ps_msg_unref(reply);
        return;
    }
    rpc->answered = true;
    rpc->retry_ms = rpc->retry_ms != 0 ? rpc->retry_ms : ps_status_retry_ms(status);
    sim_event_stop(rpc->net->world, &rpc->end);
    set_error(&rpc->err, status, reason);
    rpc->reply = reply;
    sim_event_start(rpc->net->world, &rpc->answer, sim_below(rpc->net->world, 10 * SIM_US));
}

static void run_end(struct sim_event *event)
{
    struct sim_request *rpc = PS_CONTAINER_OF(event, struct sim_request, end);
    if (rpc->end_status == PS_ERR_TIMEOUT) {
        rpc->net->counts.n_timeouts++;
    }
    answer(rpc, rpc->end_status, NULL, NULL);
}

static void end_early(struct sim_request *rpc, uint64_t after_ns)
{
    uint64_t at_ns = rpc->net->world->now_ns + after_ns;
    if (!rpc->answered && at_ns < rpc->end.at_ns) {
        rpc->end_status = PS_ERR_UNAVAIL;
        sim_event_start(rpc->net->world, &rpc->end, after_ns);
    }
}

/* The caller of a lost message: its connection mostly proves dead before the deadline, and always
 * within a few seconds, by its keepalive. */
static void lose(struct sim_request *rpc, const struct sim_node *where, const char *what)
{
    struct sim_world *world = rpc->net->world;
    rpc->net->counts.n_lost++;
    sim_trace(world, where, what, rpc->method, 0, 0);
    end_early(rpc, sim_chance(world, 60) ? 3 * SIM_S : sim_below(world, 2 * SIM_S));
}

static void run_travel(struct sim_event *event);

static void send_copy(struct sim_request *rpc, bool original)
{
    struct sim_net *net = rpc->net;
    struct sim_copy *copy = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*copy));
    PS_ASSERT(copy != NULL);
    struct sim_listener *listener = sim_net_listener(net, rpc->address);
    copy->base.transport = &net->ports[rpc->node->number].base;
    copy->rpc = rpc;
    copy->original = original;
    copy->server = listener != NULL ? listener->node : NULL;
    rpc->n_refs++;
    ps_list_init(&copy->entry);
    ps_list_init(&copy->owed);
    ps_list_append(&net->copies, &copy->entry);
    sim_event_init(&copy->travel, copy->server, run_travel);
    const struct sim_node *to = copy->server != NULL ? copy->server : rpc->node;
    uint64_t delay_ns = sim_net_delay(net, rpc->node, to);
    if (!original) {
        delay_ns += sim_heavy_tail(net->world, net->faults.late_ns / 16) % net->faults.late_ns;
    }
    copy->until_ns =
        original ? rpc->until_ns : net->world->now_ns + delay_ns + rpc->timeout_ms * SIM_MS;
    sim_event_start(net->world, &copy->travel, delay_ns);
}

static bool one_node(const struct sim_request *rpc)
{
    const struct sim_listener *listener = sim_net_listener(rpc->net, rpc->address);
    return listener != NULL && listener->node == rpc->node;
}

static bool cut_off(const struct sim_request *rpc)
{
    const struct sim_listener *listener = sim_net_listener(rpc->net, rpc->address);
    return listener != NULL && (sim_net_is_cut(rpc->net, rpc->node, listener->node) ||
                                sim_net_is_cut(rpc->net, listener->node, rpc->node));
}

static void run_depart(struct sim_event *event)
{
    struct sim_request *rpc = PS_CONTAINER_OF(event, struct sim_request, depart);
    struct sim_net *net = rpc->net;
    struct sim_world *world = net->world;
    sim_net_enter(net);
    rpc->msg = sim_load_depart(world, rpc->load);
    sim_net_leave(net);
    rpc->load = NULL;
    if (rpc->node->crashed) {
        end_early(rpc, SIM_MS);
    } else if (one_node(rpc)) {
        send_copy(rpc, true);
    } else {
        if (sim_chance(world, net->faults.lost_pm) ||
            (net->faults.lost_call > 0 && rpc->number >= net->faults.lost_call &&
             net->counts.n_lost == 0)) {
            lose(rpc, rpc->node, "request lost");
        } else {
            send_copy(rpc, true);
        }
        if (net->faults.late_ns > 0 && sim_chance(world, net->faults.doubled_pm)) {
            net->counts.n_doubled++;
            send_copy(rpc, false);
        }
        if (sim_chance(world, net->faults.reset_pm)) {
            net->counts.n_resets++;
            end_early(rpc, sim_below(world, 20 * SIM_MS));
        }
        if (cut_off(rpc) && sim_below(world, 2) == 0) {
            end_early(rpc, SIM_S + sim_below(world, 2 * SIM_S)); /* Its keepalive fails. */
        }
    }
    request_unref(rpc);
}

void sim_request_start(struct ps_channel *base, struct ps_request *request)
{
    struct sim_channel *channel = PS_CONTAINER_OF(base, struct sim_channel, base);
    struct sim_net *net = channel->net;
    struct sim_world *world = net->world;
    PS_ASSERT(request->timeout_ms > 0); /* Every call has an end. */
    struct sim_request *rpc = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*rpc));
    PS_ASSERT(rpc != NULL);
    rpc->net = net;
    rpc->channel = channel;
    rpc->node = channel->node;
    rpc->request = request;
    rpc->method = request->method;
    __builtin_memcpy(rpc->address, channel->address, sizeof(rpc->address));
    rpc->context = request->context;
    rpc->timeout_ms = request->timeout_ms;
    rpc->began_ns = world->now_ns;
    rpc->until_ns = world->now_ns + request->timeout_ms * SIM_MS;
    rpc->load = sim_load_take(&request->out);
    rpc->n_refs = 2;
    ps_list_init(&rpc->entry);
    ps_list_append(&net->requests, &rpc->entry);
    sim_event_init(&rpc->depart, rpc->node, run_depart);
    sim_event_init(&rpc->end, rpc->node, run_end);
    sim_event_init(&rpc->answer, rpc->node, run_answer);
    rpc->end_status = PS_ERR_TIMEOUT;
    request->impl = rpc;
    request->reply = NULL;
    channel->n_users++;
    rpc->number = ++net->counts.n_calls;
    bool held = sim_chance(world, net->faults.held_pm);
    sim_event_start(world, &rpc->depart, sim_below(world, held ? 2 * SIM_S : 20 * SIM_US));
    sim_event_start(world, &rpc->end, rpc->timeout_ms * SIM_MS);
}

void sim_request_cancel(struct ps_request *request)
{
    if (request->impl != NULL) {
        answer(request->impl, PS_ERR_CANCELED, NULL, NULL);
    }
}

/* ---- The server's side --------------------------------------------------------------------- */

static struct sim_copy *copy_of(struct ps_call *base)
{
    return PS_CONTAINER_OF(base, struct sim_copy, base);
}

/* Let the answer travel back; to whom nobody answers there is none. */
static void reply(struct sim_copy *copy, enum ps_status status, struct sim_load *load,
                  const char *why)
{
    struct sim_world *world = copy->rpc->net->world;
    bool open = sim_net_listener(copy->rpc->net, copy->rpc->address) != NULL;
    bool held = load != NULL && open && sim_chance(world, copy->rpc->net->faults.held_pm);
    copy->stage = COPY_REPLY_DEPARTS;
    copy->status = status;
    copy->load = load;
    set_error(&copy->reason, status, why);
    sim_event_start(world, &copy->travel, sim_below(world, held ? 2 * SIM_S : 20 * SIM_US));
}

static void arrive(struct sim_copy *copy)
{
    struct sim_request *rpc = copy->rpc;
    struct sim_net *net = rpc->net;
    struct sim_listener *listener = sim_net_listener(net, rpc->address);
    if (listener == NULL) {
        reply(copy, PS_ERR_UNAVAIL, NULL, "nobody listens there");
        return;
    }
    if (copy->server != listener->node) { /* Who listens now began after it was sent. */
        copy->server = listener->node;
        copy->travel.node = listener->node;
        sim_event_start(net->world, &copy->travel, 0);
        return;
    }
    const struct ps_method *method = sim_net_method(listener, rpc->method, true);
    if (method == NULL) {
        reply(copy, PS_ERR_UNSUPPORTED, NULL, "no such method");
        return;
    }
    sim_trace(net->world, copy->server, copy->original ? "call" : "call (copy)", rpc->method,
              rpc->node->number, rpc->msg->n_bytes);
    copy->stage = COPY_OWED;
    ps_list_append(&listener->calls, &copy->owed);
    sim_net_enter(net);
    method->call(method->arg, &copy->base);
    sim_net_leave(net);
}

static void depart_reply(struct sim_copy *copy)
{
    struct sim_request *rpc = copy->rpc;
    struct sim_net *net = rpc->net;
    bool home = copy->server == NULL || copy->server == rpc->node;
    if (copy->load != NULL) {
        sim_net_enter(net);
        copy->reply = sim_load_depart(net->world, copy->load);
        sim_net_leave(net);
        copy->load = NULL;
    }
    bool dead = copy->server != NULL && copy->server->crashed;
    if (!copy->original || rpc->answered || dead) {
        copy_free(copy);
    } else if (!home && sim_chance(net->world, net->faults.lost_pm)) {
        lose(rpc, copy->server, "reply lost");
        copy_free(copy);
    } else {
        copy->stage = COPY_REPLY_ARRIVES;
        copy->travel.node = rpc->node;
        sim_event_start(net->world, &copy->travel,
                        sim_net_delay(net, home ? rpc->node : copy->server, rpc->node));
    }
}

/* A cut link holds messages back (TCP repeats them) or, if it is the server that died, for good. */
static bool held_back(struct sim_copy *copy)
{
    struct sim_request *rpc = copy->rpc;
    struct sim_net *net = rpc->net;
    if (copy->server == NULL || copy->stage == COPY_REPLY_DEPARTS) {
        return false;
    }
    bool there = copy->stage == COPY_ARRIVES;
    const struct sim_node *from = there ? rpc->node : copy->server;
    const struct sim_node *to = there ? copy->server : rpc->node;
    if (!sim_net_is_cut(net, from, to)) {
        return false;
    }
    if (!copy->original && rpc->request == NULL && net->world->now_ns > copy->until_ns) {
        copy_free(copy);
        return true;
    }
    sim_event_start(net->world, &copy->travel, 20 * SIM_MS + sim_below(net->world, 60 * SIM_MS));
    return true;
}

static void run_travel(struct sim_event *event)
{
    struct sim_copy *copy = PS_CONTAINER_OF(event, struct sim_copy, travel);
    if (held_back(copy)) {
        return;
    }
    switch (copy->stage) {
    case COPY_ARRIVES: arrive(copy); break;
    case COPY_REPLY_DEPARTS: depart_reply(copy); break;
    case COPY_REPLY_ARRIVES: {
        struct ps_msg *msg = copy->reply;
        copy->reply = NULL;
        if (!copy->rpc->node->crashed) {
            copy->rpc->server = copy->server;
            copy->rpc->retry_ms = copy->rpc->answered ? copy->rpc->retry_ms : copy->retry_ms;
            answer(copy->rpc, copy->status, msg, copy->reason.text);
        } else {
            ps_msg_unref(msg);
        }
        copy_free(copy);
        break;
    }
    case COPY_OWED: PS_UNREACHABLE("a call travels while a handler has it");
    }
}

const struct ps_msg *sim_call_request(struct ps_call *base)
{
    return copy_of(base)->rpc->msg;
}

struct ps_msg *sim_call_take_request(struct ps_call *base)
{
    struct ps_msg *msg = copy_of(base)->rpc->msg;
    ps_msg_ref(msg);
    return msg;
}

const struct ps_context *sim_call_context(struct ps_call *base)
{
    return &copy_of(base)->rpc->context;
}

bool sim_call_gone(struct ps_call *base)
{
    const struct sim_copy *copy = copy_of(base);
    return sim_call_time_left_ms(base) == 0 || (copy->original && copy->rpc->answered);
}

uint32_t sim_call_time_left_ms(struct ps_call *base)
{
    const struct sim_copy *copy = copy_of(base);
    uint64_t now_ns = copy->rpc->net->world->now_ns;
    return copy->until_ns > now_ns ? (uint32_t)((copy->until_ns - now_ns) / SIM_MS) : 0;
}

void sim_call_retry_after(struct ps_call *base, uint32_t retry_ms)
{
    copy_of(base)->retry_ms = retry_ms;
}

void sim_call_finish(struct ps_call *base, enum ps_status status, const struct ps_out *out,
                     const char *reason)
{
    struct sim_copy *copy = copy_of(base);
    PS_ASSERT(copy->stage == COPY_OWED); /* Finished twice? */
    PS_ASSERT(PS_IMPLIES(status != PS_OK, out == NULL));
    sim_trace(copy->rpc->net->world, copy->server, "finish", copy->rpc->method, (uint64_t)status,
              copy->rpc->node->number);
    ps_list_remove(&copy->owed);
    reply(copy, status, status == PS_OK ? sim_load_take(out) : NULL, reason);
}

/* ---- All of them --------------------------------------------------------------------------- */

void sim_calls_abandon(struct sim_listener *listener)
{
    ps_list_for_each (at, &listener->calls) {
        struct sim_copy *copy = PS_CONTAINER_OF(at, struct sim_copy, owed);
        if (copy->original) {
            answer(copy->rpc, PS_ERR_UNAVAIL, NULL, "the server stopped");
        }
    }
    struct sim_net *net = listener->net;
    ps_list_for_each (entry, &net->copies) { /* It lets go of what it was lent. */
        struct sim_copy *copy = PS_CONTAINER_OF(entry, struct sim_copy, entry);
        if (copy->stage == COPY_REPLY_DEPARTS && copy->server == listener->node) {
            sim_event_start(net->world, &copy->travel, 0);
        }
    }
}

void sim_calls_reset(struct sim_net *net, const struct sim_node *a, const struct sim_node *b)
{
    ps_list_for_each (at, &net->requests) {
        struct sim_request *rpc = PS_CONTAINER_OF(at, struct sim_request, entry);
        const struct sim_listener *listener = sim_net_listener(net, rpc->address);
        const struct sim_node *server = listener != NULL ? listener->node : NULL;
        bool forth = rpc->node == a && (b == NULL || server == b);
        bool back = server == a && (b == NULL || rpc->node == b);
        if (rpc->request != NULL && (forth || back)) {
            net->counts.n_resets++;
            end_early(rpc, sim_below(net->world, SIM_MS));
        }
    }
}

void sim_calls_orphan(struct sim_net *net, struct sim_node *server, bool soon)
{
    struct sim_world *world = net->world;
    ps_list_for_each_safe (at, next, &net->copies) {
        struct sim_copy *copy = PS_CONTAINER_OF(at, struct sim_copy, entry);
        if (copy->server != server || copy->stage == COPY_REPLY_ARRIVES) {
            continue;
        }
        if (copy->original) {
            end_early(copy->rpc,
                      soon ? sim_below(world, SIM_MS) : SIM_S + sim_below(world, 2 * SIM_S));
        }
        if (copy->stage == COPY_ARRIVES && copy->original) {
            copy_free(copy);
        } else if (copy->stage == COPY_ARRIVES) {
            uint64_t at_ns = copy->travel.at_ns;
            copy->server = NULL;
            copy->travel.node = NULL;
            sim_event_start(world, &copy->travel,
                            at_ns > world->now_ns ? at_ns - world->now_ns : 0);
        }
    }
}

void sim_calls_drop(struct sim_net *net)
{
    ps_list_for_each_safe (entry, next, &net->requests) {
        struct sim_request *rpc = PS_CONTAINER_OF(entry, struct sim_request, entry);
        if (rpc->request == NULL && rpc->load != NULL) {
            sim_event_stop(net->world, &rpc->depart);
            rpc->msg = sim_load_depart(net->world, rpc->load);
            rpc->load = NULL;
            request_unref(rpc);
        }
    }
    ps_list_for_each_safe (at, after, &net->copies) {
        struct sim_copy *copy = PS_CONTAINER_OF(at, struct sim_copy, entry);
        if (copy->stage != COPY_OWED) {
            if (copy->load != NULL) {
                ps_msg_unref(sim_load_depart(net->world, copy->load));
            }
            copy_free(copy);
        }
    }
}
