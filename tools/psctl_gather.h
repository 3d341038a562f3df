#ifndef PS_TOOLS_PSCTL_GATHER_H
#define PS_TOOLS_PSCTL_GATHER_H
/*
 * psctl_gather.h — `psctl snapshot --gather DIR`: the parts of a snapshot, wherever they lie, into
 * one directory.
 */
#include "base/error.h"
#include "coordinator.pb-c.h"
#include "os/loop.h"
#include "port/transport.h"
#include "psctl_options.h"

/** Collect options->cut (NULL: the newest) into options->gather, and say so. Runs `loop`. */
enum ps_status psctl_gather(struct ps_transport *transport, struct ps_loop *loop,
                            const struct psctl_options *options,
                            const Ps__V1__DescribeReply *describe, struct ps_error *err);

#endif
