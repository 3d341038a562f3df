/*
 * test_files.c — files, and the rest that asks the kernel. Replacing is walked with every system
 * call refused once: before and after each the file is the old one or the new one.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>
#include <dirent.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/posix_disk.h"
#include "os/random.h"
#include "os/spill.h"
#include "unit/os/suites.h"

static char folder[] = "/tmp/ps-test-os-XXXXXX";
static char path[PATH_MAX];

static void make_folder(void)
{
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/file", folder);
}

static void remove_folder(void)
{
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* Nothing else was left in it. */
}

/* ---- Every call refused once --------------------------------------------------------------- */

static int countdown;
static int n_open;

static bool refuse(void)
{
    if (countdown-- == 0) {
        errno = EIO;
        return true;
    }
    return false;
}

static int fault_open(const char *name, int flags, mode_t mode)
{
    if (refuse()) {
        return -1;
    }
    n_open++;
    return ps_posix_file_calls()->open(name, flags, mode);
}

static ssize_t fault_write(int fd, const void *data, size_t n_bytes)
{
    size_t n_short = n_bytes > 3 ? 3 : n_bytes; /* Always short: callers must loop. */
    return refuse() ? -1 : ps_posix_file_calls()->write(fd, data, n_short);
}

static int fault_fsync(int fd)
{
    return refuse() ? -1 : ps_posix_file_calls()->fsync(fd);
}

static int fault_close(int fd)
{
    n_open--;
    return ps_posix_file_calls()->close(fd);
}

static int fault_rename(const char *from, const char *to)
{
    return refuse() ? -1 : ps_posix_file_calls()->rename(from, to);
}

static int fault_unlink(const char *name)
{
    return ps_posix_file_calls()->unlink(name);
}

static const struct ps_file_calls fault_calls = {fault_open,  fault_write,  fault_fsync,
                                                 fault_close, fault_rename, fault_unlink};

static void expect_content(const char *a, const char *b)
{
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_disk_read(ps_posix_disk(), path, 100, &data, &n_bytes, NULL), PS_OK);
    ck_assert_msg(strcmp((const char *)data, a) == 0 || strcmp((const char *)data, b) == 0,
                  "mixture: '%s'", (const char *)data);
    ps_mem_free(data);
}

START_TEST(a_replaced_file_is_the_old_or_the_new_one)
{
    static const char old_text[] = "the old content";
    static const char new_text[] = "something new";
    struct ps_posix_disk disk;
    ps_posix_disk_init(&disk, &fault_calls);
    make_folder();
    enum ps_status status = PS_ERR_IO;
    int fail_at = 0;
    for (; status != PS_OK; fail_at++) {
        ck_assert_int_lt(fail_at, 100); /* A bounded walk: this must end. */
        ck_assert_int_eq(ps_disk_replace(ps_posix_disk(), path, (const uint8_t *)old_text,
                                         strlen(old_text), NULL),
                         PS_OK);
        struct ps_error err = {0};
        countdown = fail_at;
        status =
            ps_disk_replace(&disk.base, path, (const uint8_t *)new_text, strlen(new_text), &err);
        expect_content(new_text, status == PS_OK ? new_text : old_text);
        ck_assert_int_eq(n_open, 0);
        if (status != PS_OK) {
            ck_assert_int_eq(status, PS_ERR_IO);
            ck_assert_ptr_nonnull(strstr(err.text, "replace '"));
        }
    }
    expect_content(new_text, new_text);
    ck_assert_int_gt(fail_at, 9); /* It did walk: open, 5 writes, fsync, rename, open, fsync. */
    remove_folder();
}
END_TEST

static void put_text(const char *text)
{
    ck_assert_int_eq(
        ps_disk_replace(ps_posix_disk(), path, (const uint8_t *)text, strlen(text), NULL), PS_OK);
}

START_TEST(a_file_written_in_pieces_is_there_as_a_whole_or_not_at_all)
{
    struct ps_replacing replacing;
    make_folder();
    put_text("old");
    ck_assert_int_eq(ps_replacing_begin(&replacing, path, NULL), PS_OK);
    ck_assert_int_eq(ps_replacing_write(&replacing, 4, "content", 7, NULL), PS_OK);
    ck_assert_int_eq(ps_replacing_write(&replacing, 0, "new ", 4, NULL), PS_OK);
    expect_content("old", "old");
    ck_assert_int_eq(ps_replacing_finish(&replacing, NULL), PS_OK);
    expect_content("new content", "new content");
    ck_assert_int_eq(ps_replacing_begin(&replacing, path, NULL), PS_OK);
    ck_assert_int_eq(ps_replacing_write(&replacing, 0, "third", 5, NULL), PS_OK);
    ps_replacing_cancel(&replacing);
    expect_content("new content", "new content");
    remove_folder();
}
END_TEST

static size_t count_entries(void)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    ck_assert_int_eq(closedir(dir), 0);
    return n - 2; /* "." and "..". */
}

START_TEST(a_process_that_is_killed_leaves_no_part_of_a_file)
{
    struct ps_replacing replacing;
    make_folder();
    put_text("old");
    int probe = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (probe < 0) {
        (void)printf("skipped: files of %s must have names\n", folder);
        remove_folder();
        return;
    }
    ck_assert_int_eq(close(probe), 0);
    ck_assert_int_eq(ps_replacing_begin(&replacing, path, NULL), PS_OK);
    ck_assert_int_eq(ps_replacing_write(&replacing, 0, "new", 3, NULL), PS_OK);
    ck_assert_uint_eq(count_entries(), 1);
    ck_assert_int_eq(close(replacing.fd), 0); /* As the end of the process does. */
    ck_assert_uint_eq(count_entries(), 1);
    expect_content("old", "old");
    remove_folder();
}
END_TEST

START_TEST(a_file_in_pieces_has_no_place_in_a_missing_folder_or_on_a_device)
{
    struct ps_replacing replacing;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_replacing_begin(&replacing, "/nowhere/file", &err), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "replace '/nowhere/file'"));
    ck_assert_int_eq(ps_replacing_begin(&replacing, "/dev/null", &err), PS_ERR_INVALID);
    /* The folder went away meanwhile. */
    make_folder();
    ck_assert_int_eq(ps_replacing_begin(&replacing, path, &err), PS_OK);
    (void)unlink(replacing.temp); /* Where files must have names. */
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(ps_replacing_finish(&replacing, &err), PS_ERR_IO);
}
END_TEST

START_TEST(a_spill_is_read_as_it_was_written_and_has_no_name)
{
    struct ps_spill spill;
    struct ps_file_view view;
    struct ps_error err = {0};
    make_folder();
    ck_assert_int_eq(ps_spill_open(&spill, folder, NULL), PS_OK);
    ck_assert_int_eq(ps_spill_map(&spill, &view, NULL), PS_OK);
    ck_assert_uint_eq(view.n_bytes, 0);
    ck_assert_int_eq(ps_spill_add(&spill, "abc", 3, NULL), PS_OK);
    ck_assert_int_eq(ps_spill_add(&spill, "defg", 4, NULL), PS_OK);
    ck_assert_int_eq(ps_spill_map(&spill, &view, NULL), PS_OK);
    ck_assert_uint_eq(view.n_bytes, 7);
    ck_assert_mem_eq(view.data, "abcdefg", 7);
    ps_file_unmap(&view);
    remove_folder(); /* Though the spill is open. */
    ps_spill_close(&spill);
    ck_assert_int_eq(ps_spill_open(&spill, "/nowhere", &err), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "'/nowhere'"));
}
END_TEST

#define N_WRITERS 4

static void *replace_often(void *arg)
{
    enum ps_status *status = arg;
    char text[64];
    memset(text, 'a' + (int)*status, sizeof(text));
    *status = PS_OK;
    for (int i = 0; i < 50 && *status == PS_OK; i++) {
        *status = ps_disk_replace(ps_posix_disk(), path, (const uint8_t *)text, sizeof(text), NULL);
    }
    return NULL;
}

/* Workers of one job that were all told to write the model. */
START_TEST(a_file_that_several_replace_at_once_is_that_of_one_of_them)
{
    pthread_t threads[N_WRITERS];
    enum ps_status status[N_WRITERS];
    make_folder();
    for (int i = 0; i < N_WRITERS; i++) {
        status[i] = (enum ps_status)i; /* Which one it is. */
        ck_assert_int_eq(pthread_create(&threads[i], NULL, replace_often, &status[i]), 0);
    }
    for (int i = 0; i < N_WRITERS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < N_WRITERS; i++) {
        ck_assert_int_eq(status[i], PS_OK);
    }
    remove_folder(); /* Nothing else is left in it. */
}
END_TEST

/* ---- Reading ------------------------------------------------------------------------------- */

static void write_file(size_t n_bytes)
{
    uint8_t *data = malloc(n_bytes + 1);
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < n_bytes; i++) {
        data[i] = (uint8_t)(i * 7 + i / 251);
    }
    ck_assert_int_eq(ps_disk_replace(ps_posix_disk(), path, data, n_bytes, NULL), PS_OK);
    free(data);
}

START_TEST(read_and_map_see_the_same_bytes)
{
    static const size_t sizes[] = {0, 1, 4094, 4095, 4096, 4097, 1000003};
    make_folder();
    for (size_t i = 0; i < PS_ARRAY_LEN(sizes); i++) {
        write_file(sizes[i]);
        uint8_t *data = NULL;
        size_t n_bytes = 99;
        struct ps_file_view view;
        ck_assert_int_eq(ps_file_read(NULL, path, sizes[i], &data, &n_bytes, NULL), PS_OK);
        ck_assert_int_eq(ps_file_map(path, &view, NULL), PS_OK);
        ck_assert_uint_eq(n_bytes, sizes[i]);
        ck_assert_uint_eq(view.n_bytes, sizes[i]);
        ck_assert_uint_eq(data[n_bytes], 0);
        ck_assert(sizes[i] == 0 || memcmp(data, view.data, n_bytes) == 0);
        ps_file_unmap(&view);
        ps_file_unmap(&view); /* Harmless. */
        ps_mem_free(data);
        if (sizes[i] > 0) {
            struct ps_error err = {0};
            ck_assert_int_eq(ps_file_read(NULL, path, sizes[i] - 1, &data, &n_bytes, &err),
                             PS_ERR_INVALID);
            ck_assert_ptr_nonnull(strstr(err.text, path));
        }
    }
    remove_folder();
}
END_TEST

START_TEST(what_cannot_be_read_says_why)
{
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    struct ps_file_view view;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_file_read(NULL, "/no/file", 9, &data, &n_bytes, &err), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/no/file"));
    ck_assert_int_eq(ps_file_map("/no/file", &view, &err), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_file_map("/tmp", &view, &err), PS_ERR_INVALID);
    ck_assert_int_eq(ps_file_read(NULL, "/tmp", 9, &data, &n_bytes, &err), PS_ERR_IO);
    ck_assert_int_eq(ps_disk_replace(ps_posix_disk(), "/no/file", NULL, 0, &err), PS_ERR_IO);
}
END_TEST

START_TEST(reading_respects_the_budget)
{
    make_folder();
    write_file(100000);
    struct ps_mem mem;
    ps_mem_init(&mem);
    mem.limit[PS_MEM_DATA] = 50000;
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_file_read(&mem, path, 200000, &data, &n_bytes, NULL), PS_ERR_NOMEM);
    ck_assert_uint_eq(atomic_load(&mem.used[PS_MEM_DATA]), 0);
    remove_folder();
}
END_TEST

START_TEST(a_folder_is_made_with_its_parents)
{
    make_folder();
    char deep[PATH_MAX + 16];
    struct stat info;
    (void)snprintf(deep, sizeof(deep), "%s/a/b//c/", folder);
    for (int i = 0; i < 2; i++) { /* One that exists is fine. */
        ck_assert_int_eq(ps_disk_make_dir(ps_posix_disk(), deep, NULL), PS_OK);
    }
    ck_assert_int_eq(stat(deep, &info), 0);
    ck_assert(S_ISDIR(info.st_mode));
    write_file(1);
    struct ps_error err = {0};
    (void)snprintf(deep, sizeof(deep), "%s/file/x", folder);
    ck_assert_int_eq(ps_disk_make_dir(ps_posix_disk(), deep, &err), PS_ERR_IO);
    static const char *const parts[] = {"a/b/c", "a/b", "a"};
    for (size_t i = 0; i < PS_ARRAY_LEN(parts); i++) {
        (void)snprintf(deep, sizeof(deep), "%s/%s", folder, parts[i]);
        ck_assert_int_eq(rmdir(deep), 0);
    }
    remove_folder();
}
END_TEST

/* ---- The rest ------------------------------------------------------------------------------ */

static const struct {
    const char *text;
    uint32_t cpus;
} quotas[] = {
    {"max 100000\n", 0}, {"200000 100000\n", 2}, {"150000 100000", 2},
    {"1 100000", 1},     {"100001 100000\n", 2}, {"", 0},
    {"0 100000", 0},     {"-1 100000", 0},       {"100000 0", 0},
    {"nonsense", 0},     {"50000 100000", 1},
};

START_TEST(a_quota_is_rounded_up_to_cpus)
{
    ck_assert_msg(ps_cpu_from_cpu_max(quotas[_i].text) == quotas[_i].cpus, "'%s'", quotas[_i].text);
}
END_TEST

static const struct {
    const char *text;
    uint64_t bytes;
} limits[] = {
    {"1073741824", 1073741824},
    {"max", UINT64_MAX},
    {"", UINT64_MAX},
    {"0", UINT64_MAX},
    {"12 MB", UINT64_MAX},
    {"-1", UINT64_MAX},
    {"9223372036854771712", 9223372036854771712u}, /* Version 1 without a limit. */
    {"99999999999999999999", UINT64_MAX},
};

START_TEST(a_limit_of_memory_is_a_number_or_none)
{
    ck_assert_msg(ps_memory_from_limit(limits[_i].text) == limits[_i].bytes, "'%s'",
                  limits[_i].text);
}
END_TEST

START_TEST(this_machine_has_memory_and_no_more_than_it_has)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    ck_assert_uint_ge(ps_memory_usable(), 1u << 20);
    ck_assert_uint_le(ps_memory_usable(), all);
}
END_TEST

START_TEST(this_machine_has_a_cpu_and_no_more_than_it_has)
{
    ck_assert_uint_ge(ps_cpu_usable(), 1);
    ck_assert_uint_le(ps_cpu_usable(), (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
}
END_TEST

START_TEST(random_names_differ)
{
    struct ps_id ids[64];
    for (size_t i = 0; i < PS_ARRAY_LEN(ids); i++) {
        ps_random_id(&ids[i]);
        ck_assert(!ps_id_none(&ids[i]));
        for (size_t k = 0; k < i; k++) {
            ck_assert(!ps_id_equal(&ids[i], &ids[k]));
        }
    }
}
END_TEST

START_TEST(the_clock_does_not_go_back)
{
    uint64_t before_ns = ps_clock_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now_ns = ps_clock_source(NULL);
        ck_assert_uint_ge(now_ns, before_ns);
        before_ns = now_ns;
    }
    ck_assert_uint_ge(ps_clock_ms(), before_ns / 1000000);
    ck_assert_uint_gt(ps_clock_wall_ms(), 1600000000000u); /* After 2020. */
}
END_TEST

/* As root, a rename over /dev/null would take it away from everybody. */
START_TEST(a_device_is_not_replaced_by_a_file)
{
    struct ps_error err = {0};
    ck_assert_int_eq(ps_disk_replace(ps_posix_disk(), "/dev/null", NULL, 0, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "'/dev/null' exists and is no regular file"));
}
END_TEST

Suite *suite_files(void)
{
    Suite *suite = suite_create("files");
    TCase *tcase = tcase_create("files");
    tcase_add_test(tcase, a_replaced_file_is_the_old_or_the_new_one);
    tcase_add_test(tcase, a_file_written_in_pieces_is_there_as_a_whole_or_not_at_all);
    tcase_add_test(tcase, a_file_in_pieces_has_no_place_in_a_missing_folder_or_on_a_device);
    tcase_add_test(tcase, a_process_that_is_killed_leaves_no_part_of_a_file);
    tcase_add_test(tcase, a_spill_is_read_as_it_was_written_and_has_no_name);
    tcase_add_test(tcase, a_file_that_several_replace_at_once_is_that_of_one_of_them);
    tcase_add_test(tcase, a_device_is_not_replaced_by_a_file);
    tcase_add_test(tcase, read_and_map_see_the_same_bytes);
    tcase_add_test(tcase, what_cannot_be_read_says_why);
    tcase_add_test(tcase, reading_respects_the_budget);
    tcase_add_test(tcase, a_folder_is_made_with_its_parents);
    tcase_add_loop_test(tcase, a_quota_is_rounded_up_to_cpus, 0, (int)PS_ARRAY_LEN(quotas));
    tcase_add_test(tcase, this_machine_has_a_cpu_and_no_more_than_it_has);
    tcase_add_loop_test(tcase, a_limit_of_memory_is_a_number_or_none, 0, (int)PS_ARRAY_LEN(limits));
    tcase_add_test(tcase, this_machine_has_memory_and_no_more_than_it_has);
    tcase_add_test(tcase, random_names_differ);
    tcase_add_test(tcase, the_clock_does_not_go_back);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_mailbox, suite_exec, suite_files, suite_posix_file)
