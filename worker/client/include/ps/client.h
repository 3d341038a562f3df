#ifndef PS_CLIENT_H
#define PS_CLIENT_H
/*
 * ps/client.h — libpsclient: one session with a cluster of parameter servers.
 *
 *   open -> define or look up tables -> { pull, compute, push }* -> close
 *
 * A worker that takes part in a job defines it (ps_client_define_job), then does unit after unit:
 *
 *   struct ps_unit unit;
 *   while ((status = ps_client_next_unit(client, &unit, PS_FOREVER_MS, err)) == PS_OK &&
 *          unit.n_rows > 0) {
 *       pull.step = unit.step;
 *       ... ps_client_pull(client, &pull, err) ...
 *       ... the gradient over the rows ps_row_at(&job, unit.epoch, unit.first + i) ...
 *       push.unit = &unit, push.read_clock = pull.min_clock, push.rate = ...;
 *       ... ps_client_push(client, &push, err), then ps_client_unit_done(client, &unit, loss, err)
 *   }
 *
 * which is all of the protocol of leases, clocks and reports; custom_model.c of the tests is a
 * whole program. One without a job numbers its pushes itself, as ps_push says, and pulls with
 * no_clock.
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
 *
 * Pointers: none may be NULL unless its comment says so. One that is costs PS_ERR_INVALID; where no
 * status is returned nothing happens, and false, 0 or UINT64_MAX is returned.
 */
#include <ps/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ps_runtime;
struct ps_client;

#define PS_CLIENT_OPERATIONS_MAX 64u /* Of one client, by all threads, that were not waited for. */

#define PS_FOREVER_MS UINT32_MAX /* A timeout that never passes. */

/* ---- Process-wide -------------------------------------------------------------------------- */

/** "0.1.0". Static. */
PS_API const char *ps_client_version(void);

/**
 * Where the library's log lines go (logfmt, one event each, without the newline):
 * `write(arg, line)` from any thread, which must return soon and not call the library. Levels info,
 * warn and error; gRPC's own errors are among them. `write` NULL, the preset: nowhere; nothing is
 * ever written to standard error. `arg` may be NULL. Call it before the first open.
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
    uint32_t give_up_ms;        /* A server or coordinator silent for so long is lost. 0: as the
                                 * cluster says: 10000, or more where one may come back. */
    uint32_t open_timeout_ms;   /* A cluster may start after its clients. 0: 3 * give_up_ms, or
                                 * 30000. */
    uint64_t memory_bytes;      /* Heap for this client, gRPC's own apart; 0: no bound. */
    struct ps_runtime *runtime; /* NULL: one of its own. */
    bool unleased; /* A worker that brings its own rows: never lent any, never waited for. */
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
 * For a program that is asked to end while another of its threads waits in a call: everything under
 * way, and whatever is started later, ends with PS_ERR_CANCELED. Does not block; the client is
 * still to be closed. A push that is half done is finished by whoever gets the lease next.
 */
PS_API void ps_client_cancel(struct ps_client *client);

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

/**
 * As ps_client_define_table, for the training run. Everybody who takes part in it does so: from
 * then on the client knows which rows a unit has.
 */
PS_API PS_MUST_CHECK enum ps_status
ps_client_define_job(struct ps_client *client, const struct ps_job_def *def, struct ps_error *err);

/* ---- Pull and push ------------------------------------------------------------------------- */

/** Weights to be fetched. Zero it and set the inputs. Untouched by the caller while under way. */
struct ps_pull {
    const struct ps_tensor *tensors; /* [n_tensors] Borrowed; their values are written. */
    uint32_t n_tensors;
    const struct ps_keyed *keyed; /* [n_keyed] Likewise, rows of sparse tables; each table once. */
    uint32_t n_keyed;
    uint64_t step; /* The step that the weights are for: waits for the staleness bound, and for the
                    * definition of a job, which states it. */
    bool no_clock; /* Do not wait: what is there now. Readers always do so, `step` says nothing. */
    /* Set on success. */
    uint64_t min_clock;  /* Every update of steps below is in the weights. */
    uint64_t blocked_ns; /* Of the time it took, how long the bound (not the network) held it. */
    void *under_way;     /* The library's; NULL when not. */
};

/** A gradient to be applied. Zero it and set the inputs. Untouched while under way. */
struct ps_push {
    const struct ps_tensor *tensors; /* [n_tensors] Borrowed; neither moved nor changed. */
    uint32_t n_tensors;
    const struct ps_keyed *keyed; /* [n_keyed] Likewise, rows of sparse tables; each table once. */
    uint32_t n_keyed;
    float rate;          /* The step's learning rate. */
    uint64_t read_clock; /* min_clock of the pull whose weights were used. */
    const struct ps_unit
        *unit;         /* The push is of this unit: it says what follows. Borrowed. NULL: */
    uint64_t stream;   /* Id of the lease that is held; 0: the session's own stream. */
    uint64_t sequence; /* Of a lease: number of the unit. Else from 0, in any order, each used for
                        * one push: the same one again is the same push, and applied once. */
    uint64_t acked_below; /* All sequences of the stream below are acknowledged; at most sequence.
                           * 0 is always right; the servers forget what lies below. */
    uint64_t step;        /* The worker's clock; of the session's own stream for people only. */
    uint32_t rows;        /* Rows behind this gradient, a mean over them. 0: not counted. */
    void *under_way;      /* The library's; NULL when not. */
};

/**
 * Fetch weights; returns when all tensors are filled. A tensor may be partly written on failure.
 * @return PS_ERR_NOT_FOUND: no such table (a client knows those that it defined or looked up).
 * PS_ERR_CANCELED also: the job is over before the bound allows the step, so it never will
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_pull(struct ps_client *client, struct ps_pull *pull,
                                                   struct ps_error *err);

/**
 * Apply a gradient; returns when every server has acknowledged. Checked whole (tables, finite
 * values) before its first byte leaves.
 * @return PS_ERR_INVALID: not finite, or of a lease that is not held; nothing was sent.
 * PS_ERR_CANCELED also: the job is over, and with it the lease. PS_ERR_DENIED: a reader does not
 * push. PS_ERR_NOT_FOUND: as pull. PS_ERR_LATE (aggregate with backups): the step is closed, its
 * unit is to be done again: ps_client_next_unit says when
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_push(struct ps_client *client, struct ps_push *push,
                                                   struct ps_error *err);

/**
 * The same in two halves, so that a caller can compute meanwhile: start, then wait for each that
 * was started, once. The struct and all it borrows stay in place until wait has returned.
 * ps_client_push_pull_start saves a round trip: the pull is answered in the push's calls where the
 * bound allows it, else by itself after the push; wait for the push, say ps_client_unit_done
 * (others may wait for it), then wait for the pull. A push that fails takes the pull with it. Not
 * worth it behind the `last` unit of a lease: the next lease is often of a later step.
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

/* ---- All rows of a sparse table ------------------------------------------------------------ */

/**
 * A walk over the rows of a sparse table. Zero it, set the inputs, and call ps_client_scan until
 * `done`; `keys`, `values` and `n_room` may change between two calls.
 */
struct ps_scan {
    uint32_t table;  /* Number. */
    bool skip_zeros; /* Leave out rows whose weights are all 0: they say nothing to a model in
                      * which a key without a row is 0 as well. */
    uint64_t *keys;  /* [n_room] Written. */
    float *values;   /* [n_room][width] Written: weights, in the order of the keys. */
    uint32_t n_room; /* Rows; at least 1. */
    /* Set on success. */
    uint32_t n;         /* Rows that came; less than n_room only when `done`. */
    bool done;          /* There are no more. */
    uint64_t min_clock; /* Every update of steps below is in the rows that came; 0 without any. */
    struct ps_scan_at { /* The library's: how far it is. */
        uint32_t slot;
        uint64_t generation;
        uint64_t epoch;
        uint64_t cursor;
    } at;
};

/**
 * The next rows of a table, in no order; memory and the work of a server are bounded however large
 * the table is. Training may go on meanwhile: a row that is there from the first call to the last
 * comes exactly once, with the weights of some moment between; one that comes or goes (expires)
 * meanwhile may be missing, and one that goes and comes again may come twice. For the state of one
 * moment, scan when nobody pushes. Readers and workers may; retried as pulls are.
 *
 * A call that failed has moved nothing and may be repeated, unless it says PS_ERR_LATE.
 * @return PS_ERR_NOT_FOUND: as pull. PS_ERR_INVALID: the table is dense. PS_ERR_LATE: rows lie
 * elsewhere since the scan was at them (their slot moved), so it must begin anew, zeroed
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_scan(struct ps_client *client, struct ps_scan *scan,
                                                   struct ps_error *err);

/* ---- Units --------------------------------------------------------------------------------- */

/**
 * The unit to be done next; blocks until there is one, at most so long. The same again until
 * ps_client_unit_done. A worker of a job that was defined with this client; one thread at a time.
 * With `aggregate` it also waits until the step of the unit before is closed, and for the moment in
 * which a snapshot is taken.
 * @return PS_OK and n_rows 0: the job is over, done or stopped (view.job says which).
 * PS_ERR_TIMEOUT: ask again. PS_ERR_DENIED: a reader or unleased. PS_ERR_INVALID: no job was
 * defined
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_next_unit(struct ps_client *client,
                                                        struct ps_unit *ret, uint32_t timeout_ms,
                                                        struct ps_error *err);

/**
 * The push of this unit was acknowledged: the worker's clock goes on, others may go on with it.
 * Does not block. `loss_sum`, the unit's training loss summed over its rows, is for people.
 *
 * Over parts unit->n_rows and unit->last say what the program has found (see struct ps_unit); with
 * last the lease is over. One without rows was not pushed, and the clock stays.
 * @return PS_ERR_INVALID: it is not the unit that ps_client_next_unit gave; over parts also: more
 * rows than a batch, or fewer without being the last
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_unit_done(struct ps_client *client,
                                                        const struct ps_unit *unit, double loss_sum,
                                                        struct ps_error *err);

/**
 * The same by hand, for programs that keep lease and clock themselves and never ask for a unit.
 * Does not block. Sent at once, and again with every heartbeat; of several not sent yet the last
 * counts. Reporting a clock opens the gate for workers that wait; reporting a lease's last unit
 * asks for another lease (over parts: lease_over does). The lease is view.lease: units from
 * units_done on, each with a clock of one more, from the greater of the own and lease.clock on. A
 * lease stays in view, `over`, until another one or none has come. While view.hold is not 0 no unit
 * is begun, and when none is under way the report says so (`held`): then nothing is half done in
 * the snapshot that is being taken. It is short, and who does not care costs nobody anything but
 * that.
 */
PS_API void ps_client_report(struct ps_client *client, const struct ps_worker_report *report);

/* ---- Progress ------------------------------------------------------------------------------ */

/** What the session knows. */
struct ps_view {
    uint64_t session_number;
    struct ps_id cluster_id;
    uint64_t term;
    uint64_t generation; /* Changes when the cluster went back to a snapshot. */
    uint64_t min_clock;
    struct ps_consistency consistency;
    enum ps_job_state job;
    struct ps_lease lease; /* id 0: idle. */
    bool fenced;           /* The session is closed; nothing works any more. */
    struct ps_error lost;  /* status other than PS_OK: what is lost, and nothing works any more. */
    uint64_t n_retries;
    uint64_t n_bytes_pushed; /* Payload bytes of acknowledged pushes. */
    uint64_t n_bytes_pulled;
    uint64_t n_pulls_parked; /* Pulls that the bound made wait. */
    uint64_t n_changes;      /* Of all but the figures; tells two views apart. */
    struct ps_worker_stats stats;
    uint64_t hold;        /* A snapshot is being taken: no unit is begun before this is 0. */
    uint32_t patience_ms; /* A server or coordinator silent for so long is lost. */
};

/** As of the last news; does not block. */
PS_API void ps_client_view(struct ps_client *client, struct ps_view *ret);

/**
 * Wait until the client knows something newer than `*view` (zeroed: anything at all), at most so
 * long, and take a new view either way. False: there was nothing new.
 */
PS_API bool ps_client_wait_change(struct ps_client *client, struct ps_view *view,
                                  uint32_t timeout_ms);

/**
 * End the job: every member is told to stop (PS_JOB_STOPPED), workers end after their step, servers
 * end. Blocks until the coordinator has told everybody it reaches. `reason`, for people, may be
 * NULL.
 */
PS_API PS_MUST_CHECK enum ps_status ps_client_shutdown(struct ps_client *client, const char *reason,
                                                       struct ps_error *err);

/* ---- A look at the cluster ----------------------------------------------------------------- */

/** A member, present or past. Its texts are those that psctl shows; there may come more. */
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
    uint64_t parked_now;    /* Pulls that wait for the staleness bound. */
    uint64_t bytes_copied;  /* Of payload, on its way between network and tables. */
    uint64_t memory_bytes;  /* Tables and optimizer state. */
    const char *durability; /* Servers: memory, log, fsync; else "". */
};

struct ps_epoch_progress {
    uint32_t epoch; /* From 0. */
    uint64_t units; /* Over parts 0: not known. */
    uint64_t units_done;
    double loss_sum;
    uint64_t loss_rows;
    uint64_t leases;
    uint64_t leases_done;
};

/** A snapshot of the whole job, complete and kept. */
struct ps_snapshot {
    const char *name; /* What psctl restore calls it. */
    const char *dir;
    const char *taken;   /* RFC 3339. */
    uint64_t generation; /* In which it was taken. */
    uint64_t bytes;
    uint64_t ms;      /* That it took. */
    uint64_t held_us; /* For so long workers began no unit. */
    bool exact;       /* No unit was half done: who goes on from it does so to the bit. */
};

/** A server that is gone and waited for. */
struct ps_away {
    uint32_t server; /* Its index. */
    const char *address;
    uint64_t away_ms;
    uint64_t left_ms; /* Then the cluster is lost. */
    const char *why;
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
    uint64_t rows;             /* Of the data; over parts those of parts finished so far. */
    const char *durability;    /* The least of all servers: memory, log, fsync; "": not known. */
    const struct ps_snapshot *snapshots; /* [n_snapshots] Newest first. */
    size_t n_snapshots;
    const struct ps_away *away; /* [n_away] */
    size_t n_away;
    const char *snapshot_failed; /* Why the last one that was given up was; else "". */
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
