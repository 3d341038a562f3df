/*
 * test_scan_msg.c — Scan and its reply against protobuf-c, both ways, over messages by chance in
 * slices by chance; and messages that lie.
 */
#include <string.h>

#include "cut.h"
#include "lib/test_main.h"
#include "parameter_server.pb-c.h"
#include "suites.h"
#include "wire/scan_msg.h"

#define PAYLOAD_MAX 300u
#define BYTES_MAX   (PAYLOAD_MAX + 2 * PS_SCAN_HEAD_BYTES_MAX)

static uint8_t bytes[BYTES_MAX];
static uint8_t others[BYTES_MAX];
static uint8_t payload[PAYLOAD_MAX];
static struct cut cut;

/* Numbers of every width: 0 and varints of 1 to 10 bytes are equally likely. */
static uint64_t number(struct ps_rng *rng)
{
    uint64_t n_bits = ps_rng_below(rng, 65);
    return n_bits == 0 ? 0 : ps_rng_next(rng) >> (64 - n_bits);
}

static struct ps_scan_request chance_request(struct ps_rng *rng)
{
    struct ps_scan_request request = {.session_number = number(rng),
                                      .table = (uint32_t)number(rng),
                                      .slot = (uint32_t)number(rng),
                                      .epoch = number(rng),
                                      .cursor = number(rng),
                                      .max_bytes = (uint32_t)number(rng),
                                      .skip_zeros = ps_rng_below(rng, 2) == 0,
                                      .generation = number(rng),
                                      .seen_epoch = number(rng),
                                      .seen_position = number(rng)};
    for (size_t i = 0; i < sizeof(request.session.bytes); i++) {
        request.session.bytes[i] = (uint8_t)ps_rng_next(rng);
    }
    return request;
}

static struct ps_scan_reply chance_reply(struct ps_rng *rng)
{
    struct ps_scan_reply reply = {.status = (enum ps_status)ps_rng_below(rng, 20),
                                  .term = number(rng),
                                  .min_clock = number(rng),
                                  .retry_ms = (uint32_t)number(rng),
                                  .epoch = number(rng),
                                  .position = number(rng),
                                  .cursor = number(rng),
                                  .done = ps_rng_below(rng, 2) == 0,
                                  .n_keys = (uint32_t)number(rng),
                                  .n_payload_bytes = ps_rng_below(rng, PAYLOAD_MAX + 1)};
    reply.n_key_bytes = (uint32_t)ps_rng_below(rng, reply.n_payload_bytes + 1);
    return reply;
}

static size_t pack_request(const struct ps_scan_request *request)
{
    struct ps_id id = request->session;
    Ps__V1__ScanRequest twin = PS__V1__SCAN_REQUEST__INIT;
    twin.session = (ProtobufCBinaryData){.data = id.bytes, .len = sizeof(id.bytes)};
    twin.session_number = request->session_number;
    twin.table = request->table;
    twin.slot = request->slot;
    twin.epoch = request->epoch;
    twin.cursor = request->cursor;
    twin.max_bytes = request->max_bytes;
    twin.skip_zeros = request->skip_zeros;
    twin.generation = request->generation;
    twin.seen_epoch = request->seen_epoch;
    twin.seen_position = request->seen_position;
    return ps__v1__scan_request__pack(&twin, others);
}

static size_t pack_reply(const struct ps_scan_reply *reply)
{
    Ps__V1__ScanReply twin = PS__V1__SCAN_REPLY__INIT;
    twin.status = (Ps__V1__Status)reply->status;
    twin.term = reply->term;
    twin.min_clock = reply->min_clock;
    twin.retry_ms = reply->retry_ms;
    twin.epoch = reply->epoch;
    twin.position = reply->position;
    twin.cursor = reply->cursor;
    twin.done = reply->done;
    twin.keys = reply->n_keys;
    twin.key_bytes = reply->n_key_bytes;
    twin.payload = (ProtobufCBinaryData){.data = payload, .len = (size_t)reply->n_payload_bytes};
    return ps__v1__scan_reply__pack(&twin, others);
}

static size_t write_reply(const struct ps_scan_reply *reply)
{
    size_t n = ps_scan_reply_write(reply, bytes, PS_SCAN_HEAD_BYTES_MAX);
    memcpy(bytes + n, payload, (size_t)reply->n_payload_bytes);
    return n + (size_t)reply->n_payload_bytes;
}

static void same_request(const struct ps_scan_request *a, const struct ps_scan_request *b)
{
    ck_assert_mem_eq(a->session.bytes, b->session.bytes, sizeof(a->session.bytes));
    ck_assert(a->session_number == b->session_number && a->table == b->table);
    ck_assert(a->slot == b->slot && a->epoch == b->epoch && a->cursor == b->cursor);
    ck_assert(a->max_bytes == b->max_bytes && a->skip_zeros == b->skip_zeros);
    ck_assert(a->generation == b->generation && a->seen_epoch == b->seen_epoch);
    ck_assert(a->seen_position == b->seen_position);
}

static void same_reply(const struct ps_scan_reply *a, const struct ps_scan_reply *b)
{
    ck_assert(a->status == b->status && a->term == b->term && a->min_clock == b->min_clock);
    ck_assert(a->retry_ms == b->retry_ms && a->epoch == b->epoch && a->position == b->position);
    ck_assert(a->cursor == b->cursor && a->done == b->done && a->n_keys == b->n_keys);
    ck_assert(a->n_key_bytes == b->n_key_bytes && a->n_payload_bytes == b->n_payload_bytes);
}

START_TEST(scans_are_written_as_protobuf_c_writes_them_and_read_back_at_any_cut)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int i = 0; i < 2000; i++) {
        struct ps_scan_request request = chance_request(&rng);
        struct ps_scan_request got;
        size_t n = ps_scan_request_write(&request, bytes, PS_SCAN_HEAD_BYTES_MAX);
        ck_assert_uint_eq(n, pack_request(&request));
        ck_assert_mem_eq(bytes, others, n);
        ck_assert_int_eq(ps_scan_request_read(cut_by_chance(&cut, bytes, n, &rng), &got, NULL),
                         PS_OK);
        same_request(&request, &got);
    }
}
END_TEST

START_TEST(their_replies_too)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (size_t i = 0; i < sizeof(payload); i++) {
        payload[i] = (uint8_t)(i * 7);
    }
    for (int i = 0; i < 2000; i++) {
        struct ps_scan_reply reply = chance_reply(&rng);
        struct ps_scan_reply got;
        uint8_t copy[PAYLOAD_MAX];
        size_t n = write_reply(&reply);
        ck_assert_uint_eq(n, pack_reply(&reply));
        ck_assert_mem_eq(bytes, others, n);
        ck_assert_int_eq(ps_scan_reply_read(cut_by_chance(&cut, bytes, n, &rng), &got, NULL),
                         PS_OK);
        same_reply(&reply, &got);
        ps_cursor_copy(&got.payload, copy, (size_t)got.n_payload_bytes);
        ck_assert_mem_eq(copy, payload, (size_t)got.n_payload_bytes);
    }
}
END_TEST

START_TEST(the_greatest_heads_fit_and_one_byte_less_does_not)
{
    struct ps_scan_request request = {.session_number = UINT64_MAX,
                                      .table = UINT32_MAX,
                                      .slot = UINT32_MAX,
                                      .epoch = UINT64_MAX,
                                      .cursor = UINT64_MAX,
                                      .max_bytes = UINT32_MAX,
                                      .skip_zeros = true,
                                      .generation = UINT64_MAX,
                                      .seen_epoch = UINT64_MAX,
                                      .seen_position = UINT64_MAX};
    size_t n = ps_scan_request_write(&request, bytes, PS_SCAN_HEAD_BYTES_MAX);
    ck_assert_uint_gt(n, 80);
    ck_assert_uint_eq(ps_scan_request_write(&request, bytes, n - 1), 0);
    struct ps_scan_reply reply = {.status = PS_ERR_INTERNAL,
                                  .term = UINT64_MAX,
                                  .min_clock = UINT64_MAX,
                                  .retry_ms = UINT32_MAX,
                                  .epoch = UINT64_MAX,
                                  .position = UINT64_MAX,
                                  .cursor = UINT64_MAX,
                                  .done = true,
                                  .n_keys = UINT32_MAX,
                                  .n_key_bytes = UINT32_MAX,
                                  .n_payload_bytes = UINT64_MAX};
    n = ps_scan_reply_write(&reply, bytes, PS_SCAN_HEAD_BYTES_MAX);
    ck_assert_uint_gt(n, 80);
    ck_assert_uint_eq(ps_scan_reply_write(&reply, bytes, n - 1), 0);
}
END_TEST

START_TEST(changed_scans_are_refused_or_within_bounds)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    uint32_t n_refused = 0;
    for (int i = 0; i < 40000; i++) {
        struct ps_scan_reply reply = chance_reply(&rng);
        struct ps_scan_request request = chance_request(&rng);
        bool asks = i % 2 == 0;
        size_t n =
            asks ? ps_scan_request_write(&request, bytes, sizeof(bytes)) : write_reply(&reply);
        for (uint64_t k = ps_rng_below(&rng, 4); n > 0 && k > 0; k--) {
            bytes[ps_rng_below(&rng, n)] = (uint8_t)ps_rng_next(&rng);
        }
        n = (size_t)ps_rng_below(&rng, n + 1);
        struct ps_cursor c = cut_by_chance(&cut, bytes, n, &rng);
        enum ps_status status =
            asks ? ps_scan_request_read(c, &request, NULL) : ps_scan_reply_read(c, &reply, NULL);
        ck_assert(status == PS_OK || status == PS_ERR_INVALID);
        n_refused += status != PS_OK ? 1 : 0;
        if (!asks && status == PS_OK) {
            ck_assert_uint_eq(reply.payload.n_left, reply.n_payload_bytes);
            ck_assert_uint_le(reply.n_key_bytes, reply.n_payload_bytes);
            ps_cursor_skip(&reply.payload, (size_t)reply.n_payload_bytes);
            ck_assert(!reply.payload.failed);
        }
    }
    ck_assert_uint_gt(n_refused, 5000);
}
END_TEST

/* clang-format off */
static const struct {
    bool reply;
    size_t n_bytes;
    uint8_t bytes[12];
} lies[] = {
    {false, 17, {0x0a, 15}},                                 /* a session of 15 bytes */
    {false, 2, {0x08, 1}},                                   /* a session that is a number */
    {false, 6, {0x18, 0x80, 0x80, 0x80, 0x80, 0x10}},        /* a table beyond 32 bits */
    {false, 6, {0x20, 0x80, 0x80, 0x80, 0x80, 0x10}},        /* a slot beyond 32 bits */
    {false, 3, {0x32, 1, 0}},                                /* a cursor of bytes */
    {false, 3, {0x42, 1, 0}},                                /* skip_zeros of bytes */
    {true, 3, {0x0a, 1, 0}},                                 /* a status of bytes */
    {true, 2, {0x78, 1}},                                    /* a payload that is a number */
    {true, 2, {0x50, 1}},                                    /* keys without a payload */
    {true, 5, {0x50, 2, 0x7a, 1, 0}},                        /* more bytes of keys than there are */
    {true, 3, {0x7a, 2, 0}},                                 /* a payload past the end */
    {true, 6, {0x48, 0x80, 0x80, 0x80, 0x80, 0x10}},         /* keys beyond 32 bits */
};
/* clang-format on */

START_TEST(every_lie_of_a_scan_is_refused)
{
    struct ps_slice slice = {.data = lies[_i].bytes, .n_bytes = lies[_i].n_bytes};
    uint8_t long_one[20] = {0};
    struct ps_error err = {0};
    struct ps_scan_request request;
    struct ps_scan_reply reply;
    if (slice.n_bytes > sizeof(lies[_i].bytes)) {
        memcpy(long_one, lies[_i].bytes, sizeof(lies[_i].bytes));
        slice.data = long_one;
    }
    struct ps_cursor c = ps_cursor_over(&slice, 1);
    enum ps_status status = lies[_i].reply ? ps_scan_reply_read(c, &reply, &err)
                                           : ps_scan_request_read(c, &request, &err);
    ck_assert_int_eq(status, PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "malformed"));
}
END_TEST

Suite *suite_scan_msg(void)
{
    Suite *suite = suite_create("scan_msg");
    TCase *tcase = tcase_create("scan_msg");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, scans_are_written_as_protobuf_c_writes_them_and_read_back_at_any_cut);
    tcase_add_test(tcase, their_replies_too);
    tcase_add_test(tcase, the_greatest_heads_fit_and_one_byte_less_does_not);
    tcase_add_test(tcase, changed_scans_are_refused_or_within_bounds);
    tcase_add_loop_test(tcase, every_lie_of_a_scan_is_refused, 0, PS_ARRAY_LEN(lies));
    suite_add_tcase(suite, tcase);
    return suite;
}
