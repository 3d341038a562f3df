/*
 * test_guard.c — peers that hold what they were given: requests that never arrive, answers that
 * nobody takes, messages without end, connections that have died without a word.
 */
#include "unit/rpc/test_guard.h"

#include <string.h>

#include "base/limits.h"
#include "unit/rpc/raw_peer.h"
#include "unit/rpc/rig.h"

#define WIDE  (1u << 30) /* A window in which everything fits. */
#define NEVER 600000u    /* Milliseconds: not within this test. */
#define LARGE (3u << 20)

static void serve(struct rig *rig, const struct ps_rpc_options *options)
{
    rig_open(rig, RIG_TCP, options);
    rig_listen(rig);
    rig_dial(rig, PS_TRAFFIC_DATA);
}

static void assert_echo(struct rig *rig)
{
    struct ask ask = {.request.out = {.head = (const uint8_t *)"good", .n_head_bytes = 4}};
    enum ps_status status = ask_run(&ask, rig, "/t.T/Echo");
    ck_assert_msg(status == PS_OK, "%s", ask.request.err.text);
    ask_free(&ask);
}

/* `n` calls on one connection that send their headers and nothing else, without a deadline. */
static void call_without_body(struct raw_peer *peer, struct rig *rig, uint32_t n)
{
    raw_open(peer, rig->address, WIDE);
    for (uint32_t i = 0; i < n; i++) {
        raw_call(peer, 1 + 2 * i, "/t.T/Echo", NULL);
    }
    /* So much the server has seen for sure, since it answers in order. */
    raw_send_frame(peer, RAW_PING, 0, 0, "12345678", 8);
    ck_assert(raw_read_until(peer, &peer->n_frames[RAW_PING], 1));
}

START_TEST(a_request_that_never_arrives_is_ended)
{
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){.n_message_bytes_max = 1000, .passage_ms = 300});
    call_without_body(&peer, &rig, 3);
    ck_assert(raw_read_until(&peer, &peer.n_ended, 3));
    assert_echo(&rig);
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

START_TEST(requests_that_never_arrive_make_way_sooner_when_no_call_can_come_in)
{
    struct rig rig;
    struct raw_peer peer;
    serve(&rig,
          &(struct ps_rpc_options){
              .n_calls_max = 4, .n_reads_per_peer = 64, .passage_ms = NEVER, .crowded_ms = 300});
    call_without_body(&peer, &rig, 12);
    assert_echo(&rig);
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

START_TEST(one_connection_takes_its_share_of_places_and_its_calls_wait_their_turn)
{
    enum {
        N = 12
    };
    struct rig rig;
    struct raw_peer peer;
    serve(&rig,
          &(struct ps_rpc_options){
              .n_reads_max = 8, .n_reads_per_peer = 2, .passage_ms = NEVER, .crowded_ms = NEVER});
    call_without_body(&peer, &rig, N);
    assert_echo(&rig);
    ck_assert_uint_eq(peer.n_ended, 0);
    for (uint32_t i = N; i-- > 2;) {
        raw_message(&peer, 1 + 2 * i, 0, "late", 4, true);
    }
    raw_send_frame(&peer, RAW_PING, 0, 0, "12345678", 8);
    ck_assert(raw_read_until(&peer, &peer.n_frames[RAW_PING], 2));
    assert_echo(&rig);
    raw_send_frame(&peer, RAW_PING, 0, 0, "12345678", 8);
    ck_assert(raw_read_until(&peer, &peer.n_frames[RAW_PING], 3));
    ck_assert_uint_eq(peer.n_ended, 0); /* The first two hold both places. */
    raw_message(&peer, 3, 0, "late", 4, true);
    raw_message(&peer, 1, 0, "late", 4, true);
    ck_assert(raw_read_until(&peer, &peer.n_ended, N));
    ck_assert_uint_ge(peer.n_data_bytes, N * 9u); /* Each has its answer: 5 bytes and "late". */
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

/* All places are taken, and by far: each connection still has some of its own. */
START_TEST(whatever_others_hold_a_connection_that_has_nothing_under_way_is_served)
{
    enum {
        N = 8
    };
    struct rig rig;
    struct raw_peer peers[N];
    serve(&rig,
          &(struct ps_rpc_options){.n_reads_max = 4, .passage_ms = NEVER, .crowded_ms = NEVER});
    for (int i = 0; i < N; i++) {
        call_without_body(&peers[i], &rig, 100);
    }
    for (int i = 0; i < 20; i++) {
        assert_echo(&rig);
    }
    for (int i = 0; i < N; i++) {
        ck_assert_uint_eq(peers[i].n_ended, 0);
        raw_close(&peers[i]);
    }
    rig_close(&rig);
}
END_TEST

/*
 * A place that becomes free is one of all and one of its connection's own: whoever waits first gets
 * the former, and that must not cost the connection the latter.
 */
START_TEST(a_place_of_ones_own_is_not_lost_to_those_who_wait_before)
{
    enum {
        N_OTHERS = 4
    };
    struct rig rig;
    struct raw_peer others[N_OTHERS];
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){.n_reads_max = 2 + 2 * N_OTHERS,
                                         .passage_ms = NEVER,
                                         .crowded_ms = NEVER,
                                         .keepalive_ms = NEVER});
    call_without_body(&peer, &rig, 2); /* With the own ones of the others these are all. */
    for (int i = 0; i < N_OTHERS; i++) {
        call_without_body(&others[i], &rig, 2);
    }
    for (int i = 0; i < N_OTHERS; i++) {
        for (uint32_t k = 2; k < 10; k++) {
            raw_call(&others[i], 1 + 2 * k, "/t.T/Echo", NULL);
        }
        raw_send_frame(&others[i], RAW_PING, 0, 0, "12345678", 8);
        ck_assert(raw_read_until(&others[i], &others[i].n_frames[RAW_PING], 2));
    }
    for (uint32_t i = 2; i < 6; i++) { /* Behind them. */
        raw_call(&peer, 1 + 2 * i, "/t.T/Echo", NULL);
        raw_message(&peer, 1 + 2 * i, 0, "mine", 4, true);
    }
    raw_send_frame(&peer, RAW_PING, 0, 0, "12345678", 8);
    ck_assert(raw_read_until(&peer, &peer.n_frames[RAW_PING], 2));
    ck_assert_uint_eq(peer.n_ended, 0);
    raw_message(&peer, 1, 0, "mine", 4, true);
    raw_message(&peer, 3, 0, "mine", 4, true);
    ck_assert(raw_read_until(&peer, &peer.n_ended, 6));
    for (int i = 0; i < N_OTHERS; i++) {
        ck_assert_uint_eq(others[i].n_ended, 0);
        raw_close(&others[i]);
    }
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

START_TEST(a_connection_opens_no_streams_without_end)
{
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){.passage_ms = NEVER, .crowded_ms = NEVER});
    raw_open(&peer, rig.address, WIDE);
    for (uint32_t i = 0; i < PS_RPC_OPENING_PER_PEER + 10; i++) {
        raw_call(&peer, 1 + 2 * i, "/t.T/Chat", NULL);
    }
    ck_assert(raw_read_until(&peer, &peer.n_ended, 10)); /* Refused. */
    struct talk talk = {0};
    talk_open(&talk, &rig, "/t.T/Chat"); /* Another connection has places of its own. */
    struct ps_out out = {.head = (const uint8_t *)"good", .n_head_bytes = 4};
    ck_assert_int_eq(ps_stream_send(talk.stream, &out), PS_OK);
    rig_wait(&rig, &talk.n_messages, 1);
    ps_stream_close(talk.stream, PS_OK);
    rig_wait(&rig, &talk.n_closed, 1);
    ps_stream_release(talk.stream);
    raw_close(&peer);
    rig_wait(&rig, &rig.n_chats_closed, PS_RPC_OPENING_PER_PEER + 1);
    rig_close(&rig);
}
END_TEST

START_TEST(calls_that_wait_for_their_turn_and_are_given_up_leave_nothing)
{
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){
                    .n_reads_per_peer = 1, .passage_ms = NEVER, .crowded_ms = NEVER});
    call_without_body(&peer, &rig, 50);
    raw_close(&peer);
    assert_echo(&rig);
    rig_close(&rig); /* Which waits for all calls. */
}
END_TEST

/* The server's only place is held by an answer until its time is over. */
START_TEST(an_answer_that_nobody_takes_gives_its_place_back)
{
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){.n_calls_max = 1, .passage_ms = 300});
    raw_open(&peer, rig.address, 0); /* The server may send no byte. */
    raw_call(&peer, 1, "/t.T/Echo", NULL);
    raw_message(&peer, 1, 0, "hello", 5, true);
    for (int i = 0; i < 3; i++) {
        assert_echo(&rig);
    }
    ck_assert(raw_read_until(&peer, &peer.n_ended, 1) || peer.n_frames[RAW_RST_STREAM] > 0);
    ck_assert_uint_eq(peer.n_data_bytes, 0);
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

/* Answers of 3 KB are small; of 30 KB there is an end, until somebody takes them or goes. */
START_TEST(answers_that_nobody_takes_have_an_end_in_bytes)
{
    static uint8_t large[30000];
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){
                    .n_untaken_max = 100000, .passage_ms = NEVER, .crowded_ms = NEVER});
    raw_open(&peer, rig.address, 0); /* The server may send no byte of them. */
    for (uint32_t i = 0; i < 3; i++) {
        raw_call(&peer, 1 + 2 * i, "/t.T/Park", NULL);
        raw_message(&peer, 1 + 2 * i, 0, "x", 1, true);
    }
    rig_wait(&rig, &rig.n_parked, 3);
    struct ps_out out = {.head = large, .n_head_bytes = sizeof(large)};
    for (int i = 0; i < 3; i++) {
        ps_call_finish(rig.parked[i], PS_OK, &out, NULL);
    }
    enum ps_status status = PS_ERR_BUSY;
    for (int i = 3; i < RIG_PARKED_MAX && status == PS_ERR_BUSY; i++) {
        struct ask ask = {0};
        ask_start(&ask, &rig, "/t.T/Park");
        rig_wait(&rig, &rig.n_parked, i + 1);
        ps_call_finish(rig.parked[i], PS_OK, &out, NULL);
        rig_wait(&rig, &ask.n_done, 1);
        status = ask.request.err.status;
        ck_assert_int_eq(i == 3 ? status : PS_ERR_BUSY, PS_ERR_BUSY);
        ask_free(&ask);
        assert_echo(&rig);
        if (i == 3) {
            raw_close(&peer); /* All comes back, if not at once. */
        }
    }
    ck_assert_int_eq(status, PS_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_closed_stream_that_nobody_reads_gives_its_place_back)
{
    struct rig rig;
    struct raw_peer peer;
    struct talk server = {.rig = &rig};
    serve(&rig, &(struct ps_rpc_options){.n_calls_max = 1, .passage_ms = 300});
    raw_open(&peer, rig.address, 0);
    raw_call(&peer, 1, "/t.T/Hold", NULL);
    rig_wait(&rig, &rig.n_parked, 1);
    struct ps_out out = {.head = (const uint8_t *)"bye", .n_head_bytes = 3};
    ps_stream_start(rig.held, &talk_events, &server);
    ck_assert_int_eq(ps_stream_send(rig.held, &out), PS_OK);
    ps_stream_close(rig.held, PS_OK);
    rig_wait(&rig, &server.n_closed, 1);
    ps_stream_release(rig.held);
    struct ask ask = {0};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Context"), PS_OK); /* There is one place. */
    ask_free(&ask);
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

START_TEST(a_stream_on_which_nothing_is_said_is_ended)
{
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){.passage_ms = 300});
    raw_open(&peer, rig.address, WIDE);
    raw_call(&peer, 1, "/t.T/Chat", NULL);
    rig_wait(&rig, &rig.n_chats_closed, 1);
    ck_assert_int_eq(rig.chat_status, PS_ERR_CANCELED);

    raw_call(&peer, 3, "/t.T/Chat", NULL); /* One that has spoken may be silent afterwards. */
    raw_message(&peer, 3, 0, "hello", 5, false);
    raw_call(&peer, 5, "/t.T/Chat", NULL);
    rig_wait(&rig, &rig.n_chats_closed, 2); /* That of stream 5, which was opened last. */
    raw_message(&peer, 3, 0, "again", 5, false);
    uint32_t before = peer.n_frames[RAW_DATA];
    ck_assert(raw_read_until(&peer, &peer.n_frames[RAW_DATA], before + 2));
    raw_close(&peer);
    rig_wait(&rig, &rig.n_chats_closed, 3);
    rig_close(&rig);
}
END_TEST

/* ---- Connections --------------------------------------------------------------------------- */

START_TEST(a_peer_that_answers_no_ping_is_cut)
{
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){.keepalive_ms = 500, .ping_answer_ms = 500});
    raw_open(&peer, rig.address, WIDE);
    peer.answers_no_ping = true;
    ck_assert(raw_read_to_end(&peer));
    ck_assert_uint_ge(peer.n_frames[RAW_PING], 1);
    assert_echo(&rig); /* One that answers, ours, is not. */
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

static void count_up(void *arg)
{
    rig_add(rig_served, arg);
}

/* Memory that is lent for an answer comes back although the peer has stopped reading. */
START_TEST(a_peer_that_stops_reading_in_the_middle_of_an_answer_is_cut)
{
    enum {
        N = 24
    };
    static uint8_t large[LARGE];
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, &(struct ps_rpc_options){
                    .passage_ms = NEVER, .keepalive_ms = 1000, .ping_answer_ms = 1000});
    int n_back = 0;
    raw_open(&peer, rig.address, WIDE);
    for (uint32_t i = 0; i < N; i++) { /* More than the sockets take by themselves. */
        raw_call(&peer, 1 + 2 * i, "/t.T/Park", NULL);
        raw_message(&peer, 1 + 2 * i, 0, "x", 1, true);
    }
    rig_wait(&rig, &rig.n_parked, N);
    for (int i = 0; i < N; i++) {
        struct ps_piece piece = {large, LARGE, count_up, &n_back};
        struct ps_out out = {.pieces = &piece, .n_pieces = 1};
        ps_call_finish(rig.parked[i], PS_OK, &out, NULL);
    }
    ck_assert_int_lt(n_back, N);
    rig_wait(&rig, &n_back, N);
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

START_TEST(a_peer_that_pings_without_end_is_cut)
{
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, NULL);
    raw_open(&peer, rig.address, WIDE);
    for (int i = 0; i < 1000; i++) {
        raw_send_frame(&peer, RAW_PING, 0, 0, "12345678", 8);
    }
    ck_assert(raw_read_to_end(&peer));
    ck_assert_uint_ge(peer.n_frames[RAW_GOAWAY], 1);
    assert_echo(&rig);
    raw_close(&peer);
    rig_close(&rig);
}
END_TEST

/* ---- Messages ------------------------------------------------------------------------------ */

START_TEST(a_compressed_message_is_refused_on_calls_and_on_streams)
{
    static const char *const encodings[] = {"gzip", "deflate", "identity", NULL};
    struct rig rig;
    struct raw_peer peer;
    serve(&rig, NULL);
    raw_open(&peer, rig.address, WIDE);
    uint32_t stream = 1;
    uint32_t n_ended = 0;
    for (size_t i = 0; i < PS_ARRAY_LEN(encodings); i++) {
        raw_call(&peer, stream, "/t.T/Echo", encodings[i]);
        raw_message(&peer, stream, 1, "\x1f\x8b\x08\x00garbage", 11, true);
        raw_call(&peer, stream + 2, "/t.T/Chat", encodings[i]);
        raw_message(&peer, stream + 2, 1, "\x1f\x8b\x08\x00garbage", 11, true);
        stream += 4;
        n_ended += 2;
        ck_assert(raw_read_until(&peer, &peer.n_ended, n_ended) ||
                  peer.n_ended + peer.n_frames[RAW_RST_STREAM] >= n_ended);
    }
    assert_echo(&rig);
    raw_close(&peer);
    rig_wait(&rig, &rig.n_chats_closed, (int)PS_ARRAY_LEN(encodings));
    rig_close(&rig);
}
END_TEST

START_TEST(a_method_of_control_can_take_longer_messages_than_others)
{
    static uint8_t data[RIG_LONG_BYTES + 1];
    struct rig rig;
    serve(&rig, NULL);
    struct ask ask = {.request.out = {.head = data, .n_head_bytes = RIG_LONG_BYTES + 1}};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Long"), PS_ERR_INVALID);
    ask = (struct ask){.request.out = {.head = data, .n_head_bytes = RIG_LONG_BYTES}};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Long"), PS_OK);
    ask_free(&ask);
    rig_close(&rig);
}
END_TEST

START_TEST(a_message_for_control_is_short)
{
    static uint8_t data[PS_CONTROL_BYTES_MAX + 1];
    struct rig rig;
    serve(&rig, NULL);
    struct ask ask = {.request.out = {.head = data, .n_head_bytes = PS_CONTROL_BYTES_MAX + 1}};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Context"), PS_ERR_INVALID);
    ask = (struct ask){.request.out = {.head = data, .n_head_bytes = PS_CONTROL_BYTES_MAX}};
    ck_assert_int_eq(ask_run(&ask, &rig, "/t.T/Context"), PS_OK);
    ask_free(&ask);
    struct talk talk = {0};
    talk_open(&talk, &rig, "/t.T/Chat");
    struct ps_out out = {.head = data, .n_head_bytes = PS_CONTROL_BYTES_MAX + 1};
    ck_assert_int_eq(ps_stream_send(talk.stream, &out), PS_OK);
    rig_wait(&rig, &talk.n_closed, 1);
    ck_assert_int_eq(talk.status, PS_ERR_INVALID);
    ps_stream_release(talk.stream);
    rig_wait(&rig, &rig.n_chats_closed, 1);
    rig_close(&rig);
}
END_TEST

/* The reply is over the client's own limit: asking again would never help. */
START_TEST(a_reply_over_the_limit_is_an_error_that_lasts)
{
    struct rig server;
    struct rig client;
    rig_open(&client, RIG_TCP, &(struct ps_rpc_options){.n_message_bytes_max = 8});
    rig_open(&server, RIG_TCP, NULL);
    rig_listen(&server);
    memcpy(client.address, server.address, sizeof(client.address));
    rig_dial(&client, PS_TRAFFIC_DATA);
    struct ask ask = {0};
    enum ps_status status = ask_run(&ask, &client, "/t.T/Context");
    ck_assert_msg(status == PS_ERR_INVALID, "%s", ask.request.err.text);
    ck_assert(!ps_status_retryable(status));
    ck_assert_uint_eq(ask.request.retry_ms, 0);
    rig_close(&client);
    rig_close(&server);
}
END_TEST

Suite *suite_guard(void)
{
    Suite *suite = suite_create("guard");
    TCase *tcase = tcase_create("peers");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_request_that_never_arrives_is_ended);
    tcase_add_test(tcase, requests_that_never_arrive_make_way_sooner_when_no_call_can_come_in);
    tcase_add_test(tcase, one_connection_takes_its_share_of_places_and_its_calls_wait_their_turn);
    tcase_add_test(tcase, whatever_others_hold_a_connection_that_has_nothing_under_way_is_served);
    tcase_add_test(tcase, a_place_of_ones_own_is_not_lost_to_those_who_wait_before);
    tcase_add_test(tcase, a_connection_opens_no_streams_without_end);
    tcase_add_test(tcase, calls_that_wait_for_their_turn_and_are_given_up_leave_nothing);
    tcase_add_test(tcase, an_answer_that_nobody_takes_gives_its_place_back);
    tcase_add_test(tcase, answers_that_nobody_takes_have_an_end_in_bytes);
    tcase_add_test(tcase, a_closed_stream_that_nobody_reads_gives_its_place_back);
    tcase_add_test(tcase, a_stream_on_which_nothing_is_said_is_ended);
    tcase_add_test(tcase, a_peer_that_answers_no_ping_is_cut);
    tcase_add_test(tcase, a_peer_that_stops_reading_in_the_middle_of_an_answer_is_cut);
    tcase_add_test(tcase, a_peer_that_pings_without_end_is_cut);
    tcase_add_test(tcase, a_compressed_message_is_refused_on_calls_and_on_streams);
    tcase_add_test(tcase, a_message_for_control_is_short);
    tcase_add_test(tcase, a_method_of_control_can_take_longer_messages_than_others);
    tcase_add_test(tcase, a_reply_over_the_limit_is_an_error_that_lasts);
    suite_add_tcase(suite, tcase);
    return suite;
}
