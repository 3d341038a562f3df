/* test_checksum.c — sums against published values, and alike for every cut into pieces. */
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "base/rng.h"
#include "num/checksum.h"
#include "unit/num/suites.h"

START_TEST(sums_are_those_of_xxhash_everywhere)
{
    char text[PS_CHECKSUM128_TEXT_BYTES];
    ck_assert_uint_eq(ps_checksum64("", 0, 0), 0x2d06800538d394c2u);
    ps_checksum128_text(ps_checksum128("", 0), text);
    ck_assert_str_eq(text, "99aa06d3014798d86001c324468d497f");
    ck_assert_uint_ne(ps_checksum64("a", 1, 0), ps_checksum64("a", 1, 1));
}
END_TEST

START_TEST(pieces_give_the_sum_of_the_whole)
{
    static uint8_t bytes[5000];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)ps_rng_at(1, 2, i);
    }
    static const size_t lengths[] = {0, 1, 16, 17, 128, 129, 240, 241, 1024, 1025, 4999, 5000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t cut = 1; cut < 700; cut += 97) {
            struct ps_checksum_stream stream;
            struct ps_checksum_stream seeded;
            ps_checksum_init(&stream, 0);
            ps_checksum_init(&seeded, 77);
            for (size_t at = 0; at < lengths[i]; at += cut) {
                size_t n = lengths[i] - at < cut ? lengths[i] - at : cut;
                struct ps_slice slices[2] = {{bytes + at, n / 2}, {bytes + at + n / 2, n - n / 2}};
                ps_checksum_add(&stream, bytes + at, n);
                ps_checksum_add_cursor(&seeded, ps_cursor_over(slices, 2));
            }
            ck_assert_uint_eq(ps_checksum_of64(&seeded), ps_checksum64(bytes, lengths[i], 77));
            ck_assert(ps_checksum128_equal(ps_checksum_of128(&stream),
                                           ps_checksum128(bytes, lengths[i])));
        }
    }
}
END_TEST

START_TEST(a_sum_in_text_is_read_back)
{
    struct ps_checksum128 sum = ps_checksum128("some bytes", 10);
    struct ps_checksum128 back = {0};
    char text[PS_CHECKSUM128_TEXT_BYTES];
    ps_checksum128_text(sum, text);
    ck_assert_uint_eq(strlen(text), 32);
    ck_assert(ps_checksum128_parse(text, &back));
    ck_assert(ps_checksum128_equal(sum, back));
    for (size_t i = 0; i < 32; i++) {
        char lie[PS_CHECKSUM128_TEXT_BYTES];
        static const char wrong[] = {'\0', 'g', 'A', ' ', '/', ':', '`'};
        for (size_t k = 0; k < sizeof(wrong); k++) {
            memcpy(lie, text, sizeof(lie));
            lie[i] = wrong[k];
            ck_assert(!ps_checksum128_parse(lie, &back));
        }
    }
}
END_TEST

Suite *suite_checksum(void)
{
    Suite *suite = suite_create("checksum");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, sums_are_those_of_xxhash_everywhere);
    tcase_add_test(tcase, pieces_give_the_sum_of_the_whole);
    tcase_add_test(tcase, a_sum_in_text_is_read_back);
    suite_add_tcase(suite, tcase);
    return suite;
}
