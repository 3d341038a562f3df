/* server.c — see server.h. */
#include "server.h"

#include "base/assert.h"
#include "coordinator.pb-c.h"
#include "server_impl.h"
#include "snap/keeper.h"

#define STOP_GRACE_MS 500u /* Calls under way may end by themselves for so long. */
#define SETTLE_MS     5u   /* How often a stopping server looks whether they have. */
#define STOP_CUT_MS   20u  /* For what arrived in the last moment; then it is cut. */

/*
 * The server as a whole serves once it has joined, not only when the cluster is complete: where a
 * member is started or named only when the one before it is healthy, none would ever be.
 */
static void tell_health(struct ps_server *server)
{
    struct ps_attend_view view;
    ps_attend_view(server->attend, &view);
    bool over = view.lost.status != PS_OK || view.job == PS__V1__JOB_STATE__CLUSTER_LOST ||
                view.job == PS__V1__JOB_STATE__STOPPED;
    ps_health_set(server->health, SERVED_ALL, view.joined && !over);
    ps_health_set(server->health, SERVED_DATA, view.placed && !over);
    if (server->coord != NULL) {
        ps_health_set(server->health, SERVED_COORD, !over);
    }
}

void server_attend_changed(void *arg)
{
    struct ps_server *server = arg;
    tell_health(server);
    if (server->options.changed != NULL) {
        server->options.changed(server->options.arg);
    }
}

enum ps_status ps_server_start(const struct ps_server_options *options, struct ps_server **ret,
                               struct ps_error *err)
{
    PS_ASSERT(options->n_lanes > 0 && options->n_lanes <= PS_LANES_MAX);
    enum ps_status status = server_check_words(options, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_server *server = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*server));
    if (server == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a server");
    }
    server->options = *options;
    status = server_lasting_open(server, err);
    if (status == PS_OK) {
        status = server_make_lanes(server, err);
    }
    if (status == PS_OK) {
        status = server_recover(server, err);
    }
    if (status == PS_OK && options->coordinator == NULL) {
        status = server_make_coord(server, err);
    }
    if (status == PS_OK) {
        status = server_make_health(server, err);
    }
    if (status == PS_OK) {
        status = server_open_listener(server, err);
    }
    if (status == PS_OK) {
        status = server_start_attending(server, err);
    }
    if (status != PS_OK) {
        if (server->coord != NULL) {
            ps_coord_stop(server->coord);
        }
        if (server->listener != NULL) {
            ps_listener_stop(server->listener, 0);
        }
        ps_server_destroy(server);
        return status;
    }
    *ret = server;
    return PS_OK;
}

const char *ps_server_address(const struct ps_server *server)
{
    return server->address;
}

struct ps_id ps_server_cluster_id(const struct ps_server *server)
{
    static const struct ps_id none;
    return server->coord != NULL ? ps_coord_cluster_id(server->coord) : none;
}

void ps_server_view(const struct ps_server *server, struct ps_server_view *ret)
{
    struct ps_attend_view view;
    ps_attend_view(server->attend, &view);
    *ret = (struct ps_server_view){
        .joined = view.joined, .index = view.index, .job = view.job, .lost = view.lost};
}

/* ---- Stopping: health, attending, lanes, log, coordinator, then the listener ----------------- */

/*
 * Calls under way and the coordinator's streams end through the executor, and listener_stop blocks
 * it: so they get their time first, and the listener is stopped when all is quiet or the time is
 * up. Then what it cut off has to come home.
 */
static void run_settle(struct ps_timer *timer)
{
    struct ps_server *server = PS_CONTAINER_OF(timer, struct ps_server, settle);
    bool idle = atomic_load_explicit(&server->svc.n_open, memory_order_acquire) == 0 &&
                atomic_load_explicit(&server->parts.n_open, memory_order_acquire) == 0 &&
                (server->coord == NULL || ps_coord_idle(server->coord)) &&
                ps_health_idle(server->health) && server_cuts_idle(server);
    if (!server->listener_stopped) {
        server->n_waits++;
        if (idle || server->n_waits > STOP_GRACE_MS / SETTLE_MS) {
            ps_listener_stop(server->listener, STOP_CUT_MS);
            server->listener_stopped = true;
        }
    } else if (idle && ps_reflection_idle(&server->reflection)) { /* Whoever browses is cut off. */
        server->stop_done(server->stop_arg);
        return;
    }
    ps_timer_start(server->options.exec, &server->settle, SETTLE_MS);
}

/* Attending has ended, or the lanes have. */
static void part_stopped(struct ps_server *server)
{
    server->n_parts_stopping--;
    if (server->n_parts_stopping > 0) {
        return;
    }
    if (server->coord != NULL) {
        ps_coord_stop(server->coord);
    }
    ps_timer_init(&server->settle, run_settle);
    ps_timer_start(server->options.exec, &server->settle, 0);
}

static void attend_stopped(void *arg)
{
    part_stopped(arg);
}

static bool all_lanes(struct ps_server *server)
{
    server->n_lanes_stopped++;
    if (server->n_lanes_stopped < server->options.n_lanes) {
        return false;
    }
    server->n_lanes_stopped = 0;
    return true;
}

static void run_lane_ended(struct ps_mail *mail)
{
    struct lane_stop *stop = PS_CONTAINER_OF(mail, struct lane_stop, mail);
    if (all_lanes(stop->server)) {
        part_stopped(stop->server);
    }
}

void server_log_stopped(struct ps_server *server)
{
    for (uint32_t i = 0; i < server->options.n_lanes; i++) {
        server->stops[i].mail.run = run_lane_ended;
        ps_lane_post_end(server->lanes[i], &server->stops[i].mail, server->options.exec);
    }
}

static void run_lane_stopped(struct ps_mail *mail)
{
    struct lane_stop *stop = PS_CONTAINER_OF(mail, struct lane_stop, mail);
    if (all_lanes(stop->server)) {
        server_lasting_stop(stop->server);
    }
}

/*
 * Attending ends when the lanes have let go of its news, which may wait for a log that does not
 * get on: so both end at once.
 */
static void stop_parts(struct ps_server *server)
{
    server->n_parts_stopping = 2;
    ps_attend_stop(server->attend, attend_stopped, server);
    for (uint32_t i = 0; i < server->options.n_lanes; i++) {
        server->stops[i].server = server;
        server->stops[i].mail.run = run_lane_stopped;
        ps_lane_post_stop(server->lanes[i], &server->stops[i].mail, server->options.exec);
    }
}

static void run_last_cut(struct ps_timer *timer)
{
    struct ps_server *server = PS_CONTAINER_OF(timer, struct ps_server, settle);
    if (server_cut_last_over(server)) {
        stop_parts(server);
    } else {
        ps_timer_start(server->options.exec, &server->settle, SETTLE_MS);
    }
}

void ps_server_stop(struct ps_server *server, void (*done)(void *arg), void *arg)
{
    PS_ASSERT(server->stop_done == NULL);
    server->stop_done = done;
    server->stop_arg = arg;
    ps_health_drain(server->health);
    if (server_cut_last(server)) {
        ps_timer_init(&server->settle, run_last_cut);
        ps_timer_start(server->options.exec, &server->settle, SETTLE_MS);
    } else {
        stop_parts(server);
    }
}

void ps_server_destroy(struct ps_server *server)
{
    if (server == NULL) {
        return;
    }
    ps_attend_destroy(server->attend);
    if (server->listener != NULL) {
        ps_listener_close(server->listener);
    }
    ps_coord_destroy(server->coord);
    ps_snap_keeper_destroy(server->keeper);
    ps_store_destroy(server->store);
    ps_health_destroy(server->health);
    /* Before the lanes, whose records it may still have: those that it could not write. */
    ps_wal_destroy(server->lasting.wal);
    server->lasting.wal = NULL;
    for (uint32_t i = 0; i < server->options.n_lanes; i++) {
        ps_lane_destroy(server->lanes[i]);
    }
    ps_svc_part_deinit(&server->parts);
    ps_ledger_unref(server->svc.ledger);
    server_lasting_close(server);
    ps_mem_free(server);
}
