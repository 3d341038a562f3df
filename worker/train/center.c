/* center.c — see center.h. */
#include "train/center.h"

#include "base/assert.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "train/plan.h"

#define CHUNK_ROWS 256u /* Converted to floats at once: stays in the cache. */

bool ps_center_possible(const struct ps_model *model)
{
    const struct ps_model_table *tables = model->tables;
    return model->n_tables >= 2 && tables[0].n_dims == 2 && tables[1].n_dims == 1 &&
           tables[0].dims[0] == model->n_features && tables[0].dims[1] == tables[1].dims[0];
}

static void add_rows(double *sum, const float *x, size_t n_rows, size_t n_features)
{
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t k = 0; k < n_features; k++) {
            sum[k] += (double)x[i * n_features + k];
        }
    }
}

enum ps_status ps_center_measure(struct ps_mem *mem, const struct ps_dataset *dataset, float **ret,
                                 struct ps_error *err)
{
    size_t n_features = dataset->n_features;
    float *mean = ps_mem_array(mem, PS_MEM_DATA, n_features, sizeof(*mean));
    double *sum = ps_mem_array(mem, PS_MEM_DATA, n_features, sizeof(*sum));
    float *x = ps_mem_array(mem, PS_MEM_DATA, CHUNK_ROWS * n_features, sizeof(*x));
    enum ps_status status = PS_OK;
    if (mean == NULL || sum == NULL || x == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory for the means of %zu features", n_features);
        ps_mem_free(mean);
        goto out;
    }
    for (size_t first = 0; first < dataset->n_rows; first += CHUNK_ROWS) {
        size_t left = dataset->n_rows - first;
        size_t n = left < CHUNK_ROWS ? left : CHUNK_ROWS;
        ps_dataset_run(dataset, first, n, x, NULL);
        add_rows(sum, x, n, n_features);
    }
    for (size_t k = 0; k < n_features; k++) {
        mean[k] = (float)(sum[k] / (double)dataset->n_rows);
    }
    *ret = mean;
out:
    ps_mem_free(sum);
    ps_mem_free(x);
    return status;
}

void ps_center_apply(const float *mean, float *x, size_t n_rows, size_t n_features)
{
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t k = 0; k < n_features; k++) {
            x[i * n_features + k] -= mean[k];
        }
    }
}

void ps_center_fold(const float *mean, const struct ps_model *model, struct ps_weights *weights)
{
    PS_ASSERT(ps_center_possible(model));
    const float *weight = weights->arrays[0];
    float *bias = weights->arrays[1];
    size_t n_units = model->tables[1].dims[0];
    for (size_t unit = 0; unit < n_units; unit++) {
        double shift = 0.0;
        for (size_t k = 0; k < model->n_features; k++) {
            shift += (double)mean[k] * (double)weight[k * n_units + unit];
        }
        bias[unit] = (float)((double)bias[unit] - shift);
    }
}
