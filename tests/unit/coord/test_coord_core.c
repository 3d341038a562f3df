/*
 * test_coord_core.c — the coordinator's rules one by one, each in the smallest cluster that shows
 * it. What holds in every schedule is in test_coord_random.c.
 */
#include <string.h>

#include "test_coord.h"

static struct bench bench;

static const struct ps_coord_consistency ssp = {.mode = PS_COORD_SSP, .bound = 2};
static const struct ps_coord_consistency averaged = {.mode = PS_COORD_BSP, .aggregate = true};

/* 8 leases of 2 units of 5 rows. */
static const struct ps_lease_job plain_job = {
    .rows = 80, .batch = 5, .epochs = 1, .workers = 2, .units_per_lease = 2};
/* 6 steps in runs of 2, two ways of 5 rows: 6 leases. */
static const struct ps_lease_job averaged_job = {
    .rows = 60, .batch = 10, .epochs = 1, .workers = 2, .units_per_lease = 2, .aggregate = true};

static const struct ps_coord_member *at(uint32_t member)
{
    return &bench.core.members[member];
}

static void kill_member(uint32_t member)
{
    ps_coord_core_stream_down(&bench.core, bench.now_ms, member);
    bench_pass(&bench, 1250, member);
    ck_assert_int_eq(at(member)->life.state, PS_MEMBER_DEAD);
}

/* ---- Members ------------------------------------------------------------------------------- */

START_TEST(slots_are_placed_when_all_servers_have_joined)
{
    enum ps_status status;
    bench_init(&bench, false);
    uint32_t first = bench_join(&bench, PS_COORD_SERVER, 0, &status);
    ck_assert_uint_eq(bench.core.placement.version, 0);
    uint32_t again = bench_join(&bench, PS_COORD_SERVER, 0, &status);
    ck_assert_uint_eq(again, first);
    ck_assert_uint_eq(bench.core.placement.version, 0);
    uint32_t second = bench_join(&bench, PS_COORD_SERVER, 1, &status);
    ck_assert_uint_eq(bench.core.placement.version, 1);
    ck_assert_uint_eq(at(first)->server, 0);
    ck_assert_uint_eq(at(second)->server, 1);
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        ck_assert_uint_eq(bench.core.placement.primary[slot], slot % 2);
        ck_assert_uint_eq(bench.core.placement.epoch[slot], 1);
    }
    (void)bench_join(&bench, PS_COORD_SERVER, 2, &status);
    ck_assert_int_eq(status, PS_ERR_EXISTS);
    (void)bench_join(&bench, PS_COORD_SERVER, 1, &status);
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

START_TEST(a_server_that_dies_before_the_placement_frees_its_place)
{
    enum ps_status status;
    bench_init(&bench, false);
    uint32_t first = bench_join(&bench, PS_COORD_SERVER, 0, &status);
    kill_member(first);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    uint32_t second = bench_join(&bench, PS_COORD_SERVER, 1, &status);
    ck_assert_uint_eq(at(second)->server, 0);
}
END_TEST

START_TEST(a_server_restarted_before_the_placement_replaces_its_former_self)
{
    bench_init(&bench, false);
    struct ps_coord_join join = {.kind = PS_COORD_SERVER, .name = "a", .address = "host:1"};
    uint32_t first = 0;
    uint32_t second = 0;
    struct ps_error err;
    join.session.bytes[0] = 1;
    ck_assert_int_eq(ps_coord_core_join(&bench.core, 1000, &join, &first, &err), PS_OK);
    join.session.bytes[0] = 2;
    ck_assert_int_eq(ps_coord_core_join(&bench.core, 1000, &join, &second, &err), PS_OK);
    ck_assert_uint_eq(bench.core.placement.version, 0);
    ck_assert_uint_eq(ps_coord_core_servers(&bench.core), 1);
    ck_assert(ps_member_ended(&at(first)->life));
}
END_TEST

START_TEST(a_session_is_open_when_every_server_has_a_list_with_it)
{
    enum ps_status status;
    bench_init(&bench, false);
    uint32_t worker = bench_join(&bench, PS_COORD_WORKER, 7, &status);
    bench.server[0] = bench_join(&bench, PS_COORD_SERVER, 0, &status);
    bench.server[1] = bench_join(&bench, PS_COORD_SERVER, 1, &status);
    ck_assert(!ps_coord_core_open(&bench.core, worker));
    bench_ack(&bench, 0);
    ck_assert(!ps_coord_core_open(&bench.core, worker));
    bench_ack(&bench, 1);
    ck_assert(ps_coord_core_open(&bench.core, worker));
}
END_TEST

START_TEST(an_acknowledgement_of_what_was_never_sent_counts_for_nothing)
{
    enum ps_status status;
    bench_init(&bench, true);
    struct ps_coord_acks lie = {.sessions = 1000};
    for (uint32_t i = 0; i < BENCH_SERVERS; i++) {
        ps_coord_core_acks(&bench.core, bench.now_ms, bench.server[i], &lie);
    }
    uint32_t worker = bench_join(&bench, PS_COORD_WORKER, 0, &status);
    ck_assert(!ps_coord_core_open(&bench.core, worker));
}
END_TEST

START_TEST(sessions_are_bounded)
{
    enum ps_status status;
    bench_init(&bench, true);
    uint32_t first = bench_join(&bench, PS_COORD_READER, 0, &status);
    for (uint32_t i = 1; i < PS_SESSIONS_MAX; i++) {
        (void)bench_join(&bench, PS_COORD_READER, i, &status);
        ck_assert_int_eq(status, PS_OK);
    }
    (void)bench_join(&bench, PS_COORD_READER, PS_SESSIONS_MAX, &status);
    ck_assert_int_eq(status, PS_ERR_BUSY);
    /* One that has ended takes its place until every server has closed it. */
    ps_coord_core_leave(&bench.core, bench.now_ms, first);
    (void)bench_join(&bench, PS_COORD_READER, PS_SESSIONS_MAX, &status);
    ck_assert_int_eq(status, PS_ERR_BUSY);
    bench_ack_all(&bench);
    (void)bench_join(&bench, PS_COORD_READER, PS_SESSIONS_MAX, &status);
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

START_TEST(places_of_the_ended_are_used_again)
{
    enum ps_status status;
    bench_init(&bench, true);
    for (uint32_t i = 0; i < 3 * PS_COORD_MEMBERS_MAX; i++) {
        uint32_t reader = bench_join(&bench, PS_COORD_READER, i, &status);
        ck_assert_int_eq(status, PS_OK);
        ps_coord_core_leave(&bench.core, bench.now_ms, reader);
        bench_ack_all(&bench);
    }
    (void)bench_join(&bench, PS_COORD_READER, 3 * PS_COORD_MEMBERS_MAX - 1, &status);
    ck_assert_int_eq(status, PS_ERR_FENCED); /* The last ones are remembered. */
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
}
END_TEST

START_TEST(a_lost_server_is_the_end_and_its_name_is_told)
{
    bench_init(&bench, true);
    bench_pass(&bench, 5250, bench.server[1]);
    ck_assert_int_eq(bench.core.state, PS_COORD_LOST);
    ck_assert_str_eq(bench.core.reason, "server 1 (host:1) is lost: silent for 5 s");
    enum ps_status status;
    (void)bench_join(&bench, PS_COORD_WORKER, 0, &status);
    ck_assert_int_eq(status, PS_ERR_LOST);
}
END_TEST

START_TEST(a_server_whose_stream_broke_is_lost_after_the_grace)
{
    bench_init(&bench, true);
    ps_coord_core_stream_down(&bench.core, bench.now_ms, bench.server[0]);
    bench_pass(&bench, 1000, bench.server[0]);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    bench_pass(&bench, 125, bench.server[0]);
    ck_assert_int_eq(bench.core.state, PS_COORD_LOST);
    ck_assert_ptr_nonnull(strstr(bench.core.reason, "its stream broke"));
}
END_TEST

START_TEST(servers_may_go_once_the_job_was_stopped)
{
    bench_init(&bench, true);
    ps_coord_core_stop(&bench.core, bench.now_ms, "enough");
    ps_coord_core_leave(&bench.core, bench.now_ms, bench.server[0]);
    ck_assert_int_eq(bench.core.state, PS_COORD_STOPPED);
    ck_assert_str_eq(bench.core.reason, "enough");
}
END_TEST

START_TEST(a_detector_that_was_away_forgives_everybody)
{
    bench_init(&bench, true);
    bench.now_ms += 60000;
    ps_coord_core_tick(&bench.core, bench.now_ms);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    bench_pass(&bench, 4875, bench.server[0]);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    bench_pass(&bench, 250, bench.server[0]);
    ck_assert_int_eq(bench.core.state, PS_COORD_LOST);
}
END_TEST

/* ---- Plain leases and clocks --------------------------------------------------------------- */

START_TEST(training_starts_when_the_workers_are_there)
{
    bench_init(&bench, true);
    uint32_t a = bench_worker(&bench, 0);
    bench_define(&bench, &plain_job, &ssp);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    ck_assert_uint_eq(at(a)->lease, 0);
    uint32_t b = bench_worker(&bench, 1);
    ck_assert_int_eq(bench.core.state, PS_COORD_RUNNING);
    ck_assert_uint_eq(at(a)->lease, 1);
    ck_assert_uint_eq(at(b)->lease, 2);
    bench_deinit(&bench);
}
END_TEST

START_TEST(training_starts_with_fewer_after_the_timeout)
{
    bench_init(&bench, true);
    uint32_t a = bench_worker(&bench, 0);
    bench_define(&bench, &plain_job, &ssp);
    bench.core.job.start_timeout_ms = 3000;
    bench_pass(&bench, 2875, PS_COORD_NOBODY);
    ck_assert_uint_eq(at(a)->lease, 0);
    bench_pass(&bench, 125, PS_COORD_NOBODY);
    ck_assert_uint_eq(at(a)->lease, 1);
    bench_deinit(&bench);
}
END_TEST

static uint32_t join_unleased(void)
{
    struct ps_coord_join join = {
        .kind = PS_COORD_WORKER, .session.bytes = {99}, .name = "own", .address = ""};
    join.unleased = true;
    struct ps_error err;
    uint32_t member = PS_COORD_NOBODY;
    ck_assert_int_eq(ps_coord_core_join(&bench.core, bench.now_ms, &join, &member, &err), PS_OK);
    bench_ack_all(&bench);
    ck_assert(ps_coord_core_open(&bench.core, member));
    return member;
}

START_TEST(a_worker_with_rows_of_its_own_is_lent_none_and_not_waited_for)
{
    bench_init(&bench, true);
    uint32_t own = join_unleased();
    uint32_t a = bench_worker(&bench, 0);
    bench_define(&bench, &plain_job, &ssp);
    bench.core.job.start_timeout_ms = 3000;
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING); /* The job is for two others. */
    uint32_t b = bench_worker(&bench, 1);
    ck_assert_int_eq(bench.core.state, PS_COORD_RUNNING);
    ck_assert_uint_eq(at(own)->lease, 0);
    bench_report(&bench, own, 1000000, 0, 0);
    ck_assert_uint_eq(bench.core.min_clock, 0);
    bench_report(&bench, a, 1, 1, 1);
    bench_report(&bench, b, 1, 2, 1);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    for (uint64_t lease = 3; lease <= 10; lease++) { /* Whoever is free takes the next; not it. */
        uint32_t who = lease % 2 == 1 ? a : b;
        bench_report(&bench, who, lease, at(who)->lease, 2);
        ck_assert_uint_eq(at(own)->lease, 0);
    }
    ck_assert_int_eq(bench.core.state, PS_COORD_DONE);
    ck_assert_uint_eq(bench.core.min_clock, 8);
    bench_deinit(&bench);
}
END_TEST

START_TEST(a_worker_with_rows_of_its_own_does_not_start_the_wait_for_others)
{
    bench_init(&bench, true);
    (void)join_unleased();
    bench_define(&bench, &plain_job, &ssp);
    bench.core.job.start_timeout_ms = 3000;
    bench_pass(&bench, 4000, PS_COORD_NOBODY);
    uint32_t a = bench_worker(&bench, 0);
    bench_pass(&bench, 2875, PS_COORD_NOBODY);
    ck_assert_int_eq(bench.core.state, PS_COORD_WAITING);
    bench_pass(&bench, 125, PS_COORD_NOBODY);
    ck_assert_uint_eq(at(a)->lease, 1);
    bench_deinit(&bench);
}
END_TEST

/* Two workers with leases 1 and 2. */
static void start_plain(uint32_t *a, uint32_t *b)
{
    bench_init(&bench, true);
    *a = bench_worker(&bench, 0);
    *b = bench_worker(&bench, 1);
    bench_define(&bench, &plain_job, &ssp);
    ck_assert_uint_eq(at(*b)->lease, 2);
}

START_TEST(the_min_clock_is_the_smallest_counted_clock)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, a, 1, 1, 1);
    ck_assert_uint_eq(bench.core.min_clock, 0);
    bench_report(&bench, b, 1, 2, 1);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    bench_report(&bench, b, 0, 2, 0); /* An old report that comes late. */
    ck_assert_uint_eq(bench.core.min_clock, 1);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 2), 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(who_finishes_goes_on_in_the_same_event_and_keeps_its_clock)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, b, 2, 2, 2);
    bench_report(&bench, b, 4, 3, 2);
    bench_report(&bench, b, 5, 4, 1);
    bench_report(&bench, a, 2, 1, 2);
    ck_assert_uint_eq(at(a)->lease, 5);
    ck_assert_uint_eq(at(a)->lease_clock, 2); /* Not 5: it never stopped to count. */
    ck_assert_uint_eq(bench.core.min_clock, 2);
    ck_assert_uint_eq(bench.core.finished_version, 3);
    bench_deinit(&bench);
}
END_TEST

START_TEST(a_report_for_another_lease_changes_nothing)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, a, 9, 2, 2);
    bench_report(&bench, a, 9, 0, 0);
    ck_assert_uint_eq(at(a)->clock, 0);
    bench_report(&bench, a, 1, 1, 3); /* More units than the lease has. */
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 1), 0);
    ck_assert_uint_eq(bench.core.finished_version, 0);
    bench_deinit(&bench);
}
END_TEST

/* A min clock that has risen never falls: one wrong number would open every gate for good. */
START_TEST(a_clock_goes_as_far_as_its_units_and_no_further)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, b, 2, 2, 2);
    bench_report(&bench, a, UINT64_MAX, 1, 1);
    ck_assert_uint_eq(at(a)->clock, 1);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    bench_report(&bench, a, UINT64_MAX, 1, 1); /* Again. */
    ck_assert_uint_eq(at(a)->clock, 1);
    bench_report(&bench, a, 0, 1, 0); /* It does not go back either. */
    ck_assert_uint_eq(at(a)->clock, 1);
    bench_report(&bench, a, UINT64_MAX, 1, 3); /* Units that the lease does not have. */
    ck_assert_uint_eq(at(a)->clock, 1);
    bench_report(&bench, a, UINT64_MAX, 1, 2);
    ck_assert_uint_eq(at(a)->lease_clock, 2);
    ck_assert_uint_eq(at(a)->lease, 4);
    bench_report(&bench, a, 3, 4, 1);
    ck_assert_uint_eq(at(a)->clock, 3);
    bench_deinit(&bench);
}
END_TEST

/* The units that the former holder has done are not the new one's. */
START_TEST(a_lease_that_came_back_half_done_starts_the_clock_anew)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, a, 1, 1, 1);
    ps_coord_core_leave(&bench.core, bench.now_ms, a);
    bench_ack_all(&bench);
    bench_report(&bench, b, 2, 2, 2);
    ck_assert_uint_eq(at(b)->lease, 1);
    ck_assert_uint_eq(at(b)->lease_clock, 2);
    bench_report(&bench, b, UINT64_MAX, 1, 1); /* What was done before. */
    ck_assert_uint_eq(at(b)->clock, 2);
    bench_report(&bench, b, UINT64_MAX, 1, 2);
    ck_assert_uint_eq(at(b)->clock, 3);
    bench_deinit(&bench);
}
END_TEST

START_TEST(what_an_idle_session_says_of_its_clock_is_not_believed)
{
    bench_init(&bench, true);
    uint32_t a = bench_worker(&bench, 0);
    bench_report(&bench, a, UINT64_MAX, 0, 0); /* No job yet. */
    ck_assert_uint_eq(at(a)->clock, 0);
    uint32_t b = bench_worker(&bench, 1);
    bench_define(&bench, &plain_job, &ssp);
    ck_assert_uint_eq(at(a)->lease_clock, 0);
    bench_report(&bench, b, 1, 2, 1);
    bench_report(&bench, a, 1, 1, 1);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(the_dead_count_until_every_server_has_closed_them)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, b, 1, 2, 1);
    kill_member(a);
    ck_assert_uint_eq(bench.core.min_clock, 0);
    ck_assert_uint_eq(at(a)->lease, 1);
    bench_ack(&bench, 0);
    ck_assert_uint_eq(bench.core.min_clock, 0);
    ck_assert_uint_eq(at(a)->lease, 1);
    bench_ack(&bench, 1);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    ck_assert_uint_eq(at(a)->lease, 0);
    ck_assert_uint_eq(bench.core.sessions_lost, 1);
    /* The next lease to be lent is the one that came back. */
    bench_report(&bench, b, 2, 2, 2);
    ck_assert_uint_eq(at(b)->lease, 1);
    bench_deinit(&bench);
}
END_TEST

#ifdef PS_PLANT
START_TEST(the_planted_bug_keeps_the_dead_in_the_minimum_for_ever)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench.core.options.plant = PS_COORD_PLANT_DEAD_IN_MINIMUM;
    bench_report(&bench, b, 1, 2, 1);
    kill_member(a);
    bench_ack_all(&bench);
    ck_assert_uint_eq(bench.core.min_clock, 0);
    bench_deinit(&bench);
}
END_TEST
#endif

START_TEST(who_leaves_is_not_lost)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    ps_coord_core_leave(&bench.core, bench.now_ms, a);
    bench_ack_all(&bench);
    ck_assert_uint_eq(at(a)->lease, 0);
    ck_assert_uint_eq(bench.core.sessions_lost, 0);
    ck_assert_uint_eq(bench.core.n_returned, 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(an_idle_session_takes_the_min_clock_when_it_is_lent_a_lease)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, a, 1, 1, 1);
    bench_report(&bench, b, 2, 2, 2);
    uint32_t c = bench_worker(&bench, 2);
    ck_assert_uint_eq(at(c)->lease, 4);
    ck_assert_uint_eq(at(c)->lease_clock, 1);
    ck_assert_uint_eq(at(c)->clock, 1);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(with_nobody_counted_the_min_clock_stays)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, a, 1, 1, 1);
    bench_report(&bench, b, 1, 2, 1);
    ps_coord_core_leave(&bench.core, bench.now_ms, a);
    ps_coord_core_leave(&bench.core, bench.now_ms, b);
    bench_ack_all(&bench);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    uint32_t c = bench_worker(&bench, 2);
    ck_assert_uint_eq(at(c)->lease_clock, 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(the_job_is_done_when_every_lease_is_finished)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench.core.dirty = false;
    uint64_t clock = 0;
    for (uint32_t i = 0; i < 7; i++) { /* a does all but b's. */
        clock += 2;
        bench_report(&bench, a, clock, at(a)->lease, 2);
    }
    ck_assert(bench.core.dirty);
    ck_assert_uint_eq(at(a)->lease, 0);
    ck_assert_int_eq(bench.core.state, PS_COORD_RUNNING);
    bench_report(&bench, b, 2, 2, 2);
    ck_assert_int_eq(bench.core.state, PS_COORD_DONE);
    bench_deinit(&bench);
}
END_TEST

START_TEST(nobody_who_ran_ahead_waits_for_a_clock_when_the_job_is_done)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    bench_report(&bench, b, 1, 2, 1);
    uint64_t clock = 0;
    while (at(a)->lease != 0) {
        clock += 2;
        bench_report(&bench, a, clock, at(a)->lease, 2);
    }
    ck_assert_uint_eq(bench.core.min_clock, 1);
    bench_report(&bench, b, 2, 2, 2); /* Nobody counts any more, and a waits for its clock. */
    ck_assert_int_eq(bench.core.state, PS_COORD_DONE);
    ck_assert_uint_eq(bench.core.min_clock, clock);
    bench_deinit(&bench);
}
END_TEST

START_TEST(a_suspect_is_lent_nothing_until_it_speaks)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_plain(&a, &b);
    enum ps_status status;
    uint32_t c = bench_join(&bench, PS_COORD_WORKER, 2, &status);
    ps_coord_core_stream_down(&bench.core, bench.now_ms, c); /* Still joining. */
    bench_ack_all(&bench);
    ck_assert_uint_ne(at(c)->lease, 0); /* To be let in is a sign of life. */
    ps_coord_core_leave(&bench.core, bench.now_ms, c);
    bench_ack_all(&bench);
    uint32_t d = bench_join(&bench, PS_COORD_WORKER, 3, &status);
    ck_assert_int_eq(at(d)->life.state, PS_MEMBER_JOINING);
    ck_assert_uint_eq(at(d)->lease, 0);
    bench_deinit(&bench);
}
END_TEST

/* ---- Aggregated bsp ------------------------------------------------------------------------ */

static void start_averaged(uint32_t *a, uint32_t *b, uint32_t n_backups)
{
    struct ps_coord_consistency consistency = averaged;
    consistency.n_backups = n_backups;
    bench_init(&bench, true);
    *a = bench_worker(&bench, 0);
    *b = bench_worker(&bench, 1);
    bench_define(&bench, &averaged_job, &consistency);
    ck_assert_uint_eq(at(*a)->lease, 1);
    ck_assert_uint_eq(at(*b)->lease, 2);
}

START_TEST(a_step_closes_when_all_have_staged_and_counts_when_all_servers_have_closed_it)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_averaged(&a, &b, 0);
    bench_stage(&bench, b, 5);
    ck_assert(!bench.core.close.decided);
    bench_stage(&bench, a, 4);
    const struct ps_coord_close *close = &bench.core.close;
    ck_assert(close->pending);
    ck_assert_uint_eq(close->step, 0);
    ck_assert_uint_eq(close->n_entries, 2);
    ck_assert_uint_eq(close->entries[0].lease, 1);
    ck_assert_uint_eq(close->entries[0].session_number, at(a)->number);
    ck_assert_uint_eq(close->entries[0].rows, 4);
    ck_assert_uint_eq(close->entries[1].lease, 2);
    bench_ack(&bench, 0);
    ck_assert_uint_eq(bench.core.min_clock, 0);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 1), 0);
    bench_ack(&bench, 1);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    ck_assert_uint_eq(at(a)->clock, 1);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 1), 1);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 2), 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(leases_that_end_together_are_followed_in_the_order_of_sessions)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_averaged(&a, &b, 0);
    for (uint32_t step = 0; step < 2; step++) {
        bench_stage(&bench, b, 5);
        bench_stage(&bench, a, 5);
        bench_ack_all(&bench);
    }
    ck_assert_uint_eq(at(a)->lease, 3);
    ck_assert_uint_eq(at(b)->lease, 4);
    ck_assert_uint_eq(at(b)->clock, 2);
    bench_deinit(&bench);
}
END_TEST

START_TEST(with_a_backup_the_slowest_is_not_waited_for_and_its_unit_stays_undone)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_averaged(&a, &b, 1);
    bench_stage(&bench, a, 5);
    ck_assert(bench.core.close.pending);
    bench_stage(&bench, b, 5); /* Too late for step 0. */
    bench_ack_all(&bench);
    ck_assert_uint_eq(bench.core.min_clock, 1);
    ck_assert_uint_eq(at(b)->clock, 1);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 1), 1);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 2), 0);
    ck_assert(!at(b)->staged.is);
    /* It says again what it staged for step 0: that was dropped, and is not staged for step 1. */
    struct ps_coord_progress old = {.lease = 2, .staged_step = 1, .staged_rows = 5};
    ps_coord_core_progress(&bench.core, bench.now_ms, b, &old);
    ck_assert(!at(b)->staged.is);
    bench_deinit(&bench);
}
END_TEST

START_TEST(a_late_report_of_a_closed_step_stages_nothing)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_averaged(&a, &b, 0);
    struct ps_coord_progress old = {.lease = 1, .staged_step = 1, .staged_rows = 5};
    bench_stage(&bench, a, 5);
    bench_stage(&bench, b, 5);
    bench_ack_all(&bench);
    ps_coord_core_progress(&bench.core, bench.now_ms, a, &old);
    ck_assert(!at(a)->staged.is);
    bench_deinit(&bench);
}
END_TEST

START_TEST(who_staged_and_died_is_on_the_list)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_averaged(&a, &b, 0);
    bench_stage(&bench, a, 5);
    kill_member(a);
    bench_ack_all(&bench); /* Closed everywhere, but its unit is not free before the step is. */
    ck_assert_uint_eq(at(a)->lease, 1);
    bench_stage(&bench, b, 5);
    ck_assert_uint_eq(bench.core.close.n_entries, 2);
    bench_ack_all(&bench);
    ck_assert_uint_eq(at(a)->lease, 0);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 1), 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(who_died_without_staging_is_not_waited_for)
{
    uint32_t a = 0;
    uint32_t b = 0;
    start_averaged(&a, &b, 0);
    bench_stage(&bench, b, 5);
    kill_member(a);
    ck_assert(bench.core.close.pending);
    ck_assert_uint_eq(bench.core.close.n_entries, 1);
    bench_ack_all(&bench);
    ck_assert_uint_eq(at(a)->lease, 0);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 1), 0);
    uint32_t c = bench_worker(&bench, 2);
    ck_assert_uint_eq(at(c)->lease, 1);
    ck_assert_uint_eq(at(c)->clock, 1);
    bench_deinit(&bench);
}
END_TEST

START_TEST(the_only_worker_may_die_at_any_moment)
{
    bench_init(&bench, true);
    struct ps_lease_job job = averaged_job;
    job.workers = 1;
    uint32_t a = bench_worker(&bench, 0);
    bench_define(&bench, &job, &averaged);
    if (_i == 1) {
        bench_stage(&bench, a, 10);
        ck_assert(bench.core.close.pending);
    }
    kill_member(a);
    bench_ack_all(&bench);
    uint32_t b = bench_worker(&bench, 1);
    ck_assert_uint_eq(at(b)->lease, 1);
    ck_assert_uint_eq(ps_lease_units_done(&bench.core.pool, 1), (uint32_t)_i);
    bench_deinit(&bench);
}
END_TEST

START_TEST(a_unit_without_rows_is_staged_too)
{
    /* 11 rows: the second step has one row, so the second way has none. */
    bench_init(&bench, true);
    struct ps_lease_job job = {.rows = 11,
                               .batch = 10,
                               .epochs = 1,
                               .workers = 2,
                               .units_per_lease = 2,
                               .aggregate = true};
    uint32_t a = bench_worker(&bench, 0);
    uint32_t b = bench_worker(&bench, 1);
    bench_define(&bench, &job, &averaged);
    for (uint32_t step = 0; step < 2; step++) {
        bench_stage(&bench, a, step == 0 ? 5 : 1);
        bench_stage(&bench, b, step == 0 ? 5 : 0);
        ck_assert_uint_eq(bench.core.close.n_entries, 2);
        bench_ack_all(&bench);
    }
    ck_assert_int_eq(bench.core.state, PS_COORD_DONE);
    uint32_t min = 0;
    uint32_t max = 0;
    ps_lease_pool_trained(&bench.core.pool, &min, &max);
    ck_assert_uint_eq(min, 1);
    ck_assert_uint_eq(max, 1);
    bench_deinit(&bench);
}
END_TEST

Suite *suite_coord_core(void)
{
    Suite *suite = suite_create("coord_core");
    TCase *tcase = tcase_create("members");
    tcase_add_test(tcase, slots_are_placed_when_all_servers_have_joined);
    tcase_add_test(tcase, a_server_that_dies_before_the_placement_frees_its_place);
    tcase_add_test(tcase, a_server_restarted_before_the_placement_replaces_its_former_self);
    tcase_add_test(tcase, a_session_is_open_when_every_server_has_a_list_with_it);
    tcase_add_test(tcase, an_acknowledgement_of_what_was_never_sent_counts_for_nothing);
    tcase_add_test(tcase, sessions_are_bounded);
    tcase_add_test(tcase, places_of_the_ended_are_used_again);
    tcase_add_test(tcase, a_lost_server_is_the_end_and_its_name_is_told);
    tcase_add_test(tcase, a_server_whose_stream_broke_is_lost_after_the_grace);
    tcase_add_test(tcase, servers_may_go_once_the_job_was_stopped);
    tcase_add_test(tcase, a_detector_that_was_away_forgives_everybody);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("plain");
    tcase_add_test(tcase, training_starts_when_the_workers_are_there);
    tcase_add_test(tcase, training_starts_with_fewer_after_the_timeout);
    tcase_add_test(tcase, a_worker_with_rows_of_its_own_is_lent_none_and_not_waited_for);
    tcase_add_test(tcase, a_worker_with_rows_of_its_own_does_not_start_the_wait_for_others);
    tcase_add_test(tcase, the_min_clock_is_the_smallest_counted_clock);
    tcase_add_test(tcase, who_finishes_goes_on_in_the_same_event_and_keeps_its_clock);
    tcase_add_test(tcase, a_report_for_another_lease_changes_nothing);
    tcase_add_test(tcase, a_clock_goes_as_far_as_its_units_and_no_further);
    tcase_add_test(tcase, a_lease_that_came_back_half_done_starts_the_clock_anew);
    tcase_add_test(tcase, what_an_idle_session_says_of_its_clock_is_not_believed);
    tcase_add_test(tcase, the_dead_count_until_every_server_has_closed_them);
#ifdef PS_PLANT
    tcase_add_test(tcase, the_planted_bug_keeps_the_dead_in_the_minimum_for_ever);
#endif
    tcase_add_test(tcase, who_leaves_is_not_lost);
    tcase_add_test(tcase, an_idle_session_takes_the_min_clock_when_it_is_lent_a_lease);
    tcase_add_test(tcase, with_nobody_counted_the_min_clock_stays);
    tcase_add_test(tcase, the_job_is_done_when_every_lease_is_finished);
    tcase_add_test(tcase, nobody_who_ran_ahead_waits_for_a_clock_when_the_job_is_done);
    tcase_add_test(tcase, a_suspect_is_lent_nothing_until_it_speaks);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("averaged");
    tcase_add_test(tcase,
                   a_step_closes_when_all_have_staged_and_counts_when_all_servers_have_closed_it);
    tcase_add_test(tcase, leases_that_end_together_are_followed_in_the_order_of_sessions);
    tcase_add_test(tcase, with_a_backup_the_slowest_is_not_waited_for_and_its_unit_stays_undone);
    tcase_add_test(tcase, a_late_report_of_a_closed_step_stages_nothing);
    tcase_add_test(tcase, who_staged_and_died_is_on_the_list);
    tcase_add_test(tcase, who_died_without_staging_is_not_waited_for);
    tcase_add_loop_test(tcase, the_only_worker_may_die_at_any_moment, 0, 2);
    tcase_add_test(tcase, a_unit_without_rows_is_staged_too);
    suite_add_tcase(suite, tcase);
    return suite;
}
