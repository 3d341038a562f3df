/* server.c — see server.h. */
#include "server.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coord/coord.h"
#include "coord/store.h"
#include "coordinator.pb-c.h"
#include "obs/log.h"
#include "slot/lane.h"
#include "svc/attend.h"
#include "svc/elsewhere.h"
#include "svc/health.h"
#include "svc/reflection.h"
#include "svc/svc_data.h"
#include "svc/table_def.h"

#define STOP_GRACE_MS 500u /* Calls under way may end by themselves for so long. */
#define SETTLE_MS     5u   /* How often a stopping server looks whether they have. */
#define STOP_CUT_MS   20u  /* For what arrived in the last moment; then it is cut. */

#define METHODS_MAX \
    (PS_SVC_DATA_METHODS + PS_COORD_METHODS + PS_HEALTH_METHODS + PS_REFLECTION_METHODS)

/* What health knows by name; the coordinator only where it lives. */
enum served {
    SERVED_ALL,
    SERVED_DATA,
    SERVED_COORD,
    SERVED_COUNT
};
static const char *const served_names[SERVED_COUNT] = {
    [SERVED_ALL] = "",
    [SERVED_DATA] = "ps.v1.ParameterServer",
    [SERVED_COORD] = "ps.v1.Coordinator",
};

struct lane_stop {
    struct ps_mail mail;
    struct ps_server *server;
};

struct ps_server {
    struct ps_server_options options;
    struct ps_catalogue catalogue;
    struct ps_lane *lanes[PS_LANES_MAX];
    struct ps_svc_data svc;
    struct ps_method methods[METHODS_MAX];
    struct ps_health *health;
    struct ps_reflection reflection;
    struct ps_listener *listener;
    struct ps_svc_elsewhere elsewhere;          /* When it does not coordinate. */
    char coordinator[PS_ADDRESS_BYTES_MAX + 1]; /* For the same. */
    char address[PS_ADDRESS_BYTES_MAX + 1];     /* What others dial. */
    struct ps_store *store;                     /* Coordinator only, as the next. */
    struct ps_coord *coord;
    struct ps_attend *attend;
    struct ps_timer settle; /* Stopping: looks whether the rest is idle. */
    struct lane_stop stops[PS_LANES_MAX];
    uint32_t n_lanes_stopped;
    bool listener_stopped;
    uint32_t n_waits; /* Looks before the listener was stopped. */
    void (*stop_done)(void *arg);
    void *stop_arg;
};

static enum ps_status make_lanes(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    for (uint32_t i = 0; i < options->n_lanes; i++) {
        struct ps_lane_options lane = {
            .exec = options->lanes[i],
            .mem = options->mem,
            .metrics = options->metrics,
            .committer = &ps_commit_at_once,
            .catalogue = &server->catalogue,
            .index_seed = options->index_seed,
            .index = i,
            .n_lanes = options->n_lanes,
            .plant_gate = options->plant == PS_PLANT_GATE_OFF_BY_ONE,
            .plant_dedupe = options->plant == PS_PLANT_DEDUPE_OFF,
        };
        enum ps_status status = ps_lane_create(&lane, &server->lanes[i], err);
        if (status != PS_OK) {
            return status;
        }
        server->svc.lanes[i] = server->lanes[i];
    }
    server->svc.ledger = ps_ledger_create(options->mem, &options->limits);
    if (server->svc.ledger == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the ledger of calls");
    }
    server->svc.mem = options->mem;
    server->svc.metrics = options->metrics;
    server->svc.exec = options->exec;
    server->svc.catalogue = &server->catalogue;
    server->svc.n_lanes = options->n_lanes;
    return PS_OK;
}

static enum ps_status make_coord(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    server->store = options->store_path != NULL
                        ? ps_store_file_create(options->mem, options->disk, options->store_path)
                        : ps_store_memory_create(options->mem);
    if (server->store == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the coordinator's store");
    }
    struct ps_coord_options coord = {
        .exec = options->exec,
        .mem = options->mem,
        .metrics = options->metrics,
        .store = server->store,
        .new_cluster_id = options->new_cluster_id,
        .new_key_seed = options->new_key_seed,
        .n_servers = options->n_servers,
        .grace_ms = options->grace_ms,
        .silence_ms = options->silence_ms,
        .check_table = ps_table_def_check,
        .plant = options->plant == PS_PLANT_DEAD_IN_MINIMUM ? PS_COORD_PLANT_DEAD_IN_MINIMUM
                                                            : PS_COORD_PLANT_NONE,
    };
    return ps_coord_create(&coord, &server->coord, err);
}

static enum ps_status make_health(struct ps_server *server, struct ps_error *err)
{
    struct ps_health_options options = {
        .exec = server->options.exec,
        .mem = server->options.mem,
        .services = served_names,
        .n_services = server->coord != NULL ? SERVED_COUNT : SERVED_COORD,
    };
    enum ps_status status = ps_health_create(&options, &server->health, err);
    if (status == PS_OK && server->coord != NULL) { /* It lets members in from the start. */
        ps_health_set(server->health, SERVED_COORD, true);
    }
    return status;
}

static enum ps_status open_listener(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    uint32_t n_methods = PS_SVC_DATA_METHODS;
    ps_svc_data_methods(&server->svc, server->methods);
    if (server->coord != NULL) {
        ps_coord_methods(server->coord, server->methods + n_methods);
        n_methods += PS_COORD_METHODS;
    }
    ps_health_methods(server->health, server->methods + n_methods);
    n_methods += PS_HEALTH_METHODS;
    ps_reflection_methods(&server->reflection, server->methods + n_methods);
    n_methods += PS_REFLECTION_METHODS;
    server->reflection.mem = options->mem;
    server->reflection.methods = server->methods;
    server->reflection.n_methods = n_methods; /* What follows is answered, but not served here. */
    if (server->coord == NULL) {
        memcpy(server->coordinator, options->coordinator, strlen(options->coordinator) + 1);
        server->elsewhere.coordinator = server->coordinator;
        ps_svc_elsewhere_methods(&server->elsewhere, server->methods + n_methods);
        n_methods += PS_SVC_ELSEWHERE_METHODS;
    }
    PS_ASSERT(n_methods <= METHODS_MAX);
    return ps_listener_open(options->transport,
                            &(struct ps_service){.address = options->listen,
                                                 .creds = options->creds,
                                                 .methods = server->methods,
                                                 .n_methods = n_methods},
                            &server->listener, err);
}

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

/* What others dial: as advertised, where port 0 is the port that is served. */
static enum ps_status find_address(struct ps_server *server, struct ps_error *err)
{
    const char *served = ps_listener_address(server->listener);
    const char *advertise = server->options.advertise;
    const char *text = advertise != NULL ? advertise : served;
    size_t n_host = strlen(text);
    const char *port = "";
    if (n_host > 2 && strcmp(text + n_host - 2, ":0") == 0 && strrchr(served, ':') != NULL) {
        n_host -= 2;
        port = strrchr(served, ':');
    }
    int n = snprintf(server->address, sizeof(server->address), "%.*s%s", (int)n_host, text, port);
    return (size_t)n < sizeof(server->address)
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "the advertised address is too long");
}

static void attend_changed(void *arg)
{
    struct ps_server *server = arg;
    tell_health(server);
    if (server->options.changed != NULL) {
        server->options.changed(server->options.arg);
    }
}

static enum ps_status start_attending(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    struct ps_attend_options attend = {
        .transport = options->transport,
        .exec = options->exec,
        .mem = options->mem,
        .metrics = options->metrics,
        .creds = options->creds,
        .coordinator = options->coordinator != NULL ? options->coordinator
                                                    : ps_listener_address(server->listener),
        .address = server->address,
        .name = options->name,
        .session = options->session,
        .cluster_id = options->cluster_id,
        .give_up_ms = options->give_up_ms,
        .seed = options->seed,
        .catalogue = &server->catalogue,
        .lanes = server->lanes,
        .n_lanes = options->n_lanes,
        .svc = &server->svc,
        .changed = attend_changed,
        .arg = server,
    };
    return ps_attend_create(&attend, &server->attend, err);
}

/* What can be wrong with the words, found before anybody can call: later there is no way back. */
static enum ps_status check_words(const struct ps_server_options *options, struct ps_error *err)
{
    const struct {
        const char *what, *text;
        size_t n_bytes_max;
    } words[] = {
        {"coordinator's address", options->coordinator, PS_ADDRESS_BYTES_MAX},
        {"advertised address", options->advertise, PS_ADDRESS_BYTES_MAX},
        {"name", options->name, PS_NAME_BYTES_MAX},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(words); i++) {
        size_t n_bytes = words[i].text == NULL ? 1 : strlen(words[i].text);
        if (n_bytes == 0 || n_bytes > words[i].n_bytes_max) {
            return ps_fail(err, PS_ERR_INVALID, "the %s must have 1 to %zu bytes, got %zu",
                           words[i].what, words[i].n_bytes_max, n_bytes);
        }
    }
    return PS_OK;
}

enum ps_status ps_server_start(const struct ps_server_options *options, struct ps_server **ret,
                               struct ps_error *err)
{
    PS_ASSERT(options->n_lanes > 0 && options->n_lanes <= PS_LANES_MAX);
    enum ps_status status = check_words(options, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_server *server = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*server));
    if (server == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a server");
    }
    server->options = *options;
    status = make_lanes(server, err);
    if (status == PS_OK && options->coordinator == NULL) {
        status = make_coord(server, err);
    }
    if (status == PS_OK) {
        status = make_health(server, err);
    }
    if (status == PS_OK) {
        status = open_listener(server, err);
    }
    if (status == PS_OK) {
        status = find_address(server, err);
    }
    if (status == PS_OK) {
        status = start_attending(server, err);
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

/* ---- Stopping: health, attending, then lanes and coordinator, then the listener ------------- */

/*
 * Calls under way and the coordinator's streams end through the executor, and listener_stop blocks
 * it: so they get their time first, and the listener is stopped when all is quiet or the time is
 * up. Then what it cut off has to come home.
 */
static void run_settle(struct ps_timer *timer)
{
    struct ps_server *server = PS_CONTAINER_OF(timer, struct ps_server, settle);
    bool idle = atomic_load_explicit(&server->svc.n_open, memory_order_acquire) == 0 &&
                (server->coord == NULL || ps_coord_idle(server->coord)) &&
                ps_health_idle(server->health);
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

static void run_lane_stopped(struct ps_mail *mail)
{
    struct lane_stop *stop = PS_CONTAINER_OF(mail, struct lane_stop, mail);
    struct ps_server *server = stop->server;
    server->n_lanes_stopped++;
    if (server->n_lanes_stopped == server->options.n_lanes) {
        if (server->coord != NULL) {
            ps_coord_stop(server->coord);
        }
        ps_timer_init(&server->settle, run_settle);
        ps_timer_start(server->options.exec, &server->settle, 0);
    }
}

static void attend_stopped(void *arg)
{
    struct ps_server *server = arg;
    for (uint32_t i = 0; i < server->options.n_lanes; i++) {
        server->stops[i].server = server;
        server->stops[i].mail.run = run_lane_stopped;
        ps_lane_post_stop(server->lanes[i], &server->stops[i].mail, server->options.exec);
    }
}

void ps_server_stop(struct ps_server *server, void (*done)(void *arg), void *arg)
{
    PS_ASSERT(server->stop_done == NULL);
    server->stop_done = done;
    server->stop_arg = arg;
    ps_health_drain(server->health);
    ps_attend_stop(server->attend, attend_stopped, server);
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
    ps_store_destroy(server->store);
    ps_health_destroy(server->health);
    for (uint32_t i = 0; i < server->options.n_lanes; i++) {
        ps_lane_destroy(server->lanes[i]);
    }
    ps_ledger_unref(server->svc.ledger);
    ps_mem_free(server);
}
