#ifndef PS_SERVER_SNAP_SNAP_READ_H
#define PS_SERVER_SNAP_SNAP_READ_H
/*
 * snap/snap_read.h — snapshots on disk: which there are, are they whole, and their content.
 *
 * The parts of one cut may lie in several directories. Opening reads MANIFEST and every PART and
 * believes none: sums, sizes and names are checked. Content is read chunk by chunk, and nothing of
 * a chunk is used before its sum is right; an error names file and byte. Slots are loaded one by
 * one, so onto any number of servers. Blocking. An open snapshot is not changed by reading: several
 * threads may load from one at once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "port/disk.h"
#include "slot/record.h"
#include "snap/manifest.h"
#include "table/dense.h"
#include "table/sparse.h"

#define PS_SNAP_DIRS_MAX 66u /* One of each server, the shared one, and one that was gathered. */

/** Where snapshots may lie. Borrowed. */
struct ps_snap_place {
    struct ps_disk *disk;
    struct ps_mem *mem;
    const char *const *dirs; /* [n_dirs] */
    uint32_t n_dirs;
};

/** One snapshot that was found. */
struct ps_snap_entry {
    uint64_t generation;
    uint64_t cut;
    bool complete;    /* MANIFEST is good, and so is PART of every part that it says is here. */
    uint32_t n_parts; /* That MANIFEST names, */
    uint32_t n_found; /*   and that are in these directories: PART is good, files and sizes. */
    uint64_t n_bytes; /* Of all parts. */
    struct ps_id cluster;
    char taken[32];
    struct ps_error why; /* If not complete. */
};

/**
 * All that are there, newest (generation, then cut) first; one line of reason with those that
 * cannot be used. `*ret` [*ret_n] is freed with ps_mem_free. A directory that is not there is
 * empty. Content is not read: see ps_snap_verify.
 */
PS_MUST_CHECK enum ps_status ps_snap_list(const struct ps_snap_place *place,
                                          struct ps_snap_entry **ret, size_t *ret_n,
                                          struct ps_error *err);

struct ps_snap;

/** @return PS_ERR_NOT_FOUND, PS_ERR_CORRUPT with file and byte, PS_ERR_IO, PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_snap_open(const struct ps_snap_place *place, uint64_t generation,
                                          uint64_t cut, struct ps_snap **ret, struct ps_error *err);

/**
 * The newest that is complete. `passed_over(arg, entry)`, may be NULL, is told of each newer one.
 * @return PS_ERR_NOT_FOUND when there is none
 */
PS_MUST_CHECK enum ps_status
ps_snap_open_newest(const struct ps_snap_place *place,
                    void (*passed_over)(void *arg, const struct ps_snap_entry *), void *arg,
                    struct ps_snap **ret, struct ps_error *err);

/** One server's own part, with or without a MANIFEST: what its log goes on from. */
struct ps_snap_own {
    struct ps_id cluster; /* None: of any. */
    uint64_t generation;
    uint32_t server;
    uint64_t below; /* Only cuts with a lower number; 0: any. */
};

/**
 * The newest good one. `passed_over` as above.
 * @return PS_ERR_NOT_FOUND when there is none
 */
PS_MUST_CHECK enum ps_status
ps_snap_open_part(const struct ps_snap_place *place, const struct ps_snap_own *own,
                  void (*passed_over)(void *arg, const struct ps_snap_entry *), void *arg,
                  struct ps_snap **ret, struct ps_error *err);

/** NULL does nothing. */
void ps_snap_close(struct ps_snap *snap);

/** NULL: it was opened by ps_snap_open_part. */
const struct ps_manifest *ps_snap_manifest(const struct ps_snap *snap);
/** Of its MANIFEST. */
const char *ps_snap_folder(const struct ps_snap *snap);
uint32_t ps_snap_n_parts(const struct ps_snap *snap);
const struct ps_snap_part *ps_snap_part(const struct ps_snap *snap, uint32_t nth);
/** The folder that it was found in. */
const char *ps_snap_part_folder(const struct ps_snap *snap, uint32_t nth);
/** Bit s: slot s is here. */
uint64_t ps_snap_slots(const struct ps_snap *snap);

/** job.pb, checked; freed with ps_mem_free. */
PS_MUST_CHECK enum ps_status ps_snap_job(const struct ps_snap *snap, uint8_t **ret,
                                         size_t *ret_n_bytes, struct ps_error *err);

/** The packed ps.v1.Table of a table, from the first part. Freed with ps_mem_free. */
PS_MUST_CHECK enum ps_status ps_snap_table(const struct ps_snap *snap, uint32_t table,
                                           uint8_t **ret, size_t *ret_n_bytes,
                                           struct ps_error *err);

/** Read every byte of every file and compare. */
PS_MUST_CHECK enum ps_status ps_snap_verify(const struct ps_snap *snap, struct ps_error *err);

/** A block of a dense table, on loan for one call. */
struct ps_snap_block {
    uint32_t slot;
    uint32_t table;
    uint32_t block;
    uint32_t state_per_elem;
    struct ps_dense_saved saved;
};

/** A row of a sparse table, on loan for one call. */
struct ps_snap_row {
    uint32_t slot;
    uint32_t table;
    uint32_t width;
    uint32_t state_per_elem;
    /* `weights` is NULL where they follow from the state; `state` where there is none. */
    struct ps_sparse_row saved;
};

/**
 * What a load is told: of each slot in this order, slots and tables ascending, but all slots of one
 * table before the next table. Any status but PS_OK ends the load with it.
 */
struct ps_snap_visitor {
    void *arg;
    /** First of all of a slot: its line. `state` is packed ps.v1.SlotState. */
    enum ps_status (*slot)(void *arg, const struct ps_snap_slot *slot, const uint8_t *state,
                           size_t n_bytes, struct ps_error *err);
    enum ps_status (*block)(void *arg, const struct ps_snap_block *block, struct ps_error *err);
    /** Before the rows. `n_counts` is 0 where keys are not counted. */
    enum ps_status (*rest)(void *arg, uint32_t slot, uint32_t table,
                           const struct ps_sparse_rest *rest, uint32_t n_counts,
                           struct ps_error *err);
    enum ps_status (*row)(void *arg, const struct ps_snap_row *row, struct ps_error *err);
    /** A STAGE record, after all tables, in the order of staging. Its message may be ref'd. */
    enum ps_status (*staged)(void *arg, const struct ps_record *record, struct ps_error *err);
};

/**
 * Load the slots with a bit in `slots` (bit s: slot s), in the order of their numbers. Any of the
 * functions may be NULL.
 * @return PS_ERR_LOST: the snapshot has not all of them
 */
PS_MUST_CHECK enum ps_status ps_snap_load(const struct ps_snap *snap, uint64_t slots,
                                          const struct ps_snap_visitor *visitor,
                                          struct ps_error *err);

#endif
