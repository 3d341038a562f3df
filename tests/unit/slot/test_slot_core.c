/*
 * test_slot_core.c — what a slot decides: who may touch it, what is new, what waits for the log.
 *
 * A log that is not committed at once is played here by committing late.
 */
#include <signal.h>
#include <string.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "slot/slot_core.h"
#include "suites.h"

#define EPOCH 4u

static struct ps_slot slot;
static struct ps_seen_stream streams[PS_SEEN_STREAMS_MAX];

static const struct ps_open_session session_list[] = {
    {.number = 3, .id = {{3}}}, {.number = 5, .id = {{5}}}, {.number = 9, .id = {{9}}}};

static uint64_t open_list(uint64_t version, uint32_t first, uint32_t n)
{
    struct ps_record_sessions list = {
        .version = version, .sessions = session_list + first, .n_sessions = n};
    uint64_t position = 0;
    return ps_slot_propose_sessions(&slot, &list, &position) ? position : 0;
}

/* A slot of ours in epoch 4 with sessions 3, 5 and 9, everything committed and applied. */
static void fresh(void)
{
    uint64_t position = 0;
    memset(streams, 0, sizeof(streams));
    ps_slot_init(&slot, 7, streams);
    ck_assert(ps_slot_propose_epoch(&slot, true, EPOCH, &position));
    ck_assert_uint_eq(position, 1);
    ps_slot_commit(&slot, 1);
    ps_slot_applied(&slot, 1);
    ck_assert_uint_eq(open_list(1, 0, 3), 2);
    ps_slot_commit(&slot, 2);
    ps_slot_applied(&slot, 2);
}

static struct ps_proposal push_of(uint64_t session, uint64_t stream, uint64_t sequence)
{
    return (struct ps_proposal){
        .claim = {.session = {{(uint8_t)session}}, .session_number = session, .epoch = EPOCH},
        .item = {.stream = stream, .sequence = sequence, .n_fragments = 1}};
}

static struct ps_slot_decision push(uint64_t session, uint64_t stream, uint64_t sequence)
{
    struct ps_proposal proposal = push_of(session, stream, sequence);
    return ps_slot_propose_push(&slot, &proposal);
}

#define ASSERT_REFUSED(decision, why)                    \
    do {                                                 \
        struct ps_slot_decision d_ = (decision);         \
        ck_assert_int_eq(d_.verdict, PS_VERDICT_REFUSE); \
        ck_assert_int_eq(d_.status, (why));              \
    } while (0)

#define ASSERT_PROPOSED(decision, where)                  \
    do {                                                  \
        struct ps_slot_decision d_ = (decision);          \
        ck_assert_int_eq(d_.verdict, PS_VERDICT_PROPOSE); \
        ck_assert_uint_eq(d_.position, (where));          \
        ck_assert(!d_.repeat);                            \
    } while (0)

#define ASSERT_WAITS(decision, where)                  \
    do {                                               \
        struct ps_slot_decision d_ = (decision);       \
        ck_assert_int_eq(d_.verdict, PS_VERDICT_WAIT); \
        ck_assert_uint_eq(d_.position, (where));       \
        ck_assert(d_.repeat);                          \
    } while (0)

/* clang-format off */
static const struct {
    const char *name;
    uint8_t id;
    uint64_t number;
    uint64_t epoch;
    uint64_t seen_epoch;
    uint64_t seen_position;
    enum ps_status want;
} claims[] = {
    {"an open session is admitted",               3, 3, EPOCH,     0,         0, PS_OK},
    {"the last of the list too",                  9, 9, EPOCH,     0,         0, PS_OK},
    {"a number that was never open",              4, 4, EPOCH,     0,         0, PS_ERR_FENCED},
    {"a number above all",                       10, 10, EPOCH,    0,         0, PS_ERR_FENCED},
    {"number 0",                                  0, 0, EPOCH,     0,         0, PS_ERR_FENCED},
    {"the right number of another id",            5, 3, EPOCH,     0,         0, PS_ERR_FENCED},
    {"an older epoch",                            3, 3, EPOCH - 1, 0,         0, PS_ERR_NOT_PRIMARY},
    {"a newer epoch: our placement lags",         3, 3, EPOCH + 1, 0,         0, PS_ERR_NOT_PRIMARY},
    {"a wrong epoch is said before a closed one", 4, 4, EPOCH - 1, 0,         0, PS_ERR_NOT_PRIMARY},
    {"told of the record that we have",           3, 3, EPOCH,     EPOCH,     2, PS_OK},
    {"told of a record that we do not have",      3, 3, EPOCH,     EPOCH,     3, PS_ERR_LOST},
    {"told of a record of an epoch before",       3, 3, EPOCH,     EPOCH - 1, 1, PS_ERR_LOST},
    {"told of nothing of an epoch before",        3, 3, EPOCH,     EPOCH - 1, 0, PS_OK},
};
/* clang-format on */

START_TEST(a_claim_is_judged)
{
    fresh();
    struct ps_claim claim = {.session = {{claims[_i].id}},
                             .session_number = claims[_i].number,
                             .epoch = claims[_i].epoch,
                             .seen_epoch = claims[_i].seen_epoch,
                             .seen_position = claims[_i].seen_position};
    ck_assert_msg(ps_slot_admit(&slot, &claim) == claims[_i].want, "%s", claims[_i].name);
    struct ps_proposal proposal = push_of(3, 100, 0);
    proposal.claim = claim;
    struct ps_slot_decision decision = ps_slot_propose_push(&slot, &proposal);
    ck_assert_msg(claims[_i].want == PS_OK ? decision.verdict == PS_VERDICT_PROPOSE
                                           : decision.status == claims[_i].want,
                  "%s", claims[_i].name);
    if (claims[_i].want != PS_OK) { /* A refusal takes nothing. */
        ASSERT_PROPOSED(push(3, 100, 0), 3);
    }
}
END_TEST

static bool place(bool primary, uint64_t epoch)
{
    uint64_t position = 0;
    bool proposed = ps_slot_propose_epoch(&slot, primary, epoch, &position);
    ck_assert(!proposed || position == slot.appended);
    return proposed;
}

START_TEST(a_slot_of_another_server_answers_nobody)
{
    fresh();
    ck_assert(!place(false, EPOCH + 1));
    ASSERT_REFUSED(push(3, 100, 0), PS_ERR_NOT_PRIMARY);
    ck_assert(!place(true, EPOCH)); /* Old news. */
    ASSERT_REFUSED(push(3, 100, 0), PS_ERR_NOT_PRIMARY);
    ck_assert_uint_eq(slot.epoch, EPOCH + 1);
    ck_assert(place(true, EPOCH + 2));
    ASSERT_REFUSED(push(3, 100, 0), PS_ERR_NOT_PRIMARY); /* It asks in the old epoch. */
}
END_TEST

static struct ps_proposal in_epoch(struct ps_proposal push, uint64_t epoch)
{
    push.claim.epoch = epoch;
    return push;
}

/* The epoch is in the log before it is acted on. */
START_TEST(nobody_is_served_in_an_epoch_that_is_not_applied)
{
    fresh();
    ck_assert(place(true, EPOCH + 1));
    ck_assert(!place(true, EPOCH + 1)); /* Said again. */
    struct ps_proposal first = in_epoch(push_of(3, 100, 0), EPOCH + 1);
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &first), PS_ERR_NOT_PRIMARY);
    ASSERT_REFUSED(push(3, 100, 0), PS_ERR_NOT_PRIMARY);
    ps_slot_commit(&slot, 3);
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &first), PS_ERR_NOT_PRIMARY);
    ps_slot_applied(&slot, 3);
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &first), 4);
}
END_TEST

/* Records 1, 2 in epoch 4; 3 to 5 in epoch 6; 6 in epoch 9. */
START_TEST(below_is_who_has_fewer_records_of_epochs_up_to_it)
{
    fresh();
    ck_assert(place(true, 6));
    ck_assert_uint_eq(open_list(2, 0, 3), 4);
    ck_assert_uint_eq(open_list(3, 0, 3), 5);
    ck_assert(place(true, 9));
    static const struct {
        uint64_t epoch, position;
        bool below;
    } rows[] = {{0, 0, false}, {3, 1, true},  {4, 2, false},  {4, 3, true},  {5, 2, false},
                {5, 3, true},  {6, 5, false}, {6, 6, true},   {8, 5, false}, {8, 6, true},
                {9, 6, false}, {9, 7, true},  {12, 6, false}, {12, 7, true}, {1, 0, false}};
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        ck_assert_msg(ps_slot_below(&slot, rows[i].epoch, rows[i].position) == rows[i].below,
                      "row %zu", i);
    }
}
END_TEST

/* More epochs than the list has: who was told of a record is never said to have lost it. */
START_TEST(epochs_that_are_merged_accuse_nobody)
{
    fresh();
    uint32_t n = 3 * PS_SLOT_EPOCHS_MAX;
    for (uint64_t i = 1; i <= n; i++) {
        ck_assert(place(true, EPOCH + i));
        ck_assert_uint_eq(slot.appended, 2 + i);
        for (uint64_t k = 0; k <= i; k++) {
            ck_assert(!ps_slot_below(&slot, EPOCH + k, 2 + k));
            bool kept = k + PS_SLOT_EPOCHS_MAX - 1 > i;
            ck_assert(!kept || ps_slot_below(&slot, EPOCH + k, 2 + k + 1));
        }
    }
    ck_assert_uint_eq(slot.n_epochs, PS_SLOT_EPOCHS_MAX);
}
END_TEST

START_TEST(only_a_newer_list_of_sessions_counts)
{
    fresh();
    ck_assert_uint_eq(open_list(1, 1, 2), 0);
    ASSERT_PROPOSED(push(3, 100, 0), 3);
    ck_assert_uint_eq(open_list(7, 1, 2), 4); /* Without session 3. */
    ASSERT_REFUSED(push(3, 100, 1), PS_ERR_FENCED);
    ck_assert_uint_eq(open_list(6, 0, 3), 0); /* A late list revives nobody. */
    ASSERT_REFUSED(push(3, 100, 1), PS_ERR_FENCED);
    ASSERT_PROPOSED(push(5, 100, 1), 5);
}
END_TEST

/* The fence looks at the log to its end: the close is proposed, not yet committed. */
START_TEST(nothing_slips_in_behind_a_close)
{
    fresh();
    ck_assert_uint_eq(open_list(2, 0, 0), 3);
    ck_assert_uint_eq(slot.committed, 2);
    ASSERT_REFUSED(push(3, 100, 0), PS_ERR_FENCED);
    ck_assert_uint_eq(slot.appended, 3);
}
END_TEST

START_TEST(a_repeat_waits_for_the_end_of_the_log)
{
    fresh();
    ASSERT_PROPOSED(push(3, 100, 0), 3);
    ASSERT_PROPOSED(push(5, 200, 0), 4);
    ASSERT_WAITS(push(3, 100, 0), 4); /* Its first copy is at 2, uncommitted. */
    ck_assert_uint_eq(slot.appended, 4);
    ps_slot_commit(&slot, 4);
    ps_slot_applied(&slot, 3);
    ps_slot_applied(&slot, 4);
    ASSERT_WAITS(push(3, 100, 0), 4);
}
END_TEST

START_TEST(a_lease_passes_with_what_it_has_done)
{
    fresh();
    ASSERT_PROPOSED(push(3, 100, 0), 3);
    ASSERT_PROPOSED(push(3, 100, 1), 4);
    ASSERT_WAITS(push(5, 100, 1), 4); /* The next holder starts at the last unit reported. */
    ASSERT_PROPOSED(push(5, 100, 2), 5);
}
END_TEST

START_TEST(a_closed_sessions_own_stream_takes_no_room)
{
    fresh();
    uint64_t own = PS_SEEN_SESSION_STREAM(3);
    ASSERT_PROPOSED(push(3, own, 0), 3);
    ASSERT_PROPOSED(push(3, 100, 0), 4);
    ck_assert_uint_eq(open_list(2, 1, 2), 5);
    uint32_t n_streams = 0;
    for (uint32_t i = 0; i < PS_SEEN_STREAMS_MAX; i++) {
        ck_assert_uint_ne(streams[i].key, own);
        n_streams += streams[i].key != 0;
    }
    ck_assert_uint_eq(n_streams, 1); /* The lease's stays: it passes to somebody. */
}
END_TEST

START_TEST(finished_leases_are_taken_by_version)
{
    fresh();
    struct ps_seen_range ranges[] = {{100, 101}};
    struct ps_record_finish finish = {.version = 5, .ranges = ranges, .n_ranges = 1};
    uint64_t position = 0;
    ck_assert(ps_slot_propose_finish(&slot, &finish, &position));
    ck_assert_uint_eq(position, 3);
    ck_assert(!ps_slot_propose_finish(&slot, &finish, &position));
    ASSERT_WAITS(push(3, 100, 77), 3); /* A late copy: already applied, for ever. */
    finish.version = 4;
    finish.n_ranges = 0;
    ck_assert(!ps_slot_propose_finish(&slot, &finish, &position));
    ASSERT_WAITS(push(3, 101, 0), 3);
}
END_TEST

START_TEST(more_acknowledged_than_sent_is_refused)
{
    fresh();
    struct ps_proposal proposal = push_of(3, 100, 4);
    proposal.item.acked_below = 5;
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &proposal), PS_ERR_INVALID);
    proposal.item.acked_below = 4;
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &proposal), 3);
    ASSERT_WAITS(push(3, 100, 3), 3);
    proposal = push_of(3, 100, UINT64_MAX);
    proposal.item.acked_below = UINT64_MAX;
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &proposal), PS_ERR_INVALID);
    ASSERT_PROPOSED(push(3, 100, 5), 4); /* Nothing was skipped. */
}
END_TEST

START_TEST(without_room_nothing_is_taken)
{
    fresh();
    struct ps_proposal proposal = push_of(3, 100, 0);
    proposal.room = PS_ERR_NO_SPACE;
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &proposal), PS_ERR_NO_SPACE);
    ck_assert_uint_eq(slot.appended, 2);
    proposal.room = PS_OK;
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &proposal), 3);
    proposal.room = PS_ERR_BUSY;
    ASSERT_WAITS(ps_slot_propose_push(&slot, &proposal), 3); /* A repeat needs none. */
}
END_TEST

START_TEST(beyond_the_window_is_busy_and_nonsense_invalid)
{
    fresh();
    ASSERT_REFUSED(push(3, 100, PS_SEQUENCES_OPEN_MAX), PS_ERR_BUSY);
    struct ps_proposal proposal = push_of(3, 100, 0);
    proposal.item.fragment = 1;
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &proposal), PS_ERR_INVALID);
    ck_assert_uint_eq(slot.appended, 2);
}
END_TEST

/* ---- Aggregated bsp ------------------------------------------------------------------------- */

static struct ps_proposal stage_of(uint64_t session, uint64_t lease, uint64_t unit, uint64_t step)
{
    struct ps_proposal proposal = push_of(session, lease, unit);
    proposal.staged = true;
    proposal.step = step;
    return proposal;
}

static uint64_t close_step(uint64_t step, const struct ps_close_entry *entries, uint32_t n)
{
    struct ps_record_close close = {.step = step, .entries = entries, .n_entries = n};
    uint64_t position = 0;
    return ps_slot_propose_close(&slot, &close, &position) ? position : 0;
}

START_TEST(a_staged_unit_is_not_taken_before_its_step_is_closed)
{
    fresh();
    struct ps_proposal first = stage_of(3, 100, 0, 0);
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &first), 3);
    struct ps_proposal again = first;
    again.staged_already = true;
    ASSERT_WAITS(ps_slot_propose_push(&slot, &again), 3);
    /* Another session that got the lease stages for itself: rule 7b. */
    struct ps_proposal other = stage_of(5, 100, 0, 0);
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &other), 4);
    struct ps_close_entry entries[] = {{.session = 5, .lease = 100, .unit = 0, .rows = 8}};
    ck_assert_uint_eq(close_step(0, entries, 1), 5);
    other.step = 1;
    ASSERT_WAITS(ps_slot_propose_push(&slot, &other), 5); /* Applied: a repeat for ever. */
}
END_TEST

START_TEST(a_push_for_a_closed_step_is_late_and_unseen)
{
    fresh();
    ck_assert_uint_eq(close_step(0, NULL, 0), 3);
    struct ps_proposal late = stage_of(3, 100, 0, 0);
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &late), PS_ERR_LATE);
    late.staged_already = true;
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &late), PS_ERR_LATE);
    late = stage_of(3, 100, 0, 1);
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &late), 4);
}
END_TEST

/* Staged means kept, not taken: what was dropped from the list must be able to come again. */
START_TEST(acknowledged_stages_are_not_taken_for_applied)
{
    fresh();
    struct ps_proposal dropped = stage_of(3, 100, 0, 0);
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &dropped), 3);
    struct ps_proposal next = stage_of(3, 100, 1, 0);
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &next), 4);
    ck_assert_uint_eq(close_step(0, NULL, 0), 5);
    dropped.step = 1;
    ASSERT_PROPOSED(ps_slot_propose_push(&slot, &dropped), 6);
}
END_TEST

START_TEST(a_step_is_closed_once_and_in_order)
{
    fresh();
    struct ps_close_entry entries[] = {{.session = 3, .lease = 100, .unit = 0, .rows = 1},
                                       {.session = 3, .lease = 0, .unit = 0, .rows = 0}};
    ck_assert_uint_eq(close_step(4, entries, 2), 3);
    ck_assert_uint_eq(slot.closed_steps, 5);
    ck_assert_uint_eq(close_step(4, entries, 2), 0);
    ck_assert_uint_eq(close_step(3, entries, 2), 0);
    ck_assert_uint_eq(close_step(5, entries, 2), 4); /* Units of before change nothing. */
    ASSERT_WAITS(push(3, 100, 0), 4);
}
END_TEST

START_TEST(a_step_may_be_closed_before_its_push_arrives)
{
    fresh();
    struct ps_close_entry entries[] = {{.session = 3, .lease = 100, .unit = 0, .rows = 1}};
    ck_assert_uint_eq(close_step(0, entries, 1), 3);
    struct ps_proposal behind = stage_of(3, 100, 0, 0);
    ASSERT_WAITS(ps_slot_propose_push(&slot, &behind), 3); /* The unit is on the list: taken. */
    behind = stage_of(5, 200, 0, 0);
    ASSERT_REFUSED(ps_slot_propose_push(&slot, &behind), PS_ERR_LATE);
}
END_TEST

/* ---- Our own mistakes ----------------------------------------------------------------------- */

START_TEST(what_is_not_in_the_log_cannot_be_committed)
{
    fresh();
    ps_slot_commit(&slot, 3); /* Must abort. */
}
END_TEST

START_TEST(what_is_not_committed_cannot_be_applied)
{
    fresh();
    ASSERT_PROPOSED(push(3, 100, 0), 3);
    ps_slot_applied(&slot, 3); /* Must abort. */
}
END_TEST

START_TEST(records_are_applied_in_the_order_of_the_log)
{
    fresh();
    ASSERT_PROPOSED(push(3, 100, 0), 3);
    ASSERT_PROPOSED(push(3, 100, 1), 4);
    ps_slot_commit(&slot, 4);
    ps_slot_commit(&slot, 3); /* Late and harmless. */
    ck_assert_uint_eq(slot.committed, 4);
    ps_slot_applied(&slot, 4); /* Must abort. */
}
END_TEST

Suite *suite_slot_core(void)
{
    Suite *suite = suite_create("slot_core");
    TCase *tcase = tcase_create("slot");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, a_claim_is_judged, 0, PS_ARRAY_LEN(claims));
    tcase_add_test(tcase, a_slot_of_another_server_answers_nobody);
    tcase_add_test(tcase, nobody_is_served_in_an_epoch_that_is_not_applied);
    tcase_add_test(tcase, below_is_who_has_fewer_records_of_epochs_up_to_it);
    tcase_add_test(tcase, epochs_that_are_merged_accuse_nobody);
    tcase_add_test(tcase, only_a_newer_list_of_sessions_counts);
    tcase_add_test(tcase, nothing_slips_in_behind_a_close);
    tcase_add_test(tcase, a_repeat_waits_for_the_end_of_the_log);
    tcase_add_test(tcase, a_lease_passes_with_what_it_has_done);
    tcase_add_test(tcase, a_closed_sessions_own_stream_takes_no_room);
    tcase_add_test(tcase, finished_leases_are_taken_by_version);
    tcase_add_test(tcase, more_acknowledged_than_sent_is_refused);
    tcase_add_test(tcase, without_room_nothing_is_taken);
    tcase_add_test(tcase, beyond_the_window_is_busy_and_nonsense_invalid);
    tcase_add_test(tcase, a_staged_unit_is_not_taken_before_its_step_is_closed);
    tcase_add_test(tcase, a_push_for_a_closed_step_is_late_and_unseen);
    tcase_add_test(tcase, acknowledged_stages_are_not_taken_for_applied);
    tcase_add_test(tcase, a_step_is_closed_once_and_in_order);
    tcase_add_test(tcase, a_step_may_be_closed_before_its_push_arrives);
    tcase_add_test_raise_signal(tcase, what_is_not_in_the_log_cannot_be_committed, SIGABRT);
    tcase_add_test_raise_signal(tcase, what_is_not_committed_cannot_be_applied, SIGABRT);
    tcase_add_test_raise_signal(tcase, records_are_applied_in_the_order_of_the_log, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}
