/* rig.c — see rig.h. */
#include "unit/snap/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/attr.h"
#include "base/rng.h"
#include "optim/rows.h"
#include "table/sparse_view.h"

#define CUT_LINE   77u
#define GENERATION 3u

static uint32_t n_staged_msgs; /* That are referred to. */

static const struct ps_id cluster = {.bytes = {0xc1, 2, 3}};

/* ---- Tables --------------------------------------------------------------------------------- */

static void derive(const void *of, float rate, const float *state, uint32_t width, float *out)
{
    const struct ps_table_info *info = of;
    info->optim->derive(&info->params, rate, out, state, width, width);
}

static struct ps_table_info *add_table(struct rig *rig, const char *kind,
                                       const struct ps_optim *optim)
{
    uint32_t number = rig->n_tables++;
    struct ps_table_info *info = &rig->catalogue.tables[number];
    info->optim = optim;
    info->params = optim->defaults;
    info->spec.id = number;
    info->spec.init = (struct ps_init){.kind = PS_INIT_UNIFORM, .scale = 0.5f, .seed = 11 + number};
    (void)snprintf(info->spec.name, sizeof(info->spec.name), "%s.%s", kind, optim->name);
    (void)snprintf(rig->definitions[number], sizeof(rig->definitions[number]), "table %u", number);
    rig->tables[number].definition = (const uint8_t *)rig->definitions[number];
    rig->tables[number].n_bytes = strlen(rig->definitions[number]);
    return info;
}

static void add_dense(struct rig *rig, const struct ps_optim *optim, uint64_t n_floats)
{
    struct ps_table_info *info = add_table(rig, "dense", optim);
    struct ps_layout *layout = &rig->catalogue.layouts[info->spec.id];
    ck_assert_int_eq(ps_layout_table(&n_floats, 1, info->spec.id, layout, NULL), PS_OK);
    info->spec.dtype = PS_DTYPE_F32;
    info->spec.n_dims = 1;
    info->spec.dims[0] = n_floats;
    info->spec.n_elements = n_floats;
    info->spec.block_floats = layout->block_floats;
    info->spec.state_per_elem = optim->state_per_elem;
}

static void add_sparse(struct rig *rig, const struct ps_optim *optim, uint32_t width)
{
    struct ps_table_info *info = add_table(rig, "sparse", optim);
    info->sparse = true;
    info->rows = (struct ps_sparse_spec){.id = info->spec.id,
                                         .width = width,
                                         .state_per_elem = optim->state_per_elem,
                                         .init = info->spec.init,
                                         .index_seed = 5};
    memcpy(info->rows.name, info->spec.name, sizeof(info->rows.name));
    if (optim->derive != NULL) {
        info->rows.formula = (struct ps_sparse_formula){.weights = derive, .of = info};
    } else if (optim->state_per_elem > 0 && !rig->size.admit_all) {
        info->rows.admit_after = 2;
        info->rows.admit_bytes = 128;
        info->rows.expire_after = 1000;
    }
}

static void make_model(const struct rig *rig, struct rig_model *model)
{
    *model = (struct rig_model){0};
    for (uint32_t t = 0; t < rig->n_tables; t++) {
        const struct ps_table_info *info = &rig->catalogue.tables[t];
        if (!info->sparse) {
            ck_assert_int_eq(ps_dense_create(&info->spec, NULL, &model->dense[t], NULL), PS_OK);
            for (uint32_t b = 0; b < model->dense[t]->n_blocks; b++) {
                ck_assert_int_eq(ps_dense_add_block(model->dense[t], b, NULL), PS_OK);
            }
        }
        for (uint32_t s = 0; info->sparse && s < PS_SLOTS; s++) {
            ck_assert_int_eq(ps_sparse_create(&info->rows, NULL, &model->sparse[t][s], NULL),
                             PS_OK);
        }
    }
}

void rig_model_deinit(struct rig_model *model)
{
    for (uint32_t t = 0; t < PS_TABLES_MAX; t++) {
        ps_dense_destroy(model->dense[t]);
        for (uint32_t s = 0; s < PS_SLOTS; s++) {
            ps_sparse_destroy(model->sparse[t][s]);
        }
    }
    *model = (struct rig_model){0};
}

static void make_grad(uint64_t seed, uint64_t what, float *grad, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        grad[i] = ps_rng_unit(ps_rng_at(seed, what, i)) - 0.5f;
    }
}

static void train_dense(struct ps_dense *dense, const struct ps_table_info *info, uint64_t seed)
{
    float *grad = calloc(PS_BLOCK_FLOATS_MAX, sizeof(float));
    ck_assert_ptr_nonnull(grad);
    for (uint32_t b = 0; b < dense->n_blocks; b++) {
        struct ps_page *out = NULL;
        const struct ps_page *in = NULL;
        if (ps_rng_at(seed, info->spec.id, b) % 3 == 0) {
            continue;
        }
        ck_assert_int_eq(ps_dense_begin_write(dense, b, PS_PAGE_WITHIN, &out, &in), PS_OK);
        struct ps_optim_page page = {
            .t = out->t, .beta1_power = out->power[0], .beta2_power = out->power[1]};
        ps_optim_page_next(&page, &info->params);
        struct ps_optim_step step = {.params = &info->params,
                                     .rate = 0.1f,
                                     .scale = 1.0f,
                                     .t = page.t,
                                     .beta1_power = page.beta1_power,
                                     .beta2_power = page.beta2_power,
                                     .stride = out->n};
        make_grad(seed, 1000 + info->spec.id * 100 + b, grad, out->n);
        info->optim->apply(&step, out->weights, in->weights, out->state, (const uint8_t *)grad,
                           out->n);
        out->t = page.t;
        out->power[0] = page.beta1_power;
        out->power[1] = page.beta2_power;
        ps_dense_end_write(dense, b, out);
    }
    free(grad);
}

struct row_rule {
    struct ps_sparse_rule base;
    struct ps_optim_rows rows;
    uint32_t width;
};

static void apply_row(struct ps_sparse_rule *base, uint32_t t, float *weights, float *state,
                      const uint8_t *grad)
{
    struct row_rule *rule = PS_CONTAINER_OF(base, struct row_rule, base);
    struct ps_optim_row_step step = {
        .rows = &rule->rows, .rate = 0.1f, .scale = 1.0f, .width = rule->width};
    ps_optim_row_apply(&step, t, weights, state, grad);
}

/* Keys of slot s are anything: only that they ascend matters here. */
static uint64_t key_of(uint32_t slot, uint32_t nth)
{
    return nth % 5 == 4 ? UINT64_MAX - (UINT64_C(1) << 40) + nth : (uint64_t)nth << 33 | slot;
}

static int by_key(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void train_rows(struct ps_sparse *sparse, const struct ps_table_info *info, uint32_t slot,
                       uint32_t n_keys, uint64_t seed)
{
    struct row_rule rule = {.base = {.apply = apply_row}, .width = sparse->spec.width};
    uint64_t *keys = calloc(n_keys, sizeof(*keys));
    float *grads = calloc((size_t)n_keys * sparse->spec.width, sizeof(*grads));
    uint32_t n = 0;
    struct ps_sparse_claim claim = {0};
    ps_optim_rows_init(&rule.rows, info->optim, &info->params);
    for (uint32_t i = 0; i < n_keys; i++) {
        if (ps_rng_at(seed, slot + 100, i) % 2 == 0) {
            keys[n++] = key_of(slot, i);
        }
    }
    qsort(keys, n, sizeof(*keys), by_key);
    make_grad(seed, slot + 7, grads, (size_t)n * sparse->spec.width);
    struct ps_slice slice = {.data = (const uint8_t *)grads,
                             .n_bytes = (size_t)n * sparse->spec.width * sizeof(float)};
    struct ps_sparse_push push = {.keys = keys,
                                  .n = n,
                                  .grads = ps_cursor_over(&slice, 1),
                                  .clock = seed % 50,
                                  .rate = 0.1f,
                                  .rule = &rule.base};
    ck_assert_int_eq(ps_sparse_reserve(sparse, keys, n, PS_PAGE_WITHIN, &claim), PS_OK);
    ps_sparse_update(sparse, &push);
    ps_sparse_release(sparse, &claim);
    free(keys);
    free(grads);
}

static bool has_rows(const struct rig *rig, uint32_t slot)
{
    return rig->size.slots == 0 || slot < rig->size.slots;
}

void rig_train(struct rig *rig, uint64_t seed)
{
    for (uint32_t t = 0; t < rig->n_tables; t++) {
        const struct ps_table_info *info = &rig->catalogue.tables[t];
        if (!info->sparse) {
            train_dense(rig->model.dense[t], info, seed + t);
        }
        for (uint32_t s = 0; info->sparse && s < PS_SLOTS && has_rows(rig, s); s++) {
            train_rows(rig->model.sparse[t][s], info, s, rig->size.n_keys, seed + t);
        }
    }
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        rig->model.positions[s] += 1 + s;
        (void)snprintf(rig->model.lines[s], sizeof(rig->model.lines[s]), "slot %u seed %llu", s,
                       (unsigned long long)seed);
    }
}

/* ---- Its life ------------------------------------------------------------------------------- */

static uint64_t now(void *arg)
{
    (void)arg;
    return 0;
}

static uint64_t wall_ms(void)
{
    return UINT64_C(1700000000000);
}

void rig_init(struct rig *rig, struct ps_disk *disk, const struct rig_size *size, uint64_t seed)
{
    size_t n = 0;
    const struct ps_optim *const *all = ps_optim_all(&n);
    memset(rig, 0, sizeof(*rig));
    ps_mem_init(&rig->mem);
    rig->fail_after = -1;
    rig->disk = disk;
    (void)snprintf(rig->dir, sizeof(rig->dir), "%s", RIG_DIR);
    rig->size = *size;
    for (size_t i = 0; i < n; i++) {
        if (size->one_rule && strcmp(all[i]->name, "adagrad") != 0) {
            continue;
        }
        add_dense(rig, all[i], size->n_floats + i);
        add_sparse(rig, all[i], size->width);
    }
    rig->catalogue.n_tables = rig->n_tables;
    ps_inline_exec_init(&rig->exec, now, NULL);
    make_model(rig, &rig->model);
    rig_train(rig, seed);
    rig_train(rig, seed + 1000);
}

enum ps_status rig_open(struct rig *rig, enum ps_snap_plant plant, struct ps_error *err)
{
    struct ps_snap_writer_options options = {.disk = rig->disk,
                                             .dir = rig->dir,
                                             .exec = &rig->exec.base,
                                             .mem = &rig->mem,
                                             .plant = plant};
    struct ps_snap_keeper_options keeper = {
        .disk = rig->disk, .mem = &rig->mem, .dir = rig->dir, .wall_ms = wall_ms};
    ps_snap_writer_destroy(rig->writer);
    ps_snap_keeper_destroy(rig->keeper);
    rig->writer = NULL;
    rig->keeper = NULL;
    enum ps_status status = ps_snap_writer_create(&options, &rig->writer, err);
    return status == PS_OK ? ps_snap_keeper_create(&keeper, &rig->keeper, err) : status;
}

void rig_deinit(struct rig *rig)
{
    ps_snap_writer_destroy(rig->writer);
    ps_snap_keeper_destroy(rig->keeper);
    rig_model_deinit(&rig->model);
    ck_assert_uint_eq(n_staged_msgs, 0);
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        ck_assert_uint_eq(rig->mem.used[i], 0);
    }
}

struct ps_snap_place rig_place(struct rig *rig)
{
    static const char *const dirs[] = {RIG_DIR};
    return (struct ps_snap_place){
        .disk = rig->disk, .mem = &rig->mem, .dirs = dirs, .n_dirs = PS_ARRAY_LEN(dirs)};
}

/* ---- Cutting and writing -------------------------------------------------------------------- */

static void cut_dense(struct rig *rig, struct ps_slot_cut *to, uint32_t slot, uint32_t table)
{
    const struct ps_layout *layout = &rig->catalogue.layouts[table];
    uint32_t n = ps_layout_blocks_in_slot(layout, slot);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t block = ps_layout_block_in_slot(layout, slot, i);
        to->blocks[to->n_blocks++] = (struct ps_cut_block){
            .table = table,
            .block = block,
            .page = ps_dense_borrow(rig->model.dense[table], block, PS_PAGE_SNAPSHOT)};
    }
}

static void cut_rows(struct rig *rig, struct ps_slot_cut *to, uint32_t slot, uint32_t table)
{
    struct ps_sparse *sparse = rig->model.sparse[table][slot];
    struct ps_cut_rows *rows = &to->rows[to->n_rows++];
    *rows = (struct ps_cut_rows){
        .table = table,
        .view = ps_sparse_view_take(sparse, PS_PAGE_SNAPSHOT),
        .rest = {.clock = sparse->clock, .rate = sparse->rate, .aged = sparse->admit.aged},
        .n_counts = sparse->admit.n_bytes};
    ck_assert_ptr_nonnull(rows->view);
    if (rows->n_counts > 0) {
        rows->counts = ps_mem_alloc(&rig->mem, PS_MEM_OTHER, rows->n_counts);
        memcpy(rows->counts, sparse->admit.counts, rows->n_counts);
        rows->rest.counts = rows->counts;
    }
}

/* What was staged for slot s: content and parts follow from s. Its message is counted. */
struct staged_msg {
    struct ps_msg msg;
    struct ps_slice slices[2];
    struct ps_part part;
    uint8_t payload[48];
};

static void destroy_staged(struct ps_msg *msg)
{
    n_staged_msgs--;
    free(PS_CONTAINER_OF(msg, struct staged_msg, msg));
}

static void cut_staged(struct rig *rig, struct ps_slot_cut *to, uint32_t slot)
{
    struct staged_msg *held = calloc(1, sizeof(*held));
    ck_assert_ptr_nonnull(held);
    n_staged_msgs++;
    memset(held->payload, (int)slot, sizeof(held->payload));
    held->slices[0] = (struct ps_slice){.data = held->payload, .n_bytes = 20};
    held->slices[1] = (struct ps_slice){.data = held->payload + 20, .n_bytes = 28};
    held->part = (struct ps_part){.block = slot, .dtype = 1, .n_bytes = sizeof(held->payload)};
    held->msg = (struct ps_msg){.n_refs = 1, .destroy = destroy_staged};
    to->staged = ps_mem_alloc(&rig->mem, PS_MEM_OTHER, sizeof(*to->staged));
    to->n_staged = 1;
    to->staged[0] = (struct ps_record){.kind = PS_RECORD_STAGE,
                                       .slot = slot,
                                       .epoch = 1,
                                       .position = 9,
                                       .push = {.session = 4,
                                                .step = slot,
                                                .item = {.stream = 6, .n_fragments = 1},
                                                .rows = 3,
                                                .parts = &held->part,
                                                .n_parts = 1,
                                                .payload = ps_cursor_over(held->slices, 2),
                                                .msg = &held->msg}};
}

struct ps_cut *rig_cut(struct rig *rig, uint32_t server, uint32_t n_servers)
{
    struct ps_cut *cut = ps_cut_create(&rig->mem);
    ck_assert_ptr_nonnull(cut);
    cut->base_lsn = CUT_LINE;
    for (uint32_t s = server; s < PS_SLOTS; s += n_servers) {
        struct ps_slot_cut *slot = &cut->slots[s];
        uint32_t n_blocks = 0;
        slot->taken = true;
        slot->epoch = 1;
        slot->position = rig->model.positions[s];
        slot->n_state_bytes = strlen(rig->model.lines[s]);
        slot->state = ps_mem_alloc(&rig->mem, PS_MEM_OTHER, slot->n_state_bytes);
        memcpy(slot->state, rig->model.lines[s], slot->n_state_bytes);
        for (uint32_t t = 0; t < rig->n_tables; t++) {
            n_blocks += ps_layout_blocks_in_slot(&rig->catalogue.layouts[t], s);
        }
        slot->blocks = ps_mem_array(&rig->mem, PS_MEM_OTHER, n_blocks, sizeof(slot->blocks[0]));
        if (s < rig->size.n_staged) {
            cut_staged(rig, slot, s);
        }
        slot->rows = ps_mem_array(&rig->mem, PS_MEM_OTHER, rig->n_tables, sizeof(slot->rows[0]));
        for (uint32_t t = 0; t < rig->n_tables; t++) {
            if (rig->catalogue.tables[t].sparse && has_rows(rig, s)) {
                cut_rows(rig, slot, s, t);
            } else if (!rig->catalogue.tables[t].sparse) {
                cut_dense(rig, slot, s, t);
            }
        }
    }
    return cut;
}

struct waiting {
    struct ps_snap_write *write;
    struct rig *rig;
};
static struct waiting waiting;

static void note_done(struct ps_mail *mail)
{
    ck_assert_ptr_eq(mail, &waiting.write->done);
    waiting.rig->done = true;
}

void rig_write_part(struct rig *rig, uint64_t cut, uint32_t server, uint32_t n_servers,
                    struct ps_snap_write *write)
{
    bool called_off = write->called_off;
    *write = (struct ps_snap_write){.job = {.generation = GENERATION,
                                            .cut = cut,
                                            .cluster = cluster,
                                            .key_seed = UINT64_C(0xfedcba9876543210),
                                            .server = server,
                                            .n_servers = n_servers,
                                            .catalogue = &rig->catalogue,
                                            .tables = rig->tables,
                                            .n_tables = rig->n_tables},
                                    .cut = rig_cut(rig, server, n_servers),
                                    .home = &rig->exec.base,
                                    .done = {.run = note_done},
                                    .called_off = called_off};
    waiting = (struct waiting){.write = write, .rig = rig};
    rig->done = false;
    ps_snap_writer_post(rig->writer, write);
    rig->mem.fail_after = rig->fail_after;
    ps_inline_exec_pump(&rig->exec);
    rig->mem.fail_after = -1;
    ck_assert(rig->done);
}

enum ps_status rig_snapshot(struct rig *rig, uint64_t cut, uint32_t n_servers, struct ps_error *err)
{
    static const uint8_t job[] = "the job";
    struct ps_cut_part parts[8];
    struct ps_cut_found found;
    ck_assert_uint_le(n_servers, PS_ARRAY_LEN(parts));
    for (uint32_t i = 0; i < n_servers; i++) {
        struct ps_snap_write write = {0};
        rig_write_part(rig, cut, i, n_servers, &write);
        if (write.err.status != PS_OK) {
            return ps_fail(err, write.err.status, "%s", write.err.text);
        }
        parts[i] =
            (struct ps_cut_part){.server = i, .address = "host:7070", .n_bytes = write.n_bytes};
        ps_snap_sum_bytes(write.sum, parts[i].checksum);
    }
    struct ps_cut_whole whole = {.generation = GENERATION,
                                 .cut = cut,
                                 .cluster = cluster,
                                 .job = job,
                                 .n_job_bytes = sizeof(job),
                                 .parts = parts,
                                 .n_parts = n_servers};
    return ps_cut_finish(rig->keeper, &whole, &found, err);
}

/* ---- Reading -------------------------------------------------------------------------------- */

struct loading {
    const struct rig *rig;
    struct rig_model *to;
    uint64_t slots; /* Asked for. */
};

static bool asked(const struct loading *loading, uint32_t slot)
{
    return (loading->slots >> slot & 1) != 0;
}

static enum ps_status load_slot(void *arg, const struct ps_snap_slot *slot, const uint8_t *state,
                                size_t n_bytes, struct ps_error *err)
{
    struct loading *loading = arg;
    (void)err;
    ck_assert(asked(loading, slot->slot));
    ck_assert_uint_lt(n_bytes, sizeof(loading->to->lines[0]));
    ck_assert_uint_eq(loading->to->positions[slot->slot], 0);
    memcpy(loading->to->lines[slot->slot], state, n_bytes);
    loading->to->positions[slot->slot] = slot->position;
    return PS_OK;
}

static enum ps_status load_block(void *arg, const struct ps_snap_block *block, struct ps_error *err)
{
    struct loading *loading = arg;
    struct ps_dense *dense = loading->to->dense[block->table];
    if (dense == NULL || block->block >= dense->n_blocks ||
        block->saved.n != ps_dense_floats(dense, block->block) ||
        block->state_per_elem != dense->spec.state_per_elem) {
        return ps_fail(err, PS_ERR_CORRUPT, "no such block");
    }
    ck_assert(asked(loading, block->slot));
    ck_assert_ptr_nonnull(loading->to->lines[block->slot]);
    ck_assert_uint_eq(ps_layout_slot(&loading->rig->catalogue.layouts[block->table], block->block),
                      block->slot);
    ck_assert_int_eq(ps_dense_put(dense, block->block, &block->saved), PS_OK);
    loading->to->n_blocks_read++;
    return PS_OK;
}

static struct ps_sparse *sparse_of(const struct loading *loading, uint32_t table, uint32_t slot)
{
    ck_assert_uint_lt(table, PS_TABLES_MAX);
    return loading->to->sparse[table][slot];
}

static enum ps_status load_row(void *arg, const struct ps_snap_row *row, struct ps_error *err)
{
    struct loading *loading = arg;
    struct ps_sparse *sparse = sparse_of(loading, row->table, row->slot);
    ck_assert(asked(loading, row->slot));
    if (sparse == NULL || row->width != sparse->spec.width ||
        row->state_per_elem != sparse->spec.state_per_elem ||
        (row->saved.weights == NULL) != (sparse->shape.n_kept == 0)) {
        return ps_fail(err, PS_ERR_CORRUPT, "no such row");
    }
    loading->to->n_rows_read++;
    return ps_sparse_put(sparse, &row->saved);
}

static enum ps_status load_rest(void *arg, uint32_t slot, uint32_t table,
                                const struct ps_sparse_rest *rest, uint32_t n_counts,
                                struct ps_error *err)
{
    struct loading *loading = arg;
    struct ps_sparse *sparse = sparse_of(loading, table, slot);
    if (sparse == NULL || n_counts != sparse->admit.n_bytes) {
        return ps_fail(err, PS_ERR_CORRUPT, "other counters");
    }
    ps_sparse_put_rest(sparse, rest);
    return PS_OK;
}

static enum ps_status load_staged(void *arg, const struct ps_record *record, struct ps_error *err)
{
    struct loading *loading = arg;
    struct ps_cursor payload = record->push.payload;
    uint8_t bytes[48];
    (void)err;
    ck_assert(asked(loading, record->slot));
    ck_assert_uint_eq(record->push.step, record->slot);
    ck_assert_uint_eq(record->push.n_parts, 1);
    ck_assert_uint_eq(record->push.parts[0].block, record->slot);
    ck_assert_uint_eq(payload.n_left, sizeof(bytes));
    ps_cursor_copy(&payload, bytes, sizeof(bytes));
    ck_assert_uint_eq(bytes[47], record->slot);
    ck_assert_ptr_nonnull(record->push.msg);
    loading->to->n_staged++;
    return PS_OK;
}

enum ps_status rig_load(struct rig *rig, const struct ps_snap *snap, uint32_t n_servers,
                        struct rig_model *ret, struct ps_error *err)
{
    struct loading loading = {.rig = rig, .to = ret};
    struct ps_snap_visitor visitor = {.arg = &loading,
                                      .slot = load_slot,
                                      .block = load_block,
                                      .row = load_row,
                                      .rest = load_rest,
                                      .staged = load_staged};
    enum ps_status status = PS_OK;
    make_model(rig, ret);
    for (uint32_t i = 0; status == PS_OK && i < n_servers; i++) {
        loading.slots = 0;
        for (uint32_t s = i; s < PS_SLOTS; s += n_servers) {
            loading.slots |= UINT64_C(1) << s;
        }
        status = ps_snap_load(snap, loading.slots, &visitor, err);
    }
    return status;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static void same_dense(const struct ps_dense *a, const struct ps_dense *b)
{
    for (uint32_t i = 0; i < a->n_blocks; i++) {
        const struct ps_page *x = ps_dense_page(a, i);
        const struct ps_page *y = ps_dense_page(b, i);
        ck_assert_uint_eq(x->n, y->n);
        ck_assert_uint_eq(x->t, y->t);
        ck_assert_uint_eq(x->version, y->version);
        ck_assert_mem_eq(x->power, y->power, sizeof(x->power));
        ck_assert_mem_eq(x->weights, y->weights, x->n * sizeof(float));
        if (a->spec.state_per_elem > 0) {
            ck_assert_mem_eq(x->state, y->state, x->n * a->spec.state_per_elem * sizeof(float));
        }
    }
}

static void same_row(const struct ps_sparse *sparse, const struct ps_sparse_row *x,
                     const struct ps_sparse_row *y)
{
    size_t n = sparse->spec.width * sizeof(float);
    ck_assert_uint_eq(x->key, y->key);
    ck_assert_uint_eq(x->t, y->t);
    ck_assert_uint_eq(x->touched, y->touched);
    ck_assert_mem_eq(x->weights, y->weights, n);
    if (sparse->spec.state_per_elem > 0) {
        ck_assert_mem_eq(x->state, y->state, n * sparse->spec.state_per_elem);
    }
}

static void same_sparse(struct ps_sparse *a, struct ps_sparse *b)
{
    struct ps_sparse_view *x = ps_sparse_view_take(a, PS_PAGE_SNAPSHOT);
    struct ps_sparse_view *y = ps_sparse_view_take(b, PS_PAGE_SNAPSHOT);
    ck_assert(ps_sparse_view_order(x, false) && ps_sparse_view_order(y, false));
    ck_assert_uint_eq(x->n_rows, y->n_rows);
    for (uint64_t i = 0; i < x->n_rows; i++) {
        struct ps_sparse_row row_x = ps_sparse_view_row(x, i);
        struct ps_sparse_row row_y = ps_sparse_view_row(y, i);
        same_row(a, &row_x, &row_y);
    }
    ck_assert_uint_eq(a->clock, b->clock);
    ck_assert_mem_eq(&a->rate, &b->rate, sizeof(a->rate));
    ck_assert_uint_eq(a->admit.aged, b->admit.aged);
    if (a->admit.n_bytes > 0) {
        ck_assert_mem_eq(a->admit.counts, b->admit.counts, a->admit.n_bytes);
    }
    ps_sparse_view_drop(x);
    ps_sparse_view_drop(y);
}

void rig_same(const struct rig *rig, const struct rig_model *a, const struct rig_model *b)
{
    for (uint32_t t = 0; t < rig->n_tables; t++) {
        if (a->dense[t] != NULL) {
            same_dense(a->dense[t], b->dense[t]);
        }
        for (uint32_t s = 0; s < PS_SLOTS && a->sparse[t][s] != NULL; s++) {
            same_sparse(a->sparse[t][s], b->sparse[t][s]);
        }
    }
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        ck_assert_str_eq(a->lines[s], b->lines[s]);
        ck_assert_uint_eq(a->positions[s], b->positions[s]);
    }
}
