#ifndef PS_SERVER_SLOT_COMMIT_H
#define PS_SERVER_SLOT_COMMIT_H
/*
 * slot/commit.h — the step between propose and apply: when is a record durable enough?
 *
 * A lane hands every record to its committer and applies it when the committer says so. Kinds:
 * immediate (durability `memory`: at once). A log and replication are further kinds: they keep
 * the record, return a lower position, and report later through the lane's mailbox.
 */
#include <stdint.h>

#include "slot/record.h"

struct ps_committer;

struct ps_committer_ops {
    /**
     * Take a record. @return the position up to which the slot's log is now committed: the
     * record's own when it is committed at once.
     */
    uint64_t (*append)(struct ps_committer *committer, const struct ps_record *record);
};

struct ps_committer {
    const struct ps_committer_ops *ops;
};

/** Everything is committed at once; survives nothing but is never wrong while the server lives. */
extern struct ps_committer ps_commit_at_once;

#endif
