#ifndef PS_SERVER_COORD_SERVER_CORE_H
#define PS_SERVER_COORD_SERVER_CORE_H
/*
 * coord/server_core.h — the places of servers: who has one, who is away, who came back with what.
 *
 * Before the placement a server takes any place and is forgotten when it goes. From then on a
 * place is for ever: a server that goes is AWAY while there is something to come back from, and a
 * new process of it costs its slots a new epoch (rule 2b). One that comes back with less than it
 * had is data lost: then all go back, or the cluster is lost.
 */
#include "coord/coord_core.h"

/** The member has ended, or is AWAY: is it waited for, or is the cluster lost? */
void ps_coord_server_gone(struct ps_coord_core *core, uint64_t now_ms,
                          const struct ps_coord_member *member);

/** A sign of life of a server that was away. */
void ps_coord_server_back(struct ps_coord_core *core, const struct ps_coord_member *member);

/** May it come in, and where? `*ret_place` is PS_COORD_NOBODY for any place that is free. */
PS_MUST_CHECK enum ps_status ps_coord_server_admit(const struct ps_coord_core *core,
                                                   const struct ps_coord_join *join,
                                                   uint32_t *ret_place, struct ps_error *err);

/** Seat a newcomer at the place that ps_coord_server_admit named. */
void ps_coord_server_seat(struct ps_coord_core *core, uint64_t now_ms, uint32_t member,
                          uint32_t seat, const struct ps_coord_join *join);

/** Time has passed: has anybody been away for too long? */
void ps_coord_server_tick(struct ps_coord_core *core, uint64_t now_ms, bool was_away);

/** Whether a server that goes away from this place is waited for. */
bool ps_coord_server_returns(const struct ps_coord_core *core, uint32_t place);

#endif
