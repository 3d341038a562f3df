/* sparse_flags.c — see sparse_flags.h. */
#include "train/sparse_flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"

static const struct {
    const char *name;
    uint32_t takes;
} of_models[] = {
    {"rank", PS_SPARSE_TAKES_RANK},
    {"hidden", PS_SPARSE_TAKES_HIDDEN},
    {"pool", PS_SPARSE_TAKES_POOL},
    {"regress", PS_SPARSE_TAKES_REGRESS},
};

static const char *const of_lines[] = {
    "index-base",  "labels",  "header",      "standardize",  "label",
    "categorical", "numeric", "ignore",      "max-bad-rows", "window-rows",
    "rank",        "regress", "pool",        "bias",         "local-steps",
    "l1",          "beta",    "admit-after", "expire-after",
};

bool ps_sparse_flags_sums(const struct ps_train_optimizer *optimizer)
{
    return strcmp(optimizer->name, "ftrl") == 0;
}

static enum ps_status refuse(const struct ps_train_options *options, const char *name,
                             const char *why, struct ps_error *err)
{
    struct ps_conf_words words;
    return ps_fail(err, PS_ERR_INVALID, "%s: %s", ps_conf_say(options->conf, name, &words), why);
}

/* A flag of another model is a mistake about the model. */
static enum ps_status check_takes(const struct ps_train_options *options,
                                  const struct ps_sparse_model_kind *kind, struct ps_error *err)
{
    static const char *const of_numbers[] = {"numeric", "standardize"};
    const char *name = NULL;
    for (size_t i = 0; i < PS_ARRAY_LEN(of_models) && name == NULL; i++) {
        bool taken = (kind->takes & of_models[i].takes) != 0;
        name = !taken && ps_train_given(options, of_models[i].name) ? of_models[i].name : NULL;
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(of_numbers) && name == NULL && kind->ids; i++) {
        name = ps_train_given(options, of_numbers[i]) ? of_numbers[i] : NULL;
    }
    char why[64];
    (void)snprintf(why, sizeof(why), "says nothing to --model %.24s", kind->name);
    return name == NULL ? PS_OK : refuse(options, name, why, err);
}

static enum ps_status check_model(const struct ps_train_options *options,
                                  const struct ps_sparse_model_kind **ret, struct ps_error *err)
{
    const struct ps_sparse_model_kind *kind = ps_sparse_model_find(options->model);
    if (kind == NULL) {
        char why[PS_ERROR_TEXT_BYTES] = "no model of rows of lines; there are ";
        size_t n = 0;
        const struct ps_sparse_model_kind *const *kinds = ps_sparse_model_all(&n);
        for (size_t i = 0; i < n; i++) {
            size_t used = strlen(why);
            (void)snprintf(why + used, sizeof(why) - used, "%s%s", i == 0 ? "" : ", ",
                           kinds[i]->name);
        }
        return refuse(options, "model", why, err);
    }
    enum ps_status status = check_takes(options, kind, err);
    if (status != PS_OK) {
        return status;
    }
    if (!options->bias && (kind->takes & PS_SPARSE_TAKES_HIDDEN) != 0) {
        return refuse(options, "bias", "its layers have biases of their own", err);
    }
    *ret = kind;
    return PS_OK;
}

/* How steps are made. */
static enum ps_status check_steps(const struct ps_train_options *options, struct ps_error *err)
{
    if (options->aggregate) {
        return refuse(options, "aggregate",
                      "is for images: of rows of lines each worker pushes its own", err);
    }
    if (options->prefetch > 0) {
        return refuse(options, "prefetch",
                      "is for images: rows of lines are pulled with the push before them", err);
    }
    if (options->units_per_lease > 0) {
        return refuse(options, "units-per-lease", "is for images: of lines a part is lent", err);
    }
    if (ps_train_given(options, "center")) {
        return refuse(options, "center", "is for images: of lines there is --standardize", err);
    }
    if ((uint64_t)options->batch * options->local_steps > PS_TRAIN_UNIT_ROWS_MAX) {
        char why[96];
        (void)snprintf(why, sizeof(why),
                       "times --batch %" PRIu32 " is more than %u rows in one push", options->batch,
                       PS_TRAIN_UNIT_ROWS_MAX);
        return refuse(options, "local-steps", why, err);
    }
    return PS_OK;
}

enum ps_status ps_sparse_flags_check(const struct ps_train_options *options,
                                     const struct ps_sparse_model_kind **ret, struct ps_error *err)
{
    enum ps_status status = check_model(options, ret, err);
    if (status == PS_OK) {
        status = check_steps(options, err);
    }
    if (status == PS_OK && options->optimizer_given) { /* Before the data are looked at. */
        status = ps_sparse_flags_rule(options, &ps_train_optimizers[options->optimizer], err);
    }
    struct ps_schedule schedule;
    return status == PS_OK ? ps_train_schedule(options, 1.0f, &schedule, err) : status;
}

enum ps_status ps_sparse_flags_of_images(const struct ps_train_options *options,
                                         struct ps_error *err)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(of_lines); i++) {
        if (ps_train_given(options, of_lines[i])) {
            return refuse(options, of_lines[i], "is for lines, says nothing to images", err);
        }
    }
    if (ps_sparse_flags_sums(&ps_train_optimizers[options->optimizer])) {
        return refuse(options, "optimizer", "is for lines; images have the others", err);
    }
    if (ps_model_find(options->model) == NULL && ps_sparse_model_find(options->model) != NULL) {
        return refuse(options, "model", "is for lines (libsvm, csv, tsv, criteo), not for images",
                      err);
    }
    return PS_OK;
}

enum ps_status ps_sparse_flags_params(const struct ps_train_options *options,
                                      struct ps_sparse_model_params *ret, struct ps_error *err)
{
    struct ps_model_params layers = {0};
    const char *hidden = options->hidden != NULL ? options->hidden : "";
    enum ps_status status = ps_model_hidden_parse(hidden, &layers, err);
    if (status != PS_OK) {
        return ps_train_blame(options, "hidden", status, err);
    }
    *ret = (struct ps_sparse_model_params){
        .rank = options->rank,
        .n_hidden = layers.n_hidden,
        .pool = options->pool,
        .regress = options->regress,
    };
    memcpy(ret->hidden, layers.hidden, sizeof(ret->hidden));
    return PS_OK;
}

enum ps_status ps_sparse_flags_task(const struct ps_train_options *options, enum ps_task task,
                                    struct ps_error *err)
{
    bool named = options->labels != NULL && task == PS_TASK_VALUE;
    return named ? refuse(options, "labels", "names classes, but this model takes numbers", err)
                 : PS_OK;
}

/*
 * A worker's own steps are rate * gradient. The rates of adam are lengths of steps, whatever the
 * gradient: with one that suits labels in thousands the copy is lost after a few batches. And it
 * would make one such step of the sum of all.
 */
static bool goes_with_plain_steps(const struct ps_train_optimizer *optimizer)
{
    return !ps_sparse_flags_sums(optimizer) && strncmp(optimizer->name, "adam", 4) != 0;
}

enum ps_status ps_sparse_flags_rule(const struct ps_train_options *options,
                                    const struct ps_train_optimizer *optimizer,
                                    struct ps_error *err)
{
    enum ps_status status = ps_train_check_rule(options, optimizer, err);
    if (status != PS_OK) {
        return status;
    }
    if (options->local_steps > 1 && !goes_with_plain_steps(optimizer)) {
        char why[160];
        (void)snprintf(why, sizeof(why),
                       "there are no plain gradient steps that go with %.16s, %s; use --optimizer "
                       "adagrad, momentum or sgd",
                       optimizer->name,
                       options->optimizer_given ? "the rule" : "the rule of this model");
        return refuse(options, "local-steps", why, err);
    }
    if (ps_sparse_flags_sums(optimizer)) {
        return PS_OK;
    }
    const char *name = ps_train_given(options, "l1")     ? "l1"
                       : ps_train_given(options, "beta") ? "beta"
                                                         : NULL;
    return name == NULL ? PS_OK : refuse(options, name, "belongs to --optimizer ftrl", err);
}
