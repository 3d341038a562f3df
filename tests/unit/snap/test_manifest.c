/* test_manifest.c — PART and MANIFEST: what is written is read; what lies is refused in words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "snap/manifest.h"
#include "unit/snap/suites.h"

static struct ps_error err;

/* `json` as a file would have it: with the line of its sum. */
static uint8_t *sealed(const char *json, size_t *ret_n_bytes)
{
    size_t n = strlen(json);
    char *text = malloc(n + 64);
    char sum[PS_CHECKSUM128_TEXT_BYTES];
    ck_assert_ptr_nonnull(text);
    memcpy(text, json, n);
    text[n++] = '\n';
    ps_checksum128_text(ps_checksum128(text, n), sum);
    n += (size_t)snprintf(text + n, 64, "xxh3 %s\n", sum);
    *ret_n_bytes = n;
    return (uint8_t *)text;
}

START_TEST(a_part_is_read_as_it_was_written)
{
    struct ps_checksum128 sums[2] = {{.low = 1, .high = 2}, {.low = UINT64_MAX, .high = 3}};
    struct ps_snap_file files[2] = {
        {.name = "fc1.weight.safetensors", .table = 1, .n_bytes = (1u << 20) + 1, .n_chunks = 2},
        {.name = "SLOTS"}};
    struct ps_snap_part part = {.generation = UINT64_MAX,
                                .cut = UINT64_C(1) << 60,
                                .cluster = {.bytes = {7}},
                                .key_seed = UINT64_MAX - 1,
                                .base_lsn = UINT64_C(9007199254740993), /* No double. */
                                .server = 1,
                                .n_servers = 2,
                                .files = files,
                                .n_files = 2,
                                .n_slots = 1,
                                .slots = {{.slot = 63, .epoch = 5, .position = UINT64_MAX}}};
    struct ps_snap_part read;
    uint8_t *text = NULL;
    size_t n_bytes = 0;
    files[0].chunks = sums;
    ck_assert_int_eq(ps_snap_part_write(NULL, &part, &text, &n_bytes, &err), PS_OK);
    enum ps_status status = ps_snap_part_read(NULL, text, n_bytes, &read, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    ck_assert_uint_eq(read.generation, part.generation);
    ck_assert_uint_eq(read.cut, part.cut);
    ck_assert_uint_eq(read.key_seed, part.key_seed);
    ck_assert_uint_eq(read.base_lsn, part.base_lsn);
    ck_assert_mem_eq(&read.cluster, &part.cluster, sizeof(read.cluster));
    ck_assert_uint_eq(read.server, 1);
    ck_assert_uint_eq(read.n_files, 2);
    ck_assert_str_eq(read.files[0].name, files[0].name);
    ck_assert_uint_eq(read.files[0].table, 1);
    ck_assert_uint_eq(read.files[0].n_chunks, 2);
    ck_assert(ps_checksum128_equal(read.files[0].chunks[1], sums[1]));
    ck_assert_uint_eq(read.files[1].table, 0);
    ck_assert_uint_eq(read.slots[0].position, UINT64_MAX);
    ps_snap_part_deinit(&read);
    ps_mem_free(text);
}
END_TEST

#define HEAD                                                                                   \
    "\"format\":1,\"generation\":\"1\",\"cut\":\"2\",\"cluster\":"                             \
    "\"00000000000000000000000000000001\",\"key_seed\":\"3\",\"base_lsn\":\"4\",\"server\":0," \
    "\"servers\":1"
#define EMPTY "{\"name\":\"SLOTS\",\"bytes\":\"0\",\"chunks\":\"\"}"

/* clang-format off */
static const struct {
    const char *json;
    enum ps_status status;
    const char *words;
} parts[] = {
    {"{" HEAD ",\"slots\":[],\"files\":[" EMPTY "]}", PS_OK, ""},
    {"{" HEAD ",\"slots\":[],\"files\":[],\"more\":{\"of\":[1]}}", PS_OK, ""},
    {"{}", PS_ERR_CORRUPT, "'format'"},
    {"[]", PS_ERR_CORRUPT, "one JSON object"},
    {"{}{}", PS_ERR_CORRUPT, "one JSON object"},
    {"{\"format\":2}", PS_ERR_UNSUPPORTED, "format 2"},
    {"{\"format\":1}", PS_ERR_CORRUPT, "'generation'"},
    {"{\"format\":1,\"generation\":1}", PS_ERR_CORRUPT, "'generation'"},
    {"{\"format\":1,\"generation\":\"01\"}", PS_ERR_CORRUPT, "'generation'"},
    {"{\"format\":1,\"generation\":\"-1\"}", PS_ERR_CORRUPT, "'generation'"},
    {"{\"format\":1,\"generation\":\"18446744073709551616\"}", PS_ERR_CORRUPT, "'generation'"},
    {"{" HEAD "}", PS_ERR_CORRUPT, "'slots'"},
    {"{" HEAD ",\"slots\":[{\"slot\":64,\"epoch\":\"1\",\"position\":\"1\"}]}", PS_ERR_CORRUPT,
     "'slots'"},
    {"{" HEAD ",\"slots\":[{\"slot\":1,\"epoch\":\"1\",\"position\":\"1\"},"
     "{\"slot\":1,\"epoch\":\"1\",\"position\":\"1\"}]}", PS_ERR_CORRUPT, "'slots'"},
    {"{" HEAD ",\"slots\":[]}", PS_ERR_CORRUPT, "'files'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{}]}", PS_ERR_CORRUPT, "'name'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"../x\"}]}", PS_ERR_CORRUPT, "'name'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"..\"}]}", PS_ERR_CORRUPT, "'name'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"/etc\"}]}", PS_ERR_CORRUPT, "'name'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"\"}]}", PS_ERR_CORRUPT, "'name'"},
    {"{" HEAD ",\"slots\":[],\"files\":[" EMPTY "," EMPTY "]}", PS_ERR_CORRUPT, "twice"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"a\",\"table\":256}]}", PS_ERR_CORRUPT,
     "'table'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"a\",\"bytes\":\"1\",\"chunks\":\"\"}]}",
     PS_ERR_CORRUPT, "'chunks'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"a\",\"bytes\":\"0\",\"chunks\":"
     "\"0000000000000000000000000000000\"}]}", PS_ERR_CORRUPT, "'chunks'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"a\",\"bytes\":\"18446744073709551615\","
     "\"chunks\":\"\"}]}", PS_ERR_CORRUPT, "'chunks'"},
    {"{" HEAD ",\"slots\":[],\"files\":[{\"name\":\"a\",\"bytes\":\"9\",\"chunks\":"
     "\"0000000000000000000000000000000g\"}]}", PS_ERR_CORRUPT, "'chunks'"},
};
/* clang-format on */

START_TEST(a_part_is_believed_only_as_far_as_it_can_be_true)
{
    struct ps_snap_part part;
    size_t n_bytes = 0;
    uint8_t *text = sealed(parts[_i].json, &n_bytes);
    err.text[0] = '\0';
    enum ps_status status = ps_snap_part_read(NULL, text, n_bytes, &part, &err);
    ck_assert_msg(status == parts[_i].status, "%s: %d %s", parts[_i].json, (int)status, err.text);
    ck_assert_msg(status == PS_OK || strstr(err.text, parts[_i].words) != NULL, "%s: %s",
                  parts[_i].json, err.text);
    if (status == PS_OK) {
        ps_snap_part_deinit(&part);
    }
    free(text);
}
END_TEST

START_TEST(a_manifest_is_read_as_it_was_written)
{
    static struct ps_manifest manifest = {
        .generation = 2,
        .cut = 42,
        .taken = "2026-01-02T03:04:05Z",
        .n_job_bytes = 99,
        .job_sum = {.low = 5, .high = 6},
        .n_parts = 2,
        .parts = {{.server = 0, .address = "a:1", .here = true, .n_bytes = 10, .sum = {.low = 1}},
                  {.server = 1, .address = "b:2", .n_bytes = 11, .sum = {.high = 1}}}};
    static struct ps_manifest read;
    uint8_t *text = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_manifest_write(NULL, &manifest, &text, &n_bytes, &err), PS_OK);
    enum ps_status status = ps_manifest_read(text, n_bytes, &read, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    ck_assert_mem_eq(&read, &manifest, sizeof(read));
    for (size_t n = 0; n < n_bytes; n++) {
        ck_assert_int_eq(ps_manifest_read(text, n, &read, &err), PS_ERR_CORRUPT);
    }
    ps_mem_free(text);
}
END_TEST

START_TEST(a_snapshot_has_one_name)
{
    static const char *const wrong[] = {"",
                                        "-",
                                        "1-1",
                                        "000001-1",
                                        "000001-00000000042",
                                        "a-b",
                                        "000001",
                                        "000001-",
                                        "-0000000042",
                                        "000001-0000000042.tmp",
                                        "0000001-0000000042",
                                        "99999999999999999999999999-1",
                                        "+00001-0000000042"};
    static const struct {
        uint64_t generation;
        uint64_t cut;
        const char *name;
    } right[] = {{1, 42, "000001-0000000042"},
                 {0, 0, "000000-0000000000"},
                 {1234567, 12345678901, "1234567-12345678901"},
                 {UINT64_MAX, UINT64_MAX, "18446744073709551615-18446744073709551615"}};
    uint64_t generation = 0;
    uint64_t cut = 0;
    for (size_t i = 0; i < PS_ARRAY_LEN(wrong); i++) {
        ck_assert_msg(!ps_snap_dir_parse(wrong[i], &generation, &cut), "%s", wrong[i]);
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(right); i++) {
        char name[PS_SNAP_DIR_BYTES];
        ps_snap_dir_name(right[i].generation, right[i].cut, name);
        ck_assert_str_eq(name, right[i].name);
        ck_assert(ps_snap_dir_parse(name, &generation, &cut));
        ck_assert_uint_eq(generation, right[i].generation);
        ck_assert_uint_eq(cut, right[i].cut);
    }
}
END_TEST

Suite *suite_manifest(void)
{
    Suite *suite = suite_create("manifest");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, a_part_is_read_as_it_was_written);
    tcase_add_loop_test(tcase, a_part_is_believed_only_as_far_as_it_can_be_true, 0,
                        (int)PS_ARRAY_LEN(parts));
    tcase_add_test(tcase, a_manifest_is_read_as_it_was_written);
    tcase_add_test(tcase, a_snapshot_has_one_name);
    suite_add_tcase(suite, tcase);
    return suite;
}
