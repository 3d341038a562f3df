/*
 * test_lines.c — lines of a file however it is cut and packed: the union over parts is the file;
 * line ends, marks, faults; numbers in messages also from the middle of a file.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include <zstd.h>

#include "base/attr.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/lines.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

#define TEXT_BYTES 4096u

static struct temp_folder folder;
static char path[128];

static void setup(void)
{
    temp_folder_make(&folder);
    (void)snprintf(path, sizeof(path), "%s/file", folder.path);
}

static void teardown(void)
{
    temp_folder_remove(&folder);
}

/* A packed file stays packed. */
static struct ps_source *put(const void *bytes, size_t n_bytes)
{
    struct ps_source *source = NULL;
    struct ps_error err = {0};
    temp_folder_put(&folder, "file", bytes, n_bytes);
    ck_assert_msg(ps_source_open_within(NULL, path, 0, &source, &err) == PS_OK, "%s", err.text);
    return source;
}

/* Read a part, appending each line and '|'. Faults are '!' (too long) and '0' (binary). */
static enum ps_status read_part(struct ps_lines *lines, struct ps_part part, char *text,
                                struct ps_error *err)
{
    enum ps_status status = ps_lines_start(lines, part, err);
    struct ps_line line = {0};
    uint64_t n = 0;
    while (status == PS_OK) {
        status = ps_lines_next(lines, &line, err);
        if (status != PS_OK || line.kind == PS_LINE_END) {
            break;
        }
        ck_assert_uint_eq(line.number, ++n);
        const char *shown = line.kind == PS_LINE_TOO_LONG ? "!"
                            : line.kind == PS_LINE_BINARY ? "0"
                                                          : line.text;
        size_t n_bytes = line.kind == PS_LINE_TEXT ? line.n_bytes : 1;
        ck_assert(line.kind != PS_LINE_TEXT || strchr("\r\n", line.text[line.n_bytes]) != NULL);
        strncat(text, shown, n_bytes);
        strncat(text, "|", TEXT_BYTES - strlen(text) - 1);
    }
    return status;
}

static const struct {
    const char *bytes;
    size_t n_bytes; /* 0: strlen. */
    const char *lines;
} texts[] = {
    {"a\nbc\n\ndef\n", 0, "a|bc||def|"},
    {"a\nbc", 0, "a|bc|"},
    {"a\r\nbc\r\n", 0, "a|bc|"},
    {"a\r\n\r\nb\r", 0, "a||b|"},
    {"\xef\xbb\xbf"
     "a\nb\n",
     0, "a|b|"},
    {"\xef\xbb\xbf", 0, ""},
    {"\xef\xbb", 0, "\xef\xbb|"},
    {"\n\n\n", 0, "|||"},
    {"x", 0, "x|"},
    {"a\0b\nc\n", 6, "0|c|"},
    {"a\n\0", 3, "a|0|"},
};

START_TEST(the_lines_are_the_same_wherever_the_file_is_cut)
{
    size_t n = texts[_i].n_bytes != 0 ? texts[_i].n_bytes : strlen(texts[_i].bytes);
    struct ps_source *source = put(texts[_i].bytes, n);
    struct ps_lines *lines = ps_lines_create(NULL, source);
    for (uint64_t a = 0; a <= n; a++) {
        for (uint64_t b = a; b <= n; b++) {
            uint64_t cuts[] = {0, a, b, n};
            char text[TEXT_BYTES] = "";
            for (int i = 0; i < 3; i++) {
                struct ps_part part = {.begin = cuts[i], .end = cuts[i + 1]};
                ck_assert_int_eq(read_part(lines, part, text, NULL), PS_OK);
            }
            ck_assert_msg(strcmp(text, texts[_i].lines) == 0, "cut at %d and %d: '%s'", (int)a,
                          (int)b, text);
        }
    }
    ps_lines_destroy(lines);
    ps_source_close(source);
}
END_TEST

START_TEST(a_file_that_stays_packed_is_read_in_one_part)
{
    static const char text[] = "a\nbc\r\nd";
    uint8_t packed[512];
    size_t n = 0;
    if (_i < 2) {
        n = pack_gzip((const uint8_t *)text, 3, packed, sizeof(packed));
        n += pack_gzip((const uint8_t *)text + 3, 4, packed + n, sizeof(packed) - n);
    } else {
        n = ZSTD_compress(packed, sizeof(packed), text, 3, 3);
        n += ZSTD_compress(packed + n, sizeof(packed) - n, text + 3, 4, 3);
    }
    struct ps_source *source = put(packed, n - (size_t)(_i % 2));
    struct ps_lines *lines = ps_lines_create(NULL, source);
    ck_assert_uint_eq(ps_source_parts(source, 1), 1);
    char got[TEXT_BYTES] = "";
    struct ps_error err = {0};
    enum ps_status status = read_part(lines, ps_source_part(source, 1, 0), got, &err);
    if (_i % 2 == 0) {
        ck_assert_msg(status == PS_OK, "%s", err.text);
        ck_assert_str_eq(got, "a|bc|d|");
    } else {
        ck_assert_int_eq(status, PS_ERR_INVALID);
        ck_assert_msg(strstr(err.text, path) != NULL && strstr(err.text, "cut off") != NULL, "%s",
                      err.text);
    }
    ps_lines_destroy(lines);
    ps_source_close(source);
}
END_TEST

START_TEST(damage_in_a_file_that_stays_packed_is_told)
{
    char text[4096];
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (char)(i * i % 61 == 0 ? '\n' : 'a' + i * 7 % 23);
    }
    uint8_t packed[8192];
    size_t n = _i == 0 ? pack_gzip((const uint8_t *)text, sizeof(text), packed, sizeof(packed))
                       : ZSTD_compress(packed, sizeof(packed), text, sizeof(text), 3);
    packed[4 + (n - 4) / 2] ^= 0x55;
    packed[n - 6] ^= 0x55;
    struct ps_source *source = put(packed, n);
    struct ps_lines *lines = ps_lines_create(NULL, source);
    struct ps_error err = {0};
    struct ps_line line = {0};
    enum ps_status status = ps_lines_start(lines, ps_source_whole(source, 0), &err);
    do {
        status = status == PS_OK ? ps_lines_next(lines, &line, &err) : status;
    } while (status == PS_OK && line.kind != PS_LINE_END);
    ck_assert_int_eq(status, PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "damaged"));
    ps_lines_destroy(lines);
    ps_source_close(source);
}
END_TEST

/* Lines around the size of the buffer and of the bound: "1\n", x * n, "\n2". */
START_TEST(long_lines_are_whole_and_too_long_ones_a_fault)
{
    static const size_t sizes[] = {PS_STREAM_BYTES - 1, PS_STREAM_BYTES,       PS_STREAM_BYTES + 1,
                                   PS_LINE_BYTES_MAX,   PS_LINE_BYTES_MAX + 1, 40u << 20};
    size_t n = sizes[_i];
    char *bytes = malloc(n + 4);
    ck_assert_ptr_nonnull(bytes);
    bytes[0] = '1';
    bytes[1] = '\n';
    memset(bytes + 2, 'x', n);
    bytes[n + 2] = '\n';
    bytes[n + 3] = '2';
    struct ps_source *source = put(bytes, n + 4);
    free(bytes);
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_lines *lines = ps_lines_create(&mem, source);
    struct ps_line line = {0};
    ck_assert_int_eq(ps_lines_start(lines, ps_source_whole(source, 0), NULL), PS_OK);
    ck_assert_int_eq(ps_lines_next(lines, &line, NULL), PS_OK);
    ck_assert_int_eq(ps_lines_next(lines, &line, NULL), PS_OK);
    ck_assert_int_eq(line.kind, n <= PS_LINE_BYTES_MAX ? PS_LINE_TEXT : PS_LINE_TOO_LONG);
    ck_assert_uint_eq(line.n_bytes, n <= PS_LINE_BYTES_MAX ? n : 0);
    ck_assert_uint_le(mem.used[PS_MEM_DATA], 4 * (uint64_t)PS_LINE_BYTES_MAX);
    ck_assert_int_eq(ps_lines_next(lines, &line, NULL), PS_OK);
    ck_assert_int_eq(line.kind, PS_LINE_TEXT);
    ck_assert_uint_eq(line.number, 3);
    ck_assert(line.n_bytes == 1 && line.text[0] == '2');
    ck_assert_int_eq(ps_lines_next(lines, &line, NULL), PS_OK);
    ck_assert_int_eq(line.kind, PS_LINE_END);
    ps_lines_destroy(lines);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    ps_source_close(source);
}
END_TEST

/* Line i of this file is the number i. */
START_TEST(a_message_names_the_line_of_the_file_from_any_part)
{
    char text[600] = "";
    for (int i = 1; i <= 120; i++) {
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d\n", i);
    }
    struct ps_source *source = put(text, strlen(text));
    struct ps_lines *lines = ps_lines_create(NULL, source);
    for (uint64_t begin = 0; begin < strlen(text); begin++) {
        struct ps_part part = {.begin = begin, .end = strlen(text)};
        struct ps_line line = {0};
        ck_assert_int_eq(ps_lines_start(lines, part, NULL), PS_OK);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(ps_lines_next(lines, &line, NULL), PS_OK);
            if (line.kind == PS_LINE_END) {
                break;
            }
            struct ps_error err = {.text = "no"};
            char expected[256];
            (void)snprintf(expected, sizeof(expected), "%s:%.*s: no", path, (int)line.n_bytes,
                           line.text);
            ck_assert_int_eq(ps_lines_wrap(lines, line.number, PS_ERR_INVALID, &err),
                             PS_ERR_INVALID);
            ck_assert_str_eq(err.text, expected);
        }
    }
    ps_lines_destroy(lines);
    ps_source_close(source);
}
END_TEST

START_TEST(a_file_that_became_shorter_is_told)
{
    struct ps_source *source = put("1\n2\n3\n", 6);
    struct ps_lines *lines = ps_lines_create(NULL, source);
    ck_assert_int_eq(truncate(path, 3), 0);
    char text[TEXT_BYTES] = "";
    struct ps_error err = {0};
    ck_assert_int_eq(read_part(lines, ps_source_whole(source, 0), text, &err), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "became shorter"));
    ps_lines_destroy(lines);
    ps_source_close(source);
}
END_TEST

START_TEST(from_the_second_part_on_nothing_is_allocated)
{
    uint8_t packed[128];
    size_t n = pack_gzip((const uint8_t *)"1\n2\n", 4, packed, sizeof(packed));
    struct ps_source *source = put(packed, n);
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_lines *lines = ps_lines_create(&mem, source);
    uint64_t n_calls = 0;
    for (int i = 0; i < 5; i++) {
        char text[TEXT_BYTES] = "";
        ck_assert_int_eq(read_part(lines, ps_source_whole(source, 0), text, NULL), PS_OK);
        ck_assert_str_eq(text, "1|2|");
        ck_assert(i == 0 || mem.n_calls == n_calls);
        n_calls = mem.n_calls;
    }
    ps_lines_destroy(lines);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    ps_source_close(source);
}
END_TEST

/* A packed file with a line that needs a larger buffer. */
START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    size_t n = 3 * (size_t)PS_STREAM_BYTES;
    char *text = malloc(n);
    uint8_t *packed = malloc(n);
    ck_assert(text != NULL && packed != NULL);
    memset(text, 'x', n);
    text[5] = '\n';
    size_t n_packed = _i == 0 ? pack_gzip((const uint8_t *)text, n, packed, n)
                              : ZSTD_compress(packed, n, text, n, 3);
    struct ps_source *source = put(packed, n_packed);
    free(text);
    free(packed);
    enum ps_status status = PS_ERR_NOMEM;
    int64_t k = 0;
    for (; status != PS_OK && k < 50; k++) {
        struct ps_mem mem;
        ps_mem_init(&mem);
        mem.fail_after = k;
        struct ps_lines *lines = ps_lines_create(&mem, source);
        struct ps_line line = {0};
        status =
            lines == NULL ? PS_ERR_NOMEM : ps_lines_start(lines, ps_source_whole(source, 0), NULL);
        do {
            status = status == PS_OK ? ps_lines_next(lines, &line, NULL) : status;
        } while (status == PS_OK && line.kind != PS_LINE_END);
        ck_assert_msg(status == PS_OK || status == PS_ERR_NOMEM, "k %d: %d", (int)k, (int)status);
        ps_lines_destroy(lines);
        ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(k, 5);
    ps_source_close(source);
}
END_TEST

Suite *suite_lines(void)
{
    Suite *suite = suite_create("lines");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, the_lines_are_the_same_wherever_the_file_is_cut, 0,
                        (int)PS_ARRAY_LEN(texts));
    tcase_add_loop_test(tcase, a_file_that_stays_packed_is_read_in_one_part, 0, 4);
    tcase_add_loop_test(tcase, damage_in_a_file_that_stays_packed_is_told, 0, 2);
    tcase_add_loop_test(tcase, long_lines_are_whole_and_too_long_ones_a_fault, 0, 6);
    tcase_add_test(tcase, a_message_names_the_line_of_the_file_from_any_part);
    tcase_add_test(tcase, a_file_that_became_shorter_is_told);
    tcase_add_loop_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing, 0, 2);
    tcase_add_test(tcase, from_the_second_part_on_nothing_is_allocated);
    suite_add_tcase(suite, tcase);
    return suite;
}
