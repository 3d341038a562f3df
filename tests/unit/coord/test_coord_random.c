/*
 * test_coord_random.c — what holds in every schedule.
 *
 * A cluster of two servers and up to four workers as one table of facts; chance picks who does what
 * next: workers work, report, lose reports, die and are replaced; servers take in and acknowledge
 * lists and closes late. After every event the promises are checked; then faults stop and all must
 * be finished, every unit exactly once. "Exactly once" is the servers' work: here the sets of units
 * that they applied stand for it. Over parts only the holders know how many units there are.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "test_coord.h"

#define WORKERS      4u
#define STEPS_FAULTY 1500u
#define STEPS_QUIET  6000u
#define LEASES_MOST  64u
#define UNITS_MOST   8u
#define BATCH        5u
#define PARTS        11u

/* What a worker process knows. */
struct player {
    bool up;
    bool told; /* Its stream hears the coordinator. */
    uint32_t member;
    uint64_t clock;
    uint64_t lease;
    uint32_t n_units;
    uint32_t units_done;
    bool over;            /* Over parts: found that no rows are left. */
    uint64_t staged_step; /* 1 + step. */
};

struct world {
    struct bench bench;
    struct ps_rng rng;
    uint64_t seed;
    uint32_t n_joined;
    struct player players[WORKERS];
    bool applied[LEASES_MOST + 1][UNITS_MOST]; /* At the servers. */
    uint32_t n_closed[LEASES_MOST + 1][UNITS_MOST];
    uint64_t min_clock; /* Last seen. */
    uint64_t close_step;
    bool close_pending;
    uint64_t n_finished;
};

static struct world world;

/* Not ck_assert: that writes a mark for every passing check, and here are millions of them. */
#define CHECK(expr)                                                                \
    do {                                                                           \
        if (!(expr)) {                                                             \
            ck_abort_msg("PS_TEST_SEED=%" PRIu64 " broke: %s", world.seed, #expr); \
        }                                                                          \
    } while (0)

static bool uncounted(void)
{
    return world.bench.core.pool.plan.uncounted;
}

/* Over parts: what is in them; the last part of a unit has 2 rows of the BATCH. Some are empty. */
static uint32_t units_of(uint32_t part)
{
    return part * 5 % 4;
}

static uint64_t rows_of(uint32_t part)
{
    return units_of(part) == 0 ? 0 : (units_of(part) - 1) * (uint64_t)BATCH + 2;
}

static bool averaging(void)
{
    return world.bench.core.job.consistency.aggregate;
}

static bool chance(uint32_t percent)
{
    return ps_rng_below(&world.rng, 100) < percent;
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void check_clocks(void)
{
    const struct ps_coord_core *core = &world.bench.core;
    CHECK(core->min_clock >= world.min_clock);
    world.min_clock = core->min_clock;
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        if (!member->used || member->lease == 0) {
            continue;
        }
        CHECK(core->min_clock <= member->clock);
        for (uint32_t k = 0; k < i; k++) {
            CHECK(core->members[k].lease != member->lease);
        }
    }
}

/* Whoever has ended holds on to its lease until both servers have closed it. */
static void check_ended(void)
{
    const struct ps_coord_core *core = &world.bench.core;
    uint64_t acked = UINT64_MAX;
    for (uint32_t i = 0; i < BENCH_SERVERS; i++) {
        uint64_t one = core->members[world.bench.server[i]].acks.sessions;
        acked = one < acked ? one : acked;
    }
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        if (member->used && ps_member_ended(&member->life)) {
            CHECK(member->closing || acked >= member->closed_version);
            CHECK(member->closing || member->lease == 0);
        }
    }
}

/* A closed step applies each of its units, each once. */
static void note_close(void)
{
    const struct ps_coord_close *close = &world.bench.core.close;
    if (close->pending && !(world.close_pending && world.close_step == close->step)) {
        CHECK(!world.close_pending || world.min_clock > world.close_step);
        CHECK(close->step == world.bench.core.min_clock);
        for (uint32_t i = 0; i < close->n_entries; i++) {
            const struct ps_coord_close_entry *entry = &close->entries[i];
            world.n_closed[entry->lease][entry->unit]++;
            CHECK(world.n_closed[entry->lease][entry->unit] == 1);
            world.applied[entry->lease][entry->unit] = true;
            CHECK(i == 0 || close->entries[i - 1].lease < entry->lease);
        }
    }
    world.close_pending = close->pending;
    world.close_step = close->step;
}

static void check(void)
{
    check_clocks();
    check_ended();
    note_close();
    const struct ps_lease_pool *pool = &world.bench.core.pool;
    CHECK(pool->n_finished >= world.n_finished);
    world.n_finished = pool->n_finished;
    for (uint64_t id = 1; id <= pool->plan.n_leases; id++) {
        for (uint32_t unit = 0; unit < ps_lease_units_done(pool, id); unit++) {
            CHECK(world.applied[id][unit]); /* Done is said only of what was done. */
        }
    }
}

/* ---- Workers ------------------------------------------------------------------------------- */

static void join_worker(struct player *player)
{
    enum ps_status status;
    *player = (struct player){.up = true, .told = true};
    player->member = bench_join(&world.bench, PS_COORD_WORKER, world.n_joined++, &status);
    CHECK(status == PS_OK);
    ps_coord_core_stream_up(&world.bench.core, world.bench.now_ms, player->member);
}

static void hear(struct player *player)
{
    const struct ps_coord_core *core = &world.bench.core;
    const struct ps_coord_member *member = &core->members[player->member];
    if (ps_member_ended(&member->life)) {
        player->up = false; /* Fenced. */
        return;
    }
    if (member->lease != player->lease) {
        player->lease = member->lease;
        player->staged_step = 0;
        if (member->lease != 0) {
            struct ps_lease_view lease = ps_lease_at(&core->pool.plan, member->lease);
            player->n_units = uncounted() ? units_of(lease.part) : lease.n_units;
            player->over = false;
            player->units_done = ps_lease_units_done(&core->pool, member->lease);
            player->clock =
                member->lease_clock > player->clock ? member->lease_clock : player->clock;
        }
    }
    if (averaging() && player->lease != 0) {
        player->clock = core->min_clock > player->clock ? core->min_clock : player->clock;
        player->units_done = ps_lease_units_done(&core->pool, player->lease);
    }
}

/* The gate: a unit of step c is done only when min clock >= c - 1. */
static void work(struct player *player)
{
    if (player->lease == 0 || player->units_done >= player->n_units) {
        player->over = true; /* Of some parts that is found only by asking for one more unit. */
        return;
    }
    if (averaging()) {
        player->staged_step = player->clock + 1;
        return;
    }
    if (world.bench.core.min_clock + 1 >= player->clock) {
        world.applied[player->lease][player->units_done] = true;
        player->units_done++;
        player->clock++;
        player->over = player->units_done == player->n_units && chance(50);
    }
}

/* The last unit is known as such only by who did it. */
static uint64_t rows_done(const struct player *player)
{
    uint32_t part = ps_lease_at(&world.bench.core.pool.plan, player->lease).part;
    uint64_t whole = (uint64_t)player->units_done * BATCH;
    return whole < rows_of(part) ? whole : rows_of(part);
}

static void report(struct player *player)
{
    struct ps_coord_progress progress = {
        .clock = player->clock,
        .lease = player->lease,
        .units_done = averaging() ? 0 : player->units_done,
        .lease_over = uncounted() && player->lease != 0 && player->over,
        .lease_rows = player->lease != 0 && uncounted() ? rows_done(player) : 0,
        .staged_step = player->staged_step,
        .staged_unit = player->units_done,
    };
    if (averaging() && player->lease != 0 && player->units_done < player->n_units) {
        uint64_t first = 0;
        progress.staged_rows =
            ps_lease_rows(&world.bench.core.pool.plan, player->lease, player->units_done, &first);
    }
    ps_coord_core_progress(&world.bench.core, world.bench.now_ms, player->member, &progress);
}

static void fault(struct player *player)
{
    struct ps_coord_core *core = &world.bench.core;
    switch (ps_rng_below(&world.rng, 4)) {
    case 0: /* Killed. */
        player->up = false;
        ps_coord_core_stream_down(core, world.bench.now_ms, player->member);
        break;
    case 1: /* Silent for ever, its stream still there. */ player->up = false; break;
    case 2:
        player->up = false;
        ps_coord_core_leave(core, world.bench.now_ms, player->member);
        break;
    default: /* Away for a moment. */
        player->told = false;
        ps_coord_core_stream_down(core, world.bench.now_ms, player->member);
        break;
    }
}

static void play_worker(struct player *player, bool faulty)
{
    if (!player->up) {
        if (!faulty || chance(20)) {
            join_worker(player);
        }
        return;
    }
    if (!player->told) {
        if (!faulty || chance(30)) {
            player->told = true;
            ps_coord_core_stream_up(&world.bench.core, world.bench.now_ms, player->member);
        }
        return;
    }
    if (faulty && chance(2)) {
        fault(player);
        return;
    }
    if (!faulty || chance(70)) {
        hear(player);
    }
    if (player->up && (!faulty || chance(70))) {
        work(player);
    }
    if (player->up && (!faulty || chance(60))) {
        report(player);
    }
}

/* ---- The run ------------------------------------------------------------------------------- */

static void play_server(uint32_t i, bool faulty)
{
    if (!faulty || chance(50)) {
        bench_ack(&world.bench, i);
    } else {
        (void)ps_coord_core_heard(&world.bench.core, world.bench.now_ms, world.bench.server[i]);
    }
}

static void step(bool faulty)
{
    uint64_t who = ps_rng_below(&world.rng, WORKERS + BENCH_SERVERS + 1);
    if (who < WORKERS) {
        play_worker(&world.players[who], faulty);
    } else if (who < WORKERS + BENCH_SERVERS) {
        play_server((uint32_t)(who - WORKERS), faulty);
    } else {
        world.bench.now_ms += 125;
        for (uint32_t i = 0; i < BENCH_SERVERS; i++) { /* Slow, but never taken for dead. */
            (void)ps_coord_core_heard(&world.bench.core, world.bench.now_ms, world.bench.server[i]);
        }
        ps_coord_core_tick(&world.bench.core, world.bench.now_ms);
    }
    check();
}

static void check_finished(void)
{
    const struct ps_lease_pool *pool = &world.bench.core.pool;
    CHECK(world.bench.core.state == PS_COORD_DONE);
    uint64_t n_units = 0;
    uint64_t n_rows = 0;
    for (uint64_t id = 1; id <= pool->plan.n_leases; id++) {
        struct ps_lease_view lease = ps_lease_at(&pool->plan, id);
        uint32_t n = uncounted() ? units_of(lease.part) : lease.n_units;
        CHECK(ps_lease_units_done(pool, id) == n);
        n_rows += lease.epoch == 0 && uncounted() ? rows_of(lease.part) : 0;
        for (uint32_t unit = 0; unit < n; unit++) {
            CHECK(!averaging() || world.n_closed[id][unit] == 1);
        }
        n_units += n;
    }
    CHECK(pool->units_done_total == n_units);
    CHECK(pool->rows == (uncounted() ? n_rows : pool->plan.rows));
    for (uint32_t epoch = 0; epoch < pool->plan.epochs; epoch++) {
        CHECK(pool->epoch_finished[epoch] == pool->plan.n_parts);
    }
    uint32_t min = 0;
    uint32_t max = 0;
    ps_lease_pool_trained(pool, &min, &max);
    CHECK(min == pool->plan.epochs && max == pool->plan.epochs);
    for (uint32_t i = 0; i < WORKERS; i++) { /* Nobody waits for a clock that nobody moves. */
        const struct player *player = &world.players[i];
        CHECK(!player->up ||
              world.bench.core.members[player->member].clock <= world.bench.core.min_clock);
    }
}

static void run(bool aggregate, uint32_t n_backups, bool parts)
{
    struct ps_lease_job job = {.rows = parts ? 0 : 101,
                               .batch = aggregate ? 20 : BATCH,
                               .epochs = 2,
                               .workers = 3,
                               .units_per_lease = parts ? 0 : 2,
                               .aggregate = aggregate,
                               .parts = parts ? PARTS : 0,
                               .shuffle = true,
                               .seed = world.seed};
    struct ps_coord_consistency consistency = {.mode = aggregate ? PS_COORD_BSP : PS_COORD_SSP,
                                               .bound = aggregate ? 0 : 1,
                                               .aggregate = aggregate,
                                               .n_backups = n_backups};
    bench_init(&world.bench, true);
    bench_define(&world.bench, &job, &consistency);
    PS_ASSERT(world.bench.core.pool.plan.n_leases <= LEASES_MOST);
    for (uint32_t i = 0; i < STEPS_FAULTY; i++) {
        step(true);
    }
    for (uint32_t i = 0; i < STEPS_QUIET && world.bench.core.state != PS_COORD_DONE; i++) {
        step(false);
    }
    check_finished();
    bench_deinit(&world.bench);
}

/* clang-format off */
static const struct {
    bool aggregate;
    uint32_t n_backups;
    bool parts;
} modes[] = {{false, 0, false}, {true, 0, false}, {true, 1, false}, {true, 2, false},
             {false, 0, true}};
/* clang-format on */

START_TEST(promises_hold_in_every_schedule)
{
    uint64_t n_runs = test_count("PS_TEST_RUNS", 60);
    for (uint64_t k = 0; k < n_runs; k++) {
        memset(&world, 0, sizeof(world));
        world.seed = test_seed() + k;
        world.rng = ps_rng_from(world.seed * PS_ARRAY_LEN(modes) + (uint64_t)_i);
        run(modes[_i].aggregate, modes[_i].n_backups, modes[_i].parts);
    }
}
END_TEST

Suite *suite_coord_random(void)
{
    Suite *suite = suite_create("coord_random");
    TCase *tcase = tcase_create("promises");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, promises_hold_in_every_schedule, 0, (int)PS_ARRAY_LEN(modes));
    suite_add_tcase(suite, tcase);
    return suite;
}
