/*
 * parse.c — how fast text becomes rows: bytes of text per second of CPU, each format beside the
 * same file merely read, read as lines, and taken in shuffled units. The files are made here and
 * lie in the page cache.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <fcntl.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/feed.h"
#include "data/learning.h"
#include "data/lines.h"
#include "data/reading.h"

#define FILE_BYTES  (64u << 20)
#define ROUNDS      5
#define ROWS_A_CALL 1000u
#define N_WAYS      5

/* Seconds of this thread on a CPU: a busy machine does not count. */
static double now(void)
{
    struct timespec time;
    PS_ASSERT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int put_ones(char *text, size_t n_room, struct ps_rng *rng)
{
    int n = snprintf(text, n_room, "%s", ps_rng_below(rng, 2) != 0 ? "+1" : "-1");
    for (uint64_t i = 1; i < 123; i += 1 + ps_rng_below(rng, 17)) {
        n += snprintf(text + n, n_room - (size_t)n, " %" PRIu64 ":1", i);
    }
    return n;
}

static int put_values(char *text, size_t n_room, struct ps_rng *rng)
{
    int n = snprintf(text, n_room, "%d", (int)ps_rng_below(rng, 2));
    for (uint64_t i = 1; i < 1000000; i += 1 + ps_rng_below(rng, 60000)) {
        n += snprintf(text + n, n_room - (size_t)n, " %" PRIu64 ":%.6g", i,
                      (double)ps_rng_unit(ps_rng_next(rng)));
    }
    return n;
}

static int put_digits(char *text, size_t n_room, struct ps_rng *rng)
{
    int n = snprintf(text, n_room, "%d", (int)ps_rng_below(rng, 2));
    for (int i = 1; i < 29; i++) {
        n += snprintf(text + n, n_room - (size_t)n, ",%.18e",
                      (double)ps_rng_normal(ps_rng_next(rng)));
    }
    return n;
}

static int put_table(char *text, size_t n_room, struct ps_rng *rng)
{
    int n = snprintf(text, n_room, "%d", (int)ps_rng_below(rng, 2));
    for (int i = 1; i < 15; i++) {
        n += i % 2 == 0
                 ? snprintf(text + n, n_room - (size_t)n, ", %d", (int)ps_rng_below(rng, 99999))
                 : snprintf(text + n, n_room - (size_t)n, ", Word-%d", (int)ps_rng_below(rng, 40));
    }
    return n;
}

static int put_click(char *text, size_t n_room, struct ps_rng *rng)
{
    int n = snprintf(text, n_room, "%d", (int)ps_rng_below(rng, 2));
    for (int i = 0; i < 39; i++) {
        if (ps_rng_below(rng, 10) < 2) {
            n += snprintf(text + n, n_room - (size_t)n, "\t");
        } else if (i < 13) {
            n += snprintf(text + n, n_room - (size_t)n, "\t%d", (int)ps_rng_below(rng, 1000));
        } else {
            n += snprintf(text + n, n_room - (size_t)n, "\t%08x",
                          (unsigned)(ps_rng_next(rng) & 0xffffffffu));
        }
    }
    return n;
}

static const struct {
    const char *name;
    const char *format;
    int (*put)(char *text, size_t n_room, struct ps_rng *rng);
} kinds[] = {
    {"libsvm, 0/1 features", "libsvm", put_ones},
    {"libsvm, values of 6 digits", "libsvm", put_values},
    {"csv, numbers of 19 digits", "csv", put_digits},
    {"csv, 7 numbers and 7 texts", "csv", put_table},
    {"criteo", "criteo", put_click},
};

static void make_file(const char *path, int (*put)(char *, size_t, struct ps_rng *))
{
    FILE *file = fopen(path, "wb");
    PS_ASSERT(file != NULL);
    struct ps_rng rng = ps_rng_from(1);
    for (size_t n_bytes = 0; n_bytes < FILE_BYTES;) {
        char line[4096];
        int n = put(line, sizeof(line) - 1, &rng);
        line[n++] = '\n';
        PS_ASSERT(fwrite(line, 1, (size_t)n, file) == (size_t)n);
        n_bytes += (size_t)n;
    }
    PS_ASSERT(fclose(file) == 0);
}

static void read_bytes(const struct ps_source *source)
{
    static char chunk[PS_STREAM_BYTES];
    int fd = open(source->files[0].path, O_RDONLY | O_CLOEXEC);
    PS_ASSERT(fd >= 0);
    ssize_t n = 1;
    while (n > 0) {
        n = read(fd, chunk, sizeof(chunk));
    }
    PS_ASSERT(n == 0);
    (void)close(fd);
}

static void read_lines(const struct ps_source *source)
{
    struct ps_lines *lines = ps_lines_create(NULL, source);
    struct ps_line line = {.kind = PS_LINE_TEXT};
    PS_ASSERT(lines != NULL);
    PS_ASSERT(ps_lines_start(lines, ps_source_whole(source, 0), NULL) == PS_OK);
    while (line.kind != PS_LINE_END) {
        PS_ASSERT(ps_lines_next(lines, &line, NULL) == PS_OK);
    }
    ps_lines_destroy(lines);
}

static void read_rows(const struct ps_source *source, const struct ps_description *description)
{
    struct ps_reading_options options = {0};
    struct ps_reading *reading = NULL;
    struct ps_rows rows;
    size_t n = ROWS_A_CALL;
    ps_rows_init(&rows, NULL);
    PS_ASSERT(ps_reading_open(source, description, &options, &reading, NULL) == PS_OK);
    PS_ASSERT(ps_reading_start(reading, ps_source_whole(source, 0), NULL) == PS_OK);
    while (n == ROWS_A_CALL) {
        ps_rows_clear(&rows);
        PS_ASSERT(ps_reading_next(reading, ROWS_A_CALL, &rows, &n, NULL) == PS_OK);
    }
    ps_reading_close(reading);
    ps_rows_deinit(&rows);
}

/* As a worker takes them that shuffles. */
static void read_units(const struct ps_source *source, const struct ps_description *description)
{
    struct ps_feed_options options = {
        .part_bytes = UINT64_MAX, .unit_rows = ROWS_A_CALL, .shuffle = true};
    struct ps_feed *feed = NULL;
    struct ps_feed_unit unit = {0};
    PS_ASSERT(ps_feed_open(source, description, &options, &feed, NULL) == PS_OK);
    for (uint32_t index = 0; !unit.last; index++) {
        PS_ASSERT(ps_feed_unit(feed, 0, 0, index, &unit, NULL) == PS_OK);
    }
    ps_feed_close(feed);
}

static void measure(size_t kind, const char *path)
{
    make_file(path, kinds[kind].put);
    struct ps_learn_options options = {.format = kinds[kind].format};
    struct ps_source *source = NULL;
    struct ps_description *description = NULL;
    PS_ASSERT(ps_source_open(NULL, path, &source, NULL) == PS_OK);
    double best[N_WAYS] = {1e9, 1e9, 1e9, 1e9, 1e9};
    for (int round = 0; round < ROUNDS; round++) {
        double at[N_WAYS + 1] = {now()};
        read_bytes(source);
        at[1] = now();
        read_lines(source);
        at[2] = now();
        ps_description_destroy(description);
        PS_ASSERT(ps_learn(source, &options, &description, NULL) == PS_OK);
        at[3] = now();
        read_rows(source, description);
        at[4] = now();
        read_units(source, description);
        at[5] = now();
        for (int i = 0; i < N_WAYS; i++) {
            best[i] = at[i + 1] - at[i] < best[i] ? at[i + 1] - at[i] : best[i];
        }
    }
    double mb = (double)source->n_bytes / 1e6;
    (void)printf("%-28s", kinds[kind].name);
    for (int i = 0; i < N_WAYS; i++) {
        (void)printf(" %8.0f", mb / best[i]);
    }
    (void)printf("\n");
    ps_description_destroy(description);
    ps_source_close(source);
}

int main(void)
{
    char folder[] = "/tmp/ps-bench-XXXXXX";
    char path[64];
    PS_ASSERT(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/data", folder);
    (void)printf("%-28s %8s %8s %8s %8s %8s   MB per second of CPU, best of %d\n", "", "bytes",
                 "lines", "learn", "rows", "units", ROUNDS);
    for (size_t kind = 0; kind < PS_ARRAY_LEN(kinds); kind++) {
        measure(kind, path);
    }
    (void)unlink(path);
    (void)rmdir(folder);
    return 0;
}
