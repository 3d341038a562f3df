/*
 * test_data_bounds.c — what one session may have under way, and that its being over harms nobody
 * else: calls, bytes, pages on loan, staged units, parked pulls.
 */
#include <string.h>

#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

#define ALL 15u

static struct ps_ledger *ledger(void)
{
    return rig.svc.ledger;
}

static struct fake_call *pull(uint64_t session, uint64_t step, uint32_t slots)
{
    (void)rig_request(session);
    rig_add_pull(step, slots);
    return rig_deliver(PS_DATA_PULL);
}

static struct fake_call *push(uint64_t session, uint64_t sequence)
{
    (void)rig_request(session);
    rig_add_push(session * 100, sequence, ALL);
    return rig_deliver(PS_DATA_PUSH);
}

/* Every slot of the reply says `want`, and BUSY comes with a time to wait. */
static void expect(struct fake_call *call, enum ps_status want)
{
    const struct ps_data_reply *reply = fake_call_reply(call);
    ck_assert_uint_gt(reply->n_push + reply->n_pull, 0);
    for (uint32_t i = 0; i < reply->n_push; i++) {
        ck_assert_int_eq(reply->push[i].status, want);
    }
    for (uint32_t i = 0; i < reply->n_pull; i++) {
        ck_assert_int_eq(reply->pull[i].status, want);
    }
    if (want == PS_ERR_BUSY) {
        ck_assert_uint_ge(reply->retry_ms, PS_RETRY_MS_MIN);
        ck_assert_uint_le(reply->retry_ms, PS_RETRY_MS_MAX);
    }
    fake_call_settle(call);
}

START_TEST(a_session_with_too_many_calls_is_told_to_wait_and_the_others_are_not)
{
    rig_open(2);
    static struct fake_call *calls[PS_SESSION_CALLS_MAX];
    for (uint32_t i = 0; i < PS_SESSION_CALLS_MAX; i++) {
        calls[i] = push(1, i); /* The lanes have not run: all of them are under way. */
        ck_assert(!fake_call_finished(calls[i]));
    }
    expect(push(1, PS_SESSION_CALLS_MAX), PS_ERR_BUSY);
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_calls_busy_total), 1);
    struct fake_call *other = push(2, 0);
    rig_pump();
    expect(other, PS_OK);
    for (uint32_t i = 0; i < PS_SESSION_CALLS_MAX; i++) {
        expect(calls[i], PS_OK);
    }
    struct fake_call *again = push(1, PS_SESSION_CALLS_MAX); /* Nothing of it was taken. */
    rig_pump();
    expect(again, PS_OK);
    rig_close();
}
END_TEST

START_TEST(a_session_with_too_many_bytes_is_told_to_wait_and_the_others_are_not)
{
    rig_open(2);
    uint64_t n_call = 0;
    struct fake_call *first = push(1, 0);
    n_call = atomic_load(&ledger()->bytes);
    ck_assert_uint_gt(n_call, RIG_N_BYTES);
    ledger()->limits.session_bytes = 2 * n_call + 64;
    struct fake_call *second = push(1, 1);
    expect(push(1, 2), PS_ERR_BUSY);
    struct fake_call *other = push(2, 0);
    ck_assert(!fake_call_finished(second) && !fake_call_finished(other));
    rig_pump();
    expect(first, PS_OK);
    expect(second, PS_OK);
    expect(other, PS_OK);
    ck_assert_uint_eq(atomic_load(&ledger()->bytes), 0);
    rig_close();
}
END_TEST

/* Two greedy sessions leave a third of all for whoever comes next. */
START_TEST(greedy_sessions_leave_room_for_the_next)
{
    rig_open(1);
    struct fake_call *calls[64];
    struct fake_call *probe = push(3, 0);
    uint64_t n_call = atomic_load(&ledger()->bytes);
    rig_pump();
    expect(probe, PS_OK);
    ledger()->limits.total_bytes = 12 * n_call;
    uint32_t n_calls = 0;
    uint32_t n_of[3] = {0};
    for (uint32_t i = 0; i < 24; i++) {
        uint64_t session = 1 + i % 2;
        struct fake_call *call = push(session, i / 2);
        if (fake_call_finished(call)) {
            expect(call, PS_ERR_BUSY);
        } else {
            calls[n_calls++] = call;
            n_of[session]++;
        }
    }
    ck_assert_uint_eq(n_of[1], 4);
    ck_assert_uint_eq(n_of[2], 4);
    uint32_t n_let_in = 0;
    for (uint64_t i = 1; i <= 3; i++) { /* Who is refused once has the reserve, too. */
        struct fake_call *call = push(3, i);
        if (fake_call_finished(call)) {
            expect(call, PS_ERR_BUSY);
        } else {
            calls[n_calls++] = call;
            n_let_in++;
        }
    }
    ck_assert_uint_ge(n_let_in, 2);
    rig_pump();
    for (uint32_t i = 0; i < n_calls; i++) {
        expect(calls[i], PS_OK);
    }
    rig_close();
}
END_TEST

START_TEST(pages_that_a_reader_keeps_are_booked_until_they_are_back)
{
    rig_open(2);
    struct fake_call *slow = pull(1, 0, ALL);
    rig_pump();
    ck_assert(fake_call_finished(slow));
    uint64_t n_lent = atomic_load(&ledger()->lent_bytes);
    ck_assert_uint_ge(n_lent, RIG_N_BYTES);
    ck_assert_uint_eq(atomic_load(&ledger()->bytes), n_lent); /* The call itself is over. */
    ck_assert_uint_eq(atomic_load(&ledger()->n_calls), 0);
    ck_assert_uint_eq(atomic_load(&ledger()->n_lent), RIG_SLOTS);
    ledger()->limits.session_bytes = n_lent + sizeof(struct ps_data_call) + 200; /* No page. */
    struct fake_call *more = pull(1, 0, ALL);
    rig_pump();
    expect(more, PS_ERR_BUSY);
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_pulls_refused_total), 2); /* Lanes. */
    struct fake_call *other = pull(2, 0, ALL);
    rig_pump();
    expect(other, PS_OK);
    expect(slow, PS_OK); /* It reads on at last. */
    ck_assert_uint_eq(atomic_load(&ledger()->bytes), 0);
    more = pull(1, 0, ALL);
    rig_pump();
    expect(more, PS_OK);
    rig_close();
}
END_TEST

/* A reader that stopped pins a page of each block, however often the blocks are written since. */
START_TEST(what_a_stopped_reader_pins_does_not_grow_with_the_pushes)
{
    rig_open(1);
    struct fake_call *slow = pull(1, 0, ALL);
    rig_pump();
    uint64_t n_bytes = 0;
    for (uint64_t unit = 0; unit < 50; unit++) {
        ck_assert_int_eq(rig_push(2, 100, unit), PS_OK);
        if (unit == 0) {
            n_bytes = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
        }
        ck_assert_uint_eq(atomic_load(&rig.mem.used[PS_MEM_PAGES]), n_bytes);
    }
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_pages_fresh_total), RIG_SLOTS);
    expect(slow, PS_OK);
    rig_close();
}
END_TEST

START_TEST(who_is_no_open_session_has_one_account_with_all_the_others)
{
    rig_open(1);
    static struct fake_call *calls[PS_SESSION_CALLS_MAX];
    for (uint32_t i = 0; i < PS_SESSION_CALLS_MAX; i++) {
        calls[i] = push(1000 + i, 0);
        ck_assert(!fake_call_finished(calls[i]));
    }
    expect(push(7777, 0), PS_ERR_BUSY);
    struct fake_call *known = push(1, 0);
    rig_pump();
    expect(known, PS_OK);
    for (uint32_t i = 0; i < PS_SESSION_CALLS_MAX; i++) {
        expect(calls[i], PS_ERR_FENCED);
    }
    rig_close();
}
END_TEST

/* Numbers can be seen by all, in Describe: a call that has only the number is nobody's. */
START_TEST(who_knows_a_number_only_is_not_booked_on_its_session)
{
    rig_open(1);
    static struct fake_call *calls[PS_SESSION_CALLS_MAX];
    for (uint32_t i = 0; i < PS_SESSION_CALLS_MAX; i++) {
        struct ps_data_request *request = rig_request(1);
        request->session = (struct ps_id){{77}};
        rig_add_push(100, i, ALL);
        calls[i] = rig_deliver(PS_DATA_PUSH);
        ck_assert(!fake_call_finished(calls[i]));
    }
    struct fake_call *known = push(1, 0);
    rig_pump();
    expect(known, PS_OK);
    for (uint32_t i = 0; i < PS_SESSION_CALLS_MAX; i++) {
        expect(calls[i], PS_ERR_FENCED);
    }
    rig_close();
}
END_TEST

START_TEST(of_the_pulls_of_a_session_the_newest_waits_in_whatever_lane)
{
    rig_open(2);
    uint32_t of_lane[2] = {0, 0}; /* A slot for each. */
    for (uint32_t s = 0; s < RIG_SLOTS; s++) {
        of_lane[ps_lane_of(s, 2)] = 1u << s;
    }
    ck_assert(of_lane[0] != 0 && of_lane[1] != 0);
    struct fake_call *older = pull(1, 5, of_lane[0]);
    rig_pump();
    ck_assert(!fake_call_finished(older));
    struct fake_call *newer = pull(1, 5, of_lane[1]);
    rig_pump();
    rig_pass_ms(60); /* A lane looks after what it has parked. */
    ck_assert(!fake_call_finished(newer));
    expect(older, PS_ERR_NOT_YET);
    struct fake_call *other = pull(2, 5, of_lane[0]);
    rig_pass_ms(60);
    ck_assert(!fake_call_finished(newer) && !fake_call_finished(other));
    rig_min_clock(5);
    expect(newer, PS_OK);
    expect(other, PS_OK);
    rig_close();
}
END_TEST

START_TEST(a_pull_that_lost_its_place_before_it_came_is_not_parked)
{
    rig_open(2);
    uint32_t of_lane[2] = {0, 0};
    for (uint32_t s = 0; s < RIG_SLOTS; s++) {
        of_lane[ps_lane_of(s, 2)] = 1u << s;
    }
    struct fake_call *older = pull(1, 5, of_lane[0]);
    struct fake_call *newer = pull(1, 5, of_lane[1]);
    rig_pump_lane(1); /* The lane of the newer one is quicker. */
    rig_pump();
    expect(older, PS_ERR_NOT_YET);
    ck_assert(!fake_call_finished(newer));
    rig_min_clock(5);
    expect(newer, PS_OK);
    rig_close();
}
END_TEST

/* ---- Staged units --------------------------------------------------------------------------- */

static enum ps_status stage(uint64_t session, uint64_t lease, uint64_t unit, uint64_t step)
{
    (void)rig_request(session);
    rig.request.step = step;
    rig_add_push(lease, unit, ALL);
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    enum ps_status status = fake_call_reply(call)->push[0].status;
    fake_call_settle(call);
    return status;
}

START_TEST(a_session_stages_one_unit_a_step_and_two_steps_at_most)
{
    rig_open(2);
    rig_consistency(PS_GATE_BOUNDED, 0, true);
    ck_assert_int_eq(stage(1, 100, 0, 0), PS_OK);
    ck_assert_int_eq(stage(1, 100, 0, 0), PS_OK);          /* A repeat. */
    ck_assert_int_eq(stage(1, 100, 1, 0), PS_ERR_INVALID); /* Another unit of the same step. */
    ck_assert_int_eq(stage(1, 101, 0, 0), PS_ERR_INVALID);
    ck_assert_int_eq(stage(1, 100, 1, 1), PS_OK);
    for (uint64_t step = 2; step < 100; step++) {
        ck_assert_int_eq(stage(1, 100, step, step), PS_ERR_BUSY);
    }
    ck_assert_int_eq(stage(1, 100, 2, UINT64_MAX), PS_ERR_BUSY);
    ck_assert_int_eq(stage(2, 200, 0, 0), PS_OK); /* Others are not concerned. */
    struct ps_close_entry entry = {.session = 1, .lease = 100, .unit = 0, .rows = 8};
    rig_close_step(0, &entry, 1);
    ck_assert_int_eq(stage(1, 100, 2, 2), PS_OK);
    rig_close();
}
END_TEST

START_TEST(a_message_that_is_more_than_its_payload_is_refused)
{
    rig_open(1);
    static uint8_t bytes[2 * PS_HEAD_BYTES_MAX + RIG_MSG_BYTES];
    (void)rig_request(1);
    rig_add_push(100, 0, ALL);
    size_t n = rig_write(bytes);
    const uint32_t n_more = PS_HEAD_BYTES_MAX; /* An unknown field, number 100. */
    bytes[n++] = 0xa2;
    bytes[n++] = 0x06;
    bytes[n++] = (uint8_t)(n_more & 127) | 128;
    bytes[n++] = (uint8_t)(n_more >> 7 & 127) | 128;
    bytes[n++] = (uint8_t)(n_more >> 14);
    struct ps_slice slice = {.data = bytes, .n_bytes = n + n_more};
    struct fake_call *call = rig_deliver_bytes(PS_DATA_PUSH, &slice, 1);
    ck_assert_int_eq(fake_call_status(call), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(fake_call_reason(call), "for a payload of"));
    fake_call_settle(call);
    rig_close();
}
END_TEST

START_TEST(without_memory_a_call_is_busy_whichever_allocation_fails)
{
    rig_open(2);
    bool all = false;
    for (int64_t k = 0; !all; k++) {
        (void)rig_request(1);
        rig_add_push(100, (uint64_t)k, ALL);
        rig_add_pull(0, ALL);
        rig.mem.fail_after = k;
        struct fake_call *call = rig_deliver(PS_DATA_PUSH_PULL);
        rig_pump();
        all = atomic_load(&rig.mem.fail_after) >= 0; /* It made fewer. */
        rig.mem.fail_after = -1;
        if (all) {
            expect(call, PS_OK);
        } else if (fake_call_status(call) == PS_OK) {
            expect(call, PS_ERR_BUSY);
        } else {
            ck_assert_int_eq(fake_call_status(call), PS_ERR_BUSY);
            fake_call_settle(call);
        }
        ck_assert_uint_eq(atomic_load(&ledger()->bytes), 0);
        ck_assert_int_lt(k, 10);
    }
    rig_close();
}
END_TEST

Suite *suite_data_bounds(void)
{
    Suite *suite = suite_create("data_bounds");
    TCase *tcase = tcase_create("bounds");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_session_with_too_many_calls_is_told_to_wait_and_the_others_are_not);
    tcase_add_test(tcase, a_session_with_too_many_bytes_is_told_to_wait_and_the_others_are_not);
    tcase_add_test(tcase, greedy_sessions_leave_room_for_the_next);
    tcase_add_test(tcase, pages_that_a_reader_keeps_are_booked_until_they_are_back);
    tcase_add_test(tcase, what_a_stopped_reader_pins_does_not_grow_with_the_pushes);
    tcase_add_test(tcase, who_is_no_open_session_has_one_account_with_all_the_others);
    tcase_add_test(tcase, who_knows_a_number_only_is_not_booked_on_its_session);
    tcase_add_test(tcase, of_the_pulls_of_a_session_the_newest_waits_in_whatever_lane);
    tcase_add_test(tcase, a_pull_that_lost_its_place_before_it_came_is_not_parked);
    tcase_add_test(tcase, a_session_stages_one_unit_a_step_and_two_steps_at_most);
    tcase_add_test(tcase, a_message_that_is_more_than_its_payload_is_refused);
    tcase_add_test(tcase, without_memory_a_call_is_busy_whichever_allocation_fails);
    suite_add_tcase(suite, tcase);
    return suite;
}
