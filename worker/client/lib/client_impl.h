#ifndef PS_WORKER_CLIENT_LIB_CLIENT_IMPL_H
#define PS_WORKER_CLIENT_LIB_CLIENT_IMPL_H
/*
 * client/lib/client_impl.h — the state of a client, shared by the files of the library.
 *
 *   client.c       the functions of <ps/client.h>: arguments in, results out
 *   client_unit.c  unit after unit: leases, clock, reports
 *   client_stats.c what a worker did with its time
 *   client_rows.c  which rows a unit has
 *   client_scan.c  all rows of a sparse table
 *   client_wait.c  operations between callers and executor: pool, lock, waiting
 *   client_open.c  threads, session, their beginning and end
 *   runtime.c      gRPC, shared by clients
 *
 *   any thread                        executor
 *     |-- start: mail ----------------> ps_session_push ...
 *     |   computes                      |
 *     |-- wait: sleeps <-- op.done -----|   and a new view, under the lock
 *
 * With an inline executor the caller is its thread, and waiting means pumping it.
 */
#include <pthread.h>

#include "client/lib/client_over.h"
#include "client/session.h"
#include "os/thread_exec.h"

enum ps_client_call_state {
    PS_CLIENT_CALL_FREE,
    PS_CLIENT_CALL_UNDER_WAY,
    PS_CLIENT_CALL_ENDED /* Until somebody has waited for it. */
};

/** One operation. Pooled; everything but `state` is the executor's while it is under way. */
struct ps_client_call {
    struct ps_mail mail;
    struct ps_client *client;
    void (*run)(struct ps_client_call *call);   /* On the executor: start it. */
    void (*ended)(struct ps_client_call *call); /* On the executor, at its end; NULL: nothing. */
    pthread_cond_t end;
    enum ps_client_call_state state; /* Under the lock. */
    struct ps_client_call *pull;     /* Of a push: the pull that travels with it, or NULL. */
    void **under_way;                /* In the caller's struct; NULL: a call that waits inside. */
    const char *name;                /* Of a table that is looked up; borrowed. */
    struct ps_table table;           /* Result; without a name: none. */
    union {                          /* Each begins with its struct ps_op. */
        struct ps_op op;
        struct ps_define_table_op define_table;
        struct ps_define_job_op define_job;
        struct ps_look_op look;
        struct ps_pull_op pull;
        struct ps_push_op push;
        struct ps_scan_op scan;
        struct ps_shutdown_op shutdown;
    } as;
};

/* What ps_client_next_unit goes by. */
struct ps_client_work {
    struct ps_lease lease; /* id 0: none yet. */
    uint32_t index;        /* Of the lease: the unit that comes next. */
    uint64_t clock;        /* Its step. */
    bool asks;             /* The program goes by ps_client_next_unit, */
    bool handed_out;       /*   which has given it a unit that is not done yet. */
    bool closing;          /* Aggregate: staged, or too late; the step is to be closed. */
    bool over;             /* Over parts: the program has said that no rows are left, */
    uint64_t rows;         /*   and which of its rows are done. */
    struct ps_client_loss {
        double sum;
        uint64_t rows;
    } * losses; /* [job.epochs] NULL before the first lease. */
};

/* Behind struct ps_worker_stats: its counts, and times in ns. */
struct ps_client_figures {
    struct ps_worker_stats counts;
    uint64_t first_lease_ns; /* 0: none yet. */
    uint64_t idle_since_ns;  /* 0: there is a unit to do. */
    uint64_t idle_ns;
    uint64_t bound_ns;
    uint64_t network_ns;
};

struct ps_client {
    struct ps_exec *exec;
    struct ps_inline_exec *inline_exec; /* NULL: `exec` is a thread. */
    struct ps_thread_exec *thread;      /* NULL: `exec` is the opener's. */
    struct ps_runtime *runtime;         /* NULL: the transport is the opener's. */
    bool reader;
    bool unleased;
    struct ps_mem mem;
    struct ps_session *session; /* The executor's; under the lock NULL once it is closed. */
    struct ps_mail report_mail;
    struct ps_mail cancel_mail;
    struct ps_mail close_mail;
    struct ps_op close_op;

    pthread_mutex_t lock; /* Over what follows. */
    pthread_cond_t news;
    struct ps_view view;
    struct ps_error fenced; /* With view.fenced: why. */
    struct ps_job_def job;  /* That was defined, without its texts; batch 0: none. */
    struct ps_client_work work;
    struct ps_client_figures figures;
    struct ps_worker_report report; /* The latest; on its way while `report_posted`. */
    bool report_posted;
    bool canceled; /* By ps_client_cancel. */
    bool closing;
    uint32_t n_inside; /* Threads that wait. */
    struct ps_client_call calls[PS_CLIENT_OPERATIONS_MAX];
};

/* ---- client.c -------------------------------------------------------------------------------- */

/** PS_OK, or PS_ERR_INVALID with the name of the first argument that is NULL. */
#define PS_CLIENT_CHECK(err, ...)                                                   \
    ps_client_check_pointers(err, #__VA_ARGS__, (const void *const[]){__VA_ARGS__}, \
                             sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))

/** `names` of the `n` pointers, with ", " between them. */
enum ps_status ps_client_check_pointers(struct ps_error *err, const char *names,
                                        const void *const *pointers, size_t n);

/* ---- client_unit.c, client_stats.c: under the lock ------------------------------------------- */

/** Over parts the program says which rows a unit has: can that be? */
enum ps_status ps_client_unit_check(const struct ps_client *client, const struct ps_unit *unit,
                                    struct ps_error *err);

/** The view is new: is there a snapshot to hold for? */
void ps_client_unit_view(struct ps_client *client);

/** A push came too late for its step. */
void ps_client_unit_late(struct ps_client *client, const struct ps_push_op *push);

/** The view is new. */
void ps_client_stats_view(struct ps_client *client);
/** Share out the time since `start_ns`: what the bound held, and what the network took. */
void ps_client_stats_wait(struct ps_client *client, uint64_t start_ns, uint64_t blocked_ns);
/** A push was acknowledged. */
void ps_client_stats_push(struct ps_client *client, const struct ps_push_op *push);
void ps_client_stats_get(const struct ps_client *client, struct ps_worker_stats *ret);

/* ---- client_wait.c: all under the lock, unless it says otherwise ----------------------------- */

/** Initialise lock, conditions and pool. Not under the lock, as its opposite. */
void ps_client_wait_init(struct ps_client *client);
void ps_client_wait_deinit(struct ps_client *client);

void ps_client_lock(struct ps_client *client);
void ps_client_unlock(struct ps_client *client);

/** A free entry of the pool. @return NULL: PS_ERR_BUSY or PS_ERR_CANCELED in err->status */
struct ps_client_call *ps_client_call_take(struct ps_client *client, struct ps_error *err);

/** Put one back that was not posted, or has ended. */
void ps_client_call_drop(struct ps_client_call *call);

/** Hand it over to the executor; it is under way. */
void ps_client_call_post(struct ps_client_call *call, void (*run)(struct ps_client_call *call));

/** Wait for its end; the call is the caller's until dropped. @return its status and words */
enum ps_status ps_client_call_wait(struct ps_client_call *call, struct ps_error *err);

/** Let time pass or the executor work until `cond` may have been signalled. */
void ps_client_await(struct ps_client *client, pthread_cond_t *cond, uint64_t until_ns);

/** Somebody waits inside a call: close waits for its leaving. */
void ps_client_enter(struct ps_client *client);
void ps_client_leave(struct ps_client *client);

/** On the executor, not under the lock: the view is new; `changed`: more than the figures. */
void ps_client_renew_view(struct ps_client *client, bool changed);

/* ---- runtime.c ------------------------------------------------------------------------------- */

struct ps_transport *ps_runtime_transport(struct ps_runtime *runtime);
void ps_runtime_ref(struct ps_runtime *runtime);
/** ps_runtime_destroy is one unref. */
void ps_runtime_unref(struct ps_runtime *runtime);

#endif
