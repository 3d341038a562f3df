/* attached.c — see attached.h. */
#include "attached.h"

#include "base/bytes.h"
#include "os/random.h"

struct ps_session_options ps_attached_client(const struct ps_attached_options *options)
{
    static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};
    struct ps_session_options client = {
        .transport = options->transport,
        .mem = options->mem,
        .metrics = options->metrics,
        .creds = &insecure,
        .coordinator = options->coordinator,
        .kind = options->kind,
        .name = options->name,
        .give_up_ms = (uint32_t)options->give_up_ms,
    };
    ps_random_id(&client.session);
    struct ps_id jitter;
    ps_random_id(&jitter);
    client.seed = ps_load_u64(jitter.bytes);
    return client;
}

enum ps_status ps_attached_open(struct ps_attached *session,
                                const struct ps_attached_options *options, struct ps_error *err)
{
    *session = (struct ps_attached){0};
    enum ps_status status = ps_thread_exec_create("client", &session->exec, err);
    if (status != PS_OK) {
        return status;
    }
    ps_blocking_init(&session->blocking, ps_thread_exec_port(session->exec), NULL);
    struct ps_session_options client = ps_attached_client(options);
    status = ps_blocking_open(&session->blocking, &client, err);
    if (status != PS_OK) {
        ps_attached_close(session);
    }
    return status;
}

struct ps_blocking *ps_attached_blocking(struct ps_attached *session)
{
    return &session->blocking;
}

void ps_attached_close(struct ps_attached *session)
{
    if (session->exec == NULL) {
        return;
    }
    ps_blocking_close(&session->blocking);
    ps_thread_exec_destroy(session->exec);
    ps_blocking_deinit(&session->blocking);
    *session = (struct ps_attached){0};
}
