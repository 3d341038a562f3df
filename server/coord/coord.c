/*
 * coord.c — the life of a coordinator, and what follows every change.
 *
 *   mail: a call, a report, a broken stream --+
 *   timer: time has passed -------------------+--> core --> flush: 1. write what must outlive us
 *                                                                  2. answer calls
 *                                                                  3. tell members
 *
 * Flush is mail that the coordinator sends itself, so that one write and one message per member
 * serve everything that arrived together.
 */
#include "coord/coord.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coord/coord_impl.h"
#include "obs/log.h"
#include "wire/pack.h"

/* ---- Messages ------------------------------------------------------------------------------ */

bool coord_pack(struct ps_coord *coord, const ProtobufCMessage *message, struct ps_out *ret)
{
    size_t n_bytes = protobuf_c_message_get_packed_size(message);
    if (n_bytes > PS_MESSAGE_BYTES_MAX) {
        return false;
    }
    if (n_bytes > coord->buffer_bytes) {
        uint8_t *grown = ps_mem_grow(coord->options.mem, PS_MEM_CALLS, coord->buffer, 2 * n_bytes);
        if (grown == NULL) {
            return false;
        }
        coord->buffer = grown;
        coord->buffer_bytes = 2 * n_bytes;
    }
    bool fits = false;
    n_bytes = ps_wire_pack(message, coord->buffer, coord->buffer_bytes, &fits);
    PS_ASSERT(fits);
    *ret = (struct ps_out){.head = coord->buffer, .n_head_bytes = n_bytes};
    return true;
}

ProtobufCMessage *coord_unpack(struct ps_coord *coord, const ProtobufCMessageDescriptor *type,
                               const struct ps_msg *msg, enum ps_status *ret_why)
{
    *ret_why = PS_ERR_CORRUPT;
    if (msg->n_bytes > PS_COORD_REQUEST_BYTES_MAX) {
        return NULL;
    }
    return ps_wire_unpack_why(type, msg->slices, msg->n_slices, coord->options.mem, ret_why);
}

/* ---- Peers --------------------------------------------------------------------------------- */

void coord_peer_claim(struct ps_coord *coord, uint32_t member)
{
    struct coord_peer *peer = &coord->peers[member];
    const struct ps_coord_member *who = &coord->core.members[member];
    if (ps_id_equal(&peer->session, &who->session)) {
        return; /* A repeat of a join. */
    }
    if (peer->attend != NULL) { /* Of somebody who has ended, and has heard it long ago. */
        peer->attend->member = PS_COORD_NOBODY;
        peer->attend->unknown = true;
    }
    ps_mem_free(peer->rows);
    *peer = (struct coord_peer){.session = who->session, .seen = PS_MEMBER_JOINING};
}

/* ---- Log and metrics ----------------------------------------------------------------------- */

static const char *const kind_words[] = {"none", "worker", "reader", "server"};
static const char *const state_words[] = {"none", "waiting", "running",  "done",
                                          "lost", "stopped", "restoring"};

static void log_member(struct ps_coord *coord, uint32_t member)
{
    const struct ps_coord_member *who = &coord->core.members[member];
    struct coord_peer *peer = &coord->peers[member];
    enum ps_member_state state = who->life.state;
    if (!who->used || state == peer->seen) {
        return;
    }
    bool ended = ps_member_ended(&who->life);
    bool expected = !ended || state == PS_MEMBER_LEFT;
    if (ended || peer->seen == PS_MEMBER_JOINING) { /* Being suspected for a moment is no event. */
        ps_log(expected ? PS_LOG_INFO : PS_LOG_WARN, ended ? "member.ended" : "member.joined",
               "session=%" PRIu64 " kind=%s name=\"%s\" state=%s why=\"%s\"", who->number,
               kind_words[who->kind], who->name, ps_member_state_name(state), who->why);
    }
    if (state == PS_MEMBER_DEAD && who->kind != PS_COORD_SERVER) {
        ps_metric_add(coord->options.metrics, PS_METRIC_sessions_expired_total, 1);
    }
    peer->seen = state;
}

static void count(struct ps_coord *coord, enum ps_metric metric, uint64_t now, uint64_t *seen)
{
    ps_metric_add(coord->options.metrics, metric, now - *seen);
    *seen = now;
}

static void observe(struct ps_coord *coord)
{
    const struct ps_coord_core *core = &coord->core;
    for (uint32_t i = 0; i < core->n_members; i++) {
        log_member(coord, i);
    }
    if (core->state != coord->seen_state) {
        coord->seen_state = core->state;
        ps_log(core->state == PS_COORD_LOST ? PS_LOG_ERROR : PS_LOG_INFO, "job.state",
               "state=%s reason=\"%s\"", state_words[core->state], core->reason);
    }
    count(coord, PS_METRIC_leases_lent_total, core->n_lent, &coord->seen_lent);
    count(coord, PS_METRIC_leases_returned_total, core->n_returned, &coord->seen_returned);
    count(coord, PS_METRIC_leases_finished_total, core->pool.n_finished, &coord->seen_finished);
}

/* ---- Flush --------------------------------------------------------------------------------- */

static void lose_store(struct ps_coord *coord, const struct ps_error *err)
{
    coord->store_lost = true;
    ps_log(PS_LOG_ERROR, "coordinator.deposed", "term=%" PRIu64 " why=\"%s\"", coord->term,
           err->text);
    if (err->status == PS_ERR_IO && coord->options.failed != NULL) {
        coord->failed = true;
        coord->options.failed(coord->options.arg, err);
        return;
    }
    ps_coord_core_stop(&coord->core, ps_exec_now_ms(coord->options.exec), err->text);
}

/*
 * A change that cannot be made durable must never be told: the job ends. Without memory nobody is
 * told anything for now, and the next tick tries again. @return whether all that is known may be
 * told
 */
static bool write_changes(struct ps_coord *coord)
{
    if (!(coord->core.dirty || coord->to_prove) || coord->store_lost) {
        return !coord->failed;
    }
    struct ps_error err;
    enum ps_status status = coord_store(coord, &err);
    if (status == PS_OK) {
        coord->core.dirty = false;
        coord->to_prove = false;
        return true;
    }
    if (status == PS_ERR_NOMEM && !coord->core.dirty) {
        return true; /* Nothing is to be written; the proof comes with the next flush. */
    }
    if (status == PS_ERR_NOMEM || status == PS_ERR_NO_SPACE) {
        ps_log(PS_LOG_WARN, "coordinator.waits", "why=\"%s\"", err.text);
        return false;
    }
    lose_store(coord, &err);
    return !coord->failed;
}

/*
 * Rule 5b: once a second a coordinator looks whether the store is still its own, so that one which
 * was followed and has nothing to write does not keep its members for ever.
 */
static void prove(struct ps_coord *coord, uint64_t now_ms)
{
    struct ps_store_stamp stamp;
    struct ps_error err;
    if (coord->store_lost || now_ms - coord->stamp_ms < PS_COORD_PROVE_MS) {
        return;
    }
    coord->stamp_ms = now_ms;
    enum ps_status status = ps_store_stamp(coord->options.store, &stamp, &err);
    if (status == PS_OK) {
        status = ps_store_is(&stamp, &coord->stamp, &err);
    }
    if (status != PS_OK && status != PS_ERR_NOMEM) {
        lose_store(coord, &err);
    }
}

static void flush_now(struct ps_coord *coord)
{
    coord_cuts_work(coord);
    if (!write_changes(coord)) {
        return;
    }
    coord_cuts_told(coord);
    observe(coord);
    coord_calls_answer(coord);
    coord_attends_tell(coord);
    if (coord->to_keep && !coord->store_lost && !ps_coord_cut_under_way(&coord->core.cut)) {
        coord_cuts_keep(coord);
    }
}

static void run_flush(struct ps_mail *mail)
{
    struct ps_coord *coord = PS_CONTAINER_OF(mail, struct ps_coord, flush);
    coord->flush_posted = false;
    if (!coord->stopped) {
        flush_now(coord);
    }
}

void coord_changed(struct ps_coord *coord)
{
    if (!coord->flush_posted) {
        coord->flush_posted = true;
        ps_exec_post(coord->options.exec, &coord->flush);
    }
}

static void run_tick(struct ps_timer *timer)
{
    struct ps_coord *coord = PS_CONTAINER_OF(timer, struct ps_coord, tick);
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    ps_timer_start(coord->options.exec, &coord->tick, coord->core.options.tick_ms);
    coord_calls_keep_alive(coord, now_ms);
    ps_coord_core_tick(&coord->core, now_ms);
    prove(coord, now_ms);
    coord_changed(coord);
}

/* ---- Life ---------------------------------------------------------------------------------- */

static uint32_t or_preset(uint32_t value, uint32_t preset)
{
    return value != 0 ? value : preset;
}

/* Short times, as tests use them, are kept with the same precision as the usual ones. */
static uint32_t tick_for(uint32_t grace_ms)
{
    uint32_t tick_ms = grace_ms / 4 < PS_COORD_TICK_MS ? grace_ms / 4 : PS_COORD_TICK_MS;
    return tick_ms > 0 ? tick_ms : 1;
}

static void init(struct ps_coord *coord, const struct ps_coord_options *options)
{
    coord->options = *options;
    coord->flush.run = run_flush;
    ps_timer_init(&coord->tick, run_tick);
    coord_cuts_init(coord);
    ps_list_init(&coord->parked);
    ps_list_init(&coord->attends);
    coord->seen_state = PS_COORD_WAITING;
}

/* What there is already: in the store, or in a snapshot. */
static enum ps_status begin(struct ps_coord *coord, struct ps_error *err)
{
    bool resumed = false;
    enum ps_status status = coord_resume(coord, &resumed, err);
    if (status != PS_OK) {
        return status;
    }
    coord_cuts_beyond(coord);
    if (coord->options.restore_dir == NULL) {
        return PS_OK;
    }
    if (resumed) {
        ps_log(PS_LOG_WARN, "restore.ignored",
               "dir=\"%s\" why=\"the data directory goes on where it was; psctl restore goes back, "
               "a new data directory begins with the snapshot\"",
               coord->options.restore_dir);
        return PS_OK;
    }
    return coord_begin_with(coord, coord->options.restore_dir, err);
}

static void free_coord(struct ps_coord *coord)
{
    for (uint32_t i = 0; i < coord->core.catalogue_version; i++) {
        ps_wire_unpacked_free(&coord->tables[i].definition->base);
    }
    if (coord->definition.job != NULL) {
        ps_wire_unpacked_free(&coord->definition.job->base);
    }
    for (uint32_t i = 0; i < PS_COORD_MEMBERS_MAX; i++) {
        ps_mem_free(coord->peers[i].rows);
    }
    for (uint32_t i = 0; i < coord->n_known; i++) {
        ps_wire_unpacked_free(&coord->known[i]->base);
    }
    coord_resume_forget(coord);
    coord_cut_forget(coord);
    ps_mem_free(coord->definition.pool_memory);
    ps_mem_free(coord->definition.losses);
    ps_mem_free(coord->buffer);
    ps_mem_free(coord);
}

enum ps_status ps_coord_create(const struct ps_coord_options *options, struct ps_coord **ret,
                               struct ps_error *err)
{
    if (options->n_servers < 1 || options->n_servers > PS_SERVERS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "servers must be 1 to %u, got %" PRIu32, PS_SERVERS_MAX,
                       options->n_servers);
    }
    PS_ASSERT(!ps_id_none(&options->new_cluster_id));
    struct ps_coord *coord = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*coord));
    if (coord == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the coordinator");
    }
    init(coord, options);
    uint32_t grace_ms = or_preset(options->grace_ms, PS_STREAM_GRACE_MS);
    struct ps_coord_core_options core_options = {
        .n_servers = options->n_servers,
        .times = {.grace_ms = grace_ms,
                  .silence_ms = or_preset(options->silence_ms, PS_SILENCE_MS)},
        .tick_ms = tick_for(grace_ms),
        .wait_ms = or_preset(options->wait_ms, PS_WAIT_SERVER_MS),
        .snapshot_every_ms = options->snapshot_every_ms,
        .cuts = options->keeper != NULL,
        .lends_written = true,
        .plant = options->plant,
    };
    enum ps_status status = coord_take_term(coord, &core_options, err);
    if (status == PS_OK) {
        ps_coord_core_init(&coord->core, ps_exec_now_ms(options->exec), &core_options);
        status = begin(coord, err);
    }
    if (status == PS_OK) {
        status = coord_store(coord, err); /* The compare-and-swap that wins the term. */
    }
    if (status != PS_OK) {
        free_coord(coord);
        return status;
    }
    ps_timer_start(options->exec, &coord->tick, coord->core.options.tick_ms);
    char cluster[PS_ID_TEXT_BYTES];
    ps_id_text(&coord->cluster_id, cluster);
    ps_log(PS_LOG_INFO, "coordinator.started", "cluster=%s term=%" PRIu64 " servers=%" PRIu32,
           cluster, coord->term, options->n_servers);
    *ret = coord;
    return PS_OK;
}

void ps_coord_methods(struct ps_coord *coord, struct ps_method *methods)
{
    coord_call_rows(coord, methods);
    coord_attend_row(coord, &methods[PS_COORD_METHODS - 1]);
}

void ps_coord_stop(struct ps_coord *coord)
{
    if (coord->stopped) {
        return;
    }
    flush_now(coord); /* What is known is still told. */
    coord->stopped = true;
    ps_timer_stop(coord->options.exec, &coord->tick);
    ps_timer_stop(coord->options.exec, &coord->hold);
    coord_calls_stop(coord);
    coord_attends_close(coord);
}

bool ps_coord_idle(const struct ps_coord *coord)
{
    return !coord->flush_posted &&
           atomic_load_explicit(&coord->n_under_way, memory_order_acquire) == 0;
}

void ps_coord_destroy(struct ps_coord *coord)
{
    if (coord == NULL) {
        return;
    }
    PS_ASSERT(coord->stopped);
    PS_ASSERT(ps_coord_idle(coord));
    free_coord(coord);
}

/* ---- For the server process around it ------------------------------------------------------ */

enum ps_coord_job_state ps_coord_job_state(const struct ps_coord *coord)
{
    return coord->core.state;
}

const char *ps_coord_reason(const struct ps_coord *coord)
{
    return coord->core.reason;
}

struct ps_id ps_coord_cluster_id(const struct ps_coord *coord)
{
    return coord->cluster_id;
}

uint64_t ps_coord_min_clock(const struct ps_coord *coord)
{
    return coord->core.min_clock;
}

uint32_t ps_coord_sessions(const struct ps_coord *coord)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < coord->core.n_members; i++) {
        n += ps_coord_core_listed(&coord->core.members[i]);
    }
    return n;
}
