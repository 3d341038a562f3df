/* sim_plan.c — see sim_plan.h. */
#include "sim/sim_plan.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/rng.h"

#define PLAN_SALT  UINT64_C(0x706c616e)   /* The world draws from the bare seed. */
#define PARTS_SALT UINT64_C(0x7061727473) /* Other seeds stay what they are. */

static uint64_t between(struct ps_rng *rng, uint64_t least, uint64_t most)
{
    return least + ps_rng_below(rng, most - least + 1);
}

static bool one_in(struct ps_rng *rng, uint64_t n)
{
    return ps_rng_below(rng, n) == 0;
}

/* ---- Cluster and job ----------------------------------------------------------------------- */

static void draw_consistency(struct sim_plan *plan, struct ps_rng *rng)
{
    struct ps_consistency *consistency = &plan->consistency;
    uint64_t kind = ps_rng_below(rng, 8);
    *consistency = (struct ps_consistency){.version = 1, .mode = PS_CONSISTENCY_BSP};
    if (kind < 3) {
        consistency->mode = PS_CONSISTENCY_SSP;
        /* Two workers: the one that is left must reach the bound before the other expires. */
        consistency->bound = plan->n_workers > 2 ? (uint32_t)between(rng, 1, 3) : 1;
    } else if (kind < 4) {
        consistency->mode = PS_CONSISTENCY_ASP;
    } else if (kind < 6) {
        consistency->aggregate = true;
        consistency->n_backups = plan->n_workers > 2 ? (uint32_t)ps_rng_below(rng, 2) : 0;
    }
}

static void draw_job(struct sim_plan *plan, struct ps_rng *rng)
{
    bool aggregate = plan->consistency.aggregate;
    /* Enough for every worker to run into the bound after somebody has died. */
    uint64_t least = (uint64_t)plan->n_workers * (plan->consistency.bound + 5);
    uint64_t steps = aggregate ? between(rng, 6, 12) : between(rng, least, least + 14);
    plan->batch = (uint32_t)between(rng, 2, 12);
    plan->rows = steps * plan->batch - ps_rng_below(rng, plan->batch);
    plan->epochs = (uint32_t)between(rng, 1, 2);
    uint64_t share = aggregate ? steps : steps / (UINT64_C(2) * plan->n_workers);
    plan->units_per_lease = (uint32_t)between(rng, 1, share < 6 ? share : 6);
    plan->start_timeout_ms = (uint32_t)between(rng, 500, 2000);
}

static uint32_t part_units(const struct sim_plan *plan, uint32_t part)
{
    return (plan->part_rows[part] + plan->batch - 1) / plan->batch;
}

/* About as many steps as were drawn, in parts of which some are empty and most end within a batch.
 */
static void draw_parts(struct sim_plan *plan)
{
    struct ps_rng rng = ps_rng_from(plan->seed ^ PARTS_SALT);
    if (plan->consistency.aggregate || !one_in(&rng, 3)) {
        return;
    }
    uint64_t n_left = (plan->rows + plan->batch - 1) / plan->batch;
    plan->shuffle = one_in(&rng, 2);
    plan->rows = 0;
    while (n_left > 0 && plan->parts < SIM_PARTS_MAX &&
           (plan->parts + 1) * plan->units_per_lease * plan->epochs <= SIM_UNITS_MAX) {
        uint64_t n_units = one_in(&rng, 4) ? 0 : between(&rng, 1, plan->units_per_lease);
        n_units = n_units < n_left ? n_units : n_left;
        uint64_t n_less = one_in(&rng, 3) ? 0 : ps_rng_below(&rng, plan->batch);
        uint32_t n_rows = n_units == 0 ? 0 : (uint32_t)(n_units * plan->batch - n_less);
        plan->part_rows[plan->parts++] = n_rows;
        plan->rows += n_rows;
        n_left -= n_units;
    }
}

/* Tables lie end to end over the slots: small ones take a slot each, large ones several. */
static void draw_tables(struct sim_plan *plan, struct ps_rng *rng)
{
    uint64_t least = UINT64_C(2) * sim_plan_units(plan);
    plan->n_tables = (uint32_t)between(rng, 7, 12);
    for (uint32_t i = 0; i < plan->n_tables; i++) {
        plan->table_floats[i] = least + ps_rng_below(rng, 64);
    }
    if (one_in(rng, 2)) {
        plan->table_floats[ps_rng_below(rng, plan->n_tables)] = UINT64_C(2) * 4096 + least;
    }
}

static void draw_workers(struct sim_plan *plan, struct ps_rng *rng)
{
    for (uint32_t i = 0; i < plan->n_workers; i++) {
        plan->think_ms[i] = (uint32_t)between(rng, 1, 12);
        bool bulk = plan->consistency.mode == PS_CONSISTENCY_BSP;
        plan->styles[i] = (enum sim_style)ps_rng_below(rng, SIM_STYLE_COUNT);
        if (bulk && plan->styles[i] == SIM_PREFETCH) {
            plan->styles[i] = SIM_PLAIN; /* The next pull waits for everybody's push. */
        }
        if (plan->consistency.aggregate) {
            plan->styles[i] = SIM_PLAIN;
        }
    }
    plan->think_ms[ps_rng_below(rng, plan->n_workers)] += 40; /* The slow one. */
}

/* ---- Trouble ------------------------------------------------------------------------------- */

static void draw_faults(struct sim_plan *plan, struct ps_rng *rng)
{
    struct sim_faults *faults = &plan->faults;
    *faults = (struct sim_faults){
        .delay_ns = between(rng, 50, 1500) * SIM_US,
        .lost_pm = (uint32_t)between(rng, 5, 30),
        .lost_call = between(rng, 20, 50),
        .late_ns = between(rng, 1, 20) * SIM_S,
    };
    if (one_in(rng, 2)) {
        faults->lost_pm = (uint32_t)between(rng, 15, 80);
    }
    if (!one_in(rng, 3)) {
        faults->doubled_pm = (uint32_t)between(rng, 5, 300);
    }
    if (one_in(rng, 2)) {
        faults->reset_pm = (uint32_t)between(rng, 1, 40);
    }
    if (one_in(rng, 2)) {
        faults->held_pm = (uint32_t)between(rng, 1, 30);
    }
    if (one_in(rng, 2)) {
        faults->stream_life_ns = between(rng, 1, 10) * SIM_S;
    }
}

static struct sim_mishap *add_mishap(struct sim_plan *plan, struct ps_rng *rng,
                                     enum sim_mishap_kind kind)
{
    struct sim_mishap *mishap = &plan->mishaps[plan->n_mishaps++];
    uint64_t n_units = sim_plan_real_units(plan);
    *mishap = (struct sim_mishap){
        .kind = kind,
        .after_units = (uint32_t)between(rng, 1, n_units * 2 / 3),
        .after_ns = ps_rng_below(rng, 30 * SIM_MS),
        .worker = (uint32_t)ps_rng_below(rng, plan->n_workers),
        .server = (uint32_t)ps_rng_below(rng, plan->n_servers),
        .back = one_in(rng, 2),
    };
    return mishap;
}

static void draw_mishaps(struct sim_plan *plan, struct ps_rng *rng)
{
    uint64_t silence_ns = plan->silence_ms * SIM_MS;
    /* Somebody's session expires, early enough that the others must wait for it. */
    bool dies = one_in(rng, 2) && plan->n_workers > 2;
    struct sim_mishap *first = add_mishap(plan, rng, dies ? SIM_WORKER_CRASHES : SIM_WORKER_PAUSES);
    first->after_units = (uint32_t)between(rng, 1, 1 + sim_plan_real_units(plan) / 3);
    first->lasts_ns = silence_ns + plan->grace_ms * SIM_MS + between(rng, 2, 5) * SIM_S;
    uint64_t n_more = ps_rng_below(rng, SIM_MISHAPS_OLD - 1);
    for (uint64_t i = 0; i < n_more; i++) {
        enum sim_mishap_kind kind = (enum sim_mishap_kind)ps_rng_below(rng, SIM_SERVER_DIES);
        struct sim_mishap *mishap = add_mishap(plan, rng, kind);
        switch (kind) {
        case SIM_WORKER_PAUSES: /* Of two workers one has to be there when the other expires. */
            mishap->lasts_ns =
                ps_rng_below(rng, plan->n_workers > 2 ? 2 * silence_ns : silence_ns / 2);
            break;
        case SIM_SERVER_PAUSES:
            mishap->lasts_ns = ps_rng_below(rng, plan->grace_ms * SIM_MS / 2);
            break;
        case SIM_LINK_CUT:
        case SIM_LINK_CUT_BOTH: mishap->lasts_ns = ps_rng_below(rng, 4 * SIM_S); break;
        case SIM_WORKER_CRASHES:
        case SIM_LINK_RESET:
        case SIM_SERVERS_RESET:
        case SIM_SERVER_DIES:
        case SIM_SERVER_CRASHES:
        case SIM_SERVER_AT_FAILPOINT:
        case SIM_SERVER_IN_DISK:
        case SIM_WORKER_RESTARTS:
        case SIM_DISK_FULL:
        case SIM_DISK_FAILS:
        case SIM_DISK_ROTS:
        case SIM_SERVER_CLOGGED:
        case SIM_MISHAP_COUNT: break;
        }
    }
    plan->lost = one_in(rng, 40);
    if (plan->lost) {
        plan->n_mishaps = 1;
        plan->mishaps[0].kind = SIM_SERVER_DIES;
        plan->mishaps[0].server = 1; /* Not the coordinator: somebody has to notice. */
        plan->mishaps[0].lasts_ns = 4 * silence_ns + UINT64_C(2) * plan->grace_ms * SIM_MS;
    }
    plan->heal_ns = between(rng, 1, 12) * SIM_S;
}

void sim_plan_draw(struct sim_plan *plan, uint64_t seed)
{
    struct ps_rng rng = ps_rng_from(seed ^ PLAN_SALT);
    *plan = (struct sim_plan){.seed = seed};
    plan->n_servers = (uint32_t)between(&rng, 2, SIM_SERVERS_MAX);
    plan->n_lanes = (uint32_t)between(&rng, 1, 3);
    plan->n_workers = (uint32_t)between(&rng, 2, SIM_WORKERS_MAX);
    plan->grace_ms = (uint32_t)between(&rng, 600, 1500);
    plan->silence_ms = (uint32_t)between(&rng, 2000, 4500);
    plan->reader = one_in(&rng, 2);
    plan->store_file = one_in(&rng, 2);
    draw_consistency(plan, &rng);
    draw_job(plan, &rng);
    draw_parts(plan);
    draw_tables(plan, &rng);
    draw_workers(plan, &rng);
    draw_faults(plan, &rng);
    draw_mishaps(plan, &rng);
    plan->sparse = !plan->consistency.aggregate && !one_in(&rng, 4);
    sim_plan_draw_durable(plan);
}

/* ---- The cut of the data, by the words of proto/ps/v1/coordinator.proto ---------------------- */

static uint32_t steps_per_epoch(const struct sim_plan *plan)
{
    return (uint32_t)((plan->rows + plan->batch - 1) / plan->batch);
}

uint32_t sim_plan_units(const struct sim_plan *plan)
{
    if (plan->parts > 0) {
        return plan->parts * plan->units_per_lease * plan->epochs;
    }
    uint32_t n_ways = plan->consistency.aggregate ? plan->n_workers : 1;
    uint32_t n_runs = (steps_per_epoch(plan) + plan->units_per_lease - 1) / plan->units_per_lease;
    return n_runs * n_ways * plan->units_per_lease * plan->epochs;
}

uint32_t sim_plan_real_units(const struct sim_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t part = 0; part < plan->parts; part++) {
        n += part_units(plan, part) * plan->epochs;
    }
    return plan->parts > 0 ? n : sim_plan_units(plan);
}

uint32_t sim_plan_lease_units(const struct sim_plan *plan, const struct ps_lease *lease)
{
    return plan->parts > 0 ? part_units(plan, lease->part) : lease->n_units;
}

/* The parts lie end to end, so that rows have numbers for the ledger. */
static void part_unit(const struct sim_plan *plan, uint32_t part, uint32_t unit,
                      uint64_t *ret_first, uint32_t *ret_rows)
{
    uint32_t at = unit * plan->batch;
    uint32_t n_left = at < plan->part_rows[part] ? plan->part_rows[part] - at : 0;
    *ret_first = at;
    *ret_rows = n_left < plan->batch ? n_left : plan->batch;
    for (uint32_t i = 0; i < part; i++) {
        *ret_first += plan->part_rows[i];
    }
}

uint32_t sim_plan_unit(const struct sim_plan *plan, const struct ps_lease *lease, uint32_t unit,
                       uint64_t *ret_first, uint32_t *ret_rows)
{
    uint32_t number = (uint32_t)(lease->id - 1) * plan->units_per_lease + unit;
    if (plan->parts > 0) {
        part_unit(plan, lease->part, unit, ret_first, ret_rows);
        return number;
    }
    uint64_t first = lease->first_row + (uint64_t)unit * lease->stride;
    uint64_t end = first + lease->unit_rows;
    uint64_t batch_end = (first / plan->batch + 1) * plan->batch;
    end = end < batch_end ? end : batch_end;
    end = end < plan->rows ? end : plan->rows;
    *ret_first = first;
    *ret_rows = first < end ? (uint32_t)(end - first) : 0;
    return number;
}

static const char *const mishap_names[SIM_MISHAP_COUNT] = {
    [SIM_WORKER_CRASHES] = "worker-crashes", [SIM_WORKER_PAUSES] = "worker-pauses",
    [SIM_SERVER_PAUSES] = "server-pauses",   [SIM_LINK_CUT] = "link-cut",
    [SIM_LINK_CUT_BOTH] = "link-cut-both",   [SIM_LINK_RESET] = "link-reset",
    [SIM_SERVERS_RESET] = "servers-reset",   [SIM_SERVER_DIES] = "server-dies",
    [SIM_SERVER_CRASHES] = "server-crashes", [SIM_SERVER_AT_FAILPOINT] = "failpoint",
    [SIM_SERVER_IN_DISK] = "crash-in-disk",  [SIM_WORKER_RESTARTS] = "worker-restarts",
    [SIM_DISK_FULL] = "disk-full",           [SIM_DISK_FAILS] = "disk-fails",
    [SIM_DISK_ROTS] = "disk-rots",           [SIM_SERVER_CLOGGED] = "server-clogged",
};

void sim_plan_print(const struct sim_plan *plan)
{
    const struct ps_consistency *consistency = &plan->consistency;
    const struct sim_faults *faults = &plan->faults;
    (void)fprintf(
        stderr,
        "seed %" PRIu64 ": %u servers x %u lanes, %u workers, mode %d bound %u%s backups "
        "%u, %" PRIu64 " rows in %u parts / %u x %u epochs, %u units a lease, grace %u silence %u "
        "ms%s\n",
        plan->seed, plan->n_servers, plan->n_lanes, plan->n_workers, (int)consistency->mode,
        consistency->bound, consistency->aggregate ? " aggregate" : "", consistency->n_backups,
        plan->rows, plan->parts, plan->batch, plan->epochs, plan->units_per_lease, plan->grace_ms,
        plan->silence_ms, plan->sparse ? ", sparse" : "");
    (void)fprintf(
        stderr,
        "  delay %" PRIu64 " us, lost %u, doubled %u (late %" PRIu64 " s), reset %u, held "
        "%u per mille, streams live %" PRIu64 " s, heals after %" PRIu64 " s:",
        faults->delay_ns / SIM_US, faults->lost_pm, faults->doubled_pm, faults->late_ns / SIM_S,
        faults->reset_pm, faults->held_pm, faults->stream_life_ns / SIM_S, plan->heal_ns / SIM_S);
    for (uint32_t i = 0; i < plan->n_mishaps; i++) {
        const struct sim_mishap *mishap = &plan->mishaps[i];
        bool there = mishap->kind == SIM_SERVER_AT_FAILPOINT;
        (void)fprintf(stderr, " %s%s%s(w%u s%u %" PRIu64 " ms %u%s)@%u", mishap_names[mishap->kind],
                      there ? ":" : "", there ? sim_failpoints[mishap->failpoint] : "",
                      mishap->worker, mishap->server, mishap->lasts_ns / SIM_MS, mishap->nth,
                      mishap->power ? " power" : "", mishap->after_units);
    }
    if (plan->durable) {
        (void)fprintf(stderr,
                      "\n  durability %u%s%s%s, snapshots %s every %u ms keep %u, waits %u ms, log "
                      "%" PRIu64 " in %" PRIu64 ", lag %" PRIu64 " us",
                      plan->durability, plan->damage ? " damaged" : "", plan->lost ? " lost" : "",
                      plan->moves ? " moves" : "",
                      !plan->snapshots         ? "none"
                      : plan->shared_snapshots ? "shared"
                                               : "own",
                      plan->snapshot_every_ms, plan->snapshot_keep, plan->wait_ms, plan->log_bytes,
                      plan->log_segment_bytes, plan->log_lag_ns / SIM_US);
    }
    (void)fprintf(stderr, "\n");
}
