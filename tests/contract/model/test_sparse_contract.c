/*
 * test_sparse_contract.c — what every sparse model promises. A new one is tested by being listed.
 *
 * Test number _i is of kind _i / RIG_VARIANTS with params of variant _i % RIG_VARIANTS.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "unit/model/sparse_rig.h"

static void begin(struct rig *rig, int i)
{
    rig_init(rig, rig_kind(i / RIG_VARIANTS), i % RIG_VARIANTS);
}

static const char *name_of(const struct rig *rig)
{
    return rig->model->kind->name;
}

static void check_name(const char *names[], uint32_t n, const char *name)
{
    ck_assert_uint_gt(strlen(name), 0);
    ck_assert_uint_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._"), strlen(name));
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_str_ne(names[i], name);
    }
    names[n] = name;
}

START_TEST(every_model_names_its_tables_well)
{
    struct rig rig;
    begin(&rig, _i);
    const struct ps_sparse_model *model = rig.model;
    const char *names[PS_MODEL_TABLES_MAX + PS_SPARSE_TABLES_MAX];
    ck_assert_ptr_eq(ps_sparse_model_find(model->kind->name), model->kind);
    ck_assert_uint_gt(strlen(model->kind->help), 0);
    ck_assert_uint_ge(model->n_sparse, 1);
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        check_name(names, t, model->sparse[t].name);
        ck_assert_uint_ge(model->sparse[t].width, 1);
        ck_assert_uint_lt(model->sparse[t].list, model->n_lists);
        ck_assert(ps_init_valid(&model->sparse[t].init));
        ck_assert_ptr_nonnull(model->sparse[t].preset.optimizer);
    }
    for (uint32_t t = 0; t < model->n_dense; t++) {
        check_name(names, model->n_sparse + t, model->dense[t].name);
        ck_assert(ps_init_valid(&model->dense[t].init));
    }
    ck_assert_ptr_nonnull(model->dense_preset.optimizer);
    ck_assert_uint_eq(model->n_outputs, model->task == PS_TASK_CLASSES ? RIG_CLASSES : 1u);
    rig_deinit(&rig);
}
END_TEST

/* Slopes of the sum of the losses on both sides of a weight. */
struct slopes {
    double above;
    double below;
};

static struct slopes slopes_of(struct rig *rig, float *weight, double h)
{
    struct slopes slopes;
    float kept = *weight;
    double at = rig_evaluate(rig).loss_sum;
    *weight = kept + (float)h;
    slopes.above = (rig_evaluate(rig).loss_sum - at) / h;
    *weight = kept - (float)h;
    slopes.below = (at - rig_evaluate(rig).loss_sum) / h;
    *weight = kept;
    return slopes;
}

/*
 * Losses are summed in double: what is off by more than 5e-4 is wrong. A model with a ReLU computes
 * in float, and has kinks: at one, any slope between the two sides is right; one nearby is passed
 * by with a smaller step.
 */
static void check_slope(struct rig *rig, float *weight, double got, const char *table)
{
    bool smooth = strcmp(name_of(rig), "wide-deep") != 0;
    double close = (smooth ? 5e-4 : 4e-3) * fmax(1.0, fabs(got));
    bool right = false;
    struct slopes slopes = {0};
    double h = 0x1p-7;
    for (int step = 0; !right && step < (smooth ? 2 : 3); step++) {
        slopes = slopes_of(rig, weight, h);
        right = fabs(got - 0.5 * (slopes.above + slopes.below)) < close ||
                (!smooth && got > fmin(slopes.above, slopes.below) - close &&
                 got < fmax(slopes.above, slopes.below) + close);
        h /= 4;
    }
    ck_assert_msg(right, "%s seed %" PRIu64 ": %s is %g, not %g to %g", name_of(rig), test_seed(),
                  table, got, slopes.below, slopes.above);
}

START_TEST(every_gradient_agrees_with_central_differences)
{
    struct rig rig;
    begin(&rig, _i);
    rig.batch.view.scale = 1.0f;
    (void)rig_gradients(&rig);
    for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
        for (size_t i = 0; i < rig_n_values(&rig, t); i++) {
            check_slope(&rig, &rig.rows[t][i], (double)rig.d_rows[t][i], rig.model->sparse[t].name);
        }
    }
    for (uint32_t t = 0; t < rig.model->n_dense; t++) {
        for (size_t i = 0; i < rig.model->dense[t].n_values; i++) {
            check_slope(&rig, &rig.dense[t][i], (double)rig.d_dense[t][i],
                        rig.model->dense[t].name);
        }
    }
    rig_deinit(&rig);
}
END_TEST

START_TEST(the_scale_is_a_factor_of_every_gradient)
{
    struct rig rig;
    begin(&rig, _i);
    double *whole[PS_SPARSE_TABLES_MAX] = {NULL};
    double loss_sum = rig_gradients(&rig); /* Of the mean. */
    for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
        whole[t] = calloc(rig_n_values(&rig, t) + 1, sizeof(double));
        ck_assert_ptr_nonnull(whole[t]);
        for (size_t i = 0; i < rig_n_values(&rig, t); i++) {
            whole[t][i] = RIG_ROWS * (double)rig.d_rows[t][i];
        }
    }
    double bias = RIG_ROWS * (double)rig.d_dense[rig.model->n_dense - 1][0];
    rig.batch.view.scale = 1.0f;
    ck_assert(rig_gradients(&rig) == loss_sum);
    ck_assert_double_eq_tol((double)rig.d_dense[rig.model->n_dense - 1][0], bias, 1e-4);
    for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
        for (size_t i = 0; i < rig_n_values(&rig, t); i++) {
            ck_assert_double_eq_tol((double)rig.d_rows[t][i], whole[t][i],
                                    1e-5 * fmax(1.0, fabs(whole[t][i])));
        }
        free(whole[t]);
    }
    rig_deinit(&rig);
}
END_TEST

/* Where the key number `i` of the part's list stands in the list of the whole batch. */
static size_t place_in(const uint64_t *whole, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++) {
        if (whole[i] == key) {
            return i;
        }
    }
    ck_abort_msg("a key of a part is not one of the whole");
    return 0;
}

/* Rows of the whole from the part's keys: copied to the part, or its gradients added to `sums`. */
static void move_rows(const struct rig *whole, struct rig *part, uint32_t t, double *sums)
{
    const struct ps_sparse_model_table *table = &whole->model->sparse[t];
    const struct ps_key_list *all = &whole->batch.lists[table->list];
    const struct ps_key_list *some = &part->batch.lists[table->list];
    for (uint32_t k = 0; k < some->n; k++) {
        size_t there = place_in(all->keys, all->n, some->keys[k]) * table->width;
        size_t here = (size_t)k * table->width;
        for (uint32_t j = 0; j < table->width; j++) {
            if (sums == NULL) {
                part->rows[t][here + j] = whole->rows[t][there + j];
            } else {
                sums[there + j] += (double)part->d_rows[t][here + j];
            }
        }
    }
}

/* Add the gradients of one part, made from weights of its own keys, to `sums`. Returns its loss. */
static double add_part(const struct rig *whole, struct rig *part, double *const *sums, size_t first,
                       size_t n)
{
    rig_make(part, first, n);
    part->batch.view.scale = 1.0f;
    for (uint32_t t = 0; t < whole->model->n_sparse; t++) {
        move_rows(whole, part, t, NULL);
    }
    double loss_sum = rig_gradients(part);
    for (uint32_t t = 0; t < whole->model->n_sparse; t++) {
        move_rows(whole, part, t, sums[t]);
    }
    return loss_sum;
}

START_TEST(the_parts_of_a_batch_add_up_to_it)
{
    struct rig rig;
    struct rig part; /* Of the same seed: the same rows and dense weights. */
    begin(&rig, _i);
    begin(&part, _i);
    rig.batch.view.scale = 1.0f;
    double whole = rig_gradients(&rig);
    for (size_t n_part = 1; n_part < RIG_ROWS; n_part++) {
        double *sums[PS_SPARSE_TABLES_MAX] = {NULL};
        double loss_sum = 0.0;
        for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
            sums[t] = calloc(rig_n_values(&rig, t) + 1, sizeof(double));
            ck_assert_ptr_nonnull(sums[t]);
        }
        for (size_t first = 0; first < RIG_ROWS; first += n_part) {
            size_t n = RIG_ROWS - first < n_part ? RIG_ROWS - first : n_part;
            loss_sum += add_part(&rig, &part, sums, first, n);
        }
        ck_assert_double_eq_tol(whole, loss_sum, 1e-4);
        for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
            for (size_t i = 0; i < rig_n_values(&rig, t); i++) {
                ck_assert_double_eq_tol((double)rig.d_rows[t][i], sums[t][i],
                                        1e-4 * fmax(1.0, fabs(sums[t][i])));
            }
            free(sums[t]);
        }
    }
    rig_deinit(&part);
    rig_deinit(&rig);
}
END_TEST

/* Loss of a row from what predict says of it. */
static double loss_of(const struct ps_sparse_model *model, const float *out, double y, bool *hit)
{
    double p = (double)out[0];
    uint32_t best = 0;
    switch (model->task) {
    case PS_TASK_BINARY: *hit = (p > 0.5) == (y > 0.5); return -log(y > 0.5 ? p : 1.0 - p);
    case PS_TASK_VALUE: *hit = false; return 0.5 * (p - y) * (p - y);
    case PS_TASK_CLASSES:
        for (uint32_t j = 1; j < model->n_outputs; j++) {
            best = out[j] > out[best] ? j : best;
        }
        *hit = best == (uint32_t)y;
        return -log((double)out[(uint32_t)y]);
    }
    return (double)NAN;
}

START_TEST(gradients_evaluate_and_predict_see_the_same_model)
{
    struct rig rig;
    begin(&rig, _i);
    float out[RIG_ROWS * RIG_CLASSES];
    struct ps_sparse_weights weights = rig_weights(&rig);
    struct ps_score score = rig_evaluate(&rig);
    ck_assert_double_eq_tol(rig_gradients(&rig), score.loss_sum, 1e-5);
    rig.batch.view.rows.labels = NULL; /* Nobody knows them yet. */
    ck_assert_int_eq(rig.model->kind->predict(rig.model, &weights, &rig.batch.view, out), PS_OK);
    double loss_sum = 0.0;
    uint64_t n_correct = 0;
    for (size_t row = 0; row < RIG_ROWS; row++) {
        bool hit = false;
        loss_sum +=
            loss_of(rig.model, out + row * rig.model->n_outputs, (double)rig.labels[row], &hit);
        n_correct += hit;
    }
    ck_assert_uint_eq(n_correct, score.n_correct);
    ck_assert_double_eq_tol(loss_sum, score.loss_sum, 1e-4 * fmax(1.0, score.loss_sum));
    rig_deinit(&rig);
}
END_TEST

START_TEST(equal_params_give_equal_tables)
{
    struct rig a;
    struct rig b;
    begin(&a, _i);
    begin(&b, _i);
    ck_assert_uint_eq(a.model->n_dense, b.model->n_dense);
    ck_assert_uint_eq(a.model->n_sparse, b.model->n_sparse);
    for (uint32_t t = 0; t < a.model->n_sparse; t++) {
        const struct ps_sparse_model_table *one = &a.model->sparse[t];
        const struct ps_sparse_model_table *two = &b.model->sparse[t];
        ck_assert_str_eq(one->name, two->name);
        ck_assert_uint_eq(one->width, two->width);
        ck_assert_int_eq(one->init.kind, two->init.kind);
        ck_assert(one->init.scale == two->init.scale);
        ck_assert_uint_eq(one->init.seed, two->init.seed);
    }
    rig_deinit(&a);
    rig_deinit(&b);
}
END_TEST

/* Start from the initialisers that the model names, and learn what can be learnt of the rows. */
START_TEST(every_model_learns_from_its_own_first_values)
{
    struct rig rig;
    begin(&rig, _i);
    for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
        ps_init_fill(&rig.model->sparse[t].init, t, 0, rig.rows[t], rig_n_values(&rig, t));
    }
    for (uint32_t t = 0; t < rig.model->n_dense; t++) {
        ps_init_fill(&rig.model->dense[t].init, t, 0, rig.dense[t],
                     (size_t)rig.model->dense[t].n_values);
    }
    double first = rig_evaluate(&rig).loss_sum;
    for (int step = 0; step < 4000; step++) {
        (void)rig_gradients(&rig);
        for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
            for (size_t i = 0; i < rig_n_values(&rig, t); i++) {
                rig.rows[t][i] -= 0.1f * rig.d_rows[t][i];
            }
        }
        for (uint32_t t = 0; t < rig.model->n_dense; t++) {
            for (size_t i = 0; i < rig.model->dense[t].n_values; i++) {
                rig.dense[t][i] -= 0.1f * rig.d_dense[t][i];
            }
        }
    }
    double last = rig_evaluate(&rig).loss_sum;
    ck_assert_msg(last < 0.85 * first, "%s seed %" PRIu64 ": %g -> %g", name_of(&rig), test_seed(),
                  first, last);
    rig_deinit(&rig);
}
END_TEST

START_TEST(no_call_allocates_after_the_largest_batch)
{
    struct rig rig;
    begin(&rig, _i);
    float out[RIG_ROWS * RIG_CLASSES];
    struct ps_sparse_weights weights = rig_weights(&rig);
    (void)rig_gradients(&rig);
    uint64_t n_calls = rig.mem.n_calls;
    (void)rig_gradients(&rig);
    (void)rig_evaluate(&rig);
    ck_assert_int_eq(rig.model->kind->predict(rig.model, &weights, &rig.batch.view, out), PS_OK);
    rig_make(&rig, 4, 2);
    (void)rig_gradients(&rig);
    rig_make(&rig, 0, RIG_ROWS);
    (void)rig_gradients(&rig);
    ck_assert_uint_eq(rig.mem.n_calls, n_calls);
    rig_deinit(&rig);
}
END_TEST

START_TEST(large_weights_keep_a_finite_loss)
{
    struct rig rig;
    begin(&rig, _i);
    for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
        for (size_t i = 0; i < rig_n_values(&rig, t); i++) {
            rig.rows[t][i] *= 1e4f;
        }
    }
    double loss_sum = rig_gradients(&rig);
    ck_assert_double_gt(loss_sum, 50.0); /* The weights are random: some row is far off. */
    ck_assert(isfinite(loss_sum));
    ck_assert_double_eq_tol(rig_evaluate(&rig).loss_sum / loss_sum, 1.0, 1e-5);
    for (uint32_t t = 0; t < rig.model->n_sparse; t++) {
        for (size_t i = 0; i < rig_n_values(&rig, t); i++) {
            ck_assert(isfinite(rig.d_rows[t][i]));
        }
    }
    rig_deinit(&rig);
}
END_TEST

/* A run that diverged must be seen, in whichever table the NaN is. */
START_TEST(a_nan_weight_shows_in_the_loss)
{
    struct rig rig;
    begin(&rig, _i);
    for (uint32_t t = 0; t < rig.model->n_sparse + rig.model->n_dense; t++) {
        float *weight = t < rig.model->n_sparse ? rig.rows[t] : rig.dense[t - rig.model->n_sparse];
        float kept = *weight;
        *weight = NAN;
        ck_assert_msg(!isfinite(rig_evaluate(&rig).loss_sum), "%s: table %u", name_of(&rig), t);
        ck_assert(!isfinite(rig_gradients(&rig)));
        *weight = kept;
    }
    ck_assert(isfinite(rig_evaluate(&rig).loss_sum));
    rig.dense[rig.model->n_dense - 1][0] = NAN; /* The bias, or the last layer's. */
    ck_assert_uint_eq(rig_evaluate(&rig).n_correct, 0);
    rig_deinit(&rig);
}
END_TEST

START_TEST(a_batch_without_features_is_the_bias_alone)
{
    struct rig rig;
    begin(&rig, _i);
    if (rig.model->n_lists == 1) { /* Pairs always have features. */
        rig_make(&rig, 0, 1);
        ck_assert_uint_eq(rig.batch.view.n_keys[0], 0);
        const float *no_rows[PS_SPARSE_TABLES_MAX] = {NULL};
        float *no_grads[PS_SPARSE_TABLES_MAX] = {NULL};
        struct ps_sparse_weights weights = {.dense = (const float *const *)rig.dense,
                                            .rows = no_rows};
        struct ps_sparse_grads grads = {.dense = rig.d_dense, .rows = no_grads};
        double loss_sum = 0.0;
        ck_assert_int_eq(
            rig.model->kind->gradients(rig.model, &weights, &rig.batch.view, &grads, &loss_sum),
            PS_OK);
        ck_assert(isfinite(loss_sum));
        ck_assert(rig.d_dense[rig.model->n_dense - 1][0] != 0.0f);
    }
    rig_deinit(&rig);
}
END_TEST

START_TEST(refused_memory_is_reported_and_the_model_lives_on)
{
    struct rig rig;
    begin(&rig, _i);
    double want = rig_gradients(&rig);
    for (int64_t k = 0;; k++) {
        struct ps_sparse_model *model = NULL;
        struct ps_sparse_model_params params = rig_params(&rig.mem, _i % RIG_VARIANTS);
        rig.mem.fail_after = k;
        enum ps_status status = ps_sparse_model_create(rig.model->kind, &params, &model, NULL);
        double loss_sum = 0.0;
        struct ps_sparse_weights weights = rig_weights(&rig);
        struct ps_sparse_grads grads = rig_grads(&rig);
        if (status == PS_OK) {
            status = model->kind->gradients(model, &weights, &rig.batch.view, &grads, &loss_sum);
        }
        rig.mem.fail_after = -1;
        if (status == PS_OK) {
            ck_assert(k >= 2);
            ck_assert(loss_sum == want);
            ps_sparse_model_destroy(model);
            break;
        }
        ck_assert_int_eq(status, PS_ERR_NOMEM);
        if (model != NULL) {
            ck_assert_int_eq(
                model->kind->gradients(model, &weights, &rig.batch.view, &grads, &loss_sum), PS_OK);
            ck_assert(loss_sum == want);
        }
        ps_sparse_model_destroy(model);
    }
    rig_deinit(&rig);
}
END_TEST

START_TEST(labels_that_do_not_fit_are_refused_by_row)
{
    struct rig rig;
    begin(&rig, _i);
    static const float wrongs[] = {NAN, INFINITY, -1.0f, 0.5f, (float)RIG_CLASSES};
    for (size_t i = 0; i < PS_ARRAY_LEN(wrongs); i++) {
        bool fits = rig.model->task == PS_TASK_VALUE && isfinite(wrongs[i]);
        float kept = rig.labels[7];
        rig.labels[7] = wrongs[i];
        struct ps_sparse_rows rows = rig_rows(&rig, 2, 6);
        size_t row = 99;
        struct ps_error err = {0};
        enum ps_status status = ps_sparse_batch_make(&rig.batch, rig.model, &rows, &row, &err);
        ck_assert_int_eq(status, fits ? PS_OK : PS_ERR_INVALID);
        if (!fits) {
            ck_assert_uint_eq(row, 5);
            ck_assert_ptr_nonnull(strstr(err.text, name_of(&rig)));
        }
        rig.labels[7] = kept;
    }
    rig_deinit(&rig);
}
END_TEST

static Suite *suite_sparse_contract(void)
{
    const TTest *const tests[] = {
        every_model_names_its_tables_well,
        every_gradient_agrees_with_central_differences,
        the_scale_is_a_factor_of_every_gradient,
        the_parts_of_a_batch_add_up_to_it,
        gradients_evaluate_and_predict_see_the_same_model,
        equal_params_give_equal_tables,
        every_model_learns_from_its_own_first_values,
        no_call_allocates_after_the_largest_batch,
        large_weights_keep_a_finite_loss,
        a_nan_weight_shows_in_the_loss,
        a_batch_without_features_is_the_bias_alone,
        refused_memory_is_reported_and_the_model_lives_on,
        labels_that_do_not_fit_are_refused_by_row,
    };
    size_t n = 0;
    (void)ps_sparse_model_all(&n);
    Suite *suite = suite_create("sparse_contract");
    TCase *tcase = tcase_create("every");
    for (size_t i = 0; i < PS_ARRAY_LEN(tests); i++) {
        tcase_add_loop_test(tcase, tests[i], 0, (int)n * RIG_VARIANTS);
    }
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sparse_contract)
