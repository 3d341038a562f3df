/*
 * test_source.c — what a user may type for data: files, folders, patterns, lists, in an order of
 * ours; what is refused and by which words; parts that cover every byte once.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/source.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

static struct temp_folder folder;

static void put(const char *name, const char *text)
{
    temp_folder_put(&folder, name, (const uint8_t *)text, strlen(text));
}

static void setup(void)
{
    temp_folder_make(&folder);
}

static void teardown(void)
{
    temp_folder_remove(&folder);
}

/* `what` with every '@' replaced by the folder. */
static enum ps_status open_at(struct ps_mem *mem, const char *what, struct ps_source **ret,
                              struct ps_error *err)
{
    char full[1024];
    size_t used = 0;
    for (; *what != '\0'; what++) {
        used +=
            (size_t)(*what == '@' ? snprintf(full + used, sizeof(full) - used, "%s", folder.path)
                                  : snprintf(full + used, sizeof(full) - used, "%c", *what));
    }
    full[used] = '\0';
    return ps_source_open(mem, full, ret, err);
}

static const struct {
    const char *what;
    const char *names;
} finds[] = {
    {"@/b", "b"},     {"@", "B b b,c d.gz "},   {"@/[bB]", "B b"},
    {"@/?", "B b"},   {"@/d.gz,@/b", "d.gz b"}, {"@/b,@/?.gz", "b d.gz"},
    {"@/b,c", "b,c"},
};

START_TEST(files_are_found_in_their_order)
{
    put("b", "1\n");
    put("B", "1\n");
    put("b,c", "1\n");
    put(".hidden", "1\n");
    put("_SUCCESS", "1\n");
    temp_folder_put_gzip(&folder, "d.gz", (const uint8_t *)"1\n", 2);
    struct ps_source *source = NULL;
    struct ps_error err = {0};
    ck_assert_msg(open_at(NULL, finds[_i].what, &source, &err) == PS_OK, "%s", err.text);
    char names[256] = "";
    for (uint32_t i = 0; i < source->n_files; i++) {
        strncat(names, i > 0 ? " " : "", sizeof(names) - strlen(names) - 1);
        strncat(names, source->files[i].name, sizeof(names) - strlen(names) - 1);
        bool packed = strcmp(source->files[i].name, "d.gz") == 0;
        ck_assert_uint_eq(source->files[i].n_bytes, 2);
        ck_assert_int_eq(packed, source->files[i].n_disk > 2);
        ck_assert_int_eq(packed, source->files[i].texts != NULL);
        ck_assert_int_eq(source->files[i].packing, PS_PACKING_NONE);
    }
    ck_assert_msg(strncmp(names, finds[_i].names, strlen(names)) == 0, "'%s'", names);
    ps_source_close(source);
}
END_TEST

static const struct {
    const char *what;
    enum ps_status status;
    const char *words;
} refusals[] = {
    {"@/none", PS_ERR_NOT_FOUND, "cannot open"},
    {"@/none*", PS_ERR_NOT_FOUND, "no file fits"},
    {"@/sub", PS_ERR_NOT_FOUND, "holds no files"},
    {"@/su?", PS_ERR_NOT_FOUND, "only folders fit"},
    {"@/a,,@/a", PS_ERR_INVALID, "no name"},
    {"@/a,", PS_ERR_INVALID, "no name"},
    {"", PS_ERR_INVALID, "no name"},
    {"@/a,@/a", PS_ERR_INVALID, "named twice"},
    {"@/a,@/[a]", PS_ERR_INVALID, "named twice"},
    {"@/pipe", PS_ERR_INVALID, "not a regular file"},
    {"@/x.xz", PS_ERR_INVALID, "is a xz file; expected text"},
    {"@/empty", PS_ERR_INVALID, "is empty"},
};

START_TEST(what_cannot_be_read_is_refused_by_name)
{
    char path[PATH_MAX];
    put("a", "1\n");
    put("x.xz", "\xfd"
                "7zXZ");
    temp_folder_put(&folder, "x.xz",
                    (const uint8_t *)"\xfd"
                                     "7zXZ\0",
                    6);
    temp_folder_put(&folder, "empty", (const uint8_t *)"", 0);
    (void)snprintf(path, sizeof(path), "%s/pipe", folder.path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    (void)snprintf(path, sizeof(path), "%s/sub", folder.path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_source *source = NULL;
    struct ps_error err = {0};
    enum ps_status status = open_at(&mem, refusals[_i].what, &source, &err);
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_msg(status == refusals[_i].status, "'%s': %d, '%s'", refusals[_i].what, (int)status,
                  err.text);
    ck_assert_msg(strstr(err.text, refusals[_i].words) != NULL, "'%s'", err.text);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

START_TEST(parts_cover_every_byte_once)
{
    put("a", "123456789\n");
    put("b", "1");
    temp_folder_put(&folder, "c", (const uint8_t *)"", 0);
    temp_folder_put_gzip(&folder, "d", (const uint8_t *)"12345\n", 6);
    put("e", "12345\n");
    struct ps_source *source = NULL;
    /* Once with "d" unpacked, once as it is. */
    ck_assert_int_eq(
        ps_source_open_within(NULL, folder.path, _i == 0 ? PS_UNPACK_BYTES : 0, &source, NULL),
        PS_OK);
    for (uint64_t part_bytes = 1; part_bytes < 40; part_bytes++) {
        uint64_t n = ps_source_parts(source, part_bytes);
        uint32_t file = 0;
        uint64_t at = 0;
        for (uint64_t i = 0; i < n; i++) {
            struct ps_part part = ps_source_part(source, part_bytes, i);
            while (part.file != file) {
                ck_assert_uint_eq(at, source->files[file].n_bytes);
                file++;
                at = 0;
            }
            ck_assert_uint_eq(part.begin, at);
            ck_assert_uint_gt(part.end, at);
            ck_assert(part.end - part.begin <= part_bytes ||
                      source->files[file].packing != PS_PACKING_NONE);
            at = part.end;
        }
        ck_assert_uint_eq(file, 4);
        ck_assert_uint_eq(at, source->files[4].n_bytes);
    }
    ps_source_close(source);
}
END_TEST

START_TEST(the_hash_knows_names_sizes_and_order_but_no_folders)
{
    struct temp_folder other;
    temp_folder_make(&other);
    temp_folder_put(&other, "a", (const uint8_t *)"3\n", 2);
    put("a", "1\n");
    put("b", "1\n");
    struct ps_source *one = NULL;
    struct ps_source *two = NULL;
    ck_assert_int_eq(open_at(NULL, "@/a", &one, NULL), PS_OK);
    ck_assert_int_eq(ps_source_open(NULL, other.path, &two, NULL), PS_OK);
    ck_assert_uint_eq(ps_source_hash(one), ps_source_hash(two));
    char text[64];
    ps_source_text(two, text, sizeof(text));
    ck_assert_str_eq(text, "1 file, 0.0 MB, a");
    ps_source_close(two);
    static const char *const others[] = {"@/b", "@", "@/b,@/a"};
    uint64_t hashes[4] = {ps_source_hash(one)};
    for (size_t i = 0; i < PS_ARRAY_LEN(others); i++) {
        ck_assert_int_eq(open_at(NULL, others[i], &two, NULL), PS_OK);
        hashes[i + 1] = ps_source_hash(two);
        for (size_t j = 0; j <= i; j++) {
            ck_assert_uint_ne(hashes[j], hashes[i + 1]);
        }
        ps_source_close(two);
    }
    ps_source_close(one);
    temp_folder_remove(&other);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    char name[8];
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        put(name, "1\n");
    }
    enum ps_status status = PS_ERR_NOMEM;
    for (int64_t k = 0; status != PS_OK && k < 100; k++) {
        struct ps_mem mem;
        struct ps_source *source = NULL;
        ps_mem_init(&mem);
        mem.fail_after = k;
        status = open_at(&mem, "@/f1*,@/f2*", &source, NULL);
        ck_assert(status == PS_OK || status == PS_ERR_NOMEM);
        ps_source_close(source);
        ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

Suite *suite_source(void)
{
    Suite *suite = suite_create("source");
    TCase *tcase = tcase_create("core");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, files_are_found_in_their_order, 0, (int)PS_ARRAY_LEN(finds));
    tcase_add_loop_test(tcase, what_cannot_be_read_is_refused_by_name, 0,
                        (int)PS_ARRAY_LEN(refusals));
    tcase_add_loop_test(tcase, parts_cover_every_byte_once, 0, 2);
    tcase_add_test(tcase, the_hash_knows_names_sizes_and_order_but_no_folders);
    tcase_add_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing);
    suite_add_tcase(suite, tcase);
    return suite;
}
