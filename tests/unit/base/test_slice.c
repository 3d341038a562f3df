/*
 * test_slice.c — a cursor over slices against the same bytes in one piece: whatever the cuts, both
 * must read the same and fail at the same place.
 */
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "base/slice.h"
#include "lib/test_main.h"
#include "suites.h"

enum {
    N_BYTES = 400,
    N_SLICES_MAX = 200
};

static uint8_t bytes[N_BYTES];
static struct ps_slice slices[N_SLICES_MAX];

/* Cut the bytes into pieces of 0 to `n_piece_max`; empty ones stand anywhere, at the end too. */
static struct ps_cursor cut(struct ps_rng *rng, size_t n_piece_max)
{
    size_t n = 0;
    size_t at = 0;
    while (at < N_BYTES && n + 2 < N_SLICES_MAX) {
        size_t n_piece = (size_t)ps_rng_below(rng, n_piece_max + 1);
        n_piece = n_piece < N_BYTES - at ? n_piece : N_BYTES - at;
        slices[n++] = (struct ps_slice){.data = bytes + at, .n_bytes = n_piece};
        at += n_piece;
    }
    slices[n++] = (struct ps_slice){.data = bytes + at, .n_bytes = N_BYTES - at};
    slices[n++] = (struct ps_slice){.data = NULL, .n_bytes = 0};
    return ps_cursor_over(slices, n);
}

static void fill(struct ps_rng *rng)
{
    for (size_t i = 0; i < N_BYTES; i++) {
        bytes[i] = (uint8_t)ps_rng_next(rng);
    }
}

/* The next `n` bytes of `c`, one way or another, must be those at `at`. */
static void read_and_compare(struct ps_cursor *c, struct ps_rng *rng, size_t at, size_t n)
{
    uint8_t copy[N_BYTES];
    const uint8_t *run = NULL;
    size_t n_run = 0;
    struct ps_cursor part;
    switch (ps_rng_below(rng, 4)) {
    case 0:
        ps_cursor_copy(c, copy, n);
        ck_assert(n == 0 || memcmp(copy, bytes + at, n) == 0);
        break;
    case 1: ps_cursor_skip(c, n); break;
    case 2:
        part = ps_cursor_split(c, n);
        ck_assert_uint_eq(part.n_left, n);
        ps_cursor_copy(&part, copy, n);
        ck_assert(!part.failed && (n == 0 || memcmp(copy, bytes + at, n) == 0));
        ck_assert_uint_eq(ps_cursor_run(&part, 1, &run), 0); /* It ends where the part ends. */
        break;
    case 3:
        for (size_t done = 0; done < n; done += n_run) {
            n_run = ps_cursor_run(c, n - done, &run);
            ck_assert_uint_ge(n_run, 1);
            ck_assert_uint_le(n_run, n - done);
            ck_assert_ptr_eq(run, bytes + at + done); /* Borrowed, not copied. */
        }
        break;
    default: ck_abort();
    }
}

START_TEST(a_cursor_reads_what_a_flat_buffer_holds)
{
    struct ps_rng rng = ps_rng_from(test_seed() + (uint64_t)_i);
    for (int round = 0; round < 60; round++) {
        fill(&rng);
        struct ps_cursor c = cut(&rng, 1 + (size_t)ps_rng_below(&rng, 40));
        ck_assert_uint_eq(c.n_left, N_BYTES);
        for (size_t at = 0; at < N_BYTES;) {
            size_t n = (size_t)ps_rng_below(&rng, 30);
            n = n < N_BYTES - at ? n : N_BYTES - at;
            read_and_compare(&c, &rng, at, n);
            at += n;
            ck_assert(!c.failed);
            ck_assert_uint_eq(c.n_left, N_BYTES - at);
        }
        const uint8_t *run = NULL;
        ck_assert_uint_eq(ps_cursor_run(&c, 10, &run), 0);
        ck_assert_ptr_null(run);
        ck_assert(!c.failed); /* The end alone is no failure. */
    }
}
END_TEST

START_TEST(asking_for_more_than_there_is_fails_for_good)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    fill(&rng);
    for (int way = 0; way < 3; way++) {
        struct ps_cursor c = cut(&rng, 9);
        ps_cursor_skip(&c, N_BYTES - 5);
        uint8_t copy[6] = {1, 1, 1, 1, 1, 1};
        switch (way) {
        case 0:
            ps_cursor_copy(&c, copy, 6);
            ck_assert_uint_eq(copy[0] | copy[5], 0); /* Zeros, not half a number. */
            break;
        case 1: ps_cursor_skip(&c, SIZE_MAX); break;
        default: ck_assert(ps_cursor_split(&c, 6).failed); break;
        }
        ck_assert(c.failed);
        ck_assert_uint_eq(c.n_left, 0);
        ps_cursor_copy(&c, copy, 1);
        ck_assert_uint_eq(copy[0], 0);
        ck_assert_uint_eq(ps_cursor_varint(&c), 0);
    }
}
END_TEST

START_TEST(a_copied_cursor_remembers_its_place)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    fill(&rng);
    struct ps_cursor c = cut(&rng, 5);
    ps_cursor_skip(&c, 100);
    struct ps_cursor mark = c;
    ps_cursor_skip(&c, 200);
    uint8_t byte = 0;
    ps_cursor_copy(&mark, &byte, 1);
    ck_assert_uint_eq(byte, bytes[100]);
}
END_TEST

static size_t put_varint(uint8_t *to, uint64_t value)
{
    size_t n = 0;
    while (value > 0x7f) {
        to[n++] = (uint8_t)(value | 0x80u);
        value >>= 7;
    }
    to[n++] = (uint8_t)value;
    return n;
}

START_TEST(varints_of_every_length_are_read_across_cuts)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int round = 0; round < 200; round++) {
        uint64_t values[N_BYTES / 10];
        size_t at = 0;
        for (size_t i = 0; i < PS_ARRAY_LEN(values); i++) {
            values[i] = ps_rng_next(&rng) >> ps_rng_below(&rng, 64);
            at += put_varint(bytes + at, values[i]);
        }
        struct ps_cursor c = cut(&rng, 3);
        for (size_t i = 0; i < PS_ARRAY_LEN(values); i++) {
            ck_assert_uint_eq(ps_cursor_varint(&c), values[i]);
        }
        ck_assert(!c.failed);
        ck_assert_uint_eq(c.n_left, N_BYTES - at);
    }
}
END_TEST

START_TEST(varints_that_do_not_end_fail)
{
    static const struct {
        uint8_t data[12];
        size_t n_bytes;
        bool failed;
        uint64_t value;
    } rows[] = {
        {{0}, 0, true, 0},
        {{0x80}, 1, true, 0},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 10, false, UINT64_MAX},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 11, true, 0},
        {{0x80, 0x00}, 2, false, 0}, /* Longer than needed, but a number. */
        {{0xac, 0x02, 0x07}, 3, false, 300},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        struct ps_slice slice = {.data = rows[i].data, .n_bytes = rows[i].n_bytes};
        struct ps_cursor c = ps_cursor_over(&slice, 1);
        ck_assert_msg(ps_cursor_varint(&c) == rows[i].value, "row %zu", i);
        ck_assert_msg(c.failed == rows[i].failed, "row %zu", i);
    }
}
END_TEST

START_TEST(a_cursor_over_nothing_is_at_its_end)
{
    struct ps_cursor c = ps_cursor_over(NULL, 0);
    const uint8_t *run = NULL;
    ck_assert_uint_eq(ps_cursor_run(&c, 1, &run), 0);
    ps_cursor_skip(&c, 0);
    ck_assert(!c.failed);
    ps_cursor_skip(&c, 1);
    ck_assert(c.failed);
}
END_TEST

Suite *suite_slice(void)
{
    Suite *suite = suite_create("slice");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, a_cursor_reads_what_a_flat_buffer_holds, 0, 6);
    tcase_add_test(tcase, asking_for_more_than_there_is_fails_for_good);
    tcase_add_test(tcase, a_copied_cursor_remembers_its_place);
    tcase_add_test(tcase, varints_of_every_length_are_read_across_cuts);
    tcase_add_test(tcase, varints_that_do_not_end_fail);
    tcase_add_test(tcase, a_cursor_over_nothing_is_at_its_end);
    suite_add_tcase(suite, tcase);
    return suite;
}
