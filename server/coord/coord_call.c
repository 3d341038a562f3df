/*
 * coord_call.c — the unary calls.
 *
 * A call arrives on a thread of the transport and becomes mail. Its handler changes the state and
 * parks it; flush answers it, after what it changed has been written to the store. So no call is
 * answered twice, and none before its effect is durable.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/layout.h"
#include "coord/coord_define.h"
#include "coord/coord_impl.h"
#include "obs/log.h"
#include "wire/pack.h"

bool coord_take_hold(struct ps_coord *coord)
{
    uint32_t before = atomic_fetch_add_explicit(&coord->n_under_way, 1, memory_order_relaxed);
    if (before < PS_COORD_UNDER_WAY_MAX) {
        return true;
    }
    atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
    return false;
}

/* ---- Answering ----------------------------------------------------------------------------- */

static void let_go(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    ps_timer_stop(coord->options.exec, &call->deadline);
    if (!ps_list_empty(&call->node)) {
        ps_list_remove(&call->node);
        coord->n_parked--;
    }
    ps_mem_free(call);
    atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
}

void coord_call_reply(struct coord_call *call, const ProtobufCMessage *message)
{
    struct ps_out out;
    if (!coord_pack(call->coord, message, &out)) {
        coord_call_fail(call, PS_ERR_NOMEM, "no memory for the answer");
        return;
    }
    ps_call_finish(call->call, PS_OK, &out, NULL);
    let_go(call);
}

void coord_call_fail(struct coord_call *call, enum ps_status status, const char *reason)
{
    ps_metric_add(call->coord->options.metrics, PS_METRIC_calls_refused_total, 1);
    ps_call_finish(call->call, status, NULL, reason);
    let_go(call);
}

static void fail_as(struct coord_call *call, const struct ps_error *err)
{
    coord_call_fail(call, err->status, err->text);
}

static void run_deadline(struct ps_timer *timer)
{
    struct coord_call *call = PS_CONTAINER_OF(timer, struct coord_call, deadline);
    call->late = true;
    coord_changed(call->coord);
}

/* Calls of its session that wait; of nobody's they are answered by the next flush. */
static uint32_t count_parked(const struct coord_call *call)
{
    uint32_t n = 0;
    ps_list_for_each (at, &call->coord->parked) {
        const struct coord_call *other = PS_CONTAINER_OF(at, struct coord_call, node);
        n += !ps_id_none(&call->session) && ps_id_equal(&other->session, &call->session);
    }
    return n;
}

/* Have it answered by flush: at once if it can be, else when it can, at the latest when the caller
 * is about to give up. */
static void park(struct coord_call *call, void (*answer)(struct coord_call *call))
{
    struct ps_coord *coord = call->coord;
    if (coord->n_parked >= PS_COORD_PARKED_MAX || count_parked(call) >= PS_COORD_PARKED_EACH) {
        coord_call_fail(call, PS_ERR_BUSY, "too many calls wait already");
        return;
    }
    call->answer = answer;
    ps_list_append(&coord->parked, &call->node);
    coord->n_parked++;
    uint64_t left_ms = ps_call_time_left_ms(call->call);
    uint64_t margin_ms = left_ms / 8 < PS_HEARTBEAT_MS ? left_ms / 8 : PS_HEARTBEAT_MS;
    ps_timer_start(coord->options.exec, &call->deadline, left_ms - margin_ms);
    coord_changed(coord);
}

static bool session_ended(const struct coord_call *call)
{
    if (ps_id_none(&call->session)) {
        return false;
    }
    const struct ps_coord_member *member = &call->coord->core.members[call->member];
    return !ps_id_equal(&member->session, &call->session) || ps_member_ended(&member->life);
}

void coord_calls_answer(struct ps_coord *coord)
{
    ps_list_for_each_safe (at, after, &coord->parked) {
        struct coord_call *call = PS_CONTAINER_OF(at, struct coord_call, node);
        bool over = !call->outlives && ps_coord_core_over(&coord->core);
        if (over) {
            coord_call_fail(call,
                            coord->core.state == PS_COORD_LOST ? PS_ERR_LOST : PS_ERR_CANCELED,
                            coord->core.reason);
        } else if (!call->outlives && session_ended(call)) {
            coord_call_fail(call, PS_ERR_FENCED, "the session has ended");
        } else {
            call->answer(call);
        }
    }
}

/* ---- Who asks ------------------------------------------------------------------------------ */

static bool find_member(struct coord_call *call, const ProtobufCBinaryData *session)
{
    struct ps_id id;
    if (!ps_id_from(session->data, session->len, &id) || ps_id_none(&id)) {
        return false;
    }
    call->member = ps_coord_core_find(&call->coord->core, &id);
    return call->member != PS_COORD_NOBODY;
}

/* The caller must be somebody; false: it has been told so. */
static bool identify(struct coord_call *call, const ProtobufCBinaryData *session)
{
    struct ps_coord *coord = call->coord;
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    if (!find_member(call, session) || !ps_coord_core_heard(&coord->core, now_ms, call->member)) {
        coord_call_fail(call, PS_ERR_FENCED, "the session has ended or was never opened");
        return false;
    }
    call->session = coord->core.members[call->member].session;
    return true;
}

/* ---- Join ---------------------------------------------------------------------------------- */

static void answer_join(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    const struct ps_coord_member *member = &coord->core.members[call->member];
    if (!ps_coord_core_open(&coord->core, call->member)) {
        if (!call->late) {
            return;
        }
        char reason[96];
        (void)snprintf(reason, sizeof(reason),
                       "waiting for the servers: %" PRIu32 " of %" PRIu32 " have joined",
                       ps_coord_core_servers(&coord->core), coord->options.n_servers);
        coord_call_fail(call, PS_ERR_TIMEOUT, reason);
        return;
    }
    Ps__V1__JoinReply reply = PS__V1__JOIN_REPLY__INIT;
    reply.protocol = PS_PROTOCOL_MAX;
    reply.cluster_id = coord_bytes(coord->cluster_id.bytes, sizeof(coord->cluster_id.bytes));
    reply.session_number = member->number;
    reply.term = coord->term;
    reply.generation = coord->generation;
    reply.server_index = member->server;
    reply.key_seed = coord->key_seed;
    coord_call_reply(call, &reply.base);
}

static enum ps_status check_cluster(const struct ps_coord *coord, const ProtobufCBinaryData *asked,
                                    struct ps_error *err)
{
    struct ps_id cluster;
    if (asked->len == 0) {
        return PS_OK;
    }
    if (!ps_id_from(asked->data, asked->len, &cluster)) {
        return ps_fail(err, PS_ERR_INVALID, "a cluster id has 16 bytes, got %zu", asked->len);
    }
    if (ps_id_equal(&cluster, &coord->cluster_id)) {
        return PS_OK;
    }
    char here[PS_ID_TEXT_BYTES];
    char there[PS_ID_TEXT_BYTES];
    ps_id_text(&coord->cluster_id, here);
    ps_id_text(&cluster, there);
    return ps_fail(err, PS_ERR_NOT_FOUND, "this is cluster %s, asked for is cluster %s", here,
                   there);
}

static enum ps_status check_join(const struct ps_coord *coord, const Ps__V1__JoinRequest *request,
                                 struct ps_coord_join *ret, struct ps_error *err)
{
    PS_STATIC_ASSERT(PS_PROTOCOL_MIN == PS_PROTOCOL_MAX, "else choose the highest common one");
    if (request->protocol_min > PS_PROTOCOL_MAX || request->protocol_max < PS_PROTOCOL_MIN) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "protocols %" PRIu32 " to %" PRIu32
                       " are asked for, %u to %u are spoken here: the programs differ in age",
                       request->protocol_min, request->protocol_max, PS_PROTOCOL_MIN,
                       PS_PROTOCOL_MAX);
    }
    enum ps_status status = check_cluster(coord, &request->cluster_id, err);
    if (status != PS_OK) {
        return status;
    }
    if (!ps_id_from(request->session.data, request->session.len, &ret->session) ||
        ps_id_none(&ret->session)) {
        return ps_fail(err, PS_ERR_INVALID, "a session is 16 random bytes, got %zu",
                       request->session.len);
    }
    if (request->kind != PS__V1__SESSION_KIND__WORKER &&
        request->kind != PS__V1__SESSION_KIND__READER &&
        request->kind != PS__V1__SESSION_KIND__SERVER) {
        return ps_fail(err, PS_ERR_INVALID, "session kind %u is not known",
                       (unsigned)request->kind);
    }
    if (strlen(request->name) > PS_NAME_BYTES_MAX ||
        strlen(request->address) > PS_ADDRESS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "a name has at most %u bytes, an address %u",
                       PS_NAME_BYTES_MAX, PS_ADDRESS_BYTES_MAX);
    }
    ret->kind = (enum ps_coord_kind)request->kind;
    ret->name = request->name;
    ret->unleased = request->unleased && ret->kind == PS_COORD_WORKER;
    ret->address = ret->kind == PS_COORD_SERVER ? request->address : "";
    if (ret->kind == PS_COORD_SERVER && ret->address[0] == '\0') {
        return ps_fail(err, PS_ERR_INVALID, "a server must say where others reach it");
    }
    return PS_OK;
}

static void join(struct coord_call *call, ProtobufCMessage *message)
{
    struct ps_coord *coord = call->coord;
    struct ps_coord_join who = {.name = ""};
    struct ps_error err;
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    if (check_join(coord, (const Ps__V1__JoinRequest *)message, &who, &err) != PS_OK ||
        ps_coord_core_join(&coord->core, now_ms, &who, &call->member, &err) != PS_OK) {
        fail_as(call, &err);
        return;
    }
    coord_peer_claim(coord, call->member);
    if (coord->core.members[call->member].kind != who.kind) {
        coord_call_fail(call, PS_ERR_INVALID, "the session has joined as something else");
        return;
    }
    call->session = who.session;
    park(call, answer_join);
}

void coord_calls_keep_alive(struct ps_coord *coord, uint64_t now_ms)
{
    ps_list_for_each (at, &coord->parked) {
        struct coord_call *call = PS_CONTAINER_OF(at, struct coord_call, node);
        if (!ps_id_none(&call->session) && !session_ended(call) && !ps_call_gone(call->call)) {
            (void)ps_coord_core_heard(&coord->core, now_ms, call->member);
        }
    }
}

/* ---- Definitions --------------------------------------------------------------------------- */

static void answer_table(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    if (ps_coord_core_catalogue_acked(&coord->core) > call->table) {
        Ps__V1__DefineTableReply reply = PS__V1__DEFINE_TABLE_REPLY__INIT;
        reply.table = coord_table_at(coord, call->table);
        coord_call_reply(call, &reply.base);
    } else if (call->late) {
        coord_call_fail(call, PS_ERR_TIMEOUT, "waiting for the servers to make the table");
    }
}

static uint32_t find_table(const struct ps_coord *coord, const char *name)
{
    uint32_t n = (uint32_t)coord->core.catalogue_version;
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(coord->tables[i].definition->name, name) == 0) {
            return i;
        }
    }
    return n;
}

/* All tables together, this one included: could a unit of every slot be pushed? */
static enum ps_status check_slots(struct ps_layout_view view, struct ps_error *err)
{
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        if (ps_layout_slot_fragments(view, slot) > PS_FRAGMENTS_MAX) {
            return ps_fail(err, PS_ERR_INVALID,
                           "with the tables before it slot %" PRIu32 " needs more than %u calls",
                           slot, PS_FRAGMENTS_MAX);
        }
    }
    return PS_OK;
}

/* A server's part of what is spread over all slots. */
static uint64_t part_of(const struct ps_coord *coord, uint64_t n_bytes)
{
    uint32_t n_servers = coord->options.n_servers;
    uint64_t n_slots = (PS_SLOTS + n_servers - 1) / n_servers; /* The most that one has. */
    return n_bytes / PS_SLOTS * n_slots;
}

/* What the tables there are take on a server; sparse ones have grown since they were weighed. */
static uint64_t taken(const struct ps_coord *coord, const struct coord_peer *server)
{
    uint64_t n_sum = 0;
    for (uint32_t i = 0; i < (uint32_t)coord->core.catalogue_version; i++) {
        uint64_t n_bytes = part_of(coord, coord->tables[i].n_bytes);
        for (uint32_t k = 0; k < server->n_rows; k++) {
            bool more = server->rows[k].table == i && server->rows[k].bytes > n_bytes;
            n_bytes = more ? server->rows[k].bytes : n_bytes;
        }
        n_sum += n_bytes;
    }
    return n_sum;
}

/*
 * A table that some server has no memory for is refused here: found out later, it would take the
 * server, and with it the job. Servers that have not reported yet are not asked.
 */
static enum ps_status check_memory(const struct ps_coord *coord, uint64_t n_bytes,
                                   struct ps_error *err)
{
    for (uint32_t i = 0; i < coord->options.n_servers; i++) {
        if (coord->core.servers[i] == PS_COORD_NOBODY) {
            continue;
        }
        const struct coord_peer *server = &coord->peers[coord->core.servers[i]];
        uint64_t limit = server->server.memory_limit;
        uint64_t needed = taken(coord, server) + part_of(coord, n_bytes);
        if (limit != 0 && needed > limit) {
            return ps_fail(err, PS_ERR_INVALID,
                           "with the tables before it server %" PRIu32 " would need %" PRIu64
                           " MiB and may have %" PRIu64 " (--memory-max): use more servers",
                           i, needed >> 20, limit >> 20);
        }
    }
    return PS_OK;
}

/* An averaged step adds gradients up where they lie, block by block; rows it would have to sort. */
static enum ps_status check_aggregate(const Ps__V1__JobDefinition *job,
                                      const Ps__V1__TableDefinition *table, struct ps_error *err)
{
    if (job == NULL || !job->consistency->aggregate || table->kind != PS__V1__TABLE_KIND__SPARSE) {
        return PS_OK;
    }
    return ps_fail(
        err, PS_ERR_UNSUPPORTED,
        "table %s is sparse, and the job is aggregated: averaged steps know dense tables "
        "only; use bsp without aggregate",
        table->name);
}

/* On PS_OK its layout and size stand behind those of the tables before it. */
static enum ps_status admit_table(struct ps_coord *coord, const Ps__V1__TableDefinition *definition,
                                  struct ps_error *err)
{
    uint32_t number = (uint32_t)coord->core.catalogue_version;
    uint64_t n_bytes = 0;
    if (number >= PS_TABLES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "there are %u tables, the most there may be",
                       PS_TABLES_MAX);
    }
    if (definition->n_shape > PS_DIMS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: a shape has at most %u dimensions, not %zu",
                       definition->name, PS_DIMS_MAX, definition->n_shape);
    }
    bool sparse = definition->kind == PS__V1__TABLE_KIND__SPARSE;
    enum ps_status status = PS_OK;
    if (sparse) { /* Its rows are where their keys are: it takes no place. */
        coord->layouts[number] = (struct ps_layout){.first_slot = coord->next_slot};
        status = check_aggregate(coord->definition.job, definition, err);
    } else {
        status = ps_layout_table(definition->shape, (uint32_t)definition->n_shape, coord->next_slot,
                                 &coord->layouts[number], err);
    }
    if (status == PS_OK && coord->options.check_table != NULL) {
        status = coord->options.check_table(definition, &n_bytes, err);
    }
    if (status == PS_OK) {
        status = check_slots(
            (struct ps_layout_view){.tables = coord->layouts, .n_tables = number + 1}, err);
    }
    if (status == PS_OK) {
        status = check_memory(coord, n_bytes, err);
        coord->tables[number].n_bytes = n_bytes;
    }
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "table %s", definition->name);
}

/* Check, and on PS_OK keep a copy unless an equal one is there. */
static enum ps_status define(struct ps_coord *coord, Ps__V1__TableDefinition *definition,
                             uint32_t *ret_table, struct ps_error *err)
{
    if (definition == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "no definition is given");
    }
    enum ps_status status = coord_check_table(definition, err);
    if (status != PS_OK) {
        return status;
    }
    definition->dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    uint32_t number = find_table(coord, definition->name);
    *ret_table = number;
    if (number < coord->core.catalogue_version) {
        const char *field = coord_table_difference(coord->tables[number].definition, definition);
        return field == NULL ? PS_OK
                             : ps_fail(err, PS_ERR_EXISTS, "table %s is defined with another %s",
                                       definition->name, field);
    }
    status = admit_table(coord, definition, err);
    if (status != PS_OK) {
        return status;
    }
    ProtobufCMessage *copy = ps_wire_copy(&definition->base, coord->options.mem);
    if (copy == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for table %s", definition->name);
    }
    coord->tables[number] = (struct coord_table){.definition = (Ps__V1__TableDefinition *)copy,
                                                 .first_slot = coord->next_slot,
                                                 .n_bytes = coord->tables[number].n_bytes};
    coord->next_slot = ps_layout_next_slot(&coord->layouts[number]);
    ps_coord_core_table(&coord->core);
    return PS_OK;
}

static void define_table(struct coord_call *call, ProtobufCMessage *message)
{
    Ps__V1__DefineTableRequest *request = (Ps__V1__DefineTableRequest *)message;
    struct ps_error err;
    if (!identify(call, &request->session)) {
        return;
    }
    if (define(call->coord, request->definition, &call->table, &err) != PS_OK) {
        fail_as(call, &err);
        return;
    }
    park(call, answer_table);
}

static void answer_job(struct coord_call *call)
{
    Ps__V1__DefineJobReply reply = PS__V1__DEFINE_JOB_REPLY__INIT;
    Ps__V1__JobDefinition told = *call->coord->definition.job;
    told.setup = coord_text(""); /* Equal to what was asked, and perhaps long. */
    reply.definition = &told;
    coord_call_reply(call, &reply.base);
}

static enum ps_status compare_job(const struct coord_definition *first,
                                  const Ps__V1__JobDefinition *second, struct ps_error *err)
{
    const char *field = coord_job_difference(first->job, second);
    bool same_units = second->units_per_lease == first->units_asked ||
                      second->units_per_lease == first->job->units_per_lease;
    if (field == NULL && !same_units) {
        field = "units_per_lease";
    }
    uint64_t there;
    uint64_t here;
    if (field == NULL) {
        return PS_OK;
    }
    if (coord_job_number(first->job, field, &there) && coord_job_number(second, field, &here)) {
        return ps_fail(err, PS_ERR_EXISTS,
                       "the job is defined with %s %" PRIu64 ", not with %" PRIu64, field, there,
                       here);
    }
    return ps_fail(err, PS_ERR_EXISTS, "the job is defined with another %s", field);
}

/* Keep a copy and cut its data. */
static enum ps_status accept_job(struct ps_coord *coord, const Ps__V1__JobDefinition *job,
                                 const struct ps_lease_plan *plan, struct ps_error *err)
{
    struct coord_definition *definition = &coord->definition;
    struct ps_mem *mem = coord->options.mem;
    void *pool = ps_mem_alloc(mem, PS_MEM_SESSIONS, ps_lease_pool_bytes(plan));
    struct coord_loss *losses = ps_mem_array(mem, PS_MEM_SESSIONS, plan->epochs, sizeof(*losses));
    ProtobufCMessage *copy = ps_wire_copy(&job->base, mem);
    if (pool == NULL || losses == NULL || copy == NULL) {
        ps_mem_free(pool);
        ps_mem_free(losses);
        ps_wire_unpacked_free(copy);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %" PRIu32 " leases", plan->n_leases);
    }
    definition->pool_memory = pool;
    definition->losses = losses;
    definition->units_asked = job->units_per_lease;
    definition->job = (Ps__V1__JobDefinition *)copy;
    definition->job->units_per_lease = plan->units_per_lease;
    Ps__V1__Consistency *consistency = definition->job->consistency;
    consistency->version = 1;
    struct ps_coord_job core_job = {
        .workers = definition->job->workers,
        .start_timeout_ms = definition->job->start_timeout_ms,
        .consistency = {.mode = (enum ps_coord_mode)consistency->mode,
                        .bound = consistency->bound,
                        .aggregate = consistency->aggregate,
                        .n_backups = consistency->backups},
    };
    ps_coord_core_job(&coord->core, ps_exec_now_ms(coord->options.exec), &core_job, plan, pool);
    ps_log(PS_LOG_INFO, "job.defined",
           "model=\"%s\" rows=%" PRIu64 " parts=%" PRIu32 " batch=%" PRIu32 " epochs=%" PRIu32
           " leases=%" PRIu32,
           definition->job->model, plan->rows, definition->job->parts, plan->batch, plan->epochs,
           plan->n_leases);
    return PS_OK;
}

static void define_job(struct coord_call *call, ProtobufCMessage *message)
{
    Ps__V1__DefineJobRequest *request = (Ps__V1__DefineJobRequest *)message;
    struct ps_coord *coord = call->coord;
    struct ps_lease_plan plan;
    struct ps_error err;
    if (!identify(call, &request->session)) {
        return;
    }
    if (request->definition == NULL) {
        coord_call_fail(call, PS_ERR_INVALID, "no definition is given");
        return;
    }
    enum ps_status status = coord_check_job(request->definition, &plan, &err);
    for (uint32_t i = 0; i < coord->core.catalogue_version && status == PS_OK; i++) {
        status = check_aggregate(request->definition, coord->tables[i].definition, &err);
    }
    if (status == PS_OK && coord->definition.job != NULL) {
        status = compare_job(&coord->definition, request->definition, &err);
    } else if (status == PS_OK) {
        status = accept_job(coord, request->definition, &plan, &err);
    }
    if (status != PS_OK) {
        fail_as(call, &err);
        return;
    }
    park(call, answer_job);
}

/* ---- Clocks -------------------------------------------------------------------------------- */

static void answer_tick(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    Ps__V1__TickReply reply = PS__V1__TICK_REPLY__INIT;
    /* Nobody, or a place that somebody else has got: its session is over. */
    if (call->member == PS_COORD_NOBODY ||
        !ps_id_equal(&coord->core.members[call->member].session, &call->session)) {
        reply.state = coord_state_unknown(coord);
    } else {
        struct coord_told nothing = {0};
        struct coord_told now = coord_told_now(coord, call->member);
        reply.state = coord_state(coord, call->member, &nothing, &now);
    }
    coord_call_reply(call, &reply.base);
}

static void tick(struct coord_call *call, ProtobufCMessage *message)
{
    const Ps__V1__AttendReport *report = ((const Ps__V1__TickRequest *)message)->report;
    if (report == NULL) {
        coord_call_fail(call, PS_ERR_INVALID, "no report is given");
        return;
    }
    if (find_member(call, &report->session)) {
        call->session = call->coord->core.members[call->member].session;
        (void)coord_report(call->coord, call->member, report);
    }
    call->outlives = true;
    park(call, answer_tick);
}

static void answer_clock(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    if (coord->core.min_clock >= call->clock || call->late) {
        Ps__V1__WaitClockReply reply = PS__V1__WAIT_CLOCK_REPLY__INIT;
        reply.min_clock = coord->core.min_clock;
        coord_call_reply(call, &reply.base);
    }
}

static void wait_clock(struct coord_call *call, ProtobufCMessage *message)
{
    const Ps__V1__WaitClockRequest *request = (const Ps__V1__WaitClockRequest *)message;
    if (identify(call, &request->session)) {
        call->clock = request->clock;
        park(call, answer_clock);
    }
}

/* ---- The end ------------------------------------------------------------------------------- */

static void answer_leave(struct coord_call *call)
{
    Ps__V1__LeaveReply reply = PS__V1__LEAVE_REPLY__INIT;
    coord_call_reply(call, &reply.base);
}

/* Who is not known has left already: a repeat is harmless. */
static void leave(struct coord_call *call, ProtobufCMessage *message)
{
    struct ps_coord *coord = call->coord;
    if (find_member(call, &((const Ps__V1__LeaveRequest *)message)->session)) {
        ps_coord_core_leave(&coord->core, ps_exec_now_ms(coord->options.exec), call->member);
    }
    call->outlives = true;
    park(call, answer_leave);
}

static void answer_shutdown(struct coord_call *call)
{
    Ps__V1__ShutdownReply reply = PS__V1__SHUTDOWN_REPLY__INIT;
    coord_call_reply(call, &reply.base);
}

static void shut_down(struct coord_call *call, ProtobufCMessage *message)
{
    struct ps_coord *coord = call->coord;
    const char *reason = ((const Ps__V1__ShutdownRequest *)message)->reason;
    ps_coord_core_stop(&coord->core, ps_exec_now_ms(coord->options.exec),
                       reason[0] != '\0' ? reason : "shutdown was asked for");
    call->outlives = true;
    park(call, answer_shutdown);
}

static void describe(struct coord_call *call, ProtobufCMessage *message PS_UNUSED)
{
    call->outlives = true;
    park(call, coord_describe);
}

/* ---- Arrival ------------------------------------------------------------------------------- */

#define WRITERS (PS_ROLE_WORKER | PS_ROLE_ADMIN)

struct coord_kind {
    const char *path;
    const ProtobufCMessageDescriptor *request;
    uint32_t roles;
    /** Answer the call, or park it. */
    void (*handle)(struct coord_call *call, ProtobufCMessage *message);
};

/* clang-format off */
static const struct coord_kind kinds[PS_COORD_METHODS - 1] = {
    {"/ps.v1.Coordinator/Join", &ps__v1__join_request__descriptor, PS_ROLE_ANY, join},
    {"/ps.v1.Coordinator/Tick", &ps__v1__tick_request__descriptor, PS_ROLE_ANY, tick},
    {"/ps.v1.Coordinator/WaitClock", &ps__v1__wait_clock_request__descriptor, PS_ROLE_ANY,
     wait_clock},
    {"/ps.v1.Coordinator/DefineTable", &ps__v1__define_table_request__descriptor, WRITERS,
     define_table},
    {"/ps.v1.Coordinator/DefineJob", &ps__v1__define_job_request__descriptor, WRITERS, define_job},
    {"/ps.v1.Coordinator/Describe", &ps__v1__describe_request__descriptor, PS_ROLE_ANY, describe},
    {"/ps.v1.Coordinator/Leave", &ps__v1__leave_request__descriptor, PS_ROLE_ANY, leave},
    {"/ps.v1.Coordinator/Shutdown", &ps__v1__shutdown_request__descriptor, WRITERS, shut_down},
};
/* clang-format on */

static void run_call(struct ps_mail *mail)
{
    struct coord_call *call = PS_CONTAINER_OF(mail, struct coord_call, mail);
    struct ps_coord *coord = call->coord;
    ps_metric_add(coord->options.metrics, PS_METRIC_calls_total, 1);
    if (coord->stopped) {
        coord_call_fail(call, PS_ERR_UNAVAIL, "the coordinator has stopped");
        return;
    }
    enum ps_status why;
    ProtobufCMessage *message =
        coord_unpack(coord, call->kind->request, ps_call_request(call->call), &why);
    if (message == NULL && why == PS_ERR_NOMEM) {
        coord_call_fail(call, PS_ERR_NOMEM, "no memory to read the request");
        return;
    }
    if (message == NULL) {
        ps_metric_add(coord->options.metrics, PS_METRIC_messages_malformed_total, 1);
        coord_call_fail(call, PS_ERR_INVALID, "the request is malformed or too long");
        return;
    }
    call->kind->handle(call, message);
    ps_wire_unpacked_free(message);
    coord_changed(coord);
}

/* On a thread of the transport. */
static void on_call(void *arg, struct ps_call *ps_call)
{
    const struct coord_row *row = arg;
    struct ps_coord *coord = row->coord;
    if (!coord_take_hold(coord)) {
        ps_metric_add(coord->options.metrics, PS_METRIC_calls_busy_total, 1);
        ps_call_finish(ps_call, PS_ERR_BUSY, NULL, "the coordinator has too many calls: slow down");
        return;
    }
    struct coord_call *call = ps_mem_alloc(coord->options.mem, PS_MEM_CALLS, sizeof(*call));
    if (call == NULL) {
        ps_call_finish(ps_call, PS_ERR_BUSY, NULL, "no memory for one more call: slow down");
        atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
        return;
    }
    call->coord = coord;
    call->call = ps_call;
    call->kind = row->kind;
    call->member = PS_COORD_NOBODY;
    call->mail.run = run_call;
    ps_list_init(&call->node);
    ps_timer_init(&call->deadline, run_deadline);
    ps_exec_post(coord->options.exec, &call->mail);
}

void coord_call_rows(struct ps_coord *coord, struct ps_method *methods)
{
    PS_STATIC_ASSERT(PS_ARRAY_LEN(kinds) == PS_ARRAY_LEN(coord->rows), "a row for each kind");
    for (uint32_t i = 0; i < PS_ARRAY_LEN(kinds); i++) {
        coord->rows[i] = (struct coord_row){.coord = coord, .kind = &kinds[i]};
        methods[i] = (struct ps_method){
            .path = kinds[i].path,
            .traffic = PS_TRAFFIC_CONTROL,
            .roles = kinds[i].roles,
            .bytes_max = kinds[i].handle == define_job ? PS_COORD_REQUEST_BYTES_MAX : 0,
            .call = on_call,
            .arg = &coord->rows[i],
        };
    }
}

void coord_calls_stop(struct ps_coord *coord)
{
    ps_list_for_each_safe (at, after, &coord->parked) {
        coord_call_fail(PS_CONTAINER_OF(at, struct coord_call, node), PS_ERR_UNAVAIL,
                        "the coordinator has stopped");
    }
}
