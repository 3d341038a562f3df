/*
 * test_gate_core.c — when a pull may be answered, who is parked, who is replaced: a script per
 * rule, then a property over random events against a list that is kept in the plainest way.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "gate/gate_core.h"
#include "lib/test_main.h"

#define ASYNC UINT32_MAX /* As a bound: none. */

static struct ps_gate gate;
static char tokens[PS_PARKED_PULLS_MAX + 2]; /* Their addresses are the tokens. */

static void open_gate(uint32_t bound)
{
    ps_gate_init(&gate);
    ps_gate_set_consistency(&gate, bound == ASYNC ? PS_GATE_UNBOUNDED : PS_GATE_BOUNDED,
                            bound == ASYNC ? 0 : bound);
}

/* clang-format off */
static const struct {
    const char *name;
    uint32_t bound;
    uint64_t min_clock;
    uint64_t step;
    bool open;
} doors[] = {
    {"bsp: the step of the slowest",         0,          5, 5,              true},
    {"bsp: a step before",                   0,          5, 1,              true},
    {"bsp: one step ahead waits",            0,          5, 6,              false},
    {"bsp: the first step needs nobody",     0,          0, 0,              true},
    {"ssp: as far as the bound",             3,          5, 8,              true},
    {"ssp: one more waits",                  3,          5, 9,              false},
    {"asp: any step",                        ASYNC,      0, UINT64_MAX,     true},
    {"no wrap at the end of counting",       3,          UINT64_MAX - 1, UINT64_MAX, true},
    {"no wrap from the start",               3,          0, UINT64_MAX,     false},
    {"the widest bound",                     ASYNC - 1,  1, ASYNC,          true},
};
/* clang-format on */

START_TEST(the_door_follows_the_bound)
{
    open_gate(doors[_i].bound);
    ps_gate_set_min_clock(&gate, doors[_i].min_clock);
    ck_assert_msg(ps_gate_open(&gate, doors[_i].step) == doors[_i].open, "%s", doors[_i].name);
}
END_TEST

START_TEST(a_gate_without_consistency_is_closed)
{
    ps_gate_init(&gate);
    ps_gate_set_min_clock(&gate, 9);
    ck_assert(!ps_gate_open(&gate, 0));
    ps_gate_set_consistency(&gate, PS_GATE_BOUNDED, 0);
    ck_assert(ps_gate_open(&gate, 9));
}
END_TEST

/* ---- Scripts -------------------------------------------------------------------------------- */

enum event {
    END,
    PARK,   /* token, session, step */
    CLOCK,  /* min clock */
    FORGET, /* token */
    ASP
};

/* clang-format off */
static const struct {
    const char *name;
    uint32_t bound;
    struct { enum event event; uint64_t a, b, c; } script[6];
    const char *answers; /* "+token": released; "-token": replaced or forgotten; in order. */
} cases[] = {
    {"a parked pull is released by its clock",       0, {{PARK, 1, 7, 1}, {CLOCK, 1, 0, 0}}, "+1 "},
    {"a lower clock changes nothing",                0, {{CLOCK, 3, 0, 0}, {PARK, 1, 7, 4}, {CLOCK, 2, 0, 0}}, ""},
    {"half the way is not enough",                   0, {{PARK, 1, 7, 5}, {CLOCK, 4, 0, 0}}, ""},
    {"released in order of arrival, not of step",    0, {{PARK, 1, 7, 3}, {PARK, 2, 8, 1}, {CLOCK, 3, 0, 0}}, "+1 +2 "},
    {"only those that may be",                       0, {{PARK, 1, 7, 3}, {PARK, 2, 8, 1}, {CLOCK, 1, 0, 0}}, "+2 "},
    {"a second pull of a session replaces the first", 1, {{PARK, 1, 7, 4}, {PARK, 2, 7, 5}, {CLOCK, 9, 0, 0}}, "-1 +2 "},
    {"and keeps no place in the line",               0, {{PARK, 1, 7, 2}, {PARK, 2, 8, 2}, {PARK, 3, 7, 2}, {CLOCK, 2, 0, 0}}, "-1 +2 +3 "},
    {"a forgotten pull is gone",                     0, {{PARK, 1, 7, 2}, {FORGET, 1, 0, 0}, {FORGET, 1, 0, 0}, {CLOCK, 2, 0, 0}}, "-1 "},
    {"asp lets everybody go",                        0, {{PARK, 1, 7, 2}, {PARK, 2, 8, 9}, {ASP, 0, 0, 0}}, "+1 +2 "},
};
/* clang-format on */

static size_t say(char *answers, size_t n_used, char sign, const void *token)
{
    int n = snprintf(answers + n_used, 64 - n_used, "%c%td ", sign, (const char *)token - tokens);
    return n_used + (size_t)n;
}

START_TEST(the_gate_follows_the_script)
{
    char answers[64] = "";
    size_t n_used = 0;
    open_gate(cases[_i].bound);
    for (size_t i = 0; i < PS_ARRAY_LEN(cases[_i].script); i++) {
        uint64_t a = cases[_i].script[i].a;
        void *replaced = NULL;
        struct ps_gate_parked pull = {
            .token = &tokens[a], .session = cases[_i].script[i].b, .step = cases[_i].script[i].c};
        switch (cases[_i].script[i].event) {
        case PARK: ck_assert(ps_gate_park(&gate, &pull, &replaced)); break;
        case CLOCK: ps_gate_set_min_clock(&gate, a); break;
        case FORGET: replaced = ps_gate_forget(&gate, &tokens[a]) ? &tokens[a] : NULL; break;
        case ASP: ps_gate_set_consistency(&gate, PS_GATE_UNBOUNDED, 0); break;
        case END: break;
        }
        if (replaced != NULL) {
            n_used = say(answers, n_used, '-', replaced);
        }
        for (void *token = ps_gate_release(&gate); token != NULL; token = ps_gate_release(&gate)) {
            n_used = say(answers, n_used, '+', token);
        }
    }
    ck_assert_msg(strcmp(answers, cases[_i].answers) == 0, "%s: want '%s', got '%s'",
                  cases[_i].name, cases[_i].answers, answers);
}
END_TEST

START_TEST(the_parking_lot_has_an_end)
{
    open_gate(0);
    void *replaced = NULL;
    for (uint32_t i = 0; i < PS_PARKED_PULLS_MAX; i++) {
        struct ps_gate_parked pull = {.token = &tokens[i], .session = i, .step = 1};
        ck_assert(ps_gate_park(&gate, &pull, &replaced));
    }
    struct ps_gate_parked more = {
        .token = &tokens[PS_PARKED_PULLS_MAX], .session = PS_PARKED_PULLS_MAX, .step = 1};
    ck_assert(!ps_gate_park(&gate, &more, &replaced));
    ck_assert_ptr_null(replaced);
    more.session = 17; /* One of those inside: it takes its own place. */
    ck_assert(ps_gate_park(&gate, &more, &replaced));
    ck_assert_ptr_eq(replaced, &tokens[17]);
    ck_assert_uint_eq(gate.n_parked, PS_PARKED_PULLS_MAX);
    ps_gate_set_min_clock(&gate, 1);
    for (uint32_t i = 0; i < PS_PARKED_PULLS_MAX; i++) {
        ck_assert_ptr_nonnull(ps_gate_release(&gate));
    }
    ck_assert_ptr_null(ps_gate_release(&gate));
}
END_TEST

/* ---- The property --------------------------------------------------------------------------- */

#define SESSIONS 12u

struct line { /* A parked pull, as the test sees it; index 0 came first. */
    const char *token;
    uint64_t session;
    uint64_t step;
};

static struct line parked[SESSIONS];
static uint32_t n_parked;

static void leave(uint32_t at)
{
    n_parked--;
    memmove(&parked[at], &parked[at + 1], (n_parked - at) * sizeof(parked[0]));
}

static bool may_pass(uint64_t min_clock, uint64_t bound, uint64_t step)
{
    uint64_t needed = step > bound ? step - bound : 0;
    return min_clock >= needed;
}

/* Nobody passes too early, nobody who may pass stays, order is kept, one pull per session. */
START_TEST(nobody_passes_too_early_and_nobody_is_kept)
{
    uint64_t seed = test_seed();
    struct ps_rng rng = ps_rng_from(seed);
    for (uint32_t bound = 0; bound < 5; bound++) {
        uint64_t min_clock = 0;
        open_gate(bound);
        n_parked = 0;
        for (int i = 0; i < 20000; i++) {
            uint64_t heard = ps_rng_below(&rng, min_clock + 3);
            min_clock = heard > min_clock ? heard : min_clock;
            ps_gate_set_min_clock(&gate, heard);
            for (uint32_t at = 0; at < n_parked;) {
                if (!may_pass(min_clock, bound, parked[at].step)) {
                    at++;
                    continue;
                }
                ck_assert_msg(ps_gate_release(&gate) == parked[at].token, "seed %" PRIu64, seed);
                leave(at);
            }
            ck_assert_ptr_null(ps_gate_release(&gate));
            uint64_t session = ps_rng_below(&rng, SESSIONS);
            uint64_t step = min_clock + ps_rng_below(&rng, 9);
            ck_assert_int_eq(ps_gate_open(&gate, step), may_pass(min_clock, bound, step));
            if (ps_gate_open(&gate, step)) {
                continue;
            }
            const char *old = NULL;
            for (uint32_t at = 0; at < n_parked; at++) {
                if (parked[at].session == session) {
                    old = parked[at].token;
                    leave(at);
                    break;
                }
            }
            char *token = &tokens[old == &tokens[session] ? SESSIONS + session : session];
            struct ps_gate_parked pull = {.token = token, .session = session, .step = step};
            void *replaced = NULL;
            ck_assert(ps_gate_park(&gate, &pull, &replaced));
            ck_assert_ptr_eq(replaced, old);
            parked[n_parked++] = (struct line){token, session, step};
            ck_assert_uint_eq(gate.n_parked, n_parked);
        }
    }
}
END_TEST

START_TEST(a_pull_that_may_be_answered_is_not_parked)
{
    open_gate(0);
    void *replaced = NULL;
    struct ps_gate_parked pull = {.token = &tokens[0], .session = 1, .step = 0};
    (void)ps_gate_park(&gate, &pull, &replaced); /* Must abort. */
}
END_TEST

static Suite *suite_gate_core(void)
{
    Suite *suite = suite_create("gate_core");
    TCase *tcase = tcase_create("gate");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, the_door_follows_the_bound, 0, PS_ARRAY_LEN(doors));
    tcase_add_test(tcase, a_gate_without_consistency_is_closed);
    tcase_add_loop_test(tcase, the_gate_follows_the_script, 0, PS_ARRAY_LEN(cases));
    tcase_add_test(tcase, the_parking_lot_has_an_end);
    tcase_add_test(tcase, nobody_passes_too_early_and_nobody_is_kept);
    tcase_add_test_raise_signal(tcase, a_pull_that_may_be_answered_is_not_parked, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_gate_core)
