/* status.c — the rows of ps/status.h as a table. */
#include <stddef.h>

#include <ps/status.h>

#include "base/attr.h"

static const struct {
    const char *text;
    int grpc_code;
    bool retryable;
} infos[] = {
#define X(name, wire, grpc, retry, words) \
    [PS_##name] = {.text = (words), .grpc_code = (grpc), .retryable = (retry)},
    PS_STATUS_MAP(X)
#undef X
};

/* Statuses arrive from the network, so a number may be one that this build does not know. */
static bool known(enum ps_status status)
{
    return (size_t)status < PS_ARRAY_LEN(infos) && infos[status].text != NULL;
}

const char *ps_status_text(enum ps_status status)
{
    return known(status) ? infos[status].text : "unknown status";
}

bool ps_status_retryable(enum ps_status status)
{
    return known(status) && infos[status].retryable;
}

int ps_status_grpc(enum ps_status status)
{
    return known(status) ? infos[status].grpc_code : infos[PS_ERR_INTERNAL].grpc_code;
}

enum ps_status ps_status_from_wire(unsigned wire)
{
    return wire < PS_ARRAY_LEN(infos) && infos[wire].text != NULL ? (enum ps_status)wire
                                                                  : PS_ERR_INTERNAL;
}
