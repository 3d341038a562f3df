/*
 * server_recover.c — a server's start: what its snapshots and its log hold is brought to the lanes
 * before anybody can call.
 *
 * The log is read twice: first for the generation that it is in now and for the slots that it has
 * lines of; then, from the record on that no snapshot covers, into the lanes. What covers its
 * beginning is the newest part of this generation that is ours and good, or, before there is one,
 * the snapshot that the generation began with.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/failpoint.h"
#include "coordinator.pb-c.h"
#include "log/recover.h"
#include "obs/log.h"
#include "server_impl.h"
#include "svc/table_def.h"
#include "wire/pack.h"

#define SEGMENT_BYTES_LEAST (1u << 20) /* Some hundred records of a batch. */

struct recovery {
    struct ps_server *server;
    struct ps_wal_recovered found;
    uint64_t from_lsn; /* What no snapshot covers. */
    uint64_t began_ms;
    /* The generation, as the log says it; else, it may be cut off behind that, the identity. */
    uint64_t generation;
    bool loaded;                     /* A part of ours is. */
    bool has_began;                  /* It is in the log where it began: */
    uint64_t began_lsn;              /*   with this record, */
    struct ps_lasting_restore began; /*   and so. */
};

/* ---- First reading -------------------------------------------------------------------------- */

static enum ps_status note_generation(void *arg, uint64_t lsn, uint64_t generation, const char *dir,
                                      const char *cut, struct ps_error *err)
{
    struct recovery *recovery = arg;
    struct ps_lasting_restore *began = &recovery->began;
    *began = (struct ps_lasting_restore){.generation = generation};
    if (strlen(dir) >= sizeof(began->dir) || strlen(cut) >= sizeof(began->name) ||
        !ps_snap_dir_parse(cut, &began->cut_generation, &began->cut)) {
        return ps_fail(err, PS_ERR_CORRUPT, "a generation that began with no snapshot");
    }
    memcpy(began->dir, dir, strlen(dir) + 1);
    memcpy(began->name, cut, strlen(cut) + 1);
    recovery->generation = generation;
    recovery->has_began = true;
    recovery->began_lsn = lsn;
    return PS_OK;
}

/* Whose lines go on in this generation. */
static enum ps_status note_slot(void *arg, uint64_t lsn, const struct ps_record *record,
                                struct ps_error *err PS_UNUSED)
{
    struct recovery *recovery = arg;
    bool counts = recovery->has_began || lsn >= recovery->server->lasting.identity.begin;
    if (record->slot < PS_SLOTS && counts) {
        recovery->began.slots |= 1ull << record->slot;
    }
    return PS_OK;
}

/* ---- Second reading ------------------------------------------------------------------------- */

static enum ps_status hold_tables(struct ps_server *server, struct ps_error *err)
{
    uint32_t n_tables = server->lasting.n_tables;
    atomic_store_explicit(&server->catalogue.n_tables, n_tables, memory_order_release);
    for (uint32_t i = 0; i < server->options.n_lanes; i++) {
        enum ps_status status = ps_lane_hold_tables(server->lanes[i], n_tables, err);
        if (status != PS_OK) {
            return status;
        }
    }
    return PS_OK;
}

static enum ps_status define_table(struct ps_server *server, uint32_t number, const uint8_t *bytes,
                                   size_t n_bytes, struct ps_error *err)
{
    if (number < server->lasting.n_tables) {
        return PS_OK; /* Of the snapshot, or logged again behind a restore. */
    }
    if (number != server->lasting.n_tables || number >= PS_TABLES_MAX) {
        return ps_fail(err, PS_ERR_CORRUPT, "table number %" PRIu32 " out of order", number);
    }
    struct ps_slice slice = {.data = bytes, .n_bytes = n_bytes};
    Ps__V1__Table *table =
        (Ps__V1__Table *)ps_wire_unpack(&ps__v1__table__descriptor, &slice, 1, server->options.mem);
    if (table == NULL) {
        return ps_fail(err, PS_ERR_CORRUPT, "the definition of table number %" PRIu32 " is none",
                       number);
    }
    enum ps_status status = ps_table_def_read(table, &server->catalogue.layouts[number],
                                              &server->catalogue.tables[number], err);
    ps_wire_unpacked_free(&table->base);
    return status == PS_OK ? server_keep_table(server, number, bytes, n_bytes, err) : status;
}

static enum ps_status take_table(void *arg, uint64_t lsn PS_UNUSED, uint32_t number,
                                 const uint8_t *bytes, size_t n_bytes, struct ps_error *err)
{
    struct recovery *recovery = arg;
    enum ps_status status = define_table(recovery->server, number, bytes, n_bytes, err);
    return status == PS_OK ? hold_tables(recovery->server, err) : status;
}

static enum ps_status take_record(void *arg, uint64_t lsn PS_UNUSED, const struct ps_record *record,
                                  struct ps_error *err)
{
    struct recovery *recovery = arg;
    struct ps_server *server = recovery->server;
    ps_failpoint("recover.mid_replay");
    if (record->slot >= PS_SLOTS) {
        return ps_fail(err, PS_ERR_CORRUPT, "a record of slot %" PRIu32, record->slot);
    }
    uint32_t lane = ps_lane_of(record->slot, server->options.n_lanes);
    return ps_lane_replay(server->lanes[lane], record, err);
}

/* ---- What a snapshot covers ----------------------------------------------------------------- */

static enum ps_status define_tables_of(struct ps_server *server, const struct ps_snap *snap,
                                       struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < PS_TABLES_MAX && status == PS_OK; i++) {
        uint8_t *bytes = NULL;
        size_t n_bytes = 0;
        status = ps_snap_table(snap, i, &bytes, &n_bytes, err);
        if (status == PS_OK) {
            status = define_table(server, i, bytes, n_bytes, err);
            ps_mem_free(bytes);
        }
    }
    if (status == PS_ERR_NOT_FOUND || status == PS_OK) {
        atomic_store_explicit(&server->catalogue.n_tables, server->lasting.n_tables,
                              memory_order_release);
        return PS_OK;
    }
    return status;
}

static enum ps_status load(struct ps_server *server, const struct ps_snap *snap, uint64_t slots,
                           bool new_generation, struct ps_error *err)
{
    enum ps_status status = define_tables_of(server, snap, err);
    if (status == PS_OK) {
        status = server_load(server, snap, slots, new_generation, err);
    }
    return status == PS_OK ? hold_tables(server, err) : status;
}

static void passed_over(void *arg PS_UNUSED, const struct ps_snap_entry *entry)
{
    ps_log(PS_LOG_WARN, "snapshot.passed_over", "cut=%" PRIu64 " why=\"%s\"", entry->cut,
           entry->why.text);
}

/* Our newest part that can be read. @return PS_ERR_NOT_FOUND: there is none */
static enum ps_status load_part(struct recovery *recovery, struct ps_error *err)
{
    struct ps_server *server = recovery->server;
    const char *dirs[3];
    struct ps_snap_place place = server_snap_place(server, NULL, dirs);
    struct ps_snap_own own = {.cluster = server->lasting.identity.cluster,
                              .generation = recovery->generation,
                              .server = server->lasting.identity.index};
    enum ps_status status = PS_ERR_CORRUPT;
    while (status == PS_ERR_CORRUPT) {
        struct ps_snap *snap = NULL;
        status = ps_snap_open_part(&place, &own, passed_over, NULL, &snap, err);
        if (status != PS_OK) {
            break;
        }
        const struct ps_snap_part *part = ps_snap_part(snap, 0);
        status = load(server, snap, ps_snap_slots(snap), false, err);
        /* A file that went since: the coordinator tidies the same directory. */
        status = status == PS_ERR_NOT_FOUND ? PS_ERR_CORRUPT : status;
        if (status == PS_OK) {
            recovery->loaded = true;
            recovery->from_lsn = part->base_lsn;
            server_cut_note_base(server, part->cut, part->base_lsn);
        } else if (status == PS_ERR_CORRUPT) {
            ps_log(PS_LOG_WARN, "snapshot.passed_over", "cut=%" PRIu64 " why=\"%s\"", part->cut,
                   err->text);
            own.below = part->cut;
            for (uint32_t i = 0; i < server->options.n_lanes; i++) {
                ps_lane_clear(server->lanes[i]);
            }
        }
        ps_snap_close(snap);
    }
    return status;
}

/* The snapshot that the generation began with. */
static enum ps_status load_beginning(struct recovery *recovery, struct ps_error *err)
{
    struct ps_server *server = recovery->server;
    const char *dirs[3];
    struct ps_snap_place place = server_snap_place(server, recovery->began.dir, dirs);
    struct ps_snap *snap = NULL;
    enum ps_status status = server_snap_open(server, &place, &recovery->began, &snap, err);
    if (status == PS_OK) {
        status = load(server, snap, recovery->began.slots, true, err);
        recovery->from_lsn = recovery->began_lsn + 1;
    }
    ps_snap_close(snap);
    return status == PS_OK ? PS_OK
                           : ps_wrap(err, status == PS_ERR_NOT_FOUND ? PS_ERR_CORRUPT : status,
                                     "%s: what is logged goes on from snapshot %s",
                                     server->lasting.log_dir, recovery->began.name);
}

/*
 * No snapshot, and nothing in the log of how the generation began. Records before its beginning are
 * of another one. Does the log end before that, then its end was lost with the power and with it
 * the whole generation: what is left is nobody's, and this server has no data.
 */
static void begin_late(struct recovery *recovery)
{
    struct server_lasting *last = &recovery->server->lasting;
    uint64_t end = recovery->found.end.next_lsn;
    recovery->from_lsn = last->identity.begin;
    if (end > 1 && end <= last->identity.begin) {
        recovery->from_lsn = end;
        last->void_below = end;
        ps_log(PS_LOG_WARN, "log.void",
               "msg=\"%s ends with record %" PRIu64 ", generation %" PRIu64
               " began with record %" PRIu64 ": its end is lost, and nothing of it counts\"",
               last->log_dir, end - 1, recovery->generation, last->identity.begin);
    }
}

static enum ps_status load_snapshot(struct recovery *recovery, struct ps_error *err)
{
    enum ps_status status = PS_ERR_NOT_FOUND;
    bool has_log = recovery->found.end.next_lsn > 1;
    if (has_log && !ps_id_none(&recovery->server->lasting.identity.cluster)) {
        status = load_part(recovery, err);
    }
    if (status == PS_ERR_NOT_FOUND && recovery->has_began) {
        return load_beginning(recovery, err);
    }
    if (status == PS_ERR_NOT_FOUND) {
        begin_late(recovery);
        return PS_OK;
    }
    return status;
}

/* ---- Both ----------------------------------------------------------------------------------- */

static enum ps_status read_log(struct recovery *recovery, const struct ps_wal_visitor *visitor,
                               bool repair, struct ps_error *err)
{
    const struct ps_server *server = recovery->server;
    struct ps_wal_recovery how = {
        .disk = server->options.disk,
        .dir = server->lasting.log_dir,
        .mem = server->options.mem,
        .server = server->lasting.identity.server,
        .from_lsn = recovery->from_lsn,
        .repair = repair,
        .plant_middle_truncated = server->options.plant == PS_PLANT_MIDDLE_TRUNCATED,
        .plant_reorder_equal_lsn = server->options.plant == PS_PLANT_REORDER_EQUAL_LSN,
    };
    return ps_wal_recover(&how, visitor, &recovery->found, err);
}

/* Without a snapshot that covers it, a log must have its beginning. */
static enum ps_status check_beginning(const struct recovery *recovery, struct ps_error *err)
{
    uint64_t first = recovery->found.first_lsn;
    uint64_t from = recovery->from_lsn > 0 ? recovery->from_lsn : 1;
    if (first <= from || recovery->found.end.next_lsn == 1) {
        return PS_OK;
    }
    return ps_fail(err, PS_ERR_CORRUPT,
                   "%s: the log begins with record %" PRIu64 ", record %" PRIu64
                   " is needed: no snapshot covers what is between them; say --snapshot-dir DIR "
                   "if it is elsewhere",
                   recovery->server->lasting.log_dir, first, from);
}

static void say(const struct recovery *recovery)
{
    const struct ps_wal_recovered *found = &recovery->found;
    uint64_t ms = ps_exec_now_ms(recovery->server->options.exec) - recovery->began_ms;
    if (found->n_bytes_torn > 0) {
        ps_log(PS_LOG_WARN, "log.torn",
               "msg=\"the last %" PRIu64 " bytes of the log were being written when this server "
               "ended, and nobody was told of them\"",
               found->n_bytes_torn);
    }
    if (found->end.next_lsn > 1) {
        ps_log(PS_LOG_INFO, "server.recovered",
               "msg=\"recovered %" PRIu64 " records (%" PRIu64 " bytes) in %" PRIu64 ".%03" PRIu64
               " s\" generation=%" PRIu64 " tables=%" PRIu32,
               found->n_records, found->n_bytes_read, ms / 1000, ms % 1000, recovery->generation,
               recovery->server->lasting.n_tables);
    }
}

static void run_broke(struct ps_mail *mail)
{
    struct server_lasting *last = PS_CONTAINER_OF(mail, struct server_lasting, broke);
    struct ps_server *server = PS_CONTAINER_OF(last, struct ps_server, lasting);
    ps_attend_broke(server->attend, &last->broke_err);
}

/* On the log's executor, once. */
static void log_failed(void *arg, const struct ps_error *err)
{
    struct ps_server *server = arg;
    struct server_lasting *last = &server->lasting;
    last->broke_err = *err;
    last->broke.run = run_broke;
    ps_exec_post(server->options.exec, &last->broke);
}

/* A log is cut off by whole segments: a short one has short ones. */
static uint64_t segment_bytes(const struct ps_server_options *options)
{
    if (options->log_segment_bytes != 0 || options->log_bytes == 0) {
        return options->log_segment_bytes;
    }
    uint64_t quarter = options->log_bytes / 4;
    if (quarter < SEGMENT_BYTES_LEAST) {
        return SEGMENT_BYTES_LEAST;
    }
    return quarter < PS_WAL_SEGMENT_BYTES ? quarter : 0;
}

static enum ps_status open_log(struct ps_server *server, const struct ps_wal_end *end,
                               struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    struct server_lasting *last = &server->lasting;
    uint64_t salt;
    memcpy(&salt, options->session.bytes, sizeof(salt)); /* By chance, and new in every life. */
    struct ps_wal_options wal = {
        .disk = options->disk,
        .dir = last->log_dir,
        .exec = options->log_exec,
        .mem = options->mem,
        .metrics = options->metrics,
        .server = last->identity.server,
        .sync = options->durability == PS_DURABILITY_FSYNC,
        .segment_bytes = segment_bytes(options),
        .salt = salt,
        .failed = log_failed,
        .arg = server,
        .plant = {.ack_before_sync = options->plant == PS_PLANT_ACK_BEFORE_SYNC,
                  .reorder_equal_lsn = options->plant == PS_PLANT_REORDER_EQUAL_LSN,
                  .dir_not_synced = options->plant == PS_PLANT_DIR_NOT_SYNCED},
    };
    enum ps_status status = ps_disk_make_dir(options->disk, last->log_dir, err);
    if (status == PS_OK) {
        status = ps_wal_open(&wal, end, &last->wal, err);
    }
    for (uint32_t i = 0; i < options->n_lanes && status == PS_OK; i++) {
        ps_lane_commit_by(server->lanes[i], ps_wal_committer(last->wal));
    }
    return status;
}

/* Tables are logged before a slot has anything: alone they are of no generation. */
static bool has_data(const struct recovery *recovery)
{
    return recovery->found.end.next_lsn > 1 &&
           (recovery->loaded || recovery->has_began || recovery->began.slots != 0);
}

/* A server that ended while it went back may have said so in its log only. */
static enum ps_status keep_generation(const struct recovery *recovery, struct ps_error *err)
{
    struct ps_server *server = recovery->server;
    struct server_lasting *last = &server->lasting;
    if (last->identity.generation == recovery->generation) {
        return PS_OK;
    }
    last->identity.generation = recovery->generation;
    return ps_identity_write(server->options.disk, last->data_dir, &last->identity, err);
}

enum ps_status server_recover(struct ps_server *server, struct ps_error *err)
{
    if (server->lasting.data_dir[0] == '\0' || server->options.durability == PS_DURABILITY_MEMORY) {
        return PS_OK;
    }
    PS_ASSERT(server->options.log_exec != NULL);
    /* Where the log does not say any more how the generation began, the identity knows it. */
    struct recovery recovery = {.server = server,
                                .generation = server->lasting.identity.generation,
                                .began_ms = ps_exec_now_ms(server->options.exec)};
    struct ps_wal_visitor first = {
        .record = note_slot, .generation = note_generation, .arg = &recovery};
    struct ps_wal_visitor second = {.record = take_record, .table = take_table, .arg = &recovery};
    enum ps_status status = read_log(&recovery, &first, false, err);
    if (status == PS_OK) {
        status = load_snapshot(&recovery, err);
    }
    if (status == PS_OK) {
        status = check_beginning(&recovery, err);
    }
    if (status == PS_OK) {
        status = read_log(&recovery, &second, true, err);
    }
    if (status == PS_OK) {
        status = keep_generation(&recovery, err);
    }
    if (status == PS_OK) {
        status = open_log(server, &recovery.found.end, err);
    }
    if (status == PS_OK) {
        server->lasting.generation = has_data(&recovery) ? recovery.generation : 0;
        say(&recovery);
    }
    return status;
}
