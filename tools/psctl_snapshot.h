#ifndef PS_TOOLS_PSCTL_SNAPSHOT_H
#define PS_TOOLS_PSCTL_SNAPSHOT_H
/*
 * psctl_snapshot.h — what psctl says of snapshots, of going back to one, and of what lasts.
 */
#include <stdbool.h>

#include <cjson/cJSON.h>

#include "ask.h"
#include "coordinator.pb-c.h"

/** What came of asking for one, or for going back to one. */
void psctl_say_snapshot(const struct ps_ask *ask, bool json);
void psctl_say_restore(const struct ps_ask *ask, bool json);

/** Those that are complete and kept, newest first. @return false: no memory */
bool psctl_snapshots(const Ps__V1__DescribeReply *describe);
bool psctl_snapshots_json(const Ps__V1__DescribeReply *describe);

/** For status: durability, snapshots, servers that are waited for. */
void psctl_print_lasting(const Ps__V1__DescribeReply *describe);
void psctl_lasting_json(const Ps__V1__DescribeReply *describe, cJSON *json);

#endif
