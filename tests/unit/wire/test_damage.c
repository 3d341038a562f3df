/*
 * test_damage.c — data messages that lie: cut short at every byte, changed by chance, and a table
 * of lies that must be refused. A reader may accept a changed message, but what it returns must
 * then be within the bounds that svc and client rely on, and nothing may crash (the sanitizers
 * watch).
 */
#include <inttypes.h>
#include <string.h>

#include "chance.h"
#include "cut.h"
#include "lib/test_main.h"
#include "suites.h"
#include "wire/pb.h"

static struct ps_data_request request;
static struct ps_data_request read_back;
static struct ps_data_reply reply;
static struct ps_data_reply reply_back;
static uint8_t bytes[CHANCE_BYTES_MAX];
static uint8_t exact[CHANCE_BYTES_MAX];
static struct cut cut;

static void check_share(const struct ps_share *share)
{
    ck_assert_uint_le(share->n_slots, PS_CALL_SLOTS_MAX);
    ck_assert_uint_le(share->n_parts, PS_CALL_PARTS_MAX);
    uint32_t n_parts = 0;
    for (uint32_t i = 0; i < share->n_slots; i++) {
        ck_assert_uint_eq(share->slots[i].first_part, n_parts);
        n_parts += share->slots[i].n_parts;
    }
    ck_assert_uint_eq(n_parts, share->n_parts);
}

/* What an accepted request promises. */
static void check_request(const struct ps_data_request *got)
{
    check_share(&got->push);
    check_share(&got->pull);
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < got->push.n_parts; i++) {
        n_bytes += ps_part_payload(&got->push.parts[i], true);
    }
    for (uint32_t i = 0; i < got->pull.n_parts; i++) {
        n_bytes += ps_part_payload(&got->pull.parts[i], false);
    }
    ck_assert_uint_eq(n_bytes, got->n_payload_bytes);
    ck_assert_uint_eq(n_bytes, got->payload.n_left);
    struct ps_cursor payload = got->payload;
    ps_cursor_skip(&payload, n_bytes);
    ck_assert(!payload.failed);
}

static void check_reply(const struct ps_data_reply *got)
{
    ck_assert_uint_le(got->n_push, PS_CALL_SLOTS_MAX);
    ck_assert_uint_le(got->n_pull, PS_CALL_SLOTS_MAX);
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < got->n_pull; i++) {
        ck_assert_uint_lt(got->pull[i].slot, PS_SLOTS);
        n_bytes += got->pull[i].n_bytes;
    }
    ck_assert_uint_eq(n_bytes, got->payload.n_left);
}

/* The two readers over a copy whose end the sanitizer knows. */
static enum ps_status read_request(const uint8_t *data, size_t n_bytes, struct ps_rng *rng)
{
    enum ps_status status =
        ps_data_request_read(cut_by_chance(&cut, data, n_bytes, rng), &read_back, NULL);
    if (status == PS_OK) {
        check_request(&read_back);
    } else {
        ck_assert_int_eq(status, PS_ERR_INVALID);
    }
    return status;
}

static enum ps_status read_reply(const uint8_t *data, size_t n_bytes, struct ps_rng *rng)
{
    enum ps_status status =
        ps_data_reply_read(cut_by_chance(&cut, data, n_bytes, rng), &reply_back, NULL);
    if (status == PS_OK) {
        check_reply(&reply_back);
    } else {
        ck_assert_int_eq(status, PS_ERR_INVALID);
    }
    return status;
}

/* True at the borders between top-level fields, where a prefix is a message of its own. */
static bool between_fields(size_t n_bytes, size_t at)
{
    struct ps_slice slice = {.data = bytes, .n_bytes = n_bytes};
    struct ps_cursor c = ps_cursor_over(&slice, 1);
    struct ps_pb_field f;
    do {
        if (n_bytes - c.n_left == at) {
            return true;
        }
    } while (ps_pb_next(&c, &f));
    return false;
}

START_TEST(a_message_cut_short_within_a_field_is_refused)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int i = 0; i < 10; i++) {
        chance_request(&rng, &request);
        size_t n = chance_pack_request(&request, bytes);
        for (size_t at = 0; at < n; at++) {
            enum ps_status status = read_request(bytes, at, &rng);
            ck_assert_msg(status != PS_OK || between_fields(n, at), "cut at %zu of %zu", at, n);
        }
        chance_reply(&rng, &reply);
        n = chance_pack_reply(&reply, bytes);
        for (size_t at = 0; at < n; at++) {
            enum ps_status status = read_reply(bytes, at, &rng);
            ck_assert_msg(status != PS_OK || between_fields(n, at), "cut at %zu of %zu", at, n);
        }
    }
}
END_TEST

/* Change some bytes, or swap, double and drop stretches. */
static size_t mutate(struct ps_rng *rng, size_t n)
{
    memcpy(exact, bytes, n);
    uint64_t n_changes = 1 + ps_rng_below(rng, 4);
    for (uint64_t i = 0; i < n_changes && n > 0; i++) {
        size_t at = (size_t)ps_rng_below(rng, n);
        size_t from = (size_t)ps_rng_below(rng, n);
        size_t n_run = (size_t)ps_rng_below(rng, 16);
        n_run = n_run < n - at ? n_run : n - at;
        n_run = n_run < n - from ? n_run : n - from;
        switch (ps_rng_below(rng, 4)) {
        case 0: exact[at] = (uint8_t)ps_rng_next(rng); break;
        case 1: exact[at] ^= (uint8_t)(1u << ps_rng_below(rng, 8)); break;
        case 2: memmove(exact + at, exact + from, n_run); break;
        default:
            memmove(exact + at, exact + at + n_run, n - at - n_run);
            n -= n_run;
            break;
        }
    }
    return n;
}

START_TEST(changed_messages_are_refused_or_within_bounds)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    uint32_t n_refused = 0;
    for (int i = 0; i < 20000; i++) {
        chance_request(&rng, &request);
        request.n_payload_bytes = 0;
        for (uint32_t k = 0; k < request.push.n_parts; k++) {
            request.push.parts[k].n_bytes %= 8; /* Short, so that changes meet the header. */
            request.n_payload_bytes += request.push.parts[k].n_bytes;
        }
        for (uint32_t k = 0; k < request.pull.n_parts; k++) {
            request.pull.parts[k].n_key_bytes %= 8;
            request.n_payload_bytes += request.pull.parts[k].n_key_bytes;
        }
        n_refused +=
            read_request(exact, mutate(&rng, chance_pack_request(&request, bytes)), &rng) != PS_OK;
        chance_reply(&rng, &reply);
        (void)read_reply(exact, mutate(&rng, chance_pack_reply(&reply, bytes)), &rng);
    }
    ck_assert_uint_gt(n_refused, 1000); /* The changes do change something. */
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    size_t n_bytes;
    uint8_t bytes[24];
} lies[] = {
    {"a session of 15 bytes", 17, {0x0a, 15}},
    {"a session of 17 bytes", 19, {0x0a, 17}},
    {"a session that is a number", 2, {0x08, 1}},
    {"field number 0", 2, {0x00, 1}},
    {"field number 2^29", 6, {0x80, 0x80, 0x80, 0x80, 0x10, 1}},
    {"a group", 2, {0x13, 0x14}},
    {"wire type 6", 2, {0x16, 0}},
    {"wire type 7", 2, {0x17, 0}},
    {"a varint of 11 bytes", 12, {0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
    {"a varint without end", 3, {0x10, 0xff, 0xff}},
    {"rows beyond 32 bits", 7, {0x38, 0x80, 0x80, 0x80, 0x80, 0x10, 0}},
    {"a rate that is a varint", 2, {0x40, 1}},
    {"a step that is fixed64", 9, {0x31, 1}},
    {"slots that are a number", 2, {0x58, 1}},
    {"pull_slots that are a number", 2, {0x70, 1}},
    {"a payload that is a number", 2, {0x78, 1}},
    {"a payload nobody asked for", 3, {0x7a, 1, 0}},
    {"a payload longer than the message", 2, {0x7a, 1}},
    {"a payload of 2^64 - 1 bytes", 11, {0x7a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
    {"keys that a pull does not bring", 6, {0x72, 4, 0x2a, 2, 0x38, 4}},
    {"a part whose payload is missing", 6, {0x5a, 4, 0x3a, 2, 0x28, 4}},
    {"a part that runs out of its slot", 4, {0x5a, 2, 0x3a, 2}},
    {"a slot number beyond 32 bits", 9, {0x5a, 7, 0x08, 0x80, 0x80, 0x80, 0x80, 0x10, 0}},
    {"a table number beyond 32 bits", 11, {0x5a, 9, 0x3a, 7, 0x08, 0x80, 0x80, 0x80, 0x80, 0x10, 0}},
    {"an epoch that is bytes", 4, {0x5a, 2, 0x12, 0}},
};
/* clang-format on */

START_TEST(every_lie_is_refused)
{
    struct ps_error err = {0};
    struct ps_slice slice = {.data = lies[_i].bytes, .n_bytes = lies[_i].n_bytes};
    enum ps_status status = ps_data_request_read(ps_cursor_over(&slice, 1), &read_back, &err);
    ck_assert_msg(status == PS_ERR_INVALID, "%s: accepted", lies[_i].name);
    ck_assert_msg(strstr(err.text, "malformed") != NULL, "%s: %s", lies[_i].name, err.text);
}
END_TEST

/* The last length that fits is accepted, one more is not. */
START_TEST(slots_and_parts_are_counted)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    static const uint8_t slot[] = {0x5a, 2, 0x08, 1};
    static const uint8_t pull_slot[] = {0x72, 2, 0x08, 1};
    for (uint32_t n = PS_CALL_SLOTS_MAX; n <= PS_CALL_SLOTS_MAX + 1; n++) {
        enum ps_status want = n <= PS_CALL_SLOTS_MAX ? PS_OK : PS_ERR_INVALID;
        for (uint32_t i = 0; i < n; i++) {
            memcpy(bytes + i * sizeof(slot), slot, sizeof(slot));
            memcpy(exact + i * sizeof(slot), pull_slot, sizeof(pull_slot));
        }
        ck_assert_int_eq(read_request(bytes, n * sizeof(slot), &rng), want);
        ck_assert_int_eq(read_request(exact, n * sizeof(slot), &rng), want);
    }
    static const uint8_t part[] = {0x5a, 4, 0x3a, 2, 0x08, 1}; /* A slot of one part. */
    static const uint8_t in_one[] = {0x3a, 0};                 /* An empty part. */
    for (uint32_t n = PS_CALL_PARTS_MAX; n <= PS_CALL_PARTS_MAX + 1; n++) {
        enum ps_status want = n <= PS_CALL_PARTS_MAX ? PS_OK : PS_ERR_INVALID;
        struct ps_pb_writer w = {.to = bytes, .n_room = sizeof(bytes)};
        ps_pb_put_header(&w, 11, (n - 1) * sizeof(in_one));
        for (uint32_t i = 0; i + 1 < n; i++) {
            memcpy(bytes + w.n_used, in_one, sizeof(in_one));
            w.n_used += sizeof(in_one);
        }
        memcpy(bytes + w.n_used, part, sizeof(part)); /* The last one is in another slot. */
        ck_assert_int_eq(read_request(bytes, w.n_used + sizeof(part), &rng), want);
    }
}
END_TEST

START_TEST(replies_do_not_lie_about_slots)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    static const uint8_t beyond[] = {0x0a, 2, 0x08, 64};
    static const uint8_t missing[] = {0x2a, 2, 0x28, 4};
    static const uint8_t unknown[] = {0x0a, 3, 0x10, 0xe7, 0x07};
    ck_assert_int_eq(read_reply(beyond, sizeof(beyond), &rng), PS_ERR_INVALID);
    ck_assert_int_eq(read_reply(missing, sizeof(missing), &rng), PS_ERR_INVALID);
    ck_assert_int_eq(read_reply(unknown, sizeof(unknown), &rng), PS_OK);
    ck_assert_int_eq(reply_back.push[0].status, PS_ERR_INTERNAL); /* Of a newer server. */
    static const uint8_t slot[] = {0x0a, 0};
    for (uint32_t n = PS_CALL_SLOTS_MAX; n <= PS_CALL_SLOTS_MAX + 1; n++) {
        for (uint32_t i = 0; i < n; i++) {
            memcpy(bytes + i * sizeof(slot), slot, sizeof(slot));
        }
        ck_assert_int_eq(read_reply(bytes, n * sizeof(slot), &rng),
                         n <= PS_CALL_SLOTS_MAX ? PS_OK : PS_ERR_INVALID);
    }
}
END_TEST

START_TEST(the_last_payload_and_the_last_number_count)
{
    static const uint8_t twice[] = {0x7a, 2,    1, 2,    0x30, 4,    0x5a, 4, 0x3a,
                                    2,    0x28, 1, 0x30, 5,    0x7a, 1,    9};
    struct ps_slice slice = {.data = twice, .n_bytes = sizeof(twice)};
    ck_assert_int_eq(ps_data_request_read(ps_cursor_over(&slice, 1), &read_back, NULL), PS_OK);
    uint8_t value = 0;
    ps_cursor_copy(&read_back.payload, &value, 1);
    ck_assert_uint_eq(value, 9);
    ck_assert_uint_eq(read_back.step, 5);
}
END_TEST

Suite *suite_damage(void)
{
    Suite *suite = suite_create("damage");
    TCase *tcase = tcase_create("damage");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_message_cut_short_within_a_field_is_refused);
    tcase_add_test(tcase, changed_messages_are_refused_or_within_bounds);
    tcase_add_loop_test(tcase, every_lie_is_refused, 0, PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, slots_and_parts_are_counted);
    tcase_add_test(tcase, replies_do_not_lie_about_slots);
    tcase_add_test(tcase, the_last_payload_and_the_last_number_count);
    suite_add_tcase(suite, tcase);
    return suite;
}
