/*
 * test_data_push.c — pushes through svc and lanes: applied exactly once, the same bits however the
 * bytes arrive, one reply from several lanes, and BUSY instead of trouble when memory is short.
 */
#include <inttypes.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

static float before[RIG_N_FLOATS];
static float after[RIG_N_FLOATS];
static float want[RIG_N_FLOATS];
static float velocity[RIG_N_BIAS];

/* The rules by hand: sgd for `weights`, momentum 0.9 for `bias`. */
static void apply_by_hand(float rate)
{
    for (uint32_t i = 0; i < RIG_N_WEIGHTS; i++) {
        want[i] = want[i] - rate * rig.gradients[i];
    }
    for (uint32_t i = 0; i < RIG_N_BIAS; i++) {
        velocity[i] = 0.9f * velocity[i] + rig.gradients[RIG_N_WEIGHTS + i];
        want[RIG_N_WEIGHTS + i] -= rate * velocity[i];
    }
}

static void start(uint32_t n_lanes)
{
    rig_open(n_lanes);
    rig_read(want);
    memset(velocity, 0, sizeof(velocity));
}

START_TEST(a_push_is_applied_once_and_its_repeats_are_acknowledged)
{
    start(2);
    for (uint64_t unit = 0; unit < 3; unit++) {
        rig_gradients(unit);
        apply_by_hand(0.5f);
        for (int copy = 0; copy < 3; copy++) {
            ck_assert_int_eq(rig_push(1 + unit % 2, 100, unit), PS_OK);
            rig_read(after);
            ck_assert_mem_eq(after, want, sizeof(want));
        }
    }
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_pushes_repeated_total),
                      3 * 2 * RIG_SLOTS);
    rig_close();
}
END_TEST

START_TEST(streams_and_sessions_count_apart)
{
    start(1);
    for (uint64_t i = 0; i < 4; i++) {
        rig_gradients(i);
        apply_by_hand(0.5f);
        ck_assert_int_eq(rig_push(1 + i % 2, i < 2 ? 0 : 98 + i, 0), PS_OK);
    }
    rig_read(after);
    ck_assert_mem_eq(after, want, sizeof(want));
    rig_close();
}
END_TEST

/* Only the slots that are missing are applied by the repeat. */
START_TEST(a_call_can_be_partly_done)
{
    start(2);
    (void)rig_request(1);
    rig_add_push(100, 0, 15);
    rig.request.push.slots[1].epoch = RIG_EPOCH - 1;
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    const struct ps_data_reply *reply = fake_call_reply(call);
    for (uint32_t i = 0; i < RIG_SLOTS; i++) {
        ck_assert_uint_eq(reply->push[i].slot, i);
        ck_assert_int_eq(reply->push[i].status, i == 1 ? PS_ERR_NOT_PRIMARY : PS_OK);
        ck_assert_uint_eq(reply->push[i].epoch, RIG_EPOCH);
        ck_assert_uint_eq(reply->push[i].position, i == 1 ? 2 : 3); /* Epoch, sessions, push. */
    }
    fake_call_settle(call);
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
    apply_by_hand(0.5f);
    rig_read(after);
    ck_assert_mem_eq(after, want, sizeof(want));
    rig_close();
}
END_TEST

START_TEST(a_closed_session_is_fenced_in_every_slot)
{
    start(2);
    rig_sessions(2, 2);
    rig_read(before);
    ck_assert_int_eq(rig_push(1, 100, 0), PS_ERR_FENCED);
    rig_read(after);
    ck_assert_mem_eq(before, after, sizeof(before));
    rig_close();
}
END_TEST

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* A field that nobody knows, of 2 + n bytes, in front: it moves everything behind. */
static size_t write_shifted(uint8_t *to, size_t n)
{
    to[0] = 0xea; /* Field 29, bytes. */
    to[1] = 0x01;
    to[2] = (uint8_t)n;
    return 3 + n + rig_write(to + 3 + n);
}

static void expect_bits(const char *what, size_t at)
{
    rig_read(after);
    ck_assert_msg(memcmp(after, want, sizeof(want)) == 0, "%s %zu", what, at);
    rig_close();
}

static uint8_t bytes[RIG_MSG_BYTES + 64];

/* Every alignment of the payload, and every cut of one float, gives the same bits. */
START_TEST(gradients_give_the_same_bits_at_any_address_and_cut)
{
    for (size_t at = 0; at < 16; at++) {
        start(1);
        apply_by_hand(0.5f);
        (void)rig_request(1);
        rig_add_push(100, 0, 15);
        size_t n = write_shifted(bytes, at % 4);
        size_t n_cut = n - RIG_N_BYTES + 4096 - 8 + at; /* Within the first block. */
        struct ps_slice slices[] = {{bytes, n_cut},
                                    {bytes + n_cut, 0},
                                    {bytes + n_cut, 1},
                                    {bytes + n_cut + 1, n - n_cut - 1}};
        struct fake_call *call = rig_deliver_bytes(PS_DATA_PUSH, slices, 4);
        rig_pump();
        ck_assert_int_eq(fake_call_reply(call)->push[0].status, PS_OK);
        fake_call_settle(call);
        rig.n_straddlers_max = 2; /* Cut in two places. */
        expect_bits("cut", at);
    }
}
END_TEST

START_TEST(gradients_give_the_same_bits_in_random_slices)
{
    uint64_t seed = test_seed();
    struct ps_rng rng = ps_rng_from(seed);
    static struct ps_slice slices[RIG_MSG_BYTES];
    for (size_t round = 0; round < 12; round++) {
        start(2);
        apply_by_hand(0.5f);
        (void)rig_request(1);
        rig_add_push(100, 0, 15);
        size_t n_bytes = rig_write(bytes);
        uint64_t longest = round == 0 ? 1 : 1 + ps_rng_below(&rng, 3000);
        size_t n = 0;
        for (size_t at = 0; at < n_bytes; n++) {
            size_t n_run = 1 + (size_t)ps_rng_below(&rng, longest);
            n_run = n_run < n_bytes - at ? n_run : n_bytes - at;
            slices[n] = (struct ps_slice){.data = bytes + at, .n_bytes = n_run};
            at += n_run;
        }
        struct fake_call *call = rig_deliver_bytes(PS_DATA_PUSH, slices, n);
        rig_pump();
        ck_assert_int_eq(fake_call_reply(call)->push[3].status, PS_OK);
        fake_call_settle(call);
        rig.n_straddlers_max = n;
        expect_bits("round", round);
    }
}
END_TEST

/* ---- Lanes ---------------------------------------------------------------------------------- */

START_TEST(the_last_lane_sends_the_one_reply)
{
    for (uint32_t first = 0; first < 2; first++) {
        start(2);
        ck_assert_uint_ne(ps_lane_of(0, 2) + ps_lane_of(1, 2) + ps_lane_of(2, 2) + ps_lane_of(3, 2),
                          0);
        apply_by_hand(0.5f);
        (void)rig_request(1);
        rig_add_push(100, 0, 15);
        rig_add_pull(0, 15);
        struct fake_call *call = rig_deliver(PS_DATA_PUSH_PULL);
        rig_pump_lane(first);
        ck_assert(!fake_call_finished(call));
        rig_pump_lane(1 - first);
        ck_assert(fake_call_finished(call));
        ck_assert_uint_eq(fake_call_payload(call, after, sizeof(after)), sizeof(after));
        ck_assert_mem_eq(after, want, sizeof(want));
        fake_call_settle(call);
        rig_close();
    }
}
END_TEST

START_TEST(a_call_of_one_slot_asks_one_lane)
{
    start(2);
    for (uint32_t slot = 0; slot < RIG_SLOTS; slot++) {
        (void)rig_request(1);
        rig_add_push(100, 0, 1u << slot);
        struct fake_call *call = rig_deliver(PS_DATA_PUSH);
        rig_pump_lane(1 - ps_lane_of(slot, 2));
        ck_assert(!fake_call_finished(call));
        rig_pump_lane(ps_lane_of(slot, 2));
        ck_assert_uint_eq(fake_call_reply(call)->n_push, 1);
        ck_assert_uint_eq(fake_call_reply(call)->push[0].slot, slot);
        fake_call_settle(call);
    }
    rig_close();
}
END_TEST

/* A repeat that overtakes its first copy in one lane, and not in the other. */
START_TEST(copies_that_race_are_applied_once_in_each_slot)
{
    start(2);
    (void)rig_request(1);
    rig_add_push(100, 0, 15);
    struct fake_call *first = rig_deliver(PS_DATA_PUSH);
    rig_pump_lane(0);
    struct fake_call *second = rig_deliver(PS_DATA_PUSH);
    rig_pump_lane(1);
    ck_assert(fake_call_finished(first) && !fake_call_finished(second));
    rig_pump_lane(0);
    ck_assert_int_eq(fake_call_reply(second)->push[0].status, PS_OK);
    fake_call_settle(first);
    fake_call_settle(second);
    apply_by_hand(0.5f);
    rig_read(after);
    ck_assert_mem_eq(after, want, sizeof(want));
    rig_close();
}
END_TEST

/* ---- Fragments ------------------------------------------------------------------------------ */

/* A push of one block of one table for a slot that is full, as fragment `fragment` of `n`. */
static struct fake_call *push_fragment(uint32_t table, uint32_t fragment, uint32_t n)
{
    struct ps_data_request *r = rig_request(1);
    r->stream = 100;
    r->push.n_slots = 1;
    r->push.n_parts = 1;
    r->push.slots[0] = (struct ps_slot_part){.slot = RIG_FULL_SLOT,
                                             .fragment = fragment,
                                             .n_fragments = n,
                                             .n_parts = 1,
                                             .epoch = RIG_EPOCH};
    r->push.parts[0] = (struct ps_part){
        .table = table, .dtype = PS_DTYPE_F32, .n_bytes = RIG_BLOCK * (uint32_t)sizeof(float)};
    r->n_payload_bytes = r->push.parts[0].n_bytes;
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    return call;
}

START_TEST(fragments_are_taken_each_once_and_must_agree)
{
    start(1);
    rig_fill_slot();
    for (uint32_t fragment = 0; fragment < RIG_FULL_FRAGMENTS; fragment++) {
        for (uint64_t copy = 0; copy < 2; copy++) {
            uint32_t table = RIG_TABLES + fragment * RIG_FULL_EACH;
            struct fake_call *call = push_fragment(table, fragment, RIG_FULL_FRAGMENTS);
            const struct ps_slot_reply *reply = &fake_call_reply(call)->push[0];
            ck_assert_int_eq(reply->status, PS_OK);
            fake_call_settle(call);
            ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_pushes_repeated_total),
                              fragment + copy);
        }
        if (fragment == 0) { /* As one who knows only the first tables would cut it. */
            struct fake_call *call = push_fragment(RIG_TABLES, 0, 1);
            ck_assert_int_eq(fake_call_reply(call)->push[0].status, PS_ERR_INVALID);
            fake_call_settle(call);
        }
    }
    rig_close();
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    uint32_t table, fragment, n;
    const char *words;
} cuts[] = {
    {"a table of the next fragment",      RIG_TABLES + RIG_FULL_EACH, 0, 2,   "is not in fragment 0"},
    {"a table of the fragment before",    RIG_TABLES,                 1, 2,   "is not in fragment 1"},
    {"fewer fragments than its table has", RIG_TABLES + RIG_FULL_EACH, 1, 1,  "has 2 fragments"},
    {"more fragments than there are",     RIG_TABLES,                 0, 3,   "has 2 fragments"},
    {"a fragment beyond the last",        RIG_TABLES,                 2, 3,   "is not in fragment 2"},
    {"a fragment beyond all",             RIG_TABLES,                 77, 78, "is not in fragment 77"},
};
/* clang-format on */

START_TEST(a_fragment_that_is_not_of_the_cut_is_refused)
{
    start(1);
    rig_fill_slot();
    struct fake_call *call = push_fragment(cuts[_i].table, cuts[_i].fragment, cuts[_i].n);
    ck_assert_msg(fake_call_status(call) == PS_ERR_INVALID, "%s: accepted", cuts[_i].name);
    ck_assert_msg(strstr(fake_call_reason(call), cuts[_i].words) != NULL, "%s: '%s'", cuts[_i].name,
                  fake_call_reason(call));
    fake_call_settle(call);
    rig_close();
}
END_TEST

/* ---- Memory --------------------------------------------------------------------------------- */

START_TEST(without_pages_a_push_is_busy_and_takes_nothing)
{
    start(2);
    (void)rig_request(4);
    rig_add_pull(0, 15);
    struct fake_call *reader = rig_deliver(PS_DATA_PULL); /* Borrows every page. */
    rig_pump();
    (void)fake_call_reply(reader);
    rig.mem.limit[PS_MEM_PAGES] = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
    for (int copy = 0; copy < 2; copy++) {
        (void)rig_request(1);
        rig_add_push(100, 0, 15);
        struct fake_call *call = rig_deliver(PS_DATA_PUSH);
        rig_pump();
        const struct ps_data_reply *reply = fake_call_reply(call);
        ck_assert_uint_gt(reply->retry_ms, 0);
        for (uint32_t i = 0; i < RIG_SLOTS; i++) {
            ck_assert_int_eq(reply->push[i].status, PS_ERR_BUSY);
        }
        fake_call_settle(call);
    }
    ck_assert_uint_eq(atomic_load(&rig.mem.used[PS_MEM_PAGES]), rig.mem.limit[PS_MEM_PAGES]);
    fake_call_settle(reader);
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
    apply_by_hand(0.5f);
    rig_read(after);
    ck_assert_mem_eq(after, want, sizeof(want));
    rig_close();
}
END_TEST

START_TEST(a_repeat_needs_no_memory)
{
    start(1);
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
    (void)rig_request(4);
    rig_add_pull(0, 15);
    struct fake_call *reader = rig_deliver(PS_DATA_PULL);
    rig_pump();
    rig.mem.limit[PS_MEM_PAGES] = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
    ck_assert_int_eq(rig_push(1, 100, 1), PS_ERR_BUSY);
    rig.mem.limit[PS_MEM_PAGES] = 0;
    ck_assert_int_eq(rig_push(1, 100, 1), PS_OK);
    fake_call_settle(reader);
    rig_close();
}
END_TEST

/* Refuse the k-th allocation, for every k: either BUSY and nothing taken, or applied. */
START_TEST(any_refused_allocation_leaves_a_push_to_be_repeated)
{
    bool whole = false;
    for (int64_t k = 0; !whole; k++) {
        ck_assert_int_lt(k, 40);
        start(1);
        (void)rig_request(4);
        rig_add_pull(0, 15);
        struct fake_call *reader = rig_deliver(PS_DATA_PULL);
        rig_pump();
        (void)rig_request(1);
        rig_add_push(100, 0, 15);
        rig.mem.fail_after = k;
        struct fake_call *call = rig_deliver(PS_DATA_PUSH);
        rig_pump();
        rig.mem.fail_after = -1;
        whole = fake_call_status(call) == PS_OK;
        for (uint32_t i = 0; whole && i < RIG_SLOTS; i++) {
            enum ps_status status = fake_call_reply(call)->push[i].status;
            ck_assert(status == PS_OK || status == PS_ERR_BUSY);
            whole = status == PS_OK;
        }
        fake_call_settle(call);
        ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
        apply_by_hand(0.5f);
        rig_read(after);
        ck_assert_msg(memcmp(after, want, sizeof(want)) == 0, "allocation %" PRId64, k);
        fake_call_settle(reader);
        rig_close();
    }
}
END_TEST

START_TEST(a_server_that_cannot_make_its_blocks_refuses_instead_of_crashing)
{
    rig_open(1);
    struct ps_lane_update *news = rig_news();
    news->has_placement = true;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        news->primary[s] = false;
        news->epoch[s] = RIG_EPOCH;
    }
    ck_assert_int_eq(rig_send(), PS_OK);
    (void)rig_request(1);
    rig_add_push(100, 0, 15);
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    ck_assert_int_eq(fake_call_reply(call)->push[0].status, PS_ERR_NOT_PRIMARY);
    fake_call_settle(call);
    rig_close();
}
END_TEST

Suite *suite_data_push(void)
{
    Suite *suite = suite_create("data_push");
    TCase *tcase = tcase_create("push");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_push_is_applied_once_and_its_repeats_are_acknowledged);
    tcase_add_test(tcase, streams_and_sessions_count_apart);
    tcase_add_test(tcase, a_call_can_be_partly_done);
    tcase_add_test(tcase, a_closed_session_is_fenced_in_every_slot);
    tcase_add_test(tcase, gradients_give_the_same_bits_at_any_address_and_cut);
    tcase_add_test(tcase, gradients_give_the_same_bits_in_random_slices);
    tcase_add_test(tcase, the_last_lane_sends_the_one_reply);
    tcase_add_test(tcase, a_call_of_one_slot_asks_one_lane);
    tcase_add_test(tcase, copies_that_race_are_applied_once_in_each_slot);
    tcase_add_test(tcase, fragments_are_taken_each_once_and_must_agree);
    tcase_add_loop_test(tcase, a_fragment_that_is_not_of_the_cut_is_refused, 0, PS_ARRAY_LEN(cuts));
    tcase_add_test(tcase, without_pages_a_push_is_busy_and_takes_nothing);
    tcase_add_test(tcase, a_repeat_needs_no_memory);
    tcase_add_test(tcase, any_refused_allocation_leaves_a_push_to_be_repeated);
    tcase_add_test(tcase, a_server_that_cannot_make_its_blocks_refuses_instead_of_crashing);
    suite_add_tcase(suite, tcase);
    return suite;
}
