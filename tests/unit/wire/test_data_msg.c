/*
 * test_data_msg.c — the hot messages against golden bytes and against protobuf-c, both ways, over
 * messages by chance in slices by chance.
 */
#include <inttypes.h>
#include <string.h>

#include "chance.h"
#include "cut.h"
#include "lib/test_main.h"
#include "suites.h"
#include "wire/pb.h"

static struct ps_data_request request;
static struct ps_data_request request_read;
static struct ps_data_reply reply;
static struct ps_data_reply reply_read;
static uint8_t bytes[CHANCE_BYTES_MAX];
static uint8_t others[CHANCE_BYTES_MAX];
static struct cut cut;

/* A Push of one slot, one part of 8 bytes, as any protobuf library would write it. */
START_TEST(a_push_has_these_bytes)
{
    static const uint8_t golden[] = {
        0x0a, 16,   0,    1,    2,    3,  4,    5,  6,    7,
        8,    9,    10,   11,   12,   13, 14,   15,          /* session */
        0x10, 5,                                             /* session_number */
        0x18, 0xac, 0x02,                                    /* stream 300 */
        0x20, 7,                                             /* sequence */
        0x28, 6,                                             /* acked_below */
        0x30, 9,                                             /* step */
        0x38, 32,                                            /* rows */
        0x45, 0x00, 0x00, 0x00, 0x3f,                        /* rate 0.5 */
        0x48, 1,                                             /* generation */
        0x50, 8,                                             /* read_clock */
        0x5a, 20,                                            /* slots */
        0x08, 63,   0x10, 2,    0x20, 1,  0x28, 2,  0x30, 4, /*   slot ... position */
        0x3a, 8,    0x08, 3,    0x10, 63, 0x18, 1,  0x28, 8, /*   part */
        0x7a, 8,                                             /* payload follows */
    };
    memset(&request, 0, sizeof(request));
    for (uint8_t i = 0; i < 16; i++) {
        request.session.bytes[i] = i;
    }
    request.session_number = 5;
    request.stream = 300;
    request.sequence = 7;
    request.acked_below = 6;
    request.step = 9;
    request.rows = 32;
    request.rate = 0.5f;
    request.generation = 1;
    request.read_clock = 8;
    request.n_payload_bytes = 8;
    request.push.n_slots = 1;
    request.push.n_parts = 1;
    request.push.slots[0] = (struct ps_slot_part){.slot = 63,
                                                  .n_fragments = 1,
                                                  .n_parts = 1,
                                                  .epoch = 2,
                                                  .seen_epoch = 2,
                                                  .seen_position = 4};
    request.push.parts[0] = (struct ps_part){.table = 3, .block = 63, .dtype = 1, .n_bytes = 8};
    size_t n = ps_data_request_write(&request, bytes, sizeof(bytes));
    ck_assert_uint_eq(n, sizeof(golden));
    ck_assert_mem_eq(bytes, golden, n);
}
END_TEST

START_TEST(a_pull_reply_has_these_bytes)
{
    static const uint8_t golden[] = {
        0x10, 1,                                                /* term */
        0x18, 4,                                                /* min_clock */
        0x20, 20,                                               /* retry_ms */
        0x2a, 9,  0x08, 2, 0x18, 3,  0x20, 0x80, 0x01, 0x28, 4, /* slot 2, epoch, position 128 */
        0x2a, 4,  0x08, 3, 0x10, 12,                            /* slot 3: NOT_YET */
        0x7a, 4,                                                /* payload follows */
    };
    memset(&reply, 0, sizeof(reply));
    reply.term = 1;
    reply.min_clock = 4;
    reply.retry_ms = 20;
    reply.n_pull = 2;
    reply.pull[0] = (struct ps_slot_reply){.slot = 2, .epoch = 3, .position = 128, .n_bytes = 4};
    reply.pull[1] = (struct ps_slot_reply){.slot = 3, .status = PS_ERR_NOT_YET};
    reply.n_payload_bytes = 4;
    size_t n = ps_data_reply_write(&reply, PS_DATA_PULL, bytes, sizeof(bytes));
    ck_assert_uint_eq(n, sizeof(golden));
    ck_assert_mem_eq(bytes, golden, n);
}
END_TEST

START_TEST(requests_are_written_as_protobuf_c_writes_them)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int i = 0; i < 500; i++) {
        chance_request(&rng, &request);
        size_t n = ps_data_request_write(&request, bytes, sizeof(bytes));
        ck_assert_uint_gt(n, 0);
        memcpy(bytes + n, chance_payload(), request.n_payload_bytes);
        n += request.n_payload_bytes;
        size_t n_others = chance_pack_request(&request, others);
        ck_assert_uint_eq(n, n_others);
        ck_assert_mem_eq(bytes, others, n);
    }
}
END_TEST

START_TEST(replies_are_written_as_protobuf_c_writes_them)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int i = 0; i < 500; i++) {
        chance_reply(&rng, &reply);
        size_t n = ps_data_reply_write(&reply, PS_DATA_PUSH_PULL, bytes, sizeof(bytes));
        memcpy(bytes + n, chance_payload(), reply.n_payload_bytes);
        n += reply.n_payload_bytes;
        if (n == 0) {
            continue; /* Nothing but zeros: an empty message. */
        }
        ck_assert_uint_eq(n, chance_pack_reply(&reply, others));
        ck_assert_mem_eq(bytes, others, n);
    }
}
END_TEST

/* One field of a message, as bytes. */
struct chunk {
    const uint8_t *data;
    size_t n_bytes;
    uint32_t number;
};

#define CHUNKS_MAX 64u

static uint32_t chunks_of(const uint8_t *data, size_t n_bytes, struct chunk *ret)
{
    struct ps_slice slice = {.data = data, .n_bytes = n_bytes};
    struct ps_cursor c = ps_cursor_over(&slice, 1);
    struct ps_pb_field f;
    uint32_t n = 0;
    for (size_t before = c.n_left; ps_pb_next(&c, &f); before = c.n_left) {
        ck_assert_uint_lt(n, CHUNKS_MAX);
        ret[n++] = (struct chunk){
            .data = data + (n_bytes - before), .n_bytes = before - c.n_left, .number = f.number};
    }
    ck_assert(!c.failed);
    return n;
}

/* Fields that no version of the messages has, of every wire type. */
static struct chunk stranger(struct ps_rng *rng)
{
    static const uint8_t texts[][12] = {
        {0x98, 0x06, 0x96, 0x01},             /* 99: varint */
        {0x9d, 0x06, 1, 2, 3, 4},             /* 99: fixed32 */
        {0x99, 0x06, 1, 2, 3, 4, 5, 6, 7, 8}, /* 99: fixed64 */
        {0x9a, 0x06, 3, 0xff, 0xff, 0xff},    /* 99: bytes */
        {0xf8, 0xff, 0xff, 0xff, 0x0f, 0x00}, /* 2^29 - 1, the last number */
    };
    static const size_t n_bytes[] = {4, 6, 10, 6, 6};
    uint64_t at = ps_rng_below(rng, PS_ARRAY_LEN(n_bytes));
    return (struct chunk){.data = texts[at], .n_bytes = n_bytes[at], .number = 99};
}

/* Write the fields in another order (equal numbers keep theirs), strangers in between. */
static size_t scramble(struct ps_rng *rng, const uint8_t *data, size_t n_bytes, uint8_t *to)
{
    struct chunk chunks[CHUNKS_MAX];
    uint32_t n = chunks_of(data, n_bytes, chunks);
    uint32_t order[CHUNKS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = ps_rng_below(rng, i + 1u);
        order[i] = order[at];
        order[at] = chunks[i].number;
    }
    bool used[CHUNKS_MAX] = {false};
    size_t n_written = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (used[k] || chunks[k].number != order[i]) {
            k++;
        }
        used[k] = true;
        struct chunk odd = stranger(rng);
        if (ps_rng_below(rng, 3) == 0) {
            memcpy(to + n_written, odd.data, odd.n_bytes);
            n_written += odd.n_bytes;
        }
        memcpy(to + n_written, chunks[k].data, chunks[k].n_bytes);
        n_written += chunks[k].n_bytes;
    }
    return n_written;
}

START_TEST(requests_of_protobuf_c_are_read_in_any_order_and_any_slices)
{
    uint64_t seed = test_seed();
    struct ps_rng rng = ps_rng_from(seed);
    for (int i = 0; i < 1000; i++) {
        chance_request(&rng, &request);
        size_t n = scramble(&rng, others, chance_pack_request(&request, others), bytes);
        struct ps_error err = {0};
        enum ps_status status =
            ps_data_request_read(cut_by_chance(&cut, bytes, n, &rng), &request_read, &err);
        ck_assert_msg(status == PS_OK, "seed %" PRIu64 ", message %d: %s", seed, i, err.text);
        chance_same_request(&request, &request_read);
    }
}
END_TEST

START_TEST(replies_of_protobuf_c_are_read_in_any_order_and_any_slices)
{
    uint64_t seed = test_seed();
    struct ps_rng rng = ps_rng_from(seed);
    for (int i = 0; i < 1000; i++) {
        chance_reply(&rng, &reply);
        size_t n = scramble(&rng, others, chance_pack_reply(&reply, others), bytes);
        struct ps_error err = {0};
        enum ps_status status =
            ps_data_reply_read(cut_by_chance(&cut, bytes, n, &rng), &reply_read, &err);
        ck_assert_msg(status == PS_OK, "seed %" PRIu64 ", message %d: %s", seed, i, err.text);
        chance_same_reply(&reply, &reply_read);
    }
}
END_TEST

START_TEST(a_push_reply_is_the_head_of_a_pull_reply)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    chance_reply(&rng, &reply);
    size_t n = ps_data_reply_write(&reply, PS_DATA_PUSH, bytes, sizeof(bytes));
    ck_assert_int_eq(ps_data_reply_read(cut_by_chance(&cut, bytes, n, &rng), &reply_read, NULL),
                     PS_OK);
    reply.n_pull = 0;
    reply.n_payload_bytes = 0;
    chance_same_reply(&reply, &reply_read);
}
END_TEST

START_TEST(a_pull_says_no_clock)
{
    Ps__V1__PullRequest twin = PS__V1__PULL_REQUEST__INIT;
    uint8_t session[16] = {1};
    twin.session.data = session;
    twin.session.len = sizeof(session);
    twin.no_clock = true;
    size_t n_others = ps__v1__pull_request__pack(&twin, others);
    memset(&request, 0, sizeof(request));
    request.session.bytes[0] = 1;
    request.no_clock = true;
    ck_assert_uint_eq(ps_data_request_write(&request, bytes, sizeof(bytes)), n_others);
    ck_assert_mem_eq(bytes, others, n_others);
    struct ps_slice slice = {.data = others, .n_bytes = n_others};
    ck_assert_int_eq(ps_data_request_read(ps_cursor_over(&slice, 1), &request_read, NULL), PS_OK);
    ck_assert(request_read.no_clock);
}
END_TEST

START_TEST(a_struct_that_was_used_before_forgets_everything)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    chance_request(&rng, &request);
    request.no_clock = true;
    memset(&request_read, 0xff, sizeof(request_read));
    struct ps_slice nothing = {.data = bytes, .n_bytes = 0};
    ck_assert_int_eq(ps_data_request_read(ps_cursor_over(&nothing, 1), &request_read, NULL), PS_OK);
    memset(&request, 0, sizeof(request));
    chance_same_request(&request, &request_read);
    memset(&reply_read, 0xff, sizeof(reply_read));
    ck_assert_int_eq(ps_data_reply_read(ps_cursor_over(&nothing, 1), &reply_read, NULL), PS_OK);
    memset(&reply, 0, sizeof(reply));
    chance_same_reply(&reply, &reply_read);
}
END_TEST

/* Every size of buffer: either the whole head or nothing, and no byte behind the room. */
START_TEST(a_head_fits_or_is_not_written)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    chance_request(&rng, &request);
    chance_reply(&rng, &reply);
    size_t n_request = ps_data_request_write(&request, bytes, sizeof(bytes));
    size_t n_reply = ps_data_reply_write(&reply, PS_DATA_PULL, bytes, sizeof(bytes));
    for (size_t n_room = 0; n_room <= n_request; n_room++) {
        memset(others, 0xee, n_request + 1);
        size_t n = ps_data_request_write(&request, others, n_room);
        ck_assert_uint_eq(n, n_room == n_request ? n_request : 0);
        ck_assert_uint_eq(others[n_room], 0xee);
    }
    for (size_t n_room = 0; n_room <= n_reply; n_room++) {
        ck_assert_uint_eq(ps_data_reply_write(&reply, PS_DATA_PULL, others, n_room),
                          n_room == n_reply ? n_reply : 0);
    }
}
END_TEST

/* The longest head there can be must fit what limits.h promises. */
START_TEST(the_greatest_head_fits_its_bound)
{
    memset(&request, 0xff, sizeof(request));
    request.rate = 1.0f;
    request.push.n_slots = PS_CALL_SLOTS_MAX;
    request.push.n_parts = PS_CALL_PARTS_MAX;
    request.pull.n_slots = PS_CALL_SLOTS_MAX;
    request.pull.n_parts = PS_CALL_PARTS_MAX;
    for (uint32_t i = 0; i < PS_CALL_SLOTS_MAX; i++) {
        struct ps_slot_part *slot = &request.push.slots[i];
        slot->n_parts = PS_CALL_PARTS_MAX / PS_CALL_SLOTS_MAX;
        slot->first_part = i * slot->n_parts;
        request.pull.slots[i] = *slot;
    }
    request.no_clock = true;
    static uint8_t head[PS_HEAD_BYTES_MAX];
    size_t n = ps_data_request_write(&request, head, sizeof(head));
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_le(n, PS_HEAD_BYTES_MAX);
}
END_TEST

Suite *suite_data_msg(void)
{
    Suite *suite = suite_create("data_msg");
    TCase *tcase = tcase_create("data_msg");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_push_has_these_bytes);
    tcase_add_test(tcase, a_pull_reply_has_these_bytes);
    tcase_add_test(tcase, requests_are_written_as_protobuf_c_writes_them);
    tcase_add_test(tcase, replies_are_written_as_protobuf_c_writes_them);
    tcase_add_test(tcase, requests_of_protobuf_c_are_read_in_any_order_and_any_slices);
    tcase_add_test(tcase, replies_of_protobuf_c_are_read_in_any_order_and_any_slices);
    tcase_add_test(tcase, a_push_reply_is_the_head_of_a_pull_reply);
    tcase_add_test(tcase, a_pull_says_no_clock);
    tcase_add_test(tcase, a_struct_that_was_used_before_forgets_everything);
    tcase_add_test(tcase, a_head_fits_or_is_not_written);
    tcase_add_test(tcase, the_greatest_head_fits_its_bound);
    suite_add_tcase(suite, tcase);
    return suite;
}
