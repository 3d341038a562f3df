/* test_sparse_models.c — scores of each model against its formula, written slowly in double. */
#include <math.h>
#include <string.h>

#include "sparse_rig.h"
#include "suites.h"

/* The weights of feature `i` in table `t`. */
static const float *row_of(const struct rig *rig, uint32_t t, size_t i)
{
    return rig->rows[t] + (size_t)rig->batch.view.index[i] * rig->model->sparse[t].width;
}

static double linear_of(const struct rig *rig, size_t row, uint32_t j)
{
    double sum = 0.0;
    for (size_t i = rig->begin[row]; i < rig->begin[row + 1]; i++) {
        sum += (double)row_of(rig, 0, i)[j] * (double)rig->values[i];
    }
    return sum;
}

/* Every pair of features by itself. */
static double pairs_of(const struct rig *rig, size_t row)
{
    double sum = 0.0;
    for (size_t i = rig->begin[row]; i < rig->begin[row + 1]; i++) {
        for (size_t k = i + 1; k < rig->begin[row + 1]; k++) {
            double product = 0.0;
            for (uint32_t f = 0; f < rig->model->sparse[1].width; f++) {
                product += (double)row_of(rig, 1, i)[f] * (double)row_of(rig, 1, k)[f];
            }
            sum += product * (double)rig->values[i] * (double)rig->values[k];
        }
    }
    return sum;
}

static double rating_of(const struct rig *rig, size_t row)
{
    size_t user = rig->begin[row];
    size_t item = user + 1;
    if (rig->fields[item] < rig->fields[user]) {
        user++;
        item--;
    }
    const float *p = row_of(rig, 0, user);
    const float *q = row_of(rig, 1, item);
    double sum = (double)rig->dense[0][0] + (double)p[0] + (double)q[0];
    for (uint32_t f = 1; f < rig->model->sparse[0].width; f++) {
        sum += (double)p[f] * (double)q[f];
    }
    return sum;
}

/* Two hidden layers over the embeddings, side by side by field or summed. */
static double deep_of(const struct rig *rig, size_t row, bool pool)
{
    double a[PS_MODEL_HIDDEN_MAX * 8] = {0};
    uint32_t rank = rig->model->sparse[1].width;
    for (size_t i = rig->begin[row]; i < rig->begin[row + 1]; i++) {
        for (uint32_t f = 0; f < rank; f++) {
            size_t at = pool ? f : (size_t)rig->fields[i] * rank + f;
            a[at] += (double)rig->values[i] * (double)row_of(rig, 1, i)[f];
        }
    }
    for (uint32_t t = 0; t < rig->model->n_dense; t += 2) {
        double out[8] = {0};
        const struct ps_model_table *weight = &rig->model->dense[t];
        for (uint64_t j = 0; j < weight->dims[1]; j++) {
            out[j] = (double)rig->dense[t + 1][j];
            for (uint64_t i = 0; i < weight->dims[0]; i++) {
                out[j] += a[i] * (double)rig->dense[t][i * weight->dims[1] + j];
            }
            out[j] = t + 2 < rig->model->n_dense && out[j] < 0.0 ? 0.0 : out[j];
        }
        memcpy(a, out, sizeof(out));
    }
    return a[0];
}

static double score_of(const struct rig *rig, size_t row, int variant)
{
    const char *name = rig->model->kind->name;
    double offset = rig->model->task == PS_TASK_VALUE ? 0.5 : 0.0; /* See rig_params. */
    if (strcmp(name, "mf") == 0) {
        return offset + rating_of(rig, row);
    }
    if (strcmp(name, "wide-deep") == 0) {
        return offset + linear_of(rig, row, 0) + deep_of(rig, row, (variant & 1) != 0);
    }
    double pairs = strcmp(name, "fm") == 0 ? pairs_of(rig, row) : 0.0;
    return offset + (double)rig->dense[0][0] + linear_of(rig, row, 0) + pairs;
}

START_TEST(scores_are_those_of_the_formula)
{
    struct rig rig;
    float out[RIG_ROWS * RIG_CLASSES];
    rig_init(&rig, rig_kind(_i / RIG_VARIANTS), _i % RIG_VARIANTS);
    struct ps_sparse_weights weights = rig_weights(&rig);
    ck_assert_int_eq(rig.model->kind->predict(rig.model, &weights, &rig.batch.view, out), PS_OK);
    for (size_t row = 0; row < RIG_ROWS && rig.model->task != PS_TASK_CLASSES; row++) {
        double z = score_of(&rig, row, _i % RIG_VARIANTS);
        double want = rig.model->task == PS_TASK_BINARY ? 1.0 / (1.0 + exp(-z)) : z;
        ck_assert_msg(fabs((double)out[row] - want) < 1e-5, "%s variant %d row %zu: %g, not %g",
                      rig.model->kind->name, _i % RIG_VARIANTS, row, (double)out[row], want);
    }
    rig_deinit(&rig);
}
END_TEST

START_TEST(softmax_gives_each_class_its_share)
{
    struct rig rig;
    float out[RIG_ROWS * RIG_CLASSES];
    rig_init(&rig, ps_sparse_model_find("softmax"), 0);
    struct ps_sparse_weights weights = rig_weights(&rig);
    ck_assert_int_eq(rig.model->kind->predict(rig.model, &weights, &rig.batch.view, out), PS_OK);
    for (size_t row = 0; row < RIG_ROWS; row++) {
        double e[RIG_CLASSES];
        double sum = 0.0;
        for (uint32_t j = 0; j < RIG_CLASSES; j++) {
            e[j] = exp((double)rig.dense[0][j] + linear_of(&rig, row, j));
            sum += e[j];
        }
        for (uint32_t j = 0; j < RIG_CLASSES; j++) {
            ck_assert_double_eq_tol((double)out[row * RIG_CLASSES + j], e[j] / sum, 1e-5);
        }
    }
    rig_deinit(&rig);
}
END_TEST

START_TEST(users_and_items_have_keys_of_their_own)
{
    struct ps_sparse_model *model = NULL;
    struct ps_sparse_model_params params = {.rank = 2};
    ck_assert_int_eq(ps_sparse_model_create(ps_sparse_model_find("mf"), &params, &model, NULL),
                     PS_OK);
    const float labels[] = {1, 2, 3};
    const uint64_t begin[] = {10, 12, 14, 16}; /* A part of more rows. */
    const uint64_t keys[] = {7, 8, 8, 7, 7, 7};
    const float values[] = {1, 1, 1, 1, 1, 1};
    const uint16_t fields[] = {1, 2, 2, 1, 0, 0};
    struct ps_sparse_rows rows = {.n_rows = 3,
                                  .labels = labels,
                                  .begin = begin,
                                  .keys = keys,
                                  .values = values,
                                  .fields = fields};
    struct ps_sparse_batch batch;
    struct ps_error err = {0};
    size_t row = 0;
    ps_sparse_batch_init(&batch, NULL);
    ck_assert_int_eq(ps_sparse_batch_make(&batch, model, &rows, &row, &err), PS_OK);
    ck_assert_uint_eq(batch.lists[0].n, 1); /* Users: 7 in every row. */
    ck_assert_uint_eq(batch.lists[0].keys[0], 7);
    ck_assert_uint_eq(batch.lists[1].n, 2); /* Items: 8, 8, 7. */
    ck_assert_uint_eq(batch.lists[1].keys[0], 7);
    ck_assert_uint_eq(batch.lists[1].keys[1], 8);
    const uint32_t index[] = {0, 1, 1, 0, 0, 0};
    ck_assert_mem_eq(batch.view.index, index, sizeof(index));

    const uint64_t odd[] = {0, 2, 3, 6};
    rows.begin = odd;
    ck_assert_int_eq(ps_sparse_batch_make(&batch, model, &rows, &row, &err), PS_ERR_INVALID);
    ck_assert_uint_eq(row, 1);
    ck_assert_ptr_nonnull(strstr(err.text, "a user and an item"));
    ps_sparse_batch_deinit(&batch);
    ps_sparse_model_destroy(model);
}
END_TEST

START_TEST(a_column_that_wide_deep_was_not_made_for_is_refused)
{
    struct rig rig;
    rig_init(&rig, ps_sparse_model_find("wide-deep"), 0);
    rig.fields[rig.begin[4]] = RIG_FIELDS;
    struct ps_sparse_rows rows = rig_rows(&rig, 1, 6);
    struct ps_error err = {0};
    size_t row = 0;
    ck_assert_int_eq(ps_sparse_batch_make(&rig.batch, rig.model, &rows, &row, &err),
                     PS_ERR_INVALID);
    ck_assert_uint_eq(row, 3);
    ck_assert_ptr_nonnull(strstr(err.text, "column 4"));
    rig_deinit(&rig);
}
END_TEST

START_TEST(params_that_cannot_be_are_refused_by_flag)
{
    static const struct {
        const char *kind;
        struct ps_sparse_model_params params;
        const char *words;
    } wrongs[] = {
        {"fm", {.rank = PS_MODEL_RANK_MAX + 1}, "--rank"},
        {"linear", {.offset = HUGE_VAL}, "mean"},
        {"softmax", {.n_classes = 1}, "classes"},
        {"softmax", {.n_classes = 1u << 20}, "classes"},
        {"wide-deep", {.n_fields = 0}, "columns"},
        {"wide-deep", {.n_fields = PS_MODEL_FIELDS_MAX + 1}, "columns"},
        {"wide-deep", {.n_fields = 1024, .rank = 1024, .n_hidden = 1}, "--hidden"},
        {"wide-deep",
         {.n_fields = 3, .n_hidden = 1, .hidden = {PS_MODEL_WIDTH_MAX + 1}},
         "--hidden"},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(wrongs); i++) {
        struct ps_sparse_model *model = NULL;
        struct ps_error err = {0};
        ck_assert_int_eq(ps_sparse_model_create(ps_sparse_model_find(wrongs[i].kind),
                                                &wrongs[i].params, &model, &err),
                         PS_ERR_INVALID);
        ck_assert_msg(strstr(err.text, wrongs[i].words) != NULL, "%s", err.text);
        ck_assert_ptr_null(model);
    }
    ck_assert_ptr_null(ps_sparse_model_find("resnet"));
}
END_TEST

START_TEST(a_batch_that_gets_no_memory_can_be_made_later)
{
    struct rig rig;
    rig_init(&rig, ps_sparse_model_find("logreg"), 0);
    struct ps_sparse_rows rows = rig_rows(&rig, 0, RIG_ROWS);
    for (int64_t k = 0;; k++) {
        struct ps_sparse_batch batch;
        size_t row = 0;
        ps_sparse_batch_init(&batch, &rig.mem);
        rig.mem.fail_after = k;
        enum ps_status status = ps_sparse_batch_make(&batch, rig.model, &rows, &row, NULL);
        rig.mem.fail_after = -1;
        if (status == PS_OK) {
            ps_sparse_batch_deinit(&batch);
            ck_assert(k > 3);
            break;
        }
        ck_assert_int_eq(status, PS_ERR_NOMEM);
        ck_assert_int_eq(ps_sparse_batch_make(&batch, rig.model, &rows, &row, NULL), PS_OK);
        ck_assert_uint_eq(batch.view.n_keys[0], rig.batch.view.n_keys[0]);
        ps_sparse_batch_deinit(&batch);
    }
    rig_deinit(&rig);
}
END_TEST

Suite *suite_sparse_models(void)
{
    size_t n = 0;
    (void)ps_sparse_model_all(&n);
    Suite *suite = suite_create("sparse_models");
    TCase *tcase = tcase_create("formulas");
    tcase_add_loop_test(tcase, scores_are_those_of_the_formula, 0, (int)n * RIG_VARIANTS);
    tcase_add_test(tcase, softmax_gives_each_class_its_share);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("rows");
    tcase_add_test(tcase, users_and_items_have_keys_of_their_own);
    tcase_add_test(tcase, a_column_that_wide_deep_was_not_made_for_is_refused);
    tcase_add_test(tcase, params_that_cannot_be_are_refused_by_flag);
    tcase_add_test(tcase, a_batch_that_gets_no_memory_can_be_made_later);
    suite_add_tcase(suite, tcase);
    return suite;
}
