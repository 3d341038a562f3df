#ifndef PS_SERVER_LOG_WAL_H
#define PS_SERVER_LOG_WAL_H
/*
 * log/wal.h — the log of one server: what has to survive it is here before it is acknowledged.
 *
 *   lanes ──entries──> mailbox ──one batch──> one write, one sync ──> sinks: committed
 *
 * An actor on an executor of its own, which is the only one that waits for the disk. Users read
 * "log"; the prefix is ps_wal_, since ps_log is the logger. Records have numbers (lsn) from 1, no
 * holes, in the order in which they arrived. The format is in README.md; recover.h reads it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/mem.h"
#include "obs/metric.h"
#include "port/disk.h"
#include "port/exec.h"
#include "slot/commit.h"

struct ps_wal;

/** Planted bugs, test builds only. */
struct ps_wal_plant {
    bool ack_before_sync;   /* Committed when written, though a sync is due. */
    bool reorder_equal_lsn; /* All records of a batch get one lsn. With that of recover.h. */
    bool dir_not_synced;    /* The name of a new segment may be lost with the power. */
};

/** Where recovery ended, and a log goes on. */
struct ps_wal_end {
    uint64_t next_lsn;  /* Of the next record; 1 in an empty directory. */
    bool has_segment;   /* The rest is that of the last one. */
    uint64_t first_lsn; /* As it is called. */
    uint64_t n_bytes;   /* What of it is good: behind that it says that it ends. */
    uint64_t salt;      /* Of its checksums. */
    uint64_t prev_salt; /* Of the segment before it. */
};

struct ps_wal_options {
    struct ps_disk *disk;
    const char *dir;      /* It exists. Copied. */
    struct ps_exec *exec; /* The log's own. */
    struct ps_mem *mem;
    struct ps_metrics *metrics;
    struct ps_id server;    /* Whose log it is; none: nobody asks. */
    bool sync;              /* Committed means synced; else: written. */
    uint64_t segment_bytes; /* 0: PS_WAL_SEGMENT_BYTES. */
    uint64_t salt;          /* By chance, another one for every start of a process. */
    /**
     * The disk failed in a way that has no way back: nothing is committed ever after, and the
     * process has to end (74). Once, on `exec`.
     */
    void (*failed)(void *arg, const struct ps_error *err);
    void *arg;
    struct ps_wal_plant plant;
};

/** Something durable that is no record of a slot, and who is told. */
struct ps_wal_done {
    struct ps_mail mail; /* `run` is the caller's. */
    struct ps_exec *exec;
    enum ps_status status; /* Set by the log, */
    uint64_t lsn;          /*   and with PS_OK where it stands. */
};

/**
 * Go on behind `end`, which ps_wal_recover has found: a new segment with a salt of its own is made,
 * so that nothing of a torn tail can ever be taken for a record. Blocks. Before mail runs on
 * `exec`.
 *
 * @return PS_ERR_NO_SPACE, PS_ERR_IO, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_wal_open(const struct ps_wal_options *options,
                                         const struct ps_wal_end *end, struct ps_wal **ret,
                                         struct ps_error *err);

/** For all lanes; valid until destroy. */
struct ps_committer *ps_wal_committer(struct ps_wal *wal);

/**
 * Log the definition of a table (packed, copied). `done` is posted when it is durable; with
 * PS_ERR_IO when the log has failed, PS_ERR_NOMEM. Any thread but that of `exec`'s mail order
 * counts: records that are appended later by the same thread are behind it.
 */
void ps_wal_table(struct ps_wal *wal, uint32_t number, const uint8_t *bytes, size_t n_bytes,
                  struct ps_wal_done *done);

/** All before is void: a generation began with the cut `cut` of the snapshot directory `dir`. */
void ps_wal_generation(struct ps_wal *wal, uint64_t generation, const char *dir, const char *cut,
                       struct ps_wal_done *done);

/**
 * Every record up to this one is committed, and the mail that tells its lane is posted: a cut for
 * which the lanes get mail afterwards contains them. Any thread.
 */
uint64_t ps_wal_reported(const struct ps_wal *wal);

/** Bytes of all segments that are there, as far as they are used. Any thread. */
uint64_t ps_wal_bytes(const struct ps_wal *wal);

/** Records below `lsn` are not needed any more: segments that hold no others go. Any thread. */
void ps_wal_trim(struct ps_wal *wal, uint64_t lsn);

/**
 * Write and sync what was appended before, take nothing more. `done`: PS_OK; PS_ERR_NO_SPACE or
 * PS_ERR_IO when something could not be written, which is then not committed. Any thread.
 */
void ps_wal_stop(struct ps_wal *wal, struct ps_wal_done *done);

/**
 * After stop's `done`, or when `exec` does not run any more; while entries that were not committed
 * are there. NULL does nothing.
 */
void ps_wal_destroy(struct ps_wal *wal);

#endif
