/* rpc_cq.c — see rpc_cq.h. */
#include "rpc/rpc_cq.h"

#include "base/assert.h"

void ps_rpc_batch(grpc_call *call, const grpc_op *ops, size_t n_ops, struct ps_rpc_tag *tag)
{
    PS_RPC_HANDOFF(tag);
    grpc_call_error failed = grpc_call_start_batch(call, ops, n_ops, tag, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK); /* An operation twice, or in a wrong order: our mistake. */
}

void ps_rpc_cq_run(grpc_completion_queue *cq)
{
    gpr_timespec forever = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    for (;;) {
        grpc_event event = grpc_completion_queue_next(cq, forever, NULL);
        switch (event.type) {
        case GRPC_OP_COMPLETE: {
            struct ps_rpc_tag *tag = event.tag;
            PS_RPC_TAKEN(tag);
            tag->done(tag, event.success != 0);
            break;
        }
        case GRPC_QUEUE_SHUTDOWN: return;
        case GRPC_QUEUE_TIMEOUT: PS_UNREACHABLE("a wait without an end timed out");
        }
    }
}
