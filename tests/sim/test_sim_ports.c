/*
 * test_sim_ports.c — the simulated executor and network keep what port/ promises, and the same seed
 * is the same schedule. Method: tiny services under the wildest luck, over many seeds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "lib/test_main.h"
#include "sim/sim_exec.h"
#include "sim/sim_net.h"

#define N_SEEDS 40

static const struct sim_faults wild = {
    .delay_ns = SIM_MS,
    .lost_pm = 100,
    .doubled_pm = 200,
    .late_ns = 10 * SIM_S,
    .reset_pm = 50,
    .held_pm = 50,
    .stream_life_ns = SIM_S,
};

/* ---- Executor ------------------------------------------------------------------------------ */

#define N_POSTERS 3
#define N_MAILS   50

struct note {
    struct ps_mail mail;
    struct sim_exec *exec;
    uint32_t poster;
    uint32_t number;
    uint32_t *next; /* Per poster: the number that must come next. */
    bool *posting;  /* Somebody is inside post(). */
};

static void run_note(struct ps_mail *mail)
{
    struct note *note = PS_CONTAINER_OF(mail, struct note, mail);
    ck_assert(!*note->posting);
    ck_assert_uint_eq(note->next[note->poster], note->number);
    ck_assert_ptr_eq(note->exec->world->running, &note->exec->base);
    note->next[note->poster]++;
}

struct poster {
    struct sim_event event;
    struct sim_exec *target;
    struct note *notes; /* [N_MAILS] */
    uint32_t n_posted;
    bool *posting;
};

static void run_poster(struct sim_event *event)
{
    struct poster *poster = PS_CONTAINER_OF(event, struct poster, event);
    *poster->posting = true;
    ps_exec_post(&poster->target->base, &poster->notes[poster->n_posted++].mail);
    *poster->posting = false;
    if (poster->n_posted < N_MAILS) {
        struct sim_world *world = poster->target->world;
        sim_event_start(world, event, sim_below(world, 30 * SIM_US));
    }
}

START_TEST(mail_runs_once_in_the_order_of_its_poster_and_never_inside_post)
{
    static struct note notes[N_POSTERS][N_MAILS];
    struct poster posters[N_POSTERS];
    uint32_t next[N_POSTERS] = {0};
    bool posting = false;
    struct sim_exec exec;
    struct sim_world *world = sim_world_create(test_seed() + (uint64_t)_i);
    struct sim_node *node = sim_node_create(world, "node");
    sim_exec_init(&exec, node);
    for (uint32_t p = 0; p < N_POSTERS; p++) {
        for (uint32_t i = 0; i < N_MAILS; i++) {
            notes[p][i] = (struct note){{.run = run_note}, &exec, p, i, next, &posting};
        }
        posters[p] = (struct poster){.target = &exec, .notes = notes[p], .posting = &posting};
        sim_event_init(&posters[p].event, NULL, run_poster);
        sim_event_start(world, &posters[p].event, 0);
    }
    sim_world_run_until(world, SIM_S);
    for (uint32_t p = 0; p < N_POSTERS; p++) {
        ck_assert_uint_eq(next[p], N_MAILS);
    }
    ck_assert(sim_exec_stop(&exec));
    sim_world_destroy(world);
}
END_TEST

struct alarm {
    struct ps_timer timer;
    struct sim_exec *exec;
    uint64_t due_ms;
    uint32_t n_rung;
};

static void ring(struct ps_timer *timer)
{
    struct alarm *alarm = PS_CONTAINER_OF(timer, struct alarm, timer);
    ck_assert_uint_ge(ps_exec_now_ms(&alarm->exec->base), alarm->due_ms);
    alarm->n_rung++;
}

START_TEST(timers_ring_once_not_too_early_and_not_after_stop)
{
    struct alarm alarms[20] = {0};
    struct sim_exec exec;
    struct sim_world *world = sim_world_create(test_seed() + (uint64_t)_i);
    sim_exec_init(&exec, sim_node_create(world, "node"));
    for (uint32_t i = 0; i < PS_ARRAY_LEN(alarms); i++) {
        uint64_t after_ms = sim_below(world, 500);
        alarms[i].exec = &exec;
        alarms[i].due_ms = ps_exec_now_ms(&exec.base) + after_ms;
        ps_timer_init(&alarms[i].timer, ring);
        ps_timer_start(&exec.base, &alarms[i].timer, after_ms);
    }
    ps_timer_stop(&exec.base, &alarms[3].timer);
    sim_world_run_until(world, SIM_S);
    for (uint32_t i = 0; i < PS_ARRAY_LEN(alarms); i++) {
        ck_assert_uint_eq(alarms[i].n_rung, i == 3 ? 0 : 1);
    }
    (void)sim_exec_stop(&exec);
    sim_world_destroy(world);
}
END_TEST

START_TEST(a_paused_node_does_nothing_until_it_goes_on)
{
    struct alarm alarm = {0};
    struct sim_exec exec;
    struct sim_world *world = sim_world_create(test_seed());
    struct sim_node *node = sim_node_create(world, "node");
    sim_exec_init(&exec, node);
    alarm.exec = &exec;
    ps_timer_init(&alarm.timer, ring);
    ps_timer_start(&exec.base, &alarm.timer, 10);
    sim_node_pause(node);
    sim_world_run_until(world, SIM_S);
    ck_assert_uint_eq(alarm.n_rung, 0);
    sim_node_resume(node);
    sim_world_run_until(world, 2 * SIM_S);
    ck_assert_uint_eq(alarm.n_rung, 1);
    (void)sim_exec_stop(&exec);
    sim_world_destroy(world);
}
END_TEST

static void misuse(struct ps_mail *mail)
{
    struct note *note = PS_CONTAINER_OF(mail, struct note, mail);
    static struct ps_timer timer;
    ps_timer_init(&timer, NULL);
    ps_timer_start(&note->exec->base, &timer, 5); /* Another executor's. */
    ps_timer_stop(&note->exec->base, &timer);
}

START_TEST(a_timer_touched_by_another_executor_is_a_broken_promise)
{
    struct sim_exec one;
    struct sim_exec other;
    struct sim_world *world = sim_world_create(test_seed());
    struct sim_node *node = sim_node_create(world, "node");
    sim_exec_init(&one, node);
    sim_exec_init(&other, node);
    struct note note = {.mail.run = misuse, .exec = &other};
    ps_exec_post(&one.base, &note.mail);
    sim_world_run_until(world, SIM_S);
    ck_assert_ptr_nonnull(strstr(world->broken, "timer"));
    (void)sim_exec_stop(&one);
    (void)sim_exec_stop(&other);
    sim_world_destroy(world);
}
END_TEST

/* ---- Calls --------------------------------------------------------------------------------- */

#define N_CALLS 100

struct echo {
    struct sim_world *world;
    struct sim_exec exec;
    struct ps_transport *transport;
    struct ps_listener *listener;
    struct ps_method methods[3];
    uint32_t n_served;
    uint32_t n_pieces_lent;
    uint32_t n_pieces_done;
};

struct answer_later {
    struct ps_mail mail;
    struct echo *echo;
    struct ps_call *call;
    struct ps_msg *msg; /* The request: its bytes are the reply's. */
};

static void piece_done(void *arg)
{
    struct answer_later *later = arg;
    later->echo->n_pieces_done++;
    ps_msg_unref(later->msg);
    ps_mem_free(later);
}

static void answer_now(struct ps_mail *mail)
{
    struct answer_later *later = PS_CONTAINER_OF(mail, struct answer_later, mail);
    struct ps_piece pieces[8];
    size_t n_pieces = 0;
    if (sim_chance(later->echo->world, 100)) {
        ps_call_finish(later->call, PS_ERR_BUSY, NULL, "by chance");
        ps_msg_unref(later->msg);
        ps_mem_free(later);
        return;
    }
    for (size_t i = 0; i < later->msg->n_slices; i++) {
        pieces[n_pieces++] = (struct ps_piece){.data = later->msg->slices[i].data,
                                               .n_bytes = later->msg->slices[i].n_bytes};
    }
    pieces[n_pieces - 1].done = piece_done;
    pieces[n_pieces - 1].arg = later;
    later->echo->n_pieces_lent++;
    ps_call_finish(later->call, PS_OK,
                   &(struct ps_out){.head = (const uint8_t *)"echo",
                                    .n_head_bytes = 4,
                                    .pieces = pieces,
                                    .n_pieces = n_pieces},
                   NULL);
}

static void serve(void *arg, struct ps_call *call)
{
    struct echo *echo = arg;
    struct answer_later *later = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*later));
    ck_assert_ptr_nonnull(later);
    echo->n_served++;
    *later = (struct answer_later){
        .mail.run = answer_now, .echo = echo, .call = call, .msg = ps_call_take_request(call)};
    ps_exec_post(&echo->exec.base, &later->mail);
}

struct asking {
    struct ps_request request;
    struct sim_world *world;
    uint8_t head[8];
    uint8_t body[200];
    uint32_t n_body_done;
    uint32_t n_done;
    bool starting; /* Inside request_start. */
    enum ps_status status;
};

static void body_done(void *arg)
{
    struct asking *asking = arg;
    ck_assert(!asking->starting);
    asking->n_body_done++;
    memset(asking->body, 0xee, sizeof(asking->body)); /* Ours again: must not be read any more. */
}

static void heard(struct ps_request *request)
{
    struct asking *asking = PS_CONTAINER_OF(request, struct asking, request);
    ck_assert(!asking->starting);
    asking->n_done++;
    asking->status = request->err.status;
    ck_assert_int_eq(request->reply != NULL, asking->status == PS_OK);
    if (request->reply == NULL) {
        return;
    }
    uint8_t bytes[4 + 8 + 200];
    struct ps_cursor cursor = ps_cursor_over(request->reply->slices, request->reply->n_slices);
    ck_assert_uint_eq(request->reply->n_bytes, sizeof(bytes));
    ps_cursor_copy(&cursor, bytes, sizeof(bytes));
    ck_assert_int_eq(memcmp(bytes, "echo", 4), 0);
    ck_assert_int_eq(memcmp(bytes + 4, asking->head, 8), 0);
    for (size_t i = 12; i < sizeof(bytes); i++) {
        ck_assert_uint_eq(bytes[i], asking->head[0]);
    }
    ps_msg_unref(request->reply);
}

static void ask(struct ps_channel *channel, struct asking *asking, uint32_t number)
{
    memset(asking->head, (int)(number % 200), sizeof(asking->head));
    memset(asking->body, (int)(number % 200), sizeof(asking->body));
    struct ps_piece piece = {asking->body, sizeof(asking->body), body_done, asking};
    asking->request = (struct ps_request){.method = "/test/Echo",
                                          .timeout_ms = 1000,
                                          .out = {asking->head, sizeof(asking->head), &piece, 1},
                                          .done = heard};
    asking->starting = true;
    ps_request_start(channel, &asking->request);
    asking->starting = false;
}

static void accept_chat(void *arg, struct ps_stream *stream);

static void open_echo_at(struct echo *echo, struct sim_net *net, struct sim_node *node,
                         const char *address)
{
    *echo = (struct echo){.world = node->world};
    echo->methods[0] = (struct ps_method){.path = "/test/Echo", .call = serve, .arg = echo};
    echo->methods[1] = (struct ps_method){
        .path = "/test/Chat", .kind = PS_METHOD_STREAM, .accept = accept_chat, .arg = echo};
    echo->methods[2] = (struct ps_method){.path = "/test/Listen",
                                          .kind = PS_METHOD_SERVER_STREAM,
                                          .accept = accept_chat,
                                          .arg = echo};
    sim_exec_init(&echo->exec, node);
    echo->transport = sim_net_transport(net, node);
    ck_assert_int_eq(
        ps_listener_open(
            echo->transport,
            &(struct ps_service){.address = address, .methods = echo->methods, .n_methods = 3},
            &echo->listener, NULL),
        PS_OK);
}

static void open_echo(struct echo *echo, struct sim_net *net, struct sim_node *node)
{
    open_echo_at(echo, net, node, "echo:0");
}

/* Ask N_CALLS times under bad luck; returns the hash of the schedule. */
static uint64_t run_calls(uint64_t seed, uint32_t *ret_n_ok)
{
    static struct asking askings[N_CALLS];
    memset(askings, 0, sizeof(askings));
    struct sim_world *world = sim_world_create(seed);
    struct sim_net *net = sim_net_create(world);
    struct sim_node *server = sim_node_create(world, "server");
    struct sim_node *client = sim_node_create(world, "client");
    struct echo echo;
    struct ps_channel *channel = NULL;
    open_echo(&echo, net, server);
    sim_net_set_faults(net, &wild);
    ck_assert_int_eq(ps_channel_open(sim_net_transport(net, client),
                                     ps_listener_address(echo.listener), PS_TRAFFIC_DATA, NULL,
                                     &channel, NULL),
                     PS_OK);
    for (uint32_t i = 0; i < N_CALLS; i++) {
        ask(channel, &askings[i], i);
        if (i == N_CALLS / 3) {
            sim_net_cut(net, client, server, true);
        } else if (i == N_CALLS / 2) {
            ps_request_cancel(channel, &askings[i].request);
            sim_net_cut(net, client, server, false);
        }
        sim_world_run_until(world, world->now_ns + sim_below(world, 20 * SIM_MS));
    }
    sim_world_run_until(world, world->now_ns + 60 * SIM_S);
    *ret_n_ok = 0;
    for (uint32_t i = 0; i < N_CALLS; i++) {
        ck_assert_uint_eq(askings[i].n_done, 1);
        ck_assert_uint_eq(askings[i].n_body_done, 1);
        *ret_n_ok += askings[i].status == PS_OK;
    }
    ck_assert_uint_eq(echo.n_pieces_lent, echo.n_pieces_done);
    const struct sim_net_counts *counts = sim_net_counts(net);
    ck_assert_uint_gt(counts->n_lost, 0);
    ck_assert_uint_gt(counts->n_doubled, 0);
    ck_assert_uint_eq(counts->n_calls, N_CALLS);
    ck_assert(sim_exec_stop(&echo.exec));
    ps_listener_stop(echo.listener, 0);
    ps_listener_close(echo.listener);
    ps_channel_close(channel);
    ck_assert_msg(sim_net_destroy(net), "seed %" PRIu64 ": %s", seed, world->broken);
    uint64_t hash = world->trace_hash;
    sim_world_destroy(world);
    return hash;
}

START_TEST(every_call_ends_once_and_every_lent_piece_comes_back_once)
{
    uint32_t n_ok = 0;
    (void)run_calls(test_seed() + (uint64_t)_i, &n_ok);
    ck_assert_uint_gt(n_ok, N_CALLS / 4);
    ck_assert_uint_lt(n_ok, N_CALLS);
}
END_TEST

START_TEST(one_seed_is_one_schedule)
{
    uint32_t n_ok = 0;
    uint64_t hash = run_calls(test_seed(), &n_ok);
    ck_assert_uint_eq(hash, run_calls(test_seed(), &n_ok));
    ck_assert_uint_ne(hash, run_calls(test_seed() + 1, &n_ok));
}
END_TEST

/* ---- Streams ------------------------------------------------------------------------------- */

/* One end of a chat: counts what it hears; numbers must come without a gap. */
struct chat {
    struct ps_stream *stream;
    uint32_t n_sent;
    uint32_t n_heard;
    uint32_t n_closed;
    uint32_t n_drained;
    bool released;
};

static struct chat server_chats[64];
static uint32_t n_server_chats;

static void chat_message(void *arg, struct ps_msg *msg)
{
    struct chat *chat = arg;
    struct ps_cursor cursor = ps_cursor_over(msg->slices, msg->n_slices);
    uint8_t bytes[4];
    ck_assert_uint_eq(chat->n_closed, 0);
    ps_cursor_copy(&cursor, bytes, sizeof(bytes));
    ck_assert(!cursor.failed);
    ck_assert_uint_eq(ps_load_u32(bytes), chat->n_heard);
    chat->n_heard++;
    ps_msg_unref(msg);
}

static void chat_closed(void *arg, enum ps_status status PS_UNUSED)
{
    struct chat *chat = arg;
    chat->n_closed++;
    ck_assert_uint_eq(chat->n_closed, 1);
}

static void chat_drained(void *arg)
{
    struct chat *chat = arg;
    ck_assert_uint_eq(chat->n_closed, 0);
    chat->n_drained++;
}

static const struct ps_stream_events chat_events = {
    .message = chat_message, .closed = chat_closed, .drained = chat_drained};

static void accept_chat(void *arg PS_UNUSED, struct ps_stream *stream)
{
    ck_assert_uint_lt(n_server_chats, PS_ARRAY_LEN(server_chats));
    struct chat *chat = &server_chats[n_server_chats++];
    *chat = (struct chat){.stream = stream};
    ps_stream_start(stream, &chat_events, chat);
}

static void say(struct chat *chat)
{
    uint8_t bytes[4];
    ps_store_u32(bytes, chat->n_sent);
    if (chat->released) {
        return;
    }
    struct ps_out out = {.head = bytes, .n_head_bytes = sizeof(bytes)};
    if (ps_stream_send(chat->stream, &out) == PS_OK) {
        chat->n_sent++;
    }
    if (chat->n_closed > 0) {
        chat->released = true;
        ps_stream_release(chat->stream);
    }
}

START_TEST(streams_keep_their_order_break_as_a_whole_and_can_be_opened_again)
{
    struct sim_world *world = sim_world_create(test_seed() + (uint64_t)_i);
    struct sim_net *net = sim_net_create(world);
    struct sim_node *client = sim_node_create(world, "client");
    struct sim_node *server = sim_node_create(world, "server");
    struct echo echo;
    struct ps_channel *channel = NULL;
    open_echo(&echo, net, server);
    n_server_chats = 0;
    ck_assert_int_eq(ps_channel_open(sim_net_transport(net, client),
                                     ps_listener_address(echo.listener), PS_TRAFFIC_CONTROL, NULL,
                                     &channel, NULL),
                     PS_OK);
    sim_net_set_faults(net, &wild);
    for (uint32_t round = 0; round < 8; round++) {
        struct chat mine = {0};
        mine.stream = ps_stream_open(channel, "/test/Chat", &chat_events, &mine);
        uint32_t n_says = 5 + (uint32_t)sim_below(world, 200);
        for (uint32_t i = 0; !mine.released; i++) {
            say(&mine);
            for (uint32_t s = 0; s < n_server_chats; s++) {
                say(&server_chats[s]);
            }
            if (i == n_says && !mine.released) {
                ps_stream_close(mine.stream, sim_below(world, 2) == 0 ? PS_OK : PS_ERR_CANCELED);
            }
            if (i == n_says / 2 && round % 3 == 0) {
                sim_net_cut(net, server, client, true);
            }
            sim_world_run_until(world, world->now_ns + 20 * SIM_MS);
        }
        sim_net_cut(net, server, client, false);
        for (uint32_t s = 0; s < n_server_chats; s++) {
            ck_assert_uint_le(server_chats[s].n_heard, mine.n_sent + 1000);
        }
    }
    sim_world_run_until(world, world->now_ns + 10 * SIM_S);
    ck_assert_uint_gt(n_server_chats, 0);
    for (uint32_t s = 0; s < n_server_chats; s++) {
        say(&server_chats[s]);
        ck_assert_uint_eq(server_chats[s].n_closed, 1);
        ck_assert(server_chats[s].released);
    }
    (void)sim_exec_stop(&echo.exec);
    ps_listener_stop(echo.listener, 0);
    ps_listener_close(echo.listener);
    ps_channel_close(channel);
    ck_assert_msg(sim_net_destroy(net), "%s", world->broken);
    sim_world_destroy(world);
}
END_TEST

/* Half of the clients give up, the other half hear the server's end. */
START_TEST(a_server_stream_ends_when_the_client_is_gone_or_the_server_says_so)
{
    struct sim_world *world = sim_world_create(test_seed() + (uint64_t)_i);
    struct sim_net *net = sim_net_create(world);
    struct sim_node *client = sim_node_create(world, "client");
    struct sim_node *server = sim_node_create(world, "server");
    struct echo echo;
    struct ps_channel *channel = NULL;
    bool gives_up = _i % 2 == 0;
    open_echo(&echo, net, server);
    n_server_chats = 0;
    ck_assert_int_eq(ps_channel_open(sim_net_transport(net, client),
                                     ps_listener_address(echo.listener), PS_TRAFFIC_CONTROL, NULL,
                                     &channel, NULL),
                     PS_OK);
    struct chat mine = {0};
    mine.stream = ps_stream_open(channel, "/test/Listen", &chat_events, &mine);
    say(&mine);
    ps_stream_close(mine.stream, PS_OK); /* All it has to say, perhaps before anybody accepted. */
    sim_world_run_until(world, world->now_ns + 2 * SIM_S);
    ck_assert_uint_eq(n_server_chats, 1);
    struct chat *other = &server_chats[0];
    ck_assert_uint_eq(other->n_heard, 1);
    ck_assert_uint_eq(other->n_closed, 0);
    say(other);
    sim_world_run_until(world, world->now_ns + 2 * SIM_S);
    ck_assert_uint_eq(mine.n_heard, 1);
    ck_assert_uint_eq(mine.n_drained, 1);
    ck_assert_uint_eq(other->n_drained, 1);
    ps_stream_close(gives_up ? mine.stream : other->stream, PS_ERR_CANCELED);
    sim_world_run_until(world, world->now_ns + 2 * SIM_S);
    ck_assert_uint_eq(other->n_closed, 1);
    ck_assert_uint_eq(mine.n_closed, 1);
    ps_stream_release(other->stream);
    ps_stream_release(mine.stream);
    (void)sim_exec_stop(&echo.exec);
    ps_listener_stop(echo.listener, 0);
    ps_listener_close(echo.listener);
    ps_channel_close(channel);
    ck_assert_msg(sim_net_destroy(net), "%s", world->broken);
    sim_world_destroy(world);
}
END_TEST

/* ---- Processes that die and start again ---------------------------------------------------- */

#define N_LIVES 4

/* Each life serves a third of a second and dies; then nobody listens for a while. */
static uint64_t run_lives(uint64_t seed)
{
    static struct asking askings[N_CALLS];
    static struct echo lives[N_LIVES];
    struct sim_node *nodes[N_LIVES];
    struct ps_channel *channel = NULL;
    struct sim_world *world = sim_world_create(seed);
    struct sim_net *net = sim_net_create(world);
    struct sim_node *client = sim_node_create(world, "client");
    memset(askings, 0, sizeof(askings));
    ck_assert_int_eq(ps_channel_open(sim_net_transport(net, client), "echo:1", PS_TRAFFIC_DATA,
                                     NULL, &channel, NULL),
                     PS_OK);
    sim_net_set_faults(net, &wild);
    for (uint32_t i = 0; i < N_CALLS; i++) {
        uint32_t life = i * N_LIVES / N_CALLS;
        uint32_t nth = i % (N_CALLS / N_LIVES);
        if (nth == 5) {
            nodes[life] = sim_node_create(world, "echo");
            open_echo_at(&lives[life], net, nodes[life], "echo:1");
        }
        ask(channel, &askings[i], i);
        if (nth == N_CALLS / N_LIVES - 1) {
            sim_net_crash(net, nodes[life], sim_below(world, 2) == 0);
        }
        sim_world_run_until(world, world->now_ns + sim_below(world, 20 * SIM_MS));
    }
    sim_world_run_until(world, world->now_ns + 60 * SIM_S);
    uint32_t n_ok = 0;
    for (uint32_t i = 0; i < N_CALLS; i++) {
        ck_assert_uint_eq(askings[i].n_done, 1);
        ck_assert_uint_eq(askings[i].n_body_done, 1);
        n_ok += askings[i].status == PS_OK;
    }
    ck_assert_uint_gt(n_ok, 0);
    for (uint32_t life = 0; life < N_LIVES; life++) { /* What the dead were lent comes home. */
        struct echo *echo = &lives[life];
        uint32_t n_served = echo->n_served;
        sim_net_bury(net, nodes[life]);
        sim_world_run_until(world, world->now_ns + 30 * SIM_S);
        ck_assert_uint_eq(echo->n_served, n_served);
        ck_assert_uint_eq(echo->n_pieces_lent, echo->n_pieces_done);
        ck_assert(sim_exec_stop(&echo->exec));
        ps_listener_stop(echo->listener, 0);
        ps_listener_close(echo->listener);
    }
    ps_channel_close(channel);
    ck_assert_msg(sim_net_destroy(net), "seed %" PRIu64 ": %s", seed, world->broken);
    uint64_t hash = world->trace_hash;
    sim_world_destroy(world);
    return hash;
}

START_TEST(a_process_that_dies_serves_nobody_and_its_successor_has_its_address)
{
    uint64_t seed = test_seed() + (uint64_t)_i;
    ck_assert_uint_eq(run_lives(seed), run_lives(seed));
}
END_TEST

/* What a broken promise leaves behind stays reachable: it is no leak of the test. */
static struct sim_world *volatile kept_world;
static struct sim_net *volatile kept_net;
static struct ps_mail *volatile kept_mail;

START_TEST(an_unanswered_call_is_a_broken_promise)
{
    static struct asking asking;
    memset(&asking, 0, sizeof(asking));
    struct sim_world *world = sim_world_create(test_seed());
    struct sim_net *net = sim_net_create(world);
    struct sim_node *server = sim_node_create(world, "server");
    struct sim_node *client = sim_node_create(world, "client");
    struct echo echo;
    struct ps_channel *channel = NULL;
    open_echo(&echo, net, server);
    ck_assert_int_eq(ps_channel_open(sim_net_transport(net, client),
                                     ps_listener_address(echo.listener), PS_TRAFFIC_DATA, NULL,
                                     &channel, NULL),
                     PS_OK);
    ask(channel, &asking, 7);
    while (echo.n_served == 0) {
        ck_assert(sim_world_step(world));
    }
    ck_assert(!sim_exec_stop(&echo.exec)); /* The mail that would answer never runs. */
    ps_listener_stop(echo.listener, 0);
    ps_listener_close(echo.listener);
    ck_assert_ptr_nonnull(strstr(world->broken, "never answered"));
    kept_world = world;
    kept_net = net;
    kept_mail = echo.exec.first;
}
END_TEST

static Suite *suite_sim_ports(void)
{
    Suite *suite = suite_create("sim_ports");
    TCase *tcase = tcase_create("ports");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, mail_runs_once_in_the_order_of_its_poster_and_never_inside_post, 0,
                        N_SEEDS);
    tcase_add_loop_test(tcase, timers_ring_once_not_too_early_and_not_after_stop, 0, N_SEEDS);
    tcase_add_test(tcase, a_paused_node_does_nothing_until_it_goes_on);
    tcase_add_test(tcase, a_timer_touched_by_another_executor_is_a_broken_promise);
    tcase_add_loop_test(tcase, every_call_ends_once_and_every_lent_piece_comes_back_once, 0,
                        N_SEEDS);
    tcase_add_test(tcase, one_seed_is_one_schedule);
    tcase_add_loop_test(tcase, streams_keep_their_order_break_as_a_whole_and_can_be_opened_again, 0,
                        N_SEEDS);
    tcase_add_loop_test(tcase, a_server_stream_ends_when_the_client_is_gone_or_the_server_says_so,
                        0, 8);
    tcase_add_loop_test(tcase, a_process_that_dies_serves_nobody_and_its_successor_has_its_address,
                        0, N_SEEDS);
    tcase_add_test(tcase, an_unanswered_call_is_a_broken_promise);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sim_ports)
