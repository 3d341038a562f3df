/*
 * attend_state.c — what the coordinator says, as one update of all lanes.
 *
 * The coordinator's bytes are foreign too: lists are bounded and ordered here, before a lane takes
 * them over.
 */
#include <string.h>

#include "base/assert.h"
#include "obs/log.h"
#include "svc/attend_impl.h"
#include "svc/table_def.h"
#include "wire/pack.h"

/* The arrays of an update, in one block of memory. */
struct update_memory {
    struct ps_open_session sessions[PS_SESSIONS_MAX];
    uint64_t staged[PS_SESSIONS_MAX];
    struct ps_seen_range ranges[PS_SEEN_FINISHED_MAX];
    struct ps_close_entry entries[PS_SESSIONS_MAX];
};

/* Which slots are ours: the placement must name this process start, not a life before it. */
static enum ps_status read_slots(const struct ps_attend *attend, const Ps__V1__Placement *from,
                                 uint64_t *ret, struct ps_error *err)
{
    *ret = 0;
    if (from->n_primary != PS_SLOTS || from->n_epoch != PS_SLOTS) {
        return ps_fail(err, PS_ERR_INVALID, "a placement of %zu slots", from->n_primary);
    }
    uint32_t me = attend->view.index;
    struct ps_id incarnation = {{0}};
    if (me < from->n_servers) {
        const Ps__V1__Server *server = from->servers[me];
        (void)ps_id_from(server->incarnation.data, server->incarnation.len, &incarnation);
    }
    bool named = ps_id_equal(&incarnation, &attend->options.session);
    for (uint32_t slot = 0; slot < PS_SLOTS && named; slot++) {
        *ret |= (uint64_t)(from->primary[slot] == me) << slot;
    }
    return PS_OK;
}

static enum ps_status take_placement(struct ps_attend *attend, const Ps__V1__Placement *from,
                                     struct ps_lane_update *update, struct ps_error *err)
{
    uint64_t slots = 0;
    enum ps_status status = read_slots(attend, from, &slots, err);
    if (status != PS_OK) {
        return status;
    }
    attend->slots = slots;
    attend->knows_placement = true;
    attend->view.n_servers = (uint32_t)from->n_servers;
    update->has_placement = true;
    update->placement_version = from->version;
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        update->primary[slot] = slots >> slot & 1u;
        update->epoch[slot] = from->epoch[slot];
    }
    return PS_OK;
}

static enum ps_status define_table(struct ps_attend *attend, const Ps__V1__Table *table,
                                   struct ps_error *err)
{
    struct ps_catalogue *catalogue = attend->options.catalogue;
    uint32_t i = table->number;
    enum ps_status status =
        ps_table_def_read(table, &catalogue->layouts[i], &catalogue->tables[i], err);
    if (status == PS_OK) {
        attend->n_tables = i + 1;
        ps_log(PS_LOG_INFO, "table.defined", "table=%s number=%u elements=%llu optimizer=%s",
               catalogue->tables[i].spec.name, i,
               (unsigned long long)catalogue->layouts[i].n_elements,
               catalogue->tables[i].optim->name);
    }
    return status;
}

/* One that is known must be the same. */
static enum ps_lasting_when log_table(struct ps_attend *attend, const Ps__V1__Table *table,
                                      struct ps_error *err)
{
    struct ps_lasting *lasting = attend->options.lasting;
    if (lasting == NULL) {
        return PS_LASTING_DONE;
    }
    size_t n_bytes = protobuf_c_message_get_packed_size(&table->base);
    uint8_t *bytes = ps_mem_alloc(attend->options.mem, PS_MEM_CALLS, n_bytes + 1);
    if (bytes == NULL) {
        (void)ps_fail(err, PS_ERR_NOMEM, "no memory for the definition of a table");
        return PS_LASTING_NEVER;
    }
    bool fits = false;
    n_bytes = ps_wire_pack(&table->base, bytes, n_bytes, &fits);
    PS_ASSERT(fits);
    enum ps_lasting_when when = lasting->ops->table(lasting, table->number, bytes, n_bytes, err);
    ps_mem_free(bytes);
    return when;
}

static enum ps_status take_catalogue(struct ps_attend *attend, const Ps__V1__Catalogue *from,
                                     struct ps_error *err)
{
    for (size_t i = 0; i < from->n_tables; i++) {
        const Ps__V1__Table *table = from->tables[i];
        if (i >= PS_TABLES_MAX || table->number != i) {
            return ps_fail(err, PS_ERR_INVALID, "table number %u out of order", table->number);
        }
        enum ps_lasting_when when = log_table(attend, table, err);
        if (when == PS_LASTING_NEVER) {
            return err->status;
        }
        attend->n_logging += when == PS_LASTING_LATER ? 1 : 0;
        enum ps_status status = i < attend->n_tables ? PS_OK : define_table(attend, table, err);
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

static enum ps_status take_sessions(struct ps_attend *attend, const Ps__V1__OpenSessions *from,
                                    struct ps_error *err)
{
    size_t n_staged = from->staged != NULL ? from->staged->n_numbers : 0;
    if (from->n_sessions > PS_SESSIONS_MAX || n_staged > PS_SESSIONS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%zu open sessions, %zu that have staged",
                       from->n_sessions, n_staged);
    }
    uint64_t before = 0;
    for (size_t i = 0; i < from->n_sessions; i++) {
        struct ps_open_session *to = &attend->sessions[i];
        to->number = from->sessions[i]->number;
        if (to->number <= before ||
            !ps_id_from(from->sessions[i]->session.data, from->sessions[i]->session.len, &to->id)) {
            return ps_fail(err, PS_ERR_INVALID, "open sessions are not in order");
        }
        before = to->number;
    }
    ps_ledger_sessions(attend->options.svc->ledger, attend->sessions, (uint32_t)from->n_sessions);
    attend->n_sessions = (uint32_t)from->n_sessions;
    attend->sessions_version = from->version;
    attend->knows_staged = from->staged != NULL;
    attend->n_staged = (uint32_t)n_staged;
    for (size_t i = 0; i < n_staged; i++) {
        attend->staged[i] = from->staged->numbers[i];
    }
    ps_metric_set(attend->options.metrics, PS_METRIC_sessions_open, from->n_sessions);
    return PS_OK;
}

static enum ps_status take_finished(struct ps_attend *attend, const Ps__V1__FinishedLeases *from,
                                    struct ps_error *err)
{
    if (from->n_ranges > PS_SEEN_FINISHED_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%zu ranges of finished leases", from->n_ranges);
    }
    uint64_t before = 0;
    for (size_t i = 0; i < from->n_ranges; i++) {
        struct ps_seen_range range = {.first = from->ranges[i]->first,
                                      .last = from->ranges[i]->last};
        if (range.first <= before || range.last < range.first) {
            return ps_fail(err, PS_ERR_INVALID, "finished leases are not in order");
        }
        before = range.last;
        attend->ranges[i] = range;
    }
    attend->n_ranges = (uint32_t)from->n_ranges;
    attend->finished_version = from->version;
    return PS_OK;
}

static void take_consistency(const Ps__V1__Consistency *from, struct ps_lane_update *update)
{
    update->has_consistency = true;
    update->aggregate = from->aggregate;
    update->gate_bound = from->mode == PS__V1__CONSISTENCY_MODE__SSP ? from->bound : 0;
    switch (from->mode) {
    case PS__V1__CONSISTENCY_MODE__BSP:
    case PS__V1__CONSISTENCY_MODE__SSP: update->gate_mode = PS_GATE_BOUNDED; break;
    case PS__V1__CONSISTENCY_MODE__ASP: update->gate_mode = PS_GATE_UNBOUNDED; break;
    case PS__V1__CONSISTENCY_MODE__CONSISTENCY_NONE:
    case _PS__V1__CONSISTENCY_MODE_IS_INT_SIZE:
    default: update->gate_mode = PS_GATE_CLOSED; break; /* Or of a newer coordinator. */
    }
}

static enum ps_status take_close(const Ps__V1__CloseStep *from, struct ps_lane_update *update,
                                 struct ps_error *err)
{
    struct update_memory *memory = update->memory;
    if (from->n_entries > PS_SESSIONS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%zu units in one step", from->n_entries);
    }
    for (size_t i = 0; i < from->n_entries; i++) {
        memory->entries[i] = (struct ps_close_entry){
            .session = from->entries[i]->session_number,
            .lease = from->entries[i]->lease,
            .unit = from->entries[i]->unit,
            .rows = from->entries[i]->rows,
        };
        const struct ps_close_entry *entry = &memory->entries[i];
        if (i > 0 && (entry->lease < entry[-1].lease ||
                      (entry->lease == entry[-1].lease && entry->unit <= entry[-1].unit))) {
            return ps_fail(err, PS_ERR_INVALID, "units of a closed step are not in order");
        }
    }
    update->has_close = true;
    update->close = (struct ps_record_close){
        .step = from->step, .entries = memory->entries, .n_entries = (uint32_t)from->n_entries};
    return PS_OK;
}

/* Lists are repeated with a placement: a slot that becomes ours must hear them. */
static void add_lists(const struct ps_attend *attend, struct ps_lane_update *update)
{
    struct update_memory *memory = update->memory;
    memcpy(memory->sessions, attend->sessions, attend->n_sessions * sizeof(attend->sessions[0]));
    update->has_sessions = attend->sessions_version > 0;
    update->sessions = (struct ps_record_sessions){.version = attend->sessions_version,
                                                   .sessions = memory->sessions,
                                                   .n_sessions = attend->n_sessions,
                                                   .knows_staged = attend->knows_staged,
                                                   .staged = memory->staged,
                                                   .n_staged = attend->n_staged};
    memcpy(memory->staged, attend->staged, attend->n_staged * sizeof(attend->staged[0]));
    memcpy(memory->ranges, attend->ranges, attend->n_ranges * sizeof(attend->ranges[0]));
    update->has_finish = attend->finished_version > 0;
    update->finish = (struct ps_record_finish){.version = attend->finished_version,
                                               .ranges = memory->ranges,
                                               .n_ranges = attend->n_ranges};
}

static enum ps_status read_groups(struct ps_attend *attend, const Ps__V1__AttendState *state,
                                  struct ps_lane_update *update, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    if (state->placement != NULL) {
        status = take_placement(attend, state->placement, update, err);
    }
    if (status == PS_OK && state->sessions != NULL) {
        status = take_sessions(attend, state->sessions, err);
    }
    if (status == PS_OK && state->finished != NULL) {
        status = take_finished(attend, state->finished, err);
    }
    if (status == PS_OK && state->consistency != NULL) {
        take_consistency(state->consistency, update);
    }
    if (status == PS_OK && state->close != NULL) {
        status = take_close(state->close, update, err);
    }
    if (state->placement != NULL || state->sessions != NULL || state->finished != NULL) {
        add_lists(attend, update);
    }
    return status;
}

static void free_update(struct ps_lane_update *update)
{
    ps_mem_free(update->memory);
    ps_mem_free(update);
}

static void run_done(struct ps_mail *mail)
{
    struct ps_lane_update *update = PS_CONTAINER_OF(mail, struct ps_lane_update, done_mail);
    struct ps_attend *attend = update->arg;
    ps_attend_update_done(attend, update);
    free_update(update);
}

/* On the last lane: home to the main executor. */
static void post_done(struct ps_lane_update *update)
{
    struct ps_attend *attend = update->arg;
    update->done_mail.run = run_done;
    ps_exec_post(attend->options.exec, &update->done_mail);
}

static enum ps_status post_update(struct ps_attend *attend, const Ps__V1__AttendState *state,
                                  struct ps_error *err)
{
    struct ps_mem *mem = attend->options.mem;
    bool lists = state->placement != NULL || state->sessions != NULL || state->finished != NULL ||
                 state->close != NULL;
    struct ps_lane_update *update = ps_mem_alloc(mem, PS_MEM_CALLS, sizeof(*update));
    if (update == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the coordinator's news");
    }
    if (lists) {
        update->memory = ps_mem_alloc(mem, PS_MEM_CALLS, sizeof(struct update_memory));
        if (update->memory == NULL) {
            free_update(update);
            return ps_fail(err, PS_ERR_NOMEM, "no memory for the coordinator's news");
        }
    }
    enum ps_status status = read_groups(attend, state, update, err);
    if (status != PS_OK) {
        free_update(update);
        return status;
    }
    update->term = attend->term;
    update->generation = attend->generation;
    update->n_tables = attend->n_tables;
    update->min_clock = state->min_clock;
    update->done = post_done;
    update->arg = attend;
    atomic_init(&update->status, PS_OK);
    atomic_init(&update->n_pending, attend->options.n_lanes);
    if (state->min_clock > attend->min_clock) {
        attend->min_clock = state->min_clock;
    }
    attend->n_updates++;
    for (uint32_t i = 0; i < attend->options.n_lanes; i++) {
        ps_lane_post_update(attend->options.lanes[i], update);
    }
    return PS_OK;
}

/* ---- One state after the other -------------------------------------------------------------- */

/* It is through, or there is no sense in going on with it. */
static void let_go(struct ps_attend *attend)
{
    ps_wire_unpacked_free(&attend->held->base);
    attend->held = NULL;
}

static void give_up(struct ps_attend *attend, const struct ps_error *err)
{
    if (attend->n_logging == 0 && !attend->restoring) {
        let_go(attend);
    }
    if (err->status == PS_ERR_NOMEM) {
        ps_log(PS_LOG_WARN, "attend.no_memory", "why=\"%s\"", err->text);
        ps_attend_start_over(attend, PS_ERR_NOMEM);
        return;
    }
    ps_attend_lose(attend, err);
}

static bool copy_name(char *to, size_t n_room, const char *from)
{
    size_t n = strlen(from);
    bool fits = n < n_room;
    memcpy(to, from, fits ? n + 1 : 0);
    return fits;
}

/* @return PS_LASTING_DONE: there is nothing to be loaded, or it is */
static enum ps_lasting_when restore(struct ps_attend *attend, const Ps__V1__AttendState *state,
                                    struct ps_error *err)
{
    const Ps__V1__RestoreOrder *from = state->restore;
    struct ps_lasting *lasting = attend->options.lasting;
    if (from == NULL || from->generation <= attend->generation_restored) {
        return PS_LASTING_DONE;
    }
    if (state->placement == NULL && !attend->knows_placement) {
        return PS_LASTING_DONE; /* What is ours is not decided; the order comes again with it. */
    }
    struct ps_lasting_restore order = {.generation = from->generation,
                                       .cut_generation = from->cut_generation,
                                       .cut = from->cut,
                                       .slots = attend->slots};
    if (!copy_name(order.name, sizeof(order.name), from->name) ||
        !copy_name(order.dir, sizeof(order.dir), from->dir)) {
        (void)ps_fail(err, PS_ERR_INVALID, "a snapshot with a name or directory too long");
        return PS_LASTING_NEVER;
    }
    if (state->placement != NULL &&
        read_slots(attend, state->placement, &order.slots, err) != PS_OK) {
        return PS_LASTING_NEVER;
    }
    if (lasting == NULL) {
        (void)ps_fail(err, PS_ERR_UNSUPPORTED, "this server has no way to load a snapshot");
        return PS_LASTING_NEVER;
    }
    enum ps_lasting_when when = lasting->ops->restore(lasting, &order, err);
    attend->restoring = when == PS_LASTING_LATER;
    return when;
}

/* The tables are logged: load what is to be loaded, then tell the lanes. */
static void go_on(struct ps_attend *attend)
{
    struct ps_error err;
    Ps__V1__AttendState *state = attend->held;
    switch (restore(attend, state, &err)) {
    case PS_LASTING_LATER: return;
    case PS_LASTING_NEVER: give_up(attend, &err); return;
    case PS_LASTING_DONE: break;
    }
    if (post_update(attend, state, &err) != PS_OK) {
        give_up(attend, &err);
        return;
    }
    ps_attend_take_cut(attend, state);
    ps_attend_take_job(attend, state);
    let_go(attend);
}

void ps_attend_hold_state(struct ps_attend *attend, Ps__V1__AttendState *state)
{
    struct ps_error err;
    attend->held = state;
    if (state->catalogue != NULL && take_catalogue(attend, state->catalogue, &err) != PS_OK) {
        give_up(attend, &err);
    } else if (attend->n_logging == 0) {
        go_on(attend);
    }
}

/* An answer has come; what it was asked for may be of no use any more. */
static void answered(struct ps_attend *attend, const struct ps_error *err)
{
    if (err->status != PS_OK && attend->view.lost.status == PS_OK) {
        give_up(attend, err);
    }
    bool useless = attend->stopping || attend->deaf || attend->view.lost.status != PS_OK;
    if (attend->held != NULL && attend->n_logging == 0 && !attend->restoring) {
        if (useless) {
            let_go(attend);
        } else {
            go_on(attend);
        }
    }
    ps_attend_take_waiting(attend);
    ps_attend_stop_if_idle(attend);
}

void ps_attend_logged(struct ps_attend *attend, const struct ps_error *err)
{
    PS_ASSERT(attend->n_logging > 0);
    attend->n_logging--;
    answered(attend, err);
}

void ps_attend_restored(struct ps_attend *attend, const struct ps_error *err)
{
    PS_ASSERT(attend->restoring);
    attend->restoring = false;
    if (err->status == PS_OK) {
        attend->generation_restored = attend->held->restore->generation;
    }
    answered(attend, err);
}

void ps_attend_broke(struct ps_attend *attend, const struct ps_error *err)
{
    ps_attend_lose(attend, err);
}
