/* sim.c — see sim.h. */
#include "sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define TROUBLE_NS  (200 * SIM_S) /* Longest time before the healing. */
#define QUIET_NS    (60 * SIM_S)  /* After the healing everything ends within. */
#define STOP_NS     (60 * SIM_S)  /* And every part lets itself be stopped within. */
#define LOOK_NS     (5 * SIM_MS)
#define COORDINATOR "coordinator:7070"

static const struct ps_creds insecure = {PS_CREDS_INSECURE};

/* ---- Servers ------------------------------------------------------------------------------- */

static void start_server(struct sim *sim, uint32_t index)
{
    struct sim_server *server = &sim->servers[index];
    struct sim_world *world = sim->world;
    char name[24];
    char address[32];
    (void)snprintf(name, sizeof(name), "server-%u", index);
    (void)snprintf(address, sizeof(address), "server-%u:7070", index);
    server->node = sim_node_create(world, name);
    server->node->steady = true;
    sim_exec_init(&server->main, server->node);
    ps_mem_init(&server->mem);
    struct ps_server_options options = {
        .transport = sim_net_transport(sim->net, server->node),
        .exec = &server->main.base,
        .n_lanes = sim->plan.n_lanes,
        .mem = &server->mem,
        .metrics = &server->metrics,
        .creds = &insecure,
        .listen = index == 0 ? COORDINATOR : address,
        .coordinator = index == 0 ? NULL : COORDINATOR,
        .name = server->node->name,
        .session = sim_id(world),
        .new_cluster_id = sim_id(world),
        .new_key_seed = ps_mix64(sim->plan.seed),
        .index_seed = ps_mix64(sim->plan.seed + index + 1),
        .n_servers = sim->plan.n_servers,
        .disk = sim->plan.store_file ? &sim->disk.base : NULL,
        .store_path = sim->plan.store_file ? "coord/store" : NULL,
        .grace_ms = sim->plan.grace_ms,
        .silence_ms = sim->plan.silence_ms,
        .give_up_ms = 30000,
        .seed = ps_rng_next(&world->rng),
        .plant = sim->options.plant,
    };
    for (uint32_t i = 0; i < sim->plan.n_lanes; i++) {
        sim_exec_init(&server->lanes[i], server->node);
        options.lanes[i] = &server->lanes[i].base;
    }
    struct ps_error err;
    if (ps_server_start(&options, &server->server, &err) != PS_OK) {
        sim_break(world, "%s does not start: %s", name, err.text);
    }
}

static void server_stopped(void *arg)
{
    struct sim_server *server = arg;
    server->stopped = true;
}

static void run_server_stop(struct ps_mail *mail)
{
    struct sim_server *server = PS_CONTAINER_OF(mail, struct sim_server, stop);
    ps_server_stop(server->server, server_stopped, server);
}

static void finish_server(struct sim *sim, struct sim_server *server)
{
    ps_server_destroy(server->server);
    bool empty = sim_exec_stop(&server->main);
    for (uint32_t i = 0; i < sim->plan.n_lanes; i++) {
        empty = sim_exec_stop(&server->lanes[i]) && empty;
    }
    if (!empty) {
        sim_break(sim->world, "%s: mail was left at the end", server->node->name);
    }
    (void)sim_mem_empty(&server->mem, server->node->name, sim->world);
}

/* ---- Trouble ------------------------------------------------------------------------------- */

/* One worker at least lives on; one that has gone by itself does not count. */
static uint32_t n_alive(const struct sim *sim)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
        n += !sim->workers[i].node->crashed && !sim->workers[i].gone;
    }
    return n;
}

static uint64_t n_parked(const struct sim *sim)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        n += ps_metric_get(&sim->servers[i].metrics, PS_METRIC_pulls_parked_total);
    }
    return n;
}

/* The first mishap, which must be met, has come and gone. */
static bool first_over(const struct sim *sim)
{
    const struct sim_trouble *first = &sim->troubles[0];
    return first->armed && !sim_event_pending(&first->begin) && !sim_event_pending(&first->end);
}

/* One who is left alone before the first mishap is over never has to wait for anybody. */
static bool may_crash(const struct sim *sim, const struct sim_trouble *trouble)
{
    bool free = trouble == &sim->troubles[0] || first_over(sim);
    return n_alive(sim) > (free ? 1 : 2);
}

static bool may_leave(void *arg, uint32_t index PS_UNUSED)
{
    return n_alive(arg) > 1;
}

/* A server whose stream has just broken must be able to come back in time: that is no fault that
 * this stage survives. */
static void pause_server(struct sim *sim, struct sim_trouble *trouble)
{
    struct sim_node *node = sim->servers[trouble->mishap->server].node;
    if (sim->world->now_ns - sim_net_steady_break_ns(sim->net) < 2 * SIM_S) {
        sim_event_start(sim->world, &trouble->begin, SIM_S);
        return;
    }
    sim_node_pause(node);
    sim_event_start(sim->world, &trouble->end, trouble->mishap->lasts_ns);
}

static bool works(const struct sim_worker *worker)
{
    return !worker->node->paused && worker->ready && !worker->closing && worker->client != NULL &&
           worker->unit < worker->n_units;
}

/* One who holds a lease, while another does too; `first` if it is one. NULL: there are no two. */
static struct sim_worker *one_of_two(struct sim *sim, uint32_t first)
{
    struct sim_worker *found = NULL;
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
        struct sim_worker *worker = &sim->workers[(first + i) % sim->plan.n_workers];
        if (works(worker) && found != NULL) {
            return found;
        }
        found = found == NULL && works(worker) ? worker : found;
    }
    return NULL;
}

/* The first mishap must strike somebody who holds a lease: that session has to expire. */
static bool find_victim(struct sim *sim, struct sim_trouble *trouble)
{
    if (trouble != &sim->troubles[0] || sim->plan.lost) {
        return true;
    }
    const struct sim_worker *worker = one_of_two(sim, trouble->mishap->worker);
    if (worker == NULL) {
        sim_event_start(sim->world, &trouble->begin, 10 * SIM_MS);
        return false;
    }
    trouble->worker = worker->options.index;
    return true;
}

static void begin_trouble(struct sim_event *event)
{
    struct sim_trouble *trouble = PS_CONTAINER_OF(event, struct sim_trouble, begin);
    struct sim *sim = trouble->sim;
    const struct sim_mishap *mishap = trouble->mishap;
    if (sim->healed || !find_victim(sim, trouble)) {
        return;
    }
    struct sim_worker *worker = &sim->workers[trouble->worker];
    struct sim_node *server = sim->servers[mishap->server].node;
    if (worker->node->paused) { /* Or crashed: one thing at a time. */
        return;
    }
    switch (mishap->kind) {
    case SIM_WORKER_CRASHES:
        if (may_crash(sim, trouble)) {
            sim->n_expired += worker->view.session_number != 0 && !worker->closing && !worker->gone;
            sim_net_crash(sim->net, worker->node, mishap->back);
        }
        return;
    case SIM_WORKER_PAUSES:
        trouble->lease = worker->lease.id;
        trouble->began_ns = sim->world->now_ns;
        sim_node_pause(worker->node);
        break;
    case SIM_SERVER_PAUSES: pause_server(sim, trouble); return;
    case SIM_SERVER_DIES: sim_node_pause(server); break;
    case SIM_LINK_CUT_BOTH:
        sim_net_cut(sim->net, worker->node, server, true);
        sim_net_cut(sim->net, server, worker->node, true);
        break;
    case SIM_LINK_CUT:
        sim_net_cut(sim->net, mishap->back ? server : worker->node,
                    mishap->back ? worker->node : server, true);
        break;
    case SIM_LINK_RESET: sim_net_reset(sim->net, worker->node, server); return;
    case SIM_SERVERS_RESET:
        if (!server->paused && !sim->servers[0].node->paused && mishap->server != 0) {
            sim_net_reset(sim->net, server, sim->servers[0].node);
        }
        return;
    }
    sim_event_start(sim->world, &trouble->end, mishap->lasts_ns);
}

/*
 * The first pause lasts until somebody else has done units of the sleeper's lease: late copies of
 * its calls count as signs of life and may keep its session for longer than its silence.
 */
static bool expired(const struct sim *sim, const struct sim_trouble *trouble)
{
    const struct sim_ledger *ledger = sim->ledger;
    bool slow = sim->world->now_ns > trouble->began_ns + QUIET_NS;
    bool taken = trouble != &sim->troubles[0] || slow;
    for (uint32_t i = 0; i < ledger->n_acks && !taken; i++) {
        const struct sim_ack *ack = &ledger->acks[i];
        taken = ack->at_ns > trouble->began_ns &&
                ack->unit / sim->plan.units_per_lease == trouble->lease - 1 &&
                ack->who != sim->workers[trouble->worker].node->number;
    }
    return taken;
}

static void end_trouble(struct sim_event *event)
{
    struct sim_trouble *trouble = PS_CONTAINER_OF(event, struct sim_trouble, end);
    struct sim *sim = trouble->sim;
    if (!sim->healed && trouble->mishap->kind == SIM_WORKER_PAUSES && !expired(sim, trouble)) {
        sim_event_start(sim->world, event, 50 * SIM_MS);
        return;
    }
    const struct sim_mishap *mishap = trouble->mishap;
    struct sim_node *worker = sim->workers[trouble->worker].node;
    struct sim_node *server = sim->servers[mishap->server].node;
    switch (mishap->kind) {
    case SIM_WORKER_PAUSES:
        if (!worker->crashed) {
            sim_node_resume(worker);
        }
        break;
    case SIM_SERVER_PAUSES:
    case SIM_SERVER_DIES: sim_node_resume(server); break;
    case SIM_LINK_CUT:
    case SIM_LINK_CUT_BOTH:
        sim_net_cut(sim->net, worker, server, false);
        sim_net_cut(sim->net, server, worker, false);
        break;
    case SIM_WORKER_CRASHES:
    case SIM_LINK_RESET:
    case SIM_SERVERS_RESET: break;
    }
}

/* The network is kind until every server is in: a cluster that never forms shows nothing. */
static void watch_joining(struct sim *sim)
{
    bool all = !sim->formed;
    for (uint32_t i = 0; i < sim->plan.n_servers && all; i++) {
        struct ps_server_view view;
        ps_server_view(sim->servers[i].server, &view);
        all = view.joined;
    }
    if (all) {
        sim->formed = true;
        sim_net_set_faults(sim->net, &sim->plan.faults);
    }
}

/* Mishaps wait for progress, so that they strike where something can be lost. */
static void run_tick(struct sim_event *event)
{
    struct sim *sim = PS_CONTAINER_OF(event, struct sim, tick);
    watch_joining(sim);
    for (uint32_t i = 0; i < sim->plan.n_mishaps; i++) {
        struct sim_trouble *trouble = &sim->troubles[i];
        if (!trouble->armed && sim->ledger->n_acked >= trouble->mishap->after_units) {
            trouble->armed = true;
            sim_event_start(sim->world, &trouble->begin, trouble->mishap->after_ns);
        }
    }
    if (!sim->healed) {
        sim_event_start(sim->world, event, LOOK_NS);
    }
}

static void heal(struct sim *sim)
{
    struct sim_faults calm = {.delay_ns = sim->plan.faults.delay_ns};
    sim->healed = true;
    sim_trace(sim->world, NULL, "heal", NULL, 0, 0);
    sim_event_stop(sim->world, &sim->tick);
    sim_net_set_faults(sim->net, &calm);
    for (uint32_t i = 0; i < sim->plan.n_mishaps; i++) {
        struct sim_trouble *trouble = &sim->troubles[i];
        sim_event_stop(sim->world, &trouble->begin);
        if (sim_event_pending(&trouble->end)) {
            sim_event_stop(sim->world, &trouble->end);
            end_trouble(&trouble->end);
        }
    }
}

/* ---- The run ------------------------------------------------------------------------------- */

static bool workers_gone(const struct sim *sim)
{
    bool all = true;
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
        all = all && (sim->workers[i].gone || sim->workers[i].node->crashed);
    }
    return all;
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
        over = first_ns > 0 && sim->world->now_ns > first_ns + sim->plan.heal_ns && first_over(sim);
    }
}

static void run_quiet(struct sim *sim)
{
    uint64_t until_ns = sim->world->now_ns + QUIET_NS;
    while (going_on(sim, until_ns) && !workers_gone(sim)) {
        step(sim);
    }
    sim->end_ns = sim->world->now_ns;
    if (sim->world->broken[0] != '\0') {
        return;
    }
    if (!workers_gone(sim)) {
        sim_break(sim->world, "not finished %" PRIu64 " s after the healing: %u of %u units",
                  QUIET_NS / SIM_S, sim->ledger->n_acked, sim->ledger->n_units);
    }
    sim->n_parked = n_parked(sim);
    bool done = false;
    bool lost = false;
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
        const struct sim_worker *worker = &sim->workers[i];
        sim->n_expired += worker->n_fenced;
        if (!worker->node->crashed) {
            done = done || worker->end == PS_OK;
            lost = lost || worker->end == PS_ERR_LOST;
        }
    }
    if (lost != sim->plan.lost || done == sim->plan.lost) {
        sim_break(sim->world, "the workers ended with %s", lost ? "cluster lost" : "no job done");
    }
}

static void run_last_look(struct sim *sim)
{
    struct sim_reader_options options = {.net = sim->net,
                                         .ledger = sim->ledger,
                                         .plan = &sim->plan,
                                         .coordinator = COORDINATOR,
                                         .last = true};
    sim_reader_start(&sim->last, &options, sim_node_create(sim->world, "last-look"));
    uint64_t until_ns = sim->world->now_ns + QUIET_NS;
    while (going_on(sim, until_ns) && !sim->last.gone) {
        step(sim);
    }
    if (sim->world->broken[0] != '\0') {
        return;
    }
    if (!sim->last.looked) {
        sim_break(sim->world, "the last look was never answered");
        return;
    }
    sim_ledger_close(sim->ledger, sim->last.values);
}

static void check_servers_lost(struct sim *sim)
{
    uint64_t until_ns = sim->world->now_ns + QUIET_NS;
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        struct ps_server_view view = {0};
        ps_server_view(sim->servers[i].server, &view);
        while (going_on(sim, until_ns) && view.lost.status == PS_OK) {
            step(sim);
            ps_server_view(sim->servers[i].server, &view);
        }
        if (view.lost.status == PS_OK) {
            sim_break(sim->world, "%s does not know that the cluster is lost",
                      sim->servers[i].node->name);
        }
    }
}

/* ---- Tearing down -------------------------------------------------------------------------- */

static bool clients_gone(const struct sim *sim)
{
    bool all = !sim->plan.reader || sim->reader.gone;
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
        all = all && sim->workers[i].gone;
    }
    return all;
}

static void stop_clients(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
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
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
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
        struct sim_server *server = &sim->servers[i - 1];
        server->stop.run = run_server_stop;
        ps_exec_post(&server->main.base, &server->stop);
    }
    uint64_t until_ns = sim->world->now_ns + STOP_NS;
    while (going_on(sim, until_ns) && !all) {
        step(sim);
        all = true;
        for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
            all = all && sim->servers[i].stopped;
        }
    }
    if (!all) {
        sim_break(sim->world, "a server does not let itself be stopped");
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
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
        (void)sim_worker_finish(&sim->workers[i]);
    }
    if (sim->plan.reader) {
        (void)sim_reader_finish(&sim->reader);
    }
    if (!sim->plan.lost) {
        (void)sim_reader_finish(&sim->last);
    }
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        finish_server(sim, &sim->servers[i]);
    }
    if (sim->world->broken[0] == '\0' && sim_net_destroy(sim->net)) {
        sim->net = NULL;
    }
}

/* A seed in which nothing happened proves nothing. */
static const char *missed(const struct sim *sim)
{
    bool bounded = sim->plan.consistency.mode != PS_CONSISTENCY_ASP;
    if (sim->plan.lost) {
        return NULL; /* It met the end of a server. */
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
    heal(sim);
    run_quiet(sim);
    if (sim->world->broken[0] == '\0') {
        if (sim->plan.lost) {
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

static void start_clients(struct sim *sim)
{
    struct sim_world *world = sim->world;
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "worker-%u", i);
        struct sim_worker_options options = {
            .net = sim->net,
            .ledger = sim->ledger,
            .plan = &sim->plan,
            .coordinator = COORDINATOR,
            .index = i,
            .start_ns = sim_below(world, 400) * SIM_MS,
            .may_leave = may_leave,
            .arg = sim,
        };
        sim_worker_start(&sim->workers[i], &options, sim_node_create(world, name));
    }
    if (sim->plan.reader) {
        struct sim_reader_options options = {
            .net = sim->net,
            .ledger = sim->ledger,
            .plan = &sim->plan,
            .coordinator = COORDINATOR,
            .start_ns = sim_below(world, 1000) * SIM_MS,
        };
        sim_reader_start(&sim->reader, &options, sim_node_create(world, "reader"));
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
    sim_disk_init(&sim->disk, sim->world);
    sim_watch_start(&sim->watch, sim->world, sim->net);
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        start_server(sim, i);
    }
    start_clients(sim);
    for (uint32_t i = 0; i < sim->plan.n_mishaps; i++) {
        struct sim_trouble *trouble = &sim->troubles[i];
        trouble->sim = sim;
        trouble->mishap = &sim->plan.mishaps[i];
        trouble->worker = trouble->mishap->worker;
        sim_event_init(&trouble->begin, NULL, begin_trouble);
        sim_event_init(&trouble->end, NULL, end_trouble);
    }
    sim_event_init(&sim->tick, NULL, run_tick);
    sim_event_start(sim->world, &sim->tick, LOOK_NS);
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
    for (uint32_t i = 0; i < sim->plan.n_workers; i++) {
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
    if (sim->world->broken[0] == '\0') {
        sim_world_destroy(sim->world);
        sim_ledger_destroy(sim->ledger);
        sim_disk_deinit(&sim->disk);
        ps_mem_free(sim);
    }
}
