#ifndef PS_WORKER_ASK_H
#define PS_WORKER_ASK_H
/*
 * ask.h — one question to the coordinator without a session: what is going on, or please do this.
 *
 * For ps-run and psctl. Asynchronous: `done` runs on the executor, exactly once per start; the
 * struct stays where it is until then.
 */
#include <stdbool.h>
#include <stdint.h>

#include <ps/client.h>

#include "base/error.h"
#include "coordinator.pb-c.h"
#include "os/loop.h"
#include "port/exec.h"
#include "port/transport.h"

enum ps_ask_what {
    PS_ASK_DESCRIBE, /* Everything that psctl shows. */
    PS_ASK_SHUTDOWN, /* Every member is told to stop. */
    PS_ASK_SNAPSHOT, /* Answered when it is complete, or will not be. */
    PS_ASK_RESTORE   /* The whole job goes back; answered when every server has loaded. */
};

struct ps_question {
    enum ps_ask_what what;
    const char *text; /* Shutdown: why, for people. Restore: name of the snapshot; NULL: newest. */
    uint32_t timeout_ms;
};

/** Zero it, set channel, exec, done (and arg), and ask; may be used again after `done`. */
struct ps_ask {
    struct ps_channel *channel;
    struct ps_exec *exec;
    void (*done)(struct ps_ask *ask);
    void *arg;
    struct ps_request request;
    struct ps_mail mail;
    enum ps_ask_what what;
    bool under_way;
    struct ps_error err; /* Outcome. */
    /* What was answered; of these the one that was asked for, until it is forgotten. */
    Ps__V1__DescribeReply *describe;
    struct ps_cluster *cluster; /* The same, checked. */
    Ps__V1__SnapshotReply *snapshot;
    Ps__V1__RestoreReply *restore;
};

void ps_ask(struct ps_ask *ask, const struct ps_question *question);

/** Give up; `done` still runs. */
void ps_ask_cancel(struct ps_ask *ask);

/**
 * Connect, ask, wait for the answer, disconnect. Runs `loop` meanwhile. `*ask` needs nothing set;
 * see ask->err and what was answered.
 */
void ps_ask_once(struct ps_ask *ask, struct ps_transport *transport, struct ps_loop *loop,
                 const char *coordinator, const struct ps_question *question);

/** Forget the last answer; nothing happens when there is none. */
void ps_ask_forget(struct ps_ask *ask);

#endif
