#ifndef PS_SERVER_SVC_SVC_PART_H
#define PS_SERVER_SVC_SVC_PART_H
/*
 * svc/svc_part.h — ps.v1.Replica/ReadPart: files of snapshots that lie with this server, piece by
 * piece, for whoever collects them.
 *
 * A peer names a cut, a server and a file by numbers; every path is made of these, of names that
 * PART of that very part lists, and of this server's own directory. So no request leads outside.
 * Transport threads hand calls over; the disk is read on an executor that may block.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "base/mem.h"
#include "obs/metric.h"
#include "port/disk.h"
#include "port/exec.h"
#include "port/transport.h"
#include "snap/snap_read.h"

#define PS_METHOD_READ_PART  "/ps.v1.Replica/ReadPart"
#define PS_SVC_PART_METHODS  1u
#define PS_SVC_PART_OPEN_MAX 64u /* Calls under way; beyond it BUSY. */

struct ps_svc_part {
    struct ps_exec *exec; /* May block on the disk. */
    struct ps_mem *mem;
    struct ps_metrics *metrics;
    struct ps_disk *disk;
    const char *dir; /* The snapshot directory; NULL: there is none. */
    _Atomic uint32_t n_open;
    /* The list that was read last; of `exec`. */
    bool has_part;
    struct ps_snap_part part;
};

/** Zero-initialise and set the first five. Writes PS_SVC_PART_METHODS rows for a listener. */
void ps_svc_part_methods(struct ps_svc_part *svc, struct ps_method *methods);

/** When n_open is 0, or `exec` no longer runs. */
void ps_svc_part_deinit(struct ps_svc_part *svc);

#endif
