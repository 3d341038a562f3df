#ifndef PS_TESTS_SIM_SIM_PLAN_H
#define PS_TESTS_SIM_SIM_PLAN_H
/*
 * sim/sim_plan.h — what a seed means: shape of the cluster, job, luck of the network, mishaps.
 *
 * Everything is drawn before the run, each kind of trouble on its own (swarm testing), so some
 * seeds are calm but for one death and others are wild. Every plan loses some messages and lets a
 * session expire; every bounded plan has a worker slow enough that pulls must wait.
 */
#include <stdbool.h>
#include <stdint.h>

#include "client/session.h"
#include "sim/sim_net.h"

#define SIM_SERVERS_MAX 3u
#define SIM_WORKERS_MAX 5u
#define SIM_TABLES_MAX  16u
#define SIM_MISHAPS_MAX 8u
#define SIM_UNITS_MAX   256u /* Of the whole job, all epochs. */
#define SIM_PARTS_MAX   128u

enum sim_mishap_kind {
    SIM_WORKER_CRASHES,
    SIM_WORKER_PAUSES,
    SIM_SERVER_PAUSES,
    SIM_LINK_CUT, /* Worker and server, one direction. */
    SIM_LINK_CUT_BOTH,
    SIM_LINK_RESET,    /* Worker and server. */
    SIM_SERVERS_RESET, /* The streams of a server to the coordinator. */
    SIM_SERVER_DIES    /* Pauses for longer than the cluster waits: the expected end is LOST. */
};

/** Happens `after_ns` after so many units have been acknowledged. */
struct sim_mishap {
    enum sim_mishap_kind kind;
    uint32_t after_units;
    uint64_t after_ns;
    uint64_t lasts_ns;
    uint32_t worker;
    uint32_t server;
    bool back; /* LINK_CUT: from the server to the worker. RESET, CRASHES: peers hear at once. */
};

/** How a worker asks for weights; as train/loop.c may. */
enum sim_style {
    SIM_PLAIN,     /* Pull, compute, push. */
    SIM_PREFETCH,  /* Pull for the next step while computing. */
    SIM_PUSH_PULL, /* Both in one. */
    SIM_STYLE_COUNT
};

struct sim_plan {
    uint64_t seed;
    uint32_t n_servers;
    uint32_t n_lanes;
    uint32_t n_workers;
    struct ps_consistency consistency;
    uint64_t rows;
    uint32_t batch;
    uint32_t epochs;
    uint32_t units_per_lease; /* Over parts: none has more. */
    uint32_t parts;           /* 0: rows are numbered. Else `rows` are those of all parts. */
    uint32_t part_rows[SIM_PARTS_MAX]; /* Known to whoever reads them, and to nobody else. */
    bool shuffle;                      /* The parts. */
    uint32_t n_tables;
    uint64_t table_floats[SIM_TABLES_MAX];
    bool sparse; /* One more table, of rows. */
    uint32_t grace_ms;
    uint32_t silence_ms;
    uint32_t start_timeout_ms;
    uint32_t think_ms[SIM_WORKERS_MAX]; /* Usual; a heavy tail comes on top. */
    enum sim_style styles[SIM_WORKERS_MAX];
    bool reader;     /* Somebody looks on while they train. */
    bool store_file; /* The coordinator's store is a file. */
    bool lost;       /* A server dies: the cluster must end as lost, everywhere. */
    struct sim_faults faults;
    struct sim_mishap mishaps[SIM_MISHAPS_MAX];
    uint32_t n_mishaps;
    uint64_t heal_ns; /* All trouble ends so long after the first acknowledgement. */
};

void sim_plan_draw(struct sim_plan *plan, uint64_t seed);

/** With the sparse one, which is the last. */
static inline uint32_t sim_plan_tables(const struct sim_plan *plan)
{
    return plan->n_tables + (plan->sparse ? 1 : 0);
}

/** Numbers for the units of the whole job, by the cut that the protocol describes. */
uint32_t sim_plan_units(const struct sim_plan *plan);

/** Units that there are: over parts not every number has one. */
uint32_t sim_plan_real_units(const struct sim_plan *plan);

/** Units of a lease, as its holder finds them. */
uint32_t sim_plan_lease_units(const struct sim_plan *plan, const struct ps_lease *lease);

/** Number in the job of a lease's unit; and which rows it holds, possibly none. */
uint32_t sim_plan_unit(const struct sim_plan *plan, const struct ps_lease *lease, uint32_t unit,
                       uint64_t *ret_first, uint32_t *ret_rows);

/** One line for people. */
void sim_plan_print(const struct sim_plan *plan);

#endif
