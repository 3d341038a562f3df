/* lease_resume_core.c — a pool that goes on where another one was, see lease_core.h. */
#include <inttypes.h>

#include "base/assert.h"
#include "coord/lease_core.h"

static enum ps_status take_part_rows(struct ps_lease_pool *pool,
                                     const struct ps_lease_progress *progress, struct ps_error *err)
{
    uint64_t most = (uint64_t)PS_PART_UNITS_MAX * pool->plan.batch;
    if (progress->n_part_rows > (pool->plan.uncounted ? pool->plan.n_parts : 0)) {
        return ps_fail(err, PS_ERR_CORRUPT, "rows of %zu parts are told, there are %" PRIu32,
                       progress->n_part_rows, pool->plan.uncounted ? pool->plan.n_parts : 0);
    }
    for (size_t i = 0; i < progress->n_part_rows; i++) {
        if (progress->part_rows[i] > most + 1) {
            return ps_fail(err, PS_ERR_CORRUPT, "part %zu cannot have so many rows: %" PRIu64, i,
                           progress->part_rows[i]);
        }
        pool->part_rows[i] = progress->part_rows[i] > 0 ? progress->part_rows[i] - 1 : 0;
        pool->rows += pool->part_rows[i];
    }
    return PS_OK;
}

/* Of a part the rows say it: all units but the last have a whole batch. */
static uint32_t units_of(const struct ps_lease_pool *pool, const struct ps_lease_view *lease)
{
    if (!pool->plan.uncounted) {
        return lease->n_units;
    }
    uint64_t rows = pool->part_rows[lease->part];
    return (uint32_t)((rows + pool->plan.batch - 1) / pool->plan.batch);
}

static void note_done(struct ps_lease_pool *pool, const struct ps_lease_view *lease, uint32_t n)
{
    pool->units_done[lease->id - 1] = n;
    pool->epoch_units_done[lease->epoch] += n;
    pool->units_done_total += n;
    pool->lent_below = lease->id >= pool->lent_below ? lease->id + 1 : pool->lent_below;
}

static void note_finished(struct ps_lease_pool *pool, uint64_t id)
{
    struct ps_lease_view lease = ps_lease_at(&pool->plan, id);
    uint32_t part = pool->plan.uncounted ? lease.part : (uint32_t)((id - 1) % pool->plan.n_parts);
    note_done(pool, &lease, units_of(pool, &lease));
    pool->state[id - 1] = PS_LEASE_FINISHED;
    pool->n_trained[part]++;
    pool->epoch_finished[lease.epoch]++;
    pool->n_finished++;
}

static enum ps_status take_finished(struct ps_lease_pool *pool,
                                    const struct ps_lease_progress *progress, struct ps_error *err)
{
    uint64_t below = 1;
    for (size_t i = 0; i < progress->n_finished; i++) {
        struct ps_lease_range range = progress->finished[i];
        if (range.first < below || range.last < range.first || range.last > pool->plan.n_leases) {
            return ps_fail(err, PS_ERR_CORRUPT,
                           "finished leases %" PRIu64 " to %" PRIu64 " are out of order",
                           range.first, range.last);
        }
        for (uint64_t id = range.first; id <= range.last; id++) {
            note_finished(pool, id);
        }
        below = range.last + 1;
    }
    while (pool->finished_from <= pool->plan.n_leases &&
           pool->state[pool->finished_from - 1] == PS_LEASE_FINISHED) {
        pool->finished_from++;
    }
    pool->free_from = pool->finished_from;
    return PS_OK;
}

enum ps_status ps_lease_pool_resume(struct ps_lease_pool *pool,
                                    const struct ps_lease_progress *progress, struct ps_error *err)
{
    PS_ASSERT(pool->n_finished == 0 && pool->units_done_total == 0);
    enum ps_status status = take_part_rows(pool, progress, err);
    if (status == PS_OK) {
        status = take_finished(pool, progress, err);
    }
    for (size_t i = 0; i < progress->n_begun && status == PS_OK; i++) {
        uint64_t id = progress->begun[i].id;
        uint32_t n_units = progress->begun[i].units_done;
        if (id < 1 || id > pool->plan.n_leases || pool->state[id - 1] != PS_LEASE_FREE ||
            pool->units_done[id - 1] != 0 || !ps_lease_may_have(&pool->plan, id, n_units)) {
            return ps_fail(err, PS_ERR_CORRUPT, "lease %" PRIu64 " cannot have %" PRIu32 " units",
                           id, n_units);
        }
        struct ps_lease_view lease = ps_lease_at(&pool->plan, id);
        note_done(pool, &lease, n_units);
    }
    return status;
}

bool ps_lease_pool_take(struct ps_lease_pool *pool, uint64_t id)
{
    if (id < 1 || id > pool->plan.n_leases || pool->state[id - 1] != PS_LEASE_FREE) {
        return false;
    }
    pool->state[id - 1] = PS_LEASE_LENT;
    pool->lent_below = id >= pool->lent_below ? id + 1 : pool->lent_below;
    return true;
}

size_t ps_lease_pool_begun(const struct ps_lease_pool *pool, struct ps_lease_begun *begun,
                           size_t most)
{
    size_t n = 0;
    for (uint64_t id = pool->finished_from; id < pool->lent_below && n < most; id++) {
        if (pool->state[id - 1] != PS_LEASE_FINISHED && pool->units_done[id - 1] > 0) {
            begun[n++] = (struct ps_lease_begun){id, pool->units_done[id - 1]};
        }
    }
    return n;
}
