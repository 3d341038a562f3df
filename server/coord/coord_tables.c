/* coord_tables.c — the calls DefineTable and DefineJob: check, keep, answer when all have it. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/layout.h"
#include "coord/coord_define.h"
#include "coord/coord_impl.h"
#include "obs/log.h"
#include "wire/pack.h"

static void answer_table(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    if (ps_coord_core_catalogue_acked(&coord->core) > call->table) {
        Ps__V1__DefineTableReply reply = PS__V1__DEFINE_TABLE_REPLY__INIT;
        reply.table = coord_table_at(coord, call->table);
        coord_call_reply(call, &reply.base);
    } else if (call->late) {
        coord_call_fail(call, PS_ERR_TIMEOUT, "waiting for the servers to make the table");
    }
}

static uint32_t find_table(const struct ps_coord *coord, const char *name)
{
    uint32_t n = (uint32_t)coord->core.catalogue_version;
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(coord->tables[i].definition->name, name) == 0) {
            return i;
        }
    }
    return n;
}

/* All tables together, this one included: could a unit of every slot be pushed? */
static enum ps_status check_slots(struct ps_layout_view view, struct ps_error *err)
{
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        if (ps_layout_slot_fragments(view, slot) > PS_FRAGMENTS_MAX) {
            return ps_fail(err, PS_ERR_INVALID,
                           "with the tables before it slot %" PRIu32 " needs more than %u calls",
                           slot, PS_FRAGMENTS_MAX);
        }
    }
    return PS_OK;
}

/* A server's part of what is spread over all slots. */
static uint64_t part_of(const struct ps_coord *coord, uint64_t n_bytes)
{
    uint32_t n_servers = coord->options.n_servers;
    uint64_t n_slots = (PS_SLOTS + n_servers - 1) / n_servers; /* The most that one has. */
    return n_bytes / PS_SLOTS * n_slots;
}

/* What the tables there are take on a server; sparse ones have grown since they were weighed. */
static uint64_t taken(const struct ps_coord *coord, const struct coord_peer *server)
{
    uint64_t n_sum = 0;
    for (uint32_t i = 0; i < (uint32_t)coord->core.catalogue_version; i++) {
        uint64_t n_bytes = part_of(coord, coord->tables[i].n_bytes);
        for (uint32_t k = 0; k < server->n_rows; k++) {
            bool more = server->rows[k].table == i && server->rows[k].bytes > n_bytes;
            n_bytes = more ? server->rows[k].bytes : n_bytes;
        }
        n_sum += n_bytes;
    }
    return n_sum;
}

/*
 * A table that some server has no memory for is refused here: found out later, it would take the
 * server, and with it the job. Servers that have not reported yet are not asked.
 */
static enum ps_status check_memory(const struct ps_coord *coord, uint64_t n_bytes,
                                   struct ps_error *err)
{
    for (uint32_t i = 0; i < coord->options.n_servers; i++) {
        if (coord->core.servers[i] == PS_COORD_NOBODY) {
            continue;
        }
        const struct coord_peer *server = &coord->peers[coord->core.servers[i]];
        uint64_t limit = server->server.memory_limit;
        uint64_t needed = taken(coord, server) + part_of(coord, n_bytes);
        if (limit != 0 && needed > limit) {
            return ps_fail(err, PS_ERR_INVALID,
                           "with the tables before it server %" PRIu32 " would need %" PRIu64
                           " MiB and may have %" PRIu64 " (--memory-max): use more servers",
                           i, needed >> 20, limit >> 20);
        }
    }
    return PS_OK;
}

/* An averaged step adds gradients up where they lie, block by block; rows it would have to sort. */
static enum ps_status check_aggregate(const Ps__V1__JobDefinition *job,
                                      const Ps__V1__TableDefinition *table, struct ps_error *err)
{
    if (job == NULL || !job->consistency->aggregate || table->kind != PS__V1__TABLE_KIND__SPARSE) {
        return PS_OK;
    }
    return ps_fail(
        err, PS_ERR_UNSUPPORTED,
        "table %s is sparse, and the job is aggregated: averaged steps know dense tables "
        "only; use bsp without aggregate",
        table->name);
}

/* On PS_OK its layout and size stand behind those of the tables before it. */
static enum ps_status admit_table(struct ps_coord *coord, const Ps__V1__TableDefinition *definition,
                                  struct ps_error *err)
{
    uint32_t number = (uint32_t)coord->core.catalogue_version;
    uint64_t n_bytes = 0;
    if (number >= PS_TABLES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "there are %u tables, the most there may be",
                       PS_TABLES_MAX);
    }
    if (definition->n_shape > PS_DIMS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "table %s: a shape has at most %u dimensions, not %zu",
                       definition->name, PS_DIMS_MAX, definition->n_shape);
    }
    bool sparse = definition->kind == PS__V1__TABLE_KIND__SPARSE;
    enum ps_status status = PS_OK;
    if (sparse) { /* Its rows are where their keys are: it takes no place. */
        coord->layouts[number] = (struct ps_layout){.first_slot = coord->next_slot};
        status = check_aggregate(coord->definition.job, definition, err);
    } else {
        status = ps_layout_table(definition->shape, (uint32_t)definition->n_shape, coord->next_slot,
                                 &coord->layouts[number], err);
    }
    if (status == PS_OK && coord->options.check_table != NULL) {
        status = coord->options.check_table(definition, &n_bytes, err);
    }
    if (status == PS_OK) {
        status = check_slots(
            (struct ps_layout_view){.tables = coord->layouts, .n_tables = number + 1}, err);
    }
    if (status == PS_OK) {
        status = check_memory(coord, n_bytes, err);
        coord->tables[number].n_bytes = n_bytes;
    }
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "table %s", definition->name);
}

enum ps_status coord_define(struct ps_coord *coord, Ps__V1__TableDefinition *definition,
                            uint32_t *ret_table, struct ps_error *err)
{
    if (definition == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "no definition is given");
    }
    enum ps_status status = coord_check_table(definition, err);
    if (status != PS_OK) {
        return status;
    }
    definition->dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    uint32_t number = find_table(coord, definition->name);
    *ret_table = number;
    if (number < coord->core.catalogue_version) {
        const char *field = coord_table_difference(coord->tables[number].definition, definition);
        return field == NULL ? PS_OK
                             : ps_fail(err, PS_ERR_EXISTS, "table %s is defined with another %s",
                                       definition->name, field);
    }
    status = admit_table(coord, definition, err);
    if (status != PS_OK) {
        return status;
    }
    ProtobufCMessage *copy = ps_wire_copy(&definition->base, coord->options.mem);
    if (copy == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for table %s", definition->name);
    }
    coord->tables[number] = (struct coord_table){.definition = (Ps__V1__TableDefinition *)copy,
                                                 .first_slot = coord->next_slot,
                                                 .n_bytes = coord->tables[number].n_bytes};
    coord->next_slot = ps_layout_next_slot(&coord->layouts[number]);
    ps_coord_core_table(&coord->core);
    return PS_OK;
}

void coord_define_table(struct coord_call *call, ProtobufCMessage *message)
{
    Ps__V1__DefineTableRequest *request = (Ps__V1__DefineTableRequest *)message;
    struct ps_error err;
    if (!coord_call_identify(call, &request->session)) {
        return;
    }
    if (coord_define(call->coord, request->definition, &call->table, &err) != PS_OK) {
        coord_call_fail_as(call, &err);
        return;
    }
    coord_call_park(call, answer_table);
}

static void answer_job(struct coord_call *call)
{
    Ps__V1__DefineJobReply reply = PS__V1__DEFINE_JOB_REPLY__INIT;
    Ps__V1__JobDefinition told = *call->coord->definition.job;
    told.setup = coord_text(""); /* Equal to what was asked, and perhaps long. */
    reply.definition = &told;
    coord_call_reply(call, &reply.base);
}

static enum ps_status compare_job(const struct coord_definition *first,
                                  const Ps__V1__JobDefinition *second, struct ps_error *err)
{
    const char *field = coord_job_difference(first->job, second);
    bool same_units = second->units_per_lease == first->units_asked ||
                      second->units_per_lease == first->job->units_per_lease;
    if (field == NULL && !same_units) {
        field = "units_per_lease";
    }
    uint64_t there;
    uint64_t here;
    if (field == NULL) {
        return PS_OK;
    }
    if (coord_job_number(first->job, field, &there) && coord_job_number(second, field, &here)) {
        return ps_fail(err, PS_ERR_EXISTS,
                       "the job is defined with %s %" PRIu64 ", not with %" PRIu64, field, there,
                       here);
    }
    return ps_fail(err, PS_ERR_EXISTS, "the job is defined with another %s", field);
}

enum ps_status coord_accept_job(struct ps_coord *coord, const Ps__V1__JobDefinition *job,
                                const struct ps_lease_plan *plan, struct ps_error *err)
{
    struct coord_definition *definition = &coord->definition;
    struct ps_mem *mem = coord->options.mem;
    void *pool = ps_mem_alloc(mem, PS_MEM_SESSIONS, ps_lease_pool_bytes(plan));
    struct coord_loss *losses = ps_mem_array(mem, PS_MEM_SESSIONS, plan->epochs, sizeof(*losses));
    ProtobufCMessage *copy = ps_wire_copy(&job->base, mem);
    if (pool == NULL || losses == NULL || copy == NULL) {
        ps_mem_free(pool);
        ps_mem_free(losses);
        ps_wire_unpacked_free(copy);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %" PRIu32 " leases", plan->n_leases);
    }
    definition->pool_memory = pool;
    definition->losses = losses;
    definition->units_asked = job->units_per_lease;
    definition->job = (Ps__V1__JobDefinition *)copy;
    definition->job->units_per_lease = plan->units_per_lease;
    Ps__V1__Consistency *consistency = definition->job->consistency;
    consistency->version = 1;
    struct ps_coord_job core_job = {
        .workers = definition->job->workers,
        .start_timeout_ms = definition->job->start_timeout_ms,
        .consistency = {.mode = (enum ps_coord_mode)consistency->mode,
                        .bound = consistency->bound,
                        .aggregate = consistency->aggregate,
                        .n_backups = consistency->backups},
    };
    ps_coord_core_job(&coord->core, ps_exec_now_ms(coord->options.exec), &core_job, plan, pool);
    ps_log(PS_LOG_INFO, "job.defined",
           "model=\"%s\" rows=%" PRIu64 " parts=%" PRIu32 " batch=%" PRIu32 " epochs=%" PRIu32
           " leases=%" PRIu32,
           definition->job->model, plan->rows, definition->job->parts, plan->batch, plan->epochs,
           plan->n_leases);
    return PS_OK;
}

void coord_define_job(struct coord_call *call, ProtobufCMessage *message)
{
    Ps__V1__DefineJobRequest *request = (Ps__V1__DefineJobRequest *)message;
    struct ps_coord *coord = call->coord;
    struct ps_lease_plan plan;
    struct ps_error err;
    if (!coord_call_identify(call, &request->session)) {
        return;
    }
    if (request->definition == NULL) {
        coord_call_fail(call, PS_ERR_INVALID, "no definition is given");
        return;
    }
    enum ps_status status = coord_check_job(request->definition, &plan, &err);
    for (uint32_t i = 0; i < coord->core.catalogue_version && status == PS_OK; i++) {
        status = check_aggregate(request->definition, coord->tables[i].definition, &err);
    }
    if (status == PS_OK && coord->definition.job != NULL) {
        status = compare_job(&coord->definition, request->definition, &err);
    } else if (status == PS_OK) {
        status = coord_accept_job(coord, request->definition, &plan, &err);
    }
    if (status != PS_OK) {
        coord_call_fail_as(call, &err);
        return;
    }
    coord_call_park(call, answer_job);
}
