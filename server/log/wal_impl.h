#ifndef PS_SERVER_LOG_WAL_IMPL_H
#define PS_SERVER_LOG_WAL_IMPL_H
/*
 * log/wal_impl.h — the inside of a log, shared by wal.c (mail, batches, who is told) and
 * wal_segments.c (files). Nobody else includes it.
 */
#include <stdatomic.h>

#include "log/wal.h"
#include "log/wal_format.h"

#define PS_WAL_PATH_BYTES 4096u

/** What is logged but no record of a slot: an entry without a sink. Freed when it is told. */
struct ps_wal_other {
    struct ps_commit_entry entry;
    struct ps_wal *wal;
    enum ps_wal_kind kind;
    struct ps_wal_done *done;
    size_t n_body;
    uint8_t body[];
};

/** A segment that is there, oldest first. */
struct ps_wal_known {
    uint64_t first_lsn;
    uint64_t n_bytes; /* Used. */
};

/** The files: the open segment, the next one, those before. */
struct ps_wal_files {
    struct ps_disk_file *open;
    uint64_t at;     /* Where the next record goes. */
    uint64_t n_room; /* Bytes of the open segment. */
    uint64_t salt;
    uint64_t prev_salt;
    uint64_t ahead;            /* The next segment is made when so many are left. */
    struct ps_disk_file *next; /* Has room and no name; NULL: not made. */
    uint64_t n_next_room;
    uint64_t n_made; /* Segments of this process: each has a salt of its own. */
    struct ps_wal_known *known;
    size_t n_known;
    size_t n_known_room;
};

struct ps_wal {
    struct ps_committer base;
    struct ps_wal_options options;
    char *dir;
    struct ps_wal_files files;

    /* What waits, in the order in which it came. */
    struct ps_commit_entry *first;
    struct ps_commit_entry **last;
    struct ps_mail flush_mail;
    bool flush_posted;

    uint64_t next_lsn;
    uint64_t durable; /* All up to here are committed. */
    uint64_t noted;   /* The log itself says that all up to here are. */
    uint64_t real;    /* The last one that is no note. */
    uint8_t *heads;   /* Of the batch in hand: what is not borrowed. */
    size_t n_heads_room;
    struct ps_slice *slices;
    size_t n_slices_room;
    struct ps_timer idle;
    struct ps_timer retry;
    bool failed;
    _Atomic bool full;
    _Atomic uint64_t reported;
    _Atomic uint64_t n_bytes; /* Of all segments. */

    _Atomic uint64_t trim_lsn;
    _Atomic bool trim_posted;
    struct ps_mail trim_mail;

    struct ps_mail stop_mail;
    struct ps_mail bye_mail;
    struct ps_wal_done *stop_done;
    bool stopping;
};

/* ---- wal_segments.c -------------------------------------------------------------------------- */

/** Bytes that the open segment can still take; its seal always fits. */
uint64_t ps_wal_left(const struct ps_wal *wal);

/** The open segment has been written up to `at`: count it. */
void ps_wal_files_grown(struct ps_wal *wal);

/** Look at what is there and make the first segment. */
PS_MUST_CHECK enum ps_status ps_wal_files_open(struct ps_wal *wal, const struct ps_wal_end *end,
                                               struct ps_error *err);

/**
 * Go on in a new segment with room for `n_bytes`. @return PS_ERR_NO_SPACE: nothing has changed, try
 * again later; else the log has failed
 */
PS_MUST_CHECK enum ps_status ps_wal_rotate(struct ps_wal *wal, uint64_t n_bytes,
                                           struct ps_error *err);

/** Make the next segment, if it is time. As above. */
PS_MUST_CHECK enum ps_status ps_wal_look_ahead(struct ps_wal *wal, struct ps_error *err);

/** Remove segments that only hold records below `lsn`. */
PS_MUST_CHECK enum ps_status ps_wal_files_trim(struct ps_wal *wal, uint64_t lsn,
                                               struct ps_error *err);

void ps_wal_files_close(struct ps_wal *wal);

#endif
