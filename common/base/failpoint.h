#ifndef PS_COMMON_BASE_FAILPOINT_H
#define PS_COMMON_BASE_FAILPOINT_H
/*
 * base/failpoint.h — test builds (-Dplant=true): places in the code where a test may end the
 * process, one by one, by name.
 *
 *   ps_failpoint("log.after_write");
 *
 * It calls the hook, which a program sets before it has threads (to kill itself at the n-th
 * occasion: struct ps_failpoint_nth) and the simulator for as long as it plays (to crash the node
 * that runs). Without a hook, or without PS_PLANT, a place is nothing. Every name stands in
 * PS_FAILPOINT_LIST; another one is an assertion.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

/* clang-format off */
/*    name                    the process ends ... */
#define PS_FAILPOINT_LIST(X)                                                                    \
    X("log.before_write",     "with a batch of records that the log has not written")          \
    X("log.after_write",      "with a batch that is written and not synced")                   \
    X("log.before_sync",      "when the log is about to sync")                                 \
    X("log.after_sync",       "with a batch that is durable and told to nobody")               \
    X("log.rotate",           "with a new segment of the log that has no record yet")          \
    X("log.before_trim",      "when old segments of the log are about to go")                  \
    X("apply.before",         "before a committed record is applied")                          \
    X("apply.mid",            "in the middle of a record of several parts")                    \
    X("apply.after",          "after a record was applied, before its push is acknowledged")   \
    X("ack.before_send",      "with an acknowledgement that is not sent")                      \
    X("cut.taken",            "when all slots have given their part of a cut")                 \
    X("snap.after_data",      "with a snapshot's data written and nothing else")               \
    X("snap.before_manifest", "before the list of a part's files is written")                  \
    X("snap.before_rename",   "with a part of a snapshot that has not its name")               \
    X("snap.after_rename",    "with a part that has its name, and nobody told")                \
    X("job.before_manifest",  "with all parts of a snapshot, and no manifest")                 \
    X("job.after_manifest",   "with a manifest, and the store not told")                       \
    X("recover.mid_replay",   "in the middle of the replay of a log")                          \
    X("epoch.before_log",     "with a new epoch that is not logged")                           \
    X("epoch.after_log",      "with a new epoch that is logged and not acted on")              \
    X("store.before_write",   "before the coordinator's store is written")                     \
    X("store.after_write",    "with the store written, and nobody told")                       \
    X("restore.mid",          "when some slots have loaded a snapshot")                        \
    X("session.close",        "when a session is about to be closed in the slots")             \
    X("gate.before_wait",     "with a pull that is about to be parked")                        \
    X("gate.wake",            "with a parked pull that is about to be answered")
/* clang-format on */

#ifdef PS_PLANT
/** Called at each place; on the thread that is there. */
struct ps_failpoint_hook {
    void (*met)(void *arg, const char *name);
    void *arg;
};

/** Set the process's hook; NULL: none. When no other thread can be at a place. */
void ps_failpoint_hook(const struct ps_failpoint_hook *hook);

/** A place. */
void ps_failpoint(const char *name);

/** A hook for programs: the process kills or stops itself at the `at`-th occasion of `name`. */
struct ps_failpoint_nth {
    const char *name;
    uint32_t at; /* From 1 on. */
    bool stops;  /* SIGSTOP; else SIGKILL. */
    _Atomic uint32_t n_met;
    void (*say)(const struct ps_failpoint_nth *nth); /* Just before, may be NULL. */
};

/** Becomes the hook; stays valid for ever. False: there is no such name. */
PS_MUST_CHECK bool ps_failpoint_set_nth(struct ps_failpoint_nth *nth);

#else
static inline void ps_failpoint(const char *name)
{
    (void)name;
}
#endif

#endif
