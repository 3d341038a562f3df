/*
 * test_pb.c — varints of every length, the writer that stays full, and the walk over fields.
 */
#include <string.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "suites.h"
#include "wire/pb.h"

START_TEST(numbers_come_back_at_every_width)
{
    for (unsigned bits = 0; bits <= 64; bits++) {
        uint64_t value = bits == 64 ? UINT64_MAX : (1ull << bits) - (bits % 2);
        uint8_t bytes[16];
        struct ps_pb_writer w = {.to = bytes, .n_room = sizeof(bytes)};
        ps_pb_put_uint(&w, 3, value);
        ck_assert_uint_eq(w.n_used, ps_pb_uint_bytes(3, value));
        struct ps_slice slice = {.data = bytes, .n_bytes = w.n_used};
        struct ps_cursor c = ps_cursor_over(&slice, 1);
        struct ps_pb_field f = {0};
        ck_assert_int_eq(ps_pb_next(&c, &f), value != 0); /* proto3: a 0 is not written. */
        ck_assert_uint_eq(f.value, value);
        ck_assert(!ps_pb_next(&c, &f) && !c.failed);
    }
}
END_TEST

START_TEST(a_writer_without_room_stays_full)
{
    uint8_t bytes[4] = {0};
    struct ps_pb_writer w = {.to = bytes, .n_room = 3};
    ps_pb_put_uint(&w, 1, 300); /* Tag and two bytes. */
    ck_assert(!w.full);
    ps_pb_put_uint(&w, 2, 1);
    ck_assert(w.full);
    w.n_room = 4; /* Too late. */
    ps_pb_put_uint(&w, 2, 1);
    ck_assert_uint_eq(w.n_used, 3);
    ck_assert_uint_eq(bytes[3], 0);
}
END_TEST

START_TEST(fixed_numbers_and_floats_are_little_endian)
{
    static const uint8_t bytes[] = {0x0d, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8};
    struct ps_slice slice = {.data = bytes, .n_bytes = sizeof(bytes)};
    struct ps_cursor c = ps_cursor_over(&slice, 1);
    struct ps_pb_field f;
    ck_assert(ps_pb_next(&c, &f) && f.wire == PS_PB_FIXED32);
    ck_assert_uint_eq(f.value, 0x04030201);
    ck_assert(ps_pb_next(&c, &f) && f.wire == PS_PB_FIXED64);
    ck_assert_uint_eq(f.value, 0x0807060504030201);
    uint8_t out[8];
    struct ps_pb_writer w = {.to = out, .n_room = sizeof(out)};
    ps_pb_put_float(&w, 1, 0.0f);
    ck_assert_uint_eq(w.n_used, 0);
    ps_pb_put_float(&w, 1, -2.0f);
    static const uint8_t minus_two[] = {0x0d, 0, 0, 0, 0xc0};
    ck_assert_mem_eq(out, minus_two, sizeof(minus_two));
}
END_TEST

START_TEST(nested_bytes_are_borrowed_not_copied)
{
    static const uint8_t bytes[] = {0x0a, 3, 7, 8, 9, 0x10, 1};
    struct ps_slice slice = {.data = bytes, .n_bytes = sizeof(bytes)};
    struct ps_cursor c = ps_cursor_over(&slice, 1);
    struct ps_pb_field f;
    ck_assert(ps_pb_next(&c, &f) && f.wire == PS_PB_BYTES);
    const uint8_t *run = NULL;
    ck_assert_uint_eq(ps_cursor_run(&f.bytes, 100, &run), 3);
    ck_assert_ptr_eq(run, bytes + 2);
    ck_assert(ps_pb_next(&c, &f) && f.number == 2 && f.value == 1);
}
END_TEST

Suite *suite_pb(void)
{
    Suite *suite = suite_create("pb");
    TCase *tcase = tcase_create("pb");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, numbers_come_back_at_every_width);
    tcase_add_test(tcase, a_writer_without_room_stays_full);
    tcase_add_test(tcase, fixed_numbers_and_floats_are_little_endian);
    tcase_add_test(tcase, nested_bytes_are_borrowed_not_copied);
    suite_add_tcase(suite, tcase);
    return suite;
}
