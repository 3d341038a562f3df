/* sim_server.c — see sim_server.h. */
#include "sim/sim_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "sim/sim_worker.h"

#define CHECK_NS      (20 * SIM_MS) /* A supervisor looks so often. */
#define SUPERVISE_NS  (300 * SIM_MS)
#define SUPERVISE_MAX 8u

static const struct ps_creds insecure = {PS_CREDS_INSECURE};

/* ---- A life -------------------------------------------------------------------------------- */

static struct sim_life *make_life(struct sim_server *server)
{
    const struct sim_server_options *options = &server->options;
    struct sim_world *world = options->world;
    char name[24];
    PS_ASSERT(server->n_lives < SIM_LIVES_MAX);
    struct sim_life *life = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*life));
    PS_ASSERT(life != NULL);
    if (server->n_lives == 0) {
        (void)snprintf(name, sizeof(name), "server-%u", options->index);
    } else {
        (void)snprintf(name, sizeof(name), "server-%u.%u", options->index, server->n_lives + 1);
    }
    life->server = server;
    life->node = sim_node_create(world, name);
    life->node->steady = options->plan->durability == PS_DURABILITY_MEMORY;
    sim_exec_init(&life->main, life->node);
    sim_exec_init(&life->log, life->node);
    sim_exec_init(&life->snap, life->node);
    life->log.lag_ns = options->plan->log_lag_ns;
    life->snap.lag_ns = options->plan->log_lag_ns;
    for (uint32_t i = 0; i < options->plan->n_lanes; i++) {
        sim_exec_init(&life->lanes[i], life->node);
    }
    ps_mem_init(&life->mem);
    server->lives[server->n_lives++] = life;
    return life;
}

/* Paths and addresses; all of them are copied at the start. */
struct words {
    char address[32];
    char data_dir[32];
    char snapshot_dir[48];
};

static void find_words(const struct sim_server *server, struct words *words)
{
    const struct sim_plan *plan = server->options.plan;
    uint32_t index = server->options.index;
    uint32_t port = 7070 + (plan->moves ? server->n_lives : 0);
    (void)snprintf(words->address, sizeof(words->address), "server-%u:%u", index, port);
    if (index == 0) {
        (void)snprintf(words->address, sizeof(words->address), "%s", SIM_COORDINATOR);
    }
    (void)snprintf(words->data_dir, sizeof(words->data_dir), "data/server-%u", index);
    if (plan->shared_snapshots) {
        (void)snprintf(words->snapshot_dir, sizeof(words->snapshot_dir), "snapshots");
    } else {
        (void)snprintf(words->snapshot_dir, sizeof(words->snapshot_dir), "%s/snapshots",
                       words->data_dir);
    }
}

static uint64_t wall_ms(void)
{
    return UINT64_C(1800000000000); /* Only people read it. */
}

static void fill_durable(const struct sim_server *server, struct sim_life *life,
                         const struct words *words, struct ps_server_options *options)
{
    const struct sim_plan *plan = server->options.plan;
    bool store = plan->store_file && server->options.index == 0;
    if (store || plan->durable) {
        options->disk = sim_disk_attach(server->options.disk, life->node);
        options->data_dir = words->data_dir;
    }
    if (!plan->durable) {
        return;
    }
    options->durability = (enum ps_durability)plan->durability;
    options->wall_ms = wall_ms;
    options->log_exec = &life->log.base;
    options->log_bytes = plan->log_bytes;
    options->log_segment_bytes = plan->log_segment_bytes;
    options->wait_ms = plan->wait_ms;
    options->snapshot_every_ms = plan->snapshot_every_ms;
    options->snapshot_keep = plan->snapshot_keep;
    if (plan->snapshots) {
        options->snap_exec = &life->snap.base;
        options->snapshot_dir = words->snapshot_dir;
    }
}

static void fill_options(struct sim_server *server, struct sim_life *life,
                         const struct words *words, struct ps_server_options *ret)
{
    const struct sim_server_options *options = &server->options;
    const struct sim_plan *plan = options->plan;
    struct sim_world *world = options->world;
    *ret = (struct ps_server_options){
        .transport = sim_net_transport(options->net, life->node),
        .exec = &life->main.base,
        .n_lanes = plan->n_lanes,
        .mem = &life->mem,
        .metrics = &life->metrics,
        .creds = &insecure,
        .listen = words->address,
        .coordinator = options->index == 0 ? NULL : SIM_COORDINATOR,
        .name = server->lives[0]->node->name,
        .session = sim_id(world),
        .new_cluster_id = sim_id(world),
        .new_key_seed = ps_mix64(plan->seed),
        .new_server_id = sim_id(world),
        .index_seed = ps_mix64(plan->seed + options->index + 1),
        .n_servers = plan->n_servers,
        .grace_ms = plan->grace_ms,
        .silence_ms = plan->silence_ms,
        .give_up_ms = 30000,
        .seed = ps_rng_next(&world->rng),
        .plant = options->plant,
    };
    for (uint32_t i = 0; i < plan->n_lanes; i++) {
        ret->lanes[i] = &life->lanes[i].base;
    }
    fill_durable(server, life, words, ret);
}

static void start_again(struct sim_server *server, uint64_t after_ns)
{
    if (after_ns != UINT64_MAX && !server->refuses) {
        sim_event_start(server->options.world, &server->start, after_ns);
    }
}

static void not_started(struct sim_server *server, struct sim_life *life,
                        const struct ps_error *err)
{
    struct sim_world *world = server->options.world;
    bool died = life->node->crashed;
    sim_trace(world, life->node, "does not start", ps_status_text(err->status), 0, 0);
    life->node->crashed = life->node->paused = true;
    life->stopped = true;
    if (died) {
        return; /* On the way; it comes back by itself. */
    }
    server->life = NULL;
    if (err->status == PS_ERR_CORRUPT && server->options.plan->damage) {
        server->refuses = true;
    } else if (err->status == PS_ERR_IO || err->status == PS_ERR_NO_SPACE) {
        server->n_failed++;
        start_again(server, server->n_failed * SUPERVISE_NS);
    } else {
        sim_break(world, "%s does not start: %s", life->node->name, err->text);
    }
}

void sim_server_start(struct sim_server *server)
{
    struct sim_world *world = server->options.world;
    struct sim_life *life = make_life(server);
    struct ps_server_options options;
    struct words words;
    struct ps_error err = {0};
    find_words(server, &words);
    fill_options(server, life, &words, &options);
    sim_trace(world, life->node, "starts", NULL, server->n_lives, 0);
    server->life = life;
    struct sim_node *at = world->at;
    world->at = life->node; /* It may die on the way. */
    enum ps_status status = ps_server_start(&options, &life->ps, &err);
    world->at = at;
    if (status != PS_OK) {
        life->ps = NULL;
        not_started(server, life, &err);
    }
}

static void run_start(struct sim_event *event)
{
    struct sim_server *server = PS_CONTAINER_OF(event, struct sim_server, start);
    if (server->life == NULL) {
        sim_server_start(server);
    }
}

/* A process ends when its disk has failed or the coordinator will not have it; its supervisor
 * starts it again, and waits longer each time. Nobody starts one whose cluster is lost, and at last
 * nobody one whose data are damaged and which ends as soon as it is to load them. */
static void run_check(struct sim_event *event)
{
    struct sim_server *server = PS_CONTAINER_OF(event, struct sim_server, check);
    struct ps_server_view view;
    sim_event_start(server->options.world, event, CHECK_NS);
    if (!sim_server_view(server, &view) || view.lost.status == PS_OK ||
        view.lost.status == PS_ERR_LOST || !server->options.plan->durable) {
        return;
    }
    server->n_failed++;
    server->refuses = server->options.plan->damage && server->n_failed == SUPERVISE_MAX;
    sim_trace(server->options.world, server->life->node, "ends", ps_status_text(view.lost.status),
              server->n_failed, 0);
    sim_server_crash(server, false, true, server->n_failed * SUPERVISE_NS);
}

/* ---- Death --------------------------------------------------------------------------------- */

void sim_server_crash(struct sim_server *server, bool power, bool soon, uint64_t down_ns)
{
    struct sim_life *life = server->life;
    if (life == NULL) {
        return;
    }
    server->life = NULL;
    server->n_crashes++;
    server->failpoint = NULL;
    sim_net_crash(server->options.net, life->node, soon && !power);
    sim_medium_crash(&server->options.disk->medium, life->node, power);
    start_again(server, down_ns);
}

void sim_server_failpoint(struct sim_server *server, const char *name)
{
    if (server->failpoint == NULL || strcmp(server->failpoint, name) != 0) {
        return;
    }
    server->failpoint_at--;
    if (server->failpoint_at == 0) {
        sim_trace(server->options.world, sim_server_node(server), "failpoint", name, 0, 0);
        sim_server_crash(server, server->power, true, server->down_ns);
    }
}

void sim_server_heal(struct sim_server *server)
{
    server->failpoint = NULL;
    if (server->life == NULL && sim_event_pending(&server->start)) {
        sim_event_start(server->options.world, &server->start, 0);
    }
}

/* ---- Looking ------------------------------------------------------------------------------- */

bool sim_server_gone(const struct sim_server *server)
{
    return server->life == NULL && !sim_event_pending(&server->start);
}

struct sim_node *sim_server_node(const struct sim_server *server)
{
    return server->lives[server->n_lives - 1]->node;
}

bool sim_server_view(const struct sim_server *server, struct ps_server_view *ret)
{
    if (server->life == NULL || server->life->ps == NULL) {
        return false;
    }
    ps_server_view(server->life->ps, ret);
    return true;
}

uint64_t sim_server_metric(const struct sim_server *server, enum ps_metric metric)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < server->n_lives; i++) {
        n += ps_metric_get(&server->lives[i]->metrics, metric);
    }
    return n;
}

/* ---- The end ------------------------------------------------------------------------------- */

static void life_stopped(void *arg)
{
    struct sim_life *life = arg;
    life->stopped = true;
}

static void run_stop(struct ps_mail *mail)
{
    struct sim_life *life = PS_CONTAINER_OF(mail, struct sim_life, stop);
    ps_server_stop(life->ps, life_stopped, life);
}

void sim_server_stop(struct sim_server *server)
{
    sim_event_stop(server->options.world, &server->start);
    sim_event_stop(server->options.world, &server->check);
    for (uint32_t i = 0; i < server->n_lives; i++) {
        struct sim_life *life = server->lives[i];
        if (life->node->crashed) {
            sim_net_bury(server->options.net, life->node);
        } else {
            sim_node_resume(life->node);
        }
        if (life->ps != NULL) {
            life->stop.run = run_stop;
            ps_exec_post(&life->main.base, &life->stop);
        }
    }
}

bool sim_server_stopped(const struct sim_server *server)
{
    bool all = true;
    for (uint32_t i = 0; i < server->n_lives; i++) {
        all = all && server->lives[i]->stopped;
    }
    return all;
}

void sim_server_finish(struct sim_server *server)
{
    struct sim_world *world = server->options.world;
    for (uint32_t i = 0; i < server->n_lives; i++) {
        struct sim_life *life = server->lives[i];
        ps_server_destroy(life->ps);
        bool empty = sim_exec_stop(&life->main);
        empty = sim_exec_stop(&life->log) && empty;
        empty = sim_exec_stop(&life->snap) && empty;
        for (uint32_t lane = 0; lane < server->options.plan->n_lanes; lane++) {
            empty = sim_exec_stop(&life->lanes[lane]) && empty;
        }
        if (!empty) {
            sim_break(world, "%s: mail was left at the end", life->node->name);
        }
        if (sim_mem_empty(&life->mem, life->node->name, world) && empty) {
            ps_mem_free(life);
        }
    }
}

void sim_server_init(struct sim_server *server, const struct sim_server_options *options)
{
    *server = (struct sim_server){.options = *options};
    sim_event_init(&server->start, NULL, run_start);
    sim_event_init(&server->check, NULL, run_check);
    sim_event_start(options->world, &server->check, CHECK_NS);
}
