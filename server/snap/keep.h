#ifndef PS_SERVER_SNAP_KEEP_H
#define PS_SERVER_SNAP_KEEP_H
/*
 * snap/keep.h — old snapshots make room for new ones; the last complete one never does.
 *
 * MANIFEST goes first and its folder is synced, so that what is half removed is not complete.
 * Several may tidy one directory at once: what is gone already is fine.
 */
#include <stdint.h>

#include "base/error.h"
#include "coord/cuts.h"
#include "snap/snap_read.h"

/**
 * Remove complete ones but those `kept` (the newest always stays), all that have no MANIFEST, and
 * those that are damaged and older than the newest complete one. What cannot be read for want of
 * memory or by an error of the disk stays. While no cut is under way; one that has been given up,
 * but is still being written somewhere, fails there.
 * @return the first failure of the disk; the rest was removed all the same
 */
PS_MUST_CHECK enum ps_status ps_snap_keep(const struct ps_snap_place *place,
                                          struct ps_cut_kept *kept, struct ps_error *err);

/**
 * For a server with a directory of its own, where no MANIFEST lies: remove parts of `server` that
 * are older than (generation, cut), the oldest that the coordinator keeps.
 */
PS_MUST_CHECK enum ps_status ps_snap_drop_older(const struct ps_snap_place *place, uint32_t server,
                                                uint64_t generation, uint64_t cut,
                                                struct ps_error *err);

/** Likewise: of one cut, which was given up when its part was written already. */
PS_MUST_CHECK enum ps_status ps_snap_drop(const struct ps_snap_place *place, uint32_t server,
                                          uint64_t generation, uint64_t cut, struct ps_error *err);

/** Take away the MANIFEST of a cut's folder: from here on it is not complete, even after a power
 * cut. What is not there is fine. */
PS_MUST_CHECK enum ps_status ps_snap_unfinish(struct ps_disk *disk, const char *folder,
                                              struct ps_error *err);

/** Take away a folder of plain files. What is not there is fine. */
PS_MUST_CHECK enum ps_status ps_snap_remove_folder(struct ps_disk *disk, const char *dir,
                                                   struct ps_error *err);

#endif
