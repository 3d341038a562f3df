/* snap_tables.c — the file of one table: its blocks or rows, slot by slot. See README.md. */
#include <string.h>

#include "base/assert.h"
#include "snap/layout.h"
#include "snap/snap_impl.h"

#define KEYS_AT_ONCE 1024u

/* ---- Dense ---------------------------------------------------------------------------------- */

/* The blocks that a slot has of the table in hand. */
struct run {
    struct ps_cut_block *blocks;
    uint32_t n;
    uint64_t n_floats;
};

static struct run run_of(const struct ps_snap_work *w, uint32_t slot, uint32_t table)
{
    const struct ps_slot_cut *from = &w->cut->slots[slot];
    struct run run = {.blocks = from->blocks + w->next_block[slot]};
    uint32_t n_left = from->n_blocks - w->next_block[slot];
    while (run.n < n_left && run.blocks[run.n].table == table) {
        run.n_floats += run.blocks[run.n].page->n;
        run.n++;
    }
    return run;
}

static void list_dense(struct ps_snap_work *w, uint32_t slot, uint32_t table, uint32_t n_state)
{
    struct run run = run_of(w, slot, table);
    if (run.n == 0) {
        return;
    }
    ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_BLOCKS, PS_TENSOR_U64), 2, run.n,
                  PS_SNAP_BLOCK_NUMBERS, 1);
    ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_POWER, PS_TENSOR_F64), 2, run.n, 2, 1);
    ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_WEIGHTS, PS_TENSOR_F32), 1, run.n_floats, 1,
                  1);
    if (n_state > 0) {
        ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_STATE, PS_TENSOR_F32), 1,
                      run.n_floats * n_state, 1, 1);
    }
}

static enum ps_status put_numbers(struct ps_snap_work *w, const struct run *run)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; status == PS_OK && i < run->n; i++) {
        const struct ps_page *page = run->blocks[i].page;
        uint64_t numbers[PS_SNAP_BLOCK_NUMBERS] = {run->blocks[i].block, page->n, page->t,
                                                   page->version};
        status = ps_snap_out_put(&w->out, numbers, sizeof(numbers), w->err);
    }
    for (uint32_t i = 0; status == PS_OK && i < run->n; i++) {
        const struct ps_page *page = run->blocks[i].page;
        status = ps_snap_out_put(&w->out, page->power, sizeof(page->power), w->err);
    }
    return status;
}

static enum ps_status put_dense(struct ps_snap_work *w, uint32_t slot, uint32_t table,
                                uint32_t n_state)
{
    struct run run = run_of(w, slot, table);
    enum ps_status status = ps_snap_go_on(w);
    status = status == PS_OK ? put_numbers(w, &run) : status;
    for (uint32_t i = 0; status == PS_OK && i < run.n; i++) {
        const struct ps_page *page = run.blocks[i].page;
        status = ps_snap_out_put(&w->out, page->weights, page->n * sizeof(float), w->err);
    }
    for (uint32_t i = 0; status == PS_OK && n_state > 0 && i < run.n; i++) {
        const struct ps_page *page = run.blocks[i].page;
        PS_ASSERT(page->state != NULL);
        status = ps_snap_out_put(&w->out, page->state, (size_t)page->n * n_state * sizeof(float),
                                 w->err);
    }
    for (uint32_t i = 0; status == PS_OK && i < run.n; i++) {
        ps_page_unref(run.blocks[i].page, PS_PAGE_SNAPSHOT);
        run.blocks[i].page = NULL;
    }
    w->next_block[slot] += run.n;
    return status;
}

/* ---- Sparse --------------------------------------------------------------------------------- */

/* What a slot has of the table in hand; NULL: nothing. */
static struct ps_cut_rows *rows_of(const struct ps_snap_work *w, uint32_t slot, uint32_t table)
{
    const struct ps_slot_cut *from = &w->cut->slots[slot];
    uint32_t at = w->next_rows[slot];
    return at < from->n_rows && from->rows[at].table == table ? &from->rows[at] : NULL;
}

static void list_sparse(struct ps_snap_work *w, uint32_t slot, uint32_t table)
{
    const struct ps_cut_rows *rows = rows_of(w, slot, table);
    if (rows == NULL) {
        return;
    }
    const struct ps_sparse_shape *shape = &rows->view->shape;
    uint64_t n = ps_sparse_view_count(rows->view);
    ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_KEYS, PS_TENSOR_U64), 1, n, 1, 1);
    ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_STEPS, PS_TENSOR_U32), 2, n, 2, 1);
    if (shape->n_kept > 0) {
        ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_WEIGHTS, PS_TENSOR_F32), 2, n,
                      shape->width, 1);
    }
    if (shape->state_per_elem > 0) {
        ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_STATE, PS_TENSOR_F32), 3, n,
                      shape->state_per_elem, shape->width);
    }
    ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_CLOCK, PS_TENSOR_U32), 1, 2, 1, 1);
    ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_RATE, PS_TENSOR_F32), 1, 1, 1, 1);
    if (rows->n_counts > 0) {
        ps_snap_shape(ps_snap_add_tensor(w, slot, PS_SNAP_COUNTS, PS_TENSOR_U8), 1, rows->n_counts,
                      1, 1);
    }
}

static enum ps_status put_keys(struct ps_snap_work *w, const struct ps_sparse_view *view)
{
    uint64_t keys[KEYS_AT_ONCE];
    enum ps_status status = PS_OK;
    for (uint64_t at = 0; status == PS_OK && at < view->n_rows;) {
        uint64_t n_left = view->n_rows - at;
        uint32_t n = n_left < KEYS_AT_ONCE ? (uint32_t)n_left : KEYS_AT_ONCE;
        for (uint32_t i = 0; i < n; i++) {
            keys[i] = ps_sparse_view_kept(view, at + i).key;
        }
        status = ps_snap_out_put(&w->out, keys, n * sizeof(keys[0]), w->err);
        at += n;
    }
    return status;
}

static enum ps_status put_steps(struct ps_snap_work *w, const struct ps_sparse_view *view)
{
    uint32_t steps[KEYS_AT_ONCE][2];
    enum ps_status status = PS_OK;
    for (uint64_t at = 0; status == PS_OK && at < view->n_rows;) {
        uint64_t n_left = view->n_rows - at;
        uint32_t n = n_left < KEYS_AT_ONCE ? (uint32_t)n_left : KEYS_AT_ONCE;
        for (uint32_t i = 0; i < n; i++) {
            struct ps_sparse_row row = ps_sparse_view_kept(view, at + i);
            steps[i][0] = row.t;
            steps[i][1] = row.touched;
        }
        status = ps_snap_out_put(&w->out, steps, n * sizeof(steps[0]), w->err);
        at += n;
    }
    return status;
}

static enum ps_status put_values(struct ps_snap_work *w, const struct ps_sparse_view *view)
{
    const struct ps_sparse_shape *shape = &view->shape;
    size_t n_weights = shape->width * sizeof(float);
    size_t n_state = n_weights * shape->state_per_elem;
    enum ps_status status = PS_OK;
    for (uint64_t i = 0; status == PS_OK && shape->n_kept > 0 && i < view->n_rows; i++) {
        status = ps_snap_out_put(&w->out, ps_sparse_view_kept(view, i).weights, n_weights, w->err);
    }
    for (uint64_t i = 0; status == PS_OK && n_state > 0 && i < view->n_rows; i++) {
        status = ps_snap_out_put(&w->out, ps_sparse_view_kept(view, i).state, n_state, w->err);
    }
    return status;
}

static enum ps_status put_rest(struct ps_snap_work *w, const struct ps_cut_rows *rows)
{
    uint32_t clock[2] = {rows->rest.clock, rows->rest.aged};
    enum ps_status status = ps_snap_out_put(&w->out, clock, sizeof(clock), w->err);
    if (status == PS_OK) {
        status = ps_snap_out_put(&w->out, &rows->rest.rate, sizeof(rows->rest.rate), w->err);
    }
    if (status == PS_OK && rows->n_counts > 0) {
        status = ps_snap_out_put(&w->out, rows->counts, rows->n_counts, w->err);
    }
    return status;
}

static enum ps_status put_sparse(struct ps_snap_work *w, uint32_t slot, uint32_t table)
{
    struct ps_cut_rows *rows = rows_of(w, slot, table);
    enum ps_status status = ps_snap_go_on(w);
    if (rows == NULL || status != PS_OK) {
        return status;
    }
    if (!ps_sparse_view_order(rows->view, false)) {
        return ps_fail(w->err, PS_ERR_NOMEM, "no memory to put the rows of slot %u in order", slot);
    }
    status = put_keys(w, rows->view);
    status = status == PS_OK ? put_steps(w, rows->view) : status;
    status = status == PS_OK ? put_values(w, rows->view) : status;
    status = status == PS_OK ? put_rest(w, rows) : status;
    ps_sparse_view_drop(rows->view);
    rows->view = NULL;
    w->next_rows[slot]++;
    return status;
}

/* ---- Both ----------------------------------------------------------------------------------- */

enum ps_status ps_snap_write_table(struct ps_snap_work *w, uint32_t table)
{
    const struct ps_table_info *info = &w->job->catalogue->tables[table];
    char name[PS_SNAP_NAME_BYTES];
    size_t n_name = strlen(info->spec.name);
    memcpy(name, info->spec.name, n_name);
    memcpy(name + n_name, PS_SNAP_TABLE, sizeof(PS_SNAP_TABLE));
    w->n_tensors = 0;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (w->cut->slots[s].taken && info->sparse) {
            list_sparse(w, s, table);
        } else if (w->cut->slots[s].taken) {
            list_dense(w, s, table, info->spec.state_per_elem);
        }
    }
    enum ps_status status = ps_snap_begin_file(w, name, 1 + table);
    for (uint32_t s = 0; status == PS_OK && s < PS_SLOTS; s++) {
        if (w->cut->slots[s].taken) {
            status = info->sparse ? put_sparse(w, s, table)
                                  : put_dense(w, s, table, info->spec.state_per_elem);
        }
    }
    return status == PS_OK ? ps_snap_end_file(w) : status;
}
