/* ask.c — see ask.h. The reply is unpacked on the asker's executor, not on the transport's. */
#include "ask.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/limits.h"
#include "client/cluster.h"
#include "wire/pack.h"

static enum ps_status unpack(struct ps_ask *ask)
{
    const struct ps_msg *msg = ask->request.reply;
    enum ps_status why;
    ask->describe = (Ps__V1__DescribeReply *)ps_wire_unpack_why(
        &ps__v1__describe_reply__descriptor, msg->slices, msg->n_slices, NULL, &why);
    if (ask->describe == NULL && why == PS_ERR_NOMEM) {
        return ps_fail(&ask->err, why, "no memory for a reply");
    }
    if (ask->describe == NULL) {
        return ps_fail(&ask->err, PS_ERR_CORRUPT, "the coordinator's reply is no Describe reply");
    }
    return ps_cluster_read(ask->describe, NULL, &ask->cluster, &ask->err);
}

static bool asks_describe(const struct ps_ask *ask)
{
    return ask->request.out.n_head_bytes == 0;
}

static void finish(struct ps_mail *mail)
{
    struct ps_ask *ask = PS_CONTAINER_OF(mail, struct ps_ask, mail);
    ask->err = ask->request.err;
    if (ask->err.status == PS_OK && asks_describe(ask)) {
        ask->err.status = unpack(ask);
    }
    ps_msg_unref(ask->request.reply);
    ask->request.reply = NULL;
    ask->under_way = false;
    ask->done(ask);
}

static void answered(struct ps_request *request)
{
    struct ps_ask *ask = PS_CONTAINER_OF(request, struct ps_ask, request);
    ask->mail.run = finish;
    ps_exec_post(ask->exec, &ask->mail);
}

static void start(struct ps_ask *ask, const char *method, struct ps_out out, uint32_t timeout_ms)
{
    PS_ASSERT(!ask->under_way);
    ps_ask_forget(ask);
    ask->under_way = true;
    ask->request = (struct ps_request){
        .method = method,
        .timeout_ms = timeout_ms,
        .at_once = true,
        .out = out,
        .done = answered,
    };
    ps_request_start(ask->channel, &ask->request);
}

void ps_ask_describe(struct ps_ask *ask, uint32_t timeout_ms)
{
    start(ask, "/ps.v1.Coordinator/Describe", (struct ps_out){0}, timeout_ms);
}

void ps_ask_shutdown(struct ps_ask *ask, const char *reason, uint32_t timeout_ms)
{
    char text[PS_REASON_BYTES_MAX + 1];
    (void)snprintf(text, sizeof(text), "%s", reason);
    Ps__V1__ShutdownRequest message;
    ps__v1__shutdown_request__init(&message);
    message.reason = text;
    uint8_t head[PS_REASON_BYTES_MAX + 8];
    PS_ASSERT(text[0] != '\0'); /* An empty message would look like a describe. */
    size_t n = ps__v1__shutdown_request__pack(&message, head);
    start(ask, "/ps.v1.Coordinator/Shutdown", (struct ps_out){.head = head, .n_head_bytes = n},
          timeout_ms);
}

void ps_ask_cancel(struct ps_ask *ask)
{
    if (ask->under_way) {
        ps_request_cancel(ask->channel, &ask->request);
    }
}

static void stop_loop(struct ps_ask *ask)
{
    ps_loop_stop(ask->arg);
}

/* False: there is nobody to be asked, see ask->err. */
static bool connect_once(struct ps_ask *ask, struct ps_transport *transport, struct ps_loop *loop,
                         const char *coordinator)
{
    static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};
    *ask = (struct ps_ask){.exec = ps_loop_port(loop), .done = stop_loop, .arg = loop};
    enum ps_status status = ps_channel_open(transport, coordinator, PS_TRAFFIC_CONTROL, &insecure,
                                            &ask->channel, &ask->err);
    if (status != PS_OK) {
        ask->err.status = status;
    }
    return status == PS_OK;
}

static void finish_once(struct ps_ask *ask, struct ps_loop *loop)
{
    while (ask->under_way) {
        ps_loop_run(loop);
    }
    ps_channel_close(ask->channel);
}

void ps_ask_describe_once(struct ps_ask *ask, struct ps_transport *transport, struct ps_loop *loop,
                          const char *coordinator, uint32_t timeout_ms)
{
    if (connect_once(ask, transport, loop, coordinator)) {
        ps_ask_describe(ask, timeout_ms);
        finish_once(ask, loop);
    }
}

void ps_ask_shutdown_once(struct ps_ask *ask, struct ps_transport *transport, struct ps_loop *loop,
                          const char *coordinator, const char *reason, uint32_t timeout_ms)
{
    if (connect_once(ask, transport, loop, coordinator)) {
        ps_ask_shutdown(ask, reason, timeout_ms);
        finish_once(ask, loop);
    }
}

void ps_ask_forget(struct ps_ask *ask)
{
    if (ask->describe != NULL) {
        ps_wire_unpacked_free(&ask->describe->base);
        ask->describe = NULL;
    }
    ps_cluster_free(ask->cluster);
    ask->cluster = NULL;
}
