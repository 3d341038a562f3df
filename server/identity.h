#ifndef PS_SERVER_IDENTITY_H
#define PS_SERVER_IDENTITY_H
/*
 * identity.h — whose data directory it is: a small text in it, replaced as a whole.
 *
 * The server's id is drawn at first use and stays: by it the coordinator knows a server that comes
 * back, under whatever address. Cluster and index are noted when it has joined, before anything of
 * that cluster is logged; another cluster is refused from then on.
 */
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/mem.h"
#include "port/disk.h"

struct ps_identity {
    struct ps_id server;  /* None: there is none yet. */
    struct ps_id cluster; /* None: it has not joined. */
    uint32_t index;       /* In that cluster's placement. */
    uint64_t generation;  /* Its data are of, or it joined; what the log says of it counts more. */
    uint64_t begin;       /* First record of the log that is of it. A log that ends before has lost
                             its end, with all of this generation. */
};

/**
 * Read that of `dir`; all zero when there is none.
 * @return PS_ERR_CORRUPT with file and byte, PS_ERR_IO, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_identity_read(struct ps_disk *disk, const char *dir,
                                              struct ps_identity *ret, struct ps_error *err);

/** Durable on return. */
PS_MUST_CHECK enum ps_status ps_identity_write(struct ps_disk *disk, const char *dir,
                                               const struct ps_identity *identity,
                                               struct ps_error *err);

#endif
