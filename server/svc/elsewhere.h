#ifndef PS_SERVER_SVC_ELSEWHERE_H
#define PS_SERVER_SVC_ELSEWHERE_H
/*
 * svc/elsewhere.h — what a server answers that does not coordinate: who does.
 *
 * Only the methods that a program calls first; the others need a session, which nobody gets here.
 */
#include "base/limits.h"
#include "port/transport.h"

#define PS_SVC_ELSEWHERE_METHODS 3u

struct ps_svc_elsewhere {
    const char *coordinator; /* Address; outlives the listener. */
};

void ps_svc_elsewhere_methods(struct ps_svc_elsewhere *elsewhere,
                              struct ps_method methods[PS_SVC_ELSEWHERE_METHODS]);

#endif
