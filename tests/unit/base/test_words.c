/*
 * test_words.c — the small words of base: errors, statuses, ids, lists, sizes that cannot wrap.
 */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/id.h"
#include "base/list.h"
#include "base/utf8.h"
#include "lib/test_main.h"
#include "suites.h"

START_TEST(an_error_says_what_failed_inside_what)
{
    struct ps_error err = {0};
    ck_assert_int_eq(ps_fail(&err, PS_ERR_IO, "errno %d", 5), PS_ERR_IO);
    ck_assert_int_eq(err.status, PS_ERR_IO);
    ck_assert_str_eq(err.text, "errno 5");
    ck_assert_int_eq(ps_wrap(&err, PS_ERR_IO, "read '%s'", "a.bin"), PS_ERR_IO);
    ck_assert_int_eq(ps_wrap(&err, PS_ERR_CORRUPT, "load"), PS_ERR_CORRUPT);
    ck_assert_str_eq(err.text, "load: read 'a.bin': errno 5");
    ck_assert_int_eq(err.status, PS_ERR_CORRUPT);
}
END_TEST

START_TEST(a_text_is_utf8_or_not)
{
    static const struct {
        const char *text;
        size_t n_bytes;
        bool valid;
    } texts[] = {
        {"", 0, true},
        {"abc\x7f", 4, true},
        {"caf\xc3\xa9", 5, true},
        {"\xe2\x82\xac\xf0\x9f\x98\x80", 7, true},
        {"\xf4\x8f\xbf\xbf", 4, true},
        {"caf\xe9", 4, false},
        {"caf\xc3\xa9", 4, false}, /* Cut in the middle. */
        {"\xc0\x80", 2, false},    /* Longer than it need be, as the next two. */
        {"\xe0\x80\xaf", 3, false},
        {"\xf0\x80\x80\xaf", 4, false},
        {"\xed\xa0\x80", 3, false}, /* Half of a pair. */
        {"\xf4\x90\x80\x80", 4, false},
        {"\xff", 1, false},
        {"\x80", 1, false},
        {"\xc3(", 2, false},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(texts); i++) {
        ck_assert_int_eq(ps_utf8_valid(texts[i].text, texts[i].n_bytes), texts[i].valid);
    }
    uint32_t code = 0;
    ck_assert_uint_eq(ps_utf8_character("\xe2\x82\xac", 3, &code), 3);
    ck_assert_uint_eq(code, 0x20ac);
}
END_TEST

START_TEST(nobody_has_to_want_the_words)
{
    ck_assert_int_eq(ps_fail(NULL, PS_ERR_IO, "errno %d", 5), PS_ERR_IO);
    ck_assert_int_eq(ps_wrap(NULL, PS_ERR_BUSY, "context"), PS_ERR_BUSY);
}
END_TEST

START_TEST(words_of_others_cannot_make_a_second_line)
{
    struct ps_error err = {0};
    (void)ps_fail(&err, PS_ERR_IO, "open '%s'", "a\nb\x1b[2J\x7f\xc3\xa9");
    ck_assert_str_eq(err.text, "open 'a?b?[2J?\xc3\xa9'");
    (void)ps_wrap(&err, PS_ERR_IO, "%s", "x\ry");
    ck_assert_str_eq(err.text, "x?y: open 'a?b?[2J?\xc3\xa9'");
}
END_TEST

START_TEST(long_words_are_cut_at_their_end_and_stay_a_text)
{
    char words[400];
    for (size_t n_inner = 230; n_inner < 260; n_inner++) {
        for (size_t n_outer = 0; n_outer < 300; n_outer += 7) {
            struct ps_error err;
            char want[sizeof(words) * 2];
            memset(&err, 0x5a, sizeof(err));
            memset(words, 'i', n_inner);
            words[n_inner] = '\0';
            (void)ps_fail(&err, PS_ERR_IO, "%s", words);
            ck_assert_uint_eq(strlen(err.text), n_inner < 255 ? n_inner : 255);
            memset(words, 'o', n_outer);
            words[n_outer] = '\0';
            (void)snprintf(want, sizeof(want), "%s: %s", words, err.text);
            want[PS_ERROR_TEXT_BYTES - 1] = '\0';
            (void)ps_wrap(&err, PS_ERR_IO, "%s", words);
            ck_assert_str_eq(err.text, want);
        }
    }
}
END_TEST

START_TEST(statuses_survive_the_wire_and_unknown_ones_are_internal)
{
    unsigned n_known = 0;
    for (unsigned wire = 0; wire < 100; wire++) {
        enum ps_status status = ps_status_from_wire(wire);
        if ((unsigned)status == wire) {
            n_known++;
            ck_assert_str_ne(ps_status_text(status), "unknown status");
        } else {
            ck_assert_int_eq(status, PS_ERR_INTERNAL);
        }
    }
    ck_assert_uint_eq(n_known, PS_ERR_NO_SPACE + 1);
    ck_assert_int_eq(ps_status_from_wire(UINT32_MAX), PS_ERR_INTERNAL);
    ck_assert_int_eq(ps_status_grpc(PS_OK), 0);
    ck_assert_int_eq(ps_status_grpc(PS_ERR_INVALID), 3);
    ck_assert(ps_status_retryable(PS_ERR_BUSY));
    ck_assert(!ps_status_retryable(PS_ERR_FENCED));
    enum ps_status unknown = (enum ps_status)999;
    ck_assert_str_eq(ps_status_text(unknown), "unknown status");
    ck_assert(!ps_status_retryable(unknown));
    ck_assert_int_eq(ps_status_grpc(unknown), ps_status_grpc(PS_ERR_INTERNAL));
}
END_TEST

START_TEST(ids_have_sixteen_bytes_and_a_text)
{
    uint8_t data[17];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 17);
    }
    struct ps_id id = {0};
    ck_assert(ps_id_none(&id));
    ck_assert(!ps_id_from(data, 15, &id));
    ck_assert(!ps_id_from(data, 17, &id));
    ck_assert(ps_id_none(&id)); /* Written on success only. */
    ck_assert(ps_id_from(data, 16, &id));
    ck_assert(!ps_id_none(&id));
    char text[PS_ID_TEXT_BYTES];
    ps_id_text(&id, text);
    ck_assert_str_eq(text, "00112233445566778899aabbccddeeff");
    struct ps_id other = id;
    ck_assert(ps_id_equal(&id, &other));
    other.bytes[15] ^= 1u;
    ck_assert(!ps_id_equal(&id, &other));
}
END_TEST

START_TEST(an_id_is_read_from_its_text_and_from_nothing_else)
{
    struct ps_id id;
    char text[PS_ID_TEXT_BYTES];
    ck_assert(ps_id_parse("00112233445566778899aabbccddeeff", &id));
    ps_id_text(&id, text);
    ck_assert_str_eq(text, "00112233445566778899aabbccddeeff");
    ck_assert(ps_id_parse("00112233445566778899AABBCCDDEEFF", &id));
    ps_id_text(&id, text);
    ck_assert_str_eq(text, "00112233445566778899aabbccddeeff");
    ck_assert(!ps_id_parse("", &id));
    ck_assert(!ps_id_parse("00112233445566778899aabbccddeef", &id));
    ck_assert(!ps_id_parse("00112233445566778899aabbccddeeff0", &id));
    ck_assert(!ps_id_parse("0x112233445566778899aabbccddeeff", &id));
    ck_assert(!ps_id_parse("00112233445566778899aabbccddeefg", &id));
    ck_assert(!ps_id_parse(" 0112233445566778899aabbccddeeff", &id));
}
END_TEST

struct element {
    int number;
    struct ps_list node;
};

START_TEST(a_list_keeps_its_order_through_removals)
{
    struct element elements[10];
    struct ps_list head;
    ps_list_init(&head);
    ck_assert(ps_list_empty(&head));
    for (int i = 0; i < 10; i++) {
        elements[i].number = i;
        ps_list_init(&elements[i].node);
        ck_assert(ps_list_empty(&elements[i].node));
        ps_list_append(&head, &elements[i].node);
        ck_assert(!ps_list_empty(&elements[i].node));
    }
    ps_list_for_each_safe (node, after, &head) {
        struct element *element = PS_CONTAINER_OF(node, struct element, node);
        if (element->number % 3 == 0) {
            ps_list_remove(node);
            ps_list_remove(node); /* Harmless. */
        }
    }
    static const int want[] = {1, 2, 4, 5, 7, 8};
    size_t n = 0;
    ps_list_for_each (node, &head) {
        ck_assert_uint_lt(n, PS_ARRAY_LEN(want));
        ck_assert_int_eq(PS_CONTAINER_OF(node, struct element, node)->number, want[n++]);
    }
    ck_assert_uint_eq(n, PS_ARRAY_LEN(want));
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_refused_and_left_alone)
{
    size_t ret = 42;
    ck_assert(!ps_mul_size(SIZE_MAX, 2, &ret));
    ck_assert(!ps_mul_size(SIZE_MAX / 2 + 1, 2, &ret));
    ck_assert(!ps_add_size(SIZE_MAX, 1, &ret));
    ck_assert_uint_eq(ret, 42);
    ck_assert(ps_mul_size(SIZE_MAX / 2, 2, &ret));
    ck_assert_uint_eq(ret, SIZE_MAX - 1);
    ck_assert(ps_add_size(SIZE_MAX - 1, 1, &ret));
    ck_assert_uint_eq(ret, SIZE_MAX);
}
END_TEST

START_TEST(numbers_in_bytes_are_little_endian_at_any_address)
{
    uint8_t bytes[16];
    for (size_t shift = 0; shift < 8; shift++) {
        ps_store_u64(bytes + shift, UINT64_C(0x0807060504030201));
        for (size_t i = 0; i < 8; i++) {
            ck_assert_uint_eq(bytes[shift + i], i + 1);
        }
        ck_assert_uint_eq(ps_load_u64(bytes + shift), UINT64_C(0x0807060504030201));
        ck_assert_uint_eq(ps_load_u32(bytes + shift), 0x04030201u);
        ps_store_u32(bytes + shift, 0xaabbccddu);
        ck_assert_uint_eq(bytes[shift], 0xdd);
    }
}
END_TEST

Suite *suite_words(void)
{
    Suite *suite = suite_create("words");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, an_error_says_what_failed_inside_what);
    tcase_add_test(tcase, words_of_others_cannot_make_a_second_line);
    tcase_add_test(tcase, nobody_has_to_want_the_words);
    tcase_add_test(tcase, a_text_is_utf8_or_not);
    tcase_add_test(tcase, long_words_are_cut_at_their_end_and_stay_a_text);
    tcase_add_test(tcase, statuses_survive_the_wire_and_unknown_ones_are_internal);
    tcase_add_test(tcase, ids_have_sixteen_bytes_and_a_text);
    tcase_add_test(tcase, an_id_is_read_from_its_text_and_from_nothing_else);
    tcase_add_test(tcase, a_list_keeps_its_order_through_removals);
    tcase_add_test(tcase, sizes_that_do_not_fit_are_refused_and_left_alone);
    tcase_add_test(tcase, numbers_in_bytes_are_little_endian_at_any_address);
    suite_add_tcase(suite, tcase);
    return suite;
}
