/* server_core.c — see server_core.h. */
#include "coord/server_core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/placement.h"
#include "coord/settle_core.h"

#define DURABILITY_LOG 2u /* As Durability on the wire: from here on a restart has its data. */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct ps_coord_member *server_at(struct ps_coord_core *core, uint32_t place)
{
    PS_ASSERT(core->servers[place] != PS_COORD_NOBODY);
    return &core->members[core->servers[place]];
}

bool ps_coord_server_returns(const struct ps_coord_core *core, uint32_t place)
{
    return core->places[place].durability >= DURABILITY_LOG || core->has_cut;
}

bool ps_coord_core_returns(const struct ps_coord_core *core)
{
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        if (ps_coord_server_returns(core, i)) {
            return true;
        }
    }
    return false;
}

bool ps_coord_core_loads(const struct ps_coord_core *core, uint32_t member)
{
    const struct ps_coord_member *server = &core->members[member];
    return core->base.is && server->kind == PS_COORD_SERVER &&
           core->places[server->server].loaded < core->generation;
}

/* ---- Going -------------------------------------------------------------------------------- */

void ps_coord_server_gone(struct ps_coord_core *core, uint64_t now_ms,
                          const struct ps_coord_member *member)
{
    struct ps_coord_place *place = &core->places[member->server];
    if (&core->members[core->servers[member->server]] != member) {
        return; /* Another process has its place. */
    }
    if (core->placement.version == 0) {
        core->servers[member->server] = PS_COORD_NOBODY; /* It held nothing yet. */
        *place = (struct ps_coord_place){0};
        return;
    }
    char text[PS_ERROR_TEXT_BYTES];
    bool returns = ps_coord_server_returns(core, member->server);
    (void)snprintf(text, sizeof(text), "server %" PRIu32 " (%.128s) is %s: %s", member->server,
                   member->address, returns ? "away" : "lost", member->why);
    if (!returns) {
        ps_coord_core_lose(core, now_ms, text);
        return;
    }
    ps_coord_cut_give_up(&core->cut, now_ms, text);
    if (!place->away) {
        place->away = true;
        place->away_ms = now_ms;
    }
}

void ps_coord_server_back(struct ps_coord_core *core, const struct ps_coord_member *member)
{
    if (&core->members[core->servers[member->server]] == member) {
        core->places[member->server].away = false;
    }
}

/* "2 min", "5 s", or "1500 ms". */
static void duration_text(uint32_t ms, char *text, size_t n_bytes)
{
    const char *unit = ms % 60000 == 0 ? "min" : "s";
    uint32_t number = ms % 60000 == 0 ? ms / 60000 : ms / 1000;
    if (ms % 1000 != 0) {
        unit = "ms";
        number = ms;
    }
    (void)snprintf(text, n_bytes, "%" PRIu32 " %s", number, unit);
}

void ps_coord_server_tick(struct ps_coord_core *core, uint64_t now_ms, bool was_away)
{
    for (uint32_t i = 0; i < core->options.n_servers && core->placement.version != 0; i++) {
        struct ps_coord_place *place = &core->places[i];
        if (place->away && was_away) {
            place->away_ms = now_ms;
        }
        if (!place->away || now_ms - place->away_ms <= core->options.wait_ms) {
            continue;
        }
        const struct ps_coord_member *member = server_at(core, i);
        char waited[24];
        char text[PS_ERROR_TEXT_BYTES];
        duration_text(core->options.wait_ms, waited, sizeof(waited));
        (void)snprintf(text, sizeof(text),
                       "server %" PRIu32 " (%.128s) has not come back within %s "
                       "(--wait-for-server): %s",
                       i, member->address, waited, member->why);
        ps_coord_core_lose(core, now_ms, text);
        return;
    }
}

/* ---- Coming ------------------------------------------------------------------------------- */

static uint32_t find_by_id(const struct ps_coord_core *core, const struct ps_coord_join *join)
{
    for (uint32_t i = 0; i < core->options.n_servers && join->server != NULL; i++) {
        if (!ps_id_none(&join->server->id) && ps_id_equal(&core->places[i].id, &join->server->id)) {
            return i;
        }
    }
    return PS_COORD_NOBODY;
}

static uint32_t find_by_address(const struct ps_coord_core *core, const struct ps_coord_join *join)
{
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        if (core->servers[i] != PS_COORD_NOBODY &&
            strcmp(core->members[core->servers[i]].address, join->address) == 0) {
            return i;
        }
    }
    return PS_COORD_NOBODY;
}

static uint32_t find_away(const struct ps_coord_core *core)
{
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        if (core->places[i].away) {
            return i;
        }
    }
    return PS_COORD_NOBODY;
}

enum ps_status ps_coord_server_admit(const struct ps_coord_core *core,
                                     const struct ps_coord_join *join, uint32_t *ret_place,
                                     struct ps_error *err)
{
    if (join->server != NULL && join->server->generation > core->generation) {
        return ps_fail(err, PS_ERR_INVALID,
                       "the server has data of generation %" PRIu64 ", the cluster is at %" PRIu64
                       ": its data directory belongs to a later life of the job",
                       join->server->generation, core->generation);
    }
    if (join->server != NULL && join->server->generation != 0 && !core->base.is &&
        join->server->generation < core->generation) {
        return ps_fail(err, PS_ERR_INVALID,
                       "the server has data of generation %" PRIu64 ", and the cluster began anew "
                       "with nothing (generation %" PRIu64 "): move its data directory away",
                       join->server->generation, core->generation);
    }
    *ret_place = find_by_id(core, join);
    if (*ret_place == PS_COORD_NOBODY) {
        *ret_place = find_by_address(core, join);
    }
    if (core->placement.version == 0) {
        return PS_OK;
    }
    uint32_t place = *ret_place;
    if (place == PS_COORD_NOBODY) {
        place = find_away(core);
    }
    if (place == PS_COORD_NOBODY || !ps_coord_server_returns(core, place)) {
        return ps_fail(err, PS_ERR_EXISTS,
                       "the cluster has its %" PRIu32 " servers; none can be added while it runs",
                       core->options.n_servers);
    }
    *ret_place = place;
    return PS_OK;
}

static void place_slots(struct ps_coord_core *core)
{
    core->placement.version = core->placement_from + 1;
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        core->placement.primary[slot] = ps_placement_server(slot, core->options.n_servers);
        core->placement.epoch[slot]++;
    }
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        core->places[i].since = core->placement.version;
    }
}

/* Rule 2b: a new incarnation always costs its slots a new epoch. */
static void raise_epochs(struct ps_coord_core *core, uint32_t place)
{
    core->placement.version++;
    core->places[place].since = core->placement.version;
#ifdef PS_PLANT
    if (core->options.plant == PS_COORD_PLANT_EPOCH_KEPT) {
        return;
    }
#endif
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        core->placement.epoch[slot] += core->placement.primary[slot] == place;
    }
}

static void lose_data(struct ps_coord_core *core, uint64_t now_ms, const char *text)
{
    if (!core->has_cut) {
        ps_coord_core_lose(core, now_ms, text);
        return;
    }
    if (ps_coord_core_over(core) || core->wants_back) {
        return;
    }
    core->wants_back = true;
    (void)snprintf(core->reason, sizeof(core->reason), "%s", text);
}

/* A server is back: does it have all that it was known to have? */
static void check_lines(struct ps_coord_core *core, uint64_t now_ms, uint32_t place,
                        const struct ps_coord_server_join *server)
{
    static const struct ps_coord_server_join nothing;
    const struct ps_coord_server_join *has = server != NULL ? server : &nothing;
    const char *address = server_at(core, place)->address;
    char text[PS_ERROR_TEXT_BYTES];
    if (!core->places[place].placed || (core->base.is && !core->base.loaded)) {
        return; /* It had nothing, or loads anew. */
    }
    if (core->base.is && has->generation < core->generation) {
        (void)snprintf(text, sizeof(text),
                       "server %" PRIu32 " (%.80s) came back without its data: generation %" PRIu64
                       " is there, not %" PRIu64,
                       place, address, has->generation, core->generation);
        lose_data(core, now_ms, text);
        return;
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        uint64_t there = has->lines[slot].position;
        if (core->placement.primary[slot] == place &&
            (there == 0 || there < core->lines[slot].position)) {
            (void)snprintf(text, sizeof(text),
                           "server %" PRIu32 " (%.80s) came back without its data: slot %" PRIu32
                           " ends at record %" PRIu64 ", and had at least %" PRIu64,
                           place, address, slot, there,
                           core->lines[slot].position > 0 ? core->lines[slot].position : 1);
            lose_data(core, now_ms, text);
            return;
        }
    }
}

static void note_join(const struct ps_coord_core *core, struct ps_coord_place *place,
                      const struct ps_coord_join *join)
{
    /* Its log may say that the generation began, and not yet in which slots: it loads them anew. */
    bool loads = core->base.is && !core->base.loaded;
    if (join->server != NULL) {
        place->id = join->server->id;
        place->durability = join->server->durability;
        place->loaded = loads ? 0 : join->server->generation;
    } else {
        place->loaded = 0;
    }
    place->away = false;
    place->heard = false;
    place->view = 0;
}

/*
 * A part that cannot be read ends its server every time, and who starts it again would do so for
 * ever.
 */
static void count_try(struct ps_coord_core *core, uint64_t now_ms, uint32_t index)
{
    struct ps_coord_place *place = &core->places[index];
    bool loads = core->base.is && !core->base.loaded;
    if (!loads || place->loaded == core->generation) {
        return;
    }
    place->n_tries++;
    if (place->n_tries >= PS_LOAD_TRIES_MAX) {
        char text[PS_ERROR_TEXT_BYTES];
        (void)snprintf(text, sizeof(text),
                       "server %" PRIu32 " (%.80s) ended %" PRIu32
                       " times before it had loaded snapshot %06" PRIu64 "-%010" PRIu64
                       ": its log says why",
                       index, server_at(core, index)->address, place->n_tries,
                       core->base.generation, core->base.cut);
        ps_coord_core_lose(core, now_ms, text);
    }
}

static void end_former(struct ps_coord_core *core, uint32_t place)
{
    struct ps_coord_member *former = server_at(core, place);
    if (!ps_member_ended(&former->life)) {
        ps_member_leave(&former->life);
        former->why = "a new process took its place";
    }
    former->streaming = false;
}

static void seat_first(struct ps_coord_core *core, uint32_t member, uint32_t place,
                       const struct ps_coord_join *join)
{
    if (place != PS_COORD_NOBODY) { /* It takes the place of its former self. */
        end_former(core, place);
        core->servers[place] = PS_COORD_NOBODY;
    }
    uint32_t free_place = 0;
    while (core->servers[free_place] != PS_COORD_NOBODY) {
        free_place++;
    }
    PS_ASSERT(free_place < core->options.n_servers);
    core->members[member].server = free_place;
    core->servers[free_place] = member;
    core->places[free_place] = (struct ps_coord_place){0};
    note_join(core, &core->places[free_place], join);
    if (ps_coord_core_servers(core) == core->options.n_servers) {
        place_slots(core);
    }
}

/* What a server has that comes in the place of another, or of its former self. */
static void note_join_lines(struct ps_coord_core *core, uint32_t seat,
                            const struct ps_coord_server_join *server)
{
    static const struct ps_coord_position nothing;
    bool loads = core->base.is && !core->base.loaded; /* Its lines begin anew with the cut. */
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        struct ps_coord_position *line = &core->lines[slot];
        if (core->placement.primary[slot] != seat) {
            continue;
        }
        if (loads) {
            *line = nothing;
        } else if (server != NULL && server->lines[slot].position > line->position) {
            *line = server->lines[slot];
        }
    }
}

void ps_coord_server_seat(struct ps_coord_core *core, uint64_t now_ms, uint32_t member,
                          uint32_t seat, const struct ps_coord_join *join)
{
    ps_member_opened(&core->members[member].life, now_ms);
    if (core->placement.version == 0) {
        seat_first(core, member, seat, join);
        return;
    }
    PS_ASSERT(seat < core->options.n_servers);
    end_former(core, seat);
    core->members[member].server = seat;
    core->servers[seat] = member;
    count_try(core, now_ms, seat);
    note_join(core, &core->places[seat], join);
    raise_epochs(core, seat);
    ps_coord_cut_give_up(&core->cut, now_ms, "a server was started again");
    check_lines(core, now_ms, seat, join->server);
    note_join_lines(core, seat, join->server);
}

/* ---- News --------------------------------------------------------------------------------- */

static void raise(uint64_t *number, uint64_t to, uint64_t most)
{
    to = smaller(to, most); /* Nobody has what was never sent. */
    *number = to > *number ? to : *number;
}

static void note_lines(struct ps_coord_core *core, uint32_t place, const struct ps_coord_acks *acks)
{
    for (uint32_t i = 0; i < acks->n_lines; i++) {
        const struct ps_coord_line *line = &acks->lines[i];
        PS_ASSERT(line->slot < PS_SLOTS);
        if (core->placement.primary[line->slot] == place &&
            line->end.position > core->lines[line->slot].position) {
            core->lines[line->slot] = line->end;
        }
    }
}

static void note_lost_slot(struct ps_coord_core *core, uint64_t now_ms,
                           const struct ps_coord_member *server, uint32_t lost_slot)
{
    if (lost_slot == 0 || lost_slot > PS_SLOTS ||
        core->placement.primary[lost_slot - 1] != server->server) {
        return;
    }
    char text[PS_ERROR_TEXT_BYTES];
    (void)snprintf(text, sizeof(text),
                   "slot %" PRIu32 " of server %" PRIu32
                   " (%.128s) lacks records that it had acknowledged",
                   lost_slot - 1, server->server, server->address);
    lose_data(core, now_ms, text);
}

/* Of the present epochs and generation: what it said of others is void. */
static void take_acks(struct ps_coord_core *core, uint64_t now_ms, struct ps_coord_member *server,
                      const struct ps_coord_acks *acks)
{
    struct ps_coord_place *place = &core->places[server->server];
    raise(&server->acks.sessions, acks->sessions, core->sessions_version);
    raise(&server->acks.catalogue, acks->catalogue, core->catalogue_version);
    raise(&server->acks.finished, acks->finished, core->finished_version);
    raise(&server->acks.closed_steps, acks->closed_steps,
          core->close.decided ? core->close.step + 1 : 0);
    place->heard = true;
    place->view = acks->min_clock > place->view ? acks->min_clock : place->view;
    core->dirty = core->dirty || !place->placed;
    place->placed = true;
    note_lines(core, server->server, acks);
    ps_coord_cut_reported(&core->cut, now_ms, server->server, &acks->cut);
    note_lost_slot(core, now_ms, server, acks->lost_slot);
}

void ps_coord_core_acks(struct ps_coord_core *core, uint64_t now_ms, uint32_t member,
                        const struct ps_coord_acks *acks)
{
    PS_ASSERT(member < core->n_members);
    struct ps_coord_member *server = &core->members[member];
    if (!ps_member_heard(&server->life, now_ms) || server->kind != PS_COORD_SERVER) {
        return;
    }
    ps_coord_server_back(core, server);
    struct ps_coord_place *place = &core->places[server->server];
    raise(&place->loaded, acks->loaded, core->generation);
    raise(&server->acks.placement, acks->placement, core->placement.version);
    if (core->placement.version != 0 && server->acks.placement >= place->since &&
        !ps_coord_core_loads(core, member)) {
        take_acks(core, now_ms, server, acks);
    }
    ps_coord_settle(core, now_ms);
}
