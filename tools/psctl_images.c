/* psctl_images.c — what a model of images says to them; see psctl_model.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "data/data.h"
#include "data/dataset.h"
#include "psctl_model.h"
#include "psctl_out.h"
#include "train/evaluate.h"

/* The test set when there is one, else the training set. */
static enum ps_status open_data(const struct psctl_model *model, struct ps_dataset **ret,
                                struct ps_error *err)
{
    struct ps_dataset *train = NULL;
    struct ps_dataset *test = NULL;
    struct ps_data_options where = {.n_classes = model->dense.model->n_classes};
    enum ps_status status = ps_data_open(model->options->data, &where, &train, &test, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "--data %s", model->options->data);
    }
    *ret = test != NULL ? test : train;
    if (test != NULL) {
        ps_dataset_destroy(train);
    }
    if ((*ret)->n_features != model->dense.model->n_features) {
        status = ps_fail(err, PS_ERR_INVALID,
                         "--data %s: rows of %" PRIu32 " numbers, the model takes %" PRIu32,
                         model->options->data, (*ret)->n_features, model->dense.model->n_features);
        ps_dataset_destroy(*ret);
    }
    return status;
}

enum ps_status psctl_images_eval(struct psctl_model *model, struct ps_error *err)
{
    struct ps_dataset *data = NULL;
    struct ps_evaluation evaluation;
    enum ps_status status = open_data(model, &data, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_evaluate(model->dense.model, model->dense.arrays, data, &evaluation, err);
    ps_dataset_destroy(data);
    if (status != PS_OK) {
        return status;
    }
    struct psctl_figures figures = {
        .rows = evaluation.n_rows,
        .loss = evaluation.loss,
        .accuracy = evaluation.accuracy,
        .log_loss = evaluation.loss,
        .auc = (double)NAN,
        .rmse = (double)NAN,
    };
    return psctl_print_figures(model->options, &figures, err);
}

static enum ps_status write_row(struct psctl_out *out, const float *probs, uint32_t n,
                                struct ps_error *err)
{
    uint32_t best = 0;
    for (uint32_t j = 1; j < n; j++) {
        best = probs[j] > probs[best] ? j : best;
    }
    enum ps_status status = psctl_out_text(out, err, "%" PRIu32, best);
    for (uint32_t j = 0; status == PS_OK && j < n; j++) {
        status = psctl_out_text(out, err, "\t%.9g", (double)probs[j]);
    }
    return status == PS_OK ? psctl_out_text(out, err, "\n") : status;
}

/* Scratch of one batch. */
struct images {
    size_t n_batch;
    float *x;
    float *probs;
    struct psctl_out out;
};

static enum ps_status write_rows(const struct psctl_model *model, const struct ps_dataset *data,
                                 struct images *images, struct ps_error *err)
{
    struct ps_model *m = model->dense.model;
    enum ps_status status = PS_OK;
    for (size_t first = 0; status == PS_OK && first < data->n_rows; first += images->n_batch) {
        size_t n = data->n_rows - first;
        n = n < images->n_batch ? n : images->n_batch;
        ps_dataset_run(data, first, n, images->x, NULL);
        struct ps_batch_view batch = {.x = images->x, .n_rows = n};
        status = m->kind->predict(m, model->dense.arrays, &batch, images->probs);
        if (status != PS_OK) {
            return ps_fail(err, status, "no memory to predict rows");
        }
        for (size_t row = 0; status == PS_OK && row < n; row++) {
            status = write_row(&images->out, images->probs + row * m->n_classes, m->n_classes, err);
        }
    }
    return status;
}

static enum ps_status predict_to(const struct psctl_model *model, const struct ps_dataset *data,
                                 struct images *images, struct ps_error *err)
{
    const struct ps_model *m = model->dense.model;
    images->n_batch = model->options->batch;
    images->x = ps_mem_array(NULL, PS_MEM_DATA, images->n_batch, m->n_features * sizeof(float));
    images->probs = ps_mem_array(NULL, PS_MEM_DATA, images->n_batch, m->n_classes * sizeof(float));
    if (images->x == NULL || images->probs == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %zu images", images->n_batch);
    }
    enum ps_status status = psctl_out_begin(&images->out, model->options->output, err);
    if (status != PS_OK) {
        return status;
    }
    status = write_rows(model, data, images, err);
    status = psctl_out_end(&images->out, status, err);
    if (status == PS_OK) {
        (void)fprintf(stderr,
                      "psctl: %zu rows predicted; columns: label, probabilities of 0 to %" PRIu32
                      "\n",
                      data->n_rows, m->n_classes - 1);
    }
    return status;
}

enum ps_status psctl_images_predict(struct psctl_model *model, struct ps_error *err)
{
    struct ps_dataset *data = NULL;
    enum ps_status status = open_data(model, &data, err);
    if (status != PS_OK) {
        return status;
    }
    PS_ASSERT(data != NULL);
    struct images *images = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*images));
    if (images == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory to predict");
    } else {
        status = predict_to(model, data, images, err);
        ps_mem_free(images->x);
        ps_mem_free(images->probs);
    }
    ps_mem_free(images);
    ps_dataset_destroy(data);
    return status;
}
