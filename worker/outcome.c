/* outcome.c — see outcome.h. */
#include "outcome.h"

#include <math.h>
#include <string.h>

#include "base/attr.h"

static void add(Ps__V1__WorkerStats *sum, const Ps__V1__WorkerStats *stats)
{
    sum->units += stats->units;
    sum->rows += stats->rows;
    sum->busy_us += stats->busy_us;
    sum->blocked_bound_us += stats->blocked_bound_us;
    sum->blocked_network_us += stats->blocked_network_us;
    sum->blocked_lease_us += stats->blocked_lease_us;
    sum->staleness_sum += stats->staleness_sum;
    sum->bytes_pushed += stats->bytes_pushed;
    sum->bytes_pulled += stats->bytes_pulled;
    sum->retries += stats->retries;
    if (stats->staleness_max > sum->staleness_max) {
        sum->staleness_max = stats->staleness_max;
    }
}

void ps_outcome_workers(const Ps__V1__DescribeReply *describe, struct ps_outcome_workers *ret)
{
    *ret = (struct ps_outcome_workers){.sum = PS__V1__WORKER_STATS__INIT};
    for (size_t i = 0; i < describe->n_members; i++) {
        const Ps__V1__Member *member = describe->members[i];
        if (member->kind != PS__V1__SESSION_KIND__WORKER) {
            continue;
        }
        ret->n++;
        ret->n_live += strcmp(member->state, "live") == 0 ? 1 : 0;
        if (member->worker != NULL) {
            add(&ret->sum, member->worker);
        }
    }
}

/* The epoch that is being trained, or the last one. */
static const Ps__V1__EpochProgress *epoch_now(const Ps__V1__DescribeReply *describe)
{
    for (size_t i = 0; i < describe->n_epochs; i++) {
        if (describe->epochs[i]->units_done < describe->epochs[i]->units) {
            return describe->epochs[i];
        }
    }
    return describe->n_epochs > 0 ? describe->epochs[describe->n_epochs - 1] : NULL;
}

static double mean_loss(const Ps__V1__EpochProgress *epoch)
{
    return epoch != NULL && epoch->loss_rows > 0 ? epoch->loss_sum / (double)epoch->loss_rows
                                                 : (double)NAN;
}

/* The coordinator shows the last epochs begun; those before them are done. */
static uint32_t epochs_not_shown(const Ps__V1__DescribeReply *describe)
{
    return describe->n_epochs > 0 ? describe->epochs[0]->epoch : 0;
}

static double rows_done(const Ps__V1__DescribeReply *describe)
{
    if (describe->definition == NULL) {
        return 0.0;
    }
    double done = (double)describe->definition->rows * (double)epochs_not_shown(describe);
    for (size_t i = 0; i < describe->n_epochs; i++) {
        const Ps__V1__EpochProgress *epoch = describe->epochs[i];
        if (epoch->units > 0) {
            done += (double)describe->definition->rows * (double)epoch->units_done /
                    (double)epoch->units;
        }
    }
    return done;
}

void ps_outcome_progress(const Ps__V1__DescribeReply *describe, struct ps_progress *progress)
{
    *progress = (struct ps_progress){
        .examples_per_s = (double)NAN, .loss = (double)NAN, .staleness = (double)NAN};
    if (describe->definition == NULL) {
        return;
    }
    const Ps__V1__EpochProgress *epoch = epoch_now(describe);
    progress->epoch = epoch != NULL ? epoch->epoch : 0;
    progress->n_epochs = describe->definition->epochs;
    progress->rows_total = describe->definition->rows * describe->definition->epochs;
    progress->rows_done = (uint64_t)rows_done(describe);
    progress->loss = mean_loss(epoch);
    struct ps_outcome_workers workers;
    ps_outcome_workers(describe, &workers);
    if (workers.sum.units > 0) {
        progress->staleness = (double)workers.sum.staleness_sum / (double)workers.sum.units;
    }
}

static void report_job(const Ps__V1__DescribeReply *describe, struct ps_report *report)
{
    report->epochs = epochs_not_shown(describe);
    for (size_t i = 0; i < describe->n_epochs; i++) {
        const Ps__V1__EpochProgress *epoch = describe->epochs[i];
        report->epochs += epoch->units_done == epoch->units ? 1 : 0;
        if (epoch->loss_rows > 0) {
            report->train_loss = mean_loss(epoch);
        }
    }
    report->steps = describe->steps;
    report->wall_s = (double)describe->running_us / 1e6;
    if (describe->definition != NULL && describe->running_us > 0) {
        report->examples_per_s = rows_done(describe) / report->wall_s;
    }
    report->rows_trained_min = describe->rows_trained_min;
    report->rows_trained_max = describe->rows_trained_max;
    report->sessions_lost = describe->sessions_lost;
}

/* Servers in the order in which they joined. */
static void report_servers(const Ps__V1__DescribeReply *describe, struct ps_outcome_lists *lists,
                           struct ps_report *report)
{
    size_t n = 0;
    report->bytes_copied = 0;
    for (size_t i = 0; i < describe->n_members && n < PS_SERVERS_MAX; i++) {
        const Ps__V1__ServerStats *stats = describe->members[i]->server;
        if (describe->members[i]->kind != PS__V1__SESSION_KIND__SERVER || stats == NULL) {
            continue;
        }
        lists->served[n] = stats->bytes_pulled;
        lists->memory[n] = stats->memory_bytes;
        report->bytes_copied += stats->copied_push_bytes + stats->copied_pull_bytes;
        n++;
    }
    report->bytes_served_per_server = (struct ps_report_list){lists->served, n};
    report->memory_bytes_per_server = (struct ps_report_list){lists->memory, n};
}

void ps_outcome_report(const Ps__V1__DescribeReply *describe, struct ps_outcome_lists *lists,
                       struct ps_report *report)
{
    report_job(describe, report);
    report_servers(describe, lists, report);
    if (describe->placement != NULL) {
        report->servers = describe->placement->n_servers;
    }
    struct ps_outcome_workers workers;
    ps_outcome_workers(describe, &workers);
    const Ps__V1__WorkerStats *sum = &workers.sum;
    /* Of the job, not of its sessions: a worker that came back has had two. */
    report->workers = describe->definition != NULL ? describe->definition->workers : workers.n;
    report->staleness_max = sum->staleness_max;
    if (sum->units > 0) {
        report->staleness_mean = (double)sum->staleness_sum / (double)sum->units;
    }
    if (sum->busy_us > 0) {
        report->blocked_fraction = (double)sum->blocked_bound_us / (double)sum->busy_us;
    }
    report->bytes_pushed = sum->bytes_pushed;
    report->bytes_pulled = sum->bytes_pulled;
    report->retries = sum->retries;
}
