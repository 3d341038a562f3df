/*
 * coord_cuts.c — cuts as the shell sees them: the record of the job, the manifest, and room for
 * the next; the call Snapshot.
 *
 *   NOTE    job.pb is packed, before any server is told to take its part
 *   FINISH  the keeper writes job.pb and MANIFEST; then the store names the cut; then old ones go
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coord/coord_impl.h"
#include "coord/coord_stored.h"
#include "coord/settle_core.h"
#include "obs/log.h"
#include "wire/pack.h"

#define FIELD_ALL_HELD 0x70u /* CutState.all_held: field 14, varint. */

/* ---- The record ---------------------------------------------------------------------------- */

static void fill_state(struct ps_coord *coord, Ps__V1__CutState *state)
{
    struct ps_coord_core *core = &coord->core;
    ps__v1__cut_state__init(state);
    state->generation = core->generation;
    state->cut = core->cut.number;
    state->cluster_id = coord_bytes(coord->cluster_id.bytes, sizeof(coord->cluster_id.bytes));
    state->key_seed = coord->key_seed;
    state->n_servers = coord->options.n_servers;
    state->catalogue = coord_catalogue(coord);
    state->definition = coord->definition.job;
    state->next_session_number = core->next_session_number;
    state->sessions_version = core->sessions_version;
    state->finished_version = core->finished_version;
    state->placement_version = core->placement.version;
    state->n_epoch = PS_SLOTS;
    state->epoch = core->placement.epoch;
}

void coord_cut_forget(struct ps_coord *coord)
{
    ps_mem_free(coord->cut_job);
    coord->cut_job = NULL;
    coord->n_cut_job_bytes = 0;
}

/* Whether all held is known only when all have taken: it is added then, as one more field. */
static enum ps_status record(struct ps_coord *coord, struct ps_error *err)
{
    Ps__V1__CutState state;
    struct coord_progress_room *progress = NULL;
    enum ps_status status = coord_progress_make(coord, &progress, err);
    if (status != PS_OK) {
        return status;
    }
    fill_state(coord, &state);
    state.progress = progress != NULL ? &progress->progress : NULL;
    coord_cut_forget(coord);
    size_t n_bytes = ps__v1__cut_state__get_packed_size(&state);
    coord->cut_job = ps_mem_alloc(coord->options.mem, PS_MEM_OTHER, n_bytes + 2);
    if (coord->cut_job == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory for the record of the job");
    } else {
        (void)ps__v1__cut_state__pack(&state, coord->cut_job);
        coord->n_cut_job_bytes = n_bytes;
    }
    coord_progress_free(progress);
    return status;
}

static bool planted_late(const struct ps_coord *coord)
{
#ifdef PS_PLANT
    return coord->options.plant == PS_COORD_PLANT_PROGRESS_AFTER_CUT;
#else
    (void)coord;
    return false;
#endif
}

static void note(struct ps_coord *coord, uint64_t now_ms)
{
    struct ps_error err;
    if (!planted_late(coord) && record(coord, &err) != PS_OK) {
        ps_coord_cut_give_up(&coord->core.cut, now_ms, err.text);
        return;
    }
    ps_coord_cut_noted(&coord->core.cut);
}

/* ---- The manifest -------------------------------------------------------------------------- */

static void forget_known(struct ps_coord *coord, uint32_t nth)
{
    ps_wire_unpacked_free(&coord->known[nth]->base);
    coord->n_known--;
    for (uint32_t i = nth; i < coord->n_known; i++) {
        coord->known[i] = coord->known[i + 1];
    }
}

enum ps_status coord_cut_known(struct ps_coord *coord, const struct ps_cut_found *found,
                               struct ps_error *err)
{
    const struct ps_coord_cut *cut = &coord->core.cut;
    Ps__V1__Cut message;
    ps__v1__cut__init(&message);
    message.generation = found->generation;
    message.cut = found->cut;
    message.name = coord_text(found->name);
    message.dir = coord_text(found->dir);
    message.taken = coord_text(found->taken);
    message.bytes = found->n_bytes;
    message.ms = ps_exec_now_ms(coord->options.exec) - cut->begun_ms;
    message.held_us = 1000 * (cut->let_go_ms - cut->begun_ms);
    message.all_held = cut->all_held;
    /* Small, and beyond the budget: it is complete already and must not be given up now. */
    ProtobufCMessage *copy = ps_wire_copy(&message.base, NULL);
    if (copy == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for one more cut");
    }
    if (coord->n_known == PS_CUTS_MAX) {
        forget_known(coord, 0);
    }
    coord->known[coord->n_known++] = (Ps__V1__Cut *)copy;
    return PS_OK;
}

static enum ps_status write_manifest(struct ps_coord *coord, struct ps_cut_found *ret,
                                     struct ps_error *err)
{
    const struct ps_coord_core *core = &coord->core;
    struct ps_cut_part parts[PS_SERVERS_MAX];
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        const struct ps_coord_cut_share *share = &core->cut.shares[i];
        parts[i] = (struct ps_cut_part){.server = i,
                                        .address = core->members[core->servers[i]].address,
                                        .n_bytes = share->n_bytes};
        memcpy(parts[i].checksum, share->checksum, sizeof(parts[i].checksum));
    }
    coord->cut_job[coord->n_cut_job_bytes] = FIELD_ALL_HELD;
    coord->cut_job[coord->n_cut_job_bytes + 1] = core->cut.all_held;
    struct ps_cut_whole whole = {
        .generation = core->generation,
        .cut = core->cut.number,
        .cluster = coord->cluster_id,
        .job = coord->cut_job,
        .n_job_bytes = coord->n_cut_job_bytes + 2,
        .parts = parts,
        .n_parts = core->options.n_servers,
    };
    return ps_cut_finish(coord->options.keeper, &whole, ret, err);
}

static void finish(struct ps_coord *coord, uint64_t now_ms)
{
    struct ps_coord_core *core = &coord->core;
    static const struct ps_cut_found none;
    struct ps_cut_found found = none;
    struct ps_error err;
    enum ps_status status = PS_OK;
    if (planted_late(coord)) {
        status = record(coord, &err);
    }
    if (status == PS_OK) {
        status = write_manifest(coord, &found, &err);
    }
    if (status == PS_OK) {
        status = coord_cut_known(coord, &found, &err);
    }
    coord_cut_forget(coord);
    if (status != PS_OK) {
        ps_coord_cut_give_up(&core->cut, now_ms, err.text);
        return;
    }
    ps_coord_cut_completed(&core->cut, now_ms);
    core->has_cut = true;
    core->dirty = true;
    coord->to_keep = true;
    ps_log(PS_LOG_INFO, "cut.complete",
           "cut=%s dir=\"%s\" bytes=%" PRIu64 " ms=%" PRIu64 " held_ms=%" PRIu64
           " taken_ms=%" PRIu64 " all_held=%d",
           found.name, found.dir, found.n_bytes, now_ms - core->cut.begun_ms,
           core->cut.let_go_ms - core->cut.begun_ms, core->cut.taken_ms - core->cut.begun_ms,
           core->cut.all_held);
}

/* ---- Room ---------------------------------------------------------------------------------- */

static bool is_older(const Ps__V1__Cut *cut, uint64_t generation, uint64_t number)
{
    return cut->generation < generation || (cut->generation == generation && cut->cut < number);
}

static bool is_base(const struct ps_coord *coord, const Ps__V1__Cut *cut)
{
    const struct ps_coord_base *base = &coord->core.base;
    return base->is && base->generation == cut->generation && base->cut == cut->cut;
}

/* The oldest cut of this generation that is left: logs reach back to it. */
static uint64_t oldest_kept(const struct ps_coord *coord)
{
    for (uint32_t i = 0; i < coord->n_known; i++) {
        if (coord->known[i]->generation == coord->core.generation) {
            return coord->known[i]->cut;
        }
    }
    return 0;
}

/* After the store names the new one: else a crash could leave it with none that is still there. */
void coord_cuts_keep(struct ps_coord *coord)
{
    struct ps_error err;
    bool own = oldest_kept(coord) != 0;
    const struct ps_coord_base *base = &coord->core.base;
    struct ps_cut_kept kept = {.generation = own ? 0 : base->generation,
                               .cut = own ? 0 : base->cut};
    coord->to_keep = false;
    enum ps_status status = ps_cut_keep(coord->options.keeper, &kept, &err);
    if (status != PS_OK) {
        ps_log(PS_LOG_WARN, "cut.keep", "why=\"%s\"", err.text);
        return;
    }
    for (uint32_t i = coord->n_known; i > 0; i--) {
        if (is_older(coord->known[i - 1], kept.oldest_generation, kept.oldest_cut) &&
            (own || !is_base(coord, coord->known[i - 1]))) {
            forget_known(coord, i - 1);
        }
    }
    coord->core.dirty = true;
    coord->kept = oldest_kept(coord);
    coord_changed(coord);
}

/* ---- Every flush --------------------------------------------------------------------------- */

static void run_hold(struct ps_timer *timer)
{
    struct ps_coord *coord = PS_CONTAINER_OF(timer, struct ps_coord, hold);
    struct ps_coord_cut *cut = &coord->core.cut;
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    ps_coord_settle(&coord->core, now_ms);
    if (now_ms - cut->begun_ms >= PS_HOLD_MS) { /* Whatever else keeps the core from settling. */
        ps_coord_cut_release(cut, now_ms);
    } else if (ps_coord_cut_hold(cut) != 0) { /* It fired a moment early. */
        ps_timer_start(coord->options.exec, &coord->hold, 1);
    }
    coord_changed(coord);
}

void coord_cuts_init(struct ps_coord *coord)
{
    ps_timer_init(&coord->hold, run_hold);
}

static void log_cut(struct ps_coord *coord)
{
    const struct ps_coord_cut *cut = &coord->core.cut;
    if (cut->n_given_up != coord->seen_given_up) {
        coord->seen_given_up = cut->n_given_up;
        ps_log(PS_LOG_WARN, "cut.given_up", "cut=%" PRIu64 " why=\"%s\"", cut->given_up, cut->why);
        coord->to_keep = coord->options.keeper != NULL; /* Parts of it may lie there. */
    }
}

void coord_cuts_work(struct ps_coord *coord)
{
    struct ps_coord_core *core = &coord->core;
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    if (core->wants_back) {
        coord_back_work(coord);
    }
    if (core->cut.state == PS_COORD_CUT_NOTE) {
        note(coord, now_ms);
    }
    if (core->cut.state == PS_COORD_CUT_FINISH) {
        finish(coord, now_ms);
    }
    log_cut(coord);
}

void coord_cuts_told(struct ps_coord *coord)
{
    struct ps_coord_cut *cut = &coord->core.cut;
    if (ps_coord_cut_hold(cut) != 0 && !cut->told) {
        ps_coord_cut_told(cut, ps_exec_now_ms(coord->options.exec));
        ps_timer_stop(coord->options.exec, &coord->hold);
        ps_timer_start(coord->options.exec, &coord->hold, PS_HOLD_MS);
    }
}

/* ---- The call Snapshot --------------------------------------------------------------------- */

static void answer_snapshot(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    const struct ps_coord_cut *cut = &coord->core.cut;
    const char *why = NULL;
    if (cut->complete >= call->clock && coord->n_known > 0) {
        Ps__V1__SnapshotReply reply = PS__V1__SNAPSHOT_REPLY__INIT;
        reply.cut = coord->known[coord->n_known - 1];
        coord_call_reply(call, &reply.base);
    } else if (cut->given_up >= call->clock) {
        coord_call_fail(call, PS_ERR_UNAVAIL, cut->why);
    } else if (!ps_coord_cut_under_way(cut) && !ps_coord_may_cut(&coord->core, &why)) {
        coord_call_fail(call, PS_ERR_UNAVAIL, why);
    } else if (call->late) {
        coord_call_fail(call, PS_ERR_TIMEOUT, "the cut is still being written");
    }
}

/* The one under way counts if nobody has been told to take it yet; else the next. */
static uint64_t wish(struct ps_coord *coord)
{
    struct ps_coord_cut *cut = &coord->core.cut;
    if (cut->state == PS_COORD_CUT_HOLD || cut->state == PS_COORD_CUT_NOTE) {
        return cut->number;
    }
    cut->wanted = true;
    return cut->next;
}

void coord_snapshot(struct coord_call *call, ProtobufCMessage *message PS_UNUSED)
{
    struct ps_coord *coord = call->coord;
    const char *why = NULL;
    if (!ps_coord_may_cut(&coord->core, &why)) {
        coord_call_fail(call, coord->options.keeper == NULL ? PS_ERR_UNSUPPORTED : PS_ERR_UNAVAIL,
                        why);
        return;
    }
    call->clock = wish(coord);
    coord_call_park(call, answer_snapshot);
    ps_coord_settle(&coord->core, ps_exec_now_ms(coord->options.exec));
}

void ps_coord_snapshot(struct ps_coord *coord)
{
    const char *why = NULL;
    if (ps_coord_may_cut(&coord->core, &why)) {
        (void)wish(coord);
        ps_coord_settle(&coord->core, ps_exec_now_ms(coord->options.exec));
        coord_changed(coord);
    }
}

bool ps_coord_cutting(const struct ps_coord *coord)
{
    return coord->core.cut.wanted || ps_coord_cut_under_way(&coord->core.cut);
}
