/* rpc_cq.c — see rpc_cq.h. */
#include "rpc/rpc_cq.h"

#include "base/assert.h"

void ps_rpc_batch(grpc_call *call, const grpc_op *ops, size_t n_ops, struct ps_rpc_tag *tag)
{
    PS_RPC_HANDOFF(tag);
    grpc_call_error failed = grpc_call_start_batch(call, ops, n_ops, tag, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK); /* An operation twice, or in a wrong order: our mistake. */
}

static gpr_timespec in_ms(uint32_t ms)
{
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

static bool is_due(gpr_timespec due)
{
    return gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), due) >= 0;
}

static void run_tag(struct ps_rpc_tag *tag, bool ok, pthread_mutex_t *turn)
{
    int failed = turn != NULL ? pthread_mutex_lock(turn) : 0;
    PS_ASSERT(failed == 0);
    PS_RPC_TAKEN(tag);
    tag->done(tag, ok);
    failed = turn != NULL ? pthread_mutex_unlock(turn) : 0;
    PS_ASSERT(failed == 0);
}

void ps_rpc_cq_run(grpc_completion_queue *cq, const struct ps_rpc_cq_also *also)
{
    gpr_timespec due =
        also->now_and_then != NULL ? in_ms(also->period_ms) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
    for (;;) {
        grpc_event event = grpc_completion_queue_next(cq, due, NULL);
        switch (event.type) {
        case GRPC_OP_COMPLETE: run_tag(event.tag, event.success != 0, also->turn); break;
        case GRPC_QUEUE_SHUTDOWN: return;
        case GRPC_QUEUE_TIMEOUT: break;
        }
        if (also->now_and_then != NULL && is_due(due)) {
            also->now_and_then(also->arg);
            due = in_ms(also->period_ms);
        }
    }
}
