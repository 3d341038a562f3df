/* attend.c — see attend.h. */
#include "svc/attend.h"

#include <string.h>

#include "base/assert.h"
#include "obs/log.h"
#include "svc/attend_impl.h"
#include "wire/pack.h"

#define METHOD_JOIN     "/ps.v1.Coordinator/Join"
#define METHOD_ATTEND   "/ps.v1.Coordinator/Attend"
#define JOIN_TIMEOUT_MS 5000u
#define GIVE_UP_MS      10000u
#define JOIN_PATIENCE   3u    /* Times give_up_ms: servers may start before their coordinator. */
#define LOG_FIRST_MS    1000u /* Shorter outages are not worth a line. */
#define JOIN_BYTES      (1024u + PS_SLOTS * 32u) /* The rest of the longest is about 400. */
#define UPDATES_MAX     16u /* In the lanes at a time; then messages wait, and the stream stalls. */
#define STOP_WAIT_MS    300u /* For a coordinator to end the stream in peace. */

/* A message on its way from a transport thread to the executor. */
struct arrival {
    struct ps_mail mail;
    struct ps_list node; /* Of attend->waiting. */
    struct ps_attend *attend;
    struct ps_msg *msg;
};

void ps_attend_stop_if_idle(struct ps_attend *attend)
{
    if (attend->stopping && !attend->joining && attend->stream == NULL && attend->n_updates == 0 &&
        attend->n_logging == 0 && !attend->restoring && attend->stop_done != NULL) {
        void (*done)(void *arg) = attend->stop_done;
        attend->stop_done = NULL;
        done(attend->stop_arg);
    }
}

static void changed(struct ps_attend *attend)
{
    if (attend->options.changed != NULL && !attend->stopping) {
        attend->options.changed(attend->options.arg);
    }
}

void ps_attend_lose(struct ps_attend *attend, const struct ps_error *err)
{
    if (attend->view.lost.status == PS_OK && !attend->stopping) {
        attend->view.lost = *err;
        changed(attend);
    }
}

static void retry_later(struct ps_attend *attend)
{
    attend->retry_at_ms =
        ps_exec_now_ms(attend->options.exec) + ps_backoff_next_ms(&attend->backoff, &attend->rng);
}

static void note_update(struct ps_attend *attend, const struct ps_lane_update *update)
{
    struct ps_attend_acked *acked = &attend->acked;
    if (atomic_load(&update->status) != PS_OK) {
        struct ps_error err;
        (void)ps_fail(&err, (enum ps_status)atomic_load(&update->status),
                      "this server cannot hold its part of the tables");
        ps_attend_lose(attend, &err);
        return;
    }
    if (update->generation != attend->generation) {
        return; /* What its slots took of another one, they have forgotten. */
    }
    if (atomic_load(&update->stale)) { /* Some lanes have it, some not: all of it once more. */
        ps_log(PS_LOG_WARN, "news.stale", "term=%llu why=\"a slot knows a higher term\"",
               (unsigned long long)update->term);
        ps_attend_start_over(attend, PS_ERR_CANCELED);
        return;
    }
    if (update->has_placement) {
        acked->placement_version = update->placement_version;
        if (!attend->view.placed) {
            attend->view.placed = true;
            changed(attend);
        }
    }
    if (update->has_placement || update->generation == attend->generation_restored) {
        attend->generation_loaded = update->generation;
    }
    if (update->has_sessions && update->sessions.version > acked->sessions_version) {
        acked->sessions_version = update->sessions.version;
    }
    if (update->has_finish && update->finish.version > acked->finished_version) {
        acked->finished_version = update->finish.version;
    }
    if (update->has_close && update->close.step >= acked->closed_steps) {
        acked->closed_steps = update->close.step + 1;
    }
    bool news = update->has_placement || update->has_sessions || update->has_finish ||
                update->has_close || update->n_tables > acked->catalogue_version;
    if (update->n_tables > acked->catalogue_version) {
        acked->catalogue_version = update->n_tables;
        atomic_store_explicit(&attend->options.catalogue->n_tables, update->n_tables,
                              memory_order_release);
    }
    if (news) {
        ps_attend_send_report(attend);
    }
}

/* ---- The stream ----------------------------------------------------------------------------- */

/* Calls of another generation are refused from now on. */
static void set_generation(struct ps_attend *attend, uint64_t generation)
{
    if (generation != attend->generation) { /* The lists of another one are not repeated. */
        attend->min_clock = 0;
        attend->sessions_version = 0;
        attend->n_sessions = 0;
        attend->n_staged = 0;
        attend->finished_version = 0;
        attend->n_ranges = 0;
        attend->acked.sessions_version = 0; /* Nor what its slots had of them. */
        attend->acked.finished_version = 0;
        attend->acked.closed_steps = 0;
    }
    attend->generation = generation;
    /* From now on calls are taken: what else they need is there. */
    atomic_store_explicit(&attend->options.svc->generation, generation, memory_order_release);
}

/* Yesterday's coordinator is gone and another cluster has its address. */
static bool other_cluster(const struct ps_attend *attend, const Ps__V1__AttendState *state,
                          struct ps_error *err)
{
    struct ps_id cluster;
    if (!state->fenced || ps_id_none(&attend->cluster) ||
        !ps_id_from(state->cluster_id.data, state->cluster_id.len, &cluster) ||
        ps_id_equal(&cluster, &attend->cluster)) {
        return false;
    }
    char here[PS_ID_TEXT_BYTES];
    char there[PS_ID_TEXT_BYTES];
    ps_id_text(&attend->cluster, here);
    ps_id_text(&cluster, there);
    (void)ps_fail(err, PS_ERR_LOST,
                  "coordinator (%.100s) is now that of cluster %s: cluster %s is gone",
                  attend->coordinator, there, here);
    return true;
}

/* Groups come once a stream: who missed one asks for all of them on another stream. */
void ps_attend_start_over(struct ps_attend *attend, enum ps_status status)
{
    attend->deaf = true;
    if (attend->stream != NULL) {
        ps_stream_close(attend->stream, status);
    }
}

/* @return false: it is nothing to act on */
static bool take_state(struct ps_attend *attend, Ps__V1__AttendState *state)
{
    struct ps_error err;
    if (other_cluster(attend, state, &err)) { /* Its terms say nothing to us. */
        ps_attend_lose(attend, &err);
        return false;
    }
    if (state->term < attend->term) {
        return false; /* A deposed coordinator. */
    }
    attend->heard_ms = ps_exec_now_ms(attend->options.exec);
    ps_backoff_reset(&attend->backoff);
    attend->term = state->term;
    attend->patience_ms = state->patience_ms != 0 ? state->patience_ms : attend->patience_ms;
    set_generation(attend, state->generation);
    if (state->fenced) {
        (void)ps_fail(&err, PS_ERR_FENCED, "the coordinator closed this server's session: %s",
                      state->reason[0] != '\0' ? state->reason : "it was silent too long");
        ps_attend_lose(attend, &err);
        return false;
    }
    ps_attend_hold_state(attend, state);
    return true;
}

void ps_attend_take_job(struct ps_attend *attend, const Ps__V1__AttendState *state)
{
    if (attend->view.job == (uint32_t)state->job || attend->view.lost.status != PS_OK) {
        return;
    }
    attend->view.job = (uint32_t)state->job;
    if (state->job == PS__V1__JOB_STATE__CLUSTER_LOST) {
        struct ps_error err;
        (void)ps_fail(&err, PS_ERR_LOST, "%s", state->reason);
        ps_attend_lose(attend, &err);
    }
    changed(attend);
}

static void take_arrival(struct arrival *arrival)
{
    struct ps_attend *attend = arrival->attend;
    if (!attend->stopping && !attend->deaf && attend->view.lost.status == PS_OK) {
        Ps__V1__AttendState *state = (Ps__V1__AttendState *)ps_wire_unpack(
            &ps__v1__attend_state__descriptor, arrival->msg->slices, arrival->msg->n_slices,
            attend->options.mem);
        if (state != NULL && !take_state(attend, state)) {
            ps_wire_unpacked_free(&state->base);
        } else if (state == NULL) {
            ps_metric_add(attend->options.metrics, PS_METRIC_messages_malformed_total, 1);
            ps_attend_start_over(attend, PS_ERR_CORRUPT);
        }
    }
    ps_msg_unref(arrival->msg);
    ps_mem_free(arrival);
}

/*
 * Lanes that are slow must not be filled with news, and what waits for the log holds up what comes
 * behind it: the messages wait, in their order.
 */
void ps_attend_take_waiting(struct ps_attend *attend)
{
    while (!ps_list_empty(&attend->waiting) &&
           (attend->stopping || (attend->n_updates < UPDATES_MAX && attend->held == NULL))) {
        struct arrival *arrival = PS_CONTAINER_OF(attend->waiting.next, struct arrival, node);
        ps_list_remove(&arrival->node);
        take_arrival(arrival);
    }
}

void ps_attend_update_done(struct ps_attend *attend, const struct ps_lane_update *update)
{
    PS_ASSERT(attend->n_updates > 0);
    attend->n_updates--;
    /* The first one of a stream has everything: tables, placement, sessions. */
    atomic_store_explicit(&attend->options.svc->unplaced, false, memory_order_relaxed);
    note_update(attend, update);
    ps_attend_take_waiting(attend);
    ps_attend_stop_if_idle(attend);
}

static void run_arrival(struct ps_mail *mail)
{
    struct arrival *arrival = PS_CONTAINER_OF(mail, struct arrival, mail);
    ps_list_init(&arrival->node);
    ps_list_append(&arrival->attend->waiting, &arrival->node);
    ps_attend_take_waiting(arrival->attend);
}

/* On a transport thread, as the two below. */
static void on_message(void *arg, struct ps_msg *msg)
{
    struct ps_attend *attend = arg;
    struct arrival *arrival = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*arrival));
    PS_ASSERT(arrival != NULL); /* Uncounted and tiny: the machine itself is out of memory. */
    *arrival = (struct arrival){.mail.run = run_arrival, .attend = attend, .msg = msg};
    ps_exec_post(attend->options.exec, &arrival->mail);
}

static void on_closed(void *arg, enum ps_status status PS_UNUSED)
{
    struct ps_attend *attend = arg;
    ps_exec_post(attend->options.exec, &attend->stream_closed);
}

static void on_join_done(struct ps_request *request)
{
    struct ps_attend *attend = PS_CONTAINER_OF(request, struct ps_attend, join);
    ps_exec_post(attend->options.exec, &attend->join_done);
}

static void run_stream_closed(struct ps_mail *mail)
{
    struct ps_attend *attend = PS_CONTAINER_OF(mail, struct ps_attend, stream_closed);
    ps_stream_release(attend->stream);
    attend->stream = NULL;
    ps_timer_stop(attend->options.exec, &attend->stop_timer);
    retry_later(attend);
    ps_attend_stop_if_idle(attend);
}

static void open_stream(struct ps_attend *attend)
{
    static const struct ps_stream_events events = {.message = on_message, .closed = on_closed};
    attend->stream_closed.run = run_stream_closed;
    attend->deaf = false;
    attend->stream = ps_stream_open(attend->channel, METHOD_ATTEND, &events, attend);
    ps_attend_send_report(attend);
}

/* ---- Joining -------------------------------------------------------------------------------- */

static uint32_t give_up_after_ms(const struct ps_attend *attend)
{
    if (attend->options.give_up_ms != 0) {
        return attend->options.give_up_ms;
    }
    return attend->patience_ms != 0 ? attend->patience_ms : GIVE_UP_MS;
}

static void start_join(struct ps_attend *attend)
{
    uint8_t bytes[JOIN_BYTES];
    Ps__V1__JoinRequest join;
    ps__v1__join_request__init(&join);
    join.protocol_min = PS_PROTOCOL_MIN;
    join.protocol_max = PS_PROTOCOL_MAX;
    join.kind = PS__V1__SESSION_KIND__SERVER;
    join.name = attend->name;
    join.address = attend->address;
    join.session.len = sizeof(attend->options.session.bytes);
    join.session.data = attend->options.session.bytes;
    if (!ps_id_none(&attend->cluster)) {
        join.cluster_id.len = sizeof(attend->cluster.bytes);
        join.cluster_id.data = attend->cluster.bytes;
    }
    if (!ps_id_none(&attend->options.server)) {
        join.server.len = sizeof(attend->options.server.bytes);
        join.server.data = attend->options.server.bytes;
    }
    join.n_positions = ps_attend_fill_positions(attend);
    join.positions = attend->position_list;
    join.generation = attend->options.generation;
    join.durability = (Ps__V1__Durability)attend->options.durability;
    bool fits = false;
    size_t n_bytes = ps_wire_pack(&join.base, bytes, sizeof(bytes), &fits);
    PS_ASSERT(fits);
    uint32_t give_up_ms = give_up_after_ms(attend);
    attend->join = (struct ps_request){
        .method = METHOD_JOIN,
        .timeout_ms = give_up_ms < JOIN_TIMEOUT_MS ? give_up_ms : JOIN_TIMEOUT_MS,
        .at_once = true,
        .out = {.head = bytes, .n_head_bytes = n_bytes},
        .done = on_join_done,
    };
    attend->joining = true;
    ps_request_start(attend->channel, &attend->join);
}

static void joined(struct ps_attend *attend, const Ps__V1__JoinReply *reply)
{
    if (reply->protocol < PS_PROTOCOL_MIN || reply->protocol > PS_PROTOCOL_MAX) {
        struct ps_error err;
        (void)ps_fail(&err, PS_ERR_UNSUPPORTED,
                      "coordinator (%.100s) speaks protocol %u, %u to %u are spoken here: the "
                      "programs differ in age",
                      attend->coordinator, reply->protocol, PS_PROTOCOL_MIN, PS_PROTOCOL_MAX);
        ps_attend_lose(attend, &err);
        return;
    }
    (void)ps_id_from(reply->cluster_id.data, reply->cluster_id.len, &attend->cluster);
    struct ps_lasting *lasting = attend->options.lasting;
    struct ps_error err;
    if (lasting != NULL && lasting->ops->joined(lasting, &attend->cluster, reply->server_index,
                                                reply->generation, &err) != PS_OK) {
        ps_attend_lose(attend, &err);
        return;
    }
    attend->patience_ms = reply->patience_ms;
    attend->heard_ms = ps_exec_now_ms(attend->options.exec);
    ps_backoff_reset(&attend->backoff);
    attend->session_number = reply->session_number;
    attend->term = reply->term;
    atomic_store_explicit(&attend->options.svc->key_seed, reply->key_seed, memory_order_relaxed);
    set_generation(attend, reply->generation);
    attend->view.index = reply->server_index;
    attend->view.joined = true;
    char cluster[PS_ID_TEXT_BYTES];
    ps_id_text(&attend->cluster, cluster);
    ps_log(PS_LOG_INFO, "server.joined", "cluster=%s index=%u session=%llu term=%llu", cluster,
           reply->server_index, (unsigned long long)reply->session_number,
           (unsigned long long)reply->term);
    open_stream(attend);
    changed(attend);
}

/* Silence says less than what was heard before it. */
static void keep_reason(struct ps_attend *attend, const struct ps_error *err)
{
    if (err->status != PS_ERR_TIMEOUT || attend->why.status != PS_ERR_UNAVAIL) {
        attend->why = *err;
    }
}

static void run_join_done(struct ps_mail *mail)
{
    struct ps_attend *attend = PS_CONTAINER_OF(mail, struct ps_attend, join_done);
    struct ps_request *join = &attend->join;
    attend->joining = false;
    if (join->err.status == PS_OK && !attend->stopping) {
        Ps__V1__JoinReply *reply = (Ps__V1__JoinReply *)ps_wire_unpack(
            &ps__v1__join_reply__descriptor, join->reply->slices, join->reply->n_slices,
            attend->options.mem);
        if (reply != NULL) {
            joined(attend, reply);
            ps_wire_unpacked_free(&reply->base);
        } else {
            retry_later(attend);
        }
    } else if (ps_status_retryable(join->err.status)) {
        keep_reason(attend, &join->err);
        retry_later(attend);
    } else if (join->err.status != PS_OK) {
        (void)ps_wrap(&join->err, join->err.status, "coordinator (%.100s) refused this server",
                      attend->coordinator);
        ps_attend_lose(attend, &join->err);
    }
    ps_msg_unref(join->reply);
    join->reply = NULL;
    ps_attend_stop_if_idle(attend);
}

/* ---- Life ----------------------------------------------------------------------------------- */

/* @return false: it is given up */
static bool bear_silence(struct ps_attend *attend, uint64_t now_ms)
{
    /* Daemons of one job start in any order: joining may take longer than silence later. */
    bool joined = attend->view.joined;
    uint64_t patience_ms = (uint64_t)give_up_after_ms(attend) * (joined ? 1 : JOIN_PATIENCE);
    uint64_t silent_ms = now_ms - attend->heard_ms;
    unsigned long long silent_s = silent_ms / 1000;
    bool known = !joined && attend->why.status != PS_OK;
    const char *colon = known ? ": " : "";
    const char *why = known ? attend->why.text : "";
    if (silent_ms > patience_ms) {
        struct ps_error err;
        (void)ps_fail(&err, PS_ERR_LOST, "coordinator (%.100s) has been silent for %llu s%s%s",
                      attend->coordinator, silent_s, colon, why);
        ps_attend_lose(attend, &err);
        return false;
    }
    if (silent_ms < LOG_FIRST_MS) {
        attend->next_log_ms = LOG_FIRST_MS;
    } else if (silent_ms >= attend->next_log_ms) {
        attend->next_log_ms = 2 * silent_ms;
        ps_log(PS_LOG_WARN, "coordinator.silent",
               "msg=\"coordinator (%s) has been silent for %llu s%s%s: retrying\"",
               attend->coordinator, silent_s, colon, why);
    }
    return true;
}

static void run_timer(struct ps_timer *timer)
{
    struct ps_attend *attend = PS_CONTAINER_OF(timer, struct ps_attend, timer);
    uint64_t now_ms = ps_exec_now_ms(attend->options.exec);
    if (attend->stopping || attend->view.lost.status != PS_OK || !bear_silence(attend, now_ms)) {
        return;
    }
    if (!attend->view.joined) {
        if (!attend->joining && now_ms >= attend->retry_at_ms) {
            start_join(attend);
        }
    } else if (attend->stream != NULL) {
        ps_attend_send_report(attend);
    } else if (now_ms >= attend->retry_at_ms) {
        open_stream(attend);
    }
    bool waiting = attend->stream == NULL;
    ps_timer_start(attend->options.exec, &attend->timer, waiting ? 20 : PS_HEARTBEAT_MS);
}

/* A coordinator that hangs does not end the stream: then we break it. */
static void run_stop_timer(struct ps_timer *timer)
{
    struct ps_attend *attend = PS_CONTAINER_OF(timer, struct ps_attend, stop_timer);
    if (attend->stream != NULL) {
        ps_log(PS_LOG_WARN, "coordinator.silent",
               "address=\"%s\" why=\"it does not end the stream\"", attend->coordinator);
        ps_stream_close(attend->stream, PS_ERR_CANCELED);
    }
}

static bool copy_text(char *to, size_t n_room, const char *from)
{
    size_t n = strlen(from);
    if (n >= n_room) {
        return false;
    }
    memcpy(to, from, n + 1);
    return true;
}

enum ps_status ps_attend_create(const struct ps_attend_options *options, struct ps_attend **ret,
                                struct ps_error *err)
{
    struct ps_attend *attend = ps_mem_alloc(options->mem, PS_MEM_SESSIONS, sizeof(*attend));
    if (attend == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for attending");
    }
    attend->options = *options;
    atomic_store_explicit(&options->svc->unplaced, true, memory_order_relaxed);
    attend->generation = options->generation;
    attend->n_tables = atomic_load_explicit(&options->catalogue->n_tables, memory_order_relaxed);
    attend->cluster = options->cluster_id;
    enum ps_status status = PS_OK;
    if (!copy_text(attend->coordinator, sizeof(attend->coordinator), options->coordinator) ||
        !copy_text(attend->address, sizeof(attend->address), options->address) ||
        !copy_text(attend->name, sizeof(attend->name), options->name)) {
        status = ps_fail(err, PS_ERR_INVALID, "an address or name is too long");
    } else {
        status = ps_channel_open(options->transport, attend->coordinator, PS_TRAFFIC_CONTROL,
                                 options->creds, &attend->channel, err);
    }
    if (status != PS_OK) {
        ps_mem_free(attend);
        return status;
    }
    attend->rng = ps_rng_from(options->seed);
    attend->join_done.run = run_join_done;
    attend->heard_ms = ps_exec_now_ms(options->exec);
    ps_list_init(&attend->waiting);
    ps_timer_init(&attend->stop_timer, run_stop_timer);
    ps_timer_init(&attend->timer, run_timer);
    ps_timer_start(options->exec, &attend->timer, 0);
    *ret = attend;
    return PS_OK;
}

void ps_attend_view(const struct ps_attend *attend, struct ps_attend_view *ret)
{
    *ret = attend->view;
    ret->generation = attend->generation;
    ret->cluster = attend->cluster;
}

void ps_attend_stop(struct ps_attend *attend, void (*done)(void *arg), void *arg)
{
    attend->stopping = true;
    attend->stop_done = done;
    attend->stop_arg = arg;
    ps_timer_stop(attend->options.exec, &attend->timer);
    ps_attend_take_waiting(attend);
    if (attend->stream != NULL) {
        ps_stream_close(attend->stream, PS_OK);
        ps_timer_start(attend->options.exec, &attend->stop_timer, STOP_WAIT_MS);
    }
    if (attend->joining) {
        ps_request_cancel(attend->channel, &attend->join);
    }
    ps_attend_stop_if_idle(attend);
}

void ps_attend_destroy(struct ps_attend *attend)
{
    if (attend == NULL) {
        return;
    }
    attend->stopping = true;
    ps_attend_take_waiting(attend); /* Lets them go. */
    if (attend->held != NULL) {
        ps_wire_unpacked_free(&attend->held->base);
    }
    ps_channel_close(attend->channel);
    ps_mem_free(attend);
}
