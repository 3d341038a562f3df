#ifndef PS_SERVER_COORD_COORD_H
#define PS_SERVER_COORD_COORD_H
/*
 * coord/coord.h — the coordinator role of a server process: serves ps.v1.Coordinator.
 *
 * An actor on one executor: requests and stream messages arrive on threads of the transport and
 * become mail; everything else happens on the executor. What must outlive the process is written
 * to the store before anybody is told. A coordinator that loses its store stops the job.
 *
 *   create -> ps_coord_methods go to a listener -> stop -> listener stopped -> idle -> destroy
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/mem.h"
#include "coord/coord_core.h"
#include "coord/cuts.h"
#include "coord/store.h"
#include "obs/metric.h"
#include "port/exec.h"
#include "port/transport.h"

#define PS_COORD_METHODS 11u /* Rows that ps_coord_methods writes. */

struct ps_coord;
struct Ps__V1__TableDefinition; /* Generated, coordinator.pb-c.h. */

struct ps_coord_options {
    struct ps_exec *exec;
    struct ps_mem *mem;          /* May be NULL. */
    struct ps_metrics *metrics;  /* May be NULL. */
    struct ps_store *store;      /* Borrowed until destroy. */
    struct ps_id new_cluster_id; /* Random; used if the store holds none, */
    uint64_t new_key_seed;       /*   as this: places keys in slots for as long as data live. */
    uint32_t n_servers;          /* Servers expected, 1 to PS_SERVERS_MAX. */
    uint32_t grace_ms;           /* 0: PS_STREAM_GRACE_MS. */
    uint32_t silence_ms;         /* 0: PS_SILENCE_MS. */
    /** Refuse a table that no server could make, and say how many bytes it takes over all of them;
     * NULL: any is fine. */
    enum ps_status (*check_table)(const struct Ps__V1__TableDefinition *definition,
                                  uint64_t *ret_bytes, struct ps_error *err);
    bool durable;                 /* Its servers log: what the store holds can be gone on with. */
    uint32_t wait_ms;             /* For a server that is away; 0: PS_WAIT_SERVER_MS. */
    struct ps_cut_keeper *keeper; /* Borrowed; NULL: no cuts. */
    uint32_t snapshot_every_ms;   /* 0: only when asked. */
    const char *restore_dir;      /* Begin with the newest cut of it, if the store holds nothing to
                                   * go on with; NULL: do not. Borrowed until create returns. */
    /** The store cannot be written any more: nothing is told from now on, and the process has to
     * end and start again. On the executor, once. NULL: the job ends instead. */
    void (*failed)(void *arg, const struct ps_error *err);
    void *arg;
    enum ps_coord_plant plant;
};

/** Take the next term in the store and start. On the executor. `*options` is copied. */
PS_MUST_CHECK enum ps_status ps_coord_create(const struct ps_coord_options *options,
                                             struct ps_coord **ret, struct ps_error *err);

/** Write the PS_COORD_METHODS rows for a listener; they are valid until destroy. */
void ps_coord_methods(struct ps_coord *coord, struct ps_method *methods);

/** Answer every parked call, end every stream, refuse what still comes. On the executor. */
void ps_coord_stop(struct ps_coord *coord);

/** Whether nothing is under way any more: after stop, and after the listener has been stopped. */
bool ps_coord_idle(const struct ps_coord *coord);

/** After stop, when idle. NULL does nothing. */
void ps_coord_destroy(struct ps_coord *coord);

/* ---- For the server process around it; on the executor ------------------------------------- */

enum ps_coord_job_state ps_coord_job_state(const struct ps_coord *coord);
/** Why it is LOST or STOPPED; "" otherwise. Valid until the next event. */
const char *ps_coord_reason(const struct ps_coord *coord);
struct ps_id ps_coord_cluster_id(const struct ps_coord *coord);
uint64_t ps_coord_min_clock(const struct ps_coord *coord);
/** Take a cut soon, as the RPC Snapshot does; nothing when one is under way or none can be. */
void ps_coord_snapshot(struct ps_coord *coord);
/** A cut is under way. */
bool ps_coord_cutting(const struct ps_coord *coord);
/** Sessions (workers and readers) that have not ended. */
uint32_t ps_coord_sessions(const struct ps_coord *coord);

#endif
