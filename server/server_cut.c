/*
 * server_cut.c — a server's part of a cut, from the order to the place in the log that it frees.
 *
 *   order ─> every lane gives its slots ─> "taken" ─> the writer, in the background ─> "written"
 *
 * One at a time: a newer order calls off what is under way, and comes after it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/failpoint.h"
#include "coordinator.pb-c.h"
#include "obs/log.h"
#include "server_impl.h"
#include "snap/keep.h"

#define LAST_CUT_MS 10000u /* Of the 30 s that Kubernetes gives; 1 GB at 100 MB/s. */

static enum ps_snap_plant snap_plant(enum ps_plant plant)
{
    switch ((int)plant) {
    case PS_PLANT_RENAME_BEFORE_SYNC: return PS_SNAP_PLANT_RENAME_BEFORE_SYNC;
    case PS_PLANT_DIR_NOT_SYNCED: return PS_SNAP_PLANT_DIR_NOT_SYNCED;
    default: return PS_SNAP_PLANT_NONE;
    }
}

enum ps_status server_cuts_open(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    struct server_lasting *last = &server->lasting;
    if (options->restore_dir != NULL) {
        (void)snprintf(last->restore_dir, sizeof(last->restore_dir), "%s", options->restore_dir);
    }
    if (options->snapshot_dir == NULL) {
        return PS_OK;
    }
    PS_ASSERT(options->disk != NULL && options->snap_exec != NULL);
    (void)snprintf(last->snapshot_dir, sizeof(last->snapshot_dir), "%s", options->snapshot_dir);
    struct ps_snap_writer_options writer = {
        .disk = options->disk,
        .dir = last->snapshot_dir,
        .exec = options->snap_exec,
        .mem = options->mem,
        .metrics = options->metrics,
        .plant = snap_plant(options->plant),
    };
    return ps_snap_writer_create(&writer, &last->writer, err);
}

/* ---- Taking and writing --------------------------------------------------------------------- */

static void begin(struct ps_server *server, uint64_t number);

/* The order of the moment is answered. @return the one that waits; 0: none */
static uint64_t answer(struct ps_server *server, const struct ps_attend_written *written)
{
    struct server_cutting *cutting = &server->lasting.cutting;
    uint64_t next = cutting->next;
    if (written->err.status != PS_OK && next == 0) {
        ps_log(PS_LOG_WARN, "snapshot.failed", "cut=%" PRIu64 " why=\"%s\"", written->cut,
               written->err.text);
    }
    server->lasting.n_parts++;
    cutting->number = 0;
    cutting->next = 0;
    ps_attend_cut_written(server->attend, written);
    return next;
}

static void finish(struct ps_server *server, const struct ps_attend_written *written)
{
    uint64_t next = answer(server, written);
    if (next != 0) {
        begin(server, next);
    }
}

static void run_written(struct ps_mail *mail)
{
    struct ps_snap_write *write = PS_CONTAINER_OF(mail, struct ps_snap_write, done);
    struct server_cutting *cutting = PS_CONTAINER_OF(write, struct server_cutting, write);
    struct server_lasting *last = PS_CONTAINER_OF(cutting, struct server_lasting, cutting);
    struct ps_server *server = PS_CONTAINER_OF(last, struct ps_server, lasting);
    uint64_t now_ms = ps_exec_now_ms(server->options.exec);
    struct ps_attend_written written = {.cut = cutting->number,
                                        .err = write->err,
                                        .n_bytes = write->n_bytes,
                                        .ms = now_ms - cutting->began_ms};
    if (write->err.status == PS_OK) {
        ps_snap_sum_bytes(write->sum, written.checksum);
        last->log_mark = cutting->log_bytes;
        ps_log(PS_LOG_INFO, "snapshot.written",
               "cut=%" PRIu64 " bytes=%" PRIu64 " ms=%" PRIu64 " writing_ms=%" PRIu64,
               cutting->number, write->n_bytes, written.ms, write->ms);
    }
    finish(server, &written);
}

static void write_part(struct ps_server *server)
{
    struct server_lasting *last = &server->lasting;
    struct server_cutting *cutting = &last->cutting;
    struct ps_attend_view view;
    ps_attend_view(server->attend, &view);
    for (uint32_t i = 0; i < last->n_tables; i++) {
        cutting->tables[i] = (struct ps_snap_table){.definition = last->tables[i].bytes,
                                                    .n_bytes = last->tables[i].n_bytes};
    }
    cutting->write = (struct ps_snap_write){
        .job = {.generation = cutting->generation,
                .cut = cutting->number,
                .cluster = view.cluster,
                .key_seed = atomic_load_explicit(&server->svc.key_seed, memory_order_relaxed),
                .server = view.index,
                .n_servers = view.n_servers,
                .catalogue = &server->catalogue,
                .tables = cutting->tables,
                .n_tables = last->n_tables},
        .cut = cutting->cut,
        .home = server->options.exec,
        .done = {.run = run_written},
    };
    server_cut_note_base(server, cutting->number, cutting->cut->base_lsn);
    cutting->cut = NULL;
    ps_snap_writer_post(last->writer, &cutting->write);
}

static void run_taken(struct ps_mail *mail)
{
    struct server_cutting *cutting = PS_CONTAINER_OF(mail, struct server_cutting, taken);
    struct server_lasting *last = PS_CONTAINER_OF(cutting, struct server_lasting, cutting);
    struct ps_server *server = PS_CONTAINER_OF(last, struct ps_server, lasting);
    enum ps_status status = (enum ps_status)atomic_load(&cutting->cut->status);
    ps_failpoint("cut.taken");
    if (status == PS_OK && cutting->next == 0 && !cutting->called_off) {
        ps_attend_cut_taken(server->attend, cutting->number);
        write_part(server);
        return;
    }
    struct ps_attend_written never = {.cut = cutting->number};
    (void)ps_fail(&never.err, status != PS_OK ? status : PS_ERR_CANCELED,
                  status == PS_ERR_NOMEM ? "no memory for a part of a snapshot"
                                         : "the snapshot was called off");
    ps_cut_free(cutting->cut);
    cutting->cut = NULL;
    finish(server, &never);
}

static void begin(struct ps_server *server, uint64_t number)
{
    struct server_lasting *last = &server->lasting;
    struct server_cutting *cutting = &last->cutting;
    struct ps_attend_view view;
    ps_attend_view(server->attend, &view);
    cutting->number = number;
    cutting->generation = view.generation;
    cutting->called_off = false;
    cutting->began_ms = ps_exec_now_ms(server->options.exec);
    cutting->cut = ps_cut_create(server->options.mem);
    if (cutting->cut == NULL) {
        struct ps_attend_written never = {.cut = number};
        (void)ps_fail(&never.err, PS_ERR_NOMEM, "no memory for a part of a snapshot");
        (void)answer(server, &never); /* None waits when one begins. */
        return;
    }
    /* What the log has reported by now was told to the lanes before they hear of this. */
    cutting->cut->base_lsn = last->wal != NULL ? ps_wal_reported(last->wal) + 1 : 0;
    cutting->log_bytes = last->wal != NULL ? ps_wal_bytes(last->wal) : 0;
    cutting->cut->done = &cutting->taken;
    cutting->cut->home = server->options.exec;
    cutting->taken.run = run_taken;
    atomic_init(&cutting->cut->n_pending, server->options.n_lanes);
    for (uint32_t i = 0; i < server->options.n_lanes; i++) {
        ps_lane_post_cut(server->lanes[i], cutting->cut);
    }
}

enum ps_lasting_when server_cut(struct ps_server *server, uint64_t number, struct ps_error *err)
{
    struct server_cutting *cutting = &server->lasting.cutting;
    if (server->lasting.writer == NULL) {
        (void)ps_fail(err, PS_ERR_UNSUPPORTED,
                      "server %.100s has no place for snapshots: start it with --snapshot-dir DIR",
                      server->options.name);
        return PS_LASTING_NEVER;
    }
    if (cutting->number != 0) {
        server_cut_call_off(server);
        cutting->next = number;
    } else {
        begin(server, number);
    }
    return PS_LASTING_LATER;
}

void server_cut_call_off(struct ps_server *server)
{
    struct server_cutting *cutting = &server->lasting.cutting;
    cutting->next = 0;
    cutting->called_off = true;
    atomic_store(&cutting->write.called_off, true);
}

bool server_cut_last(struct ps_server *server)
{
    struct server_lasting *last = &server->lasting;
    struct ps_attend_view view;
    ps_attend_view(server->attend, &view);
    bool has_something =
        view.joined && view.lost.status == PS_OK &&
        (view.job == PS__V1__JOB_STATE__RUNNING || view.job == PS__V1__JOB_STATE__DONE);
    if (last->wal != NULL || last->writer == NULL || !has_something) {
        return false;
    }
    last->leaving = true;
    last->leaving_ms = ps_exec_now_ms(server->options.exec);
    last->leaving_n_parts = last->n_parts;
    if (server->coord != NULL) {
        ps_coord_snapshot(server->coord);
    }
    return true;
}

bool server_cut_last_over(const struct ps_server *server)
{
    const struct server_lasting *last = &server->lasting;
    struct ps_attend_view view;
    ps_attend_view(server->attend, &view);
    bool too_late = ps_exec_now_ms(server->options.exec) - last->leaving_ms >= LAST_CUT_MS;
    bool taken = server->coord != NULL ? !ps_coord_cutting(server->coord)
                                       : last->n_parts > last->leaving_n_parts;
    return too_late || taken || view.lost.status != PS_OK;
}

bool server_cuts_idle(const struct ps_server *server)
{
    const struct server_lasting *last = &server->lasting;
    return last->cutting.number == 0 && !last->tidying.busy && !last->restoring.busy;
}

/* ---- What the log and the directory need no more -------------------------------------------- */

void server_cut_note_base(struct ps_server *server, uint64_t cut, uint64_t lsn)
{
    struct server_lasting *last = &server->lasting;
    if (last->n_bases == SERVER_BASES_MAX) {
        memmove(last->bases, last->bases + 1, (SERVER_BASES_MAX - 1) * sizeof(last->bases[0]));
        last->n_bases--;
    }
    last->bases[last->n_bases++] = (struct server_base){.cut = cut, .lsn = lsn};
}

static void run_tidied(struct ps_mail *mail)
{
    PS_CONTAINER_OF(mail, struct server_tidying, done)->busy = false;
}

/* On the snapshots' executor. */
static void run_tidy(struct ps_mail *mail)
{
    struct server_tidying *tidying = PS_CONTAINER_OF(mail, struct server_tidying, mail);
    struct ps_server *server = tidying->server;
    const char *dirs[3];
    struct ps_snap_place place = server_snap_place(server, NULL, dirs);
    place.n_dirs = 1; /* Its own; what was restored from belongs to somebody else. */
    struct ps_error err;
    enum ps_status (*drop)(const struct ps_snap_place *, uint32_t, uint64_t, uint64_t,
                           struct ps_error *) = tidying->alone ? ps_snap_drop : ps_snap_drop_older;
    if (drop(&place, server->lasting.identity.index, tidying->generation, tidying->cut, &err) !=
        PS_OK) {
        ps_log(PS_LOG_WARN, "snapshot.stays", "why=\"%s\"", err.text);
    }
    ps_exec_post(server->options.exec, &tidying->done);
}

static void tidy(struct ps_server *server, uint64_t generation, uint64_t cut, bool alone)
{
    struct server_tidying *tidying = &server->lasting.tidying;
    if (tidying->busy || server->lasting.writer == NULL) {
        return; /* The next one does for both. */
    }
    *tidying = (struct server_tidying){.busy = true,
                                       .mail = {.run = run_tidy},
                                       .done = {.run = run_tidied},
                                       .server = server,
                                       .generation = generation,
                                       .cut = cut,
                                       .alone = alone};
    ps_exec_post(server->options.snap_exec, &tidying->mail);
}

void server_cut_kept(struct ps_server *server, uint64_t number)
{
    struct server_lasting *last = &server->lasting;
    uint64_t lsn = 0;
    for (uint32_t i = 0; i < last->n_bases; i++) {
        if (last->bases[i].cut == number ||
            (server->options.plant == PS_PLANT_LOG_TRIMMED_EARLY && last->bases[i].cut > number)) {
            lsn = last->bases[i].lsn;
        }
    }
    if (last->wal != NULL && lsn > 0) {
        ps_wal_trim(last->wal, lsn);
    }
}

void server_cut_oldest(struct ps_server *server, uint64_t generation, uint64_t number)
{
    tidy(server, generation, number, false);
}

void server_cut_gave_up(struct ps_server *server, uint64_t number)
{
    if (server->lasting.cutting.number == number) {
        uint64_t next = server->lasting.cutting.next;
        server_cut_call_off(server);
        server->lasting.cutting.next = next;
    }
    struct ps_attend_view view;
    ps_attend_view(server->attend, &view);
    tidy(server, view.generation, number, true); /* Behind the writer, if it is at it. */
}

bool server_cut_wanted(struct ps_server *server)
{
    struct server_lasting *last = &server->lasting;
    if (last->writer == NULL || last->cutting.number != 0) {
        return false;
    }
    if (last->wal == NULL) {
        return last->leaving;
    }
    uint64_t limit = server->options.log_bytes != 0 ? server->options.log_bytes : PS_LOG_BYTES;
    uint64_t n_bytes = ps_wal_bytes(last->wal);
    if (n_bytes < last->log_mark) { /* It was cut short since. */
        last->log_mark = n_bytes;
    }
    return n_bytes - last->log_mark > limit;
}
