/*
 * test_keys.c — keys as bytes and back: golden bytes, random lists in any cut of slices and calls,
 * every truncation, and each way to lie.
 */
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "cut.h"
#include "lib/test_main.h"
#include "suites.h"
#include "wire/keys.h"

enum {
    N_MAX = 3000,
    BYTES_MAX = N_MAX * PS_KEY_BYTES_MAX,
};

static uint64_t keys[N_MAX];
static uint64_t got[N_MAX];
static uint8_t bytes[BYTES_MAX];

static struct ps_cursor whole(struct ps_slice *slice, const uint8_t *data, size_t n_bytes)
{
    *slice = (struct ps_slice){.data = data, .n_bytes = n_bytes};
    return ps_cursor_over(slice, 1);
}

static const struct {
    const char *what;
    size_t n;
    uint64_t keys[9];
    size_t n_bytes;
    uint8_t bytes[20];
} golden[] = {
    {"no keys", 0, {0}, 0, {0}},
    {"the first key is itself", 1, {5}, 1, {5}},
    {"neighbours differ by nothing", 3, {0, 1, 2}, 3, {0, 0, 0}},
    {"numbers grow at 128", 3, {127, 255, 384}, 4, {0x7f, 0x7f, 0x80, 0x01}},
    {"the least and the greatest",
     2,
     {0, UINT64_MAX},
     11,
     {0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
    {"only the greatest",
     1,
     {UINT64_MAX},
     10,
     {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
    {"eight at once, and one more", 9, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 9, {1, 0, 0, 0, 0, 0, 0, 0, 0}},
};

START_TEST(keys_have_their_golden_bytes)
{
    uint8_t out[20];
    struct ps_slice slice;
    struct ps_cursor in = whole(&slice, golden[_i].bytes, golden[_i].n_bytes);
    ck_assert_uint_eq(ps_keys_bytes(golden[_i].keys, golden[_i].n), golden[_i].n_bytes);
    ck_assert_uint_eq(ps_keys_write(golden[_i].keys, golden[_i].n, out, golden[_i].n_bytes),
                      golden[_i].n_bytes);
    ck_assert_mem_eq(out, golden[_i].bytes, golden[_i].n_bytes);
    ck_assert_int_eq(ps_keys_read(in, got, golden[_i].n, NULL), PS_OK);
    ck_assert_mem_eq(got, golden[_i].keys, golden[_i].n * sizeof(got[0]));
    if (golden[_i].n_bytes > 0) {
        ck_assert_uint_eq(ps_keys_write(golden[_i].keys, golden[_i].n, out, golden[_i].n_bytes - 1),
                          0);
    }
}
END_TEST

/* Differences of up to `bits` bits, now and then more. */
static size_t draw(struct ps_rng *rng, uint32_t bits)
{
    size_t n = 1 + (size_t)ps_rng_below(rng, N_MAX);
    uint64_t key = ps_rng_next(rng) >> (1 + ps_rng_below(rng, 63));
    size_t i = 0;
    for (; i < n; i++) {
        uint32_t extra = ps_rng_below(rng, 50) == 0 ? (uint32_t)ps_rng_below(rng, 10) : 0;
        keys[i] = key;
        uint64_t step = 1 + (ps_rng_next(rng) >> (64 - bits - extra));
        if (step > UINT64_MAX - key) {
            return i + 1;
        }
        key += step;
    }
    return i;
}

START_TEST(random_keys_come_back_in_any_cut)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int round = 0; round < 400; round++) {
        size_t n = draw(&rng, 1 + (uint32_t)ps_rng_below(&rng, 54));
        size_t n_bytes = ps_keys_write(keys, n, bytes, sizeof(bytes));
        struct cut cut;
        struct ps_keys_reader reader = ps_keys_reader(cut_by_chance(&cut, bytes, n_bytes, &rng), n);
        size_t n_got = 0;
        ck_assert_uint_eq(n_bytes, ps_keys_bytes(keys, n));
        while (n_got < n) {
            size_t n_max = 1 + (size_t)ps_rng_below(&rng, 40);
            size_t n_here = ps_keys_next(&reader, got + n_got, n_max);
            ck_assert_uint_gt(n_here, 0);
            ck_assert_uint_le(n_here, n_max);
            n_got += n_here;
        }
        ck_assert_uint_eq(ps_keys_next(&reader, got, 1), 0);
        ck_assert(!reader.failed);
        ck_assert_mem_eq(got, keys, n * sizeof(keys[0]));
    }
}
END_TEST

START_TEST(lists_cut_off_or_counted_wrongly_are_refused)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int round = 0; round < 20; round++) {
        size_t n = draw(&rng, 1 + (uint32_t)ps_rng_below(&rng, 40));
        n = n < 100 ? n : 100;
        size_t n_bytes = ps_keys_write(keys, n, bytes, sizeof(bytes));
        for (size_t n_cut = 0; n_cut < n_bytes; n_cut++) {
            struct ps_slice slice;
            struct ps_error err = {0};
            ck_assert_int_eq(ps_keys_read(whole(&slice, bytes, n_cut), got, n, &err),
                             PS_ERR_INVALID);
            ck_assert_ptr_nonnull(strstr(err.text, "ascending keys"));
        }
        struct ps_slice slice;
        struct ps_cursor all = whole(&slice, bytes, n_bytes);
        ck_assert_int_eq(ps_keys_read(all, got, n - 1, NULL), PS_ERR_INVALID);
        ck_assert_int_eq(ps_keys_read(all, got, n + 1, NULL), PS_ERR_INVALID);
    }
}
END_TEST

/* Behind `n_before` plain keys, so that each gear of the reader meets each lie. */
START_TEST(lies_are_refused)
{
    static const struct {
        const char *what;
        size_t n_keys;
        size_t n_bytes;
        uint8_t bytes[24];
    } rows[] = {
        {"a zero in two bytes", 1, 2, {0x80, 0x00}},
        {"a number with a byte too many", 1, 3, {0x85, 0x81, 0x00}},
        {"an eight-byte number whose last byte is 0",
         1,
         8,
         {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}},
        {"a ten-byte number whose last byte is 0",
         1,
         10,
         {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}},
        {"a number of 65 bits",
         1,
         10,
         {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}},
        {"eleven bytes", 1, 11, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00}},
        {"a key after the last one",
         2,
         11,
         {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x01}},
        {"eight keys after the last one but three",
         9,
         18,
         {0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0, 0, 0, 0, 0, 0, 0}},
    };
    for (size_t r = 0; r < PS_ARRAY_LEN(rows); r++) {
        for (size_t n_before = 0; n_before < 20; n_before++) {
            for (size_t n_run = 1; n_run < 40; n_run++) {
                struct ps_slice slices[2];
                memset(bytes, 0, n_before + 40);
                memcpy(bytes + n_before, rows[r].bytes, rows[r].n_bytes);
                size_t n_bytes = n_before + rows[r].n_bytes;
                size_t n_first = n_run < n_bytes ? n_run : n_bytes;
                slices[0] = (struct ps_slice){.data = bytes, .n_bytes = n_first};
                slices[1] =
                    (struct ps_slice){.data = bytes + n_first, .n_bytes = n_bytes - n_first};
                ck_assert_msg(ps_keys_read(ps_cursor_over(slices, 2), got,
                                           n_before + rows[r].n_keys, NULL) == PS_ERR_INVALID,
                              "%s behind %zu keys, cut at %zu", rows[r].what, n_before, n_run);
            }
        }
    }
}
END_TEST

START_TEST(no_keys_are_no_bytes)
{
    struct ps_slice slice;
    ck_assert_int_eq(ps_keys_read(whole(&slice, bytes, 0), got, 0, NULL), PS_OK);
    ck_assert_int_eq(ps_keys_read(whole(&slice, bytes, 1), got, 0, NULL), PS_ERR_INVALID);
    ck_assert_int_eq(ps_keys_read(whole(&slice, bytes, 0), got, 1, NULL), PS_ERR_INVALID);
}
END_TEST

Suite *suite_keys(void)
{
    Suite *suite = suite_create("keys");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, keys_have_their_golden_bytes, 0, (int)PS_ARRAY_LEN(golden));
    tcase_add_test(tcase, random_keys_come_back_in_any_cut);
    tcase_add_test(tcase, lists_cut_off_or_counted_wrongly_are_refused);
    tcase_add_test(tcase, lies_are_refused);
    tcase_add_test(tcase, no_keys_are_no_bytes);
    suite_add_tcase(suite, tcase);
    return suite;
}
