/* gate_core.c — see gate_core.h. */
#include "gate/gate_core.h"

#include <stddef.h>

#include "base/assert.h"

void ps_gate_init(struct ps_gate *gate)
{
    gate->mode = PS_GATE_CLOSED;
    gate->bound = 0;
    gate->off_by_one = false;
    gate->min_clock = 0;
    gate->n_parked = 0;
}

void ps_gate_set_consistency(struct ps_gate *gate, enum ps_gate_mode mode, uint32_t bound)
{
    gate->mode = mode;
    gate->bound = bound;
}

void ps_gate_set_min_clock(struct ps_gate *gate, uint64_t min_clock)
{
    if (min_clock > gate->min_clock) {
        gate->min_clock = min_clock;
    }
}

/* Written as a subtraction because min clock + bound may wrap. */
bool ps_gate_open(const struct ps_gate *gate, uint64_t step)
{
    switch (gate->mode) {
    case PS_GATE_CLOSED: return false;
    case PS_GATE_UNBOUNDED: return true;
    case PS_GATE_BOUNDED: break;
    }
    uint64_t bound = gate->bound;
#ifdef PS_PLANT
    bound += gate->off_by_one ? 1 : 0;
#endif
    return step <= gate->min_clock || step - gate->min_clock <= bound;
}

static void *take(struct ps_gate *gate, uint32_t at)
{
    void *token = gate->parked[at].token;
    gate->n_parked--;
    for (uint32_t i = at; i < gate->n_parked; i++) {
        gate->parked[i] = gate->parked[i + 1];
    }
    return token;
}

bool ps_gate_park(struct ps_gate *gate, const struct ps_gate_parked *pull, void **ret_replaced)
{
    PS_ASSERT(pull->token != NULL);
    PS_ASSERT(!ps_gate_open(gate, pull->step));
    *ret_replaced = NULL;
    for (uint32_t i = 0; i < gate->n_parked; i++) {
        PS_ASSERT(gate->parked[i].token != pull->token);
        if (gate->parked[i].session == pull->session) {
            *ret_replaced = take(gate, i);
            break;
        }
    }
    if (gate->n_parked == PS_PARKED_PULLS_MAX) {
        return false;
    }
    gate->parked[gate->n_parked++] = *pull;
    return true;
}

void *ps_gate_release(struct ps_gate *gate)
{
    for (uint32_t i = 0; i < gate->n_parked; i++) {
        if (ps_gate_open(gate, gate->parked[i].step)) {
            return take(gate, i);
        }
    }
    return NULL;
}

bool ps_gate_forget(struct ps_gate *gate, const void *token)
{
    for (uint32_t i = 0; i < gate->n_parked; i++) {
        if (gate->parked[i].token == token) {
            (void)take(gate, i);
            return true;
        }
    }
    return false;
}
