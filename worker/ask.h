#ifndef PS_WORKER_ASK_H
#define PS_WORKER_ASK_H
/*
 * ask.h — one question to the coordinator without a session: what is going on, or please stop.
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

/** Zero it, set channel, exec, done (and arg), and start; may be started again after `done`. */
struct ps_ask {
    struct ps_channel *channel;
    struct ps_exec *exec;
    void (*done)(struct ps_ask *ask);
    void *arg;
    struct ps_request request;
    struct ps_mail mail;
    bool under_way;
    struct ps_error err;             /* Outcome. */
    Ps__V1__DescribeReply *describe; /* After a describe that worked: the asker's; see below. */
    struct ps_cluster *cluster;      /* The same, checked. */
};

/** Everything that psctl shows. */
void ps_ask_describe(struct ps_ask *ask, uint32_t timeout_ms);

/** Every member is told to stop; `reason`, not empty, is for people. */
void ps_ask_shutdown(struct ps_ask *ask, const char *reason, uint32_t timeout_ms);

/** Give up; `done` still runs. */
void ps_ask_cancel(struct ps_ask *ask);

/**
 * Connect, describe, wait for the answer, disconnect. Runs `loop` meanwhile. `*ask` needs nothing
 * set; see ask->err and ask->describe.
 */
void ps_ask_describe_once(struct ps_ask *ask, struct ps_transport *transport, struct ps_loop *loop,
                          const char *coordinator, uint32_t timeout_ms);

/** The same for a shutdown. */
void ps_ask_shutdown_once(struct ps_ask *ask, struct ps_transport *transport, struct ps_loop *loop,
                          const char *coordinator, const char *reason, uint32_t timeout_ms);

/** Forget the last describe reply; nothing happens when there is none. */
void ps_ask_forget(struct ps_ask *ask);

#endif
