/*
 * coord_describe.c — everything that psctl shows, as one message.
 *
 * A cold path: the lists of members and epochs are built in one block that is freed after packing.
 */
#include "base/assert.h"
#include "coord/coord_impl.h"

#define EPOCHS_SHOWN_MAX 1024u /* The last ones begun; keeps the answer below a message's limit. */

struct listing {
    Ps__V1__Member members[PS_COORD_MEMBERS_MAX];
    Ps__V1__Member *member_list[PS_COORD_MEMBERS_MAX];
    Ps__V1__EpochProgress epochs[EPOCHS_SHOWN_MAX];
    Ps__V1__EpochProgress *epoch_list[EPOCHS_SHOWN_MAX];
    Ps__V1__RowStats rows[PS_TABLES_MAX];
    Ps__V1__RowStats *row_list[PS_TABLES_MAX];
    Ps__V1__Cut *cuts[PS_CUTS_MAX];
    Ps__V1__Away away[PS_SERVERS_MAX];
    Ps__V1__Away *away_list[PS_SERVERS_MAX];
};

static void fill_member(struct ps_coord *coord, uint32_t index, Ps__V1__Member *to)
{
    const struct ps_coord_member *from = &coord->core.members[index];
    struct coord_peer *peer = &coord->peers[index];
    ps__v1__member__init(to);
    to->session_number = from->number;
    to->kind = (Ps__V1__SessionKind)from->kind;
    to->name = coord_text(from->name);
    to->address = coord_text(from->address);
    to->state = coord_text(ps_member_state_name(from->life.state));
    to->clock = from->clock;
    to->lease = from->lease;
    to->silent_ms = ps_exec_now_ms(coord->options.exec) - from->life.heard_ms;
    if (peer->worker.base.descriptor != NULL) { /* It has reported some. */
        to->worker = &peer->worker;
    }
    if (peer->server.base.descriptor != NULL) {
        to->server = &peer->server;
    }
    if (from->kind == PS_COORD_SERVER) {
        to->durability = (Ps__V1__Durability)coord->core.places[from->server].durability;
    }
}

static size_t fill_members(struct ps_coord *coord, struct listing *listing)
{
    size_t n = 0;
    for (uint32_t i = 0; i < coord->core.n_members; i++) {
        if (coord->core.members[i].used) {
            fill_member(coord, i, &listing->members[n]);
            listing->member_list[n] = &listing->members[n];
            n++;
        }
    }
    return n;
}

/* Epochs that have begun: those with a lease that was ever lent. */
static size_t fill_epochs(struct ps_coord *coord, struct listing *listing)
{
    const struct ps_lease_pool *pool = &coord->core.pool;
    if (!coord->core.has_job || pool->lent_below == 1) {
        return 0;
    }
    uint32_t last = ps_lease_at(&pool->plan, pool->lent_below - 1).epoch;
    uint32_t first = last < EPOCHS_SHOWN_MAX ? 0 : last + 1 - EPOCHS_SHOWN_MAX;
    size_t n = 0;
    for (uint32_t epoch = first; epoch <= last; epoch++) {
        Ps__V1__EpochProgress *to = &listing->epochs[n];
        ps__v1__epoch_progress__init(to);
        to->epoch = epoch;
        to->units = pool->plan.n_steps * pool->plan.n_ways; /* Uncounted: 0. */
        to->units_done = pool->epoch_units_done[epoch];
        to->leases = pool->plan.n_parts;
        to->leases_done = pool->epoch_finished[epoch];
        to->loss_sum = coord->definition.losses[epoch].sum;
        to->loss_rows = coord->definition.losses[epoch].rows;
        listing->epoch_list[n] = to;
        n++;
    }
    return n;
}

static void add_rows(Ps__V1__RowStats *to, const Ps__V1__RowStats *from)
{
    to->rows += from->rows;
    to->bytes += from->bytes;
    to->created += from->created;
    to->updated += from->updated;
    to->dropped += from->dropped;
    to->expired += from->expired;
    to->refused += from->refused;
}

/* What one server has reported of a table. */
static void add_server(const struct coord_peer *peer, Ps__V1__RowStats *to)
{
    for (uint32_t i = 0; i < peer->n_rows; i++) {
        if (peer->rows[i].table == to->table) {
            add_rows(to, &peer->rows[i]);
        }
    }
}

/* Of each sparse table among the first `n_tables`, over the servers that have reported. */
static size_t fill_rows(const struct ps_coord *coord, size_t n_tables, struct listing *listing)
{
    size_t n = 0;
    for (uint32_t table = 0; table < n_tables; table++) {
        if (coord->tables[table].definition->kind != PS__V1__TABLE_KIND__SPARSE) {
            continue;
        }
        Ps__V1__RowStats *to = &listing->rows[n];
        ps__v1__row_stats__init(to);
        to->table = table;
        for (uint32_t i = 0; i < coord->options.n_servers; i++) {
            if (coord->core.servers[i] != PS_COORD_NOBODY) {
                add_server(&coord->peers[coord->core.servers[i]], to);
            }
        }
        listing->row_list[n++] = to;
    }
    return n;
}

static void fill_job(struct ps_coord *coord, Ps__V1__DescribeReply *reply)
{
    const struct ps_coord_core *core = &coord->core;
    if (core->has_job) {
        reply->consistency = coord_consistency(coord);
        reply->definition = coord->definition.job;
        reply->steps = core->pool.units_done_total;
        reply->rows = core->pool.rows;
        ps_lease_pool_trained(&core->pool, &reply->rows_trained_min, &reply->rows_trained_max);
    }
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    reply->running_us = 1000 * ps_coord_core_running_ms(core, now_ms);
    reply->sessions_lost = core->sessions_lost;
}

static void fill_cuts(struct ps_coord *coord, struct listing *listing, Ps__V1__DescribeReply *reply)
{
    const struct ps_coord_cut *cut = &coord->core.cut;
    for (uint32_t i = 0; i < coord->n_known; i++) {
        listing->cuts[i] = coord->known[coord->n_known - 1 - i];
    }
    reply->n_cuts = coord->n_known;
    reply->cuts = listing->cuts;
    reply->cut_under_way = ps_coord_cut_under_way(cut) ? cut->number : 0;
    reply->cuts_given_up = cut->n_given_up;
    reply->cut_failed = coord_text(cut->why);
}

/* Who is waited for, and how long; how durable the least of all servers is. */
static void fill_places(struct ps_coord *coord, struct listing *listing,
                        Ps__V1__DescribeReply *reply)
{
    const struct ps_coord_core *core = &coord->core;
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    uint32_t least = UINT32_MAX;
    if (core->placement.version == 0) {
        return;
    }
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        const struct ps_coord_place *place = &core->places[i];
        const struct ps_coord_member *member = &core->members[core->servers[i]];
        least = place->durability < least ? place->durability : least;
        reply->loading += ps_coord_core_loads(core, core->servers[i]);
        if (!place->away) {
            continue;
        }
        Ps__V1__Away *to = &listing->away[reply->n_away];
        ps__v1__away__init(to);
        to->index = i;
        to->address = coord_text(member->address);
        to->away_ms = now_ms - place->away_ms;
        to->left_ms = to->away_ms < core->options.wait_ms ? core->options.wait_ms - to->away_ms : 0;
        to->why = coord_text(member->why);
        listing->away_list[reply->n_away++] = to;
    }
    reply->away = listing->away_list;
    reply->durability = (Ps__V1__Durability)least;
}

void coord_describe(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    const struct ps_coord_core *core = &coord->core;
    struct listing *listing = ps_mem_alloc(coord->options.mem, PS_MEM_CALLS, sizeof(*listing));
    if (listing == NULL) {
        coord_call_fail(call, PS_ERR_NOMEM, "no memory to describe the cluster");
        return;
    }
    Ps__V1__DescribeReply reply;
    ps__v1__describe_reply__init(&reply);
    reply.cluster_id = coord_bytes(coord->cluster_id.bytes, sizeof(coord->cluster_id.bytes));
    reply.term = coord->term;
    reply.generation = core->generation;
    reply.job = (Ps__V1__JobState)core->state;
    reply.reason = coord_text(core->reason);
    reply.min_clock = core->min_clock;
    if (core->placement.version != 0) {
        reply.placement = coord_placement(coord);
    }
    reply.catalogue = coord_catalogue(coord);
    /* Whoever learns of a table here may pull it at once: only what every server has made. */
    uint64_t n_made = ps_coord_core_catalogue_acked(core);
    if (n_made < reply.catalogue->n_tables) {
        reply.catalogue->n_tables = (size_t)n_made;
        reply.catalogue->version = n_made;
    }
    reply.n_row_stats = fill_rows(coord, reply.catalogue->n_tables, listing);
    reply.row_stats = listing->row_list;
    reply.n_members = fill_members(coord, listing);
    reply.members = listing->member_list;
    reply.n_epochs = fill_epochs(coord, listing);
    reply.epochs = listing->epoch_list;
    fill_job(coord, &reply);
    fill_cuts(coord, listing, &reply);
    fill_places(coord, listing, &reply);
    coord_call_reply(call, &reply.base);
    ps_mem_free(listing);
}
