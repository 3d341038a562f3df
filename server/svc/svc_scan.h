#ifndef PS_SERVER_SVC_SVC_SCAN_H
#define PS_SERVER_SVC_SVC_SCAN_H
/*
 * svc/svc_scan.h — Scan between the wire and the lane of its slot; as svc_data, whose state and
 * bounds it shares.
 */
#include "port/transport.h"

/** Handler of PS_METHOD_SCAN. `arg`: struct ps_svc_data. */
void ps_svc_scan(void *arg, struct ps_call *in);

#endif
