/*
 * sparse_compute.c — gradients of a unit: of all its rows at once, or batch after batch on a copy
 * of the weights.
 *
 * Local steps: the weights that were pulled are the copy. For each batch of the unit
 *
 *   g = gradient of the batch's mean loss at the copy;  copy -= rate * g;  sum += g
 *
 * and `sum` is pushed. With sgd at the servers a worker alone gets the weights of one batch after
 * the other; other rules take the sum as one gradient. Keys are looked up once: within a unit a
 * batch names them by their places among the unit's keys; no order is needed among those.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "data/lines.h"
#include "train/sparse_flags.h"
#include "train/sparse_trainer.h"

/* ---- Words --------------------------------------------------------------------------------- */

static enum ps_status diverged(struct ps_sparse_trainer *t, const char *what)
{
    return ps_fail(t->err, PS_ERR_DIVERGED,
                   "training diverged at step %" PRIu64 " (epoch %" PRIu32
                   "): %s is not finite; use a smaller --lr (it is %g), or --standardize yes if "
                   "features differ in size",
                   t->unit.step, t->unit.epoch + 1, what, (double)t->plan->schedule.rate);
}

/* Put file:line before the message about a row of the part at hand. */
static enum ps_status blame_line(struct ps_sparse_trainer *t, uint64_t line, enum ps_status status)
{
    const struct ps_sparse_plan *plan = t->plan;
    struct ps_lines *lines = ps_lines_create(plan->mem, plan->train);
    struct ps_error ignored;
    if (lines != NULL) {
        struct ps_part part = ps_source_part(plan->train, plan->parts.part_bytes, t->unit.part);
        if (ps_lines_start(lines, part, &ignored) == PS_OK) {
            (void)ps_lines_wrap(lines, line, status, t->err);
        }
        ps_lines_destroy(lines);
    }
    return status;
}

enum ps_status ps_sparse_make_batch(struct ps_sparse_trainer *t, struct ps_sparse_batch *batch,
                                    const struct ps_sparse_rows *rows, const uint64_t *lines)
{
    size_t row = 0;
    enum ps_status status = ps_sparse_batch_make(batch, t->model, rows, &row, t->err);
    if (status == PS_ERR_INVALID) {
        return blame_line(t, lines[row], status);
    }
    return status;
}

/* ---- Gradients ----------------------------------------------------------------------------- */

static enum ps_status gradients(struct ps_sparse_trainer *t, struct ps_sparse_batch *batch,
                                const struct ps_sparse_arrays *weights,
                                struct ps_sparse_arrays *grads)
{
    struct ps_sparse_weights from = {.dense = (const float *const *)weights->dense,
                                     .rows = (const float *const *)weights->rows};
    struct ps_sparse_grads to = {.dense = grads->dense, .rows = grads->rows};
    double loss = 0.0;
    enum ps_status status = t->model->kind->gradients(t->model, &from, &batch->view, &to, &loss);
    if (status != PS_OK) {
        return ps_fail(t->err, status, "no memory for the gradients of %zu rows",
                       batch->view.rows.n_rows);
    }
    for (uint32_t i = 0; i < t->model->n_dense && !t->plan->options.bias; i++) {
        memset(grads->dense[i], 0, grads->n_dense[i] * sizeof(*grads->dense[i]));
    }
    t->loss += loss;
    return isfinite(loss) ? PS_OK : diverged(t, "the loss");
}

/* ---- Local steps --------------------------------------------------------------------------- */

/* Places are below the length of the list that they are in. */
static size_t longest_list(const struct ps_sparse_trainer *t, const struct ps_sparse_batch *batch)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->model->n_lists; i++) {
        n = batch->lists[i].n > n ? batch->lists[i].n : n;
    }
    return n;
}

static enum ps_status note_places(struct ps_sparse_trainer *t, const struct ps_sparse_view *view)
{
    size_t n = (size_t)(view->rows.begin[view->rows.n_rows] - view->rows.begin[0]);
    if (n > t->n_places_max) {
        uint64_t *places = ps_mem_array(t->plan->mem, PS_MEM_OTHER, n + n / 2, sizeof(*places));
        if (places == NULL) {
            return ps_fail(t->err, PS_ERR_NOMEM, "no memory for %zu features", n);
        }
        ps_mem_free(t->places);
        t->places = places;
        t->n_places_max = n + n / 2;
    }
    for (size_t i = 0; i < n; i++) {
        t->places[i] = view->index[i];
    }
    return PS_OK;
}

/* The weights of the batch's keys out of the copy of the unit's. */
static void gather(struct ps_sparse_trainer *t, const struct ps_sparse_arrays *copy)
{
    for (uint32_t i = 0; i < t->model->n_sparse; i++) {
        size_t width = t->model->sparse[i].width;
        const struct ps_keyed *places = &t->part_weights.keyed[i];
        for (uint32_t k = 0; k < places->n; k++) {
            memcpy(t->part_weights.rows[i] + k * width, copy->rows[i] + places->keys[k] * width,
                   width * sizeof(float));
        }
    }
    for (uint32_t i = 0; i < t->model->n_dense; i++) {
        memcpy(t->part_weights.dense[i], copy->dense[i], copy->n_dense[i] * sizeof(float));
    }
}

static void step(float *copy, float *sum, const float *g, size_t n, float rate)
{
    for (size_t i = 0; i < n; i++) {
        copy[i] -= rate * g[i];
        sum[i] += g[i];
    }
}

/* The batch's gradients into the copy and the sum. */
static void scatter(struct ps_sparse_trainer *t, struct ps_sparse_arrays *copy)
{
    for (uint32_t i = 0; i < t->model->n_sparse; i++) {
        size_t width = t->model->sparse[i].width;
        const struct ps_keyed *places = &t->part_grads.keyed[i];
        for (uint32_t k = 0; k < places->n; k++) {
            size_t at = places->keys[k] * width;
            step(copy->rows[i] + at, t->grads.rows[i] + at, t->part_grads.rows[i] + k * width,
                 width, t->rate);
        }
    }
    for (uint32_t i = 0; i < t->model->n_dense; i++) {
        step(copy->dense[i], t->grads.dense[i], t->part_grads.dense[i], copy->n_dense[i], t->rate);
    }
}

static void clear(const struct ps_sparse_trainer *t, struct ps_sparse_arrays *arrays)
{
    for (uint32_t i = 0; i < t->model->n_sparse; i++) {
        if (arrays->n_rows[i] > 0) {
            memset(arrays->rows[i], 0, arrays->n_rows[i] * sizeof(float));
        }
    }
    for (uint32_t i = 0; i < t->model->n_dense; i++) {
        memset(arrays->dense[i], 0, arrays->n_dense[i] * sizeof(float));
    }
}

/* Rows [first, first + n) of the unit, their keys by places. */
static struct ps_sparse_rows rows_of(const struct ps_sparse_trainer *t,
                                     const struct ps_sparse_rows *all, size_t first, size_t n)
{
    size_t skip = (size_t)(all->begin[first] - all->begin[0]);
    return (struct ps_sparse_rows){
        .n_rows = n,
        .labels = all->labels + first,
        .begin = all->begin + first,
        .keys = t->places + skip,
        .values = all->values + skip,
        .fields = all->fields + skip,
    };
}

static enum ps_status local_step(struct ps_sparse_trainer *t, const struct ps_sparse_rows *rows,
                                 const uint64_t *lines, struct ps_sparse_arrays *copy)
{
    enum ps_status status = ps_sparse_make_batch(t, &t->part, rows, lines);
    if (status == PS_OK) {
        status = ps_sparse_arrays_fit(t, &t->part_weights, &t->part);
    }
    if (status == PS_OK) {
        status = ps_sparse_arrays_fit(t, &t->part_grads, &t->part);
    }
    if (status != PS_OK) {
        return status;
    }
    gather(t, copy);
    status = gradients(t, &t->part, &t->part_weights, &t->part_grads);
    if (status == PS_OK) {
        scatter(t, copy);
    }
    return status;
}

static enum ps_status local_steps(struct ps_sparse_trainer *t)
{
    struct ps_sparse_side *side = &t->sides[t->side];
    const struct ps_sparse_rows *all = &side->batch.view.rows;
    enum ps_status status = note_places(t, &side->batch.view);
    clear(t, &t->grads);
    t->part.n_places = longest_list(t, &side->batch);
    size_t batch = t->plan->options.batch;
    for (size_t first = 0; first < all->n_rows && status == PS_OK; first += batch) {
        size_t n = all->n_rows - first < batch ? all->n_rows - first : batch;
        struct ps_sparse_rows rows = rows_of(t, all, first, n);
        status = local_step(t, &rows, side->rows.lines + first, &side->weights);
    }
    return status;
}

enum ps_status ps_sparse_compute(struct ps_sparse_trainer *t)
{
    struct ps_sparse_side *side = &t->sides[t->side];
    enum ps_status status = ps_sparse_arrays_fit(t, &t->grads, &side->batch);
    if (status != PS_OK) {
        return status;
    }
    if (side->batch.view.rows.n_rows > t->plan->options.batch) {
        status = local_steps(t);
    } else {
        if (ps_sparse_flags_sums(t->plan->optimizer)) {
            side->batch.view.scale = 1.0f;
        }
        status = gradients(t, &side->batch, &side->weights, &t->grads);
    }
    if (status == PS_OK && !ps_sparse_arrays_finite(t, &t->grads)) {
        return diverged(t, "a gradient");
    }
    return status;
}
