#ifndef PS_SERVER_COORD_SETTLE_CORE_H
#define PS_SERVER_COORD_SETTLE_CORE_H
/*
 * coord/settle_core.h — what follows from a change of the coordinator's state, in a fixed order.
 *
 * Every event of coord_core.h ends here. The order matters: a clock leaves the minimum before the
 * minimum is taken, and the minimum is taken before somebody idle is lent a lease at it.
 */
#include "coord/coord_core.h"

/** Draw every conclusion from the state as it is now. */
void ps_coord_settle(struct ps_coord_core *core, uint64_t now_ms);

/** The cut: is it time for the next state, or for the next cut? */
void ps_coord_settle_cut(struct ps_coord_core *core, uint64_t now_ms);

/** Whether a cut could be taken now; else why not. */
bool ps_coord_may_cut(const struct ps_coord_core *core, const char **ret_why);

/** The smallest acknowledgement of each kind over all servers; zeros without a placement. */
struct ps_coord_acks ps_coord_acked_by_all(const struct ps_coord_core *core);

/** Note progress of the lease that a member holds; when that finishes it, take it away. */
void ps_coord_advance(struct ps_coord_core *core, struct ps_coord_member *member,
                      const struct ps_lease_news *news);

/** Lend a member without lease the next one; false when there is none. */
bool ps_coord_lend(struct ps_coord_core *core, struct ps_coord_member *member);

#endif
