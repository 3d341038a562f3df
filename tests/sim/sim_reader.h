#ifndef PS_TESTS_SIM_SIM_READER_H
#define PS_TESTS_SIM_SIM_READER_H
/*
 * sim/sim_reader.h — a session without a clock that looks at everything now and then.
 *
 * One kind looks on during the run and may die of the network's luck like anybody; the other comes
 * when all is quiet, looks once and leaves: its `values` are the end of the story.
 */
#include "sim/sim_server.h"
#include "sim/sim_worker.h"

struct sim_reader_options {
    struct sim_net *net;
    struct sim_ledger *ledger;
    const struct sim_watch *watch;
    const struct sim_plan *plan;
    const char *coordinator;
    const struct sim_server *coordinates; /* Its process. */
    uint64_t start_ns;
    bool last; /* Looks once. */
};

#define SIM_SCAN_ROOM 40u

struct sim_reader {
    struct sim_reader_options options;
    struct sim_world *world;
    struct sim_node *node;
    struct sim_exec exec;
    struct ps_mem mem;
    struct ps_session *client;
    struct ps_op simple; /* Join, describe. */
    struct ps_op close;
    struct ps_pull_op pull;
    struct ps_tensor tensors[SIM_TABLES_MAX];
    struct ps_keyed keyed;
    struct ps_scan_op scan; /* Now and then rows come by it, SIM_SCAN_ROOM at a time. */
    uint64_t scan_keys[SIM_SCAN_ROOM];
    float scan_values[SIM_SCAN_ROOM][SIM_ROW_FLOATS];
    bool scanning;
    uint32_t n_looks;
    float *values;
    struct sim_look look;
    struct ps_timer timer;
    struct ps_mail stop;
    bool closing;
    bool gone;
    bool lost;   /* The cluster is, where it may be. */
    bool looked; /* `values` are whole. */
};

void sim_reader_start(struct sim_reader *reader, const struct sim_reader_options *options,
                      struct sim_node *node);
void sim_reader_stop(struct sim_reader *reader);
bool sim_reader_finish(struct sim_reader *reader);

#endif
