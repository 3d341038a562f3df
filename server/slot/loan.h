#ifndef PS_SERVER_SLOT_LOAN_H
#define PS_SERVER_SLOT_LOAN_H
/*
 * slot/loan.h — the pages and the gathered rows that one reply lends to the transport.
 *
 * Made when the call arrives, so that nothing has to be found later; gone when the call is answered
 * and the last page is back, which may be long after it: a peer that stops reading keeps the pages
 * of its replies until its connection is closed. What it can keep so is what its account bears.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "slot/ledger.h"
#include "table/dense.h"

struct ps_loan;

struct ps_lent {
    struct ps_loan *loan;
    struct ps_page *page; /* NULL: not lent, or rows. */
    float *rows;          /* Gathered for this reply; NULL: a page, or not lent. */
    uint64_t n_rows_bytes;
};

struct ps_loan {
    struct ps_ledger *ledger; /* A reference. */
    struct ps_account *account;
    _Atomic uint32_t n_holders; /* The call, and every page or run of rows that is out. */
    struct ps_lent lent[];      /* One per part of the pull. */
};

/** For `n_parts`; the call's own hold is the caller's. NULL without memory. */
PS_MUST_CHECK struct ps_loan *ps_loan_create(struct ps_mem *mem, struct ps_ledger *ledger,
                                             struct ps_account *account, uint32_t n_parts);

/** What a page costs its borrower. */
uint64_t ps_loan_bytes(const struct ps_page *page);

/** What `n_bytes` of gathered rows cost. */
uint64_t ps_loan_rows_bytes(uint64_t n_bytes);

/** Part `at` borrows a held block, for which ps_ledger_lend has taken the bytes. Lane thread. */
void ps_loan_lend(struct ps_loan *loan, uint32_t at, struct ps_dense *dense, uint32_t block);

/** Part `at` is these rows, a block of ps_mem that is freed with it; likewise. Lane thread. */
void ps_loan_lend_rows(struct ps_loan *loan, uint32_t at, float *rows, uint64_t n_bytes);

/** `arg`, a struct ps_lent, comes back: `done` of a piece. Any thread. */
void ps_loan_return(void *arg);

/** The call is answered. NULL does nothing. */
void ps_loan_release(struct ps_loan *loan);

#endif
