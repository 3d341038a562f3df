/*
 * test_identity.c — whose data directory it is: what was written is read, and of what is damaged
 * nothing is believed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include <check.h>

#include "identity.h"
#include "lib/test_main.h"
#include "os/posix_disk.h"

static char dir[64];
static char path[96];

static const struct ps_identity identity = {
    .server = {{1, 2, 3, 254}}, .cluster = {{9, 8}}, .index = 3, .generation = 12, .begin = 77};

static void make_dir(void)
{
    memcpy(dir, "/tmp/ps-test-identity-XXXXXX", sizeof("/tmp/ps-test-identity-XXXXXX"));
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/identity", dir);
}

static void remove_dir(void)
{
    (void)unlink(path);
    ck_assert_int_eq(rmdir(dir), 0);
}

static void put(const char *text, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, n_bytes, file), n_bytes);
    ck_assert_int_eq(fclose(file), 0);
}

static size_t get(char *text, size_t n_room)
{
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t n_bytes = fread(text, 1, n_room, file);
    ck_assert_int_eq(fclose(file), 0);
    return n_bytes;
}

static enum ps_status read_it(struct ps_identity *ret, struct ps_error *err)
{
    return ps_identity_read(ps_posix_disk(), dir, ret, err);
}

START_TEST(a_directory_without_one_is_nobodys)
{
    struct ps_identity found = identity;
    ck_assert_int_eq(read_it(&found, NULL), PS_OK);
    ck_assert(ps_id_none(&found.server));
    ck_assert(ps_id_none(&found.cluster));
}
END_TEST

START_TEST(what_was_written_is_read)
{
    struct ps_identity found;
    ck_assert_int_eq(ps_identity_write(ps_posix_disk(), dir, &identity, NULL), PS_OK);
    ck_assert_int_eq(read_it(&found, NULL), PS_OK);
    ck_assert(ps_id_equal(&found.server, &identity.server));
    ck_assert(ps_id_equal(&found.cluster, &identity.cluster));
    ck_assert_uint_eq(found.index, identity.index);
    ck_assert_uint_eq(found.generation, identity.generation);
    ck_assert_uint_eq(found.begin, identity.begin);
}
END_TEST

static void check_refused(void)
{
    struct ps_identity found;
    struct ps_error err;
    ck_assert_int_eq(read_it(&found, &err), PS_ERR_CORRUPT);
    ck_assert(ps_id_none(&found.server));
    ck_assert_msg(strncmp(err.text, path, strlen(path)) == 0, "%s", err.text);
}

START_TEST(every_changed_bit_is_found)
{
    char text[512];
    ck_assert_int_eq(ps_identity_write(ps_posix_disk(), dir, &identity, NULL), PS_OK);
    size_t n_bytes = get(text, sizeof(text));
    for (size_t bit = 0; bit < 8 * n_bytes; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        put(text, n_bytes);
        check_refused();
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
    }
}
END_TEST

START_TEST(every_other_length_is_found)
{
    char text[512] = "";
    ck_assert_int_eq(ps_identity_write(ps_posix_disk(), dir, &identity, NULL), PS_OK);
    size_t n_bytes = get(text, sizeof(text));
    for (size_t n = 0; n < sizeof(text); n++) {
        if (n != n_bytes) {
            put(text, n);
            check_refused();
        }
    }
}
END_TEST

static Suite *suite_identity(void)
{
    Suite *suite = suite_create("identity");
    TCase *tcase = tcase_create("identity");
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_test(tcase, a_directory_without_one_is_nobodys);
    tcase_add_test(tcase, what_was_written_is_read);
    tcase_add_test(tcase, every_changed_bit_is_found);
    tcase_add_test(tcase, every_other_length_is_found);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_identity)
