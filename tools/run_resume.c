/* run_resume.c — a job that the servers have brought with them from an earlier run. */
#include <inttypes.h>

#include "os/clock.h"
#include "run_cluster.h"
#include "train/loop.h"

#define DONE_MS 5000u /* For the servers to agree that nothing is left to do. */

/* All workers must say the same seed as those before them, and so must the model's notes. */
static void take_seed(struct cluster *c, uint64_t seed)
{
    struct run *run = c->run;
    if (ps_conf_given(&run->conf, "seed") || seed == run->options.train.seed) {
        return; /* If it is another one, workers are refused, with words. */
    }
    struct ps_error err = {0};
    enum ps_status status = ps_training_seed(&run->training, seed, &err);
    run->options.train.seed = seed;
    if (status != PS_OK) {
        run_screen_say(&c->screen, "%s", err.text);
        run_cluster_fail(c, ps_train_exit_status(status));
    }
}

/* Nothing is left to be lent; that the job is done follows when every server has said so. */
static bool complete(const struct ps_cluster *seen, const struct ps_progress *progress)
{
    return seen->job == PS_JOB_RUNNING && progress->rows_total > 0 &&
           progress->rows_done >= progress->rows_total;
}

/* False: there is no answer, or no job. */
static bool ask(struct cluster *c, struct ps_progress *ret)
{
    if (!run_cluster_ask(c)) {
        run_screen_say(&c->screen, "asking the coordinator: %s", c->ask.err.text);
        run_cluster_fail(c, 4);
        return false;
    }
    ps_outcome_progress(c->ask.cluster, ret);
    return c->ask.cluster->has_definition;
}

void run_resume(struct cluster *c)
{
    struct ps_progress progress;
    if (!run_start_lasts(c->run) || !ask(c, &progress)) {
        return;
    }
    uint64_t until_ms = ps_clock_ms() + DONE_MS;
    while (complete(c->ask.cluster, &progress) && ps_clock_ms() < until_ms) {
        run_cluster_turn(c);
        if (!run_cluster_going(c) || !ask(c, &progress)) {
            return;
        }
    }
    const struct ps_cluster *seen = c->ask.cluster;
    if (c->done) {
        run_screen_say(&c->screen,
                       "this job is done already, %" PRIu64 " steps: its model is judged",
                       seen->steps);
    } else {
        run_screen_say(&c->screen,
                       "this job goes on in epoch %" PRIu64 " of %" PRIu64 ", after %" PRIu64
                       " rows",
                       progress.epoch + 1, progress.n_epochs, progress.rows_done);
    }
    take_seed(c, seen->definition.seed);
}
