/*
 * run_start.c — the children of ps-run: what they are told, started, and servers started again.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "obs/log.h"
#include "os/clock.h"
#include "os/posix_disk.h"
#include "rpc/rpc.h"
#include "run_cluster.h"
#include "train/loop.h"

#define START_MS     15000u  /* A server that says nothing for so long will not start. */
#define RECOVER_MS   600000u /* A long log is read before anything is said. */
#define RESTARTS_MAX 5u      /* Of one server: what ends again and again has a reason. */

/* ---- What they are told -------------------------------------------------------------------- */

/* Each as long as settings may be. */
#define ARGS_TEXT_BYTES \
    ((size_t)RUN_CHILD_ARGS_MAX * (PS_CONF_TEXT_BYTES_MAX + PS_CONF_NAME_BYTES_MAX + 8))

struct args {
    const char *at[RUN_CHILD_ARGS_MAX + 1];
    size_t n;
    char text[ARGS_TEXT_BYTES];
    size_t n_text;
};

static void PS_PRINTF(2, 3) add_arg(struct args *args, const char *fmt, ...)
{
    PS_ASSERT(args->n < RUN_CHILD_ARGS_MAX);
    char *text = args->text + args->n_text;
    size_t n_left = sizeof(args->text) - args->n_text;
    va_list list;
    va_start(list, fmt);
    int n = vsnprintf(text, n_left, fmt, list);
    va_end(list);
    PS_ASSERT(n >= 0 && (size_t)n < n_left); /* No setting is longer. */
    args->at[args->n++] = text;
    args->n_text += (size_t)n + 1;
}

bool run_start_lasts(const struct run *run)
{
    const struct ps_server_settings *settings = &run->options.server;
    return settings->data_dir != NULL || settings->snapshot_dir != NULL;
}

/* Settings that only the coordinator takes. */
static bool coordinators(const char *name)
{
    static const char *const names[] = {"wait-for-server", "snapshot-every", "snapshot-keep"};
    for (size_t i = 0; i < PS_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What lasts, as it was given; each server has a folder of its own in ours. */
static void add_lasting(struct args *args, const struct run *run, uint32_t index)
{
    size_t at = 0;
    const char *name = NULL;
    const char *text = NULL;
    while (ps_conf_next_given(&run->conf, &ps_server_lasting_table, &at, &name, &text)) {
        if (strcmp(name, "data-dir") == 0) {
            add_arg(args, "--data-dir=%s/server-%" PRIu32, text, index);
        } else if (index == 0 || !coordinators(name)) {
            add_arg(args, "--%s=%s", name, text);
        }
    }
}

/* `listen`: where it was before; NULL: as the flags say. */
static enum ps_status start_server(struct cluster *c, uint32_t index, const char *listen,
                                   struct ps_error *err)
{
    const struct ps_run_options *options = &c->run->options;
    static struct args args;
    args = (struct args){0};
    char first[PS_ADDRESS_BYTES_MAX + 16];
    if (listen == NULL) {
        ps_run_listen(options, index, first, sizeof(first));
        listen = first;
    }
    add_arg(&args, "--listen=%s", listen);
    if (ps_rpc_address_is_any(listen)) { /* All who dial are on this machine. */
        add_arg(&args, "--advertise=127.0.0.1:0");
    }
    add_arg(&args, "--name=server-%" PRIu32, index);
    add_arg(&args, "--log-level=%s", ps_log_level_words[options->log_level]);
    add_arg(&args, "--die-with-parent");
    add_lasting(&args, c->run, index);
    if (index == 0) {
        add_arg(&args, "--servers=%" PRIu32, options->servers);
    } else {
        add_arg(&args, "--coordinator=%s", c->servers[0]->address);
    }
    return run_children_start(&c->children, true, index, args.at, &c->servers[index], err);
}

static enum ps_status start_worker(struct cluster *c, uint32_t index, struct ps_error *err)
{
    struct run *run = c->run;
    static struct args args;
    args = (struct args){0};
    add_arg(&args, "--coordinator=%s", c->servers[0]->address);
    add_arg(&args, "--name=worker-%" PRIu32, index);
    add_arg(&args, "--log-level=%s", ps_log_level_words[run->options.log_level]);
    add_arg(&args, "--die-with-parent");
    add_arg(&args, "--workers=%" PRIu32, run->options.train.workers);
    add_arg(&args, "--seed=%" PRIu64, run->options.train.seed);
    size_t at = 0;
    const char *name = NULL;
    const char *text = NULL;
    while (ps_conf_next_given(&run->conf, &ps_train_option_table, &at, &name, &text)) {
        if (strcmp(name, "workers") != 0 && strcmp(name, "seed") != 0) {
            add_arg(&args, "--%s=%s", name, text);
        }
    }
    return run_children_start(&c->children, false, index, args.at, &c->workers[index], err);
}

/* ---- Starting ------------------------------------------------------------------------------ */

/* A child that could not start says why in its last line. */
static void say_not_started(struct cluster *c, const struct run_child *child)
{
    char end[RUN_LINE_BYTES + 64];
    run_child_describe_end(child, end, sizeof(end));
    run_screen_say(&c->screen, "%s could not start: it %s", child->name, end);
    run_cluster_fail(c, child->signal == 0 && child->exit_status != 0 ? child->exit_status : 4);
}

/* Wait until servers [first, n) serve. */
static void await_servers(struct cluster *c, uint32_t first, uint32_t n)
{
    uint32_t start_ms = run_start_lasts(c->run) ? RECOVER_MS : START_MS;
    uint64_t until_ms = ps_clock_ms() + start_ms;
    for (uint32_t i = first; i < n;) {
        const struct run_child *server = c->servers[i];
        if (c->signal != 0) {
            return;
        }
        if (server->ended) {
            say_not_started(c, server);
            return;
        }
        if (server->ready) {
            i++;
            continue;
        }
        if (ps_clock_ms() > until_ms) {
            run_screen_say(&c->screen, "%s did not start within %u s", server->name,
                           start_ms / 1000);
            run_cluster_fail(c, 4);
            return;
        }
        run_cluster_turn(c);
    }
}

static void say_started(struct cluster *c, const struct run_child *child)
{
    if (child->server) {
        run_screen_say(&c->screen, "%s is process %" PRIu64 " at %s", child->name, child->pid,
                       child->address);
    } else {
        run_screen_say(&c->screen, "%s is process %" PRIu64, child->name, child->pid);
    }
}

static void not_started(struct cluster *c, enum ps_status status, const struct ps_error *err)
{
    if (status != PS_OK) {
        run_screen_say(&c->screen, "%s", err->text);
        run_cluster_fail(c, ps_train_exit_status(status));
    }
}

/* The folder of the servers' folders. */
static enum ps_status make_folder(const struct run *run, struct ps_error *err)
{
    const char *folder = run->options.server.data_dir;
    struct ps_conf_words words;
    enum ps_status status = folder != NULL ? ps_disk_make_dir(ps_posix_disk(), folder, err) : PS_OK;
    return status == PS_OK
               ? PS_OK
               : ps_wrap(err, status, "%s", ps_conf_say(&run->conf, "data-dir", &words));
}

void run_start_servers(struct cluster *c)
{
    uint32_t n_servers = c->run->options.servers;
    struct ps_error err = {0};
    enum ps_status status = make_folder(c->run, &err);
    if (status == PS_OK) {
        status = start_server(c, 0, NULL, &err);
    }
    if (status == PS_OK) {
        await_servers(c, 0, 1);
    }
    for (uint32_t i = 1; i < n_servers && status == PS_OK && run_cluster_going(c); i++) {
        status = start_server(c, i, NULL, &err);
    }
    if (status == PS_OK && run_cluster_going(c)) {
        await_servers(c, 1, n_servers);
    }
    not_started(c, status, &err);
    for (uint32_t i = 0; i < n_servers && run_cluster_going(c); i++) {
        say_started(c, c->servers[i]);
    }
}

void run_start_workers(struct cluster *c)
{
    /* Of a job that is done one is enough to tell whether it is the one that is asked for. */
    uint32_t n_workers = c->done ? 1 : c->run->options.train.workers;
    struct ps_error err = {0};
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < n_workers && status == PS_OK && run_cluster_going(c); i++) {
        status = start_worker(c, i, &err);
    }
    not_started(c, status, &err);
    for (uint32_t i = 0; i < n_workers && run_cluster_going(c); i++) {
        say_started(c, c->workers[i]);
    }
}

/* ---- Starting again ------------------------------------------------------------------------ */

/* What will be no better the next time: bad settings, damaged files, a broken disk. */
static bool hopeless(const struct run_child *child)
{
    return child->signal == 0 &&
           (child->exit_status == 2 || child->exit_status == 65 || child->exit_status == 74);
}

bool run_start_again(struct cluster *c, uint32_t index)
{
    struct run_child *server = c->servers[index];
    if (!run_start_lasts(c->run) || hopeless(server) || server->n_restarts == RESTARTS_MAX) {
        return false;
    }
    char address[PS_ADDRESS_BYTES_MAX + 1];
    (void)snprintf(address, sizeof(address), "%s", server->address);
    struct ps_error err = {0};
    enum ps_status status = start_server(c, index, address, &err);
    if (status != PS_OK) {
        run_screen_say(&c->screen, "%s", err.text);
        return false;
    }
    run_screen_say(&c->screen, "%s is started again: process %" PRIu64 " at %s", server->name,
                   server->pid, address);
    return true;
}
