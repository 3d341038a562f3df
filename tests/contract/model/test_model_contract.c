/*
 * test_model_contract.c — what every model promises. A new model is tested by being listed.
 *
 * Each test makes a small model of kind number _i, draws weights and rows from the test seed, and
 * looks at it only through the vtable.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "model/model.h"
#include "num/blas.h"

enum {
    N_FEATURES = 6,
    N_CLASSES = 4,
    N_ROWS = 7
};

/* A model with weights, gradients and a batch of its own. */
struct bench {
    struct ps_mem mem;
    struct ps_model *model;
    float *weights[PS_MODEL_TABLES_MAX];
    float *grads[PS_MODEL_TABLES_MAX];
    float x[N_ROWS * N_FEATURES];
    uint32_t y[N_ROWS];
    struct ps_batch_view batch;
};

static const struct ps_model_kind *kind_at(int i)
{
    size_t n = 0;
    const struct ps_model_kind *const *kinds = ps_model_all(&n);
    ck_assert_uint_lt((size_t)i, n);
    return kinds[i];
}

static const float *const *read_only(float *const *arrays)
{
    return (const float *const *)arrays;
}

static float *floats(size_t n)
{
    float *array = calloc(n, sizeof(*array));
    ck_assert_ptr_nonnull(array);
    return array;
}

static void bench_init(struct bench *bench, int kind)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    memset(bench, 0, sizeof(*bench));
    ps_mem_init(&bench->mem);
    ps_blas_threads(1);
    struct ps_model_params params = {
        .mem = &bench->mem,
        .n_features = N_FEATURES,
        .n_classes = N_CLASSES,
        .seed = test_seed(),
    };
    struct ps_error err = {0};
    ck_assert_msg(ps_model_create(kind_at(kind), &params, &bench->model, &err) == PS_OK, "%s",
                  err.text);
    for (uint32_t t = 0; t < bench->model->n_tables; t++) {
        size_t n = (size_t)bench->model->tables[t].n_values;
        bench->weights[t] = floats(n);
        bench->grads[t] = floats(n);
        for (size_t i = 0; i < n; i++) {
            bench->weights[t][i] = 0.5f * ps_rng_normal(ps_rng_next(&rng));
        }
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(bench->x); i++) {
        bench->x[i] = ps_rng_normal(ps_rng_next(&rng));
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(bench->y); i++) {
        bench->y[i] = (uint32_t)ps_rng_below(&rng, N_CLASSES);
    }
    bench->batch = (struct ps_batch_view){.x = bench->x, .y = bench->y, .n_rows = N_ROWS};
}

static void bench_deinit(struct bench *bench)
{
    for (uint32_t t = 0; t < bench->model->n_tables; t++) {
        free(bench->weights[t]);
        free(bench->grads[t]);
    }
    ps_model_destroy(bench->model);
    for (int c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        ck_assert_uint_eq(bench->mem.used[c], 0);
    }
}

static double gradients(struct bench *bench, size_t first, size_t n)
{
    struct ps_batch_view part = {
        .x = bench->x + first * N_FEATURES,
        .y = bench->y + first,
        .n_rows = n,
    };
    double loss_sum = 0.0;
    ck_assert_int_eq(bench->model->kind->gradients(bench->model, read_only(bench->weights), &part,
                                                   bench->grads, &loss_sum),
                     PS_OK);
    return loss_sum;
}

static struct ps_score evaluate(struct bench *bench)
{
    struct ps_score score = {0};
    ck_assert_int_eq(bench->model->kind->evaluate(bench->model, read_only(bench->weights),
                                                  &bench->batch, &score),
                     PS_OK);
    return score;
}

START_TEST(every_model_names_its_tables_well)
{
    struct bench bench;
    bench_init(&bench, _i);
    const struct ps_model *model = bench.model;
    ck_assert_ptr_eq(ps_model_find(model->kind->name), model->kind);
    ck_assert_uint_gt(strlen(model->kind->help), 0);
    ck_assert_uint_ge(model->n_tables, 1);
    for (uint32_t t = 0; t < model->n_tables; t++) {
        const struct ps_model_table *table = &model->tables[t];
        uint64_t n_values = 1;
        ck_assert(table->n_dims == 1 || table->n_dims == 2);
        for (uint32_t d = 0; d < table->n_dims; d++) {
            n_values *= table->dims[d];
        }
        ck_assert_uint_eq(n_values, table->n_values);
        ck_assert_uint_gt(strlen(table->name), 0);
        ck_assert_uint_eq(strspn(table->name, "abcdefghijklmnopqrstuvwxyz0123456789._"),
                          strlen(table->name));
        ck_assert(ps_init_valid(&table->init));
        for (uint32_t other = 0; other < t; other++) {
            ck_assert_str_ne(table->name, model->tables[other].name);
        }
    }
    bench_deinit(&bench);
}
END_TEST

/*
 * Against the slopes (f(w + h) - f(w)) / h and (f(w) - f(w - h)) / h: the gradient lies between
 * them, also where a ReLU opens within h. Logits are floats: their rounding, some 1e-6, over h is
 * 2e-3 after the mean over rows; wrong formulas are off by 1e-1.
 */
START_TEST(every_gradient_agrees_with_finite_differences)
{
    const double h = 0x1p-10;
    struct bench bench;
    bench_init(&bench, _i);
    (void)gradients(&bench, 0, N_ROWS);
    double at = evaluate(&bench).loss_sum;
    for (uint32_t t = 0; t < bench.model->n_tables; t++) {
        for (size_t i = 0; i < bench.model->tables[t].n_values; i++) {
            float kept = bench.weights[t][i];
            bench.weights[t][i] = kept + (float)h;
            double above = (evaluate(&bench).loss_sum - at) / (h * N_ROWS);
            bench.weights[t][i] = kept - (float)h;
            double below = (at - evaluate(&bench).loss_sum) / (h * N_ROWS);
            bench.weights[t][i] = kept;
            double got = (double)bench.grads[t][i];
            ck_assert_msg(got > fmin(above, below) - 4e-3 && got < fmax(above, below) + 4e-3,
                          "%s seed %" PRIu64 ": %s[%zu] is %g, not %g to %g",
                          bench.model->kind->name, test_seed(), bench.model->tables[t].name, i, got,
                          below, above);
        }
    }
    bench_deinit(&bench);
}
END_TEST

/* However a batch is cut, down to single rows: the weighted mean of the parts is the whole. */
START_TEST(every_batch_is_the_weighted_mean_of_its_parts)
{
    struct bench bench;
    bench_init(&bench, _i);
    for (size_t n_part = 1; n_part < N_ROWS; n_part++) {
        double *sums[PS_MODEL_TABLES_MAX] = {NULL};
        double loss_sum = 0.0;
        for (uint32_t t = 0; t < bench.model->n_tables; t++) {
            sums[t] = calloc((size_t)bench.model->tables[t].n_values, sizeof(double));
            ck_assert_ptr_nonnull(sums[t]);
        }
        for (size_t first = 0; first < N_ROWS; first += n_part) {
            size_t n = N_ROWS - first < n_part ? N_ROWS - first : n_part;
            loss_sum += gradients(&bench, first, n);
            for (uint32_t t = 0; t < bench.model->n_tables; t++) {
                for (size_t i = 0; i < bench.model->tables[t].n_values; i++) {
                    sums[t][i] += (double)bench.grads[t][i] * (double)n / N_ROWS;
                }
            }
        }
        ck_assert_double_eq_tol(gradients(&bench, 0, N_ROWS), loss_sum, 1e-5);
        for (uint32_t t = 0; t < bench.model->n_tables; t++) {
            for (size_t i = 0; i < bench.model->tables[t].n_values; i++) {
                ck_assert_double_eq_tol((double)bench.grads[t][i], sums[t][i], 1e-5);
            }
            free(sums[t]);
        }
    }
    bench_deinit(&bench);
}
END_TEST

START_TEST(gradients_evaluate_and_predict_see_the_same_model)
{
    struct bench bench;
    bench_init(&bench, _i);
    float probs[N_ROWS * N_CLASSES];
    struct ps_score score = evaluate(&bench);
    ck_assert_double_eq_tol(gradients(&bench, 0, N_ROWS), score.loss_sum, 1e-5);
    ck_assert_int_eq(
        bench.model->kind->predict(bench.model, read_only(bench.weights), &bench.batch, probs),
        PS_OK);
    uint64_t n_correct = 0;
    double loss_sum = 0.0;
    for (size_t row = 0; row < N_ROWS; row++) {
        const float *p = probs + row * N_CLASSES;
        double sum = 0.0;
        bool best = true;
        for (uint32_t j = 0; j < N_CLASSES; j++) {
            sum += (double)p[j];
            best = best && p[j] <= p[bench.y[row]];
        }
        ck_assert_double_eq_tol(sum, 1.0, 1e-5);
        loss_sum -= log((double)p[bench.y[row]]);
        n_correct += best;
    }
    ck_assert_uint_eq(n_correct, score.n_correct);
    ck_assert_double_eq_tol(loss_sum, score.loss_sum, 1e-4);
    bench_deinit(&bench);
}
END_TEST

START_TEST(equal_params_give_equal_tables)
{
    struct bench a;
    struct bench b;
    bench_init(&a, _i);
    bench_init(&b, _i);
    ck_assert_uint_eq(a.model->n_tables, b.model->n_tables);
    for (uint32_t t = 0; t < a.model->n_tables; t++) {
        const struct ps_model_table *one = &a.model->tables[t];
        const struct ps_model_table *two = &b.model->tables[t];
        ck_assert_str_eq(one->name, two->name);
        ck_assert_uint_eq(one->n_values, two->n_values);
        ck_assert_int_eq(one->init.kind, two->init.kind);
        ck_assert(one->init.scale == two->init.scale);
        ck_assert_uint_eq(one->init.seed, two->init.seed);
    }
    bench_deinit(&a);
    bench_deinit(&b);
}
END_TEST

/* Start from the initialiser that the model names, as the servers do, and learn rows by heart. */
START_TEST(every_model_learns_from_its_own_first_values)
{
    struct bench bench;
    bench_init(&bench, _i);
    for (uint32_t t = 0; t < bench.model->n_tables; t++) {
        const struct ps_model_table *table = &bench.model->tables[t];
        ps_init_fill(&table->init, t, 0, bench.weights[t], (size_t)table->n_values);
    }
    double first = evaluate(&bench).loss_sum;
    for (int step = 0; step < 500; step++) {
        (void)gradients(&bench, 0, N_ROWS);
        for (uint32_t t = 0; t < bench.model->n_tables; t++) {
            for (size_t i = 0; i < bench.model->tables[t].n_values; i++) {
                bench.weights[t][i] -= 0.3f * bench.grads[t][i];
            }
        }
    }
    struct ps_score last = evaluate(&bench);
    ck_assert_msg(last.loss_sum < 0.3 * first, "%s seed %" PRIu64 ": %g -> %g",
                  bench.model->kind->name, test_seed(), first, last.loss_sum);
    bench_deinit(&bench);
}
END_TEST

START_TEST(no_call_allocates_after_the_largest_batch)
{
    struct bench bench;
    bench_init(&bench, _i);
    (void)gradients(&bench, 0, N_ROWS);
    uint64_t n_calls = bench.mem.n_calls;
    (void)gradients(&bench, 0, N_ROWS);
    (void)gradients(&bench, 2, 1);
    (void)evaluate(&bench);
    ck_assert_uint_eq(bench.mem.n_calls, n_calls);
    bench_deinit(&bench);
}
END_TEST

START_TEST(large_weights_keep_a_finite_loss)
{
    struct bench bench;
    bench_init(&bench, _i);
    for (uint32_t t = 0; t < bench.model->n_tables; t++) {
        for (size_t i = 0; i < bench.model->tables[t].n_values; i++) {
            bench.weights[t][i] *= 1e4f;
        }
    }
    double loss_sum = gradients(&bench, 0, N_ROWS);
    ck_assert_double_gt(loss_sum, 1000.0); /* The weights are random: many rows are far off. */
    ck_assert_double_eq_tol(evaluate(&bench).loss_sum / loss_sum, 1.0, 1e-5);
    ck_assert(isfinite(loss_sum));
    for (uint32_t t = 0; t < bench.model->n_tables; t++) {
        for (size_t i = 0; i < bench.model->tables[t].n_values; i++) {
            ck_assert(isfinite(bench.grads[t][i]));
        }
    }
    bench_deinit(&bench);
}
END_TEST

/* A run that diverged must be seen, in whichever table the NaN is. */
START_TEST(a_nan_weight_shows_in_the_loss)
{
    struct bench bench;
    bench_init(&bench, _i);
    for (uint32_t t = 0; t < bench.model->n_tables; t++) {
        float kept = bench.weights[t][0];
        bench.weights[t][0] = NAN;
        struct ps_score score = evaluate(&bench);
        ck_assert_msg(!isfinite(score.loss_sum), "%s: %s", bench.model->kind->name,
                      bench.model->tables[t].name);
        ck_assert_uint_eq(score.n_correct, 0);
        ck_assert(!isfinite(gradients(&bench, 0, N_ROWS)));
        bench.weights[t][0] = kept;
    }
    bench_deinit(&bench);
}
END_TEST

START_TEST(refused_memory_is_reported_and_the_model_lives_on)
{
    struct bench bench;
    bench_init(&bench, _i);
    double loss_sum = 0.0;
    bench.mem.fail_after = 0;
    ck_assert_int_eq(bench.model->kind->gradients(bench.model, read_only(bench.weights),
                                                  &bench.batch, bench.grads, &loss_sum),
                     PS_ERR_NOMEM);
    bench.mem.fail_after = -1;
    ck_assert_double_gt(gradients(&bench, 0, N_ROWS), 0.0);
    bench_deinit(&bench);

    struct ps_mem none;
    ps_mem_init(&none);
    none.fail_after = 0;
    struct ps_model_params params = {.mem = &none, .n_features = 2, .n_classes = 2};
    struct ps_model *model = NULL;
    ck_assert_int_eq(ps_model_create(kind_at(_i), &params, &model, NULL), PS_ERR_NOMEM);
    ck_assert_ptr_null(model);
}
END_TEST

START_TEST(impossible_widths_are_refused)
{
    static const struct {
        uint32_t n_features;
        uint32_t n_classes;
        const char *words;
    } wrongs[] = {
        {0, 10, "features"},         {PS_MODEL_WIDTH_MAX + 1, 10, "features"},
        {10, 0, "classes"},          {10, 1, "classes"},
        {10, UINT32_MAX, "classes"},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(wrongs); i++) {
        struct ps_model_params params = {
            .n_features = wrongs[i].n_features,
            .n_classes = wrongs[i].n_classes,
        };
        struct ps_model *model = NULL;
        struct ps_error err = {0};
        ck_assert_int_eq(ps_model_create(kind_at(_i), &params, &model, &err), PS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, wrongs[i].words));
        ck_assert_ptr_null(model);
    }
}
END_TEST

static Suite *suite_model_contract(void)
{
    const TTest *const tests[] = {
        every_model_names_its_tables_well,
        every_gradient_agrees_with_finite_differences,
        every_batch_is_the_weighted_mean_of_its_parts,
        gradients_evaluate_and_predict_see_the_same_model,
        equal_params_give_equal_tables,
        every_model_learns_from_its_own_first_values,
        no_call_allocates_after_the_largest_batch,
        large_weights_keep_a_finite_loss,
        a_nan_weight_shows_in_the_loss,
        refused_memory_is_reported_and_the_model_lives_on,
        impossible_widths_are_refused,
    };
    size_t n = 0;
    (void)ps_model_all(&n);
    Suite *suite = suite_create("model_contract");
    TCase *tcase = tcase_create("every");
    for (size_t i = 0; i < PS_ARRAY_LEN(tests); i++) {
        tcase_add_loop_test(tcase, tests[i], 0, (int)n);
    }
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_model_contract)
