/*
 * run_cluster.c — a cluster of processes, from the first server to the last.
 *
 *   server 0 -> other servers -> workers -> watch -> workers end -> finish -> servers end
 *
 * One thread and one loop. Every callback only notes what happened and wakes the loop's owner,
 * which looks at everything again: the phases below read from top to bottom.
 */
#include "run_cluster.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/client_over.h"
#include "os/clock.h"
#include "outcome.h"
#include "rpc/rpc.h"
#include "run_finish.h"
#include "train/loop.h"

#define BEAT_MS        100u /* How often time alone is looked at. */
#define ASK_MS         500u /* How often the coordinator is asked how it goes. */
#define ASK_TIMEOUT_MS 2000u
#define LOST_MS        12000u /* For every worker to notice a lost server and say so. */
#define WORKERS_END_MS 15000u /* For workers to leave a finished job. */
#define SERVERS_END_MS 6000u  /* For servers to stop after they were asked to. */
#define TERMINATE_MS   4000u  /* Between SIGTERM and SIGKILL: more than the grace of workers. */
#define FLUSH_MS       30000u /* The same for servers that have something to write. */

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

void run_cluster_turn(struct cluster *c)
{
    ps_loop_run(c->loop);
}

void run_cluster_fail(struct cluster *c, int exit_status)
{
    if (c->exit_status == 0) {
        c->exit_status = exit_status;
    }
}

bool run_cluster_going(const struct cluster *c)
{
    return c->signal == 0 && c->exit_status == 0;
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
        if (run_children_running(&c->children, false) > 0) {
            show_progress(c, seen);
        }
    } else if (seen->job == PS_JOB_CLUSTER_LOST && c->lost_ms == 0) {
        run_screen_say(&c->screen, "the cluster is lost: %s", seen->reason);
        c->lost_ms = now_ms();
    }
}

static const struct ps_question describe = {.what = PS_ASK_DESCRIBE, .timeout_ms = ASK_TIMEOUT_MS};

static void ask_now_and_then(struct cluster *c)
{
    if (!c->ask.under_way && now_ms() - c->asked_ms >= ASK_MS) {
        c->asked_ms = now_ms();
        ps_ask(&c->ask, &describe);
    }
}

bool run_cluster_ask(struct cluster *c)
{
    while (c->ask.under_way) {
        run_cluster_turn(c);
    }
    ps_ask(&c->ask, &describe);
    while (c->ask.under_way) {
        run_cluster_turn(c);
    }
    return c->ask.err.status == PS_OK;
}

/* ---- Watching ------------------------------------------------------------------------------ */

/* One that has something to come back with comes back; workers and the others wait for it. */
static void server_ended(struct cluster *c, uint32_t index)
{
    const struct run_child *server = c->servers[index];
    char end[RUN_LINE_BYTES + 64];
    run_child_describe_end(server, end, sizeof(end));
    bool lasts = run_start_lasts(c->run);
    run_screen_say(&c->screen, "%s at %s %s%s", server->name, server->address, end,
                   lasts ? "" : "; its weights are lost");
    if (run_start_again(c, index)) {
        return;
    }
    if (lasts) { /* Others would wait for it, for long and in vain. */
        bool damaged = server->signal == 0 && server->exit_status != 0;
        run_cluster_fail(c, damaged ? server->exit_status : 4);
    } else if (c->lost_ms == 0) {
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
        run_cluster_fail(c, worker->exit_status);
        return;
    }
    uint64_t wait_ms = c->run->options.train.start_timeout_ms;
    if (!c->running && c->lost_ms == 0 && wait_ms == 0) {
        run_screen_say(&c->screen, "training cannot begin without it: --start-timeout is 0");
        run_cluster_fail(c, 4);
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
        if (!child->server) {
            worker_ended(c, child);
        }
        for (uint32_t k = 0; child->server && k < c->run->options.servers; k++) {
            if (c->servers[k] == child) {
                server_ended(c, k);
                break;
            }
        }
    }
}

/* Until the job is done, or can't be any more. */
static void watch(struct cluster *c)
{
    while (run_cluster_going(c) && !c->done) {
        ask_now_and_then(c);
        run_cluster_turn(c);
        notice_ends(c);
        uint32_t n_workers = run_children_running(&c->children, false);
        bool waited = c->lost_ms != 0 && now_ms() - c->lost_ms >= LOST_MS;
        if (c->lost_ms != 0 && (n_workers == 0 || waited)) {
            run_cluster_fail(c, 4);
        } else if (c->stopped) {
            run_screen_say(&c->screen, "the job was stopped from outside");
            run_cluster_fail(c, 4);
        } else if (n_workers == 0 && run_cluster_going(c) && (!run_cluster_ask(c) || !c->done)) {
            run_screen_say(&c->screen, "no worker is left and the job is not done");
            run_cluster_fail(c, 4);
        }
    }
}

/* Workers leave a finished job by themselves; their last reports are then in. */
static void await_workers(struct cluster *c)
{
    uint64_t until_ms = now_ms() + WORKERS_END_MS;
    while (run_cluster_going(c) && c->lost_ms == 0 &&
           run_children_running(&c->children, false) > 0) {
        run_cluster_turn(c);
        notice_ends(c);
        if (now_ms() > until_ms) {
            run_screen_say(&c->screen, "not every worker left the finished job within %u s",
                           WORKERS_END_MS / 1000);
            return;
        }
    }
    if (c->lost_ms != 0) {
        run_cluster_fail(c, 4);
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
        run_cluster_fail(c, ps_train_exit_status(status));
        return;
    }
    c->finish_mail.run = finish_there;
    ps_exec_post(ps_thread_exec_port(c->finisher), &c->finish_mail);
    while (!c->finished && c->signal == 0) {
        run_cluster_turn(c);
        notice_ends(c);
    }
    if (c->finished && c->finish_err.status != PS_OK) {
        run_screen_say(&c->screen, "%s", c->finish_err.text);
        run_cluster_fail(c, ps_train_exit_status(c->finish_err.status));
    }
    if (run_cluster_going(c)) {
        if (run_cluster_ask(c)) {
            ps_outcome_report(c->ask.cluster, &c->run->lists, &c->run->report);
        } else {
            run_screen_say(&c->screen, "asking the coordinator: %s", c->ask.err.text);
            run_cluster_fail(c, 4);
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
        run_cluster_turn(c);
    }
}

/* Servers stop by themselves when the coordinator says so. */
static void stop_servers(struct cluster *c)
{
    while (c->ask.under_way) {
        run_cluster_turn(c);
    }
    expect_ends(c);
    ps_ask(&c->ask, &(struct ps_question){.what = PS_ASK_SHUTDOWN,
                                          .text = "the job is done",
                                          .timeout_ms = ASK_TIMEOUT_MS});
    uint64_t until_ms = now_ms() + SERVERS_END_MS;
    while (run_cluster_going(c) && now_ms() < until_ms &&
           (c->ask.under_way || run_children_running(&c->children, true) > 0)) {
        run_cluster_turn(c);
    }
}

/* Ask all that are left (servers only: once the workers have gone) to end, and wait for it. */
static void terminate(struct cluster *c, bool servers, uint64_t within_ms)
{
    int signal = c->signal;
    uint64_t until_ms = now_ms() + within_ms;
    run_children_signal(&c->children, servers, SIGTERM);
    run_children_signal(&c->children, servers, SIGCONT); /* A stopped one hears it only then. */
    c->signal = 0;
    while (run_children_running(&c->children, servers) > 0 && now_ms() < until_ms &&
           c->signal == 0) { /* Somebody who asks again does not want to wait. */
        run_cluster_turn(c);
    }
    c->hurried = c->hurried || c->signal != 0;
    c->signal = signal != 0 ? signal : c->signal;
}

/*
 * Whoever is left, for whatever reason, ends now: workers, which leave after their step, then
 * servers, which see to it that what lasts is on the disk.
 */
static void end_all(struct cluster *c)
{
    expect_ends(c);
    if (run_children_running(&c->children, false) > 0) {
        terminate(c, false, TERMINATE_MS);
    }
    if (run_children_running(&c->children, true) > 0 && !c->hurried) {
        terminate(c, true, run_start_lasts(c->run) ? FLUSH_MS : TERMINATE_MS);
    }
    if (any_running(c)) {
        run_children_signal(&c->children, false, SIGKILL);
        run_children_signal(&c->children, true, SIGKILL);
        await_end(c, TERMINATE_MS);
    }
    if (c->signal != 0 && c->run->options.server.data_dir != NULL) {
        run_screen_say(&c->screen, "stopped: the same command goes on from here");
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
        run_cluster_fail(c, ps_train_exit_status(status));
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
        run_cluster_turn(c);
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
    run_start_servers(c);
    if (run_cluster_going(c)) {
        open_channel(c);
    }
    if (run_cluster_going(c)) {
        run_resume(c);
    }
    if (run_cluster_going(c)) {
        run_start_workers(c);
        watch(c);
    }
    if (run_cluster_going(c)) {
        await_workers(c);
    }
    run_screen_end(&c->screen);
    if (run_cluster_going(c)) {
        finish(c);
    }
    if (run_cluster_going(c)) {
        stop_servers(c);
    }
    end_all(c);
    close_cluster(c);
    return c->signal != 0 ? 128 + c->signal : c->exit_status;
}
