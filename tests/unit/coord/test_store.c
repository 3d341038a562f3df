/*
 * test_store.c — the promises of struct ps_store, run over every kind, and what is special to
 * files.
 */
#include <string.h>

#include "coord/store.h"
#include "coord_rig.h"

static struct rig_disk disk;

static struct ps_store *open_store(int kind)
{
    rig_disk_init(&disk);
    return kind == 0 ? ps_store_memory_create(NULL)
                     : ps_store_file_create(NULL, &disk.base, "coord.state");
}

static void expect(struct ps_store *store, uint64_t term, uint64_t version, const char *value)
{
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    struct ps_store_stamp stamp;
    struct ps_error err;
    ck_assert_int_eq(ps_store_load(store, &data, &n_bytes, &stamp, &err), PS_OK);
    ck_assert_uint_eq(stamp.term, term);
    ck_assert_uint_eq(stamp.version, version);
    ck_assert_uint_eq(n_bytes, strlen(value));
    ck_assert(n_bytes == 0 || memcmp(data, value, n_bytes) == 0);
    ps_mem_free(data);
}

static enum ps_status put(struct ps_store *store, struct ps_store_stamp *stamp, uint64_t term,
                          const char *value)
{
    struct ps_error err;
    return ps_store_write(store, stamp, term, (const uint8_t *)value, strlen(value), &err);
}

START_TEST(what_was_written_last_is_read)
{
    struct ps_store *store = open_store(_i);
    struct ps_store_stamp stamp = {0};
    expect(store, 0, 0, "");
    ck_assert_int_eq(put(store, &stamp, 1, "first, and longer than the next"), PS_OK);
    ck_assert_int_eq(put(store, &stamp, 1, "second"), PS_OK);
    ck_assert_uint_eq(stamp.version, 2);
    expect(store, 1, 2, "second");
    ps_store_destroy(store);
}
END_TEST

START_TEST(a_coordinator_that_was_followed_is_refused)
{
    struct ps_store *store = open_store(_i);
    struct ps_store_stamp old = {0};
    ck_assert_int_eq(put(store, &old, 1, "old"), PS_OK);
    struct ps_store_stamp new = old;
    ck_assert_int_eq(put(store, &new, 2, "new"), PS_OK);
    ck_assert_int_eq(put(store, &old, 1, "old again"), PS_ERR_NOT_PRIMARY);
    ck_assert_uint_eq(old.version, 1);
    expect(store, 2, 2, "new");
    struct ps_store_stamp none = {0};
    ck_assert_int_eq(put(store, &none, 3, "from nothing"), PS_ERR_NOT_PRIMARY);
    ck_assert_int_eq(put(store, &new, 2, "newer"), PS_OK);
    ps_store_destroy(store);
}
END_TEST

START_TEST(a_value_without_bound_is_refused)
{
    struct ps_store *store = open_store(_i);
    struct ps_store_stamp stamp = {0};
    struct ps_error err;
    static uint8_t big[PS_STORE_BYTES_MAX + 1];
    ck_assert_int_eq(ps_store_write(store, &stamp, 1, big, sizeof(big), &err), PS_ERR_INVALID);
    ps_store_destroy(store);
}
END_TEST

START_TEST(a_file_outlives_its_store)
{
    struct ps_store *store = open_store(1);
    struct ps_store_stamp stamp = {0};
    ck_assert_int_eq(put(store, &stamp, 4, "kept"), PS_OK);
    ps_store_destroy(store);
    store = ps_store_file_create(NULL, &disk.base, "coord.state");
    expect(store, 4, 1, "kept");
    ps_store_destroy(store);
}
END_TEST

START_TEST(every_damaged_byte_and_every_cut_is_noticed)
{
    struct ps_store *store = open_store(1);
    struct ps_store_stamp stamp = {0};
    struct ps_error err;
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(put(store, &stamp, 1, "nineteen bytes here"), PS_OK);
    size_t n_whole = disk.n_bytes;
    for (size_t i = 0; i < n_whole; i++) {
        disk.data[i] ^= 0x10;
        ck_assert_int_eq(ps_store_load(store, &data, &n_bytes, &stamp, &err), PS_ERR_CORRUPT);
        disk.data[i] ^= 0x10;
        disk.n_bytes = i;
        ck_assert_int_eq(ps_store_load(store, &data, &n_bytes, &stamp, &err), PS_ERR_CORRUPT);
        disk.n_bytes = n_whole;
    }
    expect(store, 1, 1, "nineteen bytes here");
    ps_store_destroy(store);
}
END_TEST

START_TEST(a_disk_that_refuses_keeps_the_old_value)
{
    struct ps_store *store = open_store(1);
    struct ps_store_stamp stamp = {0};
    ck_assert_int_eq(put(store, &stamp, 1, "old"), PS_OK);
    disk.broken = true;
    ck_assert_int_eq(put(store, &stamp, 1, "new"), PS_ERR_IO);
    expect(store, 1, 1, "old");
    ps_store_destroy(store);
}
END_TEST

Suite *suite_store(void)
{
    Suite *suite = suite_create("store");
    TCase *tcase = tcase_create("every kind");
    tcase_add_loop_test(tcase, what_was_written_last_is_read, 0, 2);
    tcase_add_loop_test(tcase, a_coordinator_that_was_followed_is_refused, 0, 2);
    tcase_add_loop_test(tcase, a_value_without_bound_is_refused, 0, 2);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("file");
    tcase_add_test(tcase, a_file_outlives_its_store);
    tcase_add_test(tcase, every_damaged_byte_and_every_cut_is_noticed);
    tcase_add_test(tcase, a_disk_that_refuses_keeps_the_old_value);
    suite_add_tcase(suite, tcase);
    return suite;
}
