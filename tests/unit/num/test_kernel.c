/*
 * test_kernel.c — element-wise kernels against one-element-at-a-time references, at every
 * alignment; equality is exact, since order and rounding are promised.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "num/dtype.h"
#include "num/kernel.h"
#include "num/vector.h"
#include "suites.h"

#define N_FLOATS 10007 /* Odd, and longer than the 4096 that finite() looks at in one go. */

static const float spoilers[] = {NAN, -NAN, INFINITY, -INFINITY};
static const float extremes[] = {0.0f, -0.0f, FLT_MAX, -FLT_MAX, FLT_MIN, FLT_TRUE_MIN, 1.0f};

static float random_float(struct ps_rng *rng)
{
    return ps_rng_unit(ps_rng_next(rng)) * 2.0f - 1.0f;
}

/* `n` floats from `rng` as bytes that start `shift` bytes off. */
static void fill_payload(uint8_t *bytes, size_t n, struct ps_rng *rng)
{
    for (size_t i = 0; i < n; i++) {
        float value = random_float(rng);
        memcpy(bytes + i * sizeof(value), &value, sizeof(value));
    }
}

START_TEST(finite_finds_one_spoiled_float_at_any_place_and_alignment)
{
    static uint8_t raw[N_FLOATS * sizeof(float) + 8];
    struct ps_rng rng = ps_rng_from(test_seed());
    const size_t places[] = {0, 1, 2, 3, 4, 7, 4095, 4096, 4097, 9999, N_FLOATS - 1};
    float spoiler = spoilers[_i];
    for (size_t shift = 0; shift < 5; shift++) {
        uint8_t *bytes = raw + shift;
        fill_payload(bytes, N_FLOATS, &rng);
        ck_assert(ps_kernel_finite(bytes, N_FLOATS));
        for (size_t p = 0; p < PS_ARRAY_LEN(places); p++) {
            uint8_t kept[sizeof(float)];
            uint8_t *place = bytes + places[p] * sizeof(float);
            memcpy(kept, place, sizeof(kept));
            memcpy(place, &spoiler, sizeof(spoiler));
            ck_assert(!ps_kernel_finite(bytes, N_FLOATS));
            ck_assert(ps_kernel_finite(bytes, places[p])); /* It stands just behind the end. */
            memcpy(place, kept, sizeof(kept));
        }
    }
}
END_TEST

START_TEST(finite_lets_extreme_but_finite_numbers_pass)
{
    uint8_t bytes[sizeof(extremes)];
    memcpy(bytes, extremes, sizeof(extremes));
    ck_assert(ps_kernel_finite(bytes, PS_ARRAY_LEN(extremes)));
    ck_assert(ps_kernel_finite(NULL, 0));
}
END_TEST

START_TEST(kernels_equal_their_references_bit_for_bit_at_every_alignment)
{
    static uint8_t raw[1031 * sizeof(float) + 8];
    float y[1031];
    float want[1031];
    struct ps_rng rng = ps_rng_from(test_seed());
    for (size_t n = 0; n < 1031; n = n < 20 ? n + 1 : n * 2 + 1) {
        for (size_t shift = 0; shift < 4; shift++) {
            const uint8_t *x = raw + shift;
            fill_payload(raw + shift, n, &rng);
            for (size_t i = 0; i < n; i++) {
                y[i] = random_float(&rng);
                volatile float product = 0.3f * ps_f32_at(x, i); /* Rounded: no contraction. */
                volatile float sum = y[i] + product;
                volatile float both = sum + ps_f32_at(x, i);
                want[i] = both * 1.7f;
            }
            ps_kernel_axpy(y, 0.3f, x, n);
            ps_kernel_add(y, x, n);
            ps_kernel_scale(y, 1.7f, n);
            ck_assert_msg(n == 0 || memcmp(y, want, n * sizeof(float)) == 0,
                          "seed %llu: n %zu, shift %zu", (unsigned long long)test_seed(), n, shift);
        }
    }
}
END_TEST

/* Cut `n_bytes` at random, empty pieces included; slices that fit `n_max`. */
static size_t cut(const uint8_t *bytes, size_t n_bytes, struct ps_rng *rng, struct ps_slice *slices,
                  size_t n_max)
{
    size_t n = 0;
    while (n_bytes > 0 && n + 1 < n_max) {
        size_t n_piece = (size_t)ps_rng_below(rng, 12);
        n_piece = n_piece < n_bytes ? n_piece : n_bytes;
        slices[n++] = (struct ps_slice){.data = bytes, .n_bytes = n_piece};
        bytes += n_piece;
        n_bytes -= n_piece;
    }
    slices[n++] = (struct ps_slice){.data = bytes, .n_bytes = n_bytes};
    return n;
}

START_TEST(a_torn_spoiled_float_is_found_wherever_the_slices_are_cut)
{
    enum {
        N = 200,
        HEAD = 3
    };
    uint8_t raw[HEAD + N * sizeof(float)] = {0};
    struct ps_slice slices[600];
    struct ps_rng rng = ps_rng_from(test_seed() + (uint64_t)_i);
    for (int round = 0; round < 50; round++) {
        fill_payload(raw + HEAD, N, &rng);
        size_t n_slices = cut(raw, sizeof(raw), &rng, slices, PS_ARRAY_LEN(slices));
        struct ps_cursor c = ps_cursor_over(slices, n_slices);
        ps_cursor_skip(&c, HEAD);
        ck_assert(ps_cursor_finite(c, N));
        ck_assert_uint_eq(c.n_left, N * sizeof(float)); /* The caller's place did not move. */

        size_t place = (size_t)ps_rng_below(&rng, N);
        float spoiler = spoilers[ps_rng_below(&rng, PS_ARRAY_LEN(spoilers))];
        memcpy(raw + HEAD + place * sizeof(float), &spoiler, sizeof(spoiler));
        ck_assert_msg(!ps_cursor_finite(c, N), "PS_TEST_SEED %llu + %d, place %zu",
                      (unsigned long long)test_seed(), _i, place);
        ck_assert(ps_cursor_finite(c, place));
    }
}
END_TEST

START_TEST(a_cursor_that_holds_too_little_is_not_finite)
{
    uint8_t bytes[16] = {0};
    struct ps_slice slice = {.data = bytes, .n_bytes = 15};
    struct ps_cursor c = ps_cursor_over(&slice, 1);
    ck_assert(ps_cursor_finite(c, 3));
    ck_assert(!ps_cursor_finite(c, 4));
    ck_assert(!ps_cursor_finite(c, SIZE_MAX / 2)); /* Its bytes would wrap. */
    ps_cursor_skip(&c, 16);
    ck_assert(c.failed);
    ck_assert(!ps_cursor_finite(c, 0));
}
END_TEST

START_TEST(only_listed_dtypes_are_known)
{
    ck_assert(ps_dtype_known(PS_DTYPE_F32));
    ck_assert_uint_eq(ps_dtype_bytes(PS_DTYPE_F32), 4);
    for (uint32_t wire = 0; wire < 300; wire++) {
        ck_assert_int_eq(ps_dtype_known(wire), wire == 1);
    }
}
END_TEST

Suite *suite_kernel(void)
{
    Suite *suite = suite_create("kernel");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, finite_finds_one_spoiled_float_at_any_place_and_alignment, 0,
                        (int)PS_ARRAY_LEN(spoilers));
    tcase_add_test(tcase, finite_lets_extreme_but_finite_numbers_pass);
    tcase_add_test(tcase, kernels_equal_their_references_bit_for_bit_at_every_alignment);
    tcase_add_loop_test(tcase, a_torn_spoiled_float_is_found_wherever_the_slices_are_cut, 0, 8);
    tcase_add_test(tcase, a_cursor_that_holds_too_little_is_not_finite);
    tcase_add_test(tcase, only_listed_dtypes_are_known);
    suite_add_tcase(suite, tcase);
    return suite;
}
