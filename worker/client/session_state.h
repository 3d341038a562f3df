#ifndef PS_WORKER_CLIENT_SESSION_STATE_H
#define PS_WORKER_CLIENT_SESSION_STATE_H
/*
 * client/session_state.h — what the coordinator says, checked and remembered.
 *
 * All of it is absolute: hearing it twice or late changes nothing. Nothing from a lower term or
 * generation is taken. Bytes of a peer: what makes no sense is ignored, and logged.
 */
#include "client/session_impl.h"
#include "coordinator.pb-c.h"

/** A whole state. False: it is of an earlier term or generation. */
bool ps_session_state_take(struct ps_session *session, const Ps__V1__AttendState *state);

/** A term or generation heard anywhere. False: it is an earlier one. */
bool ps_session_state_newest(struct ps_session *session, uint64_t term, uint64_t generation);

/**
 * The newest version of the newest term says where servers are; higher epochs win, slot by slot.
 * After ps_session_state_newest() of the message that brought it. `placement` may be NULL.
 */
void ps_session_state_placement(struct ps_session *session, const Ps__V1__Placement *placement);

/** `catalogue` may be NULL. */
void ps_session_state_catalogue(struct ps_session *session, const Ps__V1__Catalogue *catalogue);

/** @return PS_ERR_CORRUPT when it makes no sense */
enum ps_status ps_session_state_table(struct ps_session *session, const Ps__V1__Table *table,
                                      struct ps_error *err);

/** `consistency` may be NULL. */
void ps_session_state_consistency(struct ps_session *session, const Ps__V1__Consistency *from);

/** Put the lease into the view, progress of the own report included. */
void ps_session_state_lease(struct ps_session *session);

/** The min clock never goes back within a generation. */
void ps_session_state_min_clock(struct ps_session *session, uint64_t min_clock);

/** How long to wait for the silent, unless the user said it; 0: it is not said. */
void ps_session_state_patience(struct ps_session *session, uint32_t patience_ms);

/** The cut to hold for has come, has changed, or (0) goes on. */
void ps_session_state_hold(struct ps_session *session, uint64_t hold);

#endif
