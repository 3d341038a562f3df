/*
 * test_refusal.c — refusals as programs of others read them. The walk is that of wire/pb.h, the
 * numbers of the fields are those of google/rpc/status.proto and error_details.proto.
 */
#include "unit/rpc/test_refusal.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/rpc_refusal.h"
#include "wire/pb.h"

/* A google.rpc.Status taken apart. */
struct read_status {
    uint64_t code;
    char message[2048];
    char reason[64];
    char domain[64];
    char key[64];
    char value[64];
    bool has_retry;
    uint64_t retry_ns;
};

static void text_of(const struct ps_pb_field *field, char *to, size_t n_room)
{
    struct ps_cursor c = field->bytes;
    size_t n = c.n_left;
    ck_assert_int_eq(field->wire, PS_PB_BYTES);
    ck_assert_uint_lt(n, n_room);
    ps_cursor_copy(&c, to, n);
    ck_assert(!c.failed);
    to[n] = '\0';
}

static void read_error_info(struct ps_cursor c, struct read_status *ret)
{
    struct ps_pb_field field;
    while (ps_pb_next(&c, &field)) {
        struct ps_pb_field part;
        switch (field.number) {
        case 1: text_of(&field, ret->reason, sizeof(ret->reason)); break;
        case 2: text_of(&field, ret->domain, sizeof(ret->domain)); break;
        case 3:
            while (ps_pb_next(&field.bytes, &part)) {
                text_of(&part, part.number == 1 ? ret->key : ret->value, sizeof(ret->key));
            }
            break;
        default: ck_abort_msg("field %u", field.number);
        }
    }
}

static void read_retry_info(struct ps_cursor c, struct read_status *ret)
{
    struct ps_pb_field field;
    struct ps_pb_field part;
    ck_assert(ps_pb_next(&c, &field));
    ck_assert_uint_eq(field.number, 1);
    ret->has_retry = true;
    while (ps_pb_next(&field.bytes, &part)) {
        ret->retry_ns += part.value * (part.number == 1 ? 1000000000u : 1u);
    }
}

static void read_detail(struct ps_cursor c, struct read_status *ret)
{
    char type[64] = "";
    struct ps_pb_field field;
    while (ps_pb_next(&c, &field)) {
        if (field.number == 1) {
            text_of(&field, type, sizeof(type));
        } else if (strcmp(type, "type.googleapis.com/google.rpc.ErrorInfo") == 0) {
            read_error_info(field.bytes, ret);
        } else if (strcmp(type, "type.googleapis.com/google.rpc.RetryInfo") == 0) {
            read_retry_info(field.bytes, ret);
        } else {
            ck_abort_msg("detail of type %s", type);
        }
    }
}

static struct read_status read_back(enum ps_status status, const char *words, uint32_t retry_ms)
{
    uint8_t bytes[PS_RPC_DETAILS_BYTES_MAX];
    size_t n_bytes = ps_rpc_refusal_details(bytes, status, words, retry_ms);
    struct ps_slice slice = {.data = bytes, .n_bytes = n_bytes};
    struct ps_cursor c = ps_cursor_over(&slice, 1);
    struct read_status ret = {0};
    struct ps_pb_field field;
    while (ps_pb_next(&c, &field)) {
        switch (field.number) {
        case 1: ret.code = field.value; break;
        case 2: text_of(&field, ret.message, sizeof(ret.message)); break;
        case 3: read_detail(field.bytes, &ret); break;
        default: ck_abort_msg("field %u", field.number);
        }
    }
    ck_assert(!c.failed);
    return ret;
}

START_TEST(a_refusal_names_its_status_for_programs)
{
    static const struct {
        enum ps_status status;
        const char *reason;
        const char *number;
    } rows[] = {
        {PS_ERR_INVALID, "INVALID", "1"},    {PS_ERR_BUSY, "BUSY", "4"},
        {PS_ERR_NOT_YET, "NOT_YET", "12"},   {PS_ERR_FENCED, "FENCED", "11"},
        {PS_ERR_INTERNAL, "INTERNAL", "19"},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        struct read_status got = read_back(rows[i].status, "because", 0);
        ck_assert_uint_eq(got.code, (uint64_t)ps_status_grpc(rows[i].status));
        ck_assert_str_eq(got.message, "because");
        ck_assert_str_eq(got.reason, rows[i].reason);
        ck_assert_str_eq(got.domain, "ps");
        ck_assert_str_eq(got.key, "status");
        ck_assert_str_eq(got.value, rows[i].number);
        ck_assert(!got.has_retry);
    }
}
END_TEST

START_TEST(a_hint_is_a_duration)
{
    static const uint32_t hints_ms[] = {1, 100, 999, 1000, 1001, 86400000, UINT32_MAX};
    for (size_t i = 0; i < PS_ARRAY_LEN(hints_ms); i++) {
        struct read_status got = read_back(PS_ERR_BUSY, "slow down", hints_ms[i]);
        ck_assert(got.has_retry);
        ck_assert_uint_eq(got.retry_ns, hints_ms[i] * UINT64_C(1000000));
    }
}
END_TEST

/* Words quote what a peer sent; a string field must be UTF-8 whatever that was. */
START_TEST(words_that_are_no_text_become_text)
{
    static const struct {
        const char *words;
        const char *message;
    } rows[] = {
        {"", ""},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff\xfe", "??"},
        {"a\xc3", "a?"},
        {"a\xe2\x82", "a??"},
        {"\xc0\xaf", "??"},
        {"\xc3(", "?("},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        struct read_status got = read_back(PS_ERR_INVALID, rows[i].words, 0);
        ck_assert_str_eq(got.message, rows[i].message);
    }
}
END_TEST

START_TEST(the_longest_words_fit)
{
    char words[5000];
    memset(words, 'w', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    struct read_status got = read_back(PS_ERR_NOMEM, words, UINT32_MAX);
    ck_assert_uint_eq(strlen(got.message), 1024);
    ck_assert_str_eq(got.reason, "NOMEM");
    ck_assert(got.has_retry);
}
END_TEST

Suite *suite_refusal(void)
{
    Suite *suite = suite_create("refusal");
    TCase *tcase = tcase_create("details");
    tcase_add_test(tcase, a_refusal_names_its_status_for_programs);
    tcase_add_test(tcase, a_hint_is_a_duration);
    tcase_add_test(tcase, words_that_are_no_text_become_text);
    tcase_add_test(tcase, the_longest_words_fit);
    suite_add_tcase(suite, tcase);
    return suite;
}
