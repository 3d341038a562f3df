/* sim_ledger.c — see sim_ledger.h. */
#include "sim/sim_ledger.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

/* ---- The places of a unit ------------------------------------------------------------------ */

/* Runs of rows, each with one of every unit; keys go over all 64 bits, both ends included. */
static void add_rows(struct sim_ledger *ledger)
{
    uint32_t n_run = ledger->n_units + SIM_ROWS_NOBODY;
    ledger->rows_first = ledger->n_floats;
    ledger->n_rows = SIM_ROWS_EACH * n_run;
    for (uint32_t i = 0; i < ledger->n_rows; i++) {
        ledger->row_keys[i] = UINT64_MAX / (ledger->n_rows - 1) * i;
    }
    ledger->row_keys[ledger->n_rows - 1] = UINT64_MAX;
    for (uint32_t r = 0; r < SIM_ROWS_EACH; r++) {
        PS_ASSERT(ledger->n_blocks < SIM_BLOCKS_MAX);
        ledger->blocks[ledger->n_blocks++] = (struct sim_block){
            ledger->plan->n_tables, ledger->n_floats, n_run * SIM_ROW_FLOATS, true};
        ledger->n_floats += n_run * SIM_ROW_FLOATS;
    }
}

struct sim_ledger *sim_ledger_create(struct sim_world *world, const struct sim_plan *plan)
{
    struct sim_ledger *ledger = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*ledger));
    PS_ASSERT(ledger != NULL);
    ledger->world = world;
    ledger->plan = plan;
    ledger->n_units = sim_plan_units(plan);
    PS_ASSERT(ledger->n_units <= SIM_UNITS_MAX);
    for (uint32_t table = 0; table < plan->n_tables; table++) {
        ledger->table_first[table] = ledger->n_floats;
        uint32_t n_left = (uint32_t)plan->table_floats[table];
        while (n_left > 0) {
            uint32_t n_floats = n_left < SIM_BLOCK_FLOATS ? n_left : SIM_BLOCK_FLOATS;
            PS_ASSERT(ledger->n_blocks < SIM_BLOCKS_MAX);
            PS_ASSERT(n_floats >= 2 * ledger->n_units);
            ledger->blocks[ledger->n_blocks++] =
                (struct sim_block){table, ledger->n_floats, n_floats, false};
            ledger->n_floats += n_floats;
            n_left -= n_floats;
        }
    }
    if (plan->sparse) {
        add_rows(ledger);
    }
    return ledger;
}

void sim_ledger_destroy(struct sim_ledger *ledger)
{
    ps_mem_free(ledger);
}

static uint32_t front(const struct sim_block *block, uint32_t unit)
{
    return block->first + (block->rows ? SIM_ROW_FLOATS * unit : unit);
}

static uint32_t back(const struct sim_block *block, uint32_t unit)
{
    return block->rows ? block->first + SIM_ROW_FLOATS * unit + 1
                       : block->first + block->n_floats - 1 - unit;
}

void sim_ledger_write(const struct sim_ledger *ledger, uint32_t unit, float gradient, float *values)
{
    PS_ASSERT(unit < ledger->n_units);
    for (uint32_t b = 0; b < ledger->n_blocks; b++) {
        values[front(&ledger->blocks[b], unit)] = gradient;
        values[back(&ledger->blocks[b], unit)] = gradient;
    }
}

uint32_t sim_ledger_rows(const struct sim_ledger *ledger, uint32_t unit, const float *values,
                         uint64_t *keys, float *gradients)
{
    uint32_t n_run = ledger->n_units + SIM_ROWS_NOBODY;
    uint32_t other = (unit + 1) % ledger->n_units;
    uint32_t low = unit < other ? unit : other;
    uint32_t high = unit < other ? other : unit;
    uint32_t n = 0;
    for (uint32_t i = 0; i < 2 * SIM_ROWS_EACH && ledger->n_rows > 0; i++) {
        uint32_t at = i / 2 * n_run + (i % 2 == 0 ? low : high);
        if (i % 2 == 1 && low == high) {
            continue;
        }
        keys[n] = ledger->row_keys[at];
        memcpy(gradients + n * SIM_ROW_FLOATS, values + ledger->rows_first + at * SIM_ROW_FLOATS,
               SIM_ROW_FLOATS * sizeof(float));
        n++;
    }
    return n;
}

/* ---- What is known of a unit --------------------------------------------------------------- */

static bool aggregated(const struct sim_ledger *ledger)
{
    return ledger->plan->consistency.aggregate;
}

void sim_ledger_known(struct sim_ledger *ledger, uint32_t unit, uint32_t epoch, uint64_t first_row,
                      uint32_t n_rows)
{
    struct sim_unit *at = &ledger->units[unit];
    if (at->known && (at->epoch != epoch || at->n_rows != n_rows || at->first_row != first_row)) {
        sim_break(ledger->world, "unit %u was lent with other rows than before", unit);
    }
    at->known = true;
    at->epoch = epoch;
    at->first_row = first_row;
    at->n_rows = n_rows;
}

void sim_ledger_try(struct sim_ledger *ledger, uint32_t unit, uint64_t step)
{
    struct sim_unit *at = &ledger->units[unit];
    bool known = false;
    at->tried = true;
    for (uint32_t i = 0; i < at->n_tries; i++) {
        known = known || at->tries[i] == step;
    }
    if (!known && at->n_tries < SIM_TRIES_MAX) {
        at->tries[at->n_tries++] = step;
    }
}

static bool holds(const struct sim_look *look, uint32_t unit)
{
    return (look->holds[unit / 64] >> (unit % 64) & 1) != 0;
}

static bool empty(const struct sim_ledger *ledger, uint32_t unit)
{
    return ledger->units[unit].known && ledger->units[unit].n_rows == 0;
}

/* The promise of the bound, for one look and one acknowledgement, whichever came first. */
static void check_bound(struct sim_ledger *ledger, const struct sim_look *look,
                        const struct sim_ack *ack)
{
    if (ack->step < look->need && !holds(look, ack->unit) && !empty(ledger, ack->unit) &&
        !ledger->damaged) {
        const struct sim_world *world = ledger->world;
        sim_break(ledger->world,
                  "staleness: the pull of %s for step %" PRIu64 " (need: all steps below %" PRIu64
                  ", answered at %" PRIu64 " us) lacks unit %u, which %s did at step %" PRIu64
                  " (acknowledged at %" PRIu64 " us)",
                  world->nodes[look->who]->name, look->step, look->need, look->ended_ns / SIM_US,
                  ack->unit, world->nodes[ack->who]->name, ack->step, ack->at_ns / SIM_US);
    }
}

void sim_ledger_ack(struct sim_ledger *ledger, uint32_t unit, uint32_t who, uint64_t step)
{
    struct sim_unit *at = &ledger->units[unit];
    PS_ASSERT(ledger->n_acks < SIM_ACKS_MAX);
    struct sim_ack *ack = &ledger->acks[ledger->n_acks++];
    *ack = (struct sim_ack){unit, who, step, ledger->world->now_ns};
    sim_trace(ledger->world, ledger->world->nodes[who], "acknowledged", "unit, step", unit, step);
    if (!at->acked) {
        at->acked = true;
        at->acked_ns = ledger->world->now_ns;
        at->acked_step = step;
        ledger->n_acked++;
    }
    for (uint32_t i = 0; i < ledger->n_looks; i++) {
        check_bound(ledger, &ledger->looks[i], ack);
    }
}

void sim_ledger_lent_done(struct sim_ledger *ledger, uint32_t unit, uint32_t who)
{
    struct sim_unit *at = &ledger->units[unit];
    if (at->acked || empty(ledger, unit)) {
        return;
    }
    if (ledger->n_back == 0 || !at->void_acked) {
        if (!aggregated(ledger)) {
            sim_break(ledger->world,
                      "%s was lent a lease whose unit %u is done, which nobody was told",
                      ledger->world->nodes[who]->name, unit);
        }
        return;
    }
    if (aggregated(ledger) && at->tried) {
        return; /* In which step is found out in the end. */
    }
    at->acked = true; /* The cut has it. */
    at->acked_ns = ledger->world->now_ns;
    ledger->n_acked++;
}

void sim_ledger_back(struct sim_ledger *ledger, uint64_t taken_ns)
{
    ledger->n_back++;
    ledger->damaged = false;
    ledger->n_looks = 0;
    ledger->n_acked = 0;
    for (uint32_t i = 0; i < ledger->n_units; i++) {
        struct sim_unit *at = &ledger->units[i];
        at->void_acked = at->void_acked || at->acked;
        at->acked = at->acked && at->acked_ns < taken_ns;
        at->tried = false;
        at->value = 0.0f;
        memset(at->seen_ns, 0, sizeof(at->seen_ns));
        ledger->n_acked += at->acked;
    }
    uint32_t n_acks = 0;
    for (uint32_t i = 0; i < ledger->n_acks; i++) {
        if (ledger->acks[i].at_ns < taken_ns) {
            ledger->acks[n_acks++] = ledger->acks[i];
        }
    }
    ledger->n_acks = n_acks;
    sim_trace(ledger->world, NULL, "back to the cut", "at, units", taken_ns, ledger->n_acked);
}

/* ---- Judging a pull ------------------------------------------------------------------------ */

struct sim_look sim_ledger_begin(const struct sim_ledger *ledger, uint32_t who, uint64_t step)
{
    return (struct sim_look){.who = who, .step = step, .began_ns = ledger->world->now_ns};
}

static bool value_allowed(const struct sim_ledger *ledger, float value)
{
    return aggregated(ledger) ? value >= 0.0f && value <= SIM_GRADIENT
                              : value == 0.0f || value == 1.0f;
}

/* NaN included: a pull that did not write it. */
static bool same_bits(float a, float b)
{
    union {
        float value;
        uint32_t bits;
    } one = {.value = a}, other = {.value = b};
    return one.bits == other.bits;
}

/* One unit in one block. True when it is there. */
static bool judge_cell(struct sim_ledger *ledger, const struct sim_look *look, uint32_t unit,
                       uint32_t b, const float *values)
{
    struct sim_world *world = ledger->world;
    struct sim_unit *at = &ledger->units[unit];
    const struct sim_block *block = &ledger->blocks[b];
    const char *who = world->nodes[look->who]->name;
    float value = values[front(block, unit)];
    float other = values[back(block, unit)];
    if (!value_allowed(ledger, value)) {
        sim_break(world, "exactly once: %s pulled %g for unit %u in block %u", who, (double)value,
                  unit, b);
        return false;
    }
    if (!same_bits(value, other)) {
        sim_break(world, "half a push: %s pulled %g and %g for unit %u in block %u", who,
                  (double)value, (double)other, unit, b);
        return false;
    }
    if (value == 0.0f) {
        bool seen = at->seen_ns[b] != 0 && at->seen_ns[b] < look->began_ns;
        bool acked = at->acked && at->acked_ns < look->began_ns && at->n_rows > 0;
        if (ledger->damaged) {
            at->seen_ns[b] = 0;
        } else if (seen || acked) {
            sim_break(world, "%s: %s pulled at %" PRIu64 " us without unit %u in block %u, %s",
                      seen ? "back in time" : "lost", who, look->began_ns / SIM_US, unit, b,
                      seen ? "which an earlier pull had" : "which was acknowledged before");
        }
        return false;
    }
    if (at->n_tries == 0) {
        sim_break(world, "%s pulled unit %u, which nobody pushed", who, unit);
    }
    if (at->value != 0.0f && !same_bits(at->value, value)) {
        sim_break(world, "unit %u was %g and is %g in block %u", unit, (double)at->value,
                  (double)value, b);
    }
    at->value = value;
    if (at->seen_ns[b] == 0) {
        at->seen_ns[b] = look->ended_ns;
    }
    return true;
}

/* Elements that belong to no unit stay 0. */
static void judge_rest(struct sim_ledger *ledger, const struct sim_look *look,
                       const struct sim_block *block, const float *values)
{
    uint32_t n_front = block->rows ? SIM_ROW_FLOATS * ledger->n_units : ledger->n_units;
    uint32_t n_back = block->rows ? 0 : ledger->n_units;
    for (uint32_t i = n_front; i + n_back < block->n_floats; i++) {
        if (!(values[block->first + i] == 0.0f)) { /* NaN: never written by the pull. */
            sim_break(ledger->world, "%s pulled %g for element %u of table %u, which is nobody's",
                      ledger->world->nodes[look->who]->name, (double)values[block->first + i], i,
                      block->table);
            return;
        }
    }
}

void sim_ledger_judge(struct sim_ledger *ledger, struct sim_look *look, const float *values,
                      uint64_t min_clock)
{
    const struct ps_consistency *consistency = &ledger->plan->consistency;
    look->ended_ns = ledger->world->now_ns;
    bool bounded = consistency->mode != PS_CONSISTENCY_ASP;
    uint64_t need = look->step > consistency->bound ? look->step - consistency->bound : 0;
    look->need = bounded && need > min_clock ? need : min_clock;
    if (look->need > min_clock && !ledger->early) {
        ledger->early = true;
        ledger->early_look = *look;
    }
    for (uint32_t unit = 0; unit < ledger->n_units; unit++) {
        bool whole = true;
        for (uint32_t b = 0; b < ledger->n_blocks; b++) {
            whole = judge_cell(ledger, look, unit, b, values) && whole;
        }
        look->holds[unit / 64] |= (uint64_t)whole << (unit % 64);
    }
    for (uint32_t b = 0; b < ledger->n_blocks; b++) {
        judge_rest(ledger, look, &ledger->blocks[b], values);
    }
    for (uint32_t i = 0; i < ledger->n_acks; i++) {
        check_bound(ledger, look, &ledger->acks[i]);
    }
    PS_ASSERT(ledger->n_looks < SIM_LOOKS_MAX);
    ledger->looks[ledger->n_looks++] = *look;
    sim_trace(ledger->world, ledger->world->nodes[look->who], "pulled", "step, min clock",
              look->step, min_clock);
}

void sim_ledger_check_clocks(struct sim_ledger *ledger)
{
    const struct sim_look *look = &ledger->early_look;
    if (ledger->early) {
        sim_break(ledger->world,
                  "%s: the pull for step %" PRIu64 " came with a min clock below %" PRIu64,
                  ledger->world->nodes[look->who]->name, look->step, look->need);
    }
}

/* ---- The end ------------------------------------------------------------------------------- */

/* Every row of the data in exactly `epochs` finished units. */
static void close_rows(struct sim_ledger *ledger)
{
    const struct sim_plan *plan = ledger->plan;
    for (uint32_t epoch = 0; epoch < plan->epochs; epoch++) {
        for (uint64_t row = 0; row < plan->rows; row++) {
            uint32_t n = 0;
            for (uint32_t i = 0; i < ledger->n_units; i++) {
                const struct sim_unit *unit = &ledger->units[i];
                n += unit->acked && unit->epoch == epoch && row >= unit->first_row &&
                     row < unit->first_row + unit->n_rows;
            }
            if (n != 1) {
                sim_break(ledger->world, "row %" PRIu64 " was trained %u times in epoch %u", row, n,
                          epoch);
                return;
            }
        }
    }
}

/* Finished before the cut to which the job went back, and never lent again. */
static void close_void(struct sim_ledger *ledger, const float *values)
{
    for (uint32_t i = 0; i < ledger->n_units && ledger->n_back > 0; i++) {
        struct sim_unit *unit = &ledger->units[i];
        bool there = values[front(&ledger->blocks[0], i)] != 0.0f || unit->n_rows == 0;
        bool again = aggregated(ledger) && unit->tried; /* Perhaps in another step. */
        unit->acked = unit->acked || (unit->void_acked && there && !again);
    }
}

void sim_ledger_close(struct sim_ledger *ledger, const float *values)
{
    close_void(ledger, values);
    if (aggregated(ledger)) {
        sim_average_close(ledger);
    }
    for (uint32_t i = 0; i < ledger->n_units * ledger->n_blocks; i++) {
        uint32_t b = i / ledger->n_units;
        const struct sim_unit *unit = &ledger->units[i % ledger->n_units];
        bool there = values[front(&ledger->blocks[b], i % ledger->n_units)] != 0.0f;
        if (there != (unit->known && unit->n_rows > 0)) {
            sim_break(ledger->world, "at the end unit %u is %s in block %u", i % ledger->n_units,
                      there ? "there" : "missing", b);
        }
    }
    close_rows(ledger);
}
