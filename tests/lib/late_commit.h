#ifndef PS_TESTS_LIB_LATE_COMMIT_H
#define PS_TESTS_LIB_LATE_COMMIT_H
/*
 * lib/late_commit.h — a committer that keeps what it is given until somebody says so, or for a
 * while by chance: a log without a disk. For one thread that plays all executors in turn.
 *
 * By hand: late_commit_some. By itself: with an executor, on which it waits some ms and commits
 * some records, again and again. Records of all lanes have one order, as in a log.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "port/exec.h"
#include "slot/commit.h"

#define LATE_COMMIT_ALL UINT32_MAX

struct late_commit {
    struct ps_committer base;
    struct ps_commit_entry *first; /* FIFO. */
    struct ps_commit_entry **last;
    uint32_t n_waiting;
    uint64_t n_lsn; /* Records taken. */
    uint64_t sum;   /* Of the bytes of payloads, when they were committed: they are still there. */
    bool full;      /* There is no room for what is new. */
    bool stopped;   /* Nothing is committed any more. */
    struct ps_exec *exec; /* NULL: by hand. */
    struct ps_rng rng;
    uint32_t max_ms;
    bool awake; /* Its mail or timer is under way. */
    struct ps_mail mail;
    struct ps_timer timer;
    /** Sees each record when it is committed, in the order of the log. May be NULL. */
    void (*seen)(void *arg, const struct ps_record *record);
    void *arg;
};

void late_commit_init(struct late_commit *late);

/** From now on it commits by itself: after up to `max_ms`, some records. */
void late_commit_by_chance(struct late_commit *late, struct ps_exec *exec, uint64_t seed,
                           uint32_t max_ms);

/** Commit the next `n` records. @return how many there were */
uint32_t late_commit_some(struct late_commit *late, uint32_t n);

#endif
