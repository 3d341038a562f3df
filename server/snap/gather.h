#ifndef PS_SERVER_SNAP_GATHER_H
#define PS_SERVER_SNAP_GATHER_H
/*
 * snap/gather.h — a snapshot whose parts lie with their servers, collected into one directory.
 *
 * Whoever collects says how a piece is fetched (ps.v1.Replica/ReadPart); here it is checked, chunk
 * by chunk, against what PART and MANIFEST say, and written as the servers did: MANIFEST last. So
 * what is in the directory when this returns PS_OK is a complete snapshot, and before that none.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "port/disk.h"
#include "snap/manifest.h"

enum ps_gather_file {
    PS_GATHER_MANIFEST, /* Of the coordinator's server, as */
    PS_GATHER_JOB,      /*   this. */
    PS_GATHER_PART,     /* PART of a server's part, */
    PS_GATHER_DATA      /*   and one of its files. */
};

/** One piece that is asked for. */
struct ps_gather_piece {
    uint64_t generation;
    uint64_t cut;
    enum ps_gather_file file;
    uint32_t server;     /* Index; of MANIFEST and the job 0. */
    const char *address; /* Where MANIFEST says that the server was; "": of these two. */
    uint32_t number;     /* Of PS_GATHER_DATA. */
    uint64_t offset;
};

struct ps_gather {
    struct ps_disk *disk;
    struct ps_mem *mem;
    const char *dir; /* Made if need be. */
    uint64_t generation;
    uint64_t cut;
    /**
     * Fetch up to PS_SNAP_CHUNK_BYTES into `to`; fewer are fine, none only at the end of the file.
     */
    enum ps_status (*fetch)(void *arg, const struct ps_gather_piece *piece, uint8_t *to,
                            size_t *ret_n_bytes, struct ps_error *err);
    void *arg;
    uint64_t n_bytes; /* Set: fetched. */
};

/**
 * Blocking. @return what fetch says, PS_ERR_CORRUPT when a server gave something else than it
 * wrote, PS_ERR_EXISTS when it is there already, as the disk
 */
PS_MUST_CHECK enum ps_status ps_snap_gather(struct ps_gather *gather, struct ps_error *err);

#endif
