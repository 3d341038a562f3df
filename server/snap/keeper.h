#ifndef PS_SERVER_SNAP_KEEPER_H
#define PS_SERVER_SNAP_KEEPER_H
/*
 * snap/keeper.h — struct ps_cut_keeper (coord/cuts.h) over a disk: the coordinator's side of
 * snapshots. It writes job.pb and MANIFEST, finds complete ones again, and makes room.
 */
#include "base/error.h"
#include "base/mem.h"
#include "coord/cuts.h"
#include "port/disk.h"

struct ps_snap_keeper_options {
    struct ps_disk *disk;
    struct ps_mem *mem;
    const char *dir;           /* Copied; where MANIFEST is written, and cuts are looked for. */
    const char *also;          /* Copied; another one to look in (--restore); NULL: none. */
    uint32_t n_keep;           /* 0: PS_SNAP_KEEP. */
    uint64_t (*wall_ms)(void); /* Since 1970; for people. */
};

PS_MUST_CHECK enum ps_status ps_snap_keeper_create(const struct ps_snap_keeper_options *options,
                                                   struct ps_cut_keeper **ret,
                                                   struct ps_error *err);

/** NULL does nothing. */
void ps_snap_keeper_destroy(struct ps_cut_keeper *keeper);

#endif
