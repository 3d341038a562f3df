/*
 * run_cluster.c — a cluster of processes, from the first server to the last.
 *
 *   server 0 -> other servers -> workers -> watch -> workers end -> finish -> servers end
 *
 * One thread and one loop. Every callback only notes what happened and wakes the loop's owner,
 * which looks at everything again: the phases below read from top to bottom.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "base/assert.h"
#include "client/lib/client_over.h"
#include "obs/log.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/thread_exec.h"
#include "outcome.h"
#include "rpc/rpc.h"
#include "run.h"
#include "run_children.h"
#include "run_finish.h"
#include "run_screen.h"
#include "train/loop.h"

#define BEAT_MS        100u /* How often time alone is looked at. */
#define ASK_MS         500u /* How often the coordinator is asked how it goes. */
#define ASK_TIMEOUT_MS 2000u
#define START_MS       15000u /* A server that says nothing for so long will not start. */
#define LOST_MS        12000u /* For every worker to notice a lost server and say so. */
#define WORKERS_END_MS 15000u /* For workers to leave a finished job. */
#define SERVERS_END_MS 6000u  /* For servers to stop after they were asked to. */
#define TERMINATE_MS   3000u  /* Between SIGTERM and SIGKILL. */

struct cluster {
    struct run *run;
    struct ps_loop *loop;
    struct ps_rpc *rpc;
    struct run_screen screen;
    struct run_children children;
    struct run_child *servers[PS_SERVERS_MAX];
    struct run_child *workers[PS_SESSIONS_MAX];
    struct ps_timer beat;
    int signal;       /* That we were asked to stop by; 0: none. */
    int exit_status;  /* Of what went wrong first; 0: nothing did. */
    uint64_t lost_ms; /* When a server was lost; 0: none was. */
    /* Asking the coordinator. */
    struct ps_channel *channel;
    struct ps_ask ask;
    uint64_t asked_ms;
    bool running;     /* Training has begun. */
    bool done;        /* The job is. */
    bool stopped;     /* Somebody else stopped the job. */
    uint64_t rate_ms; /* When the rate below was measured. */
    uint64_t rate_rows;
    double rate; /* Examples per second, lately. */
    /* The finish, on a thread of its own: signals are still heard. */
    struct ps_thread_exec *finisher;
    struct ps_mail finish_mail;
    struct ps_mail finished_mail;
    struct ps_error finish_err;
    bool finished;
};

static uint64_t now_ms(void)
{
    return ps_clock_ms();
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static void wake(void *arg)
{
    struct cluster *c = arg;
    ps_loop_stop(c->loop);
}

static void on_beat(struct ps_timer *timer)
{
    struct cluster *c = PS_CONTAINER_OF(timer, struct cluster, beat);
    ps_timer_start(ps_loop_port(c->loop), &c->beat, BEAT_MS);
    wake(c);
}

static void on_signal(void *arg, int signal)
{
    struct cluster *c = arg;
    c->signal = signal;
    wake(c);
}

/* Let things happen until something may have changed. */
static void turn(struct cluster *c)
{
    ps_loop_run(c->loop);
}

/* Note the first failure; the rest follows from it. */
static void fail(struct cluster *c, int exit_status)
{
    if (c->exit_status == 0) {
        c->exit_status = exit_status;
    }
}

/* ---- Starting ------------------------------------------------------------------------------ */

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

static enum ps_status start_server(struct cluster *c, uint32_t index, struct ps_error *err)
{
    const struct ps_run_options *options = &c->run->options;
    static struct args args;
    args = (struct args){0};
    char listen[PS_ADDRESS_BYTES_MAX + 16];
    ps_run_listen(options, index, listen, sizeof(listen));
    add_arg(&args, "--listen=%s", listen);
    if (ps_rpc_address_is_any(listen)) { /* All who dial are on this machine. */
        add_arg(&args, "--advertise=127.0.0.1:0");
    }
    add_arg(&args, "--name=server-%" PRIu32, index);
    add_arg(&args, "--log-level=%s", ps_log_level_words[options->log_level]);
    add_arg(&args, "--die-with-parent");
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

/* A child that could not start says why in its last line. */
static void say_not_started(struct cluster *c, const struct run_child *child)
{
    char end[RUN_LINE_BYTES + 64];
    run_child_describe_end(child, end, sizeof(end));
    run_screen_say(&c->screen, "%s could not start: it %s", child->name, end);
    fail(c, child->signal == 0 && child->exit_status != 0 ? child->exit_status : 4);
}

/* Wait until servers [first, n) serve. */
static void await_servers(struct cluster *c, uint32_t first, uint32_t n)
{
    uint64_t until_ms = now_ms() + START_MS;
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
        if (now_ms() > until_ms) {
            run_screen_say(&c->screen, "%s did not start within %u s", server->name,
                           START_MS / 1000);
            fail(c, 4);
            return;
        }
        turn(c);
    }
}

static bool going(const struct cluster *c)
{
    return c->signal == 0 && c->exit_status == 0;
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

static void start_all(struct cluster *c)
{
    const struct ps_run_options *options = &c->run->options;
    struct ps_error err = {0};
    enum ps_status status = start_server(c, 0, &err);
    if (status == PS_OK) {
        await_servers(c, 0, 1);
    }
    for (uint32_t i = 1; i < options->servers && status == PS_OK && going(c); i++) {
        status = start_server(c, i, &err);
    }
    if (status == PS_OK && going(c)) {
        await_servers(c, 1, options->servers);
    }
    for (uint32_t i = 0; i < options->train.workers && status == PS_OK && going(c); i++) {
        status = start_worker(c, i, &err);
    }
    if (status != PS_OK) {
        run_screen_say(&c->screen, "%s", err.text);
        fail(c, ps_train_exit_status(status));
    }
    for (uint32_t i = 0; i < c->children.n && going(c); i++) {
        say_started(c, &c->children.at[i]);
    }
}

/* ---- Progress ------------------------------------------------------------------------------ */

/* A rate over at least a second, so that it does not flicker. */
static void measure_rate(struct cluster *c, uint64_t rows)
{
    uint64_t now = now_ms();
    if (c->rate_ms == 0 || rows < c->rate_rows) {
        c->rate_ms = now;
        c->rate_rows = rows;
    } else if (now - c->rate_ms >= 1000) {
        c->rate = (double)(rows - c->rate_rows) * 1000.0 / (double)(now - c->rate_ms);
        c->rate_ms = now;
        c->rate_rows = rows;
    }
}

static void show_progress(struct cluster *c, const struct ps_cluster *seen)
{
    struct ps_progress progress;
    ps_outcome_progress(seen, &progress);
    measure_rate(c, progress.rows_done);
    progress.examples_per_s = c->rate;
    char line[PS_PROGRESS_LINE_BYTES];
    (void)ps_progress_line(&progress, line);
    run_screen_progress(&c->screen, line, now_ms());
}

static void on_described(struct ps_ask *ask)
{
    struct cluster *c = ask->arg;
    wake(c);
    if (ask->cluster == NULL) {
        return; /* No answer: whether the coordinator lives is seen from its process. */
    }
    const struct ps_cluster *seen = ask->cluster;
    c->done = seen->job == PS_JOB_DONE;
    c->stopped = seen->job == PS_JOB_STOPPED;
    if (seen->job == PS_JOB_RUNNING) {
        c->running = true;
        show_progress(c, seen);
    } else if (seen->job == PS_JOB_CLUSTER_LOST && c->lost_ms == 0) {
        run_screen_say(&c->screen, "the cluster is lost: %s", seen->reason);
        c->lost_ms = now_ms();
    }
}

static void ask_now_and_then(struct cluster *c)
{
    if (!c->ask.under_way && now_ms() - c->asked_ms >= ASK_MS) {
        c->asked_ms = now_ms();
        ps_ask_describe(&c->ask, ASK_TIMEOUT_MS);
    }
}

/* Ask once more and wait for the answer. False: there was none. */
static bool ask_and_wait(struct cluster *c)
{
    while (c->ask.under_way) {
        turn(c);
    }
    ps_ask_describe(&c->ask, ASK_TIMEOUT_MS);
    while (c->ask.under_way) {
        turn(c);
    }
    return c->ask.err.status == PS_OK;
}

/* ---- Watching ------------------------------------------------------------------------------ */

static void server_ended(struct cluster *c, const struct run_child *server)
{
    char end[RUN_LINE_BYTES + 64];
    run_child_describe_end(server, end, sizeof(end));
    run_screen_say(&c->screen, "%s at %s %s; its weights are lost", server->name, server->address,
                   end);
    if (c->lost_ms == 0) {
        c->lost_ms = now_ms();
    }
}

/* Bad input and divergence concern all workers; a death is survived while others are left. */
static void worker_ended(struct cluster *c, const struct run_child *worker)
{
    if (worker->signal == 0 && worker->exit_status == 0) {
        return;
    }
    char end[RUN_LINE_BYTES + 64];
    run_child_describe_end(worker, end, sizeof(end));
    if (c->lost_ms == 0 || worker->signal != 0) {
        run_screen_say(&c->screen, "%s (process %" PRIu64 ") %s", worker->name, worker->pid, end);
    }
    bool concerns_all = worker->signal == 0 && worker->exit_status != 4;
    if (concerns_all && c->lost_ms == 0) {
        fail(c, worker->exit_status);
        return;
    }
    uint64_t wait_ms = c->run->options.train.start_timeout_ms;
    if (!c->running && c->lost_ms == 0 && wait_ms == 0) {
        run_screen_say(&c->screen, "training cannot begin without it: --start-timeout is 0");
        fail(c, 4);
    } else if (!c->running && c->lost_ms == 0) {
        run_screen_say(&c->screen,
                       "training begins without it when --start-timeout, %" PRIu64 " s, is over",
                       wait_ms / 1000);
    }
}

/* Look at every end once. */
static void notice_ends(struct cluster *c)
{
    for (uint32_t i = 0; i < c->children.n; i++) {
        struct run_child *child = &c->children.at[i];
        if (!child->ended || child->told) {
            continue;
        }
        child->told = true;
        if (child->server) {
            server_ended(c, child);
        } else {
            worker_ended(c, child);
        }
    }
}

/* Until the job is done, or can't be any more. */
static void watch(struct cluster *c)
{
    while (going(c) && !c->done) {
        ask_now_and_then(c);
        turn(c);
        notice_ends(c);
        uint32_t n_workers = run_children_running(&c->children, false);
        bool waited = c->lost_ms != 0 && now_ms() - c->lost_ms >= LOST_MS;
        if (c->lost_ms != 0 && (n_workers == 0 || waited)) {
            fail(c, 4);
        } else if (c->stopped) {
            run_screen_say(&c->screen, "the job was stopped from outside");
            fail(c, 4);
        } else if (n_workers == 0 && going(c) && (!ask_and_wait(c) || !c->done)) {
            run_screen_say(&c->screen, "no worker is left and the job is not done");
            fail(c, 4);
        }
    }
}

/* Workers leave a finished job by themselves; their last reports are then in. */
static void await_workers(struct cluster *c)
{
    uint64_t until_ms = now_ms() + WORKERS_END_MS;
    while (going(c) && c->lost_ms == 0 && run_children_running(&c->children, false) > 0) {
        turn(c);
        notice_ends(c);
        if (now_ms() > until_ms) {
            run_screen_say(&c->screen, "not every worker left the finished job within %u s",
                           WORKERS_END_MS / 1000);
            return;
        }
    }
    if (c->lost_ms != 0) {
        fail(c, 4);
    }
}

/* ---- Finishing ----------------------------------------------------------------------------- */

static void finished(struct ps_mail *mail)
{
    struct cluster *c = PS_CONTAINER_OF(mail, struct cluster, finished_mail);
    c->finished = true;
    wake(c);
}

/* On the finisher's thread. */
static void finish_there(struct ps_mail *mail)
{
    struct cluster *c = PS_CONTAINER_OF(mail, struct cluster, finish_mail);
    struct ps_client_ports ports = {.transport = ps_rpc_transport(c->rpc)};
    struct ps_client_options options = {
        .coordinator = c->servers[0]->address, .kind = PS_CLIENT_READER, .name = "ps-run"};
    struct ps_client *client = NULL;
    enum ps_status status = ps_client_open_over(&ports, &options, &client, &c->finish_err);
    if (status == PS_OK) {
        status = run_finish(c->run, client, &c->finish_err);
        ps_client_close(client);
    }
    c->finish_err.status = status;
    c->finished_mail.run = finished;
    ps_exec_post(ps_loop_port(c->loop), &c->finished_mail);
}

static void finish(struct cluster *c)
{
    struct ps_error err = {0};
    enum ps_status status = ps_thread_exec_create("finish", &c->finisher, &err);
    if (status != PS_OK) {
        run_screen_say(&c->screen, "%s", err.text);
        fail(c, ps_train_exit_status(status));
        return;
    }
    c->finish_mail.run = finish_there;
    ps_exec_post(ps_thread_exec_port(c->finisher), &c->finish_mail);
    while (!c->finished && c->signal == 0) {
        turn(c);
        notice_ends(c);
    }
    if (c->finished && c->finish_err.status != PS_OK) {
        run_screen_say(&c->screen, "%s", c->finish_err.text);
        fail(c, ps_train_exit_status(c->finish_err.status));
    }
    if (going(c)) {
        if (ask_and_wait(c)) {
            ps_outcome_report(c->ask.cluster, &c->run->lists, &c->run->report);
        } else {
            run_screen_say(&c->screen, "asking the coordinator: %s", c->ask.err.text);
            fail(c, 4);
        }
    }
}

/* ---- Ending -------------------------------------------------------------------------------- */

static void expect_ends(struct cluster *c)
{
    for (uint32_t i = 0; i < c->children.n; i++) {
        c->children.at[i].told = true;
    }
}

static bool any_running(const struct cluster *c)
{
    return run_children_running(&c->children, true) + run_children_running(&c->children, false) > 0;
}

static void await_end(struct cluster *c, uint64_t within_ms)
{
    uint64_t until_ms = now_ms() + within_ms;
    while (any_running(c) && now_ms() < until_ms) {
        turn(c);
    }
}

/* Servers stop by themselves when the coordinator says so. */
static void stop_servers(struct cluster *c)
{
    while (c->ask.under_way) {
        turn(c);
    }
    expect_ends(c);
    ps_ask_shutdown(&c->ask, "the job is done", ASK_TIMEOUT_MS);
    uint64_t until_ms = now_ms() + SERVERS_END_MS;
    while (going(c) && now_ms() < until_ms &&
           (c->ask.under_way || run_children_running(&c->children, true) > 0)) {
        turn(c);
    }
}

/* Whoever is left, for whatever reason, ends now. */
static void end_all(struct cluster *c)
{
    expect_ends(c);
    if (any_running(c)) {
        run_children_signal(&c->children, SIGTERM);
        run_children_signal(&c->children, SIGCONT); /* A stopped process hears it only then. */
        await_end(c, TERMINATE_MS);
    }
    if (any_running(c)) {
        run_children_signal(&c->children, SIGKILL);
        await_end(c, TERMINATE_MS);
    }
}

static enum ps_status open_cluster(struct cluster *c, struct ps_error *err)
{
    enum ps_status status = run_children_init(&c->children, c->run->argv0, err);
    if (status == PS_OK) {
        status = ps_loop_create(&c->loop, err);
    }
    if (status == PS_OK) {
        status = ps_loop_on_signal(c->loop, on_signal, c, err);
    }
    if (status == PS_OK) {
        status = ps_rpc_create(&(struct ps_rpc_options){.mem = &c->run->mem}, &c->rpc, err);
    }
    if (status != PS_OK) {
        return status;
    }
    c->children.loop = c->loop;
    c->children.screen = &c->screen;
    c->children.changed = wake;
    c->children.arg = c;
    ps_timer_init(&c->beat, on_beat);
    ps_timer_start(ps_loop_port(c->loop), &c->beat, BEAT_MS);
    return PS_OK;
}

static void open_channel(struct cluster *c)
{
    static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};
    struct ps_error err = {0};
    enum ps_status status = ps_channel_open(ps_rpc_transport(c->rpc), c->servers[0]->address,
                                            PS_TRAFFIC_CONTROL, &insecure, &c->channel, &err);
    if (status != PS_OK) {
        run_screen_say(&c->screen, "%s", err.text);
        fail(c, ps_train_exit_status(status));
        return;
    }
    c->ask = (struct ps_ask){
        .channel = c->channel,
        .exec = ps_loop_port(c->loop),
        .done = on_described,
        .arg = c,
    };
}

/* After a signal the finisher may hang on servers that are gone: the process ends around it. */
static void close_cluster(struct cluster *c)
{
    while (c->channel != NULL && c->ask.under_way) {
        ps_ask_cancel(&c->ask);
        turn(c);
    }
    ps_ask_forget(&c->ask);
    if (c->finisher != NULL && !c->finished) {
        c->run->abandoned = true;
        return;
    }
    ps_thread_exec_destroy(c->finisher);
    if (c->channel != NULL) {
        ps_channel_close(c->channel);
    }
    ps_rpc_destroy(c->rpc);
    if (c->loop != NULL) {
        ps_timer_stop(ps_loop_port(c->loop), &c->beat);
        ps_loop_destroy(c->loop);
    }
}

int run_cluster(struct run *run)
{
    static struct cluster cluster; /* Large; the process runs one. */
    struct cluster *c = &cluster;
    c->run = run;
    c->rate = (double)NAN;
    run_screen_init(&c->screen);
    struct ps_error err = {0};
    enum ps_status status = open_cluster(c, &err);
    if (status != PS_OK) {
        run_screen_say(&c->screen, "%s", err.text);
        close_cluster(c);
        return ps_train_exit_status(status);
    }
    start_all(c);
    if (going(c)) {
        open_channel(c);
        watch(c);
    }
    if (going(c)) {
        await_workers(c);
    }
    run_screen_end(&c->screen);
    if (going(c)) {
        finish(c);
    }
    if (going(c)) {
        stop_servers(c);
    }
    end_all(c);
    close_cluster(c);
    return c->signal != 0 ? 128 + c->signal : c->exit_status;
}
