/* live_rows.c — see live_rows.h. */
#include "train/live_rows.h"

#include <inttypes.h>

#include "base/limits.h"
#include "base/mem.h"

struct live_rows {
    struct ps_row_source base;
    struct ps_client *client;
    const struct ps_sparse_model *model;
    uint32_t dense[PS_MODEL_TABLES_MAX]; /* Numbers. */
    struct ps_scan scan;                 /* Of the walk under way. */
};

/* Rows of one pull: some MiB, so that neither side holds much of a large batch. */
static size_t rows_at_once(uint32_t width)
{
    size_t n = PS_LIVE_PULL_BYTES / (sizeof(uint64_t) + width * sizeof(float));
    return n > 0 ? n : 1;
}

static enum ps_status live_fetch(struct ps_row_source *source, uint32_t table, const uint64_t *keys,
                                 size_t n, float *out, struct ps_error *err)
{
    struct live_rows *live = PS_CONTAINER_OF(source, struct live_rows, base);
    size_t width = live->model->sparse[table].width;
    size_t n_once = rows_at_once((uint32_t)width);
    for (size_t first = 0; first < n; first += n_once) {
        struct ps_keyed keyed = {
            .table = live->base.numbers[table],
            .n = (uint32_t)(n - first < n_once ? n - first : n_once),
            .keys = keys + first,
            .values = out + first * width,
        };
        struct ps_pull pull = {.no_clock = true, .keyed = &keyed, .n_keyed = 1};
        enum ps_status status = ps_client_pull(live->client, &pull, err);
        if (status != PS_OK) {
            return ps_wrap(err, status, "pulling rows of %s", live->model->sparse[table].name);
        }
    }
    return PS_OK;
}

static enum ps_status live_dense(struct ps_row_source *source, uint32_t table, float *out,
                                 struct ps_error *err)
{
    struct live_rows *live = PS_CONTAINER_OF(source, struct live_rows, base);
    struct ps_tensor tensor = {.table = live->dense[table], .values = out};
    struct ps_pull pull = {.no_clock = true, .tensors = &tensor, .n_tensors = 1};
    enum ps_status status = ps_client_pull(live->client, &pull, err);
    return status == PS_OK ? PS_OK
                           : ps_wrap(err, status, "pulling %s", live->model->dense[table].name);
}

static enum ps_status live_walk(struct ps_row_source *source, struct ps_row_walk *walk,
                                struct ps_error *err)
{
    struct live_rows *live = PS_CONTAINER_OF(source, struct live_rows, base);
    struct ps_scan *scan = &live->scan;
    if (walk->at == 0) {
        *scan = (struct ps_scan){0};
    }
    walk->at = 1;
    scan->table = live->base.numbers[walk->table];
    scan->skip_zeros = walk->skip_zeros;
    scan->keys = walk->keys;
    scan->values = walk->values;
    scan->n_room = walk->n_room;
    enum ps_status status = ps_client_scan(live->client, scan, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "reading rows of %s", live->model->sparse[walk->table].name);
    }
    walk->n = scan->n;
    walk->done = scan->done;
    return PS_OK;
}

static void live_close(struct ps_row_source *source)
{
    ps_mem_free(PS_CONTAINER_OF(source, struct live_rows, base));
}

static const struct ps_row_source_ops ops = {
    .fetch = live_fetch,
    .dense = live_dense,
    .walk = live_walk,
    .close = live_close,
};

static enum ps_status find_table(struct ps_client *client, const char *name, struct ps_table *ret,
                                 struct ps_error *err)
{
    enum ps_status status = ps_client_table(client, name, ret, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "looking up table %s", name);
}

static enum ps_status find_tables(struct live_rows *live, struct ps_error *err)
{
    const struct ps_sparse_model *model = live->model;
    struct ps_table found = {0};
    for (uint32_t i = 0; i < model->n_sparse; i++) {
        enum ps_status status = find_table(live->client, model->sparse[i].name, &found, err);
        if (status != PS_OK) {
            return status;
        }
        if (found.width != model->sparse[i].width) {
            return ps_fail(err, PS_ERR_NOT_FOUND,
                           "the cluster's table %s has rows of %" PRIu32 ", expected %" PRIu32,
                           model->sparse[i].name, found.width, model->sparse[i].width);
        }
        live->base.numbers[i] = found.number;
    }
    for (uint32_t i = 0; i < model->n_dense; i++) {
        enum ps_status status = find_table(live->client, model->dense[i].name, &found, err);
        if (status != PS_OK) {
            return status;
        }
        if (found.width != 0 || found.n_elements != model->dense[i].n_values) {
            return ps_fail(err, PS_ERR_NOT_FOUND,
                           "the cluster's table %s has %" PRIu64 " numbers, expected %" PRIu64,
                           model->dense[i].name, found.n_elements, model->dense[i].n_values);
        }
        live->dense[i] = found.number;
    }
    return PS_OK;
}

enum ps_status ps_live_rows_open(struct ps_mem *mem, struct ps_client *client,
                                 const struct ps_sparse_model *model, struct ps_row_source **ret,
                                 struct ps_error *err)
{
    struct live_rows *live = ps_mem_alloc(mem, PS_MEM_OTHER, sizeof(*live));
    if (live == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read a model");
    }
    live->base.ops = &ops;
    live->client = client;
    live->model = model;
    enum ps_status status = find_tables(live, err);
    if (status != PS_OK) {
        ps_mem_free(live);
        return status;
    }
    *ret = &live->base;
    return PS_OK;
}
