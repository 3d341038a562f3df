/* lease_core.c — see lease_core.h. */
#include "coord/lease_core.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/order.h"

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    PS_ASSERT(b > 0);
    return a / b + (a % b != 0);
}

static enum ps_status check_parts(const struct ps_lease_job *job, struct ps_error *err)
{
    if (job->rows != 0) {
        return ps_fail(
            err, PS_ERR_INVALID,
            "rows of a job over parts are counted on the way: rows must be 0, got %" PRIu64,
            job->rows);
    }
    if (job->units_per_lease != 0) {
        return ps_fail(
            err, PS_ERR_INVALID,
            "a lease of a job over parts is a part: units_per_lease must be 0, got %" PRIu32,
            job->units_per_lease);
    }
    if (job->aggregate) {
        return ps_fail(err, PS_ERR_INVALID,
                       "aggregate needs batches of counted rows: it does not go with parts");
    }
    return PS_OK;
}

static enum ps_status check_job(const struct ps_lease_job *job, struct ps_error *err)
{
    if (job->parts == 0 && (job->rows == 0 || job->rows > PS_LEASE_ROWS_MAX)) {
        return ps_fail(err, PS_ERR_INVALID, "rows must be 1 to 2^48, got %" PRIu64, job->rows);
    }
    if (job->batch == 0) {
        return ps_fail(err, PS_ERR_INVALID, "batch must be at least 1, got 0");
    }
    if (job->epochs == 0 || job->epochs > PS_LEASES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "epochs must be 1 to %u, got %" PRIu32, PS_LEASES_MAX,
                       job->epochs);
    }
    if (job->workers == 0 || job->workers > PS_SESSIONS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "workers must be 1 to %u, got %" PRIu32,
                       PS_SESSIONS_MAX, job->workers);
    }
    if (job->units_per_lease > PS_UNITS_PER_LEASE_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "units_per_lease must be at most %u, got %" PRIu32,
                       PS_UNITS_PER_LEASE_MAX, job->units_per_lease);
    }
    return job->parts != 0 ? check_parts(job, err) : PS_OK;
}

/* Leases of the whole job; no overflow: steps < 2^49, ways < 2^9; UINT64_MAX if not even epochs. */
static uint64_t count_leases(const struct ps_lease_plan *plan, uint64_t units_per_lease)
{
    uint64_t n_parts = divide_up(plan->n_steps, units_per_lease) * plan->n_ways;
    return n_parts > PS_LEASES_MAX ? UINT64_MAX : n_parts * plan->epochs;
}

/* An even share for several rounds of lending, unless that makes more leases than there may be. */
static uint32_t choose_units(const struct ps_lease_plan *plan, uint32_t workers)
{
    uint64_t share = plan->n_steps * plan->n_ways / ((uint64_t)PS_LEASES_PER_WORKER * workers);
    uint32_t units = share < 1 ? 1 : PS_UNITS_PER_LEASE_AUTO;
    if (share >= 1 && share < PS_UNITS_PER_LEASE_AUTO) {
        units = (uint32_t)share;
    }
    while (units < PS_UNITS_PER_LEASE_MAX && count_leases(plan, units) > PS_LEASES_MAX) {
        units = units * 2 < PS_UNITS_PER_LEASE_MAX ? units * 2 : PS_UNITS_PER_LEASE_MAX;
    }
    return units;
}

static enum ps_status plan_parts(const struct ps_lease_job *job, struct ps_lease_plan *ret,
                                 struct ps_error *err)
{
    uint64_t n_leases = (uint64_t)job->parts * job->epochs;
    if (n_leases > PS_LEASES_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%" PRIu32 " parts and %" PRIu32 " epochs make more than %u leases; lower "
                       "either",
                       job->parts, job->epochs, PS_LEASES_MAX);
    }
    *ret = (struct ps_lease_plan){
        .batch = job->batch,
        .epochs = job->epochs,
        .n_ways = 1,
        .unit_rows = job->batch,
        .n_parts = job->parts,
        .n_leases = (uint32_t)n_leases,
        .uncounted = true,
        .shuffle = job->shuffle,
        .seed = job->seed,
    };
    return PS_OK;
}

enum ps_status ps_lease_plan_make(const struct ps_lease_job *job, struct ps_lease_plan *ret,
                                  struct ps_error *err)
{
    enum ps_status status = check_job(job, err);
    if (status != PS_OK) {
        return status;
    }
    if (job->parts != 0) {
        return plan_parts(job, ret, err);
    }
    struct ps_lease_plan plan = {
        .rows = job->rows,
        .n_steps = divide_up(job->rows, job->batch),
        .batch = job->batch,
        .epochs = job->epochs,
        .n_ways = job->aggregate ? job->workers : 1,
    };
    plan.unit_rows = (uint32_t)divide_up(job->batch, plan.n_ways);
    plan.units_per_lease =
        job->units_per_lease != 0 ? job->units_per_lease : choose_units(&plan, job->workers);
    uint64_t n_leases = count_leases(&plan, plan.units_per_lease);
    if (n_leases > PS_LEASES_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "the data fall into more than %u leases; raise batch or units_per_lease, or "
                       "lower epochs",
                       PS_LEASES_MAX);
    }
    PS_ASSERT(plan.epochs > 0); /* check_job has seen to it. */
    plan.n_leases = (uint32_t)n_leases;
    plan.n_parts = plan.n_leases / plan.epochs;
    *ret = plan;
    return PS_OK;
}

static struct ps_lease_view uncounted_at(const struct ps_lease_plan *plan, uint64_t id)
{
    uint32_t epoch = (uint32_t)((id - 1) / plan->n_parts);
    struct ps_order order;
    ps_order_init(&order, plan->n_parts, plan->seed, epoch, plan->shuffle);
    return (struct ps_lease_view){
        .id = id,
        .stride = plan->batch,
        .epoch = epoch,
        .unit_rows = plan->unit_rows,
        .part = ps_order_at(&order, (uint32_t)((id - 1) % plan->n_parts)),
    };
}

struct ps_lease_view ps_lease_at(const struct ps_lease_plan *plan, uint64_t id)
{
    PS_ASSERT(id >= 1 && id <= plan->n_leases);
    if (plan->uncounted) {
        return uncounted_at(plan, id);
    }
    uint32_t epoch = (uint32_t)((id - 1) / plan->n_parts);
    uint32_t part = (uint32_t)((id - 1) % plan->n_parts);
    uint32_t way = part % plan->n_ways;
    uint64_t first_step = (uint64_t)(part / plan->n_ways) * plan->units_per_lease;
    uint64_t steps_left = plan->n_steps - first_step;
    uint64_t offset = (uint64_t)way * plan->unit_rows;
    /* With fewer rows in a batch than its ways cover, the last ways would reach into the next. */
    bool empty = offset >= plan->batch;
    return (struct ps_lease_view){
        .id = id,
        .first_row = first_step * plan->batch + (empty ? 0 : offset),
        .stride = plan->batch,
        .epoch = epoch,
        .unit_rows = empty ? 0 : plan->unit_rows,
        .n_units =
            steps_left < plan->units_per_lease ? (uint32_t)steps_left : plan->units_per_lease,
    };
}

bool ps_lease_may_have(const struct ps_lease_plan *plan, uint64_t id, uint32_t n_units)
{
    return n_units <= (plan->uncounted ? PS_PART_UNITS_MAX : ps_lease_at(plan, id).n_units);
}

uint32_t ps_lease_rows(const struct ps_lease_plan *plan, uint64_t id, uint32_t unit,
                       uint64_t *ret_first)
{
    struct ps_lease_view lease = ps_lease_at(plan, id);
    PS_ASSERT(unit < lease.n_units);
    uint64_t first = lease.first_row + unit * lease.stride;
    uint64_t batch_end = (first / plan->batch + 1) * plan->batch;
    uint64_t end = first + lease.unit_rows;
    end = end < batch_end ? end : batch_end;
    end = end < plan->rows ? end : plan->rows;
    *ret_first = first;
    return end > first ? (uint32_t)(end - first) : 0;
}

/* The arrays in order of falling alignment, so that none needs a gap. */
size_t ps_lease_pool_bytes(const struct ps_lease_plan *plan)
{
    size_t n_u64 = plan->epochs + (plan->uncounted ? plan->n_parts : 0);
    size_t n_u32 = (size_t)plan->n_leases + plan->n_parts + plan->epochs;
    return n_u64 * sizeof(uint64_t) + n_u32 * sizeof(uint32_t) + plan->n_leases * sizeof(uint8_t);
}

void ps_lease_pool_init(struct ps_lease_pool *pool, const struct ps_lease_plan *plan, void *memory)
{
    PS_ASSERT(plan->n_leases > 0);
    uint64_t *at_u64 = memory;
    uint64_t *part_rows = at_u64 + plan->epochs;
    uint32_t *at_u32 = (uint32_t *)(part_rows + (plan->uncounted ? plan->n_parts : 0));
    uint32_t *epoch_finished = at_u32 + plan->n_leases + plan->n_parts;
    *pool = (struct ps_lease_pool){
        .plan = *plan,
        .epoch_units_done = at_u64,
        .units_done = at_u32,
        .n_trained = at_u32 + plan->n_leases,
        .epoch_finished = epoch_finished,
        .state = (uint8_t *)(epoch_finished + plan->epochs),
        .part_rows = plan->uncounted ? part_rows : NULL,
        .rows = plan->rows,
        .free_from = 1,
        .finished_from = 1,
        .lent_below = 1,
    };
}

static enum ps_lease_state state_of(const struct ps_lease_pool *pool, uint64_t id)
{
    return (enum ps_lease_state)pool->state[id - 1];
}

/*
 * Whether a free lease can be lent now. A part is lent to one session at a time, so that its rows
 * meet the weights that they left behind: not before its lease of the epoch before is finished. Nor
 * before all are of the epoch before that: so there are never many holes in the finished ids.
 */
static bool can_be_lent(const struct ps_lease_pool *pool, uint64_t id)
{
    const struct ps_lease_plan *plan = &pool->plan;
    uint32_t epoch = (uint32_t)((id - 1) / plan->n_parts);
    if (!plan->uncounted || epoch == 0) {
        return true;
    }
    return (epoch == 1 || pool->epoch_finished[epoch - 2] == plan->n_parts) &&
           pool->n_trained[ps_lease_at(plan, id).part] == epoch;
}

/* The first free lease from `id` on, or the id behind the last. */
static uint64_t find_free(const struct ps_lease_pool *pool, uint64_t id)
{
    while (id <= pool->plan.n_leases && state_of(pool, id) != PS_LEASE_FREE) {
        id++;
    }
    return id;
}

uint64_t ps_lease_pool_lend(struct ps_lease_pool *pool)
{
    uint64_t id = find_free(pool, pool->free_from);
    pool->free_from = id;
    uint64_t end = id + 2 * (uint64_t)pool->plan.n_parts; /* Two epochs on none can be lent. */
    while (id <= pool->plan.n_leases && id < end && !can_be_lent(pool, id)) {
        id = find_free(pool, id + 1);
    }
    if (id > pool->plan.n_leases || id >= end) {
        return 0;
    }
    pool->state[id - 1] = PS_LEASE_LENT;
    pool->lent_below = id >= pool->lent_below ? id + 1 : pool->lent_below;
    return id;
}

void ps_lease_pool_return(struct ps_lease_pool *pool, uint64_t id)
{
    PS_ASSERT(id >= 1 && id <= pool->plan.n_leases);
    PS_ASSERT(state_of(pool, id) == PS_LEASE_LENT);
    pool->state[id - 1] = PS_LEASE_FREE;
    pool->free_from = id < pool->free_from ? id : pool->free_from;
}

/* All units but the last have a whole batch, so their number leaves little to be said. */
static void count_part(struct ps_lease_pool *pool, uint32_t part, const struct ps_lease_news *news)
{
    uint64_t most = (uint64_t)news->units_done * pool->plan.batch;
    uint64_t least = news->units_done == 0 ? 0 : most - pool->plan.batch + 1;
    uint64_t rows = news->rows < least ? least : news->rows;
    pool->part_rows[part] = rows < most ? rows : most;
    pool->rows += pool->part_rows[part];
}

static void finish(struct ps_lease_pool *pool, const struct ps_lease_view *lease,
                   const struct ps_lease_news *news)
{
    uint64_t id = lease->id;
    uint32_t part = pool->plan.uncounted ? lease->part : (uint32_t)((id - 1) % pool->plan.n_parts);
    if (pool->plan.uncounted && pool->n_trained[part] == 0) {
        count_part(pool, part, news);
    }
    pool->state[id - 1] = PS_LEASE_FINISHED;
    pool->n_trained[part]++;
    pool->epoch_finished[lease->epoch]++;
    pool->n_finished++;
    while (pool->finished_from <= pool->plan.n_leases &&
           state_of(pool, pool->finished_from) == PS_LEASE_FINISHED) {
        pool->finished_from++;
    }
}

bool ps_lease_pool_advance(struct ps_lease_pool *pool, uint64_t id,
                           const struct ps_lease_news *news)
{
    struct ps_lease_view lease = ps_lease_at(&pool->plan, id);
    uint32_t *done = &pool->units_done[id - 1];
    PS_ASSERT(state_of(pool, id) == PS_LEASE_LENT);
    PS_ASSERT(ps_lease_may_have(&pool->plan, id, news->units_done));
    if (news->units_done < *done) {
        return false;
    }
    uint32_t n_new = news->units_done - *done;
    *done = news->units_done;
    pool->epoch_units_done[lease.epoch] += n_new;
    pool->units_done_total += n_new;
    bool over = pool->plan.uncounted ? news->over : *done == lease.n_units;
    if (over) {
        finish(pool, &lease, news);
    }
    return over;
}

bool ps_lease_pool_done(const struct ps_lease_pool *pool)
{
    return pool->n_finished == pool->plan.n_leases;
}

uint32_t ps_lease_units_done(const struct ps_lease_pool *pool, uint64_t id)
{
    PS_ASSERT(id >= 1 && id <= pool->plan.n_leases);
    return pool->units_done[id - 1];
}

uint32_t ps_lease_pool_finished(const struct ps_lease_pool *pool,
                                struct ps_lease_range ranges[PS_LEASE_RANGES_MAX])
{
    uint32_t n = 0;
    bool inside = false;
    if (pool->finished_from > 1) {
        ranges[n++] = (struct ps_lease_range){1, pool->finished_from - 1};
    }
    for (uint64_t id = pool->finished_from; id < pool->lent_below; id++) {
        bool finished = state_of(pool, id) == PS_LEASE_FINISHED;
        if (finished && !inside) {
            PS_ASSERT(n < PS_LEASE_RANGES_MAX);
            ranges[n++].first = id;
        }
        if (finished) {
            ranges[n - 1].last = id;
        }
        inside = finished;
    }
    return n;
}

/* Whether there are rows in it, as far as is known. */
static bool has_rows(const struct ps_lease_pool *pool, uint32_t part)
{
    if (pool->plan.uncounted) {
        return pool->n_trained[part] == 0 || pool->part_rows[part] > 0;
    }
    uint64_t first = 0;
    /* No later unit of a lease has rows if its first has none. */
    return ps_lease_rows(&pool->plan, 1 + part, 0, &first) > 0;
}

void ps_lease_pool_trained(const struct ps_lease_pool *pool, uint32_t *ret_min, uint32_t *ret_max)
{
    uint32_t min = UINT32_MAX;
    uint32_t max = 0;
    for (uint32_t part = 0; part < pool->plan.n_parts; part++) {
        if (!has_rows(pool, part)) {
            continue;
        }
        uint32_t n = pool->n_trained[part];
        min = n < min ? n : min;
        max = n > max ? n : max;
    }
    *ret_min = min <= max ? min : 0; /* No rows at all. */
    *ret_max = max;
}
