/* rig.c — see rig.h. */
#include "unit/rpc/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <unistd.h>

#include <check.h>

#include "base/assert.h"
#include "base/bytes.h"

#define WAIT_MS_MAX 20000
#define ECHO_PIECES 256

struct rig *rig_served;

/* ---- Waiting ------------------------------------------------------------------------------- */

void rig_add(struct rig *rig, int *flag)
{
    pthread_mutex_lock(&rig->lock);
    (*flag)++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void wait_inline(struct rig *rig, const int *flag, int n)
{
    uint64_t until_ms = ps_clock_ms() + WAIT_MS_MAX;
    while (*flag < n) {
        ps_inline_exec_pump(&rig->exec);
        ck_assert_msg(*flag >= n || ps_clock_ms() < until_ms, "waited for nothing");
    }
}

void rig_wait(struct rig *rig, const int *flag, int n)
{
    if (rig->kind == RIG_DIRECT) {
        wait_inline(rig, flag, n);
        return;
    }
    struct timespec until = {.tv_sec = (time_t)((ps_clock_ms() + WAIT_MS_MAX) / 1000)};
    int late = 0;
    pthread_mutex_lock(&rig->lock);
    while (*flag < n && late == 0) {
        late = pthread_cond_timedwait(&rig->changed, &rig->lock, &until);
    }
    pthread_mutex_unlock(&rig->lock);
    ck_assert_msg(late == 0, "waited for nothing");
}

/* ---- The server's methods ------------------------------------------------------------------ */

struct borrowed {
    struct ps_msg *msg;
    atomic_int n_left;
};

static void give_back(void *arg)
{
    struct borrowed *borrowed = arg;
    if (atomic_fetch_sub(&borrowed->n_left, 1) == 1) {
        ps_msg_unref(borrowed->msg);
        free(borrowed);
    }
}

/* Lend a message's own slices for sending; consumes the reference. */
static size_t lend(struct ps_msg *msg, struct ps_piece *pieces)
{
    ck_assert_uint_le(msg->n_slices, ECHO_PIECES);
    struct borrowed *borrowed = malloc(sizeof(*borrowed));
    ck_assert_ptr_nonnull(borrowed);
    borrowed->msg = msg;
    atomic_init(&borrowed->n_left, (int)msg->n_slices + 1);
    for (size_t i = 0; i < msg->n_slices; i++) {
        pieces[i] = (struct ps_piece){.data = msg->slices[i].data,
                                      .n_bytes = msg->slices[i].n_bytes,
                                      .done = give_back,
                                      .arg = borrowed};
    }
    size_t n_pieces = msg->n_slices; /* Read before the last of them may go. */
    give_back(borrowed);             /* One in addition: a message may have no slices. */
    return n_pieces;
}

static void echo(void *arg PS_UNUSED, struct ps_call *call)
{
    struct ps_piece pieces[ECHO_PIECES];
    struct ps_out out = {.pieces = pieces};
    out.n_pieces = lend(ps_call_take_request(call), pieces);
    ps_call_finish(call, PS_OK, &out, NULL);
}

static void answer_status(void *arg PS_UNUSED, struct ps_call *call)
{
    char text[2048];
    const struct ps_msg *msg = ps_call_request(call);
    struct ps_cursor cursor = ps_cursor_over(msg->slices, msg->n_slices);
    ck_assert_uint_lt(msg->n_bytes, sizeof(text));
    ps_cursor_copy(&cursor, text, msg->n_bytes);
    text[msg->n_bytes] = '\0';
    ps_call_finish(call, (enum ps_status)text[0], NULL, text[1] != '\0' ? text + 1 : NULL);
}

static void answer_later(void *arg PS_UNUSED, struct ps_call *call)
{
    uint8_t ask[2];
    const struct ps_msg *msg = ps_call_request(call);
    struct ps_cursor cursor = ps_cursor_over(msg->slices, msg->n_slices);
    ps_cursor_copy(&cursor, ask, sizeof(ask));
    if (ask[1] != 0) {
        ps_call_retry_after(call, ask[1] * 100u);
    }
    ps_call_finish(call, (enum ps_status)ask[0], NULL, NULL);
}

static void answer_context(void *arg PS_UNUSED, struct ps_call *call)
{
    struct ps_context context = *ps_call_context(call);
    uint8_t head[sizeof(context)];
    memcpy(head, &context, sizeof(context));
    struct ps_out out = {.head = head, .n_head_bytes = sizeof(head)};
    ps_call_finish(call, PS_OK, &out, NULL);
}

static void park(void *arg PS_UNUSED, struct ps_call *call)
{
    struct rig *rig = rig_served;
    pthread_mutex_lock(&rig->lock);
    ck_assert_int_lt(rig->n_parked, RIG_PARKED_MAX);
    rig->parked[rig->n_parked] = call;
    pthread_mutex_unlock(&rig->lock);
    rig_add(rig, &rig->n_parked);
}

/* A stream that sends everything back; the client never has more under way than may be unsent. */
static void chat_message(void *arg, struct ps_msg *msg)
{
    struct ps_piece pieces[ECHO_PIECES];
    struct ps_stream **stream = arg;
    struct ps_out out = {.pieces = pieces, .n_pieces = lend(msg, pieces)};
    enum ps_status status = ps_stream_send(*stream, &out);
    ck_assert_int_eq(status, PS_OK);
}

static void chat_closed(void *arg, enum ps_status status)
{
    struct ps_stream **stream = arg;
    struct rig *rig = rig_served;
    ps_stream_release(*stream);
    free(stream);
    rig->chat_status = status;
    rig_add(rig, &rig->n_chats_closed);
}

static const struct ps_stream_events chat_events = {.message = chat_message, .closed = chat_closed};

static void accept_chat(void *arg PS_UNUSED, struct ps_stream *stream)
{
    struct ps_stream **place = malloc(sizeof(*place));
    ck_assert_ptr_nonnull(place);
    *place = stream;
    ps_stream_start(stream, &chat_events, place);
}

static void accept_hold(void *arg PS_UNUSED, struct ps_stream *stream)
{
    struct rig *rig = rig_served;
    rig->held = stream;
    rig_add(rig, &rig->n_parked);
}

const struct ps_method rig_methods[] = {
    {"/t.T/Echo", PS_TRAFFIC_DATA, PS_ROLE_ANY, PS_METHOD_UNARY, echo, NULL, NULL, 0},
    {"/t.T/Status", PS_TRAFFIC_CONTROL, PS_ROLE_ANY, PS_METHOD_UNARY, answer_status, NULL, NULL, 0},
    {"/t.T/Later", PS_TRAFFIC_CONTROL, PS_ROLE_ANY, PS_METHOD_UNARY, answer_later, NULL, NULL, 0},
    {"/t.T/Context", PS_TRAFFIC_CONTROL, PS_ROLE_WORKER, PS_METHOD_UNARY, answer_context, NULL,
     NULL, 0},
    {"/t.T/Long", PS_TRAFFIC_CONTROL, PS_ROLE_ANY, PS_METHOD_UNARY, answer_context, NULL, NULL,
     RIG_LONG_BYTES},
    {"/t.T/Park", PS_TRAFFIC_DATA, PS_ROLE_ANY, PS_METHOD_UNARY, park, NULL, NULL, 0},
    {"/t.T/Nobody", PS_TRAFFIC_CONTROL, 0, PS_METHOD_UNARY, answer_status, NULL, NULL, 0},
    {"/t.T/Chat", PS_TRAFFIC_CONTROL, PS_ROLE_ANY, PS_METHOD_STREAM, NULL, accept_chat, NULL, 0},
    {"/t.T/Hold", PS_TRAFFIC_CONTROL, PS_ROLE_ANY, PS_METHOD_STREAM, NULL, accept_hold, NULL, 0},
    {"/t.T/Listen", PS_TRAFFIC_CONTROL, PS_ROLE_ANY, PS_METHOD_SERVER_STREAM, NULL, accept_hold,
     NULL, 0},
};
const size_t rig_n_methods = PS_ARRAY_LEN(rig_methods);

/* ---- The rig ------------------------------------------------------------------------------- */

void rig_open(struct rig *rig, enum rig_kind kind, const struct ps_rpc_options *options)
{
    static const struct ps_rpc_options defaults;
    static int n_made;
    memset(rig, 0, sizeof(*rig));
    rig->kind = kind;
    pthread_mutex_init(&rig->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* That of ps_clock_ms. */
    pthread_cond_init(&rig->changed, &attr);
    pthread_condattr_destroy(&attr);
    rig_served = rig;
    if (kind == RIG_DIRECT) {
        ps_inline_exec_init(&rig->exec, ps_clock_source, NULL);
        rig->direct = ps_direct_create(&rig->exec.base);
        ck_assert_ptr_nonnull(rig->direct);
        rig->transport = ps_direct_transport(rig->direct);
        (void)snprintf(rig->address, sizeof(rig->address), "direct:test");
        return;
    }
    struct ps_error err = {0};
    enum ps_status status = ps_rpc_create(options != NULL ? options : &defaults, &rig->rpc, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    rig->transport = ps_rpc_transport(rig->rpc);
    (void)snprintf(rig->address, sizeof(rig->address), "127.0.0.1:0");
    if (kind == RIG_UNIX) {
        (void)snprintf(rig->address, sizeof(rig->address), "unix:/tmp/ps-test-rpc-%d-%d.sock",
                       (int)getpid(), n_made++);
    }
}

void rig_listen(struct rig *rig)
{
    struct ps_error err = {0};
    enum ps_status status = ps_listener_open(rig->transport,
                                             &(struct ps_service){.address = rig->address,
                                                                  .methods = rig_methods,
                                                                  .n_methods = rig_n_methods},
                                             &rig->listener, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    const char *address = ps_listener_address(rig->listener);
    memmove(rig->address, address, strlen(address) + 1);
}

void rig_dial(struct rig *rig, enum ps_traffic traffic)
{
    struct ps_error err = {0};
    enum ps_status status =
        ps_channel_open(rig->transport, rig->address, traffic, NULL, &rig->channel, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
}

void rig_start(struct rig *rig, enum rig_kind kind)
{
    rig_open(rig, kind, NULL);
    rig_listen(rig);
    rig_dial(rig, PS_TRAFFIC_DATA);
}

void rig_unlisten(struct rig *rig)
{
    if (rig->listener != NULL) {
        ps_listener_stop(rig->listener, 2000);
        ps_listener_close(rig->listener);
        rig->listener = NULL;
    }
}

void rig_undial(struct rig *rig)
{
    if (rig->channel != NULL) {
        ps_channel_close(rig->channel);
        rig->channel = NULL;
    }
}

void rig_close(struct rig *rig)
{
    rig_undial(rig);
    rig_unlisten(rig);
    ps_rpc_destroy(rig->rpc);
    ps_direct_destroy(rig->direct);
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->lock);
    if (rig->kind == RIG_UNIX) {
        char lock_path[300];
        (void)snprintf(lock_path, sizeof(lock_path), "%s.lock", rig->address + 5);
        (void)unlink(lock_path);
    }
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void ask_done(struct ps_request *request)
{
    struct ask *ask = PS_CONTAINER_OF(request, struct ask, request);
    rig_add(ask->rig, &ask->n_done);
}

void ask_start(struct ask *ask, struct rig *rig, const char *method)
{
    ask->rig = rig;
    ask->request.method = method;
    ask->request.done = ask_done;
    ask->request.timeout_ms = ask->request.timeout_ms != 0 ? ask->request.timeout_ms : 10000;
    ps_request_start(rig->channel, &ask->request);
}

enum ps_status ask_run(struct ask *ask, struct rig *rig, const char *method)
{
    int before = ask->n_done;
    ask_start(ask, rig, method);
    rig_wait(rig, &ask->n_done, before + 1);
    ck_assert_int_eq(ask->n_done, before + 1);
    return ask->request.err.status;
}

void ask_free(struct ask *ask)
{
    ps_msg_unref(ask->request.reply);
    ask->request.reply = NULL;
}

bool msg_equals(const struct ps_msg *msg, const uint8_t *data, size_t n_bytes)
{
    if (msg == NULL || msg->n_bytes != n_bytes) {
        return false;
    }
    struct ps_cursor cursor = ps_cursor_over(msg->slices, msg->n_slices);
    const uint8_t *run = NULL;
    size_t at = 0;
    for (;;) {
        size_t n_run = ps_cursor_run(&cursor, n_bytes, &run);
        if (n_run == 0) {
            return at == n_bytes;
        }
        if (at + n_run > n_bytes || memcmp(run, data + at, n_run) != 0) {
            return false;
        }
        at += n_run;
    }
}

/* ---- Streams ------------------------------------------------------------------------------- */

static void talk_message(void *arg, struct ps_msg *msg)
{
    struct talk *talk = arg;
    if (talk->counts_numbers) {
        uint8_t number[4] = {0};
        struct ps_cursor cursor = ps_cursor_over(msg->slices, msg->n_slices);
        ps_cursor_copy(&cursor, number, sizeof(number));
        talk->n_wrong += ps_load_u32(number) != (uint32_t)talk->n_messages ? 1 : 0;
    }
    talk->n_wrong += talk->n_closed; /* After the end. */
    ps_msg_unref(msg);
    rig_add(talk->rig, &talk->n_messages);
}

static void talk_closed(void *arg, enum ps_status status)
{
    struct talk *talk = arg;
    talk->status = status;
    rig_add(talk->rig, &talk->n_closed);
}

static void talk_drained(void *arg)
{
    struct talk *talk = arg;
    talk->n_wrong += talk->n_closed; /* After the end. */
    rig_add(talk->rig, &talk->n_drained);
}

const struct ps_stream_events talk_events = {
    .message = talk_message, .closed = talk_closed, .drained = talk_drained};

void talk_open(struct talk *talk, struct rig *rig, const char *method)
{
    talk->rig = rig;
    talk->stream = ps_stream_open(rig->channel, method, &talk_events, talk);
    ck_assert_ptr_nonnull(talk->stream);
}
