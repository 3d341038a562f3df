/* sparse_registry.c — the one list of sparse models, and the checks that all kinds share. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "model/sparse_list.h"

static const struct ps_sparse_model_kind *const kinds[] = {
    &ps_sparse_model_logreg, &ps_sparse_model_linear, &ps_sparse_model_softmax,
    &ps_sparse_model_fm,     &ps_sparse_model_mf,     &ps_sparse_model_wide_deep,
};

const struct ps_sparse_model_kind *ps_sparse_model_find(const char *name)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}

const struct ps_sparse_model_kind *const *ps_sparse_model_all(size_t *ret_n)
{
    *ret_n = PS_ARRAY_LEN(kinds);
    return kinds;
}

static enum ps_status check_hidden(const struct ps_sparse_model_params *params,
                                   struct ps_error *err)
{
    PS_ASSERT(params->n_hidden <= PS_MODEL_HIDDEN_MAX);
    for (uint32_t i = 0; i < params->n_hidden; i++) {
        if (params->hidden[i] < 1 || params->hidden[i] > PS_MODEL_WIDTH_MAX) {
            return ps_fail(err, PS_ERR_INVALID,
                           "--hidden: units of a layer must be 1 to %u, got %" PRIu32,
                           PS_MODEL_WIDTH_MAX, params->hidden[i]);
        }
    }
    return PS_OK;
}

enum ps_status ps_sparse_model_create(const struct ps_sparse_model_kind *kind,
                                      const struct ps_sparse_model_params *params,
                                      struct ps_sparse_model **ret, struct ps_error *err)
{
    PS_ASSERT(kind != NULL);
    if (params->rank > PS_MODEL_RANK_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "--rank must be 1 to %u, got %" PRIu32,
                       PS_MODEL_RANK_MAX, params->rank);
    }
    if (!isfinite(params->offset)) {
        return ps_fail(err, PS_ERR_INVALID, "the mean of the labels is not finite");
    }
    enum ps_status status = check_hidden(params, err);
    if (status == PS_OK && kind->check != NULL) {
        status = kind->check(params, err);
    }
    return status == PS_OK ? kind->create(params, ret, err) : status;
}

void ps_sparse_model_destroy(struct ps_sparse_model *model)
{
    if (model != NULL) {
        model->kind->destroy(model);
    }
}

struct ps_model_table ps_bias_table(const char *name, uint32_t n, uint64_t seed)
{
    struct ps_model_table table = {
        .n_dims = 1,
        .dims = {n},
        .n_values = n,
        .init = {.kind = PS_INIT_ZEROS, .seed = seed},
    };
    int n_bytes = snprintf(table.name, sizeof(table.name), "%s", name);
    PS_ASSERT(n_bytes > 0 && (size_t)n_bytes < sizeof(table.name));
    return table;
}

struct ps_sparse_model_table ps_row_table(const char *name, uint32_t width, float scale,
                                          uint64_t seed)
{
    struct ps_sparse_model_table table = {
        .width = width,
        .init = {.kind = scale > 0.0f ? PS_INIT_NORMAL : PS_INIT_ZEROS,
                 .scale = scale,
                 .seed = seed},
    };
    int n_bytes = snprintf(table.name, sizeof(table.name), "%s", name);
    PS_ASSERT(n_bytes > 0 && (size_t)n_bytes < sizeof(table.name));
    return table;
}
