#ifndef PS_TESTS_SIM_SIM_WORKER_H
#define PS_TESTS_SIM_SIM_WORKER_H
/*
 * sim/sim_worker.h — a worker of the simulated cluster: the loop of train/loop.c as a state machine
 * over the asynchronous client, with a timer where the real one computes.
 *
 *   join -> define tables, job -> [ wait for a lease -> pull -> think -> push -> report ]* -> close
 *
 * Whoever is fenced closes its client and, after a while, joins again as a new session (or stays
 * away, if others are left). What it pulls and pushes goes through the ledger.
 */
#include "client/session.h"
#include "sim/sim_exec.h"
#include "sim/sim_ledger.h"
#include "sim/sim_net.h"
#include "sim/sim_plan.h"
#include "sim/sim_watch.h"

struct sim_worker_options {
    struct sim_net *net;
    struct sim_ledger *ledger;
    const struct sim_watch *watch;
    const struct sim_plan *plan;
    const char *coordinator;
    uint32_t index;
    uint64_t start_ns;
    /** May a fenced worker stay away? */
    bool (*may_leave)(void *arg, uint32_t index);
    void *arg;
};

struct sim_worker {
    struct sim_worker_options options;
    struct sim_world *world;
    struct sim_node *node;
    struct sim_exec exec;
    struct ps_mem mem;
    struct ps_session *client; /* NULL: between two lives. */
    struct ps_view view;
    struct ps_op simple; /* Join. */
    struct ps_op close;
    struct ps_table_def defs[SIM_TABLES_MAX];
    struct ps_define_table_op define[SIM_TABLES_MAX];
    struct ps_define_job_op define_job;
    struct ps_job_def job;
    uint32_t n_defined;
    struct ps_pull_op pull;
    struct ps_push_op push;
    struct ps_tensor pull_tensors[SIM_TABLES_MAX];
    struct ps_tensor push_tensors[SIM_TABLES_MAX];
    struct ps_keyed pull_keyed;
    struct ps_keyed push_keyed;
    uint64_t push_keys[2 * SIM_ROWS_EACH];
    float push_rows[2 * SIM_ROWS_EACH * SIM_ROW_FLOATS];
    float *weights;
    float *grads;
    struct sim_look look;
    struct ps_timer timer; /* Start, thinking, rejoining. */
    struct ps_mail stop;   /* sim_worker_stop. */
    struct ps_lease lease; /* id 0: none yet. */
    struct ps_worker_report report;
    uint32_t unit;
    uint32_t n_units; /* Of the lease; over parts nobody has told. */
    bool over;        /* Over parts: the end was found. */
    uint64_t clock;
    uint64_t weights_step; /* 1 + step that `weights` are for; 0: none. */
    uint64_t last_clock;   /* Min clock of the last pull: never falls. */
    bool ready;            /* Joined, everything defined. */
    bool pulling;
    bool pushing;
    bool thinking;
    bool thought;
    bool staged; /* Aggregated: said so, waits for the end of the step. */
    bool again;  /* The push under way repeats one that was acknowledged. */
    bool closing;
    bool stopping;      /* The run is over: no new life. */
    bool gone;          /* Closed for good. */
    enum ps_status end; /* Why the last life ended: OK: the job was done. */
    uint32_t n_lives;   /* Sessions begun. */
    uint32_t n_fenced;
};

void sim_worker_start(struct sim_worker *worker, const struct sim_worker_options *options,
                      struct sim_node *node);
/** Close the client whatever it is doing; `gone` tells when. Not on its executor. */
void sim_worker_stop(struct sim_worker *worker);
/** After `gone`. False: memory or mail was left, and the world's broken promise says so. */
bool sim_worker_finish(struct sim_worker *worker);

extern const char *const sim_table_names[SIM_TABLES_MAX];

/** A random id. */
struct ps_id sim_id(struct sim_world *world);
/** True when no class of the budget holds a byte. */
bool sim_mem_empty(const struct ps_mem *mem, const char *name, struct sim_world *world);

#endif
