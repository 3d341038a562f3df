/* fake_transport.c — see fake_transport.h. */
#include "fake_transport.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/attr.h"

struct fake_channel {
    struct ps_channel base;
    char address[PS_ADDRESS_BYTES_MAX + 1];
    uint32_t n_calls;
};

struct flat_msg {
    struct ps_msg base;
    struct ps_slice slices[3];
    uint8_t bytes[];
};

static void flat_destroy(struct ps_msg *msg)
{
    free(msg);
}

/* In three slices, cut at odd places, as messages arrive from a network. */
static struct flat_msg *flat(size_t n_bytes)
{
    struct flat_msg *msg = calloc(1, sizeof(*msg) + n_bytes);
    PS_ASSERT(msg != NULL);
    size_t cut_a = n_bytes / 3;
    size_t cut_b = n_bytes - n_bytes / 5;
    msg->slices[0] = (struct ps_slice){msg->bytes, cut_a};
    msg->slices[1] = (struct ps_slice){msg->bytes + cut_a, cut_b - cut_a};
    msg->slices[2] = (struct ps_slice){msg->bytes + cut_b, n_bytes - cut_b};
    msg->base.slices = msg->slices;
    msg->base.n_slices = 3;
    msg->base.n_bytes = n_bytes;
    atomic_init(&msg->base.n_refs, 1);
    msg->base.destroy = flat_destroy;
    return msg;
}

static struct ps_msg *flat_out(const struct ps_out *out)
{
    size_t n_bytes = out->n_head_bytes;
    for (size_t i = 0; i < out->n_pieces; i++) {
        n_bytes += out->pieces[i].n_bytes;
    }
    struct flat_msg *msg = flat(n_bytes);
    size_t at = out->n_head_bytes;
    memcpy(msg->bytes, out->head, at);
    for (size_t i = 0; i < out->n_pieces; i++) {
        memcpy(msg->bytes + at, out->pieces[i].data, out->pieces[i].n_bytes);
        at += out->pieces[i].n_bytes;
    }
    return &msg->base;
}

static void run_answer(struct ps_mail *mail)
{
    struct fake_call *call = PS_CONTAINER_OF(mail, struct fake_call, answer);
    struct fake_transport *fake = call->transport;
    struct ps_request *request = call->request;
    struct fake_channel *channel = request->impl;
    request->err = call->err;
    request->reply = call->reply;
    call->reply = NULL;
    ps_msg_unref(call->msg);
    struct ps_piece *pieces = call->pieces;
    size_t n_pieces = call->n_pieces;
    call->used = false;
    fake->n_in_flight--;
    channel->n_calls--;
    request->done(request);
    for (size_t i = 0; i < n_pieces; i++) { /* After the answer: the slow case. */
        pieces[i].done(pieces[i].arg);
    }
    free(pieces);
}

static void finish(struct fake_call *call, enum ps_status status, struct ps_msg *reply)
{
    if (call->answered) {
        ps_msg_unref(reply);
        return;
    }
    call->answered = true;
    ps_timer_stop(call->transport->port, &call->deadline);
    if (status != PS_OK) {
        (void)ps_fail(&call->err, status, "%s", ps_status_text(status));
    }
    call->reply = reply;
    ps_exec_post(call->transport->port, &call->answer);
}

void fake_answer(struct fake_call *call, enum ps_status status, const uint8_t *data, size_t n_bytes)
{
    PS_ASSERT(call->used);
    struct flat_msg *msg = NULL;
    if (status == PS_OK) {
        msg = flat(n_bytes);
        if (n_bytes > 0) {
            memcpy(msg->bytes, data, n_bytes);
        }
    }
    finish(call, status, msg != NULL ? &msg->base : NULL);
}

static void run_deadline(struct ps_timer *timer)
{
    finish(PS_CONTAINER_OF(timer, struct fake_call, deadline), PS_ERR_TIMEOUT, NULL);
}

static void run_deliver(struct ps_mail *mail)
{
    struct fake_call *call = PS_CONTAINER_OF(mail, struct fake_call, deliver);
    if (!call->answered) {
        call->transport->handle(call->transport->arg, call);
    }
}

static struct fake_transport *fake_of(struct ps_transport *transport)
{
    return PS_CONTAINER_OF(transport, struct fake_transport, base);
}

static enum ps_status channel_open(struct ps_transport *transport, const char *address,
                                   enum ps_traffic traffic PS_UNUSED,
                                   const struct ps_creds *creds PS_UNUSED, struct ps_channel **ret,
                                   struct ps_error *err PS_UNUSED)
{
    struct fake_channel *channel = calloc(1, sizeof(*channel));
    PS_ASSERT(channel != NULL);
    channel->base.transport = transport;
    strncpy(channel->address, address, PS_ADDRESS_BYTES_MAX);
    fake_of(transport)->n_channels++;
    *ret = &channel->base;
    return PS_OK;
}

static void channel_close(struct ps_channel *base)
{
    struct fake_channel *channel = PS_CONTAINER_OF(base, struct fake_channel, base);
    PS_ASSERT(channel->n_calls == 0);
    fake_of(base->transport)->n_channels--;
    free(channel);
}

static void request_start(struct ps_channel *base, struct ps_request *request)
{
    struct fake_channel *channel = PS_CONTAINER_OF(base, struct fake_channel, base);
    struct fake_transport *fake = fake_of(base->transport);
    struct fake_call *call = fake->calls;
    while (call->used) {
        call++;
        PS_ASSERT(call < fake->calls + FAKE_CALLS_MAX);
    }
    PS_ASSERT(request->timeout_ms > 0);
    *call = (struct fake_call){.used = true,
                               .transport = fake,
                               .request = request,
                               .msg = flat_out(&request->out),
                               .deliver.run = run_deliver,
                               .answer.run = run_answer,
                               .n_pieces = request->out.n_pieces};
    memcpy(call->address, channel->address, sizeof(call->address));
    if (call->n_pieces > 0) {
        call->pieces = calloc(call->n_pieces, sizeof(*call->pieces));
        PS_ASSERT(call->pieces != NULL);
        memcpy(call->pieces, request->out.pieces, call->n_pieces * sizeof(*call->pieces));
    }
    ps_timer_init(&call->deadline, run_deadline);
    ps_timer_start(fake->port, &call->deadline, request->timeout_ms);
    request->impl = channel;
    request->reply = NULL;
    channel->n_calls++;
    fake->n_calls++;
    fake->n_in_flight++;
    if (fake->n_in_flight > fake->n_in_flight_max) {
        fake->n_in_flight_max = fake->n_in_flight;
    }
    ps_exec_post(fake->port, &call->deliver);
}

static void request_cancel(struct ps_request *request)
{
    struct fake_channel *channel = request->impl;
    struct fake_transport *fake = fake_of(channel->base.transport);
    for (uint32_t i = 0; i < FAKE_CALLS_MAX; i++) {
        if (fake->calls[i].used && fake->calls[i].request == request) {
            finish(&fake->calls[i], PS_ERR_CANCELED, NULL);
        }
    }
}

static void run_closed(struct ps_mail *mail)
{
    struct fake_stream *stream = PS_CONTAINER_OF(mail, struct fake_stream, closed);
    stream->open = false;
    stream->events->closed(stream->arg, stream->status);
}

void fake_stream_break(struct fake_transport *fake, enum ps_status status)
{
    struct fake_stream *stream = &fake->stream;
    if (stream->open && !stream->broken) {
        stream->broken = true;
        stream->status = status;
        ps_exec_post(fake->port, &stream->closed);
    }
}

static struct ps_stream *stream_open(struct ps_channel *channel, const char *method PS_UNUSED,
                                     const struct ps_stream_events *events, void *arg)
{
    struct fake_transport *fake = fake_of(channel->transport);
    PS_ASSERT(fake->stream.transport == NULL); /* Released before the next one. */
    fake->stream = (struct fake_stream){.base.transport = channel->transport,
                                        .transport = fake,
                                        .events = events,
                                        .arg = arg,
                                        .closed.run = run_closed,
                                        .open = true};
    fake->n_streams++;
    if (fake->refuse_streams) {
        fake_stream_break(fake, PS_ERR_UNAVAIL);
    } else if (fake->opened != NULL) {
        fake->opened(fake->arg);
    }
    return &fake->stream.base;
}

static enum ps_status stream_send(struct ps_stream *base, const struct ps_out *out)
{
    struct fake_stream *stream = PS_CONTAINER_OF(base, struct fake_stream, base);
    struct fake_transport *fake = stream->transport;
    if (!stream->open || stream->broken) {
        return PS_ERR_UNAVAIL;
    }
    if (fake->stream_busy) {
        return PS_ERR_BUSY;
    }
    struct ps_msg *msg = flat_out(out);
    fake->heard(fake->arg, msg);
    ps_msg_unref(msg);
    return PS_OK;
}

static void stream_close(struct ps_stream *base, enum ps_status status)
{
    struct fake_stream *stream = PS_CONTAINER_OF(base, struct fake_stream, base);
    fake_stream_break(stream->transport, status);
}

static void stream_release(struct ps_stream *base)
{
    struct fake_stream *stream = PS_CONTAINER_OF(base, struct fake_stream, base);
    PS_ASSERT(!stream->open);
    stream->transport = NULL;
}

void fake_stream_send(struct fake_transport *fake, const uint8_t *data, size_t n_bytes)
{
    struct fake_stream *stream = &fake->stream;
    if (stream->transport == NULL || !stream->open || stream->broken) {
        return;
    }
    struct flat_msg *msg = flat(n_bytes);
    memcpy(msg->bytes, data, n_bytes);
    stream->events->message(stream->arg, &msg->base);
}

static const struct ps_transport_ops ops = {
    .channel_open = channel_open,
    .channel_close = channel_close,
    .request_start = request_start,
    .request_cancel = request_cancel,
    .stream_open = stream_open,
    .stream_send = stream_send,
    .stream_close = stream_close,
    .stream_release = stream_release,
};

static uint64_t clock_ns(void *arg)
{
    return ((struct fake_transport *)arg)->now_ns;
}

void fake_transport_init(struct fake_transport *fake)
{
    memset(fake, 0, sizeof(*fake));
    fake->base.ops = &ops;
    fake->now_ns = 1000000000u;
    ps_inline_exec_init(&fake->exec, clock_ns, fake);
    fake->port = &fake->exec.base;
}

void fake_transport_deinit(struct fake_transport *fake)
{
    PS_ASSERT(fake->n_channels == 0);
    PS_ASSERT(fake->n_in_flight == 0);
    PS_ASSERT(fake->stream.transport == NULL);
}

void fake_run(struct fake_transport *fake, uint32_t ms)
{
    ps_inline_exec_pump(&fake->exec);
    for (uint32_t i = 0; i < ms; i++) {
        fake->now_ns += 1000000;
        ps_inline_exec_pump(&fake->exec);
    }
}
