/*
 * run_in_process.c — the same model and report in one process, without a cluster.
 *
 * A whole server, a worker and a reader in one thread, on a transport that is a function call: the
 * code is that of a cluster, so this is what a cluster's weights are compared with.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "client/lib/client_over.h"
#include "os/clock.h"
#include "os/random.h"
#include "outcome.h"
#include "port/direct.h"
#include "port/inline_exec.h"
#include "run.h"
#include "run_finish.h"
#include "server.h"

#define ADDRESS  "in-process"
#define NOT_DONE "the job did not end"

struct solo {
    struct run *run;
    struct ps_inline_exec exec;
    struct ps_direct *direct;
    struct ps_server *server;
    bool stopped;
};

/* The signal flag: the one thing that a handler may touch. */
static _Atomic bool stop_flag;
static volatile sig_atomic_t stop_signal;

static void on_signal(int signal)
{
    stop_signal = signal;
    atomic_store(&stop_flag, true);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL); /* Can't fail for these signals. */
    (void)sigaction(SIGTERM, &action, NULL);
}

static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};

static enum ps_status start_server(struct solo *solo, struct ps_error *err)
{
    solo->direct = ps_direct_create(&solo->exec.base);
    if (solo->direct == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a transport");
    }
    struct ps_server_options options = {
        .transport = ps_direct_transport(solo->direct),
        .exec = &solo->exec.base,
        .lanes = {&solo->exec.base},
        .n_lanes = 1,
        .mem = &solo->run->mem,
        .creds = &insecure,
        .listen = ADDRESS,
        .name = "in-process",
        .n_servers = 1,
    };
    ps_random_id(&options.session);
    ps_random_id(&options.new_cluster_id);
    ps_random_bytes(&options.new_key_seed, sizeof(options.new_key_seed));
    ps_random_bytes(&options.index_seed, sizeof(options.index_seed));
    return ps_server_start(&options, &solo->server, err);
}

/* One session of this thread. */
static enum ps_status open_client(struct solo *solo, enum ps_client_kind kind,
                                  struct ps_client **ret, struct ps_error *err)
{
    struct ps_client_ports ports = {.transport = ps_direct_transport(solo->direct),
                                    .exec = &solo->exec.base,
                                    .inline_exec = &solo->exec};
    struct ps_client_options options = {
        .coordinator = ps_server_address(solo->server), .kind = kind, .name = "in-process"};
    return ps_client_open_over(&ports, &options, ret, err);
}

static enum ps_status train(struct solo *solo, struct ps_error *err)
{
    struct ps_client *client = NULL;
    struct ps_train_result result = {0};
    enum ps_status status = open_client(solo, PS_CLIENT_WORKER, &client, err);
    if (status == PS_OK) {
        status = ps_training_run(&solo->run->training, client, &stop_flag, &result, err);
        ps_client_close(client);
    }
    if (status == PS_OK && !result.done) {
        return ps_fail(err, PS_ERR_CANCELED, NOT_DONE);
    }
    return status;
}

/* The whole model, and what the coordinator counted. */
static enum ps_status judge(struct solo *solo, struct ps_error *err)
{
    struct ps_client *client = NULL;
    enum ps_status status = open_client(solo, PS_CLIENT_READER, &client, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_cluster *cluster = NULL;
    status = run_finish(solo->run, client, err);
    if (status == PS_OK) {
        status = ps_client_describe(client, &cluster, err);
    }
    if (status == PS_OK) {
        ps_outcome_report(cluster, &solo->run->lists, &solo->run->report);
    }
    ps_cluster_free(cluster);
    ps_client_close(client);
    return status;
}

static void server_stopped(void *arg)
{
    struct solo *solo = arg;
    solo->stopped = true;
}

static void stop_server(struct solo *solo)
{
    if (solo->server != NULL) {
        ps_server_stop(solo->server, server_stopped, solo);
        while (!solo->stopped) {
            ps_inline_exec_pump(&solo->exec);
        }
        ps_server_destroy(solo->server);
    }
    ps_direct_destroy(solo->direct);
}

int run_in_process(struct run *run)
{
    catch_signals();
    struct solo solo = {.run = run};
    ps_inline_exec_init(&solo.exec, ps_clock_source, NULL);
    struct ps_error err = {0};
    enum ps_status status = start_server(&solo, &err);
    if (status == PS_OK) {
        status = train(&solo, &err);
    }
    if (status == PS_OK) {
        status = judge(&solo, &err);
    }
    stop_server(&solo);
    if (stop_signal != 0) {
        return 128 + stop_signal;
    }
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-run: %s\n", err.text);
    }
    return ps_train_exit_status(status);
}
