/*
 * test_returns.c — servers and coordinators that go away and come back, elsewhere or with less than
 * they had; how long they are waited for, and what is said meanwhile.
 */
#include <stdio.h>
#include <string.h>

#include "lib/test_main.h"
#include "obs/log.h"
#include "rig.h"
#include "suites.h"

#define LINES_MAX     64u
#define PATIENCE_MS   180000u /* Of a cluster whose servers can come back. */
#define GOES_ON_MS    5000u
#define WITHIN_MS     10000u /* Whoever is lost is named. */
#define NOT_THOUSANDS 10u

static struct rig rig;

/* ---- The log ------------------------------------------------------------------------------- */

static struct {
    char event[32]; /* That is looked for. */
    uint32_t n;
    uint64_t at_ms[LINES_MAX];
    char last[512];
} heard;

static uint64_t now_ms(void)
{
    return rig.cluster->net.now_ns / 1000000u;
}

static void hear(void *arg PS_UNUSED, const char *line)
{
    char event[48];
    (void)snprintf(event, sizeof(event), "event=%s ", heard.event);
    if (strstr(line, event) != NULL && heard.n < LINES_MAX) {
        heard.at_ms[heard.n++] = now_ms();
        (void)snprintf(heard.last, sizeof(heard.last), "%s", line);
    }
}

static void listen_for(const char *event)
{
    memset(&heard, 0, sizeof(heard));
    (void)snprintf(heard.event, sizeof(heard.event), "%s", event);
    ps_log_to(hear, NULL);
}

static void setup(void)
{
    rig.patience_ms = PATIENCE_MS;
    rig_start(&rig, 2);
}

static void teardown(void)
{
    ps_log_to(NULL, NULL);
    rig_stop(&rig);
    rig.give_up_ms = 0;
}

/* ---- Servers ------------------------------------------------------------------------------- */

static void move_server(uint32_t server)
{
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        rig.cluster->epoch[slot] += rig.cluster->primary[slot] == server ? 1 : 0;
    }
    (void)snprintf(rig.cluster->addresses[server], FAKE_ADDRESS_BYTES, "server-%u:2", server);
}

static enum fake_fate lose_server_1(struct fake_cluster *cluster PS_UNUSED, uint32_t server)
{
    return server == 1 ? FATE_LOSE_REQUEST : FATE_ANSWER;
}

START_TEST(a_server_that_came_back_elsewhere_is_followed_at_once)
{
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    rig.cluster->fate = lose_server_1;
    ps_session_pull(rig.client, &pull);
    fake_run(&rig.cluster->net, 100);
    ck_assert_uint_eq(pulled, 0);
    rig.cluster->fate = NULL;
    move_server(1);
    fake_state(rig.cluster, true);
    /* Well before the calls to the old address have run out. */
    ck_assert_uint_lt(rig_wait(&rig, &pulled, GOES_ON_MS), 1500);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    ck_assert_uint_eq(rig.cluster->net.n_channels, 3); /* The old one is closed. */
}
END_TEST

START_TEST(an_old_description_does_not_lead_back_to_the_old_address)
{
    rig.cluster->placement_version = 2;
    move_server(1);
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 0);
    /* It was on its way when the server moved. */
    char moved[FAKE_ADDRESS_BYTES];
    memcpy(moved, rig.cluster->addresses[1], sizeof(moved));
    (void)snprintf(rig.cluster->addresses[1], FAKE_ADDRESS_BYTES, "server-1:1");
    rig.cluster->placement_version = 1;
    uint32_t described = 0;
    struct ps_op describe = rig_op(&described);
    ps_session_describe(rig.client, &describe);
    (void)rig_wait(&rig, &described, GOES_ON_MS);
    ck_assert_int_eq(describe.err.status, PS_OK);
    memcpy(rig.cluster->addresses[1], moved, sizeof(moved));
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    ps_session_pull(rig.client, &pull);
    ck_assert_uint_lt(rig_wait(&rig, &pulled, GOES_ON_MS), 1500);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    /* A new coordinator counts anew. */
    rig.cluster->term++;
    move_server(0);
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 0);
    pull = rig_pull(&rig, &pulled, 0);
    ps_session_pull(rig.client, &pull);
    ck_assert_uint_lt(rig_wait(&rig, &pulled, GOES_ON_MS), 1500);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
}
END_TEST

START_TEST(what_an_earlier_coordinator_answers_late_is_asked_again)
{
    rig.cluster->term = 8;
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 0);
    rig.cluster->term = 7;
    uint32_t described = 0;
    uint32_t looked = 0;
    struct ps_op describe = rig_op(&described);
    struct ps_look_op look = {.op = rig_op(&looked)};
    ps_session_describe(rig.client, &describe);
    ps_session_look(rig.client, &look);
    fake_run(&rig.cluster->net, 200);
    ck_assert_uint_eq(described, 0);
    ck_assert_uint_eq(looked, 0);
    rig.cluster->term = 8;
    (void)rig_wait(&rig, &described, GOES_ON_MS);
    (void)rig_wait(&rig, &looked, GOES_ON_MS);
    ck_assert_int_eq(describe.err.status, PS_OK);
    ck_assert_int_eq(look.op.err.status, PS_OK);
    ck_assert_uint_eq(look.ret_cluster->term, 8);
    ps_cluster_free(look.ret_cluster);
}
END_TEST

static enum fake_fate lose_replies_of_server_1(struct fake_cluster *cluster PS_UNUSED,
                                               uint32_t server)
{
    return server == 1 ? FATE_LOSE_REPLY : FATE_ANSWER;
}

START_TEST(what_the_old_address_had_taken_is_not_applied_again)
{
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    rig.cluster->fate = lose_replies_of_server_1;
    ps_session_push(rig.client, &push);
    fake_run(&rig.cluster->net, 100);
    ck_assert_uint_eq(pushed, 0);
    rig.cluster->fate = NULL;
    move_server(1);
    fake_state(rig.cluster, true);
    (void)rig_wait(&rig, &pushed, GOES_ON_MS);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    rig_check_applied(&rig, 1.0f);
    ck_assert_uint_gt(rig.cluster->n_repeats, 0);
}
END_TEST

#ifdef PS_PLANT
START_TEST(a_planted_repeat_under_another_sequence_is_applied_again)
{
    rig_stop(&rig);
    rig.plant_new_sequence = true;
    rig_start(&rig, 2);
    uint32_t pushed;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    rig.cluster->fate = lose_replies_of_server_1;
    ps_session_push(rig.client, &push);
    fake_run(&rig.cluster->net, 100);
    rig.cluster->fate = NULL;
    (void)rig_wait(&rig, &pushed, GOES_ON_MS);
    ck_assert_int_eq(push.op.err.status, PS_OK);
    ck_assert_uint_eq(rig.cluster->n_repeats, 0);
    rig.plant_new_sequence = false;
}
END_TEST
#endif

START_TEST(a_server_that_is_away_is_named_soon_and_then_at_growing_intervals)
{
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    uint64_t gone_ms = now_ms();
    listen_for("server.unreachable");
    rig.cluster->fate = lose_server_1; /* It hangs: its calls are not refused. */
    ps_session_pull(rig.client, &pull);
    for (uint32_t i = 0; i < 170 && pulled == 0; i++) {
        (void)rig_wait(&rig, &pulled, 1000);
    }
    ck_assert_uint_eq(pulled, 0);
    ck_assert_uint_gt(heard.n, 2);
    ck_assert_uint_lt(heard.n, NOT_THOUSANDS);
    ck_assert_uint_lt(heard.at_ms[0] - gone_ms, WITHIN_MS);
    ck_assert_ptr_nonnull(strstr(heard.last, "server 1 (server-1:1) is unreachable since "));
    for (uint32_t i = 2; i < heard.n; i++) {
        ck_assert_uint_gt(heard.at_ms[i] - heard.at_ms[i - 1],
                          heard.at_ms[i - 1] - heard.at_ms[i - 2]);
    }
    listen_for("server.back");
    rig.cluster->fate = NULL;
    if (_i == 1) {
        move_server(1);
        fake_state(rig.cluster, true);
    }
    (void)rig_wait(&rig, &pulled, GOES_ON_MS);
    ck_assert_int_eq(pull.op.err.status, PS_OK);
    ck_assert_uint_eq(heard.n, 1);
    ck_assert_ptr_nonnull(strstr(heard.last, _i == 1 ? "server-1:2" : "server-1:1"));
}
END_TEST

/* Until a server, asked all the time, or the coordinator is lost. How long it took. */
static uint64_t lost_after_ms(bool coordinator, uint64_t at_most_ms)
{
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    uint64_t start_ms = now_ms();
    if (coordinator) {
        rig.cluster->silent = true;
        fake_stream_break(&rig.cluster->net, PS_ERR_UNAVAIL);
    } else {
        rig.cluster->fate = lose_server_1;
        ps_session_pull(rig.client, &pull);
    }
    while (rig_view(&rig).lost.status == PS_OK && now_ms() - start_ms < at_most_ms) {
        uint32_t never = 0;
        (void)rig_wait(&rig, &never, 100);
    }
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_ERR_LOST);
    fake_run(&rig.cluster->net, 10);
    const char *who = coordinator ? "coordinator (coordinator:1)" : "server 1 (server-1:1)";
    ck_assert_ptr_nonnull(strstr(rig_view(&rig).lost.text, who));
    rig.cluster->fate = NULL;
    return now_ms() - start_ms;
}

START_TEST(who_can_come_back_is_waited_for_as_long_as_the_coordinator_says)
{
    ck_assert_uint_eq(rig_view(&rig).patience_ms, PATIENCE_MS);
    uint64_t took_ms = lost_after_ms(_i == 1, 2 * PATIENCE_MS);
    ck_assert_uint_ge(took_ms, PATIENCE_MS - 100);
    ck_assert_uint_le(took_ms, PATIENCE_MS + WITHIN_MS);
}
END_TEST

/* There is something to come back from since the first snapshot; nobody joins again for that. */
START_TEST(patience_grows_with_what_the_coordinator_says_later)
{
    rig_stop(&rig);
    rig.patience_ms = 2000;
    rig_start(&rig, 2);
    ck_assert_uint_eq(rig_view(&rig).patience_ms, 2000);
    rig.cluster->patience_now_ms = PATIENCE_MS;
    fake_state(rig.cluster, false);
    fake_run(&rig.cluster->net, 100);
    ck_assert_uint_eq(rig_view(&rig).patience_ms, PATIENCE_MS);
    ck_assert_uint_ge(lost_after_ms(_i == 1, 2 * PATIENCE_MS), PATIENCE_MS - 100);
}
END_TEST

START_TEST(a_patience_that_was_given_counts_and_not_the_coordinators)
{
    rig_stop(&rig);
    rig.give_up_ms = 4000;
    rig_start(&rig, 2);
    rig.cluster->patience_now_ms = PATIENCE_MS;
    fake_state(rig.cluster, false);
    fake_run(&rig.cluster->net, 100);
    ck_assert_uint_eq(rig_view(&rig).patience_ms, 4000);
    ck_assert_uint_le(lost_after_ms(_i == 1, PATIENCE_MS), 4000 + WITHIN_MS);
}
END_TEST

/* ---- Slots that lack what they had --------------------------------------------------------- */

static enum ps_status judge_slot_9_lost(struct fake_cluster *cluster PS_UNUSED,
                                        uint32_t server PS_UNUSED, uint32_t slot,
                                        bool push PS_UNUSED)
{
    return slot == 9 ? PS_ERR_LOST : PS_OK;
}

/* A push and a pull that meet a slot which stands below what it had acknowledged. */
struct hurt {
    struct ps_push_op push;
    struct ps_pull_op pull;
    uint32_t pushed;
    uint32_t pulled;
};

static void be_hurt(struct hurt *hurt)
{
    hurt->push = rig_push(&rig, &hurt->pushed, 0);
    hurt->pull = rig_pull(&rig, &hurt->pulled, 0);
    listen_for("slot.lost");
    rig.cluster->judge = judge_slot_9_lost;
    ps_session_push(rig.client, &hurt->push);
    ps_session_pull(rig.client, &hurt->pull);
    uint32_t n_calls = rig.cluster->n_data_calls;
    uint32_t never = 0;
    (void)rig_wait(&rig, &never, 9000);
    ck_assert_uint_eq(hurt->pushed + hurt->pulled, 0);
    ck_assert_uint_lt(rig.cluster->n_data_calls - n_calls, 200); /* It backs off. */
    ck_assert_uint_eq(heard.n, 1);
    ck_assert_ptr_nonnull(strstr(heard.last, "server 1 (server-1:1)"));
    ck_assert_ptr_nonnull(strstr(heard.last, "slot 9"));
}

START_TEST(after_a_loss_the_coordinator_decides_that_the_job_goes_back)
{
    struct hurt hurt;
    be_hurt(&hurt);
    rig.cluster->generation = 2;
    rig.cluster->term = 2;
    fake_state(rig.cluster, true);
    (void)rig_wait(&rig, &hurt.pulled, 100);
    ck_assert_uint_eq(hurt.pushed, 1);
    ck_assert_int_eq(hurt.push.op.err.status, PS_ERR_FENCED);
    ck_assert_int_eq(hurt.pull.op.err.status, PS_ERR_FENCED);
    ck_assert_ptr_nonnull(strstr(hurt.push.op.err.text, "generation 2"));
    ck_assert(rig_view(&rig).fenced);
    rig.cluster->judge = NULL;
}
END_TEST

START_TEST(after_a_loss_the_coordinator_decides_that_the_cluster_is_lost)
{
    struct hurt hurt;
    be_hurt(&hurt);
    struct fake_lease lease = {.job = PS_JOB_CLUSTER_LOST, .reason = "server 1 lost data"};
    fake_state_lease(rig.cluster, &lease);
    (void)rig_wait(&rig, &hurt.pulled, 100);
    ck_assert_int_eq(hurt.push.op.err.status, PS_ERR_LOST);
    ck_assert_str_eq(hurt.push.op.err.text, "server 1 lost data");
    rig.cluster->judge = NULL;
}
END_TEST

START_TEST(a_loss_of_which_nobody_decides_is_not_waited_for_for_ever)
{
    struct hurt hurt;
    be_hurt(&hurt);
    (void)rig_wait(&rig, &hurt.pulled, 2 * PATIENCE_MS);
    ck_assert_int_eq(hurt.push.op.err.status, PS_ERR_LOST);
    ck_assert_ptr_nonnull(strstr(hurt.push.op.err.text, "slot 9"));
    ck_assert_uint_ge(now_ms() - heard.at_ms[0], PATIENCE_MS);
    rig.cluster->judge = NULL;
}
END_TEST

/* ---- Coordinators -------------------------------------------------------------------------- */

START_TEST(a_higher_generation_ends_the_session_whoever_tells_it)
{
    uint32_t described = 0;
    struct ps_op op = rig_op(&described);
    rig.cluster->generation = 1;
    if (_i == 0) {
        fake_state(rig.cluster, false);
        fake_run(&rig.cluster->net, 1);
    } else { /* The answer to a question, which ends with it, once. */
        ps_session_describe(rig.client, &op);
        (void)rig_wait(&rig, &described, 100);
        ck_assert_uint_eq(described, 1);
        ck_assert_int_eq(op.err.status, PS_ERR_FENCED);
    }
    ck_assert(rig_view(&rig).fenced);
    ck_assert_uint_eq(rig_view(&rig).generation, 1);
    uint32_t n_streams = rig.cluster->net.n_streams;
    fake_run(&rig.cluster->net, 3000);
    ck_assert_uint_eq(rig.cluster->net.n_streams, n_streams);
}
END_TEST

START_TEST(who_joins_a_cluster_that_went_back_joins_its_generation)
{
    rig_stop(&rig);
    rig_init(&rig, 2, PS_CLIENT_WORKER);
    rig.cluster->generation = 7;
    uint32_t joined;
    struct ps_op op = rig_op(&joined);
    ps_session_join(rig.client, &op);
    (void)rig_wait(&rig, &joined, 1000);
    ck_assert_int_eq(op.err.status, PS_OK);
    ck_assert(!rig_view(&rig).fenced);
    ck_assert_uint_eq(rig_view(&rig).generation, 7);
}
END_TEST

/* Rule 5: from then on it ticks and takes leases from that term on only. */
START_TEST(after_a_server_told_of_a_higher_term_the_old_coordinator_is_told_nothing)
{
    struct ps_worker_report report = {.clock = 4, .lease = 2, .units_done = 3};
    ps_session_report(rig.client, &report);
    fake_run(&rig.cluster->net, 0);
    uint32_t n_reports = rig.cluster->n_reports;
    ck_assert_uint_gt(n_reports, 0);
    uint32_t pulled;
    struct ps_pull_op pull = rig_pull(&rig, &pulled, 0);
    rig.cluster->silent = true; /* Of the servers' answers only. */
    rig.cluster->term = 3;
    ck_assert_int_eq(rig_pull_wait(&rig, &pull, &pulled, 1000), PS_OK);
    ck_assert_uint_eq(rig_view(&rig).term, 3);
    n_reports = rig.cluster->n_reports;
    report.clock = 5;
    ps_session_report(rig.client, &report);
    rig.cluster->term = 1;
    for (uint32_t i = 0; i < 8; i++) { /* The old one speaks on, and is not believed. */
        rig.cluster->min_clock = 99;
        fake_state(rig.cluster, false);
        fake_run(&rig.cluster->net, PS_HEARTBEAT_MS);
    }
    ck_assert_uint_eq(rig.cluster->n_reports, n_reports);
    ck_assert_uint_eq(rig_view(&rig).min_clock, 0);
    rig.cluster->silent = false;
    rig.cluster->term = 3;
    fake_state(rig.cluster, false);
    fake_run(&rig.cluster->net, PS_HEARTBEAT_MS);
    ck_assert_uint_gt(rig.cluster->n_reports, n_reports);
    ck_assert_uint_eq(rig.cluster->last_clock, 5);
}
END_TEST

START_TEST(a_coordinator_that_restarted_is_gone_on_with)
{
    struct ps_worker_report report = {.clock = 4, .lease = 2, .units_done = 3};
    ps_session_report(rig.client, &report);
    rig.cluster->silent = true;
    rig.cluster->net.refuse_streams = true;
    fake_stream_break(&rig.cluster->net, PS_ERR_UNAVAIL);
    fake_run(&rig.cluster->net, 60000);
    ck_assert_int_eq(rig_view(&rig).lost.status, PS_OK);
    uint32_t n_joins = rig.cluster->n_joins;
    uint32_t n_hellos = rig.cluster->n_hellos;
    rig.cluster->silent = false;
    rig.cluster->net.refuse_streams = false;
    rig.cluster->term = 2;
    rig.cluster->last_clock = 0;
    fake_run(&rig.cluster->net, 3000);
    ck_assert_uint_eq(rig.cluster->n_joins, n_joins); /* The same session. */
    ck_assert_uint_ge(rig.cluster->n_hellos, n_hellos + 1);
    ck_assert_uint_eq(rig.cluster->last_clock, 4);
    ck_assert_uint_eq(rig.cluster->last_term, 2);
}
END_TEST

/* ---- Holding for a snapshot ---------------------------------------------------------------- */

static void hold(uint64_t cut)
{
    rig.cluster->hold = cut;
    fake_state(rig.cluster, false);
    fake_run(&rig.cluster->net, 0);
}

START_TEST(a_hold_is_shown_until_the_coordinator_goes_on)
{
    hold(4);
    ck_assert_uint_eq(rig_view(&rig).hold, 4);
    hold(0);
    ck_assert_uint_eq(rig_view(&rig).hold, 0);
    hold(5);
    ck_assert_uint_eq(rig_view(&rig).hold, 5);
}
END_TEST

START_TEST(a_hold_that_nobody_ends_ends_by_itself)
{
    hold(4);
    if (_i == 1) {
        fake_stream_break(&rig.cluster->net, PS_ERR_UNAVAIL);
        rig.cluster->hold = 0; /* Whoever comes next knows of no cut. */
        fake_run(&rig.cluster->net, 0);
        ck_assert_uint_eq(rig_view(&rig).hold, 0);
        fake_run(&rig.cluster->net, 2000); /* The next stream. */
    } else {
        fake_run(&rig.cluster->net, 2000);
        ck_assert_uint_eq(rig_view(&rig).hold, 0);
        hold(4); /* Heartbeats say it again. */
    }
    ck_assert_uint_eq(rig_view(&rig).hold, 0);
    hold(5);
    ck_assert_uint_eq(rig_view(&rig).hold, 5);
}
END_TEST

/* ---- Asked to end -------------------------------------------------------------------------- */

START_TEST(a_session_that_was_asked_to_end_starts_nothing_and_says_goodbye)
{
    uint32_t pushed;
    uint32_t described;
    struct ps_push_op push = rig_push(&rig, &pushed, 0);
    struct ps_op describe = rig_op(&described);
    rig.cluster->fate = fate_hold;
    ps_session_push(rig.client, &push);
    fake_run(&rig.cluster->net, 1);
    ps_session_describe(rig.client, &describe);
    ps_session_cancel(rig.client);
    (void)rig_wait(&rig, &pushed, 10);
    ck_assert_uint_eq(described, 1);
    ck_assert_int_eq(push.op.err.status, PS_ERR_CANCELED);
    ck_assert_int_eq(describe.err.status, PS_ERR_CANCELED);
    push = rig_push(&rig, &pushed, 1);
    ck_assert_int_eq(rig_push_wait(&rig, &push, &pushed, 10), PS_ERR_CANCELED);
    uint32_t closed;
    struct ps_op close = rig_op(&closed);
    ps_session_close(rig.client, &close);
    (void)rig_wait(&rig, &closed, 2000);
    ck_assert_uint_eq(rig.cluster->n_leaves, 1);
    fake_run(&rig.cluster->net, 10);
    ps_session_destroy(rig.client);
    rig.client = NULL;
}
END_TEST

static TCase *tcase_servers(void)
{
    TCase *tcase = tcase_create("servers");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_server_that_came_back_elsewhere_is_followed_at_once);
    tcase_add_test(tcase, an_old_description_does_not_lead_back_to_the_old_address);
    tcase_add_test(tcase, what_an_earlier_coordinator_answers_late_is_asked_again);
    tcase_add_test(tcase, what_the_old_address_had_taken_is_not_applied_again);
#ifdef PS_PLANT
    tcase_add_test(tcase, a_planted_repeat_under_another_sequence_is_applied_again);
#endif
    tcase_add_loop_test(tcase, a_server_that_is_away_is_named_soon_and_then_at_growing_intervals, 0,
                        2);
    tcase_add_loop_test(tcase, who_can_come_back_is_waited_for_as_long_as_the_coordinator_says, 0,
                        2);
    tcase_add_loop_test(tcase, patience_grows_with_what_the_coordinator_says_later, 0, 2);
    tcase_add_loop_test(tcase, a_patience_that_was_given_counts_and_not_the_coordinators, 0, 2);
    tcase_add_test(tcase, after_a_loss_the_coordinator_decides_that_the_job_goes_back);
    tcase_add_test(tcase, after_a_loss_the_coordinator_decides_that_the_cluster_is_lost);
    tcase_add_test(tcase, a_loss_of_which_nobody_decides_is_not_waited_for_for_ever);
    return tcase;
}

static TCase *tcase_coordinator(void)
{
    TCase *tcase = tcase_create("the coordinator");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_higher_generation_ends_the_session_whoever_tells_it, 0, 2);
    tcase_add_test(tcase, who_joins_a_cluster_that_went_back_joins_its_generation);
    tcase_add_test(tcase, after_a_server_told_of_a_higher_term_the_old_coordinator_is_told_nothing);
    tcase_add_test(tcase, a_coordinator_that_restarted_is_gone_on_with);
    tcase_add_test(tcase, a_hold_is_shown_until_the_coordinator_goes_on);
    tcase_add_loop_test(tcase, a_hold_that_nobody_ends_ends_by_itself, 0, 2);
    tcase_add_test(tcase, a_session_that_was_asked_to_end_starts_nothing_and_says_goodbye);
    return tcase;
}

Suite *suite_returns(void)
{
    Suite *suite = suite_create("returns");
    suite_add_tcase(suite, tcase_servers());
    suite_add_tcase(suite, tcase_coordinator());
    return suite;
}
