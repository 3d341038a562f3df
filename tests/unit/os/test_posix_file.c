/* test_posix_file.c — open files, folders and locks of port/disk.h on this machine. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "base/attr.h"
#include "base/mem.h"
#include "os/posix_disk.h"
#include "unit/os/suites.h"

static char folder[] = "/tmp/ps-test-file-XXXXXX";
static char path[PATH_MAX];
static char other[PATH_MAX];
static struct ps_error err;

static void make_folder(void)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/ps-test-file-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    (void)snprintf(other, sizeof(other), "%s/other", folder);
}

static void remove_folder(void)
{
    (void)unlink(path);
    (void)unlink(other);
    ck_assert_int_eq(rmdir(folder), 0);
}

static struct ps_disk_file *open_as(enum ps_disk_open how, enum ps_status expect)
{
    struct ps_disk_file *file = NULL;
    enum ps_status status = ps_disk_open(ps_posix_disk(), path, how, &file, &err);
    ck_assert_msg(status == expect, "%u: %s", status, err.text);
    return file;
}

START_TEST(many_slices_are_one_write_and_come_back)
{
    make_folder();
    enum {
        N = 3000
    }; /* More than one call of the system takes. */
    static uint8_t bytes[N * 2];
    static struct ps_slice slices[N];
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < N; i++) {
        size_t n = i % 3; /* Empty ones, too. */
        slices[i] = (struct ps_slice){.data = n == 0 ? NULL : bytes + n_bytes, .n_bytes = n};
        for (size_t k = 0; k < n; k++) {
            bytes[n_bytes++] = (uint8_t)((size_t)i * 7 + k);
        }
    }
    struct ps_disk_file *file = open_as(PS_DISK_CREATE, PS_OK);
    ck_assert_int_eq(ps_disk_file_write(file, 5, slices, N, &err), PS_OK);
    ck_assert_int_eq(ps_disk_file_sync(file, &err), PS_OK);
    static uint8_t back[N * 2 + 9];
    size_t n_read = 0;
    ck_assert_int_eq(ps_disk_file_read(file, 0, back, sizeof(back), &n_read, &err), PS_OK);
    ck_assert_uint_eq(n_read, n_bytes + 5);
    ck_assert_mem_eq(back + 5, bytes, n_bytes);
    ps_disk_file_forget(file);
    ck_assert_int_eq(ps_disk_file_read(file, n_bytes + 5, back, 1, &n_read, &err), PS_OK);
    ck_assert_uint_eq(n_read, 0);
    ps_disk_file_close(file);
    remove_folder();
}
END_TEST

enum {
    PASS_BYTES = 5 * PS_DISK_ALIGN + 777
};

/* `n` bytes of `from` at `at`; a model keeps what must be there. */
static void put(struct ps_disk_file *file, uint8_t *model, uint64_t at, const uint8_t *from,
                size_t n)
{
    struct ps_slice slice = {.data = from, .n_bytes = n};
    ck_assert_msg(ps_disk_file_write(file, at, &slice, 1, &err) == PS_OK, "%s", err.text);
    memcpy(model + at, from, n);
}

START_TEST(what_passes_memory_by_is_there_whole_at_any_place_and_length)
{
    static const size_t places[] = {0, 1, PS_DISK_ALIGN - 1, PS_DISK_ALIGN, 2 * PS_DISK_ALIGN};
    static const size_t lengths[] = {
        0, 1, PS_DISK_ALIGN - 1, PS_DISK_ALIGN, PS_DISK_ALIGN + 1, 2 * PS_DISK_ALIGN, PASS_BYTES};
    static _Alignas(PS_DISK_ALIGN) uint8_t bytes[PASS_BYTES + PS_DISK_ALIGN];
    static uint8_t model[sizeof(bytes) + 2 * PS_DISK_ALIGN];
    static uint8_t back[sizeof(model) + 1];
    make_folder();
    struct ps_disk_file *file = open_as(PS_DISK_CREATE, PS_OK);
    ps_disk_file_pass_by(file);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 31 + i / 251);
    }
    put(file, model, 0, bytes, sizeof(bytes));
    uint64_t n_bytes = sizeof(bytes);
    for (size_t round = 0; round < PS_ARRAY_LEN(places) * PS_ARRAY_LEN(lengths) * 2; round++) {
        size_t place = places[round / 2 % PS_ARRAY_LEN(places)];
        size_t n = lengths[round / 2 / PS_ARRAY_LEN(places)];
        bytes[0]++; /* So that what was there before is told from it. */
        bytes[n / 2]++;
        put(file, model, place, bytes + round % 2, n);
        n_bytes = place + n > n_bytes ? place + n : n_bytes;
        size_t n_read = 0;
        ck_assert_int_eq(ps_disk_file_read(file, 0, back, sizeof(back), &n_read, &err), PS_OK);
        ck_assert_uint_eq(n_read, n_bytes);
        ck_assert_mem_eq(back, model, n_bytes);
    }
    ck_assert_int_eq(ps_disk_file_sync(file, &err), PS_OK);
    ps_disk_file_close(file);
    remove_folder();
}
END_TEST

START_TEST(a_file_without_room_refuses_what_passes_memory_by)
{
    static _Alignas(PS_DISK_ALIGN) uint8_t bytes[2 * PS_DISK_ALIGN];
    struct ps_slice slice = {.data = bytes, .n_bytes = sizeof(bytes)};
    struct rlimit before;
    make_folder();
    struct ps_disk_file *file = open_as(PS_DISK_CREATE, PS_OK);
    ps_disk_file_pass_by(file);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {.rlim_cur = 3 * PS_DISK_ALIGN, .rlim_max = before.rlim_max};
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_assert_int_eq(ps_disk_file_write(file, 0, &slice, 1, &err), PS_OK);
    enum ps_status status = ps_disk_file_write(file, sizeof(bytes), &slice, 1, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(status, PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "write: File too large"));
    ps_disk_file_close(file);
    remove_folder();
}
END_TEST

START_TEST(an_open_says_what_it_expects)
{
    make_folder();
    (void)open_as(PS_DISK_READ, PS_ERR_NOT_FOUND);
    (void)open_as(PS_DISK_WRITE, PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    ps_disk_file_close(open_as(PS_DISK_CREATE, PS_OK));
    (void)open_as(PS_DISK_CREATE, PS_ERR_EXISTS);
    struct ps_disk_file *file = open_as(PS_DISK_WRITE, PS_OK);
    uint64_t n_bytes = 0;
    ck_assert_int_eq(ps_disk_file_allocate(file, 100000, &err), PS_OK);
    ck_assert_int_eq(ps_disk_file_allocate(file, 10, &err), PS_OK); /* Never shorter. */
    ck_assert_int_eq(ps_disk_file_size(file, &n_bytes, &err), PS_OK);
    ck_assert_uint_eq(n_bytes, 100000);
    uint8_t byte = 1;
    size_t n_read = 0;
    ck_assert_int_eq(ps_disk_file_read(file, 99999, &byte, 1, &n_read, &err), PS_OK);
    ck_assert_uint_eq(byte, 0);
    ck_assert_int_eq(ps_disk_file_truncate(file, 7, &err), PS_OK);
    ck_assert_int_eq(ps_disk_file_size(file, &n_bytes, &err), PS_OK);
    ck_assert_uint_eq(n_bytes, 7);
    ps_disk_file_close(file);
    file = open_as(PS_DISK_ANEW, PS_OK);
    ck_assert_int_eq(ps_disk_file_size(file, &n_bytes, &err), PS_OK);
    ck_assert_uint_eq(n_bytes, 0);
    ps_disk_file_close(file);
    remove_folder();
}
END_TEST

START_TEST(a_full_disk_is_told_from_a_broken_one)
{
    struct ps_disk_file *file = NULL;
    ck_assert_int_eq(ps_disk_open(ps_posix_disk(), "/dev/full", PS_DISK_WRITE, &file, &err), PS_OK);
    struct ps_slice slice = {.data = (const uint8_t *)"x", .n_bytes = 1};
    ck_assert_int_eq(ps_disk_file_write(file, 0, &slice, 1, &err), PS_ERR_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(err.text, "/dev/full: write: No space left on device"));
    ps_disk_file_close(file);
    make_folder();
    ps_disk_file_close(open_as(PS_DISK_CREATE, PS_OK));
    file = open_as(PS_DISK_READ, PS_OK);
    ck_assert_int_eq(ps_disk_file_write(file, 0, &slice, 1, &err), PS_ERR_IO);
    ps_disk_file_close(file);
    remove_folder();
}
END_TEST

START_TEST(a_folder_is_listed_by_name)
{
    make_folder();
    struct ps_disk_entry *entries = NULL;
    size_t n = 1;
    ck_assert_int_eq(ps_disk_list(ps_posix_disk(), folder, &entries, &n, &err), PS_OK);
    ck_assert_uint_eq(n, 0);
    ps_mem_free(entries);
    char name[PATH_MAX + 8];
    enum {
        N = 37
    };
    for (int i = N - 1; i >= 0; i--) {
        (void)snprintf(name, sizeof(name), "%s/%02d", folder, i);
        ck_assert_int_eq(mkdir(name, 0700), 0);
    }
    ps_disk_file_close(open_as(PS_DISK_CREATE, PS_OK));
    ck_assert_int_eq(ps_disk_list(ps_posix_disk(), folder, &entries, &n, &err), PS_OK);
    ck_assert_uint_eq(n, N + 1);
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof(name), "%02d", i);
        ck_assert_str_eq(entries[i].name, name);
        ck_assert(entries[i].is_dir);
        (void)snprintf(name, sizeof(name), "%s/%02d", folder, i);
        ck_assert_int_eq(ps_disk_remove(ps_posix_disk(), name, &err), PS_OK);
        ck_assert_int_eq(ps_disk_remove(ps_posix_disk(), name, &err), PS_ERR_NOT_FOUND);
    }
    ck_assert_str_eq(entries[N].name, "file");
    ck_assert(!entries[N].is_dir);
    ps_mem_free(entries);
    ck_assert_int_eq(ps_disk_rename(ps_posix_disk(), path, other, &err), PS_OK);
    ck_assert_int_eq(ps_disk_rename(ps_posix_disk(), path, other, &err), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_disk_sync_dir(ps_posix_disk(), folder, &err), PS_OK);
    ck_assert_int_eq(ps_disk_list(ps_posix_disk(), path, &entries, &n, &err), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_disk_sync_dir(ps_posix_disk(), path, &err), PS_ERR_NOT_FOUND);
    remove_folder();
}
END_TEST

START_TEST(a_lock_has_one_holder_and_goes_with_it)
{
    make_folder();
    struct ps_disk_file *lock = NULL;
    struct ps_disk_file *second = NULL;
    ck_assert_int_eq(ps_disk_lock(ps_posix_disk(), path, &lock, &err), PS_OK);
    ck_assert_int_eq(ps_disk_lock(ps_posix_disk(), path, &second, &err), PS_ERR_EXISTS);
    char expect[64];
    (void)snprintf(expect, sizeof(expect), "is in use by process %d", getpid());
    ck_assert_msg(strstr(err.text, expect) != NULL, "%s", err.text);
    ps_disk_file_close(lock);

    pid_t child = fork(); /* Held by a process that is killed. */
    if (child == 0) {
        enum ps_status status = ps_disk_lock(ps_posix_disk(), path, &lock, NULL);
        (void)raise(status == PS_OK ? SIGKILL : SIGABRT);
    }
    int how = 0;
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    ck_assert_int_eq(WTERMSIG(how), SIGKILL);
    ck_assert_int_eq(ps_disk_lock(ps_posix_disk(), path, &second, &err), PS_OK);
    ps_disk_file_close(second);
    remove_folder();
}
END_TEST

Suite *suite_posix_file(void)
{
    Suite *suite = suite_create("posix file");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, what_passes_memory_by_is_there_whole_at_any_place_and_length);
    tcase_add_test(tcase, a_file_without_room_refuses_what_passes_memory_by);
    tcase_add_test(tcase, many_slices_are_one_write_and_come_back);
    tcase_add_test(tcase, an_open_says_what_it_expects);
    tcase_add_test(tcase, a_full_disk_is_told_from_a_broken_one);
    tcase_add_test(tcase, a_folder_is_listed_by_name);
    tcase_add_test(tcase, a_lock_has_one_holder_and_goes_with_it);
    suite_add_tcase(suite, tcase);
    return suite;
}
