#ifndef PS_SERVER_SLOT_SCAN_CALL_H
#define PS_SERVER_SLOT_SCAN_CALL_H
/*
 * slot/scan_call.h — one Scan between its arrival and its one reply: svc reads and checks it, the
 * lane of its slot fills in the reply and finishes it.
 */
#include <stdint.h>

#include "port/exec.h"
#include "port/transport.h"
#include "slot/loan.h"
#include "wire/scan_msg.h"

struct ps_lane;

struct ps_scan_call {
    struct ps_mail mail;
    struct ps_lane *lane;
    struct ps_call *call;
    void (*finish)(struct ps_scan_call *call); /* Runs on the lane. */
    void *arg;
    uint64_t arrived_ns;
    struct ps_ledger *ledger;
    struct ps_account *account; /* Who pays. */
    uint64_t n_booked;          /* Bytes of the call itself on the account. */
    struct ps_loan *loan;       /* For one part: the payload. */
    uint32_t n_rows_max;        /* That the reply may have, as its bytes say; at least 1. */
    struct ps_scan_request request;
    struct ps_scan_reply reply;
};

#endif
