/*
 * main.c — the ps-worker daemon: settings, threads and clients around ps_train_run.
 *
 * Main thread: the loop, for signals. The training thread computes. The cluster is reached through
 * <ps/client.h> alone, as any other program would.
 * SIGTERM and SIGINT: the step at hand is finished, the lease goes back, exit 0; a step that has
 * not ended shortly before the grace has is left to others. A model that is being written is
 * finished. A second signal ends the process at once.
 */
#include <stdatomic.h>
#include <stdio.h>

#include <pthread.h>
#include <unistd.h>

#include <ps/client.h>

#include "base/assert.h"
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

#define REJOINS_MAX 3u    /* In a row without a unit done: it should say so and end. */
#define LEAVE_MS    1000u /* Of the grace, for a goodbye after a step that was given up. */

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
    uint32_t patience_ms; /* Of the session before, which the next one may take to join; 0: none. */
    pthread_mutex_t lock; /* Over `client`. */
    struct ps_client *client; /* That the training thread uses now. */
    bool did_units;           /* The session before acknowledged a unit. */
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

/* From now on the main thread may cancel what waits in it; NULL: there is none. */
static void set_client(struct worker *worker, struct ps_client *client)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->client = client;
    (void)pthread_mutex_unlock(&worker->lock);
}

static enum ps_status open_client(struct worker *worker, enum ps_client_kind kind,
                                  struct ps_client **ret)
{
    struct ps_client_options options = {
        .coordinator = worker->options.coordinator,
        .kind = kind,
        .name = worker->options.name,
        .cluster_id = worker->cluster_id,
        .give_up_ms = (uint32_t)worker->options.give_up_ms,
        .open_timeout_ms = worker->patience_ms,
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
        set_client(worker, client);
        status = ps_training_run(&worker->training, client, &worker->stop, &worker->result,
                                 &worker->err);
        set_client(worker, NULL);
        struct ps_view view;
        ps_client_view(client, &view);
        worker->cluster_id = view.cluster_id; /* It will not be another one. */
        worker->did_units = view.stats.units > 0;
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

/* Train to the end, and write what is to be written; the cluster may go back even then. */
static enum ps_status train_and_finish(struct worker *worker)
{
    bool wanted = worker->options.out != NULL || worker->options.report != NULL;
    enum ps_status status = train_once(worker);
    if (status == PS_OK && worker->result.done && wanted) {
        atomic_store(&worker->finishing, true);
        status = finish(worker);
        atomic_store(&worker->finishing, status == PS_OK);
    }
    bool stopped = status == PS_ERR_CANCELED || status == PS_ERR_FENCED;
    return stopped && atomic_load(&worker->stop) ? PS_OK : status;
}

/*
 * A session that is over, because this process was silent or the cluster went back to a snapshot,
 * is replaced by a new one, which goes on with the job as it stands. As often as need be, as long
 * as each gets something done.
 */
static void train(struct ps_mail *mail)
{
    struct worker *worker = PS_CONTAINER_OF(mail, struct worker, train_mail);
    uint32_t n_in_vain = 0;
    enum ps_status status = train_and_finish(worker);
    while (status == PS_ERR_FENCED) {
        n_in_vain = worker->did_units ? 0 : n_in_vain + 1;
        if (n_in_vain > REJOINS_MAX) {
            status =
                ps_wrap(&worker->err, PS_ERR_FENCED, "joined anew %u times in vain", REJOINS_MAX);
            break;
        }
        ps_log(PS_LOG_WARN, "worker.rejoins", "why=\"%s\"", worker->err.text);
        worker->did_units = false;
        status = train_and_finish(worker);
        status = status == PS_ERR_NOT_FOUND ? PS_ERR_LOST : status; /* Another has its address. */
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

/* A model that is being written comes to its end, whatever else does not. */
static void give_up_waiting(struct ps_timer *timer)
{
    struct worker *worker = PS_CONTAINER_OF(timer, struct worker, hurry);
    if (!atomic_load(&worker->finishing)) {
        stop_waiting(worker);
    }
}

/* How much of the grace is kept for leaving. */
static uint64_t leave_ms(const struct worker *worker)
{
    uint64_t half_ms = worker->options.grace_ms / 2;
    return half_ms < LEAVE_MS ? half_ms : LEAVE_MS;
}

/* A step may wait for others for ever: what it has pushed is not pushed again by who gets it. */
static void give_up_step(struct ps_timer *timer)
{
    struct worker *worker = PS_CONTAINER_OF(timer, struct worker, hurry);
    (void)pthread_mutex_lock(&worker->lock);
    ps_client_cancel(worker->client);
    (void)pthread_mutex_unlock(&worker->lock);
    ps_timer_init(timer, give_up_waiting);
    ps_timer_start(ps_loop_port(worker->loop), timer, leave_ms(worker));
}

static void on_signal(void *arg, int signal)
{
    struct worker *worker = arg;
    if (atomic_exchange(&worker->stop, true)) {
        stop_waiting(worker);
        return;
    }
    ps_log(PS_LOG_INFO, "worker.stopping", "signal=%d", signal);
    ps_timer_start(ps_loop_port(worker->loop), &worker->hurry,
                   worker->options.grace_ms - leave_ms(worker));
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
    ps_timer_init(&worker->hurry, give_up_step);
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
    int failed = pthread_mutex_init(&worker.lock, NULL);
    PS_ASSERT(failed == 0); /* glibc: cannot fail with these arguments. */
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
