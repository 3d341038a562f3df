/*
 * coord_back.c — the way back: the whole job returns to a cut, since data are lost or somebody
 * asked for it; or a cluster begins with one.
 *
 * Everything that the cut says is read and checked first. Then the core changes in one event, and
 * the store in one write, before any server is told to load (rule 11).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coord/back_core.h"
#include "coord/coord_define.h"
#include "coord/coord_impl.h"
#include "coord/coord_stored.h"
#include "coord/settle_core.h"
#include "obs/log.h"
#include "wire/pack.h"

/* Slots may have been cut later than the record was made, and know more than it says. */
#define LEAP ((uint64_t)1 << 32)

static enum ps_status read_state(struct ps_coord *coord, const struct ps_cut_found *found,
                                 Ps__V1__CutState **ret, struct ps_error *err)
{
    struct ps_slice slice = {.data = found->job, .n_bytes = found->n_job_bytes};
    enum ps_status why;
    ProtobufCMessage *message =
        ps_wire_unpack_why(&ps__v1__cut_state__descriptor, &slice, 1, coord->options.mem, &why);
    *ret = (Ps__V1__CutState *)message;
    if (message == NULL && why == PS_ERR_NOMEM) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read cut %s", found->name);
    }
    if (message == NULL || (*ret)->n_epoch != PS_SLOTS) {
        return ps_fail(err, PS_ERR_CORRUPT, "cut %s: job.pb cannot be read", found->name);
    }
    return PS_OK;
}

/* Tables and job of a running cluster must be those of the cut, as far as it has some. */
static enum ps_status check_same(const struct ps_coord *coord, const Ps__V1__CutState *state,
                                 const char *name, struct ps_error *err)
{
    if (coord->key_seed != state->key_seed) {
        return ps_fail(err, PS_ERR_INVALID,
                       "cut %s is of another cluster: start a new one with --restore", name);
    }
    const Ps__V1__JobDefinition *ours = coord->definition.job;
    const Ps__V1__JobDefinition *job = state->definition;
    struct ps_lease_plan plan;
    if (job != NULL && coord_check_job(job, &plan, err) != PS_OK) {
        return ps_wrap(err, PS_ERR_CORRUPT, "the job of cut %s", name);
    }
    const char *field = NULL;
    if (ours != NULL && job != NULL) {
        field = coord_job_difference(ours, job);
        bool others = ours->units_per_lease != job->units_per_lease; /* Leases of other rows. */
        field = field == NULL && others ? "number of units in a lease" : field;
    }
    if (field != NULL) {
        return ps_fail(err, PS_ERR_EXISTS, "the job of cut %s has another %s", name, field);
    }
    return PS_OK;
}

/* The leases of the cut in memory of their own; `*ret_memory` NULL: there is no job. */
static enum ps_status make_pool(struct ps_coord *coord, const Ps__V1__CutState *state,
                                struct ps_lease_pool *ret, void **ret_memory, struct ps_error *err)
{
    *ret_memory = NULL;
    if (!coord->core.has_job) {
        return PS_OK;
    }
    const struct ps_lease_plan *plan = &coord->core.pool.plan;
    *ret_memory = ps_mem_alloc(coord->options.mem, PS_MEM_SESSIONS, ps_lease_pool_bytes(plan));
    if (*ret_memory == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %" PRIu32 " leases", plan->n_leases);
    }
    ps_lease_pool_init(ret, plan, *ret_memory);
    if (state->progress == NULL) {
        return PS_OK; /* The job was defined after the cut. */
    }
    enum ps_status status = coord_progress_read(coord, state->progress, ret, err);
    if (status != PS_OK) {
        ps_mem_free(*ret_memory);
        *ret_memory = NULL;
    }
    return status;
}

/* Planted: the generation is written alone, what belongs to it with the next write. */
static void write_generation(struct ps_coord *coord)
{
#ifdef PS_PLANT
    struct ps_error err;
    if (coord->options.plant == PS_COORD_PLANT_RESTORE_TWO_WRITES) {
        coord->core.generation++;
        if (coord_store(coord, &err) != PS_OK) {
            ps_log(PS_LOG_WARN, "coordinator.waits", "why=\"%s\"", err.text);
        }
        coord->core.generation--;
    }
#else
    (void)coord;
#endif
}

static enum ps_status go_to(struct ps_coord *coord, const struct ps_cut_found *found,
                            const Ps__V1__CutState *state, const char *reason, struct ps_error *err)
{
    struct ps_lease_pool pool;
    void *memory = NULL;
    enum ps_status status = make_pool(coord, state, &pool, &memory, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_coord_back back = {
        .cut_generation = found->generation,
        .cut = found->cut,
        .min_clock = state->progress != NULL ? state->progress->min_clock : 0,
        .started = state->progress != NULL && state->progress->started && memory != NULL,
        .pool = memory != NULL ? &pool : NULL,
    };
    write_generation(coord);
    ps_coord_go_back(&coord->core, ps_exec_now_ms(coord->options.exec), &back, reason);
    if (memory != NULL) {
        ps_mem_free(coord->definition.pool_memory);
        coord->definition.pool_memory = memory;
        static const Ps__V1__JobProgress nothing = PS__V1__JOB_PROGRESS__INIT;
        coord_progress_losses(coord, state->progress != NULL ? state->progress : &nothing);
    }
    memcpy(coord->base_dir, found->dir, sizeof(coord->base_dir));
    coord->kept = 0;
    coord_cut_forget(coord);
    ps_log(PS_LOG_WARN, "job.back",
           "cut=%s dir=\"%s\" generation=%" PRIu64 " min_clock=%" PRIu64 " why=\"%s\"", found->name,
           found->dir, coord->core.generation, coord->core.min_clock, reason);
    return PS_OK;
}

/* Go back to a cut that was found. `found->job` is freed. */
static enum ps_status go_back(struct ps_coord *coord, struct ps_cut_found *found,
                              const char *reason, struct ps_error *err)
{
    Ps__V1__CutState *state = NULL;
    enum ps_status status = read_state(coord, found, &state, err);
    if (status == PS_OK) {
        status = check_same(coord, state, found->name, err);
    }
    if (status == PS_OK) {
        status = coord_resume_job(coord, state->catalogue, state->definition, state->progress, err);
    }
    if (status == PS_OK) {
        status = go_to(coord, found, state, reason, err);
    }
    if (state != NULL) {
        ps_wire_unpacked_free(&state->base);
    }
    ps_mem_free(found->job);
    found->job = NULL;
    return status;
}

/* ---- Which cut ----------------------------------------------------------------------------- */

static enum ps_status try_cut(struct ps_coord *coord, uint64_t generation, uint64_t cut,
                              struct ps_cut_found *ret, struct ps_error *err)
{
    enum ps_status status = ps_cut_find(coord->options.keeper, generation, cut, ret, err);
    if (status != PS_OK) {
        ps_log(PS_LOG_ERROR, "cut.unusable", "generation=%" PRIu64 " cut=%" PRIu64 " why=\"%s\"",
               generation, cut, err->text);
    }
    return status;
}

/*
 * The latest of this generation, else what it began with, else what came before that. Those of a
 * time that was given up are not tried by themselves.
 */
static enum ps_status find_last(struct ps_coord *coord, struct ps_cut_found *ret,
                                struct ps_error *err)
{
    const struct ps_coord_base *base = &coord->core.base;
    enum ps_status status = ps_fail(err, PS_ERR_NOT_FOUND, "there is no complete cut");
    if (coord->options.keeper == NULL) {
        return status;
    }
    for (uint32_t i = coord->n_known; i > 0 && status != PS_OK; i--) {
        if (coord->known[i - 1]->generation == coord->core.generation) {
            status =
                try_cut(coord, coord->known[i - 1]->generation, coord->known[i - 1]->cut, ret, err);
        }
    }
    if (status != PS_OK && base->is) {
        status = try_cut(coord, base->generation, base->cut, ret, err);
    }
    for (uint32_t i = coord->n_known; i > 0 && status != PS_OK; i--) {
        const Ps__V1__Cut *cut = coord->known[i - 1];
        if (base->is && cut->generation <= base->generation && cut->cut < base->cut) {
            status = try_cut(coord, cut->generation, cut->cut, ret, err);
        }
    }
    return status;
}

void coord_back_work(struct ps_coord *coord)
{
    struct ps_coord_core *core = &coord->core;
    static struct ps_cut_found const none;
    struct ps_cut_found found = none;
    struct ps_error err;
    char reason[PS_ERROR_TEXT_BYTES];
    memcpy(reason, core->reason, sizeof(reason));
    if (find_last(coord, &found, &err) == PS_OK && go_back(coord, &found, reason, &err) == PS_OK) {
        return;
    }
    if (err.status == PS_ERR_NOMEM) {
        return; /* The next flush tries again. */
    }
    char text[2 * PS_ERROR_TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s; and there is no way back: %s", reason, err.text);
    text[PS_ERROR_TEXT_BYTES - 1] = '\0';
    ps_coord_core_lose(core, ps_exec_now_ms(coord->options.exec), text);
}

/* ---- Beginning with a cut ------------------------------------------------------------------ */

enum ps_status coord_begin_with(struct ps_coord *coord, const char *dir, struct ps_error *err)
{
    static struct ps_cut_found const none;
    struct ps_cut_found found = none;
    if (coord->options.keeper == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "nothing here can read snapshots");
    }
    enum ps_status status = ps_cut_newest(coord->options.keeper, dir, &found, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "restoring from %s", dir);
    }
    Ps__V1__CutState *state = NULL;
    status = read_state(coord, &found, &state, err);
    if (status == PS_OK) {
        struct ps_coord_beyond beyond = {
            .session_number = state->next_session_number + LEAP,
            .sessions_version = state->sessions_version + LEAP,
            .finished_version = state->finished_version + LEAP,
            .placement_version = state->placement_version + LEAP,
        };
        memcpy(beyond.epochs, state->epoch, sizeof(beyond.epochs));
        coord->key_seed = state->key_seed;
        ps_coord_go_beyond(&coord->core, &beyond);
    }
    if (state != NULL) {
        ps_wire_unpacked_free(&state->base);
    }
    if (status != PS_OK) {
        ps_mem_free(found.job);
        return status;
    }
    return go_back(coord, &found, "it was started with --restore", err);
}

/* No number of a cut that lies in the directory already, whosever it is, is used again. */
void coord_cuts_beyond(struct ps_coord *coord)
{
    static struct ps_cut_found const none;
    struct ps_cut_found found = none;
    struct ps_error err;
    if (coord->options.keeper == NULL ||
        ps_cut_newest(coord->options.keeper, NULL, &found, &err) != PS_OK) {
        return;
    }
    ps_mem_free(found.job);
    if (found.cut >= coord->core.cut.next) {
        coord->core.cut.next = found.cut + 1;
    }
}

/* ---- The call Restore ---------------------------------------------------------------------- */

static void answer_restore(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    const struct ps_coord_core *core = &coord->core;
    if (core->generation != call->clock) {
        coord_call_fail(call, PS_ERR_UNAVAIL, "another way back began meanwhile");
    } else if (core->base.loaded) {
        Ps__V1__RestoreReply reply = PS__V1__RESTORE_REPLY__INIT;
        Ps__V1__Cut cut = PS__V1__CUT__INIT;
        char name[PS_CUT_NAME_BYTES];
        coord_cut_name(core->base.generation, core->base.cut, name);
        cut.generation = core->base.generation;
        cut.cut = core->base.cut;
        cut.name = name;
        cut.dir = coord->base_dir;
        reply.cut = &cut;
        reply.generation = core->generation;
        coord_call_reply(call, &reply.base);
    } else if (call->late) {
        coord_call_fail(call, PS_ERR_TIMEOUT, "servers still load the cut");
    }
}

void coord_cut_name(uint64_t generation, uint64_t cut, char ret[PS_CUT_NAME_BYTES])
{
    (void)snprintf(ret, PS_CUT_NAME_BYTES, "%06" PRIu64 "-%010" PRIu64, generation, cut);
}

/* "000001-0000000042" */
static bool parse_name(const char *name, uint64_t ret[2])
{
    ret[0] = 0;
    ret[1] = 0;
    uint32_t nth = 0;
    for (const char *at = name; *at != '\0'; at++) {
        if (*at == '-' && nth == 0 && at > name && at[1] != '\0') {
            nth = 1;
        } else if (*at >= '0' && *at <= '9' && ret[nth] < UINT64_MAX / 100) {
            ret[nth] = 10 * ret[nth] + (uint64_t)(*at - '0');
        } else {
            return false;
        }
    }
    return nth == 1;
}

static enum ps_status find_asked(struct ps_coord *coord, const char *name, struct ps_cut_found *ret,
                                 struct ps_error *err)
{
    uint64_t numbers[2];
    if (coord->options.keeper == NULL) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "there is no directory for snapshots (--snapshot-dir)");
    }
    if (name[0] == '\0') {
        enum ps_status status = find_last(coord, ret, err);
        return status == PS_OK ? PS_OK : ps_cut_newest(coord->options.keeper, NULL, ret, err);
    }
    if (!parse_name(name, numbers)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "a cut is called like 000001-0000000042, not %.64s: see psctl snapshot "
                       "--list",
                       name);
    }
    return ps_cut_find(coord->options.keeper, numbers[0], numbers[1], ret, err);
}

void coord_restore(struct coord_call *call, ProtobufCMessage *message)
{
    struct ps_coord *coord = call->coord;
    struct ps_coord_core *core = &coord->core;
    static struct ps_cut_found const none;
    struct ps_cut_found found = none;
    struct ps_error err;
    if (ps_coord_core_over(core)) {
        coord_call_fail(call, PS_ERR_CANCELED, core->reason);
        return;
    }
    if (core->placement.version == 0) {
        coord_call_fail(call, PS_ERR_UNAVAIL, "not all servers have joined yet");
        return;
    }
    if (find_asked(coord, ((const Ps__V1__RestoreRequest *)message)->cut, &found, &err) != PS_OK ||
        go_back(coord, &found, "psctl restore asked for it", &err) != PS_OK) {
        coord_call_fail_as(call, &err);
        return;
    }
    call->clock = core->generation;
    coord_call_park(call, answer_restore);
}
