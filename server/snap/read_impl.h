#ifndef PS_SERVER_SNAP_READ_IMPL_H
#define PS_SERVER_SNAP_READ_IMPL_H
/*
 * snap/read_impl.h — an open snapshot: what snap_read.c and snap_load.c share. Private.
 */
#include <stdbool.h>
#include <stdint.h>

#include "snap/snap_file.h"
#include "snap/snap_read.h"

struct ps_snap_found {
    char folder[PS_SNAP_PATH_BYTES];
    struct ps_snap_part part;
};

struct ps_snap {
    struct ps_disk *disk;
    struct ps_mem *mem;
    bool whole;                      /* There is a MANIFEST: */
    char folder[PS_SNAP_PATH_BYTES]; /*   here. */
    struct ps_manifest manifest;
    struct ps_snap_found *parts; /* [n_parts], with room for PS_SERVERS_MAX. */
    uint32_t n_parts;
    uint32_t holder[PS_SLOTS]; /* 1 + number of the part that has it; 0: none. */
};

/** The file called `name` of a part; NULL: it has none. */
const struct ps_snap_file *ps_snap_file_named(const struct ps_snap_part *part, const char *name);

#endif
