#ifndef PS_WORKER_CLIENT_CLUSTER_H
#define PS_WORKER_CLIENT_CLUSTER_H
/*
 * client/cluster.h — what the coordinator describes, from generated structs to those of
 * <ps/client.h>. Bytes of a peer: what makes no sense is refused. Pure.
 */
#include <stdbool.h>

#include <ps/client.h>

#include "base/mem.h"
#include "coordinator.pb-c.h"

/** False: it can't be. `from` may be NULL. */
bool ps_cluster_read_consistency(const Ps__V1__Consistency *from, struct ps_consistency *ret);

/** False: it can't be. */
bool ps_cluster_read_table(const Ps__V1__Table *from, struct ps_table *ret);

/**
 * All of it, in one block, to be freed with ps_cluster_free.
 * @return PS_ERR_NOMEM, PS_ERR_CORRUPT
 */
PS_MUST_CHECK enum ps_status ps_cluster_read(const Ps__V1__DescribeReply *reply, struct ps_mem *mem,
                                             struct ps_cluster **ret, struct ps_error *err);

#endif
