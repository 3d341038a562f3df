/*
 * sim_plan_durable.c — plans in which servers die and come back with what was acknowledged.
 *
 * A third of all seeds stays as it was: memory, nobody comes back. Of the others most must end with
 * the job done; where bytes that were acknowledged are destroyed, the job may also go back to a cut
 * or be lost, but nothing may be wrong; and where a server never comes back it must be lost.
 */
#include "base/attr.h"
#include "base/rng.h"
#include "server.h"
#include "sim/sim_plan.h"

#define SALT UINT64_C(0x64757261626c65) /* Other plans stay what they are. */

const char *const sim_failpoints[] = {
    "log.before_write",     "log.after_write",    "log.before_sync",
    "log.after_sync",       "log.rotate",         "log.before_trim",
    "apply.before",         "apply.mid",          "apply.after",
    "ack.before_send",      "cut.taken",          "snap.after_data",
    "snap.before_manifest", "snap.before_rename", "snap.after_rename",
    "job.before_manifest",  "job.after_manifest", "recover.mid_replay",
    "epoch.before_log",     "epoch.after_log",    "store.before_write",
    "store.after_write",    "restore.mid",        "session.close",
    "gate.before_wait",     "gate.wake",          NULL,
};
#define N_FAILPOINTS (PS_ARRAY_LEN(sim_failpoints) - 1)

static uint64_t between(struct ps_rng *rng, uint64_t least, uint64_t most)
{
    return least + ps_rng_below(rng, most - least + 1);
}

static bool one_in(struct ps_rng *rng, uint64_t n)
{
    return ps_rng_below(rng, n) == 0;
}

/* May this level lose power without losing what it has acknowledged? */
static bool survives_power(const struct sim_plan *plan)
{
    return plan->durability == PS_DURABILITY_FSYNC || plan->damage;
}

/* Units that are acknowledged at least. */
static uint64_t least_units(const struct sim_plan *plan)
{
    uint64_t n_steps = (plan->rows + plan->batch - 1) / plan->batch;
    return plan->parts > 0 ? sim_plan_real_units(plan) : n_steps * plan->epochs;
}

static struct sim_mishap *add(struct sim_plan *plan, struct ps_rng *rng, enum sim_mishap_kind kind)
{
    struct sim_mishap *mishap = &plan->mishaps[plan->n_mishaps++];
    uint64_t n_units = least_units(plan);
    *mishap = (struct sim_mishap){
        .kind = kind,
        .after_units = (uint32_t)between(rng, 0, n_units * 4 / 5),
        .after_ns = ps_rng_below(rng, 200 * SIM_MS),
        .lasts_ns = one_in(rng, 3) ? ps_rng_below(rng, 4 * SIM_S) : ps_rng_below(rng, SIM_S),
        .worker = (uint32_t)ps_rng_below(rng, plan->n_workers),
        .server = (uint32_t)ps_rng_below(rng, plan->n_servers),
        .back = one_in(rng, 2),
        .power = survives_power(plan) && one_in(rng, 2),
        .failpoint = (uint8_t)ps_rng_below(rng, N_FAILPOINTS),
        .nth = (uint32_t)between(rng, 1, 3),
    };
    return mishap;
}

static void draw_crashes(struct sim_plan *plan, struct ps_rng *rng)
{
    uint64_t n_more = ps_rng_below(rng, 5);
    add(plan, rng, SIM_SERVER_CRASHES)->after_units /= 2; /* One at least, in any case. */
    for (uint64_t i = 0; i < n_more; i++) {
        uint64_t how = ps_rng_below(rng, 5);
        if (how < 2) {
            (void)add(plan, rng, SIM_SERVER_AT_FAILPOINT);
        } else if (how < 3) {
            add(plan, rng, SIM_SERVER_IN_DISK)->nth = (uint32_t)between(rng, 1, 60);
        } else {
            (void)add(plan, rng, SIM_SERVER_CRASHES);
        }
    }
}

/* Stop machines one by one, and let them go in another order. */
static void draw_swizzle(struct sim_plan *plan, struct ps_rng *rng)
{
    uint32_t after_units = add(plan, rng, SIM_SERVER_CLOGGED)->after_units;
    for (uint32_t i = 1; i < plan->n_servers; i++) {
        struct sim_mishap *more = add(plan, rng, SIM_SERVER_CLOGGED);
        more->after_units = after_units;
        more->server = i;
    }
}

static void draw_others(struct sim_plan *plan, struct ps_rng *rng)
{
    static const enum sim_mishap_kind kinds[] = {
        SIM_WORKER_CRASHES,  SIM_WORKER_PAUSES, SIM_SERVER_PAUSES,
        SIM_LINK_CUT,        SIM_LINK_CUT_BOTH, SIM_LINK_RESET,
        SIM_WORKER_RESTARTS, SIM_SERVERS_RESET, SIM_SERVER_CLOGGED,
    };
    uint64_t n = ps_rng_below(rng, 6);
    for (uint64_t i = 0; i < n; i++) {
        struct sim_mishap *mishap = add(plan, rng, kinds[ps_rng_below(rng, PS_ARRAY_LEN(kinds))]);
        if (mishap->kind == SIM_WORKER_PAUSES && one_in(rng, 2)) { /* Until it is being closed. */
            mishap->lasts_ns = (plan->silence_ms + ps_rng_below(rng, 600)) * SIM_MS;
        }
    }
    if (one_in(rng, 6)) {
        draw_swizzle(plan, rng);
    }
    if (one_in(rng, 5)) {
        (void)add(plan, rng, SIM_DISK_FULL);
    }
    if (one_in(rng, plan->durability == PS_DURABILITY_FSYNC ? 3 : 6)) {
        (void)add(plan, rng, SIM_DISK_FAILS);
    }
}

/* What outlives a process, and how much of it. */
static void draw_keeping(struct sim_plan *plan, struct ps_rng *rng)
{
    plan->durability = one_in(rng, 2) ? PS_DURABILITY_LOG : PS_DURABILITY_FSYNC;
    plan->damage = one_in(rng, 5);
    plan->snapshots = !one_in(rng, 4);
    if (plan->damage && plan->snapshots && one_in(rng, 2)) {
        plan->durability = PS_DURABILITY_MEMORY; /* Whoever comes back has nothing. */
    }
    plan->shared_snapshots = one_in(rng, 2);
    plan->moves = one_in(rng, 2);
    if (plan->snapshots && !one_in(rng, 3)) {
        plan->snapshot_every_ms = (uint32_t)between(rng, 200, 3000);
    }
    plan->snapshot_keep = (uint32_t)between(rng, 1, 3);
    plan->wait_ms = plan->damage ? 10000 : 60000;
    plan->log_bytes = one_in(rng, 3) ? between(rng, 64, 512) << 10 : UINT64_C(1) << 30;
    plan->log_segment_bytes = one_in(rng, 2) ? between(rng, 64, 256) << 10 : 0;
    plan->log_lag_ns = one_in(rng, 2) ? 0 : between(rng, 10, 5000) * SIM_US;
}

/* In half of the plans in which nothing outlives a process the coordinator's lives on. */
static void spare_coordinator(struct sim_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_mishaps; i++) {
        struct sim_mishap *mishap = &plan->mishaps[i];
        if (mishap->kind == SIM_SERVER_IN_DISK) {
            mishap->kind = SIM_SERVER_CRASHES;
        }
        if (mishap->server == 0) {
            mishap->server = 1;
        }
    }
}

void sim_plan_draw_durable(struct sim_plan *plan)
{
    struct ps_rng rng = ps_rng_from(plan->seed ^ SALT);
    plan->durable = plan->seed % 3 != 0;
    if (!plan->durable) {
        return;
    }
    plan->lost = false;
    plan->n_mishaps = 0;
    draw_keeping(plan, &rng);
    draw_crashes(plan, &rng);
    draw_others(plan, &rng);
    if (plan->damage && plan->durability != PS_DURABILITY_MEMORY) {
        (void)add(plan, &rng, SIM_DISK_ROTS);
    } else if (one_in(&rng, 24)) {
        plan->lost = true;
        plan->wait_ms = (uint32_t)between(&rng, 1000, 8000);
        plan->n_mishaps = 0;
        struct sim_mishap *last = add(plan, &rng, SIM_SERVER_CRASHES);
        last->lasts_ns = UINT64_MAX;
        last->after_units /= 3;
        last->server = 1; /* Not the coordinator: somebody has to notice. */
        last->power = false;
    }
    if (plan->durability == PS_DURABILITY_MEMORY && one_in(&rng, 2)) {
        spare_coordinator(plan);
    }
}
