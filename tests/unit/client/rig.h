#ifndef PS_TESTS_UNIT_CLIENT_RIG_H
#define PS_TESTS_UNIT_CLIENT_RIG_H
/*
 * client/rig.h — one client at a fake cluster with two tables, and operations that count their end.
 */
#include "client/session.h"
#include "fake_cluster.h"

#define RIG_SMALL_N 10000u   /* Elements of table 0: 3 blocks. */
#define RIG_BIG_N   3000000u /* Of table 1: over 64 blocks, several calls per server. */

struct rig {
    struct fake_cluster *cluster;
    struct ps_session *client;
    struct ps_mem mem;
    uint32_t n_changed;
    uint32_t give_up_ms;  /* Set before init; 0: the client's preset. */
    uint32_t patience_ms; /* Likewise, of the coordinator. */
    bool plant_new_sequence;
    float *gradients[2];
    float *weights[2];
    struct ps_tensor push_tensors[2];
    struct ps_tensor pull_tensors[2];
};

/** Not joined yet. Keeps rig->give_up_ms. */
void rig_init(struct rig *rig, uint32_t n_servers, enum ps_client_kind kind);
/** Joined, with tables "small" and "big" defined. */
void rig_start(struct rig *rig, uint32_t n_servers);
/** Close the client if need be, and check that nothing leaked. */
void rig_stop(struct rig *rig);

/** An operation whose `done` counts in *arg. */
struct ps_op rig_op(uint32_t *count);
struct ps_push_op rig_push(struct rig *rig, uint32_t *count, uint64_t sequence);
struct ps_pull_op rig_pull(struct rig *rig, uint32_t *count, uint64_t step);

/** Let time pass until *count is 1, at most `ms`. How many milliseconds it took. */
uint32_t rig_wait(struct rig *rig, const uint32_t *count, uint32_t ms);

/** Start and wait for the end; its status. */
enum ps_status rig_push_wait(struct rig *rig, struct ps_push_op *push, uint32_t *count,
                             uint32_t ms);
enum ps_status rig_pull_wait(struct rig *rig, struct ps_pull_op *pull, uint32_t *count,
                             uint32_t ms);

/** Hooks for the cluster: keep every call; answer the first push of slot 7 with `refusal`. */
enum fake_fate fate_hold(struct fake_cluster *cluster, uint32_t server);
enum ps_status judge_slot_7_once(struct fake_cluster *cluster, uint32_t server, uint32_t slot,
                                 bool push);

struct ps_view rig_view(const struct rig *rig);

/** Every element of the servers' weights is -`times` times the gradient: no more, no less. */
void rig_check_applied(const struct rig *rig, float times);

#endif
