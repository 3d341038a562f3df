/* test_metrics.c — areas against all pairs, figures made by hand, parts against wholes. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "model/metrics.h"
#include "suites.h"

enum {
    N = 600
};

/* Each pair by itself. */
static double area_slowly(const float *scores, const bool *ones, size_t n)
{
    double won = 0.0;
    double n_pairs = 0.0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; ones[i] && j < n; j++) {
            if (!ones[j]) {
                won += scores[i] > scores[j] ? 1.0 : scores[i] == scores[j] ? 0.5 : 0.0;
                n_pairs += 1.0;
            }
        }
    }
    return won / n_pairs;
}

static float score_at(struct ps_rng *rng, int shape)
{
    float x = ps_rng_normal(ps_rng_next(rng));
    switch (shape) {
    case 0: return x;
    case 1: return roundf(x); /* Many equal, both zeros among them. */
    case 2: return 1.0f / (1.0f + expf(-x));
    default: return 0.25f;
    }
}

START_TEST(an_area_is_the_share_of_pairs_in_order)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    float scores[N];
    bool ones[N];
    for (int round = 0; round < 20; round++) {
        struct ps_auc auc;
        struct ps_auc parts[2];
        ps_auc_init(&auc, NULL);
        ps_auc_init(&parts[0], NULL);
        ps_auc_init(&parts[1], NULL);
        size_t n = 2 + ps_rng_below(&rng, N - 1);
        for (size_t i = 0; i < n; i++) {
            scores[i] = score_at(&rng, _i);
            ones[i] = i == 0 || (i > 1 && ps_rng_below(&rng, 3) == 0);
            ck_assert_int_eq(ps_auc_add(&auc, scores[i], ones[i]), PS_OK);
            ck_assert_int_eq(ps_auc_add(&parts[i % 2], scores[i], ones[i]), PS_OK);
        }
        double want = area_slowly(scores, ones, n);
        ck_assert_double_eq_tol(ps_auc_area(&auc).area, want, 1e-12);
        ck_assert(ps_auc_area(&auc).error_max == 0.0);
        ck_assert_int_eq(ps_auc_merge(&parts[0], &parts[1]), PS_OK);
        ck_assert_double_eq_tol(ps_auc_area(&parts[0]).area, want, 1e-12);
        ps_auc_deinit(&auc);
        ps_auc_deinit(&parts[0]);
        ps_auc_deinit(&parts[1]);
    }
}
END_TEST

static int by_score(const void *a, const void *b)
{
    float x = ((const struct ps_auc_scored *)a)->score;
    float y = ((const struct ps_auc_scored *)b)->score;
    return (x > y) - (x < y);
}

/* Of scores that are hardly ever equal. */
static double area_by_sorting(struct ps_auc_scored *at, size_t n)
{
    double won = 0.0;
    double counts[2] = {0.0, 0.0};
    qsort(at, n, sizeof(*at), by_score);
    for (size_t i = 0; i < n; i++) {
        won += at[i].positive != 0 ? counts[0] : 0.0;
        counts[at[i].positive] += 1.0;
    }
    return won / (counts[0] * counts[1]);
}

START_TEST(beyond_what_is_kept_the_error_is_bounded_and_small)
{
    size_t n = PS_AUC_EXACT_MAX + 200000u;
    struct ps_auc whole;
    struct ps_auc parts[2];
    struct ps_auc_scored *all = calloc(n, sizeof(*all));
    ck_assert_ptr_nonnull(all);
    ps_auc_init(&whole, NULL);
    ps_auc_init(&parts[0], NULL);
    ps_auc_init(&parts[1], NULL);
    for (size_t i = 0; i < n; i++) {
        bool one = ps_rng_at(test_seed(), 1, i) % 4 == 0;
        float z = ps_rng_normal(ps_rng_at(test_seed(), 2, i)) + (one ? 1.0f : 0.0f);
        all[i] = (struct ps_auc_scored){.score = 1.0f / (1.0f + expf(-z)), .positive = one};
        ck_assert_int_eq(ps_auc_add(&whole, all[i].score, one), PS_OK);
        ck_assert_int_eq(ps_auc_add(&parts[i >= 300000u], all[i].score, one), PS_OK);
    }
    struct ps_auc_area area = ps_auc_area(&whole);
    ck_assert_ptr_nonnull(whole.buckets);
    ck_assert(area.error_max > 0.0 && area.error_max < 2e-3);
    double want = area_by_sorting(all, n);
    ck_assert_double_gt(want, 0.7);
    ck_assert_double_eq_tol(area.area, want, area.error_max + 1e-6); /* And a few equal scores. */
    ck_assert_ptr_null(parts[1].buckets);
    ck_assert_int_eq(ps_auc_merge(&parts[0], &parts[1]), PS_OK);
    ck_assert(ps_auc_area(&parts[0]).area == area.area);
    ck_assert_int_eq(ps_auc_merge(&parts[1], &parts[0]), PS_OK); /* Kept ones join counted ones. */
    ck_assert_uint_eq(parts[1].n[0] + parts[1].n[1], 2 * n - 300000u);
    ps_auc_deinit(&whole);
    ps_auc_deinit(&parts[0]);
    ps_auc_deinit(&parts[1]);
    free(all);
}
END_TEST

START_TEST(without_a_pair_or_with_a_nan_there_is_no_area)
{
    struct ps_auc auc;
    ps_auc_init(&auc, NULL);
    ck_assert(isnan(ps_auc_area(&auc).area));
    ck_assert_int_eq(ps_auc_add(&auc, 0.5f, true), PS_OK);
    ck_assert(isnan(ps_auc_area(&auc).area));
    ck_assert_int_eq(ps_auc_add(&auc, -INFINITY, false), PS_OK);
    ck_assert(ps_auc_area(&auc).area == 1.0);
    ck_assert_int_eq(ps_auc_add(&auc, NAN, false), PS_OK);
    ck_assert(isnan(ps_auc_area(&auc).area));
    ps_auc_deinit(&auc);
}
END_TEST

START_TEST(refused_memory_does_not_count_the_score)
{
    struct ps_mem mem;
    struct ps_auc auc;
    ps_mem_init(&mem);
    ps_auc_init(&auc, &mem);
    mem.fail_after = 0;
    ck_assert_int_eq(ps_auc_add(&auc, 1.0f, true), PS_ERR_NOMEM);
    mem.fail_after = -1;
    ck_assert_int_eq(ps_auc_add(&auc, 0.0f, false), PS_OK);
    ck_assert_uint_eq(auc.n[1], 0);
    ps_auc_deinit(&auc);
    ck_assert_uint_eq(mem.used[PS_MEM_OTHER], 0);
}
END_TEST

START_TEST(figures_of_a_few_rows_are_those_made_by_hand)
{
    struct ps_metrics metrics;
    const float p[] = {0.9f, 0.2f, 0.6f, 0.5f};
    const float y[] = {1.0f, 0.0f, 0.0f, 1.0f};
    ps_metrics_init(&metrics, PS_TASK_BINARY, NULL);
    ck_assert_int_eq(ps_metrics_add(&metrics, p, y, 4, 1), PS_OK);
    struct ps_metrics_result result = ps_metrics_result(&metrics);
    ck_assert_uint_eq(result.n_rows, 4);
    ck_assert_double_eq_tol(result.accuracy, 0.5, 1e-12);
    ck_assert_double_eq_tol(result.log_loss, -(log(.9) + log(.8) + log(.4) + log(.5)) / 4, 1e-6);
    ck_assert_double_eq_tol(result.auc, 0.75, 1e-12);
    ck_assert(isnan(result.rmse));
    ps_metrics_deinit(&metrics);

    const float probs[] = {.5f, .3f, .2f, .1f, .1f, .8f};
    const float classes[] = {0.0f, 1.0f};
    ps_metrics_init(&metrics, PS_TASK_CLASSES, NULL);
    ck_assert_int_eq(ps_metrics_add(&metrics, probs, classes, 2, 3), PS_OK);
    result = ps_metrics_result(&metrics);
    ck_assert_double_eq_tol(result.accuracy, 0.5, 1e-12);
    ck_assert_double_eq_tol(result.log_loss, -(log(.5) + log(.1)) / 2, 1e-6);
    ck_assert(isnan(result.auc));

    const float values[] = {1.0f, 5.0f};
    const float truth[] = {4.0f, 1.0f};
    ps_metrics_init(&metrics, PS_TASK_VALUE, NULL);
    ck_assert(isnan(ps_metrics_result(&metrics).rmse));
    ck_assert_int_eq(ps_metrics_add(&metrics, values, truth, 2, 1), PS_OK);
    result = ps_metrics_result(&metrics);
    ck_assert_double_eq_tol(result.rmse, sqrt(12.5), 1e-9);
    ck_assert(isnan(result.accuracy) && isnan(result.log_loss));
}
END_TEST

START_TEST(certainty_costs_much_but_not_everything_and_nan_shows)
{
    struct ps_metrics metrics;
    struct ps_metrics part;
    const float p[] = {1.0f, 0.0f, 0.0f, 1.0f};
    const float y[] = {0.0f, 1.0f, 0.0f, 1.0f};
    ps_metrics_init(&metrics, PS_TASK_BINARY, NULL);
    ps_metrics_init(&part, PS_TASK_BINARY, NULL);
    ck_assert_int_eq(ps_metrics_add(&metrics, p, y, 1, 1), PS_OK);
    ck_assert_int_eq(ps_metrics_add(&part, p + 1, y + 1, 3, 1), PS_OK);
    ck_assert_int_eq(ps_metrics_merge(&metrics, &part), PS_OK);
    struct ps_metrics_result result = ps_metrics_result(&metrics);
    ck_assert_uint_eq(result.n_rows, 4);
    ck_assert_double_eq_tol(result.log_loss, (16.6 + 87.3) / 4, 0.1);
    ck_assert_double_eq_tol(result.auc, 0.5, 1e-12);
    const float nan = NAN;
    ck_assert_int_eq(ps_metrics_add(&metrics, &nan, y, 1, 1), PS_OK);
    ck_assert(isnan(ps_metrics_result(&metrics).log_loss));
    ck_assert(isnan(ps_metrics_result(&metrics).auc));
    ps_metrics_deinit(&metrics);
    ps_metrics_deinit(&part);
}
END_TEST

Suite *suite_metrics(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tcase = tcase_create("auc");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, an_area_is_the_share_of_pairs_in_order, 0, 4);
    tcase_add_test(tcase, beyond_what_is_kept_the_error_is_bounded_and_small);
    tcase_add_test(tcase, without_a_pair_or_with_a_nan_there_is_no_area);
    tcase_add_test(tcase, refused_memory_does_not_count_the_score);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("figures");
    tcase_add_test(tcase, figures_of_a_few_rows_are_those_made_by_hand);
    tcase_add_test(tcase, certainty_costs_much_but_not_everything_and_nan_shows);
    suite_add_tcase(suite, tcase);
    return suite;
}
