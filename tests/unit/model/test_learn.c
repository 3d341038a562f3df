/*
 * test_learn.c — what each model learns from small made data whose answer is known, with the
 * optimizer that it suggests. Every tenth row is what they are judged on.
 */
#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "learn.h"
#include "lib/test_main.h"
#include "suites.h"

struct sets {
    struct learn_data train;
    struct learn_data test;
};

static struct learn_data *set_of(struct sets *sets, uint64_t row)
{
    return row % 10 == 9 ? &sets->test : &sets->train;
}

static void sets_deinit(struct sets *sets)
{
    learn_data_deinit(&sets->train);
    learn_data_deinit(&sets->test);
}

static float normal(struct ps_rng *rng)
{
    return ps_rng_normal(ps_rng_next(rng));
}

static struct ps_metrics_result run(struct learn_options *options, const struct sets *sets)
{
    options->seed = test_seed();
    options->params.seed = test_seed();
    return learn(options, &sets->train, &sets->test);
}

/* y = 1 + 2 x_1 - 3 x_2 without noise: the error can only be that of not having learnt. */
START_TEST(linear_finds_the_plane)
{
    struct sets sets = {0};
    struct ps_rng rng = ps_rng_from(test_seed());
    for (uint64_t row = 0; row < 1000; row++) {
        float x[] = {normal(&rng), normal(&rng)};
        learn_add(set_of(&sets, row), 1, x[0], 0);
        learn_add(set_of(&sets, row), 2, x[1], 0);
        learn_close(set_of(&sets, row), 1.0f + 2.0f * x[0] - 3.0f * x[1]);
    }
    struct learn_options options = {
        .model = "linear", .batch = 20, .epochs = 20, .rate_end = 0.01f};
    ck_assert_double_lt(run(&options, &sets).rmse, 0.02);
    sets_deinit(&sets);
}
END_TEST

/* Labels by chance, from a logistic model: nobody can do better than that model itself. */
static double make_clicks(struct sets *sets, uint32_t n_noise)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    double best = 0.0;
    for (uint64_t row = 0; row < 10000; row++) {
        double z = -1.0;
        for (uint16_t field = 0; field < 3; field++) {
            uint64_t id = ps_rng_below(&rng, 10);
            learn_add(set_of(sets, row), 10 * (uint64_t)field + id, 1.0f, field);
            z += 1.5 * (double)ps_rng_normal(ps_rng_at(7, field, id));
        }
        for (uint32_t i = 0; i < n_noise; i++) {
            learn_add(set_of(sets, row), 100 + ps_rng_below(&rng, 200), 1.0f, 3);
        }
        double p = 1.0 / (1.0 + exp(-z));
        bool click = (double)ps_rng_unit(ps_rng_next(&rng)) < p;
        learn_close(set_of(sets, row), click ? 1.0f : 0.0f);
        best -= row % 10 == 9 ? log(click ? p : 1.0 - p) : 0.0;
    }
    return best / (double)sets->test.n_rows;
}

START_TEST(models_of_clicks_come_near_the_best_there_is)
{
    static const char *const models[] = {"logreg", "fm", "wide-deep"};
    struct sets sets = {0};
    double best = make_clicks(&sets, 0);
    struct learn_options options = {
        .model = models[_i],
        .params = {.rank = 4, .n_fields = 3, .n_hidden = 1, .hidden = {16}},
        .batch = 50,
        .epochs = 10,
    };
    struct ps_metrics_result result = run(&options, &sets);
    ck_assert_msg(result.log_loss < best + 0.02, "%s seed %lu: %g, best %g", models[_i],
                  (unsigned long)test_seed(), result.log_loss, best);
    ck_assert_double_gt(result.auc, 0.8);
    sets_deinit(&sets);
}
END_TEST

START_TEST(ftrl_on_sums_learns_and_its_l1_drops_noise)
{
    struct sets sets = {0};
    double best = make_clicks(&sets, 3);
    struct learn_options options = {
        .model = "logreg",
        .preset = {.optimizer = "ftrl", .rate = 0.1f, .beta = 1.0f},
        .batch = 50,
        .epochs = 5,
        .sum = true,
    };
    uint64_t n_zeros[2] = {0, 0};
    options.ret_n_zeros = &n_zeros[0];
    double plain = run(&options, &sets).log_loss;
    options.ret_n_zeros = &n_zeros[1];
    options.preset.l1 = 20.0f;
    double sparse = run(&options, &sets).log_loss;
    ck_assert_double_lt(plain, best + 0.06); /* 200 weights of noise cost something. */
    ck_assert_double_lt(sparse, plain + 0.02);
    ck_assert_uint_lt(n_zeros[0], 80);  /* Keys 30 to 99 mean nothing. */
    ck_assert_uint_gt(n_zeros[1], 180); /* And 100 to 299 are noise. */
    sets_deinit(&sets);
}
END_TEST

/* Exclusive or: no feature says anything by itself. */
START_TEST(pairs_are_learnt_by_models_that_have_them)
{
    static const char *const models[] = {"logreg", "fm", "wide-deep"};
    struct sets sets = {0};
    struct ps_rng rng = ps_rng_from(test_seed());
    for (uint64_t row = 0; row < 5000; row++) {
        uint64_t a = ps_rng_below(&rng, 2);
        uint64_t b = ps_rng_below(&rng, 2);
        learn_add(set_of(&sets, row), a, 1.0f, 0);
        learn_add(set_of(&sets, row), 2 + b, 1.0f, 1);
        learn_close(set_of(&sets, row), a != b ? 1.0f : 0.0f);
    }
    struct learn_options options = {
        .model = models[_i],
        .params = {.rank = 4, .n_fields = 2, .n_hidden = 1, .hidden = {16}},
        .batch = 20,
        .epochs = 20,
    };
    struct ps_metrics_result result = run(&options, &sets);
    if (_i == 0) {
        ck_assert_double_gt(result.log_loss, 0.68); /* log 2: it knows nothing. */
    } else {
        ck_assert_msg(result.accuracy == 1.0, "%s: %g", models[_i], result.accuracy);
    }
    sets_deinit(&sets);
}
END_TEST

START_TEST(softmax_tells_groups_apart)
{
    struct sets sets = {0};
    struct ps_rng rng = ps_rng_from(test_seed());
    for (uint64_t row = 0; row < 2000; row++) {
        uint64_t class = ps_rng_below(&rng, 3);
        for (uint64_t key = 0; key < 3; key++) {
            float x = 0.5f * normal(&rng) + (key == class ? 3.0f : 0.0f);
            learn_add(set_of(&sets, row), key, x, 0);
        }
        learn_close(set_of(&sets, row), (float)class);
    }
    struct learn_options options = {
        .model = "softmax", .params = {.n_classes = 3}, .batch = 50, .epochs = 10};
    struct ps_metrics_result result = run(&options, &sets);
    ck_assert_double_gt(result.accuracy, 0.98);
    ck_assert_double_lt(result.log_loss, 0.05);
    sets_deinit(&sets);
}
END_TEST

/* Ratings of rank 2 with noise of .3: no model comes below that. */
static void make_ratings(struct sets *sets)
{
    enum {
        USERS = 200,
        ITEMS = 100
    };
    struct ps_rng rng = ps_rng_from(test_seed());
    for (uint64_t row = 0; row < 12000; row++) {
        uint64_t user = ps_rng_below(&rng, USERS);
        uint64_t item = ps_rng_below(&rng, ITEMS);
        float y = 3.5f + 0.5f * ps_rng_normal(ps_rng_at(1, 1, user)) +
                  0.5f * ps_rng_normal(ps_rng_at(1, 2, item));
        for (uint64_t f = 0; f < 2; f++) {
            y += 0.5f * ps_rng_normal(ps_rng_at(2 + f, 1, user)) *
                 ps_rng_normal(ps_rng_at(2 + f, 2, item));
        }
        learn_add(set_of(sets, row), user, 1.0f, 0);
        learn_add(set_of(sets, row), item, 1.0f, 1);
        learn_close(set_of(sets, row), y + 0.3f * normal(&rng));
    }
}

START_TEST(mf_finds_what_users_and_items_are_like)
{
    struct sets sets = {0};
    make_ratings(&sets);
    struct learn_options options = {
        .model = "mf", .params = {.rank = 4}, .batch = 50, .epochs = 40};
    options.params.offset = learn_mean(&sets.train);
    double rmse = run(&options, &sets).rmse;
    ck_assert_msg(rmse > 0.25 && rmse < 0.4, "%g", rmse);
    sets_deinit(&sets);
}
END_TEST

Suite *suite_learn(void)
{
    Suite *suite = suite_create("learn");
    TCase *tcase = tcase_create("learn");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, linear_finds_the_plane);
    tcase_add_loop_test(tcase, models_of_clicks_come_near_the_best_there_is, 0, 3);
    tcase_add_test(tcase, ftrl_on_sums_learns_and_its_l1_drops_noise);
    tcase_add_loop_test(tcase, pairs_are_learnt_by_models_that_have_them, 0, 3);
    tcase_add_test(tcase, softmax_tells_groups_apart);
    tcase_add_test(tcase, mf_finds_what_users_and_items_are_like);
    suite_add_tcase(suite, tcase);
    return suite;
}
