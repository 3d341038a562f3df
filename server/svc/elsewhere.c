/* elsewhere.c — see elsewhere.h. */
#include "svc/elsewhere.h"

#include <stdio.h>

static void refuse(void *arg, struct ps_call *call)
{
    const struct ps_svc_elsewhere *elsewhere = arg;
    char reason[PS_ADDRESS_BYTES_MAX + 80];
    (void)snprintf(reason, sizeof(reason), "this ps-server does not coordinate; dial %s",
                   elsewhere->coordinator);
    ps_call_finish(call, PS_ERR_UNSUPPORTED, NULL, reason);
}

void ps_svc_elsewhere_methods(struct ps_svc_elsewhere *elsewhere,
                              struct ps_method methods[PS_SVC_ELSEWHERE_METHODS])
{
    static const char *const paths[PS_SVC_ELSEWHERE_METHODS] = {
        "/ps.v1.Coordinator/Join",
        "/ps.v1.Coordinator/Describe",
        "/ps.v1.Coordinator/Shutdown",
    };
    for (size_t i = 0; i < PS_SVC_ELSEWHERE_METHODS; i++) {
        methods[i] = (struct ps_method){
            .path = paths[i],
            .traffic = PS_TRAFFIC_CONTROL,
            .roles = PS_ROLE_ANY,
            .call = refuse,
            .arg = elsewhere,
        };
    }
}
