/*
 * client_open.c — a client from its parts: transport, thread, session; and apart again.
 *
 *   open:  ports -> session -> join        close:  session leaves -> thread ends -> memory
 */
#include "base/assert.h"
#include "base/bytes.h"
#include "base/error.h"
#include "client/lib/client_impl.h"
#include "os/random.h"
#include "rpc/rpc.h"

#define NAME_PRESET "client"

/* ---- On the executor ----------------------------------------------------------------------- */

static void on_changed(void *arg)
{
    ps_client_renew_view(arg, true);
}

static void run_report(struct ps_mail *mail)
{
    struct ps_client *client = PS_CONTAINER_OF(mail, struct ps_client, report_mail);
    ps_client_lock(client);
    struct ps_worker_report report = client->report;
    struct ps_worker_stats stats;
    ps_client_stats_get(client, &stats);
    client->report_posted = false;
    ps_client_unlock(client);
    ps_session_figures(client->session, &stats);
    ps_session_report(client->session, &report);
}

static void on_closed(struct ps_op *op)
{
    struct ps_client *client = PS_CONTAINER_OF(op, struct ps_client, close_op);
    ps_session_destroy(client->session);
    ps_client_lock(client);
    client->session = NULL;
    (void)pthread_cond_broadcast(&client->news);
    ps_client_unlock(client);
}

static void run_close(struct ps_mail *mail)
{
    struct ps_client *client = PS_CONTAINER_OF(mail, struct ps_client, close_mail);
    client->close_op.done = on_closed;
    ps_session_close(client->session, &client->close_op);
}

static void run_join(struct ps_client_call *call)
{
    ps_session_join(call->client->session, &call->as.op);
}

static void run_cancel(struct ps_mail *mail)
{
    struct ps_client *client = PS_CONTAINER_OF(mail, struct ps_client, cancel_mail);
    ps_session_cancel(client->session);
}

void ps_client_cancel(struct ps_client *client)
{
    if (client == NULL) {
        return;
    }
    ps_client_lock(client);
    if (!client->canceled && !client->closing) {
        client->canceled = true;
        (void)pthread_cond_broadcast(&client->news);
        client->cancel_mail = (struct ps_mail){.run = run_cancel};
        ps_exec_post(client->exec, &client->cancel_mail);
    }
    ps_client_unlock(client);
}

/* ---- Close --------------------------------------------------------------------------------- */

static void free_client(struct ps_client *client)
{
    ps_thread_exec_destroy(client->thread);
    ps_client_wait_deinit(client);
    ps_runtime_unref(client->runtime);
    ps_mem_free(client->work.losses);
    ps_mem_free(client);
}

/* What was started and never waited for is not the caller's loss. */
static void drop_calls(struct ps_client *client)
{
    for (uint32_t i = 0; i < PS_CLIENT_OPERATIONS_MAX; i++) {
        if (client->calls[i].state != PS_CLIENT_CALL_FREE) {
            ps_client_call_drop(&client->calls[i]);
        }
    }
}

void ps_client_close(struct ps_client *client)
{
    if (client == NULL) {
        return;
    }
    ps_client_lock(client);
    client->closing = true;
    (void)pthread_cond_broadcast(&client->news); /* To those who wait for a change. */
    client->close_mail = (struct ps_mail){.run = run_close};
    ps_exec_post(client->exec, &client->close_mail);
    while (client->session != NULL || client->n_inside > 0) {
        ps_client_await(client, &client->news, UINT64_MAX);
    }
    drop_calls(client);
    ps_client_unlock(client);
    free_client(client);
}

/* ---- Open ---------------------------------------------------------------------------------- */

static enum ps_status check_options(const struct ps_client_options *options, struct ps_error *err)
{
    if (options->coordinator == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "the options name no coordinator");
    }
    if ((int)options->kind < 0 || options->kind > PS_CLIENT_READER) {
        return ps_fail(err, PS_ERR_INVALID, "%d is no kind of client", (int)options->kind);
    }
    if (options->unleased && options->kind == PS_CLIENT_READER) {
        return ps_fail(err, PS_ERR_INVALID, "unleased is for workers: a reader has no lease");
    }
    return PS_OK;
}

static enum ps_status make_session(struct ps_client *client, const struct ps_client_ports *ports,
                                   const struct ps_client_options *options, struct ps_error *err)
{
    static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};
    struct ps_session_options session = {
        .transport = ports->transport,
        .plant_new_sequence = ports->plant_new_sequence,
        .exec = client->exec,
        .mem = &client->mem,
        .creds = &insecure,
        .coordinator = options->coordinator,
        .kind = client->reader ? PS_CLIENT_READER : PS_CLIENT_WORKER,
        .unleased = options->unleased,
        .name = options->name != NULL ? options->name : NAME_PRESET,
        .cluster_id = options->cluster_id,
        .call_timeout_ms = options->call_timeout_ms,
        .give_up_ms = options->give_up_ms,
        .join_timeout_ms = options->open_timeout_ms,
        .changed = on_changed,
        .arg = client,
    };
    ps_random_id(&session.session);
    struct ps_id jitter;
    ps_random_id(&jitter);
    session.seed = ps_load_u64(jitter.bytes);
    return ps_session_create(&session, &client->session, err);
}

/* A session's own size does not change: what is left of the budget is for calls. */
static enum ps_status bound_memory(struct ps_client *client, uint64_t memory_bytes,
                                   struct ps_error *err)
{
    if (memory_bytes == 0) {
        return PS_OK;
    }
    uint64_t fixed = sizeof(*client) + atomic_load(&client->mem.used[PS_MEM_OTHER]);
    uint64_t needed = fixed + atomic_load(&client->mem.used[PS_MEM_CALLS]);
    if (needed > memory_bytes) {
        return ps_fail(err, PS_ERR_NOMEM, "a client needs %llu bytes; its bound is %llu",
                       (unsigned long long)needed, (unsigned long long)memory_bytes);
    }
    client->mem.limit[PS_MEM_CALLS] = memory_bytes - fixed;
    return PS_OK;
}

static enum ps_status join(struct ps_client *client, struct ps_error *err)
{
    ps_client_lock(client);
    struct ps_client_call *call = ps_client_call_take(client, err);
    PS_ASSERT(call != NULL); /* The first one. */
    call->as.op = (struct ps_op){0};
    ps_client_call_post(call, run_join);
    enum ps_status status = ps_client_call_wait(call, err);
    ps_client_call_drop(call);
    ps_client_unlock(client);
    return status;
}

/* NULL: it could not be made, for the reason in *ret. */
static struct ps_client *make_client(const struct ps_client_ports *ports, enum ps_status *ret,
                                     struct ps_error *err)
{
    struct ps_client *client = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*client));
    if (client == NULL) {
        *ret = ps_fail(err, PS_ERR_NOMEM, "no memory for a client");
        return NULL;
    }
    ps_mem_init(&client->mem);
    client->report_mail.run = run_report;
    client->exec = ports->exec;
    client->inline_exec = ports->inline_exec;
    if (client->exec == NULL) {
        *ret = ps_thread_exec_create("ps-client", &client->thread, err);
        if (*ret != PS_OK) {
            ps_mem_free(client);
            return NULL;
        }
        client->exec = ps_thread_exec_port(client->thread);
    }
    ps_client_wait_init(client);
    return client;
}

/* `client` is gone afterwards when this fails; `runtime` may be NULL. */
static enum ps_status open_over(const struct ps_client_ports *ports, struct ps_runtime *runtime,
                                const struct ps_client_options *options, struct ps_client **ret,
                                struct ps_error *err)
{
    enum ps_status status = PS_OK;
    struct ps_client *client = make_client(ports, &status, err);
    if (client == NULL) {
        return status;
    }
    if (runtime != NULL) {
        ps_runtime_ref(runtime);
        client->runtime = runtime;
    }
    client->reader = options->kind == PS_CLIENT_READER;
    client->unleased = options->unleased;
    status = make_session(client, ports, options, err);
    if (status != PS_OK) {
        free_client(client);
        return status;
    }
    status = bound_memory(client, options->memory_bytes, err);
    if (status == PS_OK) {
        status = join(client, err);
    }
    if (status != PS_OK) {
        ps_client_close(client);
        return status;
    }
    *ret = client;
    return PS_OK;
}

enum ps_status ps_client_open_over(const struct ps_client_ports *ports,
                                   const struct ps_client_options *options, struct ps_client **ret,
                                   struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, options, ret);
    if (status == PS_OK) {
        status = check_options(options, err);
    }
    return status == PS_OK ? open_over(ports, NULL, options, ret, err) : status;
}

enum ps_status ps_client_check_address(const char *address, struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, address);
    return status == PS_OK ? ps_rpc_address_check(address, PS_RPC_TO_DIAL, err) : status;
}

enum ps_status ps_client_open(const struct ps_client_options *options, struct ps_client **ret,
                              struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, options, ret);
    if (status == PS_OK) {
        status = check_options(options, err);
    }
    if (status != PS_OK) {
        return status;
    }
    struct ps_runtime *runtime = options->runtime;
    if (runtime == NULL) {
        status = ps_runtime_create(&runtime, err);
        if (status != PS_OK) {
            return status;
        }
    }
    struct ps_client_ports ports = {.transport = ps_runtime_transport(runtime)};
    status = open_over(&ports, runtime, options, ret, err);
    if (options->runtime == NULL) {
        ps_runtime_unref(runtime); /* The client's from now on, or nobody's. */
    }
    return status;
}
