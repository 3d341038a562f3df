/* ask.c — see ask.h. The reply is unpacked on the asker's executor, not on the transport's. */
#include "ask.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/limits.h"
#include "client/cluster.h"
#include "wire/pack.h"

#define TEXT_BYTES (PS_REASON_BYTES_MAX + 1)

/* ---- Answers ------------------------------------------------------------------------------- */

static const struct kind {
    const char *method;
    const char *name; /* Of its answer, for people. */
    const ProtobufCMessageDescriptor *reply;
} kinds[] = {
    [PS_ASK_DESCRIBE] = {"/ps.v1.Coordinator/Describe", "Describe",
                         &ps__v1__describe_reply__descriptor},
    [PS_ASK_SHUTDOWN] = {"/ps.v1.Coordinator/Shutdown", "Shutdown",
                         &ps__v1__shutdown_reply__descriptor},
    [PS_ASK_SNAPSHOT] = {"/ps.v1.Coordinator/Snapshot", "Snapshot",
                         &ps__v1__snapshot_reply__descriptor},
    [PS_ASK_RESTORE] = {"/ps.v1.Coordinator/Restore", "Restore",
                        &ps__v1__restore_reply__descriptor},
};

/* The answer, typed; the asker's from now on. */
static enum ps_status keep(struct ps_ask *ask, ProtobufCMessage *message)
{
    switch (ask->what) {
    case PS_ASK_DESCRIBE:
        ask->describe = (Ps__V1__DescribeReply *)message;
        return ps_cluster_read(ask->describe, NULL, &ask->cluster, &ask->err);
    case PS_ASK_SNAPSHOT: ask->snapshot = (Ps__V1__SnapshotReply *)message; return PS_OK;
    case PS_ASK_RESTORE: ask->restore = (Ps__V1__RestoreReply *)message; return PS_OK;
    case PS_ASK_SHUTDOWN: break;
    }
    ps_wire_unpacked_free(message);
    return PS_OK;
}

static enum ps_status unpack(struct ps_ask *ask)
{
    const struct ps_msg *msg = ask->request.reply;
    const struct kind *kind = &kinds[ask->what];
    enum ps_status why;
    ProtobufCMessage *message =
        ps_wire_unpack_why(kind->reply, msg->slices, msg->n_slices, NULL, &why);
    if (message == NULL && why == PS_ERR_NOMEM) {
        return ps_fail(&ask->err, why, "no memory for a reply");
    }
    if (message == NULL) {
        return ps_fail(&ask->err, PS_ERR_CORRUPT, "the coordinator's reply is no %s reply",
                       kind->name);
    }
    return keep(ask, message);
}

static void finish(struct ps_mail *mail)
{
    struct ps_ask *ask = PS_CONTAINER_OF(mail, struct ps_ask, mail);
    ask->err = ask->request.err;
    if (ask->err.status == PS_OK) {
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

/* ---- Questions ----------------------------------------------------------------------------- */

/* How many bytes; `head` has room for a text and its tag. */
static size_t pack(const struct ps_question *question, uint8_t *head)
{
    char text[TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s", question->text != NULL ? question->text : "");
    if (question->what == PS_ASK_SHUTDOWN) {
        Ps__V1__ShutdownRequest message = PS__V1__SHUTDOWN_REQUEST__INIT;
        message.reason = text;
        return ps__v1__shutdown_request__pack(&message, head);
    }
    if (question->what == PS_ASK_RESTORE) {
        Ps__V1__RestoreRequest message = PS__V1__RESTORE_REQUEST__INIT;
        message.cut = text;
        return ps__v1__restore_request__pack(&message, head);
    }
    return 0; /* The others ask nothing in particular. */
}

void ps_ask(struct ps_ask *ask, const struct ps_question *question)
{
    PS_ASSERT(!ask->under_way);
    ps_ask_forget(ask);
    uint8_t head[TEXT_BYTES + 8];
    size_t n = pack(question, head);
    ask->what = question->what;
    ask->under_way = true;
    ask->request = (struct ps_request){
        .method = kinds[question->what].method,
        .timeout_ms = question->timeout_ms,
        .at_once = true,
        .out = {.head = head, .n_head_bytes = n},
        .done = answered,
    };
    ps_request_start(ask->channel, &ask->request);
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

void ps_ask_once(struct ps_ask *ask, struct ps_transport *transport, struct ps_loop *loop,
                 const char *coordinator, const struct ps_question *question)
{
    if (connect_once(ask, transport, loop, coordinator)) {
        ps_ask(ask, question);
        finish_once(ask, loop);
    }
}

void ps_ask_forget(struct ps_ask *ask)
{
    ps_wire_unpacked_free(ask->describe != NULL ? &ask->describe->base : NULL);
    ps_wire_unpacked_free(ask->snapshot != NULL ? &ask->snapshot->base : NULL);
    ps_wire_unpacked_free(ask->restore != NULL ? &ask->restore->base : NULL);
    ps_cluster_free(ask->cluster);
    ask->describe = NULL;
    ask->snapshot = NULL;
    ask->restore = NULL;
    ask->cluster = NULL;
}
