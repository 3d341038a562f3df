/*
 * bench_log.c — how fast records are logged, against plain writes of as many bytes to the same
 * disk: the ratio is what the log costs. Wall time; DIR is where the disk is.
 *
 *   bench_log DIR [MiB]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <unistd.h>

#include <semaphore.h>

#include "base/attr.h"
#include "log/recover.h"
#include "os/posix_disk.h"
#include "os/thread_exec.h"

#define ENTRIES_MAX 4096u

struct bench {
    struct ps_commit_sink sink;
    struct ps_thread_exec *lane;
    struct ps_thread_exec *exec;
    struct ps_mail start;
    struct ps_wal *wal;
    struct ps_commit_entry *entries; /* A ring. */
    struct ps_part part;
    struct ps_slice payload;
    uint64_t n;
    uint64_t n_posted;
    uint64_t n_under_way;
    sem_t done;
};

static char dir[256];

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void must(enum ps_status status, const struct ps_error *err)
{
    if (status != PS_OK) {
        (void)fprintf(stderr, "bench_log: %s\n", err->text);
        exit(1);
    }
}

static void failed(void *arg, const struct ps_error *err)
{
    (void)arg;
    must(PS_ERR_IO, err);
}

static void post_some(struct bench *bench, uint64_t committed)
{
    while (bench->n_posted < bench->n && bench->n_posted < committed + bench->n_under_way) {
        struct ps_commit_entry *entry = &bench->entries[bench->n_posted++ % ENTRIES_MAX];
        *entry = (struct ps_commit_entry){
            .record = {.kind = PS_RECORD_PUSH,
                       .push = {.parts = &bench->part,
                                .n_parts = 1,
                                .payload = ps_cursor_over(&bench->payload, 1)}},
            .ticket = bench->n_posted,
            .sink = &bench->sink,
        };
        if (ps_commit_append(ps_wal_committer(bench->wal), entry)) {
            exit(1);
        }
    }
}

static void start(struct ps_mail *mail)
{
    post_some(PS_CONTAINER_OF(mail, struct bench, start), 0);
}

static void hear(struct ps_mail *mail)
{
    struct bench *bench = PS_CONTAINER_OF(mail, struct bench, sink.mail);
    uint64_t committed = ps_commit_listen(&bench->sink);
    if (committed == bench->n) {
        (void)sem_post(&bench->done);
    }
    post_some(bench, committed);
}

static void empty_dir(void)
{
    struct ps_disk_entry *entries = NULL;
    size_t n = 0;
    struct ps_error err;
    char path[600];
    must(ps_disk_list(ps_posix_disk(), dir, &entries, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, entries[i].name);
        must(ps_disk_remove(ps_posix_disk(), path, &err), &err);
    }
    ps_mem_free(entries);
}

/* Seconds for `n` records of `n_payload` bytes, up to `n_under_way` of them at a time. */
static double log_s(bool sync, uint64_t n, size_t n_payload, uint64_t n_under_way)
{
    static struct bench bench;
    struct ps_error err;
    bench = (struct bench){.n = n, .n_under_way = n_under_way};
    bench.entries = calloc(ENTRIES_MAX, sizeof(*bench.entries));
    uint8_t *payload = calloc(1, n_payload);
    if (bench.entries == NULL || payload == NULL) {
        exit(1);
    }
    bench.payload = (struct ps_slice){.data = payload, .n_bytes = n_payload};
    bench.part.n_bytes = (uint32_t)n_payload;
    must(ps_thread_exec_create("lane", &bench.lane, &err), &err);
    must(ps_thread_exec_create("log", &bench.exec, &err), &err);
    bench.sink.exec = ps_thread_exec_port(bench.lane);
    bench.sink.mail.run = hear;
    bench.start.run = start;
    (void)sem_init(&bench.done, 0, 0);
    struct ps_wal_options options = {.disk = ps_posix_disk(),
                                     .dir = dir,
                                     .exec = ps_thread_exec_port(bench.exec),
                                     .sync = sync,
                                     .salt = 1,
                                     .failed = failed};
    struct ps_wal_end end = {.next_lsn = 1};
    must(ps_wal_open(&options, &end, &bench.wal, &err), &err);
    double begin = now_s();
    ps_exec_post(bench.sink.exec, &bench.start);
    (void)sem_wait(&bench.done);
    double seconds = now_s() - begin;
    ps_thread_exec_destroy(bench.lane);
    ps_thread_exec_destroy(bench.exec);
    ps_wal_destroy(bench.wal);
    free(payload);
    free(bench.entries);
    empty_dir();
    return seconds;
}

/* The same bytes, `n_run` at a time, each run synced if need be. */
static double plain_s(bool sync, uint64_t n_bytes, size_t n_run)
{
    struct ps_error err;
    struct ps_disk_file *file = NULL;
    char path[600];
    uint8_t *bytes = calloc(1, n_run);
    if (bytes == NULL) {
        exit(1);
    }
    (void)snprintf(path, sizeof(path), "%s/plain", dir);
    must(ps_disk_open(ps_posix_disk(), path, PS_DISK_ANEW, &file, &err), &err);
    must(ps_disk_file_allocate(file, n_bytes, &err), &err);
    struct ps_slice slice = {.data = bytes, .n_bytes = n_run};
    double begin = now_s();
    for (uint64_t at = 0; at + n_run <= n_bytes; at += n_run) {
        must(ps_disk_file_write(file, at, &slice, 1, &err), &err);
        if (sync) {
            must(ps_disk_file_sync(file, &err), &err);
        }
    }
    double seconds = now_s() - begin;
    ps_disk_file_close(file);
    free(bytes);
    empty_dir();
    return seconds;
}

static void compare(bool sync, uint64_t n_bytes, size_t n_payload, uint64_t n_under_way)
{
    uint64_t n = n_bytes / n_payload;
    size_t n_run = n_payload * n_under_way < (8u << 20) ? n_payload * n_under_way : 8u << 20;
    double plain = plain_s(sync, n * n_payload, n_run);
    double logged = log_s(sync, n, n_payload, n_under_way);
    double mib = (double)(n * n_payload) / (1 << 20);
    (void)printf("%-5s %8zu bytes, %4u under way: log %7.1f MiB/s, %8.0f records/s, plain %7.1f "
                 "MiB/s, ratio %.2f\n",
                 sync ? "fsync" : "log", n_payload, (unsigned)n_under_way, mib / logged,
                 (double)n / logged, mib / plain, plain / logged);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_log DIR [MiB]\n");
        return 2;
    }
    struct ps_error err;
    (void)snprintf(dir, sizeof(dir), "%s/bench_log", argv[1]);
    must(ps_disk_make_dir(ps_posix_disk(), dir, &err), &err);
    uint64_t n_bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 256) << 20;
    for (int sync = 0; sync < 2; sync++) {
        compare(sync == 1, n_bytes, 1 << 20, 16);
        compare(sync == 1, n_bytes / 4, 64 << 10, 16);
        compare(sync == 1, n_bytes / 64, 1 << 10, 64);
        compare(sync == 1, n_bytes / 1024, 1 << 10, 1);
    }
    (void)rmdir(dir);
    return 0;
}
