/* settle_cut_core.c — when a cut goes on, see settle_core.h and cut_core.h. */
#include "base/assert.h"
#include "coord/settle_core.h"

bool ps_coord_may_cut(const struct ps_coord_core *core, const char **ret_why)
{
    *ret_why = NULL;
    if (!core->options.cuts) {
        *ret_why = "there is no directory for snapshots (--snapshot-dir)";
    } else if (ps_coord_core_over(core)) {
        *ret_why = core->reason;
    } else if (core->placement.version == 0) {
        *ret_why = "not all servers have joined yet";
    } else if (core->taking_over) {
        *ret_why = "the coordinator was just started again and has not heard everybody yet";
    } else if (core->wants_back || core->state == PS_COORD_RESTORING) {
        *ret_why = "the job is going back to a cut";
    }
    for (uint32_t i = 0; i < core->options.n_servers && *ret_why == NULL; i++) {
        if (core->places[i].away) {
            *ret_why = "a server is away";
        }
    }
    return *ret_why == NULL;
}

/* A server that is silent for a moment, or has not said yet that it knows its slots, would not
 * take its part before that: nobody holds for it meanwhile. */
static bool all_can_take(const struct ps_coord_core *core)
{
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        const struct ps_coord_member *server = &core->members[core->servers[i]];
        if (server->life.state != PS_MEMBER_LIVE ||
            server->acks.placement < core->places[i].since) {
            return false;
        }
    }
    return true;
}

/* Those that could be in the middle of a unit: who has ended is not waited for, and what is staged
 * is in no step yet. */
static bool all_hold(const struct ps_coord_core *core)
{
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        if (member->used && member->lease != 0 && !member->closing && !member->staged.is &&
            member->held != core->cut.number) {
            return false;
        }
    }
    return true;
}

/* An ended session that still counts may have pushed a part of a unit. */
static bool all_known(const struct ps_coord_core *core)
{
    for (uint32_t i = 0; i < core->n_members; i++) {
        if (core->members[i].used && core->members[i].closing && core->members[i].lease != 0) {
            return false;
        }
    }
    return true;
}

static void hold(struct ps_coord_core *core, uint64_t now_ms)
{
    struct ps_coord_cut *cut = &core->cut;
    bool held = all_hold(core);
    if (!held && now_ms - cut->begun_ms < PS_HOLD_MS) {
        return;
    }
    if (!core->close.pending) { /* Else it comes with the step that is being closed. */
        ps_coord_cut_held(cut, held && all_known(core));
    }
}

static bool is_due(const struct ps_coord_core *core, uint64_t now_ms)
{
    uint32_t every_ms = core->options.snapshot_every_ms;
    bool works = core->state == PS_COORD_RUNNING ||
                 (core->state == PS_COORD_WAITING && core->catalogue_version > 0);
    return every_ms > 0 && works && now_ms - core->cut.begun_ms >= every_ms;
}

static void limit(struct ps_coord_cut *cut, uint64_t now_ms)
{
    if (cut->state == PS_COORD_CUT_TAKE && now_ms - cut->begun_ms > PS_CUT_TAKE_MS) {
        ps_coord_cut_give_up(cut, now_ms, "a server did not take its part within 10 s");
    } else if (cut->state == PS_COORD_CUT_WRITE && now_ms - cut->taken_ms > PS_CUT_WRITE_MS) {
        ps_coord_cut_give_up(cut, now_ms, "a server did not write its part within an hour");
    }
}

void ps_coord_settle_cut(struct ps_coord_core *core, uint64_t now_ms)
{
    struct ps_coord_cut *cut = &core->cut;
    const char *why = NULL;
    if (!ps_coord_cut_under_way(cut) && (cut->wanted || is_due(core, now_ms)) &&
        ps_coord_may_cut(core, &why) && all_can_take(core)) {
        ps_coord_cut_begin(cut, now_ms, core->options.n_servers);
        core->dirty = true; /* Its number is never used again. */
    }
    if (cut->state == PS_COORD_CUT_HOLD) {
        hold(core, now_ms);
    }
    if (ps_coord_cut_under_way(cut) && now_ms - cut->begun_ms >= PS_HOLD_MS) {
        ps_coord_cut_release(cut, now_ms);
    }
    limit(cut, now_ms);
}
