/*
 * client_cold.c — the rare calls to the coordinator: Join, DefineTable, DefineJob, Describe, Leave.
 *
 * Each is repeated with back-off until it is answered; all are harmless to repeat. A table whose
 * number leaves a gap in the catalogue (others defined the tables below) is followed by a Describe
 * before its operation ends, so that layouts are always whole.
 */
#include <string.h>

#include "client/client_impl.h"
#include "client/client_state.h"
#include "wire/pack.h"

static ProtobufCBinaryData bytes_of(uint8_t *data, size_t n_bytes)
{
    return (ProtobufCBinaryData){.len = n_bytes, .data = data};
}

static ProtobufCBinaryData session_of(struct ps_client *client)
{
    return bytes_of(client->options.session.bytes, sizeof(client->options.session.bytes));
}

/* protobuf-c wants strings that it may write to; packing does not. */
static char *text_of(const char *text)
{
    union {
        const char *from;
        char *to;
    } cast = {.from = text != NULL ? text : ""};
    return cast.to;
}

static bool pack(struct ps_client *client, const ProtobufCMessage *message, struct ps_out *ret)
{
    bool fits;
    uint8_t *head = client->scratch->head;
    size_t n_bytes = ps_wire_pack(message, head, PS_HEAD_BYTES_MAX, &fits);
    *ret = (struct ps_out){.head = head, .n_head_bytes = n_bytes};
    return fits;
}

static bool pack_join(struct ps_client_cold *cold, struct ps_out *ret)
{
    struct ps_client *client = cold->client;
    struct ps_client_options *options = &client->options;
    Ps__V1__JoinRequest join;
    ps__v1__join_request__init(&join);
    join.protocol_min = PS_PROTOCOL_MIN;
    join.protocol_max = PS_PROTOCOL_MAX;
    if (!ps_id_none(&options->cluster_id)) {
        join.cluster_id = bytes_of(options->cluster_id.bytes, sizeof(options->cluster_id.bytes));
    }
    join.kind = options->kind == PS_CLIENT_WORKER ? PS__V1__SESSION_KIND__WORKER
                                                  : PS__V1__SESSION_KIND__READER;
    join.name = client->name;
    join.session = session_of(client);
    return pack(client, &join.base, ret);
}

static bool pack_define_table(struct ps_client_cold *cold, struct ps_out *ret)
{
    const struct ps_table_def *def = PS_CONTAINER_OF(cold->op, struct ps_define_table, op)->def;
    uint64_t shape[PS_DIMS_MAX];
    memcpy(shape, def->shape, sizeof(shape));
    Ps__V1__Optimizer optimizer;
    ps__v1__optimizer__init(&optimizer);
    optimizer.name = text_of(def->optimizer);
    optimizer.momentum = def->momentum;
    optimizer.beta1 = def->beta1;
    optimizer.beta2 = def->beta2;
    optimizer.epsilon = def->epsilon;
    optimizer.weight_decay = def->weight_decay;
    optimizer.l2 = def->l2;
    Ps__V1__TableDefinition definition;
    ps__v1__table_definition__init(&definition);
    definition.name = text_of(def->name);
    definition.n_shape = def->n_dims;
    definition.shape = shape;
    definition.dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    definition.init = (Ps__V1__InitKind)def->init_kind;
    definition.init_scale = def->init_scale;
    definition.seed = def->seed;
    definition.optimizer = &optimizer;
    Ps__V1__DefineTableRequest request;
    ps__v1__define_table_request__init(&request);
    request.session = session_of(cold->client);
    request.definition = &definition;
    return pack(cold->client, &request.base, ret);
}

static bool pack_define_job(struct ps_client_cold *cold, struct ps_out *ret)
{
    const struct ps_job_def *def = PS_CONTAINER_OF(cold->op, struct ps_define_job, op)->def;
    Ps__V1__Consistency consistency;
    ps__v1__consistency__init(&consistency);
    consistency.version = def->consistency.version;
    consistency.mode = (Ps__V1__ConsistencyMode)def->consistency.mode;
    consistency.bound = def->consistency.bound;
    consistency.aggregate = def->consistency.aggregate;
    consistency.backups = def->consistency.n_backups;
    Ps__V1__JobDefinition definition;
    ps__v1__job_definition__init(&definition);
    definition.model = text_of(def->model);
    definition.data = text_of(def->data);
    definition.rows = def->rows;
    definition.batch = def->batch;
    definition.epochs = def->epochs;
    definition.shuffle = def->shuffle;
    definition.seed = def->seed;
    definition.workers = def->workers;
    definition.start_timeout_ms = def->start_timeout_ms;
    definition.consistency = &consistency;
    definition.units_per_lease = def->units_per_lease;
    Ps__V1__DefineJobRequest request;
    ps__v1__define_job_request__init(&request);
    request.session = session_of(cold->client);
    request.definition = &definition;
    return pack(cold->client, &request.base, ret);
}

static bool pack_describe(struct ps_client_cold *cold, struct ps_out *ret)
{
    Ps__V1__DescribeRequest request;
    ps__v1__describe_request__init(&request);
    return pack(cold->client, &request.base, ret);
}

static bool pack_leave(struct ps_client_cold *cold, struct ps_out *ret)
{
    Ps__V1__LeaveRequest request;
    ps__v1__leave_request__init(&request);
    request.session = session_of(cold->client);
    return pack(cold->client, &request.base, ret);
}

/* How an answered call ends: with its operation, or as another call for the same operation. */
enum next {
    NEXT_DONE,
    NEXT_DESCRIBE
};

static enum next take_join(struct ps_client_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__JoinReply *reply = (const Ps__V1__JoinReply *)message;
    struct ps_client *client = cold->client;
    client->view.session_number = reply->session_number;
    (void)ps_id_from(reply->cluster_id.data, reply->cluster_id.len, &client->view.cluster_id);
    (void)ps_client_state_newest(client, reply->term, reply->generation);
    client->changed = true;
    if (client->phase == PS_CLIENT_ACTIVE) {
        ps_client_attend_start(client);
    }
    return NEXT_DONE;
}

static enum next take_define_table(struct ps_client_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__DefineTableReply *reply = (const Ps__V1__DefineTableReply *)message;
    struct ps_define_table *define = PS_CONTAINER_OF(cold->op, struct ps_define_table, op);
    if (ps_client_state_table(cold->client, reply->table, &cold->op->err) != PS_OK) {
        return NEXT_DONE;
    }
    define->ret_table = reply->table->number;
    return cold->client->n_tables <= define->ret_table ? NEXT_DESCRIBE : NEXT_DONE;
}

static enum next take_define_job(struct ps_client_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__DefineJobReply *reply = (const Ps__V1__DefineJobReply *)message;
    struct ps_define_job *define = PS_CONTAINER_OF(cold->op, struct ps_define_job, op);
    if (reply->definition != NULL) {
        define->ret_units_per_lease = reply->definition->units_per_lease;
        ps_client_state_consistency(cold->client, reply->definition->consistency);
    }
    return NEXT_DONE;
}

static enum next take_describe(struct ps_client_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__DescribeReply *reply = (const Ps__V1__DescribeReply *)message;
    struct ps_client *client = cold->client;
    if (ps_client_state_newest(client, reply->term, reply->generation)) {
        ps_client_state_placement(client, reply->placement);
        ps_client_state_catalogue(client, reply->catalogue);
        ps_client_state_consistency(client, reply->consistency);
        ps_client_state_min_clock(client, reply->min_clock);
    }
    return NEXT_DONE;
}

static enum next take_leave(struct ps_client_cold *cold PS_UNUSED,
                            const ProtobufCMessage *message PS_UNUSED)
{
    return NEXT_DONE;
}

static const struct cold_kind {
    const char *method;
    const ProtobufCMessageDescriptor *reply;
    bool (*pack)(struct ps_client_cold *cold, struct ps_out *ret);
    enum next (*take)(struct ps_client_cold *cold, const ProtobufCMessage *message);
} kinds[] = {
    [PS_CLIENT_JOIN] = {"/ps.v1.Coordinator/Join", &ps__v1__join_reply__descriptor, pack_join,
                        take_join},
    [PS_CLIENT_DEFINE_TABLE] = {"/ps.v1.Coordinator/DefineTable",
                                &ps__v1__define_table_reply__descriptor, pack_define_table,
                                take_define_table},
    [PS_CLIENT_DEFINE_JOB] = {"/ps.v1.Coordinator/DefineJob", &ps__v1__define_job_reply__descriptor,
                              pack_define_job, take_define_job},
    [PS_CLIENT_DESCRIBE] = {"/ps.v1.Coordinator/Describe", &ps__v1__describe_reply__descriptor,
                            pack_describe, take_describe},
    [PS_CLIENT_LEAVE] = {"/ps.v1.Coordinator/Leave", &ps__v1__leave_reply__descriptor, pack_leave,
                         take_leave},
};

static void end_cold(struct ps_client_cold *cold, enum ps_status status, const char *words)
{
    struct ps_client *client = cold->client;
    ps_timer_stop(client->options.exec, &cold->timer);
    ps_list_remove(&cold->node);
    client->n_colds--;
    ps_client_end_op(client, cold->op, status, words);
    ps_mem_free(cold);
}

/* On a thread of the transport. */
static void on_done(struct ps_request *request)
{
    struct ps_client_cold *cold = PS_CONTAINER_OF(request, struct ps_client_cold, request);
    ps_exec_post(cold->client->options.exec, &cold->mail);
}

/* Join and Describe before it have no stream whose silence would end them. */
static uint32_t try_ms(const struct ps_client_cold *cold)
{
    const struct ps_client_options *options = &cold->client->options;
    switch (cold->kind) {
    case PS_CLIENT_LEAVE: return PS_CLIENT_LEAVE_MS;
    case PS_CLIENT_DEFINE_TABLE: /* Servers may have gigabytes to make. */
    case PS_CLIENT_DEFINE_JOB: return options->give_up_ms;
    case PS_CLIENT_JOIN:
    case PS_CLIENT_DESCRIBE: break;
    }
    return options->call_timeout_ms;
}

static void send_cold(struct ps_client_cold *cold)
{
    const struct cold_kind *kind = &kinds[cold->kind];
    struct ps_client *client = cold->client;
    if (!kind->pack(cold, &cold->request.out)) {
        end_cold(cold, PS_ERR_INVALID, "the definition is too long");
        return;
    }
    cold->request.method = kind->method;
    cold->request.timeout_ms = try_ms(cold);
    cold->request.context = (struct ps_context){.session = client->view.session_number};
    cold->request.done = on_done;
    cold->request.err = (struct ps_error){0};
    cold->under_way = true;
    ps_request_start(client->control, &cold->request);
}

static void run_timer(struct ps_timer *timer)
{
    struct ps_client_cold *cold = PS_CONTAINER_OF(timer, struct ps_client_cold, timer);
    struct ps_client *client = cold->client;
    send_cold(cold);
    ps_client_settle(client);
}

static void take_answer(struct ps_client_cold *cold)
{
    struct ps_client *client = cold->client;
    const struct ps_msg *reply = cold->request.reply;
    ProtobufCMessage *message = ps_wire_unpack(kinds[cold->kind].reply, reply->slices,
                                               reply->n_slices, client->options.mem);
    if (message == NULL) {
        end_cold(cold, PS_ERR_CORRUPT, "the coordinator's answer makes no sense");
        return;
    }
    cold->op->err.status = PS_OK;
    enum next next = kinds[cold->kind].take(cold, message);
    ps_wire_unpacked_free(message);
    if (next == NEXT_DESCRIBE) {
        cold->kind = PS_CLIENT_DESCRIBE;
        send_cold(cold);
    } else {
        end_cold(cold, cold->op->err.status, cold->op->err.text);
    }
}

static void take_failure(struct ps_client_cold *cold)
{
    struct ps_client *client = cold->client;
    const struct ps_error *err = &cold->request.err;
    uint64_t now_ms = ps_exec_now_ms(client->options.exec);
    struct ps_error usable;
    bool over = cold->kind != PS_CLIENT_LEAVE && ps_client_usable(client, &usable) != PS_OK;
    bool again = ps_status_retryable(err->status) || err->status == PS_ERR_CANCELED;
    if (over) {
        end_cold(cold, usable.status, usable.text);
    } else if (!again || cold->kind == PS_CLIENT_LEAVE) {
        end_cold(cold, err->status, err->text);
    } else if (now_ms >= cold->give_up_at_ms) {
        bool silent = err->status == PS_ERR_UNAVAIL || err->status == PS_ERR_TIMEOUT;
        struct ps_error why;
        (void)ps_fail(&why, silent ? PS_ERR_LOST : err->status, "coordinator (%s): %s",
                      client->coordinator, err->text);
        end_cold(cold, why.status, why.text);
    } else {
        client->view.n_retries++;
        ps_timer_start(client->options.exec, &cold->timer,
                       ps_backoff_next_ms(&cold->backoff, &client->rng));
    }
}

static void run_done(struct ps_mail *mail)
{
    struct ps_client_cold *cold = PS_CONTAINER_OF(mail, struct ps_client_cold, mail);
    struct ps_client *client = cold->client;
    cold->under_way = false;
    struct ps_msg *reply = cold->request.reply;
    if (cold->request.err.status == PS_OK) {
        take_answer(cold);
    } else {
        take_failure(cold);
    }
    ps_msg_unref(reply);
    ps_client_settle(client);
}

void ps_client_cold_start(struct ps_client *client, enum ps_client_cold_kind kind, struct ps_op *op)
{
    struct ps_client_cold *cold = NULL;
    if (client->n_colds < PS_CLIENT_COLD_MAX) {
        cold = ps_mem_alloc(client->options.mem, PS_MEM_CALLS, sizeof(*cold));
    }
    if (cold == NULL) {
        ps_client_end_op(client, op, PS_ERR_BUSY, "too many operations at once");
        return;
    }
    uint32_t patience = kind == PS_CLIENT_JOIN ? PS_CLIENT_JOIN_PATIENCE : 1;
    uint64_t now_ms = ps_exec_now_ms(client->options.exec);
    bool attended = kind == PS_CLIENT_DEFINE_TABLE || kind == PS_CLIENT_DEFINE_JOB;
    cold->client = client;
    cold->kind = kind;
    cold->op = op;
    cold->mail.run = run_done;
    /* While the coordinator is heard on the stream, a definition waits as long as it takes. */
    cold->give_up_at_ms =
        attended ? UINT64_MAX : now_ms + (uint64_t)client->options.give_up_ms * patience;
    ps_timer_init(&cold->timer, run_timer);
    ps_list_append(&client->colds, &cold->node);
    client->n_colds++;
    send_cold(cold);
}

void ps_client_cold_fail(struct ps_client *client, enum ps_status status, const char *words)
{
    ps_list_for_each_safe (at, after, &client->colds) {
        struct ps_client_cold *cold = PS_CONTAINER_OF(at, struct ps_client_cold, node);
        if (!cold->under_way) {
            end_cold(cold, status, words);
        } else {
            ps_request_cancel(client->control, &cold->request);
        }
    }
}
