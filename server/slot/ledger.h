#ifndef PS_SERVER_SLOT_LEDGER_H
#define PS_SERVER_SLOT_LEDGER_H
/*
 * slot/ledger.h — what every session costs this server now, and where that ends.
 *
 *     a call:  arrives +1, +bytes ......... answered -1, -bytes
 *     a page:            lent +bytes ......................... the transport lets go -bytes
 *
 * Each open session has an account; whatever names no open session is booked with the strangers,
 * who share one. An amount is taken when
 *
 *     the account's bytes + amount  <=  min(session_bytes, total_bytes - bytes of all)
 *
 * where the last eighth of total_bytes is left alone by calls of whoever was not just refused, and
 * by pages of whoever has more than a little already. So n greedy sessions come to hold an
 * (n + 1)th of the rest each, as much and that eighth are left for whoever comes next, and who was
 * refused once gets in before those who were not: nobody is starved, and there is no queue.
 *
 * Any thread; only the main executor opens accounts. Reference-counted, since a page may come back
 * after the call, the session and the server are gone. The ps_mem that it came from outlives it.
 *
 * Source: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches",
 * IEEE/ACM Transactions on Networking 6(2), 1998.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"
#include "slot/record.h"

/* Open sessions, and as many that are closed while pages of theirs are still on loan. */
#define PS_ACCOUNTS_MAX (2u * PS_SESSIONS_MAX)

struct ps_ledger_limits {
    uint64_t session_bytes; /* 0: PS_SESSION_BYTES_MAX. */
    uint64_t total_bytes;   /* 0: PS_CALLS_BYTES_MAX. */
};

struct ps_account {
    _Atomic uint64_t session; /* Number; 0: free, or the strangers'. */
    _Atomic uint64_t id[2];   /* Its session's: everybody may see numbers, but not these. */
    _Atomic uint64_t bytes;   /* Calls and pages on loan. */
    _Atomic uint32_t n_calls; /* Under way. */
    _Atomic bool refused;     /* Its last call: the next one has the reserve, too. */
    _Atomic uint64_t parked;  /* Serial number of the call that holds the place to park; 0: none. */
    bool open;                /* Of the main executor. */
};

struct ps_ledger {
    struct ps_ledger_limits limits;
    _Atomic uint32_t n_refs;
    _Atomic uint64_t bytes;
    _Atomic uint64_t lent_bytes; /* Of these, pages. */
    _Atomic uint32_t n_lent;     /* Pages; one that is lent twice counts twice. */
    _Atomic uint32_t n_calls;
    _Atomic uint64_t n_serials;
    _Atomic uint64_t passage_ns; /* How long calls lately took from arrival to reply. */
    _Atomic uint32_t n_accounts; /* Places in use so far. */
    struct ps_account strangers;
    struct ps_account accounts[PS_ACCOUNTS_MAX];
};

/** With one reference. NULL without memory. */
PS_MUST_CHECK struct ps_ledger *ps_ledger_create(struct ps_mem *mem,
                                                 const struct ps_ledger_limits *limits);
void ps_ledger_ref(struct ps_ledger *ledger);
/** NULL does nothing. */
void ps_ledger_unref(struct ps_ledger *ledger);

/** These sessions are open from now on, the others are closed. Main executor. */
void ps_ledger_sessions(struct ps_ledger *ledger, const struct ps_open_session *sessions,
                        uint32_t n);

/** The account of an open session, if the id is its; else the strangers'. */
struct ps_account *ps_ledger_find(struct ps_ledger *ledger, uint64_t session,
                                  const struct ps_id *id);

/** A call of `n_bytes` begins; false: one too many, or too much. */
PS_MUST_CHECK bool ps_ledger_begin_call(struct ps_ledger *ledger, struct ps_account *account,
                                        uint64_t n_bytes);
void ps_ledger_end_call(struct ps_ledger *ledger, struct ps_account *account, uint64_t n_bytes);

/** `n_pages` of `n_bytes` together are lent; false: too much. */
PS_MUST_CHECK bool ps_ledger_lend(struct ps_ledger *ledger, struct ps_account *account,
                                  uint32_t n_pages, uint64_t n_bytes);
void ps_ledger_return(struct ps_ledger *ledger, struct ps_account *account, uint32_t n_pages,
                      uint64_t n_bytes);

/** A number that no other call has; > 0. */
uint64_t ps_ledger_serial(struct ps_ledger *ledger);

/** A call, not a parked one, took so long from arrival to reply. */
void ps_ledger_note_passage(struct ps_ledger *ledger, uint64_t ns);

/** How long a refused caller should wait: about what half of the calls before it take. */
uint32_t ps_ledger_retry_ms(const struct ps_ledger *ledger);

#endif
