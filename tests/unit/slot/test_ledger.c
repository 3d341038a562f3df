/*
 * test_ledger.c — accounts and loans: sums that come out even whatever order things end in.
 */
#include "base/rng.h"
#include "lib/test_main.h"
#include "slot/loan.h"
#include "suites.h"

#define MIB (1ull << 20)

static struct ps_mem mem;

static struct ps_ledger *make(uint64_t session_bytes, uint64_t total_bytes)
{
    ps_mem_init(&mem);
    struct ps_ledger *ledger =
        ps_ledger_create(&mem, &(struct ps_ledger_limits){.session_bytes = session_bytes,
                                                          .total_bytes = total_bytes});
    ck_assert_ptr_nonnull(ledger);
    return ledger;
}

static void expect_nothing_left(void)
{
    for (uint32_t c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        ck_assert_uint_eq(atomic_load(&mem.used[c]), 0);
    }
}

static struct ps_id id_of(uint64_t number)
{
    return (struct ps_id){{(uint8_t)number, (uint8_t)(number >> 8), 1}};
}

static void open_sessions(struct ps_ledger *ledger, const uint64_t *numbers, uint32_t n)
{
    static struct ps_open_session sessions[PS_SESSIONS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        sessions[i] = (struct ps_open_session){.number = numbers[i], .id = id_of(numbers[i])};
    }
    ps_ledger_sessions(ledger, sessions, n);
}

static struct ps_account *account_of(struct ps_ledger *ledger, uint64_t number)
{
    struct ps_id id = id_of(number);
    return ps_ledger_find(ledger, number, &id);
}

START_TEST(zero_means_the_preset)
{
    struct ps_ledger *ledger = make(0, 0);
    ck_assert_uint_eq(ledger->limits.session_bytes, PS_SESSION_BYTES_MAX);
    ck_assert_uint_eq(ledger->limits.total_bytes, PS_CALLS_BYTES_MAX);
    ps_ledger_unref(ledger);
    expect_nothing_left();
}
END_TEST

START_TEST(an_account_is_found_while_its_session_is_open)
{
    struct ps_ledger *ledger = make(0, 0);
    ck_assert_ptr_eq(account_of(ledger, 7), &ledger->strangers);
    ck_assert_ptr_eq(account_of(ledger, 0), &ledger->strangers);
    open_sessions(ledger, (const uint64_t[]){3, 7}, 2);
    struct ps_account *seven = account_of(ledger, 7);
    ck_assert_ptr_ne(seven, &ledger->strangers);
    ck_assert_ptr_ne(seven, account_of(ledger, 3));
    struct ps_id of_three = id_of(3);
    ck_assert_ptr_eq(ps_ledger_find(ledger, 7, &of_three), &ledger->strangers);
    open_sessions(ledger, (const uint64_t[]){7, 9}, 2);
    ck_assert_ptr_eq(account_of(ledger, 7), seven);              /* It keeps its place. */
    ck_assert_ptr_eq(account_of(ledger, 3), &ledger->strangers); /* Its place is 9's. */
    ps_ledger_unref(ledger);
}
END_TEST

/* Sessions come and go for ever; one whose pages are still out keeps its account from others. */
START_TEST(places_are_used_again_but_not_before_their_pages_are_back)
{
    struct ps_ledger *ledger = make(0, 0);
    open_sessions(ledger, (const uint64_t[]){1}, 1);
    struct ps_account *first = account_of(ledger, 1);
    ck_assert(ps_ledger_lend(ledger, first, 1, 4096));
    for (uint64_t round = 1; round < 20; round++) {
        uint64_t numbers[PS_SESSIONS_MAX];
        for (uint32_t i = 0; i < PS_SESSIONS_MAX; i++) {
            numbers[i] = round * 1000 + i;
        }
        open_sessions(ledger, numbers, PS_SESSIONS_MAX);
        for (uint32_t i = 0; i < PS_SESSIONS_MAX; i++) {
            struct ps_account *account = account_of(ledger, numbers[i]);
            ck_assert_ptr_ne(account, &ledger->strangers);
            ck_assert_ptr_ne(account, first);
        }
    }
    ps_ledger_return(ledger, first, 1, 4096);
    ps_ledger_unref(ledger);
}
END_TEST

START_TEST(amounts_end_where_their_limits_say)
{
    struct ps_ledger *ledger = make(2 * MIB, 100 * MIB);
    open_sessions(ledger, (const uint64_t[]){1, 2}, 2);
    struct ps_account *one = account_of(ledger, 1);
    struct ps_account *two = account_of(ledger, 2);
    ck_assert(ps_ledger_begin_call(ledger, one, MIB));
    ck_assert(ps_ledger_lend(ledger, one, 3, MIB));
    ck_assert(!ps_ledger_begin_call(ledger, one, 1));
    ck_assert(!ps_ledger_lend(ledger, one, 1, 1));
    ck_assert(ps_ledger_begin_call(ledger, two, 2 * MIB));
    ck_assert(!ps_ledger_begin_call(ledger, two, UINT64_MAX / 4)); /* Absurd, and no wrap. */
    ps_ledger_end_call(ledger, one, MIB);
    ck_assert(ps_ledger_lend(ledger, one, 1, MIB));
    ps_ledger_return(ledger, one, 4, 2 * MIB);
    ps_ledger_end_call(ledger, two, 2 * MIB);
    ck_assert_uint_eq(atomic_load(&ledger->bytes), 0);
    ps_ledger_unref(ledger);
}
END_TEST

START_TEST(there_is_an_end_to_pages_too)
{
    struct ps_ledger *ledger = make(0, 0);
    struct ps_account *account = account_of(ledger, 1);
    ck_assert(ps_ledger_lend(ledger, account, PS_PAGES_LENT_MAX, 1));
    ck_assert(!ps_ledger_lend(ledger, account, 1, 1));
    ps_ledger_return(ledger, account, PS_PAGES_LENT_MAX, 1);
    ps_ledger_unref(ledger);
}
END_TEST

/* n greedy ones come to hold an (n + 1)th of 7/8 each, though the first began with half of it. */
START_TEST(greedy_sessions_come_to_even_shares_and_leave_one)
{
    static const uint32_t counts[] = {1, 2, 7, 63};
    uint32_t n = counts[_i];
    uint64_t each = 64 * 1024;
    struct ps_ledger *ledger = make(UINT64_MAX / 2, 64 * MIB);
    uint64_t numbers[64];
    for (uint32_t i = 0; i < n; i++) {
        numbers[i] = i + 1;
    }
    open_sessions(ledger, numbers, n);
    struct ps_rng rng = ps_rng_from(n);
    uint32_t held[64] = {0};
    while (ps_ledger_lend(ledger, account_of(ledger, 1), 1, each)) {
        held[0]++;
    }
    ck_assert_uint_eq(held[0] * each, 28 * MIB);
    for (uint32_t try = 0; try < 400000; try++) { /* All calls take equally long. */
        uint32_t i = (uint32_t)(ps_rng_next(&rng) % n);
        struct ps_account *account = account_of(ledger, i + 1);
        if (held[i] > 0 && try % 2 == 0) {
            ps_ledger_return(ledger, account, 1, each);
            held[i]--;
        }
        while (ps_ledger_lend(ledger, account, 1, each)) {
            held[i]++;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t share = 56 * MIB / (n + 1) / each;
        ck_assert_uint_ge(held[i] + 2, share);
        ck_assert_uint_le(held[i], share + 2);
        ps_ledger_return(ledger, account_of(ledger, i + 1), held[i], held[i] * each);
    }
    ps_ledger_unref(ledger);
}
END_TEST

/* Their shares are smaller than one call of it. */
START_TEST(many_who_pull_small_pages_do_not_starve_one_with_a_large_call)
{
    enum {
        N = 16
    };
    struct ps_ledger *ledger = make(16 * MIB, PS_CALLS_BYTES_LEAST);
    uint64_t numbers[N + 1];
    uint32_t held[N] = {0};
    uint64_t each = 300000;
    uint64_t large = PS_CALL_PAYLOAD_BYTES + PS_BLOCK_FLOATS_MAX * sizeof(float);
    for (uint32_t i = 0; i <= N; i++) {
        numbers[i] = i + 1;
    }
    open_sessions(ledger, numbers, N + 1);
    struct ps_rng rng = ps_rng_from(1);
    uint32_t n_let_in = 0;
    for (uint32_t try = 0; try < 20000; try++) {
        uint32_t i = (uint32_t)(ps_rng_next(&rng) % N);
        struct ps_account *account = account_of(ledger, i + 1);
        if (held[i] > 0) {
            ps_ledger_return(ledger, account, 1, each);
            held[i]--;
        }
        while (ps_ledger_lend(ledger, account, 1, each)) {
            held[i]++;
        }
        struct ps_account *other = account_of(ledger, N + 1);
        if (try > 10000 && try % 100 == 0 && ps_ledger_begin_call(ledger, other, large)) {
            n_let_in++;
            ps_ledger_end_call(ledger, other, large);
        }
    }
    ck_assert_uint_ge(n_let_in, 49); /* Every second time. */
    for (uint32_t i = 0; i < N; i++) {
        ps_ledger_return(ledger, account_of(ledger, i + 1), held[i], held[i] * each);
    }
    ps_ledger_unref(ledger);
}
END_TEST

START_TEST(a_refused_caller_waits_as_long_as_half_of_those_before_it_take)
{
    struct ps_ledger *ledger = make(0, 0);
    ck_assert_uint_eq(ps_ledger_retry_ms(ledger), PS_RETRY_MS_MIN);
    for (uint32_t i = 0; i < 200; i++) {
        ps_ledger_note_passage(ledger, 100 * 1000000ull);
    }
    ck_assert_uint_ge(ps_ledger_retry_ms(ledger), 45);
    ck_assert_uint_le(ps_ledger_retry_ms(ledger), 50);
    for (uint32_t i = 0; i < 200; i++) {
        ps_ledger_note_passage(ledger, 3600 * 1000000000ull);
    }
    ck_assert_uint_eq(ps_ledger_retry_ms(ledger), PS_RETRY_MS_MAX);
    ps_ledger_unref(ledger);
}
END_TEST

/* The last eighth is for those who were refused: else luck alone would say who comes in. */
START_TEST(who_was_refused_comes_in_before_those_who_were_not)
{
    struct ps_ledger *ledger = make(64 * MIB, 64 * MIB);
    open_sessions(ledger, (const uint64_t[]){1, 2, 3}, 3);
    struct ps_account *one = account_of(ledger, 1);
    struct ps_account *two = account_of(ledger, 2);
    struct ps_account *three = account_of(ledger, 3);
    ck_assert(ps_ledger_begin_call(ledger, one, 28 * MIB));
    ck_assert(ps_ledger_begin_call(ledger, two, 14 * MIB));
    ck_assert(!ps_ledger_begin_call(ledger, three, 15 * MIB)); /* 22 are left, 8 of them kept. */
    ck_assert(ps_ledger_begin_call(ledger, three, 15 * MIB));
    ck_assert(!atomic_load(&three->refused));
    ps_ledger_end_call(ledger, three, 15 * MIB);
    ck_assert(!ps_ledger_begin_call(ledger, three, 15 * MIB)); /* Once. */
    ps_ledger_end_call(ledger, one, 28 * MIB);
    ps_ledger_end_call(ledger, two, 14 * MIB);
    ps_ledger_unref(ledger);
}
END_TEST

/* gRPC may let go of a page when the call, the table and the server are gone. */
START_TEST(a_page_may_come_back_after_everything_else_is_gone)
{
    struct ps_ledger *ledger = make(0, 0);
    struct ps_dense_spec spec = {.name = "w",
                                 .dtype = PS_DTYPE_F32,
                                 .n_dims = 1,
                                 .dims = {2000},
                                 .n_elements = 2000,
                                 .block_floats = 1024};
    struct ps_dense *dense = NULL;
    ck_assert_int_eq(ps_dense_create(&spec, &mem, &dense, NULL), PS_OK);
    struct ps_account *account = account_of(ledger, 1);
    struct ps_loan *loan = ps_loan_create(&mem, ledger, account, 2);
    ck_assert_ptr_nonnull(loan);
    uint64_t n_bytes = 0;
    for (uint32_t block = 0; block < 2; block++) {
        ck_assert_int_eq(ps_dense_add_block(dense, block, NULL), PS_OK);
        n_bytes += ps_loan_bytes(ps_dense_page(dense, block));
    }
    ck_assert(ps_ledger_lend(ledger, account, 2, n_bytes));
    ps_loan_lend(loan, 0, dense, 0);
    ps_loan_lend(loan, 1, dense, 1);
    ps_loan_release(loan);
    ps_dense_destroy(dense);
    ps_ledger_unref(ledger);
    ck_assert_uint_eq(atomic_load(&ledger->lent_bytes), n_bytes); /* The loan has it still. */
    ps_loan_return(&loan->lent[1]);
    ps_loan_return(&loan->lent[0]);
    expect_nothing_left();
}
END_TEST

Suite *suite_ledger(void)
{
    Suite *suite = suite_create("ledger");
    TCase *tcase = tcase_create("ledger");
    tcase_add_test(tcase, zero_means_the_preset);
    tcase_add_test(tcase, an_account_is_found_while_its_session_is_open);
    tcase_add_test(tcase, places_are_used_again_but_not_before_their_pages_are_back);
    tcase_add_test(tcase, amounts_end_where_their_limits_say);
    tcase_add_test(tcase, there_is_an_end_to_pages_too);
    tcase_add_loop_test(tcase, greedy_sessions_come_to_even_shares_and_leave_one, 0, 4);
    tcase_add_test(tcase, many_who_pull_small_pages_do_not_starve_one_with_a_large_call);
    tcase_add_test(tcase, a_refused_caller_waits_as_long_as_half_of_those_before_it_take);
    tcase_add_test(tcase, who_was_refused_comes_in_before_those_who_were_not);
    tcase_add_test(tcase, a_page_may_come_back_after_everything_else_is_gone);
    suite_add_tcase(suite, tcase);
    return suite;
}
