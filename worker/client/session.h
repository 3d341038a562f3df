#ifndef PS_WORKER_CLIENT_SESSION_H
#define PS_WORKER_CLIENT_SESSION_H
/*
 * session/session.h — one session of a worker or reader with a cluster: join, define, pull, push,
 * report. The only way in which programs of this project talk to servers.
 *
 * Asynchronous: every operation is a struct of the caller's with a struct ps_op in it, and ends
 * with op.done, exactly once, on the session's executor. Operations must be started on that
 * executor too (train/blocking.h does it for threads that want to wait). Retries, re-routing,
 * splitting by server, back-off and deadlines happen inside; a push keeps its stream and sequence
 * through all of them, so it is applied exactly once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

enum ps_client_kind {
    PS_CLIENT_WORKER = 1, /* As SessionKind on the wire. */
    PS_CLIENT_READER = 2
};

/** What the coordinator says of the job; as JobState on the wire. */
enum ps_job_state {
    PS_JOB_NONE,
    PS_JOB_WAITING,
    PS_JOB_RUNNING,
    PS_JOB_DONE,
    PS_JOB_CLUSTER_LOST,
    PS_JOB_STOPPED
};

struct ps_session_options {
    struct ps_transport *transport;
    struct ps_exec *exec; /* Everything happens here. */
    struct ps_mem *mem;
    struct ps_metrics *metrics; /* May be NULL. */
    const struct ps_creds *creds;
    const char *coordinator; /* Address; copied. */
    enum ps_client_kind kind;
    const char *name;         /* For people; copied. */
    struct ps_id session;     /* Random, new for every session. */
    struct ps_id cluster_id;  /* None: any cluster. */
    uint32_t call_timeout_ms; /* Of one try without payload; 0: 2000. Grows with bytes. */
    uint32_t give_up_ms;      /* A server or coordinator silent for so long is lost; 0: 10000. */
    uint64_t seed;            /* Of the back-off's jitter. */
    /** Something changed: look with ps_session_view. On the executor. May be NULL. */
    void (*changed)(void *arg);
    void *arg;
};

enum ps_consistency_mode {
    PS_CONSISTENCY_NONE,
    PS_CONSISTENCY_BSP,
    PS_CONSISTENCY_SSP,
    PS_CONSISTENCY_ASP
};

struct ps_consistency {
    uint64_t version;
    enum ps_consistency_mode mode;
    uint32_t bound; /* Clocks; SSP only. */
    bool aggregate;
    uint32_t n_backups;
};

/** A lent part of the data; see Lease in proto/ps/v1/coordinator.proto for the rows of a unit. */
struct ps_lease {
    uint64_t id; /* 0: none. */
    uint32_t epoch;
    uint64_t first_row;
    uint32_t unit_rows;
    uint64_t stride;
    uint32_t n_units;
    uint32_t units_done;
    uint64_t clock;
};

/** What the session knows; a copy may be taken on the executor at any time. */
struct ps_session_view {
    uint64_t session_number; /* 0: not joined. */
    uint64_t term;
    uint64_t generation;
    uint64_t min_clock;
    struct ps_id cluster_id;
    struct ps_consistency consistency;
    enum ps_job_state job;
    struct ps_lease lease; /* id 0: idle. */
    bool fenced;           /* The session is closed; nothing works any more. */
    struct ps_error lost;  /* status != PS_OK: the cluster can't be reached or lost data; why. */
    uint64_t n_retries;
    uint64_t n_bytes_pushed; /* Payload bytes of acknowledged pushes. */
    uint64_t n_bytes_pulled;
    uint64_t n_pulls_parked; /* Pulls that the gate made wait (or answered NOT_YET). */
};

struct ps_table_def {
    const char *name; /* 1 to 63 bytes of [a-z0-9_.] */
    uint32_t n_dims;
    uint64_t shape[PS_DIMS_MAX];
    uint32_t init_kind; /* As InitKind on the wire. */
    float init_scale;
    uint64_t seed;
    const char *optimizer; /* sgd, momentum, adagrad, adam, adamw */
    float momentum;
    float beta1;
    float beta2;
    float epsilon;
    float weight_decay;
    float l2;
};

struct ps_job_def {
    const char *model;
    const char *data;
    uint64_t rows;
    uint32_t batch;
    uint32_t epochs;
    bool shuffle;
    uint64_t seed;
    uint32_t workers;
    uint32_t start_timeout_ms;
    struct ps_consistency consistency;
    uint32_t units_per_lease;
};

/** One table's weights or gradient: the whole tensor, row-major. */
struct ps_tensor {
    uint32_t table; /* Number. */
    float *values;  /* [elements of the table]; a push only reads them. */
};

struct ps_define_table {
    struct ps_op op;
    const struct ps_table_def *def; /* Borrowed until done. */
    uint32_t ret_table;             /* Number, on success. */
};

struct ps_define_job {
    struct ps_op op;
    const struct ps_job_def *def; /* Borrowed until done. */
    uint32_t ret_units_per_lease; /* What is in force. */
};

struct ps_pull {
    struct ps_op op;
    uint64_t step; /* The step that the weights are for; waits for the staleness bound. */
    bool no_clock; /* Readers: at once. */
    const struct ps_tensor *tensors; /* Borrowed until done; values are written. */
    uint32_t n_tensors;
    uint64_t ret_min_clock;  /* Smallest over the pieces: every update of steps below is in. */
    uint64_t ret_blocked_ns; /* Of its time, how long the gate (not the network) held it. */
};

struct ps_push {
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
};

/** Cumulative figures of a worker for reports; as WorkerStats on the wire. */
struct ps_worker_stats {
    uint64_t units;
    uint64_t rows;
    uint64_t busy_us;
    uint64_t blocked_bound_us;
    uint64_t blocked_network_us;
    uint64_t blocked_lease_us;
    uint64_t staleness_sum;
    uint64_t staleness_max;
};

/** Progress, absolute; sent at once and repeated with every heartbeat. */
struct ps_worker_report {
    uint64_t clock; /* The step that it may do next; all pushes of steps below are acked. */
    uint64_t lease;
    uint32_t units_done;
    uint64_t staged_step; /* Aggregate: 1 + step of the staged unit; 0: none. */
    uint32_t staged_unit;
    uint32_t staged_rows;
    uint32_t loss_epoch;
    double loss_sum;
    uint64_t loss_rows;
    struct ps_worker_stats stats;
};

/** @return PS_ERR_NOMEM, PS_ERR_INVALID (address). Nothing is sent yet. */
PS_MUST_CHECK enum ps_status ps_session_create(const struct ps_session_options *options,
                                               struct ps_session **ret, struct ps_error *err);

/** Join, start attending; done when the session is open in every slot. First operation. */
void ps_session_join(struct ps_session *session, struct ps_op *op);

void ps_session_define_table(struct ps_session *session, struct ps_define_table *op);
void ps_session_define_job(struct ps_session *session, struct ps_define_job *op);

/** Learn the catalogue (readers, before their first pull of tables that others defined). */
void ps_session_describe(struct ps_session *session, struct ps_op *op);

/** Table by name after define or describe; false when unknown. `ret_n` elements. */
bool ps_session_table(const struct ps_session *session, const char *name, uint32_t *ret_table,
                      uint64_t *ret_n);

void ps_session_pull(struct ps_session *session, struct ps_pull *pull);
void ps_session_push(struct ps_session *session, struct ps_push *push);

/**
 * Push, and pull in the same calls where the gate is open; pieces answered NOT_YET are pulled with
 * plain calls once the push is acknowledged, so both operations always end by themselves. A push
 * that fails takes the pull with it: nobody will tick, and the gate might wait for that.
 */
void ps_session_push_pull(struct ps_session *session, struct ps_push *push, struct ps_pull *pull);

/** Take the report over (copied); ticks travel with it. */
void ps_session_report(struct ps_session *session, const struct ps_worker_report *report);

void ps_session_view(const struct ps_session *session, struct ps_session_view *ret);

/** Leave the cluster (leases go back), stop attending; done when nothing is under way any more.
 * Operations still pending end with PS_ERR_CANCELED before. */
void ps_session_close(struct ps_session *session, struct ps_op *op);

/** After close (or without any join). NULL does nothing. */
void ps_session_destroy(struct ps_session *session);

#endif
