/* loop.c — see loop.h. One struct trainer holds the run; each step is one call of step_*. */
#include "train/loop.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "data/order.h"
#include "num/kernel.h"
#include "obs/log.h"
#include "train/blocking.h"
#include "train/center.h"

#define CHANGE_WAIT_MS 200u /* How often a wait looks whether the process was asked to stop. */

/* Weights and the step that they were pulled for. */
struct side {
    struct ps_weights weights;
    struct ps_pull pull;
    uint64_t step;
    bool under_way;
    bool ready;
};

/* What the rows of one unit are. */
struct unit {
    uint32_t first; /* Position in the epoch's order. */
    uint32_t n_rows;
    float rate;
};

struct loss {
    double sum;
    uint64_t rows;
};

struct trainer {
    struct ps_train_plan *plan;
    struct ps_blocking *blocking;
    const _Atomic bool *stop;
    struct ps_error *err;
    struct ps_client_view view;
    struct ps_lease lease; /* Held; id 0: none. */
    uint32_t unit;         /* Of the lease: the next one. */
    uint64_t clock;        /* The step that comes next. */
    struct side sides[2];
    uint32_t side; /* The one to compute with. */
    struct ps_weights grads;
    struct ps_order order;
    uint64_t order_epoch; /* 1 + epoch that `order` is of; 0: none. */
    float *x;             /* [batch][n_features] */
    uint32_t *y;          /* [batch] */
    uint32_t *row_ids;    /* [batch] */
    struct loss *losses;  /* [epochs], of this session. */
    struct ps_worker_report report;
    uint64_t first_lease_ns; /* 0: none yet. */
    bool idle_said;
};

/* ---- Time ---------------------------------------------------------------------------------- */

static uint64_t now_ns(const struct trainer *t)
{
    return ps_blocking_now_ns(t->blocking);
}

/* Share out the time since `start_ns`: what the gate held, and what the network took. */
static void count_wait(struct trainer *t, uint64_t start_ns, uint64_t blocked_ns)
{
    uint64_t waited = now_ns(t) - start_ns;
    uint64_t bound = blocked_ns < waited ? blocked_ns : waited;
    t->report.stats.blocked_bound_us += bound / 1000;
    t->report.stats.blocked_network_us += (waited - bound) / 1000;
}

/* ---- What the cluster says ----------------------------------------------------------------- */

static bool asked_to_stop(const struct trainer *t)
{
    return atomic_load_explicit(t->stop, memory_order_relaxed);
}

static bool job_over(const struct trainer *t)
{
    return t->view.job == PS_JOB_DONE || t->view.job == PS_JOB_STOPPED;
}

/* Take a new look; an end of the session or of the cluster is an error. */
static enum ps_status look(struct trainer *t)
{
    ps_blocking_view(t->blocking, &t->view);
    if (t->view.lost.status != PS_OK) {
        *t->err = t->view.lost;
        return t->err->status;
    }
    if (t->view.fenced) {
        return ps_fail(t->err, PS_ERR_FENCED,
                       "session %" PRIu64 " expired: the coordinator did not hear of this process "
                       "for too long",
                       t->view.session_number);
    }
    return PS_OK;
}

static enum ps_status wait_change(struct trainer *t)
{
    (void)ps_blocking_wait_change(t->blocking, CHANGE_WAIT_MS); /* Either way: look. */
    return look(t);
}

/* ---- Report -------------------------------------------------------------------------------- */

static void send_report(struct trainer *t)
{
    t->report.clock = t->clock;
    t->report.lease = t->lease.id;
    t->report.units_done = t->unit;
    if (t->lease.id != 0) {
        t->report.loss_epoch = t->lease.epoch;
        t->report.loss_sum = t->losses[t->lease.epoch].sum;
        t->report.loss_rows = t->losses[t->lease.epoch].rows;
    }
    if (t->first_lease_ns != 0) {
        t->report.stats.busy_us = (now_ns(t) - t->first_lease_ns) / 1000;
    }
    ps_blocking_report(t->blocking, &t->report);
}

/* ---- Leases -------------------------------------------------------------------------------- */

static enum ps_status adopt(struct trainer *t)
{
    if (t->view.lease.epoch >= t->plan->options.epochs) {
        return ps_fail(t->err, PS_ERR_INTERNAL, "lease %" PRIu64 " is of epoch %" PRIu32,
                       t->view.lease.id, t->view.lease.epoch);
    }
    t->lease = t->view.lease;
    t->unit = t->lease.units_done;
    t->clock = t->clock > t->lease.clock ? t->clock : t->lease.clock;
    t->idle_said = false;
    if (t->first_lease_ns == 0) {
        t->first_lease_ns = now_ns(t);
    }
    ps_log(PS_LOG_DEBUG, "lease.held", "lease=%" PRIu64 " epoch=%" PRIu32 " unit=%" PRIu32
           " units=%" PRIu32 " clock=%" PRIu64, t->lease.id, t->lease.epoch, t->unit,
           t->lease.n_units, t->clock);
    return PS_OK;
}

static bool unit_at_hand(const struct trainer *t)
{
    return t->lease.id != 0 && t->unit < t->lease.n_units;
}

/* Wait until there is a unit to do, the job is over, or somebody asks to stop. */
static enum ps_status next_unit(struct trainer *t)
{
    if (unit_at_hand(t)) {
        return PS_OK; /* Should the session have ended, the next pull or push says so. */
    }
    uint64_t start_ns = now_ns(t);
    enum ps_status status = look(t);
    while (status == PS_OK && !asked_to_stop(t) && !job_over(t)) {
        bool other = t->view.lease.id != 0 && t->view.lease.id != t->lease.id;
        status = other ? adopt(t) : PS_OK;
        if (status != PS_OK || unit_at_hand(t)) {
            break;
        }
        if (t->view.lease.id == 0 && t->view.job == PS_JOB_RUNNING && !t->idle_said) {
            t->idle_said = true;
            ps_log(PS_LOG_INFO, "worker.idle", "why=\"every row is lent to others\"");
        }
        status = wait_change(t);
    }
    if (t->first_lease_ns != 0 && start_ns >= t->first_lease_ns) {
        t->report.stats.blocked_lease_us += (now_ns(t) - start_ns) / 1000;
    }
    return status;
}

/* ---- Weights ------------------------------------------------------------------------------- */

static void prepare_pull(struct trainer *t, struct side *side, uint64_t step)
{
    PS_ASSERT(!side->under_way);
    side->step = step;
    side->ready = false;
    side->under_way = true;
    side->pull = (struct ps_pull){
        .step = step,
        .tensors = side->weights.tensors,
        .n_tensors = side->weights.n_tables,
    };
    (void)t;
}

static enum ps_status wait_pull(struct trainer *t, struct side *side)
{
    uint64_t start_ns = now_ns(t);
    enum ps_status status = ps_blocking_wait(t->blocking, &side->pull.op);
    side->under_way = false;
    side->ready = status == PS_OK;
    count_wait(t, start_ns, side->pull.ret_blocked_ns);
    if (status != PS_OK) {
        *t->err = side->pull.op.err;
        return ps_wrap(t->err, status, "pulling weights for step %" PRIu64, side->step);
    }
    return PS_OK;
}

/* Have weights for the step at hand on the current side. */
static enum ps_status fetch(struct trainer *t)
{
    struct side *side = &t->sides[t->side];
    if (side->ready && side->step == t->clock) {
        return PS_OK;
    }
    prepare_pull(t, side, t->clock);
    ps_blocking_pull_start(t->blocking, &side->pull);
    return wait_pull(t, side);
}

/* ---- Computing ----------------------------------------------------------------------------- */

static struct unit unit_rows(const struct trainer *t)
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

static enum ps_status diverged(struct trainer *t, const char *what)
{
    return ps_fail(t->err, PS_ERR_DIVERGED,
                   "training diverged at step %" PRIu64 " (epoch %" PRIu32
                   "): %s is not finite; use a smaller --lr (it is %g) or a smaller --staleness",
                   t->clock, t->lease.epoch + 1, what, (double)t->plan->schedule.rate);
}

static enum ps_status compute(struct trainer *t, const struct unit *unit)
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

static struct ps_push make_push(const struct trainer *t, const struct unit *unit)
{
    return (struct ps_push){
        .stream = t->lease.id,
        .sequence = t->unit,
        .acked_below = t->unit,
        .step = t->clock,
        .rows = unit->n_rows,
        .rate = unit->rate,
        .read_clock = t->sides[t->side].pull.ret_min_clock,
        .tensors = t->grads.tensors,
        .n_tensors = t->grads.n_tables,
    };
}

static enum ps_status wait_push(struct trainer *t, struct ps_push *push)
{
    uint64_t start_ns = now_ns(t);
    enum ps_status status = ps_blocking_wait(t->blocking, &push->op);
    count_wait(t, start_ns, 0);
    if (status != PS_OK) {
        *t->err = push->op.err;
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

/* ---- Steps --------------------------------------------------------------------------------- */

/* The step at hand is in the servers. */
static void tick(struct trainer *t)
{
    t->clock++;
    t->unit++;
    send_report(t);
}

/* Weights that were pulled before the own push lack it: the same arithmetic as the servers' sgd. */
static void add_own_update(const struct trainer *t, struct ps_weights *weights, float rate)
{
    for (uint64_t i = 0; i < weights->n_values; i++) {
        weights->values[i] = weights->values[i] - rate * t->grads.values[i];
    }
}

/* Pull for the next step while this one computes; it ends before the push begins. */
static enum ps_status step_prefetch(struct trainer *t, const struct unit *unit)
{
    struct side *next = &t->sides[1 - t->side];
    prepare_pull(t, next, t->clock + 1);
    ps_blocking_pull_start(t->blocking, &next->pull);
    enum ps_status status = compute(t, unit);
    enum ps_status pulled = wait_pull(t, next);
    if (status != PS_OK || pulled != PS_OK) {
        return status != PS_OK ? status : pulled;
    }
    struct ps_push push = make_push(t, unit);
    ps_blocking_push_start(t->blocking, &push);
    status = wait_push(t, &push);
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

/* Push and pull in the same calls, where the bound allows it. */
static enum ps_status step_push_pull(struct trainer *t, const struct unit *unit)
{
    enum ps_status status = compute(t, unit);
    if (status != PS_OK) {
        return status;
    }
    struct side *next = &t->sides[1 - t->side];
    struct ps_push push = make_push(t, unit);
    prepare_pull(t, next, t->clock + 1);
    ps_blocking_push_pull_start(t->blocking, &push, &next->pull);
    status = wait_push(t, &push);
    if (status == PS_OK) {
        tick(t); /* First: others may wait for it before this pull can be answered. */
    }
    enum ps_status pulled = wait_pull(t, next);
    t->side = 1 - t->side;
    return status != PS_OK ? status : pulled;
}

/* The next pull has to wait for everybody's push, this one included. */
static enum ps_status step_bsp(struct trainer *t, const struct unit *unit)
{
    enum ps_status status = compute(t, unit);
    if (status != PS_OK) {
        return status;
    }
    struct ps_push push = make_push(t, unit);
    ps_blocking_push_start(t->blocking, &push);
    status = wait_push(t, &push);
    if (status == PS_OK) {
        tick(t);
    }
    return status;
}

/* Stage this unit's gradient, if it has rows. PS_OK with *ret_late: the step was closed before. */
static enum ps_status stage(struct trainer *t, const struct unit *unit, bool *ret_late)
{
    *ret_late = false;
    if (unit->n_rows == 0) {
        return PS_OK;
    }
    enum ps_status status = compute(t, unit);
    if (status != PS_OK) {
        return status;
    }
    struct ps_push push = make_push(t, unit);
    ps_blocking_push_start(t->blocking, &push);
    status = wait_push(t, &push);
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
static enum ps_status step_aggregate(struct trainer *t, const struct unit *unit)
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
        send_report(t);
    }
    uint64_t start_ns = now_ns(t);
    status = look(t);
    while (status == PS_OK && t->view.min_clock <= t->clock && !job_over(t) &&
           !asked_to_stop(t)) {
        status = wait_change(t);
    }
    count_wait(t, start_ns, UINT64_MAX);
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

static enum ps_status step(struct trainer *t)
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
        return step_bsp(t, &unit);
    }
    return t->plan->prefetch ? step_prefetch(t, &unit) : step_push_pull(t, &unit);
}

/* ---- Begin and end ------------------------------------------------------------------------- */

static struct ps_table_def table_def(const struct ps_train_plan *plan, uint32_t i)
{
    const struct ps_model_table *table = &plan->model->tables[i];
    const struct ps_train_options *options = &plan->options;
    struct ps_table_def def = {
        .name = table->name,
        .n_dims = table->n_dims,
        .init_kind = (uint32_t)table->init.kind,
        .init_scale = table->init.scale,
        .seed = table->init.seed,
        .optimizer = plan->optimizer->name,
        .momentum = options->momentum,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .epsilon = options->epsilon,
        .l2 = options->l2,
    };
    for (uint32_t d = 0; d < table->n_dims; d++) {
        def.shape[d] = table->dims[d];
    }
    if (plan->optimizer->weight_decay >= 0.0f) {
        def.weight_decay = options->weight_decay_given ? options->weight_decay
                                                       : plan->optimizer->weight_decay;
    }
    return def;
}

static enum ps_status define_tables(struct trainer *t, uint32_t *tables)
{
    for (uint32_t i = 0; i < t->plan->model->n_tables; i++) {
        struct ps_table_def def = table_def(t->plan, i);
        enum ps_status status = ps_blocking_define_table(t->blocking, &def, &tables[i], t->err);
        if (status != PS_OK) {
            return ps_wrap(t->err, status, "defining table %s", def.name);
        }
    }
    return PS_OK;
}

static enum ps_status define_job(struct trainer *t)
{
    const struct ps_train_plan *plan = t->plan;
    struct ps_job_def def = {
        .model = plan->model_text,
        .data = plan->data_text,
        .rows = plan->train->n_rows,
        .batch = plan->options.batch,
        .epochs = plan->options.epochs,
        .shuffle = plan->options.shuffle,
        .seed = plan->options.seed,
        .workers = plan->options.workers,
        .start_timeout_ms = (uint32_t)plan->options.start_timeout_ms,
        .consistency = plan->consistency,
        .units_per_lease = plan->options.units_per_lease,
    };
    enum ps_status status = ps_blocking_define_job(t->blocking, &def, t->err);
    return status == PS_OK ? PS_OK : ps_wrap(t->err, status, "defining the job");
}

static enum ps_status make_buffers(struct trainer *t, const uint32_t *tables)
{
    struct ps_train_plan *plan = t->plan;
    size_t batch = plan->options.batch < plan->train->n_rows ? plan->options.batch
                                                             : plan->train->n_rows;
    size_t n_x = 0;
    if (ps_mul_size(batch, plan->train->n_features, &n_x)) {
        t->x = ps_mem_array(plan->mem, PS_MEM_DATA, n_x, sizeof(*t->x));
    }
    t->y = ps_mem_array(plan->mem, PS_MEM_DATA, batch, sizeof(*t->y));
    t->row_ids = ps_mem_array(plan->mem, PS_MEM_DATA, batch, sizeof(*t->row_ids));
    t->losses = ps_mem_array(plan->mem, PS_MEM_OTHER, plan->options.epochs, sizeof(*t->losses));
    if (t->x == NULL || t->y == NULL || t->row_ids == NULL || t->losses == NULL) {
        return ps_fail(t->err, PS_ERR_NOMEM, "no memory for a batch of %zu rows", batch);
    }
    struct ps_weights *all[] = {&t->sides[0].weights, &t->sides[1].weights, &t->grads};
    for (size_t i = 0; i < PS_ARRAY_LEN(all); i++) {
        enum ps_status status = ps_weights_init(all[i], plan->mem, plan->model, tables, t->err);
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

static void free_buffers(struct trainer *t)
{
    ps_mem_free(t->x);
    ps_mem_free(t->y);
    ps_mem_free(t->row_ids);
    ps_mem_free(t->losses);
    ps_weights_deinit(&t->sides[0].weights);
    ps_weights_deinit(&t->sides[1].weights);
    ps_weights_deinit(&t->grads);
}

/* All workers of a cluster draw the same seed, and the next cluster another one. */
static enum ps_status seed_from_cluster(struct trainer *t)
{
    if (t->plan->options.seed_given) {
        return PS_OK;
    }
    uint64_t seed = ps_mix64(ps_load_u64(t->view.cluster_id.bytes) ^
                             ps_load_u64(t->view.cluster_id.bytes + 8));
    return ps_train_plan_seed(t->plan, seed, t->err);
}

static enum ps_status begin(struct trainer *t)
{
    enum ps_status status = ps_blocking_join(t->blocking, t->err);
    if (status != PS_OK) {
        return ps_wrap(t->err, status, "joining the cluster");
    }
    status = look(t);
    if (status == PS_OK) {
        status = seed_from_cluster(t);
    }
    uint32_t tables[PS_MODEL_TABLES_MAX];
    if (status == PS_OK) {
        status = define_tables(t, tables);
    }
    if (status == PS_OK) {
        status = define_job(t);
    }
    return status == PS_OK ? make_buffers(t, tables) : status;
}

enum ps_status ps_train_run(struct ps_train_plan *plan, struct ps_blocking *blocking,
                            const _Atomic bool *stop, struct ps_train_result *ret,
                            struct ps_error *err)
{
    struct trainer *t = ps_mem_alloc(plan->mem, PS_MEM_OTHER, sizeof(*t));
    if (t == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to train");
    }
    t->plan = plan;
    t->blocking = blocking;
    t->stop = stop;
    t->err = err;
    enum ps_status status = begin(t);
    while (status == PS_OK) {
        status = next_unit(t);
        if (status != PS_OK || asked_to_stop(t) || job_over(t)) {
            break;
        }
        status = step(t);
    }
    if (status == PS_OK) {
        send_report(t); /* The last word on waiting times. */
        if (t->first_lease_ns == 0) {
            ps_log(PS_LOG_WARN, "worker.idle", "why=\"there were no rows for this worker\"");
        }
    }
    *ret = (struct ps_train_result){
        .done = status == PS_OK && t->view.job == PS_JOB_DONE,
        .session = t->view.session_number,
        .stats = t->report.stats,
    };
    free_buffers(t);
    ps_mem_free(t);
    return status;
}

int ps_train_exit_status(enum ps_status status)
{
    switch (status) {
    case PS_OK: return 0;
    case PS_ERR_INVALID:
    case PS_ERR_NOT_FOUND:
    case PS_ERR_EXISTS:
    case PS_ERR_UNSUPPORTED: return 2;
    case PS_ERR_DIVERGED: return 3;
    case PS_ERR_NOT_PRIMARY:
    case PS_ERR_TIMEOUT:
    case PS_ERR_UNAVAIL:
    case PS_ERR_CANCELED:
    case PS_ERR_FENCED:
    case PS_ERR_NOT_YET:
    case PS_ERR_LATE:
    case PS_ERR_BUSY:
    case PS_ERR_LOST: return 4;
    case PS_ERR_CORRUPT: return 65;
    case PS_ERR_NOMEM:
    case PS_ERR_INTERNAL: return 70;
    case PS_ERR_IO: return 74;
    case PS_ERR_DENIED: return 77;
    }
    return 70;
}
