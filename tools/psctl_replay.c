/* psctl_replay.c — see psctl_replay.h; the work is in replay_*.c. */
#include "psctl_replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "identity.h"
#include "os/posix_disk.h"
#include "os/process.h"
#include "replay.h"
#include "train/loop.h"

#define FROM_NOTHING "nothing"

/** One run of the command. */
struct run {
    const struct psctl_options *options;
    struct ps_disk *disk;
    char log_dir[PS_DIR_BYTES_MAX + 16];
    char snap_dir[PS_DIR_BYTES_MAX + 16];
    const char *dirs[PS_SNAP_DIRS_MAX];
    struct ps_snap_place place;
    struct ps_identity identity;
    struct ps_snap *from; /* NULL: from nothing. */
    struct ps_snap *to;
    const struct ps_snap_part *from_part; /* This server's. */
    const struct ps_snap_part *to_part;
    uint64_t from_lsn;
    bool begun; /* A record was seen. */
    bool over;  /* A generation began after `to`. */
    uint64_t generation_of_to;
    struct replay *replay;
};

static void name_of(const struct ps_snap_part *part, char text[PS_SNAP_DIR_BYTES])
{
    (void)snprintf(text, PS_SNAP_DIR_BYTES, FROM_NOTHING);
    if (part != NULL) {
        ps_snap_dir_name(part->generation, part->cut, text);
    }
}

/* ---- Which snapshots ------------------------------------------------------------------------ */

/* This server's part, or NULL. */
static const struct ps_snap_part *own_part(const struct run *run, const struct ps_snap *snap)
{
    for (uint32_t i = 0; i < ps_snap_n_parts(snap); i++) {
        if (ps_snap_part(snap, i)->server == run->identity.index) {
            return ps_snap_part(snap, i);
        }
    }
    return NULL;
}

/* All of it; where its MANIFEST lies with another server, this server's part. */
static enum ps_status open_cut(const struct run *run, const struct ps_snap_place *place,
                               const char *name, struct ps_snap **ret, struct ps_error *err)
{
    uint64_t cut = 0;
    struct ps_snap_own own = {.cluster = run->identity.cluster, .server = run->identity.index};
    if (!ps_snap_dir_parse(name, &own.generation, &cut)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%.64s' is no snapshot's name; they are called as in psctl snapshot --list",
                       name);
    }
    enum ps_status status = ps_snap_open(place, own.generation, cut, ret, err);
    struct ps_snap *part = NULL;
    struct ps_error why;
    own.below = cut + 1;
    if (status != PS_ERR_NOT_FOUND ||
        ps_snap_open_part(place, &own, NULL, NULL, &part, &why) != PS_OK) {
        return status;
    }
    if (ps_snap_part(part, 0)->cut != cut) { /* An older one. */
        ps_snap_close(part);
        return status;
    }
    *ret = part;
    return PS_OK;
}

static enum ps_status open_named(struct run *run, const char *name, struct ps_snap **ret,
                                 struct ps_error *err)
{
    enum ps_status status = open_cut(run, &run->place, name, ret, err);
    if (status == PS_OK && own_part(run, *ret) == NULL) {
        status = ps_fail(err, PS_ERR_NOT_FOUND, "snapshot %s has no part of server %u", name,
                         run->identity.index);
    }
    return status;
}

/* The newest part that the server wrote. */
static enum ps_status open_newest(struct run *run, struct ps_snap **ret, struct ps_error *err)
{
    struct ps_snap_entry *entries = NULL;
    size_t n = 0;
    enum ps_status status = ps_snap_list(&run->place, &entries, &n, err);
    if (status == PS_OK) {
        status = ps_fail(err, PS_ERR_NOT_FOUND,
                         "%s: no snapshot of server %u to compare with; take one: psctl snapshot",
                         run->snap_dir, run->identity.index);
    }
    for (size_t i = 0; i < n && status == PS_ERR_NOT_FOUND; i++) {
        struct ps_snap_own own = {.cluster = run->identity.cluster,
                                  .generation = entries[i].generation,
                                  .server = run->identity.index};
        status = ps_snap_open_part(&run->place, &own, NULL, NULL, ret, err);
    }
    ps_mem_free(entries);
    return status;
}

/* The end of a log that is being written cannot be judged: reading stops when enough is known. */
static enum ps_status stop_at_record(void *arg, uint64_t lsn, const struct ps_record *record,
                                     struct ps_error *err)
{
    (void)record;
    *(uint64_t *)arg = lsn;
    return ps_fail(err, PS_ERR_CANCELED, "enough");
}

static enum ps_status stop_at_table(void *arg, uint64_t lsn, uint32_t number, const uint8_t *bytes,
                                    size_t n_bytes, struct ps_error *err)
{
    (void)number;
    (void)bytes;
    (void)n_bytes;
    return stop_at_record(arg, lsn, NULL, err);
}

static enum ps_status stop_at_generation(void *arg, uint64_t lsn, uint64_t generation,
                                         const char *dir, const char *cut, struct ps_error *err)
{
    (void)generation;
    (void)dir;
    (void)cut;
    return stop_at_record(arg, lsn, NULL, err);
}

/* The oldest record that the log has; 0: none. */
static enum ps_status find_first(const struct run *run, uint64_t *ret_lsn, struct ps_error *err)
{
    struct ps_wal_recovered log = {0};
    const struct ps_wal_recovery recovery = {.disk = run->disk, .dir = run->log_dir};
    const struct ps_wal_visitor visitor = {.record = stop_at_record,
                                           .table = stop_at_table,
                                           .generation = stop_at_generation,
                                           .arg = ret_lsn};
    enum ps_status status = ps_wal_recover(&recovery, &visitor, &log, err);
    return status == PS_ERR_CANCELED ? PS_OK : status;
}

/* The oldest part that the log goes on from; none if it reaches back to nothing. */
static enum ps_status open_oldest(struct run *run, struct ps_error *err)
{
    uint64_t first_lsn = 0;
    enum ps_status status = find_first(run, &first_lsn, err);
    bool reaches = first_lsn > 1;
    struct ps_snap_own own = {.cluster = run->identity.cluster,
                              .generation = run->to_part->generation,
                              .server = run->identity.index,
                              .below = run->to_part->cut};
    while (status == PS_OK && reaches) {
        struct ps_snap *older = NULL;
        struct ps_error why;
        if (own.below == 0 ||
            ps_snap_open_part(&run->place, &own, NULL, NULL, &older, &why) != PS_OK) {
            break; /* Without any it has to begin with a way back: see_record looks. */
        }
        const struct ps_snap_part *part = own_part(run, older);
        reaches = part != NULL && part->base_lsn >= first_lsn;
        own.below = part != NULL ? part->cut : 0;
        ps_snap_close(reaches ? run->from : older);
        run->from = reaches ? older : run->from;
    }
    return status;
}

static enum ps_status open_both(struct run *run, struct ps_error *err)
{
    const char *from = run->options->from;
    enum ps_status status = run->options->to != NULL
                                ? open_named(run, run->options->to, &run->to, err)
                                : open_newest(run, &run->to, err);
    run->to_part = status == PS_OK ? own_part(run, run->to) : NULL;
    if (status == PS_OK && run->to_part == NULL) {
        status = ps_fail(err, PS_ERR_NOT_FOUND, "no part of server %u", run->identity.index);
    }
    if (status == PS_OK && from == NULL) {
        status = open_oldest(run, err);
    } else if (status == PS_OK && strcmp(from, FROM_NOTHING) != 0) {
        status = open_named(run, from, &run->from, err);
    }
    run->from_part = status == PS_OK && run->from != NULL ? own_part(run, run->from) : NULL;
    return status;
}

/* ---- The log -------------------------------------------------------------------------------- */

/* Lines of a generation that was given up may be longer than those of the one that counts. */
static bool all_seen(const struct run *run)
{
    return run->replay->generation == run->generation_of_to && replay_done(run->replay);
}

/* The log has to begin where the snapshot ends. */
static enum ps_status look_at_lsn(struct run *run, uint64_t lsn, struct ps_error *err)
{
    uint64_t first = run->from_lsn > 0 ? run->from_lsn : 1;
    if (!run->begun && lsn > first) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "%s begins with record %" PRIu64 ", needed is %" PRIu64
                       ": choose a later snapshot with --from",
                       run->log_dir, lsn, first);
    }
    run->begun = true;
    return PS_OK;
}

static enum ps_status see_record(void *arg, uint64_t lsn, const struct ps_record *record,
                                 struct ps_error *err)
{
    struct run *run = arg;
    enum ps_status status = look_at_lsn(run, lsn, err);
    if (status == PS_OK && run->over) {
        return ps_fail(err, PS_ERR_CANCELED, "enough");
    }
    if (status == PS_OK) {
        status = replay_record(run->replay, record, err);
    }
    return status == PS_OK && all_seen(run) ? ps_fail(err, PS_ERR_CANCELED, "enough") : status;
}

static enum ps_status see_table(void *arg, uint64_t lsn, uint32_t number, const uint8_t *bytes,
                                size_t n_bytes, struct ps_error *err)
{
    struct run *run = arg;
    enum ps_status status = look_at_lsn(run, lsn, err);
    (void)number;
    return status == PS_OK && !run->over ? replay_define(run->replay, bytes, n_bytes, err) : status;
}

/* Everything before is void: begin anew with the snapshot that the job went back to. */
static enum ps_status see_generation(void *arg, uint64_t lsn, uint64_t generation, const char *dir,
                                     const char *cut, struct ps_error *err)
{
    struct run *run = arg;
    enum ps_status status = PS_OK;
    run->begun = true; /* Whatever was before. */
    if (generation <= run->replay->generation) {
        return PS_OK;
    }
    if (generation > run->generation_of_to) {
        run->over = true;
        return PS_OK;
    }
    const char *dirs[] = {dir, run->snap_dir};
    struct ps_snap_place place = {.disk = run->disk, .dirs = dirs, .n_dirs = 2};
    struct ps_snap *snap = NULL;
    status = open_cut(run, &place, cut, &snap, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "record %" PRIu64 ", where the job went back", lsn);
    }
    replay_forget(run->replay);
    for (uint32_t i = 0; i < PS_SLOTS; i++) {
        run->replay->slots[i].position = 0;
    }
    run->replay->generation = generation;
    status = replay_load(run->replay, snap, err);
    ps_snap_close(snap);
    return status;
}

/* ---- The command ---------------------------------------------------------------------------- */

static enum ps_status find_dirs(struct run *run, struct ps_error *err)
{
    const char *data_dir = run->options->data_dir;
    run->disk = ps_posix_disk();
    if (data_dir == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "replay needs --data-dir, the folder of one server");
    }
    (void)snprintf(run->log_dir, sizeof(run->log_dir), "%s/log", data_dir);
    if (run->options->snapshot_dir != NULL) {
        (void)snprintf(run->snap_dir, sizeof(run->snap_dir), "%s", run->options->snapshot_dir);
    } else {
        (void)snprintf(run->snap_dir, sizeof(run->snap_dir), "%s/snapshots", data_dir);
    }
    run->dirs[0] = run->snap_dir;
    run->place = (struct ps_snap_place){.disk = run->disk, .dirs = run->dirs, .n_dirs = 1};
    enum ps_status status = ps_identity_read(run->disk, data_dir, &run->identity, err);
    if (status == PS_OK && ps_id_none(&run->identity.server)) {
        status = ps_fail(err, PS_ERR_NOT_FOUND, "%s is no server's data directory", data_dir);
    }
    return status;
}

/* The slots that `to` has of this server, and where it has them. */
static void aim(struct run *run)
{
    const struct ps_snap_part *part = run->to_part;
    run->generation_of_to = part->generation;
    for (uint32_t i = 0; i < part->n_slots; i++) {
        struct replay_slot *slot = &run->replay->slots[part->slots[i].slot];
        slot->wanted = true;
        slot->target = part->slots[i].position;
    }
}

static enum ps_status replay(struct run *run, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    aim(run);
    run->replay->generation = 1;
    if (run->from_part != NULL) {
        run->from_lsn = run->from_part->base_lsn;
        run->replay->generation = run->from_part->generation;
        status = replay_load(run->replay, run->from, err);
    }
    const struct ps_wal_recovery recovery = {
        .disk = run->disk, .dir = run->log_dir, .from_lsn = run->from_lsn};
    const struct ps_wal_visitor visitor = {
        .record = see_record, .table = see_table, .generation = see_generation, .arg = run};
    struct ps_wal_recovered log = {0};
    if (status == PS_OK && !all_seen(run)) {
        status = ps_wal_recover(&recovery, &visitor, &log, err);
        status = status == PS_ERR_CANCELED ? PS_OK : status;
    }
    return status == PS_OK ? replay_compare(run->replay, run->to, err) : status;
}

static int say(const struct run *run, enum ps_status status, const struct ps_error *err)
{
    char from[PS_SNAP_DIR_BYTES];
    char to[PS_SNAP_DIR_BYTES];
    const struct replay *replay = run->replay;
    if (status != PS_OK) {
        (void)fprintf(stderr, "psctl: %s\n", err->text);
        return ps_train_exit_status(status == PS_ERR_LOST ? PS_ERR_CORRUPT : status);
    }
    name_of(run->from_part, from);
    name_of(run->to_part, to);
    if (run->options->json) {
        (void)printf("{\"from\":\"%s\",\"to\":\"%s\",\"records\":%" PRIu64 ",\"blocks\":%" PRIu64
                     ",\"rows\":%" PRIu64 ",\"equal\":true}\n",
                     from, to, replay->n_records, replay->n_blocks, replay->n_rows);
    } else {
        (void)printf("from %s to %s: %" PRIu64 " records; %" PRIu64 " blocks and %" PRIu64
                     " rows are equal, bit for bit\n",
                     from, to, replay->n_records, replay->n_blocks, replay->n_rows);
    }
    return ps_os_finish_stdout("psctl");
}

int psctl_replay(const struct ps_conf *conf PS_UNUSED, const struct psctl_options *options)
{
    struct ps_error err = {0};
    static struct run run;
    static struct replay tables;
    run = (struct run){.options = options, .replay = &tables};
    enum ps_status status = find_dirs(&run, &err);
    if (status == PS_OK) {
        status = open_both(&run, &err);
    }
    if (status == PS_OK) {
        status = replay(&run, &err);
    }
    int result = say(&run, status, &err);
    replay_forget(run.replay);
    ps_snap_close(run.from);
    ps_snap_close(run.to);
    return result;
}
