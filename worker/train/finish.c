/* finish.c — see finish.h. */
#include "train/finish.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "data/dataset.h"
#include "format/safetensors.h"
#include "num/kernel.h"
#include "os/posix_disk.h"
#include "train/center.h"
#include "train/evaluate.h"

enum ps_status ps_finish_pull(const struct ps_train_plan *plan, struct ps_client *client,
                              struct ps_weights *weights, struct ps_error *err)
{
    *weights = (struct ps_weights){0};
    enum ps_status status = PS_OK;
    uint32_t tables[PS_MODEL_TABLES_MAX];
    for (uint32_t i = 0; i < plan->model->n_tables; i++) {
        const struct ps_model_table *table = &plan->model->tables[i];
        struct ps_table found = {0};
        status = ps_client_table(client, table->name, &found, err);
        if (status == PS_ERR_NOT_FOUND ||
            (status == PS_OK && found.n_elements != table->n_values)) {
            return ps_fail(err, PS_ERR_NOT_FOUND,
                           "the cluster has no table %s of %" PRIu64 " numbers", table->name,
                           table->n_values);
        }
        if (status != PS_OK) {
            return ps_wrap(err, status, "looking up table %s", table->name);
        }
        tables[i] = found.number;
    }
    status = ps_weights_init(weights, plan->mem, plan->model, tables, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_pull pull = {
        .no_clock = true, .tensors = weights->tensors, .n_tensors = weights->n_tables};
    status = ps_client_pull(client, &pull, err);
    if (status != PS_OK) {
        ps_weights_deinit(weights);
        return ps_wrap(err, status, "pulling the model");
    }
    if (plan->mean != NULL) {
        ps_center_fold(plan->mean, plan->model, weights);
    }
    return PS_OK;
}

enum ps_status ps_finish_judge(const struct ps_train_plan *plan, const struct ps_weights *weights,
                               struct ps_report *report, struct ps_error *err)
{
    report->model = plan->kind->name;
    report->data = plan->options.data;
    report->rows_train = plan->train->n_rows;
    report->rows_test = plan->test != NULL ? plan->test->n_rows : 0;
    report->consistency = plan->consistency_text;
    report->seed = plan->options.seed;
    /* Pulled ahead of the own push; without --prefetch every pull comes after it. */
    report->own_lag = plan->prefetch && !plan->own_update ? 1 : 0;
    if (plan->consistency.mode != PS_CONSISTENCY_ASP) {
        report->staleness_bound = plan->consistency.bound;
    }
    if (!ps_kernel_finite((const uint8_t *)weights->values, weights->n_values)) {
        return ps_fail(err, PS_ERR_DIVERGED,
                       "training diverged: the model holds numbers that are not finite; use a "
                       "smaller --lr (it is %g)",
                       (double)plan->schedule.rate);
    }
    if (plan->test == NULL) {
        return PS_OK;
    }
    const float *arrays[PS_MODEL_TABLES_MAX];
    for (uint32_t i = 0; i < weights->n_tables; i++) {
        arrays[i] = weights->arrays[i];
    }
    struct ps_evaluation evaluation;
    enum ps_status status = ps_evaluate(plan->model, arrays, plan->test, &evaluation, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "evaluating the test set");
    }
    report->test_loss = evaluation.loss;
    report->test_accuracy = evaluation.accuracy;
    if (!isfinite(evaluation.loss)) {
        return ps_fail(err, PS_ERR_DIVERGED,
                       "training diverged: the test loss is not finite; use a smaller --lr (it is "
                       "%g)",
                       (double)plan->schedule.rate);
    }
    return PS_OK;
}

static enum ps_status make_path(const char *folder, char path[PS_FINISH_PATH_BYTES],
                                struct ps_error *err)
{
    int n = snprintf(path, PS_FINISH_PATH_BYTES, "%s/model.safetensors", folder);
    if (n < 0 || (size_t)n >= PS_FINISH_PATH_BYTES) {
        return ps_fail(err, PS_ERR_INVALID, "the path is longer than %u bytes",
                       PS_FINISH_PATH_BYTES);
    }
    return ps_disk_make_dir(ps_posix_disk(), folder, err);
}

enum ps_status ps_finish_check(const struct ps_conf *conf, const char *out, const char *report,
                               struct ps_error *err)
{
    char path[PS_FINISH_PATH_BYTES];
    struct ps_conf_words words;
    if (out != NULL) {
        enum ps_status status = make_path(out, path, err);
        if (status == PS_OK) {
            status = ps_posix_disk_try(path, err);
        }
        if (status != PS_OK) {
            return ps_wrap(err, status, "%s", ps_conf_say(conf, "out", &words));
        }
    }
    enum ps_status status = report != NULL ? ps_posix_disk_try(report, err) : PS_OK;
    return status == PS_OK ? PS_OK
                           : ps_wrap(err, status, "%s", ps_conf_say(conf, "report", &words));
}

enum ps_status ps_finish_write(const struct ps_train_plan *plan, const struct ps_weights *weights,
                               const char *folder, char path[PS_FINISH_PATH_BYTES],
                               struct ps_error *err)
{
    enum ps_status status = make_path(folder, path, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "--out");
    }
    struct ps_tensor_view tensors[PS_MODEL_TABLES_MAX];
    for (uint32_t i = 0; i < weights->n_tables; i++) {
        const struct ps_model_table *table = &plan->model->tables[i];
        tensors[i] = ps_tensor_over(table->name, weights->arrays[i], table->dims, table->n_dims);
    }
    char features[16];
    char classes[16];
    char seed[24];
    (void)snprintf(features, sizeof(features), "%" PRIu32, plan->train->n_features);
    (void)snprintf(classes, sizeof(classes), "%" PRIu32, plan->train->n_classes);
    (void)snprintf(seed, sizeof(seed), "%" PRIu64, plan->options.seed);
    const struct ps_tensor_note notes[] = {
        {"model", plan->model_text}, {"features", features}, {"classes", classes}, {"seed", seed}};
    struct ps_tensor_file file = {
        .tensors = tensors,
        .n_tensors = weights->n_tables,
        .notes = notes,
        .n_notes = PS_ARRAY_LEN(notes),
    };
    return ps_safetensors_write(ps_posix_disk(), path, &file, err);
}
