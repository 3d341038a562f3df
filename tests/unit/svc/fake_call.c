/* fake_call.c — see fake_call.h. */
#include "fake_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/attr.h"

#define PIECES_MAX 64u

struct fake_msg {
    struct ps_msg base;
    size_t n_slices;
    struct ps_slice slices[]; /* Each of its own memory, so that overruns are seen. */
};

struct fake_call {
    struct ps_call base;
    struct fake_msg *request;
    uint32_t n_finished;
    bool gone;
    uint32_t time_left_ms;
    uint32_t retry_ms;
    enum ps_status status;
    char reason[PS_ERROR_TEXT_BYTES];
    uint8_t *head;
    size_t n_head_bytes;
    struct ps_piece pieces[PIECES_MAX];
    size_t n_pieces;
    struct ps_slice slices[PIECES_MAX + 1]; /* Of the reply. */
    struct ps_data_reply reply;
};

static uint32_t n_alive;

static void destroy_msg(struct ps_msg *base)
{
    struct fake_msg *msg = PS_CONTAINER_OF(base, struct fake_msg, base);
    for (size_t i = 0; i < msg->n_slices; i++) {
        void *data = NULL;
        memcpy(&data, &msg->slices[i].data, sizeof(data));
        free(data);
    }
    free(msg);
    n_alive--;
}

static struct fake_msg *make_msg(const struct ps_slice *slices, size_t n_slices)
{
    struct fake_msg *msg = calloc(1, sizeof(*msg) + n_slices * sizeof(msg->slices[0]));
    PS_ASSERT(msg != NULL);
    msg->n_slices = n_slices;
    for (size_t i = 0; i < n_slices; i++) {
        uint8_t *data = malloc(slices[i].n_bytes + 1);
        PS_ASSERT(data != NULL);
        if (slices[i].n_bytes > 0) {
            memcpy(data, slices[i].data, slices[i].n_bytes);
        }
        msg->slices[i] = (struct ps_slice){.data = data, .n_bytes = slices[i].n_bytes};
        msg->base.n_bytes += slices[i].n_bytes;
    }
    msg->base.slices = msg->slices;
    msg->base.n_slices = n_slices;
    msg->base.destroy = destroy_msg;
    atomic_init(&msg->base.n_refs, 1);
    n_alive++;
    return msg;
}

uint32_t fake_call_requests_alive(void)
{
    return n_alive;
}

/* ---- The port ------------------------------------------------------------------------------- */

static struct fake_call *fake_of(struct ps_call *base)
{
    return PS_CONTAINER_OF(base, struct fake_call, base);
}

static const struct ps_msg *request(struct ps_call *base)
{
    return &fake_of(base)->request->base;
}

static struct ps_msg *take_request(struct ps_call *base)
{
    ps_msg_ref(&fake_of(base)->request->base);
    return &fake_of(base)->request->base;
}

static bool gone(struct ps_call *base)
{
    PS_ASSERT(fake_of(base)->n_finished == 0);
    return fake_of(base)->gone;
}

static uint32_t time_left_ms(struct ps_call *base)
{
    PS_ASSERT(fake_of(base)->n_finished == 0);
    return fake_of(base)->time_left_ms;
}

static void retry_after(struct ps_call *base, uint32_t retry_ms)
{
    fake_of(base)->retry_ms = retry_ms;
}

static void finish(struct ps_call *base, enum ps_status status, const struct ps_out *out,
                   const char *reason)
{
    struct fake_call *call = fake_of(base);
    PS_ASSERT(call->n_finished == 0);
    PS_ASSERT((status == PS_OK) == (out != NULL));
    call->n_finished++;
    call->status = status;
    if (reason != NULL) {
        PS_ASSERT(strlen(reason) < sizeof(call->reason));
        memcpy(call->reason, reason, strlen(reason) + 1);
    }
    if (out != NULL) {
        PS_ASSERT(out->n_pieces <= PIECES_MAX);
        call->head = malloc(out->n_head_bytes + 1);
        PS_ASSERT(call->head != NULL);
        memcpy(call->head, out->head, out->n_head_bytes);
        call->n_head_bytes = out->n_head_bytes;
        if (out->n_pieces > 0) {
            memcpy(call->pieces, out->pieces, out->n_pieces * sizeof(out->pieces[0]));
        }
        call->n_pieces = out->n_pieces;
    }
    ps_msg_unref(&call->request->base);
    call->request = NULL;
}

static const struct ps_transport_ops ops = {
    .call_request = request,
    .call_take_request = take_request,
    .call_gone = gone,
    .call_time_left_ms = time_left_ms,
    .call_retry_after = retry_after,
    .call_finish = finish,
};
static struct ps_transport transport = {.ops = &ops};

/* ---- For tests ------------------------------------------------------------------------------ */

struct fake_call *fake_call_create(const struct ps_slice *slices, size_t n_slices)
{
    struct fake_call *call = calloc(1, sizeof(*call));
    PS_ASSERT(call != NULL);
    call->base.transport = &transport;
    call->request = make_msg(slices, n_slices);
    call->time_left_ms = 60000;
    return call;
}

struct ps_call *fake_call_base(struct fake_call *call)
{
    return &call->base;
}

void fake_call_give_up(struct fake_call *call)
{
    call->gone = true;
}

uint32_t fake_call_retry_ms(const struct fake_call *call)
{
    return call->retry_ms;
}

void fake_call_time_left(struct fake_call *call, uint32_t ms)
{
    call->time_left_ms = ms;
}

bool fake_call_finished(const struct fake_call *call)
{
    return call->n_finished > 0;
}

enum ps_status fake_call_status(const struct fake_call *call)
{
    PS_ASSERT(call->n_finished == 1);
    return call->status;
}

const char *fake_call_reason(const struct fake_call *call)
{
    return call->reason;
}

struct ps_cursor fake_call_bytes(struct fake_call *call)
{
    PS_ASSERT(call->n_finished == 1);
    PS_ASSERT(call->status == PS_OK);
    call->slices[0] = (struct ps_slice){.data = call->head, .n_bytes = call->n_head_bytes};
    for (size_t i = 0; i < call->n_pieces; i++) {
        call->slices[i + 1] =
            (struct ps_slice){.data = call->pieces[i].data, .n_bytes = call->pieces[i].n_bytes};
    }
    return ps_cursor_over(call->slices, call->n_pieces + 1);
}

const struct ps_data_reply *fake_call_reply(struct fake_call *call)
{
    struct ps_error err = {0};
    enum ps_status status = ps_data_reply_read(fake_call_bytes(call), &call->reply, &err);
    PS_ASSERT(status == PS_OK);
    return &call->reply;
}

const uint8_t *fake_call_piece(const struct fake_call *call, size_t at)
{
    return at < call->n_pieces ? call->pieces[at].data : NULL;
}

size_t fake_call_payload(struct fake_call *call, void *to, size_t n_room)
{
    struct ps_cursor payload = fake_call_reply(call)->payload;
    size_t n_bytes = payload.n_left;
    PS_ASSERT(n_bytes <= n_room);
    ps_cursor_copy(&payload, to, n_bytes);
    return n_bytes;
}

void fake_call_settle(struct fake_call *call)
{
    PS_ASSERT(call->n_finished == 1);
    for (size_t i = 0; i < call->n_pieces; i++) {
        call->pieces[i].done(call->pieces[i].arg);
    }
    free(call->head);
    free(call);
}
