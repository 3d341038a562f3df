/*
 * main.c — the ps-worker daemon: settings, threads and transport around ps_train_run.
 *
 * Main thread: the loop, for signals. The training thread computes; a third one is the client's.
 * SIGTERM and SIGINT: the step at hand is finished, the lease goes back, exit 0. A second one, or
 * a step that does not end, ends the process at once.
 */
#include <stdatomic.h>
#include <stdio.h>

#include <unistd.h>

#include "ask.h"
#include "attached.h"
#include "num/blas.h"
#include "obs/log.h"
#include "os/alloc.h"
#include "os/loop.h"
#include "os/posix_disk.h"
#include "os/process.h"
#include "os/thread_exec.h"
#include "outcome.h"
#include "rpc/rpc.h"
#include "train/finish.h"
#include "train/loop.h"
#include "worker_options.h"

#define REJOINS_MAX    3u    /* A process that is stopped again and again should say so and end. */
#define HURRY_MS       3000u /* A step may wait for others; the asker does not wait for ever. */
#define ASK_TIMEOUT_MS 5000u

struct worker {
    struct ps_worker_options options;
    struct ps_mem mem;
    struct ps_metrics metrics;
    struct ps_train_plan plan;
    struct ps_loop *loop;
    struct ps_rpc *rpc;
    struct ps_thread_exec *trainer;
    struct ps_mail train_mail;
    struct ps_mail trained_mail;
    struct ps_timer hurry;
    _Atomic bool stop;
    bool trained; /* The training thread is through; `err` and `result` count. */
    bool hurried; /* We do not wait for it any more. */
    struct ps_error err;
    struct ps_train_result result;
    struct ps_report report;
    struct ps_outcome_lists lists; /* Of the report. */
    char model_path[PS_FINISH_PATH_BYTES];
};

/* ---- On the training thread ---------------------------------------------------------------- */

static struct ps_attached_options session_options(struct worker *worker, enum ps_client_kind kind)
{
    return (struct ps_attached_options){
        .transport = ps_rpc_transport(worker->rpc),
        .mem = &worker->mem,
        .metrics = &worker->metrics,
        .coordinator = worker->options.coordinator,
        .kind = kind,
        .name = worker->options.name,
        .give_up_ms = worker->options.give_up_ms,
    };
}

static enum ps_status train_once(struct worker *worker)
{
    struct ps_attached_options options = session_options(worker, PS_CLIENT_WORKER);
    struct ps_attached session;
    enum ps_status status = ps_attached_open(&session, &options, &worker->err);
    if (status == PS_OK) {
        status = ps_train_run(&worker->plan, ps_attached_blocking(&session), &worker->stop,
                              &worker->result, &worker->err);
        ps_attached_close(&session);
    }
    return status;
}

static enum ps_status finish(struct worker *worker)
{
    struct ps_attached_options options = session_options(worker, PS_CLIENT_READER);
    struct ps_attached session;
    enum ps_status status = ps_attached_open(&session, &options, &worker->err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_weights weights;
    status = ps_finish_pull(&worker->plan, ps_attached_blocking(&session), &weights, &worker->err);
    ps_attached_close(&session);
    if (status != PS_OK) {
        return status;
    }
    status = ps_finish_judge(&worker->plan, &weights, &worker->report, &worker->err);
    if (status == PS_OK && worker->options.out != NULL) {
        status = ps_finish_write(&worker->plan, &weights, worker->options.out, worker->model_path,
                                 &worker->err);
        worker->report.model_path = worker->model_path;
    }
    ps_weights_deinit(&weights);
    return status;
}

static void trained(struct ps_mail *mail)
{
    struct worker *worker = PS_CONTAINER_OF(mail, struct worker, trained_mail);
    worker->trained = true;
    ps_loop_stop(worker->loop);
}

/* A session that was closed because this process was silent is replaced by a new one. */
static void train(struct ps_mail *mail)
{
    struct worker *worker = PS_CONTAINER_OF(mail, struct worker, train_mail);
    enum ps_status status = train_once(worker);
    for (uint32_t i = 0; i < REJOINS_MAX && status == PS_ERR_FENCED; i++) {
        ps_log(PS_LOG_WARN, "worker.rejoins", "why=\"%s\"", worker->err.text);
        status = train_once(worker);
    }
    bool wanted = worker->options.out != NULL || worker->options.report != NULL;
    if (status == PS_OK && worker->result.done && wanted) {
        status = finish(worker);
    }
    worker->err.status = status;
    worker->trained_mail.run = trained;
    ps_exec_post(ps_loop_port(worker->loop), &worker->trained_mail);
}

/* ---- On the main thread -------------------------------------------------------------------- */

static void give_up_waiting(struct ps_timer *timer)
{
    struct worker *worker = PS_CONTAINER_OF(timer, struct worker, hurry);
    worker->hurried = true;
    ps_loop_stop(worker->loop);
}

static void on_signal(void *arg, int signal)
{
    struct worker *worker = arg;
    if (atomic_exchange(&worker->stop, true)) {
        give_up_waiting(&worker->hurry);
        return;
    }
    ps_log(PS_LOG_INFO, "worker.stopping", "signal=%d", signal);
    ps_timer_start(ps_loop_port(worker->loop), &worker->hurry, HURRY_MS);
}

static enum ps_status start(struct worker *worker)
{
    struct ps_error *err = &worker->err;
    enum ps_status status = ps_loop_create(&worker->loop, err);
    if (status == PS_OK) {
        status = ps_loop_on_signal(worker->loop, on_signal, worker, err);
    }
    if (status == PS_OK) {
        status = ps_rpc_create(&(struct ps_rpc_options){.mem = &worker->mem}, &worker->rpc, err);
    }
    if (status == PS_OK) {
        status = ps_thread_exec_create("train", &worker->trainer, err);
    }
    ps_timer_init(&worker->hurry, give_up_waiting);
    return status;
}

static enum ps_status write_report(struct worker *worker)
{
    struct ps_ask ask;
    ps_ask_describe_once(&ask, ps_rpc_transport(worker->rpc), worker->loop,
                         worker->options.coordinator, ASK_TIMEOUT_MS);
    if (ask.err.status != PS_OK) {
        worker->err = ask.err;
        return ps_wrap(&worker->err, ask.err.status, "asking the coordinator for the report");
    }
    ps_outcome_report(ask.describe, &worker->lists, &worker->report);
    ps_ask_forget(&ask);
    return ps_report_write(ps_posix_disk(), worker->options.report, &worker->report, &worker->err);
}

static void clean_up(struct worker *worker)
{
    ps_thread_exec_destroy(worker->trainer);
    ps_rpc_destroy(worker->rpc);
    if (worker->loop != NULL) {
        ps_timer_stop(ps_loop_port(worker->loop), &worker->hurry);
        ps_loop_destroy(worker->loop);
    }
    ps_train_plan_close(&worker->plan);
}

static int run(struct worker *worker)
{
    ps_report_init(&worker->report);
    enum ps_status status =
        ps_train_plan_open(&worker->options.train, &worker->mem, &worker->plan, &worker->err);
    if (status == PS_OK) {
        status = start(worker);
    }
    if (status == PS_OK) {
        worker->train_mail.run = train;
        ps_exec_post(ps_thread_exec_port(worker->trainer), &worker->train_mail);
        while (!worker->trained && !worker->hurried) {
            ps_loop_run(worker->loop);
        }
        if (!worker->trained) { /* Threads still run: the process ends around them. */
            (void)fflush(NULL);
            _exit(0); /* Not exit: it would pull libraries from under them. */
        }
        status = worker->err.status;
    }
    if (status == PS_OK && worker->result.done && worker->options.report != NULL) {
        status = write_report(worker);
    }
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-worker: %s: %s\n", worker->options.name, worker->err.text);
    }
    clean_up(worker);
    return ps_train_exit_status(status);
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    static struct worker worker;
    struct ps_conf conf;
    struct ps_error err;
    switch (ps_conf_parse(&conf, &ps_worker_program, argc, argv, &worker.options, &err)) {
    case PS_CONF_DONE: return 0;
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-worker: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    if (worker.options.die_with_parent) {
        ps_os_die_with_parent();
    }
    ps_alloc_tune();
    ps_blas_threads(1);
    ps_log_name_set(worker.options.name);
    ps_log_level_set((enum ps_log_level)worker.options.log_level);
    ps_mem_init(&worker.mem);
    ps_train_options_given(&conf, &worker.options.train);
    if (worker.options.train.workers == 0) {
        worker.options.train.workers = 1;
    }
    return run(&worker);
}
