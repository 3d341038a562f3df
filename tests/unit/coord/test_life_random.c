/*
 * test_life_random.c — what holds in every schedule in which servers and coordinators die and come
 * back, cuts are taken, and the job goes back to them.
 *
 * As test_coord_random.c, with servers that keep what they applied, each on its own, and a store:
 * nobody hears of a change that the store does not have, and a new coordinator knows the store
 * alone. Chance picks who acts; after every event the promises are checked; then faults stop and
 * all must be finished.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "life.h"

static bool chance(uint32_t percent)
{
    return ps_rng_below(&world.rng, 100) < percent;
}

static uint32_t number_of(const struct ps_id *session)
{
    return ((session->bytes[0] - 1u) & 255u) | (uint32_t)session->bytes[1] << 8;
}

/* ---- Promises ------------------------------------------------------------------------------ */

static bool can_push(const struct player *player)
{
    bool any = false;
    for (uint32_t i = 0; i < SERVERS; i++) {
        any = any || world.servers[i].open[player->number];
    }
    return any;
}

static void check_clocks(void)
{
    if (CORE->generation != world.told_generation) {
        world.told_generation = CORE->generation;
        world.told = 0;
    }
    for (uint32_t i = 0; i < SERVERS; i++) {
        const struct server *server = &world.servers[i];
        if (server->generation != CORE->generation) {
            continue;
        }
        world.told = server->view > world.told ? server->view : world.told;
        for (uint32_t k = 0; k < WORKERS; k++) { /* Never beyond who works. */
            const struct player *player = &world.players[k];
            bool works = player->up && player->lease != 0 && can_push(player) &&
                         player->units_done < player->n_units && !world.averaging;
            CHECK(!works || server->view <= player->clock);
        }
    }
    if (!CORE->taking_over && CORE->state != PS_COORD_RESTORING) {
        CHECK(CORE->min_clock >= world.told); /* Nor back. */
    }
}

static void check_members(void)
{
    for (uint32_t i = 0; i < CORE->n_members; i++) {
        const struct ps_coord_member *member = &CORE->members[i];
        if (member->used && member->lease != 0) {
            for (uint32_t k = 0; k < i; k++) {
                CHECK(CORE->members[k].lease != member->lease);
            }
        }
        if (member->used && member->kind == PS_COORD_WORKER && ps_member_ended(&member->life)) {
            CHECK(member->closing || member->lease == 0);
        }
    }
}

/* What a worker was told to hold, it holds until it is finished or over, whoever coordinates. */
static void check_leases(void)
{
    for (uint32_t k = 0; k < WORKERS; k++) {
        const struct player *player = &world.players[k];
        struct ps_id id = session_of(PS_COORD_WORKER, player->number);
        uint32_t at = ps_coord_core_find(CORE, &id);
        if (player->up && player->lease != 0 && at != PS_COORD_NOBODY &&
            !ps_member_ended(&CORE->members[at].life)) {
            CHECK(CORE->members[at].lease == player->lease ||
                  CORE->pool.state[player->lease - 1] == PS_LEASE_FINISHED);
        }
    }
}

/* A session that is over in the coordinator's eyes can push nowhere. */
static void check_closed(void)
{
    for (uint32_t k = 0; k < WORKERS; k++) {
        const struct player *player = &world.players[k];
        struct ps_id id = session_of(PS_COORD_WORKER, player->number);
        uint32_t at = ps_coord_core_find(CORE, &id);
        bool over = player->up && at != PS_COORD_NOBODY &&
                    ps_member_ended(&CORE->members[at].life) && !CORE->members[at].closing;
        for (uint32_t i = 0; i < SERVERS && over; i++) {
            CHECK(world.servers[i].generation != CORE->generation || !world.servers[i].up ||
                  !world.servers[i].open[player->number]);
        }
    }
}

static void check(void)
{
    check_clocks();
    check_members();
    check_leases();
    check_closed();
    CHECK(CORE->state != PS_COORD_LOST);
    if (CORE->state == PS_COORD_RESTORING) {
        return;
    }
    for (uint64_t id = 1; id <= CORE->pool.plan.n_leases; id++) {
        for (uint32_t unit = 0; unit < ps_lease_units_done(&CORE->pool, id); unit++) {
            for (uint32_t i = 0; i < SERVERS; i++) { /* Done is said only of what was done. */
                CHECK(world.servers[i].lost || world.servers[i].generation != CORE->generation ||
                      world.servers[i].line.applied[id][unit] == 1);
            }
        }
    }
}

/* ---- Servers ------------------------------------------------------------------------------- */

static void join_server(uint32_t i)
{
    struct server *server = &world.servers[i];
    static struct ps_coord_server_join brings;
    struct ps_error err;
    char address[] = "host:0.0";
    server->incarnation++;
    address[5] = (char)('0' + i);
    address[7] = (char)('0' + server->incarnation % 10);
    memset(&brings, 0, sizeof(brings));
    brings.id.bytes[0] = (uint8_t)(1 + i);
    brings.durability = 2;
    brings.generation = server->position > 0 ? server->generation : 0;
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        brings.lines[slot].position = server->position;
    }
    struct ps_coord_join join = {.kind = PS_COORD_SERVER,
                                 .session = session_of(3, i + 2 * server->incarnation),
                                 .name = "s",
                                 .address = address,
                                 .server = &brings};
    enum ps_status status =
        ps_coord_core_join(CORE, world.bench.now_ms, &join, &server->member, &err);
    CHECK(status == PS_OK);
    server->up = true;
    server->lost = false;
    server->placement = 0;
    server->sessions = 0;
    server->finished = 0;
    server->taken = 0;
    server->written = 0;
}

/* It applies what it hears, and keeps it. */
static void hear_server(struct server *server)
{
    if (ps_coord_core_loads(CORE, server->member)) {
        const struct taken *cut = cut_at(CORE->base.generation, CORE->base.cut);
        CHECK(cut != NULL);
        if (cut != NULL) {
            server->line = cut->parts[server - world.servers];
            server->view = cut->min_clock;
        }
        server->generation = CORE->generation;
        server->position = 1;
        server->placement = CORE->placement.version;
        server->sessions = 0;
        server->finished = 0;
        memset(server->open, 0, sizeof(server->open));
        return;
    }
    if (server->generation == 0) {
        server->generation = CORE->generation;
    }
    uint64_t epoch = CORE->placement.epoch[server - world.servers];
    CHECK(epoch > server->epoch || /* Rule 2b: an epoch is one process's. */
          (epoch == server->epoch && server->incarnation == server->epoch_incarnation));
    server->epoch = epoch;
    server->epoch_incarnation = server->incarnation;
    server->position += server->placement != CORE->placement.version;
    server->placement = CORE->placement.version;
    if (server->sessions != CORE->sessions_version) {
        memset(server->open, 0, sizeof(server->open));
        for (uint32_t i = 0; i < CORE->n_members; i++) {
            const struct ps_coord_member *m = &CORE->members[i];
            if (ps_coord_core_listed(m)) {
                server->open[number_of(&m->session)] = true;
            }
        }
        server->sessions = CORE->sessions_version;
        server->position++;
    }
    if (CORE->close.decided && server->line.closed_steps < CORE->close.step + 1) {
        for (uint32_t i = 0; i < CORE->close.n_entries; i++) {
            const struct ps_coord_close_entry *entry = &CORE->close.entries[i];
            server->line.applied[entry->lease][entry->unit]++;
            CHECK(server->line.applied[entry->lease][entry->unit] == 1);
        }
        server->line.closed_steps = CORE->close.step + 1;
        server->position++;
    }
    server->finished = CORE->finished_version;
    server->view = CORE->min_clock > server->view ? CORE->min_clock : server->view;
}

static void take_cut(struct server *server)
{
    uint64_t order = ps_coord_cut_order(&CORE->cut);
    if (order == 0 || server->taken == order) {
        server->written = server->taken;
        return;
    }
    server->taken = order;
    struct taken *cut = cut_at(CORE->generation, order);
    if (cut != NULL) {
        cut->parts[server - world.servers] = server->line;
    }
}

static void ack_server(struct server *server)
{
    struct ps_coord_line lines[PS_SLOTS];
    uint32_t i = (uint32_t)(server - world.servers);
    struct ps_coord_acks acks = {
        .placement = server->placement,
        .sessions = server->sessions,
        .finished = server->finished,
        .closed_steps = server->line.closed_steps,
        .loaded = server->generation,
        .min_clock = server->view,
        .lines = lines,
        .cut = {.taken = server->taken, .written = server->written},
    };
    for (uint32_t slot = i; slot < PS_SLOTS; slot += SERVERS) {
        lines[acks.n_lines++] = (struct ps_coord_line){slot, {1, server->position}};
    }
    ps_coord_core_acks(CORE, world.bench.now_ms, server->member, &acks);
}

static void play_server(uint32_t i)
{
    struct server *server = &world.servers[i];
    if (!server->up) {
        if (!world.faulty || chance(10) || world.bench.now_ms - server->down_ms > 20000) {
            join_server(i);
            world.n_returns++;
        }
        return;
    }
    struct ps_id id = session_of(3, i + 2 * server->incarnation);
    server->member = ps_coord_core_find(CORE, &id);
    if (server->member == PS_COORD_NOBODY) { /* Its Join was not answered: it asks again. */
        join_server(i);
        return;
    }
    CHECK(!ps_member_ended(&CORE->members[server->member].life));
    if (world.faulty && chance(1)) {
        server->up = false;
        server->down_ms = world.bench.now_ms;
        if (CORE->has_cut && chance(30)) { /* And its disk. */
            server->lost = true;
            server->generation = 0;
            server->position = 0;
            memset(&server->line, 0, sizeof(server->line));
            memset(server->open, 0, sizeof(server->open));
        }
        ps_coord_core_stream_down(CORE, world.bench.now_ms, server->member);
        return;
    }
    if (!world.faulty || chance(60)) {
        server->term = world.term;
        hear_server(server);
        take_cut(server);
    }
    if (server->term == world.term && (!world.faulty || chance(60))) {
        ack_server(server);
    } else {
        (void)ps_coord_core_heard(CORE, world.bench.now_ms, server->member);
    }
}

/* ---- Workers ------------------------------------------------------------------------------- */

static void join_worker(struct player *player)
{
    struct ps_error err;
    uint32_t member = 0;
    PS_ASSERT(world.n_joined < JOINS_MOST);
    *player = (struct player){.up = true, .number = world.n_joined++};
    struct ps_coord_join join = {.kind = PS_COORD_WORKER,
                                 .session = session_of(PS_COORD_WORKER, player->number),
                                 .name = "w",
                                 .address = ""};
    CHECK(ps_coord_core_join(CORE, world.bench.now_ms, &join, &member, &err) == PS_OK);
    player->term = world.term;
}

static void hear(struct player *player, uint32_t at)
{
    const struct ps_coord_member *member = &CORE->members[at];
    player->term = world.term;
    player->held = ps_coord_cut_hold(&CORE->cut);
    if (member->lease != player->lease) {
        player->lease = member->lease;
        player->staged_step = 0;
        player->pushed = 0;
        if (member->lease != 0) {
            player->n_units = ps_lease_at(&CORE->pool.plan, member->lease).n_units;
            player->units_done = ps_lease_units_done(&CORE->pool, member->lease);
            player->clock =
                member->lease_clock > player->clock ? member->lease_clock : player->clock;
        }
    }
    if (world.averaging && player->lease != 0) {
        player->clock = CORE->min_clock > player->clock ? CORE->min_clock : player->clock;
        player->units_done = ps_lease_units_done(&CORE->pool, player->lease);
    }
}

/* A unit goes to both servers, one after the other; those that have it already say so. */
static void push(struct player *player)
{
    uint32_t i = (uint32_t)ps_rng_below(&world.rng, SERVERS);
    struct server *server = &world.servers[i];
    if (!server->up || server->generation != CORE->generation) {
        return;
    }
    if (!server->open[player->number]) {
        /* Fenced, or the server has not heard of it yet. */
        return;
    }
    if (player->pushed == 0 && server->view + 1 < player->clock) {
        return; /* Its pull waits. */
    }
    server->position += server->line.applied[player->lease][player->units_done] == 0;
    server->line.applied[player->lease][player->units_done] = 1;
    player->pushed |= 1u << i;
    if (player->pushed == (1u << SERVERS) - 1) {
        player->pushed = 0;
        player->units_done++;
        player->clock++;
    }
}

static void work(struct player *player)
{
    if (player->lease == 0 || player->units_done >= player->n_units ||
        (player->held != 0 && player->pushed == 0)) {
        return;
    }
    if (world.averaging) {
        player->staged_step = player->clock + 1;
        return;
    }
    push(player);
}

static void report(const struct player *player, uint32_t at)
{
    uint64_t first = 0;
    struct ps_coord_progress progress = {
        .clock = player->clock,
        .lease = player->lease,
        .units_done = world.averaging ? 0 : player->units_done,
        .staged_step = player->staged_step,
        .staged_unit = player->units_done,
        .held = player->pushed == 0 ? player->held : 0,
    };
    if (world.averaging && player->lease != 0 && player->units_done < player->n_units) {
        progress.staged_rows =
            ps_lease_rows(&CORE->pool.plan, player->lease, player->units_done, &first);
    }
    ps_coord_core_progress(CORE, world.bench.now_ms, at, &progress);
}

static void play_worker(struct player *player)
{
    struct ps_id id = session_of(PS_COORD_WORKER, player->number);
    uint32_t at = player->up ? ps_coord_core_find(CORE, &id) : PS_COORD_NOBODY;
    if (player->up && (at == PS_COORD_NOBODY || ps_member_ended(&CORE->members[at].life))) {
        player->up = false; /* Fenced. */
    }
    if (!player->up) {
        if ((!world.faulty || chance(20)) && world.n_joined < JOINS_MOST) {
            join_worker(player);
        }
        return;
    }
    if (world.faulty && chance(2)) {
        player->up = chance(30);
        ps_coord_core_stream_down(CORE, world.bench.now_ms, at);
        return;
    }
    if (CORE->members[at].life.state == PS_MEMBER_JOINING) {
        (void)ps_coord_core_heard(CORE, world.bench.now_ms, at);
        return;
    }
    if (!world.faulty || chance(70)) {
        hear(player, at);
    }
    for (uint32_t i = 0; i < 3 && (!world.faulty || chance(70)); i++) {
        work(player);
    }
    if (player->term == world.term && (!world.faulty || chance(60))) {
        report(player, at);
    }
}

/* ---- The run ------------------------------------------------------------------------------- */

static void pass(void)
{
    world.bench.now_ms += 125;
    ps_coord_core_tick(CORE, world.bench.now_ms);
}

static void step(void)
{
    uint64_t who = ps_rng_below(&world.rng, WORKERS + SERVERS + 2);
    if (who < WORKERS) {
        play_worker(&world.players[who]);
    } else if (who < WORKERS + SERVERS) {
        play_server((uint32_t)(who - WORKERS));
    } else if (who == WORKERS + SERVERS) {
        pass();
    } else {
        CORE->cut.wanted = CORE->cut.wanted || chance(world.faulty ? 20 : 0);
        ps_coord_core_tick(CORE, world.bench.now_ms);
    }
    bool dies = world.faulty && chance(1);
    if (!(dies && chance(50))) {
        work_and_flush();
    } /* Else what just happened is known to nobody. */
    if (dies) {
        take_over();
    }
    check();
}

static void check_finished(void)
{
    CHECK(CORE->state == PS_COORD_DONE);
    uint32_t min = 0;
    uint32_t max = 0;
    for (uint64_t id = 1; id <= CORE->pool.plan.n_leases; id++) {
        uint32_t n = ps_lease_at(&CORE->pool.plan, id).n_units;
        CHECK(ps_lease_units_done(&CORE->pool, id) == n);
        for (uint32_t unit = 0; unit < n; unit++) {
            for (uint32_t i = 0; i < SERVERS; i++) {
                CHECK(world.servers[i].line.applied[id][unit] == 1);
            }
        }
    }
    ps_lease_pool_trained(&CORE->pool, &min, &max);
    CHECK(min == CORE->pool.plan.epochs && max == CORE->pool.plan.epochs);
}

static void begin(void)
{
    static const struct ps_coord_consistency modes[] = {{.mode = PS_COORD_SSP, .bound = 1},
                                                        {.mode = PS_COORD_BSP, .aggregate = true}};
    struct ps_coord_core_options options = core_options();
    world.bench.now_ms = 1000;
    ps_coord_core_init(CORE, world.bench.now_ms, &options);
    bench_define(&world.bench, &life_jobs[world.averaging], &modes[world.averaging]);
    world.memory = world.bench.pool_memory;
    world.memory_bytes = ps_lease_pool_bytes(&CORE->pool.plan);
    PS_ASSERT(world.memory_bytes <= sizeof(world.store_pool));
    for (uint32_t i = 0; i < SERVERS; i++) {
        join_server(i);
    }
    flush();
}

/* Who died after the end comes back all the same, and may take the job back. */
static bool is_done(void)
{
    return CORE->state == PS_COORD_DONE && world.servers[0].up && world.servers[1].up;
}

/* @return whether a promise was broken */
static bool run(uint64_t seed, bool averaging, enum ps_coord_plant plant)
{
    memset(&world, 0, sizeof(world));
    world.seed = seed;
    world.rng = ps_rng_from(seed * 2 + averaging);
    world.averaging = averaging;
    world.plant = plant;
    begin();
    world.faulty = true;
    for (uint32_t i = 0; i < STEPS_FAULTY && world.broke == NULL; i++) {
        step();
    }
    world.faulty = false;
    for (uint32_t i = 0; i < STEPS_QUIET && world.broke == NULL && !is_done(); i++) {
        step();
    }
    if (world.broke == NULL) {
        check_finished();
    }
    bench_deinit(&world.bench);
    return world.broke != NULL;
}

START_TEST(promises_hold_whoever_dies_and_returns)
{
    uint64_t n_runs = test_count("PS_TEST_RUNS", 150);
    uint32_t n_takeovers = 0, n_returns = 0, n_backs = 0, n_complete = 0;
    for (uint64_t k = 0; k < n_runs; k++) {
        bool broke = run(test_seed() + k, _i == 1, PS_COORD_PLANT_NONE);
        ck_assert_msg(!broke, "PS_TEST_SEED=%" PRIu64 " broke: %s", world.seed, world.broke);
        n_takeovers += world.n_takeovers;
        n_returns += world.n_returns;
        n_backs += world.n_backs;
        n_complete += world.n_complete;
    }
    ck_assert_uint_gt(n_takeovers, n_runs); /* It was tried at all. */
    ck_assert_uint_gt(n_returns, n_runs);
    ck_assert_uint_gt(n_backs, n_runs / 4);
    ck_assert_uint_gt(n_complete, n_runs);
}
END_TEST

#ifdef PS_PLANT
static const struct {
    const char *name;
    enum ps_coord_plant plant;
} plants[] = {
    {"takeover-clocks, first trace", PS_COORD_PLANT_TAKEOVER_CLOCKS},
    {"takeover-clocks, second trace", PS_COORD_PLANT_TAKEOVER_LENDS},
    {"epoch-kept", PS_COORD_PLANT_EPOCH_KEPT},
    {"lease-progress-after-cut", PS_COORD_PLANT_PROGRESS_AFTER_CUT},
};

START_TEST(a_planted_bug_is_found)
{
    uint64_t n = 1;
    while (n <= 100 && !run(test_seed() + n, false, plants[_i].plant)) {
        n++;
    }
    ck_assert_msg(n <= 100, "%s was not found", plants[_i].name);
    printf("coord: planted '%s' was found by seed number %" PRIu64 ": %s\n", plants[_i].name, n,
           world.broke);
}
END_TEST
#endif

Suite *suite_life_random(void)
{
    Suite *suite = suite_create("life_random");
    TCase *tcase = tcase_create("promises");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, promises_hold_whoever_dies_and_returns, 0, 2);
#ifdef PS_PLANT
    tcase_add_loop_test(tcase, a_planted_bug_is_found, 0, (int)PS_ARRAY_LEN(plants));
#endif
    suite_add_tcase(suite, tcase);
    return suite;
}
