/* table_def.c — see table_def.h. */
#include "svc/table_def.h"

#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "coordinator.pb-c.h"

static enum ps_status read_optimizer(const Ps__V1__Optimizer *from, const struct ps_optim **ret,
                                     struct ps_optim_params *ret_params, struct ps_error *err)
{
    const char *name = from == NULL || from->name[0] == '\0' ? "sgd" : from->name;
    const struct ps_optim *optim = ps_optim_find(name);
    if (optim == NULL) {
        (void)ps_fail(err, PS_ERR_INVALID, "no optimizer is called '%.32s'", name);
        return PS_ERR_INVALID; /* In plain sight of the analyser: `*ret` is not set. */
    }
    struct ps_optim_params params = optim->defaults;
    if (from != NULL) {
        params.momentum = from->momentum;
        params.beta1 = from->beta1;
        params.beta2 = from->beta2;
        params.epsilon = from->epsilon;
        params.weight_decay = from->weight_decay;
        params.l2 = from->l2;
        params.l1 = from->l1;
        params.beta = from->beta > 0.0f || from->beta < 0.0f ? from->beta : params.beta;
    }
    enum ps_status status = optim->check(&params, err);
    if (status == PS_OK) {
        *ret = optim;
        *ret_params = params;
    }
    return status;
}

/* The rows of a sparse table. It has no blocks and takes no place among those that have. */
static enum ps_status read_rows(const Ps__V1__TableDefinition *from, struct ps_layout *layout,
                                struct ps_table_info *info, struct ps_error *err)
{
    if (from->n_shape != 0) {
        return ps_fail(err, PS_ERR_INVALID, "table '%s': a sparse table has a width and no shape",
                       from->name);
    }
    *layout = (struct ps_layout){0};
    enum ps_status status = read_optimizer(from->optimizer, &info->optim, &info->params, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "table '%s'", from->name);
    }
    info->sparse = true;
    info->spec = (struct ps_dense_spec){.dtype = PS_DTYPE_F32};
    info->rows = (struct ps_sparse_spec){
        .width = from->width,
        .state_per_elem = info->optim->state_per_elem,
        .init = {.kind = (enum ps_init_kind)from->init,
                 .scale = from->init_scale,
                 .seed = from->seed},
        .admit_after = from->admit_after,
        .admit_bytes = PS_ADMIT_BYTES,
        .expire_after = from->expire_after,
    };
    memcpy(info->spec.name, from->name, strlen(from->name) + 1);
    memcpy(info->rows.name, from->name, strlen(from->name) + 1);
    status = ps_sparse_check(&info->rows, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "table '%s'", from->name);
}

static enum ps_status read_definition(const Ps__V1__TableDefinition *from, uint32_t first_slot,
                                      struct ps_layout *layout, struct ps_table_info *info,
                                      struct ps_error *err)
{
    if (from->dtype != PS__V1__TABLE_DTYPE__FLOAT32) {
        return ps_fail(err, PS_ERR_INVALID, "dtype %d is not known", (int)from->dtype);
    }
    if (strlen(from->name) > PS_NAME_BYTES_MAX || from->n_shape > PS_DIMS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "name or shape is too long");
    }
    if (from->kind == PS__V1__TABLE_KIND__SPARSE) {
        return read_rows(from, layout, info, err);
    }
    if (from->kind != PS__V1__TABLE_KIND__DENSE || from->width != 0 || from->admit_after != 0 ||
        from->expire_after != 0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "table '%s': kind %d with width %u, admit_after %u and expire_after %u, "
                       "which belong to sparse tables",
                       from->name, (int)from->kind, from->width, from->admit_after,
                       from->expire_after);
    }
    info->sparse = false;
    enum ps_status status =
        ps_layout_table(from->shape, (uint32_t)from->n_shape, first_slot, layout, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "table '%s'", from->name);
    }
    /* The slot of the first block has the most. Other tables add to it: this refuses what can never
     * work; a slot that all tables together overfill refuses their pushes as INVALID. */
    struct ps_layout_view alone = {.tables = layout, .n_tables = 1};
    if (ps_layout_slot_fragments(alone, first_slot) > PS_FRAGMENTS_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "table '%s': %llu elements are more than %u calls per slot", from->name,
                       (unsigned long long)layout->n_elements, PS_FRAGMENTS_MAX);
    }
    status = read_optimizer(from->optimizer, &info->optim, &info->params, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "table '%s'", from->name);
    }
    struct ps_dense_spec *spec = &info->spec;
    *spec = (struct ps_dense_spec){
        .dtype = PS_DTYPE_F32,
        .n_dims = (uint32_t)from->n_shape,
        .n_elements = layout->n_elements,
        .block_floats = layout->block_floats,
        .state_per_elem = info->optim->state_per_elem,
        .init = {.kind = (enum ps_init_kind)from->init,
                 .scale = from->init_scale,
                 .seed = from->seed},
    };
    memcpy(spec->name, from->name, strlen(from->name) + 1);
    memcpy(spec->dims, from->shape, from->n_shape * sizeof(from->shape[0]));
    if (!ps_init_valid(&spec->init)) {
        return ps_fail(err, PS_ERR_INVALID, "table '%s': initialiser %d with scale %g", from->name,
                       (int)from->init, (double)from->init_scale);
    }
    return PS_OK;
}

/* What slots hold of a sparse table before its first row: one is made, to see. */
static enum ps_status weigh_rows(const struct ps_sparse_spec *spec, uint64_t *ret_bytes,
                                 struct ps_error *err)
{
    struct ps_mem mem;
    struct ps_sparse *rows = NULL;
    ps_mem_init(&mem);
    enum ps_status status = ps_sparse_create(spec, &mem, &rows, err);
    if (status == PS_OK) {
        *ret_bytes = PS_SLOTS * atomic_load(&mem.used[PS_MEM_PAGES]);
        ps_sparse_destroy(rows);
    }
    return status;
}

enum ps_status ps_table_def_check(const struct Ps__V1__TableDefinition *definition,
                                  uint64_t *ret_bytes, struct ps_error *err)
{
    struct ps_layout layout = {0};
    struct ps_table_info info = {0};
    enum ps_status status = read_definition(definition, 0, &layout, &info, err);
    if (status == PS_OK && ret_bytes != NULL && info.sparse) {
        status = weigh_rows(&info.rows, ret_bytes, err);
    } else if (status == PS_OK && ret_bytes != NULL) {
        PS_ASSERT(info.optim != NULL);
        /* No overflow: PS_BLOCKS_MAX blocks of PS_BLOCK_FLOATS_MAX floats are 2^38. */
        *ret_bytes = layout.n_elements * sizeof(float) * (1u + info.optim->state_per_elem);
    }
    return status;
}

enum ps_status ps_table_def_read(const struct Ps__V1__Table *table, struct ps_layout *ret_layout,
                                 struct ps_table_info *ret_info, struct ps_error *err)
{
    if (table->definition == NULL || table->first_slot >= PS_SLOTS) {
        return ps_fail(err, PS_ERR_INVALID, "table %u has no definition", table->number);
    }
    enum ps_status status =
        read_definition(table->definition, table->first_slot, ret_layout, ret_info, err);
    ret_info->spec.id = table->number;
    ret_info->rows.id = table->number;
    return status;
}
