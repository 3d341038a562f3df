/*
 * test_load.c — gzip: what is packed comes back; cut, damaged, padded and bloated streams are
 * refused, and a refusal leaves no memory behind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "data/load.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

enum {
    N_PLAIN = 200000,
    N_PACKED_MAX = 300000,
    N_BOUND = 1 << 20
};

static uint8_t plain[N_PLAIN];
static uint8_t packed[N_PACKED_MAX];

static size_t make_packed(void)
{
    for (size_t i = 0; i < sizeof(plain); i++) {
        plain[i] = (uint8_t)(i * i >> 7);
    }
    return pack_gzip(plain, sizeof(plain), packed, sizeof(packed));
}

START_TEST(what_was_packed_comes_back)
{
    size_t n = make_packed();
    struct ps_load load = {0};
    ck_assert(ps_gzip_like(packed, n));
    ck_assert_int_eq(ps_gunzip(NULL, packed, n, N_BOUND, &load, NULL), PS_OK);
    ck_assert_uint_eq(load.n_bytes, sizeof(plain));
    ck_assert_mem_eq(load.data, plain, sizeof(plain));
    ps_mem_free(load.data);
}
END_TEST

START_TEST(two_members_are_one_file)
{
    size_t n = make_packed();
    n += pack_gzip(plain, 5, packed + n, sizeof(packed) - n);
    struct ps_load load = {0};
    ck_assert_int_eq(ps_gunzip(NULL, packed, n, N_BOUND, &load, NULL), PS_OK);
    ck_assert_uint_eq(load.n_bytes, sizeof(plain) + 5);
    ck_assert_mem_eq(load.data + sizeof(plain), plain, 5);
    ps_mem_free(load.data);
}
END_TEST

static void cut(uint8_t *bytes, size_t *n)
{
    (void)bytes;
    *n -= 9;
}

static void cut_to_the_magic(uint8_t *bytes, size_t *n)
{
    (void)bytes;
    *n = 2;
}

static void flip_the_middle(uint8_t *bytes, size_t *n)
{
    bytes[*n / 2] ^= 0x40;
}

static void flip_the_checksum(uint8_t *bytes, size_t *n)
{
    bytes[*n - 8] ^= 1;
}

static void append_junk(uint8_t *bytes, size_t *n)
{
    memcpy(bytes + *n, "junk", 4);
    *n += 4;
}

static const struct {
    const char *name;
    void (*spoil)(uint8_t *bytes, size_t *n);
    size_t n_max;
    const char *words;
} lies[] = {
    {"cut", cut, N_BOUND, "cut off"},
    {"only the magic", cut_to_the_magic, N_BOUND, "cut off"},
    {"a flipped bit", flip_the_middle, N_BOUND, "damaged"},
    {"a flipped checksum", flip_the_checksum, N_BOUND, "damaged"},
    {"junk behind the end", append_junk, N_BOUND, "4 bytes follow"},
    {"more than allowed", NULL, N_PLAIN - 1, "more than 199999 bytes"},
};

START_TEST(a_bad_stream_is_refused_and_leaves_nothing)
{
    size_t n = make_packed();
    struct ps_mem mem;
    ps_mem_init(&mem);
    if (lies[_i].spoil != NULL) {
        lies[_i].spoil(packed, &n);
    }
    struct ps_load load = {0};
    struct ps_error err = {0};
    ck_assert_msg(ps_gunzip(&mem, packed, n, lies[_i].n_max, &load, &err) == PS_ERR_INVALID, "%s",
                  lies[_i].name);
    ck_assert_msg(strstr(err.text, lies[_i].words) != NULL, "%s: '%s'", lies[_i].name, err.text);
    ck_assert_ptr_null(load.data);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

/* Fail the k-th allocation, for all k until a run passes. */
START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    size_t n = make_packed();
    n += pack_gzip(plain, sizeof(plain), packed + n, sizeof(packed) - n); /* Forces growth. */
    enum ps_status status = PS_ERR_NOMEM;
    int64_t k = 0;
    for (; status != PS_OK && k < 100; k++) {
        struct ps_mem mem;
        struct ps_load load = {0};
        ps_mem_init(&mem);
        mem.fail_after = k;
        status = ps_gunzip(&mem, packed, n, N_BOUND, &load, NULL);
        ck_assert(status == PS_OK || status == PS_ERR_NOMEM);
        ps_mem_free(load.data);
        ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(k, 2);
}
END_TEST

START_TEST(a_file_is_unpacked_by_content_and_not_by_name)
{
    struct temp_folder folder;
    temp_folder_make(&folder);
    temp_folder_put_gzip(&folder, "no-ending", (const uint8_t *)"hello", 5);
    temp_folder_put(&folder, "plain.gz", (const uint8_t *)"hello", 5);
    static const char *const names[] = {"no-ending", "plain.gz"};
    for (size_t i = 0; i < PS_ARRAY_LEN(names); i++) {
        char path[128];
        struct ps_load load = {0};
        (void)snprintf(path, sizeof(path), "%s/%s", folder.path, names[i]);
        ck_assert_int_eq(ps_load_file(NULL, path, &load, NULL), PS_OK);
        ck_assert_uint_eq(load.n_bytes, 5);
        ck_assert_mem_eq(load.data, "hello", 5);
        ps_mem_free(load.data);
    }
    temp_folder_remove(&folder);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
    struct ps_load load = {0};
    struct ps_error err = {0};
    ck_assert_int_eq(ps_load_file(NULL, "/tmp/ps-no-such-file", &load, &err), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/tmp/ps-no-such-file"));
}
END_TEST

Suite *suite_load(void)
{
    Suite *suite = suite_create("load");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, what_was_packed_comes_back);
    tcase_add_test(tcase, two_members_are_one_file);
    tcase_add_loop_test(tcase, a_bad_stream_is_refused_and_leaves_nothing, 0,
                        (int)PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing);
    tcase_add_test(tcase, a_file_is_unpacked_by_content_and_not_by_name);
    tcase_add_test(tcase, a_missing_file_is_named);
    suite_add_tcase(suite, tcase);
    return suite;
}
