#ifndef PS_TESTS_UNIT_TRAIN_MEMORY_DISK_H
#define PS_TESTS_UNIT_TRAIN_MEMORY_DISK_H
/*
 * unit/train/memory_disk.h — a disk of one file in memory, which can refuse to be written.
 */
#include <stdbool.h>

#include "port/disk.h"

struct memory_disk {
    struct ps_disk disk;
    char path[256];
    uint8_t data[65536];
    size_t n_bytes;
    bool full; /* Refuse to write. */
};

void memory_disk_init(struct memory_disk *memory);

#endif
