#ifndef PS_TESTS_UNIT_SNAP_MACHINE_H
#define PS_TESTS_UNIT_SNAP_MACHINE_H
/*
 * unit/snap/machine.h — a simulated machine with a disk: it may die in the middle of any operation
 * of that, lose its power, and start again.
 */
#include <stdbool.h>

#include "sim/sim_disk.h"

struct machine {
    struct sim_world *world;
    struct sim_disk disk;
    struct sim_node *node;
    struct ps_disk *port; /* Of the process that runs now. */
};

void machine_init(struct machine *machine, uint64_t seed);
void machine_deinit(struct machine *machine);

/** The power goes; what was not synced is there or not, by chance. Then it starts again. */
void machine_cut_power(struct machine *machine);

/** The file at `path`, as it is in memory. */
struct sim_inode *machine_file(struct machine *machine, const char *path);

#endif
