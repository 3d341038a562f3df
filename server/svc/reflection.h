#ifndef PS_SERVER_SVC_REFLECTION_H
#define PS_SERVER_SVC_REFLECTION_H
/*
 * svc/reflection.h — grpc.reflection.v1 and v1alpha.ServerReflection: what is served here, and the
 * protos of it, so that a client in any language needs no file of ours.
 *
 * Answers come from descriptors that the build embedded (proto/embed.py): a look into two tables on
 * the transport's thread, and static bytes lent to it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "port/transport.h"

#define PS_REFLECTION_METHODS 2u /* Rows that ps_reflection_methods writes. */

/** In the caller's struct; lives while the listener does. */
struct ps_reflection {
    struct ps_mem *mem;              /* May be NULL. */
    const struct ps_method *methods; /* [n_methods] Of the listener: these services are listed. */
    uint32_t n_methods;
    _Atomic uint32_t n_open; /* Streams in our hands. */
};

/** Write the PS_REFLECTION_METHODS rows for a listener. */
void ps_reflection_methods(struct ps_reflection *reflection, struct ps_method *methods);

/** Whether no stream is open: after the listener has been stopped. */
bool ps_reflection_idle(const struct ps_reflection *reflection);

#endif
