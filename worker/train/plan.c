/* plan.c — see plan.h. Flags first, one against the other; then files; then memory. */
#include "train/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/data.h"
#include "data/dataset.h"
#include "train/center.h"

static enum ps_status read_model(const struct ps_train_options *options, struct ps_train_plan *plan,
                                 struct ps_error *err)
{
    struct ps_conf_words words;
    plan->kind = ps_model_find(options->model);
    if (plan->kind == NULL) {
        size_t n = 0;
        const struct ps_model_kind *const *kinds = ps_model_all(&n);
        char names[128] = "";
        for (size_t i = 0; i < n; i++) {
            size_t used = strlen(names);
            (void)snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
                           kinds[i]->name);
        }
        return ps_fail(err, PS_ERR_INVALID, "%s: unknown model; there are %s",
                       ps_conf_say(options->conf, "model", &words), names);
    }
    const char *hidden = options->hidden != NULL ? options->hidden : "";
    enum ps_status status = ps_model_hidden_parse(hidden, &plan->params, err);
    return ps_train_blame(options, "hidden", status, err);
}

/* What the flags alone say, without a file or an allocation. */
static enum ps_status read_options(const struct ps_train_options *options,
                                   struct ps_train_plan *plan, struct ps_error *err)
{
    plan->options = *options;
    plan->optimizer = &ps_train_optimizers[options->optimizer];
    enum ps_status status = ps_train_check_rule(options, plan->optimizer, err);
    if (status == PS_OK) {
        status = read_model(options, plan, err);
    }
    if (status == PS_OK) {
        float rate = options->lr > 0.0f ? options->lr : plan->optimizer->rate;
        status = ps_train_schedule(options, rate, &plan->schedule, err);
    }
    return status == PS_OK ? ps_train_consistency(options, &plan->consistency, err) : status;
}

static void write_texts(struct ps_train_plan *plan)
{
    ps_train_consistency_text(&plan->consistency, plan->consistency_text);
    (void)snprintf(plan->data_text, sizeof(plan->data_text),
                   "rows=%zu features=%" PRIu32 " classes=%" PRIu32 " hash=%016" PRIx64,
                   plan->train->n_rows, plan->train->n_features, plan->train->n_classes,
                   ps_dataset_hash(plan->train));
    if (plan->params.n_hidden > 0) {
        (void)snprintf(plan->model_text, sizeof(plan->model_text), "%s hidden=%s", plan->kind->name,
                       plan->options.hidden);
    } else {
        (void)snprintf(plan->model_text, sizeof(plan->model_text), "%s", plan->kind->name);
    }
}

/* A model and its layers are judged together. */
static enum ps_status refuse_model(const struct ps_train_options *options, enum ps_status status,
                                   struct ps_error *err)
{
    if (options->conf == NULL || options->hidden == NULL || status != PS_ERR_INVALID) {
        return status;
    }
    struct ps_conf_words model;
    struct ps_conf_words hidden;
    return ps_wrap(err, status, "%s with %s", ps_conf_say(options->conf, "hidden", &hidden),
                   ps_conf_say(options->conf, "model", &model));
}

enum ps_status ps_train_plan_seed(struct ps_train_plan *plan, uint64_t seed, struct ps_error *err)
{
    ps_model_destroy(plan->model);
    plan->model = NULL;
    plan->options.seed = seed;
    plan->params.seed = seed;
    enum ps_status status = ps_model_create(plan->kind, &plan->params, &plan->model, err);
    if (status != PS_OK) {
        return refuse_model(&plan->options, status, err);
    }
    plan->n_values = 0;
    for (uint32_t i = 0; i < plan->model->n_tables; i++) {
        plan->n_values += plan->model->tables[i].n_values;
    }
    return PS_OK;
}

static enum ps_status open_data(const struct ps_train_options *options, struct ps_train_plan *plan,
                                struct ps_error *err)
{
    enum ps_data_blame blame = PS_DATA_BLAME_TRAIN;
    struct ps_data_options where = {
        .mem = plan->mem,
        .ret_blame = &blame,
        .format = options->format,
        .test = options->test,
    };
    enum ps_status status = ps_data_open(options->data, &where, &plan->train, &plan->test, err);
    if (status == PS_OK && plan->train->n_rows > UINT32_MAX) {
        status = ps_fail(err, PS_ERR_INVALID, "more than 2^32 rows");
    }
    bool format = options->format != NULL && strcmp(options->format, "auto") != 0;
    const char *name = blame == PS_DATA_BLAME_TEST && options->test != NULL ? "test"
                       : blame == PS_DATA_BLAME_FORMAT && format            ? "format"
                                                                            : "data";
    return ps_train_blame(options, name, status, err);
}

enum ps_status ps_train_plan_open(const struct ps_train_options *options, struct ps_mem *mem,
                                  struct ps_train_plan *plan, struct ps_error *err)
{
    *plan = (struct ps_train_plan){.mem = mem};
    enum ps_status status = read_options(options, plan, err);
    if (status == PS_OK) {
        status = open_data(options, plan, err);
    }
    if (status != PS_OK) {
        return status;
    }
    plan->params.mem = mem;
    plan->params.n_features = plan->train->n_features;
    plan->params.n_classes = plan->train->n_classes;
    write_texts(plan);
    /* With bsp the pull for the next step has to wait for everybody's push: nothing to gain. */
    plan->prefetch = options->prefetch > 0 && plan->consistency.mode != PS_CONSISTENCY_BSP;
    plan->own_update = plan->optimizer->local && options->l2 <= 0.0f;
    status = ps_train_plan_seed(plan, options->seed, err);
    /* Floats are used as they are: whoever made them has chosen their scale. */
    bool center = options->center && plan->train->pixels != NULL;
    if (status == PS_OK && center && ps_center_possible(plan->model)) {
        status = ps_center_measure(mem, plan->train, &plan->mean, err);
    }
    return status;
}

void ps_train_plan_close(struct ps_train_plan *plan)
{
    ps_model_destroy(plan->model);
    ps_dataset_destroy(plan->train);
    ps_dataset_destroy(plan->test);
    ps_mem_free(plan->mean);
    *plan = (struct ps_train_plan){0};
}

uint64_t ps_train_plan_batches(const struct ps_train_plan *plan)
{
    return (plan->train->n_rows + plan->options.batch - 1) / plan->options.batch;
}

enum ps_status ps_weights_init(struct ps_weights *weights, struct ps_mem *mem,
                               const struct ps_model *model, const uint32_t *tables,
                               struct ps_error *err)
{
    *weights = (struct ps_weights){.n_tables = model->n_tables};
    for (uint32_t i = 0; i < model->n_tables; i++) {
        weights->n_values += model->tables[i].n_values;
    }
    weights->values = ps_mem_array(mem, PS_MEM_OTHER, weights->n_values, sizeof(float));
    if (weights->values == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %" PRIu64 " weights", weights->n_values);
    }
    float *at = weights->values;
    for (uint32_t i = 0; i < model->n_tables; i++) {
        weights->arrays[i] = at;
        weights->tensors[i] =
            (struct ps_tensor){.table = tables != NULL ? tables[i] : i, .values = at};
        at += model->tables[i].n_values;
    }
    return PS_OK;
}

void ps_weights_deinit(struct ps_weights *weights)
{
    ps_mem_free(weights->values);
    *weights = (struct ps_weights){0};
}
