/*
 * test_scan.c — all rows of a table through a session: each once whatever is lost, in rooms of any
 * size; and what a server, a move or a caller gets wrong.
 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "cluster/keys.h"
#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

#define ROWS  200u
#define WIDTH 3u

static struct rig rig;
static uint32_t table;
static uint64_t keys[ROWS + 1];
static float values[ROWS + 1][WIDTH];

/* A table, and rows of it: key i has the values i, i + 1 and i + 2, but every fourth has zeros. */
static void start(uint32_t n_servers)
{
    rig_start(&rig, n_servers);
    struct ps_table_def def = {.name = "rows", .width = WIDTH, .optimizer = "sgd"};
    uint32_t count;
    struct ps_define_table_op op = {.op = rig_op(&count), .def = &def};
    ps_session_define_table(rig.client, &op);
    (void)rig_wait(&rig, &count, 1000);
    ck_assert_int_eq(op.op.err.status, PS_OK);
    table = op.ret_table;
    for (uint32_t i = 0; i < ROWS; i++) {
        struct fake_row *row = fake_row(rig.cluster, table, i);
        for (uint32_t j = 0; j < WIDTH && i % 4 != 0; j++) {
            row->values[j] = (float)(i + j);
        }
    }
}

static struct ps_scan_op scan_op(uint32_t *count, uint32_t n_room)
{
    return (struct ps_scan_op){
        .op = rig_op(count), .table = table, .keys = keys, .values = values[0], .n_room = n_room};
}

static enum ps_status scan_wait(struct ps_scan_op *op, uint32_t *count)
{
    op->op = rig_op(count);
    ps_session_scan(rig.client, op);
    (void)rig_wait(&rig, count, 3600000);
    return op->op.err.status;
}

/* Each row once, its values too; rooms of `n_room`. */
static void check_all(uint32_t n_room, bool skip_zeros)
{
    uint32_t n_met[ROWS] = {0};
    uint32_t count;
    struct ps_scan_op op = scan_op(&count, n_room);
    rig.cluster->n_seen = 0;
    op.skip_zeros = skip_zeros;
    do {
        ck_assert_int_eq(scan_wait(&op, &count), PS_OK);
        ck_assert(op.ret_n == n_room || op.ret_done);
        for (uint32_t i = 0; i < op.ret_n; i++) {
            ck_assert_uint_lt(keys[i], ROWS);
            n_met[keys[i]]++;
            const float *want = fake_row(rig.cluster, table, keys[i])->values;
            ck_assert_mem_eq(values[i], want, sizeof(values[i]));
        }
    } while (!op.ret_done);
    for (uint32_t i = 0; i < ROWS; i++) {
        ck_assert_uint_eq(n_met[i], skip_zeros && i % 4 == 0 ? 0 : 1);
    }
    ck_assert_int_eq(scan_wait(&op, &count), PS_OK); /* The end stays the end. */
    ck_assert(op.ret_done && op.ret_n == 0);
}

static enum fake_fate fate_by_chance(struct fake_cluster *cluster, uint32_t server PS_UNUSED)
{
    switch (ps_mix64(cluster->counter++) % 4) {
    case 0: return FATE_LOSE_REQUEST;
    case 1: return FATE_LOSE_REPLY;
    default: return FATE_ANSWER;
    }
}

START_TEST(every_row_comes_once_in_rooms_of_any_size)
{
    static const uint32_t rooms[] = {1, 2, 3, 7, 64, ROWS, ROWS + 1};
    start(3);
    for (size_t i = 0; i < PS_ARRAY_LEN(rooms); i++) {
        check_all(rooms[i], false);
        check_all(rooms[i], true);
    }
    struct ps_view view = rig_view(&rig);
    ck_assert_uint_eq(view.n_retries, 0);
    rig_stop(&rig);
}
END_TEST

START_TEST(every_row_comes_once_when_half_of_the_calls_are_lost)
{
    rig.give_up_ms = 600000; /* Its calls go one by one: five may well be lost in a row. */
    start(2);
    rig.cluster->fate = fate_by_chance;
    rig.cluster->counter = test_seed();
    check_all(50, false);
    ck_assert_uint_gt(rig_view(&rig).n_retries, 0);
    rig_stop(&rig);
}
END_TEST

static enum ps_status judge_busy_then_moved(struct fake_cluster *cluster, uint32_t server PS_UNUSED,
                                            uint32_t slot PS_UNUSED, bool push PS_UNUSED)
{
    static const enum ps_status statuses[] = {PS_ERR_BUSY, PS_ERR_NOT_PRIMARY, PS_ERR_TIMEOUT,
                                              PS_OK};
    return statuses[cluster->counter++ % PS_ARRAY_LEN(statuses)];
}

START_TEST(what_cannot_be_for_now_is_asked_again)
{
    start(2);
    rig.cluster->judge = judge_busy_then_moved;
    check_all(ROWS, false);
    rig_stop(&rig);
}
END_TEST

static enum ps_status judge_not_there(struct fake_cluster *cluster PS_UNUSED,
                                      uint32_t server PS_UNUSED, uint32_t slot, bool push PS_UNUSED)
{
    return slot == 5 ? PS_ERR_NOT_FOUND : PS_OK;
}

START_TEST(a_refusal_for_good_names_slot_and_server)
{
    uint32_t count;
    start(2);
    rig.cluster->judge = judge_not_there;
    struct ps_scan_op op = scan_op(&count, ROWS);
    ck_assert_int_eq(scan_wait(&op, &count), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(op.op.err.text, "slot 5 at server 1 (server-1:1)"));
    ck_assert_uint_eq(op.at.slot, 0); /* Nothing has moved: the same again brings the same. */
    rig.cluster->judge = NULL;
    check_all(ROWS, false);
    rig_stop(&rig);
}
END_TEST

/* The scan stops in the middle of a slot or at its beginning; then the slot has another epoch. */
START_TEST(a_slot_that_moves_under_a_scan_ends_it_only_in_its_middle)
{
    uint32_t count;
    start(2);
    struct ps_scan_op op = scan_op(&count, 1);
    do {
        ck_assert_int_eq(scan_wait(&op, &count), PS_OK);
    } while ((op.at.cursor > 0) != (_i == 0));
    uint32_t slot = op.at.slot;
    ck_assert_uint_lt(slot, PS_SLOTS);
    rig.cluster->primary[slot] = 1 - rig.cluster->primary[slot];
    rig.cluster->epoch[slot]++;
    fake_state(rig.cluster, true);
    fake_run(&rig.cluster->net, 100);
    if (_i == 0) {
        ck_assert_int_eq(scan_wait(&op, &count), PS_ERR_LATE);
        ck_assert_ptr_nonnull(strstr(op.op.err.text, "scan anew"));
        check_all(10, false);
    } else {
        ck_assert_int_eq(scan_wait(&op, &count), PS_OK);
    }
    rig_stop(&rig);
}
END_TEST

START_TEST(answers_that_lie_end_a_scan_with_words)
{
    uint32_t count;
    start(2);
    rig.cluster->scan_lie = (enum fake_scan_lie)_i;
    struct ps_scan_op op = scan_op(&count, 1);
    ck_assert_int_eq(scan_wait(&op, &count), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(op.op.err.text, "sent nonsense"));
    rig.cluster->scan_lie = SCAN_TRUE;
    check_all(10, false);
    rig_stop(&rig);
}
END_TEST

static enum fake_fate fate_nonsense(struct fake_cluster *cluster, uint32_t server PS_UNUSED)
{
    return cluster->counter == 0 ? FATE_NONSENSE : FATE_NOTHING;
}

START_TEST(answers_that_are_none_end_a_scan_with_words)
{
    uint32_t count;
    start(1);
    rig.cluster->fate = fate_nonsense;
    for (; rig.cluster->counter < 2; rig.cluster->counter++) {
        struct ps_scan_op op = scan_op(&count, 3);
        ck_assert_int_eq(scan_wait(&op, &count), PS_ERR_CORRUPT);
    }
    rig_stop(&rig);
}
END_TEST

START_TEST(the_min_clock_of_a_scan_is_the_least_of_its_rows)
{
    uint32_t count;
    start(2);
    rig.cluster->min_clock = 7;
    struct ps_scan_op op = scan_op(&count, ROWS + 1);
    ck_assert_int_eq(scan_wait(&op, &count), PS_OK);
    ck_assert_uint_eq(op.ret_min_clock, 7);
    ck_assert_int_eq(scan_wait(&op, &count), PS_OK);
    ck_assert_uint_eq(op.ret_min_clock, 0); /* No rows. */
    rig_stop(&rig);
}
END_TEST

START_TEST(what_cannot_be_scanned_is_refused_before_a_call)
{
    uint32_t count;
    start(1);
    struct ps_scan_op op = scan_op(&count, 3);
    op.table = 0;
    ck_assert_int_eq(scan_wait(&op, &count), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(op.op.err.text, "'small' is dense"));
    op.table = 99;
    ck_assert_int_eq(scan_wait(&op, &count), PS_ERR_NOT_FOUND);
    op.table = table;
    op.at.slot = PS_SLOTS + 1;
    ck_assert_int_eq(scan_wait(&op, &count), PS_ERR_INVALID);
    ck_assert_uint_eq(rig.cluster->n_scan_calls, 0);
    rig_stop(&rig);
}
END_TEST

/* Many at once, then one too many; all of them end when the session does. */
START_TEST(scans_under_way_end_with_the_session)
{
    enum {
        N = 17
    };
    struct ps_scan_op ops[N];
    uint32_t counts[N];
    start(1);
    rig.cluster->fate = fate_hold;
    for (uint32_t i = 0; i < N; i++) {
        ops[i] = scan_op(&counts[i], 1);
        ps_session_scan(rig.client, &ops[i]);
    }
    (void)rig_wait(&rig, &counts[N - 1], 1000);
    ck_assert_int_eq(ops[N - 1].op.err.status, PS_ERR_BUSY);
    if (_i == 0) {
        uint32_t closed;
        struct ps_op op = rig_op(&closed);
        ps_session_close(rig.client, &op);
        (void)rig_wait(&rig, &closed, 5000);
        ps_session_destroy(rig.client);
        rig.client = NULL;
    } else {
        fake_state_lease(rig.cluster, &(struct fake_lease){.fenced = true, .reason = "silent"});
        (void)rig_wait(&rig, &counts[0], 5000);
    }
    for (uint32_t i = 0; i + 1 < N; i++) {
        ck_assert_uint_eq(counts[i], 1);
        ck_assert_int_eq(ops[i].op.err.status, _i == 0 ? PS_ERR_CANCELED : PS_ERR_FENCED);
    }
    rig_stop(&rig);
}
END_TEST

static enum fake_fate fate_silence(struct fake_cluster *cluster PS_UNUSED,
                                   uint32_t server PS_UNUSED)
{
    return FATE_LOSE_REQUEST;
}

START_TEST(a_server_that_is_silent_under_a_scan_is_lost)
{
    uint32_t count;
    start(2);
    rig.cluster->fate = fate_silence;
    struct ps_scan_op op = scan_op(&count, 3);
    ck_assert_int_eq(scan_wait(&op, &count), PS_ERR_LOST);
    ck_assert_ptr_nonnull(strstr(op.op.err.text, "server 0 (server-0:1) is unreachable"));
    rig_stop(&rig);
}
END_TEST

Suite *suite_scan(void)
{
    Suite *suite = suite_create("scan");
    TCase *tcase = tcase_create("scan");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_row_comes_once_in_rooms_of_any_size);
    tcase_add_test(tcase, every_row_comes_once_when_half_of_the_calls_are_lost);
    tcase_add_test(tcase, what_cannot_be_for_now_is_asked_again);
    tcase_add_test(tcase, a_refusal_for_good_names_slot_and_server);
    tcase_add_loop_test(tcase, a_slot_that_moves_under_a_scan_ends_it_only_in_its_middle, 0, 2);
    tcase_add_loop_test(tcase, answers_that_lie_end_a_scan_with_words, 1, SCAN_LIES);
    tcase_add_test(tcase, answers_that_are_none_end_a_scan_with_words);
    tcase_add_test(tcase, the_min_clock_of_a_scan_is_the_least_of_its_rows);
    tcase_add_test(tcase, what_cannot_be_scanned_is_refused_before_a_call);
    tcase_add_loop_test(tcase, scans_under_way_end_with_the_session, 0, 2);
    tcase_add_test(tcase, a_server_that_is_silent_under_a_scan_is_lost);
    suite_add_tcase(suite, tcase);
    return suite;
}
