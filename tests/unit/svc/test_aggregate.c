/*
 * test_aggregate.c — aggregated bsp through svc and lanes: staged under (session, step), closed
 * with the weighted mean of exactly the list, in (lease, unit) order; the rest is dropped unseen.
 */
#include <string.h>

#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

#define ALL 15u

static float want[RIG_N_FLOATS];
static float got[RIG_N_FLOATS];
static float sum[RIG_N_FLOATS];

/* Stage unit `unit` of `lease` for `step` with the gradients of `seed`; the status of slot 0. */
static enum ps_status stage(uint64_t session, uint64_t lease, uint64_t unit, uint64_t step,
                            uint64_t seed)
{
    rig_gradients(seed);
    (void)rig_request(session);
    rig.request.step = step;
    rig_add_push(lease, unit, ALL);
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    enum ps_status status = fake_call_reply(call)->push[0].status;
    for (uint32_t i = 1; i < RIG_SLOTS; i++) {
        ck_assert_int_eq(fake_call_reply(call)->push[i].status, status);
    }
    fake_call_settle(call);
    return status;
}

static void open_aggregate(uint32_t n_lanes)
{
    rig_open(n_lanes);
    rig_consistency(PS_GATE_BOUNDED, 0, true);
    rig_read(want);
    memset(sum, 0, sizeof(sum));
}

static void add_by_hand(uint64_t seed, uint32_t rows)
{
    rig_gradients(seed);
    for (uint32_t i = 0; i < RIG_N_FLOATS; i++) {
        sum[i] += (float)rows * rig.gradients[i];
    }
}

/* The first step of both rules: momentum's velocity is the gradient then. */
static void apply_by_hand(uint32_t n_rows)
{
    for (uint32_t i = 0; i < RIG_N_FLOATS; i++) {
        want[i] = want[i] - 0.5f * (1.0f / (float)n_rows * sum[i]);
    }
    memset(sum, 0, sizeof(sum));
}

static void expect_weights(void)
{
    rig_read(got);
    ck_assert_mem_eq(got, want, sizeof(want));
}

START_TEST(a_staged_push_changes_nothing_before_its_step_is_closed)
{
    open_aggregate(2);
    ck_assert_int_eq(stage(1, 100, 0, 0, 1), PS_OK);
    expect_weights();
    ck_assert_uint_gt(atomic_load(&rig.mem.used[PS_MEM_STAGED]), 0);
    ck_assert_uint_gt(fake_call_requests_alive(), 0); /* The bytes stay where they arrived. */
    rig_close_step(0, (struct ps_close_entry[]){{1, 100, 0, 8}}, 1);
    add_by_hand(1, 8);
    apply_by_hand(8);
    expect_weights();
    ck_assert_uint_eq(fake_call_requests_alive(), 0);
    rig_close();
}
END_TEST

/* Three orders of arrival, and other sessions for the same units: the same bits. */
START_TEST(the_mean_is_weighted_and_does_not_depend_on_who_came_when)
{
    static const uint64_t orders[][3] = {{1, 2, 3}, {3, 1, 2}, {2, 3, 1}};
    for (size_t k = 0; k < 3; k++) {
        open_aggregate(2);
        for (size_t i = 0; i < 3; i++) {
            uint64_t lease = 100 + orders[k][i];
            ck_assert_int_eq(stage(1 + i, lease, 0, 0, lease), PS_OK);
        }
        struct ps_close_entry entries[3];
        for (uint64_t e = 0; e < 3; e++) {
            uint64_t session = 0;
            while (orders[k][session] != e + 1) {
                session++;
            }
            entries[e] = (struct ps_close_entry){
                .session = 1 + session, .lease = 101 + e, .unit = 0, .rows = (uint32_t)(4 + e)};
            add_by_hand(101 + e, (uint32_t)(4 + e));
        }
        rig_close_step(0, entries, 3);
        apply_by_hand(4 + 5 + 6);
        expect_weights();
        rig_close();
    }
}
END_TEST

/* Sessions that come, stage and go while a step stays open must not fill the memory. */
START_TEST(what_ended_sessions_staged_and_did_not_say_is_let_go_at_once)
{
    open_aggregate(2);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK);
    ck_assert_int_eq(stage(2, 102, 0, 0, 2), PS_OK);
    ck_assert_int_eq(stage(3, 103, 0, 0, 3), PS_OK);
    uint32_t n_alive = fake_call_requests_alive();
    rig_sessions_staged(2, 3, 2); /* 1 and 2 have ended, 2 had said that it staged. */
    ck_assert_uint_lt(fake_call_requests_alive(), n_alive);
    rig_close_step(0, (struct ps_close_entry[]){{2, 102, 0, 8}, {3, 103, 0, 8}}, 2);
    add_by_hand(2, 8);
    add_by_hand(3, 8);
    apply_by_hand(16);
    expect_weights();
    ck_assert_uint_eq(fake_call_requests_alive(), 0);
    ck_assert_int_eq(stage(3, 101, 0, 1, 1), PS_OK); /* 1's unit is to be done again. */
    rig_close_step(1, (struct ps_close_entry[]){{3, 101, 0, 8}}, 1);
    rig_close();
}
END_TEST

START_TEST(who_is_not_on_the_list_is_dropped_and_counts_as_unseen)
{
    open_aggregate(1);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK);
    ck_assert_int_eq(stage(2, 102, 0, 0, 2), PS_OK);
    rig_close_step(0, (struct ps_close_entry[]){{2, 102, 0, 8}}, 1);
    add_by_hand(2, 8);
    apply_by_hand(8);
    expect_weights();
    ck_assert_uint_eq(fake_call_requests_alive(), 0);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_ERR_LATE);
    ck_assert_int_eq(stage(1, 101, 0, 1, 1), PS_OK); /* The unit again, at its new step. */
    ck_assert_uint_gt(fake_call_requests_alive(), 0);
    ck_assert_int_eq(stage(2, 102, 0, 1, 2), PS_OK); /* Applied already: */
    expect_weights();
    rig_close_step(1, (struct ps_close_entry[]){{1, 101, 0, 8}}, 1);
    ck_assert_uint_eq(fake_call_requests_alive(), 0);
    rig_read(got);
    ck_assert_mem_ne(got, want, sizeof(want));
    rig_close();
}
END_TEST

START_TEST(a_repeated_stage_is_kept_once)
{
    open_aggregate(2);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK);
    uint64_t n_bytes = atomic_load(&rig.mem.used[PS_MEM_STAGED]);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK);
    ck_assert_uint_eq(atomic_load(&rig.mem.used[PS_MEM_STAGED]), n_bytes);
    ck_assert_int_eq(stage(2, 101, 0, 0, 2), PS_OK); /* Another session stages for itself. */
    ck_assert_uint_gt(atomic_load(&rig.mem.used[PS_MEM_STAGED]), n_bytes);
    rig_close_step(0, (struct ps_close_entry[]){{2, 101, 0, 8}}, 1);
    add_by_hand(2, 8); /* That of the session on the list. */
    apply_by_hand(8);
    expect_weights();
    rig_close();
}
END_TEST

/* A session that died after it staged stays on the list (rule 7c). */
START_TEST(closing_a_session_keeps_what_it_staged)
{
    open_aggregate(1);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK);
    rig_sessions(2, 2);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_ERR_FENCED);
    rig_close_step(0, (struct ps_close_entry[]){{1, 101, 0, 8}}, 1);
    add_by_hand(1, 8);
    apply_by_hand(8);
    expect_weights();
    rig_close();
}
END_TEST

START_TEST(units_without_rows_and_empty_steps_are_closed_too)
{
    open_aggregate(1);
    rig_close_step(0, NULL, 0);
    expect_weights();
    ck_assert_int_eq(stage(1, 101, 0, 1, 1), PS_OK);
    rig_close_step(1, (struct ps_close_entry[]){{2, 100, 0, 0}, {1, 101, 0, 8}}, 2);
    add_by_hand(1, 8);
    apply_by_hand(8);
    expect_weights();
    rig_close_step(1, (struct ps_close_entry[]){{1, 101, 0, 8}}, 1); /* Said again. */
    expect_weights();
    ck_assert_int_eq(stage(2, 100, 0, 2, 3), PS_OK); /* Taken with no rows: a repeat. */
    ck_assert_uint_eq(fake_call_requests_alive(), 0);
    rig_close();
}
END_TEST

/* Everybody waits for the close: it goes beyond the budget of pages. */
START_TEST(a_close_finds_memory_when_the_budget_is_used_up)
{
    open_aggregate(2);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK);
    (void)rig_request(4);
    rig_add_pull(0, ALL);
    struct fake_call *reader = rig_deliver(PS_DATA_PULL);
    rig_pump();
    (void)fake_call_reply(reader);
    uint64_t n_before = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
    rig.mem.limit[PS_MEM_PAGES] = n_before;
    rig_close_step(0, (struct ps_close_entry[]){{1, 101, 0, 8}}, 1);
    ck_assert_uint_gt(atomic_load(&rig.mem.used[PS_MEM_PAGES]), n_before); /* And is counted. */
    add_by_hand(1, 8);
    apply_by_hand(8);
    expect_weights();
    fake_call_settle(reader);
    rig_close();
}
END_TEST

START_TEST(a_stage_without_memory_is_busy_and_not_kept)
{
    open_aggregate(1);
    rig.mem.limit[PS_MEM_STAGED] = 1;
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_ERR_BUSY);
    ck_assert_uint_eq(fake_call_requests_alive(), 0);
    rig.mem.limit[PS_MEM_STAGED] = 0;
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK);
    rig.mem.limit[PS_MEM_STAGED] = 1;
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK); /* A repeat keeps nothing more. */
    rig_close_step(0, (struct ps_close_entry[]){{1, 101, 0, 8}}, 1);
    add_by_hand(1, 8);
    apply_by_hand(8);
    expect_weights();
    rig_close();
}
END_TEST

START_TEST(a_sessions_own_stream_is_applied_at_once)
{
    open_aggregate(1);
    ck_assert_int_eq(stage(1, 0, 0, 0, 1), PS_OK);
    add_by_hand(1, 1);
    apply_by_hand(1);
    expect_weights();
    rig_close();
}
END_TEST

START_TEST(what_is_staged_at_the_end_is_given_back)
{
    open_aggregate(2);
    ck_assert_int_eq(stage(1, 101, 0, 0, 1), PS_OK);
    for (uint32_t i = 0; i < 2; i++) {
        ps_lane_destroy(rig.svc.lanes[i]);
        rig.svc.lanes[i] = NULL;
    }
    rig_close();
}
END_TEST

Suite *suite_aggregate(void)
{
    Suite *suite = suite_create("aggregate");
    TCase *tcase = tcase_create("aggregate");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_staged_push_changes_nothing_before_its_step_is_closed);
    tcase_add_test(tcase, the_mean_is_weighted_and_does_not_depend_on_who_came_when);
    tcase_add_test(tcase, what_ended_sessions_staged_and_did_not_say_is_let_go_at_once);
    tcase_add_test(tcase, who_is_not_on_the_list_is_dropped_and_counts_as_unseen);
    tcase_add_test(tcase, a_repeated_stage_is_kept_once);
    tcase_add_test(tcase, closing_a_session_keeps_what_it_staged);
    tcase_add_test(tcase, units_without_rows_and_empty_steps_are_closed_too);
    tcase_add_test(tcase, a_close_finds_memory_when_the_budget_is_used_up);
    tcase_add_test(tcase, a_stage_without_memory_is_busy_and_not_kept);
    tcase_add_test(tcase, a_sessions_own_stream_is_applied_at_once);
    tcase_add_test(tcase, what_is_staged_at_the_end_is_given_back);
    suite_add_tcase(suite, tcase);
    return suite;
}
