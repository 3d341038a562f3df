#ifndef PS_TOOLS_PSCTL_PRINT_H
#define PS_TOOLS_PSCTL_PRINT_H
/*
 * psctl_print.h — a Describe reply as text for people and as JSON for programs, on standard output.
 *
 * Each returns false when there was no memory. The reply is foreign: what may be absent is checked.
 */
#include <stdbool.h>

#include "coordinator.pb-c.h"

bool psctl_status(const Ps__V1__DescribeReply *describe);
bool psctl_status_json(const Ps__V1__DescribeReply *describe);
bool psctl_tables(const Ps__V1__DescribeReply *describe);
bool psctl_tables_json(const Ps__V1__DescribeReply *describe);

#endif
