/* sim.c — see sim.h. */
#include "sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "sim/sim_trouble.h"

#define TROUBLE_NS (200 * SIM_S) /* Longest time before the healing. */
#define QUIET_NS   (60 * SIM_S)  /* After the healing a unit is done, or all have ended, within. */
/* Or so: a coordinator with a damaged store never returns, and who joins waits 3 * 30 s for it. */
#define DAMAGED_NS (160 * SIM_S)
#define STOP_NS    (60 * SIM_S) /* And every part lets itself be stopped within. */
#define LOOK_NS    (5 * SIM_MS)

/* ---- The run ------------------------------------------------------------------------------- */

static bool workers_gone(const struct sim *sim)
{
    bool all = true;
    for (uint32_t i = 0; i < sim->n_workers; i++) {
        all = all && (sim->workers[i].gone || sim->workers[i].node->crashed);
    }
    return all && sim->n_restarting == 0;
}

static bool going_on(const struct sim *sim, uint64_t until_ns)
{
    return sim->world->broken[0] == '\0' && sim->world->now_ns < until_ns;
}

static void step(struct sim *sim)
{
    sim_world_run_until(sim->world, sim->world->now_ns + LOOK_NS);
}

/* Trouble lasts until the plan's time of healing, counted from the first acknowledgement. */
static void run_trouble(struct sim *sim)
{
    uint64_t first_ns = 0;
    bool over = false;
    while (going_on(sim, TROUBLE_NS) && !workers_gone(sim) && !over) {
        step(sim);
        if (first_ns == 0 && sim->ledger->n_acked > 0) {
            first_ns = sim->world->now_ns;
        }
        over = first_ns > 0 && sim->world->now_ns > first_ns + sim->plan.heal_ns &&
               sim_first_over(sim);
    }
}

/* Done, or lost where that must be, or may be. */
static void judge_end(struct sim *sim)
{
    bool done = false;
    bool lost = false;
    for (uint32_t i = 0; i < sim->n_workers; i++) {
        const struct sim_worker *worker = &sim->workers[i];
        sim->n_expired += worker->n_fenced;
        if (!worker->node->crashed) {
            done = done || worker->end == PS_OK;
            lost = lost || worker->end == PS_ERR_LOST;
        }
    }
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        sim->n_parked += sim_server_metric(&sim->servers[i], PS_METRIC_pulls_parked_total);
        sim->n_crashed += sim->servers[i].n_crashes;
    }
    sim->lost = lost;
    if (done && sim->plan.lost && sim->n_crashed == 0 && sim->plan.durable) {
        return; /* Too late for the server to die: another schedule. */
    }
    bool may = sim->plan.lost || sim->plan.damage;
    if (done == lost || (lost && !may) || (done && sim->plan.lost)) {
        sim_break(sim->world, "the workers ended with %s", lost ? "cluster lost" : "no job done");
    }
}

static uint64_t quiet_ns(const struct sim *sim)
{
    return sim->plan.damage ? DAMAGED_NS : QUIET_NS;
}

static void run_quiet(struct sim *sim)
{
    uint64_t until_ns = sim->world->now_ns + quiet_ns(sim);
    uint32_t n_acked = sim->ledger->n_acked;
    while (going_on(sim, until_ns) && !workers_gone(sim)) {
        step(sim);
        if (sim->ledger->n_acked > n_acked) { /* It may be slow, but goes on. */
            n_acked = sim->ledger->n_acked;
            until_ns = sim->world->now_ns + quiet_ns(sim);
        }
    }
    sim->end_ns = sim->world->now_ns;
    if (sim->world->broken[0] != '\0') {
        return;
    }
    if (!workers_gone(sim)) {
        sim_break(sim->world,
                  "nothing acknowledged for %" PRIu64 " s after the healing: %u of %u units",
                  quiet_ns(sim) / SIM_S, sim->ledger->n_acked, sim->ledger->n_units);
    }
    judge_end(sim);
}

static void run_last_look(struct sim *sim)
{
    struct sim_reader_options options = {.net = sim->net,
                                         .ledger = sim->ledger,
                                         .watch = &sim->watch,
                                         .plan = &sim->plan,
                                         .coordinator = SIM_COORDINATOR,
                                         .coordinates = &sim->servers[0],
                                         .last = true};
    sim_reader_start(&sim->last, &options, sim_node_create(sim->world, "last-look"));
    uint64_t until_ns = sim->world->now_ns + quiet_ns(sim);
    while (going_on(sim, until_ns) && !sim->last.gone) {
        step(sim);
    }
    if (sim->world->broken[0] != '\0') {
        return;
    }
    if (sim->last.lost) {
        return; /* All was done, and later a server found its data damaged. */
    }
    if (!sim->last.looked) {
        sim_break(sim->world, "the last look was never answered");
        return;
    }
    sim_ledger_close(sim->ledger, sim->last.values);
}

static bool knows_lost(const struct sim_server *server)
{
    struct ps_server_view view;
    bool member = sim_server_view(server, &view) && view.joined; /* Else it waits to become one. */
    return !member || view.lost.status != PS_OK;
}

static void check_servers_lost(struct sim *sim)
{
    uint64_t until_ns = sim->world->now_ns + QUIET_NS;
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        const struct sim_server *server = &sim->servers[i];
        while (going_on(sim, until_ns) && !knows_lost(server)) {
            step(sim);
        }
        if (!knows_lost(server)) {
            sim_break(sim->world, "%s does not know that the cluster is lost",
                      sim_server_node(server)->name);
        }
    }
}

/* ---- Tearing down -------------------------------------------------------------------------- */

static bool clients_gone(const struct sim *sim)
{
    bool all = !sim->plan.reader || sim->reader.gone;
    for (uint32_t i = 0; i < sim->n_workers; i++) {
        all = all && sim->workers[i].gone;
    }
    return all;
}

static void stop_clients(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_workers; i++) {
        if (sim->workers[i].node->crashed) {
            sim_net_bury(sim->net, sim->workers[i].node);
        }
        sim_worker_stop(&sim->workers[i]);
    }
    if (sim->plan.reader) {
        sim_reader_stop(&sim->reader);
    }
    uint64_t until_ns = sim->world->now_ns + STOP_NS;
    while (going_on(sim, until_ns) && !clients_gone(sim)) {
        step(sim);
    }
    for (uint32_t i = 0; i < sim->n_workers; i++) {
        if (!sim->workers[i].gone) {
            sim_break(sim->world, "%s does not let itself be closed", sim->workers[i].node->name);
        }
    }
    if (!clients_gone(sim)) {
        sim_break(sim->world, "the reader does not let itself be closed");
    }
}

static void stop_servers(struct sim *sim)
{
    bool all = false;
    for (uint32_t i = sim->plan.n_servers; i > 0; i--) { /* The coordinator last to begin. */
        sim_server_stop(&sim->servers[i - 1]);
    }
    uint64_t until_ns = sim->world->now_ns + STOP_NS;
    while (going_on(sim, until_ns) && !all) {
        step(sim);
        all = true;
        for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
            all = all && sim_server_stopped(&sim->servers[i]);
        }
    }
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        if (!sim_server_stopped(&sim->servers[i])) {
            sim_break(sim->world, "server %u does not let itself be stopped", i);
        }
    }
}

static void tear_down(struct sim *sim)
{
    stop_clients(sim);
    if (sim->world->broken[0] == '\0') {
        stop_servers(sim);
    }
    if (sim->world->broken[0] != '\0') {
        return;
    }
    for (uint32_t i = 0; i < sim->n_workers; i++) {
        (void)sim_worker_finish(&sim->workers[i]);
    }
    if (sim->plan.reader) {
        (void)sim_reader_finish(&sim->reader);
    }
    if (!sim->lost) {
        (void)sim_reader_finish(&sim->last);
    }
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        sim_server_finish(&sim->servers[i]);
    }
    if (sim->world->broken[0] == '\0' && sim_net_destroy(sim->net)) {
        sim->net = NULL;
    }
}

/* A seed in which nothing happened proves nothing. */
static const char *missed(const struct sim *sim)
{
    bool bounded = sim->plan.consistency.mode != PS_CONSISTENCY_ASP;
    if (sim->lost) {
        return NULL; /* It met the end of a server. */
    }
    if (sim->plan.durable) {
        return sim->n_crashed == 0 ? "no server crashed" : NULL;
    }
    if (bounded && sim->n_parked == 0) {
        return "no pull was parked";
    }
    if (sim_net_counts(sim->net)->n_lost == 0) {
        return "no message was lost";
    }
    return sim->n_expired == 0 ? "no session expired" : NULL;
}

void sim_run(struct sim *sim)
{
    run_trouble(sim);
    sim_heal(sim);
    run_quiet(sim);
    if (sim->world->broken[0] == '\0') {
        if (sim->lost) {
            check_servers_lost(sim);
        } else {
            run_last_look(sim);
        }
    }
    sim_ledger_check_clocks(sim->ledger);
    if (sim->world->broken[0] == '\0') {
        sim->missed = missed(sim);
        tear_down(sim);
    }
}

/* ---- Begin and end ------------------------------------------------------------------------- */

void sim_start_worker(struct sim *sim, uint32_t index, uint64_t start_ns)
{
    PS_ASSERT(sim->n_workers < SIM_WORKERS_ALL);
    char name[24];
    uint32_t number = sim->n_workers++;
    if (number < sim->plan.n_workers) {
        (void)snprintf(name, sizeof(name), "worker-%u", index);
    } else {
        (void)snprintf(name, sizeof(name), "worker-%u.%u", index, number);
        sim->n_restarting--;
    }
    struct sim_worker_options options = {
        .net = sim->net,
        .ledger = sim->ledger,
        .watch = &sim->watch,
        .plan = &sim->plan,
        .coordinator = SIM_COORDINATOR,
        .index = index,
        .start_ns = start_ns,
        .may_leave = sim_may_leave,
        .arg = sim,
    };
    sim->present[index] = number;
    sim_worker_start(&sim->workers[number], &options, sim_node_create(sim->world, name));
}

static void start_clients(struct sim *sim)
{
    struct sim_world *world = sim->world;
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
        sim_start_worker(sim, i, sim_below(world, 400) * SIM_MS);
    }
    if (sim->plan.reader) {
        struct sim_reader_options options = {
            .net = sim->net,
            .ledger = sim->ledger,
            .watch = &sim->watch,
            .plan = &sim->plan,
            .coordinator = SIM_COORDINATOR,
            .coordinates = &sim->servers[0],
            .start_ns = sim_below(world, 1000) * SIM_MS,
        };
        sim_reader_start(&sim->reader, &options, sim_node_create(world, "reader"));
    }
}

/* ---- Where processes die by themselves ------------------------------------------------------ */

static struct sim_server *server_on(struct sim *sim, const struct sim_node *node)
{
    for (uint32_t i = 0; i < sim->plan.n_servers && node != NULL; i++) {
        struct sim_server *server = &sim->servers[i];
        if (server->life != NULL && server->life->node == node) {
            return server;
        }
    }
    return NULL;
}

static void die_in_disk(void *arg, struct sim_node *node)
{
    struct sim_server *server = server_on(arg, node);
    if (server != NULL) {
        sim_server_crash(server, server->power, true, server->down_ns);
    }
}

#ifdef PS_PLANT
static void met_failpoint(void *arg, const char *name)
{
    struct sim *sim = arg;
    struct sim_server *server = server_on(sim, sim->world->at);
    if (server != NULL) {
        sim_server_failpoint(server, name);
    }
}
#endif

static void listen_to_failpoints(struct sim *sim)
{
#ifdef PS_PLANT
    sim->hook = (struct ps_failpoint_hook){.met = met_failpoint, .arg = sim};
    ps_failpoint_hook(&sim->hook);
#else
    (void)sim;
#endif
}

static void start_servers(struct sim *sim)
{
    bool shared = sim->plan.shared_snapshots;
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        sim_disk_init(&sim->disks[i], sim->world);
        sim->disks[i].crash = die_in_disk;
        sim->disks[i].arg = sim;
    }
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        sim_server_init(&sim->servers[i],
                        &(struct sim_server_options){.world = sim->world,
                                                     .net = sim->net,
                                                     .plan = &sim->plan,
                                                     .disk = &sim->disks[shared ? 0 : i],
                                                     .index = i,
                                                     .plant = sim->options.plant});
        sim_server_start(&sim->servers[i]);
    }
}

struct sim *sim_create(const struct sim_options *options)
{
    struct sim *sim = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*sim));
    PS_ASSERT(sim != NULL);
    sim->options = *options;
    sim_plan_draw(&sim->plan, options->seed);
    sim->world = sim_world_create(ps_mix64(options->seed) + options->attempt);
    sim->world->verbose = options->verbose;
    sim->net = sim_net_create(sim->world);
    sim->ledger = sim_ledger_create(sim->world, &sim->plan);
    sim_watch_start(&sim->watch, sim->world, sim->net, sim->ledger);
    sim->watch.coordinates = &sim->servers[0];
    listen_to_failpoints(sim);
    start_servers(sim);
    start_clients(sim);
    sim_trouble_start(sim);
    return sim;
}

const char *sim_missed(const struct sim *sim)
{
    return sim->missed;
}

const char *sim_broken_promise(const struct sim *sim)
{
    return sim->world->broken[0] != '\0' ? sim->world->broken : NULL;
}

void sim_print(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_workers; i++) {
        const struct sim_worker *worker = &sim->workers[i];
        const struct ps_view *view = &worker->view;
        (void)fprintf(stderr,
                      "%s: life %u session %" PRIu64 " clock %" PRIu64 " lease %" PRIu64
                      " unit %u/%u; told: lease %" PRIu64 " unit %u min clock %" PRIu64
                      " job %d;%s%s%s%s%s%s%s\n",
                      worker->node->name, worker->n_lives, view->session_number, worker->clock,
                      worker->lease.id, worker->unit, worker->n_units, view->lease.id,
                      view->lease.units_done, view->min_clock, (int)view->job,
                      worker->node->crashed ? " crashed" : "", worker->gone ? " gone" : "",
                      worker->pulling ? " pulling" : "", worker->thinking ? " thinking" : "",
                      worker->pushing ? " pushing" : "", worker->staged ? " staged" : "",
                      worker->closing ? " closing" : "");
    }
}

void sim_destroy(struct sim *sim)
{
    if (sim == NULL) {
        return;
    }
#ifdef PS_PLANT
    ps_failpoint_hook(NULL);
#endif
    if (sim->world->broken[0] == '\0') {
        sim_world_destroy(sim->world);
        sim_ledger_destroy(sim->ledger);
        for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
            sim_disk_deinit(&sim->disks[i]);
        }
        ps_mem_free(sim);
    }
}
