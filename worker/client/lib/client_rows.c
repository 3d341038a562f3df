/* client_rows.c — which rows a unit has: functions of a job's definition and a lease. Pure. */
#include <ps/types.h>

#include "base/order.h"

uint32_t ps_unit_rows(const struct ps_job_def *job, const struct ps_lease *lease, uint32_t unit,
                      uint64_t *ret_first)
{
    if (job == NULL || lease == NULL || ret_first == NULL || job->batch == 0) {
        return 0;
    }
    if (job->parts != 0) {
        *ret_first = (uint64_t)unit * job->batch;
        return job->batch;
    }
    if (unit >= lease->n_units) {
        return 0;
    }
    uint64_t first = lease->first_row + (uint64_t)unit * lease->stride;
    uint64_t end = first + lease->unit_rows;
    uint64_t batch_end = (first / job->batch + 1) * job->batch;
    end = end < batch_end ? end : batch_end;
    end = end < job->rows ? end : job->rows;
    *ret_first = first;
    return first < end ? (uint32_t)(end - first) : 0; /* At most unit_rows. */
}

uint64_t ps_row_at(const struct ps_job_def *job, uint32_t epoch, uint64_t position)
{
    if (job == NULL || position >= job->rows) {
        return UINT64_MAX;
    }
    if (!job->shuffle) {
        return position;
    }
    if (job->rows > UINT32_MAX) {
        return UINT64_MAX; /* Such a job can't be defined. */
    }
    struct ps_order order;
    ps_order_init(&order, (uint32_t)job->rows, job->seed, epoch, true);
    return ps_order_at(&order, (uint32_t)position);
}
