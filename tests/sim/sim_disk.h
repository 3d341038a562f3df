#ifndef PS_TESTS_SIM_SIM_DISK_H
#define PS_TESTS_SIM_SIM_DISK_H
/*
 * sim/sim_disk.h — the files of one node, in memory.
 *
 * A replace that fails leaves the old content or the new one, by chance, as the real one may.
 */
#include "port/disk.h"
#include "sim/sim_world.h"

#define SIM_FILES_MAX 8u

struct sim_file {
    char path[64];
    uint8_t *data;
    size_t n_bytes;
};

struct sim_disk {
    struct ps_disk base;
    struct sim_world *world;
    struct sim_file files[SIM_FILES_MAX];
    uint32_t n_files;
    uint32_t fail_per_mille; /* Of replaces. */
    uint64_t n_replaced;
};

void sim_disk_init(struct sim_disk *disk, struct sim_world *world);
void sim_disk_deinit(struct sim_disk *disk);

#endif
