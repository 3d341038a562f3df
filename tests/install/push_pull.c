/*
 * push_pull.c HOST:PORT — the smallest whole program: define a table, push, pull. Run it again and
 * the weights go on from where they were: they live in the servers.
 */
#include <stdio.h>

#include <ps/client.h>

static enum ps_status push_pull(struct ps_client *client, float weights[4], struct ps_error *err)
{
    struct ps_table_def def = PS_ZERO; /* The presets, also of fields of later versions. */
    def.name = "push_pull.weights";
    def.n_dims = 1;
    def.shape[0] = 4;
    def.optimizer = "sgd"; /* weight = weight - rate * gradient; weights start at zero. */
    struct ps_table table;
    enum ps_status status = ps_client_define_table(client, &def, &table, err);
    if (status != PS_OK) {
        return status;
    }
    float gradient[4] = {-1.0f, -2.0f, -3.0f, -4.0f};
    struct ps_tensor pushed = {table.number, gradient};
    struct ps_push push = PS_ZERO; /* Sequence 0: the session's own first push. */
    push.tensors = &pushed;
    push.n_tensors = 1;
    push.rows = 1;
    push.rate = 0.5f;
    status = ps_client_push(client, &push, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_tensor pulled = {table.number, weights};
    struct ps_pull pull = PS_ZERO;
    pull.tensors = &pulled;
    pull.n_tensors = 1;
    pull.no_clock = true; /* What is there now; no other worker is waited for. */
    return ps_client_pull(client, &pull, err);
}

int main(int argc, char **argv)
{
    struct ps_client_options options = PS_ZERO;
    options.coordinator = argc > 1 ? argv[1] : "127.0.0.1:7070";
    struct ps_client *client = NULL;
    struct ps_error err;
    float w[4];
    if (ps_client_open(&options, &client, &err) != PS_OK || push_pull(client, w, &err) != PS_OK) {
        fprintf(stderr, "push_pull: %s\n", err.text);
        ps_client_close(client); /* NULL when it could not be opened. */
        return 1;
    }
    printf("weights: %g %g %g %g\n", w[0], w[1], w[2], w[3]);
    ps_client_close(client);
    return 0;
}
