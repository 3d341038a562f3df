/*
 * test_health.c — grpc.health.v1.Health over the direct transport: what Check and Watch are told
 * through the life of a server, and what is refused.
 */
#include <string.h>

#include <check.h>

#include "base/attr.h"
#include "base/limits.h"
#include "port/direct.h"
#include "suites.h"
#include "svc/health.h"

enum serving_status {
    SERVING = 1,
    NOT_SERVING = 2,
    SERVICE_UNKNOWN = 3
};

#define CHECK "/grpc.health.v1.Health/Check"
#define WATCH "/grpc.health.v1.Health/Watch"

struct scene {
    struct ps_inline_exec exec; /* Of the transport. */
    struct ps_inline_exec main; /* Of health: turned by hand. */
    struct ps_direct *direct;
    struct ps_mem mem;
    struct ps_health *health;
    struct ps_method methods[PS_HEALTH_METHODS];
    struct ps_listener *listener;
    struct ps_channel *channel;
};

static struct scene scene;

static uint64_t no_time(void *arg PS_UNUSED)
{
    return 1000000000;
}

static void pump(void)
{
    for (int i = 0; i < 20; i++) {
        ps_inline_exec_pump(&scene.exec);
        ps_inline_exec_pump(&scene.main);
    }
}

static void open_scene(void)
{
    static const char *const services[] = {"", "a.A", "b.B"};
    struct ps_error err;
    memset(&scene, 0, sizeof(scene));
    ps_inline_exec_init(&scene.exec, no_time, NULL);
    ps_inline_exec_init(&scene.main, no_time, NULL);
    ps_mem_init(&scene.mem);
    scene.direct = ps_direct_create(&scene.exec.base);
    struct ps_health_options options = {
        .exec = &scene.main.base, .mem = &scene.mem, .services = services, .n_services = 3};
    ck_assert_int_eq(ps_health_create(&options, &scene.health, &err), PS_OK);
    ps_health_methods(scene.health, scene.methods);
    struct ps_transport *transport = ps_direct_transport(scene.direct);
    ck_assert_int_eq(ps_listener_open(transport,
                                      &(struct ps_service){.address = "direct:health",
                                                           .methods = scene.methods,
                                                           .n_methods = PS_HEALTH_METHODS},
                                      &scene.listener, &err),
                     PS_OK);
    ck_assert_int_eq(
        ps_channel_open(transport, "direct:health", PS_TRAFFIC_CONTROL, NULL, &scene.channel, &err),
        PS_OK);
}

static void close_scene(void)
{
    ps_health_drain(scene.health);
    pump();
    ps_listener_stop(scene.listener, 0);
    pump();
    ck_assert(ps_health_idle(scene.health));
    ps_listener_close(scene.listener);
    ps_channel_close(scene.channel);
    ps_health_destroy(scene.health);
    ps_direct_destroy(scene.direct);
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        ck_assert_uint_eq(atomic_load(&scene.mem.used[i]), 0);
    }
}

/* HealthCheckRequest { service = name } */
static struct ps_out question(const char *name, uint8_t bytes[128])
{
    size_t n = strlen(name);
    ck_assert_uint_lt(n, 126);
    bytes[0] = 1 << 3 | 2;
    bytes[1] = (uint8_t)n;
    memcpy(bytes + 2, name, n);
    return (struct ps_out){.head = bytes, .n_head_bytes = 2 + n};
}

static int status_in(const struct ps_msg *msg)
{
    uint8_t bytes[2] = {0};
    struct ps_cursor c = ps_cursor_over(msg->slices, msg->n_slices);
    ck_assert_uint_eq(msg->n_bytes, 2);
    ps_cursor_copy(&c, bytes, sizeof(bytes));
    ck_assert_uint_eq(bytes[0], 1 << 3);
    return bytes[1];
}

/* ---- Check --------------------------------------------------------------------------------- */

struct ask {
    struct ps_request request;
    bool done;
};

static void heard(struct ps_request *request)
{
    PS_CONTAINER_OF(request, struct ask, request)->done = true;
}

/* The status that `out` is answered with; what the server says in `*ret_said`. */
static enum ps_status check(struct ps_out out, int *ret_said)
{
    struct ask ask = {.request = {.method = CHECK, .timeout_ms = 1000, .out = out, .done = heard}};
    ps_request_start(scene.channel, &ask.request);
    pump();
    ck_assert(ask.done);
    *ret_said = ask.request.reply != NULL ? status_in(ask.request.reply) : 0;
    ps_msg_unref(ask.request.reply);
    return ask.request.err.status;
}

static enum ps_status check_name(const char *name, int *ret_said)
{
    uint8_t bytes[128];
    return check(question(name, bytes), ret_said);
}

static int said_of(const char *name)
{
    int said = 0;
    ck_assert_int_eq(check_name(name, &said), PS_OK);
    return said;
}

START_TEST(check_says_what_is_true_of_each_service)
{
    open_scene();
    ck_assert_int_eq(said_of(""), NOT_SERVING);
    ck_assert_int_eq(said_of("a.A"), NOT_SERVING);
    ps_health_set(scene.health, 1, true);
    ck_assert_int_eq(said_of(""), NOT_SERVING);
    ck_assert_int_eq(said_of("a.A"), SERVING);
    ck_assert_int_eq(said_of("b.B"), NOT_SERVING);
    ps_health_set(scene.health, 0, true);
    ck_assert_int_eq(said_of(""), SERVING);
    int said = 0;
    ck_assert_int_eq(check((struct ps_out){0}, &said), PS_OK); /* No name is the empty name. */
    ck_assert_int_eq(said, SERVING);
    ps_health_set(scene.health, 1, false);
    ck_assert_int_eq(said_of("a.A"), NOT_SERVING);
    ps_health_drain(scene.health);
    ck_assert_int_eq(said_of(""), NOT_SERVING);
    ps_health_set(scene.health, 0, true); /* Too late. */
    ck_assert_int_eq(said_of(""), NOT_SERVING);
    close_scene();
}
END_TEST

START_TEST(check_refuses_names_that_nobody_has_and_bytes_that_are_no_request)
{
    static const uint8_t cut[] = {1 << 3 | 2, 5, 'a'};
    static const uint8_t group[] = {1 << 3 | 3};
    static const uint8_t odd[] = {2 << 3 | 0, 7, 1 << 3 | 0, 9, 1 << 3 | 2, 3, 'a', '.', 'A'};
    static uint8_t longest[1025] = {9 << 3 | 2, 0xfe, 0x07}; /* A field of 1022 bytes. */
    char name[PS_NAME_BYTES_MAX + 2];
    int said = 0;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    open_scene();
    ck_assert_int_eq(check_name("c.C", &said), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(check_name("a.A2", &said), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(check_name("a.", &said), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(check_name(name, &said), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(check((struct ps_out){.head = cut, .n_head_bytes = sizeof(cut)}, &said),
                     PS_ERR_INVALID);
    ck_assert_int_eq(check((struct ps_out){.head = group, .n_head_bytes = sizeof(group)}, &said),
                     PS_ERR_INVALID);
    ck_assert_int_eq(
        check((struct ps_out){.head = longest, .n_head_bytes = sizeof(longest)}, &said),
        PS_ERR_INVALID);
    /* Fields of other versions are passed over. */
    ck_assert_int_eq(check((struct ps_out){.head = odd, .n_head_bytes = sizeof(odd)}, &said),
                     PS_OK);
    ck_assert_int_eq(said, NOT_SERVING);
    close_scene();
}
END_TEST

/* ---- Watch --------------------------------------------------------------------------------- */

struct watch {
    struct ps_stream *stream;
    uint32_t n_heard;
    int heard[16];
    uint32_t n_closed;
    enum ps_status status;
};

static void watch_message(void *arg, struct ps_msg *msg)
{
    struct watch *watch = arg;
    ck_assert_uint_lt(watch->n_heard, PS_ARRAY_LEN(watch->heard));
    watch->heard[watch->n_heard++] = status_in(msg);
    ps_msg_unref(msg);
}

static void watch_closed(void *arg, enum ps_status status)
{
    struct watch *watch = arg;
    watch->n_closed++;
    watch->status = status;
}

static void begin_watch(struct watch *watch, struct ps_out out)
{
    static const struct ps_stream_events events = {.message = watch_message,
                                                   .closed = watch_closed};
    *watch = (struct watch){0};
    watch->stream = ps_stream_open(scene.channel, WATCH, &events, watch);
    ck_assert_int_eq(ps_stream_send(watch->stream, &out), PS_OK);
    ps_stream_close(watch->stream, PS_OK); /* As generated clients do. */
}

static void watch_name(struct watch *watch, const char *name)
{
    uint8_t bytes[128];
    begin_watch(watch, question(name, bytes));
    pump();
}

static void end_watch(struct watch *watch)
{
    if (watch->n_closed == 0) {
        ps_stream_close(watch->stream, PS_ERR_CANCELED);
        pump();
    }
    ck_assert_uint_eq(watch->n_closed, 1);
    ps_stream_release(watch->stream);
}

START_TEST(watch_tells_the_state_at_once_and_then_changes)
{
    struct watch a;
    struct watch whole;
    open_scene();
    watch_name(&a, "a.A");
    watch_name(&whole, "");
    ck_assert_uint_eq(a.n_heard, 1);
    ck_assert_int_eq(a.heard[0], NOT_SERVING);
    ps_health_set(scene.health, 1, true);
    ps_health_set(scene.health, 2, true);
    pump();
    ps_health_set(scene.health, 1, true); /* No change. */
    pump();
    ck_assert_uint_eq(a.n_heard, 2);
    ck_assert_int_eq(a.heard[1], SERVING);
    ck_assert_uint_eq(whole.n_heard, 1);
    ps_health_drain(scene.health);
    pump();
    ck_assert_uint_eq(a.n_heard, 3);
    ck_assert_int_eq(a.heard[2], NOT_SERVING);
    ck_assert_uint_eq(whole.n_heard, 1); /* It was not serving before. */
    ck_assert_uint_eq(a.n_closed, 1);
    ck_assert_int_eq(a.status, PS_ERR_UNAVAIL);
    ck_assert_int_eq(whole.status, PS_ERR_UNAVAIL);
    end_watch(&a);
    end_watch(&whole);
    watch_name(&a, "a.A"); /* Too late. */
    ck_assert_uint_eq(a.n_closed, 1);
    ck_assert_int_eq(a.status, PS_ERR_UNAVAIL);
    ck_assert_uint_eq(a.n_heard, 0);
    end_watch(&a);
    close_scene();
}
END_TEST

START_TEST(what_changes_while_a_watcher_is_slow_is_told_once)
{
    struct watch a;
    open_scene();
    watch_name(&a, "a.A");
    ps_health_set(scene.health, 1, true); /* Leaves; its arrival is not known yet. */
    for (int i = 0; i < 100; i++) {
        ps_health_set(scene.health, 1, i % 2 != 0);
        ps_inline_exec_pump(&scene.main);
    }
    ps_health_set(scene.health, 1, false);
    pump();
    ck_assert_uint_eq(a.n_heard, 3);
    ck_assert_int_eq(a.heard[1], SERVING);
    ck_assert_int_eq(a.heard[2], NOT_SERVING);
    end_watch(&a);
    close_scene();
}
END_TEST

START_TEST(watch_of_an_unknown_service_goes_on_and_of_garbage_ends)
{
    static const uint8_t cut[] = {1 << 3 | 2, 5, 'a'};
    struct watch unknown;
    struct watch garbage;
    open_scene();
    watch_name(&unknown, "c.C");
    begin_watch(&garbage, (struct ps_out){.head = cut, .n_head_bytes = sizeof(cut)});
    pump();
    ps_health_set(scene.health, 1, true);
    pump();
    ck_assert_uint_eq(unknown.n_heard, 1);
    ck_assert_int_eq(unknown.heard[0], SERVICE_UNKNOWN);
    ck_assert_uint_eq(unknown.n_closed, 0);
    ck_assert_uint_eq(garbage.n_heard, 0);
    ck_assert_int_eq(garbage.status, PS_ERR_INVALID);
    end_watch(&unknown);
    end_watch(&garbage);
    close_scene();
}
END_TEST

START_TEST(watchers_are_bounded_and_one_that_is_gone_makes_room)
{
    static struct watch all[PS_WATCHERS_MAX];
    struct watch more;
    open_scene();
    for (uint32_t i = 0; i < PS_WATCHERS_MAX; i++) {
        watch_name(&all[i], "a.A");
        ck_assert_uint_eq(all[i].n_heard, 1);
    }
    watch_name(&more, "a.A");
    ck_assert_int_eq(more.status, PS_ERR_BUSY);
    ck_assert_uint_eq(more.n_heard, 0);
    end_watch(&more);
    end_watch(&all[0]);
    watch_name(&all[0], "a.A");
    ck_assert_uint_eq(all[0].n_heard, 1);
    for (uint32_t i = 0; i < PS_WATCHERS_MAX; i++) {
        end_watch(&all[i]);
    }
    close_scene();
}
END_TEST

START_TEST(who_says_nothing_or_too_much_does_no_harm)
{
    uint8_t bytes[128];
    struct watch silent;
    struct watch talker;
    static const struct ps_stream_events events = {.message = watch_message,
                                                   .closed = watch_closed};
    open_scene();
    silent = (struct watch){0};
    silent.stream = ps_stream_open(scene.channel, WATCH, &events, &silent);
    talker = silent;
    talker.stream = ps_stream_open(scene.channel, WATCH, &events, &talker);
    for (int i = 0; i < 10; i++) {
        struct ps_out out = question(i == 0 ? "" : "c.C", bytes);
        ck_assert_int_eq(ps_stream_send(talker.stream, &out), PS_OK);
    }
    pump();
    ck_assert_uint_eq(silent.n_heard, 0);
    ck_assert_uint_eq(talker.n_heard, 1);
    ps_health_drain(scene.health);
    pump();
    ck_assert_int_eq(silent.status, PS_ERR_UNAVAIL);
    ck_assert_int_eq(talker.status, PS_ERR_UNAVAIL);
    end_watch(&silent);
    end_watch(&talker);
    close_scene();
}
END_TEST

START_TEST(without_memory_calls_are_refused_and_nothing_breaks)
{
    struct watch watch;
    int said = 0;
    open_scene();
    scene.mem.limit[PS_MEM_CALLS] = 1;
    ck_assert_int_eq(check_name("a.A", &said), PS_ERR_BUSY);
    watch_name(&watch, "a.A");
    ck_assert_int_eq(watch.status, PS_ERR_BUSY);
    end_watch(&watch);
    scene.mem.limit[PS_MEM_CALLS] = 0;
    ck_assert_int_eq(said_of("a.A"), NOT_SERVING);
    close_scene();
}
END_TEST

Suite *suite_health(void)
{
    Suite *suite = suite_create("health");
    TCase *tcase = tcase_create("health");
    tcase_add_test(tcase, check_says_what_is_true_of_each_service);
    tcase_add_test(tcase, check_refuses_names_that_nobody_has_and_bytes_that_are_no_request);
    tcase_add_test(tcase, watch_tells_the_state_at_once_and_then_changes);
    tcase_add_test(tcase, what_changes_while_a_watcher_is_slow_is_told_once);
    tcase_add_test(tcase, watch_of_an_unknown_service_goes_on_and_of_garbage_ends);
    tcase_add_test(tcase, watchers_are_bounded_and_one_that_is_gone_makes_room);
    tcase_add_test(tcase, who_says_nothing_or_too_much_does_no_harm);
    tcase_add_test(tcase, without_memory_calls_are_refused_and_nothing_breaks);
    suite_add_tcase(suite, tcase);
    return suite;
}
