#ifndef PS_SERVER_SVC_HEALTH_H
#define PS_SERVER_SVC_HEALTH_H
/*
 * svc/health.h — grpc.health.v1.Health: can this server answer? For load balancers and probes.
 *
 * An actor on one executor: calls and streams arrive on threads of the transport and become mail,
 * so an answer also says that the executor turns. A watcher has one message in flight; what changes
 * meanwhile is told as the latest state.
 *
 *   create -> ps_health_methods go to a listener -> drain -> listener stopped -> idle -> destroy
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "port/exec.h"
#include "port/transport.h"

#define PS_HEALTH_METHODS      2u /* Rows that ps_health_methods writes. */
#define PS_HEALTH_SERVICES_MAX 4u

struct ps_health;

struct ps_health_options {
    struct ps_exec *exec;
    struct ps_mem *mem;          /* May be NULL. */
    const char *const *services; /* [n_services] Full names; "" is the server as a whole. Static. */
    uint32_t n_services;
};

/** All services begin as not serving. */
PS_MUST_CHECK enum ps_status ps_health_create(const struct ps_health_options *options,
                                              struct ps_health **ret, struct ps_error *err);

/** Write the PS_HEALTH_METHODS rows for a listener; they are valid until destroy. */
void ps_health_methods(struct ps_health *health, struct ps_method *methods);

/** On the executor. Watchers hear of a change. Without effect once drained. */
void ps_health_set(struct ps_health *health, uint32_t service, bool serving);

/** Nothing is served any more: tell the watchers, then end their streams as UNAVAILABLE. */
void ps_health_drain(struct ps_health *health);

/** Whether nothing is under way: after drain, and after the listener has been stopped. */
bool ps_health_idle(const struct ps_health *health);

/** When idle. NULL does nothing. */
void ps_health_destroy(struct ps_health *health);

#endif
