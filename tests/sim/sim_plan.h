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
#define SIM_MISHAPS_MAX 24u
#define SIM_MISHAPS_OLD 8u   /* Of plans in which nobody comes back. */
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
    SIM_SERVER_DIES,   /* Pauses for longer than the cluster waits: the expected end is LOST. */
    /* Below: only where what was acknowledged survives. */
    SIM_SERVER_CRASHES,
    SIM_SERVER_AT_FAILPOINT, /* Crashes there, the `nth` time. */
    SIM_SERVER_IN_DISK,      /* Crashes in the middle of its `nth` operation of the disk. */
    SIM_WORKER_RESTARTS,     /* Crashes, and a new process takes its place. */
    SIM_DISK_FULL,
    SIM_DISK_FAILS, /* One write or sync, or some. */
    SIM_DISK_ROTS,  /* Or a sector goes astray. The machine loses its power, so that it is seen. */
    SIM_SERVER_CLOGGED, /* No message reaches it or leaves it. */
    SIM_MISHAP_COUNT
};

/** Happens `after_ns` after so many units have been acknowledged. */
struct sim_mishap {
    enum sim_mishap_kind kind;
    uint32_t after_units;
    uint64_t after_ns;
    uint64_t lasts_ns;
    uint32_t worker;
    uint32_t server;
    bool back;  /* LINK_CUT: from the server to the worker. RESET, CRASHES: peers hear at once. */
    bool power; /* The machine loses its power, else only the process ends. */
    uint8_t failpoint; /* sim_failpoints. */
    uint32_t nth;
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
    /* What outlives a process. */
    bool durable;        /* Servers die and come back. */
    bool damage;         /* Bytes that were acknowledged may be lost: the job may be lost too. */
    uint32_t durability; /* enum ps_durability */
    bool snapshots;
    bool shared_snapshots; /* One disk for all servers; else each has its own. */
    bool moves;            /* Who comes back has another address. */
    uint32_t snapshot_every_ms;
    uint32_t snapshot_keep;
    uint32_t wait_ms;
    uint64_t log_bytes;
    uint64_t log_segment_bytes;
    uint64_t log_lag_ns;
    struct sim_faults faults;
    struct sim_mishap mishaps[SIM_MISHAPS_MAX];
    uint32_t n_mishaps;
    uint64_t heal_ns; /* All trouble ends so long after the first acknowledgement. */
};

/** Where a server may die; NULL at the end. */
extern const char *const sim_failpoints[];

void sim_plan_draw(struct sim_plan *plan, uint64_t seed);
/** Makes a plan one in which servers die and come back: two of three. In sim_plan_durable.c. */
void sim_plan_draw_durable(struct sim_plan *plan);

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
