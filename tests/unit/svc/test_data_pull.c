/*
 * test_data_pull.c — pulls through svc and lanes: bytes of the pages themselves, on loan; parked,
 * released in order, replaced, given up in time.
 */
#include <string.h>

#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

#define ALL 15u

static float now[RIG_N_FLOATS];
static float later[RIG_N_FLOATS];
static float got[RIG_N_FLOATS];

static struct fake_call *pull(uint64_t session, uint64_t step)
{
    (void)rig_request(session);
    rig_add_pull(step, ALL);
    struct fake_call *call = rig_deliver(PS_DATA_PULL);
    rig_pump();
    return call;
}

static uint64_t n_parked(void)
{
    return ps_metric_get(&rig.metrics, PS_METRIC_pulls_parked);
}

/* All slots say `want`; then the call is over. */
static void expect(struct fake_call *call, enum ps_status want)
{
    ck_assert(fake_call_finished(call));
    const struct ps_data_reply *reply = fake_call_reply(call);
    ck_assert_uint_eq(reply->n_pull, RIG_SLOTS);
    for (uint32_t i = 0; i < RIG_SLOTS; i++) {
        ck_assert_int_eq(reply->pull[i].status, want);
        ck_assert_uint_eq(reply->pull[i].slot, i);
        ck_assert_int_eq(reply->pull[i].n_bytes > 0, want == PS_OK);
    }
    ck_assert_uint_eq(reply->n_payload_bytes, want == PS_OK ? RIG_N_BYTES : 0);
    fake_call_settle(call);
}

START_TEST(a_pull_lends_the_pages_themselves)
{
    rig_open(2);
    struct fake_call *a = pull(1, 0);
    struct fake_call *b = pull(2, 0);
    for (size_t i = 0; i < RIG_SLOTS; i++) {
        ck_assert_ptr_nonnull(fake_call_piece(a, i));
        ck_assert_ptr_eq(fake_call_piece(a, i), fake_call_piece(b, i)); /* No copy. */
    }
    ck_assert_ptr_null(fake_call_piece(a, RIG_SLOTS));
    expect(a, PS_OK);
    expect(b, PS_OK);
    rig_close();
}
END_TEST

START_TEST(what_is_on_loan_does_not_change)
{
    rig_open(2);
    rig_read(now);
    struct fake_call *old = pull(1, 0);
    for (uint64_t unit = 0; unit < 3; unit++) {
        ck_assert_int_eq(rig_push(2, 100, unit), PS_OK);
    }
    rig_read(later);
    ck_assert_mem_ne(now, later, sizeof(now));
    ck_assert_uint_eq(fake_call_payload(old, got, sizeof(got)), sizeof(got));
    ck_assert_mem_eq(got, now, sizeof(now));
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_pages_fresh_total), RIG_SLOTS);
    fake_call_settle(old);
    rig_close();
}
END_TEST

START_TEST(a_loan_outlives_its_lanes)
{
    rig_open(2);
    rig_read(now);
    struct fake_call *call = pull(1, 0);
    for (uint32_t i = 0; i < 2; i++) {
        ps_lane_destroy(rig.svc.lanes[i]);
        rig.svc.lanes[i] = NULL;
    }
    ck_assert_uint_eq(fake_call_payload(call, got, sizeof(got)), sizeof(got));
    ck_assert_mem_eq(got, now, sizeof(now));
    fake_call_settle(call);
    rig_close();
}
END_TEST

START_TEST(push_pull_answers_with_its_own_update_or_not_yet)
{
    rig_open(2);
    for (uint64_t unit = 0; unit < 2; unit++) {
        (void)rig_request(1);
        rig.request.step = unit;
        rig_add_push(100, unit, ALL);
        rig_add_pull(unit, ALL); /* Step 0: the gate is open. Step 1: it waits for a tick. */
        struct fake_call *call = rig_deliver(PS_DATA_PUSH_PULL);
        rig_pump();
        rig_read(now);
        ck_assert_uint_eq(n_parked(), 0);
        for (uint32_t i = 0; i < RIG_SLOTS; i++) {
            ck_assert_int_eq(fake_call_reply(call)->push[i].status, PS_OK);
        }
        if (unit == 0) {
            ck_assert_uint_eq(fake_call_payload(call, got, sizeof(got)), sizeof(got));
            ck_assert_mem_eq(got, now, sizeof(now));
        }
        expect(call, unit == 0 ? PS_OK : PS_ERR_NOT_YET);
    }
    rig_close();
}
END_TEST

START_TEST(a_reader_passes_the_gate)
{
    rig_open(1);
    rig_consistency(PS_GATE_CLOSED, 0, false);
    rig_read(now);
    struct fake_call *call = pull(1, 0);
    ck_assert(!fake_call_finished(call));
    rig_consistency(PS_GATE_UNBOUNDED, 0, false);
    expect(call, PS_OK);
    rig_close();
}
END_TEST

START_TEST(parked_pulls_are_answered_when_the_slowest_comes)
{
    rig_open(2);
    struct fake_call *a = pull(1, 2);
    struct fake_call *b = pull(2, 1);
    ck_assert(!fake_call_finished(a) && !fake_call_finished(b));
    ck_assert_uint_eq(n_parked(), 4); /* Two lanes each. */
    ck_assert_int_eq(rig_push(3, 100, 0), PS_OK);
    rig_read(now);
    rig_min_clock(1);
    ck_assert(!fake_call_finished(a));
    ck_assert_uint_eq(fake_call_payload(b, got, sizeof(got)), sizeof(got));
    ck_assert_mem_eq(got, now, sizeof(now)); /* As of the release, not of the arrival. */
    ck_assert_uint_eq(fake_call_reply(b)->min_clock, 1);
    expect(b, PS_OK);
    rig_min_clock(0); /* Never back. */
    rig_min_clock(2);
    ck_assert_uint_eq(fake_call_reply(a)->min_clock, 2);
    expect(a, PS_OK);
    rig_close();
}
END_TEST

/* The reply may promise no more than the lane that knows least. */
START_TEST(a_reply_carries_the_lowest_min_clock_of_its_lanes)
{
    rig_open(2);
    struct ps_lane_update *news = rig_news();
    news->min_clock = 7;
    atomic_init(&news->n_pending, 2);
    ps_lane_post_update(rig.svc.lanes[0], news);
    rig_pump_lane(0);
    (void)rig_request(1);
    rig_add_pull(0, ALL);
    struct fake_call *call = rig_deliver(PS_DATA_PULL);
    rig_pump();
    ck_assert_uint_eq(fake_call_reply(call)->min_clock, 0);
    expect(call, PS_OK);
    ps_lane_post_update(rig.svc.lanes[1], news);
    rig_pump();
    call = pull(1, 7);
    ck_assert_uint_eq(fake_call_reply(call)->min_clock, 7);
    expect(call, PS_OK);
    rig_close();
}
END_TEST

/* One lane is open already, the other parks its share: still one reply, when both have come. */
START_TEST(a_call_may_be_parked_in_one_lane_only)
{
    rig_open(2);
    struct ps_lane_update *news = rig_news();
    news->min_clock = 1;
    atomic_init(&news->n_pending, 2);
    ps_lane_post_update(rig.svc.lanes[0], news);
    rig_pump_lane(0);
    struct fake_call *call = pull(1, 1);
    ck_assert(!fake_call_finished(call));
    ck_assert_uint_eq(n_parked(), 1);
    ck_assert_int_eq(rig_push(2, 100, 0), PS_OK); /* Meets pages on loan and a parked call. */
    ps_lane_post_update(rig.svc.lanes[1], news);
    rig_pump();
    expect(call, PS_OK);
    rig_close();
}
END_TEST

START_TEST(a_second_pull_of_a_session_sends_the_first_home)
{
    rig_open(2);
    struct fake_call *first = pull(1, 1);
    struct fake_call *second = pull(1, 1);
    expect(first, PS_ERR_NOT_YET);
    ck_assert(!fake_call_finished(second));
    rig_min_clock(1);
    expect(second, PS_OK);
    rig_close();
}
END_TEST

START_TEST(a_pull_near_its_deadline_is_told_not_yet)
{
    rig_open(2);
    struct fake_call *patient = pull(1, 1);
    struct fake_call *hasty = pull(2, 1);
    rig_pass_ms(100);
    ck_assert(!fake_call_finished(hasty));
    fake_call_time_left(hasty, 200);
    rig_pass_ms(100);
    expect(hasty, PS_ERR_NOT_YET);
    ck_assert(!fake_call_finished(patient));
    fake_call_give_up(patient);
    rig_pass_ms(100);
    expect(patient, PS_ERR_NOT_YET);
    ck_assert_uint_eq(n_parked(), 0);
    struct fake_call *again = pull(1, 1); /* The timer starts anew. */
    fake_call_time_left(again, 10);
    rig_pass_ms(60);
    expect(again, PS_ERR_NOT_YET);
    rig_close();
}
END_TEST

START_TEST(parked_pulls_of_a_closed_session_are_fenced)
{
    rig_open(2);
    struct fake_call *dead = pull(1, 1);
    struct fake_call *live = pull(2, 1);
    rig_sessions(2, 2);
    expect(dead, PS_ERR_FENCED);
    ck_assert(!fake_call_finished(live));
    rig_min_clock(1);
    expect(live, PS_OK);
    rig_close();
}
END_TEST

START_TEST(parked_pulls_of_a_slot_that_moved_are_told_so_at_once)
{
    rig_open(2);
    struct fake_call *call = pull(1, 1);
    struct ps_lane_update *news = rig_news();
    news->has_placement = true;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        news->primary[s] = s != 1;
        news->epoch[s] = s == 1 ? RIG_EPOCH + 1 : RIG_EPOCH;
    }
    ck_assert_int_eq(rig_send(), PS_OK);
    rig_min_clock(1); /* Lanes without slot 1 still held their share. */
    const struct ps_data_reply *reply = fake_call_reply(call);
    ck_assert_int_eq(reply->pull[1].status, PS_ERR_NOT_PRIMARY);
    ck_assert_uint_eq(reply->pull[1].epoch, RIG_EPOCH + 1);
    for (uint32_t i = 0; i < RIG_SLOTS; i++) {
        bool same_lane = ps_lane_of(i, 2) == ps_lane_of(1, 2);
        if (i != 1) {
            ck_assert_int_eq(reply->pull[i].status, same_lane ? PS_ERR_NOT_YET : PS_OK);
        }
    }
    fake_call_settle(call);
    rig_close();
}
END_TEST

START_TEST(a_pull_that_must_be_refused_is_not_parked)
{
    rig_open(2);
    rig_sessions(2, 2);
    expect(pull(1, 5), PS_ERR_FENCED);
    ck_assert_uint_eq(n_parked(), 0);
    rig_close();
}
END_TEST

START_TEST(a_stopped_lane_answers_what_is_parked_and_parks_no_more)
{
    rig_open(1);
    struct fake_call *call = pull(1, 1);
    struct ps_mail done = {0}; /* Never run: the test looks whether it was posted. */
    ps_lane_post_stop(rig.svc.lanes[0], &done, &rig.home.base);
    rig_pump_lane(0);
    ck_assert_ptr_eq(rig.home.first, &done);
    rig.home.first = NULL;
    rig.home.last = &rig.home.first;
    expect(call, PS_ERR_NOT_YET);
    expect(pull(1, 1), PS_ERR_NOT_YET);
    expect(pull(1, 0), PS_OK);
    rig_close();
}
END_TEST

Suite *suite_data_pull(void)
{
    Suite *suite = suite_create("data_pull");
    TCase *tcase = tcase_create("pull");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_pull_lends_the_pages_themselves);
    tcase_add_test(tcase, what_is_on_loan_does_not_change);
    tcase_add_test(tcase, a_loan_outlives_its_lanes);
    tcase_add_test(tcase, push_pull_answers_with_its_own_update_or_not_yet);
    tcase_add_test(tcase, a_reader_passes_the_gate);
    tcase_add_test(tcase, parked_pulls_are_answered_when_the_slowest_comes);
    tcase_add_test(tcase, a_reply_carries_the_lowest_min_clock_of_its_lanes);
    tcase_add_test(tcase, a_call_may_be_parked_in_one_lane_only);
    tcase_add_test(tcase, a_second_pull_of_a_session_sends_the_first_home);
    tcase_add_test(tcase, a_pull_near_its_deadline_is_told_not_yet);
    tcase_add_test(tcase, parked_pulls_of_a_closed_session_are_fenced);
    tcase_add_test(tcase, parked_pulls_of_a_slot_that_moved_are_told_so_at_once);
    tcase_add_test(tcase, a_pull_that_must_be_refused_is_not_parked);
    tcase_add_test(tcase, a_stopped_lane_answers_what_is_parked_and_parks_no_more);
    suite_add_tcase(suite, tcase);
    return suite;
}
