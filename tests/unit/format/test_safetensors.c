/*
 * test_safetensors.c — golden bytes, a round trip, every prefix and many flips of a good file, and
 * a table of headers that lie.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/rng.h"
#include "format/safetensors.h"
#include "lib/test_main.h"
#include "unit/train/memory_disk.h"

static const float weight[] = {1.0f, -2.5f, 3.0f, 0.0f, 1e-30f, 6.0f};
static const float bias[] = {0.5f, 0.25f, -1.0f};
static const struct ps_tensor_note notes[] = {{"model", "softmax"}, {"note", "a \"quote\"\n"}};

static struct ps_tensor_file two_tensors(struct ps_tensor_view tensors[2])
{
    tensors[0] = ps_tensor_over("softmax.weight", weight, (uint64_t[]){2, 3}, 2);
    tensors[1] = ps_tensor_over("softmax.bias", bias, (uint64_t[]){3}, 1);
    return (struct ps_tensor_file){
        .tensors = tensors,
        .n_tensors = 2,
        .notes = notes,
        .n_notes = PS_ARRAY_LEN(notes),
    };
}

static uint8_t *build(size_t *ret_n_bytes)
{
    struct ps_tensor_view tensors[2];
    struct ps_tensor_file file = two_tensors(tensors);
    uint8_t *bytes = NULL;
    ck_assert_int_eq(ps_safetensors_build(NULL, &file, &bytes, ret_n_bytes, NULL), PS_OK);
    return bytes;
}

START_TEST(the_bytes_are_these)
{
    static const char head[] =
        "{\"__metadata__\":{\"model\":\"softmax\",\"note\":\"a \\\"quote\\\"\\n\"},"
        "\"softmax.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"softmax.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]}}";
    size_t n_bytes = 0;
    uint8_t *bytes = build(&n_bytes);
    uint64_t n_head = ps_load_u64(bytes);
    ck_assert_uint_eq(n_head % 8, 0);
    ck_assert_uint_ge(n_head, sizeof(head) - 1);
    ck_assert_uint_lt(n_head, sizeof(head) - 1 + 8);
    ck_assert_mem_eq(bytes + 8, head, sizeof(head) - 1);
    for (size_t i = sizeof(head) - 1; i < n_head; i++) {
        ck_assert_uint_eq(bytes[8 + i], ' ');
    }
    ck_assert_uint_eq(n_bytes, 8 + n_head + sizeof(weight) + sizeof(bias));
    ck_assert_mem_eq(bytes + 8 + n_head, weight, sizeof(weight));
    ck_assert_mem_eq(bytes + 8 + n_head + sizeof(weight), bias, sizeof(bias));
    ps_mem_free(bytes);
}
END_TEST

START_TEST(what_is_written_is_read_back)
{
    static struct memory_disk memory;
    static struct ps_tensor_view read[PS_SAFETENSORS_TENSORS_MAX];
    struct ps_tensor_view tensors[2];
    struct ps_tensor_file file = two_tensors(tensors);
    struct ps_error err = {0};
    size_t n = 0;
    memory_disk_init(&memory);
    ck_assert_int_eq(ps_safetensors_write(&memory.disk, "out/model.safetensors", &file, &err),
                     PS_OK);
    ck_assert_str_eq(memory.path, "out/model.safetensors");
    ck_assert_msg(ps_safetensors_parse(memory.data, memory.n_bytes, read, &n, &err) == PS_OK, "%s",
                  err.text);
    ck_assert_uint_eq(n, 2);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(read[i].name, tensors[i].name);
        ck_assert_uint_eq(read[i].n_dims, tensors[i].n_dims);
        ck_assert_mem_eq(read[i].dims, tensors[i].dims, sizeof(read[i].dims));
        ck_assert_uint_eq(read[i].n_values, tensors[i].n_values);
        ck_assert_mem_eq(read[i].data, tensors[i].data, tensors[i].n_values * sizeof(float));
    }
}
END_TEST

START_TEST(keys_are_read_back_and_a_head_alone_is_the_beginning_of_the_file)
{
    static const uint64_t keys[] = {3, UINT64_MAX};
    static struct ps_tensor_view read[PS_SAFETENSORS_TENSORS_MAX];
    struct ps_tensor_view tensors[] = {
        {.name = "t.keys",
         .type = PS_TENSOR_U64,
         .n_dims = 1,
         .dims = {2},
         .n_values = 2,
         .data = (const uint8_t *)keys},
        ps_tensor_over("softmax.bias", bias, (uint64_t[]){3}, 1),
    };
    struct ps_tensor_file file = {
        .tensors = tensors, .n_tensors = 2, .notes = notes, .n_notes = PS_ARRAY_LEN(notes)};
    uint8_t *whole = NULL;
    uint8_t *head = NULL;
    size_t n_bytes = 0;
    size_t n_head = 0;
    size_t n = 0;
    ck_assert_int_eq(ps_safetensors_build(NULL, &file, &whole, &n_bytes, NULL), PS_OK);
    ck_assert_int_eq(ps_safetensors_head(NULL, &file, &head, &n_head, NULL), PS_OK);
    ck_assert_uint_eq(n_bytes, n_head + sizeof(keys) + sizeof(bias));
    ck_assert_mem_eq(whole, head, n_head);
    ck_assert_int_eq(ps_safetensors_parse(whole, n_bytes, read, &n, NULL), PS_OK);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(read[0].type, PS_TENSOR_U64);
    ck_assert_mem_eq(read[0].data, keys, sizeof(keys));
    ck_assert_int_eq(read[1].type, PS_TENSOR_F32);
    ps_mem_free(whole);
    ps_mem_free(head);
}
END_TEST

START_TEST(a_note_is_read_by_its_key)
{
    size_t n_bytes = 0;
    uint8_t *bytes = build(&n_bytes);
    char *text = NULL;
    ck_assert_int_eq(ps_safetensors_note(NULL, bytes, n_bytes, "note", &text, NULL), PS_OK);
    ck_assert_str_eq(text, "a \"quote\"\n");
    ps_mem_free(text);
    ck_assert_int_eq(ps_safetensors_note(NULL, bytes, n_bytes, "nothing", &text, NULL), PS_OK);
    ck_assert_ptr_null(text);
    ck_assert_int_eq(ps_safetensors_note(NULL, bytes, 20, "note", &text, NULL), PS_ERR_CORRUPT);
    ps_mem_free(bytes);
}
END_TEST

START_TEST(a_header_beyond_the_bound_is_not_written)
{
    char *text = malloc(PS_SAFETENSORS_HEAD_BYTES_MAX + 1);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', PS_SAFETENSORS_HEAD_BYTES_MAX);
    text[PS_SAFETENSORS_HEAD_BYTES_MAX] = '\0';
    struct ps_tensor_note note = {"note", text};
    struct ps_tensor_file file = {.notes = &note, .n_notes = 1};
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_safetensors_build(NULL, &file, &bytes, &n_bytes, NULL), PS_ERR_UNSUPPORTED);
    free(text);
}
END_TEST

START_TEST(a_full_disk_and_no_memory_are_reported)
{
    static struct memory_disk memory;
    struct ps_tensor_view tensors[2];
    struct ps_tensor_file file = two_tensors(tensors);
    memory_disk_init(&memory);
    memory.full = true;
    ck_assert_int_eq(ps_safetensors_write(&memory.disk, "model", &file, NULL), PS_ERR_IO);

    struct ps_mem mem;
    ps_mem_init(&mem);
    mem.fail_after = 0;
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    ck_assert_int_eq(ps_safetensors_build(&mem, &file, &bytes, &n_bytes, NULL), PS_ERR_NOMEM);
    ck_assert_ptr_null(bytes);
}
END_TEST

/* A file of the exact size, so that a sanitizer sees every byte read too far. */
static enum ps_status parse_copy(const uint8_t *data, size_t n_bytes, size_t *ret_n,
                                 struct ps_error *err)
{
    static struct ps_tensor_view read[PS_SAFETENSORS_TENSORS_MAX];
    uint8_t *copy = malloc(n_bytes + 1);
    ck_assert_ptr_nonnull(copy);
    if (n_bytes > 0) {
        memcpy(copy + 1, data, n_bytes);
    }
    enum ps_status status = ps_safetensors_parse(copy + 1, n_bytes, read, ret_n, err);
    free(copy);
    return status;
}

START_TEST(a_header_alone_tells_where_the_data_lie)
{
    static struct ps_tensor_view read[PS_SAFETENSORS_TENSORS_MAX];
    static const uint32_t steps[] = {1, 2, 3};
    static const double power[] = {0.5};
    const struct ps_tensor_view tensors[] = {
        {.name = "p",
         .type = PS_TENSOR_F64,
         .n_dims = 1,
         .dims = {1},
         .n_values = 1,
         .data = (const uint8_t *)power},
        {.name = "s",
         .type = PS_TENSOR_U32,
         .n_dims = 1,
         .dims = {3},
         .n_values = 3,
         .data = (const uint8_t *)steps},
        {.name = "b",
         .type = PS_TENSOR_U8,
         .n_dims = 1,
         .dims = {5},
         .n_values = 5,
         .data = (const uint8_t *)"12345"},
    };
    struct ps_tensor_file file = {.tensors = tensors, .n_tensors = PS_ARRAY_LEN(tensors)};
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    size_t n = 0;
    ck_assert_int_eq(ps_safetensors_build(NULL, &file, &bytes, &n_bytes, NULL), PS_OK);
    size_t n_head = (size_t)ps_load_u64(bytes);
    size_t n_data = n_bytes - 8 - n_head;
    ck_assert_int_eq(ps_safetensors_parse_head(bytes + 8, n_head, n_data, read, &n, NULL), PS_OK);
    ck_assert_uint_eq(n, PS_ARRAY_LEN(tensors));
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(read[i].name, tensors[i].name);
        ck_assert_ptr_null(read[i].data);
        ck_assert_mem_eq(bytes + 8 + n_head + read[i].first, tensors[i].data,
                         (size_t)read[i].n_values * ps_tensor_value_bytes(read[i].type));
    }
    ck_assert_int_eq(ps_safetensors_parse_head(bytes + 8, n_head, n_data + 1, read, &n, NULL),
                     PS_ERR_CORRUPT);
    ck_assert_int_eq(ps_safetensors_parse_head(bytes + 8, n_head, n_data - 1, read, &n, NULL),
                     PS_ERR_CORRUPT);
    ps_mem_free(bytes);
}
END_TEST

START_TEST(every_prefix_of_a_good_file_is_refused)
{
    size_t n_bytes = 0;
    uint8_t *bytes = build(&n_bytes);
    size_t n = 77;
    for (size_t i = 0; i < n_bytes; i++) {
        ck_assert_int_eq(parse_copy(bytes, i, &n, NULL), PS_ERR_CORRUPT);
    }
    ck_assert_uint_eq(n, 77);
    ck_assert_int_eq(parse_copy(bytes, n_bytes, &n, NULL), PS_OK);
    ps_mem_free(bytes);
}
END_TEST

/* Nothing to assert but that it comes back: a crash or a sanitizer's report fails the test. */
START_TEST(flipped_bytes_never_crash_the_reader)
{
    size_t n_bytes = 0;
    uint8_t *bytes = build(&n_bytes);
    struct ps_rng rng = ps_rng_from(test_seed());
    size_t n_refused = 0;
    for (int round = 0; round < 20000; round++) {
        size_t at[3];
        uint8_t kept[3];
        for (size_t i = 0; i < PS_ARRAY_LEN(at); i++) {
            at[i] = (size_t)ps_rng_below(&rng, n_bytes);
            kept[i] = bytes[at[i]];
            bytes[at[i]] = (uint8_t)ps_rng_next(&rng);
        }
        size_t n = 0;
        n_refused += parse_copy(bytes, n_bytes, &n, NULL) != PS_OK;
        for (size_t i = PS_ARRAY_LEN(at); i-- > 0;) {
            bytes[at[i]] = kept[i];
        }
    }
    ck_assert_uint_gt(n_refused, 10000);
    ps_mem_free(bytes);
}
END_TEST

#define ENTRY(name, shape, offsets) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* clang-format off */
static const struct {
    const char *head;
    size_t n_data;
    enum ps_status status;
    const char *words;
} heads[] = {
    {"{}", 0, PS_OK, ""},
    {"{}      ", 0, PS_OK, ""},
    {"{" ENTRY("a", "[2]", "[0,8]") "}", 8, PS_OK, ""},
    {"{" ENTRY("a", "[]", "[0,4]") "}", 4, PS_OK, ""},
    {"{" ENTRY("a", "[0,9]", "[0,0]") "}", 0, PS_OK, ""},
    {"{" ENTRY("b", "[1]", "[4,8]") "," ENTRY("a", "[1]", "[0,4]") "}", 8, PS_OK, ""},
    {"{" ENTRY("b", "[1]", "[0,4]") "," ENTRY("e", "[0]", "[0,0]") "}", 4, PS_OK, ""},
    {"{\"__metadata__\":{}," ENTRY("a", "[1]", "[0,4]") "}", 4, PS_OK, ""},
    {"", 0, PS_ERR_CORRUPT, "not one JSON object"},
    {"[]", 0, PS_ERR_CORRUPT, "not one JSON object"},
    {" {}", 0, PS_ERR_CORRUPT, "not one JSON object"},
    {"{", 0, PS_ERR_CORRUPT, "not one JSON object"},
    {"{}x", 0, PS_ERR_CORRUPT, "not one JSON object"},
    {"{}{}", 0, PS_ERR_CORRUPT, "not one JSON object"},
    {"{}", 1, PS_ERR_CORRUPT, "1 bytes behind the last tensor"},
    {"{\"__metadata__\":7}", 0, PS_ERR_CORRUPT, "__metadata__"},
    {"{\"__metadata__\":{\"a\":1}}", 0, PS_ERR_CORRUPT, "__metadata__"},
    {"{\"a\":7}", 0, PS_ERR_CORRUPT, "no dtype"},
    {"{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     PS_ERR_UNSUPPORTED, "dtype 'F16'"},
    {"{\"a\":{\"dtype\":\"U64\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     PS_ERR_CORRUPT, "do not fit its shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, PS_ERR_CORRUPT, "no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, PS_ERR_CORRUPT, "data_offsets"},
    {"{" ENTRY("", "[1]", "[0,4]") "}", 4, PS_ERR_UNSUPPORTED, "name of 0 bytes"},
    {"{" ENTRY("a", "[-1]", "[0,4]") "}", 4, PS_ERR_CORRUPT, "is no size"},
    {"{" ENTRY("a", "[1.5]", "[0,6]") "}", 6, PS_ERR_CORRUPT, "is no size"},
    {"{" ENTRY("a", "[\"1\"]", "[0,4]") "}", 4, PS_ERR_CORRUPT, "is no size"},
    {"{" ENTRY("a", "[1e300]", "[0,4]") "}", 4, PS_ERR_CORRUPT, "is no size"},
    {"{" ENTRY("a", "[4294967296,4294967296,4]", "[0,0]") "}", 0, PS_ERR_CORRUPT, "is no size"},
    {"{" ENTRY("a", "[4294967296,1073741824]", "[0,0]") "}", 0, PS_ERR_CORRUPT, "not fit"},
    {"{" ENTRY("a", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, PS_ERR_UNSUPPORTED, "more than 8"},
    {"{" ENTRY("a", "[1]", "[0,8]") "}", 8, PS_ERR_CORRUPT, "do not fit its shape"},
    {"{" ENTRY("a", "[1]", "[4,0]") "}", 4, PS_ERR_CORRUPT, "not two places"},
    {"{" ENTRY("a", "[1]", "[0]") "}", 4, PS_ERR_CORRUPT, "not two places"},
    {"{" ENTRY("a", "[1]", "[0,4,8]") "}", 4, PS_ERR_CORRUPT, "not two places"},
    {"{" ENTRY("a", "[1]", "[-4,0]") "}", 4, PS_ERR_CORRUPT, "not two places"},
    {"{" ENTRY("a", "[2]", "[0,8]") "}", 4, PS_ERR_CORRUPT, "its data end at byte 8"},
    {"{" ENTRY("a", "[1]", "[4,8]") "}", 8, PS_ERR_CORRUPT, "does not begin"},
    {"{" ENTRY("a", "[1]", "[0,4]") "," ENTRY("b", "[1]", "[0,4]") "}", 4,
     PS_ERR_CORRUPT, "does not begin"},
    {"{" ENTRY("a", "[1]", "[0,4]") "," ENTRY("b", "[1]", "[8,12]") "}", 12,
     PS_ERR_CORRUPT, "does not begin"},
    {"{" ENTRY("a", "[1]", "[0,4]") "," ENTRY("a", "[1]", "[4,8]") "}", 8,
     PS_ERR_CORRUPT, "two tensors named 'a'"},
};
/* clang-format on */

static uint8_t *with_head(const char *head, size_t n_data, size_t *ret_n_bytes)
{
    size_t n_head = strlen(head);
    uint8_t *bytes = calloc(8 + n_head + n_data, 1);
    ck_assert_ptr_nonnull(bytes);
    ps_store_u64(bytes, n_head);
    memcpy(bytes + 8, head, n_head);
    *ret_n_bytes = 8 + n_head + n_data;
    return bytes;
}

START_TEST(a_header_is_believed_only_as_far_as_it_is_true)
{
    size_t n_bytes = 0;
    size_t n = 0;
    struct ps_error err = {0};
    uint8_t *bytes = with_head(heads[_i].head, heads[_i].n_data, &n_bytes);
    enum ps_status status = parse_copy(bytes, n_bytes, &n, &err);
    ck_assert_msg(status == heads[_i].status, "%s: %d '%s'", heads[_i].head, (int)status, err.text);
    ck_assert_msg(strstr(err.text, heads[_i].words) != NULL, "%s: '%s'", heads[_i].head, err.text);
    free(bytes);
}
END_TEST

START_TEST(a_header_longer_than_the_file_or_the_bound_is_refused)
{
    static const uint64_t lengths[] = {3, PS_SAFETENSORS_HEAD_BYTES_MAX + 1, UINT64_MAX,
                                       UINT64_MAX - 7};
    for (size_t i = 0; i < PS_ARRAY_LEN(lengths); i++) {
        size_t n_bytes = 0;
        size_t n = 0;
        uint8_t *bytes = with_head("{}", 0, &n_bytes);
        ps_store_u64(bytes, lengths[i]);
        ck_assert_int_eq(parse_copy(bytes, n_bytes, &n, NULL), PS_ERR_CORRUPT);
        free(bytes);
    }
}
END_TEST

START_TEST(more_tensors_than_we_keep_are_refused)
{
    char *head = malloc(64 * (PS_SAFETENSORS_TENSORS_MAX + 2));
    ck_assert_ptr_nonnull(head);
    for (uint32_t n_tensors = PS_SAFETENSORS_TENSORS_MAX;
         n_tensors <= PS_SAFETENSORS_TENSORS_MAX + 1; n_tensors++) {
        size_t at = 0;
        for (uint32_t i = 0; i < n_tensors; i++) {
            at += (size_t)snprintf(head + at, 64, "%c" ENTRY("t%" PRIu32, "[0]", "[0,0]"),
                                   i == 0 ? '{' : ',', i);
        }
        memcpy(head + at, "}", 2);
        size_t n_bytes = 0;
        size_t n = 0;
        uint8_t *bytes = with_head(head, 0, &n_bytes);
        ck_assert_int_eq(parse_copy(bytes, n_bytes, &n, NULL),
                         n_tensors > PS_SAFETENSORS_TENSORS_MAX ? PS_ERR_UNSUPPORTED : PS_OK);
        free(bytes);
    }
    free(head);
}
END_TEST

START_TEST(a_thousand_brackets_are_no_trouble)
{
    char head[4096];
    memset(head, '[', sizeof(head) - 1);
    head[0] = '{';
    memcpy(head + 1, "\"a\":", 4);
    head[sizeof(head) - 1] = '\0';
    size_t n_bytes = 0;
    size_t n = 0;
    uint8_t *bytes = with_head(head, 0, &n_bytes);
    ck_assert_int_eq(parse_copy(bytes, n_bytes, &n, NULL), PS_ERR_CORRUPT);
    free(bytes);
}
END_TEST

static Suite *suite_safetensors(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, the_bytes_are_these);
    tcase_add_test(tcase, what_is_written_is_read_back);
    tcase_add_test(tcase, keys_are_read_back_and_a_head_alone_is_the_beginning_of_the_file);
    tcase_add_test(tcase, a_note_is_read_by_its_key);
    tcase_add_test(tcase, a_header_beyond_the_bound_is_not_written);
    tcase_add_test(tcase, a_full_disk_and_no_memory_are_reported);
    tcase_add_test(tcase, a_header_alone_tells_where_the_data_lie);
    tcase_add_test(tcase, every_prefix_of_a_good_file_is_refused);
    tcase_add_test(tcase, flipped_bytes_never_crash_the_reader);
    tcase_add_loop_test(tcase, a_header_is_believed_only_as_far_as_it_is_true, 0,
                        (int)PS_ARRAY_LEN(heads));
    tcase_add_test(tcase, a_header_longer_than_the_file_or_the_bound_is_refused);
    tcase_add_test(tcase, more_tensors_than_we_keep_are_refused);
    tcase_add_test(tcase, a_thousand_brackets_are_no_trouble);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_safetensors)
