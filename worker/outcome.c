/* outcome.c — see outcome.h. */
#include "outcome.h"

#include <math.h>
#include <string.h>

#include "base/attr.h"

static void add(struct ps_outcome_workers *to, const struct ps_member *member)
{
    const struct ps_worker_stats *stats = &member->worker;
    struct ps_worker_stats *sum = &to->sum;
    sum->units += stats->units;
    sum->rows += stats->rows;
    sum->busy_us += stats->busy_us;
    sum->blocked_bound_us += stats->blocked_bound_us;
    sum->blocked_network_us += stats->blocked_network_us;
    sum->blocked_lease_us += stats->blocked_lease_us;
    sum->staleness_sum += stats->staleness_sum;
    if (stats->staleness_max > sum->staleness_max) {
        sum->staleness_max = stats->staleness_max;
    }
    to->bytes_pushed += member->bytes_pushed;
    to->bytes_pulled += member->bytes_pulled;
    to->retries += member->retries;
}

void ps_outcome_workers(const struct ps_cluster *cluster, struct ps_outcome_workers *ret)
{
    *ret = (struct ps_outcome_workers){0};
    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct ps_member *member = &cluster->members[i];
        if (strcmp(member->kind, "worker") == 0) {
            ret->n++;
            ret->n_live += strcmp(member->state, "live") == 0 ? 1 : 0;
            add(ret, member);
        }
    }
}

/* Over parts nobody knows how many units there are. */
static bool complete(const struct ps_epoch_progress *epoch)
{
    return epoch->units > 0 ? epoch->units_done == epoch->units
                            : epoch->leases_done == epoch->leases;
}

/* The epoch that is being trained, or the last one. */
static const struct ps_epoch_progress *epoch_now(const struct ps_cluster *cluster)
{
    for (size_t i = 0; i < cluster->n_epochs; i++) {
        if (!complete(&cluster->epochs[i])) {
            return &cluster->epochs[i];
        }
    }
    return cluster->n_epochs > 0 ? &cluster->epochs[cluster->n_epochs - 1] : NULL;
}

static double mean_loss(const struct ps_epoch_progress *epoch)
{
    return epoch != NULL && epoch->loss_rows > 0 ? epoch->loss_sum / (double)epoch->loss_rows
                                                 : (double)NAN;
}

/* The coordinator shows the last epochs begun; those before them are done. */
static uint32_t epochs_not_shown(const struct ps_cluster *cluster)
{
    return cluster->n_epochs > 0 ? cluster->epochs[0].epoch : 0;
}

/* Over parts the rows of an epoch are known when it is complete; before, its units tell about. */
static double epoch_rows(const struct ps_cluster *cluster, const struct ps_epoch_progress *epoch)
{
    if (complete(epoch)) {
        return (double)cluster->rows;
    }
    return epoch->units > 0
               ? (double)cluster->rows * (double)epoch->units_done / (double)epoch->units
               : (double)epoch->units_done * (double)cluster->definition.batch;
}

static double rows_done(const struct ps_cluster *cluster)
{
    if (!cluster->has_definition) {
        return 0.0;
    }
    double done = (double)cluster->rows * (double)epochs_not_shown(cluster);
    for (size_t i = 0; i < cluster->n_epochs; i++) {
        done += epoch_rows(cluster, &cluster->epochs[i]);
    }
    return done;
}

/* Over parts as many rows as there will be if the leases still to come are like those done. */
static double rows_total(const struct ps_cluster *cluster)
{
    double n_epochs = (double)cluster->definition.epochs;
    double n_done = (double)epochs_not_shown(cluster);
    if (cluster->definition.parts == 0) {
        return (double)cluster->rows * n_epochs;
    }
    for (size_t i = 0; i < cluster->n_epochs; i++) {
        const struct ps_epoch_progress *epoch = &cluster->epochs[i];
        n_done += (double)epoch->leases_done / (double)cluster->definition.parts;
    }
    return n_done > 0.0 ? rows_done(cluster) * n_epochs / n_done : 0.0;
}

void ps_outcome_progress(const struct ps_cluster *cluster, struct ps_progress *progress)
{
    *progress = (struct ps_progress){
        .examples_per_s = (double)NAN, .loss = (double)NAN, .staleness = (double)NAN};
    if (!cluster->has_definition) {
        return;
    }
    const struct ps_epoch_progress *epoch = epoch_now(cluster);
    progress->epoch = epoch != NULL ? epoch->epoch : 0;
    progress->n_epochs = cluster->definition.epochs;
    progress->rows_total = (uint64_t)rows_total(cluster);
    progress->rows_done = (uint64_t)rows_done(cluster);
    progress->loss = mean_loss(epoch);
    struct ps_outcome_workers workers;
    ps_outcome_workers(cluster, &workers);
    if (workers.sum.units > 0) {
        progress->staleness = (double)workers.sum.staleness_sum / (double)workers.sum.units;
    }
}

static void report_job(const struct ps_cluster *cluster, struct ps_report *report)
{
    report->epochs = epochs_not_shown(cluster);
    for (size_t i = 0; i < cluster->n_epochs; i++) {
        const struct ps_epoch_progress *epoch = &cluster->epochs[i];
        report->epochs += complete(epoch) ? 1 : 0;
        if (epoch->loss_rows > 0) {
            report->train_loss = mean_loss(epoch);
        }
    }
    report->steps = cluster->steps;
    report->wall_s = (double)cluster->running_us / 1e6;
    if (cluster->has_definition && cluster->running_us > 0) {
        report->examples_per_s = rows_done(cluster) / report->wall_s;
    }
    if (cluster->definition.parts > 0) {
        report->rows_train = cluster->rows;
    }
    report->rows_trained_min = cluster->rows_trained_min;
    report->rows_trained_max = cluster->rows_trained_max;
    report->sessions_lost = cluster->sessions_lost;
}

static bool has_ended(const struct ps_member *member)
{
    return strcmp(member->state, "left") == 0 || strcmp(member->state, "dead") == 0;
}

/* Where the server is that came back as this member, else `n`. Those at work may share a name. */
static size_t server_entry(const struct ps_member *const *latest, size_t n,
                           const struct ps_member *member)
{
    size_t i = 0;
    while (i < n && !(has_ended(latest[i]) && strcmp(latest[i]->name, member->name) == 0)) {
        i++;
    }
    return i;
}

/* Servers in the order in which they joined first. What they hold is what the latest one says. */
static void report_servers(const struct ps_cluster *cluster, struct ps_outcome_lists *lists,
                           struct ps_report *report)
{
    const struct ps_member *latest[PS_SERVERS_MAX];
    size_t n = 0;
    report->bytes_copied = 0;
    for (size_t i = 0; i < cluster->n_members && n < PS_SERVERS_MAX; i++) {
        const struct ps_member *member = &cluster->members[i];
        if (strcmp(member->kind, "server") == 0) {
            size_t entry = server_entry(latest, n, member);
            if (entry == n) {
                lists->served[n++] = 0;
            }
            latest[entry] = member;
            lists->served[entry] += member->bytes_pulled;
            lists->memory[entry] = member->memory_bytes;
            report->bytes_copied += member->bytes_copied;
        }
    }
    report->bytes_served_per_server = (struct ps_report_list){lists->served, n};
    report->memory_bytes_per_server = (struct ps_report_list){lists->memory, n};
}

void ps_outcome_report(const struct ps_cluster *cluster, struct ps_outcome_lists *lists,
                       struct ps_report *report)
{
    report_job(cluster, report);
    report_servers(cluster, lists, report);
    if (cluster->n_servers > 0) {
        report->servers = cluster->n_servers;
    }
    struct ps_outcome_workers workers;
    ps_outcome_workers(cluster, &workers);
    const struct ps_worker_stats *sum = &workers.sum;
    /* Of the job, not of its sessions: a worker that came back has had two. */
    report->workers = cluster->has_definition ? cluster->definition.workers : workers.n;
    report->staleness_max = sum->staleness_max;
    if (sum->units > 0) {
        report->staleness_mean = (double)sum->staleness_sum / (double)sum->units;
    }
    if (sum->busy_us > 0) {
        report->blocked_fraction = (double)sum->blocked_bound_us / (double)sum->busy_us;
    }
    report->bytes_pushed = workers.bytes_pushed;
    report->bytes_pulled = workers.bytes_pulled;
    report->retries = workers.retries;
}
