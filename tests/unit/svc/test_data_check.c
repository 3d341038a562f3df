/*
 * test_data_check.c — a call that contradicts itself, or us, is refused whole: before any lane has
 * run, with a status and words, and nothing of it is applied.
 */
#include <math.h>
#include <string.h>

#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

static float before[RIG_N_FLOATS];
static float after[RIG_N_FLOATS];

static void nan_gradient(struct ps_data_request *r)
{
    (void)r;
    rig.gradients[RIG_N_FLOATS - 1] = NAN;
}

static void infinite_gradient(struct ps_data_request *r)
{
    (void)r;
    rig.gradients[17] = -INFINITY;
}

static void nan_rate(struct ps_data_request *r)
{
    r->rate = NAN;
}

static void negative_rate(struct ps_data_request *r)
{
    r->rate = -0.1f;
}

static void absurd_rate(struct ps_data_request *r)
{
    r->rate = 3e38f;
}

static void no_slots(struct ps_data_request *r)
{
    r->push.n_slots = 0;
    r->n_payload_bytes = 0;
}

static void unknown_table(struct ps_data_request *r)
{
    r->push.parts[3].table = RIG_TABLES;
}

static void far_table(struct ps_data_request *r)
{
    r->pull.parts[0].table = UINT32_MAX;
}

static void unknown_block(struct ps_data_request *r)
{
    r->push.parts[2].block = 3;
}

static void far_block(struct ps_data_request *r)
{
    r->pull.parts[0].block = UINT32_MAX;
}

static void block_of_another_slot(struct ps_data_request *r)
{
    r->push.parts[0].block = 1;
}

static void slot_twice(struct ps_data_request *r)
{
    r->push.slots[1] = r->push.slots[0];
    r->push.parts[1] = r->push.parts[0];
}

static void pull_slot_twice(struct ps_data_request *r)
{
    r->pull.slots[1] = r->pull.slots[0];
    r->pull.parts[1] = r->pull.parts[0];
}

static void slot_64(struct ps_data_request *r)
{
    r->push.slots[3].slot = PS_SLOTS;
}

static void far_slot(struct ps_data_request *r)
{
    r->pull.slots[0].slot = UINT32_MAX;
}

static void empty_slot(struct ps_data_request *r)
{
    r->push.slots[2].n_parts = 0;
    r->n_payload_bytes -= r->push.parts[2].n_bytes;
}

static void empty_pull_slot(struct ps_data_request *r)
{
    r->pull.slots[3].n_parts = 0;
}

static void block_twice(struct ps_data_request *r)
{
    r->push.slots[2].n_parts = 2; /* The last part is taken twice. */
    r->push.slots[2].first_part = 2;
    r->push.parts[3] = r->push.parts[2];
    r->push.n_slots = 3;
    r->n_payload_bytes += r->push.parts[2].n_bytes - RIG_N_BIAS * sizeof(float);
}

static void short_block(struct ps_data_request *r)
{
    r->push.parts[0].n_bytes -= 4;
    r->n_payload_bytes -= 4;
}

static void odd_block(struct ps_data_request *r)
{
    r->push.parts[3].n_bytes -= 1;
    r->n_payload_bytes -= 1;
}

static void block_of_nothing(struct ps_data_request *r)
{
    r->n_payload_bytes -= r->push.parts[3].n_bytes;
    r->push.parts[3].n_bytes = 0;
}

static void unknown_dtype(struct ps_data_request *r)
{
    r->push.parts[0].dtype = 9;
}

static void unknown_codec(struct ps_data_request *r)
{
    r->push.parts[1].codec = 1;
}

static void other_generation(struct ps_data_request *r)
{
    r->generation = RIG_GENERATION + 1;
}

/* Else a client could spoil the sequences of another session's own stream. */
static void stream_of_a_session(struct ps_data_request *r)
{
    r->stream = PS_SEEN_SESSION_STREAM(2);
}

/* clang-format off */
static const struct {
    const char *name;
    void (*lie)(struct ps_data_request *r);
    enum ps_status want;
    const char *words;
} lies[] = {
    {"NaN in the last gradient",      nan_gradient,          PS_ERR_INVALID,     "not finite"},
    {"an infinite gradient",          infinite_gradient,     PS_ERR_INVALID,     "not finite"},
    {"a rate of NaN",                 nan_rate,              PS_ERR_INVALID,     "learning rate"},
    {"a negative rate",               negative_rate,         PS_ERR_INVALID,     "learning rate"},
    {"a rate beyond reason",          absurd_rate,           PS_ERR_INVALID,     "learning rate"},
    {"no slots",                      no_slots,              PS_ERR_INVALID,     "no slot"},
    {"a table that nobody defined",   unknown_table,         PS_ERR_NOT_FOUND,   "no table number 2"},
    {"a pull of a far table",         far_table,             PS_ERR_NOT_FOUND,   "no table"},
    {"a block beyond the last",       unknown_block,         PS_ERR_INVALID,     "no block"},
    {"a pull of a far block",         far_block,             PS_ERR_INVALID,     "no block"},
    {"a block of another slot",       block_of_another_slot, PS_ERR_INVALID,     "no block"},
    {"a slot named twice",            slot_twice,            PS_ERR_INVALID,     "repeated"},
    {"a slot pulled twice",           pull_slot_twice,       PS_ERR_INVALID,     "repeated"},
    {"slot 64",                       slot_64,               PS_ERR_INVALID,     "out of range"},
    {"a far slot",                    far_slot,              PS_ERR_INVALID,     "out of range"},
    {"a slot without blocks",         empty_slot,            PS_ERR_INVALID,     "empty"},
    {"a pulled slot without blocks",  empty_pull_slot,       PS_ERR_INVALID,     "empty"},
    {"a block named twice",           block_twice,           PS_ERR_INVALID,     "not in order"},
    {"a block too short",             short_block,           PS_ERR_INVALID,     "has 16384 bytes"},
    {"a block of broken floats",      odd_block,             PS_ERR_INVALID,     "has 132 bytes"},
    {"a block of nothing",            block_of_nothing,      PS_ERR_INVALID,     "got 0"},
    {"a dtype of the future",         unknown_dtype,         PS_ERR_UNSUPPORTED, "dtype 9"},
    {"a codec of the future",         unknown_codec,         PS_ERR_UNSUPPORTED, "codec 1"},
    {"another generation",            other_generation,      PS_ERR_FENCED,      "generation 12"},
    {"the stream of another session", stream_of_a_session,   PS_ERR_INVALID,     "no lease"},
};
/* clang-format on */

START_TEST(a_lie_is_refused_whole_before_any_lane_runs)
{
    rig_open(2);
    rig_read(before);
    (void)rig_request(1);
    rig_add_push(100, 0, 15);
    rig_add_pull(0, 15);
    lies[_i].lie(&rig.request);
    struct fake_call *call = rig_deliver(PS_DATA_PUSH_PULL);
    ck_assert_msg(fake_call_finished(call), "%s: accepted", lies[_i].name);
    ck_assert_msg(fake_call_status(call) == lies[_i].want, "%s: %d, %s", lies[_i].name,
                  (int)fake_call_status(call), fake_call_reason(call));
    ck_assert_msg(strstr(fake_call_reason(call), lies[_i].words) != NULL, "%s: '%s'", lies[_i].name,
                  fake_call_reason(call));
    fake_call_settle(call);
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_calls_refused_total), 1);
    rig_read(after);
    ck_assert_mem_eq(before, after, sizeof(before));
    rig_gradients(1);
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK); /* Its sequence is not taken. */
    rig_close();
}
END_TEST

/* Fields of the other methods are unknown fields: skipped, however absurd. */
START_TEST(a_push_does_not_look_at_pull_fields)
{
    rig_open(2);
    (void)rig_request(1);
    rig_add_push(100, 0, 15);
    rig_add_pull(0, 15);
    far_table(&rig.request);
    far_block(&rig.request);
    rig.request.pull.parts[1].block = UINT32_MAX;
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    const struct ps_data_reply *reply = fake_call_reply(call);
    ck_assert_uint_eq(reply->n_push, 4);
    ck_assert_uint_eq(reply->n_pull, 0);
    fake_call_settle(call);
    rig_close();
}
END_TEST

START_TEST(a_pull_does_not_look_at_push_fields)
{
    rig_open(2);
    rig_read(before);
    (void)rig_request(1);
    rig_add_push(100, 0, 15);
    rig_add_pull(0, 15);
    unknown_table(&rig.request);
    rig.request.push.parts[0].block = UINT32_MAX;
    nan_gradient(&rig.request);
    struct fake_call *call = rig_deliver(PS_DATA_PULL);
    rig_pump();
    ck_assert_uint_eq(fake_call_payload(call, after, sizeof(after)), sizeof(after));
    ck_assert_mem_eq(before, after, sizeof(before));
    ck_assert_uint_eq(fake_call_reply(call)->n_push, 0);
    fake_call_settle(call);
    rig_close();
}
END_TEST

START_TEST(bytes_that_are_no_message_are_refused)
{
    rig_open(1);
    static const uint8_t junk[] = {0x0a, 16, 1, 2, 3};
    struct ps_slice slice = {.data = junk, .n_bytes = sizeof(junk)};
    for (size_t n = 0; n <= 1; n++) {
        struct fake_call *call = rig_deliver_bytes(PS_DATA_PUSH, &slice, n);
        ck_assert_int_eq(fake_call_status(call), PS_ERR_INVALID);
        fake_call_settle(call);
    }
    rig_close();
}
END_TEST

/* A table of a gigabyte that has a layout, but no page here: a pull of it must not fit. */
START_TEST(a_pull_that_fits_no_reply_is_refused)
{
    rig_open(1);
    uint64_t n_elements = 256u * 1024 * 1024;
    ck_assert_int_eq(ps_layout_table(&n_elements, 1, 0, &rig.catalogue.layouts[2], NULL), PS_OK);
    atomic_store(&rig.catalogue.n_tables, 3);
    for (uint32_t n_parts = 3; n_parts <= 4; n_parts++) {
        (void)rig_request(1);
        rig.request.pull.n_slots = 1;
        rig.request.pull.n_parts = n_parts;
        rig.request.pull.slots[0] =
            (struct ps_slot_part){.n_fragments = 1, .n_parts = n_parts, .epoch = RIG_EPOCH};
        for (uint32_t i = 0; i < n_parts; i++) {
            rig.request.pull.parts[i] = (struct ps_part){.table = 2, .block = i * PS_SLOTS};
        }
        struct fake_call *call = rig_deliver(PS_DATA_PULL);
        rig_pump();
        if (n_parts == 4) {
            ck_assert_int_eq(fake_call_status(call), PS_ERR_INVALID);
            ck_assert_ptr_nonnull(strstr(fake_call_reason(call), "fewer blocks"));
        } else { /* Its lane does not hold the table yet. */
            ck_assert_int_eq(fake_call_reply(call)->pull[0].status, PS_ERR_NOT_FOUND);
        }
        fake_call_settle(call);
    }
    rig_close();
}
END_TEST

START_TEST(without_memory_for_one_more_call_it_is_busy)
{
    rig_open(1);
    (void)rig_request(1);
    rig_add_push(100, 0, 15);
    rig.mem.fail_after = 0;
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig.mem.fail_after = -1;
    ck_assert_int_eq(fake_call_status(call), PS_ERR_BUSY);
    fake_call_settle(call);
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
    rig_close();
}
END_TEST

/* The first block is lent already when the second one is missing: it must come back. */
START_TEST(a_slot_that_cannot_be_lent_whole_lends_nothing)
{
    rig_open(1);
    uint64_t n_elements = 1;
    ck_assert_int_eq(ps_layout_table(&n_elements, 1, 0, &rig.catalogue.layouts[2], NULL), PS_OK);
    atomic_store(&rig.catalogue.n_tables, 3);
    (void)rig_request(1);
    rig_add_pull(0, 1);
    rig.request.pull.parts[1] = (struct ps_part){.table = 2};
    rig.request.pull.n_parts = 2;
    rig.request.pull.slots[0].n_parts = 2;
    struct fake_call *call = rig_deliver(PS_DATA_PULL);
    rig_pump();
    ck_assert_int_eq(fake_call_reply(call)->pull[0].status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(fake_call_reply(call)->n_payload_bytes, 0);
    fake_call_settle(call);
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_pages_fresh_total), 0);
    rig_close();
}
END_TEST

Suite *suite_data_check(void)
{
    Suite *suite = suite_create("data_check");
    TCase *tcase = tcase_create("check");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, a_lie_is_refused_whole_before_any_lane_runs, 0, PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, a_push_does_not_look_at_pull_fields);
    tcase_add_test(tcase, a_pull_does_not_look_at_push_fields);
    tcase_add_test(tcase, bytes_that_are_no_message_are_refused);
    tcase_add_test(tcase, a_pull_that_fits_no_reply_is_refused);
    tcase_add_test(tcase, a_slot_that_cannot_be_lent_whole_lends_nothing);
    tcase_add_test(tcase, without_memory_for_one_more_call_it_is_busy);
    suite_add_tcase(suite, tcase);
    return suite;
}
