/*
 * psctl_export.c — a model for other programs: each tensor as a NumPy file, or a linear model as
 * text.
 *
 * NumPy's format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, 1.0.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "data/cells.h"
#include "data/format.h"
#include "os/posix_disk.h"
#include "psctl_model.h"
#include "psctl_out.h"
#include "train/sparse_save.h"

#define PATH_BYTES     4096u
#define NPY_DIM_BYTES  22u  /* 20 digits, a comma and a blank. */
#define NPY_HEAD_BYTES 320u /* A header of PS_DIMS_MAX dimensions; padded to a multiple of 64. */
#define NPY_MARK       "\x93NUMPY\x01\x00"
#define NPY_MARK_BYTES 8u

static enum ps_status make_path(const struct psctl_model *model, const char *name,
                                const char *ending, char path[PATH_BYTES], struct ps_error *err)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s%s", model->options->output, name, ending);
    return n >= 0 && (size_t)n < PATH_BYTES
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "the path is longer than %u bytes", PATH_BYTES);
}

/* Put `data` into a file of its own. */
static enum ps_status write_file(const char *path, const char *head, size_t n_head,
                                 const void *data, size_t n_bytes, struct ps_error *err)
{
    struct ps_replacing file;
    enum ps_status status = ps_replacing_begin(&file, path, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_replacing_write(&file, 0, head, n_head, err);
    if (status == PS_OK) {
        status = ps_replacing_write(&file, n_head, data, n_bytes, err);
    }
    if (status != PS_OK) {
        ps_replacing_cancel(&file);
        return status;
    }
    return ps_replacing_finish(&file, err);
}

/* ---- NumPy --------------------------------------------------------------------------------- */

static size_t npy_head(const struct ps_tensor_view *tensor, char head[NPY_HEAD_BYTES])
{
    static const char *const types[] = {
        [PS_TENSOR_F32] = "f4", [PS_TENSOR_U64] = "u8", [PS_TENSOR_F64] = "f8",
        [PS_TENSOR_U32] = "u4", [PS_TENSOR_U8] = "u1",
    };
    char shape[NPY_HEAD_BYTES] = "";
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        size_t used = strlen(shape);
        (void)snprintf(shape + used, sizeof(shape) - used, "%" PRIu64 ",%s", tensor->dims[i],
                       i + 1 < tensor->n_dims ? " " : "");
    }
    PS_STATIC_ASSERT(NPY_MARK_BYTES + 2 + 64 + PS_DIMS_MAX * NPY_DIM_BYTES + 64 <= NPY_HEAD_BYTES,
                     "words, dimensions of any size and padding have room");
    size_t n_front = NPY_MARK_BYTES + 2; /* The length in two bytes. */
    for (size_t i = 0; i < NPY_MARK_BYTES; i++) {
        head[i] = NPY_MARK[i];
    }
    int n = snprintf(head + n_front, NPY_HEAD_BYTES - n_front,
                     "{'descr': '<%s', 'fortran_order': False, 'shape': (%s), }",
                     types[tensor->type], shape);
    size_t n_used = n_front + (size_t)n;
    size_t n_whole = (n_used + 1 + 63) / 64 * 64;
    PS_ASSERT(n_whole <= NPY_HEAD_BYTES);
    memset(head + n_used, ' ', n_whole - n_used);
    head[n_whole - 1] = '\n';
    head[NPY_MARK_BYTES] = (char)((n_whole - n_front) % 256);
    head[NPY_MARK_BYTES + 1] = (char)((n_whole - n_front) / 256);
    return n_whole;
}

static enum ps_status write_npy(const struct psctl_model *model,
                                const struct ps_tensor_view *tensor, struct ps_error *err)
{
    char path[PATH_BYTES];
    char head[NPY_HEAD_BYTES];
    /* Names of a file are anybody's: they must not lead elsewhere. */
    if (strchr(tensor->name, '/') != NULL || tensor->name[0] == '.') {
        return ps_fail(err, PS_ERR_UNSUPPORTED, "tensor '%s' has no name for a file", tensor->name);
    }
    enum ps_status status = make_path(model, tensor->name, ".npy", path, err);
    if (status != PS_OK) {
        return status;
    }
    size_t n_head = npy_head(tensor, head);
    return write_file(path, head, n_head, tensor->data,
                      (size_t)tensor->n_values * ps_tensor_value_bytes(tensor->type), err);
}

static enum ps_status write_setup(const struct psctl_model *model, struct ps_error *err)
{
    char path[PATH_BYTES];
    char *text = NULL;
    enum ps_status status = make_path(model, "setup", ".json", path, err);
    status = status == PS_OK ? ps_setup_write(model->setup, &text, err) : status;
    status = status == PS_OK ? write_file(path, text, strlen(text), "\n", 1, err) : status;
    ps_mem_free(text);
    return status;
}

/* A live model becomes a file first: there its rows are in order. */
static enum ps_status settle(struct psctl_model *model, struct ps_error *err)
{
    enum ps_status status = ps_disk_make_dir(ps_posix_disk(), model->options->output, err);
    if (status != PS_OK || model->client == NULL) {
        return status;
    }
    status = ps_sparse_save(model->setup, model->source, model->options->output, model->path, err);
    if (status == PS_OK) {
        status = ps_model_file_open(NULL, model->path, &model->file, err);
    }
    return status;
}

enum ps_status psctl_export_npy(struct psctl_model *model, struct ps_error *err)
{
    size_t n = 0;
    enum ps_status status = settle(model, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_tensor_view *tensors =
        ps_mem_array(NULL, PS_MEM_OTHER, PS_SAFETENSORS_TENSORS_MAX, sizeof(*tensors));
    if (tensors == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to export a model");
    }
    if (model->file != NULL) {
        const struct ps_tensor_view *all = ps_model_file_tensors(model->file, &n);
        memcpy(tensors, all, n * sizeof(*tensors));
    } else {
        status = ps_safetensors_parse(model->view.data, model->view.n_bytes, tensors, &n, err);
    }
    for (size_t i = 0; status == PS_OK && i < n; i++) {
        status = write_npy(model, &tensors[i], err);
    }
    ps_mem_free(tensors);
    return status == PS_OK && model->setup != NULL ? write_setup(model, err) : status;
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* The name of a key that follows from a column alone. */
struct named {
    uint64_t key;
    const char *name;
    const char *ending;
};

struct names {
    struct named *at; /* [n], by key. */
    size_t n;
};

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const struct named *)a)->key;
    uint64_t y = ((const struct named *)b)->key;
    return x < y ? -1 : x > y;
}

static enum ps_status name_keys(const struct ps_description *description, struct names *names,
                                struct ps_error *err)
{
    names->at =
        ps_mem_array(NULL, PS_MEM_OTHER, 2 * (size_t)description->n_columns, sizeof(*names->at));
    if (names->at == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the names of columns");
    }
    for (uint32_t i = 0; i < description->n_columns; i++) {
        const char *name = description->columns[i].name;
        names->at[names->n++] = (struct named){ps_cell_key(i, PS_CELL_NUMBER, NULL, 0), name, ""};
        names->at[names->n++] =
            (struct named){ps_cell_key(i, PS_CELL_MISSING, NULL, 0), name, "=?"};
    }
    qsort(names->at, names->n, sizeof(*names->at), compare);
    return PS_OK;
}

/* What the data call the feature: an index, a column; else the key itself. */
static enum ps_status write_key(struct psctl_out *out, const struct ps_description *description,
                                const struct names *names, uint64_t key, struct ps_error *err)
{
    if (description->format == &ps_format_libsvm) {
        /* The largest index of a base of 1 is the key 2^64 - 2. */
        return psctl_out_text(out, err, "%" PRIu64, key + description->index_base);
    }
    struct named wanted = {.key = key};
    const struct named *found =
        names->n > 0 ? bsearch(&wanted, names->at, names->n, sizeof(wanted), compare) : NULL;
    return found != NULL ? psctl_out_text(out, err, "%s%s", found->name, found->ending)
                         : psctl_out_text(out, err, "key:%016" PRIx64, key);
}

static enum ps_status write_weights(struct psctl_out *out, const uint8_t *row, uint32_t n,
                                    struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (uint32_t j = 0; status == PS_OK && j < n; j++) {
        float weight = 0.0f;
        memcpy(&weight, row + j * sizeof(weight), sizeof(weight));
        status = psctl_out_text(out, err, "\t%.9g", (double)weight);
    }
    return status == PS_OK ? psctl_out_text(out, err, "\n") : status;
}

/* The first line names the columns, the second is the bias. */
static enum ps_status write_heading(struct psctl_out *out, struct psctl_model *model,
                                    struct ps_error *err)
{
    const struct ps_setup *setup = model->setup;
    const struct ps_labels *labels = &setup->description->labels;
    uint32_t n = setup->model->sparse[0].width;
    enum ps_status status = psctl_out_text(out, err, "feature");
    for (uint32_t j = 0; status == PS_OK && j < n; j++) {
        bool classes = setup->model->task == PS_TASK_CLASSES;
        status = psctl_out_text(out, err, "\t%s", classes ? labels->at[j].text : "weight");
    }
    status = status == PS_OK ? psctl_out_text(out, err, "\nbias") : status;
    float *bias = ps_mem_array(NULL, PS_MEM_OTHER, n, sizeof(*bias));
    if (bias == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the bias");
    }
    if (status == PS_OK) {
        status = ps_row_source_dense(ps_model_file_rows(model->file), 0, bias, err);
    }
    /* What every prediction begins with, wherever it is kept. */
    for (uint32_t j = 0; j < n; j++) {
        bias[j] += (float)setup->params.offset;
    }
    status = status == PS_OK ? write_weights(out, (const uint8_t *)bias, n, err) : status;
    ps_mem_free(bias);
    return status;
}

static enum ps_status write_lines(struct psctl_out *out, struct psctl_model *model,
                                  const struct names *names, struct ps_error *err)
{
    const struct ps_model_rows *rows = ps_model_file_table(model->file, 0);
    uint32_t width = model->setup->model->sparse[0].width;
    enum ps_status status = write_heading(out, model, err);
    for (uint64_t i = 0; status == PS_OK && i < rows->n; i++) {
        uint64_t key = ps_load_u64(rows->keys + i * sizeof(uint64_t));
        status = write_key(out, model->setup->description, names, key, err);
        if (status == PS_OK) {
            status = write_weights(out, rows->rows + i * width * sizeof(float), width, err);
        }
    }
    return status;
}

/* A table of weights and a bias of as many numbers: nothing else fits into lines. */
static bool is_linear(const struct ps_sparse_model *model)
{
    return model->n_sparse == 1 && model->n_dense == 1 &&
           model->dense[0].n_values == model->sparse[0].width;
}

enum ps_status psctl_export_text(struct psctl_model *model, struct ps_error *err)
{
    char path[PATH_BYTES];
    struct names names = {0};
    if (!is_linear(model->setup->model)) {
        return ps_fail(err, PS_ERR_INVALID, "--as text is for linear models, not for %s: use npy",
                       model->setup->kind->name);
    }
    enum ps_status status = settle(model, err);
    if (status == PS_OK) {
        status = make_path(model, model->setup->model->sparse[0].name, ".txt", path, err);
    }
    status = status == PS_OK ? name_keys(model->setup->description, &names, err) : status;
    struct psctl_out *out = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*out));
    if (status == PS_OK && out == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory to export a model");
    }
    if (status == PS_OK) {
        status = psctl_out_begin(out, path, err);
    }
    if (status == PS_OK) {
        status = psctl_out_end(out, write_lines(out, model, &names, err), err);
    }
    ps_mem_free(out);
    ps_mem_free(names.at);
    return status;
}
