/*
 * test_gate.c — where slots live, and pulls that have to wait for others.
 */
#include <string.h>

#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

static struct rig rig;

static void setup(void)
{
    rig_start(&rig, 2);
}

static void teardown(void)
{
    rig_stop(&rig);
}

START_TEST(only_slots_that_moved_are_sent_again_and_to_their_new_home)
{
    struct fake_cluster *cluster = rig.cluster;
    for (uint32_t slot = 0; slot < PS_SLOTS; slot += 8) {
        cluster->primary[slot] = 1; /* It was at 0; the client does not know. */
        cluster->epoch[slot] = 2;
    }
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    fake_run(&cluster->net, 30);
    ck_assert_uint_eq(pushed, 0);
    uint32_t n_before = cluster->n_seen;
    fake_state(cluster, true);
    fake_run(&cluster->net, 0); /* At once, without waiting for the back-off. */
    ck_assert_uint_eq(pushed, 1);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    rig_check_applied(&rig, 1.0f);
    ck_assert_uint_eq(cluster->n_repeats, 0);
    for (uint32_t i = n_before; i < cluster->n_seen; i++) {
        ck_assert_uint_eq(cluster->seen[i].slot.slot % 8, 0);
        ck_assert_uint_eq(cluster->seen[i].slot.epoch, 2);
        ck_assert_uint_eq(cluster->seen[i].server, 1);
    }
}
END_TEST

START_TEST(an_older_placement_changes_nothing)
{
    struct fake_cluster *cluster = rig.cluster;
    cluster->primary[0] = 1;
    cluster->epoch[0] = 3;
    fake_state(cluster, true);
    fake_run(&cluster->net, 0);
    cluster->primary[0] = 0;
    cluster->epoch[0] = 2;
    fake_state(cluster, true);
    fake_run(&cluster->net, 0);
    cluster->primary[0] = 1;
    cluster->epoch[0] = 3;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 100), PS_OK);
    ck_assert_uint_eq(rig_view(&rig).n_retries, 0);
}
END_TEST

START_TEST(acknowledged_positions_are_sent_back)
{
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 100), PS_OK);
    uint32_t n_before = rig.cluster->n_seen;
    push = rig_push(&rig, &pushed, 1);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 100), PS_OK);
    ck_assert_uint_gt(rig.cluster->n_seen, n_before);
    for (uint32_t i = n_before; i < rig.cluster->n_seen; i++) {
        ck_assert_uint_eq(rig.cluster->seen[i].slot.seen_epoch, 1);
        ck_assert_uint_ge(rig.cluster->seen[i].slot.seen_position, 1);
    }
}
END_TEST

START_TEST(a_pull_waits_at_the_gate_with_one_call_per_server)
{
    rig.cluster->mode = PS_CONSISTENCY_BSP;
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 0);
    rig.cluster->fate = fate_hold;
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 1);
    ps_session_pull(rig.client, &pull);
    fake_run(&rig.cluster->net, 100);
    ck_assert_uint_eq(rig.cluster->n_held, 2);
    uint32_t second;
    struct ps_pull_op other = rig_pull(&rig, &second, 1);
    ps_session_pull(rig.client, &other);
    fake_run(&rig.cluster->net, 100);
    ck_assert_uint_eq(rig.cluster->n_held, 2); /* Nor may another pull be parked beside it. */
    rig.cluster->fate = NULL;
    rig.cluster->min_clock = 1;
    fake_release(rig.cluster, 0);
    fake_release(rig.cluster, 1);
    (void)rig_wait(&rig, &pulled, 10);
    (void)rig_wait(&rig, &second, 10);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    ck_assert_int_eq(other.op.err.status, PS_OK);
    ck_assert_uint_eq(pull.ret_min_clock, 1);
    ck_assert_uint_ge(pull.ret_blocked_ns, 199000000);
    ck_assert_uint_le(pull.ret_blocked_ns, 201000000);
    ck_assert_uint_eq(rig_view(&rig).n_pulls_parked, 2);
}
END_TEST

START_TEST(a_pull_that_is_not_yet_due_goes_again_when_the_clock_is_heard)
{
    rig.cluster->mode = PS_CONSISTENCY_SSP;
    rig.cluster->bound = 2;
    rig.cluster->gated = true;
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 0);
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 5);
    ps_session_pull(rig.client, &pull);
    fake_run(&rig.cluster->net, 3000);
    ck_assert_uint_eq(pulled, 0);
    ck_assert_uint_eq(rig_view(&rig).n_retries, 0);   /* Waiting is no failure. */
    ck_assert_uint_lt(rig.cluster->n_pull_calls, 40); /* Servers should park; these answer. */
    rig.cluster->min_clock = 3;
    fake_state(rig.cluster, false);
    fake_run(&rig.cluster->net, 0);
    ck_assert_uint_eq(pulled, 1);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    ck_assert_uint_eq(rig_view(&rig).min_clock, 3);
}
END_TEST

START_TEST(a_slow_pull_within_the_bound_was_not_blocked)
{
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    ck_assert_int_eq(rig_pull_wait(&rig, &pull, &pulled, 100), PS_OK);
    rig.cluster->fate = fate_hold;
    pull = rig_pull(&rig, &pulled, 0);
    ps_session_pull(rig.client, &pull);
    fake_run(&rig.cluster->net, 50); /* The network, not the gate. */
    rig.cluster->fate = NULL;
    fake_release(rig.cluster, 0);
    fake_release(rig.cluster, 1);
    (void)rig_wait(&rig, &pulled, 100);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    ck_assert_uint_eq(pull.ret_blocked_ns, 0);
    ck_assert_uint_eq(rig_view(&rig).n_pulls_parked, 0);
}
END_TEST

START_TEST(push_and_pull_share_calls_when_the_gate_is_open)
{
    uint32_t pushed;
    uint32_t pulled;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 1);
    ps_session_push_pull(rig.client, &push, &pull);
    (void)rig_wait(&rig, &pushed, 100);
    (void)rig_wait(&rig, &pulled, 100);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    ck_assert_uint_eq(rig.cluster->n_pull_calls, 0);
    ck_assert_uint_eq(rig.cluster->n_push_calls, 0);
    ck_assert_uint_gt(rig.cluster->n_both_calls, 0);
    ck_assert_mem_eq(rig.weights[1], rig.cluster->weights[1], RIG_BIG_N * sizeof(float));
    rig_check_applied(&rig, 1.0f); /* The own update is in the weights. */
}
END_TEST

START_TEST(behind_a_closed_gate_the_push_ends_first_and_the_pull_waits)
{
    rig.cluster->mode = PS_CONSISTENCY_BSP;
    rig.cluster->gated = true;
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 0);
    uint32_t pushed;
    uint32_t pulled;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 1);
    ps_session_push_pull(rig.client, &push, &pull);
    (void)rig_wait(&rig, &pushed, 100);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    ck_assert_uint_eq(pulled, 0);
    fake_run(&rig.cluster->net, 50);
    ck_assert_uint_gt(rig.cluster->n_pull_calls, 0);
    rig.cluster->min_clock = 1;
    fake_state(rig.cluster, false);
    (void)rig_wait(&rig, &pulled, 10);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    ck_assert_mem_eq(rig.weights[1], rig.cluster->weights[1], RIG_BIG_N * sizeof(float));
}
END_TEST

START_TEST(a_push_that_fails_takes_its_pull_with_it)
{
    rig.cluster->mode = PS_CONSISTENCY_BSP;
    rig.cluster->gated = true;
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 0);
    rig.cluster->judge = judge_slot_7_once;
    rig.cluster->refusal = PS_ERR_DENIED;
    uint32_t pushed;
    uint32_t pulled;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 1);
    ps_session_push_pull(rig.client, &push, &pull);
    (void)rig_wait(&rig, &pushed, 100);
    (void)rig_wait(&rig, &pulled, 100);
    ck_assert_int_eq(push.op.err.status, PS_ERR_DENIED);
    ck_assert_int_eq(pull.op.err.status, PS_ERR_DENIED);
    ck_assert_str_eq(push.op.err.text, pull.op.err.text);
}
END_TEST

static TCase *tcase_gate(void)
{
    TCase *tcase = tcase_create("placement and gate");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, only_slots_that_moved_are_sent_again_and_to_their_new_home);
    tcase_add_test(tcase, an_older_placement_changes_nothing);
    tcase_add_test(tcase, acknowledged_positions_are_sent_back);
    tcase_add_test(tcase, a_pull_waits_at_the_gate_with_one_call_per_server);
    tcase_add_test(tcase, a_pull_that_is_not_yet_due_goes_again_when_the_clock_is_heard);
    tcase_add_test(tcase, a_slow_pull_within_the_bound_was_not_blocked);
    tcase_add_test(tcase, push_and_pull_share_calls_when_the_gate_is_open);
    tcase_add_test(tcase, behind_a_closed_gate_the_push_ends_first_and_the_pull_waits);
    tcase_add_test(tcase, a_push_that_fails_takes_its_pull_with_it);
    return tcase;
}

Suite *suite_gate(void)
{
    Suite *suite = suite_create("gate");
    suite_add_tcase(suite, tcase_gate());
    return suite;
}
