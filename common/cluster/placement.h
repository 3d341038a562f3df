#ifndef PS_COMMON_CLUSTER_PLACEMENT_H
#define PS_COMMON_CLUSTER_PLACEMENT_H
/*
 * cluster/placement.h — the first placement of a job: which server gets which slot.
 *
 * Round-robin: slot s goes to server s mod n. No server has more than one slot more than another,
 * and neighbouring blocks of a table lie on different servers, so every step loads all of them.
 */
#include <stdint.h>

/** The server of `slot` among `n_servers` (1 to PS_SERVERS_MAX), as an index from 0. */
uint32_t ps_placement_server(uint32_t slot, uint32_t n_servers);

#endif
