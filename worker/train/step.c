/* step.c — one step of a worker, for each way of keeping workers together. */
#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "data/dataset.h"
#include "num/kernel.h"
#include "train/center.h"
#include "train/schedule.h"
#include "train/trainer.h"

/* ---- Weights ------------------------------------------------------------------------------- */

static void prepare_pull(struct ps_trainer_side *side, uint64_t step)
{
    PS_ASSERT(side->pull.under_way == NULL);
    side->step = step;
    side->ready = false;
    side->pull = (struct ps_pull){
        .step = step,
        .tensors = side->weights.tensors,
        .n_tensors = side->weights.n_tables,
    };
}

static enum ps_status start_pull(struct ps_trainer *t, struct ps_trainer_side *side, uint64_t step)
{
    prepare_pull(side, step);
    return ps_client_pull_start(t->client, &side->pull, t->err);
}

static enum ps_status wait_pull(struct ps_trainer *t, struct ps_trainer_side *side)
{
    enum ps_status status = ps_client_pull_wait(t->client, &side->pull, t->err);
    side->ready = status == PS_OK;
    if (status != PS_OK) {
        return ps_wrap(t->err, status, "pulling weights for step %" PRIu64, side->step);
    }
    return PS_OK;
}

/* Of two failures the first counts, with its words; the pull ends either way. */
static enum ps_status wait_pull_after(struct ps_trainer *t, struct ps_trainer_side *side,
                                      enum ps_status status)
{
    struct ps_error first = *t->err;
    enum ps_status pulled = wait_pull(t, side);
    if (status != PS_OK) {
        *t->err = first;
        return status;
    }
    return pulled;
}

/* Have weights for the step at hand on the current side. */
static enum ps_status fetch(struct ps_trainer *t)
{
    struct ps_trainer_side *side = &t->sides[t->side];
    if (side->ready && side->step == t->unit.step) {
        return PS_OK;
    }
    enum ps_status status = start_pull(t, side, t->unit.step);
    return status == PS_OK ? wait_pull(t, side) : status;
}

/* ---- Computing ----------------------------------------------------------------------------- */

static enum ps_status diverged(struct ps_trainer *t, const char *what)
{
    return ps_fail(t->err, PS_ERR_DIVERGED,
                   "training diverged at step %" PRIu64 " (epoch %" PRIu32
                   "): %s is not finite; use a smaller --lr (it is %g) or a smaller --staleness",
                   t->unit.step, t->unit.epoch + 1, what, (double)t->plan->schedule.rate);
}

static enum ps_status compute(struct ps_trainer *t)
{
    struct ps_train_plan *plan = t->plan;
    const struct ps_unit *unit = &t->unit;
    for (uint32_t i = 0; i < unit->n_rows; i++) {
        t->row_ids[i] = (uint32_t)ps_row_at(&t->job, unit->epoch, unit->first + i);
    }
    ps_dataset_rows(plan->train, t->row_ids, unit->n_rows, t->x, t->y);
    if (plan->mean != NULL) {
        ps_center_apply(plan->mean, t->x, unit->n_rows, plan->train->n_features);
    }
    const float *weights[PS_MODEL_TABLES_MAX];
    for (uint32_t i = 0; i < plan->model->n_tables; i++) {
        weights[i] = t->sides[t->side].weights.arrays[i];
    }
    struct ps_batch_view batch = {.x = t->x, .y = t->y, .n_rows = unit->n_rows};
    t->loss = 0.0;
    enum ps_status status =
        plan->kind->gradients(plan->model, weights, &batch, t->grads.arrays, &t->loss);
    if (status != PS_OK) {
        return ps_fail(t->err, status, "no memory for the gradients of %" PRIu32 " rows",
                       unit->n_rows);
    }
    if (!isfinite(t->loss)) {
        return diverged(t, "the loss");
    }
    if (!ps_kernel_finite((const uint8_t *)t->grads.values, t->grads.n_values)) {
        return diverged(t, "a gradient");
    }
    return PS_OK;
}

static struct ps_push make_push(const struct ps_trainer *t)
{
    return (struct ps_push){
        .unit = &t->unit,
        .rate = t->rate,
        .read_clock = t->sides[t->side].pull.min_clock,
        .tensors = t->grads.tensors,
        .n_tensors = t->grads.n_tables,
    };
}

static enum ps_status wait_push(struct ps_trainer *t, struct ps_push *push)
{
    enum ps_status status = ps_client_push_wait(t->client, push, t->err);
    return status == PS_OK ? PS_OK : ps_wrap(t->err, status, "pushing step %" PRIu64, t->unit.step);
}

static enum ps_status push_unit(struct ps_trainer *t)
{
    struct ps_push push = make_push(t);
    enum ps_status status = ps_client_push_start(t->client, &push, t->err);
    return status == PS_OK ? wait_push(t, &push) : status;
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* The step at hand is in the servers. */
static enum ps_status tick(struct ps_trainer *t)
{
    return ps_client_unit_done(t->client, &t->unit, t->loss, t->err);
}

/* Weights that were pulled before the own push lack it: the same arithmetic as the servers' sgd. */
static void add_own_update(const struct ps_trainer *t, struct ps_weights *weights, float rate)
{
    for (uint64_t i = 0; i < weights->n_values; i++) {
        weights->values[i] = weights->values[i] - rate * t->grads.values[i];
    }
}

/* Pull for the next step while this one computes; it ends before the push begins. */
static enum ps_status step_prefetch(struct ps_trainer *t)
{
    struct ps_trainer_side *next = &t->sides[1 - t->side];
    enum ps_status status = start_pull(t, next, t->unit.step + 1);
    if (status != PS_OK) {
        return status;
    }
    status = compute(t);
    status = wait_pull_after(t, next, status);
    if (status != PS_OK) {
        return status;
    }
    status = push_unit(t);
    if (status != PS_OK) {
        return status;
    }
    if (t->plan->own_update) {
        add_own_update(t, &next->weights, t->rate);
    }
    t->side = 1 - t->side;
    return tick(t);
}

/*
 * Push alone: the next pull may have to wait for everybody's push, this one included. With
 * aggregation a push that came too late is no failure: the unit comes again.
 */
static enum ps_status step_push(struct ps_trainer *t)
{
    enum ps_status status = compute(t);
    if (status != PS_OK) {
        return status;
    }
    status = push_unit(t);
    if (status == PS_ERR_LATE && t->plan->consistency.aggregate) {
        return PS_OK;
    }
    return status == PS_OK ? tick(t) : status;
}

/*
 * Push and pull in the same calls, where the bound allows it. Not after the last unit of a lease:
 * the next one may be of a later step.
 */
static enum ps_status step_push_pull(struct ps_trainer *t)
{
    if (t->unit.last) {
        return step_push(t);
    }
    enum ps_status status = compute(t);
    if (status != PS_OK) {
        return status;
    }
    struct ps_trainer_side *next = &t->sides[1 - t->side];
    struct ps_push push = make_push(t);
    prepare_pull(next, t->unit.step + 1);
    status = ps_client_push_pull_start(t->client, &push, &next->pull, t->err);
    if (status != PS_OK) {
        return status;
    }
    status = wait_push(t, &push);
    if (status == PS_OK) {
        status = tick(t); /* First: others may wait for it before this pull can be answered. */
    }
    status = wait_pull_after(t, next, status);
    t->side = 1 - t->side;
    return status;
}

enum ps_status ps_trainer_step(struct ps_trainer *t)
{
    const struct ps_train_plan *plan = t->plan;
    uint64_t per_epoch = ps_train_plan_batches(plan);
    uint64_t place = (uint64_t)t->unit.epoch * per_epoch + t->unit.first / plan->options.batch;
    t->rate = ps_schedule_rate(&plan->schedule, place, per_epoch * plan->options.epochs);
    enum ps_status status = fetch(t);
    if (status != PS_OK) {
        return status;
    }
    if (plan->consistency.mode == PS_CONSISTENCY_BSP) {
        return step_push(t);
    }
    return plan->prefetch ? step_prefetch(t) : step_push_pull(t);
}
