#ifndef PS_COMMON_RPC_RPC_CQ_H
#define PS_COMMON_RPC_RPC_CQ_H
/*
 * rpc/rpc_cq.h — completion queues: what we give gRPC as a tag, and the only loop that takes it
 * back.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>

#include <grpc/grpc.h>

/*
 * The thread sanitizer does not see inside libgrpc, so it is told that a tag which comes back
 * happens after the batch that it was given with.
 */
#if defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define PS_RPC_TSAN 1
#    endif
#endif
#if defined(__SANITIZE_THREAD__)
#    define PS_RPC_TSAN 1
#endif
#if defined(PS_RPC_TSAN)
void __tsan_acquire(void *address); // NOLINT(bugprone-reserved-identifier)
void __tsan_release(void *address); // NOLINT(bugprone-reserved-identifier)
#    define PS_RPC_HANDOFF(ptr) __tsan_release(ptr)
#    define PS_RPC_TAKEN(ptr)   __tsan_acquire(ptr)
#else
#    define PS_RPC_HANDOFF(ptr) ((void)(ptr))
#    define PS_RPC_TAKEN(ptr)   ((void)(ptr))
#endif

/**
 * What we give gRPC as a `void *` tag: a member of the struct whose batch it marks. `done` gets
 * the pointer back typed, so no tag is ever compared, cast by guess or switched on.
 */
struct ps_rpc_tag {
    void (*done)(struct ps_rpc_tag *tag, bool ok);
};

/** Start a batch; `tag->done` runs once on the thread of the call's queue. */
void ps_rpc_batch(grpc_call *call, const grpc_op *ops, size_t n_ops, struct ps_rpc_tag *tag);

/** What a queue's thread does besides. */
struct ps_rpc_cq_also {
    void (*now_and_then)(void *arg); /* NULL: nothing. Else about every `period_ms`. */
    void *arg;
    uint32_t period_ms;
    pthread_mutex_t *turn; /* Held around tags: the queue has several threads. NULL: one. */
};

/** Run until the queue is shut down and drained. */
void ps_rpc_cq_run(grpc_completion_queue *cq, const struct ps_rpc_cq_also *also);

#endif
