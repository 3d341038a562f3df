/* session_state.c — see session_state.h. */
#include "client/session_state.h"

#include <stdio.h>
#include <string.h>

#include "client/cluster.h"
#include "obs/log.h"

bool ps_session_state_newest(struct ps_session *session, uint64_t term, uint64_t generation)
{
    struct ps_view *view = &session->view;
    if (term < view->term || generation < view->generation) {
        return false;
    }
    if (term > view->term) {
        view->term = term;
        session->changed = true;
    }
    if (generation == view->generation) {
        return true;
    }
    view->generation = generation;
    session->changed = true;
    if (view->session_number == 0) {
        return true;
    }
    /* That closed every session: nothing of this one's line, epochs or clocks is left. */
    char words[PS_ERROR_TEXT_BYTES];
    (void)snprintf(words, sizeof(words),
                   "the cluster went back to a snapshot, or began anew without one (generation "
                   "%llu): the session is over",
                   (unsigned long long)generation);
    ps_session_fence(session, words);
    return false;
}

static void take_server(struct ps_session *session, const Ps__V1__Server *from)
{
    size_t n_bytes = strlen(from->address);
    if (from->index >= PS_SERVERS_MAX || n_bytes == 0 || n_bytes > PS_ADDRESS_BYTES_MAX) {
        ps_log(PS_LOG_WARN, "placement.odd", "server=%u", from->index);
        return;
    }
    ps_session_server_moved(session, from->index, from->address);
    if (from->index >= session->n_servers) {
        session->n_servers = from->index + 1;
    }
    ps_session_server_connect(session, from->index);
}

static void place_slot(struct ps_session *session, uint32_t slot, uint32_t server, uint64_t epoch)
{
    struct ps_route *route = &session->route;
    bool known = server < session->n_servers && session->servers[server].address[0] != '\0';
    bool news = epoch > route->epoch[slot] || route->server[slot] == PS_SERVER_NONE;
    if (!known || epoch < route->epoch[slot] || !news) {
        return;
    }
    route->server[slot] = server;
    route->epoch[slot] = epoch;
    session->changed = true;
    ps_list_for_each (at, &session->works) {
        struct ps_session_work *work = PS_CONTAINER_OF(at, struct ps_session_work, node);
        if (work->push != NULL) {
            ps_flow_placed(&work->push_flow, slot);
        }
        if (work->pull != NULL) {
            ps_flow_placed(&work->pull_flow, slot);
        }
    }
}

/*
 * Answers to calls and the stream overtake each other: an old answer must not send anybody to the
 * address that a server had before it moved. A term numbers its placements itself.
 */
static bool newer_placement(struct ps_session *session, uint64_t version)
{
    if (session->placement_term == session->view.term && version < session->placement_version) {
        return false;
    }
    session->placement_term = session->view.term;
    session->placement_version = version;
    return true;
}

void ps_session_state_placement(struct ps_session *session, const Ps__V1__Placement *placement)
{
    if (placement == NULL || !newer_placement(session, placement->version)) {
        return;
    }
    for (size_t i = 0; i < placement->n_servers; i++) {
        take_server(session, placement->servers[i]);
    }
    if (placement->n_primary != PS_SLOTS || placement->n_epoch != PS_SLOTS) {
        if (placement->n_primary != 0) { /* None: the servers are not complete yet. */
            ps_log(PS_LOG_WARN, "placement.odd", "slots=%zu", placement->n_primary);
        }
        return;
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        place_slot(session, slot, placement->primary[slot], placement->epoch[slot]);
    }
}

enum ps_status ps_session_state_table(struct ps_session *session, const Ps__V1__Table *table,
                                      struct ps_error *err)
{
    struct ps_table entry;
    if (table == NULL || table->first_slot >= PS_SLOTS || !ps_cluster_read_table(table, &entry)) {
        return ps_fail(err, PS_ERR_CORRUPT, "the coordinator described a table that can't be");
    }
    struct ps_layout layout = {0}; /* A sparse table has no blocks. */
    enum ps_status status = entry.width != 0 ? PS_OK
                                             : ps_layout_table(entry.shape, entry.n_dims,
                                                               table->first_slot, &layout, err);
    if (status != PS_OK) {
        return ps_wrap(err, PS_ERR_CORRUPT, "table '%s'", entry.name);
    }
    if (session->tables[entry.number].name[0] == '\0') { /* A definition never changes. */
        session->layouts[entry.number] = layout;
        session->tables[entry.number] = entry;
    }
    while (session->n_tables < PS_TABLES_MAX &&
           session->tables[session->n_tables].name[0] != '\0') {
        session->n_tables++;
    }
    return PS_OK;
}

void ps_session_state_catalogue(struct ps_session *session, const Ps__V1__Catalogue *catalogue)
{
    struct ps_error err;
    for (size_t i = 0; catalogue != NULL && i < catalogue->n_tables; i++) {
        if (ps_session_state_table(session, catalogue->tables[i], &err) != PS_OK) {
            ps_log(PS_LOG_WARN, "catalogue.odd", "reason=\"%s\"", err.text);
        }
    }
}

void ps_session_state_consistency(struct ps_session *session, const Ps__V1__Consistency *from)
{
    struct ps_consistency news;
    if (!ps_cluster_read_consistency(from, &news) ||
        news.version < session->view.consistency.version) {
        return;
    }
    session->view.consistency = news;
    session->changed = true;
}

void ps_session_state_min_clock(struct ps_session *session, uint64_t min_clock)
{
    if (min_clock <= session->view.min_clock) {
        return;
    }
    session->view.min_clock = min_clock;
    session->changed = true;
    ps_list_for_each (at, &session->works) {
        struct ps_session_work *work = PS_CONTAINER_OF(at, struct ps_session_work, node);
        if (work->pull != NULL && ps_session_allowed(session, work->pull->step)) {
            ps_flow_allowed(&work->pull_flow);
        }
    }
}

void ps_session_state_lease(struct ps_session *session)
{
    struct ps_lease lease = session->lease;
    const struct ps_worker_report *report = &session->report;
    /* The coordinator may not have heard our last report yet: work that is done is never shown as
     * undone. With aggregation only the coordinator knows what a closed step contained. */
    bool ours = lease.id != 0 && lease.id == report->lease;
    bool counted = lease.n_units != 0;
    if (ours && !session->view.consistency.aggregate && report->units_done > lease.units_done) {
        bool beyond = counted && report->units_done > lease.n_units;
        lease.units_done = beyond ? lease.n_units : report->units_done;
    }
    lease.over = counted ? lease.units_done >= lease.n_units : ours && report->lease_over;
    const struct ps_lease *shown = &session->view.lease; /* The id fixes the other fields. */
    session->changed = session->changed || lease.id != shown->id || lease.clock != shown->clock ||
                       lease.units_done != shown->units_done || lease.over != shown->over;
    session->view.lease = lease;
}

static void take_lease(struct ps_session *session, const Ps__V1__AttendState *state)
{
    if (!state->has_lease) {
        session->lease = (struct ps_lease){0};
    } else if (state->lease != NULL) {
        const Ps__V1__Lease *from = state->lease;
        session->lease = (struct ps_lease){.id = from->id,
                                           .epoch = from->epoch,
                                           .first_row = from->first_row,
                                           .unit_rows = from->unit_rows,
                                           .stride = from->stride,
                                           .n_units = from->units,
                                           .units_done = from->units_done,
                                           .clock = from->clock,
                                           .part = from->part};
    }
    ps_session_state_lease(session);
}

void ps_session_state_hold(struct ps_session *session, uint64_t hold)
{
    struct ps_view *view = &session->view;
    if (hold == view->hold || (hold != 0 && hold == session->hold_over)) {
        return;
    }
    view->hold = hold;
    session->hold_ms = ps_exec_now_ms(session->options.exec);
    session->changed = true;
}

void ps_session_state_patience(struct ps_session *session, uint32_t patience_ms)
{
    if (session->patient || patience_ms == 0 || patience_ms == session->view.patience_ms) {
        return;
    }
    session->options.give_up_ms = patience_ms;
    session->view.patience_ms = patience_ms;
    session->changed = true;
}

static void take_job(struct ps_session *session, const Ps__V1__AttendState *state)
{
    if ((int)state->job < PS_JOB_NONE || (int)state->job > PS_JOB_RESTORING) {
        return;
    }
    enum ps_job_state job = (enum ps_job_state)state->job;
    if (job != session->view.job) {
        session->view.job = job;
        session->changed = true;
    }
    if (job == PS_JOB_DONE || job == PS_JOB_STOPPED) {
        ps_session_work_job_over(session);
    }
    if (job == PS_JOB_CLUSTER_LOST) {
        ps_session_lose(session, "%.200s",
                        state->reason[0] != '\0' ? state->reason : "the coordinator says: lost");
    }
}

/* Yesterday's coordinator is gone and another cluster has its address. */
static bool other_cluster(const struct ps_session *session, const Ps__V1__AttendState *state,
                          struct ps_id *ret)
{
    return state->fenced && ps_id_from(state->cluster_id.data, state->cluster_id.len, ret) &&
           !ps_id_none(&session->view.cluster_id) && !ps_id_equal(ret, &session->view.cluster_id);
}

bool ps_session_state_take(struct ps_session *session, const Ps__V1__AttendState *state)
{
    struct ps_id cluster;
    if (other_cluster(session, state, &cluster)) { /* Its terms say nothing to us. */
        char here[PS_ID_TEXT_BYTES];
        char there[PS_ID_TEXT_BYTES];
        ps_id_text(&session->view.cluster_id, here);
        ps_id_text(&cluster, there);
        ps_session_lose(session,
                        "coordinator (%.100s) is now that of cluster %s: cluster %s is gone",
                        session->coordinator, there, here);
        return false;
    }
    if (!ps_session_state_newest(session, state->term, state->generation)) {
        return false;
    }
    ps_session_state_patience(session, state->patience_ms);
    /* In this order: who hears a min clock knows every placement made before it. */
    ps_session_state_placement(session, state->placement);
    ps_session_state_catalogue(session, state->catalogue);
    ps_session_state_consistency(session, state->consistency);
    ps_session_state_min_clock(session, state->min_clock);
    if (state->fenced) {
        ps_session_fence(session, state->reason);
    }
    ps_session_state_hold(session, state->hold);
    take_lease(session, state);
    take_job(session, state);
    return true;
}
