/*
 * test_mem.c — budgets as a model: what is counted is what is held, whatever is refused.
 */
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "suites.h"

static uint64_t used(struct ps_mem *mem, enum ps_mem_class mem_class)
{
    return atomic_load(&mem->used[mem_class]);
}

static bool all_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

START_TEST(memory_is_zeroed_aligned_and_counted_in_its_class)
{
    struct ps_mem mem;
    ps_mem_init(&mem);
    for (size_t n = 0; n < 300; n += 13) {
        uint64_t others = used(&mem, PS_MEM_OTHER);
        uint8_t *ptr = ps_mem_alloc(&mem, PS_MEM_CALLS, n);
        ck_assert_ptr_nonnull(ptr);
        ck_assert_uint_eq((uintptr_t)ptr % 64, 0);
        ck_assert(all_zero(ptr, n));
        memset(ptr, 0xa5, n); /* So that a recycled block is not zero by luck. */
        ck_assert_uint_ge(used(&mem, PS_MEM_CALLS), n + 64);
        ck_assert_uint_le(used(&mem, PS_MEM_CALLS), n + 128);
        ck_assert_uint_eq(used(&mem, PS_MEM_OTHER), others);
        ps_mem_free(ptr);
        ck_assert_uint_eq(used(&mem, PS_MEM_CALLS), 0);
    }
    ck_assert_uint_eq(atomic_load(&mem.n_calls), 24);
}
END_TEST

START_TEST(a_budget_refuses_what_goes_beyond_it_and_only_in_its_class)
{
    struct ps_mem mem;
    ps_mem_init(&mem);
    mem.limit[PS_MEM_CALLS] = 1024;
    uint8_t *first = ps_mem_alloc(&mem, PS_MEM_CALLS, 512);
    ck_assert_ptr_nonnull(first);
    uint64_t before = used(&mem, PS_MEM_CALLS);
    ck_assert_ptr_null(ps_mem_alloc(&mem, PS_MEM_CALLS, 512)); /* Its header would not fit. */
    ck_assert_uint_eq(used(&mem, PS_MEM_CALLS), before);
    uint8_t *second = ps_mem_alloc(&mem, PS_MEM_CALLS, 384); /* To the last byte. */
    ck_assert_ptr_nonnull(second);
    ck_assert_uint_eq(used(&mem, PS_MEM_CALLS), 1024);
    uint8_t *other = ps_mem_alloc(&mem, PS_MEM_OTHER, 1 << 20);
    ck_assert_ptr_nonnull(other);
    ps_mem_free(first);
    ps_mem_free(second);
    second = ps_mem_alloc(&mem, PS_MEM_CALLS, 900);
    ck_assert_ptr_nonnull(second);
    ps_mem_free(second);
    ps_mem_free(other);
}
END_TEST

START_TEST(sizes_that_wrap_are_refused)
{
    struct ps_mem mem;
    ps_mem_init(&mem);
    ck_assert_ptr_null(ps_mem_alloc(&mem, PS_MEM_OTHER, SIZE_MAX));
    ck_assert_ptr_null(ps_mem_alloc(&mem, PS_MEM_OTHER, SIZE_MAX - 100));
    ck_assert_ptr_null(ps_mem_array(&mem, PS_MEM_OTHER, SIZE_MAX / 4 + 1, 4));
    ck_assert_ptr_null(ps_mem_array(&mem, PS_MEM_OTHER, SIZE_MAX / 2, 2)); /* The header wraps. */
    ck_assert_uint_eq(used(&mem, PS_MEM_OTHER), 0);
    uint32_t *numbers = ps_mem_array(&mem, PS_MEM_OTHER, 10, sizeof(*numbers));
    ck_assert_ptr_nonnull(numbers);
    ck_assert_uint_eq(used(&mem, PS_MEM_OTHER), 128);
    ps_mem_free(numbers);
}
END_TEST

START_TEST(the_countdown_refuses_exactly_one_allocation)
{
    struct ps_mem mem;
    ps_mem_init(&mem);
    for (int64_t fail_at = 0; fail_at < 5; fail_at++) {
        atomic_store(&mem.fail_after, fail_at);
        for (int64_t i = 0; i < 8; i++) {
            void *ptr = ps_mem_alloc(&mem, PS_MEM_DATA, 8);
            ck_assert_int_eq(ptr == NULL, i == fail_at);
            ps_mem_free(ptr);
        }
        ck_assert_uint_eq(used(&mem, PS_MEM_DATA), 0);
    }
}
END_TEST

START_TEST(growing_keeps_what_was_there_and_zeroes_the_rest)
{
    struct ps_mem mem;
    ps_mem_init(&mem);
    uint8_t *ptr = ps_mem_grow(&mem, PS_MEM_DATA, NULL, 10);
    ck_assert_ptr_nonnull(ptr);
    memset(ptr, 7, 10);
    ptr = ps_mem_grow(&mem, PS_MEM_DATA, ptr, 1000);
    ck_assert_ptr_nonnull(ptr);
    ck_assert_uint_eq(ptr[9], 7);
    ck_assert(all_zero(ptr + 10, 990));
    ptr = ps_mem_grow(&mem, PS_MEM_DATA, ptr, 3);
    ck_assert_ptr_nonnull(ptr);
    ck_assert_uint_eq(ptr[2], 7);

    atomic_store(&mem.fail_after, 0);
    ck_assert_ptr_null(ps_mem_grow(&mem, PS_MEM_DATA, ptr, 2000));
    ck_assert_uint_eq(ptr[2], 7); /* Refused: the old block is still there. */
    ps_mem_free(ptr);
    ck_assert_uint_eq(used(&mem, PS_MEM_DATA), 0);
}
END_TEST

START_TEST(a_random_life_of_many_blocks_is_counted_to_the_byte)
{
    enum {
        N_BLOCKS = 40
    };
    struct ps_mem mem;
    ps_mem_init(&mem);
    uint8_t *blocks[N_BLOCKS] = {0};
    uint64_t sizes[N_BLOCKS] = {0}; /* With headers, as counted. */
    uint64_t sum = 0;
    struct ps_rng rng = ps_rng_from(test_seed());
    mem.limit[PS_MEM_STAGED] = 12000;
    int n_refused = 0;
    for (int event = 0; event < 3000; event++) {
        size_t at = (size_t)ps_rng_below(&rng, N_BLOCKS);
        ps_mem_free(blocks[at]);
        sum -= sizes[at];
        size_t n = (size_t)ps_rng_below(&rng, 1000);
        uint64_t n_total = (n + 127) / 64 * 64;
        blocks[at] = ps_mem_alloc(&mem, PS_MEM_STAGED, n);
        ck_assert_int_eq(blocks[at] != NULL, sum + n_total <= mem.limit[PS_MEM_STAGED]);
        sizes[at] = blocks[at] != NULL ? n_total : 0;
        n_refused += blocks[at] == NULL;
        sum += sizes[at];
        ck_assert_uint_eq(used(&mem, PS_MEM_STAGED), sum);
    }
    for (size_t i = 0; i < N_BLOCKS; i++) {
        ps_mem_free(blocks[i]);
    }
    ck_assert_uint_eq(used(&mem, PS_MEM_STAGED), 0);
    ck_assert_int_gt(n_refused, 100);
}
END_TEST

START_TEST(without_a_budget_memory_is_only_memory)
{
    char *copy = ps_mem_strdup(NULL, PS_MEM_OTHER, "seven words");
    ck_assert_str_eq(copy, "seven words");
    ps_mem_free(copy);
    ps_mem_free(NULL);
}
END_TEST

START_TEST(a_copied_text_can_be_refused_and_classes_have_names)
{
    struct ps_mem mem;
    ps_mem_init(&mem);
    atomic_store(&mem.fail_after, 0);
    ck_assert_ptr_null(ps_mem_strdup(&mem, PS_MEM_OTHER, "x"));
    ck_assert_str_eq(ps_mem_class_name(PS_MEM_PAGES), "PAGES");
    ck_assert_str_eq(ps_mem_class_name(PS_MEM_OTHER), "OTHER");
}
END_TEST

Suite *suite_mem(void)
{
    Suite *suite = suite_create("mem");
    TCase *tcase = tcase_create("core");
    tcase_add_test(tcase, memory_is_zeroed_aligned_and_counted_in_its_class);
    tcase_add_test(tcase, a_budget_refuses_what_goes_beyond_it_and_only_in_its_class);
    tcase_add_test(tcase, sizes_that_wrap_are_refused);
    tcase_add_test(tcase, the_countdown_refuses_exactly_one_allocation);
    tcase_add_test(tcase, growing_keeps_what_was_there_and_zeroes_the_rest);
    tcase_add_test(tcase, a_random_life_of_many_blocks_is_counted_to_the_byte);
    tcase_add_test(tcase, without_a_budget_memory_is_only_memory);
    tcase_add_test(tcase, a_copied_text_can_be_refused_and_classes_have_names);
    suite_add_tcase(suite, tcase);
    return suite;
}
