#ifndef PS_CLIENT_H
#define PS_CLIENT_H
/*
 * ps/client.h — libpsclient: one session with a cluster of parameter servers.
 *
 *   open -> define or look up tables -> { pull, compute, push, report }* -> close
 *
 * What the library does by itself: splits tensors over servers and calls, numbers pushes so that
 * each is applied exactly once however often it has to be sent, retries with back-off and within
 * deadlines, follows slots that move, keeps the session alive, honours the staleness bound.
 *
 * Threads: every function may be called from any thread, also several at once on one client; no
 * call may follow ps_client_close. A process that forks opens its clients after the fork. Nothing
 * here touches signals, and the library's threads have them blocked.
 *
 * Errors: a function returns a status, and the words in `err` (may be NULL: then they are lost).
 * ps_status_retryable tells whether the same call may work later. Besides those named with each
 * function: PS_ERR_FENCED, the session is closed (it was silent for too long: open another one);
 * PS_ERR_LOST, a server or the coordinator is gone for good; PS_ERR_NOMEM; PS_ERR_CANCELED, the
 * client is being closed; PS_ERR_BUSY, PS_CLIENT_OPERATIONS_MAX are under way; PS_ERR_INVALID, an
 * argument is out of range, and nothing was sent.
 */
#include <ps/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ps_runtime;
struct ps_client;

#define PS_CLIENT_OPERATIONS_MAX 64u /* Of one client, by all threads, that were not waited for. */

/* ---- Process-wide -------------------------------------------------------------------------- */

/** "0.1.0". Static. */
PS_API const char *ps_client_version(void);

/**
 * Where the library's log lines go (logfmt, one event each, without the newline):
 * `write(arg, line)` from any thread, which must return soon and not call the library. Levels info,
 * warn and error; gRPC's own errors are among them. NULL, the preset: nowhere; nothing is ever
 * written to standard error. Call it before the first open.
 */
PS_API void ps_client_log_to(void (*write)(void *arg, const char *line), void *arg);

/* ---- Runtime: threads and connections ------------------------------------------------------ */

/**
 * Threads and connections that several clients of this process share: one thread for control, one
 * for data, and those of gRPC. Only needed by programs with many clients: a client opened without
 * one makes its own. Each client has one more thread.
 */
PS_API PS_MUST_CHECK enum ps_status ps_runtime_create(struct ps_runtime **ret,
                                                      struct ps_error *err);

/** The caller does not need it any more; it goes with its last client. NULL does nothing. */
PS_API void ps_runtime_destroy(struct ps_runtime *runtime);

/* ---- Open and close ------------------------------------------------------------------------ */

/** Zero it, set the coordinator, and what else shall differ from the preset. Strings are copied. */
struct ps_client_options {
    const char *coordinator;    /* host:port, [ipv6]:port or unix:/path. Required. */
    enum ps_client_kind kind;   /* 0: PS_CLIENT_WORKER. */
    const char *name;           /* For people: logs, psctl; [a-z0-9_.-]. NULL: "client". */
    struct ps_id cluster_id;    /* None: any cluster. Else another cluster is refused. */
    uint32_t call_timeout_ms;   /* Of one try without payload; grows with bytes. 0: 2000. */
    uint32_t give_up_ms;        /* A server or coordinator silent for so long is lost. 0: 10000. */
    uint32_t open_timeout_ms;   /* A cluster may start after its clients. 0: 3 * give_up_ms. */
    uint64_t memory_bytes;      /* Heap for this client, gRPC's own apart; 0: no bound. */
    struct ps_runtime *runtime; /* NULL: one of its own. */
};

/**
 * Could ps_client_open dial this? Looks at the words alone, so that a program can refuse a bad one
 * before it does anything else.
 * @return PS_ERR_INVALID with what to write instead
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_check_address(const char *address,
                                                            struct ps_error *err);

/**
 * Join the cluster: returns when the session is open at every server. Blocks, at most about
 * open_timeout_ms.
 * @return PS_ERR_INVALID (options, address), PS_ERR_TIMEOUT or PS_ERR_UNAVAIL (nobody answers
 * there), PS_ERR_UNSUPPORTED (protocol), PS_ERR_NOT_FOUND (another cluster), PS_ERR_BUSY (as many
 * sessions as it takes are open). On failure nothing is left.
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_open(const struct ps_client_options *options,
                                                   struct ps_client **ret, struct ps_error *err);

/**
 * Leave: what is under way ends with PS_ERR_CANCELED (and its struct's under_way is NULL), leases
 * go back, memory is freed. Blocks until no other thread is inside a call of this client and nobody
 * reads or writes a borrowed tensor any more. NULL does nothing.
 */
PS_API void ps_client_close(struct ps_client *client);

/* ---- Tables and the job -------------------------------------------------------------------- */

/**
 * Define a table, or find that it is defined equally. Blocks until every server has made it.
 * `ret` may be NULL.
 * @return PS_ERR_EXISTS: there is one of that name with another definition; the words say what
 * differs
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_define_table(struct ps_client *client,
                                                           const struct ps_table_def *def,
                                                           struct ps_table *ret,
                                                           struct ps_error *err);

/** Look a table up by name; asks the coordinator. @return PS_ERR_NOT_FOUND; as describe */
PS_API PS_MUST_CHECK enum ps_status ps_client_table(struct ps_client *client, const char *name,
                                                    struct ps_table *ret, struct ps_error *err);

/** As ps_client_define_table, for the training run. */
PS_API PS_MUST_CHECK enum ps_status
ps_client_define_job(struct ps_client *client, const struct ps_job_def *def, struct ps_error *err);

/* ---- Pull and push ------------------------------------------------------------------------- */

/** Weights to be fetched. Zero it and set the inputs. Untouched by the caller while under way. */
struct ps_pull {
    const struct ps_tensor *tensors; /* [n_tensors] Borrowed; their values are written. */
    uint32_t n_tensors;
    uint64_t step; /* The step that the weights are for: waits for the staleness bound, and for the
                    * definition of a job, which states it. */
    bool no_clock; /* Do not wait: what is there now. Readers always do so. */
    /* Set on success. */
    uint64_t min_clock;  /* Every update of steps below is in the weights. */
    uint64_t blocked_ns; /* Of the time it took, how long the bound (not the network) held it. */
    void *under_way;     /* The library's; NULL when not. */
};

/** A gradient to be applied. Zero it and set the inputs. Untouched while under way. */
struct ps_push {
    const struct ps_tensor *tensors; /* [n_tensors] Borrowed; neither moved nor changed. */
    uint32_t n_tensors;
    uint64_t stream;      /* Lease id: the push is unit `sequence` of it. 0: the session's own. */
    uint64_t sequence;    /* From 0. The same one again is the same push: applied once. */
    uint64_t acked_below; /* All sequences of the stream below are acknowledged. */
    uint64_t step;        /* The worker's clock. */
    uint32_t rows;        /* Rows behind this gradient, a mean over them. */
    float rate;           /* The step's learning rate. */
    uint64_t read_clock;  /* min_clock of the pull whose weights were used. */
    void *under_way;      /* The library's; NULL when not. */
};

/**
 * Fetch weights; returns when all tensors are filled. A tensor may be partly written on failure.
 * @return PS_ERR_NOT_FOUND: no such table (a client knows those that it defined or looked up)
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_pull(struct ps_client *client, struct ps_pull *pull,
                                                   struct ps_error *err);

/**
 * Apply a gradient; returns when every server has acknowledged. Checked whole (tables, finite
 * values) before its first byte leaves.
 * @return PS_ERR_INVALID: not finite, nothing was sent. PS_ERR_NOT_FOUND: as pull. PS_ERR_LATE
 * (aggregate): the step is closed, its unit comes back in a later lease
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_push(struct ps_client *client, struct ps_push *push,
                                                   struct ps_error *err);

/**
 * The same in two halves, so that a caller can compute meanwhile: start, then wait for each that
 * was started, once. The struct and all it borrows stay in place until wait has returned.
 * ps_client_push_pull_start saves a round trip: the pull is answered in the push's calls where the
 * bound allows it, else by itself after the push; wait for the push, report, then wait for the
 * pull. A push that fails takes the pull with it.
 * @return PS_ERR_BUSY: nothing was started. Waiting returns what ps_client_pull and ps_client_push
 * return.
 */
PS_API PS_MUST_CHECK enum ps_status
ps_client_pull_start(struct ps_client *client, struct ps_pull *pull, struct ps_error *err);
PS_API PS_MUST_CHECK enum ps_status
ps_client_push_start(struct ps_client *client, struct ps_push *push, struct ps_error *err);
PS_API PS_MUST_CHECK enum ps_status ps_client_push_pull_start(struct ps_client *client,
                                                              struct ps_push *push,
                                                              struct ps_pull *pull,
                                                              struct ps_error *err);
PS_API PS_MUST_CHECK enum ps_status ps_client_pull_wait(struct ps_client *client,
                                                        struct ps_pull *pull, struct ps_error *err);
PS_API PS_MUST_CHECK enum ps_status ps_client_push_wait(struct ps_client *client,
                                                        struct ps_push *push, struct ps_error *err);

/* ---- Progress ------------------------------------------------------------------------------ */

/** What the session knows. */
struct ps_client_view {
    uint64_t session_number;
    struct ps_id cluster_id;
    uint64_t term;
    uint64_t generation; /* Changes when the cluster went back to a snapshot. */
    uint64_t min_clock;
    struct ps_consistency consistency;
    enum ps_job_state job;
    struct ps_lease lease; /* id 0: idle. */
    bool fenced;           /* The session is closed; nothing works any more. */
    struct ps_error lost;  /* status other than PS_OK: what is lost. */
    uint64_t n_retries;
    uint64_t n_bytes_pushed; /* Payload bytes of acknowledged pushes. */
    uint64_t n_bytes_pulled;
    uint64_t n_pulls_parked; /* Pulls that the bound made wait. */
    uint64_t n_changes;      /* Of all but the figures; tells two views apart. */
};

/** As of the last news; does not block. */
PS_API void ps_client_view(struct ps_client *client, struct ps_client_view *ret);

/**
 * Wait until the client knows something newer than `*view` (zeroed: anything at all), at most so
 * long, and take a new view either way. False: there was nothing new.
 */
PS_API bool ps_client_wait_change(struct ps_client *client, struct ps_client_view *view,
                                  uint32_t timeout_ms);

/**
 * Say how far this worker is; does not block. Sent at once, and again with every heartbeat; of
 * several not sent yet the last counts. Reporting a clock opens the gate for workers that wait;
 * reporting a lease's last unit asks for another lease.
 */
PS_API void ps_client_report(struct ps_client *client, const struct ps_worker_report *report);

/* ---- A look at the cluster ----------------------------------------------------------------- */

/** A member, present or past. */
struct ps_member {
    uint64_t session_number;
    const char *kind; /* worker, reader, server */
    const char *name;
    const char *address; /* Servers; else "". */
    const char *state;   /* joining, live, suspect, left, dead */
    uint64_t clock;
    uint64_t lease; /* 0: idle. */
    uint64_t silent_ms;
    struct ps_worker_stats worker; /* Workers. */
    uint64_t retries;              /* Workers. */
    uint64_t bytes_pushed;         /* Servers: taken; workers: sent. Payload. */
    uint64_t bytes_pulled;
    uint64_t pushes; /* Servers, as what follows. */
    uint64_t pulls;
    uint64_t parked_now;   /* Pulls that wait for the staleness bound. */
    uint64_t bytes_copied; /* Of payload, on its way between network and tables. */
    uint64_t memory_bytes; /* Tables and optimizer state. */
};

struct ps_epoch_progress {
    uint32_t epoch; /* From 0. */
    uint64_t units;
    uint64_t units_done;
    double loss_sum;
    uint64_t loss_rows;
};

/** One moment of a cluster. Read-only; everything in it is freed with it. */
struct ps_cluster {
    struct ps_id cluster_id;
    uint64_t term;
    uint64_t generation;
    enum ps_job_state job;
    const char *reason; /* Why lost or stopped; else "". */
    uint64_t min_clock;
    struct ps_consistency consistency;
    bool has_definition;
    struct ps_job_def definition;  /* Zero without. */
    uint32_t n_servers;            /* That hold the tables; 0: not all have joined yet. */
    const struct ps_table *tables; /* [n_tables] */
    size_t n_tables;
    const struct ps_member *members; /* [n_members] */
    size_t n_members;
    const struct ps_epoch_progress *epochs; /* [n_epochs] The latest ones. */
    size_t n_epochs;
    uint64_t steps;            /* Units finished over all epochs. */
    uint64_t sessions_lost;    /* Workers that died without leaving. */
    uint32_t rows_trained_min; /* Over all row ranges: how often finished, fewest */
    uint32_t rows_trained_max; /*   and most times. */
    uint64_t running_us;       /* Since training started; stops when done. */
};

/**
 * Ask the coordinator. Blocks, at most about give_up_ms.
 * @return PS_ERR_TIMEOUT, PS_ERR_UNAVAIL
 */
PS_API PS_MUST_CHECK enum ps_status
ps_client_describe(struct ps_client *client, struct ps_cluster **ret, struct ps_error *err);

/** NULL does nothing. May outlive the client. */
PS_API void ps_cluster_free(struct ps_cluster *cluster);

#ifdef __cplusplus
}
#endif

#endif
