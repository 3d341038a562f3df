#ifndef PS_WORKER_CLIENT_LIB_CLIENT_OVER_H
#define PS_WORKER_CLIENT_LIB_CLIENT_OVER_H
/*
 * client/lib/client_over.h — a client over other ports than gRPC and a thread: for one process that
 * plays a whole cluster, and for tests. Everything else is as <ps/client.h> says.
 */
#include <ps/client.h>

#include "port/exec.h"
#include "port/inline_exec.h"
#include "port/transport.h"

/** What a client stands on. All of it outlives the client. */
struct ps_client_ports {
    struct ps_transport *transport;
    struct ps_exec *exec; /* NULL: a thread of the client's own. */
    /** `exec` itself when it is an inline one: whoever waits pumps it, so only one thread may use
     * the client, that of the executor. Else NULL. */
    struct ps_inline_exec *inline_exec;
    bool plant_new_sequence; /* As struct ps_session_options. */
};

/** As ps_client_open; options->runtime is not looked at. */
PS_MUST_CHECK enum ps_status ps_client_open_over(const struct ps_client_ports *ports,
                                                 const struct ps_client_options *options,
                                                 struct ps_client **ret, struct ps_error *err);

#endif
