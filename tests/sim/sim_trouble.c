/*
 * sim_trouble.c — the mishaps of a plan: when they are due, whom they strike, how they end.
 */
#include "sim/sim_trouble.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define QUIET_NS (60 * SIM_S)
#define LOOK_NS  (5 * SIM_MS)

/* ---- Trouble ------------------------------------------------------------------------------- */

/* One worker at least lives on; one that has gone by itself does not count. */
static uint32_t n_alive(const struct sim *sim)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < sim->n_workers; i++) {
        n += !sim->workers[i].node->crashed && !sim->workers[i].gone;
    }
    return n;
}

/* The first mishap, which must be met, has come and gone. */
bool sim_first_over(const struct sim *sim)
{
    if (sim->plan.durable) { /* Some server must have died. */
        uint32_t n = 0;
        for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
            n += sim->servers[i].n_crashes;
        }
        return n > 0;
    }
    const struct sim_trouble *first = &sim->troubles[0];
    return first->armed && !sim_event_pending(&first->begin) && !sim_event_pending(&first->end);
}

/* One who is left alone before the first mishap is over never has to wait for anybody. */
static bool may_crash(const struct sim *sim, const struct sim_trouble *trouble)
{
    bool free = trouble == &sim->troubles[0] || sim_first_over(sim);
    return n_alive(sim) > (free ? 1 : 2);
}

bool sim_may_leave(void *arg, uint32_t index PS_UNUSED)
{
    return n_alive(arg) > 1;
}

/* A server whose stream has just broken must be able to come back in time: that is no fault that
 * this stage survives. */
static void pause_server(struct sim *sim, struct sim_trouble *trouble)
{
    struct sim_node *node = trouble->node;
    if (!sim->plan.durable && sim->world->now_ns - sim_net_steady_break_ns(sim->net) < 2 * SIM_S) {
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
    if (trouble != &sim->troubles[0] || sim->plan.lost || sim->plan.durable) {
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

/* ---- Kinds --------------------------------------------------------------------------------- */

static void cut_both(struct sim *sim, const struct sim_node *a, const struct sim_node *b, bool cut)
{
    sim_net_cut(sim->net, a, b, cut);
    sim_net_cut(sim->net, b, a, cut);
}

/* No message to or from it; what was under way waits. */
static void clog_node(struct sim *sim, const struct sim_node *node, bool cut)
{
    for (uint32_t i = 0; i < sim->world->n_nodes; i++) {
        if (sim->world->nodes[i] != node) {
            cut_both(sim, node, sim->world->nodes[i], cut);
        }
    }
}

static void crash_worker(struct sim *sim, struct sim_trouble *trouble)
{
    struct sim_worker *worker = trouble->struck;
    bool back = trouble->mishap->kind == SIM_WORKER_RESTARTS;
    if ((!back && !may_crash(sim, trouble)) || sim->n_workers == SIM_WORKERS_ALL) {
        return;
    }
    sim->n_expired += worker->view.session_number != 0 && !worker->closing && !worker->gone;
    sim_net_crash(sim->net, worker->node, trouble->mishap->back);
    if (back) {
        sim->n_restarting++;
        sim_event_start(sim->world, &trouble->end, trouble->mishap->lasts_ns);
    }
}

/* It dies now, or as soon as it comes to a certain place. */
static void crash_server(struct sim *sim, const struct sim_mishap *mishap)
{
    struct sim_server *server = &sim->servers[mishap->server];
    sim->ledger->damaged = sim->ledger->damaged || sim->plan.damage;
    server->power = mishap->power;
    server->down_ns = mishap->lasts_ns;
    if (mishap->kind == SIM_SERVER_AT_FAILPOINT) {
        server->failpoint = sim_failpoints[mishap->failpoint];
        server->failpoint_at = mishap->nth;
    } else if (mishap->kind == SIM_SERVER_IN_DISK) {
        server->options.disk->faults.crash_in = mishap->nth;
    } else {
        sim_server_crash(server, mishap->power, mishap->back, mishap->lasts_ns);
    }
}

static void begin_disk(struct sim *sim, struct sim_trouble *trouble)
{
    const struct sim_mishap *mishap = trouble->mishap;
    struct sim_disk *disk = sim->servers[mishap->server].options.disk;
    uint64_t lasts_ns = mishap->lasts_ns;
    if (mishap->kind == SIM_DISK_FULL) {
        disk->faults.n_bytes_room = sim_disk_used(disk) + mishap->nth * UINT64_C(8192);
    } else if (mishap->kind == SIM_DISK_FAILS) {
        disk->faults.write_fails_pm = 20 * mishap->nth;
        /* What was written and not synced may be gone after that: too much for level `log`. */
        bool sync = sim->plan.durability == PS_DURABILITY_FSYNC;
        disk->faults.sync_fails_pm = sync ? 20 * mishap->nth : 0;
        lasts_ns = lasts_ns < SIM_S ? lasts_ns : SIM_S;
    } else if (mishap->back) {
        disk->faults.astray_pm = 30 * mishap->nth;
    }
    sim_event_start(sim->world, &trouble->end, lasts_ns);
}

static void end_disk(struct sim *sim, const struct sim_mishap *mishap)
{
    struct sim_server *server = &sim->servers[mishap->server];
    struct sim_disk *disk = server->options.disk;
    char prefix[32];
    uint64_t crash_in = disk->faults.crash_in;
    disk->faults = (struct sim_disk_faults){.crash_in = crash_in};
    if (mishap->kind != SIM_DISK_ROTS) {
        return;
    }
    sim->ledger->damaged = true;
    sim_server_crash(server, true, true, mishap->nth * 100 * SIM_MS);
    (void)snprintf(prefix, sizeof(prefix), "data/server-%u/", mishap->server);
    if (!mishap->back) {
        (void)sim_disk_rot(disk, prefix);
    }
}

static void pause_worker(struct sim *sim, struct sim_trouble *trouble)
{
    trouble->lease = trouble->struck->lease.id;
    trouble->began_ns = sim->world->now_ns;
    sim_node_pause(trouble->struck->node);
}

static void cut_link(struct sim *sim, const struct sim_trouble *trouble)
{
    const struct sim_node *worker = trouble->struck->node;
    bool back = trouble->mishap->back;
    if (trouble->mishap->kind == SIM_LINK_CUT_BOTH) {
        cut_both(sim, worker, trouble->node, true);
    } else {
        sim_net_cut(sim->net, back ? trouble->node : worker, back ? worker : trouble->node, true);
    }
}

static void reset_servers(struct sim *sim, const struct sim_trouble *trouble)
{
    struct sim_node *coordinator = sim_server_node(&sim->servers[0]);
    if (!trouble->node->paused && !coordinator->paused && trouble->mishap->server != 0) {
        sim_net_reset(sim->net, trouble->node, coordinator);
    }
}

static void begin_trouble(struct sim_event *event)
{
    struct sim_trouble *trouble = PS_CONTAINER_OF(event, struct sim_trouble, begin);
    struct sim *sim = trouble->sim;
    const struct sim_mishap *mishap = trouble->mishap;
    if (sim->healed || !find_victim(sim, trouble)) {
        return;
    }
    trouble->struck = &sim->workers[sim->present[trouble->worker]];
    trouble->node = sim_server_node(&sim->servers[mishap->server]);
    bool servers = mishap->kind > SIM_SERVER_DIES && mishap->kind != SIM_WORKER_RESTARTS;
    if (!servers && trouble->struck->node->paused) { /* Or crashed: one thing at a time. */
        return;
    }
    bool lasts = false; /* And ends when its time is over. */
    switch (mishap->kind) {
    case SIM_WORKER_CRASHES:
    case SIM_WORKER_RESTARTS: crash_worker(sim, trouble); break;
    case SIM_WORKER_PAUSES:
        pause_worker(sim, trouble);
        lasts = true;
        break;
    case SIM_LINK_CUT_BOTH:
    case SIM_LINK_CUT:
        cut_link(sim, trouble);
        lasts = true;
        break;
    case SIM_LINK_RESET: sim_net_reset(sim->net, trouble->struck->node, trouble->node); break;
    case SIM_SERVER_PAUSES: pause_server(sim, trouble); break;
    case SIM_SERVER_DIES:
        sim_node_pause(trouble->node);
        lasts = true;
        break;
    case SIM_SERVERS_RESET: reset_servers(sim, trouble); break;
    case SIM_SERVER_CLOGGED:
        clog_node(sim, trouble->node, true);
        lasts = true;
        break;
    case SIM_SERVER_CRASHES:
    case SIM_SERVER_AT_FAILPOINT:
    case SIM_SERVER_IN_DISK: crash_server(sim, mishap); break;
    case SIM_DISK_FULL:
    case SIM_DISK_FAILS:
    case SIM_DISK_ROTS: begin_disk(sim, trouble); break;
    case SIM_MISHAP_COUNT: break;
    }
    if (lasts) {
        sim_event_start(sim->world, &trouble->end, mishap->lasts_ns);
    }
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
                ack->who != trouble->struck->node->number;
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
    switch (mishap->kind) {
    case SIM_WORKER_PAUSES:
        if (!trouble->struck->node->crashed) {
            sim_node_resume(trouble->struck->node);
        }
        break;
    case SIM_WORKER_RESTARTS: sim_start_worker(sim, trouble->worker, 0); break;
    case SIM_SERVER_PAUSES:
    case SIM_SERVER_DIES:
        if (!trouble->node->crashed) {
            sim_node_resume(trouble->node);
        }
        break;
    case SIM_LINK_CUT:
    case SIM_LINK_CUT_BOTH: cut_both(sim, trouble->struck->node, trouble->node, false); break;
    case SIM_SERVER_CLOGGED: clog_node(sim, trouble->node, false); break;
    case SIM_DISK_FULL:
    case SIM_DISK_FAILS:
    case SIM_DISK_ROTS: end_disk(sim, mishap); break;
    case SIM_WORKER_CRASHES:
    case SIM_LINK_RESET:
    case SIM_SERVERS_RESET:
    case SIM_SERVER_CRASHES:
    case SIM_SERVER_AT_FAILPOINT:
    case SIM_SERVER_IN_DISK:
    case SIM_MISHAP_COUNT: break;
    }
}

/* ---- When ---------------------------------------------------------------------------------- */

/* The network is kind until every server is in: a cluster that never forms shows nothing. */
static void watch_joining(struct sim *sim)
{
    bool all = !sim->formed;
    for (uint32_t i = 0; i < sim->plan.n_servers && all; i++) {
        struct ps_server_view view;
        all = sim_server_view(&sim->servers[i], &view) && view.joined;
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

void sim_heal(struct sim *sim)
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
    for (uint32_t i = 0; i < sim->plan.n_servers; i++) {
        sim->servers[i].options.disk->faults = (struct sim_disk_faults){0};
        sim_server_heal(&sim->servers[i]);
    }
}

void sim_trouble_start(struct sim *sim)
{
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
}
