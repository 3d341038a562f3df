#ifndef PS_SERVER_COORD_COORD_STORED_H
#define PS_SERVER_COORD_COORD_STORED_H
/*
 * coord/coord_stored.h — what is written down, as messages in memory of their own: they are packed
 * and forgotten. A cold path: a write per finished lease, a record per cut.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "coord/coord_core.h"
#include "coordinator.pb-c.h"

struct ps_coord;

#define COORD_LOSSES_STORED 1024u /* Of jobs with more epochs than that, none. */
#define COORD_PART_BYTES    6u    /* Of a part's rows: below 2^48. */

/* A JobProgress, and what it borrows. */
struct coord_progress_room {
    Ps__V1__JobProgress progress;
    struct ps_lease_range ranges[PS_LEASE_RANGES_MAX];
    Ps__V1__LeaseRange finished[PS_LEASE_RANGES_MAX];
    Ps__V1__LeaseRange *finished_list[PS_LEASE_RANGES_MAX];
    struct ps_lease_begun begun[PS_LEASE_RANGES_MAX];
    Ps__V1__LeaseProgress leases[PS_LEASE_RANGES_MAX];
    Ps__V1__LeaseProgress *lease_list[PS_LEASE_RANGES_MAX];
    Ps__V1__EpochLoss losses[COORD_LOSSES_STORED];
    Ps__V1__EpochLoss *loss_list[COORD_LOSSES_STORED];
    uint8_t *part_rows;
};

/** How far the job has come; NULL without memory or job. Freed with coord_progress_free. */
PS_MUST_CHECK enum ps_status
coord_progress_make(struct ps_coord *coord, struct coord_progress_room **ret, struct ps_error *err);
void coord_progress_free(struct coord_progress_room *room);

/** Read one into a pool that was just made, and into the losses. @return PS_ERR_CORRUPT, ..NOMEM */
PS_MUST_CHECK enum ps_status coord_progress_read(struct ps_coord *coord,
                                                 const Ps__V1__JobProgress *from,
                                                 struct ps_lease_pool *pool, struct ps_error *err);

/** The losses of it become ours. */
void coord_progress_losses(struct ps_coord *coord, const Ps__V1__JobProgress *from);

#endif
