/*
 * test_exec.c — the two executors with real time, a thread and the libuv loop: what port/exec.h
 * promises, run over both; then the loop's signals and children.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "base/attr.h"
#include "os/child.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/process.h"
#include "os/thread_exec.h"
#include "unit/os/suites.h"

#define N_MAIL 1000

enum kind {
    KIND_THREAD,
    KIND_LOOP,
    KIND_COUNT
};

/* One of both, and what ran on it. Only the executor writes; reading is after its end. */
struct rig {
    struct ps_thread_exec *thread;
    struct ps_loop *loop;
    struct ps_exec *exec;
    int n_run;
    int n_children;
    int n_wrong;
    atomic_bool over;
    bool inside;
    char done[64];
    uint64_t started_ms;
    struct ps_timer timers[4];
};

static struct rig rig;

static void rig_open(int kind)
{
    memset(&rig, 0, sizeof(rig));
    if (kind == KIND_THREAD) {
        ck_assert_int_eq(ps_thread_exec_create("test", &rig.thread, NULL), PS_OK);
        rig.exec = ps_thread_exec_port(rig.thread);
    } else {
        ck_assert_int_eq(ps_loop_create(&rig.loop, NULL), PS_OK);
        rig.exec = ps_loop_port(rig.loop);
    }
}

static void end_loop(struct ps_mail *mail PS_UNUSED)
{
    ps_loop_stop(rig.loop);
}

static void run_loop_once(void)
{
    struct ps_mail last = {.run = end_loop};
    ps_exec_post(rig.exec, &last);
    ps_loop_run(rig.loop);
}

static void rig_close(void)
{
    ps_thread_exec_destroy(rig.thread);
    ps_loop_destroy(rig.loop);
}

/* Mail that posts another when it runs. */
struct numbered {
    struct ps_mail mail;
    struct ps_mail child;
    int number;
};

static struct numbered numbered[N_MAIL];

static void run_child(struct ps_mail *mail PS_UNUSED)
{
    rig.n_wrong += rig.inside ? 1 : 0;
    rig.n_children++;
}

static void run_numbered(struct ps_mail *mail)
{
    struct numbered *self = PS_CONTAINER_OF(mail, struct numbered, mail);
    rig.n_wrong += rig.inside || self->number != rig.n_run ? 1 : 0;
    rig.inside = true;
    rig.n_run++;
    self->child.run = run_child;
    ps_exec_post(rig.exec, &self->child);
    rig.inside = false;
}

START_TEST(mail_runs_once_in_order_never_inside_a_post)
{
    rig_open(_i);
    for (int i = 0; i < N_MAIL; i++) {
        numbered[i] = (struct numbered){.mail.run = run_numbered, .number = i};
        ps_exec_post(rig.exec, &numbered[i].mail);
    }
    if (rig.loop != NULL) {
        run_loop_once();
        run_loop_once(); /* What the first batch has posted. */
    } else {
        ps_thread_exec_stop(rig.thread); /* Runs everything. */
        ps_thread_exec_stop(rig.thread); /* Harmless. */
    }
    ck_assert_int_eq(rig.n_run, N_MAIL);
    ck_assert_int_eq(rig.n_children, N_MAIL);
    ck_assert_int_eq(rig.n_wrong, 0);
    rig_close();
}
END_TEST

START_TEST(a_stop_before_the_run_ends_it)
{
    rig_open(KIND_LOOP);
    ps_loop_stop(rig.loop);
    ps_loop_run(rig.loop);
    rig_close();
}
END_TEST

/* ---- Timers -------------------------------------------------------------------------------- */

static void run_timer(struct ps_timer *timer)
{
    int number = (int)(timer - rig.timers);
    uint64_t waited_ms = ps_exec_now_ms(rig.exec) - rig.started_ms;
    rig.n_wrong += waited_ms < timer->at_ms - rig.started_ms ? 1 : 0;
    rig.done[strlen(rig.done)] = (char)('0' + number);
    if (number == 0) { /* The last one. */
        atomic_store(&rig.over, true);
        if (rig.loop != NULL) {
            ps_loop_stop(rig.loop);
        }
    }
}

static void start_timers(struct ps_mail *mail PS_UNUSED)
{
    rig.started_ms = ps_exec_now_ms(rig.exec);
    for (int i = 0; i < 4; i++) {
        ps_timer_init(&rig.timers[i], run_timer);
    }
    ps_timer_start(rig.exec, &rig.timers[0], 60);
    ps_timer_start(rig.exec, &rig.timers[1], 20);
    ps_timer_start(rig.exec, &rig.timers[2], 1);
    ps_timer_start(rig.exec, &rig.timers[3], 5);
    ps_timer_start(rig.exec, &rig.timers[2], 40); /* Moved. */
    ps_timer_stop(rig.exec, &rig.timers[3]);
}

START_TEST(timers_run_in_time_and_order)
{
    rig_open(_i);
    struct ps_mail mail = {.run = start_timers};
    ps_exec_post(rig.exec, &mail);
    if (rig.loop != NULL) {
        ps_loop_run(rig.loop);
    } else {
        while (!atomic_load(&rig.over)) { /* Check's own timeout ends it. */
            (void)sched_yield();
        }
    }
    rig_close();
    ck_assert_str_eq(rig.done, "120");
    ck_assert_int_eq(rig.n_wrong, 0);
}
END_TEST

static void start_late_timer(struct ps_mail *mail PS_UNUSED)
{
    ps_timer_init(&rig.timers[1], run_timer);
    ps_timer_start(rig.exec, &rig.timers[1], 100000);
}

START_TEST(a_stopped_thread_forgets_its_timers)
{
    rig_open(KIND_THREAD);
    struct ps_mail mail = {.run = start_late_timer};
    ps_exec_post(rig.exec, &mail);
    ps_thread_exec_stop(rig.thread);
    ck_assert_str_eq(rig.done, "");
    rig_close();
}
END_TEST

/* ---- The loop ------------------------------------------------------------------------------ */

static int heard;

static void hear(void *arg, int number)
{
    heard = number;
    ps_loop_stop(arg);
}

START_TEST(a_signal_reaches_the_loop)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    rig_open(KIND_LOOP);
    ck_assert_int_eq(ps_loop_on_signal(rig.loop, hear, rig.loop, NULL), PS_OK);
    for (size_t i = 0; i < PS_ARRAY_LEN(numbers); i++) {
        heard = 0;
        ck_assert_int_eq(kill(getpid(), numbers[i]), 0);
        ps_loop_run(rig.loop);
        ck_assert_int_eq(heard, numbers[i]);
    }
    rig_close();
}
END_TEST

struct family {
    char out[1024];
    char err[1024];
    size_t n_line_bytes_max;
    int n_exited;
    int exit_status;
    int signal;
};

static void on_line(void *arg, struct ps_child *child PS_UNUSED, bool is_stderr, const char *text)
{
    struct family *family = arg;
    char *to = is_stderr ? family->err : family->out;
    size_t n_bytes = strlen(text);
    if (n_bytes > family->n_line_bytes_max) {
        family->n_line_bytes_max = n_bytes;
    }
    if (strlen(to) + n_bytes + 2 < sizeof(family->out)) {
        (void)snprintf(to + strlen(to), n_bytes + 2, "%s|", text);
    }
}

static void on_exited(void *arg, struct ps_child *child PS_UNUSED, int exit_status, int number)
{
    struct family *family = arg;
    family->n_exited++;
    family->exit_status = exit_status;
    family->signal = number;
    ps_loop_stop(rig.loop);
}

static const struct ps_child_events family_events = {on_line, on_exited};

static const struct {
    const char *name;
    const char *script;
    const char *out;
    const char *err;
    int exit_status;
    int signal;
} children[] = {
    {"lines of both", "echo a; echo b >&2; echo; echo c", "a||c|", "b|", 0, 0},
    {"a last line without an end", "printf 'x\\ny'; exit 7", "x|y|", "", 7, 0},
    {"no output", "exit 3", "", "", 3, 0},
    {"killed", "echo z; kill -9 $$", "z|", "", 0, SIGKILL},
    {"no input", "cat; echo end", "end|", "", 0, 0},
};

START_TEST(a_child_is_heard_to_its_end)
{
    rig_open(KIND_LOOP);
    struct family family = {.exit_status = -1};
    const char *argv[] = {"sh", "-c", children[_i].script, NULL};
    struct ps_child *child = NULL;
    ck_assert_int_eq(ps_child_create(rig.loop, argv, &family_events, &family, &child, NULL), PS_OK);
    ck_assert_uint_gt(ps_child_pid(child), 1);
    ps_loop_run(rig.loop);
    ck_assert_int_eq(family.n_exited, 1);
    ck_assert_msg(strcmp(family.out, children[_i].out) == 0, "%s: '%s'", children[_i].name,
                  family.out);
    ck_assert_str_eq(family.err, children[_i].err);
    ck_assert_int_eq(family.exit_status, children[_i].exit_status);
    ck_assert_int_eq(family.signal, children[_i].signal);
    ps_child_kill(child, SIGTERM); /* It is gone: nobody is hit. */
    ps_child_destroy(child);
    rig_close();
}
END_TEST

START_TEST(a_long_line_comes_in_parts)
{
    rig_open(KIND_LOOP);
    struct family family = {0};
    const char *argv[] = {"sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; echo", NULL};
    struct ps_child *child = NULL;
    ck_assert_int_eq(ps_child_create(rig.loop, argv, &family_events, &family, &child, NULL), PS_OK);
    ps_loop_run(rig.loop);
    ck_assert_uint_eq(family.n_line_bytes_max, PS_CHILD_LINE_BYTES_MAX);
    ps_child_destroy(child);
    rig_close();
}
END_TEST

START_TEST(a_child_is_killed_by_signal_and_by_destroy)
{
    rig_open(KIND_LOOP);
    struct family family = {0};
    const char *argv[] = {"sleep", "1000", NULL};
    struct ps_child *child = NULL;
    ck_assert_int_eq(ps_child_create(rig.loop, argv, &family_events, &family, &child, NULL), PS_OK);
    ps_child_kill(child, SIGTERM);
    ps_loop_run(rig.loop);
    ck_assert_int_eq(family.signal, SIGTERM);
    ps_child_destroy(child);

    family = (struct family){0};
    ck_assert_int_eq(ps_child_create(rig.loop, argv, &family_events, &family, &child, NULL), PS_OK);
    pid_t pid = (pid_t)ps_child_pid(child);
    ps_child_destroy(child);
    rig_close();
    ck_assert_int_eq(family.n_exited, 0);
    ck_assert_int_ne(kill(pid, 0), 0); /* Neither running nor a zombie. */
}
END_TEST

START_TEST(a_program_that_does_not_exist_is_an_error)
{
    rig_open(KIND_LOOP);
    const char *argv[] = {"/no/such/program", NULL};
    struct ps_child *child = NULL;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_child_create(rig.loop, argv, &family_events, NULL, &child, &err),
                     PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/no/such/program"));
    rig_close();
}
END_TEST

/* Grandparent (the test) -> parent, which is killed -> child, which must follow it. */
START_TEST(a_process_dies_with_its_parent)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    pid_t parent = fork();
    if (parent == 0) {
        if (fork() == 0) {
            ps_os_die_with_parent();
            (void)!write(fds[1], "x", 1);
            for (;;) {
                (void)pause();
            }
        }
        for (;;) {
            (void)pause();
        }
    }
    char byte = 0;
    (void)close(fds[1]);
    ck_assert_int_eq(read(fds[0], &byte, 1), 1);
    ck_assert_int_eq(kill(parent, SIGKILL), 0);
    ck_assert_int_eq(waitpid(parent, NULL, 0), parent);
    ck_assert_int_eq(read(fds[0], &byte, 1), 0); /* The child's end of the pipe is closed. */
    (void)close(fds[0]);
}
END_TEST

Suite *suite_exec(void)
{
    Suite *suite = suite_create("exec");
    TCase *tcase = tcase_create("exec");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, mail_runs_once_in_order_never_inside_a_post, 0, KIND_COUNT);
    tcase_add_loop_test(tcase, timers_run_in_time_and_order, 0, KIND_COUNT);
    tcase_add_test(tcase, a_stop_before_the_run_ends_it);
    tcase_add_test(tcase, a_stopped_thread_forgets_its_timers);
    tcase_add_test(tcase, a_signal_reaches_the_loop);
    tcase_add_loop_test(tcase, a_child_is_heard_to_its_end, 0, (int)PS_ARRAY_LEN(children));
    tcase_add_test(tcase, a_long_line_comes_in_parts);
    tcase_add_test(tcase, a_child_is_killed_by_signal_and_by_destroy);
    tcase_add_test(tcase, a_program_that_does_not_exist_is_an_error);
    tcase_add_test(tcase, a_process_dies_with_its_parent);
    suite_add_tcase(suite, tcase);
    return suite;
}
