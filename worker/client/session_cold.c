/*
 * session_cold.c — the rare calls to the coordinator: Join, DefineTable, DefineJob, Describe,
 * Shutdown, Leave.
 *
 * Each is repeated with back-off until it is answered; all are harmless to repeat. A table whose
 * number leaves a gap in the catalogue (others defined the tables below) is followed by a Describe
 * before its operation ends, so that layouts are always whole.
 */
#include <inttypes.h>
#include <string.h>

#include "client/cluster.h"
#include "client/session_impl.h"
#include "client/session_state.h"
#include "obs/log.h"
#include "wire/pack.h"

static ProtobufCBinaryData bytes_of(uint8_t *data, size_t n_bytes)
{
    return (ProtobufCBinaryData){.len = n_bytes, .data = data};
}

static ProtobufCBinaryData session_of(struct ps_session *session)
{
    return bytes_of(session->options.session.bytes, sizeof(session->options.session.bytes));
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

static bool pack(struct ps_session *session, const ProtobufCMessage *message, struct ps_out *ret)
{
    bool fits;
    uint8_t *head = session->scratch->head;
    size_t n_bytes = ps_wire_pack(message, head, PS_HEAD_BYTES_MAX, &fits);
    *ret = (struct ps_out){.head = head, .n_head_bytes = n_bytes};
    return fits;
}

/* As pack: a job's setup may be longer than the head of any other message. */
static bool pack_long(struct ps_session_cold *cold, const ProtobufCMessage *message,
                      struct ps_out *ret)
{
    size_t n_bytes = protobuf_c_message_get_packed_size(message);
    if (n_bytes <= PS_HEAD_BYTES_MAX || n_bytes > PS_HEAD_BYTES_MAX + PS_SETUP_BYTES_MAX) {
        return pack(cold->session, message, ret);
    }
    cold->head = ps_mem_alloc(cold->session->options.mem, PS_MEM_CALLS, n_bytes);
    cold->starved = cold->head == NULL;
    if (cold->starved) {
        return false;
    }
    bool fits;
    n_bytes = ps_wire_pack(message, cold->head, n_bytes, &fits);
    *ret = (struct ps_out){.head = cold->head, .n_head_bytes = n_bytes};
    return fits;
}

static bool pack_join(struct ps_session_cold *cold, struct ps_out *ret)
{
    struct ps_session *session = cold->session;
    struct ps_session_options *options = &session->options;
    Ps__V1__JoinRequest join;
    ps__v1__join_request__init(&join);
    join.protocol_min = PS_PROTOCOL_MIN;
    join.protocol_max = PS_PROTOCOL_MAX;
    if (!ps_id_none(&options->cluster_id)) {
        join.cluster_id = bytes_of(options->cluster_id.bytes, sizeof(options->cluster_id.bytes));
    }
    join.kind = options->kind == PS_CLIENT_WORKER ? PS__V1__SESSION_KIND__WORKER
                                                  : PS__V1__SESSION_KIND__READER;
    join.name = session->name;
    join.session = session_of(session);
    join.unleased = options->unleased;
    return pack(session, &join.base, ret);
}

static bool pack_define_table(struct ps_session_cold *cold, struct ps_out *ret)
{
    const struct ps_table_def *def = PS_CONTAINER_OF(cold->op, struct ps_define_table_op, op)->def;
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
    optimizer.l1 = def->l1;
    optimizer.beta = def->beta;
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
    definition.kind = def->width != 0 ? PS__V1__TABLE_KIND__SPARSE : PS__V1__TABLE_KIND__DENSE;
    definition.width = def->width;
    definition.admit_after = def->admit_after;
    definition.expire_after = def->expire_after;
    Ps__V1__DefineTableRequest request;
    ps__v1__define_table_request__init(&request);
    request.session = session_of(cold->session);
    request.definition = &definition;
    return pack(cold->session, &request.base, ret);
}

static bool pack_define_job(struct ps_session_cold *cold, struct ps_out *ret)
{
    const struct ps_job_def *def = PS_CONTAINER_OF(cold->op, struct ps_define_job_op, op)->def;
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
    definition.parts = def->parts;
    definition.setup = text_of(def->setup);
    Ps__V1__DefineJobRequest request;
    ps__v1__define_job_request__init(&request);
    request.session = session_of(cold->session);
    request.definition = &definition;
    return pack_long(cold, &request.base, ret);
}

static bool pack_describe(struct ps_session_cold *cold, struct ps_out *ret)
{
    Ps__V1__DescribeRequest request;
    ps__v1__describe_request__init(&request);
    return pack(cold->session, &request.base, ret);
}

static bool pack_shutdown(struct ps_session_cold *cold, struct ps_out *ret)
{
    Ps__V1__ShutdownRequest request;
    ps__v1__shutdown_request__init(&request);
    request.reason = text_of(PS_CONTAINER_OF(cold->op, struct ps_shutdown_op, op)->reason);
    return pack(cold->session, &request.base, ret);
}

static bool pack_leave(struct ps_session_cold *cold, struct ps_out *ret)
{
    Ps__V1__LeaveRequest request;
    ps__v1__leave_request__init(&request);
    request.session = session_of(cold->session);
    return pack(cold->session, &request.base, ret);
}

/* How an answered call ends: with its operation, or as another call for the same operation. */
enum next {
    NEXT_DONE,
    NEXT_DESCRIBE,
    NEXT_LATER /* Not yet: again after a while. */
};

static enum next take_join(struct ps_session_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__JoinReply *reply = (const Ps__V1__JoinReply *)message;
    struct ps_session *session = cold->session;
    if (reply->protocol < PS_PROTOCOL_MIN || reply->protocol > PS_PROTOCOL_MAX) {
        (void)ps_fail(&cold->op->err, PS_ERR_UNSUPPORTED,
                      "coordinator (%.100s) speaks protocol %" PRIu32
                      ", %u to %u are spoken here: the programs differ in age",
                      session->coordinator, reply->protocol, PS_PROTOCOL_MIN, PS_PROTOCOL_MAX);
        return NEXT_DONE;
    }
    (void)ps_session_state_newest(session, reply->term, reply->generation);
    session->view.session_number = reply->session_number;
    session->key_seed = reply->key_seed;
    ps_session_state_patience(session, reply->patience_ms);
    (void)ps_id_from(reply->cluster_id.data, reply->cluster_id.len, &session->view.cluster_id);
    session->changed = true;
    if (session->phase == PS_SESSION_ACTIVE) {
        ps_session_attend_start(session);
    }
    return NEXT_DONE;
}

/*
 * Is what the coordinator made known as what was asked for? Whoever reads weights into an array of
 * the shape that it asked for must not get those of another one.
 */
static void check_defined(struct ps_session_cold *cold)
{
    const struct ps_session *session = cold->session;
    const struct ps_define_table_op *op = PS_CONTAINER_OF(cold->op, struct ps_define_table_op, op);
    const struct ps_table *table = &session->tables[op->ret_table];
    if (op->ret_table < session->n_tables && strcmp(table->name, op->def->name) == 0 &&
        table->n_dims == op->def->n_dims &&
        memcmp(table->shape, op->def->shape, table->n_dims * sizeof(*table->shape)) == 0) {
        return;
    }
    (void)ps_fail(&cold->op->err, PS_ERR_CORRUPT,
                  "coordinator (%.100s) made table '%.64s' and describes another one",
                  session->coordinator, op->def->name);
}

static enum next take_define_table(struct ps_session_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__DefineTableReply *reply = (const Ps__V1__DefineTableReply *)message;
    struct ps_define_table_op *define = PS_CONTAINER_OF(cold->op, struct ps_define_table_op, op);
    if (ps_session_state_table(cold->session, reply->table, &cold->op->err) != PS_OK) {
        return NEXT_DONE;
    }
    define->ret_table = reply->table->number;
    if (cold->session->n_tables <= define->ret_table) {
        cold->defines = true;
        return NEXT_DESCRIBE;
    }
    check_defined(cold);
    return NEXT_DONE;
}

static enum next take_define_job(struct ps_session_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__DefineJobReply *reply = (const Ps__V1__DefineJobReply *)message;
    struct ps_define_job_op *define = PS_CONTAINER_OF(cold->op, struct ps_define_job_op, op);
    if (reply->definition != NULL) {
        define->ret_units_per_lease = reply->definition->units_per_lease;
        ps_session_state_consistency(cold->session, reply->definition->consistency);
    }
    return NEXT_DONE;
}

/*
 * A coordinator that has just come back describes a table only when every server has said again
 * that it made it; asked to define it, it answers when that is so. One that lies never does.
 */
static bool lacks_for_now(struct ps_session_cold *cold)
{
    const struct ps_session *session = cold->session;
    const struct ps_define_table_op *op = PS_CONTAINER_OF(cold->op, struct ps_define_table_op, op);
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    if (op->ret_table < session->n_tables) {
        return false;
    }
    cold->lacks_since_ms = cold->lacks_since_ms != 0 ? cold->lacks_since_ms : now_ms;
    return now_ms - cold->lacks_since_ms < session->options.give_up_ms;
}

/* Of a coordinator, or of a generation, that is over: the stream was faster than this answer. */
static bool outdated(struct ps_session_cold *cold, const Ps__V1__DescribeReply *reply)
{
    const struct ps_view *view = &cold->session->view;
    if (reply->term >= view->term && reply->generation >= view->generation) {
        return false;
    }
    (void)ps_fail(&cold->why, PS_ERR_UNAVAIL, "only a coordinator of earlier times has answered");
    return true;
}

static enum next take_describe(struct ps_session_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__DescribeReply *reply = (const Ps__V1__DescribeReply *)message;
    struct ps_session *session = cold->session;
    if (outdated(cold, reply)) {
        return NEXT_LATER;
    }
    if (ps_session_state_newest(session, reply->term, reply->generation)) {
        ps_session_state_placement(session, reply->placement);
        ps_session_state_catalogue(session, reply->catalogue);
        ps_session_state_consistency(session, reply->consistency);
        ps_session_state_min_clock(session, reply->min_clock);
    }
    if (!cold->defines) {
        return NEXT_DONE;
    }
    if (lacks_for_now(cold)) {
        cold->kind = PS_SESSION_DEFINE_TABLE;
        return NEXT_LATER;
    }
    check_defined(cold);
    return NEXT_DONE;
}

/* Described for the caller. Counted nowhere: it may outlive the session and its budget. */
static enum next take_look(struct ps_session_cold *cold, const ProtobufCMessage *message)
{
    const Ps__V1__DescribeReply *reply = (const Ps__V1__DescribeReply *)message;
    struct ps_look_op *look = PS_CONTAINER_OF(cold->op, struct ps_look_op, op);
    if (take_describe(cold, message) == NEXT_LATER) {
        return NEXT_LATER;
    }
    look->op.err.status = ps_cluster_read(reply, NULL, &look->ret_cluster, &look->op.err);
    return NEXT_DONE;
}

static enum next take_nothing(struct ps_session_cold *cold PS_UNUSED,
                              const ProtobufCMessage *message PS_UNUSED)
{
    return NEXT_DONE;
}

static const struct cold_kind {
    const char *method;
    const ProtobufCMessageDescriptor *reply;
    bool (*pack)(struct ps_session_cold *cold, struct ps_out *ret);
    enum next (*take)(struct ps_session_cold *cold, const ProtobufCMessage *message);
} kinds[] = {
    [PS_SESSION_JOIN] = {"/ps.v1.Coordinator/Join", &ps__v1__join_reply__descriptor, pack_join,
                         take_join},
    [PS_SESSION_DEFINE_TABLE] = {"/ps.v1.Coordinator/DefineTable",
                                 &ps__v1__define_table_reply__descriptor, pack_define_table,
                                 take_define_table},
    [PS_SESSION_DEFINE_JOB] = {"/ps.v1.Coordinator/DefineJob",
                               &ps__v1__define_job_reply__descriptor, pack_define_job,
                               take_define_job},
    [PS_SESSION_DESCRIBE] = {"/ps.v1.Coordinator/Describe", &ps__v1__describe_reply__descriptor,
                             pack_describe, take_describe},
    [PS_SESSION_LOOK] = {"/ps.v1.Coordinator/Describe", &ps__v1__describe_reply__descriptor,
                         pack_describe, take_look},
    [PS_SESSION_LEAVE] = {"/ps.v1.Coordinator/Leave", &ps__v1__leave_reply__descriptor, pack_leave,
                          take_nothing},
    [PS_SESSION_SHUTDOWN] = {"/ps.v1.Coordinator/Shutdown", &ps__v1__shutdown_reply__descriptor,
                             pack_shutdown, take_nothing},
};

static void end_cold(struct ps_session_cold *cold, enum ps_status status, const char *words)
{
    struct ps_session *session = cold->session;
    ps_timer_stop(session->options.exec, &cold->timer);
    ps_list_remove(&cold->node);
    session->n_colds--;
    ps_session_end_op(session, cold->op, status, words);
    ps_mem_free(cold);
}

/* On a thread of the transport. */
static void on_done(struct ps_request *request)
{
    struct ps_session_cold *cold = PS_CONTAINER_OF(request, struct ps_session_cold, request);
    ps_exec_post(cold->session->options.exec, &cold->mail);
}

/* Join and Describe before it have no stream whose silence would end them. */
static uint32_t try_ms(const struct ps_session_cold *cold)
{
    const struct ps_session_options *options = &cold->session->options;
    switch (cold->kind) {
    case PS_SESSION_LEAVE: return PS_SESSION_LEAVE_MS;
    case PS_SESSION_DEFINE_TABLE:
    case PS_SESSION_DEFINE_JOB:
        return options->give_up_ms < PS_SESSION_DEFINE_MS ? options->give_up_ms
                                                          : PS_SESSION_DEFINE_MS;
    case PS_SESSION_JOIN:
    case PS_SESSION_DESCRIBE:
    case PS_SESSION_LOOK:
    case PS_SESSION_SHUTDOWN: break;
    }
    uint64_t now_ms = ps_exec_now_ms(options->exec);
    uint64_t left_ms = cold->give_up_at_ms > now_ms ? cold->give_up_at_ms - now_ms : 1;
    return left_ms < options->call_timeout_ms ? (uint32_t)left_ms : options->call_timeout_ms;
}

static void send_cold(struct ps_session_cold *cold)
{
    const struct cold_kind *kind = &kinds[cold->kind];
    struct ps_session *session = cold->session;
    if (!kind->pack(cold, &cold->request.out)) {
        end_cold(cold, cold->starved ? PS_ERR_NOMEM : PS_ERR_INVALID,
                 cold->starved ? "no memory for the definition" : "the definition is too long");
        return;
    }
    cold->request.method = kind->method;
    cold->request.timeout_ms = try_ms(cold);
    cold->request.at_once = cold->kind == PS_SESSION_JOIN || cold->kind == PS_SESSION_DESCRIBE;
    cold->request.context = (struct ps_context){.session = session->view.session_number};
    cold->request.done = on_done;
    cold->request.err = (struct ps_error){0};
    cold->request.retry_ms = 0;
    cold->under_way = true;
    ps_request_start(session->control, &cold->request);
    ps_mem_free(cold->head); /* It is copied, as the scratch is. */
    cold->head = NULL;
}

/* Silence says less than what was heard before it. */
static void keep_reason(struct ps_session_cold *cold, const struct ps_error *err)
{
    if (err->status != PS_ERR_TIMEOUT || cold->why.status != PS_ERR_UNAVAIL) {
        cold->why = *err;
    }
}

/* At growing intervals, until the stream has words of its own. */
static void say_waiting(struct ps_session_cold *cold, uint64_t now_ms)
{
    uint64_t waited_ms = now_ms - cold->started_ms;
    if (cold->kind != PS_SESSION_JOIN || waited_ms < cold->next_log_ms) {
        return;
    }
    cold->next_log_ms = 2 * waited_ms;
    ps_log(PS_LOG_WARN, "coordinator.waits",
           "msg=\"coordinator (%s): %s: retrying since %" PRIu64 " s\"", cold->session->coordinator,
           cold->why.text, waited_ms / 1000);
}

/* For good: `again` when another try would not be in vain, if there were time. */
static void give_up(struct ps_session_cold *cold, bool again)
{
    struct ps_error why = cold->why;
    if (cold->kind == PS_SESSION_JOIN || again) { /* Later it is not in question who refuses. */
        (void)ps_fail(&why, cold->why.status, "coordinator (%.100s): %s",
                      cold->session->coordinator, cold->why.text);
    }
    end_cold(cold, why.status, why.text);
}

static bool patient(const struct ps_session_cold *cold)
{
    return ps_exec_now_ms(cold->session->options.exec) < cold->give_up_at_ms;
}

static void run_timer(struct ps_timer *timer)
{
    struct ps_session_cold *cold = PS_CONTAINER_OF(timer, struct ps_session_cold, timer);
    struct ps_session *session = cold->session;
    if (patient(cold)) {
        send_cold(cold);
    } else {
        give_up(cold, true);
    }
    ps_session_settle(session);
}

/* After its back-off, or when the coordinator has said; but who asks does not wait for that. */
static void try_later(struct ps_session_cold *cold, uint64_t now_ms)
{
    struct ps_session *session = cold->session;
    session->view.n_retries++;
    uint64_t wait_ms = ps_backoff_next_ms(&cold->backoff, &session->rng);
    uint64_t least_ms = ps_session_hint_ms(cold->request.retry_ms);
    wait_ms = wait_ms > least_ms ? wait_ms : least_ms;
    uint64_t left_ms = cold->give_up_at_ms - now_ms;
    ps_timer_start(session->options.exec, &cold->timer, wait_ms < left_ms ? wait_ms : left_ms);
}

static void take_answer(struct ps_session_cold *cold)
{
    struct ps_session *session = cold->session;
    const struct ps_msg *reply = cold->request.reply;
    enum ps_status why;
    ProtobufCMessage *message = ps_wire_unpack_why(kinds[cold->kind].reply, reply->slices,
                                                   reply->n_slices, session->options.mem, &why);
    if (message == NULL) {
        end_cold(cold, why,
                 why == PS_ERR_NOMEM ? "no memory for the coordinator's answer"
                                     : "the coordinator's answer makes no sense");
        return;
    }
    cold->op->err.status = PS_OK;
    cold->answered = true;
    enum next next = kinds[cold->kind].take(cold, message);
    cold->answered = false;
    ps_wire_unpacked_free(message);
    struct ps_error usable;
    bool over = session->view.fenced || next == NEXT_LATER;
    if (over && ps_session_usable(session, &usable) != PS_OK) {
        end_cold(cold, usable.status, usable.text); /* By this very answer, or in vain. */
    } else if (next == NEXT_LATER && patient(cold)) {
        try_later(cold, ps_exec_now_ms(session->options.exec));
    } else if (next == NEXT_LATER) {
        give_up(cold, true);
    } else if (next == NEXT_DESCRIBE) {
        cold->kind = PS_SESSION_DESCRIBE;
        send_cold(cold);
    } else {
        end_cold(cold, cold->op->err.status, cold->op->err.text);
    }
}

static void take_failure(struct ps_session_cold *cold)
{
    struct ps_session *session = cold->session;
    const struct ps_error *err = &cold->request.err;
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    keep_reason(cold, err);
    struct ps_error usable;
    bool over = cold->kind != PS_SESSION_LEAVE && ps_session_usable(session, &usable) != PS_OK;
    bool again = ps_status_retryable(err->status) || err->status == PS_ERR_CANCELED;
    if (over) {
        end_cold(cold, usable.status, usable.text);
    } else if (cold->kind == PS_SESSION_SHUTDOWN && session->view.job == PS_JOB_STOPPED) {
        end_cold(cold, PS_OK, NULL); /* Only the answer was lost. */
    } else if (cold->kind == PS_SESSION_LEAVE || session->view.job == PS_JOB_STOPPED) {
        /* Nothing will change it any more. */
        end_cold(cold, err->status, err->text);
    } else if (!again || !patient(cold)) {
        give_up(cold, again);
    } else {
        say_waiting(cold, now_ms);
        try_later(cold, now_ms);
    }
}

static void run_done(struct ps_mail *mail)
{
    struct ps_session_cold *cold = PS_CONTAINER_OF(mail, struct ps_session_cold, mail);
    struct ps_session *session = cold->session;
    cold->under_way = false;
    struct ps_msg *reply = cold->request.reply;
    if (cold->request.err.status == PS_OK) {
        take_answer(cold);
    } else {
        take_failure(cold);
    }
    ps_msg_unref(reply);
    ps_session_settle(session);
}

void ps_session_cold_start(struct ps_session *session, enum ps_session_cold_kind kind,
                           struct ps_op *op)
{
    if (session->n_colds == PS_SESSION_COLD_MAX) {
        ps_session_end_op(session, op, PS_ERR_BUSY, "too many operations at once");
        return;
    }
    struct ps_session_cold *cold = ps_mem_alloc(session->options.mem, PS_MEM_CALLS, sizeof(*cold));
    if (cold == NULL) {
        ps_session_end_op(session, op, PS_ERR_NOMEM, "no memory for a call to the coordinator");
        return;
    }
    const struct ps_session_options *options = &session->options;
    uint32_t patience_ms = kind == PS_SESSION_JOIN ? options->join_timeout_ms : options->give_up_ms;
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    bool attended = kind == PS_SESSION_DEFINE_TABLE || kind == PS_SESSION_DEFINE_JOB;
    cold->session = session;
    cold->kind = kind;
    cold->op = op;
    cold->mail.run = run_done;
    cold->started_ms = now_ms;
    cold->next_log_ms = PS_SESSION_LOG_FIRST_MS;
    /* While the coordinator is heard on the stream, a definition waits as long as it takes. */
    cold->give_up_at_ms = attended ? UINT64_MAX : now_ms + patience_ms;
    ps_timer_init(&cold->timer, run_timer);
    ps_list_append(&session->colds, &cold->node);
    session->n_colds++;
    send_cold(cold);
}

void ps_session_cold_fail(struct ps_session *session, enum ps_status status, const char *words)
{
    ps_list_for_each_safe (at, after, &session->colds) {
        struct ps_session_cold *cold = PS_CONTAINER_OF(at, struct ps_session_cold, node);
        if (cold->answered) {
            continue;
        }
        if (!cold->under_way) {
            end_cold(cold, status, words);
        } else {
            ps_request_cancel(session->control, &cold->request);
        }
    }
}
