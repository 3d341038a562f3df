/* loan.c — see loan.h. */
#include "slot/loan.h"

#include "base/assert.h"

struct ps_loan *ps_loan_create(struct ps_mem *mem, struct ps_ledger *ledger,
                               struct ps_account *account, uint32_t n_parts)
{
    struct ps_loan *loan =
        ps_mem_alloc(mem, PS_MEM_CALLS, sizeof(*loan) + n_parts * sizeof(loan->lent[0]));
    if (loan != NULL) {
        ps_ledger_ref(ledger);
        loan->ledger = ledger;
        loan->account = account;
        atomic_init(&loan->n_holders, 1);
    }
    return loan;
}

uint64_t ps_loan_bytes(const struct ps_page *page)
{
    return ps_page_bytes(page) + sizeof(struct ps_lent);
}

uint64_t ps_loan_rows_bytes(uint64_t n_bytes)
{
    return n_bytes + sizeof(struct ps_lent);
}

void ps_loan_lend(struct ps_loan *loan, uint32_t at, struct ps_dense *dense, uint32_t block)
{
    struct ps_page *page = ps_dense_borrow(dense, block, PS_PAGE_PULL);
    PS_ASSERT(page != NULL && loan->lent[at].page == NULL);
    loan->lent[at] = (struct ps_lent){.loan = loan, .page = page};
    atomic_fetch_add_explicit(&loan->n_holders, 1, memory_order_relaxed);
}

void ps_loan_lend_rows(struct ps_loan *loan, uint32_t at, float *rows, uint64_t n_bytes)
{
    PS_ASSERT(loan->lent[at].page == NULL && loan->lent[at].rows == NULL);
    loan->lent[at] = (struct ps_lent){.loan = loan, .rows = rows, .n_rows_bytes = n_bytes};
    atomic_fetch_add_explicit(&loan->n_holders, 1, memory_order_relaxed);
}

void ps_loan_return(void *arg)
{
    struct ps_lent *lent = arg;
    struct ps_loan *loan = lent->loan;
    uint64_t n_bytes =
        lent->page != NULL ? ps_loan_bytes(lent->page) : ps_loan_rows_bytes(lent->n_rows_bytes);
    if (lent->page != NULL) {
        ps_page_unref(lent->page, PS_PAGE_PULL);
    }
    ps_mem_free(lent->rows);
    ps_ledger_return(loan->ledger, loan->account, 1, n_bytes);
    ps_loan_release(loan);
}

void ps_loan_release(struct ps_loan *loan)
{
    if (loan != NULL && atomic_fetch_sub_explicit(&loan->n_holders, 1, memory_order_acq_rel) == 1) {
        ps_ledger_unref(loan->ledger);
        ps_mem_free(loan);
    }
}
