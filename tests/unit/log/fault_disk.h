#ifndef PS_TESTS_UNIT_LOG_FAULT_DISK_H
#define PS_TESTS_UNIT_LOG_FAULT_DISK_H
/*
 * log/fault_disk.h — files in memory that remember what was synced, and fail on demand.
 *
 * A power cut leaves, of each file, what was synced, with sectors of what was written since by
 * chance; of names, what was synced and by chance the first few changes since. A process that is
 * killed leaves everything. The n-th operation that changes something fails, or is the last one.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "port/disk.h"

#define FAULT_FILES_MAX 1024u
#define FAULT_NAMES_MAX 512u

struct fault_content {
    uint8_t *data;
    uint64_t n_bytes;
};

struct fault_file {
    struct fault_content now;
    struct fault_content synced;
};

/** A change of names: `file` is called `path` from now on; -1: nothing is. */
struct fault_name {
    char path[96];
    int file;
};

struct fault_disk {
    struct ps_disk base;
    struct fault_file files[FAULT_FILES_MAX];
    uint32_t n_files;
    struct fault_name names[FAULT_NAMES_MAX]; /* In the order in which they were changed. */
    uint32_t n_names;
    uint32_t n_names_synced;
    uint32_t n_open;
    uint64_t n_room; /* Bytes of all files; 0: no bound. */
    uint64_t n_ops;  /* That change something, so far. */
    uint64_t n_writes;
    uint64_t n_syncs;
    uint64_t fail_from; /* These of n_ops fail, counted from 0. */
    uint64_t fail_to;
    enum ps_status fail_with;
    uint64_t last_op; /* This and all later ones do nothing, with PS_ERR_IO; UINT64_MAX: never. */
};

void fault_disk_init(struct fault_disk *disk);
void fault_disk_deinit(struct fault_disk *disk);

/** What is on the disk after the power was cut. */
void fault_disk_cut(struct fault_disk *disk, struct ps_rng *rng);
/** Nothing fails any more. */
void fault_disk_heal(struct fault_disk *disk);

/** The content of a file to be looked at or damaged; NULL: there is none. */
struct fault_content *fault_disk_content(struct fault_disk *disk, const char *path);
/** Put content under a name, copied, synced. */
void fault_disk_put(struct fault_disk *disk, const char *path, const uint8_t *data,
                    uint64_t n_bytes);

#endif
