/*
 * test_mlp.c — both models against a slow reference in double, layers of any width, and the words
 * for --hidden.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "model/model.h"
#include "model/xent.h"
#include "num/blas.h"
#include "suites.h"

enum {
    WIDTH_MAX = 16,
    ROWS_MAX = 5
};

static const float *const *read_only(float *const *arrays)
{
    return (const float *const *)arrays;
}

static struct ps_model *make(const char *name, const struct ps_model_params *params)
{
    struct ps_model *model = NULL;
    struct ps_error err = {0};
    ps_blas_threads(1);
    ck_assert_msg(ps_model_create(ps_model_find(name), params, &model, &err) == PS_OK, "%s",
                  err.text);
    return model;
}

static float *floats(size_t n)
{
    float *array = calloc(n, sizeof(*array));
    ck_assert_ptr_nonnull(array);
    return array;
}

/* The loss of one row by the textbook, in double. */
static double reference_row(const struct ps_model *model, double *const *weights, const float *x,
                            uint32_t y)
{
    double in[WIDTH_MAX] = {0};
    double out[WIDTH_MAX] = {0};
    uint64_t n_out = 0;
    for (uint32_t i = 0; i < model->n_features; i++) {
        in[i] = (double)x[i];
    }
    for (uint32_t t = 0; t < model->n_tables; t += 2) {
        uint64_t n_in = model->tables[t].dims[0];
        n_out = model->tables[t].dims[1];
        for (uint64_t j = 0; j < n_out; j++) {
            out[j] = weights[t + 1][j];
            for (uint64_t i = 0; i < n_in; i++) {
                out[j] += in[i] * weights[t][i * n_out + j];
            }
        }
        for (uint64_t j = 0; j < n_out; j++) {
            in[j] = fmax(0.0, out[j]);
        }
    }
    double sum = 0.0;
    for (uint64_t j = 0; j < n_out; j++) {
        sum += exp(out[j]);
    }
    return log(sum) - out[y];
}

static double reference_loss(const struct ps_model *model, double *const *weights,
                             const struct ps_batch_view *batch)
{
    double sum = 0.0;
    for (size_t row = 0; row < batch->n_rows; row++) {
        sum += reference_row(model, weights, batch->x + row * model->n_features, batch->y[row]);
    }
    return sum;
}

static const struct {
    const char *model;
    const char *hidden;
    uint32_t n_tables;
} shapes[] = {
    {"softmax", "", 2}, {"mlp", "1", 4},     {"mlp", "7", 4},
    {"mlp", "8,5", 6},  {"mlp", "3,9,4", 8}, {"mlp", "2,2,2,2", 10},
};

/* Gradients are float sums of a few terms near 1: 1e-5 leaves room for ten roundings. */
START_TEST(gradients_agree_with_a_reference_in_double)
{
    struct ps_model_params params = {.n_features = 6, .n_classes = 4};
    ck_assert_int_eq(ps_model_hidden_parse(shapes[_i].hidden, &params, NULL), PS_OK);
    struct ps_model *model = make(shapes[_i].model, &params);
    ck_assert_uint_eq(model->n_tables, shapes[_i].n_tables);

    struct ps_rng rng = ps_rng_from(test_seed());
    float *weights[PS_MODEL_TABLES_MAX];
    float *grads[PS_MODEL_TABLES_MAX];
    double *exact[PS_MODEL_TABLES_MAX];
    for (uint32_t t = 0; t < model->n_tables; t++) {
        size_t n = (size_t)model->tables[t].n_values;
        weights[t] = floats(n);
        grads[t] = floats(n);
        exact[t] = calloc(n, sizeof(double));
        ck_assert_ptr_nonnull(exact[t]);
        for (size_t i = 0; i < n; i++) {
            weights[t][i] = 0.7f * ps_rng_normal(ps_rng_next(&rng));
            exact[t][i] = (double)weights[t][i];
        }
    }
    float x[ROWS_MAX * 6];
    for (size_t i = 0; i < PS_ARRAY_LEN(x); i++) {
        x[i] = ps_rng_normal(ps_rng_next(&rng));
    }
    struct ps_batch_view batch = {.x = x, .y = (uint32_t[]){0, 1, 2, 3, 1}, .n_rows = ROWS_MAX};
    double loss_sum = 0.0;
    ck_assert_int_eq(model->kind->gradients(model, read_only(weights), &batch, grads, &loss_sum),
                     PS_OK);
    ck_assert_double_eq_tol(loss_sum, reference_loss(model, exact, &batch), 1e-5);

    const double h = 1e-5;
    for (uint32_t t = 0; t < model->n_tables; t++) {
        for (size_t i = 0; i < model->tables[t].n_values; i++) {
            double kept = exact[t][i];
            exact[t][i] = kept + h;
            double above = reference_loss(model, exact, &batch);
            exact[t][i] = kept - h;
            double below = reference_loss(model, exact, &batch);
            exact[t][i] = kept;
            double want = (above - below) / (2 * h * ROWS_MAX);
            ck_assert_msg(fabs((double)grads[t][i] - want) < 1e-5,
                          "seed %" PRIu64 ": %s[%zu] is %g, not %g", test_seed(),
                          model->tables[t].name, i, (double)grads[t][i], want);
        }
    }
    for (uint32_t t = 0; t < model->n_tables; t++) {
        free(weights[t]);
        free(grads[t]);
        free(exact[t]);
    }
    ps_model_destroy(model);
}
END_TEST

START_TEST(a_layer_of_two_thousand_units_works)
{
    enum {
        ROWS = 20,
        WIDE = 784
    };
    struct ps_model_params params = {
        .n_features = WIDE,
        .n_classes = 10,
        .n_hidden = 1,
        .hidden = {2000},
        .seed = 1,
    };
    struct ps_model *model = make("mlp", &params);
    ck_assert_uint_eq(model->tables[0].n_values, 784 * 2000); /* 6 MB of floats. */
    float *weights[4];
    float *grads[4];
    for (uint32_t t = 0; t < model->n_tables; t++) {
        size_t n = (size_t)model->tables[t].n_values;
        weights[t] = floats(n);
        grads[t] = floats(n);
        ps_init_fill(&model->tables[t].init, t, 0, weights[t], n);
    }
    float *x = floats((size_t)ROWS * WIDE);
    uint32_t y[ROWS];
    for (size_t i = 0; i < (size_t)ROWS * WIDE; i++) {
        x[i] = ps_rng_unit(ps_rng_at(1, 2, i));
    }
    for (uint32_t row = 0; row < ROWS; row++) {
        y[row] = row % 10;
    }
    struct ps_batch_view batch = {.x = x, .y = y, .n_rows = ROWS};
    double losses[2];
    for (size_t step = 0; step < 2; step++) {
        ck_assert_int_eq(
            model->kind->gradients(model, read_only(weights), &batch, grads, &losses[step]), PS_OK);
        for (uint32_t t = 0; t < model->n_tables; t++) {
            for (size_t i = 0; i < model->tables[t].n_values; i++) {
                weights[t][i] -= 0.001f * grads[t][i];
            }
        }
    }
    ck_assert_double_lt(losses[0] / ROWS, 5.0); /* He: outputs as large as inputs, not larger. */
    ck_assert_double_lt(losses[1], losses[0]);
    for (uint32_t t = 0; t < model->n_tables; t++) {
        free(weights[t]);
        free(grads[t]);
    }
    free(x);
    ps_model_destroy(model);
}
END_TEST

START_TEST(weights_of_a_layer_start_different_and_follow_the_seed)
{
    float first[2][64];
    for (size_t i = 0; i < 2; i++) {
        struct ps_model_params params = {.n_features = 8, .n_classes = 2, .seed = i};
        struct ps_model *model = make("mlp", &params);
        ps_init_fill(&model->tables[0].init, 0, 0, first[i], PS_ARRAY_LEN(first[i]));
        ps_model_destroy(model);
    }
    ck_assert_mem_ne(first[0], first[1], sizeof(first[0]));
    for (size_t i = 1; i < PS_ARRAY_LEN(first[0]); i++) {
        ck_assert(first[0][i] != first[0][0]);
    }
}
END_TEST

static const struct {
    const char *text;
    uint32_t n; /* 0: refused. */
    uint32_t last;
} hiddens[] = {
    {"128", 1, 128},
    {"128,64", 2, 64},
    {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", 16, 16},
    {"1048576", 1, 1048576},
    {"1048577", 0, 0},
    {"99999999999999999999999999", 0, 0},
    {"0", 0, 0},
    {"12,0", 0, 0},
    {",", 0, 0},
    {"12,", 0, 0},
    {"12,,13", 0, 0},
    {"-5", 0, 0},
    {"12 ", 0, 0},
    {"1e3", 0, 0},
    {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", 0, 0},
};

START_TEST(hidden_layers_are_read_or_refused)
{
    struct ps_model_params params = {.n_hidden = 77};
    struct ps_error err = {0};
    enum ps_status status = ps_model_hidden_parse(hiddens[_i].text, &params, &err);
    if (hiddens[_i].n == 0) {
        ck_assert_msg(status == PS_ERR_INVALID, "'%s'", hiddens[_i].text);
        ck_assert_ptr_nonnull(strstr(err.text, "--hidden"));
        ck_assert_uint_eq(params.n_hidden, 77);
        return;
    }
    ck_assert_msg(status == PS_OK, "'%s': %s", hiddens[_i].text, err.text);
    ck_assert_uint_eq(params.n_hidden, hiddens[_i].n);
    ck_assert_uint_eq(params.hidden[params.n_hidden - 1], hiddens[_i].last);
}
END_TEST

START_TEST(softmax_refuses_hidden_layers_and_mlp_has_one_by_default)
{
    struct ps_model_params params = {.n_features = 4, .n_classes = 3, .n_hidden = 1, .hidden = {8}};
    struct ps_model *model = NULL;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_model_create(ps_model_find("softmax"), &params, &model, &err),
                     PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "--hidden"));
    params.hidden[0] = 0;
    ck_assert_int_eq(ps_model_create(ps_model_find("mlp"), &params, &model, &err), PS_ERR_INVALID);
    ck_assert_ptr_null(model);
    params.n_hidden = 0;
    model = make("mlp", &params);
    ck_assert_uint_eq(model->tables[0].dims[1], 128);
    ps_model_destroy(model);
    ck_assert_ptr_null(ps_model_find("transformer"));
}
END_TEST

START_TEST(cross_entropy_survives_any_size_of_logit)
{
    float logits[] = {1000.0f, -1000.0f, 0.0f, -3e38f, 3e38f, 0.0f};
    uint32_t labels[] = {1, 1};
    struct ps_score score = ps_xent_score(logits, labels, 2, 3);
    ck_assert_double_eq_tol(score.loss_sum, 2000.0, 1e-9);
    ck_assert_uint_eq(score.n_correct, 1);
    ck_assert_double_eq_tol(ps_xent_gradient(logits, labels, 2, 3), 2000.0, 1e-9);
    ck_assert(logits[0] == 0.5f && logits[1] == -0.5f && logits[2] == 0.0f);
}
END_TEST

Suite *suite_mlp(void)
{
    Suite *suite = suite_create("mlp");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, gradients_agree_with_a_reference_in_double, 0,
                        (int)PS_ARRAY_LEN(shapes));
    tcase_add_test(tcase, a_layer_of_two_thousand_units_works);
    tcase_add_test(tcase, weights_of_a_layer_start_different_and_follow_the_seed);
    tcase_add_loop_test(tcase, hidden_layers_are_read_or_refused, 0, (int)PS_ARRAY_LEN(hiddens));
    tcase_add_test(tcase, softmax_refuses_hidden_layers_and_mlp_has_one_by_default);
    tcase_add_test(tcase, cross_entropy_survives_any_size_of_logit);
    suite_add_tcase(suite, tcase);
    return suite;
}
