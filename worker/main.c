/*
 * main.c — the ps-worker daemon: settings, threads and clients around ps_train_run.
 *
 * Main thread: the loop, for signals. The training thread computes. The cluster is reached through
 * <ps/client.h> alone, as any other program would.
 * SIGTERM and SIGINT: the step at hand is finished, the lease goes back, exit 0; a model that is
 * being written is finished. A second one, or a step that does not end, ends the process at once.
 */
#include <stdatomic.h>
#include <stdio.h>

#include <unistd.h>

#include <ps/client.h>

#include "base/mem.h"
#include "client/failpoint.h"
#include "num/blas.h"
#include "obs/log.h"
#include "os/alloc.h"
#include "os/loop.h"
#include "os/posix_disk.h"
#include "os/process.h"
#include "os/thread_exec.h"
#include "outcome.h"
#include "train/training.h"
#include "worker_options.h"

#define REJOINS_MAX 3u    /* A process that is stopped again and again should say so and end. */
#define HURRY_MS    3000u /* A step may wait for others; the asker does not wait for ever. */

struct worker {
    struct ps_worker_options options;
    struct ps_id cluster_id; /* Asked for or joined; none: any. */
    struct ps_mem mem;
    struct ps_training training;
    struct ps_loop *loop;
    struct ps_runtime *runtime;
    struct ps_thread_exec *trainer;
    struct ps_mail train_mail;
    struct ps_mail trained_mail;
    struct ps_timer hurry;
    _Atomic bool stop;
    _Atomic bool finishing; /* The job is done: the model is being pulled, judged, written. */
    bool trained;           /* The training thread is through; `err` and `result` count. */
    bool hurried;           /* We do not wait for it any more. */
    struct ps_error err;
    struct ps_train_result result;
    struct ps_report report;
    struct ps_outcome_lists lists; /* Of the report. */
    char model_path[PS_FINISH_PATH_BYTES];
};

/* ---- On the training thread ---------------------------------------------------------------- */

static enum ps_status open_client(struct worker *worker, enum ps_client_kind kind,
                                  struct ps_client **ret)
{
    struct ps_client_options options = {
        .coordinator = worker->options.coordinator,
        .kind = kind,
        .name = worker->options.name,
        .cluster_id = worker->cluster_id,
        .give_up_ms = (uint32_t)worker->options.give_up_ms,
        .runtime = worker->runtime,
    };
    enum ps_status status = ps_client_open(&options, ret, &worker->err);
    return status == PS_OK ? PS_OK : ps_wrap(&worker->err, status, "joining the cluster");
}

static enum ps_status train_once(struct worker *worker)
{
    struct ps_client *client = NULL;
    enum ps_status status = open_client(worker, PS_CLIENT_WORKER, &client);
    if (status == PS_OK) {
        status = ps_training_run(&worker->training, client, &worker->stop, &worker->result,
                                 &worker->err);
        struct ps_view view;
        ps_client_view(client, &view);
        worker->cluster_id = view.cluster_id; /* It will not be another one. */
        ps_client_close(client);
    }
    return status;
}

/* What the coordinator counted, for the report. */
static enum ps_status look(struct worker *worker, struct ps_client *client)
{
    struct ps_cluster *cluster = NULL;
    enum ps_status status = ps_client_describe(client, &cluster, &worker->err);
    if (status != PS_OK) {
        return ps_wrap(&worker->err, status, "asking the coordinator for the report");
    }
    ps_outcome_report(cluster, &worker->lists, &worker->report);
    ps_cluster_free(cluster);
    return PS_OK;
}

static enum ps_status finish(struct worker *worker)
{
    struct ps_client *client = NULL;
    enum ps_status status = open_client(worker, PS_CLIENT_READER, &client);
    if (status != PS_OK) {
        return status;
    }
    if (worker->options.report != NULL) {
        status = look(worker, client);
    }
    if (status == PS_OK) {
        status = ps_training_finish(&worker->training, client, &worker->report, worker->options.out,
                                    worker->model_path, &worker->err);
    }
    ps_client_close(client);
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
        status = status == PS_ERR_NOT_FOUND ? PS_ERR_LOST : status; /* Another has its address. */
    }
    bool wanted = worker->options.out != NULL || worker->options.report != NULL;
    if (status == PS_OK && worker->result.done && wanted) {
        atomic_store(&worker->finishing, true);
        status = finish(worker);
    }
    worker->err.status = status;
    worker->trained_mail.run = trained;
    ps_exec_post(ps_loop_port(worker->loop), &worker->trained_mail);
}

/* ---- On the main thread -------------------------------------------------------------------- */

static void stop_waiting(struct worker *worker)
{
    worker->hurried = true;
    ps_loop_stop(worker->loop);
}

/* A step may wait for others for ever; a model that is being written comes to its end. */
static void give_up_waiting(struct ps_timer *timer)
{
    struct worker *worker = PS_CONTAINER_OF(timer, struct worker, hurry);
    if (!atomic_load(&worker->finishing)) {
        stop_waiting(worker);
    }
}

static void on_signal(void *arg, int signal)
{
    struct worker *worker = arg;
    if (atomic_exchange(&worker->stop, true)) {
        stop_waiting(worker);
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
        status = ps_runtime_create(&worker->runtime, err);
    }
    if (status == PS_OK) {
        status = ps_thread_exec_create("train", &worker->trainer, err);
    }
    ps_timer_init(&worker->hurry, give_up_waiting);
    return status;
}

static void clean_up(struct worker *worker)
{
    ps_thread_exec_destroy(worker->trainer);
    ps_runtime_destroy(worker->runtime);
    if (worker->loop != NULL) {
        ps_timer_stop(ps_loop_port(worker->loop), &worker->hurry);
        ps_loop_destroy(worker->loop);
    }
    ps_training_close(&worker->training);
}

/* Not exit: it would pull libraries from under the threads. */
static void end_at_once(const struct worker *worker)
{
    bool finishing = atomic_load(&worker->finishing);
    if (finishing) {
        (void)fprintf(stderr,
                      "ps-worker: %s: ended by a second signal before the model and the "
                      "report were written\n",
                      worker->options.name);
    }
    (void)fflush(NULL);
    _exit(finishing ? ps_train_exit_status(PS_ERR_IO) : 0);
}

static int run(struct worker *worker)
{
    ps_report_init(&worker->report);
    enum ps_status status =
        ps_training_open(&worker->options.train, &worker->mem, &worker->training, &worker->err);
    if (status == PS_OK) {
        status = ps_finish_check(worker->options.train.conf, worker->options.out,
                                 worker->options.report, &worker->err);
    }
    if (status == PS_OK && ps_training_said(&worker->training) != NULL) {
        ps_log(PS_LOG_INFO, "worker.data", "what=\"%s\"", ps_training_said(&worker->training));
    }
    if (status == PS_OK && ps_training_warning(&worker->training) != NULL) {
        /* Not louder: all workers have the same to say, and ps-run said it before they began. */
        ps_log(PS_LOG_INFO, "worker.parts", "why=\"%s\"", ps_training_warning(&worker->training));
    }
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
            end_at_once(worker);
        }
        status = worker->err.status;
    }
    if (status == PS_OK && worker->result.done && worker->options.report != NULL) {
        status =
            ps_report_write(ps_posix_disk(), worker->options.report, &worker->report, &worker->err);
    }
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-worker: %s: %s\n", worker->options.name, worker->err.text);
    }
    clean_up(worker);
    return ps_train_exit_status(status);
}

/* As the words of --failpoint are numbered. */
static enum ps_status set_failpoint(const struct ps_conf *conf,
                                    const struct ps_worker_options *options, struct ps_error *err)
{
    if (options->failpoint == 0) {
        return PS_OK;
    }
#ifdef PS_PLANT
    (void)conf;
    (void)err;
    uint32_t nth = options->failpoint - 1;
    ps_failpoint_set(&(struct ps_failpoint){
        .place = (enum ps_failpoint_place)(nth % PS_FAILPOINT_PLACES),
        .at = options->failpoint_at,
        .stops = nth >= PS_FAILPOINT_PLACES,
    });
    return PS_OK;
#else
    struct ps_conf_words words;
    return ps_fail(err, PS_ERR_INVALID, "%s works in test builds only (-Dplant=true)",
                   ps_conf_say(conf, "failpoint", &words));
#endif
}

static enum ps_status check_coordinator(const struct ps_conf *conf,
                                        const struct ps_worker_options *options,
                                        struct ps_error *err)
{
    struct ps_conf_words words;
    enum ps_status status = ps_client_check_address(options->coordinator, err);
    return status == PS_OK ? PS_OK
                           : ps_wrap(err, status, "%s", ps_conf_say(conf, "coordinator", &words));
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    static struct worker worker;
    struct ps_conf conf;
    struct ps_error err;
    switch (ps_conf_parse(&conf, &ps_worker_program, argc, argv, &worker.options, &err)) {
    case PS_CONF_DONE: return ps_os_finish_stdout("ps-worker");
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-worker: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    if (check_coordinator(&conf, &worker.options, &err) != PS_OK ||
        set_failpoint(&conf, &worker.options, &err) != PS_OK) {
        (void)fprintf(stderr, "ps-worker: %s\n", err.text);
        return 2;
    }
    if (worker.options.die_with_parent) {
        ps_os_die_with_parent();
    }
    ps_alloc_tune();
    ps_blas_threads(1);
    ps_log_name_set(worker.options.name);
    ps_log_level_set((enum ps_log_level)worker.options.log_level);
    ps_mem_init(&worker.mem);
    worker.cluster_id = worker.options.cluster_id;
    ps_train_options_given(&conf, &worker.options.train);
    worker.options.train.read_ahead = true;
    if (worker.options.train.workers == 0) {
        worker.options.train.workers = 1;
    }
    int exit_status = run(&worker);
    ps_conf_deinit(&conf);
    return exit_status;
}
