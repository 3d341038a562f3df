/* sparse_save.c — see sparse_save.h. */
#include "train/sparse_save.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "format/safetensors.h"
#include "num/kernel.h"
#include "os/posix_disk.h"
#include "os/spill.h"
#include "train/model_note.h"
#include "train/sorted_runs.h"

#define OUT_BYTES (256u << 10) /* Keys and rows go out in writes of this. */

/* One sparse table on its way. */
struct saved_rows {
    const struct ps_sparse_model_table *table;
    struct ps_runs runs;
    uint64_t n; /* Distinct keys. */
};

struct saver {
    const struct ps_setup *setup;
    struct ps_row_source *source;
    struct ps_spill spill;
    struct ps_file_view spilled;
    struct ps_replacing file;
    struct saved_rows rows[PS_SPARSE_TABLES_MAX];
    float *dense[PS_MODEL_TABLES_MAX];
    /* Room for one run, and later for what goes out. */
    uint64_t *keys;
    float *values;
    struct ps_tensor_view tensors[2 * PS_SPARSE_TABLES_MAX + PS_MODEL_TABLES_MAX];
    size_t n_tensors;
};

static enum ps_status diverged(const char *name, struct ps_error *err)
{
    return ps_fail(err, PS_ERR_DIVERGED,
                   "training diverged: table %s holds numbers that are not finite; use a smaller "
                   "--lr, or --standardize",
                   name);
}

/* ---- Rows to runs -------------------------------------------------------------------------- */

static uint32_t rows_at_once(uint32_t width)
{
    return PS_SAVE_RUN_BYTES / (uint32_t)(sizeof(uint64_t) + width * sizeof(float)) + 1;
}

static enum ps_status walk(struct saver *s, uint32_t t, struct ps_error *err)
{
    struct saved_rows *rows = &s->rows[t];
    uint32_t width = rows->table->width;
    struct ps_row_walk walk = {
        .table = t,
        /* Elsewhere a row of zeros differs from none. */
        .skip_zeros = rows->table->init.kind == PS_INIT_ZEROS,
        .keys = s->keys,
        .values = s->values,
        .n_room = rows_at_once(width),
    };
    enum ps_status status = PS_OK;
    while (status == PS_OK && !walk.done) {
        status = ps_row_source_walk(s->source, &walk, err);
        if (status != PS_OK) {
            break;
        }
        if (!ps_kernel_finite((const uint8_t *)walk.values, (size_t)walk.n * width)) {
            return diverged(rows->table->name, err);
        }
        status = ps_runs_add(&rows->runs, walk.keys, walk.values, walk.n, err);
    }
    return status;
}

static enum ps_status collect(struct saver *s, uint32_t t, struct ps_error *err)
{
    struct saved_rows *rows = &s->rows[t];
    rows->table = &s->setup->model->sparse[t];
    size_t n = rows_at_once(rows->table->width);
    ps_runs_init(&rows->runs, s->setup->mem, &s->spill, rows->table->width);
    s->keys = ps_mem_array(s->setup->mem, PS_MEM_OTHER, n, sizeof(*s->keys));
    s->values =
        ps_mem_array(s->setup->mem, PS_MEM_OTHER, n, rows->table->width * sizeof(*s->values));
    enum ps_status status =
        s->keys != NULL && s->values != NULL
            ? PS_ERR_LATE
            : ps_fail(err, PS_ERR_NOMEM, "no memory for %zu rows of %s", n, rows->table->name);
    for (uint32_t i = 0; status == PS_ERR_LATE && i < PS_SAVE_TRIES; i++) {
        ps_runs_clear(&rows->runs);
        status = walk(s, t, err);
    }
    ps_mem_free(s->keys);
    ps_mem_free(s->values);
    s->keys = NULL;
    s->values = NULL;
    return status;
}

static enum ps_status count(struct saver *s, uint32_t t, struct ps_error *err)
{
    struct ps_merge merge;
    uint64_t key = 0;
    const float *row = NULL;
    enum ps_status status = ps_merge_begin(&merge, &s->rows[t].runs, s->spilled.data, err);
    while (status == PS_OK && ps_merge_next(&merge, &key, &row)) {
        s->rows[t].n++;
    }
    ps_merge_end(&merge);
    return status;
}

static enum ps_status fetch_dense(struct saver *s, uint32_t t, struct ps_error *err)
{
    const struct ps_model_table *table = &s->setup->model->dense[t];
    size_t n = (size_t)table->n_values;
    s->dense[t] = ps_mem_array(s->setup->mem, PS_MEM_OTHER, n, sizeof(float));
    if (s->dense[t] == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the %zu weights of %s", n, table->name);
    }
    enum ps_status status = ps_row_source_dense(s->source, t, s->dense[t], err);
    if (status == PS_OK && !ps_kernel_finite((const uint8_t *)s->dense[t], n)) {
        return diverged(table->name, err);
    }
    return status;
}

static enum ps_status gather(struct saver *s, struct ps_error *err)
{
    const struct ps_sparse_model *model = s->setup->model;
    enum ps_status status = PS_OK;
    for (uint32_t t = 0; status == PS_OK && t < model->n_dense; t++) {
        status = fetch_dense(s, t, err);
    }
    for (uint32_t t = 0; status == PS_OK && t < model->n_sparse; t++) {
        status = collect(s, t, err);
    }
    status = status == PS_OK ? ps_spill_map(&s->spill, &s->spilled, err) : status;
    for (uint32_t t = 0; status == PS_OK && t < model->n_sparse; t++) {
        status = count(s, t, err);
    }
    return status;
}

/* ---- The file ------------------------------------------------------------------------------ */

static struct ps_tensor_view *add_tensor(struct saver *s, const char *table, const char *ending)
{
    struct ps_tensor_view *tensor = &s->tensors[s->n_tensors++];
    int n = snprintf(tensor->name, sizeof(tensor->name), "%s%s", table, ending);
    PS_ASSERT(n > 0 && (size_t)n < sizeof(tensor->name));
    return tensor;
}

/* Keys first: whatever follows, they lie at multiples of 8. */
static void list_tensors(struct saver *s)
{
    const struct ps_sparse_model *model = s->setup->model;
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        struct ps_tensor_view *keys = add_tensor(s, model->sparse[t].name, PS_MODEL_KEYS);
        keys->type = PS_TENSOR_U64;
        keys->n_dims = 1;
        keys->dims[0] = s->rows[t].n;
        keys->n_values = s->rows[t].n;
    }
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        struct ps_tensor_view *rows = add_tensor(s, model->sparse[t].name, PS_MODEL_ROWS);
        rows->n_dims = 2;
        rows->dims[0] = s->rows[t].n;
        rows->dims[1] = model->sparse[t].width;
        rows->n_values = s->rows[t].n * model->sparse[t].width;
    }
    for (uint32_t t = 0; t < model->n_dense; t++) {
        const struct ps_model_table *table = &model->dense[t];
        s->tensors[s->n_tensors++] =
            ps_tensor_over(table->name, s->dense[t], table->dims, table->n_dims);
    }
}

static enum ps_status write_head(struct saver *s, uint64_t *ret_n_bytes, struct ps_error *err)
{
    char seed[24];
    char *setup = NULL;
    char *rows = NULL;
    uint8_t *head = NULL;
    size_t n_bytes = 0;
    (void)snprintf(seed, sizeof(seed), "%" PRIu64, s->setup->params.seed);
    enum ps_status status = ps_setup_write(s->setup, &setup, err);
    if (status == PS_OK) {
        status = ps_model_note_write(s->setup, s->source->numbers, &rows, err);
    }
    if (status == PS_OK) {
        const struct ps_tensor_note notes[] = {{"model", s->setup->kind->name},
                                               {PS_MODEL_NOTE_SETUP, setup},
                                               {PS_MODEL_NOTE_SEED, seed},
                                               {PS_MODEL_NOTE_ROWS, rows}};
        struct ps_tensor_file file = {
            .tensors = s->tensors,
            .n_tensors = s->n_tensors,
            .notes = notes,
            .n_notes = PS_ARRAY_LEN(notes),
        };
        status = ps_safetensors_head(s->setup->mem, &file, &head, &n_bytes, err);
    }
    if (status == PS_OK) {
        status = ps_replacing_write(&s->file, 0, head, n_bytes, err);
        *ret_n_bytes = n_bytes;
    }
    ps_mem_free(head);
    ps_mem_free(setup);
    ps_mem_free(rows);
    return status;
}

/* Bytes that go out together. */
struct out {
    uint64_t at;
    size_t n_bytes;
    uint8_t bytes[OUT_BYTES];
};

static enum ps_status flush(struct saver *s, struct out *out, struct ps_error *err)
{
    enum ps_status status = ps_replacing_write(&s->file, out->at, out->bytes, out->n_bytes, err);
    out->at += out->n_bytes;
    out->n_bytes = 0;
    return status;
}

static enum ps_status put(struct saver *s, struct out *out, const void *data, size_t n_bytes,
                          struct ps_error *err)
{
    enum ps_status status = PS_OK;
    PS_ASSERT(n_bytes <= sizeof(out->bytes));
    if (n_bytes > sizeof(out->bytes) - out->n_bytes) {
        status = flush(s, out, err);
    }
    memcpy(out->bytes + out->n_bytes, data, n_bytes);
    out->n_bytes += n_bytes;
    return status;
}

/* Keys to one place of the file, rows to another. */
static enum ps_status write_rows(struct saver *s, uint32_t t, struct out *keys, struct out *rows,
                                 struct ps_error *err)
{
    struct ps_merge merge;
    uint64_t key = 0;
    const float *row = NULL;
    size_t row_bytes = s->rows[t].table->width * sizeof(*row);
    enum ps_status status = ps_merge_begin(&merge, &s->rows[t].runs, s->spilled.data, err);
    while (status == PS_OK && ps_merge_next(&merge, &key, &row)) {
        status = put(s, keys, &key, sizeof(key), err);
        status = status == PS_OK ? put(s, rows, row, row_bytes, err) : status;
    }
    status = status == PS_OK ? flush(s, keys, err) : status;
    status = status == PS_OK ? flush(s, rows, err) : status;
    ps_merge_end(&merge);
    return status;
}

static enum ps_status write_tensors(struct saver *s, uint64_t at, struct ps_error *err)
{
    const struct ps_sparse_model *model = s->setup->model;
    uint64_t places[PS_ARRAY_LEN(s->tensors)] = {0};
    for (size_t i = 0; i < s->n_tensors; i++) {
        places[i] = at;
        at += s->tensors[i].n_values * ps_tensor_value_bytes(s->tensors[i].type);
    }
    struct out *outs = ps_mem_array(s->setup->mem, PS_MEM_OTHER, 2, sizeof(*outs));
    if (outs == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write a model");
    }
    enum ps_status status = PS_OK;
    for (uint32_t t = 0; status == PS_OK && t < model->n_sparse; t++) {
        outs[0].at = places[t];
        outs[1].at = places[model->n_sparse + t];
        status = write_rows(s, t, &outs[0], &outs[1], err);
    }
    for (uint32_t t = 0; status == PS_OK && t < model->n_dense; t++) {
        status = ps_replacing_write(&s->file, places[2 * model->n_sparse + t], s->dense[t],
                                    (size_t)model->dense[t].n_values * sizeof(float), err);
    }
    ps_mem_free(outs);
    return status;
}

static enum ps_status write_file(struct saver *s, const char *path, struct ps_error *err)
{
    uint64_t n_head = 0;
    list_tensors(s);
    enum ps_status status = ps_replacing_begin(&s->file, path, err);
    if (status != PS_OK) {
        return status;
    }
    status = write_head(s, &n_head, err);
    if (status == PS_OK) {
        status = write_tensors(s, n_head, err);
    }
    if (status != PS_OK) {
        ps_replacing_cancel(&s->file);
        return status;
    }
    return ps_replacing_finish(&s->file, err);
}

static void clean_up(struct saver *s)
{
    ps_file_unmap(&s->spilled);
    ps_spill_close(&s->spill);
    for (size_t t = 0; t < PS_ARRAY_LEN(s->rows); t++) {
        ps_runs_deinit(&s->rows[t].runs);
    }
    for (size_t t = 0; t < PS_ARRAY_LEN(s->dense); t++) {
        ps_mem_free(s->dense[t]);
    }
}

enum ps_status ps_sparse_save(const struct ps_setup *setup, struct ps_row_source *source,
                              const char *folder, char path[PS_SAVE_PATH_BYTES],
                              struct ps_error *err)
{
    struct saver s = {.setup = setup, .source = source};
    int n = snprintf(path, PS_SAVE_PATH_BYTES, "%s/%s", folder, PS_MODEL_FILE_NAME);
    if (n < 0 || (size_t)n >= PS_SAVE_PATH_BYTES) {
        return ps_fail(err, PS_ERR_INVALID, "the path is longer than %u bytes", PS_SAVE_PATH_BYTES);
    }
    enum ps_status status = ps_disk_make_dir(ps_posix_disk(), folder, err);
    status = status == PS_OK ? ps_spill_open(&s.spill, folder, err) : status;
    if (status != PS_OK) {
        return status;
    }
    status = gather(&s, err);
    status = status == PS_OK ? write_file(&s, path, err) : status;
    clean_up(&s);
    return status;
}
