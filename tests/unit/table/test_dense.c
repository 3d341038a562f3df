/*
 * test_dense.c — copy-on-shared: a borrowed page never changes, whoever borrows it for whatever
 * reason and gives it back in whatever order, from other threads too; and what that costs.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "table/dense.h"

enum {
    BLOCK_FLOATS = 1024,
    N_BLOCKS = 6,
    N_ELEMENTS = (N_BLOCKS - 1) * BLOCK_FLOATS + 7, /* The last block is a short one. */
    STATE = 2,
};

static struct ps_mem mem;
static struct ps_dense *dense;

static struct ps_dense_spec spec_of(uint32_t state_per_elem)
{
    return (struct ps_dense_spec){.id = 3,
                                  .name = "weights",
                                  .dtype = PS_DTYPE_F32,
                                  .n_dims = 1,
                                  .dims = {N_ELEMENTS},
                                  .n_elements = N_ELEMENTS,
                                  .block_floats = BLOCK_FLOATS,
                                  .state_per_elem = state_per_elem,
                                  .init = {.kind = PS_INIT_UNIFORM, .scale = 1.0f, .seed = 5}};
}

static void make_table(uint32_t state_per_elem)
{
    ps_mem_init(&mem);
    struct ps_dense_spec spec = spec_of(state_per_elem);
    ck_assert_int_eq(ps_dense_create(&spec, &mem, &dense, NULL), PS_OK);
    for (uint32_t block = 0; block < N_BLOCKS; block++) {
        ck_assert_int_eq(ps_dense_add_block(dense, block, NULL), PS_OK);
    }
}

static uint64_t bytes_used(void)
{
    return atomic_load(&mem.used[PS_MEM_PAGES]);
}

static void destroy_table(void)
{
    ps_dense_destroy(dense);
    dense = NULL;
    ck_assert_uint_eq(bytes_used(), 0);
}

/* An update that adds 1 to every weight and every state value, as an optimizer would. */
static void write_block(uint32_t block)
{
    struct ps_page *out = NULL;
    const struct ps_page *in = NULL;
    ck_assert_int_eq(ps_dense_begin_write(dense, block, PS_PAGE_WITHIN, &out, &in), PS_OK);
    for (uint32_t i = 0; i < in->n; i++) {
        out->weights[i] = in->weights[i] + 1.0f;
    }
    for (uint32_t i = 0; i < dense->spec.state_per_elem * out->n; i++) {
        out->state[i] += 1.0f;
    }
    out->t++;
    out->power[0] += 0.5;
    out->power[1] += 0.25;
    ps_dense_end_write(dense, block, out);
}

START_TEST(blocks_start_with_the_values_of_their_place_in_the_table)
{
    static float want[N_ELEMENTS];
    make_table(STATE);
    ps_init_fill(&dense->spec.init, dense->spec.id, 0, want, N_ELEMENTS);
    uint32_t n_seen = 0;
    for (uint32_t block = 0; block < N_BLOCKS; block++) {
        const struct ps_page *page = ps_dense_page(dense, block);
        ck_assert_uint_eq(page->n, ps_dense_floats(dense, block));
        ck_assert_mem_eq(page->weights, want + n_seen, page->n * sizeof(float));
        ck_assert_uint_eq((uintptr_t)page->weights % 64, 0);
        ck_assert_uint_eq(page->version, 0);
        for (uint32_t i = 0; i < STATE * page->n; i++) {
            ck_assert(page->state[i] == 0.0f);
        }
        n_seen += page->n;
    }
    ck_assert_uint_eq(n_seen, N_ELEMENTS);
    destroy_table();
}
END_TEST

START_TEST(a_page_that_nobody_borrows_is_written_in_place)
{
    make_table(STATE);
    const struct ps_page *before = ps_dense_page(dense, 2);
    float first = before->weights[0];
    uint64_t n_calls = atomic_load(&mem.n_calls);
    for (int i = 0; i < 10; i++) {
        write_block(2);
    }
    ck_assert_ptr_eq(ps_dense_page(dense, 2), before);
    ck_assert(before->weights[0] > first + 9.0f);
    ck_assert_uint_eq(before->version, 10);
    ck_assert_uint_eq(before->t, 10);
    ck_assert_uint_eq(dense->stats.n_writes, 10);
    ck_assert_uint_eq(dense->stats.n_fresh, 0);
    ck_assert_uint_eq(atomic_load(&mem.n_calls), n_calls);
    destroy_table();
}
END_TEST

/* What a borrower sees, kept to be compared when the page is given back. */
struct loan {
    struct ps_page *page;
    enum ps_page_reason reason;
    uint64_t version;
    uint64_t t;
    float weights[BLOCK_FLOATS];
    float state[STATE * BLOCK_FLOATS];
};

static void borrow(struct loan *loan, uint32_t block, enum ps_page_reason reason)
{
    struct ps_page *page = ps_dense_borrow(dense, block, reason);
    ck_assert_ptr_nonnull(page);
    *loan = (struct loan){.page = page, .reason = reason, .version = page->version, .t = page->t};
    memcpy(loan->weights, page->weights, page->n * sizeof(float));
    if (reason != PS_PAGE_PULL) {
        memcpy(loan->state, page->state, STATE * page->n * sizeof(float));
    }
}

static void give_back(const struct loan *loan)
{
    const struct ps_page *page = loan->page;
    ck_assert_uint_eq(page->version, loan->version);
    ck_assert_mem_eq(page->weights, loan->weights, page->n * sizeof(float));
    if (loan->reason != PS_PAGE_PULL) {
        ck_assert_uint_eq(page->t, loan->t);
        ck_assert_mem_eq(page->state, loan->state, STATE * page->n * sizeof(float));
    }
    ps_page_unref(loan->page, loan->reason);
}

/* The table against counters that cannot be wrong: version v of a block is its start plus v. */
static void check_block(uint32_t block, uint64_t version)
{
    float start = 0.0f;
    const struct ps_page *page = ps_dense_page(dense, block);
    uint64_t first = (uint64_t)block * BLOCK_FLOATS;
    ps_init_fill(&dense->spec.init, dense->spec.id, first, &start, 1);
    for (uint64_t v = 0; v < version; v++) {
        start += 1.0f;
    }
    ck_assert_uint_eq(page->version, version);
    ck_assert_uint_eq(page->t, version);
    ck_assert(page->power[0] == 0.5 * (double)version);
    ck_assert(page->power[1] == 0.25 * (double)version);
    ck_assert(page->weights[0] == start);
    ck_assert(page->state[0] == (float)version);
    ck_assert(page->state[STATE * page->n - 1] == (float)version);
}

START_TEST(a_borrowed_page_never_changes_in_any_order_of_events)
{
    enum {
        N_LOANS = 24
    };
    static struct loan loans[N_LOANS];
    uint64_t versions[N_BLOCKS] = {0};
    uint64_t seed = test_seed() + (uint64_t)_i;
    struct ps_rng rng = ps_rng_from(seed);
    make_table(STATE);
    memset(loans, 0, sizeof(loans));
    for (int event = 0; event < 600; event++) {
        uint32_t block = (uint32_t)ps_rng_below(&rng, N_BLOCKS);
        struct loan *loan = &loans[ps_rng_below(&rng, N_LOANS)];
        if (ps_rng_below(&rng, 2) == 0) {
            write_block(block);
            versions[block]++;
            check_block(block, versions[block]);
        } else if (loan->page == NULL) {
            borrow(loan, block, (enum ps_page_reason)ps_rng_below(&rng, PS_PAGE_REASON_COUNT));
        } else {
            give_back(loan);
            loan->page = NULL;
        }
    }
    for (size_t i = 0; i < N_LOANS; i++) {
        if (loans[i].page != NULL) {
            give_back(&loans[i]);
        }
    }
    for (uint32_t block = 0; block < N_BLOCKS; block++) {
        check_block(block, versions[block]);
    }
    destroy_table();
}
END_TEST

START_TEST(pulls_cost_no_copied_byte_and_in_the_long_run_no_allocation)
{
    make_table(STATE);
    uint64_t n_calls = 0;
    for (int round = 0; round < 50; round++) {
        struct ps_page *old = ps_dense_borrow(dense, 1, PS_PAGE_PULL);
        struct ps_page *older = ps_dense_borrow(dense, 1, PS_PAGE_PULL);
        ck_assert_ptr_eq(old, older);
        write_block(1);
        ck_assert_ptr_ne(ps_dense_page(dense, 1), old);
        ps_page_unref(old, PS_PAGE_PULL);
        ps_page_unref(older, PS_PAGE_PULL);
        if (round == 0) {
            n_calls = atomic_load(&mem.n_calls);
        }
    }
    check_block(1, 50);
    ck_assert_uint_eq(atomic_load(&mem.n_calls), n_calls);
    ck_assert_uint_eq(dense->stats.n_fresh, 50);
    ck_assert_uint_eq(dense->stats.n_heap, 1);
    ck_assert_uint_eq(dense->stats.n_bytes_copied, 0);
    destroy_table();
}
END_TEST

START_TEST(readers_of_state_cost_one_copy_of_it_and_no_more)
{
    make_table(STATE);
    enum ps_page_reason reason = _i == 0 ? PS_PAGE_SNAPSHOT : PS_PAGE_REPLICA;
    static struct loan loan;
    borrow(&loan, 0, reason);
    struct ps_page *pulled = ps_dense_borrow(dense, 0, PS_PAGE_PULL);
    write_block(0);
    write_block(0); /* The twin is nobody's: this one is in place. */
    uint64_t n_bytes = STATE * BLOCK_FLOATS * sizeof(float);
    ck_assert_uint_eq(dense->stats.n_bytes_copied, n_bytes);
    ck_assert_uint_eq(dense->stats.n_fresh, 1);
    ps_page_unref(pulled, PS_PAGE_PULL);
    give_back(&loan);
    check_block(0, 2);
    destroy_table();
}
END_TEST

START_TEST(spare_pages_are_few_and_hold_no_state)
{
    enum {
        N_ROUNDS = 3 * PS_PAGES_SPARE_MAX
    };
    struct ps_page *held[N_ROUNDS];
    make_table(STATE);
    uint64_t before = bytes_used();
    for (size_t i = 0; i < N_ROUNDS; i++) {
        held[i] = ps_dense_borrow(dense, 0, i % 2 == 0 ? PS_PAGE_PULL : PS_PAGE_SNAPSHOT);
        write_block(0);
    }
    uint64_t n_page_bytes = BLOCK_FLOATS * sizeof(float) + sizeof(struct ps_page) + 2 * 128;
    ck_assert_uint_gt(bytes_used(), before + N_ROUNDS * BLOCK_FLOATS * sizeof(float));
    for (size_t i = 0; i < N_ROUNDS; i++) {
        ps_page_unref(held[i], i % 2 == 0 ? PS_PAGE_PULL : PS_PAGE_SNAPSHOT);
    }
    ck_assert_uint_le(bytes_used(), before + PS_PAGES_SPARE_MAX * n_page_bytes);
    ck_assert_uint_ge(bytes_used(), before + PS_PAGES_SPARE_MAX * BLOCK_FLOATS * sizeof(float));
    destroy_table();
}
END_TEST

/* A borrower is charged for what it reads: a hundred last blocks are no hundred whole ones. */
START_TEST(the_page_of_a_short_last_block_keeps_no_more_than_it_holds)
{
    make_table(STATE);
    struct ps_page *last = ps_dense_borrow(dense, N_BLOCKS - 1, PS_PAGE_PULL);
    ck_assert_uint_lt(last->n, BLOCK_FLOATS);
    ck_assert_uint_eq(ps_page_bytes(last), sizeof(*last) + last->n * sizeof(float));
    uint64_t before = bytes_used();
    write_block(N_BLOCKS - 1); /* Its twin is as short, though there may be spare whole ones. */
    ck_assert_uint_lt(bytes_used(), before + BLOCK_FLOATS * sizeof(float));
    ps_page_unref(last, PS_PAGE_PULL);
    ck_assert_uint_eq(bytes_used(), before);
    struct ps_page *whole = ps_dense_borrow(dense, 0, PS_PAGE_PULL);
    write_block(0);
    ck_assert_uint_eq(ps_page_bytes(whole), sizeof(*whole) + BLOCK_FLOATS * sizeof(float));
    ps_page_unref(whole, PS_PAGE_PULL);
    destroy_table();
}
END_TEST

START_TEST(pages_on_loan_outlive_their_table_and_then_leave_nothing)
{
    static struct loan loans[3];
    make_table(STATE);
    borrow(&loans[0], 0, PS_PAGE_PULL);
    borrow(&loans[1], 0, PS_PAGE_SNAPSHOT);
    write_block(0);
    borrow(&loans[2], 5, PS_PAGE_REPLICA);
    ps_dense_drop_block(dense, 5);
    ps_dense_drop_block(dense, 5); /* Twice is fine. */
    ck_assert_ptr_null(ps_dense_page(dense, 5));
    ck_assert_ptr_null(ps_dense_borrow(dense, 5, PS_PAGE_PULL));
    ck_assert_uint_eq(dense->n_held, N_BLOCKS - 1);
    ps_dense_destroy(dense);
    for (size_t i = 0; i < PS_ARRAY_LEN(loans); i++) {
        ck_assert_uint_gt(bytes_used(), 0);
        give_back(&loans[i]);
    }
    ck_assert_uint_eq(bytes_used(), 0);
}
END_TEST

START_TEST(a_block_that_comes_back_on_a_spare_page_starts_anew)
{
    make_table(STATE);
    write_block(4);
    ps_dense_drop_block(dense, 4);
    uint64_t n_calls = atomic_load(&mem.n_calls);
    ck_assert_int_eq(ps_dense_add_block(dense, 4, NULL), PS_OK);
    ck_assert_uint_eq(atomic_load(&mem.n_calls), n_calls + 1); /* State only: a spare page. */
    check_block(4, 0);
    write_block(4);
    check_block(4, 1);
    destroy_table();
}
END_TEST

/* A reader thread gives back what it is lent, in no particular order. */
enum {
    RING = 64
};

struct ring {
    struct loan *_Atomic at[RING];
    _Atomic bool done;
};

static void *give_back_all(void *arg)
{
    struct ring *ring = arg;
    bool last = false;
    while (!last) {
        last = atomic_load(&ring->done); /* Read before the sweep, so that none is missed. */
        for (size_t i = 0; i < RING; i++) {
            struct loan *loan = atomic_exchange(&ring->at[i], NULL);
            if (loan != NULL) {
                give_back(loan);
            }
        }
    }
    return NULL;
}

START_TEST(other_threads_may_give_pages_back_while_the_lane_writes)
{
    enum {
        N_EVENTS = 3000
    };
    static struct loan loans[N_EVENTS]; /* Each is used once. */
    static struct ring rings[2];
    pthread_t threads[2];
    struct ps_rng rng = ps_rng_from(test_seed());
    uint64_t versions[N_BLOCKS] = {0};
    size_t n_loans = 0;
    make_table(STATE);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, give_back_all, &rings[i]), 0);
    }
    for (int event = 0; event < N_EVENTS; event++) {
        uint32_t block = (uint32_t)ps_rng_below(&rng, N_BLOCKS);
        struct ring *ring = &rings[event % 2];
        size_t place = (size_t)ps_rng_below(&rng, RING);
        if (ps_rng_below(&rng, 2) == 0 && atomic_load(&ring->at[place]) == NULL) {
            struct loan *loan = &loans[n_loans++];
            borrow(loan, block, (enum ps_page_reason)ps_rng_below(&rng, PS_PAGE_REASON_COUNT));
            atomic_store(&ring->at[place], loan);
        } else {
            write_block(block);
            check_block(block, ++versions[block]);
        }
    }
    if (_i == 0) {
        ps_dense_destroy(dense); /* While pages are still on loan. */
    }
    for (size_t i = 0; i < 2; i++) {
        atomic_store(&rings[i].done, true);
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    if (_i != 0) {
        ps_dense_destroy(dense);
    }
    ck_assert_uint_gt(n_loans, PS_ARRAY_LEN(rings) * RING); /* Some came back meanwhile. */
    ck_assert_uint_eq(bytes_used(), 0);
}
END_TEST

START_TEST(every_refused_allocation_leaves_the_table_as_it_was)
{
    int n_refused = 0;
    for (int64_t fail_at = 0;; fail_at++) {
        ck_assert_int_lt(fail_at, 100); /* A bounded walk: this must end. */
        struct ps_dense_spec spec = spec_of(STATE);
        struct ps_error err = {0};
        ps_mem_init(&mem);
        atomic_store(&mem.fail_after, fail_at);
        dense = NULL;
        enum ps_status status = ps_dense_create(&spec, &mem, &dense, &err);
        for (uint32_t block = 0; status == PS_OK && block < N_BLOCKS; block++) {
            status = ps_dense_add_block(dense, block, &err);
            ck_assert_uint_eq(dense->n_held, status == PS_OK ? block + 1 : block);
        }
        if (status == PS_OK) {
            destroy_table();
            break;
        }
        n_refused++;
        ck_assert_int_eq(status, PS_ERR_NOMEM);
        ck_assert_ptr_nonnull(strstr(err.text, "weights"));
        destroy_table();
    }
    ck_assert_int_ge(n_refused, 3 + 3 * N_BLOCKS);
}
END_TEST

START_TEST(a_write_without_memory_for_the_twin_succeeds_when_readers_are_gone)
{
    for (int64_t fail_at = 0; fail_at < 3; fail_at++) { /* The page, its weights, its state. */
        make_table(STATE);
        struct ps_page *pulled = ps_dense_borrow(dense, 0, PS_PAGE_PULL);
        struct ps_page *saved = ps_dense_borrow(dense, 0, PS_PAGE_SNAPSHOT);
        struct ps_page *out = NULL;
        const struct ps_page *in = NULL;
        atomic_store(&mem.fail_after, fail_at);
        ck_assert_int_eq(ps_dense_begin_write(dense, 0, PS_PAGE_WITHIN, &out, &in), PS_ERR_NOMEM);
        ck_assert_ptr_null(out);
        check_block(0, 0);
        ps_page_unref(pulled, PS_PAGE_PULL);
        ps_page_unref(saved, PS_PAGE_SNAPSHOT);
        write_block(0);
        check_block(0, 1);
        destroy_table();
    }
}
END_TEST

/* Records of a log that is late: many are reserved before the first is applied. */
START_TEST(twins_of_many_records_are_as_many_as_their_claims)
{
    enum {
        IN_FLIGHT = 5,
        ROUNDS = 40
    };
    make_table(STATE);
    uint64_t most = 0;
    uint32_t n_claimed = 0;
    bool claims[ROUNDS] = {false};
    struct ps_page *pulled = NULL;
    for (uint32_t i = 0; i < ROUNDS + IN_FLIGHT; i++) {
        if (i < ROUNDS) {
            pulled = pulled != NULL ? pulled : ps_dense_borrow(dense, 0, PS_PAGE_PULL);
            ck_assert_int_eq(ps_dense_reserve(dense, 0, PS_PAGE_WITHIN, &claims[i]), PS_OK);
            n_claimed += claims[i];
        }
        if (i >= IN_FLIGHT) {
            write_block(0);
            if (claims[i - IN_FLIGHT]) {
                ps_dense_release(dense);
            }
            ck_assert_uint_le(dense->n_reserved, IN_FLIGHT);
        }
        if (i % 3 == 2 && pulled != NULL) {
            ps_page_unref(pulled, PS_PAGE_PULL);
            pulled = NULL;
        }
        most = bytes_used() > most ? bytes_used() : most;
    }
    if (pulled != NULL) {
        ps_page_unref(pulled, PS_PAGE_PULL);
    }
    ck_assert_uint_gt(n_claimed, 0);
    ck_assert_uint_eq(dense->n_reserved, 0);
    ck_assert_uint_eq(dense->n_promised, 0);
    ck_assert_uint_eq(ps_dense_page(dense, 0)->t, ROUNDS);
    /* Twins in flight, the borrowed page, spare ones, and pages' own heads. */
    uint64_t page = BLOCK_FLOATS * (1 + STATE) * sizeof(float);
    ck_assert_uint_le(most, (N_BLOCKS + IN_FLIGHT + 2 + PS_PAGES_SPARE_MAX) * page * 5 / 4);
    destroy_table();
}
END_TEST

/* What was reserved without state does not do when a snapshot has come: one goes beyond. */
START_TEST(a_page_lent_between_reserve_and_update_goes_beyond_the_budget)
{
    make_table(STATE);
    bool claimed = false;
    struct ps_page *pulled = ps_dense_borrow(dense, 0, PS_PAGE_PULL);
    ck_assert_int_eq(ps_dense_reserve(dense, 0, PS_PAGE_WITHIN, &claimed), PS_OK);
    ck_assert(claimed);
    struct ps_page *saved = ps_dense_borrow(dense, 0, PS_PAGE_SNAPSHOT);
    mem.limit[PS_MEM_PAGES] = bytes_used();
    struct ps_page *out = NULL;
    const struct ps_page *in = NULL;
    ck_assert_int_eq(ps_dense_begin_write(dense, 0, PS_PAGE_WITHIN, &out, &in), PS_ERR_NOMEM);
    ck_assert_int_eq(ps_dense_begin_write(dense, 0, PS_PAGE_BEYOND, &out, &in), PS_OK);
    ck_assert_ptr_nonnull(out->state);
    ck_assert_ptr_nonnull(saved->state);
    ps_dense_end_write(dense, 0, out);
    ps_dense_release(dense);
    ck_assert_uint_eq(dense->n_reserved, 0);
    ps_page_unref(pulled, PS_PAGE_PULL);
    ps_page_unref(saved, PS_PAGE_SNAPSHOT);
    destroy_table();
}
END_TEST

START_TEST(a_block_is_put_back_as_it_was_saved)
{
    make_table(STATE);
    write_block(5);
    write_block(5);
    const struct ps_page *page = ps_dense_page(dense, 5);
    ck_assert_uint_eq(page->n, 7);
    float weights[7];
    float state[STATE * 7];
    memcpy(weights, page->weights, sizeof(weights));
    memcpy(state, page->state, sizeof(state));
    struct ps_dense_saved saved = {.weights = weights,
                                   .state = state,
                                   .n = 7,
                                   .version = page->version,
                                   .t = page->t,
                                   .power = {page->power[0], page->power[1]}};
    destroy_table();
    make_table(STATE);
    ck_assert_int_eq(ps_dense_put(dense, 5, &saved), PS_OK);
    page = ps_dense_page(dense, 5);
    ck_assert_mem_eq(page->weights, weights, sizeof(weights));
    ck_assert_mem_eq(page->state, state, sizeof(state));
    ck_assert_uint_eq(page->version, 2);
    ck_assert_uint_eq(page->t, 2);
    ck_assert(page->power[0] == saved.power[0] && page->power[1] == saved.power[1]);
    destroy_table();
}
END_TEST

START_TEST(a_budget_bounds_the_pages_of_a_table)
{
    ps_mem_init(&mem);
    struct ps_dense_spec spec = spec_of(STATE);
    mem.limit[PS_MEM_PAGES] = 3 * (1 + STATE) * BLOCK_FLOATS * sizeof(float);
    ck_assert_int_eq(ps_dense_create(&spec, &mem, &dense, NULL), PS_OK);
    struct ps_error err = {0};
    ck_assert_int_eq(ps_dense_add_block(dense, 0, &err), PS_OK);
    ck_assert_int_eq(ps_dense_add_block(dense, 4, &err), PS_OK);
    ck_assert_int_eq(ps_dense_add_block(dense, 1, &err), PS_ERR_NOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "block 1 of 6"));
    destroy_table();
}
END_TEST

START_TEST(a_table_without_optimizer_state_works_the_same)
{
    make_table(0);
    ck_assert_ptr_null(ps_dense_page(dense, 0)->state);
    struct ps_page *saved = ps_dense_borrow(dense, 0, PS_PAGE_SNAPSHOT);
    float first = saved->weights[0];
    write_block(0);
    ck_assert(saved->weights[0] == first);
    ck_assert(ps_dense_page(dense, 0)->weights[0] == first + 1.0f);
    ck_assert_uint_eq(dense->stats.n_bytes_copied, 0);
    ps_page_unref(saved, PS_PAGE_SNAPSHOT);
    destroy_table();
}
END_TEST

START_TEST(specs_that_contradict_themselves_are_refused)
{
    struct ps_dense_spec specs[5];
    for (size_t i = 0; i < PS_ARRAY_LEN(specs); i++) {
        specs[i] = spec_of(0);
    }
    specs[0].dtype = (enum ps_dtype)1000;
    specs[1].init.scale = -1.0f;
    specs[2].n_elements = 0;
    specs[3].block_floats = 0;
    specs[4].n_elements = (uint64_t)PS_BLOCKS_MAX * BLOCK_FLOATS + 1;
    for (size_t i = 0; i < PS_ARRAY_LEN(specs); i++) {
        struct ps_error err = {0};
        dense = NULL;
        ck_assert_int_eq(ps_dense_create(&specs[i], NULL, &dense, &err), PS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "table 'weights'"));
        ck_assert_ptr_null(dense);
    }
    ps_dense_destroy(NULL);
}
END_TEST

START_TEST(giving_back_what_was_not_borrowed_aborts)
{
    make_table(STATE);
    (void)ps_dense_borrow(dense, 0, PS_PAGE_PULL);
    ps_page_unref(dense->pages[0], PS_PAGE_SNAPSHOT);
}
END_TEST

static Suite *suite_dense(void)
{
    Suite *suite = suite_create("dense");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, blocks_start_with_the_values_of_their_place_in_the_table);
    tcase_add_test(tcase, a_page_that_nobody_borrows_is_written_in_place);
    tcase_add_loop_test(tcase, a_borrowed_page_never_changes_in_any_order_of_events, 0, 8);
    tcase_add_test(tcase, pulls_cost_no_copied_byte_and_in_the_long_run_no_allocation);
    tcase_add_loop_test(tcase, readers_of_state_cost_one_copy_of_it_and_no_more, 0, 2);
    tcase_add_test(tcase, spare_pages_are_few_and_hold_no_state);
    tcase_add_test(tcase, the_page_of_a_short_last_block_keeps_no_more_than_it_holds);
    tcase_add_test(tcase, pages_on_loan_outlive_their_table_and_then_leave_nothing);
    tcase_add_test(tcase, a_block_that_comes_back_on_a_spare_page_starts_anew);
    tcase_add_loop_test(tcase, other_threads_may_give_pages_back_while_the_lane_writes, 0, 2);
    tcase_add_test(tcase, every_refused_allocation_leaves_the_table_as_it_was);
    tcase_add_test(tcase, a_write_without_memory_for_the_twin_succeeds_when_readers_are_gone);
    tcase_add_test(tcase, twins_of_many_records_are_as_many_as_their_claims);
    tcase_add_test(tcase, a_page_lent_between_reserve_and_update_goes_beyond_the_budget);
    tcase_add_test(tcase, a_block_is_put_back_as_it_was_saved);
    tcase_add_test(tcase, a_budget_bounds_the_pages_of_a_table);
    tcase_add_test(tcase, a_table_without_optimizer_state_works_the_same);
    tcase_add_test(tcase, specs_that_contradict_themselves_are_refused);
    tcase_add_test_raise_signal(tcase, giving_back_what_was_not_borrowed_aborts, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_dense)
