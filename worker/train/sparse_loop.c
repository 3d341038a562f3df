/* sparse_loop.c — see sparse_loop.h. From definitions to the end of the job. */
#include "train/sparse_loop.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "obs/log.h"
#include "train/sparse_trainer.h"

static enum ps_status step(void *arg)
{
    return ps_sparse_step(arg);
}

/* ---- Begin and end ------------------------------------------------------------------------- */

static enum ps_status define_table(struct ps_sparse_trainer *t, const struct ps_table_def *def,
                                   uint32_t *ret)
{
    struct ps_table table;
    enum ps_status status = ps_client_define_table(t->client, def, &table, t->err);
    if (status != PS_OK) {
        return ps_wrap(t->err, status, "defining table %s", def->name);
    }
    *ret = table.number;
    return PS_OK;
}

static enum ps_status define_tables(struct ps_sparse_trainer *t)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < t->model->n_sparse && status == PS_OK; i++) {
        struct ps_table_def def = ps_sparse_plan_rows(t->plan, i);
        status = define_table(t, &def, &t->sparse[i]);
    }
    for (uint32_t i = 0; i < t->model->n_dense && status == PS_OK; i++) {
        struct ps_table_def def = ps_sparse_plan_dense(t->plan, i);
        status = define_table(t, &def, &t->dense[i]);
    }
    return status;
}

static enum ps_status define_job(struct ps_sparse_trainer *t)
{
    const struct ps_sparse_plan *plan = t->plan;
    const struct ps_train_options *options = &plan->options;
    /* All that makes workers one job: another rate or order would spoil it silently. */
    char model[PS_TRAIN_TEXT_BYTES + 320];
    (void)snprintf(model, sizeof(model),
                   "%s lr=%.9g schedule=%.120s local-steps=%" PRIu32 " window-rows=%" PRIu32
                   " bias=%s",
                   plan->model_text, (double)plan->schedule.rate, options->schedule,
                   options->local_steps, options->window_rows, options->bias ? "yes" : "no");
    struct ps_job_def job = {
        .model = model,
        .data = plan->data_text,
        .setup = plan->setup_text,
        .parts = plan->parts.n_parts,
        .batch = plan->parts.unit_rows,
        .epochs = options->epochs,
        .shuffle = options->shuffle,
        .seed = options->seed,
        .workers = options->workers,
        .start_timeout_ms = (uint32_t)options->start_timeout_ms,
        .consistency = plan->consistency,
    };
    enum ps_status status = ps_client_define_job(t->client, &job, t->err);
    return status == PS_OK ? PS_OK : ps_wrap(t->err, status, "defining the job");
}

static enum ps_status open_feed(struct ps_sparse_trainer *t)
{
    struct ps_sparse_plan *plan = t->plan;
    const struct ps_train_options *options = &plan->options;
    struct ps_feed_options how = {
        .mem = plan->mem,
        .part_bytes = plan->parts.part_bytes,
        .unit_rows = plan->parts.unit_rows,
        .shuffle = options->shuffle,
        .seed = options->seed,
        .max_bad_rows = options->max_bad_rows,
        .window_rows = options->window_rows,
        .read_ahead = options->read_ahead,
    };
    return ps_feed_open(plan->train, plan->setup->description, &how, &t->feed, t->err);
}

/* All workers of a cluster draw the same seed, and the next cluster another one. */
static enum ps_status seed_from_cluster(struct ps_sparse_trainer *t)
{
    if (t->plan->options.seed_given) {
        return PS_OK;
    }
    return ps_sparse_plan_seed(t->plan, ps_units_seed(t->client), t->err);
}

static enum ps_status begin(struct ps_sparse_trainer *t)
{
    enum ps_status status = seed_from_cluster(t);
    t->model = t->plan->setup->model;
    ps_sparse_batch_init(&t->sides[0].batch, t->plan->mem);
    ps_sparse_batch_init(&t->sides[1].batch, t->plan->mem);
    ps_sparse_batch_init(&t->part, t->plan->mem);
    if (status == PS_OK) {
        status = define_tables(t);
    }
    if (status == PS_OK) {
        status = define_job(t);
    }
    if (status == PS_OK) {
        status = open_feed(t);
    }
    struct ps_sparse_arrays *all[] = {&t->sides[0].weights, &t->sides[1].weights, &t->grads,
                                      &t->part_weights, &t->part_grads};
    for (size_t i = 0; i < PS_ARRAY_LEN(all) && status == PS_OK; i++) {
        status = ps_sparse_arrays_init(t, all[i]);
    }
    return status;
}

/* What was passed over is nobody's secret: each line is told by the one who skipped it. */
static void say_skipped(const struct ps_sparse_trainer *t)
{
    if (t->feed == NULL) {
        return;
    }
    uint64_t n = ps_feed_counts(t->feed).n_bad;
    for (uint32_t i = 0; i < PS_BAD_ROWS_TOLD && i < n; i++) {
        ps_log(PS_LOG_WARN, "rows.skipped", "line=%u of=%" PRIu64 " why=\"%s\"", i + 1, n,
               ps_feed_bad(t->feed, i));
    }
}

static void end(struct ps_sparse_trainer *t)
{
    say_skipped(t);
    ps_sparse_arrays_deinit(&t->sides[0].weights);
    ps_sparse_arrays_deinit(&t->sides[1].weights);
    ps_sparse_arrays_deinit(&t->grads);
    ps_sparse_arrays_deinit(&t->part_weights);
    ps_sparse_arrays_deinit(&t->part_grads);
    ps_sparse_batch_deinit(&t->sides[0].batch);
    ps_sparse_batch_deinit(&t->sides[1].batch);
    ps_sparse_batch_deinit(&t->part);
    ps_mem_free(t->places);
    ps_feed_close(t->feed);
    ps_mem_free(t);
}

enum ps_status ps_sparse_run(struct ps_sparse_plan *plan, struct ps_client *client,
                             const _Atomic bool *stop, struct ps_train_result *ret,
                             struct ps_error *err)
{
    struct ps_sparse_trainer *t = ps_mem_alloc(plan->mem, PS_MEM_OTHER, sizeof(*t));
    if (t == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to train");
    }
    t->plan = plan;
    t->client = client;
    t->err = err;
    t->units = (struct ps_units){.client = client,
                                 .stop = stop,
                                 .err = err,
                                 .unit = &t->unit,
                                 .idle = "every part is lent to others",
                                 .late = ps_units_over(client)};
    enum ps_status status = begin(t);
    if (status == PS_OK) {
        status = ps_units_run(&t->units, step, t);
    }
    *ret = ps_units_end(&t->units, status);
    end(t);
    return status;
}
