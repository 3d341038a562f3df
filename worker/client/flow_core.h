#ifndef PS_WORKER_CLIENT_FLOW_CORE_H
#define PS_WORKER_CLIENT_FLOW_CORE_H
/*
 * client/flow_core.h — one push or one pull of many tables: which piece goes to which server in
 * which call, what is finished, what is sent again and when.
 *
 * The unit is a fragment of a slot: blocks as cut by cluster/layout, and runs of rows as cut by
 * flow_rows. Pure: time and waits come in as arguments; the memory is the caller's.
 *
 *               take, take_same              status OK, LATE
 *   WAITING -------------------------> SENT -----------------> FINISHED
 *      ^                                |
 *      +--------------------------------+   anything that may succeed later; not before ready_ms
 *
 * Pulls: one call per server goes ahead alone and waits at the gate (state ASKING); the others
 * follow when it has been answered with values (OPEN). So at most one pull is parked.
 */
#include <stdbool.h>
#include <stdint.h>

#include <ps/status.h>

#include "base/limits.h"
#include "client/flow_rows.h"
#include "cluster/layout.h"
#include "wire/data_msg.h"

#define PS_SERVER_NONE UINT32_MAX /* Nobody is known to own the slot. */

/** Where slots live, and the highest acknowledgement held for each. */
struct ps_route {
    uint32_t server[PS_SLOTS];
    uint64_t epoch[PS_SLOTS];
    uint64_t seen_epoch[PS_SLOTS];
    uint64_t seen_position[PS_SLOTS];
};

enum ps_flow_kind {
    PS_FLOW_PUSH,
    PS_FLOW_PULL
};

enum ps_flow_state {
    PS_FLOW_WAITING,
    PS_FLOW_SENT,
    PS_FLOW_FINISHED
};

/** One fragment of one slot. */
struct ps_flow_unit {
    uint64_t ready_ms;  /* WAITING: not before. */
    uint32_t n_bytes;   /* Of the chosen tables' values, and of the keys that go with a push. */
    uint32_t first_run; /* Of its runs in flow.rows. */
    uint16_t n_runs;
    uint16_t n_parts; /* Blocks and runs: 1 to PS_CALL_PARTS_MAX. */
    uint8_t slot;
    uint8_t fragment;
    uint8_t n_fragments;
    uint8_t state;     /* enum ps_flow_state */
    uint8_t waits_for; /* enum ps_status: NOT_PRIMARY, NOT_YET: news end the wait; else OK. */
};

enum ps_flow_gate {
    PS_FLOW_SHUT,
    PS_FLOW_ASKING,
    PS_FLOW_OPEN
};

struct ps_flow {
    enum ps_flow_kind kind;
    struct ps_layout_view view;
    bool chosen[PS_TABLES_MAX]; /* Dense tables that take part. */
    struct ps_flow_rows *rows;  /* Of sparse tables; NULL: none. The caller's. */
    struct ps_flow_unit *units; /* The caller's. */
    uint32_t n_units;
    uint32_t n_sent;
    uint32_t n_finished;
    bool late;                       /* Some slot has closed the step. */
    enum ps_status failed;           /* Not OK: nothing is sent any more. */
    uint8_t gates[PS_SERVERS_MAX];   /* enum ps_flow_gate; pulls only. */
    uint64_t ask_ms[PS_SERVERS_MAX]; /* SHUT: not asked again before. */
};

/** The units that travel in one call; at most one of each slot. */
struct ps_flow_call {
    uint32_t server;
    uint32_t n_units; /* 0: the call carries nothing of this flow. */
    uint64_t n_bytes;
    bool asks; /* It is the one that waits at the gate. */
    uint16_t units[PS_CALL_SLOTS_MAX];
};

/** One part of a unit: a block, or a run of rows. */
struct ps_flow_part {
    uint32_t table;
    uint32_t block;
    uint32_t n_floats;
    const struct ps_flow_run *run; /* NULL: a block. */
};

/** What a push or pull needs room for. */
struct ps_flow_size {
    uint32_t n_units;
    uint32_t n_runs;
};

/**
 * For all blocks of `view`, of which the tables `chosen` [view.n_tables] are sent, and for `rows`,
 * which are placed or NULL.
 */
struct ps_flow_size ps_flow_size(struct ps_layout_view view, const bool *chosen,
                                 const struct ps_flow_rows *rows);

/**
 * Start. There is room for ps_flow_size in `units` and rows->runs, which it fills but for the keys'
 * bytes: see ps_flow_weigh. `view.tables`, `rows` and `units` stay until the flow is over.
 *
 * @return false when a slot has more than PS_FRAGMENTS_MAX fragments
 */
bool ps_flow_begin(struct ps_flow *flow, enum ps_flow_kind kind, struct ps_layout_view view,
                   const bool *chosen, struct ps_flow_rows *rows, struct ps_flow_unit *units);

/** Pushes: the runs now say how many bytes their keys take. Before anything is sent. */
void ps_flow_weigh(struct ps_flow *flow);

/** Pulls: no gate will make this one wait. */
void ps_flow_open(struct ps_flow *flow);

/** Write the parts of a unit that take part, at most PS_CALL_PARTS_MAX; how many. */
uint32_t ps_flow_parts(const struct ps_flow *flow, const struct ps_flow_unit *unit,
                       struct ps_flow_part *parts);

/** True when the next call to `server` would be the one that waits at the gate. */
bool ps_flow_asks(const struct ps_flow *flow, uint32_t server);

/** Fill a call to `server` with units that are ready; they become SENT. How many. */
uint32_t ps_flow_take(struct ps_flow *flow, const struct ps_route *route, uint32_t server,
                      uint64_t now_ms, struct ps_flow_call *ret);

/** PushPull: fill `ret` with those WAITING units of `flow` that lie where `other`'s call goes. */
uint32_t ps_flow_take_same(struct ps_flow *flow, const struct ps_flow *other,
                           const struct ps_flow_call *call, struct ps_flow_call *ret);

/** Describe a call's units for the wire. */
void ps_flow_fill(const struct ps_flow *flow, const struct ps_route *route,
                  const struct ps_flow_call *call, struct ps_share *ret);

/** The unit of `slot` in a call; NULL when it carries none. */
struct ps_flow_unit *ps_flow_find(const struct ps_flow *flow, const struct ps_flow_call *call,
                                  uint32_t slot);

/** Is a slot with this answer asked again? LOST: what follows, the coordinator decides. */
bool ps_flow_waits(enum ps_status status);

/** A slot answered `status`; what is to be repeated waits until `ready_ms`. */
void ps_flow_answer(struct ps_flow *flow, struct ps_flow_unit *unit, enum ps_status status,
                    uint64_t ready_ms);

/** The call is over. Units that got no answer are sent again from `ready_ms` on. */
void ps_flow_end_call(struct ps_flow *flow, const struct ps_flow_call *call, uint64_t ready_ms);

/** `slot` has a new home: units that met the wrong server go there at once. */
void ps_flow_placed(struct ps_flow *flow, uint32_t slot);

/** The min clock now allows it: units that were NOT_YET go at once. */
void ps_flow_allowed(struct ps_flow *flow);

/** Give up: the first reason stays. */
void ps_flow_fail(struct ps_flow *flow, enum ps_status status);

/** Nothing is under way and nothing will be sent any more. */
bool ps_flow_ended(const struct ps_flow *flow);

/** Of an ended flow: PS_OK, why it failed, or PS_ERR_LATE. */
enum ps_status ps_flow_outcome(const struct ps_flow *flow);

/** When the next unit after `now_ms` becomes ready; UINT64_MAX when none does. Units that are ready
 * and still wait, wait for an event, not for time. */
uint64_t ps_flow_next_ms(const struct ps_flow *flow, uint64_t now_ms);

#endif
