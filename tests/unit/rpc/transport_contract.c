/*
 * transport_contract.c — what every kind of transport promises, run over all of them.
 *
 * The promises are those of port/transport.h. A new kind is tested by a line in rig.c.
 */
#include "unit/rpc/transport_contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/bytes.h"
#include "unit/rpc/rig.h"

static enum rig_kind kind_of(int i)
{
    return (enum rig_kind)i;
}

static struct ps_out out_of(const void *data, size_t n_bytes)
{
    return (struct ps_out){.head = data, .n_head_bytes = n_bytes};
}

static void count_down(void *arg)
{
    (void)atomic_fetch_sub((atomic_int *)arg, 1);
}

/* ---- Calls --------------------------------------------------------------------------------- */

START_TEST(a_request_comes_back_as_its_reply)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    for (int i = 0; i < 100; i++) {
        struct ask ask = {.request.out = out_of("hello", 5)};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
        ck_assert(msg_equals(ask.request.reply, (const uint8_t *)"hello", 5));
        ask_free(&ask);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(an_empty_message_is_a_message)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct ask ask = {0};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
    ck_assert_ptr_nonnull(ask.request.reply);
    ck_assert_uint_eq(ask.request.reply->n_bytes, 0);
    ask_free(&ask);
    rig_close(&rig);
}
END_TEST

/* 3.9 MiB cut into pieces of 0, 1, 3, 7 ... bytes: nothing is copied wrongly at a joint. */
START_TEST(large_messages_arrive_byte_for_byte)
{
    enum {
        N_PIECES = 120
    };
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    size_t n_bytes = 3900u * 1024;
    uint8_t *data = malloc(n_bytes);
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < n_bytes; i++) {
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    struct ps_piece pieces[N_PIECES];
    atomic_int n_left = N_PIECES;
    size_t at = 11;
    for (int i = 0; i < N_PIECES; i++) {
        size_t n = i == N_PIECES - 1 ? n_bytes - at : (size_t)i * 541 % 65537;
        pieces[i] = (struct ps_piece){data + at, n, count_down, &n_left};
        at += n;
    }
    struct ask ask = {.request.out = {data, 11, pieces, N_PIECES}};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
    ck_assert(msg_equals(ask.request.reply, data, n_bytes));
    ask_free(&ask);
    rig_close(&rig);
    ck_assert_int_eq(atomic_load(&n_left), 0);
    free(data);
}
END_TEST

START_TEST(every_status_and_its_reason_reach_the_caller)
{
    static const enum ps_status all[] = {
#define X(name, wire, grpc, retry, text) PS_##name,
        PS_STATUS_MAP(X)
#undef X
    };
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    for (size_t i = 1; i < PS_ARRAY_LEN(all); i++) {
        char text[] = "?because 100% of \xc3\xa4";
        text[0] = (char)all[i];
        struct ask ask = {.request.out = out_of(text, strlen(text))};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Status"), all[i]);
        ck_assert_str_eq(ask.request.err.text, text + 1);
        ck_assert_ptr_null(ask.request.reply);

        ask = (struct ask){.request.out = out_of(text, 1)};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Status"), all[i]);
        ck_assert_str_eq(ask.request.err.text, ps_status_text(all[i]));
    }
    rig_close(&rig);
}
END_TEST

/* The first byte is the status, the second what the server asks for in hundreds of ms. */
START_TEST(a_refusal_says_when_to_come_again)
{
    static const struct {
        char ask[2];
        uint32_t retry_ms;
    } rows[] = {
        {{PS_ERR_BUSY, 0}, PS_RETRY_BUSY_MS},
        {{PS_ERR_NOMEM, 0}, PS_RETRY_BUSY_MS},
        {{PS_ERR_NOT_YET, 0}, PS_RETRY_NOT_YET_MS},
        {{PS_ERR_INVALID, 0}, 0},
        {{PS_ERR_BUSY, 70}, 7000},
        {{PS_ERR_UNAVAIL, 3}, 300},
        {{PS_OK, 3}, 0},
    };
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        struct ask ask = {.request = {.retry_ms = 77, .out = out_of(rows[i].ask, 2)}};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Later"), rows[i].ask[0]);
        ck_assert_uint_eq(ask.request.retry_ms, rows[i].retry_ms);
        ask_free(&ask);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(the_context_travels_along)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct ps_context sent[] = {
        {.trace = {{1, 2, 3, 0xff, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xa6}},
         .session = 42,
         .step = UINT64_MAX},
        {.session = UINT64_MAX},
        {.step = 0},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(sent); i++) {
        struct ask ask = {.request.context = sent[i]};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Context"), PS_OK);
        ck_assert(msg_equals(ask.request.reply, (const uint8_t *)&sent[i], sizeof(sent[i])));
        ask_free(&ask);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(unknown_methods_are_unsupported)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    for (int i = 0; i < 20; i++) {
        struct ask ask = {.request.out = out_of("x", 1)};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Missing"), PS_ERR_UNSUPPORTED);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(a_method_for_no_role_denies)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct ask ask = {.request.out = out_of("x", 1)};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Nobody"), PS_ERR_DENIED);
    rig_close(&rig);
}
END_TEST

static void finish_parked(struct rig *rig)
{
    for (int i = 0; i < rig->n_parked; i++) {
        struct ps_out out = out_of("late", 4);
        ps_call_finish(rig->parked[i], PS_OK, &out, NULL);
    }
    rig->n_parked = 0;
}

/* Give the server's side the time to notice. */
static void wait_gone(struct rig *rig, struct ps_call *call)
{
    uint64_t until_ms = ps_clock_ms() + 10000;
    while (!ps_call_gone(call)) {
        if (rig->kind == RIG_DIRECT) {
            ps_inline_exec_pump(&rig->exec);
        }
        ck_assert_uint_lt(ps_clock_ms(), until_ms);
    }
}

START_TEST(a_parked_call_is_answered_later)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct ask ask = {.request.timeout_ms = 9000};
    ask_start(&ask, &rig, "/t.T/Park");
    rig_wait(&rig, &rig.n_parked, 1);
    ck_assert(!ps_call_gone(rig.parked[0]));
    /* gRPC writes what is left in three digits, rounded up: now and then 9.01 s. */
    ck_assert_uint_le(ps_call_time_left_ms(rig.parked[0]), 9010);
    ck_assert_uint_gt(ps_call_time_left_ms(rig.parked[0]), 1000);
    finish_parked(&rig);
    rig_wait(&rig, &ask.n_done, 1);
    ck_assert_int_eq(ask.request.err.status, PS_OK);
    ask_free(&ask);
    rig_close(&rig);
}
END_TEST

START_TEST(a_call_that_nobody_answers_times_out)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct ask warm_up = {0}; /* Else connecting may take all the time there is. */
    ck_assert_int_eq(ask_run(&warm_up, &rig, "/t.T/Echo"), PS_OK);
    ask_free(&warm_up);
    struct ask ask = {.request.timeout_ms = 100};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Park"), PS_ERR_TIMEOUT);
    rig_wait(&rig, &rig.n_parked, 1);
    wait_gone(&rig, rig.parked[0]);
    ck_assert_uint_eq(ps_call_time_left_ms(rig.parked[0]), 0);
    finish_parked(&rig); /* Reaches nobody; still owed. */
    rig_close(&rig);
}
END_TEST

START_TEST(a_canceled_call_ends_at_once_and_the_server_sees_it)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct ask ask = {0};
    ask_start(&ask, &rig, "/t.T/Park");
    rig_wait(&rig, &rig.n_parked, 1);
    ps_request_cancel(rig.channel, &ask.request);
    rig_wait(&rig, &ask.n_done, 1);
    ck_assert_int_eq(ask.request.err.status, PS_ERR_CANCELED);
    wait_gone(&rig, rig.parked[0]);
    finish_parked(&rig);
    ps_request_cancel(rig.channel, &ask.request); /* Too late: means nothing. */
    rig_close(&rig);
    ck_assert_int_eq(ask.n_done, 1);
}
END_TEST

START_TEST(a_call_canceled_before_it_left_ends_too)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    atomic_int n_left = 1;
    struct ps_piece piece = {(const uint8_t *)"abc", 3, count_down, &n_left};
    struct ask ask = {.request.out = {.pieces = &piece, .n_pieces = 1}};
    ask_start(&ask, &rig, "/t.T/Echo");
    ps_request_cancel(rig.channel, &ask.request);
    rig_wait(&rig, &ask.n_done, 1);
    ck_assert(ask.request.err.status == PS_ERR_CANCELED || ask.request.err.status == PS_OK);
    ask_free(&ask);
    rig_close(&rig);
    ck_assert_int_eq(atomic_load(&n_left), 0);
}
END_TEST

START_TEST(a_call_to_nobody_fails_and_gives_its_pieces_back)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    rig_unlisten(&rig);
    atomic_int n_left = 1;
    struct ps_piece piece = {(const uint8_t *)"abc", 3, count_down, &n_left};
    struct ask ask = {.request = {.timeout_ms = 200, .out = {.pieces = &piece, .n_pieces = 1}}};
    enum ps_status status = ask_run(&ask, &rig, "/t.T/Echo");
    ck_assert(status == PS_ERR_UNAVAIL || status == PS_ERR_TIMEOUT);
    rig_close(&rig);
    ck_assert_int_eq(atomic_load(&n_left), 0);
}
END_TEST

START_TEST(a_server_that_returns_on_its_address_is_found_again)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    for (int i = 0; i < 3; i++) {
        struct ask ask = {.request.out = out_of("x", 1)};
        ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
        ask_free(&ask);
        rig_unlisten(&rig);
        ask = (struct ask){.request.timeout_ms = 100};
        ck_assert_int_ne(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
        rig_listen(&rig);
    }
    struct ask ask = {.request.out = out_of("x", 1)};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK);
    ask_free(&ask);
    rig_close(&rig);
}
END_TEST

START_TEST(a_stopped_server_leaves_no_caller_waiting)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct ask ask = {0};
    ask_start(&ask, &rig, "/t.T/Park");
    rig_wait(&rig, &rig.n_parked, 1);
    ps_listener_stop(rig.listener, 20);
    rig_wait(&rig, &ask.n_done, 1);
    ck_assert_int_eq(ask.request.err.status, PS_ERR_UNAVAIL);
    ck_assert(ps_call_gone(rig.parked[0]));
    finish_parked(&rig); /* After the stop: the debt is still paid. */
    ps_listener_close(rig.listener);
    rig.listener = NULL;
    rig_close(&rig);
}
END_TEST

START_TEST(an_address_has_one_listener)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct ps_listener *second = NULL;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_listener_open(rig.transport,
                                      &(struct ps_service){.address = rig.address,
                                                           .methods = rig_methods,
                                                           .n_methods = rig_n_methods},
                                      &second, &err),
                     PS_ERR_EXISTS);
    char want[300];
    (void)snprintf(want, sizeof(want), "cannot listen on %s: address in use", rig.address);
    ck_assert_str_eq(err.text, want);
    struct ask ask = {.request.out = out_of("x", 1)};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Echo"), PS_OK); /* The first still works. */
    ask_free(&ask);
    rig_close(&rig);
}
END_TEST

/* ---- Streams ------------------------------------------------------------------------------- */

static void send_number(struct talk *talk, int number)
{
    uint8_t head[4];
    ps_store_u32(head, (uint32_t)number);
    struct ps_out out = out_of(head, sizeof(head));
    ck_assert_int_eq(ps_stream_send(talk->stream, &out), PS_OK);
}

START_TEST(a_stream_keeps_ten_thousand_messages_in_order)
{
    enum {
        N = 10000,
        AHEAD = 32
    };
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct talk talk = {.counts_numbers = true};
    talk_open(&talk, &rig, "/t.T/Chat");
    for (int i = 0; i < N; i++) {
        rig_wait(&rig, &talk.n_messages, i - AHEAD);
        send_number(&talk, i);
    }
    ps_stream_close(talk.stream, PS_OK); /* What is on its way still arrives. */
    rig_wait(&rig, &talk.n_closed, 1);
    ck_assert_int_eq(talk.status, PS_OK);
    ck_assert_int_eq(talk.n_messages, N);
    ck_assert_int_eq(talk.n_wrong, 0);
    rig_wait(&rig, &rig.n_chats_closed, 1);
    ck_assert_int_eq(rig.chat_status, PS_OK);
    struct ps_out out = out_of("x", 1);
    ck_assert_int_eq(ps_stream_send(talk.stream, &out), PS_ERR_UNAVAIL);
    ps_stream_release(talk.stream);
    rig_close(&rig);
    ck_assert_int_eq(talk.n_closed, 1);
}
END_TEST

START_TEST(the_server_ends_a_stream_with_its_status)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct talk client = {0};
    struct talk server = {.rig = &rig};
    talk_open(&client, &rig, "/t.T/Hold");
    rig_wait(&rig, &rig.n_parked, 1);
    ps_stream_start(rig.held, &talk_events, &server);
    struct ps_out out = out_of("bye", 3);
    ck_assert_int_eq(ps_stream_send(rig.held, &out), PS_OK);
    ps_stream_close(rig.held, PS_ERR_FENCED);
    ck_assert_int_eq(ps_stream_send(rig.held, &out), PS_ERR_UNAVAIL);
    rig_wait(&rig, &client.n_closed, 1);
    ck_assert_int_eq(client.status, PS_ERR_FENCED);
    ck_assert_int_eq(client.n_messages, 1); /* Sent before: arrives before. */
    rig_wait(&rig, &server.n_closed, 1);
    ck_assert_int_eq(server.status, PS_ERR_FENCED);
    ps_stream_release(client.stream);
    ps_stream_release(rig.held);
    rig_close(&rig);
}
END_TEST

START_TEST(a_client_that_breaks_a_stream_is_noticed)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct talk client = {0};
    struct talk server = {.rig = &rig};
    talk_open(&client, &rig, "/t.T/Hold");
    rig_wait(&rig, &rig.n_parked, 1);
    ps_stream_start(rig.held, &talk_events, &server);
    ps_stream_close(client.stream, PS_ERR_CANCELED);
    rig_wait(&rig, &client.n_closed, 1);
    ck_assert_int_eq(client.status, PS_ERR_CANCELED);
    rig_wait(&rig, &server.n_closed, 1);
    ck_assert_int_eq(server.status, PS_ERR_CANCELED);
    ps_stream_release(client.stream);
    ps_stream_release(rig.held);
    rig_close(&rig);
}
END_TEST

START_TEST(a_stop_breaks_streams_on_both_sides)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct talk client = {0};
    struct talk server = {.rig = &rig};
    talk_open(&client, &rig, "/t.T/Hold");
    rig_wait(&rig, &rig.n_parked, 1);
    ps_stream_start(rig.held, &talk_events, &server);
    ps_listener_stop(rig.listener, 10);
    rig_wait(&rig, &client.n_closed, 1);
    ck_assert_int_eq(client.status, PS_ERR_UNAVAIL);
    rig_wait(&rig, &server.n_closed, 1);
    ck_assert_int_eq(server.status, PS_ERR_CANCELED);
    ps_stream_release(client.stream);
    ps_stream_release(rig.held);
    rig_close(&rig);
    ck_assert_int_eq(client.n_closed, 1);
    ck_assert_int_eq(server.n_closed, 1);
}
END_TEST

START_TEST(messages_wait_until_the_server_starts)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct talk client = {0};
    struct talk server = {.rig = &rig, .counts_numbers = true};
    talk_open(&client, &rig, "/t.T/Hold");
    for (int i = 0; i < 10; i++) {
        send_number(&client, i);
    }
    ps_stream_close(client.stream, PS_OK);
    rig_wait(&rig, &rig.n_parked, 1);
    ps_stream_start(rig.held, &talk_events, &server);
    rig_wait(&rig, &server.n_closed, 1);
    ck_assert_int_eq(server.status, PS_OK);
    ck_assert_int_eq(server.n_messages, 10);
    ck_assert_int_eq(server.n_wrong, 0);
    struct ps_out out = out_of("after", 5);
    ck_assert_int_eq(ps_stream_send(rig.held, &out), PS_OK); /* The other direction is open. */
    ps_stream_release(rig.held);
    rig_wait(&rig, &client.n_closed, 1);
    ck_assert_int_eq(client.status, PS_OK);
    ck_assert_int_eq(client.n_messages, 1);
    ps_stream_release(client.stream);
    rig_close(&rig);
}
END_TEST

/* Open a server stream as generated clients do: one message, and that was all. */
static void open_listen(struct rig *rig, struct talk *client, struct talk *server)
{
    *client = (struct talk){0};
    *server = (struct talk){.rig = rig};
    talk_open(client, rig, "/t.T/Listen");
    struct ps_out out = out_of("question", 8);
    ck_assert_int_eq(ps_stream_send(client->stream, &out), PS_OK);
    ps_stream_close(client->stream, PS_OK);
    rig_wait(rig, &rig->n_parked, 1);
    ps_stream_start(rig->held, &talk_events, server);
    rig_wait(rig, &server->n_messages, 1);
}

START_TEST(a_server_stream_goes_on_when_the_client_has_said_all)
{
    struct rig rig;
    struct talk client;
    struct talk server;
    rig_start(&rig, kind_of(_i));
    open_listen(&rig, &client, &server);
    struct ps_out out = out_of("news", 4);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(ps_stream_send(rig.held, &out), PS_OK);
        rig_wait(&rig, &client.n_messages, i + 1);
        rig_wait(&rig, &server.n_drained, i + 1); /* One at a time, so one each. */
        ck_assert_int_eq(server.n_closed, 0);
    }
    ps_stream_close(rig.held, PS_ERR_UNAVAIL);
    rig_wait(&rig, &client.n_closed, 1);
    ck_assert_int_eq(client.status, PS_ERR_UNAVAIL);
    ck_assert_int_eq(client.n_messages, 20);
    rig_wait(&rig, &server.n_closed, 1);
    ck_assert_int_eq(server.status, PS_ERR_UNAVAIL);
    ck_assert_int_eq(server.n_messages, 1);
    ck_assert_int_eq(client.n_drained, 1);
    ck_assert_int_eq(server.n_drained, 20);
    ck_assert_int_eq(client.n_wrong + server.n_wrong, 0);
    ps_stream_release(client.stream);
    ps_stream_release(rig.held);
    rig_close(&rig);
}
END_TEST

START_TEST(a_listener_that_gives_up_is_noticed)
{
    struct rig rig;
    struct talk client;
    struct talk server;
    rig_start(&rig, kind_of(_i));
    open_listen(&rig, &client, &server);
    ps_stream_close(client.stream, PS_ERR_CANCELED);
    rig_wait(&rig, &client.n_closed, 1);
    ck_assert_int_eq(client.status, PS_ERR_CANCELED);
    rig_wait(&rig, &server.n_closed, 1);
    ck_assert_int_eq(server.status, PS_ERR_CANCELED);
    struct ps_out out = out_of("news", 4);
    ck_assert_int_eq(ps_stream_send(rig.held, &out), PS_ERR_UNAVAIL);
    ps_stream_release(client.stream);
    ps_stream_release(rig.held);
    rig_close(&rig);
}
END_TEST

START_TEST(a_stop_breaks_server_streams_on_both_sides)
{
    struct rig rig;
    struct talk client;
    struct talk server;
    rig_start(&rig, kind_of(_i));
    open_listen(&rig, &client, &server);
    ps_listener_stop(rig.listener, 10);
    rig_wait(&rig, &client.n_closed, 1);
    ck_assert_int_eq(client.status, PS_ERR_UNAVAIL);
    rig_wait(&rig, &server.n_closed, 1);
    ck_assert_int_eq(server.status, PS_ERR_CANCELED);
    ps_stream_release(client.stream);
    ps_stream_release(rig.held);
    rig_close(&rig);
}
END_TEST

START_TEST(a_stream_that_nobody_reads_becomes_busy)
{
    enum {
        N_BYTES = 256 * 1024
    };
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct talk client = {0};
    talk_open(&client, &rig, "/t.T/Hold");
    rig_wait(&rig, &rig.n_parked, 1);
    uint8_t *data = calloc(1, N_BYTES);
    ck_assert_ptr_nonnull(data);
    atomic_int n_left = 0;
    enum ps_status status = PS_OK;
    for (int i = 0; i < 1000 && status == PS_OK; i++) {
        (void)atomic_fetch_add(&n_left, 1);
        struct ps_piece piece = {data, N_BYTES, count_down, &n_left};
        struct ps_out out = {.pieces = &piece, .n_pieces = 1};
        status = ps_stream_send(client.stream, &out);
    }
    ck_assert_int_eq(status, PS_ERR_BUSY);
    ps_stream_close(client.stream, PS_ERR_CANCELED);
    rig_wait(&rig, &client.n_closed, 1);
    ps_stream_release(client.stream);
    ps_stream_close(rig.held, PS_OK); /* Never started: released without a `closed`. */
    ps_stream_release(rig.held);
    rig_close(&rig);
    ck_assert_int_eq(atomic_load(&n_left), 0);
    free(data);
}
END_TEST

/* A receiver that keeps what it gets. */
struct hoarder {
    struct rig *rig;
    struct ps_msg *msgs[PS_STREAM_UNREAD_MAX * 3];
    int n_msgs;
    int n_closed;
};

static void hoard(void *arg, struct ps_msg *msg)
{
    struct hoarder *hoarder = arg;
    ck_assert_int_lt(hoarder->n_msgs, (int)PS_ARRAY_LEN(hoarder->msgs));
    hoarder->msgs[hoarder->n_msgs] = msg;
    rig_add(hoarder->rig, &hoarder->n_msgs);
}

static void hoard_closed(void *arg, enum ps_status status PS_UNUSED)
{
    struct hoarder *hoarder = arg;
    rig_add(hoarder->rig, &hoarder->n_closed);
}

static void let_things_happen(struct rig *rig)
{
    for (int i = 0; i < 20; i++) {
        struct ask ask = {0};
        ck_assert_int_eq(ask_run(&ask, rig, "/t.T/Echo"), PS_OK);
        ask_free(&ask);
    }
}

START_TEST(a_stream_brings_no_more_than_its_receiver_lets_go)
{
    enum {
        MAX = PS_STREAM_UNREAD_MAX,
        N = MAX * 3
    };
    static const struct ps_stream_events events = {.message = hoard, .closed = hoard_closed};
    struct rig rig;
    struct talk client = {0};
    struct hoarder hoarder = {.rig = &rig};
    rig_start(&rig, kind_of(_i));
    talk_open(&client, &rig, "/t.T/Hold");
    for (int i = 0; i < N; i++) {
        send_number(&client, i);
    }
    ps_stream_close(client.stream, PS_OK);
    rig_wait(&rig, &rig.n_parked, 1);
    ps_stream_start(rig.held, &events, &hoarder);
    rig_wait(&rig, &hoarder.n_msgs, MAX);
    let_things_happen(&rig);
    ck_assert_int_eq(hoarder.n_msgs, MAX);
    for (int i = 0; i < N; i++) {
        int n_msgs = i + MAX < N ? i + MAX : N;
        rig_wait(&rig, &hoarder.n_msgs, n_msgs);
        let_things_happen(&rig);
        ck_assert_int_eq(hoarder.n_msgs, n_msgs);
        if (i < N - 1) {
            ps_msg_unref(hoarder.msgs[i]);
        }
    }
    rig_wait(&rig, &hoarder.n_closed, 1);
    ps_stream_release(rig.held);
    rig_wait(&rig, &client.n_closed, 1);
    ps_stream_release(client.stream);
    ps_msg_unref(hoarder.msgs[N - 1]); /* After the stream: nothing of it is touched any more. */
    rig_close(&rig);
    ck_assert_int_eq(hoarder.n_closed, 1);
}
END_TEST

START_TEST(a_stream_to_nobody_is_closed)
{
    struct rig rig;
    rig_start(&rig, kind_of(_i));
    struct talk missing = {0};
    talk_open(&missing, &rig, "/t.T/Missing");
    rig_wait(&rig, &missing.n_closed, 1);
    ck_assert_int_eq(missing.status, PS_ERR_UNSUPPORTED);
    ps_stream_release(missing.stream);
    rig_unlisten(&rig);
    struct talk nobody = {0};
    talk_open(&nobody, &rig, "/t.T/Chat");
    rig_wait(&rig, &nobody.n_closed, 1);
    ck_assert_int_eq(nobody.status, PS_ERR_UNAVAIL);
    ps_stream_release(nobody.stream);
    rig_close(&rig);
}
END_TEST

Suite *suite_transport_contract(void)
{
    const TTest *const tests[] = {
        a_request_comes_back_as_its_reply,
        an_empty_message_is_a_message,
        large_messages_arrive_byte_for_byte,
        every_status_and_its_reason_reach_the_caller,
        a_refusal_says_when_to_come_again,
        the_context_travels_along,
        unknown_methods_are_unsupported,
        a_method_for_no_role_denies,
        a_parked_call_is_answered_later,
        a_call_that_nobody_answers_times_out,
        a_canceled_call_ends_at_once_and_the_server_sees_it,
        a_call_canceled_before_it_left_ends_too,
        a_call_to_nobody_fails_and_gives_its_pieces_back,
        a_server_that_returns_on_its_address_is_found_again,
        a_stopped_server_leaves_no_caller_waiting,
        an_address_has_one_listener,
        a_stream_keeps_ten_thousand_messages_in_order,
        the_server_ends_a_stream_with_its_status,
        a_client_that_breaks_a_stream_is_noticed,
        a_stop_breaks_streams_on_both_sides,
        messages_wait_until_the_server_starts,
        a_server_stream_goes_on_when_the_client_has_said_all,
        a_listener_that_gives_up_is_noticed,
        a_stop_breaks_server_streams_on_both_sides,
        a_stream_that_nobody_reads_becomes_busy,
        a_stream_brings_no_more_than_its_receiver_lets_go,
        a_stream_to_nobody_is_closed,
    };
    Suite *suite = suite_create("transport_contract");
    TCase *tcase = tcase_create("every kind");
    tcase_set_timeout(tcase, 60);
    for (size_t i = 0; i < PS_ARRAY_LEN(tests); i++) {
        tcase_add_loop_test(tcase, tests[i], 0, RIG_KIND_COUNT);
    }
    suite_add_tcase(suite, tcase);
    return suite;
}
