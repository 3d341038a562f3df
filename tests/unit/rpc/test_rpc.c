/*
 * test_rpc.c — what only gRPC can do wrong: sockets, limits, queues, life and death.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "lib/test_main.h"
#include "unit/rpc/rig.h"
#include "unit/rpc/test_guard.h"
#include "unit/rpc/test_refusal.h"
#include "unit/rpc/transport_contract.h"

static struct ps_out out_of(const void *data, size_t n_bytes)
{
    return (struct ps_out){.head = data, .n_head_bytes = n_bytes};
}

START_TEST(a_message_over_the_limit_does_not_leave)
{
    struct rig rig;
    rig_open(&rig, RIG_TCP, &(struct ps_rpc_options){.n_message_bytes_max = 1000});
    rig_listen(&rig);
    rig_dial(&rig, PS_TRAFFIC_DATA);
    uint8_t data[1001] = {0};
    struct ask ask = {.request.out = out_of(data, 1001)};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ask.request.err.text, "limit of 1000 bytes"));
    ask = (struct ask){.request.out = out_of(data, 1000)};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
    ask_free(&ask);
    rig_close(&rig);
}
END_TEST

/* A foreign client keeps to no limit of ours: here one with a larger one. */
START_TEST(a_message_over_the_limit_is_refused_by_the_server)
{
    struct rig server;
    struct rig client;
    rig_open(&client, RIG_TCP, &(struct ps_rpc_options){.n_message_bytes_max = 100000});
    rig_open(&server, RIG_TCP, &(struct ps_rpc_options){.n_message_bytes_max = 1000});
    rig_listen(&server);
    memcpy(client.address, server.address, sizeof(client.address));
    rig_dial(&client, PS_TRAFFIC_DATA);
    static uint8_t data[5000];
    for (int i = 0; i < 10; i++) {
        struct ask ask = {.request.out = out_of(data, sizeof(data))};
        ck_assert_int_ne(ask_run(&ask, &client, "/t.T/Echo"), PS_OK);
        ask = (struct ask){.request.out = out_of(data, 10)};
        ck_assert_int_eq(ask_run(&ask, &client, "/t.T/Echo"), PS_OK);
        ask_free(&ask);
    }
    rig_close(&client);
    rig_close(&server);
}
END_TEST

/* With room for 2 calls the third waits outside, and comes in when one has been answered. */
START_TEST(calls_beyond_the_bound_wait_outside)
{
    struct rig rig;
    rig_open(&rig, RIG_TCP, &(struct ps_rpc_options){.n_calls_max = 2, .n_reads_max = 1});
    rig_listen(&rig);
    rig_dial(&rig, PS_TRAFFIC_DATA);
    struct ask asks[8] = {0};
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        ask_start(&asks[i], &rig, "/t.T/Park");
    }
    for (int i = 0; i < (int)PS_ARRAY_LEN(asks); i++) {
        rig_wait(&rig, &rig.n_parked, i + 1);
        struct ps_out out = out_of("ok", 2);
        ps_call_finish(rig.parked[i], PS_OK, &out, NULL);
    }
    int n_done = 0;
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        rig_wait(&rig, &asks[i].n_done, 1);
        n_done += asks[i].request.err.status == PS_OK ? 1 : 0;
        ask_free(&asks[i]);
    }
    ck_assert_int_eq(n_done, (int)PS_ARRAY_LEN(asks));
    rig.n_parked = 0;
    rig_close(&rig);
}
END_TEST

START_TEST(parked_data_calls_do_not_hold_up_control)
{
    struct rig rig;
    rig_open(&rig, RIG_TCP, &(struct ps_rpc_options){.n_calls_max = 3});
    rig_listen(&rig);
    rig_dial(&rig, PS_TRAFFIC_DATA);
    struct ask asks[5] = {0};
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        ask_start(&asks[i], &rig, "/t.T/Park");
    }
    rig_wait(&rig, &rig.n_parked, 3);
    struct ps_channel *data = rig.channel;
    rig_dial(&rig, PS_TRAFFIC_CONTROL);
    struct ask ask = {0};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Context"), PS_OK);
    ask_free(&ask);
    rig_undial(&rig);
    rig.channel = data;
    for (int i = 0; i < (int)PS_ARRAY_LEN(asks); i++) {
        rig_wait(&rig, &rig.n_parked, i + 1);
        ps_call_finish(rig.parked[i], PS_ERR_BUSY, NULL, NULL);
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        rig_wait(&rig, &asks[i].n_done, 1);
        ck_assert_int_eq(asks[i].request.err.status, PS_ERR_BUSY);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(several_data_queues_serve_many_calls)
{
    struct rig rig;
    rig_open(&rig, RIG_TCP, &(struct ps_rpc_options){.n_data_queues = 3});
    rig_listen(&rig);
    struct ps_channel *channels[3];
    static struct ask asks[300];
    for (size_t i = 0; i < PS_ARRAY_LEN(channels); i++) {
        rig_dial(&rig, PS_TRAFFIC_DATA);
        channels[i] = rig.channel;
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        rig.channel = channels[i % PS_ARRAY_LEN(channels)];
        asks[i].request.out = out_of("many", 4);
        ask_start(&asks[i], &rig, "/t.T/Echo");
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        rig_wait(&rig, &asks[i].n_done, 1);
        ck_assert(msg_equals(asks[i].request.reply, (const uint8_t *)"many", 4));
        ask_free(&asks[i]);
    }
    rig.channel = NULL;
    for (size_t i = 0; i < PS_ARRAY_LEN(channels); i++) {
        ps_channel_close(channels[i]);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(a_proxy_in_the_environment_is_ignored)
{
    ck_assert_int_eq(setenv("http_proxy", "http://127.0.0.1:1/", 1), 0);
    ck_assert_int_eq(setenv("grpc_proxy", "http://127.0.0.1:1/", 1), 0);
    struct rig rig;
    rig_start(&rig, RIG_TCP);
    struct ask ask = {.request.out = out_of("x", 1)};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
    ask_free(&ask);
    rig_close(&rig);
    (void)unsetenv("http_proxy");
    (void)unsetenv("grpc_proxy");
}
END_TEST

/* A killed server leaves its socket file; the next one removes it. A plain file stays. */
START_TEST(a_stale_socket_file_is_replaced_but_no_other_file)
{
    struct rig rig;
    rig_open(&rig, RIG_UNIX, NULL);
    const char *path = rig.address + strlen("unix:");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    ck_assert_uint_lt(strlen(path), sizeof(name.sun_path));
    memcpy(name.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
    (void)close(fd);
    rig_listen(&rig);
    rig_dial(&rig, PS_TRAFFIC_DATA);
    struct ask ask = {.request.out = out_of("x", 1)};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
    ask_free(&ask);
    rig_unlisten(&rig);

    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    struct ps_error err = {0};
    ck_assert_int_eq(ps_listener_open(rig.transport,
                                      &(struct ps_service){.address = rig.address,
                                                           .methods = rig_methods,
                                                           .n_methods = rig_n_methods},
                                      &rig.listener, &err),
                     PS_ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.text, "in the way"));
    ck_assert_int_eq(unlink(path), 0);
    rig.listener = NULL;
    rig_close(&rig);
}
END_TEST

/* It has no lock beside it, but somebody answers there, or may do so. */
START_TEST(the_socket_of_another_program_is_not_taken)
{
    struct rig rig;
    rig_open(&rig, RIG_UNIX, NULL);
    const char *path = rig.address + strlen("unix:");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, _i == 0 ? SOCK_STREAM : SOCK_DGRAM, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
    ck_assert(_i == 1 || listen(fd, 1) == 0);
    struct ps_error err = {0};
    ck_assert_int_eq(ps_listener_open(rig.transport,
                                      &(struct ps_service){.address = rig.address,
                                                           .methods = rig_methods,
                                                           .n_methods = rig_n_methods},
                                      &rig.listener, &err),
                     PS_ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.text, "address in use"));
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(unlink(path), 0);
    (void)close(fd);
    rig.listener = NULL;
    rig_close(&rig);
}
END_TEST

static const struct {
    const char *address;
    enum ps_status status;
} bad_addresses[] = {
    {"127.0.0.1", PS_ERR_INVALID},
    {"127.0.0.1:", PS_ERR_INVALID},
    {"127.0.0.1:70707", PS_ERR_INVALID},
    {"127.0.0.1:http", PS_ERR_INVALID},
    {"203.0.113.1:7070", PS_ERR_INVALID},
    {"no such host:7070", PS_ERR_INVALID},
    {"unix:/no/such/folder/s", PS_ERR_INVALID},
};

START_TEST(an_address_that_cannot_be_served_is_one_clear_line)
{
    struct rig rig;
    rig_open(&rig, RIG_TCP, NULL);
    struct ps_error err = {0};
    struct ps_listener *listener = NULL;
    enum ps_status status =
        ps_listener_open(rig.transport,
                         &(struct ps_service){.address = bad_addresses[_i].address,
                                              .methods = rig_methods,
                                              .n_methods = rig_n_methods},
                         &listener, &err);
    ck_assert_msg(status == bad_addresses[_i].status, "%s: %d %s", bad_addresses[_i].address,
                  (int)status, err.text);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot listen on "));
    ck_assert_ptr_nonnull(strstr(err.text, bad_addresses[_i].address));
    rig_close(&rig);
}
END_TEST

static void *stop_patiently(void *arg)
{
    struct rig *rig = arg;
    ps_listener_stop(rig->listener, 20000);
    return NULL;
}

START_TEST(a_stop_waits_for_calls_that_end_in_time)
{
    struct rig rig;
    rig_start(&rig, RIG_TCP);
    struct ask asks[20] = {0};
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        ask_start(&asks[i], &rig, "/t.T/Park");
    }
    rig_wait(&rig, &rig.n_parked, (int)PS_ARRAY_LEN(asks));
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_patiently, &rig), 0);
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        struct ps_out out = out_of("ok", 2);
        ps_call_finish(rig.parked[i], PS_OK, &out, NULL);
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(asks); i++) {
        rig_wait(&rig, &asks[i].n_done, 1);
        ck_assert_int_eq(asks[i].request.err.status, PS_OK);
        ask_free(&asks[i]);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    rig_close(&rig);
}
END_TEST

/* In a process of its own, forked before gRPC lives in this one: opens a stream and waits. */
static void be_client(int address_fd)
{
    struct rig rig;
    rig_open(&rig, RIG_TCP, NULL);
    ck_assert_int_gt(read(address_fd, rig.address, sizeof(rig.address)), 0);
    rig_dial(&rig, PS_TRAFFIC_CONTROL);
    struct talk talk = {0};
    talk_open(&talk, &rig, "/t.T/Hold");
    for (;;) {
        (void)pause();
    }
}

START_TEST(a_client_that_is_killed_breaks_its_stream)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        be_client(fds[0]);
    }
    ck_assert_int_gt(pid, 0);
    struct rig rig;
    rig_open(&rig, RIG_TCP, NULL);
    rig_listen(&rig);
    ck_assert_int_gt(write(fds[1], rig.address, sizeof(rig.address)), 0);
    rig_wait(&rig, &rig.n_parked, 1);
    struct talk server = {.rig = &rig};
    ps_stream_start(rig.held, &talk_events, &server);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    rig_wait(&rig, &server.n_closed, 1);
    ck_assert_int_eq(server.status, PS_ERR_CANCELED);
    ps_stream_release(rig.held);
    rig_close(&rig);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    (void)close(fds[0]);
    (void)close(fds[1]);
}
END_TEST

START_TEST(a_thousand_lives_leave_nothing_behind)
{
    uint64_t n = test_count("PS_TEST_LIVES", 1000);
    struct rig rig;
    rig_open(&rig, RIG_TCP, NULL);
    int n_files_before = dup(0);
    for (uint64_t i = 0; i < n; i++) {
        (void)snprintf(rig.address, sizeof(rig.address), "127.0.0.1:0");
        rig_listen(&rig);
        rig_dial(&rig, PS_TRAFFIC_DATA);
        struct ask ask = {.request.out = out_of("x", 1)};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
        ask_free(&ask);
        rig_undial(&rig);
        rig_unlisten(&rig);
    }
    int n_files_after = dup(0); /* The lowest free descriptor. */
    ck_assert_int_le(n_files_after, n_files_before + 16);
    (void)close(n_files_before);
    (void)close(n_files_after);
    rig_close(&rig);
}
END_TEST

START_TEST(grpc_can_be_started_again)
{
    for (int i = 0; i < 20; i++) {
        struct rig rig;
        rig_start(&rig, RIG_TCP);
        struct ask ask = {.request.out = out_of("x", 1)};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
        ask_free(&ask);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(an_answer_given_twice_is_an_assertion)
{
    struct rig rig;
    rig_start(&rig, RIG_TCP);
    struct ask ask = {0};
    ask_start(&ask, &rig, "/t.T/Park");
    rig_wait(&rig, &rig.n_parked, 1);
    struct ps_call *call = rig.parked[0];
    ps_call_finish(call, PS_ERR_BUSY, NULL, NULL);
    ps_call_finish(call, PS_ERR_BUSY, NULL, NULL); /* Must abort. */
}
END_TEST

START_TEST(a_call_never_answered_is_an_assertion)
{
    struct rig rig;
    rig_start(&rig, RIG_TCP);
    struct ask ask = {0};
    ask_start(&ask, &rig, "/t.T/Park");
    rig_wait(&rig, &rig.n_parked, 1);
    ps_listener_stop(rig.listener, 0);
    ps_listener_close(rig.listener); /* Must abort. */
}
END_TEST

static Suite *suite_rpc(void)
{
    Suite *suite = suite_create("rpc");
    TCase *tcase = tcase_create("grpc");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_message_over_the_limit_does_not_leave);
    tcase_add_test(tcase, a_message_over_the_limit_is_refused_by_the_server);
    tcase_add_test(tcase, calls_beyond_the_bound_wait_outside);
    tcase_add_test(tcase, parked_data_calls_do_not_hold_up_control);
    tcase_add_test(tcase, several_data_queues_serve_many_calls);
    tcase_add_test(tcase, a_proxy_in_the_environment_is_ignored);
    tcase_add_test(tcase, a_stale_socket_file_is_replaced_but_no_other_file);
    tcase_add_loop_test(tcase, the_socket_of_another_program_is_not_taken, 0, 2);
    tcase_add_loop_test(tcase, an_address_that_cannot_be_served_is_one_clear_line, 0,
                        (int)PS_ARRAY_LEN(bad_addresses));
    tcase_add_test(tcase, a_stop_waits_for_calls_that_end_in_time);
    tcase_add_test(tcase, a_thousand_lives_leave_nothing_behind);
    tcase_add_test(tcase, grpc_can_be_started_again);
    if (test_count("CK_FORK", 1) != 0) { /* CK_FORK=no: an abort would end the run. */
        tcase_add_test(tcase, a_client_that_is_killed_breaks_its_stream);
        tcase_add_test_raise_signal(tcase, an_answer_given_twice_is_an_assertion, SIGABRT);
        tcase_add_test_raise_signal(tcase, a_call_never_answered_is_an_assertion, SIGABRT);
    }
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_transport_contract, suite_rpc, suite_guard, suite_refusal)
