/* coord_rig.c — see coord_rig.h. */
#include "coord_rig.h"

#include <string.h>

#include "base/assert.h"
#include "obs/log.h"
#include "wire/pack.h"

struct rig_setup rig_setup;

static uint64_t clock_ns(void *arg)
{
    return ((struct rig *)arg)->now_ns;
}

/* As ps_table_def_check weighs a dense table, without its checks and without state. */
static enum ps_status weigh_table(const struct Ps__V1__TableDefinition *definition,
                                  uint64_t *ret_bytes, struct ps_error *err)
{
    (void)err;
    *ret_bytes = definition->n_shape > 0 ? sizeof(float) : 0;
    for (size_t i = 0; i < definition->n_shape; i++) {
        *ret_bytes *= definition->shape[i];
    }
    return PS_OK;
}

static void start_coord(struct rig *rig, uint32_t n_servers)
{
    struct ps_error err;
    static const struct ps_creds creds = {.kind = PS_CREDS_INSECURE};
    struct ps_transport *transport = ps_direct_transport(rig->direct);
    struct ps_coord_options options = {
        .exec = &rig->exec.base,
        .mem = &rig->mem,
        .metrics = &rig->metrics,
        .store = rig->store,
        .new_cluster_id = {.bytes = {1, 2, 3}},
        .new_key_seed = 1000 + rig->n_coords++,
        .n_servers = n_servers,
        .check_table = weigh_table,
        .durable = rig_setup.durable,
        .wait_ms = 20000,
        .keeper = rig_setup.keeper,
        .restore_dir = rig_setup.restore_dir,
        .plant = rig_setup.plant,
    };
    enum ps_status status = ps_coord_create(&options, &rig->coord, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    ps_coord_methods(rig->coord, rig->methods);
    ck_assert_int_eq(ps_listener_open(transport,
                                      &(struct ps_service){.address = "coord:0",
                                                           .creds = &creds,
                                                           .methods = rig->methods,
                                                           .n_methods = PS_COORD_METHODS},
                                      &rig->listener, &err),
                     PS_OK);
    ck_assert_int_eq(ps_channel_open(transport, ps_listener_address(rig->listener),
                                     PS_TRAFFIC_CONTROL, &creds, &rig->channel, &err),
                     PS_OK);
}

void rig_start(struct rig *rig, struct ps_store *store, uint32_t n_servers)
{
    ps_log_level_set(PS_LOG_NONE);
    memset(rig, 0, sizeof(*rig));
    rig->now_ns = 1000000000;
    rig->timeout_ms = 2000;
    ps_mem_init(&rig->mem);
    ps_inline_exec_init(&rig->exec, clock_ns, rig);
    rig->direct = ps_direct_create(&rig->exec.base);
    rig->store = store;
    start_coord(rig, n_servers);
}

static void stop_coord(struct rig *rig)
{
    ps_coord_stop(rig->coord);
    ps_inline_exec_pump(&rig->exec);
    for (uint32_t i = 0; i < rig->n_members; i++) {
        rig_break(&rig->members[i]);
    }
    ps_listener_stop(rig->listener, 0);
    ps_inline_exec_pump(&rig->exec);
    ck_assert(ps_coord_idle(rig->coord));
    ps_listener_close(rig->listener);
    ps_coord_destroy(rig->coord);
    ps_channel_close(rig->channel);
}

void rig_stop(struct rig *rig)
{
    stop_coord(rig);
    ps_store_destroy(rig->store);
    ps_direct_destroy(rig->direct);
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        ck_assert_uint_eq(atomic_load(&rig->mem.used[i]), 0); /* Nothing leaked. */
    }
}

void rig_restart(struct rig *rig, uint32_t n_servers)
{
    stop_coord(rig);
    rig->n_members = 0;
    start_coord(rig, n_servers);
}

void rig_takeover(struct rig *rig, uint32_t n_servers)
{
    stop_coord(rig);
    start_coord(rig, n_servers);
}

void rig_pass(struct rig *rig, uint32_t ms)
{
    ps_inline_exec_pump(&rig->exec);
    for (uint32_t passed = 0; passed < ms; passed += 5) {
        rig->now_ns += 5000000;
        ps_inline_exec_pump(&rig->exec);
    }
}

/* ---- Calls --------------------------------------------------------------------------------- */

static void call_done(struct ps_request *request)
{
    struct rig_call *call = PS_CONTAINER_OF(request, struct rig_call, request);
    call->done = true;
    if (request->reply != NULL) {
        call->reply =
            ps_wire_unpack(call->type, request->reply->slices, request->reply->n_slices, NULL);
        ck_assert_ptr_nonnull(call->reply);
        ps_msg_unref(request->reply);
        request->reply = NULL;
    }
}

void rig_call_start(struct rig *rig, struct rig_call *call, const char *method,
                    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply)
{
    memset(call, 0, sizeof(*call));
    size_t n_bytes = protobuf_c_message_get_packed_size(request);
    ck_assert_uint_le(n_bytes, sizeof(call->bytes));
    (void)protobuf_c_message_pack(request, call->bytes);
    call->type = reply;
    call->request.method = method;
    call->request.timeout_ms = rig->timeout_ms;
    call->request.out = (struct ps_out){.head = call->bytes, .n_head_bytes = n_bytes};
    call->request.done = call_done;
    ps_request_start(rig->channel, &call->request);
}

enum ps_status rig_call(struct rig *rig, struct rig_call *call, const char *method,
                        const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply)
{
    rig_call_start(rig, call, method, request, reply);
    ps_inline_exec_pump(&rig->exec);
    return call->done ? call->request.err.status : PS_ERR_NOT_YET;
}

void rig_call_free(struct rig_call *call)
{
    ck_assert(call->done);
    ps_wire_unpacked_free(call->reply);
    call->reply = NULL;
}

static ProtobufCBinaryData bytes_of(const struct ps_id *id)
{
    return (ProtobufCBinaryData){.len = sizeof(id->bytes), .data = (uint8_t *)(uintptr_t)id->bytes};
}

/* ---- Members ------------------------------------------------------------------------------- */

/* What a server that logs says of its data. */
struct brought {
    Ps__V1__SlotPosition positions[PS_SLOTS];
    Ps__V1__SlotPosition *list[PS_SLOTS];
    uint8_t id[16];
};

static size_t fill_positions(const struct rig_member *member, struct brought *brought)
{
    for (uint32_t slot = 0; slot < PS_SLOTS && member->position > 0; slot++) {
        ps__v1__slot_position__init(&brought->positions[slot]);
        brought->positions[slot].slot = slot;
        brought->positions[slot].epoch = 1;
        brought->positions[slot].position = member->position;
        brought->list[slot] = &brought->positions[slot];
    }
    return member->position > 0 ? PS_SLOTS : 0;
}

static void bring(const struct rig_member *member, Ps__V1__JoinRequest *request)
{
    static struct brought brought;
    if (!rig_setup.durable || !member->server) {
        return;
    }
    brought.id[0] = member->id;
    request->server = (ProtobufCBinaryData){.len = 16, .data = brought.id};
    request->n_positions = fill_positions(member, &brought);
    request->positions = brought.list;
    request->generation = member->position > 0 ? member->loaded : 0;
    request->durability = PS__V1__DURABILITY__LOG;
}

enum ps_status rig_join(struct rig *rig, Ps__V1__SessionKind kind, struct rig_member **ret)
{
    static struct rig_call call;
    static char server_name[] = "host:0";
    PS_ASSERT(rig->n_members < RIG_MEMBERS_MAX);
    struct rig_member *member = &rig->members[rig->n_members];
    *member = (struct rig_member){.rig = rig, .server = kind == PS__V1__SESSION_KIND__SERVER};
    rig->n_sessions++;
    member->session.bytes[0] = (uint8_t)rig->n_sessions;
    member->session.bytes[1] = (uint8_t)(rig->n_sessions >> 8);
    member->session.bytes[2] = 1; /* Never none. */
    Ps__V1__JoinRequest request;
    ps__v1__join_request__init(&request);
    request.protocol_min = PS_PROTOCOL_MIN;
    request.protocol_max = PS_PROTOCOL_MAX;
    request.kind = kind;
    request.session = bytes_of(&member->session);
    server_name[5] = (char)('0' + rig->n_members);
    request.address = server_name;
    request.name = server_name;
    member->id = (uint8_t)(1 + rig->n_members);
    bring(member, &request);
    enum ps_status status = rig_call(rig, &call, "/ps.v1.Coordinator/Join", &request.base,
                                     &ps__v1__join_reply__descriptor);
    if (status == PS_OK) {
        member->number = ((const Ps__V1__JoinReply *)call.reply)->session_number;
        member->key_seed = ((const Ps__V1__JoinReply *)call.reply)->key_seed;
    }
    if (status != PS_ERR_NOT_YET) {
        rig_call_free(&call);
    }
    rig->n_members++;
    *ret = member;
    return status;
}

enum ps_status rig_rejoin(struct rig_member *member)
{
    static struct rig_call call;
    static char name[] = "elsewhere:0";
    struct rig *rig = member->rig;
    rig->n_sessions++;
    member->session.bytes[0] = (uint8_t)rig->n_sessions;
    name[10] = (char)('0' + rig->n_sessions % 10);
    Ps__V1__JoinRequest request;
    ps__v1__join_request__init(&request);
    request.protocol_min = PS_PROTOCOL_MIN;
    request.protocol_max = PS_PROTOCOL_MAX;
    request.kind = PS__V1__SESSION_KIND__SERVER;
    request.session = bytes_of(&member->session);
    request.address = name;
    request.name = name;
    bring(member, &request);
    enum ps_status status = rig_call(rig, &call, "/ps.v1.Coordinator/Join", &request.base,
                                     &ps__v1__join_reply__descriptor);
    rig_call_free(&call);
    if (status == PS_OK) {
        rig_attend(member);
    }
    return status;
}

static void take_orders(struct rig_member *member, const Ps__V1__AttendState *state)
{
    member->term = state->term;
    member->generation = state->generation;
    member->hold = state->hold;
    member->kept = state->cut_kept;
    member->restore = state->restore != NULL ? state->restore->generation : 0;
    if (member->restore != 0) { /* Nothing else is for whoever must load first. */
        ck_assert(state->sessions == NULL && state->finished == NULL);
    }
    if (member->slow) {
        return;
    }
    member->loaded = member->restore != 0 ? member->restore : member->loaded;
    member->loaded = member->loaded == 0 ? state->generation : member->loaded;
    member->position += member->position == 0;
    member->view = state->min_clock;
    member->cut = state->cut != NULL ? state->cut->cut : member->cut;
}

static void take_lists(struct rig_member *member, const Ps__V1__AttendState *state)
{
    if (state->placement != NULL) {
        member->placement = state->placement->version;
        member->n_placements++;
    }
    if (state->catalogue != NULL) {
        member->catalogue = state->catalogue->version;
    }
    if (state->sessions != NULL) {
        member->sessions = state->sessions->version;
        member->n_sessions = state->sessions->n_sessions;
        member->n_staged = state->sessions->staged->n_numbers;
        member->staged = member->n_staged > 0 ? state->sessions->staged->numbers[0] : 0;
        for (size_t i = 1; i < state->sessions->n_sessions; i++) { /* Receivers insist on it. */
            ck_assert_uint_lt(state->sessions->sessions[i - 1]->number,
                              state->sessions->sessions[i]->number);
        }
    }
    if (state->finished != NULL) {
        member->finished = state->finished->version;
    }
    if (state->consistency != NULL) {
        member->consistency = state->consistency->version;
    }
    if (state->close != NULL) {
        member->closed_steps = state->close->step + 1;
        member->n_entries = state->close->n_entries;
    }
}

static void on_message(void *arg, struct ps_msg *msg)
{
    struct rig_member *member = arg;
    Ps__V1__AttendState *state = (Ps__V1__AttendState *)ps_wire_unpack(
        &ps__v1__attend_state__descriptor, msg->slices, msg->n_slices, NULL);
    ck_assert_ptr_nonnull(state);
    member->n_states++;
    member->n_bytes += msg->n_bytes;
    take_lists(member, state);
    uint64_t cut = member->cut;
    uint64_t loaded = member->loaded;
    uint64_t hold = member->hold;
    take_orders(member, state);
    member->min_clock = state->min_clock;
    member->patience_ms = state->patience_ms;
    member->job = state->job;
    member->fenced = state->fenced;
    ck_assert(state->has_lease == (state->lease != NULL));
    member->lease = state->has_lease ? state->lease->id : 0;
    if (state->has_lease) {
        member->lease_clock = state->lease->clock;
        member->units = state->lease->units;
        member->units_done = state->lease->units_done;
        member->part = state->lease->part;
    }
    (void)strncpy(member->reason, state->reason, sizeof(member->reason) - 1);
    bool orders = member->server && (cut != member->cut || loaded != member->loaded);
    bool holds = !member->server && member->hold != hold && member->hold != 0;
    bool news = orders || state->placement != NULL || state->catalogue != NULL ||
                state->sessions != NULL || state->finished != NULL || state->close != NULL;
    ps_wire_unpacked_free(&state->base);
    ps_msg_unref(msg);
    if (member->server && news && !member->held) {
        rig_report(member, NULL);
    }
    if (holds && member->lease != 0) { /* It has nothing under way. */
        Ps__V1__WorkerReport held = PS__V1__WORKER_REPORT__INIT;
        held.lease = member->lease;
        held.clock = member->lease_clock;
        held.units_done = member->units_done;
        held.held = member->hold;
        rig_report(member, &held);
    }
}

static void on_closed(void *arg, enum ps_status status)
{
    struct rig_member *member = arg;
    member->closed = true;
    member->closed_status = status;
    ps_stream_release(member->stream);
    member->stream = NULL;
}

void rig_report(struct rig_member *member, Ps__V1__WorkerReport *progress)
{
    uint8_t buffer[2048];
    static struct brought brought;
    Ps__V1__CutWritten written = PS__V1__CUT_WRITTEN__INIT;
    Ps__V1__AttendReport report = PS__V1__ATTEND_REPORT__INIT;
    Ps__V1__ServerReport acks = PS__V1__SERVER_REPORT__INIT;
    Ps__V1__ServerStats stats = PS__V1__SERVER_STATS__INIT;
    report.session = bytes_of(&member->session);
    report.worker = progress;
    if (member->server && !member->held) {
        acks.placement_version = member->placement;
        acks.sessions_version = member->sessions;
        acks.catalogue_version = member->catalogue;
        acks.finished_version = member->finished;
        acks.closed_steps = member->closed_steps;
        if (rig_setup.durable) {
            acks.n_positions = fill_positions(member, &brought);
            acks.positions = brought.list;
            acks.generation_loaded = member->loaded;
            acks.min_clock = member->view;
            acks.cut_taken = member->cut;
            acks.lost_slot = member->lost_slot;
            written.cut = member->cut;
            written.bytes = 100;
            acks.cut_written = member->cut != 0 ? &written : NULL;
        }
        if (member->n_rows > 0) {
            stats.memory_limit = member->memory_limit;
            acks.stats = &stats;
            acks.n_row_stats = member->n_rows;
            acks.row_stats = member->rows;
        }
        report.server = &acks;
    }
    struct ps_out out = {.head = buffer,
                         .n_head_bytes = ps__v1__attend_report__pack(&report, buffer)};
    if (member->stream != NULL) {
        ck_assert_int_eq(ps_stream_send(member->stream, &out), PS_OK);
    }
}

void rig_attend(struct rig_member *member)
{
    static const struct ps_stream_events events = {.message = on_message, .closed = on_closed};
    member->stream =
        ps_stream_open(member->rig->channel, "/ps.v1.Coordinator/Attend", &events, member);
    rig_report(member, NULL);
    ps_inline_exec_pump(&member->rig->exec);
}

void rig_break(struct rig_member *member)
{
    if (member->stream != NULL) {
        ps_stream_close(member->stream, PS_ERR_CANCELED);
        ps_inline_exec_pump(&member->rig->exec);
    }
}

void rig_cluster(struct rig *rig, uint32_t n_workers)
{
    struct rig_member *member = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(rig_join(rig, PS__V1__SESSION_KIND__SERVER, &member), PS_OK);
        rig_attend(member);
    }
    for (uint32_t i = 0; i < n_workers; i++) {
        ck_assert_int_eq(rig_join(rig, PS__V1__SESSION_KIND__WORKER, &member), PS_OK);
        rig_attend(member);
    }
}

enum ps_status rig_leave(struct rig *rig, const struct rig_member *member)
{
    static struct rig_call call;
    Ps__V1__LeaveRequest request = PS__V1__LEAVE_REQUEST__INIT;
    request.session = bytes_of(&member->session);
    enum ps_status status = rig_call(rig, &call, "/ps.v1.Coordinator/Leave", &request.base,
                                     &ps__v1__leave_reply__descriptor);
    rig_call_free(&call);
    return status;
}

enum ps_status rig_define_table(struct rig *rig, const struct rig_member *member,
                                Ps__V1__TableDefinition *definition, struct rig_call *call)
{
    Ps__V1__DefineTableRequest request = PS__V1__DEFINE_TABLE_REQUEST__INIT;
    request.session = bytes_of(&member->session);
    request.definition = definition;
    return rig_call(rig, call, "/ps.v1.Coordinator/DefineTable", &request.base,
                    &ps__v1__define_table_reply__descriptor);
}

enum ps_status rig_define_job(struct rig *rig, const struct rig_member *member,
                              Ps__V1__JobDefinition *definition, struct rig_call *call)
{
    Ps__V1__DefineJobRequest request = PS__V1__DEFINE_JOB_REQUEST__INIT;
    request.session = bytes_of(&member->session);
    request.definition = definition;
    return rig_call(rig, call, "/ps.v1.Coordinator/DefineJob", &request.base,
                    &ps__v1__define_job_reply__descriptor);
}

Ps__V1__DescribeReply *rig_describe(struct rig *rig, struct rig_call *call)
{
    Ps__V1__DescribeRequest request = PS__V1__DESCRIBE_REQUEST__INIT;
    ck_assert_int_eq(rig_call(rig, call, "/ps.v1.Coordinator/Describe", &request.base,
                              &ps__v1__describe_reply__descriptor),
                     PS_OK);
    return (Ps__V1__DescribeReply *)call->reply;
}

/* ---- Disk ---------------------------------------------------------------------------------- */

static struct rig_disk *disk_of(struct ps_disk *disk)
{
    return PS_CONTAINER_OF(disk, struct rig_disk, base);
}

static enum ps_status disk_read(struct ps_disk *base, const char *path, size_t n_bytes_max,
                                uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err)
{
    struct rig_disk *disk = disk_of(base);
    if (!disk->there) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "no %s", path);
    }
    ck_assert_uint_le(disk->n_bytes, n_bytes_max);
    *ret = ps_mem_alloc(NULL, PS_MEM_OTHER, disk->n_bytes);
    memcpy(*ret, disk->data, disk->n_bytes);
    *ret_n_bytes = disk->n_bytes;
    return PS_OK;
}

static enum ps_status disk_replace(struct ps_disk *base, const char *path, const uint8_t *data,
                                   size_t n_bytes, struct ps_error *err)
{
    struct rig_disk *disk = disk_of(base);
    if (disk->full) {
        return ps_fail(err, PS_ERR_NO_SPACE, "cannot write %s: no space left", path);
    }
    if (disk->broken) {
        return ps_fail(err, PS_ERR_IO, "cannot write %s: no space left", path);
    }
    ck_assert_uint_le(n_bytes, sizeof(disk->data));
    memcpy(disk->data, data, n_bytes);
    disk->n_bytes = n_bytes;
    disk->there = true;
    return PS_OK;
}

void rig_disk_init(struct rig_disk *disk)
{
    static const struct ps_disk_ops ops = {.read = disk_read, .replace = disk_replace};
    *disk = (struct rig_disk){.base = {.ops = &ops}};
}
