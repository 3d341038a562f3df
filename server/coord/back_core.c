/* back_core.c — see back_core.h. */
#include "coord/back_core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coord/settle_core.h"

static void raise(uint64_t *number, uint64_t to)
{
    *number = to > *number ? to : *number;
}

/* ---- Taking over --------------------------------------------------------------------------- */

static struct ps_coord_member *add_member(struct ps_coord_core *core, uint64_t now_ms,
                                          const char *name, const char *address)
{
    PS_ASSERT(core->n_members < PS_COORD_MEMBERS_MAX);
    PS_ASSERT(strlen(name) <= PS_NAME_BYTES_MAX && strlen(address) <= PS_ADDRESS_BYTES_MAX);
    struct ps_coord_member *member = &core->members[core->n_members++];
    *member = (struct ps_coord_member){.used = true, .life = ps_member_joined(now_ms), .why = ""};
    memcpy(member->name, name, strlen(name) + 1);
    memcpy(member->address, address, strlen(address) + 1);
    return member;
}

/* Whose process is still the same comes back as it was; it has until it is silent for too long. */
static void resume_place(struct ps_coord_core *core, uint64_t now_ms, uint32_t index,
                         const struct ps_coord_stored_place *from)
{
    struct ps_coord_member *member = add_member(core, now_ms, from->name, from->address);
    core->servers[index] = core->n_members - 1;
    member->kind = PS_COORD_SERVER;
    member->session = from->incarnation;
    member->number = from->number;
    member->server = index;
    ps_member_opened(&member->life, now_ms);
    core->places[index] = (struct ps_coord_place){
        .id = from->id,
        .durability = from->durability,
        .placed = from->placed,
        .since = core->placement.version,
        .loaded = core->base.is && core->base.loaded ? core->generation : 0,
    };
    if (from->gone) {
        ps_member_leave(&member->life);
        member->why = "it left";
        core->places[index].away = true;
        core->places[index].away_ms = now_ms;
    }
}

void ps_coord_resume_places(struct ps_coord_core *core, uint64_t now_ms,
                            const struct ps_coord_stored_place *places)
{
    PS_ASSERT(core->placement.version != 0);
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        resume_place(core, now_ms, i, &places[i]);
    }
}

enum ps_status ps_coord_resume_session(struct ps_coord_core *core, uint64_t now_ms,
                                       const struct ps_coord_stored_session *from,
                                       struct ps_error *err)
{
    if (core->n_members == PS_COORD_MEMBERS_MAX) {
        return ps_fail(err, PS_ERR_CORRUPT, "more sessions than there may be are open");
    }
    if (from->lease != 0 && !(core->has_job && ps_lease_pool_take(&core->pool, from->lease))) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "session %" PRIu64 " cannot hold lease %" PRIu64 ", which is not free",
                       from->number, from->lease);
    }
    struct ps_coord_member *member = add_member(core, now_ms, from->name, "");
    member->kind = from->kind;
    member->session = from->session;
    member->number = from->number;
    member->unleased = from->unleased;
    member->opened_version = from->opened_version;
    member->closed_version = from->closing ? from->closed_version : 0;
    raise(&member->clock, from->clock);
    member->lease = from->lease;
    member->lease_clock = from->lease_clock;
    member->lease_units = from->lease_units;
    member->staged = from->staged;
    if (from->lease != 0) { /* Whatever the store says: a clock that counts is not behind. */
        raise(&member->clock, core->min_clock);
    }
    if (from->opened) {
        ps_member_opened(&member->life, now_ms);
    }
    if (from->closing) {
        ps_member_leave(&member->life);
        member->closing = true;
        member->why = "it had ended when the coordinator was started again";
    }
    return PS_OK;
}

void ps_coord_resumed(struct ps_coord_core *core)
{
    core->taking_over = true;
    core->has_cut = core->has_cut || core->base.is;
    core->state = core->started ? PS_COORD_RUNNING : PS_COORD_WAITING;
    if (core->base.is && !core->base.loaded) {
        core->state = PS_COORD_RESTORING;
    }
    core->dirty = true;
}

/* ---- Going back ---------------------------------------------------------------------------- */

void ps_coord_go_beyond(struct ps_coord_core *core, const struct ps_coord_beyond *beyond)
{
    PS_ASSERT(core->placement.version == 0);
    raise(&core->next_session_number, beyond->session_number);
    raise(&core->sessions_version, beyond->sessions_version);
    raise(&core->finished_version, beyond->finished_version);
    raise(&core->placement_from, beyond->placement_version);
    memcpy(core->placement.epoch, beyond->epochs, sizeof(core->placement.epoch));
}

/* All sessions are over, in every slot, by what the slots load. */
static void end_sessions(struct ps_coord_core *core)
{
    core->sessions_version++;
    for (uint32_t i = 0; i < core->n_members; i++) {
        struct ps_coord_member *member = &core->members[i];
        if (!member->used || member->kind == PS_COORD_SERVER) {
            continue;
        }
        if (!ps_member_ended(&member->life)) {
            ps_member_leave(&member->life);
            member->why = "the job went back to a cut: join anew";
        }
        if (member->closed_version == 0) {
            member->closed_version = core->sessions_version;
        }
        member->closing = false;
        member->ghost = false;
        member->lease = 0;
        member->staged = (struct ps_coord_staged){0};
    }
}

static void renew_places(struct ps_coord_core *core)
{
    if (core->placement.version != 0) { /* Else the placement makes them. */
        core->placement.version++;
        for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
            core->placement.epoch[slot]++;
        }
    }
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        core->places[i].since = core->placement.version;
        core->places[i].view = 0;
        core->places[i].n_tries = 0;
        if (core->servers[i] != PS_COORD_NOBODY) {
            uint64_t placement = core->members[core->servers[i]].acks.placement;
            core->members[core->servers[i]].acks = (struct ps_coord_acks){.placement = placement};
        }
    }
    memset(core->lines, 0, sizeof(core->lines));
}

void ps_coord_go_back(struct ps_coord_core *core, uint64_t now_ms, const struct ps_coord_back *back,
                      const char *reason)
{
    PS_ASSERT(!ps_coord_core_over(core));
    PS_ASSERT((back->pool != NULL) == core->has_job);
    ps_coord_cut_give_up(&core->cut, now_ms, "the job went back to an earlier one");
    core->generation =
        1 + (back->cut_generation > core->generation ? back->cut_generation : core->generation);
    core->base =
        (struct ps_coord_base){.is = true, .generation = back->cut_generation, .cut = back->cut};
    core->has_cut = true;
    core->wants_back = false;
    core->taking_over = false;
    core->min_clock = back->min_clock;
    core->close = (struct ps_coord_close){0};
    core->done_ms = 0;
    core->finished_version++;
    if (back->pool != NULL) {
        core->pool = *back->pool;
    }
    if (back->started && !core->started) {
        core->started = true;
        core->started_ms = now_ms;
    }
    end_sessions(core);
    renew_places(core);
    (void)snprintf(core->back_why, sizeof(core->back_why), "%s", reason);
    core->reason[0] = '\0';
    core->state = PS_COORD_RESTORING;
    core->dirty = true;
    ps_coord_settle(core, now_ms);
}
