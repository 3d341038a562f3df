/*
 * test_attend.c — a server's membership, against a coordinator that the test plays: what is said is
 * applied by every lane and then acknowledged; broken streams, silence, fences and lies.
 */
#include <string.h>

#include "attend_rig.h"
#include "lib/test_main.h"
#include "obs/log.h"
#include "suites.h"
#include "wire/pack.h"

START_TEST(a_server_joins_then_attends_and_says_who_it_is)
{
    open_all();
    ck_assert_uint_eq(n_joins, 1);
    ck_assert_uint_eq(n_streams, 1);
    ck_assert_uint_ge(n_reports, 1);
    ck_assert_uint_eq(seen.number, NUMBER);
    ck_assert_uint_eq(seen.placement, 0);
    ck_assert(view().joined);
    ck_assert_uint_eq(view().index, 1);
    uint32_t n_before = n_reports;
    pass_ms(2 * PS_HEARTBEAT_MS + 20);
    ck_assert_uint_eq(n_reports, n_before + 2); /* Heartbeats. */
    close_all();
}
END_TEST

START_TEST(versions_are_acknowledged_when_every_lane_has_them)
{
    open_all();
    say_all(4);
    ck_assert_uint_eq(seen.placement, 4);
    ck_assert_uint_eq(seen.sessions, 4);
    ck_assert_uint_eq(seen.finished, 4);
    ck_assert_uint_eq(seen.closed_steps, 5);
    ck_assert_uint_eq(seen.catalogue, 1);
    ck_assert_uint_eq(atomic_load(&catalogue.n_tables), 1);
    ck_assert_str_eq(catalogue.tables[0].spec.name, "w");
    ck_assert_uint_eq(atomic_load(&svc.generation), 1);
    ck_assert_uint_gt(atomic_load(&mem.used[PS_MEM_PAGES]), 5000 * sizeof(float));
    close_all();
}
END_TEST

START_TEST(a_deposed_coordinator_is_not_listened_to)
{
    open_all();
    Ps__V1__AttendState state = plain(9);
    say(&state);
    say_all(4); /* Of term 1. */
    pass_ms(PS_HEARTBEAT_MS + 20);
    ck_assert_uint_eq(seen.term, 9);
    ck_assert_uint_eq(seen.placement, 0);
    ck_assert_uint_eq(atomic_load(&catalogue.n_tables), 0);
    close_all();
}
END_TEST

static void ignore_update(struct ps_lane_update *update)
{
    (void)update;
}

/* What the log of an earlier life says of the terms, only the lanes know. */
static void raise_terms(uint64_t term)
{
    static struct ps_lane_update update;
    update = (struct ps_lane_update){.term = term, .generation = 1, .done = ignore_update};
    atomic_init(&update.status, PS_OK);
    atomic_init(&update.n_pending, 1);
    ps_lane_post_update(lanes[1], &update);
    ps_inline_exec_pump(&exec);
}

START_TEST(what_a_lane_holds_for_stale_is_not_acknowledged)
{
    open_all();
    raise_terms(9);
    say_all(4); /* Of term 1. */
    pass_ms(1000);
    ck_assert_uint_eq(n_streams, 2); /* Whoever it is may say it all again. */
    ck_assert_uint_eq(seen.placement, 0);
    ck_assert_uint_eq(seen.sessions, 0);
    ck_assert_uint_eq(seen.finished, 0);
    ck_assert_uint_eq(seen.closed_steps, 0);
    ck_assert_uint_eq(seen.catalogue, 0);
    ck_assert_uint_eq(atomic_load(&catalogue.n_tables), 0);
    ck_assert(!view().placed);
    ck_assert_int_eq(view().lost.status, PS_OK);
    close_all();
}
END_TEST

START_TEST(a_broken_stream_is_opened_again_without_joining)
{
    open_all();
    say_all(4);
    ps_stream_close(stream, PS_ERR_UNAVAIL);
    pass_ms(1000);
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(n_streams, 2);
    ck_assert_uint_eq(n_joins, 1);
    ck_assert_uint_eq(seen.placement, 4); /* What is applied stays acknowledged. */
    ck_assert_int_eq(view().lost.status, PS_OK);
    close_all();
}
END_TEST

START_TEST(a_state_that_cannot_be_read_starts_the_stream_over)
{
    open_all();
    static const uint8_t junk[] = {0x1a, 0x7f};
    struct ps_out out = {.head = junk, .n_head_bytes = sizeof(junk)};
    ck_assert_int_eq(ps_stream_send(stream, &out), PS_OK);
    pass_ms(1000);
    ck_assert_uint_eq(n_streams, 2);
    ck_assert_int_eq(view().lost.status, PS_OK);
    close_all();
}
END_TEST

START_TEST(a_fenced_server_says_so_once)
{
    open_all();
    uint32_t n_before = n_changed;
    static char reason[] = "two of you";
    Ps__V1__AttendState state = plain(1);
    state.fenced = true;
    state.reason = reason;
    say(&state);
    say(&state);
    ck_assert_int_eq(view().lost.status, PS_ERR_FENCED);
    ck_assert_ptr_nonnull(strstr(view().lost.text, reason));
    ck_assert_uint_eq(n_changed, n_before + 1);
    close_all();
}
END_TEST

START_TEST(another_cluster_at_the_coordinators_address_is_told)
{
    open_all();
    uint8_t cluster[16] = {CLUSTER + 1};
    Ps__V1__AttendState state =
        plain(_i == 0 ? 9 : 0); /* Its terms have nothing to do with ours. */
    state.fenced = true;
    state.cluster_id = (ProtobufCBinaryData){sizeof(cluster), cluster};
    say(&state);
    ck_assert_int_eq(view().lost.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(strstr(view().lost.text, "there:1"));
    ck_assert_ptr_nonnull(strstr(view().lost.text, "cluster 08000000000000000000000000000000"));
    ck_assert_ptr_nonnull(strstr(view().lost.text, "cluster 07000000000000000000000000000000"));
    close_all();
}
END_TEST

START_TEST(a_coordinator_of_another_age_is_refused_with_both_protocols)
{
    join_answer = PS_OK;
    join_protocol = _i == 0 ? PS_PROTOCOL_MAX + 1 : PS_PROTOCOL_MIN - 1;
    start();
    pass_ms(50);
    ck_assert(!view().joined);
    ck_assert_int_eq(view().lost.status, PS_ERR_UNSUPPORTED);
    const char *says = _i == 0 ? "protocol 2, 1 to 1 are" : "protocol 0, 1 to 1 are";
    ck_assert_ptr_nonnull(strstr(view().lost.text, says));
    close_all();
}
END_TEST

START_TEST(a_coordinator_that_never_starts_is_named_with_the_last_reason)
{
    join_answer = PS_ERR_UNAVAIL;
    start();
    pass_ms(3 * GIVE_UP - 200);
    ck_assert_int_eq(view().lost.status, PS_OK);
    pass_ms(400);
    ck_assert_int_eq(view().lost.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(
        strstr(view().lost.text, "(there:1) has been silent for 12 s: not today"));
    close_all();
}
END_TEST

START_TEST(the_cluster_to_join_is_named)
{
    wanted_cluster = _i == 0 ? 0 : CLUSTER;
    open_all();
    ck_assert_uint_eq(asked_cluster, wanted_cluster);
    wanted_cluster = 0;
    close_all();
}
END_TEST

START_TEST(a_silent_coordinator_is_given_up)
{
    open_all();
    Ps__V1__AttendState state = plain(1);
    pass_ms(GIVE_UP - 200);
    say(&state); /* Just in time. */
    pass_ms(GIVE_UP - 200);
    ck_assert_int_eq(view().lost.status, PS_OK);
    pass_ms(1000);
    ck_assert_int_eq(view().lost.status, PS_ERR_LOST);
    close_all();
}
END_TEST

START_TEST(the_coordinators_latest_word_says_how_long_to_wait_for_it)
{
    open_all();
    attend->options.give_up_ms = 0; /* Nobody said how long. */
    Ps__V1__AttendState state = plain(1);
    state.patience_ms = 20000;
    say(&state);
    pass_ms(20000 - 300);
    ck_assert_int_eq(view().lost.status, PS_OK);
    pass_ms(1000);
    ck_assert_int_eq(view().lost.status, PS_ERR_LOST);
    close_all();
}
END_TEST

START_TEST(joining_is_tried_again_while_that_may_help)
{
    join_answer = PS_ERR_UNAVAIL;
    join_protocol = PS_PROTOCOL_MAX;
    start();
    pass_ms(2000);
    ck_assert_uint_gt(n_joins, 1);
    ck_assert(!view().joined);
    join_answer = PS_OK;
    pass_ms(3000);
    ck_assert(view().joined);
    close_all();
}
END_TEST

START_TEST(a_refusal_to_join_is_final_and_has_words)
{
    join_answer = PS_ERR_DENIED;
    start();
    pass_ms(500);
    ck_assert_uint_eq(n_joins, 1);
    ck_assert_int_eq(view().lost.status, PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(view().lost.text, "there:1"));
    ck_assert_ptr_nonnull(strstr(view().lost.text, "not today"));
    close_all();
}
END_TEST

static void sessions_out_of_order(void)
{
    static uint8_t id[16] = {3};
    Ps__V1__OpenSession open = PS__V1__OPEN_SESSION__INIT;
    Ps__V1__OpenSession *opens[] = {&open, &open};
    open.number = 3;
    open.session = (ProtobufCBinaryData){.len = 16, .data = id};
    Ps__V1__OpenSessions sessions = PS__V1__OPEN_SESSIONS__INIT;
    sessions.version = 2;
    sessions.n_sessions = 2;
    sessions.sessions = opens;
    Ps__V1__AttendState state = plain(1);
    state.sessions = &sessions;
    say(&state);
}

static void a_placement_of_one_slot(void)
{
    uint32_t primary = 1;
    Ps__V1__Placement placement = PS__V1__PLACEMENT__INIT;
    placement.n_primary = 1;
    placement.primary = &primary;
    Ps__V1__AttendState state = plain(1);
    state.placement = &placement;
    say(&state);
}

static void a_unit_twice_in_a_step(void)
{
    Ps__V1__CloseEntry entry = PS__V1__CLOSE_ENTRY__INIT;
    Ps__V1__CloseEntry *entries[] = {&entry, &entry};
    entry.lease = 4;
    Ps__V1__CloseStep close = PS__V1__CLOSE_STEP__INIT;
    close.n_entries = 2;
    close.entries = entries;
    Ps__V1__AttendState state = plain(1);
    state.close = &close;
    say(&state);
}

static void leases_that_overlap(void)
{
    Ps__V1__LeaseRange range = PS__V1__LEASE_RANGE__INIT;
    Ps__V1__LeaseRange *ranges[] = {&range, &range};
    range.first = range.last = 1;
    Ps__V1__FinishedLeases finished = PS__V1__FINISHED_LEASES__INIT;
    finished.version = 1;
    finished.n_ranges = 2;
    finished.ranges = ranges;
    Ps__V1__AttendState state = plain(1);
    state.finished = &finished;
    say(&state);
}

static void (*const lies[])(void) = {sessions_out_of_order, a_placement_of_one_slot,
                                     a_unit_twice_in_a_step, leases_that_overlap};

START_TEST(a_state_that_contradicts_itself_ends_the_membership)
{
    open_all();
    lies[_i]();
    ck_assert_int_eq(view().lost.status, PS_ERR_INVALID);
    close_all();
}
END_TEST

START_TEST(a_server_without_memory_for_its_tables_is_lost_and_does_not_acknowledge)
{
    open_all();
    mem.limit[PS_MEM_PAGES] = 4096;
    say_all(4);
    pass_ms(PS_HEARTBEAT_MS + 20);
    ck_assert_int_eq(view().lost.status, PS_ERR_NOMEM);
    ck_assert_uint_eq(seen.placement, 0);
    ck_assert_uint_eq(atomic_load(&catalogue.n_tables), 0);
    close_all();
}
END_TEST

START_TEST(stopping_while_joining_ends_too)
{
    join_answer = PS_ERR_UNAVAIL;
    start();
    ck_assert_uint_eq(n_joins, 0);
    close_all();
}
END_TEST

START_TEST(stopping_does_not_wait_for_a_coordinator_that_hangs)
{
    open_all();
    hangs = true;
    ps_attend_stop(attend, stopped, NULL);
    pass_ms(200);
    ck_assert_uint_eq(n_stopped, 0); /* It is given time to end in peace. */
    pass_ms(200);
    ck_assert_uint_eq(n_stopped, 1);
    hangs = false;
    on_closed(NULL, PS_OK);
    ps_attend_destroy(attend);
    close_rest();
}
END_TEST

/* A coordinator that talks faster than the lanes listen fills its own stream, not the lanes. */
START_TEST(news_waits_while_the_lanes_are_behind_and_keeps_its_order)
{
    lanes_apart = true;
    open_all();
    for (uint64_t clock = 1; clock <= 40; clock++) {
        Ps__V1__AttendState state = plain(1);
        state.min_clock = clock;
        say(&state);
        ck_assert_uint_le(attend->n_updates, 16);
    }
    say_all(1);
    ck_assert_uint_eq(attend->n_updates, 16);
    for (uint32_t i = 0; i < 10; i++) {
        ps_inline_exec_pump(&lane_exec);
        ps_inline_exec_pump(&exec);
    }
    ck_assert_uint_eq(attend->n_updates, 0);
    ck_assert_uint_eq(seen.placement, 1);
    for (uint64_t clock = 41; clock <= 80; clock++) { /* And what waits is let go at a stop. */
        Ps__V1__AttendState state = plain(1);
        state.min_clock = clock;
        say(&state);
    }
    ps_attend_stop(attend, stopped, NULL);
    pass_ms(50);
    ck_assert_uint_eq(n_stopped, 0);
    ps_inline_exec_pump(&lane_exec);
    pass_ms(50);
    ck_assert_uint_eq(n_stopped, 1);
    ps_attend_destroy(attend);
    lanes_apart = false;
    close_rest();
}
END_TEST

Suite *suite_attend(void)
{
    Suite *suite = suite_create("attend");
    TCase *tcase = tcase_create("attend");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_server_joins_then_attends_and_says_who_it_is);
    tcase_add_test(tcase, versions_are_acknowledged_when_every_lane_has_them);
    tcase_add_test(tcase, a_deposed_coordinator_is_not_listened_to);
    tcase_add_test(tcase, what_a_lane_holds_for_stale_is_not_acknowledged);
    tcase_add_test(tcase, a_broken_stream_is_opened_again_without_joining);
    tcase_add_test(tcase, a_state_that_cannot_be_read_starts_the_stream_over);
    tcase_add_test(tcase, a_fenced_server_says_so_once);
    tcase_add_loop_test(tcase, another_cluster_at_the_coordinators_address_is_told, 0, 2);
    tcase_add_loop_test(tcase, a_coordinator_of_another_age_is_refused_with_both_protocols, 0, 2);
    tcase_add_test(tcase, a_coordinator_that_never_starts_is_named_with_the_last_reason);
    tcase_add_loop_test(tcase, the_cluster_to_join_is_named, 0, 2);
    tcase_add_test(tcase, a_silent_coordinator_is_given_up);
    tcase_add_test(tcase, the_coordinators_latest_word_says_how_long_to_wait_for_it);
    tcase_add_test(tcase, joining_is_tried_again_while_that_may_help);
    tcase_add_test(tcase, a_refusal_to_join_is_final_and_has_words);
    tcase_add_loop_test(tcase, a_state_that_contradicts_itself_ends_the_membership, 0,
                        PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, a_server_without_memory_for_its_tables_is_lost_and_does_not_acknowledge);
    tcase_add_test(tcase, stopping_while_joining_ends_too);
    tcase_add_test(tcase, stopping_does_not_wait_for_a_coordinator_that_hangs);
    tcase_add_test(tcase, news_waits_while_the_lanes_are_behind_and_keeps_its_order);
    suite_add_tcase(suite, tcase);
    return suite;
}
