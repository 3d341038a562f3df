/*
 * test_idx.c — IDX bytes: golden ones, a table of lies, and every prefix of a good file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "data/idx.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"

/* Two images of 2 x 3. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
                                 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

START_TEST(a_good_file_is_described)
{
    struct ps_idx_view view;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_idx_parse(images, sizeof(images), &view, &err), PS_OK);
    ck_assert_uint_eq(view.n_dims, 3);
    ck_assert_uint_eq(view.dims[0], 2);
    ck_assert_uint_eq(view.dims[1], 2);
    ck_assert_uint_eq(view.dims[2], 3);
    ck_assert_uint_eq(view.n_values, 12);
    ck_assert_ptr_eq(view.values, images + 16);
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    size_t n_bytes;
    uint8_t bytes[24];
    const char *words; /* Must be in the message. */
} lies[] = {
    {"nothing at all",       0, {0},                                       "only 0 bytes"},
    {"half a magic",         3, {0, 0, 8},                                 "only 3 bytes"},
    {"gzip",                 8, {0x1f, 0x8b, 8, 0, 0, 0, 0, 0},            "gzip-compressed"},
    {"text",                 8, {'l', 'a', 'b', 'e', 'l', 's', '\n', 0},   "found 6c 61 62"},
    {"floats",              12, {0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0},     "type 0x0d"},
    {"no dimensions",        4, {0, 0, 8, 0},                              "found 0"},
    {"five dimensions",     24, {0, 0, 8, 5},                              "found 5"},
    {"half a header",        7, {0, 0, 8, 1, 0, 0, 0},                     "header of 8 bytes"},
    {"no rows",              8, {0, 0, 8, 1, 0, 0, 0, 0},                  "dimension 0 is 0"},
    {"no columns",          13, {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 0, 1},   "dimension 1 is 0"},
    {"one byte short",       9, {0, 0, 8, 1, 0, 0, 0, 2, 7},               "cut off: expected 2"},
    {"one byte long",       11, {0, 0, 8, 1, 0, 0, 0, 2, 7, 8, 9},         "found 1 more"},
    {"little-endian count", 10, {0, 0, 8, 1, 2, 0, 0, 0, 7, 8},            "expected 33554432"},
    {"2^96 values",         20, {0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255,
                                 255, 255, 255, 255, 0, 0, 0, 0},          "too large"},
};
/* clang-format on */

START_TEST(a_lie_is_refused_with_its_reason)
{
    /* A copy of the exact size, so that a sanitizer sees every byte read too far. */
    uint8_t *bytes = malloc(lies[_i].n_bytes + 1);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes + 1, lies[_i].bytes, lies[_i].n_bytes);
    struct ps_idx_view view = {.n_values = 77};
    struct ps_error err = {0};
    ck_assert_msg(ps_idx_parse(bytes + 1, lies[_i].n_bytes, &view, &err) == PS_ERR_INVALID, "%s",
                  lies[_i].name);
    ck_assert_msg(strstr(err.text, lies[_i].words) != NULL, "%s: '%s'", lies[_i].name, err.text);
    ck_assert_uint_eq(view.n_values, 77);
    free(bytes);
}
END_TEST

START_TEST(every_prefix_of_a_good_file_is_refused)
{
    for (size_t n = 0; n < sizeof(images); n++) {
        uint8_t *bytes = malloc(n + 1);
        ck_assert_ptr_nonnull(bytes);
        memcpy(bytes + 1, images, n);
        struct ps_idx_view view;
        ck_assert_int_eq(ps_idx_parse(bytes + 1, n, &view, NULL), PS_ERR_INVALID);
        free(bytes);
    }
}
END_TEST

Suite *suite_idx(void)
{
    Suite *suite = suite_create("idx");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, a_good_file_is_described);
    tcase_add_loop_test(tcase, a_lie_is_refused_with_its_reason, 0, (int)PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, every_prefix_of_a_good_file_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
