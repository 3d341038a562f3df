#ifndef PS_WORKER_ATTACHED_H
#define PS_WORKER_ATTACHED_H
/*
 * attached.h — one session with a cluster, put together: a client, its thread, and a way to wait.
 *
 * For composition roots (ps-worker, ps-run). Open, use through ps_attached_blocking from one
 * thread, close. A session that was fenced is closed and another one opened: a new name each time.
 */
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/mem.h"
#include "client/session.h"
#include "os/thread_exec.h"
#include "train/blocking.h"

struct ps_attached_options {
    struct ps_transport *transport;
    struct ps_mem *mem;
    struct ps_metrics *metrics; /* May be NULL. */
    const char *coordinator;
    enum ps_client_kind kind;
    const char *name;
    uint64_t give_up_ms; /* 0: the client's own. */
};

struct ps_attached {
    struct ps_thread_exec *exec;
    struct ps_blocking blocking;
};

/** Make client and thread; nothing is sent yet. On failure nothing is left. */
PS_MUST_CHECK enum ps_status ps_attached_open(struct ps_attached *session,
                                              const struct ps_attached_options *options,
                                              struct ps_error *err);

struct ps_blocking *ps_attached_blocking(struct ps_attached *session);

/** Leave the cluster and end the thread. A zeroed one does nothing. */
void ps_attached_close(struct ps_attached *session);

/** The options of a client of this process, as ps_attached_open would make it. */
struct ps_session_options ps_attached_client(const struct ps_attached_options *options);

#endif
