/* evaluate.c — see evaluate.h. */
#include "train/evaluate.h"

#include <inttypes.h>

#include "base/mem.h"
#include "data/dataset.h"

/* Sum the scores of all batches; `x` and `y` hold PS_EVALUATE_ROWS rows. */
static enum ps_status score_all(struct ps_model *model, const float *const *weights,
                                const struct ps_dataset *dataset, float *x, uint32_t *y,
                                struct ps_score *ret)
{
    struct ps_score total = {0};
    for (size_t first = 0; first < dataset->n_rows; first += PS_EVALUATE_ROWS) {
        size_t n_left = dataset->n_rows - first;
        size_t n = n_left < PS_EVALUATE_ROWS ? n_left : PS_EVALUATE_ROWS;
        ps_dataset_run(dataset, first, n, x, y);
        struct ps_batch_view batch = {.x = x, .y = y, .n_rows = n};
        struct ps_score score = {0};
        enum ps_status status = model->kind->evaluate(model, weights, &batch, &score);
        if (status != PS_OK) {
            return status;
        }
        total.loss_sum += score.loss_sum;
        total.n_correct += score.n_correct;
    }
    *ret = total;
    return PS_OK;
}

enum ps_status ps_evaluate(struct ps_model *model, const float *const *weights,
                           const struct ps_dataset *dataset, struct ps_evaluation *ret,
                           struct ps_error *err)
{
    if (dataset->n_features != model->n_features || dataset->n_classes > model->n_classes) {
        return ps_fail(
            err, PS_ERR_INVALID,
            "rows of %" PRIu32 " numbers in %" PRIu32 " classes do not fit a model for %" PRIu32
            " numbers and %" PRIu32 " classes",
            dataset->n_features, dataset->n_classes, model->n_features, model->n_classes);
    }
    struct ps_score score = {0};
    enum ps_status status = PS_ERR_NOMEM;
    float *x = ps_mem_array(model->mem, PS_MEM_DATA, (size_t)PS_EVALUATE_ROWS * dataset->n_features,
                            sizeof(*x));
    uint32_t *y = ps_mem_array(model->mem, PS_MEM_DATA, PS_EVALUATE_ROWS, sizeof(*y));
    if (x != NULL && y != NULL) {
        status = score_all(model, weights, dataset, x, y, &score);
    }
    ps_mem_free(x);
    ps_mem_free(y);
    if (status != PS_OK) {
        return ps_fail(err, status, "no memory to evaluate batches of %u rows", PS_EVALUATE_ROWS);
    }
    *ret = (struct ps_evaluation){
        .loss = score.loss_sum / (double)dataset->n_rows,
        .accuracy = (double)score.n_correct / (double)dataset->n_rows,
        .n_rows = dataset->n_rows,
    };
    return PS_OK;
}
