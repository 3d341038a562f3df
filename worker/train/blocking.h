#ifndef PS_WORKER_TRAIN_BLOCKING_H
#define PS_WORKER_TRAIN_BLOCKING_H
/*
 * train/blocking.h — a client for a thread that wants to wait.
 *
 *   thread                              executor
 *     |-- start: mail ------------------> ps_session_push ...
 *     |   computes                        |
 *     |-- wait: sleeps <--- op.done ------|
 *
 * With a thread executor, operations are handed over as mail and the caller sleeps on a condition
 * variable. With an inline executor (in-process mode) the caller is the executor's thread: it
 * starts operations itself and pumps until they are done. Either way one thread uses a struct
 * ps_blocking at a time, and `done` and `arg` of operations are taken by this layer.
 */
#include <pthread.h>

#include "client/session.h"
#include "port/inline_exec.h"

struct ps_blocking;

#define PS_BLOCKING_MAILS \
    8u /* Starts that the executor has not seen yet; beyond it, start waits. */

/** One thing for the executor to do. */
struct ps_blocking_mail {
    struct ps_mail mail;
    struct ps_blocking *blocking;
    void (*run)(struct ps_blocking_mail *mail); /* On the executor. */
    void *first;                                /* Operation or argument. */
    void *second;
    bool taken;
};

struct ps_blocking {
    struct ps_exec *exec;
    struct ps_inline_exec *inline_exec; /* NULL: `exec` is a thread. */
    struct ps_session *client;          /* NULL: not open. */
    pthread_mutex_t lock;               /* Over what follows. */
    pthread_cond_t news;
    struct ps_blocking_mail mails[PS_BLOCKING_MAILS];
    struct ps_worker_report report; /* The latest; on its way while `report_posted`. */
    bool report_posted;
    uint64_t n_changes;      /* Calls of options.changed. */
    uint64_t n_changes_seen; /* As of the last view. */
};

/** `inline_exec` is `exec` itself when that is an inline one, else NULL. Both outlive it. */
void ps_blocking_init(struct ps_blocking *blocking, struct ps_exec *exec,
                      struct ps_inline_exec *inline_exec);

/** After close. A zeroed one does nothing. */
void ps_blocking_deinit(struct ps_blocking *blocking);

/** Make the client. options->exec, changed and arg are filled in here. @return as
 * ps_session_create */
PS_MUST_CHECK enum ps_status ps_blocking_open(struct ps_blocking *blocking,
                                              const struct ps_session_options *options,
                                              struct ps_error *err);

/** Leave the cluster and destroy the client; what is pending ends with PS_ERR_CANCELED. Does
 * nothing when not open. */
void ps_blocking_close(struct ps_blocking *blocking);

PS_MUST_CHECK enum ps_status ps_blocking_join(struct ps_blocking *blocking, struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_blocking_describe(struct ps_blocking *blocking,
                                                  struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_blocking_define_table(struct ps_blocking *blocking,
                                                      const struct ps_table_def *def,
                                                      uint32_t *ret_table, struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_blocking_define_job(struct ps_blocking *blocking,
                                                    const struct ps_job_def *def,
                                                    struct ps_error *err);

/** As ps_session_table. */
bool ps_blocking_table(struct ps_blocking *blocking, const char *name, uint32_t *ret_table,
                       uint64_t *ret_n);

/** Start; the struct stays until ps_blocking_wait has returned. */
void ps_blocking_pull_start(struct ps_blocking *blocking, struct ps_pull_op *pull);
void ps_blocking_push_start(struct ps_blocking *blocking, struct ps_push_op *push);
void ps_blocking_push_pull_start(struct ps_blocking *blocking, struct ps_push_op *push,
                                 struct ps_pull_op *pull);

/** Wait for one that was started. @return op->err.status */
enum ps_status ps_blocking_wait(struct ps_blocking *blocking, struct ps_op *op);

/** Start and wait. */
PS_MUST_CHECK enum ps_status ps_blocking_pull(struct ps_blocking *blocking,
                                              struct ps_pull_op *pull);
PS_MUST_CHECK enum ps_status ps_blocking_push(struct ps_blocking *blocking,
                                              struct ps_push_op *push);

/** Hand the report over; does not wait. Of several that were not sent yet the last counts. */
void ps_blocking_report(struct ps_blocking *blocking, const struct ps_worker_report *report);

/** What the client knows now. */
void ps_blocking_view(struct ps_blocking *blocking, struct ps_client_view *ret);

/** Wait until something has changed since the last view, at most so long. False: nothing has. */
bool ps_blocking_wait_change(struct ps_blocking *blocking, uint32_t timeout_ms);

/** The executor's clock. */
uint64_t ps_blocking_now_ns(struct ps_blocking *blocking);

#endif
