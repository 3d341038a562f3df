/* safetensors.c — see safetensors.h. */
#include "format/safetensors.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/assert.h"
#include "base/attr.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/shape.h"
#include "base/slice.h"
#include "port/disk.h"

#define LENGTH_BYTES 8u
#define PADDING      8u     /* Data begin at a multiple, so that they can be mapped. */
#define EXACT_MAX    0x1p53 /* JSON numbers are doubles: whole numbers are exact up to here. */

static const struct type {
    const char *name;
    size_t n_bytes;
} types[] = {
    [PS_TENSOR_F32] = {"F32", sizeof(float)},
    [PS_TENSOR_U64] = {"U64", sizeof(uint64_t)},
    [PS_TENSOR_F64] = {"F64", sizeof(double)},
    [PS_TENSOR_U32] = {"U32", sizeof(uint32_t)},
    [PS_TENSOR_U8] = {"U8", 1},
};

size_t ps_tensor_value_bytes(enum ps_tensor_type type)
{
    return types[type].n_bytes;
}

static uint64_t bytes_of(const struct ps_tensor_view *tensor)
{
    return tensor->n_values * types[tensor->type].n_bytes;
}

struct ps_tensor_view ps_tensor_over(const char *name, const float *data, const uint64_t *dims,
                                     uint32_t n_dims)
{
    PS_ASSERT(n_dims <= PS_DIMS_MAX);
    struct ps_tensor_view tensor = {
        .n_dims = n_dims,
        .data = (const uint8_t *)data,
        .n_values = 1,
    };
    int n = snprintf(tensor.name, sizeof(tensor.name), "%s", name);
    PS_ASSERT(n > 0 && (size_t)n < sizeof(tensor.name));
    for (uint32_t i = 0; i < n_dims; i++) {
        tensor.dims[i] = dims[i];
        tensor.n_values *= dims[i];
    }
    return tensor;
}

/* The header's entry of one tensor. Offsets count from the first byte behind the header. */
static bool add_tensor(cJSON *head, const struct ps_tensor_view *tensor, uint64_t first)
{
    cJSON *entry = cJSON_AddObjectToObject(head, tensor->name);
    cJSON *shape = NULL;
    cJSON *offsets = NULL;
    bool good =
        entry != NULL && cJSON_AddStringToObject(entry, "dtype", types[tensor->type].name) != NULL;
    if (good) {
        shape = cJSON_AddArrayToObject(entry, "shape");
        offsets = cJSON_AddArrayToObject(entry, "data_offsets");
        good = shape != NULL && offsets != NULL;
    }
    for (uint32_t i = 0; good && i < tensor->n_dims; i++) {
        good = cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)tensor->dims[i]));
    }
    uint64_t behind = first + bytes_of(tensor);
    return good && cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)first)) &&
           cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)behind));
}

/* The header as JSON, to be given to cJSON_free; NULL without memory. */
static char *make_head(const struct ps_tensor_file *file)
{
    cJSON *head = cJSON_CreateObject();
    bool good = head != NULL;
    if (good && file->n_notes > 0) {
        cJSON *notes = cJSON_AddObjectToObject(head, "__metadata__");
        good = notes != NULL;
        for (size_t i = 0; good && i < file->n_notes; i++) {
            good = cJSON_AddStringToObject(notes, file->notes[i].key, file->notes[i].text) != NULL;
        }
    }
    uint64_t first = 0;
    for (size_t i = 0; good && i < file->n_tensors; i++) {
        good = add_tensor(head, &file->tensors[i], first);
        first += bytes_of(&file->tensors[i]);
    }
    char *text = good ? cJSON_PrintUnformatted(head) : NULL;
    cJSON_Delete(head);
    return text;
}

static void check_tensors(const struct ps_tensor_file *file)
{
    PS_ASSERT(file->n_tensors <= PS_SAFETENSORS_TENSORS_MAX);
    for (size_t i = 0; i < file->n_tensors; i++) {
        PS_ASSERT((double)file->tensors[i].n_values < EXACT_MAX / PS_SAFETENSORS_TENSORS_MAX / 8);
        for (size_t j = 0; j < i; j++) {
            PS_ASSERT(strcmp(file->tensors[i].name, file->tensors[j].name) != 0);
        }
    }
}

/* The header `text`, in a block with room for `n_more` bytes behind it. */
static enum ps_status lay_text(struct ps_mem *mem, const struct ps_slice *text, size_t n_more,
                               uint8_t **ret, size_t *ret_n_head, struct ps_error *err)
{
    size_t n_head = (LENGTH_BYTES + text->n_bytes + PADDING - 1) / PADDING * PADDING;
    if (n_head - LENGTH_BYTES > PS_SAFETENSORS_HEAD_BYTES_MAX) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "the header of the model file would have %zu bytes, at most %u",
                       n_head - LENGTH_BYTES, PS_SAFETENSORS_HEAD_BYTES_MAX);
    }
    uint8_t *bytes = ps_mem_alloc(mem, PS_MEM_OTHER, n_head + n_more);
    if (bytes == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a model file of %zu bytes",
                       n_head + n_more);
    }
    ps_store_u64(bytes, n_head - LENGTH_BYTES);
    memset(bytes + LENGTH_BYTES, ' ', n_head - LENGTH_BYTES);
    memcpy(bytes + LENGTH_BYTES, text->data, text->n_bytes);
    *ret = bytes;
    *ret_n_head = n_head;
    return PS_OK;
}

static enum ps_status lay_head(struct ps_mem *mem, const struct ps_tensor_file *file, size_t n_more,
                               uint8_t **ret, size_t *ret_n_head, struct ps_error *err)
{
    check_tensors(file);
    char *head = make_head(file);
    if (head == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the header of a model file");
    }
    struct ps_slice text = {.data = (const uint8_t *)head, .n_bytes = strlen(head)};
    enum ps_status status = lay_text(mem, &text, n_more, ret, ret_n_head, err);
    cJSON_free(head);
    return status;
}

enum ps_status ps_safetensors_head(struct ps_mem *mem, const struct ps_tensor_file *file,
                                   uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err)
{
    return lay_head(mem, file, 0, ret, ret_n_bytes, err);
}

enum ps_status ps_safetensors_build(struct ps_mem *mem, const struct ps_tensor_file *file,
                                    uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err)
{
    size_t n_data = 0;
    for (size_t i = 0; i < file->n_tensors; i++) {
        n_data += (size_t)bytes_of(&file->tensors[i]);
    }
    uint8_t *bytes = NULL;
    size_t at = 0;
    enum ps_status status = lay_head(mem, file, n_data, &bytes, &at, err);
    if (status != PS_OK) {
        return status;
    }
    PS_ASSERT(bytes != NULL);
    for (size_t i = 0; i < file->n_tensors; i++) {
        size_t n = (size_t)bytes_of(&file->tensors[i]);
        if (n > 0) {
            memcpy(bytes + at, file->tensors[i].data, n);
        }
        at += n;
    }
    *ret = bytes;
    *ret_n_bytes = at;
    return PS_OK;
}

enum ps_status ps_safetensors_write(struct ps_disk *disk, const char *path,
                                    const struct ps_tensor_file *file, struct ps_error *err)
{
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    enum ps_status status = ps_safetensors_build(NULL, file, &bytes, &n_bytes, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_disk_replace(disk, path, bytes, n_bytes, err);
    ps_mem_free(bytes);
    return status;
}

/* A whole number from 0 to 2^53, or false. */
static bool whole(const cJSON *item, uint64_t *ret)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0.0) || item->valuedouble > EXACT_MAX) {
        return false;
    }
    uint64_t value = (uint64_t)item->valuedouble;
    *ret = value;
    return (double)value == item->valuedouble;
}

static enum ps_status read_shape(const cJSON *entry, struct ps_tensor_view *tensor,
                                 struct ps_error *err)
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    if (!cJSON_IsArray(shape)) {
        return ps_fail(err, PS_ERR_CORRUPT, "tensor '%s': no shape", tensor->name);
    }
    tensor->n_values = 1;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, shape)
    {
        if (tensor->n_dims == PS_DIMS_MAX) {
            return ps_fail(err, PS_ERR_UNSUPPORTED, "tensor '%s': more than %u dimensions",
                           tensor->name, PS_DIMS_MAX);
        }
        uint64_t dim = 0;
        if (!whole(item, &dim) || !ps_shape_times(&tensor->n_values, dim, UINT64_MAX)) {
            return ps_fail(err, PS_ERR_CORRUPT, "tensor '%s': dimension %" PRIu32 " is no size",
                           tensor->name, tensor->n_dims);
        }
        tensor->dims[tensor->n_dims++] = dim;
    }
    return PS_OK;
}

/* Where the tensor lies: within the data, and as long as its shape says. */
static enum ps_status read_offsets(const cJSON *entry, uint64_t n_data,
                                   struct ps_tensor_view *tensor, struct ps_error *err)
{
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    uint64_t first = 0;
    uint64_t behind = 0;
    uint64_t n_bytes = 0;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !whole(cJSON_GetArrayItem(offsets, 0), &first) ||
        !whole(cJSON_GetArrayItem(offsets, 1), &behind) || behind < first) {
        return ps_fail(err, PS_ERR_CORRUPT, "tensor '%s': data_offsets are not two places",
                       tensor->name);
    }
    if (!ps_shape_bytes(tensor->n_values, types[tensor->type].n_bytes, UINT64_MAX, &n_bytes) ||
        n_bytes != behind - first) {
        return ps_fail(err, PS_ERR_CORRUPT, "tensor '%s': data_offsets do not fit its shape",
                       tensor->name);
    }
    if (behind > n_data) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "tensor '%s': its data end at byte %" PRIu64 ", the file has %" PRIu64,
                       tensor->name, behind, n_data);
    }
    tensor->first = first;
    return PS_OK;
}

static bool find_type(const char *name, enum ps_tensor_type *ret)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(types); i++) {
        if (strcmp(types[i].name, name) == 0) {
            *ret = (enum ps_tensor_type)i;
            return true;
        }
    }
    return false;
}

static enum ps_status read_entry(const cJSON *entry, uint64_t n_data, struct ps_tensor_view *ret,
                                 struct ps_error *err)
{
    struct ps_tensor_view tensor = {0};
    size_t n_name = strlen(entry->string);
    if (n_name == 0 || n_name > PS_NAME_BYTES_MAX) {
        return ps_fail(err, PS_ERR_UNSUPPORTED, "a tensor name of %zu bytes, expected 1 to %u",
                       n_name, PS_NAME_BYTES_MAX);
    }
    memcpy(tensor.name, entry->string, n_name);
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    if (!cJSON_IsString(dtype)) {
        return ps_fail(err, PS_ERR_CORRUPT, "tensor '%s': no dtype", tensor.name);
    }
    if (!find_type(dtype->valuestring, &tensor.type)) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "tensor '%s': dtype '%.16s', expected F32, U64, F64, U32 or U8", tensor.name,
                       dtype->valuestring);
    }
    enum ps_status status = read_shape(entry, &tensor, err);
    if (status == PS_OK) {
        status = read_offsets(entry, n_data, &tensor, err);
    }
    if (status == PS_OK) {
        *ret = tensor;
    }
    return status;
}

/* Insert in the order of the data; of two at one place the empty one goes first. */
static void insert(struct ps_tensor_view *tensors, size_t n, const struct ps_tensor_view *added)
{
    size_t at = n;
    while (at > 0 && (tensors[at - 1].first > added->first ||
                      (tensors[at - 1].first == added->first && added->n_values == 0))) {
        tensors[at] = tensors[at - 1];
        at--;
    }
    tensors[at] = *added;
}

static bool notes_valid(const cJSON *notes)
{
    const cJSON *note = NULL;
    cJSON_ArrayForEach(note, notes)
    {
        if (!cJSON_IsString(note)) {
            return false;
        }
    }
    return cJSON_IsObject(notes);
}

static enum ps_status read_entries(const cJSON *head, uint64_t n_data,
                                   struct ps_tensor_view *tensors, size_t *ret_n,
                                   struct ps_error *err)
{
    size_t n = 0;
    const cJSON *entry = NULL;
    cJSON_ArrayForEach(entry, head)
    {
        if (strcmp(entry->string, "__metadata__") == 0) {
            if (!notes_valid(entry)) {
                return ps_fail(err, PS_ERR_CORRUPT, "__metadata__ is not a map of texts");
            }
            continue;
        }
        if (n == PS_SAFETENSORS_TENSORS_MAX) {
            return ps_fail(err, PS_ERR_UNSUPPORTED, "more than %zu tensors",
                           PS_SAFETENSORS_TENSORS_MAX);
        }
        struct ps_tensor_view tensor = {0};
        enum ps_status status = read_entry(entry, n_data, &tensor, err);
        if (status != PS_OK) {
            return status;
        }
        for (size_t i = 0; i < n; i++) {
            if (strcmp(tensors[i].name, tensor.name) == 0) {
                return ps_fail(err, PS_ERR_CORRUPT, "two tensors named '%s'", tensor.name);
            }
        }
        insert(tensors, n, &tensor);
        n++;
    }
    *ret_n = n;
    return PS_OK;
}

/* The tensors must fill the data without gaps and overlaps: nothing may hide in between. */
static enum ps_status check_cover(uint64_t n_data, const struct ps_tensor_view *tensors, size_t n,
                                  struct ps_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].first != at) {
            return ps_fail(err, PS_ERR_CORRUPT,
                           "tensor '%s' does not begin where the one "
                           "before it ends",
                           tensors[i].name);
        }
        at += bytes_of(&tensors[i]);
    }
    if (at < n_data) {
        return ps_fail(err, PS_ERR_CORRUPT, "%" PRIu64 " bytes behind the last tensor",
                       n_data - at);
    }
    return PS_OK;
}

/* The header as JSON; goes to cJSON_Delete. */
static enum ps_status parse_json(const uint8_t *data, size_t n_head, cJSON **ret,
                                 struct ps_error *err)
{
    const char *text = (const char *)data;
    const char *end = text;
    cJSON *head = NULL;
    if (n_head > 0 && text[0] == '{') {
        head = cJSON_ParseWithLengthOpts(text, n_head, &end, 0);
    }
    while (head != NULL && end < text + n_head && *end == ' ') {
        end++;
    }
    if (head == NULL || end != text + n_head) {
        cJSON_Delete(head);
        return ps_fail(err, PS_ERR_CORRUPT, "the header is not one JSON object");
    }
    *ret = head;
    return PS_OK;
}

/* Cut the file into header and data, and parse the header; `*ret_head` goes to cJSON_Delete. */
static enum ps_status open_head(const struct ps_slice *file, struct ps_slice *ret_data,
                                cJSON **ret_head, struct ps_error *err)
{
    if (file->n_bytes < LENGTH_BYTES) {
        return ps_fail(err, PS_ERR_CORRUPT, "%zu bytes are too few for a model file",
                       file->n_bytes);
    }
    uint64_t n_head = ps_load_u64(file->data);
    if (n_head > file->n_bytes - LENGTH_BYTES || n_head > PS_SAFETENSORS_HEAD_BYTES_MAX) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "header of %" PRIu64 " bytes in a file of %zu, at most %u", n_head,
                       file->n_bytes, PS_SAFETENSORS_HEAD_BYTES_MAX);
    }
    ret_data->data = file->data + LENGTH_BYTES + n_head;
    ret_data->n_bytes = file->n_bytes - LENGTH_BYTES - (size_t)n_head;
    return parse_json(file->data + LENGTH_BYTES, (size_t)n_head, ret_head, err);
}

static enum ps_status read_all(const cJSON *head, uint64_t n_data, struct ps_tensor_view *tensors,
                               size_t *ret_n, struct ps_error *err)
{
    size_t n = 0;
    enum ps_status status = read_entries(head, n_data, tensors, &n, err);
    if (status == PS_OK) {
        status = check_cover(n_data, tensors, n, err);
    }
    if (status == PS_OK) {
        *ret_n = n;
    }
    return status;
}

enum ps_status ps_safetensors_parse(const uint8_t *data, size_t n_bytes,
                                    struct ps_tensor_view *tensors, size_t *ret_n,
                                    struct ps_error *err)
{
    struct ps_slice file = {.data = data, .n_bytes = n_bytes};
    struct ps_slice values = {0};
    cJSON *head = NULL;
    enum ps_status status = open_head(&file, &values, &head, err);
    if (status != PS_OK) {
        return status;
    }
    status = read_all(head, values.n_bytes, tensors, ret_n, err);
    cJSON_Delete(head);
    for (size_t i = 0; status == PS_OK && i < *ret_n; i++) {
        tensors[i].data = values.data + tensors[i].first;
    }
    return status;
}

enum ps_status ps_safetensors_parse_head(const uint8_t *head, size_t n_head, uint64_t n_data,
                                         struct ps_tensor_view *tensors, size_t *ret_n,
                                         struct ps_error *err)
{
    cJSON *json = NULL;
    enum ps_status status = parse_json(head, n_head, &json, err);
    if (status == PS_OK) {
        status = read_all(json, n_data, tensors, ret_n, err);
        cJSON_Delete(json);
    }
    return status;
}

enum ps_status ps_safetensors_note(struct ps_mem *mem, const uint8_t *data, size_t n_bytes,
                                   const char *key, char **ret, struct ps_error *err)
{
    struct ps_slice file = {.data = data, .n_bytes = n_bytes};
    struct ps_slice values = {0};
    cJSON *head = NULL;
    enum ps_status status = open_head(&file, &values, &head, err);
    if (status != PS_OK) {
        return status;
    }
    const cJSON *notes = cJSON_GetObjectItemCaseSensitive(head, "__metadata__");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(notes, key));
    *ret = text != NULL ? ps_mem_strdup(mem, PS_MEM_OTHER, text) : NULL;
    if (text != NULL && *ret == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory for the header of a model file");
    }
    cJSON_Delete(head);
    return status;
}
