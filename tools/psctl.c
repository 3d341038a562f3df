/*
 * psctl.c — look at a running cluster, or stop it: asks the coordinator once and prints. What is
 * done with models is in psctl_model.c.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "base/assert.h"
#include "base/id.h"
#include "base/limits.h"
#include "conf/conf.h"
#include "os/loop.h"
#include "os/process.h"
#include "psctl_model.h"
#include "psctl_options.h"
#include "psctl_print.h"
#include "rpc/rpc.h"
#include "train/loop.h"

/* What does the work of each command of psctl_options.c. */
static const struct command {
    const char *name;
    bool (*print)(const Ps__V1__DescribeReply *describe);
    bool (*print_json)(const Ps__V1__DescribeReply *describe);
    /* Does all of it by itself. */
    int (*run)(const struct ps_conf *conf, const struct psctl_options *options);
} commands[] = {
    {.name = "status", .print = psctl_status, .print_json = psctl_status_json},
    {.name = "tables", .print = psctl_tables, .print_json = psctl_tables_json},
    {.name = "shutdown"}, /* It was looked at whose cluster this is; now it is told. */
    {.name = "predict", .run = psctl_predict},
    {.name = "eval", .run = psctl_eval},
    {.name = "export", .run = psctl_export},
};

static enum ps_status check_cluster(const Ps__V1__DescribeReply *describe,
                                    const struct ps_id *wanted, struct ps_error *err)
{
    struct ps_id here;
    if (ps_id_none(wanted) ||
        (ps_id_from(describe->cluster_id.data, describe->cluster_id.len, &here) &&
         ps_id_equal(&here, wanted))) {
        return PS_OK;
    }
    char here_text[PS_ID_TEXT_BYTES] = "without a name";
    char wanted_text[PS_ID_TEXT_BYTES];
    if (describe->cluster_id.len == sizeof(here.bytes)) {
        ps_id_text(&here, here_text);
    }
    ps_id_text(wanted, wanted_text);
    return ps_fail(err, PS_ERR_NOT_FOUND, "this is cluster %s, asked for is cluster %s", here_text,
                   wanted_text);
}

static int fail(const struct psctl_options *options, const struct ps_error *err)
{
    (void)fprintf(stderr, "psctl: --coordinator %s: %s\n", options->coordinator, err->text);
    return ps_train_exit_status(err->status);
}

static int shut_down(struct ps_transport *transport, struct ps_loop *loop,
                     const struct psctl_options *options)
{
    struct ps_ask ask;
    ps_ask_shutdown_once(&ask, transport, loop, options->coordinator, options->reason,
                         (uint32_t)options->timeout_ms);
    if (ask.err.status != PS_OK) {
        return fail(options, &ask.err);
    }
    (void)puts(options->json ? "{\"stopped\":true}" : "stopped");
    return ps_os_finish_stdout("psctl");
}

static bool print(const struct command *command, const struct psctl_options *options,
                  const Ps__V1__DescribeReply *describe)
{
    return options->json ? command->print_json(describe) : command->print(describe);
}

static int run(const struct command *command, const struct psctl_options *options)
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
    if (ask.err.status == PS_OK) {
        (void)check_cluster(ask.describe, &options->cluster_id, &ask.err);
    }
    if (ask.err.status != PS_OK) {
        exit_status = fail(options, &ask.err);
    } else if (command->print == NULL) {
        exit_status = shut_down(ps_rpc_transport(rpc), loop, options);
    } else if (print(command, options, ask.describe)) {
        exit_status = ps_os_finish_stdout("psctl");
    } else {
        (void)fprintf(stderr, "psctl: no memory for the answer\n");
    }
out:
    ps_ask_forget(&ask);
    ps_rpc_destroy(rpc);
    ps_loop_destroy(loop);
    return exit_status;
}

/* One of them was named, or the settings would have been refused. */
static int run_command(const struct ps_conf *conf, const struct psctl_options *options)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, conf->positional[0]) == 0) {
            return commands[i].run != NULL ? commands[i].run(conf, options)
                                           : run(&commands[i], options);
        }
    }
    PS_UNREACHABLE("a command of psctl_options.c that psctl.c does not have");
}

static enum ps_status check_coordinator(const struct ps_conf *conf,
                                        const struct psctl_options *options, struct ps_error *err)
{
    struct ps_conf_words words;
    enum ps_status status = ps_rpc_address_check(options->coordinator, PS_RPC_TO_DIAL, err);
    return status == PS_OK ? PS_OK
                           : ps_wrap(err, status, "%s", ps_conf_say(conf, "coordinator", &words));
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    struct ps_conf conf;
    struct psctl_options options = {0};
    struct ps_error err = {0};
    switch (ps_conf_parse(&conf, &psctl_program, argc, argv, &options, &err)) {
    case PS_CONF_DONE: return ps_os_finish_stdout("psctl");
    case PS_CONF_BAD: (void)fprintf(stderr, "psctl: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    int exit_status = 2;
    if (check_coordinator(&conf, &options, &err) == PS_OK &&
        psctl_model_check(&conf, &options, &err) == PS_OK) {
        exit_status = run_command(&conf, &options);
    } else {
        (void)fprintf(stderr, "psctl: %s\n", err.text);
    }
    ps_conf_deinit(&conf);
    return exit_status;
}
