/* psctl_print.c — see psctl_print.h. */
#include "psctl_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/attr.h"
#include "base/id.h"
#include "base/limits.h"
#include "client/cluster.h"
#include "outcome.h"
#include "psctl_snapshot.h"
#include "psctl_words.h"

#define TEXT_BYTES 64

/* ---- Words --------------------------------------------------------------------------------- */

static const char *kind_word(Ps__V1__SessionKind kind)
{
    static const char *const words[] = {"none", "worker", "reader", "server"};
    return (size_t)kind < PS_ARRAY_LEN(words) ? words[kind] : "unknown";
}

static void consistency_text(const Ps__V1__Consistency *consistency, char text[TEXT_BYTES])
{
    if (consistency == NULL) {
        (void)snprintf(text, TEXT_BYTES, "none");
    } else if (consistency->mode == PS__V1__CONSISTENCY_MODE__SSP) {
        (void)snprintf(text, TEXT_BYTES, "ssp:%" PRIu32, consistency->bound);
    } else if (consistency->mode == PS__V1__CONSISTENCY_MODE__ASP) {
        (void)snprintf(text, TEXT_BYTES, "asp");
    } else if (consistency->aggregate) {
        (void)snprintf(text, TEXT_BYTES, "bsp, aggregated, %" PRIu32 " backup workers",
                       consistency->backups);
    } else {
        (void)snprintf(text, TEXT_BYTES, "bsp");
    }
}

static void id_text(const ProtobufCBinaryData *bytes, char text[PS_ID_TEXT_BYTES])
{
    struct ps_id id;
    text[0] = '\0';
    if (ps_id_from(bytes->data, bytes->len, &id)) {
        ps_id_text(&id, text);
    }
}

static void shape_text(const Ps__V1__TableDefinition *definition, char text[TEXT_BYTES])
{
    text[0] = '\0';
    if (definition->kind == PS__V1__TABLE_KIND__SPARSE) {
        (void)snprintf(text, TEXT_BYTES, "rows of %" PRIu32, definition->width);
    }
    for (size_t i = 0; i < definition->n_shape; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, TEXT_BYTES - used, "%s%" PRIu64, i == 0 ? "" : "x",
                       definition->shape[i]);
    }
}

/* What servers count of a sparse table; zeros before they have said anything. */
static const Ps__V1__RowStats *rows_of(const Ps__V1__DescribeReply *describe, uint32_t table)
{
    static const Ps__V1__RowStats none = PS__V1__ROW_STATS__INIT;
    for (size_t i = 0; i < describe->n_row_stats; i++) {
        if (describe->row_stats[i]->table == table) {
            return describe->row_stats[i];
        }
    }
    return &none;
}

static double elements(const Ps__V1__TableDefinition *definition)
{
    double n = 1.0;
    for (size_t i = 0; i < definition->n_shape; i++) {
        n *= (double)definition->shape[i];
    }
    return n;
}

/* ---- For people ---------------------------------------------------------------------------- */

static double percent_done(const struct ps_progress *progress)
{
    return progress->rows_total > 0
               ? 100.0 * (double)progress->rows_done / (double)progress->rows_total
               : 0.0; /* Over parts nobody knows before the first is finished. */
}

static void print_job(const Ps__V1__DescribeReply *describe)
{
    char text[TEXT_BYTES];
    struct psctl_shown shown;
    (void)printf("job          %s%s%s\n", ps_job_state_text((enum ps_job_state)describe->job),
                 describe->reason[0] != '\0' ? ": " : "", psctl_show(describe->reason, &shown));
    consistency_text(describe->consistency, text);
    (void)printf("consistency  %s\n", text);
    (void)printf("min clock    %" PRIu64 "\n", describe->min_clock);
    const Ps__V1__JobDefinition *definition = describe->definition;
    if (definition == NULL) {
        return;
    }
    (void)printf("model        %s\n", psctl_show(definition->model, &shown));
    (void)printf("data         %s\n", psctl_show(definition->data, &shown));
    (void)printf("steps        %" PRIu64 " in %.1f s, batch %" PRIu32 "\n", describe->steps,
                 (double)describe->running_us / 1e6, definition->batch);
    struct ps_cluster *cluster = NULL;
    struct ps_progress progress = {0};
    if (ps_cluster_read(describe, NULL, &cluster, NULL) == PS_OK) {
        ps_outcome_progress(cluster, &progress);
    }
    ps_cluster_free(cluster);
    if (progress.n_epochs > 0) {
        (void)printf("progress     epoch %" PRIu64 " of %" PRIu64 ", %.1f %% of all %s",
                     progress.epoch + 1, progress.n_epochs, percent_done(&progress),
                     definition->parts > 0 ? "parts" : "rows");
        if (!isnan(progress.loss)) {
            (void)printf(", loss %.4f", progress.loss);
        }
        (void)printf("\n");
    }
    if (describe->sessions_lost > 0) {
        (void)printf("lost         %" PRIu64 " sessions\n", describe->sessions_lost);
    }
}

static void print_servers(const Ps__V1__DescribeReply *describe)
{
    (void)printf("\n%-16s %-24s %-8s %8s %8s %10s %10s %8s\n", "SERVER", "ADDRESS", "STATE",
                 "PUSHES", "PULLS", "IN MB", "OUT MB", "HOLDS MB");
    for (size_t i = 0; i < describe->n_members; i++) {
        const Ps__V1__Member *member = describe->members[i];
        if (member->kind != PS__V1__SESSION_KIND__SERVER) {
            continue;
        }
        struct psctl_shown name;
        struct psctl_shown address;
        struct psctl_shown state;
        static const Ps__V1__ServerStats none = PS__V1__SERVER_STATS__INIT;
        const Ps__V1__ServerStats *stats = member->server != NULL ? member->server : &none;
        (void)printf("%-16s %-24s %-8s %8" PRIu64 " %8" PRIu64 " %10.1f %10.1f %8.1f\n",
                     psctl_show(member->name, &name), psctl_show(member->address, &address),
                     psctl_show(member->state, &state), stats->pushes, stats->pulls,
                     (double)stats->bytes_pushed / 1e6, (double)stats->bytes_pulled / 1e6,
                     (double)stats->memory_bytes / 1e6);
    }
}

/* How far a worker is ahead of the slowest. */
static void lag_text(const Ps__V1__DescribeReply *describe, const Ps__V1__Member *member,
                     char text[TEXT_BYTES])
{
    if (member->lease == 0) {
        (void)snprintf(text, TEXT_BYTES, "-");
    } else {
        uint64_t min = describe->min_clock;
        (void)snprintf(text, TEXT_BYTES, "+%" PRIu64,
                       member->clock > min ? member->clock - min : 0);
    }
}

static void print_workers(const Ps__V1__DescribeReply *describe)
{
    (void)printf("\n%-16s %-8s %8s %8s %6s %8s %10s %8s %8s\n", "WORKER", "STATE", "SESSION",
                 "CLOCK", "AHEAD", "LEASE", "ROWS", "STALE", "BLOCKED");
    for (size_t i = 0; i < describe->n_members; i++) {
        const Ps__V1__Member *member = describe->members[i];
        if (member->kind == PS__V1__SESSION_KIND__SERVER) {
            continue;
        }
        struct psctl_shown name;
        struct psctl_shown state;
        static const Ps__V1__WorkerStats none = PS__V1__WORKER_STATS__INIT;
        const Ps__V1__WorkerStats *stats = member->worker != NULL ? member->worker : &none;
        char lag[TEXT_BYTES];
        lag_text(describe, member, lag);
        double busy = stats->busy_us > 0 ? (double)stats->busy_us : 1.0;
        (void)printf("%-16s %-8s %8" PRIu64 " %8" PRIu64 " %6s %8" PRIu64 " %10" PRIu64 " %8" PRIu64
                     " %6.1f %%\n",
                     psctl_show(member->name, &name), psctl_show(member->state, &state),
                     member->session_number, member->clock, lag, member->lease, stats->rows,
                     stats->staleness_max, 100.0 * (double)stats->blocked_bound_us / busy);
    }
}

bool psctl_status(const Ps__V1__DescribeReply *describe)
{
    char id[PS_ID_TEXT_BYTES];
    id_text(&describe->cluster_id, id);
    (void)printf("cluster      %s, term %" PRIu64 ", generation %" PRIu64 "\n", id, describe->term,
                 describe->generation);
    print_job(describe);
    psctl_print_lasting(describe);
    print_servers(describe);
    print_workers(describe);
    return true;
}

/* What came of the keys of sparse tables. */
static void print_rows(const Ps__V1__DescribeReply *describe)
{
    if (describe->n_row_stats > 0) {
        (void)printf("\n%-4s %12s %10s %12s %14s %12s %12s %8s\n", "NO", "ROWS", "MB", "CREATED",
                     "UPDATED", "DROPPED", "EXPIRED", "REFUSED");
    }
    for (size_t i = 0; i < describe->n_row_stats; i++) {
        const Ps__V1__RowStats *rows = describe->row_stats[i];
        (void)printf("%-4" PRIu32 " %12" PRIu64 " %10.2f %12" PRIu64 " %14" PRIu64 " %12" PRIu64
                     " %12" PRIu64 " %8" PRIu64 "\n",
                     rows->table, rows->rows, (double)rows->bytes / 1e6, rows->created,
                     rows->updated, rows->dropped, rows->expired, rows->refused);
    }
}

bool psctl_tables(const Ps__V1__DescribeReply *describe)
{
    (void)printf("%-4s %-24s %-16s %12s %10s %-10s %s\n", "NO", "TABLE", "SHAPE", "NUMBERS", "MB",
                 "OPTIMIZER", "FIRST SLOT");
    size_t n = describe->catalogue != NULL ? describe->catalogue->n_tables : 0;
    for (size_t i = 0; i < n; i++) {
        const Ps__V1__Table *table = describe->catalogue->tables[i];
        const Ps__V1__TableDefinition *definition = table->definition;
        if (definition == NULL) {
            continue;
        }
        char shape[TEXT_BYTES];
        struct psctl_shown name;
        struct psctl_shown optimizer;
        shape_text(definition, shape);
        bool sparse = definition->kind == PS__V1__TABLE_KIND__SPARSE;
        const Ps__V1__RowStats *rows = rows_of(describe, table->number);
        double numbers = sparse ? (double)rows->rows * definition->width : elements(definition);
        double n_bytes = sparse ? (double)rows->bytes : numbers * sizeof(float);
        (void)printf("%-4" PRIu32 " %-24s %-16s %12.0f %10.2f %-10s %" PRIu32 "\n", table->number,
                     psctl_show(definition->name, &name), shape, numbers, n_bytes / 1e6,
                     psctl_show(definition->optimizer != NULL ? definition->optimizer->name : "",
                                &optimizer),
                     table->first_slot);
    }
    print_rows(describe);
    return true;
}

/* ---- For programs -------------------------------------------------------------------------- */

static void add_worker(cJSON *json, const Ps__V1__WorkerStats *stats)
{
    psctl_add_count(json, "units", stats->units);
    psctl_add_count(json, "rows", stats->rows);
    psctl_add_count(json, "busy_us", stats->busy_us);
    psctl_add_count(json, "blocked_bound_us", stats->blocked_bound_us);
    psctl_add_count(json, "blocked_network_us", stats->blocked_network_us);
    psctl_add_count(json, "blocked_lease_us", stats->blocked_lease_us);
    psctl_add_count(json, "staleness_sum", stats->staleness_sum);
    psctl_add_count(json, "staleness_max", stats->staleness_max);
    psctl_add_count(json, "bytes_pushed", stats->bytes_pushed);
    psctl_add_count(json, "bytes_pulled", stats->bytes_pulled);
    psctl_add_count(json, "retries", stats->retries);
}

static void add_server(cJSON *json, const Ps__V1__ServerStats *stats)
{
    psctl_add_count(json, "pushes", stats->pushes);
    psctl_add_count(json, "pulls", stats->pulls);
    psctl_add_count(json, "bytes_pushed", stats->bytes_pushed);
    psctl_add_count(json, "bytes_pulled", stats->bytes_pulled);
    psctl_add_count(json, "repeats", stats->repeats);
    psctl_add_count(json, "parked_now", stats->parked_now);
    psctl_add_count(json, "parked", stats->parked);
    psctl_add_count(json, "memory_bytes", stats->memory_bytes);
    psctl_add_count(json, "copied_push_bytes", stats->copied_push_bytes);
    psctl_add_count(json, "copied_pull_bytes", stats->copied_pull_bytes);
    psctl_add_count(json, "staged_bytes", stats->staged_bytes);
    psctl_add_count(json, "calls_bytes", stats->calls_bytes);
    psctl_add_count(json, "sessions_bytes", stats->sessions_bytes);
    psctl_add_count(json, "other_bytes", stats->other_bytes);
    psctl_add_count(json, "open_calls", stats->open_calls);
    psctl_add_count(json, "open_bytes", stats->open_bytes);
    psctl_add_count(json, "lent_bytes", stats->lent_bytes);
    psctl_add_count(json, "busy", stats->busy);
    psctl_add_count(json, "not_finite", stats->not_finite);
}

static cJSON *member_json(const Ps__V1__Member *member)
{
    cJSON *json = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(json, "kind", kind_word(member->kind));
    (void)cJSON_AddStringToObject(json, "name", member->name);
    (void)cJSON_AddStringToObject(json, "address", member->address);
    (void)cJSON_AddStringToObject(json, "state", member->state);
    psctl_add_count(json, "session", member->session_number);
    psctl_add_count(json, "silent_ms", member->silent_ms);
    if (member->kind == PS__V1__SESSION_KIND__WORKER) {
        psctl_add_count(json, "clock", member->clock);
        psctl_add_count(json, "lease", member->lease);
    }
    if (member->worker != NULL) {
        add_worker(json, member->worker);
    }
    if (member->kind == PS__V1__SESSION_KIND__SERVER) {
        (void)cJSON_AddStringToObject(json, "durability", psctl_durability(member->durability));
    }
    if (member->server != NULL) {
        add_server(json, member->server);
    }
    return json;
}

bool psctl_status_json(const Ps__V1__DescribeReply *describe)
{
    char text[TEXT_BYTES];
    cJSON *json = cJSON_CreateObject();
    id_text(&describe->cluster_id, text);
    (void)cJSON_AddStringToObject(json, "cluster", text);
    psctl_add_count(json, "term", describe->term);
    psctl_add_count(json, "generation", describe->generation);
    (void)cJSON_AddStringToObject(json, "job", ps_job_state_text((enum ps_job_state)describe->job));
    (void)cJSON_AddStringToObject(json, "reason", describe->reason);
    consistency_text(describe->consistency, text);
    (void)cJSON_AddStringToObject(json, "consistency", text);
    psctl_add_count(json, "min_clock", describe->min_clock);
    psctl_add_count(json, "steps", describe->steps);
    psctl_add_count(json, "running_us", describe->running_us);
    psctl_add_count(json, "sessions_lost", describe->sessions_lost);
    psctl_add_count(json, "rows_trained_min", describe->rows_trained_min);
    psctl_add_count(json, "rows_trained_max", describe->rows_trained_max);
    if (describe->definition != NULL) {
        (void)cJSON_AddStringToObject(json, "model", describe->definition->model);
        psctl_add_count(json, "epochs", describe->definition->epochs);
        psctl_add_count(json, "rows", describe->rows);
        psctl_add_count(json, "parts", describe->definition->parts);
    }
    psctl_lasting_json(describe, json);
    cJSON *members = cJSON_AddArrayToObject(json, "members");
    for (size_t i = 0; i < describe->n_members; i++) {
        (void)cJSON_AddItemToArray(members, member_json(describe->members[i]));
    }
    return psctl_print_json(json);
}

static void add_rows(cJSON *json, const Ps__V1__RowStats *rows)
{
    psctl_add_count(json, "rows", rows->rows);
    psctl_add_count(json, "bytes", rows->bytes);
    psctl_add_count(json, "created", rows->created);
    psctl_add_count(json, "updated", rows->updated);
    psctl_add_count(json, "dropped", rows->dropped);
    psctl_add_count(json, "expired", rows->expired);
    psctl_add_count(json, "refused", rows->refused);
}

bool psctl_tables_json(const Ps__V1__DescribeReply *describe)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *tables = cJSON_AddArrayToObject(json, "tables");
    size_t n = describe->catalogue != NULL ? describe->catalogue->n_tables : 0;
    for (size_t i = 0; i < n; i++) {
        const Ps__V1__Table *table = describe->catalogue->tables[i];
        cJSON *entry = cJSON_CreateObject();
        psctl_add_count(entry, "number", table->number);
        psctl_add_count(entry, "first_slot", table->first_slot);
        if (table->definition != NULL && table->definition->kind == PS__V1__TABLE_KIND__SPARSE) {
            psctl_add_count(entry, "width", table->definition->width);
            add_rows(entry, rows_of(describe, table->number));
        }
        if (table->definition != NULL) {
            (void)cJSON_AddStringToObject(entry, "name", table->definition->name);
            cJSON *shape = cJSON_AddArrayToObject(entry, "shape");
            for (size_t d = 0; d < table->definition->n_shape; d++) {
                (void)cJSON_AddItemToArray(shape,
                                           cJSON_CreateNumber((double)table->definition->shape[d]));
            }
        }
        (void)cJSON_AddItemToArray(tables, entry);
    }
    return psctl_print_json(json);
}
