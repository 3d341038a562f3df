#ifndef PS_SERVER_SLOT_COMMIT_H
#define PS_SERVER_SLOT_COMMIT_H
/*
 * slot/commit.h — the step between propose and apply: when is a record durable enough?
 *
 *   lane ── append(entry, ticket) ──> committer ── sink: committed = ticket, one mail ──> lane
 *
 * A lane hands every record to its committer and applies it when the committer says so. Kinds:
 * at once (durability `memory`), the server's log (log/wal.h); replication is a further one. All
 * entries of one sink are committed in the order of their tickets, which is the order in which
 * they were appended.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "port/exec.h"
#include "slot/record.h"

struct ps_committer;
struct ps_commit_entry;

/** Where a lane hears of its committed entries; the lane's. Zero-initialise. */
struct ps_commit_sink {
    struct ps_exec *exec;
    struct ps_mail mail;        /* `run` is the lane's; posted once until the lane listens. */
    _Atomic bool posted;        /* The mail is under way. */
    _Atomic uint64_t committed; /* All entries with tickets up to here are committed. */
};

/**
 * One record on its way. The lane's memory, which it keeps, with all that the record points to,
 * until the ticket is committed; from append on the committer alone touches it.
 */
struct ps_commit_entry {
    struct ps_mail mail; /* The committer's. */
    struct ps_committer *committer;
    struct ps_commit_entry *next; /* The committer's. */
    struct ps_record record;
    uint64_t ticket; /* Of the sink, from 1, each entry one more. */
    struct ps_commit_sink *sink;
    uint64_t lsn; /* Set by the committer: where it stands in the server's log; 0: in none. */
};

struct ps_committer_ops {
    /**
     * Is there room for a record of about `n_bytes`? False: refuse what is new with
     * PS_ERR_NO_SPACE. A hint, not a claim: what is appended all the same waits for room. Any
     * thread.
     */
    bool (*room)(struct ps_committer *committer, uint64_t n_bytes);
    /**
     * Take a record. True: it is committed already, the sink hears nothing. False: it is when
     * sink->committed reaches the ticket. On the thread of the sink.
     */
    bool (*append)(struct ps_committer *committer, struct ps_commit_entry *entry);
};

struct ps_committer {
    const struct ps_committer_ops *ops;
};

static inline bool ps_commit_room(struct ps_committer *committer, uint64_t n_bytes)
{
    return committer->ops->room(committer, n_bytes);
}

static inline bool ps_commit_append(struct ps_committer *committer, struct ps_commit_entry *entry)
{
    entry->committer = committer;
    return committer->ops->append(committer, entry);
}

/** The committer: all up to `ticket` are committed. Their entries are the lane's again. */
static inline void ps_commit_tell(struct ps_commit_sink *sink, uint64_t ticket)
{
    atomic_store_explicit(&sink->committed, ticket, memory_order_release);
    if (!atomic_exchange_explicit(&sink->posted, true, memory_order_acq_rel)) {
        ps_exec_post(sink->exec, &sink->mail);
    }
}

/** The lane, first thing when the mail runs: up to which ticket is all committed? */
static inline uint64_t ps_commit_listen(struct ps_commit_sink *sink)
{
    (void)atomic_exchange_explicit(&sink->posted, false, memory_order_acq_rel);
    return atomic_load_explicit(&sink->committed, memory_order_acquire);
}

/** Everything is committed at once; survives nothing but is never wrong while the server lives. */
extern struct ps_committer ps_commit_at_once;

#endif
