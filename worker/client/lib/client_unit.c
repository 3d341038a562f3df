/*
 * client_unit.c — unit after unit of a job: leases, clock and reports, so that no program has to
 * know of them.
 *
 *   lease in view --adopt--> at hand --done--> at hand ... --> lease finished --> wait for another
 *                               |
 *                               +-- aggregate: staged, wait until the step is closed; the lease
 *                                   then says which unit comes next
 */
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "client/lib/client_impl.h"
#include "os/clock.h"

/* ---- All under the lock -------------------------------------------------------------------- */

static void post_report(struct ps_client *client)
{
    if (!client->report_posted && !client->closing) {
        client->report_posted = true;
        ps_exec_post(client->exec, &client->report_mail);
    }
}

/* With what was done before it: so the snapshot has no unit half done. */
static void note_hold(struct ps_client *client)
{
    client->report.held = client->work.handed_out ? 0 : client->view.hold;
}

void ps_client_unit_view(struct ps_client *client)
{
    if (client->work.asks && client->view.hold != client->report.held) {
        note_hold(client);
        if (client->report.held != 0) {
            post_report(client);
        }
    }
}

static void report(struct ps_client *client)
{
    const struct ps_client_work *work = &client->work;
    note_hold(client);
    client->report.clock = work->clock;
    client->report.lease = work->lease.id;
    client->report.units_done = work->index;
    client->report.lease_over = work->over;
    client->report.lease_rows = work->rows;
    client->report.loss_epoch = work->lease.epoch;
    client->report.loss_sum = work->losses[work->lease.epoch].sum;
    client->report.loss_rows = work->losses[work->lease.epoch].rows;
    post_report(client);
}

/* The gradient of this unit is at every server, or it has none. */
static void stage(struct ps_client *client, uint32_t n_rows)
{
    struct ps_client_work *work = &client->work;
    client->report.staged_step = work->clock + 1;
    client->report.staged_unit = work->index;
    client->report.staged_rows = n_rows;
    work->closing = true;
    report(client);
}

/* Which units a closed step held is told by the lease: one that came too late is still there. */
static void close_step(struct ps_client *client)
{
    struct ps_client_work *work = &client->work;
    const struct ps_view *view = &client->view;
    if (!work->closing || view->min_clock <= work->clock) {
        return;
    }
    work->closing = false;
    work->clock = view->min_clock;
    work->index = view->lease.id == work->lease.id ? view->lease.units_done : work->lease.n_units;
    client->report.staged_step = 0;
}

static enum ps_status check_lent(const struct ps_client *client, const struct ps_lease *lease,
                                 struct ps_error *err)
{
    const struct ps_job_def *job = &client->job;
    if (lease->epoch >= job->epochs) {
        return ps_fail(err, PS_ERR_INTERNAL, "lease %" PRIu64 " is of epoch %" PRIu32, lease->id,
                       lease->epoch);
    }
    if (job->parts != 0 && (lease->n_units != 0 || lease->part >= job->parts)) {
        return ps_fail(err, PS_ERR_INTERNAL,
                       "lease %" PRIu64 " is of part %" PRIu32 " of %" PRIu32 " and has %" PRIu32
                       " units",
                       lease->id, lease->part, job->parts, lease->n_units);
    }
    return PS_OK;
}

static enum ps_status adopt(struct ps_client *client, struct ps_error *err)
{
    struct ps_client_work *work = &client->work;
    const struct ps_lease *lease = &client->view.lease;
    enum ps_status status = check_lent(client, lease, err);
    if (status != PS_OK) {
        return status;
    }
    if (work->losses == NULL) {
        work->losses =
            ps_mem_array(&client->mem, PS_MEM_CALLS, client->job.epochs, sizeof(*work->losses));
    }
    if (work->losses == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the losses of %" PRIu32 " epochs",
                       client->job.epochs);
    }
    work->lease = *lease;
    work->index = lease->units_done;
    work->over = false;
    work->rows = (uint64_t)work->index * client->job.batch; /* Over parts: others follow. */
    work->clock = work->clock > lease->clock ? work->clock : lease->clock; /* Others went on. */
    return PS_OK;
}

static bool at_hand(const struct ps_client *client)
{
    const struct ps_client_work *work = &client->work;
    bool left = client->job.parts != 0 ? !work->over : work->index < work->lease.n_units;
    return work->lease.id != 0 && left && !work->closing;
}

/* PS_OK: there is a unit. PS_ERR_NOT_YET: wait for news. */
static enum ps_status find_unit(struct ps_client *client, struct ps_unit *ret, struct ps_error *err)
{
    struct ps_client_work *work = &client->work;
    const struct ps_lease *lease = &client->view.lease;
    close_step(client);
    if (!work->closing && lease->id != 0 && lease->id != work->lease.id) {
        enum ps_status status = adopt(client, err);
        if (status != PS_OK) {
            return status;
        }
    }
    if (lease->id != work->lease.id || !at_hand(client)) { /* What was taken away is not done. */
        return PS_ERR_NOT_YET;
    }
    if (client->view.hold != 0) {
        return PS_ERR_NOT_YET;
    }
    *ret = (struct ps_unit){.lease = work->lease.id,
                            .index = work->index,
                            .step = work->clock,
                            .epoch = work->lease.epoch,
                            .part = work->lease.part,
                            .last = work->index + 1 == work->lease.n_units};
    ret->n_rows = ps_unit_rows(&client->job, &work->lease, work->index, &ret->first);
    if (ret->n_rows > 0) {
        work->handed_out = true;
        client->report.held = 0;
        return PS_OK;
    }
    if (!client->job.consistency.aggregate) {
        return ps_fail(err, PS_ERR_INTERNAL, "lease %" PRIu64 " has a unit without rows",
                       ret->lease);
    }
    stage(client, 0); /* Nothing to be done for it, and nobody to be asked. */
    return PS_ERR_NOT_YET;
}

static enum ps_status look(struct ps_client *client, struct ps_unit *ret, struct ps_error *err)
{
    const struct ps_view *view = &client->view;
    if (client->closing) {
        return ps_fail(err, PS_ERR_CANCELED, "the client is being closed");
    }
    if (client->canceled) {
        return ps_fail(err, PS_ERR_CANCELED, "the client was asked to end");
    }
    if (view->lost.status != PS_OK) {
        return ps_fail(err, view->lost.status, "%s", view->lost.text);
    }
    if (view->fenced) {
        return ps_fail(err, PS_ERR_FENCED, "session %" PRIu64 " is over: %s", view->session_number,
                       client->fenced.text);
    }
    if (view->job == PS_JOB_DONE || view->job == PS_JOB_STOPPED) {
        post_report(client); /* The last word on waiting times. */
        return PS_OK;
    }
    return find_unit(client, ret, err);
}

static enum ps_status check_worker(const struct ps_client *client, struct ps_error *err)
{
    if (client->reader || client->unleased) {
        return ps_fail(err, PS_ERR_DENIED, "%s is not lent any rows",
                       client->reader ? "a reader" : "an unleased worker");
    }
    if (client->job.batch == 0) {
        return ps_fail(err, PS_ERR_INVALID, "no job was defined with this client");
    }
    return PS_OK;
}

static void await(struct ps_client *client, uint64_t until_ns)
{
    uint64_t start_ns = ps_clock_ns();
    bool closing = client->work.closing;
    ps_client_await(client, &client->news, until_ns);
    if (closing) { /* A step waits for its slowest: that is the bound. */
        ps_client_stats_wait(client, start_ns, UINT64_MAX);
    }
}

static enum ps_status wait_unit(struct ps_client *client, struct ps_unit *ret, uint32_t timeout_ms,
                                struct ps_error *err)
{
    uint64_t until_ns =
        timeout_ms == PS_FOREVER_MS ? UINT64_MAX : ps_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    enum ps_status status = look(client, ret, err);
    while (status == PS_ERR_NOT_YET && ps_clock_ns() < until_ns) {
        await(client, until_ns);
        status = look(client, ret, err);
    }
    if (status == PS_ERR_NOT_YET) {
        status =
            ps_fail(err, PS_ERR_TIMEOUT, "there was no unit to do for %" PRIu32 " ms", timeout_ms);
    }
    if (status != PS_OK) {
        *ret = (struct ps_unit){0};
    }
    return status;
}

enum ps_status ps_client_unit_check(const struct ps_client *client, const struct ps_unit *unit,
                                    struct ps_error *err)
{
    uint32_t batch = client->job.batch;
    if (client->job.parts == 0) {
        return PS_OK;
    }
    if (unit->n_rows > batch) {
        return ps_fail(err, PS_ERR_INVALID,
                       "unit %" PRIu32 " of lease %" PRIu64 " has %" PRIu32
                       " rows; a batch has %" PRIu32,
                       unit->index, unit->lease, unit->n_rows, batch);
    }
    if (unit->n_rows < batch && !unit->last) {
        return ps_fail(err, PS_ERR_INVALID,
                       "unit %" PRIu32 " of lease %" PRIu64 " has %" PRIu32
                       " rows of a batch of %" PRIu32
                       ": only the last may, and it must say that it is",
                       unit->index, unit->lease, unit->n_rows, batch);
    }
    return PS_OK;
}

void ps_client_unit_late(struct ps_client *client, const struct ps_push_op *push)
{
    struct ps_client_work *work = &client->work;
    if (work->lease.id == push->stream && work->clock == push->step) {
        work->closing = true; /* It is closed already, we only have not heard of it. */
    }
}

/* ---- The functions ------------------------------------------------------------------------- */

enum ps_status ps_client_next_unit(struct ps_client *client, struct ps_unit *ret,
                                   uint32_t timeout_ms, struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, ret);
    if (status != PS_OK) {
        return status;
    }
    *ret = (struct ps_unit){0};
    ps_client_lock(client);
    ps_client_enter(client);
    status = check_worker(client, err);
    if (status == PS_OK) {
        client->work.asks = true;
        client->work.handed_out = false;
        ps_client_unit_view(client);
        status = wait_unit(client, ret, timeout_ms, err);
    }
    ps_client_leave(client);
    ps_client_unlock(client);
    return status;
}

static enum ps_status take_done(struct ps_client *client, const struct ps_unit *unit,
                                double loss_sum, struct ps_error *err)
{
    struct ps_client_work *work = &client->work;
    if (!at_hand(client) || unit->lease != work->lease.id || unit->index != work->index ||
        unit->step != work->clock) {
        return ps_fail(err, PS_ERR_INVALID,
                       "unit %" PRIu32 " of lease %" PRIu64 " is not the one at hand", unit->index,
                       unit->lease);
    }
    enum ps_status status = ps_client_unit_check(client, unit, err);
    if (status != PS_OK) {
        return status;
    }
    work->handed_out = false;
    if (isfinite(loss_sum)) { /* For people; one that is not would spoil the sum for ever. */
        work->losses[work->lease.epoch].sum += loss_sum;
        work->losses[work->lease.epoch].rows += unit->n_rows;
    }
    if (client->job.consistency.aggregate) {
        stage(client, unit->n_rows);
        return PS_OK;
    }
    work->over = client->job.parts != 0 && unit->last;
    work->rows += unit->n_rows;
    if (unit->n_rows > 0) { /* Else the part has ended, and there was no step. */
        work->clock++;
        work->index++;
    }
    report(client);
    return PS_OK;
}

enum ps_status ps_client_unit_done(struct ps_client *client, const struct ps_unit *unit,
                                   double loss_sum, struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, unit);
    if (status != PS_OK) {
        return status;
    }
    ps_client_lock(client);
    status = take_done(client, unit, loss_sum, err);
    ps_client_unlock(client);
    return status;
}

void ps_client_report(struct ps_client *client, const struct ps_worker_report *progress)
{
    if (client == NULL || progress == NULL) {
        return;
    }
    ps_client_lock(client);
    client->report = *progress;
    post_report(client);
    ps_client_unlock(client);
}
