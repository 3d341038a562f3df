/* setup.c — see setup.h. */
#include "train/setup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/format.h"

#define SETUP_VERSION 1.0

enum ps_status ps_setup_task(const struct ps_sparse_model_kind *kind,
                             const struct ps_sparse_model_params *params, enum ps_task *ret,
                             struct ps_error *err)
{
    struct ps_sparse_model_params some = *params;
    struct ps_sparse_model *model = NULL;
    some.n_classes = 2;
    some.n_fields = 1;
    enum ps_status status = ps_sparse_model_create(kind, &some, &model, err);
    if (status == PS_OK) {
        *ret = model->task;
    }
    ps_sparse_model_destroy(model);
    return status;
}

/* Columns that features may be of. */
static uint32_t fields_of(const struct ps_description *description)
{
    if (description->format == &ps_format_libsvm) {
        return 1;
    }
    return description->n_features > UINT32_MAX ? UINT32_MAX : (uint32_t)description->n_features;
}

static enum ps_status make_model(struct ps_setup *setup, struct ps_error *err)
{
    const struct ps_description *description = setup->description;
    PS_ASSERT(description != NULL);
    setup->params.mem = setup->mem;
    setup->params.n_classes = description->labels.n;
    setup->params.n_fields = fields_of(description);
    enum ps_status status = ps_description_check_labels(description, err);
    if (status == PS_OK) {
        status = ps_sparse_model_create(setup->kind, &setup->params, &setup->model, err);
    }
    PS_ASSERT(status != PS_OK || setup->model != NULL);
    if (status == PS_OK && setup->model->task != description->task) {
        return ps_fail(err, PS_ERR_INVALID, "%s is not for labels that were read as %s",
                       setup->kind->name, ps_task_name(description->task));
    }
    return status;
}

enum ps_status ps_setup_make(struct ps_mem *mem, const struct ps_sparse_model_kind *kind,
                             const struct ps_sparse_model_params *params,
                             struct ps_description *description, struct ps_setup **ret,
                             struct ps_error *err)
{
    struct ps_setup *setup = ps_mem_alloc(mem, PS_MEM_OTHER, sizeof(*setup));
    if (setup == NULL) {
        ps_description_destroy(description);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model");
    }
    *setup =
        (struct ps_setup){.mem = mem, .kind = kind, .params = *params, .description = description};
    enum ps_status status = make_model(setup, err);
    if (status != PS_OK) {
        ps_setup_destroy(setup);
        return status;
    }
    *ret = setup;
    return PS_OK;
}

void ps_setup_destroy(struct ps_setup *setup)
{
    if (setup == NULL) {
        return;
    }
    ps_sparse_model_destroy(setup->model);
    ps_description_destroy(setup->description);
    ps_mem_free(setup);
}

enum ps_status ps_setup_seed(struct ps_setup *setup, uint64_t seed, struct ps_error *err)
{
    struct ps_sparse_model_params params = setup->params;
    struct ps_sparse_model *model = NULL;
    params.seed = seed;
    enum ps_status status = ps_sparse_model_create(setup->kind, &params, &model, err);
    if (status == PS_OK) {
        ps_sparse_model_destroy(setup->model);
        setup->model = model;
        setup->params = params;
    }
    return status;
}

/* ---- Written ------------------------------------------------------------------------------- */

/* By its digits, so that they are read back to the same bits; with a point in every locale. */
static bool add_number(cJSON *json, const char *key, double number)
{
    char digits[40];
    (void)snprintf(digits, sizeof(digits), "%.17g", number);
    char *comma = strchr(digits, ',');
    if (comma != NULL) {
        *comma = '.';
    }
    return cJSON_AddRawToObject(json, key, digits) != NULL;
}

static bool add_hidden(cJSON *json, const struct ps_sparse_model_params *params)
{
    cJSON *hidden = cJSON_AddArrayToObject(json, "hidden");
    bool good = hidden != NULL;
    for (uint32_t i = 0; good && i < params->n_hidden; i++) {
        good = cJSON_AddItemToArray(hidden, cJSON_CreateNumber((double)params->hidden[i])) != 0;
    }
    return good;
}

enum ps_status ps_setup_write(const struct ps_setup *setup, char **ret, struct ps_error *err)
{
    char *data = NULL;
    enum ps_status status = ps_description_write(setup->description, &data, err);
    if (status != PS_OK) {
        return status;
    }
    const struct ps_sparse_model_params *params = &setup->params;
    cJSON *json = cJSON_CreateObject();
    bool good = json != NULL && cJSON_AddNumberToObject(json, "version", SETUP_VERSION) != NULL &&
                cJSON_AddStringToObject(json, "model", setup->kind->name) != NULL &&
                cJSON_AddNumberToObject(json, "rank", (double)params->rank) != NULL &&
                add_hidden(json, params) &&
                cJSON_AddBoolToObject(json, "pool", params->pool) != NULL &&
                cJSON_AddBoolToObject(json, "regress", params->regress) != NULL &&
                add_number(json, "offset", params->offset) &&
                cJSON_AddRawToObject(json, "data", data) != NULL;
    char *foreign = good ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    ps_mem_free(data);
    size_t n_bytes = foreign != NULL ? strlen(foreign) : 0;
    char *text = NULL;
    if (n_bytes <= PS_SETUP_BYTES_MAX && foreign != NULL) {
        text = ps_mem_strdup(setup->mem, PS_MEM_OTHER, foreign);
    }
    cJSON_free(foreign);
    if (n_bytes > PS_SETUP_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "what is to be known of the data takes %zu bytes, at most %u: too many "
                       "labels or columns",
                       n_bytes, PS_SETUP_BYTES_MAX);
    }
    if (text == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write down a model");
    }
    *ret = text;
    return PS_OK;
}

/* ---- Read ---------------------------------------------------------------------------------- */

static enum ps_status damaged(struct ps_error *err, const char *what)
{
    return ps_fail(err, PS_ERR_CORRUPT, "damaged description of a model: %s", what);
}

/* A whole number up to `max`. */
static bool get_whole(const cJSON *item, uint32_t max, uint32_t *ret)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0.0) || item->valuedouble > (double)max) {
        return false;
    }
    *ret = (uint32_t)item->valuedouble;
    return (double)*ret >= item->valuedouble;
}

static bool get_bool(const cJSON *json, const char *key, bool *ret)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    *ret = cJSON_IsTrue(item) != 0;
    return cJSON_IsBool(item) != 0;
}

static bool get_hidden(const cJSON *json, struct ps_sparse_model_params *params)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "hidden");
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > (int)PS_MODEL_HIDDEN_MAX) {
        return false;
    }
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, array)
    {
        if (!get_whole(item, PS_MODEL_WIDTH_MAX, &params->hidden[params->n_hidden++])) {
            return false;
        }
    }
    return true;
}

static enum ps_status read_kind(const cJSON *json, const struct ps_sparse_model_kind **ret,
                                struct ps_error *err)
{
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(json, "version");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "model"));
    if (!cJSON_IsNumber(version) || name == NULL) {
        return damaged(err, "version and model");
    }
    if (version->valuedouble > SETUP_VERSION) {
        return ps_fail(err, PS_ERR_UNSUPPORTED, "the model was written by a later version (%g)",
                       version->valuedouble);
    }
    *ret = ps_sparse_model_find(name);
    return *ret != NULL
               ? PS_OK
               : ps_fail(err, PS_ERR_UNSUPPORTED,
                         "a model of kind '%.20s', which this program does not know", name);
}

static enum ps_status read_params(const cJSON *json, struct ps_sparse_model_params *params,
                                  struct ps_error *err)
{
    const cJSON *offset = cJSON_GetObjectItemCaseSensitive(json, "offset");
    if (!get_whole(cJSON_GetObjectItemCaseSensitive(json, "rank"), PS_MODEL_RANK_MAX,
                   &params->rank) ||
        !get_hidden(json, params) || !get_bool(json, "pool", &params->pool) ||
        !get_bool(json, "regress", &params->regress) || !cJSON_IsNumber(offset) ||
        !isfinite(offset->valuedouble)) {
        return damaged(err, "rank, hidden, pool, regress, offset");
    }
    params->offset = offset->valuedouble;
    return PS_OK;
}

static enum ps_status read_data(struct ps_mem *mem, const cJSON *json, struct ps_description **ret,
                                struct ps_error *err)
{
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(json, "data");
    char *text = cJSON_IsObject(data) ? cJSON_PrintUnformatted(data) : NULL;
    if (text == NULL) {
        return damaged(err, "no data");
    }
    enum ps_status status = ps_description_read(mem, text, strlen(text), ret, err);
    cJSON_free(text);
    return status;
}

static enum ps_status read_all(struct ps_mem *mem, const cJSON *json, struct ps_setup **ret,
                               struct ps_error *err)
{
    const struct ps_sparse_model_kind *kind = NULL;
    struct ps_sparse_model_params params = {0};
    struct ps_description *description = NULL;
    enum ps_status status = read_kind(json, &kind, err);
    status = status == PS_OK ? read_params(json, &params, err) : status;
    status = status == PS_OK ? read_data(mem, json, &description, err) : status;
    if (status != PS_OK) {
        return status;
    }
    return ps_setup_make(mem, kind, &params, description, ret, err);
}

enum ps_status ps_setup_read(struct ps_mem *mem, const char *text, size_t n_bytes,
                             struct ps_setup **ret, struct ps_error *err)
{
    cJSON *json = n_bytes <= PS_SETUP_BYTES_MAX ? cJSON_ParseWithLength(text, n_bytes) : NULL;
    enum ps_status status =
        cJSON_IsObject(json) ? read_all(mem, json, ret, err) : damaged(err, "no JSON object");
    cJSON_Delete(json);
    /* What its parts find invalid was damaged on its way. */
    if (status == PS_ERR_INVALID && err != NULL) {
        err->status = PS_ERR_CORRUPT;
    }
    return status == PS_ERR_INVALID ? PS_ERR_CORRUPT : status;
}
