#ifndef PS_SERVER_SNAP_SNAP_WRITE_H
#define PS_SERVER_SNAP_SNAP_WRITE_H
/*
 * snap/snap_write.h — one server's part of a cut, written to disk in the background.
 *
 *     lanes: ps_cut ──> post ──> server-<i>.tmp/ files, PART, each synced ──> folder synced
 *                                ──> renamed to server-<i> ──> parent synced ──> done
 *
 * An actor on an executor of its own, which may block on the disk. Pages of the cut are given back
 * as they are written. A part that fails or is called off leaves nothing behind that could be
 * taken for one.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "obs/metric.h"
#include "port/disk.h"
#include "port/exec.h"
#include "slot/catalogue.h"
#include "snap/manifest.h"

struct ps_cut;
struct ps_snap_writer;

/** Bugs that a test build can be told to have. */
enum ps_snap_plant {
    PS_SNAP_PLANT_NONE,
    PS_SNAP_PLANT_RENAME_BEFORE_SYNC, /* Files get their final names and are never synced. */
    PS_SNAP_PLANT_DIR_NOT_SYNCED      /* Folders are never synced. */
};

struct ps_snap_writer_options {
    struct ps_disk *disk;
    const char *dir; /* The snapshot directory; copied. It is made if need be. */
    struct ps_exec *exec;
    struct ps_mem *mem;
    struct ps_metrics *metrics; /* May be NULL. */
    enum ps_snap_plant plant;   /* Honoured in test builds only. */
};

/** A table as the coordinator defined it. Borrowed until done. */
struct ps_snap_table {
    const uint8_t *definition; /* [n_bytes] packed ps.v1.Table. */
    size_t n_bytes;
};

/** What the cut is of. */
struct ps_snap_job {
    uint64_t generation;
    uint64_t cut;
    struct ps_id cluster;
    uint64_t key_seed;
    uint32_t server; /* Index. */
    uint32_t n_servers;
    const struct ps_catalogue *catalogue;
    const struct ps_snap_table *tables; /* [n_tables], by number; all that the cut has pages of. */
    uint32_t n_tables;
};

/** One part to be written; the caller's, until `done` has run. */
struct ps_snap_write {
    /* Set by the caller. */
    struct ps_snap_job job;
    struct ps_cut *cut;   /* Given up: freed on the writer's executor. */
    struct ps_exec *home; /* Where `done` runs. */
    struct ps_mail done;  /* done.run is set by the caller. */
    /* May be set at any time by any thread: the cut was given up. */
    _Atomic bool called_off;
    /* Before `done`. */
    struct ps_error err; /* err.status: PS_OK, PS_ERR_CANCELED, PS_ERR_IO, PS_ERR_NO_SPACE ... */
    struct ps_checksum128 sum; /* Of PART. */
    uint64_t n_bytes;          /* Of all files. */
    uint64_t ms;
    /* The writer's. */
    struct ps_mail mail;
    struct ps_snap_writer *writer;
};

PS_MUST_CHECK enum ps_status ps_snap_writer_create(const struct ps_snap_writer_options *options,
                                                   struct ps_snap_writer **ret,
                                                   struct ps_error *err);

/** Hand one over; several are written one after the other. Any thread. */
void ps_snap_writer_post(struct ps_snap_writer *writer, struct ps_snap_write *write);

/** When nothing is under way, or the executor no longer runs. NULL does nothing. */
void ps_snap_writer_destroy(struct ps_snap_writer *writer);

#endif
