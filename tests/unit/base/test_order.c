/*
 * test_order.c — the order of an epoch as properties: every row exactly once, whatever the number
 * of rows, seed and epoch; another order each epoch; no row prefers a place.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/order.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "suites.h"

static const uint32_t row_counts[] = {1, 2, 3, 7, 8, 9, 100, 101, 1000, 4096, 4097, 60000};

START_TEST(every_row_comes_exactly_once)
{
    uint32_t n = row_counts[_i];
    uint8_t *n_seen = calloc(n, 1);
    ck_assert_ptr_nonnull(n_seen);
    for (uint64_t seed = test_seed(); seed < test_seed() + 4; seed++) {
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            struct ps_order order;
            memset(n_seen, 0, n);
            ps_order_init(&order, n, seed, epoch, true);
            uint32_t n_wrong = 0; /* Counted, not asserted: Check pays for every assertion. */
            for (uint32_t position = 0; position < n; position++) {
                uint32_t row = ps_order_at(&order, position);
                n_wrong += row >= n || n_seen[row]++ != 0;
            }
            ck_assert_msg(n_wrong == 0,
                          "n %" PRIu32 " seed %" PRIu64 " epoch %" PRIu64 ": %" PRIu32
                          " rows out of range or seen before",
                          n, seed, epoch, n_wrong);
        }
    }
    free(n_seen);
}
END_TEST

/* However the positions are cut into shares of workers and units, the shares cover all rows. */
START_TEST(uneven_shares_cover_all_rows_once)
{
    static const uint32_t shares[] = {100, 101, 7};
    uint8_t n_seen[208] = {0};
    struct ps_order order;
    ps_order_init(&order, 208, test_seed(), 5, true);
    uint32_t first = 0;
    for (size_t share = 0; share < PS_ARRAY_LEN(shares); share++) {
        for (uint32_t done = 0; done < shares[share]; done += 10) {
            uint32_t row_ids[10];
            uint32_t n = shares[share] - done < 10 ? shares[share] - done : 10;
            ps_order_rows(&order, first + done, n, row_ids);
            for (uint32_t i = 0; i < n; i++) {
                n_seen[row_ids[i]]++;
            }
        }
        first += shares[share];
    }
    for (size_t row = 0; row < PS_ARRAY_LEN(n_seen); row++) {
        ck_assert_uint_eq(n_seen[row], 1);
    }
}
END_TEST

static uint32_t n_equal_places(uint32_t n, uint64_t seeds[2], uint64_t epochs[2])
{
    struct ps_order a;
    struct ps_order b;
    uint32_t n_equal = 0;
    ps_order_init(&a, n, seeds[0], epochs[0], true);
    ps_order_init(&b, n, seeds[1], epochs[1], true);
    for (uint32_t position = 0; position < n; position++) {
        n_equal += ps_order_at(&a, position) == ps_order_at(&b, position);
    }
    return n_equal;
}

/* Two independent orders agree in one place on average, whatever n; 10 would be a wonder. */
START_TEST(orders_differ_between_epochs_and_seeds)
{
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t seed = test_seed() + i;
        ck_assert_uint_lt(n_equal_places(1000, (uint64_t[]){seed, seed}, (uint64_t[]){i, i + 1}),
                          10);
        ck_assert_uint_lt(n_equal_places(1000, (uint64_t[]){seed, seed + 1}, (uint64_t[]){i, i}),
                          10);
        ck_assert_uint_lt(
            n_equal_places(1000, (uint64_t[]){seed, seed + 1}, (uint64_t[]){i + 1, i}), 10);
    }
}
END_TEST

START_TEST(the_same_seed_and_epoch_give_the_same_order)
{
    ck_assert_uint_eq(n_equal_places(1000, (uint64_t[]){9, 9}, (uint64_t[]){3, 3}), 1000);
}
END_TEST

/*
 * Over many epochs a row must stand at each place equally often. With 9 rows and 9,000 epochs each
 * of the 81 pairs is expected 1,000 times with deviation 30; chi-square has 64 degrees of freedom,
 * mean 64, deviation 11.3: 64 + 6 * 11.3 is out of reach of chance.
 */
START_TEST(no_row_prefers_a_place)
{
    enum {
        N = 9,
        N_EPOCHS = 9000
    };
    uint32_t counts[N][N] = {{0}};
    for (uint64_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        struct ps_order order;
        ps_order_init(&order, N, test_seed(), epoch, true);
        for (uint32_t position = 0; position < N; position++) {
            counts[position][ps_order_at(&order, position)]++;
        }
    }
    double chi2 = 0.0;
    for (uint32_t i = 0; i < N * N; i++) {
        double off = (double)counts[i / N][i % N] - (double)N_EPOCHS / N;
        chi2 += off * off / ((double)N_EPOCHS / N);
    }
    ck_assert_msg(chi2 < 132.0, "seed %" PRIu64 ": chi-square %.1f", test_seed(), chi2);
}
END_TEST

/* Neighbours in the order must not be neighbours in the file: a batch mixes the whole file. */
START_TEST(every_batch_mixes_the_whole_file)
{
    struct ps_order order;
    ps_order_init(&order, 60000, test_seed(), 0, true);
    for (uint32_t first = 0; first < 60000; first += 100) {
        uint32_t row_ids[100];
        double sum = 0.0;
        ps_order_rows(&order, first, 100, row_ids);
        for (uint32_t i = 0; i < 100; i++) {
            sum += (double)row_ids[i];
        }
        /* The mean of 100 uniform rows deviates by 1,732; 600 batches stay within 5.5 of that. */
        ck_assert_double_gt(sum / 100, 30000 - 5.5 * 1732);
        ck_assert_double_lt(sum / 100, 30000 + 5.5 * 1732);
    }
}
END_TEST

START_TEST(without_shuffle_rows_come_in_file_order)
{
    struct ps_order order;
    ps_order_init(&order, 1000, test_seed(), 7, false);
    for (uint32_t position = 0; position < 1000; position++) {
        ck_assert_uint_eq(ps_order_at(&order, position), position);
    }
}
END_TEST

START_TEST(the_largest_number_of_rows_works)
{
    struct ps_order order;
    ps_order_init(&order, UINT32_MAX, test_seed(), 0, true);
    ck_assert_uint_lt(ps_order_at(&order, UINT32_MAX - 1), UINT32_MAX);
    ck_assert_uint_ne(ps_order_at(&order, 0), ps_order_at(&order, 1));
}
END_TEST

START_TEST(a_position_behind_the_end_is_a_mistake)
{
    struct ps_order order;
    ps_order_init(&order, 10, 1, 0, true);
    (void)ps_order_at(&order, 10);
}
END_TEST

Suite *suite_order(void)
{
    Suite *suite = suite_create("order");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, every_row_comes_exactly_once, 0, (int)PS_ARRAY_LEN(row_counts));
    tcase_add_test(tcase, uneven_shares_cover_all_rows_once);
    tcase_add_test(tcase, orders_differ_between_epochs_and_seeds);
    tcase_add_test(tcase, the_same_seed_and_epoch_give_the_same_order);
    tcase_add_test(tcase, no_row_prefers_a_place);
    tcase_add_test(tcase, every_batch_mixes_the_whole_file);
    tcase_add_test(tcase, without_shuffle_rows_come_in_file_order);
    tcase_add_test(tcase, the_largest_number_of_rows_works);
    tcase_add_test_raise_signal(tcase, a_position_behind_the_end_is_a_mistake, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}
