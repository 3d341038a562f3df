#ifndef PS_SERVER_GATE_GATE_CORE_H
#define PS_SERVER_GATE_GATE_CORE_H
/*
 * gate/gate_core.h — may this pull be answered yet? (bsp, ssp and asp)
 *
 *   the pull for step c is answered when   min clock >= max(0, c - s)
 *
 * s is the staleness bound: 0 for bsp, unbounded for asp. The view of min clock only grows; a view
 * that lags makes the gate stricter, never weaker. Pulls that must wait are parked in order of
 * arrival, at most one per session: a second one means that the first will reach nobody.
 * Pure: no clock, no I/O, no allocation. One owner: its lane.
 *
 * Source: Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
 * Server", NIPS 2013.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

enum ps_gate_mode {
    PS_GATE_CLOSED, /* No consistency known yet: only readers pass. */
    PS_GATE_BOUNDED,
    PS_GATE_UNBOUNDED
};

struct ps_gate_parked {
    void *token; /* The owner's name for the pull. */
    uint64_t session;
    uint64_t step;
};

struct ps_gate {
    enum ps_gate_mode mode;
    uint32_t bound;  /* s, in clocks. */
    bool off_by_one; /* Planted bug, test builds only. */
    uint64_t min_clock;
    uint32_t n_parked;
    struct ps_gate_parked parked[PS_PARKED_PULLS_MAX]; /* In order of arrival. */
};

void ps_gate_init(struct ps_gate *gate);

void ps_gate_set_consistency(struct ps_gate *gate, enum ps_gate_mode mode, uint32_t bound);

/** Raise the view of min clock; a lower one changes nothing. */
void ps_gate_set_min_clock(struct ps_gate *gate, uint64_t min_clock);

/** May a pull for `step` be answered at this moment? */
bool ps_gate_open(const struct ps_gate *gate, uint64_t step);

/**
 * Park a pull. False when there is no room: answer BUSY.
 * @param ret_replaced  token of an older pull of the same session, taken out; NULL: none
 */
bool ps_gate_park(struct ps_gate *gate, const struct ps_gate_parked *pull, void **ret_replaced);

/** Take out the first parked pull that may be answered now; NULL when there is none. */
void *ps_gate_release(struct ps_gate *gate);

/** Take a pull out; false when it is not parked. */
bool ps_gate_forget(struct ps_gate *gate, const void *token);

#endif
