#ifndef PS_TESTS_SIM_SIM_WORLD_H
#define PS_TESTS_SIM_SIM_WORLD_H
/*
 * sim/sim_world.h — virtual time: a queue of events, the chance that orders them, and the nodes
 * (processes) on which they happen.
 *
 * One thread plays everything. The next event is the one with the least (time, tie, order), where
 * the tie is drawn from the seed, so one seed is one schedule, bit for bit: `trace_hash` proves it.
 * A paused node's events wait until it goes on; a crashed node is one that is paused for ever and
 * that the network no longer knows. A node is one start of one process: who comes back is another.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/list.h"
#include "base/rng.h"
#include "port/exec.h"

#define SIM_US          UINT64_C(1000)
#define SIM_MS          UINT64_C(1000000)
#define SIM_S           UINT64_C(1000000000)
#define SIM_NODES_MAX   64u  /* A process that starts again is another one. */
#define SIM_TRACE_LINES 256u /* Kept for the report of a failure. */

struct sim_world;

/** One process. */
struct sim_node {
    struct sim_world *world;
    uint32_t number;          /* In the world. */
    char name[24];            /* "server-0", "worker-3". */
    uint64_t clock_offset_ns; /* Its monotonic clock started long before the world. */
    bool paused;              /* SIGSTOP: its events wait. */
    bool steady;              /* A server: the network does not keep it from returning in time. */
    bool crashed;             /* Paused for ever; the network does not deliver to or from it. */
    struct ps_list waiting;   /* Events that came due while paused, in order. */
};

/** Something that will happen; embedded in its owner. */
struct sim_event {
    void (*run)(struct sim_event *event);
    struct sim_node *node; /* Where; NULL: nowhere in particular. */
    uint64_t at_ns;
    uint64_t tie;
    uint64_t order;
    size_t place;              /* 1 + index in the heap; 0: not in it. */
    struct ps_list node_entry; /* In node->waiting. */
};

/** One line of the trace; formatted only when somebody reads it. */
struct sim_line {
    uint64_t at_ns;
    const struct sim_node *node; /* NULL: the world. */
    const char *what;            /* Static. */
    const char *detail;          /* Static; may be NULL. */
    uint64_t a;
    uint64_t b;
};

struct sim_world {
    uint64_t now_ns;
    uint64_t seed;
    struct ps_rng rng;
    struct sim_event **heap;
    size_t n_heap;
    size_t n_room;
    uint64_t n_events; /* Run so far; also the next order. */
    uint64_t n_scheduled;
    uint64_t trace_hash;
    struct sim_node *at;     /* Where the present event happens; NULL: nowhere in particular. */
    struct ps_exec *running; /* Whose mail or timer runs now; NULL: none. */
    bool in_transport;       /* A callback of the network runs now. */
    bool verbose;            /* PS_SIM_TRACE: every line at once. */
    struct sim_node *nodes[SIM_NODES_MAX];
    uint32_t n_nodes;
    uint64_t n_lines;
    struct sim_line lines[SIM_TRACE_LINES]; /* Ring. */
    char broken[512];                       /* The first broken promise; empty: none. */
};

struct sim_world *sim_world_create(uint64_t seed);
/** Every event must have been cancelled or run; nodes go with it. */
void sim_world_destroy(struct sim_world *world);

struct sim_node *sim_node_create(struct sim_world *world, const char *name);
void sim_node_pause(struct sim_node *node);
void sim_node_resume(struct sim_node *node);

void sim_event_init(struct sim_event *event, struct sim_node *node,
                    void (*run)(struct sim_event *event));
/** Let it happen after `after_ns`; a pending one is moved. */
void sim_event_start(struct sim_world *world, struct sim_event *event, uint64_t after_ns);
void sim_event_stop(struct sim_world *world, struct sim_event *event);
bool sim_event_pending(const struct sim_event *event);

/** Run the next event. False when there is none. */
bool sim_world_step(struct sim_world *world);
/** Run until `at_ns`, or until a promise is broken. */
void sim_world_run_until(struct sim_world *world, uint64_t at_ns);

/** Uniform in [0, n); n > 0. */
uint64_t sim_below(struct sim_world *world, uint64_t n);
/** True in `per_mille` of 1000 cases. */
bool sim_chance(struct sim_world *world, uint32_t per_mille);
/** Mostly below `usual`, halving in likelihood with each doubling, up to 512 times as much. */
uint64_t sim_heavy_tail(struct sim_world *world, uint64_t usual);

/** Remember a line; part of the trace hash. `what` and `detail` static. */
void sim_trace(struct sim_world *world, const struct sim_node *node, const char *what,
               const char *detail, uint64_t a, uint64_t b);
/** The kept lines, oldest first, to standard error. */
void sim_trace_dump(const struct sim_world *world);

/** A promise does not hold: the first one is remembered, the run ends. */
void sim_break(struct sim_world *world, const char *fmt, ...) PS_PRINTF(2, 3);

#endif
