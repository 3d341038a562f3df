/*
 * test_calls.c — pushes and pulls when calls are lost, late, refused or answered with nonsense; and
 * the memory that they take.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
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

START_TEST(a_push_reaches_every_element_once_and_a_pull_brings_it_back)
{
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    ck_assert_uint_eq(pushed, 0); /* Never inside the start. */
    (void)rig_wait(&rig, &pushed, 1000);
    ck_assert_uint_eq(pushed, 1);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    rig_check_applied(&rig, 1.0f);
    rig.cluster->min_clock = 4;
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 1);
    ps_session_pull(rig.client, &pull);
    (void)rig_wait(&rig, &pulled, 1000);
    ck_assert_uint_eq(pulled, 1);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    ck_assert_uint_eq(pull.ret_min_clock, 4);
    ck_assert_mem_eq(rig.weights[0], rig.cluster->weights[0], RIG_SMALL_N * sizeof(float));
    ck_assert_mem_eq(rig.weights[1], rig.cluster->weights[1], RIG_BIG_N * sizeof(float));
    struct ps_view view = rig_view(&rig);
    ck_assert_uint_eq(view.n_bytes_pushed, (RIG_SMALL_N + RIG_BIG_N) * sizeof(float));
    ck_assert_uint_eq(view.n_bytes_pulled, (RIG_SMALL_N + RIG_BIG_N) * sizeof(float));
    ck_assert_uint_eq(view.n_retries, 0);
    ck_assert_uint_eq(rig.cluster->n_repeats, 0);
}
END_TEST

/* ---- Calls that get lost, refused, or answered oddly ----------------------------------------- */

static enum fake_fate lose_first_reply(struct fake_cluster *cluster, uint32_t server PS_UNUSED)
{
    return cluster->counter++ == 0 ? FATE_LOSE_REPLY : FATE_ANSWER;
}

START_TEST(a_lost_reply_is_asked_for_again_under_the_same_sequence)
{
    rig.cluster->fate = lose_first_reply;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 17);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 10000), PS_OK);
    rig_check_applied(&rig, 1.0f);
    ck_assert_uint_gt(rig.cluster->n_repeats, 0);
    for (uint32_t i = 0; i < rig.cluster->n_seen; i++) {
        ck_assert_uint_eq(rig.cluster->seen[i].sequence, 17);
        ck_assert_uint_eq(rig.cluster->seen[i].stream, 3);
    }
    ck_assert_uint_eq(rig_view(&rig).n_retries, 1);
}
END_TEST

static enum fake_fate storm_fate(struct fake_cluster *cluster, uint32_t server PS_UNUSED)
{
    static const enum ps_status refusals[] = {PS_ERR_BUSY, PS_ERR_UNAVAIL, PS_ERR_NOMEM,
                                              PS_ERR_TIMEOUT, PS_ERR_CANCELED};
    uint64_t roll = ps_mix64(cluster->counter++);
    cluster->refusal = refusals[(roll >> 8) % PS_ARRAY_LEN(refusals)];
    switch (roll % 8) {
    case 0: return FATE_LOSE_REQUEST;
    case 1: return FATE_LOSE_REPLY;
    case 2: return FATE_REFUSE;
    default: return FATE_ANSWER;
    }
}

static enum ps_status storm_judge(struct fake_cluster *cluster, uint32_t server PS_UNUSED,
                                  uint32_t slot PS_UNUSED, bool push PS_UNUSED)
{
    static const enum ps_status statuses[] = {PS_ERR_BUSY, PS_ERR_NOT_PRIMARY, PS_ERR_NOMEM};
    uint64_t roll = ps_mix64(cluster->counter++);
    return roll % 4 == 0 ? statuses[(roll >> 8) % PS_ARRAY_LEN(statuses)] : PS_OK;
}

START_TEST(three_steps_through_a_storm_are_applied_exactly_once)
{
    rig_stop(&rig);
    rig.give_up_ms = 120000; /* Bad luck is no loss here. */
    rig_start(&rig, 2);
    rig.cluster->counter = test_seed() * 1000003u + (uint64_t)_i * 7919u;
    rig.cluster->fate = storm_fate;
    rig.cluster->judge = storm_judge;
    for (uint32_t step = 0; step < 3; step++) {
        uint32_t pushed;
        uint32_t pulled;
        struct ps_push_op push = rig_push(&rig, &pushed, step);
        struct ps_pull_op pull = rig_pull(&rig, &pulled, step + 1);
        ps_session_push_pull(rig.client, &push, &pull);
        (void)rig_wait(&rig, &pushed, 60000);
        (void)rig_wait(&rig, &pulled, 60000);
        ck_assert_int_eq(push.op.err.status, PS_OK);
        ck_assert_int_eq(pull.op.err.status, PS_OK);
        rig_check_applied(&rig, (float)(step + 1));
        ck_assert_mem_eq(rig.weights[1], rig.cluster->weights[1], RIG_BIG_N * sizeof(float));
    }
    ck_assert_uint_gt(rig_view(&rig).n_retries, 0);
    ck_assert_uint_eq(rig_view(&rig).n_bytes_pushed, 12ull * (RIG_SMALL_N + RIG_BIG_N));
}
END_TEST

START_TEST(replies_may_come_in_any_order)
{
    rig.cluster->fate = fate_hold;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    uint32_t n_released = 0;
    while (pushed == 0) {
        fake_run(&rig.cluster->net, 1);
        ck_assert_uint_gt(rig.cluster->n_held, n_released); /* More is always under way. */
        fake_release(rig.cluster, rig.cluster->n_held - 1); /* The youngest first. */
        rig.cluster->held[rig.cluster->n_held - 1] = rig.cluster->held[n_released];
        n_released++;
        fake_run(&rig.cluster->net, 0);
    }
    ck_assert_int_eq(push.op.err.status, PS_OK);
    rig_check_applied(&rig, 1.0f);
    ck_assert_uint_le(rig.cluster->net.n_in_flight_max, 2 * 4); /* Four per server. */
}
END_TEST

START_TEST(a_gradient_with_nan_is_refused_before_anything_is_sent)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    rig.gradients[1][RIG_BIG_N - 1] = bad[_i];
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 10), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(push.op.err.text, "'big'"));
    ck_assert_uint_eq(rig.cluster->n_data_calls, 0);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused_before_anything_is_sent)
{
    uint32_t count;
    struct ps_push_op push = rig_push(&rig, &count, 0);
    struct ps_tensor twice[2] = {rig.push_tensors[0], rig.push_tensors[0]};
    struct ps_tensor unknown = {.table = 2, .values = rig.gradients[0]};
    struct ps_tensor empty = {.table = 1};
    switch (_i) {
    case 0: push.tensors = twice; break;
    case 1:
        push.tensors = &unknown;
        push.n_tensors = 1;
        break;
    case 2:
        push.tensors = &empty;
        push.n_tensors = 1;
        break;
    case 3: push.rate = NAN; break;
    default: push.acked_below = 1; break;
    }
    ck_assert_int_eq(rig_push_wait(&rig, &push, &count, 10),
                     _i == 1 ? PS_ERR_NOT_FOUND : PS_ERR_INVALID);
    ck_assert_uint_eq(rig.cluster->n_data_calls, 0);
}
END_TEST

START_TEST(a_busy_slot_is_sent_again_when_the_server_said)
{
    rig.cluster->judge = judge_slot_7_once;
    rig.cluster->refusal = PS_ERR_BUSY;
    rig.cluster->retry_ms = 120;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    uint32_t took_ms = rig_wait(&rig, &pushed, 1000);
    ck_assert_uint_ge(took_ms, 120);
    ck_assert_uint_le(took_ms, 125);
    rig_check_applied(&rig, 1.0f);
    ck_assert_uint_eq(rig.cluster->n_repeats, 0); /* Only what was refused came again. */
}
END_TEST

START_TEST(a_late_slot_fails_the_push_after_all_others_were_taken)
{
    rig.cluster->judge = judge_slot_7_once;
    rig.cluster->refusal = PS_ERR_LATE;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 1000), PS_ERR_LATE);
    ck_assert_uint_eq(rig.cluster->n_applied + 1, rig.cluster->n_seen);
    ck_assert(!rig_view(&rig).fenced);
    push = rig_push(&rig, &pushed, 0); /* The unit at its new step. */
    push.step = 9;
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 1000), PS_OK);
}
END_TEST

START_TEST(a_fenced_slot_closes_the_whole_client)
{
    rig.cluster->judge = judge_slot_7_once;
    rig.cluster->refusal = PS_ERR_FENCED;
    uint32_t pushed;
    uint32_t pulled;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    ps_session_push(rig.client, &push);
    ps_session_pull(rig.client, &pull);
    (void)rig_wait(&rig, &pushed, 1000);
    (void)rig_wait(&rig, &pulled, 1000);
    ck_assert_int_eq(push.op.err.status, PS_ERR_FENCED);
    ck_assert_int_eq(pull.op.err.status, PS_ERR_FENCED);
    ck_assert(rig_view(&rig).fenced);
    pull = rig_pull(&rig, &pulled, 0);
    ck_assert_int_eq(rig_pull_wait(&rig, &pull, &pulled, 10), PS_ERR_FENCED);
}
END_TEST

static enum fake_fate refuse(struct fake_cluster *cluster PS_UNUSED, uint32_t server)
{
    return server == 1 ? FATE_REFUSE : FATE_ANSWER;
}

START_TEST(a_call_that_is_refused_for_good_names_the_server)
{
    rig.cluster->fate = refuse;
    rig.cluster->refusal = PS_ERR_DENIED;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 1000), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(push.op.err.text, "server 1 (server-1:1)"));
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK);
}
END_TEST

START_TEST(a_refused_call_is_repeated_when_the_server_said)
{
    rig.cluster->fate = refuse;
    rig.cluster->refusal = PS_ERR_BUSY;
    rig.cluster->retry_ms = 3000; /* Longer than any back-off. */
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    (void)rig_wait(&rig, &pushed, 2999);
    uint32_t n_calls = rig.cluster->n_data_calls;
    rig.cluster->fate = NULL;
    (void)rig_wait(&rig, &pushed, 100);
    ck_assert_uint_eq(pushed, 1);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    ck_assert_uint_gt(rig.cluster->n_data_calls, n_calls);
    rig_check_applied(&rig, 1.0f);
}
END_TEST

START_TEST(a_server_that_is_busy_and_says_until_when_is_never_lost)
{
    rig.cluster->fate = refuse;
    rig.cluster->refusal = PS_ERR_BUSY;
    rig.cluster->retry_ms = 100;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    (void)rig_wait(&rig, &pushed, 60000);
    ck_assert_uint_eq(pushed, 0);
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK);
    rig.cluster->fate = NULL;
    (void)rig_wait(&rig, &pushed, 3000);
    ck_assert_uint_eq(pushed, 1);
    rig_check_applied(&rig, 1.0f);
}
END_TEST

static enum ps_status judge_slot_7(struct fake_cluster *cluster, uint32_t server PS_UNUSED,
                                   uint32_t slot, bool push)
{
    return push && slot == 7 ? cluster->refusal : PS_OK;
}

/* BUSY may go on for ever: such memory comes back. */
START_TEST(a_push_of_rows_that_find_no_memory_ends_with_words)
{
    rig.cluster->judge = judge_slot_7;
    rig.cluster->refusal = _i == 0 ? PS_ERR_NOMEM : PS_ERR_BUSY;
    rig.cluster->retry_ms = 100;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    uint32_t took_ms = rig_wait(&rig, &pushed, 20000);
    ck_assert_uint_eq(pushed, _i == 0 ? 1 : 0);
    if (_i == 0) {
        ck_assert_uint_ge(took_ms, 10000);
        ck_assert_uint_le(took_ms, 12000);
        ck_assert_int_eq(push.op.err.status, PS_ERR_BUSY);
        ck_assert_ptr_nonnull(strstr(push.op.err.text, "no memory for new rows"));
        ck_assert_ptr_nonnull(strstr(push.op.err.text, "--memory-max"));
        ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK); /* The next one may do. */
        push = rig_push(&rig, &pushed, 1);
        ps_session_push(rig.client, &push);
        (void)rig_wait(&rig, &pushed, 5000);
    }
    rig.cluster->judge = NULL;
    (void)rig_wait(&rig, &pushed, 1000);
    ck_assert_uint_eq(pushed, 1);
    ck_assert_int_eq(push.op.err.status, PS_OK);
}
END_TEST

static enum ps_status slot_7;
static enum ps_status slot_9;

static enum ps_status judge_two_slots(struct fake_cluster *cluster PS_UNUSED,
                                      uint32_t server PS_UNUSED, uint32_t slot, bool push)
{
    return !push ? PS_OK : slot == 7 ? slot_7 : slot == 9 ? slot_9 : PS_OK;
}

/* What was full has been taken, so the time runs anew for what is full later. */
START_TEST(memory_that_was_found_is_not_held_against_the_next_that_is_not)
{
    rig.cluster->judge = judge_two_slots;
    rig.cluster->retry_ms = 100;
    slot_7 = PS_ERR_NOMEM;
    slot_9 = PS_ERR_BUSY;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    (void)rig_wait(&rig, &pushed, 5000);
    slot_7 = PS_OK;
    (void)rig_wait(&rig, &pushed, 8000);
    slot_9 = PS_ERR_NOMEM;
    (void)rig_wait(&rig, &pushed, 5000);
    ck_assert_uint_eq(pushed, 0);
    slot_9 = PS_OK;
    (void)rig_wait(&rig, &pushed, 2000);
    ck_assert_uint_eq(pushed, 1);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    rig_check_applied(&rig, 1.0f);
}
END_TEST

START_TEST(something_that_refuses_for_ever_without_a_word_is_no_server)
{
    rig.cluster->fate = refuse;
    rig.cluster->refusal = PS_ERR_BUSY;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    (void)rig_wait(&rig, &pushed, 13000);
    ck_assert_uint_eq(pushed, 1);
    ck_assert_int_eq(push.op.err.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(strstr(push.op.err.text, "server 1 (server-1:1) refuses every call"));
}
END_TEST

START_TEST(a_hint_without_end_is_believed_for_a_while)
{
    rig.cluster->judge = judge_slot_7_once;
    rig.cluster->refusal = PS_ERR_BUSY;
    rig.cluster->retry_ms = UINT32_MAX;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    uint32_t took_ms = rig_wait(&rig, &pushed, 2 * PS_RETRY_HINT_MS_MAX);
    ck_assert_uint_ge(took_ms, PS_RETRY_HINT_MS_MAX);
    ck_assert_uint_le(took_ms, PS_RETRY_HINT_MS_MAX + 5);
    ck_assert_int_eq(push.op.err.status, PS_OK);
}
END_TEST

static enum fake_fate nonsense(struct fake_cluster *cluster PS_UNUSED, uint32_t server PS_UNUSED)
{
    return FATE_NONSENSE;
}

START_TEST(an_answer_to_another_question_ends_the_operation)
{
    rig.cluster->fate = nonsense;
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    ck_assert_int_eq(rig_pull_wait(&rig, &pull, &pulled, 1000), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(pull.op.err.text, "server 0"));
}
END_TEST

static enum fake_fate nothing(struct fake_cluster *cluster, uint32_t server PS_UNUSED)
{
    ck_assert_uint_lt(cluster->n_data_calls, 100); /* It is not asked again and again. */
    return FATE_NOTHING;
}

START_TEST(an_answer_without_the_slots_that_were_asked_for_ends_the_operation)
{
    rig.cluster->fate = nothing;
    uint32_t count;
    struct ps_pull_op pull = rig_pull(&rig, &count, 0);
    struct ps_push_op push = rig_push(&rig, &count, 0);
    enum ps_status status = _i == 0 ? rig_pull_wait(&rig, &pull, &count, 1000)
                                    : rig_push_wait(&rig, &push, &count, 1000);
    ck_assert_int_eq(status, PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(_i == 0 ? pull.op.err.text : push.op.err.text, "server 0"));
}
END_TEST

static enum fake_fate dead_1(struct fake_cluster *cluster, uint32_t server)
{
    if (server != 1) {
        return FATE_ANSWER;
    }
    cluster->refusal = PS_ERR_UNAVAIL;
    return cluster->counter == 0 ? FATE_LOSE_REQUEST : FATE_REFUSE;
}

START_TEST(a_server_that_is_gone_loses_the_cluster_and_is_named)
{
    rig.cluster->counter = (uint64_t)_i; /* 0: it hangs; 1: nobody listens. */
    rig.cluster->fate = dead_1;
    uint32_t pushed;
    uint32_t pulled;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    ps_session_push(rig.client, &push);
    ps_session_pull(rig.client, &pull);
    (void)rig_wait(&rig, &pushed, 11000);
    (void)rig_wait(&rig, &pulled, 10);
    ck_assert_int_eq(push.op.err.status, PS_ERR_LOST);
    ck_assert_int_eq(pull.op.err.status, PS_ERR_LOST);
    struct ps_view view = rig_view(&rig);
    ck_assert_int_eq(view.lost.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(strstr(view.lost.text, "server 1 (server-1:1) is unreachable"));
    push = rig_push(&rig, &pushed, 1);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 10), PS_ERR_LOST);
    ck_assert_str_eq(push.op.err.text, view.lost.text);
}
END_TEST

START_TEST(a_server_that_returns_in_time_is_not_lost)
{
    rig.cluster->counter = 1;
    rig.cluster->fate = dead_1;
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ps_session_push(rig.client, &push);
    (void)rig_wait(&rig, &pushed, 8000);
    ck_assert_uint_eq(pushed, 0);
    rig.cluster->fate = NULL;
    (void)rig_wait(&rig, &pushed, 2100);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    rig_check_applied(&rig, 1.0f);
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK);
}
END_TEST

/* ---- Memory ---------------------------------------------------------------------------------- */

START_TEST(a_step_allocates_nothing_once_warm)
{
    uint64_t n_calls = 0;
    for (uint64_t step = 0; step < 4; step++) {
        if (step == 2) {
            n_calls = atomic_load(&rig.mem.n_calls);
        }
        uint32_t pushed;
        uint32_t pulled;
        struct ps_push_op push = rig_push(&rig, &pushed, step);
        struct ps_pull_op pull = rig_pull(&rig, &pulled, step + 1);
        ps_session_push_pull(rig.client, &push, &pull);
        (void)rig_wait(&rig, &pushed, 100);
        (void)rig_wait(&rig, &pulled, 100);
        pull = rig_pull(&rig, &pulled, step + 1);
        ck_assert_int_eq(rig_pull_wait(&rig, &pull, &pulled, 100), PS_OK);
    }
    ck_assert_uint_eq(atomic_load(&rig.mem.n_calls), n_calls);
}
END_TEST

START_TEST(without_memory_operations_end_and_nothing_is_torn)
{
    for (int64_t fail_after = 0; fail_after < 12; fail_after++) {
        atomic_store(&rig.mem.fail_after, fail_after);
        uint32_t pushed;
        struct ps_push_op push = rig_push(&rig, &pushed, (uint64_t)fail_after);
        ps_session_push(rig.client, &push);
        fake_run(&rig.cluster->net, 1);
        atomic_store(&rig.mem.fail_after, -1); /* Memory is back. */
        (void)rig_wait(&rig, &pushed, 1000);
        ck_assert_uint_eq(pushed, 1);
        enum ps_status status = push.op.err.status;
        ck_assert(status == PS_OK || status == PS_ERR_BUSY || status == PS_ERR_NOMEM);
    }
}
END_TEST

/* A budget that is too small does not grow by waiting. */
START_TEST(memory_that_does_not_come_back_is_not_waited_for)
{
    rig.cluster->fate = _i >= 64 ? fate_hold : NULL; /* Others are under way: they will end. */
    uint32_t counts[3];
    struct ps_pull_op before = rig_pull(&rig, &counts[2], 0);
    if (_i >= 64) {
        ps_session_pull(rig.client, &before);
        fake_run(&rig.cluster->net, 1);
    }
    rig.mem.limit[PS_MEM_CALLS] =
        atomic_load(&rig.mem.used[PS_MEM_CALLS]) + (uint64_t)(_i % 64) * 400;
    struct ps_push_op push = rig_push(&rig, &counts[0], 0);
    struct ps_pull_op pull = rig_pull(&rig, &counts[1], 0);
    ps_session_push(rig.client, &push);
    ps_session_pull(rig.client, &pull);
    fake_run(&rig.cluster->net, 1);
    rig.cluster->fate = NULL;
    for (uint32_t i = 0; i < rig.cluster->n_held; i++) {
        fake_release(rig.cluster, i);
    }
    (void)rig_wait(&rig, &counts[0], 2000);
    (void)rig_wait(&rig, &counts[1], 2000);
    ck_assert_uint_eq(counts[0], 1);
    ck_assert_uint_eq(counts[1], 1);
    enum ps_status pushed = push.op.err.status;
    enum ps_status pulled = pull.op.err.status;
    ck_assert(pushed == PS_OK || pushed == PS_ERR_NOMEM);
    ck_assert(pulled == PS_OK || pulled == PS_ERR_NOMEM);
    ck_assert(_i > 0 || pushed == PS_ERR_NOMEM);
}
END_TEST

START_TEST(too_many_operations_are_refused)
{
    enum {
        N = 70
    };
    static struct ps_pull_op pulls[N];
    static uint32_t counts[N];
    rig.cluster->fate = fate_hold;
    uint32_t n_busy = 0;
    for (uint32_t i = 0; i < N; i++) {
        pulls[i] = rig_pull(&rig, &counts[i], 0);
        ps_session_pull(rig.client, &pulls[i]);
    }
    fake_run(&rig.cluster->net, 1);
    for (uint32_t i = 0; i < N; i++) {
        n_busy += counts[i] == 1 && pulls[i].op.err.status == PS_ERR_BUSY ? 1 : 0;
    }
    ck_assert_uint_eq(n_busy, N - 64);
}
END_TEST

static TCase *tcase_calls(void)
{
    TCase *tcase = tcase_create("calls");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_push_reaches_every_element_once_and_a_pull_brings_it_back);
    tcase_add_test(tcase, a_lost_reply_is_asked_for_again_under_the_same_sequence);
    tcase_add_loop_test(tcase, three_steps_through_a_storm_are_applied_exactly_once, 0, 6);
    tcase_add_test(tcase, replies_may_come_in_any_order);
    tcase_add_loop_test(tcase, a_gradient_with_nan_is_refused_before_anything_is_sent, 0, 3);
    tcase_add_loop_test(tcase, what_makes_no_sense_is_refused_before_anything_is_sent, 0, 5);
    tcase_add_test(tcase, a_busy_slot_is_sent_again_when_the_server_said);
    tcase_add_test(tcase, a_refused_call_is_repeated_when_the_server_said);
    tcase_add_test(tcase, a_server_that_is_busy_and_says_until_when_is_never_lost);
    tcase_add_loop_test(tcase, a_push_of_rows_that_find_no_memory_ends_with_words, 0, 2);
    tcase_add_test(tcase, memory_that_was_found_is_not_held_against_the_next_that_is_not);
    tcase_add_test(tcase, something_that_refuses_for_ever_without_a_word_is_no_server);
    tcase_add_test(tcase, a_hint_without_end_is_believed_for_a_while);
    tcase_add_test(tcase, a_late_slot_fails_the_push_after_all_others_were_taken);
    tcase_add_test(tcase, a_fenced_slot_closes_the_whole_client);
    tcase_add_test(tcase, a_call_that_is_refused_for_good_names_the_server);
    tcase_add_test(tcase, an_answer_to_another_question_ends_the_operation);
    tcase_add_loop_test(tcase, an_answer_without_the_slots_that_were_asked_for_ends_the_operation,
                        0, 2);
    tcase_add_loop_test(tcase, a_server_that_is_gone_loses_the_cluster_and_is_named, 0, 2);
    tcase_add_test(tcase, a_server_that_returns_in_time_is_not_lost);
    tcase_add_test(tcase, a_step_allocates_nothing_once_warm);
    tcase_add_test(tcase, without_memory_operations_end_and_nothing_is_torn);
    tcase_add_loop_test(tcase, memory_that_does_not_come_back_is_not_waited_for, 0, 128);
    tcase_add_test(tcase, too_many_operations_are_refused);
    return tcase;
}

Suite *suite_calls(void)
{
    Suite *suite = suite_create("calls");
    suite_add_tcase(suite, tcase_calls());
    return suite;
}
