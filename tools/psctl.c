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
#include "base/attr.h"
#include "base/id.h"
#include "base/limits.h"
#include "conf/conf.h"
#include "os/loop.h"
#include "os/process.h"
#include "psctl_gather.h"
#include "psctl_model.h"
#include "psctl_options.h"
#include "psctl_print.h"
#include "psctl_replay.h"
#include "psctl_snapshot.h"
#include "rpc/rpc.h"
#include "train/loop.h"

static void say_stopped(const struct ps_ask *ask PS_UNUSED, bool json)
{
    (void)puts(json ? "{\"stopped\":true}" : "stopped");
}

/* What does the work of each command of psctl_options.c. */
static const struct command {
    const char *name;
    bool (*print)(const Ps__V1__DescribeReply *describe);
    bool (*print_json)(const Ps__V1__DescribeReply *describe);
    /* Or: another question, and what came of it. */
    enum ps_ask_what ask;
    void (*say)(const struct ps_ask *ask, bool json);
    bool gathers; /* Or: collects a snapshot of those that it was told of. */
    /* Does all of it by itself. */
    int (*run)(const struct ps_conf *conf, const struct psctl_options *options);
} commands[] = {
    {.name = "status", .print = psctl_status, .print_json = psctl_status_json},
    {.name = "tables", .print = psctl_tables, .print_json = psctl_tables_json},
    /* It was looked at whose cluster this is; now it is asked for something. */
    {.name = "shutdown", .ask = PS_ASK_SHUTDOWN, .say = say_stopped},
    {.name = "snapshot", .ask = PS_ASK_SNAPSHOT, .say = psctl_say_snapshot},
    {.name = "restore", .ask = PS_ASK_RESTORE, .say = psctl_say_restore},
    {.name = "replay", .run = psctl_replay},
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

static uint32_t timeout_ms(const struct psctl_options *options, enum ps_ask_what what)
{
    bool long_work = what == PS_ASK_SNAPSHOT || what == PS_ASK_RESTORE;
    uint64_t preset_ms = long_work ? PSCTL_TIMEOUT_LONG_MS : PSCTL_TIMEOUT_MS;
    return (uint32_t)(options->timeout_ms != 0 ? options->timeout_ms : preset_ms);
}

static int ask_for(struct ps_transport *transport, struct ps_loop *loop,
                   const struct command *command, const struct psctl_options *options)
{
    struct ps_ask ask;
    struct ps_question question = {
        .what = command->ask,
        .text = command->ask == PS_ASK_SHUTDOWN ? options->reason : options->cut,
        .timeout_ms = timeout_ms(options, command->ask),
    };
    ps_ask_once(&ask, transport, loop, options->coordinator, &question);
    int exit_status;
    if (ask.err.status != PS_OK) {
        exit_status = fail(options, &ask.err);
    } else {
        command->say(&ask, options->json);
        exit_status = ps_os_finish_stdout("psctl");
    }
    ps_ask_forget(&ask);
    return exit_status;
}

static int gather(struct ps_transport *transport, struct ps_loop *loop,
                  const struct psctl_options *options, const Ps__V1__DescribeReply *describe)
{
    struct ps_error err = {0};
    enum ps_status status = psctl_gather(transport, loop, options, describe, &err);
    return status == PS_OK ? ps_os_finish_stdout("psctl") : fail(options, &err);
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
    struct ps_question describe = {.what = PS_ASK_DESCRIBE,
                                   .timeout_ms = timeout_ms(options, PS_ASK_DESCRIBE)};
    int exit_status = 70;
    if (ps_loop_create(&loop, &err) != PS_OK ||
        ps_rpc_create(&(struct ps_rpc_options){0}, &rpc, &err) != PS_OK) {
        (void)fprintf(stderr, "psctl: %s\n", err.text);
        goto out;
    }
    ps_ask_once(&ask, ps_rpc_transport(rpc), loop, options->coordinator, &describe);
    if (ask.err.status == PS_OK) {
        (void)check_cluster(ask.describe, &options->cluster_id, &ask.err);
    }
    if (ask.err.status != PS_OK) {
        exit_status = fail(options, &ask.err);
    } else if (command->gathers) {
        exit_status = gather(ps_rpc_transport(rpc), loop, options, ask.describe);
    } else if (command->print == NULL) {
        exit_status = ask_for(ps_rpc_transport(rpc), loop, command, options);
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
    static const struct command list = {.print = psctl_snapshots,
                                        .print_json = psctl_snapshots_json};
    static const struct command gathering = {.gathers = true};
    if (strcmp(conf->positional[0], "snapshot") == 0 && options->list) {
        return run(&list, options);
    }
    if (strcmp(conf->positional[0], "snapshot") == 0 && options->gather != NULL) {
        return run(&gathering, options);
    }
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
