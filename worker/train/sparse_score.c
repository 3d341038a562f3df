/* sparse_score.c — see sparse_score.h. */
#include "train/sparse_score.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "data/learning.h"
#include "model/sparse_batch.h"

/* An array that keeps its memory. */
struct room {
    float *values;
    size_t n;
};

struct scorer {
    const struct ps_setup *setup;
    struct ps_row_source *source;
    const struct ps_source *data;
    struct ps_sparse_score_options options;
    uint32_t row_floats; /* What a feature costs at most, over all tables. */
    struct ps_reading *reading;
    struct ps_rows rows;
    struct ps_sparse_batch batch;
    struct ps_metrics metrics;
    uint64_t n_unlabelled;
    uint64_t n_lines;   /* Up to the last row of each file before the present one, */
    uint64_t last_line; /*   and of this one. */
    struct room out;
    struct room dense[PS_MODEL_TABLES_MAX];
    struct room fetched[PS_SPARSE_TABLES_MAX];
    const float *dense_weights[PS_MODEL_TABLES_MAX];
    const float *row_weights[PS_SPARSE_TABLES_MAX];
};

static enum ps_status reserve(const struct scorer *s, struct room *room, size_t n, size_t width,
                              struct ps_error *err)
{
    size_t n_wanted = 0;
    if (ps_mul_size(n, width, &n_wanted) && n_wanted <= room->n) {
        return PS_OK;
    }
    float *values = ps_mem_array(s->options.mem, PS_MEM_OTHER, n, width * sizeof(*values));
    if (values == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %zu rows of %zu weights", n, width);
    }
    ps_mem_free(room->values);
    *room = (struct room){.values = values, .n = n * width};
    return PS_OK;
}

static void close_scorer(struct scorer *s)
{
    ps_reading_close(s->reading);
    ps_rows_deinit(&s->rows);
    ps_sparse_batch_deinit(&s->batch);
    ps_metrics_deinit(&s->metrics);
    ps_mem_free(s->out.values);
    for (size_t i = 0; i < PS_ARRAY_LEN(s->dense); i++) {
        ps_mem_free(s->dense[i].values);
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(s->fetched); i++) {
        ps_mem_free(s->fetched[i].values);
    }
}

static enum ps_status open_scorer(struct scorer *s, struct ps_error *err)
{
    const struct ps_sparse_model *model = s->setup->model;
    struct ps_mem *mem = s->options.mem;
    ps_rows_init(&s->rows, mem);
    ps_sparse_batch_init(&s->batch, mem);
    ps_metrics_init(&s->metrics, model->task, mem);
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        s->row_floats += model->sparse[t].width;
    }
    enum ps_status status = ps_learn_check(mem, s->data, s->setup->description, err);
    if (status == PS_OK) {
        status = ps_reading_open(s->data, s->setup->description,
                                 &(struct ps_reading_options){
                                     .mem = mem,
                                     .max_bad_rows = s->options.max_bad_rows,
                                     .label_optional = s->options.label_optional,
                                 },
                                 &s->reading, err);
    }
    for (uint32_t t = 0; status == PS_OK && t < model->n_dense; t++) {
        status = reserve(s, &s->dense[t], (size_t)model->dense[t].n_values, 1, err);
        if (status == PS_OK) {
            status = ps_row_source_dense(s->source, t, s->dense[t].values, err);
        }
        s->dense_weights[t] = s->dense[t].values;
    }
    return status;
}

/* The next rows of the file, as many as are predicted together; none at its end. */
static enum ps_status read_rows(struct scorer *s, struct ps_error *err)
{
    ps_rows_clear(&s->rows);
    size_t n = 1;
    size_t features_max = PS_SCORE_BYTES / sizeof(float) / s->row_floats;
    enum ps_status status = PS_OK;
    while (status == PS_OK && n > 0 && s->rows.n_rows < s->options.batch_rows &&
           ps_rows_features(&s->rows) <= features_max) {
        status = ps_reading_next(s->reading, 1, &s->rows, &n, err);
    }
    return status;
}

static enum ps_status fetch(struct scorer *s, struct ps_error *err)
{
    const struct ps_sparse_model *model = s->setup->model;
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        const struct ps_key_list *list = &s->batch.lists[model->sparse[t].list];
        enum ps_status status = reserve(s, &s->fetched[t], list->n, model->sparse[t].width, err);
        if (status == PS_OK) {
            status =
                ps_row_source_fetch(s->source, t, list->keys, list->n, s->fetched[t].values, err);
        }
        if (status != PS_OK) {
            return status;
        }
        s->row_weights[t] = s->fetched[t].values;
    }
    return PS_OK;
}

static enum ps_status predict(struct scorer *s, uint32_t file, struct ps_error *err)
{
    struct ps_sparse_model *model = s->setup->model;
    /* Without labels: the reader has made classes of them, and here they may be missing. */
    struct ps_sparse_rows rows = {
        .n_rows = s->rows.n_rows,
        .begin = s->rows.begin,
        .keys = s->rows.keys,
        .values = s->rows.values,
        .fields = s->rows.fields,
    };
    size_t row = 0;
    enum ps_status status = ps_sparse_batch_make(&s->batch, model, &rows, &row, err);
    if (status == PS_ERR_INVALID) {
        return ps_wrap(err, status, "%s:%" PRIu64, s->data->files[file].path, s->rows.lines[row]);
    }
    status = status == PS_OK ? fetch(s, err) : status;
    if (status == PS_OK) {
        status = reserve(s, &s->out, rows.n_rows, model->n_outputs, err);
    }
    if (status != PS_OK) {
        return status;
    }
    struct ps_sparse_weights weights = {.dense = s->dense_weights, .rows = s->row_weights};
    status = model->kind->predict(model, &weights, &s->batch.view, s->out.values);
    return status == PS_OK ? PS_OK : ps_fail(err, status, "no memory to predict rows");
}

/* Count the rows that have a label. Those that have none are pushed out of the arrays. */
static enum ps_status judge(struct scorer *s, struct ps_error *err)
{
    uint32_t width = s->setup->model->n_outputs;
    float *labels = s->rows.labels;
    size_t n = 0;
    for (size_t row = 0; row < s->rows.n_rows; row++) {
        if (isnan(labels[row])) {
            s->n_unlabelled++;
            continue;
        }
        if (n < row) {
            labels[n] = labels[row];
            memcpy(s->out.values + n * width, s->out.values + row * width,
                   width * sizeof(*s->out.values));
        }
        n++;
    }
    enum ps_status status =
        n > 0 ? ps_metrics_add(&s->metrics, s->out.values, labels, n, width) : PS_OK;
    return status == PS_OK ? PS_OK : ps_fail(err, status, "no memory to judge predictions");
}

static enum ps_status score_rows(struct scorer *s, uint32_t file, struct ps_error *err)
{
    enum ps_status status = predict(s, file, err);
    if (status == PS_OK && s->options.rows != NULL) {
        struct ps_sparse_scored scored = {
            .file = file,
            .n_rows = s->rows.n_rows,
            .lines = s->rows.lines,
            .labels = s->rows.labels,
            .outputs = s->out.values,
            .n_outputs = s->setup->model->n_outputs,
        };
        status = s->options.rows(s->options.arg, &scored, err);
    }
    return status == PS_OK ? judge(s, err) : status;
}

static enum ps_status score_file(struct scorer *s, uint32_t file, struct ps_error *err)
{
    enum ps_status status = ps_reading_start(s->reading, ps_source_whole(s->data, file), err);
    while (status == PS_OK) {
        status = read_rows(s, err);
        if (status != PS_OK || s->rows.n_rows == 0) {
            break;
        }
        s->last_line = s->rows.lines[s->rows.n_rows - 1];
        status = score_rows(s, file, err);
    }
    s->n_lines += s->last_line;
    s->last_line = 0;
    return status;
}

static void conclude(struct scorer *s, struct ps_sparse_score_result *ret)
{
    ret->metrics = ps_metrics_result(&s->metrics);
    ret->loss = s->setup->model->task == PS_TASK_VALUE ? ret->metrics.rmse * ret->metrics.rmse / 2.0
                                                       : ret->metrics.log_loss;
    ret->counts = ps_reading_counts(s->reading);
    ret->n_unlabelled = s->n_unlabelled;
    /* Bad lines may be behind the last row. */
    uint64_t n_known = ret->counts.n_rows + ret->counts.n_bad;
    ret->n_between = s->n_lines > n_known ? s->n_lines - n_known : 0;
    for (uint32_t i = 0; i < PS_BAD_ROWS_TOLD; i++) {
        const char *bad = ps_reading_bad(s->reading, i);
        (void)snprintf(ret->bad[i], sizeof(ret->bad[i]), "%s", bad != NULL ? bad : "");
    }
}

enum ps_status ps_sparse_score(const struct ps_setup *setup, struct ps_row_source *source,
                               const struct ps_source *data,
                               const struct ps_sparse_score_options *options,
                               struct ps_sparse_score_result *ret, struct ps_error *err)
{
    struct scorer s = {.setup = setup, .source = source, .data = data, .options = *options};
    if (s.options.batch_rows == 0) {
        s.options.batch_rows = PS_SCORE_ROWS;
    }
    *ret = (struct ps_sparse_score_result){0};
    enum ps_status status = open_scorer(&s, err);
    for (uint32_t file = 0; status == PS_OK && file < data->n_files; file++) {
        status = score_file(&s, file, err);
    }
    if (status == PS_OK) {
        conclude(&s, ret);
    }
    close_scorer(&s);
    return status;
}
