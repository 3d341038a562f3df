#ifndef PS_SERVER_SLOT_DATA_CALL_H
#define PS_SERVER_SLOT_DATA_CALL_H
/*
 * slot/data_call.h — one Pull, Push or PushPull between its arrival and its one reply.
 *
 *   svc_data: read, check whole ──> a share for each lane ──> the last lane finishes it
 *
 * Each lane writes only its own slots' entries of `reply` and `loan`; `n_pending` orders these
 * writes before the reply. Whoever takes it to 0 answers; nobody touches the struct afterwards.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"
#include "port/exec.h"
#include "port/transport.h"
#include "slot/loan.h"
#include "table/page.h"
#include "wire/data_msg.h"

struct ps_lane;
struct ps_data_call;

/** One lane's share of a call. */
struct ps_share_mail {
    struct ps_mail mail;
    struct ps_data_call *call;
    struct ps_lane *lane; /* NULL: the lane has no part in this call. */
    uint64_t min_clock;   /* The lane's view when it answered. */
    uint64_t term;
    uint64_t parked_ns; /* When it was parked; 0: never. */
    uint32_t retry_ms;  /* With BUSY or NO_SPACE in one of its slots. */
    /* The lane's, while pushes of it or what they repeat are not applied: */
    struct ps_list node;
    uint64_t ticket;   /* The last record that it waits for; 0: none. */
    uint32_t n_clears; /* Of the lane, when it began to wait. */
};

struct ps_data_call {
    struct ps_call *call;
    enum ps_data_kind kind;
    struct ps_msg *msg;                        /* The request's bytes; records borrow from it. */
    void (*finish)(struct ps_data_call *call); /* Runs on the last lane. */
    void *arg;
    uint64_t arrived_ns;
    uint32_t n_lanes;
    _Atomic uint32_t n_pending; /* Lanes that have not answered. */
    struct ps_share_mail shares[PS_LANES_MAX];
    struct ps_cursor payloads[PS_CALL_SLOTS_MAX]; /* Of request.push.slots, in their order. */
    struct ps_cursor keys[PS_CALL_SLOTS_MAX];     /* Of request.pull.slots, likewise. */
    struct ps_ledger *ledger;
    struct ps_account *account; /* Who pays. */
    uint64_t n_booked;          /* Bytes of the call itself on the account. */
    uint64_t serial;            /* Orders the pulls of a session: the newest may be parked. */
    struct ps_loan *loan;       /* For request.pull.parts; NULL when it pulls nothing. */
    struct ps_data_request request;
    struct ps_data_reply reply;
};

/** A lane is done with its share. */
void ps_data_call_share_done(struct ps_data_call *call);

#endif
