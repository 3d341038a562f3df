/* sparse_plan.c — see sparse_plan.h. Flags first, then files, then what follows from both. */
#include "train/sparse_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/learning.h"
#include "model/sparse_batch.h"
#include "train/sparse_flags.h"

#define LABEL_SPREADS 8.0f /* Steps from the mean of the labels to one deviation. */

/* Of an update rule by its name; presets of models name none but these. */
static const struct ps_train_optimizer *optimizer_of(const char *name)
{
    const struct ps_train_optimizer *rule = ps_train_optimizers;
    while (rule->name != NULL && strcmp(rule->name, name) != 0) {
        rule++;
    }
    PS_ASSERT(rule->name != NULL);
    return rule;
}

/* ---- Data ---------------------------------------------------------------------------------- */

static enum ps_status open_files(struct ps_sparse_plan *plan, struct ps_error *err)
{
    const struct ps_train_options *options = &plan->options;
    enum ps_status status = ps_source_open(plan->mem, options->data, &plan->train, err);
    status = ps_train_blame(options, "data", status, err);
    if (status == PS_OK && options->test != NULL) {
        status = ps_source_open(plan->mem, options->test, &plan->test, err);
        status = ps_train_blame(options, "test", status, err);
    }
    return status;
}

static enum ps_status learn(struct ps_sparse_plan *plan, enum ps_task task, bool ids,
                            struct ps_description **ret, struct ps_error *err)
{
    const struct ps_train_options *options = &plan->options;
    struct ps_learn_options how = {
        .mem = plan->mem,
        .task = task,
        .format = options->format,
        .labels = options->labels,
        .zero_based = (enum ps_choice)options->index_base,
        .header = (enum ps_choice)options->header,
        .standardize = (enum ps_choice)options->standardize,
        .label = options->label,
        .categorical = options->categorical,
        .numeric = options->numeric,
        .ignore = options->ignore,
        .ids = ids,
        .max_bad_rows = options->max_bad_rows,
    };
    return ps_learn(plan->train, &how, ret, err);
}

static enum ps_status make_model(struct ps_sparse_plan *plan,
                                 const struct ps_sparse_model_kind *kind, struct ps_error *err)
{
    const struct ps_train_options *options = &plan->options;
    struct ps_sparse_model_params params;
    enum ps_task task = PS_TASK_BINARY;
    struct ps_description *description = NULL;
    enum ps_status status = ps_sparse_flags_params(options, &params, err);
    if (status == PS_OK) {
        status = ps_setup_task(kind, &params, &task, err);
    }
    if (status == PS_OK) {
        status = ps_sparse_flags_task(options, task, err);
    }
    if (status == PS_OK) {
        status = learn(plan, task, kind->ids, &description, err);
    }
    if (status != PS_OK) {
        return status;
    }
    params.seed = options->seed;
    params.offset = options->bias ? description->label_mean : 0.0;
    return ps_setup_make(plan->mem, kind, &params, description, &plan->setup, err);
}

/* Can the model take what a reader makes of them? */
static enum ps_status try_rows(const struct ps_sparse_plan *plan, const struct ps_source *source,
                               const struct ps_rows *rows, struct ps_error *err)
{
    const struct ps_sparse_rows view = {
        .n_rows = rows->n_rows,
        .labels = rows->labels,
        .begin = rows->begin,
        .keys = rows->keys,
        .values = rows->values,
        .fields = rows->fields,
    };
    struct ps_sparse_batch batch;
    size_t row = 0;
    ps_sparse_batch_init(&batch, plan->mem);
    enum ps_status status = ps_sparse_batch_make(&batch, plan->setup->model, &view, &row, err);
    ps_sparse_batch_deinit(&batch);
    return status == PS_ERR_INVALID
               ? ps_wrap(err, status, "%s:%" PRIu64, source->files[0].path, rows->lines[row])
               : status;
}

/* Look at the first rows of the first file before anything is started and hours are spent. */
static enum ps_status look_at(const struct ps_sparse_plan *plan, const struct ps_source *source,
                              struct ps_error *err)
{
    struct ps_reading_options how = {.mem = plan->mem, .max_bad_rows = plan->options.max_bad_rows};
    struct ps_reading *reading = NULL;
    struct ps_rows rows;
    size_t n = 0;
    ps_rows_init(&rows, plan->mem);
    enum ps_status status = ps_reading_open(source, plan->setup->description, &how, &reading, err);
    if (status == PS_OK) {
        status = ps_reading_start(reading, ps_source_whole(source, 0), err);
    }
    if (status == PS_OK) {
        status = ps_reading_next(reading, PS_TRAIN_LOOK_ROWS, &rows, &n, err);
    }
    if (status == PS_OK && n > 0) {
        status = try_rows(plan, source, &rows, err);
    } else if (status == PS_OK && source->n_files == 1) {
        status = ps_fail(err, PS_ERR_INVALID, "'%s' holds no rows", source->files[0].path);
    }
    ps_reading_close(reading);
    ps_rows_deinit(&rows);
    return status;
}

static enum ps_status look(const struct ps_sparse_plan *plan, struct ps_error *err)
{
    const struct ps_train_options *options = &plan->options;
    enum ps_status status = ps_train_blame(options, "data", look_at(plan, plan->train, err), err);
    if (status != PS_OK || plan->test == NULL) {
        return status;
    }
    status = ps_learn_check(plan->mem, plan->test, plan->setup->description, err);
    status = status == PS_OK ? look_at(plan, plan->test, err) : status;
    return ps_train_blame(options, "test", status, err);
}

/* ---- What follows -------------------------------------------------------------------------- */

/*
 * A step of the rules that are preset is as large as the rate, whatever the gradient; weights of a
 * linear model of scaled features are as large as the spread of its labels. So prices in thousands
 * take larger steps, or a usual number of epochs would end far away.
 */
static float preset_rate(const struct ps_sparse_plan *plan, const struct ps_optim_preset *preset)
{
    const struct ps_description *description = plan->setup->description;
    float rate = (float)description->label_deviation / LABEL_SPREADS;
    bool linear = plan->setup->kind == ps_sparse_model_find("linear");
    return linear && description->scaled && rate > preset->rate ? rate : preset->rate;
}

/* The model's own rule comes with its own rate and penalties; another one with its own rate. */
static enum ps_status choose_rule(struct ps_sparse_plan *plan, struct ps_error *err)
{
    const struct ps_train_options *options = &plan->options;
    const struct ps_optim_preset *preset = &plan->setup->model->sparse[0].preset;
    const struct ps_train_optimizer *own = optimizer_of(preset->optimizer);
    plan->optimizer = options->optimizer_given ? &ps_train_optimizers[options->optimizer] : own;
    plan->as_preset = plan->optimizer == own;
    float rate = plan->as_preset ? preset_rate(plan, preset) : plan->optimizer->rate;
    enum ps_status status = ps_sparse_flags_rule(options, plan->optimizer, err);
    return status == PS_OK ? ps_train_schedule(options, options->lr > 0.0f ? options->lr : rate,
                                               &plan->schedule, err)
                           : status;
}

static enum ps_status cut(struct ps_sparse_plan *plan, struct ps_error *err)
{
    const struct ps_train_options *options = &plan->options;
    plan->parts = (struct ps_feed_plan){
        .unit_rows = options->batch * options->local_steps,
        .workers = options->workers,
        .epochs = options->epochs,
    };
    enum ps_status status = ps_feed_plan(plan->train, plan->setup->description, &plan->parts, err);
    uint64_t unit_rows = plan->parts.unit_rows;
    plan->units = (plan->parts.rows_about + unit_rows - 1) / unit_rows;
    plan->units = plan->units > 0 ? plan->units : 1;
    return status;
}

/* Packed files that are one part each may be fewer than workers: those would wait for nothing. */
static void count_parts(struct ps_sparse_plan *plan)
{
    char why[PS_TRAIN_WARNING_BYTES - 64];
    uint32_t n_parts = plan->parts.n_parts;
    plan->few_parts[0] = '\0';
    if (n_parts < plan->options.workers && ps_source_single(plan->train, why, sizeof(why)) > 0) {
        (void)snprintf(plan->few_parts, sizeof(plan->few_parts),
                       "%" PRIu32 " part%s of the data for %" PRIu32 " workers: %s", n_parts,
                       n_parts == 1 ? "" : "s", plan->options.workers, why);
    }
}

static void write_texts(struct ps_sparse_plan *plan)
{
    const struct ps_sparse_model_params *params = &plan->setup->params;
    ps_train_consistency_text(&plan->consistency, plan->consistency_text);
    (void)snprintf(plan->data_text, sizeof(plan->data_text),
                   "files=%" PRIu32 " bytes=%" PRIu64 " hash=%016" PRIx64, plan->train->n_files,
                   plan->train->n_bytes, ps_source_hash(plan->train));
    int n = snprintf(plan->model_text, sizeof(plan->model_text), "%s", plan->setup->kind->name);
    if (params->rank > 0 && n > 0 && (size_t)n < sizeof(plan->model_text)) {
        (void)snprintf(plan->model_text + n, sizeof(plan->model_text) - (size_t)n, " rank=%" PRIu32,
                       params->rank);
    }
}

enum ps_status ps_sparse_plan_open(const struct ps_train_options *options, struct ps_mem *mem,
                                   struct ps_sparse_plan *plan, struct ps_error *err)
{
    *plan = (struct ps_sparse_plan){.options = *options, .mem = mem};
    const struct ps_sparse_model_kind *kind = NULL;
    enum ps_status status = open_files(plan, err); /* What is not there was not meant as lines. */
    if (status == PS_OK) {
        status = ps_sparse_flags_check(options, &kind, err);
    }
    if (status == PS_OK) {
        status = ps_train_consistency(options, &plan->consistency, err);
    }
    if (status == PS_OK) {
        status = make_model(plan, kind, err);
    }
    if (status == PS_OK) {
        status = look(plan, err);
    }
    if (status == PS_OK) {
        status = choose_rule(plan, err);
    }
    if (status == PS_OK) {
        status = ps_setup_write(plan->setup, &plan->setup_text, err);
    }
    if (status == PS_OK) {
        status = cut(plan, err);
    }
    if (status == PS_OK) {
        count_parts(plan);
        write_texts(plan);
    }
    return status;
}

void ps_sparse_plan_close(struct ps_sparse_plan *plan)
{
    ps_mem_free(plan->setup_text);
    ps_setup_destroy(plan->setup);
    if (plan->train != NULL) {
        ps_source_close(plan->train);
    }
    if (plan->test != NULL) {
        ps_source_close(plan->test);
    }
    *plan = (struct ps_sparse_plan){0};
}

enum ps_status ps_sparse_plan_seed(struct ps_sparse_plan *plan, uint64_t seed, struct ps_error *err)
{
    plan->options.seed = seed;
    return ps_setup_seed(plan->setup, seed, err);
}

/* ---- Tables -------------------------------------------------------------------------------- */

static struct ps_table_def table_def(const struct ps_sparse_plan *plan, const char *name,
                                     const struct ps_init *init)
{
    const struct ps_train_options *options = &plan->options;
    struct ps_table_def def = {
        .name = name,
        .init_kind = init->kind,
        .init_scale = init->scale,
        .seed = init->seed,
        .optimizer = plan->optimizer->name,
        .momentum = options->momentum,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .epsilon = options->epsilon,
    };
    if (ps_sparse_flags_sums(plan->optimizer)) {
        def.beta = options->beta;
    }
    if (plan->optimizer->weight_decay >= 0.0f) {
        def.weight_decay =
            options->weight_decay_given ? options->weight_decay : plan->optimizer->weight_decay;
    }
    return def;
}

struct ps_table_def ps_sparse_plan_rows(const struct ps_sparse_plan *plan, uint32_t t)
{
    const struct ps_train_options *options = &plan->options;
    const struct ps_sparse_model_table *table = &plan->setup->model->sparse[t];
    struct ps_table_def def = table_def(plan, table->name, &table->init);
    def.width = table->width;
    def.admit_after = options->admit_after;
    def.expire_after = options->expire_after;
    def.l2 = options->l2;
    def.l1 = options->l1;
    if (plan->as_preset) {
        def.l2 = options->l2_given ? options->l2 : table->preset.l2;
    }
    return def;
}

struct ps_table_def ps_sparse_plan_dense(const struct ps_sparse_plan *plan, uint32_t t)
{
    const struct ps_model_table *table = &plan->setup->model->dense[t];
    struct ps_table_def def = table_def(plan, table->name, &table->init);
    def.n_dims = table->n_dims;
    for (uint32_t d = 0; d < table->n_dims; d++) {
        def.shape[d] = table->dims[d];
    }
    return def;
}

uint64_t ps_sparse_plan_place(const struct ps_sparse_plan *plan, const struct ps_unit *unit)
{
    uint64_t n_parts = plan->parts.n_parts;
    uint64_t turn = (unit->lease - 1) % n_parts; /* Leases are numbered as they are lent. */
    uint64_t within = turn * plan->units / n_parts + unit->index;
    within = within < plan->units ? within : plan->units - 1;
    return (uint64_t)unit->epoch * plan->units + within;
}
