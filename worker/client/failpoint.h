#ifndef PS_WORKER_CLIENT_FAILPOINT_H
#define PS_WORKER_CLIENT_FAILPOINT_H
/*
 * client/failpoint.h — test builds (-Dplant=true): the process kills or stops itself at the n-th
 * occasion of a place between a push and its tick.
 *
 *   push sent --> first server's ack --> all acks --> unit done --> report sent --> heard
 *                       |                   |                |          |
 *                  BETWEEN_ACKS           ACKED          UNTICKED     TICKED
 *
 * One failpoint for the process, set before there are clients, met on the executor of one; it fires
 * once. Without PS_PLANT all of this is nothing.
 */
#include <stdbool.h>
#include <stdint.h>

#include <ps/client.h>

#include "client/flow_core.h"

enum ps_failpoint_place {
    /* Of a push to several servers: one has acknowledged all that is its own, the others' calls are
     * held back until then. */
    PS_FAILPOINT_BETWEEN_ACKS,
    PS_FAILPOINT_ACKED,    /* All have acknowledged; the caller does not know. */
    PS_FAILPOINT_TICKED,   /* The transport has just taken the report of a unit. */
    PS_FAILPOINT_UNTICKED, /* That report is not sent. */
    /* Likewise, but only when the next unit would be reported: two are in the servers. */
    PS_FAILPOINT_UNTICKED_TWICE,
    PS_FAILPOINT_PLACES
};

struct ps_failpoint {
    enum ps_failpoint_place place;
    uint32_t at; /* Which occasion, from 1 on; 0: none. */
    bool stops;  /* SIGSTOP: it goes on when it is continued; else SIGKILL. */
};

#ifdef PS_PLANT
void ps_failpoint_set(const struct ps_failpoint *failpoint);
/** A push is about to be sent. */
void ps_failpoint_push(const struct ps_flow *flow, const struct ps_route *route);
/** Nothing of this push goes to `server` now. */
bool ps_failpoint_holds(const struct ps_flow *flow, uint32_t server);
/** A call of this push was answered. */
void ps_failpoint_answered(const struct ps_flow *flow, const struct ps_route *route);
/** A push was acknowledged by all. */
void ps_failpoint_acked(void);
/** A report is due. False: it is not sent. */
bool ps_failpoint_report(const struct ps_worker_report *report);
/** The transport has it. */
void ps_failpoint_reported(void);
#else
static inline void ps_failpoint_push(const struct ps_flow *flow, const struct ps_route *route)
{
    (void)flow;
    (void)route;
}

static inline bool ps_failpoint_holds(const struct ps_flow *flow, uint32_t server)
{
    (void)flow;
    (void)server;
    return false;
}

static inline void ps_failpoint_answered(const struct ps_flow *flow, const struct ps_route *route)
{
    (void)flow;
    (void)route;
}

static inline void ps_failpoint_acked(void) {}

static inline bool ps_failpoint_report(const struct ps_worker_report *report)
{
    (void)report;
    return true;
}

static inline void ps_failpoint_reported(void) {}
#endif

#endif
