/*
 * test_session.c — joining, attending, reporting, being lost or fenced, and leaving.
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

START_TEST(joining_learns_number_cluster_and_placement)
{
    struct ps_view view = rig_view(&rig);
    ck_assert_uint_eq(view.session_number, 5);
    ck_assert_uint_eq(view.cluster_id.bytes[0], 7);
    ck_assert_uint_eq(view.term, 1);
    ck_assert_uint_gt(rig.n_changed, 0);
    const struct ps_table *table = ps_session_table(rig.client, "big");
    ck_assert_ptr_nonnull(table);
    ck_assert_uint_eq(table->number, 1);
    ck_assert_uint_eq(table->n_dims, 1);
    ck_assert_uint_eq(table->shape[0], RIG_BIG_N);
    ck_assert_uint_eq(table->n_elements, RIG_BIG_N);
    ck_assert_str_eq(table->optimizer, "sgd");
    ck_assert_ptr_null(ps_session_table(rig.client, "none"));
}
END_TEST

/* ---- Attending ------------------------------------------------------------------------------- */

START_TEST(a_report_goes_at_once_and_with_every_heartbeat)
{
    struct ps_worker_report report = {.clock = 4, .lease = 2, .units_done = 3};
    uint32_t n_before = rig.cluster->n_reports;
    ps_session_report(rig.client, &report);
    ck_assert_uint_eq(rig.cluster->n_reports, n_before + 1);
    ck_assert_uint_eq(rig.cluster->last_clock, 4);
    ck_assert_uint_eq(rig.cluster->last_lease, 2);
    ck_assert_uint_eq(rig.cluster->last_units_done, 3);
    fake_run(&rig.cluster->net, 1000);
    ck_assert_uint_ge(rig.cluster->n_reports, n_before + 4);
    ck_assert_uint_eq(rig.cluster->last_clock, 4);
}
END_TEST

START_TEST(a_report_that_found_the_stream_full_follows)
{
    struct ps_worker_report report = {.clock = 6};
    rig.cluster->net.stream_busy = true;
    ps_session_report(rig.client, &report);
    ck_assert_uint_ne(rig.cluster->last_clock, 6);
    rig.cluster->net.stream_busy = false;
    fake_run(&rig.cluster->net, PS_HEARTBEAT_MS);
    ck_assert_uint_eq(rig.cluster->last_clock, 6);
}
END_TEST

START_TEST(a_new_stream_begins_with_a_hello_and_repeats_the_report)
{
    struct ps_worker_report report = {.clock = 4, .lease = 2, .units_done = 3};
    ps_session_report(rig.client, &report);
    rig.cluster->last_clock = 0;
    rig.cluster->term = 2; /* Another coordinator. */
    uint32_t n_hellos = rig.cluster->n_hellos;
    fake_stream_break(&rig.cluster->net, PS_ERR_UNAVAIL);
    fake_run(&rig.cluster->net, 100);
    ck_assert_uint_eq(rig.cluster->n_hellos, n_hellos + 1);
    ck_assert_uint_eq(rig.cluster->last_clock, 4);
    ck_assert_uint_eq(rig.cluster->last_term, 2); /* It was sent after the term was heard. */
    ck_assert_uint_eq(rig_view(&rig).term, 2);
}
END_TEST

START_TEST(states_of_an_earlier_term_are_ignored)
{
    rig.cluster->term = 3;
    fake_state(rig.cluster, false);
    fake_run(&rig.cluster->net, 0);
    rig.cluster->term = 2;
    rig.cluster->min_clock = 77;
    fake_state(rig.cluster, false);
    fake_run(&rig.cluster->net, 0);
    ck_assert_uint_eq(rig_view(&rig).term, 3);
    ck_assert_uint_eq(rig_view(&rig).min_clock, 0);
}
END_TEST

START_TEST(a_silent_coordinator_is_lost_and_named)
{
    rig.cluster->silent = true;
    rig.cluster->net.refuse_streams = _i == 1; /* 0: streams open, but nobody speaks. */
    fake_stream_break(&rig.cluster->net, PS_ERR_UNAVAIL);
    fake_run(&rig.cluster->net, 9500);
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK);
    fake_run(&rig.cluster->net, 1000);
    struct ps_view view = rig_view(&rig);
    ck_assert_int_eq(view.lost.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(strstr(view.lost.text, "coordinator (coordinator:1) is unreachable"));
    ck_assert_uint_lt(rig.cluster->net.n_streams, 60); /* It backed off. */
}
END_TEST

START_TEST(after_a_long_silence_a_slow_answer_is_still_waited_for)
{
    rig.cluster->silent = true;
    uint32_t n_streams = rig.cluster->net.n_streams;
    fake_run(&rig.cluster->net, PS_SILENCE_MS + 1000); /* The dead stream has been replaced. */
    ck_assert_uint_eq(rig.cluster->net.n_streams, n_streams + 1);
    fake_run(&rig.cluster->net, 4 * PS_HEARTBEAT_MS);
    ck_assert_uint_eq(rig.cluster->net.n_streams, n_streams + 1);
    rig.cluster->silent = false;
    rig.cluster->min_clock = 7;
    fake_state(rig.cluster, false);
    fake_run(&rig.cluster->net, 1);
    ck_assert_uint_eq(rig_view(&rig).min_clock, 7);
}
END_TEST

START_TEST(a_gap_in_the_own_loop_is_nobodys_silence)
{
    uint32_t pulled;
    rig.cluster->fate = fate_hold;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    ps_session_pull(rig.client, &pull);
    fake_run(&rig.cluster->net, 1);
    rig.cluster->fate = NULL;
    rig.cluster->net.now_ns += 60ull * 1000000000u; /* Stopped for a minute. */
    if (_i == 1) {
        fake_state(rig.cluster, false); /* A state waited for it. */
    }
    fake_run(&rig.cluster->net, 1);
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK);
    fake_state(rig.cluster, false);
    (void)rig_wait(&rig, &pulled, 3000);
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
}
END_TEST

START_TEST(lost_data_is_told_with_the_coordinators_reason)
{
    uint32_t pulled;
    rig.cluster->fate = fate_hold;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    ps_session_pull(rig.client, &pull);
    fake_run(&rig.cluster->net, 1);
    struct fake_lease lease = {.job = PS_JOB_CLUSTER_LOST, .reason = "server 1 is gone"};
    fake_state_lease(rig.cluster, &lease);
    (void)rig_wait(&rig, &pulled, 10);
    ck_assert_int_eq(pull.op.err.status, PS_ERR_LOST);
    ck_assert_str_eq(pull.op.err.text, "server 1 is gone");
    ck_assert_str_eq(rig_view(&rig).lost.text, "server 1 is gone");
    ck_assert_int_eq(rig_view(&rig).job, PS_JOB_CLUSTER_LOST);
}
END_TEST

START_TEST(a_fence_from_the_coordinator_ends_everything)
{
    uint32_t pulled;
    rig.cluster->fate = fate_hold;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    ps_session_pull(rig.client, &pull);
    struct fake_lease lease = {.fenced = true, .reason = "silent for 5 s"};
    fake_state_lease(rig.cluster, &lease);
    (void)rig_wait(&rig, &pulled, 10);
    ck_assert_int_eq(pull.op.err.status, PS_ERR_FENCED);
    ck_assert_str_eq(pull.op.err.text, "silent for 5 s");
    uint32_t n_streams = rig.cluster->net.n_streams;
    fake_run(&rig.cluster->net, 5000);
    ck_assert_uint_eq(rig.cluster->net.n_streams, n_streams); /* It does not come back. */
}
END_TEST

START_TEST(another_cluster_at_the_coordinators_address_is_told)
{
    rig.cluster->term = _i == 0 ? 9 : 0; /* Its terms have nothing to do with ours. */
    struct fake_lease lease = {.fenced = true, .reason = "not known here", .cluster = 8};
    fake_state_lease(rig.cluster, &lease);
    fake_run(&rig.cluster->net, 10);
    struct ps_view view = rig_view(&rig);
    ck_assert(!view.fenced); /* It would join again. */
    ck_assert_int_eq(view.lost.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(strstr(view.lost.text, "coordinator:1"));
    ck_assert_ptr_nonnull(strstr(view.lost.text, "cluster 08000000000000000000000000000000"));
    ck_assert_ptr_nonnull(strstr(view.lost.text, "cluster 07000000000000000000000000000000"));
}
END_TEST

START_TEST(a_session_that_its_own_cluster_does_not_know_is_fenced)
{
    struct fake_lease lease = {.fenced = true, .reason = "not known here", .cluster = 7};
    fake_state_lease(rig.cluster, &lease);
    fake_run(&rig.cluster->net, 10);
    ck_assert(rig_view(&rig).fenced);
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK);
}
END_TEST

START_TEST(finished_work_is_never_shown_as_undone)
{
    struct fake_lease lease = {.id = 9, .n_units = 4, .units_done = 1, .clock = 6};
    fake_state_lease(rig.cluster, &lease);
    fake_run(&rig.cluster->net, 0);
    struct ps_view view = rig_view(&rig);
    ck_assert_uint_eq(view.lease.id, 9);
    ck_assert_uint_eq(view.lease.units_done, 1);
    ck_assert_uint_eq(view.lease.clock, 6);
    struct ps_worker_report report = {.clock = 9, .lease = 9, .units_done = 4};
    ps_session_report(rig.client, &report);
    ck_assert_uint_eq(rig_view(&rig).lease.units_done, 4);
    fake_state_lease(rig.cluster, &lease); /* Sent before it heard the report. */
    fake_run(&rig.cluster->net, 0);
    ck_assert_uint_eq(rig_view(&rig).lease.units_done, 4);
    lease = (struct fake_lease){.id = 10, .n_units = 4};
    fake_state_lease(rig.cluster, &lease);
    fake_run(&rig.cluster->net, 0);
    ck_assert_uint_eq(rig_view(&rig).lease.id, 10);
    ck_assert_uint_eq(rig_view(&rig).lease.units_done, 0);
    lease = (struct fake_lease){.job = PS_JOB_DONE};
    fake_state_lease(rig.cluster, &lease);
    fake_run(&rig.cluster->net, 0);
    ck_assert_uint_eq(rig_view(&rig).lease.id, 0);
    ck_assert_int_eq(rig_view(&rig).job, PS_JOB_DONE);
}
END_TEST

START_TEST(with_aggregation_only_the_coordinator_counts_units)
{
    rig.cluster->mode = PS_CONSISTENCY_BSP;
    rig.cluster->aggregate = true;
    fake_state(rig.cluster, true);
    struct fake_lease lease = {.id = 9, .n_units = 4, .units_done = 1};
    fake_state_lease(rig.cluster, &lease);
    fake_run(&rig.cluster->net, 0);
    struct ps_worker_report report = {.clock = 9, .lease = 9, .units_done = 3};
    ps_session_report(rig.client, &report);
    ck_assert_uint_eq(rig_view(&rig).lease.units_done, 1);
}
END_TEST

START_TEST(in_asp_pushes_stop_while_the_coordinator_is_away)
{
    rig.cluster->mode = PS_CONSISTENCY_ASP;
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 0);
    rig.cluster->silent = true;
    fake_stream_break(&rig.cluster->net, PS_ERR_UNAVAIL);
    fake_run(&rig.cluster->net, PS_SILENCE_MS - 10);
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 5), PS_OK);
    fake_run(&rig.cluster->net, 100);
    push = rig_push(&rig, &pushed, 1);
    ps_session_push(rig.client, &push);
    fake_run(&rig.cluster->net, 1000);
    ck_assert_uint_eq(pushed, 0);
    rig.cluster->silent = false;
    (void)rig_wait(&rig, &pushed, 4000);
    ck_assert_int_eq(push.op.err.status, PS_OK);
}
END_TEST

/* ---- Beginning and end ----------------------------------------------------------------------- */

START_TEST(closing_ends_what_is_pending_and_says_goodbye)
{
    rig.cluster->fate = fate_hold;
    uint32_t pushed;
    uint32_t pulled;
    uint32_t described;
    uint32_t closed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    struct ps_op describe = rig_op(&described);
    struct ps_op close = rig_op(&closed);
    ps_session_push(rig.client, &push);
    ps_session_pull(rig.client, &pull);
    fake_run(&rig.cluster->net, 1);
    ps_session_describe(rig.client, &describe);
    ps_session_close(rig.client, &close);
    (void)rig_wait(&rig, &closed, 3000);
    ck_assert_uint_eq(closed, 1);
    ck_assert_uint_eq(pushed, 1);
    ck_assert_uint_eq(pulled, 1);
    ck_assert_uint_eq(described, 1);
    ck_assert_int_eq(push.op.err.status, PS_ERR_CANCELED);
    ck_assert_int_eq(pull.op.err.status, PS_ERR_CANCELED);
    ck_assert_uint_eq(rig.cluster->n_leaves, 1);
    ck_assert_uint_eq(rig.cluster->net.n_channels, 0);
    fake_run(&rig.cluster->net, 1000);
    ps_session_destroy(rig.client);
    rig.client = NULL;
}
END_TEST

START_TEST(closing_does_not_wait_long_for_a_dead_coordinator)
{
    rig.cluster->silent = true;
    uint32_t closed;
    struct ps_op close = rig_op(&closed);
    ps_session_close(rig.client, &close);
    ck_assert_uint_le(rig_wait(&rig, &closed, 5000), 1100);
    ck_assert_uint_eq(closed, 1);
    ps_session_destroy(rig.client);
    rig.client = NULL;
}
END_TEST

START_TEST(a_coordinator_that_starts_later_is_joined)
{
    rig_stop(&rig);
    rig_init(&rig, 2, PS_CLIENT_WORKER);
    rig.cluster->silent = true;
    uint32_t joined;
    struct ps_op op = rig_op(&joined);
    ps_session_join(rig.client, &op);
    fake_run(&rig.cluster->net, 20000);
    ck_assert_uint_eq(joined, 0);
    rig.cluster->silent = false;
    (void)rig_wait(&rig, &joined, 5000);
    ck_assert_uint_eq(joined, 1);
    ck_assert_int_eq(op.err.status, PS_OK);
    ck_assert_uint_eq(rig_view(&rig).session_number, 5);
}
END_TEST

START_TEST(a_coordinator_of_another_age_is_refused_with_both_protocols)
{
    rig_stop(&rig);
    rig_init(&rig, 2, PS_CLIENT_WORKER);
    rig.cluster->protocol_off = _i == 0 ? 1 : -1;
    uint32_t joined;
    struct ps_op op = rig_op(&joined);
    ps_session_join(rig.client, &op);
    (void)rig_wait(&rig, &joined, 1000);
    ck_assert_uint_eq(joined, 1);
    ck_assert_int_eq(op.err.status, PS_ERR_UNSUPPORTED);
    const char *says = _i == 0 ? "protocol 2, 1 to 1 are" : "protocol 0, 1 to 1 are";
    ck_assert_ptr_nonnull(strstr(op.err.text, says));
    ck_assert_uint_eq(rig_view(&rig).session_number, 0);
}
END_TEST

START_TEST(a_coordinator_that_never_starts_is_named)
{
    rig_stop(&rig);
    rig_init(&rig, 2, PS_CLIENT_WORKER);
    rig.cluster->silent = true;
    uint32_t joined;
    struct ps_op op = rig_op(&joined);
    ps_session_join(rig.client, &op);
    (void)rig_wait(&rig, &joined, 40000);
    ck_assert_uint_eq(joined, 1);
    ck_assert_int_eq(op.err.status, PS_ERR_TIMEOUT); /* It may still start: ask again. */
    ck_assert_ptr_nonnull(strstr(op.err.text, "coordinator (coordinator:1)"));
}
END_TEST

START_TEST(a_reader_learns_tables_and_pulls_without_a_clock)
{
    rig_stop(&rig);
    rig_init(&rig, 2, PS_CLIENT_READER);
    rig.cluster->gated = true;
    uint32_t count;
    struct ps_op op = rig_op(&count);
    ps_session_join(rig.client, &op);
    (void)rig_wait(&rig, &count, 100);
    (void)fake_table(rig.cluster, "small", RIG_SMALL_N);
    (void)fake_table(rig.cluster, "big", RIG_BIG_N);
    op = rig_op(&count);
    ps_session_describe(rig.client, &op);
    (void)rig_wait(&rig, &count, 100);
    ck_assert_int_eq(op.err.status, PS_OK);
    struct ps_pull_op pull = rig_pull(&rig, &count, 99);
    pull.no_clock = true;
    ck_assert_int_eq(rig_pull_wait(&rig, &pull, &count, 100), PS_OK);
    fake_run(&rig.cluster->net, 500);
    ck_assert_uint_eq(rig.cluster->n_reports, 0); /* A reader has nothing to report. */
    ck_assert_uint_ge(rig.cluster->n_hellos, 2);
}
END_TEST

/* A worker joins that knows no table; somebody else has made "small". */
static void join_beside_small(void)
{
    rig_stop(&rig);
    rig_init(&rig, 2, PS_CLIENT_WORKER);
    uint32_t count;
    struct ps_op op = rig_op(&count);
    ps_session_join(rig.client, &op);
    (void)rig_wait(&rig, &count, 100);
    (void)fake_table(rig.cluster, "small", RIG_SMALL_N);
}

START_TEST(tables_that_others_defined_below_are_learnt_with_ones_own)
{
    uint32_t count;
    join_beside_small();
    struct ps_table_def def = {
        .name = "big", .n_dims = 1, .shape = {RIG_BIG_N}, .optimizer = "sgd"};
    struct ps_define_table_op define = {.op = rig_op(&count), .def = &def};
    ps_session_define_table(rig.client, &define);
    (void)rig_wait(&rig, &count, 100);
    ck_assert_int_eq(define.op.err.status, PS_OK);
    ck_assert_uint_eq(define.ret_table, 1);
    ck_assert_ptr_nonnull(ps_session_table(rig.client, "small"));
    struct ps_push_op push = rig_push(&rig, &count, 0);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &count, 100), PS_OK);
    rig_check_applied(&rig, 1.0f);
}
END_TEST

/* One that has just come back waits for its servers to say what they have. */
START_TEST(a_table_that_is_made_and_not_described_yet_is_waited_for)
{
    uint32_t count;
    join_beside_small();
    (void)fake_table(rig.cluster, "big", RIG_BIG_N);
    rig.cluster->n_undescribed = 2;
    struct ps_table_def def = {
        .name = "big", .n_dims = 1, .shape = {RIG_BIG_N}, .optimizer = "sgd"};
    struct ps_define_table_op define = {.op = rig_op(&count), .def = &def};
    ps_session_define_table(rig.client, &define);
    fake_run(&rig.cluster->net, 500);
    ck_assert_uint_eq(count, 0);
    rig.cluster->n_undescribed = 0;
    (void)rig_wait(&rig, &count, 5000);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(define.op.err.status, PS_OK);
    ck_assert_uint_eq(define.ret_table, 1);
    struct ps_push_op push = rig_push(&rig, &count, 0);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &count, 100), PS_OK);
    rig_check_applied(&rig, 1.0f);
}
END_TEST

/* Who believed it would write weights of that size into arrays of the size that was asked for. */
START_TEST(a_coordinator_that_says_a_table_is_another_one_is_not_believed)
{
    rig_stop(&rig);
    rig_init(&rig, 2, PS_CLIENT_WORKER);
    uint32_t count;
    struct ps_op op = rig_op(&count);
    ps_session_join(rig.client, &op);
    (void)rig_wait(&rig, &count, 100);
    rig.cluster->shape_off = _i == 0 || _i == 3 ? 1 : 0;
    rig.cluster->first_letter = _i == 1 ? 'x' : '\0';
    rig.cluster->number_off = _i == 2 ? 2 : 0; /* Nobody will ever know of those below. */
    if (_i == 3) { /* What was heard before counts: a definition never changes. */
        (void)fake_table(rig.cluster, "small", RIG_SMALL_N);
        fake_state(rig.cluster, true);
        fake_run(&rig.cluster->net, 1);
        rig.cluster->shape_off = 0;
    }
    struct ps_table_def def = {
        .name = "small", .n_dims = 1, .shape = {RIG_SMALL_N}, .optimizer = "sgd"};
    struct ps_define_table_op define = {.op = rig_op(&count), .def = &def};
    ps_session_define_table(rig.client, &define);
    /* What is not described may be so later, for as long as anybody is waited for. */
    (void)rig_wait(&rig, &count, _i == 2 ? 20000 : 100);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(define.op.err.status, PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(define.op.err.text, "coordinator (coordinator:1)"));
    ck_assert_ptr_nonnull(strstr(define.op.err.text, "'small'"));
}
END_TEST

static void refuse_describe(void *arg, struct fake_call *call)
{
    (void)arg;
    call->request->retry_ms = UINT32_MAX;
    fake_answer(call, PS_ERR_BUSY, NULL, 0);
}

START_TEST(a_hint_does_not_outlast_the_patience_of_who_asks)
{
    uint32_t count;
    struct ps_op op = rig_op(&count);
    void (*handle)(void *arg, struct fake_call *call) = rig.cluster->net.handle;
    rig.cluster->net.handle = refuse_describe;
    ps_session_describe(rig.client, &op);
    uint32_t took_ms = rig_wait(&rig, &count, 2 * PS_RETRY_HINT_MS_MAX);
    rig.cluster->net.handle = handle;
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(op.err.status, PS_ERR_BUSY);
    ck_assert_uint_ge(took_ms, 9000); /* give_up_ms, of which the preset is 10 s. */
    ck_assert_uint_le(took_ms, 11000);
}
END_TEST

START_TEST(defining_the_job_tells_what_is_in_force)
{
    uint32_t count;
    struct ps_job_def def = {.model = "mlp", .data = "x", .rows = 10, .batch = 2, .epochs = 1};
    struct ps_define_job_op define = {.op = rig_op(&count), .def = &def};
    ps_session_define_job(rig.client, &define);
    (void)rig_wait(&rig, &count, 100);
    ck_assert_int_eq(define.op.err.status, PS_OK);
    ck_assert_uint_eq(define.ret_units_per_lease, 9);
}
END_TEST

static TCase *tcase_attend(void)
{
    TCase *tcase = tcase_create("attending");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, joining_learns_number_cluster_and_placement);
    tcase_add_test(tcase, a_report_goes_at_once_and_with_every_heartbeat);
    tcase_add_test(tcase, a_report_that_found_the_stream_full_follows);
    tcase_add_test(tcase, a_new_stream_begins_with_a_hello_and_repeats_the_report);
    tcase_add_test(tcase, states_of_an_earlier_term_are_ignored);
    tcase_add_loop_test(tcase, a_silent_coordinator_is_lost_and_named, 0, 2);
    tcase_add_test(tcase, after_a_long_silence_a_slow_answer_is_still_waited_for);
    tcase_add_loop_test(tcase, a_gap_in_the_own_loop_is_nobodys_silence, 0, 2);
    tcase_add_test(tcase, lost_data_is_told_with_the_coordinators_reason);
    tcase_add_test(tcase, a_fence_from_the_coordinator_ends_everything);
    tcase_add_loop_test(tcase, another_cluster_at_the_coordinators_address_is_told, 0, 2);
    tcase_add_test(tcase, a_session_that_its_own_cluster_does_not_know_is_fenced);
    tcase_add_test(tcase, finished_work_is_never_shown_as_undone);
    tcase_add_test(tcase, with_aggregation_only_the_coordinator_counts_units);
    tcase_add_test(tcase, in_asp_pushes_stop_while_the_coordinator_is_away);
    return tcase;
}

static TCase *tcase_life(void)
{
    TCase *tcase = tcase_create("beginning and end");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, closing_ends_what_is_pending_and_says_goodbye);
    tcase_add_test(tcase, closing_does_not_wait_long_for_a_dead_coordinator);
    tcase_add_test(tcase, a_coordinator_that_starts_later_is_joined);
    tcase_add_loop_test(tcase, a_coordinator_of_another_age_is_refused_with_both_protocols, 0, 2);
    tcase_add_test(tcase, a_coordinator_that_never_starts_is_named);
    tcase_add_test(tcase, a_reader_learns_tables_and_pulls_without_a_clock);
    tcase_add_test(tcase, tables_that_others_defined_below_are_learnt_with_ones_own);
    tcase_add_test(tcase, a_table_that_is_made_and_not_described_yet_is_waited_for);
    tcase_add_loop_test(tcase, a_coordinator_that_says_a_table_is_another_one_is_not_believed, 0,
                        4);
    tcase_add_test(tcase, a_hint_does_not_outlast_the_patience_of_who_asks);
    tcase_add_test(tcase, defining_the_job_tells_what_is_in_force);
    return tcase;
}

Suite *suite_session(void)
{
    Suite *suite = suite_create("session");
    suite_add_tcase(suite, tcase_attend());
    suite_add_tcase(suite, tcase_life());
    return suite;
}
