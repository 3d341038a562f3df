#ifndef PS_WORKER_CLIENT_SESSION_H
#define PS_WORKER_CLIENT_SESSION_H
/*
 * client/session.h — one session of a worker or reader with a cluster: join, define, pull, push,
 * report. What <ps/client.h> is made of.
 *
 * Asynchronous: every operation is a struct of the caller's with a struct ps_op in it, and ends
 * with op.done, exactly once, on the session's executor. Operations must be started on that
 * executor too (client/lib does it for threads that want to wait). Retries, re-routing,
 * splitting by server, back-off and deadlines happen inside; a push keeps its stream and sequence
 * through all of them, so it is applied exactly once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ps/client.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"
#include "obs/metric.h"
#include "port/exec.h"
#include "port/transport.h"

struct ps_session;

/** The common part of operations. Zero it, set done (and arg) and start. */
struct ps_op {
    void (*done)(struct ps_op *op);
    void *arg;
    struct ps_error err; /* Outcome; err.status PS_OK: it worked. */
    struct ps_list node; /* The session's. */
};

struct ps_session_options {
    struct ps_transport *transport;
    struct ps_exec *exec; /* Everything happens here. */
    struct ps_mem *mem;
    struct ps_metrics *metrics; /* May be NULL. */
    const struct ps_creds *creds;
    const char *coordinator; /* Address; copied. */
    enum ps_client_kind kind;
    bool unleased;            /* A worker that is never lent rows. */
    const char *name;         /* For people; copied. */
    struct ps_id session;     /* Random, new for every session. */
    struct ps_id cluster_id;  /* None: any cluster. */
    uint32_t call_timeout_ms; /* Of one try without payload; 0: 2000. Grows with bytes. */
    uint32_t give_up_ms;      /* A server or coordinator silent for so long is lost; 0: as the
                               * coordinator says, before that and if it does not 10000. */
    uint32_t join_timeout_ms; /* Servers may start after workers; 0: 3 * give_up_ms. */
    uint64_t seed;            /* Of the back-off's jitter. */
    bool plant_new_sequence;  /* Test builds only, a bug: what is repeated gets another sequence. */
    /** Something changed: look with ps_session_view. On the executor. May be NULL. */
    void (*changed)(void *arg);
    void *arg;
};

struct ps_define_table_op {
    struct ps_op op;
    const struct ps_table_def *def; /* Borrowed until done. */
    uint32_t ret_table;             /* Number, on success. */
};

/** A look at the whole cluster. */
struct ps_look_op {
    struct ps_op op;
    struct ps_cluster *ret_cluster; /* On success the caller's, for ps_cluster_free. */
};

struct ps_define_job_op {
    struct ps_op op;
    const struct ps_job_def *def; /* Borrowed until done. */
    uint32_t ret_units_per_lease; /* What is in force. */
};

struct ps_shutdown_op {
    struct ps_op op;
    const char *reason; /* For people; borrowed until done. NULL: none. */
};

struct ps_pull_op {
    struct ps_op op;
    uint64_t step; /* The step that the weights are for; waits for the staleness bound. */
    bool no_clock; /* Readers: at once. */
    const struct ps_tensor *tensors; /* Borrowed until done; values are written. */
    uint32_t n_tensors;
    const struct ps_keyed *keyed; /* Likewise, rows of sparse tables; each table once. */
    uint32_t n_keyed;
    uint64_t ret_min_clock;  /* Smallest over the pieces: every update of steps below is in. */
    uint64_t ret_blocked_ns; /* Of its time, how long the gate (not the network) held it. */
};

/** Rows of a sparse table, as many as there is room for: see struct ps_scan. */
struct ps_scan_op {
    struct ps_op op;
    uint32_t table;
    bool skip_zeros;
    uint64_t *keys; /* [n_room] Borrowed until done; written. */
    float *values;  /* [n_room][width] */
    uint32_t n_room;
    struct ps_scan_at at; /* Where to begin; on success where to go on. */
    uint32_t ret_n;
    bool ret_done;
    uint64_t ret_min_clock; /* Smallest over the rows. */
};

struct ps_push_op {
    struct ps_op op; /* PS_ERR_LATE (aggregate): the step is closed; repeat the unit later. */
    uint64_t stream; /* Lease id; 0: the session's own. */
    uint64_t sequence;
    uint64_t acked_below;
    uint64_t step;
    uint32_t rows;
    float rate;
    uint64_t read_clock;             /* ret_min_clock of the pull whose weights were used. */
    const struct ps_tensor *tensors; /* Borrowed until done; neither moved nor changed. */
    uint32_t n_tensors;
    const struct ps_keyed *keyed; /* Likewise, rows of sparse tables; each table once. */
    uint32_t n_keyed;
};

/** @return PS_ERR_NOMEM, PS_ERR_INVALID (address). Nothing is sent yet. */
PS_MUST_CHECK enum ps_status ps_session_create(const struct ps_session_options *options,
                                               struct ps_session **ret, struct ps_error *err);

/** Join, start attending; done when the session is open in every slot. First operation. */
void ps_session_join(struct ps_session *session, struct ps_op *op);

void ps_session_define_table(struct ps_session *session, struct ps_define_table_op *op);
void ps_session_define_job(struct ps_session *session, struct ps_define_job_op *op);

/** Learn the catalogue (readers, before their first pull of tables that others defined). */
void ps_session_describe(struct ps_session *session, struct ps_op *op);

/** The same, and tell the caller everything. */
void ps_session_look(struct ps_session *session, struct ps_look_op *op);

/** Every member is told to stop. */
void ps_session_shutdown(struct ps_session *session, struct ps_shutdown_op *op);

/** Table by name after define or describe; NULL when unknown. Valid until destroy. */
const struct ps_table *ps_session_table(const struct ps_session *session, const char *name);

void ps_session_pull(struct ps_session *session, struct ps_pull_op *pull);
void ps_session_push(struct ps_session *session, struct ps_push_op *push);

/**
 * Push, and pull in the same calls where the gate is open; pieces answered NOT_YET are pulled with
 * plain calls once the push is acknowledged, so both operations always end by themselves. A push
 * that fails takes the pull with it: nobody will tick, and the gate might wait for that.
 */
void ps_session_push_pull(struct ps_session *session, struct ps_push_op *push,
                          struct ps_pull_op *pull);

void ps_session_scan(struct ps_session *session, struct ps_scan_op *scan);

/** What the worker did with its time; travels with reports. */
void ps_session_figures(struct ps_session *session, const struct ps_worker_stats *stats);

/** Take the report over (copied); ticks travel with it. */
void ps_session_report(struct ps_session *session, const struct ps_worker_report *report);

void ps_session_view(const struct ps_session *session, struct ps_view *ret);

/** With view.fenced: the words for it. */
void ps_session_why_fenced(const struct ps_session *session, struct ps_error *ret);

/** What is under way ends, soon, with PS_ERR_CANCELED, and nothing is started any more. */
void ps_session_cancel(struct ps_session *session);

/** Leave the cluster (leases go back), stop attending; done when nothing is under way any more.
 * Operations still pending end with PS_ERR_CANCELED before. */
void ps_session_close(struct ps_session *session, struct ps_op *op);

/** After close (or without any join). NULL does nothing. */
void ps_session_destroy(struct ps_session *session);

#endif
