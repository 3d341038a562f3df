/* coord_core.c — see coord_core.h. The conclusions from an event are drawn in settle_core.c. */
#include "coord/coord_core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coord/server_core.h"
#include "coord/settle_core.h"

/* "5 s", or "1500 ms". */
static void duration_text(uint32_t ms, char *text, size_t n_bytes)
{
    bool whole = ms % 1000 == 0;
    (void)snprintf(text, n_bytes, whole ? "%" PRIu32 " s" : "%" PRIu32 " ms",
                   whole ? ms / 1000 : ms);
}

void ps_coord_core_init(struct ps_coord_core *core, uint64_t now_ms,
                        const struct ps_coord_core_options *options)
{
    PS_ASSERT(options->n_servers >= 1 && options->n_servers <= PS_SERVERS_MAX);
    PS_ASSERT(options->term > 0 && options->first_session_number > 0 && options->tick_ms > 0);
    PS_ASSERT(options->generation > 0 && options->first_cut > 0);
    memset(core, 0, sizeof(*core));
    core->options = *options;
    core->state = PS_COORD_WAITING;
    core->next_session_number = options->first_session_number;
    core->sessions_version = options->first_sessions_version;
    core->generation = options->generation;
    ps_coord_cut_init(&core->cut, options->first_cut, now_ms);
    core->ticked_ms = now_ms;
    char text[24];
    duration_text(options->times.grace_ms, text, sizeof(text));
    (void)snprintf(core->broke_why, sizeof(core->broke_why),
                   "its stream broke and it did not return within %s", text);
    duration_text(options->times.silence_ms, text, sizeof(text));
    (void)snprintf(core->silent_why, sizeof(core->silent_why), "silent for %s", text);
    for (uint32_t i = 0; i < PS_SERVERS_MAX; i++) {
        core->servers[i] = PS_COORD_NOBODY;
    }
}

/* ---- What is true now ---------------------------------------------------------------------- */

uint32_t ps_coord_core_find(const struct ps_coord_core *core, const struct ps_id *session)
{
    for (uint32_t i = 0; i < core->n_members; i++) {
        if (core->members[i].used && ps_id_equal(&core->members[i].session, session)) {
            return i;
        }
    }
    return PS_COORD_NOBODY;
}

static struct ps_coord_member *member_at(struct ps_coord_core *core, uint32_t member)
{
    PS_ASSERT(member < core->n_members);
    PS_ASSERT(core->members[member].used);
    return &core->members[member];
}

bool ps_coord_core_open(const struct ps_coord_core *core, uint32_t member)
{
    PS_ASSERT(member < core->n_members);
    enum ps_member_state state = core->members[member].life.state;
    return state == PS_MEMBER_LIVE || state == PS_MEMBER_SUSPECT;
}

bool ps_coord_core_listed(const struct ps_coord_member *member)
{
    return member->used && member->kind != PS_COORD_SERVER && member->closed_version == 0;
}

bool ps_coord_core_counted(const struct ps_coord_member *member)
{
    return member->lease != 0 || member->ghost;
}

uint64_t ps_coord_core_catalogue_acked(const struct ps_coord_core *core)
{
    return ps_coord_acked_by_all(core).catalogue;
}

uint32_t ps_coord_core_servers(const struct ps_coord_core *core)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        n += core->servers[i] != PS_COORD_NOBODY;
    }
    return n;
}

bool ps_coord_core_over(const struct ps_coord_core *core)
{
    return core->state == PS_COORD_LOST || core->state == PS_COORD_STOPPED;
}

uint64_t ps_coord_core_running_ms(const struct ps_coord_core *core, uint64_t now_ms)
{
    if (!core->started) {
        return 0;
    }
    return (core->done_ms != 0 ? core->done_ms : now_ms) - core->started_ms;
}

/* ---- The end of members and of the job ----------------------------------------------------- */

static void end_job(struct ps_coord_core *core, uint64_t now_ms, enum ps_coord_job_state state)
{
    core->state = state;
    if (core->started && core->done_ms == 0) {
        core->done_ms = now_ms;
    }
}

void ps_coord_core_lose(struct ps_coord_core *core, uint64_t now_ms, const char *reason)
{
    if (ps_coord_core_over(core)) {
        return;
    }
    core->wants_back = false;
    (void)snprintf(core->reason, sizeof(core->reason), "%s", reason);
    end_job(core, now_ms, PS_COORD_LOST);
}

/* LEFT, DEAD, or a server that is AWAY. A session closes in every slot before it stops to count. */
static void end_member(struct ps_coord_core *core, uint64_t now_ms, struct ps_coord_member *member,
                       const char *why)
{
    member->why = why;
    member->streaming = false;
    core->dirty = true;
    if (member->kind == PS_COORD_SERVER) {
        ps_coord_server_gone(core, now_ms, member);
        return;
    }
    core->sessions_version++;
    member->closed_version = core->sessions_version;
    member->closing = true;
    if (member->kind == PS_COORD_WORKER && member->life.state == PS_MEMBER_DEAD) {
        core->sessions_lost++;
    }
}

void ps_coord_core_stop(struct ps_coord_core *core, uint64_t now_ms, const char *reason)
{
    if (ps_coord_core_over(core)) {
        return;
    }
    core->wants_back = false; /* There is nothing to go back for. */
    (void)snprintf(core->reason, sizeof(core->reason), "%s", reason);
    end_job(core, now_ms, PS_COORD_STOPPED);
}

/* ---- Joining ------------------------------------------------------------------------------- */

/* A place for a newcomer: a fresh one, else that of whoever ended longest ago. */
static uint32_t claim_place(struct ps_coord_core *core)
{
    if (core->n_members < PS_COORD_MEMBERS_MAX) {
        return core->n_members++;
    }
    uint32_t oldest = PS_COORD_NOBODY;
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        bool placed = member->kind == PS_COORD_SERVER && core->servers[member->server] == i;
        bool free_to_take =
            ps_member_ended(&member->life) && !member->closing && !member->ghost && !placed;
        if (free_to_take &&
            (oldest == PS_COORD_NOBODY || member->number < core->members[oldest].number)) {
            oldest = i;
        }
    }
    PS_ASSERT(oldest != PS_COORD_NOBODY); /* The bounds on sessions and servers leave one. */
    return oldest;
}

static uint32_t count_sessions(const struct ps_coord_core *core)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        n += member->used && member->kind != PS_COORD_SERVER &&
             (member->closing || !ps_member_ended(&member->life));
    }
    return n;
}

/* May somebody new come in? */
static enum ps_status admit(const struct ps_coord_core *core, const struct ps_coord_join *join,
                            uint32_t *ret_place, struct ps_error *err)
{
    if (core->state == PS_COORD_LOST) {
        return ps_fail(err, PS_ERR_LOST, "%s", core->reason);
    }
    if (core->state == PS_COORD_STOPPED) {
        return ps_fail(err, PS_ERR_CANCELED, "the job was stopped: %.200s", core->reason);
    }
    if (join->kind == PS_COORD_SERVER) {
        return ps_coord_server_admit(core, join, ret_place, err);
    }
    if (count_sessions(core) >= PS_SESSIONS_MAX) {
        return ps_fail(err, PS_ERR_BUSY, "%u sessions are open, the most there may be",
                       PS_SESSIONS_MAX);
    }
    return PS_OK;
}

enum ps_status ps_coord_core_join(struct ps_coord_core *core, uint64_t now_ms,
                                  const struct ps_coord_join *join, uint32_t *ret_member,
                                  struct ps_error *err)
{
    PS_ASSERT(strlen(join->name) <= PS_NAME_BYTES_MAX);
    PS_ASSERT(strlen(join->address) <= PS_ADDRESS_BYTES_MAX);
    uint32_t known = ps_coord_core_find(core, &join->session);
    if (known != PS_COORD_NOBODY) {
        if (!ps_coord_core_heard(core, now_ms, known)) {
            return ps_fail(err, PS_ERR_FENCED, "the session has ended: %s",
                           core->members[known].why);
        }
        *ret_member = known;
        return PS_OK;
    }
    uint32_t seat = PS_COORD_NOBODY;
    enum ps_status status = admit(core, join, &seat, err);
    if (status != PS_OK) {
        return status;
    }
    uint32_t place = claim_place(core);
    struct ps_coord_member *member = &core->members[place];
    *member = (struct ps_coord_member){
        .used = true,
        .kind = join->kind,
        .life = ps_member_joined(now_ms),
        .session = join->session,
        .number = core->next_session_number++,
        .unleased = join->unleased,
        .reported = true, /* There is nothing to report of another term. */
        .why = "",
    };
    memcpy(member->name, join->name, strlen(join->name) + 1);
    memcpy(member->address, join->address, strlen(join->address) + 1);
    core->dirty = true;
    if (join->kind == PS_COORD_SERVER) {
        ps_coord_server_seat(core, now_ms, place, seat, join);
    } else {
        core->sessions_version++;
        member->opened_version = core->sessions_version;
    }
    *ret_member = place;
    ps_coord_settle(core, now_ms);
    return PS_OK;
}

/* ---- Signs of life and news ---------------------------------------------------------------- */

bool ps_coord_core_heard(struct ps_coord_core *core, uint64_t now_ms, uint32_t member)
{
    struct ps_coord_member *who = member_at(core, member);
    bool alive = ps_member_heard(&who->life, now_ms);
    if (alive) {
        if (who->kind == PS_COORD_SERVER) {
            ps_coord_server_back(core, who);
        }
        ps_coord_settle(core, now_ms); /* A suspect that is live again may be lent a lease. */
    }
    return alive;
}

void ps_coord_core_stream_up(struct ps_coord_core *core, uint64_t now_ms, uint32_t member)
{
    if (ps_coord_core_heard(core, now_ms, member)) {
        member_at(core, member)->streaming = true;
    }
}

void ps_coord_core_stream_down(struct ps_coord_core *core, uint64_t now_ms, uint32_t member)
{
    struct ps_coord_member *down = member_at(core, member);
    down->streaming = false;
    ps_member_broke(&down->life, now_ms);
}

/* Staged is what lies at every server for the step that is open, in the order of the lease. */
static void stage(struct ps_coord_core *core, struct ps_coord_member *member,
                  const struct ps_coord_progress *progress)
{
    uint32_t unit = ps_lease_units_done(&core->pool, member->lease);
    uint64_t first = 0;
    if (progress->staged_step != member->clock + 1 || progress->staged_unit != unit ||
        progress->staged_rows > ps_lease_rows(&core->pool.plan, member->lease, unit, &first)) {
        return; /* A repeat of an earlier report, or nonsense. */
    }
    if (!member->staged.is) {
        member->staged = (struct ps_coord_staged){true, unit, progress->staged_rows};
    }
}

/*
 * A step is a unit, so the clock of a holder goes as far as its units since the lease was lent and
 * no further, whatever it says: a min clock that has risen never falls, so one wrong number would
 * open every gate for good. An idle session's clock is the one that it has earned.
 */
static void advance_clock(struct ps_coord_member *member, const struct ps_coord_progress *progress)
{
    uint32_t n_units =
        progress->units_done > member->lease_units ? progress->units_done - member->lease_units : 0;
    uint64_t most = member->lease_clock + n_units;
    uint64_t clock = progress->clock < most ? progress->clock : most;
    member->clock = clock > member->clock ? clock : member->clock;
}

/* The next lease comes in the same event, so a session that goes on never stops to count. */
static void apply_progress(struct ps_coord_core *core, struct ps_coord_member *member,
                           const struct ps_coord_progress *progress)
{
    if (member->lease == 0 ||
        !ps_lease_may_have(&core->pool.plan, member->lease, progress->units_done)) {
        return;
    }
    struct ps_lease_news news = {.units_done = progress->units_done,
                                 .over = progress->lease_over,
                                 .rows = progress->lease_rows};
    advance_clock(member, progress);
    ps_coord_advance(core, member, &news);
    if (member->lease == 0 && !core->taking_over) {
        (void)ps_coord_lend(core, member); /* None is left: it is idle. */
    }
}

void ps_coord_core_progress(struct ps_coord_core *core, uint64_t now_ms, uint32_t member,
                            const struct ps_coord_progress *progress)
{
    struct ps_coord_member *worker = member_at(core, member);
    if (!ps_member_heard(&worker->life, now_ms) || ps_coord_core_over(core)) {
        return;
    }
    worker->reported = true;
    worker->held = progress->held;
    if (worker->kind == PS_COORD_WORKER && worker->lease == progress->lease) {
        if (!core->job.consistency.aggregate) {
            apply_progress(core, worker, progress);
        } else if (worker->lease != 0) {
            stage(core, worker, progress);
        }
    }
    ps_coord_settle(core, now_ms);
}

void ps_coord_core_leave(struct ps_coord_core *core, uint64_t now_ms, uint32_t member)
{
    struct ps_coord_member *leaver = member_at(core, member);
    if (ps_member_ended(&leaver->life)) {
        return;
    }
    ps_member_leave(&leaver->life);
    end_member(core, now_ms, leaver, "it left");
    ps_coord_settle(core, now_ms);
}

/* ---- Definitions --------------------------------------------------------------------------- */

void ps_coord_core_table(struct ps_coord_core *core)
{
    PS_ASSERT(core->catalogue_version < PS_TABLES_MAX);
    core->catalogue_version++;
    core->dirty = true;
}

void ps_coord_core_job(struct ps_coord_core *core, uint64_t now_ms, const struct ps_coord_job *job,
                       const struct ps_lease_plan *plan, void *memory)
{
    PS_ASSERT(!core->has_job);
    PS_ASSERT(PS_IMPLIES(job->consistency.aggregate, job->consistency.mode == PS_COORD_BSP));
    PS_ASSERT(job->consistency.n_backups < job->workers);
    core->has_job = true;
    core->job = *job;
    core->job.consistency.version = 1;
    ps_lease_pool_init(&core->pool, plan, memory);
    core->dirty = true;
    ps_coord_settle(core, now_ms);
}

/* ---- Time ---------------------------------------------------------------------------------- */

/*
 * A detector counts only time in which it ran itself: if it comes late by more than a heartbeat,
 * everybody is forgiven. Their signs of life may lie unread behind this event.
 */
void ps_coord_core_tick(struct ps_coord_core *core, uint64_t now_ms)
{
    PS_ASSERT(now_ms >= core->ticked_ms);
    bool was_away = now_ms - core->ticked_ms > (uint64_t)core->options.tick_ms + PS_HEARTBEAT_MS;
    core->ticked_ms = now_ms;
    for (uint32_t i = 0; i < core->n_members; i++) {
        struct ps_coord_member *member = &core->members[i];
        if (!member->used) {
            continue;
        }
        if (was_away) {
            ps_member_forgive(&member->life, now_ms);
        }
        member->life.returns = member->kind == PS_COORD_SERVER && core->placement.version != 0 &&
                               ps_coord_server_returns(core, member->server);
        if (ps_member_tick(&member->life, now_ms, &core->options.times)) {
            bool silent = now_ms - member->life.heard_ms > core->options.times.silence_ms;
            end_member(core, now_ms, member, silent ? core->silent_why : core->broke_why);
        }
    }
    ps_coord_server_tick(core, now_ms, was_away);
    ps_coord_settle(core, now_ms);
}
