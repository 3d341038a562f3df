/* model_file.c — see model_file.h. */
#include "train/model_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>

#include "base/assert.h"
#include "base/attr.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "os/file.h"
#include "train/model_note.h"

struct ps_model_file {
    struct ps_row_source base;
    struct ps_mem *mem;
    struct ps_file_view view; /* Ours; zeroed when the bytes are somebody else's. */
    const uint8_t *data;
    size_t n_bytes;
    struct ps_setup *setup;
    struct ps_model_rows rows[PS_SPARSE_TABLES_MAX];
    const struct ps_tensor_view *dense[PS_MODEL_TABLES_MAX];
    size_t n_tensors;
    struct ps_tensor_view tensors[PS_SAFETENSORS_TENSORS_MAX];
};

/* ---- As a source of rows ------------------------------------------------------------------- */

static uint64_t key_at(const struct ps_model_rows *rows, uint64_t at)
{
    return ps_load_u64(rows->keys + at * sizeof(uint64_t));
}

/* The first place at or behind `from` whose key is not below `key`: first in steps that double. */
static uint64_t seek(const struct ps_model_rows *rows, uint64_t from, uint64_t key)
{
    uint64_t step = 1;
    uint64_t end = from;
    while (end < rows->n && key_at(rows, end) < key) {
        from = end + 1;
        end = rows->n - end > step ? end + step : rows->n;
        step *= 2;
    }
    while (from < end) {
        uint64_t middle = from + (end - from) / 2;
        if (key_at(rows, middle) < key) {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    return from;
}

static enum ps_status file_fetch(struct ps_row_source *source, uint32_t table, const uint64_t *keys,
                                 size_t n, float *out, struct ps_error *err PS_UNUSED)
{
    const struct ps_model_file *file = PS_CONTAINER_OF(source, struct ps_model_file, base);
    const struct ps_model_rows *rows = &file->rows[table];
    size_t width = file->setup->model->sparse[table].width;
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++, out += width) {
        at = seek(rows, at, keys[i]);
        if (at < rows->n && key_at(rows, at) == keys[i]) {
            memcpy(out, rows->rows + at * width * sizeof(float), width * sizeof(float));
        } else {
            ps_init_row(&rows->init, rows->number, keys[i], out, width);
        }
    }
    return PS_OK;
}

static enum ps_status file_dense(struct ps_row_source *source, uint32_t table, float *out,
                                 struct ps_error *err PS_UNUSED)
{
    const struct ps_model_file *file = PS_CONTAINER_OF(source, struct ps_model_file, base);
    const struct ps_tensor_view *tensor = file->dense[table];
    memcpy(out, tensor->data, (size_t)tensor->n_values * sizeof(float));
    return PS_OK;
}

/* The file has no rows of zeros where they say nothing. */
static enum ps_status file_walk(struct ps_row_source *source, struct ps_row_walk *walk,
                                struct ps_error *err PS_UNUSED)
{
    const struct ps_model_file *file = PS_CONTAINER_OF(source, struct ps_model_file, base);
    const struct ps_model_rows *rows = &file->rows[walk->table];
    size_t row_bytes = file->setup->model->sparse[walk->table].width * sizeof(float);
    uint64_t n_left = rows->n - walk->at;
    walk->n = n_left < walk->n_room ? (uint32_t)n_left : walk->n_room;
    if (walk->n > 0) {
        memcpy(walk->keys, rows->keys + walk->at * sizeof(uint64_t), walk->n * sizeof(uint64_t));
        memcpy(walk->values, rows->rows + walk->at * row_bytes, walk->n * row_bytes);
    }
    walk->at += walk->n;
    walk->done = walk->at == rows->n;
    return PS_OK;
}

static void file_close(struct ps_row_source *source PS_UNUSED)
{
    /* Goes with the file. */
}

static const struct ps_row_source_ops ops = {
    .fetch = file_fetch,
    .dense = file_dense,
    .walk = file_walk,
    .close = file_close,
};

/* ---- Checks -------------------------------------------------------------------------------- */

static const struct ps_tensor_view *find(const struct ps_model_file *file, const char *table,
                                         const char *ending)
{
    char name[2 * PS_NAME_BYTES_MAX];
    (void)snprintf(name, sizeof(name), "%s%s", table, ending);
    for (size_t i = 0; i < file->n_tensors; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

static enum ps_status no_tensor(const char *table, const char *ending, struct ps_error *err)
{
    return ps_fail(err, PS_ERR_CORRUPT, "no tensor '%s%s' of the shape that the model has", table,
                   ending);
}

static enum ps_status check_ascending(const struct ps_model_rows *rows, const char *name,
                                      struct ps_error *err)
{
    for (uint64_t i = 1; i < rows->n; i++) {
        if (key_at(rows, i) <= key_at(rows, i - 1)) {
            return ps_fail(err, PS_ERR_CORRUPT, "keys of table %s do not ascend at place %" PRIu64,
                           name, i);
        }
    }
    return PS_OK;
}

static enum ps_status take_rows(struct ps_model_file *file, uint32_t t,
                                const struct ps_model_first *first, struct ps_error *err)
{
    const struct ps_sparse_model_table *table = &file->setup->model->sparse[t];
    const struct ps_tensor_view *keys = find(file, table->name, PS_MODEL_KEYS);
    const struct ps_tensor_view *rows = find(file, table->name, PS_MODEL_ROWS);
    if (keys == NULL || keys->type != PS_TENSOR_U64 || keys->n_dims != 1) {
        return no_tensor(table->name, PS_MODEL_KEYS, err);
    }
    if (rows == NULL || rows->type != PS_TENSOR_F32 || rows->n_dims != 2 ||
        rows->dims[0] != keys->n_values || rows->dims[1] != table->width) {
        return no_tensor(table->name, PS_MODEL_ROWS, err);
    }
    file->base.numbers[t] = first->number;
    file->rows[t] = (struct ps_model_rows){
        .keys = keys->data,
        .rows = rows->data,
        .n = keys->n_values,
        .number = first->number,
        .init = first->init,
    };
    return check_ascending(&file->rows[t], table->name, err);
}

static enum ps_status take_dense(struct ps_model_file *file, uint32_t t, struct ps_error *err)
{
    const struct ps_model_table *table = &file->setup->model->dense[t];
    const struct ps_tensor_view *tensor = find(file, table->name, "");
    if (tensor == NULL || tensor->type != PS_TENSOR_F32 || tensor->n_dims != table->n_dims ||
        memcmp(tensor->dims, table->dims, table->n_dims * sizeof(tensor->dims[0])) != 0) {
        return no_tensor(table->name, "", err);
    }
    file->dense[t] = tensor;
    return PS_OK;
}

static enum ps_status take_tables(struct ps_model_file *file, const char *rows_note,
                                  struct ps_error *err)
{
    const struct ps_sparse_model *model = file->setup->model;
    struct ps_model_first firsts[PS_SPARSE_TABLES_MAX] = {0};
    enum ps_status status = ps_model_note_read(file->setup, rows_note, firsts, err);
    for (uint32_t t = 0; status == PS_OK && t < model->n_sparse; t++) {
        status = take_rows(file, t, &firsts[t], err);
    }
    for (uint32_t t = 0; status == PS_OK && t < model->n_dense; t++) {
        status = take_dense(file, t, err);
    }
    return status;
}

static enum ps_status take_notes(struct ps_model_file *file, struct ps_error *err)
{
    char *setup = NULL;
    char *rows = NULL;
    enum ps_status status =
        ps_safetensors_note(file->mem, file->data, file->n_bytes, PS_MODEL_NOTE_SETUP, &setup, err);
    if (status == PS_OK) {
        status = ps_safetensors_note(file->mem, file->data, file->n_bytes, PS_MODEL_NOTE_ROWS,
                                     &rows, err);
    }
    if (status == PS_OK && setup == NULL) {
        status = ps_fail(err, PS_ERR_UNSUPPORTED,
                         "the file does not say how its data are read: it is no model of text");
    } else if (status == PS_OK && rows == NULL) {
        status = ps_fail(err, PS_ERR_CORRUPT, "the file does not say how its rows begin");
    }
    if (status == PS_OK) {
        PS_ASSERT(setup != NULL);
        status = ps_setup_read(file->mem, setup, strlen(setup), &file->setup, err);
    }
    status = status == PS_OK ? take_tables(file, rows, err) : status;
    ps_mem_free(setup);
    ps_mem_free(rows);
    return status;
}

enum ps_status ps_model_file_read(struct ps_mem *mem, const uint8_t *data, size_t n_bytes,
                                  struct ps_model_file **ret, struct ps_error *err)
{
    struct ps_model_file *file = ps_mem_alloc(mem, PS_MEM_OTHER, sizeof(*file));
    if (file == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read a model");
    }
    file->base.ops = &ops;
    file->mem = mem;
    file->data = data;
    file->n_bytes = n_bytes;
    enum ps_status status =
        ps_safetensors_parse(data, n_bytes, file->tensors, &file->n_tensors, err);
    status = status == PS_OK ? take_notes(file, err) : status;
    if (status != PS_OK) {
        ps_model_file_close(file);
        return status;
    }
    *ret = file;
    return PS_OK;
}

/* ---- Files --------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

enum ps_status ps_model_file_map(const char *what, char path[PS_MODEL_PATH_BYTES],
                                 struct ps_file_view *ret, struct ps_error *err)
{
    bool folder = is_folder(what);
    int n = snprintf(path, PS_MODEL_PATH_BYTES, "%s%s%s", what, folder ? "/" : "",
                     folder ? PS_MODEL_FILE_NAME : "");
    if (n < 0 || (size_t)n >= PS_MODEL_PATH_BYTES) {
        return ps_fail(err, PS_ERR_INVALID, "the path is longer than %u bytes",
                       PS_MODEL_PATH_BYTES);
    }
    return ps_file_map(path, ret, err);
}

enum ps_status ps_model_file_open(struct ps_mem *mem, const char *what, struct ps_model_file **ret,
                                  struct ps_error *err)
{
    char path[PS_MODEL_PATH_BYTES];
    struct ps_file_view view = {0};
    enum ps_status status = ps_model_file_map(what, path, &view, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_model_file_read(mem, view.data, view.n_bytes, ret, err);
    if (status != PS_OK) {
        ps_file_unmap(&view);
        return ps_wrap(err, status, "%s", path);
    }
    (*ret)->view = view;
    return PS_OK;
}

void ps_model_file_close(struct ps_model_file *file)
{
    if (file == NULL) {
        return;
    }
    ps_setup_destroy(file->setup);
    ps_file_unmap(&file->view);
    ps_mem_free(file);
}

struct ps_setup *ps_model_file_setup(struct ps_model_file *file)
{
    return file->setup;
}

struct ps_row_source *ps_model_file_rows(struct ps_model_file *file)
{
    return &file->base;
}

const struct ps_model_rows *ps_model_file_table(const struct ps_model_file *file, uint32_t table)
{
    return &file->rows[table];
}

const struct ps_tensor_view *ps_model_file_tensors(const struct ps_model_file *file, size_t *ret_n)
{
    *ret_n = file->n_tensors;
    return file->tensors;
}
