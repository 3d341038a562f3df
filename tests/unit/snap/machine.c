/* machine.c — see machine.h. */
#include "unit/snap/machine.h"

#include <check.h>

static void dies(void *arg, struct sim_node *node)
{
    (void)arg;
    node->paused = true;
    node->crashed = true;
}

void machine_init(struct machine *machine, uint64_t seed)
{
    *machine = (struct machine){.world = sim_world_create(seed)};
    sim_disk_init(&machine->disk, machine->world);
    machine->disk.crash = dies;
    machine->node = sim_node_create(machine->world, "server");
    machine->port = sim_disk_attach(&machine->disk, machine->node);
}

void machine_deinit(struct machine *machine)
{
    sim_disk_deinit(&machine->disk);
    sim_world_destroy(machine->world);
}

void machine_cut_power(struct machine *machine)
{
    dies(NULL, machine->node);
    sim_medium_crash(&machine->disk.medium, machine->node, true);
    machine->disk.faults = (struct sim_disk_faults){0};
    machine->node = sim_node_create(machine->world, "server");
    machine->port = sim_disk_attach(&machine->disk, machine->node);
}

struct sim_inode *machine_file(struct machine *machine, const char *path)
{
    struct sim_inode *inode = sim_medium_find(&machine->disk.medium, path);
    ck_assert_msg(inode != NULL && !inode->folder, "%s", path);
    return inode;
}
