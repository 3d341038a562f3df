/*
 * coord_resume.c — a new coordinator takes over what the store has of the one before.
 *
 * What is read was checksummed by the store, and is checked all the same: a bound that is broken
 * here would be broken everywhere.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coord/back_core.h"
#include "coord/coord_define.h"
#include "coord/coord_impl.h"
#include "coord/coord_stored.h"
#include "obs/log.h"
#include "wire/pack.h"

void coord_resume_forget(struct ps_coord *coord)
{
    if (coord->resumes != NULL) {
        ps_wire_unpacked_free(&coord->resumes->base);
        coord->resumes = NULL;
    }
}

static enum ps_status damaged(struct ps_error *err, const char *what)
{
    return ps_fail(err, PS_ERR_CORRUPT,
                   "the coordinator's store has %s that cannot be: move it away to start afresh",
                   what);
}

enum ps_status coord_resume_job(struct ps_coord *coord, const Ps__V1__Catalogue *catalogue,
                                const Ps__V1__JobDefinition *job,
                                const Ps__V1__JobProgress *progress, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (size_t i = 0; catalogue != NULL && i < catalogue->n_tables && status == PS_OK; i++) {
        uint32_t number = 0;
        status = coord_define(coord, catalogue->tables[i]->definition, &number, err);
        if (status == PS_OK && number != i) {
            status = damaged(err, "a table twice");
        }
    }
    if (status != PS_OK || job == NULL || coord->definition.job != NULL) {
        return status;
    }
    struct ps_lease_plan plan;
    status = coord_check_job(job, &plan, err);
    if (status == PS_OK) {
        status = coord_accept_job(coord, job, &plan, err);
    }
    if (status == PS_OK && progress != NULL) {
        coord->definition.units_asked = progress->units_asked;
    }
    return status;
}

static enum ps_status resume_progress(struct ps_coord *coord, const Ps__V1__Stored *stored,
                                      struct ps_error *err)
{
    struct ps_coord_core *core = &coord->core;
    if (stored->progress == NULL || !core->has_job) {
        return PS_OK;
    }
    enum ps_status status = coord_progress_read(coord, stored->progress, &core->pool, err);
    if (status != PS_OK) {
        return status;
    }
    coord_progress_losses(coord, stored->progress);
    core->min_clock = stored->progress->min_clock;
    core->started = stored->progress->started;
    core->started_ms = ps_exec_now_ms(coord->options.exec);
    return PS_OK;
}

static enum ps_status resume_places(struct ps_coord *coord, const Ps__V1__Stored *stored,
                                    struct ps_error *err)
{
    struct ps_coord_core *core = &coord->core;
    const Ps__V1__Placement *placement = stored->placement;
    struct ps_coord_stored_place places[PS_SERVERS_MAX] = {0};
    uint32_t n = coord->options.n_servers;
    if (stored->n_servers != n) {
        return ps_fail(err, PS_ERR_INVALID,
                       "the data directory is of a cluster of %" PRIu32 " servers, not of %" PRIu32
                       ": start as many, or restore a snapshot into a new data directory",
                       stored->n_servers, n);
    }
    if (placement->version == 0 || placement->n_primary != PS_SLOTS ||
        placement->n_epoch != PS_SLOTS || stored->n_places != n) {
        return damaged(err, "a placement");
    }
    for (uint32_t i = 0; i < n; i++) {
        const Ps__V1__StoredPlace *from = stored->places[i];
        struct ps_coord_stored_place *to = &places[i];
        if (!ps_id_from(from->incarnation.data, from->incarnation.len, &to->incarnation) ||
            !ps_id_from(from->server.data, from->server.len, &to->id) ||
            strlen(from->name) > PS_NAME_BYTES_MAX ||
            strlen(from->address) > PS_ADDRESS_BYTES_MAX) {
            return damaged(err, "a server");
        }
        to->number = from->number;
        to->durability = (uint32_t)from->durability;
        to->placed = from->placed;
        to->gone = from->gone;
        to->name = from->name;
        to->address = from->address;
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        if (placement->primary[slot] >= n) {
            return damaged(err, "a slot");
        }
        core->placement.primary[slot] = placement->primary[slot];
        core->placement.epoch[slot] = placement->epoch[slot];
    }
    core->placement.version = placement->version;
    ps_coord_resume_places(core, ps_exec_now_ms(coord->options.exec), places);
    return PS_OK;
}

static enum ps_status resume_session(struct ps_coord *coord, const Ps__V1__StoredMember *from,
                                     struct ps_error *err)
{
    struct ps_coord_stored_session session = {
        .kind = (enum ps_coord_kind)from->kind,
        .number = from->number,
        .name = from->name,
        .unleased = from->unleased,
        .opened = from->opened,
        .closing = from->closing,
        .opened_version = from->opened_version,
        .closed_version = from->closed_version,
        .clock = from->clock,
        .lease = from->lease,
        .lease_clock = from->lease_clock,
        .lease_units = from->lease_units,
        .staged = {from->staged_step != 0, from->staged_unit, from->staged_rows},
    };
    bool known =
        from->kind == PS__V1__SESSION_KIND__WORKER || from->kind == PS__V1__SESSION_KIND__READER;
    if (!known || !ps_id_from(from->session.data, from->session.len, &session.session) ||
        strlen(from->name) > PS_NAME_BYTES_MAX ||
        ps_coord_core_find(&coord->core, &session.session) != PS_COORD_NOBODY) {
        return damaged(err, "a session");
    }
    return ps_coord_resume_session(&coord->core, ps_exec_now_ms(coord->options.exec), &session,
                                   err);
}

static enum ps_status resume_close(struct ps_coord *coord, const Ps__V1__CloseStep *from,
                                   struct ps_error *err)
{
    struct ps_coord_core *core = &coord->core;
    struct ps_coord_close *close = &core->close;
    if (from->n_entries > PS_SESSIONS_MAX) {
        return damaged(err, "a closed step");
    }
    close->decided = true;
    close->step = from->step;
    close->pending = from->step + 1 > core->min_clock;
    close->n_entries = (uint32_t)from->n_entries;
    for (size_t i = 0; i < from->n_entries; i++) {
        const Ps__V1__CloseEntry *entry = from->entries[i];
        close->entries[i] = (struct ps_coord_close_entry){entry->session_number, entry->lease,
                                                          entry->unit, entry->rows};
        bool held = false;
        for (uint32_t k = 0; k < core->n_members; k++) {
            const struct ps_coord_member *member = &core->members[k];
            held = held || (member->number == entry->session_number &&
                            member->lease == entry->lease && member->kind == PS_COORD_WORKER);
        }
        if (close->pending &&
            !(held && entry->lease != 0 &&
              ps_lease_may_have(&core->pool.plan, entry->lease, entry->unit + 1))) {
            return damaged(err, "a closed step");
        }
    }
    return PS_OK;
}

static enum ps_status resume_cuts(struct ps_coord *coord, const Ps__V1__Stored *stored,
                                  struct ps_error *err)
{
    struct ps_coord_core *core = &coord->core;
    for (size_t i = 0; i < stored->n_cuts && i < PS_CUTS_MAX; i++) {
        ProtobufCMessage *copy = ps_wire_copy(&stored->cuts[i]->base, coord->options.mem);
        if (copy == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for the list of cuts");
        }
        coord->known[coord->n_known++] = (Ps__V1__Cut *)copy;
        core->has_cut = core->has_cut || stored->cuts[i]->generation == core->generation;
    }
    const Ps__V1__StoredRestore *restore = stored->restore;
    if (restore == NULL) {
        return PS_OK;
    }
    if (strlen(restore->dir) >= sizeof(coord->base_dir)) {
        return damaged(err, "a directory");
    }
    memcpy(coord->base_dir, restore->dir, strlen(restore->dir) + 1);
    core->base = (struct ps_coord_base){.is = true,
                                        .loaded = restore->loaded,
                                        .generation = restore->cut_generation,
                                        .cut = restore->cut};
    return PS_OK;
}

static enum ps_status resume(struct ps_coord *coord, const Ps__V1__Stored *stored,
                             struct ps_error *err)
{
    struct ps_coord_core *core = &coord->core;
    core->finished_version = stored->finished_version;
    core->sessions_lost = stored->sessions_lost;
    enum ps_status status =
        coord_resume_job(coord, stored->catalogue, stored->definition, stored->progress, err);
    if (status == PS_OK) {
        status = resume_progress(coord, stored, err);
    }
    if (status == PS_OK) {
        status = resume_cuts(coord, stored, err);
    }
    if (status == PS_OK) {
        status = resume_places(coord, stored, err);
    }
    for (size_t i = 0; i < stored->n_members && status == PS_OK; i++) {
        status = resume_session(coord, stored->members[i], err);
    }
    if (status == PS_OK && stored->close != NULL) {
        status = resume_close(coord, stored->close, err);
    }
    return status;
}

enum ps_status coord_resume(struct ps_coord *coord, bool *ret_resumed, struct ps_error *err)
{
    const Ps__V1__Stored *stored = coord->resumes;
    *ret_resumed = stored != NULL && stored->placement != NULL;
    if (!*ret_resumed) {
        coord_resume_forget(coord);
        return PS_OK;
    }
    enum ps_status status = resume(coord, stored, err);
    if (status == PS_OK) {
        ps_coord_resumed(&coord->core);
        for (uint32_t i = 0; i < coord->core.n_members; i++) {
            coord_peer_claim(coord, i);
        }
        ps_log(PS_LOG_INFO, "coordinator.resumed",
               "term=%" PRIu64 " generation=%" PRIu64 " sessions=%zu tables=%" PRIu64
               " leases_finished=%" PRIu32,
               coord->term, coord->core.generation, stored->n_members,
               coord->core.catalogue_version, coord->core.pool.n_finished);
    }
    coord_resume_forget(coord);
    return status;
}
