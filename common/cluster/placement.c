/* placement.c — see placement.h. */
#include "cluster/placement.h"

#include "base/assert.h"
#include "base/limits.h"

uint32_t ps_placement_server(uint32_t slot, uint32_t n_servers)
{
    PS_ASSERT(slot < PS_SLOTS);
    PS_ASSERT(n_servers > 0 && n_servers <= PS_SERVERS_MAX);
    return slot % n_servers;
}
