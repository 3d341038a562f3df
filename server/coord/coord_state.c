/* coord_state.c — see coord_state.h. */
#include "coord/coord_state.h"

#include "base/assert.h"
#include "cluster/layout.h"
#include "coord/coord_impl.h"

Ps__V1__Placement *coord_placement(struct ps_coord *coord)
{
    struct coord_scratch *scratch = &coord->scratch;
    struct ps_coord_core *core = &coord->core;
    ps__v1__placement__init(&scratch->placement);
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        const struct ps_coord_member *member = &core->members[core->servers[i]];
        Ps__V1__Server *server = &scratch->servers[i];
        ps__v1__server__init(server);
        server->index = i;
        server->name = coord_text(member->name);
        server->address = coord_text(member->address);
        server->incarnation = coord_bytes(member->session.bytes, sizeof(member->session.bytes));
        server->live = !core->places[i].away && !ps_member_ended(&member->life);
        scratch->server_list[i] = server;
    }
    scratch->placement.version = core->placement.version;
    scratch->placement.n_servers = core->options.n_servers;
    scratch->placement.servers = scratch->server_list;
    scratch->placement.n_primary = PS_SLOTS;
    scratch->placement.primary = core->placement.primary;
    scratch->placement.n_epoch = PS_SLOTS;
    scratch->placement.epoch = core->placement.epoch;
    return &scratch->placement;
}

/* For clients that do not know how a table is cut. */
static void fill_layout(Ps__V1__Table *table)
{
    const Ps__V1__TableDefinition *definition = table->definition;
    if (definition->kind == PS__V1__TABLE_KIND__SPARSE) {
        return; /* Its rows are where their keys are. */
    }
    struct ps_layout layout;
    struct ps_error err;
    enum ps_status status = ps_layout_table(definition->shape, (uint32_t)definition->n_shape,
                                            table->first_slot, &layout, &err);
    PS_ASSERT(status == PS_OK); /* It was admitted. */
    table->elements = layout.n_elements;
    table->block_floats = layout.block_floats;
    table->blocks = layout.n_blocks;
}

Ps__V1__Table *coord_table_at(struct ps_coord *coord, uint32_t number)
{
    PS_ASSERT(number < coord->core.catalogue_version);
    Ps__V1__Table *table = &coord->scratch.tables[number];
    ps__v1__table__init(table);
    table->number = number;
    table->first_slot = coord->tables[number].first_slot;
    table->definition = coord->tables[number].definition;
    fill_layout(table);
    return table;
}

Ps__V1__Catalogue *coord_catalogue(struct ps_coord *coord)
{
    struct coord_scratch *scratch = &coord->scratch;
    ps__v1__catalogue__init(&scratch->catalogue);
    uint32_t n = (uint32_t)coord->core.catalogue_version;
    for (uint32_t i = 0; i < n; i++) {
        scratch->table_list[i] = coord_table_at(coord, i);
    }
    scratch->catalogue.version = n;
    scratch->catalogue.n_tables = n;
    scratch->catalogue.tables = scratch->table_list;
    return &scratch->catalogue;
}

/* The list is by session number; members are not, since the places of the ended are used again. */
static void list_session(struct coord_scratch *scratch, size_t n,
                         const struct ps_coord_member *member)
{
    PS_ASSERT(n < PS_SESSIONS_MAX);
    Ps__V1__OpenSession *open = &scratch->open[n];
    ps__v1__open_session__init(open);
    open->number = member->number;
    open->session = coord_bytes(member->session.bytes, sizeof(member->session.bytes));
    size_t at = n;
    while (at > 0 && scratch->open_list[at - 1]->number > open->number) {
        scratch->open_list[at] = scratch->open_list[at - 1];
        at--;
    }
    scratch->open_list[at] = open;
}

/* An ended session says nothing any more: so what it staged, it has said by now. */
static Ps__V1__StagedSessions *staged_sessions(struct ps_coord *coord)
{
    struct coord_scratch *scratch = &coord->scratch;
    ps__v1__staged_sessions__init(&scratch->staged);
    size_t n = 0;
    for (uint32_t i = 0; i < coord->core.n_members; i++) {
        const struct ps_coord_member *member = &coord->core.members[i];
        if (member->used && member->closing && member->staged.is) {
            PS_ASSERT(n < PS_SESSIONS_MAX); /* Whoever closes is counted as a session. */
            scratch->staged_list[n++] = member->number;
        }
    }
    scratch->staged.numbers = scratch->staged_list;
    scratch->staged.n_numbers = n;
    return &scratch->staged;
}

Ps__V1__OpenSessions *coord_sessions(struct ps_coord *coord)
{
    struct coord_scratch *scratch = &coord->scratch;
    ps__v1__open_sessions__init(&scratch->sessions);
    size_t n = 0;
    for (uint32_t i = 0; i < coord->core.n_members; i++) {
        if (ps_coord_core_listed(&coord->core.members[i])) {
            list_session(scratch, n, &coord->core.members[i]);
            n++;
        }
    }
    scratch->sessions.staged = staged_sessions(coord);
    scratch->sessions.version = coord->core.sessions_version;
    scratch->sessions.n_sessions = n;
    scratch->sessions.sessions = scratch->open_list;
    return &scratch->sessions;
}

Ps__V1__FinishedLeases *coord_finished(struct ps_coord *coord)
{
    struct coord_scratch *scratch = &coord->scratch;
    struct ps_lease_range ranges[PS_LEASE_RANGES_MAX];
    uint32_t n = coord->core.has_job ? ps_lease_pool_finished(&coord->core.pool, ranges) : 0;
    ps__v1__finished_leases__init(&scratch->finished);
    for (uint32_t i = 0; i < n; i++) {
        ps__v1__lease_range__init(&scratch->ranges[i]);
        scratch->ranges[i].first = ranges[i].first;
        scratch->ranges[i].last = ranges[i].last;
        scratch->range_list[i] = &scratch->ranges[i];
    }
    scratch->finished.version = coord->core.finished_version;
    scratch->finished.n_ranges = n;
    scratch->finished.ranges = scratch->range_list;
    return &scratch->finished;
}

Ps__V1__Consistency *coord_consistency(struct ps_coord *coord)
{
    const struct ps_coord_consistency *from = &coord->core.job.consistency;
    Ps__V1__Consistency *to = &coord->scratch.consistency;
    ps__v1__consistency__init(to);
    to->version = from->version;
    to->mode = (Ps__V1__ConsistencyMode)from->mode;
    to->bound = from->bound;
    to->aggregate = from->aggregate;
    to->backups = from->n_backups;
    return to;
}

Ps__V1__CloseStep *coord_close_step(struct ps_coord *coord)
{
    struct coord_scratch *scratch = &coord->scratch;
    const struct ps_coord_close *from = &coord->core.close;
    ps__v1__close_step__init(&scratch->close);
    for (uint32_t i = 0; i < from->n_entries; i++) {
        ps__v1__close_entry__init(&scratch->entries[i]);
        scratch->entries[i].session_number = from->entries[i].session_number;
        scratch->entries[i].lease = from->entries[i].lease;
        scratch->entries[i].unit = from->entries[i].unit;
        scratch->entries[i].rows = from->entries[i].rows;
        scratch->entry_list[i] = &scratch->entries[i];
    }
    scratch->close.step = from->step;
    scratch->close.n_entries = from->n_entries;
    scratch->close.entries = scratch->entry_list;
    return &scratch->close;
}

static Ps__V1__Lease *held_lease(struct ps_coord *coord, const struct ps_coord_member *member)
{
    struct ps_lease_view view = ps_lease_at(&coord->core.pool.plan, member->lease);
    Ps__V1__Lease *lease = &coord->scratch.lease;
    ps__v1__lease__init(lease);
    lease->id = view.id;
    lease->epoch = view.epoch;
    lease->first_row = view.first_row;
    lease->unit_rows = view.unit_rows;
    lease->stride = view.stride;
    lease->units = view.n_units;
    lease->units_done = ps_lease_units_done(&coord->core.pool, member->lease);
    lease->clock = member->lease_clock;
    lease->part = view.part;
    return lease;
}

struct coord_told coord_told_now(const struct ps_coord *coord, uint32_t member)
{
    const struct ps_coord_core *core = &coord->core;
    const struct ps_coord_member *who = &core->members[member];
    struct coord_told now = {
        .any = true,
        .placement = core->placement.version,
        .catalogue = core->catalogue_version,
        .consistency = core->job.consistency.version,
        .min_clock = core->min_clock,
        .lease = who->lease,
        .generation = core->generation,
        .job = (int)core->state,
        .fenced = ps_member_ended(&who->life),
    };
    if (who->kind == PS_COORD_WORKER) {
        now.hold = ps_coord_cut_hold(&core->cut);
    }
    if (who->kind == PS_COORD_SERVER) {
        now.loads = ps_coord_core_loads(core, member);
    }
    if (now.loads) { /* The rest comes when it has. */
        now.consistency = 0;
    } else if (who->kind == PS_COORD_SERVER) {
        now.sessions = core->sessions_version;
        now.finished = core->finished_version;
        now.closed_below = core->close.decided ? core->close.step + 1 : 0;
        now.cut = ps_coord_cut_order(&core->cut);
        now.kept = coord->kept;
        now.oldest = coord->kept != 0 ? coord->known[0]->cut : 0;
    }
    return now;
}

/*
 * The min clock opens the gates of servers and, where updates are aggregated, is what workers wait
 * for; others learn it with the next heartbeat. A worker knows its own progress.
 */
bool coord_told_news(const struct ps_coord *coord, uint32_t member, const struct coord_told *old,
                     const struct coord_told *now)
{
    bool clock_matters = coord->core.members[member].kind == PS_COORD_SERVER ||
                         coord->core.job.consistency.aggregate;
    return !old->any || old->placement != now->placement || old->catalogue != now->catalogue ||
           old->sessions != now->sessions || old->finished != now->finished ||
           old->consistency != now->consistency || old->closed_below != now->closed_below ||
           old->lease != now->lease || old->job != now->job || old->fenced != now->fenced ||
           old->generation != now->generation || old->hold != now->hold || old->cut != now->cut ||
           old->kept != now->kept || old->oldest != now->oldest || old->loads != now->loads ||
           (clock_matters && old->min_clock != now->min_clock);
}

uint32_t coord_patience_ms(const struct ps_coord *coord)
{
    return ps_coord_core_returns(&coord->core) ? coord->core.options.wait_ms + PS_PATIENCE_MORE_MS
                                               : PS_PATIENCE_MS;
}

static Ps__V1__AttendState *start_state(struct ps_coord *coord)
{
    Ps__V1__AttendState *state = &coord->scratch.state;
    ps__v1__attend_state__init(state);
    state->term = coord->term;
    state->generation = coord->core.generation;
    state->min_clock = coord->core.min_clock;
    state->job = (Ps__V1__JobState)coord->core.state;
    state->reason = coord_text(coord->core.reason);
    state->patience_ms = coord_patience_ms(coord);
    return state;
}

static void add_restore(struct ps_coord *coord, Ps__V1__AttendState *state)
{
    struct coord_scratch *scratch = &coord->scratch;
    const struct ps_coord_base *base = &coord->core.base;
    Ps__V1__RestoreOrder *order = &scratch->restore;
    ps__v1__restore_order__init(order);
    coord_cut_name(base->generation, base->cut, scratch->cut_name);
    order->generation = coord->core.generation;
    order->cut_generation = base->generation;
    order->cut = base->cut;
    order->name = scratch->cut_name;
    order->dir = coord->base_dir;
    state->restore = order;
}

/* Absolute: again in every message, as long as they stand. */
static void add_orders(struct ps_coord *coord, Ps__V1__AttendState *state,
                       const struct coord_told *now)
{
    state->hold = now->hold;
    state->cut_kept = now->kept;
    if (now->oldest != 0) {
        state->oldest_generation = coord->known[0]->generation;
        state->oldest_cut = now->oldest;
    }
    if (now->cut != 0) {
        ps__v1__cut_order__init(&coord->scratch.cut);
        coord->scratch.cut.cut = now->cut;
        state->cut = &coord->scratch.cut;
    }
    if (now->loads) {
        add_restore(coord, state);
    }
}

Ps__V1__AttendState *coord_state(struct ps_coord *coord, uint32_t member,
                                 const struct coord_told *old, const struct coord_told *now)
{
    const struct ps_coord_member *who = &coord->core.members[member];
    Ps__V1__AttendState *state = start_state(coord);
    if (now->fenced) {
        state->fenced = true;
        if (!ps_coord_core_over(&coord->core)) {
            state->reason = coord_text(who->why);
        }
        return state;
    }
    if (coord->store_lost) {
        return state;
    }
    static const struct coord_told nothing;
    if (old->generation != now->generation || old->loads != now->loads) {
        old = &nothing; /* What it was told was of another time. */
    }
    add_orders(coord, state, now);
    if (who->kind == PS_COORD_SERVER) {
        state->cut_given_up = coord->core.cut.given_up;
    }
    if (old->placement != now->placement) {
        state->placement = coord_placement(coord);
    }
    if (old->catalogue != now->catalogue) {
        state->catalogue = coord_catalogue(coord);
    }
    if (old->sessions != now->sessions) {
        state->sessions = coord_sessions(coord);
    }
    if (old->finished != now->finished) {
        state->finished = coord_finished(coord);
    }
    if (old->consistency != now->consistency) {
        state->consistency = coord_consistency(coord);
    }
    if (old->closed_below != now->closed_below) {
        state->close = coord_close_step(coord);
    }
    if (who->lease != 0 && !ps_coord_core_over(&coord->core)) {
        state->has_lease = true;
        state->lease = held_lease(coord, who);
    }
    return state;
}

Ps__V1__AttendState *coord_state_unknown(struct ps_coord *coord)
{
    Ps__V1__AttendState *state = start_state(coord);
    state->fenced = true;
    state->cluster_id = coord_bytes(coord->cluster_id.bytes, sizeof(coord->cluster_id.bytes));
    if (!ps_coord_core_over(&coord->core)) {
        state->reason = coord_text("the session is not known here");
    }
    return state;
}
