/*
 * sparse_step.c — one unit of a worker: rows of the feed, pull, gradients, push.
 *
 *   bsp        rows c, pull c, compute, push c, done
 *   ssp, asp   compute c, rows c+1, push c and pull c+1 in one call, done; at the end of a lease
 *              without the pull, whose keys nobody knows yet
 */
#include <inttypes.h>

#include "base/assert.h"
#include "train/schedule.h"
#include "train/sparse_trainer.h"

/* ---- Rows ---------------------------------------------------------------------------------- */

/* Have rows and key lists of unit `index` of the lease at hand on `side`. */
static enum ps_status read_rows(struct ps_sparse_trainer *t, struct ps_sparse_side *side,
                                uint32_t index)
{
    if (side->lease == t->unit.lease && side->index == index) {
        return PS_OK;
    }
    side->lease = 0;
    side->ready = false;
    enum ps_status status =
        ps_feed_unit(t->feed, t->unit.part, t->unit.epoch, index, &side->rows, t->err);
    if (status == PS_OK && side->rows.n_rows > 0) {
        struct ps_sparse_rows rows = {
            .n_rows = side->rows.n_rows,
            .labels = side->rows.labels,
            .begin = side->rows.begin,
            .keys = side->rows.keys,
            .values = side->rows.values,
            .fields = side->rows.fields,
        };
        status = ps_sparse_make_batch(t, &side->batch, &rows, side->rows.lines);
        if (status == PS_OK) {
            status = ps_sparse_arrays_fit(t, &side->weights, &side->batch);
        }
    }
    if (status == PS_OK) {
        side->lease = t->unit.lease;
        side->index = index;
    }
    return status;
}

/* ---- Weights ------------------------------------------------------------------------------- */

static void prepare_pull(struct ps_sparse_trainer *t, struct ps_sparse_side *side, uint64_t step)
{
    PS_ASSERT(side->pull.under_way == NULL);
    side->step = step;
    side->ready = false;
    side->pull = (struct ps_pull){
        .step = step,
        .tensors = side->weights.tensors,
        .n_tensors = t->model->n_dense,
        .keyed = side->weights.keyed,
        .n_keyed = t->model->n_sparse,
    };
}

static enum ps_status wait_pull(struct ps_sparse_trainer *t, struct ps_sparse_side *side)
{
    enum ps_status status = ps_client_pull_wait(t->client, &side->pull, t->err);
    side->ready = status == PS_OK;
    if (status != PS_OK) {
        return ps_wrap(t->err, status, "pulling weights for step %" PRIu64, side->step);
    }
    return PS_OK;
}

static enum ps_status fetch(struct ps_sparse_trainer *t, struct ps_sparse_side *side)
{
    if (side->ready && side->step == t->unit.step) {
        return PS_OK;
    }
    prepare_pull(t, side, t->unit.step);
    enum ps_status status = ps_client_pull_start(t->client, &side->pull, t->err);
    return status == PS_OK ? wait_pull(t, side) : status;
}

/* ---- Pushes -------------------------------------------------------------------------------- */

static struct ps_push make_push(const struct ps_sparse_trainer *t)
{
    return (struct ps_push){
        .unit = &t->unit,
        .rate = t->rate,
        .read_clock = t->sides[t->side].pull.min_clock,
        .tensors = t->grads.tensors,
        .n_tensors = t->model->n_dense,
        .keyed = t->grads.keyed,
        .n_keyed = t->model->n_sparse,
    };
}

static enum ps_status wait_push(struct ps_sparse_trainer *t, struct ps_push *push)
{
    enum ps_status status = ps_client_push_wait(t->client, push, t->err);
    return status == PS_OK ? PS_OK : ps_wrap(t->err, status, "pushing step %" PRIu64, t->unit.step);
}

static enum ps_status done(struct ps_sparse_trainer *t)
{
    return ps_client_unit_done(t->client, &t->unit, t->loss, t->err);
}

static enum ps_status push(struct ps_sparse_trainer *t)
{
    struct ps_push push = make_push(t);
    enum ps_status status = ps_client_push_start(t->client, &push, t->err);
    if (status == PS_OK) {
        status = wait_push(t, &push);
    }
    return status == PS_OK ? done(t) : status;
}

/* The rows of the next unit are known: its weights come back with this push. */
static enum ps_status push_pull(struct ps_sparse_trainer *t)
{
    struct ps_sparse_side *next = &t->sides[1 - t->side];
    enum ps_status status = read_rows(t, next, t->unit.index + 1);
    if (status != PS_OK) {
        return status;
    }
    struct ps_push push = make_push(t);
    prepare_pull(t, next, t->unit.step + 1);
    status = ps_client_push_pull_start(t->client, &push, &next->pull, t->err);
    if (status != PS_OK) {
        return status;
    }
    status = wait_push(t, &push);
    if (status == PS_OK) {
        status = done(t); /* First: others may wait for it before this pull can be answered. */
    }
    struct ps_error first = *t->err;
    enum ps_status pulled = wait_pull(t, next); /* It ends either way. */
    t->side = 1 - t->side;
    if (status != PS_OK) {
        *t->err = first;
        return status;
    }
    return pulled;
}

enum ps_status ps_sparse_step(struct ps_sparse_trainer *t)
{
    const struct ps_sparse_plan *plan = t->plan;
    struct ps_sparse_side *side = &t->sides[t->side];
    enum ps_status status = read_rows(t, side, t->unit.index);
    if (status != PS_OK) {
        return status;
    }
    t->unit.n_rows = (uint32_t)side->rows.n_rows;
    t->unit.last = side->rows.last || side->rows.end;
    t->loss = 0.0;
    if (t->unit.n_rows == 0) {
        return done(t); /* The part has no more: nothing to push. */
    }
    t->units.ever_lent = true;
    uint64_t total = plan->units * plan->options.epochs;
    t->rate = ps_schedule_rate(&plan->schedule, ps_sparse_plan_place(plan, &t->unit), total);
    status = fetch(t, side);
    if (status == PS_OK) {
        status = ps_sparse_compute(t);
    }
    if (status != PS_OK) {
        return status;
    }
    bool alone = t->unit.last || plan->consistency.mode == PS_CONSISTENCY_BSP;
    return alone ? push(t) : push_pull(t);
}
