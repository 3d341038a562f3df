#ifndef PS_SERVER_SVC_SVC_DATA_H
#define PS_SERVER_SVC_SVC_DATA_H
/*
 * svc/svc_data.h — Pull, Push and PushPull between the wire and the lanes (Scan: svc_scan.h).
 *
 * Runs on transport threads: reads a message, checks the whole call (shapes, tables, lengths,
 * finite values) before any lane sees it, hands each lane its share; the last lane sends the one
 * reply, which borrows the pages. Decides nothing, blocks on nothing.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "obs/metric.h"
#include "port/exec.h"
#include "port/transport.h"
#include "slot/catalogue.h"
#include "slot/lane.h"

#define PS_SVC_DATA_METHODS 4u

struct ps_svc_data {
    struct ps_mem *mem;
    struct ps_metrics *metrics;
    struct ps_exec *exec; /* For its clock. */
    const struct ps_catalogue *catalogue;
    struct ps_lane *lanes[PS_LANES_MAX];
    uint32_t n_lanes;
    struct ps_ledger *ledger;    /* A reference of the owner's. */
    _Atomic uint64_t generation; /* Set by attending; 0: not known yet. */
    _Atomic uint64_t key_seed;   /* Likewise: places keys in slots. */
    _Atomic uint64_t n_open;     /* Calls under way. */
    _Atomic bool unplaced;       /* Set by attending: nobody has told it yet what it owns. */
};

/**
 * A process that has just started may have slots and tables of an earlier life, but knows neither
 * whether they are still its own nor where keys live: calls come back a little later.
 * @return PS_OK, PS_ERR_NOT_PRIMARY
 */
PS_MUST_CHECK enum ps_status ps_svc_data_placed(const struct ps_svc_data *svc,
                                                struct ps_error *err);

/** The lowest clock of all lanes and `clock`. Any thread. */
uint64_t ps_svc_clock(const struct ps_svc_data *svc, uint64_t clock);

/** The rows for the listener: PS_SVC_DATA_METHODS of them. */
void ps_svc_data_methods(struct ps_svc_data *svc, struct ps_method *ret);

#endif
