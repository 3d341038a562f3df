/* blocking.c — see blocking.h. */
#include "train/blocking.h"

#include <time.h>

#include "base/assert.h"
#include "os/clock.h"

#define NAP_NS 1000000u /* Inline: between two looks at the timers when nothing can be run. */

/* ---- Waiting ------------------------------------------------------------------------------- */

void ps_blocking_init(struct ps_blocking *blocking, struct ps_exec *exec,
                      struct ps_inline_exec *inline_exec)
{
    *blocking = (struct ps_blocking){.exec = exec, .inline_exec = inline_exec};
    pthread_condattr_t attr;
    PS_ASSERT(pthread_condattr_init(&attr) == 0);
    PS_ASSERT(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    PS_ASSERT(pthread_cond_init(&blocking->news, &attr) == 0);
    PS_ASSERT(pthread_mutex_init(&blocking->lock, NULL) == 0);
    (void)pthread_condattr_destroy(&attr);
}

void ps_blocking_deinit(struct ps_blocking *blocking)
{
    PS_ASSERT(blocking->client == NULL);
    if (blocking->exec == NULL) {
        return;
    }
    (void)pthread_cond_destroy(&blocking->news);
    (void)pthread_mutex_destroy(&blocking->lock);
    *blocking = (struct ps_blocking){0};
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

/* Let time pass or the executor work until something may have happened. Under the lock. */
static void await(struct ps_blocking *blocking, uint64_t until_ns)
{
    struct ps_inline_exec *inline_exec = blocking->inline_exec;
    if (inline_exec != NULL && inline_exec->first != NULL) {
        (void)pthread_mutex_unlock(&blocking->lock);
        ps_inline_exec_pump(inline_exec);
        (void)pthread_mutex_lock(&blocking->lock);
        return;
    }
    uint64_t nap_ns = ps_clock_ns() + NAP_NS;
    uint64_t wake_ns = inline_exec != NULL && nap_ns < until_ns ? nap_ns : until_ns;
    if (wake_ns == UINT64_MAX) {
        (void)pthread_cond_wait(&blocking->news, &blocking->lock);
    } else {
        struct timespec until = timespec_of(wake_ns);
        (void)pthread_cond_timedwait(&blocking->news, &blocking->lock, &until);
    }
    if (inline_exec != NULL) { /* Timers may be due. */
        (void)pthread_mutex_unlock(&blocking->lock);
        ps_inline_exec_pump(inline_exec);
        (void)pthread_mutex_lock(&blocking->lock);
    }
}

static void lock(struct ps_blocking *blocking)
{
    PS_ASSERT(pthread_mutex_lock(&blocking->lock) == 0);
}

static void unlock(struct ps_blocking *blocking)
{
    PS_ASSERT(pthread_mutex_unlock(&blocking->lock) == 0);
}

/* On the executor. */
static void tell(struct ps_blocking *blocking)
{
    (void)pthread_cond_broadcast(&blocking->news);
}

/* ---- Mail ---------------------------------------------------------------------------------- */

static void run_mail(struct ps_mail *base)
{
    struct ps_blocking_mail *mail = PS_CONTAINER_OF(base, struct ps_blocking_mail, mail);
    struct ps_blocking *blocking = mail->blocking;
    mail->run(mail);
    lock(blocking);
    mail->taken = false;
    tell(blocking);
    unlock(blocking);
}

static struct ps_blocking_mail *free_mail(struct ps_blocking *blocking)
{
    for (;;) {
        for (uint32_t i = 0; i < PS_BLOCKING_MAILS; i++) {
            if (!blocking->mails[i].taken) {
                return &blocking->mails[i];
            }
        }
        await(blocking, UINT64_MAX);
    }
}

static struct ps_blocking_mail *post(struct ps_blocking *blocking,
                                     void (*run)(struct ps_blocking_mail *mail), void *first,
                                     void *second)
{
    PS_ASSERT(blocking->client != NULL);
    lock(blocking);
    struct ps_blocking_mail *mail = free_mail(blocking);
    *mail = (struct ps_blocking_mail){.mail.run = run_mail,
                                      .blocking = blocking,
                                      .run = run,
                                      .first = first,
                                      .second = second,
                                      .taken = true};
    unlock(blocking);
    ps_exec_post(blocking->exec, &mail->mail);
    return mail;
}

/* Have something done on the executor now. */
static void ask(struct ps_blocking *blocking, void (*run)(struct ps_blocking_mail *mail),
                void *first, void *second)
{
    struct ps_blocking_mail *mail = post(blocking, run, first, second);
    lock(blocking);
    while (mail->taken) {
        await(blocking, UINT64_MAX);
    }
    unlock(blocking);
}

/* ---- Operations ---------------------------------------------------------------------------- */

/* `arg` is ours while the operation runs, and NULL when it is done. */
static void on_done(struct ps_op *op)
{
    struct ps_blocking *blocking = op->arg;
    lock(blocking);
    op->arg = NULL;
    tell(blocking);
    unlock(blocking);
}

static void adopt(struct ps_blocking *blocking, struct ps_op *op)
{
    op->done = on_done;
    op->arg = blocking;
}

enum ps_status ps_blocking_wait(struct ps_blocking *blocking, struct ps_op *op)
{
    lock(blocking);
    while (op->arg != NULL) {
        await(blocking, UINT64_MAX);
    }
    unlock(blocking);
    return op->err.status;
}

static enum ps_status wait_with_words(struct ps_blocking *blocking, struct ps_op *op,
                                      struct ps_error *err)
{
    enum ps_status status = ps_blocking_wait(blocking, op);
    if (status != PS_OK && err != NULL) {
        *err = op->err;
    }
    return status;
}

static void run_join(struct ps_blocking_mail *mail)
{
    ps_session_join(mail->blocking->client, mail->first);
}

static void run_describe(struct ps_blocking_mail *mail)
{
    ps_session_describe(mail->blocking->client, mail->first);
}

static void run_define_table(struct ps_blocking_mail *mail)
{
    ps_session_define_table(mail->blocking->client, mail->first);
}

static void run_define_job(struct ps_blocking_mail *mail)
{
    ps_session_define_job(mail->blocking->client, mail->first);
}

static void run_pull(struct ps_blocking_mail *mail)
{
    ps_session_pull(mail->blocking->client, mail->first);
}

static void run_push(struct ps_blocking_mail *mail)
{
    ps_session_push(mail->blocking->client, mail->first);
}

static void run_push_pull(struct ps_blocking_mail *mail)
{
    ps_session_push_pull(mail->blocking->client, mail->first, mail->second);
}

enum ps_status ps_blocking_join(struct ps_blocking *blocking, struct ps_error *err)
{
    struct ps_op op = {0};
    adopt(blocking, &op);
    (void)post(blocking, run_join, &op, NULL);
    return wait_with_words(blocking, &op, err);
}

enum ps_status ps_blocking_describe(struct ps_blocking *blocking, struct ps_error *err)
{
    struct ps_op op = {0};
    adopt(blocking, &op);
    (void)post(blocking, run_describe, &op, NULL);
    return wait_with_words(blocking, &op, err);
}

enum ps_status ps_blocking_define_table(struct ps_blocking *blocking,
                                        const struct ps_table_def *def, uint32_t *ret_table,
                                        struct ps_error *err)
{
    struct ps_define_table_op define = {.def = def};
    adopt(blocking, &define.op);
    (void)post(blocking, run_define_table, &define, NULL);
    enum ps_status status = wait_with_words(blocking, &define.op, err);
    if (status == PS_OK) {
        *ret_table = define.ret_table;
    }
    return status;
}

enum ps_status ps_blocking_define_job(struct ps_blocking *blocking, const struct ps_job_def *def,
                                      struct ps_error *err)
{
    struct ps_define_job_op define = {.def = def};
    adopt(blocking, &define.op);
    (void)post(blocking, run_define_job, &define, NULL);
    return wait_with_words(blocking, &define.op, err);
}

void ps_blocking_pull_start(struct ps_blocking *blocking, struct ps_pull_op *pull)
{
    adopt(blocking, &pull->op);
    (void)post(blocking, run_pull, pull, NULL);
}

void ps_blocking_push_start(struct ps_blocking *blocking, struct ps_push_op *push)
{
    adopt(blocking, &push->op);
    (void)post(blocking, run_push, push, NULL);
}

void ps_blocking_push_pull_start(struct ps_blocking *blocking, struct ps_push_op *push,
                                 struct ps_pull_op *pull)
{
    adopt(blocking, &push->op);
    adopt(blocking, &pull->op);
    (void)post(blocking, run_push_pull, push, pull);
}

enum ps_status ps_blocking_pull(struct ps_blocking *blocking, struct ps_pull_op *pull)
{
    ps_blocking_pull_start(blocking, pull);
    return ps_blocking_wait(blocking, &pull->op);
}

enum ps_status ps_blocking_push(struct ps_blocking *blocking, struct ps_push_op *push)
{
    ps_blocking_push_start(blocking, push);
    return ps_blocking_wait(blocking, &push->op);
}

/* ---- Reports and views --------------------------------------------------------------------- */

static void run_report(struct ps_blocking_mail *mail)
{
    struct ps_blocking *blocking = mail->blocking;
    lock(blocking);
    struct ps_worker_report report = blocking->report;
    blocking->report_posted = false;
    unlock(blocking);
    ps_session_report(blocking->client, &report);
}

void ps_blocking_report(struct ps_blocking *blocking, const struct ps_worker_report *report)
{
    lock(blocking);
    blocking->report = *report;
    bool posted = blocking->report_posted;
    blocking->report_posted = true;
    unlock(blocking);
    if (!posted) {
        (void)post(blocking, run_report, NULL, NULL);
    }
}

static void run_view(struct ps_blocking_mail *mail)
{
    struct ps_blocking *blocking = mail->blocking;
    ps_session_view(blocking->client, mail->first);
    lock(blocking);
    blocking->n_changes_seen = blocking->n_changes;
    unlock(blocking);
}

void ps_blocking_view(struct ps_blocking *blocking, struct ps_client_view *ret)
{
    ask(blocking, run_view, ret, NULL);
}

struct table_question {
    const char *name;
    uint32_t table;
    uint64_t n;
    bool known;
};

static void run_table(struct ps_blocking_mail *mail)
{
    struct table_question *question = mail->first;
    const struct ps_table *table = ps_session_table(mail->blocking->client, question->name);
    question->known = table != NULL;
    question->table = table != NULL ? table->number : 0;
    question->n = table != NULL ? table->n_elements : 0;
}

bool ps_blocking_table(struct ps_blocking *blocking, const char *name, uint32_t *ret_table,
                       uint64_t *ret_n)
{
    struct table_question question = {.name = name};
    ask(blocking, run_table, &question, NULL);
    if (question.known) {
        *ret_table = question.table;
        *ret_n = question.n;
    }
    return question.known;
}

bool ps_blocking_wait_change(struct ps_blocking *blocking, uint32_t timeout_ms)
{
    uint64_t until_ns = ps_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    lock(blocking);
    while (blocking->n_changes == blocking->n_changes_seen && ps_clock_ns() < until_ns) {
        await(blocking, until_ns);
    }
    bool changed = blocking->n_changes != blocking->n_changes_seen;
    unlock(blocking);
    return changed;
}

uint64_t ps_blocking_now_ns(struct ps_blocking *blocking)
{
    return ps_exec_now_ns(blocking->exec);
}

/* ---- Open and close ------------------------------------------------------------------------ */

/* On the executor. */
static void on_changed(void *arg)
{
    struct ps_blocking *blocking = arg;
    lock(blocking);
    blocking->n_changes++;
    tell(blocking);
    unlock(blocking);
}

enum ps_status ps_blocking_open(struct ps_blocking *blocking,
                                const struct ps_session_options *options, struct ps_error *err)
{
    PS_ASSERT(blocking->client == NULL);
    struct ps_session_options own = *options;
    own.exec = blocking->exec;
    own.changed = on_changed;
    own.arg = blocking;
    return ps_session_create(&own, &blocking->client, err);
}

/* On the executor, where the client must be destroyed. */
static void on_closed(struct ps_op *op)
{
    struct ps_blocking *blocking = op->arg;
    ps_session_destroy(blocking->client);
    lock(blocking);
    blocking->client = NULL;
    op->arg = NULL;
    tell(blocking);
    unlock(blocking);
}

static void run_close(struct ps_blocking_mail *mail)
{
    ps_session_close(mail->blocking->client, mail->first);
}

void ps_blocking_close(struct ps_blocking *blocking)
{
    if (blocking->client == NULL) {
        return;
    }
    struct ps_op op = {.done = on_closed, .arg = blocking};
    struct ps_blocking_mail *mail = post(blocking, run_close, &op, NULL);
    lock(blocking);
    while (op.arg != NULL || mail->taken) { /* The mail's struct is ours: it must be back too. */
        await(blocking, UINT64_MAX);
    }
    unlock(blocking);
}
