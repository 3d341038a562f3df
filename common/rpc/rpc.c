/* rpc.c — gRPC's life in this process: queues, threads, log. See rpc.h. */
#include "rpc/rpc.h"

#include <stdio.h>
#include <string.h>

#include <unistd.h>

#include <grpc/support/log.h>

#include "base/assert.h"
#include "obs/log.h"
#include "os/clock.h"
#include "rpc/rpc_impl.h"

static const struct ps_transport_ops ops = {
    .channel_open = ps_rpc_channel_open,
    .channel_close = ps_rpc_channel_close,
    .request_start = ps_rpc_request_start,
    .request_cancel = ps_rpc_request_cancel,
    .stream_open = ps_rpc_stream_open,
    .stream_start = ps_rpc_stream_start,
    .stream_send = ps_rpc_stream_send,
    .stream_close = ps_rpc_stream_close,
    .stream_release = ps_rpc_stream_release,
    .listener_open = ps_rpc_listener_open,
    .listener_address = ps_rpc_listener_address,
    .listener_stop = ps_rpc_listener_stop,
    .listener_close = ps_rpc_listener_close,
    .call_request = ps_rpc_call_request,
    .call_take_request = ps_rpc_call_take_request,
    .call_context = ps_rpc_call_context,
    .call_gone = ps_rpc_call_gone,
    .call_time_left_ms = ps_rpc_call_time_left_ms,
    .call_retry_after = ps_rpc_call_retry_after,
    .call_finish = ps_rpc_call_finish,
};

/* Peers can make gRPC complain as often as they like; the log takes only so much of it. */
static bool may_complain(void)
{
    static _Atomic uint64_t second;
    static _Atomic uint32_t n_lines;
    uint64_t now_s = ps_clock_ms() / 1000;
    if (atomic_exchange(&second, now_s) != now_s) {
        atomic_store(&n_lines, 0);
    }
    return atomic_fetch_add(&n_lines, 1) < PS_RPC_LOG_LINES_MAX;
}

/* gRPC has one log function per process and gives it no argument. Our own log decides who reads. */
static void write_log(gpr_log_func_args *args)
{
    if (!may_complain()) {
        return;
    }
    const char *slash = strrchr(args->file, '/');
    ps_log(PS_LOG_ERROR, "grpc.says", "at=%s:%d msg=\"%s\"", slash != NULL ? slash + 1 : args->file,
           args->line, args->message);
}

void ps_rpc_signals_block(sigset_t *before)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, before);
}

void ps_rpc_signals_restore(const sigset_t *before)
{
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

static uint64_t half_of_memory(void)
{
    long n_pages = sysconf(_SC_PHYS_PAGES);
    long n_page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t half =
        n_pages > 0 && n_page_bytes > 0 ? (uint64_t)n_pages * (uint64_t)n_page_bytes / 2 : 0;
    return half > PS_RPC_QUOTA_BYTES_MIN ? half : PS_RPC_QUOTA_BYTES_MIN;
}

static uint32_t or_default(uint32_t given, uint32_t preset)
{
    return given != 0 ? given : preset;
}

static struct ps_rpc_options with_defaults(const struct ps_rpc_options *options)
{
    struct ps_rpc_options full = *options;
    full.n_data_queues = or_default(full.n_data_queues, 1);
    full.n_message_bytes_max =
        full.n_message_bytes_max != 0 ? full.n_message_bytes_max : PS_MESSAGE_BYTES_MAX;
    full.n_calls_max = or_default(full.n_calls_max, PS_RPC_CALLS_MAX);
    full.n_reads_max = or_default(full.n_reads_max, PS_RPC_READS_MAX);
    full.n_untaken_max = or_default(full.n_untaken_max, PS_RPC_UNTAKEN_MAX);
    full.n_reads_per_peer = or_default(full.n_reads_per_peer, PS_RPC_READS_PER_PEER);
    full.passage_ms = or_default(full.passage_ms, PS_PASSAGE_MS);
    full.crowded_ms = or_default(full.crowded_ms, PS_PASSAGE_CROWDED_MS);
    full.keepalive_ms = or_default(full.keepalive_ms, PS_RPC_KEEPALIVE_MS);
    full.ping_answer_ms = or_default(full.ping_answer_ms, PS_RPC_PING_ANSWER_MS);
    full.n_quota_bytes = full.n_quota_bytes != 0 ? full.n_quota_bytes : half_of_memory();
    return full;
}

static void sweep(void *arg)
{
    ps_rpc_guard_sweep(arg);
}

static bool is_io(const struct ps_rpc_queue *queue)
{
    return queue >= queue->rpc->io && queue < queue->rpc->io + PS_RPC_IO_THREADS;
}

static void run_queue(struct ps_mail *mail)
{
    struct ps_rpc_queue *queue = PS_CONTAINER_OF(mail, struct ps_rpc_queue, run);
    struct ps_rpc *rpc = queue->rpc;
    bool control = queue == &rpc->queues[0];
    struct ps_rpc_cq_also also = {
        .now_and_then = control ? sweep : NULL,
        .arg = rpc,
        .period_ms = PS_RPC_SWEEP_MS,
        .turn = is_io(queue) ? &rpc->io_turn : NULL,
    };
    ps_rpc_cq_run(queue->cq, &also);
}

static grpc_completion_queue *create_queue(grpc_cq_polling_type polling)
{
    grpc_completion_queue_attributes attributes = {
        .version = GRPC_CQ_CURRENT_VERSION,
        .cq_completion_type = GRPC_CQ_NEXT,
        .cq_polling_type = polling,
    };
    return grpc_completion_queue_create(grpc_completion_queue_factory_lookup(&attributes),
                                        &attributes, NULL);
}

/* With a completion queue of its own, or with `cq` of another. */
static enum ps_status start_queue(struct ps_rpc *rpc, struct ps_rpc_queue *queue, const char *name,
                                  grpc_completion_queue *cq, struct ps_error *err)
{
    enum ps_status status = ps_thread_exec_create(name, &queue->thread, err);
    if (status != PS_OK) {
        return status;
    }
    bool control = queue == &rpc->queues[0];
    queue->rpc = rpc;
    queue->cq =
        cq != NULL ? cq : create_queue(control ? GRPC_CQ_NON_POLLING : GRPC_CQ_DEFAULT_POLLING);
    queue->run.run = run_queue;
    ps_exec_post(ps_thread_exec_port(queue->thread), &queue->run);
    return PS_OK;
}

static enum ps_status start_queues(struct ps_rpc *rpc, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    char name[16] = "ps-control";
    for (uint32_t i = 0; i < PS_RPC_IO_THREADS && status == PS_OK; i++) {
        status = start_queue(rpc, &rpc->io[i], "ps-io", rpc->io[0].cq, err);
        rpc->n_io += status == PS_OK ? 1 : 0;
    }
    for (uint32_t i = 0; i < 1 + rpc->options.n_data_queues && status == PS_OK; i++) {
        status = start_queue(rpc, &rpc->queues[i], name, NULL, err);
        rpc->n_queues += status == PS_OK ? 1 : 0;
        (void)snprintf(name, sizeof(name), "ps-data-%u", i % 100);
    }
    return status;
}

/* Those of I/O go last: the others get their last events through them. */
static void stop_queues(struct ps_rpc *rpc)
{
    for (uint32_t i = 0; i < rpc->n_queues; i++) {
        grpc_completion_queue_shutdown(rpc->queues[i].cq);
        ps_thread_exec_destroy(rpc->queues[i].thread); /* Joins. */
        grpc_completion_queue_destroy(rpc->queues[i].cq);
    }
    if (rpc->n_io > 0) {
        grpc_completion_queue_shutdown(rpc->io[0].cq);
        for (uint32_t i = 0; i < rpc->n_io; i++) {
            ps_thread_exec_destroy(rpc->io[i].thread);
        }
        grpc_completion_queue_destroy(rpc->io[0].cq);
    }
}

enum ps_status ps_rpc_create(const struct ps_rpc_options *options, struct ps_rpc **ret,
                             struct ps_error *err)
{
    if (options->n_data_queues > PS_RPC_DATA_QUEUES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%u data queues; at most %u", options->n_data_queues,
                       PS_RPC_DATA_QUEUES_MAX);
    }
    struct ps_rpc *rpc = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*rpc));
    if (rpc == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the transport");
    }
    rpc->base.ops = &ops;
    rpc->options = with_defaults(options);
    int failed = pthread_mutex_init(&rpc->lock, NULL);
    PS_ASSERT(failed == 0);
    failed = pthread_mutex_init(&rpc->io_turn, NULL);
    PS_ASSERT(failed == 0);
    ps_list_init(&rpc->listeners);
    ps_rpc_lender_init(&rpc->lender);

    sigset_t before;
    ps_rpc_signals_block(&before); /* gRPC's own threads inherit this. */
    gpr_set_log_function(write_log);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
    grpc_init();
    rpc->quota = grpc_resource_quota_create("ps");
    grpc_resource_quota_resize(rpc->quota, (size_t)rpc->options.n_quota_bytes);
    enum ps_status status = start_queues(rpc, err);
    ps_rpc_signals_restore(&before);
    if (status != PS_OK) {
        ps_rpc_destroy(rpc);
        return status;
    }
    *ret = rpc;
    return PS_OK;
}

void ps_rpc_destroy(struct ps_rpc *rpc)
{
    if (rpc == NULL) {
        return;
    }
    PS_ASSERT(atomic_load(&rpc->n_open) == 0);
    stop_queues(rpc);
    ps_rpc_requests_free(rpc);
    grpc_resource_quota_unref(rpc->quota);
    grpc_shutdown_blocking();
    ps_rpc_lender_deinit(&rpc->lender);
    (void)pthread_mutex_destroy(&rpc->lock);
    (void)pthread_mutex_destroy(&rpc->io_turn);
    ps_mem_free(rpc);
}

struct ps_transport *ps_rpc_transport(struct ps_rpc *rpc)
{
    return &rpc->base;
}
