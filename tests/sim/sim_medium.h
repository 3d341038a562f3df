#ifndef PS_TESTS_SIM_SIM_MEDIUM_H
#define PS_TESTS_SIM_SIM_MEDIUM_H
/*
 * sim/sim_medium.h — what a power cut leaves: files and folders as they are in the memory of the
 * machine, and beside it as they are on the platter.
 *
 * A file is a row of sectors. A write changes the memory's copy; a sync carries the changed sectors
 * over. A power cut decides for each changed sector by chance whether it was carried over before,
 * and for the length likewise. A sync that fails leaves the changed sectors LOST: memory has them,
 * and no later sync carries them over. The entries of a folder are changed in order, and a power
 * cut keeps the first n changes that were not synced, n by chance; each folder for itself.
 *
 * Who wrote is remembered (a medium may be shared), so that one machine's cut takes only its own.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "sim/sim_world.h"

#define SIM_SECTOR     512u
#define SIM_NAME_BYTES 64u

enum sim_sector {
    SIM_SECTOR_SAME,    /* Memory and platter agree. */
    SIM_SECTOR_CHANGED, /* The next sync carries it over. */
    SIM_SECTOR_LOST     /* Only memory has it, and nobody cares any more. */
};

struct sim_inode;

struct sim_entry {
    char name[SIM_NAME_BYTES];
    struct sim_inode *inode; /* Counted. */
};

struct sim_entries {
    struct sim_entry *at;
    uint32_t n;
    uint32_t n_room;
};

/** One change of a folder. */
struct sim_change {
    char name[SIM_NAME_BYTES];
    char to[SIM_NAME_BYTES]; /* Renamed; else empty. */
    struct sim_inode *inode; /* Put under `name`, counted; NULL: taken away, or renamed. */
    const struct sim_node *by;
};

struct sim_inode {
    struct ps_list entry; /* In the medium's. */
    uint32_t n_refs;      /* Entries, changes, handles. */
    bool folder;
    /* A file. */
    uint64_t n_bytes;
    uint64_t n_bytes_platter;
    uint64_t n_allocated; /* Room that is promised. */
    size_t n_stored;      /* Whole sectors; what lies behind is zeros. */
    uint8_t *memory;
    uint8_t *platter;
    uint8_t *sectors; /* enum sim_sector, per sector stored. */
    const struct sim_node *writer;
    const struct sim_node *locker;
    /* A folder. */
    struct sim_entries now;
    struct sim_entries synced;
    struct sim_change *changes;
    uint32_t n_changes;
    uint32_t n_changes_room;
};

struct sim_medium {
    struct sim_world *world;
    struct ps_list inodes;
    struct sim_inode *root;
    struct sim_inode *limbo; /* Files that processes make which have crashed. */
};

void sim_medium_init(struct sim_medium *medium, struct sim_world *world);
void sim_medium_deinit(struct sim_medium *medium);

/** What is at `path`; NULL: nothing. */
struct sim_inode *sim_medium_find(const struct sim_medium *medium, const char *path);
/** The folder of `path`, and in `ret_name` the last word of it. NULL: there is no such folder. */
struct sim_inode *sim_medium_parent(const struct sim_medium *medium, const char *path,
                                    char ret_name[SIM_NAME_BYTES]);
struct sim_inode *sim_medium_create(struct sim_medium *medium, struct sim_inode *parent,
                                    const char *name, bool folder, const struct sim_node *by);

void sim_inode_ref(struct sim_inode *inode);
void sim_inode_unref(struct sim_inode *inode);

/* Files. */
void sim_inode_write(struct sim_inode *inode, uint64_t offset, const uint8_t *data, size_t n_bytes,
                     const struct sim_node *by);
void sim_inode_read(const struct sim_inode *inode, uint64_t offset, uint8_t *data, size_t n_bytes);
void sim_inode_resize(struct sim_inode *inode, uint64_t n_bytes, const struct sim_node *by);
/** Carry over what was changed. */
void sim_inode_sync(struct sim_inode *inode);
/** A sync that failed: some sectors may have been carried over, the others are lost. */
void sim_inode_sync_fails(struct sim_inode *inode, struct sim_world *world);

/** Memory is what the platter has, where nothing is waiting to be carried over. */
void sim_inode_forget(struct sim_inode *inode);
/** Room on the medium: whole sectors, or the length where it was promised. */
uint64_t sim_inode_room(const struct sim_inode *inode);

/* Folders. */
void sim_folder_remove(struct sim_inode *folder, const char *name, const struct sim_node *by);
/** What was under `to` is replaced. */
void sim_folder_rename(struct sim_inode *folder, const char *name, const char *to,
                       const struct sim_node *by);
struct sim_inode *sim_folder_find(const struct sim_inode *folder, const char *name);
void sim_folder_sync(struct sim_inode *folder);

/** The machine of `who` loses its power (else only the process dies: memory stays). */
void sim_medium_crash(struct sim_medium *medium, const struct sim_node *who, bool power);

/** Files whose path begins with `prefix`: how many; with `index` below that, the file. */
uint32_t sim_medium_files(const struct sim_medium *medium, const char *prefix, uint32_t index,
                          struct sim_inode **ret);

#endif
