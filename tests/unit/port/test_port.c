/*
 * test_port.c — timers, the inline executor and references, by table and by property. The direct
 * transport has its own suite here for what only it promises; what it shares with every transport
 * is in unit/rpc/transport_contract.c.
 */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include <check.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "port/direct.h"

/* ---- Timers -------------------------------------------------------------------------------- */

#define N_TIMERS 200

START_TEST(timers_are_taken_by_time_then_by_start)
{
    static struct ps_timer timers[N_TIMERS];
    uint64_t started[N_TIMERS] = {0}; /* When it was started last, as a count. */
    struct ps_timers all;
    struct ps_rng rng = ps_rng_from(test_seed());
    ps_timers_init(&all);
    for (size_t i = 0; i < N_TIMERS; i++) {
        ps_timer_init(&timers[i], NULL);
    }
    for (uint64_t n = 1; n <= 2000; n++) { /* Many are moved while they are pending. */
        size_t i = (size_t)ps_rng_below(&rng, N_TIMERS);
        ps_timers_start(&all, &timers[i], ps_rng_below(&rng, 50));
        started[i] = n;
    }
    uint64_t last_ms = 0;
    uint64_t last_start = 0;
    size_t n_taken = 0;
    for (;;) {
        uint64_t next_ms = ps_timers_next_ms(&all);
        struct ps_timer *timer = ps_timers_take(&all, UINT64_MAX);
        if (timer == NULL) {
            ck_assert_uint_eq(next_ms, UINT64_MAX);
            break;
        }
        uint64_t start = started[timer - timers];
        ck_assert_uint_eq(timer->at_ms, next_ms);
        ck_assert_msg(timer->at_ms > last_ms || (timer->at_ms == last_ms && start > last_start) ||
                          n_taken == 0,
                      "PS_TEST_SEED=%" PRIu64 ": timer %zu out of order", test_seed(), n_taken);
        last_ms = timer->at_ms;
        last_start = start;
        n_taken++;
    }
    size_t n_started = 0;
    for (size_t i = 0; i < N_TIMERS; i++) {
        n_started += started[i] != 0 ? 1 : 0;
    }
    ck_assert_uint_eq(n_taken, n_started);
}
END_TEST

START_TEST(a_timer_is_not_taken_before_its_time)
{
    struct ps_timers all;
    struct ps_timer timer;
    ps_timers_init(&all);
    ps_timer_init(&timer, NULL);
    ck_assert_ptr_null(ps_timers_take(&all, UINT64_MAX));
    ps_timers_start(&all, &timer, 10);
    ck_assert_ptr_null(ps_timers_take(&all, 9));
    ck_assert_ptr_eq(ps_timers_take(&all, 10), &timer);
    ck_assert_ptr_null(ps_timers_take(&all, 10));
}
END_TEST

/* ---- The inline executor ------------------------------------------------------------------- */

struct script {
    struct ps_inline_exec exec;
    uint64_t now_ns;
    char done[64]; /* One letter per thing that ran. */
    struct ps_mail a;
    struct ps_mail b;
    struct ps_timer timer;
    int depth;
};

static struct script script;

static uint64_t script_clock(void *arg)
{
    return *(uint64_t *)arg;
}

static void note(char letter)
{
    size_t n = strlen(script.done);
    ck_assert_uint_lt(n + 1, sizeof(script.done));
    script.done[n] = letter;
}

static void run_b(struct ps_mail *mail PS_UNUSED)
{
    note('b');
}

static void run_a(struct ps_mail *mail PS_UNUSED)
{
    script.depth++;
    ck_assert_int_eq(script.depth, 1);
    note('a');
    script.b.run = run_b;
    ps_exec_post(&script.exec.base, &script.b); /* Must not run inside. */
    ps_timer_start(&script.exec.base, &script.timer, 5);
    script.depth--;
}

static void run_timer(struct ps_timer *timer)
{
    note('t');
    if (strlen(script.done) < 4) {
        ps_timer_start(&script.exec.base, timer, 0); /* Due at once. */
    }
}

static void script_start(void)
{
    memset(&script, 0, sizeof(script));
    script.now_ns = 1000000000;
    ps_inline_exec_init(&script.exec, script_clock, &script.now_ns);
    ps_timer_init(&script.timer, run_timer);
    script.a.run = run_a;
}

START_TEST(a_pump_runs_mail_in_order_and_timers_when_due)
{
    script_start();
    ck_assert_uint_eq(ps_exec_now_ms(&script.exec.base), 1000);
    ck_assert_uint_eq(ps_exec_now_ns(&script.exec.base), 1000000000);
    ps_exec_post(&script.exec.base, &script.a);
    ck_assert_str_eq(script.done, "");
    ps_inline_exec_pump(&script.exec);
    ck_assert_str_eq(script.done, "ab");
    script.now_ns += 4999999;
    ps_inline_exec_pump(&script.exec);
    ck_assert_str_eq(script.done, "ab");
    script.now_ns += 1;
    ps_inline_exec_pump(&script.exec);
    ck_assert_str_eq(script.done, "abtt");
}
END_TEST

START_TEST(a_stopped_timer_does_not_run)
{
    script_start();
    ps_timer_start(&script.exec.base, &script.timer, 1);
    ps_timer_stop(&script.exec.base, &script.timer);
    ps_timer_stop(&script.exec.base, &script.timer); /* Harmless. */
    script.now_ns += 10000000;
    ps_inline_exec_pump(&script.exec);
    ck_assert_str_eq(script.done, "");
}
END_TEST

/* ---- References ---------------------------------------------------------------------------- */

static int n_destroyed;

static void count_destroyed(struct ps_msg *msg PS_UNUSED)
{
    n_destroyed++;
}

START_TEST(a_message_goes_with_its_last_reference)
{
    struct ps_msg msg = {.destroy = count_destroyed};
    atomic_init(&msg.n_refs, 1);
    n_destroyed = 0;
    ps_msg_unref(NULL);
    ps_msg_ref(&msg);
    ps_msg_unref(&msg);
    ck_assert_int_eq(n_destroyed, 0);
    ps_msg_unref(&msg);
    ck_assert_int_eq(n_destroyed, 1);
}
END_TEST

START_TEST(a_reference_to_the_dead_is_an_assertion)
{
    struct ps_msg msg = {.destroy = count_destroyed};
    atomic_init(&msg.n_refs, 0);
    ps_msg_ref(&msg); /* Must abort. */
}
END_TEST

/* ---- Direct -------------------------------------------------------------------------------- */

static int n_handled;
static int n_answered;

static void handle(void *arg PS_UNUSED, struct ps_call *call)
{
    n_handled++;
    ps_call_finish(call, PS_OK, NULL, NULL);
    ck_assert_int_eq(n_answered, 0); /* The answer is mail. */
}

static void answered(struct ps_request *request)
{
    n_answered++;
    ps_msg_unref(request->reply);
}

static const struct ps_method methods[] = {
    {.path = "/t.T/Do", .roles = PS_ROLE_ANY, .call = handle},
};

START_TEST(a_direct_call_runs_nothing_inside_its_start)
{
    script_start();
    n_handled = 0;
    n_answered = 0;
    struct ps_direct *direct = ps_direct_create(&script.exec.base);
    struct ps_transport *transport = ps_direct_transport(direct);
    struct ps_listener *listener = NULL;
    struct ps_channel *channel = NULL;
    ck_assert_int_eq(
        ps_listener_open(
            transport,
            &(struct ps_service){.address = "direct:a", .methods = methods, .n_methods = 1},
            &listener, NULL),
        PS_OK);
    ck_assert_str_eq(ps_listener_address(listener), "direct:a");
    ck_assert_int_eq(ps_channel_open(transport, "direct:a", PS_TRAFFIC_DATA, NULL, &channel, NULL),
                     PS_OK);
    struct ps_request request = {.method = "/t.T/Do", .timeout_ms = 1, .done = answered};
    ps_request_start(channel, &request);
    ck_assert_int_eq(n_handled, 0);
    ps_inline_exec_pump(&script.exec);
    ck_assert_int_eq(n_handled, 1);
    ck_assert_int_eq(n_answered, 1);
    ps_channel_close(channel);
    ps_listener_stop(listener, 0);
    ps_listener_close(listener);
    ps_direct_destroy(direct);
}
END_TEST

START_TEST(a_direct_port_0_becomes_a_free_one)
{
    script_start();
    struct ps_direct *direct = ps_direct_create(&script.exec.base);
    struct ps_transport *transport = ps_direct_transport(direct);
    struct ps_listener *listeners[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(
            ps_listener_open(
                transport,
                &(struct ps_service){.address = "127.0.0.1:0", .methods = methods, .n_methods = 1},
                &listeners[i], NULL),
            PS_OK);
    }
    ck_assert_str_ne(ps_listener_address(listeners[0]), ps_listener_address(listeners[1]));
    ck_assert_str_ne(ps_listener_address(listeners[0]), "127.0.0.1:0");
    for (int i = 0; i < 2; i++) {
        ps_listener_stop(listeners[i], 0);
        ps_listener_close(listeners[i]);
    }
    ps_direct_destroy(direct);
}
END_TEST

static Suite *suite_port(void)
{
    Suite *suite = suite_create("port");
    TCase *tcase = tcase_create("port");
    tcase_add_test(tcase, timers_are_taken_by_time_then_by_start);
    tcase_add_test(tcase, a_timer_is_not_taken_before_its_time);
    tcase_add_test(tcase, a_pump_runs_mail_in_order_and_timers_when_due);
    tcase_add_test(tcase, a_stopped_timer_does_not_run);
    tcase_add_test(tcase, a_message_goes_with_its_last_reference);
    if (test_count("CK_FORK", 1) != 0) { /* CK_FORK=no: an abort would end the run. */
        tcase_add_test_raise_signal(tcase, a_reference_to_the_dead_is_an_assertion, SIGABRT);
    }
    tcase_add_test(tcase, a_direct_call_runs_nothing_inside_its_start);
    tcase_add_test(tcase, a_direct_port_0_becomes_a_free_one);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_port)
