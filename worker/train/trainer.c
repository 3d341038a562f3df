/* trainer.c — see trainer.h. */
#include "train/trainer.h"

#include <inttypes.h>

#include "os/clock.h"

#define CHANGE_WAIT_MS 200u /* How often a wait looks whether the process was asked to stop. */

/* ---- Time ---------------------------------------------------------------------------------- */

void ps_trainer_count_wait(struct ps_trainer *t, uint64_t start_ns, uint64_t blocked_ns)
{
    uint64_t waited = ps_clock_ns() - start_ns;
    uint64_t bound = blocked_ns < waited ? blocked_ns : waited;
    t->report.stats.blocked_bound_us += bound / 1000;
    t->report.stats.blocked_network_us += (waited - bound) / 1000;
}

/* ---- What the cluster says ----------------------------------------------------------------- */

bool ps_trainer_stopping(const struct ps_trainer *t)
{
    return atomic_load_explicit(t->stop, memory_order_relaxed);
}

bool ps_trainer_job_over(const struct ps_trainer *t)
{
    return t->view.job == PS_JOB_DONE || t->view.job == PS_JOB_STOPPED;
}

static enum ps_status judge(struct ps_trainer *t)
{
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

enum ps_status ps_trainer_look(struct ps_trainer *t)
{
    ps_client_view(t->client, &t->view);
    return judge(t);
}

enum ps_status ps_trainer_wait_change(struct ps_trainer *t)
{
    (void)ps_client_wait_change(t->client, &t->view, CHANGE_WAIT_MS); /* Either way: judge. */
    return judge(t);
}

/* ---- Report -------------------------------------------------------------------------------- */

void ps_trainer_report(struct ps_trainer *t)
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
        t->report.stats.busy_us = (ps_clock_ns() - t->first_lease_ns) / 1000;
    }
    ps_client_report(t->client, &t->report);
}
