/* step.c — one step of a worker, for each way of keeping workers together. */
#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "data/dataset.h"
#include "num/kernel.h"
#include "os/clock.h"
#include "train/center.h"
#include "train/schedule.h"
#include "train/trainer.h"

/* What the rows of one unit are. */
struct unit {
    uint32_t first; /* Position in the epoch's order. */
    uint32_t n_rows;
    float rate;
};

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
    uint64_t start_ns = ps_clock_ns();
    enum ps_status status = ps_client_pull_wait(t->client, &side->pull, t->err);
    side->ready = status == PS_OK;
    ps_trainer_count_wait(t, start_ns, side->pull.blocked_ns);
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
    if (side->ready && side->step == t->clock) {
        return PS_OK;
    }
    enum ps_status status = start_pull(t, side, t->clock);
    return status == PS_OK ? wait_pull(t, side) : status;
}

/* ---- Computing ----------------------------------------------------------------------------- */

static struct unit unit_rows(const struct ps_trainer *t)
{
    const struct ps_train_plan *plan = t->plan;
    uint64_t batch = plan->options.batch;
    uint64_t first = t->lease.first_row + (uint64_t)t->unit * t->lease.stride;
    uint64_t end = first + t->lease.unit_rows;
    uint64_t batch_end = (first / batch + 1) * batch;
    end = end < batch_end ? end : batch_end;
    end = end < plan->train->n_rows ? end : plan->train->n_rows;
    uint64_t per_epoch = ps_train_plan_batches(plan);
    uint64_t place = (uint64_t)t->lease.epoch * per_epoch + first / batch;
    struct unit unit = {
        .rate = ps_schedule_rate(&plan->schedule, place, per_epoch * plan->options.epochs),
    };
    if (first < end) {
        unit.first = (uint32_t)first;
        unit.n_rows = (uint32_t)(end - first);
    }
    return unit;
}

static enum ps_status diverged(struct ps_trainer *t, const char *what)
{
    return ps_fail(t->err, PS_ERR_DIVERGED,
                   "training diverged at step %" PRIu64 " (epoch %" PRIu32
                   "): %s is not finite; use a smaller --lr (it is %g) or a smaller --staleness",
                   t->clock, t->lease.epoch + 1, what, (double)t->plan->schedule.rate);
}

static enum ps_status compute(struct ps_trainer *t, const struct unit *unit)
{
    struct ps_train_plan *plan = t->plan;
    if (t->order_epoch != (uint64_t)t->lease.epoch + 1) {
        ps_order_init(&t->order, (uint32_t)plan->train->n_rows, plan->options.seed, t->lease.epoch,
                      plan->options.shuffle);
        t->order_epoch = (uint64_t)t->lease.epoch + 1;
    }
    ps_order_rows(&t->order, unit->first, unit->n_rows, t->row_ids);
    ps_dataset_rows(plan->train, t->row_ids, unit->n_rows, t->x, t->y);
    if (plan->mean != NULL) {
        ps_center_apply(plan->mean, t->x, unit->n_rows, plan->train->n_features);
    }
    const float *weights[PS_MODEL_TABLES_MAX];
    for (uint32_t i = 0; i < plan->model->n_tables; i++) {
        weights[i] = t->sides[t->side].weights.arrays[i];
    }
    struct ps_batch_view batch = {.x = t->x, .y = t->y, .n_rows = unit->n_rows};
    double loss = 0.0;
    enum ps_status status =
        plan->kind->gradients(plan->model, weights, &batch, t->grads.arrays, &loss);
    if (status != PS_OK) {
        return ps_fail(t->err, status, "no memory for the gradients of %" PRIu32 " rows",
                       unit->n_rows);
    }
    if (!isfinite(loss)) {
        return diverged(t, "the loss");
    }
    if (!ps_kernel_finite((const uint8_t *)t->grads.values, t->grads.n_values)) {
        return diverged(t, "a gradient");
    }
    t->losses[t->lease.epoch].sum += loss;
    t->losses[t->lease.epoch].rows += unit->n_rows;
    return PS_OK;
}

static struct ps_push make_push(const struct ps_trainer *t, const struct unit *unit)
{
    return (struct ps_push){
        .stream = t->lease.id,
        .sequence = t->unit,
        .acked_below = t->unit,
        .step = t->clock,
        .rows = unit->n_rows,
        .rate = unit->rate,
        .read_clock = t->sides[t->side].pull.min_clock,
        .tensors = t->grads.tensors,
        .n_tensors = t->grads.n_tables,
    };
}

static enum ps_status wait_push(struct ps_trainer *t, struct ps_push *push)
{
    uint64_t start_ns = ps_clock_ns();
    enum ps_status status = ps_client_push_wait(t->client, push, t->err);
    ps_trainer_count_wait(t, start_ns, 0);
    if (status != PS_OK) {
        return ps_wrap(t->err, status, "pushing step %" PRIu64, push->step);
    }
    struct ps_worker_stats *stats = &t->report.stats;
    uint64_t staleness = push->step > push->read_clock ? push->step - push->read_clock : 0;
    stats->staleness_sum += staleness;
    stats->staleness_max = staleness > stats->staleness_max ? staleness : stats->staleness_max;
    stats->units++;
    stats->rows += push->rows;
    return PS_OK;
}

static enum ps_status push_unit(struct ps_trainer *t, const struct unit *unit)
{
    struct ps_push push = make_push(t, unit);
    enum ps_status status = ps_client_push_start(t->client, &push, t->err);
    return status == PS_OK ? wait_push(t, &push) : status;
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* The step at hand is in the servers. */
static void tick(struct ps_trainer *t)
{
    t->clock++;
    t->unit++;
    ps_trainer_report(t);
}

/* Weights that were pulled before the own push lack it: the same arithmetic as the servers' sgd. */
static void add_own_update(const struct ps_trainer *t, struct ps_weights *weights, float rate)
{
    for (uint64_t i = 0; i < weights->n_values; i++) {
        weights->values[i] = weights->values[i] - rate * t->grads.values[i];
    }
}

/* Pull for the next step while this one computes; it ends before the push begins. */
static enum ps_status step_prefetch(struct ps_trainer *t, const struct unit *unit)
{
    struct ps_trainer_side *next = &t->sides[1 - t->side];
    enum ps_status status = start_pull(t, next, t->clock + 1);
    if (status != PS_OK) {
        return status;
    }
    status = compute(t, unit);
    status = wait_pull_after(t, next, status);
    if (status != PS_OK) {
        return status;
    }
    status = push_unit(t, unit);
    if (status != PS_OK) {
        return status;
    }
    if (t->plan->own_update) {
        add_own_update(t, &next->weights, unit->rate);
    }
    t->side = 1 - t->side;
    tick(t);
    return PS_OK;
}

/* Push alone: the next pull may have to wait for everybody's push, this one included. */
static enum ps_status step_push(struct ps_trainer *t, const struct unit *unit)
{
    enum ps_status status = compute(t, unit);
    if (status != PS_OK) {
        return status;
    }
    status = push_unit(t, unit);
    if (status == PS_OK) {
        tick(t);
    }
    return status;
}

/*
 * Push and pull in the same calls, where the bound allows it. Not after the last unit of a lease:
 * who holds none does not count, so the min clock need not ever reach what such a pull waits for.
 */
static enum ps_status step_push_pull(struct ps_trainer *t, const struct unit *unit)
{
    if (t->unit + 1 >= t->lease.n_units) {
        return step_push(t, unit);
    }
    enum ps_status status = compute(t, unit);
    if (status != PS_OK) {
        return status;
    }
    struct ps_trainer_side *next = &t->sides[1 - t->side];
    struct ps_push push = make_push(t, unit);
    prepare_pull(next, t->clock + 1);
    status = ps_client_push_pull_start(t->client, &push, &next->pull, t->err);
    if (status != PS_OK) {
        return status;
    }
    status = wait_push(t, &push);
    if (status == PS_OK) {
        tick(t); /* First: others may wait for it before this pull can be answered. */
    }
    status = wait_pull_after(t, next, status);
    t->side = 1 - t->side;
    return status;
}

/* Stage this unit's gradient, if it has rows. PS_OK with *ret_late: the step was closed before. */
static enum ps_status stage(struct ps_trainer *t, const struct unit *unit, bool *ret_late)
{
    *ret_late = false;
    if (unit->n_rows == 0) {
        return PS_OK;
    }
    enum ps_status status = compute(t, unit);
    if (status != PS_OK) {
        return status;
    }
    status = push_unit(t, unit);
    if (status == PS_ERR_LATE) {
        *ret_late = true;
        return PS_OK;
    }
    return status;
}

/*
 * One averaged step: stage, say so, wait until the step is closed. Which units it held is told by
 * the lease: a unit that came too late is still there and is done again at the new step.
 */
static enum ps_status step_aggregate(struct ps_trainer *t, const struct unit *unit)
{
    bool late = false;
    enum ps_status status = stage(t, unit, &late);
    if (status != PS_OK) {
        return status;
    }
    if (!late) {
        t->report.staged_step = t->clock + 1;
        t->report.staged_unit = t->unit;
        t->report.staged_rows = unit->n_rows;
        ps_trainer_report(t);
    }
    uint64_t start_ns = ps_clock_ns();
    status = ps_trainer_look(t);
    while (status == PS_OK && t->view.min_clock <= t->clock && !ps_trainer_job_over(t) &&
           !ps_trainer_stopping(t)) {
        status = ps_trainer_wait_change(t);
    }
    ps_trainer_count_wait(t, start_ns, UINT64_MAX);
    if (status != PS_OK) {
        return status;
    }
    if (t->view.min_clock > t->clock) {
        t->clock = t->view.min_clock;
        t->report.staged_step = 0;
    }
    if (t->view.lease.id == t->lease.id) {
        t->unit = t->view.lease.units_done;
    } else {
        t->unit = t->lease.n_units; /* It is finished. */
    }
    return PS_OK;
}

enum ps_status ps_trainer_step(struct ps_trainer *t)
{
    struct unit unit = unit_rows(t);
    if (unit.n_rows > 0) {
        enum ps_status status = fetch(t);
        if (status != PS_OK) {
            return status;
        }
    }
    if (t->plan->consistency.aggregate) {
        return step_aggregate(t, &unit);
    }
    if (unit.n_rows == 0) {
        return ps_fail(t->err, PS_ERR_INTERNAL, "lease %" PRIu64 " has a unit without rows",
                       t->lease.id);
    }
    if (t->plan->consistency.mode == PS_CONSISTENCY_BSP) {
        return step_push(t, &unit);
    }
    return t->plan->prefetch ? step_prefetch(t, &unit) : step_push_pull(t, &unit);
}
