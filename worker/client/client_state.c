/* client_state.c — see client_state.h. */
#include "client/client_state.h"

#include <string.h>

#include "obs/log.h"

bool ps_client_state_newest(struct ps_client *client, uint64_t term, uint64_t generation)
{
    struct ps_client_view *view = &client->view;
    if (term < view->term || generation < view->generation) {
        return false;
    }
    if (term > view->term) {
        view->term = term;
        client->changed = true;
    }
    if (generation > view->generation) { /* A restore: the old line is gone, epochs are new. */
        view->generation = generation;
        view->min_clock = 0;
        memset(client->route.epoch, 0, sizeof(client->route.epoch));
        memset(client->route.seen_epoch, 0, sizeof(client->route.seen_epoch));
        memset(client->route.seen_position, 0, sizeof(client->route.seen_position));
        client->changed = true;
    }
    return true;
}

static void take_server(struct ps_client *client, const Ps__V1__Server *from)
{
    size_t n_bytes = strlen(from->address);
    if (from->index >= PS_SERVERS_MAX || n_bytes == 0 || n_bytes > PS_ADDRESS_BYTES_MAX) {
        ps_log(PS_LOG_WARN, "placement.odd", "server=%u", from->index);
        return;
    }
    struct ps_client_server *server = &client->servers[from->index];
    memcpy(server->address, from->address, n_bytes + 1);
    if (from->index >= client->n_servers) {
        client->n_servers = from->index + 1;
    }
    ps_client_server_connect(client, from->index);
}

static void place_slot(struct ps_client *client, uint32_t slot, uint32_t server, uint64_t epoch)
{
    struct ps_route *route = &client->route;
    bool known = server < client->n_servers && client->servers[server].address[0] != '\0';
    bool news = epoch > route->epoch[slot] || route->server[slot] == PS_SERVER_NONE;
    if (!known || epoch < route->epoch[slot] || !news) {
        return;
    }
    route->server[slot] = server;
    route->epoch[slot] = epoch;
    client->changed = true;
    ps_list_for_each (at, &client->works) {
        struct ps_client_work *work = PS_CONTAINER_OF(at, struct ps_client_work, node);
        if (work->push != NULL) {
            ps_flow_placed(&work->push_flow, slot);
        }
        if (work->pull != NULL) {
            ps_flow_placed(&work->pull_flow, slot);
        }
    }
}

void ps_client_state_placement(struct ps_client *client, const Ps__V1__Placement *placement)
{
    if (placement == NULL) {
        return;
    }
    for (size_t i = 0; i < placement->n_servers; i++) {
        take_server(client, placement->servers[i]);
    }
    if (placement->n_primary != PS_SLOTS || placement->n_epoch != PS_SLOTS) {
        if (placement->n_primary != 0) { /* None: the servers are not complete yet. */
            ps_log(PS_LOG_WARN, "placement.odd", "slots=%zu", placement->n_primary);
        }
        return;
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        place_slot(client, slot, placement->primary[slot], placement->epoch[slot]);
    }
}

enum ps_status ps_client_state_table(struct ps_client *client, const Ps__V1__Table *table,
                                     struct ps_error *err)
{
    const Ps__V1__TableDefinition *definition = table != NULL ? table->definition : NULL;
    if (definition == NULL || table->number >= PS_TABLES_MAX || table->first_slot >= PS_SLOTS ||
        definition->n_shape > PS_DIMS_MAX || strlen(definition->name) > PS_NAME_BYTES_MAX) {
        return ps_fail(err, PS_ERR_CORRUPT, "the coordinator described a table that can't be");
    }
    struct ps_layout layout;
    enum ps_status status = ps_layout_table(definition->shape, (uint32_t)definition->n_shape,
                                            table->first_slot, &layout, err);
    if (status != PS_OK) {
        return ps_wrap(err, PS_ERR_CORRUPT, "table '%s'", definition->name);
    }
    if (client->table_names[table->number][0] == '\0') { /* A definition never changes. */
        client->layouts[table->number] = layout;
        memcpy(client->table_names[table->number], definition->name, strlen(definition->name) + 1);
    }
    while (client->n_tables < PS_TABLES_MAX && client->table_names[client->n_tables][0] != '\0') {
        client->n_tables++;
    }
    return PS_OK;
}

void ps_client_state_catalogue(struct ps_client *client, const Ps__V1__Catalogue *catalogue)
{
    struct ps_error err;
    for (size_t i = 0; catalogue != NULL && i < catalogue->n_tables; i++) {
        if (ps_client_state_table(client, catalogue->tables[i], &err) != PS_OK) {
            ps_log(PS_LOG_WARN, "catalogue.odd", "reason=\"%s\"", err.text);
        }
    }
}

void ps_client_state_consistency(struct ps_client *client, const Ps__V1__Consistency *from)
{
    struct ps_consistency *to = &client->view.consistency;
    if (from == NULL || from->version < to->version || (int)from->mode < PS_CONSISTENCY_NONE ||
        (int)from->mode > PS_CONSISTENCY_ASP) {
        return;
    }
    *to = (struct ps_consistency){.version = from->version,
                                  .mode = (enum ps_consistency_mode)from->mode,
                                  .bound = from->bound,
                                  .aggregate = from->aggregate != 0,
                                  .n_backups = from->backups};
    client->changed = true;
}

void ps_client_state_min_clock(struct ps_client *client, uint64_t min_clock)
{
    if (min_clock <= client->view.min_clock) {
        return;
    }
    client->view.min_clock = min_clock;
    client->changed = true;
    ps_list_for_each (at, &client->works) {
        struct ps_client_work *work = PS_CONTAINER_OF(at, struct ps_client_work, node);
        if (work->pull != NULL && ps_client_allowed(client, work->pull->step)) {
            ps_flow_allowed(&work->pull_flow);
        }
    }
}

void ps_client_state_lease(struct ps_client *client)
{
    struct ps_lease lease = client->lease;
    const struct ps_worker_report *report = &client->report;
    /* The coordinator may not have heard our last report yet: work that is done is never shown as
     * undone. With aggregation only the coordinator knows what a closed step contained. */
    if (lease.id != 0 && lease.id == report->lease && !client->view.consistency.aggregate &&
        report->units_done > lease.units_done) {
        lease.units_done = report->units_done < lease.n_units ? report->units_done : lease.n_units;
    }
    const struct ps_lease *shown = &client->view.lease; /* The id fixes the other fields. */
    client->changed = client->changed || lease.id != shown->id || lease.clock != shown->clock ||
                      lease.units_done != shown->units_done;
    client->view.lease = lease;
}

static void take_lease(struct ps_client *client, const Ps__V1__AttendState *state)
{
    if (!state->has_lease) {
        client->lease = (struct ps_lease){0};
    } else if (state->lease != NULL) {
        const Ps__V1__Lease *from = state->lease;
        client->lease = (struct ps_lease){.id = from->id,
                                          .epoch = from->epoch,
                                          .first_row = from->first_row,
                                          .unit_rows = from->unit_rows,
                                          .stride = from->stride,
                                          .n_units = from->units,
                                          .units_done = from->units_done,
                                          .clock = from->clock};
    }
    ps_client_state_lease(client);
}

static void take_job(struct ps_client *client, const Ps__V1__AttendState *state)
{
    if ((int)state->job < PS_JOB_NONE || (int)state->job > PS_JOB_STOPPED) {
        return;
    }
    enum ps_job_state job = (enum ps_job_state)state->job;
    if (job != client->view.job) {
        client->view.job = job;
        client->changed = true;
    }
    if (job == PS_JOB_CLUSTER_LOST) {
        ps_client_lose(client, "%.200s",
                       state->reason[0] != '\0' ? state->reason : "the coordinator says: lost");
    }
}

bool ps_client_state_take(struct ps_client *client, const Ps__V1__AttendState *state)
{
    if (!ps_client_state_newest(client, state->term, state->generation)) {
        return false;
    }
    /* In this order: who hears a min clock knows every placement made before it. */
    ps_client_state_placement(client, state->placement);
    ps_client_state_catalogue(client, state->catalogue);
    ps_client_state_consistency(client, state->consistency);
    ps_client_state_min_clock(client, state->min_clock);
    if (state->fenced) {
        ps_client_fence(client, state->reason);
    }
    take_lease(client, state);
    take_job(client, state);
    return true;
}
