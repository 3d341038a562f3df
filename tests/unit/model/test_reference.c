/*
 * test_reference.c — what the models reach on well-known sets, against what other programs reach.
 *
 * The sets are not part of the project (lib/test_data.h); without the first of them the test ends
 * with 77 and says so. Each figure is the mean of three seeds, with the settings of
 * worker/model/README.md.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "learn.h"
#include "lib/test_data.h"
#include "lib/test_main.h"
#include "unit/data/gz_text.h"

#define SEEDS 3

static bool load(struct learn_data *data, const char *name)
{
    char path[TEST_PATH_BYTES];
    if (!test_data_path(name, path)) {
        return false;
    }
    char *text = gz_text(path);
    ck_assert_msg(text != NULL, "%s cannot be read", path);
    learn_parse(data, text);
    free(text);
    return true;
}

static struct ps_metrics_result
mean_of(struct learn_options options, const struct learn_data *train, const struct learn_data *test)
{
    struct ps_metrics_result mean = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        options.seed = seed;
        options.params.seed = seed;
        struct ps_metrics_result one = learn(&options, train, test);
        mean.accuracy += one.accuracy / SEEDS;
        mean.log_loss += one.log_loss / SEEDS;
        mean.auc += one.auc / SEEDS;
        mean.rmse += one.rmse / SEEDS;
    }
    (void)printf("%s %s: accuracy %.4f, log loss %.4f, AUC %.4f, RMSE %.4f\n", options.model,
                 options.preset.optimizer != NULL ? options.preset.optimizer : "as it suggests",
                 mean.accuracy, mean.log_loss, mean.auc, mean.rmse);
    return mean;
}

/* Lines of the references: liblinear, scikit-learn, libfm. */
static const struct {
    struct learn_options options;
    double accuracy_min;
    double log_loss_max;
    double auc_min;
} a9a_ways[] = {
    {{.model = "logreg", .batch = 100, .epochs = 5}, 0.848, 0.326, 0.901},
    {{.model = "logreg", .batch = 1000, .epochs = 10}, 0.848, 0.326, 0.901},
    {{.model = "logreg",
      .preset = {.optimizer = "ftrl", .rate = 0.1f, .l1 = 1.0f, .beta = 1.0f},
      .batch = 100,
      .epochs = 5,
      .sum = true},
     0.848,
     0.326,
     0.901},
    {{.model = "logreg",
      .preset = {.optimizer = "ftrl", .rate = 0.1f, .beta = 1.0f},
      .batch = 1000,
      .epochs = 10,
      .sum = true},
     0.848,
     0.326,
     0.901},
    {{.model = "logreg", .preset = {.optimizer = "sgd", .rate = 0.5f}, .batch = 100, .epochs = 10},
     0.848,
     0.326,
     0.901},
    {{.model = "fm", .params = {.rank = 8}, .batch = 100, .epochs = 10}, 0.848, 0.3245, 0.902},
    {{.model = "wide-deep",
      .params = {.rank = 8, .n_fields = 1, .n_hidden = 2, .hidden = {64, 32}},
      .batch = 100,
      .epochs = 5},
     0.848,
     0.326,
     0.902},
};

START_TEST(a9a_is_learnt_as_well_as_others_do)
{
    struct learn_data train = {0};
    struct learn_data test = {0};
    if (!load(&train, "a9a/a9a.gz") || !load(&test, "a9a/a9a.t.gz")) {
        learn_data_deinit(&train);
        return;
    }
    ck_assert_uint_eq(train.n_rows, 32561);
    ck_assert_uint_eq(test.n_rows, 16281);
    for (size_t i = 0; i < train.n_rows; i++) {
        train.labels[i] = train.labels[i] > 0.0f ? 1.0f : 0.0f;
    }
    for (size_t i = 0; i < test.n_rows; i++) {
        test.labels[i] = test.labels[i] > 0.0f ? 1.0f : 0.0f;
    }
    struct ps_metrics_result mean = mean_of(a9a_ways[_i].options, &train, &test);
    ck_assert_double_ge(mean.accuracy, a9a_ways[_i].accuracy_min);
    ck_assert_double_le(mean.log_loss, a9a_ways[_i].log_loss_max);
    ck_assert_double_ge(mean.auc, a9a_ways[_i].auc_min);
    learn_data_deinit(&train);
    learn_data_deinit(&test);
}
END_TEST

START_TEST(dna_is_learnt_as_well_as_others_do)
{
    struct learn_data train = {0};
    struct learn_data test = {0};
    if (!load(&train, "dna/dna.scale.gz") || !load(&test, "dna/dna.scale.t.gz")) {
        learn_data_deinit(&train);
        return;
    }
    for (size_t i = 0; i < train.n_rows; i++) {
        train.labels[i] -= 1.0f; /* 1 to 3 in the files. */
    }
    for (size_t i = 0; i < test.n_rows; i++) {
        test.labels[i] -= 1.0f;
    }
    struct learn_options options = {
        .model = "softmax", .params = {.n_classes = 3}, .batch = 50, .epochs = 20};
    struct ps_metrics_result mean = mean_of(options, &train, &test);
    ck_assert_double_ge(mean.accuracy, 0.948);
    ck_assert_double_le(mean.log_loss, 0.167);
    learn_data_deinit(&train);
    learn_data_deinit(&test);
}
END_TEST

static const struct {
    const char *name;
    struct learn_options options;
    double rmse; /* Of least squares. */
} planes[] = {
    {"abalone/abalone_8d.libsvm.gz",
     {.model = "linear", .batch = 100, .epochs = 60, .rate_end = 0.01f},
     2.2319},
    {"housing/housing_scale.gz",
     {.model = "linear", .batch = 20, .epochs = 200, .rate_end = 0.01f},
     4.4962},
};

START_TEST(linear_comes_within_a_hundredth_of_least_squares)
{
    struct learn_data all = {0};
    struct learn_data sets[2] = {{0}};
    if (!load(&all, planes[_i].name)) {
        return;
    }
    for (size_t row = 0; row < all.n_rows; row++) {
        learn_copy(&sets[row % 5 == 0], &all, row);
    }
    struct learn_options options = planes[_i].options;
    options.params.offset = learn_mean(&sets[0]);
    ck_assert_double_le(mean_of(options, &sets[0], &sets[1]).rmse, 1.01 * planes[_i].rmse);
    learn_data_deinit(&all);
    learn_data_deinit(&sets[0]);
    learn_data_deinit(&sets[1]);
}
END_TEST

static Suite *suite_reference(void)
{
    Suite *suite = suite_create("reference");
    TCase *tcase = tcase_create("reference");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, a9a_is_learnt_as_well_as_others_do, 0, (int)PS_ARRAY_LEN(a9a_ways));
    tcase_add_test(tcase, dna_is_learnt_as_well_as_others_do);
    tcase_add_loop_test(tcase, linear_comes_within_a_hundredth_of_least_squares, 0,
                        (int)PS_ARRAY_LEN(planes));
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    Suite *(*const suites[])(void) = {suite_reference};
    char path[TEST_PATH_BYTES];
    return test_data_path("a9a/a9a.gz", path) ? test_run(suites, 1) : 77;
}
