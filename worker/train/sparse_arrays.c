/* sparse_arrays.c — see sparse_trainer.h. */
#include "base/bytes.h"
#include "base/mem.h"
#include "num/kernel.h"
#include "train/sparse_trainer.h"

enum ps_status ps_sparse_arrays_init(struct ps_sparse_trainer *t, struct ps_sparse_arrays *arrays)
{
    const struct ps_sparse_model *model = t->model;
    for (uint32_t i = 0; i < model->n_dense; i++) {
        arrays->n_dense[i] = model->dense[i].n_values;
        arrays->dense[i] = ps_mem_array(t->plan->mem, PS_MEM_OTHER, model->dense[i].n_values,
                                        sizeof(*arrays->dense[i]));
        if (arrays->dense[i] == NULL) {
            return ps_fail(t->err, PS_ERR_NOMEM, "no memory for %s", model->dense[i].name);
        }
        arrays->tensors[i] = (struct ps_tensor){.table = t->dense[i], .values = arrays->dense[i]};
    }
    return PS_OK;
}

enum ps_status ps_sparse_arrays_fit(struct ps_sparse_trainer *t, struct ps_sparse_arrays *arrays,
                                    const struct ps_sparse_batch *batch)
{
    const struct ps_sparse_model *model = t->model;
    for (uint32_t i = 0; i < model->n_sparse; i++) {
        const struct ps_key_list *list = &batch->lists[model->sparse[i].list];
        size_t n = (size_t)list->n * model->sparse[i].width; /* 2^32 times 4,096: it fits. */
        if (n > arrays->capacity[i]) {
            size_t more = n + n / 2; /* Units differ a little: do not grow at each. */
            float *rows = ps_mem_array(t->plan->mem, PS_MEM_OTHER, more, sizeof(*rows));
            if (rows == NULL) {
                return ps_fail(t->err, PS_ERR_NOMEM, "no memory for %u rows of %s", list->n,
                               model->sparse[i].name);
            }
            ps_mem_free(arrays->rows[i]);
            arrays->rows[i] = rows;
            arrays->capacity[i] = more;
        }
        arrays->n_rows[i] = n;
        arrays->keyed[i] = (struct ps_keyed){
            .table = t->sparse[i], .n = list->n, .keys = list->keys, .values = arrays->rows[i]};
    }
    return PS_OK;
}

bool ps_sparse_arrays_finite(const struct ps_sparse_trainer *t,
                             const struct ps_sparse_arrays *arrays)
{
    bool finite = true;
    for (uint32_t i = 0; i < t->model->n_sparse; i++) {
        finite = finite && ps_kernel_finite((const uint8_t *)arrays->rows[i], arrays->n_rows[i]);
    }
    for (uint32_t i = 0; i < t->model->n_dense; i++) {
        finite = finite && ps_kernel_finite((const uint8_t *)arrays->dense[i], arrays->n_dense[i]);
    }
    return finite;
}

void ps_sparse_arrays_deinit(struct ps_sparse_arrays *arrays)
{
    for (uint32_t i = 0; i < PS_SPARSE_TABLES_MAX; i++) {
        ps_mem_free(arrays->rows[i]);
    }
    for (uint32_t i = 0; i < PS_MODEL_TABLES_MAX; i++) {
        ps_mem_free(arrays->dense[i]);
    }
    *arrays = (struct ps_sparse_arrays){0};
}
