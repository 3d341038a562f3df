#ifndef PS_TESTS_SIM_SIM_H
#define PS_TESTS_SIM_SIM_H
/*
 * sim/sim.h — a cluster in one thread: servers, workers, readers, their luck, and the verdict.
 *
 *   struct sim *sim = sim_create(&(struct sim_options){.seed = 7});
 *   sim_run(sim);
 *   const char *broken = sim_broken_promise(sim);
 *   sim_destroy(sim);
 *
 * A run has three parts: trouble, until the plan's time of healing; quiet, in which everything must
 * come to its end within a bounded virtual time; and the tearing down, after which nothing may be
 * left: no call, no stream, no mail, no byte of memory.
 */
#include "base/failpoint.h"
#include "sim/sim_disk.h"
#include "sim/sim_reader.h"
#include "sim/sim_server.h"
#include "sim/sim_watch.h"
#include "sim/sim_worker.h"

#define SIM_WORKERS_ALL 16u

struct sim_options {
    uint64_t seed;
    uint32_t attempt;    /* The same plan in another schedule: see sim_missed. */
    enum ps_plant plant; /* In builds with -Dplant=true. */
    bool verbose;        /* Print the trace as it happens. */
};

struct sim_trouble {
    struct sim_event begin;
    struct sim_event end;
    struct sim *sim;
    const struct sim_mishap *mishap;
    uint32_t worker;           /* Whom it strikes, */
    struct sim_worker *struck; /*   the process that it is then. */
    struct sim_node *node;     /* Of the server then. */
    uint64_t lease;            /* That the worker held. */
    uint64_t began_ns;
    bool armed; /* `begin` was started. */
};

struct sim {
    struct sim_options options;
    struct sim_plan plan;
    struct sim_world *world;
    struct sim_net *net;
    struct sim_ledger *ledger;
    struct sim_watch watch;
    struct sim_disk disks[SIM_SERVERS_MAX]; /* Or the first for all. */
    struct sim_server servers[SIM_SERVERS_MAX];
    struct sim_worker workers[SIM_WORKERS_ALL]; /* Processes. */
    uint32_t n_workers;
    uint32_t present[SIM_WORKERS_MAX]; /* Process that is the plan's worker now. */
    uint32_t n_restarting;             /* Workers that crashed and will be back. */
    struct sim_reader reader;          /* Looks on. */
    struct sim_reader last;
    struct sim_trouble troubles[SIM_MISHAPS_MAX];
    struct sim_event tick; /* Looks whether a mishap is due. */
    bool formed;           /* Every server has joined. */
    bool healed;
    /* What the run has met: a seed that met too little proves nothing. */
    uint64_t n_parked;
    uint64_t n_expired;
    uint64_t n_crashed; /* Servers. */
    bool lost;          /* It ended so, and might. */
    const char *missed;
#ifdef PS_PLANT
    struct ps_failpoint_hook hook;
#endif
    uint64_t end_ns;
};

/** A process for the plan's worker `index`. */
void sim_start_worker(struct sim *sim, uint32_t index, uint64_t start_ns);

struct sim *sim_create(const struct sim_options *options);
void sim_run(struct sim *sim);

/** What went wrong first; NULL: every promise held. */
const char *sim_broken_promise(const struct sim *sim);

/** What the run should have met and did not, so that it proves little; NULL: nothing. */
const char *sim_missed(const struct sim *sim);

/** Where everybody stands, to standard error. */
void sim_print(const struct sim *sim);

/** After a broken promise most of the cluster stays in memory: nobody knows what still points at
 * what. */
void sim_destroy(struct sim *sim);

#endif
