/* description.c — see description.h. */
#include "data/description.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/attr.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/format.h"

static const char *const task_names[] = {
    [PS_TASK_BINARY] = "binary",
    [PS_TASK_CLASSES] = "classes",
    [PS_TASK_VALUE] = "number",
};

static const char *const kind_names[] = {
    [PS_COLUMN_NUMERIC] = "numeric",
    [PS_COLUMN_CATEGORICAL] = "categorical",
    [PS_COLUMN_LABEL] = "label",
    [PS_COLUMN_IGNORED] = "ignored",
};

const char *ps_task_name(enum ps_task task)
{
    return task_names[task];
}

struct ps_description *ps_description_create(struct ps_mem *mem)
{
    struct ps_description *description = ps_mem_alloc(mem, PS_MEM_DATA, sizeof(*description));
    if (description != NULL) {
        description->mem = mem;
        ps_labels_init(&description->labels, mem);
    }
    return description;
}

void ps_description_destroy(struct ps_description *description)
{
    if (description == NULL) {
        return;
    }
    for (uint32_t i = 0; i < description->n_columns; i++) {
        ps_mem_free(description->columns[i].name);
    }
    ps_mem_free(description->columns);
    ps_mem_free(description->scales);
    ps_labels_deinit(&description->labels);
    ps_mem_free(description);
}

enum ps_status ps_description_check_labels(const struct ps_description *description,
                                           struct ps_error *err)
{
    uint32_t n = description->labels.n;
    if (description->task == PS_TASK_VALUE || n == 2 ||
        (n > 2 && description->task == PS_TASK_CLASSES)) {
        return PS_OK;
    }
    if (n > 2) {
        return ps_fail(err, PS_ERR_INVALID, "%" PRIu32 " labels, expected two", n);
    }
    return ps_fail(err, PS_ERR_INVALID,
                   "all labels are '%.40s', expected two at least: --labels names those that are "
                   "to come%s",
                   n == 1 ? description->labels.at[0].text : "",
                   description->n_columns > 0 ? ", --label another column" : "");
}

/* By its digits, with a point in every locale. */
static bool add_number(cJSON *to, const char *key, double number, int n_digits)
{
    char digits[40];
    (void)snprintf(digits, sizeof(digits), "%.*g", n_digits, number);
    char *comma = strchr(digits, ',');
    if (comma != NULL) {
        *comma = '.';
    }
    if (key == NULL) {
        cJSON *raw = cJSON_CreateRaw(digits);
        return raw != NULL && cJSON_AddItemToArray(to, raw) != 0;
    }
    return cJSON_AddRawToObject(to, key, digits) != NULL;
}

/* As text: 64 bits are more than a JSON number keeps. */
static bool add_count(cJSON *to, const char *key, uint64_t count)
{
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%" PRIu64, count);
    return cJSON_AddStringToObject(to, key, digits) != NULL;
}

static bool add_labels(cJSON *json, const struct ps_labels *labels)
{
    cJSON *array = cJSON_AddArrayToObject(json, "labels");
    bool good = array != NULL && cJSON_AddBoolToObject(json, "labels_given", labels->given) != NULL;
    for (uint32_t i = 0; good && i < labels->n; i++) {
        cJSON *text = cJSON_CreateString(labels->at[i].text);
        good = text != NULL && cJSON_AddItemToArray(array, text) != 0;
    }
    return good;
}

static bool add_columns(cJSON *json, const struct ps_description *description)
{
    cJSON *array = cJSON_AddArrayToObject(json, "columns");
    bool good = array != NULL;
    for (uint32_t i = 0; good && i < description->n_columns; i++) {
        const struct ps_column *column = &description->columns[i];
        cJSON *entry = cJSON_CreateObject();
        good = entry != NULL && cJSON_AddItemToArray(array, entry) != 0 &&
               cJSON_AddStringToObject(entry, "name", column->name) != NULL &&
               cJSON_AddStringToObject(entry, "kind", kind_names[column->kind]) != NULL;
        if (good && column->kind == PS_COLUMN_NUMERIC) {
            good = add_number(entry, "mean", column->mean, 17) &&
                   add_number(entry, "scale", column->scale, 17);
        }
    }
    return good;
}

static bool add_scales(cJSON *json, const struct ps_description *description)
{
    if (description->scales == NULL) {
        return true;
    }
    cJSON *array = cJSON_AddArrayToObject(json, "scales");
    bool good = array != NULL;
    for (uint32_t i = 0; good && i < description->n_scales; i++) {
        good = add_number(array, NULL, (double)description->scales[i], 9);
    }
    return good;
}

enum ps_status ps_description_write(const struct ps_description *description, char **ret,
                                    struct ps_error *err)
{
    cJSON *json = cJSON_CreateObject();
    bool good = json != NULL &&
                cJSON_AddStringToObject(json, "format", description->format->name) != NULL &&
                cJSON_AddStringToObject(json, "task", task_names[description->task]) != NULL &&
                add_labels(json, &description->labels) &&
                add_count(json, "n_features", description->n_features) &&
                add_count(json, "n_rows", description->n_rows) &&
                cJSON_AddBoolToObject(json, "all_seen", description->all_seen) != NULL &&
                add_number(json, "index_base", (double)description->index_base, 9) &&
                cJSON_AddBoolToObject(json, "header", description->header) != NULL &&
                add_columns(json, description) && add_scales(json, description);
    char *foreign = good ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    char *text = foreign != NULL ? ps_mem_strdup(description->mem, PS_MEM_DATA, foreign) : NULL;
    cJSON_free(foreign);
    if (text == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the description of data");
    }
    *ret = text;
    return PS_OK;
}

/* Place of the text under `key` among `names`, or n_names. */
static uint32_t find_name(const cJSON *json, const char *key, const char *const *names,
                          uint32_t n_names)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    for (uint32_t i = 0; text != NULL && i < n_names; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return n_names;
}

static bool get_count(const cJSON *json, const char *key, uint64_t *ret)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    uint64_t value = 0;
    if (text == NULL || text[0] == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        bool digit = *text >= '0' && *text <= '9';
        if (!digit || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value)) {
            return false;
        }
    }
    *ret = value;
    return true;
}

static bool get_bool(const cJSON *json, const char *key, bool *ret)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    *ret = cJSON_IsTrue(item) != 0;
    return cJSON_IsBool(item) != 0;
}

static bool get_number(const cJSON *item, double *ret)
{
    *ret = cJSON_IsNumber(item) ? item->valuedouble : 0.0;
    return cJSON_IsNumber(item) && isfinite(*ret);
}

static enum ps_status damaged(struct ps_error *err, const char *what)
{
    return ps_fail(err, PS_ERR_INVALID, "the description of data is damaged: %s", what);
}

static enum ps_status read_labels(struct ps_description *description, const cJSON *json,
                                  struct ps_error *err)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "labels");
    if (!cJSON_IsArray(array) || !get_bool(json, "labels_given", &description->labels.given)) {
        return damaged(err, "labels");
    }
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, array)
    {
        const char *text = cJSON_GetStringValue(item);
        uint32_t n = description->labels.n;
        enum ps_status status = text == NULL
                                    ? damaged(err, "a label")
                                    : ps_labels_add(&description->labels, text, strlen(text), err);
        if (status == PS_OK && description->labels.n == n) {
            status = damaged(err, "a label twice");
        }
        if (status != PS_OK) {
            return status;
        }
    }
    return ps_description_check_labels(description, err);
}

static enum ps_status read_column(struct ps_description *description, const cJSON *item,
                                  struct ps_error *err)
{
    struct ps_column *column = &description->columns[description->n_columns];
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
    uint32_t kind = find_name(item, "kind", kind_names, PS_ARRAY_LEN(kind_names));
    if (name == NULL || kind == PS_ARRAY_LEN(kind_names)) {
        return damaged(err, "a column");
    }
    column->kind = (enum ps_column_kind)kind;
    if (column->kind == PS_COLUMN_NUMERIC &&
        (!get_number(cJSON_GetObjectItemCaseSensitive(item, "mean"), &column->mean) ||
         !get_number(cJSON_GetObjectItemCaseSensitive(item, "scale"), &column->scale))) {
        return damaged(err, "mean and scale of a column");
    }
    column->name = ps_mem_strdup(description->mem, PS_MEM_DATA, name);
    if (column->name == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a column");
    }
    description->n_columns++;
    return PS_OK;
}

static enum ps_status read_columns(struct ps_description *description, const cJSON *json,
                                   struct ps_error *err)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "columns");
    int n = cJSON_GetArraySize(array);
    if (!cJSON_IsArray(array) || n > (int)PS_COLUMNS_MAX) {
        return damaged(err, "columns");
    }
    description->columns =
        ps_mem_array(description->mem, PS_MEM_DATA, (size_t)n, sizeof(*description->columns));
    if (description->columns == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %d columns", n);
    }
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, array)
    {
        enum ps_status status = read_column(description, item, err);
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

static enum ps_status read_scales(struct ps_description *description, const cJSON *json,
                                  struct ps_error *err)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "scales");
    if (array == NULL) {
        return PS_OK;
    }
    int n = cJSON_GetArraySize(array);
    if (!cJSON_IsArray(array) || n > (int)PS_SCALES_MAX) {
        return damaged(err, "scales");
    }
    description->scales =
        ps_mem_array(description->mem, PS_MEM_DATA, (size_t)n, sizeof(*description->scales));
    if (description->scales == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %d scales", n);
    }
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, array)
    {
        double scale = 0.0;
        if (!get_number(item, &scale) || !isfinite((float)scale)) {
            return damaged(err, "a scale");
        }
        description->scales[description->n_scales++] = (float)scale;
    }
    return PS_OK;
}

static enum ps_status read_all(struct ps_description *description, const cJSON *json,
                               struct ps_error *err)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "format"));
    uint32_t task = find_name(json, "task", task_names, PS_ARRAY_LEN(task_names));
    double base = 0.0;
    if (name == NULL || task == PS_ARRAY_LEN(task_names)) {
        return damaged(err, "format and task");
    }
    description->task = (enum ps_task)task;
    description->format = ps_format_find(name);
    if (description->format == NULL) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "the data have a format '%.20s', which this "
                       "program does not know",
                       name);
    }
    if (!get_count(json, "n_features", &description->n_features) ||
        !get_count(json, "n_rows", &description->n_rows) ||
        !get_bool(json, "all_seen", &description->all_seen) ||
        !get_bool(json, "header", &description->header) ||
        !get_number(cJSON_GetObjectItemCaseSensitive(json, "index_base"), &base) ||
        (base > 0.0) != (base == 1.0) || base < 0.0) {
        return damaged(err, "counts and flags");
    }
    description->index_base = base > 0.0;
    enum ps_status status = read_labels(description, json, err);
    status = status == PS_OK ? read_columns(description, json, err) : status;
    if (status == PS_OK && description->header &&
        (description->format->header == NULL || description->n_columns == 0)) {
        return damaged(err, "a header without columns");
    }
    return status == PS_OK ? read_scales(description, json, err) : status;
}

enum ps_status ps_description_read(struct ps_mem *mem, const char *text, size_t n_bytes,
                                   struct ps_description **ret, struct ps_error *err)
{
    struct ps_description *description = ps_description_create(mem);
    cJSON *json = cJSON_ParseWithLength(text, n_bytes);
    enum ps_status status = PS_OK;
    if (description == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory to describe data");
    } else if (!cJSON_IsObject(json)) {
        status = damaged(err, "no JSON object");
    } else {
        status = read_all(description, json, err);
    }
    cJSON_Delete(json);
    if (status != PS_OK) {
        ps_description_destroy(description);
        return status;
    }
    *ret = description;
    return PS_OK;
}
