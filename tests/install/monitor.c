/*
 * monitor.c HOST:PORT [--once] — what a running cluster is doing, every second until its job ends.
 *
 * It joins as a reader: it takes no part, holds nobody up, and changes nothing.
 *
 * Exit status: 0 the job is done or was stopped (with --once: printed), 1 lost, 2 bad usage.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <ps/client.h>

#define EVERY_MS 1000

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The bound on how far workers may run apart, as the programs' flags write it. */
static void consistency_text(const struct ps_consistency *consistency, char *text, size_t n_bytes)
{
    const char *averaged = consistency->aggregate ? ", one averaged update a step" : "";
    switch (consistency->mode) {
    case PS_CONSISTENCY_BSP: snprintf(text, n_bytes, "bsp%s", averaged); return;
    case PS_CONSISTENCY_SSP: snprintf(text, n_bytes, "ssp:%" PRIu32, consistency->bound); return;
    case PS_CONSISTENCY_ASP: snprintf(text, n_bytes, "asp"); return;
    case PS_CONSISTENCY_NONE: break;
    }
    snprintf(text, n_bytes, "not stated");
}

/* Has it a clock that others wait for? Only a live worker with a lease. */
static bool counts(const struct ps_member *member)
{
    return strcmp(member->kind, "worker") == 0 && strcmp(member->state, "live") == 0 &&
           member->lease != 0;
}

static void print_members(const struct ps_cluster *cluster)
{
    uint64_t fastest = 0;
    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct ps_member *member = &cluster->members[i];
        if (counts(member) && member->clock > fastest) {
            fastest = member->clock;
        }
    }
    printf("  %-7s %-16s %-8s %8s %5s %8s %10s  %s\n", "member", "name", "state", "clock", "lag",
           "lease", "pushed", "address");
    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct ps_member *member = &cluster->members[i];
        char clock[24] = "-";
        char lag[24] = "-"; /* Behind the fastest. */
        char lease[24] = "-";
        if (counts(member)) {
            snprintf(clock, sizeof(clock), "%" PRIu64, member->clock);
            snprintf(lag, sizeof(lag), "%" PRIu64, fastest - member->clock);
            snprintf(lease, sizeof(lease), "%" PRIu64, member->lease);
        }
        printf("  %-7s %-16s %-8s %8s %5s %8s %10" PRIu64 "  %s\n", member->kind, member->name,
               member->state, clock, lag, lease, member->bytes_pushed, member->address);
    }
}

static void print_tables(const struct ps_cluster *cluster)
{
    printf("  %-24s %-10s %12s  %s\n", "table", "rule", "elements", "shape");
    for (size_t i = 0; i < cluster->n_tables; i++) {
        const struct ps_table *table = &cluster->tables[i];
        printf("  %-24s %-10s %12" PRIu64 "  ", table->name, table->optimizer, table->n_elements);
        for (uint32_t d = 0; d < table->n_dims; d++) {
            printf("%s%" PRIu64, d > 0 ? "x" : "", table->shape[d]);
        }
        printf("\n");
    }
}

static void print_progress(const struct ps_cluster *cluster)
{
    char consistency[64];
    consistency_text(&cluster->consistency, consistency, sizeof(consistency));
    printf("job %s%s%s  min clock %" PRIu64 "  %s  %.1f s\n", ps_job_state_text(cluster->job),
           cluster->reason[0] != '\0' ? ": " : "", cluster->reason, cluster->min_clock, consistency,
           (double)cluster->running_us / 1e6);
    if (cluster->has_definition) {
        printf("  %s on %s, %" PRIu64 " rows, %" PRIu32 " a step\n", cluster->definition.model,
               cluster->definition.data, cluster->rows, cluster->definition.batch);
    }
    for (size_t i = 0; i < cluster->n_epochs; i++) {
        const struct ps_epoch_progress *epoch = &cluster->epochs[i];
        bool known = epoch->units > 0; /* Of a job over parts only the leases are counted. */
        printf("  epoch %" PRIu32 "  %" PRIu64 " of %" PRIu64 " %s", epoch->epoch + 1,
               known ? epoch->units_done : epoch->leases_done, known ? epoch->units : epoch->leases,
               known ? "units" : "parts");
        if (epoch->loss_rows > 0) {
            printf("  loss %.4f", epoch->loss_sum / (double)epoch->loss_rows);
        }
        printf("\n");
    }
}

static bool over(enum ps_job_state job)
{
    return job == PS_JOB_DONE || job == PS_JOB_STOPPED || job == PS_JOB_CLUSTER_LOST;
}

/* Until the next look is due, or there is news that cannot wait for it. */
static void wait_for_news(struct ps_client *client)
{
    struct ps_view view;
    uint64_t due_ms = now_ms() + EVERY_MS;
    ps_client_view(client, &view);
    for (uint64_t now = now_ms(); now < due_ms && !over(view.job); now = now_ms()) {
        (void)ps_client_wait_change(client, &view, (uint32_t)(due_ms - now));
    }
}

static enum ps_status watch(struct ps_client *client, bool once, bool *ret_lost,
                            struct ps_error *err)
{
    for (;;) {
        struct ps_cluster *cluster = NULL;
        enum ps_status status = ps_client_describe(client, &cluster, err);
        if (status != PS_OK) {
            return status;
        }
        print_progress(cluster);
        print_members(cluster);
        print_tables(cluster);
        fflush(stdout); /* Also into a pipe: this is to be read now. */
        bool last = once || over(cluster->job);
        *ret_lost = cluster->job == PS_JOB_CLUSTER_LOST;
        ps_cluster_free(cluster);
        if (last) {
            return PS_OK;
        }
        wait_for_news(client);
    }
}

int main(int argc, char **argv)
{
    bool once = argc == 3 && strcmp(argv[2], "--once") == 0;
    if (argc < 2 || (argc > 2 && !once)) {
        fprintf(stderr, "usage: monitor HOST:PORT [--once]\n");
        return 2;
    }
    struct ps_client_options options = PS_ZERO;
    options.coordinator = argv[1];
    options.kind = PS_CLIENT_READER;
    options.name = "monitor";
    options.open_timeout_ms = 5000; /* A cluster that is to be looked at is there by now. */
    struct ps_client *client = NULL;
    struct ps_error err;
    bool lost = false;
    enum ps_status status = ps_client_open(&options, &client, &err);
    if (status == PS_OK) {
        status = watch(client, once, &lost, &err);
    }
    ps_client_close(client);
    if (status != PS_OK) {
        fprintf(stderr, "monitor: %s\n", err.text);
        return 1;
    }
    return lost ? 1 : 0;
}
