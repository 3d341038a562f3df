/*
 * test_shape.c — sizes from outside against arithmetic in 128 bits.
 */
#include "base/rng.h"
#include "base/shape.h"
#include "lib/test_main.h"
#include "suites.h"

__extension__ typedef unsigned __int128 wide;

/* clang-format off */
static const struct {
    uint64_t dims[4];
    size_t n_dims;
    uint64_t n_max;
    bool good;
    uint64_t n;
} shapes[] = {
    {{0},                                      0, 1,          true,  1},
    {{0},                                      0, 0,          true,  1},
    {{7},                                      1, 7,          true,  7},
    {{7},                                      1, 6,          false, 0},
    {{3, 5},                                   2, 15,         true,  15},
    {{UINT64_MAX},                             1, UINT64_MAX, true,  UINT64_MAX},
    {{UINT64_MAX, 1},                          2, UINT64_MAX, true,  UINT64_MAX},
    {{UINT64_MAX, 2},                          2, UINT64_MAX, false, 0},
    {{1ull << 32, 1ull << 32},                 2, UINT64_MAX, false, 0}, /* 2^64: 0 if it wraps. */
    {{1ull << 31, 1ull << 31, 4},              3, UINT64_MAX, false, 0},
    {{1ull << 31, 1ull << 32},                 2, UINT64_MAX, true,  1ull << 63},
    {{0, UINT64_MAX, UINT64_MAX},              3, 10,         true,  0},
    {{UINT64_MAX, 0},                          2, UINT64_MAX, true,  0},
    {{6148914691236517206ull, 3},              2, UINT64_MAX, false, 0}, /* 2 if it wraps. */
};
/* clang-format on */

START_TEST(a_shape_has_its_elements_or_is_not_believed)
{
    uint64_t n = 77;
    bool good = ps_shape_elements(shapes[_i].dims, shapes[_i].n_dims, shapes[_i].n_max, &n);
    ck_assert_int_eq(good, shapes[_i].good);
    ck_assert_uint_eq(n, good ? shapes[_i].n : 77);
}
END_TEST

START_TEST(products_and_ranges_agree_with_wider_arithmetic)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int i = 0; i < 100000; i++) {
        uint64_t a = ps_rng_next(&rng) >> (ps_rng_next(&rng) % 64);
        uint64_t b = ps_rng_next(&rng) >> (ps_rng_next(&rng) % 64);
        uint64_t most = ps_rng_next(&rng) >> (ps_rng_next(&rng) % 64);
        uint64_t n = a;
        ck_assert(ps_shape_times(&n, b, most) == ((wide)a * b <= most));
        ck_assert_uint_eq(n, (wide)a * b <= most ? a * b : a);
        ck_assert(ps_shape_within(a, b, most) == ((wide)a + b <= most));
        uint64_t n_bytes = 77;
        ck_assert(ps_shape_bytes(a, b, most, &n_bytes) == ((wide)a * b <= most));
        ck_assert_uint_eq(n_bytes, (wide)a * b <= most ? a * b : 77);
    }
}
END_TEST

Suite *suite_shape(void)
{
    Suite *suite = suite_create("shape");
    TCase *tcase = tcase_create("shape");
    tcase_add_loop_test(tcase, a_shape_has_its_elements_or_is_not_believed, 0,
                        (int)PS_ARRAY_LEN(shapes));
    tcase_add_test(tcase, products_and_ranges_agree_with_wider_arithmetic);
    suite_add_tcase(suite, tcase);
    return suite;
}
