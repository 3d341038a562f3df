#ifndef PS_COMMON_PORT_DIRECT_H
#define PS_COMMON_PORT_DIRECT_H
/*
 * port/direct.h — a transport that is a function call: client and server in one process and one
 * thread, one inline executor between them.
 *
 * A request is delivered as mail of the executor, its reply as another: no handler runs inside the
 * call that caused it. Heads are copied once, pieces are borrowed all the way. For --in-process.
 */
#include "port/inline_exec.h"
#include "port/transport.h"

struct ps_direct;

/** `exec` outlives it. NULL without memory. */
struct ps_direct *ps_direct_create(struct ps_exec *exec);
/** Everything opened through it must be closed before. NULL does nothing. */
void ps_direct_destroy(struct ps_direct *direct);
struct ps_transport *ps_direct_transport(struct ps_direct *direct);

#endif
