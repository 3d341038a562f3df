#ifndef PS_TESTS_SIM_SIM_TROUBLE_H
#define PS_TESTS_SIM_SIM_TROUBLE_H
/*
 * sim/sim_trouble.h — the mishaps of a plan, as they come due.
 */
#include "sim/sim.h"

void sim_trouble_start(struct sim *sim);
/** Every trouble ends, and none begins any more. */
void sim_heal(struct sim *sim);
/** The first mishap, where it must be met, has come and gone. */
bool sim_first_over(const struct sim *sim);
/** One worker at least stays. `arg`: the sim. */
bool sim_may_leave(void *arg, uint32_t index);

#endif
