#ifndef PS_TESTS_SIM_SIM_NET_H
#define PS_TESTS_SIM_SIM_NET_H
/*
 * sim/sim_net.h — the network of a simulated cluster: port/transport.h with bad luck.
 *
 * Unary calls are delayed, lost in either direction, answered by a reset while the server still
 * works, and doubled: a copy may arrive seconds later and is served like any call, its answer goes
 * nowhere. Lent bytes are read when the message departs, which may be late, so that whoever
 * changes them before `done` sends garbage. Streams keep their order and break as a whole; the two
 * ends hear of it at different times and the messages behind the break are lost. Links can be cut
 * in one direction. Between two parts of one node nothing is lost.
 */
#include "port/transport.h"
#include "sim/sim_world.h"

struct sim_net;

/** The luck of the network; can be changed at any time. */
struct sim_faults {
    uint64_t delay_ns;       /* Usual one-way delay; a heavy tail comes on top. */
    uint32_t lost_pm;        /* Per mille of requests, and of replies, of unary calls. */
    uint64_t lost_call;      /* From this call on (0: never) one is lost in any case. */
    uint32_t doubled_pm;     /* Of requests. */
    uint64_t late_ns;        /* A copy arrives up to so much later. */
    uint32_t reset_pm;       /* Of calls: UNAVAIL to the caller, whatever the server does. */
    uint32_t held_pm;        /* Of messages: the bytes stay borrowed for up to 2 s. */
    uint64_t stream_life_ns; /* Mean life of a stream; 0: no stream breaks by itself. */
};

struct sim_net_counts {
    uint64_t n_calls;
    uint64_t n_lost;
    uint64_t n_doubled;
    uint64_t n_resets;
    uint64_t n_timeouts;
    uint64_t n_streams;
    uint64_t n_streams_broken;
};

struct sim_net *sim_net_create(struct sim_world *world);
/** Messages still under way are dropped. False: a call was not finished, a stream not released, a
 * channel or listener not closed; `world->broken` says which. */
bool sim_net_destroy(struct sim_net *net);

/** What the parts on `node` use. One transport per node, so that the network knows who speaks. */
struct ps_transport *sim_net_transport(struct sim_net *net, struct sim_node *node);

void sim_net_set_faults(struct sim_net *net, const struct sim_faults *faults);
/** From now on (not) let messages of `from` reach `to`. */
void sim_net_cut(struct sim_net *net, const struct sim_node *from, const struct sim_node *to,
                 bool cut);
/** Every stream between the two breaks, calls under way get a reset. */
void sim_net_reset(struct sim_net *net, const struct sim_node *a, const struct sim_node *b);
/**
 * The process dies: it does nothing any more, and its addresses are free. Peers hear of it soon
 * (its kernel lives) or late. May be called while it runs: what it still does reaches nobody.
 */
void sim_net_crash(struct sim_net *net, struct sim_node *node, bool soon);
/** For tearing down: let a crashed process run on, cut off from everything, so that it can free. */
void sim_net_bury(struct sim_net *net, struct sim_node *node);

/** When a stream between two steady nodes last broke; 0: never. */
uint64_t sim_net_steady_break_ns(const struct sim_net *net);

const struct sim_net_counts *sim_net_counts(const struct sim_net *net);

/** A reply that has reached its caller. */
struct sim_reply {
    const struct sim_node *caller;
    const struct sim_node *server;
    const char *method;
    uint64_t began_ns; /* When the request was started; of a stream's message: when it came. */
    const struct ps_msg *msg;
};

/** Called with every reply just before `done`, and with every message of a stream from the server.
 * NULL: nobody listens. */
void sim_net_tap(struct sim_net *net, void (*tap)(void *arg, const struct sim_reply *reply),
                 void *arg);

#endif
