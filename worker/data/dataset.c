/* dataset.c — see dataset.h. */
#include "data/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/hash.h"

#define PIXEL_SCALE   (1.0f / 255.0f)
#define N_CLASSES_MIN 2u /* One class has nothing to learn, but a tiny file may hold only one. */

/* A copy of the shape on the heap, with room for the labels. Takes over shape->owned. */
static struct ps_dataset *make(struct ps_mem *mem, const struct ps_dataset *shape)
{
    struct ps_dataset *dataset = ps_mem_alloc(mem, PS_MEM_DATA, sizeof(*dataset));
    uint32_t *labels = ps_mem_array(mem, PS_MEM_DATA, shape->n_rows, sizeof(*labels));
    if (dataset == NULL || labels == NULL) {
        ps_mem_free(dataset);
        ps_mem_free(labels);
        ps_mem_free(shape->owned);
        return NULL;
    }
    *dataset = *shape;
    dataset->labels = labels;
    return dataset;
}

enum ps_status ps_dataset_from_pixels(struct ps_mem *mem, struct ps_dataset shape,
                                      const uint8_t *labels, struct ps_dataset **ret,
                                      struct ps_error *err)
{
    PS_ASSERT(shape.n_rows >= 1);
    PS_ASSERT(shape.n_rows <= UINT32_MAX);
    PS_ASSERT(shape.n_features >= 1);
    PS_ASSERT(shape.pixels != NULL);
    struct ps_dataset *dataset = make(mem, &shape);
    if (dataset == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %zu rows", shape.n_rows);
    }
    uint32_t n_classes = N_CLASSES_MIN;
    for (size_t row = 0; row < shape.n_rows; row++) {
        if (shape.n_classes != 0 && labels[row] >= shape.n_classes) {
            ps_dataset_destroy(dataset);
            return ps_fail(err, PS_ERR_INVALID, "row %zu has label %u, expected 0 to %" PRIu32, row,
                           (unsigned)labels[row], shape.n_classes - 1);
        }
        dataset->labels[row] = labels[row];
        n_classes = labels[row] >= n_classes ? labels[row] + 1u : n_classes;
    }
    dataset->n_classes = shape.n_classes != 0 ? shape.n_classes : n_classes;
    *ret = dataset;
    return PS_OK;
}

enum ps_status ps_dataset_from_values(struct ps_mem *mem, struct ps_dataset shape,
                                      struct ps_dataset **ret, float **ret_values,
                                      struct ps_error *err)
{
    PS_ASSERT(shape.n_rows >= 1);
    PS_ASSERT(shape.n_rows <= UINT32_MAX);
    PS_ASSERT(shape.n_features >= 1);
    PS_ASSERT(shape.n_classes >= N_CLASSES_MIN);
    size_t n_values = 0;
    float *values = NULL;
    if (ps_mul_size(shape.n_rows, shape.n_features, &n_values)) {
        values = ps_mem_array(mem, PS_MEM_DATA, n_values, sizeof(*values));
    }
    struct ps_dataset *dataset = NULL;
    if (values != NULL) {
        shape.pixels = NULL;
        shape.values = values;
        shape.owned = values;
        dataset = make(mem, &shape);
    }
    if (dataset == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %zu rows", shape.n_rows);
    }
    *ret = dataset;
    *ret_values = values;
    return PS_OK;
}

void ps_dataset_destroy(struct ps_dataset *dataset)
{
    if (dataset == NULL) {
        return;
    }
    ps_mem_free(dataset->owned);
    ps_mem_free(dataset->labels);
    ps_mem_free(dataset);
}

/* One row as floats; `x` is [n_features]. */
static void copy_row(const struct ps_dataset *dataset, size_t row, float *x)
{
    size_t n = dataset->n_features;
    if (dataset->values != NULL) {
        memcpy(x, dataset->values + row * n, n * sizeof(*x));
        return;
    }
    const uint8_t *pixels = dataset->pixels + row * n;
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)pixels[i] * PIXEL_SCALE;
    }
}

void ps_dataset_rows(const struct ps_dataset *dataset, const uint32_t *row_ids, size_t n, float *x,
                     uint32_t *y)
{
    for (size_t i = 0; i < n; i++) {
        PS_ASSERT(row_ids[i] < dataset->n_rows);
        copy_row(dataset, row_ids[i], x + i * dataset->n_features);
        if (y != NULL) {
            y[i] = dataset->labels[row_ids[i]];
        }
    }
}

void ps_dataset_run(const struct ps_dataset *dataset, size_t first, size_t n, float *x, uint32_t *y)
{
    PS_ASSERT(first <= dataset->n_rows);
    PS_ASSERT(n <= dataset->n_rows - first);
    for (size_t i = 0; i < n; i++) {
        copy_row(dataset, first + i, x + i * dataset->n_features);
    }
    if (y != NULL && n > 0) {
        memcpy(y, dataset->labels + first, n * sizeof(*y));
    }
}

uint64_t ps_dataset_hash(const struct ps_dataset *dataset)
{
    size_t n_values = dataset->n_rows * dataset->n_features;
    uint64_t hash = ps_mix64(dataset->n_rows);
    hash = ps_mix64(hash ^ dataset->n_features);
    hash = ps_mix64(hash ^ dataset->n_classes);
    hash = ps_hash_bytes(hash, dataset->labels, dataset->n_rows * sizeof(*dataset->labels));
    return dataset->values != NULL
               ? ps_hash_bytes(hash, dataset->values, n_values * sizeof(*dataset->values))
               : ps_hash_bytes(hash, dataset->pixels, n_values);
}
