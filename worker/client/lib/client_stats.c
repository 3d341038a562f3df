/*
 * client_stats.c — what a worker did with its time: kept here, so that no program has to.
 *
 * All under the lock. Nothing counts before the first lease: what comes first is no training.
 */
#include "client/lib/client_impl.h"
#include "os/clock.h"

void ps_client_stats_view(struct ps_client *client)
{
    struct ps_client_figures *figures = &client->figures;
    const struct ps_lease *lease = &client->view.lease;
    if (figures->first_lease_ns == 0 && lease->id != 0) {
        figures->first_lease_ns = ps_clock_ns();
    }
    bool idle = figures->first_lease_ns != 0 && client->view.job == PS_JOB_RUNNING &&
                (lease->id == 0 || lease->over);
    if (idle && figures->idle_since_ns == 0) {
        figures->idle_since_ns = ps_clock_ns();
    } else if (!idle && figures->idle_since_ns != 0) {
        figures->idle_ns += ps_clock_ns() - figures->idle_since_ns;
        figures->idle_since_ns = 0;
    }
}

void ps_client_stats_wait(struct ps_client *client, uint64_t start_ns, uint64_t blocked_ns)
{
    struct ps_client_figures *figures = &client->figures;
    if (figures->first_lease_ns == 0) {
        return;
    }
    uint64_t waited_ns = ps_clock_ns() - start_ns;
    uint64_t bound_ns = blocked_ns < waited_ns ? blocked_ns : waited_ns;
    figures->bound_ns += bound_ns;
    figures->network_ns += waited_ns - bound_ns;
}

void ps_client_stats_push(struct ps_client *client, const struct ps_push_op *push)
{
    struct ps_worker_stats *counts = &client->figures.counts;
    if (push->stream == 0) {
        return; /* Not of a job: no clock to compare with. */
    }
    uint64_t staleness = push->step > push->read_clock ? push->step - push->read_clock : 0;
    counts->units++;
    counts->rows += push->rows;
    counts->staleness_sum += staleness;
    counts->staleness_max = staleness > counts->staleness_max ? staleness : counts->staleness_max;
}

void ps_client_stats_get(const struct ps_client *client, struct ps_worker_stats *ret)
{
    const struct ps_client_figures *figures = &client->figures;
    *ret = figures->counts;
    if (figures->first_lease_ns == 0) {
        return;
    }
    uint64_t now_ns = ps_clock_ns();
    uint64_t idle_ns = figures->idle_since_ns != 0 ? now_ns - figures->idle_since_ns : 0;
    ret->busy_us = (now_ns - figures->first_lease_ns) / 1000;
    ret->blocked_bound_us = figures->bound_ns / 1000;
    ret->blocked_network_us = figures->network_ns / 1000;
    ret->blocked_lease_us = (figures->idle_ns + idle_ns) / 1000;
}
