#ifndef PS_TESTS_SIM_SIM_SERVER_H
#define PS_TESTS_SIM_SIM_SERVER_H
/*
 * sim/sim_server.h — a server of the simulated cluster through all its lives.
 *
 *   start -> life -> crash (its node does nothing any more) -> start -> life ... -> stop
 *
 * A life is one process: a node, executors, memory, a ps_server. What outlives it is the disk. The
 * dead stay where they are until the run is over; then they are buried: let run on, cut off from
 * everything, until they have stopped in order and given back what they hold, so that leaks show.
 * A process that ends because its disk failed is started again, as a supervisor would.
 */
#include "server.h"
#include "sim/sim_disk.h"
#include "sim/sim_exec.h"
#include "sim/sim_net.h"
#include "sim/sim_plan.h"

#define SIM_LIVES_MAX   24u
#define SIM_COORDINATOR "coordinator:7070"

struct sim_server_options {
    struct sim_world *world;
    struct sim_net *net;
    const struct sim_plan *plan;
    struct sim_disk *disk; /* Shared or its own. */
    uint32_t index;
    enum ps_plant plant;
};

struct sim_life {
    struct sim_server *server;
    struct sim_node *node;
    struct sim_exec main;
    struct sim_exec lanes[3];
    struct sim_exec log;
    struct sim_exec snap;
    struct ps_mem mem;
    struct ps_metrics metrics;
    struct ps_server *ps; /* NULL: it did not start. */
    struct ps_mail stop;
    bool stopped;
};

struct sim_server {
    struct sim_server_options options;
    struct sim_life *lives[SIM_LIVES_MAX];
    uint32_t n_lives;
    struct sim_life *life; /* That runs; NULL: none. */
    struct sim_event start;
    struct sim_event check; /* Has its process ended by itself? */
    const char *failpoint;  /* It dies there, */
    uint32_t failpoint_at;  /*   after so many times more. */
    uint64_t down_ns;       /* After a death at a failpoint or in a disk operation. */
    bool power;             /* Such a death takes the machine with it. */
    bool refuses;           /* Its data are damaged, it says: it does not start. */
    uint32_t n_crashes;
    uint32_t n_failed; /* Ends by a disk that failed. */
};

void sim_server_init(struct sim_server *server, const struct sim_server_options *options);
void sim_server_start(struct sim_server *server);
/** The process dies, or with `power` the whole machine; it starts again after `down_ns`
 * (UINT64_MAX: never). */
void sim_server_crash(struct sim_server *server, bool power, bool soon, uint64_t down_ns);
/** The process is at a place of that name: it may be its last. */
void sim_server_failpoint(struct sim_server *server, const char *name);
/** The trouble is over: whoever is down starts now. */
void sim_server_heal(struct sim_server *server);

/** Nothing runs, and nobody will start it again. */
bool sim_server_gone(const struct sim_server *server);
/** The node of its latest life. */
struct sim_node *sim_server_node(const struct sim_server *server);
/** False: nothing runs. */
bool sim_server_view(const struct sim_server *server, struct ps_server_view *ret);
uint64_t sim_server_metric(const struct sim_server *server, enum ps_metric metric);

/** Every life, the dead ones too, begins to stop; `sim_server_stopped` tells when. */
void sim_server_stop(struct sim_server *server);
bool sim_server_stopped(const struct sim_server *server);
/** After that: nothing may be left. */
void sim_server_finish(struct sim_server *server);

#endif
