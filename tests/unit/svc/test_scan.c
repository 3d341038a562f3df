/*
 * test_scan.c — walks over the rows of a slot through svc and its lane: each row once, within the
 * bytes that were asked for, checked whole, BUSY instead of trouble when memory is short.
 */
#include <string.h>

#include "cluster/keys.h"
#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"
#include "wire/keys.h"
#include "wire/scan_msg.h"

#define WIDTH     3u
#define N_KEYS    200u
#define SLOT      9u
#define ROW_BYTES (PS_KEY_BYTES_MAX + WIDTH * sizeof(float)) /* At most. */

static uint32_t table;
static uint64_t keys[N_KEYS];
static float grads[N_KEYS][WIDTH];
static uint64_t got_keys[N_KEYS + 1];
static float got[N_KEYS + 1][WIDTH];
static uint32_t n_got;
static struct ps_scan_request request;
static struct ps_scan_reply reply;

static void start_with(uint32_t n_lanes, const struct rig_rows *rows)
{
    rig_open(n_lanes);
    table = rig_define_rows(rows);
    uint64_t key = 1;
    for (uint32_t i = 0; i < N_KEYS; i++, key += UINT64_MAX / (200 * N_KEYS)) {
        while (ps_keys_slot(key, RIG_KEY_SEED) != SLOT) {
            key++;
        }
        keys[i] = key;
        grads[i][i % WIDTH] = 1.0f + (float)i;
    }
    request = (struct ps_scan_request){.session_number = 4,
                                       .table = table,
                                       .slot = SLOT,
                                       .epoch = RIG_EPOCH,
                                       .generation = RIG_GENERATION};
    request.session = rig_request(4)->session;
    n_got = 0;
}

static void start(uint32_t n_lanes)
{
    start_with(n_lanes, &(struct rig_rows){.optim = "sgd", .width = WIDTH});
}

/* Keys [first, first + n) get rows. */
static void push_at(float rate, uint64_t sequence, uint32_t first, uint32_t n)
{
    static uint8_t bytes[PS_HEAD_BYTES_MAX + N_KEYS * (PS_KEY_BYTES_MAX + sizeof(grads[0]))];
    static uint8_t payload[sizeof(bytes) - PS_HEAD_BYTES_MAX];
    struct ps_data_request *to = rig_request(1);
    size_t n_key_bytes = ps_keys_write(keys + first, n, payload, sizeof(payload));
    memcpy(payload + n_key_bytes, grads + first, n * sizeof(grads[0]));
    to->sequence = sequence;
    to->rate = rate;
    to->push.n_slots = 1;
    to->push.n_parts = 1;
    to->push.slots[0] =
        (struct ps_slot_part){.slot = SLOT, .n_fragments = 1, .n_parts = 1, .epoch = RIG_EPOCH};
    to->n_payload_bytes = n_key_bytes + n * sizeof(grads[0]);
    to->push.parts[0] = (struct ps_part){.table = table,
                                         .dtype = PS_DTYPE_F32,
                                         .n_keys = n,
                                         .n_key_bytes = (uint32_t)n_key_bytes,
                                         .n_bytes = (uint32_t)to->n_payload_bytes};
    size_t n_head = ps_data_request_write(to, bytes, PS_HEAD_BYTES_MAX);
    memcpy(bytes + n_head, payload, to->n_payload_bytes);
    struct ps_slice slice = {.data = bytes, .n_bytes = n_head + to->n_payload_bytes};
    struct fake_call *call = rig_deliver_bytes(PS_DATA_PUSH, &slice, 1);
    rig_pump();
    ck_assert_int_eq(fake_call_reply(call)->push[0].status, PS_OK);
    fake_call_settle(call);
}

static void push(uint64_t sequence, uint32_t first, uint32_t n)
{
    push_at(0.5f, sequence, first, n);
}

/* The request as it stands; `reply` is what came. */
static struct fake_call *deliver(void)
{
    uint8_t bytes[PS_SCAN_HEAD_BYTES_MAX];
    size_t n = ps_scan_request_write(&request, bytes, sizeof(bytes));
    struct ps_slice slice = {.data = bytes, .n_bytes = n};
    struct fake_call *call = rig_deliver_to(PS_METHOD_SCAN, &slice, 1);
    rig_pump();
    if (fake_call_status(call) == PS_OK) {
        ck_assert_int_eq(ps_scan_reply_read(fake_call_bytes(call), &reply, NULL), PS_OK);
        ck_assert(reply.status == PS_OK || reply.n_payload_bytes == 0);
        ck_assert_int_eq(reply.retry_ms > 0, reply.status == PS_ERR_BUSY);
    }
    return call;
}

/* One step; its rows go behind those there are. */
static enum ps_status step(void)
{
    struct fake_call *call = deliver();
    ck_assert_int_eq(fake_call_status(call), PS_OK);
    if (reply.status == PS_OK) {
        ck_assert_uint_le(n_got + reply.n_keys, N_KEYS);
        ck_assert_uint_eq(reply.n_payload_bytes, reply.n_key_bytes + reply.n_keys * sizeof(got[0]));
        struct ps_cursor values = reply.payload;
        struct ps_cursor bytes = ps_cursor_split(&values, reply.n_key_bytes);
        ck_assert_int_eq(ps_keys_read(bytes, got_keys + n_got, reply.n_keys, NULL), PS_OK);
        ps_cursor_copy(&values, got[n_got], reply.n_keys * sizeof(got[0]));
        n_got += reply.n_keys;
    }
    fake_call_settle(call);
    return reply.status;
}

/* All of them. @return steps */
static uint32_t walk(void)
{
    uint32_t n_steps = 0;
    request.cursor = 0;
    n_got = 0;
    do {
        ck_assert_int_eq(step(), PS_OK);
        ck_assert(reply.done || reply.cursor > request.cursor);
        request.cursor = reply.cursor;
        n_steps++;
    } while (!reply.done);
    return n_steps;
}

/* Exactly the keys [0, n), with the weights that a pull brings. */
static void check_walk(uint32_t n)
{
    ck_assert_uint_eq(n_got, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_times = 0;
        for (uint32_t k = 0; k < n_got; k++) {
            n_times += got_keys[k] == keys[i] ? 1 : 0;
        }
        ck_assert_uint_eq(n_times, 1);
    }
}

START_TEST(a_walk_brings_every_row_once)
{
    start(2);
    ck_assert_uint_eq(walk(), 1);
    check_walk(0);
    push(0, 0, 150);
    ck_assert_uint_eq(walk(), 1);
    check_walk(150);
    for (uint32_t i = 1; i < n_got; i++) {
        ck_assert_uint_lt(got_keys[i - 1], got_keys[i]);
    }
    ck_assert_uint_eq(reply.epoch, RIG_EPOCH);
    ck_assert_uint_gt(reply.position, 0);
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_scan_rows_total), 150);
    rig_close();
}
END_TEST

/* What comes is what a pull of the same keys brings. */
START_TEST(rows_come_with_their_weights)
{
    start(1);
    push(0, 0, 50);
    float first[WIDTH];
    (void)walk();
    memcpy(first, got[7], sizeof(first));
    push(1, 0, 50);
    (void)walk();
    uint32_t i = 0;
    while (keys[i] != got_keys[7]) {
        i++;
    }
    for (uint32_t j = 0; j < WIDTH; j++) { /* The rig's rate is a half. */
        ck_assert(got[7][j] == first[j] - 0.5f * grads[i][j]);
    }
    rig_close();
}
END_TEST

/* The weights of a key, as a pull brings them. */
static void pull(uint64_t key, float *to)
{
    uint8_t bytes[PS_HEAD_BYTES_MAX + PS_KEY_BYTES_MAX];
    uint8_t key_bytes[PS_KEY_BYTES_MAX];
    struct ps_data_request *ask = rig_request(4);
    size_t n_key_bytes = ps_keys_write(&key, 1, key_bytes, sizeof(key_bytes));
    ask->no_clock = true;
    ask->pull.n_slots = 1;
    ask->pull.n_parts = 1;
    ask->pull.slots[0] = (struct ps_slot_part){.slot = SLOT, .n_parts = 1, .epoch = RIG_EPOCH};
    ask->pull.parts[0] =
        (struct ps_part){.table = table, .n_keys = 1, .n_key_bytes = (uint32_t)n_key_bytes};
    ask->n_payload_bytes = n_key_bytes;
    size_t n_head = ps_data_request_write(ask, bytes, PS_HEAD_BYTES_MAX);
    memcpy(bytes + n_head, key_bytes, n_key_bytes);
    struct ps_slice slice = {.data = bytes, .n_bytes = n_head + n_key_bytes};
    struct fake_call *call = rig_deliver_bytes(PS_DATA_PULL, &slice, 1);
    rig_pump();
    ck_assert_int_eq(fake_call_reply(call)->pull[0].status, PS_OK);
    ck_assert_uint_eq(fake_call_payload(call, to, WIDTH * sizeof(*to)), WIDTH * sizeof(*to));
    fake_call_settle(call);
}

/* Rows of ftrl keep no weights: a walk derives what a pull derives, with the rate of the last push
 * of the slot, also of rows that this push did not name. */
START_TEST(derived_weights_come_as_a_pull_brings_them)
{
    float last[N_KEYS][WIDTH] = {{0}};
    start_with(1, &(struct rig_rows){.optim = "ftrl", .width = WIDTH});
    for (uint64_t i = 0; i < 3; i++) {
        push_at(i < 2 ? 0.5f : 0.125f, i, 0, i < 2 ? 100 : 10);
        uint32_t n_other = 0;
        (void)walk();
        check_walk(100);
        for (uint32_t k = 0; k < n_got; k++) {
            float pulled[WIDTH];
            pull(got_keys[k], pulled);
            ck_assert_mem_eq(got[k], pulled, sizeof(pulled));
            n_other += memcmp(got[k], last[k], sizeof(got[k])) != 0 ? 1 : 0;
        }
        ck_assert_uint_eq(n_other, 100);
        memcpy(last, got, sizeof(last));
    }
    rig_close();
}
END_TEST

/* l1 makes weights 0 whose row goes on: a walk without zeros leaves out exactly these. */
START_TEST(derived_zeros_are_left_out_when_they_are_not_wanted)
{
    start_with(1, &(struct rig_rows){.optim = "ftrl", .width = WIDTH, .l1 = 50.0f, .zeros = true});
    push_at(0.5f, 0, 0, 100);
    (void)walk();
    check_walk(100);
    uint32_t n_zero = 0;
    for (uint32_t i = 0; i < n_got; i++) {
        n_zero += got[i][0] == 0.0f && got[i][1] == 0.0f && got[i][2] == 0.0f ? 1 : 0;
    }
    ck_assert_uint_eq(n_zero, 50); /* Gradients are 1 to 100. */
    request.skip_zeros = true;
    (void)walk();
    ck_assert_uint_eq(n_got, 50);
    for (uint32_t i = 0; i < n_got; i++) {
        ck_assert(got[i][0] != 0.0f || got[i][1] != 0.0f || got[i][2] != 0.0f);
    }
    rig_close();
}
END_TEST

START_TEST(an_answer_has_no_more_bytes_than_were_asked_for)
{
    start(1);
    push(0, 0, N_KEYS);
    for (uint32_t n_rows = 1; n_rows < 60; n_rows += 7) {
        request.max_bytes = (uint32_t)(n_rows * ROW_BYTES + n_rows % ROW_BYTES);
        request.cursor = 0;
        n_got = 0;
        do {
            uint32_t n_before = n_got;
            ck_assert_int_eq(step(), PS_OK);
            ck_assert_uint_le(reply.n_payload_bytes, request.max_bytes);
            ck_assert_uint_le(n_got - n_before, n_rows);
            request.cursor = reply.cursor;
        } while (!reply.done);
        check_walk(N_KEYS);
    }
    rig_close();
}
END_TEST

START_TEST(pushes_go_on_between_the_steps)
{
    start(1);
    push(0, 0, 100);
    request.max_bytes = (uint32_t)(30 * ROW_BYTES);
    for (uint64_t i = 1; i < 30; i++) {
        ck_assert_int_eq(step(), PS_OK);
        if (reply.done) {
            break;
        }
        request.cursor = reply.cursor;
        push(i, 0, 100);
    }
    ck_assert(reply.done);
    check_walk(100);
    rig_close();
}
END_TEST

/* Strangers, the fenced, other epochs: as for pulls. */
START_TEST(who_may_not_pull_may_not_scan)
{
    start(1);
    push(0, 0, 10);
    request.epoch = RIG_EPOCH - 1;
    ck_assert_int_eq(step(), PS_ERR_NOT_PRIMARY);
    request.epoch = RIG_EPOCH + 1;
    ck_assert_int_eq(step(), PS_ERR_NOT_PRIMARY);
    request.epoch = RIG_EPOCH;
    request.session_number = 99;
    ck_assert_int_eq(step(), PS_ERR_FENCED);
    request.session_number = 3; /* Not its id. */
    ck_assert_int_eq(step(), PS_ERR_FENCED);
    request.session_number = 4;
    request.seen_epoch = RIG_EPOCH;
    request.seen_position = 1000;
    ck_assert_int_eq(step(), PS_ERR_LOST);
    request.seen_position = 0;
    ck_assert_int_eq(step(), PS_OK);
    ck_assert_uint_eq(n_got, 10);
    rig_sessions(2, 5); /* All are closed. */
    ck_assert_int_eq(step(), PS_ERR_FENCED);
    rig_close();
}
END_TEST

static void no_such_slot(void)
{
    request.slot = PS_SLOTS;
}
static void no_such_table(void)
{
    request.table = RIG_TABLES + 1;
}
static void dense(void)
{
    request.table = RIG_WEIGHTS;
}
static void less_than_a_row(void)
{
    request.max_bytes = ROW_BYTES - 1;
}
static void another_generation(void)
{
    request.generation = RIG_GENERATION + 1;
}

static const struct {
    void (*spoil)(void);
    enum ps_status status;
    const char *words;
} spoilt[] = {
    {no_such_slot, PS_ERR_INVALID, "slot 64"},
    {no_such_table, PS_ERR_NOT_FOUND, "no table number 3"},
    {dense, PS_ERR_INVALID, "is dense"},
    {less_than_a_row, PS_ERR_INVALID, "at least 22"},
    {another_generation, PS_ERR_FENCED, "join anew"},
};

START_TEST(a_scan_that_makes_no_sense_is_refused_with_words)
{
    start(1);
    spoilt[_i].spoil();
    struct fake_call *call = deliver();
    ck_assert_int_eq(fake_call_status(call), spoilt[_i].status);
    ck_assert_ptr_nonnull(strstr(fake_call_reason(call), spoilt[_i].words));
    fake_call_settle(call);
    struct ps_slice damaged = {.data = (const uint8_t *)"\x0a\x10", .n_bytes = 2};
    call = rig_deliver_to(PS_METHOD_SCAN, &damaged, 1);
    ck_assert_int_eq(fake_call_status(call), PS_ERR_INVALID);
    fake_call_settle(call);
    rig_close();
}
END_TEST

START_TEST(rows_of_a_scan_are_booked_until_the_transport_lets_go)
{
    start(1);
    push(0, 0, 100);
    struct ps_ledger *ledger = rig.svc.ledger;
    struct fake_call *slow = deliver();
    uint64_t n_lent = atomic_load(&ledger->lent_bytes);
    ck_assert_uint_ge(n_lent, 100 * sizeof(got[0]));
    ck_assert_uint_eq(atomic_load(&ledger->bytes), n_lent);
    ledger->limits.session_bytes = n_lent + sizeof(struct ps_scan_call) + 200;
    ck_assert_int_eq(step(), PS_ERR_BUSY); /* The call fits, its rows do not. */
    ledger->limits.session_bytes = n_lent + 200;
    ck_assert_int_eq(step(), PS_ERR_BUSY); /* Nor the call. */
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_calls_busy_total), 1);
    fake_call_settle(slow);
    ck_assert_uint_eq(atomic_load(&ledger->lent_bytes), 0);
    ledger->limits.session_bytes = 2 * n_lent + sizeof(struct ps_scan_call);
    ck_assert_int_eq(step(), PS_OK);
    check_walk(100);
    rig_close();
}
END_TEST

/* Refuse the k-th allocation, for every k. */
START_TEST(a_scan_without_memory_is_busy_whichever_allocation_fails)
{
    bool whole = false;
    for (int64_t k = 0; !whole; k++) {
        ck_assert_int_lt(k, 20);
        start(1);
        push(0, 0, 100);
        rig.mem.fail_after = k;
        struct fake_call *call = deliver();
        rig.mem.fail_after = -1;
        whole = fake_call_status(call) == PS_OK && reply.status == PS_OK;
        ck_assert(whole || fake_call_status(call) == PS_ERR_BUSY || reply.status == PS_ERR_BUSY);
        ck_assert(!whole || k >= 4); /* The call, its loan, the step, the rows. */
        fake_call_settle(call);
        (void)walk();
        check_walk(100);
        rig_close();
    }
}
END_TEST

/* Of each table every slot has its turn, however many tables there are. */
START_TEST(old_rows_of_all_tables_are_swept_where_nobody_pushes)
{
    const struct rig_rows rows = {.optim = "sgd", .width = WIDTH, .expire_after = 2};
    start_with(1, &rows);
    uint32_t first = table;
    uint32_t end = table + 4;
    while (table + 1 < end) {
        table = rig_define_rows(&rows);
    }
    for (table = first; table < end; table++) {
        push(table, 0, 100);
    }
    rig_min_clock(9);
    for (table = first; table < end; table++) {
        push(end + table, 99, 1); /* This slot's rows are old now; two of them are swept. */
    }
    for (uint32_t i = 0; i < PS_SLOTS + 1; i++) {
        rig_pass_ms(1000);
        rig_min_clock(9);
    }
    for (table = first; table < end; table++) {
        struct ps_sparse_stats stats = {0};
        uint64_t n_refused = 0;
        ck_assert(ps_lane_figures(rig.svc.lanes[0], table, &stats, &n_refused));
        ck_assert_uint_eq(stats.n_rows, 1);
    }
    rig_close();
}
END_TEST

Suite *suite_scan(void)
{
    Suite *suite = suite_create("scan");
    TCase *tcase = tcase_create("scan");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_walk_brings_every_row_once);
    tcase_add_test(tcase, rows_come_with_their_weights);
    tcase_add_test(tcase, derived_weights_come_as_a_pull_brings_them);
    tcase_add_test(tcase, derived_zeros_are_left_out_when_they_are_not_wanted);
    tcase_add_test(tcase, an_answer_has_no_more_bytes_than_were_asked_for);
    tcase_add_test(tcase, pushes_go_on_between_the_steps);
    tcase_add_test(tcase, who_may_not_pull_may_not_scan);
    tcase_add_loop_test(tcase, a_scan_that_makes_no_sense_is_refused_with_words, 0,
                        PS_ARRAY_LEN(spoilt));
    tcase_add_test(tcase, rows_of_a_scan_are_booked_until_the_transport_lets_go);
    tcase_add_test(tcase, a_scan_without_memory_is_busy_whichever_allocation_fails);
    tcase_add_test(tcase, old_rows_of_all_tables_are_swept_where_nobody_pushes);
    suite_add_tcase(suite, tcase);
    return suite;
}
