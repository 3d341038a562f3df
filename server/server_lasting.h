#ifndef PS_SERVER_SERVER_LASTING_H
#define PS_SERVER_SERVER_LASTING_H
/*
 * server_lasting.h — what of a server outlives its process: identity, log, snapshots.
 *
 *   open:     lock ─> identity ─> [newest part of a snapshot] ─> log to its end ─> lanes are there
 *   joined:   identity says which cluster it is
 *   cut:      lanes give pages ─> a part is written ─> the log below it may go, when it is kept
 *   restore:  lanes are emptied ─> the log says what follows ─> lanes load the cut
 *
 * server_lasting.c has directory and log, server_recover.c the start, server_cut.c cuts and
 * server_restore.c the way back. All on the main executor but for what they hand to others. Nobody
 * but the server's own files includes it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"
#include "identity.h"
#include "log/wal.h"
#include "port/disk.h"
#include "slot/cut.h"
#include "snap/snap_read.h"
#include "snap/snap_write.h"
#include "svc/lasting.h"

struct ps_server;
struct ps_server_options;

/** The definition of a table, packed. */
struct server_table {
    uint8_t *bytes;
    size_t n_bytes;
};

/** Something is being logged on behalf of attending. */
struct server_logging {
    struct ps_wal_done done;
    struct ps_server *server;
};

/* Parts whose place in the log is remembered; a cut that is kept longer keeps its log, too. */
#define SERVER_BASES_MAX PS_SNAPSHOTS_KEPT_MAX

/** A part of ours: records of the log below are in it. */
struct server_base {
    uint64_t cut;
    uint64_t lsn;
};

/** The cut under way. */
struct server_cutting {
    uint64_t number;     /* 0: none. */
    uint64_t next;       /* Ordered meanwhile: this one is called off; 0: none. */
    uint64_t generation; /* Whose the slots are; a newer one may have been told of since. */
    bool called_off;
    uint64_t began_ms;
    uint64_t log_bytes; /* When it began. */
    struct ps_cut *cut;
    struct ps_mail taken;
    struct ps_snap_write write;
    struct ps_snap_table tables[PS_TABLES_MAX];
};

/** Old parts of ours are being removed, on the snapshots' executor. */
struct server_tidying {
    bool busy;
    struct ps_mail mail;
    struct ps_mail done;
    struct ps_server *server;
    uint64_t generation;
    uint64_t cut;
    bool alone; /* This one, not those that are older. */
};

/** One lane's share of a restore. */
struct server_load_mail {
    struct ps_mail mail;
    struct ps_server *server;
    uint32_t lane;
};

/** The restore under way. */
struct server_restoring {
    bool busy;
    struct ps_lasting_restore order;
    _Atomic uint32_t n_pending; /* Lanes. */
    uint32_t n_logging;         /* Records of the log. */
    struct ps_wal_done generation_logged;
    struct server_logging tables[PS_TABLES_MAX];
    struct ps_mail open; /* On the snapshots' executor. */
    struct ps_mail home; /* Back from lanes and from there. */
    struct server_load_mail lanes[PS_LANES_MAX];
    struct ps_snap *snap;
    _Atomic bool failed; /* Whoever sets it writes err. */
    struct ps_error err;
    uint64_t began_ms;
};

struct server_lasting {
    struct ps_lasting base;
    char data_dir[PS_DIR_BYTES_MAX + 1]; /* "": none. */
    char log_dir[PS_DIR_BYTES_MAX + sizeof("/log")];
    struct ps_disk_file *lock;
    struct ps_identity identity;
    uint64_t void_below; /* Of the log, when that was found to be of no generation; else 0. */
    uint64_t generation; /* That the lanes hold; 0: nothing was recovered. */
    struct ps_wal *wal;  /* NULL: durability is memory. */
    struct server_table tables[PS_TABLES_MAX];
    uint32_t n_tables;
    char snapshot_dir[PS_DIR_BYTES_MAX + sizeof("/snapshots")]; /* "": none. */
    char restore_dir[PS_DIR_BYTES_MAX + 1];                     /* "": none. */
    struct ps_snap_writer *writer;                              /* NULL: no snapshots. */
    struct server_cutting cutting;
    struct server_tidying tidying;
    struct server_restoring restoring;
    struct server_base bases[SERVER_BASES_MAX]; /* Oldest first. */
    uint32_t n_bases;
    uint64_t n_parts;         /* Of ours that were written, or failed. */
    bool leaving;             /* It stops when one more is written: there is no log. */
    uint64_t leaving_ms;      /* Since. */
    uint64_t leaving_n_parts; /* And had written so many. */
    uint64_t log_mark;        /* Bytes that the log had when the latest part of ours began. */
    struct ps_wal_done stopped;
    struct ps_mail broke; /* The disk failed. */
    struct ps_error broke_err;
};

/** Lock the directory, find out who we are. Before the lanes are made. */
PS_MUST_CHECK enum ps_status server_lasting_open(struct ps_server *server, struct ps_error *err);

/** Bring the lanes to where the log ends, and go on with it. Before the lanes run. */
PS_MUST_CHECK enum ps_status server_recover(struct ps_server *server, struct ps_error *err);

/** Keep the definition of a table. @return PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status server_keep_table(struct ps_server *server, uint32_t number,
                                               const uint8_t *bytes, size_t n_bytes,
                                               struct ps_error *err);

/* ---- Cuts; in server_cut.c ------------------------------------------------------------------- */

PS_MUST_CHECK enum ps_status server_cuts_open(struct ps_server *server, struct ps_error *err);
enum ps_lasting_when server_cut(struct ps_server *server, uint64_t number, struct ps_error *err);
/** Part `cut` of ours covers all records below `lsn`. */
void server_cut_note_base(struct ps_server *server, uint64_t cut, uint64_t lsn);
void server_cut_kept(struct ps_server *server, uint64_t number);
void server_cut_oldest(struct ps_server *server, uint64_t generation, uint64_t number);

/** This one will never be complete: what is written of it goes. */
void server_cut_gave_up(struct ps_server *server, uint64_t number);
bool server_cut_wanted(struct ps_server *server);
/** What is under way is of no use any more. */
void server_cut_call_off(struct ps_server *server);
/** Told to stop: without a log there is a last cut to be taken, if there is a place for it. */
bool server_cut_last(struct ps_server *server);
/** It is written, or there is no sense in waiting for it any longer. */
bool server_cut_last_over(const struct ps_server *server);
bool server_cuts_idle(const struct ps_server *server);

/* ---- Snapshots into lanes; in server_restore.c ----------------------------------------------- */

/** Where snapshots may lie: `dir` first, may be NULL. `dirs` is the caller's memory. */
struct ps_snap_place server_snap_place(const struct ps_server *server, const char *dir,
                                       const char *dirs[3]);
/** The slots of `slots` into their lanes. On the thread that owns these lanes. */
PS_MUST_CHECK enum ps_status server_load(struct ps_server *server, const struct ps_snap *snap,
                                         uint64_t slots, bool new_generation, struct ps_error *err);
/** Open what `order` names. Blocks. */
PS_MUST_CHECK enum ps_status server_snap_open(const struct ps_server *server,
                                              const struct ps_snap_place *place,
                                              const struct ps_lasting_restore *order,
                                              struct ps_snap **ret, struct ps_error *err);
enum ps_lasting_when server_restore(struct ps_server *server,
                                    const struct ps_lasting_restore *order, struct ps_error *err);

/** After the lanes have stopped: all that was appended is written. `server_log_stopped` follows. */
void server_lasting_stop(struct ps_server *server);

/** In server.c: the log has stopped. */
void server_log_stopped(struct ps_server *server);

void server_lasting_close(struct ps_server *server);

#endif
