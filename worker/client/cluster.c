/* cluster.c — see cluster.h. One block: the struct, its arrays, and then all texts. */
#include "client/cluster.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "cluster/layout.h"

#define MEMBERS_MAX   65536u /* A coordinator keeps some thousands; bounds what a bad one costs. */
#define EPOCHS_MAX    65536u
#define SNAPSHOTS_MAX 65536u

struct block {
    struct ps_cluster cluster; /* First: the caller has its address. */
    struct ps_table *tables;
    struct ps_member *members;
    struct ps_epoch_progress *epochs;
    struct ps_snapshot *snapshots;
    struct ps_away *away;
    char *text; /* Where the next one goes. */
    char *text_end;
};

/* ---- Parts --------------------------------------------------------------------------------- */

bool ps_cluster_read_consistency(const Ps__V1__Consistency *from, struct ps_consistency *ret)
{
    if (from == NULL || (int)from->mode < PS_CONSISTENCY_NONE ||
        (int)from->mode > PS_CONSISTENCY_ASP) {
        return false;
    }
    *ret = (struct ps_consistency){.version = from->version,
                                   .mode = (enum ps_consistency_mode)from->mode,
                                   .bound = from->bound,
                                   .aggregate = from->aggregate != 0,
                                   .n_backups = from->backups};
    return true;
}

bool ps_cluster_read_table(const Ps__V1__Table *from, struct ps_table *ret)
{
    const Ps__V1__TableDefinition *definition = from->definition;
    if (definition == NULL || from->number >= PS_TABLES_MAX || definition->n_shape > PS_DIMS_MAX ||
        definition->name[0] == '\0' || strlen(definition->name) > PS_NAME_BYTES_MAX) {
        return false;
    }
    const char *optimizer = definition->optimizer != NULL ? definition->optimizer->name : "";
    *ret = (struct ps_table){.number = from->number, .n_dims = (uint32_t)definition->n_shape};
    memcpy(ret->name, definition->name, strlen(definition->name));
    memcpy(ret->optimizer, optimizer, strnlen(optimizer, PS_NAME_BYTES_MAX));
    for (uint32_t d = 0; d < ret->n_dims; d++) {
        ret->shape[d] = definition->shape[d];
    }
    if (definition->kind == PS__V1__TABLE_KIND__SPARSE) {
        ret->width = definition->width;
        return ret->width >= 1 && ret->width <= PS_ROW_FLOATS_MAX && ret->n_dims == 0;
    }
    return definition->kind == PS__V1__TABLE_KIND__DENSE &&
           ps_layout_elements(ret->shape, ret->n_dims, &ret->n_elements, NULL) == PS_OK;
}

static const char *keep(struct block *block, const char *text)
{
    size_t n_bytes = strlen(text) + 1;
    PS_ASSERT(n_bytes <= (size_t)(block->text_end - block->text)); /* Counted before. */
    char *kept = block->text;
    memcpy(kept, text, n_bytes);
    block->text += n_bytes;
    return kept;
}

const char *ps_job_state_text(enum ps_job_state state)
{
    switch (state) {
    case PS_JOB_NONE: return "none";
    case PS_JOB_WAITING: return "waiting";
    case PS_JOB_RUNNING: return "running";
    case PS_JOB_DONE: return "done";
    case PS_JOB_CLUSTER_LOST: return "cluster lost";
    case PS_JOB_STOPPED: return "stopped";
    case PS_JOB_RESTORING: return "restoring";
    }
    return "unknown";
}

static const char *kind_word(Ps__V1__SessionKind kind)
{
    switch ((int)kind) {
    case PS__V1__SESSION_KIND__WORKER: return "worker";
    case PS__V1__SESSION_KIND__READER: return "reader";
    case PS__V1__SESSION_KIND__SERVER: return "server";
    default: return "unknown";
    }
}

static const char *durability_word(Ps__V1__Durability durability)
{
    switch ((int)durability) {
    case PS__V1__DURABILITY__MEMORY: return "memory";
    case PS__V1__DURABILITY__LOG: return "log";
    case PS__V1__DURABILITY__FSYNC: return "fsync";
    default: return "";
    }
}

static void read_worker(const Ps__V1__WorkerStats *from, struct ps_member *to)
{
    to->worker = (struct ps_worker_stats){.units = from->units,
                                          .rows = from->rows,
                                          .busy_us = from->busy_us,
                                          .blocked_bound_us = from->blocked_bound_us,
                                          .blocked_network_us = from->blocked_network_us,
                                          .blocked_lease_us = from->blocked_lease_us,
                                          .staleness_sum = from->staleness_sum,
                                          .staleness_max = from->staleness_max};
    to->retries = from->retries;
    to->bytes_pushed = from->bytes_pushed;
    to->bytes_pulled = from->bytes_pulled;
}

static void read_server(const Ps__V1__ServerStats *from, struct ps_member *to)
{
    to->bytes_pushed = from->bytes_pushed;
    to->bytes_pulled = from->bytes_pulled;
    to->pushes = from->pushes;
    to->pulls = from->pulls;
    to->parked_now = from->parked_now;
    to->bytes_copied = from->copied_push_bytes + from->copied_pull_bytes;
    to->memory_bytes = from->memory_bytes;
}

static void read_member(struct block *block, const Ps__V1__Member *from, struct ps_member *to)
{
    to->session_number = from->session_number;
    to->kind = kind_word(from->kind);
    to->name = keep(block, from->name);
    to->address = keep(block, from->address);
    to->state = keep(block, from->state);
    to->clock = from->clock;
    to->lease = from->lease;
    to->silent_ms = from->silent_ms;
    to->durability = durability_word(from->durability);
    if (from->worker != NULL) {
        read_worker(from->worker, to);
    }
    if (from->server != NULL) {
        read_server(from->server, to);
    }
}

static void read_definition(struct block *block, const Ps__V1__JobDefinition *from,
                            struct ps_job_def *to)
{
    *to = (struct ps_job_def){.model = keep(block, from->model),
                              .data = keep(block, from->data),
                              .setup = keep(block, from->setup),
                              .parts = from->parts,
                              .rows = from->rows,
                              .batch = from->batch,
                              .epochs = from->epochs,
                              .shuffle = from->shuffle != 0,
                              .seed = from->seed,
                              .workers = from->workers,
                              .start_timeout_ms = from->start_timeout_ms,
                              .units_per_lease = from->units_per_lease};
    (void)ps_cluster_read_consistency(from->consistency, &to->consistency);
}

/* ---- The whole ----------------------------------------------------------------------------- */

static size_t n_tables_of(const Ps__V1__DescribeReply *reply)
{
    return reply->catalogue != NULL ? reply->catalogue->n_tables : 0;
}

static size_t n_text_bytes(const Ps__V1__DescribeReply *reply)
{
    size_t n_bytes = strlen(reply->reason) + strlen(reply->cut_failed) + 2;
    if (reply->definition != NULL) {
        const Ps__V1__JobDefinition *job = reply->definition;
        n_bytes += strlen(job->model) + strlen(job->data) + strlen(job->setup) + 3;
    }
    for (size_t i = 0; i < reply->n_members; i++) {
        const Ps__V1__Member *member = reply->members[i];
        n_bytes += strlen(member->name) + strlen(member->address) + strlen(member->state) + 3;
    }
    for (size_t i = 0; i < reply->n_cuts; i++) {
        const Ps__V1__Cut *cut = reply->cuts[i];
        n_bytes += strlen(cut->name) + strlen(cut->dir) + strlen(cut->taken) + 3;
    }
    for (size_t i = 0; i < reply->n_away; i++) {
        n_bytes += strlen(reply->away[i]->address) + strlen(reply->away[i]->why) + 2;
    }
    return n_bytes;
}

/* Counts are bounded, and texts by the message's size: no sum here can wrap. */
static struct block *make_block(const Ps__V1__DescribeReply *reply, struct ps_mem *mem)
{
    size_t n_tables = n_tables_of(reply);
    size_t n_text = n_text_bytes(reply);
    size_t n_bytes = sizeof(struct block) + n_tables * sizeof(struct ps_table) +
                     reply->n_members * sizeof(struct ps_member) +
                     reply->n_epochs * sizeof(struct ps_epoch_progress) +
                     reply->n_cuts * sizeof(struct ps_snapshot) +
                     reply->n_away * sizeof(struct ps_away) + n_text;
    struct block *block = ps_mem_alloc(mem, PS_MEM_CALLS, n_bytes);
    if (block == NULL) {
        return NULL;
    }
    block->tables = (struct ps_table *)(block + 1);
    block->members = (struct ps_member *)(block->tables + n_tables);
    block->epochs = (struct ps_epoch_progress *)(block->members + reply->n_members);
    block->snapshots = (struct ps_snapshot *)(block->epochs + reply->n_epochs);
    block->away = (struct ps_away *)(block->snapshots + reply->n_cuts);
    block->text = (char *)(block->away + reply->n_away);
    block->text_end = block->text + n_text;
    return block;
}

/* What lasts, and who is waited for. */
static void read_lasting(struct block *block, const Ps__V1__DescribeReply *reply)
{
    struct ps_cluster *to = &block->cluster;
    for (size_t i = 0; i < reply->n_cuts; i++) {
        const Ps__V1__Cut *from = reply->cuts[i];
        block->snapshots[i] = (struct ps_snapshot){.name = keep(block, from->name),
                                                   .dir = keep(block, from->dir),
                                                   .taken = keep(block, from->taken),
                                                   .generation = from->generation,
                                                   .bytes = from->bytes,
                                                   .ms = from->ms,
                                                   .held_us = from->held_us,
                                                   .exact = from->all_held != 0};
    }
    for (size_t i = 0; i < reply->n_away; i++) {
        const Ps__V1__Away *from = reply->away[i];
        block->away[i] = (struct ps_away){.server = from->index,
                                          .address = keep(block, from->address),
                                          .away_ms = from->away_ms,
                                          .left_ms = from->left_ms,
                                          .why = keep(block, from->why)};
    }
    to->durability = durability_word(reply->durability);
    to->snapshot_failed = keep(block, reply->cut_failed);
    to->snapshots = block->snapshots;
    to->n_snapshots = reply->n_cuts;
    to->away = block->away;
    to->n_away = reply->n_away;
}

static void read_lists(struct block *block, const Ps__V1__DescribeReply *reply)
{
    struct ps_cluster *to = &block->cluster;
    for (size_t i = 0; i < n_tables_of(reply); i++) {
        const Ps__V1__Table *table = reply->catalogue->tables[i];
        to->n_tables += ps_cluster_read_table(table, &block->tables[to->n_tables]) ? 1 : 0;
    }
    for (size_t i = 0; i < reply->n_members; i++) {
        read_member(block, reply->members[i], &block->members[i]);
    }
    for (size_t i = 0; i < reply->n_epochs; i++) {
        const Ps__V1__EpochProgress *from = reply->epochs[i];
        block->epochs[i] = (struct ps_epoch_progress){.epoch = from->epoch,
                                                      .units = from->units,
                                                      .units_done = from->units_done,
                                                      .loss_sum = from->loss_sum,
                                                      .loss_rows = from->loss_rows,
                                                      .leases = from->leases,
                                                      .leases_done = from->leases_done};
    }
    to->tables = block->tables;
    to->members = block->members;
    to->n_members = reply->n_members;
    to->epochs = block->epochs;
    to->n_epochs = reply->n_epochs;
}

enum ps_status ps_cluster_read(const Ps__V1__DescribeReply *reply, struct ps_mem *mem,
                               struct ps_cluster **ret, struct ps_error *err)
{
    if (n_tables_of(reply) > PS_TABLES_MAX || reply->n_members > MEMBERS_MAX ||
        reply->n_epochs > EPOCHS_MAX || reply->n_cuts > SNAPSHOTS_MAX ||
        reply->n_away > PS_SERVERS_MAX) {
        return ps_fail(err, PS_ERR_CORRUPT, "the coordinator described a cluster that can't be");
    }
    struct block *block = make_block(reply, mem);
    if (block == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a description of the cluster");
    }
    struct ps_cluster *to = &block->cluster;
    (void)ps_id_from(reply->cluster_id.data, reply->cluster_id.len, &to->cluster_id);
    to->term = reply->term;
    to->generation = reply->generation;
    bool known = (int)reply->job >= PS_JOB_NONE && (int)reply->job <= PS_JOB_RESTORING;
    to->job = known ? (enum ps_job_state)reply->job : PS_JOB_NONE;
    to->reason = keep(block, reply->reason);
    to->min_clock = reply->min_clock;
    (void)ps_cluster_read_consistency(reply->consistency, &to->consistency);
    to->has_definition = reply->definition != NULL;
    if (reply->definition != NULL) {
        read_definition(block, reply->definition, &to->definition);
    }
    if (reply->placement != NULL && reply->placement->n_servers <= PS_SERVERS_MAX) {
        to->n_servers = (uint32_t)reply->placement->n_servers;
    }
    read_lists(block, reply);
    read_lasting(block, reply);
    to->steps = reply->steps;
    to->sessions_lost = reply->sessions_lost;
    to->rows_trained_min = reply->rows_trained_min;
    to->rows_trained_max = reply->rows_trained_max;
    to->running_us = reply->running_us;
    to->rows = reply->rows;
    *ret = to;
    return PS_OK;
}

void ps_cluster_free(struct ps_cluster *cluster)
{
    ps_mem_free(cluster);
}
