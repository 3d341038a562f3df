/* run_options.c — see run_options.h. */
#include "run_options.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/limits.h"
#include "obs/log.h"

#define SERVERS_PRESET 2u
#define WORKERS_PRESET 4u

#define AT(field) offsetof(struct ps_run_options, field)

static const struct ps_option run_rows[] = {
    {
        .name = "servers",
        .help = "Servers to start; 2 when it is not given.",
        .group = "This run",
        .type = PS_OPTION_U32,
        .min = 1,
        .max = PS_SERVERS_MAX,
        .offset = AT(servers),
    },
    {
        .name = "in-process",
        .help = "No cluster: server and worker are one thread of this process. The same model and "
                "report; what a cluster is compared with.",
        .type = PS_OPTION_BOOL,
        .offset = AT(in_process),
    },
    {
        .name = "out",
        .unit = "DIR",
        .help = "Write the model to DIR/model.safetensors.",
        .type = PS_OPTION_STRING,
        .offset = AT(out),
    },
    {
        .name = "report",
        .unit = "FILE",
        .help = "Write the report, one JSON object, to FILE.",
        .type = PS_OPTION_STRING,
        .offset = AT(report),
    },
    {
        .name = "json",
        .help = "Print the report as the last line of standard output.",
        .type = PS_OPTION_BOOL,
        .offset = AT(json),
    },
    {
        .name = "host",
        .unit = "ADDRESS",
        .help = "Address that the servers listen on.",
        .preset = "127.0.0.1",
        .type = PS_OPTION_STRING,
        .offset = AT(host),
    },
    {
        .name = "port-base",
        .help = "Server number i listens on port N + i; 0: free ports.",
        .preset = "0",
        .type = PS_OPTION_U32,
        .max = 65535 - PS_SERVERS_MAX,
        .offset = AT(port_base),
    },
    {
        .name = "log-level",
        .help = "What servers and workers log; it appears on standard error.",
        .preset = "warn",
        .words = ps_log_level_words,
        .type = PS_OPTION_ENUM,
        .offset = AT(log_level),
    },
};

static const struct ps_option_table run_table = {run_rows, PS_ARRAY_LEN(run_rows)};

static const struct ps_option_use run_uses[] = {
    {&run_table, 0},
    {&ps_train_option_table, offsetof(struct ps_run_options, train)},
};

const struct ps_program ps_run_program = {
    .name = "ps-run",
    .summary = "Trains a model on a cluster of its own on this machine: one command.",
    .usage = "--data PATH|NAME [flags]",
    .notes = "Results go to standard output, progress and logs to standard error.\n"
             "Exit status: 0 trained, 2 bad flags or data (nothing was started), 3 training "
             "diverged,\n4 cluster or data lost, 130 and 143 interrupted.",
    .env_prefix = "PS_RUN",
    .uses = run_uses,
    .n_uses = PS_ARRAY_LEN(run_uses),
};

static enum ps_status check_in_process(const struct ps_run_options *options, struct ps_error *err)
{
    if (options->servers > 1) {
        return ps_fail(err, PS_ERR_INVALID,
                       "--in-process and --servers %" PRIu32
                       " contradict each other: one process has no cluster",
                       options->servers);
    }
    if (options->train.workers > 1) {
        return ps_fail(err, PS_ERR_INVALID,
                       "--in-process and --workers %" PRIu32
                       " contradict each other: one process has no cluster",
                       options->train.workers);
    }
    if (options->port_base != 0) {
        return ps_fail(err, PS_ERR_INVALID, "--in-process listens nowhere: leave out --port-base");
    }
    return PS_OK;
}

enum ps_status ps_run_options_check(const struct ps_conf *conf, struct ps_run_options *options,
                                    struct ps_error *err)
{
    ps_train_options_given(conf, &options->train);
    enum ps_status status = options->in_process ? check_in_process(options, err) : PS_OK;
    if (status != PS_OK) {
        return status;
    }
    if (options->in_process) {
        options->servers = 1;
        options->train.workers = 1;
        options->train.prefetch = 0; /* One thread: nothing would happen at the same time. */
        if (options->train.consistency == NULL && !options->train.staleness_given) {
            options->train.consistency = "bsp"; /* Nobody to be apart from. */
        }
    }
    if (options->servers == 0) {
        options->servers = SERVERS_PRESET;
    }
    if (options->train.workers == 0) {
        options->train.workers = WORKERS_PRESET;
    }
    return ps_train_options_check(&options->train, err);
}
