#ifndef PS_TESTS_SIM_SIM_WATCH_H
#define PS_TESTS_SIM_SIM_WATCH_H
/*
 * sim/sim_watch.h — reads the replies on the wire, with a reader of its own.
 *
 * Promises: what one reply has said of a slot's epoch and of its position, a pull that begins later
 * is not told less of either; what a server's process has said of the min clock, its later replies
 * do not go below. All that within one generation: it also hears when cuts are ordered and when the
 * job goes back to one, and whose session belongs to which generation.
 */
#include "sim/sim_ledger.h"
#include "sim/sim_net.h"
#include "sim/sim_server.h"

#define SIM_WATCH_KEPT  32u /* Replies remembered per slot and per server. */
#define SIM_WATCH_SLOTS 64u
#define SIM_WATCH_CUTS  256u /* The latest that are remembered. */

/** The highest value heard, and before it the highest heard at earlier times. */
struct sim_heights {
    struct {
        uint64_t at_ns;
        uint64_t epoch;
        uint64_t value;
    } kept[SIM_WATCH_KEPT]; /* Ascending in all three; the oldest are forgotten. */
    uint32_t n;
};

/** When the first server heard of a cut. */
struct sim_cut_heard {
    uint64_t generation;
    uint64_t cut;
    uint64_t at_ns;
};

struct sim_watch {
    struct sim_world *world;
    struct sim_ledger *ledger;
    uint64_t generation;               /* The highest heard of. */
    uint64_t joined_as[SIM_NODES_MAX]; /* Generation in which that node's latest session joined. */
    struct sim_cut_heard cuts[SIM_WATCH_CUTS];
    uint64_t n_cuts;
    struct sim_heights slots[SIM_WATCH_SLOTS];
    struct sim_heights clocks[SIM_NODES_MAX]; /* Per server. */
    uint64_t n_replies;
    const struct sim_server *coordinates; /* The coordinator's process. */
    uint64_t kept;                        /* Cut that servers of the generation know as kept. */
    uint32_t n_anew;                      /* The cluster began anew, with nothing. */
};

/** Begin to listen. `coordinates` is set after that. */
void sim_watch_start(struct sim_watch *watch, struct sim_world *world, struct sim_net *net,
                     struct sim_ledger *ledger);

/** The node's session is of a generation that is over: what it does and hears is void. */
bool sim_watch_void(const struct sim_watch *watch, const struct sim_node *node);

#endif
