/*
 * test_sim.c — whole clusters in one thread: each seed is a cluster, a job and its bad luck, and
 * every promise must hold. Method: see sim_ledger.h and sim_plan.h.
 *
 *   PS_SIM_SEEDS=2000      how many seeds; preset 200
 *   PS_SIM_JOBS=2          processes that share them; preset 1
 *   PS_TEST_SEED=17        only this seed
 *   PS_SIM_TRACE=1         print everything that happens (2: and the log of the code under test)
 *   PS_SIM_STEP=3          only each third seed: from 3 on the plans of which nobody comes back
 *   PS_SIM_PLANTS=1        a table of planted bugs, the rare ones too; -1: not found. Or one's name
 *   PS_SIM_PLANT_SEEDS=200 within so many
 *   PS_SIM_SURVEY=1        do not stop at the first broken seed, print a line for each
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#include <malloc.h>

#include "lib/test_main.h"
#include "obs/log.h"
#include "sim/sim.h"

#define ATTEMPTS    8u   /* Schedules of a seed, until one meets all that it should. */
#define PLANT_SEEDS 200u /* Within so many a planted bug must be found. */

/* For the handler of an assertion that fails in the code under test. */
static struct sim *sim_running;

/* abort() raises its signal where it stands, not in the middle of something: printing is fine. */
/* NOLINTBEGIN(bugprone-signal-handler,cert-sig30-c) */
static void on_abort(int signal)
{
    if (sim_running != NULL && test_count("PS_SIM_SURVEY", 0) == 0) {
        sim_plan_print(&sim_running->plan);
        sim_trace_dump(sim_running->world);
    }
    if (sim_running != NULL) {
        (void)fprintf(stderr, "PS_TEST_SEED=%" PRIu64 ": aborted\n", sim_running->plan.seed);
    }
    (void)signal;
    _exit(99);
}
/* NOLINTEND(bugprone-signal-handler,cert-sig30-c) */

struct outcome {
    bool broken;
    const char *missed;  /* Static; NULL: met everything that it should. */
    uint32_t n_attempts; /* Schedules that it took. */
    uint64_t hash;
    uint64_t n_events;
    uint32_t n_anew; /* The cluster lost its coordinator and all else, and began anew. */
};

static void tell(const struct sim *sim, const char *why, bool loud)
{
    if (loud) {
        sim_plan_print(&sim->plan);
        sim_print(sim);
    }
    if (loud && !sim->world->verbose) {
        sim_trace_dump(sim->world);
    }
    (void)fprintf(stderr, "PS_TEST_SEED=%" PRIu64 ": %s\n", sim->plan.seed, why);
}

static struct outcome run_attempt(const struct sim_options *options, bool loud)
{
    struct sim *sim = sim_create(options);
    sim_running = sim;
    sim_run(sim);
    const char *broken = sim_broken_promise(sim);
    struct outcome outcome = {broken != NULL,         sim_missed(sim),      options->attempt + 1,
                              sim->world->trace_hash, sim->world->n_events, sim->watch.n_anew};
    if (broken != NULL) {
        tell(sim, broken, loud);
    } else if (outcome.missed != NULL && options->attempt + 1 == ATTEMPTS) {
        tell(sim, outcome.missed, loud);
        outcome.broken = true;
    }
    sim_running = NULL;
    sim_destroy(sim);
    return outcome;
}

/* A seed that misses what it should meet gets other schedules; one that misses it in all fails. */
static struct outcome run_seed(uint64_t seed, enum ps_plant plant, bool loud)
{
    struct sim_options options = {
        .seed = seed, .plant = plant, .verbose = test_count("PS_SIM_TRACE", 0) != 0};
    struct outcome outcome = run_attempt(&options, loud);
    while (!outcome.broken && outcome.missed != NULL) {
        options.attempt++;
        outcome = run_attempt(&options, loud);
    }
    return outcome;
}

/* In a process of its own, because an assertion of the code under test may end it. */
static int in_child(int (*run)(uint64_t, uint64_t, uint64_t), uint64_t first, uint64_t n,
                    uint64_t stride)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)signal(SIGABRT, on_abort);
        (void)signal(SIGSEGV, on_abort);
        _exit(run(first, n, stride));
    }
    return pid;
}

static int wait_for(int pid)
{
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Seeds first, first + stride, ...: 0 when all hold, else 1. */
static int run_share(uint64_t first, uint64_t n, uint64_t stride)
{
    uint64_t n_again = 0;
    uint64_t n_anew = 0;
    for (uint64_t i = 0; i < n; i += stride) {
        struct outcome outcome = run_seed(first + i, PS_PLANT_NONE, true);
        if (outcome.broken) {
            return 1;
        }
        n_again += outcome.n_attempts > 1;
        n_anew += outcome.n_anew > 0;
    }
    (void)printf("sim: %" PRIu64 " seeds needed another schedule, %" PRIu64
                 " clusters began anew\n",
                 n_again, n_anew);
    (void)fflush(stdout);
    return 0;
}

static int run_one(uint64_t seed, uint64_t n, uint64_t stride)
{
    (void)n;
    (void)stride;
    return run_seed(seed, PS_PLANT_NONE, false).broken;
}

/* As run_share, but goes on after a broken seed, and says no more than a line for each. */
static int run_survey(uint64_t first, uint64_t n, uint64_t stride)
{
    int n_broken = 0;
    for (uint64_t i = 0; i < n; i += stride) {
        n_broken += wait_for(in_child(run_one, first + i, 1, 1)) != 0;
    }
    return n_broken > 0;
}

START_TEST(every_seed_keeps_every_promise)
{
    bool one = getenv("PS_TEST_SEED") != NULL && getenv("PS_SIM_SEEDS") == NULL;
    uint64_t n_seeds = one ? 1 : test_count("PS_SIM_SEEDS", 200);
    uint64_t n_jobs = test_count("PS_SIM_JOBS", 1);
    uint64_t step = test_count("PS_SIM_STEP", 1);
    int pids[16];
    ck_assert_uint_le(n_jobs, PS_ARRAY_LEN(pids));
    ck_assert_uint_le(n_jobs * step, one ? step : n_seeds);
    for (uint64_t job = 0; job < n_jobs; job++) {
        pids[job] = in_child(test_count("PS_SIM_SURVEY", 0) != 0 ? run_survey : run_share,
                             test_seed() + job * step, n_seeds - job * step, n_jobs * step);
    }
    int n_broken = 0;
    for (uint64_t job = 0; job < n_jobs; job++) {
        n_broken += wait_for(pids[job]) != 0;
    }
    ck_assert_msg(n_broken == 0, "a promise was broken, see above");
    (void)printf("sim: %" PRIu64 " seeds from %" PRIu64 " kept every promise\n", n_seeds,
                 test_seed());
}
END_TEST

START_TEST(the_same_seed_is_the_same_run_bit_for_bit)
{
    for (uint64_t seed = test_seed(); seed < test_seed() + 5; seed++) {
        struct outcome first = run_seed(seed, PS_PLANT_NONE, true);
        struct outcome second = run_seed(seed, PS_PLANT_NONE, true);
        ck_assert_msg(first.hash == second.hash && first.n_events == second.n_events,
                      "seed %" PRIu64 " ran in two ways", seed);
    }
}
END_TEST

#ifdef PS_PLANT
/* The number of seeds after which the plant was found; `n`: it was not. As a status: below 256. */
static int hunt(uint64_t first, uint64_t n, uint64_t plant)
{
    for (uint64_t i = 0; i < n; i++) {
        if (run_seed(first + i, (enum ps_plant)plant, false).broken) {
            return (int)i;
        }
    }
    return (int)n;
}

static const struct {
    enum ps_plant plant;
    const char *name;
    bool rare; /* Not in every run of PLANT_SEEDS: tried only when PS_SIM_PLANTS asks. */
} plants[] = {
    {PS_PLANT_GATE_OFF_BY_ONE, "gate-off-by-one", false},
    {PS_PLANT_DEDUPE_OFF, "dedupe-off", false},
    {PS_PLANT_DEAD_IN_MINIMUM, "dead-in-minimum", false},
    {PS_PLANT_ACK_BEFORE_SYNC, "ack-before-sync", true},
    {PS_PLANT_REPEAT_BEFORE_DURABLE, "repeat-before-durable", false},
    {PS_PLANT_SESSIONS_NOT_IN_CUT, "sessions-not-in-cut", false},
    {PS_PLANT_SESSIONS_NOT_REPLAYED, "sessions-not-replayed", false},
    {PS_PLANT_DEDUPE_WITHOUT_STREAM, "dedupe-without-stream", false},
    {PS_PLANT_MIDDLE_TRUNCATED, "middle-truncated", true},
    {PS_PLANT_RENAME_BEFORE_SYNC, "rename-before-sync", false},
    {PS_PLANT_DIR_NOT_SYNCED, "dir-not-synced", false},
    {PS_PLANT_LOG_TRIMMED_EARLY, "log-trimmed-early", true},
    {PS_PLANT_REORDER_EQUAL_LSN, "reorder-equal-lsn", false},
    {PS_PLANT_FENCE_AT_APPLIED, "fence-at-applied", true},
    {PS_PLANT_STREAM_FORGOTTEN, "stream-forgotten", false},
    {PS_PLANT_PROGRESS_AFTER_CUT, "progress-after-cut", true},
    {PS_PLANT_TAKEOVER_CLOCKS, "takeover-clocks", false},
    {PS_PLANT_TAKEOVER_LENDS, "takeover-lends", true},
    {PS_PLANT_RESTORE_TWO_WRITES, "restore-two-writes", true},
    {PS_PLANT_EPOCH_KEPT, "epoch-kept", true},
};

/* As hunt(), for more seeds. */
static uint64_t hunt_long(uint64_t n_seeds, uint64_t plant)
{
    for (uint64_t at = 0; at < n_seeds; at += PLANT_SEEDS) {
        uint64_t n = n_seeds - at < PLANT_SEEDS ? n_seeds - at : PLANT_SEEDS;
        uint64_t found = (uint64_t)wait_for(in_child(hunt, test_seed() + at, n, plant));
        if (found != n) {
            return at + found;
        }
    }
    return n_seeds;
}

START_TEST(a_planted_bug_is_found)
{
    const char *asked = getenv("PS_SIM_PLANTS");
    const char *name = plants[_i].name;
    if (asked == NULL ? plants[_i].rare : strcmp(asked, "1") != 0 && strcmp(asked, name) != 0) {
        return;
    }
    uint64_t n_seeds = test_count("PS_SIM_PLANT_SEEDS", PLANT_SEEDS);
    uint64_t n = hunt_long(n_seeds, (uint64_t)plants[_i].plant);
    if (asked != NULL) { /* A table of them all. */
        (void)printf("%-24s %" PRId64 "\n", name, n == n_seeds ? -1 : (int64_t)n + 1);
        return;
    }
    ck_assert_msg(n < n_seeds, "'%s' was not found in %" PRIu64 " seeds", name, n_seeds);
    (void)printf("sim: planted '%s' was found by seed number %" PRIu64 "\n", name, n + 1);
}
END_TEST
#else
START_TEST(planted_bugs_need_a_build_with_plant)
{
    (void)printf("sim: skipped: planted bugs; configure with -Dplant=true\n");
}
END_TEST
#endif

static Suite *suite_sim(void)
{
    ps_log_level_set(test_count("PS_SIM_TRACE", 0) > 1 ? PS_LOG_DEBUG : PS_LOG_NONE);
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 20); /* Clusters come and go: keep their memory. */
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    Suite *suite = suite_create("sim");
    TCase *tcase = tcase_create("promises");
    TCase *plants_case = tcase_create("plants");
    tcase_set_timeout(tcase, 0); /* The build's test runner has one. */
    tcase_set_timeout(plants_case, 0);
    tcase_add_test(tcase, every_seed_keeps_every_promise);
    tcase_add_test(tcase, the_same_seed_is_the_same_run_bit_for_bit);
#ifdef PS_PLANT
    tcase_add_loop_test(plants_case, a_planted_bug_is_found, 0, (int)PS_ARRAY_LEN(plants));
#else
    tcase_add_test(plants_case, planted_bugs_need_a_build_with_plant);
#endif
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, plants_case);
    return suite;
}

PS_TEST_MAIN(suite_sim)
