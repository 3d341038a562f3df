/* psctl_text.c — what a model of text says to lines: one line for each row, or how good it is. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/format.h"
#include "data/source.h"
#include "psctl_model.h"
#include "psctl_out.h"
#include "train/sparse_score.h"

/* ---- Predictions --------------------------------------------------------------------------- */

struct predicting {
    const struct ps_setup *setup;
    const struct ps_source *data;
    bool lines; /* Rows may be missing: say which line each is. */
    struct psctl_out out;
};

static const char *label_of(const struct ps_setup *setup, uint32_t label)
{
    return setup->description->labels.at[label].text;
}

/* The class that eval takes for predicted. */
static uint32_t best_of(const struct ps_setup *setup, const float *outputs, uint32_t n)
{
    uint32_t best = 0;
    if (setup->model->task == PS_TASK_BINARY) {
        return outputs[0] > 0.5f;
    }
    for (uint32_t j = 1; j < n; j++) {
        best = outputs[j] > outputs[best] ? j : best;
    }
    return best;
}

static enum ps_status write_place(struct predicting *p, uint32_t file, uint64_t line,
                                  struct ps_error *err)
{
    if (!p->lines) {
        return PS_OK;
    }
    return p->data->n_files > 1
               ? psctl_out_text(&p->out, err, "%s:%" PRIu64 "\t", p->data->files[file].path, line)
               : psctl_out_text(&p->out, err, "%" PRIu64 "\t", line);
}

static enum ps_status write_row(struct predicting *p, const float *outputs, uint32_t n,
                                struct ps_error *err)
{
    enum ps_status status = PS_OK;
    bool labelled = p->setup->model->task != PS_TASK_VALUE;
    if (labelled) {
        status =
            psctl_out_text(&p->out, err, "%s", label_of(p->setup, best_of(p->setup, outputs, n)));
    }
    for (uint32_t j = 0; status == PS_OK && j < n; j++) {
        status = psctl_out_text(&p->out, err, "%s%.9g", labelled || j > 0 ? "\t" : "",
                                (double)outputs[j]);
    }
    return status == PS_OK ? psctl_out_text(&p->out, err, "\n") : status;
}

static enum ps_status write_rows(void *arg, const struct ps_sparse_scored *scored,
                                 struct ps_error *err)
{
    struct predicting *p = arg;
    enum ps_status status = PS_OK;
    for (size_t row = 0; status == PS_OK && row < scored->n_rows; row++) {
        status = write_place(p, scored->file, scored->lines[row], err);
        if (status == PS_OK) {
            status =
                write_row(p, scored->outputs + row * scored->n_outputs, scored->n_outputs, err);
        }
    }
    return status;
}

static void say_bad(const struct ps_sparse_score_result *result)
{
    for (uint32_t i = 0; i < PS_BAD_ROWS_TOLD && result->bad[i][0] != '\0'; i++) {
        (void)fprintf(stderr, "psctl: skipped: %s\n", result->bad[i]);
    }
    if (result->counts.n_bad > PS_BAD_ROWS_TOLD) {
        (void)fprintf(stderr, "psctl: and %" PRIu64 " more\n",
                      result->counts.n_bad - PS_BAD_ROWS_TOLD);
    }
}

/* What the columns are, in one word each. */
static void say_columns(const struct ps_setup *setup, bool lines)
{
    const char *line = lines ? "line, " : "";
    switch (setup->model->task) {
    case PS_TASK_BINARY:
        (void)fprintf(stderr, "; columns: %slabel (%s or %s), probability of %s\n", line,
                      label_of(setup, 0), label_of(setup, 1), label_of(setup, 1));
        break;
    case PS_TASK_CLASSES:
        (void)fprintf(stderr, "; columns: %slabel, probabilities of", line);
        for (uint32_t j = 0; j < setup->model->n_outputs; j++) {
            (void)fprintf(stderr, "%s %s", j > 0 ? "," : "", label_of(setup, j));
        }
        (void)fprintf(stderr, "\n");
        break;
    case PS_TASK_VALUE: (void)fprintf(stderr, "; columns: %svalue\n", line); break;
    }
}

static void say_predicted(const struct predicting *p, const struct ps_sparse_score_result *result)
{
    say_bad(result);
    (void)fprintf(stderr,
                  "psctl: %" PRIu64 " rows predicted, %" PRIu64
                  " lines between them are no rows, %" PRIu64 " bad lines skipped",
                  result->counts.n_rows, result->n_between, result->counts.n_bad);
    if (result->counts.n_missing > 0) {
        (void)fprintf(stderr, ", missing cells: %" PRIu64, result->counts.n_missing);
    }
    if (result->counts.n_qids > 0) {
        (void)fprintf(stderr, ", qid words passed over: %" PRIu64, result->counts.n_qids);
    }
    say_columns(p->setup, p->lines);
}

static struct ps_sparse_score_options score_options(const struct psctl_options *options)
{
    return (struct ps_sparse_score_options){
        .batch_rows = options->batch,
        .max_bad_rows = options->max_bad_rows,
    };
}

static enum ps_status predict_to(struct psctl_model *model, struct predicting *p,
                                 struct ps_error *err)
{
    struct ps_sparse_score_result result;
    struct ps_sparse_score_options options = score_options(model->options);
    options.label_optional = true;
    options.rows = write_rows;
    options.arg = p;
    enum ps_status status = psctl_out_begin(&p->out, model->options->output, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_sparse_score(model->setup, model->source, p->data, &options, &result, err);
    status = psctl_out_end(&p->out, status, err);
    if (status == PS_OK) {
        say_predicted(p, &result);
    }
    return status;
}

static enum ps_status open_data(const struct psctl_model *model, struct ps_source **ret,
                                struct ps_error *err)
{
    struct ps_description *description = model->setup->description;
    uint32_t base = model->options->index_base;
    if (base != PSCTL_BASE_AUTO && description->format == &ps_format_libsvm) {
        description->index_base = base == PSCTL_BASE_1;
    } else if (base != PSCTL_BASE_AUTO) {
        return ps_fail(err, PS_ERR_INVALID, "--index-base is for libsvm, the model reads %s",
                       description->format->name);
    }
    enum ps_status status = ps_source_open(NULL, model->options->data, ret, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "--data %s", model->options->data);
}

enum ps_status psctl_text_predict(struct psctl_model *model, struct ps_error *err)
{
    struct ps_source *data = NULL;
    enum ps_status status = open_data(model, &data, err);
    if (status != PS_OK) {
        return status;
    }
    struct predicting *p = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*p));
    if (p == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory to predict");
    } else {
        p->setup = model->setup;
        p->data = data;
        p->lines = model->options->max_bad_rows > 0;
        status = predict_to(model, p, err);
    }
    ps_mem_free(p);
    ps_source_close(data);
    return status;
}

/* ---- Evaluation ---------------------------------------------------------------------------- */

enum ps_status psctl_text_eval(struct psctl_model *model, struct ps_error *err)
{
    struct ps_source *data = NULL;
    struct ps_sparse_score_result result;
    struct ps_sparse_score_options options = score_options(model->options);
    enum ps_status status = open_data(model, &data, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_sparse_score(model->setup, model->source, data, &options, &result, err);
    ps_source_close(data);
    if (status != PS_OK) {
        return status;
    }
    if (result.metrics.n_rows == 0) {
        return ps_fail(err, PS_ERR_INVALID, "--data %s: holds no rows", model->options->data);
    }
    say_bad(&result);
    struct psctl_figures figures = {
        .rows = result.metrics.n_rows,
        .rows_bad = result.counts.n_bad,
        .loss = result.loss,
        .accuracy = result.metrics.accuracy,
        .log_loss = result.metrics.log_loss,
        .auc = result.metrics.auc,
        .rmse = result.metrics.rmse,
    };
    return psctl_print_figures(model->options, &figures, err);
}
