/*
 * test_late.c — records that are not committed yet: nobody sees them, nobody is told of them, and
 * everybody is answered once when they are, or when they will not be.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

#define ALL 15u /* Slots. */

static float before[RIG_N_FLOATS];
static float after[RIG_N_FLOATS];
static float want[RIG_N_FLOATS];
static float velocity[RIG_N_BIAS];

/* ---- By hand -------------------------------------------------------------------------------- */

/* The next push of rig.gradients: sgd for `weights`, momentum 0.9 for `bias`, rate 0.5. */
static void apply_by_hand(void)
{
    for (uint32_t i = 0; i < RIG_N_WEIGHTS; i++) {
        want[i] = want[i] - 0.5f * rig.gradients[i];
    }
    for (uint32_t i = 0; i < RIG_N_BIAS; i++) {
        velocity[i] = 0.9f * velocity[i] + rig.gradients[RIG_N_WEIGHTS + i];
        want[RIG_N_WEIGHTS + i] -= 0.5f * velocity[i];
    }
}

static void open_held(uint32_t n_lanes)
{
    rig_open_late(n_lanes);
    rig_read(before);
    memcpy(want, before, sizeof(want));
    memset(velocity, 0, sizeof(velocity));
    rig.hold = true;
}

static void expect_weights(const float *weights)
{
    rig_read(after);
    ck_assert_mem_eq(after, weights, RIG_N_BYTES);
}

static struct fake_call *push(uint64_t session, uint64_t lease, uint64_t unit, uint32_t slots)
{
    (void)rig_request(session);
    rig_add_push(lease, unit, slots);
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    return call;
}

/* All slots of the call say so; it is settled. */
static void expect(struct fake_call *call, enum ps_status status)
{
    ck_assert(fake_call_finished(call));
    const struct ps_data_reply *reply = fake_call_reply(call);
    for (uint32_t i = 0; i < reply->n_push; i++) {
        ck_assert_int_eq(reply->push[i].status, status);
    }
    fake_call_settle(call);
}

/* ---- Pushes --------------------------------------------------------------------------------- */

START_TEST(a_push_is_seen_and_acknowledged_when_it_is_committed)
{
    open_held(1);
    struct fake_call *call = push(1, 100, 0, ALL);
    ck_assert_uint_eq(rig.committer.n_waiting, RIG_SLOTS);
    ck_assert(!fake_call_finished(call));
    expect_weights(before);
    apply_by_hand();
    rig_commit(1); /* Slot 0. */
    ck_assert(!fake_call_finished(call));
    memcpy(before, want, RIG_BLOCK * sizeof(float));
    expect_weights(before);
    rig_commit(2);
    ck_assert(!fake_call_finished(call));
    rig_commit(1);
    expect(call, PS_OK);
    expect_weights(want);
    rig_close();
}
END_TEST

START_TEST(the_last_of_several_lanes_answers)
{
    open_held(3);
    struct fake_call *call = push(1, 100, 0, ALL);
    apply_by_hand();
    for (uint32_t i = 0; i < RIG_SLOTS; i++) {
        ck_assert(!fake_call_finished(call));
        rig_commit(1);
    }
    expect(call, PS_OK);
    expect_weights(want);
    rig_close();
}
END_TEST

START_TEST(calls_are_answered_in_the_order_of_their_records)
{
    enum {
        N = 8
    };
    struct fake_call *calls[N];
    open_held(1);
    for (uint64_t i = 0; i < N; i++) {
        rig_gradients(i);
        apply_by_hand();
        calls[i] = push(1 + i % 2, 100 + i % 2, i / 2, ALL);
    }
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = i; k < N; k++) {
            ck_assert(!fake_call_finished(calls[k]));
        }
        rig_commit(RIG_SLOTS);
        const struct ps_data_reply *reply = fake_call_reply(calls[i]);
        ck_assert_uint_eq(reply->push[0].position, 3 + i); /* Behind epoch and sessions. */
        ck_assert_uint_eq(reply->push[0].epoch, RIG_EPOCH);
        expect(calls[i], PS_OK);
    }
    expect_weights(want);
    rig_close();
}
END_TEST

/* The planted bug "repeat before durable" fails here. */
START_TEST(a_repeat_joins_its_first_copy_and_is_no_quicker)
{
    open_held(1);
    struct fake_call *first = push(1, 100, 0, ALL);
    struct fake_call *other = push(2, 200, 0, 1); /* Behind it in slot 0. */
    struct fake_call *again = push(3, 100, 0, ALL);
    ck_assert_uint_eq(rig.committer.n_waiting, RIG_SLOTS + 1);
    ck_assert(!fake_call_finished(again));
    rig_commit(RIG_SLOTS);
    expect(first, PS_OK);
    ck_assert(!fake_call_finished(again)); /* It waits for all that its slots have. */
    rig_commit(1);
    expect(other, PS_OK);
    expect(again, PS_OK);
    apply_by_hand();
    for (uint32_t i = 0; i < RIG_BLOCK; i++) {
        want[i] = want[i] - 0.5f * rig.gradients[i];
    }
    expect_weights(want);
    expect(push(4, 100, 0, ALL), PS_OK); /* Nothing is left to wait for. */
    rig_close();
}
END_TEST

/* A repeat of an older record is answered before a newer one that came first. */
START_TEST(who_waits_for_less_is_answered_sooner)
{
    open_held(1);
    struct fake_call *first = push(1, 100, 0, 1);
    struct fake_call *second = push(2, 200, 0, 2);
    struct fake_call *again = push(3, 100, 0, 1);
    rig_commit(1);
    expect(first, PS_OK);
    expect(again, PS_OK);
    ck_assert(!fake_call_finished(second));
    rig_commit(1);
    expect(second, PS_OK);
    rig_close();
}
END_TEST

START_TEST(a_push_pull_brings_weights_with_its_own_push)
{
    open_held(1);
    rig.hold = false;
    rig_consistency(PS_GATE_UNBOUNDED, 0, false);
    rig.hold = true;
    (void)rig_request(1);
    rig_add_push(100, 0, ALL);
    rig_add_pull(1, ALL);
    struct fake_call *call = rig_deliver(PS_DATA_PUSH_PULL);
    rig_pump();
    ck_assert(!fake_call_finished(call));
    expect_weights(before);
    rig_commit(LATE_COMMIT_ALL);
    apply_by_hand();
    ck_assert(fake_call_finished(call));
    ck_assert_uint_eq(fake_call_payload(call, after, sizeof(after)), RIG_N_BYTES);
    ck_assert_mem_eq(after, want, sizeof(want));
    expect(call, PS_OK);
    rig_close();
}
END_TEST

START_TEST(a_full_disk_refuses_what_is_new_and_nothing_else)
{
    open_held(1);
    struct fake_call *first = push(1, 100, 0, ALL);
    rig.committer.full = true;
    struct fake_call *refused = push(1, 100, 1, ALL);
    ck_assert(fake_call_finished(refused));
    ck_assert_uint_eq(fake_call_reply(refused)->retry_ms, PS_RETRY_NO_SPACE_MS);
    expect(refused, PS_ERR_NO_SPACE);
    struct fake_call *again = push(2, 100, 0, ALL); /* Takes no room. */
    expect_weights(before);
    rig_commit(LATE_COMMIT_ALL); /* There was room for what was taken. */
    expect(first, PS_OK);
    expect(again, PS_OK);
    apply_by_hand();
    expect_weights(want);
    rig.committer.full = false;
    struct fake_call *second = push(1, 100, 1, ALL);
    rig_commit(LATE_COMMIT_ALL);
    expect(second, PS_OK);
    apply_by_hand();
    expect_weights(want);
    rig_close();
}
END_TEST

/* Somebody reads every page all the time, so each push needs fresh ones, found beforehand. */
START_TEST(records_in_flight_have_their_memory)
{
    enum {
        N = 40
    };
    struct fake_call *calls[N];
    struct fake_call *reader = NULL;
    open_held(2);
    struct ps_rng rng = ps_rng_from(test_seed());
    uint32_t n_done = 0;
    for (uint32_t i = 0; i < N; i++) {
        rig_gradients(i);
        apply_by_hand();
        calls[i] = push(1, 100, i, ALL);
        if (reader != NULL && ps_rng_below(&rng, 3) == 0) {
            fake_call_settle(reader);
            reader = NULL;
        }
        if (reader == NULL && ps_rng_below(&rng, 2) == 0) {
            rig_request(4)->no_clock = true;
            rig_add_pull(0, ALL);
            reader = rig_deliver(PS_DATA_PULL);
            rig_pump();
        }
        rig_commit((uint32_t)ps_rng_below(&rng, 2 * RIG_SLOTS + 1));
        while (n_done <= i && fake_call_finished(calls[n_done])) {
            expect(calls[n_done++], PS_OK);
        }
    }
    rig_commit(LATE_COMMIT_ALL);
    while (n_done < N) {
        expect(calls[n_done++], PS_OK);
    }
    if (reader != NULL) {
        fake_call_settle(reader);
    }
    expect_weights(want);
    rig_close();
}
END_TEST

/* Without memory for its twin a push is refused, whoever else is in flight; later it passes. */
START_TEST(a_push_beyond_the_budget_takes_nothing_while_others_are_in_flight)
{
    open_held(1);
    rig_request(4)->no_clock = true;
    rig_add_pull(0, ALL);
    struct fake_call *reader = rig_deliver(PS_DATA_PULL);
    rig_pump();
    struct fake_call *first = push(1, 100, 0, ALL);
    apply_by_hand();
    rig.mem.limit[PS_MEM_PAGES] = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
    expect(push(1, 100, 1, ALL), PS_ERR_BUSY);
    rig_commit(LATE_COMMIT_ALL);
    expect(first, PS_OK);
    expect_weights(want);
    fake_call_settle(reader);
    struct fake_call *second = push(1, 100, 1, ALL);
    rig_commit(LATE_COMMIT_ALL);
    expect(second, PS_OK);
    apply_by_hand();
    expect_weights(want);
    rig.mem.limit[PS_MEM_PAGES] = 0;
    rig_close();
}
END_TEST

/* ---- News ----------------------------------------------------------------------------------- */

static struct fake_call *parked_pull(uint64_t session, uint64_t step)
{
    (void)rig_request(session);
    rig_add_pull(step, ALL);
    struct fake_call *call = rig_deliver(PS_DATA_PULL);
    rig_pump();
    ck_assert(!fake_call_finished(call));
    return call;
}

static struct ps_open_session open_list[] = {{.number = 2, .id = {{2}}},
                                             {.number = 4, .id = {{4}}}};

/* Sessions 2 and 4 are open, min clock is 1; posted, not waited for. */
static void post_list(uint64_t version)
{
    struct ps_lane_update *news = rig_news();
    news->has_sessions = true;
    news->sessions = (struct ps_record_sessions){
        .version = version, .sessions = open_list, .n_sessions = PS_ARRAY_LEN(open_list)};
    news->min_clock = 1;
    rig_post();
}

START_TEST(a_clock_waits_for_the_records_that_came_with_it)
{
    open_held(1);
    struct fake_call *pull = parked_pull(2, 1);
    post_list(2);
    ck_assert(!rig.updated);
    ck_assert(!fake_call_finished(pull));
    rig_commit(PS_SLOTS - 1);
    ck_assert(!rig.updated);
    ck_assert(!fake_call_finished(pull));
    rig_commit(1);
    ck_assert(rig.updated);
    ck_assert(fake_call_finished(pull));
    fake_call_settle(pull);
    rig_close();
}
END_TEST

static void no_done(struct ps_lane_update *update)
{
    (void)update;
}

/* An update of its own beside rig.update, for lane 0 of one. */
static struct ps_lane_update *fresh_news(struct ps_lane_update *news)
{
    memset(news, 0, sizeof(*news));
    news->term = 1;
    news->generation = RIG_GENERATION;
    news->done = no_done;
    atomic_init(&news->n_pending, 1);
    return news;
}

START_TEST(news_without_records_wait_for_those_before_them_and_for_nobody_else)
{
    open_held(1);
    struct fake_call *waiting = push(1, 100, 0, ALL);
    rig_news()->min_clock = 1;
    rig_post();
    ck_assert(rig.updated); /* Pushes in flight are not theirs to wait for. */
    post_list(2);
    ck_assert(!rig.updated);
    static struct ps_lane_update behind;
    fresh_news(&behind)->min_clock = 2;
    struct fake_call *pull = parked_pull(2, 2);
    ps_lane_post_update(rig.svc.lanes[0], &behind);
    rig_pump();
    ck_assert_uint_eq(atomic_load(&behind.n_pending), 1);
    ck_assert(!fake_call_finished(pull));
    rig_commit(LATE_COMMIT_ALL - 1);
    ck_assert_uint_eq(atomic_load(&behind.n_pending), 0);
    ck_assert(fake_call_finished(pull));
    fake_call_settle(pull);
    expect(waiting, PS_OK);
    rig_close();
}
END_TEST

/* The planted bug "fence at applied" fails here. */
START_TEST(a_close_fences_from_the_moment_it_is_proposed)
{
    open_held(1);
    struct fake_call *pull = parked_pull(3, 1);
    struct fake_call *first = push(1, 100, 0, ALL);
    post_list(2);
    expect(push(1, 100, 1, ALL), PS_ERR_FENCED);
    ck_assert(fake_call_finished(pull)); /* Of a closed session. */
    ck_assert_int_eq(fake_call_reply(pull)->pull[0].status, PS_ERR_FENCED);
    fake_call_settle(pull);
    ck_assert(!fake_call_finished(first));
    rig_commit(LATE_COMMIT_ALL);
    expect(first, PS_OK); /* It was there before the close. */
    apply_by_hand();
    expect_weights(want);
    rig_close();
}
END_TEST

START_TEST(nobody_is_served_in_an_epoch_that_is_not_committed)
{
    open_held(1);
    struct ps_lane_update *news = rig_news();
    news->has_placement = true;
    news->placement_version = 2;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        news->primary[s] = true;
        news->epoch[s] = RIG_EPOCH + 1;
    }
    rig_post();
    ck_assert(!rig.updated);
    for (int round = 0; round < 2; round++) {
        (void)rig_request(1);
        rig_add_push(100, 0, ALL);
        for (uint32_t i = 0; i < RIG_SLOTS; i++) {
            rig.request.push.slots[i].epoch = RIG_EPOCH + 1;
        }
        struct fake_call *call = rig_deliver(PS_DATA_PUSH);
        rig_pump();
        rig_commit(LATE_COMMIT_ALL);
        expect(call, round == 0 ? PS_ERR_NOT_PRIMARY : PS_OK);
        ck_assert(rig.updated);
    }
    rig_close();
}
END_TEST

/* A push that was in flight when its slot went away is not acknowledged from here. */
START_TEST(a_slot_that_moves_away_acknowledges_nothing_more)
{
    open_held(1);
    struct fake_call *call = push(1, 100, 0, ALL);
    struct ps_lane_update *news = rig_news();
    news->has_placement = true;
    news->placement_version = 2;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        news->epoch[s] = RIG_EPOCH + 1;
    }
    rig_post();
    ck_assert(rig.updated); /* It proposes nothing. */
    ck_assert(!fake_call_finished(call));
    rig_commit(LATE_COMMIT_ALL);
    expect(call, PS_ERR_NOT_PRIMARY);
    rig_close();
}
END_TEST

START_TEST(a_lower_term_changes_nothing)
{
    open_held(1);
    rig.hold = false;
    rig_news()->term = 5;
    ck_assert_int_eq(rig_send(), PS_OK);
    ck_assert(!atomic_load(&rig.update.stale));
    struct ps_lane_update *news = rig_news();
    news->term = 4;
    news->min_clock = 7;
    news->has_sessions = true;
    news->sessions = (struct ps_record_sessions){.version = 9};
    ck_assert_int_eq(rig_send(), PS_OK);
    ck_assert(atomic_load(&rig.update.stale));
    struct fake_call *pull = parked_pull(2, 1);
    expect(push(1, 100, 0, ALL), PS_OK);
    news = rig_news();
    news->term = 5;
    news->min_clock = 1;
    ck_assert_int_eq(rig_send(), PS_OK);
    ck_assert(fake_call_finished(pull));
    fake_call_settle(pull);
    rig_close();
}
END_TEST

/* ---- Aggregated bsp ------------------------------------------------------------------------- */

static struct fake_call *stage(uint64_t session, uint64_t lease, uint64_t unit, uint64_t step,
                               uint64_t seed)
{
    rig_gradients(seed);
    (void)rig_request(session);
    rig.request.step = step;
    rig_add_push(lease, unit, ALL);
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    return call;
}

/* The mean of the gradients of seeds 1 and 2 over 16 rows, the first step of both rules. */
static void apply_mean(void)
{
    static float sum[RIG_N_FLOATS];
    memset(sum, 0, sizeof(sum));
    for (uint64_t seed = 1; seed <= 2; seed++) {
        rig_gradients(seed);
        for (uint32_t i = 0; i < RIG_N_FLOATS; i++) {
            sum[i] += 8.0f * rig.gradients[i];
        }
    }
    for (uint32_t i = 0; i < RIG_N_FLOATS; i++) {
        want[i] = want[i] - 0.5f * (1.0f / 16.0f * sum[i]);
    }
}

/* Committed record by record, in every place the same. */
START_TEST(a_step_is_closed_over_records_that_are_in_flight)
{
    static const struct ps_close_entry entries[] = {{1, 101, 0, 8}, {2, 102, 0, 8}};
    for (uint32_t n_each = 1; n_each <= 3 * RIG_SLOTS + PS_SLOTS; n_each += 3) {
        open_held(2);
        rig.hold = false;
        rig_consistency(PS_GATE_BOUNDED, 0, true);
        rig.hold = true;
        struct fake_call *calls[] = {stage(1, 101, 0, 0, 1), stage(2, 102, 0, 0, 2),
                                     stage(3, 103, 0, 0, 3)};
        struct ps_lane_update *news = rig_news();
        news->has_close = true;
        news->close = (struct ps_record_close){.entries = entries, .n_entries = 2};
        rig_post();
        struct fake_call *late = stage(3, 104, 0, 0, 4);
        expect(late, PS_ERR_LATE);                        /* From the proposal of the close on. */
        struct fake_call *taken = stage(4, 101, 0, 1, 1); /* On the list: a repeat, that waits. */
        struct fake_call *next = stage(4, 105, 0, 1, 5);
        expect_weights(before);
        while (rig.committer.n_waiting > 0) {
            ck_assert(!fake_call_finished(next));
            rig_commit(n_each);
        }
        ck_assert(rig.updated);
        for (size_t i = 0; i < PS_ARRAY_LEN(calls); i++) {
            expect(calls[i], PS_OK);
        }
        expect(taken, PS_OK);
        expect(next, PS_OK);
        apply_mean();
        expect_weights(want);
        rig_close();
    }
}
END_TEST

/* The list of sessions that is applied late knows nothing of who staged behind a newer one. */
START_TEST(a_list_lets_go_of_what_was_staged_before_it_alone)
{
    static const struct ps_open_session both[] = {{.number = 2, .id = {{2}}},
                                                  {.number = 3, .id = {{3}}},
                                                  {.number = 4, .id = {{4}}},
                                                  {.number = 9, .id = {{9}}}};
    static const struct ps_close_entry entries[] = {{9, 101, 0, 8}, {3, 102, 0, 8}};
    open_held(1);
    rig.hold = false;
    rig_consistency(PS_GATE_BOUNDED, 0, true);
    rig.hold = true;
    struct fake_call *gone = stage(1, 103, 0, 0, 3);
    static struct ps_lane_update updates[2];
    for (uint32_t i = 0; i < 2; i++) { /* First without session 9, then with it. */
        struct ps_lane_update *news = fresh_news(&updates[i]);
        news->has_sessions = true;
        news->sessions = (struct ps_record_sessions){
            .version = 2 + i, .sessions = both, .n_sessions = 3 + i, .knows_staged = true};
        ps_lane_post_update(rig.svc.lanes[0], news);
        rig_pump();
    }
    struct fake_call *calls[] = {stage(9, 101, 0, 0, 1), stage(3, 102, 0, 0, 2)};
    while (rig.committer.n_waiting > 0) {
        rig_commit(1);
    }
    expect(gone, PS_OK);
    expect(calls[0], PS_OK);
    expect(calls[1], PS_OK);
    rig.hold = false;
    rig_close_step(0, entries, 2);
    apply_mean();
    expect_weights(want);
    ck_assert_uint_eq(fake_call_requests_alive(), 0);
    rig_close();
}
END_TEST

/* ---- Stopping ------------------------------------------------------------------------------- */

static uint32_t n_stopped;

static void count_stopped(struct ps_mail *mail)
{
    (void)mail;
    n_stopped++;
}

static void stop(void (*post)(struct ps_lane *lane, struct ps_mail *mail, struct ps_exec *home))
{
    static struct ps_mail mails[PS_LANES_MAX];
    n_stopped = 0;
    for (uint32_t i = 0; i < rig.svc.n_lanes; i++) {
        mails[i].run = count_stopped;
        post(rig.svc.lanes[i], &mails[i], &rig.home.base);
    }
    rig_pump();
    ck_assert_uint_eq(n_stopped, rig.svc.n_lanes);
}

START_TEST(a_lane_that_stops_makes_no_record_and_answers_those_that_are_committed)
{
    open_held(2);
    struct fake_call *first = push(1, 100, 0, ALL);
    struct fake_call *pull = parked_pull(2, 1);
    stop(ps_lane_post_stop);
    ck_assert(fake_call_finished(pull));
    fake_call_settle(pull);
    ck_assert(!fake_call_finished(first));
    expect(push(1, 100, 1, ALL), PS_ERR_UNAVAIL);
    struct fake_call *again = push(2, 100, 0, ALL);
    ck_assert(!fake_call_finished(again));
    rig_commit(LATE_COMMIT_ALL);
    expect(first, PS_OK);
    expect(again, PS_OK);
    stop(ps_lane_post_end);
    apply_by_hand();
    expect_weights(want);
    rig_close();
}
END_TEST

/* Slots of the call that are OK; the others are UNAVAIL. It is settled. */
static uint32_t n_acknowledged(struct fake_call *call)
{
    ck_assert(fake_call_finished(call));
    const struct ps_data_reply *reply = fake_call_reply(call);
    uint32_t n = 0;
    for (uint32_t i = 0; i < reply->n_push; i++) {
        ck_assert(reply->push[i].status == PS_OK || reply->push[i].status == PS_ERR_UNAVAIL);
        n += reply->push[i].status == PS_OK;
    }
    fake_call_settle(call);
    return n;
}

/* The log has failed, or the disk stayed full: what is not committed is acknowledged to nobody. */
START_TEST(what_will_not_be_committed_is_answered_once_and_not_acknowledged)
{
    for (uint32_t n_committed = 0; n_committed <= RIG_SLOTS; n_committed++) {
        open_held(2);
        struct fake_call *first = push(1, 100, 0, ALL);
        struct fake_call *again = push(2, 100, 0, ALL);
        struct fake_call *second = push(1, 100, 1, ALL);
        post_list(2);
        rig_commit(n_committed);
        stop(ps_lane_post_stop);
        rig.committer.stopped = true;
        stop(ps_lane_post_end);
        ck_assert(rig.updated);
        ck_assert(atomic_load(&rig.update.stale));
        ck_assert_uint_eq(n_acknowledged(first), n_committed);
        ck_assert_uint_eq(n_acknowledged(again), n_committed);
        expect(second, PS_ERR_UNAVAIL);
        expect(push(2, 100, 0, ALL), PS_ERR_UNAVAIL); /* A repeat of it, too. */
        rig_close();
    }
}
END_TEST

/* ---- What others see ------------------------------------------------------------------------ */

START_TEST(positions_are_those_that_are_applied)
{
    struct ps_lane_position at[PS_SLOTS];
    open_held(1);
    struct fake_call *call = push(1, 100, 0, 1);
    ck_assert_uint_eq(ps_lane_positions(rig.svc.lanes[0], at), PS_SLOTS);
    ck_assert_uint_eq(at[0].slot, 0);
    ck_assert_uint_eq(at[0].epoch, RIG_EPOCH);
    ck_assert_uint_eq(at[0].position, 2); /* Epoch and sessions. */
    rig_commit(1);
    expect(call, PS_OK);
    ck_assert_uint_eq(ps_lane_positions(rig.svc.lanes[0], at), PS_SLOTS);
    ck_assert_uint_eq(at[0].position, 3);
    ck_assert_uint_eq(at[1].position, 2);
    rig_close();
}
END_TEST

START_TEST(a_slot_below_a_claim_is_told_to_who_asks)
{
    open_held(1);
    rig.hold = false;
    ck_assert_uint_eq(ps_lane_lost_slot(rig.svc.lanes[0]), 0);
    (void)rig_request(1);
    rig_add_push(100, 0, 4);
    rig.request.push.slots[0].seen_epoch = RIG_EPOCH - 1;
    rig.request.push.slots[0].seen_position = 1;
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    expect(call, PS_ERR_LOST);
    ck_assert_uint_eq(ps_lane_lost_slot(rig.svc.lanes[0]), 1 + 2);
    rig_close();
}
END_TEST

Suite *suite_late(void)
{
    Suite *suite = suite_create("late");
    TCase *tcase = tcase_create("late");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_push_is_seen_and_acknowledged_when_it_is_committed);
    tcase_add_test(tcase, the_last_of_several_lanes_answers);
    tcase_add_test(tcase, calls_are_answered_in_the_order_of_their_records);
    tcase_add_test(tcase, a_repeat_joins_its_first_copy_and_is_no_quicker);
    tcase_add_test(tcase, who_waits_for_less_is_answered_sooner);
    tcase_add_test(tcase, a_push_pull_brings_weights_with_its_own_push);
    tcase_add_test(tcase, a_full_disk_refuses_what_is_new_and_nothing_else);
    tcase_add_test(tcase, records_in_flight_have_their_memory);
    tcase_add_test(tcase, a_push_beyond_the_budget_takes_nothing_while_others_are_in_flight);
    tcase_add_test(tcase, a_clock_waits_for_the_records_that_came_with_it);
    tcase_add_test(tcase, news_without_records_wait_for_those_before_them_and_for_nobody_else);
    tcase_add_test(tcase, a_close_fences_from_the_moment_it_is_proposed);
    tcase_add_test(tcase, nobody_is_served_in_an_epoch_that_is_not_committed);
    tcase_add_test(tcase, a_slot_that_moves_away_acknowledges_nothing_more);
    tcase_add_test(tcase, a_lower_term_changes_nothing);
    tcase_add_test(tcase, a_step_is_closed_over_records_that_are_in_flight);
    tcase_add_test(tcase, a_list_lets_go_of_what_was_staged_before_it_alone);
    tcase_add_test(tcase, a_lane_that_stops_makes_no_record_and_answers_those_that_are_committed);
    tcase_add_test(tcase, what_will_not_be_committed_is_answered_once_and_not_acknowledged);
    tcase_add_test(tcase, positions_are_those_that_are_applied);
    tcase_add_test(tcase, a_slot_below_a_claim_is_told_to_who_asks);
    suite_add_tcase(suite, tcase);
    return suite;
}
