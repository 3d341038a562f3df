/*
 * rpc_stray.c — calls of methods that nobody registered. gRPC would let them hang for ever, so
 * some requests for "any other method" are kept armed and answered UNIMPLEMENTED.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "rpc/rpc_impl.h"
#include "rpc/rpc_refusal.h"

struct stray {
    struct ps_rpc_tag arrived;
    struct ps_rpc_tag answered;
    struct ps_rpc_listener *listener;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    struct ps_rpc_refusal refusal;
    int canceled;
};

static void free_stray(struct stray *stray)
{
    grpc_call_details_destroy(&stray->details);
    grpc_metadata_array_destroy(&stray->metadata);
    if (stray->call != NULL) {
        grpc_call_unref(stray->call);
    }
    ps_mem_free(stray);
}

static void on_answered(struct ps_rpc_tag *tag, bool ok PS_UNUSED)
{
    struct stray *stray = PS_CONTAINER_OF(tag, struct stray, answered);
    struct ps_rpc_listener *listener = stray->listener;
    ps_rpc_refusal_drop(&stray->refusal);
    free_stray(stray);
    ps_rpc_listener_stray_left(listener);
}

static void answer(struct stray *stray)
{
    ps_rpc_refusal_make(&stray->refusal, PS_ERR_UNSUPPORTED, "no such method", 0);
    grpc_op ops[3];
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ps_rpc_refusal_fill(&stray->refusal, PS_ERR_UNSUPPORTED, &ops[1]);
    ops[2].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[2].data.recv_close_on_server.cancelled = &stray->canceled;
    ps_rpc_batch(stray->call, ops, PS_ARRAY_LEN(ops), &stray->answered);
}

static void on_arrived(struct ps_rpc_tag *tag, bool ok)
{
    struct stray *stray = PS_CONTAINER_OF(tag, struct stray, arrived);
    struct ps_rpc_listener *listener = stray->listener;
    if (!ok) { /* The server shuts down. */
        free_stray(stray);
        ps_rpc_listener_disarmed(listener, false);
        return;
    }
    ps_rpc_stray_arm(listener);
    answer(stray);
    ps_rpc_listener_disarmed(listener, true);
}

void ps_rpc_stray_arm(struct ps_rpc_listener *listener)
{
    if (!ps_rpc_listener_arm_one(listener)) {
        return;
    }
    struct stray *stray = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*stray));
    PS_ASSERT(stray != NULL);
    stray->listener = listener;
    stray->arrived.done = on_arrived;
    stray->answered.done = on_answered;
    grpc_call_details_init(&stray->details);
    grpc_metadata_array_init(&stray->metadata);
    grpc_completion_queue *cq = listener->rpc->queues[0].cq;
    PS_RPC_HANDOFF(&stray->arrived);
    grpc_call_error failed = grpc_server_request_call(
        listener->server, &stray->call, &stray->details, &stray->metadata, cq, cq, &stray->arrived);
    PS_ASSERT(failed == GRPC_CALL_OK);
}
