/* sparse_batch.c — see sparse_batch.h. */
#include "model/sparse_batch.h"

#include <math.h>

#include "base/assert.h"
#include "base/mem.h"

void ps_sparse_batch_init(struct ps_sparse_batch *batch, struct ps_mem *mem)
{
    *batch = (struct ps_sparse_batch){.mem = mem};
    ps_unique_init(&batch->unique, mem);
    ps_places_init(&batch->places, mem);
}

void ps_sparse_batch_deinit(struct ps_sparse_batch *batch)
{
    ps_unique_deinit(&batch->unique);
    ps_places_deinit(&batch->places);
    ps_mem_free(batch->keys);
    ps_mem_free(batch->index);
    ps_mem_free(batch->assigned);
    *batch = (struct ps_sparse_batch){0};
}

/* Sizes of batches vary a little: a quarter more than asked for ends the growing soon. */
static enum ps_status reserve(struct ps_sparse_batch *batch, size_t n)
{
    n = n > 0 ? n : 1; /* Rows without features have lists of keys, too. */
    if (n <= batch->capacity) {
        return PS_OK;
    }
    if (n > PS_UNIQUE_KEYS_MAX) {
        return PS_ERR_NOMEM;
    }
    size_t n_room = n + n / 4 < PS_UNIQUE_KEYS_MAX ? n + n / 4 : PS_UNIQUE_KEYS_MAX;
    uint64_t *keys = ps_mem_array(batch->mem, PS_MEM_OTHER, n_room, sizeof(*keys));
    uint32_t *index = ps_mem_array(batch->mem, PS_MEM_OTHER, n_room, sizeof(*index));
    uint8_t *assigned = ps_mem_array(batch->mem, PS_MEM_OTHER, n_room, sizeof(*assigned));
    if (keys == NULL || index == NULL || assigned == NULL) {
        ps_mem_free(keys);
        ps_mem_free(index);
        ps_mem_free(assigned);
        return PS_ERR_NOMEM;
    }
    ps_mem_free(batch->keys);
    ps_mem_free(batch->index);
    ps_mem_free(batch->assigned);
    batch->keys = keys;
    batch->index = index;
    batch->assigned = assigned;
    batch->capacity = n_room;
    return PS_OK;
}

static enum ps_status check_label(const struct ps_sparse_model *model, float label,
                                  struct ps_error *err)
{
    double y = (double)label;
    switch (model->task) {
    case PS_TASK_BINARY:
        if (y == 0.0 || y == 1.0) {
            return PS_OK;
        }
        return ps_fail(err, PS_ERR_INVALID, "%s needs labels of two kinds, 0 and 1; got %g",
                       model->kind->name, y);
    case PS_TASK_CLASSES:
        if (y >= 0.0 && y < (double)model->n_outputs && floor(y) == y) {
            return PS_OK;
        }
        return ps_fail(err, PS_ERR_INVALID, "%s has classes 0 to %u; got %g", model->kind->name,
                       model->n_outputs - 1, y);
    case PS_TASK_VALUE:
        if (isfinite(label)) {
            return PS_OK;
        }
        return ps_fail(err, PS_ERR_INVALID, "%s needs finite labels; got %g", model->kind->name, y);
    }
    PS_UNREACHABLE("a task is one of the three");
}

static enum ps_status check_labels(const struct ps_sparse_model *model,
                                   const struct ps_sparse_rows *rows, size_t *ret_row,
                                   struct ps_error *err)
{
    for (size_t row = 0; rows->labels != NULL && row < rows->n_rows; row++) {
        enum ps_status status = check_label(model, rows->labels[row], err);
        if (status != PS_OK) {
            *ret_row = row;
            return status;
        }
    }
    return PS_OK;
}

static void find_keys(struct ps_sparse_batch *batch, const struct ps_sparse_model *model,
                      const struct ps_sparse_rows *rows, size_t n)
{
    uint64_t *to = batch->keys;
    for (uint32_t list = 0; list < model->n_lists; list++) {
        struct ps_unique_keys keys = {
            .keys = rows->keys,
            .lists = model->n_lists > 1 ? batch->assigned : NULL,
            .n = n,
            .list = (uint8_t)list,
        };
        uint32_t n_keys = batch->n_places == 0
                              ? ps_unique_find(&batch->unique, &keys, to, batch->index)
                              : ps_places_find(&batch->places, &keys, to, batch->index);
        batch->lists[list] = (struct ps_key_list){.keys = to, .n = n_keys};
        batch->view.n_keys[list] = n_keys;
        to += n_keys;
    }
}

enum ps_status ps_sparse_batch_make(struct ps_sparse_batch *batch,
                                    const struct ps_sparse_model *model,
                                    const struct ps_sparse_rows *rows, size_t *ret_row,
                                    struct ps_error *err)
{
    PS_ASSERT(rows->n_rows >= 1);
    size_t n = rows->begin[rows->n_rows] - rows->begin[0];
    enum ps_status status = check_labels(model, rows, ret_row, err);
    if (status == PS_OK) {
        status = reserve(batch, n);
        if (status == PS_OK) {
            status = batch->n_places == 0 ? ps_unique_reserve(&batch->unique, batch->capacity)
                                          : ps_places_reserve(&batch->places, batch->n_places);
        }
        if (status != PS_OK) {
            return ps_fail(err, status, "no memory for a batch of %zu features", n);
        }
    }
    if (status == PS_OK && model->kind->assign != NULL) {
        status = model->kind->assign(model, rows, batch->assigned, ret_row, err);
    }
    if (status != PS_OK) {
        return status;
    }
    batch->view = (struct ps_sparse_view){
        .rows = *rows,
        .index = batch->index,
        .scale = 1.0f / (float)rows->n_rows,
    };
    find_keys(batch, model, rows, n);
    return PS_OK;
}
