/* settle_core.c — see settle_core.h. */
#include "coord/settle_core.h"

#include "base/assert.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct ps_coord_acks ps_coord_acked_by_all(const struct ps_coord_core *core)
{
    if (core->placement.version == 0) {
        return (struct ps_coord_acks){0};
    }
    struct ps_coord_acks all = core->members[core->servers[0]].acks;
    for (uint32_t i = 1; i < core->options.n_servers; i++) {
        const struct ps_coord_acks *one = &core->members[core->servers[i]].acks;
        all.placement = smaller(all.placement, one->placement);
        all.sessions = smaller(all.sessions, one->sessions);
        all.catalogue = smaller(all.catalogue, one->catalogue);
        all.finished = smaller(all.finished, one->finished);
        all.closed_steps = smaller(all.closed_steps, one->closed_steps);
    }
    return all;
}

static bool takes_leases(const struct ps_coord_member *member)
{
    return member->used && member->kind == PS_COORD_WORKER && !member->unleased;
}

/* Rule 9: a session is open once every slot has a list with it, so FENCED always means closed. */
static void open_sessions(struct ps_coord_core *core, uint64_t now_ms, uint64_t acked)
{
    for (uint32_t i = 0; i < core->n_members; i++) {
        struct ps_coord_member *member = &core->members[i];
        if (!member->used || member->kind == PS_COORD_SERVER ||
            member->life.state != PS_MEMBER_JOINING || acked < member->opened_version) {
            continue;
        }
        ps_member_opened(&member->life, now_ms);
        if (takes_leases(member) && !core->has_first_worker) {
            core->has_first_worker = true;
            core->first_worker_ms = now_ms;
        }
    }
}

/* A finish is durable before it is announced (rule 1): `dirty` makes the shell write it first. */
void ps_coord_advance(struct ps_coord_core *core, struct ps_coord_member *member,
                      const struct ps_lease_news *news)
{
    PS_ASSERT(member->lease != 0);
    if (ps_lease_pool_advance(&core->pool, member->lease, news)) {
        member->lease = 0;
        core->finished_version++;
        core->dirty = true;
    }
}

static struct ps_coord_member *holder_of(struct ps_coord_core *core, uint64_t lease)
{
    for (uint32_t i = 0; i < core->n_members; i++) {
        if (core->members[i].used && core->members[i].lease == lease) {
            return &core->members[i];
        }
    }
    return NULL;
}

/* Every slot has applied the closed step: the clocks of all go on, progress that of the listed. */
static void complete_step(struct ps_coord_core *core, uint64_t acked_steps)
{
    struct ps_coord_close *close = &core->close;
    if (!close->pending || acked_steps < close->step + 1) {
        return;
    }
    close->pending = false;
    core->min_clock = larger(core->min_clock, close->step + 1);
    for (uint32_t i = 0; i < core->n_members; i++) {
        struct ps_coord_member *member = &core->members[i];
        if (member->used && ps_coord_core_counted(member)) {
            member->clock = larger(member->clock, close->step + 1);
            member->staged = (struct ps_coord_staged){0};
        }
    }
    for (uint32_t i = 0; i < close->n_entries; i++) {
        struct ps_coord_member *member = holder_of(core, close->entries[i].lease);
        PS_ASSERT(member != NULL); /* What is staged is not let go. */
        PS_ASSERT(member->number == close->entries[i].session_number);
        struct ps_lease_news news = {.units_done = close->entries[i].unit + 1};
        ps_coord_advance(core, member, &news);
    }
}

/*
 * An ended session's clock leaves the minimum, and its lease returns, only when every slot has
 * closed it. If it staged something, only when that step is closed too (rule 7d): else its unit
 * could be staged a second time in the same step. What it staged without saying so is on no list.
 */
static void let_go(struct ps_coord_core *core, uint64_t acked)
{
    for (uint32_t i = 0; i < core->n_members; i++) {
        struct ps_coord_member *member = &core->members[i];
        if (!member->used || !member->closing || acked < member->closed_version ||
            member->staged.is) {
            continue;
        }
        member->closing = false;
        if (member->lease != 0) {
#ifdef PS_PLANT
            member->ghost = core->options.plant == PS_COORD_PLANT_DEAD_IN_MINIMUM &&
                            member->life.state == PS_MEMBER_DEAD;
#endif
            ps_lease_pool_return(&core->pool, member->lease);
            member->lease = 0;
            core->n_returned++;
        }
    }
}

/* Planted: after a takeover nobody is waited for, and only who has reported counts. */
static bool believed_all(const struct ps_coord_core *core)
{
#ifdef PS_PLANT
    return core->options.plant != PS_COORD_PLANT_TAKEOVER_CLOCKS;
#else
    (void)core;
    return true;
#endif
}

static bool believed(const struct ps_coord_core *core, const struct ps_coord_member *member)
{
    return member->reported || believed_all(core);
}

/* With nobody counted the min clock stays as it is (rule 6). */
static void raise_min_clock(struct ps_coord_core *core)
{
    uint64_t min = UINT64_MAX;
    bool any = false;
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        if (member->used && ps_coord_core_counted(member) && believed(core, member)) {
            min = smaller(min, member->clock);
            any = true;
        }
    }
    if (any) {
        PS_ASSERT(min >= core->min_clock || !believed_all(core));
        core->min_clock = larger(core->min_clock, min);
    }
}

static bool is_open_worker(const struct ps_coord_member *member)
{
    return takes_leases(member) &&
           (member->life.state == PS_MEMBER_LIVE || member->life.state == PS_MEMBER_SUSPECT);
}

static void start_training(struct ps_coord_core *core, uint64_t now_ms)
{
    if (!core->has_job || core->started) {
        return;
    }
    uint32_t n_open = 0;
    for (uint32_t i = 0; i < core->n_members; i++) {
        n_open += is_open_worker(&core->members[i]);
    }
    uint32_t timeout_ms = core->job.start_timeout_ms;
    bool waited =
        timeout_ms > 0 && core->has_first_worker && now_ms - core->first_worker_ms >= timeout_ms;
    if (n_open >= core->job.workers || (waited && n_open > 0)) {
        core->started = true;
        core->started_ms = now_ms;
        core->state = PS_COORD_RUNNING;
    }
}

/* Rule 6: in the event that makes a session count, its clock becomes at least the min clock. */
bool ps_coord_lend(struct ps_coord_core *core, struct ps_coord_member *member)
{
    PS_ASSERT(member->lease == 0);
    uint64_t id = ps_lease_pool_lend(&core->pool);
    if (id == 0) {
        return false;
    }
    member->lease = id;
    member->clock = larger(member->clock, core->min_clock);
    member->lease_clock = member->clock;
    member->lease_units = ps_lease_units_done(&core->pool, id);
    member->staged = (struct ps_coord_staged){0};
    core->n_lent++;
#ifdef PS_PLANT
    if (core->options.plant == PS_COORD_PLANT_TAKEOVER_LENDS) {
        return true;
    }
#endif
    core->dirty = core->dirty || core->options.lends_written;
    return true;
}

/* The idle live worker with the lowest session number above `number`. */
static struct ps_coord_member *next_idle(struct ps_coord_core *core, uint64_t number)
{
    struct ps_coord_member *found = NULL;
    for (uint32_t i = 0; i < core->n_members; i++) {
        struct ps_coord_member *member = &core->members[i];
        if (is_open_worker(member) && member->life.state == PS_MEMBER_LIVE && member->lease == 0 &&
            member->number > number && (found == NULL || member->number < found->number)) {
            found = member;
        }
    }
    return found;
}

static void lend_to_idle(struct ps_coord_core *core)
{
    if (!core->started) {
        return;
    }
    struct ps_coord_member *member = next_idle(core, 0);
    while (member != NULL && ps_coord_lend(core, member)) {
        member = next_idle(core, member->number);
    }
}

/* Put an entry where its lease belongs; a lease has one holder, so each unit comes once. */
static void list_entry(struct ps_coord_close *close, const struct ps_coord_member *member)
{
    PS_ASSERT(close->n_entries < PS_SESSIONS_MAX);
    uint32_t at = close->n_entries++;
    while (at > 0 && close->entries[at - 1].lease > member->lease) {
        close->entries[at] = close->entries[at - 1];
        at--;
    }
    close->entries[at] = (struct ps_coord_close_entry){
        .session_number = member->number,
        .lease = member->lease,
        .unit = member->staged.unit,
        .rows = member->staged.rows,
    };
}

/*
 * Aggregated bsp: step min_clock is closed when all counted sessions, or all but the slowest
 * n_backups, have staged. Those that have ended cannot stage any more and are not waited for; what
 * they had staged stays on the list (rule 7c).
 */
static void decide_step(struct ps_coord_core *core)
{
    if (!core->started || !core->job.consistency.aggregate || core->close.pending ||
        core->cut.state == PS_COORD_CUT_NOTE || core->cut.state == PS_COORD_CUT_TAKE) {
        return; /* A cut lies between two steps: in every slot the same are closed. */
    }
    uint32_t n_staged = 0;
    uint32_t n_missing = 0;
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        if (member->used && ps_coord_core_counted(member)) {
            n_staged += member->staged.is;
            n_missing += !member->staged.is && !member->closing;
        }
    }
    if (n_staged == 0 || n_missing > core->job.consistency.n_backups) {
        return;
    }
    core->close.decided = true;
    core->close.pending = true;
    core->close.step = core->min_clock;
    core->close.n_entries = 0;
    core->dirty = core->dirty || core->options.lends_written; /* Before any server hears of it. */
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        if (member->used && member->staged.is && ps_coord_core_counted(member)) {
            list_entry(&core->close, member);
        }
    }
}

/*
 * Every push of the job is in the servers, so the min clock may go as far as anybody has come. It
 * must: the last to finish may have left it behind somebody who ran ahead and waits for weights.
 */
static void finish_job(struct ps_coord_core *core, uint64_t now_ms)
{
    if (core->state != PS_COORD_RUNNING || !ps_lease_pool_done(&core->pool)) {
        return;
    }
    core->state = PS_COORD_DONE;
    core->done_ms = now_ms;
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        if (takes_leases(member)) {
            core->min_clock = larger(core->min_clock, member->clock);
        }
    }
}

/*
 * Rule 4. Lends and closed steps are in the store, so a new coordinator knows who holds what; what
 * it does not know is how far they have come. It raises no clock and lends nothing before every
 * server has acknowledged the term and every worker of the store has reported or is closed.
 */
static void conclude_takeover(struct ps_coord_core *core)
{
    uint64_t view = 0;
    bool counted = false;
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        if (!core->places[i].heard) {
            return;
        }
        view = larger(view, core->places[i].view);
    }
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        /* What is staged lets nobody go before its step is closed; and closed steps are known. */
        bool ended = ps_member_ended(&member->life) && (!member->closing || member->staged.is);
        counted = counted || (member->used && ps_coord_core_counted(member));
        if (member->used && takes_leases(member) && !member->reported && !ended &&
            believed_all(core)) {
            return;
        }
    }
    core->taking_over = false;
    if (!counted) { /* Nobody stands behind what any gate has seen. */
        core->min_clock = larger(core->min_clock, view);
    }
}

/* A generation that began with a cut runs when every server has loaded it. */
static void conclude_restore(struct ps_coord_core *core)
{
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        if (core->servers[i] == PS_COORD_NOBODY || ps_coord_core_loads(core, core->servers[i])) {
            return;
        }
    }
    core->base.loaded = true;
    core->dirty = true;
    core->state = core->started ? PS_COORD_RUNNING : PS_COORD_WAITING;
}

void ps_coord_settle(struct ps_coord_core *core, uint64_t now_ms)
{
    if (ps_coord_core_over(core) || core->wants_back) {
        return;
    }
    if (core->state == PS_COORD_RESTORING) {
        conclude_restore(core);
    }
    const struct ps_coord_acks all = ps_coord_acked_by_all(core);
    open_sessions(core, now_ms, all.sessions);
    complete_step(core, all.closed_steps);
    let_go(core, all.sessions);
    if (core->taking_over) {
        conclude_takeover(core);
    }
    if (core->taking_over || core->state == PS_COORD_RESTORING) {
        return;
    }
    raise_min_clock(core);
    start_training(core, now_ms);
    lend_to_idle(core);
    decide_step(core);
    finish_job(core, now_ms);
    ps_coord_settle_cut(core, now_ms);
}
