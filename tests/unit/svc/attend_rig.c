/* attend_rig.c — see attend_rig.h. */
#include "attend_rig.h"

#include <string.h>

#include "lib/test_main.h"
#include "obs/log.h"
#include "suites.h"
#include "wire/pack.h"

struct ps_mem mem;
struct ps_inline_exec exec;
struct ps_inline_exec lane_exec;
bool lanes_apart;
static uint64_t now_ns;
static struct ps_direct *direct;
static struct ps_listener *listener;
struct ps_catalogue catalogue;
struct ps_lane *lanes[LANES];
struct ps_svc_data svc;
struct ps_attend *attend;
uint32_t n_changed;
uint32_t n_stopped;

const struct ps_id session = {{1, 2, 3}};

/* What lasts; of the next start, if `lasts`. */
bool lasts;
enum ps_lasting_when when;
uint32_t n_tables_logged;
uint64_t restored_slots;
uint64_t cut_ordered;
uint64_t cut_kept;
uint64_t oldest[2];
uint64_t cut_given_up;

/* The coordinator. */
Ps__V1__RestoreOrder *restore_order;
struct ps_stream *stream;
enum ps_status join_answer;
uint32_t join_protocol;
uint8_t wanted_cluster;
uint8_t asked_cluster;
bool hangs;
uint32_t n_joins;
uint32_t n_streams;
uint32_t n_reports;
struct reported seen;

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    return now_ns;
}

/* ---- The coordinator ------------------------------------------------------------------------ */

static void on_join(void *arg, struct ps_call *call)
{
    (void)arg;
    const struct ps_msg *msg = ps_call_request(call);
    Ps__V1__JoinRequest *join = (Ps__V1__JoinRequest *)ps_wire_unpack(
        &ps__v1__join_request__descriptor, msg->slices, msg->n_slices, NULL);
    ck_assert_ptr_nonnull(join);
    ck_assert_int_eq(join->kind, PS__V1__SESSION_KIND__SERVER);
    ck_assert_uint_eq(join->session.len, sizeof(session.bytes));
    ck_assert_mem_eq(join->session.data, session.bytes, sizeof(session.bytes));
    ck_assert_str_eq(join->address, "here:1");
    asked_cluster = join->cluster_id.len == 16 ? join->cluster_id.data[0] : 0;
    ps_wire_unpacked_free(&join->base);
    n_joins++;
    if (join_answer != PS_OK) {
        ps_call_finish(call, join_answer, NULL, "not today");
        return;
    }
    uint8_t bytes[128];
    bool fits = false;
    Ps__V1__JoinReply reply = PS__V1__JOIN_REPLY__INIT;
    uint8_t cluster[16] = {CLUSTER};
    reply.protocol = join_protocol;
    reply.cluster_id = (ProtobufCBinaryData){sizeof(cluster), cluster};
    reply.session_number = NUMBER;
    reply.term = 1;
    reply.generation = 1;
    reply.server_index = 1;
    struct ps_out out = {.head = bytes,
                         .n_head_bytes = ps_wire_pack(&reply.base, bytes, sizeof(bytes), &fits)};
    ps_call_finish(call, PS_OK, &out, NULL);
}

static void on_report(void *arg, struct ps_msg *msg)
{
    (void)arg;
    Ps__V1__AttendReport *report = (Ps__V1__AttendReport *)ps_wire_unpack(
        &ps__v1__attend_report__descriptor, msg->slices, msg->n_slices, NULL);
    ck_assert_ptr_nonnull(report);
    ck_assert_mem_eq(report->session.data, session.bytes, sizeof(session.bytes));
    ck_assert_ptr_nonnull(report->server);
    seen = (struct reported){
        .number = report->session_number,
        .term = report->term,
        .placement = report->server->placement_version,
        .sessions = report->server->sessions_version,
        .catalogue = report->server->catalogue_version,
        .finished = report->server->finished_version,
        .closed_steps = report->server->closed_steps,
        .generation_loaded = report->server->generation_loaded,
        .taken = report->server->cut_taken,
        .written = report->server->cut_written != NULL ? report->server->cut_written->cut : 0,
    };
    n_reports++;
    ps_wire_unpacked_free(&report->base);
    ps_msg_unref(msg);
}

void on_closed(void *arg, enum ps_status status)
{
    (void)arg;
    (void)status;
    if (!hangs) {
        ps_stream_release(stream);
        stream = NULL;
    }
}

static void on_attend(void *arg, struct ps_stream *accepted)
{
    (void)arg;
    static const struct ps_stream_events events = {.message = on_report, .closed = on_closed};
    ck_assert_ptr_null(stream);
    stream = accepted;
    n_streams++;
    ps_stream_start(stream, &events, NULL);
}

static const struct ps_method methods[] = {
    {.path = "/ps.v1.Coordinator/Join", .roles = PS_ROLE_ANY, .call = on_join},
    {.path = "/ps.v1.Coordinator/Attend",
     .roles = PS_ROLE_ANY,
     .kind = PS_METHOD_STREAM,
     .accept = on_attend},
};

/* ---- What lasts ----------------------------------------------------------------------------- */

static enum ps_status last_joined(struct ps_lasting *lasting, const struct ps_id *cluster,
                                  uint32_t index, uint64_t generation, struct ps_error *err)
{
    (void)lasting;
    (void)err;
    ck_assert_uint_eq(generation, 1);
    ck_assert_uint_eq(cluster->bytes[0], CLUSTER);
    ck_assert_uint_eq(index, 1);
    return PS_OK;
}

static enum ps_lasting_when last_table(struct ps_lasting *lasting, uint32_t number,
                                       const uint8_t *bytes, size_t n_bytes, struct ps_error *err)
{
    (void)lasting;
    (void)bytes;
    (void)err;
    ck_assert_uint_eq(number, 0);
    ck_assert_uint_gt(n_bytes, 0);
    n_tables_logged++;
    return when;
}

static enum ps_lasting_when last_restore(struct ps_lasting *lasting,
                                         const struct ps_lasting_restore *order,
                                         struct ps_error *err)
{
    (void)lasting;
    (void)err;
    ck_assert_str_eq(order->name, "000001-0000000005");
    restored_slots = order->slots;
    return PS_LASTING_LATER;
}

static enum ps_lasting_when last_cut(struct ps_lasting *lasting, uint64_t cut, struct ps_error *err)
{
    (void)lasting;
    (void)err;
    ck_assert_uint_gt(cut, cut_ordered);
    cut_ordered = cut;
    return PS_LASTING_LATER;
}

static void last_gave_up(struct ps_lasting *lasting, uint64_t cut)
{
    (void)lasting;
    ck_assert_uint_gt(cut, cut_given_up); /* Once. */
    cut_given_up = cut;
}

static void last_kept(struct ps_lasting *lasting, uint64_t cut)
{
    (void)lasting;
    cut_kept = cut;
}

static void last_oldest(struct ps_lasting *lasting, uint64_t generation, uint64_t cut)
{
    (void)lasting;
    oldest[0] = generation;
    oldest[1] = cut;
}

static bool last_wants_cut(struct ps_lasting *lasting)
{
    (void)lasting;
    return false;
}

static const struct ps_lasting_ops last_ops = {.joined = last_joined,
                                               .table = last_table,
                                               .restore = last_restore,
                                               .cut = last_cut,
                                               .gave_up = last_gave_up,
                                               .kept = last_kept,
                                               .oldest = last_oldest,
                                               .wants_cut = last_wants_cut};
static struct ps_lasting last = {.ops = &last_ops};

/* ---- Life ----------------------------------------------------------------------------------- */

static void changed(void *arg)
{
    (void)arg;
    n_changed++;
}

void stopped(void *arg)
{
    (void)arg;
    n_stopped++;
}

void pass_ms(uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 10) {
        now_ns += 10000000;
        ps_inline_exec_pump(&exec);
    }
}

void start(void)
{
    ps_log_level_set(PS_LOG_NONE);
    ps_mem_init(&mem);
    memset(&catalogue, 0, sizeof(catalogue));
    memset(&svc, 0, sizeof(svc));
    memset(&seen, 0, sizeof(seen));
    n_joins = n_streams = n_reports = n_changed = n_stopped = 0;
    now_ns = 5000000000;
    ps_inline_exec_init(&exec, clock_ns, NULL);
    ps_inline_exec_init(&lane_exec, clock_ns, NULL);
    direct = ps_direct_create(&exec.base);
    struct ps_transport *transport = ps_direct_transport(direct);
    ck_assert_int_eq(ps_listener_open(transport,
                                      &(struct ps_service){
                                          .address = "there:1", .methods = methods, .n_methods = 2},
                                      &listener, NULL),
                     PS_OK);
    for (uint32_t i = 0; i < LANES; i++) {
        struct ps_lane_options options = {.exec = lanes_apart ? &lane_exec.base : &exec.base,
                                          .mem = &mem,
                                          .committer = &ps_commit_at_once,
                                          .catalogue = &catalogue,
                                          .index = i,
                                          .n_lanes = LANES};
        ck_assert_int_eq(ps_lane_create(&options, &lanes[i], NULL), PS_OK);
    }
    svc.ledger = ps_ledger_create(&mem, &(struct ps_ledger_limits){0});
    ck_assert_ptr_nonnull(svc.ledger);
    struct ps_attend_options options = {.transport = transport,
                                        .exec = &exec.base,
                                        .mem = &mem,
                                        .coordinator = "there:1",
                                        .address = "here:1",
                                        .name = "server-1",
                                        .session = session,
                                        .cluster_id = {{wanted_cluster}},
                                        .give_up_ms = GIVE_UP,
                                        .seed = 1,
                                        .catalogue = &catalogue,
                                        .lanes = lanes,
                                        .n_lanes = LANES,
                                        .svc = &svc,
                                        .lasting = lasts ? &last : NULL,
                                        .changed = changed};
    ck_assert_int_eq(ps_attend_create(&options, &attend, NULL), PS_OK);
}

void open_all(void)
{
    join_answer = PS_OK;
    join_protocol = PS_PROTOCOL_MAX;
    start();
    pass_ms(50);
    ck_assert_ptr_nonnull(stream);
}

void close_rest(void)
{
    ps_listener_stop(listener, 0);
    ps_inline_exec_pump(&exec);
    ps_listener_close(listener);
    ps_direct_destroy(direct);
    for (uint32_t i = 0; i < LANES; i++) {
        ps_lane_destroy(lanes[i]);
    }
    ps_ledger_unref(svc.ledger);
    for (uint32_t c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        ck_assert_uint_eq(atomic_load(&mem.used[c]), 0);
    }
}

void close_all(void)
{
    ps_attend_stop(attend, stopped, NULL);
    pass_ms(50);
    ck_assert_uint_eq(n_stopped, 1);
    ck_assert_ptr_null(stream);
    ps_attend_destroy(attend);
    close_rest();
}

struct ps_attend_view view(void)
{
    struct ps_attend_view ret;
    ps_attend_view(attend, &ret);
    return ret;
}

void say(const Ps__V1__AttendState *state)
{
    static uint8_t bytes[8192];
    bool fits = false;
    struct ps_out out = {.head = bytes,
                         .n_head_bytes = ps_wire_pack(&state->base, bytes, sizeof(bytes), &fits)};
    ck_assert(fits);
    ck_assert_int_eq(ps_stream_send(stream, &out), PS_OK);
    ps_inline_exec_pump(&exec);
}

/* ---- States --------------------------------------------------------------------------------- */

Ps__V1__AttendState plain(uint64_t term)
{
    Ps__V1__AttendState state = PS__V1__ATTEND_STATE__INIT;
    state.term = term;
    state.generation = 1;
    return state;
}

/* Version `version` of everything: all slots ours, a table, session 3, lease 1 finished. */
void say_all(uint64_t version)
{
    static uint8_t id[16] = {3};
    static uint8_t incarnation[16];
    static uint32_t primary[PS_SLOTS];
    static uint64_t epoch[PS_SLOTS];
    static char name[] = "w";
    static uint64_t shape = 5000;
    memcpy(incarnation, session.bytes, sizeof(incarnation));
    Ps__V1__Server other = PS__V1__SERVER__INIT;
    Ps__V1__Server me = PS__V1__SERVER__INIT;
    Ps__V1__Server *servers[] = {&other, &me};
    me.index = 1;
    me.incarnation = (ProtobufCBinaryData){.len = 16, .data = incarnation};
    Ps__V1__Placement placement = PS__V1__PLACEMENT__INIT;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        primary[s] = 1;
        epoch[s] = version;
    }
    placement.version = version;
    placement.n_servers = 2;
    placement.servers = servers;
    placement.n_primary = PS_SLOTS;
    placement.primary = primary;
    placement.n_epoch = PS_SLOTS;
    placement.epoch = epoch;
    Ps__V1__TableDefinition definition = PS__V1__TABLE_DEFINITION__INIT;
    definition.name = name;
    definition.n_shape = 1;
    definition.shape = &shape;
    definition.dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    Ps__V1__Table table = PS__V1__TABLE__INIT;
    Ps__V1__Table *tables[] = {&table};
    table.definition = &definition;
    Ps__V1__Catalogue list = PS__V1__CATALOGUE__INIT;
    list.version = 1;
    list.n_tables = 1;
    list.tables = tables;
    Ps__V1__OpenSession open = PS__V1__OPEN_SESSION__INIT;
    Ps__V1__OpenSession *opens[] = {&open};
    open.number = 3;
    open.session = (ProtobufCBinaryData){.len = 16, .data = id};
    Ps__V1__OpenSessions sessions = PS__V1__OPEN_SESSIONS__INIT;
    sessions.version = version;
    sessions.n_sessions = 1;
    sessions.sessions = opens;
    Ps__V1__LeaseRange range = PS__V1__LEASE_RANGE__INIT;
    Ps__V1__LeaseRange *ranges[] = {&range};
    range.first = range.last = 1;
    Ps__V1__FinishedLeases finished = PS__V1__FINISHED_LEASES__INIT;
    finished.version = version;
    finished.n_ranges = 1;
    finished.ranges = ranges;
    Ps__V1__CloseStep close = PS__V1__CLOSE_STEP__INIT;
    close.step = version;
    Ps__V1__AttendState state = plain(1);
    state.placement = &placement;
    state.catalogue = &list;
    state.sessions = &sessions;
    state.finished = &finished;
    state.close = &close;
    if (restore_order != NULL) {
        state.restore = restore_order;
        state.generation = restore_order->generation;
    }
    say(&state);
}
