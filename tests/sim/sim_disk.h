#ifndef PS_TESTS_SIM_SIM_DISK_H
#define PS_TESTS_SIM_SIM_DISK_H
/*
 * sim/sim_disk.h — port/disk.h over a medium of its own (sim_medium.h), with the faults of disks.
 *
 * The medium outlives the processes: each attaches to it as a node, and one that has crashed does
 * nothing any more, though it is told that all went well. A replace that fails leaves the old
 * content or the new one, by chance, as the real one may.
 */
#include "port/disk.h"
#include "sim/sim_medium.h"
#include "sim/sim_world.h"

/** Can be changed at any time. */
struct sim_disk_faults {
    uint32_t write_fails_pm; /* EIO of writes and replaces; some of it is written. */
    uint32_t sync_fails_pm;  /* EIO of syncs: what was to be synced may never be. */
    uint32_t astray_pm;      /* Of writes: one sector goes to a wrong place of the file. */
    uint64_t n_bytes_room;   /* Of all files; 0: without end. */
    uint64_t crash_in;       /* The process dies in the middle of that operation from now; 0: no. */
};

struct sim_disk {
    struct sim_world *world;
    struct sim_medium medium;
    struct sim_disk_faults faults;
    struct ps_list ports; /* One per process. */
    /** The process dies now; the caller goes on to its end, and its disk does nothing. */
    void (*crash)(void *arg, struct sim_node *node);
    void *arg;
    uint64_t n_written;
    uint64_t n_synced;
    uint64_t n_failed; /* Operations that were told an error by chance or for want of room. */
    uint64_t n_astray;
};

void sim_disk_init(struct sim_disk *disk, struct sim_world *world);
/** Every file must have been closed. */
void sim_disk_deinit(struct sim_disk *disk);

/** What the process on `node` uses. */
struct ps_disk *sim_disk_attach(struct sim_disk *disk, struct sim_node *node);

/** A bit of some file below `prefix` turns, anywhere. False: there is none. */
bool sim_disk_rot(struct sim_disk *disk, const char *prefix);

/** Sectors in use. */
uint64_t sim_disk_used(const struct sim_disk *disk);

#endif
