/* dense_file.c — see dense_file.h. */
#include "train/dense_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conf/number.h"
#include "format/safetensors.h"

#define HIDDEN_MARK " hidden=" /* As plan.c writes it. */

struct bytes {
    const uint8_t *data;
    size_t n_bytes;
};

/* The text of a note, or an error when there is none. */
static enum ps_status get_note(struct ps_mem *mem, const struct bytes *bytes, const char *key,
                               char **ret, struct ps_error *err)
{
    enum ps_status status = ps_safetensors_note(mem, bytes->data, bytes->n_bytes, key, ret, err);
    if (status == PS_OK && *ret == NULL) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "the file does not say '%s': no model of this project", key);
    }
    return status;
}

static enum ps_status get_width(struct ps_mem *mem, const struct bytes *bytes, const char *key,
                                uint32_t *ret, struct ps_error *err)
{
    char *text = NULL;
    uint64_t number = 0;
    enum ps_status status = get_note(mem, bytes, key, &text, err);
    if (status != PS_OK) {
        return status;
    }
    if (!ps_number_u64(text, &number) || number < 1 || number > PS_MODEL_WIDTH_MAX) {
        status = ps_fail(err, PS_ERR_CORRUPT, "%s is '%.20s', expected 1 to %u", key, text,
                         PS_MODEL_WIDTH_MAX);
    }
    ps_mem_free(text);
    *ret = (uint32_t)number;
    return status;
}

static enum ps_status make_model(struct ps_model_params *params, char *text, struct ps_model **ret,
                                 struct ps_error *err)
{
    char *hidden = strstr(text, HIDDEN_MARK);
    enum ps_status status = PS_OK;
    if (hidden != NULL) {
        *hidden = '\0';
        status = ps_model_hidden_parse(hidden + strlen(HIDDEN_MARK), params, err);
    }
    const struct ps_model_kind *kind = ps_model_find(text);
    if (status == PS_OK && kind == NULL) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "a model of kind '%.20s', which this program does not know", text);
    }
    status = status == PS_OK ? ps_model_create(kind, params, ret, err) : status;
    /* What nobody typed is no bad usage. */
    return status == PS_ERR_INVALID ? ps_fail(err, PS_ERR_CORRUPT, "'%.40s' is no model", text)
                                    : status;
}

static enum ps_status read_model(struct ps_mem *mem, const struct bytes *bytes,
                                 struct ps_model **ret, struct ps_error *err)
{
    struct ps_model_params params = {.mem = mem};
    char *text = NULL;
    enum ps_status status = get_note(mem, bytes, "model", &text, err);
    if (status == PS_OK) {
        status = get_width(mem, bytes, "features", &params.n_features, err);
    }
    if (status == PS_OK) {
        status = get_width(mem, bytes, "classes", &params.n_classes, err);
    }
    status = status == PS_OK ? make_model(&params, text, ret, err) : status;
    ps_mem_free(text);
    return status;
}

static const struct ps_tensor_view *find(const struct ps_tensor_view *tensors, size_t n,
                                         const struct ps_model_table *table)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(tensors[i].name, table->name) == 0 && tensors[i].type == PS_TENSOR_F32 &&
            tensors[i].n_values == table->n_values) {
            return &tensors[i];
        }
    }
    return NULL;
}

/* Into memory of floats: in the file they may lie anywhere. */
static enum ps_status take_weights(struct ps_mem *mem, const struct ps_tensor_view *tensors,
                                   size_t n, struct ps_dense_file *file, struct ps_error *err)
{
    const struct ps_model *model = file->model;
    const struct ps_tensor_view *found[PS_MODEL_TABLES_MAX];
    size_t n_values = 0;
    for (uint32_t t = 0; t < model->n_tables; t++) {
        found[t] = find(tensors, n, &model->tables[t]);
        if (found[t] == NULL) {
            return ps_fail(err, PS_ERR_CORRUPT, "no tensor '%s' of %" PRIu64 " numbers",
                           model->tables[t].name, model->tables[t].n_values);
        }
        n_values += (size_t)found[t]->n_values;
    }
    file->values = ps_mem_array(mem, PS_MEM_OTHER, n_values, sizeof(*file->values));
    if (file->values == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %zu weights", n_values);
    }
    float *at = file->values;
    for (uint32_t t = 0; t < model->n_tables; t++) {
        memcpy(at, found[t]->data, (size_t)found[t]->n_values * sizeof(*at));
        file->arrays[t] = at;
        at += found[t]->n_values;
    }
    return PS_OK;
}

enum ps_status ps_dense_file_read(struct ps_mem *mem, const uint8_t *data, size_t n_bytes,
                                  struct ps_dense_file *file, struct ps_error *err)
{
    struct bytes bytes = {.data = data, .n_bytes = n_bytes};
    size_t n = 0;
    *file = (struct ps_dense_file){0};
    struct ps_tensor_view *tensors =
        ps_mem_array(mem, PS_MEM_OTHER, PS_SAFETENSORS_TENSORS_MAX, sizeof(*tensors));
    if (tensors == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read a model");
    }
    enum ps_status status = ps_safetensors_parse(data, n_bytes, tensors, &n, err);
    status = status == PS_OK ? read_model(mem, &bytes, &file->model, err) : status;
    status = status == PS_OK ? take_weights(mem, tensors, n, file, err) : status;
    ps_mem_free(tensors);
    return status;
}

void ps_dense_file_close(struct ps_dense_file *file)
{
    ps_model_destroy(file->model);
    ps_mem_free(file->values);
    *file = (struct ps_dense_file){0};
}
