#ifndef PS_TESTS_SIM_SIM_WATCH_H
#define PS_TESTS_SIM_SIM_WATCH_H
/*
 * sim/sim_watch.h — reads the replies on the wire, with a reader of its own.
 *
 * Promises: what one reply has said of a slot's (epoch, position), a pull that begins later is not
 * told less; what a server has said of the min clock, its later replies do not go below.
 */
#include "sim/sim_net.h"

#define SIM_WATCH_KEPT  32u /* Replies remembered per slot and per server. */
#define SIM_WATCH_SLOTS 64u

/** The highest value heard, and before it the highest heard at earlier times. */
struct sim_heights {
    struct {
        uint64_t at_ns;
        uint64_t epoch;
        uint64_t value;
    } kept[SIM_WATCH_KEPT]; /* Ascending in all three; the oldest are forgotten. */
    uint32_t n;
};

struct sim_watch {
    struct sim_world *world;
    struct sim_heights slots[SIM_WATCH_SLOTS];
    struct sim_heights clocks[SIM_NODES_MAX]; /* Per server. */
    uint64_t n_replies;
};

/** Begin to listen. */
void sim_watch_start(struct sim_watch *watch, struct sim_world *world, struct sim_net *net);

#endif
