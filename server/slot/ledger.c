/*
 * ledger.c — see ledger.h.
 *
 * All counts are plain sums: relaxed, each taken amount given back once by whoever took it. An
 * account that is given to another session while a late amount of the former arrives is charged for
 * it until that is given back: a moment's error, and the sums stay right.
 */
#include "slot/ledger.h"

#include <string.h>

#include "base/assert.h"

#define LITTLE_BYTES \
    (4ull * PS_HEAD_BYTES_MAX) /* A pull by itself, and some pages of small tables. */

struct ps_ledger *ps_ledger_create(struct ps_mem *mem, const struct ps_ledger_limits *limits)
{
    struct ps_ledger *ledger = ps_mem_alloc(mem, PS_MEM_SESSIONS, sizeof(*ledger));
    if (ledger != NULL) {
        ledger->limits = *limits;
        if (limits->session_bytes == 0) {
            ledger->limits.session_bytes = PS_SESSION_BYTES_MAX;
        }
        if (limits->total_bytes == 0) {
            ledger->limits.total_bytes = PS_CALLS_BYTES_MAX;
        }
        atomic_init(&ledger->n_refs, 1);
    }
    return ledger;
}

void ps_ledger_ref(struct ps_ledger *ledger)
{
    atomic_fetch_add_explicit(&ledger->n_refs, 1, memory_order_relaxed);
}

void ps_ledger_unref(struct ps_ledger *ledger)
{
    if (ledger != NULL &&
        atomic_fetch_sub_explicit(&ledger->n_refs, 1, memory_order_acq_rel) == 1) {
        PS_ASSERT(atomic_load(&ledger->bytes) == 0);
        PS_ASSERT(atomic_load(&ledger->n_calls) == 0 && atomic_load(&ledger->n_lent) == 0);
        ps_mem_free(ledger);
    }
}

/* ---- Accounts ------------------------------------------------------------------------------- */

static struct ps_account *find(struct ps_ledger *ledger, uint64_t session)
{
    uint32_t n = atomic_load_explicit(&ledger->n_accounts, memory_order_acquire);
    for (uint32_t i = 0; i < n && session != 0; i++) {
        struct ps_account *account = &ledger->accounts[i];
        if (atomic_load_explicit(&account->session, memory_order_acquire) == session) {
            return account;
        }
    }
    return NULL;
}

/* The halves of an id. */
struct id_words {
    uint64_t at[2];
};

static struct id_words words_of(const struct ps_id *id)
{
    struct id_words words;
    PS_STATIC_ASSERT(sizeof(words) == sizeof(id->bytes), "an id is two words");
    memcpy(&words, id->bytes, sizeof(words));
    return words;
}

struct ps_account *ps_ledger_find(struct ps_ledger *ledger, uint64_t session,
                                  const struct ps_id *id)
{
    struct ps_account *account = find(ledger, session);
    struct id_words words = words_of(id);
    for (int i = 0; i < 2 && account != NULL; i++) {
        if (atomic_load_explicit(&account->id[i], memory_order_relaxed) != words.at[i]) {
            return &ledger->strangers; /* Who only knows a number must not use up its share. */
        }
    }
    return account != NULL ? account : &ledger->strangers;
}

/* The number last: who finds it finds the id. */
static void assign(struct ps_account *account, const struct ps_open_session *session)
{
    struct id_words words = words_of(&session->id);
    atomic_store_explicit(&account->session, 0, memory_order_relaxed);
    atomic_store_explicit(&account->parked, 0, memory_order_relaxed);
    for (int i = 0; i < 2; i++) {
        atomic_store_explicit(&account->id[i], words.at[i], memory_order_relaxed);
    }
    atomic_store_explicit(&account->session, session->number, memory_order_release);
    account->open = true;
}

/* An account that nobody has any more; NULL: the closed ones still have pages on loan. */
static struct ps_account *free_account(struct ps_ledger *ledger)
{
    uint32_t n = atomic_load_explicit(&ledger->n_accounts, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
        struct ps_account *account = &ledger->accounts[i];
        if (!account->open && atomic_load(&account->bytes) == 0 &&
            atomic_load(&account->n_calls) == 0) {
            return account;
        }
    }
    if (n == PS_ACCOUNTS_MAX) {
        return NULL;
    }
    atomic_store_explicit(&ledger->n_accounts, n + 1, memory_order_release);
    return &ledger->accounts[n];
}

void ps_ledger_sessions(struct ps_ledger *ledger, const struct ps_open_session *sessions,
                        uint32_t n)
{
    for (uint32_t i = 0; i < PS_ACCOUNTS_MAX; i++) {
        ledger->accounts[i].open = false;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct ps_account *account = find(ledger, sessions[i].number);
        if (account != NULL) {
            account->open = true;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        bool known = find(ledger, sessions[i].number) != NULL;
        struct ps_account *account = known ? NULL : free_account(ledger);
        if (account != NULL) {
            assign(account, &sessions[i]);
        }
    }
}

/* ---- Amounts -------------------------------------------------------------------------------- */

static void give(struct ps_ledger *ledger, struct ps_account *account, uint64_t n_bytes)
{
    uint64_t of_session = atomic_fetch_sub_explicit(&account->bytes, n_bytes, memory_order_relaxed);
    uint64_t of_all = atomic_fetch_sub_explicit(&ledger->bytes, n_bytes, memory_order_relaxed);
    PS_ASSERT(of_session >= n_bytes && of_all >= n_bytes);
}

/*
 * Added first and looked at then: two that come at once may both be refused, never both let in.
 * `reserve`: what of all must stay free.
 */
static bool take(struct ps_ledger *ledger, struct ps_account *account, uint64_t n_bytes,
                 uint64_t reserve)
{
    uint64_t before = atomic_fetch_add_explicit(&ledger->bytes, n_bytes, memory_order_relaxed);
    uint64_t of_session =
        n_bytes + atomic_fetch_add_explicit(&account->bytes, n_bytes, memory_order_relaxed);
    const struct ps_ledger_limits *limits = &ledger->limits;
    uint64_t used = before + reserve;
    uint64_t left = used < limits->total_bytes ? limits->total_bytes - used : 0;
    if (of_session <= limits->session_bytes && of_session <= left) {
        return true;
    }
    give(ledger, account, n_bytes);
    return false;
}

bool ps_ledger_begin_call(struct ps_ledger *ledger, struct ps_account *account, uint64_t n_bytes)
{
    uint32_t of_session = atomic_fetch_add_explicit(&account->n_calls, 1, memory_order_relaxed);
    uint32_t of_all = atomic_fetch_add_explicit(&ledger->n_calls, 1, memory_order_relaxed);
    bool refused = atomic_load_explicit(&account->refused, memory_order_relaxed);
    bool taken = of_session < PS_SESSION_CALLS_MAX && of_all < PS_CALLS_MAX &&
                 take(ledger, account, n_bytes, refused ? 0 : ledger->limits.total_bytes / 8);
    if (refused == taken) {
        atomic_store_explicit(&account->refused, !taken, memory_order_relaxed);
    }
    if (taken) {
        return true;
    }
    atomic_fetch_sub_explicit(&account->n_calls, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&ledger->n_calls, 1, memory_order_relaxed);
    return false;
}

void ps_ledger_end_call(struct ps_ledger *ledger, struct ps_account *account, uint64_t n_bytes)
{
    give(ledger, account, n_bytes);
    uint32_t of_session = atomic_fetch_sub_explicit(&account->n_calls, 1, memory_order_relaxed);
    uint32_t of_all = atomic_fetch_sub_explicit(&ledger->n_calls, 1, memory_order_relaxed);
    PS_ASSERT(of_session > 0 && of_all > 0);
}

bool ps_ledger_lend(struct ps_ledger *ledger, struct ps_account *account, uint32_t n_pages,
                    uint64_t n_bytes)
{
    uint32_t n_lent = atomic_fetch_add_explicit(&ledger->n_lent, n_pages, memory_order_relaxed);
    bool little = atomic_load_explicit(&account->bytes, memory_order_relaxed) <= LITTLE_BYTES;
    uint64_t reserve = little ? 0 : ledger->limits.total_bytes / 8;
    if (n_lent + n_pages <= PS_PAGES_LENT_MAX && take(ledger, account, n_bytes, reserve)) {
        atomic_fetch_add_explicit(&ledger->lent_bytes, n_bytes, memory_order_relaxed);
        return true;
    }
    atomic_fetch_sub_explicit(&ledger->n_lent, n_pages, memory_order_relaxed);
    return false;
}

void ps_ledger_return(struct ps_ledger *ledger, struct ps_account *account, uint32_t n_pages,
                      uint64_t n_bytes)
{
    atomic_fetch_sub_explicit(&ledger->lent_bytes, n_bytes, memory_order_relaxed);
    uint32_t n_lent = atomic_fetch_sub_explicit(&ledger->n_lent, n_pages, memory_order_relaxed);
    PS_ASSERT(n_lent >= n_pages);
    give(ledger, account, n_bytes);
}

uint64_t ps_ledger_serial(struct ps_ledger *ledger)
{
    return 1 + atomic_fetch_add_explicit(&ledger->n_serials, 1, memory_order_relaxed);
}

/* An average over the last sixteen or so; a change that is lost to another thread's is no harm. */
void ps_ledger_note_passage(struct ps_ledger *ledger, uint64_t ns)
{
    uint64_t average = atomic_load_explicit(&ledger->passage_ns, memory_order_relaxed);
    average = average - average / 16 + ns / 16;
    atomic_store_explicit(&ledger->passage_ns, average, memory_order_relaxed);
}

uint32_t ps_ledger_retry_ms(const struct ps_ledger *ledger)
{
    uint64_t half_ms =
        atomic_load_explicit(&ledger->passage_ns, memory_order_relaxed) / 2 / 1000000;
    if (half_ms < PS_RETRY_MS_MIN) {
        return PS_RETRY_MS_MIN;
    }
    return half_ms < PS_RETRY_MS_MAX ? (uint32_t)half_ms : PS_RETRY_MS_MAX;
}
