/*
 * test_server_core.c — servers that go and come back, and the cut, one rule at a time.
 */
#include <string.h>

#include "coord/back_core.h"
#include "coord/server_core.h"
#include "coord/settle_core.h"
#include "test_coord.h"

#define MEMORY 1u
#define LOG    2u

static struct bench bench;
static struct ps_coord_server_join brings;

/* Start a server process: `life` makes its session, `id` its data directory (0: it says none). */
static enum ps_status start(uint8_t life, uint8_t id, const char *address, uint32_t *ret)
{
    struct ps_error err;
    struct ps_coord_join join = {.kind = PS_COORD_SERVER,
                                 .session = {{life, 0, 3}},
                                 .name = "server",
                                 .address = address,
                                 .server = &brings};
    brings.id.bytes[0] = id;
    return ps_coord_core_join(&bench.core, bench.now_ms, &join, ret, &err);
}

static void begin(uint32_t durability)
{
    bench_init(&bench, false);
    bench.core.options.cuts = true;
    memset(&brings, 0, sizeof(brings));
    brings.durability = durability;
    ck_assert_int_eq(start(1, 11, "host:1", &bench.server[0]), PS_OK);
    ck_assert_int_eq(start(2, 12, "host:2", &bench.server[1]), PS_OK);
    bench_ack_all(&bench);
}

static const struct ps_coord_place *place(uint32_t i)
{
    return &bench.core.places[i];
}

static void silence(uint32_t i)
{
    bench_pass(&bench, 5250, bench.server[i]);
}

/* What server 1 has: its slots end at `position`. */
static void bring(uint64_t position)
{
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        brings.lines[slot] = (struct ps_coord_position){1, position};
    }
}

static void report_lines(uint64_t position)
{
    struct ps_coord_line line = {1, {1, position}};
    struct ps_coord_acks acks = {.placement = bench.core.placement.version,
                                 .sessions = bench.core.sessions_version,
                                 .loaded = bench.core.generation,
                                 .n_lines = 1,
                                 .lines = &line};
    ps_coord_core_acks(&bench.core, bench.now_ms, bench.server[1], &acks);
}

/* ---- Going --------------------------------------------------------------------------------- */

START_TEST(a_server_in_memory_is_lost_when_it_goes)
{
    begin(MEMORY);
    silence(1);
    ck_assert_int_eq(bench.core.state, PS_COORD_LOST);
    ck_assert_ptr_nonnull(strstr(bench.core.reason, "server 1 (host:2) is lost"));
}
END_TEST

START_TEST(a_server_that_logs_is_away_and_waited_for)
{
    begin(LOG);
    silence(1);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    ck_assert(place(1)->away);
    ck_assert_int_eq(bench.core.members[bench.server[1]].life.state, PS_MEMBER_AWAY);
    (void)ps_coord_core_heard(&bench.core, bench.now_ms, bench.server[1]);
    ck_assert(!place(1)->away);
    ck_assert_uint_eq(bench.core.placement.version, 1); /* The same process: the same epochs. */
}
END_TEST

START_TEST(who_stays_away_is_lost_by_name)
{
    begin(LOG);
    ps_coord_core_leave(&bench.core, bench.now_ms, bench.server[1]);
    ck_assert(place(1)->away);
    bench_pass(&bench, 19900, PS_COORD_NOBODY);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    bench_pass(&bench, 300, PS_COORD_NOBODY);
    ck_assert_int_eq(bench.core.state, PS_COORD_LOST);
    ck_assert_ptr_nonnull(strstr(bench.core.reason, "server 1 (host:2)"));
    ck_assert_ptr_nonnull(strstr(bench.core.reason, "20 s (--wait-for-server)"));
}
END_TEST

/* ---- Coming back --------------------------------------------------------------------------- */

START_TEST(who_returns_has_its_place_under_new_epochs)
{
    enum ps_status status;
    begin(LOG);
    bring(7);
    report_lines(7);
    uint32_t worker = bench_join(&bench, PS_COORD_WORKER, 0, &status);
    bench_ack(&bench, 0);
    ck_assert_int_eq(start(3, 12, "elsewhere:9", &bench.server[1]), PS_OK);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    ck_assert_uint_eq(bench.core.members[bench.server[1]].server, 1);
    ck_assert_uint_eq(bench.core.placement.version, 2);
    ck_assert_uint_eq(bench.core.placement.epoch[0], 1);
    ck_assert_uint_eq(bench.core.placement.epoch[1], 2);
    /* What it says of the epochs before is void. */
    struct ps_coord_acks old = {.placement = 1, .sessions = bench.core.sessions_version};
    ps_coord_core_acks(&bench.core, bench.now_ms, bench.server[1], &old);
    ck_assert(!ps_coord_core_open(&bench.core, worker));
    bench_ack(&bench, 1);
    ck_assert(ps_coord_core_open(&bench.core, worker));
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    uint8_t id;
    const char *address;
    bool away; /* Server 1 was found to be away before. */
    enum ps_status status;
    uint32_t place;
} returns[] = {
    {"by the id of its data, wherever it is", 11, "new:1",  false, PS_OK, 0},
    {"without one by its address",             0, "host:2", false, PS_OK, 1},
    {"at an address with another id",         99, "host:2", false, PS_OK, 1},
    {"somebody new while all are there",      99, "new:1",  false, PS_ERR_EXISTS, 0},
    {"somebody new while one is away",        99, "new:1",  true,  PS_OK, 1},
};
/* clang-format on */

START_TEST(a_place_is_found_by)
{
    begin(LOG);
    bring(1);
    if (returns[_i].away) {
        silence(1);
    }
    uint32_t member = 0;
    enum ps_status status = start(9, returns[_i].id, returns[_i].address, &member);
    ck_assert_msg(status == returns[_i].status, "%s", returns[_i].name);
    if (status == PS_OK) {
        ck_assert_uint_eq(bench.core.members[member].server, returns[_i].place);
        ck_assert(!place(returns[_i].place)->away);
    }
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    uint64_t known, brought;
    bool has_cut, lost;
} losses[] = {
    {"it has all that it reported", 10, 10, false, false},
    {"it has more than that",       10, 12, false, false},
    {"it lacks a record",           10,  9, false, true},
    {"it has nothing",               0,  0, false, true},
    {"it lacks a record, there is a cut", 10, 9, true, true},
    {"it has nothing, there is a cut",     0, 0, true, true},
};
/* clang-format on */

START_TEST(what_it_brings_is_compared_with_what_it_had)
{
    begin(LOG);
    if (losses[_i].known > 0) {
        report_lines(losses[_i].known);
    }
    bench.core.has_cut = losses[_i].has_cut;
    bring(losses[_i].brought);
    ck_assert_int_eq(start(9, 12, "host:2", &bench.server[1]), PS_OK);
    bool back = losses[_i].lost && losses[_i].has_cut;
    bool lost = losses[_i].lost && !losses[_i].has_cut;
    ck_assert_msg(bench.core.wants_back == back, "%s", losses[_i].name);
    ck_assert_msg((bench.core.state == PS_COORD_LOST) == lost, "%s", losses[_i].name);
    ck_assert(!losses[_i].lost ||
              strstr(bench.core.reason, "server 1 (host:2) came back without its data") != NULL);
}
END_TEST

START_TEST(a_slot_that_lacks_what_a_client_was_told_is_data_lost)
{
    begin(LOG);
    struct ps_coord_acks acks = {.placement = 1, .lost_slot = 1 + 1};
    ps_coord_core_acks(&bench.core, bench.now_ms, bench.server[0], &acks);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING); /* Not its slot. */
    ps_coord_core_acks(&bench.core, bench.now_ms, bench.server[1], &acks);
    ck_assert_int_eq(bench.core.state, PS_COORD_LOST);
}
END_TEST

START_TEST(data_of_a_later_generation_are_refused)
{
    uint32_t member = 0;
    begin(LOG);
    brings.generation = 2;
    ck_assert_int_eq(start(9, 12, "host:2", &member), PS_ERR_INVALID);
}
END_TEST

START_TEST(data_from_before_the_cluster_began_anew_are_refused)
{
    uint32_t member = 0;
    begin(LOG);
    bench.core.generation = 2; /* It went back to no cut. */
    brings.generation = 1;
    ck_assert_int_eq(start(9, 12, "host:2", &member), PS_ERR_INVALID);
}
END_TEST

START_TEST(the_places_of_servers_that_are_away_are_not_used_again)
{
    enum ps_status status;
    begin(LOG);
    ps_coord_core_leave(&bench.core, bench.now_ms, bench.server[1]);
    for (uint32_t i = 0; i < 2 * PS_COORD_MEMBERS_MAX; i++) {
        uint32_t reader = bench_join(&bench, PS_COORD_READER, i, &status);
        ck_assert_int_eq(status, PS_OK);
        ps_coord_core_leave(&bench.core, bench.now_ms, reader);
        bench.core.members[reader].closing = false; /* As if every slot had closed it. */
    }
    ck_assert_int_eq(bench.core.members[bench.server[1]].kind, PS_COORD_SERVER);
    ck_assert_uint_eq(bench.core.servers[1], bench.server[1]);
}
END_TEST

/* ---- Cuts ---------------------------------------------------------------------------------- */

static const struct ps_coord_consistency ssp = {.mode = PS_COORD_SSP, .bound = 2};
static const struct ps_lease_job plain_job = {
    .rows = 80, .batch = 5, .epochs = 1, .workers = 2, .units_per_lease = 2};

static void settle(void)
{
    ps_coord_settle(&bench.core, bench.now_ms);
}

static void say_cut(uint32_t i, uint64_t taken, uint64_t written, bool failed)
{
    struct ps_coord_acks acks = {
        .placement = bench.core.placement.version,
        .cut = {.taken = taken, .written = written, .failed = failed, .why = "the disk is full"}};
    ps_coord_core_acks(&bench.core, bench.now_ms, bench.server[i], &acks);
}

static void hold(uint32_t worker)
{
    struct ps_coord_progress progress = {.lease = bench.core.members[worker].lease,
                                         .clock = bench.core.members[worker].clock,
                                         .held = bench.core.cut.number};
    ps_coord_core_progress(&bench.core, bench.now_ms, worker, &progress);
}

START_TEST(a_cut_goes_from_hold_to_manifest)
{
    begin(LOG);
    uint32_t a = bench_worker(&bench, 0);
    uint32_t b = bench_worker(&bench, 1);
    bench_define(&bench, &plain_job, &ssp);
    const struct ps_coord_cut *cut = &bench.core.cut;
    bench.core.cut.wanted = true;
    bench.core.dirty = false;
    settle();
    ck_assert_int_eq(cut->state, PS_COORD_CUT_HOLD);
    ck_assert(bench.core.dirty); /* Its number is never used again. */
    ck_assert_uint_eq(ps_coord_cut_hold(cut), 1);
    hold(a);
    ck_assert_int_eq(cut->state, PS_COORD_CUT_HOLD);
    hold(b);
    ck_assert_int_eq(cut->state, PS_COORD_CUT_NOTE);
    ck_assert(cut->all_held);
    ck_assert_uint_eq(ps_coord_cut_order(cut), 0); /* Not before it is noted. */
    ps_coord_cut_noted(&bench.core.cut);
    ck_assert_uint_eq(ps_coord_cut_order(cut), 1);
    say_cut(0, 1, 0, false);
    ck_assert_uint_eq(ps_coord_cut_hold(cut), 1);
    say_cut(1, 1, 0, false);
    ck_assert_int_eq(cut->state, PS_COORD_CUT_WRITE);
    ck_assert_uint_eq(ps_coord_cut_hold(cut), 0); /* They go on while it is written. */
    say_cut(0, 1, 1, false);
    say_cut(1, 1, 1, false);
    ck_assert_int_eq(cut->state, PS_COORD_CUT_FINISH);
    ps_coord_cut_completed(&bench.core.cut, bench.now_ms);
    ck_assert_uint_eq(cut->complete, 1);
    ck_assert(cut->all_held);
    bench_deinit(&bench);
}
END_TEST

START_TEST(who_does_not_hold_in_time_is_not_waited_for)
{
    begin(LOG);
    (void)bench_worker(&bench, 0);
    uint32_t b = bench_worker(&bench, 1);
    bench_define(&bench, &plain_job, &ssp);
    bench.core.cut.wanted = true;
    settle();
    hold(b);
    bench.now_ms += PS_HOLD_MS - 1;
    settle();
    ck_assert_int_eq(bench.core.cut.state, PS_COORD_CUT_HOLD);
    bench.now_ms += 1;
    settle();
    ck_assert_int_eq(bench.core.cut.state, PS_COORD_CUT_NOTE);
    ck_assert(!bench.core.cut.all_held);
    ck_assert_uint_eq(ps_coord_cut_hold(&bench.core.cut), 0); /* Nor does anybody hold on. */
    ps_coord_cut_noted(&bench.core.cut);
    ck_assert_uint_eq(ps_coord_cut_order(&bench.core.cut), 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(nobody_holds_while_a_server_does_not_take_its_part)
{
    begin(LOG);
    uint32_t a = bench_worker(&bench, 0);
    bench_define(&bench, &plain_job, &ssp);
    bench.core.cut.wanted = true;
    settle();
    hold(a);
    ps_coord_cut_noted(&bench.core.cut);
    say_cut(0, 1, 0, false);
    ck_assert_uint_eq(ps_coord_cut_hold(&bench.core.cut), 1);
    bench.now_ms += PS_HOLD_MS;
    settle();
    ck_assert_uint_eq(ps_coord_cut_hold(&bench.core.cut), 0);
    ck_assert_uint_eq(ps_coord_cut_order(&bench.core.cut), 1);
    ck_assert(!bench.core.cut.all_held);
    bench_deinit(&bench);
}
END_TEST

/* 0: it is silent for a moment, 1: it is back, and does not know its slots yet. */
START_TEST(a_cut_waits_for_servers_that_can_take_it)
{
    begin(LOG);
    if (_i == 0) {
        ps_coord_core_stream_up(&bench.core, bench.now_ms, bench.server[1]);
        ps_coord_core_stream_down(&bench.core, bench.now_ms, bench.server[1]);
    } else {
        bring(1);
        ck_assert_int_eq(start(9, 12, "host:2", &bench.server[1]), PS_OK);
    }
    bench.core.cut.wanted = true;
    settle();
    ck_assert(!ps_coord_cut_under_way(&bench.core.cut));
    say_cut(0, 0, 0, false);
    say_cut(1, 0, 0, false);
    ck_assert(ps_coord_cut_under_way(&bench.core.cut));
    bench_deinit(&bench);
}
END_TEST

/* 0: a server goes, 1: one returns, 2: one cannot write, 3: one does not take it. */
START_TEST(a_cut_is_given_up_when)
{
    begin(LOG);
    bench.core.cut.wanted = true;
    settle();
    ps_coord_cut_noted(&bench.core.cut);
    bring(1);
    switch (_i) {
    case 0: ps_coord_core_leave(&bench.core, bench.now_ms, bench.server[1]); break;
    case 1: ck_assert_int_eq(start(9, 12, "host:2", &bench.server[1]), PS_OK); break;
    case 2:
        say_cut(0, 1, 1, true);
        ck_assert_str_eq(bench.core.cut.why, "the disk is full");
        break;
    default: bench_pass(&bench, PS_CUT_TAKE_MS + 250, PS_COORD_NOBODY); break;
    }
    ck_assert_int_eq(bench.core.cut.state, PS_COORD_CUT_IDLE);
    ck_assert_uint_eq(bench.core.cut.given_up, 1);
    ck_assert_uint_eq(bench.core.cut.next, 2);
}
END_TEST

START_TEST(cuts_come_by_themselves_while_the_job_runs)
{
    begin(LOG);
    bench.core.options.snapshot_every_ms = 10000;
    (void)bench_worker(&bench, 0);
    (void)bench_worker(&bench, 1);
    bench_define(&bench, &plain_job, &ssp);
    bench_pass(&bench, 9000, PS_COORD_NOBODY);
    ck_assert(!ps_coord_cut_under_way(&bench.core.cut));
    bench_pass(&bench, 1250, PS_COORD_NOBODY);
    ck_assert(ps_coord_cut_under_way(&bench.core.cut));
    bench_deinit(&bench);
}
END_TEST

START_TEST(none_is_begun_while_a_server_is_away)
{
    begin(LOG);
    ps_coord_core_leave(&bench.core, bench.now_ms, bench.server[1]);
    bench.core.cut.wanted = true;
    settle();
    ck_assert(!ps_coord_cut_under_way(&bench.core.cut));
}
END_TEST

/* ---- The way back -------------------------------------------------------------------------- */

START_TEST(all_go_back_in_one_event)
{
    begin(LOG);
    uint32_t worker = bench_worker(&bench, 0);
    (void)bench_worker(&bench, 1);
    bench_define(&bench, &plain_job, &ssp);
    struct ps_lease_pool pool = bench.core.pool;
    struct ps_lease_range finished = {1, 3};
    struct ps_lease_begun begun = {5, 1};
    struct ps_lease_progress progress = {
        .finished = &finished, .n_finished = 1, .begun = &begun, .n_begun = 1};
    struct ps_error err;
    memset(bench.pool_memory, 0, ps_lease_pool_bytes(&pool.plan));
    ps_lease_pool_init(&pool, &bench.core.pool.plan, bench.pool_memory);
    ck_assert_int_eq(ps_lease_pool_resume(&pool, &progress, &err), PS_OK);
    struct ps_coord_back back = {
        .cut_generation = 4, .cut = 9, .min_clock = 6, .started = true, .pool = &pool};
    bench.core.dirty = false;
    ps_coord_go_back(&bench.core, bench.now_ms, &back, "why not");
    ck_assert(bench.core.dirty);
    ck_assert_int_eq(bench.core.state, PS_COORD_RESTORING);
    ck_assert_uint_eq(bench.core.generation, 5);
    ck_assert_uint_eq(bench.core.min_clock, 6);
    ck_assert_uint_eq(bench.core.placement.epoch[0], 2);
    ck_assert_uint_eq(bench.core.placement.epoch[1], 2);
    ck_assert(ps_member_ended(&bench.core.members[worker].life));
    ck_assert_uint_eq(bench.core.pool.n_finished, 3);
    ck_assert_uint_eq(bench.core.pool.units_done_total, 7);
    ck_assert(ps_coord_core_loads(&bench.core, bench.server[0]));
    /* It runs when all have loaded, and a newcomer goes on with what the cut left. */
    enum ps_status status;
    worker = bench_join(&bench, PS_COORD_WORKER, 2, &status);
    for (uint32_t i = 0; i < BENCH_SERVERS; i++) {
        ck_assert_int_eq(bench.core.state, PS_COORD_RESTORING);
        struct ps_coord_acks acks = {.placement = bench.core.placement.version,
                                     .sessions = bench.core.sessions_version,
                                     .loaded = 5};
        ps_coord_core_acks(&bench.core, bench.now_ms, bench.server[i], &acks);
    }
    ck_assert_int_eq(bench.core.state, PS_COORD_RUNNING);
    ck_assert_uint_eq(bench.core.members[worker].lease, 4);
    ck_assert_uint_eq(bench.core.members[worker].clock, 6);
    bench_deinit(&bench);
}
END_TEST

START_TEST(who_starts_again_during_a_restore_loads_anew)
{
    struct ps_coord_back back = {.cut_generation = 1, .cut = 9};
    begin(LOG);
    report_lines(7);
    ps_coord_go_back(&bench.core, bench.now_ms, &back, "why not");
    report_lines(9); /* It has loaded, */
    ck_assert(!ps_coord_core_loads(&bench.core, bench.server[1]));
    bring(9); /*       and its log says so; perhaps of some of its slots only. */
    brings.generation = bench.core.generation;
    ck_assert_int_eq(start(3, 12, "elsewhere:9", &bench.server[1]), PS_OK);
    ck_assert(ps_coord_core_loads(&bench.core, bench.server[1]));
    ck_assert_uint_eq(bench.core.lines[1].position, 0); /* No loss when it ends earlier now. */
    report_lines(8);
    ck_assert_uint_eq(bench.core.lines[1].position, 8);
    bench_ack(&bench, 0);
    struct ps_coord_acks acks = {.placement = bench.core.placement.version, .loaded = 2};
    ps_coord_core_acks(&bench.core, bench.now_ms, bench.server[0], &acks);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    ck_assert_int_eq(start(4, 12, "elsewhere:9", &bench.server[1]), PS_OK);
    ck_assert(!ps_coord_core_loads(&bench.core, bench.server[1])); /* It goes on from its log. */
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    struct ps_lease_range finished[2];
    size_t n_finished;
    struct ps_lease_begun begun[2];
    size_t n_begun;
    size_t n_part_rows;
} damaged[] = {
    {"a lease that is not there", {{1, 9}}, 1, {{0, 0}}, 0, 0},
    {"no lease",                  {{0, 1}}, 1, {{0, 0}}, 0, 0},
    {"backwards",                 {{3, 2}}, 1, {{0, 0}}, 0, 0},
    {"one twice",                 {{1, 3}, {3, 4}}, 2, {{0, 0}}, 0, 0},
    {"units of a finished one",   {{1, 3}}, 1, {{2, 1}}, 1, 0},
    {"too many units",            {{1, 3}}, 1, {{4, 3}}, 1, 0},
    {"the same lease twice",      {{1, 3}}, 1, {{4, 1}, {4, 1}}, 2, 0},
    {"rows of parts",             {{1, 3}}, 1, {{0, 0}}, 0, 1},
};
/* clang-format on */

START_TEST(progress_that_cannot_be_is_refused)
{
    static const uint64_t rows[1] = {5};
    struct ps_lease_plan plan;
    struct ps_lease_pool pool;
    struct ps_error err;
    static uint64_t memory[512];
    memset(memory, 0, sizeof(memory));
    ck_assert_int_eq(ps_lease_plan_make(&plain_job, &plan, &err), PS_OK);
    ck_assert_uint_le(ps_lease_pool_bytes(&plan), sizeof(memory));
    ps_lease_pool_init(&pool, &plan, memory);
    struct ps_lease_progress progress = {.finished = damaged[_i].finished,
                                         .n_finished = damaged[_i].n_finished,
                                         .begun = damaged[_i].begun,
                                         .n_begun = damaged[_i].n_begun,
                                         .part_rows = rows,
                                         .n_part_rows = damaged[_i].n_part_rows};
    ck_assert_msg(ps_lease_pool_resume(&pool, &progress, &err) == PS_ERR_CORRUPT, "%s",
                  damaged[_i].name);
}
END_TEST

/* A job over parts: what is known of them comes back with their rows. */
START_TEST(parts_come_back_with_their_rows)
{
    struct ps_lease_job job = {.batch = 5, .epochs = 2, .workers = 1, .parts = 3};
    struct ps_lease_range finished[] = {{1, 2}, {4, 4}};
    struct ps_lease_begun begun[] = {{3, 7}};
    uint64_t rows[3] = {1 + 12, 1 + 0, 0};
    struct ps_lease_progress progress = {finished, 2, begun, 1, rows, 3};
    struct ps_lease_plan plan;
    struct ps_lease_pool pool;
    struct ps_error err;
    static uint64_t memory[512];
    memset(memory, 0, sizeof(memory));
    ck_assert_int_eq(ps_lease_plan_make(&job, &plan, &err), PS_OK);
    ps_lease_pool_init(&pool, &plan, memory);
    ck_assert_int_eq(ps_lease_pool_resume(&pool, &progress, &err), PS_OK);
    ck_assert_uint_eq(pool.rows, 12);
    ck_assert_uint_eq(ps_lease_units_done(&pool, 1), 3);
    ck_assert_uint_eq(ps_lease_units_done(&pool, 2), 0);
    ck_assert_uint_eq(ps_lease_units_done(&pool, 3), 7);
    ck_assert_uint_eq(pool.units_done_total, 13);
    ck_assert_uint_eq(pool.n_trained[0], 2);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 3);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 5);
    ck_assert_uint_eq(ps_lease_pool_lend(&pool), 0); /* Part 2 is lent in the epoch before. */
}
END_TEST

Suite *suite_server_core(void)
{
    Suite *suite = suite_create("server_core");
    TCase *tcase = tcase_create("servers");
    tcase_add_test(tcase, a_server_in_memory_is_lost_when_it_goes);
    tcase_add_test(tcase, a_server_that_logs_is_away_and_waited_for);
    tcase_add_test(tcase, who_stays_away_is_lost_by_name);
    tcase_add_test(tcase, who_returns_has_its_place_under_new_epochs);
    tcase_add_test(tcase, who_starts_again_during_a_restore_loads_anew);
    tcase_add_loop_test(tcase, a_place_is_found_by, 0, (int)PS_ARRAY_LEN(returns));
    tcase_add_loop_test(tcase, what_it_brings_is_compared_with_what_it_had, 0,
                        (int)PS_ARRAY_LEN(losses));
    tcase_add_test(tcase, a_slot_that_lacks_what_a_client_was_told_is_data_lost);
    tcase_add_test(tcase, data_of_a_later_generation_are_refused);
    tcase_add_test(tcase, data_from_before_the_cluster_began_anew_are_refused);
    tcase_add_test(tcase, the_places_of_servers_that_are_away_are_not_used_again);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("cuts");
    tcase_add_test(tcase, a_cut_goes_from_hold_to_manifest);
    tcase_add_test(tcase, who_does_not_hold_in_time_is_not_waited_for);
    tcase_add_test(tcase, nobody_holds_while_a_server_does_not_take_its_part);
    tcase_add_loop_test(tcase, a_cut_waits_for_servers_that_can_take_it, 0, 2);
    tcase_add_loop_test(tcase, a_cut_is_given_up_when, 0, 4);
    tcase_add_test(tcase, cuts_come_by_themselves_while_the_job_runs);
    tcase_add_test(tcase, none_is_begun_while_a_server_is_away);
    tcase_add_test(tcase, all_go_back_in_one_event);
    tcase_add_loop_test(tcase, progress_that_cannot_be_is_refused, 0, (int)PS_ARRAY_LEN(damaged));
    tcase_add_test(tcase, parts_come_back_with_their_rows);
    suite_add_tcase(suite, tcase);
    return suite;
}
