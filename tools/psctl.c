/* psctl.c — look at a running cluster. Asks the coordinator once and prints. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "base/limits.h"
#include "conf/conf.h"
#include "os/loop.h"
#include "os/process.h"
#include "psctl_print.h"
#include "rpc/rpc.h"
#include "train/loop.h"

struct options {
    const char *coordinator;
    uint64_t timeout_ms;
    bool json;
};

static const struct ps_option rows[] = {
    {
        .name = "coordinator",
        .unit = "HOST:PORT",
        .help = "The server that coordinates.",
        .group = "Cluster",
        .preset = "127.0.0.1:7070",
        .type = PS_OPTION_STRING,
        .offset = offsetof(struct options, coordinator),
    },
    {
        .name = "timeout",
        .help = "How long to wait for its answer.",
        .preset = "3s",
        .type = PS_OPTION_DURATION_MS,
        .min = 10,
        .max = 600000,
        .offset = offsetof(struct options, timeout_ms),
    },
    {
        .name = "json",
        .help = "Print one JSON object instead of a table.",
        .type = PS_OPTION_BOOL,
        .offset = offsetof(struct options, json),
    },
};

static const struct ps_option_table table = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {{&table, 0}};

/* One row per command. */
static const struct command {
    const char *name;
    bool (*print)(const Ps__V1__DescribeReply *describe);
    bool (*print_json)(const Ps__V1__DescribeReply *describe);
} commands[] = {
    {"status", psctl_status, psctl_status_json},
    {"tables", psctl_tables, psctl_tables_json},
};

static const struct ps_program program = {
    .name = "psctl",
    .summary = "Looks at a running cluster.",
    .usage = "status|tables [flags]",
    .notes = "Commands:\n"
             "  status   servers, workers, clocks, leases, how far the job is\n"
             "  tables   tables, their shapes and rules, where their blocks are\n"
             "\n"
             "Exit status: 0 printed, 2 bad usage, 4 the coordinator did not answer.",
    .env_prefix = "PSCTL",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
    .n_positional_max = 1,
};

static int run(const struct command *command, const struct options *options)
{
    struct ps_error err = {0};
    struct ps_loop *loop = NULL;
    struct ps_rpc *rpc = NULL;
    struct ps_ask ask = {0};
    int exit_status = 70;
    if (ps_loop_create(&loop, &err) != PS_OK ||
        ps_rpc_create(&(struct ps_rpc_options){0}, &rpc, &err) != PS_OK) {
        (void)fprintf(stderr, "psctl: %s\n", err.text);
        goto out;
    }
    ps_ask_describe_once(&ask, ps_rpc_transport(rpc), loop, options->coordinator,
                         (uint32_t)options->timeout_ms);
    if (ask.err.status != PS_OK) {
        (void)fprintf(stderr, "psctl: --coordinator %s: %s\n", options->coordinator, ask.err.text);
        exit_status = ps_train_exit_status(ask.err.status);
        goto out;
    }
    if (options->json ? command->print_json(ask.describe) : command->print(ask.describe)) {
        exit_status = 0;
    }
out:
    ps_ask_forget(&ask);
    ps_rpc_destroy(rpc);
    ps_loop_destroy(loop);
    return exit_status;
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    struct ps_conf conf;
    struct options options = {0};
    struct ps_error err = {0};
    switch (ps_conf_parse(&conf, &program, argc, argv, &options, &err)) {
    case PS_CONF_DONE: return 0;
    case PS_CONF_BAD: (void)fprintf(stderr, "psctl: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    if (conf.n_positional == 0) {
        (void)fprintf(stderr, "psctl: no command; there are status and tables (see --help)\n");
        return 2;
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, conf.positional[0]) == 0) {
            return run(&commands[i], &options);
        }
    }
    (void)fprintf(stderr, "psctl: unknown command '%s'; there are status and tables\n",
                  conf.positional[0]);
    return 2;
}
