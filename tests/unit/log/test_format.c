/*
 * test_format.c — the bytes of a log: golden ones, every record there and back, and lies that carry
 * good sums.
 */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "log/wal_format.h"
#include "num/checksum.h"
#include "unit/log/rig.h"
#include "unit/log/suites.h"

static struct ps_error err;

START_TEST(names_are_numbers_that_sort)
{
    char name[PS_WAL_NAME_BYTES];
    uint64_t lsn = 0;
    ps_wal_name(0x1a2b, name);
    ck_assert_str_eq(name, "0000000000001a2b.log");
    ck_assert(ps_wal_name_parse(name, &lsn));
    ck_assert_uint_eq(lsn, 0x1a2b);
    static const char *const wrong[] = {
        "",
        "log",
        "0000000000001A2B.log",
        "0000000000001a2b.lo",
        "0000000000001a2b.logs",
        "0000000000001a2b",
        "000000000001a2b.log",
        "00000000000001a2b.log",
        PS_WAL_NEXT_NAME,
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(wrong); i++) {
        ck_assert_msg(!ps_wal_name_parse(wrong[i], &lsn), "%s", wrong[i]);
    }
}
END_TEST

START_TEST(heads_have_these_bytes_in_every_release)
{
    static const uint8_t golden[PS_WAL_SEGMENT_HEAD_BYTES - 8] = {
        'P', 'S', 'W', 'A', 'L', 'O', 'G', '1', 1, 0, 0, 0, 1, 0, 0, 0, /* Magic, version, flags. */
        9,   0,   0,   0,   0,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 7, /* Server. */
        5,   0,   0,   0,   0,   0,   0,   0,   6, 1, 0, 0, 0, 0, 0, 0, /* Salt, first lsn. */
        4,   0,   0,   0,   0,   0,   0,   0,   0, 0, 1, 0, 0, 0, 0, 0, /* Salt before, bytes. */
    };
    struct ps_wal_segment segment = {
        .server = {.bytes = {[0] = 9, [15] = 7}},
        .sync = true,
        .salt = 5,
        .prev_salt = 4,
        .first_lsn = 0x106,
        .n_bytes = 1 << 16,
    };
    uint8_t bytes[PS_WAL_SEGMENT_HEAD_BYTES];
    struct ps_wal_segment back;
    ps_wal_segment_write(&segment, bytes);
    ck_assert_mem_eq(bytes, golden, sizeof(golden));
    ck_assert_uint_eq(ps_load_u64(bytes + 64), 0x60fdb07532bf9d0bu);
    ck_assert_int_eq(ps_wal_segment_read(bytes, &back, &err), PS_OK);
    uint8_t again[PS_WAL_SEGMENT_HEAD_BYTES];
    ps_wal_segment_write(&back, again);
    ck_assert_mem_eq(again, bytes, sizeof(bytes));

    struct ps_wal_head head = {
        .kind = PS_WAL_RECORD, .lsn = 77, .durable_upto = 70, .n_body = 24, .body_sum = 0x1234};
    struct ps_wal_head head_back;
    uint8_t head_bytes[PS_WAL_HEAD_BYTES];
    ps_wal_head_write(&head, 5, head_bytes);
    ck_assert(ps_wal_head_read(head_bytes, 5, &head_back));
    ck_assert_uint_eq(head_back.lsn, 77);
    ck_assert_uint_eq(head_back.durable_upto, 70);
    ck_assert_uint_eq(head_back.body_sum, 0x1234);
    ck_assert(!ps_wal_head_read(head_bytes, 6, &head_back)); /* Of another segment. */
    ck_assert_uint_eq(ps_load_u64(head_bytes + 8), 0x1234);
    ck_assert_uint_eq(ps_load_u64(head_bytes + 16), 77);
    ck_assert_uint_eq(ps_load_u64(head_bytes + 24), 70);
    ck_assert_uint_eq(ps_load_u32(head_bytes + 32), 24);
    ck_assert_uint_eq(ps_load_u32(head_bytes + 36), 1);
}
END_TEST

static const struct ps_wal_head wrong_heads[] = {
    {.kind = PS_WAL_NOTHING, .lsn = 1},
    {.kind = (enum ps_wal_kind)(PS_WAL_SEAL + 1), .lsn = 1},
    {.kind = PS_WAL_RECORD, .lsn = 1, .durable_upto = 1},
    {.kind = PS_WAL_RECORD, .lsn = 0},
    {.kind = PS_WAL_RECORD, .lsn = 1, .n_body = PS_WAL_BODY_BYTES_MAX + 1},
    {.kind = PS_WAL_NOTE, .lsn = 1, .n_body = 1},
    {.kind = PS_WAL_END, .lsn = 1, .n_body = 8},
    {.kind = PS_WAL_SEAL, .lsn = 1, .n_body = 8},
};

START_TEST(a_head_that_makes_no_sense_is_none)
{
    uint8_t bytes[PS_WAL_HEAD_BYTES];
    struct ps_wal_head back;
    ps_wal_head_write(&wrong_heads[_i], 5, bytes);
    ck_assert(!ps_wal_head_read(bytes, 5, &back));
}
END_TEST

START_TEST(a_later_version_is_told_from_damage)
{
    struct ps_wal_segment segment = {.salt = 1, .first_lsn = 1};
    uint8_t bytes[PS_WAL_SEGMENT_HEAD_BYTES];
    ps_wal_segment_write(&segment, bytes);
    bytes[8] = 2;
    ck_assert_int_eq(ps_wal_segment_read(bytes, &segment, &err), PS_ERR_CORRUPT);
    ps_store_u64(bytes + 64, ps_checksum64(bytes, 64, 0x5053574c4f47u));
    ck_assert_int_eq(ps_wal_segment_read(bytes, &segment, &err), PS_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.text, "the log has format 2 with flags 0, this program reads format 1");
}
END_TEST

/* The body of the i-th record of the rig. */
static size_t body_of(uint64_t i, uint8_t body[4096])
{
    static struct rig_entry entry;
    memset(&entry, 0, sizeof(entry));
    rig_make_record(&entry, i);
    size_t n = ps_wal_fixed_write(&entry.entry.record, body);
    size_t n_payload = ps_wal_payload_bytes(&entry.entry.record);
    struct ps_cursor payload = entry.entry.record.push.payload;
    if (n_payload > 0) {
        ps_cursor_copy(&payload, body + n, n_payload);
    }
    return n + n_payload;
}

/* Read from memory of its own length, so that the sanitizer sees its ends. */
static enum ps_status read_body(const uint8_t *body, size_t n_body, struct ps_record *ret)
{
    uint8_t *copy = malloc(n_body + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, body, n_body);
    uint64_t *room = malloc(ps_wal_record_room(copy, n_body) + 1);
    ck_assert_ptr_nonnull(room);
    struct ps_slice payload;
    enum ps_status status = ps_wal_record_read(copy, n_body, room, ret, &payload, &err);
    free(room);
    free(copy);
    return status;
}

START_TEST(no_body_of_another_length_is_taken)
{
    static uint8_t body[4096];
    struct ps_record record;
    for (uint64_t i = 0; i < 48; i++) {
        memset(body, 0, sizeof(body));
        size_t n = body_of(i, body);
        ck_assert_int_eq(read_body(body, n, &record), PS_OK);
        for (size_t k = 0; k < n + 40; k++) {
            ck_assert_msg(k == n || read_body(body, k, &record) == PS_ERR_CORRUPT,
                          "record %u of %zu bytes, read as %zu", (unsigned)i, n, k);
        }
    }
}
END_TEST

/* Numbers of a push's body, and what they must not be. */
static const struct {
    size_t at;
    uint32_t value;
} lies[] = {
    {0, 6}, /* Kind. */
    {0, UINT32_MAX},
    {4, PS_SLOTS}, /* Slot. */
    {100, 2},      /* Parts: their bytes are no payload. */
    {100, 100000},
    {100, UINT32_MAX},
    {104, PS_TABLES_MAX},
    {120, UINT32_MAX}, /* Bytes of a part. */
    {128, UINT32_MAX}, /* Of its keys: more than its bytes. */
};

START_TEST(lies_with_good_sums_are_refused)
{
    static uint8_t body[4096];
    struct ps_record record;
    size_t n = body_of(1, body); /* A push of one part. */
    ck_assert_uint_eq(ps_load_u32(body + 100), 1);
    ps_store_u32(body + lies[_i].at, lies[_i].value);
    ck_assert_int_eq(read_body(body, n, &record), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.text, "makes no sense"));
}
END_TEST

START_TEST(a_generation_names_two_places)
{
    uint8_t body[64] = {0};
    uint64_t generation = 0;
    const char *dir = NULL;
    const char *cut = NULL;
    ps_wal_generation_write(9, "/a", "cut", body);
    memcpy(body + 16, "/a\0cut", 7);
    ck_assert_int_eq(ps_wal_generation_read(body, 23, &generation, &dir, &cut, &err), PS_OK);
    ck_assert_str_eq(dir, "/a");
    ck_assert_str_eq(cut, "cut");
    for (size_t n = 0; n < sizeof(body); n++) {
        ck_assert(n == 23 ||
                  ps_wal_generation_read(body, n, &generation, &dir, &cut, &err) == PS_ERR_CORRUPT);
    }
    body[18] = 'x';
    ck_assert_int_eq(ps_wal_generation_read(body, 23, &generation, &dir, &cut, &err),
                     PS_ERR_CORRUPT);
    body[18] = 0;
    body[17] = 0;
    ck_assert_int_eq(ps_wal_generation_read(body, 23, &generation, &dir, &cut, &err),
                     PS_ERR_CORRUPT);
}
END_TEST

START_TEST(a_witness_is_found_at_any_place_and_no_other_head_is_one)
{
    static uint8_t bytes[1024];
    for (size_t at = 0; at + PS_WAL_HEAD_BYTES <= sizeof(bytes); at += PS_WAL_ALIGN) {
        memset(bytes, 0xa5, sizeof(bytes));
        struct ps_wal_head head = {.kind = PS_WAL_RECORD, .lsn = 20, .durable_upto = 10};
        ps_wal_head_write(&head, 3, bytes + at);
        ck_assert_uint_eq(ps_wal_find_witness(bytes, sizeof(bytes), 3, 10), at);
        ck_assert_uint_eq(ps_wal_find_witness(bytes, sizeof(bytes), 3, 11), sizeof(bytes));
        ck_assert_uint_eq(ps_wal_find_witness(bytes, sizeof(bytes), 4, 10), sizeof(bytes));
        ck_assert_uint_eq(ps_wal_find_witness(bytes, at + PS_WAL_HEAD_BYTES - 1, 3, 10),
                          at + PS_WAL_HEAD_BYTES - 1);
    }
}
END_TEST

Suite *suite_format(void)
{
    Suite *suite = suite_create("format");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, names_are_numbers_that_sort);
    tcase_add_test(tcase, heads_have_these_bytes_in_every_release);
    tcase_add_loop_test(tcase, a_head_that_makes_no_sense_is_none, 0, PS_ARRAY_LEN(wrong_heads));
    tcase_add_test(tcase, a_later_version_is_told_from_damage);
    tcase_add_test(tcase, no_body_of_another_length_is_taken);
    tcase_add_loop_test(tcase, lies_with_good_sums_are_refused, 0, PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, a_generation_names_two_places);
    tcase_add_test(tcase, a_witness_is_found_at_any_place_and_no_other_head_is_one);
    suite_add_tcase(suite, tcase);
    return suite;
}
