/* model_note.c — see model_note.h. */
#include "train/model_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/attr.h"
#include "base/limits.h"
#include "base/mem.h"

#define FLOAT_DIGITS 9

static const char *const init_names[] = {
    [PS_INIT_ZEROS] = "zeros",
    [PS_INIT_UNIFORM] = "uniform",
    [PS_INIT_NORMAL] = "normal",
};

static bool add_first(cJSON *json, const struct ps_sparse_model_table *table, uint32_t number)
{
    char scale[40];
    char seed[24];
    (void)snprintf(scale, sizeof(scale), "%.*g", FLOAT_DIGITS, (double)table->init.scale);
    char *comma = strchr(scale, ',');
    if (comma != NULL) {
        *comma = '.';
    }
    /* As text: 64 bits are more than a JSON number keeps. */
    (void)snprintf(seed, sizeof(seed), "%" PRIu64, table->init.seed);
    cJSON *entry = cJSON_AddObjectToObject(json, table->name);
    return entry != NULL && cJSON_AddNumberToObject(entry, "table", (double)number) != NULL &&
           cJSON_AddStringToObject(entry, "init", init_names[table->init.kind]) != NULL &&
           cJSON_AddRawToObject(entry, "scale", scale) != NULL &&
           cJSON_AddStringToObject(entry, "seed", seed) != NULL;
}

enum ps_status ps_model_note_write(const struct ps_setup *setup, const uint32_t *numbers,
                                   char **ret, struct ps_error *err)
{
    const struct ps_sparse_model *model = setup->model;
    cJSON *json = cJSON_CreateObject();
    bool good = json != NULL;
    for (uint32_t t = 0; good && t < model->n_sparse; t++) {
        good = add_first(json, &model->sparse[t], numbers[t]);
    }
    char *foreign = good ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    char *text = foreign != NULL ? ps_mem_strdup(setup->mem, PS_MEM_OTHER, foreign) : NULL;
    cJSON_free(foreign);
    if (text == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write down a model");
    }
    *ret = text;
    return PS_OK;
}

static bool get_kind(const cJSON *entry, enum ps_init_kind *ret)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "init"));
    for (size_t i = 0; name != NULL && i < PS_ARRAY_LEN(init_names); i++) {
        if (strcmp(init_names[i], name) == 0) {
            *ret = (enum ps_init_kind)i;
            return true;
        }
    }
    return false;
}

static bool get_seed(const cJSON *entry, uint64_t *ret)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "seed"));
    bool good = text != NULL && text[0] != '\0';
    *ret = 0;
    for (; good && *text != '\0'; text++) {
        good = *text >= '0' && *text <= '9' && !__builtin_mul_overflow(*ret, 10u, ret) &&
               !__builtin_add_overflow(*ret, (uint64_t)(*text - '0'), ret);
    }
    return good;
}

static bool get_first(const cJSON *json, const char *name, struct ps_model_first *ret)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(json, name);
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(entry, "table");
    const cJSON *scale = cJSON_GetObjectItemCaseSensitive(entry, "scale");
    if (!cJSON_IsNumber(number) || !(number->valuedouble >= 0.0) ||
        number->valuedouble >= PS_TABLES_MAX || !cJSON_IsNumber(scale) ||
        !get_kind(entry, &ret->init.kind) || !get_seed(entry, &ret->init.seed)) {
        return false;
    }
    ret->number = (uint32_t)number->valuedouble;
    ret->init.scale = (float)scale->valuedouble;
    return ps_init_valid(&ret->init);
}

enum ps_status ps_model_note_read(const struct ps_setup *setup, const char *text,
                                  struct ps_model_first *ret, struct ps_error *err)
{
    cJSON *json = cJSON_Parse(text);
    enum ps_status status = PS_OK;
    for (uint32_t t = 0; status == PS_OK && t < setup->model->n_sparse; t++) {
        const char *name = setup->model->sparse[t].name;
        if (!get_first(json, name, &ret[t])) {
            status = ps_fail(err, PS_ERR_CORRUPT, "how rows of table %s begin is damaged", name);
        }
    }
    cJSON_Delete(json);
    return status;
}
