/* run_options.c — see run_options.h. */
#include "run_options.h"

#include <stddef.h>

#include "base/limits.h"
#include "conf/job.h"
#include "obs/log.h"

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
        .help = "Host that the servers listen on: a name, IPv4 or IPv6.",
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
    {&ps_server_lasting_table, offsetof(struct ps_run_options, server)},
    {&ps_train_option_table, offsetof(struct ps_run_options, train)},
};

static const struct ps_exit exits[] = {
    {0, "trained"},
    {2, "bad flags or data (nothing was started)"},
    {3, "training diverged"},
    {4, "cluster or data lost"},
    {65, "a file of a server is damaged"},
    {74, "the model, the report or standard output cannot be written"},
    {130, "interrupted"},
    {143, "terminated"},
    {0, NULL},
};

const struct ps_program ps_run_program = {
    .name = "ps-run",
    .brief = "train a model on a parameter server cluster of its own",
    .summary = "Trains a model on a cluster of its own on this machine: one command.",
    .usage = "--data PATH|NAME [flags]",
    .notes = "Results go to standard output, progress and logs to standard error.",
    .exits = exits,
    .env_prefix = "PS_RUN",
    .uses = run_uses,
    .job = ps_job_programs,
    .n_uses = PS_ARRAY_LEN(run_uses),
};
