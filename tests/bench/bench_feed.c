/*
 * bench_feed.c — does it help to read ahead? A worker takes shuffled units of libsvm text and
 * spends as long on each as reading it takes (or twice, or no time): by computing, or by waiting
 * for servers. Rates by the clock, so other work on the machine shows; each pair is of the same
 * minute.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <poll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/rng.h"
#include "data/feed.h"
#include "data/learning.h"

#define FILE_BYTES (64u << 20)
#define UNIT_ROWS  1000u
#define ROUNDS     5

static double seconds(clockid_t clock)
{
    struct timespec time;
    PS_ASSERT(clock_gettime(clock, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void make_file(const char *path)
{
    FILE *file = fopen(path, "wb");
    PS_ASSERT(file != NULL);
    struct ps_rng rng = ps_rng_from(1);
    for (int n_bytes = 0; n_bytes < (int)FILE_BYTES;) {
        n_bytes += fprintf(file, "%d", (int)ps_rng_below(&rng, 2));
        for (uint64_t i = 1; i < 1000000; i += 1 + ps_rng_below(&rng, 60000)) {
            n_bytes +=
                fprintf(file, " %" PRIu64 ":%.6g", i, (double)ps_rng_unit(ps_rng_next(&rng)));
        }
        n_bytes += fprintf(file, "\n");
    }
    PS_ASSERT(fclose(file) == 0);
}

static void spend(double time, bool wait)
{
    if (wait && time > 0.0) {
        struct timespec span = {.tv_nsec = (long)(time * 1e9)};
        (void)ppoll(NULL, 0, &span, NULL);
        return;
    }
    double end = seconds(CLOCK_THREAD_CPUTIME_ID) + time;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

struct run {
    double spent; /* Seconds on each unit, */
    bool wait;    /* by waiting. */
    bool read_ahead;
    double took;    /* All units, */
    double longest; /* and the longest call for one. */
    uint32_t n_units;
};

static void take_units(const struct ps_source *source, const struct ps_description *description,
                       struct run *run)
{
    struct ps_feed_options options = {.part_bytes = UINT64_MAX,
                                      .unit_rows = UNIT_ROWS,
                                      .shuffle = true,
                                      .read_ahead = run->read_ahead};
    struct ps_feed *feed = NULL;
    struct ps_feed_unit unit = {0};
    PS_ASSERT(ps_feed_open(source, description, &options, &feed, NULL) == PS_OK);
    double start = seconds(CLOCK_MONOTONIC);
    double longest = 0.0;
    run->n_units = 0;
    while (!unit.last) {
        double asked = seconds(CLOCK_MONOTONIC);
        PS_ASSERT(ps_feed_unit(feed, 0, 0, run->n_units, &unit, NULL) == PS_OK);
        double call = seconds(CLOCK_MONOTONIC) - asked;
        longest = run->n_units > 0 && call > longest ? call : longest;
        run->n_units++;
        spend(run->spent, run->wait);
    }
    double took = seconds(CLOCK_MONOTONIC) - start;
    if (run->took == 0.0 || took < run->took) {
        run->took = took;
        run->longest = longest;
    }
    ps_feed_close(feed);
}

static void compare(const struct ps_source *source, const struct ps_description *description,
                    double spent, bool wait)
{
    struct run runs[2] = {{.spent = spent, .wait = wait},
                          {.spent = spent, .wait = wait, .read_ahead = true}};
    for (int round = 0; round < ROUNDS; round++) {
        take_units(source, description, &runs[0]);
        take_units(source, description, &runs[1]);
    }
    double mb = (double)source->n_bytes / 1e6;
    (void)printf("%6.2f ms a unit %-10s %8.0f %8.0f %8.2f %14.1f %8.1f\n", spent * 1e3,
                 wait ? "waiting" : "computing", mb / runs[0].took, mb / runs[1].took,
                 runs[0].took / runs[1].took, runs[0].longest * 1e3, runs[1].longest * 1e3);
}

int main(void)
{
    char folder[] = "/tmp/ps-bench-XXXXXX";
    char path[64];
    struct ps_source *source = NULL;
    struct ps_description *description = NULL;
    struct ps_learn_options options = {.format = "libsvm"};
    PS_ASSERT(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/data", folder);
    make_file(path);
    PS_ASSERT(ps_source_open(NULL, path, &source, NULL) == PS_OK);
    PS_ASSERT(ps_learn(source, &options, &description, NULL) == PS_OK);
    struct run run = {0};
    take_units(source, description, &run);
    double once = run.took / run.n_units;
    (void)printf("%-26s %8s %8s %8s %14s %8s   MB/s by the clock, best of %d\n", "", "alone",
                 "ahead", "times", "longest ms", "ahead", ROUNDS);
    compare(source, description, 0.0, false);
    compare(source, description, once, false);
    compare(source, description, 2.0 * once, false);
    compare(source, description, once, true);
    compare(source, description, 2.0 * once, true);
    ps_description_destroy(description);
    ps_source_close(source);
    (void)unlink(path);
    (void)rmdir(folder);
    return 0;
}
