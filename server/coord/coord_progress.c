/* coord_progress.c — how far the job has come, to messages and back, see coord_stored.h. */
#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "coord/coord_impl.h"
#include "coord/coord_stored.h"

static void fill_finished(const struct ps_lease_pool *pool, struct coord_progress_room *room)
{
    uint32_t n = ps_lease_pool_finished(pool, room->ranges);
    for (uint32_t i = 0; i < n; i++) {
        ps__v1__lease_range__init(&room->finished[i]);
        room->finished[i].first = room->ranges[i].first;
        room->finished[i].last = room->ranges[i].last;
        room->finished_list[i] = &room->finished[i];
    }
    room->progress.n_finished = n;
    room->progress.finished = room->finished_list;
}

static void fill_begun(const struct ps_lease_pool *pool, struct coord_progress_room *room)
{
    size_t n = ps_lease_pool_begun(pool, room->begun, PS_LEASE_RANGES_MAX);
    for (size_t i = 0; i < n; i++) {
        ps__v1__lease_progress__init(&room->leases[i]);
        room->leases[i].lease = room->begun[i].id;
        room->leases[i].units_done = room->begun[i].units_done;
        room->lease_list[i] = &room->leases[i];
    }
    room->progress.n_leases = n;
    room->progress.leases = room->lease_list;
}

static void fill_losses(const struct ps_coord *coord, struct coord_progress_room *room)
{
    uint32_t n = coord->core.pool.plan.epochs;
    for (uint32_t i = 0; i < n && n <= COORD_LOSSES_STORED; i++) {
        ps__v1__epoch_loss__init(&room->losses[i]);
        room->losses[i].sum = coord->definition.losses[i].sum;
        room->losses[i].rows = coord->definition.losses[i].rows;
        room->loss_list[i] = &room->losses[i];
    }
    room->progress.n_losses = n <= COORD_LOSSES_STORED ? n : 0;
    room->progress.losses = room->loss_list;
}

static enum ps_status fill_parts(struct ps_coord *coord, struct coord_progress_room *room,
                                 struct ps_error *err)
{
    const struct ps_lease_pool *pool = &coord->core.pool;
    if (!pool->plan.uncounted) {
        return PS_OK;
    }
    size_t n_bytes = (size_t)pool->plan.n_parts * COORD_PART_BYTES;
    room->part_rows = ps_mem_alloc(coord->options.mem, PS_MEM_OTHER, n_bytes);
    if (room->part_rows == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the rows of %" PRIu32 " parts",
                       pool->plan.n_parts);
    }
    for (uint32_t part = 0; part < pool->plan.n_parts; part++) {
        uint64_t rows = pool->n_trained[part] > 0 ? 1 + pool->part_rows[part] : 0;
        for (uint32_t k = 0; k < COORD_PART_BYTES; k++) {
            room->part_rows[part * COORD_PART_BYTES + k] = (uint8_t)(rows >> (8 * k));
        }
    }
    room->progress.part_rows = coord_bytes(room->part_rows, n_bytes);
    return PS_OK;
}

enum ps_status coord_progress_make(struct ps_coord *coord, struct coord_progress_room **ret,
                                   struct ps_error *err)
{
    *ret = NULL;
    if (!coord->core.has_job) {
        return PS_OK;
    }
    struct coord_progress_room *room =
        ps_mem_alloc(coord->options.mem, PS_MEM_OTHER, sizeof(*room));
    if (room == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write the coordinator's state");
    }
    ps__v1__job_progress__init(&room->progress);
    fill_finished(&coord->core.pool, room);
    fill_begun(&coord->core.pool, room);
    fill_losses(coord, room);
    room->progress.min_clock = coord->core.min_clock;
    room->progress.units_asked = coord->definition.units_asked;
    room->progress.started = coord->core.started;
    enum ps_status status = fill_parts(coord, room, err);
    if (status != PS_OK) {
        coord_progress_free(room);
        return status;
    }
    *ret = room;
    return PS_OK;
}

void coord_progress_free(struct coord_progress_room *room)
{
    if (room != NULL) {
        ps_mem_free(room->part_rows);
        ps_mem_free(room);
    }
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* The lists of a JobProgress as the pool takes them. */
struct lists {
    struct ps_lease_range *finished;
    struct ps_lease_begun *begun;
    uint64_t *part_rows;
};

static void free_lists(struct lists *lists)
{
    ps_mem_free(lists->finished);
    ps_mem_free(lists->begun);
    ps_mem_free(lists->part_rows);
}

static bool make_lists(struct ps_mem *mem, const Ps__V1__JobProgress *from, struct lists *ret)
{
    size_t n_parts = from->part_rows.len / COORD_PART_BYTES;
    ret->finished = ps_mem_array(mem, PS_MEM_OTHER, from->n_finished + 1, sizeof(*ret->finished));
    ret->begun = ps_mem_array(mem, PS_MEM_OTHER, from->n_leases + 1, sizeof(*ret->begun));
    ret->part_rows = ps_mem_array(mem, PS_MEM_OTHER, n_parts + 1, sizeof(*ret->part_rows));
    if (ret->finished == NULL || ret->begun == NULL || ret->part_rows == NULL) {
        return false;
    }
    for (size_t i = 0; i < from->n_finished; i++) {
        ret->finished[i] =
            (struct ps_lease_range){from->finished[i]->first, from->finished[i]->last};
    }
    for (size_t i = 0; i < from->n_leases; i++) {
        ret->begun[i] =
            (struct ps_lease_begun){from->leases[i]->lease, from->leases[i]->units_done};
    }
    for (size_t part = 0; part < n_parts; part++) {
        ret->part_rows[part] = 0;
        for (uint32_t k = 0; k < COORD_PART_BYTES; k++) {
            uint64_t byte = from->part_rows.data[part * COORD_PART_BYTES + k];
            ret->part_rows[part] |= byte << (8 * k);
        }
    }
    return true;
}

enum ps_status coord_progress_read(struct ps_coord *coord, const Ps__V1__JobProgress *from,
                                   struct ps_lease_pool *pool, struct ps_error *err)
{
    struct lists lists = {0};
    if (!make_lists(coord->options.mem, from, &lists)) {
        free_lists(&lists);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the progress of the job");
    }
    struct ps_lease_progress progress = {
        .finished = lists.finished,
        .n_finished = from->n_finished,
        .begun = lists.begun,
        .n_begun = from->n_leases,
        .part_rows = lists.part_rows,
        .n_part_rows = from->part_rows.len / COORD_PART_BYTES,
    };
    enum ps_status status = ps_lease_pool_resume(pool, &progress, err);
    free_lists(&lists);
    return status;
}

void coord_progress_losses(struct ps_coord *coord, const Ps__V1__JobProgress *from)
{
    const struct ps_lease_plan *plan = &coord->core.pool.plan;
    for (uint32_t i = 0; i < plan->epochs; i++) {
        coord->definition.losses[i] = (struct coord_loss){0};
        if (i < from->n_losses && isfinite(from->losses[i]->sum)) {
            coord->definition.losses[i].sum = from->losses[i]->sum;
            coord->definition.losses[i].rows = from->losses[i]->rows;
        }
    }
}
