/*
 * test_posix.c — a log on a disk of this machine, with threads of its own: lanes append, the log
 * writes, a process that was killed is read again.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#include <check.h>
#include <semaphore.h>

#include "base/attr.h"
#include "base/failpoint.h"
#include "log/recover.h"
#include "os/posix_disk.h"
#include "os/thread_exec.h"
#include "unit/log/suites.h"

#define LANES   3u
#define RECORDS 2000u

struct lane {
    struct ps_commit_sink sink;
    struct ps_thread_exec *exec;
    struct ps_mail start;
    struct ps_wal *wal;
    struct ps_commit_entry entries[RECORDS];
    uint32_t index;
    int tell; /* Where acknowledgements are written; -1: nowhere. */
};

static char folder[] = "/tmp/ps-test-log-XXXXXX";
static struct lane lanes[LANES];
static struct ps_error err;
static sem_t done_something; /* A lane has heard of all its records; the log has stopped. */

static void wait_for_one(void)
{
    while (sem_wait(&done_something) < 0) {
    }
}

static void empty_folder(void)
{
    struct ps_disk_entry *entries = NULL;
    char path[512];
    size_t n = 0;
    if (ps_disk_list(ps_posix_disk(), folder, &entries, &n, &err) == PS_OK) {
        for (size_t i = 0; i < n; i++) {
            (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i].name);
            (void)unlink(path);
        }
        ps_mem_free(entries);
    }
}

static void make_folder(void)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/ps-test-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(sem_init(&done_something, 0, 0), 0);
}

static void remove_folder(void)
{
    empty_folder();
    (void)rmdir(folder);
}

static void hear(struct ps_mail *mail)
{
    struct lane *lane = PS_CONTAINER_OF(mail, struct lane, sink.mail);
    uint64_t heard = ps_commit_listen(&lane->sink);
    if (lane->tell >= 0) {
        uint64_t message[2] = {lane->index, heard};
        ssize_t n = write(lane->tell, message, sizeof(message));
        (void)n;
    }
    if (heard == RECORDS) {
        (void)sem_post(&done_something);
    }
}

static void append_all(struct ps_mail *mail)
{
    struct lane *lane = PS_CONTAINER_OF(mail, struct lane, start);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct ps_commit_entry *entry = &lane->entries[i];
        *entry = (struct ps_commit_entry){
            .record = {.kind = PS_RECORD_EPOCH,
                       .slot = lane->index,
                       .epoch = i + 1,
                       .position = i + 1,
                       .begun = {.term = 5}},
            .ticket = i + 1,
            .sink = &lane->sink,
        };
        bool at_once = ps_commit_append(ps_wal_committer(lane->wal), entry);
        ck_assert(!at_once);
    }
}

static void failed(void *arg, const struct ps_error *why)
{
    (void)arg;
    (void)fprintf(stderr, "%s\n", why->text);
    abort();
}

/* Each slot's positions from 1 on, without a hole. */
static enum ps_status see(void *arg, uint64_t lsn, const struct ps_record *record,
                          struct ps_error *error)
{
    uint64_t *positions = arg;
    (void)lsn;
    if (record->slot >= LANES || record->position != positions[record->slot] + 1) {
        return ps_fail(error, PS_ERR_INTERNAL, "position %" PRIu64, record->position);
    }
    positions[record->slot]++;
    return PS_OK;
}

static struct ps_wal_recovered recover(uint64_t positions[LANES])
{
    struct ps_wal_visitor visitor = {.record = see, .arg = positions};
    struct ps_wal_recovery recovery = {.disk = ps_posix_disk(), .dir = folder, .repair = true};
    struct ps_wal_recovered recovered;
    memset(positions, 0, LANES * sizeof(positions[0]));
    enum ps_status status = ps_wal_recover(&recovery, &visitor, &recovered, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    return recovered;
}

static struct ps_wal *open_log(struct ps_thread_exec *exec, bool sync)
{
    uint64_t positions[LANES];
    struct ps_wal *wal = NULL;
    struct ps_wal_recovered recovered = recover(positions);
    struct ps_wal_options options = {
        .disk = ps_posix_disk(),
        .dir = folder,
        .exec = ps_thread_exec_port(exec),
        .sync = sync,
        .segment_bytes = 64 << 10,
        .salt = (uint64_t)getpid(),
        .failed = failed,
    };
    enum ps_status status = ps_wal_open(&options, &recovered.end, &wal, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    return wal;
}

static void start_lanes(struct ps_wal *wal, int tell)
{
    for (uint32_t i = 0; i < LANES; i++) {
        struct lane *lane = &lanes[i];
        ck_assert_int_eq(ps_thread_exec_create("lane", &lane->exec, &err), PS_OK);
        lane->sink.exec = ps_thread_exec_port(lane->exec);
        lane->sink.mail.run = hear;
        lane->start.run = append_all;
        lane->wal = wal;
        lane->index = i;
        lane->tell = tell;
        ps_exec_post(lane->sink.exec, &lane->start);
    }
}

static _Atomic int stopped = -1;

static void note_stop(struct ps_mail *mail)
{
    atomic_store(&stopped, (int)PS_CONTAINER_OF(mail, struct ps_wal_done, mail)->status);
    (void)sem_post(&done_something);
}

START_TEST(threads_append_and_all_is_read_again)
{
    struct ps_thread_exec *exec = NULL;
    ck_assert_int_eq(ps_thread_exec_create("log", &exec, &err), PS_OK);
    struct ps_wal *wal = open_log(exec, _i == 1);
    start_lanes(wal, -1);
    for (uint32_t i = 0; i < LANES; i++) {
        wait_for_one();
    }
    struct ps_wal_done done = {.mail.run = note_stop, .exec = lanes[0].sink.exec};
    ps_wal_stop(wal, &done);
    for (uint32_t i = 1; i < LANES; i++) {
        ps_thread_exec_destroy(lanes[i].exec);
    }
    wait_for_one();
    ck_assert_int_eq(atomic_load(&stopped), PS_OK);
    ps_thread_exec_destroy(lanes[0].exec);
    ps_thread_exec_destroy(exec);
    ps_wal_destroy(wal);
    uint64_t positions[LANES];
    struct ps_wal_recovered recovered = recover(positions);
    for (uint32_t i = 0; i < LANES; i++) {
        ck_assert_uint_eq(positions[i], RECORDS);
    }
    ck_assert_uint_eq(recovered.n_records, (uint64_t)LANES * RECORDS);
}
END_TEST

#ifdef PS_PLANT
/* A process that appends until the failpoint kills it. */
static void die_at(const char *name, uint32_t at, int tell)
{
    static struct ps_failpoint_nth nth;
    struct ps_thread_exec *exec = NULL;
    nth.name = name;
    nth.at = at;
    if (!ps_failpoint_set_nth(&nth) || ps_thread_exec_create("log", &exec, &err) != PS_OK) {
        _exit(1);
    }
    start_lanes(open_log(exec, true), tell);
    (void)pause();
    _exit(2);
}

static const char *const places[] = {"log.before_write", "log.after_write", "log.before_sync",
                                     "log.after_sync", "log.rotate"};

START_TEST(a_process_killed_at_a_failpoint_has_what_it_acknowledged)
{
    for (uint32_t at = 1; at <= 2; at++) {
        int pipe_fds[2];
        ck_assert_int_eq(pipe(pipe_fds), 0);
        pid_t child = fork();
        if (child == 0) {
            die_at(places[_i], at, pipe_fds[1]);
        }
        (void)close(pipe_fds[1]);
        uint64_t acked[LANES] = {0};
        uint64_t message[2];
        while (read(pipe_fds[0], message, sizeof(message)) == (ssize_t)sizeof(message)) {
            acked[message[0]] = message[1];
        }
        (void)close(pipe_fds[0]);
        int how = 0;
        ck_assert_int_eq(waitpid(child, &how, 0), child);
        ck_assert_msg(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL, "%s: %d", places[_i], how);
        uint64_t positions[LANES];
        (void)recover(positions);
        for (uint32_t i = 0; i < LANES; i++) {
            ck_assert_uint_ge(positions[i], acked[i]);
        }
        empty_folder(); /* The next one counts from 1 again. */
    }
}
END_TEST
#endif

Suite *suite_log_posix(void)
{
    Suite *suite = suite_create("log on posix");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, make_folder, remove_folder);
    tcase_add_loop_test(tcase, threads_append_and_all_is_read_again, 0, 2);
#ifdef PS_PLANT
    tcase_add_loop_test(tcase, a_process_killed_at_a_failpoint_has_what_it_acknowledged, 0,
                        PS_ARRAY_LEN(places));
#endif
    suite_add_tcase(suite, tcase);
    return suite;
}
